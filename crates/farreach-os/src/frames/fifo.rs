//! The frame allocator of T94-43 to T94-50 with the choices of AMB-22: ordinary requests take the head of a first-in
//! first-out list, region requests the lowest wholly free group.
//!
//! Logically one list of all free frames, at first in ascending order. A frame that was never allocated ("virgin") has
//! not moved: the list is always the virgin frames in ascending order, then the freed ones in the order in which they
//! came back. So it is enough to know which frames were ever touched (as intervals) and to chain the freed ones.

use super::contract::FrameAllocator;
use super::pinned::PhysicalMemory;
use super::queue::FrameQueue;
use farreach_types::addr::Pfn;
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// First-in first-out allocator with groups.
pub struct Fifo {
    memory: PhysicalMemory,
    /// Frames that were ever allocated, as maximal intervals: first frame to one past the last.
    touched: BTreeMap<u64, u64>,
    /// Touched frames that are free, in list order.
    freed: FrameQueue,
    /// No frame below is virgin.
    virgin: u64,
    /// One index per group size that was ever asked for.
    groups: Vec<Groups>,
    allocated: u64,
    steps: u64,
}

/// The aligned groups of one size.
struct Groups {
    order: u32,
    /// Allocated frames of each group; groups without any are absent.
    busy: HashMap<u64, u64>,
    /// Wholly free groups with at least one touched frame.
    reusable: BTreeSet<u64>,
    /// No group below is wholly virgin. Moves up only: virgin frames do not come back.
    virgin: u64,
}

impl Fifo {
    /// An allocator over `memory`, without an allocated frame.
    pub fn new(memory: PhysicalMemory) -> Fifo {
        Fifo {
            memory,
            touched: BTreeMap::new(),
            freed: FrameQueue::new(),
            virgin: 0,
            groups: Vec::new(),
            allocated: 0,
            steps: 0,
        }
    }

    /// The last interval of touched frames that begins before `end`.
    fn touched_before(&self, end: u64) -> Option<Range<u64>> {
        self.touched.range(..end).next_back().map(|(&s, &e)| s..e)
    }

    fn is_touched(&self, frame: u64) -> bool {
        self.touched_before(frame + 1).is_some_and(|t| frame < t.end)
    }

    /// The lowest virgin frame, the head of the list while there is one.
    fn first_virgin(&mut self) -> Option<u64> {
        while self.virgin < self.memory.end() {
            let open = self.memory.pinned().next_unpinned(self.virgin);
            match self.touched_before(open + 1) {
                Some(t) if open < t.end => self.virgin = t.end,
                _ => {
                    self.virgin = open;
                    return (open < self.memory.end()).then_some(open);
                }
            }
        }
        None
    }

    /// Joins virgin `frame` to the touched ones.
    fn touch(&mut self, frame: u64) {
        let end = self.touched.remove(&(frame + 1)).unwrap_or(frame + 1);
        match self.touched.range_mut(..frame).next_back() {
            Some((_, e)) if *e == frame => *e = end,
            _ => _ = self.touched.insert(frame, end),
        }
    }

    fn is_free(&self, frame: u64) -> bool {
        self.memory.is_open(frame..frame + 1) && (!self.is_touched(frame) || self.freed.contains(frame))
    }

    /// Allocates a free frame.
    fn mark_allocated(&mut self, frame: u64) {
        if !self.freed.remove(frame) {
            self.touch(frame);
        }
        self.allocated += 1;
        for g in &mut self.groups {
            let group = frame >> g.order;
            let busy = g.busy.entry(group).or_insert(0);
            if *busy == 0 {
                g.reusable.remove(&group);
            }
            *busy += 1;
        }
    }

    /// Position of the index of groups of `2^order` frames, which is made when it is first asked for.
    fn index_of(&mut self, order: u32) -> usize {
        if let Some(at) = self.groups.iter().position(|g| g.order == order) {
            return at;
        }
        let mut g = Groups { order, busy: HashMap::new(), reusable: BTreeSet::new(), virgin: 0 };
        for (&start, &end) in &self.touched {
            for frame in start..end {
                if self.freed.contains(frame) {
                    g.reusable.insert(frame >> order);
                } else {
                    *g.busy.entry(frame >> order).or_insert(0) += 1;
                }
            }
        }
        let whole =
            |group: u64| !g.busy.contains_key(&group) && self.memory.is_open(group << order..(group + 1) << order);
        g.reusable.retain(|&group| whole(group));
        self.groups.push(g);
        self.groups.len() - 1
    }

    /// The lowest wholly virgin group of the index at `at`.
    fn first_virgin_group(&mut self, at: usize) -> Option<u64> {
        let (order, mut group) = (self.groups[at].order, self.groups[at].virgin);
        let found = loop {
            let range = group << order..(group + 1) << order;
            if range.end > self.memory.end() {
                break None;
            }
            self.steps += 1;
            match self.touched_before(range.end) {
                // Every group up to the end of the interval has a touched frame.
                Some(t) if t.end > range.start => group = t.end.div_ceil(1 << order),
                _ if self.memory.pinned().any_in(range) => group += 1,
                _ => break Some(group),
            }
        };
        self.groups[at].virgin = group;
        found
    }
}

impl FrameAllocator for Fifo {
    fn alloc(&mut self) -> Option<Pfn> {
        let frame = self.first_virgin().or_else(|| self.freed.front())?;
        self.steps += 1;
        self.mark_allocated(frame);
        Some(Pfn(frame))
    }

    fn alloc_group(&mut self, order: u32, covered: &[u64]) -> Option<Pfn> {
        assert!(order < 60 && covered.iter().all(|&o| o < 1 << order), "frames {covered:?} of a group of 2^{order}");
        let at = self.index_of(order);
        let virgin = self.first_virgin_group(at);
        let reusable = self.groups[at].reusable.first().copied();
        self.steps += u64::from(reusable.is_some());
        // A group is in one of the two at most: a reusable one has a touched frame.
        let group = virgin.into_iter().chain(reusable).min()?;
        for &offset in covered {
            self.steps += 1;
            self.mark_allocated((group << order) + offset);
        }
        Some(Pfn(group << order))
    }

    fn take(&mut self, first: Pfn, frames: u64) -> bool {
        let free = (first.0..first.0 + frames).all(|frame| self.is_free(frame));
        if free {
            (first.0..first.0 + frames).for_each(|frame| self.mark_allocated(frame));
        }
        free
    }

    fn free_of(&self, word: u64) -> u64 {
        (0..64).filter(|at| self.is_free(64 * word + at)).fold(0, |bits, at| bits | 1 << at)
    }

    fn free(&mut self, pfn: Pfn) {
        let frame = pfn.0;
        assert!(self.is_touched(frame) && !self.freed.contains(frame), "frame {frame} is freed but not allocated");
        self.freed.push_back(frame);
        self.allocated -= 1;
        for g in &mut self.groups {
            let group = frame >> g.order;
            let Some(busy) = g.busy.get_mut(&group) else { unreachable!("an allocated frame is counted in its group") };
            *busy -= 1;
            if *busy == 0 {
                g.busy.remove(&group);
                if self.memory.is_open(group << g.order..(group + 1) << g.order) {
                    g.reusable.insert(group);
                }
            }
        }
    }

    fn memory(&self) -> &PhysicalMemory {
        &self.memory
    }

    fn allocated(&self) -> u64 {
        self.allocated
    }

    fn steps(&self) -> u64 {
        self.steps
    }
}
