//! EC: elastic cuckoo page tables (EC-1 to EC-8). [`walks`] has the walk tables and what a walk reads.

mod moves;
pub mod walks;

use super::book::{Book, Pages};
use super::{Found, Hash, PlainTable};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use walks::{COUNTERS, Headers};

/// Keys of the machine.
#[derive(Clone, Copy, Debug)]
pub struct CuckooConfig {
    /// `ec_ways`, at least 2.
    pub ways: u64,
    /// Entries of each way of a new table.
    pub entries: u64,
    /// `ec_retries`: swaps of an insert.
    pub retries: u64,
    /// `ec_threshold`: occupancy above which a table grows.
    pub threshold: f64,
    /// `ec_scale`: by how much it grows.
    pub scale: u64,
    /// `ec_moves`: steps of a resize after an insert.
    pub moves: u64,
    /// `hash`.
    pub hash: Hash,
    /// `seed`.
    pub seed: u64,
    /// Rows of the caches of PMD and PUD walk tables (EC-5).
    pub cached_rows: [usize; 2],
    /// Whether caches know processes (OW-5).
    pub process_ids: bool,
}

impl Default for CuckooConfig {
    fn default() -> CuckooConfig {
        CuckooConfig {
            ways: 3,
            entries: 16384,
            retries: 32,
            threshold: 0.6,
            scale: 2,
            moves: 1,
            hash: Hash::Mix,
            seed: 0,
            cached_rows: [16, 2],
            process_ids: true,
        }
    }
}

/// 64 bytes: eight translations (EC-1).
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Entry {
    pub(super) tag: u64,
    pub(super) valid: [bool; 8],
}

/// Ways of n entries.
struct Ways {
    n: u64,
    slots: Vec<Vec<Option<Entry>>>,
}

impl Ways {
    fn new(ways: u64, n: u64) -> Ways {
        Ways { n, slots: vec![vec![None; n as usize]; ways as usize] }
    }
}

struct Table {
    now: Ways,
    /// The table that a resize makes, and the rehash pointers of the ways.
    next: Option<(Ways, Vec<u64>)>,
    /// Resizes that ended.
    generation: u64,
    /// In all ways.
    entries: u64,
}

/// The tables of a machine.
pub struct Cuckoo {
    config: CuckooConfig,
    tables: BTreeMap<(u32, u8), Table>,
    draws: BTreeMap<u32, Pcg64Mcg>,
    headers: Headers,
    pages: Pages,
    book: Book,
}

/// Tag and slot of a page.
pub(super) fn split(vpn: u64, order: u8) -> (u64, usize) {
    ((vpn >> order) / 8, ((vpn >> order) % 8) as usize)
}

impl Cuckoo {
    /// Without processes.
    pub fn new(config: CuckooConfig) -> Cuckoo {
        assert!(config.ways >= 2);
        Cuckoo {
            config,
            tables: BTreeMap::new(),
            draws: BTreeMap::new(),
            headers: Headers::new(config.cached_rows),
            pages: Pages::default(),
            book: Book::new(&COUNTERS),
        }
    }

    fn table(&mut self, asid: u32, order: u8) -> &mut Table {
        self.tables.get_mut(&(asid, order)).unwrap()
    }

    /// EC-2: where a tag may be in a way, and whether that is in the new table.
    fn route(&self, asid: u32, order: u8, way: u64, tag: u64) -> (bool, usize) {
        let table = &self.tables[&(asid, order)];
        let (d, c) = (self.config.ways, &self.config);
        let number = |generation| if c.hash == Hash::Identity { way } else { way + d * generation };
        let index = |generation, n| c.hash.index(asid, tag, c.seed, number(generation), n);
        let old = index(table.generation, table.now.n);
        match &table.next {
            Some((new, moved)) if old < moved[way as usize] => (true, index(table.generation + 1, new.n) as usize),
            _ => (false, old as usize),
        }
    }

    fn slot(&mut self, asid: u32, order: u8, way: u64, tag: u64) -> &mut Option<Entry> {
        let (new, at) = self.route(asid, order, way, tag);
        let table = self.table(asid, order);
        let ways = if new { &mut table.next.as_mut().unwrap().0 } else { &mut table.now };
        &mut ways.slots[way as usize][at]
    }

