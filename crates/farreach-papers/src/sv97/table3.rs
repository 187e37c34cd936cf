//! Table 3: overhead of software translation by program, and the share of modified lines (SV97-43).

use super::*;
use crate::printed;
use crate::stress::{self, Stress};
use crate::study::Study;
use farreach_types::papers::{Origin, Section, Table};

pub(crate) const STUDY: Study = Study {
    id: "sv97-table3",
    title: "Overhead of software translation, program by program",
    rules: "SV97-20, SV97-41, SV97-43, SV97-45, AMB-43, CW-9",
    plan: |_, set| grid(set, &[SOFTVM, MIPS].map(str::to_owned)),
    section,
};

/// Modified lines written back, in percent of the runs of the miss handler.
pub(crate) fn dirty_victims(machine: &MachineResult) -> Option<f64> {
    let counts = machine.system.as_ref()?;
    let runs = counts.handler.data_runs + counts.handler.fetch_runs;
    (runs > 0).then(|| 100.0 * counts.dirty_victims as f64 / runs as f64)
}

/// What write-backs add, in percent of the overhead of misses.
pub(crate) fn rise(machine: &MachineResult) -> Option<f64> {
    overhead(machine).filter(|&cpi| cpi > 0.0).zip(write_backs(machine)).map(|(cpi, more)| 100.0 * more / cpi)
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let paper = printed::table("sv97_table3");
    let mut table = Table::new(
        "Overhead of misses, measured and printed, and of a TLB of 64 entries on the same caches",
        "program",
    );
    table.column("softvm", Origin::Measured, "CPI");
    table.column("softvm", Origin::Printed, "CPI");
    table.column(stress::COLUMN, Origin::Measured, "");
    table.column("mips", Origin::Measured, "CPI");
    table.column("softvm", Origin::Measured, "% of run time");
    table.column("softvm", Origin::Measured, "total CPI");
    let mut modified = Table::new("Modified lines that leave the second level", "program");
    modified.column("of handler runs", Origin::Measured, "%");
    modified.column("with write-backs", Origin::Measured, "CPI");
    modified.column("rise", Origin::Measured, "%");
    modified.column("if half were modified", Origin::Computed, "CPI");
    let on = |p: &Program| results.machine(&p.name, SOFTVM);
    let mut stressed = Vec::new();
    for p in programs(set) {
        let found = on(p);
        let stress = paper.number(like(p), "overhead_cpi").zip(found.and_then(overhead));
        let stress = stress.map(|(printed, measured)| Stress { of: like(p).into(), measured, printed, unit: " CPI" });
        table.row(
            head(p),
            vec![
                found.and_then(overhead).into(),
                paper.cell(like(p), "overhead_cpi"),
                Stress::cell(stress.as_ref()),
                overhead_of(results, p, MIPS).into(),
                found.and_then(percent_of_time).into(),
                found.and_then(|m| Some(rest(m)? + overhead(m)?)).into(),
            ],
        );
        modified.row(
            head(p),
            vec![
                found.and_then(dirty_victims).into(),
                found.and_then(table2::with_write_backs).into(),
                found.and_then(rise).into(),
                found.and_then(overhead).map(|cpi| 1.5 * cpi).into(),
            ],
        );
        stressed.extend(stress.map(|stress| (head(p), stress)));
    }
    let average = |value: &dyn Fn(&Program) -> Option<f64>| Cell::from(mean(programs(set).map(value)));
    if programs(set).next().is_some() {
        table.row(
            "mean",
            vec![
                average(&|p| overhead_of(results, p, SOFTVM)),
                paper.cell("weighted average", "overhead_cpi"),
                Cell::Nothing,
                average(&|p| overhead_of(results, p, MIPS)),
                average(&|p| on(p).and_then(percent_of_time)),
                average(&|p| on(p).and_then(|m| Some(rest(m)? + overhead(m)?))),
            ],
        );
    }
    section.tables = vec![table, modified];
    stress::note(stressed.iter().map(|(head, stress)| (head.as_str(), stress)))
        .into_iter()
        .for_each(|n| section.note(n));
    section.note("The printed mean is weighted, by weights that are not given; the measured one is arithmetic.");
    section.note(
        "The paper estimates write-backs: half of the misses displace a modified line, so overhead times 1.5. Here \
         they are counted.",
    );
    section.note(SUBSTITUTES);
}
