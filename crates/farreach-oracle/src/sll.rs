//! A second level of TLBs that all cores share, or one for each (SLL-1 to SLL-3), as lists.
//!
//! * OY-1 The shared array has the ways of a private one, and as many times the sets as there are cores.
//! * OY-2 Arrays are indexed by the low bits of the page of the entry's size. A lookup probes an array for each of its
//!   sizes; at most one can hit. A hit of the first level does not touch the second. A hit of the second fills the
//!   first, a walk both; an array without the size of the mapping is passed over.
//! * OY-3 A change is reported once. `l1_invalidations` counts the entries of all cores, `l2_invalidations` those of
//!   the second level: one in a shared array (SLL-2).
//! * OY-4 Without `process_ids`, a switch of a core empties its first level and its second level, also a shared one
//!   (HW-9). Entries always know their process, for cores may run several at once.
//! * OY-5 Slices are by the low bits of the base page, one a core, in rows of the least square mesh that has room for
//!   all cores. Hops are those from core to slice, counted at hits of the second level.

use crate::lru::Sets;
use std::collections::BTreeMap;

/// An array, for pages of these orders: entries and ways.
#[derive(Clone, Debug)]
pub struct Array {
    pub orders: Vec<u8>,
    pub entries: usize,
    pub ways: usize,
}

/// Keys of the machine.
#[derive(Clone, Debug)]
pub struct SllConfig {
    /// `cores`.
    pub cores: usize,
    /// `l1i` and `l1d`.
    pub l1: [Vec<Array>; 2],
    /// `l2`, of one core.
    pub l2: Vec<Array>,
    /// `l2_shared`.
    pub l2_shared: bool,
    pub process_ids: bool,
}

/// Process, order, page of its size.
type Entry = (u32, u8, u64);

/// A level: sizes and sets of its arrays.
type Level = Vec<(Vec<u8>, Sets<Entry>)>;

/// What answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    L1,
    L2,
    Walk,
}

/// The model.
pub struct Sll {
    config: SllConfig,
    /// By core: of fetches, of data.
    l1: Vec<[Level; 2]>,
    /// By core, or one.
    l2: Vec<Level>,
    running: Vec<Option<u32>>,
    /// By process and first page: order.
    mapped: BTreeMap<(u32, u64), u8>,
    /// `l1_hits`, `l2_hits`, `walks`, `l1_invalidations`, `l2_invalidations`, `hops`.
    pub counts: BTreeMap<&'static str, u64>,
}

fn level(arrays: &[Array], times: usize) -> Level {
    arrays.iter().map(|a| (a.orders.clone(), Sets::new(a.entries * times, a.ways))).collect()
}

fn hit(level: &mut Level, asid: u32, vpn: u64) -> bool {
    level.iter_mut().any(|(orders, sets)| {
        let found = |&order: &u8| sets.hit(vpn >> order, |e| *e == (asid, order, vpn >> order)).is_some();
        orders.iter().any(found)
    })
}

fn fill(level: &mut Level, asid: u32, vpn: u64, order: u8) {
    if let Some((_, sets)) = level.iter_mut().find(|(orders, _)| orders.contains(&order)) {
        sets.put(vpn >> order, (asid, order, vpn >> order));
    }
}

fn drop_if(level: &mut Level, goes: impl Fn(&Entry) -> bool) -> u64 {
    level.iter_mut().map(|(_, sets)| sets.drop_if(&goes)).sum()
}

impl Sll {
    /// Empty.
    pub fn new(config: SllConfig) -> Sll {
        let (number, times) = if config.l2_shared { (1, config.cores) } else { (config.cores, 1) };
        let names = ["l1_hits", "l2_hits", "walks", "l1_invalidations", "l2_invalidations", "hops"];
        Sll {
            l1: (0..config.cores).map(|_| config.l1.each_ref().map(|arrays| level(arrays, 1))).collect(),
            l2: (0..number).map(|_| level(&config.l2, times)).collect(),
            running: vec![None; config.cores],
            mapped: BTreeMap::new(),
            counts: names.map(|name| (name, 0)).into(),
            config,
        }
    }

