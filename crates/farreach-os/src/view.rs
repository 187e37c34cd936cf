//! Page table, range table and segment registers as the hardware reads them.

use crate::os::Os;
use crate::ranges::process::Ranges;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::translation::{PageTableView, Pte, Range, RangeWalk, Segment};

impl PageTableView for Os {
    #[inline]
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        self.spaces.get(asid.0 as usize)?.table.pte(vpn)
    }

    fn range(&self, asid: Asid, vpn: Vpn) -> Option<Range> {
        self.range_of(asid, vpn)
    }

    fn range_walk(&self, asid: Asid, vpn: Vpn) -> RangeWalk {
        let ranges = self.spaces.get(asid.0 as usize).and_then(|s| s.ranges.as_ref());
        ranges.map_or(RangeWalk { nodes: 0, found: None }, |r| r.walk(vpn))
    }

    fn range_path(&self, asid: Asid, vpn: Vpn, into: &mut Vec<u64>) {
        if let Some(ranges) = self.spaces.get(asid.0 as usize).and_then(|s| s.ranges.as_ref()) {
            ranges.path(vpn, into);
        }
    }

    fn largest_ranges(&self, asid: Asid, most: usize) -> Vec<Range> {
        let ranges = self.spaces.get(asid.0 as usize).and_then(|s| s.ranges.as_ref());
        ranges.map_or_else(Vec::new, |ranges| ranges.largest(most))
    }

    fn ranges_version(&self, asid: Asid) -> u64 {
        self.spaces.get(asid.0 as usize).and_then(|s| s.ranges.as_ref()).map_or(0, Ranges::version)
    }

    fn segment(&self, asid: Asid) -> Option<Segment> {
        self.registers(asid)
    }

    fn kernel_segment(&self, asid: Asid) -> Option<Segment> {
        self.direct_map(asid)
    }
}
