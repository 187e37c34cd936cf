//! An LRU stack that gives the misses of a true-LRU TLB of every number of entries at once (PS-3).
//!
//! A TLB of `n` entries holds the pages at the first `n` positions of the stack, so a lookup that finds its page at
//! position `d` is a hit for `n >= d` and a miss for all smaller ones. So lookups are counted by `d`, their *distance*.
//!
//! A page that the operating system unmaps leaves a *hole* at its position: a free entry in every TLB that had the
//! page. A miss fills a free entry before it evicts. So a page that moves to the front pushes down only the pages above
//! the first hole, and fills that hole. If its old position was below the hole, that position becomes a hole. Positions
//! that were never filled are holes as well. So the counts are exact for every number of entries, even with
//! invalidations.
//!
//! Most lookups find their page near the front, so the first [`TOP`] positions are a plain array. The rest is a
//! sequence of slots in the order of time, newest last, with a bit for each position in use and a Fenwick tree over the
//! words of bits: a position is a count of bits. When the slots are used up, those in use are moved together.

use std::collections::BinaryHeap;

/// Positions kept as an array.
const TOP: usize = 16;
/// A position without a page; no page has this id.
const HOLE: u32 = u32::MAX;
/// Returned if the page is not below the top.
const NOWHERE: u32 = u32::MAX;
/// Fewest slots below the top.
const MIN_SLOTS: usize = 1 << 12;

/// Lookups by distance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Distances {
    /// Lookups of pages that were not in the stack: never seen, or unmapped since.
    pub cold: u64,
    /// `at[d - 1]` lookups found their page at position `d`. Those at position 1 are not counted, because they never
    /// miss.
    pub at: Vec<u64>,
}

impl Distances {
    /// Misses of a TLB with this many entries, at least one.
    pub fn misses(&self, entries: u64) -> u64 {
        let from = usize::try_from(entries).unwrap_or(usize::MAX).min(self.at.len());
        self.cold + self.at[from..].iter().sum::<u64>()
    }

    /// Takes away what was counted earlier.
    pub fn subtract(&mut self, earlier: &Distances) {
        self.cold -= earlier.cold;
        self.at.iter_mut().zip(&earlier.at).for_each(|(n, before)| *n -= before);
    }
}

/// See the module. Pages are known by ids, small numbers that the caller gives out densely.
pub(super) struct Stack {
    top: [u32; TOP],
    /// Holes among them.
    holes: u32,
    below: Below,
    shallow: [u64; TOP],
    deep: Vec<u64>,
    cold: u64,
}

impl Stack {
    pub fn new() -> Stack {
        Stack { top: [HOLE; TOP], holes: TOP as u32, below: Below::new(), shallow: [0; TOP], deep: Vec::new(), cold: 0 }
    }

    /// One lookup. False: the page is at the front, nothing was counted and nothing changed.
    #[inline]
    pub fn lookup(&mut self, id: u32) -> bool {
        if self.top[0] == id {
            return false;
        }
        if self.top[1] == id {
            // There is no hole above this position.
            if self.top[0] != HOLE {
                self.top.swap(0, 1);
                self.shallow[1] += 1;
                return true;
            }
        }
        match self.holes {
            0 => self.lookup_full(id),
            _ => self.lookup_with_holes(id),
        }
        true
    }

    /// The top has no hole: one page comes to the front, those above its place move down.
    #[inline]
    fn lookup_full(&mut self, id: u32) {
        let mut carried = id;
        for (place, slot) in self.top.iter_mut().enumerate() {
            std::mem::swap(slot, &mut carried);
            if carried == id {
                self.shallow[place] += 1;
                return;
            }
        }
        let distance = self.below.exchange(id, carried);
        self.count_below(distance);
    }

    #[cold]
    fn lookup_with_holes(&mut self, id: u32) {
        let hole = self.top.iter().position(|&page| page == HOLE).expect("there are holes");
        match self.top.iter().position(|&page| page == id) {
            Some(place) => {
                self.shallow[place] += 1;
                if hole < place {
                    self.top[place] = HOLE;
                }
                self.top.copy_within(0..hole.min(place), 1);
            }
            None => {
                let distance = self.below.leave(id);
                self.count_below(distance);
                self.top.copy_within(0..hole, 1);
                self.holes -= 1;
            }
        }
        self.top[0] = id;
    }

