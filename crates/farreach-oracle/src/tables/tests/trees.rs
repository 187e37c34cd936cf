//! Hand cases of FL, DMT and WC.

use super::super::dmt::Dmt;
use super::super::flat::{Flat, FlatConfig, nested};
use super::super::radix::Shape;
use super::super::walk_caches::{Kind, WalkCacheConfig, WalkCaches};
use super::super::{Found, PlainTable};
use super::{map_all, serial, walks};

fn flat(flatten: &str, split: bool, caches: [usize; 4]) -> Flat {
    let shape = Shape { merged: Shape::pairs(flatten), split, ..Shape::plain(4) };
    Flat::new(FlatConfig { shape, caches, process_ids: true })
}

#[test]
fn fl_1_by_hand() {
    let cases = [("radix", 40), ("l4l3+l2l1", 20), ("l2l1", 30), ("l3l2", 30), ("l4l3", 30)];
    for (flatten, references) in cases {
        let mut table = flat(flatten, false, [0; 4]);
        // One page in each of ten nodes.
        map_all(&mut table, (0..10).map(|i| i * 1000));
        assert_eq!(walks(&mut table, (0..10).map(|i| i * 1000)).iter().sum::<u64>(), references, "{flatten}");
    }
    let mut table = flat("l4l3+l2l1", false, [0, 1, 0, 0]);
    map_all(&mut table, (0..10).map(|i| i * 1000));
    assert_eq!(walks(&mut table, (0..10).map(|i| i * 1000)).iter().sum::<u64>(), 11);
    assert_eq!([nested(2, 2), nested(2, 4), nested(4, 4)], [8, 14, 24]);
}

#[test]
fn fl_3_caches_of_skipped_levels_stay_empty() {
    let mut table = flat("l4l3+l2l1", false, [32, 0, 16, 0]);
    map_all(&mut table, [0, 1]);
    assert_eq!(walks(&mut table, [0, 1, 0]), [2, 2, 2]);
    let mut table = flat("l3l2", false, [1, 0, 1, 0]);
    map_all(&mut table, [0, 1, 512]);
    // The root's entry, then that of the merged node.
    assert_eq!(walks(&mut table, [0, 1, 512, 0]), [3, 1, 2, 2]);
}

#[test]
fn fl_4_fl_5_superpages_and_memory() {
    let mut table = flat("l4l3+l2l1", false, [0; 4]);
    table.map(1, 512, 9);
    assert_eq!(table.counts()["table_writes"], 512);
    assert_eq!(table.walk(1, 513), serial(2));
    assert_eq!(table.counts()["table_bytes"], 2 * (2 << 20));
    assert_eq!(table.counts()["table_contiguous"], 2 << 20);
    table.map(1, 5 << 18, 0);
    assert_eq!(table.counts()["table_bytes"], 3 * (2 << 20));

    let mut table = flat("l2l1", true, [0; 4]);
    map_all(&mut table, [0]);
    assert_eq!(table.counts()["table_bytes"], 2 * 4096 + (2 << 20));
    table.map(1, 512, 9);
    assert_eq!(table.counts()["table_writes"], 2);
    assert_eq!(walks(&mut table, [0, 513]), [4, 3]);
    assert_eq!(table.counts()["table_bytes"], 4 * 4096);
    table.unmap(1, 512, 9);
    assert_eq!(walks(&mut table, [0]), [4]);
    table.unmap(1, 0, 0);
    table.map(1, 0, 0);
    assert_eq!(walks(&mut table, [0]), [3], "a new node is merged");
}

#[test]
fn fl_2_a_share_of_the_nodes() {
    let shape = Shape { merged: Shape::pairs("l2l1"), fraction: 0.25, ..Shape::plain(4) };
    let mut table = Flat::new(FlatConfig { shape, caches: [0; 4], process_ids: true });
    map_all(&mut table, (0..1000).map(|i| i << 18));
    let references = walks(&mut table, (0..1000).map(|i| i << 18));
    let merged = references.iter().filter(|&&r| r == 3).count();
    assert!((200..300).contains(&merged) && references.iter().all(|r| [3, 4].contains(r)), "{merged}");
}

#[test]
fn dm_2_by_hand() {
    let mut table = Dmt::new(16, 4);
    for region in 0..17 {
        table.region(1, region << 20, 100);
        table.map(1, region << 20, 0);
    }
    table.switch(1);
    assert_eq!(walks(&mut table, (0..17).map(|region| region << 20)).iter().sum::<u64>(), 20);
    let counts = table.counts();
    assert_eq!(["walks", "covered", "conventional"].map(|name| counts[name]), [17, 16, 1]);
}

#[test]
fn dm_3_dm_4_dm_5_arrays() {
    let mut table = Dmt::new(16, 4);
    table.region(1, 0, 1024);
    map_all(&mut table, [0]);
    assert_eq!(table.walk(1, 0), serial(1));
    assert_eq!(table.search_absent(1, 1), 1);
    table.map(1, 512, 9);
    assert_eq!(table.walk(1, 0), Found { references: 2, steps: 1 });
    // The upper nodes, 1024 entries, and 2 for larger pages.
    assert_eq!(table.counts()["table_bytes"], 3 * 4096 + 8 * 1024 + 8 * 2);
    assert_eq!(table.counts()["table_contiguous"], 8192);
    // In place: nothing is behind it.
    table.region(1, 0, 2048);
    assert_eq!(table.counts()["moves"], 0);
    table.region(1, 1 << 20, 10);
    table.region(1, 0, 4096);
    assert_eq!(table.counts()["moves"], 2048 + 4);
    // A gap of 81 is less than 2 % of 4096, one of 90 is not.
    table.region(1, 4096 + 81, 1);
    table.map(1, 4096 + 81, 0);
    assert_eq!(table.walk(1, 4096 + 81).steps, 1);
    table.map(1, 1 << 19, 0);
    assert_eq!(table.walk(1, 1 << 19), serial(4));
}

fn caches(kind: Kind, entries: usize) -> WalkCaches {
    WalkCaches::new(WalkCacheConfig { levels: 4, kind, entries, by_level: [entries; 4], process_ids: true })
}

#[test]
fn wc_1_to_wc_4_by_hand() {
    let cases = [
        (Kind::Stc, 64, [4, 2, 1]),
        (Kind::Utc, 64, [4, 2, 1]),
        (Kind::Uptc, 64, [4, 2, 1]),
        (Kind::Sptc, 64, [4, 2, 1]),
        (Kind::Tpc, 64, [4, 2, 1]),
        (Kind::Tpc, 1, [4, 2, 1]),
        (Kind::Utc, 1, [4, 4, 1]),
    ];
    for (kind, entries, references) in cases {
        let mut table = caches(kind, entries);
        map_all(&mut table, [0, 512, 513]);
        assert_eq!(walks(&mut table, [0, 512, 513]), references, "{kind:?} of {entries}");
    }
}
