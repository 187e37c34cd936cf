//! The contiguity map (CAP-2): runs of free blocks of the largest order that lie side by side.

use std::collections::BTreeMap;
use std::ops::Range;

/// Maximal runs of adjacent free blocks of one size, by address. Numbers are frames.
#[derive(Clone, Debug)]
pub struct Runs {
    /// Frames of a block.
    block: u64,
    /// First frame of a run: the frame after its last.
    ends: BTreeMap<u64, u64>,
}

impl Runs {
    /// None, of blocks of this number of frames.
    pub fn new(block: u64) -> Runs {
        Runs { block, ends: BTreeMap::new() }
    }

    /// Blocks that follow each other became free.
    pub fn add(&mut self, mut run: Range<u64>) {
        if let Some((&start, _)) = self.ends.range(..run.start).next_back().filter(|(_, end)| **end == run.start) {
            run.start = start;
        }
        if let Some(end) = self.ends.remove(&run.end) {
            run.end = end;
        }
        self.ends.insert(run.start, run.end);
    }

    /// The free block that begins at `base` is no longer free.
    pub fn remove(&mut self, base: u64) {
        let (&start, &end) = self.ends.range(..=base).next_back().expect("a free block lies in a run");
        debug_assert!(base + self.block <= end, "block {base} in the run {start}..{end}");
        if start == base {
            self.ends.remove(&start);
        } else {
            self.ends.insert(start, base);
        }
        if base + self.block < end {
            self.ends.insert(base + self.block, end);
        }
    }

    /// The runs from the block of this frame on, once around: of its own run the part from there on, then those above,
    /// then those below (CAP-3).
    pub fn around(&self, from: u64) -> impl Iterator<Item = Range<u64>> {
        let from = from - from % self.block;
        let own = self.ends.range(..from).next_back().filter(|(_, end)| **end > from);
        let below = own.map_or(from, |(start, _)| *start);
        let part = own.map(|(_, end)| from..*end);
        let others = self.ends.range(from..).chain(self.ends.range(..below));
        part.into_iter().chain(others.map(|(start, end)| *start..*end))
    }

    /// The first run that begins after this frame, or the first of all.
    pub fn after(&self, frame: u64) -> Option<u64> {
        self.ends.range(frame + 1..).chain(&self.ends).next().map(|(start, _)| *start)
    }

    /// All, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.ends.iter().map(|(start, end)| *start..*end)
    }
}
