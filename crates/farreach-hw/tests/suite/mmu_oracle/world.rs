//! Changes of the page tables and references to them, which keep pages hot while their mappings change.

use super::*;

/// One step.
#[derive(Debug)]
pub(super) enum Step {
    Access(Lookup, Pte),
    Invalidate(Asid, VpnRange),
    Demote(Asid, VpnRange),
    Gone(Asid),
    Switch(Asid),
    Segment(Asid),
}

const SPACES: u64 = 3;
/// Places per space, 2 GB apart.
const PLACES: u64 = 24;

pub(super) struct World {
    pub(super) table: Table,
    rng: Pcg64Mcg,
    frame: u64,
    now: Asid,
    /// Likely pages.
    hot: Vec<(Asid, u64)>,
    later: Vec<Step>,
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let rng = Pcg64Mcg::seed_from_u64(seed ^ 0x6d6d75);
        let mut w = World { table: Table::default(), rng, frame: 1 << 20, now: Asid(0), hot: vec![], later: vec![] };
        for asid in 0..SPACES {
            (0..PLACES).for_each(|place| w.lay(Asid(asid as u32), place));
        }
        (0..60).for_each(|_| w.warm());
        w
    }
    fn below(&mut self, n: u64) -> u64 {
        self.rng.next_u64() % n
    }
    fn frames(&mut self, pages: u64, align: u64, skew: u64) -> u64 {
        let first = self.frame.next_multiple_of(align) + skew;
        self.frame = first + pages;
        first
    }

    /// Maps something at a place.
    fn lay(&mut self, asid: Asid, place: u64) {
        let at = (place + 1) << 19;
        let attr = Attr([7, 3][self.below(2) as usize]);
        let add = |w: &mut World, first, pages, pfn, order, ranged| {
            w.table.extents.push(Extent { asid, first, pages, pfn, attr, order, ranged });
        };
        match self.below(8) {
            // Single pages, shuffled in groups of 8 or 16 frames, some groups in order.
            0..=1 => {
                let (group, mess) = ([8, 16][self.below(2) as usize], self.below(3));
                for first in (at..at + 64).step_by(group as usize) {
                    let pfn = self.frames(group, group, 0);
                    let key = if mess == 0 { 0 } else { self.below(group) };
                    for i in 0..group {
                        if i == 0 || self.below(4) > 0 {
                            add(self, first + i, 1, pfn + (i ^ key), 0, false);
                        }
                    }
                }
            }
            // Runs of pages on aligned or other frames, mostly with a range.
            2..=4 => {
                let (pages, skew) = (1 + self.below(700), self.below(3));
                let (from, ranged) = (at + self.below(40), pages >= 8 && self.below(8) > 0);
                let pfn = self.frames(pages + 1024, 512, skew + from % 512);
                add(self, from, pages, pfn, 0, ranged);
                if self.below(2) == 0 {
                    let pfn = self.frames(64, 64, 0);
                    let ranged = self.below(2) == 0;
                    add(self, from + pages, 40, pfn, 0, ranged);
                }
            }
            // The contiguous bit of groups of 16.
            5 => {
                let groups = 1 + self.below(12);
                let pfn = self.frames(16 * groups, 16, 0);
                let ranged = self.below(2) == 0;
                add(self, at, 16 * groups, pfn, 4, ranged);
            }
            6 => {
                let (n, order) = (2 * (1 + self.below(6)), [9, 9, 10][self.below(3) as usize]);
                let pfn = self.frames(512 * n, 1024, 0);
                let ranged = self.below(2) == 0;
                add(self, at, 512 * n, pfn, order, ranged);
            }
            _ => {
                let pfn = self.frames(1 << 18, 1 << 18, 0);
                let ranged = self.below(2) == 0;
                add(self, at, 1 << 18, pfn, 18, ranged);
            }
        }
    }

    fn warm(&mut self) {
        let i = self.any();
        let e = self.table.extents[i];
        let from = self.below(e.pages);
        let step = [1, 1, 7, 512][self.below(4) as usize];
        let n = 1 + self.below(12);
        let run = (0..n).map(|i| e.first + from + i * step);
        self.hot.extend(run.filter(|&vpn| e.has(e.asid, vpn)).map(|vpn| (e.asid, vpn)));
        if self.hot.len() > 120 {
            let cut = 30 + self.below(40) as usize;
            self.hot.drain(..cut);
        }
    }

    fn access(&mut self) -> Step {
        for _ in 0..1000 {
            let i = self.below(self.hot.len() as u64) as usize;
            let (asid, vpn) = self.hot[i];
            if let Some(pte) = self.table.pte(asid, Vpn(vpn)).filter(|_| asid == self.now || self.below(8) == 0) {
                if asid != self.now {
                    self.now = asid;
                    self.later.push(Step::Access(Lookup { asid, vpn: Vpn(vpn), kind: Kind::Load }, pte));
                    return Step::Switch(asid);
                }
                let kind = [Kind::Fetch, Kind::Load, Kind::Load, Kind::Store][self.below(4) as usize];
                return Step::Access(Lookup { asid, vpn: Vpn(vpn), kind }, pte);
            }
            self.warm();
        }
        unreachable!("something is mapped")
    }

    /// The next step. The table shows it already, and it is reported to all in this order.
    pub(super) fn step(&mut self) -> Step {
        if let Some(step) = self.later.pop() {
            return step;
        }
        match self.below(1000) {
            0..=30 => self.warm(),
            31..=34 => return self.remap(),
            35..=40 => return self.hole(),
            41..=44 => return self.demote(),
            45..=48 => self.promote(),
            49..=52 => self.merge(),
            56..=110 => self.fault(),
            53..=54 => return self.change_segment(),
            55 => return self.gone(),
            _ => {}
        }
        self.access()
    }

    fn any(&mut self) -> usize {
        self.below(self.table.extents.len() as u64) as usize
    }
    /// Pages in a segment do not change while it exists.
    fn free(&self, e: &Extent) -> bool {
        self.table.segments.get(&e.asid).is_none_or(|s| e.first >= s.limit.0 || e.first + e.pages <= s.base.0)
    }

    /// A place is mapped anew.
    fn remap(&mut self) -> Step {
        let i = self.any();
        let e = self.table.extents[i];
        if !self.free(&e) {
            return self.access();
        }
        let place = (e.first >> 19) - 1;
        let here = |x: &Extent| x.asid == e.asid && (x.first >> 19) - 1 == place;
        if self.table.extents.iter().any(|x| here(x) && !self.free(x)) {
            return self.access();
        }
        self.table.extents.retain(|x| !here(x));
        self.lay(e.asid, place);
        Step::Invalidate(e.asid, VpnRange { start: Vpn((place + 1) << 19), pages: 1 << 19 })
    }

    /// Some pages are unmapped; a superpage becomes base pages, a range splits in two or is removed.
    fn hole(&mut self) -> Step {
        let i = self.any();
        let e = self.table.extents[i];
        if e.pages < 3 || e.order >= 18 || !self.free(&e) {
            return self.access();
        }
        let from = e.first + self.below(e.pages);
        let to = (from + 1 + self.below(40)).min(e.first + e.pages);
        self.table.extents.swap_remove(i);
        let keep = self.below(2) == 0;
        for part in [e.part(e.first, from, 0), e.part(to, e.first + e.pages, 0)].into_iter().flatten() {
            self.table.extents.push(Extent { ranged: e.ranged && keep && part.pages >= 8, ..part });
        }
        if self.table.extents.is_empty() {
            self.lay(e.asid, 0);
        }
        self.later.push(Step::Invalidate(e.asid, VpnRange::between(Vpn(from), Vpn(to))));
        Step::Demote(e.asid, e.range())
    }

    fn demote(&mut self) -> Step {
        let i = self.any();
        let free = self.free(&self.table.extents[i]);
        let e = &mut self.table.extents[i];
        if !free {
            return self.access();
        }
        e.order = if e.order > 9 { 9 } else { 0 };
        e.ranged = false;
        Step::Demote(e.asid, e.range())
    }

    /// Properly placed pages become superpages, or get a range; no design is notified.
    fn promote(&mut self) {
        let i = self.any();
        let e = &mut self.table.extents[i];
        let fits = |order: u8| [e.first, e.pages, e.pfn].iter().all(|n| n.is_multiple_of(1 << order));
        match e.order {
            0 if fits(9) => e.order = 9,
            0 if fits(4) => e.order = 4,
            _ => {}
        }
        e.ranged |= e.pages >= 8;
    }

    /// Adjacent ranges become one (RMM15-21); no design is notified.
    fn merge(&mut self) {
        let i = self.any();
        let e = self.table.extents[i];
        let next = |x: &Extent| {
            (x.asid, x.first, x.pfn, x.attr, x.order) == (e.asid, e.first + e.pages, e.pfn + e.pages, e.attr, e.order)
        };
        if let Some(j) = self.table.extents.iter().position(next) {
            let pages = e.pages + self.table.extents[j].pages;
            self.table.extents[i] = Extent { pages, ranged: pages >= 8, ..e };
            self.table.extents.swap_remove(j);
        }
    }

    /// A segment is created over an extent or removed (DS13-20, DS13-22).
    fn change_segment(&mut self) -> Step {
        let i = self.any();
        let e = self.table.extents[i];
        if self.table.segments.remove(&e.asid).is_none() {
            let segment = Segment { base: Vpn(e.first), limit: Vpn(e.first + e.pages), pfn: Pfn(e.pfn) };
            self.table.segments.insert(e.asid, segment);
            self.table.extents[i].ranged = false;
            self.later.push(Step::Invalidate(e.asid, e.range()));
            self.hot.extend((0..e.pages.min(20)).map(|i| (e.asid, e.first + i)));
        }
        Step::Segment(e.asid)
    }

    /// A page beside a single page is mapped, in the same group of frames; no design has an entry for it.
    fn fault(&mut self) {
        let i = self.below(self.hot.len() as u64) as usize;
        let (asid, vpn) = self.hot[i];
        let Some(&e) = self.table.at(asid, Vpn(vpn)).filter(|e| e.pages == 1 && e.order == 0 && !e.ranged) else {
            return;
        };
        if self.table.at(asid, Vpn(vpn ^ 1)).is_none() && self.table.extents.iter().all(|x| x.pfn != e.pfn ^ 1) {
            self.table.extents.push(Extent { first: vpn ^ 1, pfn: e.pfn ^ 1, ..e });
            self.hot.push((asid, vpn ^ 1));
        }
    }

    fn gone(&mut self) -> Step {
        let asid = Asid(self.below(SPACES) as u32);
        self.table.segments.remove(&asid);
        Step::Gone(asid)
    }
}
