//! The page tables of three processes, which change.

use super::*;

/// What happens. The page table has it already, and it is told to all in this order.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Look(Look),
    /// Pages are unmapped, or mapped elsewhere from the next fault on.
    Change(u32, VpnRange),
    /// Superpages become smaller pages in the same frames.
    Split(u32, VpnRange),
    /// Pages that were not mapped are, or small ones in their frames are a superpage now: tables alone are told.
    Mapped(u32, VpnRange),
    Gone(u32),
    Switch(u32),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub at: Lookup,
    pub pte: Pte,
    pub pc: u64,
    pub position: u64,
}

impl Look {
    pub fn asid(&self) -> u32 {
        self.at.asid.0
    }
    pub fn vpn(&self) -> u64 {
        self.at.vpn.0
    }
    pub fn fetch(&self) -> bool {
        self.at.kind == Kind::Fetch
    }
    pub fn order(&self) -> u8 {
        self.pte.order
    }
}

/// The mappings of all processes.
#[derive(Default)]
pub(super) struct World {
    /// By process and first page: frame, attributes, order.
    pub mappings: BTreeMap<(u32, u64), (u64, u8, u8)>,
    /// The 2 MB in which pages are reserved: their first frame.
    pub reserved: BTreeMap<(u32, u64), u64>,
    /// First page and pages, by process, the largest first.
    pub regions: BTreeMap<u32, Vec<VpnRange>>,
    pub version: u64,
    pub restsegs: Vec<RestSeg>,
    /// By segment, set and way: the page that was placed there last.
    pub tags: BTreeMap<(usize, u64, u64), (u32, u64)>,
}

impl World {
    /// First page, order and frame of this page.
    pub fn mapping(&self, asid: u32, vpn: u64) -> Option<(u64, u8, u64)> {
        let (&(of, first), &(pfn, _, order)) = self.mappings.range(..=(asid, vpn)).next_back()?;
        (of == asid && vpn - first < 1 << order).then(|| (first, order, pfn + vpn - first))
    }

    pub fn any(&self, asid: u32, first: u64, pages: u64) -> bool {
        let inside = self.mappings.range((asid, first)..(asid, first + pages)).next().is_some();
        inside || self.mapping(asid, first).is_some()
    }

    /// The lowest level of a radix tree that a walk for the page reads, 0 being that of base pages (PB-7).
    pub fn lowest(&self, asid: u32, vpn: u64) -> u8 {
        if let Some((_, order, _)) = self.mapping(asid, vpn) {
            return order / 9;
        }
        let node = |level: &u8| {
            let span = 9 * (u32::from(*level) + 1);
            self.any(asid, vpn >> span << span, 1 << span)
        };
        (0..3).find(node).unwrap_or(3)
    }

    /// Pages in a row around this one, in frames in a row with equal attributes, up to `most` (SPO-3).
    pub fn run(&self, asid: u32, vpn: u64, most: u64) -> u64 {
        let all = |v: u64| self.pte(Asid(asid), Vpn(v));
        let own = all(vpn).expect("mapped");
        let joins = |v: &u64| {
            all(*v).is_some_and(|pte| {
                pte.attr == own.attr && pte.pfn.0 as i64 - *v as i64 == own.pfn.0 as i64 - vpn as i64
            })
        };
        let below = (vpn.saturating_sub(most)..vpn).rev().take_while(joins).count();
        let above = (vpn + 1..=vpn + most).take_while(joins).count();
        (below + above + 1) as u64
    }

    /// Maps a page in the first free way of its set. False: there is none (UTO-5).
    pub fn place(&mut self, asid: u32, first: u64, attr: u8, order: u8) -> bool {
        let Some(place) = self.restsegs.iter().position(|segment| segment.order == order) else { return false };
        let segment = self.restsegs[place];
        let set = segment.set(Asid(asid), Vpn(first));
        let Some(way) = (0..segment.ways).find(|way| self.tag(place, Way { set, way: *way }).is_none()) else {
            return false;
        };
        self.tags.insert((place, set, way), (asid, first));
        self.map(asid, first, segment.frame(Way { set, way }).0, attr, order);
        true
    }

    pub fn map(&mut self, asid: u32, first: u64, pfn: u64, attr: u8, order: u8) {
        self.mappings.insert((asid, first), (pfn, attr, order));
    }
}

impl PageTableView for World {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        let (first, order, pfn) = self.mapping(asid.0, vpn.0)?;
        Some(Pte { pfn: Pfn(pfn), attr: Attr(self.mappings[&(asid.0, first)].1), order })
    }
    fn any_mapped(&self, asid: Asid, pages: VpnRange) -> bool {
        self.any(asid.0, pages.start.0, pages.pages)
    }
    fn reservation(&self, asid: Asid, vpn: Vpn) -> Option<Pfn> {
        let first = *self.reserved.get(&(asid.0, vpn.0 >> 9))?;
        self.mapping(asid.0, vpn.0).filter(|page| page.2 == first + vpn.0 % 512).map(|_| Pfn(first))
    }
    fn largest_regions(&self, asid: Asid, most: usize) -> Vec<VpnRange> {
        self.regions.get(&asid.0).into_iter().flatten().take(most).copied().collect()
    }
    fn regions_version(&self, _: Asid) -> u64 {
        self.version
    }
    fn restsegs(&self) -> &dyn RestSegView {
        self
    }
}

impl RestSegView for World {
    fn segs(&self) -> &[RestSeg] {
        &self.restsegs
    }
    fn tag(&self, place: usize, way: Way) -> Option<(Asid, Vpn)> {
        let &(asid, first) = self.tags.get(&(place, way.set, way.way))?;
        let &(pfn, ..) = self.mappings.get(&(asid, first))?;
        (pfn == self.restsegs[place].frame(way).0).then_some((Asid(asid), Vpn(first)))
    }
}
