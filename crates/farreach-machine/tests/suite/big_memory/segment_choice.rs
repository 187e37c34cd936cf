//! Which memory gets the segment where regions compete: the rules of the book's page on memory, by hand.

use super::world::{A, B, C, frame, map, os, touch};
use farreach_os::Os;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Backing, End, Kind, Mapping, Op, Prot};
use farreach_types::translation::{PageTableView, SegmentView};

/// Base, pages and first frame.
fn registers(os: &Os, asid: Asid) -> Option<(u64, u64, u64)> {
    os.segment(asid).map(|s| (s.base.0, s.limit.0 - s.base.0, s.pfn.0))
}

fn place(os: &Os) -> Option<(u64, u64)> {
    registers(os, A).map(|r| (r.0, r.1))
}

fn anon(os: &mut Os, start: u64, pages: u64) {
    map(os, start, pages, Backing::Anonymous);
}

fn file(os: &mut Os, start: u64, pages: u64) {
    map(os, start, pages, Backing::File { path: "/x".into(), offset: 0 });
}

fn unmap(os: &mut Os, start: u64, pages: u64) {
    os.apply(A, &Op::Unmap { start: start << 12, len: pages << 12 });
}

/// SEG-3, SEG-7, SEG-8: a small mapping nearly 1 GB below neither shrinks the segment nor makes it grow over a hole in
/// which it would reach nothing.
#[test]
fn seg_3_a_mapping_far_below_changes_nothing() {
    let far = 0x7_f004_0000;
    // The memory that is left reaches down to page 0x7f0000c35.
    for (below, grows) in [(0x7_f000_0c20, 0), (0x7_f000_0000, 0), (0x7_f000_0c31, 1)] {
        let mut os = os("placement=segment,segment_memory=1G,memory=4G");
        anon(&mut os, far + 0x352, 0x44f);
        anon(&mut os, far + 0x7a5, 0x490);
        assert_eq!(place(&os), Some((far + 0x352, 0x8e3)));
        (far + 0x352..far + 0x7a1).step_by(7).for_each(|v| touch(&mut os, v, Kind::Store));
        (far + 0x7a5..far + 0xc35).step_by(7).for_each(|v| touch(&mut os, v, Kind::Store));
        let before = registers(&os, A);
        anon(&mut os, below, 7);
        // With eager provisioning holes are part of a segment that reaches something behind them.
        assert_eq!(
            registers(&os, A),
            if grows == 0 { before } else { Some((0x7_f000_0c35, 1 << 18, 0)) },
            "{below:#x}"
        );
        let used = os.segment_use().unwrap();
        assert_eq!((used.grown, used.shrunk, used.reverted_pages, used.converted_pages), (grows, 0, 0, 0));
        os.check();
    }
}

/// SEG-3, SEG-10: of memory for which the pool is too short the window that covers most.
#[test]
fn seg_10_the_window_that_covers_most() {
    let keys = "placement=segment,segment_memory=256K,memory=4M,programs=b";
    // 64 frames. Four regions in a row of holes: 20 at 0, 10 at 30, 30 at 50, 4 at 100.
    for (order, expected) in [
        // 10 at 30 and 30 at 50 in 50 pages; with 4 at 100 it would be 74.
        ([(0x130, 10), (0x150, 30), (0x100, 20), (0x190, 4)], (0x130, 0x3e)),
        ([(0x100, 20), (0x130, 10), (0x150, 30), (0x190, 4)], (0x130, 0x3e)),
    ] {
        let mut os = os(keys);
        order.iter().for_each(|&(start, pages)| anon(&mut os, start, pages));
        assert_eq!(place(&os), None, "it is not named");
        os.apply(A, &Op::Start { pid: 1, parent: None, program: "/bin/b".into() });
        assert_eq!(place(&os), Some(expected));
        os.check();
    }
}

/// SEG-7: what counts is what a part covers, not how long it is with its holes.
#[test]
fn seg_7_the_part_that_covers_most_stays() {
    let mut os = os("placement=segment,segment_memory=1M,memory=4M,admit_min=64K");
    map(&mut os, 0x100, 100, Backing::Heap);
    assert_eq!(place(&os), Some((0x100, 100)));
    // 5 and 5 pages with a hole between them are 60 long, and cover less than 39.
    unmap(&mut os, 0x105, 50);
    file(&mut os, 0x13c, 1);
    assert_eq!(place(&os), Some((0x13d, 39)));
    os.check();
}

