//! Examples worked out by hand: sparse arenas, processes that take turns, few entries for 1 GB pages, walks in two
//! dimensions, compaction.

use super::*;
use crate::expected_rows::{Row, plan, table};
use crate::micro::{ARENAS, SPARSE, TURNS};
use farreach_hw::nested::{Dimension, references};
use farreach_types::counts::SegmentUse;
use large::{DS_1G, DS_2M, DS_SEGMENT};

pub(crate) const STUDY: Study = Study {
    id: "ds13-by-hand",
    title: "Small programs and sums: arenas, two processes, sparse access, walks in two dimensions, compaction",
    rules: "DS13-13, DS13-17, DS13-26, DS13-37, DS13-42, CA-29",
    plan: |_, _| plan(ROWS),
    section,
};

fn used(m: &farreach_types::counts::MachineResult) -> SegmentUse {
    m.segments.clone().unwrap_or_default()
}

/// All rows. The arenas have 131,072 pages, and 512 of them are used. Six GB are six pages of 1 GB, for which there are
/// four entries: ten rounds always miss. Six pages of 2 MB have 32 entries: only the first round misses.
pub(crate) const ROWS: &[Row] = &[
    Row::exactly(ARENAS, DS_SEGMENT, ("pages in the segment", |m| used(m).most_pages), 131_072),
    Row::exactly(
        ARENAS,
        DS_SEGMENT,
        ("of these never used", |m| used(m).most_pages - used(m).most_used_pages),
        130_560,
    ),
    Row::exactly(ARENAS, DS_SEGMENT, ("data misses", |m| m.counts.tlb.data_misses), 0),
    Row::exactly(TURNS, DS_SEGMENT, ("segments created", |m| used(m).created), 2),
    Row::exactly(TURNS, DS_SEGMENT, ("data misses", |m| m.counts.tlb.data_misses), 0),
    Row::exactly(TURNS, DS_SEGMENT, ("KB in use", |m| m.memory.resident_bytes >> 10), 2 * 4096),
    Row::exactly(SPARSE, DS_2M, ("data misses", |m| m.counts.tlb.data_misses), 6),
    Row::exactly(SPARSE, DS_1G, ("data misses", |m| m.counts.tlb.data_misses), 60),
];

const WALK: Dimension = Dimension::Walk { levels: 4 };
/// Guest, host, and the references that DS13-42 gives.
const NESTED: [(&str, Dimension, Dimension, u64); 4] = [
    ("walks in both dimensions", WALK, WALK, 24),
    ("segment for the host", WALK, Dimension::Segment, 4),
    ("segment for the guest", Dimension::Segment, WALK, 4),
    ("segments for both, or one composed of both", Dimension::Segment, Dimension::Segment, 0),
];

/// References of a two-dimensional walk: whether all are as expected, and the text.
pub(crate) fn nested() -> (bool, String) {
    let all: Vec<(u64, u64)> = NESTED.iter().map(|n| (references(n.1, n.2), n.3)).collect();
    let words =
        NESTED.iter().zip(&all).map(|(n, (found, _))| format!("{}: {found}", n.0)).collect::<Vec<_>>().join("; ");
    (all.iter().all(|(found, want)| found == want), words)
}

/// DS13-13: 3 s for 10 GB, as a share of the time between two compactions, in percent.
pub(crate) fn compaction(gigabytes: f64, seconds: f64) -> f64 {
    100.0 * 0.3 * gigabytes / seconds
}

fn section(results: &Results, _: &Set, section: &mut Section) {
    section.tables.push(table(ROWS, results));
    let mut walks = Table::new("References of a miss under virtualisation", "translation");
    walks.column("here", Origin::Computed, "references");
    walks.column("by the rules", Origin::Printed, "references");
    for (name, guest, host, want) in NESTED {
        walks.row(name, vec![Cell::Count(references(guest, host)), Cell::Count(want)]);
    }
    section.tables.push(walks);
    let paper = printed::table("ds13_fig_anchors");
    let mut compacting = Table::new("Compaction of 10 GB at 0.3 s for each GB", "every");
    compacting.column("time", Origin::Computed, "%");
    for (every, seconds) in [("5 min", 300.0), ("hour", 3600.0)] {
        compacting.row(every, vec![Cell::Number(compaction(10.0, seconds))]);
    }
    section.tables.push(compacting);
    let text = paper.records().find(|r| r[1] == "compaction").map_or("", |r| r[2].as_str());
    section.note(format!("The paper on compaction: {text}."));
    section.note(
        "The kernel is not traced, so that a segment for its direct map (DS13-43) has nothing to translate; the walks \
         of two dimensions are those of hw::nested, and `guest` makes a machine walk so (ds13/4k:guest=walk).",
    );
}
