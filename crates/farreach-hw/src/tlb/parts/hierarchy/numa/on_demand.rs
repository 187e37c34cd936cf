//! numaPTE (OS-NPT-1 to OS-NPT-3): the table is whole on the nodes that own its pages, and other nodes have what they
//! walked. A walk that finds nothing in the copy of its node takes a light fault, which copies the entry, and
//! neighbours of it in the same page of the table. Shootdowns interrupt cores of nodes with a copy alone.

use super::tree::{PageId, TablePage};
use super::{COMMON_KEYS, Listed, NODES, NodeSet, Placement};
use farreach_types::joined_keys;
use farreach_types::params::{Allowed, Key, Params};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// The degree of OS-NPT-1.
const PREFETCH: Key = Key {
    name: "numa_prefetch",
    default: "9",
    allowed: Allowed::Int { min: 0, max: 9 },
    about: "log2 of the aligned entries of a page of the table that a light fault copies at most",
};

pub const LISTED: Listed = Listed {
    name: "on_demand",
    about: "nodes get copies of the entries that they walk (numaPTE; OS-NPT-1 to OS-NPT-3)",
    keys: joined_keys!(COMMON_KEYS, &[&PREFETCH]),
    build: |params| Ok(Box::new(OnDemand::new(params))),
};

/// Which of the 512 entries of a page there are.
type Bits = [u64; 8];

fn has(bits: &Bits, index: u16) -> bool {
    bits[usize::from(index / 64)] >> (index % 64) & 1 != 0
}

struct OnDemand {
    prefetch: u8,
    nodes: u8,
    /// The leaves that are in the copy of a node, by page and node.
    leaves: HashMap<(PageId, u8), Bits, FixedState>,
}

impl OnDemand {
    fn new(params: &Params) -> OnDemand {
        OnDemand {
            prefetch: params.int(PREFETCH.name) as u8,
            nodes: params.int(NODES.name) as u8,
            leaves: HashMap::default(),
        }
    }

    fn has(&self, id: PageId, node: u8, index: u16) -> bool {
        self.leaves.get(&(id, node)).is_some_and(|bits| has(bits, index))
    }

    fn set(&mut self, id: PageId, node: u8, index: u16, to: bool) {
        let word = &mut self.leaves.entry((id, node)).or_default()[usize::from(index / 64)];
        *word = *word & !(1 << (index % 64)) | u64::from(to) << (index % 64);
    }
}

impl Placement for OnDemand {
    fn made(&self, by: u8) -> (Option<u8>, NodeSet) {
        (Some(by), 1 << by)
    }

    fn holders(&self, id: PageId, index: u16, _page: &TablePage) -> NodeSet {
        (0..self.nodes).filter(|node| self.has(id, *node, index)).map(|node| 1 << node).sum()
    }

    /// The owner, too.
    fn entered(&mut self, id: PageId, index: u16, page: &TablePage, by: u8) {
        self.set(id, by, index, true);
        if let Some(owner) = page.home {
            self.set(id, owner, index, true);
        }
    }

    fn cleared(&mut self, id: PageId, index: u16) {
        for node in 0..self.nodes {
            if self.has(id, node, index) {
                self.set(id, node, index, false);
            }
        }
    }

    fn freed(&mut self, id: PageId) {
        for node in 0..self.nodes {
            self.leaves.remove(&(id, node));
        }
    }

    fn fetched(&mut self, id: PageId, index: u16, page: &TablePage, node: u8) -> Option<u64> {
        if self.has(id, node, index) {
            return None;
        }
        let owner = page.home.expect("the first copy lies on a node");
        let first = index >> self.prefetch << self.prefetch;
        let mut entries = 0;
        for index in first..first + (1 << self.prefetch) {
            if self.has(id, owner, index) && !self.has(id, node, index) {
                self.set(id, node, index, true);
                entries += 1;
            }
        }
        Some(entries)
    }

    fn copies_on_demand(&self) -> bool {
        true
    }
}
