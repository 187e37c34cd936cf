//! The daemon of Linux that collapses base pages into superpages (LNX-10 to LNX-13).

use super::collapse::{Collapse, Outcome, Work};
use super::contract::Daemon;
use super::ring::Ring;
use crate::os::Os;
use crate::region::Region;
use farreach_types::addr::{Asid, Vpn};

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
}

/// See the module.
pub(crate) struct Khugepaged {
    settings: Settings,
    ring: Ring,
    due: u64,
    wakes: u64,
    work: Work,
}

impl Khugepaged {
    pub fn new(settings: Settings) -> Khugepaged {
        Khugepaged { settings, ring: Ring::default(), due: u64::MAX, wakes: 0, work: Work::default() }
    }

    fn enter(&mut self, asid: Asid) {
        // Without a process it sleeps until one comes; otherwise it sleeps on.
        if self.ring.enter(asid) && self.due == u64::MAX {
            self.due = 0;
        }
    }

    /// LNX-11: looks at groups until the budget is spent, or it comes to the end of the list a second time, or once
    /// from its beginning. False: there was no block.
    fn scan(&mut self, os: &mut Os) -> bool {
        let (mut left, mut begun) = (self.settings.pages, false);
        let collapse = self.settings.collapse;
        while left > 0 {
            let Some((asid, group, region)) = self.ring.next(os, &collapse, &mut begun) else { break };
            left = left.saturating_sub(group.pages);
            if collapse.look(os, asid, group, &region, &mut self.work) == Outcome::NoBlock {
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
        self.wakes += 1;
        let slept = if self.scan(os) { self.settings.sleep } else { self.settings.alloc_sleep };
        self.due = if self.ring.is_empty() { u64::MAX } else { now.saturating_add(slept) };
    }

    /// LNX-11: a process enters at its first fault in a group that could be a superpage.
    fn faulted(&mut self, os: &Os, asid: Asid, vpn: Vpn, region: &Region) {
        if !self.ring.has(asid) && self.settings.collapse.is_candidate(os, asid, vpn, region) {
            self.enter(asid);
        }
    }

    /// LNX-11: or when memory is advised that has room for a superpage.
    fn advised(&mut self, os: &Os, asid: Asid, region: &Region) {
        if self.settings.collapse.has_room(os, asid, region) {
            self.enter(asid);
        }
    }

    fn ended(&mut self, asid: Asid) {
        self.ring.leave(asid);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let Work { scanned, failed, copied, zeroed } = self.work;
        vec![
            ("khugepaged_wakes", self.wakes),
            ("khugepaged_scanned_ptes", scanned),
            ("khugepaged_no_block", failed),
            ("khugepaged_copied_pages", copied),
            ("khugepaged_zeroed_pages", zeroed),
        ]
    }
}
