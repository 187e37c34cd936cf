//! A fully associative array of spans: pages in consecutive frames with equal attributes, of any length and at any
//! place. Those of one process are disjoint, so at most one has a page. The range TLB (RMM15-2) and the coalesced TLB
//! (CoLT-FA) use it.

use crate::tlb::contract::EntryView;
use crate::tlb::filter::Unfiltered;
use crate::tlb::filter::times::LookupsSince;
use crate::tlb::parts::store::geometry::Geometry;
use crate::tlb::parts::store::replacement::{Replacement, Slot};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::translation::Range;

/// One entry.
#[derive(Clone, Copy)]
pub(in crate::tlb) struct Span {
    pub asid: Asid,
    pub range: Range,
    /// Of a superpage; 0: pages of their own.
    pub order: u8,
}

impl Span {
    fn has(&self, asid: Asid, vpn: Vpn) -> bool {
        self.asid == asid && self.range.contains(vpn)
    }
    /// Whether it has one of these pages.
    pub fn meets(&self, asid: Asid, pages: VpnRange) -> bool {
        self.asid == asid && self.range.virtual_pages().overlaps(&pages)
    }
}

impl Slot for Option<Span> {
    fn is_valid(&self) -> bool {
        self.is_some()
    }
    fn used(&mut self) -> &mut bool {
        unreachable!("spans have no used bits")
    }
    fn used_since(&self, _: &LookupsSince) -> bool {
        false
    }
}

/// The array.
pub(in crate::tlb) struct Spans {
    slots: Box<[Option<Span>]>,
    replacement: Replacement,
}

impl Spans {
    /// `policy`: `lru`, `fifo` or `random`.
    pub fn new(entries: u64, policy: &str, seed: u64) -> Spans {
        let geometry = Geometry::one_set(entries as usize);
        Spans {
            slots: vec![None; geometry.ways].into(),
            replacement: Replacement::without_bits(geometry, policy, seed),
        }
    }

    /// The slot with a page.
    pub fn find(&self, asid: Asid, vpn: Vpn) -> Option<usize> {
        let mut hits = self.find_all(|span| span.has(asid, vpn));
        let hit = hits.next();
        debug_assert_eq!(hits.next(), None, "two spans have {asid:?} {vpn:?}");
        hit
    }

    /// Slots by their contents.
    pub fn find_all(&self, which: impl Fn(&Span) -> bool) -> impl Iterator<Item = usize> {
        (0..self.slots.len()).filter(move |&i| self.slots[i].as_ref().is_some_and(&which))
    }

    pub fn get(&self, slot: usize) -> Option<&Span> {
        self.slots[slot].as_ref()
    }

    /// An access used it.
    pub fn touch(&mut self, slot: usize) {
        self.replacement.touch(slot as u32);
    }

    /// Inserts a span into an empty slot or in the place of another; returns the slot, and whether there was another.
    pub fn place(&mut self, span: Span) -> (usize, bool) {
        let victim = self.replacement.victim(0, &mut self.slots, &Unfiltered::default()).expect("it has no used bits");
        let slot = victim as usize;
        let evicts = self.slots[slot].is_some();
        if evicts {
            self.drop(slot);
        }
        self.slots[slot] = Some(span);
        self.replacement.entered(victim, false);
        (slot, evicts)
    }

    /// A span becomes longer, and is used.
    pub fn grow(&mut self, slot: usize, range: Range) {
        self.slots[slot].as_mut().expect("a span grows where it is").range = range;
        self.touch(slot);
    }

    pub fn drop(&mut self, slot: usize) -> Option<Span> {
        let gone = self.slots[slot].take()?;
        self.replacement.dropped(slot as u32);
        Some(gone)
    }

    /// Drops spans whole and returns them.
    pub fn drop_where(&mut self, goes: impl Fn(&Span) -> bool) -> Vec<Span> {
        let doomed: Vec<usize> = self.find_all(goes).collect();
        doomed.into_iter().filter_map(|slot| self.drop(slot)).collect()
    }

    /// Its entries: `order` is that of the smallest power of two that holds the span, `pages` its first page and its
    /// last.
    pub fn views(&self, before: usize, into: &mut Vec<EntryView>) {
        for (i, slot) in self.slots.iter().enumerate() {
            let Some(Span { asid, range, order, .. }) = *slot else { continue };
            let page = |offset| (offset, range.translate(Vpn(range.first.0 + offset)), false);
            let several = order == 0 && range.pages > 1;
            into.push(EntryView {
                slot: before + i,
                asid,
                base: range.first,
                order: range.pages.next_power_of_two().trailing_zeros() as u8,
                pages: if several { vec![page(0), page(range.pages - 1)] } else { vec![page(0)] },
                sb_enabled: None,
                used: None,
            });
        }
    }
}
