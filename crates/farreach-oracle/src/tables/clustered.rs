//! CL: hashed chains of nodes for blocks of pages (CL-1 to CL-4).

use super::book::{Book, Pages};
use super::nested::{Line, Lines, Piece, Reads};
use super::{Found, Hash, PlainTable};
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
    large: bool,
    /// One by page of the block; one alone in a superpage.
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

    /// The bucket of a block.
    fn bucket(&self, asid: u32, tag: u64) -> usize {
        self.config.hash.index(asid, tag, self.config.seed, 0, self.config.buckets) as usize
    }

    /// References, those to nodes of other blocks, and whether the translation was found (CL-3).
    fn search(&self, asid: u32, vpn: u64) -> (u64, u64, bool) {
        let Some(table) = self.tables.get(&asid) else { return (0, 0, false) };
        let tag = vpn / self.config.pages;
        let chain = &table[self.bucket(asid, tag)];
        let mut read = u64::from(!self.config.inline || chain.is_empty());
        for (others, node) in chain.iter().enumerate() {
            read += 1;
            if node.tag == tag {
                let slot = if node.large { 0 } else { vpn % self.config.pages };
                return (read + u64::from(slot >= 6), others as u64, node.valid[slot as usize]);
            }
        }
        (read, chain.len() as u64, false)
    }

    /// OW-14: blocks of a page or superpage.
    fn blocks(&self, vpn: u64, order: u8) -> std::ops::RangeInclusive<u64> {
        vpn / self.config.pages..=(vpn + (1 << order) - 1) / self.config.pages
    }

    fn set(&mut self, asid: u32, tag: u64, slot: usize, large: bool) {
        self.book.add("table_writes", 1);
        let (buckets, bucket) = (self.config.buckets, self.bucket(asid, tag));
        let table = self.tables.entry(asid).or_insert_with(|| (0..buckets).map(|_| Vec::new()).collect());
        let chain = &mut table[bucket];
        match chain.iter_mut().find(|node| node.tag == tag) {
            Some(node) => node.valid[slot] = true,
            None => {
                let mut valid = vec![false; if large { 1 } else { self.config.pages as usize }];
                valid[slot] = true;
                chain.insert(0, Node { tag, large, valid });
                self.measure();
            }
        }
    }

    fn clear(&mut self, asid: u32, tag: u64, slot: usize) {
        self.book.add("table_writes", 1);
        let bucket = self.bucket(asid, tag);
        let chain = &mut self.tables.get_mut(&asid).unwrap()[bucket];
        let place = chain.iter().position(|node| node.tag == tag).expect("a mapped page has a node");
        chain[place].valid[slot] = false;
        if !chain[place].valid.contains(&true) {
            chain.remove(place);
            self.measure();
        }
    }

    fn slot(&self, vpn: u64, order: u8) -> usize {
        if order == 0 { (vpn % self.config.pages) as usize } else { 0 }
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
        for tag in self.blocks(vpn, order) {
            self.set(asid, tag, self.slot(vpn, order), order > 0);
        }
    }

    fn unmap(&mut self, asid: u32, vpn: u64, order: u8) {
        self.pages.take(asid, vpn, order);
        for tag in self.blocks(vpn, order) {
            self.clear(asid, tag, self.slot(vpn, order));
        }
    }

    fn gone(&mut self, asid: u32) {
        self.pages.end(asid);
        self.tables.remove(&asid);
        self.measure();
    }

    fn switch(&mut self, _to: u32) {}

    fn walk(&mut self, asid: u32, vpn: u64) -> Found {
        let (read, others, found) = self.search(asid, vpn);
        assert!(found && self.pages.order(asid, vpn).is_some(), "page {vpn} of {asid}");
        self.book.add("collisions", others);
        self.book.walk(read, read)
    }

    fn search_absent(&mut self, asid: u32, vpn: u64) -> u64 {
        let (read, _, found) = self.search(asid, vpn);
        assert_eq!((found, self.pages.order(asid, vpn)), (false, None));
        self.book.fault(read)
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.book.all()
    }
}

impl Lines for Clustered {
    fn lines(&self, asid: u32, vpn: u64) -> Reads {
        let mut reads = Reads::default();
        let Some(table) = self.tables.get(&asid) else { return reads };
        let (tag, inline) = (vpn / self.config.pages, self.config.inline);
        let bucket = self.bucket(asid, tag);
        let head = if inline { 16 + 8 * self.config.pages } else { 8 };
        let heads = Piece { asid, part: 0, number: 0, bytes: self.config.buckets * head };
        let first = Line { piece: heads, offset: bucket as u64 * head };
        let mut read = |line| reads.steps.push(vec![line]);
        if !inline || table[bucket].is_empty() {
            read(first);
        }
        for (place, node) in table[bucket].iter().enumerate() {
            let own = Piece { asid, part: 1, number: node.tag, bytes: self.node_bytes(node) };
            let header = if inline && place == 0 { first } else { Line { piece: own, offset: 0 } };
            read(header);
            if node.tag == tag {
                let slot = if node.large { 0 } else { vpn % self.config.pages };
                if slot >= 6 {
                    read(Line { offset: header.offset + 16 + 8 * slot, ..header });
                }
                break;
            }
        }
        reads
    }
}
