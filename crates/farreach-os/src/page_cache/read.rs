//! Reading windows of files into memory (PGC-4).

use super::readahead::Window;
use super::{FileCache, Files};
use crate::memory::Memory;
use crate::object::ObjectId;
use crate::os::Os;
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::{Asid, Vpn};

impl Os {
    /// A fault on a page of a file: reads the window that a miss or a marker asks for. The page itself is in memory
    /// afterwards if there was a frame for it, one of an older folio included.
    pub(super) fn read_ahead(&mut self, asid: Asid, vpn: Vpn, region: &Region) {
        let Some(files) = self.memory.page_cache.files else { return };
        let (object, page) = (region.object, region.page_of(vpn));
        let mut cache = self.take_cache(object);
        if self.memory.frame_of(object, page).is_none() {
            let window = self.window_of_miss(asid, &files, &mut cache, page, region);
            self.memory.read_window(object, &mut cache, window);
        }
        if let Some((first, folio)) = cache.folio(page)
            && folio.marker
        {
            cache.folios.get_mut(&first).expect("just found").marker = false;
            if let Some(window) = cache.readahead.marked(&files.limits, folio.pages(first)) {
                self.memory.page_cache.tally.markers += 1;
                self.memory.read_window(object, &mut cache, window);
            }
        }
        cache.readahead.accessed(page);
        self.memory.objects.get_mut(object).cache = cache;
    }

    /// The cache of an object, to be put back.
    pub(super) fn take_cache(&mut self, object: ObjectId) -> FileCache {
        let object = self.memory.objects.get_mut(object);
        let (_, end) = object.ends();
        let mut cache = std::mem::take(&mut object.cache);
        cache.end = cache.end.max(end);
        cache
    }

    /// The window that is read when a page is missing, by what its mapping is (PGC-2, PGC-5).
    fn window_of_miss(&self, asid: Asid, files: &Files, cache: &mut FileCache, page: u64, region: &Region) -> Window {
        let (limits, readahead) = (&files.limits, &mut cache.readahead);
        if self.huge_advice(asid, region) == HugeAdvice::Huge {
            return readahead.huge(limits, page);
        }
        if files.ahead {
            return readahead.miss(limits, page, 1);
        }
        if limits.exec_order > 0 && region.prot.exec {
            return readahead.exec(limits, page, region.first_page..region.first_page + region.range.pages);
        }
        readahead.around(limits, page)
    }
}

impl Memory {
    /// Reads the pages of a window that are not in memory: folios as long as there are blocks and none of their pages
    /// is there, then single pages, until no frame is free that can be had by dropping folios read before.
    fn read_window(&mut self, object: ObjectId, cache: &mut FileCache, window: Window) {
        self.page_cache.tally.windows += 1;
        self.alloc.prefer_zeroed(false);
        let before = self.page_cache.next;
        let mut single = window.start..cache.end.min(window.start + window.pages);
        for (first, order) in window.folios(cache.end) {
            if order > 0 && !self.read_folio(object, cache, first, order, window.marker) {
                self.page_cache.tally.fallbacks += 1;
                break;
            }
            if order == 0 && !self.read_page(object, cache, first, window.marker, before) {
                single.start = single.end;
                break;
            }
            single.start = first + (1 << order);
        }
        for page in single {
            if !self.read_page(object, cache, page, window.marker, before) {
                break;
            }
        }
    }

    /// A folio larger than a page. False, and nothing is read, if a page of it is in memory, or there is no block.
    fn read_folio(
        &mut self,
        object: ObjectId,
        cache: &mut FileCache,
        first: u64,
        order: u32,
        marker: Option<u64>,
    ) -> bool {
        let pages = 1 << order;
        if self.objects.get(object).page_index.any_in(first..first + pages) {
            return false;
        }
        let Some(base) = self.alloc_block(order) else { return false };
        self.fill_run(object, first, base, pages);
        self.has_read(pages);
        let marker = marker.is_some_and(|marker| (first..first + pages).contains(&marker));
        self.page_cache.add(cache, object, first, order, marker, true);
        true
    }

    /// One page, unless it is in memory. False if there is no frame for it.
    fn read_page(
        &mut self,
        object: ObjectId,
        cache: &mut FileCache,
        page: u64,
        marker: Option<u64>,
        before: u64,
    ) -> bool {
        if self.frame_of(object, page).is_some() {
            return true;
        }
        let near = Vpn(page.wrapping_add(self.objects.get(object).shift));
        let pfn = loop {
            match self.alloc_frame(near) {
                Some(pfn) => break pfn,
                None if self.drop_folios(Some((object, &mut *cache)), before) => {}
                None => return false,
            }
        };
        self.fill(object, page, pfn);
        self.has_read(1);
        self.page_cache.add(cache, object, page, 0, marker == Some(page), true);
        true
    }

    /// A page of a file is in memory. If it came alone, it is a folio now.
    pub(super) fn note_page(&mut self, object: ObjectId, page: u64) {
        let mut cache = std::mem::take(&mut self.objects.get_mut(object).cache);
        if cache.folio(page).is_none() {
            self.page_cache.add(&mut cache, object, page, 0, false, true);
        }
        self.objects.get_mut(object).cache = cache;
    }

    fn has_read(&mut self, pages: u64) {
        self.counts.io_bytes += pages * self.page_bytes();
        self.page_cache.tally.pages += pages;
    }
}
