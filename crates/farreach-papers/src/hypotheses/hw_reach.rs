//! Claims about entries that map more than a page, and about skewed sets.

use super::hypothesis::Hypothesis;
use super::judge::{Outcome, Tally, reached, tally, worst};
use crate::number_text::percent;
use crate::results::{Results, Set};
use crate::since::reach::{COALESCED, COLT_ALL, FLEX, MOSAIC, PAGES, SEVERAL, SKEWED, first_level, with_superpages};
use crate::since::{BASE_EAGER, LEAST_WALKS, few, share};
use farreach_types::papers::Kind::{Main, Side};
use farreach_types::papers::{Finding, Verdict};

/// Walks of a machine in percent of those of pages alone: at least so much removed.
fn removes(results: &Results, set: &Set, machine: &str, pages: &str, least: f64) -> Tally {
    tally(few(set), |p| {
        let removed = 100.0 - results.percent(&p.name, machine, pages)?;
        let enough = results.misses(&p.name, pages)? >= LEAST_WALKS;
        let outcome = reached(removed >= least, removed >= 0.0);
        Some((if enough { outcome } else { Outcome::Silent }, format!("{} removed", percent(removed))))
    })
}

pub(super) const CLAIMS: &[Hypothesis] = &[
    Hypothesis {
        id: "H-HW-35",
        kind: Main,
        claim: "Mosaic entries miss 6 to 81 % less often at equal hardware; tested with four pages an entry, 1024 \
                entries. That memory can be filled to 98 % without a conflict needs its allocator",
        studies: &["since-reach"],
        judge: |results, set| {
            let found = tally(few(set), |p| {
                let all = [1, 2, 3].map(|i| results.percent(&p.name, MOSAIC[i], MOSAIC[0]));
                let [four, sixteen, sixty] = all.map(|left| left.map(|left| 100.0 - left));
                let (four, sixteen, sixty) = (four?, sixteen?, sixty?);
                let text = format!(
                    "{} fewer with 4 pages, {} with 16, {} with 64",
                    percent(four),
                    percent(sixteen),
                    percent(sixty)
                );
                let outcome = if four > 81.0 { Outcome::Stronger } else { reached(four >= 6.0, four >= 0.0) };
                Some((outcome, text))
            })
            .most();
            let verdict = worst([found.verdict, Verdict::NotTestable]);
            Finding { verdict, why: format!("the allocator of mosaic pages is not built. Misses: {}", found.why) }
        },
    },
    Hypothesis {
        id: "H-HW-37",
        kind: Side,
        claim: "CoLT-SA removes 40 % of the misses, CoLT-FA and CoLT-All 55 %, with memory from a buddy allocator",
        studies: &["since-reach"],
        judge: |results, set| {
            let sa = removes(results, set, COALESCED[0], PAGES, 40.0).most();
            let fa = removes(results, set, COALESCED[1], PAGES, 55.0).most();
            let both = removes(results, set, COLT_ALL[1], BASE_EAGER, 55.0).most();
            let verdict = worst([sa.verdict, fa.verdict, both.verdict]);
            Finding { verdict, why: format!("SA: {} FA: {} All: {}", sa.why, fa.why, both.why) }
        },
    },
    Hypothesis {
        id: "H-HW-38",
        kind: Side,
        claim: "A clustered TLB removes 46 % of the misses of the second level",
        studies: &["since-reach"],
        judge: |results, set| removes(results, set, COALESCED[2], PAGES, 46.0).most(),
    },
    Hypothesis {
        id: "H-HW-40",
        kind: Main,
        claim: "A skewed TLB of 8 ways nearly has the hit ratio of full associativity, and can hold several page \
                sizes: at most a tenth more misses, with pages of 4 KB, and with those of 2 MB beside them",
        studies: &["since-reach"],
        judge: |results, set| {
            let found = tally(few(set), |p| {
                let skewed = results.percent(&p.name, SKEWED[0], SKEWED[2])?;
                let sets = results.percent(&p.name, SKEWED[1], SKEWED[2])?;
                let text = format!("{} of the misses, in sets {}", percent(skewed), percent(sets));
                Some((skewed <= 110.0, text))
            })
            .all();
            let sizes = tally(with_superpages(set).iter(), |p| {
                let [skewed, full] = SEVERAL.map(|m| results.misses(&p.name, m));
                let (skewed, full) = (skewed?, full?);
                let enough = skewed.max(full) >= LEAST_WALKS;
                let outcome = if enough { (10 * skewed <= 11 * full).into() } else { Outcome::Silent };
                Some((outcome, format!("{skewed} misses, fully associative {full}")))
            })
            .all();
            let verdict = worst([found.verdict, sizes.verdict]);
            let half = "An address has half of the ways for each size (SKW-1), so that superpages alone have 512 \
                        entries of 1024.";
            Finding { verdict, why: format!("One size: {} Two sizes: {} {half}", found.why, sizes.why) }
        },
    },
    Hypothesis {
        id: "H-HW-44",
        kind: Main,
        claim: "FlexPointer removes 70 to 99 % of the misses of the first level and of the walks; tested with ranges \
                of 32 KB and more that are looked up first",
        studies: &["since-reach"],
        judge: |results, set| {
            tally(few(set), |p| {
                let of = |machine| Some((first_level(results, &p.name, machine)?, results.misses(&p.name, machine)?));
                let ((first, walks), (base, base_walks)) = (of(FLEX)?, of(PAGES)?);
                let (first, walks) = (100.0 - share(first, base), 100.0 - share(walks, base_walks));
                let least = first.min(walks);
                let outcome = if least > 99.0 { Outcome::Stronger } else { reached(least >= 70.0, least > 0.0) };
                let enough = base_walks >= LEAST_WALKS;
                let text = format!("{} of the first level, {} of the walks", percent(first), percent(walks));
                Some((if enough { outcome } else { Outcome::Silent }, text))
            })
            .most()
        },
    },
];
