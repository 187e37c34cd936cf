//! The programs of a guest: address spaces of one name added up.

use super::{per_thousand, share};
use crate::format::{NONE, count, rate};
use crate::grid::{broken, placed};
use farreach_types::counts::{Context, RunResult};
use farreach_types::plural::pluralize;
use std::collections::{BTreeMap, BTreeSet};

/// Programs that have a row of their own. The others are one.
const PROGRAMS: usize = 12;

/// A program with all its address spaces, or several.
pub(crate) struct Program {
    /// Its name.
    pub(crate) name: String,
    /// Address spaces in which it ran.
    pub(crate) spaces: u64,
    /// Instructions in the kernel and in user mode.
    instructions: [u64; 2],
    /// Misses in the kernel and in user mode, by design; nothing for a design that does not count them so.
    misses: Vec<Option<[u64; 2]>>,
}

impl Program {
    /// Its instructions, and those that the kernel ran for it.
    pub(crate) fn instructions(&self) -> u64 {
        self.instructions.iter().sum()
    }

    /// The kernel's share of them, in percent.
    pub(crate) fn in_kernel(&self) -> Option<f64> {
        share(self.instructions[0], self.instructions())
    }

    /// Misses of a design.
    pub(crate) fn misses(&self, design: usize) -> Option<u64> {
        Some(self.misses[design]?.iter().sum())
    }

    /// The kernel's share of them, in percent.
    pub(crate) fn kernel_misses(&self, design: usize) -> Option<f64> {
        share(self.misses[design]?[0], self.misses(design)?)
    }

    /// Misses of a design for a thousand instructions.
    pub(crate) fn per_thousand(&self, design: usize) -> Option<f64> {
        per_thousand(self.misses(design)?, self.instructions())
    }

    fn add(&mut self, other: &Program) {
        let plus = |mine: &mut [u64; 2], other: &[u64; 2]| mine.iter_mut().zip(other).for_each(|(n, more)| *n += more);
        self.spaces += other.spaces;
        plus(&mut self.instructions, &other.instructions);
        for (mine, other) in self.misses.iter_mut().zip(&other.misses) {
            if let (Some(mine), Some(other)) = (mine, other) {
                plus(mine, other);
            }
        }
    }
}

/// Programs by name, those first that miss most in one design; the least of them are one, at the end. Nothing if no
/// address space has a name: the kernel before the first always has one.
pub(crate) fn programs(result: &RunResult, design: usize) -> Vec<Program> {
    let Some(guest) = &result.workload.guest else { return Vec::new() };
    if guest.contexts.iter().all(|of| of.context.space == 0 || of.context.program.is_empty()) {
        return Vec::new();
    }
    let empty = |name: &str| Program {
        name: name.to_owned(),
        spaces: 0,
        instructions: [0; 2],
        misses: result.machines.iter().map(|m| m.guest.as_ref().map(|_| [0; 2])).collect(),
    };
    let mut known: BTreeMap<&str, Program> = BTreeMap::new();
    let mut spaces = BTreeSet::new();
    let side = |context: &Context| usize::from(!context.kernel);
    for of in &guest.contexts {
        let name = of.context.program.as_str();
        let program = known.entry(name).or_insert_with(|| empty(name));
        program.instructions[side(&of.context)] += of.references.fetch;
        program.spaces += u64::from(of.context.space > 0 && spaces.insert((name, of.context.space)));
    }
    for (at, machine) in result.machines.iter().enumerate() {
        for row in machine.guest.iter().flat_map(|guest| &guest.contexts) {
            let name = row.context.program.as_str();
            let program = known.entry(name).or_insert_with(|| empty(name));
            if let Some(misses) = &mut program.misses[at] {
                misses[side(&row.context)] += row.counts.misses;
            }
        }
    }
    let mut all: Vec<Program> = known.into_values().collect();
    // The sort is stable: equal programs stay in the order of their names.
    all.sort_by_key(|program| std::cmp::Reverse((program.misses(design), program.instructions())));
    all.iter_mut().filter(|program| program.name.is_empty()).for_each(|program| program.name = "(no name)".into());
    if all.len() > PROGRAMS + 1 {
        let more = all.len() - PROGRAMS;
        let mut rest = empty(&format!("{more} {}", pluralize(more as u64, "other program")));
        all.drain(PROGRAMS..).for_each(|program| rest.add(&program));
        all.push(rest);
    }
    all
}

/// The table by program; nothing if no program has a name.
pub(super) fn render(result: &RunResult, base: usize, width: usize) -> String {
    let programs = programs(result, base);
    if programs.is_empty() {
        return String::new();
    }
    let designs = || (0..result.machines.len()).filter(|&i| result.machines[i].guest.is_some());
    let mut heads = ["", "program"].map(|first| vec![first.to_owned()]);
    let mut head = |above: &str, below: &str| {
        heads[0].push(above.to_owned());
        heads[1].push(below.to_owned());
    };
    head("address", "spaces");
    head("instruc-", "tions");
    head("kernel", "%");
    for i in designs() {
        head(&broken(&result.machines[i].name), "misses");
        head("kernel", "%");
        head("per 1000", "instr.");
    }
    let number = |n: Option<f64>| n.map_or_else(|| NONE.to_owned(), rate);
    let row = |program: &Program| {
        let mut cells = vec![broken(&program.name), count(program.spaces), count(program.instructions())];
        cells.push(number(program.in_kernel()));
        for i in designs() {
            cells.push(program.misses(i).map_or_else(|| NONE.to_owned(), count));
            cells.extend([number(program.kernel_misses(i)), number(program.per_thousand(i))]);
        }
        cells
    };
    let rows: Vec<Vec<String>> = programs.iter().map(row).collect();
    let table = placed(&heads, &rows, |_| false, |i| i % 3 != 1, width);
    format!("\nBy program, with what the kernel did in its address spaces\n\n{table}")
}
