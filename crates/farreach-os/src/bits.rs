//! Runs of set bits.

/// The bits `first..first + n` of a word; `first + n` is at most 64.
#[inline]
pub fn mask(first: u64, n: u64) -> u64 {
    if n == 0 { 0 } else { u64::MAX >> (64 - n) << first }
}

/// The maximal runs of set bits of words that follow each other, as number of the first bit and length, ascending.
pub fn runs(words: &[u64]) -> impl Iterator<Item = (u64, u64)> + '_ {
    let mut at = 0;
    let end = 64 * words.len() as u64;
    std::iter::from_fn(move || {
        let first = next(words, at, 0)?;
        let last = next(words, first, u64::MAX).unwrap_or(end);
        at = last;
        Some((first, last - first))
    })
}

/// The first bit from `from` on that differs from the background (all zeros or all ones).
fn next(words: &[u64], from: u64, background: u64) -> Option<u64> {
    let mut word = (from / 64) as usize;
    let mut left = (words.get(word)? ^ background) & (u64::MAX << (from % 64));
    loop {
        if left != 0 {
            return Some(64 * word as u64 + u64::from(left.trailing_zeros()));
        }
        word += 1;
        left = words.get(word)? ^ background;
    }
}

/// The parts of `first..first + n` in groups of `size`, a power of two: number of the group, first in it, how many.
pub fn groups(first: u64, n: u64, size: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    let (mut at, end) = (first, first + n);
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let inside = at % size;
            let part = (at / size, inside, (size - inside).min(end - at));
            at += part.2;
            part
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_across_words() {
        let words = [0b1110, 0, 1 << 63, u64::MAX, 1];
        assert_eq!(runs(&words).collect::<Vec<_>>(), [(1, 3), (191, 66)]);
        assert_eq!(runs(&[0, 0]).count(), 0);
        assert_eq!(runs(&[u64::MAX; 2]).collect::<Vec<_>>(), [(0, 128)]);
        assert_eq!((mask(0, 64), mask(3, 2), mask(63, 1), mask(5, 0)), (u64::MAX, 0b11000, 1 << 63, 0));
    }

    #[test]
    fn ranges_fall_into_groups() {
        assert_eq!(groups(60, 70, 64).collect::<Vec<_>>(), [(0, 60, 4), (1, 0, 64), (2, 0, 2)]);
        assert_eq!(groups(5, 0, 64).count(), 0);
    }
}
