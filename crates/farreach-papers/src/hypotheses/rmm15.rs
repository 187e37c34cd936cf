//! Claims of RMM15 about ranges: how many there are, eager paging, the range table.

use super::hypothesis::Hypothesis;
use super::judge::{Outcome, fails, reached, tally, untestable, worst};
use crate::expected_rows::judged;
use crate::large::{RMM_OFF, RMM_RANGE, RMM_THP, data_misses};
use crate::micro::{FORK, PROTECT, SCATTERED, TINY};
use crate::number_text::percent;
use crate::results::Set;
use crate::rmm15::options::{ALWAYS, ENHANCED, SERIAL, STOCK, THRESHOLD_1, enhanced, places};
use crate::rmm15::table2::{contiguity, largest};
use crate::rmm15::table7::{aged, memory, shares, time};
use crate::rmm15::worked_examples::{ROWS, TINY_PAGES, TINY_RANGES};
use farreach_types::papers::Kind::Side;
use farreach_types::papers::{Finding, Program, Verdict};
use farreach_types::plural::with_noun;

/// The programs of the paper with tens of GB.
pub(super) const BIG: [&str; 4] = ["graph500", "memcached", "NPB:CG", "GUPS"];

fn small(set: &Set) -> impl Iterator<Item = &Program> + Clone {
    set.large.iter().filter(|p| !p.is_like(&BIG))
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
        id: "H-RM-5",
        kind: Side,
        claim: "As many entries as ranges are needed: at random over 62 ranges 64 entries miss once for each, 32 at 48 \
                %",
        studies: &["rmm15-by-hand"],
        judge: |results, _| judged(ROWS, results, &[SCATTERED]),
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
