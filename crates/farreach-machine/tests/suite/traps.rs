//! CA-14 for the laboratory: driven by traps, it finds what the loop finds that sees every reference (T94-70, T94-71).
//!
//! The source of traps is simulated: a page table as a map. The laboratory never hears of references to pages in it.

#[path = "../../../farreach-hw/tests/conformance/configurations.rs"]
mod configurations;

use crate::ca_14_trap::{Step, steps};
use crate::common::{RandomProcesses, Stream};
use farreach_hw::tlb::{DESIGNS, EntryView};
use farreach_machine::{Lab, MachineSpec, Options, PRESETS, TrapLab};
use farreach_oracle::dice::seeds;
use farreach_trace::generate;
use farreach_types::Error;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::counts::{MachineResult, RunResult};
use farreach_types::event::{Backing, Batch, Kind, Prot, Source};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::HashMap;

/// The end of a run, as far as traps can tell: without modified bits.
#[derive(PartialEq, Debug)]
struct Seen {
    machines: Vec<(MachineResult, Vec<EntryView>)>,
    touched_bytes: u64,
    processes: u64,
}

impl Seen {
    fn new(result: RunResult, entries: Vec<Vec<EntryView>>) -> Seen {
        let bare = |mut entries: Vec<EntryView>| {
            entries.iter_mut().flat_map(|e| &mut e.pages).for_each(|page| page.2 = false);
            entries
        };
        let known = |mut m: MachineResult| {
            m.counts.tlb.lookups = 0;
            // Their slices are of lookups here and of time there, and what is the share of something counts lookups.
            (m.timeline, m.memory_over_time, m.ideal_segment) = Default::default();
            (m.cost, m.ledger) = Default::default();
            m
        };
        Seen {
            machines: result.machines.into_iter().map(known).zip(entries.into_iter().map(bare)).collect(),
            touched_bytes: result.workload.touched_bytes,
            processes: result.workload.processes,
        }
    }
}

fn in_full(specs: Vec<MachineSpec>, batches: &[Batch]) -> Result<Seen, Error> {
    let mut lab = Lab::new(specs, Options { seed: 7, ..Options::default() })?;
    for batch in batches {
        lab.feed(batch)?;
    }
    Ok(Seen::new(lab.result("stream", None), lab.entries()))
}

/// The number of traps, too.
fn by_traps(specs: Vec<MachineSpec>, steps: &[Step]) -> Result<(Seen, u64), Error> {
    let mut lab = TrapLab::new(specs, 7)?;
    let mut table: HashMap<(Asid, Vpn), bool> = HashMap::new();
    let mut traps = 0;
    for (time, step) in steps.iter().enumerate() {
        lab.pass(time as u64);
        let mut mapped = None;
        match step {
            Step::Reference(at) => {
                let page = (at.asid, at.vpn);
                if table.get(&page).is_some_and(|writable| *writable || at.kind != Kind::Store) {
                    continue;
                }
                traps += 1;
                mapped = Some((page, lab.trap(at.asid, at.vpn, at.kind)?));
            }
            Step::Event(asid, op) => lab.event(*asid, op)?,
            Step::Switch(_) => {}
        }
        lab.take_unmapped(|asid, pages| pages.iter().for_each(|vpn| _ = table.remove(&(asid, vpn))));
        table.extend(mapped);
        assert_eq!(table.len() as u64, lab.mapped(), "step {time}: {step:?}");
    }
    Ok((Seen::new(lab.result("stream", None, None), lab.entries()), traps))
}

fn batches(mut source: impl Source) -> Vec<Batch> {
    std::iter::from_fn(|| source.next_batch().expect("generators do not fail")).collect()
}

/// Processes that map, unmap, protect, advise, fork and touch, some pages more often than others; no page is both
/// fetched from and loaded from.
fn processes(seed: u64, touches: u64) -> Vec<Batch> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut below = move |n: u64| rng.random_range(0..n);
    let mut s = Stream::new();
    let mut processes = RandomProcesses::new(&mut s, Prot::RW, true);
    s.map(0x80, 64, Prot { read: true, write: false, exec: true }, false, Backing::Anonymous);
    for _ in 0..80 {
        if !processes.act(&mut s, &mut below) {
            continue;
        }
        for _ in 0..touches {
            let often = below(4) > 0;
            let page = 0x100 + below(if often { 12 } else { 0x300 });
            match below(5) {
                0 => _ = s.store(page),
                1 | 2 => _ = s.fetch(0x80 + below(if often { 4 } else { 64 })),
                _ => _ = s.load(page),
            }
        }
    }
    s.batches
}

