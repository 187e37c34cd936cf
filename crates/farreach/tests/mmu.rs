//! Hierarchies, ranges, clusters and segments by hand: the golden vectors of DS13 and RMM15, and what must be equal.

mod common;
mod tlb_common;

use common::{Stream, run, run_batches};
use farreach::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach::counts::{RangeCounts, TlbCounts};
use farreach::event::{Kind, Source};
use farreach::hw::tlb::{Attr, Lookup, Noise, Outcome, PageTableView, Pte, Range, RangeWalk, Segment, Tlb};
use farreach::trace::generate;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tlb_common::tlb;

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
    fn range(&self, _: Asid, vpn: Vpn) -> Option<Range> {
        self.ranges.iter().copied().find(|r| r.contains(vpn))
    }
    fn range_walk(&self, asid: Asid, vpn: Vpn) -> RangeWalk {
        RangeWalk { nodes: 3, found: self.range(asid, vpn) }
    }
    fn largest_ranges(&self, _: Asid, most: usize) -> Vec<Range> {
        let mut all = self.ranges.clone();
        all.sort_by_key(|r| std::cmp::Reverse(r.pages));
        all.truncate(most);
        all
    }
    fn segment(&self, _: Asid) -> Option<Segment> {
        self.segment
    }
    fn kernel_segment(&self, _: Asid) -> Option<Segment> {
        self.kernel
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
        let outcome = design.access(at, pte, memory, &mut Noise::default()).outcome;
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
    design.invalidate(Asid(0), VpnRange::one(Vpn(99)), &mut Noise::default());
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
    assert_eq!(fills("l1d=4K|16K:64,l2=none", &plain), 64, "nobody looks");
    let scattered = Memory { ranges: vec![Range { pfn: Pfn(DISTANCE + 1), ..range(0, 64) }], ..Memory::default() };
    assert_eq!(fills("l1d=4K|16K:64,l2=none,coalesce=16K", &scattered), 64, "not aligned");
}

/// CA-30.
#[test]
fn rmm15_2_ranges_answer_within_their_bounds() {
    let memory = Memory { ranges: vec![Range { pfn: Pfn(0x600), ..range(0x100, 0x80) }], ..Memory::default() };
    let mut design = tlb("range", "l1d=4K:1,l2=none");
    let outcomes = loads(&mut *design, &memory, [0x150, 0xff, 0x100, 0x17f, 0x180, 0x101]);
    use Outcome::{Hit, TagMiss};
    assert_eq!(outcomes, [TagMiss, TagMiss, Hit, Hit, TagMiss, Hit]);
    assert_eq!(
        design.counts().range,
        RangeCounts { hits: 3, sole_hits: 3, misses: 3, full_searches: 6, walks: 1, nodes: 3, ..RangeCounts::default() }
    );
}

/// CA-30, RMM15-11, F-5.
#[test]
fn rmm15_10_the_pointer_changes_searches_and_nothing_else() {
    let memory = Memory { ranges: (0..3).map(|i| range(100 * i, 50)).collect(), ..Memory::default() };
    let count = |mru: bool| {
        let mut design = tlb("range", &format!("l1d=4K:1,l2=none,range_entries=2,mru_pointer={mru}"));
        // Ranges 0, 0, 1, 0; then 2, which drops 1, the one not used for longest.
        let outcomes = loads(&mut *design, &memory, [0, 1, 100, 2, 200, 3, 101]);
        let misses = outcomes.iter().map(|o| *o != Outcome::Hit).collect::<Vec<_>>();
        assert_eq!(misses, [true, false, true, false, true, false, true]);
        let r = design.counts().range.clone();
        (r.hits, r.misses, r.evictions, r.mru_hits, r.full_searches)
    };
    assert_eq!((count(false), count(true)), ((3, 4, 2, 0, 7), (3, 4, 2, 1, 6)));
}

