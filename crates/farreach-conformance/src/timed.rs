//! A design behind a filter that keeps the times of the last lookups, as the machine does: pages whose next lookup
//! changes the order of use may stay in it, and the design asks for their times. Only designs with
//! [`farreach_hw::tlb::Timed`] do.

use crate::subject::Subject;
use crate::table::{Table, Told};
use crate::tally::need;
use crate::watch::{apply, ask, tell_maps};
use crate::world::Event;
use farreach_hw::tlb::filter::times::{LookupTimes, NO_PAGE, SLOTS_PER_SIDE, TimedReport};
use farreach_hw::tlb::{Answer, EntryView, Lookup, Outcome, Tlb, Unfiltered};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::Kind;
use farreach_types::translation::Pte;
use std::collections::{BTreeMap, HashSet};

pub struct Timed {
    tlb: Box<dyn Tlb>,
    told: Told,
    timed: TimedReport,
    now: Asid,
    /// Slots with the page that has them.
    claimed: BTreeMap<usize, u64>,
    filter: HashSet<(Vpn, Kind)>,
}

/// Room for the times of one more lookup. Most streams are long enough to run out of it several times.
const ROOM: u32 = 15_000;

fn is_fetch(kind: Kind) -> bool {
    kind == Kind::Fetch
}

impl Timed {
    /// `None`: the design does not use times.
    pub fn new(subject: &Subject) -> Option<Timed> {
        let mut tlb = subject.build(None);
        tlb.timed()?;
        let mut timed = TimedReport::new();
        timed.times_mut().asid = Some(Asid(0));
        Some(Timed {
            tlb,
            told: Told::default(),
            timed,
            now: Asid(0),
            claimed: BTreeMap::new(),
            filter: HashSet::new(),
        })
    }

    fn note(&mut self, slot: usize, vpn: u64, when: u64) {
        self.tlb.timed().expect("it is").note_lookup(self.now, Vpn(vpn), slot >= SLOTS_PER_SIDE, when);
    }

    /// Hands all times to the design, and empties the table: a machine does so when there is no room for more.
    fn restart(&mut self) {
        for (&slot, &vpn) in &self.claimed.clone() {
            if let Some(when) = self.timed.times().last_lookup(slot) {
                self.note(slot, vpn, when);
            }
        }
        self.timed.times_mut().restart();
    }

    /// The slot of the page of a lookup, taken from another page if need be.
    fn claim(&mut self, at: Lookup) -> usize {
        let slot = LookupTimes::hash(at.vpn.0) + if is_fetch(at.kind) { SLOTS_PER_SIDE } else { 0 };
        if self.timed.times().entry(slot).vpn != at.vpn.0 {
            if let Some(former) = self.claimed.insert(slot, at.vpn.0) {
                self.filter.retain(|&(vpn, kind)| vpn.0 != former || is_fetch(kind) != is_fetch(at.kind));
            }
            if let Some((vpn, when)) = self.timed.times_mut().replace(slot, at.vpn.0) {
                self.note(slot, vpn, when);
            }
        }
        slot
    }

    pub fn lookup(&mut self, at: Lookup, pte: Pte, plain: Answer, table: &Table) -> Result<(), String> {
        tell_maps(&mut *self.tlb, &mut self.told, table);
        if self.timed.times().room() < ROOM {
            self.restart();
        }
        let slot = self.claim(at);
        if self.filter.contains(&(at.vpn, at.kind)) {
            need(plain.outcome == Outcome::Hit, || {
                format!("{at:?} is filtered, and the plain design answers {plain:?}")
            })?;
        } else {
            let report = self.timed.report();
            report.clear_for([true, true]);
            let answer = ask(&mut *self.tlb, &mut self.told, (at, pte, table), report);
            self.leave();
            if answer.filterable {
                self.filter.insert((at.vpn, at.kind));
                if at.kind == Kind::Store {
                    self.filter.insert((at.vpn, Kind::Load));
                }
            }
            need(answer.outcome == plain.outcome, || {
                format!(
                    "{at:?} ends as {:?} behind a filter with times, and as {:?} without",
                    answer.outcome, plain.outcome
                )
            })?;
        }
        self.timed.times_mut().stamp(slot);
        Ok(())
    }

    fn leave(&mut self) {
        let (report, now) = (&*self.timed.report(), self.now);
        self.filter.retain(|&(vpn, _)| !report.contains(now, vpn));
    }

    pub fn apply(&mut self, event: Event, table: &Table) {
        if let Event::Switch(to) = event {
            // Passes the times of lookups on, and empties the table for the next process.
            for (slot, _) in std::mem::take(&mut self.claimed) {
                if let Some((vpn, when)) = self.timed.times_mut().replace(slot, NO_PAGE) {
                    self.note(slot, vpn, when);
                }
            }
            self.filter.clear();
            self.now = to;
            self.timed.times_mut().asid = Some(to);
            return apply(event, &mut *self.tlb, table, &mut Unfiltered::default());
        }
        let report = self.timed.report();
        report.clear_for([true, true]);
        apply(event, &mut *self.tlb, table, report);
        self.leave();
    }

    /// Used bits may be late.
    pub fn equals(&self, plain: &dyn Tlb) -> Result<(), String> {
        need(self.tlb.counts() == plain.counts(), || {
            format!("behind a filter with times it counts {:?}, without {:?}", self.tlb.counts(), plain.counts())
        })?;
        let without =
            |tlb: &dyn Tlb| tlb.entries().into_iter().map(|e| EntryView { used: None, ..e }).collect::<Vec<_>>();
        need(without(&*self.tlb) == without(plain), || "behind a filter with times its entries are others".into())
    }
}
