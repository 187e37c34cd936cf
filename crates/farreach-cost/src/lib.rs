//! Costs from counts: cycles, share of run time, chip area, energy, and the ledger of benefit against cost.
//!
//! Owns the prices (their keys and defaults, each with its source) and the formulas of the papers, as pure functions of
//! counts and configuration: the same counts give the same costs, at any time after the run.
//!
//! Must not know how counts come about: no design, no operating system, no stream. Changing a price never needs a new
//! run. It uses keys and bits per entry of the hardware layer, and runs no hardware.

pub mod area;
pub mod compaction;
pub mod contexts;
pub mod contiguity;
pub mod cycles;
pub mod energy;
pub mod hardware;
pub mod keys;
pub mod knees;
pub mod ledger;
pub mod overhead;
pub mod pages;
mod parts;
pub mod system;
pub mod today;
pub mod watch;

pub use keys::{COMMON_KEYS, COST_KEYS, SYSTEM_KEYS};
pub use ledger::ledger;

use farreach_hw::tlb::EntryBits;
use farreach_types::counts::{Cost, Counts, Energy, Workload};
use farreach_types::params::Params;

/// The cost of one machine. `bits` are those of an entry of its TLB where the area model applies, and then `params` has
/// the key `entries`; `reach` is what a full TLB maps. `params` must declare [`COST_KEYS`]. [`energy`] is added by
/// those who know the design.
pub fn cost(counts: &Counts, workload: &Workload, params: &Params, bits: Option<EntryBits>, reach: u64) -> Cost {
    let cycles = cycles::miss_cycles(&counts.tlb, params);
    let instructions = workload.instructions;
    let cpi = params.number(keys::CPI.name);
    Cost {
        cycles,
        walk_cycles: (counts.tlb.walk.walks > 0).then(|| cycles::walk_cycles(&counts.tlb, params)),
        os_cycles: cycles::os_cycles(&counts.os, params)
            + cycles::shootdown_cycles(&counts.tlb, params)
            + cycles::hypervisor_cycles(&counts.tlb, params),
        cycles_per_instruction: (instructions > 0).then(|| cycles as f64 / instructions as f64),
        percent_of_time: cycles::percent_of_time(cycles, instructions, cpi),
        total_cycles_per_instruction: cycles::total(cycles, instructions, cpi),
        area_rbe: bits.map(|bits| area::area_rbe(params.int("entries"), bits)),
        compaction: None,
        energy_pj: None,
        energy: Energy::default(),
        reach_bytes: reach,
    }
}
