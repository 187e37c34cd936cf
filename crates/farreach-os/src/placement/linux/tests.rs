//! What Linux makes of zeros, of MADV_COLLAPSE, and of entries that hardware joins, by hand. More of Linux is in
//! [`crate::background`].

use crate::frames::numbers;
use crate::testing::*;
use crate::{Os, What};
use farreach_types::addr::{Asid, Pfn, Vpn};
use farreach_types::event::{Advice, End, Kind, Op, ThpRule};
use farreach_types::translation::PageTableView;

/// khugepaged does not work, and a millisecond is an instruction.
fn linux(text: &str) -> Os {
    os("linux", &format!("ticks_per_ms=1,address_ordered=true,pages_to_scan=0,{text}"))
}

fn fork(os: &mut Os) {
    os.apply(Asid(0), &Op::Fork { child: Asid(1) });
    os.check();
}

/// The orders of the leaves around these pages; `None` of a page that is not mapped.
fn orders<const N: usize>(os: &Os, pages: [u64; N]) -> [Option<u8>; N] {
    pages.map(|vpn| os.pte(Asid(0), Vpn(vpn)).map(|pte| pte.order))
}

/// A superpage of 2 MB at page 512 with stores to its first pages, and all other memory in use but `free` pages.
fn mostly_zeros(stores: u64, free: u64, text: &str) -> Os {
    let mut os = linux(&format!("memory=4M,{text}"));
    map(&mut os, 512, 512);
    (512..512 + stores).for_each(|vpn| _ = store(&mut os, vpn));
    map(&mut os, 4096, 512);
    advise(&mut os, 4096, 512, Advice::NoHugePage);
    (4096..4608 - free).for_each(|vpn| _ = store(&mut os, vpn));
    os
}

const UNDERUSED: [&str; 2] = ["underused_splits", "underused_pages"];

/// LNX-G.
#[test]
fn lnx_g_lnx_22_a_superpage_of_mostly_zeros_is_split_when_memory_is_short() {
    let mut os = mostly_zeros(100, 0, "max_ptes_none=400");
    assert_eq!((orders(&os, [512]), counts(&os, UNDERUSED)), ([Some(9)], [0, 0]));
    map(&mut os, 8192, 500);
    store(&mut os, 8192);
    assert_eq!(counts(&os, UNDERUSED), [1, 412]);
    assert_eq!(orders(&os, [512, 611, 612, 1023]), [Some(0), Some(0), None, None]);
    // What was freed is enough for 412 pages, and no more is there.
    (8193..8604).for_each(|vpn| _ = store(&mut os, vpn));
    assert!(os.touch(Asid(0), Vpn(8604), Kind::Store).is_err());
}

#[test]
fn lnx_g_lnx_22_at_511_only_what_is_all_zeros_is_split() {
    for (stores, text) in [(1, ""), (100, ""), (112, "max_ptes_none=400"), (0, "shrink_underused=false")] {
        let mut os = mostly_zeros(stores, 0, text);
        load(&mut os, 512);
        map(&mut os, 8192, 1);
        assert!(os.touch(Asid(0), Vpn(8192), Kind::Store).is_err(), "{stores} {text}");
        assert_eq!(orders(&os, [512]), [Some(9)]);
    }
    let mut os = linux("memory=4M");
    map(&mut os, 0, 1024);
    load(&mut os, 0);
    load(&mut os, 512);
    map(&mut os, 8192, 1);
    store(&mut os, 8192);
    assert_eq!(counts(&os, UNDERUSED), [1, 512], "the first of two; no more is needed");
    assert_eq!(orders(&os, [0, 512]), [None, Some(9)]);
}

/// Processes that share a superpage lose its zeros together.
#[test]
fn lnx_22_shared_zeros_are_given_up_by_all() {
    let mut os = mostly_zeros(100, 1, "max_ptes_none=400");
    fork(&mut os);
    map(&mut os, 8192, 2);
    store(&mut os, 8192);
    assert_eq!(counts(&os, UNDERUSED), [0, 0]);
    store(&mut os, 8193);
    assert_eq!(counts(&os, UNDERUSED), [1, 824], "pages of two processes");
    for process in [0, 1] {
        assert!(os.pte(Asid(process), Vpn(611)).is_some() && os.pte(Asid(process), Vpn(612)).is_none());
    }
}

/// LNX-22 with LNX-4: what is given up maps the page of zeros.
#[test]
fn lnx_22_where_there_is_a_page_of_zeros_it_takes_the_place() {
    let mut os = mostly_zeros(100, 0, "max_ptes_none=400,zero_page=true");
    map(&mut os, 8192, 1);
    store(&mut os, 8192);
    assert_eq!(counts(&os, UNDERUSED), [1, 412]);
    let faults = os.counts().page_faults;
    assert!(numbers::is_zeros(Pfn(load(&mut os, 700))));
    assert_eq!(os.counts().page_faults, faults);
    let frame = store(&mut os, 700);
    assert!(!numbers::is_zeros(Pfn(frame)));
}

