//! Claims of DS13 about direct segments.

use super::hypothesis::Hypothesis;
use super::judge::{fails, holds, if_stressed, not_shown, reached, tally, untestable, worst};
use crate::ds13::fig5::{self, SERIES};
use crate::ds13::worked_examples::{ROWS, compaction, nested};
use crate::ds13::{fig1, table3, table4, table5};
use crate::expected_rows::judged;
use crate::large::{DS_1G, DS_2M, DS_4K, DS_EMULATED, DS_SEGMENT, DS_TRACKED, data_misses, of_ds13};
use crate::micro::{ARENAS, SPARSE, TURNS};
use crate::number_text::percent;
use crate::results::{Results, Set};
use farreach_types::papers::Kind::{Main, Side};
use farreach_types::papers::{Program, Verdict};
use farreach_types::plural::with_noun;

/// Programs with enough misses for a share of them to be meaningful.
const MISSES: u64 = 1000;

/// The smallest footprint at which a machine spends at least a hundredth of the time on misses, and the share of time
/// at the largest.
fn inflection(results: &Results, set: &Set, machine: &str) -> Option<(Option<u64>, f64)> {
    let times: Vec<(u64, f64)> =
        fig5::sizes(set).iter().filter_map(|&s| Some((s, fig5::time(results, set, s, machine)?))).collect();
    let from = times.iter().rev().take_while(|t| t.1 >= 1.0).last().map(|t| t.0);
    Some((from, times.last()?.1))
}