/// SEG-9: a segment of holes is left for memory of less length that covers more than twice as much.
#[test]
fn seg_9_covered_pages_are_compared_with_covered_pages() {
    let mut os = os("placement=segment,segment_memory=1M,memory=4M,admit_min=64K");
    map(&mut os, 0x100, 100, Backing::Heap);
    unmap(&mut os, 0x10a, 80);
    assert_eq!(place(&os), Some((0x100, 100)), "20 pages and a hole");
    file(&mut os, 0x200, 1);
    anon(&mut os, 0x300, 40);
    assert_eq!(place(&os), Some((0x100, 100)), "twice as much is not more than twice");
    anon(&mut os, 0x328, 1);
    assert_eq!(place(&os), Some((0x300, 41)));
    os.check();
}

/// SEG-9: the free piece is measured as if the segment were gone.
#[test]
fn seg_9_the_old_segment_makes_room_for_the_new_one() {
    let mut os = os("placement=segment,segment_memory=256K,memory=4M,admit_min=64K");
    map(&mut os, 0x100, 25, Backing::Heap);
    touch(&mut os, 0x100, Kind::Store);
    let (kept, first) = (frame(&os, 0x100), registers(&os, A).unwrap().2);
    file(&mut os, 0x200, 1);
    // 39 of 64 frames are left beside the segment; without it 63, since the page that was used keeps its frame.
    anon(&mut os, 0x300, 60);
    assert_eq!(registers(&os, A), Some((0x300, 60, first + 4)));
    assert_eq!(frame(&os, 0x100), kept);
    let used = os.segment_use().unwrap();
    assert_eq!((used.created, used.destroyed, used.reverted_pages, used.converted_pages), (2, 1, 1, 0));
    os.check();
}

/// SEG-9: memory that a used page keeps is no room.
#[test]
fn seg_9_used_pages_are_not_copied_out_of_the_way() {
    let mut os = os("placement=segment,segment_memory=256K,memory=4M,admit_min=64K");
    map(&mut os, 0x100, 25, Backing::Heap);
    touch(&mut os, 0x10c, Kind::Store);
    file(&mut os, 0x200, 1);
    // Beside the frame in use there are pieces of 12 and 51: 51 is more than 2 x 25, and 50 would not be.
    anon(&mut os, 0x300, 60);
    assert_eq!(place(&os), Some((0x300, 51)));
    let mut os = super::world::os("placement=segment,segment_memory=256K,memory=4M,admit_min=64K");
    map(&mut os, 0x100, 25, Backing::Heap);
    touch(&mut os, 0x10d, Kind::Store);
    file(&mut os, 0x200, 1);
    anon(&mut os, 0x300, 60);
    assert_eq!(place(&os), Some((0x100, 25)));
    os.check();
}

/// SEG-8, SEG-11: pages that kept their frames of the pool are taken in as they are.
#[test]
fn seg_11_growing_over_a_page_in_its_place_copies_nothing() {
    let mut os = os("placement=segment,segment_memory=1M,memory=4M,admit_min=64K");
    map(&mut os, 0x100, 32, Backing::Heap);
    (0x100..0x120).for_each(|v| touch(&mut os, v, Kind::Store));
    let (before, counts) = (registers(&os, A), os.counts());
    let protect = |os: &mut Os, prot: Prot| os.apply(A, &Op::Protect { start: 0x100 << 12, len: 8 << 12, prot });
    protect(&mut os, Prot { write: false, ..Prot::RW });
    assert_eq!(place(&os), Some((0x108, 24)));
    protect(&mut os, Prot::RW);
    assert_eq!(registers(&os, A), before);
    (0x100..0x120).for_each(|v| touch(&mut os, v, Kind::Store));
    assert_eq!(os.counts(), counts, "no copy, no fault");
    let used = os.segment_use().unwrap();
    assert_eq!((used.grown, used.shrunk, used.reverted_pages, used.converted_pages), (1, 1, 8, 0));
    os.check();
}

