//! The hand-worked case of EC, its invariants, and the sums of its references.

use super::super::testing::Bench;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

fn cuckoo(given: Value) -> Bench {
    let mut all = json!({"table": "cuckoo"});
    all.as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
    Bench::new(all)
}

/// The hand-worked case of EC-8: references, rows fetched.
#[test]
fn rows_narrow_the_search() {
    let mut bench = cuckoo(json!({}));
    bench.map(0, 1 << 30, 9);
    (0..8192).for_each(|page| bench.map(0, page, 0));
    let walk = |bench: &mut Bench, page| {
        let walked = bench.walk(0, page);
        (walked.references, walked.background_references, walked.steps)
    };
    assert_eq!(walk(&mut bench, 0), (6, 2, 1));
    assert_eq!(walk(&mut bench, 1), (3, 0, 1));
    assert_eq!(walk(&mut bench, 4096), (3, 0, 1), "the same row");
    (512..1024).for_each(|page| bench.unmap(0, page, 0));
    bench.map(0, 512, 9);
    assert_eq!(walk(&mut bench, 600), (6, 2, 1));
    assert_eq!(walk(&mut bench, 601), (4, 0, 1));
    let kinds = ["complete", "size", "both", "direct", "by_pud", "cwt_references", "cwc_lookups"];
    assert_eq!(kinds.map(|kind| bench.count(kind)), [2, 2, 1, 0, 0, 4, 5]);
    bench.check();
}

/// EC-6: superpages alone, and rows by 8 GB.
#[test]
fn other_kinds_of_walks() {
    let mut bench = cuckoo(json!({"cwc_pmd": 1}));
    bench.map(0, 0, 9);
    bench.map(0, 1 << 18, 0);
    bench.map(0, 1 << 21, 18);
    let walk = |bench: &mut Bench, page| (bench.walk(0, page).references, bench.count("cwt_references"));
    assert_eq!(walk(&mut bench, 0), (9, 2), "all three sizes");
    assert_eq!(walk(&mut bench, 511), (1, 2), "the way is known");
    assert_eq!(walk(&mut bench, 1 << 18), (6, 3), "by the row by 8 GB, which has both sizes");
    assert_eq!(walk(&mut bench, 1 << 21), (1, 3), "another header of the same row; a row without pages is none");
    bench.unmap(0, 0, 9);
    assert_eq!(walk(&mut bench, 1 << 18), (3, 3), "the row by 16 MB is that of another GB");
    assert_eq!(walk(&mut bench, 1 << 21), (9, 4), "EC-7: the row by 8 GB changed");
    assert_eq!(bench.ahead(0, 8 << 21), 0, "a header without pages");
    let kinds = ["complete", "by_pud", "size", "direct", "both"];
    assert_eq!(kinds.map(|kind| bench.count(kind)), [2, 2, 1, 1, 0]);
}

/// EC-5: without process ids a switch empties the caches.
#[test]
fn caches_of_rows() {
    let mut bench = cuckoo(json!({}));
    bench.map(0, 0, 0);
    for (ids, references) in [(true, 0), (false, 2)] {
        bench.walk(0, 0);
        bench.switch(1, ids);
        assert_eq!(bench.walk(0, 0).background_references, references);
    }
    let mut bench = cuckoo(json!({"cwc_pmd": 0, "cwc_pud": 0}));
    bench.map(0, 0, 0);
    (0..2).for_each(|_| assert_eq!(bench.walk(0, 0).references, 3));
    assert_eq!((bench.count("complete"), bench.count("cwc_lookups"), bench.count("cwt_references")), (2, 0, 0));
}

/// EC-1, EC-2, EC-4: while it grows a table has both, and a walk still reads as many entries as there are ways.
#[test]
fn it_grows_while_it_is_in_use() {
    let mut bench = cuckoo(json!({"ec_entries": 64, "cwc_pmd": 0, "cwc_pud": 0}));
    let (old, new, rows) = (3 * 64 * 64, 3 * 128 * 64, 2 * 64);
    // 115 of 192 are not more than 0.6 yet.
    (0..115).for_each(|line| bench.map(0, line * 8, 0));
    assert_eq!((bench.count("resizes"), bench.count("table_bytes")), (0, old + rows));
    let mut most = 0;
    for line in 115..115 + 192 {
        bench.map(0, line * 8, 0);
        assert_eq!((bench.walk(0, 0).references, bench.walk(0, line * 8).references), (3, 3));
        bench.check();
        most = most.max(bench.count("table_bytes"));
    }
    assert_eq!((bench.count("resizes"), most), (1, old + new + rows));
    assert_eq!(bench.count("table_bytes"), new + rows, "one step an insert, and 192 entries");
    assert_eq!(bench.count("table_contiguous"), 128 * 64, "a way");
    // 307 of 384 are more than 0.6.
    bench.map(0, 400 * 8, 0);
    assert_eq!(bench.count("resizes"), 2);
}

