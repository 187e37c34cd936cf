//! F-2, DS13-43: the kernel's direct map, and registers for it: shared with the program or its own.

use crate::common::*;
use farreach_kernels::{Settings, kernel};
use farreach_machine::{MachineSpec, PRESETS};
use farreach_types::addr::{Asid, DIRECT_MAP, VARIABLE_MAPPINGS};
use farreach_types::counts::MachineResult;
use farreach_types::event::{Backing, Batch, End, Op, Prot};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Pages at which the two kinds of kernel memory begin.
const DIRECT: u64 = DIRECT_MAP.start >> 12;
const VARIABLE: u64 = VARIABLE_MAPPINGS >> 12;

fn server(megabytes: u64, references: u64) -> Vec<Batch> {
    let settings = Settings { size: megabytes << 20, references, seed: 1 };
    let mut source = kernel("server").unwrap().source(&settings).unwrap();
    std::iter::from_fn(|| source.next_batch().unwrap()).collect()
}

/// Data misses in a region.
fn misses(machine: &MachineResult, region: &str) -> u64 {
    machine.regions.iter().find(|r| r.region == region).map_or(0, |r| r.data_misses)
}

fn direct(machine: &MachineResult) -> u64 {
    misses(machine, "direct map")
}

fn variable(machine: &MachineResult) -> u64 {
    misses(machine, "kernel-provided")
}

const NONE: &str = "ds13/segment:placement=demand";
const OWN: &str = "ds13/segment:placement=demand,kernel_segment=own";
const SHARED: &str = "ds13/segment:placement=demand,kernel_segment=shared";
const TRACKED: &str = "ds13/segment:placement=demand,kernel_segment=own,segment_served_by=pages";

/// H-DS-12 on the generator. The share of the kernel's misses in the direct map follows from an assumption of the
/// generator and from the leaves of the page table; that these misses disappear, and no others, is the effect of the
/// mechanism.
#[test]
fn h_ds_12_what_a_segment_for_the_direct_map_removes() {
    let batches = server(256, 1_500_000);
    for leaf in ["4K", "2M"] {
        let machines = [NONE, OWN, SHARED, TRACKED, "ds13/4k:seed=7"].map(|m| format!("{m},direct_map_page={leaf}"));
        let fast = run_batches(&machines.each_ref().map(String::as_str), &batches, false, 2);
        let [none, own, shared, tracked, plain] = std::array::from_fn(|i| fast.machine(i));
        assert_eq!(none.counts.tlb, plain.counts.tlb, "switched off it is plain paging");
        assert!(direct(none) > 10_000, "{}", direct(none));
        assert_eq!((direct(own), own.counts.tlb.segment.misses_inside), (0, 0));
        assert_eq!(shared.counts, own.counts, "the program has no segment here");
        // The remaining misses are in variable mappings, and no more than before: the TLBs have less to hold.
        assert!((1..=variable(none)).contains(&variable(own)), "{} of {}", variable(own), variable(none));
        let before = direct(none) + variable(none);
        let removed = 100.0 * (before - variable(own)) as f64 / before as f64;
        println!(
            "{leaf}: {before} misses of the kernel, {} variable, {} left: {removed:.2} %",
            variable(none),
            variable(own)
        );
        assert!((95.0..100.0).contains(&removed), "{leaf}: {removed} %");
        // As the paper counted them: served by pages.
        assert_eq!(tracked.counts.tlb.segment.misses_inside, direct(none));
        assert_eq!(tracked.counts.tlb.misses, none.counts.tlb.misses);
    }
}

#[test]
fn shortcuts_and_threads_change_nothing() {
    let machines = [
        OWN,
        SHARED,
        "ds13/segment:kernel_segment=own",
        "ds13/segment:kernel_segment=shared",
        "ds13/segment:kernel_segment=own,cores=2",
        "ds13/segment:kernel_segment=own,walk_cost=caches,process_ids=false",
    ];
    let batches = server(8, 100_000);
    let fast = run_batches(&machines, &batches, false, 1);
    for (plain, threads) in [(true, 1), (false, 3)] {
        let other = run_batches(&machines, &batches, plain, threads);
        assert_eq!((&fast.result, &fast.entries), (&other.result, &other.entries), "plain {plain}, {threads} threads");
    }
    let paged = run_batches(&["ds13/segment"], &batches, false, 1);
    for i in [0, 1, 2, 4, 5] {
        assert_eq!(direct(fast.machine(i)), 0, "{}", machines[i]);
        assert!(variable(fast.machine(i)) > 0, "{}", machines[i]);
    }
    assert!(direct(fast.machine(3)) > 0, "the program has the registers");
    assert_eq!(fast.machine(3).counts, paged.machine(0).counts);
}

