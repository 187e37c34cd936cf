//! The contract of a claim.

use crate::results::{Results, Set};
use farreach_types::papers::{Finding, Judged, Kind};

/// A claim of a paper.
pub struct Hypothesis {
    /// `H-T94-3`.
    pub id: &'static str,
    /// Whether the paper argues it or remarks it.
    pub kind: Kind,
    /// The claim, in our words.
    pub claim: &'static str,
    /// The studies it rests on; it is shown with the first.
    pub studies: &'static [&'static str],
    /// Judges it by the results.
    pub judge: fn(&Results, &Set) -> Finding,
}

impl Hypothesis {
    /// The claim with its verdict.
    pub fn judged(&self, results: &Results, set: &Set) -> Judged {
        let Finding { verdict, why } = (self.judge)(results, set);
        Judged {
            id: self.id.into(),
            kind: self.kind,
            claim: self.claim.into(),
            verdict,
            why,
            studies: self.studies.iter().map(|&s| s.into()).collect(),
        }
    }
}
