//! Translations larger than a page that the operating system keeps beside its page table: ranges and segments.

use crate::addr::{Pfn, Vpn, VpnRange};
use crate::hw::tlb::{Attr, Translation};

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

/// The segment registers of a process (DS13-1): a page in `[base, limit)` lies in frame `page - base + pfn`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// First page.
    pub base: Vpn,
    /// One past the last page (AMB-61).
    pub limit: Vpn,
    /// Frame of the first page.
    pub pfn: Pfn,
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
    /// What it says of a page it contains: the page plus OFFSET, which wraps (RMM15-1).
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
    /// use farreach::addr::{Pfn, Vpn};
    /// use farreach::hw::tlb::Segment;
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

    /// CA-25.
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
