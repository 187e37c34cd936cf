//! Trident: pages of 1 GB and 2 MB at faults, by a promoter, and by compaction that empties the block with the fewest
//! pages (TRI-1 to TRI-3).
//!
//! * ON-50 Sizes are log2 of pages: `giant` (18) and `pmd` (9). Both need a block of their size.
//! * ON-51 A look at a size costs its pages of the budget, one of 2 MB after one of 1 GB at the same place as well. The
//!   promoter goes on behind what it looked at: behind 1 GB if it made such a page, or found one.
//! * ON-52 A wake that finds no block of 1 GB goes on with 2 MB; one that finds no block of 2 MB ends (LNX-10). A wake
//!   may ask for a block of 1 GB any number of times.
//! * ON-53 A page may be 1 GB if it may be 2 MB, and its group of 1 GB lies in the region. For 1 GB, nothing that is
//!   shared: no frame of the group has two entries. Fully empty groups do not qualify, as they have no A.
//! * ON-54 A block of TRI-3 is an aligned group of 1 GB of frames. Unmovable is a frame that is neither free nor of a
//!   page of memory without the kernel's. A block is of movable type if some page in it can be moved. Ties: the lowest.
//! * ON-55 A source is tried when a round chooses it, and not again for `pause`, with any outcome. Pages move in the
//!   order of their frames, a superpage as a whole; a page goes to the lowest free frames of the first destination that
//!   has room for it. Destinations are in the order that they have when the round begins, without the source and
//!   without blocks that are free as a whole. Without room the round ends, and what was moved stays there.
//! * ON-56 A move frees the old frames at once. Blocks of 2 MB that came are those that are free now, less those that
//!   were at the beginning of the request; more than in a block of 1 GB end it. So does a free block of 1 GB.
//! * ON-57 Faults do not compact. TRI-4 is not modelled.
//! * ON-58 A page of 1 GB is split into those of 2 MB, and these into base pages (LNX-20 for each). A collapse to 1 GB
//!   splits none.

mod compaction;

pub use compaction::Block;

use crate::frames::Frames;
use crate::linux::Khugepaged;
use crate::paging::{Full, Model, Paging};
use crate::ring::Ring;
use crate::superpages::{Mode, ends, group};
use crate::system::System;
use farreach_types::event::{Kind, Op, Prot};
use std::collections::BTreeMap;
use std::ops::Range;

/// A system.
#[derive(Clone, Debug)]
pub struct Config {
    pub frames: Frames,
    /// Frames of the memory.
    pub memory: u64,
    /// log2 of the pages of 1 GB, and of 2 MB (ON-50).
    pub giant: u32,
    pub pmd: u32,
    pub mode: Mode,
    /// TRI-2: `pages_to_scan` is two times 1 GB; the limits are those of 2 MB.
    pub promoter: Khugepaged,
    /// TRI-2: pages of 1 GB that may be missing.
    pub max_none_giant: u64,
    /// TRI-3: for how long a source is not tried again. None: no compaction.
    pub compaction: Option<u64>,
}

/// What is counted.
const OWN: [&str; 11] = [
    "trident_promotions",
    "trident_no_block",
    "trident_rounds",
    "trident_aborts",
    "trident_compactions",
    "compacted_pages",
    "khugepaged_wakes",
    "khugepaged_scanned_ptes",
    "khugepaged_copied_pages",
    "khugepaged_zeroed_pages",
    "khugepaged_no_block",
];

/// The model.
pub struct PlainTrident {
    config: Config,
    paging: Paging,
    ring: Ring,
    due: u64,
    now: u64,
    /// When blocks of frames were tried as a source.
    tried: BTreeMap<u64, u64>,
    counts: BTreeMap<&'static str, u64>,
}

impl PlainTrident {
    pub fn new(config: Config) -> PlainTrident {
        let paging = Paging::new(config.frames.clone(), true);
        let (ring, tried, counts) = Default::default();
        PlainTrident { config, paging, ring, due: u64::MAX, now: 0, tried, counts }
    }

    fn add(&mut self, name: &'static str, count: u64) {
        *self.counts.entry(name).or_default() += count;
    }

    fn enter(&mut self, process: u32) {
        if self.config.promoter.pages_to_scan > 0 && self.ring.enter(process) && self.due == u64::MAX {
            self.due = self.now;
        }
    }

    /// TRI-2.
    fn wake(&mut self) {
        self.add("khugepaged_wakes", 1);
        let (pmd, mode, rule) = (self.config.pmd, self.config.mode, self.config.promoter);
        let (mut used, mut from_first, mut sleep) = (0, false, rule.scan_sleep);
        while used < rule.pages_to_scan {
            let paging = &self.paging;
            let find = |process, from| paging.first_eligible(process, from, pmd, mode);
            let Some((process, first)) = self.ring.turn(&mut from_first, find) else { break };
            if self.may_be_giant(process, first) {
                used += 1 << self.config.giant;
                if self.look_giant(process, first) {
                    self.ring.behind(first + (1 << self.config.giant));
                    continue;
                }
            }
            self.ring.behind(first + (1 << pmd));
            used += 1 << pmd;
            if !self.look(process, first) {
                self.add("khugepaged_no_block", 1);
                sleep = rule.alloc_sleep;
                break;
            }
        }
        self.give_back();
        self.add("khugepaged_scanned_ptes", used);
        self.due = if self.ring.processes().is_empty() { u64::MAX } else { self.now + sleep };
    }

