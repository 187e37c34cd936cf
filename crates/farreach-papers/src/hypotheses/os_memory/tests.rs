//! Each claim can hold, and each of its limits can be missed.

use super::*;
use crate::hypotheses::os_places;
use crate::policies::memory::{self, COMPACTING, CONTIGUOUS, HASHED, HOLES, ON_NODES, RESTRICTED, SIZES, USED};
use crate::results::{Answer, Measured, Request, Set, What};
use farreach_machine::{Lab, MachineSpec, Options};
use farreach_types::counts::{CompactionUse, Contiguity, MachineResult, OwnCounts, RegionMisses};
use farreach_types::papers::Verdict;

type Change<'a> = &'a dyn Fn(&str, &mut MachineResult);

/// All machines of the study on all its programs and on one of the set, each changed so by its name. They begin as one
/// machine that ran nothing.
fn verdict(id: &str, change: Change) -> Verdict {
    let lab = Lab::new(vec![MachineSpec::parse("since/base", 0).unwrap()], Options::default());
    let empty = lab.unwrap().result("", None);
    let set = Set { name: "chosen".into(), programs: vec![program("p")], ..Set::default() };
    let mut results = Results::default();
    for Request { program, what } in (memory::STUDY.plan)(&Results::default(), &set) {
        let What::Machine(name) = &what else { panic!("only machines") };
        let mut machine = empty.machines[0].clone();
        machine.contiguity = Some(Contiguity::default());
        machine.compaction = Some(CompactionUse::default());
        change(name, &mut machine);
        let measured = Measured { workload: empty.workload.clone(), machine };
        results.insert(Request { program, what }, Answer::Machine(Box::new(measured)));
    }
    let claim = CLAIMS.iter().chain(os_places::CLAIMS).find(|claim| claim.id == id).unwrap();
    (claim.judge)(&results, &set).verdict
}

/// `set` gets the first number on the first machine, the second on the other.
fn pair(id: &str, [base, own]: [&str; 2], numbers: [u64; 2], set: fn(&mut MachineResult, u64)) -> Verdict {
    verdict(id, &|name, machine| {
        if let Some(at) = [base, own].iter().position(|of| *of == name) {
            set(machine, numbers[at]);
        }
    })
}

fn misses(machine: &mut MachineResult, number: u64) {
    machine.counts.tlb.misses = number;
}

fn cycles(machine: &mut MachineResult, number: u64) {
    machine.cost.cycles = number;
}

fn policy(machine: &mut MachineResult, counts: &[(&str, u64)]) {
    machine.counts.os.policy = counts.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect::<OwnCounts>();
}

use Verdict::{Fails, Holds, NotShown};

#[test]
fn of_sizes_and_misses() {
    let reserved = |own| pair("H-OS-1", [RESERVED[0], RESERVED[ALL]], [1000, own], cycles);
    assert_eq!([749, 750, 1000].map(reserved), [Holds, NotShown, Fails]);
    let best =
        |all: u64| verdict("H-OS-3", &|name, machine| misses(machine, if name == RESERVED[ALL] { all } else { 1000 }));
    assert_eq!([999, 1000].map(best), [Holds, NotShown]);
    let lasting = |used: u64| {
        verdict("H-OS-6", &|name, machine| {
            let time = if name == RESERVED[ALL] { 900 } else { 1000 };
            cycles(machine, if name == RESERVED[IN_USE] { used } else { time });
        })
    };
    assert_eq!([950, 951, 1000].map(lasting), [Holds, NotShown, Fails]);
    let kept = |map_nodes: u64, own: u64| {
        verdict("H-OS-4", &|name, machine| {
            cycles(machine, if name == KEPT[1] { own } else { 10_000 });
            policy(machine, &[("map_nodes", if name == KEPT[1] { map_nodes } else { 0 })]);
        })
    };
    // A node has 37 cycles: 8.89 % more, 8.91 %, and 9.62 % for the map alone.
    assert_eq!([kept(10, 10_519), kept(10, 10_521), kept(26, 10_000)], [Holds, NotShown, Fails]);
    assert_eq!(kept(0, 10_000), Fails, "there is no map");
    let folios = |own| pair("H-OS-13", FOLIOS, [12_000, own], misses);
    assert_eq!([1000, 1001, 12_000].map(folios), [Holds, NotShown, Fails]);
    assert_eq!(pair("H-OS-13", FOLIOS, [999, 1], misses), NotShown, "too few walks to say so");
    let sooner = |own| pair("H-OS-19", FINDERS, [1000, own], misses);
    assert_eq!([999, 1000].map(sooner), [Holds, Fails]);
    let picked = |own| pair("H-OS-20", PICKERS, [1000, own], misses);
    assert_eq!([999, 1000].map(picked), [Holds, Fails]);
    let restricted = |own| pair("H-OS-30", RESTRICTED, [1240, own], cycles);
    assert_eq!([1000, 1001, 1240].map(restricted), [Holds, NotShown, Fails]);
    let few = |own| verdict("H-OS-38", &|name, machine| misses(machine, if name == SIZES[2] { own } else { 10 }));
    assert_eq!([1, 11].map(few), [NotShown, Fails], "of few walks only more of them count");
    let sizes =
        |own: u64| verdict("H-OS-38", &|name, machine| misses(machine, if name == SIZES[2] { own } else { 10_000 }));
    assert_eq!([4999, 5000, 10_000].map(sizes), [Holds, NotShown, Fails]);
    let holes = |own: u64| {
        verdict("H-OS-37", &|name, machine| {
            let at = |place: usize| HOLES.iter().any(|pair| pair[place] == name);
            let number = if at(1) { own } else { 10_000 };
            misses(machine, if name == HOLES[0][0] { 0 } else { number });
        })
    };
    assert_eq!([5000, 5001, 10_000].map(holes), [Holds, NotShown, Fails]);
    let hashed = |own: u64, full: u64| {
        verdict("H-OS-31", &|name, machine| {
            misses(machine, if name == HASHED[1] { own } else { 10_000 });
            policy(machine, &[("first_conflict_ppm", full)]);
        })
    };
    assert_eq!((hashed(9400, 980_000), hashed(9401, 980_000)), (Holds, NotShown));
    assert_eq!((hashed(9400, 979_999), hashed(9400, 969_999)), (Fails, Fails));
    let predicted = |hidden: u64| {
        verdict("H-OS-22", &|_, machine| {
            let tlb = &mut machine.counts.tlb;
            (tlb.misses, tlb.host_walk.references) = (2000, 1000);
            let place = tlb.parts.add("spot", &[]);
            tlb.parts.at(place).memory.hidden_references = hidden;
        })
    };
    assert_eq!([945, 944, 0].map(predicted), [Holds, NotShown, Fails]);
}

