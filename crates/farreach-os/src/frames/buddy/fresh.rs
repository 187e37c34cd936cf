//! The blocks of one order that are free from the start. They are not listed: the memory knows them.

use crate::frames::pinned::PhysicalMemory;
use std::collections::BTreeSet;
use std::ops::Range;

/// log2 of the largest block that begins at `at`, ends by `end` and is not above `top`.
fn order_at(at: u64, end: u64, top: u32) -> u32 {
    at.trailing_zeros().min((end - at).ilog2()).min(top)
}

/// The maximal blocks of a run of free frames, ascending; runs of blocks of the largest order come as one item: first
/// frame, order, number.
pub fn blocks_of(run: Range<u64>, top: u32) -> impl Iterator<Item = (u64, u32, u64)> {
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

/// Blocks of `2^order` frames that were free from the start and are not taken yet.
pub struct Fresh {
    order: u32,
    /// The largest order.
    top: u32,
    /// Blocks not yet taken.
    left: u64,
    /// No block not yet taken begins below.
    from: u64,
    /// Blocks from there on that were taken out of their turn.
    gone: BTreeSet<u64>,
}

impl Fresh {
    /// No blocks.
    pub fn new(order: u32, top: u32) -> Fresh {
        Fresh { order, top, left: 0, from: 0, gone: BTreeSet::new() }
    }

    /// Adds blocks to the count.
    pub fn add(&mut self, blocks: u64) {
        self.left += blocks;
    }

    /// Blocks not yet taken.
    pub fn len(&self) -> u64 {
        self.left
    }

    /// The lowest block.
    pub fn first(&mut self, memory: &PhysicalMemory) -> Option<u64> {
        if self.left == 0 {
            return None;
        }
        let mut from = self.from;
        loop {
            // Beginning a run at the end of one of its blocks does not change its other blocks.
            let run = memory.open_run(from)?;
            from = run.end;
            for (first, _, number) in blocks_of(run, self.top).filter(|&(_, order, _)| order == self.order) {
                let mut blocks = (0..number).map(|i| first + (i << self.order));
                if let Some(block) = blocks.find(|block| !self.gone.contains(block)) {
                    self.from = block;
                    self.gone = self.gone.split_off(&block);
                    return Some(block);
                }
            }
        }
    }

    /// Takes the block that [`Fresh::first`] found.
    pub fn take_first(&mut self, block: u64) {
        self.left -= 1;
        self.from = block + (1 << self.order);
    }

    /// Takes exactly this block; false if it is none of them.
    pub fn take_block(&mut self, memory: &PhysicalMemory, base: u64) -> bool {
        let has = self.has(memory, base);
        if has {
            self.left -= 1;
            self.gone.insert(base);
        }
        has
    }

    /// Whether this is one of them.
    pub fn has(&self, memory: &PhysicalMemory, base: u64) -> bool {
        let size = 1u64 << self.order;
        if self.left == 0 || base < self.from || self.gone.contains(&base) || !memory.was_free(base..base + size) {
            return false;
        }
        // It is one block with its buddy if that was free too.
        let both = base & !size;
        self.order == self.top || !memory.was_free(both..both + 2 * size)
    }
}
