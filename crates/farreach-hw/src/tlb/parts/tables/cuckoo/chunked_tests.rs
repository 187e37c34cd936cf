//! Ways of pieces of memory (ME): by hand, against a map, and against elastic tables.

use super::super::mix;
use super::super::testing::Bench;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

fn table(name: &str, given: Value) -> Bench {
    let mut all = json!({"table": name});
    all.as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
    Bench::new(all)
}

/// ME-1: pieces of 4 KB, which are 64 entries, and beyond 64 of them pieces of 1 MB.
#[test]
fn me_1_ways_are_made_of_pieces() {
    let keys = json!({"ec_entries": 64, "ec_chunk": "4K+1M", "ec_moves": 100, "cwc_pmd": 0, "cwc_pud": 0});
    let mut bench = table("me-hpt", keys);
    let rows = |bench: &Bench| bench.count("table_bytes") % 4096;
    bench.map(0, 0, 0);
    assert_eq!(bench.count("table_bytes") - rows(&bench), 3 << 12);
    assert_eq!(bench.count("table_contiguous"), 1 << 12);
    // Ways of at most 4096 entries: 256 KB, 64 pieces.
    let mut lines = 1;
    while bench.count("table_contiguous") == 1 << 12 {
        bench.map(0, lines * 8, 0);
        lines += 1;
        assert!(lines < 20_000);
    }
    assert!(lines > 3 * 2048, "{lines}: ways of 4096 entries are not full before");
    assert_eq!(bench.count("table_contiguous"), 1 << 20);
    assert_eq!((bench.walk(0, 0).references, bench.walk(0, 0).steps), (3, 1), "the table of pieces is not in memory");
    bench.check();
    bench.end(0);
    assert_eq!(bench.count("table_bytes"), 0);
}

/// ME-2: an entry stays or moves by n, as its next bit says, so that half of them move; an elastic table moves all.
/// ME-3: no way is larger than twice another, which `check` holds.
#[test]
fn me_2_half_of_the_entries_move() {
    let keys = json!({"ec_entries": 256, "ec_moves": 2000});
    let [mut me, mut elastic] = ["me-hpt", "cuckoo"].map(|name| table(name, keys.clone()));
    for i in 0..4000 {
        let page = mix(i, 3) >> 30 << 3;
        me.map(0, page, 0);
        elastic.map(0, page, 0);
        if i % 500 == 0 {
            me.check();
        }
    }
    // Of sizes 256 to 4096: sums of entries when they begin to grow.
    let [moves, all] = [&me, &elastic].map(|bench| bench.count("moves") as f64);
    assert!((0.4..0.6).contains(&(moves / all)), "{moves} of {all}");
    assert!(me.count("resizes") > elastic.count("resizes"), "each way by itself");
    assert!(me.count("table_bytes_most") < elastic.count("table_bytes_most"), "in place");
}

/// Every page is found after any history.
#[test]
fn every_page_is_found_after_any_history() {
    for (i, given) in [
        json!({"ec_entries": 1, "ec_retries": 2}),
        json!({"ec_entries": 4, "ec_retries": 1, "ec_threshold": 0.9}),
        json!({"ec_entries": 4, "ec_ways": 2, "ec_moves": 3, "ec_chunk": "4K+8K+64K"}),
        json!({"ec_entries": 8, "ec_ways": 4, "cwc_pmd": 1}),
    ]
    .into_iter()
    .enumerate()
    {
        let mut bench = table("me-hpt", given.clone());
        let mut rng = Pcg64Mcg::seed_from_u64(i as u64);
        let mut random = move |n: u64| u64::from(rng.next_u32()) % n;
        for step in 0..6000 {
            // Few pages in one phase, many in another.
            let share = if step / 1000 % 2 == 0 { 6 } else { 2 };
            let order = [0, 0, 0, 9][random(4) as usize];
            let vpn = (u64::from(order > 0) << 20) + (random(400) << order);
            match bench.of(0, vpn).is_some() {
                false if random(8) < share => bench.map(0, vpn, order),
                true if random(8) >= share => bench.unmap(0, vpn, order),
                true => assert!(bench.walk(0, vpn).references > 0),
                false => _ = bench.ahead(0, vpn),
            }
            bench.check();
        }
        let [resizes, moves, collisions] = ["resizes", "moves", "collisions"].map(|name| bench.count(name));
        assert!(resizes > 2 && moves > 20 && collisions > 20, "{given}: {resizes} {moves} {collisions}");
        bench.end(0);
        assert_eq!(bench.count("table_bytes"), 0, "{given}");
    }
}

/// The hand-worked case of EC holds for it too.
#[test]
fn rows_narrow_the_search() {
    let mut bench = table("me-hpt", json!({}));
    bench.map(0, 1 << 30, 9);
    (0..8192).for_each(|page| bench.map(0, page, 0));
    let walk = |bench: &mut Bench, page| {
        let walked = bench.walk(0, page);
        (walked.references, walked.background_references, walked.steps)
    };
    assert_eq!([0, 1, 4096].map(|page| walk(&mut bench, page)), [(6, 2, 1), (3, 0, 1), (3, 0, 1)]);
    (512..1024).for_each(|page| bench.unmap(0, page, 0));
    bench.map(0, 512, 9);
    assert_eq!([600, 601].map(|page| walk(&mut bench, page)), [(6, 2, 1), (4, 0, 1)]);
}
