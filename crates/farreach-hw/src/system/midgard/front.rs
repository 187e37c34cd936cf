//! The front side (MID-2): from virtual pages to Midgard pages, in front of the caches.
//!
//! A first level of pages for each side, and a second of regions. What both miss walks the VMA table of the process, a
//! tree in the Midgard space with five entries a node. Its nodes are full from the left, as those of a tree that was
//! just built, and are numbered level by level from the root.

use super::lru::Lru;
use super::regions::{Fallout, Found, Placed};
use crate::cache::levels::LINE_SHIFT;
use crate::tlb::additions::{Counter, Law};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::params::{Allowed, Key, Params};

const fn entries(name: &'static str, default: &'static str, about: &'static str) -> Key {
    Key { name, default, allowed: Allowed::Int { min: 1, max: 65536 }, about }
}
/// MID-2.
pub const VLB_L1I: Key = entries("vlb_l1i", "48", "pages in the first-level VLB of fetches, fully associative, LRU");
/// MID-2.
pub const VLB_L1D: Key = entries("vlb_l1d", "48", "the same of loads and stores");
/// MID-2.
pub const VLB_L2: Key = entries("vlb_l2", "16", "regions in the second-level VLB, fully associative, LRU");

/// Entries of a node, and its bytes: two lines (MID-2).
const FANOUT: u64 = 5;
pub(super) const NODE_BYTES: u64 = 128;
/// Midgard addresses of VMA tables, and log2 of the bytes that each process has for its own.
const TABLES: u64 = 1 << 58;
const TABLE_SHIFT: u32 = 26;

/// Places of [`COUNTERS`].
pub(super) const WALKS: usize = 0;
pub(super) const LLC_MISSES: usize = 1;
pub(super) const REGIONS: usize = 2;
pub(super) const FLUSHED: usize = 3;
pub(super) const FLUSHED_MODIFIED: usize = 4;
const INTERVALS: usize = 5;
const MOVES: usize = 6;

/// In the order of the constants above.
pub(super) const COUNTERS: &[Counter] = &[
    Counter::new("vma_walks", "walks of a VMA table: lookups that no VLB answered"),
    Counter::new("llc_misses", "lines of VMA tables that memory answered"),
    Counter::new("region_changes", "regions in use whose pages or protection changed"),
    Counter::new("flushed_lines", "lines flushed because their region ended, shrank or moved"),
    Counter::new("flushed_modified", "of these, modified ones"),
    Counter::new("intervals", "intervals of the Midgard space given to regions"),
    Counter::new("moves", "of these, the ones that regions moved to because they had no room to grow"),
];

/// Two lines a node, and a walk a miss.
pub(super) const LAWS: &[Law] = &[
    Law { name: "MID-2", sides: |part, _| (part.memory.made.references, 2 * part.memory.made.steps) },
    Law { name: "MID-4", sides: |part, tlb| (part.counters.get("vma_walks"), tlb.misses) },
];

/// Levels of a tree with this many entries.
fn levels(regions: u64) -> u32 {
    (1..).find(|&levels| FANOUT.pow(levels) >= regions).expect("a power of five is as large")
}

/// Lines of the nodes on the way to the entry `rank` of `regions`, the root first, two each.
pub(super) fn path(asid: Asid, found: &Found) -> impl Iterator<Item = [u64; 2]> {
    let levels = levels(found.regions);
    let rank = found.rank;
    (0..levels).map(move |level| {
        let before = (FANOUT.pow(level) - 1) / (FANOUT - 1);
        let node = before + rank / FANOUT.pow(levels - level);
        let address = TABLES + (u64::from(asid.0) << TABLE_SHIFT) + NODE_BYTES * node;
        [address >> LINE_SHIFT, (address >> LINE_SHIFT) + 1]
    })
}

/// Which level answered a lookup.
pub(super) enum Hit {
    First(Placed),
    Second(Placed),
}

/// See the module.
pub(super) struct Vlbs {
    /// Fetches; loads and stores.
    first: [Lru<Placed>; 2],
    second: Lru<Placed>,
    process_ids: bool,
}

impl Vlbs {
    pub fn new(params: &Params) -> Vlbs {
        Vlbs {
            first: [Lru::new(params.int(VLB_L1I.name)), Lru::new(params.int(VLB_L1D.name))],
            second: Lru::new(params.int(VLB_L2.name)),
            process_ids: params.flag(crate::tlb::keys::PROCESS_IDS.name),
        }
    }

    /// Looks a page up; what the second level answers enters the first.
    pub fn find(&mut self, side: usize, asid: Asid, vpn: Vpn) -> Option<Hit> {
        if let Some(page) = self.first[side].find(|entry| entry.has(asid, vpn)) {
            return Some(Hit::First(page));
        }
        let region = self.second.find(|entry| entry.has(asid, vpn))?;
        self.first[side].fill(region.page(vpn));
        Some(Hit::Second(region))
    }

    /// A walk found the region of a page; returns whether the second level evicted another.
    pub fn fill(&mut self, side: usize, region: Placed, vpn: Vpn) -> bool {
        self.first[side].fill(region.page(vpn));
        self.second.fill(region)
    }

    fn drop_where(&mut self, goes: impl Fn(&Placed) -> bool) -> u64 {
        self.first.iter_mut().chain([&mut self.second]).map(|level| level.drop_where(&goes)).sum()
    }

    /// Drops what changed (MID-4, HW-9); returns how many entries.
    pub fn forget(&mut self, fallout: &Fallout) -> u64 {
        let changed = |entry: &Placed| {
            fallout.regions.iter().any(|(asid, pages)| *asid == entry.asid && pages.overlaps(&entry.pages))
        };
        if fallout.regions.is_empty() { 0 } else { self.drop_where(changed) }
    }

    /// Another process runs.
    pub fn switch(&mut self, to: Asid) -> u64 {
        if self.process_ids { 0 } else { self.drop_where(|entry| entry.asid != to) }
    }
}

/// Copies what the space counts.
pub(super) fn add_space(counters: &mut farreach_types::counts::OwnCounts, intervals: u64, moves: u64) {
    *counters.at(INTERVALS) = intervals;
    *counters.at(MOVES) = moves;
}
