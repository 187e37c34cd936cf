//! The engines of a laboratory.

use crate::engine::Engine;
use crate::lines::LineEngine;
use crate::tally::{Footprint, ProcessCounts, Progress, Tally};
use crate::worker_pool::BatchEngine;
use farreach_types::Error;
use farreach_types::event::Batch;

/// One engine of either family. They share nothing, and agree about what the program did.
pub(super) enum AnyEngine {
    /// TLBs, which see only the lookups that are not filtered.
    Pages(Box<Engine>),
    /// Machines that see every line; one group, of all instances.
    Lines(Box<LineEngine>),
}

/// Counts of the program itself.
pub(super) struct Seen<'a> {
    pub tally: Tally,
    pub footprint: &'a Footprint,
    pub process_counts: &'a ProcessCounts,
}

impl AnyEngine {
    fn as_engine(&mut self) -> &mut dyn BatchEngine {
        match self {
            AnyEngine::Pages(engine) => &mut **engine,
            AnyEngine::Lines(engine) => &mut **engine,
        }
    }
    pub fn seen(&self) -> Seen<'_> {
        match self {
            AnyEngine::Pages(engine) => {
                let Engine { tally, footprint, process_counts, .. } = &**engine;
                Seen { tally: *tally, footprint, process_counts }
            }
            AnyEngine::Lines(engine) => {
                let LineEngine { tally, footprint, process_counts, .. } = &**engine;
                Seen { tally: *tally, footprint, process_counts }
            }
        }
    }
}

impl BatchEngine for AnyEngine {
    fn feed(&mut self, batch: &Batch) -> Result<(), Error> {
        self.as_engine().feed(batch)
    }
    fn done(&self) -> bool {
        match self {
            AnyEngine::Pages(engine) => engine.done(),
            AnyEngine::Lines(engine) => engine.done(),
        }
    }
    fn progress(&self) -> Progress {
        self.seen().tally.progress()
    }
}

/// Where a machine is simulated.
#[derive(Clone, Copy, Default)]
pub(super) struct Location {
    pub engine: usize,
    pub instance: usize,
    /// Index in the family, if the instance is a family.
    pub member: usize,
}

impl BatchEngine for Engine {
    fn feed(&mut self, batch: &Batch) -> Result<(), Error> {
        Engine::feed(self, batch)
    }
    fn done(&self) -> bool {
        Engine::done(self)
    }
    fn progress(&self) -> Progress {
        self.tally.progress()
    }
}
