//! Walkers that read through caches (`walk_cost = caches`): micro-traces by hand, a plain model on random streams, and
//! a check that nothing else changes.

use crate::common::{RandomProcesses, Stream, run};
use farreach_cost::overhead::Measured;
use farreach_machine::{Lab, MachineSpec, Options};
use farreach_types::counts::{Answered, CacheCounts, LineCounts, MachineResult, WalkCaches};
use farreach_types::event::{Backing, Blocks, Item, Kind, Prot};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::HashMap;

fn machine(keys: &str, s: &Stream) -> MachineResult {
    run(&[&format!("ds13/4k:walk_cost=caches,{keys}")], s).machine(0).clone()
}

/// References to page table, directory, pointer table and fourth level, and the levels that answered them: l1, l2, llc,
/// memory.
fn answered(m: &MachineResult) -> [[u64; 4]; 4] {
    let WalkCaches { pt, pd, pdpt, pml4, .. } = &m.counts.tlb.walk_caches;
    [pt, pd, pdpt, pml4].map(|a| [a.l1, a.l2, a.llc, a.memory])
}

#[test]
fn a_cold_walk_and_its_neighbours() {
    let walks = |keys: &str, pages: &[u64]| {
        let mut s = Stream::new();
        s.start().anon(0x1000, 0x1000).loads(pages.iter().copied());
        machine(keys, &s)
    };
    const COLD: [u64; 4] = [0, 0, 0, 1];
    const L1: [u64; 4] = [1, 0, 0, 0];
    let sum = |rows: &[[u64; 4]]| rows.iter().fold([0; 4], |s, r| std::array::from_fn(|i| s[i] + r[i]));
    let m = walks("", &[0x1000]);
    assert_eq!(answered(&m), [COLD; 4]);
    assert_eq!(m.cost.walk_cycles, Some(4 * 200));
    let one = LineCounts { accesses: 1, l1_misses: 1, l2_misses: 1, llc_misses: 1 };
    assert_eq!(m.caches, Some(CacheCounts { data: one, ..CacheCounts::default() }));
    // The next page: all in the same lines. Eight pages on: another line of the same page table.
    assert_eq!(answered(&walks("", &[0x1000, 0x1001])), [sum(&[COLD, L1]); 4]);
    let m = walks("", &[0x1000, 0x1008]);
    assert_eq!(answered(&m), [sum(&[COLD, COLD]), sum(&[COLD, L1]), sum(&[COLD, L1]), sum(&[COLD, L1])]);
    assert_eq!(m.cost.walk_cycles, Some(5 * 200 + 3 * 4));
    // Another page table, whose entry stands in the same line of the directory; then one in the next line.
    let m = walks("", &[0x1000, 0x1200]);
    assert_eq!(answered(&m), [sum(&[COLD, COLD]), sum(&[COLD, L1]), sum(&[COLD, L1]), sum(&[COLD, L1])]);
    let m = walks("", &[0x1e00, 0x2000]);
    assert_eq!(answered(&m)[..2], [sum(&[COLD, COLD]), sum(&[COLD, COLD])]);
    // A walk cache skips the levels above: they are not read, and are in no cache.
    let m = walks("pwc_pd=4", &[0x1000, 0x1008, 0x1001]);
    assert_eq!(answered(&m), [sum(&[COLD, COLD, L1]), COLD, COLD, COLD]);
    assert_eq!(m.counts.tlb.walk.pd_cache_hits, 2);
    // Below the first level.
    let m = walks("walker_reads=l2", &[0x1000, 0x1001]);
    assert_eq!(answered(&m), [[0, 1, 0, 1]; 4]);
    assert_eq!(m.cost.walk_cycles, Some(4 * 200 + 4 * 12));
}

