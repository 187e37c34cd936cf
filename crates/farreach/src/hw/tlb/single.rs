//! One page size (T94-3, T94-10), fully associative or in sets (T94-15).

use super::bits::{ATTR, PPN, USED, VPN, pid};
use super::keys::{ENTRIES, FILL_SETS_USED, Geometry, PROCESS_IDS, REPLACEMENT, SEED, WAYS};
use super::store::{Contents, Store, count_miss};
use super::tag_index::Tag;
use super::{Answer, Design, EntryBits, EntryView, Lookup, Noise, Outcome, PageTableView, Pte, Tlb, Translation};
use crate::addr::{Asid, BASE_SHIFT, Pfn, Vpn, VpnRange};
use crate::counts::TlbCounts;
use crate::event::Kind;
use crate::params::Params;

/// The design as the registry knows it.
pub const DESIGN: Design = Design {
    kind: "single",
    about: "one translation of a 4 KB page per entry (T94-3)",
    keys: &[&ENTRIES, &WAYS, &REPLACEMENT, &FILL_SETS_USED, &PROCESS_IDS, &SEED],
    build: |params| Ok(Box::new(SingleTlb::new(params)?)),
    bits: |params| (params.int("ways") == 0).then(|| EntryBits { tag: pid(params) + VPN, data: PPN + ATTR + 2, status: USED }),
    reach: |params| params.int("entries") << BASE_SHIFT,
};

#[derive(Clone, Copy, Default)]
struct Page {
    pfn: Pfn,
    attr: super::Attr,
    modified: bool,
}

impl Contents for Page {
    fn subblocks(&self) -> Option<u64> {
        None
    }
}

/// A TLB of 4 KB translations.
pub struct SingleTlb {
    store: Store<Page>,
    counts: TlbCounts,
}

impl SingleTlb {
    /// Builds it from the keys of [`DESIGN`].
    pub fn new(params: &Params) -> Result<SingleTlb, String> {
        let store = Store::new(Geometry::of(params)?, params, params.int("seed"));
        Ok(SingleTlb { store, counts: TlbCounts::default() })
    }
}

impl Tlb for SingleTlb {
    fn access(&mut self, at: Lookup, pte: Pte, _: &dyn PageTableView, noise: &mut Noise) -> Answer {
        let tag = Tag::of(at.asid, at.vpn, 0);
        let store = at.kind == Kind::Store;
        if let Some(slot) = self.store.find(tag) {
            let page = self.store.get_mut(slot);
            debug_assert_eq!((page.pfn, page.attr), (pte.pfn, pte.attr), "XC-3: {at:?}");
            page.modified |= store;
            self.store.touch(slot, noise);
            return Answer { outcome: Outcome::Hit, quiet: true };
        }
        count_miss(&mut self.counts, at, pte, Outcome::TagMiss);
        self.counts.fills += 1;
        let page = Page { pfn: pte.pfn, attr: pte.attr, modified: store };
        let slot = self.store.place(tag, page, None, &mut self.counts, noise).expect("no slot is kept");
        self.store.replay(slot, noise);
        Answer { outcome: Outcome::TagMiss, quiet: self.store.settled(slot) }
    }

    fn invalidate(&mut self, asid: Asid, pages: VpnRange, noise: &mut Noise) {
        self.counts.invalidations += self.store.invalidate(asid, pages, 0, noise);
    }

    fn invalidate_space(&mut self, asid: Asid, noise: &mut Noise) {
        self.counts.invalidations += self.store.drop_space(asid, noise);
    }

    fn switch(&mut self, to: Asid, noise: &mut Noise) {
        self.counts.invalidations += self.store.switch(to, noise);
    }

    fn looked_up(&mut self, asid: Asid, vpn: Vpn, when: u32) {
        if let Some(slot) = self.store.find(Tag::of(asid, vpn, 0)) {
            self.store.looked_up(slot, when);
        }
    }

    fn probe(&self, asid: Asid, vpn: Vpn, _: Kind) -> Option<Translation> {
        let page = self.store.get(self.store.find(Tag::of(asid, vpn, 0))?);
        Some(Translation { pfn: page.pfn, attr: page.attr })
    }

    fn entries(&self) -> Vec<EntryView> {
        let view = |slot| {
            let (tag, page) = (self.store.tag(slot), self.store.get(slot));
            EntryView {
                slot: slot as usize,
                asid: tag.asid(),
                base: tag.base(),
                order: 0,
                pages: vec![(0, Translation { pfn: page.pfn, attr: page.attr }, page.modified)],
                sb_enabled: None,
                used: self.store.used(slot),
            }
        };
        self.store.slots().map(view).collect()
    }

    fn counts(&self) -> &TlbCounts {
        &self.counts
    }
}
