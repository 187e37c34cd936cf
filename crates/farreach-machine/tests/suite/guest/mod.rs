//! Whole systems: the kernel's half, contexts, processors.

mod oracle;
mod system;

use crate::common::{Outcome, lab, run_batches};
use farreach_machine::{Lab, MachineSpec, Options, Preset};
use farreach_types::counts::{ContextCounts, Lookups};
use farreach_types::event::Batch;
use system::{KERNEL_AREAS, PROGRAM, System, in_stream};

const PLACEMENT: &str = "guest";

/// The run with the filter and without, on one thread and several, which must not differ; and the laws of its counts.
fn run(machines: &[&str], batches: &[Batch]) -> Outcome {
    let fast = run_batches(machines, batches, false, 1);
    for (plain, threads) in [(true, 1), (false, 3)] {
        let other = run_batches(machines, batches, plain, threads);
        for (one, other) in fast.result.machines.iter().zip(&other.result.machines) {
            assert_eq!(one, other, "{}: plain {plain}, {threads} threads", one.name);
        }
        assert_eq!(fast.result.workload, other.result.workload, "plain {plain}, {threads} threads");
        assert_eq!(fast.entries, other.entries, "plain {plain}, {threads} threads");
    }
    add_up(&fast);
    fast
}

/// Contexts add up to the whole: references, lookups, counts and cycles.
fn add_up(outcome: &Outcome) {
    let workload = &outcome.result.workload;
    let guest = workload.guest.as_ref().expect("it is a whole system");
    let (mut references, mut lookups) = (Lookups::default(), Lookups::default());
    for context in &guest.contexts {
        references += &context.references;
        lookups += &context.lookups;
        assert!(context.references.total() > 0, "{:?} never ran", context.context);
    }
    assert_eq!((references, lookups), (workload.references, workload.lookups));
    for machine in &outcome.result.machines {
        let of_guest = machine.guest.as_ref().expect("it is a whole system");
        let order = guest.contexts.iter().map(|context| &context.context);
        assert!(order.eq(of_guest.contexts.iter().map(|row| &row.context)), "{}", machine.name);
        let mut sum = ContextCounts::default();
        of_guest.contexts.iter().for_each(|row| sum += &row.counts);
        assert_eq!(sum, machine.counts.tlb.of_context(), "{}", machine.name);
        let mut halves = of_guest.of(true);
        halves += &of_guest.of(false);
        assert_eq!(halves, sum, "{}", machine.name);
        if let Some(cycles) = of_guest.contexts.iter().map(|row| row.cycles).sum::<Option<u64>>() {
            assert_eq!(cycles, machine.cost.cycles, "{}", machine.name);
        }
    }
}

/// All presets that can run on the page tables of a guest.
fn presets() -> Vec<String> {
    let all = Preset::all_of("all").into_iter();
    let with = |preset: &&Preset| format!("{}:placement={PLACEMENT}", preset.name);
    let can = |text: &String| {
        let specs = vec![MachineSpec::parse(text, 0).ok()?];
        Lab::new(specs, Options { twice: true, ..Options::default() }).ok()
    };
    all.map(|preset| with(&preset)).filter(|text| can(text).is_some()).collect()
}

/// The seeds and lengths of random streams.
fn check(presets: &[String], seeds: std::ops::Range<u64>, processors: u32) {
    let presets: Vec<&str> = presets.iter().map(String::as_str).collect();
    for seed in seeds {
        let batches = system::stream(seed, processors, 300);
        for some in presets.chunks(16) {
            run(some, &batches);
        }
    }
}

#[test]
fn random_systems_are_counted_alike_with_the_filter_and_without() {
    let presets = presets();
    assert!(presets.len() > 50, "{}", presets.len());
    check(&presets, 0..2, 1);
}

/// The presets that can be there once for each processor, and the reasons of the others.
fn for_processors() -> (Vec<String>, Vec<String>) {
    let stream = system::stream(0, 3, 0);
    let (mut can, mut reasons) = (Vec::new(), Vec::new());
    for preset in presets() {
        match lab(&[&preset], false, 1).feed(&stream[0]) {
            Ok(_) => can.push(preset),
            Err(why) => reasons.push(why.to_string()),
        }
    }
    (can, reasons)
}

#[test]
fn random_systems_of_several_processors_are_counted_alike() {
    let (presets, reasons) = for_processors();
    assert!(presets.len() > 40, "{}", presets.len());
    for why in reasons {
        let known = ["a page table of its own, which is there once", "knows the lookups of one TLB"];
        assert!(known.iter().any(|reason| why.contains(reason)) && why.contains("with 3 processors"), "{why}");
    }
    check(&presets, 10..12, 3);
}

/// By context: space, whether it is the kernel, lookups, misses.
fn rows(outcome: &Outcome, machine: usize) -> Vec<(u32, bool, u64, u64)> {
    let rows = &outcome.machine(machine).guest.as_ref().unwrap().contexts;
    rows.iter().map(|r| (r.context.space, r.context.kernel, r.counts.lookups, r.counts.misses)).collect()
}

/// A system call, and another process: the kernel's pages are in every address space.
#[test]
fn contexts_by_hand() {
    let kernel = in_stream(KERNEL_AREAS[0]);
    let [program, other, _] = PROGRAM;
    let mut system = System::new(1, 1);
    system.load(kernel, 3);
    system.load(program, 2);
    system.privilege(false);
    system.load(program, 4);
    system.load(other, 1);
    system.privilege(true);
    system.load(kernel, 1);
    system.new_space();
    system.load(kernel, 1);
    system.load(program, 1);
    system.go_to(1);
    system.load(program, 1);
    // Nothing ran in between.
    system.go_to(2);
    system.go_to(1);
    system.load(program, 1);
    let out = run(&[&format!("t94/single:placement={PLACEMENT}")], &system.batches);
    let expected = [(1, true, 8, 2), (1, false, 5, 1), (2, true, 2, 1)];
    assert_eq!(rows(&out, 0), expected);
    let guest = out.result.workload.guest.as_ref().unwrap();
    assert_eq!((guest.events.space_switches, guest.events.kernel_entries), (2, 1));
    assert_eq!(guest.references(true).total(), 10);
    let of_machine = out.machine(0).guest.as_ref().unwrap();
    assert_eq!((of_machine.of(true).misses, of_machine.of(false).misses), (3, 1));
}

/// Each virtual processor has TLBs of its own.
#[test]
fn processors_by_hand() {
    let (kernel, program) = (in_stream(KERNEL_AREAS[0]), PROGRAM[0]);
    let mut system = System::new(1, 2);
    system.load(kernel, 2);
    system.load(program, 2);
    system.run_on(1);
    system.load(kernel, 1);
    system.go_to(1);
    system.load(program, 3);
    system.run_on(0);
    system.load(kernel, 1);
    system.load(program, 1);
    let out = run(&[&format!("t94/single:placement={PLACEMENT}"), &format!("ds13/4k:placement={PLACEMENT}")], &system.batches);
    assert_eq!(rows(&out, 0), [(0, true, 1, 1), (1, true, 9, 3)]);
    assert_eq!(out.misses(), [4, 4]);
    assert_eq!(out.entries[0].len(), 4);
    let events = &out.result.workload.guest.as_ref().unwrap().events;
    assert_eq!((events.processor_switches, events.space_switches), (2, 1));
}
