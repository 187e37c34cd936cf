//! Walk tables, their caches, and walks of elastic cuckoo tables (EC-5 to EC-8).

use super::super::book::Used;
use super::super::nested::{Line, Lines, Piece, Reads};
use super::super::{Found, SIZES};
use super::{Cuckoo, split};
use std::collections::BTreeMap;

/// Pages (log2) of a header and of a row of 64 headers: PMD, PUD.
const HEADER: [u32; 2] = [12, 21];
const ROW: [u32; 2] = [18, 27];

/// Both walk tables and their caches. Index 0: PMD, 1: PUD.
pub struct Headers {
    /// Pages by table, process, header and order.
    pages: BTreeMap<(usize, u32, u64, u8), u64>,
    /// Pages by table, process and row.
    rows: BTreeMap<(usize, u32, u64), u64>,
    /// Ways of the entries of superpages, by process, order and tag.
    ways: BTreeMap<(u32, u8, u64), u64>,
    /// Rows by process.
    cached: [Used<(u32, u64)>; 2],
}

impl Headers {
    /// Empty, with room for this number of rows.
    pub fn new(rows: [usize; 2]) -> Headers {
        Headers { pages: BTreeMap::new(), rows: BTreeMap::new(), ways: BTreeMap::new(), cached: rows.map(Used::new) }
    }

    /// The row of a page has changed (EC-7).
    fn changed(&mut self, which: usize, asid: u32, vpn: u64) {
        let row = (asid, vpn >> ROW[which]);
        self.cached[which].drop_if(|&held| held == row);
    }

    /// A page was mapped or unmapped.
    pub fn page(&mut self, asid: u32, vpn: u64, order: u8, mapped: bool) {
        for which in [0, 1] {
            if which == 0 && order == 18 {
                continue;
            }
            let key = (which, asid, vpn >> HEADER[which], order);
            let n = self.pages.entry(key).or_default();
            let before = *n > 0;
            *n = if mapped { *n + 1 } else { *n - 1 };
            let after = *n > 0;
            if !after {
                self.pages.remove(&key);
            }
            let row = (which, asid, vpn >> ROW[which]);
            let n = self.rows.entry(row).or_default();
            *n = if mapped { *n + 1 } else { *n - 1 };
            if *n == 0 {
                self.rows.remove(&row);
            }
            if before != after {
                self.changed(which, asid, vpn);
            }
        }
    }

    /// An entry was put into a way (OW-20).
    pub fn settled(&mut self, asid: u32, order: u8, tag: u64, way: u64) {
        if order > 0 && self.ways.insert((asid, order, tag), way) != Some(way) {
            self.changed(usize::from(order == 18), asid, (tag * 8) << order);
        }
    }

    /// An entry is no more.
    pub fn left(&mut self, asid: u32, order: u8, tag: u64) {
        self.ways.remove(&(asid, order, tag));
    }

    /// The way that a header names.
    pub fn way(&self, asid: u32, order: u8, tag: u64) -> Option<u64> {
        self.ways.get(&(asid, order, tag)).copied()
    }

    /// A process is gone.
    pub fn end(&mut self, asid: u32) {
        self.pages.retain(|key, _| key.1 != asid);
        self.rows.retain(|key, _| key.1 != asid);
        self.ways.retain(|key, _| key.0 != asid);
        for cache in &mut self.cached {
            cache.drop_if(|row| row.0 == asid);
        }
    }

    /// Caches lose all.
    pub fn forget(&mut self) {
        for cache in &mut self.cached {
            cache.drop_if(|_| true);
        }
    }

    /// Rows in memory (OW-22).
    pub fn rows(&self) -> u64 {
        self.rows.len() as u64
    }

    fn says(&self, which: usize, asid: u32, vpn: u64, order: u8) -> bool {
        self.pages.contains_key(&(which, asid, vpn >> HEADER[which], order))
    }

    fn cached(&self, which: usize, asid: u32, vpn: u64) -> bool {
        self.cached[which].has(&(asid, vpn >> ROW[which]))
    }

    /// EC-6: the kind of walk, and its references, with d ways and tables of this number of sizes.
    pub fn reads(&self, asid: u32, vpn: u64, d: u64, tables: u64) -> (&'static str, u64) {
        if self.cached(0, asid, vpn) {
            return match (self.says(0, asid, vpn, 0), self.says(0, asid, vpn, 9)) {
                (true, false) => ("size", d),
                (false, true) => ("direct", 1),
                (true, true) => ("both", d + 1),
                (false, false) => ("none", 0),
            };
        }
        if self.cached(1, asid, vpn) {
            let has = SIZES.map(|order| u64::from(self.says(1, asid, vpn, order)));
            return ("by_pud", d * has[0] + d * has[1] + has[2]);
        }
        ("complete", d * tables)
    }