/// CA-34, H-RM-17.
#[test]
fn rmm15_12_a_page_takes_its_whole_range_along() {
    let memory = Memory { ranges: vec![range(0, 1000)], ..Memory::default() };
    let mut design = tlb("range", "l1d=4K:1,l2=none");
    loads(&mut *design, &memory, [0, 500, 999]);
    assert_eq!(design.counts().misses, 1);
    design.invalidate(Asid(0), VpnRange::one(Vpn(700)), &mut Noise::default());
    assert_eq!(loads(&mut *design, &memory, [1, 2]), [Outcome::TagMiss, Outcome::Hit], "fetched again");
    design.demote(Asid(0), VpnRange::one(Vpn(3)), &mut Noise::default());
    assert_eq!(loads(&mut *design, &memory, [4]), [Outcome::TagMiss]);
    assert_eq!(design.counts().range.invalidations, 2);
}

/// CA-37, H-RM-5: 62 ranges drawn at random fit 64 entries; of 32 entries, 30 in 62 draws miss.
#[test]
fn rmm15_2_62_ranges_need_64_entries() {
    let memory = Memory { ranges: (0..62).map(|i| range(i << 16, 1 << 16)).collect(), ..Memory::default() };
    let ratio = |entries: u64| {
        let mut design = tlb("range", &format!("l1d=4K:1,l2=none,range_entries={entries}"));
        let mut rng = Pcg64Mcg::seed_from_u64(3);
        let n = 40_000;
        loads(&mut *design, &memory, (0..n).map(|_| rng.next_u64() % (62 << 16)));
        (design.counts().misses, design.counts().misses as f64 / n as f64)
    };
    assert_eq!(ratio(64).0, 62);
    assert!((ratio(32).1 - 30.0 / 62.0).abs() < 0.01, "{:?}", ratio(32));
}

/// F-6: what the ranges answer never reaches the first level.
#[test]
fn f_6_ranges_before_the_first_level() {
    let memory = Memory { ranges: vec![range(0, 1000)], ..Memory::default() };
    let mut design = tlb("range", "range_order=first");
    loads(&mut *design, &memory, 0..1000);
    assert_eq!((design.counts().misses, design.counts().range.hits), (1, 999));
    assert_eq!(design.entries().len(), 3, "first level, second level and range of the one miss");
}

/// F-8, AMB-89, RMM15-41: where range hits fill the second level as well, other pages lose their place there.
#[test]
fn f_8_the_second_level_is_left_to_the_others() {
    let memory = Memory { ranges: vec![range(0, 100_000)], ..Memory::default() };
    let misses = |keys: &str| {
        let mut design = tlb("range", &format!("l1d=4K:1,l2=4K:8,{keys}"));
        for round in 0..50 {
            loads(&mut *design, &memory, (0..20).map(|i| 1000 * round + i).chain(200_000..200_007));
        }
        design.counts().misses
    };
    assert_eq!(misses("range_order=parallel"), 8);
    assert_eq!(misses("range_order=serial"), 1 + 50 * 7);
}

/// F-8: with the range bit, pages that are walked for stay out of the second level.
#[test]
fn f_8_walks_for_ranges_leave_the_second_level_alone() {
    let memory = Memory { ranges: vec![range(0, 1000), range(2000, 1000)], ..Memory::default() };
    let misses = |cooperation: bool| {
        let keys = format!("l1d=4K:1,l2=4K:7,range_entries=1,l2_cooperation={cooperation}");
        let mut design = tlb("range", &keys);
        for round in 0..50 {
            loads(&mut *design, &memory, [round, 2000 + round].into_iter().chain(9000..9007));
        }
        design.counts().misses
    };
    assert_eq!((misses(false), misses(true)), (50 * (2 + 7), 50 * 2 + 7));
}

