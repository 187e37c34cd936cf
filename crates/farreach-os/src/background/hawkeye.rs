//! The daemon of HawkEye that promotes by access coverage (HWE-1 to HWE-5).
//!
//! Where the rules are silent:
//!
//! * The first period ends one period after the start. The bits are counted one window after they were cleared, and
//!   the next period begins where they were cleared.
//! * Groups are counted from the highest bin to the lowest, each from head to tail, process by process.
//! * In bins by logarithm, no group is promoted from bin 0, where it begins and where it is put back: so it is in the
//!   authors' kernel.
//! * A process that had its turn goes behind all others, as there.
//! * Groups that become superpages count for the rate, as there. One that does not qualify (LNX-12) is put back as one
//!   without a block, and each is looked at once in a round. One that cannot become a superpage any more leaves.

use super::bins::{BinRule, Bins};
use super::collapse::{Collapse, Outcome, Work};
use super::contract::Daemon;
use super::overhead::{Overhead, Share};
use super::recovery::Recovery;
use crate::os::Os;
use crate::region::Region;
use farreach_types::addr::{Asid, Vpn};
use std::collections::HashSet;

/// How it works. Times are in instructions.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// What it collapses.
    pub collapse: Collapse,
    /// Which bins there are.
    pub bins: BinRule,
    /// From one clearing of accessed bits to the next (HWE-2).
    pub period: u64,
    /// From clearing to counting.
    pub window: u64,
    /// Base pages that it promotes in one round (HWE-5).
    pub pages: u64,
    /// From one round to the next.
    pub sleep: u64,
    /// What processes spend on walks, if they are chosen by it (HWE-4).
    pub overhead: Option<Overhead>,
    /// Recovery of bloat, if there is any (HWE-7).
    pub recovery: Option<Recovery>,
}

/// See the module.
pub(crate) struct HawkEye {
    settings: Settings,
    /// Processes that had candidates, the next to have its turn first.
    processes: Vec<(Asid, Bins)>,
    /// When the bits are cleared or counted next, and when they were cleared if they are to be counted.
    coverage_at: u64,
    cleared_at: Option<u64>,
    /// When groups are promoted.
    promote_at: u64,
    /// Memory is short (HWE-7).
    short: bool,
    rounds: u64,
    counts: u64,
    work: Work,
}

/// What decides between processes (HWE-4). All of a system are of one kind.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Bin(usize),
    Overhead(Share),
}

impl HawkEye {
    pub fn new(settings: Settings) -> HawkEye {
        HawkEye {
            processes: Vec::new(),
            coverage_at: settings.period,
            cleared_at: None,
            promote_at: if settings.pages > 0 { settings.sleep } else { u64::MAX },
            short: false,
            settings,
            rounds: 0,
            counts: 0,
            work: Work::default(),
        }
    }

    /// Whether a group may be a candidate still: inside a region, with a page mapped, and no superpage.
    fn stands(&self, os: &Os, asid: Asid, first: Vpn) -> bool {
        let group = self.settings.collapse.group(first);
        let table = &os.spaces[asid.0 as usize].table;
        self.settings.collapse.region_of(os, asid, first).is_some()
            && table.runs_in(group).first().is_some_and(|run| run.entry.order < self.settings.collapse.order)
    }

    /// HWE-2: clears the accessed bits of all candidates.
    fn clear(&mut self, os: &mut Os) {
        for (asid, bins) in &self.processes {
            // Changes are told in the order of addresses.
            let mut groups = bins.all();
            groups.sort_unstable();
            for first in groups {
                let leaves = os.scan_leaves(*asid, self.settings.collapse.group(first));
                self.work.scanned += leaves.len() as u64;
                os.clear_accessed(*asid, &leaves);
            }
        }
    }

    /// HWE-2: counts the pages of each candidate that were accessed since. Those that cannot become superpages leave.
    fn count(&mut self, os: &Os) {
        self.counts += 1;
        for i in 0..self.processes.len() {
            let asid = self.processes[i].0;
            for first in self.processes[i].1.all() {
                if !self.stands(os, asid, first) {
                    self.processes[i].1.remove(first);
                    continue;
                }
                let leaves = os.scan_leaves(asid, self.settings.collapse.group(first));
                self.work.scanned += leaves.len() as u64;
                let accessed = leaves.iter().filter(|leaf| leaf.accessed).map(|leaf| 1 << leaf.order).sum();
                self.processes[i].1.count(first, accessed);
            }
        }
    }

    /// What decides between processes, of which the highest bin is this; `None`: it gets nothing (HWE-4).
    fn rank(&self, asid: Asid, bin: usize) -> Option<Rank> {
        match &self.settings.overhead {
            None => Some(Rank::Bin(bin)),
            Some(overhead) => {
                let share = overhead.of(asid);
                share.is_at_least(overhead.least).then_some(Rank::Overhead(share))
            }
        }
    }

