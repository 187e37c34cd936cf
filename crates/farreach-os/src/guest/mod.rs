//! A guest's kernel as the operating system (`placement = guest`): page tables follow those that the guest made, as a
//! recording of a whole system has them. No fault, no policy and no frame is of this crate.
//!
//! * `mirror`: the words of the guest's tables;
//! * `format`: what they mean, for each instruction set;
//! * `registers`: roots and tags of each virtual processor;
//! * `links`: where a table is in use, so that a changed word is known to be about certain pages;
//! * `pages`: the page table that designs read ([`crate::page_table`]), which is filled from the mirror;
//! * `walk`: a touch walks the mirror, and links the tables on its way with all their leaves;
//! * `change`: a word that changes removes, changes or adds what it means;
//! * `direct_map`: where the kernel maps all its memory, for registers of a segment;
//! * `kernel`: the upper half of the addresses, one address space under many roots;
//! * `tags`: pages of the kernel that are not global, with PCIDs;
//! * `flush`: what invalidations and writes of registers do to entries, and what stale entries wait for;
//! * `restored`: translations that a processor uses though the tables do not have them any more;
//! * `events`: the events of the guest.
//!
//! Page numbers have [`GUEST_ADDRESS_BITS`](farreach_types::addr::GUEST_ADDRESS_BITS) less the bits of a page. Accessed
//! and modified bits in the guest's tables mean nothing here: the emulator sets them unseen.

mod change;
mod direct_map;
mod events;
mod flush;
mod format;
mod kernel;
mod links;
mod mirror;
mod pages;
mod registers;
mod restored;
mod tags;
#[cfg(test)]
mod tests;
mod walk;

use crate::placement::guest::GuestPolicy;
use direct_map::DirectMap;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::counts::GuestOsCounts;
use farreach_types::event::Arch;
use farreach_types::translation::KernelSegment;
use flush::StaleLeaf;
use foldhash::fast::FixedState;
use format::Root;
use hashbrown::HashMap;
use kernel::KernelRoot;
use links::Links;
use mirror::Mirror;
use pages::{InUse, Local};
use registers::Processor;
use std::collections::BTreeMap;

/// What is known of the guest.
#[derive(Default)]
pub(crate) struct Guest {
    policy: GuestPolicy,
    /// Its instruction set, from the first event on.
    arch: Option<Arch>,
    mirror: Mirror,
    links: Links,
    processors: Vec<Processor>,
    /// The processor that runs.
    current: usize,
    /// The linked root of each address space of user pages.
    roots: HashMap<Asid, Root, FixedState>,
    kernel: KernelRoot,
    direct_map: DirectMap,
    /// Leaves whose words have changed, and which the guest has not invalidated yet, by address space and first page.
    stale: BTreeMap<(Asid, u64), StaleLeaf>,
    /// Pages of the page table that the guest's tables do not map: see `restored`.
    restored: Vec<(Asid, Vpn)>,
    /// Entries of the kernel that are not global, by first page.
    local: BTreeMap<u64, Local>,
    /// Most of them at any time.
    local_most: usize,
    /// Hardware gives their entries the tag of the address space that runs.
    tags_local: bool,
    in_use: InUse,
    /// Address spaces of which pages came or went.
    changed: Vec<Asid>,
    /// Names of address spaces, as labels.
    names: HashMap<Asid, u32, FixedState>,
    counts: GuestOsCounts,
}

impl Guest {
    /// A guest of which nothing is known.
    pub fn new(policy: GuestPolicy) -> Guest {
        Guest { policy, processors: vec![Processor::default()], ..Guest::default() }
    }

    fn processor(&mut self) -> &mut Processor {
        &mut self.processors[self.current]
    }

    /// The counters.
    pub fn counts(&self) -> GuestOsCounts {
        self.counts.clone()
    }

    /// The registers of a segment for the kernel's direct map.
    pub fn direct_map(&self) -> Option<KernelSegment> {
        let segment = self.direct_map.segment()?;
        Some(KernelSegment { tags: self.tags(), ..segment })
    }

    /// Pages and frames that were touched.
    pub fn in_use(&self) -> &InUse {
        &self.in_use
    }

    /// Most bytes of tables on the way to touched pages at any time.
    pub fn table_bytes(&self) -> u64 {
        self.links.most() << 12
    }
}
