//! The keys of a hierarchy.

use super::cores::mechanisms::SHOOTDOWN;
use super::cores::{CORES, IPI_CYCLES};
use super::distances::WALK_DISTANCES;
use super::host;
use super::shared::{L2_SHARED, SLL_EXTRA};
use super::walk::{PWC_PD, PWC_PDPT, PWC_PML4, PWC_PML5, WALK_COST, WALK_LEVELS};
use super::walk_caches::PWC_KIND;
use crate::cache::levels::LEVEL_KEYS;
use crate::tlb::keys::{L1_REPLACEMENT, PROCESS_IDS, REPLACEMENT, SEED};
use crate::tlb::parts::additions::{BACKGROUND_WEIGHT, BEHIND};
use crate::tlb::parts::second_levels::SECOND_LEVEL;
use crate::tlb::parts::store::policies::L2_REPLACEMENT;
use crate::tlb::parts::tables::TABLE;
use farreach_types::joined_keys;
use farreach_types::params::{Allowed, Key, PAGE_SIZE};

/// First level, data side. The defaults of these keys are DS13's Table 1.
pub const L1D: Key = Key {
    name: "l1d",
    default: "4K:64/4+2M:32/4+1G:4",
    allowed: Allowed::Texts,
    about: "first-level data TLB: arrays as SIZE:ENTRIES/WAYS, sizes in one array joined by |, no /WAYS: fully \
            associative",
};
/// First level, fetch side.
pub const L1I: Key = Key {
    name: "l1i",
    default: "4K:128/4+2M:8",
    allowed: Allowed::Texts,
    about: "first-level instruction TLB, as l1d",
};
/// Second level.
pub const L2: Key = Key {
    name: "l2",
    default: "4K:512/4",
    allowed: Allowed::Texts,
    about: "second-level TLB, as l1d, or none. Pages of sizes it lacks are not in it",
};
/// Second level of the fetch side.
pub const L2I: Key = Key {
    name: "l2i",
    default: "shared",
    allowed: Allowed::Texts,
    about: "second-level TLB for fetches: shared (l2 answers them too), none, or one of its own, as l1d",
};
/// How a second level holds large pages.
pub const L2_FRACTURE: Key = Key {
    name: "l2_fracture",
    default: "false",
    allowed: Allowed::Flag,
    about: "the second level holds pages of sizes it lacks in pieces of the next smaller size",
};
/// Several page table entries in one TLB entry.
pub const COALESCE: Key = Key {
    name: "coalesce",
    default: "4K",
    allowed: Allowed::PageSize { min: 1 << 12, max: 1 << 15 },
    about: "aligned groups of this size get one entry where the page table entries agree; arrays need that size; \
            4K: off",
};
/// Victims in all arrays. Behind the first level, used bits would need to know which side used an entry.
pub const HIERARCHY_REPLACEMENT: Key =
    Key { default: "lru", allowed: Allowed::OneOf(&["lru", "plru", "fifo", "random", "lfsr"]), ..REPLACEMENT };
/// DS13-32, RMM15-3: about 7 cycles, on either side.
pub const L2_FETCH_CYCLES: Key = Key {
    name: "l2_hit_fetch_cycles",
    default: "7",
    allowed: Allowed::Number { min: 0.0, max: 1e12 },
    about: "cycles per fetch that only the second level of a TLB answers",
};
/// See [`L2_FETCH_CYCLES`].
pub const L2_DATA_CYCLES: Key = Key {
    name: "l2_hit_data_cycles",
    about: "cycles per load or store that only the second level of a TLB answers",
    ..L2_FETCH_CYCLES
};

const OWN_KEYS: &[&Key] = &[
    &L1D,
    &L1I,
    &COALESCE,
    &WALK_LEVELS,
    &PWC_KIND,
    &PWC_PD,
    &PWC_PDPT,
    &PWC_PML4,
    &PWC_PML5,
    &HIERARCHY_REPLACEMENT,
    &L1_REPLACEMENT,
    &PROCESS_IDS,
    &SEED,
    &PAGE_SIZE,
    &L2_FETCH_CYCLES,
    &L2_DATA_CYCLES,
    &WALK_COST,
    &WALK_DISTANCES,
    &CORES,
    &SHOOTDOWN,
    &IPI_CYCLES,
];
/// Keys of everything but the second level, with those that choose parts of a registry. The keys of the chosen parts
/// are [`crate::tlb::keys_of`]'s.
pub(in crate::tlb) const FIRST_LEVEL_KEYS: &[&Key] =
    joined_keys!(OWN_KEYS, &LEVEL_KEYS, &host::KEYS, &[&BEHIND, &BACKGROUND_WEIGHT, &TABLE]);
/// Keys of a second level of page TLBs.
pub(in crate::tlb) const PAGING_KEYS: &[&Key] = &[&L2, &L2I, &L2_FRACTURE, &L2_REPLACEMENT];
/// Keys of a hierarchy with a second level of page TLBs.
pub(in crate::tlb) const KEYS: &[&Key] = joined_keys!(FIRST_LEVEL_KEYS, PAGING_KEYS);
/// The same, where another second level can be chosen, and cores can share it.
pub(in crate::tlb) const OPEN_KEYS: &[&Key] = joined_keys!(KEYS, &[&SECOND_LEVEL, &L2_SHARED, &SLL_EXTRA]);
