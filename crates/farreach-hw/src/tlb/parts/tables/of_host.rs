//! The table of a host (NEC, NFL): the same organisations, from guest physical to system memory.
//!
//! It has the keys of the guest's, with `host_` in front, so that both dimensions can differ, and structures of its
//! own, walk caches too. A page of the host (`host_page`) is mapped when a walk first needs it, and stays: hosts take
//! no memory back. Where the guest's table is no radix tree, a radix tree of the host is `flat` with no levels merged,
//! so that its references are made in the steps of the guest.

use super::reads::{Reads, Steps};
use super::{ListedTable, Mapping, NAMES, RADIX_TREE, TABLE, TABLES, Table, TableLaw, chosen, flat};
use crate::cache::{Port, Purpose};
use crate::tlb::parts::additions::{Counter, Law};
use crate::tlb::parts::hierarchy::KEYS;
use crate::tlb::parts::hierarchy::host::{GUEST, HOST, HOST_LEVELS};
use crate::tlb::parts::hierarchy::walk::{PWC_PD, PWC_PDPT, PWC_PML4, PWC_PML5, WALK_LEVELS};
use farreach_types::addr::{Asid, Pfn, Vpn};
use farreach_types::counts::TlbCounts;
use farreach_types::params::{Allowed, Key, Params};
use foldhash::fast::FixedState;
use hashbrown::HashSet;
use std::sync::LazyLock;

/// NEC, NFL.
pub const HOST_TABLE: Key = Key {
    name: "host_table",
    default: RADIX_TREE,
    allowed: Allowed::OneOf(&NAMES),
    about: "guest = walk, host = walk: organisation of the host's page table, as table; radix: a tree",
};

/// The name of the host's table in [`TlbCounts::parts`].
pub(in crate::tlb) const PART: &str = farreach_types::counts::HOST_TABLE;

const CACHE: Allowed = Allowed::Int { min: 0, max: 65536 };

/// The keys of walk caches that a table itself reads, by level from 1.
const PWC: [&Key; 4] = [&PWC_PD, &PWC_PDPT, &PWC_PML4, &PWC_PML5];

/// Those of a host's.
const HOST_PWC: [&Key; 4] = [
    &Key {
        name: "host_pwc_pd",
        default: "0",
        allowed: CACHE,
        about: "host_table = flat, dmt: cached page-directory entries of the host; 0: none",
    },
    &Key {
        name: "host_pwc_pdpt",
        default: "0",
        allowed: CACHE,
        about: "host_table = flat, dmt: cached page-directory-pointer entries of the host; 0: none",
    },
    &Key {
        name: "host_pwc_pml4",
        default: "0",
        allowed: CACHE,
        about: "host_table = flat, dmt: cached PML4 entries of the host; 0: none",
    },
    &Key {
        name: "host_pwc_pml5",
        default: "0",
        allowed: CACHE,
        about: "host_table = flat, dmt: cached PML5 entries of the host; 0: none",
    },
];

/// A table of a host, as descriptions and results know it.
pub struct OfHost {
    /// Value of [`HOST_TABLE`].
    pub name: &'static str,
    /// The keys it reads.
    pub keys: Vec<&'static Key>,
    /// Its counters, in `counts.parts.host_table`.
    pub counters: Vec<Counter>,
    /// Laws of the table.
    pub table_laws: &'static [TableLaw],
    /// Laws of its place behind the guest's table.
    pub laws: &'static [Law],
    listed: &'static ListedTable,
    /// `keys`, and in the same place the key that the table itself reads.
    twins: Vec<(&'static Key, &'static Key)>,
}

const LAWS: &[Law] = &[Law {
    name: "DS13-42: each line of the guest's table is translated or its place is known, and each page is translated",
    sides: |part, counts| {
        let made = counts.parts.get(super::PART).map(|table| table.memory.made.clone()).unwrap_or_default();
        let lines = counts.walk.references() + made.references + made.background_references;
        let host = &counts.host_walk;
        (host.walks + host.nested_tlb_hits + part.counters.get("known"), lines + counts.walk.walks)
    },
}];