/// H-RM-20 on random streams of pages in ranges and others.
#[test]
fn amb_89_parallel_hardware_walks_no_more_than_the_emulation() {
    let memory = Memory { ranges: (0..40).map(|i| range(i << 12, 2000)).collect(), ..Memory::default() };
    for seed in 0..20 {
        let misses = |order: &str| {
            let mut design = tlb("range", &format!("l1d=4K:4,l2=4K:64/4,range_order={order},range_entries=16"));
            let mut rng = Pcg64Mcg::seed_from_u64(seed);
            let pages = (0..10_000).map(|_| match rng.next_u64() % 3 {
                0 => (40 << 12) + rng.next_u64() % 48,
                _ => ((rng.next_u64() % 24) << 12) + rng.next_u64() % 2000,
            });
            loads(&mut *design, &memory, pages);
            design.counts().misses
        };
        assert!(misses("parallel") <= misses("serial"), "seed {seed}");
    }
}

/// H-RM-19, F-12: with the bit no search is in vain; a predictor wastes some and misses some; without either all pages are searched for.
#[test]
fn rmm15_6_what_the_range_bit_saves() {
    let memory = Memory { ranges: vec![range(0, 10_000)], ..Memory::default() };
    let counts = |hint: &str| {
        let mut design = tlb("range", &format!("l1d=4K:1,l2=none,range_entries=1,range_hint={hint}"));
        // The range, then pages 2 MB apart without one, each place 20 times.
        loads(&mut *design, &memory, (0..10).chain((20..40).flat_map(|i| (0..20).map(move |j| 512 * i + j))).chain(0..10));
        let r = design.counts().range.clone();
        (design.counts().misses, r.walks, r.wasted_walks, r.missed_ranges)
    };
    assert_eq!(counts("bit"), (401, 1, 0, 0));
    assert_eq!(counts("always"), (401, 401, 400, 0));
    // One search at first, and one after fifteen misses without.
    assert_eq!(counts("predictor"), (401, 41, 40, 0));
}

/// F-13, RMM15-14: memory without ranges switches it off, memory with ranges on, and a load that stays as it is switches once at most.
#[test]
fn f_13_counters_switch_the_range_tlb() {
    let memory = Memory { ranges: vec![range(0, 1 << 20)], ..Memory::default() };
    let mut design = tlb("range", "l1d=4K:4,l2=4K:64,range_control=counters");
    let mut fixed = tlb("range", "l1d=4K:4,l2=4K:64");
    let mut rng = Pcg64Mcg::seed_from_u64(5);
    let mut phase = |first: u64, pages: u64| {
        for _ in 0..60_000 {
            let vpn = first + rng.next_u64() % pages;
            loads(&mut *design, &memory, [vpn]);
            loads(&mut *fixed, &memory, [vpn]);
        }
        (design.counts().range.switches, design.counts().misses - fixed.counts().misses)
    };
    assert_eq!(phase(1 << 20, 1 << 20), (1, 0), "no ranges there");
    let (switches, more) = phase(0, 1 << 20);
    assert_eq!(switches, 2);
    assert!((1..=2 * 4096).contains(&more), "walks until the next decision: {more}");
    assert_eq!(phase(0, 1 << 20), (2, more));
    let error = tlb_common::try_tlb("range", "range_control=counters,range_order=first").err().unwrap();
    assert!(error.starts_with("range_control = counters"), "{error}");
}

#[test]
fn rmm15_42_a_cluster_holds_its_pages_in_any_order() {
    struct Shuffled;
    impl PageTableView for Shuffled {
        fn pte(&self, _: Asid, vpn: Vpn) -> Option<Pte> {
            // Pages 0..7 in one group of frames, 8..11 in two of it and two of another, the rest far apart.
            let pfn = match vpn.0 {
                0..8 => 800 + (5 * vpn.0) % 8,
                8..12 => 880 + 16 * (vpn.0 % 2) + vpn.0 % 8,
                other => 10_000 + 100 * other,
            };
            Some(Pte { pfn: Pfn(pfn), attr: Attr(3), order: 0 })
        }
    }
    let mut design = tlb("clustered", "l1d=4K:1,cluster_entries=16");
    let mut look = |vpn: u64| {
        let at = Lookup { asid: Asid(0), vpn: Vpn(vpn), kind: Kind::Load };
        design.access(at, Shuffled.pte(Asid(0), Vpn(vpn)).unwrap(), &Shuffled, &mut Noise::default());
        (design.counts().misses, design.counts().second_level_data_hits, design.counts().preloaded)
    };
    assert_eq!((0..8).map(&mut look).last(), Some((1, 7, 7)));
    assert_eq!((8..12).map(&mut look).last(), Some((3, 9, 9)), "a cluster for each group of frames");
    assert_eq!((16..20).map(&mut look).last(), Some((7, 9, 9)));
}

