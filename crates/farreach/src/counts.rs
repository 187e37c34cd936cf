//! Raw integers of a run, and the result that carries them. Nothing here is derived from anything else; percentages, cycles
//! and areas are made in [`crate::cost`] and [`crate::report`].

mod contiguity;
mod ideal;
mod pages;
mod system;

pub use contiguity::{CONTIGUITY_SCHEMA, ContiguityResult, ContiguitySample, Need, Ranges, RegionContiguity};
pub use ideal::{IdealSegment, LONG_LIVED_PERCENT};
pub use pages::{Advice, FrontierPoint, PAGESIZE_SCHEMA, PageCounts, PageRow, PageSizeResult, Relative};
pub use system::{HandlerCounts, OverheadRow, SideCounts, SystemCounts};

use serde::{Deserialize, Serialize};

/// Version of [`RunResult`]'s JSON. Fields may be added under the same version; none is renamed or removed.
pub const RESULT_SCHEMA: &str = "farreach.result/1";

/// What one design counted (XC-5). One lookup per base page of the machine that a reference touches (XC-1).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TlbCounts {
    /// All lookups; `hits + misses`.
    pub lookups: u64,
    /// Lookups that missed: `fetch_misses + data_misses`, and also `tag_misses + subblock_misses`.
    pub misses: u64,
    /// Misses of instruction fetches.
    pub fetch_misses: u64,
    /// Misses of loads and stores.
    pub data_misses: u64,
    /// Misses of loads.
    pub load_misses: u64,
    /// Misses of stores.
    pub store_misses: u64,
    /// Misses for which no entry had the tag.
    pub tag_misses: u64,
    /// Misses for which an entry had the tag but not the subblock (T94-9).
    pub subblock_misses: u64,
    /// Misses whose page table entry was (part of) a superpage (H-T94-23).
    pub superpage_misses: u64,
    /// Misses, each of which writes one entry, and further entries that preload began. `fills - merges` entries were begun.
    pub fills: u64,
    /// Misses that joined an existing subblock entry instead of beginning one (T94-12, T94-13).
    pub merges: u64,
    /// Valid entries thrown out for want of room; of two levels, those of the second.
    pub evictions: u64,
    /// Translations loaded besides those that missed, each from a page table entry of its own, into whatever entry (T94-22; the other
    /// pages of a whole region in the all-valid variant, T94-21). `misses + preloaded` page table entries were loaded.
    pub preloaded: u64,
    /// Page table entries the miss handler read beyond the first, mapped or not (T94-22, T94-26).
    pub extra_pte_reads: u64,
    /// Translations dropped because the operating system changed a mapping, split it or ended the process (T94-18), and by process
    /// switches where the design has no process ids: one per valid subblock, one per superpage or page otherwise.
    pub invalidations: u64,
    /// Entries dropped because a larger fill covered them (T94-11, AMB-13, AMB-20; T94-21).
    pub covered_drops: u64,
    /// Pages that began a new entry although one with their tag was there, by the first condition of T94-7 that failed: the page is not
    /// aligned with its frame, or no entry with the tag is for aligned pages (T94-13, H-T94-9).
    pub split_unaligned: u64,
    /// As before: the frames belong to another aligned group.
    pub split_frames: u64,
    /// As before: an entry has the group of frames, and other attributes.
    pub split_attributes: u64,
    /// Fetches that missed in a first level and hit in the second (PS-12). No misses: those are what nothing answered.
    #[serde(default)]
    pub second_level_fetch_hits: u64,
    /// As before: loads and stores.
    #[serde(default)]
    pub second_level_data_hits: u64,
    /// Page walks; absent where nothing walked.
    #[serde(default, skip_serializing_if = "WalkCounts::is_empty")]
    pub walk: WalkCounts,
    /// What answered the references of walkers; absent where they have a fixed price.
    #[serde(default, skip_serializing_if = "WalkCaches::is_empty")]
    pub walk_caches: WalkCaches,
    /// The range TLB; absent where there is none.
    #[serde(default, skip_serializing_if = "RangeCounts::is_empty")]
    pub range: RangeCounts,
    /// The direct segment; absent where nothing was counted for one.
    #[serde(default, skip_serializing_if = "SegmentCounts::is_empty")]
    pub segment: SegmentCounts,
    /// Shootdowns; absent where there were none.
    #[serde(default, skip_serializing_if = "ShootdownCounts::is_empty")]
    pub shootdown: ShootdownCounts,
}

