//! Shared by the studies of DS13 and RMM15: their machines, and the row of a printed table for each program.

use super::printed::Printed;
pub use super::results::{grid, mean};
use crate::results::{Results, Set};
use farreach_cost::overhead::{Measured, PerformanceModel};
use farreach_types::papers::{Cell, Program};

/// DS13-36, pages of 4 KB on demand.
pub const DS_4K: &str = "ds13/4k";
/// 2 MB pages from a pool.
pub const DS_2M: &str = "ds13/2m:pool=32G";
/// 1 GB pages from a pool.
pub const DS_1G: &str = "ds13/1g:pool=32G";
/// A direct segment that translates.
pub const DS_SEGMENT: &str = "ds13/segment:segment_memory=32G";
/// A direct segment whose pages are translated by paging, so that misses inside it are counted, as in the paper
/// (DS13-30).
pub const DS_TRACKED: &str = "ds13/segment:segment_memory=32G,segment_served_by=pages";
/// The same without registers: faults map the pages that the registers would give (DS13-25).
pub const DS_EMULATED: &str = "ds13/segment:segment_memory=32G,segment_served_by=pages,segment_mode=emulation";

/// Demand paging, 4 KB. Ranges are kept for their statistics.
pub const RMM_4K: &str = "rmm15/4k:ranges=true";
/// Demand paging with transparent 2 MB pages.
pub const RMM_THP: &str = "rmm15/thp:ranges=true";
/// 512 clusters of eight pages.
pub const RMM_CLUSTERED: &str = "rmm15/clustered";
/// 32 ranges.
pub const RMM_RANGE: &str = "rmm15/range";
/// Eager paging with the same TLBs and no range TLB: the baseline for range TLBs.
pub const RMM_OFF: &str = "rmm15/range:range_tlb=false";

/// RMM with another number of ranges.
pub fn ranges_of(entries: u64) -> String {
    if entries == 32 { RMM_RANGE.into() } else { format!("{RMM_RANGE}:range_entries={entries}") }
}

/// The workloads of DS13.
const DS13: [&str; 6] = ["graph500", "memcached", "MySQL", "NPB:BT", "NPB:CG", "GUPS"];

/// The programs that stand for one of DS13, and those that the user named.
pub fn of_ds13(set: &Set) -> impl Iterator<Item = &Program> + Clone {
    set.large.iter().filter(|p| p.stands_for.is_empty() || p.is_like(&DS13))
}

/// A row of a table: a program, and the row of the printed table that it stands for.
pub struct Stand<'a> {
    /// The program.
    pub program: &'a Program,
    /// Name of the row in our table.
    pub head: String,
    /// Name of the row in the printed table; empty if there is none.
    pub row: String,
}

/// A row for each printed row that a program stands for, in the order of the paper, then the programs that stand for
/// none.
pub fn stands<'a>(programs: impl Iterator<Item = &'a Program> + Clone, paper: &Printed) -> Vec<Stand<'a>> {
    let mut all = Vec::new();
    for row in paper.rows() {
        for program in programs.clone().filter(|p| p.is_like(&[row])) {
            all.push(Stand { program, head: format!("{} ({row})", program.name), row: row.into() });
        }
    }
    for program in programs {
        if !all.iter().any(|s: &Stand| s.program.name == program.name) {
            all.push(Stand { program, head: program.name.clone(), row: String::new() });
        }
    }
    all
}

/// The walks of a machine on a program, as counters would show them.
pub fn measured(results: &Results, program: &str, machine: &str) -> Option<Measured> {
    let found = results.measured(program, machine)?;
    Measured::of(&found.machine, &found.workload)
}

/// Table 6 of RMM15 for a program.
pub fn model(results: &Results, program: &str) -> Option<PerformanceModel> {
    Some(PerformanceModel { base: measured(results, program, RMM_4K)?, large: measured(results, program, RMM_THP)? })
}

/// Overhead of a simulated mechanism in percent of the ideal run (RMM15-40): its walks at the price of those of 4 KB
/// pages.
pub fn overhead(results: &Results, program: &str, machine: &str) -> Option<f64> {
    let model = model(results, program)?;
    let share = match machine {
        RMM_4K => model.base_overhead(),
        RMM_THP => model.large_overhead(),
        _ => model.simulated_overhead(measured(results, program, machine)?.walks),
    };
    Some(100.0 * share)
}

/// Misses of the data side.
pub fn data_misses(results: &Results, program: &str, machine: &str) -> Option<u64> {
    results.machine(program, machine).map(|m| m.counts.tlb.data_misses)
}

/// A number of bytes in MB.
pub fn megabytes(bytes: u64) -> Cell {
    Cell::Number(bytes as f64 / (1 << 20) as f64)
}

/// The note under every table of these papers.
pub const SCALED: &str = "The papers' programs and inputs are not available; each row is a program with the behaviour \
                          of the one in parentheses. Footprints are scaled down: small set 8 to 256 MB, full set 120 \
                          MB to 4 GB, where the papers have 54 to 75 GB for big-memory programs and 120 MB to 1.7 GB \
                          for the others. The TLBs are left unscaled: those of the papers. Shape, order and ratio can \
                          be compared, counts cannot.";
/// The note under every table with percent of time.
pub const CYCLES: &str = "Time is instructions at 1 cycle and page walks at 12 cycles for each node read: no data \
                          cache is simulated, so the share of walks is that of a program that waits for nothing else. \
                          Only loads and stores count, as in the paper; hits of the second level do not.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::printed;
    use farreach_machine::MachineSpec;

    #[test]
    fn machines_are_descriptions_that_can_be_read() {
        for machine in [
            DS_4K,
            DS_2M,
            DS_1G,
            DS_SEGMENT,
            DS_TRACKED,
            DS_EMULATED,
            RMM_4K,
            RMM_THP,
            RMM_CLUSTERED,
            RMM_OFF,
            &ranges_of(1),
            &ranges_of(32),
        ] {
            MachineSpec::parse(machine, 0).unwrap_or_else(|e| panic!("{e}"));
        }
    }

    #[test]
    fn a_program_has_a_row_for_each_one_it_stands_for() {
        let program = |name: &str, stands_for: &str| Program {
            name: name.into(),
            stands_for: stands_for.into(),
            ..Program::default()
        };
        let set = [program("mine", ""), program("bfs", "graph500"), program("spmv", "NPB:CG, soplex")];
        let heads =
            |table: &str| stands(set.iter(), &printed::table(table)).into_iter().map(|s| s.head).collect::<Vec<_>>();
        assert_eq!(heads("ds13_table5"), ["bfs (graph500)", "spmv (NPB:CG)", "mine"]);
        assert_eq!(heads("rmm15_table7"), ["spmv (soplex)", "bfs (Graph500)", "spmv (NPB:CG)", "mine"]);
    }
}
