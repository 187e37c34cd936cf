//! Samples of sets, driven by simulated traps (CA-14), against a plain engine that sees every reference.

use crate::ca_14_trap::{Machine, Step, steps, streams};
use farreach_machine::{Estimate, MachineSpec, SetSample, TrapLab};
use farreach_types::addr::{Asid, Vpn};
use std::collections::HashMap;

/// Designs in sets, with replacement that traps can drive and that draws no random numbers.
const DESIGNS: [&str; 7] = [
    "t94/single:entries=32,ways=2,replacement=fifo",
    "t94/single:entries=32,ways=4",
    "t94/complete:entries=16,ways=2,factor=4,placement=demand",
    "t94/superpage:entries=16,ways=2,lookup=probe,placement=demand",
    "hierarchy:l1d=4K:16/2+2M:4,l1i=4K:16/2,l2=4K|2M:64/4,replacement=fifo,placement=demand",
    "hierarchy:l1d=4K:16/2,l1i=4K:8/2,l2=4K:64/2,l2i=4K:32/4,l1_replacement=used-bit,placement=demand",
    "today/skylake:l1_replacement=fifo",
];

fn spec(text: &str) -> MachineSpec {
    MachineSpec::of_kind(text).unwrap_or_else(|| MachineSpec::parse(text, 7)).expect(text)
}

fn trap_lab(machines: &[&str]) -> TrapLab {
    TrapLab::new(machines.iter().map(|text| spec(text)).collect(), 7).expect("traps can drive them")
}

/// Runs the steps by traps, a step a microsecond. Returns the traps.
fn drive(lab: &mut TrapLab, steps: &[Step]) -> u64 {
    let mut table: HashMap<(Asid, Vpn), bool> = HashMap::new();
    let mut traps = 0;
    for (time, step) in steps.iter().enumerate() {
        lab.pass(time as u64);
        lab.progress(time as u64);
        let mut mapped = None;
        match step {
            Step::Reference(at) => {
                let page = (at.asid, at.vpn);
                let passes =
                    table.get(&page).is_some_and(|stores| *stores || at.kind != farreach_types::event::Kind::Store);
                if !passes && lab.observes(at.vpn) {
                    traps += 1;
                    mapped = Some((page, lab.trap(at.asid, at.vpn, at.kind).expect("memory suffices")));
                }
            }
            Step::Event(asid, op) => lab.event(*asid, op).expect("a sound stream"),
            Step::Switch(_) => {}
        }
        lab.take_unmapped(|asid, pages| pages.iter().for_each(|vpn| _ = table.remove(&(asid, vpn))));
        table.extend(mapped);
    }
    lab.progress(steps.len() as u64);
    traps
}

/// Misses of the plain engine, by the value of these bits of the page number.
fn misses_by_class(machine: &str, steps: &[Step], bits: &std::ops::Range<u32>) -> Vec<u64> {
    let mut plain = Machine::of(&spec(machine));
    let mut classes = vec![0; SetSample::classes(bits) as usize];
    for step in steps {
        if let (true, Step::Reference(at)) = (plain.step(step), step) {
            classes[(at.vpn.0 >> bits.start) as usize % (1 << bits.len())] += 1;
        }
    }
    classes
}

#[test]
fn ca_14_sampled_sets_miss_as_if_all_were_simulated() {
    for (n, batches) in streams().iter().enumerate() {
        let steps = steps(batches);
        for machine in DESIGNS {
            let bits = trap_lab(&[machine]).set_bits().expect(machine);
            let classes = misses_by_class(machine, &steps, &bits);
            let of = SetSample::classes(&bits);
            for sampled in [1, of / 2, of] {
                let sample = SetSample::choose(&bits, sampled, n as u64);
                let is_in = |class: usize| sample.place(Vpn((class as u64) << bits.start)).is_some();
                let expected: Vec<u64> = (0..of as usize).filter(|&c| is_in(c)).map(|c| classes[c]).collect();
                let mut lab = trap_lab(&[machine]);
                lab.sample(Some(sample));
                let traps = drive(&mut lab, &steps);
                let found = lab.misses().next().unwrap();
                assert_eq!(found, expected.iter().sum::<u64>(), "{machine}, {sampled} of {of}");
                assert!(traps >= found, "{machine}: each miss trapped");
                assert_eq!(lab.estimates(), [Estimate::over_sets(&expected, of)], "{machine}, {sampled} of {of}");
            }
            assert!(classes.iter().filter(|n| **n > 0).count() > 1, "{machine}: {classes:?}");
        }
    }
}

