//! Many machines over one stream: what `run` and `sim` are made of.

use super::crew::{Crew, Work};
use super::engine::Engine;
use super::growth::Growth;
use super::lines::{self, LineEngine};
use super::profile::Profile;
use super::quiet::MAX_DESIGNS;
use super::spec::{Hardware, MachineSpec};
use super::tally::{Crowd, Footprint, Progress, Tally};
use super::unit::{Group, Unit};
use crate::Error;
use crate::addr::BASE_SHIFT;
use crate::counts::{Counts, MachineResult, RESULT_SCHEMA, RunResult, TlbCounts, Workload};
use crate::event::{Batch, Source};
use crate::hw::system::{DIFFERENCE, FAMILY};
use crate::os::Os;
use crate::params::Params;
use crate::{cost, hw};
use std::borrow::Cow;

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Stop after so many instructions (references, for traces without fetches).
    pub limit: Option<u64>,
    /// Seed of everything random.
    pub seed: u64,
    /// Without shortcuts: every design is asked at every lookup. Slow; for checking.
    pub plain: bool,
    /// Threads, the caller's with them; 0 and 1: only the caller's. With more it reads and others simulate, and
    /// [`Lab::settle`] comes before results and entries. The result is the same on any number.
    pub threads: usize,
}

/// One engine of either family. They share nothing, and agree about what the program did.
enum Loop {
    /// TLBs, which are asked only where something can change.
    Pages(Box<Engine>),
    /// Machines that see every line; one group, of all units.
    Lines(Box<LineEngine>),
}

/// What an engine knows of the program.
struct Seen<'a> {
    tally: Tally,
    footprint: &'a Footprint,
    crowd: Crowd,
}

impl Loop {
    fn work(&mut self) -> &mut dyn Work {
        match self {
            Loop::Pages(engine) => &mut **engine,
            Loop::Lines(engine) => &mut **engine,
        }
    }
    fn seen(&self) -> Seen<'_> {
        match self {
            Loop::Pages(engine) => {
                let Engine { tally, footprint, crowd, .. } = &**engine;
                Seen { tally: *tally, footprint, crowd: *crowd }
            }
            Loop::Lines(engine) => {
                let LineEngine { tally, footprint, crowd, .. } = &**engine;
                Seen { tally: *tally, footprint, crowd: *crowd }
            }
        }
    }
}

impl Work for Loop {
    fn feed(&mut self, batch: &Batch) -> Result<(), Error> {
        self.work().feed(batch)
    }
    fn done(&self) -> bool {
        match self {
            Loop::Pages(engine) => engine.done(),
            Loop::Lines(engine) => engine.done(),
        }
    }
    fn progress(&self) -> Progress {
        self.seen().tally.progress()
    }
}

/// Machines that run side by side.
pub struct Lab {
    specs: Vec<MachineSpec>,
    engines: Vec<Loop>,
    /// The engines are here while they work on threads of their own.
    crew: Option<Crew<Loop>>,
    place: Vec<Place>,
    options: Options,
}

