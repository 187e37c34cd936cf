//! The hand case of section 6, safety, and the law.

use super::*;
use crate::dice::{Dice, seeds};

/// Without a first level.
fn second_alone() -> PerforatedConfig {
    PerforatedConfig { l1: [(0, 1); 2], l2: (16, 4), prf_bitmaps: 16, levels: 4, process_ids: true }
}

fn both() -> PerforatedConfig {
    PerforatedConfig { l1: [(4, 2), (2, 2)], prf_bitmaps: 2, ..second_alone() }
}

/// The superpage at 512 has frames from 1024 on; these of its pages lie at 9000 and the page.
fn with_holes(config: PerforatedConfig, holes: &[u64]) -> Perforated {
    let mut m = Perforated::new(config);
    m.map(1, 512, 9, 1024);
    holes.iter().for_each(|hole| m.hole(1, 512 + hole, Some(9000 + hole)));
    m
}

fn counts<const N: usize>(m: &Perforated, names: [&str; N]) -> [u64; N] {
    names.map(|name| m.counts[name])
}

const WALKS: [&str; 5] = ["walks", "bitmap_references", "base_walks", "l2_hits", "references"];

#[test]
fn prf_1_prf_2_the_hand_case() {
    let mut m = with_holes(second_alone(), &[3]);
    assert_eq!((m.lookup(1, 515), counts(&m, WALKS)), (9003, [1, 1, 1, 0, 3 + 4]));
    assert_eq!((m.lookup(1, 515), counts(&m, WALKS)), (9003, [1, 1, 1, 1, 7]));
    assert_eq!((m.lookup(1, 512 + 70), counts(&m, WALKS)), (1024 + 70, [1, 1, 1, 2, 7]));
    assert_eq!(counts(&m, ["misses", "holes", "bitmap_hits"]), [1, 1, 0]);
    // Page 4 shares the filter bit: the bitmap is cached and says that it is no hole, each time (OX-5).
    assert_eq!([m.lookup(1, 516), m.lookup(1, 516)], [1028; 2]);
    assert_eq!(counts(&m, ["misses", "l2_hits", "bitmap_hits"]), [1, 4, 2]);
}

/// By hand: the first level has a superpage for pages of clear bits, base pages for others.
#[test]
fn prf_3_the_first_level() {
    let mut m = with_holes(PerforatedConfig { l1: [(8, 8), (2, 2)], ..second_alone() }, &[3]);
    assert_eq!([582, 583, 515, 516, 517].map(|page| m.lookup(1, page)), [1094, 1095, 9003, 1028, 1029]);
    assert_eq!(counts(&m, ["l1_hits", "l2_hits", "misses", "bitmap_references", "bitmap_hits"]), [1, 2, 2, 1, 2]);
    assert_eq!([515, 516, 517, 1023].map(|page| m.lookup(1, page)), [9003, 1028, 1029, 1535]);
    assert_eq!(counts(&m, ["l1_hits", "lookups"]), [5, 9]);
}

#[test]
fn prf_2_bitmaps_and_changes_by_hand() {
    // One bitmap for two superpages.
    let mut m = with_holes(PerforatedConfig { prf_bitmaps: 1, ..second_alone() }, &[3]);
    m.map(1, 1024, 9, 4096);
    m.hole(1, 1024 + 511, Some(7));
    assert_eq!([516, 1534, 516].map(|page| m.lookup(1, page)), [1028, 4096 + 510, 1028]);
    assert_eq!(counts(&m, ["bitmap_references", "bitmap_hits", "walks"]), [3, 0, 2]);
    // A hole that is mended or made: superpage and bitmap go. Without holes no bitmap is needed.
    m.hole(1, 515, None);
    assert_eq!((m.lookup(1, 515), counts(&m, WALKS)), (1024 + 3, [3, 3, 0, 1, 9]));
    m.hole(1, 600, Some(77));
    assert_eq!(m.counts["invalidations"], 2);
    assert_eq!([515, 600].map(|page| m.lookup(1, page)), [1027, 77]);
    assert_eq!(counts(&m, WALKS), [4, 4, 1, 1, 16]);
    m.unmap(1, 512);
    assert_eq!(m.counts["invalidations"], 4);
    m.map(1, 600, 0, 5);
    assert_eq!((m.lookup(1, 600), m.counts["references"]), (5, 20));
}

