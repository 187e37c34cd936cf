//! Clusters, and entries that coalesce runs of pages.

use super::*;

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
        design.access(at, Shuffled.pte(Asid(0), Vpn(vpn)).unwrap(), &Shuffled, &mut Unfiltered::default());
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
            // Pages 0..4 in a run that is not aligned; of 4..8 two runs and a page with other attributes; 8..12
            // backwards.
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
        design.access(at, Runs.pte(Asid(0), Vpn(vpn)).unwrap(), &Runs, &mut Unfiltered::default());
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
        clustered.access(at, Runs.pte(Asid(0), Vpn(vpn)).unwrap(), &Runs, &mut Unfiltered::default());
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
        design.access(at, Rows.pte(Asid(0), Vpn(vpn)).unwrap(), &Rows, &mut Unfiltered::default());
    }
    let runs = design.entries().into_iter().filter(|e| e.slot >= 2);
    let mut runs: Vec<(u64, u64)> =
        runs.map(|e| (e.base.0, e.pages.last().map_or(0, |(offset, ..)| offset + 1))).collect();
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
    // With room for one run the other is evicted, with all of its pages.
    assert_eq!(rows("run_entries=1", (0..64).chain(64..72).chain(0..2)), (vec![(0, 8)], 10, 7));
    // A cluster holds at most a line of page table entries.
    let mut clusters = tlb("clustered", "l1d=4K:1,cluster_entries=1,cluster_frames=run");
    for vpn in (0..64).chain(0..64) {
        let at = Lookup { asid: Asid(0), vpn: Vpn(vpn), kind: Kind::Load };
        clusters.access(at, Rows.pte(Asid(0), Vpn(vpn)).unwrap(), &Rows, &mut Unfiltered::default());
    }
    assert_eq!((clusters.counts().misses, rows("run_entries=1", (0..64).chain(0..64)).1), (16, 8));
}

#[test]
fn superpages_share_the_array_of_runs() {
    let keys = "l1d=4K:1,l1i=4K:1,l2=none,run_entries=2";
    let huge = Memory { order: 9, ..Memory::default() };
    let mut design = tlb("coalesced", keys);
    loads(&mut *design, &huge, [0, 512, 1, 513, 1024, 2]);
    assert_eq!(
        (design.counts().misses, design.counts().evictions, design.counts().merges),
        (4, 2, 0),
        "they join nothing"
    );
    // A split invalidates them; a run of base pages stays.
    let plain = Memory::default();
    let mut design = tlb("coalesced", keys);
    loads(&mut *design, &huge, [0]);
    loads(&mut *design, &plain, [600]);
    design.demote(Asid(0), VpnRange { start: Vpn(0), pages: 1024 }, &mut Unfiltered::default());
    let runs: Vec<u64> = design.entries().iter().filter(|e| e.slot >= 2).map(|e| e.base.0).collect();
    assert_eq!(runs, [600]);
    // Invalidating one page drops the whole run; all its translations count.
    let before = design.counts().invalidations;
    design.invalidate(Asid(0), VpnRange::one(Vpn(607)), &mut Unfiltered::default());
    assert_eq!(design.counts().invalidations - before, 8);
}
