//! Operating-system rules of T94, with the golden vectors of the specification (CA-7, CA-8, CA-9, CA-10, CA-13, CA-39).

use crate::common::{Stream, run};
use farreach_machine::{Lab, MachineSpec, Options};
use farreach_types::event::{Backing, Op, Prot};

/// A 64-entry TLB that shows where each page went.
const RESERVING: &str = "t94/single:placement=reservation,memory=256K,prefetch=false";

/// Objects of the golden trace: `A` to `E`, each 16 pages at an aligned address.
fn objects() -> Stream {
    let mut s = Stream::new();
    s.start();
    for i in 0..5 {
        s.anon(0x100 + 0x10 * i, 16);
    }
    s
}

fn page(object: char, page: u64) -> u64 {
    0x100 + 0x10 * (object as u64 - 'A' as u64) + page
}

/// CA-7, T94-45, T94-46, AMB-9, AMB-22.
#[test]
fn ca_7_t94_46_reservation_golden_trace() {
    let faults = [('A', 1), ('B', 5), ('C', 0), ('D', 15), ('E', 3), ('A', 2), ('A', 0), ('A', 3)];
    let frames = [1, 21, 32, 63, 0, 2, 3, 4];
    let mut s = objects();
    s.loads(faults.map(|(o, p)| page(o, p)));
    let out = run(&[RESERVING], &s);
    let got = out.frames(0);
    for ((o, p), frame) in faults.into_iter().zip(frames) {
        assert_eq!(got[&page(o, p)], frame, "{o}{p}");
    }
    let counts = &out.machine(0).counts.os;
    assert_eq!((counts.reservations_made, counts.failed_region_allocs, counts.page_faults), (4, 1, 8));
    // A2 was still reserved; E3 took f0, A0 f3 and A3 f4 by stealing: 60 reserved, 3 stolen, 1 used.
    assert_eq!((counts.reservations_honoured, counts.reservations_stolen), (1, 3));
    assert_eq!(60 - counts.reservations_honoured - counts.reservations_stolen, 56);
}

#[test]
fn ca_7_t94_44_example_of_the_text() {
    // A fault at 0x41034 in an object from 0x40000 on: sixteen consecutive frames, fifteen of them reserved.
    let mut s = Stream::new();
    s.start().anon(0x40, 16).load(0x41).loads(0x40..0x50);
    let out = run(&[RESERVING], &s);
    let frames = out.frames(0);
    assert!((0x40..0x50).all(|v| frames[&v] == frames[&0x40] + v - 0x40) && frames[&0x40].is_multiple_of(16));
    let m = out.machine(0);
    assert_eq!((m.counts.os.reservations_made, m.counts.os.reservations_honoured), (1, 15));
    assert_eq!((m.memory.reserved_bytes, m.memory.resident_bytes), (15 << 12, 16 << 12));
}

/// CA-7, AMB-10, AMB-11.
#[test]
fn ca_7_t94_50_clipping_to_the_object() {
    let mut s = Stream::new();
    s.start().anon(0x100, 15).load(0x102);
    let out = run(&[RESERVING, "t94/single:placement=reservation,memory=256K,clip=false"], &s);
    // 60 KB object: 14 pages reserved, 49 of 64 frames stay free; in superpage mode nothing is reserved.
    assert_eq!(out.machine(0).memory.reserved_bytes, 14 << 12);
    assert_eq!(out.machine(1).memory.reserved_bytes, 0);
    assert_eq!(out.frames(1)[&0x102], 0);
}

#[test]
fn t94_47_reservation_never_adds_faults() {
    // 100 objects of two regions each, one page of each region used, in 64 frames' worth of memory times four.
    let mut s = Stream::new();
    s.start();
    for i in 0..100 {
        s.anon(0x1000 + 32 * i, 32).load(0x1000 + 32 * i + i % 16).load(0x1010 + 32 * i);
    }
    let out = run(&["t94/single:memory=1M", "t94/single:placement=reservation,memory=1M"], &s);
    assert_eq!(out.machine(0).counts.os.page_faults, 200);
    assert_eq!(out.machine(1).counts.os.page_faults, 200);
    assert!(out.machine(1).counts.os.reservations_stolen > 0 && out.machine(1).counts.os.failed_region_allocs > 0);
}

