//! The page table that designs read, as far as it is filled from the mirror, and the pages and frames in use.

use super::Guest;
use super::format::Leaf;
use crate::contract::What;
use crate::os::Os;
use crate::page_table::entry::Entry;
use farreach_types::addr::{Asid, KERNEL, Pfn, Vpn, VpnRange};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Touched pages, and the frames behind them.
#[derive(Default)]
pub(crate) struct InUse {
    /// Touched pages by frame.
    frames: HashMap<u64, u32, FixedState>,
    pages: u64,
    pages_most: u64,
    frames_most: u64,
}

/// An entry of the kernel that is not global.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Local {
    pub pages: u64,
    /// One of its pages was touched.
    pub touched: bool,
}

impl InUse {
    fn add(&mut self, pfn: u64) {
        *self.frames.entry(pfn).or_insert(0) += 1;
        self.pages += 1;
        self.pages_most = self.pages_most.max(self.pages);
        self.frames_most = self.frames_most.max(self.frames());
    }

    fn take(&mut self, pfn: u64) {
        let pages = self.frames.get_mut(&pfn).expect("touched pages are counted");
        *pages -= 1;
        if *pages == 0 {
            self.frames.remove(&pfn);
        }
        self.pages -= 1;
    }

    /// Frames of touched pages now.
    pub fn frames(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Most of both at any time: pages, frames.
    pub fn most(&self) -> (u64, u64) {
        (self.pages_most, self.frames_most)
    }
}

impl Guest {
    /// Maps the unmapped pages of a leaf, from the first on.
    pub(super) fn insert(&mut self, os: &mut Os, asid: Asid, pages: VpnRange, leaf: Leaf) {
        let Leaf { pfn, order, attr, global } = leaf;
        os.ranges_mapped(asid, pages, Pfn(pfn), attr);
        let table = &mut os.spaces[asid.0 as usize].table;
        let before = table.nodes();
        table.insert_run(pages, Entry { pfn: Pfn(pfn), attr, order, present: true, ..Entry::default() });
        os.nodes += table.nodes() - before;
        os.mapped += pages.pages;
        os.nodes_peak = os.nodes_peak.max(os.nodes);
        os.announce(asid, pages);
        if asid == KERNEL {
            self.direct_map.add(pages, Pfn(pfn), attr);
        }
        if asid == KERNEL && !global {
            self.local.insert(pages.start.0, Local { pages: pages.pages, touched: false });
            self.local_most = self.local_most.max(self.local.len());
        }
        self.changed(asid);
    }

    /// Unmaps the pages of a range, which need not be mapped. Stale ones among them are no longer any.
    pub(super) fn remove(&mut self, os: &mut Os, asid: Asid, range: VpnRange) {
        let table = &os.spaces[asid.0 as usize].table;
        if !table.any_in(range) {
            return;
        }
        let runs = table.runs_in(range);
        table.touched_in(range).into_iter().for_each(|pfn| self.in_use.take(pfn.0));
        os.ranges_unmapped(asid, range);
        let table = &mut os.spaces[asid.0 as usize].table;
        let before = table.nodes();
        table.clear(range);
        os.nodes -= before - table.nodes();
        for (first, pages) in joined(runs.iter().map(|run| (run.first.0, run.pages))) {
            os.mapped -= pages;
            os.change(asid, VpnRange { start: Vpn(first), pages }, What::Stale);
        }
        self.forget_stale(asid, range);
        if asid == KERNEL {
            self.direct_map.take(range);
            let before = self.local.range(..range.end().0).rev();
            let inside = before.map(|(&first, _)| first).take_while(|&first| first >= range.start.0);
            inside.collect::<Vec<_>>().iter().for_each(|first| _ = self.local.remove(first));
        }
        self.changed(asid);
    }

    /// The first touch of a page.
    pub(super) fn touch_first(&mut self, os: &Os, asid: Asid, vpn: Vpn, entry: &Entry) {
        self.in_use.add(entry.pfn.0);
        if asid != KERNEL {
            return;
        }
        self.touch_direct_map(os, vpn, entry.pfn, entry.attr);
        if let Some((first, local)) = self.local.range_mut(..=vpn.0).next_back() {
            local.touched |= vpn.0 - first < local.pages;
        }
    }

    /// Panics unless touched pages and frames are those of the page tables.
    pub(crate) fn check(&self, os: &Os) {
        let mut frames: HashMap<u64, u32, FixedState> = HashMap::default();
        for space in &os.spaces {
            space.table.touched_in(os.all_pages()).iter().for_each(|pfn| *frames.entry(pfn.0).or_insert(0) += 1);
        }
        assert_eq!(frames, self.in_use.frames, "touched pages by frame");
        assert_eq!(self.in_use.pages, frames.values().map(|&n| u64::from(n)).sum::<u64>(), "touched pages");
        self.check_links();
    }
}

/// Ascending ranges, those that follow each other joined.
pub(super) fn joined(ranges: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::new();
    for (first, pages) in ranges {
        match all.last_mut() {
            Some((last, n)) if *last + *n == first => *n += pages,
            _ => all.push((first, pages)),
        }
    }
    all
}
