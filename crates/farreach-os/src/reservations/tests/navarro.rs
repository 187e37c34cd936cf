//! NAV.

use super::*;
use farreach_types::event::Advice;

/// Sizes of 1, 4 and 16 pages over 32 frames, the lowest of the smallest blocks first.
const HAND: &str = "nav_sizes=1+4+16,memory=128K,address_ordered=true";

fn hand(more: &str) -> Os {
    os("navarro", &format!("{HAND},{more}"))
}

/// NAV-A: H is mapped at page 0, G at page 64.
#[test]
fn nav_a_a_request_breaks_up_the_oldest_reservation_that_serves_it() {
    let mut os = hand("");
    map(&mut os, 0, 32);
    map(&mut os, 64, 4);
    assert_eq!([load(&mut os, 5), load(&mut os, 20)], [5, 20]);
    assert_eq!(os.frames().reserved, 30);
    assert_eq!(load(&mut os, 64), 0, "G");
    let held: Vec<_> = os.memory.reservations.iter().map(|r| (r.base.0, r.pages(), r.count())).collect();
    assert_eq!(held, [(0, 4, 1), (4, 4, 1), (16, 16, 1)]);
    assert_eq!(os.frames().free, Some(8));
    assert_eq!([4, 6, 7].map(|page| load(&mut os, page)), [4, 6, 7]);
    assert_eq!([4, 5, 6, 7].map(|page| order(&os, 0, page)), [2; 4]);
    assert_eq!(load(&mut os, 0), 8, "16 overlaps pages that have frames");
    assert_eq!(counts(&os, ["preempted", "promotions_4", "promotions_16"]), [1, 1, 0]);
    assert_eq!(counts(&os, ["reservations_4", "reservations_16"]), [2, 2]);
    for page in 0..16 {
        load(&mut os, page);
    }
    assert_eq!(counts(&os, ["promotions_16"]), [0], "pages 0 to 15 can never become one superpage");
    unmap(&mut os, 0, 32);
    unmap(&mut os, 64, 4);
    assert_eq!((os.frames().free, os.frames().reserved), (Some(32), 0));
}

fn steps(os: &Os) -> [u64; 4] {
    counts(os, ["promotions_4", "promotions_16", "demotions_4", "demotions_16"])
}

#[test]
fn nav_b_promotion_and_demotion_go_by_sizes_and_a_store_splits_a_clean_superpage() {
    let mut os = hand("nav_dirty_rule=all");
    map(&mut os, 0, 16);
    let promoted: Vec<u64> = (0..16)
        .filter(|&page| {
            load(&mut os, page);
            !changes(&mut os, What::Promoted).is_empty()
        })
        .collect();
    assert_eq!(promoted, [3, 7, 11, 15]);
    assert_eq!(steps(&os), [4, 1, 0, 0]);
    store(&mut os, 6);
    assert_eq!(changes(&mut os, What::Demoted), [(0, 16), (4, 4)]);
    assert_eq!([0, 4, 6, 8, 15].map(|page| order(&os, 0, page)), [2, 0, 0, 2, 2]);
    assert_eq!(steps(&os), [4, 1, 1, 1]);
    [4, 5, 7].into_iter().for_each(|page| _ = store(&mut os, page));
    assert_eq!(steps(&os), [5, 1, 1, 1]);
    (0..4).chain(8..16).for_each(|page| _ = store(&mut os, page));
    assert_eq!(steps(&os), [8, 2, 4, 1], "5 steps of demotion");
    assert_eq!(os.counts().dirty_pages, 16);
    assert_eq!(os.counts().protection_faults, 4, "stores to clean superpages");
    assert_eq!(order(&os, 0, 0), 4);
}

