//! Ways that grow in place (ME-2, ME-3).

use super::{Mementos, split};

impl Mementos {
    pub(super) fn grow(&mut self, asid: u32, order: u8, way: usize) {
        self.ways(asid, order)[way].moved = Some(0);
        self.book.add("resizes", 1);
        self.measure();
    }

    /// Passes one entry of a way that grows.
    pub(super) fn advance(&mut self, asid: u32, order: u8, way: usize) {
        let (seed, hash) = (self.config.seed, self.config.hash);
        let held = &mut self.ways(asid, order)[way];
        let pointer = held.moved.unwrap();
        let (n, entry) = (held.n, held.slots.remove(&pointer));
        held.moved = Some(pointer + 1);
        let to = entry.map(|entry| hash.index(asid, entry.tag, seed, way as u64, 2 * n));
        if let (Some(entry), Some(to)) = (entry, to) {
            assert!(to == pointer || to == pointer + n, "a further bit of the same hash");
            assert!(held.slots.insert(to, entry).is_none());
        }
        if pointer + 1 == n {
            (held.n, held.moved) = (2 * n, None);
        }
        self.book.add("moves", u64::from(to.is_some_and(|to| to != pointer)));
    }

    pub(super) fn growing(&mut self, asid: u32, order: u8) -> Vec<usize> {
        self.ways(asid, order).iter().enumerate().filter(|way| way.1.moved.is_some()).map(|way| way.0).collect()
    }

    /// OW-38.
    pub(super) fn failed(&mut self, asid: u32, order: u8) {
        let growing = self.growing(asid, order);
        for &way in &growing {
            while self.ways(asid, order)[way].moved.is_some() {
                self.advance(asid, order, way);
            }
        }
        if growing.is_empty() {
            let ways = self.ways(asid, order);
            let way = (0..ways.len()).min_by_key(|&way| ways[way].n).unwrap();
            self.grow(asid, order, way);
        }
    }

    /// Every mapped page is found, and no way is larger than twice another.
    pub fn check(&self) {
        for (asid, vpn, order) in self.pages.all() {
            assert!(self.find(asid, order, split(vpn, order).0).is_some());
        }
        for ways in self.tables.values() {
            let sizes = || ways.iter().map(|way| if way.moved.is_some() { 2 * way.n } else { way.n });
            assert!(sizes().max().unwrap() <= 2 * sizes().min().unwrap());
            assert!(ways.iter().all(|way| way.slots.len() as u64 <= 2 * way.n));
        }
    }
}
