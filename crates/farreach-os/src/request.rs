//! Eager paging: memory that gets its frames when it is requested, not when it is touched (RMM15-23).

use crate::os::Os;
use crate::page_table::entry::{Entry, attributes};
use crate::placement::contract::EagerGrant;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::event::Prot;

impl Os {
    /// The program requested a region of anonymous memory, and none of it is mapped. The policy may give it frames now.
    /// Inaccessible address space (PROT_NONE) is no request for memory.
    pub(super) fn request(&mut self, asid: Asid, range: VpnRange) {
        let region = self.region(asid, range.start);
        let (first, end) = (region.page_of(range.start), region.page_of(range.start) + range.pages);
        let object = self.memory.objects.get(region.object);
        // If another mapper has pages of it already, those pages keep their frames.
        let begun = object.page_index.any_in(first..end);
        if object.kind.is_file() || region.prot == Prot::NONE || begun {
            return;
        }
        let blocks = loop {
            match self.placement.allocate_eagerly(&mut self.memory, asid, range.pages) {
                EagerGrant::Now(blocks) => break blocks,
                EagerGrant::Fragmented if self.gather_for(range.pages) => {}
                EagerGrant::Fragmented => {
                    self.memory.counts.eager_refused += 1;
                    return;
                }
            }
        };
        // RMM15-28: accessed and modified bits are set for all.
        let entry = Entry {
            label: region.label,
            attr: attributes(region.prot, false),
            present: true,
            dirty: true,
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
            counts.eager_requests += 1;
            counts.eager_pages += pages;
            counts.populated_pages += pages;
            counts.dirty_pages += pages;
        }
    }
}
