//! Physical memory: which frames hold something, which are held back (T94-43, T94-46), and how much of all that there was.

use super::busy::BusyFrames;
use super::direct_map::is_direct;
use super::object::{ObjectId, Objects};
use super::page_index::PageLocation;
use crate::frames::sparse::FrameSet;
use crate::frames::{FrameAllocator, Pool};
use farreach_types::addr::{Pfn, Vpn};
use farreach_types::counts::OsCounts;
use std::collections::VecDeque;

/// Frames, objects, reservations and the counters of all of them.
pub struct Memory {
    /// Who is free.
    pub alloc: Box<dyn FrameAllocator>,
    /// Frames that a policy set aside at the start; counted as handed out by the allocator.
    pub pool: Pool,
    /// Objects and the identity index.
    pub objects: Objects,
    /// Counters of the whole operating system.
    pub counts: OsCounts,
    busy: BusyFrames,
    /// Frames of others, which compaction may move.
    others: FrameSet,
    reserved: VecDeque<(u64, ObjectId, u64)>,
    reserved_live: u64,
    /// Taken from the allocator for a process, and not given to it yet.
    kept: u64,
    next_stamp: u64,
    reclaim_batch: u64,
    /// log2 of the base page.
    shift: u32,
    peak: Peak,
    /// Freed by the event under way: first frame and number.
    freed: Vec<(u64, u64)>,
}

/// Largest values, in frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peak {
    /// Busy frames.
    pub resident: u64,
    /// Busy frames that nothing had referenced, at the time of `resident`.
    pub wasted: u64,
    /// Frames held back.
    pub reserved: u64,
}

impl Memory {
    /// `reclaim_batch`: reserved frames taken back at a time (AMB-8). `shift`: log2 of the base page.
    pub fn new(alloc: Box<dyn FrameAllocator>, reclaim_batch: u64, shift: u32) -> Memory {
        let mut others = FrameSet::default();
        alloc.movable().ranges().for_each(|range| others.insert(range));
        Memory {
            alloc,
            others,
            pool: Pool::default(),
            objects: Objects::default(),
            counts: OsCounts::default(),
            busy: BusyFrames::default(),
            reserved: VecDeque::new(),
            reserved_live: 0,
            kept: 0,
            next_stamp: 0,
            reclaim_batch,
            shift,
            peak: Peak::default(),
            freed: Vec::new(),
        }
    }

    /// Bytes of a base page.
    pub fn page_bytes(&self) -> u64 {
        1 << self.shift
    }
    /// Frames with contents.
    pub fn resident(&self) -> u64 {
        self.busy.len()
    }
    /// Frames held back.
    pub fn reserved(&self) -> u64 {
        self.reserved_live + self.kept
    }
    /// Frames that the allocator handed out are held back for a process.
    pub fn keep(&mut self, frames: u64) {
        self.kept += frames;
        self.peak.reserved = self.peak.reserved.max(self.reserved());
    }
    /// The number of such frames.
    pub fn kept(&self) -> u64 {
        self.kept
    }
    /// Frames are no longer held back.
    pub fn unkeep(&mut self, frames: u64) {
        self.kept -= frames;
    }
    /// Largest values so far.
    pub fn peak(&self) -> Peak {
        self.peak
    }

    /// One free frame for `vpn` as an ordinary allocator would give it; when none is free, the oldest reservations are given
    /// up: from the head of the reserved list to the tail of the free list (T94-46). `None`: memory is full.
    pub fn ordinary(&mut self, vpn: Vpn) -> Option<Pfn> {
        loop {
            if let Some(pfn) = self.alloc.alloc_near(vpn) {
                return Some(pfn);
            }
            if (0..self.reclaim_batch).take_while(|_| self.steal_one()).count() == 0 {
                return None;
            }
        }
    }

    /// Frames for `pages` pages in the largest blocks there are (RMM15-24): first frame and number of each. `None`, and nothing is
    /// taken, unless all are to be had, or the allocator knows no blocks.
    pub fn together(&mut self, pages: u64) -> Option<Vec<(Pfn, u64)>> {
        let buddy = self.alloc.as_buddy()?;
        let got = buddy.eager(pages);
        if got.missing > 0 {
            got.blocks.into_iter().for_each(|(base, n)| buddy.free_range(base, n));
            return None;
        }
        Some(got.blocks)
    }

