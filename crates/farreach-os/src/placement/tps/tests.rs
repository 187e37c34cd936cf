//! The worked example of OS-TPS, and each rule by hand.

use crate::testing::{build, changes, counts, load, map, map_as, order, os, store, unmap};
use crate::{Os, What};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Backing, Kind, Op, Prot};
use farreach_types::translation::Attr;

/// 32 frames, the lowest of the smallest blocks first.
fn hand(keys: &str) -> Os {
    os("tps", &format!("memory=128K,address_ordered=true,{keys}"))
}

fn orders<const N: usize>(os: &Os, pages: [u64; N]) -> [u8; N] {
    pages.map(|page| order(os, 0, page))
}

fn protect(os: &mut Os, first: u64, pages: u64, write: bool) {
    let prot = Prot { write, ..Prot::RW };
    os.apply(Asid(0), &Op::Protect { start: first << 12, len: pages << 12, prot });
    os.check();
}

/// The example of section 8: a request of 7 pages at page 8.
#[test]
fn os_tps_1_a_request_of_seven_pages_has_groups_of_4_2_and_1() {
    let mut os = hand("");
    map(&mut os, 8, 7);
    assert_eq!([load(&mut os, 8), load(&mut os, 12), load(&mut os, 14)], [0, 4, 6]);
    let held: Vec<_> = os.memory.reservations.iter().map(|r| (r.first, r.pages(), r.count())).collect();
    assert_eq!(held, [(8, 4, 1), (12, 2, 1)], "a page alone needs no reservation");
    for page in 8..15 {
        assert_eq!(load(&mut os, page), page - 8);
    }
    assert_eq!(orders(&os, [8, 9, 10, 11, 12, 13, 14]), [2, 2, 2, 2, 1, 1, 0]);
    assert_eq!(counts(&os, ["promotions_2", "promotions_4", "promotions_8"]), [3, 1, 0]);
    changes(&mut os, What::Demoted);
    // OS-TPS-3.
    protect(&mut os, 9, 1, false);
    assert_eq!(orders(&os, [8, 9, 10, 11, 12, 13, 14]), [0, 0, 1, 1, 1, 1, 0]);
    assert_eq!(changes(&mut os, What::Demoted), [(8, 4), (8, 2)]);
    assert_eq!(counts(&os, ["demotions_4", "demotions_2"]), [1, 1]);
}

/// OS-TPS-1: the group lies in the request, in the addresses and in memory, and touches nothing that has its frames.
#[test]
fn os_tps_1_the_first_touch_takes_the_largest_group_for_which_there_is_a_block() {
    let mut os = hand("");
    map(&mut os, 64, 32);
    assert_eq!(load(&mut os, 70), 6, "all of the request, and all of memory");
    assert_eq!(os.frames().reserved, 31);
    unmap(&mut os, 64, 32);
    assert_eq!(os.frames().free, Some(32), "one that nothing uses is free memory");
    // Something lies in the middle of memory: no block of 32.
    map(&mut os, 0, 1);
    load(&mut os, 0);
    map(&mut os, 64, 32);
    assert_eq!(load(&mut os, 70), 16 + 6);
    assert_eq!(load(&mut os, 64 + 17), 8 + 1, "16 are taken: the next smaller block");
    assert_eq!(counts(&os, ["reservations_32", "reservations_16", "reservations_8"]), [1, 1, 1]);
    assert_eq!(os.counts().failed_region_allocs, 1 + 1);
}

/// OS-TPS-1: `tps_largest`, and the blocks of the allocator.
#[test]
fn os_tps_1_sizes_end_at_the_largest() {
    let largest = |keys: &str| {
        let mut os = os("tps", &format!("memory=64M,address_ordered=true,{keys}"));
        map(&mut os, 0, 1 << 14);
        load(&mut os, 0);
        os.frames().reserved + 1
    };
    assert_eq!(largest("tps_largest=64K"), 16);
    assert_eq!(largest("max_order=11"), 1024);
    assert_eq!(largest(""), 1 << 14);
    let error = build("tps", "tps_largest=16K,page_size=16K").err().unwrap();
    assert!(error.contains("tps_largest = 16384") && error.contains("larger"), "{error}");
    assert!(build("tps", "allocator=fifo").err().unwrap().contains("buddy"));
}

/// A heap grows: groups inside what it has now.
#[test]
fn os_tps_1_a_heap_has_room_for_what_it_is_now() {
    let mut os = hand("");
    map_as(&mut os, 0, 16, 3, false, Backing::Heap);
    assert_eq!(load(&mut os, 16), 0);
    map_as(&mut os, 0, 19, 13, false, Backing::Heap);
    assert_eq!(load(&mut os, 18), 2, "two pages of the group of 4 have their reservation");
    assert_eq!(load(&mut os, 24), 8);
    assert_eq!(counts(&os, ["reservations_2", "reservations_4", "reservations_8"]), [2, 0, 1]);
}

/// OS-TPS-2: from order to order, when both halves are there and alike.
#[test]
fn os_tps_2_promotes_order_by_order() {
    let mut os = hand("");
    map(&mut os, 0, 16);
    let promoted: Vec<Vec<(u64, u64)>> = [0, 1, 3, 2, 8, 4, 5, 6, 7]
        .map(|page| {
            load(&mut os, page);
            changes(&mut os, What::Promoted)
        })
        .into();
    let none = Vec::new;
    let (two, all) = (vec![(2, 2), (0, 4)], vec![(6, 2), (4, 4), (0, 8)]);
    assert_eq!(promoted, [none(), vec![(0, 2)], none(), two, none(), none(), vec![(4, 2)], none(), all]);
    assert_eq!(orders(&os, [0, 7, 8]), [3, 3, 0]);
    // Another protection beside it, which is another region.
    protect(&mut os, 12, 4, false);
    (9..16).for_each(|page| _ = load(&mut os, page));
    assert_eq!(orders(&os, [7, 8, 12]), [3, 2, 2]);
    // A store makes all of a superpage modified.
    let before = os.counts().dirty_pages;
    store(&mut os, 3);
    assert_eq!(os.counts().dirty_pages - before, 8);
}

