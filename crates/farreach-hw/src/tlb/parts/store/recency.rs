//! Entries by time, behind LRU, tree-PLRU, and FIFO where sets overlap: when each was used or filled last, and the
//! search for a victim.
//!
//! A hit writes a time and nothing else, and where the machine keeps the times of lookups, most hits are not even seen.
//! So the times of the store are late. The slot with the earliest is the victim unless the machine knows of a later use
//! of it; then the search goes on with that time. A small set is searched whole. A large one has a queue by times, and
//! the time of a place in it may be late, too: the slot in front goes back to its place if it was used since.
//!
//! A bit of the tree of PLRU points away from the half of its slots that was used last. So it says which of the halves
//! was used longer ago, and times say the same: there are no bits to keep either.

use super::geometry::{Geometry, SetFunction};
use super::tag_index::NONE;
use super::time_queue::{Place, TimeQueue};
use crate::tlb::filter::Unfiltered;
use std::hint::select_unpredictable;
use std::ops::Range;

/// Sets with more ways have a queue.
const FEW: usize = 16;

/// What the times decide.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::tlb) enum Rule {
    /// FIFO: the entry filled first.
    Filled,
    /// LRU: the entry used longest ago.
    Used,
    /// Tree-PLRU: of two halves always that used longer ago. Sets of a power of two.
    Halves,
}

/// Times of entries.
pub(in crate::tlb) struct Recency {
    rule: Rule,
    /// By slot, the last use that the store knows of. Slots without entry have that of their last one.
    last: Box<[u64]>,
    /// If sets are large.
    queue: TimeQueue,
    /// By set, the slot used last, or `NONE`. Kept without a clock only, and if the report is read.
    newest: Box<[u32]>,
    /// Where no clock of lookups is: uses so far.
    now: u64,
}

impl Recency {
    pub fn new(g: Geometry, rule: Rule) -> Recency {
        // Skewed sets share slots. Their victims are searched for among those of a page.
        let skewed = g.function == SetFunction::Skewed;
        let queued = if skewed || g.ways <= FEW || rule == Rule::Halves { 0 } else { g.sets };
        Recency {
            rule,
            last: vec![0; g.entries()].into(),
            queue: TimeQueue::new(queued, g.ways),
            newest: vec![NONE; if skewed { 1 } else { g.sets }].into(),
            now: 0,
        }
    }

    /// Whether uses count, not only fills.
    pub fn is_by_use(&self) -> bool {
        self.rule != Rule::Filled
    }

    /// A slot has a new entry. As [`Recency::touched`].
    #[inline(always)]
    pub fn entered(&mut self, set: usize, slot: u32, unfiltered: &mut Unfiltered) -> Option<u32> {
        if let Some(now) = unfiltered.tick() {
            self.last[slot as usize] = now;
            return None;
        }
        self.now += 1;
        self.last[slot as usize] = self.now;
        if unfiltered.is_unread() {
            return None;
        }
        let former = std::mem::replace(&mut self.newest[set], slot);
        (self.is_by_use() && former != NONE && former != slot).then_some(former)
    }

    /// A slot was used. Returns the slot that is no longer the newest, if uses count and there is no clock: using it
    /// once more has an effect again. So it has in the tree, too: the node at which the paths to both part points to it
    /// now.
    #[inline(always)]
    pub fn touched(&mut self, set: usize, slot: u32, unfiltered: &mut Unfiltered) -> Option<u32> {
        if self.is_by_use() { self.entered(set, slot, unfiltered) } else { None }
    }

    /// A slot became empty.
    pub fn dropped(&mut self, set: usize, slot: u32) {
        if self.newest[set] == slot {
            self.newest[set] = NONE;
        }
    }

    /// Takes over the last use of a slot: `since`, given the last that was known, says what the machine knows.
    #[inline(always)]
    pub fn learn(&mut self, slot: u32, since: impl FnOnce(u64) -> u64) -> u64 {
        let by_use = self.is_by_use();
        let last = &mut self.last[slot as usize];
        if by_use {
            *last = since(*last);
        }
        *last
    }

    /// The slot to fill, of a set without empty ones; `since` as for [`Recency::learn`].
    #[inline(always)]
    pub fn victim(&mut self, set: usize, ways: usize, mut since: impl FnMut(u32, u64) -> u64) -> u32 {
        if self.rule == Rule::Halves {
            // Through a pointer, so that `since` is compiled into the other rule alone.
            self.at_end_of_tree(set, ways, &mut since)
        } else {
            self.oldest(set, ways, since)
        }
    }

