//! Frames set aside when the system starts (DS13-13, hugetlb): taken from the allocator once, assigned by place or by
//! size, and returned to the pool.

use farreach_types::addr::Pfn;
use std::collections::BTreeMap;

/// Runs of frames (or of pages): first one and number. Adjacent runs are one.
#[derive(Debug, Default)]
pub struct Runs(BTreeMap<u64, u64>);

impl Runs {
    /// The run a frame lies in.
    fn find(&self, frame: u64) -> Option<(u64, u64)> {
        let (&first, &n) = self.0.range(..=frame).next_back()?;
        (frame - first < n).then_some((first, n))
    }

    /// Whether all of these are in the set.
    pub fn has(&self, first: u64, n: u64) -> bool {
        n == 0 || self.find(first).is_some_and(|(start, len)| first + n <= start + len)
    }

    /// All runs, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        self.0.iter().map(|(&first, &n)| (first, n))
    }

    /// Adds numbers that are not in the set.
    pub fn insert(&mut self, mut first: u64, mut n: u64) {
        if let Some((&start, &len)) = self.0.range(..first).next_back()
            && start + len == first
        {
            (first, n) = (start, len + n);
        }
        if let Some(next) = self.0.remove(&(first + n)) {
            n += next;
        }
        self.0.insert(first, n);
    }

    /// Removes numbers that are in the set.
    pub fn remove(&mut self, first: u64, n: u64) {
        let (start, len) = self.find(first).expect("the frames are in a run");
        debug_assert!(first + n <= start + len);
        self.0.remove(&start);
        if start < first {
            self.0.insert(start, first - start);
        }
        if first + n < start + len {
            self.0.insert(first + n, start + len - first - n);
        }
    }
}

/// The pool. Parts of it may be claimed (by segments): a claim keeps others from claiming or taking any frame in it;
/// its frames are free until they are taken one by one.
#[derive(Debug, Default)]
pub struct Pool {
    owned: Runs,
    free: Runs,
    free_frames: u64,
    foreign: u64,
    claims: BTreeMap<u64, u64>,
    claimed: u64,
}

impl Pool {
    /// Adds frames.
    pub fn add(&mut self, first: Pfn, n: u64) {
        self.owned.insert(first.0, n);
        self.free.insert(first.0, n);
        self.free_frames += n;
    }

    /// Adds frames that the allocator does not know.
    pub fn add_foreign(&mut self, first: Pfn, n: u64) {
        self.add(first, n);
        self.foreign += n;
    }

    /// The number of such frames.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    /// Removes a free frame from the pool.
    pub fn remove(&mut self, pfn: Pfn) {
        let free = self.take(pfn);
        debug_assert!(free && self.unclaimed(pfn.0));
        self.owned.remove(pfn.0, 1);
    }

    /// Whether a frame is one of the pool's.
    pub fn owns(&self, pfn: Pfn) -> bool {
        self.owned.find(pfn.0).is_some()
    }

    /// Whether the first of these frames belongs to the pool, and how many frames from it on give the same answer.
    pub fn part(&self, first: u64, frames: u64) -> (bool, u64) {
        let here = self.owned.find(first).map(|(start, n)| start + n - first);
        let next = || self.owned.0.range(first..).next().map_or(u64::MAX, |(start, _)| start - first);
        (here.is_some(), here.unwrap_or_else(next).min(frames))
    }

    /// Free frames, claimed ones included.
    pub fn free_frames(&self) -> u64 {
        self.free_frames
    }

    /// All its frames.
    pub fn frames(&self) -> u64 {
        self.owned.0.values().sum()
    }

    /// Frames in claims, free or taken.
    pub fn claimed(&self) -> u64 {
        self.claimed
    }

    /// Whether all of these frames are free.
    pub fn has_free(&self, first: Pfn, n: u64) -> bool {
        self.free.has(first.0, n)
    }

    /// Takes one frame; false if it is not free.
    pub fn take(&mut self, pfn: Pfn) -> bool {
        self.take_run(pfn, 1)
    }

    /// Takes consecutive frames. False, and nothing is taken, unless all are free.
    pub fn take_run(&mut self, first: Pfn, n: u64) -> bool {
        let free = self.free.has(first.0, n);
        if free {
            self.free.remove(first.0, n);
            self.free_frames -= n;
        }
        free
    }

    /// Takes the lowest free aligned block of `2^order` frames outside claims.
    pub fn take_block(&mut self, order: u32) -> Option<Pfn> {
        let size = 1u64 << order;
        let base = self.pieces(None).find_map(|(first, n)| {
            let base = first.next_multiple_of(size);
            (base + size <= first + n).then_some(base)
        })?;
        self.free.remove(base, size);
        self.free_frames -= size;
        Some(Pfn(base))
    }

    /// Returns frames to the pool.
    pub fn give(&mut self, first: Pfn, n: u64) {
        debug_assert!(self.owned.has(first.0, n) && !self.free.has(first.0, 1));
        self.free.insert(first.0, n);
        self.free_frames += n;
    }