/// CoLT: runs in consecutive frames, wherever these begin; the set is that of the group.
#[test]
fn a_run_shares_an_entry() {
    struct Runs;
    impl PageTableView for Runs {
        fn pte(&self, _: Asid, vpn: Vpn) -> Option<Pte> {
            // Pages 0..4 in a run that is not aligned; of 4..8 two runs and a page with other attributes; 8..12 backwards.
            let (pfn, attr) = match vpn.0 {
                0..6 => (1001 + vpn.0, 3),
                6 => (2006, 3),
                7 => (2007, 1),
                other => (5000 - other, 3),
            };
            Some(Pte { pfn: Pfn(pfn), attr: Attr(attr), order: 0 })
        }
    }
    let mut design = tlb("clustered", "l1d=4K:1,cluster_entries=16,cluster_ways=4,cluster_pages=4,cluster_frames=run");
    let mut look = |vpn: u64| {
        let at = Lookup { asid: Asid(0), vpn: Vpn(vpn), kind: Kind::Load };
        design.access(at, Runs.pte(Asid(0), Vpn(vpn)).unwrap(), &Runs, &mut Noise::default());
        (design.counts().misses, design.counts().second_level_data_hits, design.counts().preloaded)
    };
    assert_eq!([2, 0, 1, 3].map(&mut look).last(), Some(&(1, 3, 3)), "from the middle in both directions");
    assert_eq!([4, 5].map(&mut look).last(), Some(&(2, 4, 4)), "the run goes on, in an entry of the next group");
    assert_eq!([6, 7].map(&mut look).last(), Some(&(4, 4, 4)));
    assert_eq!((8..12).map(&mut look).last(), Some((8, 4, 4)));
    // A clustered TLB has none of the first four together: they lie in two aligned groups of frames.
    let mut clustered = tlb("clustered", "l1d=4K:1,cluster_entries=16,cluster_pages=4");
    for vpn in 0..4 {
        let at = Lookup { asid: Asid(0), vpn: Vpn(vpn), kind: Kind::Load };
        clustered.access(at, Runs.pte(Asid(0), Vpn(vpn)).unwrap(), &Runs, &mut Noise::default());
    }
    assert_eq!(clustered.counts().misses, 2);
    assert_eq!(clustered.counts().second_level_data_hits, 2);
}

/// CoLT-FA: pages 0..64 in one run, 64..72 in another, 72 and on far apart.
struct Rows;

impl PageTableView for Rows {
    fn pte(&self, _: Asid, vpn: Vpn) -> Option<Pte> {
        let pfn = match vpn.0 {
            0..64 => 1001 + vpn.0,
            64..72 => 5000 + vpn.0,
            other => 10_000 + 3 * other,
        };
        Some(Pte { pfn: Pfn(pfn), attr: Attr(3), order: 0 })
    }
}