    /// Rows fetched after a walk of a kind to a page of an order (EC-7, OW-21).
    pub fn fetch(&mut self, asid: u32, vpn: u64, order: u8, kind: &str) -> u64 {
        let (both, mut fetched) = (kind == "complete" || kind == "by_pud", 0);
        for (which, row) in ROW.iter().map(|row| (asid, vpn >> row)).enumerate() {
            let looked_up = which == 0 || both;
            let missed = looked_up && !self.cached[which].hit(&row);
            if missed && self.cached[which].has_room() && (which, order) != (0, 18) {
                self.cached[which].put(row);
                fetched += 1;
            }
        }
        fetched
    }
}

/// Kinds of walks (EC-8), and rows fetched.
pub const COUNTERS: [&str; 6] = ["cwt_references", "complete", "by_pud", "size", "direct", "both"];

impl Cuckoo {
    /// References of a walk now.
    pub(super) fn reads(&self, asid: u32, vpn: u64) -> (&'static str, u64) {
        let tables = SIZES.into_iter().filter(|&order| self.tables.contains_key(&(asid, order)));
        self.headers.reads(asid, vpn, self.config.ways, tables.count() as u64)
    }

    /// A walk to a page of this order.
    pub(super) fn walk_to(&mut self, asid: u32, vpn: u64, order: u8) -> Found {
        let (tag, _) = split(vpn, order);
        let way = self.find(asid, order, tag);
        assert!(way.is_some(), "every mapped page is found");
        assert!(order == 0 || self.headers.way(asid, order, tag) == way);
        let (kind, references) = self.reads(asid, vpn);
        assert!(kind != "none" && references > 0, "a mapped page is in its headers");
        self.book.add(kind, 1);
        let fetched = self.headers.fetch(asid, vpn, order, kind);
        self.book.add("cwt_references", fetched);
        self.book.walk(references, 1)
    }
}

impl Lines for Cuckoo {
    fn lines(&self, asid: u32, vpn: u64) -> Reads {
        let d = self.config.ways;
        let line = |order: u8, way: u64| {
            let (tag, _) = split(vpn, order);
            let (new, at) = self.route(asid, order, way, tag);
            let table = &self.tables[&(asid, order)];
            let n = if new { table.next.as_ref().unwrap().0.n } else { table.now.n };
            let number = (table.generation + u64::from(new)) * d + way;
            Line { piece: Piece { asid, part: order.into(), number, bytes: 64 * n }, offset: 64 * at as u64 }
        };
        let all = |order: u8| (0..d).map(|way| line(order, way)).collect::<Vec<_>>();
        let direct = |order: u8| {
            let way = self.headers.way(asid, order, split(vpn, order).0);
            way.map_or(Vec::new(), |way| vec![line(order, way)])
        };
        let says = |order: u8| self.headers.says(1, asid, vpn, order);
        let step = match self.reads(asid, vpn).0 {
            "size" => all(0),
            "direct" => direct(9),
            "both" => [all(0), direct(9)].concat(),
            "none" => Vec::new(),
            "by_pud" => {
                let several = [0, 9].into_iter().filter(|&order| says(order)).flat_map(all);
                several.chain(direct(18).into_iter().filter(|_| says(18))).collect()
            }
            _ => SIZES.into_iter().filter(|&order| self.tables.contains_key(&(asid, order))).flat_map(all).collect(),
        };
        let (kind, cached) = (self.reads(asid, vpn).0, |which: usize| self.headers.cached(which, asid, vpn));
        let is_fetched = |which: &usize| {
            let looked_up = *which == 0 || ["complete", "by_pud"].contains(&kind);
            let has_row = *which == 1 || self.pages.order(asid, vpn) != Some(18);
            looked_up && has_row && !cached(*which) && self.headers.cached[*which].has_room()
        };
        let row = |which: usize| {
            let piece = Piece { asid, part: 64 + which as u64, number: vpn >> ROW[which], bytes: 64 };
            Line { piece, offset: 0 }
        };
        Reads { steps: vec![step], known: false, rows: (0..2).filter(is_fetched).map(row).collect() }
    }
}
