//! Slots of one large set, by the times at which they were used. The queue is late: the time of a place is one at which
//! its slot was used, perhaps not the last.
//!
//! Most slots wait in the order in which they were filled, so that a program that hardly uses what it fills finds the
//! oldest at once. A slot that turns out to have been used since goes to a heap.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

/// A slot in the queue. The order is that of time alone, for only slots that were never used share one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub time: u64,
    pub slot: u32,
}

impl Ord for Place {
    #[inline(always)]
    fn cmp(&self, other: &Place) -> Ordering {
        self.time.cmp(&other.time)
    }
}
impl PartialOrd for Place {
    #[inline(always)]
    fn partial_cmp(&self, other: &Place) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Place {
    fn eq(&self, other: &Place) -> bool {
        self.time == other.time
    }
}
impl Eq for Place {}

/// See the module.
pub(super) struct LateQueue {
    /// By time of the fill, ascending.
    filled: VecDeque<Place>,
    used: BinaryHeap<Reverse<Place>>,
}

impl LateQueue {
    /// These slots, not used so far.
    pub fn new(slots: impl ExactSizeIterator<Item = u32>) -> LateQueue {
        let used = BinaryHeap::with_capacity(slots.len());
        LateQueue { filled: slots.map(|slot| Place { time: 0, slot }).collect(), used }
    }

    /// The first place, and whether it is in the heap.
    #[inline(always)]
    fn first(&self) -> (Place, bool) {
        match (self.filled.front(), self.used.peek()) {
            (Some(&filled), Some(&Reverse(used))) if filled < used => (filled, false),
            (_, Some(&Reverse(used))) => (used, true),
            (Some(&filled), None) => (filled, false),
            (None, None) => unreachable!("slots stay in the queue"),
        }
    }

    /// The slot in front: no other has a place by an earlier time.
    #[inline(always)]
    pub fn front(&self) -> Place {
        self.first().0
    }

    /// The slot in front was used later, at this time.
    #[inline(always)]
    pub fn put_back(&mut self, time: u64) {
        let (Place { slot, .. }, in_heap) = self.first();
        let place = Reverse(Place { time, slot });
        if in_heap {
            *self.used.peek_mut().expect("the first place is in it") = place;
        } else {
            self.filled.pop_front();
            self.used.push(place);
        }
    }

    /// A slot was filled, now. Unless it is the one in front, its place stays late.
    #[inline(always)]
    pub fn filled(&mut self, slot: u32, now: u64) {
        let (first, in_heap) = self.first();
        if first.slot != slot {
            return;
        }
        if in_heap {
            self.used.pop();
        } else {
            self.filled.pop_front();
        }
        self.filled.push_back(Place { time: now, slot });
    }
}
