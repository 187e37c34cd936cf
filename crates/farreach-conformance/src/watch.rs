//! A design under test: every lookup and every event is checked at once, against the page table and against the state
//! before it.

use crate::fresh::Fresh;
use crate::parts::Parts;
use crate::subject::{Subject, Traits};
use crate::table::{Table, Told};
use crate::tally::{self, need};
use crate::truth;
use crate::world::Event;
use farreach_hw::tlb::{Answer, EntryView, Lookup, Outcome, Tlb, Unfiltered};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::translation::{PageTableView, Perforated, Pte};
use std::collections::HashSet;

/// Both sides of a split design.
const SIDES: [Kind; 2] = [Kind::Load, Kind::Fetch];

pub struct Watch<'a> {
    pub tlb: Box<dyn Tlb>,
    told: Told,
    pub traits: &'a Traits,
    parts: Parts,
    counts: TlbCounts,
    /// Entries and counts at the last check, after which there were only lookups.
    entries: Vec<EntryView>,
    counts_then: TlbCounts,
    lookups_since: usize,
    stored: HashSet<(Asid, u64)>,
    /// What an opaque design may still have.
    fresh: Fresh,
    /// A page whose mapping was just invalidated: nothing of its walk is cached.
    cold: Option<(Asid, VpnRange)>,
    unfiltered: Unfiltered,
}

