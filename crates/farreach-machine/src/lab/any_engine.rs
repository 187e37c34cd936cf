//! The engines of a laboratory.

use crate::engine::Engine;
use crate::guest::GuestRun;
use crate::instance::TlbInstance;
use crate::lines::LineEngine;
use crate::tally::{Footprint, ProcessCounts, Progress, Tally};
use crate::worker_pool::BatchEngine;
use farreach_hw::tlb::Foresees;
use farreach_types::Error;
use farreach_types::counts::WindowUse;
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
    /// Of what is counted.
    pub tally: Tally,
    /// Of all.
    pub whole: Tally,
    pub footprint: &'a Footprint,
    pub process_counts: &'a ProcessCounts,
    pub guest: Option<&'a GuestRun>,
}

impl AnyEngine {
    fn as_engine(&mut self) -> &mut dyn BatchEngine {
        match self {
            AnyEngine::Pages(engine) => &mut **engine,
            AnyEngine::Lines(engine) => &mut **engine,
        }
    }
    /// Each TLB of a machine that must know what comes.
    pub fn foresees(&mut self, at: Location, each: impl FnMut(&mut dyn Foresees)) {
        match self {
            AnyEngine::Pages(engine) => of_instance(&mut engine.instances[at.instance]).for_each(each),
            AnyEngine::Lines(engine) => engine.instances[at.instance].system.foresees().into_iter().for_each(each),
        }
    }
    /// The first machine that cannot go on, for what it has learned or was told of what comes.
    fn failure(&mut self) -> Option<Error> {
        let error = |machine: &String, what| Error::Simulation { machine: machine.clone(), what };
        match self {
            AnyEngine::Pages(engine) => engine.instances.iter_mut().find_map(|instance| {
                let what = of_instance(instance).find_map(|tlb| tlb.failure())?;
                Some(error(&instance.name, what))
            }),
            AnyEngine::Lines(engine) => engine.instances.iter_mut().find_map(|instance| {
                let what = instance.system.foresees()?.failure()?;
                Some(error(&instance.name, what))
            }),
        }
    }
    /// The context of a whole system that runs ends, so that all counts are in one.
    pub fn end_context(&mut self) {
        match self {
            AnyEngine::Pages(engine) => engine.end_context(),
            AnyEngine::Lines(engine) => engine.end_context(),
        }
    }
    /// What was sampled.
    pub fn windows(&self) -> Option<WindowUse> {
        let AnyEngine::Pages(engine) = self else { return None };
        engine.sampling.as_ref().map(|sampling| sampling.used(engine.tally.limit_count(), &engine.instances))
    }
    pub fn seen(&self) -> Seen<'_> {
        match self {
            AnyEngine::Pages(engine) => {
                let Engine { tally, marks, footprint, process_counts, guest, .. } = &**engine;
                Seen { tally: marks.tally(tally), whole: *tally, footprint, process_counts, guest: guest.as_deref() }
            }
            AnyEngine::Lines(engine) => {
                let LineEngine { tally, marks, footprint, process_counts, guest, .. } = &**engine;
                Seen { tally: marks.tally(tally), whole: *tally, footprint, process_counts, guest: guest.as_deref() }
            }
        }
    }
}

fn of_instance(instance: &mut TlbInstance) -> impl Iterator<Item = &mut dyn Foresees> {
    instance.each().filter_map(|(tlb, _)| tlb.foresees())
}

impl BatchEngine for AnyEngine {
    fn feed(&mut self, batch: &Batch) -> Result<(), Error> {
        self.as_engine().feed(batch)?;
        self.failure().map_or(Ok(()), Err)
    }
    fn done(&self) -> bool {
        match self {
            AnyEngine::Pages(engine) => engine.done(),
            AnyEngine::Lines(engine) => engine.done(),
        }
    }
    fn progress(&self) -> Progress {
        self.seen().whole.progress()
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
