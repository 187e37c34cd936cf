//! Machines on Linux of today (LNX): work that the system does by the clock (OSC-1), with shortcuts and without, in
//! machines with caches, in samples, and however the stream is cut into batches.

use crate::common::{RandomProcesses, Stream, run};
use farreach_machine::{Lab, MachineSpec, Options, Sample};
use farreach_types::counts::{OsCounts, RunResult};
use farreach_types::event::{Backing, Batch, Block, DataRef, Instr, Kind, Op, Prot};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::sync::Arc;

/// A wake in 40 references, for two groups of 16 pages.
const KEYS: &str = "placement=linux,thp_size=64K,pages_to_scan=32,ticks_per_ms=1,scan_sleep_ms=40";

pub fn stream(seed: u64) -> Stream {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut below = move |n: u64| rng.random_range(0..n);
    let mut s = Stream::new();
    let mut processes = RandomProcesses::new(&mut s, Prot::RW, true);
    for _ in 0..150 {
        if !processes.act(&mut s, &mut below) {
            continue;
        }
        // Half a group, and the other half, so that faults map base pages and there is something to collapse.
        let first = 0x100 + 16 * below(40);
        for half in [first, first + 8] {
            s.anon(half, 8);
            for page in half..half + 8 {
                match below(3) {
                    0 => _ = s.load(page),
                    1 => _ = s.store(page),
                    _ => {}
                }
            }
        }
        // Pages that are known, so that only the clock does anything.
        let again = first + below(16);
        (0..below(60)).for_each(|_| _ = s.load(again));
    }
    s
}

fn os(out: &RunResult, i: usize) -> &OsCounts {
    &out.machines[i].counts.os
}

#[test]
fn shortcuts_change_nothing_when_the_system_works_by_itself() {
    let kinds = ["t94/superpage:entries=8", "t94/superpage:entries=64", "today/zen2:"];
    for seed in 0..4 {
        for more in
            ["memory=unlimited", "memory=4M,mthp_always=16K", "memory=4M,deferred_split=immediate,defrag=always"]
        {
            let joint = |kind: &str| if kind.ends_with(':') { "" } else { ",promote=none," };
            let machines = kinds.map(|kind| format!("{kind}{}{KEYS},{more}", joint(kind)));
            // With shortcuts and without, on one thread and on several.
            let out = run(&machines.each_ref().map(String::as_str), &stream(seed));
            let counts = &out.machine(0).counts.os;
            assert!(counts.collapses > 3 && counts.policy.get("khugepaged_wakes") > 20, "{more}: {counts:?}");
        }
    }
}

fn lab(machines: &[String], options: Options, batches: &[Batch]) -> RunResult {
    let specs = machines.iter().map(|m| MachineSpec::parse(m, 7).unwrap()).collect();
    let mut lab = Lab::new(specs, options).unwrap();
    batches.iter().for_each(|batch| _ = lab.feed(batch).unwrap());
    lab.finish().unwrap();
    lab.result("test", None)
}

/// Each word of a stream in a batch of its own.
fn cut(batches: &[Batch]) -> Vec<Batch> {
    let mut parts = Vec::new();
    for batch in batches {
        let mut words = &batch.words[..];
        while let Some(&word) = words.first() {
            let many = match word & farreach_types::event::OP_BIT {
                0 => 1 + farreach_types::event::words_behind(word),
                _ => 1,
            };
            parts.push(Batch { asid: batch.asid, words: words[..many].to_vec(), ops: batch.ops.clone() });
            words = &words[many..];
        }
    }
    parts
}

