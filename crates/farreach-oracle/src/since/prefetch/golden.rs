//! The golden cases of sections 2.2, 2.3 and 2.4.

use super::predict::Predictor;
use super::tests::Bench;
use super::*;

const DP: Kind = Kind::Dp { rows: 256, ways: 1, slots: 2, train_first: false, allocate_at_lookup: false };
const RP: Kind = Kind::Rp { prefetch: 2, walk: false, leave: false };

fn pb16(kind: Kind) -> Config {
    Config::new(kind, 16)
}

fn left(b: &Bench) -> Vec<u64> {
    b.prefetch.held().iter().map(|held| held.first).collect()
}

#[test]
fn sp_1_pb_4_tagged_and_plain_sequential_prefetching() {
    let b = Bench::new(pb16(Kind::Sp { degree: 1 }), 64, 0..8).run(0..8);
    assert_eq!((b.sums(), &b.walked[..]), ([1, 7, 8, 1], &[0][..]));
    let config = Config { on_walk: true, ..pb16(Kind::Sp { degree: 1 }) };
    let b = Bench::new(config, 64, 0..8).run(0..8);
    assert_eq!((b.sums(), &b.walked[..]), ([4, 4, 4, 0], &[0, 2, 4, 6][..]));
}

#[test]
fn asp_1_asp_2_a_constant_stride() {
    let pages = [0, 4, 8, 12, 16];
    let mut b = Bench::new(pb16(Kind::Asp { threshold: 1, rows: 256, ways: 1 }), 64, pages).run([0, 4]);
    assert_eq!(b.count("candidates"), 0);
    for (page, brought, faulting) in [(8, vec![12], 0), (12, vec![16], 0), (16, vec![], 1)] {
        b.touch(1, page, 0x40, false);
        assert_eq!((left(&b), b.count("faulting")), (brought, faulting), "at {page}");
    }
    assert_eq!(b.sums(), [3, 2, 3, 1]);
    let b = Bench::new(pb16(Kind::Asp { threshold: 2, rows: 256, ways: 1 }), 64, pages).run(pages);
    assert_eq!(b.sums(), [4, 1, 2, 1], "by hand: at 12: 16; at 16: 20 x");
}

#[test]
fn mp_1_successors() {
    let b = Bench::new(pb16(Kind::Mp { rows: 256, ways: 1, slots: 2 }), 2, [1, 5, 9]).run([1, 5, 9, 1]);
    assert_eq!(left(&b), [5]);
    let b = b.run([5, 9]);
    assert_eq!((b.sums(), left(&b)), ([4, 2, 3, 0], vec![1]));
}

#[test]
fn dp_1_dp_2_dp_3_dp_4_distances() {
    let pages = [1, 2, 4, 5, 7, 8];
    let mut b = Bench::new(pb16(DP), 64, pages).run([1, 2, 4]);
    assert_eq!(b.count("candidates"), 0);
    for (page, brought, faulting) in [(5, vec![7], 0), (7, vec![8], 0), (8, vec![], 1)] {
        b.touch(1, page, 0x40, false);
        assert_eq!((left(&b), b.count("faulting")), (brought, faulting), "at {page}");
    }
    assert_eq!((b.sums(), &b.walked[..]), ([4, 2, 3, 1], &[1, 2, 4, 5][..]));
    let Predictor::Dp(dp) = &b.prefetch.instances[&0] else { panic!("it is DP") };
    let rows: Vec<_> = dp.rows.all().into_iter().map(|(d, row)| (d, row.clone())).collect();
    assert_eq!(rows, [(1, vec![2]), (2, vec![1])]);
}

/// By hand. With training first, the second equal distance in a row already predicts: a row may hold its own distance.
#[test]
fn dp_3_the_other_orders() {
    let dp = |train_first, allocate_at_lookup| {
        let kind = Kind::Dp { rows: 256, ways: 1, slots: 2, train_first, allocate_at_lookup };
        Bench::new(pb16(kind), 64, 0..5).run(0..5)
    };
    // At 2: row 1 becomes {1}. At 3: 4. At 4: 5 x.
    assert_eq!(dp(false, false).sums(), [4, 1, 2, 1]);
    // At 2: 3. At 3: 4. At 4: 5 x.
    assert_eq!(dp(true, false).sums(), [3, 2, 3, 1]);
    let rows = |b: &Bench| {
        let Predictor::Dp(dp) = &b.prefetch.instances[&0] else { panic!("it is DP") };
        dp.rows.all().into_iter().map(|(d, row)| (d, row.clone())).collect::<Vec<_>>()
    };
    let stop = |allocate_at_lookup| {
        let kind = Kind::Dp { rows: 256, ways: 1, slots: 2, train_first: false, allocate_at_lookup };
        rows(&Bench::new(pb16(kind), 64, [0, 1, 3]).run([0, 1, 3]))
    };
    assert_eq!(stop(false), [(1, vec![2])]);
    assert_eq!(stop(true), [(1, vec![2]), (2, vec![])]);
}

