//! Pieces of runs: what is counted of one is what a longer run counts more than a shorter one.

use crate::common::lab;
use crate::shared_words::{made, programs};
use farreach_kernels::{Settings, kernel};
use farreach_machine::{Lab, MachineSpec, Options, PAGE_SIZES, PageLab, Preset, Sample};
use farreach_trace::{Cut, Piece};
use farreach_types::counts::{MachineResult, PageCounts, PageRow, Phase, PhaseSize, RunResult};
use farreach_types::event::{Batch, Kind, Source};
use serde_json::Value;
use std::collections::BTreeMap;

fn drain(mut source: impl Source) -> Vec<Batch> {
    std::iter::from_fn(|| source.next_batch().unwrap()).collect()
}

fn run(machines: &[&str], batches: &[Batch], piece: &Piece, plain: bool, threads: usize) -> RunResult {
    let specs = machines.iter().map(|m| MachineSpec::parse(m, 7).unwrap()).collect();
    let warmup = (piece.warmup > 0).then_some(piece.warmup);
    let options = Options { limit: piece.limit, warmup, seed: 7, twice: true, plain, threads, ..Options::default() };
    let mut lab = Lab::new(specs, options).unwrap();
    loop {
        // The limit is the machines' own.
        lab.run(&mut Cut::new(made(batches), Piece { limit: None, ..piece.clone() })).unwrap();
        if !lab.again().unwrap() {
            break;
        }
    }
    lab.result("test", None)
}

fn of_kernel(name: &str, references: u64) -> Vec<Batch> {
    let kernel = kernel(name).unwrap();
    drain(kernel.source(&Settings { size: kernel.small_size, references, seed: 3 }).unwrap())
}

/// Presets that these streams can run on, but for those that take much time with checks.
fn presets() -> Vec<&'static str> {
    let presets = Preset::all_of("all").into_iter().map(|preset| preset.name);
    presets
        .filter(|name| {
            !["ds13/1g", "since/htab"].contains(name) && !MachineSpec::parse(name, 7).unwrap().is_for_systems()
        })
        .collect()
}

/// Every number that is no amount, by its path. Numbers of 0 need not be there.
fn numbers(path: &str, value: &Value, all: &mut BTreeMap<String, u64>) {
    const AMOUNTS: [&str; 18] = [
        "resident",
        "table_bytes",
        "table_bytes_most",
        "largest_fault_pages",
        "populated_never_used",
        "deferred_pages_at_most",
        "deferred_pages_at_end",
        "held_pages_at_most",
        "partpop",
        "partpop_unused",
        "fullpop",
        "most_write_backs",
        "first_conflict_ppm",
        "first_local_ppm_at_end",
        "last_local_ppm_at_end",
        "tracker_idle_superpages_at_end",
        "zero_unknown",
        "unmapped_cache_pages_at_end",
    ];
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(name, _)| !AMOUNTS.contains(&name.as_str())) {
                numbers(&format!("{path}.{name}"), value, all);
            }
        }
        Value::Array(items) => items.iter().enumerate().for_each(|(i, v)| numbers(&format!("{path}.{i}"), v, all)),
        value => all.extend(value.as_u64().filter(|n| *n > 0).map(|n| (path.to_owned(), n))),
    }
}

fn counters(m: &MachineResult) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (name, part) in [
        ("counts", serde_json::to_value(&m.counts)),
        ("system", serde_json::to_value(&m.system)),
        ("caches", serde_json::to_value(&m.caches)),
    ] {
        numbers(name, &part.unwrap(), &mut all);
    }
    all
}

fn differences(longer: &MachineResult, shorter: &MachineResult) -> BTreeMap<String, u64> {
    let (mut longer, shorter) = (counters(longer), counters(shorter));
    for (name, n) in shorter {
        let more = longer.get_mut(&name).unwrap_or_else(|| panic!("{name} is an amount"));
        *more = more.checked_sub(n).unwrap_or_else(|| panic!("{name} is an amount"));
    }
    longer.retain(|_, n| *n > 0);
    longer
}

/// The same result; where it differs, one place of it.
fn assert_same(one: &RunResult, other: &RunResult, what: &str) {
    fn difference(path: &str, one: &Value, other: &Value) -> Option<String> {
        match (one, other) {
            (Value::Object(a), Value::Object(b)) => {
                let names = a.keys().chain(b.keys());
                names
                    .into_iter()
                    .find_map(|name| difference(&format!("{path}.{name}"), &one[name.as_str()], &other[name.as_str()]))
            }
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                a.iter().zip(b).enumerate().find_map(|(i, (a, b))| difference(&format!("{path}.{i}"), a, b))
            }
            _ => (one != other).then(|| format!("{path}: {one} and {other}")),
        }
    }
    let [one, other] = [one, other].map(|result| serde_json::to_value(result).unwrap());
    assert_eq!(difference("", &one, &other), None, "{what}");
}

fn phase_counts(phase: &Phase) -> [u64; 5] {
    [phase.instructions, phase.lookups, phase.misses, phase.data_misses, phase.page_faults]
}