/// The program evicts the lines of the tables: five lines in a cycle, and caches of two, four, five.
#[test]
fn program_and_walker_share_the_caches() {
    let mut s = Stream::new();
    s.start().anon(0x1000, 0x1000).loads([0x1000, 0x1001]);
    let m = machine("cache_l1d=128/2,cache_l2=256/4,cache_llc=none", &s);
    assert_eq!(answered(&m), [[0, 0, 0, 2]; 4], "LRU, one way too few");
    let m = machine("cache_l1d=128/2,cache_l2=320/5,cache_llc=none", &s);
    assert_eq!(answered(&m), [[0, 1, 0, 1]; 4]);
    let m = machine("cache_l1d=128/2,cache_l2=256/4,cache_llc=320/5,cache_slices=1", &s);
    assert_eq!(answered(&m), [[0, 0, 1, 1]; 4]);
    assert_eq!(m.cost.walk_cycles, Some(4 * 200 + 4 * 30));
    // A store is written back when its line is evicted: here by an eviction from the last level.
    let mut s = Stream::new();
    s.start().anon(0x1000, 0x1000).store(0x1000).loads([0x1001, 0x1002]);
    let m = machine("cache_llc=320/5,cache_slices=1", &s);
    assert_eq!(m.caches.unwrap().memory_writes, 1);
}

/// RMM15-7, RMM15-9: the search of the range table reads both lines of each node it visits.
#[test]
fn rmm15_7_range_tables_are_in_memory_too() {
    let mut s = Stream::new();
    s.start();
    // Protection parts the ranges: nine of 16 pages make two levels, four nodes in all.
    for i in 0..9 {
        let prot = if i % 2 == 0 { Prot::RW } else { Prot { write: false, ..Prot::RW } };
        s.map(0x1000 + 16 * i, 16, prot, false, Backing::Anonymous);
    }
    s.loads((0..9).map(|i| 0x1000 + 16 * i)).loads((0..9).map(|i| 0x1001 + 16 * i));
    let out = run(&["rmm15/range:walk_cost=caches,range_entries=1,l1d=4K:1,l2=none"], &s);
    let tlb = &out.machine(0).counts.tlb;
    assert_eq!((tlb.range.walks, tlb.misses), (18, 18));
    let nodes = &tlb.walk_caches.range_table;
    assert_eq!(nodes.total(), 2 * tlb.range.nodes);
    assert_eq!(
        (nodes.memory % 2, nodes.l1),
        (0, nodes.total() - nodes.memory),
        "what was read once is in the first level"
    );
    assert!((6..=10).contains(&nodes.memory), "three to five nodes: {nodes:?}");
    let cycles = out.machine(0).cost.walk_cycles.unwrap();
    let a = tlb.walk_caches.page_tables();
    assert_eq!(cycles, 4 * a.l1 + 12 * a.l2 + 30 * a.llc + 200 * a.memory, "RMM15-5: the search costs nothing");
}

/// DS13-32: walk cycles as counters would show them are those that the machine was charged, at any level that answered
/// its walkers.
#[test]
fn counters_show_what_the_caches_charged() {
    let mut s = Stream::new();
    s.start().anon(0x1000, 0x1000).fetch(0x1fff).loads((0x1000..0x1400).step_by(16));
    let out = run(&["ds13/4k:walk_cost=caches"], &s);
    let (m, tlb) = (out.machine(0), &out.machine(0).counts.tlb);
    let shown = Measured::of(m, &out.result.workload).expect("it walks");
    let charged = m.cost.walk_cycles.unwrap() as f64;
    assert_eq!((tlb.misses, tlb.data_misses, shown.walks), (65, 64, 64.0));
    assert!((shown.walk_cycles - charged * 64.0 / 65.0).abs() < 1e-6, "{shown:?}, {charged}");
}

