//! Claims of RMM15 about redundant memory mappings.

use super::hypothesis::Hypothesis;
use super::judge::{
    Outcome, Tally, about_named, fails, holds, if_stressed, not_shown, reached, tally, tally_named, untestable, worst,
};
use crate::expected_rows::judged;
use crate::large::{RMM_4K, RMM_CLUSTERED, RMM_OFF, RMM_RANGE, RMM_THP, data_misses, mean};
use crate::micro::{FORK, PROTECT, SCATTERED, TINY};
use crate::number_text::percent;
use crate::results::{Results, Set};
use crate::rmm15::fig6::{IDEAL, average, overhead, stress};
use crate::rmm15::fig7::{State, left};
use crate::rmm15::options::{ALWAYS, ENHANCED, SERIAL, STOCK, THRESHOLD_1, enhanced, last_first, places};
use crate::rmm15::table2::{contiguity, largest};
use crate::rmm15::table7::{aged, memory, shares, time};
use crate::rmm15::worked_examples::{ROWS, TINY_PAGES, TINY_RANGES};
use farreach_types::papers::Kind::{Main, Side};
use farreach_types::papers::{Finding, Program, Verdict};
use farreach_types::plural::with_noun;

/// The programs of the paper with tens of GB.
const BIG: [&str; 4] = ["graph500", "memcached", "NPB:CG", "GUPS"];

fn small(set: &Set) -> impl Iterator<Item = &Program> + Clone {
    set.large.iter().filter(|p| !p.is_like(&BIG))
}

/// Overheads that differ by less than this are similar: what the paper calls a negligible overhead.
const SIMILAR: f64 = 1.0;

/// Programs whose walks with 4 KB pages take at least a hundredth of the time. On the others no design can gain
/// anything.
fn walks(results: &Results, p: &Program) -> bool {
    overhead(results, &p.name, RMM_4K).is_some_and(|o| o >= 1.0)
}

