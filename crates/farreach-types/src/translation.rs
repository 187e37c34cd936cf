//! Translations, as the operating system states them and the hardware caches them: page table entries, ranges,
//! segments, and the view of a page table through which a miss handler reads them.

use crate::addr::{Asid, Pfn, Vpn, VpnRange};
use crate::restseg::{RestSeg, RestSegView, Way};

/// Attributes of a mapping (T94-1: 8 bits). Two pages can share an entry only if theirs are equal (T94-7).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub struct Attr(pub u8);

impl Attr {
    /// Loads allowed.
    pub const READ: u8 = 1;
    /// Stores allowed at once (a copy-on-write page lacks it until it is copied).
    pub const WRITE: u8 = 2;
    /// Fetches allowed.
    pub const EXEC: u8 = 4;
}

/// A page table entry as a miss handler reads it: always the view of one base page (T94-56).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pte {
    /// Frame of this base page.
    pub pfn: Pfn,
    /// Attributes.
    pub attr: Attr,
    /// log2 of the base pages in the mapping this page is part of: 0 for a base page, 4 for a 64 KB superpage. For an
    /// order above 0, VPN and PFN are congruent modulo `2^order`, and all pages of the group have the same attributes.
    pub order: u8,
}

/// A superpage of 2 MB with holes (PRF-1): base pages, most of which lie where a superpage at this frame would have
/// them. A hole lies elsewhere, or is not mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Perforated {
    /// The frame of its first page, a multiple of its pages.
    pub pfn: Pfn,
    /// Attributes of the pages that are no holes.
    pub attr: Attr,
    /// A bit for each page, that of the first page first: set for a hole.
    pub holes: [u64; 8],
}

impl Perforated {
    /// log2 of its pages.
    pub const ORDER: u8 = 9;
    /// log2 of the pages of a group, eight of which have a bit each in a filter.
    pub const GROUP: u8 = 6;

    /// Whether a page of it is a hole.
    #[inline]
    pub fn is_hole(&self, vpn: Vpn) -> bool {
        let at = vpn.offset_in(Perforated::ORDER.into());
        self.holes[(at / 64) as usize] >> (at % 64) & 1 == 1
    }

    /// A bit for each 64 pages, that of the first first: set if there is a hole among them.
    pub fn filter(&self) -> u8 {
        (0..8).map(|group| u8::from(self.holes[group] != 0) << group).sum()
    }
}

/// Where a miss handler reads page table entries. Reading never faults: a page that is not mapped has none.
///
/// This is what hardware may ask the operating system. Every system has a page table. Tables that only some systems
/// keep are traits of their own, whose default is an empty table.
pub trait PageTableView {
    /// The entry of one base page.
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte>;
    /// Whether one of these pages is mapped. By default they are looked at one by one.
    fn any_mapped(&self, asid: Asid, pages: VpnRange) -> bool {
        pages.iter().any(|vpn| self.pte(asid, vpn).is_some())
    }
    /// Of a page that is not mapped, the level of a radix tree of 4 KB nodes whose entry on the way to it is the first
    /// that is absent: 0 where its page table exists, 1 where its page directory does, and so on.
    fn absent_at(&self, asid: Asid, vpn: Vpn) -> u8 {
        let exists = |level: &u8| {
            let order = 9 * (u32::from(*level) + 1);
            self.any_mapped(asid, VpnRange { start: vpn.align_down(order), pages: 1 << order })
        };
        (0..4).find(exists).unwrap_or(4)
    }
    /// The first frame of the reservation of 2 MB in which the system placed this page: the reserved mark of its entry
    /// (SPT-3). Of a page that was placed elsewhere, there is none.
    fn reservation(&self, asid: Asid, vpn: Vpn) -> Option<Pfn> {
        let _ = (asid, vpn);
        None
    }
    /// The superpage with holes that has this page, or that it is a hole of (PRF-1). The pages are base pages for all
    /// who do not ask. It is there from the first mapping of one of its pages on, until the translation of one changes.
    fn perforated(&self, asid: Asid, vpn: Vpn) -> Option<Perforated> {
        let _ = (asid, vpn);
        None
    }
    /// The longest runs of base pages of a process in consecutive frames with equal attributes, ascending: what a
    /// system knows of its contiguity (ANC-4).
    fn runs(&self, asid: Asid) -> Vec<VpnRange> {
        let _ = asid;
        Vec::new()
    }
    /// The largest regions of a process, at most `most`, largest first, equal ones by address: those that a system
    /// would have in range registers (ASA-1).
    fn largest_regions(&self, asid: Asid, most: usize) -> Vec<VpnRange> {
        let _ = (asid, most);
        Vec::new()
    }
    /// All regions of a process, ascending: those that a VMA table lists (MID-1). None of a system that has no regions.
    fn regions(&self, asid: Asid) -> Vec<Region> {
        let _ = asid;
        Vec::new()
    }
    /// A number that changes whenever [`PageTableView::largest_regions`] or [`PageTableView::regions`] may.
    fn regions_version(&self, asid: Asid) -> u64 {
        let _ = asid;
        0
    }
    /// The range table.
    fn ranges(&self) -> &dyn RangeTableView {
        &Absent
    }
    /// The contents of segment registers.
    fn segments(&self) -> &dyn SegmentView {
        &Absent
    }
    /// Restrictive segments.
    fn restsegs(&self) -> &dyn RestSegView {
        &Absent
    }
}

