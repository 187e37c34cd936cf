//! Organisations of the page table (PT-1) other than the radix tree, which is the walker's own: a file each, and a line
//! in the registry at the end of this one.
//!
//! A table holds the translations of the operating system's page table and answers nothing by itself: hits and
//! misses of TLBs do not depend on it, only the references of walks, their steps, and the memory of tables. It is told
//! of every page that is mapped and unmapped, as the operating system's page table changes, so that its size, its
//! chains and its collisions are those of the program.

mod held;
mod memory;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tree;

use crate::cache::{At, Port, Purpose};
use crate::tlb::parts::additions::{Counter, Law};
use crate::tlb::parts::hierarchy::check_native;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::{MemoryCounts, OwnCounts, TlbCounts};
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{PageTableView, Pte};
use held::Held;

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

/// The name of the table in [`TlbCounts::parts`].
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

/// The reads of one walk.
pub(in crate::tlb) struct Reads<'a> {
    purpose: Purpose,
    port: &'a mut Port,
    memory: &'a mut MemoryCounts,
    /// The table's own counters; none in the background, where a walk is on the account of an addition.
    own: Option<&'a mut OwnCounts>,
    references: u64,
    /// The walk ended without the page, though it is mapped.
    failed: bool,
}

impl Reads<'_> {
    /// One step: references made in parallel. Returns the level that answered the slowest, if that is known.
    pub fn step(&mut self, addresses: &[u64]) -> Option<At> {
        self.references += addresses.len() as u64;
        self.port.step(self.purpose, addresses, self.memory)
    }

    /// References that the walk does not wait for, such as those that fill its caches.
    pub fn background(&mut self, addresses: &[u64]) {
        self.references += addresses.len() as u64;
        self.port.step(Purpose::Background, addresses, self.memory);
    }

    /// Whether the program waits for the walk. Only then it may fault or call software (HW-10).
    pub fn is_demand(&self) -> bool {
        self.purpose == Purpose::Demand
    }

    /// The walk ends without the page, though that may be mapped. Only in the background.
    pub fn fails(&mut self) {
        debug_assert!(!self.is_demand(), "a demand walk finds what is mapped");
        self.failed = true;
    }

    /// Counts in the table's counter at this place; nothing for a walk in the background.
    pub fn count(&mut self, place: usize, n: u64) {
        if let Some(own) = &mut self.own {
            *own.at(place) += n;
        }
    }
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

/// Physical addresses for tables, above all memory of programs (PT-3), each given out once.
#[derive(Clone, Debug)]
pub(in crate::tlb) struct Places {
    next: u64,
}

impl Places {
    /// The first address: above the nodes of radix trees.
    const FIRST: u64 = 1 << 53;

    pub fn new() -> Places {
        Places { next: Places::FIRST }
    }

    /// The first address of this many bytes in a row, aligned to `align`, a power of two.
    pub fn take(&mut self, bytes: u64, align: u64) -> u64 {
        let first = self.next.next_multiple_of(align);
        self.next = first + bytes;
        first
    }
}

