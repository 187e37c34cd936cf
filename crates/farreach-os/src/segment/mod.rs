//! Direct segments (DS13-10 to DS13-26): a contiguous piece of memory for the primary region of a process.
//!
//! A recorded program chose its own addresses. So its primary region is found, not given: the largest *span* of its address space in
//! which all regions are eligible ([`Primary`]), with the holes between them (eager provisioning) or without any (lazy). The segment
//! covers the part of the span for which there is memory, from the first page on (DS13-15); after each event it shrinks, grows, moves to
//! a span more than twice its size, or goes, so that it never covers a page that must be paged.
//!
//! Pages in the segment have entries in the page table all the same, marked `segment`, from their first touch on: the page table stays
//! the authority for all checks (XC-3), and the marks show that no page belongs to both (DS13-3). Hardware is told of them only by
//! the registers.
//!
//! Each process can have one, with registers of its own, and segments are resized; the prototype of the paper does neither (DS13-23).
//!
//! What the hardware hears is in the order of DS13-20 to DS13-22. Entering: data is copied, `Segment`, `Stale` for the pages; the old
//! frames are free only when the event ends (AMB-67). Leaving: the entries are there, `Segment`.

mod primary;

use super::fault::attr;
use super::page_table::Entry;
use super::region::Region;
use super::{Os, What};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::SegmentUse;
use farreach_types::translation::Segment;
use primary::Span;
pub use primary::{OnFork, Primary};

/// Frames lent at a time.
const LOAN: u64 = 512;

/// What was counted.
#[derive(Clone, Default)]
pub(super) struct Tally {
    /// Marked entries of all page tables.
    pub pages: u64,
    used: SegmentUse,
}

fn range(s: &Segment) -> VpnRange {
    VpnRange::between(s.base, s.limit)
}

/// What of `a` lies before and behind `b`.
fn without(a: VpnRange, b: VpnRange) -> [VpnRange; 2] {
    if b.pages == 0 {
        return [a, VpnRange { pages: 0, ..a }];
    }
    [VpnRange::between(a.start, a.end().min(b.start)), VpnRange::between(a.start.max(b.end()), a.end())]
}

impl Os {
    /// The segment registers as the hardware sees them.
    pub(super) fn registers(&self, asid: Asid) -> Option<Segment> {
        let hardware = self.placement.primary().is_some_and(|p| !p.emulation);
        self.spaces.get(asid.0 as usize)?.segment.filter(|_| hardware)
    }

    /// The segment of a process, also while it is emulated (DS13-25).
    pub fn segment_of(&self, asid: Asid) -> Option<Segment> {
        self.spaces.get(asid.0 as usize)?.segment
    }

    /// What direct segments did, if this system makes any.
    pub fn segment_use(&self) -> Option<SegmentUse> {
        self.placement.primary()?;
        let unused = self.memory.pool.claimed() - self.segments.pages;
        Some(SegmentUse { unused_at_end_pages: unused, ..self.segments.used.clone() })
    }

    fn note_use(&mut self) {
        let (claimed, used) = (self.memory.pool.claimed(), &mut self.segments.used);
        used.most_pages = used.most_pages.max(claimed);
        used.most_used_pages = used.most_used_pages.max(self.segments.pages);
        used.most_unused_pages = used.most_unused_pages.max(claimed - self.segments.pages);
    }

    /// The first touch of a page in the segment: its frame was there all the time. False if the page lies in none.
    pub(super) fn segment_page(&mut self, asid: Asid, vpn: Vpn) -> bool {
        let space = &self.spaces[asid.0 as usize];
        let Some(segment) = space.segment.filter(|s| range(s).contains(vpn)) else { return false };
        let Some(region) = space.regions.find(vpn).cloned() else { return false };
        if self.placement.primary().is_some_and(|p| p.emulation) {
            self.memory.counts.page_faults += 1;
        }
        let pfn = Pfn(vpn.0 - segment.base.0 + segment.pfn.0);
        let taken = self.memory.pool.take(pfn);
        assert!(taken, "a frame of the segment serves another page");
        self.memory.fill(region.object, region.page_of(vpn), pfn);
        let entry = Entry { pfn, label: region.label, attr: attr(region.prot, false), ..Entry::default() };
        self.map_page(asid, vpn, Entry { present: true, segment: true, ..entry });
        self.note_use();
        true
    }

    /// A fault gave a page inside the segment to paging (a stray reference into a hole): the segment gives way.
    pub(super) fn keep_out_of_segment(&mut self, asid: Asid, vpn: Vpn) {
        let space = &self.spaces[asid.0 as usize];
        if space.segment.is_some_and(|s| range(&s).contains(vpn)) && !space.table.get(vpn).is_some_and(|e| e.segment) {
            self.shape_segment(asid);
        }
    }

