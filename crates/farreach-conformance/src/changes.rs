//! Changes of mappings: everything that an operating system does, at pages in use.

use crate::layout::{self, SPACES};
use crate::table::{Extent, KERNEL};
use crate::world::{Event, World};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::translation::{Attr, Segment};

impl World {
    /// A page to change: mostly a hot one.
    fn victim(&mut self) -> (Asid, u64) {
        let asid = if self.percent(80) { self.now } else { Asid(self.below(SPACES.into()) as u32) };
        let i = self.below(self.hot.len() as u64) as usize;
        let near = self.hot[i].wrapping_add(self.pick(&[0, 0, 0, 1, u64::MAX, 5]));
        if self.table.at(asid, near).is_some() && self.percent(90) {
            return (asid, near);
        }
        let n = self.table.of(asid).count() as u64;
        let i = self.below(n) as usize;
        let e = *self.table.of(asid).nth(i).expect("the index is below the number of extents");
        (asid, e.first + self.below(e.pages))
    }

    /// Pages in a segment do not change while it exists, nor do those of the kernel.
    fn is_fixed(&self, asid: Asid, from: u64, to: u64) -> bool {
        let holds = |s: &Segment| from < s.limit.0 && s.base.0 < to;
        to > KERNEL || self.table.segments.get(&asid).is_some_and(holds)
    }

    pub(super) fn change(&mut self) {
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

    /// The pages around a change are referenced next.
    fn look_at(&mut self, from: u64, to: u64) {
        let near = [from, to - 1, from.wrapping_sub(1), to, from + (to - from) / 2];
        self.next.extend(near);
    }

    /// Removes pages from the table: superpages that they cut become base pages, ranges shrink or dissolve. The change
    /// is reported to designs later.
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

    /// Some pages are unmapped, move, or get another protection.
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

    /// Superpages split into smaller ones, ranges dissolve; all translations stay valid.
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

    /// Properly placed pages become superpages, or get a range. It is not reported (T94-41).
    pub(super) fn promote(&mut self, asid: Asid, vpn: u64) {
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

    /// A group is mapped in base pages, some of which are referenced before it becomes a superpage, and others after
    /// it.
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

    /// Adjacent extents become one, and so do their ranges (RMM15-21). It is not reported.
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

    /// Invalidations without a change: of empty ranges, cut ranges, everything.
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

    /// Another process runs, for a short or a long time.
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

    /// A segment is created over an extent, or removed (DS13-20, DS13-22).
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