/// SEG-5: a pool that is smaller than `admit_min` still serves somebody.
#[test]
fn seg_5_no_process_needs_more_than_the_pool_has() {
    for (pages, expected) in [(15, None), (16, Some((0x100, 16))), (40, Some((0x100, 16)))] {
        let mut os = os("placement=segment,segment_memory=64K,memory=4M,admit_min=1M");
        map(&mut os, 0x100, pages, Backing::Heap);
        assert_eq!(place(&os), expected, "{pages} pages");
    }
}

/// SEG-6: frames that another process frees are used at the next event.
#[test]
fn seg_6_other_processes_shape_nothing() {
    let mut os = os("placement=segment,segment_memory=256K,memory=4M,admit_min=4K");
    map(&mut os, 0x100, 40, Backing::Heap);
    os.apply(B, &Op::Start { pid: 2, parent: None, program: "/bin/b".into() });
    let heap =
        Op::Map(Mapping { start: 0x100 << 12, len: 60 << 12, prot: Prot::RW, shared: false, backing: Backing::Heap });
    os.apply(B, &heap);
    assert_eq!(registers(&os, B).map(|r| r.1), Some(24), "the other frames");
    os.apply(A, &Op::End(End::Exit(0)));
    assert_eq!(registers(&os, B).map(|r| r.1), Some(24));
    os.apply(B, &Op::Unmap { start: 0x800 << 12, len: 1 << 12 });
    // Its first 24 pages lie behind the free 40 frames: 60 pages are more than twice 24, and there is room for them.
    assert_eq!(registers(&os, B).map(|r| r.1), Some(60));
    os.check();
}

/// SEG-6: a reference to a hole of a segment is served by paging, even where it fails for want of memory.
#[test]
fn seg_6_a_stray_page_is_none_of_the_segment() {
    for (memory, outcome) in [("4M", true), ("1M", false)] {
        let mut os =
            os(&format!("placement=segment,segment_memory=1M,memory={memory},admit_min=4K,segment_lend=false"));
        anon(&mut os, 0x100, 40);
        anon(&mut os, 0x130, 60);
        assert_eq!(place(&os), Some((0x100, 0x6c)));
        assert_eq!(os.touch(A, Vpn(0x12a), Kind::Load).is_ok(), outcome);
        assert_eq!(place(&os), Some((0x130, 60)), "the part that covers most");
        os.check();
    }
}

/// SEG-14: a parent without a segment, or with copies for its child, is as free as before.
#[test]
fn seg_14_with_copies_a_parent_may_get_a_segment_later() {
    for (fork, expected) in [("copy", Some((0x100, 64))), ("revert", None)] {
        let mut os = os(&format!("placement=segment,segment_memory=1M,memory=4M,admit_min=64K,segment_fork={fork}"));
        map(&mut os, 0x100, 4, Backing::Heap);
        touch(&mut os, 0x100, Kind::Store);
        os.apply(A, &Op::Fork { child: B });
        map(&mut os, 0x104, 60, Backing::Heap);
        assert_eq!(place(&os), expected, "{fork}");
        // The page that the child shares was copied.
        assert_eq!(os.counts().cow_copies, u64::from(expected.is_some()), "{fork}");
        os.check();
    }
}

/// SEG-14: it is the pages of the parent that need frames, not those of other processes.
#[test]
fn seg_14_copies_need_frames_for_the_pages_of_the_parent() {
    let mut os =
        os("placement=segment,segment_memory=256K,memory=320K,admit_min=4K,segment_fork=copy,segment_lend=false");
    // 16 frames are free beside the pool; another process uses 30 pages in its segment, the parent 10.
    os.apply(B, &Op::Start { pid: 2, parent: None, program: "/bin/b".into() });
    let (prot, backing) = (Prot::RW, Backing::Heap);
    os.apply(B, &Op::Map(Mapping { start: 0x100 << 12, len: 30 << 12, prot, shared: false, backing }));
    (0x100..0x11e).for_each(|v| _ = os.touch(B, Vpn(v), Kind::Store).unwrap());
    map(&mut os, 0x100, 20, Backing::Heap);
    (0x100..0x10a).for_each(|v| touch(&mut os, v, Kind::Store));
    os.apply(A, &Op::Fork { child: C });
    assert_eq!((place(&os), os.counts().cow_copies), (Some((0x100, 20)), 10));
    // 6 are left: the next child shares.
    os.apply(A, &Op::Fork { child: Asid(3) });
    assert_eq!((place(&os), os.counts().cow_copies), (None, 10));
    os.check();
}

