//! Single rules by hand.

use super::*;

/// HW-8: a page that was brought in 10 instructions ago is late until 11 have passed, and answers all the same.
#[test]
fn hw_8_late_hits() {
    let mut machine = Machine::new(&format!("{LARGE},prefetcher=sequential,prefetch_delay=10"), Table::of(0..9));
    for (position, page) in [(0, 0), (9, 1), (19, 2), (29, 3)] {
        machine.tlb.position(position);
        machine.load([page]);
    }
    assert_eq!(machine.count(["hits", "late"]), [3, 1]);
}

/// PB-1: the entry that came first leaves. PB-12: it was never used.
#[test]
fn pb_1_first_in_first_out() {
    for replacement in ["fifo", "lru"] {
        let keys = format!("{LARGE},prefetcher=sequential,pb_entries=2,pb_replacement={replacement}");
        let mut machine = Machine::new(&keys, Table::of(0..99));
        machine.load([10, 20, 30]);
        assert_eq!((machine.held(), machine.count(["evicted_unused"])), (vec![31, 21], [1]));
        // 30 predicts 31 again; it is not renewed by that.
        machine.load([21]);
        assert_eq!((machine.held(), machine.count(["hits", "evicted_unused"])), (vec![31, 22], [1, 1]));
        machine.check_laws();
    }
}

/// PB-6: the page itself, what is negative or beyond 47 bits, what the TLBs or the buffer have.
#[test]
fn pb_6_filter() {
    let last = (1 << 35) - 1;
    let mut machine = Machine::new(&format!("{LARGE},prefetcher=stp"), Table::of([0, 1, 2, last, last - 1]));
    machine.load([0]);
    assert_eq!(machine.count(["candidates", "filtered", "walks"]), [4, 2, 2], "-2 and -1");
    machine.load([last]);
    assert_eq!(machine.count(["candidates", "filtered", "walks"]), [8, 4, 4], "2^35 and 2^35 + 1");
    machine.load([1]);
    assert_eq!(machine.count(["candidates", "filtered", "walks"]), [12, 7, 5], "-1, 0 in L2, 2 in the buffer");
    // Fetches have no second level, and the first level is looked at only with l1.
    let walks = |filter: &str| {
        let keys = format!("l1d=4K:64,l1i=4K:64,l2=4K:64,l2i=none,prefetcher=stp,prefetch_filter={filter}");
        let mut machine = Machine::new(&keys, Table::of(0..9));
        [3, 4].iter().for_each(|page| _ = machine.look(Kind::Fetch, *page));
        machine.own().get("filtered")
    };
    assert_eq!((walks("l1"), walks("l2"), walks("none")), (3, 2, 2), "4 predicts 3, which only L1 has");
}

/// PB-7, HW-10: walks use and fill the walk caches, unless they must not, and stop at the first entry that is absent.
#[test]
fn pb_7_walks_and_walk_caches() {
    let nodes = |keys: &str| {
        let table = Table::of([5, 510, 511, 512]);
        let mut machine =
            Machine::new(&format!("{LARGE},pwc_pd=4,pwc_pdpt=4,pwc_pml4=4,prefetcher=sequential{keys}"), table);
        machine.load([511]);
        let first = machine.own().get("nodes");
        machine.load([512]);
        let second = machine.own().get("nodes") - first;
        (first, second, machine.tlb.counts.walk.walks)
    };
    // 511 misses: 512 is in the next page table, reached from the cached page directory. 512 hits: 513 is absent.
    assert_eq!(nodes(""), (2, 1, 1));
    assert_eq!(nodes(",prefetch_fills_pwc=false"), (2, 2, 1));
    // A page whose directory is absent: the entries of the root and of the level below it.
    let mut machine = Machine::new(&format!("{LARGE},prefetcher=sequential"), Table::of([(1 << 18) - 1]));
    machine.load([(1 << 18) - 1]);
    assert_eq!(machine.count(["walks", "faulting", "nodes"]), [1, 1, 2]);
}

