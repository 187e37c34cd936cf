//! Runs that grow beside the second level, and the superpages among them (OM-13).

use super::*;

/// OM-13: pages of a run with their frames; or a superpage.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) asid: Asid,
    pub(super) pages: std::collections::BTreeMap<u64, u64>,
    pub(super) superpage: Option<(u64, u64, u8)>,
    attr: Attr,
    begun: u64,
    last: u64,
}

impl Row {
    pub(super) fn says(&self, vpn: Vpn) -> Option<(Translation, u8)> {
        let (pfn, order) = match self.superpage {
            Some((first, pfn, order)) => ((vpn.0 >> order == first >> order).then(|| pfn + vpn.0 - first)?, order),
            None => (*self.pages.get(&vpn.0)?, 0),
        };
        Some((Translation { pfn: Pfn(pfn), attr: self.attr }, order))
    }
    pub(super) fn meets(&self, asid: Asid, pages: VpnRange) -> bool {
        let superpage = self.superpage.is_some_and(|(first, _, order)| {
            first < pages.start.0 + pages.pages && pages.start.0 < first + (1 << order)
        });
        self.asid == asid && (superpage || self.pages.keys().any(|&v| pages.contains(Vpn(v))))
    }
}

impl PlainMmu {
    pub(super) fn search_rows(&mut self, at: Lookup) -> Option<(Translation, u8)> {
        self.now += 1;
        let has = |r: &Row| r.asid == at.asid && r.says(at.vpn).is_some();
        let i = self.rows.iter().position(|r| r.as_ref().is_some_and(has))?;
        self.renew_row(i);
        let row = self.rows[i].as_mut()?;
        row.last = self.now;
        row.says(at.vpn)
    }

    fn renew_row(&mut self, i: usize) {
        if let Some(tree) = &mut self.row_tree {
            tree.touch(i);
        }
    }

    /// Whether it was taken.
    pub(super) fn fill_rows(&mut self, at: Lookup, page: Translation, order: u8, table: &dyn PageTableView) -> bool {
        let Behind::Runs { limit, .. } = self.config.behind else { unreachable!() };
        self.now += 1;
        let now = self.now;
        let mut row =
            Row { asid: at.asid, pages: Default::default(), superpage: None, attr: page.attr, begun: now, last: now };
        if self.config.leaf(order) > 0 {
            let inside = at.vpn.0 % (1 << order);
            row.superpage = Some((at.vpn.0 - inside, page.pfn.0 - inside, order));
            let covers = VpnRange { start: Vpn(at.vpn.0 - inside), pages: 1 << order };
            for slot in &mut self.rows {
                if slot.as_ref().is_some_and(|r| r.meets(at.asid, covers)) {
                    *slot = None;
                    self.counts.covered_drops += 1;
                }
            }
        } else {
            let fits = |v: u64| {
                let pte =
                    table.pte(at.asid, Vpn(v)).filter(|p| p.pfn.0 + at.vpn.0 == page.pfn.0 + v && p.attr == page.attr);
                let had = self.rows.iter().flatten().any(|r| r.asid == at.asid && r.says(Vpn(v)).is_some());
                pte.filter(|_| !had).map(|p| p.pfn.0)
            };
            let line = at.vpn.0 / 8 * 8..at.vpn.0 / 8 * 8 + 8;
            for v in line {
                if (v.min(at.vpn.0)..=v.max(at.vpn.0)).all(|w| fits(w).is_some()) {
                    row.pages.insert(v, fits(v).unwrap());
                }
            }
            let fresh = row.pages.len() as u64;
            let joins = |low: &Row, high: &Row| {
                let (end, begin) = (low.pages.last_key_value(), high.pages.first_key_value());
                let next = end.zip(begin).is_some_and(|((v, p), (w, q))| (v + 1, p + 1) == (*w, *q));
                next && low.asid == high.asid
                    && low.attr == high.attr
                    && (low.pages.len() + high.pages.len()) as u64 <= limit
            };
            let low = (0..self.rows.len()).find(|&i| self.rows[i].as_ref().is_some_and(|r| joins(r, &row)));
            if let Some(i) = low {
                let old = self.rows[i].as_ref().unwrap();
                row.begun = old.begun;
                row.pages.extend(&old.pages);
            }
            let high = (0..self.rows.len()).find(|&i| self.rows[i].as_ref().is_some_and(|r| joins(&row, r)));
            if let Some(i) = high {
                let old = self.rows[i].take().unwrap();
                if low.is_none() {
                    row.begun = old.begun;
                }
                row.pages.extend(&old.pages);
            }
            if row.pages.len() == 1 {
                return false;
            }
            self.counts.preloaded += fresh - 1;
            if let Some(i) = low.or(high) {
                self.counts.merges += 1;
                self.rows[i] = Some(row);
                self.renew_row(i);
                return true;
            }
        }
        let free = self.rows.iter().position(Option::is_none);
        let n = self.rows.len();
        let slot = free.unwrap_or_else(|| {
            self.counts.evictions += 1;
            let rows = &self.rows;
            match self.config.replacement {
                Replacement::Lru => (0..n).min_by_key(|&i| rows[i].as_ref().unwrap().last).unwrap(),
                Replacement::TreePlru => self.row_tree.as_ref().unwrap().victim(),
                Replacement::Fifo => (0..n).min_by_key(|&i| rows[i].as_ref().unwrap().begun).unwrap(),
                _ => ((u64::from(self.row_rng.next_u32()) * n as u64) >> 32) as usize,
            }
        });
        self.rows[slot] = Some(row);
        self.renew_row(slot);
        true
    }

    pub(super) fn drop_rows(&mut self, goes: impl Fn(&Row) -> bool) {
        for slot in &mut self.rows {
            if let Some(row) = slot.as_ref().filter(|r| goes(r)) {
                self.counts.invalidations += row.superpage.map_or(row.pages.len() as u64, |_| 1);
                *slot = None;
            }
        }
    }
}
