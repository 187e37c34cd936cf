//! The structures behind the first level: which of them a miss there looks up, and which of them a walk fills (OM-2,
//! OM-5, OM-8 to OM-10).

use super::*;

impl PlainMmu {
    pub(super) fn second(&mut self, kind: Kind) -> Option<&mut Level> {
        if kind == Kind::Fetch && self.config.l2i.is_some() { self.l2i.as_mut() } else { self.l2.as_mut() }
    }

    fn count_hit(&mut self, kind: Kind) {
        match kind {
            Kind::Fetch => self.counts.second_level_fetch_hits += 1,
            _ => self.counts.second_level_data_hits += 1,
        }
    }

    fn fill_second(&mut self, at: Lookup, page: Translation, order: u8) {
        let (fracture, now) = (self.config.fracture, self.now);
        let Some(sizes) = self.second(at.kind).map(|level| level.sizes()) else { return };
        let fits = sizes.into_iter().filter(|&o| o <= order).max();
        let Some(fit) = fits.filter(|&o| fracture || self.config.leaf(o) == self.config.leaf(order)) else { return };
        let Some(level) = self.second(at.kind) else { return };
        let (covered, evicted) = level.fill(at, page, fit, now);
        self.counts.covered_drops += covered;
        self.counts.evictions += evicted;
    }

    pub(super) fn behind(&mut self, at: Lookup, pte: Pte) -> Option<(Translation, u8)> {
        let now = self.now;
        if let Some(clusters) = &mut self.clusters {
            let n = self.cluster.0;
            let offset = (at.vpn.0 % n) as usize;
            let has = |c: &Cluster| c.asid == at.asid && c.number == at.vpn.0 / n && c.pages[offset].is_some();
            let hit = clusters.use_one(has)?;
            hit.last = now;
            let found = Translation { pfn: Pfn(hit.pages[offset]?), attr: hit.attr };
            self.count_hit(at.kind);
            return Some((found, 0));
        }
        if let Behind::Ranges { on, control: true, .. } = &mut self.config.behind {
            let [misses, saved, met] = self.window;
            if misses == 4096 {
                let now_on = met >= 256 || *on && saved >= 16;
                self.counts.range.switches += u64::from(now_on != *on);
                *on = now_on;
                self.window = [0; 3];
            }
            self.window[0] += 1;
        }
        let pc = self.pc;
        if let Some(level) = self.second(at.kind) {
            level.looked_up(at.kind == Kind::Fetch, pc);
        }
        let hit = self.second(at.kind).and_then(|level| level.entry(at.asid, at.vpn)).map(|e| {
            e.last = now;
            (e.says(at.vpn), e.order)
        });
        if hit.is_some() {
            self.count_hit(at.kind);
        }
        if let Behind::Runs { first: false, .. } = self.config.behind {
            let row = self.search_rows(at);
            if hit.is_none() && row.is_some() {
                self.count_hit(at.kind);
            }
            return hit.or(row);
        }
        let Behind::Ranges { order, mru, on: true, .. } = self.config.behind else { return hit };
        let asked = match order {
            RangeOrder::Parallel => true,
            RangeOrder::Serial => hit.is_none(),
            RangeOrder::First => false,
        };
        let range = if asked { self.search_ranges(at, mru) } else { None };
        if hit.is_some() {
            return hit;
        }
        let found = range?;
        self.counts.range.sole_hits += 1;
        self.window[1] += 1;
        if order == RangeOrder::Serial {
            self.fill_second(at, found, pte.order);
        }
        Some((found, 0))
    }

    pub(super) fn fill_behind(&mut self, at: Lookup, page: Translation, order: u8, table: &dyn PageTableView) {
        if self.clusters.is_some() {
            if self.config.leaf(order) == 0 {
                self.fill_cluster(at, page, table);
            }
            return;
        }
        if let Behind::Runs { fills_l2, .. } = self.config.behind {
            if !self.fill_rows(at, page, order, table) || fills_l2 {
                self.fill_second(at, page, order);
            }
            return;
        }
        let bit = table.ranges().range(at.asid, at.vpn).is_some();
        self.window[2] += u64::from(bit);
        let Behind::Ranges { on: true, hint, cooperation, .. } = self.config.behind else {
            return self.fill_second(at, page, order);
        };
        if !(cooperation && bit) {
            self.fill_second(at, page, order);
        }
        let counter = match hint {
            Hint::Predictor(n) => (at.vpn.0 / 512) as usize % n,
            _ => 0,
        };
        let search = match hint {
            Hint::Bit => bit,
            Hint::Always => true,
            Hint::Predictor(_) => self.waits[counter] == 0,
        };
        if !search {
            self.counts.range.missed_ranges += u64::from(bit);
            self.waits[counter] -= u8::from(hint != Hint::Bit);
            return;
        }
        if matches!(hint, Hint::Predictor(_)) {
            self.waits[counter] = if bit { 0 } else { 15 };
        }
        let walk = table.ranges().walk(at.asid, at.vpn);
        self.counts.range.walks += 1;
        self.counts.range.nodes += u64::from(walk.nodes);
        let Some(range) = walk.found else {
            self.counts.range.wasted_walks += 1;
            return;
        };
        self.drop_ranges(|h| h.meets(at.asid, range.first.0, range.pages));
        self.now += 1;
        let ranges = self.ranges.as_mut().unwrap();
        let (slot, taken) = ranges.victim(0, |h| (0, h.last));
        self.counts.range.evictions += u64::from(taken);
        ranges.slots[slot] = Some(Held { asid: at.asid, range, last: self.now });
        self.newest = Some(slot);
    }
}