    /// A wholly free aligned block of `2^order` frames.
    pub fn block(&mut self, order: u32) -> Option<Pfn> {
        match self.alloc.as_buddy() {
            Some(buddy) => buddy.alloc_order(order),
            None => self.alloc.alloc_group(order, &(0..1 << order).collect::<Vec<_>>()),
        }
    }

    /// Sets frames aside: `blocks` aligned blocks of `2^order`. Says how many there were.
    pub fn set_aside(&mut self, blocks: u64, order: u32) -> u64 {
        let mut got = 0;
        while got < blocks {
            let Some(base) = self.block(order) else { break };
            self.pool.add(base, 1 << order);
            got += 1;
        }
        got
    }

    /// The busy frame `from` becomes free, its contents and its place in the mappings go to the frame `to`, which was just taken. Page
    /// tables and objects are the caller's business.
    pub fn move_frame(&mut self, from: Pfn, to: Pfn) {
        self.busy.move_to(from, to);
        self.freed.push((from.0, 1));
    }

    /// Busy frames, in no order.
    pub fn busy_frames(&self) -> impl Iterator<Item = Pfn> {
        self.busy.iter()
    }

    /// Frames of others, which may be moved, in no order.
    pub fn others(&self) -> &FrameSet {
        &self.others
    }

    /// As [`Memory::move_frame`], for a frame of others.
    pub fn move_other(&mut self, from: Pfn, to: Pfn) {
        let there = self.others.remove(from.0..from.0 + 1);
        debug_assert!(there, "{from:?} is nobody else's");
        self.others.insert(to.0..to.0 + 1);
        self.freed.push((from.0, 1));
    }

    fn steal_one(&mut self) -> bool {
        while let Some((stamp, object, page)) = self.reserved.pop_front() {
            if let Some(pfn) = self.reservation(object, page, stamp) {
                self.objects.get_mut(object).page_index.remove(page);
                self.reserved_live -= 1;
                self.counts.reservations_stolen += 1;
                self.alloc.free(pfn);
                return true;
            }
        }
        false
    }

    /// The frame of a reserved-list element, if it still stands. An element outlives its reservation, even its object; stamps
    /// are unique, so a later reservation is never taken for it.
    fn reservation(&self, object: ObjectId, page: u64, stamp: u64) -> Option<Pfn> {
        match self.objects.try_get(object)?.page_index.get(page)? {
            PageLocation::Reserved(pfn, s) if s == stamp => Some(pfn),
            _ => None,
        }
    }

    /// Holds a frame back for an object page: tail of the reserved list (T94-44).
    pub fn reserve(&mut self, object: ObjectId, page: u64, pfn: Pfn) {
        let stamp = self.next_stamp;
        self.next_stamp += 1;
        let old = self.objects.get_mut(object).page_index.insert(page, PageLocation::Reserved(pfn, stamp));
        debug_assert!(old.is_none(), "page {page} of {object:?} had a frame");
        self.reserved.push_back((stamp, object, page));
        self.reserved_live += 1;
        self.peak.reserved = self.peak.reserved.max(self.reserved());
        if self.reserved.len() as u64 > 2 * self.reserved_live + 1024 {
            let mut list = std::mem::take(&mut self.reserved);
            list.retain(|&(stamp, object, page)| self.reservation(object, page, stamp).is_some());
            self.reserved = list;
        }
    }

