//! How a change of a page table reaches the TLBs of the cores (SHD): which cores are interrupted, what they drop, and
//! what they keep until they take up the process again. A file for each mechanism, and a line in the registry at the
//! end of this one. `shootdown` chooses it.
//!
//! The default, `interrupts`, is no mechanism of this registry: each change is one request, and every core that may
//! hold entries of the process is interrupted and drops the changed pages alone.

mod broadcast;
mod generations;
mod global_ids;
mod late;
#[cfg(test)]
mod tests;

use crate::tlb::contract::FlushRequest;
use crate::tlb::parts::additions::Counter;
use farreach_types::addr::{Asid, VpnRange};
use farreach_types::params::{Allowed, Key, Params};
pub(super) use late::{CROWDED, LATE, REUSED};

/// SHD.
pub const SHOOTDOWN: Key = Key {
    name: "shootdown",
    default: NAMES[0],
    allowed: Allowed::OneOf(&NAMES),
    about: "how changes of mappings reach TLBs: interrupts to all cores with entries; Linux' generations and process \
            ids on x86; broadcast instructions (Arm); broadcast for processes of many cores (AMD); at the next tick of \
            each core (LATR)",
};

/// Assumed.
const ENTRY_CYCLES: Key = Key {
    name: "inval_entry_cycles",
    default: "200",
    allowed: Allowed::Number { min: 0.0, max: 1e12 },
    about: "cycles of an instruction that drops a page from the TLBs of its core",
};
/// Assumed.
const SPACE_CYCLES: Key = Key {
    name: "inval_all_cycles",
    default: "500",
    allowed: Allowed::Number { min: 0.0, max: 1e12 },
    about: "cycles of an instruction that drops all of a process from the TLBs of its core",
};
/// Assumed.
const BROADCAST_CYCLES: Key = Key {
    name: "inval_broadcast_cycles",
    default: "500",
    allowed: Allowed::Number { min: 0.0, max: 1e12 },
    about: "cycles of an instruction that drops translations from the TLBs of all cores",
};

/// The name of the part in [`TlbCounts::parts`](farreach_types::counts::TlbCounts).
pub const PART: &str = "shootdown";

/// Places in [`COUNTERS`].
pub(super) const REQUESTS: usize = 0;
pub(super) const ENTRY: usize = 1;
pub(super) const SPACE: usize = 2;
pub(super) const BROADCAST: usize = 3;
pub(super) const AT_SWITCH: usize = 4;

/// What is counted with every mechanism (OSC-4). Interrupts are `ipis` of the shootdowns.
pub const COUNTERS: &[Counter] = &[
    Counter::new("requests", "changes of page tables that TLBs had to follow"),
    Counter { price: Some(&ENTRY_CYCLES), ..Counter::new("local_inval_entry", "pages dropped by a core one by one") },
    Counter { price: Some(&SPACE_CYCLES), ..Counter::new("local_inval_all", "times a core dropped a whole process") },
    Counter { price: Some(&BROADCAST_CYCLES), ..Counter::new("broadcast_inval", "broadcast instructions") },
    Counter::new("switch_flushes", "of the whole processes, those that a core dropped as it took up a process"),
];

/// Sets of cores, as bits.
pub type CoreSet = u64;

/// Who does what for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Cores that drop the pages of the request, one by one.
    pub pages: CoreSet,
    /// Cores that drop the whole process.
    pub whole: CoreSet,
    /// Of these, cores that need no instruction for it, because the id of these entries is not used any more.
    pub unreachable: CoreSet,
    /// Cores that are interrupted for it.
    pub interrupted: CoreSet,
    /// Cores that drop the pages, or the whole process, later: when [`Deferring::serve`] says so.
    pub deferred: CoreSet,
    /// It should have been deferred, but there was no room for it.
    pub is_crowded: bool,
    /// Broadcast instructions, by which all cores drop the pages or, with none in `pages`, the whole process.
    pub broadcasts: u64,
}

impl Plan {
    /// Whether this core drops all of the process; `None`: it does nothing now.
    pub fn whole(&self, core: usize) -> Option<bool> {
        let is_in = |set: CoreSet| set >> core & 1 != 0;
        (is_in(self.pages) || is_in(self.whole)).then(|| is_in(self.whole))
    }
}

