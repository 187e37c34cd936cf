//! The golden tables. Walks are demand walks; the counters in the order walks, faulting, hits.

use super::*;

/// The demand walks, and the walks, faulting walks and hits of prefetches.
fn run(keys: &str, mapped: impl IntoIterator<Item = u64>, stream: &[u64]) -> (Machine, Vec<u64>, [u64; 3]) {
    let mut machine = Machine::new(&format!("pb_entries=16,{keys}"), Table::of(mapped));
    machine.tlb.latest_fetch(0x40_0000);
    let walks = machine.load(stream.iter().copied());
    machine.check_laws();
    let counts = machine.count(["walks", "faulting", "hits"]);
    (machine, walks, counts)
}

/// SP-1.
#[test]
fn sp_1() {
    let stream: Vec<u64> = (0..8).collect();
    let (machine, walks, counts) = run(&format!("{LARGE},prefetcher=sequential"), 0..8, &stream);
    assert_eq!((walks, counts), (vec![0], [8, 1, 7]));
    // PB-7: page 8 is absent in the page table that has 0 to 7, so that each walk reads four nodes.
    // PB-11: with no walk caches they are as many as the 8 demand walks of a machine without, and one walk more.
    assert_eq!(machine.own().get("nodes"), 32);
    let (_, walks, counts) = run(&format!("{LARGE},prefetcher=sequential,prefetch_on=walk"), 0..8, &stream);
    assert_eq!((walks, counts), (vec![0, 2, 4, 6], [4, 0, 4]), "PB-4");
    let (_, walks, counts) = run(&format!("{LARGE},prefetcher=sequential,prefetch_degree=0"), 0..8, &stream);
    assert_eq!((walks, counts), (stream, [0, 0, 0]), "HW-4");
}

/// ASP-1, ASP-2.
#[test]
fn asp_1() {
    let stream = [0, 4, 8, 12, 16];
    let (_, walks, counts) = run(&format!("{LARGE},prefetcher=stride"), stream, &stream);
    assert_eq!((walks, counts), (vec![0, 4, 8], [3, 1, 2]));
    let (_, walks, counts) = run(&format!("{LARGE},prefetcher=stride,asp_threshold=2"), stream, &stream);
    assert_eq!((walks, counts), (vec![0, 4, 8, 12], [2, 1, 1]));
}

/// MP-1.
#[test]
fn mp_1() {
    let stream = [1, 5, 9, 1, 5, 9];
    let (machine, walks, counts) = run(&format!("{SMALL},prefetcher=markov"), stream, &stream);
    assert_eq!((walks, counts), (vec![1, 5, 9, 1], [3, 0, 2]));
    assert_eq!((machine.held(), machine.count(["resident"])), (vec![1], [1]));
}

/// DP-1, DP-2, DP-3 and DP-4.
#[test]
fn dp_1() {
    let stream = [1, 2, 4, 5, 7, 8];
    let (_, walks, counts) = run(&format!("{LARGE},prefetcher=distance"), stream, &stream);
    assert_eq!((walks, counts), (vec![1, 2, 4, 5], [3, 1, 2]));
    // HX-6. Learnt first, 2 leads to 1 when 4 misses only if the two are the same row: as before.
    let (_, walks, counts) = run(&format!("{LARGE},prefetcher=distance,dp_train=first"), stream, &stream);
    assert_eq!((walks, counts), (vec![1, 2, 4, 5], [3, 1, 2]));
    // Distance 1 after 1: the second miss at this distance predicts the third one, if it is learnt first.
    let stream = [0, 1, 2, 3];
    let (_, walks, counts) = run(&format!("{LARGE},prefetcher=distance"), stream, &stream);
    assert_eq!((walks, counts), (vec![0, 1, 2, 3], [1, 1, 0]));
    let (_, walks, counts) = run(&format!("{LARGE},prefetcher=distance,dp_train=first"), stream, &stream);
    assert_eq!((walks, counts), (vec![0, 1, 2], [2, 1, 1]));
}

/// RP-1, RP-2, RP-3 and RP-5.
#[test]
fn rp_1() {
    let stream = [1, 2, 3, 4, 5, 1, 2, 3, 4, 5];
    let (machine, walks, counts) = run(&format!("{SMALL},prefetcher=recency"), 1..6, &stream);
    assert_eq!((walks, counts), (vec![1, 2, 3, 4, 5, 1], [5, 0, 4]));
    assert_eq!(machine.count(["pointer_writes", "nodes"]), [20, 5], "RP-5: a prefetch is one reference");
    assert_eq!(machine.held(), [1], "the fifth page brings the first");
    let (machine, walks, _) = run(&format!("{SMALL},prefetcher=recency,rp_reference=walk"), 1..6, &stream);
    assert_eq!((walks.len(), machine.count(["pointer_writes", "nodes"])), (6, [20, 20]));
}