#[test]
fn rp_1_rp_2_rp_3_rp_5_a_stack() {
    let (a, b, c, d, e) = (1, 2, 3, 4, 5);
    let first = Bench::new(pb16(RP), 2, 1..6).run([a, b, c, d, e]);
    assert_eq!((first.prefetch.stack(1), first.count("pointer_writes")), (vec![c, b, a], 5));
    let mut run = first;
    for (page, brought, writes) in [(a, b, 8), (b, c, 11), (c, d, 14), (d, e, 17), (e, a, 20)] {
        run.touch(1, page, 0x40, false);
        assert_eq!((left(&run), run.count("pointer_writes")), (vec![brought], writes), "at {page}");
    }
    assert_eq!(run.sums(), [6, 4, 5, 0]);
    assert_eq!((run.prefetch.stack(1), run.count("nodes")), (vec![c, b, a], 5));
}

/// By hand.
#[test]
fn rp_2_rp_4_rp_6_three_candidates_changes_and_superpages() {
    let three = Kind::Rp { prefetch: 3, walk: true, leave: false };
    let mut b = Bench::new(pb16(three), 1, 1..7).run(1..7);
    assert_eq!(b.prefetch.stack(1), [5, 4, 3, 2, 1]);
    b.touch(1, 3, 0x40, false);
    assert_eq!((left(&b), b.prefetch.stack(1), b.count("nodes")), (vec![4, 2, 5], vec![6, 5, 4, 2, 1], 12));
    b.prefetch.changed(1, 4, 2);
    assert_eq!((left(&b), b.prefetch.stack(1), b.count("invalidated")), (vec![2], vec![6, 2, 1], 2));
    let leave = Kind::Rp { prefetch: 2, walk: false, leave: true };
    let b = Bench::new(pb16(leave), 1, 1..5).run([1, 2, 3, 4, 2]);
    assert_eq!((left(&b), b.prefetch.stack(1)), (vec![3, 1], vec![4]), "rp_leave");

    let mut b = Bench::new(pb16(RP), 1, [7]);
    b.world.mapped.insert((1, 512), (9, 5120));
    let mut b = b.run([600, 7]);
    assert_eq!(b.prefetch.stack(1), [512]);
    b.touch(1, 900, 0x40, false);
    assert_eq!((b.prefetch.stack(1), b.walked), (vec![7], vec![600, 7, 900]));
}

#[test]
fn h2p_1_two_distances() {
    let b = Bench::new(pb16(Kind::H2p { both_signs: false }), 64, [0, 1, 3, 4, 6, 7]).run([0, 1, 3, 4, 6, 7]);
    assert_eq!((b.sums(), &b.answered[..]), ([3, 3, 8, 5], &[4, 6, 7][..]));
    // At 3: 5 x, 1 (in the TLB), 4, 2 x.
    let b = Bench::new(pb16(Kind::H2p { both_signs: true }), 64, [0, 1, 3, 4]).run([0, 1, 3]);
    assert_eq!((b.count("candidates"), b.count("filtered"), b.sums(), left(&b)), (4, 1, [3, 0, 3, 2], vec![4]));
}

/// By hand. MASP: at 4: 8; at 8: 12; at 12: 16 x. STP: at 5 the pages 3, 4, 6, 7.
#[test]
fn masp_1_stp_1_strides() {
    let b = Bench::new(pb16(Kind::Masp { rows: 64, ways: 4 }), 64, [0, 4, 8, 12]).run([0, 4, 8, 12]);
    assert_eq!((b.sums(), b.count("candidates")), ([2, 2, 3, 1], 3));
    // At 4: 8. At 6: stride 4 gives 10 x, the last step gives 8, which is in the buffer.
    let b = Bench::new(pb16(Kind::Masp { rows: 64, ways: 4 }), 64, [0, 4, 6, 8]).run([0, 4, 6]);
    assert_eq!((b.sums(), left(&b), b.count("filtered")), ([3, 0, 2, 1], vec![8], 1));
    let b = Bench::new(pb16(Kind::Stp), 64, 0..16).run([5]);
    assert_eq!(left(&b), [3, 4, 6, 7]);
    let b = Bench::new(pb16(Kind::Stp), 64, 0..16).run([1]);
    assert_eq!((b.count("filtered"), left(&b)), (1, vec![0, 2, 3]), "-1 is no page");
}

