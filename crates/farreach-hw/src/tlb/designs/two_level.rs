//! Two levels (PS-12): a small TLB that answers at once, and behind it a larger one that takes a few cycles. A miss of
//! both is walked for. Both hold base pages and are fully associative.

use super::single::Page;
use crate::tlb::contract::{Answer, Capabilities, Design, EntryView, Lookup, OnSwitch, Outcome, Timed, Tlb};
use crate::tlb::filter::Unfiltered;
use crate::tlb::keys::{FILL_SETS_USED, PAGE_SIZE, PROCESS_IDS, REPLACEMENT, SEED};
use crate::tlb::parts::store::geometry::Geometry;
use crate::tlb::parts::store::tag_index::Tag;
use crate::tlb::parts::store::{Store, count_miss};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{PageTableView, Pte, Translation};

const ENTRIES: Allowed = Allowed::Int { min: 1, max: 65536 };
/// Entries of the first level.
pub const L1_ENTRIES: Key = Key {
    name: "l1_entries",
    default: "32",
    allowed: ENTRIES,
    about: "entries of the first level, on each side if split",
};
/// Entries of the second level.
pub const L2_ENTRIES: Key = Key {
    name: "l2_entries",
    default: "128",
    allowed: ENTRIES,
    about: "entries of the second level, on each side if split",
};
/// Inclusion; PS-12 leaves it open.
pub const INCLUSIVE: Key = Key {
    name: "inclusive",
    default: "true",
    allowed: Allowed::Flag,
    about: "the first level holds copies only: what the second level evicts leaves it too",
};
/// True LRU in both levels by default.
pub const TWO_LEVEL_REPLACEMENT: Key = Key { default: "lru", ..REPLACEMENT };

/// The design as the registry knows it.
pub const DESIGN: Design = Design {
    kind: "two-level",
    about: "a small TLB in front of a larger one (PS-12)",
    keys: &[
        &L1_ENTRIES,
        &L2_ENTRIES,
        &INCLUSIVE,
        &TWO_LEVEL_REPLACEMENT,
        &FILL_SETS_USED,
        &PROCESS_IDS,
        &SEED,
        &PAGE_SIZE,
    ],
    build: |params| Ok(Box::new(TwoLevelTlb::new(params)?)),
    bits: |_| None, // AREA-1 is about one array
    reach: |params| params.int("l1_entries").max(params.int("l2_entries")) * params.int("page_size"),
};

/// A TLB in front of another. Only misses of the first level look the second up and update its replacement. A
/// translation that it has, or that was walked for, is filled into the first as well: last, after the entries that an
/// inclusive second level evicts were dropped.
struct TwoLevelTlb {
    first: Store<Page>,
    second: Store<Page>,
    inclusive: bool,
    counts: TlbCounts,
    /// The report of the second level. It is not read, because no lookup that reaches it may be filtered.
    ignored_report: Unfiltered,
}

impl TwoLevelTlb {
    /// Builds it from the keys of [`DESIGN`]. Random replacement: the second level's generator is seeded with `seed` +
    /// 1.
    pub fn new(params: &Params) -> Result<TwoLevelTlb, String> {
        let level =
            |key: &str, i| Store::new(Geometry::new(params.int(key), 0)?, params, params.int("seed").wrapping_add(i));
        Ok(TwoLevelTlb {
            first: level("l1_entries", 0)?,
            second: level("l2_entries", 1)?,
            inclusive: params.flag("inclusive"),
            counts: TlbCounts::default(),
            ignored_report: Unfiltered::unread(),
        })
    }

