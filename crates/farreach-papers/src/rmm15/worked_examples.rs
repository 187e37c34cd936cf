//! Examples worked out by hand: random access to at least as many ranges as there are entries, a page that changes, a
//! store after a fork, tiny ranges.

use super::*;
use crate::expected_rows::{Row, plan, table};
use crate::micro::{FORK, PROTECT, RANGES, SCATTERED, TINY};
use farreach_types::counts::{MachineResult, RangeCounts};
use large::RMM_RANGE;

pub(crate) const STUDY: Study = Study {
    id: "rmm15-by-hand",
    title: "Small programs: 62 ranges at random, invalidation of a page, copy-on-write, tiny ranges",
    rules: "RMM15-10 to RMM15-12, RMM15-20, RMM15-30, CA-34, CA-35, CA-37",
    plan: |_, _| plan(ROWS),
    section: |results, _, section| {
        section.tables.push(table(ROWS, results));
        section.note(
            "62 ranges at random: a range TLB of 64 entries misses once for each; one of 32 with LRU misses for the 30 \
             of 62 that it does not hold, 48.4 %. A page of 64 becomes read-only between two rounds, with four entries \
             in the first level and no second one: the range goes from the range TLB as a whole; five pages before it \
             are too few for a range and are walked for, as the page itself is, and one walk brings the range of the \
             58 behind it.",
        );
    },
};

const WIDE: &str = "rmm15/range:range_entries=64";
const NARROW: &str = "rmm15/range:l1d=4K:4,l2=none";
const COPYING: &str = "rmm15/range:range_cow=copy";
/// Requests of four pages get their frames at once, so that the frames are contiguous.
pub(crate) const TINY_PAGES: &str = "rmm15/range:eager_threshold=4";
/// Four pages are enough for a range.
pub(crate) const TINY_RANGES: &str = "rmm15/range:eager_threshold=4,range_threshold=4";

fn ranges(m: &MachineResult) -> &RangeCounts {
    &m.counts.tlb.range
}

fn dissolved(m: &MachineResult) -> u64 {
    m.contiguity.as_ref().map_or(0, |c| c.dissolved)
}

/// All rows.
pub(crate) const ROWS: &[Row] = &[
    Row::exactly(SCATTERED, WIDE, ("misses of the range TLB", |m| ranges(m).misses), RANGES),
    Row {
        program: SCATTERED,
        machine: RMM_RANGE,
        what: "misses of the range TLB in 1000 lookups",
        read: |m| 1000 * ranges(m).misses / (ranges(m).hits + ranges(m).misses).max(1),
        rules: (479, 489),
    },
    Row::exactly(PROTECT, NARROW, ("page walks", |m| m.counts.tlb.misses), 8),
    Row::exactly(PROTECT, NARROW, ("walks of the range table", |m| ranges(m).walks), 2),
    Row::exactly(PROTECT, NARROW, ("lookups that a range answered", |m| ranges(m).sole_hits), 120),
    Row::exactly(FORK, RMM_RANGE, ("pages copied", |m| m.counts.os.cow_copies), 1),
    Row::exactly(FORK, RMM_RANGE, ("ranges dissolved", dissolved), 1),
    Row::exactly(FORK, COPYING, ("pages copied", |m| m.counts.os.cow_copies), 64),
    Row::exactly(TINY, TINY_PAGES, ("most ranges", most), 8),
    Row::exactly(TINY, TINY_RANGES, ("most ranges", most), 264),
];

fn most(m: &MachineResult) -> u64 {
    m.contiguity.as_ref().map_or(0, |c| c.most_ranges)
}
