//! Compaction for a request that found no block (RMM15-31): the block with the fewest pages is emptied.

use super::contract::{CompactionKind, Layout, Survey, Way, When};
use std::cmp::Reverse;

/// Registry entry.
pub const DIRECT: CompactionKind =
    CompactionKind { name: "direct", when: When::Demand, allocators: &["fifo", "buddy"], build: |_| Box::new(Direct) };

struct Direct;

impl Way for Direct {}

/// Only blocks that become wholly free are emptied, those with the fewest pages first. The pages go to blocks that
/// cannot become free or have the most pages.
pub(super) fn fewest(survey: &Survey) -> Layout {
    let up = survey.order - survey.piece;
    // A full block is as good as a free one, and not worth copying.
    let worth = |b: &u64| survey.clears(*b) && (1..1 << survey.order).contains(&survey.taken_in(*b));
    let mut empty: Vec<u64> = (0..survey.blocks()).filter(worth).collect();
    empty.sort_by_key(|&b| (survey.taken_in(b), b));
    let taken = |p: u64| survey.taken[p as usize];
    let mut fill: Vec<u64> = (0..survey.pieces()).filter(|&p| survey.has_room(p) && (taken(p) > 0 || up > 0)).collect();
    fill.sort_by_key(|&p| (survey.clears(p >> up), Reverse(taken(p)), Reverse(p)));
    Layout { empty, fill }
}
