//! Ingens: base pages at faults, promotion by use, and a promoter that is fair (ING-1 to ING-7).
//!
//! * ON-40 A page has its bit (ING-1) from a page fault in this process on, if its group may be a superpage then, until
//!   it is unmapped, dropped, moved or replaced. A child begins without bits, and copying sets none.
//! * ON-41 A group is queued at a fault after which its weight has the threshold of that moment (ING-2, ING-6). This
//!   happens once, and again only after a page of it lost its bit, or it was looked at and had too little weight. It
//!   does not wait twice. A group that was promoted counts as queued.
//! * ON-42 A group from the queue or of a scan costs its pages of the budget (LNX-11), of one wake together. While
//!   groups wait, the promoter wakes again at once; a lack of blocks ends its wake, and it sleeps for `alloc_sleep`,
//!   or until a group is queued. A group that was looked at does not wait any more, with any outcome.
//! * ON-43 A group is promoted if its weight has the threshold of now, and LNX-12 holds but for `max_ptes_none`.
//! * ON-44 Without fairness the scan is that of LNX-11. With it, after the queue and after the end of each process,
//!   that of the largest metric is next, the first in the ring of equal ones, none twice in a wake; each process has a
//!   cursor. What it wants are its private pages, of no file, in superpages, rounded down; huge pages held are its
//!   superpages.
//! * ON-45 A history is that of an entry for private memory, of no file: of a superpage or of a base page, by process
//!   and first page. It begins with 0, and F with 0; an entry that is not there any more, of another size or with
//!   another frame, has none. Division is that of C. Whether an entry is hot is said by the looks before.
//! * ON-46 Of hot entries those are cleared for which `mix(process << 52 ^ page, scan) % 100 < 20`; the first scan is
//!   1.
//! * ON-47 The index of ING-6 is that of OE-2 for the block of a superpage.
//! * ON-48 Not modelled: the metric of the paper, taking from others, sharing (ING-8), compaction (ING-7).

use crate::frames::Frames;
use crate::linux::Khugepaged;
use crate::paging::{Entry, Full, Model, Paging};
use crate::ring::Ring;
use crate::superpages::{Mode, group};
use crate::system::System;
use farreach_types::event::{Kind, Op};
use farreach_types::hash::mix;
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

/// What is known of the use of an entry (ING-5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Use {
    pub history: u8,
    pub f: i64,
}

impl Use {
    /// ING-5: a look at A.
    pub fn look(&mut self, accessed: bool) {
        self.history = self.history << 1 | u8::from(accessed);
        self.f = (70 * self.f + 30 * (i64::from(self.history.count_ones()) - 6)) / 100;
    }

    pub fn hot(&self) -> bool {
        self.f >= 0
    }
}

/// ING-4.
pub fn metric(weight: u64, wanted: u64, held: u64) -> u64 {
    if weight == 0 { 0 } else { (weight * wanted * 100 / held.max(1)).max(1) }
}

/// What is counted.
const OWN: [&str; 9] = [
    "promoter_queued",
    "tracker_scans",
    "tracker_scanned_ptes",
    "tracker_hot_ptes",
    "promoter_wakes",
    "promoter_scanned_ptes",
    "promoter_copied_pages",
    "promoter_zeroed_pages",
    "promoter_no_block",
];

/// The model.
pub struct PlainIngens {
    config: Config,
    paging: Paging,
    /// ING-1, with the mapping and the index of each page.
    faulted: BTreeMap<(u32, u64), (u64, u64)>,
    /// Groups that were queued (ON-41).
    queued: BTreeSet<(u32, u64)>,
    waiting: VecDeque<(u32, u64)>,
    ring: Ring,
    cursors: BTreeMap<u32, u64>,
    /// By process, first page, log2 of the pages, and frame.
    uses: BTreeMap<(u32, u64, u32, u64), Use>,
    promoter_due: u64,
    track_due: u64,
    scans: u64,
    now: u64,
    counts: BTreeMap<&'static str, u64>,
}

