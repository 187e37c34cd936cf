//! Results from the counters of the engines.

use super::Lab;
use super::any_engine::{AnyEngine, Location, Seen};
use crate::guest::GuestRun;
use crate::hardware::Hardware;
use crate::instance::Group;
use crate::marks::Part;
use crate::spec::MachineSpec;
use farreach_cost as cost;
use farreach_hw as hw;
use farreach_hw::tlb::idle_choices;
use farreach_types::addr::BASE_SHIFT;
use farreach_types::counts::{
    Cost, Counts, MachineResult, MemoryUse, Phase, RESULT_SCHEMA, RunResult, SystemCounts, TABLE, TlbCounts, Workload,
};
use farreach_types::params::PAGE_SIZE;

impl Lab {
    /// The result of what was simulated so far, after [`Lab::finish`]. `source`: what ran, for display; `stopped`: why
    /// it ended early, if it did.
    ///
    /// # Panics
    /// With [`Options::threads`](crate::Options::threads), before [`Lab::finish`]. In the first of two passes.
    pub fn result(&mut self, source: &str, stopped: Option<String>) -> RunResult {
        self.result_of(source, stopped, None)
    }

    /// As [`Lab::result`], with the number of `instructions` of the program, if they were counted elsewhere.
    pub(crate) fn result_of(&mut self, source: &str, stopped: Option<String>, instructions: Option<u64>) -> RunResult {
        assert!(!self.is_learning(), "again() comes before result()");
        let limit = self.limit_reached().then(|| format!("--limit {}", self.options.limit.unwrap_or(0)));
        let engines = self.driver.engines_mut("result()");
        engines.iter_mut().for_each(AnyEngine::end_context);
        let first = engines[0].seen();
        for other in &*engines {
            let facts = |seen: &Seen| (seen.tally.references, seen.tally.further, seen.footprint.pages);
            debug_assert_eq!(
                (facts(&other.seen()), other.seen().process_counts, other.seen().guest.map(GuestRun::used)),
                (facts(&first), first.process_counts, first.guest.map(GuestRun::used)),
                "engines disagree"
            );
        }
        // A timeline runs in 4 KB lookups, so that all machines of a run have the same slices.
        let clock = first.whole.clock();
        let workload = Workload {
            source: source.to_owned(),
            instructions: instructions.unwrap_or(first.tally.references.fetch),
            references: first.tally.references,
            lookups: first.tally.lookups(),
            touched_bytes: first.footprint.pages << BASE_SHIFT,
            processes: first.process_counts.processes(),
            threads: first.process_counts.threads(),
            stopped: stopped.or(limit),
            signals: first.process_counts.signals(),
            limits: Vec::new(),
            seed: self.options.seed,
            huge_pages: first.process_counts.huge_pages().clone(),
            allocator: None,
            traps: None,
            guest: first.guest.map(GuestRun::used),
            windows: engines[0].windows(),
            piece: None,
        };
        let mut machines: Vec<MachineResult> = self
            .specs
            .iter()
            .zip(&self.locations)
            .map(|(spec, &location)| machine(spec, engines, location, &workload, clock))
            .collect();
        // The ledger compares with the single-page-size design of the run, with the first TLB, or with the first
        // machine.
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

fn machine(
    spec: &MachineSpec,
    engines: &mut [AnyEngine],
    location: Location,
    workload: &Workload,
    clock: u64,
) -> MachineResult {
    let by_time = engines[location.engine].seen().tally.passed.is_some();
    let Location { engine: e, instance: u, member } = location;
    let mut guest;
    let mut estimate = None;
    let (os_counts, phases): (_, Vec<Part>);
    let (os, memory_profile, profile, tlb, system, caches, ideal_segment) = match &mut engines[e] {
        AnyEngine::Pages(engine) => {
            guest = engine.guest.as_ref().map(|guest| guest.counts(u));
            let tally = engine.marks.tally(&engine.tally);
            let counted = engine.counted(u);
            phases = engine.marks.phases(u, engine.tally, &counted);
            let counted = engine.marks.counted(u, counted);
            os_counts = counted.os;
            let now = engine.tally.limit_count();
            let sampled = engine.sampling.as_ref().map(|sampling| sampling.whole(u, now, &engine.instances));
            let instance = &mut engine.instances[u];
            let Group { os, memory_profile, .. } = &mut engine.groups[instance.group];
            estimate = sampled.as_ref().map(|(_, estimate)| *estimate);
            let counts = sampled.map_or(counted.tlb, |(counts, _)| counts);
            let tlb = TlbCounts { lookups: tally.lookups_in(instance.order), ..counts };
            // Walks of what was not simulated are not known.
            let lifetimes = engine.lifetimes.as_mut().filter(|_| instance.walks && estimate.is_none());
            let ideal = lifetimes
                .and_then(|lifetimes| lifetimes.ideal(u, engine.tally.time()))
                .map(|ideal| cost::overhead::beside(ideal, &tlb));
            (&*os, memory_profile, &mut instance.profile, tlb, None, None, ideal)
        }
        AnyEngine::Lines(engine) => {
            guest = engine.guest.as_ref().map(|guest| guest.counts(u));
            let at = engine.instances[u].members.start + member;
            let lookups = engine.marks.tally(&engine.tally).clock();
            let counted = engine.counted(u, member);
            phases = engine.marks.phases(at, engine.tally, &counted);
            let counted = engine.marks.counted(at, counted);
            let instance = &mut engine.instances[u];
            os_counts = counted.os;
            let tlb = TlbCounts { lookups, ..counted.tlb };
            if let Some(caches) = counted.caches {
                let time = engine.tally.time();
                let lifetimes = engine.lifetimes.as_mut().filter(|_| instance.walks);
                let ideal = lifetimes.and_then(|lifetimes| lifetimes.ideal(u, time));
                let ideal = ideal.map(|ideal| cost::overhead::beside(ideal, &tlb));
                (&engine.os, &mut engine.memory_profile, &mut instance.profile, tlb, None, Some(caches), ideal)
            } else {
                let counts = counted.system;
                (&engine.os, &mut engine.memory_profile, &mut instance.profile, tlb, counts, None, None)
            }
        }
    };
    let mut timeline = profile.timeline(clock);
    let mut memory_over_time = memory_profile.timeline(clock, os);
    if by_time {
        timeline.slice_microseconds = std::mem::take(&mut timeline.slice_lookups);
        memory_over_time.slice_microseconds = std::mem::take(&mut memory_over_time.slice_lookups);
    }
    let mut regions = profile.regions(os.labels());
    if estimate.is_some() {
        // What was counted in windows, as shares of the whole.
        let counted: u64 = timeline.misses.iter().sum();
        let part = |n: u64| (n as f64 * tlb.misses as f64 / counted.max(1) as f64).round() as u64;
        timeline.misses.iter_mut().for_each(|n| *n = part(*n));
        for region in &mut regions {
            (region.fetch_misses, region.data_misses) = (part(region.fetch_misses), part(region.data_misses));
        }
    }
    let (contiguity, segments, compaction) = (os.contiguity(), os.segment_use(), os.compaction_use());
    let page_table_bytes = match tlb.parts.get(TABLE) {
        Some(table) => Some(table.counters.get("table_bytes_most")),
        // Which nodes have no entries then is not followed (UTO-7).
        None if hw::tlb::additions::utopia::leaves_out_entries(&spec.params) => None,
        None if os.guest_table_bytes().is_some() => os.guest_table_bytes(),
        None if hw::tlb::walk::walks(&spec.params) && spec.params.int(hw::tlb::walk::WALK_LEVELS.name) == 4 => {
            os.radix_bytes()
        }
        None => None,
    };
    let memory = MemoryUse { page_table_bytes, ..os.memory_use() };
    let counts = Counts { tlb, os: os_counts };
    let mut cost = price(spec, &counts, system.as_ref(), workload);
    let phases = phases.into_iter().map(|part| part.row(spec, workload)).collect();
    if spec.hardware.tlb().is_some() && spec.params.flag("split") {
        cost.area_rbe = cost.area_rbe.map(|one| 2.0 * one);
        cost.reach_bytes *= 2;
    }
    cost.energy = match spec.hardware {
        _ if by_time => cost::energy::unknown("lookups are not known: only traps were seen"),
        Hardware::Tlb(_) => cost::energy::energy(spec.hardware.kind(), &counts.tlb, workload, &spec.params),
        Hardware::System(_) => cost::energy::unknown("virtual caches were not synthesised"),
    };
    cost.energy_pj = cost.energy.total_pj();
    cost.compaction = compaction
        .as_ref()
        .map(|used| cost::compaction::cost(used, spec.params.int(farreach_types::params::PAGE_SIZE.name)));
    if let Some(guest) = &mut guest {
        cost::contexts::price(&mut guest.contexts, &counts.tlb, &spec.params);
    }
    let overhead = system.as_ref().map_or_else(Vec::new, |system| cost::system::rows(system, workload, &spec.params));
    let mut config = spec.params.as_json().clone();
    for key in idle_choices(&spec.params) {
        // The order of the others stays.
        config.shift_remove(key);
    }
    MachineResult {
        name: spec.name.clone(),
        config,
        counts,
        estimate,
        system,
        caches,
        overhead,
        memory,
        contiguity,
        compaction,
        segments,
        ideal_segment,
        cost,
        phases,
        ledger: Vec::new(),
        timeline,
        memory_over_time,
        regions,
        guest,
    }
}

/// What a machine costs.
fn price(spec: &MachineSpec, counts: &Counts, system: Option<&SystemCounts>, workload: &Workload) -> Cost {
    match (spec.hardware, system) {
        (Hardware::Tlb(design), _) => {
            let (bits, reach) = ((design.bits)(&spec.params), (design.reach)(&spec.params));
            cost::cost(counts, workload, &spec.params, bits, reach)
        }
        (Hardware::System(kind), Some(system)) => {
            cost::system::cost(system, counts, workload, &spec.params, (kind.reach)(&spec.params))
        }
        (Hardware::System(kind), None) => cost::cost(counts, workload, &spec.params, None, (kind.reach)(&spec.params)),
    }
}

impl Part {
    fn row(self, spec: &MachineSpec, workload: &Workload) -> Phase {
        let Part { tally, counted } = self;
        let order = spec.params.int(PAGE_SIZE.name).trailing_zeros().saturating_sub(BASE_SHIFT);
        let lookups = tally.lookups_in(order);
        let workload = Workload {
            instructions: tally.references.fetch,
            references: tally.references,
            lookups: tally.lookups(),
            ..workload.clone()
        };
        let counts = Counts { tlb: TlbCounts { lookups, ..counted.tlb }, os: counted.os };
        let Cost { cycles, os_cycles, .. } = price(spec, &counts, counted.system.as_ref(), &workload);
        Phase {
            instructions: workload.instructions,
            lookups,
            misses: counts.tlb.misses,
            fetch_misses: counts.tlb.fetch_misses,
            data_misses: counts.tlb.data_misses,
            page_faults: counts.os.page_faults,
            cycles,
            os_cycles,
            resident_bytes: counted.resident_bytes,
        }
    }
}
