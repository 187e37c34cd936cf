//! mremap: pages move to other addresses, with their frames.

use crate::object::ObjectKind;
use crate::os::Os;
use crate::region::Region;
use farreach_types::addr::{Asid, Vpn, VpnRange};

impl Os {
    /// mremap: the frames move with their pages. Superpages are split, unless the policy keeps those whose alignment
    /// does not change.
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
        let mut whole: Vec<VpnRange> = Vec::new();
        for &vpn in &moved {
            // What does not move as a whole is split, perhaps into superpages that do.
            while let Some(order) = self.space(asid).table.get(vpn).map(|e| u32::from(e.order)).filter(|o| *o > 0) {
                let group = VpnRange { start: vpn.align_down(order), pages: 1 << order };
                let aligned = start.0.wrapping_sub(from.start.0).is_multiple_of(group.pages);
                if self.placement.moves_superpages() && aligned && group.and(from) == group {
                    self.keep_census(asid);
                    self.spaces[asid.0 as usize].table.set_order(group, 0);
                    whole.push(group);
                } else {
                    self.split(asid, vpn);
                }
            }
        }
        self.stale(asid, &moved);
        self.daemons_see_unmap(asid, from);
        self.tell_daemons(|daemon, _| daemon.left(asid, from));
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
        for group in whole {
            let (table, placed) =
                (&mut self.spaces[asid.0 as usize].table, VpnRange { start: to(group.start), ..group });
            table.set_order(placed, group.pages.trailing_zeros() as u8);
            table.pack(placed);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use farreach_types::addr::Asid;
    use farreach_types::event::Op;

    #[test]
    fn lnx_20_mremap_moves_a_superpage_to_an_aligned_place() {
        let mut os = os("linux", "memory=16M,address_ordered=true,thp_size=64K,mthp_always=16K,pages_to_scan=0");
        map(&mut os, 16, 36);
        let frames = [store(&mut os, 18), store(&mut os, 33), store(&mut os, 48)];
        let mut remap = |old: u64, new: u64| {
            let len = 36 << 12;
            os.apply(Asid(0), &Op::Remap { old_start: old << 12, old_len: len, new_start: new << 12, new_len: len });
            os.check();
            ([0, 16, 32].map(|at| order(&os, 0, new + at)), os.counts().demotions)
        };
        assert_eq!(remap(16, 160), ([4, 4, 2], 0));
        assert_eq!(remap(160, 324), ([0, 0, 2], 2), "16 KB are aligned still");
        assert_eq!([326, 341, 356].map(|vpn| load(&mut os, vpn)), frames);
    }
}