/// Mixes the bits of a number (HW-11), `seed` being the number of the hash.
#[inline]
pub(in crate::tlb) fn mix(x: u64, seed: u64) -> u64 {
    let mut z = x.wrapping_add(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// The table of a machine.
pub(in crate::tlb) struct Tables {
    table: Box<dyn Table>,
    held: Held,
    process_ids: bool,
    /// The place of its counters in [`TlbCounts::parts`].
    part: usize,
}

impl Tables {
    /// The table that the key names, with its counters; `None`: the radix tree.
    pub fn new(params: &Params, seed: u64, counts: &mut TlbCounts) -> Result<Option<Tables>, String> {
        let Some(listed) = chosen(params) else { return Ok(None) };
        let names: Vec<_> = listed.counters.iter().map(|counter| counter.name).collect();
        Ok(Some(Tables {
            table: (listed.build)(params, seed)?,
            held: Held::default(),
            process_ids: params.flag(crate::tlb::keys::PROCESS_IDS.name),
            part: counts.parts.add(PART, &names),
        }))
    }

    /// A demand walk for a mapped page.
    pub fn walk(&mut self, asid: Asid, vpn: Vpn, port: &mut Port, counts: &mut TlbCounts) {
        counts.walk.walks += 1;
        let mapping = self.held.mapping(asid, vpn);
        debug_assert!(mapping.is_some(), "{asid:?} {vpn:?} is mapped, and the table was not told");
        let part = counts.parts.at(self.part);
        let mut reads = Reads {
            purpose: Purpose::Demand,
            port,
            memory: &mut part.memory,
            own: Some(&mut part.counters),
            references: 0,
            failed: false,
        };
        self.table.walk(asid, vpn, mapping, &mut reads);
    }

    /// A walk in the background for a page that may be absent.
    pub fn walk_ahead(
        &mut self,
        (asid, vpn): (Asid, Vpn),
        view: &dyn PageTableView,
        port: &mut Port,
        memory: &mut MemoryCounts,
    ) -> Walked {
        let mapping = self.held.mapping(asid, vpn);
        let mut reads = Reads { purpose: Purpose::Background, port, memory, own: None, references: 0, failed: false };
        self.table.walk(asid, vpn, mapping, &mut reads);
        let found = view.pte(asid, vpn);
        debug_assert_eq!(found.is_some(), mapping.is_some(), "{asid:?} {vpn:?}: the table was not told of a change");
        Walked { references: reads.references, by_level: [0; 5], found: found.filter(|_| !reads.failed) }
    }

    /// See [`crate::tlb::OnMap::faulting`].
    pub fn faulting(&mut self, asid: Asid, vpn: Vpn, counts: &mut TlbCounts) {
        self.table.faulting(asid, vpn, &mut counts.parts.at(self.part).counters);
    }

    /// See [`crate::tlb::OnMap::mapped`].
    pub fn mapped(&mut self, asid: Asid, pages: VpnRange, view: &dyn PageTableView, counts: &mut TlbCounts) {
        let own = &mut counts.parts.at(self.part).counters;
        // Pages that are new are in no cache of a walker.
        if self.held.any(asid, pages) {
            self.table.forget(asid, pages);
        }
        self.held.mapped(asid, pages, view, &mut *self.table, own);
        self.check();
    }

    /// See [`crate::tlb::OnMap::unmapped`].
    pub fn unmapped(&mut self, asid: Asid, pages: VpnRange, view: &dyn PageTableView, counts: &mut TlbCounts) {
        let own = &mut counts.parts.at(self.part).counters;
        self.table.forget(asid, pages);
        self.held.unmapped(asid, pages, view, &mut *self.table, own);
        self.check();
    }

    /// The address space ended.
    pub fn gone(&mut self, asid: Asid, counts: &mut TlbCounts) {
        let own = &mut counts.parts.at(self.part).counters;
        self.held.gone(asid, &mut *self.table, own);
        self.table.gone(asid, own);
        self.check();
    }

    /// Another process runs.
    pub fn switch(&mut self, to: Asid) {
        self.table.switch(to, self.process_ids);
    }

    /// In debug builds, for tables that are small.
    fn check(&self) {
        if cfg!(debug_assertions) && self.held.len() < 256 {
            self.table.check(&mut self.held.iter());
        }
    }
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
    /// Counters of its own, in `counts.parts.table`.
    pub counters: &'static [Counter],
    /// Laws that its counts keep.
    pub laws: &'static [Law],
    /// Builds it. The error names key, value and what is allowed.
    pub(in crate::tlb) build: Build,
}

impl ListedTable {
    /// What entries have if they do not say otherwise.
    const NEW: ListedTable =
        ListedTable { name: "", about: "", keys: &[], counters: &[], laws: &[], build: |_, _| Err(String::new()) };
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

/// Refuses machines for which the table is not defined (HW-12).
pub(in crate::tlb) fn check(params: &Params) -> Result<(), String> {
    chosen(params).map_or(Ok(()), |table| check_native(params, &format!("{} = {}", TABLE.name, table.name)))
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
