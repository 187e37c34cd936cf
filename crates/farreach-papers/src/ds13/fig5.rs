//! Figure 5: uniform random updates over growing memory.

use super::*;
use crate::results::ALIGNED;
use farreach_types::papers::{Chart, Series};
use large::{DS_1G, DS_2M, DS_4K, DS_SEGMENT};

pub(crate) const STUDY: Study = Study {
    id: "ds13-fig5",
    title: "Time spent on data TLB misses by footprint, uniform random updates",
    rules: "DS13-32, DS13-36, DS13-37, CW-11",
    plan: |_, set| {
        let machines = SERIES.map(|s| s.1);
        sizes(set).iter().flat_map(|&size| machines.map(|m| Request::machine(&program(set, size), m))).collect()
    },
    section,
};

/// Series of the figure: name, machine, reach of its TLBs in bytes.
pub(crate) const SERIES: [(&str, &str, u64); 4] = [
    // Neither level includes the other, so the reach is that of 64 and 512 entries.
    ("4 KB", DS_4K, (64 + 512) << 12),
    ("2 MB", DS_2M, 32 << 21),
    ("1 GB", DS_1G, 4 << 30),
    ("direct segment", DS_SEGMENT, u64::MAX),
];

/// Footprints.
pub(crate) fn sizes(set: &Set) -> &'static [u64] {
    const MB: u64 = 1 << 20;
    const ALL: &[u64] = &[MB, 4 * MB, 16 * MB, 64 * MB, 256 * MB, 1024 * MB, 4096 * MB, 8192 * MB, 16384 * MB];
    if set.name == "full" { ALL } else { &ALL[..8] }
}

/// The run of one footprint. Mappings are aligned, as for a program that asks for huge pages; references in proportion
/// to what a footprint needs to show its steady state.
pub(crate) fn program(set: &Set, size: u64) -> String {
    let references = if set.name == "full" { 20_000_000 } else { 500_000 };
    format!("workload:gups:size={size},references={references}{ALIGNED}1G")
}

/// Percent of cycles in walks for data; nothing for huge pages that no region holds.
pub(crate) fn time(results: &Results, set: &Set, size: u64, machine: &str) -> Option<f64> {
    super::table4::time(results, &program(set, size), machine)
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let sizes = sizes(set);
    let label = super::machine::size;
    let mut table = Table::new("Percent of cycles in walks for data", "footprint");
    SERIES.iter().for_each(|s| table.column(s.0, Origin::Measured, "%"));
    for &size in sizes {
        table.row(label(size), SERIES.iter().map(|s| time(results, set, size, s.1).into()).collect());
    }
    section.tables.push(table);
    let series = SERIES.map(|(name, machine, _)| Series {
        name: name.into(),
        values: sizes.iter().map(|&size| time(results, set, size, machine)).collect(),
    });
    section.charts.push(Chart {
        title: "Uniform random updates".into(),
        x: "footprint".into(),
        places: sizes.iter().map(|&size| label(size)).collect(),
        y: "% of cycles".into(),
        series: series.into(),
    });
    section.note(
        "The paper's figure has no curves in the text; it says 0 to 83 % for 4 KB, 0 to 18 % for 1 GB pages, and about \
         0, flat, for a segment. Reach of the TLBs, unscaled: 2.25 MB in pages of 4 KB, 64 MB of 2 MB, 4 GB of 1 GB. \
         The remainder of a footprint that fills no huge page has pages of 4 KB.",
    );
    section.note(
        "First touches are walks as well: where a run is short beside its footprint they add to all that is shown for \
         pages, most for 4 KB.",
    );
    section.note(large::CYCLES);
}