/// A region of a process (a VMA): consecutive pages with one protection and one memory behind them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Its pages.
    pub pages: VpnRange,
    /// What its protection allows; a single page may allow less.
    pub attr: Attr,
    /// The memory behind it: a file, a heap, a stack. No two have the same number, not even one after the other.
    pub memory: u64,
    /// Page of that memory at the first of `pages`.
    pub first: u64,
    /// Whether a store is seen by every other process that maps this memory (MAP_SHARED).
    pub shared: bool,
}

/// The tables of a system that keeps none.
struct Absent;

impl RangeTableView for Absent {
    fn range(&self, _: Asid, _: Vpn) -> Option<Range> {
        None
    }
    fn largest(&self, _: Asid, _: usize) -> Vec<Range> {
        Vec::new()
    }
    fn version(&self, _: Asid) -> u64 {
        0
    }
}

impl RestSegView for Absent {
    fn segs(&self) -> &[RestSeg] {
        &[]
    }
    fn tag(&self, _: usize, _: Way) -> Option<(Asid, Vpn)> {
        None
    }
}

impl SegmentView for Absent {
    fn segment(&self, _: Asid) -> Option<Segment> {
        None
    }
    fn kernel_segment(&self, _: Asid) -> Option<KernelSegment> {
        None
    }
}

/// The range table of each process (RMM15-1).
pub trait RangeTableView {
    /// The range translation of this page; `Some` is the range bit of its PTE (RMM15-6).
    fn range(&self, asid: Asid, vpn: Vpn) -> Option<Range>;
    /// The search of the range-table walker (RMM15-9) for this page: nodes visited (each two cache lines), and what it
    /// found.
    fn walk(&self, asid: Asid, vpn: Vpn) -> RangeWalk {
        RangeWalk { nodes: 0, found: self.range(asid, vpn) }
    }
    /// Byte addresses, in the memory of the process's range table, of the nodes that this search visits, in order. Only
    /// a B-tree has them.
    fn path(&self, asid: Asid, vpn: Vpn, into: &mut Vec<u64>) {
        let _ = (asid, vpn, into);
    }
    /// The node at one of these addresses, as it lies in memory (RMM15-7), for those who read it bit by bit.
    fn node(&self, asid: Asid, address: u64) -> Option<[u8; 128]> {
        let _ = (asid, address);
        None
    }
    /// The `most` largest range translations of a process, largest first, equal ones by address: what a system pins in
    /// segment registers (F-20).
    fn largest(&self, asid: Asid, most: usize) -> Vec<Range>;
    /// A number that changes whenever a range of the process is added, removed or changed.
    fn version(&self, asid: Asid) -> u64;
}

