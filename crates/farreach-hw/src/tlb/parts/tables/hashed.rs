//! A hashed page table with open addressing (HT; Yaniv and Tsafrir, SIGMETRICS 2016): a bucket is one line with the
//! entries of eight pages in a row, and the search goes on from bucket to bucket until it meets the tag or an empty
//! one.

use super::memory::{COLLISIONS, LINE, MOVES, ORDERS, OWN, RESIZES, WRITES, counted, gave, took};
use super::{ListedTable, Mapping, Places, Reads, Scope, TABLE_SCOPE, Table, mix};
use crate::tlb::parts::additions::Counter;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::counts::OwnCounts;
use farreach_types::params::{Allowed, Key, Params, SEED};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// HT-5.
pub const HT_BUCKETS: Key = Key {
    name: "ht_buckets",
    default: "65536",
    allowed: Allowed::PowerOfTwo { min: 1, max: 1 << 30 },
    about: "table = hashed: buckets at first, each of 64 bytes for eight pages",
};
/// HT-5.
pub const HT_LOAD: Key = Key {
    name: "ht_load",
    default: "0.6",
    allowed: Allowed::Number { min: 0.01, max: 0.99 },
    about: "table = hashed: share of buckets in use beyond which the table doubles",
};
/// HT-6.
pub const HT_SIZES: Key = Key {
    name: "ht_sizes",
    default: "used",
    allowed: Allowed::OneOf(&["used", "all"]),
    about: "table = hashed: page sizes that a walk searches: used: those that the process has pages of; all: all, \
            each in a table that the process has from its first page on",
};
/// HT-6.
pub const HT_ORDER: Key = Key {
    name: "ht_order",
    default: "4K+2M+1G",
    allowed: Allowed::Texts,
    about: "table = hashed: the order in which a walk searches the page sizes; all three, each once",
};
/// HW-11.
pub const HT_HASH: Key = Key {
    name: "ht_hash",
    default: "mix",
    allowed: Allowed::OneOf(&["mix", "identity"]),
    about: "table = hashed: how a bucket is found: by mixed bits, or by the low bits of the tag, for hand-made tests",
};

/// The table as the registry knows it.
pub const LISTED: ListedTable = ListedTable {
    name: "hashed",
    about: "a hash table with open addressing, eight pages to a line (HT)",
    keys: &[&HT_BUCKETS, &HT_LOAD, &HT_SIZES, &HT_ORDER, &HT_HASH, &TABLE_SCOPE],
    counters: counted! {
        moves: "buckets that were moved by that",
        collisions: "buckets of demand walks that had other pages",
        Counter::new("fault_references", "references of walks that ended in a page fault, in no other count"),
    },
    in_guests: true,
    build: |params, _| Ok(Box::new(Hashed::new(params)?)),
    ..ListedTable::NEW
};

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Bucket {
    #[default]
    Empty,
    /// All its pages went (HT-4).
    Tombstone,
    /// Eight pages of a process with this number (HT-1), and which of them are mapped.
    Live { asid: Asid, tag: u64, pages: u8 },
}

/// The table of a page size, of one process or all.
struct Buckets {
    base: u64,
    buckets: Vec<Bucket>,
    live: usize,
    tombstones: usize,
}

/// See the module.
struct Hashed {
    scope: Scope,
    /// By owner and order.
    tables: HashMap<(Asid, u8), Buckets, FixedState>,
    places: Places,
    first: usize,
    load: f64,
    all_sizes: bool,
    /// In the order in which they are searched.
    orders: [u8; 3],
    identity: bool,
    seed: u64,
}

/// The orders of [`HT_ORDER`].
fn orders(params: &Params) -> Result<[u8; 3], String> {
    let texts = params.texts(HT_ORDER.name);
    let place = |name: &str| texts.iter().position(|text| text == name);
    let places = ["4K", "2M", "1G"].map(place);
    let mut orders = [0; 3];
    for (place, order) in places.into_iter().zip(ORDERS) {
        let (Some(place), 3) = (place, texts.len()) else {
            let (name, given) = (HT_ORDER.name, texts.join("+"));
            return Err(format!("{name} = {given} is not allowed: {name} must have 4K, 2M and 1G, each once"));
        };
        orders[place] = order;
    }
    Ok(orders)
}

