//! The contracts of frame allocators.

use super::buddy::Runs;
use super::pinned::{PhysicalMemory, PinnedSet};
use farreach_types::addr::{Pfn, Vpn};
use std::ops::Range;

/// Allocates frames of a physical memory that is finite or unlimited. Its own size depends on the touched frames, not
/// on all frames: a terabyte of free frames costs next to nothing.
pub trait FrameAllocator: Send {
    /// One frame for an ordinary request; `None` when no frame is free.
    fn alloc(&mut self) -> Option<Pfn>;

    /// One frame for virtual page `vpn`, for allocators that care which page a frame is for; the others give any frame.
    fn alloc_near(&mut self, _vpn: Vpn) -> Option<Pfn> {
        self.alloc()
    }

    /// Takes the frames `base + offset`, for the ascending offsets in `covered`, of a wholly free aligned group of
    /// `2^order` frames and returns `base`; the other frames of the group stay free (T94-44, T94-50).
    /// [`Fifo`](super::Fifo) takes the lowest such group (AMB-22) and leaves the other frames their place in the list;
    /// [`Buddy`](super::Buddy) takes the group its lists give. `None` if there is no such group. Panics if `covered`
    /// lies outside the group.
    fn alloc_group(&mut self, order: u32, covered: &[u64]) -> Option<Pfn>;

    /// Takes exactly these consecutive frames if all are free, otherwise nothing. For compaction. An allocator without
    /// groups need not implement it.
    fn take(&mut self, _first: Pfn, _frames: u64) -> bool {
        false
    }

    /// Of the 64 frames from `64 * word` on, the free ones, as bits.
    fn free_of(&self, word: u64) -> u64;

    /// Frames that other programs had when the system started, and that may be moved. They count as allocated.
    fn movable(&self) -> PinnedSet {
        PinnedSet::default()
    }

    /// Fills a free block of `2^order` frames with zeros, of which some have other contents. Returns how many had;
    /// `None` if there is no such block, or the allocator marks none (HWE-6).
    fn zero_ahead(&mut self, order: u32) -> Option<u64> {
        let _ = order;
        None
    }

    /// Whether requests from now on take blocks that hold zeros first, of those of one order, or last.
    fn prefer_zeroed(&mut self, first: bool) {
        let _ = first;
    }

    /// These frames get contents. Returns how many held zeros that were put in ahead.
    fn take_zeroed(&mut self, first: Pfn, frames: u64) -> u64 {
        let _ = (first, frames);
        0
    }

    /// Frees a frame that was allocated. Panics on any other frame.
    fn free(&mut self, pfn: Pfn);

    /// Frees frames that follow each other, in ascending order.
    fn free_run(&mut self, first: Pfn, frames: u64) {
        (first.0..first.0 + frames).for_each(|frame| self.free(Pfn(frame)));
    }

    /// The memory whose frames it allocates.
    fn memory(&self) -> &PhysicalMemory;

    /// Frames that are allocated now.
    fn allocated(&self) -> u64;

    /// Number of frames, pinned ones included; `None`: unlimited.
    fn total(&self) -> Option<u64> {
        self.memory().frames()
    }

    /// Frames that are never free: fragmentation pins them.
    fn pinned(&self) -> u64 {
        self.memory().pinned().count()
    }

    /// Free frames; `None`: unlimited. `free + allocated + pinned = total` after every operation (XC-6).
    fn free_frames(&self) -> Option<u64> {
        self.memory().free_frames(self.allocated())
    }

    /// Whether these frames exist and none of them is pinned.
    fn is_open(&self, frames: Range<u64>) -> bool {
        self.memory().is_open(frames)
    }

    /// Groups, lists and list elements examined so far, the work of allocation.
    fn steps(&self) -> u64;

    /// This allocator as one of blocks, for policies that ask for them (RMM15-24); `None` if it has none.
    fn blocks(&self) -> Option<&dyn BlockAllocator> {
        None
    }

    /// As [`FrameAllocator::blocks`], to take blocks.
    fn blocks_mut(&mut self) -> Option<&mut dyn BlockAllocator> {
        None
    }
}

/// An allocator of blocks of `2^order` frames, for orders below [`max_order`](BlockAllocator::max_order).
pub trait BlockAllocator {
    /// Number of orders.
    fn max_order(&self) -> u32;

    /// Frames of the largest block.
    fn max_block(&self) -> u64;

    /// Takes a block of `2^order` frames from the smallest order that has one, splitting it; `None` when no order has
    /// one.
    fn alloc_order(&mut self, order: u32) -> Option<Pfn>;

    /// Frees the `pages` frames from `start` on, all of them allocated. Panics otherwise.
    fn free_range(&mut self, start: Pfn, pages: u64);

    /// Frames for `pages` pages at once: each time the largest available block that is not larger than the remaining
    /// request, split from a larger one if necessary (RMM15-24, AMB-81). When memory runs out, the other pages are
    /// reported missing. The caller keeps the frames it got, and may reclaim memory and ask again (AMB-82).
    fn eager(&mut self, pages: u64) -> Eager;

    /// As [`BlockAllocator::eager`], but the remainder below the largest block comes from one block of the next larger
    /// size where there is one (RMM15-27b).
    fn eager_from_next_larger(&mut self, pages: u64) -> Eager;

    /// log2 of the frames of the free block in which this frame lies; `None` if it is not free (CAP-6).
    fn free_block_around(&self, pfn: Pfn) -> Option<u32>;

    /// From now on keeps the runs of its largest blocks. Panics if frames were allocated before.
    fn watch_runs(&mut self);

    /// From now on knows which free frames hold zeros (HWE-6).
    fn mark_zeroed(&mut self);

    /// Runs of adjacent free blocks of the largest order (CAP-2); `None` if they are not watched.
    fn runs(&self) -> Option<&Runs>;

    /// Free blocks of `order`; `None`: unlimited.
    fn free_blocks(&self, order: u32) -> Option<u64>;

    /// How far free memory is from serving `request` pages in one piece, or in the largest blocks: 1 minus the share of
    /// free frames that lie in blocks large enough (AMB-84). 0 for an unlimited memory, 1 when nothing is free.
    fn fragmentation_index(&self, request: u64) -> f64;
}

/// The result of an eager request (RMM15-24).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Eager {
    /// First frame and number of frames of each block, in the order of the pages they are for.
    pub blocks: Vec<(Pfn, u64)>,
    /// Pages that got no frame because memory ran out (AMB-82).
    pub missing: u64,
}
