//! The radix tree, whose levels may be merged in pairs (FL-1, FL-2, FL-4).

use super::book::Pages;
use super::mix;
use std::collections::{BTreeMap, BTreeSet};

/// Shape of a tree.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Levels, 4 or 5. Level 1 has the entries of base pages.
    pub levels: u8,
    /// Pairs of merged levels, the upper first (FL-1).
    pub merged: Vec<(u8, u8)>,
    /// Share of the nodes that can be merged that are (FL-2).
    pub fraction: f64,
    /// `flatten_huge=split` (FL-4).
    pub split: bool,
    /// `seed` of FL-2.
    pub seed: u64,
}

impl Shape {
    /// A tree of conventional nodes.
    pub fn plain(levels: u8) -> Shape {
        Shape { levels, merged: Vec::new(), fraction: 1.0, split: false, seed: 0 }
    }

    /// The pairs of a value of `flatten`, such as `l4l3+l2l1`.
    pub fn pairs(flatten: &str) -> Vec<(u8, u8)> {
        let level = |text: &str, at: usize| text.as_bytes()[at] - b'0';
        flatten.split('+').filter(|pair| pair.len() == 4).map(|pair| (level(pair, 1), level(pair, 3))).collect()
    }
}

/// A node: process, its upper level, and the page div its span.
type Key = (u32, u8, u64);

struct Node {
    merged: bool,
    /// Mappings below it.
    pages: u64,
}

/// A node that a walk passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passed {
    /// The upper of its levels.
    pub top: u8,
    /// The lower of its levels: the level of its entries.
    pub low: u8,
}

/// The trees of all processes.
pub struct Radix {
    shape: Shape,
    nodes: BTreeMap<Key, Node>,
    /// Nodes that stay split (OW-26).
    apart: BTreeSet<Key>,
    /// What is mapped.
    pub pages: Pages,
    /// Entries of merged nodes that became two levels.
    pub moves: u64,
    /// Most bytes while that was done (OW-3).
    pub most: u64,
}

/// Base pages (log2) of an entry of a level.
pub fn span(level: u8) -> u32 {
    9 * u32::from(level - 1)
}

impl Radix {
    /// Without processes.
    pub fn new(shape: Shape) -> Radix {
        Radix { shape, nodes: BTreeMap::new(), apart: BTreeSet::new(), pages: Pages::default(), moves: 0, most: 0 }
    }

    fn merges(&self, key: Key) -> bool {
        let (asid, top, index) = key;
        let drawn = mix((u64::from(asid) << 52) ^ index, self.shape.seed) >> 11;
        let pair = top > 1 && self.shape.merged.contains(&(top, top - 1));
        pair && !self.apart.contains(&key) && (drawn as f64) / 2f64.powi(53) < self.shape.fraction
    }

    /// The nodes that lead to a page of this order, or to the first absent entry.
    pub fn path(&self, asid: u32, vpn: u64, order: Option<u8>) -> Vec<Passed> {
        let (mut passed, mut top) = (Vec::new(), self.shape.levels);
        loop {
            let key = (asid, top, vpn >> (span(top) + 9));
            let merged = match self.nodes.get(&key) {
                Some(node) => node.merged,
                None if top == self.shape.levels => self.merges(key),
                None => return passed,
            };
            let low = if merged { top - 1 } else { top };
            passed.push(Passed { top, low });
            if low == 1 || order.is_some_and(|order| u32::from(order) >= span(low)) {
                return passed;
            }
            top = low - 1;
        }
    }

    /// Stores for the entries of a mapped page (FL-4).
    fn writes(&self, asid: u32, vpn: u64, order: u8) -> u64 {
        let last = self.path(asid, vpn, Some(order)).pop().unwrap();
        1 << (u32::from(order) - span(last.low))
    }