/// Processes that map, unmap, protect, advise, fork, fetch and touch all over their pages.
fn stream(seed: u64, steps: u64) -> Stream {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut below = move |n: u64| rng.random_range(0..n);
    let mut s = Stream::new();
    let mut processes = RandomProcesses::new(&mut s, Prot::RWX, false);
    for _ in 0..steps {
        if !processes.act(&mut s, &mut below) {
            continue;
        }
        for _ in 0..60 {
            // Some references cross a line, some a page.
            let addr = (0x100 + below(0x300)) << 12 | if below(6) == 0 { 4090 } else { below(8) * 64 + below(64) };
            match below(5) {
                0 => _ = s.fetch(0x100 + below(0x40)),
                n => s.batches.last_mut().unwrap().push_block(1 + (n == 1) as u32, &[addr]),
            }
        }
    }
    s
}

#[test]
fn the_tlb_counts_what_it_counts_without_caches() {
    let small = "cache_l1i=1K/2,cache_l1d=1K/2,cache_l2=4K/4,cache_llc=8K/8,cache_slices=3";
    let machines = [
        "ds13/4k:l1d=4K:16/4,l2=4K:64/4",
        "ds13/4k:pwc_pd=2,pwc_pdpt=2,pwc_pml4=1,walk_levels=5,l1d=4K:4,l1i=4K:4,l2=none",
        "ds13/4k:replacement=fifo,l1d=4K:8,l2=4K:32",
        "ds13/4k:replacement=random,l1d=4K:8,l2=4K:32",
        "ds13/4k:process_ids=false",
        "rmm15/thp:l1d=4K:8+2M:4,memory=64M",
        "rmm15/range:range_entries=4,l1d=4K:8,l2=4K:32,memory=64M",
        "rmm15/range:range_entries=4,l1d=4K:8,l2=4K:32,memory=64M,range_order=serial,range_control=counters,\
         range_hint=predictor",
        "rmm15/clustered:cluster_entries=8,l1d=4K:8,memory=64M",
        "rmm15/colt-fa:l1d=4K:8,l2=4K:32,memory=64M",
        "ds13/segment:segment_memory=2M,memory=64M,admit_min=64K,l1d=4K:8,l2=none",
        "today/zen2:l1d=4K|16K:8+2M:4+1G:4",
    ];
    for seed in 0..2 {
        let s = stream(seed, 60);
        let texts: Vec<String> =
            machines.iter().flat_map(|m| [m.to_string(), format!("{m},walk_cost=caches,{small}")]).collect();
        let out = run(&texts.iter().map(String::as_str).collect::<Vec<_>>(), &s);
        for pair in out.result.machines.chunks(2) {
            let [fixed, caches] = pair else { unreachable!() };
            let mut tlb = caches.counts.tlb.clone();
            let by_level = std::mem::take(&mut tlb.walk_caches);
            assert_eq!(tlb, fixed.counts.tlb, "{}", caches.name);
            assert_eq!((&caches.counts.os, &caches.memory), (&fixed.counts.os, &fixed.memory), "{}", caches.name);
            assert_eq!(caches.regions, fixed.regions, "{}", caches.name);
            assert_eq!(caches.ideal_segment, fixed.ideal_segment, "{}", caches.name);
            let WalkCaches { pt, pd, pdpt, pml4, pml5, host, range_table } = by_level;
            assert_eq!(host, Answered::default(), "{}", caches.name);
            let w = &tlb.walk;
            let nodes = [w.pt_references, w.pd_references, w.pdpt_references, w.pml4_references, w.pml5_references];
            assert_eq!([pt, pd, pdpt, pml4, pml5].map(|a| Answered::total(&a)), nodes, "{}", caches.name);
            assert_eq!(range_table.total(), 2 * tlb.range.nodes, "{}", caches.name);
            assert!(tlb.misses > 100, "{}: {} misses", caches.name, tlb.misses);
        }
    }
}

/// A cache as a list of sets, each a list of lines with their modified bit, the most recent last.
struct Plain {
    ways: usize,
    sets: Vec<Vec<(u64, bool)>>,
}

