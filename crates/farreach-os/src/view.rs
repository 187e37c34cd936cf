//! Page table, range table and segment registers as the hardware reads them.

use crate::os::Os;
use crate::page_table::entry::attributes;
use crate::ranges::process::Ranges;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::restseg::RestSegView;
use farreach_types::translation::{
    Attr, KernelSegment, PageTableView, Perforated, Pte, Range, RangeTableView, RangeWalk, Region, Segment, SegmentView,
};

impl PageTableView for Os {
    #[inline]
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        self.spaces.get(self.owner(asid, vpn).0 as usize)?.table.pte(vpn)
    }
    fn any_mapped(&self, asid: Asid, pages: VpnRange) -> bool {
        self.spaces.get(self.owner(asid, pages.start).0 as usize).is_some_and(|space| space.table.any_in(pages))
    }
    fn reservation(&self, asid: Asid, vpn: Vpn) -> Option<Pfn> {
        let space = self.spaces.get(asid.0 as usize)?;
        let region = space.regions.find(vpn)?;
        let placed = space.table.pte(vpn)?.pfn;
        let (first, offset) = self.memory.objects.try_get(region.object)?.reservation(region.page_of(vpn))?;
        (first.0 + offset == placed.0).then_some(first)
    }
    fn perforated(&self, asid: Asid, vpn: Vpn) -> Option<Perforated> {
        let first = vpn.align_down(Perforated::ORDER.into());
        self.spaces.get(asid.0 as usize)?.perforated.get(&first).copied()
    }
    fn runs(&self, asid: Asid) -> Vec<VpnRange> {
        let Some(space) = self.spaces.get(asid.0 as usize) else { return Vec::new() };
        let runs = space.table.runs_in(VpnRange::ALL).into_iter().filter(|run| run.entry.order < Perforated::ORDER);
        let mut all: Vec<(VpnRange, u64, Attr)> = Vec::new();
        for run in runs {
            let distance = run.entry.pfn.0.wrapping_sub(run.first.0);
            match all.last_mut() {
                Some((last, of, attr)) if last.end() == run.first && (*of, *attr) == (distance, run.entry.attr) => {
                    last.pages += run.pages;
                }
                _ => all.push((VpnRange { start: run.first, pages: run.pages }, distance, run.entry.attr)),
            }
        }
        all.into_iter().map(|(pages, ..)| pages).collect()
    }
    fn largest_regions(&self, asid: Asid, most: usize) -> Vec<VpnRange> {
        self.spaces.get(asid.0 as usize).map_or_else(Vec::new, |space| space.regions.largest(most))
    }
    fn regions(&self, asid: Asid) -> Vec<Region> {
        let Some(space) = self.spaces.get(asid.0 as usize) else { return Vec::new() };
        let region = |r: &crate::region::Region| Region {
            pages: r.range,
            attr: attributes(r.prot, false),
            memory: self.memory.objects.get(r.object).generation,
            first: r.first_page,
            shared: r.shared,
        };
        space.regions.iter().map(region).collect()
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
    fn restsegs(&self) -> &dyn RestSegView {
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
        self.range_of(self.owner(asid, vpn), vpn)
    }

    fn walk(&self, asid: Asid, vpn: Vpn) -> RangeWalk {
        let ranges = self.ranges_of(self.owner(asid, vpn));
        ranges.map_or(RangeWalk { nodes: 0, found: None }, |ranges| ranges.walk(vpn))
    }

    fn path(&self, asid: Asid, vpn: Vpn, into: &mut Vec<u64>) {
        if let Some(ranges) = self.ranges_of(self.owner(asid, vpn)) {
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

    fn kernel_segment(&self, asid: Asid) -> Option<KernelSegment> {
        self.direct_map(asid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_types::event::{Backing, Kind, Mapping, Op, Prot};
    use farreach_types::params::{Key, Params};
    use serde_json::{Map, json};

    fn touched(placement: &str) -> Os {
        let keys: Vec<&Key> = crate::keys(placement);
        let given = [("placement", json!(placement)), ("memory", json!("64M"))];
        let mut given: Map<_, _> = given.map(|(key, value)| (key.to_owned(), value)).into_iter().collect();
        if placement == "reservation" {
            given.insert("region".into(), json!("2M"));
        }
        let mut os = Os::new(&Params::resolve(&keys, &given).unwrap()).unwrap();
        os.apply(Asid(0), &Op::Start { pid: 1, parent: None, program: "/bin/p".into() });
        let backing = Backing::Anonymous;
        for (start, len) in [(1 << 30, 4 << 20), (1 << 31, 8 << 20)] {
            os.apply(
                Asid(0),
                &Op::Map(Mapping { start, len, prot: Prot::RW, shared: false, backing: backing.clone() }),
            );
        }
        os.touch(Asid(0), Vpn((1 << 18) + 5), Kind::Store).unwrap();
        os
    }

    /// SPT-3: the mark is of pages that are placed, in reservations of 2 MB.
    #[test]
    fn pages_in_reservations_have_the_mark() {
        let os = touched("reservation");
        let page = Vpn((1 << 18) + 5);
        let first = os.pte(Asid(0), page).unwrap().pfn.0 - 5;
        assert_eq!(os.reservation(Asid(0), page), Some(Pfn(first)));
        assert_eq!(first % 512, 0);
        assert_eq!(os.reservation(Asid(0), Vpn(page.0 + 1)), None, "it is reserved for, and not there");
        assert_eq!(touched("demand").reservation(Asid(0), page), None);
    }

    /// ASA-1.
    #[test]
    fn the_largest_regions_are_those_of_the_process() {
        let os = touched("demand");
        let of = |start: u64, pages| VpnRange { start: Vpn(start >> 12), pages };
        assert_eq!(os.largest_regions(Asid(0), 16), [of(1 << 31, 2048), of(1 << 30, 1024)]);
        assert_eq!(os.largest_regions(Asid(0), 1).len(), 1);
        assert!(os.largest_regions(Asid(7), 1).is_empty());
    }
}
