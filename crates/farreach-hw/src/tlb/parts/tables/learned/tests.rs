//! By hand.

use super::super::mix;
use super::super::testing::Bench;
use serde_json::{Value as Json, json};

/// A slot for each page.
fn by_hand(more: Json) -> Bench {
    let mut given = json!({"table": "learned", "lv_gaps": 1, "lv_pages": 64});
    given.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Bench::new(given)
}

fn of(bench: &Bench, names: [&str; 4]) -> [u64; 4] {
    names.map(|name| bench.count(name))
}

const CHANGES: [&str; 4] = ["refits", "resizes", "moves", "table_bytes"];

/// LV-1: pages in a row are where their line says, whichever way the region grows.
#[test]
fn arrays_grow_both_ways() {
    for down in [false, true] {
        let mut bench = by_hand(json!({}));
        let page = |i: u64| if down { 63 - i } else { i };
        (0..8).for_each(|i| bench.map(0, page(i), 0));
        assert_eq!(of(&bench, CHANGES), [0, 0, 0, 32 + 64]);
        bench.map(0, page(8), 0);
        assert_eq!(of(&bench, CHANGES), [0, 1, 8, 32 + 128]);
        (9..33).for_each(|i| bench.map(0, page(i), 0));
        assert_eq!(of(&bench, CHANGES), [0, 3, 8 + 16 + 32, 32 + 512]);
        let walks = (0..33).map(|i| bench.walk(0, page(i)).references);
        assert_eq!(walks.collect::<Vec<_>>(), [[2].as_slice(), &[1; 32]].concat(), "the first reads the node");
        (0..33).for_each(|i| bench.unmap(0, page(i), 0));
        assert_eq!(bench.count("table_bytes"), 0);
    }
}

/// LV-2: pages that are not on one line.
#[test]
fn lines_are_fitted_anew_and_regions_divided() {
    let mut bench = by_hand(json!({}));
    [0, 63].into_iter().for_each(|page| bench.map(0, page, 0));
    assert_eq!(of(&bench, CHANGES), [1, 1, 1, 32 + 64], "a slope of 2/64: slots 0 and 1");
    assert_eq!([63, 0].map(|page| bench.walk(0, page).references), [2, 1]);
    (1..8).for_each(|page| bench.map(0, page, 0));
    assert_eq!(of(&bench, CHANGES), [1, 2, 1 + 8, 32 + 128], "slots 2 to 8, the last in another line");
    assert_eq!(bench.walk(0, 7).references, 3, "the node changed; both lines");
    assert_eq!(bench.count("collisions"), 1);
    bench.map(0, 8, 0);
    assert_eq!(of(&bench, CHANGES), [2, 3, 9 + 9, 32 + 128], "slot 9 is too far from 0; a slope of 10/64");
    bench.map(0, 9, 0);
    assert_eq!(of(&bench, CHANGES), [3, 4, 18 + 10, 32 + 128], "slot 10 is too far from 1; a slope of 11/64");
    bench.map(0, 10, 0);
    let divided = 32 + 2 * 32 + 128 + 64;
    assert_eq!(of(&bench, CHANGES), [4, 5, 28 + 11, divided], "two parts, each of a slope of 1");
    assert_eq!([10, 10, 63, 63].map(|page| bench.walk(0, page).references), [3, 1, 2, 1], "LV-1: a depth of 2");
    assert_eq!(bench.ahead(0, 33), 0, "its slot is 22 before the array");
    assert_eq!(bench.ahead(0, 11), 2, "slots 3 to 19 in an array of 16");
    bench.check();
}

/// LV-1: a walk searches the sizes that its region has. HW-9: without process ids a switch empties the walk cache.
#[test]
fn sizes_and_the_walk_cache() {
    let mut bench = by_hand(json!({"lv_pages": 1024, "lv_cache": 2}));
    bench.map(0, 0, 0);
    [512, 1024].into_iter().for_each(|page| bench.map(0, page, 9));
    assert_eq!([0, 0, 1030, 1030].map(|page| bench.walk(0, page).references), [2, 1, 2, 1]);
    assert_eq!(bench.walk(0, 700).references, 1, "both nodes are there; no line of base pages is near enough");
    bench.switch(1, true);
    assert_eq!(bench.walk(0, 700).references, 1);
    bench.switch(0, false);
    assert_eq!(bench.walk(0, 700).references, 3);
    bench.map(1, 0, 0);
    assert_eq!([bench.walk(1, 0).references, bench.walk(0, 0).references], [2, 2], "two nodes at most");
    assert_eq!(of(&bench, ["nodes", "lines", "collisions", "refits"]), [6, 9, 0, 0]);
}

/// LV-1, LV-2: half of all pages, in any order. What is moved is a small multiple of what is mapped.
#[test]
fn pages_in_no_order() {
    let mut bench = Bench::new(json!({"table": "learned", "lv_pages": 4096}));
    let mut pages: Vec<u64> = (0..4096).filter(|page| mix(*page, 3) & 1 == 0).collect();
    let many = pages.len() as u64;
    pages.sort_by_key(|page| mix(*page, 4));
    pages.iter().for_each(|page| bench.map(0, *page, 0));
    bench.check();
    assert!(bench.count("moves") < 200 * many, "{} for {many}", bench.count("moves"));
    assert!(bench.count("table_bytes") < 3 * 8 * many, "{} for {many}", bench.count("table_bytes"));
    pages.iter().for_each(|page| _ = bench.walk(0, *page));
    let per_page = bench.count("lines") as f64 / many as f64;
    assert!((1.0..1.6).contains(&per_page), "{per_page}");
}
