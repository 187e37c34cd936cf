//! Hand cases of HT, HTAB and CL, and the hash.

use super::super::clustered::{Clustered, ClusteredConfig};
use super::super::hashed::{Hashed, HashedConfig};
use super::super::htab::{Htab, HtabConfig};
use super::super::{Hash, PlainTable, mix};
use super::{map_all, serial, walks};

#[test]
fn hw_11_hash() {
    // SplitMix64 of 0 is this sequence.
    assert_eq!([mix(0, 0), mix(0, 1), mix(0, 2)], [0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f]);
    assert_eq!(Hash::Mix.index(3, 77, 5, 2, 1024), mix((3 << 52) ^ 77, 7) % 1024);
    assert_eq!([0, 1, 2].map(|i| Hash::Identity.index(9, 0o1234567, 1, i, 8)), [7, 6, 5]);
}

fn eight(load: f64) -> Hashed {
    Hashed::new(HashedConfig { buckets: 8, load, hash: Hash::Identity, ..HashedConfig::default() })
}

#[test]
fn ht_2_ht_3_ht_4_by_hand() {
    let mut table = eight(0.6);
    map_all(&mut table, [0, 64, 128]);
    assert_eq!(walks(&mut table, [0, 64, 128]), [1, 2, 3]);
    assert_eq!(table.walk(1, 128), serial(3));
    table.unmap(1, 64, 0);
    assert_eq!(table.walk(1, 128), serial(3));
    assert_eq!(table.search_absent(1, 24 * 8), 4);
    assert_eq!(table.counts()["fault_references"], 4);
    table.map(1, 24 * 8, 0);
    assert_eq!(table.walk(1, 24 * 8), serial(2));
    assert_eq!(table.load(1, 0), 3.0 / 8.0);
    let counts = table.counts();
    let some = ["walks", "references", "collisions", "table_bytes", "resizes"].map(|name| counts[name]);
    assert_eq!(some, [6, 1 + 2 + 3 + 3 + 3 + 2, 1 + 2 + 2 + 2 + 1, 512, 0]);
}

#[test]
fn ht_1_invalid_translations_and_other_sizes() {
    let mut table = eight(0.9);
    map_all(&mut table, [0]);
    assert_eq!(table.search_absent(1, 5), 1, "the tag matches, the translation is invalid");
    assert_eq!(table.search_absent(1, 8), 1, "an empty bucket");
    // HT-6: in the 4 KB table another tag and an empty bucket, then that of 2 MB.
    table.map(1, 512, 9);
    assert_eq!(table.walk(1, 513), serial(3));
    assert_eq!(table.walk(1, 0), serial(1));
    table.unmap(1, 0, 0);
    assert_eq!(table.walk(1, 513), serial(1), "there is no page of 4 KB");
    assert_eq!(table.counts()["table_bytes"], 2 * 512);
    table.gone(1);
    assert_eq!([table.counts()["table_bytes"], table.counts()["table_bytes_most"]], [0, 1024]);
}

#[test]
fn ht_5_doubling() {
    let mut table = eight(0.5);
    map_all(&mut table, [0, 8, 16, 24].map(|cluster| cluster * 8));
    table.unmap(1, 64, 0);
    assert_eq!(table.counts()["resizes"], 0);
    table.map(1, 5 * 8, 0);
    let counts = table.counts();
    assert_eq!(["resizes", "moves", "table_bytes"].map(|name| counts[name]), [1, 4, 1024]);
    // Of 16 buckets: 0 in 0, 16 in 1, 24 in 8, 5 in 5.
    assert_eq!(walks(&mut table, [0, 128, 192, 40]), [1, 2, 1, 1]);
}

#[test]
fn ht_8_expectation() {
    for (load, expected) in [(0.5, 1.5), (0.6, 1.75)] {
        let buckets = 1u64 << 18;
        let config = HashedConfig { buckets, load: 1.0, ..HashedConfig::default() };
        let mut table = Hashed::new(config);
        let n = (load * buckets as f64) as u64;
        let clusters: Vec<u64> = (0..n).map(|i| mix(i, 99) >> 32).collect();
        clusters.iter().for_each(|cluster| table.map(1, cluster * 8, 0));
        clusters.iter().for_each(|cluster| {
            table.walk(1, cluster * 8);
        });
        let counts = table.counts();
        let mean = counts["references"] as f64 / counts["walks"] as f64;
        println!("load {load}: {mean}");
        assert!((mean / expected - 1.0).abs() < 0.02, "load {load}: {mean}");
    }
}

#[test]
fn hb_4_hb_5_by_hand() {
    let mut table = Htab::new(HtabConfig { groups: 1, pte: 8 });
    for page in 0..9 {
        table.map(1, page, 0);
        assert_eq!(table.walk(1, page), serial(1));
    }
    assert_eq!(table.counts()["spills"], 1);
    assert_eq!(table.walk(1, 0), serial(2));
    let counts = table.counts();
    let some = ["reloads", "spills", "found_primary", "found_secondary", "walks"].map(|name| counts[name]);
    assert_eq!(some, [1, 2, 9, 0, 10]);
    assert_eq!(table.walk(1, 8), serial(1));
    assert_eq!(table.walk(1, 1), serial(2), "the reload took slot 1");
}

#[test]
fn hb_2_hb_3_lines_of_both_groups() {
    for (pte, references, failed) in [(8, [1, 1, 2, 2], 2), (16, [1, 2, 3, 4], 4)] {
        let mut table = Htab::new(HtabConfig { groups: 2, pte });
        // Process 1 has even segments here, so even pages go to group 0, and then to group 1.
        map_all(&mut table, (0..16).map(|i| 2 * i));
        assert_eq!(walks(&mut table, [0, 14, 16, 30]), references);
        assert_eq!(table.search_absent(1, 32), failed);
        assert_eq!(table.counts()["table_bytes"], 2 * 8 * pte);
    }
    assert_eq!(HtabConfig::for_frames(1000, 8).groups, 512);
}

#[test]
fn hb_6_superpages_are_reloaded() {
    let mut table = Htab::new(HtabConfig { groups: 64, pte: 8 });
    table.map(1, 512, 9);
    assert_eq!([table.walk(1, 600), table.walk(1, 600)], [serial(2), serial(1)]);
    table.unmap(1, 512, 9);
    assert_eq!(table.search_absent(1, 600), 2);
}

#[test]
fn cl_3_cl_4_by_hand() {
    let mut table = Clustered::new(ClusteredConfig { buckets: 1, ..ClusteredConfig::default() });
    map_all(&mut table, [0, 7, 16]);
    assert_eq!(walks(&mut table, [16, 0, 7]), [2, 3, 4]);
    assert_eq!(table.counts()["table_bytes"], 296);
    // CL-2.
    table.map(1, 512, 9);
    assert_eq!(table.counts()["table_bytes"], 296 + 32 * 24);
}

#[test]
fn cl_3_the_first_node_in_the_bucket() {
    let config = ClusteredConfig { buckets: 1, inline: true, ..ClusteredConfig::default() };
    let mut table = Clustered::new(config);
    assert_eq!(table.search_absent(1, 3), 0, "no table");
    map_all(&mut table, [0, 7, 16]);
    assert_eq!(walks(&mut table, [16, 0, 7]), [1, 2, 3]);
    assert_eq!(table.search_absent(1, 99), 2);
    assert_eq!(table.counts()["table_bytes"], 144 + 144);
}
