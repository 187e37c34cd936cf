//! Memory rounded up to whole huge pages, as libhugetlbfs does with heaps. The rest of the huge page is mapped too.
//! When the program later asks for memory there, it finds the rest already mapped.
//!
//! The rest is a region of its own ([`HugeAdvice::Rest`]), so that every mapped page has a region. A mapping of private
//! anonymous memory takes over the rest that it covers. Memory that the program unmaps becomes rest again, until
//! nothing else of the huge page is mapped.

use crate::base_pages::Piece;
use crate::object::{ObjectId, ObjectKind};
use crate::os::Os;
use crate::page_index::PageLocation;
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::event::Backing;
use std::collections::BTreeSet;

/// The parts of `range` outside the ascending `parts` of it.
pub(super) fn between(range: VpnRange, parts: &[VpnRange]) -> Vec<VpnRange> {
    let mut from = range.start;
    let mut gaps = Vec::new();
    for part in parts {
        gaps.push(VpnRange::between(from, part.start));
        from = part.end();
    }
    gaps.push(VpnRange::between(from, range.end()));
    gaps.retain(|gap| gap.pages > 0);
    gaps
}

impl Os {
    /// The regions that lie in a range, cut to it.
    fn regions_in(&self, asid: Asid, range: VpnRange) -> Vec<Region> {
        self.spaces.get(asid.0 as usize).map_or_else(Vec::new, |space| space.regions.within(range))
    }

    /// Whether a group may become one huge page although its regions do not fill it: all are private anonymous memory
    /// with the same protection, and none of their pages is mapped or has a frame.
    pub(super) fn may_round_up(&self, asid: Asid, group: VpnRange, region: &Region) -> bool {
        let fits = |part: &Region| {
            let object = self.memory.objects.get(part.object);
            let (first, end) = (part.first_page, part.first_page + part.range.pages);
            object.private
                && !object.kind.is_file()
                && part.prot == region.prot
                && !self.labels.is_stack_or_kernel(part.label)
                && !object.page_index.any_in(first..end)
        };
        self.placement.rounds_up() && self.regions_in(asid, group).iter().all(fits)
    }

    /// Fills the gaps of a group with regions. Returns all regions of the group.
    pub(super) fn fill_group(&mut self, asid: Asid, group: VpnRange, region: &Region) -> Vec<Region> {
        let parts: Vec<VpnRange> = self.regions_in(asid, group).iter().map(|r| r.range).collect();
        for gap in between(group, &parts) {
            let object = self.memory.objects.create(ObjectKind::Anonymous, None, true, 0);
            self.memory.counts.huge_rest_pages += gap.pages;
            self.insert(
                asid,
                Region { range: gap, object, first_page: gap.start.0, advice: HugeAdvice::Rest, ..region.clone() },
            );
        }
        self.regions_in(asid, group)
    }

    /// A new mapping may cover rests: removes their regions and keeps their pages mapped. Returns these pages.
    pub(super) fn adopt(&mut self, asid: Asid, mapping: &Piece) -> Vec<VpnRange> {
        let anonymous = matches!(mapping.backing, Backing::Anonymous | Backing::Heap) && !mapping.shared;
        if !self.placement.rounds_up() || !anonymous {
            return Vec::new();
        }
        let mut parts: Vec<VpnRange> = Vec::new();
        for rest in self.regions_in(asid, mapping.range) {
            // New memory belongs to one process. A rest that is shared with a child since a fork cannot become new
            // memory.
            let own = |os: &Os| os.spaces[asid.0 as usize].table.runs_in(rest.range).iter().all(|run| !run.entry.cow);
            if rest.advice != HugeAdvice::Rest || rest.prot != mapping.prot || !own(self) {
                continue;
            }
            for region in self.take(asid, rest.range) {
                let end = region.first_page + region.range.pages;
                self.memory.objects.get_mut(region.object).page_index.drain(region.first_page..end, true);
                self.memory.drop_mapper(region.object);
            }
            parts.push(rest.range);
        }
        parts
    }

