//! A process that was moved to other nodes and left its page tables behind: every reference of its walks is remote.
//! Such is the worst case that Mitosis measures.

use super::{COMMON_KEYS, Listed, NodeSet, Placement};

pub const LISTED: Listed = Listed {
    name: "away",
    about: "page tables lie on a node where no thread runs: those of processes that moved without them",
    keys: COMMON_KEYS,
    build: |_| Ok(Box::new(Away)),
};

struct Away;

impl Placement for Away {
    fn made(&self, _by: u8) -> (Option<u8>, NodeSet) {
        (None, 0)
    }
}
