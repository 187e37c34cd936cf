//! Complete-subblock entries: one tag, a translation of its own for each page of the region (T94-5, T94-12). They need
//! no support by the operating system (T94-27).

use crate::tlb::contract::{Answer, Design, EntryBits, EntryView, Lookup, Outcome};
use crate::tlb::filter::Unfiltered;
use crate::tlb::keys::{
    ASSISTED_CHECK, ENTRIES, FACTOR, FILL_SETS_USED, PAGE_SIZE, PRELOAD, PROCESS_IDS, Preload, REPLACEMENT, SEED, WAYS,
};
use crate::tlb::parts::bits::{ATTR, USED, pid, ppn, vpn};
use crate::tlb::parts::store::geometry::Geometry;
use crate::tlb::parts::store::tag_index::Tag;
use crate::tlb::parts::store::{Contents, Store, count_miss};
use crate::tlb::parts::stored::Stored;
use farreach_types::addr::{Asid, Pfn, Vpn};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{Attr, PageTableView, Pte, Translation};

/// The design as the registry knows it.
pub const DESIGN: Design = Design {
    kind: "complete",
    about: "one tag per region, a translation for each of its pages (T94-5)",
    keys: &[
        &ENTRIES,
        &WAYS,
        &FACTOR,
        &REPLACEMENT,
        &FILL_SETS_USED,
        &PRELOAD,
        &ASSISTED_CHECK,
        &PROCESS_IDS,
        &SEED,
        &PAGE_SIZE,
    ],
    build: |params| Ok(Box::new(CompleteTlb::new(params)?)),
    bits: |params| {
        let factor = params.int("factor");
        let tag = pid(params) + vpn(params) - u64::from(factor.trailing_zeros());
        (params.int("ways") == 0).then_some(EntryBits { tag, data: factor * (ppn(params) + ATTR + 2), status: USED })
    },
    reach: |params| params.int("entries") * params.int("factor") * params.int("page_size"),
};

#[derive(Clone, Copy, Default)]
struct Subblocks {
    valid: u64,
    modified: u64,
}

impl Contents for Subblocks {
    fn subblocks(&self) -> Option<u64> {
        Some(self.valid)
    }
    fn clear(&mut self, mask: u64) {
        self.valid &= !mask;
        self.modified &= !mask;
    }
}

/// A complete-subblock TLB.
struct CompleteTlb {
    store: Store<Subblocks>,
    /// `factor` translations per slot.
    translations: Box<[Translation]>,
    /// log2 of the factor.
    order: u8,
    preload: Preload,
    assisted: bool,
    counts: TlbCounts,
}

impl CompleteTlb {
    /// Builds it from the keys of [`DESIGN`].
    pub fn new(params: &Params) -> Result<CompleteTlb, String> {
        let geometry = Geometry::of(params)?;
        let factor = params.int("factor");
        let nothing = Translation { pfn: Pfn(0), attr: Attr(0) };
        Ok(CompleteTlb {
            store: Store::new(geometry, params, params.int("seed"))?,
            translations: vec![nothing; geometry.entries() * factor as usize].into(),
            order: factor.trailing_zeros() as u8,
            preload: Preload::of(params),
            assisted: params.flag("assisted_check"),
            counts: TlbCounts::default(),
        })
    }

    #[inline]
    fn cell(&self, slot: u32, offset: u64) -> usize {
        (slot as usize) << self.order | offset as usize
    }

    /// Puts one translation into a slot with its tag.
    #[inline]
    fn load(&mut self, slot: u32, offset: u64, pte: Pte) {
        self.translations[self.cell(slot, offset)] = Translation { pfn: pte.pfn, attr: pte.attr };
        self.store.get_mut(slot).valid |= 1 << offset;
    }

    /// T94-22: every mapped page of the region. There is room for all of them in the entry.
    fn preload(&mut self, at: Lookup, slot: u32, table: &dyn PageTableView) {
        let others = (1u64 << self.order) - 1;
        self.counts.extra_pte_reads += if self.assisted { others.min(1) } else { others };
        let base = at.vpn.align_down(self.order.into());
        for offset in 0..=others {
            if self.store.get(slot).valid >> offset & 1 != 0 {
                continue;
            }
            if let Some(pte) = table.pte(at.asid, Vpn(base.0 + offset)) {
                self.load(slot, offset, pte);
                self.counts.preloaded += 1;
            }
        }
    }
}

impl Stored for CompleteTlb {
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
    fn orders(&self) -> &[u8] {
        std::slice::from_ref(&self.order)
    }

    #[inline]
    fn lookup(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer {
        let tag = Tag::of(at.asid, at.vpn, self.order);
        let offset = at.vpn.offset_in(self.order.into());
        let bit = 1u64 << offset;
        let stored = if at.kind == Kind::Store { bit } else { 0 };
        let found = self.store.find(tag);
        if let Some(slot) = found.filter(|&slot| self.store.get(slot).valid & bit != 0) {
            debug_assert_eq!(
                self.translations[self.cell(slot, offset)],
                Translation { pfn: pte.pfn, attr: pte.attr },
                "XC-3: {at:?}"
            );
            self.store.get_mut(slot).modified |= stored;
            self.store.touch(slot, bit, unfiltered);
            return Answer { outcome: Outcome::Hit, filterable: true };
        }
        let outcome = if found.is_some() { Outcome::SubblockMiss } else { Outcome::TagMiss };
        count_miss(&mut self.counts, at, pte, outcome);
        self.counts.fills += 1;
        let slot = match found {
            Some(slot) => {
                self.counts.merges += 1;
                slot
            }
            None => {
                let empty = Subblocks::default();
                self.store.place(tag, empty, &mut self.counts, unfiltered)
            }
        };
        self.load(slot, offset, pte);
        self.store.get_mut(slot).modified |= stored;
        if self.preload != Preload::None {
            self.preload(at, slot, table);
        }
        Answer { outcome, filterable: self.store.replay(slot, bit, unfiltered) }
    }

    fn slot_of(&self, asid: Asid, vpn: Vpn) -> Option<u32> {
        let bit = 1u64 << vpn.offset_in(self.order.into());
        self.store.find(Tag::of(asid, vpn, self.order)).filter(|&slot| self.store.get(slot).valid & bit != 0)
    }

    fn translation(&self, slot: u32, vpn: Vpn) -> Translation {
        self.translations[self.cell(slot, vpn.offset_in(self.order.into()))]
    }

    fn view(&self, slot: u32) -> EntryView {
        let (tag, subblocks) = (self.store.tag(slot), self.store.get(slot));
        let valid = (0..1u64 << self.order).filter(|o| subblocks.valid >> o & 1 != 0);
        EntryView {
            slot: slot as usize,
            asid: tag.asid(),
            base: tag.base(),
            order: self.order,
            pages: valid
                .map(|o| (o, self.translations[self.cell(slot, o)], subblocks.modified >> o & 1 != 0))
                .collect(),
            sb_enabled: None,
            used: self.store.used(slot),
        }
    }
}
