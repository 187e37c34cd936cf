//! Claims about what policies do with memory. Their numbers are those of `papers/os_claims.csv`.

use super::hypothesis::Hypothesis;
use super::judge::{Outcome, reached, tally};
use crate::micro::{FEW_DIRTY, HOT_HIGH, HOT_LOW, MOSTLY_ZEROS, SPARSE_GROUPS, STREAM_BESIDE, USED_ONCE};
use crate::number_text::percent;
use crate::policies::memory::{
    ALL, DIRTY, FINDERS, FOLIOS, IN_USE, KEPT, PICKERS, RECOVERING, RESERVED, SHARING, SHRINKERS, misses_of, own, time,
};
use crate::policies::price::MAP_NODE;
use crate::results::Results;
use crate::since::{LEAST_WALKS, few, share};
use farreach_types::papers::Kind::{Main, Side};
use farreach_types::papers::{Finding, Program};

const STUDY: &[&str] = &["os-memory"];

pub(super) fn program(name: &str) -> Program {
    Program { name: name.into(), ..Program::default() }
}

/// Time that a machine saves of that of another, in percent.
fn gain(results: &Results, p: &Program, base: &str, machine: &str) -> Option<f64> {
    let of = |machine| time(results, &p.name, machine);
    Some(100.0 - share(of(machine)?, of(base)?))
}

/// The outcome of a program that misses often enough; of another one only the opposite of a claim counts.
pub(super) fn if_missing(base: u64, outcome: Outcome) -> Outcome {
    if base < LEAST_WALKS && outcome != Outcome::No { Outcome::Silent } else { outcome }
}

