//! Transparent huge pages, huge pages from a pool, compaction, memory pressure (RMM15-26, RMM15-29, F-7, F-14).

use super::world::{A, B, C, frame, map, os, pattern, run, touch};
use farreach_os::Os;
use farreach_types::addr::Vpn;
use farreach_types::event::{Advice, Backing, End, Kind, Mapping, Op, Prot};
use farreach_types::translation::{PageTableView, RangeTableView};

fn order(os: &Os, vpn: u64) -> Option<u8> {
    os.pte(A, Vpn(vpn)).map(|pte| pte.order)
}

/// RMM15-26; F-19: two superpages with a page in use each keep 1022 pages of zeros.
#[test]
fn rmm15_26_a_fault_brings_in_an_aligned_2m_that_its_region_covers() {
    let mut os = os("placement=thp,memory=64M");
    // From 2 MB - 4 KB to 6 MB: two aligned groups inside, one page before them.
    map(&mut os, 0x1ff, 0x401, Backing::Anonymous);
    for v in [0x1ff, 0x234, 0x400] {
        touch(&mut os, v, Kind::Load);
    }
    assert_eq!([0x1ff, 0x200, 0x3ff, 0x400, 0x5ff].map(|v| order(&os, v)), [0, 9, 9, 9, 9].map(Some));
    let c = os.counts();
    assert_eq!((c.page_faults, c.superpage_faults, c.zeroed_pages, c.populated_pages), (3, 2, 1025, 1022));
    assert_eq!(c.populated_never_used, 1022);
    // Frames are congruent; a partial unmap splits.
    assert_eq!(frame(&os, 0x200).unwrap() % 512, 0);
    os.apply(A, &Op::Unmap { start: 0x210 << 12, len: 1 << 12 });
    assert_eq!([0x20f, 0x210, 0x211].map(|v| order(&os, v)), [Some(0), None, Some(0)]);
    // The hole is filled by a page: the rest of the group is mapped.
    map(&mut os, 0x210, 1, Backing::Anonymous);
    touch(&mut os, 0x210, Kind::Store);
    assert_eq!((order(&os, 0x210), order(&os, 0x400), os.counts().demotions), (Some(0), Some(9), 1));
}

/// The number of superpages made and split does not give the number that exist.
#[test]
fn rmm15_44_superpages_are_counted_when_there_are_most_pages() {
    let mut os = os("placement=thp,memory=64M,khugepaged=0,ranges=true");
    let found = |os: &Os| os.contiguity().map(|c| (c.mapped_pages, c.superpages, c.superpage_pages)).unwrap();
    // Three superpages and two pages; three times over.
    for _ in 0..3 {
        map(&mut os, 0x200, 0x602, Backing::Anonymous);
        [0x200, 0x400, 0x600, 0x800, 0x801].iter().for_each(|&v| touch(&mut os, v, Kind::Store));
        assert_eq!(found(&os), (3 * 512 + 2, 3, 3 * 512));
        os.apply(A, &Op::Unmap { start: 0x200 << 12, len: 0x602 << 12 });
    }
    assert_eq!((os.counts().superpage_faults, os.counts().demotions), (9, 0));
    // A hole splits one of four: with the hole there were fewer pages than before it.
    map(&mut os, 0x200, 0x800, Backing::Anonymous);
    [0x200, 0x400, 0x600, 0x800].iter().for_each(|&v| touch(&mut os, v, Kind::Store));
    os.apply(A, &Op::Unmap { start: 0x400 << 12, len: 1 << 12 });
    assert_eq!((found(&os), os.counts().demotions), ((4 * 512, 4, 4 * 512), 1));
    // The page table is counted, also where sizes are mixed.
    let mut mixed = super::world::os("placement=thp,memory=64M,khugepaged=0,mthp_sizes=64K,ranges=true");
    map(&mut mixed, 0x200, 0x230, Backing::Anonymous);
    [0x200, 0x400, 0x420, 0x421].iter().for_each(|&v| touch(&mut mixed, v, Kind::Store));
    let by_order = |order: u8| (0..0x1000).filter(|&v| self::order(&mixed, v) == Some(order)).count() as u64;
    assert_eq!(found(&mixed), (by_order(0) + by_order(4) + by_order(9), by_order(4) / 16 + 1, by_order(4) + 512));
    assert!(by_order(4) > 0);
}

