//! A memory that changes under the designs, and the references to it: made to keep pages hot while their mappings change.
//!
//! All processes use the same virtual pages, so that an entry of another process is a wrong one. Frames are handed out once, so that
//! an entry of before is a wrong one too.

use super::layout::{self, PLACES, SPACES};
use super::table::{Extent, KERNEL, KERNEL_PAGES, Table};
use farreach_hw::tlb::Lookup;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::translation::{Attr, PageTableView, Pte, Segment};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// What designs are told. The page table shows it already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    Lookup(Lookup, Pte),
    /// These pages are mapped no more, or otherwise (T94-18).
    Stale(Asid, VpnRange),
    /// Superpages were split, or ranges dissolved (T94-42, RMM15-12).
    Demoted(Asid, VpnRange),
    Gone(Asid),
    Switch(Asid),
    Thread(Asid, u32),
    /// The segment registers of the process changed (DS13-24).
    Segment(Asid),
}

/// Page tables, references, and chance.
pub struct World {
    pub table: Table,
    rng: Pcg64Mcg,
    pub(super) frame: u64,
    now: Asid,
    /// Pages that are likely to be referenced, as far as they are mapped.
    hot: Vec<u64>,
    at: usize,
    in_order: bool,
    /// Entries of the design: lists of hot pages are about as long.
    capacity: usize,
    later: VecDeque<Event>,
    /// Pages to be referenced next.
    next: VecDeque<u64>,
    /// A page whose group becomes a superpage after that.
    growing: Option<(Asid, u64)>,
}

impl World {
    pub fn new(seed: u64, capacity: usize) -> World {
        let mut world = World {
            table: Table::default(),
            rng: Pcg64Mcg::seed_from_u64(seed ^ 0x0077_6f72_6c64),
            frame: 1 << 20,
            now: Asid(0),
            hot: Vec::new(),
            at: 0,
            in_order: false,
            capacity,
            later: VecDeque::from([Event::Switch(Asid(0))]),
            next: VecDeque::new(),
            growing: None,
        };
        (0..SPACES).for_each(|asid| world.populate(Asid(asid)));
        world.warm();
        world
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.rng.next_u64() % n
    }
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
    pub fn percent(&mut self, p: u64) -> bool {
        self.below(100) < p
    }

    fn populate(&mut self, asid: Asid) {
        (0..PLACES).for_each(|place| self.lay(asid, place));
        let pfn = layout::frames(self, KERNEL_PAGES, 512, 0);
        let attr = Attr(Attr::READ | Attr::WRITE);
        self.table.insert(Extent { asid, first: KERNEL, pages: KERNEL_PAGES, pfn, attr, order: 9, ranged: false });
    }

    fn lay(&mut self, asid: Asid, place: u64) {
        for extent in layout::place(self, asid, place) {
            self.table.insert(extent);
        }
    }

    /// Other pages become hot: too many for the design by a few, or few enough.
    fn warm(&mut self) {
        let full = self.capacity as u64;
        let most = [2, 1 + full / 2, full, full + 1, full + 3, 2 * full, 40];
        let n = (self.pick(&most) + self.below(2)).clamp(2, 600) as usize;
        self.hot.clear();
        while self.hot.len() < n {
            let place = self.below(PLACES);
            let (first, pages) = layout::pages(place);
            let from = match self.percent(5) {
                true => KERNEL + self.below(KERNEL_PAGES),
                false => first + self.below(pages),
            };
            let stride = self.pick(&[1, 1, 1, 1, 3, 8, 16, 64, 512]);
            let run = self.pick(&[1, 2, 5, 16, 40, n as u64]).min((n - self.hot.len()) as u64);
            self.hot.extend((0..run).map(|i| from + i * stride));
        }
        self.in_order = self.percent(50);
    }

    /// Whether designs were told of all that the page table shows.
    pub fn is_settled(&self) -> bool {
        self.later.is_empty()
    }