impl Plain {
    fn new(lines: usize, ways: usize) -> Plain {
        Plain { ways, sets: vec![Vec::new(); lines / ways] }
    }
    fn set(&mut self, line: u64) -> &mut Vec<(u64, bool)> {
        let n = self.sets.len() as u64;
        &mut self.sets[(line % n) as usize]
    }
    fn remove(&mut self, line: u64) -> Option<(u64, bool)> {
        let set = self.set(line);
        let at = set.iter().position(|l| l.0 == line)?;
        Some(set.remove(at))
    }
    /// A reference: whether the line was there.
    fn touch(&mut self, line: u64, store: bool) -> bool {
        let found = self.remove(line);
        if let Some((_, dirty)) = found {
            self.set(line).push((line, dirty | store));
        }
        found.is_some()
    }
    /// Inserts a line, and returns the evicted one.
    fn put(&mut self, line: u64, dirty: bool) -> Option<(u64, bool)> {
        let ways = self.ways;
        let set = self.set(line);
        set.push((line, dirty));
        (set.len() > ways).then(|| set.remove(0))
    }
    fn mark(&mut self, line: u64) -> bool {
        self.set(line).iter_mut().find(|l| l.0 == line).map(|l| l.1 = true).is_some()
    }
}

/// Caches, tables and TLBs of one entry to a side: a walk wherever the page is not that of the reference before.
struct Model {
    l1: [Plain; 2],
    l2: Plain,
    llc: Vec<Plain>,
    through_l1: bool,
    nodes: HashMap<(u32, u32, u64), u64>,
    free: Vec<u64>,
    frames: HashMap<(u32, u64), u64>,
    pages: [Option<(u32, u64)>; 2],
    walks: [[u64; 4]; 4],
    misses: [[u64; 4]; 2],
    writes: u64,
}

