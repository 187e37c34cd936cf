//! Ranges beside and before the levels of a hierarchy.

use super::*;

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
        RangeCounts {
            hits: 3,
            sole_hits: 3,
            misses: 3,
            full_searches: 6,
            walks: 1,
            nodes: 3,
            ..RangeCounts::default()
        }
    );
}

/// CA-30, RMM15-11, F-5, AMB-95.
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
    design.invalidate(Asid(0), VpnRange::one(Vpn(700)), &mut Unfiltered::default());
    assert_eq!(loads(&mut *design, &memory, [1, 2]), [Outcome::TagMiss, Outcome::Hit], "fetched again");
    design.demote(Asid(0), VpnRange::one(Vpn(3)), &mut Unfiltered::default());
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

/// F-6: lookups that ranges answer never reach the first level.
#[test]
fn f_6_ranges_before_the_first_level() {
    let memory = Memory { ranges: vec![range(0, 1000)], ..Memory::default() };
    let mut design = tlb("range", "range_order=first");
    loads(&mut *design, &memory, 0..1000);
    assert_eq!((design.counts().misses, design.counts().range.hits), (1, 999));
    assert_eq!(design.entries().len(), 3, "first level, second level and range of the one miss");
}

/// F-8, AMB-85, AMB-89, RMM15-4, RMM15-41: where range hits fill the second level as well, other pages lose their place
/// there.
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

/// H-RM-19, F-12: with the bit no search is wasted; a predictor wastes some and misses some; without either all pages
/// are searched for.
#[test]
fn rmm15_6_what_the_range_bit_saves() {
    let memory = Memory { ranges: vec![range(0, 10_000)], ..Memory::default() };
    let counts = |hint: &str| {
        let mut design = tlb("range", &format!("l1d=4K:1,l2=none,range_entries=1,range_hint={hint}"));
        // The range, then pages 2 MB apart without one, each place 20 times.
        loads(
            &mut *design,
            &memory,
            (0..10).chain((20..40).flat_map(|i| (0..20).map(move |j| 512 * i + j))).chain(0..10),
        );
        let r = design.counts().range.clone();
        (design.counts().misses, r.walks, r.wasted_walks, r.missed_ranges)
    };
    assert_eq!(counts("bit"), (401, 1, 0, 0));
    assert_eq!(counts("always"), (401, 401, 400, 0));
    // One search at first, and one after fifteen misses without.
    assert_eq!(counts("predictor"), (401, 41, 40, 0));
}

/// F-13, RMM15-14: memory without ranges switches it off, memory with ranges on, and a constant load switches at most
/// once.
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
    let error = farreach_oracle::driver::try_tlb("range", "range_control=counters,range_order=first").err().unwrap();
    assert!(error.starts_with("range_control = counters"), "{error}");
}

/// AMB-86: a lookup that both the second level and a range answer is a hit of the second level and costs nothing more;
/// a range that answers alone has its price (RMM15-3), and its walk none (RMM15-5).
#[test]
fn amb_86_a_range_costs_where_it_answers_alone() {
    let mut s = Stream::new();
    // The first page is walked for, and in the second level from then on; the next three are the range's; then the
    // first again.
    s.start().anon(0x100, 16).loads([0x100, 0x101, 0x102, 0x103, 0x100]);
    let out = run(&["rmm15/range:l1d=4K:2,memory=1M,range_hit_cycles=5"], &s);
    let (c, cost) = (&out.machine(0).counts.tlb, &out.machine(0).cost);
    assert_eq!((c.misses, c.range.hits, c.range.sole_hits, c.second_level_data_hits), (1, 4, 3, 1));
    assert_eq!((cost.cycles, cost.walk_cycles), (4 * 12 + 3 * 5 + 7, Some(48)));
}
