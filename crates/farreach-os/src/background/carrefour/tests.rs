//! CLP by hand: two nodes, superpages of 16 pages, a period of ten ticks.

use crate::testing::*;
use crate::{Os, What};
use farreach_types::addr::{Asid, Pfn, Vpn};
use farreach_types::event::{Kind, Op};
use farreach_types::translation::PageTableView;

const HAND: &str = "thp_size=64K,khugepaged=0,memory=4M,address_ordered=true,ticks_per_ms=1,carrefour_period_ms=10,\
                    carrefour_least_samples=1,carrefour_walks=100,carrefour_faults=100,carrefour_fault_ticks=0,\
                    carrefour_page_ticks=0";

/// No superpage is hot.
fn cold(keys: &str) -> Os {
    os("carrefour", &format!("{HAND},carrefour_hot=100,{keys}"))
}

/// Thread 1 is on node 0, thread 2 on node 1. The pages are walked for once.
fn walk(os: &mut Os, thread: u32, pages: impl IntoIterator<Item = u64>) {
    os.apply(Asid(0), &Op::Switch { thread });
    pages.into_iter().for_each(|vpn| os.walked(Asid(0), Vpn(vpn)));
}

fn advance(os: &mut Os, now: u64) {
    os.advance(now);
    os.check();
}

fn homes<const N: usize>(os: &Os, pages: [u64; N]) -> [u8; N] {
    pages.map(|vpn| os.home(os.pte(Asid(0), Vpn(vpn)).unwrap().pfn))
}

const SAMPLES: [&str; 2] = ["walk_samples_local", "walk_samples_remote"];
const DID: [&str; 5] = [
    "carrefour_splits",
    "carrefour_hot_splits",
    "carrefour_migrated_pages",
    "carrefour_interleaved_pages",
    "carrefour_failed_pages",
];
const LOCAL: [&str; 2] = ["first_local_ppm_at_end", "last_local_ppm_at_end"];

/// The example of the rules: one superpage on node 0, of which each node uses half.
fn halves(os: &mut Os) {
    map(os, 16, 16);
    store(os, 16);
    walk(os, 1, 16..24);
    walk(os, 2, 24..32);
}

#[test]
fn clp_1_a_page_of_disjoint_halves_splits_and_its_parts_go_to_their_nodes() {
    let mut os = cold("");
    halves(&mut os);
    assert_eq!((order(&os, 0, 16), counts(&os, SAMPLES)), (4, [8, 8]));
    let before: Vec<u64> = (16..32).map(|vpn| os.pte(Asid(0), Vpn(vpn)).unwrap().pfn.0).collect();
    changes(&mut os, What::Stale);
    advance(&mut os, 9);
    assert_eq!(counts(&os, ["carrefour_periods"]), [0]);
    advance(&mut os, 10);
    assert_eq!(counts(&os, DID), [1, 0, 8, 0, 0]);
    assert_eq!(counts(&os, ["carrefour_copied_pages"]), [8], "OSC-4");
    let mut all = Vec::new();
    os.take_changes(&mut all);
    let told = |what: What| {
        let those = all.iter().filter(move |change| change.what == what);
        those.map(|change| (change.pages.start.0, change.pages.pages)).collect::<Vec<_>>()
    };
    // OSC-5d: what was split, and each page that has another frame.
    assert_eq!(told(What::Demoted), [(16, 16)]);
    assert_eq!(told(What::Stale), (24..32).map(|vpn| (vpn, 1)).collect::<Vec<_>>());
    for (vpn, frame) in (16..32).zip(before) {
        let now = os.pte(Asid(0), Vpn(vpn)).unwrap();
        assert_eq!((now.order, now.pfn == Pfn(frame)), (0, vpn < 24), "{vpn}");
    }
    assert_eq!(homes(&os, [16, 23, 24, 31]), [0, 0, 1, 1]);
    walk(&mut os, 1, 16..24);
    walk(&mut os, 2, 24..32);
    advance(&mut os, 20);
    assert_eq!((counts(&os, LOCAL), counts(&os, SAMPLES)), ([500_000, 1_000_000], [24, 8]));
    assert_eq!(counts(&os, DID), [1, 0, 8, 0, 0], "all is in place");
}

