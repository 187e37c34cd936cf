//! Midgard on whole programs with everything a trace can have: forks, shared files, regions that come and go (MID-1 to
//! MID-4). In debug builds each VLB hit is compared with the regions, each MLB hit with the page table (XC-3).

use crate::common::{self, RandomProcesses, Stream};
use farreach_machine::{Lab, MachineSpec, Options};
use farreach_oracle::dice::{Dice, seeds};
use farreach_trace::generate;
use farreach_types::addr::Asid;
use farreach_types::counts::{MachineResult, RunResult};
use farreach_types::event::{Advice, Backing, End, Op, Prot};

const CACHES: &str = "cache_l1i=512/2,cache_l1d=512/2,cache_l2=2K/4,cache_llc=8K/8,cache_slices=2";

fn run(options: Options, seed: u64) -> RunResult {
    let specs = machines().iter().map(|m| MachineSpec::parse(m, options.seed).unwrap()).collect();
    let mut lab = Lab::new(specs, options).unwrap();
    lab.run(&mut generate::program(seed, 300)).unwrap();
    lab.finish().unwrap();
    lab.result("test", None)
}

fn machines() -> Vec<String> {
    let small = "vlb_l1i=2,vlb_l1d=3,vlb_l2=2";
    vec![
        format!("since/midgard:{CACHES},{small}"),
        format!("since/midgard:{CACHES},{small},process_ids=false,walker_reads=l2,mlb_entries=2,mlb_slices=2"),
        format!("since/midgard:{CACHES},mlb_entries=16,placement=thp"),
        "since/midgard".to_owned(),
    ]
}

/// MID-4's law, and what timelines and regions must add up to.
fn check(m: &MachineResult) {
    let (tlb, caches) = (&m.counts.tlb, m.caches.as_ref().unwrap());
    let count = |part, name| tlb.parts.count(part, name);
    let misses = caches.fetch.llc_misses + caches.data.llc_misses + count("front", "llc_misses");
    assert_eq!(count("back", "walks") + count("back", "mlb_hits"), misses, "{}", m.name);
    assert_eq!((tlb.misses, tlb.walk.walks), (tlb.fetch_misses + tlb.data_misses, tlb.misses));
    assert_eq!(tlb.misses, m.timeline.misses.iter().sum::<u64>());
    assert_eq!(tlb.misses, m.regions.iter().map(|r| r.fetch_misses + r.data_misses).sum::<u64>());
    assert!(tlb.lookups >= tlb.misses + tlb.second_level_fetch_hits + tlb.second_level_data_hits);
    assert!(m.system.is_none() && m.overhead.is_empty());
    // The price of both sides.
    let price = |key: &str| m.config[key].as_f64().unwrap();
    let mut cycles = 0.0;
    for (_, part) in tlb.parts.iter() {
        let a = &part.memory.answered;
        let levels = [(a.l1, "l1"), (a.l2, "l2"), (a.llc, "llc"), (a.memory, "memory")];
        cycles += levels.map(|(n, level)| n as f64 * price(&format!("cache_{level}_cycles"))).iter().sum::<f64>();
    }
    cycles += count("back", "mlb_hits") as f64 * price("mlb_cycles");
    assert_eq!(m.cost.walk_cycles, Some(cycles as u64), "{}", m.name);
    cycles += tlb.second_level_fetch_hits as f64 * price("l2_hit_fetch_cycles");
    cycles += tlb.second_level_data_hits as f64 * price("l2_hit_data_cycles");
    assert_eq!(m.cost.cycles, cycles as u64, "{}", m.name);
}

#[test]
fn mid_4_shortcuts_are_exact_and_laws_hold() {
    let mut flushed = 0;
    for seed in seeds(2) {
        for limit in [None, Some(3001)] {
            let with = |plain, threads| run(Options { limit, seed, plain, threads, ..Options::default() }, seed);
            let (fast, plain, threads) = (with(false, 1), with(true, 1), with(false, 3));
            for ((fast, plain), threads) in fast.machines.iter().zip(&plain.machines).zip(&threads.machines) {
                for other in [plain, threads] {
                    assert_eq!((&fast.counts, &fast.caches), (&other.counts, &other.caches), "seed {seed}");
                    assert_eq!((&fast.timeline, &fast.regions), (&other.timeline, &other.regions), "seed {seed}");
                }
                check(fast);
                flushed += fast.counts.tlb.parts.count("front", "flushed_lines");
            }
        }
    }
    assert!(flushed > 0);
}

/// Caches in which references reach the last level, which is large.
const LARGE: &str = "since/midgard:cache_l1i=64/1,cache_l1d=64/1,cache_l2=64/1,cache_llc=64M/16,cache_slices=1";

