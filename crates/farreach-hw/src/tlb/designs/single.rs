//! One page size, the base page (T94-3, T94-10), fully associative or in sets (T94-15).

use crate::tlb::contract::{Answer, Design, EntryBits, EntryView, Lookup, Outcome};
use crate::tlb::filter::Unfiltered;
use crate::tlb::keys::{ENTRIES, FILL_SETS_USED, PAGE_SIZE, PROCESS_IDS, REPLACEMENT, SEED, WAYS};
use crate::tlb::parts::bits::{ATTR, USED, pid, ppn, vpn};
use crate::tlb::parts::store::geometry::Geometry;
use crate::tlb::parts::store::tag_index::Tag;
use crate::tlb::parts::store::{Contents, Store, count_miss};
use crate::tlb::parts::stored::Stored;
use farreach_types::addr::{Asid, Pfn, Vpn};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{PageTableView, Pte, Translation};

/// The design as the registry knows it.
pub const DESIGN: Design = Design {
    kind: "single",
    about: "one translation of a base page per entry (T94-3)",
    keys: &[&ENTRIES, &WAYS, &REPLACEMENT, &FILL_SETS_USED, &PROCESS_IDS, &SEED, &PAGE_SIZE],
    build: |params| Ok(Box::new(SingleTlb::new(Geometry::of(params)?, params)?)),
    bits: |params| {
        (params.int("ways") == 0).then(|| EntryBits {
            tag: pid(params) + vpn(params),
            data: ppn(params) + ATTR + 2,
            status: USED,
        })
    },
    reach: |params| params.int("entries") * params.int("page_size"),
};

/// The contents of an entry for a base page.
#[derive(Clone, Copy, Default)]
pub(super) struct Page {
    pub pfn: Pfn,
    pub attr: farreach_types::translation::Attr,
    pub modified: bool,
}

impl Page {
    /// An entry as filled by a store or by another reference.
    pub fn of(pte: Pte, store: bool) -> Page {
        Page { pfn: pte.pfn, attr: pte.attr, modified: store }
    }
    pub fn translation(&self) -> Translation {
        Translation { pfn: self.pfn, attr: self.attr }
    }
    pub fn view(&self, slot: usize, tag: Tag, used: Option<bool>) -> EntryView {
        let pages = vec![(0, self.translation(), self.modified)];
        EntryView { slot, asid: tag.asid(), base: tag.base(), order: 0, pages, sb_enabled: None, used }
    }
}

impl Contents for Page {
    fn subblocks(&self) -> Option<u64> {
        None
    }
}

/// A TLB of base page translations.
pub(super) struct SingleTlb {
    store: Store<Page>,
    counts: TlbCounts,
}

impl SingleTlb {
    /// Builds it from the keys of [`DESIGN`], but with its entries arranged like this.
    pub fn new(geometry: Geometry, params: &Params) -> Result<SingleTlb, String> {
        Ok(SingleTlb { store: Store::new(geometry, params, params.int("seed"))?, counts: TlbCounts::default() })
    }
}

impl Stored for SingleTlb {
    type Contents = Page;

    fn store(&self) -> &Store<Page> {
        &self.store
    }
    fn counted(&self) -> &TlbCounts {
        &self.counts
    }
    fn parts(&mut self) -> (&mut Store<Page>, &mut TlbCounts) {
        (&mut self.store, &mut self.counts)
    }
    fn orders(&self) -> &[u8] {
        &[0]
    }

    #[inline]
    fn lookup(&mut self, at: Lookup, pte: Pte, _: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer {
        let tag = Tag::of(at.asid, at.vpn, 0);
        let store = at.kind == Kind::Store;
        if let Some(slot) = self.store.find(tag) {
            let page = self.store.get_mut(slot);
            debug_assert_eq!((page.pfn, page.attr), (pte.pfn, pte.attr), "XC-3: {at:?}");
            page.modified |= store;
            self.store.touch(slot, tag.part(at.vpn), unfiltered);
            return Answer { outcome: Outcome::Hit, filterable: true };
        }
        count_miss(&mut self.counts, at, pte, Outcome::TagMiss);
        self.counts.fills += 1;
        let page = Page::of(pte, store);
        let filterable = self.store.fill(tag, page, tag.part(at.vpn), &mut self.counts, unfiltered);
        Answer { outcome: Outcome::TagMiss, filterable }
    }

    fn slot_of(&self, asid: Asid, vpn: Vpn) -> Option<u32> {
        self.store.find(Tag::of(asid, vpn, 0))
    }

    fn translation(&self, slot: u32, _: Vpn) -> Translation {
        self.store.get(slot).translation()
    }

    fn view(&self, slot: u32) -> EntryView {
        self.store.get(slot).view(slot as usize, self.store.tag(slot), self.store.used(slot))
    }
}