impl Watch<'_> {
    pub fn new(subject: &Subject) -> Watch<'_> {
        let tlb = subject.build(None);
        Watch {
            told: Told::default(),
            parts: Parts::of(subject),
            counts: tlb.counts().clone(),
            entries: tlb.entries(),
            counts_then: tlb.counts().clone(),
            lookups_since: 0,
            tlb,
            traits: &subject.traits,
            stored: HashSet::new(),
            fresh: Fresh::default(),
            cold: None,
            unfiltered: Unfiltered::default(),
        }
    }

    /// Its translation of a page must be that of the page table.
    fn probe(&self, at: Lookup, table: &Table) -> Result<bool, String> {
        let said = self.tlb.probe(at.asid, at.vpn, at.kind);
        let right = table.translation(at.asid, at.vpn);
        need(said.is_none() || said == right, || format!("{at:?}: a probe says {said:?}, the page table {right:?}"))?;
        Ok(said.is_some())
    }

    pub fn lookup(&mut self, at: Lookup, pte: Pte, table: &Table) -> Result<Answer, String> {
        let known = self.probe(at, table)?;
        let walk = self.counts.walk.clone();
        self.unfiltered.clear();
        let answer = ask(&mut *self.tlb, &mut self.told, (at, pte, table), &mut self.unfiltered);
        let hit = answer.outcome == Outcome::Hit;
        let t = self.traits;
        need(hit == known || t.controlled || (hit && t.registers) || !t.probes, || {
            format!(
                "{at:?} ended as {:?}, and a probe before it found {}",
                answer.outcome,
                if known { "it" } else { "nothing" }
            )
        })?;
        need(self.probe(at, table)? || !t.probes, || format!("{at:?}: a probe after the lookup finds nothing"))?;
        let alone = self.parts.lookup((at, pte, table), answer, &self.counts, self.tlb.counts())?;
        if t.opaque {
            self.fresh.lookup(at, pte, hit)?;
        } else {
            // PRF-1: a page of a superpage with holes is one of a superpage to a design that knows these.
            let superpage = table.perforated(at.asid, at.vpn).filter(|_| t.perforated && pte.order < Perforated::ORDER);
            let order = |s: Perforated| if s.is_hole(at.vpn) { 0 } else { Perforated::ORDER };
            let seen = Pte { order: superpage.map_or(pte.order, order), ..pte };
            tally::lookup(t, (&self.counts, self.tlb.counts()), (at, seen), answer, alone)?;
        }
        if let Some(reads) = self.tlb.port().map(|port| port.recorded().count() as u64) {
            tally::reads(&self.counts, self.tlb.counts(), reads)?;
        }
        self.counts.clone_from(self.tlb.counts());
        if let Some((asid, pages)) = self.cold.filter(|_| self.counts.walk.walks > walk.walks) {
            let now = &self.counts.walk;
            let cached = |w: &farreach_types::counts::WalkCounts| {
                w.pd_cache_hits + w.pdpt_cache_hits + w.pml4_cache_hits + w.pml5_cache_hits
            };
            let was_told = asid == at.asid && pages.contains(at.vpn);
            need(!was_told || cached(now) == cached(&walk), || {
                format!("{at:?}: a walk used an entry that was invalidated")
            })?;
            self.cold = None;
        }
        if at.kind == Kind::Store {
            self.stored.insert((at.asid, at.vpn.0));
        }
        self.lookups_since += 1;
        Ok(answer)
    }

    /// A lookup that may be filtered, once more: it must be a hit that changes nothing.
    pub fn repeat(&mut self, at: Lookup, pte: Pte, table: &Table) -> Result<(), String> {
        let before = self.tlb.entries();
        self.unfiltered.clear();
        let answer = ask(&mut *self.tlb, &mut self.told, (at, pte, table), &mut self.unfiltered);
        need(answer.outcome == Outcome::Hit, || {
            format!("{at:?} is filterable, and repeated it ends as {:?}", answer.outcome)
        })?;
        need(*self.tlb.counts() == self.counts, || {
            format!("{at:?} is filterable, and repeated it counts: {:?}, before {:?}", self.tlb.counts(), self.counts)
        })?;
        need(self.tlb.entries() == before, || format!("{at:?} is filterable, and repeated it changes an entry"))
    }

    /// Lookups since the last check of entries.
    pub fn unseen(&self) -> usize {
        self.lookups_since
    }

    /// Checks all entries. `reported`: all changes in the page table were reported to the design.
    pub fn check_entries(&mut self, table: &Table, reported: bool) -> Result<(), String> {
        if self.traits.opaque {
            self.remember(Vec::new());
            return Ok(());
        }
        let entries = self.tlb.entries();
        self.parts.check(&entries, &self.counts)?;
        tally::sums(self.traits, &self.counts)?;
        if self.traits.one_array {
            tally::entries((self.entries.len(), &self.counts_then), (entries.len(), &self.counts))?;
        }
        truth::fits(self.traits, &self.parts.of_tlbs(entries.clone()))?;
        if reported {
            truth::holds(self.traits, &*self.tlb, &entries, table)?;
        }
        truth::modified(&entries, &self.stored)?;
        self.remember(entries);
        Ok(())
    }

    /// After a lookup: the bits of the entries that have the page.
    pub fn bits(&self, at: Lookup, answer: Answer) -> Result<(), String> {
        let entries = self.tlb.entries();
        let having: Vec<&EntryView> = entries.iter().filter(|e| truth::may_have(e, at.asid, at.vpn)).collect();
        if at.kind == Kind::Store && self.traits.modified_bits {
            let marked = having.iter().any(|e| truth::is_modified(e, at.vpn));
            need(marked, || format!("{at:?} left no modified bit: {having:?}"))?;
        }
        let used = having.iter().any(|e| e.used != Some(false));
        need(answer.outcome != Outcome::Hit || having.is_empty() || used, || {
            format!("{at:?} left no used bit: {having:?}")
        })
    }

    fn remember(&mut self, entries: Vec<EntryView>) {
        self.entries = entries;
        self.counts.clone_from(self.tlb.counts());
        self.counts_then.clone_from(&self.counts);
        self.lookups_since = 0;
    }

    /// Passes an event to the design, and checks the remaining entries.
    pub fn apply(&mut self, event: Event, table: &Table) -> Result<(), String> {
        if self.lookups_since > 0 {
            self.check_entries(table, false)?;
        }
        let was = std::mem::take(&mut self.entries);
        self.unfiltered.clear();
        apply(event, &mut *self.tlb, table, &mut self.unfiltered);
        self.parts.apply(event, table);
        let is = self.tlb.entries();
        let t = self.traits;
        if t.opaque {
            self.fresh.apply(event, t);
        } else {
            let of_tlbs = |entries: &[EntryView]| self.parts.of_tlbs(entries.to_vec());
            tally::event(&self.counts, self.tlb.counts(), &of_tlbs(&was), &of_tlbs(&is))?;
        }
        match event {
            Event::Stale(asid, pages) => {
                self.no_translation(asid, pages, &was, &is)?;
                truth::others_stay(&was, &is, |e| !truth::meets(e, asid, pages))?;
                if pages.pages < 1 << 40 {
                    self.stored.retain(|&(of, vpn)| of != asid || !pages.contains(Vpn(vpn)));
                }
                self.cold = (pages.pages > 0).then_some((asid, pages));
            }
            Event::Demoted(asid, pages) => {
                truth::no_whole(&*self.tlb, &is, asid, pages, t.several_cores)?;
                // What additions have of these pages goes whole (HW-9).
                let (was, is) = (self.parts.of_tlbs(was.clone()), self.parts.of_tlbs(is.clone()));
                truth::others_stay(&was, &is, |e| e.order == 0 || !truth::meets(e, asid, pages))?;
                self.cold = None;
            }
            Event::Gone(asid) => {
                need(is.iter().all(|e| e.asid != asid), || format!("an entry of {asid:?} survived its end"))?;
                truth::others_stay(&was, &is, |e| e.asid != asid)?;
                let everything = VpnRange { start: Vpn(0), pages: 1 << 52 };
                self.no_translation(asid, everything, &was, &is)?;
                self.stored.retain(|&(of, _)| of != asid);
                self.cold = Some((asid, everything));
            }
            Event::Switch(_) if t.several_cores => {}
            Event::Switch(to) if !t.process_ids => {
                let other = is.iter().find(|e| e.asid != to);
                need(other.is_none(), || format!("there are no process ids, and this survived a switch: {other:?}"))?;
                truth::others_stay(&was, &is, |e| e.asid == to)?;
            }
            Event::Thread(..) if t.several_cores => {}
            _ => truth::others_stay(&was, &is, |_| true)?,
        }
        truth::none_came(&was, &is)?;
        self.remember(is);
        Ok(())
    }

    /// None of these pages has a translation.
    fn no_translation(&self, asid: Asid, pages: VpnRange, was: &[EntryView], is: &[EntryView]) -> Result<(), String> {
        for e in is.iter().filter(|e| e.asid == asid) {
            let listed = e.pages.iter().map(|page| Vpn(e.base.0 + page.0)).find(|vpn| pages.contains(*vpn));
            need(listed.is_none(), || format!("{listed:?} was invalidated, and an entry has it: {e:?}"))?;
        }
        for vpn in truth::samples(asid, pages, was) {
            for kind in SIDES {
                let said = self.tlb.probe(asid, vpn, kind);
                need(said.is_none(), || {
                    format!("{asid:?} {vpn:?} was invalidated, and a probe ({kind:?}) says {said:?}")
                })?;
            }
        }
        Ok(())
    }
}

