//! What TLBs, walkers, range TLBs and segments count.

use super::{ContextCounts, HOST_TABLE, MemoryCounts, OwnCounts, Parts, TABLE, WalkCaches};
use serde::{Deserialize, Serialize};

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
    /// Misses, each of which writes one entry, and further entries that preload began. `fills - merges` entries were
    /// begun.
    pub fills: u64,
    /// Misses that joined an existing subblock entry instead of beginning one (T94-12, T94-13).
    pub merges: u64,
    /// Valid entries evicted; of two levels, those of the second.
    pub evictions: u64,
    /// Translations loaded besides those that missed, each from a page table entry of its own, into an entry that is
    /// new or not (T94-22; the other pages of a whole region in the all-valid variant, T94-21). `misses + preloaded`
    /// page table entries were loaded.
    pub preloaded: u64,
    /// Page table entries the miss handler read beyond the first, mapped or not (T94-22, T94-26).
    pub extra_pte_reads: u64,
    /// Translations dropped because the operating system changed a mapping, split it or ended the process (T94-18), and
    /// by process switches where the design has no process ids: one per valid subblock, one per superpage or page
    /// otherwise.
    pub invalidations: u64,
    /// Entries dropped because a larger fill covered them (T94-11, AMB-13, AMB-20; T94-21).
    pub covered_drops: u64,
    /// Pages that began a new entry although one with their tag was there, by the first condition of T94-7 that failed:
    /// the page is not aligned with its frame, or no entry with the tag is for aligned pages (T94-13, H-T94-9).
    pub split_unaligned: u64,
    /// As before: the frames belong to another aligned group.
    pub split_frames: u64,
    /// As before: an entry has the group of frames, and other attributes.
    pub split_attributes: u64,
    /// Fetches that missed in a first level and hit in the second (PS-12). They are no misses: a miss is answered by no
    /// level.
    #[serde(default)]
    pub second_level_fetch_hits: u64,
    /// As before: loads and stores.
    #[serde(default)]
    pub second_level_data_hits: u64,
    /// Page walks; absent where nothing walked.
    #[serde(default, skip_serializing_if = "WalkCounts::is_empty")]
    pub walk: WalkCounts,
    /// Walks by reuse distance; absent where they are not counted.
    #[serde(default, skip_serializing_if = "WalkDistances::is_empty")]
    pub walk_distances: WalkDistances,
    /// What the host of a virtual machine translated; absent where nothing was, natively or because the host has a
    /// segment.
    #[serde(default, skip_serializing_if = "HostWalkCounts::is_empty")]
    pub host_walk: HostWalkCounts,
    /// What answered the references of walkers; absent where they have a fixed price.
    #[serde(default, skip_serializing_if = "WalkCaches::is_empty")]
    pub walk_caches: WalkCaches,
    /// The range TLB; absent where there is none.
    #[serde(default, skip_serializing_if = "RangeCounts::is_empty")]
    pub range: RangeCounts,
    /// The direct segment; absent where nothing was counted for one.
    #[serde(default, skip_serializing_if = "SegmentCounts::is_empty")]
    pub segment: SegmentCounts,
    /// What the policy that replaces entries of the second level counted itself; absent where it counts nothing.
    #[serde(default, skip_serializing_if = "OwnCounts::is_empty")]
    pub replacement: OwnCounts,
    /// What parts counted that name their counters themselves; absent where there are none.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    pub parts: Parts,
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
            walk_distances,
            host_walk,
            walk_caches,
            range,
            segment,
            replacement,
            parts,
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
        self.walk_distances += walk_distances;
        self.host_walk += host_walk;
        self.walk_caches += walk_caches;
        self.range += range;
        self.segment += segment;
        self.replacement += replacement;
        self.parts += parts;
        self.shootdown += shootdown;
    }
}

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

counters! {
    /// Walks to base pages by the number of distinct 64-byte lines of leaves that walks read since they read the same
    /// line, itself included. A line has the leaves of 8 pages.
    WalkDistances {
        /// Up to 256 lines.
        lines_256,
        /// Up to 1024.
        lines_1k,
        /// Up to 4096.
        lines_4k,
        /// Up to 16384.
        lines_16k,
        /// Up to 65536.
        lines_64k,
        /// More, or a line that no walk had read.
        beyond,
    }
}

counters! {
    /// What the second dimension did in a virtual machine (DS13-42): translations of guest physical addresses, those of
    /// the nodes that a walk reads in the guest's table and those of the pages it ends at.
    HostWalkCounts {
        /// Translations for which the host's page table was walked.
        walks,
        /// Nodes these read, if both tables are radix trees. Other tables count references in [`HOST_TABLE`].
        references,
        /// Translations that the nested TLB answered.
        nested_tlb_hits,
    }
}

