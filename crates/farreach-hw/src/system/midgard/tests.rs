//! Traces by hand, and laws.

use super::*;
use crate::system::SYSTEMS;
use farreach_types::addr::{Pfn, Vpn};
use farreach_types::event::Kind;
use farreach_types::translation::{Attr, Pte, Region};
use serde_json::{Map, json};
use std::collections::{BTreeMap, HashMap};

const RW: Attr = Attr(Attr::READ | Attr::WRITE);

/// Regions and frames as a test sets them.
#[derive(Default)]
struct Table {
    regions: BTreeMap<(Asid, u64), Region>,
    moved: HashMap<(Asid, Vpn), Pfn>,
    version: u64,
}

impl PageTableView for Table {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        let usual = Pfn(u64::from(asid.0) << 40 | vpn.0);
        Some(Pte { pfn: *self.moved.get(&(asid, vpn)).unwrap_or(&usual), attr: RW, order: 0 })
    }
    fn regions(&self, asid: Asid) -> Vec<Region> {
        self.regions.range((asid, 0)..=(asid, u64::MAX)).map(|(_, region)| *region).collect()
    }
    fn regions_version(&self, _: Asid) -> u64 {
        self.version
    }
}

/// A machine, and what it is told.
struct World {
    machine: Midgard,
    table: Table,
}

/// A last level in which nothing is evicted, and first and second levels of one line, so that references reach it.
const LARGE: &[(&str, &str)] = &[
    ("cache_l1i", "64/1"),
    ("cache_l1d", "64/1"),
    ("cache_l2", "64/1"),
    ("cache_llc", "64M/16"),
    ("cache_slices", "1"),
];

impl World {
    fn new(keys: &[(&str, &str)]) -> World {
        let given: Map<_, _> = LARGE.iter().chain(keys).map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let params = Params::resolve(MIDGARD.keys, &given).unwrap();
        World { machine: Midgard::new(&params, false).unwrap(), table: Table::default() }
    }

    /// A region of its own memory, or another size or protection of it.
    fn region(&mut self, asid: u32, start: u64, pages: u64, attr: Attr) {
        let memory = u64::from(asid) << 40 | start;
        self.put(
            asid,
            start,
            Region { pages: VpnRange { start: Vpn(start), pages }, attr, memory, first: start, shared: false },
        );
    }

    fn put(&mut self, asid: u32, start: u64, region: Region) {
        self.table.regions.insert((Asid(asid), start), region);
        self.changed(asid, 0, 0);
    }

    fn unmap(&mut self, asid: u32, start: u64) {
        self.table.regions.remove(&(Asid(asid), start)).unwrap();
        self.changed(asid, 0, 0);
    }

    /// The system reports a change of these pages; none: of regions alone.
    fn changed(&mut self, asid: u32, start: u64, pages: u64) {
        self.table.version += 1;
        self.machine.changed(Asid(asid), VpnRange { start: Vpn(start), pages }, &self.table);
    }

    fn go(&mut self, asid: u32, kind: Kind, addr: u64) {
        if self.machine.asid != Asid(asid) {
            self.machine.switch(Asid(asid));
        }
        self.machine.run(Asid(asid), &[Item::new(kind, addr)], &self.table);
    }

    /// The first lines of pages.
    fn load(&mut self, asid: u32, pages: impl IntoIterator<Item = u64>) {
        pages.into_iter().for_each(|page| self.go(asid, Kind::Load, page << 12));
    }

    fn tlb(&self) -> TlbCounts {
        let tlb = self.machine.mmu([0; 2]).unwrap().0;
        for (name, part) in tlb.parts.iter() {
            let counting = &SYSTEMS.iter().find(|s| s.kind == "midgard").unwrap().parts;
            for (law, (left, right)) in counting.iter().find(|(of, _)| *of == name).unwrap().1.laws(part, &tlb) {
                assert_eq!(left, right, "{law}");
            }
        }
        tlb
    }

    fn count(&self, part: &str, name: &str) -> u64 {
        self.tlb().parts.count(part, name)
    }

    /// Walks of VMA tables; misses of the last level that data had, and VMA tables.
    fn counts(&self) -> [u64; 3] {
        let caches = self.machine.mmu([0; 2]).unwrap().1;
        [self.tlb().misses, caches.data.llc_misses + caches.fetch.llc_misses, self.count("front", "llc_misses")]
    }
}

/// The trace of the rules: one region, 100 pages, one line each, twice.
#[test]
fn mid_4_hand() {
    let mut w = World::new(&[]);
    w.region(0, 1000, 100, RW);
    w.load(0, 1000..1100);
    assert_eq!(w.counts(), [1, 100, 2], "one walk of two lines, and every line of data");
    assert_eq!(w.count("back", "walks"), 102, "a walk behind each miss of the last level");
    w.load(0, 1000..1100);
    assert_eq!(w.counts(), [1, 100, 2], "nothing in the second pass");
    assert_eq!(w.tlb().second_level_data_hits, 99 + 100, "48 pages in the first level, in turn");
}

