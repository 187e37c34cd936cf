//! Claims of the papers and what was found about them.

use serde::Serialize;

/// What a claim is to its paper.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub enum Kind {
    /// A result that the abstract states, or the conclusions of a paper whose abstract has none: what the paper argues.
    #[serde(rename = "main claim")]
    Main,
    /// Anything else that the paper prints or that follows from its design.
    #[serde(rename = "side remark")]
    Side,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Main => "main claim",
            Kind::Side => "side remark",
        })
    }
}

/// What was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Verdict {
    /// What the claim says was measured.
    #[serde(rename = "holds")]
    Holds,
    /// What the claim argues for was measured, and more of it than the claim says.
    #[serde(rename = "stronger than claimed")]
    Stronger,
    /// The programs run show neither the effect nor its opposite: they do not do what it acts on, no difference was
    /// measured, or one in the claimed direction that is smaller than claimed.
    #[serde(rename = "not shown on these programs")]
    NotShown,
    /// The opposite was measured: another order, another direction, or a limit of the claim is broken.
    #[serde(rename = "fails")]
    Fails,
    /// The programs or the machines that the claim speaks of are not there.
    #[serde(rename = "not testable here")]
    NotTestable,
}

impl Verdict {
    /// All, in the order of reports.
    pub const ALL: [Verdict; 5] =
        [Verdict::Holds, Verdict::Stronger, Verdict::NotShown, Verdict::Fails, Verdict::NotTestable];

    /// What it means, in a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Verdict::Holds => "what the claim says was measured",
            Verdict::Stronger => "what the claim argues for was measured, and more of it than the claim says",
            Verdict::NotShown => {
                "the programs run show neither the effect nor its opposite: they do not do what it acts on, no \
                 difference was measured, or one in the claimed direction that is smaller than claimed"
            }
            Verdict::Fails => {
                "the opposite was measured: another order, another direction, or a limit of the claim is broken"
            }
            Verdict::NotTestable => "the programs or the machines that the claim speaks of are not there",
        }
    }

    /// Behind a number of claims: `3 hold`.
    pub fn of(self, n: usize) -> &'static str {
        match (self, n) {
            (Verdict::Holds, 1) => "holds",
            (Verdict::Holds, _) => "hold",
            (Verdict::Stronger, _) => "stronger",
            (Verdict::NotShown, _) => "not shown",
            (Verdict::Fails, 1) => "fails",
            (Verdict::Fails, _) => "fail",
            (Verdict::NotTestable, _) => "not testable",
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Verdict::Holds => "holds",
            Verdict::Stronger => "stronger than claimed",
            Verdict::NotShown => "not shown on these programs",
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

/// A verdict with its claim.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Judged {
    /// `H-T94-3`.
    pub id: String,
    /// What it is to its paper.
    pub kind: Kind,
    /// The claim, in our words.
    pub claim: String,
    /// What was found.
    pub verdict: Verdict,
    /// Why, with the numbers.
    pub why: String,
    /// The studies it rests on.
    pub studies: Vec<String>,
}

/// A paper at the head of a report: what it claims and what became of that.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Head {
    /// `RMM15`.
    pub paper: String,
    /// What it is about.
    pub title: String,
    /// Verdicts in numbers, main claims first.
    pub counts: String,
    /// What was claimed.
    pub claimed: String,
    /// What holds here.
    pub holds: String,
    /// What does not, and why.
    pub not: String,
}

/// Verdicts in numbers, main claims first: `main claim: holds; side remarks: 2 hold, 1 not shown`.
pub fn counts<'a>(verdicts: impl Iterator<Item = &'a Judged> + Clone) -> String {
    let of_kind = |kind: Kind| {
        let all: Vec<Verdict> = verdicts.clone().filter(|v| v.kind == kind).map(|v| v.verdict).collect();
        match all[..] {
            [] => None,
            [one] => Some(format!("{kind}: {one}")),
            _ => {
                let number = |v: Verdict| (v, all.iter().filter(|w| **w == v).count());
                let words = Verdict::ALL.into_iter().map(number).filter(|(_, n)| *n > 0);
                let words: Vec<String> = words.map(|(v, n)| format!("{n} {}", v.of(n))).collect();
                Some(format!("{kind}s: {}", words.join(", ")))
            }
        }
    };
    [Kind::Main, Kind::Side].into_iter().filter_map(of_kind).collect::<Vec<_>>().join("; ")
}

/// Names of the papers in the ids of claims, in the order of the reports.
const PAPERS: [&str; 7] = ["-T94", "-PS", "-SV", "-DS", "-RM", "-HW", "-OS"];

/// Where a claim stands among all: by paper, then by number. `None` if the id is not of the form `H-T94-3` with a paper
/// known here.
pub fn claim_order(id: &str) -> Option<(usize, u32)> {
    let (paper, number) = id.rsplit_once('-')?;
    Some((PAPERS.iter().position(|p| paper.ends_with(p))?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(kind: Kind, verdict: Verdict) -> Judged {
        let empty = String::new;
        Judged { id: empty(), kind, claim: empty(), verdict, why: empty(), studies: Vec::new() }
    }

    #[test]
    fn main_claims_are_counted_first() {
        let all = [
            judged(Kind::Side, Verdict::NotShown),
            judged(Kind::Side, Verdict::Holds),
            judged(Kind::Main, Verdict::Holds),
            judged(Kind::Side, Verdict::Stronger),
            judged(Kind::Side, Verdict::Holds),
        ];
        assert_eq!(counts(all.iter()), "main claim: holds; side remarks: 2 hold, 1 stronger, 1 not shown");
        assert_eq!(counts(all[..1].iter()), "side remark: not shown on these programs");
        assert_eq!(counts([].iter()), "");
        let main = [Verdict::Fails, Verdict::NotTestable, Verdict::Fails].map(|v| judged(Kind::Main, v));
        assert_eq!(counts(main.iter()), "main claims: 2 fail, 1 not testable");
    }
}
