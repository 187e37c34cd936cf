//! ME: elastic cuckoo tables of chunks, whose ways grow alone and in place (ME-1 to ME-3).

mod growth;

use super::book::{Book, Pages};
use super::cuckoo::walks::{COUNTERS, Headers};
use super::cuckoo::{CuckooConfig, Entry, split};
use super::{Found, PlainTable, SIZES};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;

/// Sizes of chunks in bytes (ME-1).
pub const CHUNKS: [u64; 4] = [8 << 10, 1 << 20, 8 << 20, 64 << 20];

#[derive(Clone)]
struct Way {
    n: u64,
    /// By place: n of them, or two n if the way grows.
    slots: BTreeMap<u64, Entry>,
    /// The rehash pointer of a way that grows.
    moved: Option<u64>,
}

impl Way {
    /// Chunks and their size.
    fn chunks(&self) -> (u64, u64) {
        let bytes = 64 * if self.moved.is_some() { 2 * self.n } else { self.n };
        let size = CHUNKS.into_iter().find(|size| bytes <= 64 * size).unwrap_or(CHUNKS[3]);
        (bytes.div_ceil(size), size)
    }
}

/// The tables of a machine.
pub struct Mementos {
    config: CuckooConfig,
    tables: BTreeMap<(u32, u8), Vec<Way>>,
    draws: BTreeMap<u32, Pcg64Mcg>,
    headers: Headers,
    pages: Pages,
    book: Book,
}

impl Mementos {
    /// Without processes. The scale is 2, always.
    pub fn new(config: CuckooConfig) -> Mementos {
        assert!(config.ways >= 2);
        Mementos {
            config,
            tables: BTreeMap::new(),
            draws: BTreeMap::new(),
            headers: Headers::new(config.cached_rows),
            pages: Pages::default(),
            book: Book::new(&COUNTERS),
        }
    }

    fn draw(&mut self, asid: u32, n: u64) -> u64 {
        let seed = self.config.seed.wrapping_add(u64::from(asid));
        let rng = self.draws.entry(asid).or_insert_with(|| Pcg64Mcg::seed_from_u64(seed));
        (u64::from(rng.next_u32()) * n) >> 32
    }

    fn ways(&mut self, asid: u32, order: u8) -> &mut Vec<Way> {
        self.tables.get_mut(&(asid, order)).unwrap()
    }

    /// The place of a tag in a way (ME-2).
    fn place_of(&self, asid: u32, order: u8, way: usize, tag: u64) -> u64 {
        let Way { n, moved, .. } = self.tables[&(asid, order)][way];
        let index = |n| self.config.hash.index(asid, tag, self.config.seed, way as u64, n);
        if moved.is_some_and(|pointer| index(n) < pointer) { index(2 * n) } else { index(n) }
    }

    fn find(&self, asid: u32, order: u8, tag: u64) -> Option<usize> {
        let ways = self.tables.get(&(asid, order))?;
        (0..ways.len()).find(|&way| {
            let at = self.place_of(asid, order, way, tag);
            ways[way].slots.get(&at).is_some_and(|entry| entry.tag == tag)
        })
    }

    /// OW-35.
    fn draw_way(&mut self, asid: u32, order: u8) -> usize {
        let free: Vec<u64> =
            self.ways(asid, order).iter().map(|way| way.n.saturating_sub(way.slots.len() as u64)).collect();
        let sum: u64 = free.iter().sum();
        if sum == 0 {
            return self.draw(asid, self.config.ways) as usize;
        }
        let mut drawn = self.draw(asid, sum);
        for (way, free) in free.into_iter().enumerate() {
            if drawn < free {
                return way;
            }
            drawn -= free;
        }
        unreachable!("a number below the sum")
    }

    /// EC-3 with ME-3, of an entry that is in no way, beginning in this way.
    fn place(&mut self, asid: u32, order: u8, entry: Entry, first: usize) {
        let (mut hand, mut way, mut swaps) = (entry, first, 0);
        loop {
            let at = self.place_of(asid, order, way, hand.tag);
            let taken = self.ways(asid, order)[way].slots.contains_key(&at);
            if taken && swaps == self.config.retries {
                self.failed(asid, order);
                (swaps, way) = (0, self.draw_way(asid, order));
                continue;
            }
            let evicted = self.ways(asid, order)[way].slots.insert(at, hand);
            self.headers.settled(asid, order, hand.tag, way as u64);
            let Some(evicted) = evicted else { return };
            self.book.add("collisions", 1);
            (hand, swaps) = (evicted, swaps + 1);
            let other = self.draw(asid, self.config.ways - 1) as usize;
            way = if other < way { other } else { other + 1 };
        }
    }

