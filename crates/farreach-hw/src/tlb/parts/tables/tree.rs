//! A radix tree of which every node is known: how many entries it has, where it is, and whether it is two levels in one
//! (FL-1). With the caches of a walker, as [`crate::tlb::parts::hierarchy::walker`] has them.

use super::memory::{MOVES, PTE, gave, took};
use super::{Mapping, Places, Reads, mix};
use crate::tlb::filter::Unfiltered;
use crate::tlb::parts::hierarchy::nodes::{Pointer, RADIX};
use crate::tlb::parts::hierarchy::walk::{PWC_PD, PWC_PDPT, PWC_PML4, PWC_PML5, WALK_LEVELS};
use crate::tlb::parts::store::Store;
use crate::tlb::parts::store::geometry::Geometry;
use crate::tlb::parts::store::tag_index::Tag;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::counts::{OwnCounts, TlbCounts};
use farreach_types::params::{Params, SEED};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// The most levels.
pub(super) const LEVELS: usize = 5;

/// Entries of a node of one level.
const FAN: usize = 1 << RADIX;

/// A node, by process, level of its entries (the upper of two), and the part of the page number that leads to it.
type Key = (Asid, u8, u64);

struct Node {
    at: u64,
    /// Entries in use.
    entries: u32,
    /// In a node of two levels: entries in use by entry of the upper.
    parts: Option<Box<[u16; FAN]>>,
}

/// Which levels are merged.
pub(super) struct Merging {
    /// By upper level, from that of base pages on.
    pub pairs: [bool; LEVELS],
    /// Share of nodes that are (FL-2).
    pub fraction: f64,
    /// None with superpages, whose entries would be copies (FL-4).
    pub split: bool,
}

impl Merging {
    /// No levels are.
    pub const NONE: Merging = Merging { pairs: [false; LEVELS], fraction: 0.0, split: false };
}

/// The entries on the way to a page, from the root on: level (the lower of two) and address.
pub(super) struct Path {
    entries: [(u8, u64); LEVELS],
    many: usize,
}

impl Path {
    /// The entry at its end.
    pub fn last(&mut self) -> Option<&mut (u8, u64)> {
        self.entries[..self.many].last_mut()
    }
}

/// See the module.
pub(super) struct Tree {
    levels: u8,
    merging: Merging,
    seed: u64,
    /// Whether it has the nodes with the entries of base pages; else these are elsewhere, and here only counted.
    has_leaves: bool,
    nodes: HashMap<Key, Node, FixedState>,
    places: Places,
    /// Memory given back, in nodes of one level and of two.
    free: [Vec<u64>; 2],
    /// By level of the entries in them, from 1.
    caches: Vec<Option<Store<Pointer>>>,
    ignored_report: Unfiltered,
}

impl Tree {
    pub fn new(params: &Params, merging: Merging, has_leaves: bool) -> Result<Tree, String> {
        let seed = params.int(SEED.name);
        let cache = |level: u8| {
            let key = [&PWC_PD, &PWC_PDPT, &PWC_PML4, &PWC_PML5][usize::from(level) - 1];
            let entries = params.int(key.name);
            // The generators are those of the walker that stands aside.
            let build = |g| Store::new(g, params, seed.wrapping_add(32 + u64::from(level)));
            (entries > 0).then(|| build(Geometry::new(entries, 0)?)).transpose()
        };
        let levels = params.int(WALK_LEVELS.name) as u8;
        Ok(Tree {
            levels,
            merging,
            seed,
            has_leaves,
            nodes: HashMap::default(),
            places: Places::of(params),
            free: [Vec::new(), Vec::new()],
            caches: (1..levels).map(cache).collect::<Result<_, _>>()?,
            ignored_report: Unfiltered::unread(),
        })
    }

    fn key(asid: Asid, level: u8, vpn: Vpn) -> Key {
        (asid, level, vpn.0 >> (RADIX * (level + 1)))
    }

    fn root(&self) -> u8 {
        self.levels - 1
    }

    /// Bytes of a node (FL-5).
    fn node_bytes(&self, level: u8, is_merged: bool) -> u64 {
        match (level, is_merged) {
            (_, true) => PTE << (2 * RADIX),
            (0, false) if !self.has_leaves => 0,
            _ => PTE << RADIX,
        }
    }

    fn allocate(&mut self, level: u8, is_merged: bool, own: &mut OwnCounts) -> u64 {
        took(own, self.node_bytes(level, is_merged));
        let size = PTE << (RADIX * (1 + u8::from(is_merged)));
        self.free[usize::from(is_merged)].pop().unwrap_or_else(|| self.places.take(size, size))
    }

