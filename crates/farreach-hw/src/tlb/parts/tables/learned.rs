//! A learned page table (LVM; MICRO 2025): a line through the mapped pages of a region predicts the place of an entry,
//! so that most walks read one line of memory.
//!
//! The rules are few, so these are choices:
//!
//! * Each page size has models of its own. A walk searches the sizes of which the process has pages in the region, the
//!   smallest first. Which regions these are the walker knows.
//! * A region is `lv_pages` pages of its size, aligned. It is divided into parts of equal size, each with a model and
//!   an array: the least power of two of parts whose lines fit. So the models have a depth of two if there are
//!   several, else of one. Parts of eight pages always fit.
//! * The line of a part rises by `lv_gaps` slots for each of its mapped pages, from the first to the last. A slot has 8
//!   bytes, with the tag in unused bits, as HT-1. A page is put into the free slot nearest to the predicted one, at
//!   most `lv_error` slots away; while a region is fitted, page after page, into the first that is free from there on.
//! * If there is no such slot, the region is fitted anew (LV-2). If it is outside the array, this one at least doubles
//!   its slots and keeps its line, unless it would have more than twice the gaps: then the region is fitted.
//! * A walk reads the line of memory with the predicted slot, then the other lines that have slots near enough, the
//!   nearest first. Each is a step.
//! * A node of a model has 32 bytes. Nodes are read one after the other, and stay in the walk cache until they change.

use super::memory::{COLLISIONS, LINE, MOVES, ORDERS, OWN, PTE, RESIZES, WRITES, counted, gave, took};
use super::{ListedTable, Mapping, Places, Reads, Table, TableLaw};
use crate::tlb::parts::additions::Counter;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::counts::OwnCounts;
use farreach_types::params::{Allowed, Key, Params};
use std::collections::BTreeMap;

/// LV-1.
pub const LV_PAGES: Key = Key {
    name: "lv_pages",
    default: "16384",
    allowed: Allowed::PowerOfTwo { min: SMALLEST, max: 1 << 20 },
    about: "table = learned: pages of a region, and of a model at most",
};
/// LV-1.
pub const LV_GAPS: Key = Key {
    name: "lv_gaps",
    default: "1.3",
    allowed: Allowed::Number { min: 1.0, max: 4.0 },
    about: "table = learned: slots for each page that is mapped when a model is fitted",
};
/// LV-2.
pub const LV_ERROR: Key = Key {
    name: "lv_error",
    default: "8",
    allowed: Allowed::Int { min: 1, max: 256 },
    about: "table = learned: slots between the predicted one and that of the page, at most",
};
/// LV-1.
pub const LV_CACHE: Key = Key {
    name: "lv_cache",
    default: "16",
    allowed: Allowed::Int { min: 0, max: 4096 },
    about: "table = learned: nodes of models in the walk cache",
};

/// The table as the registry knows it.
pub const LISTED: ListedTable = ListedTable {
    name: "learned",
    about: "lines through the mapped pages that predict where an entry is (LVM)",
    keys: &[&LV_PAGES, &LV_GAPS, &LV_ERROR, &LV_CACHE],
    counters: counted! {
        moves: "entries that were moved because a region was fitted anew or an array grew",
        collisions: "lines of memory that demand walks read behind the first of their size",
        Counter::new("refits", "times that a region was fitted anew because a page had no slot near enough"),
        Counter::new("nodes", "nodes of models that demand walks read"),
        Counter::new("lines", "lines of entries that demand walks read"),
    },
    laws: &[TableLaw {
        name: "LV-1: references are nodes and lines",
        sides: |part, _| (part.memory.made.references, part.counters.get("nodes") + part.counters.get("lines")),
    }],
    build: |params, _| Ok(Box::new(Learned::new(params))),
    ..ListedTable::NEW
};

const REFITS: usize = OWN;
const NODES: usize = OWN + 1;
const LINES: usize = OWN + 2;

/// Pages of a part that always fits.
const SMALLEST: u64 = 8;
/// Bytes of a node.
const NODE: u64 = 32;
/// Slots in a line of memory.
const SLOTS: u64 = LINE / PTE;
/// Bits behind the point of a slope.
const POINT: u32 = 32;
/// What a free slot has in the place of a page.
const FREE: u64 = u64::MAX;

/// A node of a model, as the walk cache knows it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Node {
    asid: Asid,
    order: u8,
    first: u64,
    pages: u64,
}

/// The walk cache.
struct Cache {
    /// The latest first.
    nodes: Vec<Node>,
    most: usize,
}

/// The line of a part, and its array.
#[derive(Default)]
struct Model {
    /// The first page of the part.
    first: u64,
    /// Slots a page, in fixed point.
    slope: u64,
    /// The slot at which the array begins, the first of a line of memory.
    low: u64,
    /// The pages in the slots, whole lines of memory.
    slots: Vec<u64>,
    live: u64,
    /// Where the array lies in memory.
    base: u64,
}

