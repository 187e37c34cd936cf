//! Organisations of the page table (PT-1) other than the radix tree, which is the walker's own: a file each, and a line
//! in the registry at the end of this one.
//!
//! A table holds the translations of the operating system's page table and answers nothing by itself: hits and
//! misses of TLBs do not depend on it, only the references of walks, their steps, and the memory of tables. It is told
//! of every page that is mapped and unmapped, as the operating system's page table changes, so that its size, its
//! chains and its collisions are those of the program.

mod check;
mod held;
mod machine;
mod memory;
mod of_host;
mod places;
mod reads;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tree;

pub(in crate::tlb) use check::check;
pub use dmt::DMT_GUEST_ARRAYS;
pub(in crate::tlb) use held::{Follow, Held};
pub(in crate::tlb) use machine::Tables;
pub use of_host::{HOST_TABLE, OfHost, of_host};
pub(in crate::tlb) use of_host::{HostTable, chosen_of_host};
pub(in crate::tlb) use places::Places;
pub(in crate::tlb) use reads::Reads;

use crate::tlb::parts::additions::Counter;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::{OwnCounts, PartCounts};
pub(in crate::tlb) use farreach_types::hash::mix;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::Pte;

/// PT-1.
pub const TABLE: Key = Key {
    name: "table",
    default: RADIX_TREE,
    allowed: Allowed::OneOf(&NAMES),
    about: "organisation of the page table; radix: a tree with walk caches",
};

/// PT-5.
pub const TABLE_SCOPE: Key = Key {
    name: "table_scope",
    default: "process",
    allowed: Allowed::OneOf(&["process", "global"]),
    about: "table = hashed, clustered, cuckoo, me-hpt: whose tables: process: each process has its own; global: one \
            for all, where an entry names its process",
};

/// Whose tables there are (PT-5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tlb) enum Scope {
    /// Each process has its own.
    Process,
    /// One for all.
    Global,
}

impl Scope {
    pub fn of(params: &Params) -> Scope {
        if params.text(TABLE_SCOPE.name) == "global" { Scope::Global } else { Scope::Process }
    }

    /// The process whose tables have what this one maps.
    pub fn owner(self, asid: Asid) -> Asid {
        if self == Scope::Global { Asid(0) } else { asid }
    }
}

/// The value of [`TABLE`] that is the walker's own.
const RADIX_TREE: &str = "radix";

/// The name of the table in [`TlbCounts::parts`](farreach_types::counts::TlbCounts::parts).
pub const PART: &str = farreach_types::counts::TABLE;

/// A mapping: a page or a superpage of one process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(in crate::tlb) struct Mapping {
    pub asid: Asid,
    /// Its first base page.
    pub vpn: Vpn,
    /// log2 of its base pages, by the level of its leaf: 0, 9 or 18.
    pub order: u8,
}

/// What a walk did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(in crate::tlb) struct Walked {
    /// References it made.
    pub references: u64,
    /// Of these, those to each level of a radix tree, from the leaves of base pages up; 0 for other tables.
    pub by_level: [u64; 5],
    /// The entry at its end, if the page is mapped.
    pub found: Option<Pte>,
}

/// An organisation. Addresses that it reads are of its own memory: see [`Places`].
pub(in crate::tlb) trait Table: Send {
    /// This is mapped now. Nothing else maps its pages.
    fn map(&mut self, mapping: Mapping, own: &mut OwnCounts);
    /// This is not mapped any more.
    fn unmap(&mut self, mapping: Mapping, own: &mut OwnCounts);
    /// The address space ended, with its tables. Its mappings were unmapped before.
    fn gone(&mut self, _asid: Asid, _own: &mut OwnCounts) {}
    /// A mapping that the system holds changed, so that caches of it are invalid.
    fn forget(&mut self, _asid: Asid, _pages: VpnRange) {}
    /// Another process runs; `process_ids`: caches of the walker may keep what they have.
    fn switch(&mut self, _to: Asid, _process_ids: bool) {}
    /// Walks for a page, through `reads`. `mapping`: what maps it, if anything does; the walk must come to it by the
    /// table's own means, and end with the same answer (HW-5).
    fn walk(&mut self, asid: Asid, vpn: Vpn, mapping: Option<Mapping>, reads: &mut Reads);
    /// A demand walk for a page that nothing maps, before the system maps it: counts what it reads, and changes nothing
    /// (PT-4). Not all tables do.
    fn faulting(&self, _asid: Asid, _vpn: Vpn, _own: &mut OwnCounts) {}
    /// Bytes of all its memory, part by part.
    #[cfg(test)]
    fn bytes(&self) -> u64;
    /// Checks that it holds exactly these mappings, in debug builds. Panics if not.
    fn check(&self, _mappings: &mut dyn Iterator<Item = Mapping>) {}
}

/// A law that the counts of a table keep: its name, and what must be equal, from the counts and the number of walks.
#[derive(Clone, Copy)]
pub struct TableLaw {
    /// Its name, such as EC-8.
    pub name: &'static str,
    /// What must be equal.
    pub sides: fn(&PartCounts, u64) -> (u64, u64),
}

/// See [`ListedTable`].
type Build = fn(&Params, u64) -> Result<Box<dyn Table>, String>;

/// A table as the registry knows it.
pub struct ListedTable {
    /// Value of [`TABLE`].
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// The keys it reads.
    pub keys: &'static [&'static Key],
    /// Of these, those that are of no use to the table of a host.
    pub guest_keys: &'static [&'static Key],
    /// Whether it has the walk caches of a tree.
    pub has_walk_caches: bool,
    /// Counters of its own, in `counts.parts.table`.
    pub counters: &'static [Counter],
    /// Laws that its counts keep.
    pub laws: &'static [TableLaw],
    /// Whether a rule defines it in virtual machines (HW-12), for guests and hosts.
    pub in_guests: bool,
    /// Builds it. The error names key, value and what is allowed.
    pub(in crate::tlb) build: Build,
}

impl ListedTable {
    /// What entries have if they do not say otherwise.
    const NEW: ListedTable = ListedTable {
        name: "",
        about: "",
        keys: &[],
        guest_keys: &[],
        has_walk_caches: false,
        counters: &[],
        laws: &[],
        in_guests: false,
        build: |_, _| Err(String::new()),
    };
}

/// The table of a machine; `None`: the radix tree.
pub fn chosen(params: &Params) -> Option<&'static ListedTable> {
    let name = params.has(TABLE.name).then(|| params.text(TABLE.name))?;
    listed(name)
}

/// The table of this name.
pub fn listed(name: &str) -> Option<&'static ListedTable> {
    TABLES.iter().copied().find(|table| table.name == name)
}

/// Makes the registry.
macro_rules! tables {
    ($($module:ident,)*) => {
        $(mod $module;)*

        /// All tables but the radix tree. A new one is one file here and one line at the end of `tables/mod.rs`.
        pub const TABLES: &[&ListedTable] = &[$(&$module::LISTED),*];
    };
}

/// Values of [`TABLE`].
const NAMES: [&str; TABLES.len() + 1] = {
    let mut names = [RADIX_TREE; TABLES.len() + 1];
    let mut i = 0;
    while i < TABLES.len() {
        names[i + 1] = TABLES[i].name;
        i += 1;
    }
    names
};

tables! {
    hashed,
    htab,
    clustered,
    cuckoo,
    mementos,
    flat,
    dmt,
    learned,
}
