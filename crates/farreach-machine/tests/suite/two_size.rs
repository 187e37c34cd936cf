//! Two page sizes (PS-5, PS-6, PS-14, F-22) by hand. Random streams: `run_oracle`.

use crate::common::{Stream, run};
use farreach_machine::MachineSpec;
use farreach_types::counts::{MachineResult, OsCounts};
use farreach_types::event::{Advice, Backing, Op, Prot};

/// 4 KB pages in a page of 256 KB.
const LARGE: u64 = 64;

fn two_size(stream: &Stream, keys: &str) -> MachineResult {
    run(&[&format!("ps/two-size:{keys}")], stream).machine(0).clone()
}

fn faults(os: &OsCounts) -> (u64, u64, u64) {
    (os.page_faults, os.promotions, os.populated_pages)
}

#[test]
fn ps_6_a_large_object_gets_large_pages_and_a_small_one_base_pages() {
    let mut s = Stream::new();
    s.start().anon(0x1000, 2 * LARGE).anon(0x2000, LARGE - 4);
    // Any part of a large page brings in all of it (PS-5): 0x1003 and 0x1030 are in one.
    s.loads([0x1003, 0x1030, 0x1000 + LARGE, 0x2000, 0x2004]);
    let m = two_size(&s, "");
    assert_eq!(faults(&m.counts.os), (4, 2, 2 * 15), "two large pages, two base pages");
    assert_eq!(m.counts.tlb.misses, 4);
    assert_eq!((m.memory.resident_bytes, m.memory.touched_bytes), (2 * (256 << 10) + 2 * (16 << 10), 5 * (16 << 10)));
    let os = two_size(&s, "large_object=513K").counts.os;
    assert_eq!(faults(&os), (5, 0, 0), "the object is too small");
}

#[test]
fn ps_6_enough_memory_must_be_free() {
    let mut s = Stream::new();
    s.start().anon(0x1000, 2 * LARGE).loads([0x1000, 0x1000 + LARGE]);
    let large = |keys: &str| two_size(&s, keys).counts.os.promotions;
    assert_eq!(large("memory=1M"), 2);
    assert_eq!(large("memory=1M,large_free=512K"), 2, "both leave 512K");
    assert_eq!(large("memory=1M,large_free=528K"), 1);
    assert_eq!(large("memory=512K,large_free=16K"), 1);
}

#[test]
fn ps_6_without_an_aligned_chunk_it_falls_back() {
    let mut s = Stream::new();
    // The first object takes frame 0, so of 512K only the second 256K are wholly free.
    s.start().anon(0x2000, 4).load(0x2000).anon(0x1000, 2 * LARGE).loads([0x1000, 0x1000 + LARGE]);
    let os = two_size(&s, "memory=512K").counts.os;
    assert_eq!(os.promotions, 1);
    // Enough is free, no 256K in a piece.
    let os = two_size(&s, "memory=496K").counts.os;
    assert_eq!((os.promotions, os.failed_region_allocs, os.page_faults), (0, 2, 3));
}

/// PS-14: code is no large data object by default.
#[test]
fn ps_14_kinds_are_chosen() {
    let mut s = Stream::new();
    let code = Prot { read: true, write: false, exec: true };
    s.start().map(0x1000, LARGE, code, false, Backing::File { path: "/bin/prog".into(), offset: 0 });
    s.fetch(0x1000).fetch(0x1010);
    assert_eq!(faults(&two_size(&s, "").counts.os), (2, 0, 0));
    let os = two_size(&s, "large_kinds=file+heap").counts.os;
    assert_eq!((faults(&os), os.io_bytes), ((1, 1, 15), 256 << 10), "the whole page is read");
}

/// The size of an object that grows is checked again at the first touch of each large page.
#[test]
fn ps_6_a_heap_that_grows_gets_large_pages_where_it_was_not_touched() {
    let mut s = Stream::new();
    let heap = |s: &mut Stream, start: u64, pages: u64| {
        s.map(start, pages, Prot::RW, false, Backing::Heap);
    };
    s.start();
    heap(&mut s, 0x1000, 8);
    s.store(0x1000);
    heap(&mut s, 0x1008, 2 * LARGE - 8);
    s.store(0x1008).store(0x1000 + LARGE);
    let m = two_size(&s, "");
    assert_eq!(faults(&m.counts.os), (3, 1, 15), "the first 256K have a base page already");
}

#[test]
fn a_part_that_changes_splits_the_page_and_what_was_dropped_comes_back_whole() {
    let mut s = Stream::new();
    s.start().anon(0x1000, LARGE).load(0x1000);
    s.protect(0x1000, 4, Prot { write: false, ..Prot::RW });
    s.load(0x1000).load(0x1020);
    let m = two_size(&s, "");
    assert_eq!((faults(&m.counts.os), m.counts.os.demotions), ((1, 1, 15), 1));
    assert_eq!(m.counts.tlb.misses, 3, "the large entry went; two base pages");
    let mut s = Stream::new();
    s.start().anon(0x1000, LARGE).load(0x1000);
    s.op(Op::Advise { start: 0x1000 << 12, len: LARGE << 12, advice: Advice::DontNeed });
    s.load(0x1010);
    let m = two_size(&s, "");
    assert_eq!((faults(&m.counts.os), m.counts.os.freed_pages, m.counts.os.demotions), ((2, 2, 30), 16, 0));
    assert_eq!(m.memory.resident_bytes, 256 << 10);
}

#[test]
fn a_large_page_is_larger_than_the_base_page() {
    let refused = |keys: &str| {
        let spec = MachineSpec::parse(&format!("ps/two-size:{keys}"), 0).unwrap();
        farreach_machine::Lab::new(vec![spec], Default::default()).err().map(|e| e.to_string()).unwrap_or_default()
    };
    assert!(refused("large=16K").contains("large must be larger"));
    assert!(refused("large=8K").contains("large must be a multiple of page_size, 16K"));
    assert!(refused("large_kinds=code").contains("large_kinds must be a list of file, nfs, heap"));
}
