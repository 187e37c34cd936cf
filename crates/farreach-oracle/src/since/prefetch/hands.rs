//! Cases by hand of what the golden ones leave out.

use super::tests::Bench;
use super::*;

#[test]
fn hw_8_an_early_demand_is_late() {
    let config = |delay| Config { delay, ..Config::new(Kind::Sp { degree: 2 }, 16) };
    let late = |delay| Bench::new(config(delay), 64, 0..8).run(0..8).count("late");
    // Page 1 comes at distance 1, each later one at distance 2.
    assert_eq!([0, 1, 2, 3].map(late), [0, 0, 1, 7]);
}

#[test]
fn pb_1_pb_3_pb_6_pb_8_pb_9_by_hand() {
    let firsts = |b: &Bench| b.prefetch.held().iter().map(|held| held.first).collect::<Vec<_>>();
    // FIFO of two: page 0 brings 1 to 3, so 1 leaves unused.
    let b = Bench::new(Config::new(Kind::Sp { degree: 3 }, 2), 64, 0..8).run([0]);
    assert_eq!((firsts(&b), b.count("evicted_unused")), (vec![2, 3], 1));
    let b = Bench::new(Config::new(Kind::Sp { degree: 0 }, 2), 64, 0..8).run(0..8);
    assert_eq!((b.sums(), b.count("candidates")), ([8, 0, 0, 0], 0), "HW-4");
    // The filter: 1 is in the TLB, 2 in the buffer.
    let sp = |filter| Config { filter, ..Config::new(Kind::Sp { degree: 1 }, 16) };
    let b = Bench::new(sp(Filter::L2), 64, 0..8).run([1, 0]);
    assert_eq!((b.count("candidates"), b.count("filtered"), firsts(&b)), (2, 1, vec![2]));
    let b = Bench::new(sp(Filter::None), 64, 0..8).run([1, 0]);
    assert_eq!((b.count("filtered"), firsts(&b)), (0, vec![2, 1]));
    // The end of the space.
    let last = (1 << 35) - 1;
    let b = Bench::new(sp(Filter::L2), 64, [last, last + 1]).run([last]);
    assert_eq!((b.count("filtered"), b.count("walks")), (1, 0));
    // The second level: page 1 is there when it is touched.
    let into_l2 = Config { into_l2: true, ..sp(Filter::L2) };
    let b = Bench::new(into_l2, 64, 0..2).run([0, 1]);
    assert_eq!((&b.walked[..], b.sums()), (&[0][..], [1, 0, 1, 0]));
    // Superpages are one entry; a change of one of its pages drops it.
    let mut b = Bench::new(sp(Filter::L2), 64, []);
    b.world.mapped.extend([512, 1024].map(|page| ((1, page), (9, page))));
    let mut b = b.run([700]);
    assert_eq!((firsts(&b), b.count("nodes")), (vec![1024], 3));
    b.prefetch.changed(1, 1100, 1);
    assert_eq!((firsts(&b), b.count("invalidated")), (vec![], 1));
    // In base pages the next page is in the same superpage.
    let mut b = Bench::new(Config { base_unit: true, ..sp(Filter::L2) }, 64, []);
    b.world.mapped.extend([512, 1024].map(|page| ((1, page), (9, page))));
    assert_eq!(b.run([700]).count("filtered"), 1);
}

#[test]
fn hw_9_switches_and_ends() {
    let mp = Kind::Mp { rows: 256, ways: 1, slots: 2 };
    for (keep_at_switch, process_ids) in [(false, false), (false, true), (true, false), (true, true)] {
        let config = Config { keep_at_switch, free: Free::Static(vec![7]), ..Config::new(mp.clone(), 16) };
        let mut b = Bench::new(config, 1, [0, 7, 15]).run([0, 15]);
        b.world.mapped.extend([0, 15].map(|page| ((2, page), (0, page))));
        b.prefetch.switch(1, process_ids);
        assert_eq!(b.count("resident"), 1, "no switch");
        b.prefetch.switch(2, process_ids);
        assert_eq!(b.count("invalidated"), u64::from(!process_ids));
        b.touch(2, 0, 0x40, false);
        assert_eq!(b.count("prefetched"), u64::from(keep_at_switch), "rows hold no process");
        b.prefetch.gone(1);
        assert_eq!(b.count("resident"), u64::from(keep_at_switch));
    }
}