/// Runs of a coalesced TLB after these loads, as first page and pages; misses; merges.
fn rows(keys: &str, pages: impl IntoIterator<Item = u64>) -> (Vec<(u64, u64)>, u64, u64) {
    let mut design = tlb("coalesced", &format!("l1d=4K:1,l1i=4K:1,l2=none,{keys}"));
    for vpn in pages {
        let at = Lookup { asid: Asid(0), vpn: Vpn(vpn), kind: Kind::Load };
        design.access(at, Rows.pte(Asid(0), Vpn(vpn)).unwrap(), &Rows, &mut Noise::default());
    }
    let runs = design.entries().into_iter().filter(|e| e.slot >= 2);
    let mut runs: Vec<(u64, u64)> = runs.map(|e| (e.base.0, e.pages.last().map_or(0, |(offset, ..)| offset + 1))).collect();
    runs.sort_unstable();
    (runs, design.counts().misses, design.counts().merges)
}

#[test]
fn runs_grow_and_join() {
    assert_eq!(rows("", 0..64), (vec![(0, 64)], 8, 7), "a miss for each line, one entry");
    assert_eq!(rows("", [20, 0, 12]), (vec![(0, 24)], 3, 1), "the last one joins those on both sides");
    assert_eq!(rows("", [63, 64]), (vec![(56, 8), (64, 8)], 2, 0), "other frames, another run");
    assert_eq!(rows("", 72..80), (vec![], 8, 0), "pages by themselves are not for this array");
    // A limit of sixteen pages: the third line begins another entry.
    assert_eq!(rows("run_pages=16", 0..40), (vec![(0, 16), (16, 16), (32, 8)], 5, 2));
    // With room for one run the other goes, and with it all of its pages.
    assert_eq!(rows("run_entries=1", (0..64).chain(64..72).chain(0..2)), (vec![(0, 8)], 10, 7));
    // What a cluster can hold is a line.
    let mut clusters = tlb("clustered", "l1d=4K:1,cluster_entries=1,cluster_frames=run");
    for vpn in (0..64).chain(0..64) {
        let at = Lookup { asid: Asid(0), vpn: Vpn(vpn), kind: Kind::Load };
        clusters.access(at, Rows.pte(Asid(0), Vpn(vpn)).unwrap(), &Rows, &mut Noise::default());
    }
    assert_eq!((clusters.counts().misses, rows("run_entries=1", (0..64).chain(0..64)).1), (16, 8));
}

#[test]
fn superpages_share_the_array_of_runs() {
    let keys = "l1d=4K:1,l1i=4K:1,l2=none,run_entries=2";
    let huge = Memory { order: 9, ..Memory::default() };
    let mut design = tlb("coalesced", keys);
    loads(&mut *design, &huge, [0, 512, 1, 513, 1024, 2]);
    assert_eq!((design.counts().misses, design.counts().evictions, design.counts().merges), (4, 2, 0), "they join nothing");
    // Split, they are true no more; a run of base pages stays.
    let plain = Memory::default();
    let mut design = tlb("coalesced", keys);
    loads(&mut *design, &huge, [0]);
    loads(&mut *design, &plain, [600]);
    design.demote(Asid(0), VpnRange { start: Vpn(0), pages: 1024 }, &mut Noise::default());
    let runs: Vec<u64> = design.entries().iter().filter(|e| e.slot >= 2).map(|e| e.base.0).collect();
    assert_eq!(runs, [600]);
    // One page of it takes the whole run along, all of whose translations count.
    let before = design.counts().invalidations;
    design.invalidate(Asid(0), VpnRange::one(Vpn(607)), &mut Noise::default());
    assert_eq!(design.counts().invalidations - before, 8);
}

