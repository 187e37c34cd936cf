//! Eager paging (CA-32).

use super::world::{A, map, os, pattern};
use farreach::addr::Vpn;
use farreach::event::{Backing, Kind, Op};
use farreach::hw::tlb::{PageTableView, Range};
use farreach::os::Os;

/// Ranges that begin in these pages, as first page and length.
fn ranges(os: &Os, pages: std::ops::Range<u64>) -> Vec<(u64, u64)> {
    let mut all: Vec<Range> = pages.filter_map(|v| os.range(A, Vpn(v))).collect();
    all.dedup();
    all.iter().map(|r| (r.first.0, r.pages)).collect()
}

#[test]
fn ca_32_rmm15_24_golden_decompositions() {
    // N = 11 and one free block of 32 pages: blocks (0,8), (8,2), (10,1), one range of 11.
    let mut one = os("placement=eager,memory=128K,address_ordered=true");
    map(&mut one, 0x100, 11, Backing::Anonymous);
    let frames: Vec<u64> = (0x100..0x10b).map(|v| one.pte(A, Vpn(v)).unwrap().pfn.0).collect();
    assert_eq!((frames, ranges(&one, 0..0x200)), ((0..11).collect(), vec![(0x100, 11)]));
    // N = 16 and two free blocks of 8 apart from each other: two ranges of 8.
    let file = pattern("apart.txt", "8-15\n24-31\n");
    let mut two = os(&format!("placement=eager,memory=128K,eager_fragmentation=1,pattern={file}"));
    map(&mut two, 0x100, 16, Backing::Anonymous);
    assert_eq!(ranges(&two, 0..0x200), [(0x100, 8), (0x108, 8)]);
    // N = 5: below the threshold, nothing is mapped.
    let mut small = os("placement=eager,memory=128K");
    map(&mut small, 0x100, 5, Backing::Anonymous);
    assert_eq!((small.pte(A, Vpn(0x100)), ranges(&small, 0..0x200)), (None, vec![]));
    assert_eq!((small.counts().eager_requests, small.counts().eager_refused), (0, 0));
}

#[test]
fn ca_32_ranges_larger_than_the_largest_block() {
    // The golden vector has N = 2^19 + 8 and blocks of 2^19; the same with blocks of 2^10.
    for (keys, ordered) in [("", false), (",address_ordered=true", true)] {
        let mut os = os(&format!("placement=eager,memory=64M,max_order=11{keys}"));
        map(&mut os, 0x1000, 1024 + 8, Backing::Anonymous);
        assert_eq!(ranges(&os, 0x1000..0x1500), [(0x1000, 1032)], "{ordered}");
    }
    let mut stock = os("placement=eager,memory=4G,max_order=20");
    map(&mut stock, 0x10000, (1 << 19) + 8, Backing::Anonymous);
    assert_eq!(stock.range(A, Vpn(0x10000)).map(|r| r.pages), Some(524_296));
}

#[test]
fn rmm15_23_growth_joins_the_range() {
    let mut os = os("placement=eager,memory=1M,address_ordered=true");
    map(&mut os, 0x100, 16, Backing::Heap);
    map(&mut os, 0x110, 16, Backing::Heap);
    assert_eq!(ranges(&os, 0..0x200), [(0x100, 32)]);
    // A moving mremap keeps the frames: the same length elsewhere; what it adds is asked for alone.
    let old = os.range(A, Vpn(0x100)).unwrap();
    os.apply(A, &Op::Remap { old_start: 0x100 << 12, old_len: 32 << 12, new_start: 0x400 << 12, new_len: 40 << 12 });
    let new = os.range(A, Vpn(0x400)).unwrap();
    assert_eq!((new.pfn, new.pages, os.range(A, Vpn(0x100))), (old.pfn, 40, None));
    assert_eq!(os.counts().eager_requests, 3);
}

#[test]
fn rmm15_24_a_fragmented_memory_waits_for_touches() {
    let file = pattern("every.txt", "every 8 offset 7\n");
    let mut os = os(&format!("placement=eager,memory=1M,pattern={file}"));
    map(&mut os, 0x100, 64, Backing::Anonymous);
    assert_eq!((os.counts().eager_refused, os.pte(A, Vpn(0x100))), (1, None));
    os.touch(A, Vpn(0x100), Kind::Store).unwrap();
    assert_eq!(os.counts().page_faults, 1);
}

#[test]
fn rmm15_28_eager_pages_take_no_fault() {
    let mut os = os("placement=eager,memory=1M");
    map(&mut os, 0x100, 64, Backing::Anonymous);
    for v in 0x100..0x140 {
        os.touch(A, Vpn(v), Kind::Store).unwrap();
    }
    let (counts, memory) = (os.counts(), os.memory_use());
    assert_eq!((counts.page_faults, counts.dirty_pages, counts.eager_pages), (0, 0, 64));
    assert_eq!((memory.resident_bytes, memory.touched_bytes, memory.wasted_bytes), (64 << 12, 64 << 12, 0));
    let c = os.contiguity().unwrap();
    assert_eq!((c.ranges, c.range_pages, c.median_pages, c.cover_99, c.ideal_ranges), (1, 64, 64, Some(1), 1));
}
