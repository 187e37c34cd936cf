//! Compaction (F-14, RMM15-31): the pages in one aligned group of frames are copied elsewhere, so that it becomes one free block.

use super::Os;
use crate::addr::{Asid, Pfn, Vpn};
use crate::params::{Allowed, Key};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// When to compact.
pub const COMPACTION: Key = Key {
    name: "compaction",
    default: "none",
    allowed: Allowed::OneOf(&["none", "direct"]),
    about: "no free block: never copy pages together, or at once, until the block at hand is free (F-14)",
};

/// Attempts that failed make the next ones rarer, up to one in so many (as log2).
const DEFER: u32 = 6;

/// How often it failed lately.
#[derive(Default)]
pub(super) struct Backoff {
    failures: u32,
    skip: u64,
}

impl Os {
    /// Makes a free block of `2^order` frames by copying the pages out of the group that has fewest. False if that is not wanted, not
    /// possible, or failed lately.
    pub(super) fn compact(&mut self, order: u32) -> bool {
        if !self.compaction {
            return false;
        }
        if self.backoff.skip > 0 {
            self.backoff.skip -= 1;
            return false;
        }
        let done = self.evacuate(order);
        if done {
            self.backoff.failures = 0;
            self.memory.counts.compactions += 1;
        } else {
            self.backoff.failures = (self.backoff.failures + 1).min(DEFER);
            self.backoff.skip = (1 << self.backoff.failures) - 1;
            self.memory.counts.compactions_failed += 1;
        }
        done
    }

    /// Makes a free block for a request that found memory fragmented. False when that is not to be had, or not worth it any more.
    pub(super) fn gather_for(&mut self, pages: u64) -> bool {
        let Some(buddy) = self.memory.alloc.as_buddy() else { return false };
        let order = pages.clamp(1, buddy.max_block()).next_power_of_two().ilog2();
        let before = buddy.fragmentation_index(pages);
        self.compact(order) && self.fragmentation(pages).is_some_and(|now| now < before)
    }

    fn evacuate(&mut self, order: u32) -> bool {
        self.memory.settle();
        // Who maps what. A page that lies in several spaces, or has no mapping, stays where it is.
        let mut mapped: HashMap<Pfn, (Asid, Vpn), FixedState> = HashMap::default();
        let all = self.all_pages();
        for (i, space) in self.spaces.iter().enumerate() {
            for vpn in space.table.mapped_in(all) {
                let entry = space.table.get(vpn).expect("just listed");
                if self.memory.mappings(entry.pfn) == 1 && !entry.segment {
                    mapped.insert(entry.pfn, (Asid(i as u32), vpn));
                }
            }
        }
        let mut groups: HashMap<u64, (u64, bool), FixedState> = HashMap::default();
        for pfn in self.memory.busy_frames() {
            let group = groups.entry(pfn.0 >> order).or_insert((0, true));
            group.0 += 1;
            group.1 &= mapped.contains_key(&pfn);
        }
        let open = |g: u64| {
            let frames = g << order..(g + 1) << order;
            self.memory.alloc.is_open(frames.clone()) && !frames.map(Pfn).any(|pfn| self.memory.pool.owns(pfn))
        };
        // A full group is as good as a block already, and not worth copying.
        let candidates = groups.into_iter().filter(|&(g, (n, movable))| movable && n < 1 << order && open(g));
        let Some((_, group)) = candidates.map(|(g, (n, _))| (n, g)).min() else { return false };
        let frames = group << order..(group + 1) << order;
        let mut aside = Vec::new();
        let mut moved = true;
        for pfn in frames.clone().map(Pfn) {
            let Some(&(asid, vpn)) = mapped.get(&pfn) else { continue };
            let to = loop {
                match self.memory.alloc.alloc() {
                    Some(to) if frames.contains(&to.0) => aside.push(to),
                    to => break to,
                }
            };
            let Some(to) = to else {
                moved = false;
                break;
            };
            let region = self.region(asid, vpn);
            self.demote(asid, vpn);
            self.move_page(asid, vpn, to, &region);
            self.sync_ranges(asid);
        }
        aside.into_iter().for_each(|pfn| self.memory.alloc.free(pfn));
        self.memory.settle();
        moved
    }

    /// How far free memory is from a request of so many pages (AMB-84); `None` without a buddy allocator.
    pub fn fragmentation(&mut self, pages: u64) -> Option<f64> {
        Some(self.memory.alloc.as_buddy()?.fragmentation_index(pages))
    }
}