    fn add(&mut self, name: &'static str, n: u64) {
        *self.counts.get_mut(name).unwrap() += n;
    }

    /// A page is mapped. What was there was unmapped, or is promoted, and its entries go.
    pub fn map(&mut self, asid: u32, vpn: u64, order: u8) {
        self.changed(asid, vpn, 1 << order);
        self.mapped.retain(|key, held| key.0 != asid || apart(key.1, 1 << *held, vpn, 1 << order));
        self.mapped.insert((asid, vpn), order);
    }

    /// A page is mapped no more.
    pub fn unmap(&mut self, asid: u32, vpn: u64) {
        let order = self.mapped.remove(&(asid, vpn)).expect("it was mapped");
        self.changed(asid, vpn, 1 << order);
    }

    /// HW-9, OY-3: pages moved, or changed otherwise.
    pub fn changed(&mut self, asid: u32, first: u64, pages: u64) {
        let meets = |e: &Entry| e.0 == asid && !apart(e.2 << e.1, 1 << e.1, first, pages);
        let l1 = self.l1.iter_mut().flatten().map(|level| drop_if(level, meets)).sum();
        let l2 = self.l2.iter_mut().map(|level| drop_if(level, meets)).sum();
        self.add("l1_invalidations", l1);
        self.add("l2_invalidations", l2);
    }

    /// The process ended.
    pub fn gone(&mut self, asid: u32) {
        self.mapped.retain(|key, _| key.0 != asid);
        self.changed(asid, 0, u64::MAX);
    }

    /// OY-4.
    pub fn switch(&mut self, core: usize, to: u32) {
        if self.running[core].replace(to) != Some(to) && !self.config.process_ids {
            let second = if self.config.l2_shared { 0 } else { core };
            self.l1[core].iter_mut().chain([&mut self.l2[second]]).for_each(|level| {
                drop_if(level, |_| true);
            });
        }
    }

    /// A lookup of a fetch or of data on a core, in a page that is mapped.
    pub fn lookup(&mut self, core: usize, asid: u32, vpn: u64, fetch: bool) -> Answer {
        self.switch(core, asid);
        let order =
            [0, 9, 18].into_iter().find(|&order| self.mapped.get(&(asid, vpn >> order << order)) == Some(&order));
        let order = order.expect("the page is mapped");
        let first = &mut self.l1[core][usize::from(!fetch)];
        let second = &mut self.l2[if self.config.l2_shared { 0 } else { core }];
        if hit(first, asid, vpn) {
            self.add("l1_hits", 1);
            return Answer::L1;
        }
        let answer = if hit(second, asid, vpn) { Answer::L2 } else { Answer::Walk };
        if answer == Answer::Walk {
            fill(second, asid, vpn, order);
        }
        fill(first, asid, vpn, order);
        self.add(if answer == Answer::L2 { "l2_hits" } else { "walks" }, 1);
        if answer == Answer::L2 {
            self.add("hops", hops(self.config.cores as u64, core as u64, vpn));
        }
        answer
    }

    /// SLL-3: cycles of the hits in the second level. `sll_extra`: cycles of each, and of each hop there and back.
    pub fn price(&self, l2_hit_cycles: u64, sll_extra: u64, hop: u64) -> u64 {
        self.counts["l2_hits"] * (l2_hit_cycles + sll_extra) + 2 * self.counts["hops"] * hop
    }

    /// All entries of the second level.
    pub fn second(&self) -> Vec<Entry> {
        let arrays = self.l2.iter().flatten();
        let mut all: Vec<Entry> = arrays.flat_map(|(_, sets)| sets.all().copied()).collect();
        all.sort_unstable();
        all
    }
}

fn apart(a: u64, pages: u64, b: u64, others: u64) -> bool {
    a.saturating_add(pages) <= b || b.saturating_add(others) <= a
}

/// OY-5.
pub fn hops(cores: u64, core: u64, vpn: u64) -> u64 {
    let side = (1..).find(|side| side * side >= cores).unwrap();
    let slice = vpn % cores;
    (core / side).abs_diff(slice / side) + (core % side).abs_diff(slice % side)
}

#[cfg(test)]
mod tests;
