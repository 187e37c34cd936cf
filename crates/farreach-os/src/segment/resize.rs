//! Making, growing, shrinking and ending segments (DS13-15, DS13-16, DS13-20 to DS13-22).

use super::spans::Span;
use crate::contract::What;
use crate::os::Os;
use crate::page_table::entry::attributes;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::translation::Segment;

/// Frames returned to the allocator at a time.
const LOAN: u64 = 512;

/// The pages of a segment.
pub(super) fn range(s: &Segment) -> VpnRange {
    VpnRange::between(s.base, s.limit)
}

/// The parts of `a` before and after `b`.
fn without(a: VpnRange, b: VpnRange) -> [VpnRange; 2] {
    if b.pages == 0 {
        return [a, VpnRange { pages: 0, ..a }];
    }
    [VpnRange::between(a.start, a.end().min(b.start)), VpnRange::between(a.start.max(b.end()), a.end())]
}

impl Os {
    /// Creates a segment for a span, in the largest free run of the pool (DS13-15, DS13-16).
    pub(super) fn create(&mut self, asid: Asid, span: &Span) {
        let largest = self.memory.pool.free_unclaimed().max_by_key(|&(first, n)| (n, std::cmp::Reverse(first)));
        let Some((first, n)) = largest else {
            self.segments.used.refused += 1;
            return;
        };
        let pages = span.range.pages.min(n);
        self.segments.used.created += 1;
        self.segments.used.first_part += u64::from(pages < span.range.pages);
        let pfn = Pfn(if span.heap { first } else { first + n - pages });
        let base = span.range.start;
        self.set(asid, Some(Segment { base, limit: Vpn(base.0 + pages), pfn }));
    }

    /// Grows the segment at both ends, as far as the next frames are free or already hold the right pages (DS13-21).
    pub(super) fn grow(&mut self, asid: Asid, span: VpnRange) {
        let old = self.spaces[asid.0 as usize].segment.expect("what grows is there");
        let end = Pfn(old.pfn.0 + (old.limit.0 - old.base.0));
        let serves = |vpn: Vpn, frame: u64| {
            let pool = &self.memory.pool;
            let entry = self.spaces[asid.0 as usize].table.get(vpn);
            let there = entry.is_some_and(|e| e.pfn.0 == frame && self.memory.mappings(e.pfn) == 1);
            pool.unclaimed(frame) && (pool.is_free(frame) || there)
        };
        let above =
            (0..span.end().0 - old.limit.0).take_while(|i| serves(Vpn(old.limit.0 + i), end.0 + i)).count() as u64;
        let below = (1..=old.base.0 - span.start.0)
            .take_while(|i| old.pfn.0.checked_sub(*i).is_some_and(|frame| serves(Vpn(old.base.0 - i), frame)))
            .count() as u64;
        if above + below > 0 {
            self.segments.used.grown += 1;
            let (base, limit) = (Vpn(old.base.0 - below), Vpn(old.limit.0 + above));
            self.set(asid, Some(Segment { base, limit, pfn: Pfn(old.pfn.0 - below) }));
        }
    }

    /// Shrinks the segment to `kept`, or removes it (DS13-22).
    pub(super) fn cut(&mut self, asid: Asid, kept: Option<VpnRange>) {
        let Some(old) = self.spaces[asid.0 as usize].segment else { return };
        match kept {
            Some(part) if part == range(&old) => {}
            Some(part) => {
                self.segments.used.shrunk += 1;
                let pfn = Pfn(old.pfn.0 + (part.start.0 - old.base.0));
                self.set(asid, Some(Segment { base: part.start, limit: part.end(), pfn }));
            }
            None => {
                self.segments.used.destroyed += 1;
                self.set(asid, None);
            }
        }
    }

    /// Sets the registers of the process. A page in both the old and the new segment keeps its frame.
    fn set(&mut self, asid: Asid, new: Option<Segment>) {
        let old = std::mem::replace(&mut self.spaces[asid.0 as usize].segment, new);
        let nothing = VpnRange { start: Vpn(0), pages: 0 };
        let (before, after) = (old.map_or(nothing, |s| range(&s)), new.map_or(nothing, |s| range(&s)));
        if let Some(old) = old {
            self.memory.pool.release(old.pfn);
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
        // First the registers, then the flush of the pages that they cover now.
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

    /// Moves a paged page to its frame in the segment (DS13-20).
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

    /// Memory is full: returns frames set aside for segments to the allocator, for good. If all are claimed, the
    /// segment with the longest unused end shrinks first (DS13-22).
    pub(crate) fn lend_from_pool(&mut self) -> bool {
        if !self.placement.segment_policy().is_some_and(|p| p.lend) {
            return false;
        }
        if self.memory.pool.free_unclaimed().next().is_none() {
            let unused = |(i, space): (usize, &crate::space::Space)| {
                let segment = space.segment?;
                let last =
                    space.table.runs_in(range(&segment)).last().map_or(segment.base.0, |run| run.first.0 + run.pages);
                Some((segment.limit.0 - last, std::cmp::Reverse(i), VpnRange::between(segment.base, Vpn(last))))
            };
            let longest = self.spaces.iter().enumerate().filter_map(unused).max_by_key(|u| (u.0, u.1));
            let Some((1.., std::cmp::Reverse(i), kept)) = longest else { return false };
            self.cut(Asid(i as u32), Some(kept).filter(|part| part.pages > 0));
        }
        let Some((first, n)) = self.memory.pool.free_unclaimed().last() else { return false };
        let loan = n.min(LOAN);
        self.segments.used.lent_pages += loan;
        for frame in first + n - loan..first + n {
            self.memory.pool.remove(Pfn(frame));
            self.memory.alloc.free(Pfn(frame));
        }
        true
    }
}