#[test]
fn clp_1_superpages_move_whole_if_that_is_enough() {
    let mut os = cold("");
    map(&mut os, 16, 32);
    store(&mut os, 16);
    store(&mut os, 32);
    // Of the second superpage 4 of 20 samples are of node 0: it moves, too.
    walk(&mut os, 1, 32..36);
    walk(&mut os, 2, (16..32).chain(32..48));
    advance(&mut os, 10);
    assert_eq!((counts(&os, DID), [16, 32].map(|vpn| order(&os, 0, vpn))), ([0, 0, 32, 0, 0], [4, 4]));
    assert_eq!(homes(&os, [16, 31, 32, 47]), [1; 4]);
}

#[test]
fn clp_1_below_both_limits_nothing_moves() {
    // 96 of 100 samples are local, split 100 would be.
    let below = |keys: &str| {
        let mut os = cold(keys);
        map(&mut os, 16, 16);
        store(&mut os, 16);
        walk(&mut os, 1, (0..96).map(|i| 16 + i % 8));
        walk(&mut os, 2, 24..28);
        advance(&mut os, 10);
        (counts(&os, DID), order(&os, 0, 16))
    };
    assert_eq!(below(""), ([0; 5], 4));
    assert_eq!(below("carrefour_split=4"), ([1, 0, 4, 0, 0], 0));
    assert_eq!(below("carrefour_split=4,carrefour_least_samples=101"), ([0; 5], 4));
}

#[test]
fn clp_1_hot_superpages_are_split_and_interleaved() {
    let mut os = os("carrefour", HAND);
    map(&mut os, 16, 16);
    store(&mut os, 16);
    // All samples are local, and all of one page.
    walk(&mut os, 1, 16..32);
    advance(&mut os, 10);
    assert_eq!((counts(&os, DID), order(&os, 0, 16)), ([0, 1, 0, 8, 0], 0));
    assert_eq!(homes(&os, [16, 17, 18, 31]), [0, 1, 0, 1]);
    // As base pages they are placed by node: all of them are now, and half of the samples are not local.
    walk(&mut os, 1, 16..32);
    advance(&mut os, 20);
    assert_eq!((counts(&os, DID), homes(&os, [16, 17, 31])), ([0, 1, 8, 8, 0], [0; 3]));
}

#[test]
fn clp_1_six_percent_are_not_hot_and_more_are() {
    let hot = |of_first: u64| {
        let mut os = os("carrefour", HAND);
        map(&mut os, 16, 16 * 20);
        (1..=20).for_each(|group| _ = store(&mut os, 16 * group));
        walk(&mut os, 1, (0..of_first).map(|_| 16));
        // Of 100 samples in all, each of the others has at most 5.
        walk(&mut os, 1, (of_first..100).map(|i| 32 + 16 * (i % 19)));
        advance(&mut os, 10);
        counts(&os, ["carrefour_hot_splits"])
    };
    assert_eq!([hot(6), hot(7)], [[0], [1]]);
}

#[test]
fn clp_2_nothing_is_collapsed_and_faults_bring_base_pages_from_the_split_on() {
    let mut os = cold("khugepaged=1,max_ptes_none=15");
    halves(&mut os);
    advance(&mut os, 10);
    map(&mut os, 64, 32);
    let came = |os: &mut Os, vpn: u64| {
        touch(os, 0, vpn, Kind::Store);
        order(os, 0, vpn)
    };
    assert_eq!(([64, 65].map(|vpn| came(&mut os, vpn)), os.counts().collapses), ([0, 0], 0));
    // Moving what is whole is enough now, so it splits no more; but superpages are off.
    walk(&mut os, 1, [64; 10]);
    advance(&mut os, 20);
    assert_eq!((came(&mut os, 66), os.counts().collapses), (0, 0));
    // They are on again by walks: what faults is collapsed.
    walk(&mut os, 1, [64; 11]);
    advance(&mut os, 30);
    assert_eq!((came(&mut os, 67), os.counts().collapses), (4, 1));
}

