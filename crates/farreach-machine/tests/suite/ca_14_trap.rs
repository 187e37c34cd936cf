//! CA-14: a trap-style engine (T94-70) beside the trace-driven one (T94-71, AMB-4).
//!
//! The trap engine never sees a hit. It has a real page table in which only the mappings of the target TLB are valid:
//! any other reference traps, and the trap is passed to the target. With replacement that does not depend on hits, the
//! two engines miss at the same references; with used bits they do if the page table has reference bits that the trap
//! may read.

use crate::common::{Stream, lab};
use farreach_hw::tlb::{EntryView, Lookup, Outcome, Tlb, Unfiltered};
use farreach_machine::MachineSpec;
use farreach_os::{Change, Os, What};
use farreach_trace::generate;
use farreach_types::addr::{Asid, BASE_SHIFT, Vpn};
use farreach_types::event::{Batch, Blocks, Item, Kind, Op, Source};
use farreach_types::translation::Attr;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::HashMap;

/// The input of both engines.
#[derive(Debug)]
pub enum Step {
    /// One lookup.
    Reference(Lookup),
    /// An event of the program.
    Event(Asid, Op),
    /// A process switch.
    Switch(Asid),
}

/// The lookups and events of a stream, one by one.
pub fn steps(batches: &[Batch]) -> Vec<Step> {
    let (mut blocks, mut steps, mut current) = (Blocks::default(), Vec::new(), None);
    for batch in batches {
        let asid = batch.asid;
        if current.replace(asid) != Some(asid) {
            steps.push(Step::Switch(asid));
        }
        let each = |item: Item| {
            match item {
                Item::Op(Op::Define { .. }) => {}
                Item::Op(op) => steps.push(Step::Event(asid, op.clone())),
                Item::Access(a) => {
                    let pages = a.addr >> BASE_SHIFT..=(a.addr + u64::from(a.size) - 1) >> BASE_SHIFT;
                    steps.extend(pages.map(|v| Step::Reference(Lookup { asid, vpn: Vpn(v), kind: a.kind })));
                }
            }
            true
        };
        blocks.expand(batch, each).expect("a sound stream");
    }
    steps
}

/// Operating system and target TLB, the same for both engines.
pub struct Machine {
    os: Os,
    target: Box<dyn Tlb>,
    unfiltered: Unfiltered,
    changes: Vec<Change>,
}

impl Machine {
    fn new(text: &str) -> Machine {
        Machine::of(&MachineSpec::parse(text, 7).expect(text))
    }

    pub fn of(spec: &MachineSpec) -> Machine {
        let text = &spec.name;
        let target = (spec.hardware.tlb().expect(text).build)(&spec.params).expect(text);
        Machine {
            os: Os::new(&spec.params).expect(text),
            target,
            unfiltered: Unfiltered::default(),
            changes: Vec::new(),
        }
    }

    /// The modified kernel of T94-70: it passes the changes of the operating system on to the target.
    fn follow(&mut self) {
        self.os.take_changes(&mut self.changes);
        for c in &self.changes {
            match c.what {
                What::Stale => self.target.invalidate(c.asid, c.pages, &mut self.unfiltered),
                What::Demoted => self.target.demote(c.asid, c.pages, &mut self.unfiltered),
                What::Gone => self.target.invalidate_space(c.asid, &mut self.unfiltered),
                What::Writable
                | What::Unaccessed
                | What::Promoted
                | What::Segment
                | What::Mapped
                | What::Flushed
                | What::FlushedEverywhere => {}
            }
        }
    }

    /// A step. Returns whether it was a reference that missed.
    pub fn step(&mut self, step: &Step) -> bool {
        match step {
            Step::Reference(at) => return self.refer(*at),
            Step::Event(asid, op) => {
                self.os.apply(*asid, op);
                self.follow();
            }
            Step::Switch(to) => self.target.switch(*to, &mut self.unfiltered),
        }
        false
    }

    /// A reference that reaches the target. Returns whether it missed.
    fn refer(&mut self, at: Lookup) -> bool {
        let pte = self.os.touch(at.asid, at.vpn, at.kind).expect("memory suffices").pte;
        self.follow();
        let outcome = self.target.access(at, pte, &self.os, &mut self.unfiltered).outcome;
        self.unfiltered.clear();
        outcome != Outcome::Hit
    }
}

/// The misses of a run, as numbers of steps, and the entries at its end without their used and modified bits.
#[derive(PartialEq, Eq)]
struct Run {
    misses: Vec<usize>,
    entries: Vec<EntryView>,
}

impl Run {
    fn must_be(&self, other: &Run, context: &str) {
        let first = self.misses.iter().zip(&other.misses).find(|(a, b)| a != b);
        assert_eq!(first, None, "{context}: the first miss that differs");
        assert_eq!(self.misses.len(), other.misses.len(), "{context}");
        assert_eq!(self.entries, other.entries, "{context}");
    }
}