    fn count_below(&mut self, distance: Option<usize>) {
        match distance {
            None => self.cold += 1,
            Some(place) => {
                if self.deep.len() <= place {
                    self.deep.resize(place + 1, 0);
                }
                self.deep[place] += 1;
            }
        }
    }

    /// The operating system took the page away. Pages that are not here may be named.
    pub fn release(&mut self, id: u32) {
        match self.top.iter().position(|&page| page == id) {
            Some(place) => {
                self.top[place] = HOLE;
                self.holes += 1;
            }
            None => drop(self.below.leave(id)),
        }
    }

    /// The counters so far.
    pub fn distances(&self) -> Distances {
        Distances { cold: self.cold, at: self.shallow.iter().chain(&self.deep).copied().collect() }
    }
}

/// The positions behind the top.
struct Below {
    /// By id: its slot.
    slot_of: Vec<u32>,
    /// By slot: its page, or a hole. Meaningless where the bit is not set.
    page_at: Vec<u32>,
    /// Slots in use.
    bits: Vec<u64>,
    /// Fenwick tree over the numbers of bits in the words.
    sums: Vec<u32>,
    /// The next slot to use.
    next: usize,
    /// Bits that are set.
    used: u32,
    /// Slots of holes; the newest is nearest to the front.
    holes: BinaryHeap<u32>,
}

impl Below {
    fn new() -> Below {
        let mut below = Below {
            slot_of: Vec::new(),
            page_at: Vec::new(),
            bits: Vec::new(),
            sums: Vec::new(),
            next: 0,
            used: 0,
            holes: BinaryHeap::new(),
        };
        below.grow(MIN_SLOTS);
        below
    }

    /// Removes the page and inserts `fallen`, the page that leaves the top because the pages there move down. Returns
    /// the place below the top where the page was, from 0.
    fn exchange(&mut self, id: u32, fallen: u32) -> Option<usize> {
        let place = match self.slot(id) {
            Some(slot) => {
                let place = self.used - self.rank(slot);
                match self.holes.peek() {
                    Some(&hole) if hole > slot => {
                        self.holes.pop();
                        self.clear(hole);
                        self.make_hole(id, slot);
                    }
                    _ => {
                        self.clear(slot);
                        self.slot_of[id as usize] = NOWHERE;
                    }
                }
                Some(place as usize)
            }
            None => {
                if let Some(hole) = self.holes.pop() {
                    self.clear(hole);
                }
                None
            }
        };
        self.push(fallen);
        place
    }

    /// Makes the page's place a hole, and returns which place below the top it was, from 0.
    fn leave(&mut self, id: u32) -> Option<usize> {
        let slot = self.slot(id)?;
        let place = self.used - self.rank(slot);
        self.make_hole(id, slot);
        Some(place as usize)
    }

    fn make_hole(&mut self, id: u32, slot: u32) {
        self.page_at[slot as usize] = HOLE;
        self.slot_of[id as usize] = NOWHERE;
        self.holes.push(slot);
    }

    fn slot(&self, id: u32) -> Option<u32> {
        self.slot_of.get(id as usize).copied().filter(|&slot| slot != NOWHERE)
    }

    /// A new position in front of all others here, of a page or a hole.
    fn push(&mut self, id: u32) {
        if self.next == self.page_at.len() {
            self.compact();
        }
        let slot = self.next;
        self.next += 1;
        if id == HOLE {
            self.holes.push(slot as u32);
        } else {
            if self.slot_of.len() <= id as usize {
                self.slot_of.resize(id as usize + 1, NOWHERE);
            }
            self.slot_of[id as usize] = slot as u32;
        }
        self.page_at[slot] = id;
        self.bits[slot / 64] |= 1 << (slot % 64);
        self.used += 1;
        let mut word = slot / 64 + 1;
        while word < self.sums.len() {
            self.sums[word] += 1;
            word += word & word.wrapping_neg();
        }
    }

