//! Compaction (F-14): the pages that move, their new frames, and the free memory after it.

use super::world::{A, frame, map, os, pattern, run, touch};
use farreach_os::{Os, What};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::counts::{CompactionUse, FreeMemory};
use farreach_types::event::{Backing, Kind, Mapping, Op, Prot};
use farreach_types::translation::{PageTableView, RangeTableView, SegmentView};
use std::collections::BTreeSet;

/// Free blocks by order, counted frame by frame.
fn blocks(free: &[bool], orders: u32) -> FreeMemory {
    let whole = |base: usize, order: u32| free.get(base..base + (1 << order)).is_some_and(|g| g.iter().all(|&f| f));
    let top = |base: usize, order: u32| order + 1 == orders || !whole(base >> (order + 1) << (order + 1), order + 1);
    let of =
        |order: u32| (0..free.len()).step_by(1 << order).filter(|&base| whole(base, order) && top(base, order)).count();
    FreeMemory {
        frames: free.iter().filter(|&&f| f).count() as u64,
        blocks: (0..orders).map(|order| of(order) as u64).collect(),
    }
}

/// The free frames, if only these pages have memory.
fn free(os: &Os, frames: u64, pages: impl Iterator<Item = u64>) -> Vec<bool> {
    let taken: BTreeSet<u64> = pages.filter_map(|vpn| frame(os, vpn)).collect();
    (0..frames).map(|frame| !taken.contains(&frame)).collect()
}

/// Pages far from each other, touched in turn, of which only some stay.
fn scatter(os: &mut Os, pages: u64, stays: impl Fn(u64) -> bool) -> Vec<u64> {
    let page = |i: u64| 0x10000 + 2 * i;
    for i in 0..pages {
        map(os, page(i), 1, Backing::Anonymous);
        touch(os, page(i), Kind::Store);
    }
    for i in (0..pages).filter(|&i| !stays(i)) {
        os.apply(A, &Op::Unmap { start: page(i) << 12, len: 1 << 12 });
    }
    (0..pages).filter(|&i| stays(i)).map(page).collect()
}

const FRAMES: u64 = 2048;

#[test]
fn f_14_a_sweep_leaves_one_piece() {
    // A check when the system starts, and one after 1500 faults, 2500 events and one more.
    let mut os = os("placement=demand,memory=8M,allocator=buddy,compaction=full,compaction_every=4001");
    let pages = scatter(&mut os, 1500, |i| i % 3 == 1);
    let before = blocks(&free(&os, FRAMES, pages.iter().copied()), 11);
    let moved: Vec<_> = pages.iter().map(|&vpn| frame(&os, vpn)).collect();
    map(&mut os, 0x200, 1, Backing::Anonymous);
    let used = os.compaction_use().unwrap();
    // 500 pages lie at the top of memory; frames 0 to 1547 are free.
    let frames: BTreeSet<u64> = pages.iter().filter_map(|&vpn| frame(&os, vpn)).collect();
    assert!(frames.into_iter().eq(FRAMES - 500..FRAMES));
    let after = blocks(&free(&os, FRAMES, pages.iter().copied()), 11);
    assert_eq!((used.runs, &used.before, &used.after, &used.at_end), (1, &before, &after, &after));
    // A page of each three, and 1500 frames of 2048 were ever used: none of those lies by another free block of 2 MB.
    assert_eq!((before.blocks_of(9), after.blocks_of(9), before.frames, after.frames), (1, 3, 1548, 1548));
    // Each page whose frame is another was copied, once.
    let copied = pages.iter().zip(moved).filter(|(vpn, was)| frame(&os, **vpn) != *was).count() as u64;
    assert_eq!((used.moved_pages, os.counts().gathered_pages), (copied, copied));
    assert!((os.fragmentation(512).unwrap() - (1.0 - 3.0 * 512.0 / 1548.0)).abs() < 1e-12);
    os.check();
}

#[test]
fn f_14_a_part_frees_the_cheapest_blocks_within_its_budget() {
    let used = |pages: u64| {
        let keys = format!(
            "placement=demand,memory=8M,allocator=buddy,compaction=partial,compaction_every=5415,\
             compaction_pages={pages}"
        );
        let mut os = os(&keys);
        // The four blocks of 2 MB keep 30, 200, 100 and 400 pages.
        let stays = |i: u64| i % 512 < [30, 200, 100, 400][i as usize / 512];
        let pages = scatter(&mut os, FRAMES, stays);
        // The start, 2048 faults, 2048 + 1318 events: the next is the second check.
        assert_eq!(os.compaction_use().unwrap().runs, 0);
        map(&mut os, 0x200, 1, Backing::Anonymous);
        let after = blocks(&free(&os, FRAMES, pages.iter().copied()), 11);
        let used = os.compaction_use().unwrap();
        assert_eq!((used.runs, &used.after), (1, &after));
        os.check();
        (used.moved_pages, used.before.blocks_of(9), after.blocks_of(9))
    };
    // The 30 pages of the first go into the last, then 82 of the 100 of the third and the rest of them into the second;
    // the second remains.
    assert_eq!([29, 30, 129, 130, 100_000].map(used), [(0, 0, 0), (30, 0, 1), (30, 0, 1), (130, 0, 2), (130, 0, 2)]);
}