#[test]
fn t94_48_60_freed_groups_are_found_again() {
    let mut s = Stream::new();
    s.start();
    for i in 0..4 {
        s.anon(0x1000 + 16 * i, 16).loads(0x1000 + 16 * i..0x1010 + 16 * i);
    }
    s.unmap(0x1010, 16).anon(0x2000, 16).load(0x2005);
    let out = run(&[RESERVING], &s);
    assert_eq!(out.frames(0)[&0x2005], 16 + 5, "the group that was freed, page at its offset");
    assert_eq!(out.machine(0).counts.os.freed_pages, 16);
}

/// AMB-18: one TLB for instructions and data, unless it is split.
#[test]
fn amb_18_unified_unless_split() {
    let mut s = Stream::new();
    s.load(0x40).fetch(0x40);
    assert_eq!(run(&["t94/single", "t94/single:split=true"], &s).misses(), [1, 2]);
}

/// AMB-23: a remote file has its frames reserved and nothing read ahead. AMB-24: a page that is read ahead is busy, not
/// reserved.
#[test]
fn amb_23_amb_24_what_is_reserved_and_what_is_busy() {
    for (path, honoured, read) in [("/disk/f", 0, 16), ("/net/f", 1, 2)] {
        let mut s = Stream::new();
        s.start().file(0x100, 16, path).loads([0x103, 0x104]);
        let os = run(&["t94/partial:nfs=/net"], &s).machine(0).counts.os.clone();
        assert_eq!((os.reservations_made, os.reservations_honoured, os.page_faults), (1, honoured, 2), "{path}");
        assert_eq!(os.io_bytes, read << 12, "{path}");
    }
}

#[test]
fn t94_52_prefetch_is_for_disk_files_only() {
    for (path, prefetched, io) in [("/disk/f", 15, 16), ("/net/f", 0, 1)] {
        let mut s = Stream::new();
        s.start().file(0x100, 16, path).load(0x103);
        let out = run(&["t94/partial:nfs=/net"], &s);
        let os = &out.machine(0).counts.os;
        assert_eq!((os.pages_prefetched, os.io_bytes, os.page_faults), (prefetched, io << 12, 1), "{path}");
    }
}

#[test]
fn t94_78_zeros_are_for_new_memory_and_nothing_else() {
    // A page of a file; of the same file elsewhere, in memory already; a page of memory; a copy of it, which the child
    // makes.
    let mut s = Stream::new();
    s.start().file(0x100, 16, "/f").load(0x103).file(0x200, 16, "/f").load(0x203).anon(0x300, 16).store(0x300);
    s.op(Op::Fork { child: farreach_types::addr::Asid(1) }).space(1).store(0x300);
    let out = run(&["t94/single", "t94/partial", "t94/superpage"], &s);
    for (i, read) in [1, 16, 16].into_iter().enumerate() {
        let (m, os) = (out.machine(i), &out.machine(i).counts.os);
        // Pages that prefetch reads without use make nothing else cheaper.
        assert_eq!((os.page_faults, os.io_bytes, os.cow_copies, os.zeroed_pages), (3, read << 12, 1, 1), "{}", m.name);
        let line = m.ledger.iter().find(|l| l.item.ends_with("filled with zeros")).unwrap();
        assert_eq!(line.count, 1, "{}", m.name);
    }
    assert_eq!(out.machine(1).cost.os_cycles - out.machine(0).cost.os_cycles, 15 * 40_000);
}

