//! Claims about large TLBs, hidden walks and replacement, and about what additions must leave alone.

use super::hw_nested::{pom, together};
use super::hw_prefetch::finding;
use super::hypothesis::Hypothesis;
use super::judge::{Outcome, Tally, reached, tally, untestable, worst};
use crate::number_text::percent;
use crate::results::{Results, Set};
use crate::since::guests::SPOT;
use crate::since::identities::{OFF, is_off};
use crate::since::prefetch::{SERVER, coverage};
use crate::since::replacement::{ITP_CACHES, OPT, PRINTED, bypassed, of_possible, unused};
use crate::since::tables::walk_cycles;
use crate::since::walks::{ASAP_CACHES, full_sets, l2_misses, predicted, warm};
use crate::since::{
    BASE, BASE_CACHES, BASE_EAGER, BASE_RESERVED, BASE_RESTRICTED, BASE_VICTIMA, DESIGNS, Kind, LEAST_WALKS, Walks,
    counted, few, geomean, programs, share, walks_enough,
};
use farreach_types::papers::Kind::{Main, Side};
use farreach_types::papers::{Finding, Program};

/// Programs that walk often enough on this machine.
fn walked<'a>(results: &'a Results, set: &'a Set, base: &'static str) -> impl Iterator<Item = &'a Program> + Clone {
    programs(set).filter(move |p| walks_enough(results, &p.name, base) == Some(true))
}

/// Misses against LRU by geometric mean, in percent, with 1024 entries.
fn against_lru(results: &Results, set: &Set, machine: &str) -> Option<f64> {
    let all = walked(results, set, PRINTED[0])
        .map(|p| Some((results.misses(&p.name, machine)?, results.misses(&p.name, PRINTED[0])?)));
    geomean(all.collect::<Option<Vec<_>>>()?.into_iter())
}

