//! Entries for more than a page: runs, clusters, ranges, mosaics, anchors, several sizes; skewed sets.

use super::*;

pub(crate) const STUDY: Study = Study {
    id: "since-reach",
    title: "Entries for more than a page: coalescing, anchors, ranges first, mosaics, several sizes; skewed sets",
    rules: "RMM15-42, T94-5, COL-1, MIX-1 to MIX-5, SKW-1, TPS-1 to TPS-4, ANC-1 to ANC-5, PRF-1 to PRF-3, \
            MOS-4, HW-7",
    plan: |_, set| {
        let mut wanted = grid(few(set), &[PAGES, FLEX, COLT_ALL[1], BASE_EAGER, TPS, BASE, MIX[0], MIX[1]]);
        wanted.extend(grid(few(set), &COALESCED));
        wanted.extend(grid(few(set), &MOSAIC));
        wanted.extend(grid(few(set), &SKEWED));
        wanted.extend((0..2).flat_map(|mapping| grid(few(set), &[ANCHORS[mapping], RIVALS[mapping]].concat())));
        wanted.extend(grid(few(set), &CHOSEN));
        wanted.extend(grid(few(set), &[HOLES.map(|(_, machine)| machine).as_slice(), &[WHOLE]].concat()));
        let sizes = [SUPERPAGES, SEVERAL].concat();
        wanted.extend(grid(few(set), &sizes));
        wanted.extend(LARGE.iter().flat_map(|p| sizes.iter().map(|m| Request::machine(p, *m))));
        wanted.extend(SHAPES.iter().flat_map(|p| IDENTICAL.as_flattened().iter().map(|m| Request::machine(p, *m))));
        wanted
    },
    section,
};

/// Pages in memory from a buddy allocator, without coalescing.
pub(crate) const PAGES: &str = "rmm15/4k:placement=eager,max_order=20";
/// CoLT-SA, CoLT-FA, and clusters of eight.
pub(crate) const COALESCED: [&str; 3] = ["rmm15/colt", "rmm15/colt-fa", "rmm15/clustered"];
/// Ranges of 32 KB or more are looked up first, as FlexPointer does.
pub(crate) const FLEX: &str = "rmm15/range:range_order=first";
/// One page, and 4, 16, 64 pages an entry: as many entries, since a place in a bucket takes a few bits in place of a
/// frame.
pub(crate) const MOSAIC: [&str; 4] =
    [replacement::PRINTED[0], "since/mosaic", "since/mosaic:mosaic_arity=16", "since/mosaic:mosaic_arity=64"];
/// Skewed, in sets, and fully associative, as many entries, at random.
pub(crate) const SKEWED: [&str; 3] = [
    "s04/skewed:entries=512,ways=8",
    "t94/set-associative:entries=512,ways=8",
    "t94/single:entries=512,replacement=random",
];

/// Mosaics behind a first level of one entry, and the design `complete` with as many entries: an entry is filled page
/// by page, or whole; memory on demand, or in one piece.
pub(crate) const IDENTICAL: [[&str; 2]; 4] = [
    [
        "since/mosaic:l1d=4K:1,l1i=4K:1,mosaic_fill=one",
        "t94/complete:entries=1024,ways=8,factor=4,replacement=lru,preload=none",
    ],
    ["since/mosaic:l1d=4K:1,l1i=4K:1", "t94/complete:entries=1024,ways=8,factor=4,replacement=lru,preload=region"],
    [
        "since/mosaic:l1d=4K:1,l1i=4K:1,mosaic_arity=16,placement=eager",
        "t94/complete:entries=1024,ways=8,replacement=lru,preload=region,placement=eager",
    ],
    [
        "since/mosaic:l1d=4K:1,l1i=4K:1,mosaic_arity=64,mosaic_fill=one,mosaic_entries=64",
        "t94/complete:entries=64,ways=8,factor=64,replacement=lru,preload=none",
    ],
];
/// Loads alone: fetches have a first level of their own in a hierarchy, and none in `complete`.
pub(crate) const SHAPES: [&str; 2] = [crate::micro::SCATTERED, crate::micro::TINY];

