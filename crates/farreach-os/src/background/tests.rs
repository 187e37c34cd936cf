//! The worked examples of LNX, each named by its rule.

use crate::testing::*;
use crate::{Os, What};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Advice, Backing, End, Kind, Op};
use farreach_types::translation::PageTableView;

/// A millisecond is an instruction.
fn linux(text: &str) -> Os {
    os("linux", &format!("ticks_per_ms=1,address_ordered=true,{text}"))
}

/// The first page and the order of the leaf around a page.
fn leaf(os: &Os, vpn: u64) -> (u64, u8) {
    let order = order(os, 0, vpn);
    (Vpn(vpn).align_down(order.into()).0, order)
}

/// The pages of a range that are mapped.
fn mapped(os: &Os, pages: std::ops::Range<u64>) -> u64 {
    pages.filter(|&vpn| os.pte(Asid(0), Vpn(vpn)).is_some()).count() as u64
}

#[test]
fn lnx_a_lnx_2_a_fault_maps_the_largest_size_that_is_allowed() {
    let mut os = linux("memory=16M,mthp_always=64K");
    map(&mut os, 0, 1024);
    store(&mut os, 700);
    assert_eq!((leaf(&os, 700), mapped(&os, 0..1024)), ((512, 9), 512));
    assert_eq!((os.counts().page_faults, os.counts().zeroed_pages), (1, 512));
}

#[test]
fn lnx_b_lnx_3_without_a_block_the_next_size_is_tried_and_then_no_more() {
    let mut os = linux("memory=4M,mthp_always=64K,defrag=never,pages_to_scan=0");
    map(&mut os, 0, 1024);
    map(&mut os, 4096, 1024);
    // Two pages of 2 MB hold all of memory.
    store(&mut os, 4096);
    store(&mut os, 4096 + 512);
    advise(&mut os, 4096, 32, Advice::DontNeed);
    // 128 KB are free once the partly unmapped block is split; there is no block of 2 MB.
    let before = os.counts().superpage_fallbacks;
    store(&mut os, 700);
    assert_eq!(leaf(&os, 700).1, 0, "held frames make no block of 64 KB");
    assert_eq!(os.counts().superpage_fallbacks - before, 2);
    assert_eq!(counts(&os, ["deferred_splits", "deferred_pages_at_most"]), [1, 32]);
    store(&mut os, 720);
    assert_eq!(leaf(&os, 720), (720, 4));
    // A block of 2 MB comes; the group has entries already.
    unmap(&mut os, 4096, 1024);
    store(&mut os, 736);
    assert_eq!(leaf(&os, 736), (736, 4));
    store(&mut os, 5);
    assert_eq!(leaf(&os, 5), (0, 9));
}

#[test]
fn lnx_c_lnx_3_a_size_needs_a_group_without_entries() {
    let mut os = linux("mthp_always=32K+64K,thp_size_enabled=never");
    map(&mut os, 5, 1);
    store(&mut os, 5);
    map(&mut os, 0, 5);
    map(&mut os, 6, 58);
    store(&mut os, 12);
    assert_eq!((leaf(&os, 12), leaf(&os, 5)), ((8, 3), (5, 0)));
}

#[test]
fn lnx_1_modes_of_sizes_follow_advice() {
    let faults = |text: &str, advice: Option<Advice>| {
        let mut os = linux(text);
        map(&mut os, 0, 1024);
        advice.into_iter().for_each(|advice| self::advise(&mut os, 0, 1024, advice));
        store(&mut os, 700);
        leaf(&os, 700).1
    };
    for (text, none, huge) in [
        ("thp=always", 9, 9),
        ("thp=madvise", 0, 9),
        ("thp=never", 0, 0),
        ("thp=never,thp_size_enabled=always", 9, 9),
        ("thp=never,thp_size_enabled=madvise", 0, 9),
        ("thp=madvise,mthp_always=64K", 4, 9),
        ("thp=madvise,mthp_inherit=64K", 0, 9),
        ("thp=never,mthp_madvise=64K", 0, 4),
        ("thp=always,thp_size_enabled=never,mthp_inherit=16K,mthp_always=32K", 3, 3),
    ] {
        assert_eq!((faults(text, None), faults(text, Some(Advice::HugePage))), (none, huge), "{text}");
        assert_eq!(faults(text, Some(Advice::NoHugePage)), 0, "{text}");
    }
}