/// PB-8: each size by itself; in base pages, the next page of a superpage is there.
#[test]
fn pb_8_superpages() {
    let mut table = Table::of([0, 1, 2]);
    (1..4).for_each(|group| table.map(Asid(0), group << 9, 9, group << 9 | 1 << 16));
    let mut own = Machine::new(&format!("{LARGE},prefetcher=sequential"), table.clone());
    assert_eq!(own.load([512 + 7, 1024 + 300, 1536]), [512 + 7]);
    assert_eq!(own.count(["walks", "faulting", "hits", "nodes"]), [3, 1, 2, 3 + 3 + 3]);
    let mut base = Machine::new(&format!("{LARGE},prefetcher=sequential,predict_unit=base"), table.clone());
    assert_eq!(base.load([512 + 7, 1024 + 300, 1536]).len(), 3);
    assert_eq!(base.count(["candidates", "filtered"]), [3, 3]);
    // An entry of a superpage answers for any of its pages, and lists its first frame.
    let mut far = Machine::new(&format!("{LARGE},prefetcher=sequential"), table);
    far.load([512]);
    let mut views = Vec::new();
    far.prefetch.lock().unwrap().views(7, &mut views);
    assert_eq!(
        (views[0].slot, views[0].base, views[0].order, views[0].pages[0].1.pfn),
        (7, Vpn(1024), 9, Pfn(0x10400))
    );
    assert_eq!(far.tlb.probe(Asid(0), Vpn(1025), Kind::Load).unwrap().pfn, Pfn(0x10401));
}

/// PB-9, HW-9.
#[test]
fn pb_9_changes_drop_entries() {
    let unfiltered = &mut Unfiltered::default();
    let mut machine = Machine::new(&format!("{LARGE},prefetcher=sequential,prefetch_degree=3"), Table::of(0..9));
    machine.load([0]);
    machine.tlb.invalidate(Asid(0), VpnRange { start: Vpn(2), pages: 5 }, unfiltered);
    assert_eq!((machine.held(), machine.count(["invalidated", "resident"])), (vec![1], [2, 1]));
    assert_eq!(machine.tlb.counts.invalidations, 0, "they are the buffer's own");
    machine.tlb.switch(Asid(1), unfiltered);
    assert_eq!(machine.held(), [1], "tags have the process");
    machine.tlb.invalidate_space(Asid(0), unfiltered);
    assert_eq!(machine.count(["invalidated", "resident"]), [3, 0]);
    let mut untagged = Machine::new(&format!("{LARGE},prefetcher=sequential,process_ids=false"), Table::of(0..9));
    untagged.load([0]);
    untagged.tlb.switch(Asid(1), unfiltered);
    assert_eq!(untagged.count(["invalidated", "resident"]), [1, 0]);
}

/// HW-9: a switch flushes what is learnt on the chip, unless it is kept.
#[test]
fn hw_9_switches() {
    let predicted = |keys: &str| {
        let mut machine = Machine::new(&format!("{LARGE},prefetcher=h2p{keys}"), Table::of(0..20));
        machine.load([0, 1]);
        machine.tlb.switch(Asid(1), &mut Unfiltered::default());
        machine.tlb.switch(Asid(0), &mut Unfiltered::default());
        machine.load([3]);
        machine.own().get("candidates")
    };
    assert_eq!((predicted(""), predicted(",predictors_on_switch=keep")), (0, 2));
}

/// SBFP-2: at 1023 all counters are halved. SBFP-6 goes on.
#[test]
fn sbfp_2_counters_halve() {
    let mut machine = Machine::new(&format!("{LARGE},prefetcher=none,prefetch_free=sbfp"), Table::of(0..16400));
    // Two in each line: the second is found in the sampler at +1, and after 101 lines it is free.
    machine.load((0..16368).filter(|page| page % 8 < 2));
    // 511 at the count of 1023, and again at that of 1535.
    assert_eq!((machine.distances()[8], machine.count(["fdt_updates", "hits_free"])), (511 + 511, [2046, 1945]));
}

/// SBFP-4: the line of a 2 MB leaf has those of 2 MB; entries that point to tables are skipped.
#[test]
fn sbfp_4_superpages() {
    let mut table = Table::of([0, 512 * 3]);
    [1, 2, 5].iter().for_each(|group| table.map(Asid(0), group << 9, 9, group << 9));
    let mut machine = Machine::new(&format!("{LARGE},prefetcher=none,prefetch_free=all"), table);
    machine.load([512 * 2 + 9]);
    assert_eq!((machine.held(), machine.count(["free"])), (vec![512, 512 * 5], [2]));
}