#[test]
fn thp_follows_advice() {
    for (mode, wanted) in [("always", [9, 9, 0]), ("madvise", [0, 9, 0]), ("never", [0, 0, 0])] {
        let mut os = os(&format!("placement=thp,memory=64M,khugepaged=0,thp={mode}"));
        map(&mut os, 0x200, 0x600, Backing::Anonymous);
        for (start, advice) in [(0x400u64, Advice::HugePage), (0x600, Advice::NoHugePage)] {
            os.apply(A, &Op::Advise { start: start << 12, len: 0x200 << 12, advice });
        }
        [0x200, 0x400, 0x600].iter().for_each(|&v| touch(&mut os, v, Kind::Store));
        assert_eq!([0x200, 0x400, 0x600].map(|v| order(&os, v)), wanted.map(Some), "{mode}");
    }
}

#[test]
fn sizes_between_are_tried_largest_first() {
    let mut os = os("placement=thp,memory=64M,khugepaged=0,mthp_sizes=16K+64K+1M");
    map(&mut os, 0x204, 0x130, Backing::Anonymous);
    // Aligned and inside: 16 KB at 0x204, 64 KB at 0x210, 1 MB at 0x300 sticks out, 64 KB at 0x320, 16 KB at 0x330.
    [0x204, 0x211, 0x323, 0x333].iter().for_each(|&v| touch(&mut os, v, Kind::Load));
    assert_eq!([0x204, 0x211, 0x323, 0x333].map(|v| order(&os, v)), [2, 4, 4, 2].map(Some));
}

#[test]
fn without_a_block_the_fault_brings_in_a_page() {
    let file = pattern("odd.txt", "every 512 offset 100\n");
    let mut os = os(&format!("placement=thp,memory=16M,khugepaged=0,pattern={file}"));
    map(&mut os, 0x200, 0x200, Backing::Heap);
    touch(&mut os, 0x200, Kind::Store);
    let c = os.counts();
    assert_eq!((order(&os, 0x200), c.superpage_fallbacks, c.superpage_faults, c.zeroed_pages), (Some(0), 1, 0, 1));
}

#[test]
fn pages_are_collapsed_in_the_background() {
    // Nothing is superpage-sized at first: the heap grows page by page.
    let mut os = os("placement=thp,memory=64M,khugepaged=64,max_ptes_none=448");
    (0..512).for_each(|i| map(&mut os, 0x200 + i, 1, Backing::Heap));
    for v in 0x200..0x23f {
        touch(&mut os, v, Kind::Store);
    }
    assert_eq!(
        (order(&os, 0x200), os.counts().superpage_faults),
        (Some(9), 1),
        "its region was whole before the first touch"
    );
    let mut late = super::world::os("placement=thp,memory=64M,khugepaged=64,max_ptes_none=448");
    map(&mut late, 0x200, 0x100, Backing::Heap);
    (0x200..0x220).for_each(|v| touch(&mut late, v, Kind::Store));
    map(&mut late, 0x300, 0x100, Backing::Heap);
    (0x220..0x23f).for_each(|v| touch(&mut late, v, Kind::Load));
    assert_eq!((order(&late, 0x200), late.counts().collapses), (Some(0), 0));
    // The 64th fault: 64 pages are there, 448 are missing.
    touch(&mut late, 0x23f, Kind::Load);
    let c = late.counts();
    assert_eq!((order(&late, 0x200), order(&late, 0x3ff), c.collapses, c.gathered_pages), (Some(9), Some(9), 1, 64));
    assert_eq!((c.zeroed_pages, c.populated_pages, c.populated_never_used), (512, 448, 448));
    late.check();
}

