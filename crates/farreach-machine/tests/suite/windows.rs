//! Sampling by windows: exact about everything but the misses, and right about those as far as it says.

use crate::common::{Stream, lab, run_batches};
use crate::shared_words::programs;
use farreach_kernels::{Settings, kernel};
use farreach_machine::{Lab, MachineSpec, Options, Preset, Sample};
use farreach_types::counts::{RunResult, Workload};
use farreach_types::event::{Batch, Source};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

fn specs(machines: &[&str]) -> Vec<MachineSpec> {
    machines.iter().map(|m| MachineSpec::parse(m, 7).unwrap()).collect()
}

/// A machine as built, run with this sample and seed.
fn sampled(machines: &[&str], batches: &[Batch], sample: Sample, seed: u64, way: (bool, usize)) -> RunResult {
    let (plain, threads) = way;
    let options = Options { sample: Some(sample), seed, plain, threads, ..Options::default() };
    let mut lab = Lab::new(specs(machines), options).unwrap();
    batches.iter().for_each(|batch| _ = lab.feed(batch).unwrap());
    lab.finish().unwrap();
    lab.result("test", None)
}

fn drain(mut source: impl Source) -> Vec<Batch> {
    std::iter::from_fn(|| source.next_batch().unwrap()).collect()
}

fn of_kernel(name: &str, references: u64) -> Vec<Batch> {
    let kernel = kernel(name).unwrap();
    drain(kernel.source(&Settings { size: kernel.small_size, references, seed: 3 }).unwrap())
}

/// A plain model: a list of the eight pages used last, which sees only the pieces that the rule says.
#[test]
fn a_plain_model_that_sees_the_windows_alone_counts_the_same() {
    const WINDOW: u64 = 50;
    const ONE_IN: u64 = 5;
    for (seed, references) in [(1, 10_000), (2, 10_020), (3, 10_049), (4, 260), (5, 40)] {
        let mut dice = Pcg64Mcg::seed_from_u64(seed);
        let pages: Vec<u64> = (0..references).map(|i| 16 + dice.random_range(0..12) + i / 2000 * 3).collect();
        let mut stream = Stream::new();
        stream.start().anon(16, 100).loads(pages.iter().copied());
        let machine = "t94/single:replacement=lru,entries=8";
        let sample = Sample { one_in: ONE_IN as u32, window: WINDOW };
        let result = sampled(&[machine], &stream.batches, sample, seed, (false, 1));

        let mut chooses = Pcg64Mcg::seed_from_u64(seed);
        let mut windows = vec![0];
        while windows[windows.len() - 1] < references / WINDOW {
            let group = windows.len() as u64 - 1;
            windows.push(1 + group * ONE_IN + chooses.random_range(0..ONE_IN));
        }
        let (mut held, mut misses) = (Vec::new(), vec![0.0; windows.len()]);
        for (i, page) in pages.iter().enumerate() {
            let piece = i as u64 / WINDOW;
            let counted = windows.iter().position(|&window| window == piece);
            if counted.is_none() && !windows.contains(&(piece + 1)) {
                continue;
            }
            match held.iter().position(|other| other == page) {
                Some(at) => _ = held.remove(at),
                None => counted.into_iter().for_each(|at| misses[at] += 1.0),
            }
            held.push(*page);
            if held.len() > 8 {
                held.remove(0);
            }
        }
        // A window at the end counts if half of it was there.
        let there = |window: &&u64| window.saturating_mul(WINDOW) + WINDOW / 2 <= references;
        let whole = windows.iter().skip(1).filter(there).count();
        let seen: u64 = windows[1..=whole].iter().map(|window| (references - window * WINDOW).min(WINDOW)).sum();
        let rest = references.saturating_sub(WINDOW) as f64;
        let others: f64 = misses[1..=whole].iter().sum();
        let estimate = misses[0] + (others * rest / (seen.max(1) as f64)).round();
        let machine = &result.machines[0];
        assert_eq!(machine.counts.tlb.misses as f64, estimate, "seed {seed}");
        assert_eq!(machine.estimate.unwrap().misses, estimate);
        let used = result.workload.windows.unwrap();
        assert_eq!((used.windows, used.counted_instructions), (1 + whole as u64, WINDOW.min(references) + seen));
        assert_eq!(machine.estimate.unwrap().standard_error == Some(0.0), references <= WINDOW);
        let slices: u64 = machine.timeline.misses.iter().sum();
        assert!(machine.counts.tlb.misses.abs_diff(slices) <= machine.timeline.misses.len() as u64, "rounded");
    }
}

