//! The ranges of one process: its runs, its range table, its threshold.

use super::btree::BTree;
use super::census::Census;
use super::feedback::{Feedback, RangeUse};
use super::list::List;
use super::node::Line;
use super::policy::Policy;
use super::runs::Runs;
use super::table::RangeTable;
use crate::page_table::PageTable;
use farreach_types::addr::{Vpn, VpnRange};
use farreach_types::translation::{Range, RangeWalk};

/// The ranges of one process.
pub struct Ranges {
    /// Runs of all lengths.
    pub runs: Runs,
    table: Box<dyn RangeTable>,
    /// The larger of the thresholds by number of ranges and by feedback.
    threshold: u64,
    by_count: u64,
    feedback: Option<Feedback>,
    published: u64,
    version: u64,
    census: Census,
}

/// The costs of range tables.
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
    /// Ranges of a process that has none (RMM15-22).
    pub fn new(policy: &Policy) -> Ranges {
        let table: Box<dyn RangeTable> =
            if policy.btree { Box::new(BTree::default()) } else { Box::new(List::default()) };
        Ranges {
            runs: Runs::default(),
            table,
            threshold: policy.least,
            by_count: policy.least,
            feedback: policy.feedback.then(|| Feedback::new(policy.least)),
            published: 0,
            version: 0,
            census: Census::default(),
        }
    }

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

    /// The addresses of the nodes it visits.
    pub fn path(&self, vpn: Vpn, into: &mut Vec<u64>) {
        self.table.path(vpn, into);
    }

    /// One of them, as it lies in memory.
    pub fn node(&self, address: u64) -> Option<Line> {
        self.table.node(address)
    }

    /// Adds the processor's counts from a time when this process ran (F-4).
    pub fn counted(&mut self, more: RangeUse) {
        if let Some(feedback) = &mut self.feedback {
            self.runs.changed |= feedback.counted(more, &self.runs, self.by_count);
        }
    }

    /// Brings the table up to date. Returns the pages of ranges that shrank, split or were removed.
    pub fn sync(&mut self, policy: &Policy, tally: &mut Tally) -> Vec<VpnRange> {
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
        // A range that only grew stays valid as it was.
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

    /// Before pages are unmapped: takes the census if the space has more pages than ever before, by at least a
    /// sixty-fourth, so that growth in small steps does not cost a census at each.
    pub fn before_shrinking(&mut self, table: &PageTable) {
        if table.present() > self.census.pages + self.census.pages / 64 {
            self.census = Census::take(table, &self.runs);
        }
    }

    /// The census of the moment with most pages, which may be now.
    pub fn census(&self, table: &PageTable) -> Census {
        if table.present() > self.census.pages { Census::take(table, &self.runs) } else { self.census.clone() }
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
