//! The claims of the papers, each with a judge. A main claim is one that the abstract states, or the conclusions of a
//! paper whose abstract has no result; all others are side remarks. A verdict is by the definitions of
//! [`Verdict`](farreach_types::papers::Verdict) and names the programs; nothing is tuned to make a claim hold.

mod ds13;
mod hw_caches;
mod hw_cores;
mod hw_guests;
mod hw_nested;
mod hw_open;
mod hw_prefetch;
mod hw_reach;
mod hw_sizes;
mod hw_tables;
mod hw_walks;
mod hypothesis;
mod judge;
mod os_cores;
mod os_files;
mod os_memory;
mod os_places;
mod os_policies;
mod ps;
mod rmm15;
mod rmm15_walks;
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

const FAMILIES: &[&[Hypothesis]] = &[
    ps::CLAIMS,
    t94_designs::CLAIMS,
    t94_os::CLAIMS,
    t94_sizes::CLAIMS,
    sv97::CLAIMS,
    ds13::CLAIMS,
    rmm15::CLAIMS,
    rmm15_walks::CLAIMS,
    hw_prefetch::CLAIMS,
    hw_tables::CLAIMS,
    hw_walks::CLAIMS,
    hw_reach::CLAIMS,
    hw_sizes::CLAIMS,
    hw_guests::CLAIMS,
    hw_cores::CLAIMS,
    hw_nested::CLAIMS,
    hw_caches::CLAIMS,
    hw_open::CLAIMS,
    os_cores::CLAIMS,
    os_files::CLAIMS,
    os_memory::CLAIMS,
    os_places::CLAIMS,
    os_policies::CLAIMS,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Results, Set};
    use crate::study;
    use farreach_types::papers::{Kind, Verdict};

    #[test]
    fn every_claim_rests_on_studies_and_has_a_number_of_its_own() {
        let mut ids = std::collections::HashSet::new();
        for h in HYPOTHESES.iter() {
            assert!(ids.insert(h.id), "{} twice", h.id);
            assert!(!h.studies.is_empty() && h.studies.iter().all(|s| study(s).is_some()), "{}: {:?}", h.id, h.studies);
        }
    }

    /// The abstract, or the conclusions, name few results; the rest of a paper prints many more.
    #[test]
    fn each_paper_has_a_few_main_claims() {
        let number =
            |start: &str, kind| HYPOTHESES.iter().filter(|h| h.id.starts_with(start) && h.kind == kind).count();
        for paper in ["H-T94-", "H-PS-", "H-SV-", "H-DS-", "H-RM-"] {
            let (main, side) = (number(paper, Kind::Main), number(paper, Kind::Side));
            assert!((1..=3).contains(&main) && side > main, "{paper}: {main} and {side}");
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
