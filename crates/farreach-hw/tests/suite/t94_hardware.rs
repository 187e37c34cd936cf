//! Do the designs invalidate, mark, split, purge, refuse and measure as the rules say, example by example (CA-5, CA-6,
//! CA-15, CA-16)?

use farreach_hw::tlb::{EntryBits, EntryView, Lookup, Outcome, Tlb, Unfiltered, design};
use farreach_oracle::driver::*;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::translation::{Attr, Pte};

const SPACE: Asid = Asid(0);

fn invalidate(tlb: &mut dyn Tlb, from: u64, pages: u64) {
    tlb.invalidate(SPACE, VpnRange { start: Vpn(from), pages }, &mut Unfiltered::default());
}

fn region(order: u8) -> Table {
    let mut table = Table::default();
    (0..16).for_each(|v| table.map(v, v + 1024, 7, order));
    table
}

fn offsets(e: &EntryView) -> Vec<u64> {
    e.pages.iter().map(|p| p.0).collect()
}

/// The entries that match a page with valid bits in the match, and without.
fn matching(entries: &[EntryView], vpn: u64, valid_bits: bool) -> usize {
    let tag = |e: &&EntryView| e.base.0 >> e.order == vpn >> e.order;
    let valid = |e: &&EntryView| !valid_bits || e.pages.iter().any(|p| e.base.0 + p.0 == vpn);
    entries.iter().filter(tag).filter(valid).count()
}

#[test]
fn ca_5_valid_bits_make_the_match_unique() {
    let table = Table::of(&[(0b110100, 0b10000), (0b110101, 0b11011), (0b110110, 0b00010), (0b110111, 0b00011)]);
    let mut design = tlb("partial", "entries=4,factor=4");
    for vpn in [0b110100, 0b110101, 0b110111, 0b110110] {
        load(&mut *design, &table, vpn);
    }
    for vpn in 0b110100..=0b110111 {
        assert_eq!(matching(&design.entries(), vpn, true), 1);
        assert_eq!(matching(&design.entries(), vpn, false), 3, "three entries have the tag of Figure 2");
    }
}

#[test]
fn ca_6_invalidation_by_page() {
    for (kind, survivors) in [("complete", 15), ("partial", 15), ("integrated", 15), ("superpage", 0)] {
        let table = region(if kind == "superpage" { 4 } else { 0 });
        let mut design = tlb(kind, "");
        (0..16).for_each(|v| _ = load(&mut *design, &table, v));
        invalidate(&mut *design, 5, 1);
        let left = (0..16).filter(|&v| design.probe(SPACE, Vpn(v), Kind::Load).is_some()).count();
        assert_eq!((left, design.counts().invalidations), (survivors, 1), "{kind}");
        if survivors == 0 {
            assert_eq!(design.entries(), [], "a superpage goes whole");
            continue;
        }
        assert_eq!(load(&mut *design, &table, 5), Outcome::SubblockMiss);
        invalidate(&mut *design, 5, 1);
        invalidate(&mut *design, 0, 5);
        assert_eq!(design.entries().len(), 1);
        invalidate(&mut *design, 6, 1000);
        assert_eq!((design.entries().len(), design.counts().invalidations), (0, 17), "{kind}: no valid bit, no entry");
        assert_eq!(load(&mut *design, &table, 5), Outcome::TagMiss);
    }
}

/// The slot of a dropped entry is the next to be filled, and its used bit is cleared.
#[test]
fn ca_6_invalid_entries_are_filled_first() {
    let table = Table::of(&(0..8).map(|v| (v, v)).collect::<Vec<_>>());
    for policy in ["used-bit", "lru", "fifo", "random"] {
        let mut design = tlb("single", &format!("entries=4,replacement={policy}"));
        (0..4).for_each(|v| _ = load(&mut *design, &table, v));
        invalidate(&mut *design, 2, 1);
        load(&mut *design, &table, 7);
        assert_eq!(design.entries()[2].base, Vpn(7), "{policy}");
        assert_eq!(design.counts().evictions, 0);
    }
}

