//! Cycles by context of a whole system.

use super::cycles::miss_cycles;
use farreach_types::counts::{ContextCounts, ContextRow, RangeCounts, TlbCounts, WalkCounts};
use farreach_types::params::Params;

/// Gives each context its cycles spent on TLB misses, rounded so that they add up to those of the whole machine, whose
/// counts are `all`. None where parts, tables of other kinds or caches add cycles of their own, for their counts are
/// not kept by context.
pub fn price(rows: &mut [ContextRow], all: &TlbCounts, params: &Params) {
    if !all.parts.is_empty() || all.walk_caches.page_tables().total() > 0 {
        return;
    }
    // The cycles of a context are those up to its end less those up to its beginning.
    let (mut sum, mut before) = (ContextCounts::default(), 0);
    for row in rows {
        sum += &row.counts;
        let until = miss_cycles(&priced(&sum), params);
        row.cycles = Some(until - before);
        before = until;
    }
}

/// The counts that have a price. All nodes of page tables have the same.
fn priced(counts: &ContextCounts) -> TlbCounts {
    TlbCounts {
        misses: counts.misses,
        second_level_fetch_hits: counts.second_level_fetch_hits,
        second_level_data_hits: counts.second_level_data_hits,
        extra_pte_reads: counts.extra_pte_reads,
        walk: WalkCounts { walks: counts.walks, pt_references: counts.walk_references, ..WalkCounts::default() },
        range: RangeCounts { sole_hits: counts.range_hits, ..RangeCounts::default() },
        ..TlbCounts::default()
    }
}