impl std::ops::AddAssign<&TlbCounts> for TlbCounts {
    /// Adds another part of the same design: the other side of a split TLB.
    fn add_assign(&mut self, other: &TlbCounts) {
        let TlbCounts {
            lookups,
            misses,
            fetch_misses,
            data_misses,
            load_misses,
            store_misses,
            tag_misses,
            subblock_misses,
            superpage_misses,
            fills,
            merges,
            evictions,
            preloaded,
            extra_pte_reads,
            invalidations,
            covered_drops,
            split_unaligned,
            split_frames,
            split_attributes,
            second_level_fetch_hits,
            second_level_data_hits,
            walk,
            walk_caches,
            range,
            segment,
            shootdown,
        } = other;
        self.lookups += lookups;
        self.misses += misses;
        self.fetch_misses += fetch_misses;
        self.data_misses += data_misses;
        self.load_misses += load_misses;
        self.store_misses += store_misses;
        self.tag_misses += tag_misses;
        self.subblock_misses += subblock_misses;
        self.superpage_misses += superpage_misses;
        self.fills += fills;
        self.merges += merges;
        self.evictions += evictions;
        self.preloaded += preloaded;
        self.extra_pte_reads += extra_pte_reads;
        self.invalidations += invalidations;
        self.covered_drops += covered_drops;
        self.split_unaligned += split_unaligned;
        self.split_frames += split_frames;
        self.split_attributes += split_attributes;
        self.second_level_fetch_hits += second_level_fetch_hits;
        self.second_level_data_hits += second_level_data_hits;
        self.walk += walk;
        self.walk_caches += walk_caches;
        self.range += range;
        self.segment += segment;
        self.shootdown += shootdown;
    }
}