/// What a core drops before it runs a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtSwitch {
    /// What it has is current.
    Nothing,
    /// All entries of a process.
    Space(Asid),
    /// All entries.
    Everything,
}

/// A mechanism. It keeps which core has which process loaded.
pub trait Mechanism: Send {
    /// This core runs this process from now on: after another process, or after other cores ran.
    fn switch(&mut self, core: usize, to: Asid) -> AtSwitch;
    /// A change of a page table, made by the process that runs on this core.
    fn request(&mut self, request: &FlushRequest, from: usize) -> Plan;
    /// Whether entries of a process that this core still has are not to be believed: it drops them before it runs the
    /// process again.
    fn is_behind(&self, core: usize, asid: Asid) -> bool;
    /// The address space has ended: all cores have dropped it.
    fn ended(&mut self, asid: Asid);
    /// Page-table tags of a process, each of which is dropped by an instruction of its own (OS-SHD-5).
    fn tags(&self) -> u64 {
        1
    }
    /// Drops may wait.
    fn deferring(&mut self) -> Option<&mut dyn Deferring> {
        None
    }
    /// When the next tick of all cores is, in instructions, if drops may wait for it.
    fn next_tick(&self) -> u64 {
        u64::MAX
    }
    /// Whether entries of a core for some of these pages are to be dropped later.
    fn is_late(&self, core: usize, asid: Asid, pages: VpnRange) -> bool {
        let _ = (core, asid, pages);
        false
    }
}

/// What a core drops later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Late {
    /// The request. The whole process, if its pages are all there are.
    pub request: FlushRequest,
    /// Which cores drop it now, as bits.
    pub cores: CoreSet,
}

/// A mechanism whose drops wait for a tick of each core (OS-SHD-10).
pub trait Deferring {
    /// The tick has come, and all cores were served.
    fn ticked(&mut self, now: u64);
    /// What this core drops now.
    fn serve(&mut self, core: usize) -> Vec<Late>;
    /// Some of these pages are mapped anew: what cores drop at once, by interrupt.
    fn reused(&mut self, asid: Asid, pages: VpnRange) -> Vec<Late>;
}

/// A mechanism as the registry knows it.
pub struct Listed {
    /// Value of [`SHOOTDOWN`].
    pub name: &'static str,
    /// One line for display.
    pub about: &'static str,
    /// Its keys, with the prices of what it counts.
    pub keys: &'static [&'static Key],
    /// What it counts: [`COUNTERS`], and perhaps more behind them.
    pub counters: &'static [Counter],
    /// For this number of cores.
    build: fn(&Params, usize) -> Box<dyn Mechanism>,
}

/// All mechanisms but the default. A new one is a file, and a line here and among the names below.
pub const MECHANISMS: &[&Listed] =
    &[&generations::MECHANISM, &broadcast::MECHANISM, &global_ids::MECHANISM, &late::MECHANISM];
const NAMES: [&str; 5] = ["interrupts", "generations", "broadcast", "global_ids", "latr"];

fn listed(name: &str) -> Option<&'static Listed> {
    MECHANISMS.iter().copied().find(|listed| listed.name == name)
}

/// The keys of a mechanism, with those of its prices.
pub fn keys(name: &str) -> Option<&'static [&'static Key]> {
    listed(name).map(|listed| listed.keys)
}

/// What the mechanism of a machine counts, if it has one.
pub fn counters(params: &Params) -> Option<&'static [Counter]> {
    chosen(params).map(|listed| listed.counters)
}

fn chosen(params: &Params) -> Option<&'static Listed> {
    params.has(SHOOTDOWN.name).then(|| params.text(SHOOTDOWN.name)).and_then(listed)
}

/// The one that a machine has.
pub(super) fn build(params: &Params, cores: u64) -> Result<Option<Box<dyn Mechanism>>, String> {
    broadcast::has_enough_ids(params, cores)?;
    Ok(chosen(params).map(|listed| (listed.build)(params, cores as usize)))
}
