//! Mitosis (OS-MIT-1 to OS-MIT-5): a full copy of the page table on each of some nodes. Each entry is written to all of
//! them; no translation changes by it.

use super::{COMMON_KEYS, Listed, NODES, NodeSet, Placement};
use farreach_types::joined_keys;
use farreach_types::params::{Allowed, Key};

/// The mask of OS-MIT-1.
const REPLICAS: Key = Key {
    name: "numa_replicas",
    default: "64",
    allowed: Allowed::Int { min: 1, max: 64 },
    about: "nodes with a copy of the page table, from the first on; at most all. The walkers of other nodes read that \
            of the first",
};

pub const LISTED: Listed = Listed {
    name: "replicated",
    about: "a full copy of each page table on every node (Mitosis; OS-MIT-1 to OS-MIT-5)",
    keys: joined_keys!(COMMON_KEYS, &[&REPLICAS]),
    build: |params| {
        let nodes = params.int(NODES.name).min(params.int(REPLICAS.name));
        Ok(Box::new(Replicated { nodes: u64::MAX >> (64 - nodes) }))
    },
};

struct Replicated {
    nodes: NodeSet,
}

impl Placement for Replicated {
    fn made(&self, _by: u8) -> (Option<u8>, NodeSet) {
        (Some(0), self.nodes)
    }
}
