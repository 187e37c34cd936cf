//! The page table of some processes, with reservations, regions, and restrictive segments.

use super::Machine;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::restseg::{RestSeg, RestSegView, Way};
use farreach_types::translation::{Attr, PageTableView, Perforated, Pte};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;

/// The orders of mappings: 4 KB, 64 KB, 2 MB, 1 GB.
const ORDERS: [u8; 4] = [0, 4, 9, 18];

#[derive(Default)]
pub(in crate::tlb) struct World {
    /// By process and first page: frame, attributes, order.
    mappings: BTreeMap<(u32, u64), (u64, u8, u8)>,
    /// By process and number of the 2 MB.
    pub reservations: BTreeMap<(u32, u64), Pfn>,
    pub regions: Vec<VpnRange>,
    /// By process and number of the 2 MB.
    pub perforated: BTreeMap<(u32, u64), Perforated>,
    restsegs: Vec<RestSeg>,
    /// By segment, set and way: the page that was placed there last.
    tags: BTreeMap<(usize, u64, u64), (u32, u64)>,
}

impl World {
    pub fn map(&mut self, asid: u32, vpn: u64, pfn: u64, order: u8) {
        self.mappings.insert((asid, vpn), (pfn, 7, order));
    }

    /// Maps the 2 MB of this number in a block of frames, a multiple of 512, but for holes, which lie at `elsewhere`
    /// and behind it, each by itself.
    pub fn perforate(&mut self, asid: u32, number: u64, block: u64, holes: &[u64], elsewhere: u64) {
        let mut bits = [0; 8];
        for page in 0..512 {
            let hole = holes.contains(&page);
            bits[(page / 64) as usize] |= u64::from(hole) << (page % 64);
            let frame = if hole { elsewhere + 2 * page + 1 } else { block + page };
            self.map(asid, (number << 9) + page, frame, 0);
        }
        self.perforated.insert((asid, number), Perforated { pfn: Pfn(block), attr: Attr(7), holes: bits });
    }

    /// Of a system with these segments (UTO-1).
    pub fn restricted(restsegs: Vec<RestSeg>) -> World {
        World { restsegs, ..World::default() }
    }

    /// Maps a page of this order as the system does: in the first free way of its set (UTO-5). False: there is none.
    pub fn place(&mut self, asid: u32, vpn: u64, order: u8) -> bool {
        let Some(place) = self.restsegs.iter().position(|segment| segment.order == order) else { return false };
        let segment = self.restsegs[place];
        let set = segment.set(Asid(asid), Vpn(vpn));
        let free = |way: &u64| self.tag(place, Way { set, way: *way }).is_none();
        let Some(way) = (0..segment.ways).find(free) else { return false };
        self.tags.insert((place, set, way), (asid, vpn));
        self.map(asid, vpn, segment.frame(Way { set, way }).0, order);
        true
    }

    /// Pages `first..first + pages` of process 0, of this order, at equal distances from their frames.
    pub fn with(pages: std::ops::Range<u64>, order: u8) -> World {
        let mut world = World::default();
        pages.for_each(|page| world.map(0, page << order, (page << order) + (1 << 20), order));
        world
    }
}

impl PageTableView for World {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        ORDERS.into_iter().find_map(|order| {
            let first = vpn.align_down(order.into()).0;
            let &(pfn, attr, _) = self.mappings.get(&(asid.0, first)).filter(|(.., of)| *of == order)?;
            Some(Pte { pfn: Pfn(pfn + vpn.offset_in(order.into())), attr: Attr(attr), order })
        })
    }

    fn reservation(&self, asid: Asid, vpn: Vpn) -> Option<Pfn> {
        let first = *self.reservations.get(&(asid.0, vpn.0 >> 9))?;
        self.pte(asid, vpn).filter(|pte| pte.pfn.0 == first.0 + vpn.0 % 512).map(|_| first)
    }

    fn perforated(&self, asid: Asid, vpn: Vpn) -> Option<Perforated> {
        self.perforated.get(&(asid.0, vpn.0 >> 9)).copied()
    }

    fn runs(&self, asid: Asid) -> Vec<VpnRange> {
        let mut runs: Vec<(VpnRange, u64)> = Vec::new();
        for (&(_, vpn), &(pfn, ..)) in self.mappings.range((asid.0, 0)..=(asid.0, u64::MAX)) {
            match runs.last_mut() {
                Some((run, frame)) if run.end().0 == vpn && *frame + run.pages == pfn => run.pages += 1,
                _ => runs.push((VpnRange { start: Vpn(vpn), pages: 1 }, pfn)),
            }
        }
        runs.into_iter().map(|(run, _)| run).collect()
    }

    fn largest_regions(&self, _: Asid, most: usize) -> Vec<VpnRange> {
        self.regions.iter().copied().take(most).collect()
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
        let &(asid, vpn) = self.tags.get(&(place, way.set, way.way))?;
        let &(pfn, ..) = self.mappings.get(&(asid, vpn))?;
        (pfn == self.restsegs[place].frame(way).0).then_some((Asid(asid), Vpn(vpn)))
    }
}

/// One step of a random stream, done to all machines. Returns the lookup, if it was one.
pub(in crate::tlb) struct Stream {
    pub world: World,
    rng: Pcg64Mcg,
    asid: u32,
    next_frame: u64,
}

/// A lookup: process, page, kind, program counter.
pub(in crate::tlb) type Wanted = (u32, u64, Kind, u64);

