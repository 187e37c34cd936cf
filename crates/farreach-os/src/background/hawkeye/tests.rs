//! HawkEye by hand: groups of 16 pages and of 2 MB.

use crate::testing::*;
use crate::{Os, What};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Advice, Backing, End, Kind, Op};

/// A tick to a millisecond; bits are cleared at 3000, and counted 10 later; a round of two groups each 1000.
const SMALL: &str = "memory=4M,thp_size=64K,ticks_per_ms=1,coverage_ms=3000,coverage_window_ms=10,pages_to_scan=32,\
                     promote_sleep_ms=1000,recovery_start=0";

fn advance(os: &mut Os, now: u64) {
    os.advance(now);
    os.check();
}

fn walks(os: &mut Os, asid: u32, pages: std::ops::Range<u64>) {
    pages.for_each(|vpn| {
        touch(os, asid, vpn, Kind::Store);
        os.walked(Asid(asid), Vpn(vpn));
    });
}

/// A count at which these numbers of pages of groups were accessed; memory of the process begins at page 0.
fn count(os: &mut Os, asid: u32, at: u64, accessed: &[u64]) {
    advance(os, at);
    accessed.iter().zip(0..).for_each(|(n, group)| walks(os, asid, 16 * group..16 * group + n));
    advance(os, at + 10);
}

fn superpages<const N: usize>(os: &Os, asid: u32) -> [u8; N] {
    std::array::from_fn(|group| os.spaces[asid as usize].table.get(Vpn(16 * group as u64)).map_or(0, |e| e.order))
}

#[test]
fn hwe_1_hwe_2_candidates_are_cleared_and_counted() {
    let mut os = os("hawkeye", &format!("{SMALL},coverage_ms=100"));
    map(&mut os, 0, 64);
    walks(&mut os, 0, 0..64);
    assert_eq!(os.due(), 100);
    os.take_changes(&mut Vec::new());
    advance(&mut os, 103);
    assert_eq!(os.due(), 113, "it was late");
    assert_eq!(counts(&os, ["accessed_bits_cleared", "hawkeye_scanned_ptes"]), [64, 64]);
    assert!(!os.has_changes());
    advance(&mut os, 113);
    assert_eq!(counts(&os, ["hawkeye_coverage_counts", "hawkeye_scanned_ptes"]), [1, 128]);
    assert_eq!(os.due(), 203, "the period begins where the bits were cleared");
}

#[test]
fn hwe_4_hwe_5_the_highest_bin_comes_first() {
    let mut os = os("hawkeye", SMALL);
    map(&mut os, 0, 80);
    walks(&mut os, 0, 0..80);
    // Weights 1, 4, 6, 2, 0: bins 0, 2, 3, 1, 0.
    count(&mut os, 0, 3000, &[3, 10, 16, 5, 2]);
    advance(&mut os, 3999);
    assert_eq!((os.counts().collapses, counts(&os, ["hawkeye_rounds"])), (0, [1]), "all were in bin 0");
    advance(&mut os, 4000);
    assert_eq!(superpages(&os, 0), [0, 4, 4, 0, 0]);
    assert_eq!(counts(&os, ["hawkeye_rounds", "hawkeye_copied_pages"]), [2, 32]);
    advance(&mut os, 5000);
    assert_eq!(superpages(&os, 0), [0, 4, 4, 4, 0], "bin 0 waits");
}

#[test]
fn hwe_4_processes_of_a_bin_take_turns() {
    let mut os = os("hawkeye", SMALL);
    os.apply(Asid(1), &Op::Start { pid: 2, parent: None, program: "/bin/q".into() });
    for asid in [0, 1] {
        map_as(&mut os, asid, 0, 64, false, Backing::Anonymous);
        walks(&mut os, asid, 0..64);
    }
    advance(&mut os, 3000);
    [0, 1].into_iter().for_each(|asid| walks(&mut os, asid, 0..64));
    advance(&mut os, 3010);
    advance(&mut os, 4000);
    // Who rises comes to the head: the last counted first.
    assert_eq!((superpages(&os, 0), superpages(&os, 1)), ([0, 0, 0, 4], [0, 0, 0, 4]));
}

#[test]
fn hwe_5_without_a_block_the_round_ends() {
    let mut os = os("hawkeye", &format!("{SMALL},memory=256K,promoter_defrag=false"));
    map(&mut os, 0, 64);
    walks(&mut os, 0, 0..52);
    count(&mut os, 0, 3000, &[16, 16, 16]);
    advance(&mut os, 4000);
    assert_eq!((os.counts().collapses, counts(&os, ["hawkeye_no_block"])), (0, [1]));
    assert_eq!(os.due(), 5000);
}

