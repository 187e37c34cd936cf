//! The page-table walker of x86-64: a radix tree of four or five levels with leaves of 4 KB, 2 MB and 1 GB, and caches of its upper
//! levels. A node is known by address space, level and the part of the page number that leads to it.

use super::keys::Geometry;
use super::store::{Contents, Store};
use super::tag_index::Tag;
use super::{Noise, PageTableView};
use crate::addr::{Asid, Vpn};
use crate::counts::{TlbCounts, WalkCounts};
use crate::params::{Allowed, Key, Params};

/// log2 of the entries of a node.
pub(super) const RADIX: u8 = 9;

const CACHE: Allowed = Allowed::Int { min: 0, max: 65536 };

/// Levels of the page table.
pub const WALK_LEVELS: Key =
    Key { name: "walk_levels", default: "4", allowed: Allowed::Int { min: 4, max: 5 }, about: "levels of the page table" };
/// Cache of page-directory entries that point to a page table.
pub const PWC_PD: Key =
    Key { name: "pwc_pd", default: "0", allowed: CACHE, about: "walker: cached page-directory entries; 0: none" };
/// As before, one level up.
pub const PWC_PDPT: Key =
    Key { name: "pwc_pdpt", default: "0", allowed: CACHE, about: "walker: cached page-directory-pointer entries; 0: none" };
/// As before, one level up.
pub const PWC_PML4: Key = Key { name: "pwc_pml4", default: "0", allowed: CACHE, about: "walker: cached PML4 entries; 0: none" };
/// As before, one level up.
pub const PWC_PML5: Key = Key { name: "pwc_pml5", default: "0", allowed: CACHE, about: "walker: cached PML5 entries; 0: none" };

/// Level of the page table that holds the leaf of a mapping of `2^order` pages: 0 for 4 KB, 1 for 2 MB, 2 for 1 GB. Sizes between
/// are several leaves.
#[inline]
pub(super) fn leaf_level(order: u8) -> u8 {
    (order / RADIX).min(2)
}

/// What a walk costs.
pub const WALK_COST: Key = Key {
    name: "walk_cost",
    default: "fixed",
    allowed: Allowed::OneOf(&["fixed", "caches"]),
    about: "what the node of a walk costs: fixed: walk_reference_cycles; caches: as long as the caches take, which then see every reference (slow)",
};

/// Whether a machine asks for [`WALK_COST`] by caches.
pub fn by_caches(params: &Params) -> bool {
    params.has(WALK_COST.name) && params.text(WALK_COST.name) == "caches"
}

/// A reference of a walker to a table in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeRead {
    /// Whose table.
    pub asid: Asid,
    /// Level of a page table, 0 for the leaves of 4 KB pages, or [`NodeRead::RANGES`].
    pub level: u8,
    /// Byte of the first of eight bytes, as if all entries of the level (all nodes of the range table) lay in one array. Each 4 KB of it are one
    /// node of the page table, wherever that lies.
    pub address: u64,
}

impl NodeRead {
    /// The level of range tables.
    pub const RANGES: u8 = 5;

    /// The entry on the way to a page.
    fn entry(asid: Asid, vpn: Vpn, level: u8) -> NodeRead {
        NodeRead { asid, level, address: vpn.0 >> (RADIX * level) << 3 }
    }
}

/// A cached entry is its tag alone.
#[derive(Clone, Copy, Default)]
struct Pointer;

impl Contents for Pointer {
    fn subblocks(&self) -> Option<u64> {
        None
    }
}

/// The walker. Fully associative caches, true LRU unless the hierarchy is told otherwise.
pub(super) struct Walker {
    /// By level of the entries in them, from 1.
    caches: Vec<Option<Store<Pointer>>>,
    /// Nobody skips walks.
    unheard: Noise,
}

impl Walker {
    pub fn new(params: &Params, seed: u64) -> Result<Walker, String> {
        let levels = params.int(WALK_LEVELS.name) as u8;
        let cache = |level: u8| {
            let key = [&PWC_PD, &PWC_PDPT, &PWC_PML4, &PWC_PML5][usize::from(level) - 1];
            let entries = params.int(key.name);
            let build = |g| Store::new(g, params, seed.wrapping_add(level.into()));
            (entries > 0).then(|| Geometry::new(entries, 0).map(build)).transpose()
        };
        if levels < 5 && params.int(PWC_PML5.name) > 0 {
            return Err(format!(
                "pwc_pml5 = {} is not allowed: a page table of {levels} levels has no PML5",
                params.int(PWC_PML5.name)
            ));
        }
        Ok(Walker { caches: (1..levels).map(cache).collect::<Result<_, _>>()?, unheard: Noise::default() })
    }

    fn tag(asid: Asid, vpn: Vpn, level: u8) -> Tag {
        Tag::of(asid, vpn, RADIX * level)
    }

    /// Walks for a page whose leaf is at this level (DS13-36). The deepest cached entry on the way is used; what is read below it, but
    /// for the leaf, is cached, top first. `reads` gets the references.
    pub fn walk(&mut self, asid: Asid, vpn: Vpn, leaf: u8, counts: &mut WalkCounts, mut reads: Option<&mut Vec<NodeRead>>) {
        let levels = self.caches.len() as u8 + 1;
        let Walker { caches, unheard } = self;
        let mut from = levels;
        for level in leaf + 1..levels {
            let Some(cache) = &mut caches[usize::from(level) - 1] else { continue };
            if let Some(slot) = cache.find(Walker::tag(asid, vpn, level)) {
                cache.touch(slot, unheard);
                *counts.cache_hits(level) += 1;
                from = level;
                break;
            }
        }
        counts.walks += 1;
        for level in (leaf..from).rev() {
            *counts.references_at(level) += 1;
            if let Some(reads) = &mut reads {
                reads.push(NodeRead::entry(asid, vpn, level));
            }
            if let Some(cache) = level.checked_sub(1).filter(|_| level > leaf).and_then(|i| caches[usize::from(i)].as_mut()) {
                cache.place(Walker::tag(asid, vpn, level), Pointer, None, &mut TlbCounts::default(), unheard);
            }
        }
        unheard.clear();
    }

    /// A mapping of this address space changed: all cached entries of it go, as with INVLPG.
    pub fn forget(&mut self, asid: Asid) {
        self.caches.iter_mut().flatten().for_each(|cache| _ = cache.drop_space(asid, &mut self.unheard));
        self.unheard.clear();
    }

    pub fn switch(&mut self, to: Asid) {
        self.caches.iter_mut().flatten().for_each(|cache| _ = cache.switch(to, &mut self.unheard));
        self.unheard.clear();
    }
}

/// log2 of the pages that `2^order` aligned pages around this one can be taken for, if their entries in one line of the page table say
/// the same: contiguous frames, aligned as the pages are, equal attributes. 0 otherwise.
pub(super) fn coalesced(asid: Asid, vpn: Vpn, table: &dyn PageTableView, order: u8) -> u8 {
    let base = vpn.align_down(order.into());
    let Some(first) = table.pte(asid, base).filter(|p| p.pfn.offset_in(order.into()) == 0) else { return 0 };
    let joins = |i: u64| {
        let pte = table.pte(asid, Vpn(base.0 + i));
        pte.is_some_and(|p| p.pfn.0 == first.pfn.0 + i && p.attr == first.attr)
    };
    if (1..1 << order).all(joins) { order } else { 0 }
}
