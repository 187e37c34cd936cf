//! Figure 7: walks that are left by number of ranges.

use super::table7::{scaled_off, scaled_orders};
use super::*;
use crate::study::{Chart, Series};
use large::{RMM_OFF, data_misses, mean, ranges_of};

pub(in crate::study) const STUDY: Study = Study {
    id: "rmm15-fig7",
    title: "Walks that are left, by entries of the range TLB",
    rules: "RMM15-2, RMM15-11, AMB-80, CW-12",
    plan: |results, set| {
        let machines = ENTRIES.map(ranges_of);
        let fresh: Vec<&str> = machines.iter().map(String::as_str).chain([RMM_OFF]).collect();
        let mut wanted = large::grid(set.large.iter(), &fresh);
        for p in &set.large {
            let Some(off) = scaled_off(results, &p.name) else { continue };
            wanted.push(Request::machine(&p.name, off));
            wanted.extend(ENTRIES.iter().filter_map(|&n| Some(Request::machine(&p.name, scaled(results, &p.name, n)?))));
        }
        wanted
    },
    section,
};

/// Entries of the figure.
pub(in crate::study) const ENTRIES: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// So many ranges, with blocks scaled like the footprint.
pub(in crate::study) fn scaled(results: &Results, program: &str, entries: u64) -> Option<String> {
    let orders = scaled_orders(results, program)?;
    Some(format!("{}:range_entries={entries},max_order={orders}", large::RMM_RANGE))
}

/// Walks in percent of those without a range TLB; fresh memory and blocks up to 2 GB, or scaled blocks.
pub(in crate::study) fn left(results: &Results, program: &str, entries: u64, blocks: Blocks) -> Option<f64> {
    let (with, without) = match blocks {
        Blocks::Unscaled => (ranges_of(entries), RMM_OFF.to_owned()),
        Blocks::Scaled => (scaled(results, program, entries)?, scaled_off(results, program)?),
    };
    let base = data_misses(results, program, &without).filter(|&n| n > 0)?;
    Some(100.0 * data_misses(results, program, &with)? as f64 / base as f64)
}

/// Which blocks memory comes in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::study) enum Blocks {
    /// Up to 2 GB.
    Unscaled,
    /// Up to a thirty-second of the footprint.
    Scaled,
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    for (title, blocks) in [("blocks up to 2 GB", Blocks::Unscaled), ("blocks scaled like the footprint", Blocks::Scaled)] {
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
        for p in &set.large {
            let values: Vec<Option<f64>> = ENTRIES.iter().map(|&n| left(results, &p.name, n, blocks)).collect();
            table.row(&p.name, values.iter().map(|&v| v.into()).collect());
            chart.series.push(Series { name: p.name.clone(), values });
        }
        let means = ENTRIES.map(|n| mean(set.large.iter().map(|p| left(results, &p.name, n, blocks))));
        table.row("mean of the programs", means.map(Cell::from).into());
        section.tables.push(table);
        section.charts.push(chart);
    }
    section.note(
        "The paper's figure has no curves in the text; it says that 32 entries remove 97.9 % of the walks on average, that cactusADM, memcached, \
         tigr and GUPS need more than 16, and that one entry removes more than half on astar, omnetpp, canneal, streamcluster and graph500.",
    );
    section.note("On fresh memory adjacent blocks are given out in order, so that they join: ranges are then as many as arrays and their remainders.");
    section.note(large::SCALED);
}