#[test]
fn t94_18_empty_and_foreign_ranges_touch_nothing() {
    for kind in ["single", "superpage", "complete", "partial", "integrated"] {
        let table = region(0);
        let mut design = tlb(kind, "");
        (0..16).for_each(|v| _ = load(&mut *design, &table, v));
        let before = design.entries();
        invalidate(&mut *design, 3, 0);
        invalidate(&mut *design, 16, 100);
        design.invalidate(Asid(1), VpnRange { start: Vpn(0), pages: u64::MAX }, &mut Unfiltered::default());
        design.invalidate_space(Asid(1), &mut Unfiltered::default());
        assert_eq!((design.entries(), design.counts().invalidations), (before, 0), "{kind}");
        design.invalidate_space(SPACE, &mut Unfiltered::default());
        assert_eq!((design.entries(), design.counts().invalidations), (vec![], 16), "{kind}");
    }
}

#[test]
fn t94_19_modified_bits() {
    let modified = |d: &dyn Tlb| -> Vec<u64> {
        d.entries().iter().flat_map(|e| e.pages.iter().filter(|p| p.2).map(|p| e.base.0 + p.0)).collect()
    };
    for kind in ["complete", "partial", "integrated"] {
        let mut design = tlb(kind, "");
        let table = region(0);
        access(&mut *design, &table, 3, Kind::Store);
        load(&mut *design, &table, 4);
        access(&mut *design, &table, 4, Kind::Store);
        access(&mut *design, &table, 5, Kind::Fetch);
        assert_eq!(modified(&*design), [3, 4], "{kind}: a store fill, a store hit, and joining keeps them");
        invalidate(&mut *design, 3, 1);
        load(&mut *design, &table, 3);
        assert_eq!(modified(&*design), [4], "{kind}: the bit goes with its page");
    }
    let mut design = tlb("superpage", "");
    let table = region(4);
    load(&mut *design, &table, 3);
    assert!(modified(&*design).is_empty());
    access(&mut *design, &table, 9, Kind::Store);
    assert_eq!(modified(&*design), [0], "one bit for all of the superpage");
}

/// Copy on write: the page leaves its entry and, with other attributes, cannot come back to it.
#[test]
fn t94_20_changed_attributes_move_a_page_to_another_entry() {
    let mut table = region(0);
    let mut design = tlb("partial", "factor=4");
    (0..4).for_each(|v| _ = load(&mut *design, &table, v));
    table.map(2, 1026, 5, 0);
    invalidate(&mut *design, 2, 1);
    load(&mut *design, &table, 2);
    let entries = design.entries();
    assert_eq!(entries.iter().map(offsets).collect::<Vec<_>>(), [vec![0, 1, 3], vec![2]]);
    assert_eq!(entries.iter().map(|e| e.sb_enabled).collect::<Vec<_>>(), [Some(true), Some(true)]);
    assert_eq!(design.counts().split_attributes, 1);
}

#[test]
fn t94_13_reasons_to_split_a_region() {
    for (pages, want) in [
        (&[(0, 64, 7), (1, 65, 7)][..], [0, 0, 0]),
        (&[(0, 64, 7), (1, 99, 7)], [0, 1, 0]), // 99 is in place, in another group
        (&[(0, 64, 7), (1, 66, 7)], [1, 0, 0]),
        (&[(0, 65, 7), (1, 65, 7)], [1, 0, 0]), // the existing entry is the one out of place
        (&[(0, 64, 7), (1, 65, 5)], [0, 0, 1]),
        (&[(0, 64, 7), (1, 69, 5)], [0, 1, 0]),
        (&[(0, 64, 7), (1, 70, 5)], [1, 0, 0]),
    ] {
        let mut design = tlb("partial", "factor=2");
        let mut table = Table::default();
        for &(vpn, pfn, attr) in pages {
            table.map(vpn, pfn, attr, 0);
            load(&mut *design, &table, vpn);
        }
        let c = design.counts();
        assert_eq!([c.split_unaligned, c.split_frames, c.split_attributes], want, "{pages:?}");
    }
}

