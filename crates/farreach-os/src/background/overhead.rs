//! What address translation costs each process, as a system measures it (`PMU` of HWE-4): the share of page walks in
//! the time of the process. Processors count the cycles of walks; here each walk takes an assumed time.
//!
//! Where the rules are silent: the time between two walks is that of the process of the later one, and walks take time
//! of their own. Shares are those of the time from the round of promotions before the last one to the last one.

use farreach_types::addr::Asid;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A part of a whole. A whole of nothing has no part.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Share {
    part: u64,
    whole: u64,
}

impl Share {
    /// Whether it is at least this percentage.
    pub fn is_at_least(self, percent: u64) -> bool {
        u128::from(self.part) * 100 >= u128::from(percent) * u128::from(self.whole.max(1))
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Share) -> Ordering {
        let [own, others] = [self.whole, other.whole].map(|whole| u128::from(whole.max(1)));
        (u128::from(self.part) * others).cmp(&(u128::from(other.part) * own))
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Share) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Share) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Share {}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Overhead {
    /// Time of a walk.
    pub walk: u64,
    /// Percent of the time: processes with less get no superpages.
    pub least: u64,
    /// When the last walk was.
    last: u64,
    /// Walks and time, since the last round and in the period before it.
    now: BTreeMap<Asid, Share>,
    before: BTreeMap<Asid, Share>,
}

impl Overhead {
    pub fn new(walk: u64, least: u64) -> Overhead {
        Overhead { walk, least, last: 0, now: BTreeMap::new(), before: BTreeMap::new() }
    }

    /// A process walked at this time.
    pub fn walked(&mut self, asid: Asid, now: u64) {
        let share = self.now.entry(asid).or_default();
        share.part = share.part.saturating_add(self.walk);
        share.whole = share.whole.saturating_add(self.walk).saturating_add(now.saturating_sub(self.last));
        self.last = self.last.max(now);
    }

    /// A round begins.
    pub fn take(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    /// What was measured of a process.
    pub fn of(&self, asid: Asid) -> Share {
        self.before.get(&asid).copied().unwrap_or_default()
    }

    /// A process ended.
    pub fn ended(&mut self, asid: Asid) {
        self.now.remove(&asid);
        self.before.remove(&asid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HWE-4: of walks of ten, one process makes three in 100, another one in 200.
    #[test]
    fn hwe_4_shares_are_of_the_time_of_each_process() {
        let mut overhead = Overhead::new(10, 2);
        for (asid, now) in [(1, 20), (1, 60), (2, 260), (1, 300)] {
            overhead.walked(Asid(asid), now);
        }
        assert_eq!(overhead.of(Asid(1)), Share::default(), "the period is not over");
        overhead.take();
        let [first, second, none] = [1, 2, 3].map(|asid| overhead.of(Asid(asid)));
        assert_eq!((first.part, first.whole, second.part, second.whole), (30, 130, 10, 210));
        assert!(first > second && second > none);
        assert!(first.is_at_least(23) && !first.is_at_least(24) && !none.is_at_least(1) && none.is_at_least(0));
        overhead.ended(Asid(1));
        assert_eq!(overhead.of(Asid(1)), none);
        overhead.take();
        assert_eq!(overhead.of(Asid(2)), none, "nothing was measured since");
    }
}
