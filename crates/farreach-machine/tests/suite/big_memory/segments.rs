//! Direct segments (CA-26, CA-27, CA-28, CA-38).

use super::world::{A, frame, map, os, run, touch};
use farreach_os::{Os, What};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Backing, End, Kind, Mapping, Op, Prot};
use farreach_types::translation::{PageTableView, SegmentView};

const KEYS: &str = "placement=segment,segment_memory=1M,memory=4M,admit_min=64K";

/// Base, pages and first frame.
fn registers(os: &Os, asid: Asid) -> Option<(u64, u64, u64)> {
    os.segment(asid).map(|s| (s.base.0, s.limit.0 - s.base.0, s.pfn.0))
}

fn whats(os: &mut Os) -> Vec<What> {
    let mut changes = Vec::new();
    os.take_changes(&mut changes);
    changes.iter().map(|c| c.what).collect()
}

fn protect(os: &mut Os, start: u64, pages: u64, prot: Prot) {
    os.apply(A, &Op::Protect { start: start << 12, len: pages << 12, prot });
}

const READ_ONLY: Prot = Prot { read: true, write: false, exec: false };

/// DS13-16, DS13-20, DS13-26: unused pages are counted.
#[test]
fn ds13_16_registers_cover_the_heap() {
    let mut os = os(KEYS);
    map(&mut os, 0x100, 8, Backing::Heap);
    assert_eq!(registers(&os, A), None, "too small to be admitted");
    touch(&mut os, 0x103, Kind::Store);
    let first = frame(&os, 0x103).unwrap();
    whats(&mut os);
    map(&mut os, 0x108, 24, Backing::Heap);
    let (base, pages, pfn) = registers(&os, A).unwrap();
    assert_eq!((base, pages), (0x100, 32));
    // DS13-20: the page was copied; registers, then the flush.
    assert_eq!(whats(&mut os), [What::Segment, What::Stale, What::Stale]);
    assert_ne!(frame(&os, 0x103), Some(first));
    assert_eq!(frame(&os, 0x103), Some(pfn + 3));
    let faults = os.counts().page_faults;
    touch(&mut os, 0x11f, Kind::Load);
    assert_eq!((os.counts().page_faults, frame(&os, 0x11f)), (faults, Some(pfn + 31)), "no fault in a segment");
    let used = os.segment_use().unwrap();
    assert_eq!((used.created, used.converted_pages, used.most_pages, used.unused_at_end_pages), (1, 1, 32, 30));
    assert_eq!((used.first_part, used.refused), (0, 0), "there was memory for all of it");
    os.check();
}

/// SEG-1, SEG-15: the next pages of the mapping stay elsewhere, so what mremap adds is a region of its own, and neither
/// it nor the pages that moved are large. At the end of a mapping they are one.
#[test]
fn seg_15_pages_that_mremap_adds_join_the_end_of_a_mapping_only() {
    const LARGE: &str = "placement=segment,segment_memory=1M,memory=4M,admit_min=4K,primary=large,primary_min=48K";
    for (from, created, now) in [(0x200, 1, None), (0x20a, 2, Some((0x300, 12)))] {
        let mut os = os(LARGE);
        map(&mut os, 0x200, 14, Backing::Anonymous);
        assert_eq!(registers(&os, A).map(|r| (r.0, r.1)), Some((0x200, 14)));
        let [old_start, new_start] = [from << 12, 0x300 << 12];
        os.apply(A, &Op::Remap { old_start, old_len: 4 << 12, new_start, new_len: 12 << 12 });
        touch(&mut os, 0x301, Kind::Load);
        assert_eq!(registers(&os, A).map(|r| (r.0, r.1)), now, "{from:x}");
        assert_eq!(os.segment_use().unwrap().created, created, "{from:x}");
        os.check();
    }
}