impl Buckets {
    fn new(many: usize, places: &mut Places) -> Buckets {
        Buckets {
            base: places.take(many as u64 * LINE, LINE),
            buckets: vec![Bucket::Empty; many],
            live: 0,
            tombstones: 0,
        }
    }

    fn bytes(&self) -> u64 {
        self.buckets.len() as u64 * LINE
    }

    /// The bucket with the tag (HT-2), or the empty one at which the search ends; passes on each that is read.
    fn search(&self, start: usize, (asid, tag): (Asid, u64), mut read: impl FnMut(u64)) -> Option<usize> {
        for i in 0..self.buckets.len() {
            let at = (start + i) & (self.buckets.len() - 1);
            read(self.base + at as u64 * LINE);
            match self.buckets[at] {
                Bucket::Live { asid: whose, tag: of, .. } if of == tag && whose == asid => return Some(at),
                Bucket::Empty => return None,
                _ => {}
            }
        }
        None
    }

    /// Puts a tag that is not there into the first bucket that is free (HT-3).
    fn put(&mut self, start: usize, (asid, tag): (Asid, u64), pages: u8) {
        let at = (0..self.buckets.len())
            .map(|i| (start + i) & (self.buckets.len() - 1))
            .find(|&at| !matches!(self.buckets[at], Bucket::Live { .. }))
            .expect("the table is never full");
        self.tombstones -= usize::from(self.buckets[at] == Bucket::Tombstone);
        self.live += 1;
        self.buckets[at] = Bucket::Live { asid, tag, pages };
    }
}

impl Hashed {
    fn new(params: &Params) -> Result<Hashed, String> {
        Ok(Hashed {
            scope: Scope::of(params),
            tables: HashMap::default(),
            places: Places::of(params),
            first: params.int(HT_BUCKETS.name) as usize,
            load: params.number(HT_LOAD.name),
            all_sizes: params.text(HT_SIZES.name) == "all",
            orders: orders(params)?,
            identity: params.text(HT_HASH.name) == "identity",
            seed: params.int(SEED.name),
        })
    }

    /// Where the search for a tag starts among this many buckets.
    fn start(&self, asid: Asid, tag: u64, many: usize) -> usize {
        let hash = if self.identity { tag } else { mix(u64::from(asid.0) << 52 ^ tag, self.seed) };
        hash as usize & (many - 1)
    }

    /// The table of a size that a walk searches, if it does (HT-6).
    fn searched(&self, asid: Asid, order: u8) -> Option<&Buckets> {
        let table = self.tables.get(&(self.scope.owner(asid), order))?;
        (table.live > 0 || self.all_sizes).then_some(table)
    }

    fn number(mapping: Mapping) -> (u64, u8) {
        let page = mapping.vpn.0 >> mapping.order;
        (page / 8, 1 << (page % 8))
    }

    /// HT-5: doubles a table as long as its used buckets are too many.
    fn grow(&mut self, owner: Asid, order: u8, own: &mut OwnCounts) {
        let is_full =
            |table: &Buckets, load| (table.live + table.tombstones) as f64 > load * table.buckets.len() as f64;
        while is_full(&self.tables[&(owner, order)], self.load) {
            self.double(owner, order, own);
        }
    }

    fn double(&mut self, owner: Asid, order: u8, own: &mut OwnCounts) {
        let table = &self.tables[&(owner, order)];
        let many = table.buckets.len();
        let mut larger = Buckets::new(many * 2, &mut self.places);
        for bucket in &table.buckets {
            if let Bucket::Live { asid, tag, pages } = *bucket {
                larger.put(self.start(asid, tag, many * 2), (asid, tag), pages);
            }
        }
        *own.at(RESIZES) += 1;
        *own.at(MOVES) += larger.live as u64;
        let (old, new) = (table.bytes(), larger.bytes());
        self.tables.insert((owner, order), larger);
        took(own, new);
        gave(own, old);
    }
}

