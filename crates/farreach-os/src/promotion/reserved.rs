//! Superpages of reservations that are full (NAV-7 to NAV-9, FBR-7 to FBR-9): nothing is populated or moved for them.

use crate::contract::What;
use crate::os::Os;
use crate::page_table::entry::{Entry, attributes};
use crate::placement::contract::{Filling, SuperpageRule};
use crate::region::{HugeAdvice, Region};
use crate::reservations::Reservation;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::translation::Attr;

impl Os {
    /// After a page was mapped, or became modified where that counts: maps the groups around it that are full as
    /// superpages, the smallest first, until one cannot be.
    pub(crate) fn promote_full(&mut self, asid: Asid, vpn: Vpn) {
        let Some(rule) = self.placement.superpage_rule() else { return };
        if rule == SuperpageRule::InPlace && self.refuses_superpages(asid, vpn) {
            return;
        }
        for size in 1..self.memory.reservations.orders().len() {
            let order = self.memory.reservations.orders()[size];
            let Some(entry) = self.spaces[asid.0 as usize].table.get(vpn) else { return };
            if u32::from(entry.order) >= order {
                continue;
            }
            let group = VpnRange { start: vpn.align_down(order), pages: 1 << order };
            if rule == SuperpageRule::InPlace && !self.lies_in_region(asid, vpn, group) {
                return;
            }
            if !self.is_full(asid, vpn, &entry, order, rule) || !self.alike(asid, group, rule) {
                return;
            }
            let table = &mut self.spaces[asid.0 as usize].table;
            let dirty = table.dirty_in(group) > 0;
            table.set_order(group, order as u8);
            table.pack(group);
            self.join_accessed(asid, group);
            if dirty && self.tells_stores(asid, vpn, rule).is_whole() {
                self.mark_dirty(asid, vpn, order as u8);
            }
            self.memory.counts.promotions += 1;
            self.memory.reservations.tally.promoted[size] += 1;
            self.change(asid, group, What::Promoted);
        }
    }

    /// Whether a group lies in the region of a page.
    fn lies_in_region(&mut self, asid: Asid, vpn: Vpn, group: VpnRange) -> bool {
        group.and(self.region(asid, vpn).range) == group
    }

    /// Whether the memory of a page is advised against superpages.
    fn refuses_superpages(&mut self, asid: Asid, vpn: Vpn) -> bool {
        let region = self.region(asid, vpn);
        self.huge_advice(asid, &region) == HugeAdvice::NoHuge
    }

    /// After a page came: fills the largest group around it that has enough pages (OS-TPS-2, QKS-1), now or later.
    pub(crate) fn fill_around(&mut self, asid: Asid, vpn: Vpn) {
        let Some(filling) = self.placement.filling() else { return };
        let Some(entry) = self.spaces[asid.0 as usize].table.get(vpn) else { return };
        let Some(held) = self.memory.reservations.of_frame(entry.pfn).filter(|held| !held.is_full()) else { return };
        let base = held.base;
        match filling {
            Filling::Pages { least, .. } if held.count() < least => {}
            Filling::Pages { later: true, .. } => {
                if self.to_fill.iter().all(|(waits, ..)| *waits != base) {
                    self.to_fill.push((base, asid, vpn));
                }
            }
            Filling::Pages { .. } => {
                let order = held.order;
                self.fill(asid, vpn, &[order]);
            }
            Filling::Share(share) => {
                let orders = &self.memory.reservations.orders()[1..=held.size];
                let at = entry.pfn.0 - base.0;
                let (mut from, mut pages, mut asked) = (at, 1, held.asked_in(at, 1));
                let mut enough = Vec::new();
                for &order in orders {
                    let (first, whole) = (at >> order << order, 1 << order);
                    asked +=
                        held.asked_in(first, from - first) + held.asked_in(from + pages, first + whole - from - pages);
                    (from, pages) = (first, whole);
                    let least = (share * whole as f64).ceil().max(1.0) as u64;
                    if asked >= least && held.used_in(first, whole) < whole {
                        enough.push(order);
                    }
                }
                self.fill(asid, vpn, &enough);
            }
        }
    }

    /// Fills the reservations that wait for it (QKS-1), in the order in which they came.
    pub(crate) fn fill_waiting(&mut self) {
        for (base, asid, vpn) in std::mem::take(&mut self.to_fill) {
            let entry = self.spaces[asid.0 as usize].table.get(vpn);
            let held = entry.and_then(|entry| self.memory.reservations.of_frame(entry.pfn));
            let Some(Filling::Pages { least, .. }) = self.placement.filling() else { return };
            let waits = |held: &&Reservation| held.base == base && held.count() >= least && !held.is_full();
            let Some(held) = held.filter(waits) else { continue };
            let order = held.order;
            self.fill(asid, vpn, &[order]);
            self.promote_full(asid, vpn);
            self.sync_ranges(asid);
        }
    }

