//! HT: hash tables with open addressing (HT-1 to HT-7).

use super::book::{Book, Pages};
use super::nested::{Line, Lines, Piece, Reads};
use super::{Found, Hash, PlainTable, SIZES};
use std::collections::BTreeMap;

/// Keys of the machine.
#[derive(Clone, Debug)]
pub struct HashedConfig {
    /// `ht_buckets`: buckets of a new table.
    pub buckets: u64,
    /// `ht_load`: share of buckets that are not empty above which a table doubles.
    pub load: f64,
    /// `ht_order`: orders in which sizes are searched.
    pub order: Vec<u8>,
    /// `ht_sizes=all`: sizes without pages are searched too.
    pub all_sizes: bool,
    /// `hash`.
    pub hash: Hash,
    /// `seed`.
    pub seed: u64,
}

impl Default for HashedConfig {
    fn default() -> HashedConfig {
        HashedConfig { buckets: 65536, load: 0.6, order: SIZES.to_vec(), all_sizes: false, hash: Hash::Mix, seed: 0 }
    }
}

/// 64 bytes (HT-1).
#[derive(Clone, PartialEq, Debug)]
enum Bucket {
    Empty,
    Tombstone,
    Live { tag: u64, valid: [bool; 8] },
}

struct Table {
    buckets: Vec<Bucket>,
    /// Those that are not empty.
    taken: u64,
}

impl Table {
    fn new(buckets: u64) -> Table {
        Table { buckets: vec![Bucket::Empty; buckets as usize], taken: 0 }
    }

    fn len(&self) -> u64 {
        self.buckets.len() as u64
    }
}

/// The tables of a machine.
pub struct Hashed {
    config: HashedConfig,
    /// By process and order.
    tables: BTreeMap<(u32, u8), Table>,
    pages: Pages,
    book: Book,
}

/// Tag and slot of a page.
fn split(vpn: u64, order: u8) -> (u64, usize) {
    ((vpn >> order) / 8, ((vpn >> order) % 8) as usize)
}

impl Hashed {
    /// Without processes.
    pub fn new(config: HashedConfig) -> Hashed {
        Hashed { config, tables: BTreeMap::new(), pages: Pages::default(), book: Book::new(&[]) }
    }

    /// Buckets in the order of a search for this tag.
    fn probes(&self, asid: u32, tag: u64, buckets: u64) -> impl Iterator<Item = usize> + use<> {
        let first = self.config.hash.index(asid, tag, self.config.seed, 0, buckets);
        (0..buckets).map(move |i| ((first + i) % buckets) as usize)
    }

    /// HT-2 in one table: buckets read, and whether the translation was found.
    fn search(&self, asid: u32, vpn: u64, order: u8) -> (u64, bool) {
        let (tag, slot) = split(vpn, order);
        let Some(table) = self.tables.get(&(asid, order)) else { return (0, false) };
        let mut read = 0;
        for at in self.probes(asid, tag, table.len()) {
            read += 1;
            match &table.buckets[at] {
                Bucket::Empty => return (read, false),
                Bucket::Live { tag: held, valid } if *held == tag => return (read, valid[slot]),
                _ => {}
            }
        }
        (read, false)
    }

    /// HT-6: buckets read, those of them that were not the last of a search, and the size that was found.
    fn search_all(&self, asid: u32, vpn: u64) -> (u64, u64, Option<u8>) {
        let (mut read, mut others) = (0, 0);
        for &order in &self.config.order {
            if !self.config.all_sizes && !self.pages.has(asid, order) {
                continue;
            }
            let (more, found) = self.search(asid, vpn, order);
            read += more;
            others += more.saturating_sub(1);
            if found {
                return (read, others, Some(order));
            }
        }
        (read, others, None)
    }

    /// HT-3 of a new tag: where it goes.
    fn place(&self, asid: u32, order: u8, tag: u64) -> usize {
        let table = &self.tables[&(asid, order)];
        let mut tombstone = None;
        for at in self.probes(asid, tag, table.len()) {
            match table.buckets[at] {
                Bucket::Empty => return tombstone.unwrap_or(at),
                Bucket::Tombstone => tombstone = tombstone.or(Some(at)),
                Bucket::Live { .. } => {}
            }
        }
        tombstone.expect("a table has room")
    }

    fn bucket(&self, asid: u32, order: u8, tag: u64) -> Option<usize> {
        let table = self.tables.get(&(asid, order))?;
        for at in self.probes(asid, tag, table.len()) {
            match table.buckets[at] {
                Bucket::Empty => return None,
                Bucket::Live { tag: held, .. } if held == tag => return Some(at),
                _ => {}
            }
        }
        None
    }

