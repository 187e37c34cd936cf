//! Machines whose pages lie in restrictive segments (UTO): the loop with and without shortcuts, and the laws between a
//! machine that walks them and one that does not.

use crate::common::{RandomProcesses, Stream, run};
use farreach_machine::MachineSpec;
use farreach_types::counts::TlbCounts;
use farreach_types::event::Prot;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Processes that map, unmap, protect, advise, fork and touch, with superpages at the end of their memory.
fn stream(seed: u64) -> Stream {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut below = move |n: u64| rng.random_range(0..n);
    let mut s = Stream::new();
    let mut processes = RandomProcesses::new(&mut s, Prot::RW, true);
    s.anon(0x1000, 6 * 512);
    for _ in 0..100 {
        if !processes.act(&mut s, &mut below) {
            continue;
        }
        for _ in 0..60 {
            let page = if below(4) == 0 { 0x1000 + below(6 * 512) } else { 0x100 + below(0x300) };
            match below(3) {
                0 => _ = s.store(page),
                _ => _ = s.load(page),
            }
        }
    }
    s
}

/// Small TLBs and segments: two sets of superpages.
const SMALL: &str = "l1d=4K:4+2M:1,l1i=4K:4,l2=4K|2M:16/4,placement=utopia,memory=64M,uto_size_2m=8M,uto_ways=2";

/// Machines without the addition, with it, and with it beside the walk of the page table.
fn counts(keys: &str, seed: u64) -> [TlbCounts; 3] {
    let machines = ["", ",behind=utopia,uto_cache_entries=16", ",behind=utopia,uto_walk=parallel,uto_pte=true"]
        .map(|own| format!("since/base:{SMALL},{keys}{own}"));
    let out = run(&machines.each_ref().map(String::as_str), &stream(seed));
    assert!(out.machine(0).counts.os.restseg_pages > 100);
    [0, 1, 2].map(|i| out.machine(i).counts.tlb.clone())
}

/// HW-L1, HW-3: rsw_hits + walks = misses(base) without migrations, with full sets, evictions, superpages, forks.
#[test]
fn uto_answers_and_walks_are_the_misses_without_it() {
    for (seed, keys) in (0..).zip([
        "thp=always,khugepaged=64,uto_size=2M,uto_hash=mix",
        "thp=always,khugepaged=64,uto_size=2M,uto_full=evict",
        "thp=never,uto_size=512K,uto_full=evict,uto_hash=mix",
        "thp=never,uto_size=512K",
        "thp=always,uto_size=2M,walk_cost=caches",
        "thp=always,khugepaged=8,max_ptes_none=500,uto_size=2M,ranges=true",
    ]) {
        let [base, with, parallel] = counts(keys, seed);
        for tlb in [&with, &parallel] {
            let of = |name| tlb.parts.count("utopia", name);
            assert_eq!(of("rsw_hits") + tlb.misses, base.misses, "{keys}");
            assert_eq!([of("rsw"), tlb.walk.walks], [base.misses, tlb.misses], "{keys}");
            assert!(of("rsw_hits_4k") > 100, "{keys}: {tlb:?}");
            assert!(keys.contains("never") || of("rsw_hits_2m") > 20, "{keys}: {tlb:?}");
            let levels = |tlb: &TlbCounts| {
                [tlb.second_level_data_hits, tlb.second_level_fetch_hits, tlb.invalidations, tlb.evictions]
            };
            assert_eq!(levels(tlb), levels(&base), "{keys}");
        }
        assert!(with.misses > 20, "{keys}: some pages lie elsewhere");
    }
}

/// UTO-6: the system follows the walks of its machine, at points of the stream that shortcuts do not move.
#[test]
fn uto_6_pages_that_are_walked_move() {
    for keys in ["thp=never,uto_size=512K,uto_walks_at=2", "thp=always,uto_walks_at=1,uto_size=256K,uto_full=evict"] {
        let moves = |own: &str| {
            let machine = format!("since/base:{SMALL},{keys}{own}");
            let out = run(&[&machine, &machine.replace("2M:1,", "2M:2,")], &stream(9));
            out.machine(0).counts.os.restseg_moves
        };
        let [alone, answered] = ["", ",behind=utopia"].map(moves);
        assert!(alone > 5, "{keys}: {alone}");
        assert_eq!(alone, answered, "walks of pages in RestSegs move nothing, {keys}");
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (text, why) in [
        ("since/utopia:placement=demand", "placement must be utopia"),
        ("since/base:behind=utopia", "the system of this machine makes no RestSegs"),
        ("since/utopia:walk_cost=caches,uto_walks_at=5", "uto_walks_at must be 0"),
    ] {
        let error = MachineSpec::parse(text, 1).err().expect(text).to_string();
        assert!(error.contains(why), "{error}");
    }
}
