//! The worked example of CAP, and each rule by hand.

use super::*;
use crate::Os;
use crate::testing::{build as build_os, counts, file, load, map, map_as, order, os, store, unmap};
use farreach_types::addr::Vpn;

/// 64 MB in blocks of 1024 frames, of which 2, 3, 10 and 11 are taken.
fn example(keys: &str) -> Os {
    let mut os = os("cap", &format!("memory=64M,address_ordered=true,khugepaged=0,{keys}"));
    for block in [2, 3, 10, 11] {
        assert!(os.memory.alloc.take(Pfn(block * 1024), 1024));
    }
    os.memory.keep(4096);
    os.check();
    os
}

fn policy() -> Cap {
    let thp = THP_KIND.keys.iter().chain([&&PAGE_SIZE]).copied().collect::<Vec<_>>();
    let thp = (THP_KIND.build)(&Params::resolve(&thp, &serde_json::Map::new()).unwrap()).unwrap();
    Cap { thp, largest: 9, rover: 0, placements: 0, targets: [0; 4], misaligned: 0, overwritten: 0 }
}

/// A region begins at a multiple of 2 MB.
const A: u64 = 1 << 20;
const B: u64 = 2 << 20;
const C: u64 = 3 << 20;
const D: u64 = 4 << 20;

/// CAP-2 and CAP-3: the example of the rules, before anything was touched.
#[test]
fn cap_3_places_from_the_rover_on() {
    let (mut os, mut cap) = (example(""), policy());
    let runs = |os: &Os| os.memory.alloc.blocks().unwrap().runs().unwrap().iter().collect::<Vec<_>>();
    assert_eq!(runs(&os), [0..2048, 4096..10240, 12288..16384]);
    let mut place = |pages| (cap.place(&os.memory, pages).unwrap(), cap.rover);
    assert_eq!(place(2048), (0, 4096));
    assert_eq!(place(5120), (4096, 9216));
    assert_eq!(place(2000), (12288, 14336), "of the rover's run only block 9 counts");
    assert_eq!(place(6144), (4096, 12288), "nothing was reserved");
    assert_eq!(place(9999), (4096, 12288), "no run is large enough: the largest");
    assert_eq!(cap.placements, 5);
    // A block goes, and comes back.
    assert!(os.memory.alloc.take(Pfn(5 * 1024 + 7), 1));
    assert_eq!(runs(&os), [0..2048, 4096..5120, 6144..10240, 12288..16384]);
    os.memory.alloc.free(Pfn(5 * 1024 + 7));
    assert_eq!(runs(&os), [0..2048, 4096..10240, 12288..16384]);
    for block in [0, 1, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15] {
        assert!(os.memory.alloc.take(Pfn(block * 1024), 1));
    }
    assert_eq!(cap.place(&os.memory, 1), None, "the map is empty");
}

/// CAP-4 to CAP-7: plans that overlap. The first touch gets the frame, the other region a new distance.
#[test]
fn cap_7_resolves_plans_that_overlap() {
    let mut os = example("");
    for (first, pages) in [(A, 2048), (B, 5120), (C, 2048), (D, 6144)] {
        map(&mut os, first, pages);
    }
    assert_eq!([load(&mut os, A + 3), load(&mut os, B), load(&mut os, C)], [3, 4096, 12288]);
    // No free run has 6144 frames any more: the largest is 5120..10240, planned for B.
    assert_eq!(load(&mut os, D), 5120);
    assert_eq!(load(&mut os, B + 512), 4608, "CAP-6: the rest of block 4");
    assert_eq!(counts(&os, ["placements", "targets_hit", "targets_occupied"]), [4, 5, 0]);
    // The target 5120 is taken. 4096 pages to the end: 6144..10240, the rest of that run.
    assert_eq!(load(&mut os, B + 1024), 6144);
    assert_eq!(load(&mut os, B + 1536 + 9), 6656 + 9, "CAP-5: the pair of the page below");
    assert_eq!(load(&mut os, D + 512), 5632);
    assert_eq!(counts(&os, ["placements", "targets_hit", "targets_occupied", "targets_large"]), [5, 7, 1, 0]);
    assert_eq!([order(&os, 0, A), order(&os, 0, B + 1024)], [9, 9]);
}

/// CAP-5: pages below every pair have the distance of the lowest. A target is rounded up to its size.
#[test]
fn cap_5_rounds_targets_up() {
    let mut os = example("");
    map(&mut os, A + 5, 2000);
    // Offset: A + 5 at frame 0. The group A + 512 aims at 507.
    assert_eq!(load(&mut os, A + 512), 512);
    assert_eq!(load(&mut os, A + 1024), 1024);
    assert_eq!(counts(&os, ["targets_misaligned", "targets_hit"]), [2, 2]);
    // No superpage fits. Block 0 is split since the first superpage.
    assert_eq!(load(&mut os, A + 7), 2);
    assert_eq!(counts(&os, ["targets_misaligned", "targets_hit", "placements"]), [2, 3, 1]);
}

