//! RNG by hand.

use crate::testing::{advise, counts, load, map, map_as, order, os, store, touch, unmap};
use crate::{Os, What};
use farreach_types::addr::{Asid, Pfn, Vpn};
use farreach_types::event::{Advice, Backing, Kind, Op};
use farreach_types::translation::PageTableView;

/// Base pages alone, without rounding; a run every ten ticks.
fn hand(keys: &str) -> Os {
    let mut os = os("ranger", &format!("thp=never,address_ordered=true,ticks_per_ms=1,ranger_period_ms=10,{keys}"));
    os.apply(Asid(1), &Op::Start { pid: 2, parent: None, program: "/bin/q".into() });
    os
}

/// A page of a process on this frame: all others are taken for a moment.
fn place(os: &mut Os, asid: u32, vpn: u64, frame: u64) {
    let all = 0..os.frames().total.unwrap();
    let taken: Vec<u64> = all.filter(|&other| other != frame && os.memory.alloc.take(Pfn(other), 1)).collect();
    os.touch(Asid(asid), Vpn(vpn), Kind::Store).unwrap();
    taken.into_iter().for_each(|other| os.memory.alloc.free(Pfn(other)));
    os.check();
    assert_eq!(os.pte(Asid(asid), Vpn(vpn)).unwrap().pfn, Pfn(frame));
}

fn frames<const N: usize>(os: &Os, asid: u32, pages: [u64; N]) -> [u64; N] {
    pages.map(|page| os.pte(Asid(asid), Vpn(page)).unwrap().pfn.0)
}

fn advance(os: &mut Os, now: u64) {
    os.advance(now);
    os.check();
}

const WORK: [&str; 4] = ["ranger_in_place", "copied_pages", "exchanged_pages", "ranger_failed_pages"];

/// The example of the rules: pages 100 to 103 on 7, 50, 9, 51; 8 is free; 10 is of another process.
fn example(third: u64) -> Os {
    let mut os = hand("memory=512K");
    map(&mut os, 100, 4);
    map_as(&mut os, 1, 200, 1, false, Backing::Anonymous);
    for (page, frame) in [(100, 7), (101, 50), (102, third), (103, 51)] {
        place(&mut os, 0, page, frame);
    }
    os
}

#[test]
fn rng_3_copies_to_free_frames_and_exchanges_others() {
    let mut os = example(9);
    place(&mut os, 1, 200, 10);
    let copies = os.counts().gathered_pages;
    advance(&mut os, 9);
    assert_eq!(counts(&os, ["ranger_runs"]), [0], "RNG-1: not before its time");
    advance(&mut os, 10);
    assert_eq!((frames(&os, 0, [100, 101, 102, 103]), frames(&os, 1, [200])), ([7, 8, 9, 10], [51]));
    // 7 and 9 are in place; the page of the other process is one at its anchor, at first on 10.
    assert_eq!((counts(&os, WORK), os.counts().gathered_pages - copies), ([3, 1, 1, 0], 3));
    let mut changes = Vec::new();
    os.take_changes(&mut changes);
    let stale: Vec<(u32, u64)> = changes
        .iter()
        .filter(|change| change.what == What::Stale)
        .map(|change| (change.asid.0, change.pages.start.0))
        .collect();
    assert_eq!(stale, [(0, 101), (0, 103), (1, 200)]);
    // A second run: the other process' page goes back to its anchor no more than that: 10 is in use, and exchanged.
    advance(&mut os, 20);
    assert_eq!(counts(&os, ["ranger_runs", "copied_pages", "ranger_ranges"]), [2, 1, 2]);
}

/// RNG-3: what holds the frame cannot move: the page fails, and the next one has an anchor of its own.
#[test]
fn rng_3_a_page_that_fails_ends_its_range() {
    let mut os = example(60);
    assert!(os.memory.alloc.take(Pfn(9), 1));
    os.memory.keep(1);
    advance(&mut os, 10);
    assert_eq!(frames(&os, 0, [100, 101, 102, 103]), [7, 8, 60, 51]);
    assert_eq!((counts(&os, WORK), counts(&os, ["ranger_ranges"])), ([2, 1, 0, 1], [2]));
    // RNG-2: anchors are kept.
    os.memory.unkeep(1);
    os.memory.alloc.free(Pfn(9));
    advance(&mut os, 20);
    assert_eq!((frames(&os, 0, [102, 103]), counts(&os, ["ranger_ranges"])), ([9, 51], [2]));
}

/// RNG-3: pages that several processes map do not move, nor are they exchanged.
#[test]
fn rng_3_shared_pages_stay() {
    let mut os = example(9);
    os.apply(Asid(0), &Op::Fork { child: Asid(2) });
    advance(&mut os, 10);
    assert_eq!(frames(&os, 0, [100, 101, 102, 103]), [7, 50, 9, 51]);
    os.apply(Asid(2), &Op::End(farreach_types::event::End::Exit(0)));
    advance(&mut os, 20);
    assert_eq!(frames(&os, 0, [100, 101]), [7, 8]);
}

/// RNG-3: memory of the kernel is pinned.
#[test]
fn rng_3_memory_of_the_kernel_stays() {
    let mut os = example(9);
    map_as(&mut os, 1, 300, 1, false, Backing::Kernel);
    place(&mut os, 1, 300, 10);
    advance(&mut os, 10);
    assert_eq!((frames(&os, 0, [100, 101, 102, 103]), frames(&os, 1, [300])), ([7, 8, 9, 51], [10]));
    assert_eq!(counts(&os, WORK), [2, 1, 0, 1]);
}

