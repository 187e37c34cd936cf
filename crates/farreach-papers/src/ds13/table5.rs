//! Table 5: the misses that a segment removes, and the paper's linear model of the gain.

use super::*;
use farreach_cost::cycles::{linear_model, renormalised_model};
use large::{DS_4K, DS_EMULATED, DS_TRACKED};

pub(crate) const STUDY: Study = Study {
    id: "ds13-table5",
    title: "Data TLB misses inside the segment, and the time that would be left",
    rules: "DS13-25, DS13-30, DS13-31, AMB-66, CW-11",
    plan: |_, set| large::grid(of_ds13(set), &[DS_4K, DS_TRACKED, DS_EMULATED]),
    section,
};

/// Misses inside, all data misses, of a machine that translates the segment by pages.
pub(crate) fn inside(results: &Results, program: &str, machine: &str) -> Option<(u64, u64)> {
    let counts = &results.machine(program, machine)?.counts.tlb;
    Some((counts.segment.misses_inside, counts.data_misses))
}

/// The share in percent.
pub(crate) fn share(results: &Results, program: &str) -> Option<f64> {
    let (inside, all) = inside(results, program, DS_TRACKED)?;
    (all > 0).then(|| 100.0 * inside as f64 / all as f64)
}

/// The linear model, and the one relative to the shorter run, in percent of time.
pub(crate) fn left(results: &Results, program: &str) -> Option<[f64; 2]> {
    let (before, share) = (super::table4::time(results, program, DS_4K)?, share(results, program)? / 100.0);
    Some([linear_model(before, share), renormalised_model(before, share)])
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let (paper, times) = (printed::table("ds13_table5"), printed::table("ds13_table4"));
    let mut table = Table::new("4 KB pages; the segment is tracked, not used", "program");
    table.column("data misses", Origin::Measured, "misses");
    table.column("inside the segment", Origin::Measured, "%");
    table.column("inside the segment", Origin::Printed, "%");
    table.column("outside", Origin::Measured, "%");
    table.column("outside", Origin::Printed, "%");
    table.column("time left, linear model", Origin::Measured, "%");
    table.column("time left, linear model", Origin::Computed, "%");
    table.column("relative to the shorter run", Origin::Measured, "%");
    table.column("relative to the shorter run", Origin::Computed, "%");
    for Stand { program, head, row } in stands(of_ds13(set), &paper) {
        let name = &program.name;
        let printed = paper.number(&row, "pct_dtlb_misses_in_segment").zip(times.number(&row, "dtlb_4k_pct"));
        let (here, there) =
            (left(results, name), printed.map(|(q, c)| [linear_model(c, q / 100.0), renormalised_model(c, q / 100.0)]));
        let both = |i: usize| [Cell::from(here.map(|x| x[i])), Cell::from(there.map(|x| x[i]))];
        let first = vec![
            inside(results, name, DS_TRACKED).map(|x| x.1).into(),
            share(results, name).into(),
            paper.cell(&row, "pct_dtlb_misses_in_segment"),
            share(results, name).map(|s| 100.0 - s).into(),
            paper.number(&row, "pct_dtlb_misses_in_segment").map(|s| 100.0 - s).into(),
        ];
        table.row(head, first.into_iter().chain(both(0)).chain(both(1)).collect());
    }
    section.tables.push(table);
    section.note(
        "The model multiplies the time of 4 KB pages by the share of misses outside the segment; its columns marked as \
         model take the printed numbers of Tables 4 and 5. It understates what a segment brings: TLB entries and \
         caches that become free for others are not counted. ds13-fig4 has the segment itself.",
    );
    section.note(large::SCALED);
}
