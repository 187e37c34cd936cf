//! Translation Ranger: pages move until those of a region follow each other in memory (RNG-1 to RNG-4).
//!
//! * ON-70 Processes follow by number, and their regions by address: private memory, and shared memory without a file
//!   whose pages are congruent with their places in it; not the kernel's. A percentile takes that part of the regions
//!   of a process, rounded up: the largest, and of equal ones the first.
//! * ON-71 A range lasts from its first page to the next range, or to the end of the region; the first one begins with
//!   the region. It is kept until its first page is unmapped, moved or mapped anew. Its anchor never changes.
//! * ON-72 A page that failed belongs to the range that ends there. The next one begins with the page behind, if a
//!   range that was kept does not begin at or before the next page that is present. Its anchor is that of the first
//!   page present whose rounded page or frame is another than those of the range before; pages until there stay where
//!   they are, and fail too.
//! * ON-73 A page moves with the superpage that it is in, by what the first page wants. It fails if the place is not
//!   aligned to it, is outside of memory, is free only in part, or has something of another size.
//! * ON-74 Movable is a page in exactly one page table, but the kernel's, and what others have in memory where it may
//!   move. So a page that processes share fails, and is not exchanged. Any other page is, even if it is in its own
//!   place. A copied page's frame is free at once.
//! * ON-75 Promotion follows each region, group by group: private memory that may have superpages (ON-1), whose pages
//!   are mapped alike, and lie in order in an aligned block.
//! * ON-76 An exchange of two pages is one of `exchanged_pages`; those of superpages count each.
//! * ON-77 Faults take the largest of the sizes that are configured, as in SOL-1.

use crate::frames::Frames;
use crate::paging::{Entry, Full, Model, Paging};
use crate::program::{Name, moved, pages};
use crate::superpages::{Mode, group};
use crate::system::System;
use farreach_types::event::{Kind, Op};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A system.
#[derive(Clone, Debug)]
pub struct Config {
    pub frames: Frames,
    /// Frames of others that may move.
    pub others: BTreeSet<u64>,
    pub mode: Mode,
    /// log2 of the pages of the superpages that a fault tries, largest first.
    pub faults: Vec<u32>,
    /// log2 of the pages of a superpage that a region is promoted to (RNG-4).
    pub order: u32,
    /// log2 of the pages to which anchors are rounded (RNG-2).
    pub round: u32,
    /// From one run to the next (RNG-1).
    pub period: u64,
    /// The part of the regions that is looked at (RNG-1).
    pub percentile: u64,
}

/// RNG-2: page and frame.
pub type Anchor = (u64, u64);

/// What is counted.
const OWN: [&str; 7] = [
    "ranger_runs",
    "ranger_ranges",
    "ranger_in_place",
    "ranger_promotions",
    "ranger_failed_pages",
    "copied_pages",
    "exchanged_pages",
];

/// The model.
pub struct PlainRanger {
    config: Config,
    paging: Paging,
    /// By process and first page.
    ranges: BTreeMap<(u32, u64), Anchor>,
    due: u64,
    counts: BTreeMap<&'static str, u64>,
}

impl PlainRanger {
    pub fn new(config: Config) -> PlainRanger {
        let paging = Paging::new(config.frames.clone(), true);
        let (ranges, due, counts) = (BTreeMap::new(), config.period, BTreeMap::new());
        PlainRanger { config, paging, ranges, due, counts }
    }

    fn add(&mut self, name: &'static str, count: u64) {
        *self.counts.entry(name).or_default() += count;
    }

    /// First pages and anchors of the ranges of a process.
    pub fn ranges(&self, process: u32) -> Vec<(u64, Anchor)> {
        let all = self.ranges.range((process, 0)..=(process, u64::MAX));
        all.map(|((_, first), anchor)| (*first, *anchor)).collect()
    }

    /// RNG-1: the regions of a process.
    fn regions(&self, process: u32) -> Vec<Range<u64>> {
        let space = &self.paging.programs.spaces[&process];
        let (mut all, mut next) = (Vec::new(), 0);
        while let Some((&page, known)) = space.pages.range(next..).next() {
            let aligned = page.wrapping_sub(known.index).is_multiple_of(1 << self.config.order);
            let wanted = if known.private() { known.name != Name::Kernel } else { aligned };
            let region = space.region(page);
            next = region.end;
            if wanted && known.name != Name::File {
                all.push(region);
            }
        }
        let rest = all.len() as u64 * (100 - self.config.percentile) / 100;
        // The first to go: the smallest, and of equal ones the last.
        let mut sizes: Vec<(u64, u64)> = all.iter().map(|of| (of.end - of.start, u64::MAX - of.start)).collect();
        sizes.sort_unstable();
        all.retain(|of| !sizes[..rest as usize].contains(&(of.end - of.start, u64::MAX - of.start)));
        all
    }

    fn run(&mut self) {
        self.add("ranger_runs", 1);
        for process in self.paging.programs.spaces.keys().copied().collect::<Vec<_>>() {
            for region in self.regions(process) {
                self.gather(process, &region);
                self.promote(process, &region);
            }
        }
        self.give_back();
    }

