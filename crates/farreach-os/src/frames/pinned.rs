//! The physical memory an allocator starts with: its size, and the frames that belong to others.

use std::ops::Range;
use std::sync::Arc;

/// The end of an unlimited memory: far beyond any frame that is ever reached, and aligned to every block size.
const NO_END: u64 = 1 << 60;

/// Pinned frames, one bit per frame up to the last pinned one. Clones share the bits: many machines can start from one
/// set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinnedSet {
    words: Arc<[u64]>,
    count: u64,
}

impl PinnedSet {
    /// The frames of `ranges`, in any order; they may overlap.
    pub fn from_ranges(ranges: impl IntoIterator<Item = Range<u64>>) -> PinnedSet {
        let mut bits = Bits::default();
        for range in ranges {
            bits.set(range);
        }
        bits.into()
    }

    /// Number of pinned frames.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether `frame` is pinned.
    #[inline]
    pub fn contains(&self, frame: u64) -> bool {
        self.words.get((frame / 64) as usize).is_some_and(|w| w >> (frame % 64) & 1 == 1)
    }

    /// Of the 64 frames from `64 * word` on, the pinned ones, as bits.
    pub(super) fn word(&self, word: u64) -> u64 {
        self.words.get(word as usize).copied().unwrap_or(0)
    }

    /// The first pinned frame at or after `from`.
    pub fn next_pinned(&self, from: u64) -> Option<u64> {
        self.scan(from, 0)
    }

    /// The first frame at or after `from` that is not pinned.
    pub fn next_unpinned(&self, from: u64) -> u64 {
        self.scan(from, u64::MAX).unwrap_or_else(|| from.max(64 * self.words.len() as u64))
    }

    /// Whether any frame of `range` is pinned.
    pub fn any_in(&self, range: Range<u64>) -> bool {
        self.next_pinned(range.start).is_some_and(|f| f < range.end)
    }

    /// The pinned frames as maximal ranges, ascending.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let start = self.next_pinned(from)?;
            from = self.next_unpinned(start);
            Some(start..from)
        })
    }

    /// The first frame at or after `from` whose bit differs from those of `background` (all zeros or all ones).
    fn scan(&self, from: u64, background: u64) -> Option<u64> {
        let first = usize::try_from(from / 64).ok().filter(|&i| i < self.words.len())?;
        let head = (self.words[first] ^ background) >> (from % 64);
        if head != 0 {
            return Some(from + u64::from(head.trailing_zeros()));
        }
        let rest = self.words[first + 1..].iter().position(|w| w ^ background != 0)?;
        let at = first + 1 + rest;
        Some(64 * at as u64 + u64::from((self.words[at] ^ background).trailing_zeros()))
    }
}

/// A set of pinned frames under construction.
#[derive(Default)]
pub(super) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// Whether `frame` is in the set.
    pub(super) fn has(&self, frame: u64) -> bool {
        self.words.get((frame / 64) as usize).is_some_and(|w| w >> (frame % 64) & 1 == 1)
    }

    /// Whether all frames of `range` are in the set.
    pub(super) fn has_all(&self, range: Range<u64>) -> bool {
        pieces(range).all(|(word, mask)| self.words.get(word as usize).is_some_and(|w| w & mask == mask))
    }

    /// Adds the frames of `range`.
    pub(super) fn set(&mut self, range: Range<u64>) {
        let needed = range.end.div_ceil(64) as usize;
        if !range.is_empty() && needed > self.words.len() {
            self.words.resize(needed, 0);
        }
        pieces(range).for_each(|(word, mask)| self.words[word as usize] |= mask);
    }

    /// Removes the frames of `range`, which lie below the highest frame ever added.
    pub(super) fn clear(&mut self, range: Range<u64>) {
        pieces(range).for_each(|(word, mask)| self.words[word as usize] &= !mask);
    }
}

/// The 64-frame words that `range` touches, each with the bits it touches there.
pub(super) fn pieces(range: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        (at < range.end).then(|| {
            let stop = range.end.min((at / 64 + 1) * 64);
            let piece = (at / 64, (u64::MAX >> (64 - (stop - at))) << (at % 64));
            at = stop;
            piece
        })
    })
}

impl From<Bits> for PinnedSet {
    fn from(mut bits: Bits) -> PinnedSet {
        while bits.words.last() == Some(&0) {
            bits.words.pop();
        }
        let count = bits.words.iter().map(|w| u64::from(w.count_ones())).sum();
        PinnedSet { words: bits.words.into(), count }
    }
}

/// A physical memory without an allocated frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhysicalMemory {
    frames: Option<u64>,
    pinned: PinnedSet,
    /// Frames that belong to others too, but may be moved; none of them is pinned.
    movable: PinnedSet,
}

impl PhysicalMemory {
    /// `frames` frames, `None`: unlimited; the pinned ones belong to others. Panics when a pinned frame lies outside.
    pub fn new(frames: Option<u64>, pinned: PinnedSet) -> PhysicalMemory {
        let end = frames.unwrap_or(NO_END);
        assert!(end <= NO_END, "a memory has at most 2^60 frames");
        assert!(pinned.next_pinned(end).is_none(), "a pinned frame lies beyond the {end} frames of the memory");
        PhysicalMemory { frames, pinned, movable: PinnedSet::default() }
    }

