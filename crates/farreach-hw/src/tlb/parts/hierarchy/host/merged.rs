//! A merged table (SHD-1): from virtual pages of guests to system memory. The hypervisor makes its entries in traps.

use super::{GuestWalk, VM_EXIT_CYCLES};
use crate::tlb::parts::additions::Counter;
use farreach_types::addr::{Asid, VpnRange};
use farreach_types::counts::OwnCounts;
use farreach_types::event::Kind;
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
                "traps: a page changed that had such an entry",
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
                "traps: the first store that walks to a clean page",
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

/// An entry.
#[derive(Clone, Copy, Debug)]
struct Entry {
    order: u8,
    is_dirty: bool,
}

/// See the module.
#[derive(Default)]
pub(super) struct Merged {
    /// By process and first page.
    entries: BTreeMap<(Asid, u64), Entry>,
    running: Option<Asid>,
}

impl Merged {
    /// A walk comes to the page of an entry, which is there afterwards.
    pub fn used(&mut self, walk: &GuestWalk, own: &mut OwnCounts) {
        let order = walk.merged();
        let stores = walk.at.kind == Kind::Store;
        let key = (walk.at.asid, walk.at.vpn.align_down(order.into()).0);
        match self.entries.get_mut(&key) {
            Some(entry) => {
                debug_assert_eq!(entry.order, order, "SHD: a merged entry was left behind: {walk:?}");
                if stores && !entry.is_dirty {
                    entry.is_dirty = true;
                    *own.at(DIRTY) += 1;
                }
            }
            None => {
                *own.at(FILLS) += 1;
                self.entries.insert(key, Entry { order, is_dirty: stores });
            }
        }
    }

    /// Drops the entries that have some of these pages. Returns how many.
    pub fn drop(&mut self, asid: Asid, pages: VpnRange) -> u64 {
        let before = self.entries.range(..(asid, pages.start.0)).next_back();
        let before = before.filter(|((of, first), entry)| *of == asid && pages.start.0 - first < 1 << entry.order);
        let from = before.map_or(pages.start.0, |((_, first), _)| *first);
        let mut dropped = 0;
        while let Some((&key, _)) = self.entries.range((asid, from)..(asid, pages.end().0)).next() {
            self.entries.remove(&key);
            dropped += 1;
        }
        dropped
    }

    /// The guest changed these pages (SHD-2). Returns how many had an entry.
    pub fn changed(&mut self, asid: Asid, pages: VpnRange, own: &mut OwnCounts) -> u64 {
        let dropped = self.drop(asid, pages);
        *own.at(CHANGES) += dropped;
        dropped
    }

    /// A page fault of the guest.
    pub fn faulted(&mut self, own: &mut OwnCounts) {
        *own.at(FAULTS) += 1;
    }

    /// The address space ended. Its tables are dropped as a whole.
    pub fn gone(&mut self, asid: Asid) {
        self.drop(asid, VpnRange::ALL);
    }

    /// Another process runs; `traps`: the hypervisor must know.
    pub fn switch(&mut self, to: Asid, traps: bool, own: &mut OwnCounts) {
        let before = self.running.replace(to);
        if before.is_some_and(|before| before != to) && traps {
            *own.at(SWITCHES) += 1;
        }
    }
}