/// CA-25, AMB-63, AMB-65.
#[test]
fn ds13_2_what_the_segment_serves() {
    let segment = Segment { base: Vpn(0x100), limit: Vpn(0x200), pfn: Pfn(0x100 + DISTANCE) };
    let memory = Memory { segment: Some(segment), ..Memory::default() };
    let mut design = tlb("segment", "");
    loads(&mut *design, &memory, 0x100..0x200);
    touch(&mut *design, &memory, Kind::Store, 0x100..0x200);
    assert_eq!(*design.counts(), TlbCounts::default(), "not even looked up");
    loads(&mut *design, &memory, [0xff, 0x200]);
    touch(&mut *design, &memory, Kind::Fetch, [0x100]);
    let c = design.counts();
    assert_eq!((c.data_misses, c.fetch_misses), (2, 1));
    // DS13-4, DS13-24: BASE = LIMIT, and the registers are loaded again.
    let off = Memory { segment: Some(Segment { limit: segment.base, ..segment }), ..Memory::default() };
    design.segment_changed(Asid(0), &mut Noise::default());
    loads(&mut *design, &off, [0x100]);
    assert_eq!(design.counts().data_misses, 2, "the fetch brought it into the second level");
    loads(&mut *design, &off, [0x101]);
    assert_eq!(design.counts().data_misses, 3);
}

/// DS13-43: who has the registers, and that they say what the page table does (XC-3).
#[test]
fn f_2_registers_for_the_direct_map() {
    let over = |base, limit| Some(Segment { base: Vpn(base), limit: Vpn(limit), pfn: Pfn(base + DISTANCE) });
    let both = Memory { segment: over(0x100, 0x200), kernel: over(0x1000, 0x2000), ..Memory::default() };
    let alone = Memory { kernel: both.kernel, ..Memory::default() };
    // Misses of the kernel's pages beside the program's segment, alone, and beside it again.
    for (kernel, missed) in [("none", [64, 64, 64]), ("shared", [64, 0, 64]), ("own", [0, 0, 0])] {
        let mut design = tlb("segment", &format!("l1d=4K:4,l1i=4K:4,l2=none,kernel_segment={kernel}"));
        for (round, memory) in [&both, &alone, &both].into_iter().enumerate() {
            design.segment_changed(Asid(0), &mut Noise::default());
            let before = design.counts().misses;
            for vpn in (0x1000 + 64 * round as u64..).take(64) {
                for kind in [Kind::Load, Kind::Store] {
                    touch(&mut *design, memory, kind, [vpn]);
                    let pte = memory.pte(Asid(0), Vpn(vpn)).unwrap();
                    let found = design.probe(Asid(0), Vpn(vpn), kind).map(|t| (t.pfn, t.attr));
                    assert_eq!(found, Some((pte.pfn, pte.attr)), "{kernel}: {vpn:#x}");
                }
            }
            assert_eq!(design.counts().misses - before, missed[round], "{kernel}, round {round}");
            let before = design.counts().misses;
            touch(&mut *design, memory, Kind::Fetch, [0x1800 + round as u64]);
            loads(&mut *design, memory, [0x2000 + round as u64, 0xfff - round as u64]);
            assert_eq!(design.counts().misses - before, 3, "{kernel}: fetches, and what lies outside, are paged");
            loads(&mut *design, memory, 0x100..0x108);
            let program = if memory.segment.is_some() { 0 } else { 8 };
            assert_eq!(design.counts().misses - before, 3 + program, "{kernel}: the program");
        }
    }
}

/// CA-28, DS13-25, DS13-30: emulation translates alike, and tells the misses of the segment from the others.
#[test]
fn ds13_25_emulation() {
    let segment = Segment { base: Vpn(1000), limit: Vpn(2000), pfn: Pfn(1000 + DISTANCE) };
    let memory = Memory { segment: Some(segment), ..Memory::default() };
    let [mut registers, mut emulated, mut none] =
        [("segment", ""), ("segment", "segment_served_by=pages"), ("hierarchy", "")].map(|(kind, keys)| tlb(kind, keys));
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    for _ in 0..20_000 {
        let vpn = [950 + rng.next_u64() % 1100, rng.next_u64() % 3000][(rng.next_u64() % 2) as usize];
        for design in [&mut registers, &mut emulated, &mut none] {
            loads(&mut **design, &memory, [vpn]);
        }
    }
    let inside = emulated.counts().segment.misses_inside;
    assert_eq!((emulated.counts().misses, emulated.entries()), (none.counts().misses, none.entries()));
    assert!(inside > 1000 && registers.counts().misses < none.counts().misses - inside / 2, "{inside}");
    assert!(registers.counts().misses <= emulated.counts().misses - inside, "freed entries only help here");
}

