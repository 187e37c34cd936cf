//! Virtual machines: walks of two dimensions, against the formula and a plain count; counts that must equal those
//! without a host; segments of guests and hosts, and their traps; refused combinations. Covers DS13-40, DS13-41,
//! DS13-42, F-1, F-15; CA-29.

use crate::common::{Outcome, RandomProcesses, Stream, run};
use farreach_hw::nested::{Dimension, references, walk};

use farreach_hw::cache::NodeRead;
use farreach_hw::tlb::{Lookup, Tlb, Unfiltered};
use farreach_machine::{Lab, MachineSpec, Options};
use farreach_oracle::driver::tlb;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::{HostWalkCounts, TlbCounts};
use farreach_types::event::{Backing, End, Kind, Op, Prot};
use farreach_types::translation::{Attr, PageTableView, Pte};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::HashMap;

/// The six ways of DS13-40 to DS13-42: native; page tables in both dimensions; a segment from guest physical to system
/// memory; one from guest virtual to guest physical; both; and one composed of both.
const SIX: [&str; 6] = [
    "ds13/4k",
    "ds13/4k:guest=walk",
    "ds13/4k:guest=walk,host=segment",
    "ds13/segment:guest=segment",
    "ds13/segment:guest=segment,host=segment",
    "ds13/segment:guest=composed",
];

fn tlbs(out: &Outcome) -> Vec<&TlbCounts> {
    out.result.machines.iter().map(|m| &m.counts.tlb).collect()
}

#[test]
fn ca_29_references_for_a_page_that_no_tlb_has() {
    let mut s = Stream::new();
    s.start().anon(0x1000, 0x1000).load(0x1000);
    let out = run(&SIX, &s);
    let tlbs = tlbs(&out);
    assert_eq!(tlbs.iter().map(|t| t.walk_references()).collect::<Vec<_>>(), [4, 24, 4, 4, 0, 0]);
    assert_eq!(
        tlbs.iter().map(|t| t.misses).collect::<Vec<_>>(),
        [1, 1, 1, 1, 0, 0],
        "a segment that leads to the end has no miss"
    );
    assert_eq!(tlbs.iter().map(|t| t.segment.traps).collect::<Vec<_>>(), [0, 0, 0, 0, 0, 3], "F-15: only one traps");
    let cycles: Vec<_> = out.result.machines.iter().map(|m| m.cost.walk_cycles.unwrap_or(0)).collect();
    assert_eq!(cycles, [4, 24, 4, 4, 0, 0].map(|n| 12 * n));
    let os = |i: usize| out.machine(i).cost.os_cycles;
    assert_eq!(os(5) - os(4), 3 * 2000, "the hypervisor's part");
    assert_eq!(tlbs[1].host_walk, HostWalkCounts { walks: 5, references: 20, nested_tlb_hits: 0 });
    assert_eq!(tlbs[3].segment.misses_inside, 1);
    // AMB-63: fetches are not served, and walk in as many dimensions as there are tables.
    let mut s = Stream::new();
    s.start().anon(0x1000, 0x1000).load(0x1000).fetch(0x7000);
    let both = run(&SIX, &s);
    let fetched = tlbs.iter().zip(self::tlbs(&both)).map(|(data, all)| all.walk_references() - data.walk_references());
    assert_eq!(fetched.collect::<Vec<_>>(), [4, 24, 4, 24, 4, 24]);
}

/// Every page is mapped, in mappings of one order.
struct Uniform(u8);

impl PageTableView for Uniform {
    fn pte(&self, _: Asid, vpn: Vpn) -> Option<Pte> {
        Some(Pte { pfn: vpn_frame(vpn), attr: Attr(3), order: self.0 })
    }
}

fn vpn_frame(vpn: Vpn) -> Pfn {
    Pfn(vpn.0 + (1 << 30))
}

fn load(design: &mut dyn Tlb, table: &dyn PageTableView, vpn: u64) {
    let at = Lookup { asid: Asid(0), vpn: Vpn(vpn), kind: Kind::Load };
    let pte = table.pte(at.asid, at.vpn).unwrap();
    design.access(at, pte, table, &mut Unfiltered::default());
    assert_eq!(design.probe(at.asid, at.vpn, at.kind).map(|t| t.pfn), Some(pte.pfn), "XC-3");
}

