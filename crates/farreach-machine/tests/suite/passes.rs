//! Machines that must know what comes (REP-1), and take two passes over a stream.

use crate::common::{RandomProcesses, Stream, lab, run, run_batches};
use farreach_machine::{Lab, MachineSpec, Options, TrapLab};
use farreach_oracle::dice::seeds;
use farreach_types::event::Prot;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Small, so that entries are replaced.
const SMALL: &str = "l1d=4K:4,l1i=4K:2,l2=4K:16/4";

fn machine(base: &str, keys: &str) -> String {
    format!("{base}:{SMALL}{keys}")
}

/// Processes that map, unmap, fork, end and touch.
fn stream(seed: u64) -> Stream {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut below = move |n: u64| rng.random_range(0..n);
    let mut s = Stream::new();
    let mut processes = RandomProcesses::new(&mut s, Prot::RW, true);
    s.map(0x80, 64, Prot { read: true, write: false, exec: true }, false, farreach_types::event::Backing::Anonymous);
    for _ in 0..60 {
        if !processes.act(&mut s, &mut below) {
            continue;
        }
        for _ in 0..40 {
            let often = below(4) > 0;
            let page = 0x100 + below(if often { 24 } else { 0x200 });
            match below(5) {
                0 => _ = s.store(page),
                1 => _ = s.fetch(0x80 + below(16)),
                _ => _ = s.load(page),
            }
        }
    }
    s
}

/// With shortcuts and without, on any number of threads, beside machines that need one pass, through caches, and
/// without process ids: the result is one, and no other policy misses less often.
#[test]
fn rep_1_opt_is_the_bound_in_whole_runs() {
    for ids in ["", ",process_ids=false"] {
        let more = |keys: &str| format!("{keys}{ids}");
        let machines = [
            machine("since/opt", &more("")),
            machine("since/base", &more("")),
            machine("since/srrip", &more("")),
            machine("since/itp", &more("")),
            machine("since/opt", &more(",walk_cost=caches")),
            machine("since/opt", &more(",replacement=random,behind=pom")),
        ];
        let names: Vec<&str> = machines.iter().map(String::as_str).collect();
        let mut sums = [0; 6];
        for seed in seeds(6) {
            let outcome = run(&names, &stream(seed));
            let misses = outcome.misses();
            assert!(misses[1..4].iter().all(|other| *other >= misses[0]), "{misses:?}");
            let [opt, through_caches] = [0, 4].map(|i| &outcome.machine(i).counts.tlb);
            assert_eq!((opt.misses, opt.evictions), (through_caches.misses, through_caches.evictions));
            sums.iter_mut().zip(&misses).for_each(|(sum, misses)| *sum += misses);
        }
        assert!(sums[0] * 20 < sums[1] * 19, "{sums:?}");
    }
}

/// What the second pass says does not depend on what ran in the first.
#[test]
fn rep_1_other_machines_are_as_they_are() {
    let stream = stream(3);
    let (base, opt) = (machine("since/base", ""), machine("since/opt", ""));
    let alone = run_batches(&[&base], &stream.batches, false, 1);
    let beside = run_batches(&[&opt, &base], &stream.batches, false, 1);
    assert_eq!(alone.machine(0).counts, beside.machine(1).counts);
    assert_eq!(alone.result.workload, beside.result.workload);
    // A limit ends both passes at the same place.
    let spec = || vec![MachineSpec::parse(&opt, 7).unwrap()];
    let mut lab = Lab::new(spec(), Options { limit: Some(150), twice: true, ..Options::default() }).unwrap();
    for pass in 0..2 {
        for batch in &stream.batches {
            if !lab.feed(batch).unwrap() {
                break;
            }
        }
        lab.finish().unwrap();
        assert!(lab.limit_reached());
        assert_eq!((lab.is_learning(), lab.again().unwrap()), (pass == 0, pass == 0));
    }
}

#[test]
fn rep_1_what_comes_once_is_refused() {
    let spec = || MachineSpec::parse("since/opt", 0).unwrap();
    let once = Lab::new(vec![spec()], Options::default()).map(|_| ()).unwrap_err().to_string();
    for part in ["since/opt", "l2_replacement = opt", "farreach record", "farreach sim FILE"] {
        assert!(once.contains(part), "{once}");
    }
    // Its first level would be refused otherwise.
    let fifo = MachineSpec::parse("since/opt:l1_replacement=fifo", 0).unwrap();
    let trapped = TrapLab::new(vec![fifo], 0).map(|_| ()).unwrap_err().to_string();
    assert!(trapped.contains("l2_replacement = opt"), "{trapped}");
    let mut others = lab(&["since/base"], false, 1);
    others.finish().unwrap();
    assert!(!others.is_learning() && !others.again().unwrap());
}

#[test]
#[should_panic(expected = "again() comes before result()")]
fn rep_1_the_first_pass_has_no_result() {
    let mut lab = lab(&["since/opt"], false, 1);
    lab.finish().unwrap();
    lab.result("test", None);
}

/// What the first pass cannot do ends it at once, with the machine and the reason.
#[test]
fn rep_1_failures_end_the_pass() {
    let feed = |machine: &str, stream: &Stream| {
        let mut lab = lab(&[machine], false, 1);
        stream.batches.iter().find_map(|batch| lab.feed(batch).err()).map(|error| error.to_string())
    };
    let why = feed(&machine("since/opt", ",opt_memory=400"), &stream(1)).unwrap();
    assert!(["opt_memory = 400", "50 lookups"].iter().all(|part| why.contains(part)), "{why}");
    // Two passes that differ.
    let opt = machine("since/opt", "");
    let mut lab = lab(&[&opt], false, 1);
    stream(1).batches.iter().for_each(|batch| _ = lab.feed(batch).unwrap());
    lab.finish().unwrap();
    assert!(lab.again().unwrap());
    let why = stream(2).batches.iter().find_map(|batch| lab.feed(batch).err()).unwrap().to_string();
    assert!(why.contains("differs from the first at lookup"), "{why}");
}