/// F-20: so many sets of registers are a range TLB of as many entries before everything else, when it has once found them in its table.
#[test]
fn f_20_several_segments_are_a_range_tlb_without_a_table() {
    let k = 5;
    let memory = Memory { ranges: (0..k).map(|i| range(1000 * i, 100 + 50 * i)).collect(), ..Memory::default() };
    let mut segments = tlb("segment", &format!("segments={k},l1d=4K:8,l2=4K:32"));
    let mut ranges = tlb("range", &format!("range_entries={k},range_order=first,l1d=4K:8,l2=4K:32"));
    // The range TLB learns its ranges by one miss each, which the registers need not. Then both forget what they have of pages.
    loads(&mut *ranges, &memory, (0..k).map(|i| 1000 * i));
    assert_eq!(ranges.counts().misses, k);
    let others: Vec<u64> = (0..100).map(|i| 500 + 1000 * (i % k) + i / k).collect();
    for design in [&mut segments, &mut ranges] {
        loads(&mut **design, &memory, others.iter().copied());
    }
    let (before_segments, before_ranges) = (segments.counts().misses, ranges.counts().misses);
    let mut rng = Pcg64Mcg::seed_from_u64(20);
    for _ in 0..20_000 {
        let page = rng.next_u64() % (1000 * k);
        assert_eq!(loads(&mut *segments, &memory, [page]), loads(&mut *ranges, &memory, [page]), "page {page}");
    }
    let misses = segments.counts().misses - before_segments;
    assert_eq!(misses, ranges.counts().misses - before_ranges);
    assert!(misses > 5000, "{misses}");
    // With fewer sets the largest ranges are in them.
    let mut three = tlb("segment", "segments=3,l1d=4K:1,l2=none");
    let outcomes = loads(&mut *three, &memory, (0..k).map(|i| 1000 * i + 1));
    use Outcome::{Hit, TagMiss};
    assert_eq!(outcomes, [TagMiss, TagMiss, Hit, Hit, Hit]);
    assert_eq!(touch(&mut *three, &memory, Kind::Fetch, [4001]), [TagMiss], "AMB-63");
}

/// CA-39: with the mechanism off, or nothing for it to do, all are the one hierarchy. XC-3 is checked at every lookup.
#[test]
fn ca_39_switched_off_all_are_plain_paging() {
    let mut source = generate::program(11, 2500);
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

/// AMB-86: what the second level and a range both answer is a hit of the second level and costs nothing besides; a range that answers alone has
/// its price (RMM15-3), and its walk none (RMM15-5).
#[test]
fn amb_86_a_range_costs_where_it_answers_alone() {
    let mut s = Stream::new();
    // The first page is walked for, and in the second level from then on; the next three are the range's; then the first again.
    s.start().anon(0x100, 16).loads([0x100, 0x101, 0x102, 0x103, 0x100]);
    let out = run(&["rmm15/range:l1d=4K:2,memory=1M,range_hit_cycles=5"], &s);
    let (c, cost) = (&out.machine(0).counts.tlb, &out.machine(0).cost);
    assert_eq!((c.misses, c.range.hits, c.range.sole_hits, c.second_level_data_hits), (1, 4, 3, 1));
    assert_eq!((cost.cycles, cost.walk_cycles), (4 * 12 + 3 * 5 + 7, Some(48)));
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
        ("page_size", "16K", "4K, 2M and 1G"),
        ("pwc_pml5", "4", "PML5"),
    ] {
        let error =
            tlb_common::try_tlb("hierarchy", &format!("{key}={value}")).err().unwrap_or_else(|| panic!("{key}={value}"));
        assert!(error.starts_with(key) && error.contains(value) && error.contains(why), "{error}");
    }
}