#[test]
fn ds13_42_leaves_of_all_sizes_in_both_dimensions() {
    for (guest, order) in [(0u64, 0u8), (1, 9), (2, 18)] {
        for (host, page) in [(0u64, "4K"), (1, "2M"), (2, "1G")] {
            for (levels, host_levels) in [(4, 4), (5, 4), (4, 5), (5, 5)] {
                let keys = format!(
                    "guest=walk,host_page={page},host_levels={host_levels},walk_levels={levels},walk_cost=caches"
                );
                let mut design = tlb("hierarchy", &keys);
                load(&mut *design, &Uniform(order), 5);
                let [g, h] = [levels - guest, host_levels - host].map(|levels| Dimension::Walk { levels });
                assert_eq!(design.counts().walk_references(), references(g, h), "{keys}, order {order}");
                // In the order in which they must be made: a node cannot be read before its address is known.
                let made = design.port().unwrap().recorded().map(|r| r.level == NodeRead::HOST);
                let steps = walk(g, h).into_iter().map(|s| matches!(s, farreach_hw::nested::Step::Host { .. }));
                assert!(made.eq(steps), "{keys}, order {order}");
                // A TLB entry is no larger than the smaller leaf, unless `host_fracture = false`.
                let entry = |design: &dyn Tlb| design.entries().iter().map(|e| e.order).max().unwrap();
                assert_eq!(u64::from(entry(&*design)), 9 * guest.min(host), "{keys}, order {order}");
                let mut whole = tlb("hierarchy", &format!("{keys},host_fracture=false"));
                load(&mut *whole, &Uniform(order), 5);
                assert_eq!(entry(&*whole), order);
            }
        }
    }
}

/// Mappings of 4 KB, 2 MB and 1 GB by gigabyte, of two processes.
struct Mixed;

impl PageTableView for Mixed {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        let order = [0, 9, 18][(vpn.0 >> 18) as usize % 3];
        // Base pages are scattered; the others only shifted.
        let scatter = if order == 0 { vpn.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44 } else { vpn.0 + (1 << 22) };
        Some(Pte { pfn: Pfn(scatter + (u64::from(asid.0) << 34)), attr: Attr(3), order })
    }
}

/// A list, the most recently used last.
#[derive(Default)]
struct Recent(Vec<(u32, u64)>);

impl Recent {
    fn touch(&mut self, what: (u32, u64)) -> bool {
        let at = self.0.iter().position(|w| *w == what);
        let found = at.map(|at| self.0.remove(at)).is_some();
        if found {
            self.0.push(what);
        }
        found
    }
    fn put(&mut self, what: (u32, u64), most: usize) {
        self.0.push(what);
        if self.0.len() > most {
            self.0.remove(0);
        }
    }
}

/// Walks in two dimensions, counted plainly. Its TLB is the page looked up last.
#[derive(Default)]
struct Plain {
    levels: u32,
    host_levels: u32,
    host_leaf: u32,
    /// Entries of the walk caches for levels 1 to 4.
    sizes: [usize; 4],
    nested: usize,
    last: Option<(u32, u64)>,
    caches: [Recent; 4],
    nested_tlb: Recent,
    guest_nodes: HashMap<(u32, u32, u64), u64>,
    free: Vec<u64>,
    host_nodes: HashMap<(u32, u64), u64>,
    reads: Vec<(u8, u64)>,
    by_level: [u64; 5],
    cache_hits: [u64; 5],
    host: HostWalkCounts,
}

impl Plain {
    fn translate(&mut self, frame: u64) {
        let page = (0, frame >> (9 * self.host_leaf));
        if self.nested_tlb.touch(page) {
            self.host.nested_tlb_hits += 1;
            return;
        }
        if self.nested > 0 {
            self.nested_tlb.put(page, self.nested);
        }
        self.host.walks += 1;
        for level in (self.host_leaf..self.host_levels).rev() {
            self.host.references += 1;
            let next = (1 << 40) + self.host_nodes.len() as u64;
            let node = *self.host_nodes.entry((level, frame >> (9 * level + 9))).or_insert(next);
            self.reads.push((6, node << 12 | (frame >> (9 * level) & 511) << 3));
        }
    }

