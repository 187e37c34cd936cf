//! The second dimension of a virtual machine: the program's own page table or segment leads to guest physical memory,
//! and a host translates that to system memory (DS13-40 to DS13-42, F-1).
//!
//! TLBs hold the composed translation, so that a hit is as fast as without a host. The host keeps its guest in
//! contiguous memory, and system frames have the numbers of the guest's frames; the host's tables over it, and the cost
//! of reading them, are modelled here.
//!
//! What a host does is a file for each, and a line in the registry at the end of this one: it walks (`walk.rs`), adds
//! (`segment.rs`), or keeps a merged table of both dimensions, for all pages (`shadow.rs`) or for those parts of the
//! guest's table that rest (`agile.rs`).

mod check;
mod guest;
mod keys;
mod merged;
#[cfg(test)]
mod tests;
mod translate;

pub(in crate::tlb) use check::{Entries, check};
pub(in crate::tlb) use keys::KEYS;
pub use keys::{GUEST, HOST, HOST_FRACTURE, HOST_LEVELS, HOST_PAGE, NESTED_TLB, VM_EXIT_CYCLES};

use super::nodes::{Pointer, RADIX};
use super::walk::by_caches;
use crate::cache::Nodes;
use crate::tlb::contract::Lookup;
use crate::tlb::filter::Unfiltered;
use crate::tlb::parts::additions::{Counter, Law};
use crate::tlb::parts::store::Store;
use crate::tlb::parts::store::geometry::Geometry;
use crate::tlb::parts::tables::HostTable;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::{OwnCounts, TlbCounts};
use farreach_types::params::{Key, Params};
use farreach_types::translation::{PageTableView, Segment};

/// The name of the host in [`TlbCounts::parts`].
pub const PART: &str = "host";

/// A demand walk of a guest.
#[derive(Clone, Copy, Debug)]
pub(in crate::tlb) struct GuestWalk {
    pub at: Lookup,
    /// Order of the guest's mapping.
    pub order: u8,
    /// Order of the largest entry that the host allows.
    pub largest: u8,
    /// Levels of the guest's table.
    pub levels: u8,
    /// Instructions so far, where they are asked for.
    pub position: u64,
}

impl GuestWalk {
    /// The order of the page in a merged table.
    fn merged(&self) -> u8 {
        let order = self.order.min(self.largest);
        RADIX * super::walk::leaf_level(order, RADIX)
    }
}

/// The part of a guest's walk that is in two dimensions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tlb) struct Nested {
    /// Nodes below this level are the guest's; from it up they are those of a merged table, which leads to system
    /// memory.
    pub below: u8,
    /// The address of the first of them in system memory is known.
    pub first_is_known: bool,
}

/// What a host is told of. The default is a host that keeps nothing of the guest's table.
pub(in crate::tlb) trait Mode: Send {
    /// A demand walk begins. `moved`: gets the processes of which walk caches may lead to nodes of the wrong table.
    fn begins(&mut self, walk: &GuestWalk, _moved: &mut Vec<Asid>, _own: &mut OwnCounts) -> Nested {
        Nested { below: walk.levels, first_is_known: false }
    }
    /// A lookup for a store was answered, by a TLB or by a walk. The first one to each page always comes here: see
    /// [`crate::tlb::Answer::filterable`].
    fn stored(&mut self, _asid: Asid, _vpn: Vpn, _own: &mut OwnCounts) {}
    /// See [`crate::tlb::OnMap::mapped`].
    fn mapped(&mut self, _asid: Asid, _pages: VpnRange, _table: &dyn PageTableView, _own: &mut OwnCounts) {}
    /// See [`crate::tlb::OnMap::unmapped`].
    fn unmapped(&mut self, _asid: Asid, _pages: VpnRange, _table: &dyn PageTableView, _own: &mut OwnCounts) {}
    /// The address space ended.
    fn gone(&mut self, _asid: Asid) {}
    /// Another process runs.
    fn switch(&mut self, _to: Asid, _own: &mut OwnCounts) {}
}

