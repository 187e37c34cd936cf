//! Claims of PS about page sizes.

use super::hypothesis::Hypothesis;
use super::judge::{Outcome, Tally, reached, tally, worst};
use crate::number_text::percent;
use crate::ps::{SMALL, TWO_SIZES, has_code, ratios, row};
use crate::results::{PAGE_SIZES, Results, Set};
use farreach_types::papers::Kind::{Main, Side};
use farreach_types::papers::{Finding, Program};

const KB: u64 = 1 << 10;
/// Memory beside that of 4 KB pages below which the paper calls it worth its price: "less than 25%".
const MEMORY: f64 = 1.25;

/// Programs whose code the instruction TLB does not hold at 4 KB.
fn with_code<O: Into<Outcome>>(results: &Results, set: &Set, what: impl Fn(&Program) -> Option<(O, String)>) -> Tally {
    tally(set.programs.iter().filter(|p| has_code(results, p) == Some(true)), what)
}

/// Instruction TLB misses relative to 4 KB, in percent.
fn fetch(results: &Results, p: &Program, size: u64) -> Option<f64> {
    row(results, &p.name, size)?.relative.relative_fetch_misses.map(|r| 100.0 * r)
}

/// Data TLB misses relative to 4 KB, in percent.
fn data(results: &Results, p: &Program, size: u64) -> Option<f64> {
    row(results, &p.name, size)?.relative.relative_data_misses.map(|r| 100.0 * r)
}

/// Growth of memory against 4 KB, in percent.
fn growth(results: &Results, p: &Program, size: u64) -> Option<f64> {
    row(results, &p.name, size)?.relative.relative_memory.map(|g| 100.0 * g)
}

pub(super) const CLAIMS: &[Hypothesis] = &[
    Hypothesis {
        id: "H-PS-1",
        kind: Main,
        claim: "Pages of 16 KB cut instruction TLB misses to a third or less even on the worst programs, for at most \
                two thirds more memory",
        studies: &["ps-itlb", "ps-memory"],
        judge: |results, set| {
            with_code(results, set, |p| {
                let (misses, memory) = (fetch(results, p, 16 * KB)?, growth(results, p, 16 * KB)?);
                let outcome = if memory > 67.0 { Outcome::No } else { reached(misses <= 34.0, misses <= 100.0) };
                Some((outcome, format!("misses {}, memory +{}", percent(misses), percent(memory))))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-PS-2",
        kind: Side,
        claim: "On most programs hardly any instruction TLB miss is left at 16 KB (at most a tenth)",
        studies: &["ps-itlb"],
        judge: |results, set| {
            with_code(results, set, |p| {
                fetch(results, p, 16 * KB).map(|m| (reached(m <= 10.0, m <= 100.0), percent(m)))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-PS-3",
        kind: Main,
        claim: "Memory grows by less than 25 % at 16 KB on most programs",
        studies: &["ps-memory"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| growth(results, p, 16 * KB).map(|g| (g < 25.0, format!("+{}", percent(g)))))
                .most()
        },
    },
    Hypothesis {
        id: "H-PS-4",
        kind: Side,
        claim: "Beyond 16 KB instruction TLB misses fall by less than a tenth of those at 4 KB on most programs, while \
                the code of some more than doubles in memory",
        studies: &["ps-itlb", "ps-memory"],
        judge: |results, set| {
            let misses = with_code(results, set, |p| {
                let gain = fetch(results, p, 16 * KB)? - fetch(results, p, 256 * KB)?;
                Some((gain < 10.0, format!("{} fewer", percent(gain))))
            })
            .most();
            let memory = with_code(results, set, |p| {
                let code = 100.0 * row(results, &p.name, 256 * KB)?.relative.relative_code_memory?;
                Some((reached(code > 100.0, code >= 0.0), format!("+{}", percent(code))))
            })
            .some();
            let why = format!("Misses: {} Code at 256 KB: {}", misses.why, memory.why);
            Finding { verdict: worst([misses.verdict, memory.verdict]), why }
        },
    },
    Hypothesis {
        id: "H-PS-5",
        kind: Side,
        claim: "On most programs data TLB misses fall only at 256 KB: nine tenths are left at 128 KB",
        studies: &["ps-dtlb"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let (before, after) = (data(results, p, 128 * KB)?, data(results, p, 256 * KB)?);
                Some((
                    before >= 90.0 && after < before,
                    format!("{} at 128 KB, {} at 256 KB", percent(before), percent(after)),
                ))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-PS-6",
        kind: Side,
        claim: "Memory for data hardly depends on the page size: at most 10 % more at 256 KB, on most programs",
        studies: &["ps-memory"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let more = 100.0 * row(results, &p.name, 256 * KB)?.relative.relative_data_memory?;
                Some((more <= 10.0, format!("+{}", percent(more))))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-PS-7",
        kind: Main,
        claim: "Two sizes, 16 KB and 256 KB for large data objects, miss less often than 16 KB alone for little \
                memory: less than 25 % more than 4 KB takes, on most programs",
        studies: &["ps-advice"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let (one, two) = (ratios(results, &p.name, SMALL)?, ratios(results, &p.name, TWO_SIZES)?);
                let text =
                    format!("misses {:.3} and {:.3}, memory {:.2} and {:.2} of 4 KB", two.0, one.0, two.1, one.1);
                // Without a large object the two machines are one.
                let outcome = match two == one {
                    true => Outcome::Silent,
                    false if two.1 >= MEMORY => Outcome::No,
                    false => reached(two.0 < one.0, two.0 <= one.0),
                };
                Some((outcome, text))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-PS-8",
        kind: Side,
        claim: "With true LRU misses never grow with the number of entries; larger pages may miss more often",
        studies: &["ps-dtlb"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let rows = &results.page_sizes(&p.name)?.rows;
                let falls = |misses: &[u64]| misses.is_sorted_by(|a, b| a >= b);
                let all = rows
                    .iter()
                    .all(|r| falls(&r.counts.fetch_misses_by_entries) && falls(&r.counts.data_misses_by_entries));
                let larger = rows.windows(2).filter(|w| w[1].counts.data_misses > w[0].counts.data_misses).count();
                let text = match larger {
                    0 => "no size misses more often than the next smaller one".into(),
                    n => format!("{n} of {} steps to a larger page miss more often", PAGE_SIZES.len() - 1),
                };
                Some((all, text))
            })
            .all()
        },
    },
];
