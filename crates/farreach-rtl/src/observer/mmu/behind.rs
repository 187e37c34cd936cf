//! What stands behind or before the first level, besides page TLBs: clusters, ranges, segments.

use super::walkers::offset;
use crate::observer::changes::groups;
use crate::part::{Part, Stop};
use crate::request::{Expected, Op, Request, pte_word};
use farreach_hw::tlb::{EntryView, Lookup};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::translation::{PageTableView, Pte, Range, Segment};

/// A clustered TLB.
pub struct Clusters {
    pub part: Part,
    /// Its first slot among those of the design.
    pub first: usize,
    /// log2 of the pages of a cluster.
    pub order: u8,
}

impl Clusters {
    pub fn lookup(&mut self, at: Lookup, pte: Pte, hit: bool) -> Result<(), Stop> {
        let request = Request::new(Op::Lookup, at.asid.0, at.vpn.0);
        if hit {
            return self.part.ask(&request, Expected::Hit { frame: pte.pfn.0, attr: pte.attr.0 }, None);
        }
        // Whether other pages of the cluster are there is no business of the simulator's second level.
        self.part.ask(&request, Expected::Absent, None)
    }

    /// A walk found the page; its line of the page table comes with it.
    pub fn fill(
        &mut self,
        at: Lookup,
        pte: Pte,
        table: &dyn PageTableView,
        views: &[EntryView],
        evicts: bool,
    ) -> Result<(), Stop> {
        let request = self.request(at.asid, at.vpn, pte, table);
        let base = at.vpn.align_down(self.order.into()).0;
        let slots = self.first..self.first + self.part.shape().0;
        let has = |view: &&EntryView| {
            let page = (at.vpn.0 - base, pte.pfn.0);
            slots.contains(&view.slot)
                && (view.asid, view.base.0) == (at.asid, base)
                && view.pages.iter().any(|(offset, is, _)| (*offset, is.pfn.0) == page)
        };
        let slot = views.iter().find(has).map_or(u32::MAX, |view| (view.slot - self.first) as u32);
        self.part.ask(&request, Expected::Filled { slot, evicts }, None)
    }

    /// The fill for a page.
    fn request(&self, asid: Asid, vpn: Vpn, pte: Pte, table: &dyn PageTableView) -> Request {
        let mut request = Request::new(Op::Fill, asid.0, vpn.0);
        (request.frame, request.attr) = (pte.pfn.0, pte.attr.0);
        let base = vpn.align_down(self.order.into()).0;
        let word = |page: u64| table.pte(asid, Vpn(page)).map_or(0, |pte| pte_word(pte.pfn.0, pte.attr.0));
        request.further = (base..base + (1 << self.order)).map(word).collect();
        request
    }

    /// Fills that bring what it holds.
    pub fn contents(&self, table: &dyn PageTableView, views: &[EntryView]) -> Vec<Request> {
        let slots = self.first..self.first + self.part.shape().0;
        let fill = |view: &EntryView| {
            let vpn = Vpn(view.base.0 + view.pages.first()?.0);
            Some(self.request(view.asid, vpn, table.pte(view.asid, vpn)?, table))
        };
        views.iter().filter(|view| slots.contains(&view.slot)).filter_map(fill).collect()
    }

    pub fn drop_pages(&mut self, asid: Asid, pages: VpnRange, before: &[EntryView]) -> Result<(), Stop> {
        let slots = self.first..self.first + self.part.shape().0;
        let mine = before.iter().filter(|view| view.asid == asid && slots.contains(&view.slot));
        let held = mine.flat_map(|view| view.pages.iter().map(|(offset, ..)| Vpn(view.base.0 + offset)));
        for page in groups(pages, 0, held) {
            self.part.ask(&Request::new(Op::DropPage, asid.0, page), Expected::Done, None)?;
        }
        Ok(())
    }
}

/// A range TLB.
pub struct Ranges {
    pub part: Part,
    /// Its first slot among those of the design.
    pub first: usize,
}

impl Ranges {
    /// The fill for a range.
    fn request(asid: Asid, range: &Range) -> Request {
        let mut request = Request::new(Op::Fill, asid.0, range.first.0);
        (request.limit, request.frame, request.attr) = (range.first.0 + range.pages, offset(range), range.attr.0);
        request
    }

