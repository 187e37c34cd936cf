//! Superpages and partial subblocks in one array (T94-24, F-9): entries of regions hold base pages and medium
//! superpages, other entries hold one superpage larger than a region.

use super::partial_subblock::{self, Found, PartialTlb, Subblocks};
use super::superpage::{listed, orders};
use crate::tlb::contract::{Answer, Design, EntryBits, EntryView, Lookup, Outcome};
use crate::tlb::filter::Unfiltered;
use crate::tlb::keys::{
    ASSISTED_CHECK, ENTRIES, FACTOR, FILL_SETS_USED, PAGE_SIZE, PRELOAD, PROCESS_IDS, REPLACEMENT, SEED, SIZES, WAYS,
};
use crate::tlb::parts::bits::SIZE;
use crate::tlb::parts::store::Store;
use crate::tlb::parts::store::tag_index::{NONE, Tag};
use crate::tlb::parts::store::{count_miss, ones};
use crate::tlb::parts::stored::Stored;
use farreach_types::addr::{Asid, Bytes, Pfn, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{PageTableView, Pte, Translation};

/// Page sizes: base, medium (a region), and any larger.
pub const INTEGRATED_SIZES: Key =
    Key { default: "4K+64K+1M", about: "page_size, a region (factor pages), and larger pages", ..SIZES };
/// Organisation (T94-16).
pub const LOOKUP: Key = Key {
    name: "lookup",
    default: "one-array",
    allowed: Allowed::OneOf(&["one-array", "probe"]),
    about: "how an entry of unknown page size is found: one-array (fully associative), probe (once per size)",
};

/// The design as the registry knows it.
pub const DESIGN: Design = Design {
    kind: "integrated",
    about: "partial subblocks and large superpages in one array (T94-24)",
    keys: &[
        &ENTRIES,
        &WAYS,
        &FACTOR,
        &INTEGRATED_SIZES,
        &LOOKUP,
        &REPLACEMENT,
        &FILL_SETS_USED,
        &PRELOAD,
        &ASSISTED_CHECK,
        &PROCESS_IDS,
        &SEED,
        &PAGE_SIZE,
    ],
    build: |params| Ok(Box::new(IntegratedTlb::new(params)?)),
    bits: |params| {
        let partial = partial_subblock::bits(params);
        (params.int("ways") == 0).then_some(EntryBits { tag: partial.tag + SIZE, ..partial })
    },
    reach: |params| params.int("entries") * params.sizes("sizes").last().copied().unwrap_or(0),
};

/// The largest configured order that a mapping of this order has room for.
#[inline]
fn fitting(orders: &[u8], order: u8) -> u8 {
    orders.iter().copied().rfind(|&o| o <= order).unwrap_or(0)
}

/// An integrated TLB.
struct IntegratedTlb {
    /// The array, with all logic for pages of regions.
    regions: PartialTlb,
    /// Base page, region, larger ones.
    orders: Vec<u8>,
}

impl IntegratedTlb {
    /// Builds it from the keys of [`DESIGN`].
    pub fn new(params: &Params) -> Result<IntegratedTlb, String> {
        let regions = PartialTlb::new(params, false)?;
        let sizes = params.sizes("sizes");
        let orders = orders(params)?;
        let medium = params.int("factor") * params.int("page_size");
        let next = usize::from(params.int("factor") > 1);
        if sizes.get(next) != Some(&medium) {
            return Err(format!(
                "sizes = {} is not allowed: after page_size must come factor pages, {} (T94-24), then any larger",
                listed(&sizes),
                Bytes(medium)
            ));
        }
        let ways = params.int("ways");
        if ways != 0 && orders.len() > next + 1 && params.text("lookup") == "one-array" {
            return Err(format!(
                "ways = {ways} is not allowed: the set of an entry larger than a region is not known before its size \
                 is (T94-16); choose lookup = probe or ways = 0"
            ));
        }
        Ok(IntegratedTlb { regions, orders })
    }

    /// The superpage entry that translates this page.
    #[inline]
    fn find_large(&self, asid: Asid, vpn: Vpn) -> Option<u32> {
        let region = self.regions.order;
        let store = &self.regions.store;
        let mut hits = self.orders.iter().filter(|&&order| order > region && store.live(order) > 0);
        let mut hits = std::iter::from_fn(|| hits.next()).filter_map(|&order| store.find(Tag::of(asid, vpn, order)));
        let hit = hits.next();
        debug_assert_eq!(hits.next(), None, "T94-17: two superpage entries match {asid:?} {vpn:?}");
        hit
    }

    fn translate_large(&self, slot: u32, vpn: Vpn) -> Translation {
        let (order, entry) = (self.regions.store.tag(slot).order(), self.regions.store.get(slot));
        Translation { pfn: Pfn(entry.pfn.0 | vpn.offset_in(order.into())), attr: entry.attr }
    }

    /// Fills a superpage larger than a region, after dropping the entries that it covers (AMB-20).
    fn fill_large(&mut self, at: Lookup, pte: Pte, order: u8, unfiltered: &mut Unfiltered) -> u32 {
        let PartialTlb { store, counts, order: region, .. } = &mut self.regions;
        let covered = VpnRange { start: at.vpn.align_down(order.into()), pages: 1 << order };
        for &smaller in self.orders.iter().filter(|&&o| o >= *region) {
            counts.covered_drops += store.drop_overlapping(at.asid, covered, smaller, unfiltered);
        }
        let entry = Subblocks {
            valid: !0,
            modified: u64::from(at.kind == Kind::Store),
            pfn: pte.pfn.align_down(order.into()),
            attr: pte.attr,
            sb_enabled: true,
            large: true,
            ..Subblocks::default()
        };
        store.place(Tag::of(at.asid, at.vpn, order), entry, counts, unfiltered)
    }

    /// Fills a medium superpage: all pages of the region at once, into the entry they can join or a new one. Other
    /// entries of the region are dropped.
    fn fill_medium(&mut self, at: Lookup, pte: Pte, found: Found, unfiltered: &mut Unfiltered) -> u32 {
        let region = self.regions.order;
        let tag = Tag::of(at.asid, at.vpn, region);
        let (valid, modified) = (ones(1 << region), self.regions.stored(at));
        let joined = self.regions.joinable(found.first, pte);
        let PartialTlb { store, counts, .. } = &mut self.regions;
        let mut slot = found.first;
        while slot != NONE {
            let next = store.next(slot);
            if Some(slot) != joined {
                counts.covered_drops += 1;
                store.drop(slot, unfiltered);
            }
            slot = next;
        }
        if let Some(slot) = joined {
            counts.merges += 1;
            let entry = store.get_mut(slot);
            entry.valid = valid;
            entry.modified |= modified;
            return slot;
        }
        let entry = Subblocks {
            valid,
            modified,
            pfn: pte.pfn.align_down(region.into()),
            attr: pte.attr,
            sb_enabled: true,
            ..Subblocks::default()
        };
        store.place(tag, entry, counts, unfiltered)
    }
}

impl Stored for IntegratedTlb {
    type Contents = Subblocks;

    fn store(&self) -> &Store<Subblocks> {
        &self.regions.store
    }
    fn counted(&self) -> &TlbCounts {
        &self.regions.counts
    }
    fn parts(&mut self) -> (&mut Store<Subblocks>, &mut TlbCounts) {
        (&mut self.regions.store, &mut self.regions.counts)
    }
    fn joins_by_frames(&self) -> bool {
        true
    }
    fn orders(&self) -> &[u8] {
        // Base pages are subblocks of regions.
        &self.orders[usize::from(self.regions.order > 0)..]
    }
    /// A medium superpage is held as subblocks, each valid by itself.
    fn superpages(&self) -> &[u8] {
        &self.orders()[1..]
    }

    #[inline]
    fn lookup(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer {
        let found = self.regions.find(at.asid, at.vpn);
        let large =
            if found.hit.is_some() && !cfg!(debug_assertions) { None } else { self.find_large(at.asid, at.vpn) };
        debug_assert!(found.hit.is_none() || large.is_none(), "T94-17: two forms of entry match {at:?}");
        if let Some(slot) = found.hit {
            return self.regions.hit(slot, at, pte, unfiltered);
        }
        if let Some(slot) = large {
            let known = Translation { pfn: pte.pfn, attr: pte.attr };
            debug_assert_eq!(self.translate_large(slot, at.vpn), known, "XC-3: {at:?}");
            self.regions.store.get_mut(slot).modified |= u64::from(at.kind == Kind::Store);
            let part = self.regions.store.tag(slot).part(at.vpn);
            self.regions.store.touch(slot, part, unfiltered);
            return Answer { outcome: Outcome::Hit, filterable: true };
        }
        let order = fitting(&self.orders, pte.order);
        if order == 0 {
            return self.regions.miss(at, pte, found, table, unfiltered);
        }
        debug_assert_eq!(at.vpn.offset_in(order.into()), pte.pfn.offset_in(order.into()), "T94-2: {at:?} {pte:?}");
        let outcome = found.outcome();
        count_miss(&mut self.regions.counts, at, pte, outcome);
        self.regions.counts.fills += 1;
        let slot = match order > self.regions.order {
            true => self.fill_large(at, pte, order, unfiltered),
            false => self.fill_medium(at, pte, found, unfiltered),
        };
        Answer {
            outcome,
            filterable: self.regions.store.replay(slot, Tag::of(at.asid, at.vpn, order).part(at.vpn), unfiltered),
        }
    }

    fn slot_of(&self, asid: Asid, vpn: Vpn) -> Option<u32> {
        let page = self.regions.slot_of(asid, vpn);
        let large = if page.is_some() && !cfg!(debug_assertions) { None } else { self.find_large(asid, vpn) };
        debug_assert!(page.is_none() || large.is_none(), "T94-17: two forms of entry match {asid:?} {vpn:?}");
        page.or(large)
    }

    fn translation(&self, slot: u32, vpn: Vpn) -> Translation {
        match self.regions.store.get(slot).large {
            true => self.translate_large(slot, vpn),
            false => self.regions.translation(slot, vpn),
        }
    }

    fn view(&self, slot: u32) -> EntryView {
        self.regions.view(slot)
    }
}
