//! The oracle against the worked vectors of the specification, since comparisons with a wrong oracle are worthless.
//! Covers T94-5 to T94-24, T94-42 to T94-60 as far as the vectors go; the vectors are in
//! `fixtures/golden_vectors.json`.

use farreach_hw::tlb::{EntryView, Lookup, Outcome, Tlb};
use farreach_oracle::os::{OsConfig, PlainOs, What};
use farreach_oracle::run::{OracleResult, RunConfig, run};
use farreach_oracle::tlb::{PlainTlb, Preload, Replacement, TlbConfig, TlbKind};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::{Access, Advice, Backing, End, Item, Kind, Mapping, Op, Prot};
use farreach_types::translation::{Attr, PageTableView, Pte};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

const A: Asid = Asid(0);

fn golden(name: &str) -> Json {
    let all: Json = serde_json::from_str(include_str!("../../../../fixtures/golden_vectors.json")).unwrap();
    all[name].clone()
}

/// A page table made by hand.
#[derive(Default)]
struct Table(BTreeMap<(Asid, u64), Pte>);

impl Table {
    fn of(pages: &[Page]) -> Table {
        Table(pages.iter().map(|&(v, p, a)| ((A, v), Pte { pfn: Pfn(p), attr: Attr(a), order: 0 })).collect())
    }
}

impl PageTableView for Table {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        self.0.get(&(asid, vpn.0)).copied()
    }
}

fn load(tlb: &mut PlainTlb, table: &Table, v: u64) -> Outcome {
    tlb.lookup(Lookup { asid: A, vpn: Vpn(v), kind: Kind::Load }, table.pte(A, Vpn(v)).unwrap(), table)
}

fn config(kind: TlbKind, entries: usize, factor: u64) -> TlbConfig {
    TlbConfig { entries, factor, orders: vec![0, factor.trailing_zeros() as u8], ..TlbConfig::new(kind) }
}

/// An entry as the golden vectors write it.
fn drawn(kind: TlbKind, n: u64, e: &EntryView) -> Json {
    let valid: String = (0..n).map(|i| if e.pages.iter().any(|p| p.0 == i) { '1' } else { '0' }).collect();
    let tag = format!("{:b}", e.base.0 >> e.order);
    match kind {
        TlbKind::Single | TlbKind::Superpage => json!([tag, e.pages[0].1.pfn.0, 1 << e.order]),
        TlbKind::Complete => json!([tag, valid, e.pages.iter().map(|p| p.1.pfn.0).collect::<Vec<_>>()]),
        _ => {
            let enabled = e.sb_enabled.unwrap();
            let (_, t, _) = e.pages[0];
            let ppn = if enabled { t.pfn.0 / n * n } else { t.pfn.0 };
            let sb = if enabled { "sb_enabled" } else { "sb_disabled" };
            json!([tag, valid, ppn, (t.attr.0 as char).to_string(), sb])
        }
    }
}

#[test]
fn figure_2() {
    let table = Table::of(&[
        (0b110100, 0b10000, b'a'),
        (0b110101, 0b11011, b'a'),
        (0b110110, 0b00010, b'a'),
        (0b110111, 0b00011, b'a'),
    ]);
    let golden = golden("fig2");
    for (name, kind, factor) in [
        ("single", TlbKind::Single, 1),
        ("super", TlbKind::Superpage, 1),
        ("complete", TlbKind::Complete, 4),
        ("partial", TlbKind::Partial, 4),
        ("partial", TlbKind::Integrated, 4),
    ] {
        let mut tlb = PlainTlb::new(TlbConfig { orders: vec![0], ..config(kind, 4, factor) });
        for v in [0b110100, 0b110101, 0b110111, 0b110110] {
            assert_ne!(load(&mut tlb, &table, v), Outcome::Hit);
        }
        for v in 0b110100..=0b110111 {
            assert_eq!(tlb.probe(A, Vpn(v), Kind::Load).unwrap().pfn, table.pte(A, Vpn(v)).unwrap().pfn);
        }
        let got: Vec<Json> = tlb.views().iter().map(|e| drawn(kind, factor, e)).collect();
        assert_eq!(Json::from(got), golden[name], "{kind:?}");
    }
}