/// Two passes over one region of 16 pages.
fn two_passes(backing: Option<&str>) -> Stream {
    let mut s = Stream::new();
    s.start();
    match backing {
        Some(path) => s.file(0x100, 16, path),
        None => s.anon(0x100, 16),
    };
    s.loads((0x100..0x110).chain(0x100..0x110));
    s
}

#[test]
fn ca_8_t94_54_one_region_two_passes() {
    let super_ = "t94/superpage:nfs=/net";
    for (machine, path, misses, populated, promotions, entries) in [
        ("t94/single", None, 16, 0, 0, 16),
        (super_, None, 16, 0, 1, 1),
        (super_, Some("/disk/f"), 8, 8, 1, 1),
        (super_, Some("/net/f"), 12, 4, 1, 1),
        ("t94/partial", None, 16, 0, 0, 1),
        ("t94/complete", None, 16, 0, 0, 1),
    ] {
        let out = run(&[machine], &two_passes(path));
        let (m, c) = (out.machine(0), &out.machine(0).counts);
        let got = (c.tlb.misses, c.os.page_faults, c.os.populated_pages, c.os.promotions, out.entries[0].len());
        assert_eq!(got, (misses, misses, populated, promotions, entries), "{machine} {path:?}");
        assert_eq!(m.counts.tlb.lookups, 32);
    }
}

#[test]
fn ca_8_t94_54_promotion_counts() {
    for (size, n) in [("16K", 4), ("32K", 8), ("64K", 16)] {
        for (path, count) in [(None, n), (Some("/disk/f"), n / 2), (Some("/net/f"), n * 3 / 4)] {
            let machine = format!("t94/superpage:nfs=/net,region={size},promote={size},sizes=4K+{size}");
            for (touched, promotions) in [(count - 1, 0), (count, 1)] {
                let mut s = Stream::new();
                s.start();
                match path {
                    Some(path) => s.file(0x100, 16, path),
                    None => s.anon(0x100, 16),
                };
                s.loads(0x100..0x100 + touched);
                let out = run(&[&machine], &s);
                assert_eq!(out.machine(0).counts.os.promotions, promotions, "{size} {path:?} {touched}");
            }
        }
    }
}

#[test]
fn amb_2_a_strict_threshold_never_promotes_a_heap() {
    let out = run(&["t94/superpage:strict_threshold=true"], &two_passes(None));
    assert_eq!(out.machine(0).counts.os.promotions, 0);
    let out = run(&["t94/superpage:strict_threshold=true"], &two_passes(Some("/f")));
    assert_eq!((out.machine(0).counts.os.promotions, out.misses()[0]), (1, 9));
}

#[test]
fn ca_9_t94_55_refusals_by_reason() {
    let promote = "t94/superpage:memory=64M";
    // Too small: 15 pages of the group are mapped by the file's region, the threshold is 8.
    let mut s = Stream::new();
    s.start().file(0x100, 15, "/f").loads(0x100..0x10f);
    let os = run(&[promote], &s).machine(0).counts.os.clone();
    assert_eq!((os.promotions, os.refused_small_object), (0, 8), "tried at each new count from 8 to 15");
    // Frames: demand paging from an odd frame on.
    let mut s = Stream::new();
    s.start().anon(0x50, 1).load(0x50).anon(0x100, 16).loads(0x100..0x110);
    let os = run(&["t94/superpage:placement=demand"], &s).machine(0).counts.os.clone();
    assert_eq!((os.promotions, os.refused_frames), (0, 1));
    // Missing pages: half of a file region is touched, nothing is reserved or prefetched.
    let mut s = Stream::new();
    s.start().file(0x100, 16, "/f").loads(0x100..0x108);
    let os = run(&["t94/superpage:placement=demand"], &s).machine(0).counts.os.clone();
    assert_eq!((os.promotions, os.refused_not_resident), (0, 1));
    // Attributes: one page was protected before the rest was touched; the region is then in two pieces.
    let mut s = Stream::new();
    s.start().anon(0x100, 16).loads(0x100..0x10f).protect(0x105, 1, Prot { write: false, ..Prot::RW }).load(0x10f);
    let os = run(&[promote], &s).machine(0).counts.os.clone();
    assert_eq!((os.promotions, os.refused_small_object + os.refused_attributes), (0, 1));
}

