//! The buddy allocator of RMM15-24 to RMM15-27, after the page allocator of Linux: blocks of `2^order` frames, one free list per order.
//!
//! A request takes a block of the smallest order that has one and splits it, keeping the lower half; a freed block joins its
//! buddy as long as that one is free. Blocks that are free from the start are not listed: they are found, ascending, when their
//! list reaches them, or by their place, when their buddy comes back or compaction wants them.

use super::pinned::{PinnedSet, pieces};
use super::queue::FrameQueue;
use super::sparse::FrameSet;
use super::{FrameAllocator, Memory};
use farreach_types::addr::Pfn;
use std::collections::BTreeSet;
use std::ops::Range;

/// Which block of an order a request takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pick {
    /// The one freed last, as Linux does; blocks never touched come last, in ascending order.
    LastFreed,
    /// The one with the lowest address (RMM15-27a, F-11).
    LowestAddress,
}

/// What an eager request got (RMM15-24).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Eager {
    /// First frame and number of frames of each block, in the order of the pages they are for.
    pub blocks: Vec<(Pfn, u64)>,
    /// Pages that got no frame because memory ran out (AMB-82).
    pub missing: u64,
}

/// Buddy allocator.
pub struct Buddy {
    memory: Memory,
    /// By order, the blocks that were freed or split off.
    lists: Vec<List>,
    /// By order, the blocks that are free from the start.
    fresh: Vec<Fresh>,
    busy: FrameSet,
    steps: u64,
}

enum List {
    Stack(FrameQueue),
    Sorted(BTreeSet<u64>),
}

#[derive(Clone, Default)]
struct Fresh {
    /// Blocks not yet taken.
    left: u64,
    /// No block not yet taken begins below.
    from: u64,
    /// Blocks from there on that were taken out of their turn.
    gone: BTreeSet<u64>,
}

impl List {
    fn first(&self) -> Option<u64> {
        match self {
            List::Stack(q) => q.front(),
            List::Sorted(s) => s.first().copied(),
        }
    }
    fn push(&mut self, block: u64) {
        match self {
            List::Stack(q) => q.push_front(block),
            List::Sorted(s) => _ = s.insert(block),
        }
    }
    fn remove(&mut self, block: u64) -> bool {
        match self {
            List::Stack(q) => q.remove(block),
            List::Sorted(s) => s.remove(&block),
        }
    }
    fn len(&self) -> u64 {
        match self {
            List::Stack(q) => q.len() as u64,
            List::Sorted(s) => s.len() as u64,
        }
    }
}

/// log2 of the largest block that begins at `at`, ends by `end` and is not above `top`.
fn order_at(at: u64, end: u64, top: u32) -> u32 {
    at.trailing_zeros().min((end - at).ilog2()).min(top)
}

/// The maximal blocks of a run of free frames, ascending; runs of blocks of the largest order come as one item: first frame,
/// order, number.
fn blocks_of(run: Range<u64>, top: u32) -> impl Iterator<Item = (u64, u32, u64)> {
    let mut at = run.start;
    std::iter::from_fn(move || {
        (at < run.end).then(|| {
            let order = order_at(at, run.end, top);
            let number = if order == top { (run.end - at) >> top } else { 1 };
            let block = (at, order, number);
            at += number << order;
            block
        })
    })
}

impl Buddy {
    /// An allocator over `memory` with blocks of orders `0..max_order` (11 in stock Linux: 4 MB; AMB-88).
    pub fn new(memory: Memory, max_order: u32, pick: Pick) -> Buddy {
        assert!((1..=32).contains(&max_order), "a buddy allocator has 1 to 32 orders, not {max_order}");
        let mut fresh = vec![Fresh::default(); max_order as usize];
        let mut from = 0;
        while let Some(run) = memory.open_run(from) {
            from = run.end;
            blocks_of(run, max_order - 1).for_each(|(_, order, number)| fresh[order as usize].left += number);
        }
        let list = || match pick {
            Pick::LastFreed => List::Stack(FrameQueue::new()),
            Pick::LowestAddress => List::Sorted(BTreeSet::new()),
        };
        let lists = (0..max_order).map(|_| list()).collect();
        let mut busy = FrameSet::default();
        memory.movable().ranges().for_each(|range| busy.insert(range));
        Buddy { memory, lists, fresh, busy, steps: 0 }
    }

    /// Number of orders.
    pub fn max_order(&self) -> u32 {
        self.lists.len() as u32
    }

    /// Frames of the largest block.
    pub fn max_block(&self) -> u64 {
        1 << (self.max_order() - 1)
    }

    /// Takes a block of `2^order` frames from the smallest order that has one, splitting it; `None` when no order has one.
    pub fn alloc_order(&mut self, order: u32) -> Option<Pfn> {
        for from in order..self.max_order() {
            self.steps += 1;
            if let Some(base) = self.take(from) {
                for half in (order..from).rev() {
                    self.steps += 1;
                    self.lists[half as usize].push(base + (1 << half));
                }
                self.busy.insert(base..base + (1 << order));
                return Some(Pfn(base));
            }
        }
        None
    }

