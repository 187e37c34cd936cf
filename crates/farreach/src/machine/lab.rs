//! Many machines over one stream: what `run` and `sim` are made of.

use super::crew::{Crew, Work};
use super::engine::{Engine, Group, Unit};
use super::profile::Profile;
use super::quiet::MAX_DESIGNS;
use super::spec::MachineSpec;
use crate::Error;
use crate::addr::BASE_SHIFT;
use crate::counts::{Counts, MachineResult, RESULT_SCHEMA, RunResult, Workload};
use crate::event::{Batch, Source};
use crate::os::Os;
use crate::{cost, hw};

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Stop after so many instructions (references, for traces without fetches).
    pub limit: Option<u64>,
    /// Seed of everything random.
    pub seed: u64,
    /// Without shortcuts: every design is asked at every lookup. Slow; for checking.
    pub plain: bool,
    /// Threads to simulate on; 0 and 1: the caller's. With more, [`Lab::settle`] comes before results and entries. The result is
    /// the same on any number.
    pub threads: usize,
}

/// Machines that run side by side.
pub struct Lab {
    specs: Vec<MachineSpec>,
    engines: Vec<Engine>,
    /// The engines are here while they work on threads of their own.
    crew: Option<Crew<Engine>>,
    /// For each machine: engine, group, unit.
    place: Vec<(usize, usize, usize)>,
    options: Options,
}

/// How far a run is, for progress displays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Instructions so far.
    pub instructions: u64,
    /// References so far.
    pub references: u64,
}

impl Lab {
    /// Builds the machines. Machines whose operating systems are described alike share one.
    pub fn new(specs: Vec<MachineSpec>, options: Options) -> Result<Lab, Error> {
        // Machines with equal operating systems go together; each engine gets about as many machines as another.
        let mut shapes: Vec<serde_json::Map<_, _>> = Vec::new();
        let shape_of = |spec: &MachineSpec| {
            let shape = spec.os_keys();
            shapes.iter().position(|s| *s == shape).unwrap_or_else(|| {
                shapes.push(shape);
                shapes.len() - 1
            })
        };
        let shape: Vec<usize> = specs.iter().map(shape_of).collect();
        let mut order: Vec<usize> = (0..specs.len()).collect();
        order.sort_by_key(|&i| shape[i]);
        let count = options.threads.clamp(1, specs.len().max(1)).max(specs.len().div_ceil(MAX_DESIGNS));
        let mut engines = Vec::new();
        let mut place = vec![(0, 0, 0); specs.len()];
        for e in 0..count {
            let mine = &order[e * specs.len() / count..(e + 1) * specs.len() / count];
            let mut groups: Vec<Group> = Vec::new();
            let mut first = 0;
            for part in mine.chunk_by(|&a, &b| shape[a] == shape[b]) {
                let config = |i: usize| move |what: String| (i, what);
                let name = |(i, what): (usize, String)| Error::Config { machine: specs[i].name.clone(), what };
                let os = Os::new(&specs[part[0]].params).map_err(config(part[0])).map_err(name)?;
                let mut units = Vec::new();
                for &i in part {
                    let spec = &specs[i];
                    let build = || (spec.design.build)(&spec.params).map_err(config(i)).map_err(name);
                    let fetch = spec.params.flag("split").then(build).transpose()?;
                    place[i] = (e, groups.len(), units.len());
                    units.push(Unit { name: spec.name.clone(), main: build()?, fetch, profile: Profile::new() });
                }
                first += units.len();
                groups.push(Group { order: os.page_shift() - BASE_SHIFT, os, first: first - units.len(), units });
            }
            engines.push(Engine::new(groups, options.limit, options.plain));
        }
        let crew = if options.threads > 1 && count > 1 { Some(Crew::start(std::mem::take(&mut engines))?) } else { None };
        Ok(Lab { specs, engines, crew, place, options })
    }

    /// Waits until everything that was fed is simulated. After it, nothing more can be fed.
    pub fn settle(&mut self) -> Result<(), Error> {
        let Some(crew) = self.crew.take() else { return Ok(()) };
        let (engines, outcome) = crew.finish();
        self.engines = engines;
        outcome
    }

    /// Simulates one batch; false: the limit is reached, further batches would be ignored.
    pub fn feed(&mut self, batch: &Batch) -> Result<bool, Error> {
        if let Some(crew) = &self.crew {
            return Ok(crew.feed(batch));
        }
        for engine in &mut self.engines {
            engine.feed(batch)?;
        }
        Ok(self.engines.iter().any(|e| !e.done()))
    }