#[test]
fn sbfp_3_hw_9_free_entries_at_hand_and_the_sampler_at_a_switch() {
    let all = Config { free: Free::All, ..Config::new(Kind::None, 4) };
    let b = Bench::new(all, 64, [3, 5, 13]).run([13, 3]);
    assert_eq!(b.prefetch.held().iter().map(|held| held.first).collect::<Vec<_>>(), [5]);
    let b = b.run([5]);
    assert_eq!((b.count("free"), b.count("resident")), (1, 0));
    let mut b = Bench::new(Config { free: Free::All, ..Config::new(Kind::None, 4) }, 64, [3]).run([3]);
    b.world.mapped.insert((1, 5), (0, 5));
    b.touch(1, 5, 0x40, false);
    assert_eq!(b.count("free"), 0, "3 is in the second level");
    for process_ids in [false, true] {
        let config = Config { free: Free::sbfp(0), keep_at_switch: true, ..Config::new(Kind::None, 4) };
        let mut b = Bench::new(config, 64, [0, 1]).run([0]);
        b.prefetch.switch(2, process_ids);
        b.prefetch.switch(1, process_ids);
        assert_eq!(b.run([1]).count("sampler_hits"), u64::from(process_ids));
    }
}

/// MOR-1 to MOR-5: a loop over more pages than the second level holds.
#[test]
fn mor_1_mor_2_mor_3_mor_4_mor_5_loops_and_tables() {
    let morrigan = Kind::Morrigan { rows: [128, 128, 128, 64], halve: 1 << 16 };
    let pages: Vec<u64> = (0..40).map(|i| i * 37 % 101).collect();
    let mut b = Bench::new(Config::new(morrigan.clone(), 16), 8, pages.clone());
    for _ in 0..100 {
        pages.iter().for_each(|page| b.touch(1, *page, 0x40, true));
    }
    assert!(b.walked.len() <= 41, "all but the first round and the turn, MOR-5: {}", b.walked.len());
    let mut data = Bench::new(Config::new(morrigan.clone(), 16), 8, pages.clone());
    pages.iter().for_each(|page| data.touch(1, *page, 0x40, false));
    assert_eq!(data.count("candidates"), 0, "MOR-1");
    // Page 0 is followed by 10, 20 and 30: it moves to the table of two, then of four. 10 came twice, so it is first.
    let mut b = Bench::new(Config::new(morrigan, 16), 1, [0, 10, 20, 30]);
    for page in [0, 10, 0, 20, 0, 10, 0, 30, 0] {
        b.touch(1, page, 0x40, true);
    }
    let order: Vec<_> = b.prefetch.held().iter().map(|held| held.first).collect();
    assert_eq!((order, b.count("faulting")), (vec![20, 10, 30], 4), "MOR-5: 1, 11, 21 and 31 are not mapped");
}

#[test]
fn sbfp_1_sbfp_2_sbfp_3_the_table_and_the_sampler() {
    let mut sbfp = Sbfp::new(100, 2, false, false);
    { 0..100 }.for_each(|_| sbfp.update(0, 3));
    assert!(!sbfp.above(0, 3), "strictly");
    { 0..922 }.for_each(|_| sbfp.update(9, 3));
    sbfp.update(0, -1);
    assert_eq!((sbfp.fdt[&(0, 3)], sbfp.above(0, 3), sbfp.halvings), (1022, true, 0));
    sbfp.update(0, 3);
    assert_eq!((sbfp.fdt[&(0, 3)], sbfp.fdt[&(0, -1)], sbfp.halvings), (511, 0, 1));
    // FIFO of two; a page that is there keeps its distance; a find leaves.
    [(5, 1), (6, 2), (5, 7), (7, 3)].into_iter().for_each(|(page, d)| sbfp.sample(1, 0, page, d));
    [(1, 5), (2, 6), (1, 6), (1, 6), (1, 7)].into_iter().for_each(|(asid, page)| sbfp.search(asid, 0, page));
    assert_eq!((sbfp.sampler_hits, sbfp.fdt.get(&(0, 1)), sbfp.fdt[&(0, 2)]), (2, None, 1));
    let mut keep = Sbfp::new(100, 2, true, true);
    keep.sample(1, 9, 5, 4);
    keep.search(1, 0, 5);
    { 0..2 }.for_each(|_| keep.search(1, 9, 5));
    assert_eq!((keep.sampler_hits, keep.fdt[&(9, 4)]), (2, 2));
}

