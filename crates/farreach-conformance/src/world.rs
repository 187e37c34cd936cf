//! A memory whose mappings change, and the references to it, which keep pages hot while their mappings change.
//!
//! All processes use the same virtual pages, so that an entry of another process is wrong. Frames are allocated once,
//! so that an outdated entry is wrong too.

use crate::layout::{self, PLACES, SPACES};
use crate::table::{Extent, KERNEL, KERNEL_PAGES, Table};
use farreach_hw::tlb::Lookup;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::translation::{Attr, PageTableView, Pte};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;
use std::fmt;

/// Events for designs. The page table shows them already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    Lookup(Lookup, Pte),
    /// These pages were unmapped or mapped differently (T94-18).
    Stale(Asid, VpnRange),
    /// Superpages were split, or ranges dissolved (T94-42, RMM15-12).
    Demoted(Asid, VpnRange),
    Gone(Asid),
    Switch(Asid),
    Thread(Asid, u32),
    /// The segment registers of the process changed (DS13-24).
    Segment(Asid),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pages = |range: &VpnRange| format!("pages {:#x} to {:#x}", range.start.0, range.end().0);
        match self {
            Event::Lookup(at, pte) => {
                let Lookup { asid, vpn, kind } = at;
                write!(f, "{kind:?} of page {:#x} of space {} (frame {:#x}, ", vpn.0, asid.0, pte.pfn.0)?;
                write!(f, "attributes {:#x}, order {})", pte.attr.0, pte.order)
            }
            Event::Stale(asid, range) => write!(f, "invalidation of {} of space {}", pages(range), asid.0),
            Event::Demoted(asid, range) => write!(f, "demotion of {} of space {}", pages(range), asid.0),
            Event::Gone(asid) => write!(f, "end of space {}", asid.0),
            Event::Switch(asid) => write!(f, "switch to space {}", asid.0),
            Event::Thread(asid, thread) => write!(f, "thread {thread} of space {}", asid.0),
            Event::Segment(asid) => write!(f, "new segment registers of space {}", asid.0),
        }
    }
}

/// Page tables, references, and the random generator.
pub struct World {
    pub table: Table,
    rng: Pcg64Mcg,
    pub(super) frame: u64,
    pub(super) now: Asid,
    /// Pages that are likely to be referenced, as far as they are mapped.
    pub(super) hot: Vec<u64>,
    at: usize,
    in_order: bool,
    /// Entries of the design: lists of hot pages have about this length.
    capacity: usize,
    pub(super) later: VecDeque<Event>,
    /// Pages to be referenced next.
    pub(super) next: VecDeque<u64>,
    /// A page whose group becomes a superpage after that.
    pub(super) growing: Option<(Asid, u64)>,
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

    pub(super) fn populate(&mut self, asid: Asid) {
        (0..PLACES).for_each(|place| self.lay(asid, place));
        let pfn = layout::frames(self, KERNEL_PAGES, 512, 0);
        let attr = Attr(Attr::READ | Attr::WRITE);
        self.table.insert(Extent { asid, first: KERNEL, pages: KERNEL_PAGES, pfn, attr, order: 9, ranged: false });
    }

    pub(super) fn lay(&mut self, asid: Asid, place: u64) {
        for extent in layout::place(self, asid, place) {
            self.table.insert(extent);
        }
    }

    /// Other pages become hot: slightly too many for the design, or few enough.
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
                // The pages of a large place that are no superpage lie at its beginning.
                false => {
                    let near = self.pick(&[pages, pages.min(1024)]);
                    first + self.below(near)
                }
            };
            let stride = self.pick(&[1, 1, 1, 1, 3, 8, 16, 64, 512]);
            let run = self.pick(&[1, 2, 5, 16, 40, n as u64]).min((n - self.hot.len()) as u64);
            self.hot.extend((0..run).map(|i| from + i * stride));
        }
        self.in_order = self.percent(50);
    }

    /// Whether all changes in the page table were reported to designs.
    pub fn all_reported(&self) -> bool {
        self.later.is_empty()
    }

    /// The next step.
    pub fn step(&mut self) -> Event {
        self.table.clock += 1;
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
        let kinds =
            [(Kind::Load, Attr::READ), (Kind::Store, Attr::WRITE), (Kind::Fetch, Attr::EXEC), (Kind::Load, Attr::READ)];
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

    /// A fault maps a hole beside mapped pages, perhaps where its neighbour's frame says. No design has an entry for
    /// it.
    fn fault(&mut self, asid: Asid, vpn: u64) {
        let Some(place) = layout::place_of(vpn).filter(|_| self.percent(50)) else { return };
        let beside =
            [vpn ^ 1, vpn.wrapping_sub(1), vpn + 1].into_iter().find_map(|v| Some((v, *self.table.at(asid, v)?)));
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
}
