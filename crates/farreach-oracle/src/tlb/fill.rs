//! Misses: the entries written and preloaded.

use super::*;

impl PlainTlb {
    /// Writes a new entry into the set it belongs to; `None` if a preload must end.
    pub(super) fn place(
        &mut self,
        asid: Asid,
        v: Vpn,
        order: u8,
        whole: bool,
        subs: Vec<Option<Sub>>,
        sb: Option<bool>,
    ) -> Option<usize> {
        let set = self.set_of(asid, v, order);
        let was_used = self.wrong(Mutation::UsedKeptByVictim)
            && set.iter().any(|&s| self.slots[s].as_ref().is_some_and(|e| e.used));
        let slot = self.victim(self.array_of(order), &set)?;
        let now = self.tick();
        let base = v.align_down(u32::from(order));
        self.slots[slot] = Some(Entry {
            asid,
            base,
            order,
            whole,
            subs,
            sb_enabled: sb,
            used: was_used,
            touched: now,
            allocated: now,
        });
        self.renew(slot, now);
        Some(slot)
    }

    /// Drops the entries of this space that overlap the aligned group of `2^order` pages around `v` (T94-11).
    pub(super) fn drop_covered(&mut self, asid: Asid, v: Vpn, order: u8) {
        if self.wrong(Mutation::CoveredStay) {
            return;
        }
        let any_space = self.wrong(Mutation::CoveredOfAllSpaces);
        for slot in &mut self.slots {
            if let Some(e) = slot
                && (e.asid == asid || any_space)
                && e.base.0 >> e.order.max(order) == v.0 >> e.order.max(order)
            {
                *slot = None;
                self.counts.covered_drops += 1;
            }
        }
    }

    /// T94-10 to T94-13, T94-21, T94-24. Where the page is now, and whether it joined an entry; `None` if a preload
    /// must end.
    pub(super) fn fill(&mut self, asid: Asid, v: Vpn, pte: Pte, table: &dyn PageTableView) -> Option<(usize, bool)> {
        let sub = Some(Sub { pfn: pte.pfn, attr: pte.attr, modified: false });
        match self.config.kind {
            TlbKind::Single | TlbKind::Skewed => Some((self.place(asid, v, 0, true, vec![sub], None)?, false)),
            TlbKind::Superpage => {
                let order = match self.mutation {
                    Some(Mutation::SmallestSize) => self.config.orders[0],
                    Some(Mutation::SizeTooSmall) => {
                        *self.config.orders.iter().rfind(|o| **o < pte.order.max(1)).expect("4 KB")
                    }
                    _ => self.config.fitting(pte.order),
                };
                self.drop_covered(asid, v, order);
                let first = Sub { pfn: pte.pfn.align_down(u32::from(order)), attr: pte.attr, modified: false };
                let first = if order == 0 { sub } else { Some(first) };
                Some((self.place(asid, v, order, true, vec![first], None)?, false))
            }
            _ if self.config.all_valid => Some((self.fill_all_valid(asid, v, pte, table)?, false)),
            TlbKind::Complete => self.fill_complete(asid, v, sub),
            TlbKind::Partial => self.fill_partial(asid, v, pte),
            TlbKind::Integrated => {
                let any_order = self.wrong(Mutation::LargeOfAnyOrder) && pte.order > self.config.k();
                match if any_order { pte.order } else { self.config.fitting(pte.order) } {
                    0 => self.fill_partial(asid, v, pte),
                    order if order > self.config.k() => self.fill_large(asid, v, pte, order),
                    _ if self.wrong(Mutation::MediumFillLoadsOne) => self.fill_partial(asid, v, pte),
                    _ => self.fill_medium(asid, v, pte),
                }
            }
        }
    }

    /// A superpage of more than n pages in the integrated TLB.
    pub(super) fn fill_large(&mut self, asid: Asid, v: Vpn, pte: Pte, order: u8) -> Option<(usize, bool)> {
        if !self.wrong(Mutation::LargeFillKeepsPartial) {
            self.drop_covered(asid, v, order);
        }
        let first = Sub { pfn: pte.pfn.align_down(u32::from(order)), attr: pte.attr, modified: false };
        let sb = self.wrong(Mutation::LargeShowsSb).then_some(true);
        Some((self.place(asid, v, order, true, vec![Some(first)], sb)?, false))
    }

    pub(super) fn one_hot(&self, v: Vpn, sub: Option<Sub>) -> Vec<Option<Sub>> {
        let mut subs = vec![None; self.config.factor as usize];
        subs[(v.0 % self.config.factor) as usize] = sub;
        subs
    }