/// Linux makes one region of neighbours that are alike. Allocators ask for their memory in pieces smaller than a huge
/// page.
#[test]
fn memory_mapped_in_pieces_gets_huge_pages() {
    let pieces = |keys: &str, starts: &[u64]| {
        let mut os = os(&format!("placement=thp,memory=64M,khugepaged=0{keys}"));
        starts.iter().for_each(|&start| map(&mut os, start, 0x101, Backing::Anonymous));
        os
    };
    // Upwards and, as Linux allocates addresses, downwards: 0x200 to 0x402.
    for starts in [[0x200, 0x301], [0x301, 0x200]] {
        let mut os = pieces("", &starts);
        touch(&mut os, 0x310, Kind::Store);
        assert_eq!([0x200, 0x3ff, 0x400].map(|v| order(&os, v)), [Some(9), Some(9), None], "{starts:x?}");
        // Unmapping a piece splits it, and its pages begin anew when it is mapped again.
        os.apply(A, &Op::Unmap { start: 0x301 << 12, len: 0x101 << 12 });
        assert_eq!([0x200, 0x310].map(|v| order(&os, v)), [Some(0), None]);
        map(&mut os, 0x301, 0x101, Backing::Anonymous);
        touch(&mut os, 0x310, Kind::Load);
        assert_eq!((order(&os, 0x310), os.counts().page_faults), (Some(0), 2));
        os.check();
    }
    // Advice and protection keep them apart until they are alike.
    let mut os = pieces(",thp=madvise", &[0x200, 0x301]);
    let advise = |os: &mut Os, start: u64| {
        os.apply(A, &Op::Advise { start: start << 12, len: 0x101 << 12, advice: Advice::HugePage });
    };
    advise(&mut os, 0x301);
    touch(&mut os, 0x401, Kind::Store);
    assert_eq!(order(&os, 0x401), Some(0));
    advise(&mut os, 0x200);
    touch(&mut os, 0x310, Kind::Store);
    assert_eq!((order(&os, 0x200), os.counts().superpage_faults), (Some(9), 1));
    let mut os = pieces("", &[0x200]);
    let mapping =
        Mapping { start: 0x301 << 12, len: 0x101 << 12, prot: Prot::RWX, shared: false, backing: Backing::Anonymous };
    os.apply(A, &Op::Map(mapping.clone()));
    touch(&mut os, 0x310, Kind::Store);
    assert_eq!([0x200, 0x310].map(|v| order(&os, v)), [None, Some(0)], "other rights");
    os.apply(A, &Op::Map(Mapping { prot: Prot::RW, shared: true, ..mapping }));
    touch(&mut os, 0x310, Kind::Store);
    assert_eq!([0x200, 0x310].map(|v| order(&os, v)), [None, Some(0)], "shared");
    os.check();
}

/// Linux splits a superpage that is copied in part, but keeps one whole that only the writer still maps: after fork and
/// exec a program keeps its huge pages (`do_huge_pmd_wp_page`, `hugetlb_wp`).
#[test]
fn a_superpage_that_is_shared_no_more_stays_one() {
    for keys in
        ["placement=thp,memory=64M,khugepaged=0,ranges=true", "placement=hugetlb,huge_page=2M,pool=8M,memory=64M"]
    {
        let mut os = os(keys);
        map(&mut os, 0x200, 0x200, Backing::Anonymous);
        touch(&mut os, 0x200, Kind::Store);
        let base = frame(&os, 0x200);
        os.apply(A, &Op::Fork { child: B });
        os.touch(B, Vpn(0x201), Kind::Load).unwrap();
        os.apply(B, &Op::End(End::Exec));
        [0x234, 0x235, 0x3ff].iter().for_each(|&v| touch(&mut os, v, Kind::Store));
        let c = os.counts();
        assert_eq!((c.protection_faults, c.cow_copies, c.demotions), (1, 0, 0), "{keys}");
        assert_eq!((order(&os, 0x200), frame(&os, 0x200)), (Some(9), base), "{keys}");
        os.check();
        // As long as a child shares it, that of the writer is split. That of the child is not, and belongs to the child
        // alone in the end.
        os.apply(A, &Op::Fork { child: C });
        touch(&mut os, 0x210, Kind::Store);
        let of_child = |os: &Os, vpn: u64| os.pte(C, Vpn(vpn)).map(|pte| pte.order);
        assert_eq!((order(&os, 0x210), order(&os, 0x3ff), of_child(&os, 0x210)), (Some(0), Some(0), Some(9)), "{keys}");
        os.apply(A, &Op::End(End::Exit(0)));
        os.touch(C, Vpn(0x220), Kind::Store).unwrap();
        let c = os.counts();
        assert_eq!(
            (c.protection_faults, c.cow_copies, c.demotions, of_child(&os, 0x220)),
            (3, 1, 1, Some(9)),
            "{keys}"
        );
        os.check();
    }
}

#[test]
fn hugetlb_takes_from_its_pool() {
    let mut os = os("placement=hugetlb,huge_page=2M,pool=4M,memory=16M");
    map(&mut os, 0x200, 0x600, Backing::Anonymous);
    [0x200, 0x400, 0x600].iter().for_each(|&v| touch(&mut os, v, Kind::Store));
    assert_eq!([0x200, 0x400, 0x600].map(|v| order(&os, v)), [9, 9, 0].map(Some), "the pool has two");
    os.apply(A, &Op::Unmap { start: 0x200 << 12, len: 0x200 << 12 });
    touch(&mut os, 0x700, Kind::Store);
    assert_eq!(order(&os, 0x700), Some(0), "its group has begun");
    map(&mut os, 0x200, 0x200, Backing::Anonymous);
    touch(&mut os, 0x234, Kind::Store);
    assert_eq!(order(&os, 0x200), Some(9), "what was freed went back to the pool");
    os.check();
    for (keys, words) in [
        ("placement=hugetlb,huge_page=2M,pool=3M", "multiple"),
        ("placement=hugetlb,huge_page=2M,pool=32M,memory=16M", "only 8 free"),
    ] {
        let spec = farreach_machine::MachineSpec::from_toml("test", "kind = \"single\"", keys, 1).unwrap();
        let refusal = Os::new(&spec.params).err().unwrap();
        assert!(refusal.contains(words) && refusal.contains("pool = "), "{refusal}");
    }
}

