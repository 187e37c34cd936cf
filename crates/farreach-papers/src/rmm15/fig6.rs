//! Figure 6: overhead of page walks, relative to an ideal run.

use super::*;
use crate::stress::{self, Stress};
use farreach_types::papers::{Bars, Chart, Program, Series};
use large::{DS_1G, RMM_4K, RMM_CLUSTERED, RMM_RANGE, RMM_THP, mean};

pub(crate) const STUDY: Study = Study {
    id: "rmm15-fig6",
    title: "Overhead of page walks relative to an ideal run",
    rules: "RMM15-40, RMM15-42, AMB-93, AMB-94, CW-12",
    plan: |_, set| large::grid(set.large.iter(), &BARS.map(|b| b.1).map(|m| if m == IDEAL { RMM_4K } else { m })),
    section,
};

/// In place of a machine: the ideal direct segment. Every machine with page walks counts what it would have saved
/// (RMM15-42).
pub(crate) const IDEAL: &str = "ideal segment";

/// Bars of the figure, and the segment of DS13.
pub(crate) const BARS: [(&str, &str); 7] = [
    ("4 KB", RMM_4K),
    ("clustered", RMM_CLUSTERED),
    ("THP", RMM_THP),
    ("1 GB", DS_1G),
    ("ideal segment", IDEAL),
    ("segment of DS13", large::DS_SEGMENT),
    ("RMM", RMM_RANGE),
];

/// Overhead in percent of the ideal run. Nothing for 1 GB pages where no region holds one.
pub(crate) fn overhead(results: &Results, program: &str, machine: &str) -> Option<f64> {
    if machine == DS_1G && results.machine(program, machine)?.counts.os.superpage_faults == 0 {
        return None;
    }
    if machine == IDEAL {
        let ideal = results.machine(program, RMM_4K)?.ideal_segment.as_ref()?;
        let walks = ideal.walks_outside - ideal.fetch_walks_outside;
        return Some(100.0 * large::model(results, program)?.simulated_overhead(walks as f64));
    }
    large::overhead(results, program, machine)
}

/// Mean over the programs.
pub(crate) fn average(results: &Results, set: &Set, machine: &str) -> Option<f64> {
    mean(set.large.iter().map(|p| overhead(results, &p.name, machine)))
}

/// Printed in the text, in whole percent.
fn in_text(row: &str) -> Option<f64> {
    let anchors = printed::table("rmm15_fig_anchors");
    let what = format!("4KB overhead {row}");
    let share = anchors.records().find(|r| r[0] == "6" && r[1].eq_ignore_ascii_case(&what))?[2].parse::<f64>().ok()?;
    Some((100.0 * share).round())
}

/// Overhead with 4 KB pages beside the printed one, for this row of the paper.
fn stress_of(results: &Results, program: &Program, row: &str) -> Option<Stress> {
    let (printed, measured) = (in_text(row)?, overhead(results, &program.name, RMM_4K)?);
    Some(Stress { of: row.into(), measured, printed, unit: " %" })
}

/// The same for the least that the program is asked for.
pub(crate) fn stress(results: &Results, program: &Program) -> Option<Stress> {
    let all = program.stands_for.split(", ").filter_map(|row| stress_of(results, program, row));
    all.min_by(|a, b| a.printed.total_cmp(&b.printed))
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let paper = printed::table("rmm15_table4");
    let mut table = Table::new("Percent of the ideal run", "program");
    for (name, _) in BARS {
        table.column(name, Origin::Measured, "%");
        if name == "4 KB" {
            table.column(name, Origin::Printed, "%");
            table.column(stress::COLUMN, Origin::Measured, "");
        }
    }
    let mut stressed = Vec::new();
    for Stand { program, head, row } in stands(set.large.iter(), &paper) {
        let mut cells: Vec<Cell> = BARS.iter().map(|b| overhead(results, &program.name, b.1).into()).collect();
        let stress = stress_of(results, program, &row);
        cells.splice(1..1, [in_text(&row).into(), Stress::cell(stress.as_ref())]);
        table.row(head.as_str(), cells);
        stressed.extend(stress.map(|stress| (head, stress)));
    }
    let mut cells: Vec<Cell> = BARS.iter().map(|b| average(results, set, b.1).into()).collect();
    cells.splice(1..1, [Cell::Nothing, Cell::Nothing]);
    table.row("mean of the programs", cells);
    section.tables.push(table);
    let series = BARS.map(|(name, machine)| Series {
        name: name.into(),
        values: set.large.iter().map(|p| overhead(results, &p.name, machine)).collect(),
    });
    section.bars.push(Bars {
        chart: Chart {
            title: "Overhead of page walks".into(),
            x: "program".into(),
            places: set.large.iter().map(|p| p.name.clone()).collect(),
            y: "% of the ideal run".into(),
            series: series.into(),
        },
        clip: Some(60.0),
    });
    section.note(
        "The ideal segment has all regions that lived with one size for more than 80 % of the run, wherever they lie; \
         that of DS13 is one piece of address space. Clustered, both segments and RMM are walks counted here at the \
         price of a walk with 4 KB pages (Table 6). The paper's figure has no numbers but those in its text. 1 GB \
         pages only where a region holds one.",
    );
    stress::note(stressed.iter().map(|(head, stress)| (head.as_str(), stress)))
        .into_iter()
        .for_each(|n| section.note(n));
    section.note(large::CYCLES);
    section.note(large::SCALED);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_text_says_is_found() {
        let found = ["mcf", "cactusADM", "Graph500", "GUPS"].map(in_text);
        assert_eq!(found, [Some(42.0), Some(39.0), Some(29.0), None]);
    }
}
