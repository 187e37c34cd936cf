//! Which entry of the second level goes.

use super::*;

pub(crate) const STUDY: Study = Study {
    id: "since-replacement",
    title: "Replacement in the second level: misses against LRU, entries that leave without a hit",
    rules: "REP-1, VIC-5, CHI-1 to CHI-5, ITP-1, ITP-2, DPP-1 to DPP-3",
    plan: |results, set| {
        let mut wanted = grid(programs(set), &[BASE]);
        wanted.extend(grid(walking(results, set), &with_bases(of_kinds(&[Kind::Replace]))));
        wanted.extend(grid(walking(results, set), &PRINTED));
        wanted.extend(grid(walking(results, set), &OPT));
        let of_fetches = [BASE, "since/itp", BASE_CACHES, ITP_CACHES[0], ITP_CACHES[1]];
        wanted.extend(grid(compilers(set), &of_fetches));
        wanted.extend(of_fetches.map(|m| Request::machine(super::prefetch::SERVER, m)));
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

/// Belady's OPT, the bound of all that fill each miss: with 1536 entries, and as [`PRINTED`] has them.
pub(crate) const OPT: [&str; 2] = ["since/opt", "since/opt:l2=4K|2M:1024/8"];

/// iTP through caches, without xPTP and with it.
pub(crate) const ITP_CACHES: [&str; 2] = ["since/itp:walk_cost=caches", "since/itp-xptp"];

/// What a policy saves of what can be saved, in percent: of the misses that LRU has and OPT has not. `None`: LRU has no
/// more.
pub(crate) fn of_possible(results: &Results, program: &str, policy: &str, [lru, opt]: [&str; 2]) -> Option<f64> {
    let [policy, lru, opt] = [policy, lru, opt].map(|machine| results.misses(program, machine));
    let (lru, opt) = (lru? as f64, opt? as f64);
    (lru > opt).then(|| 100.0 * (lru - policy.unwrap_or(0) as f64) / (lru - opt)).filter(|_| policy.is_some())
}

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
    let mut bound = Table::new("What policies save of the misses that OPT saves against LRU", "program");
    bound.column("opt, 1024 entries", Origin::Measured, "% of LRU");
    bound.column("opt, 1536 entries", Origin::Measured, "% of LRU");
    for (of, name) in [(1024, "srrip"), (1024, "chirp"), (1536, "srrip"), (1536, "chirp"), (1536, "itp")] {
        bound.column(format!("{name}, {of} entries"), Origin::Measured, "% of the possible");
    }
    for p in programs(set).filter(|p| results.machine(&p.name, OPT[0]).is_some()) {
        let small = |machine| of_possible(results, &p.name, machine, [PRINTED[0], OPT[1]]);
        let large = |machine| of_possible(results, &p.name, machine, [BASE, OPT[0]]);
        let cells = [
            results.percent(&p.name, OPT[1], PRINTED[0]),
            results.percent(&p.name, OPT[0], BASE),
            small(PRINTED[1]),
            small(PRINTED[2]),
            large("since/srrip"),
            large("since/chirp"),
            large("since/itp"),
        ];
        bound.row(&p.name, cells.map(Cell::from).into());
    }
    section.tables.push(bound);
    let mut cycles = Table::new("iTP through caches: cycles of walks in percent of LRU", "program");
    cycles.column("itp", Origin::Measured, "%");
    cycles.column("itp, xptp", Origin::Measured, "%");
    for name in compilers(set).map(|p| p.name.as_str()).chain([super::prefetch::SERVER]) {
        let of = |machine| super::tables::walk_cycles(results, name, machine);
        let cell =
            |machine| Cell::from(of(machine).zip(of(BASE_CACHES)).filter(|&(_, b)| b > 0).map(|(m, b)| share(m, b)));
        cycles.row(name, ITP_CACHES.map(cell).into());
    }
    section.tables.push(cycles);
    section.note(
        "OPT knows what comes: it evicts the entry whose next use is farthest, and no policy that fills each miss \
         misses less often (REP-1). A negative number is a policy that misses more often than LRU. dppred keeps pages \
         out, and so is no such policy.",
    );
    section.note("CHiRP here has the path of fetches, without the branches of its paper (CHI-1).");
    section.note(MODEL);
}

/// Misses of fetches under iTP, in percent of LRU.
pub(crate) fn fetch_percent(results: &Results, program: &str) -> Option<f64> {
    let fetch = |machine| Some(results.machine(program, machine)?.counts.tlb.fetch_misses);
    let base = fetch(BASE)?;
    (base > 0).then_some(share(fetch("since/itp")?, base))
}
