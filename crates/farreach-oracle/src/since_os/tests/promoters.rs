//! Promotion that looks at use: Ingens.

use super::*;
use crate::linux::{Khugepaged, Mode};
use crate::since_os::ingens::{self, PlainIngens, Use, metric};
use std::collections::BTreeMap;

const PROMOTER: Khugepaged = Khugepaged {
    pages_to_scan: 4096,
    scan_sleep: 10_000,
    alloc_sleep: 60_000,
    max_ptes_none: 511,
    max_ptes_shared: 256,
};

fn config(frames: u64, order: u32) -> ingens::Config {
    ingens::Config {
        frames: blocks(frames),
        order,
        mode: Mode::Always,
        util_threshold: 90,
        promoter: PROMOTER,
        fairness: None,
        adaptive: false,
        track_every: 0,
        sampling: false,
    }
}

/// The first example of ING.
#[test]
fn ing_1_ing_2_ing_3_the_460th_page() {
    let mut model = PlainIngens::new(config(2048, 9));
    map(&mut model, 1, 0..512);
    store(&mut model, 1, 0..459);
    // The process entered the ring: there is a wake, and nothing to do.
    model.advance(5);
    assert_eq!(model.due(), 10_005);
    assert_eq!([own(&model, "ingens_queued"), own(&model, "ingens_promotions")], [0, 0]);
    store(&mut model, 1, 459..460);
    assert_eq!((own(&model, "ingens_queued"), model.due()), (1, 5), "at once");
    model.advance(6);
    assert_eq!([own(&model, "khugepaged_copied_pages"), own(&model, "khugepaged_zeroed_pages")], [460, 52]);
    assert_eq!(leaves(&model, 1), [(0, 9)]);
    assert_eq!((model.paging().counts.collapses, model.due()), (1, 10_006));
}

/// ING-3: at least one A; ING-2: a group is queued once.
#[test]
fn ing_3_needs_an_accessed_page() {
    let mut model = PlainIngens::new(config(64, 4));
    map(&mut model, 1, 0..16);
    for page in 0..16 {
        model.touch(1, page, Kind::Store).unwrap();
    }
    model.advance(0);
    assert_eq!((own(&model, "ingens_queued"), leaves(&model, 1).len()), (1, 16));
    model.walked(1, 3);
    model.advance(9_999);
    assert_eq!(leaves(&model, 1).len(), 16);
    model.advance(10_000);
    assert_eq!(leaves(&model, 1), [(0, 4)]);
    // What is unmapped takes its bits along, what is dropped keeps them (ON-40).
    advise(&mut model, 1, 0..8, Advice::DontNeed);
    assert_eq!((model.weight(1, 0), leaves(&model, 1).len()), (16, 8));
    unmap(&mut model, 1, 0..4);
    assert_eq!(model.weight(1, 0), 12);
    map_as(&mut model, 2, 0..16, Backing::Heap);
    store(&mut model, 2, 0..16);
    map_as(&mut model, 2, 8..16, Backing::Heap);
    assert_eq!(model.weight(2, 0), 8);
}

/// ING-3, LNX-10: no block, a sleep, and eight groups per wake.
#[test]
fn ing_3_blocks_and_budget() {
    let promoter = Khugepaged { pages_to_scan: 32, ..PROMOTER };
    let mut model = PlainIngens::new(ingens::Config { promoter, ..config(128, 4) });
    map(&mut model, 1, 0..80);
    store(&mut model, 1, 0..80);
    model.advance(1);
    // Two groups, and the promoter is due at once.
    assert_eq!((own(&model, "ingens_promotions"), model.due()), (2, 1));
    model.advance(2);
    model.advance(3);
    assert_eq!((own(&model, "ingens_promotions"), own(&model, "khugepaged_wakes")), (5, 3));
    assert_eq!(own(&model, "khugepaged_scanned_ptes"), 80 + 16, "the scan looks at one more");

    let mut model = PlainIngens::new(config(20, 4));
    map(&mut model, 1, 0..16);
    store(&mut model, 1, 0..16);
    model.advance(1);
    assert_eq!((own(&model, "khugepaged_no_block"), model.due()), (1, 60_001));
}

