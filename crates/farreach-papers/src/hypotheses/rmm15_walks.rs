//! Claims of RMM15 about page walks: what they cost, and how many range TLBs leave.

use super::hypothesis::Hypothesis;
use super::judge::{
    Outcome, Tally, about_named, fails, holds, if_stressed, not_shown, reached, tally, tally_named, untestable, worst,
};
use super::rmm15::BIG;
use crate::large::{RMM_4K, RMM_CLUSTERED, RMM_OFF, RMM_RANGE, RMM_THP, mean};
use crate::number_text::percent;
use crate::results::Results;
use crate::rmm15::fig6::{IDEAL, average, overhead, stress};
use crate::rmm15::fig7::{State, left};
use crate::rmm15::options::last_first;
use crate::rmm15::table2::contiguity;
use farreach_types::papers::Kind::{Main, Side};
use farreach_types::papers::{Finding, Program, Verdict};
use farreach_types::plural::with_noun;

/// Overheads that differ by less than this are similar: what the paper calls a negligible overhead.
const SIMILAR: f64 = 1.0;

/// Programs whose walks with 4 KB pages take at least a hundredth of the time. On the others no design can gain
/// anything.
fn walks(results: &Results, p: &Program) -> bool {
    overhead(results, &p.name, RMM_4K).is_some_and(|o| o >= 1.0)
}

pub(super) const CLAIMS: &[Hypothesis] = &[
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
];