    /// Gives adopted pages to the region that was mapped over them.
    pub(super) fn adopted(&mut self, asid: Asid, parts: &[VpnRange], region: &Region) {
        for &part in parts {
            for run in self.spaces[asid.0 as usize].table.runs_in(part) {
                let object = self.memory.objects.get_mut(region.object);
                object.page_index.insert_run(region.page_of(run.first), run.pages, run.entry.pfn);
            }
            self.spaces[asid.0 as usize].table.set_label(part, region.label);
        }
    }

    /// A range is about to be unmapped. At its ends it may be part of a huge page whose other memory stays: that part
    /// becomes rest. If only rest would stay, it is unmapped too. Returns the ranges to unmap.
    pub(super) fn keep_rest(&mut self, asid: Asid, range: VpnRange) -> Vec<VpnRange> {
        let Some(order) = self.placement.rounds_up().then(|| self.placement.huge_order()).flatten() else {
            return vec![range];
        };
        if range.pages == 0 {
            return vec![range];
        }
        let (mut kept, mut more): (Vec<VpnRange>, Vec<VpnRange>) = (Vec::new(), Vec::new());
        let last = Vpn(range.end().0 - 1);
        for edge in [range.start, last] {
            let group = VpnRange { start: edge.align_down(order.into()), pages: 1 << order };
            let part = group.and(range);
            let whole = self.space(asid).table.get(group.start).is_some_and(|e| e.order == order);
            if !whole || part == group || kept.contains(&part) {
                continue;
            }
            let outside = between(group, &[part]);
            let others =
                outside.iter().flat_map(|gap| self.regions_in(asid, *gap)).any(|r| r.advice != HugeAdvice::Rest);
            if !others {
                more.extend(outside.into_iter().filter(|gap| !more.contains(gap)).collect::<Vec<_>>());
                continue;
            }
            for region in self.take(asid, part) {
                self.make_rest(asid, region);
            }
            kept.push(part);
        }
        // Adjacent ranges are joined, so that a huge page that is unmapped as a whole is not split.
        let mut ranges = between(range, &kept);
        ranges.extend(more);
        ranges.sort_unstable_by_key(|part| part.start);
        let mut joined: Vec<VpnRange> = Vec::new();
        for part in ranges {
            match joined.last_mut() {
                Some(last) if last.end() == part.start => last.pages += part.pages,
                _ => joined.push(part),
            }
        }
        joined
    }

    /// After pages of a range were unmapped or moved: unmaps rest of which no other memory of the huge page remains.
    pub(super) fn drop_lonely_rest(&mut self, asid: Asid, range: VpnRange) {
        let Some(order) = self.placement.huge_order().filter(|_| self.placement.rounds_up() && range.pages > 0) else {
            return;
        };
        let order = u32::from(order);
        let around = VpnRange::between(range.start.align_down(order), Vpn(range.end().0 - 1).align_down(order));
        let around = VpnRange { pages: around.pages + (1 << order), ..around };
        let rests = self.regions_in(asid, around).into_iter().filter(|r| r.advice == HugeAdvice::Rest);
        // A rest that was moved may lie in several groups.
        let groups = rests.flat_map(|r| r.range.start.group(order)..=(r.range.end().0 - 1) >> order);
        for number in groups.collect::<BTreeSet<_>>() {
            let group = VpnRange { start: Vpn(number << order), pages: 1 << order };
            if self.regions_in(asid, group).iter().all(|r| r.advice == HugeAdvice::Rest) {
                self.unmap(asid, group);
            }
        }
    }

    /// Inserts a removed region again as rest, with its pages.
    fn make_rest(&mut self, asid: Asid, region: Region) {
        let (first, end) = (region.first_page, region.first_page + region.range.pages);
        let object: ObjectId = self.memory.objects.create(ObjectKind::Anonymous, None, true, 0);
        let mut page = region.range.start.0;
        for (slot, pages) in self.memory.objects.get_mut(region.object).page_index.drain(first..end, false) {
            if let PageLocation::Busy(pfn) = slot {
                self.memory.objects.get_mut(object).page_index.insert_run(page, pages, pfn);
            }
            page += pages;
        }
        self.memory.drop_mapper(region.object);
        let first_page = region.range.start.0;
        self.insert(asid, Region { object, first_page, advice: HugeAdvice::Rest, ..region });
    }
}
