//! Entries by time, behind LRU, and FIFO where sets overlap: when each was used or filled last, and a queue that finds
//! the oldest of a set.
//!
//! A hit writes a time and nothing else, and where the machine keeps the times of lookups, most hits are not even seen.
//! So the queue is late: the time in it is one at which its slot was used, perhaps not the last. It is a heap by these
//! times. Only the slot in front is looked at: if it was used since, it goes back to its place; if not, no other slot
//! of the set was used before it, for none is in front of it, and it is the victim.

use super::geometry::{Geometry, SetFunction};
use super::tag_index::NONE;
use crate::tlb::filter::Unfiltered;

/// A slot in the queue.
#[derive(Clone, Copy)]
struct Place {
    time: u64,
    slot: u32,
}

/// Times of entries.
pub(in crate::tlb) struct Recency {
    /// LRU: a use counts, not only the fill.
    by_use: bool,
    /// By slot, the last use that the store knows of.
    last: Box<[u64]>,
    /// Set after set, a binary heap of its slots. Slots without entry have the place of their last one.
    queue: Box<[Place]>,
    /// By set, the slot used last, or `NONE`. Kept without a clock only.
    newest: Box<[u32]>,
    /// Where no clock of lookups is: uses so far.
    now: u64,
}

impl Recency {
    /// `by_use`: LRU; if not, FIFO.
    pub fn new(g: Geometry, by_use: bool) -> Recency {
        // Skewed sets share slots. Their victims are not searched for in the queue.
        let sets = if g.function == SetFunction::Skewed { 1 } else { g.sets };
        Recency {
            by_use,
            last: vec![0; g.entries()].into(),
            queue: (0..g.entries() as u32).map(|slot| Place { time: 0, slot }).collect(),
            newest: vec![NONE; sets].into(),
            now: 0,
        }
    }

    /// Whether uses count, not only fills.
    pub fn is_by_use(&self) -> bool {
        self.by_use
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
        let former = std::mem::replace(&mut self.newest[set], slot);
        (self.by_use && former != NONE && former != slot).then_some(former)
    }

    /// A slot was used. Returns the slot that is no longer the newest, if uses count and there is no clock: using it
    /// once more has an effect again.
    #[inline(always)]
    pub fn touched(&mut self, set: usize, slot: u32, unfiltered: &mut Unfiltered) -> Option<u32> {
        if self.by_use { self.entered(set, slot, unfiltered) } else { None }
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
        let last = &mut self.last[slot as usize];
        if self.by_use {
            *last = since(*last);
        }
        *last
    }

    /// The slot that was used longest ago, of a set without empty ones; `since` as for [`Recency::learn`].
    #[inline(always)]
    pub fn oldest(&mut self, set: usize, ways: usize, mut since: impl FnMut(u32, u64) -> u64) -> u32 {
        loop {
            let Place { time, slot } = self.queue[set * ways];
            let mut last = self.last[slot as usize];
            if last == time {
                last = self.learn(slot, |last| since(slot, last));
            }
            if last == time {
                return slot;
            }
            put_back(&mut self.queue[set * ways..][..ways], Place { time: last, slot });
        }
    }
}

/// Moves the slot in front to its place: no slot is in front of an older one.
#[inline(always)]
fn put_back(heap: &mut [Place], place: Place) {
    let mut at = 0;
    loop {
        let mut next = 2 * at + 1;
        if next >= heap.len() {
            break;
        }
        next += usize::from(next + 1 < heap.len() && heap[next + 1].time < heap[next].time);
        if heap[next].time >= place.time {
            break;
        }
        heap[at] = heap[next];
        at = next;
    }
    heap[at] = place;
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
            let mut recency = Recency::new(Geometry { sets, ways, function: SetFunction::LowBits }, true);
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
        let front_goes: Search = |recency, set, ways, _| recency.queue[set * ways].slot;
        assert!(!is_exact(front_goes), "the slot in front not asked whether it was used");
        let goes_to_the_end: Search = |recency, set, ways, truth| loop {
            let Place { time, slot } = recency.queue[set * ways];
            if truth[slot as usize] == time {
                return slot;
            }
            let queue = &mut recency.queue[set * ways..][..ways];
            queue.rotate_left(1);
            queue[ways - 1] = Place { time: truth[slot as usize], slot };
        };
        assert!(!is_exact(goes_to_the_end), "put back without regard to its time");
    }
}
