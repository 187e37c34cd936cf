//! What a hierarchy can do beside answering: events that matter to its parts.

use super::asked::Placed;
use super::foresight::Foresight;
use super::{Hierarchy, SecondLevel, side};
use crate::cache::Port;
use crate::tlb::contract::{Capabilities, Foresees, OnDemotion, OnFetch, OnMap, OnSwitch, Timed};
use crate::tlb::filter::Unfiltered;
use crate::tlb::future::Future;
use crate::tlb::parts::additions::Account;
use crate::tlb::parts::store::geometry::{ALL_BITS, common};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::translation::PageTableView;
use std::ops::Range;

impl<S: SecondLevel + 'static> Capabilities for Hierarchy<S> {
    fn on_demotion(&mut self) -> Option<&mut dyn OnDemotion> {
        Some(self)
    }
    fn on_switch(&mut self) -> Option<&mut dyn OnSwitch> {
        Some(self)
    }
    fn timed(&mut self) -> Option<&mut dyn Timed> {
        if self.l1[0].follows_uses() && !self.preceded { Some(self) } else { None }
    }
    fn on_fetch(&mut self) -> Option<&mut dyn OnFetch> {
        if self.needs_fetches.is_some() { Some(self) } else { None }
    }
    fn on_map(&mut self) -> Option<&mut dyn OnMap> {
        if self.tables.is_some() || self.walker.follows_changes() { Some(self) } else { None }
    }
    fn foresees(&mut self) -> Option<&mut dyn Foresees> {
        if self.second.foresights().is_empty() { None } else { Some(self) }
    }
    fn port(&mut self) -> Option<&mut Port> {
        Some(&mut self.port).filter(|port| port.by_caches())
    }
    fn lost_lines(&mut self) {
        let Hierarchy { additions, counts, port, .. } = self;
        for Placed { addition, part, .. } in additions {
            addition.lost_lines(&mut Account { counts, port, part: *part });
        }
    }
    fn set_bits(&self, largest: u8) -> Result<Range<u32>, String> {
        if self.coalesce > 0 {
            return Err("frames decide which pages coalesce, and those depend on all pages".into());
        }
        if self.walker.follows_changes() {
            return Err("the hypervisor's table is one of all pages together".into());
        }
        if self.tables.is_some() || self.walker.host_has_table() {
            return Err("the page table is one of all pages together".into());
        }
        let first = self.l1.iter().map(|level| level.set_bits(largest));
        let behind = self.additions.iter().map(|placed| placed.addition.set_bits(largest));
        let all = first.chain([self.second.set_bits(largest)]).chain(behind);
        { all }.try_fold(ALL_BITS, |bits, array| common(bits, array?))
    }
}

impl<S: SecondLevel + 'static> OnDemotion for Hierarchy<S> {
    fn demote(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        self.walker.forget(asid);
        let l1: u64 = self.l1.iter_mut().map(|level| level.drop_overlapping(asid, pages, 1, unfiltered)).sum();
        let behind = self.change(
            |second| second.drop_pages(asid, pages, true),
            |addition, account| addition.drop_pages(asid, pages, true, account),
        );
        self.counts.invalidations += l1 + behind;
    }
}

impl<S: SecondLevel + 'static> OnSwitch for Hierarchy<S> {
    fn switch(&mut self, to: Asid, unfiltered: &mut Unfiltered) {
        self.walker.switch(to, &mut self.counts);
        if let Some(tables) = &mut self.tables {
            tables.switch(to);
        }
        let l1: u64 = self.l1.iter_mut().map(|level| level.switch(to, unfiltered)).sum();
        let behind = self.change(|second| second.switch(to), |addition, account| addition.switch(to, account));
        self.counts.invalidations += l1 + behind;
    }
}

impl<S: SecondLevel + 'static> OnFetch for Hierarchy<S> {
    fn latest_fetch(&mut self, address: u64) {
        self.pc = address;
        if let Some((pc, _)) = self.second.pc() {
            *pc = address;
        }
    }

    fn position(&mut self, instructions: u64) {
        self.position = instructions;
    }

    fn because_of(&mut self) -> String {
        self.needs_fetches.clone().unwrap_or_default()
    }
}

impl<S: SecondLevel + 'static> OnMap for Hierarchy<S> {
    fn mapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView) {
        self.walker.mapped(asid, pages, table, &mut self.counts);
        if let Some(tables) = &mut self.tables {
            tables.mapped(asid, pages, table, &mut self.counts);
        }
    }

    fn faulting(&mut self, asid: Asid, vpn: Vpn) {
        if let Some(tables) = &mut self.tables {
            tables.faulting(asid, vpn, &mut self.counts);
        }
    }

    fn unmapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView) {
        self.walker.unmapped(asid, pages, table, &mut self.counts);
        if let Some(tables) = &mut self.tables {
            tables.unmapped(asid, pages, table, &mut self.counts);
        }
    }
}

impl<S: SecondLevel + 'static> Foresees for Hierarchy<S> {
    fn learned(&mut self) -> Future {
        Future(self.second.foresights().into_iter().map(Foresight::learned).collect())
    }

    fn knows(&mut self, future: Future) {
        let levels = self.second.foresights();
        assert_eq!(levels.len(), future.0.len(), "the passes are of machines with equal keys");
        levels.into_iter().zip(future.0).for_each(|(level, uses)| level.knows(uses));
    }

    fn failure(&mut self) -> Option<String> {
        self.second.foresights().iter().find_map(|level| level.failure().map(str::to_owned))
    }
}

/// Only the first level sees lookups that may be filtered.
impl<S: SecondLevel + 'static> Timed for Hierarchy<S> {
    fn orders(&self) -> bool {
        self.l1[0].orders_uses()
    }

    fn note_lookup(&mut self, asid: Asid, vpn: Vpn, fetch: bool, when: u64) {
        self.l1[usize::from(fetch)].note_lookup(asid, vpn, when);
    }

    fn settle(&mut self, unfiltered: &mut Unfiltered) {
        for (i, level) in self.l1.iter_mut().enumerate() {
            unfiltered.set_sides([i == side(Kind::Fetch), i != side(Kind::Fetch)]);
            level.settle(unfiltered);
        }
    }
}