/// Names of the two mappings: frames as pages are touched, and in one piece.
pub(crate) const MAPPINGS: [&str; 2] = ["on demand", "in one piece"];
/// Distances between anchors.
pub(crate) const DISTANCES: [u64; 3] = [8, 64, 512];
/// Anchors by distance, for each mapping.
pub(crate) const ANCHORS: [[&str; 3]; 2] = [
    ["since/anchor:anchor_distance=8", "since/anchor", "since/anchor:anchor_distance=512"],
    [
        "since/anchor:anchor_distance=8,placement=eager",
        "since/anchor:placement=eager",
        "since/anchor:anchor_distance=512,placement=eager",
    ],
];
/// Anchors whose distance the system chooses every million instructions, by mapping.
pub(crate) const CHOSEN: [&str; 2] =
    ["since/anchor:anchor_epoch=1000000", "since/anchor:anchor_epoch=1000000,placement=eager"];
/// Superpages with holes, by the share of frames that belong to others, in percent. There are holes up to that share.
pub(crate) const HOLES: [(u64, &str); 5] = [
    (0, "since/perforated:memory=32G,perforated_free=0.6"),
    (5, "since/perforated:memory=32G,perforated_free=0.6,fragmentation=0.05"),
    (10, "since/perforated:memory=32G,perforated_free=0.6,fragmentation=0.1"),
    (20, "since/perforated:memory=32G,perforated_free=0.6,fragmentation=0.2"),
    (30, "since/perforated:memory=32G,perforated_free=0.6,fragmentation=0.3"),
];
/// Superpages without holes, in memory that is not fragmented: what holes are to come near.
pub(crate) const WHOLE: &str = "since/base:placement=thp,khugepaged=0";
/// Superpages with holes, and superpages without, where a tenth of the frames belongs to others, so that there are
/// none.
pub(crate) const FRAGMENTED: [&str; 2] = [
    "since/perforated:memory=32G,fragmentation=0.1",
    "since/base:memory=32G,fragmentation=0.1,placement=thp,khugepaged=0",
];

/// 1024 clusters of eight pages and 512 pages, by mapping.
pub(crate) const CLUSTERED: [&str; 2] = [
    "since/clustered:cluster_entries=1024,cluster_ways=8",
    "since/clustered:cluster_entries=1024,cluster_ways=8,placement=eager",
];
/// CoLT-All, by mapping.
pub(crate) const COLT_ALL: [&str; 2] = ["since/colt-all", "since/colt-all:placement=eager"];
/// What anchors are compared with, by mapping: pages, clusters, runs.
pub(crate) const RIVALS: [[&str; 3]; 2] = [[BASE, CLUSTERED[0], COLT_ALL[0]], [BASE_EAGER, CLUSTERED[1], COLT_ALL[1]]];

/// One array of 1536 entries for all sizes, and 1024 entries for pages of 4 KB beside 512 for 2 MB (assumed).
pub(crate) const MIX: [&str; 2] = ["since/mix", "since/base:l2=4K:1024/8+2M:512/8"];
/// The same with superpages.
pub(crate) const SUPERPAGES: [&str; 2] = ["since/mix:placement=thp", "since/base:l2=4K:1024/8+2M:512/8,placement=thp"];
/// 1024 entries for two sizes, skewed and fully associative, with superpages.
pub(crate) const SEVERAL: [&str; 2] = ["since/skewed:placement=thp", "since/base:l2=4K|2M:1024,placement=thp"];
/// Random updates in 2 and 16 GB: more superpages than a second level has entries.
pub(crate) const LARGE: [&str; 2] = [tables::GROWING[2], tables::GROWING[3]];
/// Pages of every power of two.
pub(crate) const TPS: &str = "since/tps";

/// Misses of the first level: hits of the second, sole hits of ranges, walks.
pub(crate) fn first_level(results: &Results, program: &str, machine: &str) -> Option<u64> {
    let tlb = &results.machine(program, machine)?.counts.tlb;
    Some(tlb.misses + tlb.second_level_fetch_hits + tlb.second_level_data_hits)
}

