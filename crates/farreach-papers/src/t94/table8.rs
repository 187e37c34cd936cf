//! Table 8: the ranking, derived from Tables 6 and 7.

use super::table7::{DESIGNS, LEAST, MOST, Sizing, sizing};
use super::*;
use crate::machines::{COMPLETE, PARTIAL, SINGLE, SUPERPAGE, relative_area, sized};
use crate::printed;
use crate::study::Study;
use farreach_types::papers::{Origin, Section, Table};

pub(crate) const STUDY: Study = Study {
    id: "t94-table8",
    title: "Rank of the designs at equal entries and at equal area",
    rules: "T94-75, CW-1, CW-3",
    plan: |results, set| {
        let mut wanted = grid(set, &[SINGLE, SUPERPAGE, PARTIAL, COMPLETE].map(str::to_owned));
        wanted.extend((super::table7::STUDY.plan)(results, set));
        wanted
    },
    section,
};

/// Row of the printed table, design, extra support, and the printed ranks.
const ROWS: [(&str, &str); 4] = [
    ("single-page-size", SINGLE),
    ("superpage", SUPERPAGE),
    ("partial-subblock", PARTIAL),
    ("complete-subblock", COMPLETE),
];

/// Geometric mean over programs of the misses in percent of the single-page-size TLB, at 64 entries.
pub(crate) fn mean_misses(results: &Results, set: &Set, machine: &str) -> Option<f64> {
    let shares: Option<Vec<f64>> = set.programs.iter().map(|p| results.percent(&p.name, machine, SINGLE)).collect();
    geometric_mean(&shares?)
}

/// Geometric mean over programs of the area that performs like 64 superpage entries. A design that never performs so
/// counts with the largest size tried, which is in its favour. A design that always does counts with the smallest size
/// tried, which is not.
pub(crate) fn mean_area(results: &Results, set: &Set, machine: &str) -> Option<f64> {
    if machine == SUPERPAGE {
        return (!set.programs.is_empty()).then_some(1.0);
    }
    let (_, preset, _) = DESIGNS.iter().find(|d| d.1 == machine)?;
    let area = |p: &crate::Program| {
        let entries = match sizing(results, &p.name, preset).ok()? {
            Sizing::Found { best, .. } => best,
            Sizing::Never => MOST,
            Sizing::Always => LEAST,
        };
        relative_area(&sized(preset, entries))
    };
    geometric_mean(&set.programs.iter().map(area).collect::<Option<Vec<_>>>()?)
}

fn geometric_mean(values: &[f64]) -> Option<f64> {
    // Zero has no logarithm; a thousandth of a percent is used instead.
    let log = values.iter().map(|v| v.max(0.001).ln()).sum::<f64>();
    (!values.is_empty()).then(|| (log / values.len() as f64).exp())
}

/// 1 for the smallest.
fn rank(values: &[Option<f64>], i: usize) -> Option<u64> {
    let mine = values[i]?;
    Some(1 + values.iter().flatten().filter(|v| **v < mine).count() as u64)
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let paper = printed::table("t94_table8");
    let mut table = Table::new("Geometric means over the programs, and ranks", "design");
    table.column("extra support", Origin::Printed, "");
    table.column("equal entries", Origin::Measured, "% of single misses");
    table.column("equal entries", Origin::Measured, "rank");
    table.column("equal entries", Origin::Printed, "");
    table.column("equal misses", Origin::Measured, "x area");
    table.column("equal misses", Origin::Measured, "rank");
    table.column("equal area", Origin::Printed, "");
    let shares = ROWS.map(|(_, machine)| mean_misses(results, set, machine));
    let areas = ROWS.map(|(_, machine)| mean_area(results, set, machine));
    for (i, (row, _)) in ROWS.iter().enumerate() {
        table.row(
            *row,
            vec![
                paper.cell(row, "extra_os_support"),
                shares[i].into(),
                rank(&shares, i).into(),
                paper.cell(row, "rank_at_equal_entries"),
                areas[i].into(),
                rank(&areas, i).into(),
                paper.cell(row, "rank_at_equal_area"),
            ],
        );
    }
    section.tables.push(table);
    section.note(
        "The rank at equal area is that of the area at equal misses (Table 7): the same comparison, read the other \
         way.",
    );
}
