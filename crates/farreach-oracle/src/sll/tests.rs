//! The hand case of section 4.3, others by hand, and the laws on random streams.

use super::*;
use crate::dice::{Dice, seeds};

fn array(orders: &[u8], entries: usize, ways: usize) -> Array {
    Array { orders: orders.to_vec(), entries, ways }
}

fn config(cores: usize, l2_shared: bool) -> SllConfig {
    let l1 = || vec![array(&[0], 4, 2), array(&[9], 2, 1), array(&[18], 1, 1)];
    SllConfig { cores, l1: [l1(), l1()], l2: vec![array(&[0, 9], 16, 4)], l2_shared, process_ids: true }
}

fn counts<const N: usize>(m: &Sll, names: [&str; N]) -> [u64; N] {
    names.map(|name| m.counts[name])
}

#[test]
fn sll_1_sll_2_the_hand_case() {
    for (l2_shared, walks) in [(true, 10), (false, 20)] {
        let mut m = Sll::new(config(2, l2_shared));
        (0..10).for_each(|page| m.map(1, page, 0));
        for page in 0..10 {
            m.lookup(0, 1, page, false);
            m.lookup(1, 1, page, false);
        }
        assert_eq!(counts(&m, ["l1_hits", "l2_hits", "walks"]), [0, 20 - walks, walks]);
        // OY-3: pages 0 to 9 are in four sets of four, or eight; each first level has the last two of two sets.
        m.changed(1, 0, 10);
        let dropped = if l2_shared { 10 } else { 20 };
        assert_eq!(counts(&m, ["l1_invalidations", "l2_invalidations"]), [8, dropped]);
    }
}

/// By hand: two cores with two sets of one way each share four.
#[test]
fn sll_1_capacity_and_processes() {
    let one = || vec![array(&[0], 1, 1)];
    let config = |l2_shared, process_ids| {
        let l2 = vec![array(&[0], 2, 1)];
        SllConfig { cores: 2, l1: [one(), one()], l2, l2_shared, process_ids }
    };
    for (l2_shared, answers) in [(true, [Answer::L2; 4]), (false, [Answer::Walk; 4])] {
        let mut m = Sll::new(config(l2_shared, true));
        (0..4).for_each(|page| m.map(1, page, 0));
        let mut round = || [0, 1, 2, 3].map(|page| m.lookup(0, 1, page, false));
        assert_eq!([round(), round()], [[Answer::Walk; 4], answers]);
        m.map(2, 0, 0);
        assert_eq!(m.lookup(1, 2, 0, false), Answer::Walk, "another process");
        assert_eq!(m.lookup(1, 2, 0, true), Answer::L2, "the other first level");
        assert_eq!(m.lookup(0, 1, 3, false), Answer::L1);
        assert_eq!(m.lookup(0, 1, 0, false), Answer::Walk, "the other process took its set, or never had it");
    }
    // A core that switches empties what is shared.
    let mut m = Sll::new(config(true, false));
    m.map(1, 0, 0);
    m.map(2, 0, 0);
    assert_eq!([m.lookup(0, 1, 0, false), m.lookup(1, 1, 0, false)], [Answer::Walk; 2]);
    assert_eq!([m.lookup(0, 2, 0, false), m.lookup(1, 1, 0, false)], [Answer::Walk, Answer::L1]);
    assert_eq!(m.second(), [(2, 0, 0)]);
}

#[test]
fn sll_3_prices_and_hops() {
    // Four cores, two rows: slice 3 is across from core 0.
    assert_eq!([0, 1, 2, 3, 7].map(|vpn| hops(4, 0, vpn)), [0, 1, 1, 2, 2]);
    assert_eq!([hops(2, 0, 1), hops(1, 0, 5), hops(16, 5, 15)], [1, 0, 4]);
    let mut m = Sll::new(config(4, true));
    m.map(1, 3, 0);
    [0, 1, 2, 3].iter().for_each(|&core| assert_ne!(m.lookup(core, 1, 3, false), Answer::L1));
    assert_eq!(counts(&m, ["walks", "l2_hits", "hops"]), [1, 3, 1 + 1]);
    assert_eq!([m.price(7, 0, 0), m.price(7, 1, 0), m.price(7, 0, 1)], [21, 24, 25]);
}

/// One core: as private. Any number: lookups are answered once; what is looked up twice hits; nothing that was
/// unmapped is there; a shared level keeps all, so that with room for all its walks are the pages.
#[test]
fn sll_1_sll_2_laws_on_random_streams() {
    for seed in seeds(200) {
        let mut dice = Dice::new(seed);
        let (cores, process_ids) = (dice.pick(&[1, 2, 4]), dice.percent(70));
        let keys = |l2_shared| SllConfig { process_ids, ..config(cores, l2_shared) };
        let mut machines = [Sll::new(keys(true)), Sll::new(keys(false))];
        let mut lookups = 0;
        let mut running = vec![1; cores];
        for _ in 0..1000 {
            let (core, vpn) = (dice.below(cores as u64) as usize, dice.below(3) << 9 | dice.below(12));
            if dice.percent(2) {
                running[core] = 1 + dice.below(2) as u32;
            }
            let asid = running[core];
            let order = if vpn < 1024 { 0 } else { 9 };
            let first = vpn >> order << order;
            let (mapped, change) = (machines[0].mapped.contains_key(&(asid, first)), dice.below(100));
            for m in &mut machines {
                if !mapped {
                    m.map(asid, first, order);
                }
                m.lookup(core, asid, vpn, false);
                assert_eq!(m.lookup(core, asid, vpn, false), Answer::L1);
                match change {
                    0..4 => m.unmap(asid, first),
                    4 => m.changed(asid, 0, 1024),
                    5 => m.gone(asid),
                    _ => {}
                }
                let second = m.second();
                let stands = |e: &Entry| m.mapped.get(&(e.0, e.2 << e.1)) == Some(&e.1);
                assert!(second.iter().all(stands), "HW-5");
                assert!(!m.config.l2_shared || second.windows(2).all(|two| two[0] != two[1]), "once");
            }
            lookups += 2;
            if cores == 1 {
                assert_eq!(machines[0].counts, machines[1].counts);
                assert_eq!(machines[0].second(), machines[1].second());
            }
        }
        for m in &machines {
            assert_eq!(counts(m, ["l1_hits", "l2_hits", "walks"]).iter().sum::<u64>(), lookups);
        }
        let [shared, own] = machines.map(|m| m.counts["l1_hits"]);
        assert_eq!(shared, own, "first levels are alike");
    }
}