#[test]
fn clp_1_walks_and_faults_switch_superpages_on_again() {
    let after = |keys: &str, walks: u64, faults: u64| {
        let mut os = cold(keys);
        halves(&mut os);
        advance(&mut os, 10);
        map(&mut os, 64, 64);
        (0..faults).for_each(|i| _ = store(&mut os, 64 + i));
        walk(&mut os, 2, (0..walks).map(|_| 31));
        advance(&mut os, 110);
        store(&mut os, 112);
        (order(&os, 0, 112), counts(&os, ["carrefour_switched_on"]))
    };
    assert_eq!(after("carrefour_walks=5", 5, 0), (0, [0]), "5 of 100 are not more");
    assert_eq!(after("carrefour_walks=5", 6, 0), (4, [1]));
    let faults = "carrefour_faults=5,carrefour_fault_ticks=1,carrefour_page_ticks=1";
    assert_eq!(after(faults, 1, 2), (0, [0]), "two faults and two pages");
    assert_eq!(after(faults, 1, 3), (4, [1]));
}

#[test]
fn what_is_shared_or_finds_no_frame_stays() {
    let mut shared = cold("");
    halves(&mut shared);
    shared.apply(Asid(0), &Op::Fork { child: Asid(1) });
    advance(&mut shared, 10);
    assert_eq!((counts(&shared, DID), homes(&shared, [24, 31])), ([1, 0, 0, 0, 8], [0; 2]));
    let mut full = cold("memory=128K");
    halves(&mut full);
    map(&mut full, 64, 16);
    (64..78).for_each(|vpn| _ = store(&mut full, vpn));
    advance(&mut full, 10);
    assert_eq!(full.frames().free, Some(0));
    // Each page that moves leaves its frame for the next one, but there is none for the first.
    assert_eq!((counts(&full, DID), homes(&full, [24, 31])), ([1, 0, 0, 0, 8], [0; 2]));
}

#[test]
fn collapsed_pages_lie_where_most_of_them_lay() {
    let mut os = cold("thp=madvise,khugepaged=0");
    map(&mut os, 16, 16);
    walk(&mut os, 1, []);
    (16..18).for_each(|vpn| _ = store(&mut os, vpn));
    walk(&mut os, 2, []);
    (18..21).for_each(|vpn| _ = store(&mut os, vpn));
    assert_eq!(homes(&os, [16, 17, 18, 20]), [0, 0, 1, 1], "first touch");
    let region = os.region(Asid(0), Vpn(16));
    let group = farreach_types::addr::VpnRange { start: Vpn(16), pages: 16 };
    walk(&mut os, 1, []);
    assert!(os.collapse_group(Asid(0), group, &region, crate::placement::contract::Effort::Fail));
    assert_eq!((order(&os, 0, 16), homes(&os, [16, 17, 21, 31])), (4, [1; 4]));
}

#[test]
fn samples_are_one_walk_of_a_number_and_only_of_what_is_mapped() {
    let mut os = cold("carrefour_sample=3");
    map(&mut os, 16, 16);
    store(&mut os, 16);
    walk(&mut os, 1, []);
    walk(&mut os, 2, 16..24);
    assert_eq!(counts(&os, SAMPLES), [0, 2]);
    unmap(&mut os, 16, 16);
    advance(&mut os, 10);
    assert_eq!(counts(&os, ["carrefour_periods", "carrefour_decisions"]), [1, 0]);
}
