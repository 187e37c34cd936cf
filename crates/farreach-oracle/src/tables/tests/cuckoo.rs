//! Hand cases of EC, and its resizes.

use super::super::cuckoo::{Cuckoo, CuckooConfig};
use super::super::mementos::Mementos;
use super::super::{Found, Hash, PlainTable, mix};
use super::{map_all, walks};

fn one_step(references: u64) -> Found {
    Found { references, steps: 1 }
}

#[test]
fn ec_6_ec_7_by_hand() {
    let mut table = Cuckoo::new(CuckooConfig { entries: 1024, ..CuckooConfig::default() });
    // A 2 MB page far away: its table exists.
    table.map(1, 1 << 30, 9);
    map_all(&mut table, 0..8192);
    assert_eq!(table.walk(1, 0), one_step(6));
    assert_eq!(table.counts()["cwt_references"], 2);
    assert_eq!(table.walk(1, 1000), one_step(3));
    assert_eq!(table.walk(1, 4096), one_step(3));
    assert_eq!(table.counts()["cwt_references"], 2);
    table.map(1, 512, 9);
    assert_eq!(table.walk(1, 700), one_step(6));
    assert_eq!(table.counts()["cwt_references"], 4);
    assert_eq!(table.walk(1, 700), one_step(4));
    assert_eq!(table.walk(1, 0), one_step(4));
    let counts = table.counts();
    let kinds = ["walks", "complete", "by_pud", "size", "direct", "both"].map(|name| counts[name]);
    assert_eq!(kinds, [6, 2, 0, 2, 0, 2]);
    table.check();
}

#[test]
fn ec_6_all_kinds() {
    let mut table = Cuckoo::new(CuckooConfig { entries: 64, ..CuckooConfig::default() });
    let gb = |n: u64| n << 18;
    map_all(&mut table, [0, gb(1)]);
    table.map(1, gb(2), 18);
    table.map(1, 4096, 9);
    table.map(1, gb(8), 18);
    assert_eq!(walks(&mut table, [0, 1 + 4096]), [9, 1], "complete, direct");
    // In the other 1 GB: only the PUD row is cached; 8 GB have all sizes.
    assert_eq!(walks(&mut table, [gb(1), gb(1)]), [7, 3]);
    // OW-21: no PMD row for a 1 GB page.
    assert_eq!(walks(&mut table, [gb(2), gb(2), gb(8) + 77]), [7, 7, 1]);
    assert_eq!(table.counts()["cwt_references"], 3);
    assert_eq!(table.search_absent(1, 2 * 4096), 0, "none of both");
    assert_eq!(table.search_absent(1, 1), 3);
    assert_eq!(table.search_absent(1, gb(16)), 0);
    assert_eq!(table.search_absent(1, gb(1024)), 9);
    let counts = table.counts();
    let kinds = ["walks", "complete", "by_pud", "size", "direct", "both"].map(|name| counts[name]);
    assert_eq!(kinds, [7, 1, 4, 1, 1, 0]);
}

#[test]
fn ec_4_grows_step_by_step_and_shrinks() {
    let mut table = Cuckoo::new(CuckooConfig { entries: 8, ..CuckooConfig::default() });
    let page = |i: u64| (mix(i, 1) >> 40) * 8;
    for i in 0..500 {
        table.map(1, page(i), 0);
        table.check();
        assert_eq!(table.counts()["resizes"] == 0, i < 14, "the 15th of 24 is above 0.6");
    }
    let grown = table.counts();
    assert!(grown["table_bytes"] >= 64 * 500 && grown["moves"] > 400, "{grown:?}");
    for i in 0..500 {
        table.unmap(1, page(i), 0);
        // New tags move the entries of a table that shrinks.
        (0..4).for_each(|j| table.map(1, page(1000 + j), 0));
        (0..4).for_each(|j| table.unmap(1, page(1000 + j), 0));
        table.check();
    }
    assert!(table.counts()["table_bytes"] < grown["table_bytes"], "it shrank");
    table.gone(1);
    assert_eq!(table.counts()["table_bytes"], 0);
}

#[test]
fn ec_3_inserts_that_fail_start_and_complete_resizes() {
    for retries in [0, 1, 4] {
        let mut resizes = 0;
        for seed in 0..20 {
            let config = CuckooConfig { entries: 2, retries, threshold: 1.0, seed, ..CuckooConfig::default() };
            let mut table = Cuckoo::new(config);
            for i in 0..20 {
                table.map(1, (i << 8) * 8, 0);
                table.check();
            }
            resizes += table.counts()["resizes"];
        }
        assert!(resizes > 40, "{resizes}");
    }
}

#[test]
fn ec_3_ec_8_identity_by_hand() {
    // Ways of 4 entries: a tag has its digits of base 4 as indices.
    let hash = Hash::Identity;
    let mut table = Cuckoo::new(CuckooConfig { entries: 4, threshold: 1.0, hash, ..CuckooConfig::default() });
    for tag in [0o00, 0o01, 0o04, 0o20, 0o77, 0o35] {
        table.map(1, 8 * tag, 0);
        table.map(1, 8 * tag + 5, 0);
        table.check();
    }
    let counts = table.counts();
    assert_eq!(["resizes", "table_writes", "table_bytes"].map(|name| counts[name]), [0, 12, 64 * (12 + 2)]);
    assert_eq!(table.walk(1, 8 * 0o35 + 5), one_step(3));
}

#[test]
fn me_1_me_2_half_of_the_entries_move_and_chunks_are_small() {
    let config = CuckooConfig { entries: 1024, ..CuckooConfig::default() };
    let mut table = Mementos::new(config);
    let pages: Vec<u64> = (0..40_000).map(|i| (mix(i, 5) >> 30) * 8).collect();
    pages.iter().for_each(|&page| table.map(1, page, 0));
    table.check();
    let counts = table.counts();
    assert_eq!(counts["table_contiguous"], 1 << 20, "ways above 512 KB");
    assert!(counts["moves"] < 40_000 && counts["moves"] > 10_000, "{counts:?}");
    assert_eq!(walks(&mut table, [pages[0], pages[0]]), [3, 3]);
}
