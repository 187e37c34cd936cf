//! Range translations (RMM15-20 to RMM15-35): which runs of pages each process keeps in its range table, beside its page table.
//!
//! A range is a maximal run ([`runs`]) of at least the threshold. Whatever maps a page, unmaps it, moves it or changes its
//! attributes tells the runs; at the end of each fault and each event the range table follows, and ranges that are no longer
//! wholly true are reported as `Demoted`: a range TLB drops the whole entry (RMM15-12).

pub mod btree;
mod census;
mod feedback;
mod list;
mod maintenance;
pub mod node;
pub mod runs;

pub use census::Census;
use farreach_types::addr::{Vpn, VpnRange};
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{Range, RangeWalk};
use feedback::Feedback;
pub use feedback::RangeUse;
pub use list::List;
use runs::Runs;

/// A process's range table. Ranges in it are disjoint; all tables give the same answers and differ in the nodes a search visits
/// (RMM15-35).
pub trait RangeTable: Send {
    /// Adds a range that overlaps none.
    fn insert(&mut self, range: Range);
    /// Takes out the range that begins at this page.
    fn remove(&mut self, first: Vpn) -> Option<Range>;
    /// The walker (RMM15-9).
    fn search(&self, vpn: Vpn) -> RangeWalk;
    /// Byte addresses of the nodes that it visits, in order, if the table has addresses.
    fn path(&self, vpn: Vpn, into: &mut Vec<u64>) {
        let _ = (vpn, into);
    }
    /// All ranges, ascending.
    fn ranges(&self) -> Vec<Range>;
    /// Nodes it has now.
    fn nodes(&self) -> u64;
}

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
    about: "ranges a process may have: with more, its threshold doubles, far below it halves again; 0: as many as there are (F-4)",
};
/// F-4, with the hardware's counts.
pub const FEEDBACK: Key = Key {
    name: "range_feedback",
    default: "false",
    allowed: Allowed::Flag,
    about: "the threshold of a process follows what its range TLB misses and evicts (F-4); needs ranges and a range TLB",
};
const COW: Key = Key {
    name: "range_cow",
    default: "dissolve",
    allowed: Allowed::OneOf(&["dissolve", "split", "copy"]),
    about: "a store to a copy-on-write page of a range: dissolve the range, split it, or copy all of it (RMM15-30, F-3)",
};
/// What is given up when memory is full.
pub const RECLAIM: Key = Key {
    name: "reclaim_unused",
    default: "never",
    allowed: Allowed::OneOf(&["never", "dissolve", "split"]),
    about: "when memory is full, free mapped pages that were never touched; their range dissolves or splits (F-7, RMM15-29)",
};

/// All keys of ranges.
pub const KEYS: &[&Key] = &[&RANGES, &TABLE, &THRESHOLD, &CAPACITY, &FEEDBACK, &COW, &RECLAIM];

/// What a store to a copy-on-write page of a range does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cow {
    /// The range becomes pages, one of which is copied.
    Dissolve,
    /// The page is copied, the rest stays one or two ranges if long enough.
    Split,
    /// All pages of the range are copied, and stay one.
    Copy,
}

/// How ranges are kept.
#[derive(Clone, Debug)]
pub struct Policy {
    btree: bool,
    least: u64,
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

    /// Ranges of a process that has none (RMM15-22).
    fn begin(&self) -> Ranges {
        let table: Box<dyn RangeTable> = if self.btree { Box::new(btree::BTree::default()) } else { Box::new(List::default()) };
        Ranges {
            runs: Runs::default(),
            table,
            threshold: self.least,
            by_count: self.least,
            feedback: self.feedback.then(|| Feedback::new(self.least)),
            published: 0,
            version: 0,
            census: Census::default(),
        }
    }

    /// The threshold that the number of runs asks for (F-4). It doubles while there are more ranges than the capacity, and halves while
    /// twice as fine a threshold would leave a quarter of the capacity free: so it does not swing.
    fn by_count(&self, runs: &Runs, mut now: u64) -> u64 {
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

/// The ranges of one process.
pub struct Ranges {
    /// Runs of all lengths.
    pub runs: Runs,
    table: Box<dyn RangeTable>,
    /// The larger of what their number and what the range TLB asks for.
    threshold: u64,
    by_count: u64,
    feedback: Option<Feedback>,
    published: u64,
    version: u64,
    census: Census,
}

/// What keeping range tables cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Ranges written to a table.
    pub inserted: u64,
    /// Ranges taken out.
    pub removed: u64,
    /// Largest number of ranges of one process.
    pub most: u64,
    /// Largest number of nodes of one table.
    pub nodes: u64,
    /// Ranges dissolved into pages.
    pub dissolved: u64,
    /// Largest threshold.
    pub threshold: u64,
    /// Changes of a threshold.
    pub moves: u64,
    /// The threshold that a process got last.
    pub last: u64,
}

impl Ranges {
    /// The range of a page, if it is in one.
    pub fn find(&self, vpn: Vpn) -> Option<Range> {
        self.runs.find(vpn).filter(|(_, run)| run.published).map(|(first, run)| run.range(first))
    }

