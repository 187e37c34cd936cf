//! One bit per entry, in sets, that answers "which is the lowest clear bit of this set" quickly.

use super::keys::Geometry;

/// Bits in sets. Finding the lowest clear bit costs O(1) on average: a search starts at the word where the last one ended,
/// and only clearing a bit below moves that back.
pub(super) struct Bits {
    words: Box<[u64]>,
    /// Per set: no word before this one has a clear bit.
    from: Box<[u32]>,
    words_per_set: usize,
    /// Ones where the last word of a set has no entry.
    pad: u64,
}

impl Bits {
    pub fn new(g: Geometry) -> Bits {
        let words_per_set = g.ways.div_ceil(64);
        let pad = if g.ways.is_multiple_of(64) { 0 } else { !0 << (g.ways % 64) };
        let mut bits = Bits { words: vec![0; g.sets * words_per_set].into(), from: vec![0; g.sets].into(), words_per_set, pad };
        (0..g.sets).for_each(|set| bits.clear_set(set));
        bits
    }

    #[inline]
    pub fn get(&self, set: usize, way: usize) -> bool {
        self.words[set * self.words_per_set + way / 64] >> (way % 64) & 1 != 0
    }

    #[inline]
    pub fn set(&mut self, set: usize, way: usize) {
        self.words[set * self.words_per_set + way / 64] |= 1 << (way % 64);
    }

    #[inline]
    pub fn clear(&mut self, set: usize, way: usize) {
        self.words[set * self.words_per_set + way / 64] &= !(1 << (way % 64));
        self.from[set] = self.from[set].min((way / 64) as u32);
    }

    pub fn clear_set(&mut self, set: usize) {
        let words = &mut self.words[set * self.words_per_set..][..self.words_per_set];
        words.fill(0);
        words[self.words_per_set - 1] = self.pad;
        self.from[set] = 0;
    }

    /// The lowest clear bit of the set; `None` if all are set.
    #[inline]
    pub fn first_clear(&mut self, set: usize) -> Option<usize> {
        self.first_clear_but(set, |_| false)
    }

    /// Sets the clear bits of the set in ascending order as long as `goes_on`, and returns the one where it did not; `None` if all are set.
    #[inline(always)]
    pub fn first_clear_but(&mut self, set: usize, mut goes_on: impl FnMut(usize) -> bool) -> Option<usize> {
        let from = &mut self.from[set];
        for i in *from as usize..self.words_per_set {
            let word = &mut self.words[set * self.words_per_set + i];
            let mut bits = *word;
            while bits != !0 {
                let way = i * 64 + bits.trailing_ones() as usize;
                if !goes_on(way) {
                    *word = bits;
                    *from = i as u32;
                    return Some(way);
                }
                bits |= bits + 1;
            }
            *word = bits;
        }
        *from = self.words_per_set as u32;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_clear_bit_follows_sets_and_clears() {
        for (sets, ways) in [(1, 1), (1, 64), (1, 65), (4, 3), (2, 200)] {
            let mut bits = Bits::new(Geometry { sets, ways });
            for set in 0..sets {
                for way in 0..ways {
                    assert_eq!(bits.first_clear(set), Some(way));
                    bits.set(set, way);
                    assert!(bits.get(set, way));
                }
                assert_eq!(bits.first_clear(set), None);
                bits.clear_set(set);
                let last = ways - 1;
                assert_eq!(bits.first_clear_but(set, |way| way < last), Some(last));
                assert!((0..ways).all(|way| bits.get(set, way) == (way < last)));
                assert_eq!(bits.first_clear_but(set, |_| true), None);
                assert!((0..ways).all(|way| bits.get(set, way)));
                for way in (0..ways).rev() {
                    bits.clear(set, way);
                    assert_eq!(bits.first_clear(set), Some(way));
                }
            }
        }
    }
}
