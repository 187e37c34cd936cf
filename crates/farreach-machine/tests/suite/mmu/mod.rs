//! Hierarchies, ranges, clusters and segments by hand: the golden vectors of DS13 and RMM15, and machines that must be
//! equal.

mod ranges;
mod runs;
mod segments;

use crate::common::{Stream, run, run_batches};
use farreach_hw::tlb::{Lookup, Outcome, Tlb, Unfiltered};
use farreach_oracle::driver::tlb;
use farreach_trace::generate;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::{RangeCounts, TlbCounts};
use farreach_types::event::{Kind, Source};
use farreach_types::translation::{
    Attr, KernelSegment, PageTableView, Pte, Range, RangeTableView, RangeWalk, Segment, SegmentView,
};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Pages on frames at a distance, with mappings of one order, ranges and a segment beside them.
#[derive(Default)]
struct Memory {
    order: u8,
    ranges: Vec<Range>,
    segment: Option<Segment>,
    kernel: Option<Segment>,
}

const DISTANCE: u64 = 1 << 30;

impl PageTableView for Memory {
    fn pte(&self, _: Asid, vpn: Vpn) -> Option<Pte> {
        let pfn = self.ranges.iter().find(|r| r.contains(vpn)).map(|r| r.translate(vpn).pfn);
        Some(Pte { pfn: pfn.unwrap_or(Pfn(vpn.0 + DISTANCE)), attr: Attr(3), order: self.order })
    }
    fn ranges(&self) -> &dyn RangeTableView {
        self
    }
    fn segments(&self) -> &dyn SegmentView {
        self
    }
}

impl RangeTableView for Memory {
    fn range(&self, _: Asid, vpn: Vpn) -> Option<Range> {
        self.ranges.iter().copied().find(|r| r.contains(vpn))
    }
    fn walk(&self, asid: Asid, vpn: Vpn) -> RangeWalk {
        RangeWalk { nodes: 3, found: self.range(asid, vpn) }
    }
    fn largest(&self, _: Asid, most: usize) -> Vec<Range> {
        let mut all = self.ranges.clone();
        all.sort_by_key(|r| std::cmp::Reverse(r.pages));
        all.truncate(most);
        all
    }
    fn version(&self, _: Asid) -> u64 {
        0
    }
}

impl SegmentView for Memory {
    fn segment(&self, _: Asid) -> Option<Segment> {
        self.segment
    }
    fn kernel_segment(&self, _: Asid) -> Option<KernelSegment> {
        self.kernel.map(KernelSegment::from)
    }
}

fn range(first: u64, pages: u64) -> Range {
    Range { first: Vpn(first), pages, pfn: Pfn(first + DISTANCE), attr: Attr(3) }
}

/// Lookups of one kind.
fn touch(design: &mut dyn Tlb, memory: &Memory, kind: Kind, pages: impl IntoIterator<Item = u64>) -> Vec<Outcome> {
    let look = |vpn| {
        let at = Lookup { asid: Asid(0), vpn: Vpn(vpn), kind };
        let pte = memory.pte(Asid(0), Vpn(vpn)).unwrap();
        let outcome = design.access(at, pte, memory, &mut Unfiltered::default()).outcome;
        let found = design.probe(Asid(0), Vpn(vpn), kind).map(|t| t.pfn);
        assert_eq!(found, Some(pte.pfn), "XC-3");
        outcome
    };
    pages.into_iter().map(look).collect()
}

fn loads(design: &mut dyn Tlb, memory: &Memory, pages: impl IntoIterator<Item = u64>) -> Vec<Outcome> {
    touch(design, memory, Kind::Load, pages)
}

#[test]
fn ds13_36_references_of_a_walk() {
    for (order, levels, references) in [(0, 4, 4), (4, 4, 4), (9, 4, 3), (18, 4, 2), (0, 5, 5), (9, 5, 4), (18, 5, 3)] {
        let mut design = tlb("hierarchy", &format!("walk_levels={levels}"));
        loads(&mut *design, &Memory { order, ..Memory::default() }, [0]);
        assert_eq!(design.counts().walk.references(), references, "order {order}, {levels} levels");
    }
}

#[test]
fn a_walk_begins_at_the_deepest_cached_entry() {
    let caches = "l2=none,l1d=4K:1,pwc_pd=1,pwc_pdpt=2,pwc_pml4=1";
    let references = |order: u8, pages: &[u64]| {
        let mut design = tlb("hierarchy", caches);
        let memory = Memory { order, ..Memory::default() };
        let mut before = 0;
        let each = pages.iter().map(|&page| {
            loads(&mut *design, &memory, [page]);
            let sum = design.counts().walk.references();
            sum - std::mem::replace(&mut before, sum)
        });
        each.collect::<Vec<_>>()
    };
    let (mb, gb, half_tb) = (512, 1 << 18, 1 << 27);
    // The same page table; another of the same directory; another directory; another pointer table; back.
    assert_eq!(references(0, &[0, 1, mb, 1, gb, 2 * gb + mb, half_tb, 0]), [4, 1, 2, 2, 3, 3, 4, 4]);
    // The leaf of 2 MB is in the directory, whose entries the caches of pointers do not have.
    assert_eq!(references(9, &[0, mb, gb, gb + mb]), [3, 1, 2, 1]);
}

