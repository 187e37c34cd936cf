//! Random inserts, deletes and resizes against a map: every mapped page is found, no other is, bytes are the sum of
//! parts. The models compare what they find with the pages that are mapped; the map here is kept apart.

use super::super::clustered::{Clustered, ClusteredConfig};
use super::super::cuckoo::{Cuckoo, CuckooConfig};
use super::super::dmt::Dmt;
use super::super::flat::{Flat, FlatConfig};
use super::super::hashed::{Hashed, HashedConfig};
use super::super::htab::{Htab, HtabConfig};
use super::super::mementos::Mementos;
use super::super::radix::Shape;
use super::super::walk_caches::{Kind, WalkCacheConfig, WalkCaches};
use super::super::{Hash, PlainTable, SIZES};
use crate::dice::{Dice, seeds};
use std::collections::{BTreeMap, BTreeSet};

/// A page of three processes: in a few 2 MB of a few GB.
fn page(dice: &mut Dice) -> (u32, u64) {
    let place = dice.below(3) << 18 | dice.below(6) << 9 | dice.below(40);
    (dice.below(3) as u32, place | dice.below(2) << 28)
}

fn order_of(map: &BTreeMap<(u32, u64), u8>, asid: u32, vpn: u64) -> Option<u8> {
    SIZES.into_iter().find(|&order| map.get(&(asid, vpn >> order << order)) == Some(&order))
}

fn against_a_map<T: PlainTable>(seed: u64, table: T, check: impl Fn(&T, u64)) -> T {
    with_orders(&[0, 0, 0, 0, 0, 0, 0, 0, 9, 18], seed, table, check)
}

/// Pages are of one of these orders.
fn with_orders<T: PlainTable>(orders: &[u8], seed: u64, mut table: T, check: impl Fn(&T, u64)) -> T {
    let (mut dice, mut map) = (Dice::new(seed), BTreeMap::<(u32, u64), u8>::new());
    let (mut walks, mut references, mut failed) = (0, 0, 0);
    let growing = 50 + dice.below(40);
    for step in 0..400 {
        let (asid, vpn) = page(&mut dice);
        match dice.below(100) {
            0 => {
                table.gone(asid);
                map.retain(|key, _| key.0 != asid);
            }
            1..5 => table.switch(asid),
            n if n < growing => {
                let order = dice.pick(orders);
                let first = vpn >> order << order;
                table.map(asid, first, order);
                map.retain(|key, held| {
                    let apart = key.1 + (1 << *held) <= first || first + (1 << order) <= key.1;
                    key.0 != asid || apart
                });
                map.insert((asid, first), order);
            }
            _ => {
                if let Some(order) = order_of(&map, asid, vpn) {
                    let first = vpn >> order << order;
                    table.unmap(asid, first, order);
                    map.remove(&(asid, first));
                }
            }
        }
        let all: BTreeSet<(u32, u64)> = map.keys().copied().collect();
        let looked: Vec<_> = if step % 50 == 49 { all.into_iter().collect() } else { Vec::new() };
        for (asid, vpn) in looked.into_iter().chain((0..5).map(|_| page(&mut dice))) {
            if order_of(&map, asid, vpn).is_some() {
                let found = table.walk(asid, vpn);
                assert!(found.references > 0 && found.steps <= found.references);
                (walks, references) = (walks + 1, references + found.references);
            } else {
                failed += table.search_absent(asid, vpn);
            }
        }
        let counts = table.counts();
        let numbers = ["walks", "references", "fault_references"].map(|name| counts[name]);
        assert_eq!(numbers, [walks, references, failed]);
        assert!(counts["table_bytes"] <= counts["table_bytes_most"]);
        check(&table, counts["table_bytes"]);
    }
    table
}

fn hash(seed: u64) -> Hash {
    if seed.is_multiple_of(3) { Hash::Identity } else { Hash::Mix }
}

#[test]
fn ht_3_ht_4_ht_5_against_a_map() {
    for seed in seeds(100) {
        let all_sizes = seed.is_multiple_of(2);
        let (buckets, order) = (8 << (seed % 3), if seed.is_multiple_of(5) { vec![18, 9, 0] } else { SIZES.to_vec() });
        let config = HashedConfig { buckets, load: 0.6, order, all_sizes, hash: hash(seed), seed };
        against_a_map(seed, Hashed::new(config), |table, bytes| assert_eq!(bytes, table.parts().0));
    }
}

#[test]
fn hb_3_hb_4_hb_5_against_a_map() {
    for seed in seeds(100) {
        let config = HtabConfig { groups: 1 << (seed % 6), pte: 8 << (seed % 2) };
        let table = against_a_map(seed, Htab::new(config), |table, bytes| assert_eq!(bytes, table.parts()));
        let c = table.counts();
        assert_eq!(c["walks"], c["found_primary"] + c["found_secondary"] + c["reloads"]);
    }
}

