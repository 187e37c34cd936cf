//! The cost of compaction, and its effect (F-14).

use farreach_types::counts::{CompactionCost, CompactionUse, FreeMemory};

/// DS13-13: 3 seconds for 10 GB.
const SECONDS_PER_GB: f64 = 0.3;

/// Percentage of free memory that lies in blocks of fewer than `2^order` frames, for each order: Linux's unusable free
/// space index.
pub fn unusable(free: &FreeMemory) -> Vec<f64> {
    let usable = |order: u32| free.blocks_of(order) << order;
    let percent =
        |order: u32| if free.frames == 0 { 100.0 } else { 100.0 * (1.0 - usable(order) as f64 / free.frames as f64) };
    (0..free.blocks.len() as u32).map(percent).collect()
}

/// Cost and effect, for base pages of `page_bytes` bytes.
///
/// ```
/// use farreach_types::counts::{CompactionUse, FreeMemory};
/// // Of 8 free frames 2 lie by themselves and 2 in a block of two, before; afterwards all lie in blocks of four.
/// let (before, after) = (vec![2, 1, 1], vec![0, 0, 2]);
/// let free = |blocks| FreeMemory { frames: 8, blocks };
/// let (before, after) = (free(before), free(after));
/// let used = CompactionUse { runs: 1, moved_pages: 1 << 18, order: 2, before, after, ..Default::default() };
/// let cost = farreach_cost::compaction::cost(&used, 4096);
/// assert_eq!((cost.unusable_before, cost.unusable_after), (vec![0.0, 25.0, 50.0], vec![0.0, 0.0, 0.0]));
/// assert_eq!((cost.regained_blocks, cost.copy_seconds), (1, 0.3));
/// ```
pub fn cost(used: &CompactionUse, page_bytes: u64) -> CompactionCost {
    CompactionCost {
        unusable_at_start: unusable(&used.at_start),
        unusable_before: unusable(&used.before),
        unusable_after: unusable(&used.after),
        unusable_at_end: unusable(&used.at_end),
        regained_blocks: used.after.blocks_of(used.order) as i64 - used.before.blocks_of(used.order) as i64,
        copy_seconds: SECONDS_PER_GB * (used.moved_pages * page_bytes) as f64 / (1u64 << 30) as f64,
    }
}