/// What an array needs for a page.
enum Room {
    Slot(u64),
    /// Lines of memory around this slot.
    Growth(u64),
    /// Another line through the pages.
    Refit,
}

/// A region of one process and page size.
struct Region {
    /// Where its node lies, and where the nodes of its parts do if there are several.
    node: u64,
    nodes: u64,
    /// A power of two.
    parts: Vec<Model>,
}

/// See the module.
struct Learned {
    /// By process, order, and number of the region.
    regions: BTreeMap<(Asid, u8, u64), Region>,
    places: Places,
    cache: Cache,
    shape: Shape,
}

/// The keys.
#[derive(Clone, Copy)]
struct Shape {
    pages: u64,
    /// In fixed point.
    gaps: u64,
    error: u64,
}

impl Cache {
    /// Whether it has the node, which is then the latest.
    fn touch(&mut self, node: Node) -> bool {
        let place = self.nodes.iter().position(|other| *other == node);
        if let Some(place) = place {
            self.nodes[..=place].rotate_right(1);
        }
        place.is_some()
    }

    fn add(&mut self, node: Node) {
        if self.most > 0 {
            self.nodes.truncate(self.most - 1);
            self.nodes.insert(0, node);
        }
    }

    /// This node and all below it changed.
    fn drop(&mut self, of: Node) {
        let below = |node: &Node| {
            let pages = of.first..of.first + of.pages;
            (node.asid, node.order) == (of.asid, of.order) && pages.contains(&node.first) && node.pages <= of.pages
        };
        self.nodes.retain(|node| !below(node));
    }
}

impl Model {
    fn empty(first: u64, slope: u64) -> Model {
        Model { first, slope, ..Model::default() }
    }

    /// A line through these pages, in order, if it comes near enough to all. A `direct` one comes to each exactly.
    fn fitted(first: u64, pages: &[u64], direct: bool, shape: Shape) -> Option<Model> {
        let (Some(&least), Some(&most)) = (pages.first(), pages.last()) else {
            return Some(Model::empty(first, shape.gaps));
        };
        let slope = if direct { shape.gaps } else { shape.gaps * pages.len() as u64 / (most - least + 1) };
        let mut model = Model::empty(first, slope);
        let (mut places, mut next) = (Vec::with_capacity(pages.len()), 0);
        for &page in pages {
            let predicted = model.predict(page);
            let slot = predicted.max(next);
            if slot - predicted > shape.error {
                return None;
            }
            places.push(slot);
            next = slot + 1;
        }
        model.low = places[0] / SLOTS * SLOTS;
        model.slots = vec![FREE; (next.next_multiple_of(SLOTS) - model.low) as usize];
        places.iter().zip(pages).for_each(|(slot, page)| model.slots[(slot - model.low) as usize] = *page);
        model.live = pages.len() as u64;
        Some(model)
    }

    fn bytes(&self) -> u64 {
        self.slots.len() as u64 * PTE
    }

    /// The slot behind its array.
    fn end(&self) -> u64 {
        self.low + self.slots.len() as u64
    }

    /// LV-1.
    fn predict(&self, page: u64) -> u64 {
        ((page - self.first) * self.slope) >> POINT
    }

    /// What a slot has, if the array reaches it.
    fn at(&self, slot: u64) -> Option<u64> {
        self.slots.get(slot.checked_sub(self.low)? as usize).copied()
    }

    /// The slot of a page that is mapped, or none. Passes on the address of each line of memory that is read.
    fn find(&self, page: u64, error: u64, mut read: impl FnMut(u64)) -> Option<u64> {
        let predicted = self.predict(page);
        let first = predicted.saturating_sub(error).max(self.low) / SLOTS;
        let behind = (predicted + error + 1).min(self.end()).div_ceil(SLOTS);
        let mut lines: Vec<u64> = (first..behind).map(|line| line * SLOTS).collect();
        lines.sort_by_key(|&line| (line.saturating_sub(predicted)).max(predicted.saturating_sub(line + SLOTS - 1)));
        lines.into_iter().find_map(|line| {
            read(self.base + (line - self.low) * PTE);
            (line..line + SLOTS).find(|&slot| self.at(slot) == Some(page))
        })
    }

