//! Cycles of the machines with caches (SV97-40 to SV97-45).

use super::cycles::{charge, os_cycles, percent_of_time, price, total};
use super::keys;
use farreach_types::counts::{Cost, Counts, Energy, HandlerCounts, OverheadRow, SystemCounts, Workload};
use farreach_types::params::{Key, Params};

/// The rows of Table 4, in its order: what happens, how often, and the key of its price.
fn handler_rows(counts: &HandlerCounts) -> [(&'static str, u64, &'static Key); 7] {
    [
        ("handler run for a load or store", counts.data_runs, &keys::HANDLER),
        ("handler run for a fetch", counts.fetch_runs, &keys::HANDLER),
        ("handler data load misses L1-D", counts.l1d_misses, &keys::L2),
        ("handler data load misses L2-D", counts.l2d_misses, &keys::MEMORY),
        ("handler loads the missing UPTE", counts.upte_loads, &keys::MEMORY),
        ("handler fetch misses L1-I", counts.l1i_misses, &keys::L2),
        ("handler fetch misses L2-I", counts.l2i_misses, &keys::MEMORY),
    ]
}

/// Overhead that misses do not cause: write-backs (SV97-20), protection (SV97-44), segments.
fn other_rows(counts: &SystemCounts) -> [(&'static str, u64, &'static Key); 7] {
    let not = |looked: u64, changed: u64| looked - changed;
    [
        ("protection sweep, L1 line changed", counts.sweep_l1_changed, &keys::SWEEP_L1_CHANGE),
        (
            "protection sweep, L1 line looked for",
            not(counts.sweep_l1_looked, counts.sweep_l1_changed),
            &keys::SWEEP_L1_LOOK,
        ),
        ("protection sweep, L2 line changed", counts.sweep_l2_changed, &keys::SWEEP_L2_CHANGE),
        (
            "protection sweep, L2 line looked for",
            not(counts.sweep_l2_looked, counts.sweep_l2_changed),
            &keys::SWEEP_L2_LOOK,
        ),
        ("trap for a line behind a raise", counts.lazy_traps, &keys::TRAP),
        ("trap for the protection of a line or segment", counts.protection_traps, &keys::TRAP),
        ("segment register loaded", counts.segment_loads, &keys::SEGMENT),
    ]
}

/// All rows with their price and share. Rows of misses first; those of write-backs are the same events once more.
pub fn rows(counts: &SystemCounts, workload: &Workload, params: &Params) -> Vec<OverheadRow> {
    let row = |prefix: &str, of_misses: bool, (event, count, key): (&str, u64, &'static Key)| {
        let penalty = price(params, key);
        let per_instruction = (workload.instructions > 0).then(|| count as f64 / workload.instructions as f64);
        let cpi = per_instruction.map(|frequency| super::cycles::event_cpi(frequency, penalty));
        OverheadRow { event: format!("{prefix}{event}"), count, penalty, per_instruction, cpi, of_misses }
    };
    let misses = handler_rows(&counts.handler).into_iter().map(|r| row("", true, r));
    let write_backs = handler_rows(&counts.write_back).into_iter().map(|r| row("write-back: ", false, r));
    misses.chain(write_backs).chain(other_rows(counts).into_iter().map(|r| row("", false, r))).collect()
}

/// Cycles of misses alone: the overhead of Tables 3 and 4.
pub fn miss_cycles(counts: &SystemCounts, params: &Params) -> u64 {
    charge(&handler_rows(&counts.handler).map(|(_, count, key)| (count, price(params, key))))
}

/// The cost of a machine with caches. `cycles` are those of translation: misses, write-backs, protection, segments
/// (SV97-41), without fetching the program's own lines (AMB-45).
pub fn cost(counts: &SystemCounts, all: &Counts, workload: &Workload, params: &Params, reach: u64) -> Cost {
    let rows =
        handler_rows(&counts.handler).into_iter().chain(handler_rows(&counts.write_back)).chain(other_rows(counts));
    let cycles = charge(&rows.map(|(_, count, key)| (count, price(params, key))).collect::<Vec<_>>());
    let instructions = workload.instructions;
    // SV97-45: everything else is an instruction to a cycle at `cpi`, and the program's own misses.
    let side = |s: &farreach_types::counts::SideCounts| {
        [(s.l1_misses, price(params, &keys::L2)), (s.l2_misses, price(params, &keys::MEMORY))]
    };
    let stalls = charge(&[side(&counts.fetch), side(&counts.data)].concat());
    let cpi = price(params, &keys::CPI) + if instructions > 0 { stalls as f64 / instructions as f64 } else { 0.0 };
    Cost {
        compaction: None,
        cycles,
        walk_cycles: None,
        os_cycles: os_cycles(&all.os, params),
        cycles_per_instruction: (instructions > 0).then(|| cycles as f64 / instructions as f64),
        percent_of_time: percent_of_time(cycles, instructions, cpi),
        total_cycles_per_instruction: total(cycles, instructions, cpi),
        area_rbe: None,
        energy_pj: None,
        energy: Energy::default(),
        reach_bytes: reach,
    }
}
