//! Compaction (F-14, RMM15-31, DS13-13): pages are copied elsewhere, so that free memory lies together. On demand,
//! until one block is free, or in the background, when free memory is fragmented. A way to do it is one file here,
//! after the contract in [`contract`], and one line in [`WAYS`]. [`mover`] moves the pages.

pub(crate) mod contract;
mod direct;
mod exchange;
mod full;
pub(crate) mod mover;
mod none;
mod partial;
pub(crate) mod policy;
mod smart;

use crate::os::Os;
use contract::{CompactionKind, When};
use farreach_types::counts::CompactionUse;
use policy::Plan;

/// All ways to compact memory. A new way is one file and one line here.
const WAYS: &[&CompactionKind] = &[&none::NONE, &direct::DIRECT, &partial::PARTIAL, &full::FULL, &smart::SMART];

/// The way of this name.
fn way(name: &str) -> &'static CompactionKind {
    WAYS.iter().copied().find(|way| way.name == name).expect("the key allows no other")
}

impl Os {
    /// The clock of background compaction. It ticks when the system starts, serves a page fault, or follows an event.
    #[inline]
    pub(crate) fn tick(&mut self) {
        if let Some(order) = self.compaction.woken.take() {
            // It copies no more pages than a run in the background.
            let pages = self.compaction.plan.pages;
            self.run_compaction(Plan { pages, ..Plan::for_request(order, false) });
        }
        if self.compaction.when == When::Background {
            let compaction = &mut self.compaction;
            let due = if compaction.every == 0 {
                compaction.ticks == 0
            } else {
                compaction.ticks.is_multiple_of(compaction.every)
            };
            compaction.ticks += 1;
            if due {
                self.compact_in_background();
            }
        }
    }

    fn compact_in_background(&mut self) {
        self.memory.release_freed();
        let block = 1 << self.compaction.plan.order;
        let Some(before) = self.fragmentation(block) else { return };
        if before <= self.compaction.threshold || self.compaction.backoff.skips() {
            return;
        }
        self.run_compaction(self.compaction.plan);
        let gained = self.fragmentation(block).is_some_and(|after| after < before);
        self.compaction.backoff.outcome(gained);
    }

    /// One run. Returns how many blocks became free.
    fn run_compaction(&mut self, plan: Plan) -> u64 {
        self.memory.release_freed();
        let before = self.memory.free_memory().unwrap_or_default();
        let moved = self.move_together(&plan);
        self.memory.release_freed();
        let after = self.memory.free_memory().unwrap_or_default();
        let used = &mut self.compaction.used;
        used.runs += 1;
        used.moved_pages += moved.pages;
        used.moved_of_others += moved.of_others;
        used.stayed += moved.stayed;
        used.before += &before;
        used.after += &after;
        moved.blocks
    }

    /// Makes a free block of `2^order` frames by emptying the group with the fewest pages. False if compaction is off
    /// or impossible, or if it failed recently.
    pub(crate) fn compact(&mut self, order: u32) -> bool {
        self.compaction.when == When::Demand && self.compact_now(order)
    }

    /// As [`Os::compact`], also if the key `compaction` says otherwise (LNX-5).
    pub(crate) fn compact_now(&mut self, order: u32) -> bool {
        let blindly = self.compaction.way.begins_blindly(order);
        // Blocks that were tried rest by themselves then.
        if !blindly && self.compaction.backoff.skips() {
            return false;
        }
        let plan = Plan::for_request(order, blindly);
        // TRI-3: smaller blocks that came beside it end the attempts, if they are more than one of this order has.
        let small = self.compaction.plan.order.min(order);
        let before = self.free_blocks(small);
        let mut done = false;
        for _ in 0..self.compaction.way.rounds(order) {
            done = self.run_compaction(plan) > 0;
            if done || self.free_blocks(small) > before + (1 << (order - small)) {
                break;
            }
        }
        if !blindly {
            self.compaction.backoff.outcome(done);
        }
        self.memory.counts.compactions += u64::from(done);
        self.memory.counts.compactions_failed += u64::from(!done);
        done
    }

    /// Free blocks of this order and larger ones, in blocks of it.
    fn free_blocks(&self, order: u32) -> u64 {
        self.memory.free_memory().map_or(0, |free| {
            (order..).zip(free.blocks.iter().skip(order as usize)).map(|(o, n)| n << (o - order)).sum()
        })
    }

    /// Makes a free block for a request that found memory fragmented. False if that failed or did not reduce
    /// fragmentation.
    pub(crate) fn gather_for(&mut self, pages: u64) -> bool {
        let Some(buddy) = self.memory.alloc.blocks() else { return false };
        let order = pages.clamp(1, buddy.max_block()).next_power_of_two().ilog2();
        let before = buddy.fragmentation_index(pages);
        self.compact(order) && self.fragmentation(pages).is_some_and(|now| now < before)
    }

    /// How far free memory is from a request of this many pages (AMB-84); `None` without a buddy allocator.
    pub fn fragmentation(&self, pages: u64) -> Option<f64> {
        Some(self.memory.alloc.blocks()?.fragmentation_index(pages))
    }

    /// Fragmentation and compaction; `None` without a buddy allocator over a limited memory.
    pub fn compaction_use(&self) -> Option<CompactionUse> {
        let at_end = self.memory.free_memory()?;
        Some(CompactionUse { at_end, ..self.compaction.used.clone() })
    }
}
