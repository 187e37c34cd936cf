//! The page tables of several processes as extents, so that pages, superpages, ranges and segments all come from the
//! same extents.

use farreach_types::addr::{Asid, DIRECT_MAP, Pfn, Vpn, VpnRange};
use farreach_types::translation::{
    Attr, KernelSegment, PageTableView, Perforated, Pte, Range, RangeTableView, RangeWalk, Segment, SegmentView,
    Translation,
};
use std::collections::BTreeMap;

/// First page of the kernel's direct map, which every process has.
pub const KERNEL: u64 = DIRECT_MAP.start >> 12;
/// Its pages.
pub const KERNEL_PAGES: u64 = 1024;

/// Contiguous pages in contiguous frames with equal attributes: base pages, or superpages of one order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    pub asid: Asid,
    pub first: u64,
    pub pages: u64,
    pub pfn: u64,
    pub attr: Attr,
    pub order: u8,
    /// Whether it is in the range table.
    pub ranged: bool,
}

impl Extent {
    pub fn end(&self) -> u64 {
        self.first + self.pages
    }
    pub fn range(&self) -> VpnRange {
        VpnRange { start: Vpn(self.first), pages: self.pages }
    }
    /// The pages of it in `from..to`, if there are any.
    pub fn part(&self, from: u64, to: u64) -> Option<Extent> {
        let (from, to) = (from.max(self.first), to.min(self.end()));
        (from < to).then(|| Extent { first: from, pages: to - from, pfn: self.pfn + from - self.first, ..*self })
    }
    fn pte(&self, vpn: Vpn) -> Pte {
        Pte { pfn: Pfn(self.pfn + vpn.0 - self.first), attr: self.attr, order: self.order }
    }
}

/// How much of a table's log a design has been told.
#[derive(Clone, Copy, Default)]
pub struct Told(usize);

/// The mappings.
#[derive(Default)]
pub struct Table {
    extents: BTreeMap<(Asid, u64), Extent>,
    pub segments: BTreeMap<Asid, Segment>,
    /// Superpages with holes (PRF-1), by number. They end with the first extent that goes.
    perforated: BTreeMap<(Asid, u64), Perforated>,
    /// Steps of the world so far: the instructions that designs are told of (HW-8).
    pub clock: u64,
    /// Pages that were mapped, or changed, in order.
    log: Vec<(Asid, VpnRange)>,
}

impl Table {
    pub fn at(&self, asid: Asid, vpn: u64) -> Option<&Extent> {
        let (_, extent) = self.extents.range(..=(asid, vpn)).next_back()?;
        (extent.asid == asid && vpn < extent.end()).then_some(extent)
    }

    pub fn of(&self, asid: Asid) -> impl DoubleEndedIterator<Item = &Extent> {
        self.extents.range((asid, 0)..=(asid, u64::MAX)).map(|(_, extent)| extent)
    }

    /// The extents that share a page with `from..to`.
    pub fn overlapping(&self, asid: Asid, from: u64, to: u64) -> Vec<Extent> {
        let first = self.at(asid, from).map_or(from, |extent| extent.first);
        self.extents.range((asid, first)..(asid, to.max(first))).map(|(_, extent)| *extent).collect()
    }

    /// The pages that were mapped, or changed, since `told`, which is brought up to date.
    pub fn news(&self, told: &mut Told) -> &[(Asid, VpnRange)] {
        let before = std::mem::replace(&mut told.0, self.log.len());
        &self.log[before..]
    }

    pub fn insert(&mut self, extent: Extent) {
        let (from, to) = (extent.first, extent.end());
        assert!(extent.pages > 0 && self.overlapping(extent.asid, from, to).is_empty(), "{extent:?} is mapped twice");
        self.log.push((extent.asid, VpnRange { start: Vpn(from), pages: extent.pages }));
        self.extents.insert((extent.asid, from), extent);
    }

    /// Marks pages that are about to be mapped as a superpage with holes.
    pub fn perforate(&mut self, asid: Asid, number: u64, superpage: Perforated) {
        self.perforated.insert((asid, number), superpage);
    }

    pub fn remove(&mut self, extent: &Extent) {
        let numbers = extent.first >> Perforated::ORDER..=(extent.end() - 1) >> Perforated::ORDER;
        self.perforated.retain(|(asid, number), _| *asid != extent.asid || !numbers.contains(number));
        self.extents.remove(&(extent.asid, extent.first)).expect("it is mapped");
    }

    pub fn get_mut(&mut self, asid: Asid, vpn: u64) -> Option<&mut Extent> {
        let (_, extent) = self.extents.range_mut(..=(asid, vpn)).next_back()?;
        self.log.push((asid, VpnRange { start: Vpn(extent.first), pages: extent.pages }));
        (extent.asid == asid && vpn < extent.end()).then_some(extent)
    }

    /// The translation of a page.
    pub fn translation(&self, asid: Asid, vpn: Vpn) -> Option<Translation> {
        self.pte(asid, vpn).map(|pte| Translation { pfn: pte.pfn, attr: pte.attr })
    }

    fn as_range(extent: &Extent) -> Option<Range> {
        let Extent { first, pages, pfn, attr, .. } = *extent;
        extent.ranged.then_some(Range { first: Vpn(first), pages, pfn: Pfn(pfn), attr })
    }
}

impl PageTableView for Table {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        self.at(asid, vpn.0).map(|extent| extent.pte(vpn))
    }
    fn any_mapped(&self, asid: Asid, pages: VpnRange) -> bool {
        !self.overlapping(asid, pages.start.0, pages.end().0).is_empty()
    }
    fn perforated(&self, asid: Asid, vpn: Vpn) -> Option<Perforated> {
        self.perforated.get(&(asid, vpn.0 >> Perforated::ORDER)).copied()
    }
    fn runs(&self, asid: Asid) -> Vec<VpnRange> {
        self.of(asid).filter(|extent| extent.order < 9).map(Extent::range).collect()
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
        self.at(asid, vpn.0).and_then(Table::as_range)
    }
    fn walk(&self, asid: Asid, vpn: Vpn) -> RangeWalk {
        RangeWalk { nodes: 1 + (vpn.0 % 3) as u32, found: self.range(asid, vpn) }
    }
    fn path(&self, _: Asid, vpn: Vpn, into: &mut Vec<u64>) {
        into.extend((0..=vpn.0 % 3).map(|node| node << 7));
    }
    fn largest(&self, asid: Asid, most: usize) -> Vec<Range> {
        let mut all: Vec<Range> = self.of(asid).filter_map(Table::as_range).collect();
        all.sort_by_key(|range| (std::cmp::Reverse(range.pages), range.first));
        all.truncate(most);
        all
    }
    fn version(&self, asid: Asid) -> u64 {
        let mix = |range: Range| (range.first.0 ^ range.pages << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.of(asid).filter_map(Table::as_range).map(mix).fold(0, u64::wrapping_add)
    }
}

impl SegmentView for Table {
    fn segment(&self, asid: Asid) -> Option<Segment> {
        self.segments.get(&asid).copied()
    }
    fn kernel_segment(&self, asid: Asid) -> Option<KernelSegment> {
        let extent = self.at(asid, KERNEL)?;
        let segment = Segment { base: Vpn(KERNEL), limit: Vpn(KERNEL + KERNEL_PAGES), pfn: Pfn(extent.pfn) };
        Some(segment.into())
    }
}