/// XC-8.
#[test]
fn all_machines_take_the_references_of_a_kernel() {
    let names: Vec<&str> = PRESETS.iter().map(|p| p.name).filter(|&name| name != "ds13/kernel").collect();
    let batches = server(8, 20_000);
    let (fast, plain) = (run_batches(&names, &batches, false, 1), run_batches(&names, &batches, true, 1));
    for (i, name) in names.iter().enumerate() {
        assert_eq!(fast.machine(i), plain.machine(i), "{name}");
    }
}

/// On every machine, the direct map takes none of the simulated memory.
#[test]
fn it_takes_no_frames() {
    let names: Vec<&str> = PRESETS.iter().map(|p| p.name).filter(|&name| name != "ds13/kernel").collect();
    let touched = |pages: u64| {
        let mut s = Stream::new();
        s.start().anon(0x1000, 512);
        map_direct(&mut s, 4096);
        // Some need the program counter (HW-6).
        s.fetch(0x400).loads((0..64).map(|k| 0x1000 + 8 * k)).loads((0..pages).map(|k| DIRECT + 3 * k));
        s.anon(0x2000, 64).loads(0x2000..0x2040);
        run_batches(&names, &s.batches, false, 1)
    };
    let (without, with) = (touched(0), touched(1200));
    for (i, name) in names.iter().enumerate() {
        let (without, with) = (without.machine(i), with.machine(i));
        assert_eq!(
            (&without.counts.os.page_faults, &without.compaction),
            (&with.counts.os.page_faults, &with.compaction),
            "{name}"
        );
        let frames = |m: &MachineResult| (m.memory.resident_bytes, m.memory.reserved_bytes, m.memory.wasted_bytes);
        assert_eq!(frames(without), frames(with), "{name}");
        assert!(without.memory.touched_bytes < with.memory.touched_bytes, "{name}");
    }
}

fn map_direct(s: &mut Stream, pages: u64) {
    s.map(DIRECT, pages, Prot::RW, true, Backing::Kernel);
}

/// DS13-43: the registers go to the program while it has a segment, and come back.
#[test]
fn shared_registers_hold_it_while_the_program_has_no_segment() {
    const HEAP: u64 = 0x1000;
    let machines =
        ["kernel_segment=shared", "kernel_segment=own", ""].map(|k| format!("ds13/segment:direct_map_page=4K,{k}"));
    // Misses of each machine in the direct map after each step, each over other pages, more than TLBs hold.
    let steps: [fn(&mut Stream); 4] = [
        |s| {
            s.start();
            map_direct(s, 1 << 20);
        },
        |s| _ = s.anon(HEAP, 1024),
        |s| _ = s.unmap(HEAP, 1024),
        |s| _ = s.op(Op::Fork { child: Asid(1) }).space(1),
    ];
    let mut stream = Stream::new();
    let mut before = [0; 3];
    let mut seen = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        step(&mut stream);
        stream.loads((0..2000).map(|k| DIRECT + 5000 * i as u64 + k));
        let outcome = run(&machines.each_ref().map(String::as_str), &stream);
        let now: [u64; 3] = std::array::from_fn(|m| direct(outcome.machine(m)));
        seen.push(std::array::from_fn(|m| now[m] - before[m]));
        before = now;
    }
    let (paged, held) = ([2000, 0, 2000], [0, 0, 2000]);
    // The child copies the mappings of the parent, of which there are none: it has the direct map as the parent has.
    assert_eq!(seen, [held, paged, held, held]);
}

/// VA = PA + constant, leaves as large as fit, no faults.
#[test]
fn frames_leaves_and_faults() {
    let mut s = Stream::new();
    // A large page and three base pages.
    s.start();
    map_direct(&mut s, 515);
    s.map(VARIABLE, 8, Prot::RW, true, Backing::Kernel);
    s.loads([DIRECT, DIRECT + 3, DIRECT + 511, DIRECT + 512, DIRECT + 514, VARIABLE]).store(DIRECT + 3);
    let leaves = "l1d=4K:8+2M:4,l1i=4K:8,l2=none";
    let machines = [format!("ds13/4k:{leaves}"), format!("ds13/4k:{leaves},direct_map_page=4K")];
    let outcome = run(&machines.each_ref().map(String::as_str), &s);
    let frames = |i: usize| -> Vec<(u64, u64)> {
        let kernel = outcome.frames(i).into_iter().filter(|(page, _)| (DIRECT..VARIABLE).contains(page));
        kernel.map(|(page, frame)| (page - DIRECT, frame - (3 << 34))).collect()
    };
    assert_eq!(frames(0), [0, 512, 514].map(|p| (p, p)), "a leaf is listed by its first page");
    assert_eq!(frames(1), [0, 3, 511, 512, 514].map(|p| (p, p)));
    assert_eq!([0, 1].map(|i| direct(outcome.machine(i))), [3, 5]);
    for i in [0, 1] {
        let machine = outcome.machine(i);
        assert_eq!((machine.counts.os.page_faults, machine.memory.resident_bytes), (1, 4096), "the variable mapping");
        assert_eq!(machine.memory.touched_bytes, 6 * 4096);
    }
    assert_eq!([0, 1].map(|i| outcome.machine(i).memory.mapped_bytes >> 12), [512 + 2 + 1, 5 + 1]);
}