impl OfHost {
    fn new(name: &'static str, listed: &'static ListedTable, mut twins: Vec<(&'static Key, &'static Key)>) -> OfHost {
        twins.extend(HOST_PWC.into_iter().zip(PWC).filter(|_| name != RADIX_TREE && listed.has_walk_caches));
        let priced = |key: &'static Key| twins.iter().find(|(_, of)| of.name == key.name).map(|(twin, _)| *twin);
        let counters =
            listed.counters.iter().map(|counter| Counter { price: counter.price.and_then(priced), ..*counter });
        let known = Counter::new("known", "lines of the guest's table whose place in system memory was known");
        OfHost {
            name,
            keys: twins.iter().map(|(twin, _)| *twin).collect(),
            counters: counters.chain([known]).collect(),
            table_laws: listed.laws,
            laws: LAWS,
            listed,
            twins,
        }
    }

    /// The parameters of a native machine with this table.
    fn params(&self, params: &Params) -> Result<Params, String> {
        let own = self.listed.keys.iter().filter(|key| self.name != RADIX_TREE || key.name != flat::FLATTEN.name);
        let keys: Vec<&Key> = KEYS.iter().copied().chain(self.listed.keys.iter().copied()).collect();
        let mut given = params.as_json().clone();
        given.retain(|name, _| keys.iter().any(|key| key.name == name));
        own.for_each(|key| _ = given.remove(key.name));
        PWC.iter().for_each(|key| _ = given.insert(key.name.into(), 0.into()));
        for (twin, of) in &self.twins {
            given.insert(of.name.into(), params.as_json()[twin.name].clone());
        }
        if self.name == RADIX_TREE {
            given.insert(flat::FLATTEN.name.into(), "none".into());
        }
        given.insert(WALK_LEVELS.name.into(), params.int(HOST_LEVELS.name).into());
        for native in [&GUEST, &HOST, &HOST_TABLE, &TABLE] {
            given.insert(native.name.into(), native.default.into());
        }
        Params::resolve(&keys, &given)
    }
}

/// All of them.
static TABLES_OF_HOST: LazyLock<Vec<OfHost>> = LazyLock::new(|| {
    let twin = |key: &'static Key| -> (&'static Key, &'static Key) {
        let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
        let of_host = |text: &str| leak(format!("host_{text}"));
        (Box::leak(Box::new(Key { name: of_host(key.name), about: of_host(key.about), ..*key })), key)
    };
    let of = |listed: &'static ListedTable| {
        let has_twin = |key: &&Key| listed.guest_keys.iter().all(|other| other.name != key.name);
        OfHost::new(listed.name, listed, listed.keys.iter().copied().filter(has_twin).map(twin).collect())
    };
    let radix = OfHost::new(RADIX_TREE, &flat::LISTED, Vec::new());
    [radix].into_iter().chain(TABLES.iter().copied().filter(|listed| listed.in_guests).map(of)).collect()
});

/// The table of a host of this name.
pub fn of_host(name: &str) -> Option<&'static OfHost> {
    TABLES_OF_HOST.iter().find(|table| table.name == name)
}

/// The table of the host of a machine; `None`: there is none, or both tables are radix trees, which the walker and the
/// host have themselves.
pub(in crate::tlb) fn chosen_of_host(params: &Params) -> Option<&'static OfHost> {
    let walks = params.has(GUEST.name) && params.text(GUEST.name) == "walk" && params.text(HOST.name) == HOST.default;
    let name = (walks && params.has(HOST_TABLE.name)).then(|| params.text(HOST_TABLE.name))?;
    let is_tree = name == RADIX_TREE && chosen(params).is_none();
    of_host(name).filter(|_| !is_tree)
}

