//! Candidates and their bins (HWE-1, HWE-3, HWE-4).

use super::{Choice, PlainHawkEye};
use std::collections::BTreeSet;

/// HWE-3.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bins {
    Log2,
    Fifty,
}

impl Bins {
    /// The bin of a coverage.
    pub fn of(self, coverage: u64) -> usize {
        match self {
            Bins::Log2 if coverage <= 1 => 0,
            Bins::Log2 => (coverage - 1).ilog2() as usize + 1,
            Bins::Fifty => (coverage / 50).min(9) as usize,
        }
    }

    fn number(self, order: u32) -> usize {
        match self {
            Bins::Log2 => order as usize + 1,
            Bins::Fifty => 10,
        }
    }
}

impl PlainHawkEye {
    /// The coverage and the bin of a candidate.
    pub fn candidate(&self, process: u32, first: u64) -> Option<(u64, usize)> {
        let bins = self.candidates.get(&process)?;
        let bin = bins.iter().position(|bin| bin.contains(&first))?;
        Some((self.coverage[&(process, first)], bin))
    }

    /// First pages of the groups in a bin.
    pub fn bin(&self, process: u32, bin: usize) -> Vec<u64> {
        self.candidates.get(&process).map_or(Vec::new(), |bins| bins[bin].clone())
    }

    /// HWE-1.
    pub(super) fn enter(&mut self, process: u32, first: u64) {
        if self.coverage.contains_key(&(process, first)) {
            return;
        }
        if !self.ring.contains(&process) {
            self.ring.push(process);
        }
        let number = self.config.bins.number(self.config.order);
        self.candidates.entry(process).or_insert(vec![Vec::new(); number])[0].push(first);
        self.coverage.insert((process, first), 0);
    }

    pub(super) fn leave(&mut self, process: u32, first: u64) {
        self.coverage.remove(&(process, first));
        self.bins_of(process).iter_mut().for_each(|bin| bin.retain(|of| *of != first));
    }

    fn bins_of(&mut self, process: u32) -> &mut Vec<Vec<u64>> {
        self.candidates.get_mut(&process).expect("it has candidates")
    }

    /// All candidates, by process in the ring, and by bin from the highest.
    pub(super) fn by_bins(&self) -> Vec<(u32, u64)> {
        let of = |process: &u32| {
            let process = *process;
            self.candidates[&process].iter().rev().flatten().map(move |first| (process, *first))
        };
        self.ring.iter().flat_map(of).collect()
    }

    /// All candidates, by process in the ring, and by address.
    pub(super) fn all_candidates(&self) -> Vec<(u32, u64)> {
        let mut all = Vec::new();
        for process in &self.ring {
            let mut groups: Vec<u64> = self.candidates[process].iter().flatten().copied().collect();
            groups.sort_unstable();
            all.extend(groups.into_iter().map(|first| (*process, first)));
        }
        all
    }

    /// HWE-2: whether a candidate still is one.
    pub(super) fn stays(&self, process: u32, first: u64) -> bool {
        let mapped = self.paging.mapped(process, first..first + (1 << self.config.order));
        let huge = mapped.first().is_some_and(|(_, entry)| entry.order == self.config.order);
        self.eligible(process, first) && !mapped.is_empty() && !huge
    }

    /// HWE-3: rising to the head, falling to the tail.
    pub(super) fn sort(&mut self, process: u32, first: u64, bin: usize) {
        let (_, old) = self.candidate(process, first).expect("it is one");
        let bins = self.bins_of(process);
        if bin == old {
            return;
        }
        bins[old].retain(|of| *of != first);
        let place = if bin > old { 0 } else { bins[bin].len() };
        bins[bin].insert(place, first);
    }

    /// HWE-5: to the tail of bin 0.
    pub(super) fn sort_to_tail(&mut self, process: u32, first: u64) {
        let bins = self.bins_of(process);
        bins.iter_mut().for_each(|bin| bin.retain(|of| *of != first));
        bins[0].push(first);
    }

    /// The highest bin of a process that has a group to choose, and the first of these; `seen` are none.
    fn highest(&self, process: u32, seen: &BTreeSet<(u32, u64)>) -> Option<(usize, u64)> {
        let lowest = usize::from(self.config.bins == Bins::Log2);
        let unseen = |bin: &Vec<u64>| bin.iter().copied().find(|first| !seen.contains(&(process, *first)));
        let bins = self.candidates[&process].iter().enumerate().skip(lowest);
        bins.filter_map(|(bin, groups)| Some((bin, unseen(groups)?))).next_back()
    }

    /// HWE-4: the next group.
    pub(super) fn choose(&self, seen: &BTreeSet<(u32, u64)>) -> Option<(u32, u64)> {
        let in_turn = self.ring.iter().copied();
        let mut processes: Vec<u32> = in_turn.filter(|process| self.highest(*process, seen).is_some()).collect();
        match self.config.choice {
            Choice::Global => {
                let bin = |process: u32| self.highest(process, seen).map(|(bin, _)| bin);
                let best = processes.iter().map(|process| bin(*process)).max()?;
                processes.retain(|process| bin(*process) == best);
            }
            Choice::Measured(least) => {
                processes.retain(|process| self.overhead(*process) >= least);
                let best = processes.iter().map(|process| self.overhead(*process)).reduce(f64::max)?;
                processes.retain(|process| self.overhead(*process) >= best);
            }
        }
        let process = *processes.first()?;
        Some((process, self.highest(process, seen)?.1))
    }
}
