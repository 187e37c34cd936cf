//! Belady's OPT: the entry whose next use is farthest goes, one that is never used again first (REP-1).
//!
//! No policy that fills each miss misses less often (Belady, IBM Systems Journal 5(2), 1966; Mattson and others,
//! ibidem 9(2), 1970), so it is the bound of all others. It must know the future: [`crate::tlb::Foresees`] says how. In
//! the first pass all entries are alike.

use super::{Access, Listed, Place, Policy, slots};
use crate::tlb::future::NEVER;
use crate::tlb::parts::store::geometry::Geometry;
use farreach_types::params::{Allowed, Key};

/// REP-1.
pub const OPT_MEMORY: Key = Key {
    name: "opt_memory",
    default: "4G",
    allowed: Allowed::Size { min: 8, or: "unlimited" },
    about: "l2_replacement = opt: bytes that the first pass may note, 8 for each lookup of the second level; beyond, \
            it ends with an error",
};

/// The policy as the registry knows it.
pub const LISTED: Listed = Listed {
    name: "opt",
    about: "the entry whose next use is farthest (Belady), which no other beats; two passes over a stored stream",
    keys: &[&OPT_MEMORY],
    by_sets: false,
    foresees: true,
    build: |array| array.told(Opt::new(array.geometry)),
    ..Listed::NEW
};

/// See the module.
pub(in crate::tlb) struct Opt {
    ways: usize,
    /// By slot.
    next_use: Box<[u32]>,
}

impl Opt {
    fn new(geometry: Geometry) -> Opt {
        Opt { ways: geometry.ways, next_use: vec![NEVER; geometry.entries()].into() }
    }
}

impl Policy for Opt {
    fn hit(&mut self, at: Access, place: Place) {
        self.next_use[place.slot as usize] = at.next_use;
    }

    /// Of those that are never used again, the lowest.
    fn victim(&mut self, set: usize) -> u32 {
        let farthest = slots(set, self.ways).rev().max_by_key(|&slot| self.next_use[slot]);
        farthest.expect("sets have entries") as u32
    }

    fn filled(&mut self, at: Access, place: Place) {
        self.next_use[place.slot as usize] = at.next_use;
    }
}
