//! A design that is one array, and one module.

use super::Shared;
use super::changes::{Running, groups};
use crate::part::{Part, State};
use crate::request::{Expected, Op, Request};
use farreach_hw::cache::Port;
use farreach_hw::tlb::{
    Answer, Capabilities, EntryView, Lookup, OnDemotion, OnSwitch, Outcome, Timed, Tlb, Unfiltered,
};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{PageTableView, Pte, Translation};

/// The observer.
pub struct Array {
    tlb: Box<dyn Tlb>,
    part: Part,
    /// Sizes that an entry can have, ascending, as log2 of base pages.
    orders: Vec<u8>,
    /// log2 of the base pages of a region.
    region: u8,
    has_used: bool,
    states_every: u64,
    until_state: u64,
    running: Running,
    shared: Shared,
    stopped: bool,
}

impl Array {
    /// Around a TLB with these keys.
    pub fn new(tlb: Box<dyn Tlb>, part: Part, params: &Params, states_every: u64, shared: Shared) -> Array {
        let order = |size: u64| (size.ilog2() - params.page_shift()) as u8;
        let orders = if params.has("sizes") { params.sizes("sizes").into_iter().map(order).collect() } else { vec![0] };
        Array {
            tlb,
            part,
            orders,
            region: if params.has("factor") { params.int("factor").ilog2() as u8 } else { 0 },
            has_used: params.text("replacement") == "used-bit",
            states_every,
            until_state: states_every,
            running: Running::new(params.flag("process_ids")),
            shared,
            stopped: false,
        }
    }

    /// The largest size that a mapping has room for.
    fn fitting(&self, order: u8) -> u8 {
        self.orders.iter().copied().rfind(|&o| o <= order).unwrap_or(0)
    }

    /// The fill for a page.
    fn fill(&self, at: Lookup, pte: Pte) -> Request {
        let mut request = Request { kind: at.kind, ..Request::new(Op::Fill, at.asid.0, at.vpn.0) };
        request.size = self.fitting(pte.order);
        (request.frame, request.attr) = (pte.pfn.0, pte.attr.0);
        if request.size > self.region {
            let order = request.size.into();
            (request.page, request.frame) = (at.vpn.align_down(order).0, pte.pfn.align_down(order).0);
        }
        request
    }

    /// Fills that bring what the design holds.
    fn contents(&self, table: &dyn PageTableView) -> Vec<Request> {
        let mut fills = Vec::new();
        for view in self.tlb.entries() {
            for (offset, ..) in &view.pages {
                let at = Lookup { asid: view.asid, vpn: Vpn(view.base.0 + offset), kind: Kind::Load };
                fills.extend(table.pte(at.asid, at.vpn).map(|pte| self.fill(at, pte)));
            }
        }
        fills
    }

    fn holds(view: &EntryView, at: Lookup, region: u8) -> bool {
        let offset = at.vpn.0.wrapping_sub(view.base.0);
        let inside = view.asid == at.asid && offset >> view.order == 0;
        let single = view.order != region || region == 0;
        inside && (single || view.pages.iter().any(|(o, ..)| *o == offset))
    }

    /// All bits, now and then.
    fn state(&mut self) -> Option<Box<State>> {
        self.until_state -= 1;
        if self.until_state > 0 {
            return None;
        }
        self.until_state = self.states_every;
        let (entries, parts) = self.part.shape();
        let words = |bits: usize| vec![0u64; bits.div_ceil(64)];
        let (mut valid, mut modified, mut used) = (words(entries * parts), words(entries * parts), words(entries));
        let set = |words: &mut Vec<u64>, bit: usize| words[bit / 64] |= 1 << (bit % 64);
        for view in self.tlb.entries() {
            let first = view.slot * parts;
            let one = parts == 1 || view.order > self.region;
            for (offset, _, stored) in &view.pages {
                let part = first + if one { 0 } else { *offset as usize };
                set(&mut valid, part);
                if *stored {
                    set(&mut modified, part);
                }
            }
            if one {
                (0..parts).for_each(|part| set(&mut valid, first + part));
            }
            if view.used == Some(true) {
                set(&mut used, view.slot);
            }
        }
        Some(Box::new(State { valid, modified, used: self.has_used.then_some(used) }))
    }

    /// Nothing that the design does matters: the check is over, or has not begun.
    fn rests(&self) -> bool {
        self.stopped || !self.part.listens()
    }