    pub(super) fn fill_complete(&mut self, asid: Asid, v: Vpn, sub: Option<Sub>) -> Option<(usize, bool)> {
        for slot in 0..self.slots.len() {
            if let Some(e) = &mut self.slots[slot]
                && e.has_tag(asid, v)
                && self.mutation != Some(Mutation::NoMerge)
            {
                let at = e.at(v);
                e.subs[at] = sub;
                return Some((slot, true));
            }
        }
        let subs = self.one_hot(v, sub);
        Some((self.place(asid, v, self.config.k(), false, subs, None)?, false))
    }

    /// The entry that page `v` may join (T94-7, T94-13): lowest index.
    pub(super) fn mergeable(&self, asid: Asid, v: Vpn, pte: Pte) -> Option<usize> {
        let n = self.config.factor;
        if v.0 % n != pte.pfn.0 % n || self.wrong(Mutation::NoMerge) {
            return None;
        }
        let into_disabled =
            self.wrong(Mutation::MergeIntoDisabled) || self.config.all_valid && self.wrong(Mutation::AllValidMerges);
        self.slots.iter().position(|e| {
            e.as_ref().is_some_and(|e| {
                e.has_tag(asid, v)
                    && !e.whole
                    && (e.sb_enabled == Some(true) || into_disabled)
                    && (e.shared(n).0 == pte.pfn.0 / n || self.wrong(Mutation::MergeIgnoresFrames))
                    && (e.shared(n).1 == pte.attr || self.wrong(Mutation::MergeIgnoresAttributes))
            })
        })
    }

    pub(super) fn fill_partial(&mut self, asid: Asid, v: Vpn, pte: Pte) -> Option<(usize, bool)> {
        let n = self.config.factor;
        let sub = Some(Sub { pfn: pte.pfn, attr: pte.attr, modified: false });
        if let Some(slot) = self.mergeable(asid, v, pte) {
            let e = self.slots[slot].as_mut().expect("just found");
            let at = e.at(v);
            e.subs[at] = sub;
            return Some((slot, true));
        }
        let aligned = v.0 % n == pte.pfn.0 % n;
        let same_tag: Vec<&Entry> = self.slots.iter().flatten().filter(|e| e.has_tag(asid, v)).collect();
        let enabled: Vec<&&Entry> = same_tag.iter().filter(|e| e.sb_enabled == Some(true)).collect();
        let tag_there = !same_tag.is_empty();
        let out_of_place = !aligned || enabled.is_empty() && !self.wrong(Mutation::SplitFramesOfDisabled);
        let same_frames = enabled.iter().any(|e| e.shared(n).0 == pte.pfn.0 / n);
        let subs = self.one_hot(v, sub);
        let slot = self.place(asid, v, self.config.k(), false, subs, Some(aligned))?;
        if tag_there {
            if out_of_place {
                self.counts.split_unaligned += 1;
            } else if same_frames != self.wrong(Mutation::SplitReasonsSwapped) {
                self.counts.split_attributes += 1;
            } else {
                self.counts.split_frames += 1;
            }
        }
        Some((slot, false))
    }

    /// A superpage of exactly n pages in the integrated TLB.
    pub(super) fn fill_medium(&mut self, asid: Asid, v: Vpn, pte: Pte) -> Option<(usize, bool)> {
        let first = pte.pfn.align_down(u32::from(self.config.k()));
        let page = |i: u64| Some(Sub { pfn: Pfn(first.0 + i), attr: pte.attr, modified: false });
        let all: Vec<Option<Sub>> = (0..self.config.factor).map(page).collect();
        if let Some(slot) = self.mergeable(asid, v, pte) {
            let e = self.slots[slot].as_mut().expect("just found");
            for (have, new) in e.subs.iter_mut().zip(all) {
                *have = have.or(new);
            }
            return Some((slot, true));
        }
        self.drop_covered(asid, v, self.config.k());
        Some((self.place(asid, v, self.config.k(), false, all, Some(true))?, false))
    }

