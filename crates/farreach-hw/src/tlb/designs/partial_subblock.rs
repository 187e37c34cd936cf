//! Partial-subblock entries: one tag, one frame group and one set of attributes for any of the pages of a region that are
//! properly placed (T94-6 to T94-9, T94-13); and the variant in which an entry holds all pages or one (T94-21).

use crate::tlb::contract::{Answer, Capabilities, Design, EntryBits, EntryView, Lookup, OnSwitch, Outcome, Tlb, UsedBits};
use crate::tlb::filter::Unfiltered;
use crate::tlb::keys::{
    ASSISTED_CHECK, ENTRIES, FACTOR, FILL_SETS_USED, PAGE_SIZE, PRELOAD, PROCESS_IDS, Preload, REPLACEMENT, SEED, WAYS,
};
use crate::tlb::parts::bits::{ATTR, USED, pid, ppn, vpn};
use crate::tlb::parts::store::geometry::Geometry;
use crate::tlb::parts::store::tag_index::{NONE, Tag};
use crate::tlb::parts::store::{Contents, Store, count_miss, ones};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{Attr, PageTableView, Pte, Translation};

/// T94-21.
pub const ALL_VALID: Key = Key {
    name: "all_valid",
    default: "false",
    allowed: Allowed::Flag,
    about: "an entry holds all pages of a region, with attributes each, or a single page (RS/6000, ARM 6x0)",
};

/// The design as the registry knows it.
pub const DESIGN: Design = Design {
    kind: "partial",
    about: "one tag and one frame group per region, a valid bit for each of its pages (T94-6)",
    keys: &[
        &ENTRIES,
        &WAYS,
        &FACTOR,
        &REPLACEMENT,
        &FILL_SETS_USED,
        &PRELOAD,
        &ASSISTED_CHECK,
        &ALL_VALID,
        &PROCESS_IDS,
        &SEED,
        &PAGE_SIZE,
    ],
    build: |params| Ok(Box::new(PartialTlb::new(params, params.flag("all_valid"))?)),
    // AREA-2 has no row for the all-valid variant.
    bits: |params| (params.int("ways") == 0 && !params.flag("all_valid")).then(|| bits(params)),
    reach: |params| params.int("entries") * params.int("factor") * params.int("page_size"),
};

/// AREA-2.
pub(super) fn bits(params: &Params) -> EntryBits {
    let factor = params.int("factor");
    let tag = pid(params) + vpn(params) - u64::from(factor.trailing_zeros()) + factor;
    EntryBits { tag, data: ppn(params) + ATTR + 1 + factor, status: USED }
}

/// Contents of an entry.
#[derive(Clone, Copy, Default)]
pub(super) struct Subblocks {
    pub valid: u64,
    /// One bit per page; bit 0 alone where the entry is one large superpage (T94-19).
    pub modified: u64,
    /// Frame, its low bits clear if `sb_enabled` (AMB-14).
    pub pfn: Pfn,
    /// Attributes of all pages; unused in the all-valid variant.
    pub attr: Attr,
    /// T94-8, in its logical sense (AMB-1).
    pub sb_enabled: bool,
    /// One superpage larger than a region, without subblocks (T94-24).
    pub large: bool,
    /// The pages are valid together or not at all (T94-21).
    pub together: bool,
}

impl Contents for Subblocks {
    fn subblocks(&self) -> Option<u64> {
        (!self.large).then_some(self.valid)
    }
    fn falling(&self, mask: u64) -> u64 {
        if self.together { self.valid } else { mask }
    }
    fn clear(&mut self, mask: u64) {
        self.valid &= !mask;
        self.modified &= !mask;
    }
}

/// Why a page began an entry although one with its tag was there.
#[derive(Clone, Copy)]
enum Split {
    Unaligned,
    Frames,
    Attributes,
}

/// What a region's entries say about one page.
#[derive(Clone, Copy)]
pub(super) struct Found {
    /// The entry that translates it.
    pub hit: Option<u32>,
    /// The first entry with the tag, or [`NONE`].
    pub first: u32,
}

impl Found {
    /// How the lookup ended.
    pub fn outcome(&self) -> Outcome {
        match (self.hit, self.first) {
            (Some(_), _) => Outcome::Hit,
            (None, NONE) => Outcome::TagMiss,
            (None, _) => Outcome::SubblockMiss,
        }
    }
}

/// A partial-subblock TLB.
pub struct PartialTlb {
    pub(super) store: Store<Subblocks>,
    /// The all-valid variant's attributes, `factor` per slot; otherwise empty.
    attrs: Box<[Attr]>,
    /// log2 of the factor.
    pub(super) order: u8,
    preload: Preload,
    assisted: bool,
    pub(super) counts: TlbCounts,
}

