//! A design with a fault around it.

use farreach_hw::tlb::{
    Answer, Capabilities, EntryView, Lookup, OnDemotion, OnSwitch, Outcome, Timed, Tlb, Unfiltered,
};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::translation::{PageTableView, Pte, Translation};
use std::collections::HashMap;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    None,
    InvalidationIgnored,
    InvalidationOfFirstPage,
    InvalidationWithoutLastPage,
    InvalidationOfSpace,
    InvalidationNotCounted,
    DemotionIgnored,
    EndIgnored,
    SwitchIgnored,
    /// A level behind the design that keeps invalidated translations.
    StaleSecondLevel,
    WrongFrame,
    WrongProtection,
    AlwaysFilterable,
    EvictionNotReported,
    InvalidationNotReported,
    MissCountedTwice,
    MissOnTheWrongSide,
    EvictionNotCounted,
    HitCountsAFill,
    MissCalledHit,
    TwiceTheEntries,
    OnePageTwice,
    AlwaysModified,
    NeverModified,
    NeverUsed,
    SeedIgnored,
    NotRepeatable,
    /// The time of a lookup that leaves the machine's table.
    TimeForgotten,
}
use Fault::*;

/// A design that is wrong in one way.
pub struct Faulty {
    tlb: Box<dyn Tlb>,
    fault: Fault,
    /// Nobody can look into it.
    opaque: bool,
    counts: TlbCounts,
    /// The translations in the second level, which ignores invalidations.
    kept: HashMap<(Asid, Vpn), Translation>,
}

impl Faulty {
    pub fn new(tlb: Box<dyn Tlb>, fault: Fault, opaque: bool) -> Faulty {
        Faulty { counts: tlb.counts().clone(), tlb, fault, opaque, kept: HashMap::new() }
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// The counts that it reports, from its previous and present counts.
    fn count(&mut self, before: &TlbCounts) {
        let mut now = self.tlb.counts().clone();
        let gained = |f: fn(&TlbCounts) -> u64| f(&now) - f(before);
        let (misses, fetch) = (gained(|c| c.misses), gained(|c| c.fetch_misses));
        let (evictions, invalidations) = (gained(|c| c.evictions), gained(|c| c.invalidations));
        let lie = &self.counts;
        // Earlier false counts stay false.
        let add = |was: u64, real: u64, before: u64| was + real - before;
        now.misses = add(lie.misses, now.misses, before.misses);
        now.fetch_misses = add(lie.fetch_misses, now.fetch_misses, before.fetch_misses);
        now.data_misses = add(lie.data_misses, now.data_misses, before.data_misses);
        now.load_misses = add(lie.load_misses, now.load_misses, before.load_misses);
        now.evictions = add(lie.evictions, now.evictions, before.evictions);
        now.invalidations = add(lie.invalidations, now.invalidations, before.invalidations);
        now.fills = add(lie.fills, now.fills, before.fills);
        match self.fault {
            MissCountedTwice => now.misses += misses,
            MissOnTheWrongSide => {
                now.fetch_misses -= fetch;
                now.data_misses += fetch;
                now.load_misses += fetch;
            }
            EvictionNotCounted => now.evictions -= evictions,
            InvalidationNotCounted => now.invalidations -= invalidations,
            HitCountsAFill if misses == 0 => now.fills += 1,
            _ => {}
        }
        self.counts = now;
    }

    fn event(&mut self, unfiltered: &mut Unfiltered, event: impl FnOnce(&mut dyn Tlb, &mut Unfiltered)) {
        let before = self.tlb.counts().clone();
        let mut ignored = Unfiltered::default();
        let report = if self.is(InvalidationNotReported) { &mut ignored } else { unfiltered };
        event(&mut *self.tlb, report);
        self.count(&before);
    }
}

impl Tlb for Faulty {
    fn access(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer {
        if self.is(StaleSecondLevel) {
            let page = Translation { pfn: pte.pfn, attr: pte.attr };
            if self.tlb.probe(at.asid, at.vpn, at.kind).is_none() && self.kept.contains_key(&(at.asid, at.vpn)) {
                return Answer { outcome: Outcome::Hit, filterable: false };
            }
            self.kept.insert((at.asid, at.vpn), page);
        }
        let before = self.tlb.counts().clone();
        let mut ignored = Unfiltered::default();
        let report = if self.is(EvictionNotReported) { &mut ignored } else { unfiltered };
        let mut answer = self.tlb.access(at, pte, table, report);
        self.count(&before);
        answer.filterable |= self.is(AlwaysFilterable);
        if self.is(MissCalledHit) && at.vpn.0.is_multiple_of(8) {
            answer.outcome = Outcome::Hit;
        }
        answer
    }

    fn invalidate(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        let pages = match self.fault {
            InvalidationIgnored => return,
            InvalidationOfFirstPage => VpnRange { pages: pages.pages.min(1), ..pages },
            InvalidationWithoutLastPage => VpnRange { pages: pages.pages - u64::from(pages.pages > 1), ..pages },
            InvalidationOfSpace => return self.invalidate_space(asid, unfiltered),
            _ => pages,
        };
        self.event(unfiltered, |tlb, unfiltered| tlb.invalidate(asid, pages, unfiltered));
    }

    fn invalidate_space(&mut self, asid: Asid, unfiltered: &mut Unfiltered) {
        if !self.is(EndIgnored) {
            self.event(unfiltered, |tlb, unfiltered| tlb.invalidate_space(asid, unfiltered));
        }
    }

    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        if self.opaque {
            return Option::None;
        }
        let mut said = self.tlb.probe(asid, vpn, kind).or_else(|| self.kept.get(&(asid, vpn)).copied())?;
        said.pfn.0 ^= u64::from(self.is(WrongFrame) && vpn.0 % 16 == 7);
        Some(said)
    }