/// Programs with superpages: few of the set, and those with more of them.
pub(crate) fn with_superpages(set: &Set) -> Vec<Program> {
    let large = LARGE.iter().map(|name| Program { name: (*name).into(), ..Program::default() });
    few(set).cloned().chain(large).collect()
}

/// The best of the three distances: it, its misses, its references. The shortest of equals.
pub(crate) fn best_anchor(results: &Results, program: &str, mapping: usize) -> Option<(u64, Walks)> {
    let all = ANCHORS[mapping].map(|m| Walks::of(results, program, m)).into_iter().collect::<Option<Vec<_>>>()?;
    DISTANCES.into_iter().zip(all).min_by_key(|(distance, w)| (w.walks, *distance))
}

/// The mean of the distances that the system chose.
pub(crate) fn mean_distance(results: &Results, program: &str, mapping: usize) -> Option<u64> {
    let of = |name| counted(results, program, CHOSEN[mapping], "anchor", name);
    of("distances")?.checked_div(of("choices")?)
}

/// With holes, the share in percent of the misses that superpages remove where memory is not fragmented. `None` if
/// those remove none.
pub(crate) fn kept(results: &Results, program: &str, machine: &str) -> Option<f64> {
    let [pages, whole, holes] = [BASE, WHOLE, machine].map(|m| results.misses(program, m));
    let (pages, whole, holes) = (pages?, whole?, holes?);
    (pages > whole).then(|| 100.0 * (pages as f64 - holes as f64) / (pages - whole) as f64)
}

