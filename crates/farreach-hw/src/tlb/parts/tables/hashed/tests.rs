//! By hand.

use super::super::mix;
use super::super::testing::Bench;
use serde_json::json;

fn by_hand(more: serde_json::Value) -> Bench {
    let mut given = json!({"table": "hashed", "ht_buckets": 8, "ht_load": 0.9, "ht_hash": "identity"});
    given.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Bench::new(given)
}

/// The hand-worked case of HT-7: HT-1, HT-2, HT-3, HT-4.
#[test]
fn three_clusters_in_a_row() {
    let mut bench = by_hand(json!({}));
    for cluster in [0, 8, 16] {
        bench.map(0, cluster * 8, 0);
    }
    let walked = bench.walk(0, 16 * 8);
    assert_eq!((walked.references, walked.steps, bench.count("collisions")), (3, 3, 2));
    bench.unmap(0, 8 * 8, 0);
    assert_eq!(bench.walk(0, 16 * 8).references, 3);
    assert_eq!(bench.ahead(0, 24 * 8), 4);
    // PT-4.
    bench.fault(0, 24 * 8);
    assert_eq!(bench.count("fault_references"), 4);
    bench.map(0, 24 * 8, 0);
    assert_eq!(bench.walk(0, 24 * 8).references, 2);
    assert_eq!((bench.count("resizes"), bench.count("table_bytes")), (0, 512), "three of eight are in use");
}

/// PT-5: the same cluster of two processes lies in two buckets of one table.
#[test]
fn pt_5_two_processes_in_one_table() {
    let mut bench = by_hand(json!({"table_scope": "global"}));
    bench.map(1, 0, 0);
    bench.map(2, 0, 0);
    assert_eq!([1, 2].map(|asid| bench.walk(asid, 0).references), [1, 2]);
    assert_eq!(bench.count("table_bytes"), 512);
    bench.fault(3, 0);
    assert_eq!(bench.count("fault_references"), 3, "two of others, and the empty one");
    bench.end(1);
    assert_eq!((bench.walk(2, 0).references, bench.count("table_bytes")), (2, 512), "a tombstone, and the table stays");
    let mut apart = by_hand(json!({}));
    apart.map(1, 0, 0);
    apart.map(2, 0, 0);
    assert_eq!([1, 2].map(|asid| apart.walk(asid, 0).references), [1, 1]);
    assert_eq!(apart.count("table_bytes"), 1024);
}

/// HT-5: used buckets and tombstones count.
#[test]
fn it_doubles_when_more_are_used_than_its_load() {
    let mut bench = by_hand(json!({"ht_load": 0.5}));
    (0..4).for_each(|cluster| bench.map(0, cluster * 8, 0));
    bench.unmap(0, 0, 0);
    assert_eq!(bench.count("resizes"), 0);
    bench.map(0, 4 * 8, 0);
    let of = |name| bench.count(name);
    assert_eq!([of("resizes"), of("moves"), of("table_bytes"), of("table_bytes_most")], [1, 4, 1024, 1536]);
    assert_eq!(bench.count("table_contiguous"), 1024);
    assert_eq!(bench.ahead(0, 0), 1, "the tombstone is gone");
}

/// HT-6.
#[test]
fn sizes_are_searched_in_order() {
    for (more, small, large, absent) in [
        (json!({}), 1, 2, 2),
        (json!({"ht_order": "2M+4K+1G"}), 2, 1, 2),
        (json!({"ht_sizes": "all"}), 1, 2, 3),
    ] {
        let mut bench = by_hand(more);
        bench.map(0, 8, 0);
        bench.map(0, 512, 9);
        assert_eq!([8, 512].map(|page| bench.walk(0, page).references), [small, large]);
        assert_eq!(bench.ahead(0, 8 << 18 | 8 << 9 | 16), absent, "not mapped");
    }
    let keys = json!({"table": "hashed", "ht_order": "4K+2M"});
    let refusal = Bench::build(keys).err().unwrap();
    assert_eq!(refusal, "ht_order = 4K+2M is not allowed: ht_order must have 4K, 2M and 1G, each once");
}

/// HT-8.
#[test]
fn walks_are_as_long_as_expected() {
    for (load, expected) in [(0.5, 1.5), (0.6, 1.75)] {
        let buckets = 1 << 18;
        let mut bench = Bench::new(json!({"table": "hashed", "ht_buckets": buckets, "ht_load": 0.9}));
        let many = (f64::from(buckets) * load) as u64;
        let clusters: Vec<u64> = (0..many).map(|i| mix(i, 7) >> 16).collect();
        clusters.iter().for_each(|cluster| bench.map(0, cluster * 8, 0));
        let references: u64 = clusters.iter().map(|cluster| bench.walk(0, cluster * 8).references).sum();
        let mean = references as f64 / many as f64;
        assert!((mean / expected - 1.0).abs() < 0.02, "{mean} at {load}");
        assert_eq!(bench.count("resizes"), 0);
    }
}