/// A host as the registry knows it.
pub struct ListedHost {
    /// Value of [`HOST`].
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// The keys it reads, besides those of all hosts.
    pub keys: &'static [&'static Key],
    /// Counters of its own, in `counts.parts.host`.
    pub counters: &'static [Counter],
    /// Laws that its counts keep.
    pub laws: &'static [Law],
    /// Whether it is told of changes of the guest's page table.
    pub follows: bool,
    /// The key and value for which it needs the number of instructions, if it does.
    pub needs_fetches: fn(&Params) -> Option<String>,
    /// Refuses machines for which it is not defined; the error says why.
    pub check: fn(&Params) -> Result<(), String>,
    /// Builds it; `None`: it adds without looking anything up.
    pub(in crate::tlb) build: fn(&Params) -> Option<Chosen>,
}

impl ListedHost {
    /// What entries have if they do not say otherwise.
    const NEW: ListedHost = ListedHost {
        name: "",
        about: "",
        keys: &[],
        counters: &[],
        laws: &[],
        follows: false,
        needs_fetches: |_| None,
        check: |_| Ok(()),
        build: |_| None,
    };
}

/// The host of a machine, if it is virtual.
pub fn chosen(params: &Params) -> Option<&'static ListedHost> {
    let is_virtual = params.has(GUEST.name) && params.text(GUEST.name) != GUEST.default;
    listed(is_virtual.then(|| params.text(HOST.name))?)
}

/// The host of this name.
pub fn listed(name: &str) -> Option<&'static ListedHost> {
    HOSTS.iter().copied().find(|host| host.name == name)
}

/// A page table of the host, and the cache of its translations. Its upper levels are not cached.
pub(in crate::tlb) struct Host {
    /// Level of its leaves.
    leaf: u8,
    levels: u8,
    fracture: bool,
    /// By guest physical page.
    cache: Option<Store<Pointer>>,
    /// Addresses of its nodes, if references are recorded.
    nodes: Option<Nodes>,
    /// Its table, if that or the guest's is no radix tree.
    table: Option<HostTable>,
    /// What it does besides.
    mode: Chosen,
    listed: &'static ListedHost,
    /// The place of its counters in [`TlbCounts::parts`], if it has any.
    part: Option<usize>,
    /// Counters of a host without any.
    none: OwnCounts,
    /// Walks are never filtered.
    ignored_report: Unfiltered,
}

impl Host {
    /// The first frame of the guest's tables: above all memory of programs, and within the reach of four levels.
    pub const GUEST_TABLES: u64 = 1 << 35;
    /// The first frame of the host's.
    const TABLES: u64 = 1 << 40;

    /// `None`: no virtual machine, or one whose host adds without looking anything up.
    pub fn new(params: &Params, seed: u64, counts: &mut TlbCounts) -> Result<Option<Host>, String> {
        let Some(listed) = chosen(params) else { return Ok(None) };
        let Some(mode) = (listed.build)(params) else { return Ok(None) };
        let names: Vec<_> = listed.counters.iter().map(|counter| counter.name).collect();
        let entries = params.int(NESTED_TLB.name);
        let store = |geometry| Store::new(geometry, params, seed);
        let leaf = match params.text(HOST_PAGE.name) {
            "4K" => 0,
            "2M" => 1,
            _ => 2,
        };
        Ok(Some(Host {
            leaf,
            levels: params.int(HOST_LEVELS.name) as u8,
            fracture: params.flag(HOST_FRACTURE.name),
            cache: (entries > 0).then(|| store(Geometry::new(entries, 0)?)).transpose()?,
            nodes: by_caches(params).then(|| Nodes::from(Host::TABLES)),
            table: HostTable::new(params, seed, RADIX * leaf, counts)?,
            mode,
            listed,
            part: (!names.is_empty()).then(|| counts.parts.add(PART, &names)),
            none: OwnCounts::default(),
            ignored_report: Unfiltered::unread(),
        }))
    }

    /// All memory that the guest can have, in one piece: the target of a host's segment, against which guests' segments
    /// are checked.
    pub fn memory(params: &Params) -> Segment {
        Segment { base: Vpn(0), limit: Vpn(1 << (u64::from(RADIX) * params.int(HOST_LEVELS.name))), pfn: Pfn(0) }
    }

    /// See [`HOST_FRACTURE`].
    pub fn largest_entry(&self) -> Option<u8> {
        self.fracture.then_some(RADIX * self.leaf)
    }