/// H2P-1.
#[test]
fn h2p_1() {
    let stream = [0, 1, 3, 4, 6, 7];
    let (_, walks, counts) = run(&format!("{LARGE},prefetcher=h2p"), stream, &stream);
    assert_eq!((walks, counts), (vec![0, 1, 3], [8, 5, 3]));
}

/// STP-1: at 2 the pages 0 and 1, which are negative or in the second level, are dropped.
#[test]
fn stp_1() {
    let (machine, walks, counts) = run(&format!("{LARGE},prefetcher=stp"), 0..6, &[0, 1, 2]);
    assert_eq!((walks, counts), (vec![0], [4, 0, 2]));
    assert_eq!(machine.count(["candidates", "filtered"]), [12, 8]);
    assert_eq!(machine.held(), [3, 4], "in the slots of 1 and 2");
}

/// MASP-1: the distance now from the second miss on, the stride before if it differs.
#[test]
fn masp_1() {
    let (machine, walks, counts) = run(&format!("{LARGE},prefetcher=masp"), 0..20, &[0, 2, 4, 9, 11]);
    // At 2: 4. At 4: 6. At 9: 11 by the stride, 14 by the distance. At 11: 16, 13.
    assert_eq!((walks, counts), (vec![0, 2, 9], [6, 0, 2]));
    assert_eq!(machine.count(["candidates", "filtered"]), [6, 0]);
}

/// SBFP-1, SBFP-3, SBFP-6 and PB-5, by the table of section 2.3.
#[test]
fn sbfp_1() {
    let stream: Vec<u64> = (0..16).collect();
    let keys = format!("{LARGE},prefetcher=none,prefetch_free=sbfp");
    let (machine, walks, counts) = run(&format!("{keys},sbfp_threshold=0"), 0..16, &stream);
    assert_eq!((walks, counts), (vec![0, 1, 3, 5, 7, 8, 10, 14], [0, 0, 8]));
    assert_eq!(machine.distances(), [0, 0, 0, 0, 0, 0, 0, 0, 4, 2, 3, 0, 2, 1, 2]);
    assert_eq!(machine.count(["hits_free", "sampler_hits", "fdt_updates", "nodes"]), [8, 6, 14, 0]);
    let (machine, walks, counts) = run(&keys, 0..16, &stream);
    assert_eq!((walks, counts), (stream.clone(), [0, 0, 0]));
    assert_eq!(machine.distances(), [0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2]);
    let (machine, walks, counts) = run(&format!("{LARGE},prefetcher=none,prefetch_free=all"), 0..16, &stream);
    assert_eq!((walks, counts), (vec![0, 8], [0, 0, 14]));
    assert_eq!(machine.count(["free", "nodes"]), [14, 0], "SBFP-5");
    let fixed = format!("{LARGE},prefetcher=none,prefetch_free=static,prefetch_static=-1+1");
    let (_, walks, counts) = run(&fixed, 0..16, &stream);
    assert_eq!((walks, counts), ((0..16).step_by(2).collect(), [0, 0, 8]));
}

/// ATP-1, ATP-4 and ATP-5, by the text of section 2.4.
#[test]
fn atp_1() {
    let stream: Vec<u64> = (0..6).collect();
    let (machine, walks, counts) = run(&format!("{LARGE},prefetcher=atp"), 0..6, &stream);
    assert_eq!((walks, counts), (vec![0, 1], [5, 1, 4]));
    assert_eq!(machine.count(["chosen_none", "chosen_h2p", "chosen_masp", "chosen_stp"]), [1, 0, 5, 0]);
}

/// MOR-1, MOR-5: a loop over more code pages than the second level has entries, in the same order.
#[test]
fn mor_5_a_loop_is_covered() {
    let keys = "l1d=4K:1,l1i=4K:1,l2=4K:8,prefetcher=morrigan,pb_entries=16";
    let mut machine = Machine::new(keys, Table::of((0..300).map(|page| page * 3)));
    let order: Vec<u64> = (0..100).map(|i| i * 37 % 100 * 9).collect();
    let mut round = || order.iter().filter(|page| machine.look(Kind::Fetch, **page)).count();
    assert_eq!([round(), round(), round()], [100, 1, 0]);
    machine.check_laws();
    assert_eq!(machine.load([3, 6]), [3, 6], "loads do not count");
    assert_eq!(machine.count(["hits", "evicted_unused"]), [199, 0]);
}

/// ATP-6: with all counters at 0 nothing is prefetched in fewer than 128 misses.
#[test]
fn atp_6() {
    let stream: Vec<u64> = (0..127).collect();
    let (machine, walks, counts) = run(&format!("{LARGE},prefetcher=atp,atp_initial=0+0+0"), 0..127, &stream);
    assert_eq!((walks, counts), (stream, [0; 3]));
    assert_eq!(machine.count(["chosen_none", "candidates"]), [127, 0]);
}