/// Pages that leave the direct map are not translated by its registers; pages that become read-only fault on stores, in
/// both.
#[test]
fn the_segment_follows_its_mapping() {
    let mut s = Stream::new();
    s.start();
    map_direct(&mut s, 4096);
    s.loads((0..4096).map(|k| DIRECT + k)).unmap(DIRECT + 2048, 512).loads([
        DIRECT + 2047,
        DIRECT + 2048,
        DIRECT + 4095,
    ]);
    s.anon(DIRECT + 1024, 16).loads((1000..1100).map(|k| DIRECT + k));
    s.protect(DIRECT, 100, Prot { write: false, ..Prot::RW }).loads([DIRECT + 1]).store(DIRECT + 1);
    s.unmap(DIRECT, 1).loads([DIRECT + 1, DIRECT + 200]);
    let outcome = run(&[OWN, NONE], &s);
    let (own, none) = (outcome.machine(0), outcome.machine(1));
    assert_eq!(own.counts.os, none.counts.os);
    // Behind the hole, and behind the new mapping, it is paged.
    assert!((1..direct(none)).contains(&direct(own)), "{} of {}", direct(own), direct(none));
    assert_eq!(misses(own, "anonymous"), 16);
    assert_eq!((misses(own, "not mapped"), own.counts.os.wild_faults), (1, 1));
    assert_eq!(own.counts.os.forbidden_accesses, 1);
    assert_eq!(own.memory.resident_bytes, (16 + 1) * 4096);
}

/// Processes that fork, map and end, with a direct map in each, on systems that promote, collapse, compact, keep ranges
/// and have large pages.
#[test]
fn it_gets_on_with_every_policy() {
    let machines = [
        "ds13/segment:kernel_segment=own,process_ids=false",
        "ds13/segment:kernel_segment=shared,cores=3",
        "rmm15/range",
        "rmm15/thp:memory=8M,compaction=full",
        "t94/superpage",
        "ps/64k",
        "ds13/segment:kernel_segment=own,segment_fork=copy,direct_map_page=1G",
    ];
    for seed in 0..4 {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut below = |n: u64| rng.next_u64() % n;
        let mut s = Stream::new();
        let mut processes = RandomProcesses::new(&mut s, Prot::RW, seed % 2 == 0);
        map_direct(&mut s, 3000);
        for _ in 0..400 {
            if !processes.act(&mut s, &mut below) {
                continue;
            }
            if below(20) == 0 {
                s.unmap(DIRECT + below(3000), 1 + below(40));
            }
            if below(20) == 0 {
                map_direct(&mut s, 1000 + below(2000));
            }
            for _ in 0..below(12) {
                let page = if below(2) == 0 { 0x100 + below(700) } else { DIRECT + below(3000) };
                if below(3) == 0 {
                    s.store(page)
                } else {
                    s.load(page)
                };
            }
        }
        s.space(0).op(Op::End(End::Exit(0)));
        run(&machines, &s);
    }
}

#[test]
fn refusals() {
    for (keys, words) in [
        ("kernel_segment=own,guest=composed", ["kernel_segment = own", "guest = composed"]),
        ("kernel_segment=shared,guest=walk,segment_served_by=pages", ["kernel_segment = shared", "guest = walk"]),
        ("kernel_segment=own,segments=2,ranges=true", ["kernel_segment = own", "segments = 2"]),
        ("kernel_segment=both", ["kernel_segment", "none, shared, own"]),
        ("direct_map_page=3K", ["direct_map_page", "4K to 1G"]),
        ("page_size=64K,direct_map_page=4K", ["direct_map_page", "page_size"]),
    ] {
        let spec = MachineSpec::parse(&format!("ds13/segment:{keys}"), 0);
        let options = farreach_machine::Options::default();
        let error = match spec.and_then(|spec| farreach_machine::Lab::new(vec![spec], options)) {
            Ok(_) => panic!("{keys} is allowed"),
            Err(error) => error.to_string(),
        };
        assert!(words.iter().all(|word| error.contains(word)), "{keys}: {error}");
    }
}