/// SEG-6: a stray reference outside the segment parts what could become a longer one.
#[test]
fn seg_6_a_hole_that_is_touched_is_a_region_that_is_not_eligible() {
    let mut os = os(&format!("{KEYS},provision=eager"));
    map(&mut os, 0x100, 32, Backing::Heap);
    touch(&mut os, 0x130, Kind::Load);
    map(&mut os, 0x140, 32, Backing::Anonymous);
    assert_eq!(registers(&os, A).map(|r| (r.0, r.1)), Some((0x100, 32)), "the page between is not eligible");
    let used = os.segment_use().unwrap();
    // Two events of 32 and 65 mapped pages; the stray page has all rights.
    assert_eq!((used.mapped_page_samples, used.read_write_page_samples), (32 + 65, 32 + 64));
    assert_eq!((used.most_pages, used.most_used_pages), (32, 0));
    os.check();
}

/// SEG-13, SEG-14: misses are attributed to the name of the region, in a segment as well.
#[test]
fn seg_13_pages_in_a_segment_keep_the_name_of_their_region() {
    let mut os = os(KEYS);
    let name = |os: &mut Os, asid: Asid, vpn: u64| {
        let label = os.touch(asid, Vpn(vpn), Kind::Store).unwrap().label;
        os.labels()[label as usize].to_string()
    };
    map(&mut os, 0x80, 4, Backing::Stack);
    map(&mut os, 0x100, 8, Backing::Heap);
    assert_eq!([name(&mut os, A, 0x80), name(&mut os, A, 0x101)], ["stack", "heap"]);
    map(&mut os, 0x108, 24, Backing::Heap);
    assert!(registers(&os, A).is_some());
    assert_eq!([name(&mut os, A, 0x101), name(&mut os, A, 0x102)], ["heap", "heap"], "converted, first touched");
    os.apply(A, &Op::Fork { child: Asid(1) });
    assert_eq!(name(&mut os, Asid(1), 0x102), "heap", "copied");
}

#[test]
fn ds13_21_ds13_22_grow_and_shrink() {
    let mut os = os(KEYS);
    map(&mut os, 0x100, 32, Backing::Heap);
    let (_, _, pfn) = registers(&os, A).unwrap();
    map(&mut os, 0x120, 32, Backing::Heap);
    assert_eq!(registers(&os, A), Some((0x100, 64, pfn)), "LIMIT was raised");
    (0x100..0x140).for_each(|v| touch(&mut os, v, Kind::Store));
    let frames: Vec<_> = (0x100..0x140).map(|v| frame(&os, v)).collect();
    whats(&mut os);
    // A page in the middle gets another protection: it must page, and the longer part stays.
    protect(&mut os, 0x110, 1, READ_ONLY);
    assert_eq!(registers(&os, A), Some((0x111, 47, pfn + 17)));
    assert_eq!((0x100..0x140).map(|v| frame(&os, v)).collect::<Vec<_>>(), frames, "nothing moves");
    assert_eq!(whats(&mut os), [What::Stale, What::Segment]);
    let used = os.segment_use().unwrap();
    assert_eq!((used.grown, used.shrunk, used.reverted_pages, used.converted_pages), (1, 1, 17, 0));
    // And back: BASE is lowered over pages that are in their places.
    protect(&mut os, 0x110, 1, Prot::RW);
    assert_eq!(registers(&os, A), Some((0x100, 64, pfn)));
    assert_eq!((0x100..0x140).map(|v| frame(&os, v)).collect::<Vec<_>>(), frames);
    assert_eq!((os.segment_use().unwrap().converted_pages, os.segment_use().unwrap().grown), (0, 2));
    os.check();
}