    pub(super) fn fill_all_valid(&mut self, asid: Asid, v: Vpn, pte: Pte, table: &dyn PageTableView) -> Option<usize> {
        let (n, k) = (self.config.factor, self.config.k());
        let base = v.align_down(u32::from(k));
        let pages: Vec<Option<Pte>> = (0..n).map(|i| table.pte(asid, Vpn(base.0 + i))).collect();
        let aligned = v.0 % n == pte.pfn.0 % n;
        if aligned || self.wrong(Mutation::AllValidReadsUnaligned) {
            self.counts.extra_pte_reads += n - 1;
        }
        let first = pte.pfn.0.wrapping_sub(v.0 - base.0);
        let in_place = |i: usize, p: &Option<Pte>| p.is_some_and(|p| p.pfn.0 == first.wrapping_add(i as u64));
        let hole_ok = self.wrong(Mutation::AllValidWithHole);
        let mut full = pages.iter().enumerate().all(|(i, p)| in_place(i, p) || hole_ok && p.is_none());
        full &= first.is_multiple_of(n) || self.wrong(Mutation::AllValidUnaligned);
        if self.wrong(Mutation::AllValidEqualAttributes) {
            full &= pages.iter().flatten().all(|p| p.attr == pte.attr);
        }
        let complete = self.config.kind == TlbKind::Complete;
        if full {
            self.drop_covered(asid, v, k);
            if !self.wrong(Mutation::AllValidNotPreloaded) {
                self.counts.preloaded += n - 1;
            }
            let subs = pages.iter().map(|p| p.map(|p| Sub { pfn: p.pfn, attr: p.attr, modified: false })).collect();
            return self.place(asid, v, k, false, subs, if complete { None } else { Some(true) });
        }
        if self.wrong(Mutation::AllValidMerges)
            && let Some(slot) = self.mergeable(asid, v, pte)
        {
            let e = self.slots[slot].as_mut().expect("just found");
            let at = e.at(v);
            e.subs[at] = Some(Sub { pfn: pte.pfn, attr: pte.attr, modified: false });
            return Some(slot);
        }
        let subs = self.one_hot(v, Some(Sub { pfn: pte.pfn, attr: pte.attr, modified: false }));
        let enabled = aligned && self.wrong(Mutation::AllValidOnePageEnabled);
        self.place(asid, v, k, false, subs, if complete { None } else { Some(enabled) })
    }

    /// T94-22, after the missed page was filled.
    pub(super) fn preload(&mut self, asid: Asid, v: Vpn, pte: Pte, table: &dyn PageTableView) {
        let (n, k) = (self.config.factor, self.config.k());
        if self.config.preload == Preload::None || !self.config.subblocks() || self.config.all_valid {
            return;
        }
        if self.config.kind == TlbKind::Integrated && self.config.fitting(pte.order) > 0 {
            return;
        }
        let same_only = self.config.preload == Preload::SameEntry && self.config.kind != TlbKind::Complete;
        let aligned = v.0 % n == pte.pfn.0 % n;
        if same_only && !aligned && !self.wrong(Mutation::PreloadSameEntryAsRegion) {
            return;
        }
        let assisted = self.config.assisted_check && !self.wrong(Mutation::PreloadOfAssistedReadsAll);
        self.counts.extra_pte_reads += if assisted { (n - 1).min(1) } else { n - 1 };
        let base = v.align_down(u32::from(k));
        let mut region: Vec<Vpn> = (0..n).map(|i| Vpn(base.0 + i)).collect();
        if self.wrong(Mutation::PreloadDescending) {
            region.reverse();
        }
        for w in region {
            if w == v {
                continue;
            }
            let Some(q) = table.pte(asid, w) else { continue };
            if self.find(asid, w).is_some() {
                continue;
            }
            let joins = w.0 % n == q.pfn.0 % n
                && q.pfn.0 / n == pte.pfn.0 / n
                && (q.attr == pte.attr || self.wrong(Mutation::PreloadIgnoresAttributes));
            if same_only && !joins && !self.wrong(Mutation::PreloadSameEntryAsRegion) {
                continue;
            }
            let Some((slot, merged)) = self.fill(asid, w, q, table) else {
                if self.wrong(Mutation::PreloadLeavesOutInsteadOfEnding) {
                    continue;
                }
                return;
            };
            self.counts.preloaded += 1;
            if !merged {
                self.counts.fills += 1;
            }
            let now = self.tick();
            let (sets_used, renews) = (self.wrong(Mutation::PreloadSetsUsed), self.wrong(Mutation::PreloadRenewsLru));
            let e = self.slots[slot].as_mut().expect("just filled");
            e.used |= sets_used;
            if renews {
                self.renew(slot, now);
            }
        }
    }

    pub(super) fn count_miss(&mut self, at: Lookup, pte: Pte, subblock: bool) {
        self.counts.misses += 1;
        match at.kind {
            Access::Fetch => self.counts.fetch_misses += 1,
            Access::Load => self.counts.load_misses += 1,
            Access::Store => self.counts.store_misses += 1,
        }
        if at.kind != Access::Fetch {
            self.counts.data_misses += 1;
        }
        if subblock {
            self.counts.subblock_misses += 1;
        } else {
            self.counts.tag_misses += 1;
        }
        if pte.order > 0 {
            self.counts.superpage_misses += 1;
        }
    }

    /// The entry of the page that missed, just filled, counts as just used.
    pub(super) fn hold(&mut self, slot: usize, merged: bool) {
        if self.wrong(Mutation::PreloadForgetsToHold) || self.wrong(Mutation::LruIgnoresFillByMerge) && merged {
            return;
        }
        let now = self.tick();
        let e = self.slots[slot].as_mut().expect("just filled");
        e.used = true;
        self.renew(slot, now);
    }
}