    /// Where a page that is not there can be put.
    fn room(&self, page: u64, shape: Shape) -> Room {
        let predicted = self.predict(page);
        let near = (0..=shape.error).flat_map(|d| [Some(predicted + d), predicted.checked_sub(d)]).flatten();
        let Some(slot) = near.into_iter().find(|&slot| self.at(slot).is_none_or(|page| page == FREE)) else {
            return Room::Refit;
        };
        if self.at(slot).is_some() {
            return Room::Slot(slot);
        }
        let line = slot / SLOTS * SLOTS;
        let needs = if self.live == 0 { SLOTS } else { self.end().max(line + SLOTS) - self.low.min(line) };
        let allowed = (2 * shape.gaps * (self.live + 1)) >> POINT;
        if needs <= allowed + 2 * SLOTS { Room::Growth(slot) } else { Room::Refit }
    }

    /// Lengthens the array so that it has this slot.
    fn grow(&mut self, slot: u64) {
        let line = slot / SLOTS * SLOTS;
        if self.slots.is_empty() {
            self.low = line;
            self.slots = vec![FREE; SLOTS as usize];
        } else if slot >= self.end() {
            let many = (2 * self.slots.len() as u64).max(line + SLOTS - self.low);
            self.slots.resize(many as usize, FREE);
        } else {
            let low = line.min(self.low.saturating_sub(self.slots.len() as u64));
            let more = vec![FREE; (self.low - low) as usize];
            self.slots.splice(0..0, more);
            self.low = low;
        }
    }

    fn put(&mut self, slot: u64, page: u64) {
        self.slots[(slot - self.low) as usize] = page;
        self.live += 1;
    }

    fn pages(&self) -> impl Iterator<Item = u64> {
        self.slots.iter().copied().filter(|page| *page != FREE)
    }
}

impl Region {
    fn new(first: u64, shape: Shape, places: &mut Places) -> Region {
        Region { node: places.take(NODE, NODE), nodes: 0, parts: vec![Model::empty(first, shape.gaps)] }
    }

    /// The place of the part of a page.
    fn part(&self, page: u64, shape: Shape) -> usize {
        ((page % shape.pages) / self.part_pages(shape)) as usize
    }

    fn part_pages(&self, shape: Shape) -> u64 {
        shape.pages / self.parts.len() as u64
    }

    /// Bytes of its nodes, and of all arrays.
    fn pieces(&self) -> impl Iterator<Item = u64> {
        let nodes = if self.parts.len() > 1 { self.parts.len() as u64 * NODE } else { 0 };
        [NODE, nodes].into_iter().chain(self.parts.iter().map(Model::bytes)).filter(|bytes| *bytes > 0)
    }

    /// Fits lines through its pages and this one. Returns how many pages those are.
    fn refit(&mut self, page: u64, shape: Shape, places: &mut Places) -> u64 {
        let mut pages: Vec<u64> = self.parts.iter().flat_map(Model::pages).chain([page]).collect();
        pages.sort_unstable();
        let first = page - page % shape.pages;
        let fit = |many: u64| -> Option<Vec<Model>> {
            let length = shape.pages / many;
            let part = |i: u64| {
                let begin = first + i * length;
                let from = pages.partition_point(|page| *page < begin);
                let to = pages.partition_point(|page| *page < begin + length);
                Model::fitted(begin, &pages[from..to], length == SMALLEST, shape)
            };
            (0..many).map(part).collect()
        };
        let mut tries = (0..).map(|k| 1 << k).take_while(|many| shape.pages / many >= SMALLEST);
        self.parts = tries.find_map(fit).expect("parts of eight pages always fit");
        let many = self.parts.len() as u64;
        self.nodes = if many > 1 { places.take(many * NODE, LINE) } else { 0 };
        for part in self.parts.iter_mut().filter(|part| part.live > 0) {
            part.base = places.take(part.bytes(), LINE);
        }
        pages.len() as u64
    }
}

impl Learned {
    fn new(params: &Params) -> Learned {
        Learned {
            regions: BTreeMap::new(),
            places: Places::of(params),
            cache: Cache { nodes: Vec::new(), most: params.int(LV_CACHE.name) as usize },
            shape: Shape {
                pages: params.int(LV_PAGES.name),
                gaps: (params.number(LV_GAPS.name) * (1u64 << POINT) as f64) as u64,
                error: params.int(LV_ERROR.name),
            },
        }
    }

    /// The region of a page, the page in its size, and the node of the region.
    fn place(&self, asid: Asid, vpn: Vpn, order: u8) -> ((Asid, u8, u64), u64, Node) {
        let (page, pages) = (vpn.0 >> order, self.shape.pages);
        ((asid, order, page / pages), page, Node { asid, order, first: page / pages * pages, pages })
    }
}

