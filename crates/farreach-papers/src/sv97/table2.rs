//! Table 2: the cost of TLBs in real systems, as printed, beside the cost of the machines here.

use super::*;
use crate::printed;
use crate::study::Study;
use farreach_types::papers::{Origin, Section, Table};

pub(crate) const STUDY: Study = Study {
    id: "sv97-table2",
    title: "What translation costs: systems with TLBs as quoted in the paper, and the machines measured here",
    rules: "SV97-30 to SV97-32, SV97-40, SV97-45, AMB-46, AMB-47",
    plan: |_, set| grid(set, &MACHINES.map(|m| m.1.to_owned())),
    section,
};

const MACHINES: [(&str, &str); 5] =
    [("mips", MIPS), ("x86", "sv97/x86"), ("softvm", SOFTVM), ("spur", "sv97/spur"), ("vmp", "sv97/vmp")];

fn section(results: &Results, set: &Set, section: &mut Section) {
    let paper = printed::table("sv97_table2");
    let mut quoted = Table::new("TLBs on MIPS under five systems, quoted", "system");
    quoted.column("overhead", Origin::Printed, "CPI");
    quoted.column("with protection changes, of run time", Origin::Printed, "%");
    for system in paper.rows() {
        quoted.row(system, ["overhead_cpi", "overhead_pct_runtime"].map(|c| paper.cell(system, c)).into());
    }
    let mut cpi = Table::new("Overhead of misses; softvm besides with write-backs", "program");
    let mut time =
        Table::new("Share of run time, and the cycles per instruction it is a share of (SV97-45)", "program");
    for (name, machine) in MACHINES {
        cpi.column(name, Origin::Measured, "CPI");
        time.column(name, Origin::Measured, "%");
        time.column(name, Origin::Measured, "total CPI");
        if machine == SOFTVM {
            cpi.column("softvm, write-backs too", Origin::Measured, "CPI");
        }
    }
    let mut all: Vec<Vec<Option<f64>>> = Vec::new();
    for p in programs(set) {
        let mut row = Vec::new();
        let mut times = Vec::new();
        for (_, machine) in MACHINES {
            let found = results.machine(&p.name, machine);
            row.push(found.and_then(overhead));
            if machine == SOFTVM {
                row.push(found.and_then(with_write_backs));
            }
            let total = found.and_then(|m| Some(rest(m)? + overhead(m)?));
            times.extend([Cell::from(found.and_then(percent_of_time)), total.into()]);
        }
        cpi.row(head(p), row.iter().map(|&x| x.into()).collect());
        time.row(head(p), times);
        all.push(row);
    }
    if !all.is_empty() {
        let means = (0..cpi.columns.len()).map(|i| mean(all.iter().map(|row| row[i])).into());
        cpi.row("mean", means.collect());
    }
    section.tables = vec![quoted, cpi, time];
    section.note(
        "The quoted systems are measurements of real machines, operating system and user tasks together. Machines here \
         simulate the references of user tasks and of miss handlers only, so the two stand side by side and are not \
         the same quantity.",
    );
    section.note(
        "Total CPI: cpi (1) for an instruction, l2_cycles (20) and memory_cycles (90) for the program's own cache \
         misses, and the overhead.",
    );
    section.note(SUBSTITUTES);
}

/// Misses and write-backs.
pub(crate) fn with_write_backs(machine: &MachineResult) -> Option<f64> {
    Some(overhead(machine)? + write_backs(machine)?)
}