    /// The reserved or busy frame of an object page becomes (or is) busy; says which and whether it was reserved.
    pub fn claim(&mut self, object: ObjectId, page: u64) -> Option<(Pfn, bool)> {
        match self.objects.get(object).page_index.get(page)? {
            PageLocation::Busy(pfn) => Some((pfn, false)),
            PageLocation::Reserved(pfn, _) => {
                self.reserved_live -= 1;
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
        let cached = !o.private;
        self.counts.zeroed_pages += u64::from(!o.kind.is_file());
        self.busy.insert(pfn, 1, cached);
        self.note_peak();
    }

    /// As [`Memory::fill`], for pages without frames and frames that follow each other.
    pub fn fill_run(&mut self, object: ObjectId, first: u64, pfn: Pfn, pages: u64) {
        let o = self.objects.get_mut(object);
        o.page_index.insert_run(first, pages, pfn);
        let cached = !o.private;
        self.counts.zeroed_pages += if o.kind.is_file() { 0 } else { pages };
        self.busy.insert(pfn, pages, cached);
        self.note_peak();
    }

    /// A frame just allocated gets contents without identity: the private copy of a file page.
    pub fn fill_nameless(&mut self, pfn: Pfn) {
        self.busy.insert(pfn, 1, false);
        self.note_peak();
    }

    fn note_peak(&mut self) {
        if self.resident() >= self.peak.resident {
            self.peak.resident = self.resident();
            self.peak.wasted = self.resident() - self.busy.touched();
        }
    }

    /// One more page table entry names each of the frames.
    pub fn map(&mut self, first: Pfn, frames: u64) {
        if !is_direct(first) {
            self.busy.map(first, frames);
        }
    }

    /// Page table entries that name the frame.
    pub fn mappings(&self, pfn: Pfn) -> u32 {
        self.busy.mappings(pfn)
    }

    /// A page that is mapped to the frame was referenced.
    pub fn touch(&mut self, pfn: Pfn) {
        if !is_direct(pfn) && self.busy.touch(pfn) {
            self.note_peak();
        }
    }

    /// One page table entry less names each of the frames; the last one frees a frame unless an object keeps it.
    pub fn unmap(&mut self, first: Pfn, frames: u64) {
        if is_direct(first) {
            return;
        }
        let before = self.busy.len();
        self.busy.unmap_run(first, frames, &mut self.freed);
        self.counts.freed_pages += before - self.busy.len();
    }

    /// One page table entry less names the frame, but it is about to be named by another: it stays busy.
    pub fn unmap_soft(&mut self, pfn: Pfn) {
        if !is_direct(pfn) {
            self.busy.unmap(pfn);
        }
    }

    /// Ends an event: what it freed goes to the tail of the free list together, in ascending order.
    pub fn release_freed(&mut self) {
        self.freed.sort_unstable();
        for (mut first, mut frames) in std::mem::take(&mut self.freed) {
            while frames > 0 {
                let (owned, part) = self.pool.part(first, frames);
                if owned {
                    self.pool.give(Pfn(first), part);
                } else {
                    self.alloc.free_run(Pfn(first), part);
                }
                (first, frames) = (first + part, frames - part);
            }
        }
    }

    /// Erases the identity of the object pages `first..last` (T94-60): frames that nobody maps are freed, and reservations end,
    /// unless they are to be kept.
    pub fn forget(&mut self, object: ObjectId, first: u64, last: u64, keep_reserved: bool) {
        let before = self.busy.len();
        for (slot, pages) in self.objects.get_mut(object).page_index.drain(first..last, keep_reserved) {
            match slot {
                PageLocation::Reserved(pfn, _) => {
                    self.reserved_live -= 1;
                    self.freed.push((pfn.0, 1));
                }
                // A private page whose last mapping went first is free already; what the event under way frees is nobody else's yet.
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

    /// One region less maps the object; the last one destroys it.
    pub fn drop_mapper(&mut self, object: ObjectId) {
        let o = self.objects.get_mut(object);
        o.mappers -= 1;
        if o.mappers == 0 {
            self.forget(object, 0, u64::MAX, false);
            self.objects.destroy(object);
        }
    }

    /// XC-6 and the bookkeeping of T94-43: everything adds up. For tests and debug builds.
    pub fn check(&self) {
        let held = self.reserved() + self.pool.free_frames() + self.others.len();
        assert_eq!(
            self.alloc.allocated() + self.pool.foreign(),
            self.resident() + held,
            "allocated = busy + reserved + set aside + others'"
        );
        if let (Some(total), Some(free)) = (self.alloc.total(), self.alloc.free_frames()) {
            assert_eq!(free + self.alloc.allocated() + self.alloc.pinned(), total, "XC-6");
        }
        let live = self.reserved.iter().filter(|(s, o, p)| self.reservation(*o, *p, *s).is_some()).count() as u64;
        assert_eq!(live, self.reserved_live, "every reservation is on the list once");
        self.busy.check();
    }
}
