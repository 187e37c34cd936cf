//! What was counted phase by phase (`--every`), for a terminal and as rows of CSV.

use super::format::{bytes, count, rate};
use super::grid::{broken, lines};
use farreach_types::counts::{MachineResult, Phase, RunResult};
use serde_json::{Map, Value as Json};

/// Misses for each thousand lookups.
pub(super) fn per_thousand(phase: &Phase) -> f64 {
    1000.0 * phase.misses as f64 / phase.lookups.max(1) as f64
}

/// The machines that have phases.
pub(super) fn machines(result: &RunResult) -> impl Iterator<Item = &MachineResult> {
    result.machines.iter().filter(|machine| !machine.phases.is_empty())
}

/// What a column shows: its name, and the cell of a phase.
type Column = (&'static str, fn(&Phase) -> String);

/// A table with a row for each phase; nothing if the run has none.
pub fn render(result: &RunResult, width: usize) -> String {
    let machines: Vec<&MachineResult> = machines(result).collect();
    let Some(first) = machines.first() else { return String::new() };
    let columns: [Column; 3] = [
        ("Misses", |phase| count(phase.misses)),
        ("Misses in a thousand lookups", |phase| rate(per_thousand(phase))),
        ("Resident at the end of the phase", |phase| bytes(phase.resident_bytes)),
    ];
    let mut out = String::new();
    for (name, cell) in columns {
        let heads = |first: &str, names: bool| {
            let name = |machine: &&MachineResult| if names { broken(&machine.name) } else { String::new() };
            let second = if names { "instructions" } else { "" };
            [first, second].map(str::to_owned).into_iter().chain(machines.iter().map(name)).collect()
        };
        let rows: Vec<Vec<String>> = (0..first.phases.len())
            .map(|at| {
                let numbers = [(at + 1).to_string(), count(first.phases[at].instructions)];
                numbers.into_iter().chain(machines.iter().map(|machine| cell(&machine.phases[at]))).collect()
            })
            .collect();
        out += &format!("\n{name}, phase by phase\n");
        out += &lines(&[heads("", false), heads("phase", true)], &rows, width);
    }
    out
}

/// Rows of CSV behind those of the whole run: `phase` counts from 1, and stands in these alone.
pub(super) fn rows(machine: &MachineResult) -> impl Iterator<Item = Map<String, Json>> {
    machine.phases.iter().zip(1..).map(|(phase, number)| {
        let mut row = Map::new();
        row.insert("name".into(), Json::from(machine.name.as_str()));
        row.insert("phase".into(), Json::from(number));
        row.extend(super::csv::flat("", super::csv::json(phase)));
        row
    })
}