#[test]
fn ds13_15_the_first_part_when_memory_is_short() {
    let mut os = os("placement=segment,segment_memory=64K,memory=4M,admit_min=4K");
    map(&mut os, 0x100, 40, Backing::Heap);
    assert_eq!(registers(&os, A).map(|r| (r.0, r.1)), Some((0x100, 16)));
    (0x100..0x128).for_each(|v| touch(&mut os, v, Kind::Store));
    assert_eq!((os.counts().page_faults, os.segment_use().unwrap().first_part), (24, 1), "the rest is paged");
    // DS13-18: memory that a process returns serves the next one.
    os.apply(A, &Op::End(End::Exit(0)));
    os.apply(Asid(1), &Op::Start { pid: 2, parent: None, program: "/bin/b".into() });
    os.apply(Asid(1), &heap(0x900, 16));
    assert_eq!(registers(&os, Asid(1)).map(|r| (r.0, r.1)), Some((0x900, 16)));
    os.check();
}

fn heap(start: u64, pages: u64) -> Op {
    Op::Map(Mapping { start: start << 12, len: pages << 12, prot: Prot::RW, shared: false, backing: Backing::Heap })
}

/// DS13-11, DS13-12, AMB-60.
#[test]
fn ds13_12_opt_in_opt_out_and_provisioning() {
    let build_with = |base: &str, keys: &str| {
        let mut os = os(&format!("{base},{keys}"));
        map(&mut os, 0x100, 32, Backing::Heap);
        map(&mut os, 0x800, 40, Backing::Anonymous);
        map(&mut os, 0x830, 16, Backing::Anonymous);
        map(&mut os, 0x900, 32, Backing::File { path: "/x".into(), offset: 0 });
        map(&mut os, 0xa00, 200, Backing::Stack);
        os
    };
    let build = |keys: &str| build_with(KEYS, keys);
    let base_pages = |os: &Os| registers(os, A).map(|r| (r.0, r.1));
    // Eager: the span from the heap to the file, holes included, if as much address space was reserved; there is memory
    // for 2048 pages.
    let large = KEYS.replace("segment_memory=1M,memory=4M", "segment_memory=8M,memory=16M");
    assert_eq!(base_pages(&build_with(&large, "provision=eager")), Some((0x100, 0x740)));
    // With memory for 256 pages the heap and the two others, which lie together, are apart.
    assert_eq!(base_pages(&build("provision=eager")), Some((0x100, 32)), "no other span is twice as large");
    let later = KEYS.replace("admit_min=64K", "admit_min=200K");
    assert_eq!(base_pages(&build_with(&later, "provision=eager")), Some((0x800, 64)));
    assert_eq!(base_pages(&build("provision=lazy")), Some((0x100, 32)), "no other span is twice as large");
    assert_eq!(base_pages(&build("provision=lazy,primary=large,primary_min=160K")), Some((0x800, 40)));
    assert_eq!(base_pages(&build("provision=lazy,primary=heap")), Some((0x100, 32)));
    assert_eq!(base_pages(&build("programs=other")), None, "DS13-14: it is not named");
}

/// DS13-10, DS13-12. Each of them is large enough, and the only one of its process.
#[test]
fn ds13_12_what_always_pages() {
    let file = || Backing::File { path: "/x".into(), offset: 0 };
    for (prot, shared, backing, admitted) in [
        (Prot::RW, false, Backing::Anonymous, true),
        (Prot::RW, true, Backing::Anonymous, false),
        (Prot::RWX, false, Backing::Anonymous, false),
        (READ_ONLY, false, Backing::Anonymous, false),
        (Prot::NONE, false, Backing::Anonymous, false),
        (Prot::RW, false, Backing::Stack, false),
        (Prot::RW, false, Backing::Kernel, false),
        (Prot::RW, false, file(), false),
        (Prot::RW, true, file(), false),
    ] {
        let mut os = os(KEYS);
        let what = format!("{prot:?} {shared} {backing:?}");
        os.apply(A, &Op::Map(Mapping { start: 0x100 << 12, len: 64 << 12, prot, shared, backing }));
        assert_eq!(registers(&os, A).is_some(), admitted, "{what}");
    }
}

