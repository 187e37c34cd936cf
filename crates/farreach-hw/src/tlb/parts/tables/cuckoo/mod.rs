//! Elastic cuckoo page tables (EC; Skarlatos and others, ASPLOS 2020): a hash table for each process and page size, of
//! several ways with a hash each, that grows while it is in use. Small tables say which sizes a part of the address
//! space has (`walk_tables`), so that most walks read the ways of one size, all at once.

mod chunked;
#[cfg(test)]
mod chunked_tests;
mod elastic;
#[cfg(test)]
mod tests;
mod walk_tables;

pub(super) use chunked::Chunked;

use super::memory::{ORDERS, OWN, WRITES, counted, gave};
use super::{ListedTable, Mapping, Places, Reads, Scope, TABLE_SCOPE, Table, TableLaw};
use crate::tlb::parts::additions::Counter;
use elastic::{Elastic, Rules, Tag, Upkeep};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::counts::OwnCounts;
use farreach_types::params::{Allowed, Key, Params, SEED};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use walk_tables::{Header, WalkTables};

/// EC-1.
pub const EC_WAYS: Key = Key {
    name: "ec_ways",
    default: "3",
    allowed: Allowed::Int { min: 2, max: MOST_WAYS as u64 },
    about: "table = cuckoo, me-hpt: ways of a table, each with a hash of its own",
};
/// EC-1.
pub const EC_ENTRIES: Key = Key {
    name: "ec_entries",
    default: "16384",
    allowed: Allowed::PowerOfTwo { min: 1, max: 1 << 28 },
    about: "table = cuckoo, me-hpt: entries of a way at first, each of 64 bytes for eight pages",
};
/// EC-4.
pub const EC_THRESHOLD: Key = Key {
    name: "ec_threshold",
    default: "0.6",
    allowed: Allowed::Number { min: 0.01, max: 0.99 },
    about: "table = cuckoo, me-hpt: share of entries in use beyond which a larger table begins",
};
/// EC-4.
pub const EC_SCALE: Key = Key {
    name: "ec_scale",
    default: "2",
    allowed: Allowed::PowerOfTwo { min: 2, max: 16 },
    about: "table = cuckoo: how much larger that table is",
};
/// EC-4.
pub const EC_MOVES: Key = Key {
    name: "ec_moves",
    default: "1",
    allowed: Allowed::Int { min: 1, max: 1 << 20 },
    about: "table = cuckoo, me-hpt: entries that move to it at each insert",
};
/// EC-3.
pub const EC_RETRIES: Key = Key {
    name: "ec_retries",
    default: "32",
    allowed: Allowed::Int { min: 1, max: 1 << 20 },
    about: "table = cuckoo, me-hpt: entries that an insert puts elsewhere at most before it fails, and the table grows",
};
/// EC-5.
pub const CWC_PMD: Key = Key {
    name: "cwc_pmd",
    default: "16",
    allowed: Allowed::Int { min: 0, max: 1024 },
    about: "table = cuckoo, me-hpt: cached rows of sizes by 16 MB, each for 1 GB; 0: none",
};
/// EC-5.
pub const CWC_PUD: Key = Key {
    name: "cwc_pud",
    default: "2",
    allowed: Allowed::Int { min: 0, max: 1024 },
    about: "table = cuckoo, me-hpt: cached rows of sizes by 8 GB, each for 512 GB; 0: none",
};
/// EC-8.
pub const CWC_CYCLES: Key = Key {
    name: "cwc_cycles",
    default: "4",
    allowed: Allowed::Number { min: 0.0, max: 1e12 },
    about: "table = cuckoo, me-hpt: cycles in which a walk looks the cached rows up",
};
/// HW-11, for tests by hand alone: for two tags that differ in few digits no table may be large enough.
#[cfg(test)]
pub const EC_HASH: Key = Key {
    name: "ec_hash",
    default: "mix",
    allowed: Allowed::OneOf(&["mix", "identity"]),
    about: "table = cuckoo, me-hpt: how an entry is found: by mixed bits, or by bits of the number, other ones in each \
            way, for hand-made tests",
};

