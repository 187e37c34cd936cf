//! A second level that cores share (SLL-1 to SLL-3), and caches of several cores, in the loop. What each reference does
//! in them is compared with plain models in farreach-hw.

use crate::common::{Stream, lab, run};
use farreach_kernels::open_source;
use farreach_machine::{Lab, MachineSpec, Options};
use farreach_types::event::Op;

const SMALL: &str = "l1d=4K:8,l1i=4K:4,memory=64M";

fn thread(s: &mut Stream, thread: u32) -> &mut Stream {
    s.op(Op::Switch { thread })
}

/// Two threads of a process, and 20 pages.
fn two_threads() -> Stream {
    let mut s = Stream::new();
    s.start().op(Op::ThreadStart { thread: 1 }).anon(0x10, 20).op(Op::ThreadStart { thread: 2 });
    s
}

/// The hand case: 2 cores, each touches pages 0..9 once.
#[test]
fn sll_2_a_fill_by_one_core_is_a_hit_for_another() {
    let mut s = two_threads();
    s.loads(0x10..0x1a);
    thread(&mut s, 2).loads(0x10..0x1a);
    // The ledger is against the first.
    let [private, shared] = ["cores=2", "cores=2,l2_shared=true,sll_extra=3"].map(|keys| format!("ds13/4k:{keys}"));
    let out = run(&[&private, &shared], &s);
    assert_eq!(out.misses(), [20, 10]);
    let [private, shared] = [0, 1].map(|i| out.machine(i));
    assert_eq!(shared.counts.tlb.second_level_data_hits, 10);
    assert_eq!(private.counts.tlb.second_level_data_hits, 0);
    // SLL-3: ten walks of four nodes at 12 cycles, ten hits at 7 and 3.
    assert_eq!(shared.cost.cycles, 10 * 48 + 10 * (7 + 3));
    assert_eq!(private.cost.cycles, 20 * 48);
    let line = shared.ledger.iter().find(|line| line.item.contains("shared second level")).unwrap();
    assert_eq!((line.count, line.cycles), (10, Some(30)));
    assert!(private.ledger.iter().all(|line| !line.item.contains("shared")));
}

/// Both cores have the pages in their first level; the second level has them once.
#[test]
fn sll_2_a_change_is_dropped_once() {
    let mut s = two_threads();
    s.loads(0x10..0x14);
    thread(&mut s, 2).loads(0x10..0x14);
    // Thread 2 unmaps. Thread 1 had filled its filter with these pages, and maps others there.
    s.unmap(0x10, 4).anon(0x10, 4);
    thread(&mut s, 1).loads(0x10..0x14);
    let [shared, private] = ["l2_shared=true", "l2_shared=false"].map(|keys| format!("ds13/4k:cores=2,{keys}"));
    let out = run(&[&shared, &private], &s);
    let counts = [0, 1].map(|i| &out.machine(i).counts.tlb);
    assert_eq!(counts.map(|c| c.invalidations), [4 + 4 + 4, 4 + 4 + 8], "first levels and second");
    assert_eq!(counts.map(|c| c.shootdown.remote_invalidations), [4, 8], "the core that unmaps drops what is shared");
    assert_eq!(counts.map(|c| c.misses), [8, 12]);
}

/// SLL-1: the entries of all cores, in as many times the sets.
#[test]
fn sll_1_one_core_can_have_all_entries() {
    let mut s = two_threads();
    (0..3).for_each(|_| _ = s.loads(0x10..0x20));
    let keys = |shared| format!("ds13/4k:cores=2,l2_shared={shared},l1d=4K:1,l1i=4K:1,l2=4K:8/2");
    let out = run(&[&keys(true), &keys(false)], &s);
    assert_eq!(out.misses(), [16, 48], "8 sets of 2 hold 16 pages, 4 sets of 2 do not");
}

/// The law: one core is the baseline, counts, costs and ledger.
#[test]
fn sll_law_one_core_is_the_baseline() {
    let s = crate::cores::stream(3);
    for kind in ["ds13/4k:l2=4K:16/4", "rmm15/range:l2=4K:16", "rmm15/colt-fa:l2=4K:16", "ds13/4k:process_ids=false"] {
        let shared = format!("{kind},{SMALL},cores=1,l2_shared=true,sll_extra=9");
        let out = run(&[&shared, &format!("{kind},{SMALL}")], &s);
        let [shared, base] = [0, 1].map(|i| out.machine(i));
        assert_eq!(shared.counts, base.counts, "{kind}");
        assert_eq!((&shared.cost, &shared.ledger), (&base.cost, &base.ledger), "{kind}");
    }
}