/// MID-3: the leaf first; above it only if its line is not there. 8 leaves are in a line, 4096 in that of the level
/// above.
#[test]
fn mid_3_walks_are_short() {
    let mut w = World::new(&[]);
    w.region(0, 0, 10_000, RW);
    let mut references = Vec::new();
    let mut before = 0;
    for page in [0, 1, 8, 512, 4096] {
        w.load(0, [page]);
        let now = w.tlb().parts.get("back").unwrap().memory.made.references;
        references.push(now - before);
        before = now;
    }
    // The VMA table's two lines: 6 up and 6 down, then the leaf. Data: its root line is there by then.
    assert_eq!(references, [12 + 1 + 6 + 5, 1, 3, 3, 5]);
    assert_eq!(w.count("back", "root_misses"), 1);
    assert_eq!(w.count("back", "leaf_hits"), 2);
}

/// MID-4: a page that moves concerns the MLB alone.
#[test]
fn mid_4_a_page_change_leaves_the_front_alone() {
    let mut w = World::new(&[("mlb_entries", "64")]);
    w.region(0, 0, 10, RW);
    w.load(0, 0..10);
    let before = (w.counts(), w.tlb().invalidations);
    w.table.moved.insert((Asid(0), Vpn(3)), Pfn(777));
    w.machine.changed(Asid(0), VpnRange::one(Vpn(3)), &w.table);
    assert_eq!(w.count("back", "invalidations"), 1);
    w.load(0, 0..10);
    assert_eq!((w.counts(), w.tlb().invalidations), before, "neither VLBs nor lines");
    // Another line of the page is in memory, and its translation is the new one.
    let walks = w.count("back", "walks");
    w.go(0, Kind::Load, (3 << 12) + 64);
    assert_eq!((w.count("back", "walks"), w.count("back", "mlb_hits")), (walks + 1, 1));
    w.go(0, Kind::Load, (3 << 12) + 128);
    assert_eq!(w.count("back", "mlb_hits"), 2, "and so it is in the MLB; the lines of the VMA table were the first");
}

/// MID-4: a change of a region drops its VLB entries, and no others.
#[test]
fn mid_4_a_region_change_drops_its_vlb_entries() {
    let mut w = World::new(&[]);
    w.region(0, 0, 10, RW);
    w.region(0, 100, 10, RW);
    w.load(0, [0, 1, 100]);
    assert_eq!(w.counts()[0], 2);
    w.region(0, 0, 10, Attr(Attr::READ));
    assert_eq!(w.tlb().invalidations, 3, "two pages and the region");
    w.load(0, [0, 1, 100]);
    assert_eq!(w.counts(), [3, 3, 2], "one walk more; lines stay");
}

/// MID-1: growth in place while there is room, else in another interval, without the lines.
#[test]
fn mid_1_growth() {
    let mut w = World::new(&[]);
    w.region(0, 100, 10, RW);
    w.load(0, 100..110);
    w.region(0, 100, 20, RW);
    w.load(0, 100..110);
    assert_eq!(w.counts(), [2, 10, 2], "in place");
    w.region(0, 100, 21, RW);
    assert_eq!((w.count("front", "moves"), w.count("front", "flushed_lines")), (1, 10));
    w.load(0, 100..110);
    assert_eq!(w.counts(), [3, 20, 2]);
    w.unmap(0, 100);
    assert_eq!(w.count("front", "flushed_lines"), 20, "lines go with their region");
    assert_eq!(w.count("front", "intervals"), 2);
}

/// MID-1: the pieces of a region stay where they are.
#[test]
fn mid_1_pieces_stay() {
    let mut w = World::new(&[]);
    w.region(0, 0, 12, RW);
    w.load(0, 0..12);
    let whole = w.table.regions[&(Asid(0), 0)];
    let piece =
        |start: u64, pages, attr| Region { pages: VpnRange { start: Vpn(start), pages }, first: start, attr, ..whole };
    for (start, pages, attr) in [(0, 4, RW), (4, 4, Attr(Attr::READ)), (8, 4, RW)] {
        w.table.regions.insert((Asid(0), start), piece(start, pages, attr));
    }
    w.changed(0, 4, 4);
    w.load(0, 0..12);
    assert_eq!(w.counts(), [4, 12, 2], "a walk for each piece, no line");
    // The middle goes, and its lines.
    w.unmap(0, 4);
    assert_eq!((w.count("front", "flushed_lines"), w.count("front", "moves")), (4, 0));
}

