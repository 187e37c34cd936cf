//! Physical memory: the frames with contents, the frames held back (T94-43, T94-46), and their largest numbers.

mod contents;
pub(crate) mod folios;
pub(crate) mod held;
pub(crate) mod homes;

use crate::busy::BusyFrames;
use crate::frames::contract::FrameAllocator;
use crate::frames::numbers;
use crate::frames::pool::Pool;
use crate::frames::sparse::FrameSet;
use crate::object::{ObjectId, Objects};
use crate::page_cache::PageCache;
use crate::reservations::Reservations;
use crate::reserved_list::ReservedList;
use farreach_types::addr::{Pfn, Vpn};
use farreach_types::counts::{FreeMemory, OsCounts};
use folios::Folios;
use held::Held;
use homes::Homes;
use std::ops::Range;

/// Frames, objects, reservations and the counters of all of them.
pub struct Memory {
    /// Which frames are free.
    pub alloc: Box<dyn FrameAllocator>,
    /// Frames that a policy set aside at the start; the allocator counts them as allocated.
    pub pool: Pool,
    /// Blocks that are held back for groups of pages, if the policy holds some back.
    pub reservations: Reservations,
    /// Blocks that stay whole when a part of them is unmapped, if the policy keeps them so (LNX-21).
    pub folios: Folios,
    /// Frames that stay taken for a while after they were freed.
    pub held: Held,
    /// On which nodes frames lie, if memory has nodes (CLP-1).
    pub homes: Option<Homes>,
    /// Objects and the identity index.
    pub objects: Objects,
    /// Folios and readahead of files, if the policy has any (PGC).
    pub page_cache: PageCache,
    /// Counters of the whole operating system.
    pub counts: OsCounts,
    /// Whether the policy wants to know which frames hold zeros (OSC-3).
    pub watches_contents: bool,
    /// Pages that needed no zeros, since their frames had some ahead (HWE-6).
    pub zeroed_ahead: u64,
    /// Faults that mapped a page of zeros, and a superpage of them (LNX-2, LNX-4).
    pub zero_faults: (u64, u64),
    busy: BusyFrames,
    /// Frames of other programs that compaction may move.
    others: FrameSet,
    reserved: ReservedList,
    /// Frames taken from the allocator and held back for a process.
    kept: u64,
    reclaim_batch: u64,
    /// log2 of the base page.
    shift: u32,
    peak: Peak,
    /// Freed by the current event: first frame and number.
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
            reservations: Reservations::default(),
            folios: Folios::default(),
            held: Held::default(),
            homes: None,
            objects: Objects::default(),
            page_cache: PageCache::default(),
            counts: OsCounts::default(),
            watches_contents: false,
            zeroed_ahead: 0,
            zero_faults: (0, 0),
            busy: BusyFrames::default(),
            reserved: ReservedList::default(),
            kept: 0,
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
        self.reserved.live() + self.kept + self.reservations.unused() + self.folios.held()
    }
    /// Allocated frames are held back for a process.
    pub fn keep(&mut self, frames: u64) {
        self.kept += frames;
        self.note_reserved();
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

    /// One free frame for `vpn` from the allocator; when none is free, the oldest reservations end: their frames go
    /// from the head of the reserved list to the tail of the free list (T94-46), or a reservation is broken up (NAV-3,
    /// FBR-6). `None`: memory is full.
    pub fn alloc_frame(&mut self, vpn: Vpn) -> Option<Pfn> {
        loop {
            if let Some(pfn) = self.alloc.alloc_near(vpn) {
                return Some(pfn);
            }
            let stolen = (0..self.reclaim_batch).take_while(|_| self.steal_one()).count();
            if stolen == 0 && !self.preempt(0) {
                return None;
            }
        }
    }

    /// Holds a block that was just allocated back for the pages of an object from `first` on.
    pub fn hold(&mut self, object: ObjectId, first: u64, size: usize, base: Pfn) {
        self.reservations.add(object, first, size, base);
        self.counts.reservations_made += 1;
        self.note_reserved();
    }

    /// The frame that is held back for a page (NAV-4, FBR-3), which is in use from now on.
    pub fn take_held(&mut self, object: ObjectId, page: u64) -> Option<Pfn> {
        self.reservations.clock(self.counts.page_faults);
        self.reservations.take(object, page)
    }

    /// As [`Memory::take_held`], for a page that nothing asked for: its group becomes a superpage.
    pub fn fill_held(&mut self, object: ObjectId, page: u64) -> Option<Pfn> {
        self.reservations.clock(self.counts.page_faults);
        self.reservations.fill(object, page)
    }

    /// Breaks up a reservation that has an unused extent of this size (NAV-6, FBR-6). False if there is none.
    pub fn preempt(&mut self, size: usize) -> bool {
        let Some(base) = self.reservations.victim(size) else { return false };
        for (first, frames) in self.reservations.break_up(base) {
            self.counts.reservations_stolen += frames;
            self.alloc.free_run(Pfn(first), frames);
        }
        true
    }

    /// Breaks up the reservations that got no page for this number of milliseconds (QKS-2).
    pub fn break_inactive(&mut self, ms: u64, inactive: u64) {
        for (first, frames) in self.reservations.break_inactive(ms, inactive) {
            self.alloc.free_run(Pfn(first), frames);
        }
    }

    /// Splits a block that is partly unmapped. Returns its frames; `None` if there is none before the next underused
    /// one.
    pub fn split_folio(&mut self) -> Option<Range<u64>> {
        let (busy, watches) = (&self.busy, self.watches_contents);
        let (block, free) = self.folios.split_one(|frame| watches && busy.is_zero(Pfn(frame)))?;
        free.iter().for_each(|&(first, frames)| self.alloc.free_run(Pfn(first), frames));
        Some(block)
    }

    fn note_reserved(&mut self) {
        self.peak.reserved = self.peak.reserved.max(self.reserved());
    }

    /// Frames for `pages` pages in the largest free blocks (RMM15-24): first frame and number of each. `None`, and
    /// nothing is taken, if there are not enough or the allocator has no blocks.
    pub fn alloc_contiguous(&mut self, pages: u64) -> Option<Vec<(Pfn, u64)>> {
        let buddy = self.alloc.blocks_mut()?;
        let got = buddy.eager(pages);
        if got.missing > 0 {
            got.blocks.into_iter().for_each(|(base, n)| buddy.free_range(base, n));
            return None;
        }
        Some(got.blocks)
    }

    /// A wholly free aligned block of `2^order` frames.
    pub fn alloc_block(&mut self, order: u32) -> Option<Pfn> {
        match self.alloc.blocks_mut() {
            Some(buddy) => buddy.alloc_order(order),
            None => self.alloc.alloc_group(order, &(0..1 << order).collect::<Vec<_>>()),
        }
    }

    /// Of the 512 frames of an aligned block, those that are free, as bits.
    pub fn free_in(&self, block: u64) -> [u64; 8] {
        std::array::from_fn(|word| self.alloc.free_of(8 * block + word as u64))
    }

    /// Sets frames aside: `blocks` aligned blocks of `2^order`. Returns how many it found.
    pub fn set_aside(&mut self, blocks: u64, order: u32) -> u64 {
        let mut got = 0;
        while got < blocks {
            let Some(base) = self.alloc_block(order) else { break };
            self.pool.add(base, 1 << order);
            got += 1;
        }
        got
    }

    /// Free memory by block size; `None` without a buddy allocator over a limited memory.
    pub fn free_memory(&self) -> Option<FreeMemory> {
        let buddy = self.alloc.blocks()?;
        let blocks = (0..buddy.max_order()).map(|order| buddy.free_blocks(order)).collect::<Option<_>>()?;
        Some(FreeMemory { frames: self.alloc.free_frames()?, blocks })
    }

    /// Moves contents and mappings of the busy frame `from` to the frame `to`, which was just taken. `from` becomes
    /// free. The caller updates page tables and objects.
    pub fn move_frame(&mut self, from: Pfn, to: Pfn) {
        self.alloc.take_zeroed(to, 1);
        self.busy.move_to(from, to);
        self.home_moved(from, to);
        self.freed.push((from.0, 1));
    }

    /// Busy frames, in no order.
    pub fn busy_frames(&self) -> impl Iterator<Item = Pfn> {
        self.busy.iter()
    }

    /// Frames of other programs that may be moved, in no order.
    pub fn others(&self) -> &FrameSet {
        &self.others
    }

    /// As [`Memory::move_frame`], for a frame of another program.
    pub fn move_other(&mut self, from: Pfn, to: Pfn) {
        let there = self.others.remove(from.0..from.0 + 1);
        debug_assert!(there, "{from:?} is no movable frame");
        self.alloc.take_zeroed(to, 1);
        self.others.insert(to.0..to.0 + 1);
        self.freed.push((from.0, 1));
    }

    /// Contents and mappings of two busy frames change places. The caller updates page tables and objects.
    pub fn swap_frames(&mut self, one: Pfn, other: Pfn) {
        self.busy.swap(one, other);
        self.homes_swapped(one, other);
    }

    /// As [`Memory::swap_frames`], where the second is a frame of another program.
    pub fn swap_with_other(&mut self, one: Pfn, other: Pfn) {
        let there = self.others.remove(other.0..other.0 + 1);
        debug_assert!(there, "{other:?} is no movable frame");
        self.busy.move_to(one, other);
        self.home_moved(one, other);
        self.others.insert(one.0..one.0 + 1);
    }

    /// Ends the oldest reservation: its frame becomes free. False if there is none.
    fn steal_one(&mut self) -> bool {
        let stolen = self.reserved.pop(&mut self.objects);
        if let Some(pfn) = stolen {
            self.counts.reservations_stolen += 1;
            self.alloc.free(pfn);
        }
        stolen.is_some()
    }

    /// Holds a frame back for an object page: tail of the reserved list (T94-44).
    pub fn reserve(&mut self, object: ObjectId, page: u64, pfn: Pfn) {
        self.reserved.push(&mut self.objects, object, page, pfn);
        self.note_reserved();
    }

    fn note_peak(&mut self) {
        if self.resident() >= self.peak.resident {
            self.peak.resident = self.resident();
            self.peak.wasted = self.resident() - self.busy.touched();
        }
    }

    /// One more page table entry names each of the frames.
    pub fn map(&mut self, first: Pfn, frames: u64) {
        if !numbers::is_outside(first) {
            self.busy.map(first, frames);
        }
    }

    /// Page table entries that name the frame.
    pub fn mappings(&self, pfn: Pfn) -> u32 {
        self.busy.mappings(pfn)
    }

    /// A page that is mapped to the frame was referenced.
    pub fn touch(&mut self, pfn: Pfn) {
        if !numbers::is_outside(pfn) && self.busy.touch(pfn) {
            self.note_peak();
        }
    }

    /// One page table entry fewer names each of the frames. The last one frees a frame, unless an object keeps it.
    pub fn unmap(&mut self, first: Pfn, frames: u64) {
        if numbers::is_outside(first) {
            return;
        }
        let before = self.busy.len();
        self.page_cache.unmapped();
        self.busy.unmap_run(first, frames, &mut self.freed);
        self.counts.freed_pages += before - self.busy.len();
    }

    /// One page table entry fewer names the frame, but another is about to name it, so it stays busy.
    pub fn unmap_keeping_frame(&mut self, pfn: Pfn) {
        if !numbers::is_outside(pfn) {
            self.busy.unmap(pfn);
        }
    }

    /// Frames of files and shared memory that no page table entry names.
    pub fn unmapped_cached(&self) -> u64 {
        self.busy.unmapped_cached()
    }

    /// Ends an event: all frames that it freed go to the tail of the free list, in ascending order, or back to their
    /// reservations.
    pub fn release_freed(&mut self) {
        self.freed.sort_unstable();
        for (mut first, mut frames) in std::mem::take(&mut self.freed) {
            while frames > 0 {
                let (owned, part) = self.pool.part(first, frames);
                if owned {
                    self.pool.give(Pfn(first), part);
                } else {
                    self.release(first, part);
                }
                (first, frames) = (first + part, frames - part);
            }
        }
        self.folios.settle();
        for (first, frames) in self.reservations.break_ended() {
            self.alloc.free_run(Pfn(first), frames);
        }
    }

    fn release(&mut self, first: u64, frames: u64) {
        if self.folios.deferred {
            for (first, frames) in self.folios.give_back(first, frames) {
                self.alloc.free_run(Pfn(first), frames);
            }
            return self.note_reserved();
        }
        if self.reservations.is_empty() {
            return self.alloc.free_run(Pfn(first), frames);
        }
        self.reservations.clock(self.counts.page_faults);
        for (first, frames) in self.reservations.give_back(first, frames) {
            self.alloc.free_run(Pfn(first), frames);
        }
        self.note_reserved();
    }

    /// Panics unless the counts add up (XC-6, T94-43). For tests and debug builds.
    pub fn check(&self) {
        let held = self.reserved() + self.pool.free_frames() + self.others.len() + self.held.frames();
        assert_eq!(
            self.alloc.allocated() + self.pool.foreign(),
            self.resident() + held,
            "allocated = busy + reserved + set aside + others' + held"
        );
        if let (Some(total), Some(free)) = (self.alloc.total(), self.alloc.free_frames()) {
            assert_eq!(free + self.alloc.allocated() + self.alloc.pinned(), total, "XC-6");
        }
        self.reserved.check(&self.objects);
        self.reservations.check();
        for held in self.reservations.iter() {
            let right = (0..held.pages()).all(|i| held.uses(i) == self.busy.has(Pfn(held.base.0 + i)));
            assert!(right, "frames in use of {held:?}");
        }
        self.folios.check(|frame| self.busy.has(Pfn(frame)));
        self.busy.check();
    }
}
