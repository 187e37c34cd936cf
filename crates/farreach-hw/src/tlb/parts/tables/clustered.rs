//! A clustered page table (CL; Talluri, Hill and Khalidi, SOSP 1995): hashed by blocks of pages in a row. A node has
//! the mappings of a block. Where a superpage covers the block, the node has one mapping, and every block of the
//! superpage has such a node.

use super::memory::{COLLISIONS, LINE, PTE, WRITES, counted, gave, took};
use super::{ListedTable, Mapping, Places, Reads, Table, mix};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::counts::OwnCounts;
use farreach_types::params::{Allowed, Key, Params, SEED};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// CL-1.
pub const CL_PAGES: Key = Key {
    name: "cl_pages",
    default: "16",
    allowed: Allowed::PowerOfTwo { min: 1, max: 64 },
    about: "table = clustered: base pages of a block, whose mappings are in one node",
};
/// CL-4.
pub const CL_BUCKETS: Key = Key {
    name: "cl_buckets",
    default: "16384",
    allowed: Allowed::PowerOfTwo { min: 1, max: 1 << 28 },
    about: "table = clustered: buckets of each process",
};
/// CL-3.
pub const CL_INLINE: Key = Key {
    name: "cl_inline",
    default: "false",
    allowed: Allowed::Flag,
    about: "table = clustered: a bucket is the first node of its chain, and not a pointer to it",
};

/// The table as the registry knows it.
pub const LISTED: ListedTable = ListedTable {
    name: "clustered",
    about: "a hash table with chains of nodes, each with the mappings of a block of pages (CL)",
    keys: &[&CL_PAGES, &CL_BUCKETS, &CL_INLINE],
    counters: counted! {
        moves: "none here",
        collisions: "nodes of demand walks that had another block",
    },
    in_guests: true,
    build: |params, _| Ok(Box::new(Clustered::new(params))),
    ..ListedTable::NEW
};

/// Bytes of tag and link of a node.
const HEADER: u64 = 16;

/// A node of a chain.
struct Node {
    block: u64,
    /// Its address, if it is not in the bucket.
    at: u64,
    /// The pages that are mapped; `None`: one superpage has them all.
    pages: Option<u64>,
}

/// The table of one process.
struct Buckets {
    base: u64,
    /// The newest node last.
    chains: Vec<Vec<Node>>,
}

/// See the module.
struct Clustered {
    tables: HashMap<Asid, Buckets, FixedState>,
    places: Places,
    /// Addresses of nodes that went: of those for pages, and of those for superpages.
    free: [Vec<u64>; 2],
    /// log2 of the pages of a block.
    shift: u8,
    buckets: usize,
    is_inline: bool,
    seed: u64,
}

impl Clustered {
    fn new(params: &Params) -> Clustered {
        Clustered {
            tables: HashMap::default(),
            places: Places::of(params),
            free: [Vec::new(), Vec::new()],
            shift: params.int(CL_PAGES.name).trailing_zeros() as u8,
            buckets: params.int(CL_BUCKETS.name) as usize,
            is_inline: params.flag(CL_INLINE.name),
            seed: params.int(SEED.name),
        }
    }

    fn bucket(&self, asid: Asid, block: u64) -> usize {
        mix(u64::from(asid.0) << 52 ^ block, self.seed) as usize & (self.buckets - 1)
    }

    /// Bytes of a node (CL-1, CL-2).
    fn node_bytes(&self, is_super: bool) -> u64 {
        HEADER + if is_super { PTE } else { PTE << self.shift }
    }

    /// Bytes of the buckets of a process.
    fn bucket_bytes(&self) -> u64 {
        self.buckets as u64 * if self.is_inline { self.node_bytes(false) } else { PTE }
    }

    /// The blocks of a mapping, one if it is a page.
    fn blocks(&self, mapping: Mapping) -> std::ops::Range<u64> {
        let first = mapping.vpn.0 >> self.shift;
        first..first + (1 << mapping.order.saturating_sub(self.shift))
    }

    fn slot(&self, vpn: Vpn) -> u64 {
        vpn.offset_in(self.shift.into())
    }