/// OS-TPS-3: unmapping a part splits by halving around it, and its frames return to the reservation.
#[test]
fn os_tps_3_unmap_splits_by_halving() {
    let mut os = hand("");
    map(&mut os, 0, 16);
    (0..16).for_each(|page| _ = store(&mut os, page));
    assert_eq!(orders(&os, [0, 15]), [4, 4]);
    unmap(&mut os, 5, 2);
    assert_eq!(orders(&os, [0, 3, 4, 7, 8, 15]), [2, 2, 0, 0, 3, 3]);
    assert_eq!((os.frames().reserved, os.frames().free), (2, Some(16)));
    let freed: Vec<_> = [5, 6].map(|page| os.memory.reservations.of_page(object(&os), page).unwrap().uses(page)).into();
    assert_eq!(freed, [false, false]);
}

fn object(os: &Os) -> crate::object::ObjectId {
    os.spaces[0].regions.iter().next().unwrap().object
}

/// When no frame is left, the reservation whose last allocation is longest ago is halved, until a half is free.
#[test]
fn os_tps_1_the_oldest_reservation_is_halved_when_memory_is_full() {
    let mut os = hand("");
    map(&mut os, 0, 16);
    map(&mut os, 32, 16);
    map(&mut os, 64, 3);
    assert_eq!([load(&mut os, 3), load(&mut os, 32), load(&mut os, 0)], [3, 16, 0]);
    assert_eq!(load(&mut os, 66), 24, "half of the second one: it was used before the first");
    assert_eq!(counts(&os, ["preempted"]), [1]);
    let held: Vec<_> = os.memory.reservations.iter().map(|r| (r.base.0, r.pages(), r.count())).collect();
    assert_eq!(held, [(0, 16, 2), (16, 8, 1)]);
    // Blocks come from free memory first.
    assert_eq!(load(&mut os, 64), 26);
    let touches = (0..16).chain(32..48).map(|page| os.touch(Asid(0), Vpn(page), Kind::Load));
    let mut used: Vec<u64> = touches.filter_map(|touched| Some(touched.ok()?.pte.pfn.0)).collect();
    used.sort_unstable();
    used.dedup();
    assert_eq!((used.len(), os.frames().reserved), (30, 0), "all of memory, what was held back for page 65 too");
}

/// OS-TPS-2 with a threshold: what faults brought in counts, not what was filled.
#[test]
fn os_tps_2_a_threshold_fills_the_largest_group_that_reaches_it() {
    let mut os = hand("tps_threshold=0.75");
    map(&mut os, 0, 16);
    [0, 1].into_iter().for_each(|page| _ = store(&mut os, page));
    assert_eq!(orders(&os, [0, 1]), [1, 1]);
    store(&mut os, 2);
    assert_eq!(orders(&os, [0, 1, 2, 3]), [2; 4], "three of four");
    assert_eq!((os.counts().zeroed_pages, counts(&os, ["filled_pages"])), (4, [1]));
    [4, 5].into_iter().for_each(|page| _ = store(&mut os, page));
    assert_eq!(orders(&os, [0, 4, 5]), [2, 1, 1], "five of eight: page 3 was not asked for");
    store(&mut os, 7);
    assert_eq!(orders(&os, [0, 7]), [3, 3], "six of eight, though page 3 was filled and 6 is missing");
    assert_eq!((counts(&os, ["filled_pages"]), os.counts().largest_fault_pages), ([2], 2));
    assert_eq!(os.counts().populated_in_superpages, 2);
    let entry = os.spaces[0].table.get(Vpn(6)).unwrap();
    assert!(entry.populated && !entry.touched && entry.attr.0 & Attr::WRITE != 0);
}

/// With a threshold of a half, one page of two is enough, and of all groups those whose half was asked for.
#[test]
fn os_tps_2_a_half_fills_no_more_than_was_asked_for() {
    let mut os = hand("tps_threshold=0.5");
    map(&mut os, 0, 16);
    let mut filled = Vec::new();
    for page in [0, 2, 4, 6] {
        store(&mut os, page);
        filled.push((order(&os, 0, page), counts(&os, ["filled_pages"])[0]));
    }
    assert_eq!(filled, [(1, 1), (2, 2), (1, 3), (3, 4)]);
}

/// OS-TPS-1 and OS-TPS-2 at full size: a reservation of 1 GB, filled page by page, is one page at the end.
#[test]
fn os_tps_2_a_gigabyte_becomes_one_page() {
    let mut os = os("tps", "memory=2G,address_ordered=true");
    let pages = 1 << 18;
    map(&mut os, pages, pages);
    for page in pages..2 * pages {
        os.touch(Asid(0), Vpn(page), Kind::Store).unwrap();
    }
    os.check();
    assert_eq!(orders(&os, [pages, 2 * pages - 1]), [18, 18]);
    assert_eq!(counts(&os, ["reservations_262144", "promotions", "promotions_2"]), [1, pages - 1, pages / 2]);
    assert_eq!(os.counts().zeroed_pages, pages);
}
