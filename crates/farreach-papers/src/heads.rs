//! The head of a report: of each paper what it claims, what of it holds here, and what does not and why.

use crate::number_text::list;
use farreach_types::papers::{Head, Judged, Kind, Verdict, claim_order, counts};

/// Papers in the order of [`claim_order`]: name, subject, and what the abstract claims.
const PAPERS: [(&str, &str, &str); 7] = [
    (
        "T94",
        "subblock TLBs and superpages",
        "superpages cut TLB misses only with much support by the operating system. Partial subblocks, with page \
         reservation alone, do better; without any support complete subblocks do best.",
    ),
    (
        "PS",
        "the page-size study",
        "base pages of 16 KB spare most instruction TLB misses for little memory; with pages of 256 KB for large data \
         objects beside them data TLB misses go too.",
    ),
    (
        "SV97",
        "translation in software",
        "translation in software is as efficient as a TLB: 0.05 cycles per instruction, where OSF/1 and Mach with a \
         TLB take 0.10 to 0.28.",
    ),
    (
        "DS13",
        "direct segments",
        "a direct segment removes almost all TLB misses of big-memory programs, and leaves less than 0.5 % of their \
         time for them.",
    ),
    (
        "RMM15",
        "redundant memory mappings",
        "with a TLB of ranges beside that of pages, translation costs less than 1 % on average: far less than with \
         pages of 4 KB or huge pages, and on more programs than with one direct segment.",
    ),
    (
        "HW",
        "translation hardware since 2000",
        "misses can be foreseen, walks hidden or shortened to one reference, tables hashed or flattened, and TLBs held \
         in memory or caches: each of some forty papers is faster than the machine without it, most by 1 to 30 %.",
    ),
    (
        "OS",
        "page policies since 2002",
        "reservations that are broken up and promoted by size, huge pages by use, sizes between 4 KB and 2 MB, \
         contiguous memory, tables on every node: misses, faults, memory and waiting are each cut by some policy.",
    ),
];

/// With more main claims than this they are named only.
const MANY: usize = 6;

/// The most side remarks that do not hold and are shown with their numbers.
const FEW: usize = 2;

/// A head for each paper with a claim among these.
pub(crate) fn of(verdicts: &[&Judged]) -> Vec<Head> {
    let paper = |v: &Judged| claim_order(&v.id).map(|(paper, _)| paper);
    PAPERS.iter().enumerate().filter_map(|(i, about)| head(*about, verdicts, |v| paper(v) == Some(i))).collect()
}

fn head(
    (paper, title, claimed): (&str, &str, &str),
    verdicts: &[&Judged],
    own: impl Fn(&Judged) -> bool,
) -> Option<Head> {
    let own: Vec<&Judged> = verdicts.iter().copied().filter(|v| own(v)).collect();
    let right = |v: &Judged| matches!(v.verdict, Verdict::Holds | Verdict::Stronger);
    // What does not hold needs the numbers of the second part too, which say where.
    let line = |wanted: &[Verdict], holds: bool| {
        let main = own.iter().filter(|v| v.kind == Kind::Main && right(v) == holds);
        let clauses = if holds { 1 } else { 2 };
        let of_kind = |kind, verdict| own.iter().filter(move |v| v.kind == kind && v.verdict == verdict);
        let mut parts: Vec<String> = match own.iter().filter(|v| v.kind == Kind::Main).count() > MANY {
            true => wanted
                .iter()
                .filter(|&&verdict| of_kind(Kind::Main, verdict).next().is_some())
                .map(|&verdict| {
                    let all = ids(of_kind(Kind::Main, verdict).map(|v| v.id.as_str()));
                    format!("main claims {}: {all}", said(verdict))
                })
                .collect(),
            false => {
                main.map(|v| format!("{}: {} ({}: {})", v.id, v.claim, v.verdict, brief(&v.why, clauses))).collect()
            }
        };
        let side = |verdict| of_kind(Kind::Side, verdict);
        let few = wanted.iter().flat_map(|&verdict| side(verdict)).count() <= FEW && !holds;
        for &verdict in wanted {
            let ids = match few {
                true => list(&side(verdict).map(|v| format!("{} ({})", v.id, brief(&v.why, 3))).collect::<Vec<_>>()),
                false => ids(side(verdict).map(|v| v.id.as_str())),
            };
            if side(verdict).next().is_some() {
                parts.push(format!("side remarks {}: {ids}", said(verdict)));
            }
        }
        if parts.is_empty() { "nothing.".into() } else { parts.join("; ") + "." }
    };
    (!own.is_empty()).then(|| Head {
        paper: paper.into(),
        title: title.into(),
        counts: counts(own.iter().copied()),
        claimed: claimed.into(),
        holds: line(&[Verdict::Holds, Verdict::Stronger], true),
        not: line(&[Verdict::Fails, Verdict::NotShown, Verdict::NotTestable], false),
    })
}

