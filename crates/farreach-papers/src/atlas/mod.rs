//! The atlas: all designs of the papers and since, on the same programs, with as many entries, bits, or as much area.
//! What wins where is computed from the numbers.

mod designs;
mod front;

use super::since::{BASE, MODEL, Walks, few, geomean, programs, share, walking, walks_enough};
use crate::number_text::{list, percent};
use crate::results::{Request, Results, Set};
use crate::study::Study;
pub(crate) use designs::{Budget, Entry, entries};
use farreach_types::papers::{Bars, Cell, Chart, Origin, Program, Section, Series, Table};
pub(crate) use front::is_on as is_on_front;

pub(crate) const STUDY: Study = Study {
    id: "atlas",
    title: "All designs on the same programs: equal entries, equal bits, equal area; what wins where",
    rules: "AREA-2, RMM15-46, HW-7",
    plan: |results, set| {
        let all = entries();
        let of = |p: &Program, budgets: &[Budget]| -> Vec<Request> {
            let machines = all.iter().filter(|e| budgets.contains(&e.budget)).flat_map(|e| [&e.base, &e.machine]);
            machines.map(|m| Request::machine(&p.name, m.as_str())).collect()
        };
        let first = programs(set).map(|p| Request::machine(&p.name, BASE));
        let wide = walking(results, set).flat_map(|p| of(p, &[Budget::Entries]));
        first.chain(wide).chain(few(set).flat_map(|p| of(p, &[Budget::Bits, Budget::Area]))).collect()
    },
    section,
};

/// What is measured: name, unit, and how it is read. Less is better.
pub(crate) struct Metric {
    /// In tables and files.
    pub name: &'static str,
    read: fn(&Results, &str, &str) -> Option<u64>,
}

/// All of them.
pub(crate) const METRICS: [Metric; 5] = [
    Metric { name: "walks", read: |r, p, m| r.misses(p, m) },
    Metric {
        name: "references",
        // One array alone has no walker: it pays for a miss as such.
        read: |r, p, m| {
            let walks = Walks::of(r, p, m)?;
            (walks.references() > 0 || walks.walks == 0).then_some(walks.references() - walks.hidden)
        },
    },
    Metric { name: "cycles", read: |r, p, m| Some(r.machine(p, m)?.cost.cycles) },
    Metric { name: "memory", read: |r, p, m| Some(r.machine(p, m)?.memory.resident_bytes) },
    Metric { name: "energy", read: |r, p, m| r.machine(p, m)?.cost.energy_pj.map(|pj| pj as u64) },
];
const WALKS: usize = 0;
const REFERENCES: usize = 1;
const CYCLES: usize = 2;
const MEMORY: usize = 3;

/// The programs of a budget.
fn of_budget<'a>(results: &'a Results, set: &'a Set, budget: Budget) -> Vec<&'a Program> {
    match budget {
        Budget::Entries => walking(results, set).collect(),
        _ => few(set).collect(),
    }
}

/// The metric, if it means the same for the design and its base: one array alone has no second level whose hits cost.
fn metric_of(entry: &Entry, which: usize) -> Option<&'static Metric> {
    let differs = which == CYCLES && entry.budget == Budget::Entries && entry.is_alone();
    (!differs).then_some(&METRICS[which])
}

/// A metric in percent of the base of the design, by geometric mean over the programs that walk often enough.
fn mean(results: &Results, set: &Set, entry: &Entry, which: usize) -> Option<f64> {
    let metric = metric_of(entry, which)?;
    let busy = of_budget(results, set, entry.budget).into_iter();
    let busy = busy.filter(|p| walks_enough(results, &p.name, &entry.base) == Some(true));
    let pairs = busy.map(|p| {
        let read = |machine: &str| (metric.read)(results, &p.name, machine);
        Some((read(&entry.machine)?, read(&entry.base)?))
    });
    geomean(pairs.collect::<Option<Vec<_>>>()?.into_iter())
}

