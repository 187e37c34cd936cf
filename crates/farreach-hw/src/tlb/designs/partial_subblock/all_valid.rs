//! The variant in which an entry holds all pages of a region or one (T94-21).

use super::{Found, PartialTlb, Subblocks};
use crate::tlb::contract::{Answer, Lookup};
use crate::tlb::filter::Unfiltered;
use crate::tlb::parts::store::tag_index::Tag;
use crate::tlb::parts::store::{count_miss, ones};
use farreach_types::addr::{Vpn, VpnRange};
use farreach_types::translation::{PageTableView, Pte};

impl PartialTlb {
    /// A miss in the all-valid variant (T94-21): an entry for the whole region if it is mapped and properly placed,
    /// otherwise one for the page.
    pub(super) fn miss_all_valid(
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
        let others = (1u64 << self.order) - 1;
        let (base, offset) = (at.vpn.align_down(self.order.into()), at.vpn.offset_in(self.order.into()));
        let frames = pte.pfn.align_down(self.order.into());
        let tag = Tag::of(at.asid, at.vpn, self.order);
        let aligned = self.aligned(at.vpn, pte.pfn);
        if aligned {
            self.counts.extra_pte_reads += others;
        }
        let attr_at = |offset: u64| {
            let other = table.pte(at.asid, Vpn(base.0 + offset))?;
            (other.pfn.0 == frames.0 + offset).then_some(other.attr)
        };
        let whole = aligned && (0..=others).all(|o| o == offset || attr_at(o).is_some());
        let mut entry = Subblocks { modified: self.stored(at), together: true, ..Subblocks::default() };
        if whole {
            // Earlier one-page entries would match beside the new one.
            let region = VpnRange { start: base, pages: others + 1 };
            self.counts.covered_drops += self.store.drop_overlapping(at.asid, region, self.order, unfiltered);
            self.counts.preloaded += others;
            entry = Subblocks { valid: ones(1 << self.order), pfn: frames, sb_enabled: true, ..entry };
        } else {
            entry = Subblocks { valid: 1 << offset, pfn: pte.pfn, ..entry };
        }
        let slot = self.store.place(tag, entry, &mut self.counts, unfiltered);
        let cell = (slot as usize) << self.order;
        if whole {
            for o in (0..=others).filter(|&o| o != offset) {
                self.attrs[cell | o as usize] = attr_at(o).unwrap_or_default();
            }
        }
        self.attrs[cell | offset as usize] = pte.attr;
        Answer { outcome, filterable: self.store.replay(slot, self.bit(at.vpn), unfiltered) }
    }
}
