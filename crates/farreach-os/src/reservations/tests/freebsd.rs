//! FBR.

use super::*;
use crate::placement::contract::FrameRequest;
use farreach_types::addr::Pfn;

fn four(more: &str) -> Os {
    os("freebsd", &format!("fbr_pages=4,address_ordered=true,{more}"))
}

#[test]
fn fbr_a_fbr_4_anonymous_memory_may_have_a_reservation_beyond_its_end() {
    let mut os = four("");
    map(&mut os, 8, 3);
    assert_eq!((load(&mut os, 9), os.frames().reserved), (1, 3));
    map_as(&mut os, 0, 16, 3, true, file("/f", 0));
    assert_eq!((load(&mut os, 17), os.frames().reserved), (4, 3), "a file of 3 pages has one page");
    assert_eq!(os.counts().reservations_made, 1);
    // FBR-2: the group would begin before the object.
    map(&mut os, 33, 8);
    load(&mut os, 33);
    assert_eq!(os.counts().reservations_made, 1);
    load(&mut os, 36);
    assert_eq!(os.counts().reservations_made, 2);
}

const PROMOTED: [&str; 3] = ["promotions", "promotion_failures", "demotions"];

#[test]
fn fbr_b_pages_must_all_be_stored_to_or_none() {
    let mut os = four("");
    map(&mut os, 8, 4);
    load(&mut os, 8);
    (9..12).for_each(|page| _ = store(&mut os, page));
    assert_eq!(counts(&os, PROMOTED), [0, 1, 0]);
    store(&mut os, 8);
    assert_eq!(counts(&os, PROMOTED), [1, 1, 0]);
    assert_eq!(os.counts().page_faults + os.counts().protection_faults, 5);
    assert_eq!((order(&os, 0, 8), os.counts().dirty_pages), (2, 4));
    assert_eq!(counts(&os, ["fullpop", "partpop"]), [1, 0]);
}

/// FBR-7, FBR-9: a superpage of clean pages is not for stores; the page-table page that is filled from it has entries
/// that are not, either.
#[test]
fn fbr_9_a_store_splits_a_clean_superpage() {
    let mut os = four("");
    map(&mut os, 8, 4);
    (8..12).for_each(|page| _ = load(&mut os, page));
    assert_eq!(counts(&os, PROMOTED), [1, 0, 0]);
    (8..11).for_each(|page| _ = store(&mut os, page));
    assert_eq!(counts(&os, PROMOTED), [1, 3, 1]);
    assert_eq!(changes(&mut os, What::Demoted), [(8, 4)]);
    store(&mut os, 11);
    assert_eq!(counts(&os, PROMOTED), [2, 3, 1]);
    assert_eq!(os.counts().protection_faults, 4);
    unmap(&mut os, 9, 1);
    assert_eq!(counts(&os, PROMOTED), [2, 3, 2]);
}

#[test]
fn fbr_c_fbr_6_the_older_reservation_is_broken_when_memory_runs_short() {
    let mut os = four("memory=32K");
    map(&mut os, 8, 8);
    assert_eq!([load(&mut os, 8), load(&mut os, 12)], [0, 4]);
    // Objects of a page that no group fits: those of files.
    for i in 0..3 {
        map_as(&mut os, 0, 32 + i, 1, true, file(&format!("/{i}"), 0));
        assert_eq!(load(&mut os, 32 + i), 1 + i);
    }
    assert_eq!(counts(&os, ["broken", "reclaimed", "partpop", "partpop_unused"]), [1, 1, 1, 3]);
}

/// FBR-5: a reservation moves to the tail when a tick has passed since it last did.
#[test]
fn fbr_5_reservations_move_once_in_a_tick() {
    for (tick, oldest) in [(1, 4), (1000, 0)] {
        let mut os = four(&format!("memory=32K,fbr_tick={tick}"));
        map(&mut os, 8, 8);
        [8, 12, 9].into_iter().for_each(|page| _ = load(&mut os, page));
        map_as(&mut os, 0, 32, 1, true, file("/f", 0));
        let want = if oldest == 4 { 5 } else { 2 };
        assert_eq!(load(&mut os, 32), want, "a tick of {tick} faults");
        assert!(os.memory.reservations.iter().all(|held| held.base.0 != oldest));
    }
}

