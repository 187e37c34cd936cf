//! Memory of page tables, beside what is resident (PT-2), against counts by hand.

use crate::common::{Stream, run};

/// A page, and one in another node of each level: 4 nodes of 4 KB, then 1, 2 and 3 more. What is unmapped counts on.
fn stream() -> Stream {
    let pages = [0x100, 0x100 + (1 << 9), 0x100 + (1 << 18), 0x100 + (1 << 27)];
    let mut s = Stream::new();
    s.start();
    for page in pages {
        s.anon(page, 2).load(page).load(page + 1);
    }
    s.unmap(pages[3], 2).load(pages[0]);
    s
}

#[test]
fn pt_2_memory_of_page_tables_is_counted_by_hand() {
    let machines = [
        ("since/base", Some((4 + 1 + 2 + 3) << 12)),
        ("since/base:guest=walk", Some(10 << 12)),
        ("since/base:walk_levels=5", None),
        // HT-1, HT-5: 16 buckets of 64 bytes for four groups of eight pages.
        ("since/hashed:ht_buckets=16", Some(16 * 64)),
        ("since/nested-hashed:ht_buckets=16", Some(16 * 64)),
        // CL-1: 8 heads of 8 bytes, and four nodes of 16 pages.
        ("since/clustered-table:cl_buckets=8", Some(8 * 8 + 4 * 144)),
        // UTO-7.
        ("since/utopia", None),
        ("since/utopia:uto_pte=true", Some(10 << 12)),
        // Arrays alone have no walker, and Midgard has tables of its own.
        ("t94/single", None),
        ("since/midgard", None),
    ];
    let out = run(&machines.map(|(machine, _)| machine), &stream());
    for (i, (machine, bytes)) in machines.into_iter().enumerate() {
        assert_eq!(out.machine(i).memory.page_table_bytes, bytes, "{machine}");
    }
}