    fn may_be_giant(&self, process: u32, first: u64) -> bool {
        let giant = self.config.giant;
        first.is_multiple_of(1 << giant) && self.paging.eligible(process, first, giant, self.config.mode)
    }

    /// TRI-2 for 1 GB. Whether there is such a page now.
    fn look_giant(&mut self, process: u32, first: u64) -> bool {
        let giant = self.config.giant;
        let group = group(first, giant);
        if self.paging.entry(process, first).is_some_and(|entry| entry.order == giant) {
            return true;
        }
        if !self.paging.qualifies(process, &group, self.config.max_none_giant, 0) {
            return false;
        }
        let mut block = self.paging.frames.block(giant);
        if block.is_none() && self.config.compaction.is_some() {
            self.compact();
            block = self.paging.frames.block(giant);
        }
        let Some(base) = block else {
            self.add("trident_no_block", 1);
            return false;
        };
        self.add("trident_promotions", 1);
        self.collapse(process, &group, base);
        true
    }

    /// LNX-12, LNX-13 for 2 MB. False: there is no block.
    fn look(&mut self, process: u32, first: u64) -> bool {
        let (order, rule) = (self.config.pmd, self.config.promoter);
        let group = group(first, order);
        if !self.paging.qualifies(process, &group, rule.max_ptes_none, rule.max_ptes_shared) {
            return true;
        }
        let Some(base) = self.paging.frames.block(order) else { return false };
        self.collapse(process, &group, base);
        true
    }

    /// ON-58, until nothing sticks out of a range.
    fn split_out(&mut self, process: u32, page: u64, range: &Range<u64>) {
        while self.paging.sticks_out(process, page, range) {
            let whole = self.paging.superpage(process, page);
            let giant = whole.end - whole.start == 1 << self.config.giant;
            let order = if giant { self.config.pmd } else { 0 };
            self.paging.space(process).table.range_mut(whole).for_each(|(_, entry)| entry.order = order);
            self.paging.counts.demotions += 1;
        }
    }

    fn collapse(&mut self, process: u32, group: &Range<u64>, base: u64) {
        let demotions = self.paging.counts.demotions;
        let collapsed = self.paging.collapse(process, group, base);
        if group.end - group.start == 1 << self.config.giant {
            self.paging.counts.demotions = demotions;
        }
        self.add("khugepaged_copied_pages", collapsed.copied);
        self.add("khugepaged_zeroed_pages", collapsed.missing);
    }
}

impl System for PlainTrident {
    fn memory(&mut self) -> &mut Paging {
        &mut self.paging
    }

    /// TRI-1.
    fn serve(&mut self, process: u32, page: u64) -> Result<(), Full> {
        self.paging.counts.page_faults += 1;
        let known = self.paging.known(process, page);
        let allowed = self.paging.allowed(process, &known, self.config.mode);
        let orders = [self.config.giant, self.config.pmd].into_iter().filter(|_| allowed);
        if self.paging.largest(process, page, orders).is_none() {
            self.paging.base_page(process, page)?;
        }
        if self.paging.eligible(process, page, self.config.pmd, self.config.mode) {
            self.enter(process);
        }
        Ok(())
    }

    fn split_around(&mut self, process: u32, range: Range<u64>) {
        ends(&range).for_each(|end| self.split_out(process, end, &range));
    }

    fn protect(&mut self, process: u32, range: Range<u64>, prot: Prot) {
        for end in ends(&range) {
            if self.paging.page(process, end).is_some_and(|page| page.prot != prot) {
                self.split_out(process, end, &range);
            }
        }
        self.paging.programs.protect(process, range, prot);
    }

    fn moves(&mut self, process: u32, from: Range<u64>, _: u64) {
        from.for_each(|page| self.split_out(process, page, &(page..page + 1)));
    }

    fn advised(&mut self, process: u32, range: Range<u64>) {
        if self.paging.any_eligible(process, range, self.config.pmd, self.config.mode) {
            self.enter(process);
        }
    }

    fn ended(&mut self, process: u32) {
        self.ring.leave(process);
    }
}

impl Model for PlainTrident {
    fn paging(&self) -> &Paging {
        &self.paging
    }

    fn apply(&mut self, process: u32, op: &Op) {
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
        self.now = now;
        if self.due <= now {
            self.wake();
        }
    }

    fn own(&self) -> Vec<(&'static str, u64)> {
        OWN.iter().map(|name| (*name, self.counts.get(name).copied().unwrap_or(0))).collect()
    }
}
