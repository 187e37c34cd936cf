//! The claims of the papers, each with a judge. If a claim fails on a program, the verdict is that it fails, and it
//! names the program. Nothing is tuned to make a claim hold.

mod ds13;
mod hypothesis;
mod judge;
mod ps;
mod rmm15;
mod sv97;
mod t94_designs;
mod t94_os;
mod t94_sizes;

use farreach_types::papers::claim_order;
pub use hypothesis::Hypothesis;

/// All claims, by paper and number. A further one is one entry in its family and needs no other change.
pub static HYPOTHESES: std::sync::LazyLock<Vec<&'static Hypothesis>> = std::sync::LazyLock::new(|| {
    let mut all: Vec<&'static Hypothesis> = FAMILIES.iter().flat_map(|f| f.iter()).collect();
    all.sort_by_key(|h| claim_order(h.id).expect("ids name a paper and end in a number"));
    all
});

const FAMILIES: &[&[Hypothesis]] =
    &[ps::CLAIMS, t94_designs::CLAIMS, t94_os::CLAIMS, t94_sizes::CLAIMS, sv97::CLAIMS, ds13::CLAIMS, rmm15::CLAIMS];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Results, Set};
    use crate::study;
    use farreach_types::papers::Verdict;

    #[test]
    fn every_claim_rests_on_studies_and_has_a_number_of_its_own() {
        let mut ids = std::collections::HashSet::new();
        for h in HYPOTHESES.iter() {
            assert!(ids.insert(h.id), "{} twice", h.id);
            assert!(!h.studies.is_empty() && h.studies.iter().all(|s| study(s).is_some()), "{}: {:?}", h.id, h.studies);
        }
    }

    #[test]
    fn nothing_is_claimed_without_results() {
        for h in HYPOTHESES.iter() {
            let finding = (h.judge)(&Results::default(), &Set::default());
            assert_eq!(finding.verdict, Verdict::NotTestable, "{}: {}", h.id, finding.why);
        }
    }
}
