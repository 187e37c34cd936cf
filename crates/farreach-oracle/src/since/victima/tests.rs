//! The hand case of section 4.2, and its law on random streams.

use super::cache::{Content, PlainCache};
use super::*;
use crate::dice::{Dice, seeds};

/// A page table whose entries for pages `8 n` to `8 n + 7` are in line `100 + n`, and a second level with LRU.
struct Bench {
    victima: PlainVictima,
    around: Around,
    /// Process and first page, oldest use first.
    tlb: Vec<(u32, u64)>,
    entries: usize,
    walks: u64,
}

struct Around {
    /// Order by process and first page.
    mapped: BTreeMap<(u32, u64), u8>,
    cache: PlainCache,
    background: u64,
}

impl World for Around {
    fn mapping(&self, asid: u32, vpn: u64) -> Option<(u64, u8)> {
        let found = |order: &u8| self.mapped.get(&(asid, vpn >> order << order)) == Some(order);
        [0, 9, 18].into_iter().find(found).map(|order| (vpn >> order << order, order))
    }

    fn background_walk(&mut self, _: u32, _: u64) {
        self.background += 1;
    }

    fn insert(&mut self, line: Line) -> Option<Line> {
        self.cache.turn(line, 100 + line.block + 7 * u64::from(line.order))
    }

    fn used(&mut self, line: Line) {
        assert!(self.cache.used(Content::Tlb(line)));
    }

    fn dropped(&mut self, line: Line) {
        self.cache.dropped(Content::Tlb(line));
    }
}

impl Bench {
    fn new(at: u64, entries: usize, cache: PlainCache, pages: std::ops::Range<u64>) -> Bench {
        Bench {
            victima: PlainVictima::new(VictimaConfig { frequency_at: at, cost_at: at }),
            around: Around { mapped: pages.map(|page| ((1, page), 0)).collect(), cache, background: 0 },
            tlb: Vec::new(),
            entries,
            walks: 0,
        }
    }

    fn touch(&mut self, asid: u32, vpn: u64, memory: bool) {
        let (first, order) = self.around.mapping(asid, vpn).unwrap();
        if let Some(place) = self.tlb.iter().position(|e| *e == (asid, first)) {
            let entry = self.tlb.remove(place);
            return self.tlb.push(entry);
        }
        if !self.victima.missed(asid, vpn, &mut self.around) {
            self.walks += 1;
            self.data(100 + (vpn >> order) / 8 + 7 * u64::from(order));
            self.victima.walked(asid, vpn, memory, &mut self.around);
        }
        if self.tlb.len() == self.entries {
            let (asid, first) = self.tlb.remove(0);
            self.victima.evicted(asid, first, &mut self.around);
        }
        self.tlb.push((asid, first));
    }

    fn data(&mut self, line: u64) {
        if let Some(line) = self.around.cache.data(line) {
            self.victima.left(line);
        }
    }

    fn count(&self, name: &str) -> u64 {
        self.victima.counts()[name]
    }
}

#[test]
fn vic_2_vic_3_the_hand_case() {
    let mut b = Bench::new(0, 1, PlainCache::new(16, 4), 0..8);
    (0..8).chain(0..8).for_each(|page| b.touch(1, page, false));
    assert_eq!((b.walks, b.count("hits"), b.count("inserted")), (1, 15, 1));
    assert_eq!(b.around.cache.contents(), [Content::Tlb(Line { asid: 1, order: 0, block: 0 })], "no further space");
}

