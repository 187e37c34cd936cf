//! Table 6: the performance model and its inputs.

use super::*;
use farreach_cost::overhead::{Measured, PerformanceModel};
use large::{RMM_4K, RMM_THP, model};

pub(crate) const STUDY: Study = Study {
    id: "rmm15-table6",
    title: "The performance model and its inputs",
    rules: "RMM15-40, AMB-99, CA-36",
    plan: |_, set| large::grid(set.large.iter(), &[RMM_4K, RMM_THP]),
    section,
};

/// The example of RMM15-40: T, C, M with 4 KB and with 2 MB pages, and simulated walks.
const EXAMPLE: (PerformanceModel, f64) = (
    PerformanceModel {
        base: Measured { cycles: 135.0, walk_cycles: 45.0, walks: 9.0 },
        large: Measured { cycles: 100.0, walk_cycles: 10.0, walks: 2.0 },
    },
    0.09,
);

fn section(results: &Results, set: &Set, section: &mut Section) {
    let paper = printed::table("rmm15_table6");
    let mut formulas =
        Table::new("Formulas, and an example: T_2M 100, C_2M 10, C_4K 45, M_4K 9, M_SIM 0.09", "quantity");
    formulas.column("formula", Origin::Printed, "");
    formulas.column("example", Origin::Computed, "");
    let (example, walks) = EXAMPLE;
    let values = [
        example.ideal_cycles(),
        example.base.cycles_per_walk(),
        example.base_overhead(),
        example.simulated_overhead(walks),
    ];
    for (row, value) in paper.rows().zip(values) {
        formulas.row(row, vec![paper.text(row, "formula").into(), Cell::Number(value)]);
    }
    let mut inputs = Table::new("Inputs, measured here", "program");
    for (name, unit) in [
        ("T, 2 MB", "cycles"),
        ("C, 2 MB", "cycles"),
        ("C, 4 KB", "cycles"),
        ("M, 4 KB", "walks"),
        ("AvgC, 4 KB", "cycles"),
        ("T_ideal", "cycles"),
        ("T / T_ideal, 4 KB", "x"),
        ("T / T_ideal, 2 MB", "x"),
    ] {
        inputs.column(name, Origin::Measured, unit);
    }
    for p in &set.large {
        let m = model(results, &p.name);
        let cell = |read: fn(&PerformanceModel) -> f64| Cell::from(m.as_ref().map(read));
        inputs.row(
            &p.name,
            vec![
                cell(|m| m.large.cycles),
                cell(|m| m.large.walk_cycles),
                cell(|m| m.base.walk_cycles),
                cell(|m| m.base.walks),
                cell(|m| m.base.cycles_per_walk()),
                cell(PerformanceModel::ideal_cycles),
                cell(|m| m.times()[0]),
                cell(|m| m.times()[1]),
            ],
        );
    }
    section.tables = vec![formulas, inputs];
    section.note(large::CYCLES);
    section.note("The 2 MB run is the one with transparent huge pages.");
}
