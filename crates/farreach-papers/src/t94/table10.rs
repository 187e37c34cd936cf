//! Table 10: complete subblocks of small factors against single pages, at equal area.

use super::*;
use crate::machines::{SINGLE, relative_area, sized};
use crate::printed;
use crate::study::Study;
use farreach_types::papers::{Origin, Section, Table};

pub(crate) const STUDY: Study = Study {
    id: "t94-table10",
    title: "Misses at equal area: 80 single-page-size entries, 64 complete of factor 2, 45 complete of factor 4",
    rules: "T94-76, AREA-8, CW-6",
    plan: |_, set| grid(set, &TRIPLE.map(|t| t.1.to_owned())),
    section,
};

/// Name, machine, printed column.
pub(crate) const TRIPLE: [(&str, &str, &str); 3] = [
    ("single, 80 entries", "t94/single:entries=80", "single_80e_k"),
    ("factor 2, 64 entries", "t94/complete:factor=2", "complete_f2_64e_k"),
    ("factor 4, 45 entries", "t94/complete:entries=45,factor=4", "complete_f4_45e_k"),
];

fn section(results: &Results, set: &Set, section: &mut Section) {
    let paper = printed::table("t94_table10");
    let mut table = Table::new("Misses", "program");
    for (name, ..) in TRIPLE {
        table.column(name, Origin::Measured, "misses");
        table.column(name, Origin::Measured, "% of 80 single");
        table.column(name, Origin::Printed, "thousand");
    }
    for p in &set.programs {
        let cells = TRIPLE.iter().flat_map(|(_, machine, column)| {
            let percent = results.percent(&p.name, machine, &sized(SINGLE, 80)).into();
            [misses(results, p, machine), percent, super::printed(&paper, p, column)]
        });
        table.row(head(p), cells.collect());
    }
    let mut areas = Table::new("Area, 64 superpage entries = 1", "design");
    areas.column("area", Origin::Computed, "x");
    for (name, machine, _) in TRIPLE {
        areas.row(name, vec![relative_area(machine).into()]);
    }
    section.tables = vec![table, areas];
    section.note(SUBSTITUTES);
    paper.doubts().for_each(|d| section.note(d));
    section.note("26 of the 30 printed values are lost: the comparison with the paper is one of direction only.");
}