    fn lookup(&mut self, asid: u32, vpn: u64, pte: Pte) {
        if self.last.replace((asid, vpn)) == Some((asid, vpn)) {
            return;
        }
        let leaf = u32::from(pte.order) / 9;
        let part = |level: u32| (asid, vpn >> (9 * level));
        let found = (leaf + 1..self.levels).find(|&level| self.caches[level as usize - 1].touch(part(level)));
        if let Some(level) = found {
            self.cache_hits[level as usize] += 1;
        }
        for level in (leaf..found.unwrap_or(self.levels)).rev() {
            let fresh = (1 << 35) + self.guest_nodes.len() as u64 + self.free.len() as u64;
            let key = (asid, level, vpn >> (9 * level + 9));
            let node = match self.guest_nodes.get(&key) {
                Some(node) => *node,
                None => {
                    // The lowest free node, or a new one.
                    let lowest = (0..self.free.len()).min_by_key(|&i| self.free[i]);
                    let node = lowest.map_or(fresh, |i| self.free.remove(i));
                    self.guest_nodes.insert(key, node);
                    node
                }
            };
            if found != Some(level + 1) {
                self.translate(node);
            }
            self.by_level[level as usize] += 1;
            self.reads.push((level as u8, node << 12 | (vpn >> (9 * level) & 511) << 3));
            if level > leaf && self.sizes[level as usize - 1] > 0 {
                self.caches[level as usize - 1].put(part(level), self.sizes[level as usize - 1]);
            }
        }
        self.translate(pte.pfn.0);
    }

    fn forget(&mut self, asid: u32) {
        self.caches.iter_mut().for_each(|cache| cache.0.retain(|(of, _)| *of != asid));
        self.last = self.last.filter(|(of, _)| *of != asid);
    }

    fn gone(&mut self, asid: u32) {
        self.forget(asid);
        let left = self.guest_nodes.iter().filter(|((of, ..), _)| *of == asid).map(|(_, node)| *node);
        self.free.extend(left);
        self.guest_nodes.retain(|(of, ..), _| *of != asid);
    }
}

#[test]
fn f_1_a_plain_count_of_random_walks() {
    let (mut cached, mut nested_hits) = (0, 0);
    for seed in farreach_oracle::dice::seeds(24) {
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x766d);
        let mut below = move |n: u64| rng.random_range(0..n);
        let sizes = [below(3) * 2, below(3) * 3, below(2) * 4, 0].map(|n| n as usize);
        let mut plain = Plain {
            levels: 4 + below(2) as u32,
            host_levels: 4 + below(2) as u32,
            host_leaf: (seed % 3) as u32,
            nested: [0, 3, 16][(seed / 3 % 3) as usize],
            sizes,
            ..Plain::default()
        };
        if plain.levels == 5 {
            plain.sizes[3] = below(3) as usize;
        }
        let keys = format!(
            "guest=walk,walk_levels={},host_levels={},host_page={},nested_tlb={},l1d=4K:1,l1i=4K:1,l2=none,\
             walk_cost=caches,pwc_pd={},pwc_pdpt={},pwc_pml4={},pwc_pml5={}",
            plain.levels,
            plain.host_levels,
            ["4K", "2M", "1G"][plain.host_leaf as usize],
            plain.nested,
            plain.sizes[0],
            plain.sizes[1],
            plain.sizes[2],
            plain.sizes[3],
        );
        let mut design = tlb("hierarchy", &keys);
        // Far apart and close together.
        let pages: Vec<u64> =
            (0..60).map(|i| if i < 30 { (i % 6) << 18 | below(1 << 11) } else { below(1 << 36) }).collect();
        let mut asid = 0;
        for step in 0..3000 {
            match below(60) {
                0 => {
                    asid = below(2) as u32;
                    design.switch(Asid(asid), &mut Unfiltered::default());
                }
                1 => {
                    design.invalidate(Asid(asid), VpnRange::one(Vpn(0)), &mut Unfiltered::default());
                    // The page is not mapped; only the walk caches are affected.
                    let last = plain.last;
                    plain.forget(asid);
                    plain.last = last.filter(|l| *l != (asid, 0));
                }
                2 if step % 5 == 0 => {
                    design.invalidate_space(Asid(asid), &mut Unfiltered::default());
                    plain.gone(asid);
                }
                _ => {
                    let vpn = pages[below(60) as usize];
                    let at = Lookup { asid: Asid(asid), vpn: Vpn(vpn), kind: Kind::Load };
                    let pte = Mixed.pte(at.asid, at.vpn).unwrap();
                    design.access(at, pte, &Mixed, &mut Unfiltered::default());
                    plain.lookup(asid, vpn, pte);
                }
            }
            let reads: Vec<(u8, u64)> = design.port().unwrap().recorded().map(|r| (r.level, r.address)).collect();
            assert_eq!(reads, std::mem::take(&mut plain.reads), "seed {seed}, step {step}: {keys}");
        }
        let c = design.counts();
        let w = &c.walk;
        let levels = [w.pt_references, w.pd_references, w.pdpt_references, w.pml4_references, w.pml5_references];
        assert_eq!((levels, &c.host_walk), (plain.by_level, &plain.host), "{keys}");
        let hits = [0, w.pd_cache_hits, w.pdpt_cache_hits, w.pml4_cache_hits, w.pml5_cache_hits];
        assert_eq!(hits, plain.cache_hits, "{keys}");
        assert!(w.walks > 1000 && levels[..4].iter().all(|&n| n > 100), "{levels:?}");
        cached += hits.iter().sum::<u64>();
        nested_hits += c.host_walk.nested_tlb_hits;
    }
    assert!(cached > 1000 && nested_hits > 1000, "{cached}, {nested_hits}: caches were tried");
}

