//! Replacement in a second level by VIC-5 (SRRIP), CHI-1 to CHI-5 (CHiRP) and ITP-1 (iTP), as lists: each set has its
//! entries in an order, oldest first.
//!
//! * OQ-1 The signature of a lookup is made of the path before its own program counter joins it.
//! * OQ-2 The path is of 64 bits. Folding is the XOR of the four pieces of 16 bits. There are no branches.
//! * OQ-3 Every array has its own state, and knows of all lookups of its level.
//! * OQ-4 The set changes when a hit is in another set than the hit or fill before, in the same array.
//! * OQ-5 Counters stay between 0 and 3.
//! * OQ-6 iTP: places count valid entries. A new entry of data has as many newer ones as ways less four, or all that
//!   there are. It stays one of data after hits of either kind. SRRIP: among equals the lowest index.

use std::collections::BTreeMap;

/// The policy, with its keys.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Policy {
    Srrip { bits: u32 },
    Chirp { counters: u64, dead_at: u64, only_at_set_change: bool },
    Itp { from_oldest: usize, hits: u64 },
}

#[derive(Clone, Debug)]
struct Row {
    slot: usize,
    /// SRRIP.
    interval: u64,
    /// CHiRP.
    signature: u64,
    dead: bool,
    hit: bool,
    /// iTP.
    fetch: bool,
    hits: u64,
}

/// The state of an array.
pub struct PlainPolicy {
    policy: Policy,
    ways: usize,
    /// By set, oldest first. SRRIP does not look at the order.
    sets: Vec<Vec<Row>>,
    /// Program counters of the lookups so far, div 4, latest last.
    pcs: Vec<u64>,
    fetch: bool,
    signature: u64,
    counters: BTreeMap<u64, u64>,
    last_set: Option<usize>,
    /// Victims that were predicted dead, and those that were never hit, of CHiRP.
    pub counted: [u64; 2],
}

impl PlainPolicy {
    pub fn new(policy: Policy, sets: usize, ways: usize) -> PlainPolicy {
        PlainPolicy {
            policy,
            ways,
            sets: vec![Vec::new(); sets],
            pcs: Vec::new(),
            fetch: false,
            signature: 0,
            counters: BTreeMap::new(),
            last_set: None,
            counted: [0; 2],
        }
    }

    /// CHI-1.
    pub fn lookup(&mut self, fetch: bool, pc: u64) {
        self.fetch = fetch;
        let path = self.pcs.iter().rev().take(64).enumerate().fold(0, |path, (age, pc)| path ^ (pc << age));
        let mixed = (pc / 4) ^ path;
        self.signature = (0..4).fold(0, |fold, piece| fold ^ ((mixed >> (16 * piece)) & 0xffff));
        self.pcs.push(pc / 4);
    }

    fn index(&self, signature: u64) -> u64 {
        match self.policy {
            Policy::Chirp { counters, .. } => signature % counters,
            _ => 0,
        }
    }

    fn count(&self, signature: u64) -> u64 {
        *self.counters.get(&self.index(signature)).unwrap_or(&0)
    }

    fn predict(&self, row: &mut Row) {
        if let Policy::Chirp { dead_at, .. } = self.policy {
            row.signature = self.signature;
            row.dead = self.count(row.signature) >= dead_at;
        }
    }

    pub fn hit(&mut self, slot: usize) {
        let set = slot / self.ways;
        let place = self.sets[set].iter().position(|row| row.slot == slot).unwrap();
        let mut row = self.sets[set].remove(place);
        let newest = self.sets[set].len();
        let to = match self.policy {
            Policy::Srrip { .. } => {
                row.interval = 0;
                place
            }
            Policy::Chirp { only_at_set_change, .. } => {
                if !row.hit {
                    row.hit = true;
                    let count = self.count(row.signature);
                    let index = self.index(row.signature);
                    self.counters.insert(index, if count == 0 { 0 } else { count - 1 });
                }
                if !only_at_set_change || self.last_set != Some(set) {
                    self.predict(&mut row);
                }
                newest
            }
            Policy::Itp { .. } if row.fetch => newest,
            Policy::Itp { hits, .. } => {
                row.hits += 1;
                if row.hits.is_multiple_of(hits) { newest.min(place + 1) } else { place }
            }
        };
        self.sets[set].insert(to, row);
        self.last_set = Some(set);
    }

    /// Of a full set.
    pub fn victim(&mut self, set: usize) -> usize {
        let rows = &mut self.sets[set];
        assert_eq!(rows.len(), self.ways);
        match self.policy {
            Policy::Srrip { bits } => loop {
                let far = rows.iter().filter(|row| row.interval == 2u64.pow(bits) - 1).map(|row| row.slot).min();
                match far {
                    Some(slot) => return slot,
                    None => rows.iter_mut().for_each(|row| row.interval += 1),
                }
            },
            Policy::Chirp { .. } => rows.iter().find(|row| row.dead).unwrap_or(&rows[0]).slot,
            Policy::Itp { .. } => rows[0].slot,
        }
    }

    /// A new entry, perhaps in the place of another.
    pub fn fill(&mut self, slot: usize) {
        let set = slot / self.ways;
        if let Some(old) = self.take(slot)
            && let Policy::Chirp { .. } = self.policy
        {
            self.counted[0] += u64::from(old.dead);
            if !old.hit {
                self.counted[1] += 1;
                let (index, count) = (self.index(old.signature), self.count(old.signature));
                self.counters.insert(index, if count == 3 { 3 } else { count + 1 });
            }
        }
        let mut row = Row { slot, interval: 0, signature: 0, dead: false, hit: false, fetch: self.fetch, hits: 0 };
        let newest = self.sets[set].len();
        let mut place = newest;
        match self.policy {
            Policy::Srrip { bits } => row.interval = 2u64.pow(bits) - 2,
            Policy::Itp { from_oldest, .. } if !self.fetch => {
                let newer = self.ways.saturating_sub(from_oldest);
                place = newest.saturating_sub(newer);
            }
            _ => {}
        }
        self.predict(&mut row);
        self.sets[set].insert(place, row);
        self.last_set = Some(set);
    }

    fn take(&mut self, slot: usize) -> Option<Row> {
        let rows = &mut self.sets[slot / self.ways];
        let place = rows.iter().position(|row| row.slot == slot)?;
        Some(rows.remove(place))
    }

    /// The entry is gone because of a change.
    pub fn drop(&mut self, slot: usize) {
        self.take(slot).expect("it was there");
    }
}