    /// Gives back an aligned block of `2^order` frames, all of them handed out, in whatever portions. Panics otherwise.
    pub fn free_order(&mut self, base: Pfn, order: u32) {
        let mut base = base.0;
        assert!(order < self.max_order(), "order {order} of {} orders", self.max_order());
        assert!(base.trailing_zeros() >= order, "frame {base} does not begin a block of order {order}");
        let returned = self.busy.remove(base..base + (1 << order));
        assert!(returned, "the block of order {order} at frame {base} is given back but not handed out");
        let mut order = order;
        while order + 1 < self.max_order() {
            self.steps += 1;
            if !self.take_block(base ^ (1 << order), order) {
                break;
            }
            base &= !(1 << order);
            order += 1;
        }
        self.lists[order as usize].push(base);
    }

    /// Gives back the `pages` frames from `start` on, all of them handed out. Panics otherwise.
    pub fn free_range(&mut self, start: Pfn, pages: u64) {
        for (base, order, number) in blocks_of(start.0..start.0 + pages, self.max_order() - 1) {
            (0..number).for_each(|i| self.free_order(Pfn(base + (i << order)), order));
        }
    }

    /// Takes one block of the smallest size that holds `pages`, uses its first `pages` frames and returns the remainder to the
    /// lists (RMM15-27b). `None` when there is no such block, or `pages` is 0 or above the largest block.
    pub fn alloc_from_next_larger(&mut self, pages: u64) -> Option<Pfn> {
        if pages == 0 || pages > self.max_block() {
            return None;
        }
        let order = pages.next_power_of_two().ilog2();
        let base = self.alloc_order(order)?;
        self.free_range(Pfn(base.0 + pages), (1 << order) - pages);
        Some(base)
    }

    /// Frames for `pages` pages at once: again and again the largest block that is not larger than what is wanted and can be
    /// had, by splitting if need be (RMM15-24, AMB-81). When memory runs out the rest is reported missing; what was got stays
    /// with the caller, who may reclaim and ask for the rest (AMB-82).
    pub fn eager(&mut self, pages: u64) -> Eager {
        let mut got = Eager { blocks: Vec::new(), missing: pages };
        while got.missing > 0 {
            let largest = got.missing.ilog2().min(self.max_order() - 1);
            let Some((base, order)) = (0..=largest).rev().find_map(|o| Some((self.alloc_order(o)?, o))) else { break };
            got.blocks.push((base, 1 << order));
            got.missing -= 1 << order;
        }
        got
    }

    /// As [`Buddy::eager`], but what is below the largest block comes from one block of the next larger size where there is one
    /// (RMM15-27b).
    pub fn eager_from_next_larger(&mut self, pages: u64) -> Eager {
        let rest = pages % self.max_block();
        let mut got = self.eager(pages - rest);
        if got.missing == 0 && rest > 0 {
            let tail = match self.alloc_from_next_larger(rest) {
                Some(base) => Eager { blocks: vec![(base, rest)], missing: 0 },
                None => self.eager(rest),
            };
            got.blocks.extend(tail.blocks);
            got.missing = tail.missing;
        } else {
            got.missing += rest;
        }
        got
    }

    /// Free blocks of `order`; `None`: no end.
    pub fn free_blocks(&self, order: u32) -> Option<u64> {
        let endless = self.memory.frames().is_none() && order + 1 == self.max_order();
        (!endless).then(|| self.listed(order))
    }

    /// How far free memory is from serving `request` pages in one piece, or in the largest blocks: 1 minus the share of free
    /// frames that lie in blocks large enough (AMB-84). 0 for a memory without end, 1 when nothing is free.
    pub fn fragmentation_index(&self, request: u64) -> f64 {
        let Some(free) = self.free_frames() else { return 0.0 };
        if free == 0 {
            return 1.0;
        }
        let enough = request.clamp(1, self.max_block()).next_power_of_two().ilog2();
        let useful: u64 = (enough..self.max_order()).map(|o| self.listed(o) << o).sum();
        1.0 - useful as f64 / free as f64
    }

    /// Takes this very block out of the free ones of its order; false if it is none of them.
    fn take_block(&mut self, base: u64, order: u32) -> bool {
        if self.lists[order as usize].remove(base) {
            return true;
        }
        let fresh = self.is_fresh(base, order);
        if fresh {
            self.fresh[order as usize].left -= 1;
            self.fresh[order as usize].gone.insert(base);
        }
        fresh
    }

    /// Whether it is a block that was free from the start and is not yet taken.
    fn is_fresh(&self, base: u64, order: u32) -> bool {
        let (fresh, size) = (&self.fresh[order as usize], 1u64 << order);
        if fresh.left == 0 || base < fresh.from || fresh.gone.contains(&base) || !self.memory.was_free(base..base + size) {
            return false;
        }
        // It is one block with its buddy if that was free too.
        let both = base & !size;
        order + 1 == self.max_order() || !self.memory.was_free(both..both + 2 * size)
    }