    fn hang(&mut self, asid: u32, vpn: u64, order: u8) {
        let mut top = self.shape.levels;
        loop {
            let key = (asid, top, vpn >> (span(top) + 9));
            let merged = self.merges(key);
            let node = self.nodes.entry(key).or_insert(Node { merged, pages: 0 });
            node.pages += 1;
            let low = if node.merged { top - 1 } else { top };
            if u32::from(order) >= span(low) {
                return;
            }
            top = low - 1;
        }
    }

    fn unhang(&mut self, asid: u32, vpn: u64, order: u8) {
        for passed in self.path(asid, vpn, Some(order)) {
            let key = (asid, passed.top, vpn >> (span(passed.top) + 9));
            let node = self.nodes.get_mut(&key).unwrap();
            node.pages -= 1;
            if node.pages == 0 {
                self.apart.remove(&key);
                if passed.top < self.shape.levels {
                    self.nodes.remove(&key);
                }
            }
        }
    }

    /// Maps a page that overlaps no other mapping. Stores for it.
    pub fn add(&mut self, asid: u32, vpn: u64, order: u8) -> u64 {
        if self.pages.add(asid, vpn, order) {
            self.make_room(asid, vpn, order);
            self.hang(asid, vpn, order);
        }
        self.writes(asid, vpn, order)
    }

    /// OW-26: the node in which this page would be copied has two levels.
    fn make_room(&mut self, asid: u32, vpn: u64, order: u8) {
        let top = order / 9 + 1;
        let key = (asid, top, vpn >> (span(top) + 9));
        if !self.shape.split || !self.shape.merged.contains(&(top, top - 1)) {
            return;
        }
        if self.nodes.get(&key).is_some_and(|node| node.merged) {
            self.divide(key, vpn);
        }
        self.apart.insert(key);
    }

    /// Makes two levels of a merged node, in which this page is not yet.
    fn divide(&mut self, key: Key, new: u64) {
        let (asid, top, index) = key;
        let mut pages = self.pages.within(asid, index << (span(top) + 9), reach(top));
        pages.retain(|page| page.0 != new);
        for &(vpn, order) in &pages {
            self.unhang(asid, vpn, order);
        }
        self.apart.insert(key);
        let mut entries = BTreeSet::new();
        for (vpn, order) in pages {
            self.hang(asid, vpn, order);
            entries.insert(vpn >> span(top - 1));
        }
        self.moves += entries.len() as u64;
        self.most = self.bytes(1).0 + (2 << 20);
    }

    /// Unmaps a page. Stores for it.
    pub fn take(&mut self, asid: u32, vpn: u64, order: u8) -> u64 {
        let writes = self.writes(asid, vpn, order);
        self.pages.take(asid, vpn, order);
        self.unhang(asid, vpn, order);
        writes
    }

    /// A process ends.
    pub fn end(&mut self, asid: u32) {
        self.pages.end(asid);
        self.nodes.retain(|key, _| key.0 != asid);
        self.apart.retain(|key| key.0 != asid);
    }

    /// Bytes of the nodes from this level up, and of the largest.
    pub fn bytes(&self, from: u8) -> (u64, u64) {
        let size = |node: &Node| if node.merged { 2 << 20 } else { 4096 };
        let sizes: Vec<u64> = self.nodes.iter().filter(|(key, _)| key.1 >= from).map(|(_, node)| size(node)).collect();
        (sizes.iter().sum(), sizes.into_iter().max().unwrap_or(0))
    }

    /// Bytes counted from the pages alone; roots of processes without pages are not among them.
    pub fn bytes_of_pages(&self) -> u64 {
        let mut nodes = BTreeMap::new();
        for (asid, vpn, order) in self.pages.all() {
            for passed in self.path(asid, vpn, Some(order)) {
                let bytes = if passed.low < passed.top { 2 << 20 } else { 4096 };
                nodes.insert((asid, passed.top, vpn >> (span(passed.top) + 9)), bytes);
            }
        }
        nodes.values().sum()
    }
}

/// Base pages below a node with this upper level.
fn reach(top: u8) -> u64 {
    1 << (span(top) + 9)
}