#[test]
fn what_no_rule_defines_is_refused() {
    for (keys, words) in [
        ("cores=2,guest=walk", ["guest = walk", "HW-12"]),
        ("cores=2,process_ids=false", ["process_ids = false", "must be true"]),
        ("cores=2,second_level=mosaic", ["second_level = mosaic", "HW-12"]),
        ("cores=2,l2=none", ["l2 = none", "l2_shared"]),
        ("cores=3", ["with l2_shared it has those of 3 cores", "power of two"]),
        ("cores=2,behind=pom", ["behind = pom", "HW-12"]),
        ("cores=2,behind=victima,walk_cost=caches", ["behind = victima", "HW-12"]),
    ] {
        let spec = MachineSpec::parse(&format!("since/base:l2_shared=true,{keys}"), 1).unwrap();
        let error = Lab::new(vec![spec], Options::default()).err().expect(keys).to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    let spec = MachineSpec::parse("since/base:cores=2,walk_cost=caches,guest=walk", 1).unwrap();
    let error = Lab::new(vec![spec], Options::default()).err().unwrap().to_string();
    assert!(error.contains("guest = walk") && error.contains("walk_cost") && error.contains("HW-12"), "{error}");
    MachineSpec::parse("rmm15/clustered:l2_shared=true", 1).err().expect("it has no such key");
}

/// With shortcuts and without: a change by one core ends what is filtered on another.
#[test]
fn shared_levels_and_caches_in_the_loop() {
    let private = "walk_cost=caches,cache_l1i=1K/2,cache_l1d=1K/2,cache_l2=4K/4";
    let caches = format!("{private},cache_llc=16K/4,cache_slices=2");
    let machines = [
        format!("ds13/4k:cores=4,l2_shared=true,l2=4K:16/4,{SMALL}"),
        format!("ds13/4k:cores=3,l2_shared=true,l2=4K:16,l2i=4K:4,replacement=random,{SMALL}"),
        format!("rmm15/range:cores=2,l2_shared=true,l2=4K:16,range_entries=4,{SMALL}"),
        format!("rmm15/colt-fa:cores=2,l2_shared=true,run_entries=4,l2=4K:16,{SMALL}"),
        format!("rmm15/thp:cores=2,l2_shared=true,thp_size=64K,{SMALL}"),
        format!("ds13/4k:cores=3,l2=4K:16,{caches},{SMALL}"),
        format!("ds13/4k:cores=2,l2=4K:16,process_ids=false,walker_reads=l2,{caches},{SMALL}"),
        format!("ds13/4k:cores=4,l2_shared=true,l2=4K:16/4,{caches},{SMALL}"),
        format!("rmm15/range:cores=2,l2_shared=true,l2=4K:16,range_entries=4,{caches},{SMALL}"),
        format!("ds13/segment:cores=2,segment_memory=2M,admit_min=64K,l2=none,{caches},{SMALL}"),
        format!("ds13/4k:cores=2,l2=4K:16,{private},cache_llc=none,{SMALL}"),
    ];
    for seed in 0..4 {
        let out = run(&machines.each_ref().map(String::as_str), &crate::cores::stream(seed));
        for m in &out.result.machines {
            let tlb = &m.counts.tlb;
            assert!(tlb.shootdown.sent > 0 && tlb.shootdown.ipis >= tlb.shootdown.sent, "{}: {tlb:?}", m.name);
            assert_eq!(tlb.walk.walks, tlb.misses, "{}", m.name);
        }
        // The same machines by fixed prices have the same misses.
        let misses = |i: usize| out.machine(i).counts.tlb.misses;
        assert_eq!([misses(0), misses(2)], [misses(7), misses(8)], "PT-1: where walkers read changes no miss");
    }
}

/// One thread has one core: the others' caches stay empty, and nothing tells them from one core alone.
#[test]
fn one_thread_has_the_caches_of_one_core() {
    let mut s = Stream::new();
    s.start().anon(0x100, 200);
    for i in 0..3000 {
        s.load(0x100 + i * i % 199);
        if i % 500 == 499 {
            s.unmap(0x100 + i % 150, 8).anon(0x100 + i % 150, 8);
        }
    }
    let caches = "walk_cost=caches,cache_l1d=1K/2,cache_l2=4K/4,cache_llc=16K/4";
    let machines = [1, 4].map(|cores| format!("ds13/4k:cores={cores},{caches}"));
    let out = run(&machines.each_ref().map(String::as_str), &s);
    let [one, four] = [0, 1].map(|i| out.machine(i));
    assert_eq!((&one.counts, &one.caches, &one.cost), (&four.counts, &four.caches, &four.cost));
    assert!(one.counts.tlb.walk_caches.page_tables().total() > 100);
}

/// A walk of one core brings the nodes into the last level, where another core's walk finds them; its own levels are
/// empty. The page table is there once.
#[test]
fn walks_of_two_cores_meet_in_the_last_level() {
    let mut s = two_threads();
    s.load(0x10);
    thread(&mut s, 2).load(0x10);
    let out = run(&["ds13/4k:cores=2,walk_cost=caches"], &s);
    let m = out.machine(0);
    let answered = m.counts.tlb.walk_caches.page_tables();
    assert_eq!((answered.l1, answered.l2, answered.llc, answered.memory), (0, 0, 4, 4));
    let caches = m.caches.as_ref().unwrap();
    assert_eq!((caches.data.l2_misses, caches.data.llc_misses), (2, 1), "the second core finds the data there, too");
}

/// A kernel whose work is dealt out: four threads look for the same keys, so that each core fills the rest's entries.
#[test]
fn threads_of_a_kernel_share() {
    let mut lab = lab(&["since/private:l2=none", "since/private", "since/sll"], false, 1);
    let mut source = open_source("workload:kv:size=8M,references=200K,threads=4").unwrap().unwrap();
    while let Some(batch) = source.next_batch().unwrap() {
        lab.feed(&batch).unwrap();
    }
    lab.finish().unwrap();
    let result = lab.result("", None);
    let [alone, private, shared] = [0, 1, 2].map(|i| result.machines[i].counts.tlb.misses);
    let pages = result.workload.touched_bytes / 4096;
    assert!(alone > 2 * private && private > shared && shared >= pages, "{alone} {private} {shared}, {pages} pages");
}
