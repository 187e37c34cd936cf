//! The daemon of Linux that collapses base pages into superpages (LNX-10 to LNX-13), and that of Trident, which tries
//! larger ones first (TRI-2).

use super::contract::Daemon;
use crate::os::Os;
use crate::placement::contract::Effort;
use crate::region::Region;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};

/// How it works (LNX-10). Times are in instructions.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// log2 of the base pages of the superpage.
    pub order: u8,
    /// Page table entries looked at in one wake.
    pub pages: u64,
    /// From one wake to the next.
    pub sleep: u64,
    /// From a failed allocation to the next wake.
    pub alloc_sleep: u64,
    /// Whether it may compact memory for a block.
    pub compacts: bool,
    /// Most pages of a group that may be missing.
    pub missing: u64,
    /// Most pages of a group that other processes may map, too.
    pub shared: u64,
    /// A larger superpage that is tried first, where one fits.
    pub large: Option<Large>,
}

/// The larger superpage (TRI-2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Large {
    /// log2 of its base pages.
    pub order: u8,
    /// Most pages of a group that may be missing.
    pub missing: u64,
}

/// See the module.
pub(crate) struct Khugepaged {
    settings: Settings,
    /// Processes in the order in which they entered.
    list: Vec<Asid>,
    /// The one that it looks at, and where it stopped there; `None`: it begins with the first.
    at: Option<(usize, Vpn)>,
    due: u64,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    wakes: u64,
    scanned: u64,
    failed: u64,
    copied: u64,
    zeroed: u64,
    large: u64,
}

impl Khugepaged {
    pub fn new(settings: Settings) -> Khugepaged {
        Khugepaged { settings, list: Vec::new(), at: None, due: u64::MAX, tally: Tally::default() }
    }

    fn group(&self, at: Vpn) -> VpnRange {
        VpnRange { start: at.align_down(self.settings.order.into()), pages: 1 << self.settings.order }
    }

    /// The first group of a process from a page on that may be collapsed at all: inside a region whose memory may have
    /// superpages of this size; or the larger group that begins there, if it fits, too.
    fn next_group(&self, os: &Os, asid: Asid, from: Vpn) -> Option<(VpnRange, Region)> {
        let pages = 1u64 << self.settings.order;
        let regions = &os.spaces.get(asid.0 as usize)?.regions;
        regions.from(from).filter(|region| os.may_collapse(asid, region, self.settings.order)).find_map(|region| {
            let start = Vpn(from.max(region.range.start).0.next_multiple_of(pages));
            let large = self.settings.large.map_or(pages, |large| 1 << large.order);
            let sizes = [large, pages].map(|pages| VpnRange { start, pages });
            let fits = |group: &VpnRange| start.0.is_multiple_of(group.pages) && group.and(region.range) == *group;
            Some((sizes.into_iter().find(fits)?, region.clone()))
        })
    }

    /// TRI-2: whether there is the larger superpage at a group that has its size, perhaps since now.
    fn is_large(&mut self, os: &mut Os, asid: Asid, group: VpnRange, region: &Region) -> bool {
        let Some(large) = self.settings.large else { return false };
        let table = &os.spaces[asid.0 as usize].table;
        let runs = table.runs_in(group);
        let Some(first) = runs.first() else { return false };
        if first.entry.order >= large.order {
            return true;
        }
        let alone = |pfn: u64| os.memory.mappings(Pfn(pfn)) == 1;
        let qualifies = group.pages - runs.iter().map(|run| run.pages).sum::<u64>() <= large.missing
            && runs.iter().all(|run| (run.entry.pfn.0..run.entry.pfn.0 + run.pages).all(alone))
            && !table.touched_in(group).is_empty();
        let made = qualifies && self.collapse(os, asid, group, region);
        self.tally.large += u64::from(made);
        made
    }

    /// A process with a region that has room for a superpage enters, if its memory may have one.
    fn enter(&mut self, os: &Os, asid: Asid, region: &Region) {
        if self.list.contains(&asid) || !os.may_collapse(asid, region, self.settings.order) {
            return;
        }
        // Without a process it sleeps until one comes; otherwise it sleeps on.
        if self.due == u64::MAX {
            self.due = 0;
        }
        self.list.push(asid);
    }

