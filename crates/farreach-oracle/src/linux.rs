//! Linux of today: superpages by size at faults, khugepaged by a clock, and blocks that stay whole when a part of them
//! is unmapped, from LNX-1 to LNX-3, LNX-5 (`never`), LNX-10 to LNX-13, LNX-20, LNX-21 and LNX-23, and the book's
//! "Linux of today".
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

mod events;
mod khugepaged;

pub use crate::superpages::Mode;

use crate::frames::Frames;
use crate::paging::{Entry, Full, Model, Paging};
use crate::ring::Ring;
use crate::system::System;
use farreach_types::event::{Kind, Op};
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
    /// Superpages that moved whole.
    pub moved: u64,
}

/// The model.
pub struct PlainLinux {
    config: Config,
    paging: Paging,
    /// Blocks that are whole: log2 of their frames, by first frame.
    blocks: BTreeMap<u64, u32>,
    /// Frames of blocks that no page has.
    held: BTreeSet<u64>,
    /// Blocks that are partly unmapped, the first one first.
    partly: Vec<u64>,
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
            partly: Vec::new(),
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

    /// OK-1: a superpage is in a block of its own.
    fn keep_block(&mut self, base: u64, order: u32) {
        if self.config.deferred {
            self.blocks.insert(base, order);
        }
    }

    /// LNX-21: splits blocks, the one that was partly unmapped first, until there is a frame.
    fn relieve(&mut self) {
        while self.paging.frames.free() == 0 && !self.partly.is_empty() {
            let base = self.partly.remove(0);
            let order = self.blocks.remove(&base).expect("it is whole");
            let freed: Vec<u64> = (base..base + (1 << order)).filter(|frame| self.held.remove(frame)).collect();
            self.paging.frames.give_back(freed);
            self.own.deferred_splits += 1;
        }
    }
}

impl System for PlainLinux {
    fn memory(&mut self) -> &mut Paging {
        &mut self.paging
    }

    fn serve(&mut self, process: u32, page: u64) -> Result<(), Full> {
        self.fault(process, page)
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

    fn ended(&mut self, process: u32) {
        self.ring.leave(process);
    }

    fn moves(&mut self, process: u32, from: Range<u64>, to: u64) {
        self.move_whole(process, from, to);
    }

    /// What is without a page now is free, or held by its block (OK-1).
    fn give_back(&mut self) {
        for frame in self.paging.collect() {
            let block = self.blocks.iter().find(|(base, order)| (**base..**base + (1 << **order)).contains(&frame));
            let Some((&base, &order)) = block else {
                self.paging.frames.give_back([frame]);
                continue;
            };
            self.held.insert(frame);
            if !self.partly.contains(&base) {
                self.partly.push(base);
            }
            if (base..base + (1 << order)).all(|frame| self.held.contains(&frame)) {
                self.partly.retain(|of| *of != base);
                self.blocks.remove(&base);
                (base..base + (1 << order)).for_each(|frame| _ = self.held.remove(&frame));
                self.paging.frames.give_back(base..base + (1 << order));
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
        vec![
            ("khugepaged_wakes", own.wakes),
            ("khugepaged_scanned_ptes", own.scanned),
            ("khugepaged_copied_pages", own.copied),
            ("khugepaged_zeroed_pages", own.zeroed),
            ("khugepaged_no_block", own.no_block),
            ("deferred_pages_at_most", own.deferred_at_most),
            ("deferred_pages_at_end", self.held.len() as u64),
            ("deferred_splits", own.deferred_splits),
        ]
    }
}