    /// Fills the largest of the groups of these orders around a page that can be.
    fn fill(&mut self, asid: Asid, vpn: Vpn, orders: &[u32]) {
        let Some(entry) = self.spaces[asid.0 as usize].table.get(vpn) else { return };
        let region = self.region(asid, vpn);
        let group = |order: u32| VpnRange { start: vpn.align_down(order), pages: 1 << order };
        let fits = |order: &u32| self.is_fillable(asid, vpn, &entry, &region, group(*order));
        let Some(order) = orders.iter().copied().rev().find(fits) else { return };
        self.fill_rest(asid, group(order), &region, &entry);
        if self.placement.superpage_rule() == Some(SuperpageRule::Guard) {
            // What is filled counts as stored to, as no file has its contents.
            self.memory.reservations.store(entry.pfn.align_down(order), 1 << order);
            if entry.attr.0 & Attr::WRITE != 0 {
                let table = &mut self.spaces[asid.0 as usize].table;
                group(order).iter().for_each(|page| _ = table.update(page, |entry| entry.guarded = false));
                self.mark_dirty(asid, vpn, order as u8);
            }
        }
    }

    /// Whether a group lies in one region, and whether its mapped pages are in their places and alike.
    fn is_fillable(&self, asid: Asid, vpn: Vpn, like: &Entry, region: &Region, group: VpnRange) -> bool {
        let first = like.pfn.0.wrapping_sub(vpn.0 - group.start.0);
        let of = |e: &Entry| (e.attr, e.cow, e.segment);
        let in_place = |page: Vpn, pfn: Pfn| pfn.0 == first + (page.0 - group.start.0);
        group.and(region.range) == group
            && !like.cow
            && self.memory.objects.get(region.object).private
            && first.is_multiple_of(group.pages)
            && self.spaces[asid.0 as usize]
                .table
                .runs_in(group)
                .iter()
                .all(|run| in_place(run.first, run.entry.pfn) && of(&run.entry) == of(like))
            && group.iter().all(|page| {
                self.memory.frame_of(region.object, region.page_of(page)).is_none_or(|pfn| in_place(page, pfn))
            })
    }

    fn fill_rest(&mut self, asid: Asid, group: VpnRange, region: &Region, like: &Entry) {
        let before = self.memory.reservations.tally.filled;
        let (label, attr, cow) = (region.label, like.attr, like.cow);
        for vpn in group.iter() {
            if self.spaces[asid.0 as usize].table.get(vpn).is_some() {
                continue;
            }
            let page = region.page_of(vpn);
            let pfn = match self.memory.fill_held(region.object, page) {
                Some(pfn) => {
                    self.memory.fill(region.object, page, pfn);
                    self.count_read(region.object, 1);
                    pfn
                }
                // Another process has it.
                None => self.memory.frame_of(region.object, page).expect("the frame of its place is in use"),
            };
            let entry = Entry { pfn, label, attr, cow, present: true, populated: true, ..Entry::default() };
            self.map_page(asid, vpn, entry);
            self.memory.counts.populated_pages += 1;
            self.memory.counts.populated_in_superpages += 1;
        }
        // The fault brought in its own page before.
        let pages = 1 + self.memory.reservations.tally.filled - before;
        let most = &mut self.memory.counts.largest_fault_pages;
        *most = (*most).max(pages);
    }

    /// Whether the group around a page is one of a reservation, all of its frames are in use, and something is mapped
    /// at each of its pages.
    fn is_full(&mut self, asid: Asid, vpn: Vpn, entry: &Entry, order: u32, rule: SuperpageRule) -> bool {
        let reservations = &mut self.memory.reservations;
        reservations.tally.nodes += 1;
        let full = || reservations.of_frame(entry.pfn).is_some_and(|held| held.is_full_around(entry.pfn, order));
        if rule != SuperpageRule::InPlace && !full() {
            return false;
        }
        let group = VpnRange { start: vpn.align_down(order), pages: 1 << order };
        let runs = self.spaces[asid.0 as usize].table.runs_in(group);
        self.memory.counts.promotions_tried += 1;
        self.memory.counts.pt_probes += group.pages;
        let mapped = runs.iter().map(|run| run.pages).sum::<u64>() == group.pages;
        self.memory.counts.refused_not_resident += u64::from(!mapped);
        mapped
    }

