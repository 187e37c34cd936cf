//! The buddy allocator of RMM15-24 to RMM15-27, after the page allocator of Linux: blocks of `2^order` frames, one free
//! list per order.
//!
//! A request takes a block of the smallest order that has one and splits it, keeping the lower half; a freed block
//! joins its buddy as long as that one is free. Blocks that are free from the start are not listed: they are found,
//! ascending, when their list reaches them, or by their place, when their buddy comes back or compaction wants them.

mod free_list;
mod fresh;
mod runs;
mod zeroed;

use super::allocated::AllocatedFrames;
use super::contract::{BlockAllocator, Eager, FrameAllocator};
use super::pinned::{PhysicalMemory, PinnedSet};
use farreach_types::addr::Pfn;
use free_list::FreeList;
pub use free_list::Pick;
use fresh::{Fresh, blocks_of};
pub use runs::Runs;
use zeroed::Zeroed;

/// Buddy allocator.
pub struct Buddy {
    frames: AllocatedFrames,
    /// By order, the blocks that were freed or split off.
    lists: Vec<FreeList>,
    /// By order, the blocks that are free from the start.
    fresh: Vec<Fresh>,
    /// Runs of the largest blocks, if a policy asked for them.
    runs: Option<Runs>,
    /// Which free frames hold zeros, if a policy asked.
    zeroed: Option<Zeroed>,
    pick: Pick,
    steps: u64,
}

impl Buddy {
    /// An allocator over `memory` with blocks of orders `0..max_order` (11 in stock Linux: 4 MB; AMB-88).
    pub fn new(memory: PhysicalMemory, max_order: u32, pick: Pick) -> Buddy {
        assert!((1..=32).contains(&max_order), "a buddy allocator has 1 to 32 orders, not {max_order}");
        let mut fresh: Vec<Fresh> = (0..max_order).map(|order| Fresh::new(order, max_order - 1)).collect();
        let mut from = 0;
        while let Some(run) = memory.open_run(from) {
            from = run.end;
            blocks_of(run, max_order - 1).for_each(|(_, order, number)| fresh[order as usize].add(number));
        }
        let lists = (0..max_order).map(|_| FreeList::new(pick)).collect();
        let mut frames = AllocatedFrames::new(memory);
        frames.take_movable();
        Buddy { frames, lists, fresh, runs: None, zeroed: None, pick, steps: 0 }
    }

    /// Frees an aligned block of `2^order` frames. Panics unless all of them are allocated, in blocks of any
    /// size.
    pub fn free_order(&mut self, base: Pfn, order: u32) {
        let mut base = base.0;
        assert!(order < self.max_order(), "order {order} of {} orders", self.max_order());
        assert!(base.trailing_zeros() >= order, "frame {base} does not begin a block of order {order}");
        self.frames.free(base..base + (1 << order));
        let mut order = order;
        while order + 1 < self.max_order() {
            self.steps += 1;
            if !self.take_block(base ^ (1 << order), order) {
                break;
            }
            base &= !(1 << order);
            order += 1;
        }
        self.push(base, order);
        if let Some(runs) = self.runs.as_mut().filter(|_| order + 1 == self.lists.len() as u32) {
            runs.add(base..base + (1 << order));
        }
    }

    /// A free block enters its list.
    fn push(&mut self, base: u64, order: u32) {
        match self.zeroed.as_mut().filter(|zeroed| zeroed.has_all(base..base + (1 << order))) {
            Some(zeroed) => zeroed.lists[order as usize].push(base),
            None => self.lists[order as usize].push(base),
        }
    }

    /// The zeroed blocks of an order.
    fn zeroed_list(&mut self, order: u32) -> Option<&mut FreeList> {
        self.zeroed.as_mut().map(|zeroed| &mut zeroed.lists[order as usize])
    }

    /// A block left its list.
    fn went(&mut self, base: u64, order: u32) {
        if let Some(runs) = self.runs.as_mut().filter(|_| order + 1 == self.lists.len() as u32) {
            runs.remove(base);
        }
    }