    /// LNX-12 and LNX-13. False: the group qualifies, and there was no block.
    fn look(&mut self, os: &mut Os, asid: Asid, group: VpnRange, region: &Region) -> bool {
        let table = &os.spaces[asid.0 as usize].table;
        let entries: Vec<_> = table.mapped_in(group).into_iter().filter_map(|vpn| table.get(vpn)).collect();
        let shared = entries.iter().filter(|e| os.memory.mappings(e.pfn) > 1).count() as u64;
        let present = entries.len() as u64;
        let qualifies = entries.first().is_some_and(|first| first.order < self.settings.order)
            && group.pages - present <= self.settings.missing
            && shared <= self.settings.shared
            && entries.iter().any(|e| e.touched);
        !qualifies || self.collapse(os, asid, group, region)
    }

    /// LNX-13. False: there was no block.
    fn collapse(&mut self, os: &mut Os, asid: Asid, group: VpnRange, region: &Region) -> bool {
        let effort = if self.settings.compacts { Effort::Direct } else { Effort::Fail };
        // What it does in all, compaction for the block included.
        let before = (os.memory.counts.gathered_pages, os.memory.counts.zeroed_pages);
        let collapsed = os.collapse_group(asid, group, region, effort);
        os.sync_ranges(asid);
        self.tally.copied += os.memory.counts.gathered_pages - before.0;
        self.tally.zeroed += os.memory.counts.zeroed_pages - before.1;
        collapsed
    }

    /// LNX-11: looks at groups until the budget is spent, or it comes to the end of the list a second time, or once
    /// from its beginning. False: there was no block.
    fn scan(&mut self, os: &mut Os) -> bool {
        let (mut left, mut begun, pages) = (self.settings.pages, false, 1 << self.settings.order);
        while left > 0 {
            let (i, from) = match self.at {
                Some(at) => at,
                None if begun || self.list.is_empty() => break,
                None => {
                    begun = true;
                    (0, Vpn(0))
                }
            };
            let asid = self.list[i];
            let Some((group, region)) = self.next_group(os, asid, from) else {
                self.at = (i + 1 < self.list.len()).then_some((i + 1, Vpn(0)));
                continue;
            };
            let mut group = group;
            left = left.saturating_sub(group.pages);
            self.tally.scanned += group.pages;
            if group.pages > pages {
                if self.is_large(os, asid, group, &region) {
                    self.at = Some((i, group.end()));
                    continue;
                }
                // Otherwise the first of the groups in it, at a cost of its own.
                group.pages = pages;
                left = left.saturating_sub(pages);
                self.tally.scanned += pages;
            }
            self.at = Some((i, group.end()));
            if !self.look(os, asid, group, &region) {
                return false;
            }
        }
        true
    }
}

impl Daemon for Khugepaged {
    fn due(&self) -> u64 {
        self.due
    }

    fn run(&mut self, os: &mut Os, now: u64) {
        self.tally.wakes += 1;
        let slept = match self.scan(os) {
            true => self.settings.sleep,
            false => {
                self.tally.failed += 1;
                self.settings.alloc_sleep
            }
        };
        self.due = if self.list.is_empty() { u64::MAX } else { now.saturating_add(slept) };
    }

    /// LNX-11: a process enters at its first fault in a group that could be a superpage.
    fn faulted(&mut self, os: &Os, asid: Asid, vpn: Vpn, region: &Region) {
        let group = self.group(vpn);
        if group.and(region.range) == group {
            self.enter(os, asid, region);
        }
    }

    /// LNX-11: or when memory is advised that has room for a superpage.
    fn advised(&mut self, os: &Os, asid: Asid, region: &Region) {
        let pages = 1u64 << self.settings.order;
        let group = VpnRange { start: Vpn(region.range.start.0.next_multiple_of(pages)), pages };
        if group.and(region.range) == group {
            self.enter(os, asid, region);
        }
    }

    fn ended(&mut self, asid: Asid) {
        let Some(gone) = self.list.iter().position(|&other| other == asid) else { return };
        self.list.remove(gone);
        self.at = match self.at {
            Some((i, from)) if i > gone => Some((i - 1, from)),
            Some((i, _)) if i == gone => (i < self.list.len()).then_some((i, Vpn(0))),
            at => at,
        };
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let Tally { wakes, scanned, failed, copied, zeroed, large } = self.tally;
        let large = self.settings.large.map(|_| ("khugepaged_large", large));
        let all = [
            ("khugepaged_wakes", wakes),
            ("khugepaged_scanned_ptes", scanned),
            ("khugepaged_no_block", failed),
            ("khugepaged_copied_pages", copied),
            ("khugepaged_zeroed_pages", zeroed),
        ];
        all.into_iter().chain(large).collect()
    }
}