impl Table for Learned {
    fn map(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        let (key, page, node) = self.place(mapping.asid, mapping.vpn, mapping.order);
        let Learned { regions, places, cache, shape, .. } = self;
        let region = regions.entry(key).or_insert_with(|| {
            took(own, NODE);
            Region::new(node.first, *shape, places)
        });
        *own.at(WRITES) += 1;
        let (place, pages) = (region.part(page, *shape), region.part_pages(*shape));
        let part = &mut region.parts[place];
        match part.room(page, *shape) {
            Room::Slot(slot) => part.put(slot, page),
            Room::Growth(slot) => {
                let old = part.bytes();
                part.grow(slot);
                part.base = places.take(part.bytes(), LINE);
                took(own, part.bytes());
                gave(own, old);
                *own.at(RESIZES) += u64::from(old > 0);
                *own.at(MOVES) += part.live;
                cache.drop(Node { first: part.first, pages, ..node });
                part.put(slot, page);
            }
            Room::Refit => {
                let old: u64 = region.pieces().sum();
                *own.at(MOVES) += region.refit(page, *shape, places) - 1;
                region.pieces().for_each(|bytes| took(own, bytes));
                gave(own, old);
                *own.at(RESIZES) += 1;
                *own.at(REFITS) += 1;
                cache.drop(node);
            }
        }
    }

    fn unmap(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        let (key, page, node) = self.place(mapping.asid, mapping.vpn, mapping.order);
        let shape = self.shape;
        *own.at(WRITES) += 1;
        let region = self.regions.get_mut(&key).expect("it has the mapping");
        let (place, pages) = (region.part(page, shape), region.part_pages(shape));
        let part = &mut region.parts[place];
        let slot = part.find(page, shape.error, |_| ()).expect("it has the mapping");
        part.slots[(slot - part.low) as usize] = FREE;
        part.live -= 1;
        if part.live > 0 {
            return;
        }
        gave(own, part.bytes());
        *part = Model::empty(part.first, shape.gaps);
        self.cache.drop(Node { first: part.first, pages, ..node });
        if region.parts.iter().all(|part| part.live == 0) {
            gave(own, region.pieces().sum());
            self.regions.remove(&key);
            self.cache.drop(node);
        }
    }

    /// Its regions went with their pages.
    fn gone(&mut self, asid: Asid, _: &mut OwnCounts) {
        let mut its = self.regions.range((asid, 0, 0)..(Asid(asid.0 + 1), 0, 0));
        debug_assert!(its.next().is_none(), "{asid:?} has pages");
    }

    fn switch(&mut self, _: Asid, process_ids: bool) {
        if !process_ids {
            self.cache.nodes.clear();
        }
    }

    /// LV-1.
    fn walk(&mut self, asid: Asid, vpn: Vpn, mapping: Option<Mapping>, reads: &mut Reads) {
        for order in ORDERS {
            let (key, page, node) = self.place(asid, vpn, order);
            let Learned { regions, cache, shape, .. } = self;
            let Some(region) = regions.get(&key) else { continue };
            let place = region.part(page, *shape);
            let part = &region.parts[place];
            let leaf = Node { first: part.first, pages: region.part_pages(*shape), ..node };
            if !cache.touch(leaf) {
                let several = leaf != node;
                let mut read = |cache: &mut Cache, node, address| {
                    reads.step(&[address]);
                    reads.count(NODES, 1);
                    cache.add(node);
                };
                if several && !cache.touch(node) {
                    read(cache, node, region.node);
                }
                read(cache, leaf, if several { region.nodes + place as u64 * NODE } else { region.node });
            }
            if part.live == 0 {
                continue;
            }
            let mut many = 0;
            let found = part.find(page, shape.error, |address| {
                many += 1;
                reads.step(&[address]);
            });
            reads.count(LINES, many);
            reads.count(COLLISIONS, many.saturating_sub(1));
            if found.is_some() {
                debug_assert_eq!(mapping.map(|m| m.order), Some(order), "XC-3: {asid:?} {vpn:?}");
                return;
            }
        }
        debug_assert_eq!(mapping, None, "XC-3: {asid:?} {vpn:?} is mapped, and the walk did not find it");
    }

    #[cfg(test)]
    fn bytes(&self) -> u64 {
        self.regions.values().flat_map(Region::pieces).sum()
    }

    fn check(&self, mappings: &mut dyn Iterator<Item = Mapping>) {
        let mut many = 0;
        for mapping in mappings {
            let (key, page, _) = self.place(mapping.asid, mapping.vpn, mapping.order);
            let region = &self.regions[&key];
            let part = &region.parts[region.part(page, self.shape)];
            assert!(part.find(page, self.shape.error, |_| ()).is_some(), "{mapping:?} is not found");
            many += 1;
        }
        let parts = || self.regions.values().flat_map(|region| &region.parts);
        assert!(parts().all(|part| part.live == part.pages().count() as u64));
        assert_eq!(parts().map(|part| part.live).sum::<u64>(), many, "pages in the table, and pages that are mapped");
    }
}

#[cfg(test)]
mod tests;