    /// After an event: the segment of the process becomes what it should be.
    pub(super) fn shape_segment(&mut self, asid: Asid) {
        let Some(primary) = self.placement.primary().cloned() else { return };
        self.sample(asid, &primary);
        let spans = self.spans(asid, &primary);
        if let Some(segment) = self.spaces[asid.0 as usize].segment {
            let parts = spans.iter().map(|s| s.range.and(range(&segment)));
            let kept = parts.max_by_key(|part| (part.pages, std::cmp::Reverse(part.start)));
            self.cut(asid, kept.filter(|part| part.pages > 0));
        }
        let room = || self.memory.pool.open().map(|(_, n)| n).max().unwrap_or(0);
        let best = spans.iter().max_by_key(|s| (s.pages, std::cmp::Reverse(s.range.start))).copied();
        if let Some(segment) = self.spaces[asid.0 as usize].segment {
            let now = range(&segment);
            if best.is_some_and(|b| !b.range.overlaps(&now) && b.pages > 2 * now.pages && room() > 2 * now.pages) {
                self.cut(asid, None);
            } else if let Some(span) = spans.iter().find(|s| s.range.overlaps(&now)) {
                self.grow(asid, span.range);
            }
        }
        if let Some(span) = best
            && self.spaces[asid.0 as usize].segment.is_none()
            && self.admitted(asid, &span, &primary)
        {
            self.create(asid, &span);
        }
        self.note_use();
    }

