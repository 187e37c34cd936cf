//! OS-MOS by hand, and how full memory is at the first conflict.

use super::*;
use crate::testing::{build as build_os, counts, map, order, os, store, unmap};
use farreach_types::event::{Kind, Op};
use farreach_types::translation::PageTableView;
use std::collections::BTreeSet;

fn policy(front: u64, back: u64, choices: u64, buckets: u64) -> Mosaic {
    let (in_front, in_back, conflicts) = (0, 0, 0);
    Mosaic { front, back, choices, seed: 1, buckets, in_front, in_back, conflicts, full_at: None }
}

/// The example of the rules: 2 front, 1 back, two choices.
#[test]
fn os_mos_1_front_then_the_emptiest_back_then_a_conflict() {
    let mut os = build_os("demand", "memory=36K,allocator=buddy").unwrap();
    let mut mosaic = policy(2, 1, 2, 3);
    let mut place = |os: &mut crate::Os| mosaic.place(&mut os.memory, 0, [1, 2].into_iter()).map(|pfn| pfn.0);
    assert_eq!([0; 5].map(|_| place(&mut os)), [Some(0), Some(1), Some(5), Some(8), None]);
    assert_eq!((mosaic.in_front, mosaic.in_back, mosaic.conflicts), (2, 2, 1));
    assert_eq!(mosaic.full_at, Some(444_444), "four of nine frames");
    // A place that becomes free is taken again.
    os.memory.alloc.free(Pfn(1));
    assert_eq!(mosaic.place(&mut os.memory, 0, [1, 2].into_iter()), Some(Pfn(1)));
}

#[test]
fn os_mos_1_the_back_part_with_the_fewest_pages() {
    let mut os = build_os("demand", "memory=64K,allocator=buddy").unwrap();
    let mut mosaic = policy(1, 3, 3, 4);
    let mut place = |front: u64, backs: [u64; 3]| mosaic.place(&mut os.memory, front, backs.into_iter()).unwrap().0;
    assert_eq!(place(0, [1, 2, 3]), 0);
    assert_eq!(place(0, [1, 2, 3]), 5, "of equal ones the first");
    assert_eq!(place(0, [1, 2, 3]), 9);
    assert_eq!(place(0, [1, 3, 2]), 13);
    assert_eq!(place(0, [3, 3, 1]), 14);
    assert_eq!(place(0, [3, 1, 2]), 6);
}

/// OS-MOS-1: 104 places of a page. It lies in one of them, and pages never move (OS-MOS-2).
#[test]
fn os_mos_2_pages_lie_in_their_places_and_stay() {
    let mut os = os("mosaic", "memory=1M,mos_choices=2");
    map(&mut os, 0, 100);
    let frames: Vec<u64> = (0..100).map(|page| store(&mut os, page)).collect();
    let mosaic = Mosaic { seed: 0, ..policy(56, 8, 2, 4) };
    assert_eq!(os.memory.alloc.total(), Some(4 * 64), "four buckets");
    for (page, frame) in frames.iter().enumerate() {
        let buckets: Vec<u64> = (0..3).map(|which| mosaic.bucket(Asid(0), Vpn(page as u64), which)).collect();
        let right = if frame % 64 < 56 { buckets[0] == frame / 64 } else { buckets[1..].contains(&(frame / 64)) };
        assert!(right, "page {page} on {frame}: {buckets:?}");
    }
    assert_eq!(counts(&os, ["front_pages", "back_pages", "conflicts"]).iter().sum::<u64>(), 100);
    unmap(&mut os, 10, 50);
    let still = |page: usize| os.pte(Asid(0), Vpn(page as u64)).unwrap().pfn.0 == frames[page];
    assert!((0..10).chain(60..100).all(still));
    assert!((0..10).all(|page| order(&os, 0, page) == 0));
}

/// A copy has a place by the hash of its own page.
#[test]
fn os_mos_1_copies_are_placed_by_hash() {
    let mut os = os("mosaic", "memory=1M");
    map(&mut os, 0, 40);
    (0..40).for_each(|page| _ = store(&mut os, page));
    os.apply(Asid(0), &Op::Fork { child: Asid(1) });
    (0..40).for_each(|page| _ = os.touch(Asid(1), Vpn(page), Kind::Store).unwrap());
    let mosaic = Mosaic { seed: 0, ..policy(56, 8, 6, 4) };
    let in_front = (0..40).filter(|&page| {
        let frame = os.pte(Asid(1), Vpn(page)).unwrap().pfn.0;
        frame % 64 < 56 && mosaic.bucket(Asid(1), Vpn(page), 0) == frame / 64
    });
    assert_eq!((in_front.count(), os.counts().cow_copies), (40, 40));
}

/// OS-MOS-2: memory is nearly full at the first conflict. The paper has 98 %.
#[test]
fn os_mos_2_the_first_conflict_comes_above_97_percent() {
    for seed in 0..4 {
        let mut os = os("mosaic", &format!("memory=64M,seed={seed}"));
        map(&mut os, 0, 1 << 30);
        let mut vpn = 1u64;
        let full = loop {
            vpn = vpn.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407 + seed);
            if let Err(full) = os.touch(Asid(0), Vpn(vpn >> 34), Kind::Load) {
                break full;
            }
        };
        let [ppm, conflicts] = counts(&os, ["first_conflict_ppm", "conflicts"]);
        assert!((970_000..1_000_000).contains(&ppm) && conflicts == 1, "{ppm} {conflicts}");
        let text = os.explain(full);
        assert!(
            text.contains("conflicts with others") && text.contains(&format!("{:.2} %", ppm as f64 / 1e4)),
            "{text}"
        );
    }
}

/// Frames of others are no places.
#[test]
fn os_mos_1_pinned_frames_are_full() {
    let mut os = os("mosaic", "memory=4M,fragmentation=0.3");
    map(&mut os, 0, 600);
    let used: BTreeSet<u64> = (0..600).map(|page| store(&mut os, page)).collect();
    assert_eq!(used.len(), 600);
}

#[test]
fn os_mos_keys_that_are_wrong_are_refused() {
    let error = |keys: &str| build_os("mosaic", keys).err().expect(keys);
    for (keys, said) in [
        ("mos_front=60", "mos_front = 60"),
        ("memory=unlimited", "memory = unlimited"),
        ("memory=16K", "256K"),
        ("compaction=direct", "compaction = direct"),
        ("allocator=colouring", "allocator"),
    ] {
        assert!(error(keys).contains(said), "{}", error(keys));
    }
}
