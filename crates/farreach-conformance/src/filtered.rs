//! A design behind a filter of repeat hits: it sees no filtered lookup, and must end in the same state as one that sees
//! them all.

use crate::subject::Subject;
use crate::table::{Table, Told};
use crate::tally::need;
use crate::watch::{apply, ask, tell_maps};
use crate::world::Event;
use farreach_hw::tlb::{Answer, Lookup, Outcome, Tlb, Unfiltered};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::Kind;
use farreach_types::translation::Pte;
use std::collections::HashSet;

pub struct Filtered {
    tlb: Box<dyn Tlb>,
    told: Told,
    filter: HashSet<(Asid, Vpn, Kind)>,
    unfiltered: Unfiltered,
}

impl Filtered {
    pub fn new(subject: &Subject) -> Filtered {
        Filtered {
            tlb: subject.build(None),
            told: Told::default(),
            filter: HashSet::new(),
            unfiltered: Unfiltered::default(),
        }
    }

    /// A lookup with the answer of the plain design. Returns whether it was filtered.
    pub fn lookup(&mut self, at: Lookup, pte: Pte, plain: Answer, table: &Table) -> Result<bool, String> {
        tell_maps(&mut *self.tlb, &mut self.told, table);
        if self.filter.contains(&(at.asid, at.vpn, at.kind)) {
            need(plain.outcome == Outcome::Hit, || {
                let rule = "the filter: what was answered FILTERABLE stays a hit until it is reported by unfilter";
                format!("{rule}\n  it is filtered, and a design that is asked at every lookup says {:?}", plain.outcome)
            })?;
            return Ok(true);
        }
        self.unfiltered.clear();
        let answer = ask(&mut *self.tlb, &mut self.told, (at, pte, table), &mut self.unfiltered);
        self.leave();
        if answer.filterable {
            self.filter.insert((at.asid, at.vpn, at.kind));
            if at.kind == Kind::Store {
                self.filter.insert((at.asid, at.vpn, Kind::Load));
            }
        }
        need(answer.outcome == plain.outcome, || {
            format!(
                "{at:?} ends as {:?} without the filtered lookups, and as {:?} with them",
                answer.outcome, plain.outcome
            )
        })?;
        Ok(false)
    }

    pub fn apply(&mut self, event: Event, table: &Table) -> Result<(), String> {
        self.unfiltered.clear();
        apply(event, &mut *self.tlb, table, &mut self.unfiltered);
        self.leave();
        if let Event::Stale(asid, pages) = event {
            let still = self.filter.iter().find(|(of, vpn, _)| *of == asid && pages.contains(*vpn));
            need(still.is_none(), || format!("{still:?} was invalidated and is still filtered"))?;
        }
        Ok(())
    }

    /// Removes the reported pages from the filter.
    fn leave(&mut self) {
        let report = &self.unfiltered;
        self.filter.retain(|&(asid, vpn, _)| !report.contains(asid, vpn));
    }

    pub fn equals(&self, plain: &dyn Tlb) -> Result<(), String> {
        need(self.tlb.counts() == plain.counts(), || {
            format!("without the filtered lookups it counts {:?}, with them {:?}", self.tlb.counts(), plain.counts())
        })?;
        let (some, all) = (self.tlb.entries(), plain.entries());
        let differing = || some.iter().zip(&all).find(|(a, b)| a != b);
        need(some == all, || {
            format!("without the filtered lookups entries differ: {} and {}: {:?}", some.len(), all.len(), differing())
        })
    }
}