    /// Takes an aligned block of `2^order` frames, all of them free, out of the block that it lies in.
    fn carve(&mut self, base: u64, order: u32) {
        let whole = (order..self.max_order()).find(|&o| self.take_block(base & !((1 << o) - 1), o));
        let whole = whole.expect("free frames are joined as far as they go");
        for half in (order..whole).rev() {
            self.steps += 1;
            // The half in which it does not lie.
            self.lists[half as usize].push((base & !((1 << half) - 1)) ^ (1 << half));
        }
        self.busy.insert(base..base + (1 << order));
    }

    fn listed(&self, order: u32) -> u64 {
        self.lists[order as usize].len() + self.fresh[order as usize].left
    }

    /// Takes the block of `order` that a request gets.
    fn take(&mut self, order: u32) -> Option<u64> {
        let listed = self.lists[order as usize].first();
        let block = match (&self.lists[order as usize], listed) {
            (List::Stack(_), Some(block)) => block,
            (_, listed) => listed.into_iter().chain(self.first_fresh(order)).min()?,
        };
        if listed == Some(block) {
            self.lists[order as usize].remove(block);
        } else {
            let fresh = &mut self.fresh[order as usize];
            fresh.left -= 1;
            fresh.from = block + (1 << order);
        }
        Some(block)
    }

    /// The lowest block of `order` that was free from the start and is not yet taken.
    fn first_fresh(&mut self, order: u32) -> Option<u64> {
        let top = self.max_order() - 1;
        let Fresh { left, mut from, .. } = self.fresh[order as usize];
        if left == 0 {
            return None;
        }
        loop {
            // Beginning a run at the end of one of its blocks does not change its other blocks.
            let run = self.memory.open_run(from)?;
            from = run.end;
            let fresh = &mut self.fresh[order as usize];
            for (first, _, number) in blocks_of(run, top).filter(|&(_, o, _)| o == order) {
                let mut blocks = (0..number).map(|i| first + (i << order));
                if let Some(block) = blocks.find(|block| !fresh.gone.contains(block)) {
                    fresh.from = block;
                    fresh.gone = fresh.gone.split_off(&block);
                    return Some(block);
                }
            }
        }
    }
}

impl FrameAllocator for Buddy {
    fn alloc(&mut self) -> Option<Pfn> {
        self.alloc_order(0)
    }

    fn alloc_group(&mut self, order: u32, covered: &[u64]) -> Option<Pfn> {
        assert!(order < 60 && covered.iter().all(|&o| o < 1 << order), "frames {covered:?} of a group of 2^{order}");
        let base = self.alloc_order(order)?;
        let mut next = 0;
        for &offset in covered.iter().chain([&(1 << order)]) {
            self.free_range(Pfn(base.0 + next), offset - next);
            next = offset + 1;
        }
        Some(base)
    }

    fn take(&mut self, first: Pfn, frames: u64) -> bool {
        let run = first.0..first.0 + frames;
        let free = self.memory.is_open(run.clone()) && pieces(run.clone()).all(|(word, bits)| self.busy.word(word) & bits == 0);
        if free {
            for (base, order, number) in blocks_of(run, self.max_order() - 1) {
                (0..number).for_each(|i| self.carve(base + (i << order), order));
            }
        }
        free
    }

    fn free_of(&self, word: u64) -> u64 {
        self.memory.open_of(word) & !self.busy.word(word)
    }

    fn movable(&self) -> PinnedSet {
        self.memory.movable().clone()
    }

    fn free(&mut self, pfn: Pfn) {
        self.free_order(pfn, 0);
    }

    /// Block by block, with the same lists and as many steps as frame by frame: within a block of `2^k` each frame joins as many buddies as
    /// its number has ones at the end, and looks for one more.
    fn free_run(&mut self, first: Pfn, frames: u64) {
        for (base, order, number) in blocks_of(first.0..first.0 + frames, self.max_order() - 1) {
            for i in 0..number {
                self.steps += (2 << order) - 2;
                self.free_order(Pfn(base + (i << order)), order);
            }
        }
    }

    fn total(&self) -> Option<u64> {
        self.memory.frames()
    }

    fn allocated(&self) -> u64 {
        self.busy.len()
    }

    fn pinned(&self) -> u64 {
        self.memory.pinned().count()
    }

    fn free_frames(&self) -> Option<u64> {
        self.memory.free_frames(self.allocated())
    }

    fn is_open(&self, frames: Range<u64>) -> bool {
        self.memory.is_open(frames)
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn buddy(&self) -> Option<&Buddy> {
        Some(self)
    }

    fn as_buddy(&mut self) -> Option<&mut Buddy> {
        Some(self)
    }
}