fn same_counts(m: &MachineResult, instructions: u64) -> [u64; 5] {
    let tlb = &m.counts.tlb;
    [instructions, tlb.lookups, tlb.misses, tlb.data_misses, m.counts.os.page_faults]
}

/// Every preset: a warm-up and phases, with shortcuts and without, on one thread and on several.
#[test]
fn what_is_counted_is_what_a_longer_run_counts_more() {
    let presets = presets();
    let (warmup, counted, every) = (1_501, 2_003, 700);
    for batches in [programs(3, 500).0, of_kernel("kv", 3_000)] {
        let can = |machine: &&str| {
            let specs = vec![MachineSpec::parse(machine, 7).unwrap()];
            let mut lab = Lab::new(specs, Options { twice: true, ..Options::default() }).unwrap();
            batches.iter().all(|batch| lab.feed(batch).is_ok())
        };
        let machines: Vec<&str> = presets.iter().copied().filter(can).collect();
        assert!(machines.len() > 60, "{}", machines.len());
        let whole = |limit: u64| run(&machines, &batches, &Piece { limit: Some(limit), ..Piece::default() }, false, 1);
        // Whole systems of the operating system's own time work between blocks: cut alike, runs are alike.
        let piece = Piece { warmup, limit: Some(counted), every: Some(every), ..Piece::default() };
        let cut = run(&machines, &batches, &piece, false, 1);
        let ends = [warmup, warmup + every, warmup + 2 * every, warmup + counted];
        let runs = ends.map(whole);
        assert_eq!(cut.workload.instructions, counted);
        let references = runs[3].workload.references.since(&runs[0].workload.references);
        assert_eq!(cut.workload.references, references);
        assert_eq!(cut.workload.touched_bytes, runs[3].workload.touched_bytes, "memory is that of all");
        for (i, (machine, name)) in cut.machines.iter().zip(&machines).enumerate() {
            assert_eq!(counters(machine), differences(&runs[3].machines[i], &runs[0].machines[i]), "{name}");
            assert_eq!(machine.memory, runs[3].machines[i].memory, "{name}");
            let slices: u64 = machine.timeline.misses.iter().sum();
            assert_eq!(slices, machine.counts.tlb.misses, "{name}");
            assert_eq!(machine.phases.len(), 3, "{name}");
            let mut sum = [0; 5];
            for (phase, pair) in machine.phases.iter().zip(runs.windows(2)) {
                let [before, after] =
                    [0, 1].map(|at: usize| same_counts(&pair[at].machines[i], pair[at].workload.instructions));
                let expected: Vec<u64> = before.iter().zip(after).map(|(before, after)| after - before).collect();
                assert_eq!(phase_counts(phase).to_vec(), expected, "{name}");
                sum.iter_mut().zip(phase_counts(phase)).for_each(|(sum, n)| *sum += n);
            }
            assert_eq!(sum, same_counts(machine, counted), "{name}");
        }
        // Blocks of machines with caches are one step of memory over time.
        let blocks = |mut result: RunResult, plain: bool| {
            let machines = result.machines.iter_mut().filter(|m| plain && (m.system.is_some() || m.caches.is_some()));
            machines.for_each(|machine| machine.memory_over_time = Default::default());
            result
        };
        for (plain, threads) in [(true, 1), (false, 3)] {
            let other = blocks(run(&machines, &batches, &piece, plain, threads), plain);
            let cut = blocks(cut.clone(), plain);
            assert_same(&other, &cut, &format!("plain {plain}, {threads} threads"));
        }
    }
}

/// What is left out is as if it were not in the stream.
#[test]
fn what_is_skipped_is_never_touched() {
    let machines = ["t94/single", "t94/partial", "today/skylake", "sv97/softvm"];
    let mut exact = 0;
    for seed in 0..4 {
        let batches = programs(seed, 300).0;
        let piece = Piece { skip: 401 + seed, ..Piece::default() };
        let left = drain(Cut::new(made(&batches), piece.clone()));
        for (plain, threads) in [(false, 1), (true, 1), (false, 2)] {
            let other = run(&machines, &batches, &piece, plain, threads);
            let expected = run(&machines, &left, &Piece::default(), plain, threads);
            assert_same(&other, &expected, &format!("plain {plain}, {threads} threads"));
        }
        let whole = run(&machines, &batches, &Piece::default(), false, 1);
        let expected = run(&machines, &left, &Piece::default(), false, 1);
        let less = whole.workload.instructions - expected.workload.instructions;
        // References before the first fetch of a stream are counted as those of a stream without fetches.
        assert!(less <= 401 + seed, "{less}");
        exact += u64::from(less == 401 + seed);
        assert!(whole.workload.touched_bytes >= expected.workload.touched_bytes);
        assert_eq!(whole.workload.processes, expected.workload.processes, "events take place");
    }
    assert!(exact > 2, "{exact} of 4");
}