    /// The next thing that happens.
    pub fn step(&mut self) -> Event {
        if self.later.is_empty() && self.next.is_empty() {
            if let Some((asid, vpn)) = self.growing.take() {
                self.promote(asid, vpn);
            } else if self.below(1000) < 60 {
                self.change();
            }
        }
        if let Some(event) = self.later.pop_front() {
            if let Event::Switch(to) = event {
                self.now = to;
            }
            return event;
        }
        self.reference()
    }

    fn reference(&mut self) -> Event {
        let asid = self.now;
        while let Some(vpn) = self.next.pop_front() {
            if let Some(pte) = self.table.pte(asid, Vpn(vpn)) {
                return self.lookup(vpn, pte);
            }
        }
        if self.percent(1) {
            self.warm();
        }
        for _ in 0..10_000 {
            self.at = if self.in_order { self.at + 1 } else { self.below(1 << 20) as usize };
            let vpn = self.hot[self.at % self.hot.len()];
            if self.table.pte(asid, Vpn(vpn)).is_none() {
                self.fault(asid, vpn);
            }
            if let Some(pte) = self.table.pte(asid, Vpn(vpn)) {
                return self.lookup(vpn, pte);
            }
            if self.percent(20) {
                self.warm();
            }
        }
        unreachable!("something is mapped in each process")
    }

    /// A reference that the page permits.
    fn lookup(&mut self, vpn: u64, pte: Pte) -> Event {
        let kinds = [(Kind::Load, Attr::READ), (Kind::Store, Attr::WRITE), (Kind::Fetch, Attr::EXEC), (Kind::Load, Attr::READ)];
        let (kind, _) = loop {
            let one = self.pick(&kinds);
            if pte.attr.0 & one.1 != 0 {
                break one;
            }
        };
        if self.percent(10) {
            self.next.push_front(vpn); // again, perhaps in another way
        }
        Event::Lookup(Lookup { asid: self.now, vpn: Vpn(vpn), kind }, pte)
    }

    /// A fault maps a hole beside mapped pages, perhaps where its neighbour's frame says. No design has an entry for it.
    fn fault(&mut self, asid: Asid, vpn: u64) {
        let Some(place) = layout::place_of(vpn).filter(|_| self.percent(50)) else { return };
        let beside = [vpn ^ 1, vpn.wrapping_sub(1), vpn + 1].into_iter().find_map(|v| Some((v, *self.table.at(asid, v)?)));
        let extent = match beside {
            Some((v, e)) if e.order == 0 && layout::place_of(v) == Some(place) && self.percent(75) => {
                let pfn = (e.pfn + (v - e.first)).wrapping_add(vpn).wrapping_sub(v);
                let free = !self.table.of(asid).any(|x| x.pfn <= pfn && pfn < x.pfn + x.pages);
                let pfn = if free { pfn } else { layout::frames(self, 1, 1, 0) };
                Extent { first: vpn, pages: 1, pfn, ranged: false, ..e }
            }
            _ => {
                let pfn = layout::frames(self, 64, 64, vpn % 64);
                Extent { asid, first: vpn, pages: 1, pfn, attr: Attr(7), order: 0, ranged: false }
            }
        };
        self.table.insert(extent);
    }

    /// A page that matters: mostly a hot one.
    fn victim(&mut self) -> (Asid, u64) {
        let asid = if self.percent(80) { self.now } else { Asid(self.below(SPACES.into()) as u32) };
        let i = self.below(self.hot.len() as u64) as usize;
        let near = self.hot[i].wrapping_add(self.pick(&[0, 0, 0, 1, u64::MAX, 5]));
        if self.table.at(asid, near).is_some() && self.percent(90) {
            return (asid, near);
        }
        let n = self.table.of(asid).count() as u64;
        let i = self.below(n) as usize;
        let e = *self.table.of(asid).nth(i).expect("there are so many");
        (asid, e.first + self.below(e.pages))
    }

