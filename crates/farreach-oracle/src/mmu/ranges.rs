//! The range TLB: its entries, its search, and the range used last (OM-8).

use super::*;

#[derive(Clone, Copy)]
pub(super) struct Held {
    pub(super) asid: Asid,
    pub(super) range: Range,
    pub(super) last: u64,
}

impl Held {
    pub(super) fn has(&self, asid: Asid, vpn: Vpn) -> bool {
        self.asid == asid && self.range.first <= vpn && vpn.0 < self.range.first.0 + self.range.pages
    }
    pub(super) fn meets(&self, asid: Asid, first: u64, pages: u64) -> bool {
        let r = self.range;
        self.asid == asid && r.first.0 < first + pages && first < r.first.0 + r.pages
    }
    pub(super) fn says(&self, vpn: Vpn) -> Translation {
        Translation { pfn: Pfn(self.range.pfn.0 + vpn.0 - self.range.first.0), attr: self.range.attr }
    }
}

impl PlainMmu {
    pub(super) fn search_ranges(&mut self, at: Lookup, mru: bool) -> Option<Translation> {
        self.now += 1;
        let now = self.now;
        let held = &mut self.ranges.as_mut()?.slots;
        let hit = (0..held.len()).find(|&i| held[i].is_some_and(|h| h.has(at.asid, at.vpn)));
        let c = &mut self.counts.range;
        if mru && hit.is_some() && hit == self.newest {
            c.mru_hits += 1
        } else {
            c.full_searches += 1
        }
        let Some(i) = hit else {
            c.misses += 1;
            return None;
        };
        c.hits += 1;
        self.newest = hit;
        let held = held[i].as_mut()?;
        held.last = now;
        Some(held.says(at.vpn))
    }

    pub(super) fn drop_ranges(&mut self, goes: impl Fn(&Held) -> bool) -> u64 {
        let Some(ranges) = &mut self.ranges else { return 0 };
        let gone = ranges.drop_if(goes).len() as u64;
        if self.newest.is_some_and(|i| ranges.slots[i].is_none()) {
            self.newest = None;
        }
        gone
    }
}