    fn release(&mut self, level: u8, node: &Node, own: &mut OwnCounts) {
        let is_merged = node.parts.is_some();
        gave(own, self.node_bytes(level, is_merged));
        self.free[usize::from(is_merged)].push(node.at);
    }

    /// Whether a new node is to be two levels in one, for a mapping with its leaf at this level (FL-2, FL-4).
    fn merges(&self, (asid, level, index): Key, leaf: u8) -> bool {
        let drawn = || (mix(u64::from(asid.0) << 52 ^ index, self.seed) >> 11) as f64 / (1_u64 << 53) as f64;
        self.merging.pairs[usize::from(level)]
            && !(self.merging.split && leaf == level)
            && drawn() < self.merging.fraction
    }

    /// Of the entry that a node has for a mapping or on the way to it: its level, and its place in the upper level.
    fn entry(node: &Node, level: u8, vpn: Vpn) -> (u8, usize) {
        (level - u8::from(node.parts.is_some()), (vpn.0 >> (RADIX * level)) as usize & (FAN - 1))
    }

    /// Adds a mapping, with its nodes. Returns the entries that were written at its end.
    pub fn map(&mut self, mapping: Mapping, own: &mut OwnCounts) -> u64 {
        let Mapping { asid, vpn, order } = mapping;
        let leaf = order / RADIX;
        let mut level = self.root();
        let mut above: Option<(Key, usize)> = None;
        loop {
            let key = Tree::key(asid, level, vpn);
            if !self.nodes.contains_key(&key) {
                let is_merged = self.merges(key, leaf);
                let at = self.allocate(level, is_merged, own);
                self.nodes.insert(key, Node { at, entries: 0, parts: is_merged.then(|| Box::new([0; FAN])) });
                if let Some((above, part)) = above {
                    self.count(above, part, 1);
                }
            } else if self.merging.split && leaf == level && self.nodes[&key].parts.is_some() {
                self.split(key, own);
            }
            let (entry, part) = Tree::entry(&self.nodes[&key], level, vpn);
            if entry <= leaf {
                // FL-4: in a merged node a superpage has an entry for each page that it could have there.
                let copies: u64 = 1 << (RADIX * (leaf - entry));
                self.count(key, part, copies as i64);
                return copies;
            }
            above = Some((key, part));
            level = entry - 1;
        }
    }

    /// Removes a mapping, with the nodes that are empty then, but for the root. Returns the entries that were written
    /// at its end.
    pub fn unmap(&mut self, mapping: Mapping, own: &mut OwnCounts) -> u64 {
        let Mapping { asid, vpn, order } = mapping;
        let leaf = order / RADIX;
        let mut way: [Option<(Key, usize)>; LEVELS] = [None; LEVELS];
        let (mut level, mut many) = (self.root(), 0);
        let copies: u64 = loop {
            let key = Tree::key(asid, level, vpn);
            let (entry, part) = Tree::entry(&self.nodes[&key], level, vpn);
            way[many] = Some((key, part));
            many += 1;
            if entry <= leaf {
                break 1 << (RADIX * (leaf - entry));
            }
            level = entry - 1;
        };
        let mut less = copies as i64;
        for (key, part) in way[..many].iter().rev().flatten().copied() {
            self.count(key, part, -less);
            if self.nodes[&key].entries > 0 || key.1 == self.root() {
                break;
            }
            let node = self.nodes.remove(&key).expect("it was just there");
            self.release(key.1, &node, own);
            less = 1;
        }
        copies
    }

    /// A node has more or fewer entries.
    fn count(&mut self, key: Key, part: usize, more: i64) {
        let node = self.nodes.get_mut(&key).expect("it is there");
        node.entries = (i64::from(node.entries) + more) as u32;
        if let Some(parts) = &mut node.parts {
            parts[part] = (i64::from(parts[part]) + more) as u16;
        }
    }

    /// Makes a node of two levels nodes of one each.
    fn split(&mut self, key: Key, own: &mut OwnCounts) {
        let (asid, level, index) = key;
        let node = self.nodes.remove(&key).expect("it is there");
        let parts = node.parts.as_ref().expect("it has two levels");
        *own.at(MOVES) += u64::from(node.entries);
        let mut entries = 0;
        for (i, &of_part) in parts.iter().enumerate().filter(|(_, of_part)| **of_part > 0) {
            let at = self.allocate(level - 1, false, own);
            let below = (asid, level - 1, index << RADIX | i as u64);
            self.nodes.insert(below, Node { at, entries: of_part.into(), parts: None });
            entries += 1;
        }
        let at = self.allocate(level, false, own);
        self.nodes.insert(key, Node { at, entries, parts: None });
        self.release(level, &node, own);
    }