/// The second example of ING: 400 and 3000.
#[test]
fn ing_4_the_metric() {
    assert_eq!([metric(1, 40, 10), metric(1, 30, 1)], [400, 3000]);
    assert_eq!([metric(1, 0, 3), metric(0, 30, 1), metric(3, 2, 0)], [1, 0, 600]);
    // Process 1 is first in the ring, and 2 has more of what it wants, as its pages are accessed later.
    let fairness = Some(BTreeMap::from([(3, 0)]));
    let promoter = Khugepaged { pages_to_scan: 16, ..PROMOTER };
    let mut model = PlainIngens::new(ingens::Config { fairness, promoter, ..config(512, 4) });
    for (process, pages) in [(1, 16), (2, 32), (3, 64)] {
        map(&mut model, process, 0..pages);
        for page in 0..pages {
            model.touch(process, page, Kind::Store).unwrap();
        }
    }
    // The queue is emptied, without A.
    (0..7).for_each(|now| model.advance(now));
    assert_eq!(own(&model, "ingens_promotions"), 0);
    assert_eq!([1, 2, 3].map(|process| model.metric(process)), [100, 200, 0]);
    for process in 1..4 {
        (0..64).step_by(16).for_each(|page| model.walked(process, page));
    }
    model.advance(20_000);
    assert_eq!([1, 2].map(|process| leaves(&model, process).len()), [16, 17]);
    assert_eq!([1, 2].map(|process| model.metric(process)), [100, 100]);
    model.advance(40_000);
    model.advance(60_000);
    assert_eq!([1, 2].map(|process| leaves(&model, process).len()), [1, 2], "whose turn it is");
    assert_eq!(leaves(&model, 3).len(), 64, "weight 0");
}

/// The third example of ING: histories.
#[test]
fn ing_5_histories() {
    let mut of = Use { history: 0xff, f: 0 };
    of.look(true);
    assert_eq!((of.f, of.hot()), (0, true));
    let mut of = Use { history: 0, f: 0 };
    of.look(false);
    assert_eq!((of.f, of.hot()), (-1, false));
    // A page that is used in each scan is hot after some.
    let mut of = Use::default();
    let looks: Vec<bool> = (0..12)
        .map(|_| {
            of.look(true);
            of.hot()
        })
        .collect();
    assert_eq!(looks.iter().position(|hot| *hot), Some(5), "{looks:?}");
}

#[test]
fn ing_5_looks_at_accessed_bits() {
    let mut model = PlainIngens::new(ingens::Config { track_every: 4_000, ..config(64, 4) });
    map(&mut model, 1, 0..16);
    store(&mut model, 1, 0..4);
    model.advance(4_000);
    assert_eq!(model.used(1, 0), Some(Use { history: 1, f: -1 }));
    assert!(model.paging().mapped(1, 0..16).iter().all(|(_, entry)| !entry.young), "cleared");
    model.walked(1, 2);
    model.advance(8_000);
    assert_eq!([0, 2].map(|page| model.used(1, page).unwrap().history), [2, 3]);
    assert_eq!(own(&model, "ingens_tracked"), 8);
    // As a superpage it is another entry.
    store(&mut model, 1, 4..16);
    model.advance(8_001);
    assert_eq!((leaves(&model, 1), model.used(1, 2)), (vec![(0, 4)], None));
    model.advance(12_001);
    assert_eq!(model.used(1, 9), Some(Use { history: 1, f: -1 }));
}

/// ING-5: of hot entries a fifth is cleared.
#[test]
fn ing_5_sampling() {
    let mut model = PlainIngens::new(ingens::Config { track_every: 1, sampling: true, ..config(1 << 11, 11) });
    map(&mut model, 1, 0..1000);
    for now in 1..9 {
        store(&mut model, 1, 0..1000);
        model.advance(now);
    }
    assert!(model.used(1, 0).unwrap().hot());
    let left = model.paging().mapped(1, 0..1000).iter().filter(|(_, entry)| entry.young).count();
    assert!((760..840).contains(&left), "{left}");
}

/// ING-6: with free blocks, one page is enough.
#[test]
fn ing_6_adaptive() {
    let mut model = PlainIngens::new(ingens::Config { adaptive: true, ..config(40, 4) });
    for process in [1, 2] {
        map(&mut model, process, 0..64);
        store(&mut model, process, 3..4);
        model.advance(process.into());
        assert_eq!(leaves(&model, process), [(0, 4)]);
    }
    assert_eq!([own(&model, "khugepaged_zeroed_pages"), own(&model, "ingens_queued")], [30, 2]);
    // What is free now is in no block.
    store(&mut model, 1, 16..24);
    assert_eq!((own(&model, "ingens_queued"), model.paging().frames.free()), (2, 0));
}