impl Model {
    fn slice(&mut self, line: u64) -> &mut Plain {
        let n = self.llc.len() as u64;
        &mut self.llc[((line.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % n) as usize]
    }
    fn second(&mut self, line: u64) -> usize {
        if self.l2.touch(line, false) {
            return 1;
        }
        let mut at = 3;
        if !self.llc.is_empty() {
            if self.slice(line).touch(line, false) {
                at = 2;
            } else if let Some((gone, mut dirty)) = self.slice(line).put(line, false) {
                for cache in self.l1.iter_mut().chain([&mut self.l2]) {
                    dirty |= cache.remove(gone).is_some_and(|l| l.1);
                }
                self.writes += u64::from(dirty);
            }
        }
        self.fill_second(line, false);
        at
    }
    fn fill_second(&mut self, line: u64, dirty: bool) {
        if let Some((gone, true)) = self.l2.put(line, dirty) {
            match self.llc.is_empty() {
                true => self.writes += 1,
                false => assert!(self.slice(gone).mark(gone)),
            }
        }
    }
    fn first(&mut self, side: usize, line: u64, store: bool) -> usize {
        if self.l1[side].touch(line, store) {
            return 0;
        }
        let at = self.second(line);
        if let Some((gone, true)) = self.l1[side].put(line, store)
            && !self.l2.mark(gone)
        {
            self.fill_second(gone, true);
        }
        at
    }
    fn reference(&mut self, asid: u32, kind: Kind, addr: u64, size: u64) {
        let side = usize::from(kind != Kind::Fetch);
        for line in addr >> 6..=(addr + size - 1) >> 6 {
            let page = line >> 6;
            // Demand paging on fresh memory: frames ascend.
            let next = self.frames.len() as u64;
            let frame = *self.frames.entry((asid, page)).or_insert(next);
            if self.pages[side] != Some((asid, page)) {
                self.pages[side] = Some((asid, page));
                for level in (0..4u32).rev() {
                    let next = self.nodes.len() as u64;
                    let node = (asid, level, page >> (9 * (level + 1)));
                    let free = &mut self.free;
                    let at = *self.nodes.entry(node).or_insert_with(|| free.pop().unwrap_or(next));
                    let line = (1u64 << 46) + at * 64 + (page >> (9 * level) & 511) / 8;
                    let found = if self.through_l1 { self.first(1, line, false) } else { self.second(line) };
                    self.walks[level as usize][found] += 1;
                }
            }
            let found = self.first(side, frame << 6 | line & 63, kind == Kind::Store);
            (0..=found).for_each(|level| self.misses[side][level] += 1);
        }
    }
}

#[test]
fn xc_3_a_plain_model_of_caches_and_tables() {
    for seed in 0..6 {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut below = move |n: u64| rng.random_range(0..n);
        let mut s = Stream::new();
        s.start();
        // Pages close together and far apart, of two processes that never end.
        let pages: Vec<u64> = (0..40).map(|i| if i < 25 { 0x1000 + 3 * i } else { below(1 << 36) }).collect();
        for _ in 0..4000 {
            if below(40) == 0 {
                s.space(below(2) as u32);
            }
            let page = pages[below(40) as usize];
            let addr = page << 12 | if below(9) == 0 { 4092 } else { below(6) * 64 + below(64) };
            match below(4) {
                0 => _ = s.fetch(page),
                n => s.batches.last_mut().unwrap().push_block(1 + (n == 1) as u32, &[addr]),
            }
        }
        let (slices, reads) = ([1, 3, 0][seed as usize % 3], if seed % 2 == 0 { "l1d" } else { "l2" });
        let llc = if slices == 0 { "none".into() } else { format!("4K/4,cache_slices={slices}") };
        let keys = format!(
            "walk_cost=caches,l1d=4K:1,l1i=4K:1,l2=none,cache_l1i=512/2,cache_l1d=1K/2,cache_l2=2K/4,\
             walker_reads={reads},cache_llc={llc}"
        );
        let out = run(&[&format!("ds13/4k:{keys}")], &s);
        let mut model = Model {
            l1: [Plain::new(8, 2), Plain::new(16, 2)],
            l2: Plain::new(32, 4),
            llc: (0..slices).map(|_| Plain::new(64, 4)).collect(),
            through_l1: reads == "l1d",
            nodes: HashMap::new(),
            free: Vec::new(),
            frames: HashMap::new(),
            pages: [None; 2],
            walks: [[0; 4]; 4],
            misses: [[0; 4]; 2],
            writes: 0,
        };
        let mut blocks = Blocks::default();
        for batch in &s.batches {
            let each = |item: Item| {
                if let Item::Access(a) = item {
                    model.reference(batch.asid.0, a.kind, a.addr, a.size.into());
                }
                true
            };
            blocks.expand(batch, each).unwrap();
        }
        let m = out.machine(0);
        assert_eq!(answered(m), model.walks, "seed {seed}");
        let caches = m.caches.clone().unwrap();
        let sides = [caches.fetch, caches.data].map(|c| [c.accesses, c.l1_misses, c.l2_misses, c.llc_misses]);
        assert_eq!(sides, model.misses, "seed {seed}");
        assert_eq!(caches.memory_writes, model.writes, "seed {seed}");
        let busy = |levels: &[usize]| levels.iter().all(|&i| model.walks[0][i] > 20);
        assert!(busy(if reads == "l1d" { &[0, 1, 3] } else { &[1, 3] }), "{:?}", model.walks);
    }
}

#[test]
fn what_caches_cannot_do_is_refused_with_a_reason() {
    for (text, words) in [
        ("ds13/4k:walk_cost=caches,cache_l2=256K", ["cache_l2 = 256K", "SIZE/WAYS"]),
        ("ds13/4k:walk_cost=caches,cache_llc=3M/4", ["cache_llc = 3M/4", "power of two"]),
        ("ds13/4k:walk_cost=caches,split=true", ["split = true", "sides"]),
        ("rmm15/range:walk_cost=caches,range_order=first", ["range_order = first", "walk_cost"]),
        ("rmm15/range:walk_cost=caches,range_table=list", ["range_table = list", "B-tree"]),
    ] {
        let spec = MachineSpec::parse(text, 1).unwrap();
        let error = Lab::new(vec![spec], Options::default()).err().expect(text).to_string();
        assert!(words.iter().all(|w| error.contains(w)), "{error}");
    }
}
