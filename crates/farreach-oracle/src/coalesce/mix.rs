//! One array for all sizes, with mirrors (MIX-1 to MIX-5).

use super::Mappings;
use std::collections::BTreeSet;

/// Keys of the array.
#[derive(Clone, Copy, Debug)]
pub struct MixConfig {
    /// A power of two.
    pub sets: u64,
    /// Entries of a set.
    pub ways: usize,
    /// `mix_bundle`: superpages of an entry at most, 1 for none.
    pub bundle: u64,
    /// Entries have a length, not a bit map.
    pub length: bool,
}

#[derive(Clone, PartialEq, Debug)]
struct Entry {
    asid: u32,
    order: u8,
    /// Frame less page.
    distance: i64,
    attr: u8,
    /// In units of the size.
    pages: BTreeSet<u64>,
    used: u64,
}

impl Entry {
    fn has(&self, asid: u32, vpn: u64) -> bool {
        self.asid == asid && self.pages.contains(&(vpn >> self.order))
    }
}

/// The model.
pub struct Mix {
    config: MixConfig,
    sets: Vec<Vec<Option<Entry>>>,
    now: u64,
    /// Lookups that missed.
    pub misses: u64,
    /// MIX-4.
    pub mirror_fills: u64,
    /// Mirrors that a fill put out.
    pub evictions: u64,
    /// Mirrors that a change dropped.
    pub invalidations: u64,
}

impl Mix {
    /// An empty array.
    pub fn new(config: MixConfig) -> Mix {
        let sets = vec![vec![None; config.ways]; config.sets as usize];
        Mix { config, sets, now: 0, misses: 0, mirror_fills: 0, evictions: 0, invalidations: 0 }
    }

    fn set(&self, vpn: u64) -> usize {
        (vpn % self.config.sets) as usize
    }

    /// Whether it hits; a miss fills.
    pub fn lookup(&mut self, asid: u32, vpn: u64, table: &Mappings) -> bool {
        self.now += 1;
        let (set, now) = (self.set(vpn), self.now);
        let mut answered = false;
        for way in &mut self.sets[set] {
            let Some(entry) = way.as_mut().filter(|entry| entry.has(asid, vpn)) else { continue };
            if answered {
                *way = None;
            } else {
                let pfn = table.get(asid, vpn).map(|(first, page)| page.pfn as i64 - first as i64);
                assert_eq!(pfn, Some(entry.distance), "the page table says the same");
                (entry.used, answered) = (now, true);
            }
        }
        if !answered {
            self.misses += 1;
            self.fill(asid, vpn, table);
        }
        answered
    }

    /// MIX-2 to MIX-4.
    fn fill(&mut self, asid: u32, vpn: u64, table: &Mappings) {
        let (first, page) = table.get(asid, vpn).expect("the page is mapped");
        let (order, number, distance) = (page.order, first >> page.order, page.pfn as i64 - first as i64);
        let alike = |n: u64| {
            let other =
                table.get(asid, n << order).filter(|(first, other)| (*first, other.order) == (n << order, order));
            let near = n / 8 == number / 8 && n / self.config.bundle == number / self.config.bundle;
            near && other.is_some_and(|(at, o)| (o.pfn as i64 - at as i64, o.attr) == (distance, page.attr))
        };
        let mut pages = BTreeSet::from([number]);
        if order > 0 {
            pages.extend((number + 1..).take_while(|&n| alike(n)));
            pages.extend((0..number).rev().take_while(|&n| alike(n)));
        }
        let here = self.set(vpn);
        let mirrored = self.sets.iter().flatten().flatten().any(|entry| entry.order == order && entry.has(asid, vpn));
        let sets = if order == 0 || mirrored {
            self.mirror_fills += u64::from(order > 0);
            BTreeSet::from([here])
        } else {
            let most = |n: u64| (n << order..(n + 1) << order).take(self.config.sets as usize);
            pages.iter().flat_map(|&n| most(n)).map(|vpn| self.set(vpn)).collect()
        };
        let new = Entry { asid, order, distance, attr: page.attr, pages, used: self.now };
        for set in sets {
            self.put(set, &new);
        }
    }

    fn put(&mut self, set: usize, new: &Entry) {
        let (bundle, length) = (self.config.bundle, self.config.length);
        let group = |entry: &Entry| entry.pages.first().unwrap() / bundle;
        let joins = |held: &Entry| {
            let key = |e: &Entry| (e.asid, e.order, e.distance, e.attr, group(e));
            let together: BTreeSet<u64> = held.pages.union(&new.pages).copied().collect();
            let in_a_row = together.last().unwrap() - together.first().unwrap() + 1 == together.len() as u64;
            new.order > 0 && key(held) == key(new) && (in_a_row || !length)
        };
        if let Some(held) = self.sets[set].iter_mut().flatten().find(|held| joins(held)) {
            held.pages.extend(&new.pages);
            held.used = new.used;
            return;
        }
        let ways = &mut self.sets[set];
        let age = |way: &usize| ways[*way].as_ref().map_or(0, |entry| entry.used);
        let victim = (0..ways.len()).min_by_key(age).unwrap();
        self.evictions += u64::from(ways[victim].replace(new.clone()).is_some());
    }

