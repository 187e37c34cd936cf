//! HTAB: the groups of PowerPC (HB-1 to HB-6).

use super::book::{Book, Pages};
use super::{Found, PlainTable};
use std::collections::BTreeMap;

/// Keys of the machine.
#[derive(Clone, Copy, Debug)]
pub struct HtabConfig {
    /// Groups of eight entries, a power of two.
    pub groups: u64,
    /// `htab_pte`: 8 or 16 bytes an entry.
    pub pte: u64,
}

impl HtabConfig {
    /// The groups of a memory of this many frames (HB-6).
    pub fn for_frames(frames: u64, pte: u64) -> HtabConfig {
        HtabConfig { groups: frames.div_ceil(2).next_power_of_two(), pte }
    }
}

/// OW-12.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Entry {
    asid: u32,
    vpn: u64,
    secondary: bool,
}

/// The table of a machine.
pub struct Htab {
    config: HtabConfig,
    groups: Vec<[Option<Entry>; 8]>,
    next: u64,
    pages: Pages,
    book: Book,
}

impl Htab {
    /// An empty table.
    pub fn new(config: HtabConfig) -> Htab {
        assert!(config.groups.is_power_of_two() && [8, 16].contains(&config.pte));
        let mut book = Book::new(&["spills", "reloads", "found_primary", "found_secondary"]);
        let bytes = config.groups * 8 * config.pte;
        book.memory(bytes, bytes);
        Htab { groups: vec![[None; 8]; config.groups as usize], next: 0, pages: Pages::default(), book, config }
    }

    /// HB-2: the group of a page by the primary or the secondary hash.
    fn group(&self, asid: u32, vpn: u64, secondary: bool) -> usize {
        let segment = (u64::from(asid) << 36) + vpn / 65536;
        let primary = (segment % (1 << 39)) ^ (vpn % 65536);
        let hash = if secondary { !primary } else { primary };
        (hash % self.config.groups) as usize
    }

    /// HB-3: lines read, and where the entry is.
    fn search(&self, asid: u32, vpn: u64) -> (u64, Option<(usize, usize)>) {
        let lines = self.config.pte / 8;
        let mut read = 0;
        for secondary in [false, true] {
            let group = self.group(asid, vpn, secondary);
            let wanted = Some(Entry { asid, vpn, secondary });
            if let Some(slot) = self.groups[group].iter().position(|&entry| entry == wanted) {
                let line = if lines == 2 && slot >= 4 { 2 } else { 1 };
                return (read + line, Some((group, slot)));
            }
            read += lines;
        }
        (read, None)
    }

    /// HB-4 of a page that is not in the table.
    fn insert(&mut self, asid: u32, vpn: u64) {
        self.book.add("table_writes", 1);
        for secondary in [false, true] {
            let group = self.group(asid, vpn, secondary);
            if let Some(free) = self.groups[group].iter().position(Option::is_none) {
                self.groups[group][free] = Some(Entry { asid, vpn, secondary });
                return;
            }
        }
        let group = self.group(asid, vpn, false);
        self.groups[group][(self.next % 8) as usize] = Some(Entry { asid, vpn, secondary: false });
        self.next += 1;
        self.book.add("spills", 1);
    }

    /// Bytes: every group and entry.
    pub fn parts(&self) -> u64 {
        self.groups.iter().map(|group| group.len() as u64 * self.config.pte).sum()
    }
}

impl PlainTable for Htab {
    fn map(&mut self, asid: u32, vpn: u64, order: u8) {
        for (vpn, order) in self.pages.in_the_way(asid, vpn, order) {
            self.unmap(asid, vpn, order);
        }
        self.pages.add(asid, vpn, order);
        match self.search(asid, vpn) {
            _ if order > 0 => {}
            (_, Some(_)) => self.book.add("table_writes", 1),
            (_, None) => self.insert(asid, vpn),
        }
    }

    fn unmap(&mut self, asid: u32, vpn: u64, order: u8) {
        self.pages.take(asid, vpn, order);
        for page in vpn..vpn + (1 << order) {
            if let (_, Some((group, slot))) = self.search(asid, page) {
                self.groups[group][slot] = None;
                self.book.add("table_writes", 1);
            }
        }
    }

    fn gone(&mut self, asid: u32) {
        self.pages.end(asid);
        for entry in self.groups.iter_mut().flatten() {
            entry.take_if(|e| e.asid == asid);
        }
    }

    fn switch(&mut self, _to: u32) {}

    fn walk(&mut self, asid: u32, vpn: u64) -> Found {
        assert!(self.pages.order(asid, vpn).is_some(), "page {vpn} of process {asid} is mapped");
        let (read, place) = self.search(asid, vpn);
        match place {
            Some((group, slot)) => {
                let secondary = self.groups[group][slot].unwrap().secondary;
                self.book.add(if secondary { "found_secondary" } else { "found_primary" }, 1);
            }
            None => {
                self.book.add("reloads", 1);
                self.insert(asid, vpn);
            }
        }
        self.book.walk(read, read)
    }

    fn search_absent(&mut self, asid: u32, vpn: u64) -> u64 {
        let (read, place) = self.search(asid, vpn);
        assert_eq!((place, self.pages.order(asid, vpn)), (None, None));
        self.book.fault(read)
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.book.all()
    }
}
