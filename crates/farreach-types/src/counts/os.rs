//! What an operating system counts, and the state of its memory.

use super::{GuestOsCounts, OwnCounts};
use serde::{Deserialize, Serialize};

/// What one operating-system policy counted. Shared by the designs that run on it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct OsCounts {
    /// Faults that mapped a page. Copy-on-write faults are not among them.
    pub page_faults: u64,
    /// Stores to a page that forbade them, resolved by the system (copy-on-write).
    pub protection_faults: u64,
    /// Pages copied for copy-on-write (T94-57).
    pub cow_copies: u64,
    /// References to addresses that no region covers; the trace is at fault, the page is mapped as anonymous memory.
    pub wild_faults: u64,
    /// Mapped pages that saw an access their region forbids; the trace is at fault, the access goes on. Once per
    /// mapping.
    pub forbidden_accesses: u64,
    /// Bytes read from files, for faults, prefetch and populate.
    pub io_bytes: u64,
    /// Pages whose reading from disk was started before they were asked for (T94-52).
    pub pages_prefetched: u64,
    /// Reservations: regions for which an aligned group of frames was found (T94-44).
    pub reservations_made: u64,
    /// Faults served by a reserved frame (T94-45).
    pub reservations_honoured: u64,
    /// Reserved frames taken back for other use (T94-46).
    pub reservations_stolen: u64,
    /// First faults of a region for which no wholly free aligned group of frames existed (T94-48).
    pub failed_region_allocs: u64,
    /// Promotions tried: the count of mapped pages reached the threshold (T94-54).
    pub promotions_tried: u64,
    /// Promotions carried out.
    pub promotions: u64,
    /// Refused: frames not aligned or not contiguous (T94-55).
    pub refused_frames: u64,
    /// Refused: attributes differ.
    pub refused_attributes: u64,
    /// Refused: a page is neither mapped nor reserved in place.
    pub refused_not_resident: u64,
    /// Refused: the superpage does not lie inside its object.
    pub refused_small_object: u64,
    /// Superpages split again (T94-42).
    pub demotions: u64,
    /// Pages mapped by promotion, collapse, superpage faults and eager requests although nothing had touched them
    /// (T94-41, AMB-12).
    pub populated_pages: u64,
    /// Of those, the ones mapped as part of a superpage: no page table entry of their own was written.
    #[serde(default)]
    pub populated_in_superpages: u64,
    /// Of all populated pages, those never referenced until the end (H-T94-30). Those that are no file are pages of
    /// zeros, all alike: de-duplication could have merged at least this number, had they not been parts of a large
    /// mapping (F-19).
    pub populated_never_used: u64,
    /// Pages copied to make memory contiguous: by collapse, compaction and conversion to a segment; those of T94 never
    /// do (T94-55).
    pub gathered_pages: u64,
    /// Page table entries probed by faults and promotion checks (Table 2 of T94).
    pub pt_probes: u64,
    /// Aligned groups and free-list steps the allocator looked at.
    pub alloc_steps: u64,
    /// Base pages marked modified: by the first store to their mapping, which marks all of it (T94-19), or at once by
    /// eager paging, which cannot tell (RMM15-28). They would have to be written back.
    pub dirty_pages: u64,
    /// Pages freed by unmapping, advice and exit.
    pub freed_pages: u64,
    /// Address spaces that were copied by fork.
    pub forks: u64,
    /// Requests of memory that got frames at once (RMM15-24).
    #[serde(default)]
    pub eager_requests: u64,
    /// Pages mapped by these.
    #[serde(default)]
    pub eager_pages: u64,
    /// Requests left to demand paging because memory was too fragmented (RMM15-24).
    #[serde(default)]
    pub eager_refused: u64,
    /// Pages of eager requests that got no frame because memory was full (AMB-82).
    #[serde(default)]
    pub eager_missing: u64,
    /// Chunks that the program's allocator asked for (RMM15-32).
    #[serde(default)]
    pub chunk_requests: u64,
    /// Their pages.
    #[serde(default)]
    pub chunk_pages: u64,
    /// Of those, the ones that the program had not asked for when it ended, or when memory was full.
    #[serde(default)]
    pub chunk_unused_pages: u64,
    /// Pages filled with zeros: each page of memory that is no file when it gets its frame. Copies are not among them,
    /// nor pages that were in memory already when they were mapped.
    #[serde(default)]
    pub zeroed_pages: u64,
    /// Most pages that one fault filled with zeros or copied, compaction included: the longest that a program waited.
    #[serde(default)]
    pub largest_fault_pages: u64,
    /// Faults served with a superpage.
    #[serde(default)]
    pub superpage_faults: u64,
    /// Pages mapped because memory was rounded up to whole huge pages, unrequested at the time.
    #[serde(default)]
    pub huge_rest_pages: u64,
    /// Superpages that a fault could have mapped but for which there was no free block, each size by itself.
    #[serde(default)]
    pub superpage_fallbacks: u64,
    /// Faults served with a superpage that has holes (PRF-1).
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub perforated_faults: u64,
    /// Holes of these superpages.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub perforated_holes: u64,
    /// Groups of pages copied together into a superpage in the background.
    #[serde(default)]
    pub collapses: u64,
    /// Aligned groups of frames freed on demand by copying their pages elsewhere (F-14).
    #[serde(default)]
    pub compactions: u64,
    /// Failed attempts to free an aligned group by copying.
    #[serde(default)]
    pub compactions_failed: u64,
    /// Never-touched pages taken back when memory was full (F-7).
    #[serde(default)]
    pub reclaimed_pages: u64,
    /// Pages that got the frame they had in a dump of a live process.
    #[serde(default)]
    pub mapping_pages: u64,
    /// Pages that are not in the dump, or not present there: they got ordinary frames.
    #[serde(default)]
    pub mapping_missing: u64,
    /// Pages whose frame in the dump served another page already (of a shared file, the page of zeros): they got
    /// ordinary frames.
    #[serde(default)]
    pub mapping_taken: u64,
    /// Base pages placed in RestSegs (UTO-5).
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub restseg_pages: u64,
    /// Pages and superpages whose set of the RestSeg was full, so that they were placed elsewhere.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub restseg_full: u64,
    /// Pages and superpages that left a RestSeg for others, or moved to one because they were walked often (UTO-5,
    /// UTO-6).
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub restseg_moves: u64,
    /// What the placement policy counts itself; absent where it counted nothing.
    #[serde(default, skip_serializing_if = "OwnCounts::is_empty")]
    pub policy: OwnCounts,
    /// What a recorded system did with its own page tables.
    #[serde(default, skip_serializing_if = "GuestOsCounts::is_empty")]
    pub guest: GuestOsCounts,
}