/// ME-1.
pub const EC_CHUNK: Key = Key {
    name: "ec_chunk",
    default: "8K+1M+8M+64M",
    allowed: Allowed::PageSizes { min: 4096, max: 1 << 30 },
    about: "table = me-hpt: sizes of the pieces of memory of a way, which has at most 64 of a size, smallest first",
};

/// The table as the registry knows it.
pub const LISTED: ListedTable = ListedTable {
    name: "cuckoo",
    about: "elastic cuckoo tables: a hash table for each page size that grows in use, its ways read at once (EC)",
    keys: &[
        &EC_WAYS,
        &EC_ENTRIES,
        &EC_THRESHOLD,
        &EC_SCALE,
        &EC_MOVES,
        &EC_RETRIES,
        &CWC_PMD,
        &CWC_PUD,
        &CWC_CYCLES,
        &TABLE_SCOPE,
        #[cfg(test)]
        &EC_HASH,
    ],
    counters: COUNTERS,
    laws: LAWS,
    in_guests: true,
    build: |params, _| Ok(Box::new(Cuckoo::<Elastic>::new(params))),
    ..ListedTable::NEW
};

/// The counters of tables in several ways.
pub(super) const COUNTERS: &[Counter] =
    counted! {
        moves: "entries that were moved by that",
        collisions: "entries that an insert put elsewhere",
        Counter::new("complete", "walks that read the ways of all sizes, for want of a cached row"),
        Counter::new("by_pud", "walks that a row by 8 GB guided"),
        Counter::new("size", "walks that a row by 16 MB guided, with base pages only"),
        Counter::new("direct", "walks that read one entry, as the row by 16 MB has 2 MB pages only, and their way"),
        Counter::new("both", "walks that a row by 16 MB guided, with pages of both sizes"),
        Counter::new("cwt_references", "rows that were fetched after a walk, in the background"),
        Counter { name: "cwc_lookups", about: "walks that looked up cached rows", price: Some(&CWC_CYCLES) },
        Counter::new("fault_references", "references of walks that ended in a page fault, in no other count"),
    };

/// Their laws.
pub(super) const LAWS: &[TableLaw] = &[TableLaw {
    name: "EC-8: walks are complete, guided by 8 GB or by 16 MB",
    sides: |part, walks| {
        let kinds = ["complete", "by_pud", "size", "direct", "both"];
        (walks, kinds.iter().map(|kind| part.counters.get(kind)).sum())
    },
}];

const COMPLETE: usize = OWN;
const BY_PUD: usize = OWN + 1;
const SIZE: usize = OWN + 2;
const DIRECT: usize = OWN + 3;
const BOTH: usize = OWN + 4;
const CWT_REFERENCES: usize = OWN + 5;
const CWC_LOOKUPS: usize = OWN + 6;
const FAULT_REFERENCES: usize = OWN + 7;

/// The most ways of a table.
const MOST_WAYS: usize = 8;

/// The table of one page size, of a process or of all.
pub(super) trait Hashed: Send + Sized {
    /// For the first page of its size.
    fn new(mapping: Mapping, rules: &Rules, places: &mut Places, own: &mut OwnCounts) -> Self;
    /// Bytes of all its memory.
    fn bytes(&self) -> u64;
    /// Reads a way for a tag: the address, and the pages of the tag that are there.
    fn read(&self, rules: &Rules, way: usize, tag: Tag) -> (u64, u8);
    /// A page is mapped (EC-3).
    fn set(&mut self, tag: Tag, page: u8, upkeep: &mut Upkeep);
    /// A page is not mapped any more.
    fn clear(&mut self, tag: Tag, page: u8, upkeep: &mut Upkeep);
    /// Panics if it is not in order; returns the pages that it has.
    fn check(&self, rules: &Rules) -> u64;
}

/// The tables of one process, or of all, by size.
struct Process<T> {
    sizes: [Option<T>; 3],
    rng: Pcg64Mcg,
}

/// See the module.
pub(super) struct Cuckoo<T> {
    rules: Rules,
    scope: Scope,
    /// By owner.
    processes: HashMap<Asid, Process<T>, FixedState>,
    walk_tables: WalkTables,
    places: Places,
}

/// What a walk reads of each size (EC-6).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    Nothing,
    /// All ways.
    Ways,
    /// The way that is known.
    Way(u8),
}

