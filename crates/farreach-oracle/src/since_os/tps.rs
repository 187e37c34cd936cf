//! Tailored page sizes: leaves of any power of two (OS-TPS-1 to OS-TPS-3).
//!
//! * ON-10 The request is the region around the page: neighbouring pages of a mapping that are alike. A group may have
//!   no page that has an entry or a reserved frame.
//! * ON-11 A reserved frame waits for its page as long as that is mapped and was not touched. What is unmapped, moved
//!   or replaced gives it up, and a page that lost its frame has none. A child has none. No reservation is broken:
//!   where no frame is free, memory is full.
//! * ON-12 Promotion is tried after a fault that entered a page, a copy too, for each order from 1 on. All pages of the
//!   group are in one region, mapped alike, in order in an aligned block; how that came about does not matter. Below a
//!   threshold of 100 % the pages that are missing have reserved frames there, and are zeroed; an order with too few
//!   pages does not keep a larger one from being tried.
//! * ON-13 A halving is one demotion. What lies wholly inside the part stays as large as it is. A copied page is a
//!   part.
//! * ON-14 Pages that move do so as base pages (OS-2).

use crate::frames::Frames;
use crate::paging::{Entry, Full, Model, Paging};
use crate::program::{Page, pages};
use crate::superpages::{Mode, ends, group};
use crate::system::System;
use farreach_types::event::{Kind, Op, Prot};
use std::collections::BTreeMap;
use std::ops::Range;

/// A system.
#[derive(Clone, Debug)]
pub struct Config {
    pub frames: Frames,
    /// log2 of the pages of the largest leaf.
    pub largest: u32,
    /// Percent of the pages of a group that must be mapped (OS-TPS-2).
    pub threshold: u64,
}

/// The model.
pub struct PlainTps {
    config: Config,
    paging: Paging,
    /// Reserved frames, by process and page, with what was mapped there.
    reserved: BTreeMap<(u32, u64), (u64, Page)>,
    pub reservations: u64,
    pub promotions: u64,
}

impl PlainTps {
    pub fn new(config: Config) -> PlainTps {
        let paging = Paging::new(config.frames.clone(), false);
        PlainTps { config, paging, reserved: BTreeMap::new(), reservations: 0, promotions: 0 }
    }

    /// Frames that are reserved and have no page.
    pub fn reserved(&self) -> u64 {
        self.reserved.len() as u64
    }

    /// OS-TPS-1: the frame of a page that is touched first.
    fn frame(&mut self, process: u32, page: u64) -> Result<u64, Full> {
        if let Some((frame, _)) = self.reserved.remove(&(process, page)) {
            return Ok(frame);
        }
        for order in (0..=self.config.largest).rev() {
            let group = group(page, order);
            let taken = |page: u64| self.reserved.contains_key(&(process, page));
            if !self.paging.covers(process, page, order)
                || !self.paging.mapped(process, group.clone()).is_empty()
                || group.clone().any(taken)
            {
                continue;
            }
            let Some(base) = self.paging.frames.block(order) else { continue };
            self.reservations += 1;
            for (frame, other) in (base..).zip(group.clone()).filter(|(_, other)| *other != page) {
                let of = self.paging.page(process, other).expect("it is in the region");
                self.reserved.insert((process, other), (frame, of));
            }
            return Ok(base + (page - group.start));
        }
        Err(Full)
    }

    /// OS-TPS-2.
    fn promote(&mut self, process: u32, page: u64) {
        for order in 1..=self.config.largest {
            let group = group(page, order);
            let own = self.paging.entry(process, page).expect("it was entered");
            let Some(base) = own.frame.checked_sub(page - group.start) else { return };
            if !self.paging.covers(process, page, order) || !base.is_multiple_of(1 << order) {
                return;
            }
            let mut missing = Vec::new();
            for (frame, other) in (base..).zip(group.clone()) {
                match (self.paging.entry(process, other), self.reserved.get(&(process, other))) {
                    (Some(entry), _) if entry.frame == frame && entry.cow == own.cow => {}
                    (None, Some((reserved, _))) if *reserved == frame => missing.push((other, frame)),
                    _ => return,
                }
            }
            let (size, missed) = (1 << order, missing.len() as u64);
            if (size - missed) * 100 < size * self.config.threshold {
                continue;
            }
            for (other, frame) in missing {
                self.reserved.remove(&(process, other));
                self.paging.enter(process, other, Entry { cow: own.cow, ..Entry::base(frame) });
            }
            self.paging.counts.populated_pages += missed;
            self.paging.counts.zeroed_pages += missed;
            let entries = self.paging.mapped(process, group);
            if entries.iter().any(|(_, entry)| entry.order < order) {
                self.promotions += 1;
                entries
                    .into_iter()
                    .for_each(|(page, entry)| self.paging.enter(process, page, Entry { order, ..entry }));
            }
        }
    }

