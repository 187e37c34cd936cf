//! Claims about shootdowns, and about page tables on nodes of memory. Their numbers are those of
//! `papers/os_claims.csv`.

use super::hypothesis::Hypothesis;
use super::judge::{Outcome, reached, tally};
use crate::micro::{REFILLS, TURNS_OF, UNMAPS, UNMAPS_APART};
use crate::number_text::percent;
use crate::policies::cores::{
    AWAY, CORES, COUNTS_OF_NODES, FIRST_TOUCH, INVLPGB, LATR, LINUX, MECHANISMS, MITOSIS, NODES, NUMAPTE, ONE_CORE,
    PROGRAMS, by_unmap, ceiling, drops, flushes, on, on_nodes, overhead, tables, time,
};
use crate::results::Results;
use crate::since::share;
use farreach_types::papers::Kind::{Main, Side};
use farreach_types::papers::Program;

const STUDY: &[&str] = &["os-cores"];

fn program(name: &str) -> Program {
    Program { name: name.into(), ..Program::default() }
}

/// Times that Mitosis is faster than another placement on a program.
fn faster(results: &Results, p: &Program, than: usize) -> Option<f64> {
    let of = |placement: usize| time(results, &p.name, NODES[placement].1);
    Some(of(than)? as f64 / of(MITOSIS)?.max(1) as f64)
}

