//! The free list of one order.

use crate::frames::queue::FrameQueue;
use std::collections::BTreeSet;

/// Which block of an order a request takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pick {
    /// The one freed last, as Linux does; blocks never touched come last, in ascending order.
    LastFreed,
    /// The one with the lowest address (RMM15-27a, F-11).
    LowestAddress,
}

/// Blocks that were freed or split off.
pub enum FreeList {
    /// The one freed last is first.
    Stack(FrameQueue),
    /// By address.
    Sorted(BTreeSet<u64>),
}

impl FreeList {
    /// An empty one.
    pub fn new(pick: Pick) -> FreeList {
        match pick {
            Pick::LastFreed => FreeList::Stack(FrameQueue::new()),
            Pick::LowestAddress => FreeList::Sorted(BTreeSet::new()),
        }
    }

    /// The block to take next.
    pub fn first(&self) -> Option<u64> {
        match self {
            FreeList::Stack(q) => q.front(),
            FreeList::Sorted(s) => s.first().copied(),
        }
    }

    /// Adds a block.
    pub fn push(&mut self, block: u64) {
        match self {
            FreeList::Stack(q) => q.push_front(block),
            FreeList::Sorted(s) => _ = s.insert(block),
        }
    }

    /// Adds a block behind all others, where they have an order in time.
    pub fn push_back(&mut self, block: u64) {
        match self {
            FreeList::Stack(q) => q.push_back(block),
            FreeList::Sorted(s) => _ = s.insert(block),
        }
    }

    /// Takes a block out; false if it is not in the list.
    pub fn remove(&mut self, block: u64) -> bool {
        match self {
            FreeList::Stack(q) => q.remove(block),
            FreeList::Sorted(s) => s.remove(&block),
        }
    }

    /// Whether a block is in the list.
    pub fn contains(&self, block: u64) -> bool {
        match self {
            FreeList::Stack(q) => q.contains(block),
            FreeList::Sorted(s) => s.contains(&block),
        }
    }

    /// Blocks in the list.
    pub fn len(&self) -> u64 {
        match self {
            FreeList::Stack(q) => q.len() as u64,
            FreeList::Sorted(s) => s.len() as u64,
        }
    }
}
