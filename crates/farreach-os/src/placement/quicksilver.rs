//! FreeBSD's reservations, prepared early (QKS; Zhu and others, ATC 2020): once some pages of a reservation are in use,
//! the rest is filled with zeros in bulk, and all of it is a superpage. Reservations that get no pages any more are
//! broken up after a while. What is freed of a superpage stays reserved until then (QKS-3), as FreeBSD's rules have it.

use super::contract::{Filling, FrameRequest, Placement, PlacementKind, SuperpageRule};
use super::freebsd::{FreeBsd, PAGES, TICK};
use super::thp::ALLOCATOR;
use crate::background::TICKS_PER_MS;
use crate::background::contract::Daemon;
use crate::memory::Memory;
use crate::os::Os;
use farreach_types::addr::Pfn;
use farreach_types::params::{Allowed, Key, Params};

const THRESHOLD: Key = Key {
    name: "qks_threshold",
    default: "64",
    allowed: Allowed::Int { min: 1, max: 1 << 18 },
    about: "pages of a reservation in use at which the rest is filled with zeros and promoted (QKS-1)",
};
const LATER: Key = Key {
    name: "qks_async",
    default: "false",
    allowed: Allowed::Flag,
    about: "it is filled in the next millisecond, in the background, not by the fault (QKS-1; then qks_threshold = \
            256)",
};
const INACTIVE: Key = Key {
    name: "qks_inactive_ms",
    default: "5000",
    allowed: Allowed::Int { min: 1, max: 1 << 40 },
    about: "milliseconds without a new page after which a reservation is broken up (QKS-2); see ticks_per_ms",
};

/// Registry entry.
pub const QUICKSILVER: PlacementKind = PlacementKind {
    name: "quicksilver",
    about: "as freebsd, with reservations that are filled and promoted early, and broken up when idle (Quicksilver)",
    keys: &[&PAGES, &TICK, &THRESHOLD, &LATER, &INACTIVE, &TICKS_PER_MS, &ALLOCATOR],
    build,
};

struct Quicksilver {
    freebsd: FreeBsd,
    filling: Filling,
    daemon: Option<Ticker>,
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let filling = Filling::Pages { least: params.int(THRESHOLD.name), later: params.flag(LATER.name) };
    let ms = params.int(TICKS_PER_MS.name);
    let daemon = Ticker { ms, inactive: params.int(INACTIVE.name), due: ms, filled: 0 };
    Ok(Box::new(Quicksilver { freebsd: FreeBsd::new(params), filling, daemon: Some(daemon) }))
}

impl Placement for Quicksilver {
    fn set_up(&mut self, memory: &mut Memory) -> Result<(), String> {
        self.freebsd.set_up(memory)
    }

    fn daemons(&mut self) -> Vec<Box<dyn Daemon>> {
        self.daemon.take().into_iter().map(|daemon| Box::new(daemon) as Box<dyn Daemon>).collect()
    }

    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        self.freebsd.allocate(memory, request)
    }

    fn allocate_copy(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        self.freebsd.allocate_copy(memory, request)
    }

    fn forks_objects(&self) -> bool {
        self.freebsd.forks_objects()
    }

    fn superpage_rule(&self) -> Option<SuperpageRule> {
        self.freebsd.superpage_rule()
    }

    fn filling(&self) -> Option<Filling> {
        Some(self.filling)
    }

    fn counters(&self, memory: &Memory) -> Vec<(String, u64)> {
        let tally = &memory.reservations.tally;
        let mut counters = self.freebsd.counters(memory);
        counters.extend([("inactive", tally.inactive), ("filled_pages", tally.filled)].map(|(n, c)| (n.to_owned(), c)));
        counters
    }
}

/// What is done every millisecond.
struct Ticker {
    /// Instructions of a millisecond.
    ms: u64,
    inactive: u64,
    due: u64,
    /// Pages filled in the background.
    filled: u64,
}

impl Daemon for Ticker {
    fn due(&self) -> u64 {
        self.due
    }

    fn run(&mut self, os: &mut Os, now: u64) {
        let before = os.memory.reservations.tally.filled;
        os.fill_waiting();
        self.filled += os.memory.reservations.tally.filled - before;
        os.memory.break_inactive(now / self.ms, self.inactive);
        self.due = now.saturating_add(self.ms);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("zero_pages_background", self.filled)]
    }
}

#[cfg(test)]
mod tests;
