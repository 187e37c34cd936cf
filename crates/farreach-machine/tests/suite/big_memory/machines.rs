//! Whole machines: the loop with and without shortcuts on the new policies (XC-3), and policies that are switched off
//! (CA-39).

use crate::common::{Outcome, RandomProcesses, Stream, run};
use farreach_oracle::dice::seeds;
use farreach_types::event::Prot;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Processes that map, unmap, protect, advise, fork and touch.
fn stream(seed: u64) -> Stream {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut below = move |n: u64| rng.random_range(0..n);
    let mut s = Stream::new();
    let mut processes = RandomProcesses::new(&mut s, Prot::RW, true);
    for _ in 0..120 {
        if !processes.act(&mut s, &mut below) {
            continue;
        }
        for _ in 0..40 {
            let page = 0x100 + below(0x300);
            match below(3) {
                0 => _ = s.store(page),
                _ => _ = s.load(page),
            }
        }
    }
    s
}

const POLICIES: [&str; 7] = [
    "placement=thp,memory=64M,thp_size=64K,mthp_sizes=16K,khugepaged=16,max_ptes_none=12,ranges=true",
    "placement=hugetlb,huge_page=64K,pool=1M,memory=64M",
    "placement=eager,memory=64M,range_cow=copy",
    "placement=segment,segment_memory=2M,memory=64M,admit_min=64K,provision=lazy",
    "placement=segment,segment_memory=2M,memory=64M,admit_min=64K,promote=64K,segment_fork=copy",
    "placement=thp,memory=8M,fragmentation=0.1,movable=1,thp_size=64K,ranges=true,compaction=full,compaction_every=16,\
     compaction_threshold=0",
    "placement=eager,memory=8M,fragmentation=0.1,movable=0.5,compaction=partial,compaction_every=16,\
     compaction_threshold=0,compaction_block=64K",
];

#[test]
fn xc_3_every_design_agrees_with_the_page_table_under_the_new_policies() {
    for seed in seeds(1).take(3) {
        let s = stream(seed);
        for policy in POLICIES {
            let designs = [
                "t94/single",
                "t94/superpage",
                "t94/partial",
                "t94/integrated",
                "rmm15/range",
                "ds13/segment",
                "ds13/4k",
            ];
            let several = format!("ds13/segment:segments=3,{policy}");
            let coalesced = format!("rmm15/colt-fa:run_entries=3,{policy}");
            let machines: Vec<String> =
                designs.iter().map(|d| format!("{d}:{policy}")).chain([several, coalesced]).collect();
            // `run` compares the loop with and without shortcuts, on one thread and three; debug checks are on.
            let out = run(&machines.iter().map(String::as_str).collect::<Vec<_>>(), &s);
            assert!(out.misses()[..4].iter().all(|&m| m > 100), "{policy}");
            // Ranges and segments that hardware looks up and the system keeps are found.
            assert_eq!(out.machine(4).counts.tlb.range.hits > 0, out.machine(0).contiguity.is_some(), "{policy}");
            // F-20: where the system keeps ranges, several segments hold some.
            assert_eq!(out.misses()[7] < out.misses()[6], out.machine(0).contiguity.is_some(), "{policy}");
            assert_eq!(out.misses()[5] < out.misses()[6], policy.contains("segment"), "{policy}");
            // RMM15-42: every walk is inside or outside; `run` compared the numbers of the loop with those of the plain
            // one.
            for (i, m) in out.result.machines.iter().enumerate() {
                assert_eq!(m.ideal_segment.is_some(), i >= 4, "{}", m.name);
                let Some(ideal) = &m.ideal_segment else { continue };
                let fetches = (ideal.fetch_walks_inside + ideal.fetch_walks_outside, m.counts.tlb.fetch_misses);
                assert_eq!((ideal.walks_inside + ideal.walks_outside, fetches.0), (m.counts.tlb.misses, fetches.1));
                assert!(ideal.walks_inside > 0 && ideal.walks_outside > 0 && ideal.pages > 0, "{policy}: {ideal:?}");
            }
            let m = out.machine(0);
            assert_eq!(m.contiguity.is_some(), policy.contains("range") || policy.contains("eager"), "{policy}");
            assert_eq!(m.segments.is_some(), policy.contains("segment"), "{policy}");
            assert!(out.misses()[1] <= out.misses()[0], "superpages cover what pages do");
        }
    }
}

/// A region exists for 90 of 100 instructions, but for 100 of 1000 lookups; or the other way round.
#[test]
fn amb_92_regions_live_for_instructions() {
    for ((before, loads), regions) in [((10, 900), 2), ((90, 100), 1)] {
        let mut s = Stream::new();
        s.start().anon(0x100, 4);
        (0..before).for_each(|_| _ = s.fetch(0x900));
        s.loads((0..loads - before).map(|_| 0x100)).anon(0x200, 8);
        (before..100).for_each(|_| _ = s.fetch(0x900));
        s.loads((loads - before..900).map(|_| 0x200));
        let out = run(&["rmm15/4k", "rmm15/4k:walk_cost=caches"], &s);
        for m in &out.result.machines {
            assert_eq!((out.result.workload.instructions, out.result.workload.lookups.total()), (100, 1000));
            assert_eq!(m.ideal_segment.as_ref().map(|i| i.regions), Some(regions), "{}", m.name);
        }
    }
    // Without instructions, lookups are the measure.
    let mut s = Stream::new();
    s.start().anon(0x100, 4).loads((0..10).map(|_| 0x100)).anon(0x200, 8).loads((0..90).map(|_| 0x200));
    assert_eq!(run(&["rmm15/4k"], &s).machine(0).ideal_segment.as_ref().map(|i| i.regions), Some(2));
}

fn same(out: &Outcome, machines: &[String]) {
    for i in 1..machines.len() {
        let (a, b) = (out.machine(0), out.machine(i));
        assert_eq!(a.counts.tlb, b.counts.tlb, "{} and {}", machines[0], machines[i]);
        assert_eq!(out.entries[0], out.entries[i], "{} and {}", machines[0], machines[i]);
        assert_eq!(a.counts.os, b.counts.os, "{} and {}", machines[0], machines[i]);
        assert_eq!(a.memory, b.memory, "{} and {}", machines[0], machines[i]);
    }
}

#[test]
fn ca_39_rmm15_14_policies_that_are_off_are_demand_paging() {
    for allocator in ["fifo", "buddy"] {
        let mut off = vec![
            "placement=demand".to_owned(),
            "placement=demand,ranges=true,range_cow=split".to_owned(),
            "placement=demand,ranges=true,range_table=list".to_owned(),
            "placement=thp,thp=never".to_owned(),
            "placement=hugetlb,pool=none,huge_page=1G".to_owned(),
            "placement=segment,segment_memory=none".to_owned(),
        ];
        if allocator == "buddy" {
            off.push("placement=eager,eager_threshold=1000000,max_order=11".to_owned());
        }
        let machines: Vec<String> =
            off.iter().map(|o| format!("t94/partial:{o},memory=32M,allocator={allocator}")).collect();
        let texts: Vec<&str> = machines.iter().map(String::as_str).collect();
        for seed in 0..2 {
            same(&run(&texts, &stream(seed)), &machines);
        }
    }
}
