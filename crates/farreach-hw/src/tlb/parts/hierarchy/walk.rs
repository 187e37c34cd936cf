//! The keys of a page walk, and values derived from them.

use super::nodes::RADIX;
use farreach_types::params::{Allowed, Key, Params};

const CACHE: Allowed = Allowed::Int { min: 0, max: 65536 };

/// Levels of the page table.
pub const WALK_LEVELS: Key = Key {
    name: "walk_levels",
    default: "4",
    allowed: Allowed::Int { min: 4, max: 5 },
    about: "levels of the page table",
};
/// Cache of page-directory entries that point to a page table.
pub const PWC_PD: Key =
    Key { name: "pwc_pd", default: "0", allowed: CACHE, about: "walker: cached page-directory entries; 0: none" };
/// As before, one level up.
pub const PWC_PDPT: Key = Key {
    name: "pwc_pdpt",
    default: "0",
    allowed: CACHE,
    about: "walker: cached page-directory-pointer entries; 0: none",
};
/// As before, one level up.
pub const PWC_PML4: Key =
    Key { name: "pwc_pml4", default: "0", allowed: CACHE, about: "walker: cached PML4 entries; 0: none" };
/// As before, one level up.
pub const PWC_PML5: Key =
    Key { name: "pwc_pml5", default: "0", allowed: CACHE, about: "walker: cached PML5 entries; 0: none" };

/// What a walk costs.
pub const WALK_COST: Key = Key {
    name: "walk_cost",
    default: "fixed",
    allowed: Allowed::OneOf(&["fixed", "caches"]),
    about: "what the node of a walk costs: fixed: walk_reference_cycles; caches: as long as the caches take, which \
            then see every reference (slow)",
};

/// Whether a machine has [`WALK_COST`] `caches`.
pub fn by_caches(params: &Params) -> bool {
    params.has(WALK_COST.name) && params.text(WALK_COST.name) == "caches"
}

/// Whether a machine has a page-table walker: then its misses are walks.
pub fn walks(params: &Params) -> bool {
    params.has(WALK_LEVELS.name)
}

/// Level of the page table that holds the leaf of a mapping of `2^order` pages: 0 for 4 KB, 1 for 2 MB, 2 for 1 GB.
/// Sizes between are several leaves.
#[inline]
pub(in crate::tlb) fn leaf_level(order: u8) -> u8 {
    (order / RADIX).min(2)
}