#[test]
fn f_14_ranges_and_superpages_move_as_a_whole() {
    let pinned = pattern("compaction.txt", "1024\n");
    for (compaction, superpages) in [("full", false), ("partial", false), ("full", true), ("partial", true)] {
        let size = if superpages {
            "placement=thp,thp_size=64K,khugepaged=0"
        } else {
            "placement=eager,max_order=11,eager_fragmentation=1"
        };
        let keys = format!(
            "{size},ranges=true,memory=8M,pattern={pinned},compaction={compaction},compaction_every=1,\
             compaction_threshold=0.7,address_ordered=true"
        );
        let mut os = os(&keys);
        // Mappings of 16 pages from the lowest frame on, then three of four go.
        for i in 0..96 {
            map(&mut os, 0x1000 + 32 * i, 16, Backing::Anonymous);
            (0..16).for_each(|at| touch(&mut os, 0x1000 + 32 * i + at, Kind::Store));
        }
        let mut changes = Vec::new();
        os.take_changes(&mut changes);
        let begun = os.compaction_use().unwrap().moved_pages;
        for i in (0..96).filter(|i| i % 4 > 0) {
            os.apply(A, &Op::Unmap { start: (0x1000 + 32 * i) << 12, len: 16 << 12 });
        }
        os.take_changes(&mut changes);
        let used = os.compaction_use().unwrap();
        assert!(used.runs > 0 && used.moved_pages >= 16 && used.moved_pages.is_multiple_of(16), "{keys}: {used:?}");
        for i in (0..96).step_by(4) {
            let first = Vpn(0x1000 + 32 * i);
            let frames: Vec<u64> = (0..16).filter_map(|at| frame(&os, first.0 + at)).collect();
            assert!(frames.windows(2).all(|w| w[0] + 1 == w[1]) && frames.len() == 16, "{keys}");
            assert_eq!(os.pte(A, first).map(|pte| pte.order), Some(if superpages { 4 } else { 0 }));
            assert_eq!(os.range(A, first).map(|r| (r.first, r.pages)), Some((first, 16)), "{keys}");
            assert!(!superpages || frames[0].is_multiple_of(16));
        }
        // Every page that moved is reported to the hardware.
        let stale: u64 = changes.iter().filter(|c| c.what == What::Stale).map(|c| c.pages.pages).sum();
        assert_eq!(stale, 72 * 16 + used.moved_pages - begun, "{keys}");
        os.check();
    }
}

#[test]
fn f_14_what_others_have_moves_if_it_may() {
    let scattered = |movable: f64, compaction: &str| {
        let keys = format!(
            "placement=thp,memory=64M,fragmentation=0.2,movable={movable},compaction={compaction},\
             compaction_pages=1000000"
        );
        os(&keys).compaction_use().unwrap()
    };
    for compaction in ["partial", "full"] {
        // 32 blocks with a fifth of the frames pinned: the pages fill 25 of them and a part.
        let used = scattered(1.0, compaction);
        assert_eq!((used.runs, used.at_start.blocks_of(9), used.at_end.blocks_of(9)), (1, 0, 25), "{compaction}");
        assert_eq!((used.moved_pages, used.at_start.frames), (used.moved_of_others, used.at_end.frames));
        let used = scattered(0.0, compaction);
        assert_eq!((used.moved_pages, used.at_end.blocks_of(9)), (0, 0), "{compaction}");
    }
    // The least that frees whole blocks, against everything that can move.
    let (part, full) = (scattered(0.7, "partial"), scattered(0.7, "full"));
    let each = |used: &CompactionUse| used.moved_pages as f64 / used.at_end.blocks_of(9) as f64;
    assert!(part.at_end.blocks_of(9) >= full.at_end.blocks_of(9) && full.at_end.blocks_of(9) > 5, "{part:?} {full:?}");
    assert!(each(&part) < each(&full), "{part:?} {full:?}");
    let direct = {
        let mut os = os("placement=thp,memory=64M,fragmentation=0.2,movable=1,compaction=direct");
        map(&mut os, 0x200, 0x400, Backing::Anonymous);
        [0x200, 0x400].iter().for_each(|&v| touch(&mut os, v, Kind::Store));
        os.check();
        (os.pte(A, Vpn(0x400)).map(|pte| pte.order), os.compaction_use().unwrap())
    };
    assert_eq!((direct.0, direct.1.runs), (Some(9), 2));
}

