//! Whole systems: the kernel's half, contexts, processors.

mod oracle;
mod segment;
mod system;

use crate::common::{Outcome, lab, run_batches};
use crate::page_traces::paged;
use farreach_machine::{Lab, MachineSpec, Options, PageLab, Preset, TrapLab};
use farreach_types::counts::{ContextCounts, Lookups};
use farreach_types::event::{Batch, Guest, Invalidate};
use system::{KERNEL_AREAS, PROGRAM, System, in_stream};

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

/// The presets that can follow a system with this number of processors, and why others cannot.
fn presets(processors: u32) -> (Vec<String>, Vec<String>) {
    let stream = system::stream(0, processors, 0);
    let (mut can, mut reasons) = (Vec::new(), Vec::new());
    for preset in Preset::all_of("all") {
        let text = format!("{}:placement=guest", preset.name);
        let spec = MachineSpec::parse(&text, 0);
        let lab = spec.and_then(|spec| Lab::new(vec![spec], Options { twice: true, ..Options::default() }));
        match lab.and_then(|mut lab| lab.feed(&stream[0])) {
            Ok(_) => can.push(text),
            Err(why) => reasons.push(why.to_string()),
        }
    }
    (can, reasons)
}

/// Runs machines on random streams of these seeds. Returns how often the first used stale entries. Some pages are
/// restored.
fn check(presets: &[String], seeds: std::ops::Range<u64>, processors: u32) -> u64 {
    let presets: Vec<&str> = presets.iter().map(String::as_str).collect();
    let (mut stale, mut restored) = (0, 0);
    for seed in seeds {
        let batches = system::stream(seed, processors, 300);
        for some in presets.chunks(16) {
            let outcome = run(some, &batches);
            stale += outcome.machine(0).counts.os.guest.stale_lookups;
            restored += outcome.machine(0).counts.os.guest.restored_pages;
        }
    }
    assert!(restored > 0);
    stale
}

#[test]
fn random_systems_are_counted_alike_with_the_filter_and_without() {
    let (presets, reasons) = presets(1);
    assert!(presets.len() > 50, "{reasons:#?}");
    check(&presets, 0..2, 1);
}

#[test]
fn random_systems_of_several_processors_are_counted_alike() {
    let (presets, reasons) = presets(3);
    assert!(presets.len() > 40, "{reasons:#?}");
    for why in ["a page table of its own, which is there once", "knows the lookups of one TLB", "its caches are those"]
    {
        assert!(reasons.iter().any(|reason| reason.contains(why)), "{why}");
    }
    check(&presets, 10..12, 3);
}

#[test]
fn page_traces_of_systems_are_counted_alike() {
    let (presets, _) = presets(2);
    let presets: Vec<&str> = presets.iter().map(String::as_str).filter(|name| !name.starts_with("sv97")).collect();
    let batches = system::stream(10, 2, 300);
    for some in presets.chunks(16) {
        let (truth, other) = (run(some, &batches), run(some, &paged(&batches, 1)));
        assert_eq!(truth.result.workload, other.result.workload);
        for (one, other) in truth.result.machines.iter().zip(&other.result.machines) {
            assert_eq!(one, other, "{}", one.name);
        }
        assert_eq!(truth.entries, other.entries);
    }
}