/// NAV-9, OAMB-3: without the rule a store makes all of a superpage modified; the rule for files is none for other
/// memory.
#[test]
fn nav_9_the_rule_of_stores_is_for_files_alone_by_default() {
    for (rule, backing, dirty) in [
        ("file", Backing::Anonymous, 16),
        ("off", file("/f", 0), 16),
        ("file", file("/f", 0), 1),
        ("all", Backing::Anonymous, 1),
    ] {
        let mut os = hand(&format!("nav_dirty_rule={rule}"));
        map_as(&mut os, 0, 0, 16, true, backing);
        (0..16).for_each(|page| _ = load(&mut os, page));
        store(&mut os, 9);
        assert_eq!(os.counts().dirty_pages, dirty, "{rule}");
        assert_eq!(order(&os, 0, 0), if dirty == 16 { 4 } else { 2 }, "{rule}");
    }
}

/// NAV-2, OAMB-4: what a group must be, by the reasons of refusal.
#[test]
fn nav_2_the_preferred_size_fits_object_and_addresses() {
    let refused = ["refused_overlap", "refused_outside", "refused_alignment", "refused_extent"];
    let mut os = hand("");
    // Of fixed size: 16 to 31 is not inside.
    map(&mut os, 0, 20);
    assert_eq!((load(&mut os, 17), counts(&os, ["reservations_4", "reservations_16"])), (1, [1, 0]));
    assert_eq!(counts(&os, refused), [0, 1, 0, 0]);
    // A heap of 20 pages may reach beyond its end, one of 10 is too small for 16.
    for (pages, want) in [(20, [0, 1]), (10, [1, 0])] {
        let mut os = hand("");
        map_as(&mut os, 0, 0, pages, false, Backing::Heap);
        load(&mut os, pages - 1);
        assert_eq!(counts(&os, ["reservations_4", "reservations_16"]), want, "a heap of {pages} pages");
    }
    // A stack grows down: its group may begin below it.
    let mut os = hand("");
    map_as(&mut os, 0, 40, 24, false, Backing::Stack);
    load(&mut os, 41);
    assert_eq!(counts(&os, ["reservations_4", "reservations_16"]), [0, 1]);
    // Page 4 of a file at an address that is aligned for 4 pages, not for 16.
    let mut os = hand("");
    map_as(&mut os, 0, 64, 28, true, file("/f", 4));
    load(&mut os, 64 + 12);
    assert_eq!(counts(&os, ["reservations_4", "reservations_16"]), [1, 0]);
    assert_eq!(counts(&os, refused), [0, 0, 1, 0]);
}

/// NAV-3: preempting comes before a smaller extent; a smaller one before nothing.
#[test]
fn nav_3_preempting_comes_before_a_smaller_extent() {
    let mut os = hand("memory=64K");
    map(&mut os, 0, 16);
    map(&mut os, 64, 16);
    assert_eq!(load(&mut os, 0), 0);
    assert_eq!(load(&mut os, 64), 4, "16 cannot be had; the first reservation breaks up for 4");
    assert_eq!(counts(&os, ["preempted", "refused_extent"]), [1, 1]);
    assert_eq!(load(&mut os, 1), 1, "the unused rest of it still serves its object");
    assert_eq!(counts(&os, ["honoured"]), [1]);
}

/// OAMB-1: the list nearest in size, or the oldest reservation of all that serve.
#[test]
fn nav_3_the_nearest_or_the_oldest_reservation_breaks_up() {
    for (preempt, broken) in [("nearest", 16), ("oldest", 0)] {
        let mut os = hand(&format!("nav_preempt={preempt}"));
        map(&mut os, 0, 32);
        map(&mut os, 64, 1);
        load(&mut os, 0);
        // Each group of four of the second has a page: its largest unused extent is a page.
        [16, 20, 24, 28].into_iter().for_each(|page| _ = load(&mut os, page));
        load(&mut os, 64);
        let whole: Vec<u64> =
            os.memory.reservations.iter().filter(|r| r.pages() == 16).map(|r| 16 - r.base.0).collect();
        assert_eq!(whole, [broken], "{preempt}");
    }
}