/// By hand: STP predicts 8, 9, 11, 12 for page 10, and each brings the page behind it.
#[test]
fn atp_4_fake_queues() {
    let queue = |keys: Atp| {
        let mut atp = atp::PlainAtp::new(&keys);
        atp.predict(10, 0x40);
        atp.remember(|page| vec![page + 1], |page| page != 9);
        atp.queues[2].iter().copied().collect::<Vec<_>>()
    };
    assert_eq!(queue(Atp::new()), [8, 9, 10, 11, 12, 13]);
    assert_eq!(queue(Atp { fpq: 4, ..Atp::new() }), [10, 11, 12, 13]);
    assert_eq!(queue(Atp { fpq_free: false, ..Atp::new() }), [8, 9, 11, 12]);
    assert_eq!(queue(Atp { fpq_mapped: true, ..Atp::new() }), [8, 10, 11, 12, 13]);
}

#[test]
fn atp_1_atp_2_atp_3_each_pattern_and_choice() {
    let vote = |hits: [u64; 3], initial| {
        let mut atp = atp::PlainAtp::new(&Atp { initial, ..Atp::new() });
        { 0..3 }.filter(|child| hits[*child] == 1).for_each(|child| atp.queues[child].push_back(7));
        atp.vote(7);
        atp.counters
    };
    // The left half of the table, then the right one.
    assert_eq!(vote([0, 0, 0], [99, 20, 1]), [98, 20, 1]);
    assert_eq!(vote([0, 0, 1], [99, 20, 1]), [100, 19, 2]);
    assert_eq!(vote([0, 1, 0], [99, 20, 1]), [100, 19, 0]);
    assert_eq!(vote([0, 1, 1], [99, 20, 1]), [100, 19, 1]);
    assert_eq!(vote([1, 0, 0], [99, 20, 1]), [100, 21, 1]);
    assert_eq!(vote([1, 0, 1], [99, 20, 1]), [100, 20, 2]);
    assert_eq!(vote([1, 1, 0], [99, 20, 1]), [100, 20, 0]);
    assert_eq!(vote([1, 1, 1], [99, 20, 1]), [100, 20, 1]);
    assert_eq!((vote([1, 0, 0], [255, 63, 0]), vote([0; 3], [0; 3])), ([255, 63, 0], [0; 3]), "saturating");
    assert_eq!((vote([0, 0, 1], [9, 0, 3]), vote([1, 1, 0], [9, 0, 0])), ([10, 0, 3], [10, 0, 0]), "saturating");
    let choice = |initial| atp::PlainAtp::new(&Atp { initial, ..Atp::new() }).choice();
    assert_eq!([[127, 63, 3], [128, 32, 3], [128, 31, 2], [128, 31, 1]].map(choice), [None, Some(0), Some(2), Some(1)]);
}

#[test]
fn mp_1_dp_3_rows_and_slots() {
    let mut table = rows::Rows::new(4, 2);
    // Even keys are in one set of two ways; the one used longest ago leaves.
    { 0..3 }.for_each(|i| *table.begun(2 * i, 0) += 1);
    assert_eq!(table.all().into_keys().collect::<Vec<_>>(), [2, 4]);
    table.get(2);
    table.begun(-2, 0);
    table.begun(-1, 0);
    assert_eq!(table.all().into_keys().collect::<Vec<_>>(), [-2, -1, 2]);
    let mut slots = Vec::new();
    let mut put = |value| {
        rows::put_first(&mut slots, value, 2);
        slots.clone()
    };
    assert_eq!([5, 6, 5, 7].map(&mut put), [vec![5], vec![6, 5], vec![5, 6], vec![7, 5]]);
}
