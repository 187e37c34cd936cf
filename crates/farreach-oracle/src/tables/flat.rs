//! FL: radix trees with merged levels, and today's walk caches (FL-1 to FL-5).

use super::book::{Book, Used};
use super::nested::{Line, Lines, Piece, Reads};
use super::radix::{Passed, Radix, Shape, span};
use super::{Found, PlainTable};
use std::collections::BTreeMap;

/// Keys of the machine.
#[derive(Clone, Debug)]
pub struct FlatConfig {
    /// Levels, and which are merged.
    pub shape: Shape,
    /// Entries of `pwc_pd`, `pwc_pdpt`, `pwc_pml4` and of the cache for a fifth level.
    pub caches: [usize; 4],
    /// Whether caches know processes (OW-5).
    pub process_ids: bool,
}

/// References of a walk in two dimensions: g nodes of the guest, h of the host for each, and h for the page (FL-1).
pub fn nested(guest: u64, host: u64) -> u64 {
    guest * (host + 1) + host
}

/// The trees of a machine, and its caches.
pub struct Flat {
    process_ids: bool,
    tree: Radix,
    /// From level 2 up: processes and page div span of the entry.
    caches: [Used<(u32, u64)>; 4],
    book: Book,
}

impl Flat {
    /// Without processes.
    pub fn new(config: FlatConfig) -> Flat {
        Flat {
            process_ids: config.process_ids,
            tree: Radix::new(config.shape),
            caches: config.caches.map(Used::new),
            book: Book::new(&[]),
        }
    }

    /// The tree.
    pub fn tree(&self) -> &Radix {
        &self.tree
    }

    fn measure(&mut self) {
        let (bytes, largest) = self.tree.bytes(1);
        self.book.memory(bytes, largest);
    }

    fn changed(&mut self, asid: u32) {
        self.caches.iter_mut().for_each(|cache| cache.drop_if(|held| held.0 == asid));
    }
}

impl PlainTable for Flat {
    fn map(&mut self, asid: u32, vpn: u64, order: u8) {
        for (vpn, order) in self.tree.pages.in_the_way(asid, vpn, order) {
            self.unmap(asid, vpn, order);
        }
        if self.tree.pages.order(asid, vpn).is_some() {
            self.changed(asid);
        }
        let writes = self.tree.add(asid, vpn, order);
        self.book.add("table_writes", writes);
        self.book.add("moves", std::mem::take(&mut self.tree.moves));
        let most = std::mem::take(&mut self.tree.most);
        if most > 0 {
            self.book.memory(most, 0);
        }
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
        if !self.process_ids {
            self.caches.iter_mut().for_each(|cache| cache.drop_if(|_| true));
        }
    }

    fn walk(&mut self, asid: u32, vpn: u64) -> Found {
        let order = self.tree.pages.order(asid, vpn).expect("the page is mapped");
        let path = self.tree.path(asid, vpn, Some(order));
        let entry = |level: u8| (asid, vpn >> span(level));
        let upper = &path[..path.len() - 1];
        let cached = upper.iter().rposition(|p| self.caches[usize::from(p.low) - 2].hit(&entry(p.low)));
        let first = cached.map_or(0, |at| at + 1);
        for passed in &upper[first..] {
            self.caches[usize::from(passed.low) - 2].put(entry(passed.low));
        }
        let read = (path.len() - first) as u64;
        self.book.walk(read, read)
    }

    fn search_absent(&mut self, asid: u32, vpn: u64) -> u64 {
        assert_eq!(self.tree.pages.order(asid, vpn), None);
        let path = self.tree.path(asid, vpn, None);
        let held = |level: u8| self.caches[usize::from(level) - 2].has(&(asid, vpn >> span(level)));
        let cached = path.iter().rposition(|passed| passed.low > 1 && held(passed.low));
        self.book.fault((path.len() - cached.map_or(0, |at| at + 1)) as u64)
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.book.all()
    }
}

impl Lines for Flat {
    fn lines(&self, asid: u32, vpn: u64) -> Reads {
        let path = self.tree.path(asid, vpn, self.tree.pages.order(asid, vpn));
        let held = |level: u8| self.caches[usize::from(level) - 2].has(&(asid, vpn >> span(level)));
        let cached = path[..path.len() - 1].iter().rposition(|passed| held(passed.low));
        let line = |passed: &Passed| {
            let bytes = if passed.low < passed.top { 2 << 20 } else { 4096 };
            let piece = Piece { asid, part: passed.top.into(), number: vpn >> (span(passed.top) + 9), bytes };
            Line { piece, offset: 8 * (vpn >> span(passed.low)) % bytes }
        };
        let read = &path[cached.map_or(0, |at| at + 1)..];
        Reads {
            steps: read.iter().map(|passed| vec![line(passed)]).collect(),
            known: cached.is_some(),
            rows: Vec::new(),
        }
    }
}
