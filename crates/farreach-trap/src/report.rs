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
}

/// Microseconds of CPU time that the kernel spends for a trap at most, beside the monitor: an exception and two
/// switches of processes.
const KERNEL_MICROSECONDS: u64 = 10;

impl TrapReport {
    /// The CPU time so far, and what of it the traps took. The kernel does not tell the time of traps from that of the
    /// program's own system calls: as much of both is taken for traps as they can have cost.
    pub fn pace(&self) -> Pace {
        let system = self.cpu_microseconds.saturating_sub(self.user_microseconds);
        let traps = self.monitor_microseconds + system.min(KERNEL_MICROSECONDS * self.traps());
        Pace { time: (self.cpu_microseconds + self.monitor_microseconds) as f64, trap_time: traps as f64 }
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