#[test]
fn f_14_compaction_makes_a_block() {
    let build = |compaction: &str| {
        let mut os = os(&format!("placement=thp,memory=8M,khugepaged=0,compaction={compaction},ranges=true"));
        // 2048 frames: regions of one page each, every second one freed. No free block of 2 pages is left in the
        // lower half.
        for i in 0..1024 {
            map(&mut os, 0x10000 + 2 * i, 1, Backing::Anonymous);
            touch(&mut os, 0x10000 + 2 * i, Kind::Store);
        }
        map(&mut os, 0x200, 0x200, Backing::Anonymous);
        touch(&mut os, 0x200, Kind::Store);
        map(&mut os, 0x400, 0x200, Backing::Anonymous);
        touch(&mut os, 0x400, Kind::Store);
        for i in (0..1024).step_by(2) {
            os.apply(A, &Op::Unmap { start: (0x10000 + 2 * i) << 12, len: 1 << 12 });
        }
        os
    };
    let mut none = build("none");
    let before = none.fragmentation(512).unwrap();
    map(&mut none, 0x600, 0x200, Backing::Anonymous);
    touch(&mut none, 0x600, Kind::Store);
    assert_eq!((before, order(&none, 0x600), none.counts().gathered_pages), (1.0, Some(0), 0));
    let mut direct = build("direct");
    map(&mut direct, 0x600, 0x200, Backing::Anonymous);
    touch(&mut direct, 0x600, Kind::Store);
    // Half of a group of 512 frames was busy: 256 pages were copied into the other group's holes.
    let c = direct.counts();
    assert_eq!((order(&direct, 0x600), c.compactions, c.gathered_pages), (Some(9), 1, 256));
    direct.check();
}

/// F-7, RMM15-29, F-21, AMB-97: both ways leave the pages in use as they are.
#[test]
fn f_7_rmm15_29_never_touched_pages_are_taken_back() {
    for (reclaim, ranges) in [("split", 1), ("dissolve", 0)] {
        let mut os = os(&format!("placement=eager,memory=1M,eager_fragmentation=1,reclaim_unused={reclaim}"));
        // All 256 frames; a quarter of the pages is used.
        map(&mut os, 0x100, 256, Backing::Anonymous);
        (0x180..0x1c0).for_each(|v| touch(&mut os, v, Kind::Store));
        let kept: Vec<_> = (0x180..0x1c0).map(|v| frame(&os, v)).collect();
        map(&mut os, 0x800, 7, Backing::Anonymous);
        (0x800..0x807).for_each(|v| touch(&mut os, v, Kind::Store));
        assert_eq!(os.counts().reclaimed_pages, 192);
        assert_eq!((0x180..0x1c0).map(|v| frame(&os, v)).collect::<Vec<_>>(), kept, "what was used stays");
        assert_eq!(frame(&os, 0x100), None);
        assert_eq!(u64::from(os.range(A, Vpn(0x190)).is_some()), ranges, "{reclaim}");
        // Later touches find zeros: they are faults.
        let faults = os.counts().page_faults;
        touch(&mut os, 0x100, Kind::Load);
        assert_eq!((os.counts().page_faults, os.memory_use().resident_bytes >> 12), (faults + 1, 256));
        os.check();
    }
}

#[test]
fn ca_38_superpages_under_random_events() {
    for keys in [
        "placement=thp,memory=16M,thp_size=64K,mthp_sizes=16K,khugepaged=16,max_ptes_none=12,ranges=true,\
         range_cow=split",
        "placement=thp,memory=2M,thp_size=32K,khugepaged=8,max_ptes_none=6,ranges=true,range_cow=split,\
         compaction=direct",
        "placement=thp,memory=4M,allocator=fifo,thp_size=64K,khugepaged=16,max_ptes_none=15,ranges=true,thp=madvise",
        "placement=hugetlb,huge_page=64K,pool=1M,memory=8M,ranges=true",
        "placement=hugetlb,huge_page=64K,pool=1M,memory=8M,ranges=true,hugetlb_round=true,range_cow=split",
        "placement=hugetlb,huge_page=32K,pool=512K,memory=8M,ranges=true,hugetlb_round=true,promote=64K,\
         allocator=buddy",
        "placement=thp,memory=3M,thp_size=64K,ranges=true,range_cow=copy,reclaim_unused=split",
    ] {
        run(keys, 8, 2, 250);
    }
}