impl Table for Hashed {
    fn map(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        let Mapping { asid, order, .. } = mapping;
        let owner = self.scope.owner(asid);
        let (tag, page) = Hashed::number(mapping);
        for of in ORDERS {
            if (of == order || self.all_sizes) && !self.tables.contains_key(&(owner, of)) {
                let new = Buckets::new(self.first, &mut self.places);
                took(own, new.bytes());
                self.tables.insert((owner, of), new);
            }
        }
        *own.at(WRITES) += 1;
        let start = self.start(asid, tag, self.tables[&(owner, order)].buckets.len());
        let table = self.tables.get_mut(&(owner, order)).expect("it was just made");
        match table.search(start, (asid, tag), |_| ()) {
            Some(at) => {
                let Bucket::Live { pages, .. } = &mut table.buckets[at] else { unreachable!("it has the tag") };
                *pages |= page;
            }
            None => {
                table.put(start, (asid, tag), page);
                self.grow(owner, order, own);
            }
        }
    }

    fn unmap(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        let (tag, page) = Hashed::number(mapping);
        *own.at(WRITES) += 1;
        let owner = self.scope.owner(mapping.asid);
        let many = self.tables[&(owner, mapping.order)].buckets.len();
        let start = self.start(mapping.asid, tag, many);
        let table = self.tables.get_mut(&(owner, mapping.order)).expect("it has the mapping");
        let at = table.search(start, (mapping.asid, tag), |_| ()).expect("it has the mapping");
        let Bucket::Live { pages, .. } = &mut table.buckets[at] else { unreachable!("it has the tag") };
        *pages &= !page;
        if *pages == 0 {
            table.buckets[at] = Bucket::Tombstone;
            table.live -= 1;
            table.tombstones += 1;
        }
    }

    fn gone(&mut self, asid: Asid, own: &mut OwnCounts) {
        // A table of all stays.
        for order in ORDERS.into_iter().filter(|_| self.scope == Scope::Process) {
            if let Some(table) = self.tables.remove(&(asid, order)) {
                gave(own, table.bytes());
            }
        }
    }

    /// There is no walk cache (HT-7).
    fn walk(&mut self, asid: Asid, vpn: Vpn, mapping: Option<Mapping>, reads: &mut Reads) {
        for order in self.orders {
            let Some(table) = self.searched(asid, order) else { continue };
            let page = vpn.0 >> order;
            let tag = page / 8;
            let start = self.start(asid, tag, table.buckets.len());
            let mut many = 0;
            let found = table.search(start, (asid, tag), |address| {
                many += 1;
                reads.step(&[address]);
            });
            reads.count(COLLISIONS, many - 1);
            if let Some(at) = found
                && let Bucket::Live { pages, .. } = table.buckets[at]
                && pages >> (page % 8) & 1 != 0
            {
                debug_assert_eq!(mapping.map(|m| m.order), Some(order), "XC-3: {asid:?} {vpn:?}");
                return;
            }
        }
        debug_assert_eq!(mapping, None, "XC-3: {asid:?} {vpn:?} is mapped, and the walk did not find it");
    }

    fn faulting(&self, asid: Asid, vpn: Vpn, own: &mut OwnCounts) {
        for order in self.orders {
            let Some(table) = self.searched(asid, order) else { continue };
            let tag = (vpn.0 >> order) / 8;
            let start = self.start(asid, tag, table.buckets.len());
            table.search(start, (asid, tag), |_| *own.at(OWN) += 1);
        }
    }

    #[cfg(test)]
    fn bytes(&self) -> u64 {
        self.tables.values().map(Buckets::bytes).sum()
    }

    fn check(&self, mappings: &mut dyn Iterator<Item = Mapping>) {
        let mut many = 0;
        for mapping in mappings {
            let table = &self.tables[&(self.scope.owner(mapping.asid), mapping.order)];
            let (tag, page) = Hashed::number(mapping);
            let start = self.start(mapping.asid, tag, table.buckets.len());
            let found = table.search(start, (mapping.asid, tag), |_| ());
            let at = found.unwrap_or_else(|| panic!("{mapping:?} is not found"));
            assert!(matches!(table.buckets[at], Bucket::Live { pages, .. } if pages & page != 0), "{mapping:?}");
            many += 1;
        }
        let pages = |bucket: &Bucket| if let Bucket::Live { pages, .. } = bucket { pages.count_ones() } else { 0 };
        let held: u32 = self.tables.values().flat_map(|table| &table.buckets).map(pages).sum();
        assert_eq!(held, many, "pages in the table, and pages that are mapped");
    }
}

#[cfg(test)]
mod tests;