/// Where a machine is.
#[derive(Clone, Copy, Default)]
struct Place {
    engine: usize,
    unit: usize,
    /// Of a unit that is a family.
    member: usize,
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
        let (mut lines, mut pages): (Vec<usize>, Vec<usize>) = (0..specs.len()).partition(|&i| specs[i].by_lines());
        pages.sort_by_key(|&i| shape[i]);
        lines.sort_by_key(|&i| shape[i]);
        let mut build =
            Build { specs: &specs, options: &options, engines: Vec::new(), place: vec![Place::default(); specs.len()] };
        let threads = options.threads.max(1);
        // A laboratory without machines still counts what the program does.
        if !pages.is_empty() || lines.is_empty() {
            let count = engines_for(pages.len(), threads).max(pages.len().div_ceil(MAX_DESIGNS));
            for mine in shares(&pages, count) {
                build.pages(mine.chunk_by(|&a, &b| shape[a] == shape[b]))?;
            }
        }
        let groups = lines.chunk_by(|&a, &b| shape[a] == shape[b]).count();
        for part in lines.chunk_by(|&a, &b| shape[a] == shape[b]) {
            let families = families(&specs, part, options.plain);
            for mine in shares(&families, threads.div_ceil(groups).min(families.len())) {
                build.lines(mine)?;
            }
        }
        let Build { mut engines, place, .. } = build;
        let crew = if threads > 1 { Some(Crew::start(std::mem::take(&mut engines))?) } else { None };
        Ok(Lab { specs, engines, crew, place, options })
    }

    /// Waits until everything that was fed is simulated. After it, nothing more can be fed.
    pub fn settle(&mut self) -> Result<(), Error> {
        let Some(crew) = self.crew.take() else { return Ok(()) };
        let (engines, outcome) = crew.finish();
        self.engines = engines;
        outcome
    }

    /// Simulates one batch, which may be given away or lent; false: the limit is reached, further batches would be ignored.
    pub fn feed<'b>(&mut self, batch: impl Into<Cow<'b, Batch>>) -> Result<bool, Error> {
        let batch = batch.into();
        if let Some(crew) = &mut self.crew {
            return Ok(crew.feed(batch.into_owned()));
        }
        for engine in &mut self.engines {
            engine.feed(&batch)?;
        }
        Ok(self.engines.iter().any(|e| !e.done()))
    }

    /// Simulates a whole stream.
    pub fn run(&mut self, source: &mut dyn Source) -> Result<(), Error> {
        while let Some(batch) = source.next_batch()? {
            if !self.feed(batch)? {
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

    /// Design by design, the valid entries of each TLB (fetch side first, if split); of machines with caches none. For checks.
    pub fn entries(&mut self) -> Vec<Vec<hw::tlb::EntryView>> {
        let both = |u: &Unit| u.fetch.iter().chain([&u.main]).flat_map(|t| t.entries()).collect();
        for engine in &mut self.engines {
            if let Loop::Pages(engine) = engine {
                engine.settle(false);
            }
        }
        let entries = |place: &Place| match &self.engines[place.engine] {
            Loop::Pages(engine) => both(&engine.units[place.unit]),
            Loop::Lines(_) => Vec::new(),
        };
        self.place.iter().map(entries).collect()
    }

    /// The result of what was simulated so far, after [`Lab::settle`]. `source`: what ran, for people; `stopped`: why it ended early, if it did.
    pub fn result(&mut self, source: &str, stopped: Option<String>) -> RunResult {
        assert!(self.crew.is_none(), "settle() comes before result()");
        let limit = self.engines[0].done().then(|| format!("--limit {}", self.options.limit.unwrap_or(0)));
        let first = self.engines[0].seen();
        for other in &self.engines {
            let facts = |seen: &Seen| (seen.tally.references, seen.tally.further, seen.footprint.pages, seen.crowd);
            debug_assert_eq!(facts(&other.seen()), facts(&first), "engines disagree");
        }
        let workload = Workload {
            source: source.to_owned(),
            instructions: first.tally.references.fetch,
            references: first.tally.references,
            lookups: first.tally.lookups(),
            touched_bytes: first.footprint.pages << BASE_SHIFT,
            processes: first.crowd.processes(),
            threads: first.crowd.threads(),
            stopped: stopped.or(limit),
            seed: self.options.seed,
        };
        let mut machines: Vec<MachineResult> = self
            .specs
            .iter()
            .zip(&self.place)
            .map(|(spec, &place)| machine(spec, &mut self.engines, place, &workload))
            .collect();
        // The ledger compares with the single-page-size design of the run, with the first TLB, or with the first machine.
        let single = |m: &MachineResult| m.config["kind"] == "single";
        let plain = machines.iter().position(|m| single(m) && m.config["page_size"] == 1 << BASE_SHIFT);
        let tlb = || self.specs.iter().position(|s| s.hardware.tlb().is_some());
        let base = plain.or_else(|| machines.iter().position(single)).or_else(tlb).unwrap_or(0);
        let baseline = machines.get(base).map(|m| (m.counts.clone(), &self.specs[base].params));
        for (m, spec) in machines.iter_mut().zip(&self.specs) {
            let baseline = baseline.as_ref().map(|(counts, params)| (counts, *params));
            m.ledger = cost::ledger(&m.counts, &m.memory, baseline, &spec.params);
        }
        RunResult { schema: RESULT_SCHEMA.to_owned(), workload, machines }
    }
}

/// Engines for so many TLBs. What all of an engine share, the look at each block, costs about as much as six TLBs do by themselves;
/// and the thread that reads or records wants a processor too.
fn engines_for(designs: usize, threads: usize) -> usize {
    (designs / 6).clamp(threads.saturating_sub(1).max(1), threads).min(designs.max(1))
}

/// Cuts a list into about equal parts.
fn shares<T>(list: &[T], count: usize) -> impl Iterator<Item = &[T]> {
    (0..count).map(move |i| &list[i * list.len() / count..(i + 1) * list.len() / count])
}

/// Puts machines that can be simulated as one together, ascending in the key in which they differ.
fn families(specs: &[MachineSpec], part: &[usize], plain: bool) -> Vec<Vec<usize>> {
    let mut families: Vec<(Option<serde_json::Map<_, _>>, Vec<usize>)> = Vec::new();
    for &i in part {
        let params = &specs[i].params;
        let alike = matches!(specs[i].hardware, Hardware::System(kind) if !plain && (kind.alike)(params));
        let others = alike.then(|| {
            let mut others = params.as_json().clone();
            others.remove(DIFFERENCE);
            others
        });
        match families.iter_mut().find(|(of, members)| alike && *of == others && members.len() < FAMILY) {
            Some((_, members)) => members.push(i),
            None => families.push((others, vec![i])),
        }
    }
    let ascending = |mut members: Vec<usize>| {
        if members.len() > 1 {
            members.sort_by_key(|&i| specs[i].params.int(DIFFERENCE));
        }
        members
    };
    families.into_iter().map(|(_, members)| ascending(members)).collect()
}

/// Engines under construction.
struct Build<'a> {
    specs: &'a [MachineSpec],
    options: &'a Options,
    engines: Vec<Loop>,
    place: Vec<Place>,
}

impl Build<'_> {
    fn refuse(&self, i: usize) -> impl Fn(String) -> Error {
        let machine = self.specs[i].name.clone();
        move |what| Error::Config { machine: machine.clone(), what }
    }

    /// One engine for TLBs, in groups that share an operating system.
    fn pages<'s>(&mut self, parts: impl Iterator<Item = &'s [usize]>) -> Result<(), Error> {
        let (mut groups, mut units): (Vec<Group>, Vec<Unit>) = Default::default();
        for part in parts {
            let os = Os::new(&self.specs[part[0]].params).map_err(self.refuse(part[0]))?;
            let group = Group { os, designs: units.len()..units.len() + part.len(), growth: Growth::new() };
            for &i in part {
                let spec = &self.specs[i];
                let design = spec.hardware.tlb().expect("only TLBs are here");
                let build = || (design.build)(&spec.params).map_err(self.refuse(i));
                let fetch = spec.params.flag("split").then(build).transpose()?;
                let unit = Unit {
                    name: spec.name.clone(),
                    group: groups.len(),
                    order: group.order(),
                    main: build()?,
                    fetch,
                    profile: Profile::new(),
                    walks: hw::tlb::hierarchy::walks(&spec.params),
                };
                self.place[i] = Place { engine: self.engines.len(), unit: units.len(), member: 0 };
                units.push(unit);
            }
            groups.push(group);
        }
        let engine = Engine::new(groups, units, self.options.limit, self.options.plain);
        self.engines.push(Loop::Pages(Box::new(engine)));
        Ok(())
    }

    /// One engine for machines with caches, all on one operating system.
    fn lines(&mut self, families: &[Vec<usize>]) -> Result<(), Error> {
        let first = families[0][0];
        let os = Os::new(&self.specs[first].params).map_err(self.refuse(first))?;
        if os.page_shift() != BASE_SHIFT {
            let size = crate::addr::Bytes(1 << os.page_shift());
            return Err(self.refuse(first)(format!(
                "page_size = {size} is not allowed: machines with caches have pages of 4K"
            )));
        }
        let mut units = Vec::new();
        for family in families {
            let i = family[0];
            let spec = &self.specs[i];
            let plain = self.options.plain;
            let system = match spec.hardware {
                Hardware::System(kind) => {
                    let members: Vec<&Params> = family.iter().map(|&i| &self.specs[i].params).collect();
                    (kind.build)(&members, plain)
                }
                Hardware::Tlb(design) => (design.build)(&spec.params).and_then(|tlb| {
                    Ok(Box::new(hw::system::Mmu::new(tlb, &spec.params, plain)?) as Box<dyn hw::system::System>)
                }),
            };
            let system = system.map_err(self.refuse(i))?;
            let walks = hw::tlb::walker::by_caches(&spec.params);
            for (member, &i) in family.iter().enumerate() {
                self.place[i] = Place { engine: self.engines.len(), unit: units.len(), member };
            }
            units.push(lines::Unit::new(spec.name.clone(), system, walks));
        }
        let engine = LineEngine::new(os, units, self.options.limit, self.options.plain);
        self.engines.push(Loop::Lines(Box::new(engine)));
        Ok(())
    }
}

