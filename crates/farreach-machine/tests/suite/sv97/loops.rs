//! The loop of lines: shortcuts change nothing, both kinds of machines agree about the program, and the whole machine
//! counts as a plain model of the paper's pseudo-code does (SV97-1, SV97-4, SV97-25).

use super::world::{Table, system};
use farreach_hw::system::Item;
use farreach_machine::{Lab, MachineSpec, Options};
use farreach_oracle::dice::seeds;
use farreach_trace::generate;
use farreach_types::counts::{MachineResult, RunResult, SideCounts};
use farreach_types::event::{Kind, Source};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

fn run(machines: &[&str], mut source: impl Source, options: Options) -> RunResult {
    let specs = machines.iter().map(|m| MachineSpec::parse(m, options.seed).unwrap()).collect();
    let mut lab = Lab::new(specs, options).unwrap();
    lab.run(&mut source).unwrap();
    lab.result("test", None)
}

const MACHINES: [&str; 14] = [
    "sv97/softvm:l1_size=512,l2_size=4K",
    "sv97/softvm:l1_size=512,l2_size=4K,line=64,l2_line=128",
    "sv97/softvm:l1_size=1K,l2_size=8K,l1_ways=2,l2_ways=4,write_back=keep",
    "sv97/softvm:l1_size=1K,l2_size=8K,id_bits=2,lazy_raise=true",
    "sv97/softvm:l1_size=1K,l2_size=64K,id_bits=2,table=radix",
    "sv97/softvm:l1_size=512,l2_size=4K,table=hashed,buckets=16",
    "sv97/softvm:l1_size=512,l2_size=4K,table=clustered,synonyms=none",
    "sv97/softvm:l1_size=512,l2_size=4K,table=guarded,synonyms=aligned",
    "sv97/spur:l1_size=512,l2_size=4K",
    "sv97/vmp:l1_size=512,l2_size=4K",
    "sv97/mips:l1_size=512,l2_size=4K,entries=12",
    "sv97/mips:l1_size=512,l2_size=4K,entries=12,split=true,id_bits=2",
    "sv97/x86:l1_size=512,l2_size=4K,entries=8",
    "sv97/x86:l1_size=1K,l2_size=8K,entries=4,split=true,process_ids=true,line=32",
];

fn same(a: &MachineResult, b: &MachineResult, place: &str) {
    assert_eq!(a.system, b.system, "{place}: {}", a.name);
    assert_eq!(a.counts, b.counts, "{place}: {}", a.name);
    assert_eq!(a.memory, b.memory, "{place}: {}", a.name);
    assert_eq!(a.timeline, b.timeline, "{place}: {}", a.name);
    assert_eq!(a.regions, b.regions, "{place}: {}", a.name);
}

/// Skipping references to the line just touched, and leaving repetitions out of blocks, is exact: on programs with
/// everything a trace can have. In debug builds each line that is hit is compared with the page table (XC-3, CA-38).
#[test]
fn shortcuts_are_exact() {
    for seed in seeds(2) {
        for limit in [None, Some(3001)] {
            let options = |plain, threads| Options { limit, seed, plain, threads, ..Options::default() };
            let fast = run(&MACHINES, generate::program(seed, 300), options(false, 1));
            let plain = run(&MACHINES, generate::program(seed, 300), options(true, 1));
            let threads = run(&MACHINES, generate::program(seed, 300), options(false, 3));
            assert_eq!(fast.workload, plain.workload, "seed {seed}");
            for ((fast, plain), threads) in fast.machines.iter().zip(&plain.machines).zip(&threads.machines) {
                same(fast, plain, &format!("seed {seed}"));
                same(fast, threads, &format!("seed {seed}, on threads"));
            }
        }
    }
}