#[test]
fn t94_21_all_pages_or_one() {
    let mut table = region(0);
    table.map(3, 1027, 5, 0);
    let mut design = tlb("partial", "all_valid=true");
    load(&mut *design, &table, 0);
    let entries = design.entries();
    assert_eq!((entries.len(), entries[0].pages.len()), (1, 16));
    assert_eq!(entries[0].pages[3].1.attr, Attr(5), "attributes may differ");
    invalidate(&mut *design, 9, 1);
    assert_eq!((design.entries().len(), design.counts().invalidations), (0, 16), "all are valid, or none");
    let whole = table.clone();
    table.0.remove(&(SPACE, Vpn(9)));
    load(&mut *design, &table, 0);
    load(&mut *design, &table, 1);
    assert_eq!(design.entries().iter().map(offsets).collect::<Vec<_>>(), [[0], [1]]);
    // The region is complete again; its next miss replaces the single pages.
    load(&mut *design, &whole, 2);
    assert_eq!((design.entries().len(), design.counts().covered_drops), (1, 2));
    assert!(try_tlb("partial", "all_valid=true,preload=region").err().unwrap().contains("preload = region"));
}

/// T94-11, AMB-13: entries of a promoted region are dropped when the superpage is filled.
#[test]
fn t94_11_superpage_fill_drops_what_it_covers() {
    for kind in ["superpage", "integrated"] {
        let mut design = tlb(kind, "sizes=4K+64K+1M");
        let mut table = region(0);
        (16..256).for_each(|v| table.map(v, v + 1024, 7, 0));
        (0..40).for_each(|v| _ = load(&mut *design, &table, v));
        let before = design.entries().len() as u64;
        (0..256).for_each(|v| table.map(v, v + 1024, 7, 8));
        assert_eq!(load(&mut *design, &table, 7), Outcome::Hit, "the old entry is still correct");
        assert_eq!(load(&mut *design, &table, 200), Outcome::TagMiss);
        assert_eq!((design.entries().len(), design.counts().covered_drops), (1, before), "{kind}");
        assert_eq!(design.counts().superpage_misses, 1);
        (0..256).for_each(|v| assert_eq!(load(&mut *design, &table, v), Outcome::Hit));
    }
}

/// The largest configured size that the mapping has room for.
#[test]
fn t94_4_size_of_an_entry() {
    for (sizes, order) in [("4K", 0), ("4K+16K", 2), ("4K+64K", 4), ("4K+16K+256K", 2)] {
        let mut design = tlb("superpage", &format!("sizes={sizes}"));
        load(&mut *design, &region(4), 13);
        let entry = &design.entries()[0];
        let base = 13 >> order << order;
        assert_eq!((entry.order, entry.base, entry.pages[0].1.pfn), (order, Vpn(base), Pfn(1024 + base)), "{sizes}");
    }
}

/// T94-24, F-9.
#[test]
fn t94_24_medium_superpage_fills_the_region() {
    let mut design = tlb("integrated", "");
    let mut table = region(0);
    access(&mut *design, &table, 3, Kind::Store);
    (0..16).for_each(|v| table.map(v, v + 1024, 7, 4));
    assert_eq!(load(&mut *design, &table, 0), Outcome::SubblockMiss);
    let entries = design.entries();
    assert_eq!((entries.len(), entries[0].pages.len(), design.counts().merges), (1, 16, 1));
    assert!(entries[0].pages[3].2 && !entries[0].pages[0].2, "joining keeps modified bits");
    invalidate(&mut *design, 3, 1);
    assert_eq!(design.entries()[0].pages.len(), 15);
}

