//! Counts of machines that see every reference by cache line: software-managed translation and what it is compared with
//! (SV97).

use serde::{Deserialize, Serialize};

/// References of the program on one side. One access per first-level line that a reference touches.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SideCounts {
    /// All accesses.
    pub accesses: u64,
    /// Accesses that missed the first level.
    pub l1_misses: u64,
    /// Accesses that missed both levels.
    pub l2_misses: u64,
    /// Events 1 to 6 of SV97's Table 1, in that order: first level hit or miss, second level hit or miss, TLB hit or
    /// miss (SV97-42). Events 2, 4 and 6 are those with a TLB miss: a machine without TLB has none.
    pub events: [u64; 6],
}

/// What handlers (or the state machine in their place) did: the rows of SV97's Table 4, each its own counter (SV97-41).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HandlerCounts {
    /// Handler runs for loads and stores, recursive runs included.
    pub data_runs: u64,
    /// Handler runs for fetches.
    pub fetch_runs: u64,
    /// Loads of page table entries that missed the first level.
    pub l1d_misses: u64,
    /// Loads of page table entries at physical addresses that missed the second level; with a TLB, those at virtual
    /// ones too.
    pub l2d_misses: u64,
    /// User page table entries fetched from memory on behalf of an interrupted handler (the recursive case).
    pub upte_loads: u64,
    /// Lines of handler code that missed the first level.
    pub l1i_misses: u64,
    /// Lines of handler code that missed both levels.
    pub l2i_misses: u64,
    /// Loads of page table entries, hit or miss.
    pub loads: u64,
}

/// A row of SV97's Table 4: an event, how often, at which price. The rows of [`OverheadRow::of_misses`] add up to the
/// overhead.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OverheadRow {
    /// What happens, in the words of the paper.
    pub event: String,
    /// How often it did.
    pub count: u64,
    /// Cycles each time.
    pub penalty: f64,
    /// Per instruction; absent for traces without fetches.
    pub per_instruction: Option<f64>,
    /// Cycles per instruction that it adds; absent for traces without fetches.
    pub cpi: Option<f64>,
    /// Whether it is part of the overhead that the paper's Table 4 adds up; other rows are listed beside it.
    pub of_misses: bool,
}

impl OverheadRow {
    /// A handler that ran again for a modified line (SV97-20).
    pub fn is_write_back(&self) -> bool {
        self.event.starts_with("write-back: ")
    }
    /// A sweep after a change of protection, or a trap for one (SV97-22, SV97-44).
    pub fn is_protection(&self) -> bool {
        self.event.starts_with("protection") || self.event.starts_with("trap")
    }
    /// A segment register that was loaded.
    pub fn is_segment(&self) -> bool {
        self.event.starts_with("segment")
    }
}

/// What a machine of the family of `hw::system` counted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SystemCounts {
    /// Fetches of the program.
    pub fetch: SideCounts,
    /// Loads and stores of the program.
    pub data: SideCounts,
    /// Handlers of misses.
    pub handler: HandlerCounts,
    /// Handlers that ran again because a modified line had to be written back (SV97-20).
    pub write_back: HandlerCounts,
    /// Modified lines that were evicted from the second level.
    pub dirty_victims: u64,
    /// Most write-backs that one miss caused.
    pub most_write_backs: u64,
    /// Pages whose protection changed while lines of theirs may have been cached (SV97-22; the rate of SV97's Table 5).
    pub protection_changes: u64,
    /// Of those, the ones whose lines are updated at the first trap, because the protection was only raised (F-16).
    pub lazy_raises: u64,
    /// Lines updated by such a trap.
    pub lazy_traps: u64,
    /// First-level lines that a protection sweep looked for (SV97-44).
    pub sweep_l1_looked: u64,
    /// Of those, found and changed.
    pub sweep_l1_changed: u64,
    /// Second-level lines that a protection sweep looked for.
    pub sweep_l2_looked: u64,
    /// Of those, found and changed.
    pub sweep_l2_changed: u64,
    /// Accesses that the protection of line or segment forbids and the page table allows (SV97-23, F-18): software's
    /// own traps.
    pub protection_traps: u64,
    /// Second-level lines dropped because their page moved, went away or belongs to an address space that ended.
    pub flushed_lines: u64,
    /// Of those, modified.
    pub flushed_dirty: u64,
    /// Misses to a frame of which lines may be cached under another virtual page (SV97-17).
    pub synonym_misses: u64,
    /// Of those, the ones before which the other page was flushed.
    pub synonym_flushes: u64,
    /// Write-backs through a translation that was no longer true (SV97-21); 0 unless stale lines are left in place.
    pub stale_write_backs: u64,
    /// References that had to wait for a transfer by a device to end (SV97-19).
    pub dma_waits: u64,
    /// Segment registers loaded with another chunk of the program's address space.
    pub segment_loads: u64,
    /// Segment identifiers allocated.
    pub segment_ids: u64,
    /// Identifiers taken from an owner that still used them, because none was free (SV97-24).
    pub ids_reused: u64,
    /// TLB misses of the program; 0 without TLB.
    pub tlb_misses: u64,
    /// TLB misses of the handler for the page of the page table (SV97-30).
    pub tlb_root_misses: u64,
    /// TLB entries dropped because a mapping changed or an identifier ended.
    pub tlb_invalidations: u64,
}

impl SystemCounts {
    /// Adds the accesses of fetches, and of loads and stores, which the loop knows: those without any miss are events
    /// of the first kind.
    #[must_use]
    pub fn completed(mut self, accesses: [u64; 2]) -> SystemCounts {
        for (side, accesses) in [&mut self.fetch, &mut self.data].into_iter().zip(accesses) {
            side.accesses = accesses;
            side.events[0] = accesses - side.events.iter().sum::<u64>();
        }
        self
    }
}