/// DS13-13: memory for segments is set aside when the system starts, after what is in the way was moved.
#[test]
fn ds13_13_a_segment_in_memory_that_was_compacted() {
    let pages = |compaction: &str| {
        let mut os = os(&format!(
            "placement=segment,segment_memory=16M,memory=64M,allocator=buddy,fragmentation=0.2,movable=1,{compaction}"
        ));
        map(&mut os, 0x1000, 0x1000, Backing::Anonymous);
        let segment = os.segment(A).map_or(0, |s| s.limit.0 - s.base.0);
        os.check();
        segment
    };
    assert!(pages("compaction=none") < 100);
    assert_eq!(pages("compaction=full"), 0x1000);
}

#[test]
fn what_is_shared_or_set_aside_stays() {
    let mut os =
        os("placement=hugetlb,huge_page=64K,pool=1M,memory=8M,allocator=buddy,compaction=full,compaction_every=1,\
            compaction_threshold=0");
    map(&mut os, 0x100, 16, Backing::Anonymous);
    touch(&mut os, 0x100, Kind::Store);
    let file = Mapping {
        start: 0x300 << 12,
        len: 8 << 12,
        prot: Prot::RW,
        shared: true,
        backing: Backing::File { path: "/tmp/x".into(), offset: 0 },
    };
    os.apply(A, &Op::Map(file));
    map(&mut os, 0x400, 8, Backing::Heap);
    os.apply(A, &Op::Fork { child: Asid(1) });
    let mut seen = Vec::new();
    for v in (0x300..0x308).chain(0x400..0x408) {
        touch(&mut os, v, Kind::Load);
        os.touch(Asid(1), Vpn(v), Kind::Load).unwrap();
        seen.push((v, frame(&os, v), os.pte(Asid(1), Vpn(v)).map(|pte| pte.pfn.0)));
    }
    let huge = frame(&os, 0x100);
    let runs = os.compaction_use().unwrap().runs;
    for i in 0..20 {
        map(&mut os, 0x800 + 2 * i, 1, Backing::Anonymous);
        touch(&mut os, 0x800 + 2 * i, Kind::Store);
    }
    assert!(os.compaction_use().unwrap().runs > runs && os.counts().gathered_pages > 0);
    assert_eq!(frame(&os, 0x100), huge);
    for (v, mine, other) in seen.into_iter().filter(|(_, mine, other)| mine == other) {
        assert_eq!((frame(&os, v), os.pte(Asid(1), Vpn(v)).map(|pte| pte.pfn.0)), (mine, other), "{v:#x} is shared");
    }
}

#[test]
fn ca_38_compaction_under_random_events() {
    let often = "compaction_every=3,compaction_threshold=0,compaction_block=64K";
    for keys in [
        "placement=thp,memory=4M,thp_size=64K,mthp_sizes=16K,khugepaged=8,max_ptes_none=12,ranges=true,range_cow=split,\
         compaction=full",
        "placement=thp,memory=4M,fragmentation=0.2,movable=1,thp_size=64K,khugepaged=8,ranges=true,range_cow=split,\
         compaction=partial",
        "placement=eager,memory=4M,fragmentation=0.1,movable=1,range_cow=copy,compaction=full,reclaim_unused=split",
        "placement=eager,memory=3M,range_cow=split,compaction=partial,compaction_pages=40,chunk=64K",
        "placement=segment,segment_memory=1M,memory=4M,admit_min=64K,provision=lazy,ranges=true,range_cow=split,\
         allocator=buddy,compaction=full",
        "placement=reservation,memory=4M,allocator=buddy,promote=64K,ranges=true,range_cow=split,compaction=full",
        "placement=hugetlb,huge_page=64K,pool=1M,memory=8M,allocator=buddy,ranges=true,range_cow=split,\
         compaction=partial",
    ] {
        let worlds = run(&format!("{keys},{often}"), 8, 3, 250);
        let used: Vec<_> = worlds.iter().filter_map(|w| w.os.compaction_use()).collect();
        // Where a reservation chose the frames they stay.
        assert_eq!(used.iter().any(|u| u.moved_pages > 0), !keys.contains("reservation"), "{keys}: what moved?");
        assert!(used.iter().all(|u| u.runs > 0), "{keys}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    for (keys, words) in [
        ("compaction=full", "allocator must be buddy"),
        ("compaction=partial,allocator=colouring", "allocator must be buddy"),
        ("compaction=direct,allocator=colouring", "fifo or buddy"),
        ("compaction=full,allocator=buddy,compaction_block=1G", "4M at most (max_order = 11)"),
        ("movable=0.5", "with allocator = fifo it must be 0"),
    ] {
        let spec = farreach_machine::MachineSpec::from_toml("test", "kind = \"single\"", keys, 1).unwrap();
        let refusal = Os::new(&spec.params).err().unwrap_or_else(|| panic!("{keys} is accepted"));
        assert!(refusal.contains(words), "{refusal}");
    }
}
