//! The hand case of section 8, others by hand, and the laws on random streams.

use super::*;
use crate::dice::{Dice, seeds};
use std::collections::BTreeSet;

/// A file, and the page of it where a region begins.
type File = Option<(u64, u64)>;

fn machine(config: MidgardConfig) -> Midgard {
    Midgard::new(config)
}

fn large() -> Vec<(usize, usize)> {
    vec![(1 << 16, 1 << 16)]
}

fn counts<const N: usize>(m: &Midgard, names: [&str; N]) -> [u64; N] {
    names.map(|name| m.counts[name])
}

fn go(m: &mut Midgard, asid: u32, address: u64) {
    m.access(asid, address);
}

/// One line in each of the first pages of the region at 0.
fn touch(m: &mut Midgard, pages: std::ops::Range<u64>) {
    pages.for_each(|page| go(m, 1, page * 4096));
}

/// By hand: the two lines of the VMA node miss, in one page, then each of 100 pages. The first walk back goes up and
/// down six levels; that of data finds the root's line, since both roots are in it. Of the pages, 13 share no leaf line
/// with those before; 12 of them find level 2.
#[test]
fn mid_2_mid_3_the_hand_case() {
    let mut m = machine(MidgardConfig { caches: large(), ..MidgardConfig::default() });
    m.region(1, 0, 100, None);
    touch(&mut m, 0..100);
    assert_eq!(counts(&m, ["vma_walks", "vma_references", "m2p_data", "m2p_front"]), [1, 2, 100, 2]);
    assert_eq!(counts(&m, ["m2p_up", "m2p_down"]), [6 + 1 + 6 + 12 * 2 + 87, 6 + 5 + 12]);
    touch(&mut m, 0..100);
    assert_eq!(counts(&m, ["vma_walks", "m2p_data", "m2p_front"]), [1, 100, 2]);
    assert_eq!(counts(&m, ["vlb1", "vlb2"]), [0, 199], "48 pages of 100 in a cycle");
    touch(&mut m, 60..100);
    assert_eq!(counts(&m, ["vlb1", "vlb2"]), [40, 199]);
}

/// By hand: trees of 5, 6, 25 and 26 regions have depths 1, 2, 2 and 3.
#[test]
fn mid_2_depths_of_trees_and_ranges() {
    for (regions, depth) in [(1, 1), (5, 1), (6, 2), (25, 2), (26, 3)] {
        let mut m = machine(MidgardConfig { caches: large(), ..MidgardConfig::default() });
        (0..regions).for_each(|i| m.region(1, 10 * i, 10, None));
        m.access(1, 0);
        assert_eq!(m.counts["vma_references"], 2 * depth, "{regions}");
        (0..regions).for_each(|i| go(&mut m, 1, 40960 * i));
        assert_eq!(m.counts["vma_walks"], regions);
        // Each node was read from memory once.
        let nodes: u64 = (1..=depth).map(|above| regions.div_ceil(5u64.pow(above as u32))).sum();
        assert_eq!(m.counts["llc_misses_front"], 2 * nodes);
        // Of 16 ranges in a cycle of more, none is there again.
        (0..regions).for_each(|i| go(&mut m, 1, 40960 * i + 4096));
        assert_eq!(m.counts["vma_walks"], if regions <= 16 { regions } else { 2 * regions });
    }
}

/// By hand: four lines in all, so that 8 lines of one page miss each time.
#[test]
fn mid_3_the_mlb() {
    let caches = vec![(4, 4)];
    let mut m = machine(MidgardConfig { caches, mlb: 4, ..MidgardConfig::default() });
    m.region(1, 0, 8, None);
    (0..8).for_each(|line| go(&mut m, 1, 64 * line));
    assert_eq!(counts(&m, ["m2p_data", "m2p_front", "mlb_hits"]), [1, 1, 8]);
    m.page_changed(1, 0);
    assert_eq!((m.access(1, 0).front, m.counts["m2p_data"]), (Front::Vlb1, 2), "no VLB is flushed");
    assert_eq!(counts(&m, ["mlb_invalidations", "invalidations"]), [1, 0]);
}