    /// Adds a mapping to a block.
    fn add(&mut self, asid: Asid, block: u64, page: Option<u64>, own: &mut OwnCounts) {
        let bucket = self.bucket(asid, block);
        let bytes = self.node_bytes(page.is_none());
        let chain = &mut self.tables.get_mut(&asid).expect("it was just made").chains[bucket];
        *own.at(WRITES) += 1;
        if let Some(node) = chain.iter_mut().find(|node| node.block == block) {
            let pages = node.pages.as_mut().expect("a superpage covers its block alone");
            *pages |= page.expect("a superpage covers its block alone");
            return;
        }
        let at = self.free[usize::from(page.is_none())].pop().unwrap_or_else(|| self.places.take(bytes, LINE));
        chain.push(Node { block, at, pages: page });
        // The first node of a chain can be in the bucket. Then the one that was there gets memory.
        let outside = match (self.is_inline, chain.len()) {
            (false, _) => Some(bytes),
            (true, 1) => None,
            (true, many) => {
                let pages = chain[many - 2].pages;
                Some(self.node_bytes(pages.is_none()))
            }
        };
        if let Some(bytes) = outside {
            took(own, bytes);
        }
    }

    /// Removes a mapping from a block.
    fn remove(&mut self, asid: Asid, block: u64, page: Option<u64>, own: &mut OwnCounts) {
        let bucket = self.bucket(asid, block);
        let chain = &mut self.tables.get_mut(&asid).expect("it has the mapping").chains[bucket];
        *own.at(WRITES) += 1;
        let at = chain.iter().position(|node| node.block == block).expect("it has the mapping");
        if let (Some(pages), Some(page)) = (&mut chain[at].pages, page) {
            *pages &= !page;
            if *pages != 0 {
                return;
            }
        }
        let is_first = at + 1 == chain.len();
        let node = chain.remove(at);
        let behind = chain.last().map(|node| node.pages.is_none());
        let is_super = page.is_none();
        self.free[usize::from(is_super)].push(node.at);
        // The next one moves into the bucket, and out of memory of its own.
        let outside = if self.is_inline && is_first { behind } else { Some(is_super) };
        if let Some(is_super) = outside {
            gave(own, self.node_bytes(is_super));
        }
    }
}

impl Table for Clustered {
    fn map(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        let asid = mapping.asid;
        if !self.tables.contains_key(&asid) {
            let bytes = self.bucket_bytes();
            took(own, bytes);
            let chains = (0..self.buckets).map(|_| Vec::new()).collect();
            self.tables.insert(asid, Buckets { base: self.places.take(bytes, LINE), chains });
        }
        let page = (mapping.order == 0).then(|| 1 << self.slot(mapping.vpn));
        self.blocks(mapping).for_each(|block| self.add(asid, block, page, own));
    }

    fn unmap(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        let page = (mapping.order == 0).then(|| 1 << self.slot(mapping.vpn));
        self.blocks(mapping).for_each(|block| self.remove(mapping.asid, block, page, own));
    }

    fn gone(&mut self, asid: Asid, own: &mut OwnCounts) {
        if self.tables.remove(&asid).is_some() {
            gave(own, self.bucket_bytes());
        }
    }

    fn walk(&mut self, asid: Asid, vpn: Vpn, mapping: Option<Mapping>, reads: &mut Reads) {
        let Some(table) = self.tables.get(&asid) else { return };
        let block = vpn.0 >> self.shift;
        let bucket = self.bucket(asid, block);
        let size = if self.is_inline { self.node_bytes(false) } else { PTE };
        let head = table.base + bucket as u64 * size;
        let chain = &table.chains[bucket];
        if !self.is_inline || chain.is_empty() {
            reads.step(&[head]);
        }
        for (i, node) in chain.iter().rev().enumerate() {
            let at = if self.is_inline && i == 0 { head } else { node.at };
            reads.step(&[at]);
            if node.block != block {
                reads.count(COLLISIONS, 1);
                continue;
            }
            let slot = if node.pages.is_some() { self.slot(vpn) } else { 0 };
            if HEADER + slot * PTE >= LINE {
                reads.step(&[at + HEADER + slot * PTE]);
            }
            let is_mapped = node.pages.is_none_or(|pages| pages >> slot & 1 != 0);
            debug_assert_eq!(is_mapped, mapping.is_some(), "XC-3: {asid:?} {vpn:?}");
            debug_assert!(mapping.is_none_or(|m| (m.order > 0) == node.pages.is_none()), "XC-3: {asid:?} {vpn:?}");
            return;
        }
        debug_assert_eq!(mapping, None, "XC-3: {asid:?} {vpn:?} is mapped, and the walk did not find it");
    }

