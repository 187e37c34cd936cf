//! Groups of a process that may become superpages, in bins by how many of their pages are in use (HWE-1 to HWE-3).

use crate::frames::queue::FrameQueue;
use farreach_types::addr::Vpn;
use hashbrown::HashMap;

/// How the weight of a group chooses its bin (HWE-3, OAMB-10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BinRule {
    /// The logarithm, rounded up. What is in bin 0 waits.
    Log2,
    /// Fifty pages to a bin, ten bins.
    Fifty,
}

impl BinRule {
    /// The bin of a weight.
    pub fn bin(self, weight: u64) -> usize {
        match self {
            BinRule::Log2 => weight.max(1).next_power_of_two().ilog2() as usize,
            BinRule::Fifty => (weight / 50).min(9) as usize,
        }
    }

    /// The lowest bin that a group is promoted from. The authors' kernel keeps out of bin 0, where groups begin.
    pub fn lowest(self) -> usize {
        usize::from(self == BinRule::Log2)
    }
}

/// A group.
struct Candidate {
    bin: usize,
    weight: u64,
}

/// See the module.
pub(crate) struct Bins {
    rule: BinRule,
    /// First pages of groups, by bin.
    bins: Vec<FrameQueue>,
    candidates: HashMap<Vpn, Candidate>,
}

impl Bins {
    /// Empty ones.
    pub fn new(rule: BinRule) -> Bins {
        Bins { rule, bins: Vec::new(), candidates: HashMap::new() }
    }

    fn bin(&mut self, bin: usize) -> &mut FrameQueue {
        if self.bins.len() <= bin {
            self.bins.resize_with(bin + 1, FrameQueue::new);
        }
        &mut self.bins[bin]
    }

    /// HWE-1: a group enters bin 0, at the tail, if it is not there.
    pub fn enter(&mut self, first: Vpn) {
        if !self.candidates.contains_key(&first) {
            self.candidates.insert(first, Candidate { bin: 0, weight: 0 });
            self.bin(0).push_back(first.0);
        }
    }

    /// A group is none any more.
    pub fn remove(&mut self, first: Vpn) {
        if let Some(candidate) = self.candidates.remove(&first) {
            self.bins[candidate.bin].remove(first.0);
        }
    }

    /// HWE-5: a group goes to the tail of bin 0, and keeps its weight.
    pub fn put_back(&mut self, first: Vpn) {
        if let Some(candidate) = self.candidates.get_mut(&first) {
            let before = std::mem::replace(&mut candidate.bin, 0);
            self.bins[before].remove(first.0);
            self.bin(0).push_back(first.0);
        }
    }

    /// HWE-2, HWE-3: this many pages of a group were accessed.
    pub fn count(&mut self, first: Vpn, accessed: u64) {
        let Some(candidate) = self.candidates.get_mut(&first) else { return };
        candidate.weight = (6 * candidate.weight + 4 * accessed) / 10;
        let (before, now) = (candidate.bin, self.rule.bin(candidate.weight));
        candidate.bin = now;
        if now != before {
            self.bins[before].remove(first.0);
        }
        match now.cmp(&before) {
            std::cmp::Ordering::Greater => self.bin(now).push_front(first.0),
            std::cmp::Ordering::Less => self.bin(now).push_back(first.0),
            std::cmp::Ordering::Equal => {}
        }
    }

    /// All groups, the highest bin first, each from head to tail.
    pub fn all(&self) -> Vec<Vpn> {
        self.bins.iter().rev().flat_map(|bin| bin.iter()).map(Vpn).collect()
    }

    /// The highest bin with a group that may be promoted and is not left out; and the first of these.
    pub fn best(&self, left_out: impl Fn(Vpn) -> bool) -> Option<(usize, Vpn)> {
        let first = |bin: usize| Some((bin, self.bins[bin].iter().map(Vpn).find(|vpn| !left_out(*vpn))?));
        (self.rule.lowest()..self.bins.len()).rev().find_map(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of HWE, with the bins of OAMB-10 and others.
    #[test]
    fn hwe_2_hwe_3_coverage_is_a_moving_average_and_chooses_the_bin() {
        for (rule, bins) in [(BinRule::Log2, [8, 9, 8]), (BinRule::Fifty, [4, 6, 3])] {
            let mut groups = Bins::new(rule);
            groups.enter(Vpn(512));
            for ((accessed, weight), bin) in [(512, 204), (512, 327), (0, 196)].into_iter().zip(bins) {
                groups.count(Vpn(512), accessed);
                let candidate = &groups.candidates[&Vpn(512)];
                assert_eq!((candidate.weight, candidate.bin), (weight, bin), "{rule:?}");
            }
        }
        let log2 = [0, 1, 2, 3, 4, 5, 511, 512].map(|weight| BinRule::Log2.bin(weight));
        assert_eq!(log2, [0, 0, 1, 2, 2, 3, 9, 9]);
        assert_eq!([49, 50, 499, 512].map(|weight| BinRule::Fifty.bin(weight)), [0, 1, 9, 9]);
    }

    #[test]
    fn hwe_3_who_rises_comes_first_and_who_falls_last() {
        let mut groups = Bins::new(BinRule::Log2);
        (1..=4).for_each(|n| groups.enter(Vpn(512 * n)));
        let order = |groups: &Bins| groups.all().into_iter().map(|vpn| vpn.0 / 512).collect::<Vec<_>>();
        assert_eq!(order(&groups), [1, 2, 3, 4]);
        (1..=3).for_each(|n| groups.count(Vpn(512 * n), 100));
        assert_eq!(order(&groups), [3, 2, 1, 4], "40 pages each");
        assert_eq!(groups.best(|_| false), Some((6, Vpn(3 * 512))));
        // One that stays in its bin keeps its place.
        groups.count(Vpn(2 * 512), 100);
        assert_eq!(order(&groups), [3, 2, 1, 4], "64 pages");
        groups.count(Vpn(512), 300);
        groups.count(Vpn(512), 0);
        assert_eq!(order(&groups), [1, 3, 2, 4], "144, then 86");
        (0..2).for_each(|_| groups.count(Vpn(512), 0));
        assert_eq!(order(&groups), [3, 2, 1, 4], "51, then 30");
        groups.put_back(Vpn(3 * 512));
        assert_eq!((order(&groups), groups.best(|_| false)), (vec![2, 1, 4, 3], Some((6, Vpn(2 * 512)))));
        assert_eq!(groups.best(|vpn| vpn.0 != 512), Some((5, Vpn(512))));
        groups.remove(Vpn(2 * 512));
        groups.remove(Vpn(512));
        assert_eq!((order(&groups), groups.best(|_| false)), (vec![4, 3], None), "bin 0 waits");
    }
}
