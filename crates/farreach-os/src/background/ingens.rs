//! The promoter of Ingens (ING-1 to ING-4, ING-6, ING-7): it knows of each group which of its pages faulted, and makes
//! a superpage of one that is mostly in use.
//!
//! Where the rules are silent:
//!
//! * A page has faulted as long as it stays where it is: unmapped, dropped or moved, it has not.
//! * A group is queued once: when it reaches the threshold, and again only after it lost a page or was found below. It
//!   is in the queue once at a time.
//! * A page has its mark if the group could be a superpage at the fault.
//! * A queued group costs as much of the budget as one that is found by scanning (LNX-11). As long as groups wait in
//!   the queue, the promoter wakes again at once, unless there is no block.
//! * With fairness, the process is chosen again after each superpage, and one that was looked at to its end has had its
//!   turn in this wake. Of equal ones the first that faulted comes first.
//! * What a process wants are its pages of private anonymous memory, in superpages, rounded down.

use super::collapse::{Collapse, Outcome, Work};
use super::contract::Daemon;
use super::ring::Ring;
use crate::os::Os;
use crate::region::Region;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

/// How it works. Times are in instructions.
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
    /// Percent of a group that must have faulted (ING-2).
    pub percent: u64,
    /// Whether that is so only in fragmented memory (ING-6).
    pub adaptive: bool,
    /// ING-4: weights of processes by their numbers, the last for all others.
    pub weights: Option<Vec<u64>>,
}

/// Which pages of a group faulted (ING-1).
struct Population {
    pages: Box<[u64]>,
    weight: u64,
    /// It was queued, or became a superpage, and lost no page since.
    queued: bool,
    /// It is in the queue.
    waits: bool,
}

impl Population {
    fn new(pages: u64) -> Population {
        Population { pages: vec![0; pages.div_ceil(64) as usize].into(), weight: 0, queued: false, waits: false }
    }

    /// Returns whether the mark of the page was another.
    fn set(&mut self, at: u64, on: bool) -> bool {
        let (word, bit) = (&mut self.pages[(at / 64) as usize], 1 << (at % 64));
        let was = *word & bit != 0;
        *word = *word & !bit | if on { bit } else { 0 };
        self.weight = self.weight + u64::from(on && !was) - u64::from(was && !on);
        on != was
    }
}

/// See the module.
pub(crate) struct Promoter {
    settings: Settings,
    ring: Ring,
    /// Where it goes on in a process, with fairness.
    cursors: HashMap<Asid, Vpn, FixedState>,
    /// By process and first page.
    populations: BTreeMap<(Asid, Vpn), Population>,
    queue: VecDeque<(Asid, Vpn)>,
    due: u64,
    wakes: u64,
    queued: u64,
    work: Work,
}

/// ING-4.
fn metric(weight: u64, wanted: u64, held: u64) -> u64 {
    (weight * wanted * 100 / held.max(1)).max(1)
}

impl Promoter {
    pub fn new(settings: Settings) -> Promoter {
        Promoter {
            settings,
            ring: Ring::default(),
            cursors: HashMap::default(),
            populations: BTreeMap::new(),
            queue: VecDeque::new(),
            due: u64::MAX,
            wakes: 0,
            queued: 0,
            work: Work::default(),
        }
    }

    fn enter(&mut self, asid: Asid) {
        if self.ring.enter(asid) && self.due == u64::MAX {
            self.due = 0;
        }
    }

    /// Pages that must have faulted (ING-2, ING-6).
    fn threshold(&self, os: &Os) -> u64 {
        let pages = self.settings.collapse.pages();
        let whole = self.settings.adaptive && os.fragmentation(pages).is_some_and(|index| index < 0.5);
        if whole { 1 } else { pages * self.settings.percent / 100 }
    }

    /// A group that comes by queue or scan, if enough of its pages faulted.
    fn look(&mut self, os: &mut Os, asid: Asid, group: VpnRange, region: &Region) -> Outcome {
        let threshold = self.threshold(os);
        match self.populations.get_mut(&(asid, group.start)) {
            Some(population) if population.weight >= threshold => {
                let outcome = self.settings.collapse.look(os, asid, group, region, &mut self.work);
                population.queued |= outcome == Outcome::Collapsed;
                return outcome;
            }
            Some(population) => population.queued = false,
            None => {}
        }
        self.work.scanned += group.pages;
        Outcome::Unfit
    }

    /// ING-4, of a process as it is now; `None`: it is not considered.
    fn metric(&self, os: &Os, asid: Asid) -> Option<u64> {
        let weights = self.settings.weights.as_ref()?;
        let weight = weights[(asid.0 as usize).min(weights.len() - 1)];
        let order = self.settings.collapse.order;
        let (mut pages, mut held) = (0, 0);
        for range in os.private_anonymous(asid) {
            for run in os.spaces[asid.0 as usize].table.runs_in(range) {
                pages += run.pages;
                // A superpage may lie in two regions that differ in advice.
                held += if run.entry.order == order { run.pages } else { 0 };
            }
        }
        (weight > 0).then(|| metric(weight, pages >> order, held >> order))
    }