#[test]
fn a_change_of_a_mapping_empties_the_walk_caches() {
    let mut design = tlb("hierarchy", "l2=none,pwc_pd=8,pwc_pdpt=8,pwc_pml4=8");
    let memory = Memory::default();
    loads(&mut *design, &memory, [0, 1]);
    design.invalidate(Asid(0), VpnRange::one(Vpn(99)), &mut Unfiltered::default());
    loads(&mut *design, &memory, [2]);
    assert_eq!(design.counts().walk.references(), 4 + 1 + 4);
}

#[test]
fn entries_take_the_pages_of_a_mark_or_of_a_line() {
    let fills = |keys: &str, memory: &Memory| {
        let mut design = tlb("hierarchy", keys);
        loads(&mut *design, memory, 0..64);
        design.counts().misses
    };
    let arm = Memory { order: 4, ..Memory::default() };
    assert_eq!(fills("l1d=4K|64K:48,l2=none", &arm), 4, "the contiguous bit of 16 pages");
    assert_eq!(fills("l1d=4K:64,l2=4K|64K:16", &arm), 4, "in the second level too");
    assert_eq!(fills("l1d=4K:64,l2=4K:64", &arm), 64, "of no use where entries have one size");
    let plain = Memory::default();
    assert_eq!(fills("l1d=4K|16K:64,l2=none,coalesce=16K", &plain), 16, "four contiguous pages");
    assert_eq!(fills("l1d=4K|16K:64,l2=none", &plain), 64, "coalescing is off");
    let scattered = Memory { ranges: vec![Range { pfn: Pfn(DISTANCE + 1), ..range(0, 64) }], ..Memory::default() };
    assert_eq!(fills("l1d=4K|16K:64,l2=none,coalesce=16K", &scattered), 64, "not aligned");
}

/// CA-39: with the mechanism off, or nothing for it to do, all are the one hierarchy. XC-3 is checked at every lookup.
#[test]
fn ca_39_switched_off_all_are_plain_paging() {
    let mut source = generate::program(11, 1500);
    let batches: Vec<_> = std::iter::from_fn(|| source.next_batch().unwrap()).collect();
    let machines = [
        "rmm15/4k",
        "ds13/4k",
        "ds13/segment:placement=demand",
        "ds13/segment:placement=demand,segment_served_by=pages",
        "rmm15/range:placement=demand",
        "rmm15/range:placement=demand,range_tlb=false",
        "rmm15/range:placement=demand,range_order=serial",
        "rmm15/range:placement=demand,range_order=first",
        "rmm15/clustered",
        "today/skylake",
        "today/zen2",
        "today/cortex-a76",
        "today/golden-cove",
        "today/zen5",
        "today/neoverse-n1",
        "today/neoverse-v2",
        "today/zen1",
        "today/zen3",
        "today/ice-lake",
        "today/gracemont",
        "rmm15/colt",
        "rmm15/colt-fa",
        "rmm15/colt-fa:run_order=first,run_fills_l2=false,l2=none",
    ];
    let fast = run_batches(&machines, &batches, false, 1);
    let slow = run_batches(&machines, &batches, true, 1);
    assert_eq!((&fast.result, &fast.entries), (&slow.result, &slow.entries), "shortcuts change nothing");
    let plain = |i: usize| TlbCounts { range: RangeCounts::default(), ..fast.machine(i).counts.tlb.clone() };
    for (i, name) in machines.iter().enumerate().take(8) {
        assert_eq!(plain(i), plain(0), "{name}");
    }
    assert!(plain(0).misses > 200 && fast.machine(0).counts.tlb.second_level_data_hits > 200, "{:?}", plain(0));
    assert_eq!(fast.machine(4).counts.tlb.range.hits, 0);
}

#[test]
fn what_a_walk_and_a_second_level_cost() {
    let mut s = Stream::new();
    s.loads([1, 2, 3, 1, 2, 3]);
    s.fetch(9);
    let machine = "rmm15/4k:l1d=4K:2,walk_reference_cycles=10";
    let out = run(&[machine, "t94/single"], &s);
    let (c, cost) = (&out.machine(0).counts.tlb, &out.machine(0).cost);
    assert_eq!((c.misses, c.second_level_data_hits, c.walk.references()), (4, 3, 16));
    assert_eq!(cost.cycles, 16 * 10 + 3 * 7, "RMM15-3: about 7 cycles; a walk costs its references and no penalty");
    let ledger = |i: usize| out.machine(i).ledger.iter().filter_map(|l| l.cycles).sum::<i64>();
    assert_eq!(ledger(0), cost.cycles as i64 - out.machine(1).cost.cycles as i64, "the ledger adds up");
}

#[test]
fn levels_are_refused_with_what_is_allowed() {
    for (key, value, why) in [
        ("l1d", "2M:8", "4K"),
        ("l1d", "none", "4K"),
        ("l1i", "4K:64/3", "multiple"),
        ("l2", "4K:64+4K:8", "twice"),
        ("l2", "5K:8", "page size"),
        ("l2", "4K", "entries"),
        ("l2i", "4K:0", "65536"),
        ("page_size", "8K", "4K, 16K or 64K"),
        ("pwc_pml5", "4", "PML5"),
    ] {
        let error = farreach_oracle::driver::try_tlb("hierarchy", &format!("{key}={value}"))
            .err()
            .unwrap_or_else(|| panic!("{key}={value}"));
        assert!(error.starts_with(key) && error.contains(value) && error.contains(why), "{error}");
    }
}