pub(super) const CLAIMS: &[Hypothesis] = &[
    Hypothesis {
        id: "H-DS-1",
        kind: Main,
        claim: "More than 99.9 % of the data TLB misses of big-memory programs are in the segment; of a database with \
                many threads fewer",
        studies: &["ds13-table5"],
        judge: |results, set| {
            let inside = |p: &Program| {
                data_misses(results, &p.name, DS_TRACKED).filter(|&n| n >= MISSES)?;
                table5::share(results, &p.name)
            };
            let (databases, others): (Vec<_>, Vec<_>) = of_ds13(set).partition(|p| p.is_like(&["MySQL"]));
            // Most of the misses outside would be the opposite.
            let mut finding = tally(others.into_iter(), |p| {
                let s = inside(p)?;
                let outcome = (reached(s > 99.9, s >= 50.0), format!("{s:.3} %"));
                Some(if_stressed(table4::stress(results, p), outcome))
            })
            .all();
            let database = tally(databases.into_iter(), |p| inside(p).map(|s| (s <= 99.9, format!("{s:.3} %"))));
            if database.is_empty() {
                finding
                    .why
                    .push_str(" No program here is a database with many threads, so that half of the claim is open.");
            } else {
                let database = database.all();
                finding.verdict = match finding.verdict {
                    Verdict::NotTestable => database.verdict,
                    others => worst([others, database.verdict]),
                };
                finding.why = format!("{} Fewer in the database: {}", finding.why, database.why);
            }
            finding
        },
    },
    Hypothesis {
        id: "H-DS-2",
        kind: Main,
        claim: "With a segment less than 0.5 % of the time goes to data TLB misses",
        studies: &["ds13-fig4", "ds13-table5"],
        judge: |results, set| {
            // The paper had no segment to measure and estimated the time by a linear model (H-DS-15); here is one.
            tally(of_ds13(set), |p| {
                let (before, after) =
                    (table4::time(results, &p.name, DS_4K)?, table4::time(results, &p.name, DS_SEGMENT)?);
                let outcome = ((after < 0.5).into(), format!("{} to {}", percent(before), percent(after)));
                Some(if_stressed(table4::stress(results, p), outcome))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-DS-3",
        kind: Side,
        claim: "The cost of each page size sets in where the footprint passes the reach of its TLB; that of a segment \
                stays flat, near 0",
        studies: &["ds13-fig5"],
        judge: |results, set| {
            let mut words = Vec::new();
            let (mut right, mut flat, mut all) = (true, true, Vec::new());
            for (name, machine, reach) in SERIES {
                let Some((from, last)) = inflection(results, set, machine) else {
                    return untestable("the sweep was not run.");
                };
                // The first footprint of the sweep above the reach.
                let expected = fig5::sizes(set).iter().copied().find(|&s| s > reach);
                right &= from == expected;
                if machine == DS_SEGMENT {
                    flat = from.is_none() && last < 0.5;
                } else {
                    all.push(from);
                }
                let from = from.map_or("nowhere".into(), |s| format!("from {} MB on", s >> 20));
                words.push(format!("{name}: {from}, {} at the largest footprint", percent(last)));
            }
            let text = format!("1 % and more: {}.", words.join("; "));
            // Each page size later than the one before it, but not at the footprint that its reach lets expect.
            let in_order = all.is_sorted_by(|a, b| a < b);
            match (right && flat, in_order && flat) {
                (true, _) => holds(text),
                (false, true) => not_shown(text),
                (false, false) => fails(text),
            }
        },
    },
    Hypothesis {
        id: "H-DS-4",
        kind: Side,
        claim: "Larger pages delay the rise of the cost and do not prevent it",
        studies: &["ds13-fig5"],
        judge: |results, set| {
            let mut all = Vec::new();
            for machine in [DS_4K, DS_2M, DS_1G] {
                let Some((from, last)) = inflection(results, set, machine) else {
                    return untestable("the sweep was not run.");
                };
                all.push((from, last));
            }
            let rises = all.iter().all(|(from, _)| from.is_some());
            let later = all.windows(2).all(|w| w[0].0 < w[1].0);
            let mb = |from: Option<u64>| from.map_or("nowhere".into(), |s| format!("{} MB", s >> 20));
            let text = format!(
                "1 % is passed at {}, {} and {} with 4 KB, 2 MB and 1 GB.",
                mb(all[0].0),
                mb(all[1].0),
                mb(all[2].0)
            );
            if rises && later { holds(text) } else { fails(text) }
        },
    },
    Hypothesis {
        id: "H-DS-5",
        kind: Side,
        claim: "On sparse access 1 GB pages can be worse than 2 MB pages: four entries against 32",
        studies: &["ds13-by-hand"],
        judge: |results, _| judged(ROWS, results, &[SPARSE]),
    },
    Hypothesis {
        id: "H-DS-6",
        kind: Side,
        claim: "More than 99 % of the memory of big-memory programs is read-write and anonymous",
        studies: &["ds13-table3"],
        judge: |results, set| {
            tally(of_ds13(set), |p| {
                table3::share(results, &p.name).map(|s| (reached(s > 99.0, s >= 50.0), format!("{s:.2} %")))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-DS-7",
        kind: Side,
        claim: "Memory is allocated early: nine tenths of it in the first fifth of the run",
        studies: &["ds13-fig1"],
        judge: |results, set| {
            tally(of_ds13(set), |p| {
                let (asked, used) = (fig1::allocated(results, &p.name)?, fig1::resident(results, &p.name));
                let used = used.map_or(String::new(), |u| format!(", with contents {:.0} %", u[1]));
                Some((reached(asked[1] >= 90.0, asked[1] > 20.0), format!("asked for {:.0} %{used}", asked[1])))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-DS-8",
        kind: Side,
        claim: "Registers, and faults that map what the registers would give, have the same misses, region by region",
        studies: &["ds13-table5"],
        judge: |results, set| {
            tally(of_ds13(set), |p| {
                let of = |machine| results.machine(&p.name, machine).map(|m| (m.counts.tlb.data_misses, &m.regions));
                let (registers, faults) = (of(DS_TRACKED)?, of(DS_EMULATED)?);
                let text =
                    format!("{} and {} in {}", registers.0, faults.0, with_noun(registers.1.len() as u64, "region"));
                Some((registers == faults, text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-DS-9",
        kind: Side,
        claim: "To grow, to shrink and to convert a segment never changes what an address holds",
        studies: &["ds13-by-hand"],
        judge: |_, _| {
            untestable(
                "the laboratory has frames, not contents. The tests ca_26, ca_27 and ca_28 \
                 (tests/big_memory/segments.rs) compare after each of many random events which frame every page has \
                 and which page wrote it, in both modes.",
            )
        },
    },
    Hypothesis {
        id: "H-DS-10",
        kind: Side,
        claim: "Compacting 10 GB takes 1 % of the time once in 5 minutes, 0.1 % once in an hour",
        studies: &["ds13-by-hand"],
        judge: |results, _| {
            // A sum could be judged without results, but no claim is.
            if results.is_empty() {
                return untestable("nothing was run.");
            }
            let [often, seldom] = [300.0, 3600.0].map(|seconds| compaction(10.0, seconds));
            let text = format!("{} and {} at the paper's 0.3 s for each GB.", percent(often), percent(seldom));
            if (0.95..1.05).contains(&often) && (0.05..0.15).contains(&seldom) { holds(text) } else { fails(text) }
        },
    },
    Hypothesis {
        id: "H-DS-11",
        kind: Side,
        claim: "A segment over sparse arenas holds memory that is never used",
        studies: &["ds13-by-hand"],
        judge: |results, _| judged(ROWS, results, &[ARENAS]),
    },
    Hypothesis {
        id: "H-DS-12",
        kind: Side,
        claim: "A segment for the direct map of the kernel removes nearly 99 % of the kernel's misses",
        studies: &["ds13-by-hand"],
        judge: |_, _| untestable("recorded programs have no references of the kernel (XC-8)."),
    },
    Hypothesis {
        id: "H-DS-13",
        kind: Side,
        claim: "A segment in one dimension cuts the walk under virtualisation from 24 to 4 references",
        studies: &["ds13-by-hand"],
        judge: |results, _| {
            if results.is_empty() {
                return untestable("nothing was run.");
            }
            let (right, words) = nested();
            if right { holds(format!("{words}.")) } else { fails(format!("{words}.")) }
        },
    },
    Hypothesis {
        id: "H-DS-14",
        kind: Side,
        claim: "Processes that take turns, each with a segment, see their own memory only",
        studies: &["ds13-by-hand"],
        judge: |results, _| {
            let mut finding = judged(ROWS, results, &[TURNS]);
            finding.why.push_str(" Debug builds compare every translation with the page table of its process (XC-3).");
            finding
        },
    },
    Hypothesis {
        id: "H-DS-15",
        kind: Side,
        claim: "By the paper's linear model less than 0.5 % of the time is left with a segment, too",
        studies: &["ds13-fig4", "ds13-table5"],
        judge: |results, set| {
            tally(of_ds13(set), |p| table5::left(results, &p.name).map(|[linear, _]| (linear < 0.5, percent(linear))))
                .all()
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Answer, Measured, Request};
    use farreach_machine::{Lab, MachineSpec, Options};

    /// A result with this many data misses, a share of them in the segment.
    fn with(misses: u64, inside: u64) -> Answer {
        let mut lab = Lab::new(vec![MachineSpec::parse(DS_TRACKED, 0).unwrap()], Options::default()).unwrap();
        let result = lab.result("", None);
        let mut machine = result.machines[0].clone();
        machine.counts.tlb.data_misses = misses;
        machine.counts.tlb.segment.misses_inside = inside;
        Answer::Machine(Box::new(Measured { workload: result.workload, machine }))
    }

    /// The claim has two halves, and a set with a database judges both.
    #[test]
    fn h_ds_1_says_something_about_the_database_too() {
        let program =
            |name: &str, like: &str| Program { name: name.into(), stands_for: like.into(), ..Program::default() };
        let set = Set { large: vec![program("bfs", "Graph500"), program("db", "MySQL")], ..Set::default() };
        let claim = &CLAIMS[0];
        let verdict = |database: Option<u64>| {
            let mut results = Results::default();
            results.insert(Request::machine("bfs", DS_TRACKED), with(10_000, 9_999));
            if let Some(inside) = database {
                results.insert(Request::machine("db", DS_TRACKED), with(10_000, inside));
            }
            let finding = (claim.judge)(&results, &set);
            (finding.verdict, finding.why.contains("open"))
        };
        assert_eq!(claim.id, "H-DS-1");
        assert_eq!(verdict(None), (Verdict::Holds, true));
        assert_eq!(verdict(Some(9_240)), (Verdict::Holds, false));
        assert_eq!(verdict(Some(10_000)), (Verdict::Fails, false), "in the database no fewer are inside");
    }

    /// Most misses inside, but fewer than claimed, leave the claim open; most outside are the opposite.
    #[test]
    fn h_ds_1_is_short_of_its_share_or_refuted() {
        let program = Program { name: "kv".into(), ..Program::default() };
        let set = Set { large: vec![program], ..Set::default() };
        let verdict = |inside: u64| {
            let mut results = Results::default();
            results.insert(Request::machine("kv", DS_TRACKED), with(10_000, inside));
            (CLAIMS[0].judge)(&results, &set).verdict
        };
        assert_eq!([10_000, 9_836, 3].map(verdict), [Verdict::Holds, Verdict::NotShown, Verdict::Fails]);
    }
}
