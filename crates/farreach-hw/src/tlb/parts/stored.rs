//! A design whose entries are all in one [`Store`]. It defines the lookup and the meaning of a slot; the rest of
//! [`Tlb`] follows from the store.

use super::store::geometry::{ALL_BITS, common};
use super::store::{Contents, Store};
use crate::tlb::contract::{Answer, Capabilities, EntryView, Lookup, OnDemotion, OnSwitch, Timed, Tlb};
use crate::tlb::filter::Unfiltered;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::translation::{PageTableView, Pte, Translation};
use std::ops::Range;

/// See the module.
pub(in crate::tlb) trait Stored: Send {
    /// The contents of its entries.
    type Contents: Contents;

    /// The store.
    fn store(&self) -> &Store<Self::Contents>;
    /// The counts so far.
    fn counted(&self) -> &TlbCounts;
    /// Both, to change.
    fn parts(&mut self) -> (&mut Store<Self::Contents>, &mut TlbCounts);
    /// log2 of the pages that its tags cover, ascending: of every kind of tag.
    fn orders(&self) -> &[u8];
    /// Of these, the orders of entries that hold one translation for more than a base page.
    fn superpages(&self) -> &[u8] {
        &[]
    }

    /// Whether frames decide which pages share an entry.
    fn joins_by_frames(&self) -> bool {
        false
    }

    /// As [`Tlb::access`].
    fn lookup(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer;
    /// The slot that translates a page.
    fn slot_of(&self, asid: Asid, vpn: Vpn) -> Option<u32>;
    /// The translation that a slot gives for a page.
    fn translation(&self, slot: u32, vpn: Vpn) -> Translation;
    /// A valid slot, for display.
    fn view(&self, slot: u32) -> EntryView;
}

impl<D: Stored> Tlb for D {
    #[inline]
    fn access(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer {
        self.lookup(at, pte, table, unfiltered)
    }

    fn invalidate(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        for i in 0..self.orders().len() {
            let order = self.orders()[i];
            let (store, counts) = self.parts();
            counts.invalidations += store.invalidate(asid, pages, order, unfiltered);
        }
    }

    fn probe(&self, asid: Asid, vpn: Vpn, _: Kind) -> Option<Translation> {
        self.slot_of(asid, vpn).map(|slot| self.translation(slot, vpn))
    }

    fn entries(&self) -> Vec<EntryView> {
        self.store().slots().map(|slot| self.view(slot)).collect()
    }

    fn counts(&self) -> &TlbCounts {
        self.counted()
    }
}

impl<D: Stored> Capabilities for D {
    fn on_demotion(&mut self) -> Option<&mut dyn OnDemotion> {
        if self.superpages().is_empty() { None } else { Some(self) }
    }
    fn on_switch(&mut self) -> Option<&mut dyn OnSwitch> {
        Some(self)
    }
    fn timed(&mut self) -> Option<&mut dyn Timed> {
        if self.store().follows_uses() { Some(self) } else { None }
    }
    fn set_bits(&self, largest: u8) -> Result<Range<u32>, String> {
        if self.joins_by_frames() {
            return Err("frames decide which pages share an entry, and those depend on all pages".into());
        }
        let in_use = |order: &&u8| **order <= largest || !self.superpages().contains(order);
        let mut orders = self.orders().iter().filter(in_use);
        orders.try_fold(ALL_BITS, |bits, order| common(bits, self.store().set_bits(*order)?))
    }
}

impl<D: Stored> OnDemotion for D {
    fn demote(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        for i in 0..self.superpages().len() {
            let order = self.superpages()[i];
            let (store, counts) = self.parts();
            counts.invalidations += store.drop_overlapping(asid, pages, order, unfiltered);
        }
    }
}

impl<D: Stored> OnSwitch for D {
    fn switch(&mut self, to: Asid, unfiltered: &mut Unfiltered) {
        let (store, counts) = self.parts();
        counts.invalidations += store.switch(to, unfiltered);
    }
}

impl<D: Stored> Timed for D {
    fn orders(&self) -> bool {
        self.store().orders_uses()
    }
    fn note_lookup(&mut self, asid: Asid, vpn: Vpn, _: bool, when: u64) {
        if let Some(slot) = self.slot_of(asid, vpn) {
            let (store, _) = self.parts();
            let part = store.tag(slot).part(vpn);
            store.note_lookup(slot, part, when);
        }
    }
    fn settle(&mut self, unfiltered: &mut Unfiltered) {
        self.parts().0.settle(unfiltered);
    }
}