#[test]
fn a_segment_moves_to_a_span_twice_as_large() {
    let mut os = os(&format!("{KEYS},provision=lazy"));
    map(&mut os, 0x100, 32, Backing::Heap);
    touch(&mut os, 0x100, Kind::Store);
    map(&mut os, 0x800, 64, Backing::Anonymous);
    assert_eq!(registers(&os, A).map(|r| r.0), Some(0x100));
    map(&mut os, 0x7c0, 64, Backing::Anonymous);
    let (base, pages, _) = registers(&os, A).unwrap();
    assert_eq!((base, pages), (0x7c0, 128));
    let used = os.segment_use().unwrap();
    assert_eq!((used.created, used.destroyed, used.reverted_pages), (2, 1, 1));
    os.check();
}

#[test]
fn ds13_22_what_moves_away_leaves_the_segment_its_larger_part() {
    for (from, kept) in [(0x110, (0x114, 44, 20)), (0x130, (0x100, 48, 0))] {
        let mut os = os(KEYS);
        map(&mut os, 0x100, 64, Backing::Heap);
        let (_, _, pfn) = registers(&os, A).unwrap();
        (0x100..0x140).for_each(|v| touch(&mut os, v, Kind::Store));
        let moved = frame(&os, from);
        os.apply(A, &Op::Remap { old_start: from << 12, old_len: 4 << 12, new_start: 0x800 << 12, new_len: 4 << 12 });
        let (base, pages, behind) = kept;
        assert_eq!(registers(&os, A), Some((base, pages, pfn + behind)));
        assert_eq!((frame(&os, 0x800), frame(&os, from)), (moved, None), "pages move with their frames");
        os.check();
    }
}

#[test]
fn ca_28_ds13_25_emulation_gives_the_same_frames() {
    let mut both = ["hardware", "emulation"].map(|mode| os(&format!("{KEYS},segment_mode={mode}")));
    for os in &mut both {
        map(os, 0x100, 32, Backing::Heap);
        (0x100..0x118).for_each(|v| touch(os, v, Kind::Store));
        map(os, 0x120, 16, Backing::Heap);
        protect(os, 0x100, 4, READ_ONLY);
        os.apply(A, &Op::Fork { child: Asid(1) });
        touch(os, 0x110, Kind::Store);
        os.apply(Asid(1), &Op::End(End::Exit(0)));
        map(os, 0x130, 16, Backing::Heap);
        (0x100..0x140).for_each(|v| touch(os, v, Kind::Load));
        os.check();
    }
    let [hardware, emulation] = &both;
    assert!((0x100..0x140).all(|v| hardware.pte(A, Vpn(v)) == emulation.pte(A, Vpn(v))));
    assert_eq!(hardware.segment_of(A), emulation.segment_of(A));
    assert!(hardware.segment(A).is_some() && emulation.segment(A).is_none());
    assert!(hardware.counts().page_faults < emulation.counts().page_faults);
}

#[test]
fn amb_64_fork_reverts_or_copies() {
    let mut revert = os(KEYS);
    let mut copy = os(&format!("{KEYS},segment_fork=copy"));
    for os in [&mut revert, &mut copy] {
        map(os, 0x100, 32, Backing::Heap);
        (0x100..0x108).for_each(|v| touch(os, v, Kind::Store));
        os.apply(A, &Op::Fork { child: Asid(1) });
        os.check();
    }
    assert_eq!((revert.segment(A), revert.counts().cow_copies), (None, 0));
    assert_eq!(revert.pte(A, Vpn(0x100)).map(|p| p.pfn), revert.pte(Asid(1), Vpn(0x100)).map(|p| p.pfn));
    assert_eq!((registers(&copy, A).map(|r| r.1), copy.counts().cow_copies), (Some(32), 8));
    assert_ne!(copy.pte(A, Vpn(0x100)).map(|p| p.pfn), copy.pte(Asid(1), Vpn(0x100)).map(|p| p.pfn));
    assert_eq!(copy.segment(Asid(1)), None);
    // When the child has ended the parent may have its segment again.
    revert.apply(Asid(1), &Op::End(End::Exit(0)));
    map(&mut revert, 0x120, 1, Backing::Heap);
    assert_eq!(registers(&revert, A).map(|r| (r.0, r.1)), Some((0x100, 33)));
    revert.check();
}

