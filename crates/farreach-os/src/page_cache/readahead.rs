//! Readahead (PGC-1 to PGC-5): which pages of a file are read at a miss and at a marker, and in which folios. A pure
//! state machine: it knows neither frames nor page tables. All sizes are in pages.

use std::ops::Range;

/// What holds for all files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// `ra_pages`: the largest window, at least one page.
    pub pages: u64,
    /// log2 of the pages of the largest folio of the file system (PGC-1).
    pub max_order: u32,
    /// log2 of the pages of the folios of memory with MADV_HUGEPAGE (PGC-5).
    pub huge_order: u32,
    /// log2 of the pages of the folios of executable mappings (PGC-5); 0: these are as others.
    pub exec_order: u32,
}

/// Pages to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// The first.
    pub start: u64,
    /// How many.
    pub pages: u64,
    /// log2 of the pages of its largest folio.
    pub order: u32,
    /// The page whose folio carries the marker, if one is to carry it.
    pub marker: Option<u64>,
}

/// The state of an open file (PGC-1).
#[derive(Clone, Debug, Default)]
pub struct Readahead {
    start: u64,
    size: u64,
    async_size: u64,
    order: u32,
    /// The page that was accessed last, as far as the system learns of accesses.
    previous: Option<u64>,
}

impl Readahead {
    /// A page was accessed. To be called after what the access made the system read.
    pub fn accessed(&mut self, page: u64) {
        self.previous = Some(page);
    }

    /// PGC-2: a read of `asked` pages from `page` on finds its first page missing. A read that continues neither the
    /// file from its start nor the one before, and is not larger than a window, reads what it asks for.
    pub fn miss(&mut self, limits: &Limits, page: u64, asked: u64) -> Window {
        let after = self.previous.and_then(|previous| page.checked_sub(previous));
        let goes_on = page == 0 || asked > limits.pages || after.is_some_and(|distance| distance <= 1);
        if !goes_on {
            return Window { start: page, pages: asked, order: 0, marker: None };
        }
        let rounded = asked.next_power_of_two();
        let size = match rounded {
            r if r <= limits.pages / 32 => 4 * r,
            r if r <= limits.pages / 4 => 2 * r,
            _ => limits.pages,
        };
        let ahead = if size > asked { size - asked } else { size / 2 };
        self.set(page, size, ahead, 0);
        self.submit(limits)
    }

    /// PGC-3: the folio of these pages, which carried the marker, is accessed for the first time. `None`: it is not
    /// where the marker of the last window is.
    pub fn marked(&mut self, limits: &Limits, folio: Range<u64>) -> Option<Window> {
        if self.async_size == 0 || !folio.contains(&self.marker()) {
            return None;
        }
        let start = self.start + self.size;
        let next = match self.size {
            size if size < limits.pages / 16 => 4 * size,
            size if size <= limits.pages / 2 => 2 * size,
            _ => limits.pages,
        };
        // The windows of memory with MADV_HUGEPAGE are larger than others, and stay so.
        let mut size = next.max(self.size);
        let order = self.order + 2;
        let aligned = order.min(limits.pages.ilog2());
        let end = (start + size) >> aligned << aligned;
        if end > start {
            size = end - start;
        }
        self.set(start, size, size, order);
        Some(self.submit(limits))
    }

    /// PGC-5: a page of an ordinary mapping is missing.
    pub fn around(&mut self, limits: &Limits, page: u64) -> Window {
        self.set(page.saturating_sub(limits.pages / 2), limits.pages, limits.pages / 4, 0);
        self.submit(limits)
    }

    /// PGC-5: a page of a mapping with MADV_HUGEPAGE is missing. Two folios, of which the second carries the marker.
    pub fn huge(&mut self, limits: &Limits, page: u64) -> Window {
        let pages = 1 << limits.huge_order;
        self.set(page & !(pages - 1), 2 * pages, pages, limits.huge_order);
        self.submit(limits)
    }

    /// PGC-5: a page of an executable mapping is missing, where these have an order of their own. `mapping`: the pages
    /// of the file that it maps.
    pub fn exec(&mut self, limits: &Limits, page: u64, mapping: Range<u64>) -> Window {
        let folio = 1 << limits.exec_order;
        let start = (page & !(folio - 1)).max(mapping.start);
        let end = (start + limits.pages).next_multiple_of(folio).min(mapping.end);
        self.set(start, end.max(page + 1) - start, 0, limits.exec_order);
        self.submit(limits)
    }

    fn set(&mut self, start: u64, size: u64, async_size: u64, order: u32) {
        (self.start, self.size, self.async_size, self.order) = (start, size, async_size, order);
    }

    fn marker(&self) -> u64 {
        self.start + self.size - self.async_size
    }

    /// PGC-4: the order of the folios, which is remembered.
    fn submit(&mut self, limits: &Limits) -> Window {
        self.order = self.order.min(limits.max_order).min(self.size.ilog2());
        let marker = Some(self.marker()).filter(|_| self.async_size > 0);
        Window { start: self.start, pages: self.size, order: self.order, marker }
    }
}

impl Window {
    /// PGC-4: its folios, as first page and log2 of their pages, in a file that ends before page `end`.
    pub fn folios(self, end: u64) -> impl Iterator<Item = (u64, u32)> {
        let (mut at, end) = (self.start, end.min(self.start.saturating_add(self.pages)));
        std::iter::from_fn(move || {
            let room = end.checked_sub(at).filter(|room| *room > 0)?;
            let order = self.order.min(at.trailing_zeros()).min(room.ilog2());
            at += 1 << order;
            Some((at - (1 << order), order))
        })
    }
}

#[cfg(test)]
mod tests;