/// Page, frame, attributes.
type Page = (u64, u64, u8);

#[test]
fn figure_3() {
    let examples: [(&str, &[Page]); 4] = [
        ("a", &[(0b110100, 0, b'a'), (0b110101, 1, b'a'), (0b110110, 0b111000, b'a'), (0b110111, 3, b'a')]),
        ("b", &[(0b110100, 0, b'a'), (0b110101, 1, b'a'), (0b110110, 2, b'a')]),
        ("c", &[(0b110101, 1, b'a'), (0b110110, 2, b'a'), (0b110111, 3, b'a')]),
        ("d", &[(0b110100, 0, b'a'), (0b110101, 1, b'a'), (0b110110, 2, b'g'), (0b110111, 3, b'a')]),
    ];
    for (name, pages) in examples {
        let table = Table::of(pages);
        let mut tlb = PlainTlb::new(config(TlbKind::Partial, 8, 4));
        for (v, _, _) in pages {
            load(&mut tlb, &table, *v);
        }
        let got: Vec<Json> = tlb.views().iter().map(|e| drawn(TlbKind::Partial, 4, e)).collect();
        assert_eq!(Json::from(got), golden("fig3")[name], "{name}");
        let splits = (tlb.counts().split_unaligned, tlb.counts().split_frames, tlb.counts().split_attributes);
        assert_eq!(
            splits,
            if name == "a" {
                (1, 0, 0)
            } else if name == "d" {
                (0, 0, 1)
            } else {
                (0, 0, 0)
            },
            "{name}"
        );
    }
}

#[test]
fn replacement_strings() {
    for (name, fill_sets_used) in [("replay_sets_used", true), ("fill_leaves_used_clear", false)] {
        let table = Table::of(&(b'A'..=b'G').map(|c| (u64::from(c), u64::from(c), 0)).collect::<Vec<_>>());
        let mut tlb = PlainTlb::new(TlbConfig { fill_sets_used, ..config(TlbKind::Single, 4, 1) });
        let step = |c: char| {
            let outcome = load(&mut tlb, &table, u64::from(c));
            let slot = tlb.slot_of(A, Vpn(u64::from(c))).unwrap();
            if outcome == Outcome::Hit { format!("{c}=hit") } else { format!("{c}->{slot}") }
        };
        let log: Vec<String> = "ABCDEBFAGE".chars().map(step).collect();
        assert_eq!(Json::from(log.join(" ")), golden("gods")[name]);
    }
}

#[test]
fn preload_of_a_cold_region() {
    let golden = golden("preload_cold_region");
    for (name, kind, preload, order) in [
        ("super promoted", TlbKind::Superpage, Preload::None, 4),
        ("partial", TlbKind::Partial, Preload::None, 0),
        ("partial+same", TlbKind::Partial, Preload::SameEntry, 0),
        ("complete", TlbKind::Complete, Preload::None, 0),
        ("complete+all", TlbKind::Complete, Preload::Region, 0),
        ("super promoted", TlbKind::Integrated, Preload::None, 4),
    ] {
        let mut table = Table::of(&(0..16).map(|v| (v, v + 1024, b'a')).collect::<Vec<_>>());
        table.0.values_mut().for_each(|pte| pte.order = order);
        let mut tlb = PlainTlb::new(TlbConfig { preload, ..config(kind, 64, 16) });
        for v in 0..16 {
            load(&mut tlb, &table, v);
        }
        let c = tlb.counts();
        assert_eq!(Json::from(c.misses), golden[name], "{name}");
        assert_eq!(tlb.valid_entries(), 1);
        let loaded_by_others = if preload == Preload::None { 0 } else { 15 };
        assert_eq!((c.preloaded, c.extra_pte_reads), (loaded_by_others, loaded_by_others));
    }
}

/// A map event.
fn map(start: u64, pages: u64, prot: Prot, shared: bool, backing: Backing) -> Op {
    Op::Map(Mapping { start: start << 12, len: pages << 12, prot, shared, backing })
}

fn file(path: &str, page: u64) -> Backing {
    Backing::File { path: path.into(), offset: page << 12 }
}

