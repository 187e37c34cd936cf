//! The hand values and laws of SHD and AGI.

use super::*;
use crate::dice::Dice;

fn hosts(kind: HostKind) -> HostConfig {
    HostConfig { kind, ..HostConfig::default() }
}

/// References of a walk without caches to a mapped base page.
fn references(config: HostConfig) -> u64 {
    let mut all = Hosts::new(config);
    all.fault(1, 70, 0);
    let walked = all.look(1, 70, false, true).expect("a walk");
    walked.own + walked.host
}

#[test]
fn agi_1_references_by_shadowed_levels() {
    let by_levels = (0..=4).map(|top| references(hosts(HostKind::Top(top))));
    assert_eq!(by_levels.collect::<Vec<_>>(), [20, 16, 12, 8, 4]);
    let walked = |top| references(HostConfig { first_walked: true, ..hosts(HostKind::Top(top)) });
    assert_eq!((0..=4).map(walked).collect::<Vec<_>>(), [24, 20, 16, 12, 4]);
    assert_eq!(references(hosts(HostKind::Walk)), 24);
    assert_eq!(references(hosts(HostKind::Shadow)), 4);
}

#[test]
fn l5_references() {
    let five = HostConfig { levels: 5, host_levels: 5, ..HostConfig::default() };
    assert_eq!(references(HostConfig { kind: HostKind::Walk, ..five }), 35);
    assert_eq!(references(HostConfig { kind: HostKind::Shadow, ..five }), 5);
    let by_levels = (0..=5).map(|top| references(HostConfig { kind: HostKind::Top(top), ..five }));
    assert_eq!(by_levels.collect::<Vec<_>>(), [30, 25, 20, 15, 10, 5]); // s + 1 + 6(4-s) + 5
}

/// A process that maps, uses, stores to, changes, and is switched to.
#[test]
fn shd_2_traps_by_hand() {
    let mut all = Hosts::new(hosts(HostKind::Shadow));
    all.switch(0); // the first to run
    all.switch(1);
    all.fault(1, 0, 0);
    all.fault(1, 512, 9);
    all.look(1, 0, false, true);
    all.look(1, 0, true, false); // clean
    all.look(1, 0, true, true); // modified, and built
    for page in 512..515 {
        all.look(1, page, true, true); // OI-1: three entries; OI-3: a fill of a clean page
    }
    assert_eq!(all.traps, Traps { switches: 1, faults: 2, fills: 4, first_stores: 1, ..Traps::default() });
    all.split(1, 512);
    all.look(1, 513, true, true); // OI-4: still modified
    all.unmap(1, 0);
    all.unmap(1, 514); // not built since
    assert_eq!(all.traps.changes, 2);
    all.fault(1, 0, 0);
    all.look(1, 0, true, true);
    assert_eq!(all.traps, Traps { switches: 1, faults: 3, fills: 6, changes: 2, first_stores: 1, ..Traps::default() });
    assert_eq!(all.traps.sum(), 13);
}

/// One node is written twice, rests, and goes back; its walks and traps (epoch 100).
#[test]
fn agi_2_a_node_by_hand() {
    let mut all = Hosts::new(HostConfig { epoch: 100, ..hosts(HostKind::Agile) });
    let walk = |all: &mut Hosts, now, page| {
        all.at(now);
        let walked = all.look(1, page, false, true).unwrap();
        walked.own + walked.host
    };
    all.fault(1, 0, 0); // each node is written once
    assert_eq!(walk(&mut all, 0, 0), 4);
    all.fault(1, 1, 0); // the leaf node twice
    assert_eq!((walk(&mut all, 100, 0), walk(&mut all, 100, 1)), (8, 8));
    all.unmap(1, 1);
    all.fault(1, 2, 0);
    assert_eq!(all.traps, Traps { faults: 2, fills: 1, went_nested: 1, ..Traps::default() });
    assert_eq!(walk(&mut all, 150, 0), 8); // the last write
    assert_eq!(walk(&mut all, 250, 0), 8);
    assert_eq!(walk(&mut all, 251, 0), 4);
    all.unmap(1, 0); // one write
    assert_eq!(walk(&mut all, 300, 2), 4);
    all.fault(1, 0, 0); // after an epoch
    assert_eq!(walk(&mut all, 401, 0), 4);
    all.fault(1, 3, 0);
    assert_eq!(walk(&mut all, 402, 0), 8);
    all.fault(1, 4, 0); // once, after an epoch: it goes back, before it is walked
    assert_eq!(walk(&mut all, 503, 0), 4);
    let traps = Traps { faults: 4, fills: 5, changes: 1, went_nested: 2, went_back: 2, ..Traps::default() };
    assert_eq!(all.traps, traps);
}