/// The share of holes in percent of the pages of superpages that have any.
pub(crate) fn holes(results: &Results, program: &str, machine: &str) -> Option<f64> {
    let os = &results.machine(program, machine)?.counts.os;
    (os.perforated_faults > 0).then(|| share(os.perforated_holes, os.perforated_faults << 9))
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let mut table = Table::new("Walks in percent of those of pages alone", "program");
    for name in ["colt", "colt-fa", "clustered", "ranges first", "ranges first, past the first level", "colt-all"] {
        table.column(name, Origin::Measured, "%");
    }
    let mut entries = Table::new("Misses in percent of one page an entry, or of full associativity", "program");
    for name in ["4 pages an entry", "16 pages", "64 pages", "skewed, 8 ways", "sets of 8"] {
        entries.column(name, Origin::Measured, "%");
    }
    let mut tps = Table::new("Pages of every power of two, in percent of the base", "program");
    for name in ["misses of the first level", "walks", "references of walks"] {
        tps.column(name, Origin::Measured, "%");
    }
    for p in few(set) {
        let percent = |machine, of| Cell::from(results.percent(&p.name, machine, of));
        let first = |machine| first_level(results, &p.name, machine);
        let past = first(FLEX).zip(first(PAGES)).map(|(a, b)| share(a, b));
        let mut cells: Vec<Cell> = COALESCED.iter().chain([&FLEX]).map(|m| percent(m, PAGES)).collect();
        cells.extend([past.into(), percent(COLT_ALL[1], BASE_EAGER)]);
        table.row(&p.name, cells);
        let cells = [(1, 0), (2, 0), (3, 0)].map(|(a, b)| percent(MOSAIC[a], MOSAIC[b]));
        entries.row(&p.name, [&cells[..], &[0, 1].map(|i| percent(SKEWED[i], SKEWED[2]))].concat());
        let walks = |machine| Walks::of(results, &p.name, machine);
        let made = walks(TPS).zip(walks(BASE)).map(|(a, b)| share(a.demand, b.demand));
        let past = first(TPS).zip(first(BASE)).map(|(a, b)| share(a, b));
        tps.row(&p.name, vec![past.into(), percent(TPS, BASE), made.into()]);
    }
    section.tables.extend([table, entries, tps]);
    let mut anchors = Table::new("Misses by mapping", "program, mapping");
    let names = DISTANCES.map(|d| format!("anchors every {d} pages"));
    for name in names.iter().map(String::as_str).chain(["pages", "clustered", "colt-all"]) {
        anchors.column(name, Origin::Measured, "misses");
    }
    anchors.column("best distance, references", Origin::Measured, "% of pages");
    anchors.column("distance chosen", Origin::Measured, "misses");
    anchors.column("mean of those chosen", Origin::Measured, "pages");
    for p in few(set) {
        for (i, mapping) in MAPPINGS.iter().enumerate() {
            let misses = ANCHORS[i].iter().chain(&RIVALS[i]).map(|m| results.misses(&p.name, m).into());
            let pages = Walks::of(results, &p.name, RIVALS[i][0]);
            let made = best_anchor(results, &p.name, i).zip(pages).map(|((_, w), b)| share(w.demand, b.demand));
            let chosen = [results.misses(&p.name, CHOSEN[i]), mean_distance(results, &p.name, i)].map(Cell::from);
            anchors.row(format!("{}, {mapping}", p.name), misses.chain([made.into()]).chain(chosen).collect());
        }
    }
    section.tables.push(anchors);
    section.tables.push(perforated(results, set));
    let mut sizes = Table::new("Misses with pages of 4 KB and 2 MB (thp)", "program");
    for name in ["mix, 1536", "split, 1024 and 512", "skewed, 1024", "fully associative, 1024"] {
        sizes.column(name, Origin::Measured, "misses");
    }
    for p in with_superpages(set) {
        let all = SUPERPAGES.iter().chain(&SEVERAL);
        sizes.row(&p.name, all.map(|m| results.misses(&p.name, m).into()).collect());
    }
    section.tables.push(sizes);
    let mut identity = Table::new("Misses of mosaics and of complete subblocks", "machine");
    for p in SHAPES {
        identity.column(format!("{p}, mosaic"), Origin::Measured, "misses");
        identity.column(format!("{p}, complete"), Origin::Measured, "misses");
    }
    for pair in IDENTICAL {
        let cells = SHAPES.iter().flat_map(|p| pair.map(|m| results.misses(p, m).into()));
        identity.row(pair[0], cells.collect());
    }
    section.tables.push(identity);
    section.note(format!(
        "The first table is of rmm15 presets, 512 entries in the second level, against {PAGES}; colt-all is since's, \
         1536 entries, against {BASE_EAGER}. Mosaics are the TLB side: every page of an entry has a frame of its own. \
         The allocator, which must find that frame, is not built, and counts do not depend on it (MOS-4)."
    ));
    section.note(
        "Distances between anchors are fixed, or chosen by the system every million instructions (ANC-4), beginning \
         with 64 pages. Second levels have 1536 entries there. Bundles of mix need superpages in a row in both spaces \
         (MIX-3); those that are touched at random are not in a row, so that an entry for one of them is written into \
         every set (MIX-2).",
    );
    section.note(
        "Frames of others are scattered, so that hardly a block of 2 MB is wholly free with a twentieth of them. The \
         system takes the blocks with fewest of them first. A hole still lies in nearly every group of 64 pages, so \
         that the filter saves few bitmaps (PRF-2).",
    );
    section.note(MODEL);
}

/// PRF, by the share of frames that belong to others.
fn perforated(results: &Results, set: &Set) -> Table {
    let mut table = Table::new("Misses with superpages that have holes, by frames that belong to others", "program");
    table.column("pages of 4 KB", Origin::Measured, "misses");
    table.column("superpages, none of others", Origin::Measured, "misses");
    for (percent, _) in HOLES {
        table.column(format!("{percent} %"), Origin::Measured, "misses");
        table.column(format!("{percent} %, references"), Origin::Measured, "% of pages of 4 KB");
        table.column(format!("{percent} %, holes"), Origin::Measured, "% of pages");
    }
    for p in few(set) {
        let walks = |machine| Walks::of(results, &p.name, machine);
        let mut cells: Vec<Cell> = [BASE, WHOLE].map(|m| results.misses(&p.name, m).into()).into();
        for (_, machine) in HOLES {
            let made = walks(machine).zip(walks(BASE)).map(|(w, base)| share(w.demand, base.demand));
            cells.extend([
                results.misses(&p.name, machine).into(),
                made.into(),
                holes(results, &p.name, machine).into(),
            ]);
        }
        table.row(&p.name, cells);
    }
    table
}
