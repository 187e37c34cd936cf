//! What the paper works out by hand: small programs on which a mechanism must show, whatever else programs do.

use super::*;
use crate::counts::MachineResult;
use crate::study::machines::{PARTIAL, SINGLE, SUPERPAGE, partial_of, superpage_of};
use crate::study::{Origin, Section, Study, Table, micro};

pub(in crate::study) const STUDY: Study = Study {
    id: "t94-by-hand",
    title: "Regions of a few pages: half used, small, with holes, with other attributes, modified in one page",
    rules: "T94-19, T94-20, T94-50, T94-54, CA-12, CA-13",
    plan: |_, _| ROWS.iter().map(|&(program, _, ref machine, _)| Request::machine(program, machine())).collect(),
    section: |results, _, section| show(results, section),
};

/// What a row is about.
type Read = fn(&MachineResult) -> u64;

/// Program, what is read, machine, and what the rules give.
type RowOf = (&'static str, (&'static str, Read), fn() -> String, u64);

/// All rows.
pub(in crate::study) const ROWS: &[RowOf] = &[
    (micro::ANOMALY, MISSES, || superpage_of(4), 72),
    (micro::ANOMALY, MISSES, || superpage_of(8), 72),
    (micro::ANOMALY, MISSES, || superpage_of(16), 720),
    (micro::ANOMALY, MISSES, || partial_of(8), 72),
    (micro::ANOMALY, MISSES, || partial_of(16), 72),
    (micro::OBJECT_60K, ENTRIES, || SUPERPAGE.into(), 15),
    (micro::OBJECT_60K, ENTRIES, || PARTIAL.into(), 1),
    (micro::OBJECT_64K, ENTRIES, || SUPERPAGE.into(), 1),
    (micro::OBJECT_64K, ENTRIES, || PARTIAL.into(), 1),
    (micro::HOLE, ENTRIES, || SUPERPAGE.into(), 15),
    (micro::HOLE, ENTRIES, || PARTIAL.into(), 1),
    (micro::UNALIGNED, ENTRIES, || SUPERPAGE.into(), 15),
    (micro::UNALIGNED, ENTRIES, || PARTIAL.into(), 1),
    (micro::ATTRIBUTE, ENTRIES, || SUPERPAGE.into(), 16),
    (micro::ATTRIBUTE, ENTRIES, || PARTIAL.into(), 2),
    (micro::ONE_DIRTY, DIRTY, || SINGLE.into(), 64),
    (micro::ONE_DIRTY, DIRTY, || PARTIAL.into(), 64),
    (micro::ONE_DIRTY, DIRTY, || SUPERPAGE.into(), 64 * 16),
    (micro::HALF_FILE, NEVER_USED, || SUPERPAGE.into(), 64 * 8),
    (micro::HALF_FILE, NEVER_USED, || PARTIAL.into(), 0),
];

const MISSES: (&str, Read) = ("misses", |m| m.counts.tlb.misses);
/// Entries in use before the program ends, which drops all of them; nothing is invalidated before that.
const ENTRIES: (&str, Read) = ("entries in use", |m| {
    let tlb = &m.counts.tlb;
    tlb.fills - tlb.merges - tlb.covered_drops - tlb.evictions
});
const DIRTY: (&str, Read) = ("pages to write back", |m| m.counts.os.dirty_pages);
const NEVER_USED: (&str, Read) = ("pages populated, never used", |m| m.counts.os.populated_never_used);

/// What was found for a row.
pub(in crate::study) fn found(results: &Results, row: usize) -> Option<u64> {
    let (program, (_, read), machine, _) = &ROWS[row];
    results.machine(program, &machine()).map(read)
}

fn show(results: &Results, section: &mut Section) {
    let mut table = Table::new("What is found, and what the rules give", "program");
    table.column("machine", Origin::Measured, "");
    table.column("what", Origin::Measured, "");
    table.column("found", Origin::Measured, "pages");
    table.column("by the rules", Origin::Computed, "pages");
    for (i, (program, (what, _), machine, want)) in ROWS.iter().enumerate() {
        let cells = vec![Cell::Text(machine()), Cell::from(*what), found(results, i).into(), Cell::Count(*want)];
        table.row(*program, cells);
    }
    section.tables.push(table);
}
