//! SV97-23, each requirement once; with it SV97-22, SV97-24, SV97-44, CA-23, F-16, F-18, H-SV-13.

use super::world::{READ, RWX, World};
use farreach_hw::system::System;
use farreach_types::addr::Asid;
use farreach_types::event::Kind;
use farreach_types::translation::{Attr, Pte};

/// Address-space protection: the same effective address, other identifiers, other lines.
#[test]
fn address_spaces_do_not_leak() {
    let mut w = World::new("");
    w.go(0, Kind::Store, 0x5000);
    assert_eq!(w.cached(1, 0x5000), [false; 2]);
    w.go(1, Kind::Load, 0x5000);
    assert_eq!(w.counts().data.l2_misses, 2, "the other's line is no hit");
    assert_eq!(w.counts().segment_ids, 2);
    // SV97-9: a process switch flushes nothing. (The two lines share a set here, so the first process looks elsewhere.)
    w.go(0, Kind::Load, 0x9000);
    w.go(1, Kind::Load, 0x5008);
    assert_eq!((w.counts().data.l2_misses, w.counts().flushed_lines), (3, 0));
}

/// Shared memory by identifier: one line for both, no synonym, no flush (H-SV-13).
#[test]
fn sharing_by_identifier() {
    let mut w = World::new("");
    w.table.map(0, 5, 77, RWX);
    w.table.map(1, 5, 77, RWX);
    w.go(0, Kind::Store, 0x5000);
    assert!(w.machine.share(Asid(1), 0x5000, (Asid(0), 0x5000)));
    for _ in 0..3 {
        w.go(1, Kind::Store, 0x5000);
        w.go(0, Kind::Load, 0x5000);
    }
    let c = w.counts();
    assert_eq!((c.data.l2_misses, c.synonym_misses, c.flushed_lines, c.segment_ids), (1, 0, 0, 1));
    // The first owner ends, the other goes on; then the segment ends.
    w.machine.gone(Asid(0));
    assert_eq!((w.cached(1, 0x5000), w.counts().flushed_lines), ([true; 2], 0));
    w.machine.gone(Asid(1));
    assert_eq!(w.counts().flushed_lines, 2, "the line and that of its page table entry");
}

/// CA-23, SV97-17: what a load of one alias finds after a store through the other. Data is stale if the line it finds
/// was in the cache before the store, or came from memory while the stored line had not gone there.
fn stale(overrides: &str, distance: u64) -> (bool, u64) {
    let mut w = World::new(overrides);
    let (a, b) = (0x5000, 0x5000 + distance);
    w.table.map(0, a >> 12, 77, RWX);
    w.table.map(0, b >> 12, 77, RWX);
    w.load(b);
    w.store(a);
    let old_copy = w.cached(0, b)[1];
    let not_in_memory = w.cached(0, a)[1];
    w.load(b);
    let also = w.cached(0, a)[1];
    (old_copy || not_in_memory && also, w.counts().synonym_flushes)
}

#[test]
fn synonyms() {
    let size = 512 << 10;
    assert_eq!(stale("synonyms=none", 0x1000), (true, 0), "aliases at differing indexes");
    assert!(!stale("synonyms=none", size).0, "aligned aliases displace each other in direct-mapped caches");
    assert_eq!(stale("synonyms=flush", 0x1000), (false, 2));
    assert_eq!(stale("synonyms=flush", size), (false, 2));
    assert_eq!(stale("synonyms=aligned", 0x1000), (false, 2));
    assert_eq!(stale("synonyms=aligned", size), (false, 0));
    // One of the two being writable suffices, whichever came first.
    for (first, second) in [(0x5000, 0x6000), (0x6000, 0x5000)] {
        let mut w = World::new("synonyms=flush");
        w.table.map(0, 5, 77, READ);
        w.table.map(0, 6, 77, RWX);
        w.load(first);
        w.load(second);
        assert_eq!((w.cached(0, first), w.cached(0, second)), ([false; 2], [true; 2]), "{first:#x} first");
        assert_eq!((w.counts().synonym_misses, w.counts().synonym_flushes), (1, 1), "{first:#x} first");
    }
    // Memory that is read-only everywhere is never stale.
    let mut w = World::new("");
    w.table.map(0, 5, 77, READ);
    w.table.map(1, 5, 77, READ);
    w.go(0, Kind::Load, 0x5000);
    w.go(1, Kind::Load, 0x5000);
    assert_eq!((w.counts().synonym_misses, w.counts().flushed_lines), (0, 0));
}

/// A large address space: segments are loaded into the eight registers in turn; cached lines stay.
#[test]
fn large_address_spaces() {
    let mut w = World::new("");
    // Lines of their own, also beside page table entries.
    let at = |chunk: u64| chunk << 40 | chunk << 12 | 0x850;
    (0..20).for_each(|chunk| w.load(at(chunk)));
    assert_eq!((w.counts().segment_ids, w.counts().segment_loads, w.counts().data.l2_misses), (20, 20, 20));
    (12..20).for_each(|chunk| w.load(at(chunk)));
    assert_eq!((w.counts().segment_loads, w.counts().data.l2_misses), (20, 20), "the last eight are in registers");
    (0..12).for_each(|chunk| w.load(at(chunk)));
    let c = w.counts();
    assert_eq!((c.segment_ids, c.segment_loads, c.data.l2_misses), (20, 32, 20));
    assert_eq!(c.flushed_lines, 0);
}

