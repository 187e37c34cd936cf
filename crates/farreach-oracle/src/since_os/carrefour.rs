//! Carrefour-LP on top of transparent huge pages ([`PlainHuge`]): pages move to the nodes of memory whose threads use
//! them, and superpages that several nodes use are split (CLP-1, CLP-2). Where these are silent:
//!
//! * ON-90 The i-th thread that runs is on core i mod C of C, and a node has the same number of cores as any other,
//!   with consecutive numbers.
//! * ON-91 A process runs when it touches memory or an event of it comes, before that takes effect. Its thread is that
//!   of the last `Switch`, or of the first `ThreadStart` if none had a name; the first to be named has the core of the
//!   one without a name. `Switch` deals a core at once. A child has the name of its parent's thread, and runs later.
//! * ON-92 A frame lies on the node of the thread that ran when it got its contents. A collapsed superpage lies where
//!   most of the pages lay that were copied, the lowest of equal nodes.
//! * ON-93 Walks are numbered from the start of the run. Samples are of addresses: what is mapped where another page
//!   was has its samples. Those of addresses where nothing is mapped when the daemon runs are dropped.
//! * ON-94 The home of a superpage, where nodes are equal, is that of its first frame; of equal nodes the home is
//!   taken if it is one of them, else the lowest. What has no samples stays where it is.
//! * ON-95 Superpages are on when walks are more than `walks` percent of the time since the last run, or faults more
//!   than `faults` percent; this is judged in each period, and first. A gain below 0 is none.
//! * ON-96 Hot superpages are split first, page p to node p mod N. Other leaves follow by process and address. What is
//!   on its node already does not move; a page fails that several entries name, or of the kernel, or without a frame.
//!   A superpage that is split is split in one page table.
//! * ON-97 A new frame or block is that of a fault, and the old ones are free at once.
//! * ON-98 Not modelled: compaction, promotion in place, files that are private.

mod config;
mod daemon;
mod threads;

pub use config::{Config, Wrong};

use crate::huge::PlainHuge;
use crate::paging::{Counts, Full, Model, Paging};
use crate::system::System;
use farreach_types::event::{Kind, Op};
use std::collections::BTreeMap;
use std::ops::Range;
use threads::Threads;

/// What is counted.
const OWN: [&str; 13] = [
    "carrefour_periods",
    "carrefour_decisions",
    "carrefour_splits",
    "carrefour_hot_splits",
    "carrefour_switched_on",
    "carrefour_failed_pages",
    "carrefour_copied_pages",
    "carrefour_migrated_pages",
    "carrefour_interleaved_pages",
    "walk_samples_local",
    "walk_samples_remote",
    "first_local_ppm_at_end",
    "last_local_ppm_at_end",
];

/// The model.
pub struct PlainCarrefour {
    config: Config,
    huge: PlainHuge,
    threads: Threads,
    /// Samples of this period by process, page and node.
    samples: BTreeMap<(u32, u64, u64), u64>,
    walks: u64,
    /// When the daemon ran last, with what was counted by then.
    ran: u64,
    walks_before: u64,
    counts_before: Counts,
    due: u64,
    on: bool,
    splitting: bool,
    counts: BTreeMap<&'static str, u64>,
    /// Translations that are invalid, and superpages that were split, by process and pages, since it was asked last.
    pub stale: Vec<(u32, Range<u64>)>,
    pub demoted: Vec<(u32, Range<u64>)>,
}

impl PlainCarrefour {
    pub fn new(config: Config) -> PlainCarrefour {
        let (samples, walks, ran, walks_before, counts_before, splitting, counts, stale, demoted) = Default::default();
        PlainCarrefour {
            huge: PlainHuge::new(config.huge.clone()),
            threads: Threads::new(config.cores, config.nodes),
            due: if config.nodes > 1 { config.period } else { u64::MAX },
            on: true,
            samples,
            walks,
            ran,
            walks_before,
            counts_before,
            splitting,
            counts,
            stale,
            demoted,
            config,
        }
    }

    fn add(&mut self, name: &'static str, count: u64) {
        *self.counts.entry(name).or_default() += count;
    }

    fn wrong(&self, rule: Wrong) -> bool {
        self.config.wrong == Some(rule)
    }

    /// The node of the frame of a mapped page.
    pub fn home(&self, process: u32, page: u64) -> u64 {
        let entry = self.huge.paging.entry(process, page).expect("it is mapped");
        self.huge.paging.nodes[&entry.frame]
    }

    /// ON-91, before a process does something.
    fn runs(&mut self, process: u32) {
        self.threads.run(process);
        self.huge.paging.node = self.threads.node(process);
    }
}

impl Model for PlainCarrefour {
    fn paging(&self) -> &Paging {
        &self.huge.paging
    }

    fn apply(&mut self, process: u32, op: &Op) {
        self.runs(process);
        self.huge.apply(process, op);
        self.threads.follow(process, op);
    }

    fn touch(&mut self, process: u32, page: u64, kind: Kind) -> Result<(), Full> {
        self.runs(process);
        self.huge.refer(process, page, kind)
    }

    /// It has no A, and what the kernel stores is no sample.
    fn reached(&mut self, process: u32, page: u64) {
        let _ = (process, page);
    }

    /// ON-93.
    fn walked(&mut self, process: u32, page: u64) {
        self.walks += 1;
        let mapped = self.huge.paging.entry(process, page).is_some();
        if self.config.nodes == 1 || !self.walks.is_multiple_of(self.config.sample) || !mapped {
            return;
        }
        let node = self.threads.node(process);
        *self.samples.entry((process, page, node)).or_default() += 1;
        let name = if self.home(process, page) == node { "walk_samples_local" } else { "walk_samples_remote" };
        self.add(name, 1);
    }

    fn due(&self) -> u64 {
        self.due
    }

    fn advance(&mut self, now: u64) {
        if self.due <= now {
            self.run(now);
        }
    }

    /// Without a daemon there are no counters.
    fn own(&self) -> Vec<(&'static str, u64)> {
        let names = OWN.iter().filter(|_| self.config.nodes > 1);
        names.map(|name| (*name, self.counts.get(name).copied().unwrap_or(0))).collect()
    }
}
