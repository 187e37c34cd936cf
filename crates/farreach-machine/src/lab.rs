//! Many machines over one stream, for `run` and `sim`.

mod any_engine;
mod build;
mod result;

use super::driver::Driver;
use super::engine::Engine;
use super::options::Options;
use super::spec::MachineSpec;
use super::tally::Progress;
use any_engine::{AnyEngine, Location};
use farreach_hw as hw;
use farreach_hw::tlb::Tlb;
use farreach_types::Error;
use farreach_types::event::{Batch, Source};
use std::borrow::Cow;

/// Given a machine and its TLB, what is to be driven in the place of the TLB; see [`Lab::observed`].
pub type Observe<'a> = &'a mut dyn FnMut(&MachineSpec, Box<dyn Tlb>) -> Result<Box<dyn Tlb>, String>;

/// Machines that run side by side.
pub struct Lab {
    specs: Vec<MachineSpec>,
    driver: Driver<AnyEngine>,
    locations: Vec<Location>,
    options: Options,
    /// The machines that this pass is for alone, by index: those that learn what comes.
    learning: Vec<usize>,
}

impl Lab {
    /// Builds the machines. Machines with equal operating systems share one.
    ///
    /// # Errors
    /// [`Error::Config`]: a part of a machine refuses its keys, or a file that they name; it says which machine, key,
    /// value, and what is allowed; or a machine needs [`Options::twice`]. [`Error::Io`]: a thread cannot be started.
    pub fn new(specs: Vec<MachineSpec>, options: Options) -> Result<Lab, Error> {
        Lab::build(specs, options, None)
    }

    /// As [`Lab::new`], with something around each TLB that sees all that reaches it: `observe` is given the machine
    /// and its TLB, and returns what is to be driven in its place. With [`Options::plain`] every lookup reaches it.
    /// Machines with caches, and TLBs whose walkers read through caches, are not observed.
    ///
    /// # Errors
    /// Those of [`Lab::new`]. What `observe` refuses becomes [`Error::Config`].
    pub fn observed(specs: Vec<MachineSpec>, options: Options, observe: Observe) -> Result<Lab, Error> {
        Lab::build(specs, options, Some(observe))
    }

    fn build(specs: Vec<MachineSpec>, options: Options, observe: Option<Observe>) -> Result<Lab, Error> {
        let learning: Vec<usize> =
            (0..specs.len()).filter(|&i| hw::tlb::policies::foresees(&specs[i].params).is_some()).collect();
        if let Some(&i) = learning.first().filter(|_| options.sample.is_some()) {
            let policy = hw::tlb::policies::foresees(&specs[i].params).unwrap_or_default();
            let what = format!("--sample is not allowed: {policy} must know all that comes");
            return Err(Error::Config { machine: specs[i].name.clone(), what });
        }
        if let (Some(_), Some(warmup), Some(spec)) = (options.sample, options.warmup, specs.first()) {
            let what = format!("--warmup {warmup} is not allowed with --sample, where each window has a warm-up");
            return Err(Error::Config { machine: spec.name.clone(), what });
        }
        if let Some(&i) = learning.first().filter(|_| !options.twice) {
            return Err(Error::Config { machine: specs[i].name.clone(), what: once(&specs[i]) });
        }
        let all: Vec<usize> = (0..specs.len()).collect();
        let these = if learning.is_empty() { &all } else { &learning };
        let (engines, locations) = build::engines(&specs, these, &options, observe)?;
        let driver = Driver::new(engines, options.threads > 1, &options)?;
        Ok(Lab { specs, driver, locations, options, learning })
    }

    /// Whether the stream is to be fed once more, from its beginning: this pass was for machines that learn what comes
    /// (REP-1), without the others, and has no result. After [`Lab::finish`].
    ///
    /// # Errors
    /// As [`Lab::new`].
    pub fn again(&mut self) -> Result<bool, Error> {
        let learning = std::mem::take(&mut self.learning);
        let before = self.driver.engines_mut("again()");
        let mut futures = Vec::new();
        for &i in &learning {
            before[self.locations[i].engine].foresees(self.locations[i], |tlb| futures.push((i, tlb.learned())));
        }
        if learning.is_empty() {
            return Ok(false);
        }
        let all: Vec<usize> = (0..self.specs.len()).collect();
        let (mut engines, locations) = build::engines(&self.specs, &all, &self.options, None)?;
        let mut futures = futures.into_iter().peekable();
        for &i in &learning {
            engines[locations[i].engine].foresees(locations[i], |tlb| {
                let (_, future) = futures.next_if(|(of, _)| *of == i).expect("each TLB learned");
                tlb.knows(future);
            });
        }
        self.driver = Driver::new(engines, self.options.threads > 1, &self.options)?;
        self.locations = locations;
        Ok(true)
    }

