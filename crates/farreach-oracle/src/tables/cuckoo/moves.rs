//! Inserts and resizes of elastic cuckoo tables (EC-3, EC-4), and their invariants (EC-8).

use super::{Cuckoo, Entry, Ways, split};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeSet;

impl Cuckoo {
    /// A number below `n`.
    fn draw(&mut self, asid: u32, n: u64) -> u64 {
        let seed = self.config.seed.wrapping_add(u64::from(asid));
        let rng = self.draws.entry(asid).or_insert_with(|| Pcg64Mcg::seed_from_u64(seed));
        (u64::from(rng.next_u32()) * n) >> 32
    }

    /// EC-3 of an entry that is in no way.
    pub(super) fn place(&mut self, asid: u32, order: u8, entry: Entry) {
        let (d, retries) = (self.config.ways, self.config.retries);
        let (mut hand, mut swaps) = (entry, 0);
        let mut way = self.draw(asid, d);
        loop {
            let slot = self.slot(asid, order, way, hand.tag);
            let Some(evicted) = *slot else {
                *slot = Some(hand);
                self.headers.settled(asid, order, hand.tag, way);
                return;
            };
            if swaps == retries {
                if self.table(asid, order).next.is_some() {
                    self.complete(asid, order);
                } else {
                    let n = self.table(asid, order).now.n * self.config.scale;
                    self.begin(asid, order, n);
                }
                swaps = 0;
                way = self.draw(asid, d);
                continue;
            }
            *slot = Some(hand);
            self.headers.settled(asid, order, hand.tag, way);
            self.book.add("collisions", 1);
            swaps += 1;
            hand = evicted;
            let other = self.draw(asid, d - 1);
            way = if other < way { other } else { other + 1 };
        }
    }

    /// EC-4: a resize to n entries a way begins.
    pub(super) fn begin(&mut self, asid: u32, order: u8, n: u64) {
        let d = self.config.ways;
        self.table(asid, order).next = Some((Ways::new(d, n), vec![0; d as usize]));
        self.book.add("resizes", 1);
        self.measure();
    }

    /// Moves the entry at the pointer of a way.
    fn advance(&mut self, asid: u32, order: u8, way: usize) {
        let table = self.table(asid, order);
        let generation = table.generation;
        let pointer = &mut table.next.as_mut().unwrap().1[way];
        let taken = table.now.slots[way][*pointer as usize].take();
        *pointer += 1;
        if let Some(entry) = taken {
            self.book.add("moves", 1);
            self.place(asid, order, entry);
        }
        self.end_if_done(asid, order, generation);
    }

    /// Frees the old table of this resize if all is moved (OW-18).
    fn end_if_done(&mut self, asid: u32, order: u8, generation: u64) {
        let table = self.table(asid, order);
        let n = table.now.n;
        if table.generation == generation
            && let Some((new, _)) = table.next.take_if(|(_, moved)| moved.iter().all(|&p| p == n))
        {
            table.now = new;
            table.generation += 1;
            self.measure();
        }
    }

    /// One step of EC-4.
    pub(super) fn step(&mut self, asid: u32, order: u8) {
        let table = self.table(asid, order);
        let n = table.now.n;
        let Some((_, moved)) = &table.next else { return };
        let open: Vec<usize> = (0..moved.len()).filter(|&way| moved[way] < n).collect();
        let drawn = self.draw(asid, open.len() as u64);
        self.advance(asid, order, open[drawn as usize]);
    }

    /// Ends the resize that is under way at once.
    fn complete(&mut self, asid: u32, order: u8) {
        let generation = self.table(asid, order).generation;
        while self.table(asid, order).generation == generation {
            let table = self.table(asid, order);
            let n = table.now.n;
            match table.next.as_ref().unwrap().1.iter().position(|&p| p < n) {
                Some(way) => self.advance(asid, order, way),
                None => self.end_if_done(asid, order, generation),
            }
        }
    }

    /// EC-8: every mapped page is in just one way, entries are the sum over the ways, and no table is overfull.
    pub fn check(&self) {
        let mut tags = BTreeSet::new();
        for (asid, vpn, order) in self.pages.all() {
            let (tag, slot) = split(vpn, order);
            let way = self.find(asid, order, tag).expect("every mapped page is found");
            let (new, at) = self.route(asid, order, way, tag);
            let table = &self.tables[&(asid, order)];
            let ways = if new { &table.next.as_ref().unwrap().0 } else { &table.now };
            assert!(ways.slots[way as usize][at].unwrap().valid[slot]);
            assert!(order == 0 || self.headers.way(asid, order, tag) == Some(way));
            tags.insert((asid, order, tag));
        }
        let mut sum = 0;
        for table in self.tables.values() {
            let all = table.next.iter().map(|next| &next.0).chain([&table.now]);
            let held = all.flat_map(|ways| &ways.slots).flatten().flatten().count() as u64;
            let slots = self.config.ways * (table.now.n + table.next.as_ref().map_or(0, |next| next.0.n));
            assert_eq!(table.entries, held);
            assert!(held <= slots);
            sum += held;
        }
        assert_eq!(sum, tags.len() as u64);
    }
}
