//! When memory is compacted: the keys, the task of a run, and the counters.

use super::contract::{CompactionKind, Way, When};
use super::{WAYS, way};
use crate::memory::Memory;
use farreach_types::addr::Bytes;
use farreach_types::counts::CompactionUse;
use farreach_types::params::{Allowed, Key, Params};

pub(crate) const COMPACTION: Key = Key {
    name: "compaction",
    default: "none",
    allowed: Allowed::OneOf(&NAMES),
    about: "copying pages together (F-14): never; when there is no free block: the block with the fewest pages, or \
            (smart) with the most free frames; or in the background: some blocks, or all of memory",
};
pub(super) const BLOCK: Key = Key {
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
pub(super) const PAGES: Key = Key {
    name: "compaction_pages",
    default: "4096",
    allowed: Allowed::Int { min: 1, max: 1 << 40 },
    about: "base pages that one run of partial compaction copies at most",
};

pub(super) const PAUSE: Key = Key {
    name: "compaction_pause_ms",
    default: "120000",
    allowed: Allowed::Int { min: 0, max: 1 << 40 },
    about: "milliseconds for which smart compaction leaves a block alone that it tried (TRI-3); for good without \
            ticks_per_ms",
};

/// The names of all ways.
const NAMES: [&str; WAYS.len()] = {
    let mut names = [""; WAYS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = WAYS[at].name;
        at += 1;
    }
    names
};

/// All keys of compaction.
pub const KEYS: &[&Key] = &[&COMPACTION, &BLOCK, &THRESHOLD, &EVERY, &PAGES, &PAUSE];

/// Runs without gain make the next ones rarer, up to one in 2^6.
const DEFER: u32 = 6;

/// Counts runs without gain, and leaves out further runs after them.
#[derive(Default)]
pub(crate) struct Backoff {
    failures: u32,
    skip: u64,
}

impl Backoff {
    /// Whether to leave this run out.
    pub fn skips(&mut self) -> bool {
        let skips = self.skip > 0;
        self.skip -= u64::from(skips);
        skips
    }

    /// Whether a run gained something.
    pub fn outcome(&mut self, gained: bool) {
        self.failures = if gained { 0 } else { (self.failures + 1).min(DEFER) };
        self.skip = if gained { 0 } else { (1 << self.failures) - 1 };
    }
}

/// Configuration and counters of compaction.
pub(crate) struct Compaction {
    /// When to compact.
    pub when: When,
    /// How.
    pub way: Box<dyn Way>,
    /// The task of a run in the background.
    pub plan: Plan,
    /// Fragmentation above which a run in the background starts.
    pub threshold: f64,
    /// Ticks between two checks of free memory; 0: one check, at the start.
    pub every: u64,
    /// A fault woke compaction, for a block of this size (LNX-5).
    pub woken: Option<u32>,
    /// Page faults and events so far.
    pub ticks: u64,
    /// Runs that are left out because others gained nothing.
    pub backoff: Backoff,
    /// The counters.
    pub used: CompactionUse,
}

impl Compaction {
    /// From the keys. The error names key, value and what is allowed.
    pub fn new(params: &Params, memory: &Memory) -> Result<Compaction, String> {
        let text = params.text(COMPACTION.name);
        let CompactionKind { when, allocators, build, .. } = *way(text);
        let allocator = params.text("allocator");
        if !allocators.contains(&allocator) {
            let allowed = allocators.join(" or ");
            return Err(format!(
                "compaction = {text} is not allowed with allocator = {allocator}: allocator must be {allowed}"
            ));
        }
        let order = params.order(BLOCK.name, params.int(BLOCK.name).max(params.int("page_size")))?;
        if let (When::Background, Some(buddy)) = (when, memory.alloc.blocks())
            && order >= buddy.max_order()
        {
            let largest = Bytes(buddy.max_block() * memory.page_bytes());
            let given = Bytes(params.int(BLOCK.name));
            return Err(format!(
                "compaction_block = {given} is not allowed: the allocator has blocks of {largest} at most (max_order = \
                 {})",
                buddy.max_order()
            ));
        }
        let way = build(params);
        let plan = Plan { order, sweep: way.sweeps(), blindly: false, pages: way.budget(), blocks: u64::MAX };
        let used =
            CompactionUse { order, at_start: memory.free_memory().unwrap_or_default(), ..CompactionUse::default() };
        Ok(Compaction {
            when,
            way,
            plan,
            threshold: params.number(THRESHOLD.name),
            every: params.int(EVERY.name),
            woken: None,
            ticks: 0,
            backoff: Backoff::default(),
            used,
        })
    }
}

/// The task of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// log2 of the frames of a block.
    pub order: u32,
    /// By address, over all of memory.
    pub sweep: bool,
    /// What cannot move is found when its turn comes.
    pub blindly: bool,
    /// Pages to copy at most.
    pub pages: u64,
    /// Blocks to empty at most.
    pub blocks: u64,
}

impl Plan {
    /// One block for a request.
    pub fn for_request(order: u32, blindly: bool) -> Plan {
        Plan { order, sweep: false, blindly, pages: u64::MAX, blocks: 1 }
    }

    /// Whether it is for a request.
    pub fn is_request(&self) -> bool {
        self.blocks == 1
    }
}