/// CAP-6: one page does not split a largest block; an ordinary request does.
#[test]
fn cap_6_one_page_splits_no_largest_block() {
    let mut os = example("thp=never");
    map(&mut os, A, 3000);
    map(&mut os, B, 8);
    // Placed at 4096, but that is a whole block: an ordinary frame, the lowest.
    assert_eq!([load(&mut os, A), load(&mut os, A + 1)], [0, 1]);
    assert_eq!(counts(&os, ["placements", "targets_large", "targets_hit"]), [1, 2, 0]);
    // The rover is at 7168, and that block is taken in part: the next free one above is a whole one again.
    assert!(os.memory.alloc.take(Pfn(7168 + 5), 1));
    os.memory.keep(1);
    assert_eq!(load(&mut os, B), 7172, "an ordinary frame, of the smallest free block");
    assert_eq!(counts(&os, ["placements", "targets_large", "targets_hit"]), [2, 3, 0]);
    // When the block of the targets is split, they are hit.
    assert!(os.memory.alloc.take(Pfn(8192 + 500), 1));
    os.memory.keep(1);
    assert_eq!(load(&mut os, B + 1), 8193);
    assert_eq!(counts(&os, ["targets_large", "targets_hit", "targets_occupied"]), [3, 1, 0]);
}

/// CAP-6, CAP-7: a target in a free block that is too small.
#[test]
fn cap_6_a_free_block_is_too_small() {
    let mut os = example("");
    map(&mut os, A, 2048);
    assert_eq!(load(&mut os, A), 0);
    // A frame of another one, behind the target.
    assert!(os.memory.alloc.take(Pfn(512 + 300), 1));
    os.memory.keep(1);
    assert_eq!(load(&mut os, A + 512), 4096);
    assert_eq!(counts(&os, ["targets_small", "targets_occupied", "placements"]), [1, 0, 2]);
}

/// CAP-1: a file has one distance, also for other processes' mappings and after it; base pages add no pair.
#[test]
fn cap_1_a_file_has_one_offset() {
    let mut os = example("");
    map_as(&mut os, 0, A, 100, true, file("/f", 0));
    map_as(&mut os, 0, B, 100, true, file("/f", 0));
    map(&mut os, C, 512);
    assert_eq!(load(&mut os, C), 0);
    // Placed at 1024, the rover's place, but ordinary: 512 is the lowest free block.
    assert_eq!(load(&mut os, A + 10), 512);
    assert_eq!(load(&mut os, B + 10), 512);
    assert_eq!(load(&mut os, B + 20), 513);
    assert_eq!(counts(&os, ["placements", "targets_large", "pairs_overwritten"]), [2, 2, 0]);
}

/// CAP-1: 64 pairs, of which the oldest is overwritten; CAP-5: the nearest.
#[test]
fn cap_1_pairs_are_a_ring() {
    let mut offsets = Offsets::default();
    assert_eq!(offsets.offset(5), None);
    for at in 1..=64 {
        assert!(!offsets.note(10 * at, at));
    }
    assert!(!offsets.note(640, 0), "the same page");
    assert_eq!([3, 10, 19, 20, 9999].map(|page| offsets.offset(page)), [1, 1, 1, 2, 0].map(Some));
    assert!(offsets.note(5, 99) && offsets.note(7, 100));
    assert_eq!([3, 10, 20, 30].map(|page| offsets.offset(page)), [99, 100, 100, 3].map(Some));
    assert_eq!([offsets.next(6), offsets.next(7), offsets.next(640)], [Some(7), Some(30), None]);
}

/// What ends with its object is forgotten, and memory of a new region is placed anew.
#[test]
fn cap_4_a_new_region_is_placed_anew() {
    let mut os = example("");
    map(&mut os, A, 1024);
    assert_eq!(store(&mut os, A), 0);
    unmap(&mut os, A, 1024);
    map(&mut os, A, 1024);
    assert_eq!(store(&mut os, A + 512), 1024 + 512);
    assert_eq!(os.memory.objects.get(os.spaces[0].regions.find(Vpn(A)).unwrap().object).offsets.pairs.len(), 1);
    assert_eq!(counts(&os, ["placements"]), [2]);
}

#[test]
fn cap_needs_blocks_as_large_as_superpages() {
    let error = |keys: &str| build_os("cap", keys).err().expect(keys);
    let text = error("max_order=9");
    assert!(text.contains("max_order = 9") && text.contains("larger than 9"), "{text}");
    let text = error("allocator=fifo");
    assert!(text.contains("allocator") && text.contains("buddy"), "{text}");
    assert!(build_os("cap", "max_order=9,thp=never").is_ok() && build_os("cap", "max_order=10").is_ok());
}