    /// A miss of the first level: the second has the page afterwards.
    fn second_level(&mut self, tag: Tag, at: Lookup, pte: Pte, unfiltered: &mut Unfiltered) -> Outcome {
        let store = at.kind == Kind::Store;
        if let Some(slot) = self.second.find(tag) {
            let page = self.second.get_mut(slot);
            debug_assert_eq!((page.pfn, page.attr), (pte.pfn, pte.attr), "XC-3: {at:?}");
            page.modified |= store;
            self.second.touch(slot, 0, &mut self.ignored_report);
            match at.kind {
                Kind::Fetch => self.counts.second_level_fetch_hits += 1,
                Kind::Load | Kind::Store => self.counts.second_level_data_hits += 1,
            }
            return Outcome::Hit;
        }
        count_miss(&mut self.counts, at, pte, Outcome::TagMiss);
        self.counts.fills += 1;
        let evictions = self.counts.evictions;
        self.second.fill(tag, Page::of(pte, store), 0, &mut self.counts, &mut self.ignored_report);
        if self.inclusive && self.counts.evictions > evictions {
            let evicted = self.first.slots().find(|&slot| self.second.find(self.first.tag(slot)).is_none());
            evicted.into_iter().for_each(|slot| self.first.drop(slot, unfiltered));
        }
        Outcome::TagMiss
    }

    fn view(store: &Store<Page>, before: usize) -> impl Iterator<Item = EntryView> {
        store.slots().map(move |slot| store.get(slot).view(before + slot as usize, store.tag(slot), store.used(slot)))
    }
}

impl Tlb for TwoLevelTlb {
    fn access(&mut self, at: Lookup, pte: Pte, _: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer {
        let tag = Tag::of(at.asid, at.vpn, 0);
        let store = at.kind == Kind::Store;
        if let Some(slot) = self.first.find(tag) {
            let page = self.first.get_mut(slot);
            debug_assert_eq!((page.pfn, page.attr), (pte.pfn, pte.attr), "XC-3: {at:?}");
            page.modified |= store;
            self.first.touch(slot, tag.part(at.vpn), unfiltered);
            return Answer { outcome: Outcome::Hit, filterable: true };
        }
        let outcome = self.second_level(tag, at, pte, unfiltered);
        // An eviction from the first level is no eviction of the TLB.
        let (page, counts) = (Page::of(pte, store), &mut TlbCounts::default());
        Answer { outcome, filterable: self.first.fill(tag, page, tag.part(at.vpn), counts, unfiltered) }
    }

    fn invalidate(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        self.counts.invalidations += self.first.invalidate(asid, pages, 0, unfiltered)
            + self.second.invalidate(asid, pages, 0, &mut self.ignored_report);
    }

    fn invalidate_space(&mut self, asid: Asid, unfiltered: &mut Unfiltered) {
        self.counts.invalidations +=
            self.first.drop_space(asid, unfiltered) + self.second.drop_space(asid, &mut self.ignored_report);
    }

    fn probe(&self, asid: Asid, vpn: Vpn, _: Kind) -> Option<Translation> {
        let tag = Tag::of(asid, vpn, 0);
        let in_level = |store: &Store<Page>| store.find(tag).map(|slot| store.get(slot).translation());
        in_level(&self.first).or_else(|| in_level(&self.second))
    }

    /// The first level, then the second, whose slots go on from there.
    fn entries(&self) -> Vec<EntryView> {
        Self::view(&self.first, 0).chain(Self::view(&self.second, self.first.entries())).collect()
    }

    fn counts(&self) -> &TlbCounts {
        &self.counts
    }
}

impl Capabilities for TwoLevelTlb {
    fn on_switch(&mut self) -> Option<&mut dyn OnSwitch> {
        Some(self)
    }
    fn timed(&mut self) -> Option<&mut dyn Timed> {
        if self.first.follows_uses() { Some(self) } else { None }
    }
}

impl OnSwitch for TwoLevelTlb {
    fn switch(&mut self, to: Asid, unfiltered: &mut Unfiltered) {
        self.counts.invalidations +=
            self.first.switch(to, unfiltered) + self.second.switch(to, &mut self.ignored_report);
    }
}

impl Timed for TwoLevelTlb {
    fn orders(&self) -> bool {
        self.first.orders_uses()
    }
    fn note_lookup(&mut self, asid: Asid, vpn: Vpn, _: bool, when: u64) {
        let tag = Tag::of(asid, vpn, 0);
        if let Some(slot) = self.first.find(tag) {
            self.first.note_lookup(slot, tag.part(vpn), when);
        }
    }
    fn settle(&mut self, unfiltered: &mut Unfiltered) {
        self.first.settle(unfiltered);
    }
}
