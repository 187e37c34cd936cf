//! Changes of the registers of a process, and of the pages that enter and leave (SEG-11, SEG-12, DS13-16, DS13-20 to
//! DS13-22).

use crate::contract::What;
use crate::os::Os;
use crate::page_table::entry::attributes;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::translation::Segment;

/// The pages of a segment.
pub(super) fn range(s: &Segment) -> VpnRange {
    VpnRange::between(s.base, s.limit)
}

/// The parts of `a` before and after `b`.
pub(super) fn without(a: VpnRange, b: VpnRange) -> [VpnRange; 2] {
    if b.pages == 0 {
        return [a, VpnRange { pages: 0, ..a }];
    }
    [VpnRange::between(a.start, a.end().min(b.start)), VpnRange::between(a.start.max(b.end()), a.end())]
}

impl Os {
    /// Changes the ends of the segment of a process, or removes the segment.
    pub(super) fn resize(&mut self, asid: Asid, to: Option<VpnRange>) {
        let Some(old) = self.spaces[asid.0 as usize].segment else { return };
        let used = &mut self.segments.used;
        let Some(to) = to else {
            used.destroyed += 1;
            return self.set(asid, None);
        };
        if to == range(&old) {
            return;
        }
        used.shrunk += u64::from(to.start > old.base || to.end() < old.limit);
        used.grown += u64::from(to.start < old.base || to.end() > old.limit);
        let pfn = Pfn(old.pfn.0.wrapping_add(to.start.0.wrapping_sub(old.base.0)));
        self.set(asid, Some(Segment { base: to.start, limit: to.end(), pfn }));
    }

    /// Sets the registers of the process. A page in both the old and the new segment keeps its frame.
    pub(super) fn set(&mut self, asid: Asid, new: Option<Segment>) {
        let old = std::mem::replace(&mut self.spaces[asid.0 as usize].segment, new);
        let nothing = VpnRange { start: Vpn(0), pages: 0 };
        let (before, after) = (old.map_or(nothing, |s| range(&s)), new.map_or(nothing, |s| range(&s)));
        if let Some(old) = old {
            self.memory.pool.release(old.pfn);
            // SEG-12: their entries are there already.
            for vpn in self.mapped_in_all(asid, without(before, after)) {
                // A stray page that was mapped by paging is not marked.
                let was = self.spaces[asid.0 as usize].table.update(vpn, |entry| std::mem::take(&mut entry.segment));
                let marked = u64::from(was.expect("just listed"));
                self.segments.pages -= marked;
                self.segments.used.reverted_pages += marked;
            }
        }
        if let Some(new) = new {
            self.memory.pool.claim(new.pfn, new.limit.0 - new.base.0);
        }
        // First the registers, on all cores (SEG-18), then the flush of the pages that they cover now.
        let whole = [before, after].into_iter().filter(|r| r.pages > 0);
        let whole = whole.reduce(|a, b| VpnRange::between(a.start.min(b.start), a.end().max(b.end())));
        if self.placement.segment_policy().is_some_and(|p| !p.emulation) {
            self.change(asid, whole.expect("one of the two"), What::Segment);
        }
        if let Some(new) = new {
            for vpn in self.mapped_in_all(asid, without(after, before)) {
                self.convert(asid, vpn, Pfn(vpn.0 - new.base.0 + new.pfn.0));
            }
        }
        self.memory.release_freed();
    }

    fn mapped_in_all(&self, asid: Asid, ranges: [VpnRange; 2]) -> Vec<Vpn> {
        let table = &self.spaces[asid.0 as usize].table;
        ranges.into_iter().filter(|r| r.pages > 0).flat_map(|r| table.mapped_in(r)).collect()
    }

    /// A paged page becomes one of the segment (SEG-11, DS13-20). It is copied unless it lies in its frame already.
    fn convert(&mut self, asid: Asid, vpn: Vpn, to: Pfn) {
        let region = self.region(asid, vpn);
        self.demote(asid, vpn);
        let entry = self.spaces[asid.0 as usize].table.get(vpn).expect("only mapped pages are converted");
        if entry.pfn != to {
            let taken = self.memory.pool.take(to);
            assert!(taken, "a frame of the segment serves another page");
            self.segments.used.converted_pages += 1;
            if self.memory.mappings(entry.pfn) > 1 {
                self.own_page(asid, vpn, &region, Some(to));
            } else {
                self.move_page(asid, vpn, to);
            }
        }
        let attr = attributes(region.prot, false);
        let converted = self.spaces[asid.0 as usize].table.update(vpn, |entry| {
            (entry.segment, entry.cow, entry.attr) = (true, false, attr);
        });
        converted.expect("still mapped");
        self.segments.pages += 1;
        self.ranges_changed(asid, &[vpn]);
        self.change(asid, VpnRange::one(vpn), What::Stale);
    }
}
