//! Table 3: how much of memory could lie in a segment.

use super::*;
use large::DS_TRACKED;

pub(crate) const STUDY: Study = Study {
    id: "ds13-table3",
    title: "Memory in private anonymous read-write regions that are no stack",
    rules: "DS13-34, CW-11",
    plan: |_, set| large::grid(of_ds13(set), &[DS_TRACKED]),
    section,
};

/// Mean over the events of the process, in percent.
pub(crate) fn share(results: &Results, program: &str) -> Option<f64> {
    let used = results.machine(program, DS_TRACKED)?.segments.as_ref()?;
    (used.mapped_page_samples > 0)
        .then(|| 100.0 * used.read_write_page_samples as f64 / used.mapped_page_samples as f64)
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let paper = printed::table("ds13_table3");
    let mut table = Table::new("Share of the address space, mean over all samples", "program");
    table.column("read-write, anonymous", Origin::Measured, "%");
    table.column("read-write, anonymous", Origin::Printed, "%");
    table.column("the rest", Origin::Measured, "%");
    table.column("the rest", Origin::Printed, "%");
    for Stand { program, head, row } in stands(of_ds13(set), &paper) {
        let (here, there) = (share(results, &program.name), paper.number(&row, "pct_memory_rw_anonymous"));
        let cells = [here, there, here.map(|s| 100.0 - s), there.map(|s| 100.0 - s)];
        table.row(head, cells.map(Cell::from).into());
    }
    section.tables.push(table);
    section.note(
        "A sample is taken at each event of the process that maps, unmaps or protects memory, in pages of regions; the \
         paper samples with time.",
    );
    section.note(large::SCALED);
}
