//! The promoter by hand: groups of 2 MB, and of 16 pages. OAMB-9: the metric is that of the authors' kernel.

use super::{Population, metric};
use crate::Os;
use crate::testing::*;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Advice, End, Kind, Op};

/// A touch of a page that hardware walks to.
fn walk(os: &mut Os, asid: u32, vpn: u64) {
    touch(os, asid, vpn, Kind::Store);
    os.walked(Asid(asid), Vpn(vpn));
}

fn walks(os: &mut Os, pages: std::ops::Range<u64>) {
    pages.for_each(|vpn| walk(os, 0, vpn));
}

fn advance(os: &mut Os, now: u64) {
    os.advance(now);
    os.check();
}

/// Sixteen pages to a group, a tick to a millisecond; the accessed bits stay.
const SMALL: &str = "memory=4M,thp_size=64K,ticks_per_ms=1,scan_sleep_ms=1000000";

#[test]
fn ing_2_the_460th_page_of_512_queues_the_group() {
    let mut os = os("ingens", "memory=16M");
    map(&mut os, 512, 1024);
    walks(&mut os, 512..512 + 459);
    advance(&mut os, 0);
    assert_eq!((os.counts().collapses, order(&os, 0, 512)), (0, 0), "ING-1: faults bring in base pages");
    assert_eq!(counts(&os, ["promoter_queued"]), [0]);
    assert!(os.due() > 0);
    walk(&mut os, 0, 512 + 459);
    assert_eq!(os.due(), 0, "it wakes at once");
    advance(&mut os, 1);
    assert_eq!((os.counts().collapses, order(&os, 0, 512)), (1, 9));
    assert_eq!(counts(&os, ["promoter_queued", "promoter_copied_pages", "promoter_zeroed_pages"]), [1, 460, 52]);
}

#[test]
fn ing_2_the_threshold_is_rounded_down() {
    for (percent, least) in [(90, 14), (50, 8), (1, 1), (100, 16)] {
        let mut os = os("ingens", &format!("{SMALL},util_threshold={percent}"));
        map(&mut os, 16, 16);
        let queues = (1..=16).find(|n| {
            walk(&mut os, 0, 15 + n);
            counts(&os, ["promoter_queued"]) == [1]
        });
        assert_eq!(queues, Some(least), "{percent}");
    }
}

#[test]
fn ing_1_pages_that_are_dropped_have_not_faulted() {
    let mut os = os("ingens", SMALL);
    map(&mut os, 16, 32);
    walks(&mut os, 16..29);
    let dropped = Op::Advise { start: 20 << 12, len: 3 << 12, advice: Advice::DontNeed };
    os.apply(Asid(0), &dropped);
    walks(&mut os, 29..32);
    assert_eq!(counts(&os, ["promoter_queued"]), [0], "13 of 16");
    walk(&mut os, 0, 21);
    assert_eq!(counts(&os, ["promoter_queued"]), [1]);
    // It is re-checked: the group lost a page while it was in the queue.
    os.apply(Asid(0), &dropped);
    advance(&mut os, 1);
    assert_eq!((os.counts().collapses, counts(&os, ["promoter_wakes"])), (0, [1]));
    // And it is queued again.
    walk(&mut os, 0, 22);
    advance(&mut os, 2);
    assert_eq!((os.counts().collapses, counts(&os, ["promoter_queued"])), (1, [2]));
    assert_eq!(counts(&os, ["promoter_copied_pages", "promoter_zeroed_pages"]), [14, 2]);
}

#[test]
fn ing_3_a_group_needs_an_accessed_page_and_no_writable_one() {
    let mut os = os("ingens", SMALL);
    map(&mut os, 16, 16);
    // Mapped, and not walked to.
    (16..30).for_each(|vpn| _ = touch(&mut os, 0, vpn, Kind::Load));
    advance(&mut os, 1);
    assert_eq!((counts(&os, ["promoter_queued", "promoter_wakes"]), os.counts().collapses), ([1, 1], 0));
    os.walked(Asid(0), Vpn(20));
    advance(&mut os, 2);
    assert_eq!(os.counts().collapses, 0, "it was in the queue once");
    advance(&mut os, 10_001);
    assert_eq!((os.counts().collapses, order(&os, 0, 16)), (1, 4), "the scan finds it");
}

/// A budget of two groups.
#[test]
fn ing_3_the_queue_comes_first_wake_after_wake() {
    let mut os = os("ingens", &format!("{SMALL},pages_to_scan=32,promote_sleep_ms=100"));
    map(&mut os, 0, 64);
    for group in [3, 1, 0, 2] {
        walks(&mut os, 16 * group..16 * group + 14);
    }
    let superpages = |os: &Os| [0, 16, 32, 48].map(|vpn| order(os, 0, vpn));
    advance(&mut os, 0);
    assert_eq!((superpages(&os), os.due()), ([4; 4], 100), "it does not sleep as long as groups wait");
    assert_eq!(counts(&os, ["promoter_wakes", "promoter_scanned_ptes"]), [2, 64]);
}