impl PartialTlb {
    /// Builds it from the keys of [`DESIGN`].
    pub fn new(params: &Params, all_valid: bool) -> Result<PartialTlb, String> {
        let geometry = Geometry::of(params)?;
        let factor = params.int("factor");
        let preload = Preload::of(params);
        if all_valid && preload != Preload::None {
            return Err(format!(
                "preload = {} is not allowed: an entry of all_valid = true holds all pages of its region or one, preload must be none",
                params.text("preload")
            ));
        }
        let attrs = if all_valid { geometry.entries() * factor as usize } else { 0 };
        let mut store = Store::new(geometry, params, params.int("seed"));
        if preload != Preload::None {
            store.preloads();
        }
        Ok(PartialTlb {
            store,
            attrs: vec![Attr(0); attrs].into(),
            order: factor.trailing_zeros() as u8,
            preload,
            assisted: params.flag("assisted_check"),
            counts: TlbCounts::default(),
        })
    }

    /// The entry whose tag matches and that has one of the pages in `mask` (T94-9). A lookup passes the bit of its page; then
    /// at most one entry matches (T94-17); CA-5 asks for all pages of a region at once.
    #[inline]
    fn matching(&self, tag: Tag, mask: u64) -> Found {
        let mut slot = self.store.first(tag);
        let mut found = Found { hit: None, first: slot };
        while slot != NONE {
            if self.store.get(slot).valid & mask != 0 {
                debug_assert!(found.hit.is_none(), "T94-17: two entries match {tag:?}, pages {mask:#x}");
                found.hit = Some(slot);
                if !cfg!(debug_assertions) {
                    break;
                }
            }
            slot = self.store.next(slot);
        }
        found
    }

    #[inline]
    pub(super) fn find(&self, asid: Asid, vpn: Vpn) -> Found {
        self.matching(Tag::of(asid, vpn, self.order), self.bit(vpn))
    }

    /// What a slot with this page's tag says, for `sb_enabled` and disabled entries (T94-8).
    #[inline]
    fn translate(&self, slot: u32, vpn: Vpn) -> Translation {
        let (entry, offset) = (self.store.get(slot), vpn.offset_in(self.order.into()));
        let pfn = if entry.sb_enabled { Pfn(entry.pfn.0 | offset) } else { entry.pfn };
        let attr = match self.attrs.is_empty() {
            true => entry.attr,
            false => self.attrs[(slot as usize) << self.order | offset as usize],
        };
        Translation { pfn, attr }
    }

    /// A lookup that this slot answers.
    #[inline]
    pub(super) fn hit(&mut self, slot: u32, at: Lookup, pte: Pte, unfiltered: &mut Unfiltered) -> Answer {
        debug_assert_eq!(self.translate(slot, at.vpn), Translation { pfn: pte.pfn, attr: pte.attr }, "XC-3: {at:?}");
        self.store.get_mut(slot).modified |= self.stored(at);
        self.store.touch(slot, self.bit(at.vpn), unfiltered);
        Answer { outcome: Outcome::Hit, filterable: true }
    }

    /// The bit of a page in its region.
    #[inline]
    fn bit(&self, vpn: Vpn) -> u64 {
        1 << vpn.offset_in(self.order.into())
    }

    /// The bit of the page if the lookup is a store.
    #[inline]
    pub(super) fn stored(&self, at: Lookup) -> u64 {
        u64::from(at.kind == Kind::Store) << at.vpn.offset_in(self.order.into())
    }

    /// T94-7.
    #[inline]
    fn aligned(&self, vpn: Vpn, pfn: Pfn) -> bool {
        vpn.offset_in(self.order.into()) == pfn.offset_in(self.order.into())
    }

    /// The entry that a properly placed page may join, of those from the first with its tag on: lowest index, should there be several (T94-13).
    pub(super) fn joinable(&self, first: u32, pte: Pte) -> Option<u32> {
        let frames = pte.pfn.align_down(self.order.into());
        let joins = |e: &Subblocks| e.sb_enabled && e.pfn == frames && e.attr == pte.attr;
        self.slots_from(first).filter(|&slot| joins(self.store.get(slot))).min()
    }

    /// The entries with one tag, from the first on.
    fn slots_from(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let some = |slot| (slot != NONE).then_some(slot);
        std::iter::successors(some(first), move |&slot| some(self.store.next(slot)))
    }

    /// Why a page can join none of the entries with its tag; there are some. The nearest miss counts: an entry that differs
    /// only in attributes before one in another frame group; entries of pages out of place are nobody's to join.
    fn split(&self, first: u32, pte: Pte, aligned: bool) -> Split {
        let frames = pte.pfn.align_down(self.order.into());
        let enabled = || self.slots_from(first).map(|slot| self.store.get(slot)).filter(|e| e.sb_enabled);
        match () {
            _ if !aligned || enabled().next().is_none() => Split::Unaligned,
            _ if enabled().any(|e| e.pfn == frames) => Split::Attributes,
            _ => Split::Frames,
        }
    }

