//! Prefetchers of translations: what they cover, how exactly, and what they read for it.

use super::*;

pub(crate) const STUDY: Study = Study {
    id: "since-prefetch",
    title: "Prefetchers of translations: coverage, accuracy, references",
    rules: "PB-10, PB-11, SBFP-6",
    plan: |results, set| {
        let mut wanted = grid(programs(set), &[BASE]);
        wanted.extend(grid(walking(results, set), &with_bases(of_kinds(&[Kind::Prefetch]))));
        wanted.extend(grid(compilers(set), &[MORRIGAN, "since/rp"]));
        let variants: Vec<&str> = SMALL.iter().chain(&ROWS).chain(FREE.as_flattened()).copied().collect();
        wanted.extend(grid(few(set), &variants));
        wanted.extend(STREAMS.iter().flat_map(|p| [SP_MAPPED, SP_MORE, ASP_MAPPED].map(|m| Request::machine(p, m))));
        wanted.extend([MORRIGAN, BASE, "since/rp"].map(|m| Request::machine(SERVER, m)));
        wanted
    },
    section,
};

/// Streams of pages: points that are read one after the other, sweeps over 42 arrays at once, and columns of matrices,
/// whose strides are no stream.
pub(crate) const STREAMS: [&str; 3] = [
    "workload:cluster:size=16M,references=5M",
    "workload:stencil:size=16M,references=6M",
    "workload:dense:size=24M,references=3M",
];
/// Memory is mapped when it is asked for. First touches of pages that are not mapped cannot be prefetched (HW-10), and
/// a short run over much memory has no other misses.
pub(crate) const SP_MAPPED: &str = "since/sp:placement=eager";
/// With four times the buffer.
pub(crate) const SP_MORE: &str = "since/sp:placement=eager,pb_entries=64";
/// Strides, for columns.
pub(crate) const ASP_MAPPED: &str = "since/asp:placement=eager";
/// A server.
pub(crate) const SERVER: &str = "workload:server:size=64M,references=1M";

/// The prefetchers of Kandiraju and Sivasubramaniam over 128 entries and without one: the second level has no more than
/// that, and the first 64 of its own.
pub(crate) const SMALL: [&str; 6] = [
    "since/base:l2=4K|2M:128",
    "since/sp:l2=4K|2M:128",
    "since/asp:l2=4K|2M:128",
    "since/mp:l2=4K|2M:128",
    "since/dp:l2=4K|2M:128",
    "since/rp:l2=4K|2M:128",
];

/// Distances and pages with few and many rows.
pub(crate) const ROWS: [&str; 3] =
    ["since/dp:prefetch_rows=32", "since/mp:prefetch_rows=32", "since/mp:prefetch_rows=1024"];

/// Prefetchers alone, with all neighbours, and with those of SBFP.
pub(crate) const FREE: [[&str; 3]; 4] = [
    ["since/sp", "since/sp:prefetch_free=all", "since/sp:prefetch_free=sbfp"],
    ["since/dp", "since/dp:prefetch_free=all", "since/dp:prefetch_free=sbfp"],
    ["since/masp", "since/masp:prefetch_free=all", "since/masp:prefetch_free=sbfp"],
    ["since/atp", "since/atp:prefetch_free=all", "since/atp-sbfp"],
];

/// Hits of the buffer of those that came and went, in percent (PB-10).
pub(crate) fn accuracy(results: &Results, program: &str, machine: &str) -> Option<f64> {
    let count = |name| counted(results, program, machine, "prefetch", name);
    let hits = count("hits")?;
    let all = hits + count("evicted_unused")? + count("invalidated")?;
    (all > 0).then(|| share(hits, all))
}

/// Coverage in percent.
pub(crate) fn coverage(results: &Results, program: &str, machine: &str) -> Option<f64> {
    Walks::of(results, program, machine).map(|w| w.coverage())
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let shown: Vec<&Program> = walking(results, set).collect();
    for (title, of) in [
        ("Coverage: misses of the TLBs that the buffer answers", coverage as fn(&Results, &str, &str) -> Option<f64>),
        ("Accuracy: entries of the buffer that were used, of those that left it", accuracy),
    ] {
        let mut table = Table::new(title, "prefetcher");
        shown.iter().for_each(|p| table.column(&p.name, Origin::Measured, "%"));
        for d in of_kinds(&[Kind::Prefetch]) {
            table.row(d.name, shown.iter().map(|p| of(results, &p.name, d.machine).into()).collect());
        }
        section.tables.push(table);
    }
    let few: Vec<&Program> = few(set).collect();
    let mut rows = Table::new("Coverage by rows, and over 128 entries", "machine");
    few.iter().for_each(|p| rows.column(&p.name, Origin::Measured, "%"));
    for machine in ROWS.iter().chain(&SMALL[1..]) {
        rows.row(*machine, few.iter().map(|p| coverage(results, &p.name, machine).into()).collect());
    }
    section.tables.push(rows);
    let mut free = Table::new("Free neighbours: coverage, and references of the prefetcher alone = 100", "machine");
    for p in &few {
        free.column(&p.name, Origin::Measured, "% covered");
        free.column(&p.name, Origin::Measured, "% references");
    }
    for [alone, all, sbfp] in FREE {
        for machine in [alone, all, sbfp] {
            let cells = few.iter().flat_map(|p| {
                let of = |machine| Walks::of(results, &p.name, machine);
                let references = of(machine).zip(of(alone)).map(|(w, a)| share(w.references(), a.references()));
                [of(machine).map(|w| w.coverage()).into(), Cell::from(references)]
            });
            free.row(machine, cells.collect());
        }
    }
    section.tables.push(free);
    section.note(MODEL);
}