/// The sample is of whole sets in every array of every machine.
#[test]
fn bits_are_those_that_all_arrays_have_in_common() {
    let bits = |machines: &[&str]| trap_lab(machines).set_bits().map_err(|error| error.to_string());
    assert_eq!(bits(&DESIGNS[..1]), Ok(0..4), "16 sets");
    assert_eq!(bits(&DESIGNS[2..3]), Ok(2..5), "8 sets of blocks of 4 pages");
    assert_eq!(bits(&DESIGNS[3..4]), Ok(0..3));
    assert_eq!(bits(&DESIGNS[4..5]), Ok(0..3), "8, 8 and 16 sets; the array of 2 MB pages is empty");
    assert_eq!(bits(&DESIGNS[5..6]), Ok(0..2), "8, 4, 32 and 8 sets");
    assert_eq!(bits(&["t94/set-associative:entries=1536,ways=12"]), Ok(0..7));
    assert_eq!(bits(&["t94/set-associative", DESIGNS[2], DESIGNS[4]]), Ok(2..3));
    assert_eq!(bits(&["ps/16k:entries=32,ways=2,replacement=fifo"]), Ok(2..6), "16 sets of pages of 16 KB");
    for (machines, words) in [
        (&["t94/single"][..], "t94/single': sets cannot be sampled: its array of 64 entries is fully associative"),
        (&["s04/skewed:replacement=fifo,placement=demand"], "a hash of the page number"),
        (&["t94/partial:ways=4,placement=demand"], "frames decide which pages share an entry"),
        (&["rmm15/range:l1_replacement=fifo,placement=demand"], "not in sets of pages"),
        (&["rmm15/thp:l1_replacement=fifo"], "placement = thp: what a page gets may depend on the others"),
        (&["t94/set-associative:process_ids=false"], "process_ids must be true"),
        (&["hierarchy:l1d=4K:16/2,l1i=4K:16,l2=none,l1_replacement=fifo"], "array of 16 entries is fully"),
        (
            &["t94/set-associative:entries=8,ways=2", "t94/complete:entries=16,ways=2,factor=16,placement=demand"],
            "no bit of the page number chooses the set in all arrays of all machines",
        ),
    ] {
        let refused = bits(machines).unwrap_err();
        assert!(refused.contains(words), "{machines:?}: {refused}");
    }
}

/// Without a sample everything counts; a later sample begins anew.
#[test]
fn samples_may_change_while_a_program_runs() {
    let steps = steps(&streams()[2]);
    let machine = DESIGNS[0];
    let bits = trap_lab(&[machine]).set_bits().unwrap();
    let mut lab = trap_lab(&[machine]);
    let (first, rest) = steps.split_at(steps.len() / 2);
    drive(&mut lab, first);
    let before = lab.misses().next().unwrap();
    assert_eq!(lab.estimates(), [Estimate { total: before as f64, standard_error: Some(0.0) }]);
    lab.sample(Some(SetSample::choose(&bits, 16, 1)));
    assert_eq!(lab.estimates()[0].total, 0.0);
    drive(&mut lab, rest);
    let all = lab.misses().next().unwrap();
    assert!(all > before + 50);
    assert_eq!(lab.estimates(), [Estimate { total: (all - before) as f64, standard_error: Some(0.0) }]);
}