/// Passes a lookup to a design. Its program counter, for designs that need it (HW-6), is one of a few and depends on
/// the lookup alone, so that a design that sees only some of the lookups sees the same.
pub fn ask(
    tlb: &mut dyn Tlb,
    told: &mut Told,
    (at, pte, table): (Lookup, Pte, &Table),
    unfiltered: &mut Unfiltered,
) -> Answer {
    let at_work = if at.kind == Kind::Fetch { at.vpn.0 << 12 } else { 0x40_0000 + at.vpn.0 % 7 * 20 };
    tlb.latest_fetch(at_work);
    tlb.position(table.clock);
    tell_maps(tlb, told, table);
    tlb.access(at, pte, table, unfiltered)
}

/// Tells a design that keeps tables of its own what was mapped since it was told (PT-1).
pub fn tell_maps(tlb: &mut dyn Tlb, told: &mut Told, table: &Table) {
    if let Some(design) = tlb.on_map() {
        for &(asid, pages) in table.news(told) {
            design.mapped(asid, pages, table);
        }
    }
}

/// Passes an event that is no lookup to a design.
pub fn apply(event: Event, tlb: &mut dyn Tlb, table: &Table, unfiltered: &mut Unfiltered) {
    match event {
        Event::Lookup(..) => unreachable!("lookups have answers"),
        Event::Stale(asid, pages) => {
            tlb.invalidate(asid, pages, unfiltered);
            tlb.unmapped(asid, pages, table);
        }
        Event::Demoted(asid, pages) => tlb.demote(asid, pages, unfiltered),
        Event::Gone(asid) => tlb.invalidate_space(asid, unfiltered),
        Event::Switch(to) => tlb.switch(to, unfiltered),
        Event::Thread(asid, thread) => tlb.thread(asid, thread, unfiltered),
        Event::Segment(asid) => tlb.segment_changed(asid, unfiltered),
    }
}
