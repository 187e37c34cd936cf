//! Walk caches (WC; Barr, Cox and Rixner, ISCA 2010): what a page-table walker keeps of the entries above the leaves. A
//! file for each kind, and a line in the registry at the end of this one. `pwc_kind` chooses it.
//!
//! Leaves are never cached (WC-5). A walk asks its caches where to begin, reads the entries below that, and offers each
//! but the leaf to them, top first. The registry makes one enum of all kinds, and a walk looks once which it has, so
//! that the code of a walk is made for each kind.

#[cfg(test)]
mod tests;

use super::nodes::Pointer;
use super::walk::{self, PWC_PD, PWC_PDPT, PWC_PML4, PWC_PML5};
use crate::tlb::filter::Unfiltered;
use crate::tlb::parts::additions::{Counter, Law};
use crate::tlb::parts::store::Store;
use crate::tlb::parts::store::geometry::Geometry;
use crate::tlb::parts::store::tag_index::Tag;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::counts::TlbCounts;
use farreach_types::params::{Allowed, Key, Params};

/// WC.
pub const PWC_KIND: Key = Key {
    name: "pwc_kind",
    default: NAMES[0],
    allowed: Allowed::OneOf(&NAMES),
    about: "walk caches: stc: an array for each level, by virtual address; utc: one array for all levels; sptc, uptc: \
            the same by physical address, where a hit saves one reference; tpc: whole paths",
};

/// Entries of the kinds that have one array.
pub const PWC_ENTRIES: Key = Key {
    name: "pwc_entries",
    default: "24",
    allowed: Allowed::Int { min: 1, max: 65536 },
    about: "walk caches of one array (pwc_kind = utc, uptc, tpc): cached entries of all levels, fully associative",
};

/// The name of the walk caches in [`TlbCounts::parts`].
pub const PART: &str = "pwc";

/// The way of a walk through a radix tree.
#[derive(Clone, Copy, Debug)]
pub(in crate::tlb) struct Path {
    pub asid: Asid,
    pub vpn: Vpn,
    /// log2 of the entries of a node.
    pub radix: u8,
    /// Level of the last entry that is read, 0 for leaves of base pages.
    pub leaf: u8,
    /// Levels of the tree.
    pub levels: u8,
}

impl Path {
    /// The entry of this level on the way.
    #[inline]
    fn tag(&self, level: u8) -> Tag {
        Tag::of(self.asid, self.vpn, self.radix * level)
    }
}

/// A kind of walk caches.
pub(in crate::tlb) trait WalkCache: Send {
    /// It never holds anything.
    fn is_none(&self) -> bool {
        false
    }
    /// The level of the entry below which the walk begins, above [`Path::leaf`]; [`Path::levels`]: it begins at the
    /// root. Changes nothing.
    fn start(&self, path: &Path) -> u8;
    /// As [`WalkCache::start`], by a walk, which renews what it uses.
    fn begin(&mut self, path: &Path) -> u8;
    /// Whether the entry of this level is held, so that it need not be read, though the walk passes it (WC-3). Changes
    /// nothing.
    fn holds(&self, _path: &Path, _level: u8) -> bool {
        false
    }
    /// As [`WalkCache::holds`], by a walk.
    fn saves(&mut self, _path: &Path, _level: u8) -> bool {
        false
    }
    /// The walk read the entry of this level, above the leaf.
    fn read(&mut self, path: &Path, level: u8);
    /// The walk is over; it read entries from below this level on.
    fn ended(&mut self, _path: &Path, _from: u8) {}
    /// Drops what it has of an address space.
    fn drop_space(&mut self, asid: Asid);
    /// Another process runs: without process ids it drops everything.
    fn switch(&mut self, to: Asid);
    /// Whether it counts lookups and hits of its own, and walks do not begin below its entries.
    const COUNTS: bool = false;
}

/// Places of the counters of kinds that save single references.
pub(in crate::tlb) const LOOKUPS: usize = 0;
pub(in crate::tlb) const HITS: usize = 1;

