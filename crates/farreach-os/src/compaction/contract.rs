//! The contract of ways to compact memory: when they work, and which blocks they empty into which.

use super::direct::fewest;
use farreach_types::params::Params;

/// When a way works by itself. A policy may ask any way for a block (LNX-5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Never.
    Never,
    /// There is no free block for a request.
    Demand,
    /// Free memory was found to be fragmented.
    Background,
}

/// A way as the registry knows it.
pub struct CompactionKind {
    /// Value of the key `compaction`.
    pub name: &'static str,
    /// When it works.
    pub when: When,
    /// Values of `allocator` that it works with.
    pub allocators: &'static [&'static str],
    /// Builds it.
    pub build: fn(&Params) -> Box<dyn Way>,
}

/// A way to compact memory.
pub trait Way: Send {
    /// The blocks to empty and the pieces to fill in one run in the background, each in order.
    fn in_background(&mut self, survey: &Survey) -> Layout {
        let _ = survey;
        Layout::default()
    }

    /// As before, for a request that wants one block.
    fn for_request(&mut self, survey: &Survey) -> Layout {
        fewest(survey)
    }

    /// Pages that a run in the background copies at most.
    fn budget(&self) -> u64 {
        u64::MAX
    }

    /// Whether a run in the background goes over all of memory by address, until those who empty meet those who fill.
    fn sweeps(&self) -> bool {
        false
    }

    /// Runs for one request of `2^order` frames, as long as they fail.
    fn rounds(&self, order: u32) -> u32 {
        let _ = order;
        1
    }

    /// Whether pages of a block move until one is found that cannot, for a request of `2^order` frames. Otherwise a
    /// block is left alone that cannot become wholly free.
    fn begins_blindly(&self, order: u32) -> bool {
        let _ = order;
        false
    }
}

/// Blocks and pieces, by number.
#[derive(Debug, Default)]
pub struct Layout {
    /// Blocks to empty.
    pub empty: Vec<u64>,
    /// Pieces to fill.
    pub fill: Vec<u64>,
}

/// What a way knows of memory: blocks, and the pieces that they consist of.
pub struct Survey {
    /// log2 of the frames of a block.
    pub order: u32,
    /// log2 of the frames of a piece, at most those of a block.
    pub piece: u32,
    /// Frames of memory.
    pub total: u64,
    /// By piece, its frames that are not free.
    pub taken: Vec<u64>,
    /// By piece, its frames that may move.
    pub movable: Vec<u64>,
    /// The time, in instructions; 0 without a clock (OSC-1).
    pub now: u64,
}

impl Survey {
    /// Number of blocks, the last of which may be cut.
    pub fn blocks(&self) -> u64 {
        self.total.div_ceil(1 << self.order)
    }

    /// Number of pieces.
    pub fn pieces(&self) -> u64 {
        self.taken.len() as u64
    }

    /// Frames of a piece.
    pub fn frames_of(&self, piece: u64) -> u64 {
        (self.total - (piece << self.piece)).min(1 << self.piece)
    }

    /// The pieces of a block.
    pub fn pieces_of(&self, block: u64) -> std::ops::Range<usize> {
        let up = self.order - self.piece;
        (block << up) as usize..((block + 1) << up).min(self.pieces()) as usize
    }

    /// Frames of a block that are not free.
    pub fn taken_in(&self, block: u64) -> u64 {
        self.taken[self.pieces_of(block)].iter().sum()
    }

    /// Frames of a block that may move.
    pub fn movable_in(&self, block: u64) -> u64 {
        self.movable[self.pieces_of(block)].iter().sum()
    }

    /// Whether it is a whole block of memory.
    pub fn is_whole(&self, block: u64) -> bool {
        (block + 1) << self.order <= self.total
    }

    /// Whether a block becomes free when everything movable leaves it.
    pub fn clears(&self, block: u64) -> bool {
        self.is_whole(block) && self.taken_in(block) == self.movable_in(block)
    }

    /// Whether a piece has free frames.
    pub fn has_room(&self, piece: u64) -> bool {
        self.taken[piece as usize] < self.frames_of(piece)
    }
}