/// By hand: with thresholds of 1, a walk that reads memory makes its page costly; one that does not, does not.
#[test]
fn vic_3_vic_4_vic_6_costly_pages_and_changes() {
    let mut b = Bench::new(1, 1, PlainCache::new(16, 4), 0..8);
    b.touch(1, 0, false);
    b.touch(1, 1, false);
    assert_eq!((b.walks, b.count("inserted")), (2, 0));
    b.touch(1, 0, true);
    assert_eq!((b.walks, b.count("inserted")), (3, 1));
    b.touch(1, 2, true);
    assert_eq!((b.walks, b.count("hits")), (3, 1));
    // Page 3 is not valid in the line until a walk reads it again.
    b.around.mapped.remove(&(1, 3));
    b.victima.changed(1, 3, 1, &mut b.around);
    b.around.mapped.insert((1, 3), 0);
    b.touch(1, 3, true);
    b.touch(1, 4, true);
    b.touch(1, 3, true);
    assert_eq!((b.walks, b.count("hits"), b.count("inserted"), b.count("invalidated")), (4, 3, 1, 0));
    b.victima.changed(1, 0, 8, &mut b.around);
    assert_eq!((b.count("invalidated"), b.count("resident")), (1, 0));
    assert_eq!(b.around.cache.contents(), [Content::Data(100)], "what the walk for page 3 read");
    // The walk for page 0 makes it costly and its line is lost; the eviction from the second level brings it again.
    b.touch(1, 0, true);
    b.data(16);
    { 2..6 }.for_each(|i| b.data(16 * i));
    assert_eq!((b.count("evicted"), b.count("resident")), (1, 0));
    b.touch(1, 1, false);
    assert_eq!((b.count("background_walks"), b.around.background, b.count("resident")), (1, 1, 1));
    b.victima.bypass = true;
    b.around.mapped.insert((1, 40), 0);
    b.touch(1, 40, false);
    assert_eq!(b.count("resident"), 2, "all pages count as costly");
}

/// By hand: sets of two ways.
#[test]
fn vic_1_vic_5_vic_6_replacement() {
    let line = |block| Line { asid: 1, order: 0, block };
    let (t, d) = (|block| Content::Tlb(line(block)), Content::Data);
    let mut cache = PlainCache::new(1, 2);
    assert_eq!((cache.turn(line(5), 0), cache.data(5)), (None, None));
    assert_eq!(cache.contents(), [t(5), d(5)], "the same number is not the same line");
    assert_eq!(cache.data(6), Some(line(5)), "both are at 2, so the lower way goes");
    let mut cache = PlainCache::new(1, 2);
    cache.pressure = true;
    assert_eq!((cache.turn(line(5), 0), cache.data(5), cache.data(6)), (None, None, None));
    assert_eq!(cache.contents(), [t(5), d(6)], "inserted at 0");
    cache.used(d(6));
    cache.data(7);
    assert_eq!(cache.contents(), [t(5), d(7)], "passed over");
    assert_eq!(cache.turn(line(6), 7), None);
    assert_eq!((cache.contents(), cache.turn(line(7), 0)), (vec![t(5), t(6)], Some(line(6))), "the next one goes");
}

#[test]
fn vic_6_law_on_random_streams() {
    for seed in seeds(100) {
        let mut dice = Dice::new(seed);
        let mut b = Bench::new(dice.below(3), 4, PlainCache::new(4, 4), 0..0);
        let process_ids = dice.percent(50);
        let mut asid = 1;
        for _ in 0..2000 {
            let vpn = if dice.percent(70) { dice.below(64) } else { 512 + dice.below(16 * 512) };
            let order = if vpn < 512 { 0 } else { 9 };
            b.around.mapped.insert((asid, vpn >> order << order), order);
            b.touch(asid, vpn, dice.percent(50));
            b.data(dice.below(40));
            b.around.cache.pressure = dice.percent(50);
            b.victima.bypass = dice.percent(10);
            if dice.percent(3) {
                let (first, pages) = (dice.below(1024), 1 + dice.below(20));
                let meets = |page: u64, order: u8| page < first + pages && first < page + (1 << order);
                b.around.mapped.retain(|(a, page), order| *a != asid || !meets(*page, *order));
                b.tlb.retain(|(a, page)| *a != asid || !meets(*page, if *page < 512 { 0 } else { 9 }));
                b.victima.changed(asid, first, pages, &mut b.around);
            }
            if dice.percent(1) {
                asid = 3 - asid;
                if !process_ids {
                    b.tlb.clear();
                }
                b.victima.switch(asid, process_ids, &mut b.around);
            }
            let n = |name| b.count(name);
            assert_eq!(n("inserted"), n("evicted") + n("invalidated") + n("resident"));
            let contents = b.around.cache.contents();
            let lines = b.victima.lines();
            assert!(lines.iter().all(|line| contents.contains(&Content::Tlb(*line))));
            assert_eq!(contents.iter().filter(|c| matches!(c, Content::Tlb(_))).count(), lines.len());
            let stands = |line: &Line, page| b.around.mapping(line.asid, page) == Some((page, line.order));
            assert!(b.victima.lines.iter().all(|(line, pages)| pages.iter().all(|page| stands(line, *page))), "HW-5");
        }
    }
}