    fn entries(&self) -> Vec<EntryView> {
        if self.opaque {
            return Vec::new();
        }
        let mut entries = self.tlb.entries();
        if self.is(OnePageTwice) && entries.len() == 4 {
            entries.extend(entries.last().cloned().map(|e| EntryView { slot: e.slot + 1, ..e }));
        }
        for page in entries.iter_mut().flat_map(|e| &mut e.pages) {
            page.1.attr.0 |= u8::from(self.is(WrongProtection)) << 6;
            page.2 = (page.2 || self.is(AlwaysModified)) && !self.is(NeverModified);
        }
        for used in entries.iter_mut().filter_map(|e| e.used.as_mut()) {
            *used &= !self.is(NeverUsed);
        }
        entries
    }

    fn counts(&self) -> &TlbCounts {
        &self.counts
    }
}

impl Capabilities for Faulty {
    fn opaque(&self) -> bool {
        self.opaque
    }
    fn on_demotion(&mut self) -> Option<&mut dyn OnDemotion> {
        Some(self)
    }
    fn on_switch(&mut self) -> Option<&mut dyn OnSwitch> {
        Some(self)
    }
    fn timed(&mut self) -> Option<&mut dyn Timed> {
        self.tlb.timed()?;
        Some(self)
    }
}

impl Timed for Faulty {
    fn orders(&self) -> bool {
        true
    }
    fn note_lookup(&mut self, asid: Asid, vpn: Vpn, fetch: bool, when: u64) {
        if let Some(timed) = self.tlb.timed().filter(|_| self.fault != TimeForgotten) {
            timed.note_lookup(asid, vpn, fetch, when);
        }
    }
    fn settle(&mut self, unfiltered: &mut Unfiltered) {
        self.tlb.timed().into_iter().for_each(|timed| timed.settle(unfiltered));
    }
}

impl OnDemotion for Faulty {
    fn demote(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        if !self.is(DemotionIgnored) {
            self.event(unfiltered, |tlb, unfiltered| tlb.demote(asid, pages, unfiltered));
        }
    }
}

impl OnSwitch for Faulty {
    fn switch(&mut self, to: Asid, unfiltered: &mut Unfiltered) {
        if !self.is(SwitchIgnored) {
            self.event(unfiltered, |tlb, unfiltered| tlb.switch(to, unfiltered));
        }
    }
}