/// Machines that differ in the size of the first level alone are simulated as one: each counts what it counts by itself
/// and without shortcuts. First levels of one set to as large as the second level, second levels so small that much is
/// flushed and written back, handlers that displace the lines they serve, identifiers that run out, TLBs; and machines
/// that must not be put together, because their counts depend on the first level (lines with outdated protection, sets,
/// longer lines).
#[test]
fn a_family_is_exact() {
    let sizes = ["64", "256", "512", "1K", "2K", "8K", "64K"];
    let families = [
        ("softvm", "l2_size=1K"),
        ("softvm", "l2_size=8K"),
        ("softvm", "l2_size=64K,id_bits=2,write_back=keep"),
        ("softvm", "l2_size=4K,line=32,synonyms=aligned,table=radix"),
        ("softvm", "l2_size=4K,line=64,synonyms=none,handler_instructions=40"),
        ("spur", "l2_size=8K,id_bits=2"),
        ("vmp", "l2_size=8K"),
        ("mips", "l2_size=8K,entries=12"),
        ("mips", "l2_size=2K,entries=12,split=true,id_bits=2"),
        ("softvm", "l2_size=4K,lazy_raise=true"),
        ("softvm", "l2_size=4K,l2_line=64"),
        ("softvm", "l2_size=4K,l2_ways=2"),
        ("softvm", "l2_size=4K,l1_ways=0"),
        ("x86", "l2_size=4K,entries=8"),
    ];
    let mut machines = Vec::new();
    for (kind, keys) in families {
        // Not in order: the laboratory sorts them.
        machines.extend(sizes.iter().rev().map(|size| format!("sv97/{kind}:{keys},l1_size={size}")));
        machines[..].rotate_left(3);
    }
    let names: Vec<&str> = machines.iter().map(String::as_str).collect();
    for seed in seeds(1).map(|seed| seed + 20) {
        let options = |plain, threads| Options { seed, plain, threads, ..Options::default() };
        let together = run(&names, generate::program(seed, 200), options(false, 1));
        let threads = run(&names, generate::program(seed, 200), options(false, 3));
        let plain = run(&names, generate::program(seed, 200), options(true, 1));
        for (i, found) in together.machines.iter().enumerate() {
            same(found, &plain.machines[i], &format!("seed {seed}"));
            same(found, &threads.machines[i], &format!("seed {seed}, on threads"));
            if i % 4 == 1 {
                let alone = run(&names[i..=i], generate::program(seed, 200), options(false, 1));
                same(&alone.machines[0], found, &format!("seed {seed}, alone"));
            }
        }
        let counts = || together.machines.iter().filter_map(|m| m.system.as_ref());
        assert!(counts().all(|s| s.data.l1_misses > 0), "seed {seed}");
        assert!(counts().any(|s| s.flushed_lines > 100) && counts().any(|s| s.lazy_traps > 0), "seed {seed}");
        assert!(
            counts().any(|s| s.sweep_l1_changed > 0) && counts().any(|s| s.write_back.l1d_misses > 0),
            "seed {seed}"
        );
    }
}

/// Machines of both families in one run: the program, its faults and its memory are the same to both.
#[test]
fn both_families_see_the_same_program() {
    for seed in 0..4 {
        let options = Options { limit: Some(20_000), ..Options::default() };
        let both = run(&["sv97/softvm", "t94/single", "sv97/x86"], generate::program(seed, 500), options.clone());
        let alone = run(&["t94/single"], generate::program(seed, 500), options.clone());
        let lines = run(&["sv97/mips"], generate::program(seed, 500), options);
        assert_eq!(both.workload, alone.workload);
        assert_eq!(lines.workload, alone.workload);
        let single = &alone.machines[0];
        same(&both.machines[1], single, "beside others");
        for m in both.machines.iter().chain(&lines.machines) {
            assert_eq!((&m.counts.os, &m.memory), (&single.counts.os, &single.memory), "{}", m.name);
            assert_eq!(m.counts.tlb.lookups, single.counts.tlb.lookups);
            assert_eq!(m.timeline.slice_lookups, single.timeline.slice_lookups);
        }
    }
}

