//! Whose groups are promoted first (ING-4).

use super::PlainIngens;
use crate::superpages::group;
use std::collections::BTreeSet;

/// ING-4.
pub fn metric(weight: u64, wanted: u64, held: u64) -> u64 {
    if weight == 0 { 0 } else { (weight * wanted * 100 / held.max(1)).max(1) }
}

impl PlainIngens {
    /// ON-44.
    pub(super) fn fair(&mut self, done: &mut BTreeSet<u32>) -> Option<(u32, u64)> {
        loop {
            let metrics = self.ring.processes().iter().map(|process| (self.metric(*process), *process));
            let metrics = metrics.filter(|(metric, process)| *metric > 0 && !done.contains(process));
            // The first of the largest.
            let (_, process) = metrics.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
            let from = self.cursors.get(&process).copied().unwrap_or(0);
            match self.paging.first_eligible(process, from, self.config.order, self.config.mode) {
                Some(first) => {
                    self.cursors.insert(process, first + (1 << self.config.order));
                    return Some((process, first));
                }
                None => {
                    self.cursors.insert(process, 0);
                    done.insert(process);
                }
            }
        }
    }

    /// ING-4 of a process.
    pub fn metric(&self, process: u32) -> u64 {
        let weights = self.config.fairness.as_ref();
        let weight = weights.and_then(|weights| weights.get(&process)).copied().unwrap_or(1);
        let (order, threshold) = (self.config.order, self.threshold());
        let groups: BTreeSet<u64> =
            self.paging.programs.spaces[&process].pages.keys().map(|page| group(*page, order).start).collect();
        let huge = |first: &u64| self.paging.entry(process, *first).is_some_and(|entry| entry.order == order);
        let wanted = |first: &&u64| {
            !huge(first) && self.eligible(process, **first) && self.weight(process, **first) >= threshold
        };
        let held = groups.iter().filter(|first| huge(first)).count() as u64;
        metric(weight, groups.iter().filter(wanted).count() as u64, held)
    }
}
