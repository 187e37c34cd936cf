//! Counts of an engine for all designs together: references, lookups and the pages they touch.

use super::lifetimes::Time;
use farreach_types::addr::Asid;
use farreach_types::counts::{HugePageWords, Lookups, SignalEnd};
use farreach_types::event::{End, Kind, Op};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Instructions so far.
    pub instructions: u64,
    /// References so far.
    pub references: u64,
}

/// Counts of the loop for all designs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// References before splitting at page boundaries.
    pub references: Lookups,
    /// Lookups of a further 4 KB page of one reference.
    pub further: Lookups,
    /// The same, by log2 of the largest page that begins at the boundary, for designs with larger base pages.
    pub crossings: [u64; ORDERS],
    /// Where lookups are not seen: the time that passed, which stands for them.
    pub passed: Option<u64>,
}

impl Tally {
    /// The count for `--limit`: instructions, or references in a stream that has none. Blocks without instructions
    /// among others (such as the rest of an instruction that faulted) add nothing.
    #[inline]
    pub fn limit_count(&self) -> u64 {
        match self.references.fetch {
            0 => self.references.total(),
            instructions => instructions,
        }
    }

    /// Progress of the run.
    pub fn progress(&self) -> Progress {
        Progress { instructions: self.references.fetch, references: self.references.total() }
    }

    /// Lookups in 4 KB pages: a reference makes one for each page it touches (XC-1).
    pub fn lookups(&self) -> Lookups {
        let Tally { references, further, .. } = self;
        Lookups {
            fetch: references.fetch + further.fetch,
            load: references.load + further.load,
            store: references.store + further.store,
        }
    }

    /// What was counted since `before`.
    pub fn since(&self, before: &Tally) -> Tally {
        Tally {
            references: self.references.since(&before.references),
            further: self.further.since(&before.further),
            crossings: std::array::from_fn(|i| self.crossings[i] - before.crossings[i]),
            passed: self.passed,
        }
    }

    /// What slices of a run are measured in: lookups, or what stands for them.
    #[inline]
    pub fn clock(&self) -> u64 {
        self.passed.unwrap_or_else(|| self.lookups().total())
    }

    /// The time for regions.
    pub fn time(&self) -> Time {
        Time { instructions: self.references.fetch, lookups: self.clock() }
    }

    /// Lookups in base pages of 2^k 4 KB pages.
    pub fn lookups_in(&self, k: u32) -> u64 {
        self.lookups().total() - self.crossings[..k as usize].iter().sum::<u64>()
    }
}

/// The counter of a kind.
#[inline(always)]
pub(super) fn counter_of(lookups: &mut Lookups, kind: Kind) -> &mut u64 {
    match kind {
        Kind::Fetch => &mut lookups.fetch,
        Kind::Load => &mut lookups.load,
        Kind::Store => &mut lookups.store,
    }
}

/// Processes and threads that a stream announces. A process stays itself through an exec, and so does the thread that
/// calls it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessCounts {
    starts: u64,
    execs: u64,
    forks: u64,
    threads: u64,
    huge_pages: HugePageWords,
    ended: BTreeSet<Asid>,
    /// Processes that a signal ended, by its number.
    signals: BTreeMap<i32, u64>,
}

impl ProcessCounts {
    /// Counts an event. An address space that has ended does not start again: that would be a second stream.
    pub fn follow(&mut self, asid: Asid, op: &Op) -> Result<(), String> {
        match op {
            Op::Start { .. } if self.ended.contains(&asid) => {
                return Err(format!(
                    "address space {} starts, but has ended before: it takes one stream; several in one are a \
                     trace::Chain",
                    asid.0
                ));
            }
            Op::End(end) => {
                self.ended.insert(asid);
                if let End::Signal(number) = end {
                    *self.signals.entry(*number).or_default() += 1;
                }
            }
            Op::Start { parent: None, .. } => self.starts += 1,
            Op::Start { parent: Some(_), .. } => self.execs += 1,
            Op::Fork { .. } => self.forks += 1,
            Op::ThreadStart { .. } => self.threads += 1,
            op => self.huge_pages.follow(op),
        }
        Ok(())
    }

    /// What they said about huge pages.
    pub fn huge_pages(&self) -> &HugePageWords {
        &self.huge_pages
    }

    /// Processes that a signal ended.
    pub fn signals(&self) -> Vec<SignalEnd> {
        SignalEnd::named(&self.signals)
    }

    /// Processes. There is at least one, even if the stream announces none.
    pub fn processes(&self) -> u64 {
        self.starts.max(1) + self.forks
    }

    /// Threads: at least one for each process. The thread that forked has no `ThreadStart` in the child; the thread
    /// that called exec has another one.
    pub fn threads(&self) -> u64 {
        (self.threads + self.forks).saturating_sub(self.execs).max(self.processes())
    }
}

/// log2 of the 4 KB pages in a base page is below this.
pub(super) const ORDERS: usize = 10;

/// The largest base page that begins with this 4 KB page, as log2 of its 4 KB pages.
#[inline]
pub(super) fn alignment(vpn: u64) -> usize {
    (vpn.trailing_zeros() as usize).min(ORDERS - 1)
}

/// Distinct pages touched, of all address spaces.
#[derive(Default)]
pub(super) struct Footprint {
    maps: HashMap<(Asid, u64), [u64; 8], FixedState>,
    pub pages: u64,
}

impl Footprint {
    #[inline]
    pub fn insert(&mut self, asid: Asid, vpn: u64) {
        let bits = self.maps.entry((asid, vpn / 512)).or_default();
        let (word, bit) = ((vpn % 512 / 64) as usize, 1 << (vpn % 64));
        self.pages += u64::from(bits[word] & bit == 0);
        bits[word] |= bit;
    }
}
