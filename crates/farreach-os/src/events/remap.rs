//! mremap: pages move to other addresses, with their frames.

use crate::object::ObjectKind;
use crate::os::Os;
use crate::region::Region;
use farreach_types::addr::{Asid, Vpn, VpnRange};

impl Os {
    /// mremap: the frames move with their pages; superpages are split, because their virtual alignment changes.
    pub(crate) fn remap(&mut self, asid: Asid, old: VpnRange, new: VpnRange) {
        // SEG-15: pages that keep their addresses stay in the segment.
        if old.start != new.start {
            self.leave_segment(asid, old);
            self.leave_segment(asid, new);
        }
        // The region in which the old range ends grows. There may be none, if the trace has no mapping there.
        let last = Vpn(old.start.0 + old.pages.saturating_sub(1));
        let source = self.space(asid).regions.find(last).cloned();
        let keep = VpnRange { start: old.start, pages: old.pages.min(new.pages) };
        // The object must not be destroyed while the old place is emptied.
        if let Some(source) = &source {
            self.memory.objects.get_mut(source.object).mappers += 1;
        }
        self.unmap(asid, VpnRange::between(keep.end(), old.end()));
        if old.start == new.start {
            self.unmap(asid, VpnRange::between(keep.end(), new.end()));
        } else {
            self.unmap(asid, new);
            self.relocate(asid, keep, new.start);
        }
        let Some(source) = source else { return };
        if new.pages > keep.pages {
            // The pages requested beyond the old length; all of them, for a mapping duplicated with old length 0.
            let range = VpnRange::between(Vpn(new.start.0 + keep.pages), new.end());
            let (mut object, mut first_page) = (source.object, source.page_of(last) + old.pages.min(1));
            let known = self.memory.objects.get(object);
            if known.private && known.contains_any(first_page, range.pages) {
                // The next pages of the private object are mapped elsewhere: the new pages are an object of their own.
                object = self.memory.objects.create(ObjectKind::Anonymous, None, true, 0);
                first_page = range.start.0;
            }
            self.insert(asid, Region { range, object, first_page, ..source.clone() });
            if !self.labels.is_stack_or_kernel(source.label) {
                self.request(asid, range);
            }
        }
        self.memory.drop_mapper(source.object);
    }

    /// Moves regions and translations to another place, which is empty.
    fn relocate(&mut self, asid: Asid, from: VpnRange, start: Vpn) {
        let to = |vpn: Vpn| Vpn(vpn.0 - from.start.0 + start.0);
        let moved = self.space(asid).table.mapped_in(from);
        for &vpn in &moved {
            self.demote(asid, vpn);
        }
        self.stale(asid, &moved);
        self.ranges_unmapped(asid, from);
        for piece in self.take(asid, from) {
            let range = VpnRange { start: to(piece.range.start), pages: piece.range.pages };
            self.put(asid, Region { range, ..piece });
        }
        for vpn in moved {
            let entry = self.remove_entry(asid, vpn).expect("just listed");
            self.memory.unmap_keeping_frame(entry.pfn);
            self.map_page(asid, to(vpn), entry);
        }
    }
}
