//! A clustered page table (CL; Talluri, Hill and Khalidi, SOSP 1995): hashed by blocks of pages in a row. A node has
//! the mappings of a block. Where a superpage covers the block, the node has one mapping, and every block of the
//! superpage has such a node.

use super::memory::{COLLISIONS, LINE, OWN, PTE, WRITES, counted, gave, took};
use super::{ListedTable, Mapping, Places, Reads, Scope, TABLE_SCOPE, Table, mix};
use crate::tlb::parts::additions::Counter;
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
    about: "table = clustered: buckets of each process, or of all",
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
    keys: &[&CL_PAGES, &CL_BUCKETS, &CL_INLINE, &TABLE_SCOPE],
    counters: counted! {
        moves: "none here",
        collisions: "nodes of demand walks that had another block",
        Counter::new("fault_references", "references of walks that ended in a page fault, in no other count"),
    },
    in_guests: true,
    build: |params, _| Ok(Box::new(Clustered::new(params))),
    ..ListedTable::NEW
};

/// Bytes of tag and link of a node.
const HEADER: u64 = 16;

/// A node of a chain.
struct Node {
    asid: Asid,
    block: u64,
    /// Its address, if it is not in the bucket.
    at: u64,
    /// The pages that are mapped; `None`: one superpage has them all.
    pages: Option<u64>,
}

/// The table of one process, or of all.
struct Buckets {
    base: u64,
    /// The newest node last.
    chains: Vec<Vec<Node>>,
}

/// See the module.
struct Clustered {
    scope: Scope,
    /// By owner.
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
            scope: Scope::of(params),
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

    /// Bytes of the buckets of a table.
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
        let table = self.tables.get_mut(&self.scope.owner(asid)).expect("it was just made");
        let chain = &mut table.chains[bucket];
        *own.at(WRITES) += 1;
        if let Some(node) = chain.iter_mut().find(|node| node.is(asid, block)) {
            let pages = node.pages.as_mut().expect("a superpage covers its block alone");
            *pages |= page.expect("a superpage covers its block alone");
            return;
        }
        let at = self.free[usize::from(page.is_none())].pop().unwrap_or_else(|| self.places.take(bytes, LINE));
        chain.push(Node { asid, block, at, pages: page });
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
        let table = self.tables.get_mut(&self.scope.owner(asid)).expect("it has the mapping");
        let chain = &mut table.chains[bucket];
        *own.at(WRITES) += 1;
        let at = chain.iter().position(|node| node.is(asid, block)).expect("it has the mapping");
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

impl Node {
    fn is(&self, asid: Asid, block: u64) -> bool {
        self.block == block && self.asid == asid
    }
}

impl Clustered {
    /// The node with this page, if it is mapped (CL-3). Passes on each address that is read, and whether it is a node
    /// of another block.
    fn search(&self, asid: Asid, vpn: Vpn, mut read: impl FnMut(u64, bool)) -> Option<&Node> {
        let table = self.tables.get(&self.scope.owner(asid))?;
        let block = vpn.0 >> self.shift;
        let bucket = self.bucket(asid, block);
        let size = if self.is_inline { self.node_bytes(false) } else { PTE };
        let head = table.base + bucket as u64 * size;
        let chain = &table.chains[bucket];
        if !self.is_inline || chain.is_empty() {
            read(head, false);
        }
        for (i, node) in chain.iter().rev().enumerate() {
            let at = if self.is_inline && i == 0 { head } else { node.at };
            let is_other = !node.is(asid, block);
            read(at, is_other);
            if is_other {
                continue;
            }
            let slot = if node.pages.is_some() { self.slot(vpn) } else { 0 };
            if HEADER + slot * PTE >= LINE {
                read(at + HEADER + slot * PTE, false);
            }
            return node.pages.is_none_or(|pages| pages >> slot & 1 != 0).then_some(node);
        }
        None
    }
}

impl Table for Clustered {
    fn map(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        let asid = mapping.asid;
        let owner = self.scope.owner(asid);
        if !self.tables.contains_key(&owner) {
            let bytes = self.bucket_bytes();
            took(own, bytes);
            let chains = (0..self.buckets).map(|_| Vec::new()).collect();
            self.tables.insert(owner, Buckets { base: self.places.take(bytes, LINE), chains });
        }
        let page = (mapping.order == 0).then(|| 1 << self.slot(mapping.vpn));
        self.blocks(mapping).for_each(|block| self.add(asid, block, page, own));
    }

    fn unmap(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        let page = (mapping.order == 0).then(|| 1 << self.slot(mapping.vpn));
        self.blocks(mapping).for_each(|block| self.remove(mapping.asid, block, page, own));
    }

    fn gone(&mut self, asid: Asid, own: &mut OwnCounts) {
        // A table of all stays.
        if self.scope == Scope::Process && self.tables.remove(&asid).is_some() {
            gave(own, self.bucket_bytes());
        }
    }

    fn walk(&mut self, asid: Asid, vpn: Vpn, mapping: Option<Mapping>, reads: &mut Reads) {
        let found = self.search(asid, vpn, |address, is_other| {
            if is_other {
                reads.count(COLLISIONS, 1);
            }
            reads.step(&[address]);
        });
        debug_assert_eq!(found.is_some(), mapping.is_some(), "XC-3: {asid:?} {vpn:?}");
        debug_assert!(
            found.is_none_or(|node| mapping.is_some_and(|m| (m.order > 0) == node.pages.is_none())),
            "XC-3: {asid:?} {vpn:?}"
        );
    }

    fn faulting(&self, asid: Asid, vpn: Vpn, own: &mut OwnCounts) {
        self.search(asid, vpn, |_, _| *own.at(OWN) += 1);
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
                let table = &self.tables[&self.scope.owner(mapping.asid)];
                let chain = &table.chains[self.bucket(mapping.asid, block)];
                let mut nodes = chain.iter().filter(|node| node.is(mapping.asid, block));
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

    /// PT-4, PT-5.
    #[test]
    fn chains_of_all_and_walks_that_fail() {
        let mut bench = Bench::new(json!({"table": "clustered", "cl_buckets": 1, "table_scope": "global"}));
        bench.map(1, 0, 0);
        bench.map(2, 0, 0);
        assert_eq!([1, 2].map(|asid| bench.walk(asid, 0).references), [3, 2]);
        assert_eq!(bench.count("table_bytes"), 296);
        // Head, the node of 2, and the mapping in the second line of it; then head and both nodes.
        bench.fault(2, 7);
        assert_eq!(bench.count("fault_references"), 3);
        bench.fault(3, 0);
        assert_eq!(bench.count("fault_references"), 6);
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