#[test]
fn hwe_2_who_cannot_become_a_superpage_leaves() {
    let mut os = os("hawkeye", SMALL);
    map(&mut os, 0, 48);
    walks(&mut os, 0, 0..48);
    // One is dropped, one is cut by a region of another kind.
    os.apply(Asid(0), &Op::Advise { start: 0, len: 16 << 12, advice: Advice::DontNeed });
    os.apply(Asid(0), &Op::Advise { start: 20 << 12, len: 4 << 12, advice: Advice::NoHugePage });
    count(&mut os, 0, 3000, &[0, 0, 16]);
    assert_eq!(counts(&os, ["hawkeye_scanned_ptes"]), [16 + 16 + 16], "cleared in two, counted in one");
    os.apply(Asid(0), &Op::End(End::Exit(0)));
    advance(&mut os, 4000);
    assert_eq!(os.counts().collapses, 0);
}

/// 2 MB pages: HWE's coverage of 512.
#[test]
fn hwe_3_bins_of_fifty_pages() {
    for (bins, promoted) in [("log2", [9, 0]), ("50", [9, 9])] {
        let mut os = os("hawkeye", &format!("{SMALL},memory=16M,thp_size=2M,pages_to_scan=4096,bins={bins}"));
        map(&mut os, 0, 1024);
        walks(&mut os, 0, 0..2);
        walks(&mut os, 0, 512..514);
        advance(&mut os, 3000);
        walks(&mut os, 0, 0..8);
        advance(&mut os, 3010);
        walks(&mut os, 0, 512..514);
        advance(&mut os, 4000);
        assert_eq!([0, 512].map(|vpn| order(&os, 0, vpn)), promoted, "{bins}");
    }
}

const ZEROS: &str = "memory=1M,thp_size=64K,ticks_per_ms=1,promote_sleep_ms=1000,coverage_ms=1000000,\
                     address_ordered=true";

