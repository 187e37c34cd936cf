//! Figure 1: memory in use over time.

use super::*;
use farreach_types::counts::MemoryTimeline;
use farreach_types::papers::{Chart, Series};
use large::DS_4K;

pub(crate) const STUDY: Study = Study {
    id: "ds13-fig1",
    title: "Memory in use over time",
    rules: "DS13-33, CW-13",
    plan: |_, set| large::grid(of_ds13(set), &[DS_4K]),
    section,
};

/// Places on the axis: tenths of the run.
const PLACES: usize = 10;

/// Memory in use at the end of each tenth of the run, in percent of its peak. `read` chooses a list of the timeline.
fn tenths(results: &Results, program: &str, read: fn(&MemoryTimeline) -> &Vec<u64>) -> Option<Vec<f64>> {
    let samples = read(&results.machine(program, DS_4K)?.memory_over_time);
    // The last slice ends with the program, when all memory is returned.
    let samples = samples.split_last().filter(|(last, _)| **last == 0).map_or(&samples[..], |(_, rest)| rest);
    let most = *samples.iter().max().filter(|&&most| most > 0)?;
    let at = |tenth: usize| (samples.len() * tenth).div_ceil(PLACES) - 1;
    (samples.len() >= PLACES).then(|| (1..=PLACES).map(|t| 100.0 * samples[at(t)] as f64 / most as f64).collect())
}

/// Requested memory: the figure's allocated memory.
pub(crate) fn allocated(results: &Results, program: &str) -> Option<Vec<f64>> {
    tenths(results, program, |t| &t.virtual_bytes)
}

/// Memory with contents, under demand paging.
pub(crate) fn resident(results: &Results, program: &str) -> Option<Vec<f64>> {
    tenths(results, program, |t| &t.resident_bytes)
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    for (title, read) in [
        ("Memory asked for", allocated as fn(&Results, &str) -> Option<Vec<f64>>),
        ("Memory with contents, paged on demand", resident),
    ] {
        let title = format!("{title}, in percent of the most there was");
        let mut table = Table::new(&title, "program");
        let places: Vec<String> = (1..=PLACES).map(|t| format!("{} %", 100 * t / PLACES)).collect();
        places.iter().for_each(|p| table.column(p.as_str(), Origin::Measured, "%"));
        let mut chart = Chart { title, x: "of the run".into(), places, y: "% of the most".into(), series: Vec::new() };
        for p in of_ds13(set) {
            let values = read(results, &p.name);
            let cells = (0..PLACES).map(|i| values.as_ref().map(|v| v[i]).into());
            table.row(&p.name, cells.collect());
            let values = (0..PLACES).map(|i| values.as_ref().map(|v| v[i]));
            chart.series.push(Series { name: p.name.clone(), values: values.collect() });
        }
        section.tables.push(table);
        section.charts.push(chart);
    }
    section.note(
        "Sampled by references, not by time: the result of each machine has up to 257 samples, at the ends of equal \
         slices of its lookups. The paper's figure, every 5 s for 25 min, has no curves in the text.",
    );
    section.note(
        "Kernels ask for all memory at the start, and what they would read from files is there without a reference; \
         contents come with the first touch, so the second curve is one of working sets, not of allocation.",
    );
}