#[test]
fn ca_9_t94_57_copy_on_write_of_one_page_demotes() {
    let mut s = Stream::new();
    s.start().anon(0x100, 16);
    for v in 0x100..0x110 {
        s.store(v);
    }
    s.op(Op::Fork { child: farreach_types::addr::Asid(1) }).load(0x104).store(0x105).loads(0x100..0x110);
    let out = run(&["t94/superpage", "t94/partial", "t94/complete"], &s);
    let os = &out.machine(0).counts.os;
    assert_eq!((os.promotions, os.demotions, os.protection_faults, os.cow_copies), (1, 1, 1, 1));
    let parts: Vec<usize> = out.entries[1].iter().map(|e| e.pages.len()).collect();
    assert_eq!(parts, [15, 1], "the copied page has an entry of its own (T94-57)");
    assert_eq!(out.entries[2].len(), 1, "complete subblocks need no relation between the pages");
}

#[test]
fn ca_10_t94_56_coalescing_is_invisible_to_other_designs() {
    // The same policy with and without promotion: a TLB that knows base pages only sees the same translations.
    let base = "t94/single:placement=reservation,clip=false,promote=";
    for path in [None, Some("/f")] {
        let s = two_passes(path);
        let with = run(&[&format!("{base}64K")], &s);
        let without = run(&[&format!("{base}none")], &s);
        assert_eq!(with.frames(0), without.frames(0));
        assert_eq!(with.machine(0).counts.tlb.misses, without.machine(0).counts.tlb.misses);
    }
}

#[test]
fn ca_13_h_t94_27_a_60_kb_object() {
    let small = |pages: u64| {
        let mut s = Stream::new();
        s.start().anon(0x100, pages);
        for _ in 0..3 {
            s.loads(0x100..0x100 + pages);
        }
        s
    };
    let entries = |pages, machine| run(&[machine], &small(pages)).entries[0].len();
    assert_eq!(entries(15, "t94/superpage"), 15);
    assert_eq!(entries(15, "t94/partial"), 1);
    assert_eq!(entries(16, "t94/superpage"), 1);
}

#[test]
fn ca_12_h_t94_16_compress_anomaly() {
    // Four half-used 64 KB regions plus 40 lone pages, ten rounds over 64 entries.
    let mut s = Stream::new();
    s.start();
    for r in 0..4 {
        s.anon(0x1000 + 16 * r, 16);
    }
    s.anon(0x2000, 16 * 40);
    for _ in 0..10 {
        s.loads((0..4).flat_map(|r| (0..8).map(move |i| 0x1000 + 16 * r + i)));
        s.loads((0..40).map(|k| 0x2000 + 16 * k));
    }
    let super_ = |size: &str| format!("t94/superpage:sizes=4K+{size},region={size},promote={size}");
    let machines = [
        super_("16K"),
        super_("32K"),
        super_("64K"),
        "t94/partial:factor=16".into(),
        "t94/partial:factor=8,region=32K".into(),
    ];
    let out = run(&machines.iter().map(String::as_str).collect::<Vec<_>>(), &s);
    assert_eq!(out.misses(), [72, 72, 720, 72, 72]);
    assert_eq!(out.entries.iter().map(Vec::len).collect::<Vec<_>>(), [48, 44, 64, 44, 44]);
}

/// H-T94-1, T94-77: the first steps of the ladder.
#[test]
fn h_t94_1_superpage_hardware_without_support_changes_nothing() {
    let mut s = two_passes(None);
    s.anon(0x1000, 200).loads((0..3).flat_map(|_| (0x1000..0x10c8).step_by(3)));
    let out = run(&["t94/single", "t94/superpage:placement=demand,promote=none"], &s);
    assert_eq!(out.misses()[0], out.misses()[1]);
}

