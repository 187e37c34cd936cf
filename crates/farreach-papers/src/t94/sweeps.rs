//! Figures 4 and 5: misses by superpage size and by subblock factor.

use super::*;
use crate::machines::{SINGLE, partial_of, superpage_of};
use crate::printed;
use crate::study::Study;
use farreach_types::papers::{Chart, Origin, Section, Series, Table};

pub(crate) const FIGURE_4: Study = Study {
    id: "t94-fig4",
    title: "Misses by superpage size, 64 entries",
    rules: "T94-76, AMB-16, AMB-17, CW-5",
    plan: |_, set| grid(set, &PAGES.map(superpage_of)),
    section: |results, set, section| {
        let names = ["4K", "4K+8K", "4K+16K", "4K+32K", "4K+64K"];
        sweep(results, set, section, "superpage size", names, superpage_of, "super64_k");
        anchors(section, set, results);
    },
};

pub(crate) const FIGURE_5: Study = Study {
    id: "t94-fig5",
    title: "Misses by factor of a partial-subblock TLB, 64 entries",
    rules: "T94-49, T94-76, CW-5",
    plan: |_, set| grid(set, &PAGES.map(partial_of)),
    section: |results, set, section| {
        sweep(results, set, section, "factor", ["1", "2", "4", "8", "16"], partial_of, "partial64_k");
    },
};

/// Base pages of a superpage, or the factor.
pub(crate) const PAGES: [u64; 5] = [1, 2, 4, 8, 16];

fn sweep(
    results: &Results,
    set: &Set,
    section: &mut Section,
    x: &str,
    names: [&str; 5],
    machine: fn(u64) -> String,
    last: &str,
) {
    let paper = printed::table("t94_table6");
    let mut table = Table::new("Misses in percent of those of the single-page-size TLB", "program");
    for name in names {
        table.column(name, Origin::Measured, "%");
    }
    table.column(names[4], Origin::Printed, "%");
    let mut chart = Chart {
        title: section.title.clone(),
        x: x.into(),
        places: names.map(str::to_owned).into(),
        y: "misses, single page size = 1".into(),
        series: Vec::new(),
    };
    for p in &set.programs {
        let shares: Vec<Option<f64>> = PAGES.iter().map(|&n| results.percent(&p.name, &machine(n), SINGLE)).collect();
        let mut cells: Vec<Cell> = shares.iter().map(|&s| s.into()).collect();
        cells.push(share(&paper, p, last, "single64_k"));
        table.row(head(p), cells);
        chart.series.push(Series { name: head(p), values: shares.into_iter().map(|s| s.map(|s| s / 100.0)).collect() });
    }
    section.tables.push(table);
    section.charts.push(chart);
    section.note(
        "The printed curves are lost; only their ends, which are Table 6, and the values that the text names are \
         known. The curves are measured here.",
    );
    section.note(SUBSTITUTES);
}

/// The three values of compress that the text of the paper gives.
fn anchors(section: &mut Section, set: &Set, results: &Results) {
    for p in set.programs.iter().filter(|p| p.stands_for == "compress") {
        let mut table = Table::new(&format!("The anomaly of {}", head(p)), "superpage size");
        table.column("misses", Origin::Measured, "%");
        table.column("misses", Origin::Printed, "%");
        for (name, pages, printed) in [("4K", 1, 21_347.0), ("4K+32K", 8, 103.0), ("4K+64K", 16, 714.0)] {
            let measured = results.percent(&p.name, &superpage_of(pages), SINGLE);
            table.row(name, vec![measured.into(), Cell::Number(100.0 * printed / 21_347.0)]);
        }
        section.tables.push(table);
    }
}
