//! Linux of today: superpages by size at faults, khugepaged by a clock, and blocks that stay whole when a part of them
//! is unmapped, from LNX-1 to LNX-4, LNX-5 (`never`), LNX-10 to LNX-14, LNX-20 to LNX-23, CPT-1 and CPT-4, and the
//! book's "Linux of today".
//!
//! OS-1, OS-2 and OS-10 hold here, too. Where the rules leave something open:
//!
//! * OK-1 Every superpage of a fault or collapse is a block, of any size. A frame of it without a page is held as
//!   long as another frame of it has one. A block is partly unmapped from the end of the first event, fault or wake on
//!   that left a frame of it without a page; of two, the one with lower frames is first. What is held is counted then.
//! * OK-2 Memory is short if a single frame is wanted and none is free. A superpage that finds no block splits none.
//! * OK-3 A fault that found no frame enters no process. Nor do copy-on-write and fork. MADV_HUGEPAGE does, if a region
//!   in its range could have a superpage somewhere.
//! * OK-4 khugepaged sleeps from the moment it worked, not from when it was due. If it has no process then, it sleeps
//!   until one enters, and works at once.
//! * OK-5 A group is examined as long as the budget is not used up. The ring has a first process. A wake ends when it
//!   comes to the end of the ring a second time, or once from the first process on.
//! * OK-6 The group without a block is examined: the cursor is behind it. It ends the wake.
//! * OK-7 What a wake frees is free after it.
//! * OK-8 A is that of a page, in a superpage, too: set by a touch, not by a fault alone, a fork or a collapse.
//! * OK-9 What is mapped of a block that is split in LNX-21 or LNX-22 becomes base pages, with a contiguous bit, too:
//!   its frames are memory of their own from then on (CPT-3). Each superpage in a page table is one demotion.
//! * OK-10 A superpage that falls into groups of a contiguous bit is a demotion; so is each of these that falls into
//!   base pages. A superpage that is collapsed into a larger one is one demotion, of any size. A superpage of
//!   zeros falls into base pages: they all have one frame. Groups that move whole to an aligned place stay (LNX-20).
//! * OK-11 The shrinker may take the page that it makes room for the copy of. Its copy is mapped all the same.
//! * OK-12 All private memory of no file has pages of zeros. They are no memory: what a fault or collapse puts in their
//!   place counts as if nothing had been there, they populate none, and their A is that of no page. A store replaces a
//!   superpage of zeros by a superpage as long as it lies in one region, though its size be allowed no more. If not, it
//!   is split first, and stays so if there is no frame. That fault enters no process.
//! * OK-13 Memory that is asked for at once is stored to if it can be, and loaded otherwise.
//! * OK-14 MADV_COLLAPSE collapses a group with nothing but pages of zeros, too, and one with `ThpRule::Advised`. It
//!   enters no process. What a group frees is free, or held by its block, before the next one. A group without a block
//!   is left as it is.
//! * OK-15 With `zero_page` the shrinker maps pages of zeros in place of those that it unmaps.

mod blocks;
mod events;
mod khugepaged;
mod zeros;

pub use crate::superpages::Mode;

use crate::frames::Frames;
use crate::paging::{Entry, Full, Model, Paging};
use crate::ring::Ring;
use crate::system::System;
use farreach_types::event::{Kind, Op, Prot};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A system.
#[derive(Clone, Debug)]
pub struct Config {
    pub frames: Frames,
    /// log2 of the pages of a superpage of a page directory ("PMD").
    pub pmd: u32,
    /// Modes of sizes, log2 of their pages, largest first; that of the PMD is the first.
    pub modes: Vec<(u32, Mode)>,
    pub khugepaged: Khugepaged,
    /// LNX-21: blocks stay whole until memory is short.
    pub deferred: bool,
    /// LNX-22: most pages of zeros of a superpage of the PMD that stays when memory is short.
    pub shrink: Option<u64>,
    /// LNX-2, LNX-4: loads map pages of zeros.
    pub zero_page: bool,
    /// LNX-2: superpages of zeros, if there are pages of them.
    pub huge_zero_page: bool,
    /// CPT-1: log2 of the pages of a contiguous bit, or 0.
    pub contpte: u32,
    /// LNX-14: MADV_COLLAPSE is known.
    pub collapse: bool,
    /// LNX-23: log2 of the pages of the smallest superpage that its last owner gets back whole.
    pub kept: u32,
}

/// LNX-10. Times are in units of the clock.
#[derive(Clone, Copy, Debug)]
pub struct Khugepaged {
    pub pages_to_scan: u64,
    pub scan_sleep: u64,
    pub alloc_sleep: u64,
    pub max_ptes_none: u64,
    pub max_ptes_shared: u64,
}

/// What the policy counts itself.
#[derive(Debug, Default)]
pub struct Own {
    pub wakes: u64,
    pub scanned: u64,
    pub copied: u64,
    pub zeroed: u64,
    pub no_block: u64,
    pub deferred_at_most: u64,
    pub deferred_splits: u64,
    pub underused_splits: u64,
    pub underused_pages: u64,
    pub zero_faults: u64,
    pub huge_zero_faults: u64,
    /// Superpages that moved whole.
    pub moved: u64,
    /// Superpages that a program asked for.
    pub asked_for: u64,
    /// Superpages that fell into groups of a contiguous bit.
    pub grouped: u64,
    /// Pages and superpages of zeros that were stored to.
    pub zeros_replaced: u64,
    pub huge_zeros_replaced: u64,
}

