//! The keys of an operating system in a machine description.

use crate::compaction::policy::KEYS as COMPACTION;
use crate::frames::keys::KEYS as FRAMES;
use crate::memory::held::UNMAP_HOLD;
use crate::placement::placement as kind_of_placement;
use crate::promotion::policy::KEYS as PROMOTION;
use crate::ranges::policy::KEYS as RANGES;
use farreach_types::params::{Allowed, Key, PAGE_SIZE, SEED};

/// Which placement policy.
pub const PLACEMENT: Key = Key {
    name: "placement",
    default: "demand",
    allowed: Allowed::Text, // one of the registry; see `MachineSpec`
    about: "how a page gets its frame; the keys of a policy come with it",
};
/// Which files are remote.
pub(crate) const NFS: Key = Key {
    name: "nfs",
    default: "",
    allowed: Allowed::Texts,
    about: "path prefixes of files that count as remote (T94-52, T94-54)",
};
/// How many reservations end at a time.
pub(crate) const RECLAIM_BATCH: Key = Key {
    name: "reclaim_batch",
    default: "1",
    allowed: Allowed::Int { min: 1, max: 1 << 20 },
    about: "reserved frames taken back at a time when none is free (AMB-8)",
};

/// Leaves of the page table over the kernel's direct map.
pub(crate) const DIRECT_MAP_PAGE: Key = Key {
    name: "direct_map_page",
    default: "2M",
    allowed: Allowed::PageSize { min: 1 << 12, max: 1 << 30 },
    about: "pages in which the kernel's direct map is mapped, in streams that have one (F-2); base pages where they do \
            not fit",
};

/// The keys of an operating system with this placement policy.
pub fn keys(placement: &str) -> Vec<&'static Key> {
    let own = kind_of_placement(placement).map_or(&[][..], |p| p.keys);
    let mut keys = vec![&PAGE_SIZE, &PLACEMENT, &NFS, &RECLAIM_BATCH, &UNMAP_HOLD, &DIRECT_MAP_PAGE, &SEED];
    keys.extend(own);
    keys.extend(PROMOTION);
    keys.extend(RANGES);
    keys.extend(COMPACTION);
    keys.extend(&FRAMES);
    keys
}
