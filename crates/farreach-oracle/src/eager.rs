//! Eager paging on a buddy allocator, and the ranges that a scan of the page table finds (RMM15-20 to RMM15-30), from
//! the book's page on policies ("Ranges", "Eager paging").
//!
//! Where these leave something open:
//!
//! * OE-1 A request of memory is what mmap, brk or mremap adds, of any kind but files, stacks and what the kernel
//!   provides; not if it may not be accessed at all, or if a page of it is in memory already.
//! * OE-2 The fragmentation index looks at blocks of the next power of two above the request, of the largest order at
//!   most. It is 1 if nothing is free.
//! * OE-3 Of a request that is not carved every block is as large as what is still missing allows; a larger block is
//!   split for it.
//! * OE-4 A page is in a range if it lies in a run (pages in consecutive frames with equal attributes, none of them
//!   dissolved) that is long enough. A page that gets another frame or other attributes is dissolved no longer; neither
//!   is one that moves, or a child's.
//! * OE-5 With `Cow::Copy` a store copies all pages of its range if one of them is shared and there are frames for all.
//!   If none is shared, all become writable without a copy. Otherwise only the page of the store is copied.
//! * OE-6 Blocks that are too few for that are freed one by one, in the order of their allocation.

use crate::frames::Frames;
use crate::paging::{Entry, Full, Model, Paging};
use crate::program::{Name, Page, moved, pages};
use farreach_types::event::{Advice, Backing, Kind, Op, Prot};
use farreach_types::translation::Attr;
use std::ops::Range;

/// A system that keeps ranges.
#[derive(Clone, Debug)]
pub struct Config {
    pub frames: Frames,
    /// Largest block, as log2 of its frames.
    pub largest: u32,
    pub eager: Option<Eager>,
    /// Pages of a range at least.
    pub least: u64,
    pub cow: Cow,
}

#[derive(Clone, Copy, Debug)]
pub struct Eager {
    pub threshold: u64,
    pub fragmentation: f64,
    pub carve: bool,
}

/// What a store to a copy-on-write page of a range does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cow {
    Dissolve,
    Split,
    Copy,
}

/// A range: pages, and the frame of the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    pub pages: Range<u64>,
    pub frame: u64,
    pub attr: Attr,
}

/// The model.
pub struct PlainEager {
    config: Config,
    paging: Paging,
    /// Ranges dissolved.
    pub dissolved: u64,
}

impl PlainEager {
    pub fn new(config: Config) -> PlainEager {
        PlainEager { paging: Paging::new(config.frames.clone(), false), config, dissolved: 0 }
    }

    fn entry(&self, process: u32, page: u64) -> Option<Entry> {
        self.paging.entry(process, page)
    }

    fn page(&self, process: u32, page: u64) -> Option<Page> {
        self.paging.page(process, page)
    }

    fn give_back(&mut self) {
        let freed = self.paging.collect();
        self.paging.frames.give_back(freed);
    }

    /// The range of a page (OE-4).
    pub fn range(&self, process: u32, page: u64) -> Option<Found> {
        let of = |page: u64| {
            let entry = self.entry(process, page)?;
            Some((entry, entry.attr(self.page(process, page)?.prot)))
        };
        let (entry, attr) = of(page)?;
        let goes_on = |other: u64| {
            let same = |(o, a): (Entry, Attr)| {
                o.frame.wrapping_sub(other) == entry.frame.wrapping_sub(page) && a == attr && o.loose == entry.loose
            };
            of(other).is_some_and(same)
        };
        let start = (0..page).rev().take_while(|p| goes_on(*p)).last().unwrap_or(page);
        let end = (page..).take_while(|p| goes_on(*p)).last().unwrap_or(page) + 1;
        let found = Found { pages: start..end, frame: entry.frame - (page - start), attr };
        (!entry.loose && end - start >= self.config.least).then_some(found)
    }

