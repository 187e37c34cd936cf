//! A machine with a fault around its hierarchy.

use super::faults::Fault::{self, *};
use super::*;
use farreach_hw::tlb::{Answer, Capabilities, OnDemotion, OnFetch, OnMap, OnSwitch, additions};
use farreach_types::counts::TlbCounts;

/// A machine that is wrong in one way.
pub(super) struct Faulty {
    tlb: Box<dyn Tlb>,
    fault: Fault,
    part: &'static str,
    counts: TlbCounts,
    /// Of the lookup before.
    pc: u64,
    position: u64,
}

impl Faulty {
    pub fn new(tlb: Box<dyn Tlb>, fault: Fault, part: &'static str) -> Faulty {
        Faulty { counts: tlb.counts().clone(), tlb, fault, part, pc: 0, position: 0 }
    }

    /// The counts that it shows, with the fault in what was counted since.
    fn count(&mut self, before: &TlbCounts) {
        let mut now = self.tlb.counts().clone();
        let place = now.parts.iter().position(|(name, _)| name == self.part).expect("it has the part");
        let answers = additions::listed(self.part).and_then(|listed| listed.answers);
        let names = additions::listed(self.part).map_or(&[][..], |listed| listed.counters);
        let index = |name: &str| names.iter().position(|counter| counter.name == name);
        let hits = answers.map_or(0, |name| now.parts.count(self.part, name) - before.parts.count(self.part, name));
        let lies = self.counts.parts.at(place).clone();
        let extra = |name: &str, before: &TlbCounts| lies.counters.get(name) - before.parts.count(self.part, name);
        match self.fault {
            HitCountedTwice => {
                let name = answers.expect("it answers");
                *now.parts.at(place).counters.at(index(name).expect("listed")) += extra(name, before) + hits;
            }
            WalkNotMade => now.walk.walks += self.counts.walk.walks - before.walk.walks + hits,
            ReferenceNotCounted => now.parts.at(place).memory.made.background_references /= 2,
            _ => {}
        }
        self.counts = now;
    }

    fn event(&mut self, event: impl FnOnce(&mut dyn Tlb)) {
        let before = self.tlb.counts().clone();
        event(&mut *self.tlb);
        self.count(&before);
    }
}

impl Tlb for Faulty {
    fn access(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer {
        let before = self.tlb.counts().clone();
        let mut answer = self.tlb.access(at, pte, table, unfiltered);
        let missed = answer.outcome != Outcome::Hit;
        if missed && self.fault == TlbUnfilled && at.vpn.0 % 4 == 1 {
            self.tlb.invalidate(at.asid, VpnRange::one(at.vpn), unfiltered);
        }
        self.count(&before);
        if missed && self.fault == MissCalledHit && at.vpn.0.is_multiple_of(8) {
            answer.outcome = Outcome::Hit;
        }
        answer
    }
    fn invalidate(&mut self, asid: Asid, mut pages: VpnRange, unfiltered: &mut Unfiltered) {
        match self.fault {
            ChangeForgotten => return,
            ChangeOfFirstPage => pages.pages = 1,
            _ => {}
        }
        self.event(|tlb| tlb.invalidate(asid, pages, unfiltered));
    }
    fn invalidate_space(&mut self, asid: Asid, unfiltered: &mut Unfiltered) {
        if self.fault != EndForgotten {
            self.event(|tlb| tlb.invalidate_space(asid, unfiltered));
        }
    }
    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        self.tlb.probe(asid, vpn, kind)
    }
    fn entries(&self) -> Vec<EntryView> {
        self.entries_in(0..usize::MAX)
    }
    fn entries_in(&self, slots: std::ops::Range<usize>) -> Vec<EntryView> {
        let behind = slots.end == usize::MAX && slots.start > 0;
        let mut entries = self.tlb.entries_in(slots);
        if self.fault == StaleFrame && behind {
            entries.iter_mut().for_each(|e| e.pages[0].1.pfn.0 -= u64::from(e.base.0 % 8 == 3));
        }
        entries
    }
    fn counts(&self) -> &TlbCounts {
        &self.counts
    }
}

impl Capabilities for Faulty {
    fn on_demotion(&mut self) -> Option<&mut dyn OnDemotion> {
        Some(self)
    }
    fn on_switch(&mut self) -> Option<&mut dyn OnSwitch> {
        Some(self)
    }
    fn on_fetch(&mut self) -> Option<&mut dyn OnFetch> {
        Some(self)
    }
    fn on_map(&mut self) -> Option<&mut dyn OnMap> {
        Some(self)
    }
}

impl OnDemotion for Faulty {
    fn demote(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        if self.fault != SplitForgotten {
            self.event(|tlb| tlb.demote(asid, pages, unfiltered));
        }
    }
}

impl OnSwitch for Faulty {
    fn switch(&mut self, to: Asid, unfiltered: &mut Unfiltered) {
        if self.fault != SwitchForgotten {
            self.event(|tlb| tlb.switch(to, unfiltered));
        }
    }
}

impl OnFetch for Faulty {
    fn latest_fetch(&mut self, address: u64) {
        let old = std::mem::replace(&mut self.pc, address);
        self.tlb.latest_fetch(if self.fault == OldFetch { old } else { address });
    }
    fn position(&mut self, instructions: u64) {
        let old = std::mem::replace(&mut self.position, instructions);
        self.tlb.position(if self.fault == OldPosition { old } else { instructions });
    }
    fn because_of(&mut self) -> String {
        String::new()
    }
}

impl OnMap for Faulty {
    fn mapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView) {
        if self.fault != MapForgotten {
            self.event(|tlb| tlb.mapped(asid, pages, table));
        }
    }
    fn faulting(&mut self, asid: Asid, vpn: Vpn) {
        self.event(|tlb| tlb.faulting(asid, vpn));
    }
    fn unmapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView) {
        if self.fault != UnmapForgotten {
            self.event(|tlb| tlb.unmapped(asid, pages, table));
        }
    }
}
