//! Physical frames: which are free. Identity, reservation and contents belong to [`super`]; this layer hands out
//! frames.
//!
//! - [`fifo`]: the allocator of T94-43 to T94-50, a first-in first-out list with wholly free groups found at once;
//! - [`buddy`]: the buddy allocator of RMM15-24 to RMM15-27;
//! - [`colour`]: the page-colouring allocator, the negative control of T94-61;
//! - [`pool`]: frames set aside at the start;
//! - [`pinned`], [`fragmentation`]: which frames belong to others from the start;
//! - [`keys`]: the keys of a machine description, and the allocator they describe.

use farreach_types::addr::{Pfn, Vpn};
use std::ops::Range;

pub mod buddy;
pub mod colour;
pub mod fifo;
pub mod fragmentation;
pub mod keys;
pub mod pinned;
pub mod pool;
mod queue;
pub(super) mod sparse;

pub use buddy::{Buddy, Pick};
pub use colour::Colouring;
pub use fifo::Fifo;
pub use fragmentation::Fragmentation;
pub use pinned::{Memory, PinnedSet};
pub use pool::Pool;

/// Hands out frames of a physical memory that is finite or without end. Takes memory by what is touched, not by what exists:
/// a terabyte of free frames costs next to nothing.
pub trait FrameAllocator: Send {
    /// One frame for an ordinary request; `None` when no frame is free.
    fn alloc(&mut self) -> Option<Pfn>;

    /// One frame for virtual page `vpn`, for allocators that care which page a frame is for; the others give any frame.
    fn alloc_near(&mut self, _vpn: Vpn) -> Option<Pfn> {
        self.alloc()
    }

    /// Takes the frames `base + offset`, for the ascending offsets in `covered`, of a wholly free aligned group of `2^order`
    /// frames and returns `base`; the other frames of the group stay free (T94-44, T94-50). [`Fifo`] takes the lowest such group
    /// (AMB-22) and leaves the other frames their place in the list; [`Buddy`] takes the group its lists give. `None` when no
    /// group is to be had. Panics when `covered` reaches out of the group.
    fn alloc_group(&mut self, order: u32, covered: &[u64]) -> Option<Pfn>;

    /// Takes these very frames, which lie together, if all of them are free; otherwise nothing is taken. For compaction; an allocator
    /// that knows no groups has nothing to gain from it, and need not.
    fn take(&mut self, _first: Pfn, _frames: u64) -> bool {
        false
    }

    /// Of the 64 frames from `64 * word` on, the free ones, as bits.
    fn free_of(&self, word: u64) -> u64;

    /// Frames that others had when the system started and that may be moved: handed out from the start.
    fn movable(&self) -> PinnedSet {
        PinnedSet::default()
    }

    /// Gives back a frame that was handed out. Panics on any other frame.
    fn free(&mut self, pfn: Pfn);

    /// Gives back frames that follow each other, in ascending order.
    fn free_run(&mut self, first: Pfn, frames: u64) {
        (first.0..first.0 + frames).for_each(|frame| self.free(Pfn(frame)));
    }

    /// Frames there are, pinned ones included; `None`: no end.
    fn total(&self) -> Option<u64>;

    /// Frames that are handed out now.
    fn allocated(&self) -> u64;

    /// Frames that belong to others for ever (fragmentation).
    fn pinned(&self) -> u64;

    /// Free frames; `None`: no end. `free + allocated + pinned = total` after every operation (XC-6).
    fn free_frames(&self) -> Option<u64>;

    /// Whether these frames exist and none of them is pinned.
    fn is_open(&self, frames: Range<u64>) -> bool;

    /// Groups, lists and list elements looked at so far, the work of allocation.
    fn steps(&self) -> u64;

    /// The buddy allocator behind this one, for policies that ask for blocks (RMM15-24); `None` for the others.
    fn buddy(&self) -> Option<&Buddy> {
        None
    }

    /// As [`FrameAllocator::buddy`], to take blocks.
    fn as_buddy(&mut self) -> Option<&mut Buddy> {
        None
    }
}
