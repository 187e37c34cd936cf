//! Distribution of machines to engines.

use super::Observe;
use super::any_engine::{AnyEngine, Location};
use crate::engine::Engine;
use crate::filter::MAX_DESIGNS;
use crate::hardware::Hardware;
use crate::instance::{Blueprint, Group, TlbInstance};
use crate::lines::{self, LineEngine};
use crate::marks::Marks;
use crate::memory_profile::MemoryProfile;
use crate::options::Options;
use crate::profile::Profile;
use crate::spec::MachineSpec;
use farreach_hw as hw;
use farreach_hw::system::{DIFFERENCE, FAMILY};
use farreach_os::Os;
use farreach_types::Error;
use farreach_types::addr::BASE_SHIFT;
use farreach_types::params::Params;

/// Engines for `these` of the machines, by index, and where each machine is. Machines whose operating systems are
/// described alike share one.
pub(super) fn engines(
    specs: &[MachineSpec],
    these: &[usize],
    options: &Options,
    observe: Option<Observe>,
) -> Result<(Vec<AnyEngine>, Vec<Location>), Error> {
    // Machines with equal operating systems go to the same engine; engines get about equal numbers of machines.
    let mut shapes: Vec<serde_json::Map<_, _>> = Vec::new();
    let shape_of = |spec: &MachineSpec| {
        let shape = spec.os_keys();
        shapes.iter().position(|s| *s == shape).unwrap_or_else(|| {
            shapes.push(shape);
            shapes.len() - 1
        })
    };
    let shape: Vec<usize> = specs.iter().map(shape_of).collect();
    let (mut lines, mut pages): (Vec<usize>, Vec<usize>) = these.iter().partition(|&&i| specs[i].by_lines());
    pages.sort_by_key(|&i| shape[i]);
    lines.sort_by_key(|&i| shape[i]);
    let mut build =
        Build { specs, options, observe, engines: Vec::new(), locations: vec![Location::default(); specs.len()] };
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
        let families = families(specs, part, options.plain);
        for mine in shares(&families, threads.div_ceil(groups).min(families.len())) {
            build.lines(mine)?;
        }
    }
    Ok((build.engines, build.locations))
}

/// Number of engines for this number of TLBs. The work that all TLBs of an engine share, looking at each block, takes
/// about as long as six TLBs do by themselves; and the thread that reads or records needs a processor too.
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
struct Build<'a, 'o> {
    specs: &'a [MachineSpec],
    options: &'a Options,
    observe: Option<Observe<'o>>,
    engines: Vec<AnyEngine>,
    locations: Vec<Location>,
}

impl Build<'_, '_> {
    fn refuse(&self, i: usize) -> impl Fn(String) -> Error + use<> {
        let machine = self.specs[i].name.clone();
        move |what| Error::Config { machine: machine.clone(), what }
    }

    /// One engine for TLBs, in groups that share an operating system.
    fn pages<'s>(&mut self, parts: impl Iterator<Item = &'s [usize]>) -> Result<(), Error> {
        let (mut groups, mut instances): (Vec<Group>, Vec<TlbInstance>) = Default::default();
        for part in parts {
            let mut os = Os::new(&self.specs[part[0]].params).map_err(self.refuse(part[0]))?;
            os.tag_local_pages();
            if self.options.sample.is_some() && (os.reads_counters() || os.counts_walks()) {
                return Err(self.refuse(part[0])(
                    "--sample is not allowed: its operating system acts on the counters or the walks of the \
                     processor, so all of the run must be simulated"
                        .into(),
                ));
            }
            let group = Group {
                os,
                designs: instances.len()..instances.len() + part.len(),
                memory_profile: MemoryProfile::new(0),
            };
            for &i in part {
                let spec = &self.specs[i];
                let design = spec.hardware.tlb().expect("only TLBs are here");
                let refuse = self.refuse(i);
                let mut build = || {
                    let tlb = (design.build)(&spec.params).map_err(&refuse)?;
                    match &mut self.observe {
                        Some(observe) => observe(spec, tlb).map_err(&refuse),
                        None => Ok(tlb),
                    }
                };
                let fetch = spec.params.flag("split").then(&mut build).transpose()?;
                let instance = TlbInstance {
                    name: spec.name.clone(),
                    group: groups.len(),
                    order: group.order(),
                    main: build()?,
                    fetch,
                    profile: Profile::new(0),
                    walks: hw::tlb::walk::walks(&spec.params),
                    blueprint: self.observe.is_none().then(|| Blueprint { design, params: spec.params.clone() }),
                    parked: Vec::new(),
                };
                self.locations[i] = Location { engine: self.engines.len(), instance: instances.len(), member: 0 };
                instances.push(instance);
            }
            groups.push(group);
        }
        for group in &mut groups {
            let mut designs = instances[group.designs.clone()].iter_mut().flat_map(TlbInstance::each);
            if designs.any(|(tlb, _)| tlb.on_map().is_some()) {
                group.os.announce_maps();
            }
        }
        let mut engine = Engine::new(groups, instances, self.options.stops_after(), self.options.plain);
        if self.options.warmup.is_some() {
            engine.warm_up();
        }
        if let Some(sample) = self.options.sample {
            engine.sample(sample, self.options.seed);
        }
        self.engines.push(AnyEngine::Pages(Box::new(engine)));
        Ok(())
    }

    /// One engine for machines with caches, all on one operating system.
    fn lines(&mut self, families: &[Vec<usize>]) -> Result<(), Error> {
        let first = families[0][0];
        if self.options.sample.is_some() {
            return Err(self.refuse(first)(
                "--sample is not allowed: machines with caches see every reference, so that nothing is saved".into(),
            ));
        }
        let os = Os::new(&self.specs[first].params).map_err(self.refuse(first))?;
        if os.page_shift() != BASE_SHIFT {
            let size = farreach_types::addr::Bytes(1 << os.page_shift());
            return Err(self.refuse(first)(format!(
                "page_size = {size} is not allowed: machines with caches have pages of 4K"
            )));
        }
        let mut instances = Vec::new();
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
            let walks = hw::tlb::walk::by_caches(&spec.params);
            for (member, &i) in family.iter().enumerate() {
                self.locations[i] = Location { engine: self.engines.len(), instance: instances.len(), member };
            }
            let first = instances.last().map_or(0, |last: &lines::SystemInstance| last.members.end);
            let members = first..first + family.len();
            instances.push(lines::SystemInstance::new(spec.name.clone(), system, walks, members));
        }
        let mut os = os;
        if instances.iter_mut().any(|instance: &mut lines::SystemInstance| instance.system.wants_maps()) {
            os.announce_maps();
        }
        let mut engine = LineEngine::new(os, instances, self.options.stops_after(), self.options.plain);
        engine.marks = Marks::new(self.options.warmup.is_some());
        self.engines.push(AnyEngine::Lines(Box::new(engine)));
        Ok(())
    }
}
