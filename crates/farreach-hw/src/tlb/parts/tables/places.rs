//! Where tables are in memory.

use crate::tlb::parts::hierarchy::host::{GUEST, Host};
use farreach_types::addr::BASE_SHIFT;
use farreach_types::params::Params;

/// Physical addresses for tables, above all memory of programs (PT-3), each given out once.
#[derive(Clone, Debug)]
pub(in crate::tlb) struct Places {
    next: u64,
}

impl Places {
    /// The first address: above the nodes of radix trees.
    pub const FIRST: u64 = 1 << 53;
    /// In a guest: as high as the memory that a host's table of four levels reaches allows.
    pub const GUEST_FIRST: u64 = Host::GUEST_TABLES << BASE_SHIFT;

    /// For the table of this machine: of a guest in guest physical memory, else in system memory.
    pub fn of(params: &Params) -> Places {
        Places { next: if is_guest(params) { Places::GUEST_FIRST } else { Places::FIRST } }
    }

    /// The first address of memory that grows in place, above all of `of`.
    pub fn growing(params: &Params) -> u64 {
        if is_guest(params) { Places::GUEST_FIRST + Places::GUEST_FIRST / 2 } else { 2 * Places::FIRST }
    }

    /// The first address of this many bytes in a row, aligned to `align`, a power of two.
    pub fn take(&mut self, bytes: u64, align: u64) -> u64 {
        let first = self.next.next_multiple_of(align);
        self.next = first + bytes;
        first
    }
}

fn is_guest(params: &Params) -> bool {
    params.text(GUEST.name) != GUEST.default
}