/// The addresses of one step.
struct Step {
    addresses: [u64; 3 * MOST_WAYS],
    many: usize,
}

impl Step {
    fn add(&mut self, address: u64) {
        self.addresses[self.many] = address;
        self.many += 1;
    }
}

impl<T: Hashed> Cuckoo<T> {
    pub fn new(params: &Params) -> Cuckoo<T> {
        let int = |key: &Key| params.int(key.name);
        Cuckoo {
            rules: Rules {
                ways: int(&EC_WAYS) as usize,
                first: int(&EC_ENTRIES) as usize,
                threshold: params.number(EC_THRESHOLD.name),
                scale: if params.has(EC_SCALE.name) { int(&EC_SCALE) as usize } else { 2 },
                chunks: if params.has(EC_CHUNK.name) { params.sizes(EC_CHUNK.name) } else { Vec::new() },
                moves: int(&EC_MOVES),
                retries: int(&EC_RETRIES),
                #[cfg(test)]
                identity: params.text(EC_HASH.name) == "identity",
                #[cfg(not(test))]
                identity: false,
                seed: int(&SEED),
            },
            scope: Scope::of(params),
            processes: HashMap::default(),
            walk_tables: WalkTables::new(int(&CWC_PMD) as usize, int(&CWC_PUD) as usize),
            places: Places::of(params),
        }
    }

    /// What a walk reads by size, the counter of its kind, and whether each row missed, that by 16 MB first; these are
    /// what the rows say, the second only if the first missed.
    fn plan(&self, asid: Asid, [by_pmd, by_pud]: [Option<Header>; 2]) -> ([Read; 3], usize, [bool; 2]) {
        let ways = |has: bool| if has { Read::Ways } else { Read::Nothing };
        let way = |header: Header, size: usize| if header.has(size) { Read::Way(header.way) } else { Read::Nothing };
        if let Some(header) = by_pmd {
            let kind = [SIZE, DIRECT, BOTH][usize::from(header.has(1)) + usize::from(header.has(0) && header.has(1))];
            return ([ways(header.has(0)), way(header, 1), Read::Nothing], kind, [false, false]);
        }
        if let Some(header) = by_pud {
            return ([ways(header.has(0)), ways(header.has(1)), way(header, 2)], BY_PUD, [true, false]);
        }
        let process = self.processes.get(&self.scope.owner(asid));
        let exists = |size: usize| process.is_some_and(|process| process.sizes[size].is_some());
        ([0, 1, 2].map(|size| ways(exists(size))), COMPLETE, [true, true])
    }
}

/// Of a mapping: which size, its tag, and its bit among the eight pages.
fn number(mapping: Mapping) -> (usize, Tag, u8) {
    let page = mapping.vpn.0 >> mapping.order;
    (usize::from(mapping.order / 9), Tag { asid: mapping.asid, group: page / 8 }, 1 << (page % 8))
}

impl<T: Hashed> Table for Cuckoo<T> {
    fn map(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        let (size, tag, page) = number(mapping);
        let Cuckoo { rules, scope, processes, walk_tables, places } = self;
        let owner = scope.owner(mapping.asid);
        let seed = rules.seed.wrapping_add(owner.0.into());
        let new = || Process { sizes: [None, None, None], rng: Pcg64Mcg::seed_from_u64(seed) };
        let Process { sizes, rng } = processes.entry(owner).or_insert_with(new);
        *own.at(WRITES) += 1;
        walk_tables.mapped(mapping, places, own);
        let table = sizes[size].get_or_insert_with(|| T::new(mapping, rules, places, own));
        table.set(tag, page, &mut Upkeep { rules, rng, places, walk_tables, own });
    }

    fn unmap(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        let (size, tag, page) = number(mapping);
        let Cuckoo { rules, scope, processes, walk_tables, places } = self;
        let Process { sizes, rng } = processes.get_mut(&scope.owner(mapping.asid)).expect("it has the mapping");
        *own.at(WRITES) += 1;
        let table = sizes[size].as_mut().expect("it has the mapping");
        table.clear(tag, page, &mut Upkeep { rules, rng, places, walk_tables, own });
        walk_tables.unmapped(mapping, own);
    }

