//! A merged table (SHD-1): from virtual pages of guests to system memory. The hypervisor makes its entries in traps.

use super::guest::{Guest, Written};
use super::{GuestWalk, VM_EXIT_CYCLES};
use crate::tlb::parts::additions::Counter;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::OwnCounts;
use farreach_types::event::Kind;
use farreach_types::translation::PageTableView;
use std::collections::BTreeMap;

const FILLS: usize = 0;
const CHANGES: usize = 1;
const FAULTS: usize = 2;
const SWITCHES: usize = 3;
const DIRTY: usize = 4;
/// The place of the first counter of a host's own.
pub(super) const OWN: usize = 5;

/// The counters of hosts with a merged table: traps by cause (SHD-2), and others behind them.
macro_rules! traps {
    ($($own:expr),* $(,)?) => {
        &[
            $crate::tlb::parts::hierarchy::host::merged::trap(
                "fills",
                "traps at the first use of a merged entry",
            ),
            $crate::tlb::parts::hierarchy::host::merged::trap(
                "changes",
                "traps: an entry of the guest changed that was merged",
            ),
            $crate::tlb::parts::hierarchy::host::merged::trap(
                "faults",
                "traps: a page fault of the guest",
            ),
            $crate::tlb::parts::hierarchy::host::merged::trap(
                "switches",
                "traps: another process of the guest runs",
            ),
            $crate::tlb::parts::hierarchy::host::merged::trap(
                "dirty",
                "traps: the first store to a clean page",
            ),
            $($own,)*
        ]
    };
}
pub(super) use traps;

/// A counter of traps.
pub(super) const fn trap(name: &'static str, about: &'static str) -> Counter {
    Counter { name, about, price: Some(&VM_EXIT_CYCLES) }
}

/// See the module.
#[derive(Default)]
pub(super) struct Merged {
    /// By process and first page: the order.
    entries: BTreeMap<(Asid, u64), u8>,
    guest: Guest,
    running: Option<Asid>,
}

impl Merged {
    /// A walk comes to the page of an entry, which is there afterwards. If a store needs it, it is built as modified.
    pub fn used(&mut self, walk: &GuestWalk, own: &mut OwnCounts) {
        let (order, at) = (walk.merged(), walk.at);
        match self.entries.insert((at.asid, at.vpn.align_down(order.into()).0), order) {
            Some(before) => debug_assert_eq!(before, order, "SHD: a merged entry was left behind: {walk:?}"),
            None => {
                *own.at(FILLS) += 1;
                if at.kind == Kind::Store {
                    self.guest.store(at.asid, at.vpn);
                }
            }
        }
    }

    /// A store, with or without a walk; `traps`: a merged entry maps its page. The first one to a clean page of the
    /// guest must set the modified bit of the guest's entry.
    pub fn stored(&mut self, asid: Asid, vpn: Vpn, traps: bool, own: &mut OwnCounts) {
        *own.at(DIRTY) += u64::from(self.guest.store(asid, vpn) && traps);
    }

    /// Drops the entries that have some of these pages. Returns whether there were any.
    pub fn drop(&mut self, asid: Asid, pages: VpnRange) -> bool {
        let before = self.entries.range(..(asid, pages.start.0)).next_back();
        let before = before.filter(|((of, first), order)| *of == asid && pages.start.0 - first < 1 << **order);
        let from = before.map_or(pages.start.0, |((_, first), _)| *first);
        let mut dropped = false;
        while let Some((&key, _)) = self.entries.range((asid, from)..(asid, pages.end().0)).next() {
            self.entries.remove(&key);
            dropped = true;
        }
        dropped
    }

    /// See [`crate::tlb::OnMap::mapped`]. Returns the entries that were written, to be given back.
    pub fn mapped(
        &mut self,
        asid: Asid,
        pages: VpnRange,
        table: &dyn PageTableView,
        own: &mut OwnCounts,
    ) -> Vec<Written> {
        self.guest.mapped(asid, pages, table);
        self.written(asid, own)
    }

    /// See [`crate::tlb::OnMap::unmapped`]. Returns the entries that were written, to be given back.
    pub fn unmapped(
        &mut self,
        asid: Asid,
        pages: VpnRange,
        table: &dyn PageTableView,
        own: &mut OwnCounts,
    ) -> Vec<Written> {
        self.guest.unmapped(asid, pages, table);
        self.written(asid, own)
    }

    /// Each entry of the guest's that the merged table has traps once (SHD-2).
    fn written(&mut self, asid: Asid, own: &mut OwnCounts) -> Vec<Written> {
        let written = std::mem::take(&mut self.guest.written);
        let changes = written.iter().filter(|written| self.drop(asid, written.pages())).count();
        *own.at(CHANGES) += changes as u64;
        written
    }

    /// Takes a list back.
    pub fn give_back(&mut self, written: Vec<Written>) {
        self.guest.written = written;
    }

    /// The guest.
    pub fn guest(&self) -> &Guest {
        &self.guest
    }

    /// A page fault of the guest.
    pub fn faulted(&mut self, own: &mut OwnCounts) {
        *own.at(FAULTS) += 1;
    }

    /// The address space ended. Its tables are dropped as a whole.
    pub fn gone(&mut self, asid: Asid) {
        self.drop(asid, VpnRange::ALL);
        self.guest.gone(asid);
    }

    /// Another process runs; `traps`: the hypervisor must know. The first that runs was not switched to.
    pub fn switch(&mut self, to: Asid, traps: bool, own: &mut OwnCounts) {
        let before = self.running.replace(to);
        if before.is_some_and(|before| before != to) && traps {
            *own.at(SWITCHES) += 1;
        }
    }
}