/// SV97-3, fine-grained protection: one line of a page, and only that one.
#[test]
fn protection_of_a_line() {
    let mut w = World::new("");
    w.store(0x5000);
    w.store(0x5010);
    assert!(w.machine.protect_line(Asid(0), 0x5010, Some(Attr(Attr::READ))));
    w.store(0x5000);
    w.load(0x5010);
    assert_eq!(w.counts().protection_traps, 0);
    w.store(0x5018);
    assert_eq!(w.counts().protection_traps, 1);
    // It outlives the line's stay in the caches.
    w.load(0x5010 + (512 << 10));
    assert_eq!(w.cached(0, 0x5010), [false; 2]);
    w.store(0x5010);
    w.store(0x5010);
    assert_eq!(w.counts().protection_traps, 2, "the store that brings it in is noticed when it is repeated");
    assert!(w.machine.protect_line(Asid(0), 0x5010, None));
    w.store(0x5010);
    assert_eq!(w.counts().protection_traps, 2);
    assert!(!w.machine.protect_line(Asid(7), 0x5010, None), "nothing of that space was ever touched");
}

/// F-18: segment and line must both allow.
#[test]
fn protection_of_a_segment() {
    let mut w = World::new("");
    w.store(0x5000);
    assert!(w.machine.protect_segment(Asid(0), 0x5000, Attr(Attr::READ)));
    w.load(0x5000);
    assert_eq!(w.counts().protection_traps, 0);
    w.store(0x5000);
    assert_eq!(w.counts().protection_traps, 1, "the segment forbids");
    assert!(w.machine.protect_segment(Asid(0), 0x5000, RWX));
    w.store(0x5000);
    assert!(w.machine.protect_line(Asid(0), 0x5000, Some(Attr(Attr::READ))));
    w.store(0x5000);
    assert_eq!(w.counts().protection_traps, 2, "the line forbids");
}

/// Sparse spaces: two far-apart mappings touch two pages of the page table, not what lies between.
#[test]
fn sparse_spaces() {
    let mut w = World::new("");
    w.load(0x0000_1000);
    w.load(0x7fff_ffff_f000);
    let rows = w.counts().handler;
    assert_eq!((rows.upte_loads, rows.l2d_misses, rows.loads), (2, 2, 4));
}

/// Superpages: one entry of a clustered table describes 16 pages; with base pages there are 16.
#[test]
fn superpages() {
    let run = |order: u8| {
        let mut w = World::new("table=clustered");
        for vpn in 16..32u64 {
            let pte = Pte { pfn: farreach_types::addr::Pfn(160 + vpn - 16), attr: RWX, order };
            w.table.pages.insert((Asid(0), farreach_types::addr::Vpn(vpn)), Some(pte));
            w.load(vpn << 12);
        }
        let rows = w.counts().handler;
        (rows.data_runs, rows.upte_loads, rows.l2d_misses)
    };
    // Bucket, head of the node, and the line of the only entry; or the four lines of all.
    assert_eq!((run(4), run(0)), ((16, 0, 3), (16, 0, 6)));
}

/// SV97-24 with k = 2: the fifth chunk takes the identifier of the oldest; all lines cached under it are flushed, the
/// others are not.
#[test]
fn identifiers_run_out() {
    let mut w = World::new("id_bits=2");
    let at = |chunk: u64| chunk << 28 | chunk << 16;
    for asid in 0..4 {
        w.go(asid, Kind::Store, at(1) + u64::from(asid) * 0x2000); // Lines of their own.
    }
    assert_eq!((w.counts().segment_ids, w.counts().ids_reused, w.counts().flushed_lines), (4, 0, 0));
    w.go(4, Kind::Load, at(1) + 0x9000);
    let c = w.counts();
    assert_eq!((c.segment_ids, c.ids_reused, c.flushed_dirty), (5, 1, 1));
    assert!(c.flushed_lines >= 2, "its page table entry too");
    // The victim's next reference is a miss, for a new identifier, from the next oldest.
    let misses = w.counts().data.l2_misses;
    w.go(0, Kind::Load, at(1));
    assert_eq!((w.counts().data.l2_misses, w.counts().ids_reused), (misses + 1, 2));
    // An identifier whose owner ended is free.
    w.machine.gone(Asid(4));
    w.go(5, Kind::Load, at(1));
    assert_eq!(w.counts().ids_reused, 2);
    // One process with more chunks than identifiers.
    let mut w = World::new("id_bits=2");
    for round in 0..3 {
        (0..5).for_each(|chunk| w.load(at(chunk)));
        assert_eq!(w.counts().ids_reused, round * 5 + 1);
    }
}