    /// ING-3: the process with the largest metric comes first. False: there was no block.
    fn scan_fairly(&mut self, os: &mut Os, mut left: u64) -> bool {
        let mut over: Vec<Asid> = Vec::new();
        while left > 0 {
            let candidates = self.ring.processes().iter().filter(|asid| !over.contains(asid));
            let metrics = candidates.filter_map(|&asid| Some((self.metric(os, asid)?, asid)));
            let places = metrics.enumerate().map(|(place, (metric, asid))| (metric, Reverse(place), asid));
            let Some((_, _, asid)) = places.max() else { return true };
            loop {
                let from = self.cursors.get(&asid).copied().unwrap_or_default();
                let Some((group, region)) = self.settings.collapse.next_group(os, asid, from) else {
                    self.cursors.remove(&asid);
                    over.push(asid);
                    break;
                };
                self.cursors.insert(asid, group.end());
                left = left.saturating_sub(group.pages);
                match self.look(os, asid, group, &region) {
                    Outcome::NoBlock => return false,
                    Outcome::Unfit if left > 0 => {}
                    _ => break,
                }
            }
        }
        true
    }

    /// ING-3: the queue, then other groups. False: there was no block.
    fn scan(&mut self, os: &mut Os) -> bool {
        let mut left = self.settings.pages;
        while left > 0 {
            let Some((asid, first)) = self.queue.pop_front() else { break };
            self.populations.entry((asid, first)).and_modify(|population| population.waits = false);
            let group = self.settings.collapse.group(first);
            left = left.saturating_sub(group.pages);
            match self.settings.collapse.region_of(os, asid, first) {
                Some(region) if self.look(os, asid, group, &region) == Outcome::NoBlock => return false,
                Some(_) => {}
                None => self.work.scanned += group.pages,
            }
        }
        if self.settings.weights.is_some() {
            return self.scan_fairly(os, left);
        }
        let (mut begun, collapse) = (false, self.settings.collapse);
        while left > 0 {
            let Some((asid, group, region)) = self.ring.next(os, &collapse, &mut begun) else { break };
            left = left.saturating_sub(group.pages);
            if self.look(os, asid, group, &region) == Outcome::NoBlock {
                return false;
            }
        }
        true
    }
}

impl Daemon for Promoter {
    fn due(&self) -> u64 {
        self.due
    }

    fn run(&mut self, os: &mut Os, now: u64) {
        self.wakes += 1;
        let slept = match self.scan(os) {
            false => self.settings.alloc_sleep,
            true if !self.queue.is_empty() => 0,
            true => self.settings.sleep,
        };
        self.due = if self.ring.is_empty() { u64::MAX } else { now.saturating_add(slept) };
    }

    /// ING-1, ING-2.
    fn faulted(&mut self, os: &Os, asid: Asid, vpn: Vpn, region: &Region) {
        if !self.settings.collapse.is_candidate(os, asid, vpn, region) {
            return;
        }
        self.enter(asid);
        let threshold = self.threshold(os);
        let group = self.settings.collapse.group(vpn);
        let population = self.populations.entry((asid, group.start)).or_insert_with(|| Population::new(group.pages));
        population.set(vpn.0 - group.start.0, true);
        if population.weight >= threshold && !population.queued {
            population.queued = true;
            if !std::mem::replace(&mut population.waits, true) {
                self.queue.push_back((asid, group.start));
                self.queued += 1;
            }
            // It wakes at once.
            self.due = 0;
        }
    }

    /// LNX-11.
    fn advised(&mut self, os: &Os, asid: Asid, region: &Region) {
        if self.settings.collapse.has_room(os, asid, region) {
            self.enter(asid);
        }
    }

    fn unmapped(&mut self, asid: Asid, range: VpnRange) {
        let order = self.settings.collapse.order.into();
        let inside = (asid, range.start.align_down(order))..(asid, range.end());
        let mut empty = Vec::new();
        for (&at, population) in self.populations.range_mut(inside) {
            let part = VpnRange { start: at.1, pages: self.settings.collapse.pages() }.and(range);
            let lost = part.iter().filter(|vpn| population.set(vpn.0 - at.1.0, false)).count();
            population.queued &= lost == 0;
            empty.extend((population.weight == 0 && !population.waits).then_some(at));
        }
        empty.iter().for_each(|at| _ = self.populations.remove(at));
    }

    fn ended(&mut self, asid: Asid) {
        self.ring.leave(asid);
        self.cursors.remove(&asid);
        self.populations.retain(|(of, _), _| *of != asid);
        self.queue.retain(|(of, _)| *of != asid);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let Work { scanned, failed, copied, zeroed } = self.work;
        vec![
            ("promoter_wakes", self.wakes),
            ("promoter_queued", self.queued),
            ("promoter_scanned_ptes", scanned),
            ("promoter_no_block", failed),
            ("promoter_copied_pages", copied),
            ("promoter_zeroed_pages", zeroed),
        ]
    }
}

#[cfg(test)]
mod tests;