impl Stream {
    pub fn new(seed: u64) -> Stream {
        let regions = vec![VpnRange { start: Vpn(0), pages: 512 }, VpnRange { start: Vpn(1 << 12), pages: 1 << 12 }];
        let world = World { regions, ..World::default() };
        Stream { world, rng: Pcg64Mcg::seed_from_u64(seed), asid: 0, next_frame: 1 << 10 }
    }

    /// Most pages are placed in restrictive segments, as far as these have room.
    pub fn restricted(seed: u64) -> Stream {
        let segment = |first, order, sets| RestSeg { first: Pfn(first), order, sets, ways: 2, mixed: None };
        let mut stream = Stream::new(seed);
        stream.world.restsegs = vec![segment(1 << 21, 0, 8), segment(1 << 22, 9, 2)];
        stream
    }

    fn draw(&mut self, n: u64) -> u64 {
        u64::from(self.rng.next_u32()) % n
    }

    /// An aligned frame that no page has had.
    fn frame(&mut self, order: u8) -> u64 {
        let first = self.next_frame.next_multiple_of(1 << order);
        self.next_frame = first + (1 << order);
        first
    }

    /// The page of the next lookup: base pages in two places, 64 KB, 2 MB, 1 GB.
    fn page(&mut self) -> (u64, u8) {
        let near = self.draw(40);
        match self.draw(10) {
            0..=4 => (near, 0),
            5 | 6 => (512 + near * 3 % 64, 0),
            7 => ((1 << 12) + near * 16, 4),
            8 => ((2 << 12) + near % 5 * 512 + self.draw(512), 9),
            _ => ((1 << 18) + self.draw(1 << 19), 18),
        }
    }

    /// Maps a page that is not: in its reservation, in a row with its neighbours, or anywhere.
    fn fault(&mut self, vpn: u64, order: u8) {
        let asid = self.asid;
        let first = vpn >> order << order;
        if !self.world.restsegs.is_empty() && self.draw(4) > 0 && self.world.place(asid, first, order) {
            return;
        }
        let in_place = order == 0 && vpn >> 9 == 0 && self.draw(8) > 0;
        let frame = if in_place {
            let known = self.world.reservations.get(&(asid, 0)).copied();
            let base = known.unwrap_or_else(|| Pfn(self.frame(9)));
            self.world.reservations.insert((asid, 0), base);
            base.0 + vpn
        } else if order == 0 && self.draw(4) > 0 {
            (1 << 30) + (u64::from(asid) << 20) + vpn
        } else {
            self.frame(order)
        };
        self.world.map(asid, first, frame, order);
    }

    fn unmap(&mut self, pages: VpnRange) {
        let asid = self.asid;
        self.world.mappings.retain(|&(of, first), &mut (.., order)| {
            of != asid || !VpnRange { start: Vpn(first), pages: 1 << order }.overlaps(&pages)
        });
    }

    /// The next step, with changes told to all machines.
    pub fn next(&mut self, machines: &mut [Machine]) -> Option<Wanted> {
        let asid = self.asid;
        let (vpn, order) = self.page();
        match self.draw(200) {
            0..=2 => {
                // Pages leave, or are mapped elsewhere from the next fault on.
                let pages = VpnRange { start: Vpn(vpn), pages: [1, 1, 8, 600][self.draw(4) as usize] };
                let whole = self.world.pte(Asid(asid), pages.start).map_or(0, |pte| pte.order);
                let last = self.world.pte(Asid(asid), Vpn(pages.end().0 - 1)).map_or(0, |pte| pte.order);
                let start = pages.start.align_down(whole.into());
                let end = Vpn((pages.end().0).next_multiple_of(1 << last));
                let pages = VpnRange::between(start, end);
                self.unmap(pages);
                if pages.pages > 8 {
                    self.world.reservations.remove(&(asid, vpn >> 9));
                }
                machines.iter_mut().for_each(|machine| machine.change(asid, pages));
                None
            }
            3 => {
                self.asid = self.draw(3) as u32;
                let to = Asid(self.asid);
                machines.iter_mut().for_each(|machine| machine.with(|tlb, unfiltered| tlb.switch(to, unfiltered)));
                None
            }
            4 if self.draw(4) == 0 => {
                self.world.mappings.retain(|&(of, _), _| of != asid);
                self.world.reservations.retain(|&(of, _), _| of != asid);
                let gone = Asid(asid);
                machines.iter_mut().for_each(|m| m.with(|tlb, unfiltered| tlb.invalidate_space(gone, unfiltered)));
                None
            }
            5 if order == 9 => {
                let pages = VpnRange { start: Vpn(vpn).align_down(9), pages: 512 };
                let pte = self.world.pte(Asid(asid), pages.start).filter(|pte| pte.order == 9)?;
                (0..512).for_each(|i| self.world.map(asid, pages.start.0 + i, pte.pfn.0 + i, 0));
                let split = |m: &mut Machine| m.with(|tlb, unfiltered| tlb.demote(Asid(asid), pages, unfiltered));
                machines.iter_mut().for_each(split);
                None
            }
            _ => {
                if self.world.pte(Asid(asid), Vpn(vpn)).is_none() {
                    self.fault(vpn, order);
                }
                let kind = [Kind::Load, Kind::Store, Kind::Load, Kind::Fetch][self.draw(4) as usize];
                Some((asid, vpn, kind, self.draw(6) * 4))
            }
        }
    }
}
