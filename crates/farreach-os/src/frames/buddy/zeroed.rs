//! Free frames that were filled with zeros ahead (HWE-6). The mark is one of frames: a block that joins one without it
//! keeps it for its own frames, and is no zeroed block as long as they are together.

use super::free_list::{FreeList, Pick};
use crate::frames::pinned::pieces;
use crate::frames::sparse::FrameSet;
use std::ops::Range;

/// See the module.
pub struct Zeroed {
    /// Frames with zeros that nothing was put into since: free ones, and allocated ones without contents yet.
    frames: FrameSet,
    /// By order, the free blocks of such frames alone. What was filled comes behind all others, what was freed or split
    /// off before them.
    pub lists: Vec<FreeList>,
    /// Whether requests take such blocks first, of those of one order; otherwise last.
    pub first: bool,
}

impl Zeroed {
    /// None yet.
    pub fn new(orders: u32, pick: Pick) -> Zeroed {
        let lists = (0..orders).map(|_| FreeList::new(pick)).collect();
        Zeroed { frames: FrameSet::default(), lists, first: true }
    }

    /// Whether all of these frames are marked.
    pub fn has_all(&self, range: Range<u64>) -> bool {
        pieces(range).all(|(word, mask)| self.frames.word(word) & mask == mask)
    }

    /// Marks frames. Returns how many were not.
    pub fn mark(&mut self, range: Range<u64>) -> u64 {
        let before = self.frames.len();
        for (word, mask) in pieces(range) {
            let new = mask & !self.frames.word(word);
            each_run(word, new, |run| self.frames.insert(run));
        }
        self.frames.len() - before
    }

    /// Frames get other contents. Returns how many had the mark.
    pub fn unmark(&mut self, range: Range<u64>) -> u64 {
        if self.frames.len() == 0 {
            return 0;
        }
        let before = self.frames.len();
        for (word, mask) in pieces(range) {
            let old = mask & self.frames.word(word);
            each_run(word, old, |run| _ = self.frames.remove(run));
        }
        before - self.frames.len()
    }
}

/// The runs of set bits of a word of frames.
fn each_run(word: u64, bits: u64, mut run: impl FnMut(Range<u64>)) {
    for (at, n) in crate::bits::runs(&[bits]) {
        run(64 * word + at..64 * word + at + n);
    }
}