/// By hand: two caches of 1 and 2 lines.
#[test]
fn mid_1_caches_by_hand() {
    let mut m = machine(MidgardConfig { caches: vec![(1, 1), (2, 2)], levels: 1, ..MidgardConfig::default() });
    m.region(1, 0, 1, None);
    let levels: Vec<usize> = [0, 0, 64, 0].iter().map(|&byte| m.access(1, byte).level).collect();
    // Line 0 enters, then the entry of its page. Line 1 takes its place, its entry is used; then line 0 is gone.
    assert_eq!(levels, [2, 0, 2, 2]);
    assert_eq!(counts(&m, ["m2p_up", "m2p_down", "m2p_data", "llc_misses_data"]), [5, 2, 3, 3]);
    // A hit in the second fills the first.
    let mut m = machine(MidgardConfig { caches: vec![(1, 1), (64, 64)], ..MidgardConfig::default() });
    m.region(1, 0, 1, None);
    assert_eq!([0, 64, 0, 0].map(|byte| m.access(1, byte).level), [2, 2, 1, 0]);
    // One cache of 2 lines, two levels: after a cold walk it holds the entries of both, and the next line of the page
    // takes the place of the upper one.
    let mut m = machine(MidgardConfig { caches: vec![(2, 2)], levels: 2, ..MidgardConfig::default() });
    m.region(1, 0, 1, None);
    go(&mut m, 1, 0);
    go(&mut m, 1, 64);
    assert_eq!(counts(&m, ["m2p_up", "m2p_down"]), [2 + 1 + 2 + 1, 2 + 2]);
}

#[test]
fn mid_1_mid_4_regions_by_hand() {
    let mut m = machine(MidgardConfig { caches: large(), ..MidgardConfig::default() });
    m.region(1, 0, 10, None);
    m.region(1, 100, 10, None);
    assert_eq!(m.intervals(), [(0, 20), (20, 20)]);
    touch(&mut m, 0..10);
    m.access(1, 409600);
    assert_eq!(counts(&m, ["vma_walks", "m2p_data"]), [2, 11]);
    // The first has no room for that number. It loses its range, and pages in the L1 VLB.
    m.resize(1, 0, 21);
    assert_eq!(m.intervals(), [(40, 42), (20, 20)]);
    assert_eq!(counts(&m, ["moved", "flushed", "invalidations"]), [1, 10, 11]);
    assert_eq!((m.access(1, 0).line, m.access(1, 409600).line), (40 * 64, 20 * 64));
    assert_eq!(counts(&m, ["vma_walks", "m2p_data"]), [3, 12]);
    m.end(1, 0);
    m.resize(1, 100, 20);
    assert_eq!((m.intervals(), m.counts["moved"]), (vec![(20, 20)], 1));
    assert_eq!((m.access(1, 409600).front, m.counts["m2p_data"]), (Front::Walk, 12), "its lines are there");
    let flushed = m.counts["flushed"];
    m.access(1, 409600 + 4 * 4096);
    m.resize(1, 100, 4);
    assert_eq!(m.counts["flushed"], flushed + 1, "of the page that it lost");

    // Two processes, one file: the second finds the lines of the first.
    let mut m = machine(MidgardConfig { caches: large(), ..MidgardConfig::default() });
    m.region(1, 0, 10, Some((7, 0)));
    m.region(2, 50, 4, Some((7, 6)));
    m.region(2, 60, 4, None);
    assert_eq!(m.intervals(), [(0, 20), (20, 8)]);
    assert_eq!(m.access(1, 6 * 4096).level, 1);
    assert_eq!((m.access(2, 50 * 4096).level, m.access(2, 60 * 4096).level), (0, 1));
    m.resize(2, 50, 9);
    assert_eq!(counts(&m, ["moved", "flushed"]), [0, 0], "there is room");
    m.resize(2, 60, 8);
    m.resize(1, 0, 21);
    assert_eq!(counts(&m, ["moved", "flushed"]), [1, 1]);
    assert_eq!((m.access(2, 50 * 4096).front, m.access(2, 50 * 4096).front), (Front::Walk, Front::Vlb1));
}