/// The contents of the segment registers of each process.
pub trait SegmentView {
    /// The segment registers of the process (DS13-1), if it has a direct segment.
    fn segment(&self, asid: Asid) -> Option<Segment>;
    /// The kernel's direct map in the address space (DS13-43), if the stream has one.
    fn kernel_segment(&self, asid: Asid) -> Option<KernelSegment>;
}

/// A translation as an entry of a design gives it, for the checks of XC-3 and for golden vectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Translation {
    /// Frame.
    pub pfn: Pfn,
    /// Attributes.
    pub attr: Attr,
}

/// A range translation (RMM15-1): consecutive pages in consecutive frames, with the same attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// First page.
    pub first: Vpn,
    /// Number of pages.
    pub pages: u64,
    /// Frame of the first page.
    pub pfn: Pfn,
    /// Attributes of all of them.
    pub attr: Attr,
}

/// What a search of the range table found (RMM15-9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeWalk {
    /// Nodes visited, each two cache lines.
    pub nodes: u32,
    /// The range of the page, if there is one.
    pub found: Option<Range>,
}

/// The segment registers of a process (DS13-1): a page in `[base, limit)` lies in frame `page - base + pfn`. Any number
/// of pages, from any page and any frame on (DS13-6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// First page.
    pub base: Vpn,
    /// One past the last page (AMB-61).
    pub limit: Vpn,
    /// Frame of the first page.
    pub pfn: Pfn,
}

/// What registers for the kernel's direct map can hold (DS13-43).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelSegment {
    /// All of it.
    pub segment: Segment,
    /// The rights of its pages, where the kernel says so before they are looked up.
    pub attr: Option<Attr>,
    /// Pages in it that have other rights, or other frames: ascending, apart. They are paged, for a segment has one set
    /// of rights (DS13-10).
    pub paged: Vec<VpnRange>,
    /// The tags that entries for its pages may have had until the kernel loads these registers, which flushes them;
    /// none, if nothing was looked up before.
    pub tags: Vec<Asid>,
}

impl From<Segment> for KernelSegment {
    /// A direct map whose pages are all alike.
    fn from(segment: Segment) -> KernelSegment {
        KernelSegment { segment, attr: None, paged: Vec::new(), tags: Vec::new() }
    }
}

impl KernelSegment {
    /// Its parts between paged pages; some may be empty.
    pub fn parts(&self) -> impl Iterator<Item = VpnRange> {
        let Segment { base, limit, .. } = self.segment;
        let starts = [base].into_iter().chain(self.paged.iter().map(VpnRange::end));
        let ends = self.paged.iter().map(|range| range.start).chain([limit]);
        starts.zip(ends).map(|(start, end)| VpnRange::between(start, end))
    }

    /// The longest of its parts, of equal ones the lowest.
    pub fn longest_part(mut self) -> KernelSegment {
        let longest = self.parts().max_by_key(|part| (part.pages, std::cmp::Reverse(part.start)));
        let longest = longest.expect("there is one more than paged ranges");
        let pfn = Pfn(self.segment.pfn.0.wrapping_add(longest.start.0 - self.segment.base.0));
        self.segment = Segment { base: longest.start, limit: longest.end(), pfn };
        self.paged.clear();
        self
    }
}

impl Range {
    /// BASE <= page < LIMIT, by two comparators (RMM15-2).
    #[inline]
    pub fn contains(&self, vpn: Vpn) -> bool {
        self.virtual_pages().contains(vpn)
    }
    /// The pages it translates.
    #[inline]
    pub fn virtual_pages(&self) -> VpnRange {
        VpnRange { start: self.first, pages: self.pages }
    }
    /// The translation of a page in the range: the page plus OFFSET, which wraps (RMM15-1).
    #[inline]
    pub fn translate(&self, vpn: Vpn) -> Translation {
        debug_assert!(self.contains(vpn), "{self:?} does not contain {vpn:?}");
        Translation { pfn: Pfn(self.pfn.0.wrapping_add(vpn.0.wrapping_sub(self.first.0))), attr: self.attr }
    }
}