/// The counters of kinds that save single references, and their laws.
const SAVING: &[Counter] = &[
    Counter::new("lookups", "entries above leaves that walks looked up in walk caches"),
    Counter::new("hits", "of these, entries that were there, each of which saved a reference"),
];
const SAVING_LAWS: &[Law] = &[Law {
    name: "WC-3: references of a walk are its leaf and what misses in the walk caches",
    sides: |part, counts| {
        let of = |name| part.counters.get(name);
        (counts.walk.references(), counts.walk.walks + of("lookups") - of("hits"))
    },
}];

/// An array, by the entries that it has. Each entry of a table has one address and stands for one part of one address
/// space, so that tags by address and by part of the space are the same.
struct Array {
    store: Store<Pointer>,
    /// What it holds is not filtered.
    ignored_report: Unfiltered,
}

impl Array {
    fn new(entries: u64, params: &Params, seed: u64) -> Result<Array, String> {
        let store = Store::new(Geometry::new(entries, 0)?, params, seed)?;
        Ok(Array { store, ignored_report: Unfiltered::unread() })
    }

    #[inline]
    fn has(&self, tag: Tag) -> bool {
        self.store.find(tag).is_some()
    }

    /// Looks up and renews.
    #[inline]
    fn uses(&mut self, tag: Tag) -> bool {
        let found = self.store.find(tag);
        if let Some(slot) = found {
            self.store.touch(slot, 0, &mut self.ignored_report);
        }
        found.is_some()
    }

    #[inline]
    fn place(&mut self, tag: Tag) {
        self.store.place(tag, Pointer, &mut TlbCounts::default(), &mut self.ignored_report);
    }

    fn drop_space(&mut self, asid: Asid) {
        self.store.drop_space(asid, &mut self.ignored_report);
    }

    fn switch(&mut self, to: Asid) {
        self.store.switch(to, &mut self.ignored_report);
    }
}

/// An array for each level from 1 on, where there is one.
struct ByLevel(Vec<Option<Array>>);

impl ByLevel {
    fn new(params: &Params, seed: u64) -> Result<ByLevel, String> {
        let array = |level: u8| {
            let key = [&PWC_PD, &PWC_PDPT, &PWC_PML4, &PWC_PML5][usize::from(level) - 1];
            let entries = params.int(key.name);
            (entries > 0).then(|| Array::new(entries, params, seed.wrapping_add(level.into()))).transpose()
        };
        Ok(ByLevel((1..walk::levels(params)).map(array).collect::<Result<_, _>>()?))
    }

    #[inline]
    fn at(&self, level: u8) -> Option<&Array> {
        self.0[usize::from(level) - 1].as_ref()
    }

    #[inline]
    fn at_mut(&mut self, level: u8) -> Option<&mut Array> {
        self.0[usize::from(level) - 1].as_mut()
    }
}

/// The array of a kind that has one; `name`: the kind.
fn one_array(name: &str, params: &Params, seed: u64) -> Result<Array, String> {
    check_levels(name, params)?;
    Array::new(params.int(PWC_ENTRIES.name), params, seed.wrapping_add(1))
}

/// Refuses arrays by level with a kind that has none.
fn check_levels(name: &str, params: &Params) -> Result<(), String> {
    for key in [&PWC_PD, &PWC_PDPT, &PWC_PML4, &PWC_PML5] {
        let entries = params.int(key.name);
        if entries > 0 {
            return Err(format!(
                "{} = {entries} is not allowed with {} = {name}: it has one array of {} entries; {} must be 0",
                key.name, PWC_KIND.name, PWC_ENTRIES.name, key.name
            ));
        }
    }
    Ok(())
}

/// A kind as the registry knows it.
pub struct ListedWalkCaches {
    /// Value of [`PWC_KIND`].
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// The keys it reads, besides those of all walkers.
    pub keys: &'static [&'static Key],
    /// Counters of its own, in `counts.parts.pwc`.
    pub counters: &'static [Counter],
    /// Laws that its counts keep.
    pub laws: &'static [Law],
    /// Builds it. The error names key, value and what is allowed.
    pub(in crate::tlb) build: fn(&Params, u64) -> Result<Caches, String>,
}

