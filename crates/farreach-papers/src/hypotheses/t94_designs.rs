//! Claims about the designs of T94 at 64 entries.

use super::hypothesis::Hypothesis;
use super::judge::{Outcome, can, compare, compared, fails, holds, reached, tally, tally_named, untestable, worst};
use crate::machines::{COMPLETE, PARTIAL, SET_ASSOCIATIVE, SINGLE, SUPERPAGE, relative_area, sized};
use crate::number_text::percent;
use crate::t94::options::{COMPLETE_SETS, INTEGRATED, PARTIAL_SETS, SAME_ENTRY};
use crate::t94::table5::cache_misses;
use crate::t94::table7::{DESIGNS, Sizing, sizing};
use crate::t94::table8::{mean_area, mean_misses};
use crate::t94::table10::TRIPLE;
use farreach_types::papers::Kind::{Main, Side};
use farreach_types::papers::{Finding, Program, Verdict};

pub(super) const CLAIMS: &[Hypothesis] = &[
    Hypothesis {
        id: "H-T94-3",
        kind: Side,
        claim: "Superpages cut misses to a tenth or less on programs of arrays and heaps (nasa7, compress, wave5, \
                mp3d, spice)",
        studies: &["t94-table6"],
        judge: |results, set| {
            let those = ["nasa7", "compress", "wave5", "mp3d", "spice"];
            tally(set.standing_for(&those), |p| {
                let share = results.percent(&p.name, SUPERPAGE, SINGLE)?;
                Some((reached(share <= 10.0, share <= 100.0), percent(share)))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-T94-4",
        kind: Side,
        claim: "Programs with sparse references gain little from superpages (fftpde 99.3 %, pthor 95.6 % of the misses \
                remain)",
        studies: &["t94-table6"],
        judge: |results, set| {
            tally(set.standing_for(&["fftpde", "pthor"]), |p| {
                let share = results.percent(&p.name, SUPERPAGE, SINGLE)?;
                Some((share >= 90.0, percent(share)))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-T94-5",
        kind: Main,
        claim: "At 64 entries, partial subblocks miss no more often than superpages on most programs (8 of 10)",
        studies: &["t94-table6"],
        judge: |results, set| compare(results, set, PARTIAL, SUPERPAGE, |a, b| a <= b).most(),
    },
    Hypothesis {
        id: "H-T94-7",
        kind: Side,
        claim: "With page reservation, complete subblocks are only a little better than partial ones: at most 8.1 \
                points of the single-page-size misses (ML)",
        studies: &["t94-table6"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let partial = results.percent(&p.name, PARTIAL, SINGLE)?;
                let complete = results.percent(&p.name, COMPLETE, SINGLE)?;
                // Where all pages are in place with equal attributes, nothing sets the two apart.
                let alike = results.misses(&p.name, PARTIAL) == results.misses(&p.name, COMPLETE);
                let outcome = if alike { Outcome::Silent } else { (partial - complete <= 8.1).into() };
                Some((outcome, format!("{} and {}", percent(partial), percent(complete))))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-T94-10",
        kind: Side,
        claim: "64 partial-subblock entries miss less than 256 single-page-size entries in 4 ways on most programs (9 \
                of 10)",
        studies: &["t94-table6"],
        judge: |results, set| compare(results, set, PARTIAL, SET_ASSOCIATIVE, |a, b| a < b).most(),
    },
    Hypothesis {
        id: "H-T94-11",
        kind: Side,
        claim: "64 partial-subblock entries often miss less than 256 fully associative single-page-size entries (6 of \
                10)",
        studies: &["t94-table6", "t94-table9"],
        judge: |results, set| compare(results, set, PARTIAL, &sized(SINGLE, 256), |a, b| a < b).most(),
    },
    Hypothesis {
        id: "H-T94-12",
        kind: Side,
        claim: "256 entries in 4 ways with random replacement can miss less than 256 fully associative ones with used \
                bits (nasa7, pthor)",
        studies: &["t94-table6", "t94-table9"],
        judge: |results, set| {
            let fully = sized(SINGLE, 256);
            let less = |p: &Program| compared(results, p, SET_ASSOCIATIVE, &fully, |a, b| a < b);
            can(tally_named(set.programs.iter(), &["nasa7", "pthor"], less))
        },
    },
    Hypothesis {
        id: "H-T94-6",
        kind: Side,
        claim: "Where partial subblocks miss more often than superpages, preloading the pages that share the entry \
                makes them miss no more often",
        studies: &["t94-preload"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let of = |m: &str| results.misses(&p.name, m);
                let (superpage, partial, preloaded) = (of(SUPERPAGE)?, of(PARTIAL)?, of(SAME_ENTRY)?);
                let text = format!("superpage {superpage}, partial {partial}, with preload {preloaded}");
                // Where partial subblocks do not miss more often, there is nothing to remove.
                Some((if partial > superpage { (preloaded <= superpage).into() } else { Outcome::Silent }, text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-T94-20",
        kind: Side,
        claim: "At equal area complete subblocks of factor 2 always miss less than single pages, those of factor 4 \
                often",
        studies: &["t94-table10"],
        judge: |results, set| {
            // The first of the three has single pages, the others factors 2 and 4.
            let less =
                |i: usize| tally(set.programs.iter(), |p| compared(results, p, TRIPLE[i].1, TRIPLE[0].1, |a, b| a < b));
            let (two, four) = (less(1).all(), less(2).most());
            if two.verdict == Verdict::NotTestable {
                return two;
            }
            let why = format!("factor 2: {} Factor 4: {}", two.why, four.why);
            Finding { verdict: worst([two.verdict, four.verdict]), why }
        },
    },
    Hypothesis {
        id: "H-T94-21",
        kind: Side,
        claim: "For the misses of 64 superpage entries, single pages need more area than superpages, partial subblocks \
                less except on wave5 and mp3d, and always less than complete subblocks",
        studies: &["t94-table7"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let area = |design: usize| {
                    let preset = DESIGNS[design].1;
                    Some(match sizing(results, &p.name, preset).ok()? {
                        Sizing::Found { best, .. } => relative_area(&sized(preset, best))?,
                        Sizing::Never => f64::INFINITY,
                        Sizing::Always => 0.0,
                    })
                };
                let (single, partial, complete) = (area(0)?, area(1)?, area(2)?);
                let excepted = ["wave5", "mp3d"].contains(&p.stands_for.as_str());
                let right = single > 1.0 && (partial <= 1.0 || excepted) && partial < complete;
                Some((right, format!("single {single:.2}, partial {partial:.2}, complete {complete:.2}")))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-T94-22",
        kind: Main,
        claim: "At equal entries complete, partial, superpage, single in this order; at equal misses the order of \
                areas is partial, superpage, complete, single",
        studies: &["t94-table8"],
        judge: |results, set| {
            let [single, superpage, partial, complete] = [SINGLE, SUPERPAGE, PARTIAL, COMPLETE]
                .map(|m| mean_misses(results, set, m).zip(mean_area(results, set, m)));
            let (Some(n), Some(s), Some(p), Some(c)) = (single, superpage, partial, complete) else {
                return untestable("no program was run.");
            };
            let entries = c.0 <= p.0 && p.0 <= s.0 && s.0 < n.0;
            let area = p.1 <= s.1 && s.1 <= c.1 && c.1 < n.1;
            let order = |right: bool| if right { "in this order" } else { "in another order" };
            let text = format!(
                "misses {}, areas {}; misses in percent of single, geometric mean: complete {:.2}, partial {:.2}, \
                 superpage {:.2}; area: partial {:.2}, superpage 1.00, complete {:.2}, single {:.2}.",
                order(entries),
                order(area),
                c.0,
                p.0,
                s.0,
                p.1,
                c.1,
                n.1
            );
            if entries && area { holds(text) } else { fails(text) }
        },
    },
    Hypothesis {
        id: "H-T94-31",
        kind: Side,
        claim: "Where superpages or subblocks cut misses a hundredfold, less than 1 % of user time is spent on the \
                misses left",
        studies: &["t94-table6"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let time = |m: &str| results.machine(&p.name, m)?.cost.percent_of_time;
                let few = [SUPERPAGE, PARTIAL, COMPLETE]
                    .into_iter()
                    .filter(|m| results.percent(&p.name, m, SINGLE).is_some_and(|s| s <= 1.0));
                let most = few.filter_map(time).reduce(f64::max);
                let Some(most) = most else {
                    let least = [SUPERPAGE, PARTIAL, COMPLETE].map(|m| results.percent(&p.name, m, SINGLE));
                    let least = least.into_iter().flatten().reduce(f64::min)?;
                    return Some((Outcome::Silent, format!("{} of the misses are left", percent(least))));
                };
                Some(((most < 1.0).into(), format!("{most:.3} % of {}", percent(time(SINGLE)?))))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-T94-32",
        kind: Side,
        claim: "coral, nasa7 and wave5 miss more often in the TLB than in the cache",
        studies: &["t94-table5"],
        judge: |results, set| {
            tally(set.standing_for(&["coral", "nasa7", "wave5"]), |p| {
                let (tlb, cache) = (results.misses(&p.name, SINGLE)?, cache_misses(results, &p.name)?);
                Some((tlb > cache, format!("{tlb} and {cache}")))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-T94-33",
        kind: Side,
        claim: "Complete and partial subblocks in 4 ways miss about as often as fully associative ones (at most twice \
                as often)",
        studies: &["t94-mechanisms"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let of = |m: &str| results.misses(&p.name, m);
                let (partial, sets) = (of(PARTIAL)?, of(PARTIAL_SETS)?);
                let (complete, complete_sets) = (of(COMPLETE)?, of(COMPLETE_SETS)?);
                let text = format!("partial {partial}, in sets {sets}; complete {complete}, in sets {complete_sets}");
                Some((sets <= 2 * partial && complete_sets <= 2 * complete, text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-T94-34",
        kind: Side,
        claim: "A TLB that integrates partial subblocks with large superpages misses no more often than either alone",
        studies: &["t94-mechanisms"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let of = |m: &str| results.misses(&p.name, m);
                let (both, partial, superpage) = (of(INTEGRATED)?, of(PARTIAL)?, of(SUPERPAGE)?);
                Some((
                    both <= partial && both <= superpage,
                    format!("{both}; partial {partial}, superpage {superpage}"),
                ))
            })
            .all()
        },
    },
];
