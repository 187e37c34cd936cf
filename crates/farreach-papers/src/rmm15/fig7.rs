//! Figure 7: remaining walks by number of ranges.

use super::table7::{aged, scaled_off, scaled_orders};
use super::*;
use farreach_types::papers::{Chart, Series};
use large::{RMM_OFF, data_misses, mean, ranges_of};

pub(crate) const STUDY: Study = Study {
    id: "rmm15-fig7",
    title: "Walks that are left, by entries of the range TLB",
    rules: "RMM15-2, RMM15-11, AMB-80, CW-12",
    plan: |results, set| {
        let machines = ENTRIES.map(ranges_of);
        let fresh: Vec<&str> = machines.iter().map(String::as_str).chain([RMM_OFF]).collect();
        let mut wanted = large::grid(set.large.iter(), &fresh);
        for p in &set.large {
            let (Some(places), Some(off)) = (aged(set, p), scaled_off(results, &p.name)) else { continue };
            let machines = ENTRIES.iter().filter_map(|&n| scaled(results, &p.name, n)).chain([off]);
            wanted.extend(machines.flat_map(|m| places.each_ref().map(|place| Request::machine(place, m.as_str()))));
        }
        wanted
    },
    section,
};

/// Entries of the figure.
pub(crate) const ENTRIES: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// A range TLB with this many entries, and blocks scaled like the footprint.
pub(crate) fn scaled(results: &Results, program: &str, entries: u64) -> Option<String> {
    let orders = scaled_orders(results, program)?;
    Some(format!("{}:range_entries={entries},max_order={orders}", large::RMM_RANGE))
}

/// The state of memory at the start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Fresh memory, with blocks of up to 2 GB.
    Fresh,
    /// Two other programs have used it, and blocks are scaled like the footprint.
    Aged,
}

/// Walks in percent of those without a range TLB. For a program that ran after others, the walks of the others are
/// subtracted.
pub(crate) fn left(results: &Results, set: &Set, program: &Program, entries: u64, state: State) -> Option<f64> {
    let name = &program.name;
    let [with, without] = match state {
        State::Fresh => [ranges_of(entries), RMM_OFF.to_owned()].map(|m| data_misses(results, name, &m)),
        State::Aged => {
            let [all, others] = aged(set, program)?;
            let own = |machine: &str| {
                data_misses(results, &all, machine)?.checked_sub(data_misses(results, &others, machine)?)
            };
            [own(&scaled(results, name, entries)?), own(&scaled_off(results, name)?)]
        }
    };
    let without = without.filter(|&n| n > 0)?;
    Some(100.0 * with? as f64 / without as f64)
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    for (title, state) in [
        ("fresh memory, blocks up to 2 GB", State::Fresh),
        ("memory that two other programs have used, blocks scaled like the footprint", State::Aged),
    ] {
        let title = format!("Walks left, in percent of those without a range TLB; {title}");
        let mut table = Table::new(&title, "program");
        let mut chart = Chart {
            title,
            x: "entries".into(),
            places: ENTRIES.iter().map(u64::to_string).collect(),
            y: "% of walks".into(),
            series: Vec::new(),
        };
        ENTRIES.iter().for_each(|n| table.column(n.to_string(), Origin::Measured, "%"));
        let programs: Vec<&Program> =
            set.large.iter().filter(|p| state == State::Fresh || aged(set, p).is_some()).collect();
        if programs.is_empty() {
            continue;
        }
        for p in &programs {
            let values: Vec<Option<f64>> = ENTRIES.iter().map(|&n| left(results, set, p, n, state)).collect();
            table.row(&p.name, values.iter().map(|&v| v.into()).collect());
            chart.series.push(Series { name: p.name.clone(), values });
        }
        let means = ENTRIES.map(|n| mean(programs.iter().map(|p| left(results, set, p, n, state))));
        table.row("mean of the programs", means.map(Cell::from).into());
        section.tables.push(table);
        section.charts.push(chart);
    }
    section.note(
        "The paper's figure has no curves in the text; it says that 32 entries remove 97.9 % of the walks on average, \
         that cactusADM, memcached, tigr and GUPS need more than 16, and that one entry removes more than half on \
         astar, omnetpp, canneal, streamcluster and graph500.",
    );
    section.note(
        "Programs and order of the aged runs are those of rmm15-table7; the walks of the last program are those of all \
         less those of the two before it.",
    );
    section.note(
        "On fresh memory adjacent blocks are given out in order, so that they join: ranges are then as many as arrays \
         and their remainders.",
    );
    section.note(large::SCALED);
}