#[test]
fn lnx_4_a_load_maps_one_page_of_zeros_and_a_store_replaces_it() {
    let mut os = linux("thp=never,mthp_always=64K,zero_page=true");
    map(&mut os, 0, 64);
    let zeros = load(&mut os, 5);
    assert!(numbers::is_zeros(Pfn(zeros)) && load(&mut os, 6) == zeros);
    assert_eq!((os.memory_use().resident_bytes, os.memory_use().touched_bytes, os.counts().zeroed_pages), (0, 0, 0));
    // It blocks the size of its group; others are free.
    store(&mut os, 7);
    store(&mut os, 20);
    assert_eq!(orders(&os, [5, 7, 20]), [Some(0), Some(0), Some(4)]);
    let faults = os.counts().protection_faults;
    changes(&mut os, What::Stale);
    let frame = store(&mut os, 5);
    assert_eq!(changes(&mut os, What::Stale), [(5, 1)], "TLBs have an entry of zeros");
    assert!(!numbers::is_zeros(Pfn(frame)) && load(&mut os, 6) == zeros);
    assert_eq!((os.counts().protection_faults - faults, os.counts().cow_copies), (1, 0));
    assert_eq!(counts(&os, ["zero_page_faults", "huge_zero_page_faults"]), [2, 0]);
    // Files and shared memory have contents of their own.
    map_as(&mut os, 0, 1024, 1, true, farreach_types::event::Backing::Anonymous);
    map_as(&mut os, 0, 1025, 1, false, file("/f", 0));
    assert!(![1024, 1025].map(|vpn| load(&mut os, vpn)).into_iter().any(|frame| numbers::is_zeros(Pfn(frame))));
}

#[test]
fn lnx_2_a_superpage_of_zeros_takes_no_memory_and_a_store_replaces_all_of_it() {
    let mut os = linux("zero_page=true");
    map(&mut os, 0, 1024);
    load(&mut os, 700);
    assert_eq!((orders(&os, [512, 1023]), os.memory_use().resident_bytes), ([Some(9); 2], 0));
    let frame = store(&mut os, 600);
    assert_eq!((orders(&os, [512, 600]), frame % 512), ([Some(9); 2], 600 - 512));
    assert!(!numbers::is_zeros(Pfn(frame)));
    assert_eq!((os.counts().page_faults, os.counts().protection_faults, os.counts().zeroed_pages), (1, 1, 512));
    assert_eq!(counts(&os, ["zero_page_faults", "huge_zero_page_faults"]), [0, 1]);
}

/// Regions that were cut since: a superpage would reach into memory that must not have one.
#[test]
fn lnx_2_a_superpage_of_zeros_in_two_regions_is_split() {
    for (advised, stored) in [(32, 41), (41, 32)] {
        let mut os = linux("thp_size=64K,zero_page=true");
        map(&mut os, 32, 16);
        load(&mut os, 32);
        assert_eq!(orders(&os, [32, 47]), [Some(4); 2]);
        advise(&mut os, advised, 3, Advice::NoHugePage);
        let frame = store(&mut os, stored);
        assert!(!numbers::is_zeros(Pfn(frame)) && numbers::is_zeros(Pfn(load(&mut os, 47))));
        assert_eq!(orders(&os, [32, 41, 47]), [Some(0); 3]);
        assert_eq!((os.counts().superpage_fallbacks, os.memory_use().resident_bytes), (0, 1 << 12));
    }
}

#[test]
fn lnx_2_without_a_block_a_superpage_of_zeros_is_split() {
    let mut os = linux("memory=2M,zero_page=true,defrag=never");
    map(&mut os, 0, 512);
    map(&mut os, 4096, 1);
    store(&mut os, 4096);
    load(&mut os, 100);
    store(&mut os, 7);
    assert_eq!(orders(&os, [7, 8]), [Some(0); 2]);
    assert!(numbers::is_zeros(Pfn(load(&mut os, 8))));
    assert_eq!((os.counts().superpage_fallbacks, os.memory_use().resident_bytes), (1, 2 << 12));
    unmap(&mut os, 0, 512);
    assert_eq!(os.memory_use().resident_at_end_bytes, 1 << 12);
}

/// A child shares zeros, too, and no process owns them.
#[test]
fn lnx_4_zeros_outlive_forks_moves_and_ends() {
    let mut os = linux("zero_page=true");
    map(&mut os, 0, 1024);
    load(&mut os, 700);
    map(&mut os, 4096, 8);
    load(&mut os, 4100);
    fork(&mut os);
    let (old_start, old_len) = (4096 << 12, 8 << 12);
    os.apply(Asid(0), &Op::Remap { old_start, old_len, new_start: 8192 << 12, new_len: old_len });
    os.check();
    assert!(numbers::is_zeros(Pfn(load(&mut os, 8196))));
    store(&mut os, 8196);
    store(&mut os, 700);
    assert!(numbers::is_zeros(touch(&mut os, 1, 4100, Kind::Load).pfn), "the child still has zeros");
    assert_eq!(order(&os, 1, 700), 9);
    os.apply(Asid(1), &Op::End(End::Exit(0)));
    os.check();
    assert_eq!(os.memory_use().resident_at_end_bytes, (512 + 1) << 12);
}

