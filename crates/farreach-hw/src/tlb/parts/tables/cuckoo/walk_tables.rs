//! Walk tables (EC-5): by part of the address space, which page sizes it has, and in which way the entry of its
//! superpages is. The walker caches rows of them. A row that changes leaves the cache, so that cached rows say what the
//! tables say.

use super::super::memory::{LINE, gave, took};
use super::super::{Mapping, Places};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::counts::OwnCounts;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// log2 of the headers in a row.
const ROW: u8 = 6;

/// One part of the address space.
#[derive(Clone, Copy, Default)]
pub(in super::super) struct Header {
    /// Pages that are mapped, by size.
    pages: [u32; 3],
    /// The way of the entry of its superpages.
    pub way: u8,
}

impl Header {
    /// Whether it has pages of this size.
    pub fn has(&self, size: usize) -> bool {
        self.pages[size] > 0
    }
}

/// A row. One without pages does not exist.
struct Row {
    at: u64,
    headers: [Header; 1 << ROW],
    pages: u64,
}

/// A table, with its cache.
pub(in super::super) struct Rows {
    /// log2 of the base pages of a header: of the pages in an entry of its superpages.
    shift: u8,
    /// Sizes that its headers tell of, the last of which is that of its superpages.
    sizes: usize,
    rows: HashMap<(Asid, u64), Row, FixedState>,
    /// The latest first.
    cached: Vec<(Asid, u64)>,
    /// Rows that the cache holds at most.
    most: usize,
}

impl Rows {
    fn new(sizes: usize, most: usize) -> Rows {
        let shift = 9 * (sizes as u8 - 1) + 3;
        Rows { shift, sizes, rows: HashMap::default(), cached: Vec::with_capacity(most), most }
    }

    fn key(&self, asid: Asid, vpn: Vpn) -> (Asid, u64) {
        (asid, vpn.0 >> (self.shift + ROW))
    }

    fn place(&self, vpn: Vpn) -> usize {
        (vpn.0 >> self.shift) as usize & ((1 << ROW) - 1)
    }

    /// The header of a page, if its row is cached.
    pub fn peek(&self, asid: Asid, vpn: Vpn) -> Option<Header> {
        let key = self.key(asid, vpn);
        self.cached.contains(&key).then(|| self.rows[&key].headers[self.place(vpn)])
    }

    /// As [`Self::peek`], and the row is the one that was used last.
    pub fn look_up(&mut self, asid: Asid, vpn: Vpn) -> Option<Header> {
        let key = self.key(asid, vpn);
        let at = self.cached.iter().position(|of| *of == key)?;
        self.cached[..=at].rotate_right(1);
        Some(self.rows[&key].headers[self.place(vpn)])
    }

    /// Brings the row of a page into the cache. Returns its address; `None`: there is no row or no cache.
    pub fn fetch(&mut self, asid: Asid, vpn: Vpn) -> Option<u64> {
        let key = self.key(asid, vpn);
        let row = self.rows.get(&key).filter(|_| self.most > 0)?;
        self.cached.truncate(self.most - 1);
        self.cached.insert(0, key);
        Some(row.at)
    }

    /// A row changed (EC-7).
    fn drop(&mut self, key: (Asid, u64)) {
        self.cached.retain(|of| *of != key);
    }

    fn mapped(&mut self, mapping: Mapping, places: &mut Places, own: &mut OwnCounts) {
        let size = usize::from(mapping.order / 9);
        if size >= self.sizes {
            return;
        }
        let (key, place) = (self.key(mapping.asid, mapping.vpn), self.place(mapping.vpn));
        let row = self.rows.entry(key).or_insert_with(|| {
            took(own, LINE);
            Row { at: places.take(LINE, LINE), headers: [Header::default(); 1 << ROW], pages: 0 }
        });
        let pages = &mut row.headers[place].pages[size];
        *pages += 1;
        row.pages += 1;
        if *pages == 1 {
            self.drop(key);
        }
    }

    fn unmapped(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        let size = usize::from(mapping.order / 9);
        if size >= self.sizes {
            return;
        }
        let (key, place) = (self.key(mapping.asid, mapping.vpn), self.place(mapping.vpn));
        let row = self.rows.get_mut(&key).expect("it has the mapping");
        let pages = &mut row.headers[place].pages[size];
        *pages -= 1;
        row.pages -= 1;
        let (changes, is_empty) = (*pages == 0, row.pages == 0);
        if changes {
            self.drop(key);
        }
        if is_empty {
            self.rows.remove(&key);
            gave(own, LINE);
        }
    }

    /// An entry of its superpages is in this way.
    fn placed(&mut self, asid: Asid, tag: u64, way: u8) {
        let vpn = Vpn(tag << self.shift);
        let (key, place) = (self.key(asid, vpn), self.place(vpn));
        let header = &mut self.rows.get_mut(&key).expect("it has the pages").headers[place];
        if std::mem::replace(&mut header.way, way) != way {
            self.drop(key);
        }
    }
}

/// Both tables.
pub(in super::super) struct WalkTables {
    /// By 16 MB: pages of 4 KB and 2 MB.
    pub pmd: Rows,
    /// By 8 GB: pages of all sizes.
    pub pud: Rows,
}

impl WalkTables {
    /// With caches of these numbers of rows.
    pub fn new(pmd: usize, pud: usize) -> WalkTables {
        WalkTables { pmd: Rows::new(2, pmd), pud: Rows::new(3, pud) }
    }

    /// Whether there is a cache.
    pub fn are_cached(&self) -> bool {
        self.pmd.most + self.pud.most > 0
    }

    pub fn mapped(&mut self, mapping: Mapping, places: &mut Places, own: &mut OwnCounts) {
        self.pmd.mapped(mapping, places, own);
        self.pud.mapped(mapping, places, own);
    }

    pub fn unmapped(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        self.pmd.unmapped(mapping, own);
        self.pud.unmapped(mapping, own);
    }

    /// An entry with this tag is in this way now.
    pub fn placed(&mut self, asid: Asid, order: u8, tag: u64, way: u8) {
        match order {
            0 => {}
            9 => self.pmd.placed(asid, tag, way),
            _ => self.pud.placed(asid, tag, way),
        }
    }

    /// The caches hold nothing.
    pub fn forget_cached(&mut self) {
        self.pmd.cached.clear();
        self.pud.cached.clear();
    }

    /// Bytes of all rows.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        (self.pmd.rows.len() + self.pud.rows.len()) as u64 * LINE
    }

    /// Panics if the rows do not have this many pages.
    pub fn check(&self, pages: u64) {
        assert_eq!(self.pud.rows.values().map(|row| row.pages).sum::<u64>(), pages, "EC-5");
        for rows in [&self.pmd, &self.pud] {
            let in_order = |row: &Row| {
                row.pages > 0 && row.pages == row.headers.iter().flat_map(|h| h.pages).map(u64::from).sum::<u64>()
            };
            assert!(rows.rows.values().all(in_order), "EC-5");
            assert!(rows.cached.len() <= rows.most && rows.cached.iter().all(|key| rows.rows.contains_key(key)));
        }
    }
}