/// Defines a block of counters that is left out of a result where all are 0.
macro_rules! counters {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident),* $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name { $($(#[$doc])* pub $field: u64),* }

        impl $name {
            /// Nothing was counted.
            pub fn is_empty(&self) -> bool {
                *self == $name::default()
            }
        }

        impl std::ops::AddAssign<&$name> for $name {
            fn add_assign(&mut self, other: &$name) {
                let $name { $($field),* } = other;
                $(self.$field += $field;)*
            }
        }
    };
}

mod caches;
pub use caches::{Answered, CacheCounts, LineCounts, WalkCaches};

counters! {
    /// What a page-table walker counted (DS13-36). Levels are those of x86-64, from the leaf up.
    WalkCounts {
        /// Walks: misses of all TLBs.
        walks,
        /// Nodes read in page tables, the leaves of 4 KB pages.
        pt_references,
        /// In page directories, the leaves of 2 MB pages.
        pd_references,
        /// In page-directory-pointer tables, the leaves of 1 GB pages.
        pdpt_references,
        /// In the fourth level.
        pml4_references,
        /// In the fifth level.
        pml5_references,
        /// Walks that began below a cached page-directory entry.
        pd_cache_hits,
        /// Below a cached page-directory-pointer entry.
        pdpt_cache_hits,
        /// Below a cached entry of the fourth level.
        pml4_cache_hits,
        /// Below a cached entry of the fifth level.
        pml5_cache_hits,
    }
}

impl WalkCounts {
    /// Nodes read.
    pub fn references(&self) -> u64 {
        self.pt_references + self.pd_references + self.pdpt_references + self.pml4_references + self.pml5_references
    }
    /// Nodes read at a level, 0 to 4 from the leaves of 4 KB pages.
    pub(crate) fn references_at(&mut self, level: u8) -> &mut u64 {
        match level {
            0 => &mut self.pt_references,
            1 => &mut self.pd_references,
            2 => &mut self.pdpt_references,
            3 => &mut self.pml4_references,
            _ => &mut self.pml5_references,
        }
    }
    /// Walks that began below a cached entry of this level, 1 to 4.
    pub(crate) fn cache_hits(&mut self, level: u8) -> &mut u64 {
        match level {
            1 => &mut self.pd_cache_hits,
            2 => &mut self.pdpt_cache_hits,
            3 => &mut self.pml4_cache_hits,
            _ => &mut self.pml5_cache_hits,
        }
    }
}

counters! {
    /// What a range TLB and the walker of the range table counted (RMM15). Lookups are `hits + misses`, and also
    /// `mru_hits + full_searches`.
    RangeCounts {
        /// Lookups that a range answered, also where a page TLB did too (AMB-86).
        hits,
        /// Of those, the ones that no page TLB answered: page walks saved.
        sole_hits,
        /// Lookups that no range answered.
        misses,
        /// Lookups that the range used last answered at once (RMM15-10).
        mru_hits,
        /// Lookups that searched all ranges.
        full_searches,
        /// Searches of the range table.
        walks,
        /// Nodes these visited.
        nodes,
        /// Searches in vain (F-12).
        wasted_walks,
        /// Page walks whose page was in a range that was not searched for (F-12).
        missed_ranges,
        /// Valid ranges thrown out for want of room.
        evictions,
        /// Ranges dropped because of what the operating system told (RMM15-12), and by process switches without process ids.
        invalidations,
        /// How often the range TLB was switched on or off (F-13).
        switches,
    }
}

counters! {
    /// What shootdowns did on machines of several cores (XC-7).
    ShootdownCounts {
        /// Changes of mappings or of segment registers that at least one other core had to hear of.
        sent,
        /// Interrupts to other cores.
        ipis,
        /// Translations and ranges that these cores dropped; also among `invalidations`.
        remote_invalidations,
    }
}

counters! {
    /// What was counted for a direct segment (DS13).
    SegmentCounts {
        /// Emulated (DS13-25, DS13-30): misses of data references inside the segment.
        misses_inside,
    }
}

/// What one operating-system policy counted. Shared by the designs that run on it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct OsCounts {
    /// Faults that mapped a page. Copy-on-write faults are not among them.
    pub page_faults: u64,
    /// Stores to a mapping that forbade them and that the system put right (copy-on-write).
    pub protection_faults: u64,
    /// Pages copied for copy-on-write (T94-57).
    pub cow_copies: u64,
    /// References to addresses that no region covers; the trace is at fault, the page is mapped as anonymous memory.
    pub wild_faults: u64,
    /// Mapped pages that saw an access their region forbids; the trace is at fault, the access goes on. Once per mapping.
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
    /// Pages mapped by promotion, collapse, superpage faults and eager requests although nothing had touched them (T94-41, AMB-12).
    pub populated_pages: u64,
    /// Of those, the ones that came in one piece with others under one superpage: no page table entry was written for each.
    #[serde(default)]
    pub populated_in_superpages: u64,
    /// Of all populated pages, never referenced until the end (H-T94-30).
    pub populated_never_used: u64,
    /// Pages copied to make memory contiguous: by collapse, compaction and conversion to a segment; those of T94 never do (T94-55).
    pub gathered_pages: u64,
    /// Page table entries probed by faults and promotion checks (Table 2 of T94).
    pub pt_probes: u64,
    /// Aligned groups and free-list steps the allocator looked at.
    pub alloc_steps: u64,
    /// Pages whose first store marked them modified, counted in the size of their mapping (T94-19), in base pages.
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
    /// Pages of requests that got no frame because memory was full (AMB-82).
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
    /// Pages zeroed by faults and requests that bring in more than one page, and by the collapse of pages into a superpage.
    #[serde(default)]
    pub zeroed_pages: u64,
    /// Faults served with a superpage.
    #[serde(default)]
    pub superpage_faults: u64,
    /// Pages mapped because memory was rounded up to whole huge pages: nobody had asked for them then.
    #[serde(default)]
    pub huge_rest_pages: u64,
    /// Superpages that a fault could have had and for which there was no block, each size by itself.
    #[serde(default)]
    pub superpage_fallbacks: u64,
    /// Groups of pages copied together into a superpage in the background.
    #[serde(default)]
    pub collapses: u64,
    /// Aligned groups of frames freed by copying their pages elsewhere (F-14).
    #[serde(default)]
    pub compactions: u64,
    /// Attempts at that which failed.
    #[serde(default)]
    pub compactions_failed: u64,
    /// Never-touched pages taken back when memory was full (F-7).
    #[serde(default)]
    pub reclaimed_pages: u64,
    /// Pages that got the frame they had in a dump of a living process.
    #[serde(default)]
    pub mapping_pages: u64,
    /// Pages that are not in the dump, or not present there: they got ordinary frames.
    #[serde(default)]
    pub mapping_missing: u64,
    /// Pages whose frame in the dump served another page already (of a shared file, the page of zeros): they got ordinary frames.
    #[serde(default)]
    pub mapping_taken: u64,
}