impl PlainIngens {
    pub fn new(config: Config) -> PlainIngens {
        let track_due = if config.track_every > 0 { config.track_every } else { u64::MAX };
        let (faulted, queued, waiting, ring, cursors, uses, counts) = Default::default();
        let paging = Paging::new(config.frames.clone(), true);
        let (promoter_due, scans, now) = (u64::MAX, 0, 0);
        PlainIngens {
            config,
            paging,
            faulted,
            queued,
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

    /// What is known of the entry around a page.
    pub fn used(&self, process: u32, page: u64) -> Option<Use> {
        let entry = self.paging.entry(process, page)?;
        let first = group(page, entry.order).start;
        let frame = self.paging.entry(process, first)?.frame;
        self.uses.get(&(process, first, entry.order, frame)).copied()
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
        if self.config.promoter.pages_to_scan == 0 || !self.eligible(process, page) {
            return;
        }
        let known = self.paging.page(process, page).expect("it is mapped");
        self.faulted.insert((process, page), (known.mapping, known.index));
        self.enter(process);
        let of = (process, group(page, self.config.order).start);
        if self.weight(process, page) >= self.threshold() && self.queued.insert(of) {
            if !self.waiting.contains(&of) {
                self.waiting.push_back(of);
                self.add("promoter_queued", 1);
            }
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
        self.add("promoter_wakes", 1);
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
        self.add("promoter_scanned_ptes", used);
        self.add("promoter_no_block", u64::from(no_block));
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

    /// ON-44.
    fn fair(&mut self, done: &mut BTreeSet<u32>) -> Option<(u32, u64)> {
        loop {
            let metrics = self.ring.processes().iter().map(|process| (self.metric(*process), *process));
            let metrics = metrics.filter(|(metric, process)| *metric > 0 && !done.contains(process));
            // The first of the largest.
            let (_, process) = metrics.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
            let from = self.cursors.get(&process).copied().unwrap_or(0);
            match self.paging.first_eligible(process, from, self.config.order, self.config.mode) {
                Some(first) => {
                    self.cursors.insert(process, first + (1 << self.config.order));
                    return Some((process, first));
                }
                None => {
                    self.cursors.insert(process, 0);
                    done.insert(process);
                }
            }
        }
    }

    /// Pages of private memory, of no file, that have entries.
    fn private(&self, process: u32) -> impl Iterator<Item = (u64, Entry)> {
        let paging = &self.paging;
        let is_private = move |page: u64| paging.page(process, page).is_some_and(|page| page.private());
        self.paging.mapped(process, 0..u64::MAX).into_iter().filter(move |(page, _)| is_private(*page))
    }

    /// ING-4 of a process.
    pub fn metric(&self, process: u32) -> u64 {
        let weights = self.config.fairness.as_ref();
        let weight = weights.and_then(|weights| weights.get(&process)).copied().unwrap_or(1);
        let order = self.config.order;
        let pages: Vec<_> = self.private(process).collect();
        let held = pages.iter().filter(|(_, entry)| entry.order == order).count() >> order;
        metric(weight, pages.len() as u64 >> order, held as u64)
    }

    /// Promotes a group if it qualifies. False: there is no block.
    fn look(&mut self, process: u32, first: u64) -> bool {
        let (order, rule) = (self.config.order, self.config.promoter);
        let group = group(first, order);
        if !self.eligible(process, first) {
            return true;
        }
        if self.weight(process, first) < self.threshold() {
            self.queued.remove(&(process, first));
        }
        if self.weight(process, first) < self.threshold()
            || !self.paging.qualifies(process, &group, 1 << order, rule.max_ptes_shared)
        {
            return true;
        }
        let Some(base) = self.paging.frames.block(order) else { return false };
        let collapsed = self.paging.collapse(process, &group, base);
        self.paging.set_young(process, first, true);
        self.queued.insert((process, first));
        self.add("promoter_copied_pages", collapsed.copied);
        self.add("promoter_zeroed_pages", collapsed.missing);
        true
    }

    /// ING-5.
    fn track(&mut self) {
        self.scans += 1;
        self.add("tracker_scans", 1);
        let before = std::mem::take(&mut self.uses);
        for process in self.paging.programs.spaces.keys().copied().collect::<Vec<_>>() {
            for (page, entry) in self.private(process).collect::<Vec<_>>() {
                let leaf = group(page, entry.order);
                if page != leaf.start {
                    continue;
                }
                let key = (process, page, entry.order, entry.frame);
                let young = self.paging.mapped(process, leaf).iter().any(|(_, entry)| entry.young);
                let mut used = before.get(&key).copied().unwrap_or_default();
                let hot = used.hot();
                used.look(young);
                let sampled = mix(u64::from(process) << 52 ^ page, self.scans) % 100 < 20;
                if !self.config.sampling || !hot || sampled {
                    self.paging.set_young(process, page, false);
                }
                self.add("tracker_scanned_ptes", 1);
                self.add("tracker_hot_ptes", u64::from(used.hot()));
                self.uses.insert(key, used);
            }
        }
        self.track_due = self.now + self.config.track_every;
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
        let (order, queued) = (self.config.order, &mut self.queued);
        self.faulted.retain(|(process, at), of| {
            let stays = page(*process, *at) == Some(*of) && paging.entry(*process, *at).is_some();
            if !stays {
                queued.remove(&(*process, group(*at, order).start));
            }
            stays
        });
        let is = |process: u32, page: u64| paging.entry(process, page).map(|entry| (entry.order, entry.frame));
        self.uses.retain(|(process, page, size, frame), _| is(*process, *page) == Some((*size, *frame)));
        self.waiting.retain(|(process, _)| self.ring.processes().contains(process));
    }
}

impl Model for PlainIngens {
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
        self.promoter_due.min(self.track_due)
    }

    /// ON-4: the promoter first.
    fn advance(&mut self, now: u64) {
        self.now = now;
        while self.due() <= now {
            if self.promoter_due <= self.track_due {
                self.promoter();
            } else {
                self.track();
            }
        }
    }

    fn own(&self) -> Vec<(&'static str, u64)> {
        OWN.iter().map(|name| (*name, self.counts.get(name).copied().unwrap_or(0))).collect()
    }
}
