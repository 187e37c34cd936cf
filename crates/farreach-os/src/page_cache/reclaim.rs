//! Dropping pages of files that no page table names, when memory is short.

use super::{FileCache, Folio};
use crate::memory::Memory;
use crate::object::ObjectId;
use crate::os::Os;
use std::ops::Range;

/// Pages that are dropped at a time (Linux: `SWAP_CLUSTER_MAX`).
const BATCH: u64 = 32;

impl Os {
    /// Drops some pages: whole folios first. False if there are none. To be called when no object has its cache taken.
    pub(crate) fn drop_cache(&mut self) -> bool {
        let before = self.memory.page_cache.next;
        self.memory.page_cache.can_drop() && (self.memory.drop_folios(None, before) || self.memory.drop_parts())
    }
}

impl Memory {
    /// Drops folios that no page table names, oldest first, of those that were read before the folio with the number
    /// `before`; others get a new turn. `taken` is an object whose cache is not in its place. False if there was none.
    pub(super) fn drop_folios(&mut self, mut taken: Option<(ObjectId, &mut FileCache)>, before: u64) -> bool {
        let mut dropped = 0;
        while dropped < BATCH
            && let Some((object, first)) = self.page_cache.pop(before)
        {
            let cache = match &mut taken {
                Some((of, cache)) if *of == object => &mut **cache,
                _ => &mut self.objects.get_mut(object).cache,
            };
            let folio = cache.folios.remove(&first).expect("what waits for its turn is there");
            let is_mapped = folio.pages(first).any(|page| self.is_mapped(object, page));
            if !is_mapped {
                dropped += self.drop_pages(object, folio.pages(first));
                continue;
            }
            let number = Some(self.page_cache.enqueue(object, first));
            let cache = match &mut taken {
                Some((of, cache)) if *of == object => &mut **cache,
                _ => &mut self.objects.get_mut(object).cache,
            };
            cache.folios.insert(first, Folio { number, ..folio });
        }
        if dropped > 0 {
            self.release_freed();
        }
        dropped > 0
    }

    /// Drops the pages that no page table names of folios of which others are mapped. What is mapped of them are single
    /// pages from then on. False if there was none; then nothing is asked for again before a page is unmapped or read.
    fn drop_parts(&mut self) -> bool {
        let (before, mut dropped) = (self.page_cache.next, 0);
        while dropped < BATCH
            && let Some((object, first)) = self.page_cache.pop(before)
        {
            let folio = self.objects.get_mut(object).cache.folios.remove(&first);
            let folio = folio.expect("what waits for its turn is there");
            let gone: Vec<u64> = folio.pages(first).filter(|page| !self.is_mapped(object, *page)).collect();
            let parts = if gone.is_empty() { vec![(first, folio)] } else { singles(folio, first, &gone) };
            for (first, folio) in parts {
                let number = Some(self.page_cache.enqueue(object, first));
                self.objects.get_mut(object).cache.folios.insert(first, Folio { number, ..folio });
            }
            dropped += gone.into_iter().map(|page| self.drop_pages(object, page..page + 1)).sum::<u64>();
        }
        self.page_cache.dry = dropped == 0;
        if dropped > 0 {
            self.release_freed();
        }
        dropped > 0
    }

    /// Whether some page table names a page of a file.
    fn is_mapped(&self, object: ObjectId, page: u64) -> bool {
        self.frame_of(object, page).is_some_and(|pfn| self.mappings(pfn) > 0)
    }

    /// Frees the frames of pages that no page table names. Returns how many.
    fn drop_pages(&mut self, object: ObjectId, pages: Range<u64>) -> u64 {
        let before = self.resident();
        self.forget(object, pages.start, pages.end, true);
        let dropped = before - self.resident();
        self.page_cache.tally.dropped += dropped;
        dropped
    }
}

/// The pages of a folio but for those that are gone.
fn singles(folio: Folio, first: u64, gone: &[u64]) -> Vec<(u64, Folio)> {
    let stays = folio.pages(first).filter(|page| !gone.contains(page));
    stays.map(|page| (page, Folio { order: 0, marker: false, number: None })).collect()
}
