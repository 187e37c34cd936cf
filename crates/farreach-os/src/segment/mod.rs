//! Direct segments (DS13-10 to DS13-26): a contiguous piece of memory for the primary region of a process.
//!
//! The book's page on physical memory lists the rules (SEG-1 to SEG-20) that this module follows:
//!
//! * `windows`: which memory is eligible, and which part of it is best;
//! * `shape`: when a segment shrinks, grows, moves or is created;
//! * `resize`: changes of the registers, and of pages that enter and leave;
//! * `lend`: unused frames become ordinary when memory is full;
//! * here: first touches (SEG-13), fork (SEG-14), the end of a process (SEG-17).
//!
//! Each process can have a segment, with registers of its own, and segments are resized (SEG-18). The paper's prototype
//! does neither (DS13-23). Pages in the segment have page table entries too, marked `segment` (SEG-19).
//!
//! Changes are reported to hardware in the order of DS13-20 to DS13-22. When pages enter: data is copied, then
//! `Segment`, then `Stale` for the pages. The old frames become free only when the event ends (AMB-67). When pages
//! leave: their entries exist before `Segment`.

mod lend;
mod resize;
mod shape;
pub(crate) mod tally;
mod windows;

use crate::os::Os;
use crate::page_table::entry::{Entry, attributes};
use crate::placement::contract::OnFork;
use crate::region::Region;
use farreach_types::addr::{Asid, Pfn, Vpn};
use farreach_types::counts::SegmentUse;
use farreach_types::translation::Segment;
use resize::range;

impl Os {
    /// The segment registers as the hardware sees them.
    pub(crate) fn registers(&self, asid: Asid) -> Option<Segment> {
        let hardware = self.placement.segment_policy().is_some_and(|p| !p.emulation);
        self.spaces.get(asid.0 as usize)?.segment.filter(|_| hardware)
    }

    /// The segment of a process, also if it is emulated (SEG-20, DS13-25).
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

    /// The first touch of a page in the segment, which has its frame already (SEG-13). False if the page lies in no
    /// segment.
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
    /// it (SEG-6).
    pub(crate) fn keep_out_of_segment(&mut self, asid: Asid, vpn: Vpn) {
        let space = &self.spaces[asid.0 as usize];
        if space.segment.is_some_and(|s| range(&s).contains(vpn)) && !space.table.get(vpn).is_some_and(|e| e.segment) {
            self.shape_segment(asid);
        }
    }

    /// Before a fork (SEG-14, AMB-64): the parent keeps its segment if the child can get copies of its pages, otherwise
    /// it has none until the child has ended.
    pub(crate) fn segment_before_fork(&mut self, asid: Asid, child: Asid) {
        let Some(policy) = self.placement.segment_policy() else { return };
        let copies = policy.on_fork == OnFork::Copy;
        let space = self.space(asid);
        let marked = space.segment.map_or(0, |s| space.table.runs_in(range(&s)).iter().map(|run| run.pages).sum());
        if copies && self.memory.alloc.free_frames().is_none_or(|free| free >= marked) {
            return;
        }
        self.resize(asid, None);
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
        self.memory.fill_nameless(pfn, None);
        self.memory.rename(object, region.page_of(vpn), pfn);
        let entry =
            Entry { pfn, label: region.label, attr: attributes(region.prot, false), present: true, ..Entry::default() };
        self.map_page(child, vpn, entry);
        Some(pfn)
    }

    /// A process ends (SEG-17, DS13-18). Processes that were paged because of it may have segments again, from their
    /// next event on.
    pub(crate) fn segment_end(&mut self, asid: Asid) {
        if self.placement.segment_policy().is_some() {
            self.resize(asid, None);
            self.spaces.iter_mut().for_each(|s| s.paged_until_exit_of.retain(|child| *child != asid));
        }
    }

    /// Panics unless every page belongs either to the segment or to paging (SEG-19, DS13-3), and the counters agree
    /// with the segments.
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
                assert!(!entry.segment || entry.order == 0, "{vpn:?} of the segment is in a superpage");
                marked += u64::from(entry.segment);
            }
        }
        assert_eq!((marked, claimed), (self.segments.pages, self.memory.pool.claimed()));
    }
}
