//! WC: the walk caches of Barr on the radix tree (WC-1 to WC-5).

use super::book::{Book, Used};
use super::radix::{Radix, Shape, span};
use super::{Found, PlainTable};
use std::collections::BTreeMap;

/// `pwc_kind`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// By level, virtual tags, the deepest hit (WC-1).
    Stc,
    /// All levels in one array (WC-2).
    Utc,
    /// By physical address, one array (WC-3).
    Uptc,
    /// By physical address, an array a level (WC-3).
    Sptc,
    /// Whole paths (WC-4).
    Tpc,
}

/// Keys of the machine.
#[derive(Clone, Copy, Debug)]
pub struct WalkCacheConfig {
    /// Levels of the tree, 4 or 5.
    pub levels: u8,
    /// `pwc_kind`.
    pub kind: Kind,
    /// `pwc_entries`, of the kinds with one array.
    pub entries: usize,
    /// Of the kinds with an array a level: level 2 first.
    pub by_level: [usize; 4],
    /// Whether caches know processes (OW-5).
    pub process_ids: bool,
}

/// An upper entry, or a path to the node with the leaf: process, level, page div the span of an entry of the level.
type Held = (u32, u8, u64);

/// The trees of a machine, and its caches.
pub struct WalkCaches {
    config: WalkCacheConfig,
    tree: Radix,
    arrays: Vec<Used<Held>>,
    book: Book,
}

impl WalkCaches {
    /// Without processes.
    pub fn new(config: WalkCacheConfig) -> WalkCaches {
        let arrays = match config.kind {
            Kind::Stc | Kind::Sptc => config.by_level.map(Used::new).into(),
            Kind::Utc | Kind::Uptc | Kind::Tpc => vec![Used::new(config.entries)],
        };
        WalkCaches { tree: Radix::new(Shape::plain(config.levels)), arrays, book: Book::new(&[]), config }
    }

    /// The tree.
    pub fn tree(&self) -> &Radix {
        &self.tree
    }

    /// The array for entries of a level.
    fn array(&mut self, level: u8) -> &mut Used<Held> {
        let one = self.arrays.len() == 1;
        &mut self.arrays[if one { 0 } else { usize::from(level) - 2 }]
    }

    fn held(asid: u32, vpn: u64, level: u8) -> Held {
        (asid, level, vpn >> span(level))
    }

    /// Upper levels whose entries a path of `tpc` shares with a walk that reads the entry of level `leaf` last.
    fn shared(&self, path: Held, asid: u32, vpn: u64, leaf: u8) -> u64 {
        let (of, lowest, number) = path;
        let levels = lowest.max(leaf + 1)..=self.config.levels;
        let same = |level: u8| number >> (span(level) - span(lowest)) == vpn >> span(level);
        if of == asid { levels.filter(|&level| same(level)).count() as u64 } else { 0 }
    }

    /// The longest match, of equal ones the path used last.
    fn best(&self, asid: u32, vpn: u64, leaf: u8) -> Option<(u64, Held)> {
        let all = self.arrays[0].keys().iter().map(|&path| (self.shared(path, asid, vpn, leaf), path));
        all.filter(|found| found.0 > 0).max_by_key(|found| found.0)
    }

    /// References of a walk that reads entries down to that of level `leaf`.
    fn read(&mut self, asid: u32, vpn: u64, leaf: u8) -> u64 {
        let levels = self.config.levels;
        match self.config.kind {
            Kind::Stc | Kind::Utc => {
                let deepest =
                    (leaf + 1..=levels).find(|&level| self.array(level).hit(&WalkCaches::held(asid, vpn, level)));
                let top = deepest.unwrap_or(levels + 1);
                for level in (leaf + 1..top).rev() {
                    self.array(level).put(WalkCaches::held(asid, vpn, level));
                }
                u64::from(top - leaf)
            }
            Kind::Uptc | Kind::Sptc => {
                let mut read = 1;
                for level in (leaf + 1..=levels).rev() {
                    let held = WalkCaches::held(asid, vpn, level);
                    if !self.array(level).hit(&held) {
                        self.array(level).put(held);
                        read += 1;
                    }
                }
                read
            }
            Kind::Tpc => {
                let upper = u64::from(levels - leaf);
                let best = self.best(asid, vpn, leaf);
                if let Some((_, path)) = best {
                    self.arrays[0].hit(&path);
                }
                let shared = best.map_or(0, |found| found.0);
                if shared < upper {
                    self.arrays[0].put(WalkCaches::held(asid, vpn, leaf + 1));
                }
                upper - shared + 1
            }
        }
    }

    fn measure(&mut self) {
        let (bytes, largest) = self.tree.bytes(1);
        self.book.memory(bytes, largest);
    }

    fn changed(&mut self, asid: u32) {
        self.arrays.iter_mut().for_each(|array| array.drop_if(|held| held.0 == asid));
    }
}

impl PlainTable for WalkCaches {
    fn map(&mut self, asid: u32, vpn: u64, order: u8) {
        for (vpn, order) in self.tree.pages.in_the_way(asid, vpn, order) {
            self.unmap(asid, vpn, order);
        }
        if self.tree.pages.order(asid, vpn).is_some() {
            self.changed(asid);
        }
        let writes = self.tree.add(asid, vpn, order);
        self.book.add("table_writes", writes);
        self.measure();
    }

    fn unmap(&mut self, asid: u32, vpn: u64, order: u8) {
        let writes = self.tree.take(asid, vpn, order);
        self.book.add("table_writes", writes);
        self.changed(asid);
        self.measure();
    }

    fn gone(&mut self, asid: u32) {
        self.tree.end(asid);
        self.changed(asid);
        self.measure();
    }

    fn switch(&mut self, _to: u32) {
        if !self.config.process_ids {
            self.arrays.iter_mut().for_each(|array| array.drop_if(|_| true));
        }
    }

    fn walk(&mut self, asid: u32, vpn: u64) -> Found {
        let order = self.tree.pages.order(asid, vpn).expect("the page is mapped");
        let read = self.read(asid, vpn, order / 9 + 1);
        self.book.walk(read, read)
    }

    fn search_absent(&mut self, asid: u32, vpn: u64) -> u64 {
        assert_eq!(self.tree.pages.order(asid, vpn), None);
        let leaf = self.tree.path(asid, vpn, None).pop().unwrap().low;
        let held = |level: u8| WalkCaches::held(asid, vpn, level);
        let levels = self.config.levels;
        let read = match self.config.kind {
            Kind::Stc | Kind::Utc => {
                let deepest = (leaf + 1..=levels).find(|&level| self.array(level).has(&held(level)));
                u64::from(deepest.unwrap_or(levels + 1) - leaf)
            }
            Kind::Uptc | Kind::Sptc => {
                1 + (leaf + 1..=levels).filter(|&level| !self.array(level).has(&held(level))).count() as u64
            }
            Kind::Tpc => {
                let shared = self.best(asid, vpn, leaf).map_or(0, |found| found.0);
                u64::from(levels - leaf) - shared + 1
            }
        };
        self.book.fault(read)
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.book.all()
    }
}