fn at(asid: Asid, kind: Kind, v: u64) -> (Asid, Item<'static>) {
    (asid, Item::Access(Access { kind, addr: v << 12, size: 1 }))
}

fn loads(pages: impl IntoIterator<Item = u64>) -> Vec<(Asid, Item<'static>)> {
    pages.into_iter().map(|v| at(A, Kind::Load, v)).collect()
}

fn system(kind: TlbKind, factor: u64, os: OsConfig) -> RunConfig {
    RunConfig { tlb: config(kind, 64, factor), os }
}

/// Maps, then touches.
fn mapped(config: &RunConfig, op: &Op, touches: &[u64]) -> OracleResult {
    let mut items = vec![(A, Item::Op(op))];
    items.extend(loads(touches.iter().copied()));
    run(config, &items)
}

fn os_for(kind: TlbKind, n: u64) -> OsConfig {
    match kind {
        TlbKind::Superpage => OsConfig::superpages(n),
        TlbKind::Partial | TlbKind::Integrated => OsConfig::reservation(n),
        _ => OsConfig::demand(),
    }
}

#[test]
fn one_region_two_passes() {
    let golden = golden("one_region_two_passes");
    let two: Vec<u64> = (0..16).chain(0..16).collect();
    for (name, kind, backing) in [
        ("single64", TlbKind::Single, Backing::Heap),
        ("super heap", TlbKind::Superpage, Backing::Heap),
        ("super heap", TlbKind::Superpage, Backing::Anonymous),
        ("super heap", TlbKind::Superpage, Backing::Stack),
        ("super disk", TlbKind::Superpage, file("/bin/x", 0)),
        ("super nfs", TlbKind::Superpage, file("/nfs/x", 0)),
        ("partial", TlbKind::Partial, Backing::Heap),
        ("complete", TlbKind::Complete, Backing::Heap),
    ] {
        let op = map(0, 16, Prot::RW, true, backing.clone());
        let r = mapped(&system(kind, 16, os_for(kind, 16)), &op, &two);
        let got = json!({"misses": r.tlb.misses, "faults": r.os.page_faults, "populated": r.os.populated_pages,
            "promotions": r.os.promotions, "entries": r.entries.len()});
        assert_eq!(got, golden[name], "{name} {backing:?}");
    }
}

#[test]
fn promotion_counts() {
    for (name, backing) in [("heap", Backing::Heap), ("disk", file("/bin/x", 0)), ("nfs", file("/nfs/x", 0))] {
        for n in [4, 8, 16] {
            let need = golden("promotion_count")[name][n.to_string()].as_u64().unwrap();
            let op = map(0, n, Prot::RW, true, backing.clone());
            let touches: Vec<u64> = (0..n).collect();
            for (touched, promotions) in [(need - 1, 0), (need, 1)] {
                let config = system(TlbKind::Superpage, n, OsConfig::superpages(n));
                let r = mapped(&config, &op, &touches[..touched as usize]);
                assert_eq!(r.os.promotions, promotions, "{name} {n} {touched}");
            }
        }
    }
}

#[test]
fn anomaly() {
    let golden = golden("anomaly");
    let round: Vec<u64> =
        (0..4).flat_map(|r| (0..8).map(move |i| r * 16 + i)).chain((0..40).map(|k| 1000 + 16 * k)).collect();
    let ten = round.repeat(10);
    for (name, kind, n) in [
        ("super16KB", TlbKind::Superpage, 4),
        ("super32KB", TlbKind::Superpage, 8),
        ("super64KB", TlbKind::Superpage, 16),
        ("partial16", TlbKind::Partial, 16),
        ("partial8", TlbKind::Partial, 8),
    ] {
        let op = map(0, 4096, Prot::RWX, false, Backing::Heap);
        let r = mapped(&system(kind, n, os_for(kind, n)), &op, &ten);
        let got = json!({"misses": r.tlb.misses, "faults": r.os.page_faults, "populated": r.os.populated_pages,
            "promotions": r.os.promotions, "entries": r.entries.len()});
        assert_eq!(got, golden[name], "{name}");
        // The same without map events: one anonymous object fills the space.
        assert!(run(&system(kind, n, os_for(kind, n)), &loads(ten.iter().copied())) == r);
    }
}

