//! Frames: the free list, reservations, ownership.

use super::*;

impl PlainOs {
    pub(super) fn extend_to(&mut self, frames: u64) {
        while self.horizon < frames {
            self.free.insert(self.horizon, self.horizon);
            self.place.insert(self.horizon, self.horizon);
            self.horizon += 1;
        }
    }

    pub(super) fn push_free(&mut self, frame: u64) {
        self.free.insert(self.next_place, frame);
        self.place.insert(frame, self.next_place);
        self.next_place += 1;
    }

    pub(super) fn take_frame(&mut self, frame: u64) {
        let place = self.place.remove(&frame).expect("a free frame");
        self.free.remove(&place);
    }

    /// The lowest wholly free aligned group (T94-44).
    pub(super) fn free_group(&mut self) -> Option<u64> {
        let n = self.config.region;
        let mut first = 0;
        loop {
            if self.config.frames.is_none() {
                self.extend_to(first + n);
            }
            if first + n > self.horizon {
                return None;
            }
            if (first..first + n).all(|f| self.place.contains_key(&f)) {
                return Some(first);
            }
            first += n;
        }
    }

    /// The head of the free list, refilled from the reserved list (T94-46). The frame is busy.
    pub(super) fn ordinary_frame(&mut self) -> u64 {
        let short = self.free.is_empty() && self.config.frames.is_some();
        let batch = if short { self.config.reclaim_batch.min(self.reserved.len() as u64) } else { 0 };
        for _ in 0..batch {
            let stolen = self.reserved.remove(0);
            let page = self.owner.remove(&stolen).expect("a reserved frame has an identity");
            self.index.remove(&page);
            self.push_free(stolen);
            self.counts.reservations_stolen += 1;
        }
        let none_fresh = self.free.first_key_value().is_none_or(|(place, _)| *place >= FREED);
        if self.config.frames.is_none() && none_fresh {
            self.extend_to(self.horizon + 1);
        }
        let (_, &frame) = self.free.first_key_value().expect("out of memory");
        self.take_frame(frame);
        self.busy.insert(frame);
        frame
    }

    pub(super) fn own(&mut self, page: ObjectPage, frame: u64) {
        assert!(self.index.insert(page, frame).is_none(), "{page:?} has two frames");
        assert!(self.owner.insert(frame, page).is_none(), "frame {frame} has two identities");
    }

    /// Fills the frame of an object page.
    pub(super) fn load(&mut self, page: ObjectPage) {
        if self.classes[&page.0].is_file() {
            self.counts.io_bytes += 4096 << self.config.k;
        } else {
            self.counts.zeroed_pages += 1;
        }
    }

    pub(super) fn mappers(&self, frame: u64) -> usize {
        self.spaces.values().flat_map(|s| s.table.values()).filter(|e| e.frame == frame).count()
    }

    /// The object page has no frame any more.
    pub(super) fn forget(&mut self, page: ObjectPage) {
        let frame = self.index.remove(&page).expect("it has a frame");
        self.owner.remove(&frame);
        if let Some(at) = self.reserved.iter().position(|&f| f == frame) {
            self.reserved.remove(at);
            self.given_up.insert(frame);
        }
    }

    /// Ends identities whose object page is gone, then frees the frames without a use (OO-2, OO-3).
    pub(super) fn collect(&mut self) {
        let regions: Vec<&Region> = self.spaces.values().flat_map(|s| &s.regions).collect();
        let mut gone = Vec::new();
        for &page in self.index.keys() {
            let alive = if self.classes[&page.0] == Class::Memory {
                regions.iter().any(|r| r.maps(page))
            } else {
                regions.iter().any(|r| r.object == page.0)
            };
            if !alive {
                gone.push(page);
            }
        }
        let dead: Vec<ObjectId> =
            self.classes.keys().copied().filter(|o| regions.iter().all(|r| r.object != *o)).collect();
        for page in gone {
            self.forget(page);
        }
        let mut freed = std::mem::take(&mut self.given_up);
        let mapped: BTreeSet<u64> = self.spaces.values().flat_map(|s| s.table.values()).map(|e| e.frame).collect();
        let unneeded: Vec<u64> =
            self.busy.iter().copied().filter(|f| !mapped.contains(f) && !self.owner.contains_key(f)).collect();
        for frame in unneeded {
            self.busy.remove(&frame);
            freed.insert(frame);
            self.counts.freed_pages += 1;
        }
        match &mut self.held {
            Some(held) => held.extend(freed),
            None => freed.into_iter().for_each(|frame| self.push_free(frame)),
        }
        for object in dead {
            self.classes.remove(&object);
            self.alignment.remove(&object);
            self.files.retain(|_, o| *o != object);
            self.dealt_with.retain(|p| p.0 != object);
            self.large.retain(|p| p.0 != object);
        }
        self.check();
    }

    pub(super) fn note_peaks(&mut self) {
        let mapped: usize = self.spaces.values().map(|s| s.table.len()).sum();
        self.peaks.busy = self.peaks.busy.max(self.busy.len() as u64);
        self.peaks.reserved = self.peaks.reserved.max(self.reserved.len() as u64);
        self.peaks.mapped = self.peaks.mapped.max(mapped as u64);
    }

    /// XC-6 and T94-43.
    pub fn check(&mut self) {
        self.note_peaks();
        assert_eq!(self.free.len(), self.place.len());
        let held = self.held.as_ref().map_or(0, BTreeSet::len);
        assert_eq!(
            self.free.len() + self.busy.len() + self.reserved.len() + held,
            self.horizon as usize,
            "frames are lost"
        );
        for (page, frame) in &self.index {
            assert_eq!(self.owner.get(frame), Some(page));
            assert!(!self.place.contains_key(frame), "frame {frame} is owned and free");
        }
        for frame in &self.reserved {
            assert!(self.owner.contains_key(frame) && !self.busy.contains(frame));
        }
        for space in self.spaces.values() {
            for (v, e) in &space.table {
                assert!(self.busy.contains(&e.frame), "page {v:#x} is mapped to a frame that is not busy");
                let n = 1 << e.order;
                assert_eq!(v % n, e.frame % n, "T94-2");
            }
        }
    }
}
