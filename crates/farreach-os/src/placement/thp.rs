//! Transparent huge pages (RMM15-26), after Linux: a fault in private anonymous memory brings in the largest enabled
//! size that fits, and base pages are collapsed in the background. Shared anonymous memory has a setting of its own.

use super::contract::{CollapsePolicy, FrameRequest, Placement, PlacementKind};
use crate::memory::Memory;
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::Pfn;
use farreach_types::params::{Allowed, Key, Params};

pub(super) const THP: Key = Key {
    name: "thp",
    default: "always",
    allowed: Allowed::OneOf(&["always", "madvise", "never"]),
    about: "which memory gets superpages: all that does not refuse, what asked by madvise, or none",
};
pub(super) const SIZE: Key = Key {
    name: "thp_size",
    default: "2M",
    allowed: Allowed::PageSize { min: 8192, max: 1 << 30 },
    about: "the superpage that a fault tries first, and that base pages are collapsed into",
};
pub(super) const SIZES: Key = Key {
    name: "mthp_sizes",
    default: "none",
    allowed: Allowed::PageSizesOrNone { min: 8192, max: 1 << 29 },
    about: "smaller superpages that a fault tries next, largest first (multi-size THP)",
};
pub(super) const EVERY: Key = Key {
    name: "khugepaged",
    default: "512",
    allowed: Allowed::Int { min: 0, max: u64::MAX },
    about: "page faults between two scans that collapse pages into superpages; 0: no scans",
};
pub(super) const GROUPS: Key = Key {
    name: "khugepaged_groups",
    default: "8",
    allowed: Allowed::Int { min: 1, max: 1 << 20 },
    about: "groups of pages looked at in a scan (Linux: 4096 pages)",
};
pub(super) const NONE: Key = Key {
    name: "max_ptes_none",
    default: "511",
    allowed: Allowed::Int { min: 0, max: 1 << 18 },
    about: "base pages of a group that may be missing when it is collapsed; they become zeros",
};
pub(super) const SHMEM: Key = Key {
    name: "shmem_enabled",
    default: "never",
    allowed: Allowed::OneOf(&["always", "advise", "never"]),
    about: "which shared anonymous memory gets superpages: all that does not refuse, what asked by madvise, or none",
};
pub(super) const SHMEM_SIZE: Key = Key {
    name: "shmem_size",
    default: "2M",
    allowed: Allowed::PageSize { min: 8192, max: 1 << 30 },
    about: "the superpage that a fault in shared anonymous memory tries",
};
pub(super) const ALLOCATOR: Key = Key {
    name: "allocator",
    default: "buddy",
    allowed: Allowed::OneOf(&["fifo", "buddy", "colouring"]),
    about: "the frame allocator: a list with free groups (T94), a Linux-like buddy allocator, or page colouring",
};

/// Registry entry.
pub const THP_KIND: PlacementKind = PlacementKind {
    name: "thp",
    about: "transparent huge pages: superpages at the first touch of private anonymous memory, or collapsed later",
    keys: &[&THP, &SIZE, &SIZES, &EVERY, &GROUPS, &NONE, &SHMEM, &SHMEM_SIZE, &ALLOCATOR],
    build,
};

struct Thp {
    /// Largest first.
    orders: Vec<u8>,
    always: bool,
    /// Of shared memory: at most one.
    shared: Vec<u8>,
    shared_always: bool,
    background: Option<CollapsePolicy>,
}

/// log2 of the base pages of a size of superpages that a key has.
pub(super) fn order(params: &Params, key: &Key, size: u64) -> Result<u8, String> {
    match params.order(key.name, size)? {
        0 => Err(format!("{} = {} is not allowed: that is page_size; {} must be larger", key.name, size, key.name)),
        order => Ok(order as u8),
    }
}

pub(super) fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let order = |key: &Key, size: u64| order(params, key, size);
    let largest = order(&SIZE, params.int(SIZE.name))?;
    let mut orders = params.sizes(SIZES.name).iter().map(|&s| order(&SIZES, s)).collect::<Result<Vec<_>, _>>()?;
    if orders.last().is_some_and(|&o| o >= largest) {
        return Err(format!("{} is not allowed: all of {} must be smaller than {}", SIZES.name, SIZES.name, SIZE.name));
    }
    orders.push(largest);
    orders.reverse();
    let shared = match params.text(SHMEM.name) {
        "never" => Vec::new(),
        _ => vec![order(&SHMEM_SIZE, params.int(SHMEM_SIZE.name))?],
    };
    let never = params.text(THP.name) == "never";
    if never {
        orders.clear();
    }
    let background = (params.int(EVERY.name) > 0 && !never).then(|| CollapsePolicy {
        order: largest,
        every: params.int(EVERY.name),
        groups: params.int(GROUPS.name),
        missing: params.int(NONE.name),
    });
    let always = |key: &Key| params.text(key.name) == "always";
    Ok(Box::new(Thp { orders, always: always(&THP), shared, shared_always: always(&SHMEM), background }))
}

impl Placement for Thp {
    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        memory.alloc_frame(request.vpn)
    }

    fn superpage_orders(&self, memory: &Memory, region: &Region, _: FrameRequest, advice: HugeAdvice) -> &[u8] {
        let object = memory.objects.get(region.object);
        let (orders, always) = match object.private {
            true => (&self.orders, self.always),
            false if object.kind.is_file() => return &[],
            false => (&self.shared, self.shared_always),
        };
        match advice {
            HugeAdvice::Huge => orders,
            HugeAdvice::None if always => orders,
            _ => &[],
        }
    }

    fn merges_neighbours(&self) -> bool {
        true
    }

    fn reuses_superpages(&self, _: u8) -> bool {
        true
    }

    fn collapse_policy(&self) -> Option<CollapsePolicy> {
        self.background
    }
}