    /// Nobody changes what lies in a segment while it is there, nor what the kernel has.
    fn is_fixed(&self, asid: Asid, from: u64, to: u64) -> bool {
        let holds = |s: &Segment| from < s.limit.0 && s.base.0 < to;
        to > KERNEL || self.table.segments.get(&asid).is_some_and(holds)
    }

    fn change(&mut self) {
        let (asid, vpn) = self.victim();
        match self.below(100) {
            0..=3 => self.remap_place(asid, vpn),
            4..=39 => self.change_pages(asid, vpn),
            40..=49 => self.demote(asid, vpn),
            50..=57 => self.grow(vpn),
            58..=64 => self.promote(asid, vpn),
            65..=69 => self.merge(asid, vpn),
            70..=74 => self.tell_nothing_new(asid, vpn),
            75..=77 => self.gone(),
            78..=87 => self.switch(),
            88..=93 => self.change_segment(asid, vpn),
            _ => {
                let thread = self.below(4) as u32;
                self.later.push_back(Event::Thread(self.now, thread));
            }
        }
    }

    /// The pages around a change are looked at next.
    fn look_at(&mut self, from: u64, to: u64) {
        let near = [from, to - 1, from.wrapping_sub(1), to, from + (to - from) / 2];
        self.next.extend(near);
    }

    /// Takes pages out of the table: superpages that they cut fall to base pages, ranges shrink or dissolve. Designs will hear of it.
    fn cut(&mut self, asid: Asid, from: u64, to: u64) {
        for e in self.table.overlapping(asid, from, to) {
            self.table.remove(&e);
            let n = 1u64 << e.order;
            let (low, high) = ((from.max(e.first)) / n * n, to.min(e.end()).next_multiple_of(n));
            let keeps_range = e.ranged && self.percent(50);
            let parts = [(e.first, low, e.order), (low, from, 0), (to, high, 0), (high, e.end(), e.order)];
            for (a, b, order) in parts {
                if let Some(part) = if a < b { e.part(a, b) } else { None } {
                    self.table.insert(Extent { order, ranged: keeps_range && part.pages >= 8, ..part });
                }
            }
            if e.ranged {
                self.later.push_back(Event::Demoted(asid, e.range()));
            } else if e.order > 0 {
                self.later.push_back(Event::Demoted(asid, VpnRange::between(Vpn(low), Vpn(high))));
            }
        }
    }

    /// A place is mapped anew.
    fn remap_place(&mut self, asid: Asid, vpn: u64) {
        let Some(place) = layout::place_of(vpn) else { return };
        let (first, pages) = layout::pages(place);
        if self.is_fixed(asid, first, first + pages) {
            return;
        }
        self.cut(asid, first, first + pages);
        self.later.push_back(Event::Stale(asid, VpnRange { start: Vpn(first), pages }));
        self.lay(asid, place);
        self.look_at(vpn, vpn + 1);
    }

    /// Some pages go, move, or get another protection.
    fn change_pages(&mut self, asid: Asid, vpn: u64) {
        let pages = self.pick(&[1, 1, 1, 2, 7, 16, 33]);
        let place = layout::place_of(vpn);
        let (from, to) = (vpn, (vpn + pages).min(place.map_or(u64::MAX, |p| layout::pages(p).0 + layout::pages(p).1)));
        if self.is_fixed(asid, from, to) {
            return;
        }
        let old: Vec<Extent> = self.table.overlapping(asid, from, to).iter().filter_map(|e| e.part(from, to)).collect();
        self.cut(asid, from, to);
        let what = self.below(6);
        for e in old {
            let base = Extent { order: 0, ranged: false, ..e };
            match what {
                0 => {}
                1 => {
                    let attr = self.pick(&[1, 3, 5, 7, 0x83]);
                    self.table.insert(Extent { attr: Attr(attr), ..base });
                }
                // To other frames, aligned as before or not.
                2 | 3 => {
                    let skew = e.pfn % 64 + u64::from(what == 3);
                    let pfn = layout::frames(self, e.pages + 64, 64, skew);
                    self.table.insert(Extent { pfn, ..base });
                }
                // The other way round in the same frames.
                4 => (0..e.pages).for_each(|i| {
                    let page = Extent { first: e.first + i, pages: 1, pfn: e.pfn + e.pages - 1 - i, ..base };
                    self.table.insert(page);
                }),
                // To other frames of the same aligned group.
                _ => (0..e.pages).for_each(|i| {
                    self.table.insert(Extent { first: e.first + i, pages: 1, pfn: (e.pfn + i) ^ 64, ..base });
                }),
            }
        }
        self.later.push_back(Event::Stale(asid, VpnRange::between(Vpn(from), Vpn(to))));
        self.look_at(from, to);
    }