#[test]
fn object_of_60_kb() {
    let golden = golden("object_60KB");
    for (name, kind, pages) in [
        ("super", TlbKind::Superpage, 15),
        ("partial", TlbKind::Partial, 15),
        ("super_64KB_object", TlbKind::Superpage, 16),
    ] {
        let touches: Vec<u64> = (0..pages).collect::<Vec<_>>().repeat(3);
        let op = map(0, pages, Prot::RW, false, Backing::Heap);
        let r = mapped(&system(kind, 16, os_for(kind, 16)), &op, &touches);
        assert_eq!(Json::from(r.entries.len()), golden[name], "{name}");
    }
}

/// Five anonymous objects of 16 pages in 64 frames (T94-46).
fn five_objects() -> PlainOs {
    let mut os = PlainOs::new(OsConfig { frames: Some(64), ..OsConfig::reservation(16) });
    for object in 0..5 {
        let Op::Map(m) = map(object * 16, 16, Prot::RW, false, Backing::Anonymous) else { unreachable!() };
        os.map(A, &m);
    }
    os
}

fn frame(os: &PlainOs, v: u64) -> u64 {
    os.pte(A, Vpn(v)).unwrap().pfn.0
}

#[test]
fn reservation_trace() {
    let mut os = five_objects();
    let log: Vec<String> = [('A', 1), ('B', 5), ('C', 0), ('D', 15), ('E', 3), ('A', 2), ('A', 0), ('A', 3)]
        .map(|(object, page)| {
            let v = (object as u64 - 'A' as u64) * 16 + page;
            os.touch(A, Vpn(v), Kind::Load);
            let f = frame(&os, v);
            format!("{object}{page}:f{f}:{}", if f % 16 == page { "aligned" } else { "unaligned" })
        })
        .into();
    assert_eq!(Json::from(log), golden("reservation_trace"));
    assert_eq!(Json::from(os.reserved().len()), golden("reservation_reserved_left"));
    let c = os.counts();
    assert_eq!((c.reservations_made, c.reservations_honoured, c.reservations_stolen), (4, 1, 3));
    assert_eq!((c.failed_region_allocs, c.page_faults), (1, 8));
    assert_eq!(os.frames(), (0, 8, 56));
    // All frames are freed, in ascending order, and form whole groups again.
    os.end(A);
    assert_eq!(os.frames(), (64, 0, 0));
    assert_eq!(os.free_list(), (0..64).collect::<Vec<_>>());
    assert_eq!(os.counts().freed_pages, 8);
}

#[test]
fn clipping() {
    let golden = golden("clip_60KB_object");
    let mut os = PlainOs::new(OsConfig { frames: Some(64), ..OsConfig::reservation(16) });
    let Op::Map(m) = map(0, 15, Prot::RW, false, Backing::Anonymous) else { unreachable!() };
    os.map(A, &m);
    os.touch(A, Vpn(2), Kind::Load);
    assert_eq!(json!({"reserved": os.reserved(), "free": os.free_list().len()}), golden);
    // Superpage mode reserves nothing here (AMB-11).
    let mut os = PlainOs::new(OsConfig { frames: Some(64), ..OsConfig::superpages(16) });
    os.map(A, &m);
    os.touch(A, Vpn(2), Kind::Load);
    assert_eq!((os.frames(), os.counts().failed_region_allocs), ((63, 1, 0), 0));
}