fn bare(mut entries: Vec<EntryView>) -> Vec<EntryView> {
    for e in &mut entries {
        e.used = None;
        e.pages.iter_mut().for_each(|page| page.2 = false);
    }
    entries
}

/// The target sees every reference.
fn trace_driven(text: &str, steps: &[Step]) -> Run {
    let mut m = Machine::new(text);
    let misses = steps.iter().enumerate().filter(|(_, step)| m.step(step)).map(|(n, _)| n).collect();
    Run { misses, entries: bare(m.target.entries()) }
}

/// A valid mapping of the real page table.
struct Valid {
    attr: Attr,
    /// Set by the hardware at each use; only engines that expose it read it.
    referenced: bool,
}

/// The target sees traps only.
struct TrapEngine {
    machine: Machine,
    valid: HashMap<(Asid, Vpn), Valid>,
    /// Whether the page table has reference bits (AMB-4).
    reference_bits: bool,
    traps: u64,
}

impl TrapEngine {
    /// The program refers to a page; whether the target missed.
    fn refer(&mut self, at: Lookup) -> bool {
        let needs = match at.kind {
            Kind::Fetch => Attr::EXEC,
            Kind::Load => Attr::READ,
            Kind::Store => Attr::WRITE,
        };
        let mapping = self.valid.get_mut(&(at.asid, at.vpn));
        let valid = mapping.is_some();
        if let Some(mapping) = mapping.filter(|m| m.attr.0 & needs != 0) {
            mapping.referenced = true;
            return false; // At full speed: the engine does not see it.
        }
        self.traps += 1;
        self.enter_kernel();
        let miss = self.machine.refer(at);
        assert!(miss || valid, "a trap without a miss is one for want of permission");
        self.leave_kernel();
        miss
    }

    /// Reference bits become used bits: the target learns that there was a hit since the last time, not when.
    fn enter_kernel(&mut self) {
        if !self.reference_bits {
            return;
        }
        let Machine { os, target, unfiltered, .. } = &mut self.machine;
        for (&(asid, vpn), mapping) in &self.valid {
            if mapping.referenced {
                let pte =
                    farreach_types::translation::PageTableView::pte(os, asid, vpn).expect("valid mappings are mapped");
                let answer = target.access(Lookup { asid, vpn, kind: Kind::Load }, pte, os, unfiltered);
                assert_eq!(answer.outcome, Outcome::Hit, "valid mappings are in the target");
            }
        }
        unfiltered.clear();
    }

    /// Valid is what the target holds, referenced what its used bits say: they are cleared together.
    fn leave_kernel(&mut self) {
        self.valid.clear();
        for entry in self.machine.target.entries() {
            for vpn in (entry.base.0..entry.base.0 + (1 << entry.order)).map(Vpn) {
                // Partial entries may share a tag (T94-17); a superpage lists its first page only.
                let listed = entry.pages.iter().any(|page| page.0 == vpn.0 - entry.base.0);
                if entry.sb_enabled.is_some() && !listed {
                    continue;
                }
                if let Some(t) = self.machine.target.probe(entry.asid, vpn, Kind::Load) {
                    let referenced = entry.used == Some(true);
                    self.valid.insert((entry.asid, vpn), Valid { attr: t.attr, referenced });
                }
            }
        }
    }
}

/// The run, and the number of traps it took.
fn trap_driven(text: &str, reference_bits: bool, steps: &[Step]) -> (Run, u64) {
    let mut e = TrapEngine { machine: Machine::new(text), valid: HashMap::new(), reference_bits, traps: 0 };
    let mut misses = Vec::new();
    for (n, step) in steps.iter().enumerate() {
        match step {
            Step::Reference(at) if e.refer(*at) => misses.push(n),
            Step::Reference(_) => {}
            Step::Event(asid, op) => {
                e.enter_kernel();
                e.machine.os.apply(*asid, op);
                e.machine.follow();
                e.leave_kernel();
            }
            Step::Switch(to) => {
                e.enter_kernel();
                e.machine.target.switch(*to, &mut e.machine.unfiltered);
                e.leave_kernel();
            }
        }
    }
    (Run { misses, entries: bare(e.machine.target.entries()) }, e.traps)
}

const DESIGNS: [&str; 5] = [
    "t94/single:entries=16",
    "t94/superpage:entries=12",
    "t94/complete:entries=6,factor=8",
    "t94/partial:entries=6,factor=8",
    "t94/single:entries=16,process_ids=false",
];