/// Runs these machines side by side both ways, which must agree. Returns the traps as a share of the lookups.
fn compare(specs: &dyn Fn() -> Result<Vec<MachineSpec>, Error>, batches: &[Batch]) -> Result<f64, Error> {
    let steps = steps(batches);
    let (traps, taken) = by_traps(specs()?, &steps)?;
    let full = in_full(specs()?, batches)?;
    for ((one, entries), (other, others)) in traps.machines.iter().zip(&full.machines) {
        assert_eq!(one.counts, other.counts, "{}", one.name);
        assert_eq!(entries, others, "{}", one.name);
        assert_eq!(one, other, "{}", one.name);
    }
    assert_eq!(traps, full);
    let lookups = steps.iter().filter(|step| matches!(step, Step::Reference(_))).count();
    Ok(taken as f64 / lookups as f64)
}

/// Keys that make a machine fit for traps, if it is not as it is.
const FIT: [&str; 4] = ["", "replacement=used-bit", "l1_replacement=used-bit", "l1_replacement=fifo"];

/// Every preset that traps can drive, as it is or with another policy, alone and many side by side.
#[test]
fn ca_14_t94_70_every_preset_misses_alike_by_traps() {
    let mut fit = Vec::new();
    for preset in PRESETS {
        let with =
            |keys: &&str| if keys.is_empty() { preset.name.to_owned() } else { format!("{}:{keys}", preset.name) };
        let refused = |machine: &String| MachineSpec::parse(machine, 7).and_then(|m| TrapLab::new(vec![m], 7)).is_err();
        let found = FIT.iter().map(with).find(|machine| !refused(machine));
        // Only caches, program counters (HW-6), the future (REP-1), several cores and accessed bits as walks set them
        // (OSC-2) are out of reach.
        let needs = [
            "walk_cost = \"caches\"",
            "kind = \"midgard\"",
            "cores = 4",
            "\"chirp\"",
            "\"opt\"",
            "\"stride\"",
            "\"masp\"",
            "\"atp\"",
            "\"spot\"",
            "\"dppred\"",
            "host = \"agile\"",
            "placement = \"guest\"",
            "placement = \"ingens\"",
            "placement = \"hawkeye\"",
        ];
        let unfit = preset.name.starts_with("sv97/") || needs.iter().any(|word| preset.toml.contains(word));
        assert_eq!(found.is_none(), unfit, "{}", preset.name);
        fit.extend(found);
    }
    for seed in seeds(1) {
        let one = [batches(generate::program(seed, 16)), processes(seed, 12)];
        for (machine, batches) in fit.iter().zip(one.iter().cycle()) {
            let share = compare(&|| MachineSpec::parse_all([machine], 7), batches).unwrap();
            assert!(share < 0.8, "{machine}: hits are invisible, {share:.2} of the lookups trapped");
        }
        // Together, a third of them for each seed.
        for some in fit.chunks(8).skip(seed as usize % 3).step_by(3) {
            compare(&|| MachineSpec::parse_all(some, 7), &one[1]).unwrap();
        }
    }
}

/// Every configuration of the conformance suite that traps can drive; the others say why not.
#[test]
fn ca_14_t94_71_every_configuration_misses_alike_by_traps() {
    let mut streams = Vec::new();
    for seed in seeds(1) {
        streams.extend([batches(generate::program(seed, 60)), processes(seed, 24)]);
    }
    let (mut driven, mut refused) = (0, 0);
    for (design, policy) in DESIGNS.iter().flat_map(|d| ["demand", "reservation"].map(|policy| (d, policy))) {
        for configuration in configurations::of(design) {
            let text = format!("{}:{},placement={policy}", design.kind, configuration.keys);
            let spec = || MachineSpec::of_kind(&text).expect("its kind is registered");
            let Ok(machine) = spec() else { continue };
            if let Err(why) = TrapLab::new(vec![machine], 7) {
                let why = why.to_string();
                let listed = configuration.long && !configuration.keys.is_empty();
                let written = !configuration.may_be_refused;
                assert!(!(listed && written) || why.contains("cannot be driven by traps"), "{text}: {why}");
                refused += 1;
                continue;
            }
            driven += 1;
            for batches in streams.iter().skip(usize::from(!configuration.long)) {
                compare(&|| Ok(vec![spec()?]), batches).unwrap();
            }
        }
    }
    assert!(driven > 100 && refused > 10, "{driven} driven, {refused} refused");
}
