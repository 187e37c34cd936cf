//! Virtual machines: walks in two dimensions, a merged table, and both.

use super::*;

pub(crate) const STUDY: Study = Study {
    id: "since-guests",
    title: "Virtual machines: nested, shadow and agile paging: walks, traps, cycles",
    rules: "SHD-1, SHD-2, AGI-1 to AGI-3",
    plan: |_, set| grid(few(set), &[BASE, NESTED, SHADOW, AGILE]),
    section,
};

/// A merged table.
pub(crate) const SHADOW: &str = "since/shadow";
/// A merged table above, walks in two dimensions below, where the guest writes.
pub(crate) const AGILE: &str = "since/agile";
/// Instructions after which a node that the guest did not write is merged again (AGI-2).
pub(crate) const EPOCH: u64 = 100_000_000;

/// A machine on a program: cycles of translation with traps, and time, an instruction a cycle.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Paid {
    pub cycles: u64,
    pub instructions: u64,
}

impl Paid {
    pub fn of(results: &Results, program: &str, machine: &str) -> Option<Paid> {
        let measured = results.measured(program, machine)?;
        Some(Paid { cycles: measured.machine.cost.cycles, instructions: measured.workload.instructions })
    }

    /// Instructions at a cycle each, and the cycles.
    pub fn time(&self) -> u64 {
        self.instructions + self.cycles
    }
}

/// Traps into the hypervisor.
pub(crate) fn traps(results: &Results, program: &str, machine: &str) -> Option<u64> {
    let part = results.machine(program, machine)?.counts.tlb.parts.get("host")?;
    Some(["changes", "faults", "switches", "fills", "dirty"].iter().map(|name| part.counters.get(name)).sum())
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let mut table = Table::new("Nested, shadow and agile paging", "program");
    for name in ["native", "nested", "shadow", "agile"] {
        table.column(format!("{name}, references"), Origin::Measured, "a walk");
    }
    for name in ["shadow", "agile"] {
        table.column(format!("{name}, traps"), Origin::Measured, "traps");
    }
    for name in ["nested", "shadow", "agile"] {
        table.column(format!("{name}, cycles"), Origin::Measured, "% of native");
    }
    table.column("instructions", Origin::Measured, "% of an epoch");
    for p in few(set) {
        let each = |machine| Cell::from(Walks::of(results, &p.name, machine).and_then(|w| w.each()));
        let paid = |machine| Paid::of(results, &p.name, machine);
        let of_native = |machine| Cell::from(paid(machine).zip(paid(BASE)).map(|(a, b)| share(a.cycles, b.cycles)));
        let mut cells: Vec<Cell> = [BASE, NESTED, SHADOW, AGILE].map(each).into();
        cells.extend([SHADOW, AGILE].map(|m| Cell::from(traps(results, &p.name, m))));
        cells.extend([NESTED, SHADOW, AGILE].map(of_native));
        cells.push(paid(BASE).map(|b| share(b.instructions, EPOCH)).into());
        table.row(&p.name, cells);
    }
    section.tables.push(table);
    section.note(
        "A trap costs 2000 cycles, in cycles of translation. Agile paging walks a node in two dimensions once the \
         guest wrote it twice within an epoch of 10^8 instructions, and merges it again after an epoch without \
         (AGI-2). A program that is shorter than an epoch has no node that rests: its first touches are such writes.",
    );
    section.note(MODEL);
}
