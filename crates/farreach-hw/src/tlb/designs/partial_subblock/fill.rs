//! How a page is filled (T94-13): it joins an entry or begins one, and may bring others with it (T94-22).

use super::{Found, PartialTlb, Subblocks};
use crate::tlb::contract::{Answer, Lookup};
use crate::tlb::filter::Unfiltered;
use crate::tlb::keys::Preload;
use crate::tlb::parts::store::count_miss;
use crate::tlb::parts::store::tag_index::{NONE, Tag};
use farreach_types::addr::Vpn;
use farreach_types::event::Kind;
use farreach_types::translation::{PageTableView, Pte};

/// Why a page began an entry although one with its tag was there.
#[derive(Clone, Copy)]
enum Split {
    Unaligned,
    Frames,
    Attributes,
}

impl PartialTlb {
    /// The entry that a properly placed page may join, of those from the first with its tag on; the lowest index if
    /// there are several (T94-13).
    pub(in crate::tlb::designs) fn joinable(&self, first: u32, pte: Pte) -> Option<u32> {
        let frames = pte.pfn.align_down(self.order.into());
        let joins = |e: &Subblocks| e.sb_enabled && e.pfn == frames && e.attr == pte.attr;
        self.slots_from(first).filter(|&slot| joins(self.store.get(slot))).min()
    }

    /// The entries with one tag, from the first on.
    fn slots_from(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let some = |slot| (slot != NONE).then_some(slot);
        std::iter::successors(some(first), move |&slot| some(self.store.next(slot)))
    }

    /// Why a page can join none of the existing entries with its tag. The entry closest to a match decides: one that
    /// differs only in attributes before one in another frame group; entries of pages out of place cannot be joined at
    /// all.
    fn split(&self, first: u32, pte: Pte, aligned: bool) -> Split {
        let frames = pte.pfn.align_down(self.order.into());
        let enabled = || self.slots_from(first).map(|slot| self.store.get(slot)).filter(|e| e.sb_enabled);
        match () {
            _ if !aligned || enabled().next().is_none() => Split::Unaligned,
            _ if enabled().any(|e| e.pfn == frames) => Split::Attributes,
            _ => Split::Frames,
        }
    }

    /// T94-13, for a page of which this was `found`. Returns the slot and whether the page joined an entry; `None` if
    /// the victim would have been `keep`.
    fn fill(
        &mut self,
        at: Lookup,
        pte: Pte,
        Found { first, .. }: Found,
        keep: Option<u32>,
        unfiltered: &mut Unfiltered,
    ) -> Option<(u32, bool)> {
        let tag = Tag::of(at.asid, at.vpn, self.order);
        let (valid, modified) = (self.bit(at.vpn), self.stored(at));
        let aligned = self.aligned(at.vpn, pte.pfn);
        if let Some(slot) = if aligned { self.joinable(first, pte) } else { None } {
            let entry = self.store.get_mut(slot);
            entry.valid |= valid;
            entry.modified |= modified;
            return Some((slot, true));
        }
        let pfn = if aligned { pte.pfn.align_down(self.order.into()) } else { pte.pfn };
        let entry = Subblocks { valid, modified, pfn, attr: pte.attr, sb_enabled: aligned, ..Subblocks::default() };
        let split = (first != NONE).then(|| self.split(first, pte, aligned));
        let keep = keep.unwrap_or(NONE);
        let slot = self.store.make_room(tag, keep, &mut self.counts, unfiltered);
        if slot == keep {
            return None;
        }
        self.store.put(slot, tag, entry);
        match split {
            Some(Split::Unaligned) => self.counts.split_unaligned += 1,
            Some(Split::Frames) => self.counts.split_frames += 1,
            Some(Split::Attributes) => self.counts.split_attributes += 1,
            None => {}
        }
        Some((slot, false))
    }

    /// A miss on a base page, filled by T94-13 and preload.
    pub(in crate::tlb::designs) fn miss(
        &mut self,
        at: Lookup,
        pte: Pte,
        found: Found,
        table: &dyn PageTableView,
        unfiltered: &mut Unfiltered,
    ) -> Answer {
        let outcome = found.outcome();
        count_miss(&mut self.counts, at, pte, outcome);
        self.counts.fills += 1;
        let (slot, joined) = self.fill(at, pte, found, None, unfiltered).expect("no slot is kept");
        self.counts.merges += u64::from(joined);
        if self.preload != Preload::None {
            self.preload(at, pte, slot, table, unfiltered);
        }
        Answer { outcome, filterable: self.store.replay(slot, self.bit(at.vpn), unfiltered) }
    }

    /// T94-22, F-10. Meanwhile the entry of the page that missed counts as just used. If it is the victim nevertheless,
    /// the preload ends: a handler that evicted the entry it was called for would have to run again.
    fn preload(&mut self, at: Lookup, pte: Pte, slot: u32, table: &dyn PageTableView, unfiltered: &mut Unfiltered) {
        let aligned = self.aligned(at.vpn, pte.pfn);
        if self.preload == Preload::SameEntry && !aligned {
            return; // Nothing can share the entry, so there is nothing to read.
        }
        let others = (1u64 << self.order) - 1;
        self.counts.extra_pte_reads += if self.assisted { others.min(1) } else { others };
        let base = at.vpn.align_down(self.order.into());
        let frames = pte.pfn.align_down(self.order.into());
        let was_used = self.store.used(slot);
        self.store.touch(slot, self.bit(at.vpn), unfiltered);
        for vpn in (0..=others).map(|offset| Vpn(base.0 + offset)) {
            let found = self.find(at.asid, vpn);
            if found.hit.is_some() {
                continue;
            }
            let Some(other) = table.pte(at.asid, vpn) else { continue };
            let shares = aligned
                && self.aligned(vpn, other.pfn)
                && other.pfn.align_down(self.order.into()) == frames
                && other.attr == pte.attr;
            if self.preload == Preload::SameEntry && !shares {
                continue;
            }
            let load = Lookup { vpn, kind: Kind::Load, ..at };
            let Some((_, joined)) = self.fill(load, other, found, Some(slot), unfiltered) else { break };
            self.counts.preloaded += 1;
            self.counts.fills += u64::from(!joined);
        }
        if was_used == Some(false) {
            self.store.clear_used(slot);
        }
    }
}