/// LNX-14: modes, limits and accesses do not matter.
#[test]
fn lnx_14_what_is_asked_for_is_collapsed_at_once() {
    let mut os = linux("thp=never,max_ptes_none=0");
    map(&mut os, 0, 2000);
    [0, 600, 1023, 1100, 1500, 1999].into_iter().for_each(|vpn| _ = store(&mut os, vpn));
    advise(&mut os, 100, 1500, Advice::Collapse);
    assert_eq!(orders(&os, [0, 600, 1100, 1500, 1999]), [Some(0), Some(9), Some(9), Some(9), Some(0)]);
    let all = os.counts();
    assert_eq!((all.collapses, all.gathered_pages, all.zeroed_pages - 6), (2, 4, 1020));
    // What is a superpage stays one; what has no page is left alone, and so is memory that refuses.
    advise(&mut os, 512, 1024, Advice::Collapse);
    map(&mut os, 4096, 1024);
    map(&mut os, 8192, 512);
    advise(&mut os, 8192, 512, Advice::NoHugePage);
    store(&mut os, 8192);
    advise(&mut os, 4096, 4608, Advice::Collapse);
    assert_eq!((os.counts().collapses, orders(&os, [4096, 8192])), (2, [None, Some(0)]));
    // Nor a process that must not have any; one that may have what is advised counts as if it were.
    map(&mut os, 16384, 1024);
    store(&mut os, 16384);
    os.apply(Asid(0), &Op::Thp(ThpRule::Never));
    advise(&mut os, 16384, 512, Advice::Collapse);
    assert_eq!(orders(&os, [16384]), [Some(0)]);
    os.apply(Asid(0), &Op::Thp(ThpRule::Advised));
    advise(&mut os, 16384, 512, Advice::Collapse);
    assert_eq!(orders(&os, [16384]), [Some(9)]);
}

#[test]
fn lnx_14_pages_of_zeros_become_zeros_of_the_superpage() {
    let mut os = linux("thp=never,zero_page=true");
    map(&mut os, 0, 512);
    load(&mut os, 3);
    store(&mut os, 4);
    changes(&mut os, What::Stale);
    advise(&mut os, 0, 512, Advice::Collapse);
    assert_eq!(orders(&os, [3, 4, 511]), [Some(9); 3]);
    assert_eq!(changes(&mut os, What::Stale), [(3, 1), (4, 1)], "TLBs have an entry of zeros, and one that moved");
    let all = os.counts();
    assert_eq!((all.gathered_pages, all.zeroed_pages, os.memory_use().resident_bytes), (1, 1 + 511, 512 << 12));
}

/// CPT-1, and CPT-A for the part that changes.
#[test]
fn cpt_1_cpt_4_a_split_superpage_falls_into_blocks_and_a_changed_block_into_pages() {
    let mut os = linux("contpte=64K,mthp_always=64K+256K");
    map(&mut os, 0, 512);
    store(&mut os, 20);
    changes(&mut os, What::Demoted);
    unmap(&mut os, 20, 1);
    assert_eq!(orders(&os, [0, 15, 16, 20, 31, 32]), [Some(4), Some(4), Some(0), None, Some(0), Some(4)]);
    assert_eq!(changes(&mut os, What::Demoted), [(0, 512), (16, 16)]);
    map(&mut os, 1024, 96);
    store(&mut os, 1030);
    store(&mut os, 1100);
    assert_eq!(orders(&os, [1030, 1100]), [Some(6), Some(4)]);
    unmap(&mut os, 1030, 1);
    unmap(&mut os, 1100, 1);
    assert_eq!(orders(&os, [1024, 1040, 1088]), [Some(0), Some(4), Some(0)]);
}

/// CPT-B, LNX-23: smaller sizes are entries of their own, of which a store changes one.
#[test]
fn cpt_b_cpt_4_a_store_after_a_fork_changes_one_entry_of_a_block() {
    for (text, least) in [("contpte=64K,mthp_always=64K", 4), ("thp=never,mthp_always=64K", 4)] {
        let mut os = linux(text);
        map(&mut os, 16, 16);
        store(&mut os, 16);
        fork(&mut os);
        assert_eq!((order(&os, 0, 16), order(&os, 1, 16)), (least, least), "the whole block is write-protected");
        os.apply(Asid(1), &Op::End(End::Exit(0)));
        let faults = os.counts().protection_faults;
        store(&mut os, 16);
        store(&mut os, 31);
        assert_eq!(orders(&os, [16, 17, 31]), [Some(0); 3], "{text}");
        assert_eq!((os.counts().protection_faults - faults, os.counts().cow_copies), (2, 0));
    }
}