    /// Whether it has a table of all pages together.
    pub fn has_table(&self) -> bool {
        self.table.is_some()
    }

    /// Whether it is told of changes of the guest's page table.
    pub fn follows(&self) -> bool {
        self.listed.follows
    }

    /// What it does besides translating, and its counters.
    fn mode<'a>(&'a mut self, counts: &'a mut TlbCounts) -> (&'a mut Chosen, &'a mut OwnCounts) {
        let own = match self.part {
            Some(part) => &mut counts.parts.at(part).counters,
            None => &mut self.none,
        };
        (&mut self.mode, own)
    }

    /// See [`Mode::begins`].
    #[inline]
    pub fn begins(&mut self, walk: &GuestWalk, moved: &mut Vec<Asid>, counts: &mut TlbCounts) -> Nested {
        let (mode, own) = self.mode(counts);
        mode.begins(walk, moved, own)
    }

    /// See [`Mode::stored`].
    pub fn stored(&mut self, asid: Asid, vpn: Vpn, counts: &mut TlbCounts) {
        let (mode, own) = self.mode(counts);
        mode.stored(asid, vpn, own);
    }

    /// See [`crate::tlb::OnMap::mapped`].
    pub fn mapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView, counts: &mut TlbCounts) {
        let (mode, own) = self.mode(counts);
        mode.mapped(asid, pages, table, own);
    }

    /// See [`crate::tlb::OnMap::unmapped`].
    pub fn unmapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView, counts: &mut TlbCounts) {
        let (mode, own) = self.mode(counts);
        mode.unmapped(asid, pages, table, own);
    }

    /// The address space ended.
    pub fn gone(&mut self, asid: Asid) {
        self.mode.gone(asid);
    }

    /// Another process runs.
    pub fn switch(&mut self, to: Asid, counts: &mut TlbCounts) {
        let (mode, own) = self.mode(counts);
        mode.switch(to, own);
    }
}

/// Makes the registry, and the enum of what hosts do.
macro_rules! hosts {
    ($($module:ident $(::$mode:ident)?,)*) => {
        $(mod $module;)*

        /// All hosts, the default first. A new one is one file here and one line at the end of `host/mod.rs`.
        pub const HOSTS: &[&ListedHost] = &[$(&$module::LISTED),*];

        /// What a host does.
        pub(in crate::tlb) enum Chosen {
            $($($mode($module::$mode),)?)*
        }

        $($(impl From<$module::$mode> for Chosen {
            fn from(mode: $module::$mode) -> Chosen {
                Chosen::$mode(mode)
            }
        })?)*

        impl Mode for Chosen {
            #[inline]
            fn begins(&mut self, walk: &GuestWalk, moved: &mut Vec<Asid>, own: &mut OwnCounts) -> Nested {
                match self { $($(Chosen::$mode(mode) => mode.begins(walk, moved, own),)?)* }
            }
            fn stored(&mut self, asid: Asid, vpn: Vpn, own: &mut OwnCounts) {
                match self { $($(Chosen::$mode(mode) => mode.stored(asid, vpn, own),)?)* }
            }
            fn mapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView, own: &mut OwnCounts) {
                match self { $($(Chosen::$mode(mode) => mode.mapped(asid, pages, table, own),)?)* }
            }
            fn unmapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView, own: &mut OwnCounts) {
                match self { $($(Chosen::$mode(mode) => mode.unmapped(asid, pages, table, own),)?)* }
            }
            fn gone(&mut self, asid: Asid) {
                match self { $($(Chosen::$mode(mode) => mode.gone(asid),)?)* }
            }
            fn switch(&mut self, to: Asid, own: &mut OwnCounts) {
                match self { $($(Chosen::$mode(mode) => mode.switch(to, own),)?)* }
            }
        }
    };
}

/// Values of [`HOST`].
const NAMES: [&str; HOSTS.len()] = {
    let mut names = [""; HOSTS.len()];
    let mut i = 0;
    while i < HOSTS.len() {
        names[i] = HOSTS[i].name;
        i += 1;
    }
    names
};

hosts! {
    walk::Walk,
    segment,
    shadow::Shadow,
    agile::Agile,
}