/// NAV-4, NAV-5, NAV-6: a list is in the order of the last allocation, and pieces keep their time (OAMB-2).
#[test]
fn nav_6_reservations_are_taken_in_the_order_of_their_last_allocation() {
    let mut os = hand("");
    map(&mut os, 0, 32);
    map(&mut os, 64, 4);
    map(&mut os, 128, 4);
    [0, 16, 1].into_iter().for_each(|page| _ = load(&mut os, page));
    assert_eq!(load(&mut os, 64), 20, "that of page 16 is older");
    assert_eq!(counts(&os, ["preempted"]), [1]);
    assert_eq!(load(&mut os, 128), 24);
    assert_eq!(counts(&os, ["preempted"]), [1]);
}

/// NAV-8: parts of a superpage that an event does not concern stay as large as they can.
#[test]
fn nav_8_demotion_spares_what_an_event_does_not_concern() {
    let full = || {
        let mut os = hand("");
        map(&mut os, 0, 16);
        (0..16).for_each(|page| _ = store(&mut os, page));
        assert_eq!(order(&os, 0, 0), 4);
        changes(&mut os, What::Demoted);
        os
    };
    let mut os = full();
    unmap(&mut os, 5, 1);
    assert_eq!(changes(&mut os, What::Demoted), [(0, 16), (4, 4)]);
    assert_eq!([0, 4, 8, 12].map(|page| order(&os, 0, page)), [2, 0, 2, 2]);
    let mut os = full();
    unmap(&mut os, 4, 4);
    assert_eq!(changes(&mut os, What::Demoted), [(0, 16)], "a whole superpage goes unsplit");
    let mut os = full();
    os.apply(Asid(0), &Op::Protect { start: 2 << 12, len: 8 << 12, prot: Prot { write: false, ..Prot::RW } });
    os.check();
    assert_eq!(changes(&mut os, What::Demoted), [(0, 16), (0, 4), (8, 4)]);
    assert_eq!([0, 4, 8, 12].map(|page| order(&os, 0, page)), [0, 2, 0, 2]);
    let mut os = full();
    os.apply(Asid(0), &Op::Advise { start: 0, len: 1 << 12, advice: Advice::DontNeed });
    os.check();
    assert_eq!(load(&mut os, 0), 0, "its frame is held back for it");
    assert_eq!(order(&os, 0, 0), 4, "memory without a file is promoted whether all of it is modified or not");
}

/// NAV-7: each page table is promoted for itself.
#[test]
fn nav_7_each_space_has_its_own_superpages() {
    let mut os = hand("nav_dirty_rule=off");
    os.apply(Asid(1), &Op::Start { pid: 2, parent: None, program: "/bin/q".into() });
    for asid in [0, 1] {
        map_as(&mut os, asid, 0, 16, true, file("/f", 0));
    }
    (0..16).for_each(|page| _ = load(&mut os, page));
    (0..4).for_each(|page| _ = touch(&mut os, 1, page, Kind::Load));
    assert_eq!((order(&os, 0, 0), order(&os, 1, 0)), (4, 2));
    assert_eq!(counts(&os, ["reservations_16", "promotions_4", "promotions_16"]), [1, 5, 1]);
}

/// NAV-11: nodes of the map by hand. A page of a new reservation asks two sizes for a reservation in vain, tells both,
/// and asks whether its group of four is full.
#[test]
fn nav_11_visits_of_the_population_map_are_counted() {
    let mut os = hand("");
    map(&mut os, 0, 16);
    load(&mut os, 0);
    assert_eq!(counts(&os, ["map_nodes"]), [2 + 2 + 1]);
    // The second page changes nothing for the group of 16.
    load(&mut os, 1);
    assert_eq!(counts(&os, ["map_nodes"]), [5 + 1 + 1]);
}

#[test]
fn nav_1_sizes_that_are_none_are_refused() {
    for (text, why) in [
        ("nav_sizes=4+16", "nav_sizes = 4+16 is not allowed"),
        ("nav_sizes=1+3", "ascending powers of two"),
        ("nav_sizes=1+x", "nav_sizes = 1+x"),
        ("nav_sizes=1+2048", "the largest block has 1024 pages"),
    ] {
        let error = build("navarro", text).err().expect(text);
        assert!(error.contains(why), "{error}");
    }
}
