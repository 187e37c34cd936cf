//! Claims about several cores.

use super::hw_prefetch::finding;
use super::hypothesis::Hypothesis;
use super::judge::{Outcome, reached, tally, worst};
use crate::number_text::percent;
use crate::since::LEAST_WALKS;
use crate::since::cores::{PROGRAMS, Removed};
use farreach_types::papers::Kind::Main;
use farreach_types::papers::{Finding, Program};

/// Of the misses of first levels, in percent, that the paper's programs lost.
const LEAST: f64 = 7.0;
const MOST: f64 = 79.0;
/// What the shared level removes beyond private ones, on average. Taken as points of the same misses: the abstract does
/// not say of what it is a share.
const BETTER: f64 = 27.0;

pub(super) const CLAIMS: &[Hypothesis] = &[Hypothesis {
    id: "H-HW-29",
    kind: Main,
    claim: "A second level shared by cores removes 7 to 79 % of the misses of a parallel program, 27 points more than \
            private ones of as many entries on average; tested on loops dealt out to four threads",
    studies: &["since-cores"],
    judge: |results, _| {
        let programs = PROGRAMS.map(|name| Program { name: name.into(), ..Program::default() });
        // Without a second level each core misses again and again, or the program shows nothing.
        let of = |p: &Program| Removed::of(results, &p.name);
        let is_busy = |r: &Removed| r.alone.saturating_sub(4 * r.pages) >= LEAST_WALKS;
        let range = tally(programs.iter(), |p| {
            let r = of(p)?;
            let removed = r.by_shared();
            let outcome = match () {
                () if !is_busy(&r) => Outcome::Silent,
                () if removed > MOST => Outcome::Stronger,
                () => reached(removed >= LEAST, removed > 0.0),
            };
            Some((outcome, format!("{}, private {}", percent(removed), percent(r.by_private()))))
        })
        .all();
        let more: Vec<f64> = programs.iter().filter_map(of).filter(is_busy).map(Removed::more).collect();
        if more.is_empty() {
            return range;
        }
        let mean = more.iter().sum::<f64>() / more.len() as f64;
        let better = finding(reached(mean >= BETTER, mean > 0.0), format!("{mean:.1} points on average"));
        let verdict = worst([range.verdict, better.verdict]);
        Finding { verdict, why: format!("Removed: {} Beyond private ones: {}", range.why, better.why) }
    },
}];
