//! Eager paging (CA-32).

use super::world::{A, map, os, pattern};
use farreach_os::Os;
use farreach_types::addr::Vpn;
use farreach_types::event::{Backing, End, Kind, Mapping, Op, Prot};
use farreach_types::translation::{PageTableView, Range, RangeTableView};

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
    // N = 8: as many as the threshold, served at once (AMB-83), and a range.
    let mut eight = os("placement=eager,memory=128K");
    map(&mut eight, 0x100, 8, Backing::Anonymous);
    assert_eq!((ranges(&eight, 0..0x200), eight.counts().eager_pages), (vec![(0x100, 8)], 8));
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
fn rmm15_23_what_is_no_request_for_memory_waits() {
    let mut os = os("placement=eager,memory=1M");
    let map_as = |os: &mut Os, start: u64, prot: Prot, shared: bool, backing: Backing| {
        os.apply(A, &Op::Map(Mapping { start: start << 12, len: 64 << 12, prot, shared, backing }));
    };
    // An inaccessible mapping, a stack, a file.
    map_as(&mut os, 0x100, Prot::NONE, false, Backing::Anonymous);
    map_as(&mut os, 0x200, Prot::RW, false, Backing::Stack);
    map_as(&mut os, 0x300, Prot::RW, true, Backing::File { path: "/x".into(), offset: 0 });
    assert_eq!((os.counts().eager_requests, os.memory_use().resident_bytes), (0, 0));
    // mmap and brk request memory, shared memory too.
    map_as(&mut os, 0x400, Prot::RW, true, Backing::Anonymous);
    map_as(&mut os, 0x500, Prot::RW, false, Backing::Heap);
    assert_eq!((os.counts().eager_requests, os.memory_use().resident_bytes), (2, 128 << 12));
    // A second mapping of pages that are in memory (mremap with old length 0) requests nothing.
    os.apply(A, &Op::Remap { old_start: 0x400 << 12, old_len: 0, new_start: 0x600 << 12, new_len: 64 << 12 });
    assert_eq!((os.counts().eager_requests, os.memory_use().resident_bytes), (2, 128 << 12));
    os.check();
}

/// RMM15-24, RMM15-31.
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
    assert_eq!(os.counts().dirty_pages, 64, "RMM15-28: accessed and modified are set at allocation");
    for v in 0x100..0x140 {
        os.touch(A, Vpn(v), Kind::Store).unwrap();
    }
    let (counts, memory) = (os.counts(), os.memory_use());
    assert_eq!((counts.page_faults, counts.dirty_pages, counts.eager_pages), (0, 64, 64), "and no store adds to that");
    assert_eq!((memory.resident_bytes, memory.touched_bytes, memory.wasted_bytes), (64 << 12, 64 << 12, 0));
    let c = os.contiguity().unwrap();
    assert_eq!((c.ranges, c.range_pages, c.median_pages, c.cover_99, c.ideal_ranges), (1, 64, 64, Some(1), 1));
}

/// The heap grows by five pages at a time: too little for eager paging, and for a range. Its allocator asks for
/// sixteen.
#[test]
fn rmm15_32_an_allocator_asks_for_chunks() {
    let grow = |keys: &str| {
        let mut os = os(&format!("placement=eager,memory=1M,address_ordered=true{keys}"));
        (0..4).for_each(|i| map(&mut os, 0x100 + 5 * i, 5, Backing::Heap));
        os.check();
        os
    };
    let as_asked = grow("");
    assert_eq!((ranges(&as_asked, 0..0x200), as_asked.counts().eager_requests), (vec![], 0));
    let mut chunks = grow(",chunk=64K");
    let c = chunks.counts();
    assert_eq!(ranges(&chunks, 0..0x200), [(0x100, 20)]);
    assert_eq!((c.chunk_requests, c.chunk_pages, c.chunk_unused_pages, c.eager_pages), (2, 32, 12, 20));
    assert_eq!(chunks.memory_use().reserved_bytes, 16 << 12, "a chunk that was just asked for");
    // A request as large as a chunk is served by itself. At the end, unused parts of chunks are returned.
    map(&mut chunks, 0x800, 16, Backing::Anonymous);
    assert_eq!((chunks.counts().chunk_requests, chunks.counts().eager_pages), (2, 36));
    chunks.apply(A, &Op::End(End::Exit(0)));
    assert_eq!((chunks.counts().chunk_unused_pages, chunks.memory_use().resident_at_end_bytes), (12, 0));
    chunks.check();
}

#[test]
fn rmm15_32_chunks_are_given_up_when_memory_is_full() {
    let mut os = os("placement=eager,memory=128K,chunk=64K,eager_fragmentation=1");
    map(&mut os, 0x100, 5, Backing::Heap);
    map(&mut os, 0x200, 40, Backing::Anonymous);
    // 32 frames, 5 used of a chunk of 16: the request gets the other 16, its touches the rest of the chunk.
    assert_eq!((os.counts().chunk_pages, os.counts().eager_missing), (16, 24));
    (0x200..0x200 + 27).for_each(|v| super::world::touch(&mut os, v, Kind::Store));
    assert_eq!((os.counts().chunk_unused_pages, os.memory_use().resident_bytes), (11, 128 << 10));
    os.check();
}

/// A request is kept in one piece: mapped, touched at some pages, and unmapped at once.
fn one_piece(gigabytes: u64) {
    let pages = gigabytes << 18;
    let start = pages;
    for keys in [
        format!("placement=eager,memory={}G", 2 * gigabytes),
        format!(
            "placement=hugetlb,huge_page=1G,pool={gigabytes}G,memory={}G,allocator=buddy,max_order=19",
            2 * gigabytes
        ),
        format!("placement=thp,memory={}G", 2 * gigabytes),
        format!("placement=segment,segment_memory={gigabytes}G,memory={}G,allocator=buddy", 2 * gigabytes),
    ] {
        let mut os = os(&keys);
        map(&mut os, start, pages, Backing::Anonymous);
        let (mut x, mut touched) = (1u64, std::collections::BTreeSet::new());
        for _ in 0..5000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let page = start + (x >> 33) % pages;
            super::world::touch(&mut os, page, if x >> 32 & 1 == 0 { Kind::Load } else { Kind::Store });
            touched.insert(page);
        }
        let counts = os.counts();
        assert_eq!(
            counts.populated_never_used + os.memory_use().touched_bytes / 4096,
            os.memory_use().mapped_bytes / 4096,
            "{keys}"
        );
        assert_eq!(os.memory_use().touched_bytes / 4096, touched.len() as u64, "{keys}");
        // Half of it goes; the other half ends with the process.
        os.apply(A, &Op::Unmap { start: start << 12, len: pages << 11 });
        assert_eq!(os.pte(A, Vpn(start + pages / 2 - 1)), None);
        os.check();
        os.apply(A, &Op::End(End::Exit(0)));
        assert_eq!(os.memory_use().resident_at_end_bytes, 0, "{keys}");
        os.check();
    }
}

#[test]
fn memory_of_many_gigabytes_is_cheap() {
    one_piece(64);
}

/// Some 0.8 GB of the laboratory's own.
#[test]
#[ignore = "takes a gigabyte of memory"]
fn a_terabyte_works() {
    one_piece(1024);
}
