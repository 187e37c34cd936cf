//! A physical memory, and which of its frames are allocated.

use super::pinned::{PhysicalMemory, pieces};
use super::sparse::FrameSet;
use std::ops::Range;

/// For allocators that derive the free frames from the allocated ones.
pub(super) struct AllocatedFrames {
    memory: PhysicalMemory,
    busy: FrameSet,
}

impl AllocatedFrames {
    /// Nothing is allocated.
    pub fn new(memory: PhysicalMemory) -> AllocatedFrames {
        AllocatedFrames { memory, busy: FrameSet::default() }
    }

    /// The frames of others that may be moved count as allocated.
    pub fn take_movable(&mut self) {
        self.memory.movable().ranges().for_each(|range| self.busy.insert(range));
    }

    /// The memory.
    pub fn memory(&self) -> &PhysicalMemory {
        &self.memory
    }

    /// Frames allocated now.
    pub fn count(&self) -> u64 {
        self.busy.len()
    }

    /// Allocates frames that are free.
    pub fn allocate(&mut self, frames: Range<u64>) {
        self.busy.insert(frames);
    }

    /// Frees frames. Panics unless all of them are allocated.
    pub fn free(&mut self, frames: Range<u64>) {
        let returned = self.busy.remove(frames.clone());
        assert!(
            returned,
            "the frames from {} on, {} in all: freed but not allocated",
            frames.start,
            frames.end - frames.start
        );
    }

    /// Whether all of these frames are free.
    pub fn are_free(&self, frames: Range<u64>) -> bool {
        self.memory.is_open(frames.clone()) && pieces(frames).all(|(word, bits)| self.busy.word(word) & bits == 0)
    }

    /// Of the 64 frames from `64 * word` on, the free ones, as bits.
    pub fn free_of(&self, word: u64) -> u64 {
        self.memory.open_of(word) & !self.busy.word(word)
    }
}
