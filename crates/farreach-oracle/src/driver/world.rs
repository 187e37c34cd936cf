//! A small memory that changes at random, so that designs meet aligned and scattered regions, mixed attributes,
//! superpages, promotion, demotion and unmapping.

use super::Table;
use farreach_hw::tlb::{Lookup, Outcome, Tlb, Unfiltered};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::translation::{Attr, PageTableView, Pte};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

pub struct World {
    pub table: Table,
    rng: Pcg64Mcg,
    hot: Vec<(Asid, u64)>,
}

/// The steps that the designs see.
#[derive(Debug)]
pub enum Step {
    Access(Lookup, Pte),
    Invalidate(Asid, VpnRange),
    Demote(Asid, VpnRange),
    InvalidateSpace(Asid),
    Switch(Asid),
}

/// Passes a step to a design.
pub fn apply(step: &Step, design: &mut dyn Tlb, table: &Table, unfiltered: &mut Unfiltered) -> Option<Outcome> {
    match *step {
        Step::Access(at, pte) => return Some(design.access(at, pte, table, unfiltered).outcome),
        Step::Invalidate(asid, pages) => design.invalidate(asid, pages, unfiltered),
        Step::Demote(asid, pages) => design.demote(asid, pages, unfiltered),
        Step::InvalidateSpace(asid) => design.invalidate_space(asid, unfiltered),
        Step::Switch(to) => design.switch(to, unfiltered),
    }
    None
}

/// Pages of each address space: 64 regions of 16 pages. From `RESERVED` on frames are reserved for groups of 256 pages,
/// so that pages there grow into superpages of 16 and of 256.
const PAGES: u64 = 1024;
const RESERVED: u64 = 512;
const SPACES: u64 = 3;

impl World {
    pub fn new(seed: u64) -> World {
        let mut world =
            World { table: Table::default(), rng: Pcg64Mcg::seed_from_u64(seed ^ 0x0077_6f72_6c64), hot: Vec::new() };
        for asid in 0..SPACES {
            for region in 0..PAGES / 16 {
                world.lay(Asid(asid as u32), region);
            }
        }
        (0..100).for_each(|_| world.warm());
        world
    }

    pub fn below(&mut self, n: u64) -> u64 {
        (u64::from(self.rng.next_u32()) * n) >> 32
    }

    /// Adds a page, sometimes with its neighbours, to those that are likely to be accessed.
    fn warm(&mut self) {
        let page = (Asid(self.below(SPACES) as u32), self.below(PAGES));
        let run = 1 + self.below(20);
        self.hot.extend((page.1..(page.1 + run).min(PAGES)).map(|vpn| (page.0, vpn)));
    }

    fn reserved(asid: Asid, vpn: u64) -> Pte {
        Pte { pfn: Pfn((9 + u64::from(asid.0)) * 0x10_000 + vpn), attr: Attr(7), order: 0 }
    }

    /// Maps a region anew in one of several ways.
    fn lay(&mut self, asid: Asid, region: u64) {
        let base = region * 16;
        let frames = (1 + u64::from(asid.0)) * 0x10_000 + self.below(64) * 256 + base % 256;
        let style = self.below(6);
        for vpn in base..base + 16 {
            let pte = if base >= RESERVED {
                Pte { order: if region >= 48 { 8 } else { 0 }, ..World::reserved(asid, vpn) }
            } else {
                let straight = frames + vpn % 16;
                let plain = Pte { pfn: Pfn(straight), attr: Attr(7), order: 0 };
                match style {
                    0 => Pte { pfn: Pfn(straight), attr: Attr(7), order: 4 },
                    1 => plain,
                    2 => Pte { pfn: Pfn(self.below(1 << 20)), attr: Attr(7), order: 0 },
                    3 => Pte { pfn: Pfn(straight), attr: Attr(5 + self.below(2) as u8 * 2), order: 0 },
                    // In place, in another group of frames, or in the place of a neighbour.
                    4 => Pte { pfn: Pfn([straight, straight + 16, straight ^ 1][self.below(3) as usize]), ..plain },
                    _ => Pte { pfn: Pfn(straight + 1), attr: Attr(7), order: 0 },
                }
            };
            self.table.0.insert((asid, Vpn(vpn)), pte);
        }
    }

    fn pick(&mut self) -> (Asid, u64) {
        let i = self.below(self.hot.len() as u64) as usize;
        self.hot[i]
    }