pub(super) const CLAIMS: &[Hypothesis] = &[
    Hypothesis {
        id: "H-OS-27",
        kind: Main,
        claim: "Copies of page tables on each node make programs up to 1.34 times faster, and up to 3.24 times where \
                the program had moved and its page tables had not",
        studies: STUDY,
        judge: |results, _| {
            tally(PROGRAMS.map(program).iter(), |p| {
                let times = [faster(results, p, FIRST_TOUCH)?, faster(results, p, AWAY)?];
                let reaches = times[0] >= 1.34 && times[1] >= 3.24;
                let text = format!("{:.2} times, {:.2} after a move", times[0], times[1]);
                Some((reached(reaches, times[0] > 1.0 && times[1] > times[0]), text))
            })
            .some()
        },
    },
    Hypothesis {
        id: "H-OS-28",
        kind: Side,
        claim: "A copy of the page tables of base pages takes 0.2 % of the memory that they map; tested as 0.18 to \
                0.3 % of 32 MB or more",
        studies: STUDY,
        judge: |results, _| {
            tally(PROGRAMS.map(program).iter(), |p| {
                let machine = results.machine(&p.name, NODES[FIRST_TOUCH].1)?;
                let of = tables(machine);
                let is_small = machine.memory.resident_bytes < 32 << 20;
                let outcome = if is_small { Outcome::Silent } else { (0.18..=0.3).contains(&of).into() };
                Some((outcome, format!("{of:.3} %")))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-OS-29",
        kind: Main,
        claim: "Full copies make changes of mappings dearer, and partial ones do not; tested as at most half of the \
                interrupts, and half of the entries that full copies write",
        studies: STUDY,
        judge: |results, _| {
            tally([program(UNMAPS)].iter(), |p| {
                let mut texts = Vec::new();
                let (mut holds, mut direction) = (true, true);
                for nodes in COUNTS_OF_NODES {
                    let of = |placement: usize| {
                        Some(by_unmap(results.machine(&p.name, &on_nodes(NODES[placement].1, nodes))?))
                    };
                    let (one, full, partial) = (of(FIRST_TOUCH)?, of(MITOSIS)?, of(NUMAPTE)?);
                    holds &= full[0] > one[0] && 2.0 * partial[0] <= full[0] && 2.0 * partial[1] <= one[1];
                    direction &= partial[0] < full[0] && partial[1] < one[1];
                    texts.push(format!(
                        "{nodes} nodes: {:.1} entries for {:.1} and {:.1} without copies, {:.1} interrupts for {:.1}",
                        partial[0], full[0], one[0], partial[1], one[1]
                    ));
                }
                Some((reached(holds, direction), texts.join("; ")))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-OS-33",
        kind: Main,
        claim: "An munmap that leaves a record for other cores (LATR) is 70.8 % faster than one that interrupts them; \
                tested on what drops cost, on sixteen cores, by assumed prices",
        studies: STUDY,
        judge: |results, _| {
            tally([program(UNMAPS_APART)].iter(), |p| {
                let machine = |mechanism: usize| on(MECHANISMS[mechanism].1, 16);
                let of = |mechanism| results.machine(&p.name, &machine(mechanism));
                let cycles = |mechanism| Some(drops(of(mechanism)?, &machine(mechanism)));
                let left = share(cycles(LATR)?, cycles(LINUX)?);
                let [records, forced] = [flushes(of(LATR)?, "records"), flushes(of(LATR)?, "records_forced")];
                let text = format!("{} of the cycles; {records} records, {forced} of them at once", percent(left));
                Some((reached(left <= 29.2, left < 100.0), text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-OS-34",
        kind: Side,
        claim: "Up to six processes take turns on a core without a flush but their first, and seven do not",
        studies: STUDY,
        judge: |results, _| {
            tally(TURNS_OF.map(program).iter(), |p| {
                let flushed = flushes(results.machine(&p.name, ONE_CORE)?, "switch_flushes");
                let processes = 2 + TURNS_OF.iter().position(|name| *name == p.name)? as u64;
                // A slot that is given away is flushed, also if it was empty.
                Some(((processes <= 6) == (flushed <= processes), format!("{flushed}")))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-OS-35",
        kind: Side,
        claim: "Above 33 pages it is cheaper to drop the whole process than page by page; tested on 64 of 320 pages in \
                use, by assumed prices",
        studies: STUDY,
        judge: |results, _| {
            tally([program(REFILLS)].iter(), |p| {
                let of = |most| overhead(results, &p.name, &ceiling(most));
                let (whole, one_by_one) = (of(33)?, of(64)?);
                let text = format!("{whole} cycles for {one_by_one} page by page");
                Some((Outcome::from(whole < one_by_one), text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-OS-36",
        kind: Main,
        claim: "INVLPGB takes the interrupts from processes that run on four cores and more; tested as at most a tenth",
        studies: STUDY,
        judge: |results, _| {
            tally([program(UNMAPS)].iter(), |p| {
                let mut texts = Vec::new();
                let mut holds = true;
                for cores in CORES {
                    let of = |mechanism: usize| {
                        let machine = results.machine(&p.name, &on(MECHANISMS[mechanism].1, cores))?;
                        Some(machine.counts.tlb.shootdown.ipis)
                    };
                    let (linux, own) = (of(LINUX)?, of(INVLPGB)?);
                    holds &= if cores < 4 { own == linux } else { 10 * own <= linux };
                    let left = 100.0 * own as f64 / linux.max(1) as f64;
                    texts.push(format!("{} of them on {cores} cores", percent(left)));
                }
                Some((holds, texts.join(", ")))
            })
            .all()
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Answer, Measured, Request, Set};
    use farreach_machine::{Lab, MachineSpec, Options};
    use farreach_types::counts::MachineResult;
    use farreach_types::papers::Verdict;

    type Change<'a> = &'a dyn Fn(&str, &str, &mut MachineResult);

    /// All programs of the study on all its machines, each changed so.
    fn verdict(id: &str, change: Change) -> Verdict {
        let mut results = Results::default();
        for Request { program, what } in (crate::policies::cores::STUDY.plan)(&Results::default(), &Set::default()) {
            let crate::results::What::Machine(name) = &what else { panic!("only machines") };
            let lab = Lab::new(vec![MachineSpec::parse(name, 0).unwrap()], Options::default());
            let result = lab.unwrap().result("", None);
            let mut machine = result.machines[0].clone();
            change(&program, name, &mut machine);
            let measured = Measured { workload: result.workload, machine };
            results.insert(Request { program, what }, Answer::Machine(Box::new(measured)));
        }
        let claim = CLAIMS.iter().find(|claim| claim.id == id).unwrap();
        (claim.judge)(&results, &Set::default()).verdict
    }

    fn is(name: &str, what: &str) -> bool {
        name.contains(what)
    }

    #[test]
    fn claims_can_hold_and_fail() {
        // Times by placement: first touch, away, Mitosis.
        let times = |first: u64, away: u64| {
            verdict("H-OS-27", &|_, name, machine| {
                let mitosis = is(name, "mitosis");
                machine.cost.cycles = if mitosis {
                    100
                } else if is(name, "away") {
                    away
                } else {
                    first
                };
            })
        };
        assert_eq!(times(140, 400), Verdict::Holds);
        assert_eq!(times(110, 400), Verdict::NotShown);
        let interrupts = |few: u64, many: u64| {
            verdict("H-OS-36", &|_, name, machine| {
                let on_many = is(name, "cores=4") || is(name, "cores=16");
                let own = if is(name, "global_ids") && on_many { many } else { few };
                machine.counts.tlb.shootdown.ipis = own;
            })
        };
        assert_eq!(interrupts(100, 10), Verdict::Holds);
        assert_eq!(interrupts(100, 11), Verdict::Fails);
        let left = |latr: u64| {
            verdict("H-OS-33", &|_, name, machine| {
                machine.counts.tlb.shootdown.ipis = if is(name, "latr") { latr } else { 1000 };
            })
        };
        assert_eq!([292, 293, 1000].map(left), [Verdict::Holds, Verdict::NotShown, Verdict::Fails]);
        let cheaper = |whole: u64| {
            verdict("H-OS-35", &|_, name, machine| {
                machine.cost.os_cycles = if is(name, "ceiling=33") { whole } else { 1000 };
            })
        };
        assert_eq!((cheaper(999), cheaper(1000)), (Verdict::Holds, Verdict::Fails));
    }
}