#[test]
fn lnx_1_bad_sizes_are_refused_by_name() {
    for (text, word) in [
        ("mthp_always=2M", "must be smaller than thp_size"),
        ("mthp_always=64K,mthp_madvise=64K", "mthp_madvise is not allowed: a size has one mode"),
        ("mthp_always=8K", "mthp_always"),
        ("defrag=sometimes", "defrag"),
        ("scan_sleep_ms=0", "scan_sleep_ms"),
    ] {
        let error = build("linux", text).map(drop).unwrap_err();
        assert!(error.contains(word), "{text}: {error}");
    }
}

/// Memory of 8 MB, in which one page of four is in use.
fn scattered(text: &str) -> Os {
    let mut os = linux(&format!("memory=8M,pages_to_scan=0,{text}"));
    map(&mut os, 4096, 2048);
    advise(&mut os, 4096, 2048, Advice::NoHugePage);
    (4096..6144).for_each(|page| _ = store(&mut os, page));
    (4096..6144).step_by(4).for_each(|page| unmap(&mut os, page, 3));
    map(&mut os, 0, 1024);
    os
}

#[test]
fn lnx_5_defrag_says_whose_fault_compacts() {
    for (defrag, other, advised) in
        [("always", 9, 9), ("defer+madvise", 0, 9), ("madvise", 0, 9), ("defer", 0, 0), ("never", 0, 0)]
    {
        for (advice, expected) in [(None, other), (Some(Advice::HugePage), advised)] {
            let mut os = scattered(&format!("defrag={defrag}"));
            advice.into_iter().for_each(|advice| advise(&mut os, 0, 1024, advice));
            store(&mut os, 700);
            assert_eq!(leaf(&os, 700).1, expected, "{defrag} {advice:?}");
            // What was woken has made a block for the next.
            let woken = defrag.contains("defer");
            store(&mut os, 5);
            assert_eq!(leaf(&os, 5).1, if woken { 9 } else { expected }, "{defrag} {advice:?}");
        }
    }
}

/// What khugepaged copies to make a block is its own work, not that of a fault.
#[test]
fn lnx_10_compaction_for_khugepaged_is_its_work() {
    let mut os = linux("memory=4M,defrag=never");
    map(&mut os, 4096, 1024);
    advise(&mut os, 4096, 1024, Advice::NoHugePage);
    (4096..5120).for_each(|page| _ = store(&mut os, page));
    (4096..5120).step_by(4).for_each(|page| unmap(&mut os, page, 3));
    map(&mut os, 0, 512);
    store(&mut os, 5);
    assert_eq!((leaf(&os, 5).1, os.counts().largest_fault_pages), (0, 1));
    os.advance(0);
    os.check();
    let copied = os.counts().gathered_pages;
    assert!(copied > 1, "pages of others were in the way");
    assert_eq!((leaf(&os, 5).1, os.counts().compactions), (9, 1));
    assert_eq!(counts(&os, ["khugepaged_copied_pages", "khugepaged_zeroed_pages"]), [copied, 511]);
    assert_eq!(os.counts().largest_fault_pages, 1);
}

/// The times at which it worked, until it sleeps for good.
fn wakes(os: &mut Os, until: u64) -> Vec<u64> {
    let mut times = Vec::new();
    let mut now = 0;
    while os.due() <= until {
        now = os.due().max(now);
        os.advance(now);
        os.check();
        times.push(now);
    }
    times
}

#[test]
fn lnx_e_lnx_10_eight_groups_in_a_wake() {
    let mut os = linux("thp=madvise");
    map(&mut os, 0, 100 * 512);
    assert!(os.keeps_time() && os.due() == u64::MAX);
    (0..100).for_each(|group| _ = store(&mut os, 512 * group));
    assert_eq!(os.due(), u64::MAX, "no memory was advised");
    advise(&mut os, 0, 100 * 512, Advice::HugePage);
    map(&mut os, 200 * 512, 512);
    advise(&mut os, 200 * 512, 512, Advice::HugePage);
    store(&mut os, 200 * 512);
    let wakes = wakes(&mut os, 120_000);
    assert_eq!(wakes, (0..=12).map(|n| n * 10_000).collect::<Vec<_>>());
    assert_eq!(os.counts().collapses, 100);
    let names = ["khugepaged_copied_pages", "khugepaged_zeroed_pages", "khugepaged_scanned_ptes"];
    // The last wake has room for four more: the page of 2 MB of the fault, and three from the beginning.
    assert_eq!(counts(&os, names), [100, 100 * 511, 104 * 512]);
    assert_eq!(changes(&mut os, What::Promoted).len(), 100);
}