/// Processes that map, unmap, fork, end, and touch all over their pages.
fn stream(seed: u64) -> Stream {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut below = move |n: u64| rng.random_range(0..n);
    let mut s = Stream::new();
    let mut processes = RandomProcesses::new(&mut s, Prot::RWX, true);
    for _ in 0..60 {
        if processes.act(&mut s, &mut below) {
            for _ in 0..60 {
                let page = 0x100 + below(0x300);
                match below(5) {
                    0 => _ = s.fetch(0x100 + below(0x40)),
                    1 => _ = s.store(page),
                    _ => _ = s.load(page),
                }
            }
        }
    }
    s
}

/// The counts of TLBs, without the cost of walks.
fn contents(tlb: &TlbCounts) -> TlbCounts {
    let mut tlb = tlb.clone();
    tlb.host_walk = HostWalkCounts::default();
    tlb.walk = farreach_types::counts::WalkCounts { walks: tlb.walk.walks, ..Default::default() };
    tlb.segment = Default::default();
    tlb
}

#[test]
fn tlbs_hold_what_they_hold_without_a_virtual_machine() {
    const SMALL: &str = "l1d=4K:8+2M:2,l1i=4K:8,memory=64M";
    let segment = "ds13/segment:l1d=4K:8,l2=4K:32,segment_memory=2M,memory=64M,admit_min=64K";
    let [pages, second] = ["l1d=4K:8,l2=4K:32,memory=64M", "l1d=4K:8,l1i=4K:8,l2_fracture=true,memory=64M"];
    let pairs: Vec<(String, String)> = [
        (format!("ds13/4k:{pages}"), "guest=walk"),
        (format!("ds13/4k:{pages}"), "guest=walk,nested_tlb=8,host_levels=5"),
        (format!("ds13/4k:{pages},process_ids=false,replacement=random,cores=2"), "guest=walk,host_page=1G"),
        ("ds13/4k:coalesce=16K,l1d=4K|16K:8,memory=64M".to_owned(), "guest=walk,host_page=2M"),
        (format!("rmm15/thp:{SMALL}"), "guest=walk,host_page=2M"),
        (format!("rmm15/thp:{SMALL}"), "guest=walk,host_fracture=false"),
        ("rmm15/clustered:cluster_entries=8,l1d=4K:8,memory=64M".to_owned(), "guest=walk,host_fracture=false"),
        (format!("rmm15/colt-fa:{pages}"), "guest=walk,host_fracture=false"),
        (format!("rmm15/colt-fa:{pages}"), "guest=walk,host=segment"),
        (format!("rmm15/range:{pages},range_entries=4"), "guest=walk,host=segment"),
        (segment.to_owned(), "guest=composed"),
        (segment.to_owned(), "guest=composed,host=segment"),
        (segment.to_owned(), "guest=segment,host=segment"),
        (format!("{segment},segments=3,ranges=true"), "guest=composed"),
        (format!("{segment},cores=2"), "guest=composed"),
        (format!("{segment},segment_served_by=pages"), "guest=walk"),
    ]
    .map(|(native, keys)| (native.clone(), format!("{native},{keys}")))
    .into_iter()
    .chain([
        // As with pages that are only counted: a segment to guest physical memory leaves the work of the TLBs
        // unchanged.
        (format!("{segment},segment_served_by=pages"), format!("{segment},guest=segment")),
        // Pages of 2 MB in a host of 4 KB are as without entries for them.
        (format!("rmm15/thp:{second}"), format!("rmm15/thp:{SMALL},guest=walk")),
    ])
    .collect();
    for seed in 0..2 {
        let s = stream(seed);
        let texts: Vec<&str> = pairs.iter().flat_map(|(a, b)| [a.as_str(), b.as_str()]).collect();
        let out = run(&texts, &s);
        for (i, pair) in out.result.machines.chunks(2).enumerate() {
            let [native, guest] = pair else { unreachable!() };
            assert_eq!(contents(&guest.counts.tlb), contents(&native.counts.tlb), "{}", guest.name);
            assert_eq!((&guest.counts.os, &guest.memory), (&native.counts.os, &native.memory), "{}", guest.name);
            assert_eq!(guest.ideal_segment, native.ideal_segment, "{}", guest.name);
            let entries =
                |i: usize| out.entries[i].iter().map(|e| (e.asid, e.base, e.pages.clone())).collect::<Vec<_>>();
            let orders_differ = i + 1 == pairs.len();
            match orders_differ {
                // Slots of the array of 2 MB stand empty in one and are not there in the other.
                true => assert_eq!(entries(2 * i), entries(2 * i + 1), "{}", guest.name),
                false => assert_eq!(out.entries[2 * i], out.entries[2 * i + 1], "{}", guest.name),
            }
            let [few, many] = [&native.counts.tlb, &guest.counts.tlb].map(TlbCounts::walk_references);
            match guest.config["host"] == "segment" {
                true => assert_eq!(many, few, "DS13-40: {}", guest.name),
                false => assert!(many > few, "{}: {many}, {few}", guest.name),
            }
            assert!(native.counts.tlb.misses > 100, "{}", native.name);
        }
    }
}