pub(super) const CLAIMS: &[Hypothesis] = &[
    Hypothesis {
        id: "H-OS-1",
        kind: Main,
        claim: "Reservations of several sizes save 30 % and more of the time of programs: of 35 programs 18 gain more \
                than 5 %, and 10 more than 25 %; tested as these shares of programs",
        studies: STUDY,
        judge: |results, set| {
            let gains: Vec<f64> = few(set).filter_map(|p| gain(results, p, RESERVED[0], RESERVED[ALL])).collect();
            let above = |least: f64| gains.iter().filter(|gain| **gain > least).count();
            let (some, much) = (35 * above(5.0) >= 18 * gains.len(), 35 * above(25.0) >= 10 * gains.len());
            let found = tally(few(set), |p| {
                let gain = gain(results, p, RESERVED[0], RESERVED[ALL])?;
                Some((reached(some && much, gain > 0.0), format!("{} saved", percent(gain))))
            });
            Finding {
                why: format!("{} above 5 %, {} above 25 %: {}", above(5.0), above(25.0), found.said(true)),
                ..found.all()
            }
        },
    },
    Hypothesis {
        id: "H-OS-3",
        kind: Main,
        claim: "On some programs four sizes of reservations together miss less often than the best single size beside \
                base pages",
        studies: STUDY,
        judge: |results, set| {
            tally(few(set), |p| {
                let misses = |machine: &str| results.misses(&p.name, machine);
                let single = RESERVED[1..ALL].iter().map(|m| misses(m)).collect::<Option<Vec<_>>>()?;
                let (all, best) = (misses(RESERVED[ALL])?, single.into_iter().min()?);
                Some((Outcome::from(all < best), format!("{all} misses, the best size {best}")))
            })
            .some()
        },
    },
    Hypothesis {
        id: "H-OS-4",
        kind: Main,
        claim: "At worst reservations of several sizes cost 8.9 % of the time, 7.2 % for the population map; tested on \
                a program that uses each page once, as at most 8.9 % of the time, and some for the map",
        studies: STUDY,
        judge: |results, _| {
            tally([program(USED_ONCE)].iter(), |p| {
                let more = -gain(results, p, KEPT[0], KEPT[1])?;
                let nodes = own(results.machine(&p.name, KEPT[1])?, "map_nodes");
                let map = share(MAP_NODE * nodes, time(results, &p.name, KEPT[0])?);
                let text = format!("{} more time, {} for {nodes} nodes of the map", percent(more), percent(map));
                Some((reached(nodes > 0 && more <= 8.9, nodes > 0 && map <= 8.9), text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-OS-5",
        kind: Main,
        claim: "A file that is read whole and stored to in each 512th page is written back more than 20 times over if \
                stores do not split clean superpages; tested on the pages that count as modified",
        studies: STUDY,
        judge: |results, _| {
            tally([program(FEW_DIRTY)].iter(), |p| {
                let of = |machine| Some(results.machine(&p.name, machine)?.counts.os.dirty_pages);
                let (whole, split) = (of(DIRTY[0])?, of(DIRTY[1])?);
                let text = format!("{whole} pages, {split} if stores split");
                Some((reached(whole > 20 * split && split > 0, whole > split), text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-OS-6",
        kind: Main,
        claim: "The gains of reservations last under fragmentation; tested as half of the gain, where others have \
                three frames of ten, and no daemon gathers contiguity",
        studies: STUDY,
        judge: |results, set| {
            tally(few(set), |p| {
                let fresh = gain(results, p, RESERVED[0], RESERVED[ALL])?;
                let used = gain(results, p, RESERVED[0], RESERVED[IN_USE])?;
                let outcome = if fresh <= 0.0 { Outcome::Silent } else { reached(used >= fresh / 2.0, used > 0.0) };
                Some((outcome, format!("{} saved, in fresh memory {}", percent(used), percent(fresh))))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-OS-12",
        kind: Side,
        claim: "At max_ptes_none = 511 memory that is short takes back superpages of zeros alone; tested against 400, \
                which takes zeros out of others, too",
        studies: STUDY,
        judge: |results, _| {
            tally([program(MOSTLY_ZEROS)].iter(), |p| {
                let of = |machine: &str| {
                    let machine = results.machine(&p.name, machine)?;
                    Some((own(machine, "underused_splits"), own(machine, "underused_pages")))
                };
                let (all, some) = (of(SHRINKERS[0])?, of(SHRINKERS[1])?);
                let holds = all.0 > 0 && all.1 == 512 * all.0 && some.1 < 512 * some.0;
                let text = format!("{} pages of {} superpages, at 400 {} of {}", all.1, all.0, some.1, some.0);
                Some((holds, text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-OS-13",
        kind: Main,
        claim: "Superpages of 64 KB take one entry for 16 pages; tested as at most a twelfth of the walks, on TLBs of \
                Neoverse N1",
        studies: STUDY,
        judge: |results, set| {
            tally(few(set), |p| {
                let of = |machine| results.misses(&p.name, machine);
                let (base, own) = (of(FOLIOS[0])?, of(FOLIOS[1])?);
                let text = format!("{own} walks, with base pages {base}");
                Some((if_missing(base, reached(12 * own <= base, own < base)), text))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-OS-18",
        kind: Side,
        claim: "With the fairness of Ingens two equal programs get equal shares of superpages; tested as misses that \
                differ by at most a tenth, where they differ by more without it: three sizes of programs, and memory \
                for a quarter, half and three quarters of their superpages",
        studies: STUDY,
        judge: |results, _| {
            let programs = SHARING.map(|(name, _)| program(name));
            tally(programs.iter(), |p| {
                let (_, machines) = SHARING.iter().find(|(name, _)| *name == p.name)?;
                let of = |machine: &str| {
                    let machine = results.machine(&p.name, machine)?;
                    Some(["heap", "anonymous"].map(|region| misses_of(machine, region)))
                };
                let apart = |[a, b]: [u64; 2]| 100.0 * a.abs_diff(b) as f64 / a.max(b).max(1) as f64;
                let (first, fair) = (of(machines[0])?, of(machines[1])?);
                let text =
                    format!("{} and {} misses, without fairness {} and {}", fair[0], fair[1], first[0], first[1]);
                let outcome = match apart(first) {
                    ..=10.0 => Outcome::Silent,
                    before => reached(apart(fair) <= 10.0, apart(fair) < before),
                };
                Some((outcome, text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-OS-19",
        kind: Main,
        claim: "HawkEye finds memory in use at high addresses sooner than a daemon that goes by address; tested as \
                fewer walks",
        studies: STUDY,
        judge: |results, _| {
            tally([program(HOT_HIGH)].iter(), |p| {
                let of = |name: &str, i: usize| results.misses(name, FINDERS[i]);
                let (linux, own) = (of(&p.name, 0)?, of(&p.name, 1)?);
                let low = [of(HOT_LOW, 0)?, of(HOT_LOW, 1)?];
                let text = format!("{own} walks, khugepaged {linux}; at low addresses {} and {}", low[1], low[0]);
                Some((Outcome::from(own < linux), text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-OS-20",
        kind: Main,
        claim: "Measured overhead picks the process that needs superpages, where coverage does not; tested on one that \
                goes in order beside one that goes at random, as fewer walks of both",
        studies: STUDY,
        judge: |results, _| {
            tally([program(STREAM_BESIDE)].iter(), |p| {
                let of = |i: usize| results.misses(&p.name, PICKERS[i]);
                let (coverage, own) = (of(0)?, of(1)?);
                Some((Outcome::from(own < coverage), format!("{own} walks, by coverage {coverage}")))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-OS-21",
        kind: Side,
        claim: "Pages of zeros are recovered where less than 15 % of memory is free, until 30 % are",
        studies: STUDY,
        judge: |results, _| {
            tally([program(SPARSE_GROUPS)].iter(), |p| {
                let of = |machine: &str| {
                    let machine = results.machine(&p.name, machine)?;
                    Some((machine.memory.resident_at_end_bytes, own(machine, "recovered_pages")))
                };
                let (without, with) = (of(RECOVERING[0])?, of(RECOVERING[1])?);
                let free = |bytes: u64| 100.0 - share(bytes, 64 << 20);
                let text = format!(
                    "{} pages recovered, {} of memory free at the end, without {}",
                    with.1,
                    percent(free(with.0)),
                    percent(free(without.0))
                );
                let holds = free(without.0) < 15.0 && free(with.0) >= 15.0 && with.1 > 0;
                Some((reached(holds, with.0 < without.0), text))
            })
            .all()
        },
    },
];

#[cfg(test)]
mod tests;