#[test]
fn ing_3_without_a_block_it_sleeps_long_unless_a_group_is_queued() {
    let mut os = os("ingens", "memory=128K,thp_size=64K,ticks_per_ms=1,alloc_sleep_ms=500,promoter_defrag=false");
    map(&mut os, 0, 64);
    walks(&mut os, 0..14);
    walk(&mut os, 0, 40);
    walk(&mut os, 0, 41);
    walk(&mut os, 0, 42);
    advance(&mut os, 7);
    assert_eq!((counts(&os, ["promoter_no_block"]), os.due()), ([1], 507));
    walks(&mut os, 16..30);
    assert_eq!(os.due(), 0);
}

#[test]
fn ing_4_the_metric_is_wanted_for_held() {
    assert_eq!((metric(1, 40, 10), metric(1, 30, 1), metric(1, 0, 3), metric(2, 7, 0)), (400, 3000, 1, 1400));
}

/// Two processes with as much memory in use. Groups that failed once come by scan alone.
#[test]
fn ing_4_who_has_fewest_for_what_it_wants_comes_first() {
    let first_of = |more: &str| {
        let mut os = os("ingens", &format!("{SMALL},pages_to_scan=16,promote_sleep_ms=100,{more}"));
        os.apply(Asid(1), &Op::Start { pid: 2, parent: None, program: "/bin/q".into() });
        for asid in [0, 1] {
            map_as(&mut os, asid, 0, 64, false, farreach_types::event::Backing::Anonymous);
            // Not accessed, so the queue has no use.
            (0..64).for_each(|vpn| _ = touch(&mut os, asid, vpn, Kind::Store));
        }
        advance(&mut os, 0);
        assert_eq!((os.counts().collapses, os.due()), (0, 100));
        [0, 1].into_iter().for_each(|asid| (0..64).for_each(|vpn| os.walked(Asid(asid), Vpn(vpn))));
        let held =
            |os: &Os| [0, 1].map(|asid| [0, 16, 32, 48].iter().filter(|&&vpn| order(os, asid, vpn) == 4).count());
        let mut seen = Vec::new();
        for wake in 1..20 {
            advance(&mut os, 100 * wake);
            if seen.last() != Some(&held(&os)) {
                seen.push(held(&os));
            }
        }
        seen
    };
    // None counts as one. Then the second one catches up; of equal ones the first comes first.
    let fair = [[1, 0], [2, 0], [2, 1], [2, 2], [3, 2], [3, 3], [4, 3], [4, 4]];
    assert_eq!(first_of("fairness=true"), fair);
    // Of weight 2, it may have twice as many.
    let twice = [[0, 1], [0, 2], [1, 2], [2, 2], [2, 3], [2, 4], [3, 4], [4, 4]];
    assert_eq!(first_of("fairness=true,fairness_weights=1+2"), twice);
    assert_eq!(first_of("fairness=true,fairness_weights=1+0"), [[1, 0], [2, 0], [3, 0], [4, 0]]);
    // One process to its end, then the other.
    assert_eq!(first_of("fairness=false").last(), Some(&[4, 4]));
}

#[test]
fn ing_6_in_memory_that_is_little_fragmented_one_page_is_enough() {
    let mut os = os("ingens", "memory=64M,thp_size=2M,adaptive=true");
    map(&mut os, 512, 512);
    walk(&mut os, 0, 600);
    advance(&mut os, 0);
    assert_eq!((order(&os, 0, 600), os.counts().zeroed_pages), (9, 512));
    // One page of two in use, all over memory.
    let mut os = self::os("ingens", "memory=64M,adaptive=true,fragmentation=0.5");
    assert!(os.fragmentation(512).unwrap() >= 0.5);
    map(&mut os, 512, 512);
    walk(&mut os, 0, 600);
    advance(&mut os, 0);
    assert_eq!((order(&os, 0, 600), counts(&os, ["promoter_queued"])), (0, [0]));
}

#[test]
fn ing_7_faults_never_compact() {
    let mut os = os("ingens", &format!("{SMALL},compaction=direct,fragmentation=0.3,promoter_defrag=false"));
    map(&mut os, 0, 512);
    walks(&mut os, 0..512);
    assert_eq!(os.counts().compactions + os.counts().compactions_failed, 0);
}

#[test]
fn what_a_process_had_ends_with_it() {
    let mut os = os("ingens", SMALL);
    map(&mut os, 0, 64);
    walks(&mut os, 0..14);
    os.apply(Asid(0), &Op::End(End::Exit(0)));
    advance(&mut os, 1);
    assert_eq!((os.due(), os.counts().collapses), (1_000_000, 0), "the tracker goes on");
}

#[test]
fn bad_values_are_refused_by_name() {
    for (text, word) in [
        ("util_threshold=101", "util_threshold"),
        ("util_threshold=0", "util_threshold"),
        ("fairness_weights=1+x", "fairness_weights = 1+x is not allowed"),
        ("hot_sample=101", "hot_sample"),
        ("access_bits=never", "access_bits"),
    ] {
        let error = build("ingens", text).map(drop).unwrap_err();
        assert!(error.contains(word), "{text}: {error}");
    }
}

#[test]
fn a_population_counts_each_page_once() {
    let mut population = Population::new(512);
    for (at, on, weight) in [(3, true, 1), (3, true, 1), (511, true, 2), (3, false, 1), (3, false, 1), (64, true, 2)] {
        population.set(at, on);
        assert_eq!(population.weight, weight);
    }
}