#[test]
fn of_nodes() {
    let local = |base: u64, large: u64, last: u64| {
        verdict("H-OS-32", &|name, machine| {
            let part = if name == ON_NODES[0] { base } else { large };
            let samples = [("walk_samples_local", part), ("walk_samples_remote", 100 - part)];
            policy(machine, &[samples[0], samples[1], ("last_local_ppm_at_end", last * 10_000)]);
        })
    };
    assert_eq!([local(100, 50, 95), local(100, 50, 94), local(100, 50, 50)], [Holds, NotShown, Fails]);
    assert_eq!([local(65, 50, 64), local(64, 50, 64), local(50, 50, 60)], [Holds, NotShown, Fails]);
}

#[test]
fn of_memory() {
    let dirty = |whole| pair("H-OS-5", DIRTY, [whole, 100], |machine, pages| machine.counts.os.dirty_pages = pages);
    assert_eq!([2001, 2000, 100].map(dirty), [Holds, NotShown, Fails]);
    let zeros = |at_511: u64, at_400: u64| {
        verdict("H-OS-12", &|name, machine| {
            let pages = if name == SHRINKERS[0] { at_511 } else { at_400 };
            policy(machine, &[("underused_splits", 2), ("underused_pages", pages)]);
        })
    };
    assert_eq!([zeros(1024, 1023), zeros(1023, 1023), zeros(1024, 1024)], [Holds, Fails, Fails]);
    let shares = |fair: u64, first: u64| {
        verdict("H-OS-18", &|name, machine| {
            let region =
                |region: &str, data_misses| RegionMisses { region: region.into(), fetch_misses: 0, data_misses };
            let other = if SHARING.iter().any(|(_, machines)| name == machines[1]) { fair } else { first };
            machine.regions = vec![region("heap", 1000), region("anonymous", other)];
        })
    };
    assert_eq!([shares(900, 899), shares(899, 898), shares(898, 899)], [Holds, NotShown, Fails]);
    assert_eq!(shares(900, 900), NotShown, "first come, first served was as fair");
    let recovered = |with: u64| {
        verdict("H-OS-21", &|name, machine| {
            machine.memory.resident_at_end_bytes = (if name == RECOVERING[1] { with } else { 62 }) << 20;
            policy(machine, &[("recovered_pages", 1)]);
        })
    };
    assert_eq!([54, 55, 62].map(recovered), [Holds, NotShown, Fails]);
    let census = |id: &str, machines, numbers| {
        pair(id, machines, numbers, |machine, runs| {
            machine.contiguity = Some(Contiguity { cover_99: Some(runs), ..Contiguity::default() });
        })
    };
    assert_eq!([50, 51, 100].map(|own| census("H-OS-23", CONTIGUOUS, [100, own])), [Holds, NotShown, Fails]);
    let ranger = |linux, own| census("H-OS-24", USED, [linux, own]);
    assert_eq!(
        [ranger(5120, 128), ranger(5159, 129), ranger(5119, 128), ranger(9, 9)],
        [Holds, NotShown, NotShown, Fails]
    );
    let copied = |own| {
        pair("H-OS-26", COMPACTING, [1000, own], |machine, moved_pages| {
            let mut used = CompactionUse { moved_pages, ..CompactionUse::default() };
            used.after.blocks = [vec![0; 18], vec![1]].concat();
            machine.compaction = Some(used);
        })
    };
    assert_eq!([500, 501, 1000].map(copied), [Holds, NotShown, Fails]);
}
