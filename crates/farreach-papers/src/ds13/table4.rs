//! Table 4 and Figure 4: time for page walks with each page size, and with a segment.

use super::*;
use crate::number_text::percent;
use crate::stress::{self, Stress};
use farreach_types::papers::{Bars, Chart, Program, Series};
use large::{DS_1G, DS_2M, DS_4K, DS_SEGMENT};

pub(crate) const TABLE_4: Study = Study {
    id: "ds13-table4",
    title: "Time spent on TLB misses, by page size",
    rules: "DS13-32, DS13-36, DS13-37, CW-11",
    plan: |_, set| large::grid(of_ds13(set), &[DS_4K, DS_2M, DS_1G]),
    section: by_page_size,
};

pub(crate) const FIGURE_4: Study = Study {
    id: "ds13-fig4",
    title: "Time spent on data TLB misses: three page sizes and a direct segment",
    rules: "DS13-2, DS13-31, DS13-32, AMB-65, CW-11",
    plan: |_, set| large::grid(of_ds13(set), &[DS_4K, DS_2M, DS_1G, DS_SEGMENT]),
    section: figure,
};

/// The paper clips its bars here.
const CLIP: f64 = 35.0;

/// Percent of all cycles in walks for data. Nothing for huge pages where no region holds one.
pub(crate) fn time(results: &Results, program: &str, machine: &str) -> Option<f64> {
    let found = results.machine(program, machine)?;
    if [DS_2M, DS_1G].contains(&machine) && found.counts.os.superpage_faults == 0 {
        return None;
    }
    Some(large::measured(results, program, machine)?.percent())
}

/// Time with 4 KB pages beside the printed one.
pub(crate) fn stress(results: &Results, program: &Program) -> Option<Stress> {
    stress::least(&printed::table("ds13_table4"), "dtlb_4k_pct", program, time(results, &program.name, DS_4K))
}

/// Percent of all cycles in walks for fetches.
fn fetch_time(results: &Results, program: &str) -> Option<f64> {
    let found = results.machine(program, DS_4K)?;
    let data = large::measured(results, program, DS_4K)?;
    let tlb = &found.counts.tlb;
    let walks =
        if tlb.data_misses == 0 { 0.0 } else { data.walk_cycles / tlb.data_misses as f64 * tlb.fetch_misses as f64 };
    Some(100.0 * walks / (data.cycles + walks))
}

fn by_page_size(results: &Results, set: &Set, section: &mut Section) {
    let paper = printed::table("ds13_table4");
    let mut table = Table::new("Percent of cycles", "program");
    for (name, unit) in [("data, 4 KB", "%"), ("fetches, 4 KB", "%"), ("data, 2 MB", "%"), ("data, 1 GB", "%")] {
        table.column(name, Origin::Measured, unit);
        table.column(name, Origin::Printed, unit);
    }
    table.column(stress::COLUMN, Origin::Measured, "");
    let mut stressed = Vec::new();
    for Stand { program, head, row } in stands(of_ds13(set), &paper) {
        let name = &program.name;
        let stress = paper.number(&row, "dtlb_4k_pct").zip(time(results, name, DS_4K));
        let stress = stress.map(|(printed, measured)| Stress { of: row.clone(), measured, printed, unit: " %" });
        table.row(
            head.as_str(),
            vec![
                time(results, name, DS_4K).into(),
                paper.cell(&row, "dtlb_4k_pct"),
                fetch_time(results, name).into(),
                paper.cell(&row, "itlb_4k_pct"),
                time(results, name, DS_2M).into(),
                paper.cell(&row, "dtlb_2m_pct"),
                time(results, name, DS_1G).into(),
                paper.cell(&row, "dtlb_1g_pct"),
                Stress::cell(stress.as_ref()),
            ],
        );
        stressed.extend(stress.map(|stress| (head, stress)));
    }
    section.tables.push(table);
    stress::note(stressed.iter().map(|(head, stress)| (head.as_str(), stress)))
        .into_iter()
        .for_each(|n| section.note(n));
    section.note(large::SCALED);
    section.note(large::CYCLES);
    section.note(
        "A huge page serves a region that holds a whole one. A program whose regions are smaller than 1 GB has none, \
         and no number in that column: see ds13-fig5 for footprints that do.",
    );
    paper.doubts().for_each(|d| section.note(d));
}

/// Bars of the figure.
const BARS: [(&str, &str); 4] = [("4 KB", DS_4K), ("2 MB", DS_2M), ("1 GB", DS_1G), ("direct segment", DS_SEGMENT)];

fn figure(results: &Results, set: &Set, section: &mut Section) {
    let programs: Vec<&Program> = of_ds13(set).collect();
    let mut table = Table::new("Percent of cycles in walks for data", "program");
    BARS.iter().for_each(|(name, _)| table.column(*name, Origin::Measured, "%"));
    for p in &programs {
        table.row(&p.name, BARS.iter().map(|(_, m)| time(results, &p.name, m).into()).collect());
    }
    section.tables.push(table);
    let series = BARS.map(|(name, machine)| Series {
        name: name.into(),
        values: programs.iter().map(|p| time(results, &p.name, machine)).collect(),
    });
    section.bars.push(Bars {
        chart: Chart {
            title: "Time in walks for data".into(),
            x: "program".into(),
            places: programs.iter().map(|p| p.name.clone()).collect(),
            y: "% of cycles".into(),
            series: series.into(),
        },
        clip: Some(CLIP),
    });
    section.note(
        "The paper's figure has no numbers but those of Table 4 and a few in the text; bars above 35 % are cut, with \
         their value, as there.",
    );
    if let Some(worst) = programs.iter().filter_map(|p| time(results, &p.name, DS_SEGMENT)).reduce(f64::max) {
        section.note(format!(
            "The largest share with a direct segment is {}; the paper has less than 0.5 % everywhere.",
            percent(worst)
        ));
    }
    section.note(large::CYCLES);
    section.note(large::SCALED);
}