/// Free memory as a buddy allocator has it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FreeMemory {
    /// Free frames.
    pub frames: u64,
    /// Free blocks of 2^0, 2^1, ... frames, joined as far as they go, as in `/proc/buddyinfo`.
    pub blocks: Vec<u64>,
}

impl FreeMemory {
    /// Blocks of `2^order` frames that could be had, larger ones being split.
    pub fn blocks_of(&self, order: u32) -> u64 {
        (order..).zip(self.blocks.iter().skip(order as usize)).map(|(o, n)| n << (o - order)).sum()
    }
}

impl std::ops::AddAssign<&FreeMemory> for FreeMemory {
    fn add_assign(&mut self, other: &FreeMemory) {
        self.frames += other.frames;
        self.blocks.resize(self.blocks.len().max(other.blocks.len()), 0);
        self.blocks.iter_mut().zip(&other.blocks).for_each(|(n, more)| *n += more);
    }
}

/// Fragmentation of a limited memory with a buddy allocator, and the effect of compaction on it (F-14), in base pages.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CompactionUse {
    /// Free memory when the system started, nothing compacted or set aside yet.
    pub at_start: FreeMemory,
    /// Free memory when the run stopped.
    pub at_end: FreeMemory,
    /// Times that memory was compacted, on demand or in the background.
    pub runs: u64,
    /// Pages copied by that; [`OsCounts::gathered_pages`] has them too.
    pub moved_pages: u64,
    /// Of these, pages that do not belong to the program.
    pub moved_of_others: u64,
    /// Superpages and ranges that compaction wanted to move as a whole and found no place for.
    pub stayed: u64,
    /// Sum over the runs: free memory before.
    pub before: FreeMemory,
    /// Sum over the runs: free memory after.
    pub after: FreeMemory,
    /// log2 of the pages of the block whose index decides about a run.
    pub order: u32,
}