#[test]
fn caches_under_both_tables_change_no_other_count() {
    let small = "cache_l1i=1K/2,cache_l1d=1K/2,cache_l2=4K/4,cache_llc=8K/8,cache_slices=3,walk_cost=caches";
    let machines = [
        "ds13/4k:guest=walk,l1d=4K:16/4,l2=4K:64/4",
        "ds13/4k:guest=walk,host_page=2M,nested_tlb=4,pwc_pd=2,pwc_pdpt=2,l1d=4K:4,l1i=4K:4,l2=none",
        "rmm15/thp:guest=walk,host_levels=5,l1d=4K:8+2M:4,memory=64M",
        "rmm15/range:guest=walk,host=segment,range_entries=4,l1d=4K:8,l2=4K:32,memory=64M",
        "ds13/segment:guest=segment,segment_memory=2M,memory=64M,admit_min=64K,l1d=4K:8,l2=none",
        "ds13/segment:guest=composed,segment_memory=2M,memory=64M,admit_min=64K,l1d=4K:8,l2=none",
    ];
    let s = stream(5);
    let texts: Vec<String> = machines.iter().flat_map(|m| [m.to_string(), format!("{m},{small}")]).collect();
    let out = run(&texts.iter().map(String::as_str).collect::<Vec<_>>(), &s);
    for pair in out.result.machines.chunks(2) {
        let [fixed, caches] = pair else { unreachable!() };
        let mut tlb = caches.counts.tlb.clone();
        let answered = std::mem::take(&mut tlb.walk_caches);
        assert_eq!(tlb, fixed.counts.tlb, "{}", caches.name);
        assert_eq!(answered.host.total(), tlb.host_walk.references, "{}", caches.name);
        assert_eq!(answered.page_tables().total(), tlb.walk_references(), "{}", caches.name);
        let a = answered.page_tables();
        assert_eq!(
            caches.cost.walk_cycles,
            Some(4 * a.l1 + 12 * a.l2 + 30 * a.llc + 200 * a.memory),
            "{}",
            caches.name
        );
        assert!(tlb.misses > 100, "{}", caches.name);
    }
}