#[test]
fn ca_39_everything_off_is_plain_paging() {
    let mut s = two_passes(None);
    s.anon(0x1000, 300).loads((0..4).flat_map(|k| (0x1000..0x112c).step_by(1 + k)));
    s.unmap(0x1010, 40).loads(0x1000..0x1010).anon(0x1010, 40).loads(0x1000..0x1050);
    let out = run(
        &[
            "t94/single",
            "t94/superpage:sizes=4K,placement=demand,promote=none",
            "t94/complete:factor=1",
            "t94/partial:factor=1,placement=demand",
        ],
        &s,
    );
    let misses = out.misses();
    assert!(misses.iter().all(|m| *m == misses[0]), "{misses:?}");
    assert!(misses[0] > 300);
}

/// T94-27, T94-23: the advantages of complete subblocks over superpages that show in counts. The others: t94_20 and the
/// figures (many pages in an entry with any frames and attributes), CA-16 (sets).
#[test]
fn t94_27_what_complete_subblocks_need_not_pay_for() {
    let mut s = Stream::new();
    s.start().file(0x100, 16, "/disk/f").loads(0x100..0x109).anon(0x200, 16);
    for _ in 0..2 {
        (0x200..0x210).for_each(|v| _ = s.load(v));
    }
    s.store(0x203).store(0x103);
    let unmodified =
        ["t94/single:entries=8", "t94/complete:entries=8", "t94/superpage:entries=8,placement=demand,promote=none"];
    let out = run(&[&unmodified[..], &["t94/superpage:entries=8"]].concat(), &s);
    let os = |i: usize| &out.machine(i).counts.os;
    // 1: better on a system without support for it, where a superpage TLB is no better than any other.
    assert_eq!((out.misses()[1] < out.misses()[0], out.misses()[2]), (true, out.misses()[0]));
    // 4 and 5: no more pages are read, zeroed, resident or waited for than with base pages; a superpage waits until all
    // of it is read.
    assert_eq!((os(1), &out.machine(1).memory), (os(0), &out.machine(0).memory));
    assert_eq!((os(0).page_faults, os(0).populated_pages, os(0).io_bytes), (25, 0, 9 << 12));
    // The eighth of the file's pages brings in the other half.
    assert_eq!((os(3).page_faults, os(3).populated_pages, os(3).io_bytes), (24, 8, 16 << 12));
    assert_eq!(out.machine(3).memory.resident_bytes - out.machine(0).memory.resident_bytes, 7 << 12);
    // 6: two pages were stored to.
    assert_eq!([0, 1, 3].map(|i| os(i).dirty_pages), [2, 2, 32]);
}

/// T94-19, T94-59: pages that would have to be written back.
#[test]
fn t94_19_modified_bits_are_per_superpage_or_per_page() {
    let mut s = two_passes(None);
    s.store(0x103);
    let out = run(&["t94/superpage", "t94/partial", "t94/complete"], &s);
    let dirty: Vec<u64> = (0..3).map(|i| out.machine(i).counts.os.dirty_pages).collect();
    assert_eq!(dirty, [16, 1, 1]);
}

#[test]
fn unmapped_memory_is_freed_reused_and_gone_from_every_tlb() {
    let all = ["t94/single", "t94/superpage", "t94/partial", "t94/complete", "t94/set-associative", "t94/integrated"];
    let mut s = Stream::new();
    s.start();
    for round in 0..20 {
        s.anon(0x1000 + 64 * round, 64).loads(0x1000 + 64 * round..0x1040 + 64 * round).unmap(0x1000 + 64 * round, 64);
    }
    let small: Vec<String> = all.iter().map(|m| format!("{m}:memory=512K")).collect();
    let out = run(&small.iter().map(String::as_str).collect::<Vec<_>>(), &s);
    for (i, name) in all.iter().enumerate() {
        assert!(out.entries[i].is_empty(), "{name}");
        assert_eq!(out.machine(i).memory.resident_at_end_bytes, 0, "{name}");
        assert!(out.machine(i).counts.tlb.invalidations > 0, "{name}");
    }
}

