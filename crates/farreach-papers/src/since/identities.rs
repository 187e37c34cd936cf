//! What must be equal: numbers with a design and without it.

use super::*;

pub(crate) const STUDY: Study = Study {
    id: "since-identities",
    title: "Identities: what a design must leave as it is",
    rules: "HW-4, HW-L1, PT-1",
    plan: |results, set| {
        let mut wanted = grid(programs(set), &[BASE]);
        wanted.extend(grid(walking(results, set), &with_bases(DESIGNS.iter())));
        wanted.extend(grid(few(set), &OFF));
        wanted
    },
    section,
};

/// Designs that are switched off.
pub(crate) const OFF: [&str; 3] =
    ["since/sp:prefetch_degree=0", "since/chirp:chirp_dead_at=4", "since/dmt:dmt_registers=0"];

/// What TLBs count, with any part behind them: lookups, misses with sole answers, hits of the second level, fills,
/// evictions.
pub(crate) fn of_tlbs(results: &Results, program: &str, machine: &str) -> Option<[u64; 5]> {
    let tlb = &results.machine(program, machine)?.counts.tlb;
    let sole = Walks::of(results, program, machine)?.sole;
    let second = tlb.second_level_fetch_hits + tlb.second_level_data_hits;
    Some([tlb.lookups, tlb.misses + sole, second, tlb.invalidations, tlb.evictions])
}

/// All counts of a machine that is switched off are those of the base, but those of the part itself.
pub(crate) fn is_off(results: &Results, program: &str, machine: &str) -> Option<bool> {
    let of = |machine| {
        let m = results.machine(program, machine)?;
        let references = Walks::of(results, program, machine)?.references();
        Some((of_tlbs(results, program, machine)?, m.counts.tlb.misses, references, m.counts.os.clone()))
    };
    Some(of(machine)? == of(BASE)?)
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let mut table = Table::new("Misses and sole answers together, less the misses of the base: 0 everywhere", "design");
    let shown: Vec<&Program> = walking(results, set).collect();
    shown.iter().for_each(|p| table.column(&p.name, Origin::Measured, "misses"));
    for d in DESIGNS.iter().filter(|d| d.kind.keeps_misses()) {
        let cell = |p: &&Program| -> Option<f64> {
            let of = |machine| Walks::of(results, &p.name, machine).map(|w| w.walks + w.sole);
            Some(of(d.machine)? as f64 - of(d.base)? as f64)
        };
        table.row(d.name, shown.iter().map(|p| cell(p).into()).collect());
    }
    section.tables.push(table);
    section.note(
        "Totals of whole programs. The conformance suite compares event by event, on random and hostile streams.",
    );
}
