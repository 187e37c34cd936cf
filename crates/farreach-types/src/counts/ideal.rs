//! What one ideal direct segment would answer (RMM15-42).

use serde::{Deserialize, Serialize};

/// The regions that lived, with one size, for more than this share of the run of their process, in percent (RMM15-42).
pub const LONG_LIVED_PERCENT: u64 = 80;

/// The ideal direct segment of RMM15's Figure 6: all regions that had one size for more than 80 % of the time lie in
/// one range, so that no walk for a page in them was needed. It can only be known at the end of the run, and no
/// hardware has to keep it in one piece: it bounds what a direct segment can do. Machines with a page-table walker have
/// it, if the trace says what is mapped.
///
/// A *region* is one request of memory (mmap, or all that brk gave, or a stack), without the parts that nobody may
/// access. It lives from the moment it has its place and size until either changes: what is left of a region that was
/// cut, and a heap that grew, begin a new life. Time runs in instructions of the whole run (AMB-92), in lookups where a
/// stream has no instructions, from the first event of the process to its last; the registers are those of a process,
/// so each has a segment of its own, and all numbers are sums over the processes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct IdealSegment {
    /// Regions inside.
    pub regions: u64,
    /// Their 4 KB pages.
    pub pages: u64,
    /// Walks for pages inside: those the segment would save. Fetches are among them, which a direct segment as built
    /// does not serve (DS13-5).
    pub walks_inside: u64,
    /// Of those, fetches.
    pub fetch_walks_inside: u64,
    /// Walks for all other pages.
    pub walks_outside: u64,
    /// Of those, fetches.
    pub fetch_walks_outside: u64,
    /// Of `regions`, those that had another size or place in an earlier life, such as a heap after its last growth. Who
    /// reads "fixed-size" strictly takes them out.
    pub resized_regions: u64,
    /// Of `walks_inside`, those for pages in them.
    pub resized_walks_inside: u64,
    /// `walks_inside` of all walks; absent if there were none.
    pub share: Option<f64>,
}
