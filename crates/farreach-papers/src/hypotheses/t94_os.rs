//! Claims of T94 about the operating system: support, reservation, thresholds, memory.

use super::hypothesis::Hypothesis;
use super::judge::{Outcome, reached, tally};
use crate::expected_rows::judged;
use crate::machines::{COMPLETE, PARTIAL, SINGLE, SUPERPAGE, superpage_of};
use crate::micro;
use crate::number_text::{misses, percent};
use crate::t94::options::{COLOURING, COMPLETE_RESERVED, NO_RESERVATION, growth, heap, superpage_share};
use crate::t94::pressure::{Memory, SCATTERED, SHORT, SYSTEMS, difference, machine, placed};
use crate::t94::table1::LADDER;
use crate::t94::worked_examples::ROWS;
use farreach_types::papers::Kind::{Main, Side};
use farreach_types::papers::Verdict;

pub(super) const CLAIMS: &[Hypothesis] = &[
    Hypothesis {
        id: "H-T94-1",
        kind: Main,
        claim: "A superpage TLB without support by the operating system misses exactly as often as a single-page-size \
                TLB",
        studies: &["t94-table1"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let of = |rung: usize| results.misses(&p.name, LADDER[rung].1);
                let (a, b, c) = (of(0)?, of(1)?, of(2)?);
                Some((a == b && b == c, if a == b && b == c { misses(a) } else { format!("{a}, {b}, {c}") }))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-T94-2",
        kind: Side,
        claim: "Superpages for mapped files help programs like compilers (gcc: at most half of the misses remain), \
                superpages for heaps those whose data is in the heap (mp3d: files nothing, heaps at least half)",
        studies: &["t94-table1"],
        judge: |results, set| {
            tally(set.standing_for(&["gcc", "mp3d"]), |p| {
                let of = |rung: usize| results.percent(&p.name, LADDER[rung].1, SINGLE);
                let (files, heaps) = (of(3)?, of(4)?);
                let outcome = match p.stands_for.as_str() {
                    "gcc" => reached(files <= 50.0, files <= 100.0),
                    _ if files < 95.0 => Outcome::No,
                    _ => reached(heaps <= 50.0, heaps <= 100.0),
                };
                Some((outcome, format!("{} with files, {} with heaps too", percent(files), percent(heaps))))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-T94-8",
        kind: Side,
        claim: "Without page reservation partial subblocks fall back toward single pages; complete ones do not depend \
                on it",
        studies: &["t94-mechanisms"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let of = |m: &str| results.percent(&p.name, m, SINGLE);
                let (with, without) = (of(PARTIAL)?, of(NO_RESERVATION)?);
                let (complete, reserved) =
                    (results.misses(&p.name, COMPLETE)?, results.misses(&p.name, COMPLETE_RESERVED)?);
                let numbers =
                    format!("{} with, {} without; complete {complete} and {reserved}", percent(with), percent(without));
                // Without a difference it shows nothing, unless complete subblocks depend on it.
                let outcome = match without.total_cmp(&with) {
                    std::cmp::Ordering::Equal if complete == reserved => Outcome::Silent,
                    order => (order.is_gt() && complete == reserved).into(),
                };
                Some((outcome, numbers))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-T94-9",
        kind: Side,
        claim: "Most of what partial subblocks lose against complete ones comes from copy-on-write pages",
        studies: &["t94-mechanisms"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let partial = results.machine(&p.name, PARTIAL)?;
                let complete = &results.machine(&p.name, COMPLETE)?.regions;
                let copied = partial.counts.os.cow_copies;
                let of = |name: &str| {
                    complete.iter().find(|r| r.region == name).map_or(0, |r| r.fetch_misses + r.data_misses)
                };
                let lost: Vec<(u64, &str)> = (partial.regions.iter())
                    .map(|r| ((r.fetch_misses + r.data_misses).saturating_sub(of(&r.region)), r.region.as_str()))
                    .collect();
                let total: u64 = lost.iter().map(|l| l.0).sum();
                let worst = lost.iter().max()?;
                if total == 0 || copied == 0 {
                    return Some((Outcome::Silent, format!("{copied} pages copied, {total} misses lost")));
                }
                // Copy-on-write pages are the private data of files, and memory shared by a fork.
                let data: u64 = lost.iter().filter(|l| l.1.ends_with(" data")).map(|l| l.0).sum();
                let text = format!(
                    "{copied} pages copied; of {total} misses lost {data} are in the data of files, most, {}, in {}",
                    worst.0, worst.1
                );
                Some(((2 * data > total).into(), text))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-T94-16",
        kind: Side,
        claim: "Misses of the compress program rise from 32 KB to 64 KB superpages, because half-used regions stay \
                below the threshold; partial subblocks show no such bump",
        studies: &["t94-fig4", "t94-fig5", "t94-by-hand"],
        judge: |results, set| {
            let by_hand = judged(ROWS, results, &[micro::ANOMALY]);
            let on = tally(set.standing_for(&["compress"]), |p| {
                let of = |m: String| results.misses(&p.name, &m);
                let (small, large) = (of(superpage_of(8))?, of(superpage_of(16))?);
                let partial = |f| of(crate::machines::partial_of(f));
                let (few, many) = (partial(8)?, partial(16)?);
                let text = format!("superpages {small} at 32 KB, {large} at 64 KB; partial {few} and {many}");
                Some((large > small && many <= few, text))
            });
            if by_hand.verdict != Verdict::Holds {
                return by_hand;
            }
            let mut finding = on.all();
            finding.why = format!("{} By hand: {}", finding.why, by_hand.why);
            finding
        },
    },
    Hypothesis {
        id: "H-T94-17",
        kind: Side,
        claim: "A lower threshold for heaps removes the anomaly of compress, at the cost of memory",
        studies: &["t94-thresholds", "t94-fig4"],
        judge: |results, set| {
            tally(set.standing_for(&["compress"]), |p| {
                let small = results.misses(&p.name, &superpage_of(8))?;
                let (before, after) = (results.misses(&p.name, SUPERPAGE)?, results.misses(&p.name, &heap(50))?);
                let memory = growth(results, &p.name, &heap(50))?;
                if before <= small {
                    return Some((Outcome::Silent, format!("no anomaly: {small} at 32 KB, {before} at 64 KB")));
                }
                let text = format!(
                    "{small} at 32 KB, {before} at 64 KB, {after} at 64 KB and 50 %; memory {}",
                    percent(100.0 * memory)
                );
                Some((reached(after <= small && memory >= 1.0, after <= before), text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-T94-23",
        kind: Side,
        claim: "Of the misses of a superpage TLB only 10 to 20 % are to superpages",
        studies: &["t94-mechanisms"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let share = superpage_share(results, &p.name)?;
                Some((share <= 20.0, percent(share)))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-T94-24",
        kind: Side,
        claim: "Page reservation does not change the number of page faults, however little memory there is",
        studies: &["t94-pressure"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let all = SHORT.iter().map(|&s| difference(results, p, s)).collect::<Option<Vec<_>>>()?;
                let numbers = if all.iter().all(|d| *d == 0) { "no difference".into() } else { format!("{all:?}") };
                Some((all.iter().all(|d| *d == 0), numbers))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-T94-25",
        kind: Side,
        claim: "As memory shrinks, the share of pages in their reserved frames goes smoothly from all toward chance (1 \
                in 16)",
        studies: &["t94-pressure"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let share = |s: u64| placed(results, p, &machine(results, p, SYSTEMS[1].1, Memory::of(s, 0))?);
                let shares = SHORT.iter().map(|&s| share(s)).collect::<Option<Vec<_>>>()?;
                let (least, most) = (shares[0], *shares.last()?);
                // From all: with memory to spare nearly every page is in its frame.
                let falls = shares.is_sorted() && least <= most;
                Some((
                    reached(falls && most >= 99.0 && least < most, falls),
                    format!("{} at {} %, {} at {} %", percent(least), SHORT[0], percent(most), SHORT[SHORT.len() - 1]),
                ))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-T94-26",
        kind: Side,
        claim: "Fragmented memory takes partial subblocks and superpages back to the misses of single pages, and never \
                beyond",
        studies: &["t94-fragmentation"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let mut worst: f64 = 0.0;
                let mut last = Vec::new();
                for (_, system) in &SYSTEMS[1..] {
                    for &s in &SCATTERED {
                        let share =
                            results.percent(&p.name, &machine(results, p, system, Memory::of(200, s))?, SINGLE)?;
                        worst = worst.max(share);
                        if s == SCATTERED[SCATTERED.len() - 1] {
                            last.push(share);
                        }
                    }
                }
                let text = format!(
                    "partial {}, superpage {} at the end; at most {worst:.4} %",
                    percent(last[0]),
                    percent(last[1])
                );
                let outcome = if worst > 100.0 { Outcome::No } else { reached(last.iter().all(|s| *s >= 90.0), true) };
                Some((outcome, text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-T94-27",
        kind: Side,
        claim: "An object of 60 KB takes 15 superpage entries and one partial entry, one of 64 KB one of either",
        studies: &["t94-by-hand"],
        judge: |results, _| judged(ROWS, results, &[micro::OBJECT_60K, micro::OBJECT_64K]),
    },
    Hypothesis {
        id: "H-T94-28",
        kind: Side,
        claim: "With a hole, an unaligned start or a page of other attributes, superpages need an entry per page, \
                partial subblocks one or two per region",
        studies: &["t94-by-hand"],
        judge: |results, _| judged(ROWS, results, &[micro::HOLE, micro::UNALIGNED, micro::ATTRIBUTE]),
    },
    Hypothesis {
        id: "H-T94-29",
        kind: Side,
        claim: "With one modified bit per base page less is written back than with one per superpage",
        studies: &["t94-by-hand"],
        judge: |results, _| judged(ROWS, results, &[micro::ONE_DIRTY]),
    },
    Hypothesis {
        id: "H-T94-30",
        kind: Side,
        claim: "Promotion at 50 % populates pages that are never referenced: in half-used regions of a file, half of \
                the region",
        studies: &["t94-by-hand"],
        judge: |results, _| judged(ROWS, results, &[micro::HALF_FILE]),
    },
    Hypothesis {
        id: "H-T94-35",
        kind: Side,
        claim: "Page colouring lets pages share partial entries no more often than demand paging does",
        studies: &["t94-mechanisms"],
        judge: |results, set| {
            tally(set.programs.iter(), |p| {
                let share = |m: &str| {
                    let tlb = &results.machine(&p.name, m)?.counts.tlb;
                    (tlb.fills > 0).then(|| 100.0 * tlb.merges as f64 / tlb.fills as f64)
                };
                let (colour, demand, reserved) = (share(COLOURING)?, share(NO_RESERVATION)?, share(PARTIAL)?);
                // By chance neighbouring pages lie in the same group of frames once in 16 groups; the limit is 1 point
                // above demand.
                let text = format!(
                    "fills that join an entry: {} with colouring, {} on demand, {} with reservation",
                    percent(colour),
                    percent(demand),
                    percent(reserved)
                );
                Some((colour <= demand + 1.0, text))
            })
            .all()
        },
    },
];
