//! The prefetch buffer (PB-1): entries that were brought in and not asked for yet.

use super::queue::Queue;
use super::{ORDERS, Page, index};
use crate::tlb::contract::EntryView;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::translation::{Attr, Pte, Translation};

/// What brought an entry in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// The prefetcher.
    Prefetched,
    /// It was in the line of a page at this distance (SBFP-3).
    Free(i8),
}

/// What the buffer has of a page. Its size is part of the key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Frame of its first base page.
    pub pfn: Pfn,
    pub attr: Attr,
    pub source: Source,
    /// The number of instructions from which on it is usable (HW-8).
    pub ready: u64,
}

impl Entry {
    /// For the page that a walk found, whose entry is `pte`.
    pub fn new(page: Page, pte: Pte, source: Source, ready: u64) -> Entry {
        Entry { pfn: pte.pfn.align_down(page.order.into()), attr: pte.attr, source, ready }
    }

    /// The translation of a base page of the page.
    pub fn translate(&self, page: Page, vpn: Vpn) -> Translation {
        Translation { pfn: Pfn(self.pfn.0 | vpn.offset_in(page.order.into())), attr: self.attr }
    }
}

/// See the module. The entry that came first leaves first. An entry that is used leaves at once, so that LRU, which
/// leaves out what only looks (PB-6), is the same.
pub(super) struct Buffer {
    entries: Queue<Page, Entry>,
    most: usize,
    /// Entries of each order.
    live: [usize; ORDERS.len()],
}

impl Buffer {
    pub fn new(most: usize) -> Buffer {
        Buffer { entries: Queue::new(most), most, live: [0; ORDERS.len()] }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn most(&self) -> usize {
        self.most
    }

    /// The page that an entry has for this base page; of several the smallest. A promotion that moves nothing may leave
    /// base pages beside their superpage.
    pub fn find(&self, asid: Asid, vpn: Vpn) -> Option<Page> {
        let pages =
            ORDERS.iter().filter(|order| self.live[index(**order)] > 0).map(|&order| Page::of(asid, vpn, order));
        { pages }.find(|page| self.entries.contains(page))
    }

    /// The translation of a base page.
    pub fn probe(&self, asid: Asid, vpn: Vpn) -> Option<Translation> {
        let page = self.find(asid, vpn)?;
        self.entries.get(&page).map(|entry| entry.translate(page, vpn))
    }

    /// PB-2: the entry for a base page leaves.
    pub fn take(&mut self, asid: Asid, vpn: Vpn) -> Option<(Page, Entry)> {
        let page = self.find(asid, vpn)?;
        self.live[index(page.order)] -= 1;
        self.entries.remove(&page).map(|entry| (page, entry))
    }

    /// Adds a page that is not there. Returns whether another left for it.
    pub fn put(&mut self, page: Page, entry: Entry) -> bool {
        let evicts = self.len() == self.most;
        if evicts && let Some((page, _)) = self.entries.pop() {
            self.live[index(page.order)] -= 1;
        }
        self.live[index(page.order)] += 1;
        self.entries.push(page, entry);
        evicts
    }

    fn drop_where(&mut self, goes: impl Fn(&Page) -> bool) -> u64 {
        let dropped = self.entries.drop_where(|page, _| goes(page));
        if dropped > 0 {
            self.live = [0; ORDERS.len()];
            self.entries.slots().for_each(|(_, page, _)| self.live[index(page.order)] += 1);
        }
        dropped
    }

    /// PB-9. This and the next two return how many entries were dropped.
    pub fn drop_pages(&mut self, asid: Asid, pages: VpnRange) -> u64 {
        if self.len() == 0 {
            return 0;
        }
        self.drop_where(|page| page.asid == asid && page.base_pages().overlaps(&pages))
    }

    pub fn drop_space(&mut self, asid: Asid) -> u64 {
        self.drop_where(|page| page.asid == asid)
    }

    /// Leaves those of this process.
    pub fn drop_others(&mut self, asid: Asid) -> u64 {
        self.drop_where(|page| page.asid != asid)
    }

    /// Its entries, slots from `before` on.
    pub fn views(&self, before: usize, into: &mut Vec<EntryView>) {
        into.extend(self.entries.slots().map(|(slot, page, entry)| EntryView {
            slot: before + slot,
            asid: page.asid,
            base: page.first(),
            order: page.order,
            pages: vec![(0, Translation { pfn: entry.pfn, attr: entry.attr }, false)],
            sb_enabled: None,
            used: None,
        }));
    }
}