    /// Simulates a whole stream.
    pub fn run(&mut self, source: &mut dyn Source) -> Result<(), Error> {
        while let Some(batch) = source.next_batch()? {
            if !self.feed(&batch)? {
                break;
            }
        }
        self.settle()
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        if let Some(crew) = &self.crew {
            return crew.progress();
        }
        self.engines.first().map(Work::progress).unwrap_or_default()
    }

    /// Design by design, the valid entries of each TLB (fetch side first, if split). For checks.
    pub fn entries(&mut self) -> Vec<Vec<hw::tlb::EntryView>> {
        self.engines.iter_mut().for_each(|engine| engine.settle(false));
        let unit = |&(e, g, u): &(usize, usize, usize)| &self.engines[e].groups[g].units[u];
        let both = |u: &Unit| u.fetch.iter().chain([&u.main]).flat_map(|t| t.entries()).collect();
        self.place.iter().map(unit).map(both).collect()
    }

    /// The result of what was simulated so far, after [`Lab::settle`]. `source`: what ran, for people; `stopped`: why it ended early, if it did.
    pub fn result(&mut self, source: &str, stopped: Option<String>) -> RunResult {
        assert!(self.crew.is_none(), "settle() comes before result()");
        let first = &self.engines[0];
        let limit = first.done().then(|| format!("--limit {}", self.options.limit.unwrap_or(0)));
        let workload = Workload {
            source: source.to_owned(),
            instructions: first.tally.references.fetch,
            references: first.tally.references,
            lookups: first.tally.lookups,
            touched_bytes: first.footprint.pages << BASE_SHIFT,
            processes: first.processes.max(1),
            threads: first.threads.max(first.processes).max(1),
            stopped: stopped.or(limit),
            seed: self.options.seed,
        };
        let mut machines: Vec<MachineResult> = self
            .specs
            .iter()
            .zip(&self.place)
            .map(|(spec, &place)| machine(spec, &mut self.engines, place, &workload))
            .collect();
        // The ledger compares with the single-page-size design of the run, or with the first machine.
        let single = |m: &MachineResult| m.config["kind"] == "single";
        let plain = machines.iter().position(|m| single(m) && m.config["page_size"] == 1 << BASE_SHIFT);
        let base = plain.or_else(|| machines.iter().position(single)).unwrap_or(0);
        let baseline = machines.get(base).map(|m| (m.counts.clone(), &self.specs[base].params));
        for (m, spec) in machines.iter_mut().zip(&self.specs) {
            let baseline = baseline.as_ref().map(|(counts, params)| (counts, *params));
            m.ledger = cost::ledger(&m.counts, &m.memory, baseline, &spec.params);
        }
        RunResult { schema: RESULT_SCHEMA.to_owned(), workload, machines }
    }
}

fn machine(spec: &MachineSpec, engines: &mut [Engine], (e, g, u): (usize, usize, usize), workload: &Workload) -> MachineResult {
    // A timeline runs in 4 KB lookups, so that all machines of a run have the same slices.
    let (lookups, clock) = (engines[e].lookups(g), engines[e].tally.lookups.total());
    let group = &mut engines[e].groups[g];
    let unit = &mut group.units[u];
    let mut tlb = unit.main.counts().clone();
    if let Some(fetch) = &unit.fetch {
        tlb += fetch.counts();
    }
    tlb.lookups = lookups;
    let timeline = unit.profile.timeline(clock);
    let regions = unit.profile.regions(group.os.labels());
    let counts = Counts { tlb, os: group.os.counts() };
    let (memory, contiguity, segments) = (group.os.memory_use(), group.os.contiguity(), group.os.segment_use());
    let (bits, reach) = ((spec.design.bits)(&spec.params), (spec.design.reach)(&spec.params));
    let mut cost = cost::cost(&counts, workload, &spec.params, bits, reach);
    if unit.fetch.is_some() {
        cost.area_rbe = cost.area_rbe.map(|one| 2.0 * one);
        cost.reach_bytes *= 2;
    }
    MachineResult {
        name: spec.name.clone(),
        config: spec.params.as_json().clone(),
        counts,
        memory,
        contiguity,
        segments,
        cost,
        ledger: Vec::new(),
        timeline,
        regions,
    }
}