/// SEG-15: a mapping that grows or shrinks where it is keeps its segment.
#[test]
fn seg_15_mremap_in_place_moves_nothing_out() {
    let mut os = os("placement=segment,segment_memory=1M,memory=4M,admit_min=64K");
    map(&mut os, 0x100, 32, Backing::Heap);
    (0x100..0x120).for_each(|v| touch(&mut os, v, Kind::Store));
    let before = registers(&os, A).unwrap();
    let resize = |os: &mut Os, old: u64, new: u64| {
        let (old_start, new_start) = (0x100 << 12, 0x100 << 12);
        os.apply(A, &Op::Remap { old_start, old_len: old << 12, new_start, new_len: new << 12 });
    };
    resize(&mut os, 32, 48);
    assert_eq!(registers(&os, A), Some((before.0, 48, before.2)));
    resize(&mut os, 48, 20);
    assert_eq!(registers(&os, A), Some((before.0, 20, before.2)));
    let used = os.segment_use().unwrap();
    assert_eq!((used.grown, used.shrunk, used.reverted_pages), (1, 1, 0));
    os.check();
}

/// SEG-16: unused pages at an end of a segment first, at either end; then those inside.
#[test]
fn seg_16_what_is_lent_first() {
    let build = |touched: std::ops::Range<u64>, more: &[u64]| {
        // 64 frames of the pool, all in one segment; 16 others.
        let mut os = os("placement=segment,segment_memory=256K,memory=320K,admit_min=4K");
        map(&mut os, 0x100, 64, Backing::Heap);
        touched.chain(more.iter().copied()).for_each(|v| touch(&mut os, v, Kind::Store));
        file(&mut os, 0x1000, 100);
        os
    };
    let fill = |os: &mut Os, pages: u64| (0x1000..0x1000 + pages).for_each(|v| touch(os, v, Kind::Load));
    // 20 unused pages at the lower end, 14 at the upper: the longer run is lent.
    let mut os = build(0x114..0x132, &[]);
    fill(&mut os, 17);
    assert_eq!((place(&os), os.segment_use().unwrap().lent_pages), (Some((0x114, 44)), 20));
    fill(&mut os, 37);
    assert_eq!((place(&os), os.segment_use().unwrap().lent_pages), (Some((0x114, 30)), 34));
    // Nothing at the ends: of the pages inside, the longest run, and the smaller side of it.
    let mut os = build(0x100..0x108, &[0x110, 0x13f]);
    fill(&mut os, 17);
    assert_eq!((place(&os), os.segment_use().unwrap().lent_pages), (Some((0x100, 17)), 46));
    assert_eq!(os.segment_use().unwrap().reverted_pages, 1);
    let frames: Vec<_> = [0x100, 0x110, 0x13f].iter().map(|v| frame(&os, *v)).collect();
    assert!(frames.iter().all(Option::is_some), "nothing is lost");
    os.check();
}

/// SEG-19: pages of the segment and pages beside it never make one superpage.
#[test]
fn seg_19_no_superpage_reaches_into_a_segment() {
    let mut os = os("placement=segment,segment_memory=96K,memory=4M,admit_min=4K,promote=64K");
    map(&mut os, 0x100, 48, Backing::Heap);
    assert_eq!(registers(&os, A), Some((0x100, 24, 0)), "paging allocates the next frames");
    (0x100..0x130).for_each(|v| touch(&mut os, v, Kind::Store));
    let orders: Vec<u8> = (0x100..0x130).map(|v| os.pte(A, Vpn(v)).unwrap().order).collect();
    assert_eq!((0x100..0x120).map(|v| frame(&os, v)).collect::<Vec<_>>(), (0..32).map(Some).collect::<Vec<_>>());
    assert_eq!(orders, [[0; 32].as_slice(), &[4; 16]].concat());
    assert_eq!((os.counts().promotions, os.counts().refused_attributes), (1, 1));
    os.check();
}
