//! Many machines over one stream: what `run` and `sim` are made of.

mod build;
mod result;

use super::engine::Engine;
use super::instance::TlbInstance;
use super::lines::LineEngine;
use super::spec::MachineSpec;
use super::tally::{Footprint, ProcessCounts, Progress, Tally};
use super::worker_pool::{BatchEngine, WorkerPool};
use farreach_hw as hw;
use farreach_types::Error;
use farreach_types::event::{Batch, Source};
use std::borrow::Cow;

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The budget of a run, which the result names (PS-9, AMB-32).
    /// Stop after so many instructions (references, for traces without fetches).
    pub limit: Option<u64>,
    /// Seed of everything random.
    pub seed: u64,
    /// Without shortcuts: every design is asked at every lookup. Slow; for checking.
    pub plain: bool,
    /// Threads, the caller's with them; 0 and 1: only the caller's. With more it reads and others simulate, and
    /// [`Lab::finish`] comes before results and entries. The result is the same on any number.
    pub threads: usize,
    /// With more threads: bytes of the stream that may wait for those that simulate. A source that is now faster than they, now slower, keeps them
    /// at work if this is large. There is always some room; 0: no more.
    pub ahead: u64,
}

/// One engine of either family. They share nothing, and agree about what the program did.
enum AnyEngine {
    /// TLBs, which see only the lookups that are not filtered.
    Pages(Box<Engine>),
    /// Machines that see every line; one group, of all instances.
    Lines(Box<LineEngine>),
}

/// What an engine counted of the program itself.
struct Seen<'a> {
    tally: Tally,
    footprint: &'a Footprint,
    process_counts: &'a ProcessCounts,
}

impl AnyEngine {
    fn as_engine(&mut self) -> &mut dyn BatchEngine {
        match self {
            AnyEngine::Pages(engine) => &mut **engine,
            AnyEngine::Lines(engine) => &mut **engine,
        }
    }
    fn seen(&self) -> Seen<'_> {
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

/// Machines that run side by side.
pub struct Lab {
    specs: Vec<MachineSpec>,
    engines: Vec<AnyEngine>,
    /// Holds the engines while they run on threads of their own.
    pool: Option<WorkerPool<AnyEngine>>,
    locations: Vec<Location>,
    options: Options,
}

/// Where a machine is simulated.
#[derive(Clone, Copy, Default)]
struct Location {
    engine: usize,
    instance: usize,
    /// Index in the family, if the instance is a family.
    member: usize,
}

impl Lab {
    /// Builds the machines. Machines with equal operating systems share one.
    ///
    /// # Errors
    /// [`Error::Config`]: a part of a machine refuses its keys, or a file that they name; it says which machine, key, value, and what is
    /// allowed. [`Error::Io`]: a thread cannot be started.
    pub fn new(specs: Vec<MachineSpec>, options: Options) -> Result<Lab, Error> {
        let (mut engines, locations) = build::engines(&specs, &options)?;
        let pool =
            if options.threads > 1 { Some(WorkerPool::start(std::mem::take(&mut engines), options.ahead)?) } else { None };
        Ok(Lab { specs, engines, pool, locations, options })
    }

    /// Waits until every batch is simulated. Nothing can be fed after it.
    ///
    /// # Errors
    /// What engines on threads of their own found, as [`Lab::feed`] says without such threads.
    pub fn finish(&mut self) -> Result<(), Error> {
        let Some(pool) = self.pool.take() else { return Ok(()) };
        let (engines, outcome) = pool.finish();
        self.engines = engines;
        outcome
    }

    /// Whether [`Options::limit`] was reached, after [`Lab::finish`].
    pub fn limit_reached(&self) -> bool {
        self.engines.first().is_some_and(BatchEngine::done)
    }

    /// Simulates one batch, which may be given away or lent; false: the limit is reached, further batches would be ignored. With
    /// [`Options::threads`] also if an engine has given up: [`Lab::finish`] says why.
    ///
    /// # Errors
    /// [`Error::Trace`]: the batch is broken, a block that was never defined, say, or of a second stream. [`Error::Simulation`]: a machine cannot
    /// go on, its memory is full, say.
    pub fn feed<'b>(&mut self, batch: impl Into<Cow<'b, Batch>>) -> Result<bool, Error> {
        let batch = batch.into();
        if let Some(pool) = &mut self.pool {
            return Ok(pool.feed(batch.into_owned()));
        }
        for engine in &mut self.engines {
            engine.feed(&batch)?;
        }
        Ok(self.engines.iter().any(|e| !e.done()))
    }

    /// Simulates a whole stream, which is the only one of this laboratory: for several one after the other there is [`Chain`](farreach_trace::Chain).
    ///
    /// # Errors
    /// Those of the source, and of [`Lab::feed`].
    pub fn run(&mut self, source: &mut dyn Source) -> Result<(), Error> {
        while let Some(batch) = source.next_batch()? {
            if !self.feed(batch)? {
                break;
            }
        }
        self.finish()
    }

    /// How far the simulation is.
    pub fn progress(&self) -> Progress {
        if let Some(pool) = &self.pool {
            return pool.progress();
        }
        self.engines.first().map(BatchEngine::progress).unwrap_or_default()
    }

    /// Design by design, the valid entries of each TLB (fetch side first, if split); of machines with caches none. For checks.
    ///
    /// # Panics
    /// With [`Options::threads`], before [`Lab::finish`].
    pub fn entries(&mut self) -> Vec<Vec<hw::tlb::EntryView>> {
        assert!(self.pool.is_none(), "finish() comes before entries()");
        let both = |u: &TlbInstance| u.fetch.iter().chain([&u.main]).flat_map(|t| t.entries()).collect();
        for engine in &mut self.engines {
            if let AnyEngine::Pages(engine) = engine {
                engine.flush_lookups(false);
            }
        }
        let entries = |location: &Location| match &self.engines[location.engine] {
            AnyEngine::Pages(engine) => both(&engine.instances[location.instance]),
            AnyEngine::Lines(_) => Vec::new(),
        };
        self.locations.iter().map(entries).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PageLab;
    use farreach_types::event::{End, Op};

    #[test]
    fn a_second_stream_is_refused() {
        let mut stream = Batch::default();
        stream.push_op(Op::Start { pid: 1, parent: None, program: "program".into() });
        stream.push_op(Op::End(End::Exit(0)));
        let lab = |machine| Lab::new(MachineSpec::parse_all([machine], 0).unwrap(), Options::default()).unwrap();
        let [mut tlb, mut caches] = ["t94/single", "sv97/softvm"].map(lab);
        let mut pages = PageLab::new(&[4096], Options::default()).unwrap();
        let mut feed = || [tlb.feed(&stream), caches.feed(&stream), pages.feed(&stream)];
        assert!(feed().iter().all(|first| matches!(first, Ok(true))));
        for second in feed() {
            let why = second.unwrap_err().to_string();
            assert!(why.contains("word 0") && why.contains("address space 0 starts, but has ended before"), "{why}");
        }
    }

    #[test]
    #[should_panic(expected = "finish() comes before entries()")]
    fn entries_are_for_afterwards() {
        let machines = MachineSpec::parse_all(["t94/single"], 0).unwrap();
        Lab::new(machines, Options { threads: 2, ..Options::default() }).unwrap().entries();
    }
}
