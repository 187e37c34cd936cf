//! `farreach trap --sample` on running programs. Its arithmetic is tested in farreach-machine.

use crate::cli::{Ran, command, each, farreach};
use crate::cli_trap::{touch, traps_work};

fn trap(options: &str, words: &[&str]) -> Ran {
    let mut trap = command();
    trap.args(["trap", "--json"]).args(options.split_whitespace()).arg("--").args(words);
    Ran::of(trap.output().unwrap())
}

#[test]
fn options_that_cannot_be_kept_are_refused() {
    for (options, words) in [
        ("--sample 3", &["--sample", "3", "power of two", "auto"][..]),
        ("--sample auto --slowdown 1", &["--slowdown", "1.01 to 1000"]),
        ("--sample 8 -m t94/single", &["--sample 8", "t94/single", "64 entries is fully associative"]),
        (
            "--sample auto -m s04/skewed:replacement=fifo,placement=demand",
            &["--sample auto", "a hash of the page number"],
        ),
        ("--sample 256", &["--sample 256", "128 classes of pages", "from 1 to 128"]),
        ("--sample 8 -m rmm15/thp:l1_replacement=fifo", &["placement = thp", "must be demand"]),
    ] {
        let args = options.split_whitespace().chain(["--", "true"]);
        farreach(["trap"].into_iter().chain(args)).bad(125, words);
    }
}

/// Two samples of one of two sets each are all of them: together they have the misses of the full run. The program's
/// references do not depend on where things lie.
#[test]
fn samples_of_all_sets_have_all_misses_together() {
    if !traps_work() {
        return;
    }
    const MACHINE: &str = "-m t94/single:entries=64,ways=32,replacement=fifo";
    let program = touch();
    let words = [program.to_str().unwrap()];
    let run = |options: &str| {
        let ran = trap(&format!("{MACHINE} {options}"), &words);
        let result = ran.json();
        (each(&result, "misses")[0], result)
    };
    let (all, full) = run("");
    assert!(full["workload"]["traps"]["sample"].is_null() && full["machines"][0]["estimate"].is_null(), "{full}");
    let timeline = &full["machines"][0]["timeline"];
    assert!(timeline["slice_microseconds"].as_u64() > Some(0) && timeline["slice_lookups"] == 0, "{timeline}");
    assert_eq!(full["workload"]["traps"]["simulated"].as_u64().map(|traps| traps >= all), Some(true));
    let (whole, same) = run("--sample 1");
    assert_eq!((whole, &same["machines"][0]["counts"]), (all, &full["machines"][0]["counts"]), "all sets");
    let mut halves = std::collections::BTreeSet::new();
    for seed in 0..6 {
        let (half, result) = run(&format!("--sample 2 --seed {seed}"));
        let sample = &result["workload"]["traps"]["sample"];
        assert_eq!((&sample["classes"], &sample["of_classes"]), (&1.into(), &2.into()), "{sample}");
        let estimate = &result["machines"][0]["estimate"];
        assert_eq!(estimate["misses"].as_f64(), Some(2.0 * half as f64), "{estimate}");
        assert!(estimate["standard_error"].is_null(), "one set says nothing about the other: {estimate}");
        halves.insert(half);
    }
    let halves: Vec<u64> = halves.into_iter().collect();
    assert!(halves.len() == 2 && halves.iter().sum::<u64>() == all, "{halves:?} of {all}");
}