    /// OS-TPS-3: halves of the superpage around a page, until none sticks out of a range.
    fn halve(&mut self, process: u32, page: u64, range: &Range<u64>) {
        while self.paging.sticks_out(process, page, range) {
            let whole = self.paging.superpage(process, page);
            self.paging.space(process).table.range_mut(whole).for_each(|(_, entry)| entry.order -= 1);
            self.paging.counts.demotions += 1;
        }
    }
}

impl System for PlainTps {
    fn memory(&mut self) -> &mut Paging {
        &mut self.paging
    }

    fn serve(&mut self, process: u32, page: u64) -> Result<(), Full> {
        self.paging.counts.page_faults += 1;
        let known = self.paging.known(process, page);
        if !self.paging.allowed(process, &known, Mode::Always) {
            // What was reserved before it was advised otherwise is used.
            let Some((frame, _)) = self.reserved.remove(&(process, page)) else {
                return self.paging.base_page(process, page);
            };
            self.paging.enter(process, page, Entry::base(frame));
            self.paging.counts.zeroed_pages += 1;
            return Ok(());
        }
        let frame = self.frame(process, page)?;
        self.paging.enter(process, page, Entry::base(frame));
        self.paging.counts.zeroed_pages += 1;
        self.promote(process, page);
        Ok(())
    }

    fn split_around(&mut self, process: u32, range: Range<u64>) {
        ends(&range).for_each(|end| self.halve(process, end, &range));
    }

    fn protect(&mut self, process: u32, range: Range<u64>, prot: Prot) {
        for end in ends(&range) {
            if self.paging.page(process, end).is_some_and(|page| page.prot != prot) {
                self.halve(process, end, &range);
            }
        }
        self.paging.programs.protect(process, range, prot);
    }

    /// ON-11.
    fn give_back(&mut self) {
        let paging = &self.paging;
        let stays = |(process, page): &(u32, u64), of: &Page| {
            paging.page(*process, *page).is_some_and(|now| (now.mapping, now.index) == (of.mapping, of.index))
        };
        let given_up =
            self.reserved.iter().filter(|(at, (_, of))| !stays(at, of)).map(|(at, (frame, _))| (*at, *frame));
        let given_up: Vec<((u32, u64), u64)> = given_up.collect();
        let mut freed = self.paging.collect();
        for (at, frame) in given_up {
            self.reserved.remove(&at);
            freed.push(frame);
        }
        self.paging.frames.give_back(freed);
    }
}

impl Model for PlainTps {
    fn paging(&self) -> &Paging {
        &self.paging
    }

    fn apply(&mut self, process: u32, op: &Op) {
        if let Op::Map(mapping) = op {
            // What is replaced is not what was reserved for, even if it has the same number again.
            let replaced = pages(mapping.start, mapping.len);
            let reserved = self.reserved.range_mut((process, replaced.start)..(process, replaced.end));
            reserved.for_each(|(_, (_, of))| of.mapping = u64::MAX);
        }
        self.follow(process, op);
    }

    fn touch(&mut self, process: u32, page: u64, kind: Kind) -> Result<(), Full> {
        let before = self.paging.counts.protection_faults;
        self.refer(process, page, kind)?;
        if self.paging.counts.protection_faults > before {
            self.promote(process, page);
        }
        Ok(())
    }

    fn own(&self) -> Vec<(&'static str, u64)> {
        vec![("tps_reservations", self.reservations), ("tps_promotions", self.promotions)]
    }
}
