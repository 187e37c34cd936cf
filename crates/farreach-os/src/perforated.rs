//! Superpages with holes (PRF-1): a fault maps a group of 2 MB in the free frames of an aligned block, and the pages
//! whose places there are taken in frames elsewhere.
//!
//! In the page table all of them are base pages. That they make a superpage is a mark beside it, which hardware that
//! knows of holes reads with an entry ([`PageTableView::perforated`](crate::Os)). The mark ends when the translation of
//! one of its pages does, hole or not, as a superpage is split when a part of it changes (T94-42). Hardware is told of
//! each such change anyway, and has then dropped what it knew.

use crate::contract::What;
use crate::huge::inside;
use crate::os::Os;
use crate::page_table::entry::{Entry, attributes};
use crate::placement::contract::FrameRequest;
use crate::region::Region;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::translation::Perforated;

impl Os {
    /// Maps a group for which there is no free block as a superpage with holes, if the policy has a place for one.
    /// Returns whether the page of the fault is mapped now: a hole may find no frame, and then waits for a touch.
    pub(super) fn perforated_fault(&mut self, asid: Asid, vpn: Vpn, region: &Region, group: VpnRange) -> bool {
        if !inside(group, region.range) || group.pages != 1 << Perforated::ORDER {
            return false;
        }
        let Some((base, holes)) = self.placement.perforated_block(&mut self.memory) else { return false };
        let attr = attributes(region.prot, false);
        let mark = Perforated { pfn: base, attr, holes };
        let entry = Entry { label: region.label, attr, present: true, populated: true, ..Entry::default() };
        let before = self.mapped;
        let pages: Vec<Vpn> = group.iter().collect();
        for run in pages.chunk_by(|one, other| mark.is_hole(*one) == mark.is_hole(*other)) {
            let pages = VpnRange { start: run[0], pages: run.len() as u64 };
            if !mark.is_hole(run[0]) {
                let pfn = Pfn(base.0 + pages.start.offset_in(Perforated::ORDER.into()));
                self.memory.fill_run(region.object, region.page_of(pages.start), pfn, pages.pages);
                self.map_run(asid, pages, Entry { pfn, ..entry });
                continue;
            }
            for hole in pages.iter() {
                let request = FrameRequest { vpn: hole, object: region.object, page: region.page_of(hole) };
                let Some(pfn) = self.placement.allocate(&mut self.memory, request) else { break };
                self.memory.fill(region.object, request.page, pfn);
                self.map_page(asid, hole, Entry { pfn, ..entry });
            }
        }
        let there = self.spaces[asid.0 as usize].table.update(vpn, |entry| entry.populated = false).is_some();
        let holes: u64 = holes.iter().map(|word| u64::from(word.count_ones())).sum();
        let counts = &mut self.memory.counts;
        counts.perforated_faults += 1;
        counts.perforated_holes += holes;
        counts.populated_pages += self.mapped - before - u64::from(there);
        counts.populated_in_superpages += group.pages - holes - u64::from(!mark.is_hole(vpn));
        self.spaces[asid.0 as usize].perforated.insert(group.start, mark);
        self.change(asid, group, What::Promoted);
        there
    }

    /// The translations of these pages are no longer valid: their superpages with holes end.
    pub(super) fn end_perforated(&mut self, asid: Asid, pages: VpnRange) {
        if let Some(space) = self.spaces.get_mut(asid.0 as usize).filter(|space| !space.perforated.is_empty()) {
            space
                .perforated
                .retain(|first, _| !VpnRange { start: *first, pages: 1 << Perforated::ORDER }.overlaps(&pages));
        }
    }
}
