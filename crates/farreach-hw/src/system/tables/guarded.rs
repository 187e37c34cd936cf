//! A guarded page table: a tree over the 40-bit page number, 4 bits to a level, in which a guard beside each entry
//! replaces levels with a single branch. Sparse spaces cost few nodes and few loads (SV97-18).

use super::{Arena, ID_SHIFT, Organisation};
use std::collections::BTreeSet;

/// Bits of a page number.
const PAGE_BITS: u32 = 40;
const LEVEL_BITS: u32 = 4;
/// Entry: guard and its length, then the translation or the next node.
const ENTRY: u64 = 16;
const NODE: u64 = ENTRY << LEVEL_BITS;

/// See the module. The shape depends only on the set of mapped pages: a prefix of whole levels has a node if the mapped
/// pages under it take more than one branch.
pub struct Guarded {
    pages: BTreeSet<u64>,
    /// Nodes by level (bits below it) and prefix.
    nodes: hashbrown::HashMap<(u32, u64), u64, foldhash::fast::FixedState>,
    memory: Arena,
}

impl Default for Guarded {
    fn default() -> Guarded {
        Guarded { pages: BTreeSet::new(), nodes: Default::default(), memory: Arena::new(0, NODE) }
    }
}

impl Guarded {
    /// Whether the mapped pages under the first bits of `page`, down to `below` bits, take more than one branch.
    fn branches(&self, page: u64, below: u32) -> bool {
        let first = page >> below << below;
        let last = first | ((1 << below) - 1);
        let mut under = self.pages.range(first..=last);
        let branch = |page: &u64| page >> (below - LEVEL_BITS);
        match (under.next().map(branch), under.next_back().map(branch)) {
            (Some(low), Some(high)) => low != high,
            _ => false,
        }
    }

    fn levels() -> impl Iterator<Item = u32> {
        (1..=PAGE_BITS / LEVEL_BITS).rev().map(|level| level * LEVEL_BITS)
    }

    fn remove(&mut self, page: u64) {
        if self.pages.remove(&page) {
            for below in Guarded::levels() {
                if !self.branches(page, below)
                    && let Some(node) = self.nodes.remove(&(below, page >> below))
                {
                    self.memory.free_node(node);
                }
            }
        }
    }
}

impl Organisation for Guarded {
    fn path(&mut self, page: u64, root: u64, _: u8, loads: &mut Vec<u64>) {
        self.pages.insert(page);
        // The root entry with the first guard lies where the process finds its root.
        loads.push(root);
        for below in Guarded::levels() {
            if self.branches(page, below) {
                let memory = &mut self.memory;
                let node = *self.nodes.entry((below, page >> below)).or_insert_with(|| memory.take());
                loads.push(node + (page >> (below - LEVEL_BITS) & ((1 << LEVEL_BITS) - 1)) * ENTRY);
            }
        }
    }

    fn unmap(&mut self, page: u64) {
        self.remove(page);
    }

    fn gone(&mut self, id: u32) {
        let first = u64::from(id) << ID_SHIFT;
        let pages: Vec<u64> = self.pages.range(first..first + (1 << ID_SHIFT)).copied().collect();
        pages.into_iter().for_each(|page| self.remove(page));
    }
}