/// Programs with mappings that change, forks and several processes; and pages at random with some favourites.
pub fn streams() -> Vec<Vec<Batch>> {
    let mut streams = Vec::new();
    for seed in 0..2 {
        let mut source = generate::program(seed, 120);
        let mut batches = Vec::new();
        while let Some(batch) = source.next_batch().expect("generators do not fail") {
            batches.push(batch);
        }
        streams.push(batches);
    }
    for seed in 0..2 {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut s = Stream::new();
        s.start().anon(0x1000, 128).file(0x2000, 128, "/disk/f");
        for _ in 0..6_000 {
            let often = rng.random_bool(0.8);
            let page = [0x1000, 0x2000][rng.random_range(0..2)] + rng.random_range(0..if often { 6 } else { 128 });
            match rng.random_range(0..100) {
                0 => s.unmap(page & !7, 8).anon(page & !7, 8),
                1..30 => s.store(page),
                _ => s.load(page),
            };
        }
        streams.push(s.batches);
    }
    streams
}

fn designs(replacement: &str) -> impl Iterator<Item = String> + '_ {
    DESIGNS.iter().map(move |d| format!("{d},replacement={replacement}"))
}

#[test]
fn ca_14_t94_71_blind_replacement_misses_alike() {
    for batches in streams() {
        let steps = steps(&batches);
        for machine in designs("fifo").chain(designs("random")) {
            let all = trace_driven(&machine, &steps);
            let (traps, taken) = trap_driven(&machine, false, &steps);
            traps.must_be(&all, &machine);
            assert!(all.misses.len() > 100, "{machine}: {} misses", all.misses.len());
            assert!(taken < steps.len() as u64 * 3 / 4, "{machine}: hits are invisible, {taken} traps");
        }
    }
}

/// The trace-driven engine of this file agrees with the laboratory: same misses in number and in place.
#[test]
fn ca_14_the_trace_driven_engine_is_the_laboratory() {
    for batches in streams() {
        let steps = steps(&batches);
        for machine in ["fifo", "random", "used-bit"].iter().flat_map(|r| designs(r)) {
            let mut lab = lab(&[&machine], false, 1);
            batches.iter().for_each(|b| assert!(lab.feed(b).expect("memory suffices")));
            let all = trace_driven(&machine, &steps);
            let result = lab.result("stream", None);
            assert_eq!(result.machines[0].counts.tlb.misses, all.misses.len() as u64, "{machine}");
            let timeline = &result.machines[0].timeline;
            let mut slices = vec![0; timeline.misses.len()];
            let mut lookups = 0;
            let mut missed = all.misses.iter().peekable();
            for (n, step) in steps.iter().enumerate() {
                if matches!(step, Step::Reference(_)) {
                    if missed.next_if(|m| **m == n).is_some() {
                        slices[(lookups / timeline.slice_lookups) as usize] += 1;
                    }
                    lookups += 1;
                }
            }
            assert_eq!(slices, timeline.misses, "{machine}");
            assert_eq!(bare(lab.entries().remove(0)), all.entries, "{machine}");
        }
    }
}

#[test]
fn amb_4_used_bits_need_reference_bits() {
    let mut differ = vec![0; DESIGNS.len()];
    for batches in streams() {
        let steps = steps(&batches);
        for (i, machine) in designs("used-bit").enumerate() {
            let all = trace_driven(&machine, &steps);
            trap_driven(&machine, true, &steps).0.must_be(&all, &machine);
            differ[i] += usize::from(trap_driven(&machine, false, &steps).0.misses != all.misses);
        }
    }
    assert!(differ.iter().all(|&n| n > 0), "without reference bits the misses are others: {differ:?}");
}

/// Reference bits say that an entry was used, not in which order: true LRU is impossible (T94-71).
#[test]
fn t94_71_recency_cannot_be_observed() {
    let mut s = Stream::new();
    // Full with 0 to 3, then 1 is used before 0: the least recent is 2, then 3, then 1.
    s.start().anon(0x100, 8).loads([0x100, 0x101, 0x102, 0x103, 0x101, 0x100, 0x104, 0x105, 0x106, 0x100]);
    let steps = steps(&s.batches);
    let machine = "t94/single:entries=4,replacement=lru";
    assert_ne!(trap_driven(machine, false, &steps).0.misses, trace_driven(machine, &steps).misses);
}

/// The golden string of T94-14 (CA-4), seen by each engine.
#[test]
fn t94_14_golden_string_by_traps() {
    let mut s = Stream::new();
    s.start().anon(0x100, 16).loads("ABCDEBFAGE".bytes().map(|b| 0x100 + u64::from(b - b'A')));
    let steps = steps(&s.batches);
    let machine = "t94/single:entries=4";
    let all = trace_driven(machine, &steps);
    assert_eq!(all.misses.len(), 9, "all but the second B");
    trap_driven(machine, true, &steps).0.must_be(&all, machine);
    assert_ne!(trap_driven(machine, false, &steps).0.entries, all.entries, "the hit of B was not seen");
}