    /// Takes one block of the smallest size that holds `pages`, uses its first `pages` frames and returns the remainder
    /// to the lists (RMM15-27b). `None` when there is no such block, or `pages` is 0 or above the largest block.
    pub fn alloc_from_next_larger(&mut self, pages: u64) -> Option<Pfn> {
        if pages == 0 || pages > self.max_block() {
            return None;
        }
        let order = pages.next_power_of_two().ilog2();
        let base = self.alloc_order(order)?;
        self.free_range(Pfn(base.0 + pages), (1 << order) - pages);
        Some(base)
    }

    /// Takes exactly this block; false if it is not a free block of its order.
    fn take_block(&mut self, base: u64, order: u32) -> bool {
        let taken = self.lists[order as usize].remove(base)
            || self.fresh[order as usize].take_block(self.frames.memory(), base)
            || self.zeroed_list(order).is_some_and(|list| list.remove(base));
        if taken {
            self.went(base, order);
        }
        taken
    }

    /// Takes an aligned block of `2^order` free frames out of the free block around it.
    fn carve(&mut self, base: u64, order: u32) {
        let whole = (order..self.max_order()).find(|&o| self.take_block(base & !((1 << o) - 1), o));
        let whole = whole.expect("free frames are joined as far as they go");
        for half in (order..whole).rev() {
            self.steps += 1;
            // The half in which it does not lie.
            self.push((base & !((1 << half) - 1)) ^ (1 << half), half);
        }
        self.frames.allocate(base..base + (1 << order));
    }

    fn listed(&self, order: u32) -> u64 {
        let zeroed = self.zeroed.as_ref().map_or(0, |zeroed| zeroed.lists[order as usize].len());
        self.lists[order as usize].len() + self.fresh[order as usize].len() + zeroed
    }

    /// Takes the block of `order` that a request gets.
    fn take(&mut self, order: u32) -> Option<u64> {
        let first = self.zeroed.as_ref().is_some_and(|zeroed| zeroed.first);
        let block = match first {
            true => self.take_zeroed_block(order).or_else(|| self.take_other(order)),
            false => self.take_other(order).or_else(|| self.take_zeroed_block(order)),
        }?;
        self.went(block, order);
        Some(block)
    }

    /// Takes the first zeroed block of `order` out of its list.
    fn take_zeroed_block(&mut self, order: u32) -> Option<u64> {
        let list = self.zeroed_list(order)?;
        let block = list.first()?;
        list.remove(block);
        Some(block)
    }

    /// Takes the first block of `order` that is not zeroed out of its list.
    fn take_other(&mut self, order: u32) -> Option<u64> {
        let (list, fresh) = (&mut self.lists[order as usize], &mut self.fresh[order as usize]);
        let listed = list.first();
        let block = match (&list, listed) {
            (FreeList::Stack(_), Some(block)) => block,
            (_, listed) => listed.into_iter().chain(fresh.first(self.frames.memory())).min()?,
        };
        if listed == Some(block) {
            list.remove(block);
        } else {
            fresh.take_first(block);
        }
        Some(block)
    }
}

impl BlockAllocator for Buddy {
    fn max_order(&self) -> u32 {
        self.lists.len() as u32
    }

    fn max_block(&self) -> u64 {
        1 << (self.max_order() - 1)
    }

    fn alloc_order(&mut self, order: u32) -> Option<Pfn> {
        for from in order..self.max_order() {
            self.steps += 1;
            if let Some(base) = self.take(from) {
                for half in (order..from).rev() {
                    self.steps += 1;
                    self.push(base + (1 << half), half);
                }
                self.frames.allocate(base..base + (1 << order));
                return Some(Pfn(base));
            }
        }
        None
    }

    fn free_range(&mut self, start: Pfn, pages: u64) {
        for (base, order, number) in blocks_of(start.0..start.0 + pages, self.max_order() - 1) {
            (0..number).for_each(|i| self.free_order(Pfn(base + (i << order)), order));
        }
    }

    fn eager(&mut self, pages: u64) -> Eager {
        let mut got = Eager { blocks: Vec::new(), missing: pages };
        while got.missing > 0 {
            let largest = got.missing.ilog2().min(self.max_order() - 1);
            let Some((base, order)) = (0..=largest).rev().find_map(|o| Some((self.alloc_order(o)?, o))) else { break };
            got.blocks.push((base, 1 << order));
            got.missing -= 1 << order;
        }
        got
    }

