//! How changes of page tables reach the TLBs of cores (OS-SHD), with an operating system. The decisions themselves are
//! tested beside their code, in `farreach-hw`.

use crate::common::{Stream, run};
use crate::cores::stream;
use farreach_types::addr::Asid;
use farreach_types::counts::MachineResult;
use farreach_types::event::{Advice, Op};

const SMALL: &str = "l1d=4K:64,l1i=4K:8,l2=4K:256,memory=64M";

/// Requests, mappings dropped one by one, whole processes dropped, of these at switches, broadcasts, interrupts.
fn flushes(machine: &MachineResult) -> [u64; 6] {
    let tlb = &machine.counts.tlb;
    let of = |name| tlb.parts.count("shootdown", name);
    let own = ["requests", "local_inval_entry", "local_inval_all", "switch_flushes", "broadcast_inval"].map(of);
    [own[0], own[1], own[2], own[3], own[4], tlb.shootdown.ipis]
}

/// OS-SHD-1, OS-SHD-6: the pages that were touched, from the first to the last, are one request.
#[test]
fn os_shd_6_an_munmap_is_one_request() {
    let machines = [format!("ds13/4k:shootdown=generations,{SMALL}"), format!("ds13/4k:{SMALL}")];
    let machines = machines.each_ref().map(String::as_str);
    let unmapped = |pages: &[u64]| {
        let mut s = Stream::new();
        s.start().anon(0x100, 64).anon(0x800, 4).load(0x800);
        pages.iter().for_each(|&page| _ = s.store(0x100 + page));
        s.unmap(0x100, 64).load(0x800);
        let out = run(&machines, &s);
        (flushes(out.machine(0)), out.misses()[0] - out.misses()[1])
    };
    // 33 pages in 17 pieces: one by one, and the page beside them stays. One more, and all is dropped.
    let every_other: Vec<u64> = (0..33).step_by(2).collect();
    assert_eq!(unmapped(&every_other), ([1, 33, 1, 1, 0, 0], 0));
    assert_eq!(unmapped(&[0, 33]), ([1, 0, 2, 1, 0, 0], 1));
    assert_eq!(unmapped(&[]), ([0, 0, 1, 1, 0, 0], 0), "nothing was mapped");
}

/// OS-SHD-6: superpages are counted as one each.
#[test]
fn os_shd_6_superpages_are_one_mapping() {
    let machine = "rmm15/thp:shootdown=generations,l1d=4K:64+2M:8,l1i=4K:8,l2=4K|2M:64/4,memory=64M";
    let mut s = Stream::new();
    s.start().anon(0x200, 2048);
    s.op(Op::Advise { start: 0x20_0000, len: 0x80_0000, advice: Advice::HugePage });
    (0..4).for_each(|i| _ = s.store(0x200 + 512 * i));
    s.unmap(0x200, 2048);
    let out = run(&[machine], &s);
    assert_eq!(out.machine(0).counts.os.page_faults, 4);
    assert_eq!(flushes(out.machine(0)), [1, 4, 1, 1, 0, 0]);
}

/// OS-SHD-4: six processes flush once each on a core, seven at each turn.
#[test]
fn os_shd_4_the_seventh_process_flushes() {
    let turns = |processes: u32| {
        let mut s = Stream::new();
        s.start().anon(0x100, 8).store(0x100);
        for child in 1..processes {
            s.space(0).op(Op::Fork { child: Asid(child) });
        }
        for _ in 0..5 {
            (0..processes).for_each(|asid| _ = s.space(asid).load(0x100));
        }
        let machines = [format!("ds13/4k:shootdown=generations,{SMALL}"), format!("ds13/4k:{SMALL}")];
        let out = run(&machines.each_ref().map(String::as_str), &s);
        (flushes(out.machine(0))[3], out.misses()[0] - out.misses()[1])
    };
    assert_eq!(turns(6), (6, 0), "each slot as it is taken");
    let (flushes, misses) = turns(7);
    assert!(flushes >= 4 * 7 && misses >= 4 * 7 - 1, "{flushes} flushes, {misses} misses more");
}