/// The model.
pub struct PlainLinux {
    config: Config,
    paging: Paging,
    /// Blocks that are whole: log2 of their frames, by first frame.
    blocks: BTreeMap<u64, u32>,
    /// Frames of blocks that no page has.
    held: BTreeSet<u64>,
    /// Blocks that are partly unmapped, or may be of zeros, the first one first.
    queue: Vec<u64>,
    ring: Ring,
    due: u64,
    now: u64,
    pub own: Own,
}

impl PlainLinux {
    pub fn new(config: Config) -> PlainLinux {
        PlainLinux {
            paging: Paging::new(config.frames.clone(), true),
            config,
            blocks: BTreeMap::new(),
            held: BTreeSet::new(),
            queue: Vec::new(),
            ring: Ring::default(),
            due: u64::MAX,
            now: 0,
            own: Own::default(),
        }
    }

    fn entry(&self, process: u32, page: u64) -> Option<Entry> {
        self.paging.entry(process, page)
    }

    /// Whether the group of the PMD around a page could be a superpage.
    fn eligible(&self, process: u32, page: u64) -> bool {
        self.paging.eligible(process, page, self.config.pmd, self.config.modes[0].1)
    }

    /// LNX-2, LNX-3: the largest size of which nothing is mapped and that finds a block; then one page.
    fn fault(&mut self, process: u32, page: u64) -> Result<(), Full> {
        self.paging.counts.page_faults += 1;
        let known = self.paging.known(process, page);
        let allowed = |(_, mode): &&(u32, Mode)| self.paging.allowed(process, &known, *mode);
        let orders: Vec<u32> = self.config.modes.iter().filter(allowed).map(|(order, _)| *order).collect();
        if let Some((group, base)) = self.paging.largest(process, page, orders) {
            self.keep_block(base, (group.end - group.start).ilog2());
        } else {
            if known.private() || !self.paging.programs.shared.contains_key(&(known.mapping, known.index)) {
                self.relieve();
            }
            self.paging.base_page(process, page)?;
        }
        self.faulted(process, page);
        Ok(())
    }
}

impl System for PlainLinux {
    fn memory(&mut self) -> &mut Paging {
        &mut self.paging
    }

    fn serve(&mut self, process: u32, page: u64) -> Result<(), Full> {
        self.fault(process, page)
    }

    fn serve_load(&mut self, process: u32, page: u64) -> Result<(), Full> {
        self.load(process, page)
    }

    /// LNX-23.
    fn store(&mut self, process: u32, page: u64, entry: Entry) -> Result<(), Full> {
        self.paging.counts.protection_faults += 1;
        if entry.is_zeros() {
            return self.replace_zeros(process, page, entry);
        }
        if entry.order >= self.config.kept && self.paging.keeps_superpage(process, page, entry) {
            return Ok(());
        }
        self.copy_page(process, page, entry)
    }

    fn split_around(&mut self, process: u32, range: Range<u64>) {
        self.split_ends(process, &range);
    }

    fn protect(&mut self, process: u32, range: Range<u64>, prot: Prot) {
        self.split_to_protect(process, &range, prot);
        self.paging.programs.protect(process, range, prot);
    }

    fn frame_to_copy(&mut self) -> Option<u64> {
        self.relieve();
        self.paging.frames.one()
    }

    fn advised(&mut self, process: u32, range: Range<u64>) {
        let (pmd, mode) = self.config.modes[0];
        if self.paging.any_eligible(process, range, pmd, mode) {
            self.enter(process);
        }
    }

    fn collapse(&mut self, process: u32, range: Range<u64>) {
        if self.config.collapse {
            self.collapse_all(process, range);
        }
    }

    fn ended(&mut self, process: u32) {
        self.ring.leave(process);
    }

    fn moves(&mut self, process: u32, from: Range<u64>, to: u64) {
        self.move_whole(process, from, to);
    }

    /// What is without a page now is free, or held by its block (OK-1).
    fn give_back(&mut self) {
        for frame in self.paging.collect() {
            let Some(block) = self.block(frame) else {
                self.paging.frames.give_back([frame]);
                continue;
            };
            self.held.insert(frame);
            if !self.queue.contains(&block.start) {
                self.queue.push(block.start);
            }
            if block.clone().all(|frame| self.held.contains(&frame)) {
                self.queue.retain(|of| *of != block.start);
                self.blocks.remove(&block.start);
                block.clone().for_each(|frame| _ = self.held.remove(&frame));
                self.paging.frames.give_back(block);
            }
        }
        self.own.deferred_at_most = self.own.deferred_at_most.max(self.held.len() as u64);
    }
}

impl Model for PlainLinux {
    fn paging(&self) -> &Paging {
        &self.paging
    }

    fn apply(&mut self, process: u32, op: &Op) {
        self.follow(process, op);
    }

    fn touch(&mut self, process: u32, page: u64, kind: Kind) -> Result<(), Full> {
        self.refer(process, page, kind)?;
        // OK-8.
        self.paging.space(process).table.get_mut(&page).expect("it is mapped").young = true;
        Ok(())
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
        let own = &self.own;
        let mut counts = vec![
            ("khugepaged_wakes", own.wakes),
            ("khugepaged_scanned_ptes", own.scanned),
            ("khugepaged_copied_pages", own.copied),
            ("khugepaged_zeroed_pages", own.zeroed),
            ("khugepaged_no_block", own.no_block),
            ("deferred_pages_at_most", own.deferred_at_most),
            ("deferred_pages_at_end", self.held.len() as u64),
            ("deferred_splits", own.deferred_splits),
            ("underused_splits", own.underused_splits),
            ("underused_pages", own.underused_pages),
            ("zero_page_faults", own.zero_faults),
            ("huge_zero_page_faults", own.huge_zero_faults),
        ];
        if self.config.shrink.is_some() {
            counts.push(("zero_unknown", 1));
        }
        counts
    }
}