pub(super) const CLAIMS: &[Hypothesis] = &[
    Hypothesis {
        id: "H-RM-1",
        kind: Side,
        claim: "With ideal placement at most 112 ranges cover all memory, and at most 49 cover 99 % of it",
        studies: &["rmm15-table2"],
        judge: |results, set| {
            tally(set.large.iter(), |p| {
                let c = contiguity(results, &p.name, RMM_THP)?;
                let (all, most) = (c.ideal_ranges, c.ideal_cover_99?);
                Some((all <= 112 && most <= 49, format!("{all}, {most} for 99 %")))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-RM-2",
        kind: Side,
        claim: "One range covers 90 % and more of the memory of some programs only (5 of 14)",
        studies: &["rmm15-table2"],
        judge: |results, set| {
            let found = tally(set.large.iter(), |p| largest(results, &p.name).map(|s| (s >= 90.0, percent(s))));
            // "Some only": neither none nor all.
            if found.no.is_empty() && found.counted() > 0 { fails(found.said(true)) } else { found.some() }
        },
    },
    Hypothesis {
        id: "H-RM-3",
        kind: Side,
        claim: "A range TLB of 32 entries removes more than 99 % of the walks of most programs, and 97.9 % and more on \
                average",
        studies: &["rmm15-fig7"],
        judge: |results, set| {
            let programs: Vec<&Program> = set.large.iter().filter(|p| walks(results, p)).collect();
            let found = tally(programs.iter().copied(), |p| {
                let l = left(results, set, p, 32, State::Fresh)?;
                let outcome = (reached(l < 1.0, l < 100.0), format!("{} left", percent(l)));
                Some(if_stressed(stress(results, p), outcome))
            });
            let counted = programs.iter().filter(|p| stress(results, p).is_none_or(|s| !s.too_little()));
            let Some(left) = mean(counted.map(|p| left(results, set, p, 32, State::Fresh))) else {
                let silent = found.most();
                return if silent.verdict == Verdict::NotShown {
                    silent
                } else {
                    untestable("nothing with walks was run.")
                };
            };
            let most = found.most();
            let why = format!("{} On average {} removed.", most.why, percent(100.0 - left));
            let average = if left <= 2.1 { Verdict::Holds } else { Verdict::NotShown };
            Finding { verdict: worst([most.verdict, average]), why }
        },
    },
    Hypothesis {
        id: "H-RM-4",
        kind: Side,
        claim: "Sixteen entries are too few for cactusADM, memcached, tigr and GUPS: more than 1 % of the walks are \
                left",
        studies: &["rmm15-fig7"],
        judge: |results, set| {
            let late = ["cactusADM", "memcached", "tigr", "GUPS"];
            let many = |p: &Program| {
                let (fresh, aged) = (left(results, set, p, 16, State::Fresh)?, left(results, set, p, 16, State::Aged));
                let words = aged.map_or(String::new(), |a| format!(", on aged memory {}", percent(a)));
                let many = fresh > 1.0 || aged.is_some_and(|a| a > 1.0);
                // Sixteen entries are enough for any program that has no more ranges.
                let ranges = contiguity(results, &p.name, RMM_OFF)?.most_ranges;
                let outcome = if !many && ranges <= 16 { Outcome::Silent } else { many.into() };
                let text = format!("{}, {} left{words}", with_noun(ranges, "range"), percent(fresh));
                Some(if_stressed(stress(results, p), (outcome, text)))
            };
            about_named(tally_named(set.large.iter(), &late, many), Tally::all)
        },
    },
    Hypothesis {
        id: "H-RM-5",
        kind: Side,
        claim: "As many entries as ranges are needed: at random over 62 ranges 64 entries miss once for each, 32 at 48 \
                %",
        studies: &["rmm15-by-hand"],
        judge: |results, _| judged(ROWS, results, &[SCATTERED]),
    },
    Hypothesis {
        id: "H-RM-6",
        kind: Side,
        claim: "One range answers more than half on astar, omnetpp, canneal, streamcluster and graph500: the one used \
                last does",
        studies: &["rmm15-options", "rmm15-fig7"],
        judge: |results, set| {
            let names = ["astar", "omnetpp", "canneal", "streamcluster", "graph500"];
            tally(set.large.iter().filter(|p| p.is_like(&names) || p.stands_for.is_empty()), |p| {
                let (last, one) = (last_first(results, &p.name)?, left(results, set, p, 1, State::Fresh)?);
                let text = format!("last range {}, one entry leaves {}", percent(last), percent(one));
                Some(if_stressed(stress(results, p), ((last > 50.0 && one < 50.0).into(), text)))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-RM-7",
        kind: Side,
        claim: "Eager paging has at most half as many ranges as demand paging with huge pages, and they cover at least \
                as much",
        studies: &["rmm15-table7"],
        judge: |results, set| {
            tally(set.large.iter(), |p| {
                let (demand, eager) = (contiguity(results, &p.name, RMM_THP)?, contiguity(results, &p.name, RMM_OFF)?);
                let (d, e) = (shares(demand).0, shares(eager).0);
                let text =
                    format!("{} and {}, {d:.2} and {e:.2} % covered", demand.ranges, with_noun(eager.ranges, "range"));
                let fewer = eager.ranges < demand.ranges && e >= d;
                Some((reached(2 * eager.ranges <= demand.ranges && e >= d, fewer), text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-RM-8",
        kind: Side,
        claim: "Eager paging makes the mean range larger, on all programs; the median falls for most small programs \
                and rises for big ones",
        studies: &["rmm15-table7"],
        judge: |results, set| {
            let sizes = |p: &Program| {
                let (demand, eager) = (contiguity(results, &p.name, RMM_THP)?, contiguity(results, &p.name, RMM_OFF)?);
                Some(([shares(demand).1, shares(eager).1], [demand.median_pages, eager.median_pages]))
            };
            let means = tally(set.large.iter(), |p| {
                sizes(p).map(|(m, _)| (reached(m[1] > m[0], m[1] >= m[0]), format!("{:.0} to {:.0}", m[0], m[1])))
            });
            let medians = |wanted: fn(u64, u64) -> bool| {
                move |p: &Program| {
                    let (_, m) = sizes(p)?;
                    Some((reached(wanted(m[0], m[1]), m[0] == m[1]), format!("{} to {}", m[0], m[1])))
                }
            };
            let falls = tally(small(set), medians(|d, e| e < d)).most();
            let rises = tally(set.large.iter().filter(|p| p.is_like(&BIG)), medians(|d, e| e > d)).all();
            let means = means.all();
            let why = format!("Mean pages: {} Median falls: {} Median rises: {}", means.why, falls.why, rises.why);
            Finding { verdict: worst([means.verdict, falls.verdict, rises.verdict]), why }
        },
    },
    Hypothesis {
        id: "H-RM-9",
        kind: Side,
        claim: "Memory grows by less than 10 % with eager paging on most of the small programs (7 of 10); much where \
                allocators ask for too much",
        studies: &["rmm15-table7"],
        judge: |results, set| {
            tally(small(set), |p| memory(results, &p.name).map(|m| (m < 10.0, format!("+{}", percent(m))))).most()
        },
    },
    Hypothesis {
        id: "H-RM-10",
        kind: Side,
        claim: "Eager paging changes the run time by -4 to +3 %",
        studies: &["rmm15-table7"],
        judge: |results, set| {
            // More time than claimed breaks a limit, more of a gain is more than claimed.
            let outcome = |t: f64| if t < -4.1 { Outcome::Stronger } else { (t <= 3.0).into() };
            let mut finding =
                tally(set.large.iter(), |p| time(results, &p.name).map(|t| (outcome(t), percent(t)))).all();
            finding.why.push_str(" Effects on cache sets (GemsFDTD, +11.65 %) cannot show: no cache is simulated.");
            finding
        },
    },
    Hypothesis {
        id: "H-RM-11",
        kind: Main,
        claim: "On average walks cost most with 4 KB pages, then clustered TLB, huge pages, RMM; RMM costs about as \
                much as an ideal segment or less (at most 1 % of the run more)",
        studies: &["rmm15-fig6"],
        judge: |results, set| {
            let names = ["4 KB", "clustered", "THP", "ideal segment", "RMM"];
            let Some(all) = [RMM_4K, RMM_CLUSTERED, RMM_THP, IDEAL, RMM_RANGE]
                .iter()
                .map(|m| average(results, set, m))
                .collect::<Option<Vec<_>>>()
            else {
                return untestable("not all of the bars were run.");
            };
            let words =
                names.iter().zip(&all).map(|(n, x)| format!("{n} {}", percent(*x))).collect::<Vec<_>>().join(", ");
            let text = format!("means: {words}.");
            let right = all[0] > all[1] && all[1] > all[2] && all[2] > all[4] && all[4] <= all[3] + SIMILAR;
            if right { holds(text) } else { fails(text) }
        },
    },
    Hypothesis {
        id: "H-RM-12",
        kind: Main,
        claim: "Walks cost less than 1 % on average with RMM, and more than 2 % on GUPS only",
        studies: &["rmm15-fig6"],
        judge: |results, set| {
            let Some(mean) = average(results, set, RMM_RANGE) else { return untestable("no program was run.") };
            // "On GUPS only": more there, and on no other program.
            let (gups, others) = tally_named(set.large.iter(), &["GUPS"], |p| {
                overhead(results, &p.name, RMM_RANGE).map(|o| (o > 2.0, percent(o)))
            });
            let words = |of: &Tally| if of.is_empty() { "no program was run.".into() } else { of.said(true) };
            let text = format!(
                "mean {}. More than 2 % on GUPS: {} On others: {}",
                percent(mean),
                words(&gups),
                words(&others)
            );
            match (mean < 1.0 && others.yes.is_empty(), gups.no.is_empty()) {
                (false, _) => fails(text),
                (true, true) => holds(text),
                // GUPS costs no more than all others.
                (true, false) => Finding { verdict: Verdict::Stronger, why: text },
            }
        },
    },
    Hypothesis {
        id: "H-RM-13",
        kind: Side,
        claim: "With 4 KB pages walks cost mcf more than cactusADM, and that more than graph500 (42, 39, 29 %)",
        studies: &["rmm15-fig6"],
        judge: |results, set| {
            let of = |name: &str| {
                let p = set.large.iter().find(|p| p.is_like(&[name]))?;
                Some((p.name.clone(), overhead(results, &p.name, RMM_4K)?, stress(results, p)?))
            };
            let (Some(mcf), Some(cactus), Some(graph)) = (of("mcf"), of("cactusADM"), of("graph500")) else {
                return untestable("programs that stand for the three were not run.");
            };
            let all = [mcf, cactus, graph];
            let say = |(name, o, stress): &(String, f64, crate::stress::Stress)| match stress.too_little() {
                true => format!("{name} {}, too little to stand for {}", percent(*o), stress.of),
                false => format!("{name} {}", percent(*o)),
            };
            let text = all.each_ref().map(say).join("; ") + ".";
            // The order of those that do what the originals did.
            let stressed: Vec<f64> = all.iter().filter(|(.., s)| !s.too_little()).map(|x| x.1).collect();
            match (stressed.is_sorted_by(|a, b| a > b), stressed.len()) {
                (false, _) => fails(text),
                (true, 3) => holds(text),
                (true, _) => not_shown(text),
            }
        },
    },
    Hypothesis {
        id: "H-RM-14",
        kind: Side,
        claim: "A clustered TLB halves the walks of small programs at least on average, not those of big-memory \
                programs",
        studies: &["rmm15-fig6"],
        judge: |results, set| {
            let kept = |p: &Program| {
                let (with, without) = (overhead(results, &p.name, RMM_CLUSTERED)?, overhead(results, &p.name, RMM_4K)?);
                Some(100.0 * with / without)
            };
            let stressed =
                |p: &&Program| walks(results, p) && stress(results, p).is_none_or(|stress| !stress.too_little());
            let group = |big: bool| set.large.iter().filter(move |p| p.is_like(&BIG) == big).filter(stressed).map(kept);
            let (Some(small), Some(big)) = (mean(group(false)), mean(group(true))) else {
                return untestable("not both kinds of programs were run.");
            };
            let text = format!(
                "{} of the walks are left on small programs, {} on big-memory ones.",
                percent(small),
                percent(big)
            );
            match (small <= 50.0 && big > 50.0, small < big) {
                (true, _) => holds(text),
                (false, true) => not_shown(text),
                (false, false) => fails(text),
            }
        },
    },
    Hypothesis {
        id: "H-RM-15",
        kind: Side,
        claim: "Blocks of up to 2 GB instead of 4 MB cut the ranges of large requests by the ratio of what is asked \
                for to 4 MB, in memory that was used",
        studies: &["rmm15-options", "rmm15-table7"],
        judge: |results, set| {
            tally(set.large.iter(), |p| {
                let [chain, _] = aged(set, p)?;
                let (stock, large) = (contiguity(results, &chain, STOCK)?, contiguity(results, &chain, RMM_OFF)?);
                let blocks = stock.mapped_pages / 1024;
                let text = format!(
                    "{} instead of {}; {} of 4 MB",
                    with_noun(large.ranges, "range"),
                    stock.ranges,
                    with_noun(blocks, "block")
                );
                let fewer = stock.ranges.saturating_sub(large.ranges);
                Some((reached(2 * fewer >= blocks, large.ranges <= stock.ranges), text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-RM-16",
        kind: Side,
        claim: "Free blocks by address, and remainders carved from larger blocks, reduce the number of ranges and \
                never raise it",
        studies: &["rmm15-options"],
        judge: |results, set| {
            tally(set.large.iter(), |p| {
                let mut words = Vec::new();
                let (mut right, mut fewer) = (true, false);
                for place in places(set, p) {
                    let all = (0..ENHANCED.len())
                        .map(|i| enhanced(results, &p.name, &place, i))
                        .collect::<Option<Vec<_>>>()?;
                    right &= all.iter().all(|&n| n <= all[0]);
                    fewer |= all.iter().any(|&n| n < all[0]);
                    words.push(all.iter().map(u64::to_string).collect::<Vec<_>>().join(", "));
                }
                // A program of few ranges has none to lose.
                let outcome = if right && !fewer { Outcome::Silent } else { right.into() };
                Some((outcome, words.join("; aged: ")))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-RM-17",
        kind: Side,
        claim: "INVLPG of one page takes its range from the range TLB; the next access walks and fetches the rest of \
                it",
        studies: &["rmm15-by-hand"],
        judge: |results, _| judged(ROWS, results, &[PROTECT]),
    },
    Hypothesis {
        id: "H-RM-18",
        kind: Side,
        claim: "A store after fork dissolves the range and copies one page; the alternative copies all of it",
        studies: &["rmm15-by-hand"],
        judge: |results, _| {
            let mut finding = judged(ROWS, results, &[FORK]);
            finding.why.push_str(" The test ca_35_f_3 compares the frames of all pages of both processes.");
            finding
        },
    },
    Hypothesis {
        id: "H-RM-19",
        kind: Side,
        claim: "With the range bit no search of the range table is in vain, and no range is missed",
        studies: &["rmm15-options"],
        judge: |results, set| {
            tally(set.large.iter(), |p| {
                let counts = |m: &str| results.machine(&p.name, m).map(|m| &m.counts.tlb.range);
                let (bit, always) = (counts(RMM_RANGE)?, counts(ALWAYS)?);
                let text = format!(
                    "{} of {} in vain, without the bit {} of {}",
                    bit.wasted_walks, bit.walks, always.wasted_walks, always.walks
                );
                Some((bit.wasted_walks == 0 && bit.missed_ranges == 0, text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-RM-20",
        kind: Side,
        claim: "Asked beside the second level, the range TLB leaves at most the walks that it leaves in the serial \
                emulation",
        studies: &["rmm15-options"],
        judge: |results, set| {
            tally(set.large.iter(), |p| {
                let (parallel, serial) =
                    (data_misses(results, &p.name, RMM_RANGE)?, data_misses(results, &p.name, SERIAL)?);
                Some((parallel <= serial, format!("{parallel} and {serial}")))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-RM-21",
        kind: Side,
        claim: "A threshold below eight pages makes many tiny ranges, and more walks",
        studies: &["rmm15-by-hand", "rmm15-options"],
        judge: |results, set| {
            let tiny = judged(ROWS, results, &[TINY]);
            let walks = [TINY_PAGES, TINY_RANGES].map(|m| data_misses(results, TINY, m));
            let [Some(pages), Some(tiny_ranges)] = walks else { return untestable("it was not run.") };
            let programs = tally(set.large.iter(), |p| {
                let (eight, one) =
                    (data_misses(results, &p.name, RMM_RANGE)?, data_misses(results, &p.name, THRESHOLD_1)?);
                let ranges = |m| contiguity(results, &p.name, m).map(|c| c.most_ranges);
                let text = format!(
                    "{} to {}, {eight} to {}",
                    ranges(RMM_RANGE)?,
                    with_noun(ranges(THRESHOLD_1)?, "range"),
                    with_noun(one, "walk")
                );
                Some((one > eight, text))
            });
            let found = programs.some();
            let thrashes = if tiny_ranges > pages { Verdict::Holds } else { Verdict::Fails };
            let why = format!(
                "made by hand: {} {pages} walks with threshold 8, {tiny_ranges} with 4. Threshold 8 to 1: {}",
                tiny.why, found.why
            );
            Finding { verdict: worst([tiny.verdict, thrashes, found.verdict]), why }
        },
    },
];