/// Stores into superpages reach the system once for each of their pages.
#[test]
fn osc_3_a_page_is_zero_until_it_is_stored_to() {
    let mut os = os("hawkeye", &format!("{ZEROS},prezero_rate=1,prezero_block=64K"));
    map(&mut os, 0, 16);
    store(&mut os, 3);
    assert_eq!(order(&os, 0, 3), 4);
    let zeros = |os: &Os| (0..16).filter(|vpn| os.holds_zeros(Asid(0), Vpn(*vpn))).collect::<Vec<_>>();
    assert_eq!(zeros(&os), [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    (4..14).for_each(|vpn| _ = load(&mut os, vpn));
    assert!(os.is_served(Asid(0), Vpn(5), Kind::Load) && !os.is_served(Asid(0), Vpn(5), Kind::Store));
    (5..14).for_each(|vpn| _ = store(&mut os, vpn));
    assert!(os.is_served(Asid(0), Vpn(5), Kind::Store));
    assert_eq!(zeros(&os), [0, 1, 2, 4, 14, 15]);
    // A page that a child shares is not looked at, and a copy is stored to.
    os.apply(Asid(0), &Op::Fork { child: Asid(1) });
    assert!(zeros(&os).is_empty());
    touch(&mut os, 1, 4, Kind::Store);
    assert_eq!(zeros(&os), [4], "it is its own again");
    assert!(!os.holds_zeros(Asid(1), Vpn(4)));
    // Pages of files are none.
    map_as(&mut os, 0, 64, 1, true, file("/f", 0));
    load(&mut os, 64);
    assert!(!os.holds_zeros(Asid(0), Vpn(64)));
}

/// 256 frames: it starts with less than 38 free, and ends with 76.
#[test]
fn hwe_7_pages_of_zeros_are_taken_out_of_superpages() {
    let mut os = os("hawkeye", &format!("{ZEROS},prezero_rate=1,prezero_block=64K"));
    map(&mut os, 0, 224);
    // Fourteen superpages with a store in each.
    (0..14).for_each(|group| _ = store(&mut os, 16 * group + 5));
    assert_eq!(os.due(), 0, "memory is short");
    advance(&mut os, 1000);
    assert_eq!(counts(&os, ["recovery_runs", "recovered_pages", "zero_unknown"]), [1, 45, 1]);
    assert_eq!((os.counts().demotions, os.frames().free), (3, Some(32 + 45)));
    assert_eq!([0, 16, 32, 48].map(|group| order(&os, 0, group + 5)), [0, 0, 0, 4]);
    assert!(os.spaces[0].table.get(Vpn(0)).is_none());
    assert!(changes(&mut os, What::Stale).iter().any(|pages| pages.0 == 0));
    // There is enough.
    advance(&mut os, 2000);
    assert_eq!(counts(&os, ["recovery_runs"]), [1]);
    // A page that was taken is zeros again when it is touched.
    load(&mut os, 0);
    assert!(os.holds_zeros(Asid(0), Vpn(0)));
}

#[test]
fn hwe_6_blocks_are_filled_with_zeros_ahead() {
    let keys = format!("{ZEROS},recovery_start=0,prezero_rate=2,prezero_block=64K,prezero_ms=10,max_order=5");
    let mut os = os("hawkeye", &keys);
    let ahead = |os: &Os| counts(os, ["zero_pages_background", "zeroed_ahead_used"]);
    assert_eq!(os.due(), 10);
    advance(&mut os, 10);
    assert_eq!(ahead(&os), [32, 0]);
    map(&mut os, 0, 64);
    // Zeroed blocks come first, the first zeroed of them.
    assert_eq!((store(&mut os, 0), ahead(&os), os.counts().zeroed_pages), (0, [32, 16], 0));
    assert_eq!((store(&mut os, 16), ahead(&os), os.counts().zeroed_pages), (16, [32, 32], 0));
    assert_eq!((store(&mut os, 32), ahead(&os), os.counts().zeroed_pages), (32, [32, 32], 16));
    advance(&mut os, 20);
    assert_eq!(ahead(&os), [64, 32]);
    // Files prefer the others: a block that is not zeroed is split for them.
    map_as(&mut os, 0, 128, 1, true, file("/f", 0));
    assert_eq!((load(&mut os, 128), ahead(&os)), (80, [64, 32]));
    // A base page of anonymous memory takes what was split, zeroed or not: the smallest block.
    map(&mut os, 132, 1);
    assert_eq!((store(&mut os, 132), ahead(&os), os.counts().zeroed_pages), (81, [64, 32], 17));
    // When all is zeroed, there is no more to do.
    (3..21).for_each(|period| advance(&mut os, 10 * period));
    assert_eq!(ahead(&os)[0], 32 + 32 + 10 * 16);
    // What was in use is not zeroed any more.
    unmap(&mut os, 0, 16);
    advance(&mut os, 210);
    assert_eq!(ahead(&os)[0], 64 + 11 * 16);
}

#[test]
fn hwe_6_a_part_of_a_zeroed_block_stays_so_and_a_mixed_block_is_none() {
    let keys = format!("{ZEROS},recovery_start=0,prezero_rate=1,prezero_block=64K,thp=never,max_order=5");
    let mut os = os("hawkeye", &keys);
    let ahead = |os: &Os| counts(os, ["zero_pages_background", "zeroed_ahead_used"]);
    advance(&mut os, 1000);
    map(&mut os, 0, 8);
    (0..4).for_each(|vpn| _ = store(&mut os, vpn));
    assert_eq!((ahead(&os), os.counts().zeroed_pages), ([16, 4], 0));
    // Pages 0 to 3 come back with other contents: the block of 16 is whole again, and not zeroed.
    unmap(&mut os, 0, 4);
    map(&mut os, 64, 16);
    advance(&mut os, 2000);
    assert_eq!(ahead(&os), [16 + 4, 4], "twelve of its frames kept their zeros");
    (64..80).for_each(|vpn| _ = store(&mut os, vpn));
    assert_eq!((ahead(&os), os.counts().zeroed_pages), ([20, 20], 0));
}

#[test]
fn bad_values_are_refused_by_name() {
    for (text, word) in [
        ("recovery_start=20,recovery_end=10", "recovery_end = 10 is not allowed with recovery_start = 20"),
        (
            "prezero_rate=1,prezero_block=8M",
            "prezero_block = 8M is not allowed: the allocator has blocks of 4M at most",
        ),
        ("bins=49", "bins"),
        ("allocator=fifo", "allocator"),
        ("coverage_ms=0", "coverage_ms"),
    ] {
        let error = build("hawkeye", text).map(drop).unwrap_err();
        assert!(error.contains(word), "{text}: {error}");
    }
}