    /// The address space ended, and has no mappings any more.
    pub fn gone(&mut self, asid: Asid, own: &mut OwnCounts) {
        self.forget(asid);
        if let Some(node) = self.nodes.remove(&(asid, self.root(), 0)) {
            self.release(self.root(), &node, own);
        }
    }

    /// The way to a page: to its leaf, or to the first entry that is absent.
    pub fn path(&self, asid: Asid, vpn: Vpn, mapping: Option<Mapping>) -> Path {
        let leaf = mapping.map_or(0, |mapping| mapping.order / RADIX);
        let mut path = Path { entries: [(0, 0); LEVELS], many: 0 };
        let mut level = self.root();
        while let Some(node) = self.nodes.get(&Tree::key(asid, level, vpn)) {
            let (entry, _) = Tree::entry(node, level, vpn);
            let levels = level - entry + 1;
            let index = vpn.0 >> (RADIX * entry) & ((1 << (RADIX * levels)) - 1);
            path.entries[path.many] = (entry, node.at + index * PTE);
            path.many += 1;
            if entry <= leaf {
                break;
            }
            level = entry - 1;
        }
        path
    }

    /// Walks along a path (FL-3): from the deepest cached entry on. Entries that were read are cached, top first,
    /// except the last. Returns whether an entry was cached.
    pub fn walk(&mut self, asid: Asid, vpn: Vpn, path: &Path, reads: &mut Reads) -> bool {
        let Tree { caches, ignored_report, .. } = self;
        let Some((last, above)) = path.entries[..path.many].split_last() else { return false };
        let tag = |level: u8| Tag::of(asid, vpn, RADIX * level);
        let mut from = 0;
        for (i, &(level, _)) in above.iter().enumerate().rev() {
            let Some(cache) = &mut caches[usize::from(level) - 1] else { continue };
            if let Some(slot) = cache.find(tag(level)) {
                cache.touch(slot, 0, ignored_report);
                from = i + 1;
                break;
            }
        }
        // A cached entry has the system address of the node it leads to.
        let read = |reads: &mut Reads, i, address| match from > 0 && i == from {
            true => reads.known(&[address]),
            false => reads.step(&[address]),
        };
        for (i, &(level, address)) in above.iter().enumerate().skip(from) {
            read(reads, i, address);
            if let Some(cache) = &mut caches[usize::from(level) - 1] {
                cache.place(tag(level), Pointer, &mut TlbCounts::default(), ignored_report);
            }
        }
        read(reads, above.len(), last.1);
        from > 0
    }

    /// A mapping of this address space changed: all its cached entries are dropped, as with INVLPG.
    pub fn forget(&mut self, asid: Asid) {
        self.caches.iter_mut().flatten().for_each(|cache| _ = cache.drop_space(asid, &mut self.ignored_report));
    }

    /// Another address space runs.
    pub fn switch(&mut self, to: Asid) {
        self.caches.iter_mut().flatten().for_each(|cache| _ = cache.switch(to, &mut self.ignored_report));
    }

    /// Bytes of all nodes.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.nodes.iter().map(|(key, node)| self.node_bytes(key.1, node.parts.is_some())).sum()
    }

    /// Panics if it does not have exactly these mappings.
    pub fn check(&self, mappings: &mut dyn Iterator<Item = Mapping>) {
        let mut entries = self.nodes.keys().filter(|key| key.1 < self.root()).count() as u64;
        for Mapping { asid, vpn, order } in mappings {
            let mut path = self.path(asid, vpn, Some(Mapping { asid, vpn, order }));
            let (level, _) = *path.last().expect("it has a root");
            assert!(level <= order / RADIX, "{asid:?} {vpn:?} has no leaf");
            entries += 1 << (order - RADIX * level);
        }
        let in_nodes: u64 = self.nodes.values().map(|node| u64::from(node.entries)).sum();
        assert_eq!(in_nodes, entries, "entries in nodes, and nodes and pages that are mapped");
        for node in self.nodes.values() {
            let in_parts = node.parts.as_ref().map(|parts| parts.iter().map(|&part| u32::from(part)).sum::<u32>());
            assert!(in_parts.is_none_or(|sum| sum == node.entries));
        }
    }
}
