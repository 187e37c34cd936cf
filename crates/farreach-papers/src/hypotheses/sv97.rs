//! Claims of SV97 about overhead, its causes and its size.

use super::hypothesis::Hypothesis;
use super::judge::{Outcome, Tally, fails, holds, reached, tally, untestable};
use crate::micro::SNAPSHOTS;
use crate::number_text::{cpi, percent};
use crate::printed;
use crate::results::{Results, Set};
use crate::sv97::figure8::{L1, L2, LINES, SECOND, machine, second};
use crate::sv97::table1::classes;
use crate::sv97::table2::with_write_backs;
use crate::sv97::table3::{dirty_victims, rise};
use crate::sv97::table5::{self, LAZY, changes, raises, two_processes};
use crate::sv97::{MIPS, SOFTVM, caches, like, mean, overhead, overhead_of, percent_of_time, programs};
use farreach_cost::cycles::ProtectionSweep;
use farreach_types::papers::Kind::{Main, Side};
use farreach_types::papers::{Finding, Program, Verdict};
use farreach_types::plural::with_noun;

const KB: u64 = 1 << 10;

pub(super) const CLAIMS: &[Hypothesis] = &[
    Hypothesis {
        id: "H-SV-1",
        kind: Main,
        claim: "Software translation is about as efficient as a TLB: on average it costs at most twice as much",
        studies: &["sv97-table3"],
        judge: |results, set| {
            let on = |machine| mean(programs(set).map(|p| overhead_of(results, p, machine)));
            let (Some(softvm), Some(mips)) = (on(SOFTVM), on(MIPS)) else { return untestable("no program was run.") };
            let text = format!(
                "mean {} against {} cycles per instruction; the paper has 0.033 and 0.042.",
                cpi(softvm),
                cpi(mips)
            );
            if softvm <= 2.0 * mips { holds(text) } else { fails(text) }
        },
    },
    Hypothesis {
        id: "H-SV-2",
        kind: Side,
        claim: "Where a TLB misses and the caches hit, software translation pays nothing; where the caches miss and \
                the TLB hits, only software pays; both have the same cache misses, within 5 %",
        studies: &["sv97-table1"],
        judge: |results, set| {
            tally(programs(set), |p| {
                let (tlb, soft) = (classes(results, p, MIPS)?, classes(results, p, SOFTVM)?);
                let (tlb_pays, soft_pays) = (results.misses(&p.name, MIPS)?, results.misses(&p.name, SOFTVM)?);
                let own = |c: &crate::sv97::table1::Classes| c.cache_misses + c.both_miss;
                let accounts = tlb_pays == tlb.cache_hits + tlb.both_miss && soft_pays == own(&soft);
                let apart = own(&soft).abs_diff(own(&tlb)) as f64 / own(&tlb).max(1) as f64;
                let text = format!(
                    "TLB alone pays for {}, software alone for {}, both for {}; cache misses {} and {}",
                    tlb.cache_hits,
                    tlb.cache_misses,
                    tlb.both_miss,
                    own(&tlb),
                    own(&soft)
                );
                Some((accounts && apart <= 0.05, text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-SV-3",
        kind: Side,
        claim: "A TLB of 64 entries covers almost all cache misses: event 5 is at least ten times as frequent as event \
                6",
        studies: &["sv97-table1"],
        judge: |results, set| {
            tally(programs(set), |p| {
                let found = classes(results, p, MIPS)?;
                let right = found.cache_misses >= 10 * found.both_miss && found.cache_misses > 0;
                Some((
                    reached(right, found.cache_misses >= found.both_miss),
                    format!("{} and {}", found.cache_misses, found.both_miss),
                ))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-SV-4",
        kind: Side,
        claim: "Twice the second level cuts the overhead of gcc about tenfold (5 to 20 times), that of vortex about \
                twofold (1.5 to 3 times)",
        studies: &["sv97-fig8"],
        judge: |results, set| {
            tally(programs(set).filter(|p| ["gcc", "vortex"].contains(&like(p))), |p| {
                let ratios =
                    L1.iter().flat_map(|&l1| LINES.map(|line| ratio(results, p, [l1, L2[0], line], [l1, L2[1], line])));
                let cut = geometric(ratios)?;
                let outcome = about(cut, if like(p) == "gcc" { 5.0..=20.0 } else { 1.5..=3.0 });
                Some((outcome, format!("{cut:.2} times")))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-SV-5",
        kind: Side,
        claim: "A first level of 128 KB instead of 1 KB cuts the overhead about threefold (2 to 4.5 times), on most \
                programs",
        studies: &["sv97-fig8"],
        judge: |results, set| {
            tally(programs(set), |p| {
                let ratios =
                    L2.iter().flat_map(|&l2| LINES.map(|line| ratio(results, p, [L1[0], l2, line], [L1[7], l2, line])));
                let cut = geometric(ratios)?;
                Some((about(cut, 2.0..=4.5), format!("{cut:.2} times")))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-SV-6",
        kind: Side,
        claim: "The best line is neither the shortest nor the longest, one of which is the worst, for twice the \
                overhead or more; in most caches of most programs",
        studies: &["sv97-fig8"],
        judge: |results, set| {
            tally(programs(set), |p| {
                let (mut inside, mut all, mut best_of) = (0, 0, [0; 4]);
                for by_line in every_cache(results, p)? {
                    let at = |least: bool| {
                        let order = |a: &usize, b: &usize| by_line[*a].total_cmp(&by_line[*b]);
                        let all = 0..by_line.len();
                        if least { all.min_by(order) } else { all.max_by(order) }
                    };
                    let (best, worst) = (at(true)?, at(false)?);
                    let twice = by_line[worst] >= 2.0 * by_line[best];
                    inside += usize::from((1..3).contains(&best) && !(1..3).contains(&worst) && twice);
                    best_of[best] += 1;
                    all += 1;
                }
                let best = LINES.iter().zip(best_of).filter(|b| b.1 > 0).map(|(line, n)| format!("{line} in {n}"));
                Some((
                    2 * inside > all,
                    format!("{inside} of {all} caches; best line {}", best.collect::<Vec<_>>().join(", ")),
                ))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-SV-7",
        kind: Side,
        claim: "Lines of 16 bytes are close to the worst: at least 80 % of the most overhead of any line, in the \
                caches of Table 1",
        studies: &["sv97-fig8"],
        judge: |results, set| {
            tally(programs(set), |p| {
                let by_line = lines(results, p, 8 * KB, 512 * KB)?;
                let most = by_line.iter().copied().fold(0.0, f64::max);
                let text =
                    LINES.iter().zip(&by_line).map(|(line, x)| format!("{line}: {}", cpi(*x))).collect::<Vec<_>>();
                let least = by_line.iter().copied().fold(f64::MAX, f64::min);
                Some((reached(by_line[0] >= 0.8 * most && most > 0.0, by_line[0] > least), text.join(", ")))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-SV-8",
        kind: Side,
        claim: "Writing modified lines back adds as large a share of overhead as the share of misses that displace one \
                (within a third), as the estimate of 50 % supposes",
        studies: &["sv97-table3"],
        judge: |results, set| {
            tally(programs(set), |p| {
                let machine = results.machine(&p.name, SOFTVM)?;
                let (dirty, rise) = (dirty_victims(machine)?, rise(machine)?);
                // Below one percent there is nothing to compare.
                let right = (2.0 / 3.0..=1.5).contains(&(rise / dirty));
                let outcome = if dirty < 1.0 { Outcome::Silent } else { reached(right, rise > 0.0) };
                Some((outcome, format!("{} displace a modified line, +{}", percent(dirty), percent(rise))))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-SV-9",
        kind: Side,
        claim: "At the rates of Mach, protection changes cost 0.019 to 0.164 cycles per instruction, at that of Ultrix \
                0.0001: also with the cost of a change that is measured (within a factor of two)",
        studies: &["sv97-table5"],
        judge: |results, _| {
            let Some(each) = changes(results, SNAPSHOTS, SOFTVM).and_then(|c| c.each()) else {
                return untestable("no change of protection was run.");
            };
            let paper = printed::table("sv97_table5");
            let rates: Vec<f64> = paper.rows().filter_map(|row| paper.number(row, "per_million_instr")).collect();
            let (low, high) = rates.iter().fold((f64::MAX, 0.0), |(l, h), &r| (r.min(l), r.max(h)));
            let by_formula = [low, high].map(|rate| ProtectionSweep::SV97.cpi(rate));
            let by_measure = [low, high].map(|rate| rate * each / 1e6);
            let near = |a: f64, b: f64| (0.5..=2.0).contains(&(a / b));
            let right = by_formula.iter().zip([0.019, 0.164]).all(|(x, printed)| (x - printed).abs() < 0.001)
                && by_measure.iter().zip(by_formula).all(|(x, y)| near(*x, y));
            let text = format!(
                "formula {} cycles a change, {} to {}; measured on {SNAPSHOTS} {each:.0} cycles, {} to {}; a \
                 thousandth of the rate {}.",
                ProtectionSweep::SV97.cycles(),
                cpi(by_formula[0]),
                cpi(by_formula[1]),
                cpi(by_measure[0]),
                cpi(by_measure[1]),
                cpi(by_measure[1] / 1000.0)
            );
            if right { holds(text) } else { fails(text) }
        },
    },
    Hypothesis {
        id: "H-SV-10",
        kind: Side,
        claim: "A sweep costs more for larger pages and less with longer lines; leaving raises to traps removes most \
                of their cost",
        studies: &["sv97-table5"],
        judge: sweeps,
    },
    Hypothesis {
        id: "H-SV-11",
        kind: Side,
        claim: "Instruction-side misses are the largest part of gcc's overhead",
        studies: &["sv97-table4"],
        judge: |results, set| {
            tally(programs(set).filter(|p| like(p) == "gcc"), |p| {
                let machine = results.machine(&p.name, SOFTVM)?;
                let rows = || machine.overhead.iter().filter(|row| row.of_misses);
                let most = rows().max_by(|a, b| a.cpi.unwrap_or(0.0).total_cmp(&b.cpi.unwrap_or(0.0)))?;
                let handler = &machine.system.as_ref()?.handler;
                let text = format!(
                    "handler runs: {} for fetches, {} for data; largest row: {}, {} of {}",
                    handler.fetch_runs,
                    handler.data_runs,
                    most.event,
                    cpi(most.cpi?),
                    cpi(overhead(machine)?)
                );
                Some((most.event == "handler run for a fetch", text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-SV-12",
        kind: Side,
        claim: "Recursion is rare: at most 2 % of the handler's runs load an entry for another run",
        studies: &["sv97-table4"],
        judge: |results, set| {
            tally(programs(set), |p| {
                let handler = &results.machine(&p.name, SOFTVM)?.system.as_ref()?.handler;
                let runs = handler.data_runs + handler.fetch_runs;
                let share = 100.0 * handler.upte_loads as f64 / runs.max(1) as f64;
                (runs > 0).then(|| (share <= 2.0, format!("{} of {runs}", percent(share))))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-SV-13",
        kind: Side,
        claim: "Sharing a segment by its identifier makes no synonyms and needs no flush when processes switch",
        studies: &["sv97-table5"],
        judge: |results, _| {
            if results.machine(SNAPSHOTS, SOFTVM).is_none() {
                return untestable("nothing was run.");
            }
            let [shared, apart] = [true, false].map(two_processes);
            let say = |c: &farreach_types::counts::SystemCounts| {
                let flushed = format!("{} flushed", with_noun(c.flushed_lines, "line"));
                format!(
                    "{}, {flushed}, {}",
                    with_noun(c.synonym_misses, "synonym"),
                    with_noun(c.data.l2_misses, "miss")
                )
            };
            let text =
                format!("two processes on one page, by hand: {}; with a segment each: {}.", say(&shared), say(&apart));
            let right = shared.synonym_misses == 0 && shared.flushed_lines == 0 && apart.flushed_lines > 0;
            if right { holds(text) } else { fails(text) }
        },
    },
    Hypothesis {
        id: "H-SV-14",
        kind: Side,
        claim: "With a second level of 2 MB to a side the overhead is far below 1 % of run time (at most 0.5 %)",
        studies: &["sv97-fig8"],
        judge: |results, set| {
            tally(programs(set), |p| {
                let time = percent_of_time(results.machine(&p.name, &second(SOFTVM, 2048 * KB))?)?;
                Some((time <= 0.5, percent(time)))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-SV-15",
        kind: Side,
        claim: "Second levels of 128 KB or more make a machine without TLB practical (at most twice the overhead of a \
                TLB); below, overhead grows quickly (at least half as much again at 64 KB), on most programs",
        studies: &["sv97-fig8"],
        judge: |results, set| {
            tally(programs(set), |p| {
                let at = |preset, l2| overhead_of(results, p, &second(preset, l2));
                let practical = SECOND.iter().filter(|&&l2| l2 >= 128 * KB);
                let practical =
                    practical.map(|&l2| Some(at(SOFTVM, l2)? <= 2.0 * at(MIPS, l2)?)).collect::<Option<Vec<_>>>()?;
                let (half, whole) = (at(SOFTVM, 64 * KB)?, at(SOFTVM, 128 * KB)?);
                let right = match practical.iter().all(|x| *x) {
                    true => reached(half >= 1.5 * whole, half >= whole),
                    false => Outcome::No,
                };
                let tlb = at(MIPS, 128 * KB)?;
                Some((right, format!("{} at 64K, {} at 128K, TLB {}", cpi(half), cpi(whole), cpi(tlb))))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-SV-16",
        kind: Main,
        claim: "With write-backs software translation costs about what Ultrix' TLB handling costs (within a factor of \
                two), and a half to a sixth of that of OSF/1 and Mach, as quoted",
        studies: &["sv97-table2"],
        judge: |results, set| {
            let cost = mean(programs(set).map(|p| with_write_backs(results.machine(&p.name, SOFTVM)?)));
            let Some(cost) = cost else { return untestable("no program was run.") };
            let paper = printed::table("sv97_table2");
            let of = |system| paper.number(system, "overhead_cpi").expect("it is printed");
            let systems: Vec<&str> = paper.rows().collect();
            let (ultrix, others) = (of(systems[0]), &systems[1..]);
            let below = |limit: f64| others.iter().all(|s| cost / of(s) <= limit);
            let right = cost / ultrix <= 2.0 && below(0.5);
            let stronger = cost / ultrix < 0.5 && below(1.0 / 6.0);
            let shares = systems.iter().map(|s| format!("{s} {}, ratio {:.2}", of(s), cost / of(s)));
            let text = format!("mean {} (paper: 0.050); {}.", cpi(cost), shares.collect::<Vec<_>>().join("; "));
            match (right, stronger) {
                (true, true) => Finding { verdict: Verdict::Stronger, why: text },
                (true, false) => holds(text),
                (false, _) => fails(text),
            }
        },
    },
    Hypothesis {
        id: "H-SV-17",
        kind: Side,
        claim: "Software translation costs at most 0.1 cycles per instruction on every program, as printed",
        studies: &["sv97-table3"],
        judge: |results, set| at_most_a_tenth(results, set).all(),
    },
];

/// Programs on which software translation costs no more than the paper prints for any of its own.
fn at_most_a_tenth(results: &Results, set: &Set) -> Tally {
    tally(programs(set), |p| {
        let (softvm, mips) = (overhead_of(results, p, SOFTVM)?, overhead_of(results, p, MIPS)?);
        Some((softvm <= 0.1, format!("{}, TLB {}", cpi(softvm), cpi(mips))))
    })
}

/// For a gain of about a factor: within, above or short of its limits.
fn about(gain: f64, limits: std::ops::RangeInclusive<f64>) -> Outcome {
    if gain > *limits.end() { Outcome::Stronger } else { reached(gain >= *limits.start(), gain >= 1.0) }
}

/// Overhead at one point of Figure 8 over that at another: L1, L2, line.
fn ratio(results: &Results, p: &Program, one: [u64; 3], other: [u64; 3]) -> Option<f64> {
    let at = |[l1, l2, line]: [u64; 3]| overhead_of(results, p, &machine(l1, l2, line)).filter(|&x| x > 0.0);
    Some(at(one)? / at(other)?)
}

fn geometric(ratios: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    mean(ratios.map(|r| r.map(f64::ln))).map(f64::exp)
}

/// Overhead by line size.
fn lines(results: &Results, p: &Program, l1: u64, l2: u64) -> Option<Vec<f64>> {
    LINES.iter().map(|&line| overhead_of(results, p, &machine(l1, l2, line))).collect()
}

/// The same in each pair of first and second level of Figure 8.
fn every_cache(results: &Results, p: &Program) -> Option<Vec<Vec<f64>>> {
    L2.iter().flat_map(|&l2| L1.iter().map(move |&l1| lines(results, p, l1, l2))).collect()
}

/// H-SV-10.
fn sweeps(results: &Results, _: &Set) -> Finding {
    let each = |line: u64| changes(results, SNAPSHOTS, &caches(SOFTVM, 8 * KB, 512 * KB, line))?.each();
    let (Some(by_line), Some(eager), Some(raised_lazily), Some(raised)) = (
        table5::LINES.iter().map(|&line| each(line)).collect::<Option<Vec<f64>>>(),
        changes(results, SNAPSHOTS, SOFTVM),
        changes(results, SNAPSHOTS, LAZY),
        raises(results, SNAPSHOTS),
    ) else {
        return untestable("no change of protection was run.");
    };
    let falls = by_line.is_sorted_by(|a, b| a > b);
    let grows = [4, 16, 64].map(|kb| table5::least(kb * KB, 16)).is_sorted_by(|a, b| a < b);
    // Cost beyond the share of the changes that lower protection comes from raises.
    let lowered = eager.cycles * (eager.pages - raised) as f64 / eager.pages as f64;
    let left = (raised_lazily.cycles - lowered).max(0.0) / (eager.cycles - lowered);
    let text = format!(
        "on {SNAPSHOTS} {} cycles a change with lines of {:?}; {raised} of {} changes are raises, left to traps they \
         cost {} of their sweeps. Pages of 4K only: that larger ones cost more is the formula's word.",
        by_line.iter().map(|x| format!("{x:.0}")).collect::<Vec<_>>().join(", "),
        table5::LINES,
        eager.pages,
        percent(100.0 * left)
    );
    if falls && grows && raised > 0 && left < 0.5 { holds(text) } else { fails(text) }
}