/// FBR-5: one that nothing uses is a free block again.
#[test]
fn fbr_5_an_empty_reservation_is_freed() {
    let mut os = four("memory=32K");
    map(&mut os, 8, 8);
    [8, 12].into_iter().for_each(|page| _ = load(&mut os, page));
    unmap(&mut os, 8, 1);
    assert_eq!((os.frames().free, counts(&os, ["freed", "broken"])), (Some(4), [1, 0]));
    unmap(&mut os, 9, 7);
    assert_eq!((os.frames().free, counts(&os, ["freed", "broken"])), (Some(8), [2, 0]));
}

/// FBR-8: a second process maps a full reservation at once; for a store, only if all of it was stored to.
#[test]
fn fbr_8_a_full_reservation_is_mapped_at_once() {
    for (stored, kind, at_once) in
        [(false, Kind::Load, 1), (false, Kind::Store, 0), (true, Kind::Store, 1), (true, Kind::Load, 1)]
    {
        let mut os = four("");
        os.apply(Asid(1), &Op::Start { pid: 2, parent: None, program: "/bin/q".into() });
        (0..2).for_each(|asid| map_as(&mut os, asid, 8, 4, true, file("/f", 0)));
        (8..12).for_each(|page| _ = touch(&mut os, 0, page, if stored { Kind::Store } else { Kind::Load }));
        let pte = touch(&mut os, 1, 9, kind);
        assert_eq!((u64::from(pte.order), counts(&os, ["mapped_at_once"])), (2 * at_once, [at_once]), "{kind:?}");
        let faults = os.counts().page_faults;
        touch(&mut os, 1, 10, Kind::Load);
        assert_eq!(os.counts().page_faults - faults, 1 - at_once);
        // What was not stored to is split by a store.
        touch(&mut os, 1, 10, Kind::Store);
        assert_eq!(order(&os, 1, 10) == 2, stored);
    }
}

/// FBR-10: the copy that a store makes after a fork is placed in a reservation of the child's own memory.
#[test]
fn fbr_10_copies_have_reservations_of_their_own() {
    let mut os = four("");
    map(&mut os, 8, 4);
    (8..11).for_each(|page| _ = store(&mut os, page));
    os.apply(Asid(0), &Op::Fork { child: Asid(1) });
    assert_eq!(touch(&mut os, 1, 9, Kind::Store).pfn.0, 5);
    assert_eq!(touch(&mut os, 1, 8, Kind::Load).pfn.0, 0, "it is still shared");
    assert_eq!(store(&mut os, 11), 11, "the parent has new memory, too");
    assert_eq!(store(&mut os, 9), 1, "no other process has it");
    assert_eq!([8, 10, 11].map(|page| touch(&mut os, 1, page, Kind::Store).pfn.0), [4, 6, 7]);
    assert_eq!((order(&os, 1, 8), os.counts().reservations_made), (2, 3));
    os.apply(Asid(1), &Op::End(farreach_types::event::End::Exit(0)));
    unmap(&mut os, 8, 4);
    assert_eq!((os.frames().resident, os.frames().reserved), (0, 0));
}

/// FBR-3: a page whose slot is in use elsewhere gets an ordinary frame, and no second reservation.
#[test]
fn fbr_3_a_slot_that_is_in_use_gives_an_ordinary_page() {
    let mut os = four("");
    map(&mut os, 8, 4);
    assert_eq!([store(&mut os, 9), store(&mut os, 10)], [1, 2]);
    let object = os.spaces[0].regions.find(Vpn(8)).unwrap().object;
    let room = os.spaces[0].regions.find(Vpn(9)).unwrap().range;
    let request = FrameRequest { asid: Asid(0), vpn: Vpn(9), object, page: 9, room };
    assert_eq!(os.placement.allocate(&mut os.memory, request), Some(Pfn(4)));
    assert_eq!(os.memory.counts.reservations_made, 1);
}

/// FBR-1: the size is a key, a power of two.
#[test]
fn fbr_1_the_size_is_a_power_of_two() {
    assert!(build("freebsd", "fbr_pages=48").err().unwrap().contains("fbr_pages"));
    for pages in [2, 16, 512] {
        let mut os = os("freebsd", &format!("fbr_pages={pages}"));
        map(&mut os, 1024, 1024);
        load(&mut os, 1024);
        assert_eq!(os.frames().reserved, pages - 1);
    }
}