/// Identities of the counters, on real-looking programs.
#[test]
fn counts_add_up() {
    for seed in seeds(2).map(|seed| seed + 10) {
        let result = run(&MACHINES, generate::program(seed, 500), Options { seed, ..Options::default() });
        for m in &result.machines {
            let (s, t) = (m.system.as_ref().unwrap(), &m.counts.tlb);
            for side in [&s.fetch, &s.data] {
                assert_eq!(side.events.iter().sum::<u64>(), side.accesses, "{}", m.name);
                assert_eq!(side.events[2..].iter().sum::<u64>(), side.l1_misses, "{}", m.name);
                assert_eq!(side.events[4] + side.events[5], side.l2_misses, "{}", m.name);
            }
            assert!(s.fetch.accesses >= result.workload.references.fetch);
            assert_eq!(t.misses, t.fetch_misses + t.data_misses);
            assert_eq!(t.misses, m.timeline.misses.iter().sum::<u64>(), "{}", m.name);
            assert_eq!(t.misses, m.regions.iter().map(|r| r.fetch_misses + r.data_misses).sum::<u64>());
            let tlb_events = |e: &[u64; 6]| e[1] + e[3] + e[5];
            assert_eq!(tlb_events(&s.fetch.events) + tlb_events(&s.data.events), s.tlb_misses, "{}", m.name);
            if s.tlb_misses > 0 {
                assert_eq!(
                    (t.misses, s.handler.data_runs + s.handler.fetch_runs),
                    (s.tlb_misses, s.tlb_misses + s.tlb_root_misses)
                );
            } else {
                assert_eq!(t.misses, s.fetch.l2_misses + s.data.l2_misses, "{}", m.name);
            }
            let overhead: f64 = m.overhead.iter().map(|r| r.count as f64 * r.penalty).sum();
            assert_eq!(overhead.round() as u64, m.cost.cycles, "{}", m.name);
            // SV97-45: a share of all time, with an instruction per cycle and the program's own misses at 20 and 90.
            let instructions = result.workload.instructions as f64;
            let own = |s: &SideCounts| (20 * s.l1_misses + 90 * s.l2_misses) as f64;
            let (rest, spent) = (instructions + own(&s.fetch) + own(&s.data), m.cost.cycles as f64);
            let close = |found: Option<f64>, want: f64| (found.unwrap() / want - 1.0).abs() < 1e-9;
            assert!(close(m.cost.total_cycles_per_instruction, (rest + spent) / instructions), "{}", m.name);
            assert!(close(m.cost.percent_of_time, 100.0 * spent / (rest + spent)), "{}", m.name);
        }
    }
}

/// A plain direct-mapped, two-level cache: the line in each set.
#[derive(Default)]
struct Naive {
    l1: std::collections::HashMap<u64, u64>,
    l2: std::collections::HashMap<u64, (u64, bool)>,
}

const L1: u64 = 512 / 16;
const L2: u64 = 4096 / 16;

impl Naive {
    fn level(&mut self, line: u64, store: bool) -> u8 {
        let second = self.l2.get_mut(&(line % L2)).filter(|l| l.0 == line);
        let Some(second) = second else { return 3 };
        second.1 |= store;
        let first = self.l1.insert(line % L1, line);
        if first == Some(line) { 1 } else { 2 }
    }
    fn insert(&mut self, line: u64, store: bool) -> Option<u64> {
        let lost = self.l2.insert(line % L2, (line, store));
        if let Some((lost, _)) = lost
            && self.l1.get(&(lost % L1)) == Some(&lost)
        {
            self.l1.remove(&(lost % L1));
        }
        self.l1.insert(line % L1, line);
        lost.filter(|l| l.1).map(|l| l.0)
    }
}

/// The pseudo-code of SV97-25 with a write-through first level (which dirties the same second-level lines), over naive
/// caches.
struct Pseudo {
    sides: [Naive; 2],
    /// Chunks in registers, oldest load first; the identifier of every chunk touched.
    registers: [Option<u64>; 8],
    next: usize,
    ids: Vec<u64>,
    rows: [u64; 7],
    dirty: u64,
    pending: Vec<u64>,
    misses: [u64; 2],
    l1_misses: [u64; 2],
}

const CACHED: u64 = 0xFFFFF << 32;

