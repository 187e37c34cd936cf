//! Which entry of the second level goes.

use super::*;

pub(crate) const STUDY: Study = Study {
    id: "since-replacement",
    title: "Replacement in the second level: misses against LRU, entries that leave without a hit",
    rules: "VIC-5, CHI-1 to CHI-5, ITP-1, DPP-1 to DPP-3",
    plan: |results, set| {
        let mut wanted = grid(programs(set), &[BASE]);
        wanted.extend(grid(walking(results, set), &with_bases(of_kinds(&[Kind::Replace]))));
        wanted.extend(grid(walking(results, set), &PRINTED));
        wanted.extend(grid(compilers(set), &["since/itp"]));
        wanted.extend([BASE, "since/itp"].map(|m| Request::machine(super::prefetch::SERVER, m)));
        wanted
    },
    section,
};

/// 1024 entries of 8 ways, as CHiRP's paper has them: LRU, SRRIP, CHiRP, and CHiRP that predicts nothing, which is LRU
/// with its counters.
pub(crate) const PRINTED: [&str; 4] = [
    "since/base:l2=4K|2M:1024/8",
    "since/srrip:l2=4K|2M:1024/8",
    "since/chirp:l2=4K|2M:1024/8",
    "since/chirp:l2=4K|2M:1024/8,chirp_dead_at=4",
];

/// Entries that left without a hit, of those that left, in percent.
pub(crate) fn unused(results: &Results, program: &str) -> Option<f64> {
    let tlb = &results.machine(program, PRINTED[3])?.counts.tlb;
    (tlb.evictions > 0).then(|| share(tlb.replacement.get("unused_victims"), tlb.evictions))
}

/// Walks whose page dpPred kept out of the second level, in percent.
pub(crate) fn bypassed(results: &Results, program: &str) -> Option<f64> {
    let walks = results.misses(program, "since/dppred")?;
    Some(share(counted(results, program, "since/dppred", "dppred", "bypasses")?, walks))
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let mut table = Table::new("Misses in percent of LRU", "program");
    for (of, name) in [(1024, "srrip"), (1024, "chirp"), (1536, "srrip"), (1536, "chirp"), (1536, "itp")] {
        table.column(format!("{name}, {of} entries"), Origin::Measured, "%");
    }
    table.column("itp, fetches", Origin::Measured, "%");
    table.column("left without a hit, 1024 entries", Origin::Measured, "% of entries");
    table.column("dppred, 1536 entries", Origin::Measured, "%");
    table.column("dppred, walks that bypass", Origin::Measured, "% of its walks");
    for p in programs(set).filter(|p| results.machine(&p.name, "since/itp").is_some()) {
        let cells = [
            results.percent(&p.name, PRINTED[1], PRINTED[0]),
            results.percent(&p.name, PRINTED[2], PRINTED[0]),
            results.percent(&p.name, "since/srrip", BASE),
            results.percent(&p.name, "since/chirp", BASE),
            results.percent(&p.name, "since/itp", BASE),
            fetch_percent(results, &p.name),
            unused(results, &p.name),
            results.percent(&p.name, "since/dppred", BASE),
            bypassed(results, &p.name),
        ];
        table.row(&p.name, cells.map(Cell::from).into());
    }
    section.tables.push(table);
    section.note("CHiRP here has the path of fetches, without the branches of its paper (CHI-1).");
    section.note(MODEL);
}

/// Misses of fetches under iTP, in percent of LRU.
pub(crate) fn fetch_percent(results: &Results, program: &str) -> Option<f64> {
    let fetch = |machine| Some(results.machine(program, machine)?.counts.tlb.fetch_misses);
    let base = fetch(BASE)?;
    (base > 0).then_some(share(fetch("since/itp")?, base))
}
