//! Walks of a radix tree with caches of upper entries, as lists: how many nodes they read (DS13-36, PB-7).

use super::*;
use farreach_oracle::tables::book::Used;

pub(super) struct Walks {
    /// Of entries of levels 1 to 3: process and page div their span.
    caches: [Used<(u32, u64)>; 3],
    rooms: [usize; 3],
    process_ids: bool,
    /// Nodes of demand walks.
    pub nodes: u64,
}

impl Walks {
    pub fn new(setting: &Setting) -> Walks {
        let rooms = setting.walk_caches;
        Walks { caches: rooms.map(Used::new), rooms, process_ids: setting.process_ids, nodes: 0 }
    }

    /// A walk for a page, mapped or not: levels that it reads, the highest first.
    pub fn walk(&mut self, world: &World, asid: u32, vpn: u64, fills: bool) -> Vec<u8> {
        let lowest = world.lowest(asid, vpn);
        let key = |level: u8| (asid, vpn >> (9 * level));
        let cached = (lowest + 1..4).find(|level| self.caches[usize::from(*level) - 1].hit(&key(*level)));
        let read: Vec<u8> = (lowest..cached.unwrap_or(4)).rev().collect();
        for level in read.iter().filter(|level| fills && **level > lowest) {
            self.caches[usize::from(*level) - 1].put(key(*level));
        }
        read
    }

    /// The level that a walk would read first; changes nothing (VIC-2).
    pub fn first(&self, world: &World, asid: u32, vpn: u64) -> u8 {
        let lowest = world.lowest(asid, vpn);
        let held = |level: &u8| self.caches[usize::from(*level) - 1].has(&(asid, vpn >> (9 * level)));
        (lowest + 1..4).find(held).unwrap_or(4) - 1
    }

    /// A demand walk: the level that is read first, 1 being that of base pages, and the nodes.
    pub fn demand(&mut self, world: &World, asid: u32, vpn: u64) -> (u64, u64) {
        let read = self.walk(world, asid, vpn, true);
        self.nodes += read.len() as u64;
        (u64::from(read[0]) + 1, read.len() as u64)
    }

    /// Something changed in this process.
    pub fn forget(&mut self, asid: u32) {
        self.caches.iter_mut().for_each(|cache| cache.drop_if(|held| held.0 == asid));
    }

    pub fn switch(&mut self) {
        if !self.process_ids {
            self.caches = self.rooms.map(Used::new);
        }
    }
}