    #[inline(never)]
    fn at_end_of_tree(&mut self, set: usize, ways: usize, since: &mut dyn FnMut(u32, u64) -> u64) -> u32 {
        let mut slots = set * ways..(set + 1) * ways;
        slots.clone().for_each(|slot| _ = self.learn(slot as u32, |last| since(slot as u32, last)));
        while slots.len() > 1 {
            let middle = slots.start + slots.len() / 2;
            let last = |half: Range<usize>| self.last[half].iter().max();
            let (low, high) = (slots.start..middle, middle..slots.end);
            slots = if last(low.clone()) <= last(high.clone()) { low } else { high };
        }
        slots.start as u32
    }

    #[inline(always)]
    fn oldest(&mut self, set: usize, ways: usize, mut since: impl FnMut(u32, u64) -> u64) -> u32 {
        loop {
            let Place { time, slot } = self.front(set, ways);
            let mut last = self.last[slot as usize];
            if last == time {
                last = self.learn(slot, |last| since(slot, last));
            }
            if last == time {
                return slot;
            }
            if !self.queue.is_empty() {
                self.queue.put_back(set, last);
            }
        }
    }

    /// The slot with the earliest time, in a large set with the earliest place.
    #[inline(always)]
    fn front(&self, set: usize, ways: usize) -> Place {
        if !self.queue.is_empty() {
            return self.queue.front(set);
        }
        let first = set * ways;
        let mut front = Place { time: u64::MAX, slot: NONE };
        for (slot, &time) in (first as u32..).zip(&self.last[first..first + ways]) {
            // Which is the earliest is not predictable, so there are no branches.
            front = select_unpredictable(time < front.time, Place { time, slot }, front);
        }
        front
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tlb::filter::times::TimedReport;

    /// A way to find the victim of a set: the slot used longest ago, given the times of all.
    type Search = fn(&mut Recency, usize, usize, &[u64]) -> u32;

    /// Whether it finds what a search of all slots finds, among uses that the store sees and uses that only the machine
    /// does.
    fn is_exact(search: Search) -> bool {
        let shapes = [(1, 1), (1, 2), (2, 3), (4, 4), (1, 64), (1, 1000)];
        shapes.iter().all(|&(sets, ways)| {
            let mut recency = Recency::new(Geometry { sets, ways, function: SetFunction::LowBits }, Rule::Used);
            let mut timed = TimedReport::new();
            let mut truth = vec![0; sets * ways];
            for (slot, last) in truth.iter_mut().enumerate() {
                recency.entered(slot / ways, slot as u32, timed.report());
                *last = recency.last[slot];
            }
            let mut dice = 7u64;
            (0..20_000).all(|_| {
                dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                let slot = (dice >> 40) as usize % (sets * ways);
                let set = slot / ways;
                if timed.times().room() < 10 {
                    timed.times_mut().restart();
                }
                match dice >> 33 & 7 {
                    0 => {
                        let found = search(&mut recency, set, ways, &truth);
                        let oldest = (set * ways..(set + 1) * ways).min_by_key(|&slot| truth[slot]);
                        recency.entered(set, found, timed.report());
                        truth[found as usize] = recency.last[found as usize];
                        Some(found as usize) == oldest
                    }
                    1..4 => {
                        recency.touched(set, slot as u32, timed.report());
                        truth[slot] = recency.last[slot];
                        true
                    }
                    _ => {
                        truth[slot] = timed.report().tick().expect("it has a clock");
                        true
                    }
                }
            })
        })
    }

    #[test]
    fn the_oldest_slot_is_found_though_the_queue_is_late() {
        assert!(is_exact(|recency, set, ways, truth| recency.oldest(set, ways, |slot, _| truth[slot as usize])));
    }

    /// Queues with a planted fault.
    #[test]
    fn a_faulty_queue_is_noticed() {
        assert!(
            !is_exact(|recency, set, ways, _| recency.oldest(set, ways, |_, known| known)),
            "the machine not asked"
        );
        let front_goes: Search = |recency, set, ways, _| recency.front(set, ways).slot;
        assert!(!is_exact(front_goes), "the slot in front not asked whether it was used");
        let goes_to_the_end: Search = |recency, set, ways, truth| loop {
            let Place { time, slot } = recency.front(set, ways);
            let last = truth[slot as usize];
            if last == time {
                return slot;
            }
            recency.last[slot as usize] = last;
            if !recency.queue.is_empty() {
                recency.queue.put_last(set, last);
            }
        };
        assert!(!is_exact(goes_to_the_end), "put back without regard to its time");
    }
}
