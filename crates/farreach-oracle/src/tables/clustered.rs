//! CL: hashed chains of nodes for blocks of pages (CL-1 to CL-4).

use super::book::{Book, Pages};
use super::{Found, Hash, PlainTable, SIZES};
use std::collections::BTreeMap;

/// Keys of the machine.
#[derive(Clone, Copy, Debug)]
pub struct ClusteredConfig {
    /// `cl_pages`: base pages of a block.
    pub pages: u64,
    /// `cl_buckets`.
    pub buckets: u64,
    /// `cl_inline`: the front node lies in the bucket (OW-16).
    pub inline: bool,
    /// `hash`.
    pub hash: Hash,
    /// `seed`.
    pub seed: u64,
}

impl Default for ClusteredConfig {
    fn default() -> ClusteredConfig {
        ClusteredConfig { pages: 16, buckets: 16384, inline: false, hash: Hash::Mix, seed: 0 }
    }
}

struct Node {
    tag: u64,
    order: u8,
    /// One by page of the block; one alone for a superpage.
    valid: Vec<bool>,
}

/// The tables of a machine.
pub struct Clustered {
    config: ClusteredConfig,
    /// By process: the bucket's chains, the front first.
    tables: BTreeMap<u32, Vec<Vec<Node>>>,
    pages: Pages,
    book: Book,
}

impl Clustered {
    /// Without processes.
    pub fn new(config: ClusteredConfig) -> Clustered {
        Clustered { config, tables: BTreeMap::new(), pages: Pages::default(), book: Book::new(&[]) }
    }

    /// Tag, bucket and slot of the page of this size that has a base page.
    fn at(&self, asid: u32, vpn: u64, order: u8) -> (u64, usize, usize) {
        let first = vpn >> order << order;
        let tag = first / self.config.pages;
        let bucket = self.config.hash.index(asid, tag, self.config.seed, 0, self.config.buckets);
        (tag, bucket as usize, if order == 0 { (first % self.config.pages) as usize } else { 0 })
    }

    /// References, and whether the translation was found (CL-3).
    fn search(&self, asid: u32, vpn: u64, order: u8) -> (u64, bool) {
        let Some(table) = self.tables.get(&asid) else { return (0, false) };
        let (tag, bucket, slot) = self.at(asid, vpn, order);
        let chain = &table[bucket];
        let mut read = u64::from(!self.config.inline || chain.is_empty());
        for node in chain {
            read += 1;
            if (node.tag, node.order) == (tag, order) {
                return (read + u64::from(slot >= 6), node.valid[slot]);
            }
        }
        (read, false)
    }

    fn search_all(&self, asid: u32, vpn: u64) -> (u64, Option<u8>) {
        let mut read = 0;
        for order in SIZES.into_iter().filter(|&order| self.pages.has(asid, order)) {
            let (more, found) = self.search(asid, vpn, order);
            read += more;
            if found {
                return (read, Some(order));
            }
        }
        (read, None)
    }

    fn node_bytes(&self, node: &Node) -> u64 {
        16 + 8 * node.valid.len() as u64
    }

    /// The sum of heads and nodes, and the largest of them.
    pub fn parts(&self) -> (u64, u64) {
        let (mut sum, mut largest) = (0, 0);
        let head = if self.config.inline { 16 + 8 * self.config.pages } else { 8 };
        for table in self.tables.values() {
            let outside = table.iter().flat_map(|chain| chain.iter().skip(usize::from(self.config.inline)));
            let heads = self.config.buckets * head;
            for bytes in outside.map(|node| self.node_bytes(node)).chain([heads]) {
                sum += bytes;
                largest = largest.max(bytes);
            }
        }
        (sum, largest)
    }

    fn measure(&mut self) {
        let (bytes, largest) = self.parts();
        self.book.memory(bytes, largest);
    }
}

impl PlainTable for Clustered {
    fn map(&mut self, asid: u32, vpn: u64, order: u8) {
        for (vpn, order) in self.pages.in_the_way(asid, vpn, order) {
            self.unmap(asid, vpn, order);
        }
        self.pages.add(asid, vpn, order);
        self.book.add("table_writes", 1);
        let (tag, bucket, slot) = self.at(asid, vpn, order);
        let buckets = self.config.buckets;
        let table = self.tables.entry(asid).or_insert_with(|| (0..buckets).map(|_| Vec::new()).collect());
        let chain = &mut table[bucket];
        match chain.iter_mut().find(|node| (node.tag, node.order) == (tag, order)) {
            Some(node) => node.valid[slot] = true,
            None => {
                self.book.add("collisions", u64::from(!chain.is_empty()));
                let mut valid = vec![false; if order == 0 { self.config.pages as usize } else { 1 }];
                valid[slot] = true;
                chain.insert(0, Node { tag, order, valid });
                self.measure();
            }
        }
    }

    fn unmap(&mut self, asid: u32, vpn: u64, order: u8) {
        self.pages.take(asid, vpn, order);
        self.book.add("table_writes", 1);
        let (tag, bucket, slot) = self.at(asid, vpn, order);
        let chain = &mut self.tables.get_mut(&asid).unwrap()[bucket];
        let place = chain.iter().position(|node| (node.tag, node.order) == (tag, order));
        let place = place.expect("a mapped page has a node");
        chain[place].valid[slot] = false;
        if !chain[place].valid.contains(&true) {
            chain.remove(place);
            self.measure();
        }
    }

    fn gone(&mut self, asid: u32) {
        self.pages.end(asid);
        self.tables.remove(&asid);
        self.measure();
    }

    fn switch(&mut self, _to: u32) {}

    fn walk(&mut self, asid: u32, vpn: u64) -> Found {
        let (read, found) = self.search_all(asid, vpn);
        assert!(found.is_some() && found == self.pages.order(asid, vpn), "page {vpn} of {asid}: {found:?}");
        self.book.walk(read, read)
    }

    fn search_absent(&mut self, asid: u32, vpn: u64) -> u64 {
        let (read, found) = self.search_all(asid, vpn);
        assert_eq!((found, self.pages.order(asid, vpn)), (None, None));
        self.book.fault(read)
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.book.all()
    }
}
