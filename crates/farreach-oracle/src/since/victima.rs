//! Victima: lines of the L2 cache that hold translations (VIC-1 to VIC-6). The cache itself is behind a trait.
//!
//! A miss of the last level calls [`PlainVictima::missed`]; if that says no, the caller walks and calls
//! [`PlainVictima::walked`]. What the second level evicts goes to [`PlainVictima::evicted`], and a line that the cache
//! evicts to [`PlainVictima::left`]. Choices where the rules are silent:
//!
//! * OB-40 Frequency and cost are raised before the end of the same walk asks for them. Background walks raise neither.
//! * OB-41 Mappings of 1 GB have no lines. An entry of the page table that is changed loses its counters.
//! * OB-42 A walk for a page whose line is there without it reads all 8 entries into the line again. That is no
//!   insertion, but a use.
//! * OB-43 A line counts as invalidated when its last translation goes. The end of a process, and a switch without
//!   `process_ids`, drop its lines and count each.
//! * OB-44 The caller says whether the cache misses more than `vic_bypass_mpki`, and the cache knows by itself whether
//!   the second level does (VIC-5).
//! * OB-45 The order at a miss is walk, insertion, then the eviction of the second level.

use std::collections::{BTreeMap, BTreeSet};

pub mod cache;
#[cfg(test)]
mod tests;

/// VIC-1: a TLB line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Line {
    pub asid: u32,
    /// Log2 of the base pages of each translation: 0 or 9.
    pub order: u8,
    /// Page in units of its size, div 8.
    pub block: u64,
}

impl Line {
    fn of(asid: u32, vpn: u64, order: u8) -> Line {
        Line { asid, order, block: (vpn >> order) / 8 }
    }

    /// First base pages of its 8 translations.
    fn pages(self) -> impl Iterator<Item = u64> {
        (0..8).map(move |i| (8 * self.block + i) << self.order)
    }
}

/// The page table and the cache.
pub trait World {
    /// First base page of the mapping, log2 of its pages.
    fn mapping(&self, asid: u32, vpn: u64) -> Option<(u64, u8)>;
    /// VIC-3, at an eviction from the second level.
    fn background_walk(&mut self, asid: u32, vpn: u64);
    /// VIC-3: the line of entries for these pages becomes a TLB line. A TLB line that left for it.
    fn insert(&mut self, line: Line) -> Option<Line>;
    /// VIC-2: a hit.
    fn used(&mut self, line: Line);
    /// VIC-6: the line is invalid.
    fn dropped(&mut self, line: Line);
}

/// VIC-4: `vic_frequency_at`, `vic_cost_at`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VictimaConfig {
    pub frequency_at: u64,
    pub cost_at: u64,
}

/// The model.
pub struct PlainVictima {
    config: VictimaConfig,
    /// First base pages of the translations in each line.
    lines: BTreeMap<Line, BTreeSet<u64>>,
    /// VIC-4: frequency and cost, by process, first base page and order of an entry.
    counters: BTreeMap<(u32, u64, u8), (u64, u64)>,
    running: Option<u32>,
    /// VIC-4, OB-44: all pages count as costly.
    pub bypass: bool,
    counts: BTreeMap<&'static str, u64>,
}

impl PlainVictima {
    pub fn new(config: VictimaConfig) -> PlainVictima {
        assert!(config.frequency_at < 8 && config.cost_at < 16, "HW-13");
        let names = ["hits", "inserted", "evicted", "invalidated", "background_walks"];
        PlainVictima {
            config,
            lines: BTreeMap::new(),
            counters: BTreeMap::new(),
            running: None,
            bypass: false,
            counts: names.map(|name| (name, 0)).into(),
        }
    }

    fn add(&mut self, name: &'static str, n: u64) {
        *self.counts.entry(name).or_default() += n;
    }

