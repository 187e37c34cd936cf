//! Pages that move between RestSegs and the FlexSeg (UTO-5, UTO-6), and the view of the RestSegs.

use crate::os::Os;
use crate::placement::contract::{FrameRequest, Moved};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::restseg::{RestSeg, RestSegView, Way};

/// log2 of the base pages from which on a leaf of the page table is one of superpages.
const LARGE: u8 = 9;

impl Os {
    /// Moves a page out of the set in which the policy wants to place another (`uto_full = evict`). Pages that are
    /// shared stay, and so do all if there is no other memory.
    pub(crate) fn make_way(&mut self, request: FrameRequest, order: u8) {
        let all = self.placement.in_the_way(&self.memory, request, order);
        let Some(page) = all.into_iter().find(|page| self.moves_alone(page)) else { return };
        let to = match order {
            0 => self.memory.alloc_frame(page.vpn),
            order => self.memory.alloc_block(order.into()),
        };
        if let Some(to) = to {
            self.move_whole(&page, to);
        }
    }

    /// A walk found this page in the page table: it may move to a RestSeg (UTO-6).
    pub(crate) fn walked_to_restseg(&mut self, asid: Asid, vpn: Vpn) {
        if !self.placement.counts_walks() {
            return;
        }
        let Some(entry) = self.spaces.get(asid.0 as usize).and_then(|space| space.table.get(vpn)) else { return };
        let (order, first) = (entry.order, vpn.align_down(entry.order.into()));
        let from = entry.pfn.align_down(order.into());
        if !self.placement.walked(asid, first, from, order) {
            return;
        }
        let page = Moved { asid, vpn: first, from, order };
        if !self.moves_alone(&page) {
            return;
        }
        let region = self.region(asid, vpn);
        let request = self.request_for(asid, first, &region);
        if let Some(to) = self.placement.allocate_restricted(&mut self.memory, request, order) {
            self.move_whole(&page, to);
        }
    }

    /// Whether the page is still there, as its only mapping.
    pub(crate) fn moves_alone(&self, page: &Moved) -> bool {
        let Some(space) = self.spaces.get(page.asid.0 as usize) else { return false };
        let pages = VpnRange { start: page.vpn, pages: 1 << page.order };
        pages.iter().zip(page.from.0..).all(|(vpn, frame)| {
            let entry = space.table.get(vpn);
            entry.is_some_and(|e| e.pfn.0 == frame && e.order == page.order && !e.segment)
                && self.memory.mappings(Pfn(frame)) == 1
        })
    }

    fn move_whole(&mut self, page: &Moved, to: Pfn) {
        self.move_run(page.asid, VpnRange { start: page.vpn, pages: 1 << page.order }, to);
        self.memory.counts.restseg_moves += 1;
        self.memory.release_freed();
        self.sync_ranges(page.asid);
    }
}

impl RestSegView for Os {
    fn segs(&self) -> &[RestSeg] {
        self.placement.restsegs().map_or(&[], |restsegs| &restsegs.segments)
    }

    fn tag(&self, segment: usize, way: Way) -> Option<(Asid, Vpn)> {
        let restsegs = self.placement.restsegs()?;
        let (asid, vpn) = restsegs.placed_in(segment, way)?;
        let (entry, segment) = (self.spaces.get(asid.0 as usize)?.table.get(vpn)?, restsegs.segments[segment]);
        // A superpage that was split has entries in the page table.
        let is_whole = (entry.order >= LARGE) == (segment.order > 0);
        (entry.pfn == segment.frame(way) && is_whole).then_some((asid, vpn))
    }
}

#[cfg(test)]
mod tests;
