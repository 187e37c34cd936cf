//! Parts of a run: a warm-up, which is simulated and not counted, and phases of what is.
//!
//! Boundaries stand in the stream ([`farreach_types::event::Boundary`]), so they are exact, and the same on any number
//! of threads. What is counted in a part is what the counters say at its end less what they said at its beginning.

use super::differences::since;
use super::tally::Tally;
use farreach_types::counts::{CacheCounts, OsCounts, SystemCounts, TlbCounts};
use farreach_types::event::Boundary;

/// Most phases of a run: each takes some memory for each machine.
pub(super) const MOST_PHASES: usize = 10_000;

/// What is said of more.
pub(super) fn too_many() -> String {
    format!("--every: more than {MOST_PHASES} phases; longer ones are needed")
}

/// What a machine has counted.
#[derive(Clone, Default)]
pub(super) struct Counted {
    /// Without lookups.
    pub tlb: TlbCounts,
    pub os: OsCounts,
    pub system: Option<SystemCounts>,
    pub caches: Option<CacheCounts>,
    /// Of physical memory, now.
    pub resident_bytes: u64,
}

impl Counted {
    /// What was counted since another moment.
    pub fn since(&self, before: &Counted) -> Counted {
        Counted {
            tlb: since(&self.tlb, &before.tlb),
            os: since(&self.os, &before.os),
            system: self.system.as_ref().map(|system| since(system, before.system.as_ref().unwrap_or(system))),
            caches: self.caches.as_ref().map(|caches| since(caches, before.caches.as_ref().unwrap_or(caches))),
            resident_bytes: self.resident_bytes,
        }
    }
}

/// A moment of a run, or what was counted between two: of all, and machine by machine.
#[derive(Clone, Default)]
pub(super) struct Moment {
    pub tally: Tally,
    pub machines: Vec<Counted>,
}

impl Moment {
    fn since(&self, before: &Moment) -> Moment {
        let machines = self.machines.iter().zip(&before.machines).map(|(now, before)| now.since(before));
        Moment { tally: self.tally.since(&before.tally), machines: machines.collect() }
    }
}

/// The parts of a run so far.
#[derive(Default)]
pub(super) struct Marks {
    /// Nothing is counted yet.
    pub warming: bool,
    /// Where what is counted began, if it was not the beginning.
    begun: Option<Moment>,
    /// Where the phase began, if it was no other place.
    phase: Option<Moment>,
    phases: Vec<Moment>,
}

impl Marks {
    /// `warms`: a warm-up comes first.
    pub fn new(warms: bool) -> Marks {
        Marks { warming: warms, ..Marks::default() }
    }

    /// A part ends. Phases are not allowed to be too many.
    pub fn pass(&mut self, boundary: Boundary, now: Moment) -> Result<(), String> {
        match boundary {
            Boundary::Counted => (self.warming, self.begun) = (false, Some(now)),
            Boundary::Phase => {
                if self.phases.len() == MOST_PHASES {
                    return Err(too_many());
                }
                self.phases.push(self.in_phase(&now));
                self.phase = Some(now);
            }
        }
        Ok(())
    }

    fn in_phase(&self, now: &Moment) -> Moment {
        match self.phase.as_ref().or(self.begun.as_ref()) {
            Some(before) => now.since(before),
            None => now.clone(),
        }
    }

    /// What was counted of all.
    pub fn tally(&self, now: &Tally) -> Tally {
        self.begun.as_ref().map_or(*now, |begun| now.since(&begun.tally))
    }

    /// What this machine counted.
    pub fn counted(&self, machine: usize, now: Counted) -> Counted {
        match &self.begun {
            Some(begun) => now.since(&begun.machines[machine]),
            None => now,
        }
    }

    /// What this machine counted in each phase; none if the run has none.
    pub fn phases(&self, machine: usize, tally: Tally, now: &Counted) -> Vec<Part> {
        let part = |moment: &Moment| Part { tally: moment.tally, counted: moment.machines[machine].clone() };
        let mut parts: Vec<Part> = self.phases.iter().map(part).collect();
        if let Some(before) = &self.phase {
            let tally = tally.since(&before.tally);
            if tally.references.total() > 0 {
                parts.push(Part { tally, counted: now.since(&before.machines[machine]) });
            }
        }
        parts
    }
}

/// What a machine counted in a phase.
pub(super) struct Part {
    pub tally: Tally,
    pub counted: Counted,
}