#[test]
fn sbfp_1_sbfp_2_sbfp_3_free_entries() {
    let sbfp = |threshold| Config { free: Free::sbfp(threshold), ..Config::new(Kind::None, 64) };
    let b = Bench::new(sbfp(0), 64, 0..16).run(0..16);
    assert_eq!(b.walked, [0, 1, 3, 5, 7, 8, 10, 14]);
    assert_eq!(b.answered, [2, 4, 6, 9, 11, 12, 13, 15]);
    let fdt: Vec<_> = b.prefetch.distances().into_iter().map(|((_, d), n)| (d, n)).collect();
    assert_eq!(fdt, [(1, 4), (2, 2), (3, 3), (5, 2), (6, 1), (7, 2)]);
    assert_eq!((b.count("hits_free"), b.count("nodes")), (8, 0), "SBFP-5");

    let b = Bench::new(sbfp(100), 64, 0..16).run(0..16);
    let fdt: Vec<_> = b.prefetch.distances().into_iter().map(|((_, d), n)| (d, n)).collect();
    assert_eq!((b.sums(), fdt), ([16, 0, 0, 0], (1..8).map(|d| (d, 2)).collect()));

    let all = Config { free: Free::All, ..Config::new(Kind::None, 64) };
    let b = Bench::new(all, 64, 0..16).run(0..16);
    assert_eq!((b.sums(), b.count("hits_free")), ([2, 14, 0, 0], 14));
    let one = Config { free: Free::Static(vec![1]), ..Config::new(Kind::None, 64) };
    assert_eq!(Bench::new(one, 64, 0..16).run(0..16).sums(), [8, 8, 0, 0], "by hand: 0 brings 1, 2 brings 3");
}

/// By hand: 2 MB pages 0..8, missed in order, give the counts of base pages 0..8; a table among them is skipped.
#[test]
fn sbfp_4_superpages() {
    for per_size in [false, true] {
        let free = Free::Sbfp { threshold: 0, sampler: 64, keep: false, per_size };
        let mut b = Bench::new(Config { free, ..Config::new(Kind::None, 64) }, 64, []);
        b.world.mapped.extend((0..8).map(|i| ((1, 512 * i), (9, 512 * i))));
        let b = b.run((0..8).map(|i| 512 * i + 5));
        assert_eq!(b.walked, [0, 1, 3, 5, 7].map(|i| 512 * i + 5));
        let table = if per_size { 9 } else { 0 };
        assert!(b.prefetch.distances().keys().all(|key| key.0 == table));
    }
    let mut b = Bench::new(Config { free: Free::All, ..Config::new(Kind::None, 64) }, 64, 512..1024);
    b.world.mapped.extend([0, 2].map(|i| ((1, 512 * i), (9, 512 * i))));
    let b = b.run([3]);
    assert_eq!(left(&b), [1024]);
}

#[test]
fn atp_1_atp_2_atp_3_atp_4_atp_5_choices() {
    let b = Bench::new(pb16(Kind::Atp(Atp::new())), 64, 0..6).run([0]);
    assert_eq!((b.prefetch.atp_counters(0), b.count("chosen_none")), (Some([127, 0, 0]), 1));
    let b = b.run(1..6);
    assert_eq!((b.sums(), &b.walked[..]), ([2, 4, 5, 1], &[0, 1][..]));
    assert_eq!(b.prefetch.atp_counters(0), Some([132, 0, 1]));
    let chosen = ["chosen_none", "chosen_h2p", "chosen_masp", "chosen_stp"].map(|name| b.count(name));
    assert_eq!(chosen, [1, 0, 5, 0]);
}

#[test]
fn atp_6_off_and_a_single_child() {
    let off = Atp { initial: [0; 3], ..Atp::new() };
    let b = Bench::new(pb16(Kind::Atp(off)), 64, 0..127).run(0..127);
    assert_eq!((b.sums(), b.count("candidates"), b.count("chosen_none")), ([127, 0, 0, 0], 0, 127));
    let pages = [0, 4, 8, 12, 13, 14, 3, 7, 11];
    let alone = Atp { only: Some(1), ..Atp::new() };
    let one = Bench::new(pb16(Kind::Atp(alone)), 3, pages).run(pages.into_iter().chain(pages));
    let masp = Bench::new(pb16(Kind::Masp { rows: 64, ways: 4 }), 3, pages).run(pages.into_iter().chain(pages));
    assert_eq!((one.sums(), &one.walked, left(&one)), (masp.sums(), &masp.walked, left(&masp)));
}