#[test]
fn lnx_12_a_group_qualifies() {
    let collapses = |keys: &str, change: &dyn Fn(&mut Os)| {
        let mut os = linux(&format!("thp_size=64K,defrag=never,{keys}"));
        map(&mut os, 4, 8);
        (4..12).for_each(|page| _ = store(&mut os, page));
        map(&mut os, 0, 4);
        map(&mut os, 12, 4 + 16);
        change(&mut os);
        store(&mut os, 17); // enters the process
        let before = os.counts().collapses;
        os.advance(0);
        os.check();
        (os.counts().collapses - before, order_or_none(&os, 0, 5))
    };
    assert_eq!(collapses("max_ptes_none=8", &|_| {}), (1, Some(4)));
    assert_eq!(collapses("max_ptes_none=7", &|_| {}), (0, Some(0)));
    let fork = |os: &mut Os| os.apply(Asid(0), &Op::Fork { child: Asid(1) });
    assert_eq!(collapses("max_ptes_shared=8", &fork), (1, Some(4)));
    assert_eq!(collapses("max_ptes_shared=7", &fork), (0, Some(0)));
    assert_eq!(collapses("", &|os| advise(os, 4, 8, Advice::DontNeed)), (0, None), "a group without entries");
}

/// LNX-13: the sharers keep the pages that are copied.
#[test]
fn lnx_13_shared_pages_are_copied() {
    let mut os = linux("thp_size=64K,thp=madvise");
    map(&mut os, 0, 16);
    let frames: Vec<u64> = (0..12).map(|page| store(&mut os, page)).collect();
    os.apply(Asid(0), &Op::Fork { child: Asid(1) });
    advise(&mut os, 0, 16, Advice::HugePage);
    store(&mut os, 12);
    os.advance(0);
    os.check();
    assert_eq!((os.counts().collapses, leaf(&os, 3)), (1, (0, 4)));
    for (page, frame) in frames.iter().enumerate() {
        let theirs = os.pte(Asid(1), Vpn(page as u64)).unwrap().pfn.0;
        let mine = os.pte(Asid(0), Vpn(page as u64)).unwrap().pfn.0;
        assert_eq!((theirs, mine != theirs), (*frame, true));
    }
    assert_eq!((os.counts().cow_copies, os.counts().gathered_pages), (0, 13));
    // A store needs no fault any more.
    store(&mut os, 3);
    assert_eq!(os.counts().protection_faults, 0);
}

#[test]
fn lnx_11_processes_take_turns_and_end() {
    let mut os = linux("thp_size=64K,thp=madvise,pages_to_scan=32");
    for asid in 0..3 {
        if asid > 0 {
            os.apply(Asid(asid), &Op::Start { pid: 1 + asid, parent: None, program: "/bin/p".into() });
        }
        map_as(&mut os, asid, 0, 64, false, Backing::Anonymous);
        (0..4).for_each(|group| _ = touch(&mut os, asid, 16 * group, Kind::Store));
        os.apply(Asid(asid), &Op::Advise { start: 0, len: 64 << 12, advice: Advice::HugePage });
        touch(&mut os, asid, 1, Kind::Store);
    }
    let collapsed =
        |os: &Os| [0, 1, 2].map(|asid| (0..4).filter(|group| order_or_none(os, asid, 16 * group) == Some(4)).count());
    let mut seen = Vec::new();
    for wake in 0..4 {
        os.advance(10_000 * wake);
        seen.push(collapsed(&os));
    }
    assert_eq!(seen, [[2, 0, 0], [4, 0, 0], [4, 2, 0], [4, 4, 0]]);
    os.apply(Asid(2), &Op::End(End::Exit(0)));
    os.apply(Asid(0), &Op::End(End::Exit(0)));
    os.advance(40_000);
    os.apply(Asid(1), &Op::End(End::Exit(0)));
    os.advance(50_000);
    assert_eq!(os.due(), u64::MAX, "without a process it sleeps until one comes");
    os.check();
}

fn order_or_none(os: &Os, asid: u32, vpn: u64) -> Option<u8> {
    os.pte(Asid(asid), Vpn(vpn)).map(|pte| pte.order)
}

/// LNX-10: after a failed allocation it sleeps longer.
/// Memory that was used before it was advised.
#[test]
fn lnx_11_advice_brings_a_process_in() {
    let mut os = linux("memory=16M,thp=madvise,thp_size=64K");
    map(&mut os, 3, 45);
    (3..43).for_each(|vpn| _ = store(&mut os, vpn));
    advise(&mut os, 3, 12, Advice::HugePage);
    assert_eq!(os.due(), u64::MAX, "no group lies in what is advised");
    advise(&mut os, 20, 28, Advice::HugePage);
    os.advance(1);
    assert_eq!((os.counts().collapses, leaf(&os, 32)), (1, (32, 4)));
    assert_eq!((leaf(&os, 16), leaf(&os, 3)), ((16, 0), (3, 0)));
}

