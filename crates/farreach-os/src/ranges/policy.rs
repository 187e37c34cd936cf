//! The policy of ranges: the keys and their values.

use super::runs::Runs;
use farreach_types::params::{Allowed, Key, Params};

/// Whether ranges are kept.
pub const RANGES: Key = Key {
    name: "ranges",
    default: "false",
    allowed: Allowed::Flag,
    about: "keep range translations beside the page table (RMM15-1), and count contiguity",
};
const TABLE: Key = Key {
    name: "range_table",
    default: "btree",
    allowed: Allowed::OneOf(&["btree", "list"]),
    about: "the range table: a B-tree, or the linked list of the prototype (RMM15-7, RMM15-35)",
};
const THRESHOLD: Key = Key {
    name: "range_threshold",
    default: "8",
    allowed: Allowed::PowerOfTwo { min: 1, max: 1 << 30 },
    about: "base pages that a range has at least (RMM15-20)",
};
const CAPACITY: Key = Key {
    name: "range_capacity",
    default: "0",
    allowed: Allowed::Int { min: 0, max: 1 << 20 },
    about: "ranges a process may have: with more, its threshold doubles, far below it halves again; 0: as many as \
            there are (F-4)",
};
/// F-4, with the hardware's counts.
pub const FEEDBACK: Key = Key {
    name: "range_feedback",
    default: "false",
    allowed: Allowed::Flag,
    about: "the threshold of a process follows what its range TLB misses and evicts (F-4); needs ranges and a range \
            TLB",
};
const COW: Key = Key {
    name: "range_cow",
    default: "dissolve",
    allowed: Allowed::OneOf(&["dissolve", "split", "copy"]),
    about: "a store to a copy-on-write page of a range: dissolve the range, split it, or copy all of it (RMM15-30, \
            F-3)",
};
/// Frames to take back when memory is full.
const RECLAIM: Key = Key {
    name: "reclaim_unused",
    default: "never",
    allowed: Allowed::OneOf(&["never", "dissolve", "split"]),
    about: "when memory is full, free mapped pages that were never touched; their range dissolves or splits (F-7, \
            RMM15-29)",
};

/// All keys of ranges.
pub const KEYS: &[&Key] = &[&RANGES, &TABLE, &THRESHOLD, &CAPACITY, &FEEDBACK, &COW, &RECLAIM];

/// The effect of a store to a copy-on-write page of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cow {
    /// The range becomes pages, and the page stored to is copied.
    Dissolve,
    /// The page is copied, the rest stays one or two ranges if long enough.
    Split,
    /// All pages of the range are copied, and stay one.
    Copy,
}

/// The effect on the range of a page that is taken back (RMM15-29): it dissolves, or it splits and the rest stays
/// (F-21).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reclaim {
    /// Nothing is taken back.
    Never,
    /// The range dissolves first.
    Dissolve,
    /// It splits.
    Split,
}

impl Reclaim {
    /// From the keys.
    pub fn new(params: &Params) -> Reclaim {
        match params.text(RECLAIM.name) {
            "dissolve" => Reclaim::Dissolve,
            "split" => Reclaim::Split,
            _ => Reclaim::Never,
        }
    }
}

/// The policy of ranges.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The range table is a B-tree, otherwise a list.
    pub btree: bool,
    /// Pages that a range has at least.
    pub least: u64,
    capacity: u64,
    /// Whether thresholds follow the counters of the processor.
    pub feedback: bool,
    /// On copy-on-write.
    pub cow: Cow,
}

impl Policy {
    /// From the keys; `None` when no ranges are kept.
    pub fn new(params: &Params) -> Option<Policy> {
        params.flag(RANGES.name).then(|| Policy {
            btree: params.text(TABLE.name) == "btree",
            least: params.int(THRESHOLD.name),
            capacity: params.int(CAPACITY.name),
            feedback: params.flag(FEEDBACK.name),
            cow: match params.text(COW.name) {
                "split" => Cow::Split,
                "copy" => Cow::Copy,
                _ => Cow::Dissolve,
            },
        })
    }

    /// The threshold for the current number of runs (F-4). It doubles while there are more ranges than the capacity. It
    /// halves while half the threshold would still leave a quarter of the capacity free, so that it does not oscillate.
    pub fn by_count(&self, runs: &Runs, mut now: u64) -> u64 {
        if self.capacity == 0 {
            return now;
        }
        while runs.at_least(now) > self.capacity {
            now *= 2;
        }
        while now > self.least && runs.at_least(now / 2) <= self.capacity - self.capacity / 4 {
            now /= 2;
        }
        now
    }
}