    /// Asks the module, unless the check is over. `complete`: the design has done no more than what was asked.
    fn ask(&mut self, request: &Request, expected: Expected, complete: bool) {
        if self.rests() {
            return;
        }
        let state = if complete { self.state() } else { None };
        if let Err(why) = self.part.ask(request, expected, state) {
            self.stopped = true;
            self.shared.stop(why);
        }
    }

    /// Each page of a change by itself; of many pages, those that something is held of.
    fn drop_pages(&mut self, op: Op, asid: Asid, pages: VpnRange, order: u8, before: &[EntryView]) {
        let held = before.iter().filter(|view| view.asid == asid).flat_map(|view| {
            let single = view.pages.len() == 1 && view.pages[0].0 == 0;
            let each = move |(offset, ..): &(u64, Translation, bool)| Vpn(view.base.0 + offset);
            // A page of the entry that lies in the range, wherever the range begins.
            let inside = single.then_some(Vpn(view.base.0.max(pages.start.0)));
            view.pages.iter().map(each).chain(inside)
        });
        for group in groups(pages, order, held) {
            self.ask(&Request::new(op, asid.0, group << order), Expected::Done, false);
        }
    }
}

impl Tlb for Array {
    fn access(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer {
        if self.shared.keeps() && !self.part.keeps() {
            let contents = self.contents(table);
            self.part.keep(contents);
        }
        if self.rests() {
            return self.tlb.access(at, pte, table, unfiltered);
        }
        let evictions = self.tlb.counts().evictions;
        let answer = self.tlb.access(at, pte, table, unfiltered);
        let mut request = Request { kind: at.kind, ..Request::new(Op::Lookup, at.asid.0, at.vpn.0) };
        if answer.outcome == Outcome::Hit {
            self.ask(&request, Expected::Hit { frame: pte.pfn.0, attr: pte.attr.0 }, true);
            return answer;
        }
        self.ask(&request, Expected::Miss { part: answer.outcome == Outcome::SubblockMiss }, false);
        if self.stopped {
            return answer;
        }
        request = self.fill(at, pte);
        let evicts = self.tlb.counts().evictions > evictions;
        let views = self.tlb.entries();
        let slot = views.iter().find(|view| Array::holds(view, at, self.region)).map_or(u32::MAX, |v| v.slot as u32);
        self.ask(&request, Expected::Filled { slot, evicts }, true);
        answer
    }

    fn invalidate(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        let before = if self.rests() { Vec::new() } else { self.tlb.entries() };
        self.tlb.invalidate(asid, pages, unfiltered);
        self.drop_pages(Op::DropPage, asid, pages, 0, &before);
    }

    fn invalidate_space(&mut self, asid: Asid, unfiltered: &mut Unfiltered) {
        self.tlb.invalidate_space(asid, unfiltered);
        self.ask(&Request::new(Op::DropSpace, asid.0, 0), Expected::Done, true);
    }

    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        self.tlb.probe(asid, vpn, kind)
    }
    fn entries(&self) -> Vec<EntryView> {
        self.tlb.entries()
    }
    fn counts(&self) -> &TlbCounts {
        self.tlb.counts()
    }
}

impl Capabilities for Array {
    fn on_demotion(&mut self) -> Option<&mut dyn OnDemotion> {
        if self.tlb.on_demotion().is_some() { Some(self) } else { None }
    }
    fn on_switch(&mut self) -> Option<&mut dyn OnSwitch> {
        if self.tlb.on_switch().is_some() { Some(self) } else { None }
    }
    fn timed(&mut self) -> Option<&mut dyn Timed> {
        self.tlb.timed()
    }
    fn port(&mut self) -> Option<&mut Port> {
        self.tlb.port()
    }
}

impl OnDemotion for Array {
    fn demote(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        let before = if self.rests() { Vec::new() } else { self.tlb.entries() };
        self.tlb.demote(asid, pages, unfiltered);
        // A page of each of the smallest superpages is enough.
        let smallest = self.orders.iter().copied().find(|&order| order > self.region).unwrap_or(0);
        self.drop_pages(Op::Demote, asid, pages, smallest, &before);
    }
}

impl OnSwitch for Array {
    fn switch(&mut self, to: Asid, unfiltered: &mut Unfiltered) {
        self.tlb.switch(to, unfiltered);
        if self.running.switch(to) {
            self.ask(&Request::new(Op::DropAll, 0, 0), Expected::Done, true);
        }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        self.shared.end(&mut self.part);
    }
}