/// How contiguous memory is, in base pages: of the address space that had most pages mapped, when it had most (within a sixty-fourth).
/// Ranges are maximal runs of pages in consecutive frames with equal attributes (RMM15-1), of at least 8 pages (RMM15-43).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Contiguity {
    /// Pages that were mapped.
    pub mapped_pages: u64,
    /// Ranges.
    pub ranges: u64,
    /// Pages in ranges. `range_pages / ranges` is the mean size.
    pub range_pages: u64,
    /// Size of the median range; of two, the smaller.
    pub median_pages: u64,
    /// Size of the largest range.
    pub largest_pages: u64,
    /// Fewest ranges that hold 50 % of the mapped pages; absent if all do not.
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
}

/// What direct segments did (DS13), in base pages.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SegmentUse {
    /// Segments created.
    pub created: u64,
    /// Segments given up: their pages went back to paging, or the process ended.
    pub destroyed: u64,
    /// LIMIT raised or BASE lowered (DS13-21).
    pub grown: u64,
    /// LIMIT lowered or BASE raised (DS13-22).
    pub shrunk: u64,
    /// Times that memory for a segment was wanted and there was none.
    pub refused: u64,
    /// Segments that got memory for the first part of the primary region only (DS13-15).
    pub first_part: u64,
    /// Pages copied into a segment (DS13-20).
    pub converted_pages: u64,
    /// Pages that got page table entries back (DS13-22).
    pub reverted_pages: u64,
    /// Most pages between BASE and LIMIT of all processes.
    pub most_pages: u64,
    /// Most pages in segments with contents.
    pub most_used_pages: u64,
    /// Most pages in segments that nothing had used (DS13-26).
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

/// Memory in bytes, at the moment named.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemoryUse {
    /// Most physical memory in use at any time: pages with contents, mapped or not.
    pub resident_bytes: u64,
    /// Most memory mapped by page tables at any time; a frame mapped twice counts twice.
    pub mapped_bytes: u64,
    /// Most memory held back by reservations at any time; it counts as free for whoever needs it.
    pub reserved_bytes: u64,
    /// Bytes of distinct pages that were referenced at least once, over the whole run.
    pub touched_bytes: u64,
    /// Resident at the peak but never referenced by then.
    pub wasted_bytes: u64,
    /// Most virtual memory in regions at any time, guards left out; 0 for a trace without map events.
    pub virtual_bytes: u64,
    /// Resident when the run stopped.
    pub resident_at_end_bytes: u64,
}

/// Lookups by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Lookups {
    /// Instruction fetches.
    pub fetch: u64,
    /// Data reads.
    pub load: u64,
    /// Data writes.
    pub store: u64,
}

impl Lookups {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.fetch + self.load + self.store
    }
}

/// What ran.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Workload {
    /// The command line, the file, or the generator.
    pub source: String,
    /// Instructions fetched.
    pub instructions: u64,
    /// References: fetches, loads and stores, before the splitting at page boundaries.
    pub references: Lookups,
    /// Lookups in 4 KB pages: one per page touched.
    pub lookups: Lookups,
    /// Bytes of the distinct 4 KB pages touched.
    pub touched_bytes: u64,
    /// Address spaces seen.
    pub processes: u64,
    /// Threads seen.
    pub threads: u64,
    /// Why the run ended before the program did, if it did.
    pub stopped: Option<String>,
    /// Seed of everything random in this run.
    pub seed: u64,
}

/// Misses over time, of one design: equal slices of the run, measured in references.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Timeline {
    /// Lookups per slice, in 4 KB pages whatever the base page of the machine; the last slice may be shorter.
    pub slice_lookups: u64,
    /// Misses in each slice.
    pub misses: Vec<u64>,
}