/// Walks of VMA tables, misses of the last level by data and by VMA tables, VLB entries dropped, lines flushed.
fn counts(stream: &Stream) -> [u64; 5] {
    let outcome = common::run(&[LARGE], stream);
    let machine = outcome.machine(0);
    check(machine);
    let (tlb, caches) = (&machine.counts.tlb, machine.caches.as_ref().unwrap());
    let front = |name| tlb.parts.count("front", name);
    [tlb.misses, caches.data.llc_misses, front("llc_misses"), tlb.invalidations, front("flushed_lines")]
}

/// A child has intervals of its own, but shares files; copies of pages concern nothing in front.
#[test]
fn mid_1_forks_and_files() {
    let mut s = Stream::new();
    s.start().anon(0x100, 10).file(0x200, 4, "/f");
    (0x100..0x10a).for_each(|page| _ = s.store(page));
    s.loads(0x200..0x204);
    assert_eq!(counts(&s), [2, 14, 2, 0, 0]);
    s.op(Op::Fork { child: Asid(1) }).space(1).loads(0x100..0x10a).loads(0x200..0x204);
    assert_eq!(counts(&s), [4, 24, 4, 0, 0], "the lines of the file are there");
    s.store(0x100).space(0).store(0x101).load(0x100);
    assert_eq!(counts(&s), [4, 24, 4, 0, 0], "copy-on-write");
    // The child's table has two lines of 48 entries; its private lines go with it, those of the file stay.
    s.space(1).op(Op::End(End::Exit(0)));
    let ended = counts(&s);
    assert_eq!((ended[4], ended[3]), (10, 14 + 2), "10 lines; 14 pages and 2 regions");
    s.space(0).loads(0x200..0x204);
    assert_eq!(counts(&s)[..3], [4, 24, 4]);
}

/// A heap grows in its interval, then moves; memory that is mapped again is other memory.
#[test]
fn mid_1_heaps_grow() {
    let mut s = Stream::new();
    s.start().map(0x100, 10, Prot::RW, false, Backing::Heap).loads(0x100..0x10a);
    assert_eq!(counts(&s), [1, 10, 2, 0, 0]);
    s.map(0x10a, 10, Prot::RW, false, Backing::Heap).loads(0x100..0x10a);
    assert_eq!(counts(&s), [2, 10, 2, 11, 0]);
    s.map(0x114, 1, Prot::RW, false, Backing::Heap).loads(0x100..0x10a);
    assert_eq!(counts(&s), [3, 20, 2, 22, 10]);
    s.unmap(0x100, 21).anon(0x100, 21).loads(0x100..0x10a);
    assert_eq!(counts(&s), [4, 30, 2, 33, 20]);
}

/// A stack grows downwards, and has room there once it has moved.
#[test]
fn mid_1_stacks_grow() {
    let mut s = Stream::new();
    s.start().map(0x100, 2, Prot::RW, false, Backing::Stack).loads([0x101]);
    s.map(0xff, 1, Prot::RW, false, Backing::Stack).loads([0x101]);
    assert_eq!(counts(&s), [2, 2, 2, 2, 1], "it moves");
    s.map(0xfc, 3, Prot::RW, false, Backing::Stack).loads([0x101]);
    assert_eq!(counts(&s), [3, 2, 2, 4, 1], "in place");
}

/// MID-4: pages that the program gives back, and those that move into a superpage.
#[test]
fn mid_4_pages_change() {
    let mut s = Stream::new();
    s.start().anon(0x200, 512).loads(0x200..0x240);
    let before = counts(&s);
    assert_eq!(before, [1, 64, 2, 0, 0]);
    s.op(Op::Advise { start: 0x200 << 12, len: 64 << 12, advice: Advice::DontNeed }).loads(0x200..0x240);
    assert_eq!(counts(&s), before, "regions and lines are as they were");
}

/// Random processes, on the machines of the first test.
#[test]
fn mid_4_random_processes() {
    for seed in seeds(10) {
        let mut dice = Dice::new(seed);
        let mut below = |n| dice.below(n);
        let mut s = Stream::new();
        let mut processes = RandomProcesses::new(&mut s, Prot::RW, true);
        for _ in 0..150 {
            if processes.act(&mut s, &mut below) {
                for _ in 0..8 {
                    let page = 0x100 + below(500);
                    _ = if below(3) == 0 { s.store(page) } else { s.load(page) };
                }
            }
        }
        let names = machines();
        let outcome = common::run(&names.iter().map(String::as_str).collect::<Vec<_>>(), &s);
        outcome.result.machines.iter().for_each(check);
    }
}
