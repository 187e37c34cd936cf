//! Ingens: base pages at faults, promotion by use, and a promoter that is fair (ING-1 to ING-7).
//!
//! * ON-40 A page has its bit (ING-1) from its first page fault in this process on, until it is unmapped, moved or
//!   replaced; memory that is dropped keeps it. A child begins without bits, and copying sets none.
//! * ON-41 A group is queued at the fault that makes its weight equal to the threshold of that moment (ING-2, ING-6),
//!   if it may be a superpage and does not wait already.
//! * ON-42 A group from the queue or of a scan costs its pages of the budget (LNX-11), of one wake together. While
//!   groups wait, the promoter is due at once again; a lack of blocks ends its wake, and it sleeps for `alloc_sleep`,
//!   or until a group is queued. A group that was looked at does not wait any more, whatever came of it.
//! * ON-43 A group is promoted if its weight has the threshold of now, and LNX-12 holds but for `max_ptes_none`.
//! * ON-44 Without fairness the scan is that of LNX-11. With it, after the queue and after the end of each process,
//!   that of the largest metric is next, the first in the ring of equal ones, none twice in a wake; each process has a
//!   cursor. Wanted groups are those that would be promoted by weight; huge pages held are its superpages.
//! * ON-45 A history is that of an entry, of a superpage or of a base page, by process and first page. It begins with
//!   0, and F with 0; an entry that is not there any more, or of another size, has none. Division is that of C.
//! * ON-46 Of hot entries those are cleared for which `mix(process << 52 ^ page, scan) % 100 < 20`; the first scan is
//!   1.
//! * ON-47 The index of ING-6 is that of OE-2 for the block of a superpage.
//! * ON-48 Not modelled: the metric of the paper, taking from others, sharing (ING-8), compaction (ING-7).

mod fairness;
mod tracking;

pub use fairness::metric;
pub use tracking::Use;

use crate::frames::Frames;
use crate::linux::Khugepaged;
use crate::paging::{Full, Model, Paging};
use crate::program::pages;
use crate::ring::Ring;
use crate::superpages::{Mode, group};
use crate::system::System;
use farreach_types::event::{Kind, Op};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// A system.
#[derive(Clone, Debug)]
pub struct Config {
    pub frames: Frames,
    /// log2 of the pages of a superpage.
    pub order: u32,
    pub mode: Mode,
    /// Percent (ING-2).
    pub util_threshold: u64,
    /// Budget, sleeps and shared pages of the promoter; `max_ptes_none` does not count.
    pub promoter: Khugepaged,
    /// ING-4: weights of processes, 1 for others. None: no fairness.
    pub fairness: Option<BTreeMap<u32, u64>>,
    /// ING-6.
    pub adaptive: bool,
    /// ING-5: from one look at A to the next; 0 for never.
    pub track_every: u64,
    /// ING-5, `mode 2`: hot entries are sampled.
    pub sampling: bool,
}

/// What is counted.
const OWN: [&str; 9] = [
    "ingens_queued",
    "ingens_promotions",
    "ingens_tracked",
    "ingens_hot",
    "khugepaged_wakes",
    "khugepaged_scanned_ptes",
    "khugepaged_copied_pages",
    "khugepaged_zeroed_pages",
    "khugepaged_no_block",
];

/// The model.
pub struct PlainIngens {
    config: Config,
    paging: Paging,
    /// ING-1, with the mapping and the index of each page.
    faulted: BTreeMap<(u32, u64), (u64, u64)>,
    waiting: VecDeque<(u32, u64)>,
    ring: Ring,
    cursors: BTreeMap<u32, u64>,
    uses: BTreeMap<(u32, u64, u32), Use>,
    promoter_due: u64,
    track_due: u64,
    scans: u64,
    now: u64,
    counts: BTreeMap<&'static str, u64>,
}

impl PlainIngens {
    pub fn new(config: Config) -> PlainIngens {
        let track_due = if config.track_every > 0 { config.track_every } else { u64::MAX };
        let (faulted, waiting, ring, cursors, uses, counts) = Default::default();
        let paging = Paging::new(config.frames.clone(), true);
        let (promoter_due, scans, now) = (u64::MAX, 0, 0);
        PlainIngens {
            config,
            paging,
            faulted,
            waiting,
            ring,
            cursors,
            uses,
            promoter_due,
            track_due,
            scans,
            now,
            counts,
        }
    }

    fn add(&mut self, name: &'static str, count: u64) {
        *self.counts.entry(name).or_default() += count;
    }

    /// Pages of the group around a page that were ever faulted (ING-1).
    pub fn weight(&self, process: u32, page: u64) -> u64 {
        let group = group(page, self.config.order);
        self.faulted.range((process, group.start)..(process, group.end)).count() as u64
    }

    /// ING-2, ING-6.
    fn threshold(&self) -> u64 {
        let pages = 1 << self.config.order;
        if self.config.adaptive && self.paging.frames.fragmentation(self.config.order) < 0.5 {
            return 1;
        }
        pages * self.config.util_threshold / 100
    }

    fn eligible(&self, process: u32, page: u64) -> bool {
        self.paging.eligible(process, page, self.config.order, self.config.mode)
    }

