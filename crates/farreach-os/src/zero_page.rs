//! Pages of zeros (LNX-2, LNX-4): a load of private anonymous memory that has no page yet maps frames of zeros, which
//! all processes share and none may store to. It takes no memory. A store replaces them.
//!
//! Where the rules are silent: a page of zeros is none of the memory that a process touched. MAP_POPULATE of memory
//! that may not be stored to maps them too, and counts nothing. What replaces them is filled with zeros, not copied.

use crate::contract::{OutOfMemory, What};
use crate::frames::numbers;
use crate::huge::inside;
use crate::os::Os;
use crate::page_table::entry::{Entry, attributes};
use crate::placement::contract::FrameRequest;
use crate::region::Region;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;

impl Os {
    /// Whether a page is mapped to a frame of zeros.
    pub(crate) fn is_zeros(&self, asid: Asid, vpn: Vpn) -> bool {
        self.spaces[asid.0 as usize].table.get(vpn).is_some_and(|entry| numbers::is_zeros(entry.pfn))
    }

    /// Whether a fault of a load may map zeros, so that it matters if its instruction also stores.
    pub fn has_pages_of_zeros(&self) -> bool {
        self.placement.zero_page().is_some()
    }

    /// Whether a page is mapped to memory.
    pub(crate) fn has_memory(&self, asid: Asid, vpn: Vpn) -> bool {
        self.spaces[asid.0 as usize].table.get(vpn).is_some_and(|entry| !numbers::is_zeros(entry.pfn))
    }

    /// Serves the fault of a load with zeros, if the policy has such pages: a superpage of them where one would do
    /// (LNX-2), else one page (LNX-4).
    pub(crate) fn zeros_fault(&mut self, asid: Asid, vpn: Vpn, region: &Region, kind: Kind) -> bool {
        let Some((order, of_zeros)) = self.placement.zero_page() else { return false };
        let object = self.memory.objects.get(region.object);
        let page = region.page_of(vpn);
        if kind == Kind::Store || !object.private || object.kind.is_file() || object.page_index.any_in(page..page + 1) {
            return false;
        }
        let advice = self.huge_advice(asid, region);
        let request = self.request_for(asid, vpn, region);
        let group = VpnRange { start: vpn.align_down(order.into()), pages: 1 << order };
        let empty = || {
            let first = region.page_of(group.start);
            !object.page_index.any_in(first..first + group.pages) && !self.spaces[asid.0 as usize].table.any_in(group)
        };
        let large = self.placement.superpage_orders(&self.memory, region, request, advice).contains(&order)
            && inside(group, region.range)
            && empty();
        if large && of_zeros {
            self.memory.zero_faults.1 += 1;
            self.map_zeros(asid, group, region);
            return true;
        }
        if large {
            // A superpage of memory, as for a store.
            let first = FrameRequest { vpn: group.start, page: region.page_of(group.start), ..request };
            self.memory.alloc.prefer_zeroed(true);
            if let Some(base) = self.superpage_block(first, order, self.placement.effort(advice, order)) {
                self.map_superpage(asid, vpn, group, region, base);
                return true;
            }
            self.memory.counts.superpage_fallbacks += 1;
        }
        self.memory.zero_faults.0 += 1;
        self.map_zeros(asid, VpnRange::one(vpn), region);
        true
    }

    /// Maps a page or an aligned group of pages to zeros.
    pub(crate) fn map_zeros(&mut self, asid: Asid, pages: VpnRange, region: &Region) {
        let (label, attr, order) = (region.label, attributes(region.prot, true), pages.pages.trailing_zeros() as u8);
        let pfn = Pfn(numbers::ZEROS);
        self.map_run(asid, pages, Entry { pfn, label, attr, order, cow: true, present: true, ..Entry::default() });
    }

    /// A store to a page of zeros: a superpage of them is replaced as a whole, or split if there is no block (LNX-2) or
    /// its region was cut since.
    pub(crate) fn replace_zeros(&mut self, asid: Asid, vpn: Vpn, region: &Region) -> Result<(), OutOfMemory> {
        let order = self.spaces[asid.0 as usize].table.get(vpn).map_or(0, |entry| entry.order);
        let request = self.request_for(asid, vpn, region);
        let group = VpnRange { start: vpn.align_down(order.into()), pages: 1 << order };
        if order > 0 && inside(group, region.range) {
            let effort = self.placement.effort(self.huge_advice(asid, region), order);
            let first = FrameRequest { vpn: group.start, page: region.page_of(group.start), ..request };
            self.memory.alloc.prefer_zeroed(true);
            if let Some(base) = self.superpage_block(first, order, effort) {
                self.unmap_range(asid, group);
                self.map_superpage(asid, vpn, group, region, base);
                self.change(asid, group, What::Stale);
                return Ok(());
            }
            self.memory.counts.superpage_fallbacks += 1;
        }
        self.demote(asid, vpn);
        let pfn = self.object_frame(request)?;
        self.map_in_place_of_zeros(asid, vpn, region, pfn);
        Ok(())
    }

    /// A store to a shared page, whose zeros were given up while room was made for its copy (LNX-22), makes this frame
    /// its own.
    pub(crate) fn own_zeros(&mut self, asid: Asid, vpn: Vpn, region: &Region, pfn: Pfn) {
        self.memory.counts.cow_copies += 1;
        self.memory.fill_nameless(pfn, None);
        self.memory.rename(region.object, region.page_of(vpn), pfn);
        self.map_in_place_of_zeros(asid, vpn, region, pfn);
    }

    /// Maps memory where there is no page, or one of zeros.
    fn map_in_place_of_zeros(&mut self, asid: Asid, vpn: Vpn, region: &Region, pfn: Pfn) {
        if self.is_zeros(asid, vpn) {
            self.unmap_page(asid, vpn);
            self.change(asid, VpnRange::one(vpn), What::Stale);
        }
        let (label, attr) = (region.label, attributes(region.prot, false));
        self.map_page(asid, vpn, Entry { pfn, label, attr, present: true, ..Entry::default() });
    }
}
