//! Compaction (F-14, RMM15-31, DS13-13): pages are copied elsewhere, so that free memory lies together. On demand, until one block is
//! free, or in the background, when free memory is found to be in pieces. What moves, and where to, is in [`mover`].

mod mover;

use super::Os;
use super::memory::Memory;
use farreach_types::counts::{CompactionUse, FreeMemory};
use farreach_types::params::{Allowed, Key, Params};
use mover::Plan;

const COMPACTION: Key = Key {
    name: "compaction",
    default: "none",
    allowed: Allowed::OneOf(&["none", "direct", "partial", "full"]),
    about: "copying pages together (F-14): never, when there is no free block, or in the background: some blocks, or all of memory",
};
const BLOCK: Key = Key {
    name: "compaction_block",
    default: "2M",
    allowed: Allowed::PageSize { min: 4096, max: 1 << 30 },
    about: "what partial and full compaction make free blocks of, and judge free memory by",
};
const THRESHOLD: Key = Key {
    name: "compaction_threshold",
    default: "0.1",
    allowed: Allowed::Number { min: 0.0, max: 1.0 },
    about: "share of free memory in blocks smaller than compaction_block above which partial and full compaction run",
};
const EVERY: Key = Key {
    name: "compaction_every",
    default: "4096",
    allowed: Allowed::Int { min: 0, max: u64::MAX },
    about: "page faults and events of programs between two looks at free memory, the first at the start; 0: no other",
};
const PAGES: Key = Key {
    name: "compaction_pages",
    default: "4096",
    allowed: Allowed::Int { min: 1, max: 1 << 40 },
    about: "base pages that one run of partial compaction copies at most",
};

/// All keys of compaction.
pub const KEYS: &[&Key] = &[&COMPACTION, &BLOCK, &THRESHOLD, &EVERY, &PAGES];

/// Runs without gain make the next ones rarer, up to one in 2^6.
const DEFER: u32 = 6;

/// When to compact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    Never,
    /// No block for what is asked for.
    Demand,
    /// Free memory was found in pieces.
    Background,
}

/// How often it gained nothing lately.
#[derive(Default)]
struct Backoff {
    failures: u32,
    skip: u64,
}

impl Backoff {
    /// Whether this one is to be left out.
    fn skips(&mut self) -> bool {
        let skips = self.skip > 0;
        self.skip -= u64::from(skips);
        skips
    }

    fn outcome(&mut self, gained: bool) {
        self.failures = if gained { 0 } else { (self.failures + 1).min(DEFER) };
        self.skip = if gained { 0 } else { (1 << self.failures) - 1 };
    }
}

/// Configuration and counters of compaction.
pub(super) struct Compaction {
    when: When,
    /// Of a run in the background.
    plan: Plan,
    threshold: f64,
    every: u64,
    /// Page faults and events so far.
    ticks: u64,
    backoff: Backoff,
    used: CompactionUse,
}

impl Compaction {
    /// From the keys. The error names key, value and what is allowed.
    pub fn new(params: &Params, memory: &Memory) -> Result<Compaction, String> {
        let text = params.text(COMPACTION.name);
        let (when, allocators) = match text {
            "none" => (When::Never, &["fifo", "buddy", "colouring"][..]),
            "direct" => (When::Demand, &["fifo", "buddy"][..]),
            _ => (When::Background, &["buddy"][..]),
        };
        let allocator = params.text("allocator");
        if !allocators.contains(&allocator) {
            let allowed = allocators.join(" or ");
            return Err(format!(
                "compaction = {text} is not allowed with allocator = {allocator}: allocator must be {allowed}"
            ));
        }
        let order = params.order(BLOCK.name, params.int(BLOCK.name).max(params.int("page_size")))?;
        if let (When::Background, Some(buddy)) = (when, memory.alloc.buddy())
            && order >= buddy.max_order()
        {
            let largest = farreach_types::addr::Bytes(buddy.max_block() * memory.page_bytes());
            let given = farreach_types::addr::Bytes(params.int(BLOCK.name));
            return Err(format!(
                "compaction_block = {given} is not allowed: the allocator has blocks of {largest} at most (max_order = {})",
                buddy.max_order()
            ));
        }
        let full = text == "full";
        let budget = if full { u64::MAX } else { params.int(PAGES.name) };
        let used = CompactionUse { order, at_start: memory.free_memory().unwrap_or_default(), ..CompactionUse::default() };
        Ok(Compaction {
            when,
            plan: Plan { order, sweep: full, pages: budget, blocks: u64::MAX },
            threshold: params.number(THRESHOLD.name),
            every: params.int(EVERY.name),
            ticks: 0,
            backoff: Backoff::default(),
            used,
        })
    }
}

impl Os {
    /// The clock of what happens in the background: the system starts, serves a page fault, follows an event.
    #[inline]
    pub(super) fn tick(&mut self) {
        if self.compaction.when == When::Background {
            let compaction = &mut self.compaction;
            let due =
                if compaction.every == 0 { compaction.ticks == 0 } else { compaction.ticks.is_multiple_of(compaction.every) };
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

    /// One run; how many blocks became free.
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

    /// Makes a free block of `2^order` frames by copying the pages out of the group that has fewest. False if that is not wanted, not
    /// possible, or failed lately.
    pub(super) fn compact(&mut self, order: u32) -> bool {
        if self.compaction.when != When::Demand || self.compaction.backoff.skips() {
            return false;
        }
        let done = self.run_compaction(Plan { order, sweep: false, pages: u64::MAX, blocks: 1 }) > 0;
        self.compaction.backoff.outcome(done);
        self.memory.counts.compactions += u64::from(done);
        self.memory.counts.compactions_failed += u64::from(!done);
        done
    }

    /// Makes a free block for a request that found memory fragmented. False when that is not to be had, or not worth it any more.
    pub(super) fn gather_for(&mut self, pages: u64) -> bool {
        let Some(buddy) = self.memory.alloc.buddy() else { return false };
        let order = pages.clamp(1, buddy.max_block()).next_power_of_two().ilog2();
        let before = buddy.fragmentation_index(pages);
        self.compact(order) && self.fragmentation(pages).is_some_and(|now| now < before)
    }

    /// How far free memory is from a request of this many pages (AMB-84); `None` without a buddy allocator.
    pub fn fragmentation(&self, pages: u64) -> Option<f64> {
        Some(self.memory.alloc.buddy()?.fragmentation_index(pages))
    }

    /// Fragmentation and compaction; `None` without a buddy allocator over a memory with an end.
    pub fn compaction_use(&self) -> Option<CompactionUse> {
        let at_end = self.memory.free_memory()?;
        Some(CompactionUse { at_end, ..self.compaction.used.clone() })
    }
}

impl Memory {
    /// What is free, block by block; `None` without a buddy allocator over a memory with an end.
    pub(super) fn free_memory(&self) -> Option<FreeMemory> {
        let buddy = self.alloc.buddy()?;
        let blocks = (0..buddy.max_order()).map(|order| buddy.free_blocks(order)).collect::<Option<_>>()?;
        Some(FreeMemory { frames: self.alloc.free_frames()?, blocks })
    }
}