#[test]
fn the_example_of_t94_44() {
    let mut os = PlainOs::new(OsConfig { frames: Some(64), ..OsConfig::reservation(16) });
    os.touch(A, Vpn(0x41), Kind::Load);
    assert_eq!(frame(&os, 0x41), 1);
    assert_eq!(os.reserved(), [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
}

#[test]
fn promotions_refused() {
    let superpages = || system(TlbKind::Superpage, 4, OsConfig { threshold_disk: 0.75, ..OsConfig::superpages(4) });
    let region = map(0, 4, Prot::RW, true, Backing::Anonymous);
    // Frames: no reservation, touched out of order.
    let mut ordinary = superpages();
    ordinary.os.reservation = false;
    let r = mapped(&ordinary, &region, &[3, 2, 1, 0]);
    assert_eq!((r.os.promotions_tried, r.os.refused_frames, r.os.promotions), (1, 1, 0));
    // In order they are contiguous even so.
    assert_eq!(mapped(&ordinary, &region, &[0, 1, 2, 3]).os.promotions, 1);
    // Not resident: a file without reservation, three of four pages.
    let r = mapped(&ordinary, &map(0, 4, Prot::RW, true, file("/f", 0)), &[0, 1, 2]);
    assert_eq!((r.os.promotions_tried, r.os.refused_not_resident), (1, 1));
    // Small object: three pages of a file are enough for the threshold.
    let r = mapped(&superpages(), &map(0, 3, Prot::RW, true, file("/f", 0)), &[0, 1, 2]);
    assert_eq!((r.os.promotions_tried, r.os.refused_small_object, r.os.reservations_made), (1, 1, 0));
    // Attributes.
    let read_only = Op::Protect { start: 4096, len: 4096, prot: Prot { write: false, ..Prot::RW } };
    let mut items = vec![(A, Item::Op(&region)), (A, Item::Op(&read_only))];
    items.extend(loads([0, 1, 2, 3]));
    let r = run(&superpages(), &items);
    assert_eq!((r.os.promotions_tried, r.os.refused_attributes), (1, 1));
    // Demotion on attribute change of one page; the superpage entry is dropped.
    let mut items = vec![(A, Item::Op(&region))];
    items.extend(loads([0, 1, 2, 3]));
    items.push((A, Item::Op(&read_only)));
    items.extend(loads([0, 1, 2, 3]));
    let r = run(&superpages(), &items);
    assert_eq!((r.os.promotions, r.os.demotions, r.tlb.misses, r.tlb.invalidations), (1, 1, 8, 1));
}

#[test]
fn copy_on_write() {
    let heap = map(0, 4, Prot::RW, false, Backing::Heap);
    let fork = Op::Fork { child: Asid(1) };
    let (end, child) = (Op::End(End::Exit(0)), Asid(1));
    let config = system(TlbKind::Partial, 4, OsConfig { frames: Some(16), ..OsConfig::reservation(4) });
    let mut items = vec![(A, Item::Op(&heap))];
    items.extend((0..4).map(|v| at(A, Kind::Store, v)));
    items.push((A, Item::Op(&fork)));
    items.extend([at(child, Kind::Load, 0), at(child, Kind::Store, 0), at(A, Kind::Store, 0), at(A, Kind::Load, 1)]);
    let r = run(&config, &items);
    // The child copies; the parent is then the only user and may write its page again.
    assert_eq!((r.os.page_faults, r.os.protection_faults, r.os.cow_copies, r.os.forks), (4, 2, 1, 1));
    // Parent: 4 misses, fork invalidates 4. Child: page 0 twice (before and after the copy). Parent: pages 0 and 1
    // again.
    assert_eq!((r.tlb.misses, r.tlb.invalidations), (8, 5));
    items.push((A, Item::Op(&end)));
    items.push((child, Item::Op(&end)));
    assert_eq!(run(&config, &items).os.freed_pages, 5);
    // A private file page: the first load maps the file's frame, the first store copies.
    let private = map(0, 4, Prot::RW, false, file("/lib", 0));
    let mut items = vec![(A, Item::Op(&private))];
    items.extend([at(A, Kind::Load, 0), at(A, Kind::Store, 0), at(A, Kind::Store, 1), at(A, Kind::Load, 1)]);
    let r = run(&config, &items);
    assert_eq!((r.os.page_faults, r.os.protection_faults, r.os.cow_copies, r.os.io_bytes), (2, 1, 2, 8192));
    assert_eq!((r.tlb.misses, r.tlb.load_misses, r.tlb.store_misses, r.tlb.invalidations), (3, 1, 2, 1));
    // The copies happen to be frames 4 and 5 for pages 0 and 1.
    assert_eq!((r.entries.len(), r.entries[0].pages[0].1.pfn), (1, Pfn(4)));
}

#[test]
fn files_live_as_long_as_their_mappings() {
    let mut os = PlainOs::new(OsConfig { frames: Some(64), ..OsConfig::reservation(16) });
    let mapping = |start, page| {
        let Op::Map(m) = map(start, 16, Prot::RW, true, file("/f", page)) else { unreachable!() };
        m
    };
    os.map(A, &mapping(0, 0));
    os.touch(A, Vpn(3), Kind::Load);
    let other = Asid(1);
    os.map(other, &mapping(160, 0));
    os.touch(other, Vpn(163), Kind::Load);
    assert_eq!(
        (frame(&os, 3), os.pte(other, Vpn(163)).unwrap().pfn.0),
        (3, 3),
        "T94-43: one frame for one object page"
    );
    os.end(A);
    assert_eq!(os.frames(), (48, 1, 15));
    os.touch(other, Vpn(160), Kind::Load);
    os.unmap(other, 160 << 12, 16 << 12);
    assert_eq!(os.frames(), (64, 0, 0));
    let back: Vec<u64> = (16..64).chain(0..16).collect();
    assert_eq!((os.free_list(), os.counts().freed_pages, os.counts().io_bytes), (back, 2, 8192));
}

#[test]
fn partial_unmap_and_advice() {
    let mut os = PlainOs::new(OsConfig { frames: Some(64), ..OsConfig::superpages(4) });
    let Op::Map(m) = map(0, 8, Prot::RW, false, Backing::Anonymous) else { unreachable!() };
    os.map(A, &m);
    (0..8).for_each(|v| assert!(os.touch(A, Vpn(v), Kind::Store).is_empty()));
    assert_eq!(os.counts().promotions, 2);
    let changes = os.unmap(A, 2 << 12, 1 << 12);
    assert_eq!(changes[0], (A, VpnRange { start: Vpn(0), pages: 4 }, What::Demoted));
    assert_eq!((os.counts().demotions, os.frames()), (1, (57, 7, 0)));
    os.advise(A, 4 << 12, 4 << 12, Advice::DontNeed);
    assert_eq!((os.counts().demotions, os.frames(), os.counts().freed_pages), (1, (61, 3, 0), 5));
    os.touch(A, Vpn(4), Kind::Load);
    assert_eq!(frame(&os, 4), 8, "the region was dealt with: an ordinary frame");
}

#[test]
fn all_valid_and_set_indexing() {
    let mut table = Table::of(&(0..8).map(|v| (v, v + 16, if v == 2 { 1 } else { 3 })).collect::<Vec<_>>());
    let mut tlb = PlainTlb::new(TlbConfig { all_valid: true, ..config(TlbKind::Partial, 4, 4) });
    assert_eq!(load(&mut tlb, &table, 1), Outcome::TagMiss);
    for v in 0..4 {
        assert_eq!(load(&mut tlb, &table, v), Outcome::Hit);
    }
    table.0.remove(&(A, 7));
    assert_eq!(load(&mut tlb, &table, 5), Outcome::TagMiss);
    assert_eq!(load(&mut tlb, &table, 6), Outcome::SubblockMiss);
    assert_eq!(tlb.valid_entries(), 3);
    tlb.invalidate_pages(A, VpnRange::one(Vpn(0)));
    assert_eq!(tlb.valid_entries(), 2);
    // 256 entries, 4 ways: pages 64 apart compete (T94-15); invalid ways first (AMB-6).
    let set = TlbConfig { ways: 4, replacement: Replacement::Random, ..config(TlbKind::Single, 256, 1) };
    let mut tlb = PlainTlb::new(set);
    let table = Table::of(&(0..8).map(|i| (7 + 64 * i, i, 0)).collect::<Vec<_>>());
    for i in 0..8 {
        load(&mut tlb, &table, 7 + 64 * i);
    }
    assert_eq!((tlb.valid_entries(), tlb.counts().evictions), (4, 4));
    assert!(tlb.views().iter().all(|e| e.slot / 4 == 7));
}

#[test]
fn crossing_accesses_and_switches() {
    let config =
        RunConfig { tlb: TlbConfig { process_ids: false, ..config(TlbKind::Single, 4, 1) }, os: OsConfig::demand() };
    let crossing = Access { kind: Kind::Load, addr: 0x1ffc, size: 8 };
    let items = [(A, Item::Access(crossing)), at(Asid(1), Kind::Fetch, 1), at(A, Kind::Load, 1)];
    let r = run(&config, &items);
    assert_eq!((r.lookups.load, r.references.load, r.tlb.misses, r.tlb.fetch_misses), (3, 2, 4, 1));
    assert_eq!((r.tlb.invalidations, r.os.page_faults), (3, 3));
}

/// A trace of random events in two to four spaces; small numbers, so that events interact often.
fn random_trace(seed: u64, steps: u64) -> Vec<(Asid, Result<Access, Op>)> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut below = move |n: u64| rng.next_u64() % n;
    let mut live = vec![Asid(0)];
    let mut items = vec![(A, Err(map(0, 40, Prot::RW, false, Backing::Heap)))];
    for _ in 0..steps {
        let asid = live[below(live.len() as u64) as usize];
        let (v, pages) = (below(96) + 256 * (below(4) / 3), 1 + below(24));
        let (start, len) = (v << 12, pages << 12);
        let prot = [Prot::RW, Prot::RWX, Prot { write: false, ..Prot::RW }][below(3) as usize];
        let op = match below(60) {
            0 => map(v, pages, prot, below(2) == 0, Backing::Anonymous),
            1 => map(v, pages, prot, below(2) == 0, file(["/bin/a", "/nfs/b"][below(2) as usize], below(20))),
            2 => {
                map(v, pages, prot, false, [Backing::Heap, Backing::Stack, Backing::Kernel][below(3) as usize].clone())
            }
            3 => Op::Unmap { start, len },
            4 => Op::Protect { start, len, prot },
            5 => Op::Advise { start, len, advice: Advice::DontNeed },
            6 => {
                Op::Remap { old_start: start, old_len: len, new_start: (v ^ 256) << 12, new_len: (1 + below(16)) << 12 }
            }
            7 => Op::Remap { old_start: start, old_len: len, new_start: start, new_len: (1 + below(16)) << 12 },
            8 if live.len() < 4 => {
                let child = Asid(items.len() as u32);
                live.push(child);
                Op::Fork { child }
            }
            9 if live.len() > 1 => {
                live.retain(|a| *a != asid);
                Op::End(End::Exit(0))
            }
            _ => {
                let kind = [Kind::Load, Kind::Load, Kind::Store, Kind::Fetch][below(4) as usize];
                items.push((asid, Ok(Access { kind, addr: start + below(4096), size: 1 + below(8) as u32 })));
                continue;
            }
        };
        items.push((asid, Err(op)));
    }
    items
}

fn items(trace: &[(Asid, Result<Access, Op>)]) -> Vec<(Asid, Item<'_>)> {
    trace.iter().map(|(asid, i)| (*asid, i.as_ref().map_or_else(Item::Op, |a| Item::Access(*a)))).collect()
}

/// XC-3 and XC-6 hold in `run` and `PlainOs::check` in all cases; page faults do not depend on reservation (T94-47).
#[test]
fn random_traces_keep_the_invariants() {
    for seed in 0..60 {
        let trace = random_trace(seed, 800);
        let items = items(&trace);
        let frames = [None, Some(1024)][(seed % 2) as usize];
        let mut faults = Vec::new();
        for (kind, os) in [
            (TlbKind::Single, OsConfig::demand()),
            (TlbKind::Complete, OsConfig::demand()),
            (TlbKind::Partial, OsConfig::reservation(4)),
            (TlbKind::Partial, OsConfig { prefetch: true, ..OsConfig::reservation(8) }),
            (TlbKind::Superpage, OsConfig::superpages(4)),
            (TlbKind::Integrated, OsConfig::superpages(4)),
        ] {
            let factor = os.region;
            let superpages = !os.promote.is_empty();
            let config =
                RunConfig { tlb: TlbConfig { entries: 8, ..config(kind, 8, factor) }, os: OsConfig { frames, ..os } };
            let r = run(&config, &items);
            if !superpages {
                faults.push((r.os.page_faults, r.os.cow_copies, r.os.protection_faults, r.os.dirty_pages));
            }
            assert!(r.os.populated_never_used <= r.os.populated_pages && r.os.promotions <= r.os.promotions_tried);
        }
        assert!(faults.iter().all(|f| *f == faults[0]), "seed {seed}: {faults:?}");
    }
}
