//! Page tables of several processes as a list of extents, so that ranges, superpages and segments all come from the
//! same extents.

use super::*;
use farreach_types::translation::KernelSegment;

/// Contiguous pages on contiguous frames.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub(super) asid: Asid,
    pub(super) first: u64,
    pub(super) pages: u64,
    pub(super) pfn: u64,
    pub(super) attr: Attr,
    pub(super) order: u8,
    /// Whether it is in the range table.
    pub(super) ranged: bool,
}

impl Extent {
    pub(super) fn has(&self, asid: Asid, vpn: u64) -> bool {
        self.asid == asid && (self.first..self.first + self.pages).contains(&vpn)
    }
    pub(super) fn part(&self, from: u64, to: u64, order: u8) -> Option<Extent> {
        let pages = to.checked_sub(from).filter(|n| *n > 0)?;
        Some(Extent { first: from, pages, pfn: self.pfn + from - self.first, order, ..*self })
    }
    pub(super) fn range(&self) -> VpnRange {
        VpnRange { start: Vpn(self.first), pages: self.pages }
    }
}

/// The mappings, as a list.
#[derive(Default)]
pub(super) struct Table {
    pub(super) extents: Vec<Extent>,
    pub(super) segments: BTreeMap<Asid, Segment>,
}

impl Table {
    pub(super) fn at(&self, asid: Asid, vpn: Vpn) -> Option<&Extent> {
        self.extents.iter().find(|e| e.has(asid, vpn.0))
    }
}

impl PageTableView for Table {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        self.at(asid, vpn).map(|e| Pte { pfn: Pfn(e.pfn + vpn.0 - e.first), attr: e.attr, order: e.order })
    }
    fn ranges(&self) -> &dyn RangeTableView {
        self
    }
    fn segments(&self) -> &dyn SegmentView {
        self
    }
}

impl RangeTableView for Table {
    fn range(&self, asid: Asid, vpn: Vpn) -> Option<Range> {
        let e = self.at(asid, vpn).filter(|e| e.ranged)?;
        Some(Range { first: Vpn(e.first), pages: e.pages, pfn: Pfn(e.pfn), attr: e.attr })
    }
    fn walk(&self, asid: Asid, vpn: Vpn) -> RangeWalk {
        RangeWalk { nodes: 1 + (vpn.0 % 3) as u32, found: self.range(asid, vpn) }
    }
    fn largest(&self, asid: Asid, most: usize) -> Vec<Range> {
        let ranged = self.extents.iter().filter(|e| e.asid == asid && e.ranged);
        let mut all: Vec<Range> = ranged.filter_map(|e| self.range(asid, Vpn(e.first))).collect();
        all.sort_by_key(|r| (std::cmp::Reverse(r.pages), r.first));
        all.truncate(most);
        all
    }
    fn version(&self, asid: Asid) -> u64 {
        let ranged = self.extents.iter().filter(|e| e.asid == asid && e.ranged);
        ranged.map(|e| (e.first ^ e.pages << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15)).fold(0, u64::wrapping_add)
    }
}

impl SegmentView for Table {
    fn segment(&self, asid: Asid) -> Option<Segment> {
        self.segments.get(&asid).copied()
    }
    fn kernel_segment(&self, _: Asid) -> Option<KernelSegment> {
        None
    }
}