/// Safety: with every page a hole in turn, after any lookups.
#[test]
fn prf_2_no_hole_is_translated_by_the_superpage() {
    for hole in 0..512 {
        for before in [0, hole ^ 1, hole ^ 63, hole ^ 64, 511] {
            let mut m = with_holes(both(), &[hole]);
            let pages = [before, hole, before, hole, hole ^ 1, hole];
            for page in pages {
                let expected = if page == hole { 9000 + hole } else { 1024 + page };
                assert_eq!(m.lookup(1, 512 + page), expected, "hole {hole}, page {page}");
            }
        }
    }
}

/// Without holes: two LRU levels and their walks, as of a machine that knows no holes.
#[test]
fn prf_1_without_holes_it_is_the_baseline() {
    for seed in seeds(100) {
        let (mut dice, mut m) = (Dice::new(seed), Perforated::new(both()));
        let mut l1 = [Sets::new(4, 2), Sets::new(2, 2)];
        let mut l2 = Sets::new(16, 4);
        let [mut hits1, mut hits2, mut walks, mut references] = [0; 4];
        (0..2).for_each(|i| m.map(1, i * 512, 9, 512 * (7 + i)));
        (0..40).for_each(|i| m.map(1, 1024 + i, 0, 100 + i));
        for _ in 0..1000 {
            let vpn = if dice.percent(50) { dice.below(1024) } else { 1024 + dice.below(40) };
            let order = if vpn < 1024 { 9 } else { 0 };
            assert_eq!(Some(m.lookup(1, vpn)), m.frame(1, vpn));
            let entry = (order, vpn >> order);
            if l1[order / 9].hit(entry.1, |e| *e == entry).is_some() {
                hits1 += 1;
                continue;
            }
            if l2.hit(entry.1, |e| *e == entry).is_some() {
                hits2 += 1;
            } else {
                (walks, references) = (walks + 1, references + if order == 9 { 3 } else { 4 });
                l2.put(entry.1, entry);
            }
            l1[order / 9].put(entry.1, entry);
        }
        assert_eq!(counts(&m, ["l1_hits", "l2_hits", "walks", "misses"]), [hits1, hits2, walks, walks]);
        assert_eq!(counts(&m, ["references", "base_walks", "bitmap_references", "bitmap_hits"]), [references, 0, 0, 0]);
    }
}

/// Every answer is the page table's, through holes made and mended, changes, switches and ends.
#[test]
fn prf_1_to_prf_3_on_random_streams() {
    for seed in seeds(200) {
        let mut dice = Dice::new(seed);
        let process_ids = dice.percent(50);
        let config = PerforatedConfig { prf_bitmaps: dice.pick(&[0, 1, 2]), process_ids, ..both() };
        let mut m = Perforated::new(config);
        let mut asid = 1;
        let mut next = 1 << 20;
        for _ in 0..2000 {
            let vpn = dice.below(3) << 9 | dice.pick(&[0, 1, 2, 63, 64, 65, 200, 511]);
            next += 512;
            match dice.below(100) {
                0 => asid = 3 - asid,
                1 => m.gone(asid),
                2 => m.map(asid, vpn >> 9 << 9, 9, next),
                3 if m.superpage(asid, vpn).is_some() => m.unmap(asid, vpn >> 9 << 9),
                4..10 if m.superpage(asid, vpn).is_some() => m.hole(asid, vpn, Some(next + 1)),
                10..14 if m.superpage(asid, vpn).is_some() => m.hole(asid, vpn, None),
                _ => {}
            }
            if m.frame(asid, vpn).is_none() {
                m.map(asid, vpn, 0, next + 2);
            }
            assert_eq!(Some(m.lookup(asid, vpn)), m.frame(asid, vpn), "seed {seed}");
        }
        let c = |name: &str| m.counts[name];
        assert_eq!(c("lookups"), c("l1_hits") + c("l2_hits") + c("misses"));
        assert_eq!(c("holes"), c("base_walks"));
        assert!(c("misses") >= c("walks") && c("misses") <= c("walks") + c("base_walks"));
        assert!(c("bitmap_references") + c("bitmap_hits") >= c("base_walks"));
    }
}
