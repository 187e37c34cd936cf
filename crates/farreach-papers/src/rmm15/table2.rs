//! Table 2: entries that transparent huge pages need, and the ranges that would exist.

use super::*;
use farreach_types::counts::Contiguity;
use large::RMM_THP;

pub(crate) const STUDY: Study = Study {
    id: "rmm15-table2",
    title: "Entries that map all memory with transparent huge pages, and as ideal ranges",
    rules: "RMM15-44, CW-12",
    plan: |_, set| large::grid(set.large.iter(), &[RMM_THP]),
    section,
};

/// Contiguity of a program's memory under a machine that keeps ranges.
pub(crate) fn contiguity<'a>(results: &'a Results, program: &str, machine: &str) -> Option<&'a Contiguity> {
    results.machine(program, machine)?.contiguity.as_ref()
}

/// The largest of the ideal ranges, in percent of the mapped pages.
pub(crate) fn largest(results: &Results, program: &str) -> Option<f64> {
    let c = contiguity(results, program, RMM_THP)?;
    (c.mapped_pages > 0).then(|| 100.0 * c.ideal_largest_pages as f64 / c.mapped_pages as f64)
}

/// Pages of 4 KB and of 2 MB that map everything with transparent huge pages, at the moment with most pages.
fn entries(results: &Results, program: &str) -> Option<[u64; 2]> {
    let c = contiguity(results, program, RMM_THP)?;
    Some([c.mapped_pages - c.superpage_pages, c.superpages])
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let paper = printed::table("rmm15_table2");
    let mut table = Table::new("Entries", "program");
    for (name, unit) in [
        ("4 KB, with THP", "entries"),
        ("2 MB, with THP", "entries"),
        ("ideal ranges", "entries"),
        ("for 99 %", "entries"),
        ("largest", "%"),
    ] {
        table.column(name, Origin::Measured, unit);
        table.column(name, Origin::Printed, unit);
    }
    for Stand { program, head, row } in stands(set.large.iter(), &paper) {
        let (thp, ideal) = (entries(results, &program.name), contiguity(results, &program.name, RMM_THP));
        let printed = |column: &str| paper.cell(&row, column);
        table.row(
            head,
            vec![
                thp.map(|e| e[0]).into(),
                printed("thp_4k_entries"),
                thp.map(|e| e[1]).into(),
                printed("thp_2m_entries"),
                ideal.map(|c| c.ideal_ranges).into(),
                printed("ideal_ranges"),
                ideal.and_then(|c| c.ideal_cover_99).into(),
                printed("ranges_for_99pct"),
                largest(results, &program.name).into(),
                printed("largest_range_pct"),
            ],
        );
    }
    section.tables.push(table);
    section.note(
        "Entries are those of the page table. Ideal ranges are runs of mapped pages with equal permission, in any \
         frames. Both in the address space and at the moment with most pages, under transparent huge pages. \
         All are counted, also those below 8 pages, as in the printed table; Table 7 counts ranges of 8 pages and \
         more.",
    );
    section.note(
        "A kernel has a handful of mappings: text, heap, stack, one for each large array, most of them side by side. A \
         linked program adds some fifty for its libraries, which is what the printed column has where memory is \
         otherwise in one piece.",
    );
    section.note(large::SCALED);
}
