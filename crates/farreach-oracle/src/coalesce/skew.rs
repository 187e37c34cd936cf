//! A skewed array of several sizes (SKW-1 to SKW-3).

use super::Mappings;

/// Keys of the array.
#[derive(Clone, Debug)]
pub struct SkewConfig {
    /// A multiple of the number of sizes.
    pub ways: usize,
    /// Sets of each way, a power of two.
    pub sets: u64,
    /// Orders in ascending order.
    pub sizes: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Entry {
    asid: u32,
    order: u8,
    /// In units of its size.
    number: u64,
    used: u64,
}

/// The model.
pub struct Skewed {
    config: SkewConfig,
    /// By way and set.
    ways: Vec<Vec<Option<Entry>>>,
    now: u64,
    /// Lookups that missed.
    pub misses: u64,
}

/// The set of a page in a way (OT-19).
pub fn hash(page: u64, sets: u64, way: usize) -> u64 {
    if sets == 1 {
        return 0;
    }
    let (mut rest, mut fold) = (page / sets, 0);
    while rest > 0 {
        fold ^= rest % sets;
        rest /= sets;
    }
    for _ in 0..way {
        let highest = if sets == 2 { 0 } else { (fold / (sets / 2)) ^ (fold % 2) };
        fold = if sets == 2 { fold } else { fold / 2 + highest * (sets / 2) };
    }
    (page % sets) ^ fold
}

impl Skewed {
    /// An empty array.
    pub fn new(config: SkewConfig) -> Skewed {
        assert_eq!(config.ways % config.sizes.len(), 0);
        let ways = vec![vec![None; config.sets as usize]; config.ways];
        Skewed { config, ways, now: 0, misses: 0 }
    }

    /// The size with which a page is looked for in a way (SKW-1).
    pub fn size(&self, vpn: u64, way: usize) -> u8 {
        let (sizes, k) = (&self.config.sizes, self.config.sizes.len() as u64);
        let x = (vpn >> sizes.last().unwrap()) % k;
        sizes[((way as u64 + x) % k) as usize]
    }

    /// Whether it hits; a miss fills.
    pub fn lookup(&mut self, asid: u32, vpn: u64, table: &Mappings) -> bool {
        self.now += 1;
        let (now, sets) = (self.now, self.config.sets);
        let places: Vec<(usize, usize, u8)> = (0..self.config.ways)
            .map(|way| (way, self.size(vpn, way)))
            .map(|(way, order)| (way, hash(vpn >> order, sets, way) as usize, order))
            .collect();
        for &(way, set, order) in &places {
            let wanted = |e: &&mut Entry| (e.asid, e.order, e.number) == (asid, order, vpn >> order);
            if let Some(entry) = self.ways[way][set].as_mut().filter(wanted) {
                assert_eq!(table.get(asid, vpn).map(|page| page.1.order), Some(order));
                entry.used = now;
                return true;
            }
        }
        self.misses += 1;
        let (_, page) = table.get(asid, vpn).expect("the page is mapped");
        let fit = places.into_iter().filter(|place| place.2 == page.order);
        let (way, set, order) =
            fit.min_by_key(|&(way, set, _)| self.ways[way][set].map_or(0, |e| e.used)).expect("a way of its size");
        self.ways[way][set] = Some(Entry { asid, order, number: vpn >> order, used: now });
        false
    }

    /// These base pages are mapped otherwise now, or not at all.
    pub fn change(&mut self, asid: u32, first: u64, pages: u64) {
        for place in self.ways.iter_mut().flatten() {
            let meets = |e: &Entry| e.number << e.order < first + pages && first < (e.number + 1) << e.order;
            place.take_if(|e| e.asid == asid && meets(e));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Mapped;
    use super::*;
    use crate::dice::{Dice, seeds};
    use crate::driver::{Table, at};
    use crate::tlb::{PlainTlb, Preload, Replacement, SizeLookup, TlbConfig, TlbKind};
    use farreach_hw::tlb::Outcome;
    use farreach_types::addr::{Asid, Vpn};
    use farreach_types::event::Kind;

    #[test]
    fn skw_1_by_hand() {
        let tlb = Skewed::new(SkewConfig { ways: 2, sets: 4, sizes: vec![0, 9] });
        assert_eq!([tlb.size(7, 0), tlb.size(7, 1)], [0, 9]);
        assert_eq!([tlb.size(512, 0), tlb.size(512, 1)], [9, 0]);
    }

    #[test]
    fn skw_2_one_size_is_the_skewed_kind() {
        for seed in seeds(50) {
            let (ways, sets) = (1 << (seed % 3), 1u64 << (seed % 5));
            let config = TlbConfig {
                kind: TlbKind::Skewed,
                entries: ways * sets as usize,
                ways,
                factor: 1,
                orders: vec![0],
                lookup: SizeLookup::Probe,
                size_entries: Vec::new(),
                replacement: Replacement::Lru,
                fill_sets_used: true,
                preload: Preload::None,
                assisted_check: false,
                process_ids: true,
                all_valid: false,
                seed: 0,
            };
            let (mut kind, mut tlb) = (PlainTlb::new(config), Skewed::new(SkewConfig { ways, sets, sizes: vec![0] }));
            let (mut dice, mut table, mut pages) = (Dice::new(seed), Mappings::default(), Table::default());
            for vpn in (0..60).map(|i| i * 37) {
                pages.map(vpn, vpn, 7, 0);
                table.0.insert((0, vpn), Mapped { order: 0, pfn: vpn, attr: 7 });
            }
            for _ in 0..1000 {
                let vpn = dice.below(60) * 37;
                let pte = pages.0[&(Asid(0), Vpn(vpn))];
                let outcome = kind.lookup(at(vpn, Kind::Load), pte, &pages);
                assert_eq!(tlb.lookup(0, vpn, &table), outcome == Outcome::Hit, "seed {seed}, page {vpn}");
            }
        }
    }

    #[test]
    fn skw_1_each_size_has_its_share_of_ways() {
        let tlb = Skewed::new(SkewConfig { ways: 9, sets: 4, sizes: vec![0, 9, 18] });
        for vpn in (0..1000).map(|i| i << 17) {
            let ways = |order| (0..9).filter(|&way| tlb.size(vpn, way) == order).count();
            assert_eq!([0, 9, 18].map(ways), [3, 3, 3]);
        }
    }

    #[test]
    fn skw_2_skw_3_random_streams() {
        for seed in seeds(50) {
            let (mut dice, mut table) = (Dice::new(seed), Mappings::default());
            let mut tlb = Skewed::new(SkewConfig { ways: 4, sets: 1 << (seed % 4), sizes: vec![0, 9] });
            for block in 0..8 {
                if dice.percent(50) {
                    table.0.insert((1, block << 9), Mapped { order: 9, pfn: 0, attr: 0 });
                } else {
                    let page = |vpn| ((1, (block << 9) + vpn), Mapped { order: 0, pfn: vpn, attr: 0 });
                    table.0.extend((0..8).map(page));
                }
            }
            let mut before = None;
            for _ in 0..2000 {
                let vpn = dice.below(8) << 9 | dice.below(8);
                let hit = tlb.lookup(1, vpn, &table);
                assert!(hit || before != Some(vpn), "the page of the lookup before is there");
                before = Some(vpn);
            }
            assert!(tlb.misses < 2000);
        }
    }
}
