//! Each claim can hold, and each of its limits can be missed.

use super::*;
use crate::policies::memory;
use crate::results::{Answer, Measured, Request, Results, Set, What};
use farreach_machine::{Lab, MachineSpec, Options};
use farreach_types::counts::{MachineResult, OwnCounts};
use farreach_types::papers::Program;
use farreach_types::papers::Verdict::{self, Fails, Holds, NotShown};

/// All machines of the study, each changed by its name. They begin as one machine that ran nothing.
fn verdict(id: &str, change: impl Fn(&str, &mut MachineResult)) -> Verdict {
    let lab = Lab::new(vec![MachineSpec::parse("since/base", 0).unwrap()], Options::default());
    let empty = lab.unwrap().result("", None);
    let compiler = Program { stands_for: "gcc".into(), ..program("p") };
    let set = Set { name: "chosen".into(), programs: vec![compiler], ..Set::default() };
    let mut results = Results::default();
    for Request { program, what } in (memory::STUDY.plan)(&Results::default(), &set) {
        let What::Machine(name) = &what else { panic!("only machines") };
        let mut machine = empty.machines[0].clone();
        change(name, &mut machine);
        let measured = Measured { workload: empty.workload.clone(), machine };
        results.insert(Request { program, what }, Answer::Machine(Box::new(measured)));
    }
    (CLAIMS.iter().find(|claim| claim.id == id).unwrap().judge)(&results, &set).verdict
}

#[test]
fn h_os_14_folios_by_order() {
    let by = |faults: [u64; ORDERS], reads: [u64; ORDERS]| {
        verdict("H-OS-14", |name, machine| {
            let folios = if name == READING[1] { reads } else { faults };
            let named = folios.iter().enumerate().map(|(order, n)| (format!("folios_of_order_{order}"), *n));
            machine.counts.os.policy = named.collect::<OwnCounts>();
        })
    };
    let (faults, reads) = ([32, 0, 8, 0, 2, 125], [4, 0, 3, 2, 2, 126]);
    assert_eq!(by(faults, reads), Holds);
    assert_eq!(by([32, 16, 8, 0, 2, 125], reads), NotShown);
    assert_eq!(by([32, 0, 8, 4, 2, 125], reads), NotShown);
    assert_eq!(by([32, 0, 16, 0, 2, 125], reads), NotShown);
    assert_eq!(by(faults, [4, 0, 3, 2, 3, 126]), NotShown);
    assert_eq!(by([4096, 0, 0, 0, 0, 0], reads), Fails);
}

#[test]
fn h_os_15_misses_of_fetches() {
    let of = |base: u64, own: u64| {
        verdict("H-OS-15", |name, machine| {
            let misses = if name == TEXT[1] { own } else { base };
            // Half of them walk.
            machine.counts.tlb.fetch_misses = misses / 2;
            machine.counts.tlb.second_level_fetch_hits = misses - misses / 2;
        })
    };
    assert_eq!(
        [(1000, 999), (1000, 1000), (999, 1), (10, 11)].map(|(base, own)| of(base, own)),
        [Holds, Fails, NotShown, Fails]
    );
}