fn machine(spec: &MachineSpec, engines: &mut [Loop], place: Place, workload: &Workload) -> MachineResult {
    // A timeline runs in 4 KB lookups, so that all machines of a run have the same slices.
    let clock = workload.lookups.total();
    let Place { engine: e, unit: u, member } = place;
    let (os, growth, profile, tlb, system, caches, ideal_segment) = match &mut engines[e] {
        Loop::Pages(engine) => {
            let unit = &mut engine.units[u];
            let Group { os, growth, .. } = &mut engine.groups[unit.group];
            let mut tlb = unit.main.counts().clone();
            if let Some(fetch) = &unit.fetch {
                tlb += fetch.counts();
            }
            tlb.lookups = engine.tally.lookups_in(unit.order);
            let book = engine.lives.as_ref().filter(|_| unit.walks);
            let ideal =
                book.and_then(|lives| lives.ideal(u, engine.tally.time())).map(|ideal| cost::overhead::beside(ideal, &tlb));
            (&*os, growth, &mut unit.profile, tlb, None, None, ideal)
        }
        Loop::Lines(engine) => {
            let accesses = engine.accesses(engine.units[u].system.line_shift());
            let unit = &mut engine.units[u];
            if let Some((tlb, caches)) = unit.system.mmu(accesses) {
                let tlb = TlbCounts { lookups: clock, ..tlb };
                let ideal = engine.lives.as_ref().and_then(|lives| lives.ideal(u, engine.tally.time()));
                let ideal = ideal.map(|ideal| cost::overhead::beside(ideal, &tlb));
                (&engine.os, &mut engine.growth, &mut unit.profile, tlb, None, Some(caches), ideal)
            } else {
                let counts = unit.system.counts(member, accesses);
                let tlb = TlbCounts { lookups: clock, ..unit.translations(&counts) };
                (&engine.os, &mut engine.growth, &mut unit.profile, tlb, Some(counts), None, None)
            }
        }
    };
    let timeline = profile.timeline(clock);
    let memory_over_time = growth.timeline(clock, os);
    let regions = profile.regions(os.labels());
    let (contiguity, segments, compaction) = (os.contiguity(), os.segment_use(), os.compaction_use());
    let (memory, os) = (os.memory_use(), os.counts());
    let counts = Counts { tlb, os };
    let mut cost = match (spec.hardware, &system) {
        (Hardware::Tlb(design), _) => {
            let (bits, reach) = ((design.bits)(&spec.params), (design.reach)(&spec.params));
            cost::cost(&counts, workload, &spec.params, bits, reach)
        }
        (Hardware::System(kind), system) => {
            let system = system.as_ref().expect("it was just counted");
            cost::system::cost(system, &counts, workload, &spec.params, (kind.reach)(&spec.params))
        }
    };
    if spec.hardware.tlb().is_some() && spec.params.flag("split") {
        cost.area_rbe = cost.area_rbe.map(|one| 2.0 * one);
        cost.reach_bytes *= 2;
    }
    cost.compaction =
        compaction.as_ref().map(|used| cost::compaction::cost(used, spec.params.int(crate::params::PAGE_SIZE.name)));
    let overhead = system.as_ref().map_or_else(Vec::new, |system| cost::system::rows(system, workload, &spec.params));
    MachineResult {
        name: spec.name.clone(),
        config: spec.params.as_json().clone(),
        counts,
        system,
        caches,
        overhead,
        memory,
        contiguity,
        compaction,
        segments,
        ideal_segment,
        cost,
        ledger: Vec::new(),
        timeline,
        memory_over_time,
        regions,
    }
}