#[test]
fn how_a_stream_is_cut_and_who_watches_changes_nothing() {
    // By pages alone, and by lines.
    let machines = ["t94/single:promote=none,", "today/zen2:", "today/zen2:walk_cost=caches,"];
    let machines = machines.map(|kind| format!("{kind}{KEYS},memory=4M"));
    for seed in 0..3 {
        let batches = stream(seed).batches;
        for (i, machine) in machines.iter().enumerate() {
            let one = std::slice::from_ref(machine);
            let whole = lab(one, Options::default(), &batches);
            assert!(os(&whole, 0).collapses > 3, "{machine}");
            let cut = lab(one, Options::default(), &cut(&batches));
            assert_eq!(whole.machines[0].counts, cut.machines[0].counts, "{machine}");
            if i < 2 {
                let sample = Some(Sample { one_in: 4, window: 100 });
                let sampled = lab(one, Options { sample, ..Options::default() }, &batches);
                assert_eq!(os(&whole, 0), os(&sampled, 0), "{machine}: time goes on between windows");
            }
        }
        let [a, b, c] = [0, 1, 2].map(|i| lab(&machines[i..=i], Options::default(), &batches));
        assert_eq!((os(&a, 0), os(&b, 0)), (os(&b, 0), os(&c, 0)), "all see the same system");
    }
}

/// LNX-10: a program that touches the same pages for long gets its superpage at the first wake after it became
/// eligible.
#[test]
fn lnx_10_time_is_that_of_the_program() {
    let keys = "placement=linux,thp_size=64K,pages_to_scan=32,ticks_per_ms=10,scan_sleep_ms=10,max_ptes_none=0";
    let at_most = |loads: u64| {
        let mut s = Stream::new();
        // Eight pages, before there is room for a superpage. The fault behind it enters the process, and at the wake
        // after it the group is not full yet.
        s.start().anon(0x100, 8).loads(0x100..0x108).anon(0x108, 24).load(0x110);
        s.loads(0x108..0x110);
        (0..loads).for_each(|_| _ = s.load(0x100));
        let out = run(&[&format!("t94/superpage:promote=none,{keys}")], &s);
        out.machine(0).counts.os.collapses
    };
    // 100 references after the wake at the ninth.
    assert_eq!([at_most(9 + 100 - 17 - 1), at_most(9 + 100 - 17)], [0, 1]);
}

/// LNX-4: a load whose instruction also stores there faults as a store, as on x86-64; one before a store does not.
#[test]
fn lnx_4_an_instruction_that_changes_memory_maps_no_zeros() {
    let block = |after: [u32; 2], words: [u32; 2]| {
        let instrs = [Instr { pc: 0x40_0000, len: 4 }, Instr { pc: 0x40_0004, len: 4 }].into();
        let of = |kind, i: usize| DataRef { after: after[i], kind, size: 8, word: words[i], offset: 0 };
        Arc::new(Block { instrs, refs: [of(Kind::Load, 0), of(Kind::Store, 1)].into() })
    };
    // An instruction that changes memory, one that loads and stores elsewhere, and a load and a store of two.
    let blocks = [block([1, 1], [0, 0]), block([1, 1], [0, 1]), block([1, 2], [0, 0])];
    let machines = ["t94/single", "today/zen2:", "today/zen2:walk_cost=caches,", "t94/single:entries=8,"];
    let keys = "placement=linux,thp=never,zero_page=true";
    let machines =
        machines.map(|kind| if kind.contains(':') { format!("{kind}{keys}") } else { format!("{kind}:{keys}") });
    for (id, expected) in [(0, [0, 16, 0]), (1, [16, 32, 0]), (2, [16, 16, 16])] {
        let mut s = Stream::new();
        s.start().anon(0x100, 64);
        s.map(0x400, 1, Prot::RWX, true, Backing::File { path: "/bin/p".into(), offset: 0 });
        s.op(Op::Define { id: 9, block: Arc::clone(&blocks[id]) });
        for page in 0x100..0x110u64 {
            let words = [page << 12 | 8, (page + 32) << 12];
            let needed = blocks[id].words();
            s.batches.last_mut().unwrap().push_block(9, &words[..needed]);
        }
        let out = run(&machines.each_ref().map(String::as_str), &s);
        for (machine, name) in machines.iter().enumerate() {
            let counts = &out.machine(machine).counts.os;
            let got = [counts.policy.get("zero_page_faults"), counts.page_faults - 1, counts.protection_faults];
            assert_eq!(got, expected, "{name}, block {id}");
        }
    }
}
