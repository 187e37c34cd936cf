//! The page cache with readahead and large folios (PGC), for policies that say so. Pages of a file are read in windows
//! (`readahead.rs`), which get folios: aligned blocks of frames where there are some (`read.rs`). Faults map what is in
//! memory already (`map.rs`). Shared anonymous memory has folios by settings of its own (`shmem.rs`).
//!
//! A page that was read stays in memory until no region maps its file, whether a page table names it or not. When
//! memory is short, folios that no page table names are dropped, those first that were read first; then such pages of
//! other folios (`reclaim.rs`). They are clean, or are taken to be written back. So memory is full with a page cache
//! when it would be full with the mapped pages alone.

mod map;
mod read;
mod readahead;
mod reclaim;
mod shmem;
#[cfg(test)]
mod tests;

use crate::object::ObjectId;
pub use readahead::{Limits, Readahead};
pub use shmem::{SharedSize, SharedSizes};
use std::collections::BTreeMap;
use std::ops::Range;

/// What the policy says of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Files {
    /// Windows and folios.
    pub limits: Limits,
    /// A miss reads on from its page, as a read of one page does (PGC-2), not around it, as a fault does (PGC-5).
    pub ahead: bool,
}

/// What the policy says of page table entries of folios (PGC-6, CPT-1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Entries {
    /// log2 of the pages that an entry of a page directory maps.
    pub leaf: u32,
    /// log2 of the pages that the contiguous bit joins; 0: there is none.
    pub contpte: u32,
    /// log2 of the pages that a fault maps around it; 0: its own page alone.
    pub around: u32,
}

/// Pages that were read or filled together: aligned in the file, and in a block of frames until compaction moves some.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Folio {
    /// log2 of its pages.
    pub order: u32,
    /// It carries the marker: its first access reads the next window.
    pub marker: bool,
    /// Its place in the order in which folios are dropped; `None`: it is never dropped.
    number: Option<u64>,
}

/// The part of the page cache that an object has.
#[derive(Debug, Default)]
pub struct FileCache {
    readahead: Readahead,
    /// By first page.
    folios: BTreeMap<u64, Folio>,
    /// The page after the last one that was mapped so far: where the file ends, as far as is known.
    end: u64,
}

/// What was done so far.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Windows that were read, and their pages that were not in memory.
    pub windows: u64,
    /// Pages read in windows.
    pub pages: u64,
    /// Markers that were met.
    pub markers: u64,
    /// Folios by order.
    pub folios: Vec<u64>,
    /// Folios larger than a page for which there was no block, or that had a page in memory.
    pub fallbacks: u64,
    /// Pages that were dropped because memory was short.
    pub dropped: u64,
}

/// The page cache of a system.
#[derive(Debug, Default)]
pub struct PageCache {
    /// Readahead; `None`: files are in memory, and each of their pages gets a frame at its first fault.
    pub files: Option<Files>,
    /// Folios of shared anonymous memory (PGC-7).
    pub shared: SharedSizes,
    /// How folios are mapped.
    pub entries: Entries,
    /// What was done so far.
    pub tally: Tally,
    /// Folios of files by the number of their turn to be dropped: object and first page.
    queue: BTreeMap<u64, (ObjectId, u64)>,
    next: u64,
    /// Nothing can be dropped until some page loses its last entry, or is read.
    dry: bool,
}

impl Folio {
    /// Its pages, if `first` is the first.
    pub fn pages(&self, first: u64) -> Range<u64> {
        first..first + (1 << self.order)
    }
}

impl FileCache {
    /// The folio of a page, if it is in the cache: its first page, and what it is.
    pub fn folio(&self, page: u64) -> Option<(u64, Folio)> {
        let (&first, &folio) = self.folios.range(..=page).next_back()?;
        folio.pages(first).contains(&page).then_some((first, folio))
    }

    /// The numbers of its folios in the queue.
    fn numbers(&self) -> impl Iterator<Item = u64> {
        self.folios.values().filter_map(|folio| folio.number)
    }
}

impl PageCache {
    /// An empty one.
    pub fn new(files: Option<Files>, shared: SharedSizes, entries: Entries) -> PageCache {
        PageCache { files, shared, entries, ..PageCache::default() }
    }

    /// Whether a policy uses it at all.
    pub fn is_used(&self) -> bool {
        self.files.is_some() || !self.shared.is_empty()
    }

    /// A folio came into memory.
    fn add(&mut self, cache: &mut FileCache, object: ObjectId, first: u64, order: u32, marker: bool, droppable: bool) {
        let number = droppable.then(|| self.enqueue(object, first));
        cache.folios.insert(first, Folio { order, marker, number });
        let order = order as usize;
        if self.tally.folios.len() <= order {
            self.tally.folios.resize(order + 1, 0);
        }
        self.tally.folios[order] += 1;
    }

    fn enqueue(&mut self, object: ObjectId, first: u64) -> u64 {
        self.dry = false;
        self.queue.insert(self.next, (object, first));
        self.next += 1;
        self.next - 1
    }

    /// Whether there may be something to drop.
    fn can_drop(&self) -> bool {
        !self.dry && !self.queue.is_empty()
    }

    /// The folio whose turn it is to be dropped, if it came before the one with this number. It leaves the queue.
    fn pop(&mut self, before: u64) -> Option<(ObjectId, u64)> {
        let first = self.queue.first_entry().filter(|first| !self.dry && *first.key() < before)?;
        Some(first.remove())
    }

    /// Pages of a file may have lost their last entry.
    pub fn unmapped(&mut self) {
        self.dry = false;
    }

    /// An object is gone with its part of the cache.
    pub fn forget(&mut self, cache: &FileCache) {
        cache.numbers().for_each(|number| _ = self.queue.remove(&number));
    }

    /// What was counted, by name.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let mut all = Vec::new();
        if self.files.is_some() {
            let tally = &self.tally;
            let named = [
                ("readahead_windows", tally.windows),
                ("readahead_pages", tally.pages),
                ("readahead_markers", tally.markers),
                ("cache_dropped_pages", tally.dropped),
            ];
            all.extend(named.map(|(name, count)| (name.to_owned(), count)));
        }
        if self.is_used() {
            let of = |order: u32| self.tally.folios.get(order as usize).copied().unwrap_or(0);
            all.extend((0..=self.largest()).map(|order| (format!("folios_of_order_{order}"), of(order))));
            all.push(("folio_fallbacks".into(), self.tally.fallbacks));
        }
        all
    }

    /// log2 of the pages of the largest folio that there can be.
    fn largest(&self) -> u32 {
        let of_files = self.files.map_or(0, |files| files.limits.max_order);
        self.shared.largest().max(of_files)
    }
}