    /// The way that has a tag.
    fn find(&self, asid: u32, order: u8, tag: u64) -> Option<u64> {
        let table = self.tables.get(&(asid, order))?;
        (0..self.config.ways).find(|&way| {
            let (new, at) = self.route(asid, order, way, tag);
            let ways = if new { &table.next.as_ref().unwrap().0 } else { &table.now };
            ways.slots[way as usize][at].is_some_and(|entry| entry.tag == tag)
        })
    }

    fn set(&mut self, asid: u32, order: u8, tag: u64, slot: usize, mapped: bool) {
        let way = self.find(asid, order, tag).expect("a mapped page has an entry");
        let place = self.slot(asid, order, way, tag);
        let entry = place.as_mut().unwrap();
        entry.valid[slot] = mapped;
        if !entry.valid.contains(&true) {
            *place = None;
            self.table(asid, order).entries -= 1;
        }
    }

    /// Occupancy of the old ways, with this many entries more.
    fn occupancy(&self, asid: u32, order: u8, more: u64) -> f64 {
        let table = &self.tables[&(asid, order)];
        (table.entries + more) as f64 / (self.config.ways * table.now.n) as f64
    }

    /// The sum of tables and rows, and the largest way.
    pub fn parts(&self) -> (u64, u64) {
        let all = self.tables.values().flat_map(|t| t.next.iter().map(|next| &next.0).chain([&t.now]));
        let ways: Vec<u64> = all.flat_map(|ways| &ways.slots).map(|way| 64 * way.len() as u64).collect();
        (ways.iter().sum::<u64>() + 64 * self.headers.rows(), ways.into_iter().max().unwrap_or(0))
    }

    fn measure(&mut self) {
        let (bytes, largest) = self.parts();
        self.book.memory(bytes, largest);
    }
}

impl PlainTable for Cuckoo {
    fn map(&mut self, asid: u32, vpn: u64, order: u8) {
        for (vpn, order) in self.pages.in_the_way(asid, vpn, order) {
            self.unmap(asid, vpn, order);
        }
        self.book.add("table_writes", 1);
        if !self.pages.add(asid, vpn, order) {
            return;
        }
        let (c, (tag, slot)) = (self.config, split(vpn, order));
        let new = || Table { now: Ways::new(c.ways, c.entries), next: None, generation: 0, entries: 0 };
        self.tables.entry((asid, order)).or_insert_with(new);
        self.headers.page(asid, vpn, order, true);
        self.measure();
        if self.find(asid, order, tag).is_some() {
            self.set(asid, order, tag, slot, true);
        } else {
            if self.table(asid, order).next.is_none() && self.occupancy(asid, order, 1) > c.threshold {
                let n = self.table(asid, order).now.n * c.scale;
                self.begin(asid, order, n);
            }
            let mut valid = [false; 8];
            valid[slot] = true;
            self.table(asid, order).entries += 1;
            self.place(asid, order, Entry { tag, valid });
            (0..c.moves).for_each(|_| self.step(asid, order));
        }
        self.measure();
    }

    fn unmap(&mut self, asid: u32, vpn: u64, order: u8) {
        self.pages.take(asid, vpn, order);
        self.book.add("table_writes", 1);
        let (tag, slot) = split(vpn, order);
        self.set(asid, order, tag, slot, false);
        let table = self.table(asid, order);
        let (n, free) = (table.now.n, table.next.is_none());
        if self.find(asid, order, tag).is_none() {
            self.headers.left(asid, order, tag);
            if free && n > self.config.entries && self.occupancy(asid, order, 0) < 0.2 {
                self.begin(asid, order, n / 2);
            }
        }
        // Rows are freed last.
        self.headers.page(asid, vpn, order, false);
        self.measure();
    }

    fn gone(&mut self, asid: u32) {
        self.pages.end(asid);
        self.tables.retain(|key, _| key.0 != asid);
        self.draws.remove(&asid);
        self.headers.end(asid);
        self.measure();
    }

    fn switch(&mut self, _to: u32) {
        if !self.config.process_ids {
            self.headers.forget();
        }
    }

    fn walk(&mut self, asid: u32, vpn: u64) -> Found {
        let order = self.pages.order(asid, vpn).expect("the page is mapped");
        self.walk_to(asid, vpn, order)
    }

    fn search_absent(&mut self, asid: u32, vpn: u64) -> u64 {
        assert_eq!(self.pages.order(asid, vpn), None);
        let references = self.reads(asid, vpn).1;
        self.book.fault(references)
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.book.all()
    }
}
