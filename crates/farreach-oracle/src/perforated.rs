//! Perforated pages: superpages with holes, base pages that are mapped elsewhere (PRF-1 to PRF-3), as lists.
//!
//! * OX-1 A superpage's entry has the hole bit and the filter in both levels: a page whose filter bit is set is never
//!   answered by the first level's superpage. Without it no superpage with holes could be there (PRF-3).
//! * OX-2 The base-level table of a superpage has all its pages, those that are no holes too, but only holes are read
//!   from it. A walk to the superpage reads one node less than one to the base level. There are no walk caches: a base
//!   walk after the bitmap begins at the root, in the miss of the superpage too, and has `levels` references.
//! * OX-3 A miss fills the second level with the superpage first, then looks at filter and bitmap, as a hit does.
//! * OX-4 Bitmaps are cached by process and superpage, fully associative, LRU, and filled when read.
//! * OX-5 A page with a set filter bit that is no hole gets a base entry in the first level alone. One in the second
//!   level would spare the bitmap next time, but the rule fills it for holes only.
//! * OX-6 In each level the entry of the base page is looked up first, and renewed alone.
//! * OX-7 A hole that is made, moved or mended changes its page: entries that overlap it go, so that of the superpage
//!   too, with its bitmap (HW-9). `walks` and `base_walks` are both walks of the page table: `misses` are lookups with
//!   at least one.

use crate::lru::Sets;
use std::collections::BTreeMap;

const PAGES: u64 = 512;

/// Keys of the machine.
#[derive(Clone, Debug)]
pub struct PerforatedConfig {
    /// Entries and ways of the first level: 4 KB, 2 MB.
    pub l1: [(usize, usize); 2],
    /// Of the second, for both sizes.
    pub l2: (usize, usize),
    /// `prf_bitmaps`.
    pub prf_bitmaps: usize,
    /// References of a walk to the base level.
    pub levels: u64,
    pub process_ids: bool,
}

/// A mapping: its frame, and the frames of its holes by page.
#[derive(Clone, Default, Debug)]
struct Mapping {
    order: u8,
    frame: u64,
    holes: BTreeMap<u64, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    asid: u32,
    order: u8,
    /// In pages of its size.
    page: u64,
    frame: u64,
    /// PRF-1: a bit for each 64 pages; 0 without holes.
    filter: u8,
}

impl Entry {
    fn filtered(&self, vpn: u64) -> bool {
        self.order > 0 && self.filter >> (vpn % PAGES / 64) & 1 == 1
    }

    fn translate(&self, vpn: u64) -> u64 {
        self.frame + vpn % (1 << self.order)
    }
}

/// The model.
pub struct Perforated {
    config: PerforatedConfig,
    /// By process and first page.
    mapped: BTreeMap<(u32, u64), Mapping>,
    l1: [Sets<Entry>; 2],
    l2: Sets<Entry>,
    bitmaps: Sets<(u32, u64)>,
    running: Option<u32>,
    /// `lookups`, `l1_hits`, `l2_hits` (without a walk), `misses`, `walks`, `base_walks`, `references`,
    /// `bitmap_references`, `bitmap_hits`, `holes` (lookups that a hole ended), `invalidations`.
    pub counts: BTreeMap<&'static str, u64>,
}

impl Perforated {
    /// Empty.
    pub fn new(config: PerforatedConfig) -> Perforated {
        let names = ["lookups", "l1_hits", "l2_hits", "misses", "walks", "base_walks", "references"];
        let more = ["bitmap_references", "bitmap_hits", "holes", "invalidations"];
        Perforated {
            mapped: BTreeMap::new(),
            l1: config.l1.map(|(entries, ways)| Sets::new(entries, ways)),
            l2: Sets::new(config.l2.0, config.l2.1),
            bitmaps: Sets::new(config.prf_bitmaps, config.prf_bitmaps),
            running: None,
            counts: names.into_iter().chain(more).map(|name| (name, 0)).collect(),
            config,
        }
    }

    fn add(&mut self, name: &'static str, n: u64) {
        *self.counts.get_mut(name).unwrap() += n;
    }

    /// A page of 4 KB (order 0) or 2 MB (9) is mapped; what it overlaps goes. A superpage has no holes.
    pub fn map(&mut self, asid: u32, vpn: u64, order: u8, frame: u64) {
        assert!(vpn.is_multiple_of(1 << order) && frame.is_multiple_of(1 << order));
        assert!(order == 9 || self.superpage(asid, vpn).is_none(), "a hole is made by its own call");
        self.changed(asid, vpn, 1 << order);
        self.mapped
            .retain(|key, held| key.0 != asid || key.1 + (1 << held.order) <= vpn || vpn + (1 << order) <= key.1);
        self.mapped.insert((asid, vpn), Mapping { order, frame, holes: BTreeMap::new() });
    }

    /// A page or superpage is mapped no more, holes neither.
    pub fn unmap(&mut self, asid: u32, vpn: u64) {
        let order = self.mapped.remove(&(asid, vpn)).expect("it was mapped").order;
        self.changed(asid, vpn, 1 << order);
    }

