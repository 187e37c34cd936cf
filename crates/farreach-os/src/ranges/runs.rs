//! The maximal runs of an address space (RMM15-20): consecutive pages in consecutive frames, with the same attributes.
//! Runs of all lengths are kept, so that a fault that joins two short ones finds them.

use super::node;
use farreach_types::addr::{Pfn, Vpn, VpnRange};
use farreach_types::translation::{Attr, Range};
use std::collections::BTreeMap;

/// A run, without its first page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Pages.
    pub pages: u64,
    /// Frame of the first.
    pub pfn: Pfn,
    /// Attributes of all.
    pub attr: Attr,
    /// Dissolved into pages (RMM15-29, RMM15-30): no range of any length until its pages are mapped again.
    pub loose: bool,
    /// The range table holds it as it is.
    pub published: bool,
}

impl Run {
    /// As a range translation.
    pub fn range(&self, first: Vpn) -> Range {
        Range { first, pages: self.pages, pfn: self.pfn, attr: self.attr }
    }
    /// Whether it may be a range, apart from its length.
    pub fn may_be_range(&self, first: Vpn) -> bool {
        !self.loose && node::fits(&self.range(first))
    }
    /// The part that begins this many pages later.
    fn from(&self, later: u64, pages: u64) -> Run {
        Run { pages, pfn: Pfn(self.pfn.0 + later), published: false, ..*self }
    }
    fn continues_in(&self, first: Vpn, next: &Run, start: Vpn) -> bool {
        first.0 + self.pages == start.0
            && self.pfn.0 + self.pages == next.pfn.0
            && (self.attr, self.loose) == (next.attr, next.loose)
    }
}

/// All runs, and their changes since the range table was last brought up to date.
#[derive(Debug)]
pub struct Runs {
    by_first: BTreeMap<Vpn, Run>,
    /// Published runs that changed or were removed, as they were published.
    pub retired: Vec<Range>,
    /// First pages of runs that are new or changed. Some may have been removed since.
    pub fresh: Vec<Vpn>,
    /// Whether a run was added or removed.
    pub changed: bool,
    /// By log2 of their pages, the runs that may be ranges.
    lengths: [u64; 64],
}

impl Default for Runs {
    fn default() -> Runs {
        Runs { by_first: BTreeMap::new(), retired: Vec::new(), fresh: Vec::new(), changed: false, lengths: [0; 64] }
    }
}

impl Runs {
    /// The run a page lies in.
    pub fn find(&self, vpn: Vpn) -> Option<(Vpn, &Run)> {
        let (first, run) = self.by_first.range(..=vpn).next_back()?;
        (vpn.0 - first.0 < run.pages).then_some((*first, run))
    }

    /// The run that begins at a page.
    pub fn at_mut(&mut self, first: Vpn) -> Option<&mut Run> {
        self.by_first.get_mut(&first)
    }

    /// All runs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (Vpn, &Run)> {
        self.by_first.iter().map(|(first, run)| (*first, run))
    }

    /// All runs, ascending, to publish them or not.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Vpn, &mut Run)> {
        self.by_first.iter_mut().map(|(first, run)| (*first, run))
    }

    /// Runs of at least `pages` pages, a power of two, that may be ranges.
    pub fn at_least(&self, pages: u64) -> u64 {
        self.lengths[pages.ilog2() as usize..].iter().sum()
    }

    fn add(&mut self, first: Vpn, run: Run) {
        self.changed = true;
        self.lengths[run.pages.ilog2() as usize] += u64::from(run.may_be_range(first));
        self.by_first.insert(first, run);
        if self.fresh.last() != Some(&first) {
            self.fresh.push(first);
        }
    }

    fn forget(&mut self, first: Vpn) -> Run {
        self.changed = true;
        let run = self.by_first.remove(&first).expect("it was just found");
        self.lengths[run.pages.ilog2() as usize] -= u64::from(run.may_be_range(first));
        if run.published {
            self.retired.push(run.range(first));
        }
        run
    }

    /// Pages that were in no run are mapped.
    pub fn insert(&mut self, mut first: Vpn, pages: u64, pfn: Pfn, attr: Attr, loose: bool) {
        let mut run = Run { pages, pfn, attr, loose, published: false };
        if let Some((&start, before)) = self.by_first.range(..first).next_back() {
            debug_assert!(start.0 + before.pages <= first.0, "page {first:?} lies in a run already");
            if before.continues_in(start, &run, first) {
                run = Run { pages: before.pages + pages, pfn: before.pfn, ..run };
                self.forget(start);
                first = start;
            }
        }
        let end = Vpn(first.0 + run.pages);
        if self.by_first.get(&end).is_some_and(|next| run.continues_in(first, next, end)) {
            run.pages += self.forget(end).pages;
        }
        self.add(first, run);
    }

    /// Pages are unmapped or change: removes them from their runs. The remaining parts are runs of their own, and
    /// ranges if they are long enough (AMB-87).
    pub fn remove(&mut self, pages: VpnRange) {
        if pages.pages == 0 {
            return;
        }
        let from = self.find(pages.start).map_or(pages.start, |(first, _)| first);
        let hit: Vec<Vpn> = self.by_first.range(from..pages.end()).map(|(first, _)| *first).collect();
        for first in hit {
            let run = self.forget(first);
            let end = first.0 + run.pages;
            if first < pages.start {
                self.add(first, run.from(0, pages.start.0 - first.0));
            }
            if end > pages.end().0 {
                let rest = run.from(pages.end().0 - first.0, end - pages.end().0);
                self.add(pages.end(), rest);
            }
        }
    }

    /// Dissolves the run a page lies in (RMM15-29): its pages stay mapped, the range does not.
    pub fn dissolve(&mut self, vpn: Vpn) {
        if let Some((first, &run)) = self.find(vpn).filter(|(_, run)| !run.loose) {
            self.remove(VpnRange { start: first, pages: run.pages });
            self.insert(first, run.pages, run.pfn, run.attr, true);
        }
    }
}