/// MID-1: one interval for memory that processes share; others have one each.
#[test]
fn mid_1_shared_memory() {
    let mut w = World::new(&[]);
    let file = |start, first, pages| Region {
        pages: VpnRange { start: Vpn(start), pages },
        attr: RW,
        memory: 7,
        first,
        shared: true,
    };
    w.put(0, 10, file(10, 0, 8));
    w.put(1, 90, file(90, 4, 4));
    for page in 10..18 {
        w.table.moved.insert((Asid(0), Vpn(page)), Pfn(5000 + page - 10));
        w.table.moved.insert((Asid(1), Vpn(page + 76)), Pfn(5000 + page - 10));
    }
    w.load(0, 10..18);
    w.load(1, 90..94);
    assert_eq!(w.counts(), [2, 8, 4], "the other process finds the lines");
    // Process 1 maps more of the file than the interval holds: it moves, for both.
    w.put(1, 90, file(90, 4, 13));
    assert_eq!(w.count("front", "flushed_lines"), 8);
    w.load(0, 10..18);
    assert_eq!(w.counts(), [3, 16, 4]);
    w.load(1, 90..94);
    assert_eq!(w.counts(), [4, 16, 4]);
    w.machine.gone(Asid(0));
    assert_eq!(w.count("front", "flushed_lines"), 8, "process 1 still has it");
    w.machine.gone(Asid(1));
    assert_eq!(w.count("front", "flushed_lines"), 16);
}

/// Private regions at equal addresses are apart, and HW-9 at switches.
#[test]
fn processes() {
    for (ids, walks) in [("true", 2), ("false", 4)] {
        let mut w = World::new(&[("process_ids", ids)]);
        w.region(0, 10, 4, RW);
        w.region(1, 10, 4, RW);
        for asid in [0, 1, 0, 1] {
            w.load(asid, 10..14);
        }
        assert_eq!(w.counts(), [walks, 8, 4], "process_ids = {ids}");
    }
}

/// MID-2: the depth of the table follows the number of regions.
#[test]
fn mid_2_depth() {
    for (regions, depth) in [(1, 1), (5, 1), (6, 2), (25, 2), (26, 3), (125, 3), (126, 4)] {
        let mut w = World::new(&[]);
        for i in 0..regions {
            w.region(0, 10 * i, 1, RW);
        }
        w.load(0, [10 * (regions - 1)]);
        assert_eq!(w.tlb().parts.get("front").unwrap().memory.made.steps, depth, "{regions} regions");
        assert_eq!(w.counts()[2], 2 * depth);
    }
}

/// LLC infinite: m2p = distinct lines, on random references of two processes. MLB or not: as many misses.
#[test]
fn laws_with_an_infinite_last_level() {
    for mlb in ["0", "16"] {
        let mut w = World::new(&[("mlb_entries", mlb), ("mlb_slices", "2")]);
        for (asid, start) in [(0, 0), (0, 1000), (1, 500)] {
            w.region(asid, start, 300, RW);
        }
        let (mut state, mut lines) = (1u64, std::collections::HashSet::new());
        for _ in 0..20_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (asid, start) = [(0, 0), (0, 1000), (1, 500)][(state >> 60) as usize % 3];
            let addr = ((start + (state >> 40) % 300) << 12) + (state >> 30) % 4096;
            let kind = [Kind::Load, Kind::Store, Kind::Fetch][(state >> 20) as usize % 3];
            lines.insert((asid, addr >> LINE_SHIFT));
            w.go(asid, kind, addr);
        }
        let translated = w.count("back", "walks") + w.count("back", "mlb_hits");
        assert_eq!(translated, lines.len() as u64 + w.count("front", "llc_misses"));
        assert_eq!(w.count("front", "llc_misses"), 2 + 2, "a node for each process");
        assert!(w.counts()[0] >= 3);
    }
}

/// A trace that says nothing of regions, and a region of all addresses.
#[test]
fn without_regions() {
    let mut w = World::new(&[]);
    w.load(0, [1, 2, 1 << 51, 1, (1 << 51) + 5, 1 << 30]);
    assert_eq!(w.counts(), [3, 5, 2], "a walk for each GB");
    let mut w = World::new(&[]);
    w.put(0, 0, Region { pages: VpnRange::ALL, attr: RW, memory: 3, first: 0, shared: true });
    w.load(0, [1, 2, 1 << 51, 1, (1 << 51) + 5, 1 << 30]);
    assert_eq!(w.counts(), [3, 5, 2]);
    w.region(0, 0, 1 << 40, RW);
    assert_eq!(w.count("front", "flushed_lines"), 5, "it is other memory");
}

#[test]
fn refusals() {
    let given: Map<_, _> = [("cache_llc".to_owned(), json!("none"))].into_iter().collect();
    let params = Params::resolve(MIDGARD.keys, &given).unwrap();
    let why = Midgard::new(&params, false).err().unwrap();
    assert!(why.contains("cache_llc = none is not allowed with kind = midgard"), "{why}");
}