    /// A store to a page that may be shared (OE-5).
    fn store(&mut self, process: u32, page: u64) -> Result<(), Full> {
        let range = self.range(process, page);
        let shared = |os: &PlainEager, page: u64| os.paging.names(os.entry(process, page).expect("mapped").frame) > 1;
        if let (Some(range), Cow::Dissolve) = (&range, self.config.cow) {
            self.dissolved += 1;
            let entries = self.paging.space(process).table.range_mut(range.pages.clone());
            entries.for_each(|(_, entry)| entry.loose = true);
        }
        if let (Some(range), Cow::Copy) = (range, self.config.cow) {
            let region = self.paging.programs.spaces[&process].region(page);
            let all = range.pages.start.max(region.start)..range.pages.end.min(region.end);
            let length = all.end - all.start;
            if length > 1 && !all.clone().any(|page| shared(self, page)) {
                all.for_each(|page| self.own(process, page, None));
                return Ok(());
            }
            if length > 1
                && let Some(frames) = self.together(length)
            {
                all.zip(frames).for_each(|(page, frame)| self.own(process, page, Some(frame)));
                return Ok(());
            }
        }
        let frame = if shared(self, page) { Some(self.paging.frames.one().ok_or(Full)?) } else { None };
        self.own(process, page, frame);
        Ok(())
    }

    /// The process has the page alone from now on, in a new frame or where it is.
    fn own(&mut self, process: u32, page: u64, frame: Option<u64>) {
        self.paging.counts.cow_copies += u64::from(frame.is_some());
        let old = self.entry(process, page).expect("it is mapped").frame;
        self.paging.enter(process, page, Entry::base(frame.unwrap_or(old)));
    }

    /// Frames for all wanted pages in the largest blocks, or none (OE-6).
    fn together(&mut self, wanted: u64) -> Option<Vec<u64>> {
        let blocks = self.largest_blocks(wanted);
        let frames: Vec<u64> = blocks.iter().flat_map(|block| block.clone()).collect();
        if (frames.len() as u64) < wanted {
            blocks.into_iter().for_each(|block| self.paging.frames.give_back(block));
            return None;
        }
        Some(frames)
    }

    /// OE-3.
    fn largest_blocks(&mut self, mut wanted: u64) -> Vec<Range<u64>> {
        let mut blocks = Vec::new();
        while wanted > 0 {
            let most = wanted.ilog2().min(self.config.largest);
            let block = (0..=most).rev().find_map(|order| Some((self.paging.frames.block(order)?, order)));
            let Some((base, order)) = block else { break };
            blocks.push(base..base + (1 << order));
            wanted -= 1 << order;
        }
        blocks
    }

    /// RMM15-27b: what is below the largest block comes from one block.
    fn carved(&mut self, wanted: u64) -> Vec<Range<u64>> {
        let rest = wanted % (1 << self.config.largest);
        let mut blocks = self.largest_blocks(wanted - rest);
        if blocks.iter().map(|block| block.end - block.start).sum::<u64>() < wanted - rest || rest == 0 {
            return blocks;
        }
        let order = rest.next_power_of_two().ilog2();
        match self.paging.frames.block(order) {
            Some(base) => {
                blocks.push(base..base + rest);
                self.paging.frames.give_back(base + rest..base + (1 << order));
            }
            None => blocks.extend(self.largest_blocks(rest)),
        }
        blocks
    }

    /// OE-2.
    fn fragmentation(&self, wanted: u64) -> f64 {
        let enough = wanted.next_power_of_two().ilog2().min(self.config.largest);
        self.paging.frames.fragmentation(enough)
    }