    /// ING-1, ING-2, after a fault.
    fn note(&mut self, process: u32, page: u64) {
        let known = self.paging.page(process, page).expect("it is mapped");
        let new = self.faulted.insert((process, page), (known.mapping, known.index)).is_none();
        if self.config.promoter.pages_to_scan == 0 || !self.eligible(process, page) {
            return;
        }
        self.enter(process);
        let first = group(page, self.config.order).start;
        if new && self.weight(process, page) == self.threshold() && !self.waiting.contains(&(process, first)) {
            self.waiting.push_back((process, first));
            self.add("ingens_queued", 1);
            self.promoter_due = self.now;
        }
    }

    fn enter(&mut self, process: u32) {
        if self.config.promoter.pages_to_scan > 0 && self.ring.enter(process) && self.promoter_due == u64::MAX {
            self.promoter_due = self.now;
        }
    }

    /// ING-3.
    fn promoter(&mut self) {
        self.add("khugepaged_wakes", 1);
        let rule = self.config.promoter;
        let (mut used, mut from_first, mut done, mut no_block) = (0, false, BTreeSet::new(), false);
        while used < rule.pages_to_scan && !no_block {
            let next = match self.waiting.pop_front() {
                Some(queued) => Some(queued),
                None if self.config.fairness.is_some() => self.fair(&mut done),
                None => self.in_turn(&mut from_first),
            };
            let Some((process, first)) = next else { break };
            used += 1 << self.config.order;
            no_block = !self.look(process, first);
        }
        self.give_back();
        self.add("khugepaged_scanned_ptes", used);
        self.add("khugepaged_no_block", u64::from(no_block));
        self.promoter_due = match self.ring.processes() {
            _ if no_block => self.now + rule.alloc_sleep,
            _ if !self.waiting.is_empty() => self.now,
            [] => u64::MAX,
            _ => self.now + rule.scan_sleep,
        };
    }

    fn in_turn(&mut self, from_first: &mut bool) -> Option<(u32, u64)> {
        let (paging, order, mode) = (&self.paging, self.config.order, self.config.mode);
        let found = self.ring.turn(from_first, |process, from| paging.first_eligible(process, from, order, mode))?;
        self.ring.behind(found.1 + (1 << order));
        Some(found)
    }

    /// Promotes a group if it qualifies. False: there is no block.
    fn look(&mut self, process: u32, first: u64) -> bool {
        let (order, rule) = (self.config.order, self.config.promoter);
        let group = group(first, order);
        if !self.eligible(process, first)
            || self.weight(process, first) < self.threshold()
            || !self.paging.qualifies(process, &group, 1 << order, rule.max_ptes_shared)
        {
            return true;
        }
        let Some(base) = self.paging.frames.block(order) else { return false };
        let collapsed = self.paging.collapse(process, &group, base);
        self.add("ingens_promotions", 1);
        self.add("khugepaged_copied_pages", collapsed.copied);
        self.add("khugepaged_zeroed_pages", collapsed.missing);
        true
    }
}

impl System for PlainIngens {
    fn memory(&mut self) -> &mut Paging {
        &mut self.paging
    }

    fn serve(&mut self, process: u32, page: u64) -> Result<(), Full> {
        self.paging.counts.page_faults += 1;
        self.paging.known(process, page);
        self.paging.base_page(process, page)?;
        self.note(process, page);
        Ok(())
    }

    fn advised(&mut self, process: u32, range: Range<u64>) {
        if self.paging.any_eligible(process, range, self.config.order, self.config.mode) {
            self.enter(process);
        }
    }

    fn ended(&mut self, process: u32) {
        self.ring.leave(process);
        self.cursors.remove(&process);
    }

    fn give_back(&mut self) {
        let freed = self.paging.collect();
        self.paging.frames.give_back(freed);
        let paging = &self.paging;
        // ON-40, ON-45.
        let page = |process: u32, page: u64| paging.page(process, page).map(|page| (page.mapping, page.index));
        self.faulted.retain(|(process, at), of| page(*process, *at) == Some(*of));
        let order = |process: u32, page: u64| paging.entry(process, page).map(|entry| entry.order);
        self.uses.retain(|(process, page, size), _| order(*process, *page) == Some(*size));
        self.waiting.retain(|(process, _)| self.ring.processes().contains(process));
    }
}

impl Model for PlainIngens {
    fn paging(&self) -> &Paging {
        &self.paging
    }

    fn apply(&mut self, process: u32, op: &Op) {
        if let Op::Map(mapping) = op {
            // ON-40: what is replaced, even if what follows has the same number.
            let replaced = pages(mapping.start, mapping.len);
            self.faulted.retain(|(of, page), _| *of != process || !replaced.contains(page));
        }
        self.follow(process, op);
    }

    fn touch(&mut self, process: u32, page: u64, kind: Kind) -> Result<(), Full> {
        self.refer(process, page, kind)
    }

    fn walked(&mut self, process: u32, page: u64) {
        self.paging.set_young(process, page, true);
    }

    fn due(&self) -> u64 {
        self.promoter_due.min(self.track_due)
    }

    /// ON-4: the promoter first.
    fn advance(&mut self, now: u64) {
        self.now = now;
        let promoter_first = self.promoter_due <= self.track_due;
        for promoter in [promoter_first, !promoter_first] {
            if promoter && self.promoter_due <= now {
                self.promoter();
            } else if !promoter && self.track_due <= now {
                self.track();
            }
        }
    }

    fn own(&self) -> Vec<(&'static str, u64)> {
        OWN.iter().map(|name| (*name, self.counts.get(name).copied().unwrap_or(0))).collect()
    }
}