    fn gone(&mut self, asid: Asid, own: &mut OwnCounts) {
        if self.scope == Scope::Global {
            return; // it stays
        }
        if let Some(process) = self.processes.remove(&asid) {
            process.sizes.iter().flatten().for_each(|table| gave(own, table.bytes()));
        }
    }

    fn switch(&mut self, _: Asid, process_ids: bool) {
        if !process_ids {
            self.walk_tables.forget_cached();
        }
    }

    fn walk(&mut self, asid: Asid, vpn: Vpn, mapping: Option<Mapping>, reads: &mut Reads) {
        let WalkTables { pmd, pud } = &mut self.walk_tables;
        let by_pmd = pmd.look_up(asid, vpn);
        let by_pud = if by_pmd.is_none() { pud.look_up(asid, vpn) } else { None };
        let (plan, kind, missed) = self.plan(asid, [by_pmd, by_pud]);
        let owner = self.scope.owner(asid);
        reads.count(kind, 1);
        reads.count_wait(CWC_LOOKUPS, u64::from(self.walk_tables.are_cached()));
        let mut step = Step { addresses: [0; 3 * MOST_WAYS], many: 0 };
        let mut found = None;
        for (size, read) in plan.into_iter().enumerate().filter(|(_, read)| *read != Read::Nothing) {
            let table = self.processes.get(&owner).and_then(|process| process.sizes[size].as_ref());
            let Some(table) = table else { continue };
            let (_, tag, page) = number(Mapping { asid, vpn, order: ORDERS[size] });
            let ways = match read {
                Read::Way(way) => usize::from(way)..usize::from(way) + 1,
                _ => 0..self.rules.ways,
            };
            for way in ways {
                let (address, pages) = table.read(&self.rules, way, tag);
                step.add(address);
                if pages & page != 0 {
                    found = Some(ORDERS[size]);
                }
            }
        }
        if step.many > 0 {
            reads.step(&step.addresses[..step.many]);
        }
        let WalkTables { pmd, pud } = &mut self.walk_tables;
        for (row, missed) in [pmd, pud].into_iter().zip(missed) {
            if missed && let Some(address) = row.fetch(asid, vpn) {
                reads.background(&[address]);
                reads.count(CWT_REFERENCES, 1);
            }
        }
        debug_assert_eq!(found, mapping.map(|mapping| mapping.order), "XC-3: {asid:?} {vpn:?}");
    }

    fn faulting(&self, asid: Asid, vpn: Vpn, own: &mut OwnCounts) {
        let WalkTables { pmd, pud } = &self.walk_tables;
        let (plan, ..) = self.plan(asid, [pmd.peek(asid, vpn), pud.peek(asid, vpn)]);
        let Some(process) = self.processes.get(&self.scope.owner(asid)) else { return };
        for (read, _) in plan.into_iter().zip(&process.sizes).filter(|(_, table)| table.is_some()) {
            *own.at(FAULT_REFERENCES) += match read {
                Read::Nothing => 0,
                Read::Ways => self.rules.ways as u64,
                Read::Way(_) => 1,
            };
        }
    }

    #[cfg(test)]
    fn bytes(&self) -> u64 {
        let tables = self.processes.values().flat_map(|process| process.sizes.iter().flatten());
        tables.map(T::bytes).sum::<u64>() + self.walk_tables.bytes()
    }

    fn check(&self, mappings: &mut dyn Iterator<Item = Mapping>) {
        let mut many = 0;
        for mapping in mappings {
            let (size, tag, page) = number(mapping);
            let process = &self.processes[&self.scope.owner(mapping.asid)];
            let table = process.sizes[size].as_ref().expect("it has the mapping");
            let held = (0..self.rules.ways).filter(|&way| table.read(&self.rules, way, tag).1 & page != 0);
            assert_eq!(held.count(), 1, "EC-8: {mapping:?}");
            many += 1;
        }
        let tables = self.processes.values().flat_map(|process| process.sizes.iter().flatten());
        let held: u64 = tables.map(|table| table.check(&self.rules)).sum();
        assert_eq!(held, many, "pages in the table, and pages that are mapped");
        self.walk_tables.check(many);
    }
}