    /// RMM15-23, RMM15-24.
    fn request(&mut self, process: u32, range: Range<u64>) {
        let (Some(eager), Some(first)) = (self.config.eager, self.page(process, range.start)) else { return };
        let there = |index: u64| self.paging.programs.shared.contains_key(&(first.mapping, index));
        let indices = first.index..first.index + range.end - range.start;
        // OE-1.
        if matches!(first.name, Name::File | Name::Stack | Name::Kernel)
            || first.prot == Prot::NONE
            || !first.private() && indices.into_iter().any(there)
        {
            return;
        }
        let wanted = range.end - range.start;
        if wanted < eager.threshold {
            return;
        }
        if self.fragmentation(wanted) > eager.fragmentation {
            self.paging.counts.eager_refused += 1;
            return;
        }
        let blocks = if eager.carve { self.carved(wanted) } else { self.largest_blocks(wanted) };
        let frames: Vec<u64> = blocks.into_iter().flatten().collect();
        let got = frames.len() as u64;
        let counts = &mut self.paging.counts;
        counts.eager_missing += wanted - got;
        counts.eager_requests += u64::from(got > 0);
        counts.eager_pages += got;
        counts.populated_pages += got;
        counts.zeroed_pages += got;
        for (page, frame) in range.zip(frames) {
            let of = self.page(process, page).expect("it was requested");
            if !of.private() {
                self.paging.programs.shared.insert((of.mapping, of.index), frame);
            }
            self.paging.enter(process, page, Entry::base(frame));
        }
    }

    fn remap(&mut self, process: u32, op: &Op) {
        let (old, new) = moved(op).expect("it is an mremap");
        let moves = (old.end - old.start).min(new.end - new.start);
        if old.start != new.start {
            // OE-4.
            let entries = self.paging.space(process).table.range_mut(old.clone());
            entries.for_each(|(_, entry)| entry.loose = false);
        }
        self.paging.programs.remap(process, old, new.clone());
        if new.start + moves < new.end {
            self.request(process, new.start + moves..new.end);
        }
    }

    fn protect(&mut self, process: u32, range: Range<u64>, prot: Prot) {
        let space = self.paging.space(process);
        for (page, entry) in space.table.range_mut(range.clone()) {
            entry.loose &= entry.attr(prot) == entry.attr(space.pages[page].prot);
        }
        self.paging.programs.protect(process, range, prot);
    }
}

impl Model for PlainEager {
    fn paging(&self) -> &Paging {
        &self.paging
    }

    fn touch(&mut self, process: u32, page: u64, kind: Kind) -> Result<(), Full> {
        if self.entry(process, page).is_none() {
            self.paging.counts.page_faults += 1;
            if self.page(process, page).is_none() {
                self.paging.programs.stray(process, page);
            }
            self.paging.base_page(process, page)?;
        }
        let entry = self.entry(process, page).expect("it is mapped now");
        if kind == Kind::Store && entry.cow && self.page(process, page).expect("it is mapped").prot.write {
            self.paging.counts.protection_faults += 1;
            self.store(process, page)?;
            self.give_back();
        }
        Ok(())
    }

    fn apply(&mut self, process: u32, op: &Op) {
        match op {
            Op::Map(mapping) => {
                self.paging.programs.map(process, mapping);
                if matches!(mapping.backing, Backing::Anonymous | Backing::Heap) {
                    self.request(process, pages(mapping.start, mapping.len));
                }
            }
            Op::Unmap { start, len } => self.paging.programs.unmap(process, pages(*start, *len)),
            Op::Remap { .. } => self.remap(process, op),
            Op::Protect { start, len, prot } => self.protect(process, pages(*start, *len), *prot),
            Op::Advise { start, len, advice } => match advice {
                Advice::DontNeed => self.paging.programs.discard(process, pages(*start, *len)),
                Advice::HugePage => self.paging.programs.advise(process, pages(*start, *len), true),
                Advice::NoHugePage => self.paging.programs.advise(process, pages(*start, *len), false),
                Advice::WillNeed | Advice::Populate | Advice::Collapse => {}
            },
            Op::Fork { child } => self.paging.fork(process, child.0),
            Op::End(_) => self.paging.programs.end(process),
            _ => {}
        }
        self.give_back();
    }
}