    fn insert(&mut self, asid: u32, order: u8, entry: Entry) {
        let way = self.draw_way(asid, order);
        let threshold = self.config.threshold;
        let ways = self.ways(asid, order);
        let full = (ways[way].slots.len() + 1) as f64 / ways[way].n as f64 > threshold;
        let smallest = ways.iter().all(|other| other.n >= ways[way].n);
        if full && smallest && ways[way].moved.is_none() {
            self.grow(asid, order, way);
        }
        self.place(asid, order, entry, way);
        for _ in 0..self.config.moves {
            let growing = self.growing(asid, order);
            if !growing.is_empty() {
                let drawn = self.draw(asid, growing.len() as u64) as usize;
                self.advance(asid, order, growing[drawn]);
            }
        }
    }

    /// The sum of chunks and rows, and the largest chunk.
    pub fn parts(&self) -> (u64, u64) {
        let chunks: Vec<_> = self.tables.values().flatten().map(Way::chunks).collect();
        let rows = 64 * self.headers.rows();
        (chunks.iter().map(|c| c.0 * c.1).sum::<u64>() + rows, chunks.iter().map(|c| c.1).max().unwrap_or(0))
    }

    fn measure(&mut self) {
        let (bytes, largest) = self.parts();
        self.book.memory(bytes, largest);
    }
}

impl PlainTable for Mementos {
    fn map(&mut self, asid: u32, vpn: u64, order: u8) {
        for (vpn, order) in self.pages.in_the_way(asid, vpn, order) {
            self.unmap(asid, vpn, order);
        }
        self.book.add("table_writes", 1);
        if !self.pages.add(asid, vpn, order) {
            return;
        }
        let way = Way { n: self.config.entries, slots: BTreeMap::new(), moved: None };
        self.tables.entry((asid, order)).or_insert_with(|| vec![way; self.config.ways as usize]);
        self.headers.page(asid, vpn, order, true);
        let (tag, slot) = split(vpn, order);
        if let Some(way) = self.find(asid, order, tag) {
            let at = self.place_of(asid, order, way, tag);
            self.ways(asid, order)[way].slots.get_mut(&at).unwrap().valid[slot] = true;
        } else {
            let mut valid = [false; 8];
            valid[slot] = true;
            self.insert(asid, order, Entry { tag, valid });
        }
        self.measure();
    }

    fn unmap(&mut self, asid: u32, vpn: u64, order: u8) {
        self.pages.take(asid, vpn, order);
        self.book.add("table_writes", 1);
        self.headers.page(asid, vpn, order, false);
        let (tag, slot) = split(vpn, order);
        let way = self.find(asid, order, tag).expect("a mapped page has an entry");
        let at = self.place_of(asid, order, way, tag);
        let slots = &mut self.ways(asid, order)[way].slots;
        let entry = slots.get_mut(&at).unwrap();
        entry.valid[slot] = false;
        if !entry.valid.contains(&true) {
            slots.remove(&at);
            self.headers.left(asid, order, tag);
        }
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
        assert!(self.find(asid, order, split(vpn, order).0).is_some(), "every mapped page is found");
        let tables = SIZES.into_iter().filter(|&order| self.tables.contains_key(&(asid, order))).count();
        let (kind, references) = self.headers.reads(asid, vpn, self.config.ways, tables as u64);
        self.book.add(kind, 1);
        let fetched = self.headers.fetch(asid, vpn, order, kind);
        self.book.add("cwt_references", fetched);
        self.book.walk(references, 1)
    }

    fn search_absent(&mut self, asid: u32, vpn: u64) -> u64 {
        assert_eq!(self.pages.order(asid, vpn), None);
        let tables = SIZES.into_iter().filter(|&order| self.tables.contains_key(&(asid, order))).count();
        let references = self.headers.reads(asid, vpn, self.config.ways, tables as u64).1;
        self.book.fault(references)
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.book.all()
    }
}