impl Segment {
    /// BASE <= page < LIMIT (DS13-2).
    #[inline]
    pub fn contains(&self, vpn: Vpn) -> bool {
        self.base <= vpn && vpn < self.limit
    }
    /// The page plus OFFSET, which wraps (AMB-62); `None` outside.
    ///
    /// ```
    /// use farreach_types::addr::{Pfn, Vpn};
    /// use farreach_types::translation::Segment;
    ///
    /// // DS13-2: virtual 0x10000000..0x1fffffff lies at physical 0x8000000.
    /// let segment = Segment { base: Vpn(0x10000), limit: Vpn(0x20000), pfn: Pfn(0x8000) };
    /// assert_eq!(segment.translate(Vpn(0x1ffff)), Some(Pfn(0x17fff)));
    /// assert_eq!(segment.translate(Vpn(0x20000)), None);
    /// ```
    #[inline]
    pub fn translate(&self, vpn: Vpn) -> Option<Pfn> {
        self.contains(vpn).then(|| Pfn(self.pfn.0.wrapping_add(vpn.0.wrapping_sub(self.base.0))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rmm15_4_bounds() {
        let range = Range { first: Vpn(0x100), pages: 0x80, pfn: Pfn(0x600), attr: Attr(7) };
        let frame = |vpn| range.contains(Vpn(vpn)).then(|| range.translate(Vpn(vpn)).pfn.0);
        assert_eq!([0xff, 0x100, 0x17f, 0x180].map(frame), [None, Some(0x600), Some(0x67f), None]);
    }

    /// DS13-10, DS13-43.
    #[test]
    fn ds13_43_the_longest_part_with_one_set_of_rights() {
        let range = |start, pages| VpnRange { start: Vpn(start), pages };
        let all = Segment { base: Vpn(0x1000), limit: Vpn(0x2000), pfn: Pfn(0x10) };
        for (paged, base, limit) in [
            (vec![], 0x1000, 0x2000),
            (vec![range(0x1800, 1)], 0x1000, 0x1800),
            (vec![range(0x17ff, 1)], 0x1800, 0x2000),
            (vec![range(0x1000, 8), range(0x1ff0, 16)], 0x1008, 0x1ff0),
            (vec![range(0x1000, 0x1000)], 0x1000, 0x1000),
        ] {
            let kernel = KernelSegment { segment: all, attr: Some(Attr(3)), paged, tags: Vec::new() };
            let Segment { base: from, limit: to, pfn } = kernel.longest_part().segment;
            assert_eq!((from.0, to.0, pfn.0), (base, limit, 0x10 + base - 0x1000));
        }
    }

    /// CA-25, AMB-61.
    #[test]
    fn ds13_2_bounds_disable_and_wrap() {
        let segment = |base, limit, pfn| Segment { base: Vpn(base), limit: Vpn(limit), pfn: Pfn(pfn) };
        let s = segment(0x10000, 0x20000, 0x8000);
        let frames = [0xffff, 0x10000, 0x1ffff, 0x20000].map(|v| s.translate(Vpn(v)));
        assert_eq!(frames, [None, Some(Pfn(0x8000)), Some(Pfn(0x17fff)), None]);
        for vpn in [0, 1, u64::MAX] {
            assert_eq!(segment(0, 0, 5).translate(Vpn(vpn)), None, "DS13-4");
        }
        // AMB-62: the frame lies below the page, so that OFFSET is negative.
        assert_eq!(segment(0x7f00, 0x7f80, 0).translate(Vpn(0x7f03)), Some(Pfn(3)));
    }
}