/// Every preset that can be sampled: with shortcuts or without, on any number of threads, the result is one. What the
/// operating system does and what the program touched is that of the whole run.
#[test]
fn shortcuts_change_nothing_and_operating_systems_are_exact() {
    let presets: Vec<&str> = Preset::all_of("all").into_iter().map(|preset| preset.name).collect();
    let sample = Sample { one_in: 3, window: 400 };
    let can = |batches: &[Batch], machine: &&str| {
        if ["ds13/1g", "since/htab"].contains(machine) {
            return false; // with checks they take much time
        }
        let options = Options { sample: Some(sample), ..Options::default() };
        // Some need fetches before all else, and ask at every lookup without shortcuts.
        Lab::new(specs(&[machine]), options).is_ok() && {
            let mut lab = lab(&[machine], true, 1);
            batches.iter().try_for_each(|batch| lab.feed(batch).map(|_| ())).is_ok()
        }
    };
    for batches in [programs(71, 600).0, of_kernel("kv", 4_000)] {
        let machines: Vec<&str> = presets.iter().copied().filter(|machine| can(&batches, machine)).collect();
        assert!(machines.len() > 50, "{machines:?}");
        let fast = sampled(&machines, &batches, sample, 5, (false, 1));
        for way in [(true, 1), (false, 3)] {
            let other = sampled(&machines, &batches, sample, 5, way);
            for (one, other) in fast.machines.iter().zip(&other.machines) {
                assert_eq!(one.counts, other.counts, "{} {way:?}", one.name);
            }
            assert!(fast == other, "{way:?}");
        }
        let whole = run_batches(&machines, &batches, false, 1).result;
        let windows = fast.workload.windows.clone();
        assert!(windows.as_ref().is_some_and(|windows| windows.windows > 3), "{windows:?}");
        assert_eq!(Workload { windows, seed: 5, ..whole.workload }, fast.workload);
        let mut differ = 0;
        for (one, whole) in fast.machines.iter().zip(&whole.machines) {
            assert_eq!(one.counts.os, whole.counts.os, "{}", one.name);
            assert_eq!(one.memory, whole.memory, "{}", one.name);
            assert_eq!(one.counts.tlb.lookups, whole.counts.tlb.lookups, "{}", one.name);
            differ += usize::from(one.counts.tlb.misses != whole.counts.tlb.misses);
        }
        assert!(differ > 0, "nothing was left out");
    }
}

/// Over many seeds the error that is stated is the error that is made.
#[test]
fn the_truth_is_within_the_stated_errors() {
    let batches = of_kernel("lzw", 120_000);
    let machines = ["t94/single", "t94/complete", "today/skylake"];
    let truth = run_batches(&machines, &batches, false, 1).misses();
    const SEEDS: u64 = 40;
    for (i, truth) in truth.iter().enumerate() {
        let within = (0..SEEDS).filter(|&seed| {
            let sample = Sample { one_in: 8, window: 1_000 };
            let estimate = sampled(&machines, &batches, sample, seed, (false, 1)).machines[i].estimate.unwrap();
            (estimate.misses - *truth as f64).abs() <= 2.5 * estimate.standard_error.unwrap().max(1.0)
        });
        let within = within.count();
        assert!(within >= 32, "{}: within 2.5 standard errors for {within} of {SEEDS} seeds", machines[i]);
    }
}

#[test]
fn what_cannot_be_sampled_is_refused_at_once() {
    let sample = Some(Sample::one_in(8));
    let refused = |machine: &str, twice| {
        let options = Options { sample, twice, ..Options::default() };
        Lab::new(specs(&[machine]), options).err().map(|error| error.to_string())
    };
    assert_eq!(refused("t94/single", false), None);
    for (machine, why) in [
        ("sv97/softvm", "machines with caches see every reference"),
        ("today/skylake:l2_replacement=opt", "must know all that comes"),
        ("rmm15/range:range_feedback=true", "acts on the counters or the walks of the processor"),
    ] {
        let error = refused(machine, true).unwrap_or_else(|| panic!("{machine} is not refused"));
        assert!(error.contains("--sample is not allowed") && error.contains(why), "{error}");
    }
    let system = drain(farreach_trace::generate::system(1, 200));
    let mut lab = Lab::new(specs(&["t94/single"]), Options { sample, ..Options::default() }).unwrap();
    let error = system.iter().find_map(|batch| lab.feed(batch).err()).unwrap().to_string();
    assert!(error.contains("--sample is not for whole systems"), "{error}");
}