/// "With all below": two page tables come below one page directory.
#[test]
fn agi_2_upper_nodes() {
    let mut all = Hosts::new(hosts(HostKind::Agile));
    all.fault(1, 0, 0);
    all.fault(1, 512, 0);
    let walked = all.look(1, 0, false, true).unwrap();
    assert_eq!(walked, Walked { own: 4, host: 8, host_walks: 2 }); // 2 merged, 1, 5, 4
    all.fault(1, 1 << 18, 0);
    let walked = all.look(1, 0, false, true).unwrap();
    assert_eq!(walked, Walked { own: 4, host: 12, host_walks: 3 });
    // The directory goes with its pages, and with its history.
    all.unmap(1, 0);
    all.unmap(1, 512);
    all.fault(1, 0, 0);
    assert!(!all.nested((1, 2, 0)));
}

/// Stores set the modified bit of the guest's page once, by whichever side its node is on.
#[test]
fn shd_2_first_stores_by_hand() {
    let mut all = Hosts::new(HostConfig { epoch: 100, ..hosts(HostKind::Agile) });
    all.fault(1, 0, 0);
    all.fault(1, 1, 0);
    all.look(1, 0, true, true); // nested
    all.look(1, 1, false, true);
    all.at(101);
    all.look(1, 0, true, true); // modified in the guest
    all.look(1, 1, false, true);
    assert_eq!(all.traps.first_stores, 0);
    all.look(1, 1, true, false);
    all.look(1, 1, true, false);
    assert_eq!(all.traps.first_stores, 1);
}

/// Never nested is shadow paging, always nested is two dimensions (the first node is translated, OI-15).
#[test]
fn agi_laws() {
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let caches = dice.pick(&[[0; 4], [4, 2, 1, 1], [2, 0, 1, 0]]);
        let base = HostConfig {
            levels: 4 + dice.below(2) as u8,
            host_order: dice.pick(&[0, 9, 18]),
            fracture: dice.percent(50),
            caches,
            process_ids: dice.percent(50),
            first_walked: true,
            ..HostConfig::default()
        };
        let walks = HostConfig { kind: HostKind::Walk, ..base };
        let shadow = HostConfig { kind: HostKind::Shadow, ..base };
        let never = HostConfig { kind: HostKind::Top(base.levels), ..base };
        let always = HostConfig { kind: HostKind::Top(0), ..base };
        let mut all = [walks, shadow, never, always].map(Hosts::new);
        let mut pages = BTreeMap::new();
        for now in 0..300 {
            let (asid, place) = (dice.below(2) as u32, dice.below(3) << 18);
            let vpn = place + dice.below(3) * 512 + dice.below(4);
            let (store, missed, act) = (dice.percent(30), dice.percent(70), dice.below(10));
            let walked = all.each_mut().map(|hosts| {
                hosts.at(now * 10);
                match pages.get(&(asid, vpn)) {
                    _ if act == 0 => {
                        hosts.switch(asid);
                        None
                    }
                    None => {
                        hosts.fault(asid, vpn, 0);
                        None
                    }
                    Some(()) if act == 1 => {
                        hosts.unmap(asid, vpn);
                        None
                    }
                    Some(()) => hosts.look(asid, vpn, store, missed),
                }
            });
            match (act, pages.contains_key(&(asid, vpn))) {
                (0, _) => {}
                (_, false) => _ = pages.insert((asid, vpn), ()),
                (1, true) => _ = pages.remove(&(asid, vpn)),
                _ => {}
            }
            assert_eq!(walked[1], walked[2], "never is shadow");
            assert_eq!(walked[0], walked[3], "always is nested");
            if let (Some(nested), Some(native)) = (walked[0], walked[1]) {
                assert_eq!(nested.own, native.own, "base pages");
                assert!(native.host == 0 && nested.host > 0);
            }
        }
        assert_eq!(all[1].traps, all[2].traps);
        assert_eq!((all[0].traps, all[3].traps), (Traps::default(), Traps::default()));
        assert!(all[1].traps.sum() > 100);
    }
}