#[test]
fn ca_38_full_memory_under_random_events() {
    for keys in [
        "placement=eager,memory=2M,reclaim_unused=split,range_cow=split",
        "placement=eager,memory=2M,reclaim_unused=split,range_cow=copy,compaction=direct",
    ] {
        run(keys, 8, 2, 250);
    }
}

#[test]
fn protection_of_a_part_splits_a_superpage() {
    let mut os = os("placement=thp,memory=16M");
    map(&mut os, 0x200, 0x200, Backing::Anonymous);
    touch(&mut os, 0x200, Kind::Store);
    let prot = Prot { read: true, write: false, exec: false };
    os.apply(A, &Op::Protect { start: 0x200 << 12, len: 1 << 12, prot });
    assert_eq!((order(&os, 0x200), order(&os, 0x3ff), os.counts().demotions), (Some(0), Some(0), 1));
}

/// A heap smaller than a huge page gets one, as with libhugetlbfs: it grows into it and shrinks back without a fault or
/// a split.
#[test]
fn ds13_36_memory_is_rounded_up_to_huge_pages() {
    let mut os = os("placement=hugetlb,huge_page=64K,pool=1M,memory=64M,hugetlb_round=true");
    map(&mut os, 0x108, 4, Backing::Heap);
    touch(&mut os, 0x109, Kind::Store);
    assert_eq!([0x100, 0x10b, 0x10f, 0x110].map(|v| order(&os, v)), [Some(4), Some(4), Some(4), None]);
    let c = os.counts();
    assert_eq!((c.page_faults, c.superpage_faults, c.huge_rest_pages, c.populated_never_used), (1, 1, 12, 15));
    assert_eq!(os.memory_use().wasted_bytes, 15 << 12);
    // Growth finds the first four pages there; what is beyond takes a fault.
    map(&mut os, 0x10c, 8, Backing::Heap);
    touch(&mut os, 0x10e, Kind::Store);
    assert_eq!((os.counts().page_faults, order(&os, 0x10e)), (1, Some(4)));
    touch(&mut os, 0x112, Kind::Store);
    assert_eq!((os.counts().page_faults, order(&os, 0x11f), os.counts().huge_rest_pages), (2, Some(4), 12 + 12));
    // Shrinking: the first huge page stays whole, of the second nothing is asked for any more.
    os.apply(A, &Op::Unmap { start: 0x10a << 12, len: 10 << 12 });
    assert_eq!((order(&os, 0x10e), order(&os, 0x112), os.counts().demotions), (Some(4), None, 0));
    assert_eq!(os.memory_use().resident_at_end_bytes, 64 << 10);
    map(&mut os, 0x10a, 2, Backing::Heap);
    touch(&mut os, 0x10a, Kind::Store);
    assert_eq!(os.counts().page_faults, 2);
    os.check();
    os.apply(A, &Op::Unmap { start: 0x108 << 12, len: 4 << 12 });
    assert_eq!((order(&os, 0x100), os.counts().demotions, os.memory_use().resident_at_end_bytes), (None, 0, 0));
    os.check();
}

#[test]
fn ds13_36_what_is_not_all_anonymous_is_not_rounded() {
    let mut os = os("placement=hugetlb,huge_page=64K,pool=1M,memory=64M,hugetlb_round=true");
    let file = |start: u64| {
        let backing = Backing::File { path: "/lib/x".into(), offset: 0 };
        Op::Map(Mapping { start: start << 12, len: 1 << 12, prot: Prot::RW, shared: false, backing })
    };
    os.apply(A, &file(0x10f));
    map(&mut os, 0x108, 4, Backing::Heap);
    touch(&mut os, 0x109, Kind::Store);
    assert_eq!(os.pte(A, Vpn(0x109)).map(|pte| pte.order), Some(0));
    // A file that is mapped into the rest of a huge page splits it.
    map(&mut os, 0x208, 4, Backing::Anonymous);
    touch(&mut os, 0x209, Kind::Store);
    assert_eq!(os.pte(A, Vpn(0x20f)).map(|pte| pte.order), Some(4));
    os.apply(A, &file(0x20f));
    assert_eq!((os.pte(A, Vpn(0x20f)), os.pte(A, Vpn(0x209)).map(|pte| pte.order)), (None, Some(0)));
    assert_eq!(os.counts().demotions, 1);
    os.check();
}
