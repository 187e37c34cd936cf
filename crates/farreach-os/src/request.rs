//! Eager paging: memory that gets its frames when it is requested, not when it is touched (RMM15-23).

use crate::os::Os;
use crate::page_table::entry::{Entry, attributes};
use crate::placement::contract::{Asked, Asking, EagerGrant};
use crate::region::Region;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Prot;

impl Os {
    /// The program requested a region of anonymous memory, and none of it is mapped. The policy may give it frames now.
    /// Inaccessible address space (PROT_NONE) is no request for memory.
    pub(super) fn request(&mut self, asid: Asid, range: VpnRange) {
        self.ask(asid, range, Asking::Call);
    }

    /// Pages are advised to have superpages. If they are one piece of private memory, that is a request for them.
    pub(super) fn request_advised(&mut self, asid: Asid, range: VpnRange) {
        let private = |region: &Region| self.memory.objects.get(region.object).private;
        let whole = self.spaces[asid.0 as usize].regions.find(range.start);
        if whole.is_some_and(|region| region.range.and(range) == range && private(region)) {
            self.ask(asid, range, Asking::Advice);
        }
    }

    /// A page is touched that is not mapped. Whether it is mapped now, because it was the first of a request that
    /// waited for its touch (EGR-1). What is no longer there of the request, or in other regions, is not served.
    pub(super) fn request_touched(&mut self, asid: Asid, vpn: Vpn, region: &Region) -> bool {
        let Some(range) = self.placement.request_at(asid, vpn) else { return false };
        self.ask(asid, range.and(region.range), Asking::Touch);
        self.spaces[asid.0 as usize].table.get(vpn).is_some()
    }

    fn ask(&mut self, asid: Asid, range: VpnRange, when: Asking) {
        let region = self.region(asid, range.start);
        let (first, end) = (region.page_of(range.start), region.page_of(range.start) + range.pages);
        let object = self.memory.objects.get(region.object);
        // If another mapper has pages of it already, those pages keep their frames.
        let begun = object.page_index.any_in(first..end);
        if object.kind.is_file() || region.prot == Prot::NONE || begun {
            return;
        }
        let asked = Asked { asid, range, when, advice: self.huge_advice(asid, &region) };
        let (blocks, order) = loop {
            match self.placement.allocate_eagerly(&mut self.memory, asked) {
                EagerGrant::Now(blocks) => break (blocks, 0),
                EagerGrant::Reserved(blocks) => {
                    let frames = blocks.into_iter().flat_map(|(base, n)| base.0..base.0 + n);
                    let pages = region.page_of(range.start)..;
                    return pages
                        .zip(frames)
                        .for_each(|(page, pfn)| self.memory.reserve(region.object, page, Pfn(pfn)));
                }
                EagerGrant::Superpages(blocks, order) => {
                    break (blocks.into_iter().map(|base| (base, 1 << order)).collect(), order);
                }
                EagerGrant::Fragmented(pages) if self.gather_for(pages) => {}
                EagerGrant::Fragmented(_) => {
                    return self.placement.request_refused(&mut self.memory);
                }
            }
        };
        // RMM15-28: accessed and modified bits are set for all; superpages have been zeroed alone.
        let dirty = order == 0;
        let entry = Entry {
            label: region.label,
            attr: attributes(region.prot, false),
            order,
            present: true,
            dirty,
            populated: true,
            ..Entry::default()
        };
        let mut vpn = range.start;
        for (base, pages) in blocks {
            self.memory.fill_run(region.object, region.page_of(vpn), base, pages);
            self.map_run(asid, VpnRange { start: vpn, pages }, Entry { pfn: base, ..entry });
            vpn = Vpn(vpn.0 + pages);
        }
        let pages = vpn.0 - range.start.0;
        if pages > 0 {
            let counts = &mut self.memory.counts;
            counts.populated_pages += pages;
            if order == 0 {
                counts.eager_requests += 1;
                counts.eager_pages += pages;
                counts.dirty_pages += pages;
            } else {
                counts.populated_in_superpages += pages;
            }
        }
    }
}