/// The designs of a budget with their means.
fn means(results: &Results, set: &Set, budget: Budget) -> Vec<(Entry, Vec<Option<f64>>)> {
    let all = entries().into_iter().filter(|e| e.budget == budget);
    all.map(|e| {
        let values = (0..METRICS.len()).map(|which| mean(results, set, &e, which)).collect();
        (e, values)
    })
    .collect()
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    for budget in Budget::ALL {
        let mut all = means(results, set, budget);
        let title = match budget {
            Budget::Entries => "Equal entries: 1536 in the last level, in percent of the base, geometric means",
            Budget::Bits => "Equal bits: those of 1536 entries of one page, in percent of these, geometric means",
            Budget::Area => {
                "Equal area: that of 64 entries of one page, or of 512 entries of a second level, in percent"
            }
        };
        let mut table = Table::new(title, "design");
        table.column("paper", Origin::Computed, "");
        table.column("entries", Origin::Computed, "entries");
        for metric in &METRICS {
            table.column(metric.name, Origin::Measured, "%");
        }
        table.column("on the front", Origin::Measured, "");
        for (entry, values) in &all {
            let mut cells = vec![Cell::from(entry.paper), Cell::Count(entry.entries)];
            cells.extend(values.iter().map(|&v| Cell::from(v)));
            let others = |same: bool| {
                let some = all.iter().filter(move |(e, _)| !e.is_guest() && (!same || e.system_as_it_was()));
                some.map(|(_, values)| values.clone()).collect::<Vec<_>>()
            };
            let known = values.iter().any(Option::is_some) && !entry.is_guest();
            cells.push(Cell::from(match () {
                () if known && front::is_on(&others(false), values) => "of all",
                () if known && entry.system_as_it_was() && front::is_on(&others(true), values) => "system as it was",
                () => "",
            }));
            table.row(&entry.name, cells);
        }
        section.tables.push(table);
        if budget == Budget::Entries {
            section.bars.push(bars(&all));
        }
        all.retain(|(e, _)| !e.is_guest());
        say(&all, budget, section, "");
        let as_it_was: Vec<_> = all.iter().filter(|(e, _)| e.system_as_it_was()).cloned().collect();
        if as_it_was.len() < all.len() {
            say(&as_it_was, budget, section, ", with pages of 4 KB on demand");
        }
    }
    section.tables.push(winners(results, set, false));
    section.tables.push(winners(results, set, true));
    section.note(
        "On the front: no other design of the table is at least as good in all that is known of this one, and better \
         in something. Of all; or of those whose system is as it was, with pages of 4 KB on demand. References that \
         are hidden are not counted, since the program does not wait for them. Shadow and agile paging are in virtual \
         machines, and are compared with walks in two dimensions alone. Programs are those that walk often enough on \
         the base.",
    );
    section.note(
        "Equal entries: hierarchies of DS13 and RMM15 have the first level, walk caches and second level of the base; \
         ranges, runs and segments stand beside it. One array alone has no walker, whose references would \
         be counted, and no second level, whose hits would cost: it has walks only. Among themselves they pay 40 \
         cycles a miss, as in their paper. Equal bits and equal area are known of one array, and of \
         what was synthesised; bits of buffers and tables of prefetchers are not counted. Machines with virtual caches \
         (SV97) have no TLB of 1536 entries to compare.",
    );
    section.note(MODEL);
}

/// What wins, in words.
fn say(all: &[(Entry, Vec<Option<f64>>)], budget: Budget, section: &mut Section, which: &str) {
    let mut parts = Vec::new();
    for (metric, words) in [(WALKS, "fewest walks"), (REFERENCES, "fewest references"), (CYCLES, "fewest cycles")] {
        let known = all.iter().filter_map(|(e, values)| Some((e, values[metric]?)));
        let Some(best) = known.clone().map(|(_, v)| v).min_by(f64::total_cmp) else { continue };
        let names: Vec<String> = known.filter(|(_, v)| *v <= best).map(|(e, _)| e.name.clone()).collect();
        parts.push(format!("{words}: {} ({} of the base)", list(&names), percent(best)));
    }
    let pair = |a: usize, b: usize| {
        let rows: Vec<Vec<Option<f64>>> = all.iter().map(|(_, values)| vec![values[a], values[b]]).collect();
        let on = (0..rows.len()).filter(|&i| rows[i].iter().all(Option::is_some) && front::is_on(&rows, &rows[i]));
        list(&on.map(|i| all[i].0.name.clone()).collect::<Vec<_>>())
    };
    if !parts.is_empty() {
        let (time, work) = (pair(CYCLES, MEMORY), pair(WALKS, REFERENCES));
        section.note(format!(
            "Equal {}{which}, by geometric mean: {}. On the front of cycles and memory: {time}. Of walks and \
             references: {work}.",
            budget.name(),
            parts.join("; ")
        ));
    }
}