#[test]
fn mid_4_switches() {
    for (process_ids, walks) in [(true, 2), (false, 4)] {
        let mut m = machine(MidgardConfig { process_ids, caches: large(), ..MidgardConfig::default() });
        m.region(1, 0, 1, None);
        m.region(2, 0, 1, None);
        [1, 2, 1, 2].iter().for_each(|&asid| go(&mut m, asid, 0));
        assert_eq!(counts(&m, ["vma_walks", "m2p_data"]), [walks, 2]);
    }
}

/// What is looked up leads where the region does; walks back and MLB hits are the misses of the LLC; with an LLC
/// without end, walks are the distinct lines.
#[test]
fn mid_1_to_mid_4_laws_on_random_streams() {
    for seed in seeds(200) {
        let mut dice = Dice::new(seed);
        let endless = dice.percent(30);
        let config = MidgardConfig {
            vlb1: (4, 2),
            vlb2: 2,
            caches: if endless { large() } else { vec![(4, 2), (16, 4)] },
            mlb: if endless { 0 } else { dice.pick(&[0, 3]) },
            levels: 3 + dice.below(4) as u32,
            process_ids: dice.percent(50),
        };
        let mut m = machine(config);
        let mut regions: BTreeMap<(u32, u64), (u64, File)> = BTreeMap::new();
        let (mut lines, mut accesses) = (BTreeSet::new(), 0);
        for _ in 0..600 {
            let (asid, first) = (1 + dice.below(2) as u32, 16 * dice.below(10));
            let pages = 1 + dice.below(16);
            match (dice.below(20), regions.get(&(asid, first)).copied()) {
                (0..4, None) => {
                    let file = dice.percent(30).then(|| (dice.below(2), dice.below(8)));
                    m.region(asid, first, pages, file);
                    regions.insert((asid, first), (pages, file));
                }
                (0, Some((_, file))) => {
                    m.resize(asid, first, pages);
                    regions.insert((asid, first), (pages, file));
                }
                (1, Some(_)) => {
                    m.end(asid, first);
                    regions.remove(&(asid, first));
                }
                (2, Some(_)) => m.page_changed(asid, first),
                (_, Some((pages, file))) => {
                    let page = dice.below(pages);
                    let line = m.access(asid, (first + page) * 4096 + dice.below(4096)).line;
                    // The Midgard page of another region of the file differs by as much as the page of the file.
                    for (&(other, begin), &(_, file2)) in regions.iter().filter(|r| file.is_some() && r.1.1.is_some()) {
                        let ((a, from), (b, from2)) = (file.unwrap(), file2.unwrap());
                        if a == b {
                            let there = m.access(other, begin * 4096).line / 64;
                            lines.insert(there * 64);
                            accesses += 1;
                            assert_eq!(there + from + page, line / 64 + from2);
                        }
                    }
                    lines.insert(line);
                    accesses += 1;
                }
                _ => {}
            }
            let intervals = m.intervals();
            for (i, a) in intervals.iter().enumerate() {
                assert!(intervals[..i].iter().all(|b| a.0 + a.1 <= b.0 || b.0 + b.1 <= a.0), "disjoint");
            }
        }
        let c = |name: &str| m.counts[name];
        assert_eq!(c("vlb1") + c("vlb2") + c("vma_walks"), accesses);
        assert_eq!(c("m2p_data") + c("m2p_front") + c("mlb_hits"), c("llc_misses_data") + c("llc_misses_front"));
        assert!(c("m2p_up") >= c("m2p_data") + c("m2p_front") && c("m2p_up") >= c("m2p_down"));
        assert!(!endless || c("m2p_data") == lines.len() as u64 || c("flushed") > 0);
        assert!(endless || c("llc_misses_data") >= lines.len() as u64);
    }
}