/// Behind "side remarks".
fn said(verdict: Verdict) -> String {
    match verdict {
        Verdict::Holds => "that hold".into(),
        Verdict::Fails => "that fail".into(),
        other => other.to_string(),
    }
}

/// `H-RM-3, -4 and -7`.
fn ids<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let short = |(i, id): (usize, &str)| match id.rsplit_once('-') {
        Some((_, number)) if i > 0 => format!("-{number}"),
        _ => id.to_owned(),
    };
    list(&all.enumerate().map(short).collect::<Vec<_>>())
}

/// The first words of a reason: the first `parts` of those that `; ` divides, no more than its first sentence, without
/// the programs on which a claim holds.
fn brief(why: &str, parts: usize) -> String {
    let mut text = why.split_once(". ").map_or(why, |(first, _)| first);
    for stop in [" program: ", " programs: "] {
        if let Some(at) = text.find(stop) {
            text = &text[..at + stop.len() - 2];
        }
    }
    text.split("; ").take(parts).collect::<Vec<_>>().join("; ").trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(id: &str, kind: Kind, verdict: Verdict, why: &str) -> Judged {
        Judged { id: id.into(), kind, claim: "Walks are few".into(), verdict, why: why.into(), studies: Vec::new() }
    }

    #[test]
    fn a_head_says_what_was_claimed_what_holds_and_what_does_not() {
        let all = [
            judged("H-RM-12", Kind::Main, Verdict::Stronger, "mean 0.12 %. More than 2 % on none."),
            judged("H-RM-11", Kind::Main, Verdict::Fails, "on 1 of 2 programs; not on gups (9 %)."),
            judged("H-RM-13", Kind::Side, Verdict::NotShown, "not counted: bfs (2 %)."),
            judged("H-RM-14", Kind::Side, Verdict::Holds, ""),
            judged("H-RM-15", Kind::Side, Verdict::Holds, ""),
            judged("H-DS-4", Kind::Side, Verdict::Holds, ""),
        ];
        let heads = of(&all.iter().collect::<Vec<_>>());
        let [ds13, rmm15] = &heads[..] else { panic!("{heads:?}") };
        assert_eq!((ds13.paper.as_str(), ds13.counts.as_str()), ("DS13", "side remark: holds"));
        assert_eq!((ds13.holds.as_str(), ds13.not.as_str()), ("side remarks that hold: H-DS-4.", "nothing."));
        assert_eq!(rmm15.counts, "main claims: 1 stronger, 1 fails; side remarks: 2 hold, 1 not shown");
        assert_eq!(
            rmm15.holds,
            "H-RM-12: Walks are few (stronger than claimed: mean 0.12 %); side remarks that hold: H-RM-14 and -15."
        );
        assert_eq!(
            rmm15.not,
            "H-RM-11: Walks are few (fails: on 1 of 2 programs; not on gups (9 %)); side remarks not shown on these \
             programs: H-RM-13 (not counted: bfs (2 %))."
        );
        assert!(of(&[]).is_empty());
    }

    #[test]
    fn many_side_remarks_are_named_only() {
        let all = [3, 4, 9].map(|n| judged(&format!("H-RM-{n}"), Kind::Side, Verdict::Fails, "on 0 of 1 program."));
        assert_eq!(of(&all.iter().collect::<Vec<_>>())[0].not, "side remarks that fail: H-RM-3, -4 and -9.");
        assert_eq!(brief("on 2 of 2 programs: a (1; 2) and b. More.", 1), "on 2 of 2 programs");
        assert_eq!(brief("means: 4 KB 1.5 %; THP 2 %; x.", 2), "means: 4 KB 1.5 %; THP 2 %");
    }

    #[test]
    fn names_of_papers_are_in_the_order_of_their_claims() {
        for (i, id) in ["H-T94-1", "H-PS-1", "H-SV-1", "H-DS-1", "H-RM-1", "H-HW-1"].iter().enumerate() {
            assert_eq!(claim_order(id), Some((i, 1)));
            assert!(PAPERS[i].0.starts_with(&id[2..4]), "{id}");
        }
    }
}