/// Frames of other programs that may move are exchanged.
#[test]
fn rng_3_frames_of_others_are_exchanged() {
    let mut os = hand("memory=512K,fragmentation=0.5,movable=1");
    map(&mut os, 0, 32);
    (0..32).for_each(|page| _ = load(&mut os, page));
    let (first, others) = (frames(&os, 0, [0])[0], os.frames().others);
    advance(&mut os, 10);
    let all: Vec<u64> = (0..32).map(|page| frames(&os, 0, [page])[0]).collect();
    assert_eq!(all, (first..first + 32).collect::<Vec<_>>());
    let [_, copied, exchanged, failed] = counts(&os, WORK);
    assert!(copied > 0 && exchanged > 0 && failed == 0, "{copied} {exchanged}");
    assert_eq!(os.frames().others, others);
}

/// Superpages of sixteen pages.
fn superpages() -> Os {
    os("ranger", "memory=1M,address_ordered=true,thp_size=64K,khugepaged=0,ticks_per_ms=1,ranger_period_ms=10")
}

/// RNG-2 and RNG-4: anchors are rounded down, and a superpage whose pages are in place is promoted without a copy.
#[test]
fn rng_4_a_whole_superpage_is_promoted() {
    let mut os = superpages();
    // A region without room for a superpage, that grows.
    map(&mut os, 20, 12);
    (20..32).for_each(|page| _ = store(&mut os, page));
    map(&mut os, 16, 4);
    (16..20).rev().for_each(|page| _ = store(&mut os, page));
    assert_eq!((frames(&os, 0, [20, 31, 19, 16]), order(&os, 0, 16)), ([0, 11, 12, 15], 0));
    let zeroed = os.counts().zeroed_pages;
    advance(&mut os, 10);
    // The anchor of page 16, on 15, is frame 0: all of them change places until each is in its own.
    assert_eq!(frames(&os, 0, [16, 17, 20, 31]), [0, 1, 4, 15]);
    assert_eq!((order(&os, 0, 16), counts(&os, ["ranger_promotions"])), (4, [1]));
    assert_eq!((os.counts().zeroed_pages, os.counts().collapses), (zeroed, 0));
    let exchanged = counts(&os, ["exchanged_pages"])[0];
    advance(&mut os, 20);
    assert_eq!(counts(&os, ["exchanged_pages", "ranger_promotions"]), [exchanged, 1], "all of it is in place");
}

/// RNG-3: superpages move and are exchanged as a whole.
#[test]
fn rng_3_superpages_are_exchanged_whole() {
    let mut os = superpages();
    map(&mut os, 16, 48);
    map(&mut os, 160, 48);
    for page in [16, 160, 32, 176, 48, 192] {
        touch(&mut os, 0, page, Kind::Store);
    }
    assert_eq!((frames(&os, 0, [16, 32, 48]), frames(&os, 0, [160, 176, 192])), ([0, 32, 64], [16, 48, 80]));
    advance(&mut os, 10);
    assert_eq!((frames(&os, 0, [16, 32, 48]), order(&os, 0, 32)), ([0, 16, 32], 4));
    assert_eq!(frames(&os, 0, [160, 176, 192]), [64, 80, 96], "the anchor: where exchanges have put the first");
    unmap(&mut os, 16, 48);
    assert_eq!(os.frames().resident, 48);
}

/// RNG-3: advice makes two regions of one, but keeps a superpage that lies in both.
#[test]
fn rng_3_a_superpage_in_two_regions_is_seen_once() {
    let mut os = superpages();
    map(&mut os, 16, 32);
    store(&mut os, 16);
    advise(&mut os, 24, 24, Advice::NoHugePage);
    store(&mut os, 32);
    assert_eq!((frames(&os, 0, [16, 32]), order(&os, 0, 24), order(&os, 0, 32)), ([0, 16], 4, 0));
    advance(&mut os, 10);
    assert_eq!((counts(&os, WORK), counts(&os, ["ranger_ranges"])), ([17, 0, 0, 0], [2]));
}

/// RNG-2: a range is kept, though its first page is inside of a superpage now.
#[test]
fn rng_2_a_range_that_begins_in_a_superpage() {
    let mut os = superpages();
    // Without page 16 there is no superpage. Page 18 wants the frame of the kernel, so a range begins at page 19.
    map(&mut os, 17, 31);
    map_as(&mut os, 1, 300, 1, false, Backing::Kernel);
    for (asid, page, frame) in [(0, 17, 1), (1, 300, 2), (0, 18, 5), (0, 19, 36)] {
        place(&mut os, asid, page, frame);
    }
    advance(&mut os, 10);
    assert_eq!((frames(&os, 0, [17, 18, 19]), counts(&os, ["ranger_ranges"])), ([1, 5, 35], [2]));
    map(&mut os, 16, 1);
    advise(&mut os, 16, 32, Advice::DontNeed);
    store(&mut os, 16);
    store(&mut os, 32);
    assert_eq!((frames(&os, 0, [16, 32]), order(&os, 0, 16), order(&os, 0, 32)), ([16, 32], 4, 4));
    // Its anchor is page 16 on frame 32.
    advance(&mut os, 20);
    assert_eq!((frames(&os, 0, [16, 32]), counts(&os, ["ranger_ranges"])), ([16, 48], [3]));
}

/// RNG-1: the largest regions alone.
#[test]
fn rng_1_a_percentile_takes_the_largest_regions() {
    let mut os = hand("memory=512K,ranger_percentile=50");
    map(&mut os, 100, 4);
    map(&mut os, 300, 8);
    for (page, frame) in [(100, 7), (101, 50), (300, 20), (301, 60)] {
        place(&mut os, 0, page, frame);
    }
    advance(&mut os, 10);
    assert_eq!(frames(&os, 0, [100, 101, 300, 301]), [7, 50, 20, 21]);
}
