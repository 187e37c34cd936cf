//! The sanity report: traps by cause, their time, and what was not observed.

use farreach_machine::Pace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a run by traps saw and did not see.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TrapReport {
    /// Traps of fetches.
    pub fetches: u64,
    /// Traps of loads.
    pub loads: u64,
    /// Traps of stores to pages that were not mapped.
    pub stores: u64,
    /// Traps of stores to pages that were mapped for loads only: the first store that an operating system must see.
    pub first_stores: u64,
    /// Of all traps, those at which no machine missed: used bits that were cleared, first stores, pages that only some
    /// of several machines had lost.
    pub soft: u64,
    /// Of these, traps on pages that were mapped already: another thread came first, or the kernel had taken the page.
    pub again: u64,
    /// Faults where nothing is mapped any more; they count as no traps.
    pub stray: u64,
    /// Loads and stores among the traps on executable pages: a fetch of such a page afterwards is not seen, nor a load
    /// after a fetch. Matters to machines with a TLB for each side.
    pub data_in_code: u64,
    /// Reads of executable pages whose kind could not be told; taken for fetches.
    pub unknown_kind: u64,
    /// Traps of the kernel's references for the program, and the misses of all machines at them; none if they were not
    /// counted.
    pub kernel: Option<(u64, u64)>,
    /// How often another task had the turn than before.
    pub switches: u64,
    /// Turns that ended because the slice was used up.
    pub used_up: u64,
    /// Pages that left the real page table because a machine lost them.
    pub unmapped: u64,
    /// Of these, pages that the agent unmapped, because the kernel did not reclaim them.
    pub unmapped_by_agent: u64,
    /// Pages read from files that are mapped privately.
    pub file_pages: u64,
    /// System calls that changed mappings.
    pub calls: u64,
    /// Address spaces that a fork began.
    pub forks: u64,
    /// Pages that forks copied.
    pub copied_pages: u64,
    /// Address spaces that exec began, the first included.
    pub execs: u64,
    /// Most pages that were mapped at one time.
    pub most_mapped: u64,
    /// Mappings that were never observed, by the name of what is mapped: the bytes of the largest.
    pub unobserved: BTreeMap<String, u64>,
    /// System calls of the program that were refused, by name.
    pub refused: BTreeMap<String, u64>,
    /// What made the run slower or coarser than it could be, for people.
    pub notes: Vec<String>,
    /// Microseconds in which the monitor served traps.
    pub trap_microseconds: u64,
    /// Microseconds of CPU time of the monitor and its agents.
    pub monitor_microseconds: u64,
    /// Microseconds from the program's beginning to its end.
    pub wall_microseconds: u64,
    /// Microseconds of CPU time of the program's user code.
    pub user_microseconds: u64,
    /// Microseconds of CPU time of the program, in user code and in the kernel.
    pub cpu_microseconds: u64,
    /// Nanoseconds from a trap that is served to the next, where the program does next to nothing between them: two
    /// switches of processes and an exception. None if it could not be measured, as there were few traps, or long ways
    /// between them.
    pub between_nanoseconds: Option<u64>,
}

impl TrapReport {
    /// The CPU time since an earlier report of the same run, and what of it the traps took: the time in which they were
    /// served, and for each the way to the monitor and back, which the kernel does not tell from the program's own
    /// time. That way is too long where all ways have work of the program in them; so at least a hundredth is the
    /// program's.
    pub fn pace_since(&self, before: &TrapReport) -> Pace {
        let since = |of: fn(&TrapReport) -> u64| of(self).saturating_sub(of(before)) as f64;
        let time = since(|report| report.cpu_microseconds) + since(|report| report.monitor_microseconds);
        let between = since(TrapReport::traps) * self.between_nanoseconds.unwrap_or(0) as f64 / 1000.0;
        Pace { time, trap_time: (since(|report| report.trap_microseconds) + between).min(0.99 * time) }
    }

    /// Adds a note, once.
    pub(crate) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// All traps.
    pub fn traps(&self) -> u64 {
        self.fetches + self.loads + self.stores + self.first_stores
    }
}