/// Four nodes of the guest's table side by side in memory, and the page far from them: two lines of each level of the
/// host's table.
#[test]
fn a_cold_walk_in_two_dimensions() {
    let mut s = Stream::new();
    s.start().anon(0x1000, 0x1000).load(0x1000);
    let out = run(&["ds13/4k:guest=walk,walk_cost=caches", "ds13/4k:guest=walk,walk_cost=caches,host_page=1G"], &s);
    let of = |i: usize| {
        let caches = &out.machine(i).counts.tlb.walk_caches;
        let guest = [&caches.pt, &caches.pd, &caches.pdpt, &caches.pml4].map(|a| [a.l1, a.l2, a.llc, a.memory]);
        (guest, [caches.host.l1, caches.host.l2, caches.host.llc, caches.host.memory], out.machine(i).cost.walk_cycles)
    };
    assert_eq!(of(0), ([[0, 0, 0, 1]; 4], [12, 0, 0, 8], Some(12 * 200 + 12 * 4)));
    assert_eq!(of(1), ([[0, 0, 0, 1]; 4], [6, 0, 0, 4], Some(8 * 200 + 6 * 4)));
}

/// A cached entry leads to a node in system memory, so it also saves the translation of that node's address.
#[test]
fn walk_caches_and_a_nested_tlb() {
    let each = |keys: &str, pages: &[u64]| {
        let mut design = tlb("hierarchy", &format!("guest=walk,l1d=4K:1,l2=none,{keys}"));
        let mut before = 0;
        let references = pages.iter().map(|&page| {
            load(&mut *design, &Uniform(0), page);
            let sum = design.counts().walk_references();
            sum - std::mem::replace(&mut before, sum)
        });
        references.collect::<Vec<_>>()
    };
    let (mb, gb) = (512, 1 << 18);
    assert_eq!(each("", &[0, 1, mb, gb]), [24, 24, 24, 24]);
    // One node, at once, and the page: 1 + 4. Two nodes: 1 + 5 + 4.
    assert_eq!(each("pwc_pd=4,pwc_pdpt=4,pwc_pml4=4", &[0, 1, mb, gb]), [24, 5, 10, 15]);
    // All translations of the host are cached: nodes of the guest only, and new pages and nodes.
    assert_eq!(each("nested_tlb=64", &[0, 1, 0, mb, gb]), [24, 4 + 4, 4, 4 + 8, 4 + 12]);
    // Leaves of 1 GB: the nodes in one, the pages in another.
    assert_eq!(each("nested_tlb=64,host_page=1G", &[0, 1, 0, mb, gb]), [4 + 2 * 2, 4, 4, 4, 4 + 2]);
    assert_eq!(each("pwc_pd=4,nested_tlb=2,host_page=1G", &[0, 1, 2]), [8, 1, 1]);
}

