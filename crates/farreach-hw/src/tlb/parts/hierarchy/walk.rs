//! The keys of a page walk, and values derived from them.

use farreach_types::addr::BASE_SHIFT;
use farreach_types::params::{Allowed, Key, Params};

const CACHE: Allowed = Allowed::Int { min: 0, max: 65536 };

/// Levels of the page table.
pub const WALK_LEVELS: Key = Key {
    name: "walk_levels",
    default: "4",
    allowed: Allowed::Int { min: 4, max: 5 },
    about: "levels of a page table with pages of 4K: 4 for addresses of 48 bits, 5 for 57; with larger base pages as \
            many as such addresses need",
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

/// log2 of the entries of a node, which fill a base page with 8 bytes each: 9 with pages of 4 KB, 11 with 16 KB, 13
/// with 64 KB (Arm).
pub(in crate::tlb) fn radix(params: &Params) -> u8 {
    params.page_shift() as u8 - 3
}

/// Levels of the page table with the base pages of this machine, for addresses of as many bits.
pub(in crate::tlb) fn levels(params: &Params) -> u8 {
    let of_4k = params.int(WALK_LEVELS.name) as u8;
    let bits = BASE_SHIFT as u8 + (BASE_SHIFT as u8 - 3) * of_4k;
    (bits - params.page_shift() as u8).div_ceil(radix(params))
}

/// Level of the page table that holds the leaf of a mapping of `2^order` pages, in nodes of `2^radix` entries: with
/// base pages of 4 KB 0 for these, 1 for 2 MB, 2 for 1 GB. Sizes between are several leaves.
#[inline]
pub(in crate::tlb) fn leaf_level(order: u8, radix: u8) -> u8 {
    u8::from(order >= radix) + u8::from(order >= 2 * radix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_types::params::PAGE_SIZE;
    use serde_json::json;

    /// Arm, Architecture Reference Manual, D8.2: with 48 bits 4 levels of 4 KB or 16 KB granules, 3 of 64 KB; blocks of
    /// 2 MB, 32 MB, 512 MB.
    #[test]
    fn page_tables_of_larger_base_pages() {
        let of = |page: u64, levels_of_4k: u64| {
            let values = [("page_size", json!(page)), ("walk_levels", json!(levels_of_4k))];
            let values = values.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            let params = Params::resolve(&[&PAGE_SIZE, &WALK_LEVELS], &values).unwrap();
            (levels(&params), radix(&params))
        };
        assert_eq!([of(4 << 10, 4), of(16 << 10, 4), of(64 << 10, 4)], [(4, 9), (4, 11), (3, 13)]);
        assert_eq!([of(4 << 10, 5), of(16 << 10, 5), of(64 << 10, 5)], [(5, 9), (4, 11), (4, 13)]);
        let order = |bytes: u64, page: u64| (bytes / page).ilog2() as u8;
        for (page, radix, block) in [(4 << 10, 9, 2 << 20), (16 << 10, 11, 32 << 20), (64 << 10, 13, 512 << 20)] {
            assert_eq!(leaf_level(order(block, page), radix), 1);
            assert_eq!(leaf_level(order(block / 2, page), radix), 0);
        }
    }
}
