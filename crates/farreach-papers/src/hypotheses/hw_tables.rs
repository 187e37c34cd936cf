//! Claims about page tables.

use super::hw_nested;
use super::hw_prefetch::{finding, means};
use super::hypothesis::Hypothesis;
use super::judge::{Outcome, Tally, reached, tally, untestable, worst};
use crate::number_text::percent;
use crate::results::{Results, Set, mean};
use crate::since::identities::of_tlbs;
use crate::since::tables::{
    CACHES, CUCKOO_CACHES, CUCKOO_GROWN, GROWING, HASHED_CACHES, HTAB_CACHES, IN_A_ROW, LEARNED_CACHES, LEARNED_MAPPED,
    MAPPED, MAPPED_CACHES, OF_TRANSLATIONS, PRIORITY, each, from_memory, of_table, walk_cycles,
};
use crate::since::{
    BASE, BASE_CACHES, BASE_PRINTED, Kind, Walks, few, geomean, of_kinds, programs, share, walking, walks_enough,
};
use farreach_types::papers::Kind::{Main, Side};
use farreach_types::papers::{Finding, Program};

/// A program, and its references a walk with the two sizes of walk caches.
type Row = (String, Option<f64>, Option<f64>);

/// Cycles of walks through caches, in percent of the radix tree with its walk caches, on programs that walk.
fn cycles(results: &Results, set: &Set, machine: &str, rule: fn(f64) -> Outcome) -> Tally {
    tally(few(set), |p| {
        let (table, radix) = (walk_cycles(results, &p.name, machine)?, walk_cycles(results, &p.name, BASE_CACHES)?);
        let enough = walks_enough(results, &p.name, BASE_CACHES)?;
        let left = share(table, radix);
        Some((if enough { rule(left) } else { Outcome::Silent }, format!("{} of the cycles", percent(left))))
    })
}

/// A program walks often enough on the base to say something.
fn walked<'a>(results: &'a Results, set: &'a Set) -> impl Iterator<Item = &'a Program> + Clone {
    programs(set).filter(|p| walks_enough(results, &p.name, BASE) == Some(true))
}

/// What was found natively, and in virtual machines.
fn both(native: Finding, nested: Finding) -> Finding {
    let verdict = worst([native.verdict, nested.verdict]);
    Finding { verdict, why: format!("Natively: {} In virtual machines: {}", native.why, nested.why) }
}

/// Ways of a table.
const WAYS: u64 = 3;