    /// HWE-4, HWE-5: promotes the first of the highest bin of all processes, or of the process with the largest
    /// overhead; equal processes in turn.
    fn promote(&mut self, os: &mut Os) {
        let (mut left, mut looked) = (self.settings.pages, HashSet::new());
        let collapse = self.settings.collapse;
        while left > 0 {
            let best = |(place, (asid, bins)): (usize, &(Asid, Bins))| {
                let (bin, first) = bins.best(|vpn| looked.contains(&(*asid, vpn)))?;
                Some((self.rank(*asid, bin)?, std::cmp::Reverse(place), first))
            };
            let Some((_, std::cmp::Reverse(place), first)) = self.processes.iter().enumerate().filter_map(best).max()
            else {
                break;
            };
            let asid = self.processes[place].0;
            if !self.stands(os, asid, first) {
                self.processes[place].1.remove(first);
                continue;
            }
            let mut process = self.processes.remove(place);
            looked.insert((asid, first));
            let outcome = match collapse.region_of(os, asid, first) {
                Some(region) => collapse.look(os, asid, collapse.group(first), &region, &mut self.work),
                None => Outcome::Unfit,
            };
            match outcome {
                Outcome::Collapsed => {
                    process.1.remove(first);
                    left = left.saturating_sub(collapse.pages());
                }
                Outcome::Unfit => process.1.put_back(first),
                Outcome::NoBlock => {
                    process.1.put_back(first);
                    left = 0;
                }
            }
            self.processes.push(process);
        }
    }
}

impl Daemon for HawkEye {
    fn due(&self) -> u64 {
        if self.short { 0 } else { self.coverage_at.min(self.promote_at) }
    }

    fn run(&mut self, os: &mut Os, now: u64) {
        if std::mem::take(&mut self.short) {
            let order = self.settings.collapse.order;
            let mut processes: Vec<Asid> = (0..os.spaces.len() as u32).map(Asid).collect();
            if let Some(overhead) = &self.settings.overhead {
                processes.sort_by_key(|asid| overhead.of(*asid));
            }
            self.settings.recovery.iter_mut().for_each(|recovery| recovery.run(os, order, &processes));
        } else if self.coverage_at <= self.promote_at {
            match self.cleared_at.take() {
                None => {
                    self.clear(os);
                    self.cleared_at = Some(now);
                    self.coverage_at = now.saturating_add(self.settings.window);
                }
                Some(cleared) => {
                    self.count(os);
                    self.coverage_at = cleared.saturating_add(self.settings.period);
                }
            }
        } else {
            self.rounds += 1;
            self.settings.overhead.iter_mut().for_each(Overhead::take);
            self.promote(os);
            os.memory.release_freed();
            self.promote_at = now.saturating_add(self.settings.sleep);
            self.memory_used(os);
        }
    }

    /// HWE-7.
    fn memory_used(&mut self, os: &Os) {
        self.short |= self.settings.recovery.is_some_and(|recovery| recovery.target(os) > 0);
    }

    /// HWE-1.
    fn faulted(&mut self, os: &Os, asid: Asid, vpn: Vpn, region: &Region) {
        let collapse = self.settings.collapse;
        let order = os.spaces[asid.0 as usize].table.get(vpn).map_or(0, |entry| entry.order);
        // A fault that maps a superpage is none of a candidate (HWE-6).
        if order >= collapse.order || !collapse.is_candidate(os, asid, vpn, region) {
            return;
        }
        let known = self.processes.iter().position(|(of, _)| *of == asid).unwrap_or_else(|| {
            self.processes.push((asid, Bins::new(self.settings.bins)));
            self.processes.len() - 1
        });
        self.processes[known].1.enter(collapse.group(vpn).start);
    }

    fn counts_walks(&self) -> bool {
        self.settings.overhead.is_some()
    }

    fn walked(&mut self, asid: Asid, now: u64) {
        self.settings.overhead.iter_mut().for_each(|overhead| overhead.walked(asid, now));
    }

    fn ended(&mut self, asid: Asid) {
        self.settings.overhead.iter_mut().for_each(|overhead| overhead.ended(asid));
        self.processes.retain(|(of, _)| *of != asid);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let Work { scanned, failed, copied, zeroed } = self.work;
        let mut counters = vec![
            ("hawkeye_rounds", self.rounds),
            ("hawkeye_coverage_counts", self.counts),
            ("hawkeye_scanned_ptes", scanned),
            ("hawkeye_no_block", failed),
            ("hawkeye_copied_pages", copied),
            ("hawkeye_zeroed_pages", zeroed),
        ];
        counters.extend(self.settings.recovery.iter().flat_map(Recovery::counters));
        counters
    }
}

#[cfg(test)]
mod tests;
