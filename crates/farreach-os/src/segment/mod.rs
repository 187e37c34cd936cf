//! Direct segments (DS13-10 to DS13-26): a contiguous piece of memory for the primary region of a process.
//!
//! A recorded program chose its own addresses, so the system has to find its primary region. It is the largest *span*
//! of the address space in which all regions are eligible
//! ([`SegmentPolicy`](crate::placement::contract::SegmentPolicy)), with the holes between them (eager provisioning) or
//! without holes (lazy). The segment covers the part of the span for which there is memory, from the first page on
//! (DS13-15). After each event it shrinks, grows, moves to a span more than twice its size, or is removed. So it never
//! covers a page that must be paged.
//!
//! Pages in the segment have page table entries too, marked `segment`, from their first touch on. So the page table
//! stays the authority for all checks (XC-3), and the marks show that no page belongs to both (DS13-3). The hardware
//! knows these pages only by the registers.
//!
//! Each process can have a segment, with registers of its own, and segments are resized. The paper's prototype does
//! neither (DS13-23).
//!
//! Changes are reported to hardware in the order of DS13-20 to DS13-22. When pages enter: data is copied, then
//! `Segment`, then `Stale` for the pages. The old frames become free only when the event ends (AMB-67). When pages
//! leave: their entries exist before `Segment`.

mod resize;
mod spans;
pub(crate) mod tally;

use crate::os::Os;
use crate::page_table::entry::{Entry, attributes};
use crate::placement::contract::OnFork;
use crate::region::Region;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::SegmentUse;
use farreach_types::translation::Segment;
use resize::range;

impl Os {
    /// The segment registers as the hardware sees them.
    pub(crate) fn registers(&self, asid: Asid) -> Option<Segment> {
        let hardware = self.placement.segment_policy().is_some_and(|p| !p.emulation);
        self.spaces.get(asid.0 as usize)?.segment.filter(|_| hardware)
    }

    /// The segment of a process, also if it is emulated (DS13-25).
    pub fn segment_of(&self, asid: Asid) -> Option<Segment> {
        self.spaces.get(asid.0 as usize)?.segment
    }

    /// Counts of direct segments, if this system makes any.
    pub fn segment_use(&self) -> Option<SegmentUse> {
        self.placement.segment_policy()?;
        let unused = self.memory.pool.claimed() - self.segments.pages;
        Some(SegmentUse { unused_at_end_pages: unused, ..self.segments.used.clone() })
    }

    fn note_use(&mut self) {
        let (claimed, used) = (self.memory.pool.claimed(), &mut self.segments.used);
        used.most_pages = used.most_pages.max(claimed);
        used.most_used_pages = used.most_used_pages.max(self.segments.pages);
        used.most_unused_pages = used.most_unused_pages.max(claimed - self.segments.pages);
    }

    /// The first touch of a page in the segment, which has its frame already. False if the page lies in no segment.
    pub(crate) fn segment_page(&mut self, asid: Asid, vpn: Vpn) -> bool {
        let space = &self.spaces[asid.0 as usize];
        let Some(segment) = space.segment.filter(|s| range(s).contains(vpn)) else { return false };
        let Some(region) = space.regions.find(vpn).cloned() else { return false };
        if self.placement.segment_policy().is_some_and(|p| p.emulation) {
            self.memory.counts.page_faults += 1;
        }
        let pfn = Pfn(vpn.0 - segment.base.0 + segment.pfn.0);
        let taken = self.memory.pool.take(pfn);
        assert!(taken, "a frame of the segment serves another page");
        self.memory.fill(region.object, region.page_of(vpn), pfn);
        let entry = Entry { pfn, label: region.label, attr: attributes(region.prot, false), ..Entry::default() };
        self.map_page(asid, vpn, Entry { present: true, segment: true, ..entry });
        self.note_use();
        true
    }

    /// A fault mapped a page inside the segment by paging (a stray reference into a hole): reshapes the segment around
    /// it.
    pub(crate) fn keep_out_of_segment(&mut self, asid: Asid, vpn: Vpn) {
        let space = &self.spaces[asid.0 as usize];
        if space.segment.is_some_and(|s| range(&s).contains(vpn)) && !space.table.get(vpn).is_some_and(|e| e.segment) {
            self.shape_segment(asid);
        }
    }

    /// After an event: creates, resizes, moves or removes the segment of the process.
    pub(crate) fn shape_segment(&mut self, asid: Asid) {
        let Some(primary) = self.placement.segment_policy().cloned() else { return };
        self.sample(asid, &primary);
        let spans = self.spans(asid, &primary);
        if let Some(segment) = self.spaces[asid.0 as usize].segment {
            let parts = spans.iter().map(|s| s.range.and(range(&segment)));
            let kept = parts.max_by_key(|part| (part.pages, std::cmp::Reverse(part.start)));
            self.cut(asid, kept.filter(|part| part.pages > 0));
        }
        let room = || self.memory.pool.free_unclaimed().map(|(_, n)| n).max().unwrap_or(0);
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

    /// Pages are about to move to other addresses with their frames. The segment keeps the larger of the parts before
    /// and after them.
    pub(crate) fn leave_segment(&mut self, asid: Asid, pages: VpnRange) {
        let Some(segment) = self.space(asid).segment.filter(|s| range(s).overlaps(&pages)) else { return };
        let (before, after) =
            (VpnRange::between(segment.base, pages.start), VpnRange::between(pages.end(), segment.limit));
        let kept = if before.pages >= after.pages { before } else { after };
        self.cut(asid, Some(kept).filter(|part| part.pages > 0));
    }

    /// Before a fork: keeps or removes the parent's segment (AMB-64).
    pub(crate) fn segment_before_fork(&mut self, asid: Asid, child: Asid) {
        let Some(primary) = self.placement.segment_policy() else { return };
        let marked = self.segments.pages;
        let fits = self.memory.alloc.free_frames().is_none_or(|free| free >= marked);
        if primary.on_fork == OnFork::Copy && fits && self.space(asid).segment.is_some() {
            return;
        }
        self.cut(asid, None);
        self.space(asid).paged_until_exit_of.push(child);
    }

    /// At fork, if the parent keeps its segment: gives the child a copy of a page in it. `None` for other pages.
    pub(crate) fn copy_from_segment(&mut self, asid: Asid, vpn: Vpn, child: Asid, region: &Region) -> Option<Pfn> {
        if !self.spaces[asid.0 as usize].table.get(vpn)?.segment {
            return None;
        }
        let pfn = self.memory.alloc_frame(vpn).expect("there was room before the fork");
        self.memory.counts.cow_copies += 1;
        let object = self.spaces[child.0 as usize].regions.find(vpn).expect("the child has the same regions").object;
        self.memory.fill_nameless(pfn);
        self.memory.rename(object, region.page_of(vpn), pfn);
        let entry =
            Entry { pfn, label: region.label, attr: attributes(region.prot, false), present: true, ..Entry::default() };
        self.map_page(child, vpn, entry);
        Some(pfn)
    }

    /// A process ends (DS13-18). Processes that were paged because of it may have segments again, from their next event
    /// on.
    pub(crate) fn segment_end(&mut self, asid: Asid) {
        if self.placement.segment_policy().is_some() {
            self.cut(asid, None);
            self.spaces.iter_mut().for_each(|s| s.paged_until_exit_of.retain(|child| *child != asid));
        }
    }

    /// Panics unless every page belongs either to the segment or to paging (DS13-3), and the counters agree with the
    /// segments.
    pub(crate) fn check_segments(&self) {
        if self.placement.segment_policy().is_none() {
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