    /// Fills that bring what it holds.
    pub fn contents(&self, table: &dyn PageTableView, views: &[EntryView]) -> Vec<Request> {
        let slots = self.first..self.first + self.part.shape().0;
        let fill = |view: &EntryView| {
            let range = table.ranges().range(view.asid, view.base)?;
            Some(Ranges::request(view.asid, &range))
        };
        views.iter().filter(|view| slots.contains(&view.slot)).filter_map(fill).collect()
    }

    pub fn lookup(&mut self, at: Lookup, pte: Pte, hit: bool) -> Result<(), Stop> {
        let hit =
            if hit { Expected::Hit { frame: pte.pfn.0, attr: pte.attr.0 } } else { Expected::Miss { part: false } };
        self.part.ask(&Request::new(Op::Lookup, at.asid.0, at.vpn.0), hit, None)
    }

    pub fn fill(&mut self, asid: Asid, range: &Range, views: &[EntryView], evicts: bool) -> Result<(), Stop> {
        let request = Ranges::request(asid, range);
        let slots = self.first..self.first + self.part.shape().0;
        let is = |view: &&EntryView| slots.contains(&view.slot) && (view.asid, view.base) == (asid, range.first);
        let slot = views.iter().find(is).map_or(u32::MAX, |view| (view.slot - self.first) as u32);
        self.part.ask(&request, Expected::Filled { slot, evicts }, None)
    }

    pub fn drop_pages(&mut self, asid: Asid, pages: VpnRange, before: &[EntryView]) -> Result<(), Stop> {
        let slots = self.first..self.first + self.part.shape().0;
        let mine = before.iter().filter(|view| view.asid == asid && slots.contains(&view.slot));
        // A page of each range that lies in what changed.
        let held = mine.map(|view| Vpn(view.base.0.max(pages.start.0)));
        for page in groups(pages, 0, held) {
            self.part.ask(&Request::new(Op::DropPage, asid.0, page), Expected::Done, None)?;
        }
        Ok(())
    }
}

/// The registers of a direct segment.
pub struct SegmentRegisters {
    part: Part,
    loaded: Option<(Segment, u8)>,
}

impl SegmentRegisters {
    pub fn new(part: Part) -> SegmentRegisters {
        SegmentRegisters { part, loaded: None }
    }
    pub fn part(&mut self) -> &mut Part {
        &mut self.part
    }
    /// From now on what it is asked is kept. It is loaded again first.
    pub fn keep(&mut self) {
        self.part.keep(Vec::new());
        self.loaded = None;
    }

    /// A lookup; whether the registers serve it. They are loaded first, if they have changed (DS13-17).
    pub fn lookup(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView) -> Result<bool, Stop> {
        let segment = table.segments().segment(at.asid).filter(|segment| segment.base < segment.limit);
        let frame = segment.and_then(|segment| segment.translate(at.vpn));
        // The one protection of the segment (DS13-10) is that of any of its pages.
        let attr = |segment: &Segment| match frame {
            Some(_) => pte.attr.0,
            None => table.pte(at.asid, segment.base).map_or(0, |pte| pte.attr.0),
        };
        let now = segment.map(|segment| (segment, attr(&segment)));
        if now != self.loaded {
            let (request, expected) = match now {
                Some((segment, attr)) => {
                    let mut request = Request::new(Op::Fill, at.asid.0, segment.base.0);
                    request.limit = segment.limit.0;
                    (request.frame, request.attr) = (segment.pfn.0.wrapping_sub(segment.base.0), attr);
                    (request, Expected::Filled { slot: 0, evicts: false })
                }
                None => (Request::new(Op::DropAll, 0, 0), Expected::Done),
            };
            self.part.ask(&request, expected, None)?;
            self.loaded = now;
        }
        let request = Request { kind: at.kind, ..Request::new(Op::Lookup, at.asid.0, at.vpn.0) };
        let served = frame.filter(|_| at.kind != Kind::Fetch);
        let expected = match served {
            Some(frame) => Expected::Hit { frame: frame.0, attr: pte.attr.0 },
            None => Expected::Miss { part: false },
        };
        self.part.ask(&request, expected, None)?;
        Ok(served.is_some())
    }
}
