//! What a laboratory found: from the counters of its engines to results.

use super::{Lab, Loop, Place, Seen};
use crate::spec::{Hardware, MachineSpec};
use crate::unit::Group;
use farreach_cost as cost;
use farreach_types::addr::BASE_SHIFT;
use farreach_types::counts::{Counts, MachineResult, RESULT_SCHEMA, RunResult, TlbCounts, Workload};

impl Lab {
    /// The result of what was simulated so far, after [`Lab::settle`]. `source`: what ran, for people; `stopped`: why it ended early, if it did.
    ///
    /// # Panics
    /// With [`Options::threads`](super::Options::threads), before [`Lab::settle`].
    pub fn result(&mut self, source: &str, stopped: Option<String>) -> RunResult {
        assert!(self.crew.is_none(), "settle() comes before result()");
        let limit = self.limit_reached().then(|| format!("--limit {}", self.options.limit.unwrap_or(0)));
        let first = self.engines[0].seen();
        for other in &self.engines {
            let facts = |seen: &Seen| (seen.tally.references, seen.tally.further, seen.footprint.pages);
            debug_assert_eq!((facts(&other.seen()), other.seen().crowd), (facts(&first), first.crowd), "engines disagree");
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
        compaction.as_ref().map(|used| cost::compaction::cost(used, spec.params.int(farreach_types::params::PAGE_SIZE.name)));
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