/// CA-15: pages, regions and large superpages in turn never leave two entries that match. `probe` asserts it in debug
/// builds.
#[test]
fn ca_15_integrated_never_matches_twice() {
    use farreach_oracle::driver::world::{Step, World, apply};
    let mut design = tlb("integrated", "entries=24,sizes=4K+64K+1M");
    let mut world = World::new(15);
    let mut unfiltered = Unfiltered::default();
    for _ in 0..20_000 {
        let step = world.step();
        apply(&step, &mut *design, &world.table, &mut unfiltered);
        unfiltered.clear();
        if let Step::Access(Lookup { asid, vpn, .. }, _) = step {
            let entries = design.entries();
            let form = |e: &&EntryView| e.asid == asid && e.base.0 >> e.order == vpn.0 >> e.order;
            let covers = |e: &&EntryView| e.order > 4 || e.pages.iter().any(|p| e.base.0 + p.0 == vpn.0);
            assert_eq!(entries.iter().filter(form).filter(covers).count(), 1);
        }
    }
    assert!(design.counts().covered_drops > 0);
}

#[test]
fn ca_16_sets_and_several_sizes() {
    for (kind, keys) in [("superpage", "ways=4"), ("integrated", "ways=4")] {
        let refused = try_tlb(kind, keys).err().unwrap();
        assert!(refused.contains("ways = 4") && refused.contains("T94-16") && refused.contains("probe"), "{refused}");
        for chosen in ["lookup=probe", "ways=0"] {
            assert!(
                try_tlb(kind, &format!("ways=4,{chosen}").replace("ways=4,ways=0", "ways=0")).is_ok(),
                "{kind} {chosen}"
            );
        }
    }
    assert!(try_tlb("superpage", "ways=4,lookup=per-size").is_ok());
    assert!(try_tlb("superpage", "ways=4,sizes=4K").is_ok(), "one size needs no choice");
    assert!(try_tlb("integrated", "ways=4,sizes=4K+64K").is_ok(), "regions have one size");
    for kind in ["single", "complete", "partial"] {
        assert!(try_tlb(kind, "ways=4").is_ok(), "{kind}");
    }
}

#[test]
fn refusals_name_key_value_and_what_is_allowed() {
    for (kind, keys, words) in [
        ("single", "entries=10,ways=4", ["ways = 4", "10", "multiple"]),
        ("single", "entries=24,ways=4", ["ways = 4", "6 sets", "power of two"]),
        ("single", "entries=4,ways=8", ["ways = 8", "4", "multiple"]),
        ("superpage", "sizes=64K", ["sizes", "begin", "4K"]),
        ("superpage", "size_entries=4+4", ["size_entries", "lookup", "per-size"]),
        ("superpage", "lookup=per-size,size_entries=4", ["size_entries = 4", "2", "whole numbers"]),
        ("superpage", "lookup=per-size,size_entries=4+x", ["size_entries = 4+x", "65536", "sizes"]),
        ("integrated", "sizes=4K+32K", ["sizes = 4K+32K", "64K", "T94-24"]),
        ("integrated", "sizes=4K", ["sizes = 4K ", "64K", "T94-24"]),
    ] {
        let refused = try_tlb(kind, keys).err().unwrap_or_else(|| panic!("{kind}:{keys} was built"));
        assert!(words.iter().all(|w| refused.contains(w)), "{refused}");
    }
}

#[test]
fn t94_15_sets_are_chosen_by_low_page_bits() {
    let table = Table::of(&(0..1024).map(|v| (v, v)).collect::<Vec<_>>());
    let mut design = tlb("single", "entries=256,ways=4,replacement=random");
    (0..512).for_each(|v| _ = load(&mut *design, &table, v));
    assert_eq!(design.counts().evictions, 256);
    for e in design.entries() {
        assert_eq!(e.slot as u64 / 4, e.base.0 % 64);
    }
}

