//! The daemon of Linux that collapses base pages into superpages (LNX-10 to LNX-13), and that of Trident, which tries
//! larger ones first (TRI-2).

use super::collapse::{Collapse, Outcome, Work};
use super::contract::Daemon;
use super::ring::Ring;
use crate::os::Os;
use crate::region::Region;
use farreach_types::addr::{Asid, Vpn, VpnRange};

/// How it works (LNX-10). Times are in instructions.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// What it collapses.
    pub collapse: Collapse,
    /// Page table entries looked at in one wake.
    pub pages: u64,
    /// From one wake to the next.
    pub sleep: u64,
    /// From a failed allocation to the next wake.
    pub alloc_sleep: u64,
    /// Larger superpages that are tried first, where they fit (TRI-2).
    pub large: Option<Collapse>,
    /// From the moment when a process enters, and there was none, to the next wake.
    pub first: u64,
}

/// See the module.
pub(crate) struct Khugepaged {
    settings: Settings,
    ring: Ring,
    due: u64,
    wakes: u64,
    work: Work,
    /// Larger superpages that it made.
    large: u64,
}

impl Khugepaged {
    pub fn new(settings: Settings) -> Khugepaged {
        Khugepaged { settings, ring: Ring::default(), due: u64::MAX, wakes: 0, work: Work::default(), large: 0 }
    }

    fn enter(&mut self, os: &Os, asid: Asid) {
        // Without a process it sleeps until one comes; otherwise it sleeps on.
        if self.ring.enter(asid) && self.due == u64::MAX {
            self.due = if self.settings.first == 0 { 0 } else { os.time_of_event.saturating_add(self.settings.first) };
        }
    }

    /// LNX-11: looks at groups until the budget is spent, or it comes to the end of the list a second time, or once
    /// from its beginning. False: there was no block.
    fn scan(&mut self, os: &mut Os) -> bool {
        let (mut left, mut begun) = (self.settings.pages, false);
        let collapse = self.settings.collapse;
        while left > 0 {
            let Some((asid, group, region)) = self.ring.next(os, &collapse, &mut begun) else { break };
            if let Some((large, whole)) = self.larger(group, &region) {
                left = left.saturating_sub(whole.pages);
                self.work.scanned += whole.pages;
                if self.is_large(os, asid, whole, &region, large) {
                    self.ring.go_on_from(whole.end());
                    continue;
                }
                // Otherwise the first of the groups in it, at a cost of its own.
            }
            left = left.saturating_sub(group.pages);
            if collapse.look(os, asid, group, &region, &mut self.work) == Outcome::NoBlock {
                return false;
            }
        }
        true
    }

    /// The group of the larger superpage, if one begins with this group and fits.
    fn larger(&self, group: VpnRange, region: &Region) -> Option<(Collapse, VpnRange)> {
        let large = self.settings.large?;
        let whole = VpnRange { start: group.start, pages: large.pages() };
        let fits = group.start.0.is_multiple_of(whole.pages) && whole.and(region.range) == whole;
        fits.then_some((large, whole))
    }

    /// TRI-2: whether there is the larger superpage at a group, perhaps since now.
    fn is_large(&mut self, os: &mut Os, asid: Asid, group: VpnRange, region: &Region, large: Collapse) -> bool {
        let first = os.spaces[asid.0 as usize].table.get(group.start);
        if first.is_some_and(|entry| entry.order >= large.order) {
            return true;
        }
        let made = large.attempt(os, asid, group, region, &mut self.work) == Outcome::Collapsed;
        self.large += u64::from(made);
        made
    }
}

impl Daemon for Khugepaged {
    fn due(&self) -> u64 {
        self.due
    }

    fn run(&mut self, os: &mut Os, now: u64) {
        self.wakes += 1;
        let slept = if self.scan(os) { self.settings.sleep } else { self.settings.alloc_sleep };
        self.due = if self.ring.is_empty() { u64::MAX } else { now.saturating_add(slept) };
    }

    /// LNX-11: a process enters at its first fault in a group that could be a superpage.
    fn faulted(&mut self, os: &Os, asid: Asid, vpn: Vpn, region: &Region) {
        if !self.ring.has(asid) && self.settings.collapse.is_candidate(os, asid, vpn, region) {
            self.enter(os, asid);
        }
    }

    /// LNX-11: or when memory is advised that has room for a superpage.
    fn advised(&mut self, os: &Os, asid: Asid, region: &Region) {
        if self.settings.collapse.has_room(os, asid, region) {
            self.enter(os, asid);
        }
    }

    fn ended(&mut self, asid: Asid) {
        self.ring.leave(asid);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let Work { scanned, failed, copied, zeroed } = self.work;
        let large = self.settings.large.map(|_| ("khugepaged_large", self.large));
        let all = [
            ("khugepaged_wakes", self.wakes),
            ("khugepaged_scanned_ptes", scanned),
            ("khugepaged_no_block", failed),
            ("khugepaged_copied_pages", copied),
            ("khugepaged_zeroed_pages", zeroed),
        ];
        all.into_iter().chain(large).collect()
    }
}