pub(super) const CLAIMS: &[Hypothesis] = &[
    Hypothesis {
        id: "H-HW-12",
        kind: Main,
        claim: "Hashed page tables run 1 to 27 % faster than radix trees with walk caches, in virtual machines 6 to \
                32 %; tested as cycles of walks through caches, half full tables",
        studies: &["since-tables", "since-guests"],
        judge: |results, set| {
            let native = cycles(results, set, HASHED_CACHES, |left| (left < 100.0).into()).all();
            both(native, hw_nested::hashed(results, set))
        },
    },
    Hypothesis {
        id: "H-HW-13",
        kind: Main,
        claim: "Walk caches leave 1.13 references a walk on programs of SPEC: here at most a tenth more by the mean of \
                their stand-ins",
        studies: &["since-tables"],
        judge: |results, set| {
            let spec = walked(results, set)
                .filter(|p| p.is_like(&["mcf", "omnetpp", "astar", "soplex", "cactusADM", "GemsFDTD", "gcc"]));
            let numbers: Vec<Row> = spec
                .map(|p| (p.name.clone(), each(results, &p.name, BASE), each(results, &p.name, BASE_PRINTED)))
                .collect();
            let of = |which: fn(&Row) -> Option<f64>| mean(numbers.iter().map(which));
            let (Some(ours), Some(printed)) = (of(|n| n.1), of(|n| n.2)) else {
                return untestable("no program it speaks of was run.");
            };
            let all: Vec<String> =
                numbers.iter().filter_map(|(name, ours, _)| Some(format!("{name} {:.2}", (*ours)?))).collect();
            let text =
                format!("mean {ours:.2} ({}); with walk caches of 32, 16 and 16 entries {printed:.2}", all.join(", "));
            finding(reached(ours <= 1.1 * 1.13, false), text)
        },
    },
    Hypothesis {
        id: "H-HW-14",
        kind: Main,
        claim: "References a walk stay as they are with a hashed table when memory grows, and grow with a radix tree",
        studies: &["since-tables"],
        judge: |results, _| {
            let of = |machine| GROWING.map(|p| each(results, p, machine)).into_iter().collect::<Option<Vec<f64>>>();
            let (Some(radix), Some(hashed)) = (of(BASE), of("since/hashed")) else {
                return untestable("it was not run.");
            };
            let text = |all: &[f64]| all.iter().map(|x| format!("{x:.2}")).collect::<Vec<_>>().join(", ");
            let why = format!(
                "references a walk on random updates in 16 MB, 256 MB, 2 GB, 16 GB: radix {}, hashed {}",
                text(&radix),
                text(&hashed)
            );
            let grows = |all: &[f64]| all[3] - all[0];
            let flat = grows(&hashed).abs() <= 0.1 * hashed[0];
            finding(reached(flat && grows(&radix) > 0.1, grows(&radix) > grows(&hashed)), why)
        },
    },
    Hypothesis {
        id: "H-HW-15",
        kind: Main,
        claim: "A radix tree with any of five walk caches reads memory far less often than an inverted table: at most \
                half as often",
        studies: &["since-tables"],
        judge: |results, set| {
            tally(few(set), |p| {
                let all = CACHES.map(|c| from_memory(results, &p.name, c.1)).into_iter().collect::<Option<Vec<_>>>()?;
                let (least, radix) = (*all.iter().min()?, *all.iter().max()?);
                let htab = from_memory(results, &p.name, HTAB_CACHES)?;
                let enough = walks_enough(results, &p.name, BASE_CACHES)?;
                let hashed = from_memory(results, &p.name, HASHED_CACHES)?;
                let text =
                    format!("{least} to {radix} reads of memory, inverted {htab}, eight pages to a line {hashed}");
                let outcome = reached(2 * radix <= htab, radix < htab);
                Some((if enough { outcome } else { Outcome::Silent }, text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-HW-16",
        kind: Main,
        claim: "Caches of translations beat caches of page table entries; tested as references of walks with 38 \
                entries: the best of three against the best of two",
        studies: &["since-tables"],
        judge: |results, set| {
            tally(walked(results, set), |p| {
                let all: Option<Vec<u64>> =
                    CACHES.iter().map(|c| Some(Walks::of(results, &p.name, c.0)?.demand)).collect();
                let all = all?;
                let (ours, theirs) = all.split_at(OF_TRANSLATIONS);
                let (best, other) = (*ours.iter().min()?, *theirs.iter().min()?);
                let named: Vec<String> =
                    CACHES.iter().zip(&all).map(|(c, references)| format!("{} {references}", c.2)).collect();
                let memory: Option<Vec<u64>> = CACHES.iter().map(|c| from_memory(results, &p.name, c.1)).collect();
                let memory = memory.map_or(String::new(), |all| {
                    format!("; from memory {}", all.iter().map(u64::to_string).collect::<Vec<_>>().join(", "))
                });
                // All of them make one reference a walk.
                let same = all.iter().all(|references| *references == best);
                let outcome = if same { Outcome::Silent } else { reached(best < other, best == other) };
                Some((outcome, format!("{}{memory}", named.join(", "))))
            })
            .most()
        },
    },
    Hypothesis {
        id: "H-HW-17",
        kind: Main,
        claim: "Elastic cuckoo tables cut the overhead of translation by 41 % on average; tested as cycles of walks \
                through caches",
        studies: &["since-tables"],
        judge: |results, set| {
            let all: Vec<(u64, u64)> = few(set)
                .filter(|p| walks_enough(results, &p.name, BASE_CACHES) == Some(true))
                .filter_map(|p| {
                    let of = |machine| walk_cycles(results, &p.name, machine);
                    Some((of(CUCKOO_CACHES)?, of(BASE_CACHES)?))
                })
                .collect();
            let Some(left) = geomean(all.into_iter()) else { return untestable("it was not run.") };
            let each = cycles(results, set, CUCKOO_CACHES, |left| (left < 100.0).into());
            let text = format!("by geometric mean {} of the cycles are left; {}", percent(left), each.said(true));
            finding(reached(left <= 59.0, left < 100.0), text.trim_end_matches('.').to_owned())
        },
    },
    Hypothesis {
        id: "H-HW-18",
        kind: Side,
        claim: "A cuckoo walk reads one entry of each way in one step, while the table grows, too",
        studies: &["since-tables"],
        judge: |results, set| {
            tally(few(set), |p| {
                let machine = results.machine(&p.name, CUCKOO_GROWN)?;
                let of = |name| of_table(results, &p.name, CUCKOO_GROWN, name);
                let (size, direct, both) = (of("size")?, of("direct")?, of("both")?);
                let (complete, pud) = (of("complete")?, of("by_pud")?);
                let made = &machine.counts.tlb.parts.get("table")?.memory.made;
                let known = WAYS * size + direct + 2 * WAYS * both;
                let rest = made.references.checked_sub(known);
                let right =
                    rest.is_some_and(|rest| (WAYS * (complete + pud)..=3 * WAYS * (complete + pud)).contains(&rest));
                let one = made.steps == machine.counts.tlb.misses;
                let (resizes, text) =
                    (of("resizes")?, format!("{} references in {} steps", made.references, made.steps));
                let text = format!("{text}, {resizes} times resized");
                Some((if resizes == 0 { Outcome::Silent } else { (right && one).into() }, text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-HW-19",
        kind: Side,
        claim: "A table of three ways fills to 0.6 with fewer than 1.5 entries put elsewhere an insert",
        studies: &["since-tables"],
        judge: |results, set| {
            tally(few(set), |p| {
                let of = |name| of_table(results, &p.name, CUCKOO_GROWN, name);
                let (moved, writes, resizes) = (of("collisions")?, of("table_writes")?, of("resizes")?);
                let each = moved as f64 / writes.max(1) as f64;
                let text = format!("{each:.3} an insert, {resizes} times resized");
                Some((if resizes == 0 { Outcome::Silent } else { (each < 1.5).into() }, text))
            })
            .all()
        },
    },
    Hypothesis {
        id: "H-HW-20",
        kind: Main,
        claim: "Tables that grow in place need 92 % less memory in a row than elastic cuckoo tables, 1 MB for 64 MB; \
                judged in 16 GB, since the paper's programs have tens of GB",
        studies: &["since-tables"],
        judge: |results, _| {
            let of = |program| {
                let [cuckoo, me] = IN_A_ROW.map(|m| of_table(results, program, m, "table_contiguous"));
                Some((cuckoo?, me?))
            };
            let all = MAPPED.map(of).into_iter().collect::<Option<Vec<(u64, u64)>>>();
            let Some(all) = all else { return untestable("it was not run.") };
            let saved = |(cuckoo, me): (u64, u64)| 100.0 - share(me, cuckoo);
            let said = |pair: (u64, u64)| {
                format!("{} KB for {} KB, {} less", pair.1 >> 10, pair.0 >> 10, percent(saved(pair)))
            };
            let large = all[1];
            let outcome = reached(saved(large) >= 92.0 && large.1 <= 1 << 20, saved(large) > 0.0);
            finding(outcome, format!("in 16 GB {}; in 2 GB {}", said(large), said(all[0])))
        },
    },
    Hypothesis {
        id: "H-HW-21",
        kind: Main,
        claim: "A flattened table with walk caches makes 1.0 references a walk where the radix tree makes 1.5: at most \
                1.05 by the mean",
        studies: &["since-tables"],
        judge: |results, set| {
            let of = |machine: &str| mean(walked(results, set).map(|p| each(results, &p.name, machine)));
            let (Some(flat), Some(radix)) = (of("since/flat"), of(BASE)) else { return untestable("it was not run.") };
            let speed = means(results, set, "flat").map_or(String::new(), |m| format!("; {}", m.3));
            let text = format!("means: flattened {flat:.2}, radix {radix:.2}{speed}");
            finding(reached(flat <= 1.05, flat < radix), text)
        },
    },
    Hypothesis {
        id: "H-HW-22",
        kind: Main,
        claim: "Flattened tables with priority in caches are 9.2 % faster, and priority alone 6.8 %; tested natively, \
                as cycles of walks through caches: fewer with both than with either. In virtual machines flattened \
                tables make 2.8 references a walk where radix trees make 4.4",
        studies: &["since-tables", "since-guests"],
        judge: |results, set| {
            let native = tally(few(set), |p| {
                let radix = walk_cycles(results, &p.name, BASE_CACHES)?;
                let all = PRIORITY.map(|machine| Some(share(walk_cycles(results, &p.name, machine)?, radix)));
                let [flat, priority, both] = [all[0]?, all[1]?, all[2]?];
                let text = format!(
                    "{} of the cycles with both, flattened {}, priority {}",
                    percent(both),
                    percent(flat),
                    percent(priority)
                );
                let outcome = reached(both < 100.0 && both < flat.min(priority), both < 100.0);
                let enough = walks_enough(results, &p.name, BASE_CACHES)?;
                Some((if enough { outcome } else { Outcome::Silent }, text))
            })
            .all();
            both(native, hw_nested::flat(results, set))
        },
    },
    Hypothesis {
        id: "H-HW-23",
        kind: Main,
        claim: "With DMT a walk makes one reference natively, two in virtual machines; 16 registers cover more than \
                99 % of the walks; in virtual machines walks are 1.58 times as fast, and programs 1.20 times",
        studies: &["since-tables", "since-guests"],
        judge: |results, set| {
            let native = tally(walked(results, set), |p| {
                let walks = Walks::of(results, &p.name, "since/dmt")?;
                let covered = of_table(results, &p.name, "since/dmt", "covered")?;
                let (share, each) = (share(covered, walks.walks), walks.each()?);
                Some((
                    reached(share > 99.0 && each <= 1.05, each < 1.5),
                    format!("{} covered, {each:.2} a walk", percent(share)),
                ))
            })
            .all();
            both(native, hw_nested::dmt(results, set))
        },
    },
    Hypothesis {
        id: "H-HW-24",
        kind: Main,
        claim: "Learned page tables cut the overhead of translation by 44 %, within 1 % of one reference a walk; \
                tested as references, and as cycles of walks through caches",
        studies: &["since-tables"],
        judge: |results, set| {
            let one = tally(walked(results, set), |p| {
                let (learned, radix) = (each(results, &p.name, "since/learned")?, each(results, &p.name, BASE)?);
                let of = |name| of_table(results, &p.name, "since/learned", name);
                let mut text = format!(
                    "{learned:.3}, radix {radix:.3}; {} nodes of models read, {} lines fitted anew",
                    of("nodes")?,
                    of("refits")?
                );
                if let Some(mapped) = each(results, &p.name, LEARNED_MAPPED) {
                    text += &format!("; with memory mapped before {mapped:.3}");
                }
                Some((reached(learned <= 1.01, learned < radix), text))
            });
            let cycles_left = |learned: &str, radix: &str| {
                let pairs = few(set).filter(|p| walks_enough(results, &p.name, BASE_CACHES) == Some(true)).map(|p| {
                    let of = |machine| walk_cycles(results, &p.name, machine);
                    Some((of(learned)?, of(radix)?))
                });
                geomean(pairs.collect::<Option<Vec<_>>>()?.into_iter())
            };
            let [learned, radix] = MAPPED_CACHES;
            let Some((left, mapped)) = cycles_left(LEARNED_CACHES, BASE_CACHES).zip(cycles_left(learned, radix)) else {
                return untestable("it was not run.");
            };
            let time = finding(
                reached(left <= 56.0, left < 100.0),
                format!(
                    "by geometric mean {} of the cycles of the radix tree, with memory mapped before {}",
                    percent(left),
                    percent(mapped)
                ),
            );
            let said = format!(
                "References a walk: {} Cycles: {} Pages come one by one here, and lines are fitted anew for them.",
                one.said(true),
                time.why
            );
            Finding { verdict: worst([one.all().verdict, time.verdict]), why: said }
        },
    },
    Hypothesis {
        id: "H-HW-55",
        kind: Side,
        claim: "No organisation of the page table changes a count of the TLBs",
        studies: &["since-identities"],
        judge: |results, set| {
            let mut parts = Vec::new();
            for design in of_kinds(&[Kind::Table]) {
                let found = tally(programs(set), |p| {
                    let (with, without) =
                        (of_tlbs(results, &p.name, design.machine)?, of_tlbs(results, &p.name, BASE)?);
                    Some((with == without, format!("{} misses", with[1])))
                });
                let finding = found.all();
                parts.push((design.name, finding));
            }
            let first = parts[0].1.verdict;
            let programs = walking(results, set).count();
            let why = match parts.iter().find(|(_, f)| f.verdict != first) {
                None if programs > 0 => format!("equal for {} tables on {programs} programs.", parts.len()),
                None => "it was not run.".into(),
                Some((name, finding)) => format!("{name}: {}", finding.why),
            };
            let verdict = parts.iter().fold(first, |all, (_, f)| worst([all, f.verdict]));
            Finding { verdict, why }
        },
    },
];
