//! Random worlds and programs: every module does what the simulator's design does.

use super::cases::{CASES, Case, compiler, folder};
use farreach_oracle::dice::seeds;
use farreach_rtl::Checker;
use std::collections::BTreeMap;

/// Steps of each run: of a small memory, a lookup or a change each; of a program, some 250 lookups.
const STEPS: u64 = 1500;
const PROGRAM_STEPS: u64 = 200;
/// Runs of each case.
const RUNS: u64 = 4;
/// Runs that a long test multiplies, by ten in `make test-long`: a thousand programs for each module.
const LONG_RUNS: u64 = 100;

/// Cases of the short suite. Compiling the modules of all takes minutes; `make test-long` does.
const SHORT: [&str; 2] = ["single", "segment"];

/// Runs every `i`-th case, and says what went through the structures. `FARREACH_CASE=range,walker` runs these alone.
fn run(part: usize, parts: usize) {
    let Some(compiler) = compiler() else { return };
    let long = std::env::var_os("FARREACH_TIMES").is_some();
    let named = std::env::var("FARREACH_CASE").ok();
    let wanted = |name: &str| match &named {
        Some(only) => only.split(',').any(|n| n == name),
        None => long || SHORT.contains(&name),
    };
    let cases = CASES.iter().filter(|(name, _)| wanted(name));
    for (name, case) in cases.skip(part).step_by(parts) {
        let checker = Checker::new(compiler.clone(), folder(), 7);
        let mut programs = 0;
        for seed in seeds(if long { LONG_RUNS } else { RUNS }) {
            case.run(name, seed, if matches!(case, Case::Program(_)) { PROGRAM_STEPS } else { STEPS }, &checker);
            programs += 1;
            if checker.stopped() {
                break;
            }
        }
        let outcome = checker.outcome();
        assert!(outcome.failure.is_none(), "{name}: {:?}", outcome.failure);
        if let Some(difference) = outcome.difference {
            panic!("{difference}");
        }
        let mut sums: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
        for (_, module, tally) in &outcome.parts {
            let sum = sums.entry(module).or_default();
            [tally.lookups, tally.fills, tally.drops].iter().zip(sum).for_each(|(n, sum)| *sum += n);
        }
        println!("{name}: {programs} programs; lookups, fills, invalidations {sums:?}");
        let (lookups, fills) = sums.values().fold((0, 0), |(l, f), s| (l + s[0], f + s[1]));
        assert!(lookups > 1000 && fills > 100, "{name}: hardly anything happened");
    }
}

// Two, so that two processors have something to compile.
#[test]
fn modules_equal_designs() {
    run(0, 2);
}

#[test]
fn modules_equal_designs_too() {
    run(1, 2);
}