fn bars(all: &[(Entry, Vec<Option<f64>>)]) -> Bars {
    let chart = Chart {
        title: "Equal entries".into(),
        x: "design".into(),
        places: all.iter().map(|(e, _)| e.name.clone()).collect(),
        y: "% of the base".into(),
        series: [WALKS, REFERENCES, CYCLES]
            .map(|i| Series { name: METRICS[i].name.into(), values: all.iter().map(|(_, values)| values[i]).collect() })
            .into(),
    };
    Bars { chart, clip: Some(200.0) }
}

/// The best designs of each program.
fn winners(results: &Results, set: &Set, as_it_was: bool) -> Table {
    let title = match as_it_was {
        true => "What wins where with pages of 4 KB on demand, equal entries: percent of the base",
        false => "What wins where, equal entries: percent of the base",
    };
    let mut table = Table::new(title, "program");
    let which = [WALKS, REFERENCES, CYCLES];
    for metric in which {
        table.column(format!("fewest {}", METRICS[metric].name), Origin::Measured, "");
    }
    let all = entries().into_iter().filter(|e| e.budget == Budget::Entries && !e.is_guest());
    let all: Vec<Entry> = all.filter(|e| !as_it_was || e.system_as_it_was()).collect();
    for p in walking(results, set) {
        let cells = which.map(|metric| {
            let of = |e: &Entry| {
                let read = metric_of(e, metric)?.read;
                let (own, base) = (read(results, &p.name, &e.machine)?, read(results, &p.name, &e.base)?);
                (base > 0).then(|| share(own, base))
            };
            let known: Vec<(&Entry, f64)> = all.iter().filter_map(|e| Some((e, of(e)?))).collect();
            let Some(best) = known.iter().map(|k| k.1).min_by(f64::total_cmp) else { return Cell::Nothing };
            let names: Vec<String> = known.iter().filter(|k| k.1 <= best).map(|k| k.0.name.clone()).collect();
            let named = if names.len() > 3 { format!("{} designs", names.len()) } else { list(&names) };
            Cell::Text(format!("{named} ({})", percent(best)))
        });
        table.row(&p.name, cells.into());
    }
    table
}

/// The numbers behind it as one long table, RFC 4180: a row for each program, budget and design.
pub fn csv(results: &Results, set: &Set) -> String {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(Vec::new());
    let mut write = |row: &[String]| writer.write_record(row).expect("memory takes every row of equal length");
    let heads = [
        "program",
        "budget",
        "paper",
        "design",
        "machine",
        "base",
        "entries",
        "area_um2",
        "instructions",
        "lookups",
        "walks",
        "sole_answers",
        "references",
        "hidden_references",
        "background_references",
        "cycles",
        "percent_of_time",
        "resident_bytes",
        "table_bytes",
        "energy_pj",
    ];
    write(&heads.map(str::to_owned));
    let number = |n: Option<u64>| n.map_or(String::new(), |n| n.to_string());
    let real = |x: Option<f64>| x.map_or(String::new(), |x| x.to_string());
    for entry in entries() {
        for p in of_budget(results, set, entry.budget) {
            let Some(measured) = results.measured(&p.name, &entry.machine) else { continue };
            let Some(walks) = Walks::of(results, &p.name, &entry.machine) else { continue };
            let m = &measured.machine;
            let table = m.counts.tlb.parts.get("table").map(|part| part.counters.get("table_bytes_most"));
            // One array alone has no walker.
            let walker = |n: u64| (walks.references() > 0 || walks.walks == 0).then_some(n);
            write(&[
                p.name.clone(),
                entry.budget.name().into(),
                entry.paper.into(),
                entry.name.clone(),
                entry.machine.clone(),
                entry.base.clone(),
                entry.entries.to_string(),
                real(entry.area_um2),
                measured.workload.instructions.to_string(),
                m.counts.tlb.lookups.to_string(),
                walks.walks.to_string(),
                walks.sole.to_string(),
                number(walker(walks.demand)),
                number(walker(walks.hidden)),
                number(walker(walks.background)),
                walks.cycles.to_string(),
                real(m.cost.percent_of_time),
                m.memory.resident_bytes.to_string(),
                number(table),
                real(m.cost.energy_pj),
            ]);
        }
    }
    let bytes = writer.into_inner().expect("memory takes every byte");
    String::from_utf8(bytes).expect("every field is text")
}