/// SV97-24, SV97-23: the protection of lines is dropped with the identifier; its next owner does not inherit it.
#[test]
fn sv97_24_the_next_owner_of_an_identifier_has_lines_of_its_own() {
    let mut w = World::new("id_bits=1");
    w.go(0, Kind::Store, 0x5010);
    assert!(w.machine.protect_line(Asid(0), 0x5010, Some(Attr(Attr::READ))));
    w.go(0, Kind::Store, 0x5010);
    assert_eq!(w.counts().protection_traps, 1);
    w.go(1, Kind::Load, 0x9000);
    w.go(2, Kind::Store, 0x5010);
    w.go(2, Kind::Store, 0x5010);
    assert_eq!((w.counts().ids_reused, w.counts().protection_traps), (1, 1));
    assert_eq!(w.machine.cached_lines(1, Asid(2), 0x5010)[0].map(|line| line.attr()), Some(RWX));
}

/// SV97-24: the running process keeps the identifiers in its registers as long as another owner has one to take.
#[test]
fn sv97_24_the_running_process_keeps_its_identifiers() {
    let mut w = World::new("id_bits=2");
    let at = |chunk: u64| chunk << 28 | chunk << 16;
    w.go(0, Kind::Store, at(1));
    (2..5).for_each(|chunk| w.go(1, Kind::Store, at(chunk)));
    // The oldest of four is the first process's own: the second oldest goes.
    w.go(0, Kind::Load, at(5));
    assert_eq!((w.counts().ids_reused, w.counts().flushed_dirty), (1, 1));
    let cached = |asid, chunk| w.cached(asid, at(chunk))[1];
    assert_eq!([cached(0, 1), cached(1, 2), cached(1, 3)], [true, false, true]);
    let (misses, loads) = (w.counts().data.l2_misses, w.counts().segment_loads);
    w.go(0, Kind::Load, at(1));
    assert_eq!((w.counts().data.l2_misses, w.counts().segment_loads), (misses, loads));
}

/// SV97-22, SV97-44: a sweep looks for every line of the page in both levels and changes those that are cached.
#[test]
fn protection_sweep() {
    let mut w = World::new("");
    w.table.map(0, 5, 77, Attr(Attr::READ | Attr::WRITE));
    // 50 lines; a first level of 8 KB keeps them all, so some of another page push most of them out.
    (0..50).for_each(|i| w.store(0x5000 + i * 16));
    (10..50).for_each(|i| w.load(0x5000 + i * 16 + 8192));
    w.remap(0, 5, 77, Attr(Attr::READ));
    let c = w.counts();
    assert_eq!(c.protection_changes, 1);
    // Both pages may lose lines to page table entries; here none did.
    assert_eq!((c.sweep_l1_looked, c.sweep_l1_changed), (256, 10));
    assert_eq!((c.sweep_l2_looked, c.sweep_l2_changed), (256, 50));
    let rows = farreach_cost::system::rows(&c, &Default::default(), &w.params);
    let cycles: f64 =
        rows.iter().filter(|r| r.event.starts_with("protection sweep")).map(|r| r.count as f64 * r.penalty).sum();
    assert_eq!(cycles, 6908.0, "SV97-44");
    assert_eq!(w.cached(0, 0x5000), [true; 2], "nothing is flushed");
    assert_eq!(w.machine.cached_lines(1, Asid(0), 0x5000)[0].unwrap().attr(), Attr(Attr::READ));
}

/// F-16, H-SV-10: a raise needs no sweep; a lowering does. A line with outdated protection is updated by one trap.
#[test]
fn lazy_raise() {
    let mut w = World::new("lazy_raise=true");
    w.table.map(0, 5, 77, READ);
    w.load(0x5000);
    w.load(0x5010);
    w.remap(0, 5, 77, RWX);
    let c = w.counts();
    assert_eq!((c.protection_changes, c.lazy_raises, c.sweep_l1_looked), (1, 1, 0));
    (0..3).for_each(|_| w.store(0x5000));
    w.load(0x5010);
    assert_eq!((w.counts().lazy_traps, w.counts().protection_traps), (1, 0));
    w.store(0x5020);
    assert_eq!(w.counts().lazy_traps, 1, "a line that comes now has the new protection");
    w.remap(0, 5, 77, READ);
    assert_eq!(
        (w.counts().lazy_raises, w.counts().sweep_l1_looked),
        (1, 512),
        "an executable page is looked for on both sides"
    );
}

/// The lines of an unmapped page leave the caches; its frame can be reused at once.
#[test]
fn unmapping_flushes() {
    let mut w = World::new("");
    w.table.map(0, 5, 77, RWX);
    w.store(0x5000);
    w.load(0x5010);
    w.unmap(0, 5);
    assert_eq!((w.counts().flushed_lines, w.counts().flushed_dirty, w.cached(0, 0x5000)), (2, 1, [false; 2]));
    w.table.map(0, 9, 77, RWX);
    w.load(0x9000);
    assert_eq!(w.counts().synonym_misses, 0);
}
