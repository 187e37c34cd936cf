//! Entries in an order, newest first, behind LRU and FIFO: a list for each set; or stamps, where sets overlap.

use super::geometry::Geometry;
use super::tag_index::NONE;

#[derive(Clone, Copy)]
struct Link {
    newer: u32,
    older: u32,
}

/// One doubly linked list per set, over the slots that are in it.
pub(in crate::tlb) struct Recency {
    links: Box<[Link]>,
    newest: Box<[u32]>,
    oldest: Box<[u32]>,
}

impl Recency {
    pub fn new(g: Geometry) -> Recency {
        Recency {
            links: vec![Link { newer: NONE, older: NONE }; g.entries()].into(),
            newest: vec![NONE; g.sets].into(),
            oldest: vec![NONE; g.sets].into(),
        }
    }

    /// The slot in front, or `NONE`.
    #[inline]
    pub fn newest(&self, set: usize) -> u32 {
        self.newest[set]
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

    /// Puts a slot of the list in front. Returns the one it displaced there, if there was another.
    #[inline]
    pub fn renew(&mut self, set: usize, slot: u32) -> Option<u32> {
        let front = self.newest[set];
        if front == slot {
            return None;
        }
        self.remove(set, slot);
        self.push(set, slot);
        Some(front)
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

/// Times at which slots were used or filled, for victims among any slots.
pub(in crate::tlb) struct Stamps {
    of: Box<[u64]>,
    now: u64,
    /// LRU: a use counts, not only the fill.
    by_use: bool,
    newest: u32,
}

impl Stamps {
    pub fn new(slots: usize, by_use: bool) -> Stamps {
        Stamps { of: vec![0; slots].into(), now: 0, by_use, newest: NONE }
    }

    /// A number that grows with time.
    pub fn of(&self, slot: u32) -> u64 {
        self.of[slot as usize]
    }

    /// A slot has a new entry. As [`Stamps::touched`].
    pub fn entered(&mut self, slot: u32) -> Option<u32> {
        let former = std::mem::replace(&mut self.newest, slot);
        self.now += 1;
        self.of[slot as usize] = self.now;
        (self.by_use && former != NONE && former != slot).then_some(former)
    }

    /// A slot was used. Returns the slot that is no longer the newest, if uses count: using it once more has an effect
    /// again.
    pub fn touched(&mut self, slot: u32) -> Option<u32> {
        if self.by_use { self.entered(slot) } else { None }
    }

    /// A slot became empty.
    pub fn dropped(&mut self, slot: u32) {
        if self.newest == slot {
            self.newest = NONE;
        }
    }
}
