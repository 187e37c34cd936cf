//! Table 1: the support of the operating system that makes a superpage TLB useful.

use super::*;
use crate::machines::{SINGLE, SUPERPAGE};
use crate::printed;
use crate::study::Study;
use farreach_types::papers::{Column, Origin, Section, Table};

pub(crate) const STUDY: Study = Study {
    id: "t94-table1",
    title: "Misses of a 64-entry superpage TLB as operating-system support is added",
    rules: "T94-77, CW-4",
    plan: |_, set| grid(set, &LADDER.map(|l| l.1.to_owned())),
    section,
};

/// The steps of T94-77: what the system does, and the machine. From the third step on, all mechanisms exist; the steps
/// differ in the objects that they serve.
pub(crate) const LADDER: [(&str, &str); 5] = [
    ("nothing; single-page-size TLB", SINGLE),
    ("nothing; superpage TLB", "t94/superpage:placement=demand,promote=none"),
    ("TLB and page-table support", "t94/superpage:reserve=,promote_kinds="),
    ("and superpages for mapped files", "t94/superpage:reserve=file+nfs,promote_kinds=file+nfs"),
    ("and superpages for heaps", SUPERPAGE),
];

fn section(results: &Results, set: &Set, section: &mut Section) {
    let paper = printed::table("t94_table1");
    let mut table = Table::new("Misses of 64 entries", "program");
    table.columns = LADDER
        .map(|(support, _)| Column { name: support.into(), origin: Origin::Measured, unit: "misses".into() })
        .into();
    for p in &set.programs {
        table.row(head(p), LADDER.iter().map(|(_, machine)| misses(results, p, machine)).collect());
    }
    // Transposed, as printed: a row per step.
    let mut relative = Table::new("In percent of the unmodified system", "support");
    let like: Vec<_> =
        ["gcc", "mp3d"].iter().flat_map(|n| set.programs.iter().filter(move |p| p.stands_for == **n)).collect();
    for p in &like {
        relative.column(head(p), Origin::Measured, "%");
        relative.column(head(p), Origin::Printed, "%");
    }
    for (rung, (support, machine)) in LADDER.iter().enumerate() {
        let row = (rung + 1).to_string();
        let cells = like.iter().flat_map(|p| {
            let printed =
                paper.number(&row, &p.stands_for).zip(paper.number("1", &p.stands_for)).map(|(a, b)| 100.0 * a / b);
            [results.percent(&p.name, machine, SINGLE).into(), printed.into()]
        });
        relative.row(*support, cells.collect());
    }
    section.tables.push(table);
    if !like.is_empty() {
        section.tables.push(relative);
    }
    section.note(SUBSTITUTES);
}