pub(super) const CLAIMS: &[Hypothesis] = &[
    Hypothesis {
        id: "H-HW-26",
        kind: Side,
        claim: "A TLB of 16 MB in memory leaves less than 5 % of the walks once it is warm, and makes programs 10 % \
                faster in virtual machines; tested as time by the model",
        studies: &["since-walks", "since-guests"],
        judge: |results, set| {
            let left = tally(walked(results, set, BASE), |p| {
                let left = warm(results, &p.name, "since/pom", BASE)?;
                Some((reached(left < 5.0, left < 100.0), format!("{} of the walks after first touches", percent(left))))
            });
            together(&[left.all(), pom(results, set)])
        },
    },
    Hypothesis {
        id: "H-HW-28",
        kind: Main,
        claim: "Translations in the L2 cache make programs 7.4 % faster natively; tested as fewer walks and cycles, \
                with hardly more misses of the program in that cache (at most 1 %)",
        studies: &["since-walks"],
        judge: |results, set| {
            tally(walked(results, set, BASE_VICTIMA), |p| {
                let of = |machine| Walks::of(results, &p.name, machine);
                let (with, without) = (of("since/victima")?, of(BASE_VICTIMA)?);
                let [own, base] = ["since/victima", BASE_VICTIMA].map(|m| l2_misses(results, &p.name, m));
                let more = share(own?, base?);
                let text = format!(
                    "walks {}, cycles {}, misses of the program {}",
                    percent(share(with.walks, without.walks)),
                    percent(share(with.cycles, without.cycles)),
                    percent(more)
                );
                let fewer = with.walks < without.walks && with.cycles < without.cycles;
                Some((reached(fewer && more <= 101.0, with.walks < without.walks), text))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-HW-31",
        kind: Main,
        claim: "SpecTLB predicts the frame of 57 % of the walks on average, less than 1 % wrongly, and more than \
                prefetching by distances covers on nearly all programs",
        studies: &["since-walks"],
        judge: |results, set| {
            let all: Vec<(&Program, (f64, f64))> = walked(results, set, BASE_RESERVED)
                .filter_map(|p| Some((p, predicted(results, &p.name, "since/spectlb", "spectlb")?)))
                .collect();
            if all.is_empty() {
                return untestable("no program it speaks of was run.");
            }
            let n = all.len() as f64;
            let correct = all.iter().map(|(_, (c, _))| c).sum::<f64>() / n;
            let wrong = all.iter().map(|(_, (_, w))| *w).fold(0.0, f64::max);
            let size = finding(
                reached(correct >= 57.0 && wrong < 1.0, correct > 0.0 && wrong < 1.0),
                format!("on average {} correct, at most {} wrong", percent(correct), percent(wrong)),
            );
            let beats = tally(all.iter().map(|(p, _)| *p), |p| {
                let c = predicted(results, &p.name, "since/spectlb", "spectlb")?.0;
                let dp = coverage(results, &p.name, "since/dp")?;
                Some((c > dp, format!("{} against {}", percent(c), percent(dp))))
            })
            .most();
            let verdict = worst([size.verdict, beats.verdict]);
            Finding { verdict, why: format!("{} Against distances: {}", size.why, beats.why) }
        },
    },
    Hypothesis {
        id: "H-HW-32",
        kind: Main,
        claim: "SpOT cuts the overhead of walks from 16.5 to 0.9 % in virtual machines; tested as what it hides: at \
                least 94.5 % of the references of walks in both dimensions",
        studies: &["since-walks", "since-guests"],
        judge: |results, set| {
            tally(walked(results, set, BASE_EAGER), |p| {
                let (correct, wrong) = predicted(results, &p.name, "since/spot", "spot")?;
                let tlb = &results.machine(&p.name, SPOT)?.counts.tlb;
                let hidden = share(tlb.parts.get("spot")?.memory.hidden_references, tlb.table_references());
                let text = format!(
                    "{} hidden; natively {} correct, {} wrong",
                    percent(hidden),
                    percent(correct),
                    percent(wrong)
                );
                Some((reached(hidden >= 94.5, hidden > 0.0), text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-HW-33",
        kind: Main,
        claim: "ASAP shortens walks by 25 % on average, 42 % at most; tested as cycles of walks through caches, one \
                thread",
        studies: &["since-walks"],
        judge: |results, set| {
            let each = tally(few(set), |p| {
                let of = |machine| walk_cycles(results, &p.name, machine);
                let saved = 100.0 - share(of(ASAP_CACHES)?, of(BASE_CACHES)?);
                let enough = walks_enough(results, &p.name, BASE_CACHES)?;
                let outcome = if saved > 42.0 { Outcome::Stronger } else { reached(saved >= 25.0, saved > 0.0) };
                Some((if enough { outcome } else { Outcome::Silent }, format!("{} saved", percent(saved))))
            });
            let all = few(set).filter(|p| walks_enough(results, &p.name, BASE_CACHES) == Some(true)).map(|p| {
                let of = |machine| walk_cycles(results, &p.name, machine);
                Some((of(ASAP_CACHES)?, of(BASE_CACHES)?))
            });
            let Some(left) = all.collect::<Option<Vec<_>>>().and_then(|all| geomean(all.into_iter())) else {
                return untestable("no program it speaks of was run.");
            };
            let saved = 100.0 - left;
            let outcome = if saved > 42.0 { Outcome::Stronger } else { reached(saved >= 25.0, saved > 0.0) };
            let said = each.said(true);
            finding(
                outcome,
                format!("{} saved by geometric mean; 25 % or more {}", percent(saved), said.trim_end_matches('.')),
            )
        },
    },
    Hypothesis {
        id: "H-HW-34",
        kind: Main,
        claim: "Restricting where most pages may lie makes programs 24 % faster than a radix tree; tested as less than \
                one reference a miss, and fewer cycles",
        studies: &["since-walks"],
        judge: |results, set| {
            tally(walked(results, set, BASE_RESTRICTED), |p| {
                let of = |machine| Walks::of(results, &p.name, machine);
                let (with, without) = (of("since/utopia")?, of(BASE_RESTRICTED)?);
                let (each, before) = (with.each_miss()?, without.each_miss()?);
                let text = format!(
                    "{} of the misses answered, {each:.2} references a miss, not {before:.2}, cycles {}, {} pages \
                     whose set was full",
                    percent(with.coverage()),
                    percent(share(with.cycles, without.cycles)),
                    full_sets(results, &p.name)?
                );
                let faster = with.cycles < without.cycles;
                Some((reached(faster && each < 1.0, faster || each < before), text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-HW-46",
        kind: Main,
        claim: "CHiRP misses 28.2 % less often than LRU with 1024 entries of 8 ways, SRRIP 10.4 %",
        studies: &["since-replacement"],
        judge: |results, set| {
            let of = |i: usize| against_lru(results, set, PRINTED[i]);
            let (Some(srrip), Some(chirp)) = (of(1), of(2)) else { return untestable("it was not run.") };
            let opt = against_lru(results, set, OPT[1]);
            let each = tally(walked(results, set, PRINTED[0]), |p| {
                let c = results.percent(&p.name, PRINTED[2], PRINTED[0])?;
                let s = results.percent(&p.name, PRINTED[1], PRINTED[0])?;
                let possible = of_possible(results, &p.name, PRINTED[2], [PRINTED[0], OPT[1]]);
                let possible = possible.map_or(String::new(), |n| format!(", {} of what OPT saves", percent(n)));
                Some((c < 100.0, format!("{}, SRRIP {}{possible}", percent(c), percent(s))))
            });
            let text = format!(
                "by geometric mean CHiRP {}, SRRIP {}{} of the misses of LRU, with the path of fetches, and no \
                 branches; fewer misses {}",
                percent(chirp),
                percent(srrip),
                opt.map_or(String::new(), |opt| format!(", OPT {}", percent(opt))),
                each.said(true).trim_end_matches('.')
            );
            finding(reached(chirp <= 71.8, chirp < 100.0), text)
        },
    },
    Hypothesis {
        id: "H-HW-47",
        kind: Main,
        claim: "Most entries of the second level leave it without a hit, and programs are 8.3 % faster if such pages \
                are kept out of it; tested as fewer misses. The same for caches is not built",
        studies: &["since-replacement"],
        judge: |results, set| {
            let dead =
                tally(walked(results, set, PRINTED[3]), |p| unused(results, &p.name).map(|u| (u > 50.0, percent(u))));
            let fewer = tally(walked(results, set, BASE), |p| {
                let left = results.percent(&p.name, "since/dppred", BASE)?;
                let back = counted(results, &p.name, "since/dppred", "dppred", "shadow_hits")?;
                let text = format!(
                    "{} of the misses, {} of the walks bypass, {back} taken back",
                    percent(left),
                    percent(bypassed(results, &p.name)?)
                );
                Some((reached(left < 100.0, left == 100.0), text))
            });
            let why = format!("Without a hit: {} Fewer misses: {}", dead.said(true), fewer.said(true));
            let verdict = worst([dead.most().verdict, fewer.most().verdict]);
            Finding { verdict, why }
        },
    },
    Hypothesis {
        id: "H-HW-48",
        kind: Side,
        claim: "iTP with xPTP in the L2 cache makes servers 18.9 % faster; tested as fewer misses of fetches, and as \
                fewer cycles of walks through caches",
        studies: &["since-replacement"],
        judge: |results, set| {
            let server = [Program { name: SERVER.into(), ..Program::default() }];
            tally(programs(set).filter(|p| p.is_like(&["gcc"])).chain(server.iter()), |p| {
                let of = |machine| Some(&results.machine(&p.name, machine)?.counts.tlb);
                let (with, without) = (of("since/itp")?, of(BASE)?);
                let base = walk_cycles(results, &p.name, BASE_CACHES)?;
                let [alone, both] = ITP_CACHES.map(|machine| walk_cycles(results, &p.name, machine));
                let (alone, both) = (share(alone?, base), share(both?, base));
                let text = format!(
                    "fetches {} from {}, data {} from {}, cycles {}, without xPTP {}",
                    with.fetch_misses,
                    without.fetch_misses,
                    with.data_misses,
                    without.data_misses,
                    percent(both),
                    percent(alone)
                );
                let fewer = with.fetch_misses < without.fetch_misses;
                let outcome =
                    reached(fewer && both < 100.0, fewer || both < 100.0 || with.fetch_misses == without.fetch_misses);
                Some((if without.fetch_misses < LEAST_WALKS { Outcome::Silent } else { outcome }, text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-HW-52",
        kind: Side,
        claim: "Misses and sole answers with an addition are the misses without it",
        studies: &["since-identities"],
        judge: |results, set| {
            let mut all = Tally::default();
            for d in DESIGNS.iter().filter(|d| d.kind.keeps_misses() && d.kind != Kind::Table) {
                for p in programs(set) {
                    let of = |machine| Walks::of(results, &p.name, machine).map(|w| w.walks + w.sole);
                    let Some((with, without)) = of(d.machine).zip(of(d.base)) else { continue };
                    if with == without {
                        all.yes.push(String::new());
                    } else {
                        all.no.push(format!("{} with {} ({with}, not {without})", p.name, d.name));
                    }
                }
            }
            match (all.yes.len(), all.no.is_empty()) {
                (0, true) => untestable("it was not run."),
                (n, true) => finding(Outcome::Yes, format!("equal in all {n} pairs of a design and a program")),
                _ => finding(Outcome::No, all.no.join(", ")),
            }
        },
    },
    Hypothesis {
        id: "H-HW-53",
        kind: Side,
        claim: "A design that is switched off has the counts of the machine without it",
        studies: &["since-identities"],
        judge: |results, set| {
            tally(few(set), |p| {
                let off = OFF.map(|m| is_off(results, &p.name, m));
                let all = off.into_iter().collect::<Option<Vec<bool>>>()?;
                let wrong: Vec<&str> = OFF.iter().zip(&all).filter(|(_, ok)| !**ok).map(|(m, _)| *m).collect();
                let text =
                    if wrong.is_empty() { "degree 0, no dead entries, no registers".into() } else { wrong.join(", ") };
                Some((wrong.is_empty(), text))
            })
            .all()
        },
    },
];
