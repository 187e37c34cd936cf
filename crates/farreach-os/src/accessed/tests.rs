//! Accessed bits by hand (OSC-2): who sets them, who clears them, and what hardware is told.

use crate::testing::*;
use crate::{Os, What};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::event::{Advice, Kind, Op};

/// Scans come when the test says so.
const KEYS: &str = "memory=4M,thp_size=64K,ticks_per_ms=1,scan_sleep_ms=10,hot_sample=100,pages_to_scan=0";

fn system(bits: &str) -> Os {
    let mut os = os("ingens", &format!("{KEYS},access_bits={bits}"));
    map(&mut os, 16, 64);
    os
}

/// The first pages of the leaves whose bit is set.
fn accessed(os: &Os, asid: u32) -> Vec<u64> {
    let leaves = os.scan_leaves(Asid(asid), VpnRange { start: Vpn(0), pages: 1024 });
    leaves.iter().filter(|leaf| leaf.accessed).map(|leaf| leaf.vpn.0).collect()
}

#[test]
fn osc_2_a_walk_sets_the_bit_and_a_hit_does_not() {
    let mut os = system("walk");
    assert!(os.counts_walks());
    store(&mut os, 20);
    store(&mut os, 21);
    assert!(accessed(&os, 0).is_empty());
    os.walked(Asid(0), Vpn(20));
    assert_eq!(accessed(&os, 0), [20]);
    os.take_changes(&mut Vec::new());
    os.advance(10);
    assert_eq!((accessed(&os, 0), counts(&os, ["accessed_bits_cleared", "accessed_bits_flushed"])), (vec![], [1, 0]));
    assert!(!os.has_changes(), "entries of TLBs stay");
    // A hit.
    assert!(os.is_served(Asid(0), Vpn(20), Kind::Store));
    store(&mut os, 20);
    assert!(accessed(&os, 0).is_empty());
}

#[test]
fn osc_2_clearing_with_a_flush_invalidates_the_leaves_that_had_the_bit() {
    let mut os = system("walk+flush");
    (20..25).for_each(|vpn| _ = store(&mut os, vpn));
    [20, 21, 23].into_iter().for_each(|vpn| os.walked(Asid(0), Vpn(vpn)));
    os.take_changes(&mut Vec::new());
    os.advance(10);
    assert_eq!(changes(&mut os, What::FlushedEverywhere), [(20, 2), (23, 1)]);
    assert_eq!(counts(&os, ["accessed_bits_cleared", "accessed_bits_flushed"]), [3, 3]);
    os.advance(20);
    assert!(!os.has_changes());
}

#[test]
fn osc_2_exact_bits_are_set_by_every_access() {
    let mut os = system("exact");
    assert!(!os.counts_walks());
    (20..23).for_each(|vpn| _ = store(&mut os, vpn));
    os.walked(Asid(0), Vpn(20));
    assert_eq!(accessed(&os, 0), [20, 21, 22]);
    os.take_changes(&mut Vec::new());
    os.advance(10);
    assert!(accessed(&os, 0).is_empty());
    assert_eq!(changes(&mut os, What::Unaccessed), [(20, 3)], "the next reference must reach the system");
    assert!(!os.is_served(Asid(0), Vpn(21), Kind::Load));
    load(&mut os, 21);
    assert!(os.is_served(Asid(0), Vpn(21), Kind::Load) && accessed(&os, 0) == [21]);
}

#[test]
fn osc_2_a_superpage_has_one_bit_and_its_parts_inherit_it() {
    let mut os = os("ingens", "memory=4M,thp_size=64K,ticks_per_ms=1,hot_sample=100,scan_sleep_ms=10");
    map(&mut os, 16, 64);
    (16..32).for_each(|vpn| _ = store(&mut os, vpn));
    os.walked(Asid(0), Vpn(19));
    os.advance(0);
    assert_eq!((order(&os, 0, 16), accessed(&os, 0)), (4, vec![16]), "one of its pages had it");
    os.advance(10);
    assert_eq!((accessed(&os, 0), counts(&os, ["accessed_bits_cleared"])), (vec![], [1]));
    os.walked(Asid(0), Vpn(30));
    assert_eq!(accessed(&os, 0), [16]);
    os.apply(Asid(0), &Op::Advise { start: 28 << 12, len: 4 << 12, advice: Advice::DontNeed });
    os.check();
    assert_eq!(accessed(&os, 0), (16..28).collect::<Vec<_>>());
}

#[test]
fn osc_2_a_child_begins_without_and_a_page_that_moves_keeps_it() {
    let mut os = system("walk");
    [20, 21].into_iter().for_each(|vpn| _ = store(&mut os, vpn));
    os.walked(Asid(0), Vpn(20));
    os.apply(Asid(0), &Op::Fork { child: Asid(1) });
    assert_eq!((accessed(&os, 0), accessed(&os, 1)), (vec![20], vec![]));
    os.walked(Asid(1), Vpn(21));
    assert_eq!((accessed(&os, 0), accessed(&os, 1)), (vec![20], vec![21]));
    let to = |page: u64| page << 12;
    let moved = Op::Remap { old_start: to(16), old_len: to(64), new_start: to(500), new_len: to(64) };
    os.apply(Asid(0), &moved);
    os.check();
    assert_eq!(accessed(&os, 0), [504]);
}