#[test]
fn cl_3_cl_4_against_a_map() {
    for seed in seeds(100) {
        let (pages, inline) = (4 << (seed % 4), seed.is_multiple_of(2));
        let config = ClusteredConfig { pages, buckets: 1 + seed % 20, inline, hash: hash(seed), seed };
        // A page of 1 GB has a node for each block, thousands of them.
        with_orders(&[0, 0, 0, 0, 0, 9], seed, Clustered::new(config), |table, bytes| {
            assert_eq!(bytes, table.parts().0)
        });
    }
}

#[test]
fn ec_2_ec_3_ec_4_ec_8_against_a_map() {
    let mut resizes = 0;
    for seed in seeds(100) {
        let config = CuckooConfig {
            ways: 2 + seed % 3,
            entries: 2 << (seed % 4),
            retries: [0, 2, 32][(seed % 3) as usize],
            threshold: [0.6, 0.9][(seed % 2) as usize],
            scale: [2, 4][(seed / 2 % 2) as usize],
            moves: [1, 10][(seed / 4 % 2) as usize],
            hash: Hash::Mix,
            seed,
            cached_rows: [(seed % 4) as usize, (seed % 3) as usize],
            process_ids: seed.is_multiple_of(2),
        };
        let table = against_a_map(seed, Cuckoo::new(config), |table, bytes| {
            table.check();
            assert_eq!(bytes, table.parts().0);
        });
        let c = table.counts();
        assert_eq!(c["walks"], c["complete"] + c["by_pud"] + c["size"] + c["direct"] + c["both"]);
        assert_eq!(c["walks"], c["steps"]);
        resizes += c["resizes"];
    }
    assert!(resizes > 200, "{resizes}");
}

#[test]
fn me_1_me_2_me_3_against_a_map() {
    let (mut moves, mut resizes) = (0, 0);
    for seed in seeds(100) {
        let config = CuckooConfig {
            ways: 2 + seed % 3,
            entries: 2 << (seed % 4),
            retries: [0, 2, 32][(seed % 3) as usize],
            moves: [1, 10][(seed / 4 % 2) as usize],
            seed,
            ..CuckooConfig::default()
        };
        let table = against_a_map(seed, Mementos::new(config), |table, bytes| {
            table.check();
            assert_eq!(bytes, table.parts().0);
        });
        let c = table.counts();
        assert_eq!(c["walks"], c["complete"] + c["by_pud"] + c["size"] + c["direct"] + c["both"]);
        (moves, resizes) = (moves + c["moves"], resizes + c["resizes"]);
    }
    assert!(resizes > 200 && moves > 200, "{resizes} {moves}");
}

#[test]
fn fl_1_fl_2_fl_4_against_a_map() {
    for seed in seeds(100) {
        let flatten = ["radix", "l4l3+l2l1", "l2l1", "l3l2", "l4l3", "l5l4", "l5l4+l3l2"][(seed % 7) as usize];
        let shape = Shape {
            levels: if flatten.starts_with("l5") { 5 } else { 4 + (seed / 7 % 2) as u8 },
            merged: Shape::pairs(flatten),
            fraction: [1.0, 0.5][(seed % 2) as usize],
            split: seed.is_multiple_of(3),
            seed,
        };
        let caches = [seed % 5, seed % 3, seed % 4, seed % 2].map(|n| n as usize);
        let config = FlatConfig { shape: shape.clone(), caches, process_ids: seed.is_multiple_of(2) };
        against_a_map(seed, Flat::new(config), |table, bytes| {
            // A root of a process without pages is not in the tree of its pages.
            let roots = bytes - table.tree().bytes_of_pages();
            assert!(roots == 0 || roots % 4096 == 0 && roots <= 3 * (2 << 20), "{roots}");
        });
    }
}

#[test]
fn wc_1_to_wc_5_against_a_map() {
    for seed in seeds(100) {
        let kind = [Kind::Stc, Kind::Utc, Kind::Uptc, Kind::Sptc, Kind::Tpc][(seed % 5) as usize];
        let by_level = [seed % 5, seed % 3, seed % 4, seed % 2].map(|n| n as usize);
        let (levels, entries) = (4 + (seed % 2) as u8, (seed % 7) as usize);
        let config = WalkCacheConfig { levels, kind, entries, by_level, process_ids: seed.is_multiple_of(2) };
        against_a_map(seed, WalkCaches::new(config), |_, _| {});
    }
}

#[test]
fn dm_1_to_dm_5_against_a_map() {
    for seed in seeds(100) {
        let mut table = Dmt::new((seed % 4) as usize, 4);
        let mut dice = Dice::new(seed);
        for asid in 0..3 {
            for _ in 0..dice.below(5) {
                table.region(asid, dice.below(6) << 16, 1 + dice.below(1 << 16));
            }
        }
        let table = against_a_map(seed, table, |table, bytes| assert_eq!(bytes, table.parts().0));
        let c = table.counts();
        assert_eq!(c["walks"], c["covered"] + c["conventional"]);
    }
}