/// With one core, one process and no limit nothing is new. With several cores nothing that is dropped late is ever
/// used: debug builds compare each translation with the page table (XC-3), with and without shortcuts.
#[test]
fn os_shd_what_is_dropped_late_is_not_used() {
    let small = "l1d=4K:8,l1i=4K:4,l2=4K:16,memory=64M";
    let machines = [
        format!("ds13/4k:cores=3,{small}"),
        format!("ds13/4k:cores=3,shootdown=generations,pcid_slots=2,flush_ceiling=12,{small}"),
        format!("ds13/4k:cores=3,shootdown=generations,other_cores=idle,{small}"),
        format!("ds13/4k:cores=2,shootdown=generations,process_ids=false,{small}"),
        format!("ds13/4k:cores=3,shootdown=broadcast,space_ids=4,broadcast_most=12,{small}"),
        format!("ds13/4k:cores=3,shootdown=global_ids,global_id_cores=2,shd_consider=2,{small}"),
        format!("rmm15/thp:cores=2,shootdown=generations,thp_size=64K,{small}"),
        format!("rmm15/range:cores=2,shootdown=global_ids,global_id_cores=2,shd_consider=1,range_entries=4,{small}"),
    ];
    for seed in 10..14 {
        let out = run(&machines.each_ref().map(String::as_str), &stream(seed));
        let interrupts = flushes(out.machine(0))[5];
        let [own, idle, _, arm, amd] = [1, 2, 3, 4, 5].map(|i| flushes(out.machine(i)));
        assert!(own[5] <= interrupts && own[2] > 0 && own[3] > 0 && own[1] > 0, "{own:?}, {interrupts} interrupts");
        assert!(idle[5] < own[5], "{idle:?}, {own:?}");
        assert!(arm[5] == 0 && arm[4] > 0 && arm[3] > 0, "{arm:?}");
        assert!(amd[5] < interrupts && amd[4] > 0, "{amd:?}");
        assert_eq!(own[0], arm[0], "requests do not depend on the mechanism");
    }
    let mut s = Stream::new();
    s.start().anon(0x100, 200);
    for i in 0..1500 {
        if i % 50 == 49 {
            s.unmap(0x100 + i * 7 % 150, 40);
        } else {
            s.load(0x100 + i * 13 % 200);
        }
    }
    let machines = [format!("ds13/4k:{small}"), format!("ds13/4k:shootdown=generations,flush_ceiling=1000,{small}")];
    let out = run(&machines.each_ref().map(String::as_str), &s);
    assert_eq!(out.misses()[0], out.misses()[1]);
}

/// Records, those refused, those forced, interrupts.
fn records(machine: &MachineResult) -> [u64; 4] {
    let tlb = &machine.counts.tlb;
    let of = |name| tlb.parts.count("shootdown", name);
    [of("records"), of("records_refused"), of("records_forced"), tlb.shootdown.ipis]
}

/// OS-SHD-10, the example with a tick of 1000 instructions: an munmap interrupts no core, and what another core has of
/// it goes at the tick. A page that is mapped anew before it is dropped at once.
#[test]
fn os_shd_10_entries_of_other_cores_go_at_the_tick() {
    let machine = |tick: u64| format!("ds13/4k:cores=2,shootdown=latr,latr_tick={tick},{SMALL}");
    let machines = [machine(1000), machine(1 << 40), format!("ds13/4k:cores=2,shootdown=generations,{SMALL}")];
    let machines = machines.each_ref().map(String::as_str);
    let stream = |reuses: bool| {
        let mut s = Stream::new();
        s.start().anon(0x100, 64).anon(0x800, 64);
        let turn = |s: &mut Stream, thread| _ = s.op(Op::Switch { thread });
        s.op(Op::ThreadStart { thread: 1 });
        (0..64).for_each(|i| _ = s.store(0x100 + i));
        s.op(Op::ThreadStart { thread: 2 });
        turn(&mut s, 2);
        (0..32).for_each(|i| _ = s.load(0x100 + i));
        turn(&mut s, 1);
        s.unmap(0x100, 32);
        if reuses {
            s.anon(0x100, 32).load(0x105);
        }
        turn(&mut s, 2);
        (0..2000).for_each(|i| _ = s.fetch(0x800 + i % 2));
        s
    };
    let out = run(&machines, &stream(false));
    let dropped = |at: usize| out.machine(at).counts.tlb.shootdown.remote_invalidations;
    assert_eq!([0, 1, 2].map(|i| records(out.machine(i))), [[1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]]);
    assert!(dropped(0) == dropped(2) && dropped(0) >= 32, "{} {}", dropped(0), dropped(2));
    let out = run(&machines, &stream(true));
    assert_eq!([0, 1, 2].map(|i| records(out.machine(i))), [[1, 0, 1, 1], [1, 0, 1, 1], [0, 0, 0, 1]]);
}

/// Debug builds compare each translation with the page table (XC-3), with frames that are held and some that run short.
#[test]
fn os_shd_10_what_waits_for_a_tick_is_not_used() {
    let small = "l1d=4K:8,l1i=4K:4,l2=4K:16";
    let latr = "shootdown=latr,latr_tick=500,latr_records=2";
    let machines = [
        format!("ds13/4k:cores=3,memory=64M,{small}"),
        format!("ds13/4k:cores=3,{latr},memory=64M,unmap_hold=1000,{small}"),
        format!("ds13/4k:cores=3,{latr},other_cores=idle,kpti=true,memory=64M,unmap_hold=1000,{small}"),
        format!("rmm15/thp:cores=2,{latr},thp_size=64K,memory=64M,unmap_hold=1000,{small}"),
        format!("rmm15/range:cores=2,{latr},range_entries=4,memory=64M,unmap_hold=700,{small}"),
    ];
    let mut sum = [0; 4];
    for seed in 20..26 {
        let out = run(&machines.each_ref().map(String::as_str), &stream(seed));
        let ours = records(out.machine(1));
        assert!(ours[3] <= out.machine(0).counts.tlb.shootdown.ipis, "{ours:?}");
        sum.iter_mut().zip(ours).for_each(|(sum, n)| *sum += n);
        let held = out.machine(1).counts.os.policy.get("held_pages_at_most");
        assert!(held > 0 || ours[0] == 0, "{ours:?}");
    }
    assert!(sum[0] > 20 && sum[2] > 5, "{sum:?}");
}