    fn superpage(&self, asid: u32, vpn: u64) -> Option<&Mapping> {
        self.mapped.get(&(asid, vpn / PAGES * PAGES)).filter(|mapping| mapping.order == 9)
    }

    /// PRF-1: a page of a superpage lies elsewhere, or again in its place (`None`).
    pub fn hole(&mut self, asid: u32, vpn: u64, frame: Option<u64>) {
        self.changed(asid, vpn, 1);
        let mapping = self.mapped.get_mut(&(asid, vpn / PAGES * PAGES)).expect("a superpage is there");
        assert_eq!(mapping.order, 9);
        match frame {
            Some(frame) => mapping.holes.insert(vpn, frame),
            None => mapping.holes.remove(&vpn),
        };
    }

    /// HW-9.
    pub fn changed(&mut self, asid: u32, first: u64, pages: u64) {
        let meets = |base: u64, size: u64| base < first.saturating_add(pages) && first < base + size;
        let goes = |e: &Entry| e.asid == asid && meets(e.page << e.order, 1 << e.order);
        let l1: u64 = self.l1.iter_mut().map(|sets| sets.drop_if(goes)).sum();
        let l2 = self.l2.drop_if(goes);
        self.bitmaps.drop_if(|&(a, page)| a == asid && meets(page * PAGES, PAGES));
        self.add("invalidations", l1 + l2);
    }

    /// The process ended.
    pub fn gone(&mut self, asid: u32) {
        self.mapped.retain(|key, _| key.0 != asid);
        self.changed(asid, 0, u64::MAX);
    }

    /// Another process runs.
    pub fn switch(&mut self, to: u32) {
        if self.running.replace(to) != Some(to) && !self.config.process_ids {
            self.l1.iter_mut().chain([&mut self.l2]).for_each(|sets| {
                sets.drop_if(|_| true);
            });
            self.bitmaps.drop_if(|_| true);
        }
    }

    /// The frame of a page by the page table.
    pub fn frame(&self, asid: u32, vpn: u64) -> Option<u64> {
        match self.superpage(asid, vpn) {
            Some(mapping) => Some(mapping.holes.get(&vpn).copied().unwrap_or(mapping.frame + vpn % PAGES)),
            None => self.mapped.get(&(asid, vpn)).map(|mapping| mapping.frame),
        }
    }

    /// A lookup of a page that is mapped: the frame that the TLBs answer.
    pub fn lookup(&mut self, asid: u32, vpn: u64) -> u64 {
        self.switch(asid);
        self.add("lookups", 1);
        let is = |order: u8| move |e: &Entry| (e.asid, e.order, e.page) == (asid, order, vpn >> order);
        let first = self.l1[0].hit(vpn, is(0));
        let first = first.or_else(|| self.l1[1].hit(vpn >> 9, |e| is(9)(e) && !e.filtered(vpn)));
        if let Some(entry) = first {
            self.add("l1_hits", 1);
            return entry.translate(vpn);
        }
        let before = (self.counts["walks"], self.counts["base_walks"]);
        let found = self.l2.hit(vpn, is(0)).or_else(|| self.l2.hit(vpn >> 9, is(9)));
        let entry = found.unwrap_or_else(|| self.walk(asid, vpn));
        let entry = if entry.filtered(vpn) { self.through_bitmap(asid, vpn, entry) } else { entry };
        let walked = (self.counts["walks"], self.counts["base_walks"]) != before;
        self.add(if walked { "misses" } else { "l2_hits" }, 1);
        let size = usize::from(entry.order > 0);
        self.l1[size].put(entry.page, entry);
        entry.translate(vpn)
    }

    /// A walk to the mapping, which fills the second level.
    fn walk(&mut self, asid: u32, vpn: u64) -> Entry {
        let large = self.superpage(asid, vpn).cloned();
        let order = if large.is_some() { 9 } else { 0 };
        let mapping = large.unwrap_or_else(|| self.mapped[&(asid, vpn)].clone());
        let filter = mapping.holes.keys().fold(0, |bits, hole| bits | 1 << (hole % PAGES / 64));
        self.add("walks", 1);
        self.add("references", self.config.levels - u64::from(order > 0));
        let entry = Entry { asid, order, page: vpn >> order, frame: mapping.frame, filter };
        self.l2.put(entry.page, entry);
        entry
    }

    /// PRF-2: the filter bit is set. What the first level gets (PRF-3).
    fn through_bitmap(&mut self, asid: u32, vpn: u64, large: Entry) -> Entry {
        let bitmap = (asid, vpn / PAGES);
        if self.bitmaps.hit(0, |held| *held == bitmap).is_some() {
            self.add("bitmap_hits", 1);
        } else {
            self.add("bitmap_references", 1);
            self.bitmaps.put(0, bitmap);
        }
        let hole = self.superpage(asid, vpn).and_then(|mapping| mapping.holes.get(&vpn).copied());
        let base = Entry { asid, order: 0, page: vpn, frame: hole.unwrap_or(large.translate(vpn)), filter: 0 };
        if hole.is_some() {
            self.add("holes", 1);
            self.add("base_walks", 1);
            self.add("references", self.config.levels);
            self.l2.put(vpn, base);
        }
        base
    }
}

#[cfg(test)]
mod tests;
