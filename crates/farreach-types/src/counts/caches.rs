//! What caches under page-table walkers counted.

use serde::{Deserialize, Serialize};

counters! {
    /// References of walkers, by what answered them.
    Answered {
        /// The first-level data cache.
        l1,
        /// The second level.
        l2,
        /// The last level.
        llc,
        /// Memory.
        memory,
    }
}

impl Answered {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.l1 + self.l2 + self.llc + self.memory
    }
}

/// References of walkers to the nodes of each level, as in [`WalkCounts`](super::WalkCounts), and to range tables.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WalkCaches {
    /// Page tables.
    pub pt: Answered,
    /// Page directories.
    pub pd: Answered,
    /// Page-directory-pointer tables.
    pub pdpt: Answered,
    /// The fourth level.
    pub pml4: Answered,
    /// The fifth level.
    pub pml5: Answered,
    /// All levels of the page table of a virtual machine's host.
    #[serde(skip_serializing_if = "Answered::is_empty")]
    pub host: Answered,
    /// Range tables, two lines for each node (RMM15-7), while the program runs on (RMM15-5).
    pub range_table: Answered,
}

impl WalkCaches {
    /// Nothing was counted.
    pub fn is_empty(&self) -> bool {
        *self == WalkCaches::default()
    }

    /// References to page tables of all levels, in both dimensions: those the program waits for.
    pub fn page_tables(&self) -> Answered {
        let mut sum = Answered::default();
        for level in [&self.pt, &self.pd, &self.pdpt, &self.pml4, &self.pml5, &self.host] {
            sum += level;
        }
        sum
    }

    /// Those of a level of [`crate::counts::WalkCounts`], 0 to 4, of range tables, 5, or of a host, 6.
    pub fn at(&mut self, level: u8) -> &mut Answered {
        match level {
            0 => &mut self.pt,
            1 => &mut self.pd,
            2 => &mut self.pdpt,
            3 => &mut self.pml4,
            4 => &mut self.pml5,
            5 => &mut self.range_table,
            _ => &mut self.host,
        }
    }
}

impl std::ops::AddAssign<&WalkCaches> for WalkCaches {
    fn add_assign(&mut self, other: &WalkCaches) {
        let WalkCaches { pt, pd, pdpt, pml4, pml5, host, range_table } = other;
        self.pt += pt;
        self.pd += pd;
        self.pdpt += pdpt;
        self.pml4 += pml4;
        self.pml5 += pml5;
        self.host += host;
        self.range_table += range_table;
    }
}

counters! {
    /// References of the program on one side, one access for each line of 64 bytes that a reference touches.
    LineCounts {
        /// All accesses.
        accesses,
        /// Accesses that missed the first level.
        l1_misses,
        /// Accesses that missed the second level as well.
        l2_misses,
        /// Accesses that memory answered.
        llc_misses,
    }
}

/// What the program did in the caches of a machine whose walkers read through them. What the walkers did is in
/// [`TlbCounts::walk_caches`](super::TlbCounts::walk_caches).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CacheCounts {
    /// Fetches of the program.
    pub fetch: LineCounts,
    /// Loads and stores of the program.
    pub data: LineCounts,
    /// Modified lines written to memory.
    pub memory_writes: u64,
}
