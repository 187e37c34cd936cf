//! Partial-subblock entries: one tag, one frame group and one set of attributes for any of the pages of a region that
//! are properly placed (T94-6 to T94-9, T94-13); and the variant in which an entry holds all pages or one (T94-21).

mod all_valid;
mod fill;

use crate::tlb::contract::{Answer, Design, EntryBits, EntryView, Lookup, Outcome};
use crate::tlb::filter::Unfiltered;
use crate::tlb::keys::{
    ASSISTED_CHECK, ENTRIES, FACTOR, FILL_SETS_USED, PAGE_SIZE, PRELOAD, PROCESS_IDS, Preload, REPLACEMENT, SEED, WAYS,
};
use crate::tlb::parts::bits::{ATTR, USED, pid, ppn, vpn};
use crate::tlb::parts::store::geometry::Geometry;
use crate::tlb::parts::store::tag_index::{NONE, Tag};
use crate::tlb::parts::store::{Contents, Store};
use crate::tlb::parts::stored::Stored;
use farreach_types::addr::{Asid, Pfn, Vpn};
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

/// The state of one page in the entries of its region.
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
pub(super) struct PartialTlb {
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
                "preload = {} is not allowed: an entry of all_valid = true holds all pages of its region or one, \
                 preload must be none",
                params.text("preload")
            ));
        }
        let attrs = if all_valid { geometry.entries() * factor as usize } else { 0 };
        let mut store = Store::new(geometry, params, params.int("seed"))?;
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

    /// The entry whose tag matches and that has one of the pages in `mask` (T94-9). A lookup passes the bit of its
    /// page; then at most one entry matches (T94-17); CA-5 asks for all pages of a region at once.
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

    /// The translation of the page by a slot with its tag, for `sb_enabled` and disabled entries (T94-8).
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
}

impl Stored for PartialTlb {
    type Contents = Subblocks;

    fn store(&self) -> &Store<Subblocks> {
        &self.store
    }
    fn counted(&self) -> &TlbCounts {
        &self.counts
    }
    fn parts(&mut self) -> (&mut Store<Subblocks>, &mut TlbCounts) {
        (&mut self.store, &mut self.counts)
    }
    fn joins_by_frames(&self) -> bool {
        true
    }
    fn orders(&self) -> &[u8] {
        std::slice::from_ref(&self.order)
    }

    #[inline]
    fn lookup(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer {
        let found = self.find(at.asid, at.vpn);
        if let Some(slot) = found.hit {
            return self.hit(slot, at, pte, unfiltered);
        }
        match self.attrs.is_empty() {
            true => self.miss(at, pte, found, table, unfiltered),
            false => self.miss_all_valid(at, pte, found, table, unfiltered),
        }
    }

    fn slot_of(&self, asid: Asid, vpn: Vpn) -> Option<u32> {
        self.find(asid, vpn).hit
    }

    fn translation(&self, slot: u32, vpn: Vpn) -> Translation {
        self.translate(slot, vpn)
    }

    fn view(&self, slot: u32) -> EntryView {
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tlb::contract::Tlb;
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

    /// To ignore the valid bits is to look for any page of the region.
    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "T94-17")]
    fn ca_5_several_match_without_valid_bits() {
        figure_2().matching(Tag::of(Asid(0), Vpn(0b110100), 2), !0);
    }
}