    /// RNG-2, RNG-3.
    fn gather(&mut self, process: u32, region: &Range<u64>) {
        // Where the next range begins, and the anchor that it must not have.
        let mut fresh = Some((region.start, None));
        let mut anchor = (0, 0);
        for page in region.clone() {
            if let Some(kept) = self.ranges.get(&(process, page)) {
                (anchor, fresh) = (*kept, None);
            }
            let Some(entry) = self.paging.entry(process, page) else { continue };
            let leaf = group(page, entry.order);
            if page != leaf.start {
                continue;
            }
            if let Some((first, before)) = fresh {
                let round = |number: u64| number >> self.config.round << self.config.round;
                let new = (round(page), round(entry.frame));
                if before == Some(new) {
                    self.add("ranger_failed_pages", leaf.end - leaf.start);
                    continue;
                }
                (anchor, fresh) = (new, None);
                self.ranges.insert((process, first), anchor);
                self.add("ranger_ranges", 1);
            }
            if !self.place(page, entry, anchor) {
                self.add("ranger_failed_pages", leaf.end - leaf.start);
                fresh = (leaf.end < region.end).then_some((leaf.end, Some(anchor)));
            }
        }
    }

    /// ON-74: log2 of the frames that move together with one.
    fn movable(&self, frame: u64) -> Option<u32> {
        match self.paging.names(frame) {
            0 => self.config.others.contains(&frame).then_some(0),
            1 => self.paging.movable(frame),
            _ => None,
        }
    }

    /// RNG-3 for a page, or superpage. False: it fails.
    fn place(&mut self, page: u64, entry: Entry, anchor: Anchor) -> bool {
        let size = 1 << entry.order;
        let to = i128::from(anchor.1) + i128::from(page) - i128::from(anchor.0);
        let Some(to) = u64::try_from(to).ok() else { return false };
        if to == entry.frame {
            self.add("ranger_in_place", size);
            return true;
        }
        let (from, place) = (entry.frame..entry.frame + size, to..to + size);
        let moves = |frame: u64| self.movable(frame) == Some(entry.order);
        if !to.is_multiple_of(size) || !from.clone().all(moves) {
            return false;
        }
        if place.clone().all(|frame| self.paging.frames.holds(frame)) {
            self.paging.frames.take(to, size);
            self.paging.move_frames(from.clone(), to);
            self.paging.frames.give_back(from);
            self.add("copied_pages", size);
            self.paging.counts.gathered_pages += size;
            return true;
        }
        let alike = place.clone().all(moves);
        if alike {
            // A page of others is no superpage.
            if self.config.others.remove(&to) {
                self.config.others.insert(entry.frame);
            }
            self.paging.move_frames(from, to);
            self.add("exchanged_pages", size);
            self.paging.counts.gathered_pages += 2 * size;
        }
        alike
    }

    /// RNG-4.
    fn promote(&mut self, process: u32, region: &Range<u64>) {
        let order = self.config.order;
        for first in region.clone().filter(|page| page.is_multiple_of(1 << order)) {
            let entries = self.paging.mapped(process, group(first, order));
            let Some((_, lowest)) = entries.first().copied() else { continue };
            let in_order = |(at, (_, entry)): (u64, &(u64, Entry))| {
                entry.frame == lowest.frame + at && entry.cow == lowest.cow && entry.order < order
            };
            if entries.len() as u64 == 1 << order
                && lowest.frame.is_multiple_of(1 << order)
                && (0..).zip(&entries).all(in_order)
                && self.paging.eligible(process, first, order, self.config.mode)
            {
                entries
                    .into_iter()
                    .for_each(|(page, entry)| self.paging.enter(process, page, Entry { order, ..entry }));
                self.add("ranger_promotions", 1);
            }
        }
    }
}

/// The pages that an `mremap` unmaps or moves, and those that it maps.
fn remapped(op: &Op) -> Vec<Range<u64>> {
    let (old, new) = moved(op).expect("it is an mremap");
    let stays = if old.start == new.start { (old.end - old.start).min(new.end - new.start) } else { 0 };
    vec![old.start + stays..old.end, new.start + stays..new.end]
}

impl System for PlainRanger {
    fn memory(&mut self) -> &mut Paging {
        &mut self.paging
    }

    fn serve(&mut self, process: u32, page: u64) -> Result<(), Full> {
        self.paging.counts.page_faults += 1;
        let known = self.paging.known(process, page);
        let allowed = self.paging.allowed(process, &known, self.config.mode);
        let orders: Vec<u32> = self.config.faults.iter().copied().filter(|_| allowed).collect();
        match self.paging.largest(process, page, orders) {
            Some(_) => Ok(()),
            None => self.paging.base_page(process, page),
        }
    }

    fn give_back(&mut self) {
        let freed = self.paging.collect();
        self.paging.frames.give_back(freed);
    }
}

impl Model for PlainRanger {
    fn paging(&self) -> &Paging {
        &self.paging
    }

    /// ON-71.
    fn apply(&mut self, process: u32, op: &Op) {
        let gone = match op {
            Op::Map(of) => vec![pages(of.start, of.len)],
            Op::Unmap { start, len } => vec![pages(*start, *len)],
            Op::End(_) => vec![0..u64::MAX],
            Op::Remap { .. } => remapped(op),
            _ => vec![],
        };
        self.ranges.retain(|(of, first), _| *of != process || !gone.iter().any(|pages| pages.contains(first)));
        self.follow(process, op);
    }

    fn touch(&mut self, process: u32, page: u64, kind: Kind) -> Result<(), Full> {
        self.refer(process, page, kind)
    }

    fn walked(&mut self, process: u32, page: u64) {
        self.paging.set_young(process, page, true);
    }

    fn due(&self) -> u64 {
        self.due
    }

    fn advance(&mut self, now: u64) {
        if self.due <= now {
            self.run();
            self.due = now + self.config.period;
        }
    }

    fn own(&self) -> Vec<(&'static str, u64)> {
        OWN.iter().map(|name| (*name, self.counts.get(name).copied().unwrap_or(0))).collect()
    }
}