impl WalkDistances {
    /// Lines at which the classes end; the last class has no end.
    pub const ENDS: [u32; 5] = [256, 1 << 10, 4 << 10, 16 << 10, 64 << 10];

    /// The classes, from the nearest.
    pub fn classes(&self) -> [u64; WalkDistances::ENDS.len() + 1] {
        [self.lines_256, self.lines_1k, self.lines_4k, self.lines_16k, self.lines_64k, self.beyond]
    }

    /// All walks.
    pub fn total(&self) -> u64 {
        self.classes().iter().sum()
    }

    /// The class at this place, that without an end for a number beyond the ends.
    pub fn class(&mut self, at: usize) -> &mut u64 {
        match at {
            0 => &mut self.lines_256,
            1 => &mut self.lines_1k,
            2 => &mut self.lines_4k,
            3 => &mut self.lines_16k,
            4 => &mut self.lines_64k,
            _ => &mut self.beyond,
        }
    }
}

impl TlbCounts {
    /// The counts that are kept by context. Lookups are the machine's.
    pub fn of_context(&self) -> ContextCounts {
        ContextCounts {
            lookups: self.lookups,
            misses: self.misses,
            fetch_misses: self.fetch_misses,
            data_misses: self.data_misses,
            second_level_fetch_hits: self.second_level_fetch_hits,
            second_level_data_hits: self.second_level_data_hits,
            range_hits: self.range.sole_hits,
            extra_pte_reads: self.extra_pte_reads,
            walks: self.walk.walks,
            walk_references: self.walk_references(),
        }
    }

    /// References of walks to page tables of all kinds, in both dimensions.
    pub fn table_references(&self) -> u64 {
        self.walk_references() + self.of_tables(|memory| memory.made.references)
    }

    /// Steps that walks made one after the other, in both dimensions (HW-7). A node of a radix tree is one.
    pub fn table_steps(&self) -> u64 {
        self.walk_references() + self.of_tables(|memory| memory.made.steps)
    }

    /// A sum over page tables that are no radix tree, in both dimensions.
    pub fn of_tables(&self, of: impl Fn(&MemoryCounts) -> u64) -> u64 {
        [TABLE, HOST_TABLE].iter().filter_map(|name| self.parts.get(name)).map(|table| of(&table.memory)).sum()
    }

    /// Nodes of radix trees read, in both dimensions.
    pub fn walk_references(&self) -> u64 {
        self.walk.references() + self.host_walk.references
    }
}

impl WalkCounts {
    /// Nodes read, of the guest in a virtual machine.
    pub fn references(&self) -> u64 {
        self.pt_references + self.pd_references + self.pdpt_references + self.pml4_references + self.pml5_references
    }
    /// Nodes read at a level, 0 to 4 from the leaves of 4 KB pages.
    pub fn references_at(&mut self, level: u8) -> &mut u64 {
        match level {
            0 => &mut self.pt_references,
            1 => &mut self.pd_references,
            2 => &mut self.pdpt_references,
            3 => &mut self.pml4_references,
            _ => &mut self.pml5_references,
        }
    }
    /// The nodes read at each level, from the leaves of 4 KB pages.
    pub fn by_level(&self) -> [u64; 5] {
        [self.pt_references, self.pd_references, self.pdpt_references, self.pml4_references, self.pml5_references]
    }
    /// Walks that began below a cached entry of this level, 1 to 4.
    pub fn cache_hits(&mut self, level: u8) -> &mut u64 {
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
        /// Searches that found no range (F-12).
        wasted_walks,
        /// Page walks whose page was in a range that was not searched for (F-12).
        missed_ranges,
        /// Valid ranges evicted.
        evictions,
        /// Ranges dropped by changes of the operating system (RMM15-12), and by process switches without process ids.
        invalidations,
        /// How often the range TLB was switched on or off (F-13).
        switches,
    }
}

counters! {
    /// What shootdowns did on machines of several cores (XC-7).
    ShootdownCounts {
        /// Changes of mappings or segment registers for which at least one other core was interrupted.
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
        /// Misses of data references inside the segment: emulated (DS13-25, DS13-30), or in a virtual machine whose
        /// host walks for what the segment says (DS13-41).
        misses_inside,
        /// Writes of a guest to its segment registers, each of which trapped into the hypervisor (F-15).
        traps,
    }
}
