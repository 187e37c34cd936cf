//! Table 9: misses by number of entries.

use super::*;
use crate::machines::{PARTIAL, SINGLE, SUPERPAGE, sized};
use crate::printed;
use crate::study::Study;
use farreach_types::papers::{Chart, Origin, Section, Series, Table};

pub(crate) const STUDY: Study = Study {
    id: "t94-table9",
    title: "Misses of single-page-size, superpage and partial-subblock TLBs by number of entries",
    rules: "T94-76, CW-2",
    plan: |_, set| {
        let all = DESIGNS.iter().flat_map(|d| ENTRIES.map(|n| sized(d.1, n)));
        grid(set, &all.collect::<Vec<_>>())
    },
    section,
};

/// The numbers of entries.
pub(crate) const ENTRIES: [u64; 4] = [32, 64, 128, 256];

const DESIGNS: [(&str, &str, &str); 3] =
    [("single", SINGLE, "single"), ("superpage", SUPERPAGE, "super64KB"), ("partial", PARTIAL, "partial16")];

fn section(results: &Results, set: &Set, section: &mut Section) {
    let paper = printed::table("t94_table9");
    for (name, preset, column) in DESIGNS {
        let mut table =
            Table::new(&format!("{name}: misses, and in percent of the 64-entry single-page-size TLB"), "program");
        for n in ENTRIES {
            table.column(format!("{n} entries"), Origin::Measured, "misses");
            table.column(format!("{n} entries"), Origin::Measured, "%");
            table.column(format!("{n} entries"), Origin::Printed, "%");
        }
        for p in &set.programs {
            let cells = ENTRIES.iter().flat_map(|&n| {
                let machine = sized(preset, n);
                let percent = results.percent(&p.name, &machine, SINGLE).into();
                let printed = match paper.cell(&p.stands_for, &format!("{column}_{n}_k")) {
                    Cell::Doubtful(k) => paper
                        .number(&p.stands_for, "single_64_k")
                        .map_or(Cell::Nothing, |b| Cell::Doubtful(100.0 * k / b)),
                    _ => share(&paper, p, &format!("{column}_{n}_k"), "single_64_k"),
                };
                [misses(results, p, &machine), percent, printed]
            });
            table.row(head(p), cells.collect());
        }
        section.tables.push(table);
    }
    for p in &set.programs {
        let line = |(name, preset, _): (&str, &str, &str)| Series {
            name: name.into(),
            values: ENTRIES.iter().map(|&n| results.misses(&p.name, &sized(preset, n)).map(|m| m as f64)).collect(),
        };
        section.charts.push(Chart {
            title: head(p),
            x: "entries".into(),
            places: ENTRIES.iter().map(u64::to_string).collect(),
            y: "misses".into(),
            series: DESIGNS.into_iter().map(line).collect(),
        });
    }
    section.note(SUBSTITUTES);
    paper.doubts().for_each(|d| section.note(d));
}
