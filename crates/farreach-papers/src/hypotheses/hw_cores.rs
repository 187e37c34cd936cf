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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Answer, Measured, Request, Results, Set};
    use crate::since::cores::{ALONE, PRIVATE, SHARED};
    use farreach_machine::{Lab, MachineSpec, Options};
    use farreach_types::papers::Verdict;

    /// All programs with these walks of first levels alone, of private second levels, and of a shared one.
    fn verdict(walks: [u64; 3]) -> Verdict {
        let mut lab = Lab::new(vec![MachineSpec::parse(SHARED, 0).unwrap()], Options::default()).unwrap();
        let result = lab.result("", None);
        let mut results = Results::default();
        for program in PROGRAMS {
            for (name, misses) in [ALONE, PRIVATE, SHARED].into_iter().zip(walks) {
                let mut machine = result.machines[0].clone();
                machine.counts.tlb.misses = misses;
                let measured = Measured { workload: result.workload.clone(), machine };
                results.insert(Request::machine(program, name), Answer::Machine(Box::new(measured)));
            }
        }
        (CLAIMS[0].judge)(&results, &Set::default()).verdict
    }

    #[test]
    fn h_hw_29_can_hold_and_fail() {
        assert_eq!(verdict([10_000, 6_000, 3_000]), Verdict::Holds, "70 % removed, 30 points more");
        assert_eq!(verdict([10_000, 4_000, 3_000]), Verdict::NotShown, "10 points more are less than claimed");
        assert_eq!(verdict([10_000, 9_990, 9_900]), Verdict::NotShown, "1 % removed is less than claimed");
        assert_eq!(verdict([10_000, 4_000, 5_000]), Verdict::Fails, "private ones remove more");
        assert_eq!(verdict([10_000, 9_000, 11_000]), Verdict::Fails, "a shared one adds misses");
        assert_eq!(verdict([10_000, 9_000, 100]), Verdict::Holds, "99 % removed is stronger, the other half holds");
        assert_eq!(verdict([900, 800, 100]), Verdict::NotShown, "too few misses");
    }
}