    /// These base pages are mapped otherwise now, or not at all.
    pub fn change(&mut self, asid: u32, first: u64, pages: u64) {
        for way in self.sets.iter_mut().flatten() {
            let meets = |e: &Entry| e.pages.iter().any(|n| n << e.order < first + pages && first < (n + 1) << e.order);
            self.invalidations += u64::from(way.take_if(|e| e.asid == asid && meets(e)).is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Mapped;
    use super::*;
    use crate::dice::{Dice, seeds};

    fn page(order: u8, pfn: u64) -> Mapped {
        Mapped { order, pfn, attr: 0 }
    }

    fn plain(sets: u64, ways: usize) -> Mix {
        Mix::new(MixConfig { sets, ways, bundle: 1, length: false })
    }

    #[test]
    fn mix_1_mix_2_mix_4_by_hand() {
        let mut table = Mappings::default();
        table.0.insert((1, 0), page(9, 1024));
        table.0.insert((1, 512), page(0, 7));
        for first in [0, 5, 511] {
            let mut tlb = plain(4, 1);
            tlb.lookup(1, first, &table);
            (0..512).rev().for_each(|vpn| assert!(tlb.lookup(1, vpn, &table)));
            assert_eq!((tlb.misses, tlb.evictions), (1, 0));
            assert!(!tlb.lookup(1, 512, &table));
            assert!(!tlb.lookup(1, 4, &table));
            assert_eq!((tlb.misses, tlb.mirror_fills, tlb.evictions), (3, 1, 2));
            assert!(tlb.lookup(1, 5, &table));
            tlb.change(1, 0, 1);
            assert_eq!(tlb.invalidations, 4, "one a mirror");
        }
    }

    #[test]
    fn mix_3_bundles() {
        let mut table = Mappings::default();
        // Superpages 0, 1 and 3 are in a row of frames, 2 is elsewhere.
        for (number, pfn) in [(0, 512), (1, 1024), (2, 8192), (3, 2048)] {
            table.0.insert((1, number * 512), page(9, pfn));
        }
        for length in [false, true] {
            let mut tlb = Mix::new(MixConfig { sets: 2, ways: 2, bundle: 8, length });
            let hits = [0, 512, 3 * 512, 0].map(|vpn| tlb.lookup(1, vpn, &table));
            assert_eq!(hits, [false, true, false, true]);
            // A bit map takes 3 too; a length does not.
            assert!(!tlb.lookup(1, 2 * 512, &table));
            assert_eq!(tlb.evictions, if length { 2 } else { 0 });
        }
    }

    #[test]
    fn mix_5_base_pages_alone_are_a_split_tlb() {
        for seed in seeds(50) {
            let (mut dice, mut table, mut tlb) = (Dice::new(seed), Mappings::default(), plain(4, 2));
            table.0.extend((0..40).map(|vpn| ((1, vpn), page(0, 3 * vpn))));
            let mut sets = vec![Vec::<u64>::new(); 4];
            for _ in 0..500 {
                let vpn = dice.below(40);
                let set = &mut sets[(vpn % 4) as usize];
                let held = set.contains(&vpn);
                set.retain(|&other| other != vpn);
                set.insert(0, vpn);
                set.truncate(2);
                assert_eq!(tlb.lookup(1, vpn, &table), held);
            }
        }
    }

    #[test]
    fn mix_4_random_streams_never_answer_wrong() {
        for seed in seeds(100) {
            let (mut dice, mut table) = (Dice::new(seed), Mappings::default());
            let config = MixConfig { sets: 4, ways: 2, bundle: 1 << (seed % 4), length: seed.is_multiple_of(2) };
            let mut tlb = Mix::new(config);
            for _ in 0..1000 {
                let vpn = dice.below(16) << 9 | dice.below(8);
                if dice.percent(10)
                    && let Some((first, held)) = table.get(1, vpn)
                {
                    table.0.remove(&(1, first));
                    tlb.change(1, first, 1 << held.order);
                }
                if table.get(1, vpn).is_none() {
                    let block = vpn >> 9 << 9;
                    let free = table.0.range((1, block)..(1, block + 512)).next().is_none();
                    let (order, first) = if free && dice.percent(60) { (9, block) } else { (0, vpn) };
                    let pfn = first + 512 * dice.below(2);
                    table.0.insert((1, first), Mapped { order, pfn, attr: dice.below(2) as u8 });
                }
                tlb.lookup(1, vpn, &table);
            }
            assert!(tlb.misses > 0);
        }
    }
}
