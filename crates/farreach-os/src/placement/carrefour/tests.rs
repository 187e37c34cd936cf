//! With one node it is `thp`.

use crate::Os;
use crate::testing::*;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Advice, Kind, Op};
use farreach_types::translation::PageTableView;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A random program of two processes with several threads.
fn run(os: &mut Os, seed: u64) {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    map(os, 16, 160);
    for step in 0..600 {
        let asid = if step > 100 { rng.random_range(0..2) } else { 0 };
        let vpn = rng.random_range(16..176);
        match rng.random_range(0..20) {
            0 => os.apply(Asid(asid), &Op::Switch { thread: rng.random_range(1..4) }),
            1 => os.apply(Asid(asid), &Op::Advise { start: vpn << 12, len: 5 << 12, advice: Advice::DontNeed }),
            _ => {
                let kind = if rng.random_bool(0.5) { Kind::Store } else { Kind::Load };
                let served = os.touch(Asid(asid), Vpn(vpn), kind);
                if served.is_ok() && os.counts_walks() {
                    os.walked(Asid(asid), Vpn(vpn));
                }
            }
        }
        if step == 100 {
            os.apply(Asid(0), &Op::Fork { child: Asid(1) });
        }
        os.advance(10 * step);
        os.check();
    }
}

#[test]
fn with_one_node_it_is_thp() {
    let keys = "thp_size=64K,mthp_sizes=16K,khugepaged=8,max_ptes_none=15,memory=1M";
    for seed in 0..20 {
        let mut thp = os("thp", keys);
        let own = "carrefour_period_ms=10,ticks_per_ms=1,carrefour_least_samples=1";
        let [mut one, mut two] = [1, 2].map(|nodes| os("carrefour", &format!("{keys},{own},carrefour_nodes={nodes}")));
        [&mut thp, &mut one, &mut two].into_iter().for_each(|os| run(os, seed));
        let table = |os: &Os| [0, 1].map(|asid| (16..176).map(|vpn| os.pte(Asid(asid), Vpn(vpn))).collect::<Vec<_>>());
        assert_eq!((thp.counts(), thp.memory_use()), (one.counts(), one.memory_use()), "OSC-5e");
        assert_eq!(table(&thp), table(&one));
        assert!(!one.counts_walks() && !one.keeps_time());
        assert!(counts(&two, ["carrefour_copied_pages"])[0] > 0, "with two pages move");
    }
}