#[test]
fn fork_exit_and_exec_free_everything() {
    let mut s = Stream::new();
    s.start().anon(0x100, 32).file(0x200, 20, "/bin/x").loads(0x100..0x118);
    s.op(Op::Fork { child: farreach_types::addr::Asid(1) });
    s.space(1).store(0x100).load(0x118).load(0x200).op(Op::End(farreach_types::event::End::Exit(0)));
    s.space(0).store(0x100).store(0x101).load(0x101).op(Op::End(farreach_types::event::End::Exit(0)));
    let out = run(&["t94/single", "t94/superpage", "t94/partial"], &s);
    for i in 0..3 {
        let (m, os) = (out.machine(i), &out.machine(i).counts.os);
        assert_eq!(m.memory.resident_at_end_bytes, 0);
        // The child copies page 0; then the parent is alone with its frames and takes them over.
        assert_eq!((os.forks, os.cow_copies, os.protection_faults), (1, 1, 3), "machine {i}");
        assert!(out.entries[i].is_empty());
    }
}

#[test]
fn out_of_memory_names_the_machine_and_the_key() {
    let mut s = Stream::new();
    s.start().anon(0x100, 64).loads(0x100..0x140);
    let mut lab = crate::common::lab(&["t94/partial:memory=128K"], false, 1);
    let error = s.batches.iter().find_map(|b| lab.feed(b).err()).unwrap().to_string();
    for word in ["t94/partial:memory=128K", "out of memory", "128K", "'memory'"] {
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn stray_and_forbidden_references_are_counted_not_hidden() {
    let mut s = Stream::new();
    s.start().map(0x100, 1, Prot { read: true, write: false, exec: false }, false, Backing::Anonymous);
    s.load(0x100).store(0x100).store(0x100).load(0x500).load(0x500);
    let os = run(&["t94/single"], &s).machine(0).counts.os.clone();
    assert_eq!((os.page_faults, os.wild_faults, os.forbidden_accesses), (2, 1, 1));
}

fn remap(old: u64, old_pages: u64, new: u64, pages: u64) -> Op {
    Op::Remap { old_start: old << 12, old_len: old_pages << 12, new_start: new << 12, new_len: pages << 12 }
}

fn exit() -> Op {
    Op::End(farreach_types::event::End::Exit(0))
}

#[test]
fn t94_57_a_copy_on_write_page_that_becomes_writable_is_copied_at_the_next_store() {
    // The store before was forbidden; the filter must not treat it as one that needs no service.
    let mut s = Stream::new();
    let file = Backing::File { path: "/f".into(), offset: 0 };
    let read = Prot { read: true, ..Prot::NONE };
    s.start()
        .map(0x40, 4, read, false, file)
        .store(0x41)
        .store(0x41)
        .protect(0x40, 4, Prot::RW)
        .store(0x41)
        .store(0x41);
    let counts = run(&["t94/single"], &s).machine(0).counts.os.clone();
    assert_eq!((counts.forbidden_accesses, counts.protection_faults, counts.cow_copies), (1, 1, 1));
}

#[test]
fn t94_60_a_part_of_a_mapping_moves_away_and_all_of_it_ends() {
    let mut s = Stream::new();
    s.start().anon(0x40, 16).loads(0x40..0x50).op(remap(0x44, 4, 0x80, 4)).op(remap(0x44, 0, 0x84, 2));
    s.loads([0x80, 0x83, 0x4f]).op(exit());
    let m = run(&["t94/single"], &s).machine(0).clone();
    assert_eq!((m.counts.os.freed_pages, m.counts.os.page_faults, m.counts.os.wild_faults), (16, 16, 0));
    assert_eq!(m.memory.resident_at_end_bytes, 0);
}

#[test]
fn t94_43_holes_of_a_space_that_was_never_mapped_are_wild() {
    let mut s = Stream::new();
    s.load(0x40).unmap(0x40, 1).load(0x40).load(0x41);
    let m = run(&["t94/single"], &s).machine(0).clone();
    assert_eq!((m.counts.os.page_faults, m.counts.os.wild_faults, m.memory.virtual_bytes), (3, 1, 0));
}

#[test]
fn t94_43_a_file_mapped_over_itself_stays_in_memory_and_private_memory_does_not() {
    let mut s = Stream::new();
    s.start().file(0x40, 4, "/f").load(0x40).file(0x40, 4, "/f").load(0x40);
    s.map(0x80, 4, Prot::RW, false, Backing::Heap).load(0x80).map(0x80, 4, Prot::RW, false, Backing::Heap).load(0x80);
    let counts = run(&["t94/single"], &s).machine(0).counts.os.clone();
    assert_eq!((counts.page_faults, counts.io_bytes, counts.freed_pages), (4, 4096, 1));
}

#[test]
fn t94_43_new_heap_does_not_share_pages_with_heap_that_was_moved() {
    let mut s = Stream::new();
    s.start().map(0x40, 4, Prot::RW, false, Backing::Heap).loads(0x40..0x44).op(remap(0x40, 4, 0x80, 4));
    s.map(0x40, 4, Prot::RW, false, Backing::Heap).loads((0x40..0x44).chain(0x80..0x84));
    let out = run(&["t94/single"], &s);
    let frames: std::collections::BTreeSet<u64> = out.frames(0).into_values().collect();
    assert_eq!((out.machine(0).counts.os.page_faults, frames.len()), (8, 8));
}

#[test]
fn t94_42_reprotecting_neighbours_leaves_a_superpage_alone() {
    // The range ends inside the superpage, but what it changes lies elsewhere.
    let mut s = Stream::new();
    s.start().anon(0x40, 16).map(0x50, 4, Prot::RWX, false, Backing::Anonymous).loads(0x40..0x54);
    s.protect(0x48, 12, Prot::RW).load(0x40);
    let counts = run(&["t94/superpage"], &s).machine(0).counts.os.clone();
    assert_eq!((counts.promotions, counts.demotions), (1, 0));
    s.protect(0x48, 12, Prot::RWX).load(0x40);
    assert_eq!(run(&["t94/superpage"], &s).machine(0).counts.os.demotions, 1);
}

#[test]
fn a_batch_with_nothing_in_it_is_no_process_switch() {
    let mut s = Stream::new();
    s.load(0x40).space(1).space(0).load(0x40);
    assert_eq!(run(&["t94/single:process_ids=false"], &s).misses(), [1]);
    s.space(1).load(0x40).space(0).load(0x40);
    assert_eq!(run(&["t94/single:process_ids=false"], &s).misses(), [3]);
}

/// Worker threads may get batches after the limit, which a single thread would not request: a process switch there
/// would drop entries.
#[test]
fn what_comes_after_the_limit_is_not_noticed() {
    let mut s = Stream::new();
    s.start().anon(0, 8).loads(0..8).space(2).start().anon(0, 8).loads(0..8);
    let result = |after: bool| {
        let spec = MachineSpec::parse("t94/single:process_ids=false", 0).unwrap();
        let mut lab = Lab::new(vec![spec], Options { limit: Some(8), ..Options::default() }).unwrap();
        for batch in &s.batches {
            if !lab.feed(batch).unwrap() && !after {
                break;
            }
        }
        lab.result("test", None)
    };
    let stopped = result(false);
    assert_eq!((stopped.workload.references.load, stopped.machines[0].counts.tlb.invalidations), (8, 0));
    assert_eq!(result(true), stopped);
}