/// RP-4: an unmapped page leaves the stack, a superpage by any of its pages.
#[test]
fn rp_4_unmapped_pages_leave() {
    let mut table = Table::of([1, 2, 3, 4]);
    table.map(Asid(0), 512, 9, 512);
    let small = "l1d=4K:1,l1i=4K:1,l2=4K|2M:2,replacement=lru";
    let predicted = |gone: VpnRange| {
        let mut machine = Machine::new(&format!("{small},prefetcher=recency"), table.clone());
        // The stack ends as 2, 512, 1 from the top.
        machine.load([1, 512 + 3, 2, 3, 4]);
        machine.tlb.invalidate(Asid(0), gone, &mut Unfiltered::default());
        machine.load([1]);
        machine.held()
    };
    let one = |page| VpnRange::one(Vpn(page));
    assert_eq!((predicted(one(900)), predicted(one(2)), predicted(one(90))), (vec![2], vec![512], vec![512]), "RP-6");
    assert_eq!(predicted(VpnRange { start: Vpn(0), pages: 400 }), [0; 0]);
}

/// MOR-1: other misses neither look nor teach.
#[test]
fn mor_1_for_one_side() {
    let mut machine = Machine::new(&format!("{LARGE},prefetcher=sequential,pb_for=fetch"), Table::of(0..9));
    assert!(machine.look(Kind::Load, 3));
    assert!(machine.look(Kind::Fetch, 5));
    assert!(machine.look(Kind::Load, 6), "it is not looked up for loads");
    assert_eq!(machine.count(["hits", "resident"]), [0, 1]);
}

/// HW-6, HW-12, HW-13, PB-3.
#[test]
fn refusals_name_key_value_and_what_is_allowed() {
    for (keys, parts) in [
        ("prefetch_into=l2,prefetch_delay=3", ["prefetch_delay = 3", "prefetch_into = l2", "must be 0"]),
        ("prefetch_into=l2,prefetch_filter=none", ["prefetch_filter = none", "prefetch_into = l2", "l2 or l1"]),
        ("prefetcher=recency,table=hashed", ["rp_reference = pte", "table = hashed", "must be walk"]),
        ("cores=2", ["behind = none", "cores = 2", "cores must be 1"]),
        ("guest=walk", ["behind = none", "guest = walk", "guest must be none"]),
        ("atp_initial=256+0+0,prefetcher=atp", ["atp_initial = 256+0+0", "255", "63"]),
        ("prefetch_static=8", ["prefetch_static = 8", "'8' is no distance", "-7 to 7"]),
        ("prefetch_rows=3,prefetcher=markov", ["prefetch_rows = 3", "power of two", "sets"]),
        ("prefetcher=seq", ["prefetcher = seq", "sequential", "recency"]),
        ("pb_entries=0", ["pb_entries = 0", "1 to 65536", "whole number"]),
        ("asp_threshold=4", ["asp_threshold = 4", "1 to 3", "whole number"]),
    ] {
        let why = Machine::try_new(keys, Table::default()).err().unwrap_or_else(|| panic!("{keys} is accepted"));
        assert!(parts.iter().all(|part| why.contains(part)), "{keys}: {why}");
    }
    for (keys, needs) in [
        ("prefetcher=stride", Some("prefetcher = stride")),
        ("prefetcher=recency", None),
        ("prefetcher=stp,prefetch_delay=7", Some("prefetch_delay = 7")),
    ] {
        let params = resolve(&format!("behind=prefetch,{keys}"), &[]).unwrap();
        assert_eq!((LISTED.needs_fetches)(&params).as_deref(), needs);
    }
}

#[test]
fn counters_have_their_names() {
    for (place, name) in [
        (HITS, "hits"),
        (HITS_FREE, "hits_free"),
        (HITS_PREFETCHED, "hits_prefetched"),
        (LATE, "late"),
        (CANDIDATES, "candidates"),
        (FILTERED, "filtered"),
        (WALKS, "walks"),
        (NODES, "nodes"),
        (FAULTING, "faulting"),
        (PREFETCHED, "prefetched"),
        (FREE, "free"),
        (EVICTED_UNUSED, "evicted_unused"),
        (INVALIDATED, "invalidated"),
        (RESIDENT, "resident"),
        (INTO_L2, "into_l2"),
        (FDT_UPDATES, "fdt_updates"),
        (SAMPLER_HITS, "sampler_hits"),
        (POINTER_WRITES, "pointer_writes"),
    ] {
        assert_eq!(LISTED.counters[place].name, name);
    }
    let chosen: Vec<_> = LISTED.counters[CHOSEN..].iter().map(|counter| counter.name).collect();
    assert_eq!(chosen, ["chosen_none", "chosen_h2p", "chosen_masp", "chosen_stp"]);
}
