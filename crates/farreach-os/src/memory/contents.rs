//! Which object page each busy frame holds, and whether it holds only zeros.

use super::Memory;
use crate::frames::numbers;
use crate::object::ObjectId;
use crate::page_index::PageLocation;
use farreach_types::addr::Pfn;

impl Memory {
    /// Makes the frame of an object page busy, if it has one. Returns the frame and whether it was reserved.
    pub fn claim(&mut self, object: ObjectId, page: u64) -> Option<(Pfn, bool)> {
        match self.objects.get(object).page_index.get(page)? {
            PageLocation::Busy(pfn) => Some((pfn, false)),
            PageLocation::Reserved(pfn, _) => {
                self.reserved.end_one();
                self.fill(object, page, pfn);
                Some((pfn, true))
            }
        }
    }

    /// The busy frame of an object page.
    pub fn frame_of(&self, object: ObjectId, page: u64) -> Option<Pfn> {
        match self.objects.get(object).page_index.get(page)? {
            PageLocation::Busy(pfn) => Some(pfn),
            PageLocation::Reserved(..) => None,
        }
    }

    /// A frame just allocated gets the contents of an object page: zeros, unless the object is a file.
    pub fn fill(&mut self, object: ObjectId, page: u64, pfn: Pfn) {
        let o = self.objects.get_mut(object);
        o.page_index.insert(page, PageLocation::Busy(pfn));
        let (cached, file) = (!o.private, o.kind.is_file());
        self.busy.insert(pfn, 1, cached);
        self.came(pfn, 1);
        self.put_zeros(pfn, 1, file);
        self.note_peak();
    }

    /// As [`Memory::fill`], for pages without frames and frames that follow each other.
    pub fn fill_run(&mut self, object: ObjectId, first: u64, pfn: Pfn, pages: u64) {
        let o = self.objects.get_mut(object);
        o.page_index.insert_run(first, pages, pfn);
        let (cached, file) = (!o.private, o.kind.is_file());
        self.busy.insert(pfn, pages, cached);
        self.came(pfn, pages);
        self.put_zeros(pfn, pages, file);
        self.note_peak();
    }

    /// Frames that became busy are filled with zeros, those of a file with its contents.
    fn put_zeros(&mut self, first: Pfn, pages: u64, file: bool) {
        let ahead = self.alloc.take_zeroed(first, pages);
        if file {
            (first.0..first.0 + pages).for_each(|frame| self.wrote(Pfn(frame)));
        } else {
            self.counts.zeroed_pages += pages - ahead;
            self.zeroed_ahead += ahead;
        }
    }

    /// A busy frame holds more than zeros now (OSC-3).
    pub fn wrote(&mut self, pfn: Pfn) {
        if self.watches_contents && !numbers::is_outside(pfn) {
            self.busy.set_written(pfn, true);
        }
    }

    /// Whether a frame holds zeros, as far as is known: it was zeroed, and no store reached it since (OSC-3).
    pub fn holds_zeros(&self, pfn: Pfn) -> bool {
        self.watches_contents && self.busy.is_zero(pfn)
    }

    /// A frame just allocated gets contents without identity: the private copy of a page of this frame, or of a file.
    pub fn fill_nameless(&mut self, pfn: Pfn, from: Option<Pfn>) {
        self.alloc.take_zeroed(pfn, 1);
        self.busy.insert(pfn, 1, false);
        self.came(pfn, 1);
        if !from.is_some_and(|from| self.holds_zeros(from)) {
            self.wrote(pfn);
        }
        self.note_peak();
    }

    /// Erases the identity of the object pages `first..last` (T94-60). Frames without a mapping are freed. Reservations
    /// end, unless `keep_reserved`.
    pub fn forget(&mut self, object: ObjectId, first: u64, last: u64, keep_reserved: bool) {
        let before = self.busy.len();
        for (slot, pages) in self.objects.get_mut(object).page_index.drain(first..last, keep_reserved) {
            match slot {
                PageLocation::Reserved(pfn, _) => {
                    self.reserved.end_one();
                    self.freed.push((pfn.0, 1));
                }
                // A private page that lost its last mapping before this is free already. Its frame is not reused within
                // the event.
                PageLocation::Busy(pfn) => self.busy.disown_run(pfn, pages, &mut self.freed),
            }
        }
        self.counts.freed_pages += before - self.busy.len();
    }

    /// Gives a page of a private object another busy frame: its copy (T94-57), or what it inherits by fork.
    pub fn rename(&mut self, object: ObjectId, page: u64, pfn: Pfn) {
        let old = self.objects.get_mut(object).page_index.insert(page, PageLocation::Busy(pfn));
        debug_assert!(!matches!(old, Some(PageLocation::Reserved(..))), "a mapped page was reserved");
    }

    /// One region fewer maps the object. The last one destroys it.
    pub fn drop_mapper(&mut self, object: ObjectId) {
        let o = self.objects.get_mut(object);
        o.mappers -= 1;
        if o.mappers == 0 {
            self.forget(object, 0, u64::MAX, false);
            self.reservations.end_object(object);
            let gone = self.objects.destroy(object);
            self.page_cache.forget(&gone.cache);
        }
    }
}
