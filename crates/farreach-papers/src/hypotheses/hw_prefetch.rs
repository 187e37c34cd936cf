//! Claims about prefetchers of translations.

use super::hypothesis::Hypothesis;
use super::judge::{Outcome, Tally, reached, tally, untestable, worst};
use crate::number_text::percent;
use crate::results::{Results, Set};
use crate::since::designs::mean;
use crate::since::prefetch::{ASP_MAPPED, FREE, ROWS, SERVER, SMALL, SP_MAPPED, SP_MORE, STREAMS, coverage};
use crate::since::{BASE, DESIGNS, MORRIGAN, Walks, counted, few, programs, share};
use farreach_types::papers::Kind::{Main, Side};
use farreach_types::papers::{Finding, Program, Verdict};

/// A stream that is no program of the set, as one.
fn stream(name: &str) -> Program {
    Program { name: name.into(), ..Program::default() }
}

/// Coverage below which a prefetcher has found nothing to compare.
const LEAST: f64 = 1.0;

/// A counter of the prefetcher on a program.
fn own(results: &Results, p: &Program, machine: &str, name: &str) -> Option<u64> {
    counted(results, &p.name, machine, "prefetch", name)
}

/// Geometric means of walks, references and cycles of a design, in percent of the base, as text.
pub(super) fn means(results: &Results, set: &Set, name: &str) -> Option<(f64, f64, f64, String)> {
    let design = DESIGNS.iter().find(|d| d.name == name)?;
    let walks = mean(results, set, design, |w| w.walks)?;
    let references = mean(results, set, design, |w| w.references())?;
    let cycles = mean(results, set, design, |w| w.cycles)?;
    let text = format!(
        "by geometric mean walks {}, references with those in the background {}, cycles {} of the base",
        percent(walks),
        percent(references),
        percent(cycles)
    );
    Some((walks, references, cycles, text))
}

/// Words for a finding about one number.
pub(super) fn finding(outcome: Outcome, why: String) -> Finding {
    let verdict = match outcome {
        Outcome::Yes => Verdict::Holds,
        Outcome::Stronger => Verdict::Stronger,
        Outcome::Short | Outcome::Silent => Verdict::NotShown,
        Outcome::No => Verdict::Fails,
    };
    Finding { verdict, why: format!("{why}.") }
}

fn joined(parts: &[(&str, Finding)]) -> String {
    parts.iter().map(|(name, finding)| format!("{name}: {}", finding.why)).collect::<Vec<_>>().join(" ")
}