    /// Maximal runs of free frames outside claims, ascending (SEG-4). `besides`: the claim that begins there counts as
    /// ended.
    pub fn pieces(&self, besides: Option<Pfn>) -> impl Iterator<Item = (u64, u64)> {
        let stands = move |claim: &(&u64, &u64)| besides != Some(Pfn(*claim.0));
        self.free.0.iter().flat_map(move |(&first, &n)| {
            // Claims may cut a free run in several.
            let before = self.claims.range(..first).rfind(stands);
            let inside = self.claims.range(first..first + n).filter(stands);
            let mut parts = Vec::new();
            let mut at = first;
            for (&claim, &len) in before.into_iter().chain(inside) {
                if claim > at {
                    parts.push((at, claim - at));
                }
                at = at.max(claim + len);
            }
            if at < first + n {
                parts.push((at, first + n - at));
            }
            parts
        })
    }

    /// From a frame on, the frames of its piece.
    pub fn open_from(&self, frame: u64) -> u64 {
        let Some((first, n)) = self.free.find(frame).filter(|_| self.unclaimed(frame)) else { return 0 };
        let claim = self.claims.range(frame..).next().map_or(u64::MAX, |(&claim, _)| claim);
        claim.min(first + n) - frame
    }

    /// Below a frame, the frames of the piece that ends there.
    pub fn open_before(&self, frame: u64) -> u64 {
        let Some(last) = frame.checked_sub(1).filter(|&last| self.unclaimed(last)) else { return 0 };
        let Some((first, _)) = self.free.find(last) else { return 0 };
        let claim = self.claims.range(..=last).next_back().map_or(0, |(claim, n)| claim + n);
        frame - claim.max(first)
    }

    /// Whether a frame of the pool lies in no claim.
    pub fn unclaimed(&self, frame: u64) -> bool {
        self.owned.find(frame).is_some()
            && self.claims.range(..=frame).next_back().is_none_or(|(&first, &n)| frame - first >= n)
    }

    /// Whether a frame is free.
    pub fn is_free(&self, frame: u64) -> bool {
        self.free.has(frame, 1)
    }

    /// Claims frames. None of them may be claimed already.
    pub fn claim(&mut self, first: Pfn, n: u64) {
        debug_assert!(self.claims.range(..first.0 + n).next_back().is_none_or(|(&other, &len)| other + len <= first.0));
        self.claims.insert(first.0, n);
        self.claimed += n;
    }

    /// Ends the claim that begins with this frame.
    pub fn release(&mut self, first: Pfn) {
        self.claimed -= self.claims.remove(&first.0).expect("it was claimed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Against a set of numbers. No run is empty, and none ends where the next one begins.
        #[test]
        fn runs_are_those_of_a_set(steps in prop::collection::vec((0..64u64, 1..20u64), 1..200)) {
            let (mut runs, mut set) = (Runs::default(), BTreeSet::new());
            for (first, n) in steps {
                let numbers = first..first + n;
                if numbers.clone().all(|number| !set.contains(&number)) {
                    runs.insert(first, n);
                    set.extend(numbers);
                } else if runs.has(first, n) {
                    runs.remove(first, n);
                    prop_assert!(numbers.clone().all(|number| set.remove(&number)));
                }
                let held: Vec<u64> = set.iter().copied().collect();
                let apart: Vec<_> = held.chunk_by(|a, b| a + 1 == *b).map(|run| (run[0], run.len() as u64)).collect();
                prop_assert_eq!(runs.iter().collect::<Vec<_>>(), apart);
            }
        }
    }

    #[test]
    fn frames_go_and_come_back() {
        let mut pool = Pool::default();
        pool.add(Pfn(16), 16);
        pool.add(Pfn(32), 16);
        pool.add(Pfn(100), 3);
        assert_eq!((pool.free_frames(), pool.take_block(5), pool.take_block(5)), (35, None, None), "no aligned 32");
        assert_eq!(
            (pool.take_block(4), pool.take_block(4), pool.take_block(1)),
            (Some(Pfn(16)), Some(Pfn(32)), Some(Pfn(100)))
        );
        assert!(
            pool.take(Pfn(102))
                && !pool.take(Pfn(102))
                && !pool.take(Pfn(5))
                && pool.owns(Pfn(102))
                && !pool.owns(Pfn(103))
        );
        (16..48).rev().for_each(|f| pool.give(Pfn(f), 1));
        assert_eq!(pool.pieces(None).collect::<Vec<_>>(), [(16, 32)]);
        pool.claim(Pfn(20), 4);
        pool.claim(Pfn(30), 2);
        assert_eq!(pool.pieces(None).collect::<Vec<_>>(), [(16, 4), (24, 6), (32, 16)]);
        assert!(pool.take(Pfn(22)), "frames of a claim are taken one by one");
        assert_eq!(pool.pieces(None).collect::<Vec<_>>(), [(16, 4), (24, 6), (32, 16)]);
        assert_eq!((pool.claimed(), pool.unclaimed(23), pool.unclaimed(24)), (6, false, true));
        assert_eq!(pool.pieces(Some(Pfn(20))).collect::<Vec<_>>(), [(16, 6), (23, 7), (32, 16)], "without the first");
        assert_eq!([15, 16, 19, 20, 24, 29, 47, 48].map(|f| pool.open_from(f)), [0, 4, 1, 0, 6, 1, 1, 0]);
        assert_eq!(
            [16, 17, 20, 21, 24, 25, 30, 32, 33, 48].map(|f| pool.open_before(f)),
            [0, 1, 4, 0, 0, 1, 6, 0, 1, 16]
        );
        pool.release(Pfn(20));
        assert_eq!(pool.pieces(None).collect::<Vec<_>>(), [(16, 6), (23, 7), (32, 16)]);
    }
}