/// Memory in use over time, of one operating system: at the end of each of equal slices of the run, measured in references (DS13-33).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemoryTimeline {
    /// Lookups per slice, in 4 KB pages whatever the base page of the machine; the last slice may be shorter.
    pub slice_lookups: u64,
    /// Physical memory in use: pages with contents. At most 257 values, as of the other list.
    pub resident_bytes: Vec<u64>,
    /// Virtual memory in regions, guards left out; 0 for a trace without map events.
    pub virtual_bytes: Vec<u64>,
}

/// Misses in one region of the address space, of one design.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RegionMisses {
    /// What people call it: `text gcc`, `libc.so.6`, `heap`, `stack`, `anonymous`.
    pub region: String,
    /// Fetch misses.
    pub fetch_misses: u64,
    /// Load and store misses.
    pub data_misses: u64,
}

/// One line of the cost ledger (T94-78): what a mechanism saved or cost.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LedgerLine {
    /// The mechanism, in the words of T94's Tables 2 to 4.
    pub item: String,
    /// How often.
    pub count: u64,
    /// Unit of `count`: `misses`, `pages`, `bytes`, ...
    pub unit: String,
    /// Cycles charged (positive) or saved against the 4 KB single-page-size design of the same run (negative); absent where
    /// the model puts no price on it.
    pub cycles: Option<i64>,
}

/// What a design costs: pure functions of counts and configuration.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Cycles spent on TLB misses: misses x penalty + further page table entries x their cost (T94-26).
    pub cycles: u64,
    /// Of `cycles`, those of page walks by hardware; absent where nothing walked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walk_cycles: Option<u64>,
    /// Cycles the operating system spent on faults, populating, promotion, copying, by the cost knobs.
    pub os_cycles: u64,
    /// `cycles` per instruction; absent for traces without fetches.
    pub cycles_per_instruction: Option<f64>,
    /// Share of run time spent on TLB misses, in percent, at `cpi` cycles for everything else; absent without fetches.
    pub percent_of_time: Option<f64>,
    /// All cycles per instruction that `percent_of_time` is a share of (SV97-45): `cycles`, and everything else. With caches that is `cpi` and
    /// the program's own cache misses. Absent without fetches.
    #[serde(default)]
    pub total_cycles_per_instruction: Option<f64>,
    /// Area in register-bit equivalents (AREA-1); absent for organisations the model does not cover.
    pub area_rbe: Option<f64>,
    /// TLB reach: bytes that a TLB full of entries of the largest kind maps.
    pub reach_bytes: u64,
}

/// One machine of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MachineResult {
    /// The string it was asked for.
    pub name: String,
    /// Every key with its resolved value.
    pub config: serde_json::Map<String, serde_json::Value>,
    /// What hardware and operating system counted: [`TlbCounts`] and [`OsCounts`] in one object.
    pub counts: Counts,
    /// What a machine with caches counted besides; absent for TLBs by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemCounts>,
    /// The program in the caches of a machine whose page-table walkers read through them (`walk_cost = caches`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches: Option<CacheCounts>,
    /// The composition of its overhead (SV97-41); empty for TLBs by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overhead: Vec<OverheadRow>,
    /// Memory.
    pub memory: MemoryUse,
    /// Contiguity, if the system keeps ranges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contiguity: Option<Contiguity>,
    /// Direct segments, if the system makes any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<SegmentUse>,
    /// What an ideal direct segment would save, for machines with a page-table walker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ideal_segment: Option<IdealSegment>,
    /// Cost.
    pub cost: Cost,
    /// Benefit and cost side by side.
    pub ledger: Vec<LedgerLine>,
    /// Misses over time.
    pub timeline: Timeline,
    /// Memory over time.
    #[serde(default)]
    pub memory_over_time: MemoryTimeline,
    /// Misses by region, most first.
    pub regions: Vec<RegionMisses>,
}

/// Hardware and operating-system counts, one flat JSON object.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Of the design.
    #[serde(flatten)]
    pub tlb: TlbCounts,
    /// Of the policy it ran on.
    #[serde(flatten)]
    pub os: OsCounts,
}

/// Everything a run found: what `--json` prints.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// [`RESULT_SCHEMA`].
    pub schema: String,
    /// What ran.
    pub workload: Workload,
    /// Design by design, in the order asked for.
    pub machines: Vec<MachineResult>,
}