/// See the module.
pub(in crate::tlb) struct HostTable {
    table: Box<dyn Table>,
    /// log2 of the base pages of its pages.
    order: u8,
    /// First pages of those that it has.
    mapped: HashSet<u64, FixedState>,
    /// Walks that are made at once, and how many there are.
    walks: Vec<Steps>,
    many: usize,
    /// The lines of one step of all of them.
    lines: Vec<u64>,
    /// The place of its counters in [`TlbCounts::parts`].
    part: usize,
    /// The place of the counter of lines that are known.
    known: usize,
}

impl HostTable {
    /// `None`: see [`chosen_of_host`]. Its pages have `2^order` base pages.
    pub fn new(params: &Params, seed: u64, order: u8, counts: &mut TlbCounts) -> Result<Option<HostTable>, String> {
        let Some(chosen) = chosen_of_host(params) else { return Ok(None) };
        let of_host = |why: String| format!("{} = {}: its {why}", HOST_TABLE.name, chosen.name);
        let table = chosen.params(params).and_then(|own| (chosen.listed.build)(&own, seed)).map_err(of_host)?;
        let names: Vec<_> = chosen.counters.iter().map(|counter| counter.name).collect();
        Ok(Some(HostTable {
            table,
            order,
            mapped: HashSet::default(),
            walks: Vec::new(),
            many: 0,
            lines: Vec::new(),
            part: counts.parts.add(PART, &names),
            known: names.len() - 1,
        }))
    }

    /// Lines of the guest's table whose place in system memory was known.
    pub fn known(&self, lines: u64, counts: &mut TlbCounts) {
        *counts.parts.at(self.part).counters.at(self.known) += lines;
    }

    /// A walk for a guest physical page, at once with all since the last [`HostTable::make`].
    pub fn walk(&mut self, page: Pfn, purpose: Purpose, counts: &mut TlbCounts) {
        let own = &mut counts.parts.at(self.part).counters;
        let vpn = Vpn(page.0);
        let mapping = Mapping { asid: Asid(0), vpn: vpn.align_down(self.order.into()), order: self.order };
        // HW-10: what the page fault of a walk does is done before it.
        if self.mapped.insert(mapping.vpn.0) {
            self.table.map(mapping, own);
            self.check();
        }
        if self.many == self.walks.len() {
            self.walks.push(Steps::default());
        }
        let waits = self.many == 0 && purpose == Purpose::Demand;
        let mut reads = Reads::of_host(&mut self.walks[self.many], own, waits);
        self.table.walk(mapping.asid, vpn, Some(mapping), &mut reads);
        self.many += 1;
    }

    /// Makes the references of these walks: of each the first step, then the second, and so on. What they read in the
    /// background comes behind.
    pub fn make(&mut self, purpose: Purpose, counts: &mut TlbCounts, port: &mut Port) {
        let HostTable { walks, many, lines, part, .. } = self;
        let memory = &mut counts.parts.at(*part).memory;
        let walks = &walks[..*many];
        if let [walk] = walks {
            walk.make(purpose, port, memory);
        } else {
            for i in 0.. {
                lines.clear();
                walks.iter().filter_map(|walk| walk.of_walk().nth(i)).for_each(|step| {
                    lines.extend_from_slice(step.addresses);
                });
                if lines.is_empty() {
                    break;
                }
                port.step(purpose, lines, memory);
            }
            let behind = walks.iter().flat_map(Steps::behind);
            behind.for_each(|step| _ = port.step(Purpose::Background, step.addresses, memory));
        }
        *many = 0;
    }

    /// In debug builds, for tables that are small.
    fn check(&self) {
        if cfg!(debug_assertions) && self.mapped.len() < 256 {
            let mapping = |&vpn: &u64| Mapping { asid: Asid(0), vpn: Vpn(vpn), order: self.order };
            self.table.check(&mut self.mapped.iter().map(mapping));
        }
    }
}
