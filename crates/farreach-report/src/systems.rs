//! The further text tables of machines with caches: the composition of their overhead, and how often which of caches
//! and TLB hit (SV97's Tables 4 and 1).

use super::format::{NONE, significant};
use super::grid::{broken, lines};
use farreach_types::counts::{MachineResult, OverheadRow, RunResult, SideCounts};

/// A column of the first table: heading, and which rows of the overhead it adds up.
type Part = ([&'static str; 2], fn(&OverheadRow) -> bool);

const PARTS: [Part; 12] = [
    (["handler", "data"], |r| r.event == "handler run for a load or store"),
    (["handler", "fetch"], |r| r.event == "handler run for a fetch"),
    (["load", "L1-D"], |r| r.event == "handler data load misses L1-D"),
    (["load", "L2-D"], |r| r.event == "handler data load misses L2-D"),
    (["", "UPTE"], |r| r.event == "handler loads the missing UPTE"),
    (["code", "L1-I"], |r| r.event == "handler fetch misses L1-I"),
    (["code", "L2-I"], |r| r.event == "handler fetch misses L2-I"),
    (["all", "misses"], |r| r.of_misses),
    (["write-", "backs"], OverheadRow::is_write_back),
    (["protec-", "tion"], OverheadRow::is_protection),
    (["seg-", "ments"], OverheadRow::is_segment),
    (["", "CPI"], |_| true),
];

/// Where a line was found, and whether a TLB had to be filled for it: the classes of SV97-42 in their order.
pub(super) const EVENTS: [[&str; 2]; 6] =
    [["", "L1"], ["L1,", "no TLB"], ["", "L2"], ["L2,", "no TLB"], ["", "memory"], ["memory,", "no TLB"]];

/// Both tables; nothing if no machine has caches.
pub(super) fn render(result: &RunResult, width: usize) -> String {
    let machines = || result.machines.iter().filter_map(|m| Some((m, m.system.as_ref()?)));
    if machines().next().is_none() {
        return String::new();
    }
    let overhead: Vec<Vec<String>> = machines().map(|(m, _)| parts(m)).collect();
    let mut out = "\nWhat translation costs, in cycles per instruction\n\n".to_owned();
    out += &table("machine", PARTS.map(|(heading, _)| heading), overhead, width);
    out += "\n  all misses: what stands left of it. load, UPTE: page table entries; code: of the handler.\n";
    out += "\nWhere references were served, in percent of the lines they touched\n\n";
    let side = |m: &MachineResult, name: &str, side: &SideCounts| {
        let share = |n: &u64| match (side.accesses, n) {
            (0, _) => NONE.to_owned(),
            (_, 0) => "0".to_owned(),
            (all, n) => significant(100.0 * *n as f64 / all as f64),
        };
        std::iter::once(broken(&m.name) + name).chain(side.events.iter().map(share)).collect()
    };
    let rows = machines().flat_map(|(m, s)| [side(m, " fetch", &s.fetch), side(m, " data", &s.data)]);
    out + &table("machine, side", EVENTS, rows.collect(), width)
}

fn parts(machine: &MachineResult) -> Vec<String> {
    let sum = |part: fn(&OverheadRow) -> bool| {
        machine.overhead.iter().filter(|row| part(row)).map(|row| row.cpi).try_fold(0.0, |sum, cpi| Some(sum + cpi?))
    };
    let cell = |(_, part): &Part| {
        sum(*part).map_or_else(|| NONE.into(), |cpi| if cpi == 0.0 { "0".into() } else { significant(cpi) })
    };
    std::iter::once(broken(&machine.name)).chain(PARTS.iter().map(cell)).collect()
}

/// A table without empty columns.
fn table<const N: usize>(first: &str, headings: [[&str; 2]; N], rows: Vec<Vec<String>>, width: usize) -> String {
    let used = |i: &usize| rows.iter().any(|row| row[*i + 1] != "0");
    let columns: Vec<usize> = (0..N).filter(used).collect();
    let head = |line: usize, first: &str| {
        std::iter::once(first.to_owned()).chain(columns.iter().map(|&i| headings[i][line].to_owned())).collect()
    };
    let keep =
        |row: &Vec<String>| std::iter::once(0).chain(columns.iter().map(|i| i + 1)).map(|i| row[i].clone()).collect();
    lines(&[head(0, ""), head(1, first)], &rows.iter().map(keep).collect::<Vec<_>>(), width)
}
