//! What one ideal direct segment would answer (RMM15-42).

use serde::{Deserialize, Serialize};

/// A region is in the segment if it had one size for more than this share of its process's run, in percent (RMM15-42).
pub const LONG_LIVED_PERCENT: u64 = 80;

/// The ideal direct segment of RMM15's Figure 6: all regions that had one size for more than 80 % of the time lie in
/// one range, so that no page in them needs a walk. Which regions these are is known only at the end of the run, and
/// they need not be adjacent: it is a bound on what a direct segment can do. Machines with a page-table walker have it,
/// if the trace says what is mapped.
///
/// A *region* is one request of memory (mmap, the whole heap of brk, or a stack), without its inaccessible parts. Its
/// lifetime ends when its place or size changes: the remainder of a region that was cut, and a heap that grew, begin a
/// new lifetime. Time is measured in instructions of the whole run (AMB-92), or in lookups where a stream has no
/// instructions, from the first event of the process to its last. Each process has segment registers, so each has a
/// segment of its own; all numbers are sums over the processes.
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
    /// Of `regions`, those that had another size or place in an earlier lifetime, such as a heap after its last growth.
    /// A strict reading of "fixed-size" leaves them out.
    pub resized_regions: u64,
    /// Of `walks_inside`, those for pages in them.
    pub resized_walks_inside: u64,
    /// `walks_inside` of all walks; absent if there were none.
    pub share: Option<f64>,
}
