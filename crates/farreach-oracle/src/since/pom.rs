//! A TLB in memory (POM-1 to POM-6), as lists.
//!
//! A miss of the last level calls [`PlainPom::missed`]; if that says no, the caller walks and calls
//! [`PlainPom::walked`]. Choices where the rules are silent:
//!
//! * OB-20 The index of the predictor is the low bits of the base page that missed. After a miss on a page of 1 GB its
//!   bit is that of 2 MB: the bit says 4 KB or larger.
//! * OB-21 A hit makes the entry the newest of its set. Entries of a set are ordered by their last use (POM-2).
//! * OB-22 `writes` are those after walks. What a change reads and writes (POM-5) is in none of the counters.
//! * OB-23 A superpage is dropped if a change meets any of its pages. The end of a process drops its entries.

use std::collections::BTreeMap;

const WAYS: usize = 4;
const HALVES: [u8; 2] = [0, 9];

/// POM-1, POM-3: entries of both halves, and bits of the predictor, all powers of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PomConfig {
    pub pom_4k: usize,
    pub pom_2m: usize,
    pub predictor: usize,
}

/// An entry: process, page in units of its size.
type Entry = (u32, u64);

/// The model.
pub struct PlainPom {
    /// The sets of both halves, each with the entry used longest ago first.
    halves: [Vec<Vec<Entry>>; 2],
    /// POM-3: which half is first.
    predictor: Vec<usize>,
    counts: BTreeMap<&'static str, u64>,
}

impl PlainPom {
    pub fn new(config: PomConfig) -> PlainPom {
        let sets = |entries: usize| {
            assert!(entries.is_multiple_of(WAYS) && (entries / WAYS).is_power_of_two(), "HW-13: {entries} entries");
            vec![Vec::new(); entries / WAYS]
        };
        let names = ["probes_first", "probes_second", "writes", "hits_4k", "hits_2m", "evicted", "invalidated"];
        PlainPom {
            halves: [sets(config.pom_4k), sets(config.pom_2m)],
            predictor: vec![0; config.predictor],
            counts: names.map(|name| (name, 0)).into(),
        }
    }

    fn add(&mut self, name: &'static str, n: u64) {
        *self.counts.entry(name).or_default() += n;
    }

    /// POM-2.
    fn set(&mut self, half: usize, asid: u32, page: u64) -> &mut Vec<Entry> {
        let sets = self.halves[half].len() as u64;
        &mut self.halves[half][((page ^ u64::from(asid)) % sets) as usize]
    }

    fn probe(&mut self, half: usize, asid: u32, vpn: u64) -> bool {
        let page = vpn >> HALVES[half];
        let set = self.set(half, asid, page);
        let Some(place) = set.iter().position(|entry| *entry == (asid, page)) else { return false };
        let entry = set.remove(place);
        set.push(entry);
        self.add(["hits_4k", "hits_2m"][half], 1);
        true
    }

    /// POM-3, for a base page and log2 of the pages of its mapping. True if an entry answered, which spares the walk.
    pub fn missed(&mut self, asid: u32, vpn: u64, order: u8) -> bool {
        let index = (vpn % self.predictor.len() as u64) as usize;
        let first = self.predictor[index];
        self.predictor[index] = usize::from(order > 0);
        self.add("probes_first", 1);
        if self.probe(first, asid, vpn) {
            return true;
        }
        self.add("probes_second", 1);
        self.probe(1 - first, asid, vpn)
    }

    /// POM-3: the walk for this page is over.
    pub fn walked(&mut self, asid: u32, vpn: u64, order: u8) {
        let Some(half) = HALVES.iter().position(|size| *size == order) else { return };
        let page = vpn >> order;
        let set = self.set(half, asid, page);
        assert!(!set.contains(&(asid, page)), "it would have answered");
        let full = set.len() == WAYS;
        if full {
            set.remove(0);
        }
        set.push((asid, page));
        self.add("evicted", u64::from(full));
        self.add("writes", 1);
    }

    fn drop(&mut self, which: impl Fn(u32, u64, u64) -> bool) {
        for (half, order) in HALVES.into_iter().enumerate() {
            let sets = &mut self.halves[half];
            let before: usize = sets.iter().map(Vec::len).sum();
            for set in sets.iter_mut() {
                set.retain(|(asid, page)| !which(*asid, page << order, 1 << order));
            }
            let after: usize = sets.iter().map(Vec::len).sum();
            self.add("invalidated", (before - after) as u64);
        }
    }

    /// POM-5: these base pages were unmapped, moved, or changed otherwise.
    pub fn changed(&mut self, asid: u32, first: u64, pages: u64) {
        self.drop(|a, page, n| a == asid && page < first.saturating_add(pages) && first < page + n);
    }