/// DS13-17, DS13-24, F-15: the guest writes its registers when another process runs and when the segment changes; each
/// write traps.
#[test]
fn f_15_writes_of_a_guest_trap() {
    let traps = |build: &dyn Fn(&mut Stream)| {
        let mut s = Stream::new();
        s.start();
        build(&mut s);
        let keys = "admit_min=64K,segment_memory=64M";
        let [fixed, caches] = [format!("guest=composed,{keys}"), format!("guest=composed,walk_cost=caches,{keys}")];
        let one = format!("ds13/segment:{fixed}");
        let machines = [one.as_str(), &format!("ds13/segment:{caches}"), &format!("ds13/segment:{keys}")];
        let out = run(&machines, &s);
        let tlbs = tlbs(&out);
        assert_eq!(tlbs[0].segment, tlbs[1].segment, "walk_cost");
        assert_eq!((tlbs[0].misses, tlbs[2].segment.traps), (tlbs[2].misses, 0), "natively");
        tlbs[0].segment.traps
    };
    let heap = |s: &mut Stream, from: u64, pages: u64| {
        s.map(from, pages, Prot::RW, false, Backing::Heap);
    };
    let file = |s: &mut Stream| _ = s.file(0x9000, 4, "/f");
    assert_eq!(traps(&|s| file(s)), 0);
    assert_eq!(traps(&|s| _ = s.file(0x9000, 4, "/f").load(0x9000)), 0, "there is nothing to write");
    assert_eq!(traps(&|s| _ = s.anon(0x1000, 64).load(0x1000)), 3, "BASE, LIMIT, OFFSET");
    assert_eq!(traps(&|s| _ = s.anon(0x1000, 64).loads((0x1000..0x1040).cycle().take(500))), 3, "once");
    let grow = |s: &mut Stream| {
        heap(s, 0x1000, 64);
        s.load(0x1000);
        heap(s, 0x1040, 8192);
        s.load(0x1040);
    };
    assert_eq!(traps(&grow), 2 * 3, "it grew");
    // Two processes with segments take turns, and a third without.
    let turns = |s: &mut Stream| {
        s.anon(0x1000, 64).load(0x1000);
        s.space(1).op(Op::Start { pid: 2, parent: None, program: "test".into() }).anon(0x1000, 64).load(0x1000);
        s.space(2).op(Op::Start { pid: 3, parent: None, program: "test".into() });
        file(s);
        s.load(0x9000);
        for asid in [0, 1, 0, 2, 2, 0] {
            s.space(asid).load(if asid == 2 { 0x9000 } else { 0x1000 });
        }
        s.space(0).op(Op::End(End::Exit(0)));
        s.space(2).load(0x9001);
    };
    // 0, 1: three each. 2: off. 0, 1, 0: nine; 2: off; 0: three; ended, and 2 again: off.
    assert_eq!(traps(&turns), 3 + 3 + 1 + 9 + 1 + 3 + 1);
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    for (text, words) in [
        ("rmm15/4k:guest=table", ["guest = table", "none, walk, segment, composed"]),
        ("rmm15/4k:host=segment", ["host = segment", "guest = none"]),
        ("rmm15/4k:guest=walk,host=table", ["host = table", "walk, segment, shadow, agile"]),
        ("rmm15/4k:guest=walk,host=shadow,cores=2", ["host = shadow", "cores = 2"]),
        ("rmm15/4k:guest=walk,host_page=64K", ["host_page = 64K", "4K, 2M, 1G"]),
        ("rmm15/4k:guest=walk,host_levels=3", ["host_levels = 3", "4 to 5"]),
        ("rmm15/4k:guest=segment", ["guest = segment", "kind = hierarchy"]),
        ("rmm15/range:guest=composed,host=segment", ["guest = composed", "kind = range"]),
        ("rmm15/range:guest=walk", ["host = walk", "kind = range"]),
        ("rmm15/clustered:guest=walk", ["host_fracture = true", "kind = clustered"]),
        ("rmm15/colt-fa:guest=walk,host_page=1G", ["host_fracture = true", "kind = coalesced"]),
        ("ds13/segment:guest=walk", ["guest = walk", "segment_served_by = registers"]),
        ("ds13/segment:guest=composed,segment_served_by=pages", ["guest = composed", "segment_served_by = pages"]),
        ("ds13/segment:guest=segment,placement=demand", ["guest = segment", "placement = demand"]),
        ("ds13/segment:guest=composed,segments=4", ["guest = composed", "ranges = false"]),
        ("ds13/segment:guest=composed,split=true", ["guest = composed", "split = true"]),
        ("rmm15/4k:guest=walk,nested_tlb=4,cores=2", ["nested_tlb = 4", "cores = 2"]),
        ("t94/single:guest=walk", ["unknown key", "guest"]),
    ] {
        let lab = MachineSpec::parse(text, 1).and_then(|spec| Lab::new(vec![spec], Options::default()));
        let error = lab.err().expect(text).to_string();
        assert!(words.iter().all(|w| error.contains(w)), "{error}");
    }
}