    /// The largest ranges, largest first, of equal ones the lowest.
    pub fn largest(&self, most: usize) -> Vec<Range> {
        let mut all: Vec<Range> =
            self.runs.iter().filter(|(_, run)| run.published).map(|(first, run)| run.range(first)).collect();
        all.sort_by_key(|range| std::cmp::Reverse(range.pages));
        all.truncate(most);
        all
    }

    /// Counts up whenever the table is brought up to date.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The walker's search.
    pub fn walk(&self, vpn: Vpn) -> RangeWalk {
        self.table.search(vpn)
    }

    /// Where its nodes lie.
    pub fn path(&self, vpn: Vpn, into: &mut Vec<u64>) {
        self.table.path(vpn, into);
    }

    /// The processor counted more while this process ran (F-4).
    fn counted(&mut self, more: RangeUse) {
        if let Some(feedback) = &mut self.feedback {
            self.runs.changed |= feedback.counted(more, &self.runs, self.by_count);
        }
    }

    /// Brings the table up to date. Returns the pages of ranges that shrank, split or went.
    fn sync(&mut self, policy: &Policy, tally: &mut Tally) -> Vec<VpnRange> {
        self.runs.changed = false;
        self.version += 1;
        let retired = std::mem::take(&mut self.runs.retired);
        for range in &retired {
            self.table.remove(range.first).expect("published runs stand in the table");
            self.published -= 1;
            tally.removed += 1;
        }
        self.by_count = policy.by_count(&self.runs, self.by_count);
        let now = self.feedback.as_ref().map_or(0, |f| f.threshold).max(self.by_count);
        let before = std::mem::replace(&mut self.threshold, now);
        let mut demoted = Vec::new();
        if before == now {
            for first in std::mem::take(&mut self.runs.fresh) {
                if let Some(run) = self.runs.at_mut(first)
                    && !run.published
                    && run.pages >= now
                    && run.may_be_range(first)
                {
                    run.published = true;
                    self.table.insert(run.range(first));
                    self.published += 1;
                    tally.inserted += 1;
                }
            }
        } else {
            self.runs.fresh.clear();
            for (first, run) in self.runs.iter_mut() {
                let wanted = run.pages >= now && run.may_be_range(first);
                if wanted && !run.published {
                    self.table.insert(run.range(first));
                    (self.published, tally.inserted) = (self.published + 1, tally.inserted + 1);
                } else if run.published && !wanted {
                    self.table.remove(first).expect("published runs stand in the table");
                    (self.published, tally.removed) = (self.published - 1, tally.removed + 1);
                    demoted.push(VpnRange { start: first, pages: run.pages });
                }
                run.published = wanted;
            }
        }
        // A range that only grew is still true as it was.
        let holds = |old: &Range| {
            self.find(old.first).is_some_and(|new| {
                new.attr == old.attr
                    && new.pfn.0 + (old.first.0 - new.first.0) == old.pfn.0
                    && old.first.0 + old.pages <= new.first.0 + new.pages
            })
        };
        demoted.extend(retired.iter().filter(|r| !holds(r)).map(|r| VpnRange { start: r.first, pages: r.pages }));
        tally.most = tally.most.max(self.published);
        tally.nodes = tally.nodes.max(self.table.nodes());
        tally.threshold = tally.threshold.max(now);
        tally.moves += u64::from(before != now);
        tally.last = now;
        demoted
    }

    /// Panics unless table, runs and threshold agree (CA-33); for tests and debug builds.
    pub fn check(&self) {
        let published = self.runs.iter().filter(|(_, run)| run.published).map(|(first, run)| run.range(first));
        assert_eq!(published.collect::<Vec<_>>(), self.table.ranges(), "range bits and range table agree");
        for (first, run) in self.runs.iter() {
            assert_eq!(run.published, run.pages >= self.threshold && run.may_be_range(first), "the run at {first:?}");
        }
    }
}
