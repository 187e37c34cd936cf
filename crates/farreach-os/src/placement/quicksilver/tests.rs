//! QKS by hand, with reservations of 16 pages.

use crate::Os;
use crate::What;
use crate::testing::{changes, counts, load, map, map_as, order, os, store, unmap};
use farreach_types::addr::Asid;
use farreach_types::event::{Backing, Op, Prot};

fn hand(keys: &str) -> Os {
    os("quicksilver", &format!("fbr_pages=16,address_ordered=true,ticks_per_ms=10,{keys}"))
}

fn advance(os: &mut Os, now: u64) {
    os.advance(now);
    os.check();
}

/// The example of the rules: nothing at 63 pages; the 64th fills 448 and promotes.
#[test]
fn qks_1_the_64th_page_fills_the_rest() {
    let mut os = os("quicksilver", "memory=16M,address_ordered=true");
    map(&mut os, 512, 512);
    (0..63).for_each(|page| _ = store(&mut os, 512 + 7 * page));
    assert_eq!((os.counts().zeroed_pages, counts(&os, ["promotions", "filled_pages"])), (63, [0, 0]));
    store(&mut os, 1023);
    assert_eq!((os.counts().zeroed_pages, counts(&os, ["promotions", "filled_pages"])), (512, [1, 448]));
    assert_eq!((order(&os, 0, 512), order(&os, 0, 1000), os.counts().largest_fault_pages), (9, 9, 449));
    assert_eq!(changes(&mut os, What::Promoted), [(512, 512)]);
}

/// QKS-1: pages that were only read do not stand in the way, as in FreeBSD they would.
#[test]
fn qks_1_what_is_filled_counts_as_stored_to() {
    let mut os = hand("memory=1M,qks_threshold=4");
    map(&mut os, 16, 16);
    [16, 20, 25].into_iter().for_each(|page| _ = load(&mut os, page));
    store(&mut os, 31);
    assert_eq!((order(&os, 0, 16), counts(&os, ["promotions", "promotion_failures"])), (4, [1, 0]));
    // A store to it is no fault, and does not split it.
    store(&mut os, 17);
    assert_eq!((order(&os, 0, 17), os.counts().demotions, os.counts().protection_faults), (4, 0, 0));
    // Memory of a file is not filled, nor what the program maps in part.
    map_as(&mut os, 0, 64, 16, true, crate::testing::file("/f", 0));
    map(&mut os, 101, 16);
    (0..8).for_each(|page| _ = (store(&mut os, 64 + page), store(&mut os, 101 + page)));
    assert_eq!(counts(&os, ["promotions", "filled_pages"]), [1, 12]);
}

/// QKS-1, the second variant: the fault does not wait.
#[test]
fn qks_1_may_be_done_in_the_background() {
    let mut os = hand("memory=1M,qks_threshold=8,qks_async=true");
    map(&mut os, 16, 16);
    (16..24).for_each(|page| _ = store(&mut os, page));
    assert_eq!((order(&os, 0, 16), os.counts().largest_fault_pages), (0, 1));
    advance(&mut os, 9);
    assert_eq!(order(&os, 0, 16), 0);
    advance(&mut os, 10);
    assert_eq!((order(&os, 0, 16), counts(&os, ["zero_pages_background", "promotions"])), (4, [8, 1]));
    // What is gone when its turn comes is not filled.
    map(&mut os, 48, 16);
    (48..56).for_each(|page| _ = store(&mut os, page));
    os.apply(Asid(0), &Op::Protect { start: 48 << 12, len: 1 << 12, prot: Prot { write: false, ..Prot::RW } });
    advance(&mut os, 20);
    assert_eq!((order(&os, 0, 50), counts(&os, ["zero_pages_background"])), (0, [8]));
}

/// QKS-2: broken up after five seconds without a page; frames in use stay.
#[test]
fn qks_2_an_idle_reservation_is_broken_up() {
    let mut os = hand("memory=1M,qks_inactive_ms=5");
    map(&mut os, 16, 48);
    store(&mut os, 16);
    store(&mut os, 32);
    assert_eq!(os.frames().reserved, 30);
    advance(&mut os, 30);
    store(&mut os, 33);
    advance(&mut os, 50);
    assert_eq!((os.frames().reserved, counts(&os, ["inactive"])), (14, [1]));
    store(&mut os, 17);
    assert_eq!(os.counts().reservations_made, 2, "the group has pages: an ordinary frame");
    advance(&mut os, 70);
    assert_eq!(counts(&os, ["inactive"]), [1], "four milliseconds since page 33");
    advance(&mut os, 80);
    assert_eq!((os.frames().reserved, counts(&os, ["inactive", "reclaimed"])), (0, [2, 0]));
}

/// QKS-3: what is freed of a superpage stays reserved.
#[test]
fn qks_3_a_part_that_is_freed_stays_reserved() {
    let mut os = hand("memory=1M,qks_threshold=4,qks_inactive_ms=5");
    map_as(&mut os, 0, 16, 16, false, Backing::Anonymous);
    (16..20).for_each(|page| _ = store(&mut os, page));
    assert_eq!((order(&os, 0, 31), os.frames().reserved), (4, 0));
    unmap(&mut os, 24, 8);
    assert_eq!((order(&os, 0, 16), os.frames().reserved), (0, 8));
    advance(&mut os, 40);
    assert_eq!(os.frames().reserved, 8);
    advance(&mut os, 50);
    assert_eq!((os.frames().reserved, counts(&os, ["inactive"])), (0, [1]));
}