#[test]
fn lnx_10_a_failed_allocation_costs_a_long_sleep() {
    let mut os = linux("memory=2M,thp=madvise,khugepaged_defrag=false");
    map(&mut os, 0, 512);
    (0..8).for_each(|page| _ = store(&mut os, page));
    advise(&mut os, 0, 512, Advice::HugePage);
    store(&mut os, 8);
    assert_eq!(wakes(&mut os, 130_000), [0, 60_000, 120_000]);
    assert_eq!(counts(&os, ["khugepaged_no_block"]), [3]);
}

#[test]
fn lnx_f_lnx_21_frames_of_an_unmapped_part_are_not_free() {
    for (when, free) in [("pressure", 512), ("immediate", 768)] {
        let mut os = linux(&format!("memory=4M,pages_to_scan=0,deferred_split={when}"));
        map(&mut os, 0, 512);
        store(&mut os, 0);
        advise(&mut os, 0, 256, Advice::DontNeed);
        assert_eq!((os.counts().demotions, os.frames().free), (1, Some(free)), "{when}");
        map(&mut os, 4096, 768);
        advise(&mut os, 4096, 768, Advice::NoHugePage);
        (4096..4096 + 768).for_each(|page| _ = store(&mut os, page));
        assert_eq!((os.frames().free, mapped(&os, 0..512)), (Some(0), 256), "all of it serves others");
        if when == "pressure" {
            assert_eq!(counts(&os, ["deferred_pages_at_most", "deferred_splits"]), [256, 1]);
        }
    }
}

/// PGC-6: loads and fetches map the aligned 64 KB around them, cut to the mapping; stores to private pages their copy.
#[test]
fn pgc_6_a_fault_in_a_file_maps_around_it() {
    let faults = |keys: &str, kind: Kind, shared: bool| {
        let mut os = linux(keys);
        map_as(&mut os, 0, 20, 40, shared, file("/f", 0));
        touch(&mut os, 0, 35, kind);
        let around = mapped(&os, 0..64);
        touch(&mut os, 0, 21, Kind::Load);
        (around, mapped(&os, 0..64), os.counts().page_faults, os.counts().populated_pages)
    };
    assert_eq!(faults("", Kind::Load, false), (16, 28, 2, 26));
    assert_eq!(faults("", Kind::Load, true), (16, 28, 2, 26));
    assert_eq!(faults("", Kind::Store, false), (1, 13, 2, 11));
    assert_eq!(faults("fault_around=16K", Kind::Load, false), (4, 8, 2, 6));
    assert_eq!(faults("fault_around=4K", Kind::Load, false), (1, 2, 2, 0));
    // Anonymous memory knows nothing of it, nor does another process that maps nothing there.
    let mut os = linux("thp=never");
    map_as(&mut os, 0, 20, 40, true, Backing::Anonymous);
    load(&mut os, 35);
    assert_eq!(mapped(&os, 0..64), 1);
}

/// Section 14: with 2 MB only and blocks that are split at once, faults are those of THP as it was.
#[test]
fn faults_are_those_of_thp() {
    let run = |placement: &str, keys: &str| {
        let mut os = os(placement, &format!("memory=64M,{keys}"));
        for n in 0..6 {
            map(&mut os, n * 700, 650);
        }
        unmap(&mut os, 900, 300);
        (0..4200).step_by(7).for_each(|page| _ = load(&mut os, page));
        os.apply(Asid(0), &Op::Fork { child: Asid(1) });
        (0..4200).step_by(90).for_each(|page| _ = touch(&mut os, 1, page, Kind::Store));
        let mut counts = os.counts();
        counts.policy = Default::default();
        counts
    };
    let now = run("linux", "deferred_split=immediate,pages_to_scan=0,defrag=never");
    assert_eq!(now, run("thp", "khugepaged=0"));
    assert!(now.superpage_faults >= 3 && now.demotions > 0);
}

/// LNX-11: where no process was on the list, khugepaged wakes at once, or sleeps first as on a machine with others.
#[test]
fn lnx_11_the_first_wake_may_be_later() {
    for (text, due) in [("", 0), ("first_sleep_ms=70", 70)] {
        let mut os = linux(&format!("memory=16M,thp_size=64K,mthp_always=none,scan_sleep_ms=40,{text}"));
        map(&mut os, 0, 8);
        store(&mut os, 0);
        assert_eq!(os.due(), u64::MAX, "no superpage has room");
        map(&mut os, 8, 24);
        store(&mut os, 1);
        assert_eq!(os.due(), due);
        os.advance(due);
        assert_eq!((counts(&os, ["khugepaged_wakes"]), os.due(), os.counts().collapses), ([1], due + 40, 1));
    }
}