/// EC-4: below a fifth it shrinks, at the next inserts.
#[test]
fn it_shrinks() {
    let mut bench = cuckoo(json!({"ec_entries": 16, "ec_moves": 1000, "ec_threshold": 0.5}));
    (0..100).for_each(|line| bench.map(0, line * 8, 0));
    assert_eq!((bench.count("resizes"), bench.count("table_bytes")), (3, 3 * 128 * 64 + 128));
    (0..23).for_each(|line| bench.unmap(0, line * 8, 0));
    assert_eq!(bench.count("resizes"), 3, "77 of 384 are a fifth");
    bench.unmap(0, 23 * 8, 0);
    assert_eq!((bench.count("resizes"), bench.count("table_bytes")), (4, 3 * (128 + 64) * 64 + 128));
    bench.check();
    bench.map(0, 0, 0);
    assert_eq!(bench.count("table_bytes"), 3 * 64 * 64 + 128, "enough steps for all");
    bench.check();
}

/// EC-3, EC-8: with few retries inserts fail, and resizes are completed at once.
#[test]
fn every_page_is_found_after_any_history() {
    for (i, given) in [
        json!({"ec_entries": 1, "ec_retries": 2}),
        json!({"ec_entries": 4, "ec_retries": 1, "ec_threshold": 0.9}),
        json!({"ec_entries": 4, "ec_ways": 2, "ec_scale": 4, "ec_moves": 3}),
        json!({"ec_entries": 8, "ec_ways": 4, "cwc_pmd": 1}),
    ]
    .into_iter()
    .enumerate()
    {
        let mut bench = cuckoo(given.clone());
        let ways = given["ec_ways"].as_u64().unwrap_or(3);
        let mut rng = Pcg64Mcg::seed_from_u64(i as u64);
        let mut random = move |n: u64| u64::from(rng.next_u32()) % n;
        let mut sum = 0;
        for step in 0..6000 {
            // Few pages in one phase, many in another.
            let share = if step / 1000 % 2 == 0 { 6 } else { 2 };
            let order = [0, 0, 0, 9][random(4) as usize];
            let vpn = (u64::from(order > 0) << 20) + (random(400) << order);
            match bench.of(0, vpn).is_some() {
                false if random(8) < share => bench.map(0, vpn, order),
                true if random(8) >= share => bench.unmap(0, vpn, order),
                true => sum += bench.walk(0, vpn).references,
                false => {
                    let references = bench.ahead(0, vpn);
                    assert!(references <= 3 * ways);
                }
            }
            bench.check();
        }
        let [size, direct, both] = ["size", "direct", "both"].map(|kind| bench.count(kind));
        let least = size * ways + direct + both * (ways + 1) + bench.count("complete") * ways;
        assert!(sum >= least, "{given}");
        let [resizes, moves, collisions] = ["resizes", "moves", "collisions"].map(|name| bench.count(name));
        assert!(resizes > 2 && moves > 50 && collisions > 20, "{given}: {resizes} {moves} {collisions}");
        bench.end(0);
        assert_eq!(bench.count("table_bytes"), 0, "{given}");
    }
}

/// HW-11: way i looks at the i-th digit of the tag, in base 8 here.
#[test]
fn identity_is_by_digits() {
    let mut bench = cuckoo(json!({"ec_entries": 8, "ec_ways": 2, "ec_hash": "identity"}));
    for tag in [0o21, 0o31, 0o22, 0o43] {
        bench.map(0, tag * 8, 0);
        bench.check();
    }
    assert!([0o21, 0o31, 0o22, 0o43].iter().all(|tag| bench.walk(0, tag * 8).references >= 2));
    assert_eq!(bench.count("resizes"), 0);
}

/// Tags that no digit of the first table tells apart.
#[test]
fn identity_grows_until_the_digits_differ() {
    let mut bench = cuckoo(json!({"ec_entries": 8, "ec_ways": 2, "ec_hash": "identity"}));
    (0..4).for_each(|i| bench.map(0, (i << 6) * 8, 0));
    bench.check();
    assert!(bench.count("resizes") > 0);
}