    /// VIC-2. True if a line answered, which spares the walk.
    pub fn missed(&mut self, asid: u32, vpn: u64, world: &mut dyn World) -> bool {
        self.running = Some(asid);
        for order in [0, 9] {
            let line = Line::of(asid, vpn, order);
            if self.lines.get(&line).is_some_and(|pages| pages.contains(&(vpn >> order << order))) {
                self.add("hits", 1);
                world.used(line);
                return true;
            }
        }
        false
    }

    fn costly(&self, asid: u32, first: u64, order: u8) -> bool {
        let (frequency, cost) = self.counters.get(&(asid, first, order)).copied().unwrap_or_default();
        self.bypass || frequency >= self.config.frequency_at && cost >= self.config.cost_at
    }

    fn read(&mut self, line: Line, world: &mut dyn World) {
        let valid = line.pages().filter(|page| world.mapping(line.asid, *page) == Some((*page, line.order))).collect();
        if self.lines.insert(line, valid).is_some() {
            return world.used(line);
        }
        self.add("inserted", 1);
        if let Some(gone) = world.insert(line) {
            self.left(gone);
        }
    }

    /// VIC-3, VIC-4: a demand walk for this base page is over; whether it read memory.
    pub fn walked(&mut self, asid: u32, vpn: u64, memory: bool, world: &mut dyn World) {
        let (first, order) = world.mapping(asid, vpn).expect("faults are handled before walks (HW-10)");
        let counters = self.counters.entry((asid, first, order)).or_default();
        counters.0 = 7.min(counters.0 + 1);
        counters.1 = 15.min(counters.1 + u64::from(memory));
        if order < 18 && self.costly(asid, first, order) {
            self.read(Line::of(asid, vpn, order), world);
        }
    }

    /// VIC-3: the second level evicted the entry with this first base page.
    pub fn evicted(&mut self, asid: u32, vpn: u64, world: &mut dyn World) {
        let Some((first, order)) = world.mapping(asid, vpn) else { return };
        let line = Line::of(asid, vpn, order);
        if order < 18 && self.costly(asid, first, order) && !self.lines.contains_key(&line) {
            self.add("background_walks", 1);
            world.background_walk(asid, first);
            self.read(line, world);
        }
    }

    /// The cache evicted a TLB line.
    pub fn left(&mut self, line: Line) {
        self.lines.remove(&line).expect("the cache had it");
        self.add("evicted", 1);
    }

    fn keep(&mut self, stays: impl Fn(u32, u64, u64) -> bool, world: &mut dyn World) {
        for (line, pages) in &mut self.lines {
            pages.retain(|page| stays(line.asid, *page, 1 << line.order));
        }
        let empty: Vec<Line> = self.lines.iter().filter(|(_, pages)| pages.is_empty()).map(|(line, _)| *line).collect();
        for line in empty {
            self.lines.remove(&line);
            self.add("invalidated", 1);
            world.dropped(line);
        }
    }

    /// VIC-6: these base pages were unmapped, moved, or changed otherwise.
    pub fn changed(&mut self, asid: u32, first: u64, pages: u64, world: &mut dyn World) {
        let meets = |a, page, n| a == asid && page < first.saturating_add(pages) && first < page + n;
        self.keep(|a, page, n| !meets(a, page, n), world);
        self.counters.retain(|(a, page, order), _| !meets(*a, *page, 1 << order));
    }

    /// The process ended.
    pub fn gone(&mut self, asid: u32, world: &mut dyn World) {
        self.keep(|a, _, _| a != asid, world);
        self.counters.retain(|(a, ..), _| *a != asid);
    }

    /// HW-9.
    pub fn switch(&mut self, to: u32, process_ids: bool, world: &mut dyn World) {
        if self.running.replace(to) != Some(to) && !process_ids {
            self.keep(|_, _, _| false, world);
        }
    }

    /// `hits`, `inserted`, `evicted`, `invalidated`, `resident` (lines), `background_walks`.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = self.counts.clone();
        counts.insert("resident", self.lines.len() as u64);
        counts
    }

    /// The TLB lines.
    pub fn lines(&self) -> Vec<Line> {
        self.lines.keys().copied().collect()
    }
}