    /// Of the frames of others, those for which `may` holds, given the number of their aligned group of `group` frames,
    /// are not pinned but movable. It is asked once for each group with such frames, ascending.
    pub fn with_movable(self, group: u64, mut may: impl FnMut(u64) -> bool) -> PhysicalMemory {
        let (mut pinned, mut movable) = (Bits::default(), Bits::default());
        let mut last = None;
        for range in self.pinned.ranges() {
            let mut at = range.start;
            while at < range.end {
                let number = at / group;
                let end = range.end.min((number + 1) * group);
                let moves = match last {
                    Some((same, moves)) if same == number => moves,
                    _ => may(number),
                };
                last = Some((number, moves));
                if moves { &mut movable } else { &mut pinned }.set(at..end);
                at = end;
            }
        }
        PhysicalMemory { pinned: pinned.into(), movable: movable.into(), ..self }
    }

    /// An unlimited memory, all of it free.
    pub fn unlimited() -> PhysicalMemory {
        PhysicalMemory::default()
    }

    /// A memory of `frames` frames, all of them free.
    pub fn of(frames: u64) -> PhysicalMemory {
        PhysicalMemory::new(Some(frames), PinnedSet::default())
    }

    /// A memory of `frames` frames, those of `pinned` belonging to others.
    pub fn with_pins(frames: u64, pinned: impl IntoIterator<Item = Range<u64>>) -> PhysicalMemory {
        PhysicalMemory::new(Some(frames), PinnedSet::from_ranges(pinned))
    }

    /// Number of frames; `None`: unlimited.
    pub fn frames(&self) -> Option<u64> {
        self.frames
    }

    /// The frames that belong to others.
    pub fn pinned(&self) -> &PinnedSet {
        &self.pinned
    }

    /// The frames of others that may be moved.
    pub fn movable(&self) -> &PinnedSet {
        &self.movable
    }

    /// Of the 64 frames from `64 * word` on, those that exist and are not pinned, as bits.
    pub(super) fn open_of(&self, word: u64) -> u64 {
        let there = self.end().saturating_sub(64 * word).min(64);
        let exist = if there == 64 { u64::MAX } else { (1 << there) - 1 };
        exist & !self.pinned.word(word)
    }

    /// One past the last frame, a very large number for an unlimited memory.
    pub(super) fn end(&self) -> u64 {
        self.frames.unwrap_or(NO_END)
    }

    /// Whether the frames of `range` exist and none is pinned.
    pub(super) fn is_open(&self, range: Range<u64>) -> bool {
        range.end <= self.end() && !self.pinned.any_in(range)
    }

    /// Whether the frames of `range` exist and were free at the start.
    pub(super) fn was_free(&self, range: Range<u64>) -> bool {
        self.is_open(range.clone()) && !self.movable.any_in(range)
    }

    /// The first maximal run of frames at or after `from` that were free at the start (cut at `from`).
    pub(super) fn open_run(&self, from: u64) -> Option<Range<u64>> {
        let mut start = from;
        loop {
            let next = self.movable.next_unpinned(self.pinned.next_unpinned(start));
            if next == start {
                break;
            }
            start = next;
        }
        let taken = [self.pinned.next_pinned(start), self.movable.next_pinned(start)];
        (start < self.end()).then(|| start..taken.into_iter().flatten().fold(self.end(), u64::min))
    }

    /// Free frames if `allocated` frames are in use.
    pub(super) fn free_frames(&self, allocated: u64) -> Option<u64> {
        self.frames.map(|n| n - self.pinned.count() - allocated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_set_gives_back_its_ranges() {
        let ranges = [0..1, 3..64, 65..66, 127..129, 192..400];
        let set = PinnedSet::from_ranges(ranges.clone());
        assert_eq!(set.ranges().collect::<Vec<_>>(), ranges);
        assert_eq!(set.count(), ranges.iter().map(|r| r.end - r.start).sum::<u64>());
        for f in 0..500 {
            assert_eq!(set.contains(f), ranges.iter().any(|r| r.contains(&f)), "{f}");
            assert_eq!(set.next_unpinned(f), (f..).find(|&g| !set.contains(g)).unwrap(), "{f}");
            assert_eq!(set.next_pinned(f), (f..500).find(|&g| set.contains(g)), "{f}");
        }
        assert!(PinnedSet::from_ranges(std::iter::once(5..5)).ranges().next().is_none());
    }

    #[test]
    fn bits_are_cleared_as_they_are_set() {
        let mut bits = Bits::default();
        bits.set(0..300);
        bits.clear(60..130);
        assert!(
            bits.has_all(0..60) && bits.has_all(130..300) && !bits.has_all(0..61) && !bits.has(60) && !bits.has(400)
        );
        assert_eq!(PinnedSet::from(bits).ranges().collect::<Vec<_>>(), [0..60, 130..300]);
    }

    #[test]
    #[should_panic(expected = "beyond")]
    fn pins_outside_the_memory_are_a_mistake() {
        PhysicalMemory::with_pins(8, std::iter::once(7..9));
    }
}