    /// Whether this is the first of two passes: see [`Lab::again`].
    pub fn is_learning(&self) -> bool {
        !self.learning.is_empty()
    }

    /// Waits until every batch is simulated. Nothing can be fed after it.
    ///
    /// # Errors
    /// Errors of engines on threads of their own; without such threads [`Lab::feed`] returns them.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.driver.finish()
    }

    /// As [`Lab::finish`], but `cuts`, which is asked many times a second, can end it before all that was fed is
    /// simulated. Then all machines end behind the same batch.
    ///
    /// # Errors
    /// As [`Lab::finish`].
    pub fn finish_or_cut(&mut self, mut cuts: impl FnMut() -> bool) -> Result<(), Error> {
        self.driver.finish_or_cut(Some(&mut cuts))
    }

    /// Whether [`Options::limit`] was reached, after [`Lab::finish`].
    pub fn limit_reached(&self) -> bool {
        self.driver.limit_reached()
    }

    /// What the source failed with, if it did, after [`Lab::finish`]. A source is read ahead of the machines, so what is
    /// wrong behind the limit may have been seen or not: it does not count.
    ///
    /// # Errors
    /// The failure, if more was wanted.
    pub fn judge(&self, failure: Option<Error>) -> Result<(), Error> {
        self.driver.judge(failure)
    }

    /// Simulates one batch, which may be given away or lent; false: the limit is reached, further batches would be
    /// ignored. With [`Options::threads`] also if an engine has given up: [`Lab::finish`] says why.
    ///
    /// # Errors
    /// [`Error::Trace`]: the batch is invalid, for instance executes a block that was never defined, or belongs to a
    /// second stream.
    /// [`Error::Simulation`]: a machine cannot go on, for instance because its memory is full.
    pub fn feed<'b>(&mut self, batch: impl Into<Cow<'b, Batch>>) -> Result<bool, Error> {
        self.driver.feed(batch.into())
    }

    /// Simulates a whole stream, which is the only one of this laboratory: for several one after the other there is
    /// `farreach_trace::Chain`.
    ///
    /// # Errors
    /// Those of the source, and of [`Lab::feed`].
    pub fn run(&mut self, source: &mut dyn Source) -> Result<(), Error> {
        self.driver.run(source)
    }

    /// Progress of the simulation.
    pub fn progress(&self) -> Progress {
        self.driver.progress()
    }

    /// Design by design, the valid entries of each TLB (fetch side first, if split); of machines with caches none. For
    /// checks.
    ///
    /// # Panics
    /// With [`Options::threads`], before [`Lab::finish`]. In the first of two passes.
    pub fn entries(&mut self) -> Vec<Vec<hw::tlb::EntryView>> {
        assert!(!self.is_learning(), "again() comes before entries()");
        let engines = self.driver.engines_mut("entries()");
        for engine in engines.iter_mut() {
            if let AnyEngine::Pages(engine) = engine {
                engine.flush_lookups(false);
            }
        }
        let entries = |location: &Location| match &engines[location.engine] {
            AnyEngine::Pages(engine) => engine.instances[location.instance].entries(),
            AnyEngine::Lines(_) => Vec::new(),
        };
        self.locations.iter().map(entries).collect()
    }
}

/// Why a machine is refused where the stream comes once.
fn once(spec: &MachineSpec) -> String {
    let policy = hw::tlb::policies::foresees(&spec.params).unwrap_or_default();
    format!(
        "{policy} is not allowed here: it must know what comes, so the references are read twice; store them with \
         `farreach record -o FILE`, and use `farreach sim FILE`"
    )
}

/// For [`crate::TrapLab`].
impl Lab {
    /// The one engine of a laboratory of TLBs without threads.
    pub(crate) fn trap_engine(&mut self) -> &mut Engine {
        match self.driver.engines_mut("traps") {
            [AnyEngine::Pages(engine)] => engine,
            _ => unreachable!("what needs other engines was refused"),
        }
    }

    /// The machines.
    pub(crate) fn specs(&self) -> &[MachineSpec] {
        &self.specs
    }

    /// Misses so far, machine by machine, of that engine.
    pub(crate) fn trap_misses(&mut self) -> impl Iterator<Item = u64> {
        let Lab { driver, locations, .. } = self;
        let [AnyEngine::Pages(engine)] = driver.engines("misses") else { unreachable!("there is one") };
        locations.iter().map(|location| {
            let instance = &engine.instances[location.instance];
            instance.main.counts().misses + instance.fetch.as_ref().map_or(0, |fetch| fetch.counts().misses)
        })
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
        let mut pages = PageLab::new(&[4096], 64, Options::default()).unwrap();
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