#[test]
fn stale_entries_tags_and_ranges_are_counted_alike() {
    let designs = ["t94/single", "t94/complete", "ds13/4k", "today/skylake", "rmm15/range", "rmm15/colt"];
    for (seed, keys) in ["stale=guest", "tags=pcid", "tags=all,stale=guest", "tags=pcid,stale=guest"].iter().enumerate()
    {
        let machines: Vec<String> = designs.iter().map(|d| format!("{d}:placement=guest,{keys}")).collect();
        let machines: Vec<String> = machines.into_iter().filter(|text| MachineSpec::parse(text, 0).is_ok()).collect();
        assert_eq!(machines.len(), designs.len(), "{machines:?}");
        let stale = [1, 3].map(|processors| check(&machines, 100 + seed as u64..103 + seed as u64, processors));
        assert_eq!(stale.map(|used| used > 0), [keys.contains("stale"); 2], "{keys}: {stale:?}");
    }
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
    let out = run(&["t94/single:placement=guest,tags=all", "t94/single:placement=guest"], &system.batches);
    assert_eq!(rows(&out, 0), [(1, true, 8, 2), (1, false, 5, 1), (2, true, 2, 1)]);
    // Without tags each new root drops the pages of the process, and not those of the kernel, which are global.
    assert_eq!(rows(&out, 1), [(1, true, 8, 4), (1, false, 5, 1), (2, true, 2, 1)]);
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
    let out = run(&["t94/single:placement=guest", "ds13/4k:placement=guest"], &system.batches);
    assert_eq!(rows(&out, 0), [(0, true, 1, 1), (1, true, 9, 3)]);
    assert_eq!(out.misses(), [4, 4]);
    assert_eq!(out.entries[0].len(), 4);
    let events = &out.result.workload.guest.as_ref().unwrap().events;
    assert_eq!((events.processor_switches, events.space_switches), (2, 1));
}

/// An invalidation drops entries of the processor that makes it, or of all.
#[test]
fn flushes_by_hand() {
    let kernel = in_stream(KERNEL_AREAS[0]);
    for (broadcast, misses, flushes) in [(false, 3, 1), (true, 4, 2)] {
        let mut system = System::new(1, 2);
        system.load(kernel, 1);
        system.run_on(1);
        system.load(kernel, 2);
        system.run_on(0);
        let bytes = Some((kernel << 12, 4096));
        system.op(Guest::Invalidate(Invalidate { tag: None, bytes, global: true, leaves: false, broadcast }));
        system.load(kernel, 2);
        system.run_on(1);
        system.load(kernel, 2);
        let out = run(&["t94/single:placement=guest"], &system.batches);
        let counts = out.machine(0).guest.as_ref().unwrap();
        assert_eq!((out.misses(), counts.flushes, counts.flushed), (vec![misses], flushes, flushes), "{broadcast}");
        assert_eq!(out.machine(0).counts.tlb.invalidations, flushes);
        let events = &out.result.workload.guest.as_ref().unwrap().events;
        assert_eq!((events.invalidations, events.broadcasts), (1, u64::from(broadcast)));
    }
}

/// What follows no recorded system, or cannot, is refused with the reason.
#[test]
fn machines_that_cannot_follow_a_system_are_refused() {
    let refusal = |text: &str| MachineSpec::parse(text, 0).err().map(|why| why.to_string()).unwrap_or_default();
    for (machine, why) in [
        ("t94/single:placement=guest,process_ids=false", "process_ids = false is not allowed with placement = guest"),
        ("ds13/4k:placement=guest,cores=2", "cores = 2 is not allowed with placement = guest: each virtual processor"),
        ("sv97/softvm:placement=guest", "kind = softvm is not allowed with placement = guest"),
    ] {
        let refusal = refusal(machine);
        assert!(refusal.contains(why), "{machine}: {refusal}");
    }
    let stream = System::new(0, 1).batches;
    for (machine, why) in [("t94/single", "needs placement = guest"), ("sv97/softvm", "needs placement = guest")] {
        let refusal = lab(&[machine], false, 1).feed(&stream[0]).unwrap_err().to_string();
        assert!(refusal.contains(why), "{machine}: {refusal}");
    }
    let mut pages = PageLab::new(&[4096], 64, Options::default()).unwrap();
    let refusal = pages.feed(&stream[0]).unwrap_err().to_string();
    assert!(refusal.contains("a whole system has chosen the sizes of its pages itself"), "{refusal}");
    let specs = MachineSpec::parse_all(["t94/single:placement=guest"], 0).unwrap();
    let refusal = TrapLab::new(specs, 0).err().map(|why| why.to_string()).unwrap_or_default();
    assert!(refusal.contains("placement = guest cannot be driven by traps"), "{refusal}");
}