#[test]
fn the_page_size_study_counts_behind_its_warm_up() {
    let sizes = PAGE_SIZES;
    for batches in [programs(5, 400).0, of_kernel("lzw", 4_000)] {
        let study = |warmup: u64, limit: u64, plain: bool, threads: usize| {
            let options = Options {
                limit: Some(limit),
                warmup: (warmup > 0).then_some(warmup),
                plain,
                threads,
                ..Options::default()
            };
            let mut lab = PageLab::new(&sizes, 64, options).unwrap();
            lab.run(&mut Cut::new(made(&batches), Piece { warmup, ..Piece::default() })).unwrap();
            lab
        };
        let (short, long) = (study(0, 1_000, false, 1), study(0, 2_500, false, 1));
        for (plain, threads) in [(false, 1), (true, 1), (false, 3)] {
            let cut = study(1_000, 1_500, plain, threads);
            for side in [Kind::Fetch, Kind::Load] {
                for size in sizes {
                    for entries in [1, 4, 64] {
                        let of = |lab: &PageLab| lab.misses(side, size, entries).unwrap();
                        assert_eq!(of(&cut), of(&long) - of(&short), "{side:?} {size} {entries}");
                    }
                }
            }
            let [cut, long] = [&cut, &long].map(|lab| lab.result("test", None, Vec::new()));
            assert_eq!(cut.workload.instructions, 1_500);
            for (cut, long) in cut.rows.iter().zip(&long.rows) {
                assert_eq!(cut.counts.peak_bytes, long.counts.peak_bytes, "memory is that of all");
            }
        }
    }
}

#[test]
fn phases_of_the_page_size_study_are_those_of_pieces() {
    const EVERY: u64 = 700;
    for batches in [programs(5, 400).0, of_kernel("lzw", 4_000)] {
        let study = |piece: Piece, limit: u64, plain: bool, threads: usize| {
            let warmup = (piece.warmup > 0).then_some(piece.warmup);
            let options = Options { limit: Some(limit), warmup, plain, threads, ..Options::default() };
            let mut lab = PageLab::new(&PAGE_SIZES, 6, options).unwrap();
            lab.run(&mut Cut::new(made(&batches), piece)).unwrap();
            lab.result("test", None, Vec::new())
        };
        for warmup in [0, 300] {
            let piece = Piece { warmup, every: Some(EVERY), ..Piece::default() };
            let whole = study(piece.clone(), 2_500, false, 1);
            for (plain, threads) in [(true, 1), (false, 3), (true, 4)] {
                assert!(study(piece.clone(), 2_500, plain, threads) == whole, "plain {plain}, {threads} threads");
            }
            let lengths: Vec<u64> = whole.phases.iter().map(|phase| phase.instructions).collect();
            assert_eq!(lengths, [EVERY, EVERY, EVERY, 400]);
            let without = study(Piece { every: None, ..piece }, 2_500, false, 1);
            assert_eq!((&without.rows, without.phases.len()), (&whole.rows, 0), "phases change nothing else");
            // Misses are what more instructions add; the pages are those of the phase as a piece of its own.
            let up_to = |n: u64| study(Piece { warmup, ..Piece::default() }, n, false, 1).rows;
            let mut before = None;
            for (at, phase) in (0..).zip(&whole.phases) {
                let begins = at * EVERY;
                let now = up_to(begins + phase.instructions);
                let alone = study(Piece { skip: warmup + begins, ..Piece::default() }, phase.instructions, false, 1);
                assert_eq!(phase.lookups, alone.workload.lookups.total());
                for (i, size) in phase.sizes.iter().enumerate() {
                    let earlier =
                        |of: fn(&PageCounts) -> u64| before.as_ref().map_or(0, |b: &Vec<PageRow>| of(&b[i].counts));
                    let (now, alone) = (&now[i].counts, &alone.rows[i].counts);
                    let expected = PhaseSize {
                        page_size: PAGE_SIZES[i],
                        fetch_misses: now.fetch_misses - earlier(|c| c.fetch_misses),
                        data_misses: now.data_misses - earlier(|c| c.data_misses),
                        code_bytes: alone.code_bytes,
                        data_bytes: alone.data_bytes,
                        total_bytes: alone.total_bytes,
                    };
                    assert_eq!(*size, expected, "phase {at}");
                }
                before = Some(now);
            }
            let sum: u64 = whole.phases.iter().map(|phase| phase.sizes[0].data_misses).sum();
            assert_eq!(sum, whole.rows[0].counts.data_misses);
        }
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let options = Options { warmup: Some(10), sample: Some(Sample::one_in(4)), ..Options::default() };
    let why = Lab::new(vec![MachineSpec::parse("t94/single", 0).unwrap()], options).err().unwrap().to_string();
    assert!(why.contains("--warmup 10 is not allowed with --sample"), "{why}");
    let batches = of_kernel("kv", 20_000);
    let piece = Piece { every: Some(1), ..Piece::default() };
    let mut lab = lab(&["t94/single"], false, 1);
    let why = lab.run(&mut Cut::new(made(&batches), piece)).unwrap_err().to_string();
    assert!(why.contains("--every: more than 10000 phases"), "{why}");
}