    /// Superpages fall to smaller ones, ranges dissolve; all translations stay true.
    fn demote(&mut self, asid: Asid, vpn: u64) {
        let Some(&e) = self.table.at(asid, vpn) else { return };
        if (e.order == 0 && !e.ranged) || self.is_fixed(asid, e.first, e.end()) {
            return;
        }
        let n = 1 << e.order;
        let (from, to) = if e.ranged || self.percent(50) { (e.first, e.end()) } else { (vpn / n * n, vpn / n * n + n) };
        let order = if e.order > 9 { 9 } else { self.pick(&[0, 0, e.order.saturating_sub(2)]) };
        self.table.remove(&e);
        let middle = e.part(from, to).map(|part| Extent { order, ..part });
        for part in [e.part(e.first, from), middle, e.part(to, e.end())].into_iter().flatten() {
            self.table.insert(Extent { ranged: false, ..part });
        }
        self.later.push_back(Event::Demoted(asid, VpnRange::between(Vpn(from), Vpn(to))));
        self.look_at(vpn, vpn + 1);
    }

    /// Properly placed pages become superpages, or get a range. Nobody is told (T94-41).
    fn promote(&mut self, asid: Asid, vpn: u64) {
        let orders = [self.pick(&[2, 4, 8, 9]), 4, 2];
        let found = orders.into_iter().find_map(|order| self.promotable(asid, vpn, order));
        if let Some(whole) = found {
            let (from, to) = (whole.first, whole.end());
            for e in self.table.overlapping(asid, from, to) {
                self.table.remove(&e);
                for part in [e.part(e.first, from), e.part(to, e.end())].into_iter().flatten() {
                    self.table.insert(part);
                }
            }
            self.table.insert(whole);
            self.look_at(from, to);
            let page = from + self.below(to - from);
            self.next.push_back(page);
        } else if let Some(e) = self.table.get_mut(asid, vpn) {
            e.ranged |= e.pages >= 8 && e.first < KERNEL;
        }
        self.look_at(vpn, vpn + 1);
    }

    /// A group is mapped in base pages, some of which are referenced before it becomes a superpage, and others after it.
    fn grow(&mut self, vpn: u64) {
        let Some(place) = layout::place_of(vpn) else { return };
        let (asid, n) = (self.now, self.pick(&[4, 16, 16, 256]));
        let from = vpn / n * n;
        if layout::pages(place).0 > from || self.is_fixed(asid, from, from + n) {
            return;
        }
        self.cut(asid, from, from + n);
        self.later.push_back(Event::Stale(asid, VpnRange { start: Vpn(from), pages: n }));
        let pfn = layout::frames(self, n, n, 0);
        self.table.insert(Extent { asid, first: from, pages: n, pfn, attr: Attr(7), order: 0, ranged: false });
        for _ in 0..1 + self.below(6) {
            let page = from + self.below(n);
            self.next.push_back(page);
        }
        self.growing = Some((asid, vpn));
    }

