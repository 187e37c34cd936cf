//! Entries in the order in which they were begun, newest first, behind FIFO: a list for each set.

use super::geometry::Geometry;
use super::tag_index::NONE;

#[derive(Clone, Copy)]
struct Link {
    newer: u32,
    older: u32,
}

/// One doubly linked list per set, over the slots that are in it.
pub(in crate::tlb) struct FillOrder {
    links: Box<[Link]>,
    newest: Box<[u32]>,
    oldest: Box<[u32]>,
}

impl FillOrder {
    pub fn new(g: Geometry) -> FillOrder {
        FillOrder {
            links: vec![Link { newer: NONE, older: NONE }; g.entries()].into(),
            newest: vec![NONE; g.sets].into(),
            oldest: vec![NONE; g.sets].into(),
        }
    }

    /// The slot at the end, or `NONE`.
    #[inline]
    pub fn oldest(&self, set: usize) -> u32 {
        self.oldest[set]
    }

    /// Puts a slot that is in no list in front.
    #[inline]
    pub fn push(&mut self, set: usize, slot: u32) {
        let front = self.newest[set];
        self.links[slot as usize] = Link { newer: NONE, older: front };
        match front {
            NONE => self.oldest[set] = slot,
            _ => self.links[front as usize].newer = slot,
        }
        self.newest[set] = slot;
    }

    /// Puts a slot of the list in front.
    #[inline]
    pub fn renew(&mut self, set: usize, slot: u32) {
        if self.newest[set] != slot {
            self.remove(set, slot);
            self.push(set, slot);
        }
    }

    /// Removes a slot from its list.
    #[inline]
    pub fn remove(&mut self, set: usize, slot: u32) {
        let Link { newer, older } = self.links[slot as usize];
        match newer {
            NONE => self.newest[set] = older,
            _ => self.links[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest[set] = newer,
            _ => self.links[older as usize].newer = newer,
        }
    }
}