    /// T94-13, for a page of which this was `found`. Returns the slot and whether the page joined an entry; `None` if the victim would have been
    /// `keep`.
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
    pub(super) fn miss(
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

    /// T94-22, F-10. Meanwhile the entry of the page that missed counts as just used. Should it be the victim all the same, the preload
    /// ends: a handler that evicted the entry it was called for would have to run again.
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

    /// A miss in the all-valid variant (T94-21): an entry for the whole region if it is mapped and properly placed, otherwise one
    /// for the page.
    fn miss_all_valid(
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
            // One-page entries of before would match beside the new one.
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

impl Tlb for PartialTlb {
    fn access(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer {
        let found = self.find(at.asid, at.vpn);
        if let Some(slot) = found.hit {
            return self.hit(slot, at, pte, unfiltered);
        }
        match self.attrs.is_empty() {
            true => self.miss(at, pte, found, table, unfiltered),
            false => self.miss_all_valid(at, pte, found, table, unfiltered),
        }
    }

    fn invalidate(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        self.counts.invalidations += self.store.invalidate(asid, pages, self.order, unfiltered);
    }

    fn invalidate_space(&mut self, asid: Asid, unfiltered: &mut Unfiltered) {
        self.counts.invalidations += self.store.drop_space(asid, unfiltered);
    }

    fn probe(&self, asid: Asid, vpn: Vpn, _: Kind) -> Option<Translation> {
        self.find(asid, vpn).hit.map(|slot| self.translate(slot, vpn))
    }

    fn entries(&self) -> Vec<EntryView> {
        let view = |slot| {
            let (tag, entry) = (self.store.tag(slot), self.store.get(slot));
            let valid = (0..1u64 << self.order).filter(|o| entry.valid >> o & 1 != 0);
            let page = |o| (o, self.translate(slot, Vpn(tag.base().0 + o)), entry.modified >> o & 1 != 0);
            let whole = (0, Translation { pfn: entry.pfn, attr: entry.attr }, entry.modified != 0);
            EntryView {
                slot: slot as usize,
                asid: tag.asid(),
                base: tag.base(),
                order: tag.order(),
                pages: if entry.large { vec![whole] } else { valid.map(page).collect() },
                sb_enabled: (!entry.large).then_some(entry.sb_enabled),
                used: self.store.used(slot),
            }
        };
        self.store.slots().map(view).collect()
    }

    fn counts(&self) -> &TlbCounts {
        &self.counts
    }
}

impl Capabilities for PartialTlb {
    fn on_switch(&mut self) -> Option<&mut dyn OnSwitch> {
        Some(self)
    }
    fn used_bits(&mut self) -> Option<&mut dyn UsedBits> {
        Some(self)
    }
}

impl OnSwitch for PartialTlb {
    fn switch(&mut self, to: Asid, unfiltered: &mut Unfiltered) {
        self.counts.invalidations += self.store.switch(to, unfiltered);
    }
}

impl UsedBits for PartialTlb {
    fn note_lookup(&mut self, asid: Asid, vpn: Vpn, when: u32) {
        if let Some(slot) = self.find(asid, vpn).hit {
            self.store.note_lookup(slot, self.bit(vpn), when);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct NoTable;
    impl PageTableView for NoTable {
        fn pte(&self, _: Asid, _: Vpn) -> Option<Pte> {
            None
        }
    }

    fn figure_2() -> PartialTlb {
        let given = json!({"entries": 4, "factor": 4});
        let params = Params::resolve(DESIGN.keys, given.as_object().unwrap()).unwrap();
        let mut tlb = PartialTlb::new(&params, false).unwrap();
        for (vpn, pfn) in [(0b110100, 0b10000), (0b110101, 0b11011), (0b110111, 0b00011), (0b110110, 0b00010)] {
            let at = Lookup { asid: Asid(0), vpn: Vpn(vpn), kind: Kind::Load };
            let pte = Pte { pfn: Pfn(pfn), attr: Attr(7), order: 0 };
            tlb.access(at, pte, &NoTable, &mut Unfiltered::default());
        }
        tlb
    }

    #[test]
    fn ca_5_one_entry_matches_with_valid_bits() {
        let tlb = figure_2();
        for page in 0..4 {
            assert!(tlb.matching(Tag::of(Asid(0), Vpn(0b110100), 2), 1 << page).hit.is_some());
        }
    }

    /// Ignoring the valid bits is asking for any page of the region.
    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "T94-17")]
    fn ca_5_several_match_without_valid_bits() {
        figure_2().matching(Tag::of(Asid(0), Vpn(0b110100), 2), !0);
    }
}
