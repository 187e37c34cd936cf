//! Page table, range table and segment registers as the hardware reads them.

use crate::os::Os;
use crate::ranges::process::Ranges;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::translation::{PageTableView, Pte, Range, RangeTableView, RangeWalk, Segment, SegmentView};

impl PageTableView for Os {
    #[inline]
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        self.spaces.get(asid.0 as usize)?.table.pte(vpn)
    }
    fn reservation(&self, asid: Asid, vpn: Vpn) -> Option<Pfn> {
        let space = self.spaces.get(asid.0 as usize)?;
        let region = space.regions.find(vpn)?;
        let placed = space.table.pte(vpn)?.pfn;
        let (first, offset) = self.memory.objects.try_get(region.object)?.reservation(region.page_of(vpn))?;
        (first.0 + offset == placed.0).then_some(first)
    }
    fn largest_regions(&self, asid: Asid, most: usize) -> Vec<VpnRange> {
        self.spaces.get(asid.0 as usize).map_or_else(Vec::new, |space| space.regions.largest(most))
    }
    fn regions_version(&self, asid: Asid) -> u64 {
        self.spaces.get(asid.0 as usize).map_or(0, |space| space.regions.version())
    }
    fn ranges(&self) -> &dyn RangeTableView {
        self
    }
    fn segments(&self) -> &dyn SegmentView {
        self
    }
}

impl Os {
    fn ranges_of(&self, asid: Asid) -> Option<&Ranges> {
        self.spaces.get(asid.0 as usize)?.ranges.as_ref()
    }
}

impl RangeTableView for Os {
    fn range(&self, asid: Asid, vpn: Vpn) -> Option<Range> {
        self.range_of(asid, vpn)
    }

    fn walk(&self, asid: Asid, vpn: Vpn) -> RangeWalk {
        self.ranges_of(asid).map_or(RangeWalk { nodes: 0, found: None }, |ranges| ranges.walk(vpn))
    }

    fn path(&self, asid: Asid, vpn: Vpn, into: &mut Vec<u64>) {
        if let Some(ranges) = self.ranges_of(asid) {
            ranges.path(vpn, into);
        }
    }

    fn node(&self, asid: Asid, address: u64) -> Option<[u8; 128]> {
        self.ranges_of(asid)?.node(address)
    }

    fn largest(&self, asid: Asid, most: usize) -> Vec<Range> {
        self.ranges_of(asid).map_or_else(Vec::new, |ranges| ranges.largest(most))
    }

    fn version(&self, asid: Asid) -> u64 {
        self.ranges_of(asid).map_or(0, Ranges::version)
    }
}

impl SegmentView for Os {
    fn segment(&self, asid: Asid) -> Option<Segment> {
        self.registers(asid)
    }

    fn kernel_segment(&self, asid: Asid) -> Option<Segment> {
        self.direct_map(asid)
    }
}