    /// DS13-15, DS13-16.
    fn create(&mut self, asid: Asid, span: &Span) {
        let largest = self.memory.pool.open().max_by_key(|&(first, n)| (n, std::cmp::Reverse(first)));
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

    /// DS13-21: as far as the memory beyond either end is free, or holds the very pages.
    fn grow(&mut self, asid: Asid, span: VpnRange) {
        let old = self.spaces[asid.0 as usize].segment.expect("what grows is there");
        let end = Pfn(old.pfn.0 + (old.limit.0 - old.base.0));
        let serves = |vpn: Vpn, frame: u64| {
            let pool = &self.memory.pool;
            let entry = self.spaces[asid.0 as usize].table.get(vpn);
            let there = entry.is_some_and(|e| e.pfn.0 == frame && self.memory.mappings(e.pfn) == 1);
            pool.unclaimed(frame) && (pool.is_free(frame) || there)
        };
        let above = (0..span.end().0 - old.limit.0).take_while(|i| serves(Vpn(old.limit.0 + i), end.0 + i)).count() as u64;
        let below = (1..=old.base.0 - span.start.0)
            .take_while(|i| old.pfn.0.checked_sub(*i).is_some_and(|frame| serves(Vpn(old.base.0 - i), frame)))
            .count() as u64;
        if above + below > 0 {
            self.segments.used.grown += 1;
            let (base, limit) = (Vpn(old.base.0 - below), Vpn(old.limit.0 + above));
            self.set(asid, Some(Segment { base, limit, pfn: Pfn(old.pfn.0 - below) }));
        }
    }

    /// Leaves of the segment only the part `kept` (DS13-22).
    fn cut(&mut self, asid: Asid, kept: Option<VpnRange>) {
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

    /// Gives the process other registers: shrinks, grows, begins or ends its segment. Old and new give a page in both the same frame.
    fn set(&mut self, asid: Asid, new: Option<Segment>) {
        let old = std::mem::replace(&mut self.spaces[asid.0 as usize].segment, new);
        let nothing = VpnRange { start: Vpn(0), pages: 0 };
        let (before, after) = (old.map_or(nothing, |s| range(&s)), new.map_or(nothing, |s| range(&s)));
        if let Some(old) = old {
            self.memory.pool.release(old.pfn);
            for vpn in self.mapped_in_all(asid, without(before, after)) {
                // A stray page that made the segment give way was never in it.
                let was = self.spaces[asid.0 as usize].table.update(vpn, |entry| std::mem::take(&mut entry.segment));
                let marked = u64::from(was.expect("just listed"));
                self.segments.pages -= marked;
                self.segments.used.reverted_pages += marked;
            }
        }
        if let Some(new) = new {
            self.memory.pool.claim(new.pfn, new.limit.0 - new.base.0);
        }
        // Registers first, then the flush of what they cover now.
        let whole = [before, after].into_iter().filter(|r| r.pages > 0);
        let whole = whole.reduce(|a, b| VpnRange::between(a.start.min(b.start), a.end().max(b.end())));
        if self.placement.primary().is_some_and(|p| !p.emulation) {
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

    /// A paged page goes to its place in the segment (DS13-20).
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
        let attr = attr(region.prot, false);
        let converted = self.spaces[asid.0 as usize].table.update(vpn, |entry| {
            (entry.segment, entry.cow, entry.attr) = (true, false, attr);
        });
        converted.expect("still mapped");
        self.segments.pages += 1;
        self.ranges_changed(asid, &[vpn]);
        self.change(asid, VpnRange::one(vpn), What::Stale);
    }

    /// Pages are about to move elsewhere in the address space with their frames: the segment keeps the larger part beside them.
    pub(super) fn leave_segment(&mut self, asid: Asid, pages: VpnRange) {
        let Some(segment) = self.space(asid).segment.filter(|s| range(s).overlaps(&pages)) else { return };
        let (before, after) = (VpnRange::between(segment.base, pages.start), VpnRange::between(pages.end(), segment.limit));
        let kept = if before.pages >= after.pages { before } else { after };
        self.cut(asid, Some(kept).filter(|part| part.pages > 0));
    }

    /// AMB-64.
    pub(super) fn segment_before_fork(&mut self, asid: Asid, child: Asid) {
        let Some(primary) = self.placement.primary() else { return };
        let marked = self.segments.pages;
        let fits = self.memory.alloc.free_frames().is_none_or(|free| free >= marked);
        if primary.on_fork == OnFork::Copy && fits && self.space(asid).segment.is_some() {
            return;
        }
        self.cut(asid, None);
        self.space(asid).paged_for.push(child);
    }

    /// At fork, a page of a segment that stays: the child gets a copy. False for other pages.
    pub(super) fn copy_from_segment(&mut self, asid: Asid, vpn: Vpn, child: Asid, region: &Region) -> Option<Pfn> {
        if !self.spaces[asid.0 as usize].table.get(vpn)?.segment {
            return None;
        }
        let pfn = self.memory.ordinary(vpn).expect("there was room before the fork");
        self.memory.counts.cow_copies += 1;
        let object = self.spaces[child.0 as usize].regions.find(vpn).expect("the child has the same regions").object;
        self.memory.fill_nameless(pfn);
        self.memory.rename(object, region.page_of(vpn), pfn);
        let entry = Entry { pfn, label: region.label, attr: attr(region.prot, false), present: true, ..Entry::default() };
        self.map_page(child, vpn, entry);
        Some(pfn)
    }

    /// A process ends (DS13-18); those that wait for it may have segments again, from their next event on.
    pub(super) fn segment_end(&mut self, asid: Asid) {
        if self.placement.primary().is_some() {
            self.cut(asid, None);
            self.spaces.iter_mut().for_each(|s| s.paged_for.retain(|child| *child != asid));
        }
    }

    /// Memory is full: frames set aside for segments go back to the allocator for good. If all are claimed, the segment with the longest
    /// unused end shrinks first (DS13-22).
    pub(super) fn lend_from_pool(&mut self) -> bool {
        if !self.placement.primary().is_some_and(|p| p.lend) {
            return false;
        }
        if self.memory.pool.open().next().is_none() {
            let unused = |(i, space): (usize, &super::Space)| {
                let segment = space.segment?;
                let last = space.table.runs_in(range(&segment)).last().map_or(segment.base.0, |run| run.first.0 + run.pages);
                Some((segment.limit.0 - last, std::cmp::Reverse(i), VpnRange::between(segment.base, Vpn(last))))
            };
            let longest = self.spaces.iter().enumerate().filter_map(unused).max_by_key(|u| (u.0, u.1));
            let Some((1.., std::cmp::Reverse(i), kept)) = longest else { return false };
            self.cut(Asid(i as u32), Some(kept).filter(|part| part.pages > 0));
        }
        let Some((first, n)) = self.memory.pool.open().last() else { return false };
        let loan = n.min(LOAN);
        self.segments.used.lent_pages += loan;
        for frame in first + n - loan..first + n {
            self.memory.pool.remove(Pfn(frame));
            self.memory.alloc.free(Pfn(frame));
        }
        true
    }

    /// Panics unless every page belongs to the segment or to paging, never to both (DS13-3), and segments have what they claim.
    pub(super) fn check_segments(&self) {
        if self.placement.primary().is_none() {
            return;
        }
        let (mut marked, mut claimed) = (0, 0);
        for space in &self.spaces {
            claimed += space.segment.map_or(0, |s| range(&s).pages);
            for vpn in space.table.mapped_in(self.all_pages()) {
                let entry = space.table.get(vpn).expect("just listed");
                let frame = space.segment.filter(|s| range(s).contains(vpn)).map(|s| Pfn(vpn.0 - s.base.0 + s.pfn.0));
                assert_eq!(entry.segment, frame.is_some(), "{vpn:?} belongs to the segment or to paging");
                assert!(frame.is_none_or(|f| f == entry.pfn), "{vpn:?} lies elsewhere than the registers say");
                marked += u64::from(entry.segment);
            }
        }
        assert_eq!((marked, claimed), (self.segments.pages, self.memory.pool.claimed()));
    }
}