    /// The process ended. A switch changes nothing (POM-5).
    pub fn gone(&mut self, asid: u32) {
        self.drop(|a, _, _| a == asid);
    }

    /// All counters, by their names in the rules.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.clone()
    }

    /// Entries that are there now.
    pub fn resident(&self) -> u64 {
        self.halves.iter().flatten().map(|set| set.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::{Dice, seeds};

    const SMALL: PomConfig = PomConfig { pom_4k: 8, pom_2m: 4, predictor: 8 };

    /// POM-6: these are the same with every kind of walk.
    fn run(pom: &mut PlainPom, misses: &[(u64, u8)]) -> u64 {
        let mut walks = 0;
        for (vpn, order) in misses {
            if !pom.missed(1, *vpn, *order) {
                pom.walked(1, *vpn, *order);
                walks += 1;
            }
        }
        walks
    }

    fn sums(pom: &PlainPom) -> [u64; 4] {
        let n = |name| pom.counts()[name];
        [n("probes_first") + n("probes_second"), n("writes"), n("hits_4k"), n("hits_2m")]
    }

    #[test]
    fn pom_3_the_hand_cases() {
        let mut pom = PlainPom::new(PomConfig { pom_4k: 64, pom_2m: 64, predictor: 512 });
        assert_eq!(run(&mut pom, &[(5, 0), (6, 0), (5, 0), (6, 0), (5, 0), (6, 0)]), 2);
        assert_eq!(sums(&pom), [8, 2, 4, 0]);
        let mut pom = PlainPom::new(PomConfig { pom_4k: 64, pom_2m: 64, predictor: 512 });
        let (a, b) = ((512 + 5, 9), (1024 + 6, 9));
        assert_eq!(run(&mut pom, &[a, b, a, b, a, b]), 2);
        assert_eq!(sums(&pom), [8, 2, 0, 4]);
        let mut pom = PlainPom::new(PomConfig { pom_4k: 64, pom_2m: 64, predictor: 512 });
        let (a, b) = ((5, 0), (512 + 5, 9));
        assert_eq!(run(&mut pom, &[a, b, a, b, a, b]), 2);
        assert_eq!(sums(&pom), [12, 2, 2, 2]);
    }

    /// By hand: pages 0, 2, 4, 6, 8 of process 1 are in one set of two, and the fifth evicts the first.
    #[test]
    fn pom_1_pom_2_pom_3_pom_5_sets_large_pages_changes() {
        let mut pom = PlainPom::new(SMALL);
        assert_eq!(run(&mut pom, &[(0, 0), (2, 0), (4, 0), (6, 0), (0, 0), (8, 0), (0, 0), (2, 0)]), 6);
        assert_eq!((pom.counts()["evicted"], pom.resident()), (2, 4));
        let mut pom = PlainPom::new(SMALL);
        assert_eq!(run(&mut pom, &[(1 << 18, 18); 3]), 3);
        assert_eq!((sums(&pom), pom.resident()), ([6, 0, 0, 0], 0), "1 GB");
        let mut pom = PlainPom::new(SMALL);
        run(&mut pom, &[(3, 0), (512, 9), (1024, 9)]);
        pom.changed(1, 700, 1);
        pom.changed(2, 3, 1);
        assert_eq!((pom.counts()["invalidated"], pom.resident()), (1, 2));
        pom.gone(1);
        assert_eq!((pom.counts()["invalidated"], pom.resident()), (3, 0));
    }

    /// POM-4 and POM-5: nothing but writes, evictions and drops moves entries.
    #[test]
    fn pom_3_pom_4_pom_5_laws_on_random_streams() {
        for seed in seeds(100) {
            let mut dice = Dice::new(seed);
            let mut pom = PlainPom::new(SMALL);
            let mut walks = 0;
            for _ in 0..2000 {
                let (asid, vpn) = (dice.below(2) as u32, dice.below(4096));
                let order = if vpn < 2048 { 0 } else { 9 };
                let vpn = if order == 0 { vpn % 16 } else { vpn };
                if !pom.missed(asid, vpn, order) {
                    walks += 1;
                    pom.walked(asid, vpn, order);
                }
                assert!(pom.missed(asid, vpn, order), "what was walked for is there");
                if dice.percent(2) {
                    pom.changed(asid, dice.below(4096), 1 + dice.below(600));
                }
            }
            let [probes, writes, small, large] = sums(&pom);
            assert_eq!(small + large + walks, 4000);
            assert!(writes == walks && (4000..=8000).contains(&probes));
            let left = pom.counts()["evicted"] + pom.counts()["invalidated"] + pom.resident();
            assert_eq!(writes, left);
        }
    }
}
