//! A set of frames that takes memory by the frames in it, not by their numbers.

use hashbrown::HashMap;
use std::ops::Range;

/// Frames per chunk: one cache line of bits.
const CHUNK: u64 = 512;

/// A bitmap in chunks that exist while a frame of them is in the set.
#[derive(Default)]
pub struct FrameSet {
    chunks: HashMap<u64, [u64; (CHUNK / 64) as usize]>,
    len: u64,
}

impl FrameSet {
    /// Frames in the set.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Of the 64 frames from `64 * word` on, those in the set, as bits.
    pub fn word(&self, word: u64) -> u64 {
        let per_chunk = CHUNK / 64;
        self.chunks.get(&(word / per_chunk)).map_or(0, |chunk| chunk[(word % per_chunk) as usize])
    }

    /// Whether a frame is in the set.
    pub fn contains(&self, frame: u64) -> bool {
        self.word(frame / 64) >> (frame % 64) & 1 == 1
    }

    /// The frames in the set, in no order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let words = self.chunks.iter().flat_map(|(chunk, words)| (chunk * (CHUNK / 64)..).zip(words));
        words.flat_map(|(word, bits)| (0..64).filter(move |at| bits >> at & 1 == 1).map(move |at| 64 * word + at))
    }

    /// Adds the frames of `range`. None of them may be in the set already.
    pub fn insert(&mut self, range: Range<u64>) {
        self.len += range.end - range.start;
        for (chunk, word, mask) in pieces(range) {
            let bits = &mut self.chunks.entry(chunk).or_default()[word];
            debug_assert_eq!(*bits & mask, 0, "a frame enters twice");
            *bits |= mask;
        }
    }

    /// Removes the frames of `range`. `false`, and no change, unless all are in the set.
    pub fn remove(&mut self, range: Range<u64>) -> bool {
        let has =
            |(chunk, word, mask): (u64, usize, u64)| self.chunks.get(&chunk).is_some_and(|c| c[word] & mask == mask);
        if !pieces(range.clone()).all(has) {
            return false;
        }
        self.len -= range.end - range.start;
        for (chunk, word, mask) in pieces(range) {
            let Some(bits) = self.chunks.get_mut(&chunk) else { continue };
            bits[word] &= !mask;
            if bits.iter().all(|&w| w == 0) {
                self.chunks.remove(&chunk);
            }
        }
        true
    }
}

/// The words that `range` touches: chunk, word in the chunk, bits.
fn pieces(range: Range<u64>) -> impl Iterator<Item = (u64, usize, u64)> {
    super::pinned::pieces(range).map(|(word, mask)| (word / (CHUNK / 64), (word % (CHUNK / 64)) as usize, mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_enter_and_leave() {
        let mut set = FrameSet::default();
        set.insert(500..1100);
        set.insert(7..8);
        assert_eq!(set.len(), 601);
        assert_eq!((set.word(0), set.word(8), set.word(17), set.word(99)), (1 << 7, u64::MAX, (1 << 12) - 1, 0));
        assert!(set.contains(7) && set.contains(1099) && !set.contains(8) && !set.contains(1100));
        let mut all: Vec<u64> = set.iter().collect();
        all.sort_unstable();
        assert_eq!(all, std::iter::once(7).chain(500..1100).collect::<Vec<_>>());
        assert!(!set.remove(499..501) && !set.remove(1000..1101), "one frame is missing: nothing happens");
        assert!(set.remove(500..1100) && set.remove(7..8) && !set.remove(7..8));
        assert!(set.len() == 0 && set.chunks.is_empty());
    }
}