/// How contiguous memory is, in base pages: of the address space that had most pages mapped, when it had most (within a
/// sixty-fourth). Ranges are maximal runs of pages in consecutive frames with equal attributes (RMM15-1), of at least 8
/// pages (RMM15-43).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Contiguity {
    /// Pages that were mapped.
    pub mapped_pages: u64,
    /// Mappings larger than a page among them, such as 2 MB pages (RMM15-44).
    #[serde(default)]
    pub superpages: u64,
    /// Pages in these.
    #[serde(default)]
    pub superpage_pages: u64,
    /// Ranges.
    pub ranges: u64,
    /// Pages in ranges. `range_pages / ranges` is the mean size.
    pub range_pages: u64,
    /// Size of the median range; of two, the smaller.
    pub median_pages: u64,
    /// Size of the largest range.
    pub largest_pages: u64,
    /// Fewest ranges that hold 50 % of the mapped pages; absent if all ranges together do not.
    pub cover_50: Option<u64>,
    /// As before: 90 %.
    pub cover_90: Option<u64>,
    /// As before: 99 %.
    pub cover_99: Option<u64>,
    /// Runs of mapped pages with equal attributes, of any length and wherever their frames are (RMM15-44).
    pub ideal_ranges: u64,
    /// Fewest of these that hold 99 % of the mapped pages.
    pub ideal_cover_99: Option<u64>,
    /// Pages of the largest of these.
    pub ideal_largest_pages: u64,
    /// Most ranges that the range table of one process had, with the threshold of the machine.
    pub most_ranges: u64,
    /// Most bytes of one range table.
    pub table_bytes: u64,
    /// Ranges written to range tables.
    pub table_inserted: u64,
    /// Ranges taken out of range tables.
    pub table_removed: u64,
    /// Ranges dissolved into pages (RMM15-29, RMM15-30).
    pub dissolved: u64,
    /// Largest threshold of a process (F-4).
    pub threshold: u64,
    /// How often the threshold of a process changed (F-4).
    #[serde(default)]
    pub threshold_moves: u64,
    /// The threshold that a process got last.
    #[serde(default)]
    pub last_threshold: u64,
}

/// What direct segments did (DS13), in base pages.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SegmentUse {
    /// Segments created.
    pub created: u64,
    /// Segments removed: their pages went back to paging, or the process ended.
    pub destroyed: u64,
    /// LIMIT raised or BASE lowered (DS13-21).
    pub grown: u64,
    /// LIMIT lowered or BASE raised (DS13-22).
    pub shrunk: u64,
    /// Attempts to create a segment that failed for want of contiguous memory.
    pub refused: u64,
    /// Segments that were created for a part of their stretch only (DS13-15, SEG-10).
    pub first_part: u64,
    /// Pages copied into a segment (DS13-20).
    pub converted_pages: u64,
    /// Pages that got page table entries back (DS13-22).
    pub reverted_pages: u64,
    /// Most pages between BASE and LIMIT of all processes.
    pub most_pages: u64,
    /// Most pages in segments with contents.
    pub most_used_pages: u64,
    /// Most pages in segments that were never touched (DS13-26).
    pub most_unused_pages: u64,
    /// Such pages when the run stopped.
    pub unused_at_end_pages: u64,
    /// Frames lent to others because memory was full.
    pub lent_pages: u64,
    /// Sum over all events: pages of private anonymous read-write regions that are no stack (DS13-34).
    pub read_write_page_samples: u64,
    /// Sum over all events: pages of all regions but guards. The quotient is the mean share.
    pub mapped_page_samples: u64,
}
