//! Entries that map more: coalesced, clustered, ranges, mosaics, skewed sets.

use super::*;

pub(crate) const STUDY: Study = Study {
    id: "since-reach",
    title: "Entries for more than a page: coalescing, clusters, ranges first, mosaics; skewed sets",
    rules: "RMM15-42, T94-5, HW-7",
    plan: |_, set| {
        let machines: Vec<&str> =
            [PAGES, FLEX].iter().chain(&COALESCED).chain(&MOSAIC).chain(&SKEWED).copied().collect();
        grid(few(set), &machines)
    },
    section,
};

/// Pages in memory from a buddy allocator, without coalescing.
pub(crate) const PAGES: &str = "rmm15/4k:placement=eager,max_order=20";
/// CoLT-SA, CoLT-FA, and clusters of eight.
pub(crate) const COALESCED: [&str; 3] = ["rmm15/colt", "rmm15/colt-fa", "rmm15/clustered"];
/// Ranges of 32 KB or more are looked up first, as FlexPointer does.
pub(crate) const FLEX: &str = "rmm15/range:range_order=first";
/// One page, and 4, 16, 64 pages an entry; the TLB side of mosaic pages (MOS-4 is its rule): as many entries, since a
/// place in a bucket takes a few bits in place of a frame.
pub(crate) const MOSAIC: [&str; 4] = [
    "t94/single:entries=1024,ways=8,replacement=lru",
    "t94/complete:entries=1024,ways=8,factor=4,replacement=lru",
    "t94/complete:entries=1024,ways=8,replacement=lru",
    "t94/complete:entries=1024,ways=8,factor=64,replacement=lru",
];
/// Skewed, in sets, and fully associative, as many entries, at random.
pub(crate) const SKEWED: [&str; 3] = [
    "s04/skewed:entries=512,ways=8",
    "t94/set-associative:entries=512,ways=8",
    "t94/single:entries=512,replacement=random",
];

/// Misses of the first level: hits of the second, sole hits of ranges, walks.
pub(crate) fn first_level(results: &Results, program: &str, machine: &str) -> Option<u64> {
    let tlb = &results.machine(program, machine)?.counts.tlb;
    Some(tlb.misses + tlb.second_level_fetch_hits + tlb.second_level_data_hits)
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let mut table = Table::new("Walks in percent of those of pages alone", "program");
    for name in ["colt", "colt-fa", "clustered", "ranges first", "ranges first, past the first level"] {
        table.column(name, Origin::Measured, "%");
    }
    let mut entries = Table::new("Misses in percent of one page an entry, or of full associativity", "program");
    for name in ["4 pages an entry", "16 pages", "64 pages", "skewed, 8 ways", "sets of 8"] {
        entries.column(name, Origin::Measured, "%");
    }
    for p in few(set) {
        let percent = |machine, of| Cell::from(results.percent(&p.name, machine, of));
        let first = |machine| first_level(results, &p.name, machine);
        let past = first(FLEX).zip(first(PAGES)).map(|(a, b)| share(a, b));
        let mut cells: Vec<Cell> = COALESCED.iter().chain([&FLEX]).map(|m| percent(m, PAGES)).collect();
        cells.push(past.into());
        table.row(&p.name, cells);
        let cells = [(1, 0), (2, 0), (3, 0)].map(|(a, b)| percent(MOSAIC[a], MOSAIC[b]));
        entries.row(&p.name, [&cells[..], &[0, 1].map(|i| percent(SKEWED[i], SKEWED[2]))].concat());
    }
    section.tables.extend([table, entries]);
    section.note(format!(
        "The first table is of rmm15 presets, 512 entries in the second level, against {PAGES}. Mosaics are complete \
         subblocks here: every page of an entry has a frame of its own, as with mosaic pages, whose allocator is not \
         built."
    ));
    section.note(MODEL);
}