    fn eager_from_next_larger(&mut self, pages: u64) -> Eager {
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

    fn free_block_around(&self, pfn: Pfn) -> Option<u32> {
        let is_free = |order: &u32| {
            let (base, at) = (pfn.0 & !((1 << order) - 1), *order as usize);
            let zeroed = self.zeroed.as_ref().is_some_and(|zeroed| zeroed.lists[at].contains(base));
            zeroed || self.lists[at].contains(base) || self.fresh[at].has(self.frames.memory(), base)
        };
        // Most frames that are asked for are taken.
        let free = self.frames.free_of(pfn.0 / 64) >> (pfn.0 % 64) & 1 == 1;
        free.then(|| (0..self.max_order()).find(is_free)).flatten()
    }

    fn watch_runs(&mut self) {
        let (memory, top) = (self.frames.memory(), self.max_order() - 1);
        assert_eq!(self.frames.count(), memory.movable().count(), "runs are watched from the start");
        let mut runs = Runs::new(1 << top);
        let mut from = 0;
        while let Some(run) = memory.open_run(from) {
            from = run.end;
            let largest = blocks_of(run, top).find(|(_, order, _)| *order == top);
            largest.into_iter().for_each(|(first, _, number)| runs.add(first..first + (number << top)));
        }
        self.runs = Some(runs);
    }

    fn mark_zeroed(&mut self) {
        self.zeroed = Some(Zeroed::new(self.max_order(), self.pick));
    }

    fn runs(&self) -> Option<&Runs> {
        self.runs.as_ref()
    }

    fn free_blocks(&self, order: u32) -> Option<u64> {
        let endless = self.frames.memory().frames().is_none() && order + 1 == self.max_order();
        (!endless).then(|| self.listed(order))
    }

    fn fragmentation_index(&self, request: u64) -> f64 {
        let Some(free) = self.free_frames() else { return 0.0 };
        if free == 0 {
            return 1.0;
        }
        let enough = request.clamp(1, self.max_block()).next_power_of_two().ilog2();
        let useful: u64 = (enough..self.max_order()).map(|o| self.listed(o) << o).sum();
        1.0 - useful as f64 / free as f64
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
        let free = self.frames.are_free(run.clone());
        if free {
            for (base, order, number) in blocks_of(run, self.max_order() - 1) {
                (0..number).for_each(|i| self.carve(base + (i << order), order));
            }
        }
        free
    }

    fn free_of(&self, word: u64) -> u64 {
        self.frames.free_of(word)
    }

    fn zero_ahead(&mut self, order: u32) -> Option<u64> {
        self.zeroed.as_ref()?;
        let block = self.take_other(order)?;
        let zeroed = self.zeroed.as_mut().expect("it was just there");
        let frames = zeroed.mark(block..block + (1 << order));
        zeroed.lists[order as usize].push_back(block);
        Some(frames)
    }

    fn prefer_zeroed(&mut self, first: bool) {
        if let Some(zeroed) = &mut self.zeroed {
            zeroed.first = first;
        }
    }

    fn take_zeroed(&mut self, first: Pfn, frames: u64) -> u64 {
        self.zeroed.as_mut().map_or(0, |zeroed| zeroed.unmark(first.0..first.0 + frames))
    }

    fn memory(&self) -> &PhysicalMemory {
        self.frames.memory()
    }

    fn movable(&self) -> PinnedSet {
        self.frames.memory().movable().clone()
    }

    fn free(&mut self, pfn: Pfn) {
        self.free_order(pfn, 0);
    }

    /// Block by block, with the same lists and as many steps as frame by frame: within a block of `2^k` each frame
    /// joins as many buddies as its number has ones at the end, and looks for one more.
    fn free_run(&mut self, first: Pfn, frames: u64) {
        for (base, order, number) in blocks_of(first.0..first.0 + frames, self.max_order() - 1) {
            for i in 0..number {
                self.steps += (2 << order) - 2;
                self.free_order(Pfn(base + (i << order)), order);
            }
        }
    }

    fn allocated(&self) -> u64 {
        self.frames.count()
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn blocks(&self) -> Option<&dyn BlockAllocator> {
        Some(self)
    }

    fn blocks_mut(&mut self) -> Option<&mut dyn BlockAllocator> {
        Some(self)
    }
}
