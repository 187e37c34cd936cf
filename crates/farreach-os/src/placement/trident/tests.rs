//! TRI by hand, with large pages of 64 KB made of superpages of 16 KB.

use crate::testing::{build, changes, counts, load, map, os, store, unmap};
use crate::{Os, What};
use farreach_types::addr::{Asid, Pfn, Vpn};
use farreach_types::event::{Advice, Kind, Op, Prot};
use farreach_types::translation::PageTableView;

const SMALL: &str = "tri_size=64K,thp_size=16K,max_ptes_none=3,tri_max_none=15,pages_to_scan=32,compaction_block=16K,\
                     address_ordered=true,ticks_per_ms=1,scan_sleep_ms=10,alloc_sleep_ms=50";

fn hand(keys: &str) -> Os {
    os("trident", &format!("{SMALL},{keys}"))
}

fn orders<const N: usize>(os: &Os, pages: [u64; N]) -> [Option<u8>; N] {
    pages.map(|page| os.pte(Asid(0), Vpn(page)).map(|pte| pte.order))
}

fn advance(os: &mut Os, now: u64) {
    os.advance(now);
    os.check();
}

/// TRI-1: the region covers the group, nothing is mapped in it, and a block is free; else the smaller one, else a page.
#[test]
fn tri_1_a_fault_brings_in_the_largest_that_fits() {
    let mut os = hand("memory=256K,pages_to_scan=0");
    map(&mut os, 16, 38);
    assert_eq!((store(&mut os, 20), store(&mut os, 49), store(&mut os, 53)), (4, 17, 20));
    assert_eq!(orders(&os, [16, 31, 48, 51, 52, 53]), [Some(4), Some(4), Some(2), Some(2), None, Some(0)]);
    assert_eq!((counts(&os, ["large_pages"]), os.counts().page_faults, os.counts().zeroed_pages), ([1], 3, 21));
    // Memory has blocks of 16 no more: the last two are in use, but for a part.
    assert!(os.memory.alloc.take(Pfn(40), 1) && os.memory.alloc.take(Pfn(60), 1));
    os.memory.keep(2);
    map(&mut os, 64, 16);
    store(&mut os, 64);
    assert_eq!((orders(&os, [64, 67, 68]), os.counts().superpage_fallbacks), ([Some(2), Some(2), None], 1));
}

/// LNX-20 for both sizes: a change of a part splits into superpages of the smaller size, and one of these into pages.
#[test]
fn tri_1_a_part_splits_into_the_smaller_size() {
    let mut os = hand("memory=256K,pages_to_scan=0");
    map(&mut os, 16, 16);
    store(&mut os, 16);
    let part = Op::Protect { start: 21 << 12, len: 1 << 12, prot: Prot { write: false, ..Prot::RW } };
    os.apply(Asid(0), &part);
    assert_eq!(orders(&os, [16, 20, 21, 23, 24, 28]), [2, 0, 0, 0, 2, 2].map(Some));
    assert_eq!(changes(&mut os, What::Demoted), [(16, 16), (20, 4)]);
    unmap(&mut os, 24, 4);
    assert_eq!((orders(&os, [16, 24, 28]), os.counts().demotions), ([Some(2), None, Some(2)], 2));
}

/// A region that had no room for superpages when its pages came, and has it now: without blocks at first.
fn base_pages(os: &mut Os, first: u64, pages: u64) {
    let advise = |os: &mut Os, advice| os.apply(Asid(0), &Op::Advise { start: first << 12, len: pages << 12, advice });
    map(os, first, pages);
    advise(os, Advice::NoHugePage);
    (first..first + pages).for_each(|page| _ = load(os, page));
    advise(os, Advice::HugePage);
    os.check();
}

/// TRI-2: 1 GB first, at an aligned place inside the region, of superpages and pages; the smaller ones are copied
/// whole.
#[test]
fn tri_2_khugepaged_tries_the_large_page_first() {
    let mut os = hand("memory=512K");
    base_pages(&mut os, 12, 24);
    // 12..16 is a group of 4, 16..32 a large one, 32..36 a group of 4.
    advance(&mut os, 0);
    assert_eq!(orders(&os, [12, 16, 31, 32, 35]), [2, 4, 4, 2, 2].map(Some));
    let names = ["khugepaged_wakes", "khugepaged_scanned_ptes", "khugepaged_large", "khugepaged_copied_pages"];
    assert_eq!((counts(&os, names), os.counts().collapses), ([1, 24, 1, 24], 3));
    assert_eq!((os.frames().resident, os.counts().demotions), (24, 0));
}

#[test]
fn tri_2_smaller_ones_are_copied_whole_and_missing_pages_are_zeros() {
    let mut os = hand("memory=512K,defrag=never");
    // The region grows: no large page at first.
    map(&mut os, 16, 8);
    [16, 21].into_iter().for_each(|page| _ = store(&mut os, page));
    map(&mut os, 24, 8);
    load(&mut os, 30);
    assert_eq!(orders(&os, [16, 20, 30]), [2, 2, 2].map(Some));
    let zeroed = os.counts().zeroed_pages;
    advance(&mut os, 100);
    assert_eq!(orders(&os, [16, 24, 31]), [4; 3].map(Some));
    let work = ["khugepaged_large", "khugepaged_copied_pages", "khugepaged_zeroed_pages"];
    assert_eq!((counts(&os, work), os.counts().zeroed_pages - zeroed), ([1, 12, 4], 4));
    assert_eq!((os.counts().demotions, os.counts().dirty_pages), (0, 16));
}

