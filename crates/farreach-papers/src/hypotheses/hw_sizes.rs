//! Claims about page sizes, anchors, and mosaics as complete subblocks.

use super::hw_prefetch::finding;
use super::hypothesis::Hypothesis;
use super::judge::{Outcome, reached, tally, untestable};
use crate::number_text::percent;
use crate::results::Results;
use crate::since::reach::{
    CHOSEN, HOLES, IDENTICAL, MAPPINGS, MIX, RIVALS, SHAPES, SUPERPAGES, TPS, WHOLE, best_anchor, first_level, holes,
    kept, mean_distance, with_superpages,
};
use crate::since::{BASE, LEAST_WALKS, Walks, counted, few, share, walks_enough};
use farreach_types::papers::Finding;
use farreach_types::papers::Kind::{Main, Side};

/// Counts of entries that a mosaic and a complete subblock must share: misses, fills, merges, evictions, pages made
/// valid beside the one that missed.
fn of_entries(results: &Results, program: &str, machine: &str) -> Option<[u64; 5]> {
    let tlb = &results.machine(program, machine)?.counts.tlb;
    Some([tlb.misses, tlb.fills, tlb.merges, tlb.evictions, tlb.preloaded])
}

pub(super) const CLAIMS: &[Hypothesis] = &[
    Hypothesis {
        id: "H-HW-39",
        kind: Main,
        claim: "One array for all page sizes with mirrored entries is 10 to 30 % faster than split arrays; tested as \
                misses with superpages, 1536 entries against 1024 for 4 KB and 512 for 2 MB",
        studies: &["since-reach"],
        judge: |results, set| {
            let found = tally(with_superpages(set).iter(), |p| {
                let [mix, split] = SUPERPAGES.map(|m| results.misses(&p.name, m));
                let (mix, split) = (mix?, split?);
                let own = |name| counted(results, &p.name, SUPERPAGES[0], "mix", name);
                let fewer = 100.0 - share(mix, split);
                let outcome = if fewer > 30.0 { Outcome::Stronger } else { reached(fewer >= 10.0, fewer >= 0.0) };
                let outcome = if mix.max(split) < LEAST_WALKS { Outcome::Silent } else { outcome };
                let text = format!(
                    "{mix} misses, split {split}; {} entries joined in {} fills",
                    own("joins")?,
                    own("whole_fills")?
                );
                Some((outcome, text))
            })
            .most();
            let base = tally(few(set), |p| {
                let [mix, split] = MIX.map(|m| results.misses(&p.name, m));
                let (mix, split) = (mix?, split?);
                let outcome = if split < LEAST_WALKS { Outcome::Silent } else { (mix < split).into() };
                Some((outcome, format!("{} of the misses", percent(share(mix, split)))))
            });
            if base.is_empty() {
                return found;
            }
            let why = "A superpage that no other joins takes a way of every set (MIX-2), so that 12 of them fit.";
            Finding { why: format!("{} {why} With pages of 4 KB: {}", found.why, base.said(true)), ..found }
        },
    },
    Hypothesis {
        id: "H-HW-41",
        kind: Main,
        claim: "Pages of every power of two remove 98 % of the references of walks and 97 % of the misses of the first \
                level; tested with its reservation and promotion",
        studies: &["since-reach"],
        judge: |results, set| {
            let found = tally(few(set), |p| {
                let walks = |machine| Walks::of(results, &p.name, machine);
                let first = |machine| first_level(results, &p.name, machine);
                let (first, base, tps, walks) = (first(TPS)?, first(BASE)?, walks(TPS)?, walks(BASE)?);
                let first = 100.0 - share(first, base);
                let made = 100.0 - share(tps.demand, walks.demand);
                let aliases = counted(results, &p.name, TPS, "tps", "alias_references")?;
                let text = format!(
                    "{} of the misses of the first level, {} of the references, {aliases} of those left for aliases; \
                     {} walks for {} pages",
                    percent(first),
                    percent(made),
                    tps.walks,
                    tps.pages
                );
                let outcome = reached(first >= 97.0 && made >= 98.0, first > 0.0 && made > 0.0);
                let enough = walks_enough(results, &p.name, BASE)?;
                Some((if enough { outcome } else { Outcome::Silent }, text))
            })
            .most();
            let why =
                "A page is part of a larger one only when all of that was touched, and walked to, before (TPS-4).";
            Finding { why: format!("{} {why}", found.why), ..found }
        },
    },
    Hypothesis {
        id: "H-HW-42",
        kind: Main,
        claim: "Anchors are best or nearly best in all mappings: at most a tenth more misses than pages, clusters and \
                runs have; tested with the distance that the system chooses every million instructions, beside the \
                best of three that stay",
        studies: &["since-reach"],
        judge: |results, set| {
            let mappings = [0, 1].map(|i| {
                let found = tally(few(set), |p| {
                    let rivals = RIVALS[i].map(|m| Walks::of(results, &p.name, m));
                    let rivals = rivals.into_iter().collect::<Option<Vec<_>>>()?;
                    let (distance, anchors) = best_anchor(results, &p.name, i)?;
                    let best = rivals.iter().map(|w| w.walks).min()?;
                    let chosen = Walks::of(results, &p.name, CHOSEN[i])?;
                    let mean = match mean_distance(results, &p.name, i) {
                        Some(mean) => format!("{mean} pages in the mean"),
                        None => "none, for want of instructions".into(),
                    };
                    let text = format!(
                        "{} misses with the distance chosen ({mean}), {} every {distance} pages, best of others \
                         {best}; references {} of those of pages",
                        chosen.walks,
                        anchors.walks,
                        percent(share(chosen.demand, rivals[0].demand))
                    );
                    let enough = rivals[0].walks >= LEAST_WALKS;
                    let outcome = (10 * chosen.walks <= 11 * best).into();
                    Some((if enough { outcome } else { Outcome::Silent }, text))
                });
                (MAPPINGS[i], found.all())
            });
            let verdict = super::judge::worst([mappings[0].1.verdict, mappings[1].1.verdict]);
            let why = mappings.map(|(name, found)| format!("Memory {name}: {}", found.why)).join(" ");
            Finding { verdict, why }
        },
    },
    Hypothesis {
        id: "H-HW-45",
        kind: Main,
        claim: "Large pages with holes keep most of their gain in fragmented memory: more than half of the misses that \
                superpages remove, with up to 30 % of the frames taken by others, scattered",
        studies: &["since-reach"],
        judge: |results, set| {
            let found = tally(few(set), |p| {
                let [pages, whole] = [BASE, WHOLE].map(|m| results.misses(&p.name, m));
                let (pages, whole) = (pages?, whole?);
                let said = |(taken, machine): (u64, &str)| {
                    let share = kept(results, &p.name, machine)?;
                    let holes = percent(holes(results, &p.name, machine).unwrap_or_default());
                    Some((share, format!("{} with {taken} % taken and {holes} holes", percent(share))))
                };
                let enough = pages.saturating_sub(whole) >= LEAST_WALKS;
                let Some(all) = HOLES.into_iter().skip(1).map(said).collect::<Option<Vec<_>>>() else {
                    let gain = pages > whole;
                    return (!gain).then(|| (Outcome::Silent, "superpages remove no misses".into()));
                };
                let least = all.iter().map(|(share, _)| *share).fold(f64::INFINITY, f64::min);
                let all: Vec<_> = all.into_iter().map(|(_, text)| text).collect();
                let text = format!("{} of {} misses kept off", all.join(", "), pages.saturating_sub(whole));
                let outcome = reached(least > 50.0, least > 0.0);
                Some((if enough { outcome } else { Outcome::Silent }, text))
            });
            let why = "A hole needs an entry of its own, so that the other misses are those of holes.";
            let found = found.all();
            Finding { why: format!("{} {why}", found.why), ..found }
        },
    },
    Hypothesis {
        id: "H-HW-54",
        kind: Side,
        claim: "Mosaic entries of a pages have the misses of complete subblocks of factor a, wherever the pages lie",
        studies: &["since-reach"],
        judge: |results, _| {
            let (mut equal, mut wrong) = (0, Vec::new());
            for pair in IDENTICAL {
                for p in SHAPES {
                    let [mosaic, complete] = pair.map(|m| of_entries(results, p, m));
                    let (Some(mosaic), Some(complete)) = (mosaic, complete) else { continue };
                    if mosaic == complete {
                        equal += 1;
                    } else {
                        wrong.push(format!("{p} with {} ({mosaic:?}, not {complete:?})", pair[0]));
                    }
                }
            }
            match (equal, wrong.is_empty()) {
                (0, true) => untestable("it was not run."),
                (n, true) => finding(
                    Outcome::Yes,
                    format!(
                        "misses, fills, merges, evictions and pages made valid are equal in all {n} pairs of a \
                         configuration and a stream, by 4, 16 and 64 pages"
                    ),
                ),
                _ => finding(Outcome::No, wrong.join(", ")),
            }
        },
    },
];