#[test]
fn ds13_22_unused_memory_is_lent_when_memory_is_full() {
    let mut os = os("placement=segment,segment_memory=1M,memory=2M,admit_min=64K");
    map(&mut os, 0x100, 256, Backing::Heap);
    (0x100..0x110).for_each(|v| touch(&mut os, v, Kind::Store));
    map(&mut os, 0x1000, 400, Backing::File { path: "/data".into(), offset: 0 });
    (0x1000..0x1190).for_each(|v| touch(&mut os, v, Kind::Load));
    let used = os.segment_use().unwrap();
    assert_eq!((registers(&os, A).map(|r| r.1), used.shrunk, used.lent_pages), (Some(16), 1, 240));
    os.check();
}

/// CA-27, AMB-67.
#[test]
fn ca_27_old_frames_are_not_used_before_the_flush() {
    let mut os = os(&format!("{KEYS},allocator=buddy"));
    map(&mut os, 0x100, 12, Backing::Heap);
    (0x100..0x10c).for_each(|v| touch(&mut os, v, Kind::Store));
    let old: Vec<u64> = (0x100..0x10c).filter_map(|v| frame(&os, v)).collect();
    whats(&mut os);
    map(&mut os, 0x10c, 12, Backing::Heap);
    // The event that converts uses none of the old frames; the flush is reported before the next event.
    let new: Vec<u64> = (0x100..0x10c).filter_map(|v| frame(&os, v)).collect();
    assert!(new.iter().all(|f| !old.contains(f)));
    let changes = whats(&mut os);
    assert_eq!((changes[0], changes.iter().filter(|w| **w == What::Stale).count()), (What::Segment, 24));
    touch(&mut os, 0x2000, Kind::Store);
    assert!(old.contains(&frame(&os, 0x2000).unwrap()), "now they serve again");
}

#[test]
fn ds13_34_the_share_of_read_write_memory() {
    for keys in ["provision=eager", "primary=heap", "primary=large,primary_min=512K", "segment_mode=emulation"] {
        let mut os = os(&format!("{KEYS},{keys}"));
        map(&mut os, 0x100, 32, Backing::Heap);
        map(&mut os, 0x900, 64, Backing::File { path: "/x".into(), offset: 0 });
        map(&mut os, 0xa00, 40, Backing::Stack);
        // A guard is no memory; executable memory is memory, but not of this kind.
        for (start, prot) in [(0xb00, Prot::NONE), (0xc00, Prot::RWX)] {
            let backing = Backing::Anonymous;
            os.apply(A, &Op::Map(Mapping { start: start << 12, len: 100 << 12, prot, shared: false, backing }));
        }
        map(&mut os, 0xd00, 8, Backing::Anonymous);
        let used = os.segment_use().unwrap();
        // After each event, for any primary region.
        let samples = (32 * 5 + 40, 32 + 96 + 136 + 136 + 236 + 244);
        assert_eq!((used.read_write_page_samples, used.mapped_page_samples), samples, "{keys}");
    }
}

/// DS13-6: any number of pages, wherever they begin.
#[test]
fn ds13_6_a_segment_has_any_size_and_no_alignment() {
    let mut os = os("placement=segment,segment_memory=1M,memory=4M,admit_min=4K");
    map(&mut os, 0x103, 37, Backing::Heap);
    assert_eq!(registers(&os, A).map(|r| (r.0, r.1)), Some((0x103, 37)));
    (0x103..0x128).for_each(|v| touch(&mut os, v, Kind::Store));
    assert_eq!(os.counts().page_faults, 0);
    os.check();
}

