//! What direct segments did.

use farreach_types::counts::SegmentUse;

/// What was counted.
#[derive(Clone, Default)]
pub(crate) struct SegmentTally {
    /// Marked entries of all page tables.
    pub pages: u64,
    /// Counters of the result.
    pub used: SegmentUse,
}