    /// Whether the mapped pages of a group lie in an aligned block, in order, with equal attributes.
    fn alike(&mut self, asid: Asid, group: VpnRange, rule: SuperpageRule) -> bool {
        if rule == SuperpageRule::Guard {
            self.guard_clean(asid, group);
        }
        let table = &self.spaces[asid.0 as usize].table;
        let runs = table.runs_in(group);
        let (base, first) = (runs[0].entry.pfn.0, runs[0].entry);
        let in_order = base.is_multiple_of(group.pages)
            && runs.iter().all(|run| run.entry.pfn.0.wrapping_sub(base) == run.first.0 - group.start.0);
        let of = |e: &Entry| (e.attr, e.cow, e.segment);
        let dirty = table.dirty_in(group);
        let mixed = dirty != 0 && dirty != group.pages;
        let alike = runs.iter().all(|run| of(&run.entry) == of(&first));
        let equal = alike
            && (!mixed
                || match self.tells_stores(asid, group.start, rule) {
                    SuperpageRule::Whole | SuperpageRule::InPlace => true,
                    SuperpageRule::Split { .. } => false,
                    // An entry that must not be stored to does not say whether it was before.
                    SuperpageRule::Guard => first.attr.0 & Attr::WRITE == 0,
                });
        self.memory.counts.refused_frames += u64::from(!in_order);
        self.memory.counts.refused_attributes += u64::from(in_order && !equal);
        self.memory.reservations.tally.unlike += u64::from(!in_order || !equal);
        in_order && equal
    }

    /// FBR-7: clean entries that may be stored to lose that right.
    fn guard_clean(&mut self, asid: Asid, group: VpnRange) {
        let table = &mut self.spaces[asid.0 as usize].table;
        if table.dirty_in(group) == group.pages {
            return;
        }
        let guard = |entry: &mut Entry| entry.guarded |= !entry.dirty && entry.attr.0 & Attr::WRITE != 0;
        group.iter().for_each(|page| _ = table.update(page, guard));
    }

    /// The rule that holds for the memory of a page.
    fn tells_stores(&mut self, asid: Asid, vpn: Vpn, rule: SuperpageRule) -> SuperpageRule {
        let object = self.region(asid, vpn).object;
        match rule {
            SuperpageRule::Split { files: true } if !self.memory.objects.get(object).kind.is_file() => {
                SuperpageRule::Whole
            }
            rule => rule,
        }
    }

    /// The first store to a page whose entry is clean, which was just copied or not. A clean superpage is split for it
    /// (NAV-9, FBR-9). Returns whether the system got to know.
    pub(crate) fn first_store(&mut self, asid: Asid, vpn: Vpn, before: &Entry, copied: bool) -> bool {
        let allowed = before.attr.0 & Attr::WRITE != 0;
        let rule = self.placement.superpage_rule().filter(|_| allowed);
        let rule = rule.map_or(SuperpageRule::Whole, |rule| self.tells_stores(asid, vpn, rule));
        let asks = before.order > 0 || before.guarded;
        if rule.is_whole() || (rule == SuperpageRule::Guard && !asks) {
            self.mark_dirty(asid, vpn, before.order);
            return false;
        }
        self.memory.counts.protection_faults += u64::from(asks && !copied);
        self.demote(asid, vpn);
        self.spaces[asid.0 as usize].table.update(vpn, |entry| entry.guarded = false).expect("still mapped");
        self.mark_dirty(asid, vpn, 0);
        true
    }

    /// FBR-8: a fault on a page whose reservation is full of contents of its object maps all of it, if it may.
    pub(crate) fn map_full(&mut self, asid: Asid, vpn: Vpn, region: &Region, kind: Kind) -> bool {
        if self.placement.superpage_rule() != Some(SuperpageRule::Guard) {
            return false;
        }
        let Some(pfn) = self.memory.frame_of(region.object, region.page_of(vpn)) else { return false };
        let Some(held) = self.memory.reservations.of_frame(pfn).filter(|held| held.is_full()) else { return false };
        let (order, base, stored) = (held.order, held.base, held.all_stored());
        let group = VpnRange { start: vpn.align_down(order), pages: 1 << order };
        let private_file = !region.shared && self.memory.objects.get(region.object).kind.is_file();
        let attr = attributes(region.prot, private_file);
        let writable = attr.0 & Attr::WRITE != 0;
        let stores = kind == Kind::Store && region.prot.write;
        if group.and(region.range) != group
            || pfn.offset_in(order) != vpn.offset_in(order)
            || (stores && (private_file || !stored))
            || self.spaces[asid.0 as usize].table.any_in(group)
        {
            return false;
        }
        let first = region.page_of(group.start);
        let own = |i: u64| self.memory.frame_of(region.object, first + i) == Some(Pfn(base.0 + i));
        if !(0..group.pages).all(own) {
            return false;
        }
        let dirty = writable && stored;
        let entry = Entry {
            pfn: base,
            label: region.label,
            attr,
            order: order as u8,
            present: true,
            cow: private_file,
            dirty,
            guarded: writable && !stored,
            populated: true,
            ..Entry::default()
        };
        self.map_run(asid, group, entry);
        self.superpage_came(asid, vpn, group);
        self.memory.counts.dirty_pages += if dirty { group.pages } else { 0 };
        self.memory.reservations.tally.at_once += 1;
        true
    }
}