    #[cfg(test)]
    fn bytes(&self) -> u64 {
        let of_chain = |chain: &Vec<Node>| {
            let outside = chain.len() - usize::from(self.is_inline && !chain.is_empty());
            chain[..outside].iter().map(|node| self.node_bytes(node.pages.is_none())).sum::<u64>()
        };
        let of = |table: &Buckets| self.bucket_bytes() + table.chains.iter().map(of_chain).sum::<u64>();
        self.tables.values().map(of).sum()
    }

    fn check(&self, mappings: &mut dyn Iterator<Item = Mapping>) {
        let mut many = 0;
        for mapping in mappings {
            for block in self.blocks(mapping) {
                let chain = &self.tables[&mapping.asid].chains[self.bucket(mapping.asid, block)];
                let mut nodes = chain.iter().filter(|node| node.block == block);
                let node = nodes.next().unwrap_or_else(|| panic!("{mapping:?} is not found"));
                assert!(nodes.next().is_none(), "{block} has two nodes");
                let is_there = match node.pages {
                    Some(pages) => mapping.order == 0 && pages >> self.slot(mapping.vpn) & 1 != 0,
                    None => mapping.order > 0,
                };
                assert!(is_there, "{mapping:?}");
                many += 1;
            }
        }
        let nodes = self.tables.values().flat_map(|table| table.chains.iter().flatten());
        let held: u64 = nodes.map(|node| node.pages.map_or(1, |pages| pages.count_ones().into())).sum();
        assert_eq!(held, many, "mappings in the table, and pages that are mapped");
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use serde_json::json;

    /// The hand-worked case of CL-4: CL-1, CL-3.
    #[test]
    fn two_blocks_in_one_bucket() {
        let mut bench = Bench::new(json!({"table": "clustered", "cl_buckets": 1}));
        for page in [0, 7, 16] {
            bench.map(0, page, 0);
        }
        assert_eq!([16, 0, 7].map(|page| bench.walk(0, page).references), [2, 3, 4]);
        assert_eq!(bench.count("table_bytes"), 296);
        assert_eq!(bench.count("collisions"), 2);
        bench.unmap(0, 16, 0);
        assert_eq!((bench.count("table_bytes"), bench.walk(0, 7).references), (152, 3));
    }

    /// CL-2, CL-3: the first mapping of a node lies in the line of its header.
    #[test]
    fn a_superpage_has_small_nodes() {
        let mut bench = Bench::new(json!({"table": "clustered", "cl_buckets": 1024}));
        bench.map(0, 512, 9);
        assert_eq!(bench.count("table_bytes"), 1024 * 8 + 32 * 24);
        assert_eq!(bench.count("table_writes"), 32);
        assert!((512..1024).any(|page| bench.walk(0, page).references == 2));
        bench.unmap(0, 512, 9);
        assert_eq!(bench.count("table_bytes"), 1024 * 8);
    }

    /// CL-3: no reference to a head.
    #[test]
    fn the_first_node_can_be_the_bucket() {
        let mut bench = Bench::new(json!({"table": "clustered", "cl_buckets": 1, "cl_inline": true}));
        for page in [0, 16] {
            bench.map(0, page, 0);
        }
        assert_eq!([16, 0].map(|page| bench.walk(0, page).references), [1, 2]);
        assert_eq!(bench.count("table_bytes"), 2 * 144);
        bench.unmap(0, 16, 0);
        assert_eq!((bench.walk(0, 0).references, bench.count("table_bytes")), (1, 144));
        bench.unmap(0, 0, 0);
        assert_eq!((bench.ahead(0, 0), bench.count("table_bytes")), (1, 144), "an empty bucket is read");
    }
}
