//! Reservation when memory is short, and when other programs have fragmented it. From the paper's text, not from a
//! table.

use super::*;
use crate::machines::SINGLE;
use crate::study::Study;
use farreach_types::papers::{Chart, Origin, Program, Section, Series, Table};

pub(crate) const PRESSURE: Study = Study {
    id: "t94-pressure",
    title: "Page reservation as memory becomes short",
    rules: "T94-46, T94-47, CW-7",
    plan: |results, set| {
        set.programs.iter().flat_map(|p| wanted(results, p, &SHORT.map(|s| Memory::of(s, 0)))).collect()
    },
    section: pressure,
};

pub(crate) const FRAGMENTATION: Study = Study {
    id: "t94-fragmentation",
    title: "Page reservation in fragmented memory",
    rules: "T94-48, CW-7",
    plan: |results, set| {
        set.programs.iter().flat_map(|p| wanted(results, p, &SCATTERED.map(|s| Memory::of(200, s)))).collect()
    },
    section: fragmentation,
};

/// Memory free for the program, in percent of its peak use.
pub(crate) const SHORT: [u64; 7] = [100, 102, 105, 110, 125, 150, 200];
/// Percent of all frames that belong to other programs. The program's peak use is free twice over.
pub(crate) const SCATTERED: [u64; 7] = [0, 1, 2, 5, 10, 20, 50];

/// The size of memory.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    free: u64,
    pinned: u64,
}

impl Memory {
    /// In percent.
    pub(crate) fn of(free: u64, pinned: u64) -> Memory {
        Memory { free, pinned }
    }
}

/// Three systems: demand paging, reservation for subblocks, reservation and promotion for superpages. Nothing is read
/// ahead, so that all of them need the same memory.
pub(crate) const SYSTEMS: [(&str, &str); 3] =
    [("single", SINGLE), ("partial", "t94/partial:prefetch=false"), ("superpage", "t94/superpage:prefetch=false")];

/// A system with this much memory for this program, once its peak use is known.
pub(crate) fn machine(results: &Results, program: &Program, system: &str, memory: Memory) -> Option<String> {
    let most = results.machine(&program.name, system)?.memory.resident_bytes >> 12;
    let free = (most * memory.free).div_ceil(100);
    // floor(pinned x frames) frames are taken, so at least the wanted number is left.
    let frames = (free * 100).div_ceil(100 - memory.pinned);
    let colon = if system.contains(':') { ',' } else { ':' };
    let fragments = if memory.pinned > 0 { format!(",fragmentation=0.{:02}", memory.pinned) } else { String::new() };
    Some(format!("{system}{colon}memory={}K{fragments}", frames * 4))
}

fn wanted(results: &Results, program: &Program, memories: &[Memory]) -> Vec<Request> {
    SYSTEMS
        .iter()
        .flat_map(|(_, system)| {
            let limited = memories.iter().filter_map(|&m| machine(results, program, system, m));
            std::iter::once((*system).to_owned()).chain(limited).collect::<Vec<_>>()
        })
        .map(|machine| Request::machine(&program.name, machine))
        .collect()
}

/// Share of the mapped pages that are in reserved frames, in percent. The first page of a region counts too.
pub(crate) fn placed(results: &Results, program: &Program, machine: &str) -> Option<f64> {
    let os = &results.machine(&program.name, machine)?.counts.os;
    let placed = os.reservations_made + os.reservations_honoured;
    (os.page_faults > 0).then(|| 100.0 * placed as f64 / os.page_faults as f64)
}

fn pressure(results: &Results, set: &Set, section: &mut Section) {
    let mut shares = Table::new("Pages in the frames reserved for them (partial)", "program");
    let mut misses =
        Table::new("Misses of 64 partial-subblock entries, in percent of the single-page-size TLB", "program");
    let mut faults = Table::new("Page faults with reservation, less those without", "program");
    for table in [&mut shares, &mut misses] {
        SHORT.iter().for_each(|s| table.column(format!("memory {s} %"), Origin::Measured, "%"));
        table.column("unlimited", Origin::Measured, "%");
    }
    SHORT.iter().for_each(|s| faults.column(format!("memory {s} %"), Origin::Measured, "faults"));
    let mut chart = Chart {
        title: "Pages in the frames reserved for them, by free memory".into(),
        x: "memory in percent of what the program uses".into(),
        places: SHORT.iter().map(|s| format!("{s} %")).chain(["unlimited".to_owned()]).collect(),
        y: "share of pages".into(),
        series: Vec::new(),
    };
    let partial = SYSTEMS[1].1;
    for p in &set.programs {
        let machines: Vec<Option<String>> =
            SHORT.iter().map(|&s| machine(results, p, partial, Memory::of(s, 0))).collect();
        let with = |of: &dyn Fn(&str) -> Option<f64>| -> Vec<Option<f64>> {
            machines.iter().map(|m| m.as_deref().and_then(of)).chain([of(partial)]).collect()
        };
        let share = with(&|m| placed(results, p, m));
        shares.row(head(p), share.iter().map(|&s| s.into()).collect());
        misses.row(head(p), with(&|m| results.percent(&p.name, m, SINGLE)).into_iter().map(Cell::from).collect());
        faults.row(
            head(p),
            SHORT
                .iter()
                .map(|&s| difference(results, p, s).map_or(Cell::Nothing, |d| Cell::Text(d.to_string())))
                .collect(),
        );
        chart.series.push(Series { name: head(p), values: share.into_iter().map(|s| s.map(|s| s / 100.0)).collect() });
    }
    section.tables = vec![shares, misses, faults];
    section.charts.push(chart);
    section.note(
        "Memory is in percent of the most that the program uses at any time; below 100 % it would not fit, as nothing \
         is paged out.",
    );
}

/// Page faults with reservation less those of demand paging with as much memory.
pub(crate) fn difference(results: &Results, program: &Program, short: u64) -> Option<i64> {
    let faults = |system: &str| {
        let machine = machine(results, program, system, Memory::of(short, 0))?;
        Some(results.machine(&program.name, &machine)?.counts.os.page_faults as i64)
    };
    Some(faults(SYSTEMS[1].1)? - faults(SYSTEMS[0].1)?)
}

fn fragmentation(results: &Results, set: &Set, section: &mut Section) {
    for (name, system) in &SYSTEMS[1..] {
        let mut table = Table::new(
            &format!("{name}: misses in percent of the single-page-size TLB, by frames of others"),
            "program",
        );
        SCATTERED.iter().for_each(|s| table.column(format!("{s} %"), Origin::Measured, "%"));
        for p in &set.programs {
            let cell = |&s: &u64| {
                let machine = machine(results, p, system, Memory::of(200, s));
                Cell::from(machine.and_then(|m| results.percent(&p.name, &m, SINGLE)))
            };
            table.row(head(p), SCATTERED.iter().map(cell).collect());
        }
        section.tables.push(table);
    }
    section.note(
        "Twice the memory that the program uses is free; the frames of others lie scattered at random among it \
         (seeded).",
    );
}
