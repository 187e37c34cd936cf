//! The keys of virtual machines.

use super::NAMES;
use crate::tlb::parts::tables::HOST_TABLE;
use farreach_types::params::{Allowed, Key};

/// The first dimension.
pub const GUEST: Key = Key {
    name: "guest",
    default: "none",
    allowed: Allowed::OneOf(&["none", "walk", "segment", "composed"]),
    about: "the program is in a virtual machine, where its system translates to guest physical memory by walk: page \
            table; segment: registers, page table outside; composed: as segment, by registers that the hypervisor made \
            to lead to system memory; none: no virtual machine",
};
/// The second.
pub const HOST: Key = Key {
    name: "host",
    default: "walk",
    allowed: Allowed::OneOf(&NAMES),
    about: "what translates guest physical to system memory: walk: a page table of the host; segment: registers over \
            all memory of the guest; shadow: the hypervisor, in a merged table; agile: the same for parts of the \
            guest's table that rest, and a page table of the host for others",
};
/// Assumed: as much as a fault, which is a trap and a return.
pub const VM_EXIT_CYCLES: Key = Key {
    name: "vm_exit_cycles",
    default: "2000",
    allowed: Allowed::Number { min: 0.0, max: 1e12 },
    about: "cycles per trap into the hypervisor: guest = composed: a write of the guest to a segment register; \
            host = shadow, agile: upkeep of the merged table",
};

/// Leaves of the second.
pub const HOST_PAGE: Key = Key {
    name: "host_page",
    default: "4K",
    allowed: Allowed::OneOf(&["4K", "2M", "1G"]),
    about: "pages in which the host's table has the memory of the guest",
};
/// As [`super::super::walk::WALK_LEVELS`].
pub const HOST_LEVELS: Key = Key {
    name: "host_levels",
    default: "4",
    allowed: Allowed::Int { min: 4, max: 5 },
    about: "levels of the host's page table",
};
/// As in processors.
pub const HOST_FRACTURE: Key = Key {
    name: "host_fracture",
    default: "true",
    allowed: Allowed::Flag,
    about: "TLB entries are no larger than host_page; false: as large as the guest's pages, as if it were known that \
            host pages lie in a row",
};
/// Bhargava et al., ASPLOS 2008.
pub const NESTED_TLB: Key = Key {
    name: "nested_tlb",
    default: "0",
    allowed: Allowed::Int { min: 0, max: 65536 },
    about: "cached translations of the host, of pages and of nodes of the guest's table, fully associative; 0: none",
};

/// All of them.
pub(in crate::tlb) const KEYS: [&Key; 7] =
    [&GUEST, &HOST, &HOST_TABLE, &HOST_PAGE, &HOST_LEVELS, &HOST_FRACTURE, &NESTED_TLB];