    fn clear(&mut self, slot: u32) {
        let slot = slot as usize;
        self.bits[slot / 64] &= !(1 << (slot % 64));
        self.used -= 1;
        let mut word = slot / 64 + 1;
        while word < self.sums.len() {
            self.sums[word] -= 1;
            word += word & word.wrapping_neg();
        }
    }

    /// Positions in use up to and with this slot, from the oldest.
    fn rank(&self, slot: u32) -> u32 {
        let slot = slot as usize;
        let mut rank = (self.bits[slot / 64] & (u64::MAX >> (63 - slot % 64))).count_ones();
        let mut word = slot / 64;
        while word > 0 {
            rank += self.sums[word];
            word &= word - 1;
        }
        rank
    }

    /// Moves the slots in use together, with room for three times as many.
    fn compact(&mut self) {
        let mut kept: Vec<u32> = Vec::with_capacity(self.used as usize);
        for (word, &bits) in self.bits.iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                kept.push(self.page_at[word * 64 + bits.trailing_zeros() as usize]);
                bits &= bits - 1;
            }
        }
        self.holes.clear();
        self.bits.clear();
        self.sums.clear();
        (self.next, self.used) = (0, 0);
        self.grow((4 * kept.len()).next_multiple_of(64).max(MIN_SLOTS));
        for id in kept {
            self.push(id);
        }
    }

    fn grow(&mut self, slots: usize) {
        self.page_at.resize(slots, HOLE);
        self.bits.resize(slots / 64, 0);
        self.sums.resize(slots / 64 + 1, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    /// TLBs of these numbers of entries, each a list, the least recent first.
    const ENTRIES: [usize; 9] = [1, 2, 15, 16, 17, 100, 1000, 2500, 6000];

    /// Many more lookups than slots, so that slots are often moved together, holes included.
    #[test]
    fn every_number_of_entries_is_a_list_of_its_own() {
        for (pages, releases) in [(40, 50), (3000, 0), (3000, 1000), (9000, 20)] {
            let mut rng = Pcg64Mcg::seed_from_u64(7);
            let mut stack = Stack::new();
            let mut lists: Vec<(Vec<u32>, u64)> = vec![(Vec::new(), 0); ENTRIES.len()];
            for _ in 0..30_000 {
                let near = rng.random_range(1..=pages);
                let id = rng.random_range(0..near);
                if rng.random_range(0..2000) < releases {
                    stack.release(id);
                    lists.iter_mut().for_each(|(list, _)| list.retain(|page| *page != id));
                    continue;
                }
                stack.lookup(id);
                for ((list, misses), entries) in lists.iter_mut().zip(ENTRIES) {
                    match list.iter().rposition(|page| *page == id) {
                        Some(at) => drop(list.remove(at)),
                        None => {
                            *misses += 1;
                            if list.len() == entries {
                                list.remove(0);
                            }
                        }
                    }
                    list.push(id);
                }
            }
            let distances = stack.distances();
            let misses = ENTRIES.map(|n| distances.misses(n as u64));
            assert_eq!(
                misses.to_vec(),
                lists.iter().map(|l| l.1).collect::<Vec<_>>(),
                "{pages} pages, {releases} releases"
            );
            assert!(stack.below.page_at.len() < 1 << 16, "slots are reused");
        }
    }

    #[test]
    fn a_hole_is_filled_before_anything_is_evicted() {
        let mut stack = Stack::new();
        for id in [0, 1, 2] {
            stack.lookup(id);
        }
        // From the front: 2, a hole, 0. Page 3 fills the hole, so page 0 stays at position 3.
        stack.release(1);
        stack.lookup(3);
        assert_eq!(stack.top[..4], [3, 2, 0, HOLE]);
        // From behind the hole: the hole moves to where the page was.
        stack.release(2);
        stack.lookup(0);
        assert_eq!(stack.top[..4], [0, 3, HOLE, HOLE]);
        assert_eq!((stack.distances().cold, &stack.distances().at[..4]), (4, &[0, 0, 1, 0][..]));
        // A lookup of the front page changes nothing, unless the page was unmapped.
        assert!(!stack.lookup(0));
        stack.release(0);
        assert!(stack.lookup(0));
        assert_eq!(stack.distances().cold, 5);
    }
}