    fn insert(&mut self, asid: u32, order: u8, tag: u64, valid: [bool; 8]) -> usize {
        let at = self.place(asid, order, tag);
        let table = self.tables.get_mut(&(asid, order)).unwrap();
        table.taken += u64::from(table.buckets[at] == Bucket::Empty);
        table.buckets[at] = Bucket::Live { tag, valid };
        at
    }

    /// HT-5.
    fn double(&mut self, asid: u32, order: u8) {
        let old = self.tables.remove(&(asid, order)).unwrap();
        self.tables.insert((asid, order), Table::new(2 * old.len()));
        self.book.add("resizes", 1);
        // OW-3.
        let (bytes, largest) = self.parts();
        self.book.memory(bytes + 64 * old.len(), largest);
        for bucket in old.buckets {
            if let Bucket::Live { tag, valid } = bucket {
                self.book.add("moves", 1);
                self.insert(asid, order, tag, valid);
            }
        }
    }

    /// The sum of the tables, and the largest.
    pub fn parts(&self) -> (u64, u64) {
        let bytes = |table: &Table| 64 * table.len();
        (self.tables.values().map(bytes).sum(), self.tables.values().map(bytes).max().unwrap_or(0))
    }

    fn measure(&mut self) {
        let (bytes, largest) = self.parts();
        self.book.memory(bytes, largest);
    }

    /// Share of the buckets of a table that hold translations.
    pub fn load(&self, asid: u32, order: u8) -> f64 {
        let buckets = &self.tables[&(asid, order)].buckets;
        buckets.iter().filter(|b| matches!(b, Bucket::Live { .. })).count() as f64 / buckets.len() as f64
    }
}

impl PlainTable for Hashed {
    fn map(&mut self, asid: u32, vpn: u64, order: u8) {
        for (vpn, order) in self.pages.in_the_way(asid, vpn, order) {
            self.unmap(asid, vpn, order);
        }
        self.pages.add(asid, vpn, order);
        self.book.add("table_writes", 1);
        let sizes = if self.config.all_sizes { SIZES.to_vec() } else { vec![order] };
        for size in sizes {
            self.tables.entry((asid, size)).or_insert_with(|| Table::new(self.config.buckets));
        }
        let (tag, slot) = split(vpn, order);
        let at = match self.bucket(asid, order, tag) {
            Some(at) => at,
            None => self.insert(asid, order, tag, [false; 8]),
        };
        let table = self.tables.get_mut(&(asid, order)).unwrap();
        if let Bucket::Live { valid, .. } = &mut table.buckets[at] {
            valid[slot] = true;
        }
        let mut full = table.taken as f64 > self.config.load * table.len() as f64;
        while full {
            self.double(asid, order);
            let table = &self.tables[&(asid, order)];
            full = table.taken as f64 > self.config.load * table.len() as f64;
        }
        self.measure();
    }

    fn unmap(&mut self, asid: u32, vpn: u64, order: u8) {
        self.pages.take(asid, vpn, order);
        self.book.add("table_writes", 1);
        let (tag, slot) = split(vpn, order);
        let at = self.bucket(asid, order, tag).expect("a mapped page is in its table");
        let bucket = &mut self.tables.get_mut(&(asid, order)).unwrap().buckets[at];
        if let Bucket::Live { valid, .. } = bucket {
            valid[slot] = false;
            if !valid.contains(&true) {
                *bucket = Bucket::Tombstone;
            }
        }
    }

    fn gone(&mut self, asid: u32) {
        self.pages.end(asid);
        self.tables.retain(|key, _| key.0 != asid);
        self.measure();
    }

    fn switch(&mut self, _to: u32) {}

    fn walk(&mut self, asid: u32, vpn: u64) -> Found {
        let (read, others, found) = self.search_all(asid, vpn);
        self.book.add("collisions", others);
        assert!(found.is_some() && found == self.pages.order(asid, vpn), "page {vpn} of {asid}: {found:?}");
        self.book.walk(read, read)
    }

    fn search_absent(&mut self, asid: u32, vpn: u64) -> u64 {
        let (read, _, found) = self.search_all(asid, vpn);
        assert_eq!((found, self.pages.order(asid, vpn)), (None, None));
        self.book.fault(read)
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.book.all()
    }
}

impl Lines for Hashed {
    fn lines(&self, asid: u32, vpn: u64) -> Reads {
        let mut reads = Reads::default();
        for &order in &self.config.order {
            let skipped = !self.config.all_sizes && !self.pages.has(asid, order);
            let Some(table) = self.tables.get(&(asid, order)).filter(|_| !skipped) else { continue };
            let (read, found) = self.search(asid, vpn, order);
            let probes = self.probes(asid, split(vpn, order).0, table.len()).take(read as usize);
            let piece = Piece { asid, part: order.into(), number: table.len(), bytes: 64 * table.len() };
            reads.steps.extend(probes.map(|at| vec![Line { piece, offset: 64 * at as u64 }]));
            if found {
                break;
            }
        }
        reads
    }
}