pub(super) const CLAIMS: &[Hypothesis] = &[
    Hypothesis {
        id: "H-HW-1",
        kind: Side,
        claim: "Sequential prefetching covers more than 90 % of the misses of page streams and less than 1 % of random \
                ones",
        studies: &["since-prefetch"],
        judge: |results, set| {
            let streams = STREAMS.map(stream);
            let of = |p: &Program| coverage(results, &p.name, "since/sp");
            let found = tally(streams.iter(), |p| {
                let [sp, more, asp] = [SP_MAPPED, SP_MORE, ASP_MAPPED].map(|m| coverage(results, &p.name, m));
                let (sp, more, asp) = (sp?, more?, asp?);
                let text = format!("{}, with a buffer of 64 {}, strides {}", percent(sp), percent(more), percent(asp));
                // Columns of a matrix have strides of more than a page.
                let is_stream = !p.name.contains(":dense:");
                Some((if is_stream { reached(sp > 90.0, sp > 1.0) } else { Outcome::Silent }, text))
            })
            .all();
            let random = set.large.iter().filter(|p| p.is_like(&["GUPS"]));
            let none = tally(random, |p| of(p).map(|c| (c < 1.0, percent(c)))).all();
            let verdict = worst([found.verdict, none.verdict]);
            Finding { verdict, why: joined(&[("Streams", found), ("Random", none)]) }
        },
    },
    Hypothesis {
        id: "H-HW-2",
        kind: Side,
        claim: "Prefetching by distances, 256 rows and a buffer of 16 behind 128 entries, covers at least as much as \
                strides, Markov and recency on most programs",
        studies: &["since-prefetch"],
        judge: |results, set| {
            tally(few(set), |p| {
                let [asp, mp, dp, rp] = [2, 3, 4, 5].map(|i| coverage(results, &p.name, SMALL[i]));
                let (asp, mp, dp, rp) = (asp?, mp?, dp?, rp?);
                let best = asp.max(mp).max(rp);
                let text = format!("dp {}, asp {}, mp {}, rp {}", percent(dp), percent(asp), percent(mp), percent(rp));
                Some((if dp.max(best) < LEAST { Outcome::Silent } else { (dp >= best).into() }, text))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-HW-3",
        kind: Main,
        claim: "Distances find patterns with fewer rows than Markov prefetching: 32 rows cover more than 32 of Markov",
        studies: &["since-prefetch"],
        judge: |results, set| {
            tally(few(set), |p| {
                let [dp, mp, large] = ROWS.map(|m| coverage(results, &p.name, m));
                let middle = coverage(results, &p.name, "since/mp")?;
                let (dp, mp, large) = (dp?, mp?, large?);
                let text = format!(
                    "dp {}; mp {}, with 256 rows {}, with 1024 {}",
                    percent(dp),
                    percent(mp),
                    percent(middle),
                    percent(large)
                );
                let outcome = match () {
                    () if dp.max(large) < LEAST => Outcome::Silent,
                    () if dp > large => Outcome::Stronger,
                    () => (dp > mp).into(),
                };
                Some((outcome, text))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-HW-4",
        kind: Side,
        claim: "Recency prefetching predicts more than 55 % of the misses of commercial programs",
        studies: &["since-prefetch"],
        judge: |results, set| {
            let server = [stream(SERVER)];
            let named = programs(set).filter(|p| p.is_like(&["memcached", "graph500", "gcc"]));
            tally(named.chain(server.iter()), |p| {
                let walks = Walks::of(results, &p.name, BASE)?;
                let c = coverage(results, &p.name, "since/rp")?;
                let text = format!("{} of {} misses, {} pages", percent(c), walks.walks, walks.pages);
                let few = walks.warm() < crate::since::LEAST_WALKS;
                Some((if few { Outcome::Silent } else { reached(c > 55.0, c > 0.0) }, text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-HW-5",
        kind: Side,
        claim: "Recency prefetching writes at most four pointers and predicts at most two pages a miss",
        studies: &["since-prefetch"],
        judge: |results, set| {
            tally(programs(set), |p| {
                let walks = Walks::of(results, &p.name, "since/rp")?;
                let misses = walks.walks + walks.sole;
                let [pointers, pages] = ["pointer_writes", "candidates"].map(|n| own(results, p, "since/rp", n));
                let (pointers, pages) = (pointers?, pages?);
                let of = |n: u64| n as f64 / misses.max(1) as f64;
                Some((
                    pointers <= 4 * misses && pages <= 2 * misses,
                    format!("{:.2} and {:.2}", of(pointers), of(pages)),
                ))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-HW-6",
        kind: Main,
        claim: "Free prefetching by SBFP makes fewer references of walks than each prefetcher alone, and covers more",
        studies: &["since-prefetch"],
        judge: |results, set| {
            let names = ["sp", "dp", "masp", "atp"];
            let mut all = Tally::default();
            for (name, [alone, _, sbfp]) in names.iter().zip(FREE) {
                let found = tally(few(set), |p| {
                    let (a, s) = (Walks::of(results, &p.name, alone)?, Walks::of(results, &p.name, sbfp)?);
                    let text = format!(
                        "{name}: references {}, coverage {} from {}",
                        percent(share(s.references(), a.references())),
                        percent(s.coverage()),
                        percent(a.coverage())
                    );
                    let outcome = match () {
                        () if a == s => Outcome::Silent,
                        () if s.references() > a.references() || s.sole < a.sole => Outcome::No,
                        () => reached(s.references() < a.references() && s.sole > a.sole, true),
                    };
                    Some((outcome, text))
                });
                let Tally { yes, stronger, short, no, silent } = found;
                all.yes.extend(yes);
                all.stronger.extend(stronger);
                all.short.extend(short);
                all.no.extend(no);
                all.silent.extend(silent);
            }
            all.all()
        },
    },
    Hypothesis {
        id: "H-HW-7",
        kind: Side,
        claim: "ATP with SBFP is 11 to 16 % faster by geometric mean; tested as fewer walks and cycles",
        studies: &["since-designs"],
        judge: |results, set| match means(results, set, "atp-sbfp") {
            None => untestable("it was not run."),
            Some((walks, _, cycles, text)) => finding(
                reached(walks < 100.0 && cycles < 100.0, false),
                format!("{text}; speed itself is not measured"),
            ),
        },
    },
    Hypothesis {
        id: "H-HW-8",
        kind: Side,
        claim: "With ATP and SBFP walks make 37 % fewer references, those of prefetches among them",
        studies: &["since-designs"],
        judge: |results, set| match means(results, set, "atp-sbfp") {
            None => untestable("it was not run."),
            Some((_, references, _, text)) => finding(reached(references <= 63.0, references < 100.0), text),
        },
    },
    Hypothesis {
        id: "H-HW-9",
        kind: Main,
        claim: "ATP switches prefetching off where it gains nothing: on random updates at more than 95 % of the \
                misses, with less than 5 % of the references",
        studies: &["since-designs"],
        judge: |results, set| {
            tally(programs(set).filter(|p| p.is_like(&["GUPS"])), |p| {
                let chosen = ["chosen_none", "chosen_h2p", "chosen_masp", "chosen_stp"];
                let chosen = chosen.map(|name| own(results, p, "since/atp", name));
                let all: u64 = chosen.iter().copied().sum::<Option<u64>>()?;
                let nodes = share(own(results, p, "since/atp", "nodes")?, Walks::of(results, &p.name, BASE)?.demand);
                let off = share(chosen[0]?, all);
                let text = format!("off at {}, references of prefetches {}", percent(off), percent(nodes));
                Some((off > 95.0 && nodes < 5.0, text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-HW-10",
        kind: Main,
        claim: "Morrigan removes 69 % of the references of demand walks for fetches of servers",
        studies: &["since-prefetch"],
        judge: |results, set| {
            let server = [stream(SERVER)];
            tally(programs(set).filter(|p| p.is_like(&["gcc"])).chain(server.iter()), |p| {
                let fetch = |machine| Some(results.machine(&p.name, machine)?.counts.tlb.fetch_misses);
                let (with, without) = (fetch(MORRIGAN)?, fetch(BASE)?);
                let text = format!("{without} walks of fetches without it, {with} with it");
                // First touches of code cannot be foreseen.
                let outcome = if without < 1000 {
                    Outcome::Silent
                } else {
                    reached(share(with, without) <= 31.0, with < without)
                };
                Some((outcome, text))
            })
            .all()
        },
    },
];