/// DS13-23: two processes have segments at a time, at equal addresses, and one is resized without the other.
#[test]
fn ds13_23_each_process_has_registers_of_its_own() {
    let mut os = os(KEYS);
    let b = Asid(1);
    map(&mut os, 0x100, 32, Backing::Heap);
    os.apply(b, &Op::Start { pid: 2, parent: None, program: "/bin/b".into() });
    os.apply(b, &heap(0x100, 32));
    for v in 0x100..0x120 {
        touch(&mut os, v, Kind::Store);
        os.touch(b, Vpn(v), Kind::Store).unwrap();
    }
    let (first, second) = (registers(&os, A).unwrap(), registers(&os, b).unwrap());
    assert_eq!(((first.0, first.1), (second.0, second.1)), ((0x100, 32), (0x100, 32)));
    assert!(first.2.abs_diff(second.2) >= 32, "no frame in common: {first:x?} {second:x?}");
    assert_eq!(os.counts().page_faults, 0);
    protect(&mut os, 0x100, 8, READ_ONLY);
    assert_eq!((registers(&os, A), registers(&os, b)), (Some((0x108, 24, first.2 + 8)), Some(second)));
    os.apply(b, &heap(0x120, 16));
    assert_eq!((registers(&os, A).map(|r| r.1), registers(&os, b)), (Some(24), Some((0x100, 48, second.2))));
    os.check();
}

#[test]
fn ds13_14_programs_are_named_by_path_or_file_name() {
    for (programs, admitted) in [("/bin/b", true), ("b", true), ("a+b", true), ("/usr/bin/b", false), ("bin/b", false)]
    {
        let mut os = os(&format!("{KEYS},programs={programs}"));
        os.apply(A, &Op::Start { pid: 1, parent: None, program: "/bin/b".into() });
        // Named, it needs no minimum size.
        map(&mut os, 0x100, 4, Backing::Heap);
        assert_eq!(registers(&os, A).is_some(), admitted, "{programs}");
    }
}

#[test]
fn ds13_15_a_process_for_which_nothing_is_left_is_paged() {
    let mut os = os("placement=segment,segment_memory=64K,memory=4M,admit_min=4K");
    map(&mut os, 0x100, 16, Backing::Heap);
    os.apply(Asid(1), &Op::Start { pid: 2, parent: None, program: "/bin/b".into() });
    assert_eq!(os.segment_use().unwrap().refused, 0);
    os.apply(Asid(1), &heap(0x900, 16));
    os.touch(Asid(1), Vpn(0x900), Kind::Store).unwrap();
    assert_eq!((registers(&os, Asid(1)), os.segment_use().unwrap().refused, os.counts().page_faults), (None, 1, 1));
    os.check();
}

/// CA-26, CA-38; `Os::check` checks DS13-3.
#[test]
fn ca_26_ca_38_segments_under_random_events() {
    let mut all = [0; 5];
    for keys in [
        "placement=segment,segment_memory=1M,memory=16M,admit_min=32K,ranges=true,range_cow=split",
        "placement=segment,segment_memory=256K,memory=16M,admit_min=4K,provision=lazy,segment_fork=copy",
        "placement=segment,segment_memory=1M,memory=3M,admit_min=4K,provision=lazy,promote=64K,allocator=buddy",
        "placement=segment,segment_memory=512K,memory=16M,admit_min=4K,segment_mode=emulation",
        "placement=segment,segment_memory=512K,memory=4M,admit_min=4K,primary=large,primary_min=64K,page_size=8K",
    ] {
        let threshold = if keys.contains("ranges") { 8 } else { u64::MAX };
        for world in run(keys, threshold, 2, 250) {
            let u = world.os.segment_use().unwrap();
            let counts = [u.created, u.grown, u.shrunk, u.converted_pages, u.reverted_pages];
            all.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
        }
    }
    assert!(all.iter().all(|&n| n >= 5), "too little happened: {all:?}");
}