impl Pseudo {
    fn enter(&mut self, chunk: u64) -> u64 {
        let id = self.ids.iter().position(|c| *c == chunk).unwrap_or_else(|| {
            self.ids.push(chunk);
            self.ids.len() - 1
        });
        if !self.registers.contains(&Some(chunk)) {
            let slot = self.registers.iter().position(Option::is_none).unwrap_or_else(|| {
                self.next += 1;
                (self.next - 1) % 8
            });
            self.registers[slot] = Some(chunk);
        }
        id as u64
    }
    fn put(&mut self, side: usize, line: u64, store: bool) {
        let lost = self.sides[side].insert(line, store);
        self.pending.extend(lost);
    }
    fn code(&mut self) {
        for line in (0..3).map(|i| (CACHED | 0xFF00_0300) / 16 + i) {
            let level = self.sides[0].level(line, false);
            self.rows[5] += u64::from(level > 1);
            if level == 3 {
                self.rows[6] += 1;
                self.put(0, line, false);
            }
        }
    }
    /// Steps 1 to 3 for the page of a global address.
    fn find(&mut self, side: usize, g: u64) {
        self.rows[1 - side] += 1;
        self.code();
        let u = (0x3FF << 42 | g >> 12 << 2) / 16;
        let level = self.sides[1].level(u, false);
        self.rows[2] += u64::from(level > 1);
        if level == 3 {
            self.rows[0] += 1;
            self.code();
            let id = (g >> 28) as usize;
            let slot = self.registers.iter().position(|r| *r == Some(self.ids[id]));
            let group = slot.map_or(0xFC00_0000 + id as u64 * 256, |s| 0xFF10_0000 + s as u64 * 256);
            let root = (CACHED | (group + (g >> 22 & 63) * 4)) / 16;
            let level = self.sides[1].level(root, false);
            self.rows[2] += u64::from(level > 1);
            if level == 3 {
                self.rows[3] += 1;
                self.put(1, root, false);
            }
            self.rows[4] += 1;
            self.put(1, u, false);
        }
    }
    fn reference(&mut self, kind: Kind, addr: u64) {
        let side = usize::from(kind != Kind::Fetch);
        let g = self.enter(addr >> 28) << 28 | addr & 0xFFF_FFFF;
        let store = kind == Kind::Store;
        let mut level = self.sides[side].level(g / 16, store);
        self.l1_misses[side] += u64::from(level > 1);
        self.misses[side] += u64::from(level > 2);
        while level == 3 {
            self.find(side, g);
            self.put(side, g / 16, store);
            while let Some(line) = self.pending.pop() {
                self.dirty += 1;
                let counted = self.rows;
                self.find(1, line * 16);
                self.rows = counted; // Those of write-backs are compared in sum by `dirty`.
            }
            level = self.sides[side].level(g / 16, store);
        }
    }
}

/// The handler's rows, misses and write-backs against the pseudo-code, on streams that fold 20 chunks into 8 registers.
#[test]
fn as_the_pseudo_code() {
    let mut random = Pcg64Mcg::seed_from_u64(3);
    let mut pseudo = Pseudo {
        sides: Default::default(),
        registers: [None; 8],
        next: 0,
        ids: Vec::new(),
        rows: [0; 7],
        dirty: 0,
        pending: Vec::new(),
        misses: [0; 2],
        l1_misses: [0; 2],
    };
    let mut machine = system("sv97/softvm:l1_size=512,l2_size=4K", false);
    machine.switch(farreach_types::addr::Asid(0));
    let mut pc = 0x40_0000u64;
    for _ in 0..60_000 {
        pc = if random.random_range(0..12) == 0 { 0x40_0000 + random.random_range(0..2000u64) * 16 } else { pc + 4 };
        let chunk = [0, 0, 0, 1, 1, 2, random.random_range(0..20u64)][random.random_range(0..7)];
        let addr = (chunk << 33) | (random.random_range(0..40u64) * random.random_range(1..3000) * 16);
        let kind = if random.random_range(0..3) == 0 { Kind::Store } else { Kind::Load };
        let mut span = vec![Item::new(Kind::Fetch, pc)];
        if random.random_range(0..3) == 0 {
            span.push(Item::new(kind, addr));
        }
        for item in &span {
            pseudo.reference(item.kind(), item.piece() * 16);
        }
        machine.run(farreach_types::addr::Asid(0), &span, &Table::default());
    }
    let c = machine.counts(0, [1 << 40; 2]);
    let h = &c.handler;
    let rows = [h.data_runs, h.fetch_runs, h.l1d_misses, h.l2d_misses, h.upte_loads, h.l1i_misses, h.l2i_misses];
    assert_eq!((rows, c.dirty_victims), (pseudo.rows, pseudo.dirty));
    assert_eq!([c.fetch.l1_misses, c.data.l1_misses], pseudo.l1_misses);
    assert_eq!([c.fetch.l2_misses, c.data.l2_misses], pseudo.misses);
    assert!(rows.iter().all(|n| *n > 100) && c.segment_loads > 100 && c.dirty_victims > 1000, "{rows:?}");
}
