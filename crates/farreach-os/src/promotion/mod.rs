//! Superpage promotion and demotion (T94-40 to T94-42, T94-54 to T94-56). Mapped pages are counted; none is ever moved.

pub(crate) mod policy;
mod reserved;

use crate::contract::What;
use crate::os::Os;
use crate::page_index::PageLocation;
use crate::page_table::entry::{Entry, attributes};
use crate::region::Region;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};

/// Why a group is not promoted (T94-55).
enum Refusal {
    SmallObject,
    Frames,
    Attributes,
    NotResident,
}

impl Os {
    /// After `vpn` was mapped: promotes the groups around it that reached their threshold, smallest first, if they are
    /// larger than its current mapping.
    pub(crate) fn promote_around(&mut self, asid: Asid, vpn: Vpn, region: &Region) {
        let kind = self.memory.objects.get(region.object).kind;
        for i in 0..self.promotion.orders().len() {
            let order = self.promotion.orders()[i];
            let count = self.space(asid).populations.get(&(order, vpn.group(order))).map_or(0, |c| u64::from(*c));
            let is = self.space(asid).table.get(vpn).map_or(0, |e| u32::from(e.order));
            if order <= is
                || !self.promotion.kinds.contains(&kind)
                || count < self.promotion.threshold(kind, order).max(1)
            {
                continue;
            }
            self.try_promotion(asid, vpn, region, order);
        }
    }

    /// After `vpn` was mapped: maps the large page around it as one, if its frames were allocated so. Counted as a
    /// promotion.
    pub(crate) fn map_large(&mut self, asid: Asid, vpn: Vpn, region: &Region) {
        let Some(order) = self.placement.large_page_order() else { return };
        let object = self.memory.objects.get(region.object);
        if object.large_groups.contains(&(region.page_of(vpn).wrapping_add(object.shift) >> order)) {
            self.try_promotion(asid, vpn, region, order);
        }
    }

    /// Maps a group as one superpage, if its pages lie and are such that none must move (T94-55, RNG-4).
    pub(crate) fn try_promotion(&mut self, asid: Asid, vpn: Vpn, region: &Region, order: u32) {
        self.memory.counts.promotions_tried += 1;
        let group = VpnRange { start: vpn.align_down(order), pages: 1 << order };
        let counter = match self.check_group(asid, group, region) {
            Ok(missing) => return self.promote(asid, group, order, &missing),
            Err(Refusal::SmallObject) => &mut self.memory.counts.refused_small_object,
            Err(Refusal::Frames) => &mut self.memory.counts.refused_frames,
            Err(Refusal::Attributes) => &mut self.memory.counts.refused_attributes,
            Err(Refusal::NotResident) => &mut self.memory.counts.refused_not_resident,
        };
        *counter += 1;
    }

    /// Checks whether the group can become one mapping without moving a page. Returns the pages that must be populated
    /// for it.
    fn check_group(&mut self, asid: Asid, group: VpnRange, region: &Region) -> Result<Vec<(Vpn, Pfn)>, Refusal> {
        self.memory.counts.pt_probes += group.pages;
        let space = &self.spaces[asid.0 as usize];
        let object = self.memory.objects.get(region.object);
        let page_of = |vpn: Vpn| region.first_page.wrapping_add(vpn.0.wrapping_sub(region.range.start.0));
        let file = object.kind.is_file();
        let (mut base, mut common, mut missing) = (None, None, Vec::new());
        let (mut frames, mut alike, mut resident) = (true, true, true);
        for vpn in group.iter() {
            // The object must fill the group; it may do so in several regions that differ in protection.
            let here = space.regions.find(vpn).filter(|r| r.object == region.object && r.page_of(vpn) == page_of(vpn));
            let here = here.ok_or(Refusal::SmallObject)?;
            let cow = file && !here.shared;
            let (pfn, has) = match (space.table.get(vpn), object.page_index.get(page_of(vpn))) {
                // SEG-19: a page of the segment is not like one beside it.
                (Some(e), _) => (Some(e.pfn), (e.attr, e.cow, e.segment)),
                (None, Some(PageLocation::Reserved(pfn, _) | PageLocation::Busy(pfn))) => {
                    missing.push((vpn, pfn));
                    (Some(pfn), (attributes(here.prot, cow), cow, false))
                }
                (None, None) => (None, (attributes(here.prot, cow), cow, false)),
            };
            alike &= *common.get_or_insert(has) == has;
            resident &= pfn.is_some();
            if let Some(pfn) = pfn {
                let start = pfn.0.wrapping_sub(vpn.0 - group.start.0);
                frames &= start.is_multiple_of(group.pages) && *base.get_or_insert(start) == start;
            }
        }
        match (frames, alike, resident) {
            (false, ..) => Err(Refusal::Frames),
            (_, false, _) => Err(Refusal::Attributes),
            (.., false) => Err(Refusal::NotResident),
            _ => Ok(missing),
        }
    }

    fn promote(&mut self, asid: Asid, group: VpnRange, order: u32, missing: &[(Vpn, Pfn)]) {
        for &(vpn, pfn) in missing {
            let here = self.region(asid, vpn);
            let cow = !here.shared && self.memory.objects.get(here.object).kind.is_file();
            let attr = attributes(here.prot, cow);
            let (claimed, was_reserved) =
                self.memory.claim(here.object, here.page_of(vpn)).expect("the check found it in place");
            debug_assert_eq!(claimed, pfn);
            if was_reserved {
                self.count_read(here.object, 1);
            }
            self.map_page(
                asid,
                vpn,
                Entry { pfn, label: here.label, attr, cow, present: true, populated: true, ..Entry::default() },
            );
            self.memory.counts.populated_pages += 1;
        }
        self.join_accessed(asid, group);
        let mut dirty = None;
        for vpn in group.iter() {
            let is_dirty = self.spaces[asid.0 as usize].table.update(vpn, |entry| {
                entry.order = order as u8;
                entry.dirty
            });
            dirty = dirty.or(is_dirty.expect("all of the group is mapped").then_some(vpn));
        }
        if let Some(vpn) = dirty {
            self.mark_dirty(asid, vpn, order as u8);
        }
        self.memory.counts.promotions += 1;
        self.change(asid, group, What::Promoted);
    }

    /// Splits the superpage around a page down to base pages, if there is one (T94-42).
    pub(crate) fn demote(&mut self, asid: Asid, vpn: Vpn) {
        while self.split(asid, vpn) {}
    }

    /// Splits the superpage around a page into those of the next smaller size that the policy has (NAV-8, OS-TPS-3),
    /// else into base pages. False if there is none.
    pub(crate) fn split(&mut self, asid: Asid, vpn: Vpn) -> bool {
        let order = match self.space(asid).table.get(vpn) {
            Some(e) if e.order > 0 => u32::from(e.order),
            _ => return false,
        };
        let group = VpnRange { start: vpn.align_down(order), pages: 1 << order };
        self.keep_census(asid);
        // What a superpage of zeros falls into is the page of zeros, again and again.
        let smaller = match self.is_zeros(asid, vpn) {
            true => 0,
            false => self.memory.reservations.split_from(order).max(self.placement.split_into(order)),
        };
        self.spaces[asid.0 as usize].table.set_order(group, smaller as u8);
        self.memory.counts.demotions += 1;
        self.change(asid, group, What::Demoted);
        true
    }
}
