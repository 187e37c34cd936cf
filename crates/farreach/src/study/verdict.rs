//! What is said of a claim.

use serde::Serialize;

/// What was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Verdict {
    /// The claim is true of what was measured.
    #[serde(rename = "holds")]
    Holds,
    /// It is not.
    #[serde(rename = "fails")]
    Fails,
    /// The programs or the machines it speaks of are not there.
    #[serde(rename = "not testable here")]
    NotTestable,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Verdict::Holds => "holds",
            Verdict::Fails => "fails",
            Verdict::NotTestable => "not testable here",
        })
    }
}

/// A verdict and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What was found.
    pub verdict: Verdict,
    /// Why, with the numbers.
    pub why: String,
}
