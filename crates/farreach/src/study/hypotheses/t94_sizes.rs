//! Claims of T94 about the number of entries, the size of superpages, and the factor.

use super::Hypothesis;
use super::judge::tally;
use crate::study::machines::{PARTIAL, SINGLE, SUPERPAGE, sized};
use crate::study::t94::table9::ENTRIES;

pub(super) const CLAIMS: &[Hypothesis] = &[
    Hypothesis {
        id: "H-T94-13",
        claim: "Misses never grow with the number of entries, and superpages and partial subblocks never miss more often than \
                single pages with as many entries",
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
                Some((wrong.is_empty(), if wrong.is_empty() { "12 counts".into() } else { wrong.join(", ") }))
            })
            .all()
        },
    },
];