/// TRI-2: what does not qualify as a large page is looked at in smaller groups.
#[test]
fn tri_2_otherwise_the_smaller_rule_holds_there() {
    let mut os = hand("memory=512K,tri_max_none=4");
    map(&mut os, 16, 16);
    os.apply(Asid(0), &Op::Advise { start: 16 << 12, len: 16 << 12, advice: Advice::NoHugePage });
    [16, 20, 21, 22, 23, 31].into_iter().for_each(|page| _ = load(&mut os, page));
    os.apply(Asid(0), &Op::Advise { start: 16 << 12, len: 16 << 12, advice: Advice::HugePage });
    advance(&mut os, 0);
    assert_eq!(
        orders(&os, [16, 20, 24, 28]),
        [Some(2), Some(2), None, Some(2)],
        "ten pages of the large one are missing"
    );
    assert_eq!(counts(&os, ["khugepaged_scanned_ptes", "khugepaged_large"]), [32, 0], "a look at each size costs");
    // Shared pages are no part of a large page.
    let mut os = hand("memory=512K");
    base_pages(&mut os, 16, 16);
    os.apply(Asid(0), &Op::Fork { child: Asid(1) });
    advance(&mut os, 0);
    assert_eq!(counts(&os, ["khugepaged_large"]), [0]);
    os.apply(Asid(1), &Op::End(farreach_types::event::End::Exit(0)));
    advance(&mut os, 1000);
    assert_eq!(counts(&os, ["khugepaged_large"]), [1]);
}

/// TRI-3: without a free block memory is compacted, the block with the most free frames first.
#[test]
fn tri_3_compaction_empties_the_block_with_the_most_free_frames() {
    let mut os = hand("memory=256K");
    base_pages(&mut os, 16, 16);
    // Four blocks of 16 frames: the pages lie in the first. The others get 12, 3 and 9 pages more.
    let pages = [12, 3, 9];
    for (block, pages) in (1..).zip(pages) {
        others(&mut os, block, pages..16, true);
    }
    for page in 0..pages.iter().sum() {
        map(&mut os, 128 + 2 * page, 1);
        load(&mut os, 128 + 2 * page);
    }
    for (block, pages) in (1..).zip(pages) {
        others(&mut os, block, pages..16, false);
    }
    os.check();
    advance(&mut os, 0);
    let used = os.compaction_use().unwrap();
    assert_eq!((used.runs, used.moved_pages), (1, 3), "of the second, to the first, which has the fewest free frames");
    let first_free = |block: u64| (0..16).filter(|i| os.memory.alloc.free_of(0) >> (16 * block + i) & 1 == 1).count();
    assert_eq!([1, 2, 3].map(first_free), [1, 0, 7], "and the large page lies in the block");
    assert_eq!((orders(&os, [16]), os.pte(Asid(0), Vpn(16)).unwrap().pfn.0), ([Some(4)], 32));
}

/// Others take these frames of a block, or return them.
fn others(os: &mut Os, block: u64, frames: impl Iterator<Item = u64>, take: bool) {
    for frame in frames.map(|i| Pfn(16 * block + i)) {
        if take {
            assert!(os.memory.alloc.take(frame, 1));
            os.memory.keep(1);
        } else {
            os.memory.unkeep(1);
            os.memory.alloc.free(frame);
        }
    }
}

/// TRI-3: a page that cannot move ends the attempt, and its block rests. Then comes the next one, at last the smaller
/// size.
#[test]
fn tri_3_a_page_that_cannot_move_ends_the_attempt() {
    let mut os = hand("memory=192K,compaction_pause_ms=100");
    base_pages(&mut os, 16, 16);
    // The pages lie in the last block. Of the others frame 9 is kept, and frame 3 is a page of the program.
    others(&mut os, 0, (0..16).filter(|i| *i != 3), true);
    others(&mut os, 1, (0..16).filter(|i| *i != 3), true);
    for page in [128, 130] {
        map(&mut os, page, 1);
        load(&mut os, page);
    }
    others(&mut os, 0, (0..16).filter(|i| ![3, 9].contains(i)), false);
    others(&mut os, 1, (0..16).filter(|i| ![3, 9].contains(i)), false);
    advance(&mut os, 0);
    let used = os.compaction_use().unwrap();
    assert_eq!((used.moved_pages, os.counts().compactions_failed), (14, 1), "what lies before frame 9 has moved");
    assert_eq!(orders(&os, [16, 28]), [Some(2), Some(2)], "the smaller rule");
    assert_eq!(counts(&os, ["khugepaged_large"]), [0]);
}

#[test]
fn tri_sizes_must_fit() {
    let error = |keys: &str| build("trident", keys).err().expect(keys);
    assert!(error("max_order=11").contains("max_order = 11"), "{}", error("max_order=11"));
    assert!(error("tri_size=1M,max_order=20").contains("tri_size = 1048576"));
    assert!(build("trident", "").is_ok() && build("trident", "compaction=none,allocator=buddy").is_ok());
}

/// TRI-1 at full size.
#[test]
fn tri_1_a_gigabyte_is_one_page() {
    let mut os = os("trident", "memory=2G,pages_to_scan=0");
    map(&mut os, 1 << 18, (1 << 18) + 700);
    let pte = os.touch(Asid(0), Vpn((1 << 18) + 12345), Kind::Store).unwrap().pte;
    assert_eq!((pte.order, pte.pfn.0 % (1 << 18)), (18, 12345));
    store(&mut os, 2 << 18);
    assert_eq!((orders(&os, [2 << 18]), os.counts().page_faults), ([Some(9)], 2));
}