/// The kind of a machine; `None`: it has no walker.
pub fn chosen(params: &Params) -> Option<&'static ListedWalkCaches> {
    listed(params.has(PWC_KIND.name).then(|| params.text(PWC_KIND.name))?)
}

/// The kind of this name.
pub fn listed(name: &str) -> Option<&'static ListedWalkCaches> {
    KINDS.iter().copied().find(|kind| kind.name == name)
}

/// Refuses machines for which the kind is not defined (HW-12).
fn check(params: &Params, kind: &ListedWalkCaches) -> Result<(), String> {
    use super::{cores::CORES, host::GUEST};
    use crate::tlb::parts::tables::TABLE;
    if kind.name == PWC_KIND.default {
        return Ok(());
    }
    let refuse =
        |with: String, why: &str| Err(format!("{} = {} is not allowed with {with}: {why}", PWC_KIND.name, kind.name));
    let (guest, cores, table) = (params.text(GUEST.name), params.int(CORES.name), params.text(TABLE.name));
    if guest != GUEST.default {
        return refuse(format!("guest = {guest}"), "it is not defined in virtual machines (HW-12); guest must be none");
    }
    if cores > 1 {
        return refuse(format!("cores = {cores}"), "it is not defined on several cores (HW-12); cores must be 1");
    }
    if table != TABLE.default {
        return refuse(format!("table = {table}"), "it is of walkers of a radix tree; table must be radix");
    }
    Ok(())
}

/// The walk caches of a machine.
pub(in crate::tlb) fn build(params: &Params, seed: u64) -> Result<Caches, String> {
    let kind = chosen(params).unwrap_or(KINDS[0]);
    check(params, kind)?;
    (kind.build)(params, seed)
}

/// Something that is done with caches of any kind.
pub(in crate::tlb) trait WithCaches {
    type Out;
    fn with<C: WalkCache>(self, caches: &mut C) -> Self::Out;
}

/// Makes the registry, and the enum of the kinds (see the module).
macro_rules! walk_caches {
    ($($module:ident::$kind:ident,)*) => {
        $(mod $module;)*

        /// All kinds, the default first. A new one is one file here and one line at the end of `walk_caches/mod.rs`.
        pub const KINDS: &[&ListedWalkCaches] = &[$(&$module::LISTED),*];

        /// Walk caches of some kind.
        pub(in crate::tlb) enum Caches {
            $($kind($module::$kind)),*
        }

        $(impl From<$module::$kind> for Caches {
            fn from(caches: $module::$kind) -> Caches {
                Caches::$kind(caches)
            }
        })*

        impl Caches {
            /// Does this with them, in code that is made for their kind.
            #[inline]
            pub fn with<W: WithCaches>(&mut self, work: W) -> W::Out {
                match self { $(Caches::$kind(caches) => work.with(caches)),* }
            }
            /// See [`WalkCache::start`].
            pub fn start(&self, path: &Path) -> u8 {
                match self { $(Caches::$kind(caches) => caches.start(path)),* }
            }
            /// See [`WalkCache::holds`].
            pub fn holds(&self, path: &Path, level: u8) -> bool {
                match self { $(Caches::$kind(caches) => caches.holds(path, level)),* }
            }
            /// See [`WalkCache::drop_space`].
            pub fn drop_space(&mut self, asid: Asid) {
                match self { $(Caches::$kind(caches) => caches.drop_space(asid)),* }
            }
            /// See [`WalkCache::switch`].
            pub fn switch(&mut self, to: Asid) {
                match self { $(Caches::$kind(caches) => caches.switch(to)),* }
            }
        }
    };
}

/// Values of [`PWC_KIND`].
const NAMES: [&str; KINDS.len()] = {
    let mut names = [""; KINDS.len()];
    let mut i = 0;
    while i < KINDS.len() {
        names[i] = KINDS[i].name;
        i += 1;
    }
    names
};

walk_caches! {
    stc::Stc,
    utc::Utc,
    uptc::Uptc,
    sptc::Sptc,
    tpc::Tpc,
}
