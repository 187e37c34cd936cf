//! Superpages as Linux makes them: at a fault, in the background, and from a pool, from the book's page on policies
//! ("Transparent huge pages", "Huge pages from a pool").
//!
//! Where these leave something open:
//!
//! * OS-1 Memory that can have superpages is private and of no file; a stack too. Advice does not matter to a pool.
//!   Shared anonymous memory can have those of one size, by a setting of its own, which no pool has.
//! * OS-2 A superpage is split (its pages keep their frames) when a part of it is unmapped, dropped, moved or replaced;
//!   when a part gets other rights than it has; when one of its pages is copied, or becomes writable alone; when its
//!   group is collapsed into a larger one.
//! * OS-3 A group waits for its collapse once, from the first fault with a base page on. It stops waiting when it is
//!   collapsed, when it has such a superpage already, when no page of it is mapped, or when its region does not cover
//!   it. A group that cannot be collapsed for another reason waits again, behind the others.
//! * OS-4 What a scan frees is free after the scan.
//! * OS-5 A huge page comes from the lowest place in the pool.
//! * OS-6 A group is rounded up if nothing in it has an entry, and all that is mapped in it is memory of OS-1 with the
//!   rights of the page that was touched, but no stack and nothing of the kernel.
//! * OS-7 New private anonymous memory and heap take over rest with the same rights, unless a child shares one of its
//!   pages. What mremap adds does not.
//! * OS-8 Of a whole huge page, what is unmapped becomes rest while something else than rest is mapped in its place.
//!   After an unmap or an mremap, rest without other memory in its place is unmapped.
//! * OS-9 A superpage of shared memory stays one as long as the memory, for every region that maps all of it at an
//!   aligned place, and while its frames lie in order. There is none where some page of the memory has a frame already.
//! * OS-10 Memory that is asked for at once (MAP_POPULATE) comes page by page as at faults, which are not counted. It
//!   ends where memory is full.

mod events;
mod faults;

use crate::frames::Frames;
use crate::paging::{Entry, Full, Model, Paging};
use crate::program::Page;
use crate::system::System;
use farreach_types::event::{Kind, Op};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A policy with superpages.
#[derive(Clone, Debug)]
pub struct Config {
    pub frames: Frames,
    /// log2 of the pages of the superpages that a fault tries, largest first.
    pub orders: Vec<u32>,
    pub from: From,
    /// Superpages of shared memory.
    pub shared: Option<Shared>,
}

/// Superpages of shared anonymous memory.
#[derive(Clone, Copy, Debug)]
pub struct Shared {
    /// log2 of their pages.
    pub order: u32,
    pub by_advice_only: bool,
}

/// Where superpages come from, and what else is done.
#[derive(Clone, Debug)]
pub enum From {
    /// Free memory. Of the largest size pages are collapsed too.
    Memory { by_advice_only: bool, background: Option<Background> },
    /// A pool of superpages.
    Pool { superpages: u64, rounds: bool },
}

/// Collapse in the background.
#[derive(Clone, Copy, Debug)]
pub struct Background {
    /// Faults with base pages from one scan to the next.
    pub every: u64,
    /// Groups looked at in a scan.
    pub groups: u64,
    /// Pages that may be missing.
    pub missing: u64,
}

/// The model.
pub struct PlainHuge {
    config: Config,
    pub(crate) paging: Paging,
    /// Frames of the pool, and those of them that are free.
    pool: BTreeSet<u64>,
    pool_free: BTreeSet<u64>,
    waiting: VecDeque<(u32, u64)>,
    faults: u64,
    /// log2 of the pages of superpages of shared memory, by mapping and first page (OS-9).
    shared: BTreeMap<(u64, u64), u32>,
    /// How often one was mapped that was there.
    pub mapped_again: u64,
    /// Whether faults bring in superpages, and groups wait and are collapsed.
    pub(crate) superpages_on: bool,
    pub(crate) collapse_on: bool,
}

impl PlainHuge {
    pub fn new(config: Config) -> PlainHuge {
        let merges = matches!(config.from, From::Memory { .. });
        let mut paging = Paging::new(config.frames.clone(), merges);
        let mut pool = BTreeSet::new();
        if let From::Pool { superpages, .. } = config.from {
            for _ in 0..superpages {
                let base = paging.frames.block(config.orders[0]).expect("memory has room for the pool");
                pool.extend(base..base + (1 << config.orders[0]));
            }
        }
        PlainHuge {
            config,
            paging,
            pool_free: pool.clone(),
            pool,
            waiting: VecDeque::new(),
            faults: 0,
            shared: BTreeMap::new(),
            mapped_again: 0,
            superpages_on: true,
            collapse_on: true,
        }
    }

    fn entry(&self, process: u32, page: u64) -> Option<Entry> {
        self.paging.entry(process, page)
    }

    fn page(&self, process: u32, page: u64) -> Option<Page> {
        self.paging.page(process, page)
    }

    fn rounds(&self) -> bool {
        matches!(self.config.from, From::Pool { rounds: true, .. })
    }
}

impl System for PlainHuge {
    fn memory(&mut self) -> &mut Paging {
        &mut self.paging
    }

    fn serve(&mut self, process: u32, page: u64) -> Result<(), Full> {
        self.fault(process, page)
    }

    /// Frees the frames without a user, each where it was allocated.
    fn give_back(&mut self) {
        let (to_pool, others): (Vec<u64>, Vec<u64>) =
            self.paging.collect().into_iter().partition(|frame| self.pool.contains(frame));
        self.pool_free.extend(to_pool);
        self.paging.frames.give_back(others);
    }
}

impl Model for PlainHuge {
    fn paging(&self) -> &Paging {
        &self.paging
    }

    fn apply(&mut self, process: u32, op: &Op) {
        self.follow_all(process, op);
    }

    fn touch(&mut self, process: u32, page: u64, kind: Kind) -> Result<(), Full> {
        self.refer(process, page, kind)
    }
}