    /// The next step. The table already shows it.
    pub fn step(&mut self) -> Step {
        match self.below(1000) {
            0..=1 => {
                let asid = Asid(self.below(SPACES) as u32);
                let region = self.below(RESERVED / 16);
                self.lay(asid, region);
                Step::Invalidate(asid, VpnRange { start: Vpn(region * 16), pages: 16 })
            }
            2..=7 => self.unmap(),
            8 => Step::InvalidateSpace(Asid(self.below(SPACES) as u32)),
            9..=15 => Step::Switch(Asid(self.below(SPACES) as u32)),
            16..=40 => {
                self.turn();
                self.access()
            }
            41..=60 => {
                let (asid, vpn) = self.pick();
                let pages = if vpn >= RESERVED && self.below(3) == 0 { 256 } else { 16 };
                self.promote(asid, vpn / pages * pages, pages);
                self.access()
            }
            61..=64 => self.demote(),
            _ => self.access(),
        }
    }

    fn turn(&mut self) {
        self.warm();
        if self.hot.len() > 400 {
            let cut = 50 + self.below(100) as usize;
            self.hot.drain(..cut);
        }
    }

    fn access(&mut self) -> Step {
        let (asid, vpn) = self.pick();
        if self.table.pte(asid, Vpn(vpn)).is_none() {
            // A fault maps it; no event for the designs, which have no entry for it.
            let anywhere = Pte { pfn: Pfn(0x50_000 + self.below(4096)), attr: Attr(7), order: 0 };
            let pte = if vpn >= RESERVED { World::reserved(asid, vpn) } else { anywhere };
            self.table.0.insert((asid, Vpn(vpn)), pte);
        }
        let kind = [Kind::Fetch, Kind::Load, Kind::Load, Kind::Store][self.below(4) as usize];
        Step::Access(Lookup { asid, vpn: Vpn(vpn), kind }, self.table.0[&(asid, Vpn(vpn))])
    }

    /// Unmaps a few pages; superpages that contain them become base pages.
    fn unmap(&mut self) -> Step {
        let (asid, vpn) = self.pick();
        let pages = 1 + self.below(40);
        let last = (vpn + pages).min(PAGES);
        let (mut from, mut to) = (vpn, last);
        for v in vpn..last {
            if let Some(pte) = self.table.pte(asid, Vpn(v)).filter(|pte| pte.order > 0) {
                let n = 1 << pte.order;
                from = from.min(v / n * n);
                to = to.max(v / n * n + n);
            }
        }
        for v in from..to {
            if (vpn..vpn + pages).contains(&v) {
                self.table.0.remove(&(asid, Vpn(v)));
            } else if let Some(pte) = self.table.0.get_mut(&(asid, Vpn(v))) {
                pte.order = 0;
            }
        }
        // All of the superpages were changed, so all is invalid.
        Step::Invalidate(asid, VpnRange::between(Vpn(from), Vpn(to)))
    }

    /// Turns properly placed pages into a superpage, mapping those that were missing where frames are reserved. Frames
    /// and attributes stay, so it is not reported to designs (T94-41).
    fn promote(&mut self, asid: Asid, base: u64, pages: u64) {
        let range = base..base + pages;
        if base >= RESERVED {
            range.clone().for_each(|v| _ = self.table.0.entry((asid, Vpn(v))).or_insert(World::reserved(asid, v)));
        }
        let order = pages.ilog2() as u8;
        let Some(first) = self.table.pte(asid, Vpn(base)) else { return };
        let placed = |v: u64| {
            let pte = self.table.pte(asid, Vpn(v));
            pte.is_some_and(|p| p.pfn.0 == first.pfn.0 + v - base && p.attr == first.attr && p.order < order)
        };
        if first.pfn.0.is_multiple_of(pages) && range.clone().all(placed) {
            range.for_each(|v| self.table.0.get_mut(&(asid, Vpn(v))).unwrap().order = order);
        }
    }

    /// Splits a superpage into base pages.
    fn demote(&mut self) -> Step {
        let (asid, vpn) = self.pick();
        let order = self.table.pte(asid, Vpn(vpn)).map_or(0, |pte| pte.order);
        let range = VpnRange { start: Vpn(vpn).align_down(order.into()), pages: 1 << order };
        for v in range.iter() {
            if let Some(pte) = self.table.0.get_mut(&(asid, v)) {
                pte.order = 0;
            }
        }
        Step::Demote(asid, range)
    }
}
