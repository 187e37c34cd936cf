//! Counters of free distances and the sampler (SBFP-1 to SBFP-4).

use std::collections::{BTreeMap, VecDeque};

/// A page of the sampler.
struct Sampled {
    asid: u32,
    order: u8,
    /// In units of its size.
    page: i64,
    distance: i64,
}

#[derive(Default)]
pub(super) struct Sbfp {
    pub threshold: u64,
    entries: usize,
    keep: bool,
    per_size: bool,
    /// By size and distance; of one size if all share one table.
    pub fdt: BTreeMap<(u8, i64), u64>,
    /// Oldest first.
    sampler: VecDeque<Sampled>,
    pub updates: u64,
    pub sampler_hits: u64,
    pub halvings: u64,
}

impl Sbfp {
    pub fn new(threshold: u64, entries: usize, keep: bool, per_size: bool) -> Sbfp {
        Sbfp { threshold, entries, keep, per_size, ..Sbfp::default() }
    }

    fn table(&self, order: u8) -> u8 {
        if self.per_size { order } else { 0 }
    }

    /// SBFP-2: 10 bits; a counter that reaches 1023 halves all of its table.
    pub fn update(&mut self, order: u8, distance: i64) {
        self.updates += 1;
        let table = self.table(order);
        let counter = self.fdt.entry((table, distance)).or_insert(0);
        *counter += 1;
        if *counter == 1023 {
            self.halvings += 1;
            for (_, counter) in self.fdt.iter_mut().filter(|(key, _)| key.0 == table) {
                *counter /= 2;
            }
        }
    }

    /// SBFP-3: strictly above.
    pub fn above(&self, order: u8, distance: i64) -> bool {
        self.fdt.get(&(self.table(order), distance)).copied().unwrap_or(0) > self.threshold
    }

    /// SBFP-2, after a miss of the buffer.
    pub fn search(&mut self, asid: u32, order: u8, page: i64) {
        let same = |s: &Sampled| s.asid == asid && s.order == order && s.page == page;
        let Some(place) = self.sampler.iter().position(same) else { return };
        self.sampler_hits += 1;
        let distance = self.sampler[place].distance;
        self.update(order, distance);
        if !self.keep {
            self.sampler.remove(place);
        }
    }

    /// SBFP-3: a page that is there keeps its distance.
    pub fn sample(&mut self, asid: u32, order: u8, page: i64, distance: i64) {
        if self.sampler.iter().any(|s| s.asid == asid && s.order == order && s.page == page) {
            return;
        }
        if self.sampler.len() == self.entries {
            self.sampler.pop_front();
        }
        self.sampler.push_back(Sampled { asid, order, page, distance });
    }

    /// Empties the sampler.
    pub fn forget(&mut self) {
        self.sampler.clear();
    }
}

/// SBFP-3: distances to the other entries in the line of a page, ascending.
pub(super) fn distances(page: i64) -> impl Iterator<Item = i64> {
    let slot = page.rem_euclid(8);
    (-slot..=7 - slot).filter(|d| *d != 0)
}