/// T94-25: base pages and superpages do not displace each other.
#[test]
fn t94_25_an_array_for_each_size() {
    let mut table = region(4);
    (16..64).for_each(|v| table.map(v, v, 7, 0));
    let mut design = tlb("superpage", "lookup=per-size,size_entries=8+2");
    (0..64).for_each(|v| _ = load(&mut *design, &table, v));
    let orders: Vec<(usize, u8)> = design.entries().iter().map(|e| (e.slot, e.order)).collect();
    assert_eq!(orders, [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 4)]);
}

#[test]
fn switches_empty_designs_without_process_ids() {
    let pte = |v: u64| Pte { pfn: Pfn(v), attr: Attr(7), order: 0 };
    for (kind, went) in [("single", 3), ("superpage", 3), ("complete", 3), ("partial", 3), ("integrated", 3)] {
        for (ids, left) in [("true", 3), ("false", 0)] {
            let mut design = tlb(kind, &format!("process_ids={ids}"));
            let mut unfiltered = Unfiltered::default();
            design.switch(SPACE, &mut unfiltered);
            for vpn in 0..3 {
                design.access(at(vpn, Kind::Load), pte(vpn), &Table::default(), &mut unfiltered);
            }
            design.switch(SPACE, &mut unfiltered);
            assert_eq!(design.counts().invalidations, 0, "{kind}: the same process runs on");
            design.switch(Asid(1), &mut unfiltered);
            let mapped: usize = design.entries().iter().map(|e| e.pages.len()).sum();
            assert_eq!((mapped, design.counts().invalidations), (left, if left == 0 { went } else { 0 }), "{kind}");
        }
    }
}

/// Equal page numbers of two processes are two translations.
#[test]
fn t94_1_process_ids_tell_processes_apart() {
    for kind in ["single", "superpage", "complete", "partial", "integrated"] {
        let mut design = tlb(kind, "");
        let mut unfiltered = Unfiltered::default();
        for asid in [Asid(0), Asid(1)] {
            let pte = Pte { pfn: Pfn(u64::from(asid.0) * 4096), attr: Attr(7), order: 0 };
            let at = Lookup { asid, vpn: Vpn(0), kind: Kind::Load };
            assert_eq!(design.access(at, pte, &Table::default(), &mut unfiltered).outcome, Outcome::TagMiss, "{kind}");
        }
        assert_eq!(design.probe(Asid(1), Vpn(0), Kind::Load).map(|t| t.pfn), Some(Pfn(4096)), "{kind}");
    }
}

/// AREA-2, AMB-19, AMB-21.
#[test]
fn area_2_bits_and_reach() {
    let bits = |kind: &str, keys: &str| (design(kind).unwrap().bits)(&params(kind, keys));
    for (kind, keys, tag, data) in [
        ("single", "", 64, 46),
        ("superpage", "", 68, 46),
        ("complete", "", 60, 736),
        ("complete", "factor=4", 62, 184),
        ("complete", "factor=1", 64, 46),
        ("partial", "", 76, 61),
        ("partial", "factor=4", 66, 49),
        ("integrated", "", 80, 61),
        ("single", "process_ids=false", 52, 46),
    ] {
        assert_eq!(bits(kind, keys), Some(EntryBits { tag, data, status: 1 }), "{kind} {keys}");
    }
    assert_eq!(bits("single", "ways=4"), None);
    assert_eq!(bits("superpage", "lookup=per-size"), None);
    assert_eq!(bits("partial", "all_valid=true"), None);
    let reach = |kind: &str, keys: &str| (design(kind).unwrap().reach)(&params(kind, keys));
    assert_eq!(reach("single", ""), 64 * 4096);
    assert_eq!(reach("superpage", ""), 64 * 65536);
    assert_eq!(reach("superpage", "lookup=per-size,size_entries=64+32"), 64 * 4096 + 32 * 65536);
    assert_eq!(reach("complete", "factor=4"), 64 * 4 * 4096);
    assert_eq!(reach("partial", "entries=32"), 32 * 16 * 4096);
    assert_eq!(reach("integrated", ""), 64 << 20);
}
