//! Anchors (ANC-1 to ANC-3, ANC-5).

use super::Mappings;
use crate::tables::book::Used;

/// Keys of the machine.
#[derive(Clone, Copy, Debug)]
pub struct AnchorConfig {
    /// Entries of the first level, fully associative, LRU.
    pub l1: usize,
    /// Sets of the second level, a power of two.
    pub sets: u64,
    /// Entries of a set.
    pub ways: usize,
    /// `anchor_distance`, D.
    pub distance: u64,
}

/// An entry of the second level. A regular one has no length.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Entry {
    asid: u32,
    vpn: u64,
    /// Contiguity c of an anchor.
    pages: Option<u64>,
    pfn: u64,
    used: u64,
}

/// The model.
pub struct Anchors {
    config: AnchorConfig,
    l1: Used<(u32, u64)>,
    sets: Vec<Vec<Option<Entry>>>,
    now: u64,
    /// Walks.
    pub walks: u64,
    /// Hits of anchor entries (ANC-2).
    pub anchor_hits: u64,
    /// Leaves read (OC-7).
    pub references: u64,
}

impl Anchors {
    /// Empty.
    pub fn new(config: AnchorConfig) -> Anchors {
        assert!(config.distance.is_power_of_two() && (2..=65536).contains(&config.distance));
        let sets = vec![vec![None; config.ways]; config.sets as usize];
        Anchors { l1: Used::new(config.l1), sets, now: 0, walks: 0, anchor_hits: 0, references: 0, config }
    }

    fn anchor(&self, vpn: u64) -> u64 {
        vpn - vpn % self.config.distance
    }

    /// ANC-1.
    pub fn contiguity(&self, asid: u32, anchor: u64, table: &Mappings) -> u64 {
        let Some((_, first)) = table.get(asid, anchor) else { return 0 };
        let continues = |i: &u64| {
            table.get(asid, anchor + i).is_some_and(|(_, page)| (page.pfn, page.attr) == (first.pfn + i, first.attr))
        };
        (0..self.config.distance).take_while(continues).count() as u64
    }

    /// The set of an entry (ANC-2).
    fn set(&self, vpn: u64, anchor: bool) -> usize {
        let index = if anchor { vpn / self.config.distance } else { vpn };
        (index % self.config.sets) as usize
    }

    fn use_one(&mut self, asid: u32, vpn: u64, anchor: Option<u64>) -> Option<u64> {
        let (set, now) = (self.set(vpn, anchor.is_some()), self.now);
        let wanted = |e: &&mut Entry| match (e.pages, anchor) {
            (None, None) => (e.asid, e.vpn) == (asid, vpn),
            (Some(pages), Some(anchor)) => (e.asid, e.vpn) == (asid, anchor) && vpn - anchor < pages,
            _ => false,
        };
        let held = self.sets[set].iter_mut().flatten().find(wanted)?;
        held.used = now;
        Some(held.pfn + (vpn - held.vpn))
    }

    /// Whether a walk was needed.
    pub fn lookup(&mut self, asid: u32, vpn: u64, table: &Mappings) -> bool {
        self.now += 1;
        let (_, page) = table.get(asid, vpn).expect("the page is mapped");
        assert_eq!(page.order, 0, "base pages only");
        if self.l1.hit(&(asid, vpn)) {
            return false;
        }
        let anchor = self.anchor(vpn);
        let regular = self.use_one(asid, vpn, None);
        let found = regular.or_else(|| self.use_one(asid, vpn, Some(anchor)));
        self.anchor_hits += u64::from(regular.is_none() && found.is_some());
        assert!(found.is_none_or(|pfn| pfn == page.pfn), "the page table says the same");
        if found.is_none() {
            self.walks += 1;
            self.references += 1 + u64::from(anchor / 8 != vpn / 8);
            let pages = self.contiguity(asid, anchor, table);
            let new = if vpn - anchor < pages {
                Entry { asid, vpn: anchor, pages: Some(pages), pfn: page.pfn - (vpn - anchor), used: self.now }
            } else {
                Entry { asid, vpn, pages: None, pfn: page.pfn, used: self.now }
            };
            self.fill(new);
        }
        self.l1.put((asid, vpn));
        found.is_none()
    }

    fn fill(&mut self, new: Entry) {
        let set = self.set(new.vpn, new.pages.is_some());
        let ways = &mut self.sets[set];
        let same = |e: &Entry| (e.asid, e.vpn, e.pages.is_some()) == (new.asid, new.vpn, new.pages.is_some());
        let held = ways.iter().position(|way| way.as_ref().is_some_and(same));
        let oldest = (0..ways.len()).min_by_key(|&way| ways[way].map_or(0, |e| e.used)).unwrap();
        ways[held.unwrap_or(oldest)] = Some(new);
    }

    /// A base page is mapped otherwise now, or not at all (ANC-5).
    pub fn change(&mut self, asid: u32, vpn: u64) {
        let anchor = self.anchor(vpn);
        self.l1.drop_if(|&page| page == (asid, vpn));
        for way in self.sets.iter_mut().flatten() {
            way.take_if(|e| e.asid == asid && e.vpn == if e.pages.is_some() { anchor } else { vpn });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Mapped;
    use super::*;
    use crate::dice::{Dice, seeds};

    fn page(pfn: u64) -> Mapped {
        Mapped { order: 0, pfn, attr: 0 }
    }

    #[test]
    fn anc_1_anc_2_anc_3_by_hand() {
        let mut table = Mappings::default();
        table.0.extend((0..16).map(|vpn| ((1, vpn), page(100 + vpn))));
        let mut tlb = Anchors::new(AnchorConfig { l1: 1, sets: 4, ways: 4, distance: 8 });
        let walks: Vec<u64> = (0..16).filter(|&vpn| tlb.lookup(1, vpn, &table)).collect();
        assert_eq!(walks, [0, 8]);
        assert_eq!((tlb.walks, tlb.anchor_hits, tlb.references), (2, 14, 2));
        tlb.change(1, 12);
        assert!(!tlb.lookup(1, 3, &table) && tlb.lookup(1, 13, &table), "its anchor is dropped");
        assert_eq!(tlb.references, 3);
    }

    #[test]
    fn anc_2_anc_3_without_contiguous_pairs() {
        // Fully associative (OC-8).
        for seed in seeds(20) {
            let (mut dice, mut table) = (Dice::new(seed), Mappings::default());
            table.0.extend((0..100).map(|vpn| ((1, vpn), page(1000 - 2 * vpn))));
            let mut tlb = Anchors::new(AnchorConfig { l1: 0, sets: 1, ways: 8, distance: 16 });
            let mut base = Used::new(8);
            for _ in 0..1000 {
                let vpn = dice.below(100);
                let held = base.hit(&vpn);
                assert_eq!(tlb.lookup(1, vpn, &table), !held);
                if !held {
                    base.put(vpn);
                }
            }
            assert!(tlb.references > tlb.walks);
        }
    }

    #[test]
    fn anc_5_random_changes() {
        for seed in seeds(50) {
            let (mut dice, mut table) = (Dice::new(seed), Mappings::default());
            let mut tlb = Anchors::new(AnchorConfig { l1: 2, sets: 4, ways: 2, distance: 2 << (seed % 6) });
            for _ in 0..2000 {
                let vpn = dice.below(64);
                if dice.percent(10) || table.get(1, vpn).is_none() {
                    table.0.insert((1, vpn), page(1000 * dice.below(2) + vpn));
                    tlb.change(1, vpn);
                }
                tlb.lookup(1, vpn, &table);
            }
        }
    }
}
