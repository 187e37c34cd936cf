//! Range tables and ranges (CA-31, CA-33, CA-35, CA-38, AMB-87; AMB-90 by `BTree::check`).

use super::world::{A, map, os, run, touch};
use farreach_oracle::dice::seeds;
use farreach_os::Os;
use farreach_os::ranges::btree::BTree;
use farreach_os::ranges::{List, RangeTable};
use farreach_types::addr::{Asid, Pfn, Vpn};
use farreach_types::event::{Backing, End, Kind, Op, Prot};
use farreach_types::translation::{Attr, Range, RangeTableView};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn range(first: u64, pages: u64) -> Range {
    Range { first: Vpn(first), pages, pfn: Pfn(first ^ 0xfff), attr: Attr(3) }
}

/// Ranges begin at multiples of ten and have up to ten pages: they never overlap.
fn same(tables: &[&dyn RangeTable], plain: &BTreeMap<u64, Range>, page: u64) {
    let truth = plain.range(..=page).next_back().map(|(_, r)| *r).filter(|r| page - r.first.0 < r.pages);
    for table in tables {
        assert_eq!(table.search(Vpn(page)).found, truth, "page {page}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(seeds(96).end as u32))]

    #[test]
    fn ca_31_rmm15_35_tables_are_sorted_lists(
        ops in prop::collection::vec((any::<bool>(), 0u64..60, 1u64..11), 1..300)
    ) {
        let (mut tree, mut list, mut plain) = (BTree::default(), List::default(), BTreeMap::new());
        for (insert, at, pages) in ops {
            let first = at * 10;
            if insert && !plain.contains_key(&first) {
                let r = range(first, pages);
                plain.insert(first, r);
                tree.insert(r);
                list.insert(r);
            } else {
                let gone = plain.remove(&first);
                prop_assert_eq!(tree.remove(Vpn(first)), gone);
                prop_assert_eq!(list.remove(Vpn(first)), gone);
            }
            let levels = tree.check();
            let all: Vec<Range> = plain.values().copied().collect();
            prop_assert_eq!(&tree.ranges(), &all);
            prop_assert_eq!(&list.ranges(), &all);
            (0..620).for_each(|page| same(&[&tree, &list], &plain, page));
            // A search visits one node per level at most; every node but the root has two ranges.
            prop_assert!((0..620).all(|page| tree.search(Vpn(page)).nodes <= levels));
            prop_assert!(tree.nodes() <= (plain.len() as u64).div_ceil(2).max(1));
        }
    }
}

#[test]
fn rmm15_7_three_levels_hold_124_ranges() {
    let mut tree = BTree::default();
    for i in 0..124 {
        tree.insert(range(10 * i, 8));
    }
    // Built in ascending order the nodes are not all full; three levels are enough for (1 + 5 + 25) x 4 ranges only if
    // they are.
    assert!(tree.check() <= 4);
    assert_eq!(tree.search(Vpn(10 * 123 + 7)).found, Some(range(10 * 123, 8)));
    for i in 0..124 {
        assert_eq!(tree.remove(Vpn(10 * i)), Some(range(10 * i, 8)));
    }
    assert_eq!((tree.check(), tree.nodes(), tree.search(Vpn(5)).nodes), (0, 0, 0));
}

#[test]
fn rmm15_golden_range_bounds() {
    let golden = Range { first: Vpn(0x100), pages: 0x80, pfn: Pfn(0x600), attr: Attr(3) };
    let (mut tree, mut list) = (BTree::default(), List::default());
    tree.insert(golden);
    list.insert(golden);
    for table in [&tree as &dyn RangeTable, &list] {
        let frame = |v: u64| table.search(Vpn(v)).found.map(|r| v - r.first.0 + r.pfn.0);
        assert_eq!([0xff, 0x100, 0x17f, 0x180].map(frame), [None, Some(0x600), Some(0x67f), None]);
    }
}

#[test]
fn rmm15_35_the_list_visits_what_lies_before() {
    let mut list = List::default();
    (0..10).for_each(|i| list.insert(range(10 * i, 8)));
    assert_eq!([0, 35, 99, 1000].map(|v| list.search(Vpn(v)).nodes), [1, 4, 10, 10]);
}

#[test]
fn ca_33_ca_38_ranges_are_what_a_scan_finds() {
    for keys in [
        "placement=eager,memory=16M,range_cow=split",
        "placement=eager,memory=16M",
        "placement=eager,memory=16M,range_cow=copy,range_table=list",
        "placement=eager,memory=16M,carve=true,address_ordered=true,range_cow=split",
        "placement=eager,memory=16M,chunk=256K,range_cow=split",
        "placement=demand,ranges=true,allocator=buddy,memory=16M",
        "placement=demand,ranges=true,page_size=8K,memory=32M,range_cow=split",
        "placement=reservation,ranges=true,promote=64K,memory=16M",
    ] {
        run(keys, 8, 2, 250);
    }
}

/// Demand paging allocates frames in ascending order, so that the order of touches says what is contiguous.
#[test]
fn rmm15_43_rmm15_44_what_counts_as_a_range() {
    // Statistics count runs of eight pages and more, for any threshold of the machine.
    for (keys, in_table) in [("", 4), (",range_threshold=2", 5), (",range_threshold=64", 0)] {
        let mut os = os(&format!("placement=demand,ranges=true,memory=16M{keys}"));
        for (start, pages) in [(0x100, 7), (0x200, 8), (0x300, 20), (0x500, 16)] {
            map(&mut os, start, pages, Backing::Anonymous);
            (start..start + pages).for_each(|v| touch(&mut os, v, Kind::Store));
        }
        // Contiguous in virtual memory only.
        map(&mut os, 0x400, 9, Backing::Anonymous);
        (0x400..0x409).rev().for_each(|v| touch(&mut os, v, Kind::Store));
        // Two halves with attributes of their own are two runs.
        os.apply(A, &Op::Protect { start: 0x508 << 12, len: 8 << 12, prot: Prot { write: false, ..Prot::RW } });
        let found = |os: &Os| {
            let c = os.contiguity().unwrap();
            let ranges = (c.mapped_pages, c.ranges, c.range_pages, c.median_pages, c.largest_pages);
            (ranges, [c.cover_50, c.cover_90, c.cover_99], (c.ideal_ranges, c.ideal_cover_99, c.ideal_largest_pages))
        };
        let expected = ((60, 4, 44, 8, 20), [Some(3), None, None], (6, Some(6), 20));
        assert_eq!((found(&os), os.contiguity().unwrap().most_ranges), (expected, in_table), "{keys}");
        // The statistics are those of the process with most pages, at the moment when it had most, also after its end.
        os.apply(Asid(1), &Op::Start { pid: 2, parent: None, program: "/bin/b".into() });
        os.touch(Asid(1), Vpn(5), Kind::Store).unwrap();
        os.apply(A, &Op::Unmap { start: 0x300 << 12, len: 20 << 12 });
        assert_eq!(found(&os), expected, "{keys}");
        os.apply(A, &Op::End(End::Exit(0)));
        assert_eq!(found(&os), expected, "{keys}");
    }
}

#[test]
fn f_4_the_threshold_follows_the_capacity() {
    let mut os = os("placement=demand,ranges=true,range_capacity=4,allocator=buddy,memory=16M");
    // Five ranges of 8 pages are too many: the threshold doubles, and none is left.
    for i in 0..5 {
        map(&mut os, 0x100 * i, 8, Backing::Anonymous);
        (0..8).for_each(|v| touch(&mut os, 0x100 * i + v, Kind::Store));
    }
    let count = |os: &Os| (0..0x1000).filter(|&v| os.range(A, Vpn(v)).is_some()).count();
    assert_eq!((count(&os), os.contiguity().unwrap().threshold), (0, 16));
    let (inserted, removed) = os.contiguity().map(|c| (c.table_inserted, c.table_removed)).unwrap();
    // Large ranges are kept; small ones do not come back before a quarter of the capacity is free.
    map(&mut os, 0x800, 64, Backing::Anonymous);
    (0..64).for_each(|v| touch(&mut os, 0x800 + v, Kind::Store));
    assert_eq!(count(&os), 64);
    os.apply(A, &Op::Unmap { start: 0, len: 8 << 12 });
    os.apply(A, &Op::Unmap { start: 0x100 << 12, len: 8 << 12 });
    assert_eq!(count(&os), 64);
    os.apply(A, &Op::Unmap { start: 0x200 << 12, len: 8 << 12 });
    assert_eq!(count(&os), 64 + 16);
    let c = os.contiguity().unwrap();
    assert!(c.most_ranges <= 4 && c.table_inserted > inserted && c.table_removed > removed);
    // A constant load changes nothing.
    (0..64).for_each(|v| touch(&mut os, 0x800 + v, Kind::Load));
    assert_eq!(os.contiguity().unwrap(), c);
    // Under random events the counts agree and the capacity is never exceeded.
    for world in run("placement=eager,memory=16M,range_capacity=3", u64::MAX, 2, 250) {
        assert!(world.os.contiguity().unwrap().most_ranges <= 3);
    }
}

#[test]
fn ca_35_f_3_copy_on_write_dissolves_splits_or_copies() {
    for (cow, ranges, copies, dissolved) in
        [("dissolve", vec![], 1, 1), ("split", vec![20, 11], 1, 0), ("copy", vec![32], 32, 0)]
    {
        let mut os = os(&format!("placement=eager,memory=1M,range_cow={cow}"));
        map(&mut os, 0x100, 32, Backing::Anonymous);
        (0x100..0x120).for_each(|v| touch(&mut os, v, Kind::Store));
        os.apply(A, &Op::Fork { child: Asid(1) });
        assert_eq!(os.range(Asid(1), Vpn(0x100)).map(|r| (r.pages, r.attr)), Some((32, Attr(Attr::READ))), "RMM15-30");
        touch(&mut os, 0x114, Kind::Store);
        let mut found: Vec<u64> = (0x100..0x120).filter_map(|v| os.range(A, Vpn(v))).map(|r| r.pages).collect();
        found.dedup();
        assert_eq!((found, os.counts().cow_copies), (ranges, copies), "{cow}");
        assert_eq!(os.contiguity().unwrap().dissolved, dissolved, "{cow}");
        assert_eq!(os.range(Asid(1), Vpn(0x100)).map(|r| r.pages), Some(32), "the child's is as it was");
        os.check();
    }
}

/// AMB-87: holes split a range; a piece below the threshold is none.
#[test]
fn amb_87_pieces_below_the_threshold_are_no_ranges() {
    let mut os = os("placement=eager,memory=1M");
    map(&mut os, 0x100, 32, Backing::Anonymous);
    os.apply(A, &Op::Unmap { start: 0x105 << 12, len: 1 << 12 });
    let prot = Prot { read: true, write: false, exec: false };
    os.apply(A, &Op::Protect { start: 0x118 << 12, len: 1 << 12, prot });
    let pages = [0x100, 0x106, 0x118, 0x119].map(|v| os.range(A, Vpn(v)).map(|r| r.pages));
    assert_eq!(pages, [None, Some(18), None, None], "5, 18, 1 and 7 pages");
    os.check();
}

#[test]
fn ca_35_thresholds_other_than_eight() {
    for (threshold, key) in [(1, "range_threshold=1"), (2, "range_threshold=2"), (32, "range_threshold=32")] {
        run(&format!("placement=eager,memory=16M,{key}"), threshold, 2, 250);
    }
}