    /// The aligned group of this order around a page, if it can be one superpage and is not yet.
    fn promotable(&self, asid: Asid, vpn: u64, order: u8) -> Option<Extent> {
        let n = 1 << order;
        let from = vpn / n * n;
        let first = self.table.at(asid, from)?;
        let whole = Extent { first: from, pages: n, pfn: first.pfn + from - first.first, order, ..*first };
        let fits = |e: &Extent| {
            let placed = e.pfn.wrapping_sub(e.first) == first.pfn.wrapping_sub(first.first) && e.attr == first.attr;
            placed && e.order < order && !e.ranged
        };
        let extents = self.table.overlapping(asid, from, from + n);
        let pages: u64 = extents.iter().filter_map(|e| e.part(from, from + n)).map(|part| part.pages).sum();
        (from < KERNEL && pages == n && whole.pfn.is_multiple_of(n) && extents.iter().all(fits)).then_some(whole)
    }

    /// Adjacent extents become one, and so do their ranges (RMM15-21). Nobody is told.
    fn merge(&mut self, asid: Asid, vpn: u64) {
        let Some(&e) = self.table.at(asid, vpn) else { return };
        let Some(&next) = self.table.at(asid, e.end()) else { return };
        let follows = (next.pfn, next.attr, next.order) == (e.pfn + e.pages, e.attr, e.order);
        if follows && e.ranged == next.ranged && next.first < KERNEL && !self.is_fixed(asid, e.first, next.end()) {
            self.table.remove(&e);
            self.table.remove(&next);
            self.table.insert(Extent { pages: e.pages + next.pages, ..e });
        }
    }

    /// Ranges without news: empty ones, cut ones, all there is.
    fn tell_nothing_new(&mut self, asid: Asid, vpn: u64) {
        let pages = self.pick(&[0, 1, 2, 5, 16, 48, 600]);
        let whole = VpnRange { start: Vpn(0), pages: 1 << 52 };
        let range = if self.percent(10) { whole } else { VpnRange { start: Vpn(vpn), pages } };
        let event = if self.percent(60) { Event::Stale(asid, range) } else { Event::Demoted(asid, range) };
        self.later.push_back(event);
        self.look_at(vpn, vpn + 1);
    }

    /// A process ends. Another one gets its number, and pages of its own.
    fn gone(&mut self) {
        let asid = Asid(self.below(SPACES.into()) as u32);
        for e in self.table.of(asid).copied().collect::<Vec<_>>() {
            self.table.remove(&e);
        }
        self.table.segments.remove(&asid);
        self.populate(asid);
        self.later.push_back(Event::Gone(asid));
        let to = if self.percent(50) { asid } else { self.now };
        self.later.push_back(Event::Switch(to));
    }

    /// Another process runs, for a moment or for longer.
    fn switch(&mut self) {
        let to = Asid(self.below(SPACES.into()) as u32);
        self.later.push_back(Event::Switch(to));
        if self.percent(30) {
            self.later.push_back(Event::Switch(self.now));
        }
        let i = self.below(self.hot.len() as u64) as usize;
        let vpn = self.hot[i];
        self.look_at(vpn, vpn + 1);
    }

    /// A segment comes over an extent, or goes (DS13-20, DS13-22).
    fn change_segment(&mut self, asid: Asid, vpn: u64) {
        if self.table.segments.remove(&asid).is_none() {
            let Some(&e) = self.table.at(asid, vpn).filter(|e| e.first < KERNEL) else { return };
            let segment = Segment { base: Vpn(e.first), limit: Vpn(e.end()), pfn: Pfn(e.pfn) };
            self.table.segments.insert(asid, segment);
            self.table.get_mut(asid, vpn).expect("it is there").ranged = false;
            self.later.push_back(Event::Segment(asid));
            self.later.push_back(Event::Stale(asid, e.range()));
        } else {
            self.later.push_back(Event::Segment(asid));
        }
        self.look_at(vpn, vpn + 1);
    }
}
