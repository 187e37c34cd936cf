//! Claims of T94 about the number of entries, the size of superpages, and the factor.

use super::hypothesis::Hypothesis;
use super::judge::{can, reached, tally, tally_named, worst};
use crate::machines::{PARTIAL, SINGLE, SUPERPAGE, partial_of, sized, superpage_of};
use crate::number_text::percent;
use crate::results::Results;
use crate::t94::sweeps::PAGES;
use crate::t94::table9::ENTRIES;
use farreach_types::papers::Kind::Side;
use farreach_types::papers::{Finding, Program, Verdict};

/// Misses of partial subblocks by factor.
fn by_factor(results: &Results, p: &Program) -> Option<Vec<u64>> {
    PAGES.iter().map(|&n| results.misses(&p.name, &partial_of(n))).collect()
}

pub(super) const CLAIMS: &[Hypothesis] = &[
    Hypothesis {
        id: "H-T94-13",
        kind: Side,
        claim: "Misses never grow with the number of entries, and superpages and partial subblocks never miss more \
                often than single pages with as many entries",
        studies: &["t94-table9"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let row = |preset: &str| {
                    ENTRIES.iter().map(|&n| results.misses(&p.name, &sized(preset, n))).collect::<Option<Vec<u64>>>()
                };
                let (single, superpage, partial) = (row(SINGLE)?, row(SUPERPAGE)?, row(PARTIAL)?);
                let mut wrong = Vec::new();
                for (name, series) in [("single", &single), ("superpage", &superpage), ("partial", &partial)] {
                    for i in 1..series.len() {
                        if series[i] > series[i - 1] {
                            let (few, many) = (ENTRIES[i - 1], ENTRIES[i]);
                            wrong.push(format!("{name} {} at {few}, {} at {many}", series[i - 1], series[i]));
                        }
                    }
                    for (i, (&n, &base)) in series.iter().zip(&single).enumerate() {
                        if n > base {
                            wrong.push(format!("{name} {n} above single {base} at {}", ENTRIES[i]));
                        }
                    }
                }
                Some((
                    wrong.is_empty(),
                    if wrong.is_empty() { format!("single {} to {}", single[0], single[3]) } else { wrong.join(", ") },
                ))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-T94-14",
        kind: Side,
        claim: "Which of partial subblocks and superpages misses less can depend on the number of entries (coral, \
                fftpde, wave5, nasa7, compress, gcc)",
        studies: &["t94-table9"],
        judge: |results, set| {
            let named = ["coral", "fftpde", "wave5", "nasa7", "compress", "gcc"];
            can(tally_named(set.programs.iter(), &named, |p| {
                let mut words = Vec::new();
                let mut signs = Vec::new();
                for n in ENTRIES {
                    let (partial, superpage) =
                        (results.misses(&p.name, &sized(PARTIAL, n))?, results.misses(&p.name, &sized(SUPERPAGE, n))?);
                    words.push(format!("{n}: {partial} and {superpage}"));
                    signs.push(partial.cmp(&superpage));
                }
                signs.retain(|s| s.is_ne());
                signs.dedup();
                Some((signs.len() > 1, words.join(", ")))
            }))
        },
    },
    Hypothesis {
        id: "H-T94-15",
        kind: Side,
        claim: "The fewer the entries, the more partial subblocks gain on superpages (32 against 256, most programs)",
        studies: &["t94-table9"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let ratio = |n: u64| {
                    let partial = results.misses(&p.name, &sized(PARTIAL, n))? as f64;
                    Some(partial / results.misses(&p.name, &sized(SUPERPAGE, n))?.max(1) as f64)
                };
                let (few, many) = (ratio(ENTRIES[0])?, ratio(ENTRIES[3])?);
                Some((
                    reached(few < many, few <= many),
                    format!("{few:.2} at {}, {many:.2} at {}", ENTRIES[0], ENTRIES[3]),
                ))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-T94-18",
        kind: Side,
        claim: "The larger the superpages up to 64 KB, the fewer the misses, on most programs",
        studies: &["t94-fig4"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let all = PAGES
                    .iter()
                    .map(|&n| results.percent(&p.name, &superpage_of(n), SINGLE))
                    .collect::<Option<Vec<_>>>()?;
                let numbers = all[1..].iter().map(|&s| percent(s)).collect::<Vec<_>>().join(", ");
                Some((all.is_sorted_by(|a, b| a >= b), numbers))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-T94-19",
        kind: Side,
        claim: "Of the doublings of the factor, that from 8 to 16 gains most, on most programs; fftpde gains at 16 \
                only",
        studies: &["t94-fig5"],
        judge: |results, set| {
            let most = tally(set.programs.iter(), |p| {
                let all = by_factor(results, p)?;
                let steps: Vec<f64> = all.windows(2).map(|w| w[1].max(1) as f64 / w[0].max(1) as f64).collect();
                let numbers = steps.iter().map(|s| format!("{s:.2}")).collect::<Vec<_>>().join(", ");
                Some((steps[..3].iter().all(|s| steps[3] < *s), format!("ratios {numbers}")))
            })
            .most();
            // "At 16 only": the last doubling saves more misses than all before it together.
            let late = tally(set.standing_for(&["fftpde"]), |p| {
                let all = by_factor(results, p)?;
                let saved = |from: usize, to: usize| all[from] as i64 - all[to] as i64;
                let (before, last) = (saved(0, 3), saved(3, 4));
                Some((
                    reached(last > 0 && last > before, last >= 0),
                    format!("{before} misses saved up to 8, {last} from 8 to 16"),
                ))
            });
            if late.is_empty() {
                let why = format!("{} No stand-in for fftpde was run, so that half of the claim is open.", most.why);
                return if most.verdict == Verdict::NotTestable { most } else { Finding { why, ..most } };
            }
            let late = late.all();
            let why = format!("{} At 16 only: {}", most.why, late.why);
            Finding { verdict: worst([most.verdict, late.verdict]), why }
        },
    },
];
