//! A fully associative array of spans: pages in consecutive frames with equal attributes, of any length and at any
//! place. Those of one process are disjoint, so at most one has a page. The range TLB (RMM15-2) and the coalesced TLB
//! (CoLT-FA) use it.

use crate::tlb::contract::EntryView;
use crate::tlb::filter::Unfiltered;
use crate::tlb::parts::store::geometry::Geometry;
use crate::tlb::parts::store::replacement::{Replacement, Room};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::params::Params;
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

/// The array.
pub(in crate::tlb) struct Spans {
    slots: Box<[Room<Span>]>,
    replacement: Replacement,
    /// Not read, for no lookup that reaches it is filtered.
    ignored_report: Unfiltered,
}

impl Spans {
    /// With the policy that this key names; where there are used bits, a fill sets them (AMB-3).
    pub fn new(entries: u64, key: &str, params: &Params, seed: u64) -> Result<Spans, String> {
        let geometry = Geometry::one_set(entries as usize);
        Ok(Spans {
            slots: vec![Room::default(); geometry.ways].into(),
            replacement: Replacement::by_name(geometry, key, params.text(key), seed)?,
            ignored_report: Unfiltered::unread(),
        })
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
        (0..self.slots.len()).filter(move |&i| self.slots[i].held.as_ref().is_some_and(&which))
    }

    pub fn get(&self, slot: usize) -> Option<&Span> {
        self.slots[slot].held.as_ref()
    }

    /// An access used it.
    pub fn touch(&mut self, slot: usize) {
        self.slots[slot].used = true;
        self.replacement.touch(slot as u32, &mut self.ignored_report);
    }

    /// Inserts a span into an empty slot or in the place of another; returns the slot, and whether there was another.
    pub fn place(&mut self, span: Span) -> (usize, bool) {
        let victim = self.replacement.victim(0, &mut self.slots, &self.ignored_report).unwrap_or_else(|| {
            self.slots.iter_mut().for_each(|place| place.used = false);
            self.replacement.used_bits_cleared(0, None);
            0
        });
        let slot = victim as usize;
        let evicts = self.slots[slot].held.is_some();
        if evicts {
            self.drop(slot);
        }
        self.slots[slot] = Room { held: Some(span), used: true };
        self.replacement.entered(victim, false, &mut self.ignored_report);
        (slot, evicts)
    }

    /// A span becomes longer, and is used.
    pub fn grow(&mut self, slot: usize, range: Range) {
        self.slots[slot].held.as_mut().expect("a span grows where it is").range = range;
        self.touch(slot);
    }

    pub fn drop(&mut self, slot: usize) -> Option<Span> {
        let gone = self.slots[slot].held.take()?;
        self.replacement.dropped(slot as u32);
        Some(gone)
    }

    /// Drops spans whole and returns them.
    pub fn drop_where(&mut self, goes: impl Fn(&Span) -> bool) -> Vec<Span> {
        let doomed: Vec<usize> = self.find_all(goes).collect();
        doomed.into_iter().filter_map(|slot| self.drop(slot)).collect()
    }

    /// All slots.
    pub fn entries(&self) -> usize {
        self.slots.len()
    }

    /// Its entries: `order` is that of the smallest power of two that holds the span, `pages` its first page and its
    /// last.
    pub fn views(&self, before: usize, into: &mut Vec<EntryView>) {
        for (i, place) in self.slots.iter().enumerate() {
            let Some(Span { asid, range, order }) = place.held else { continue };
            let page = |offset| (offset, range.translate(Vpn(range.first.0 + offset)), false);
            let several = order == 0 && range.pages > 1;
            into.push(EntryView {
                slot: before + i,
                asid,
                base: range.first,
                order: range.pages.next_power_of_two().trailing_zeros() as u8,
                pages: if several { vec![page(0), page(range.pages - 1)] } else { vec![page(0)] },
                sb_enabled: None,
                used: self.replacement.has_used_bits().then_some(place.used),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tlb::keys::REPLACEMENT;
    use farreach_types::addr::Pfn;
    use farreach_types::translation::Attr;

    /// The worked example of T94-14, with a range in the place of each page.
    #[test]
    fn t94_14_used_bits_choose_the_victim() {
        let params = Params::resolve(&[&REPLACEMENT], &Default::default()).unwrap();
        let mut spans = Spans::new(4, "replacement", &params, 0).unwrap();
        let mut slots = String::new();
        for name in "ABCDEBFAGE".chars() {
            let range = Range { first: Vpn(u64::from(u32::from(name)) * 16), pages: 8, pfn: Pfn(0), attr: Attr(7) };
            match spans.find(Asid(0), range.first) {
                Some(slot) => {
                    spans.touch(slot);
                    slots += &format!("{name}hit ");
                }
                None => slots += &format!("{name}{} ", spans.place(Span { asid: Asid(0), range, order: 0 }).0),
            }
        }
        assert_eq!(slots.trim_end(), "A0 B1 C2 D3 E0 Bhit F2 A3 G0 E1");
    }
}
