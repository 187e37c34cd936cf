//! Counts of direct segments.

use farreach_types::counts::SegmentUse;

/// The counters.
#[derive(Clone, Default)]
pub(crate) struct SegmentTally {
    /// Marked entries of all page tables.
    pub pages: u64,
    /// Counters of the result.
    pub used: SegmentUse,
}
