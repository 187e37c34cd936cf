//! The MMU of a current processor: separate first-level TLBs for fetches and data, each with arrays by page size, a
//! next level that answers their misses, and a page-table walker (DS13-36, RMM15 Table 5).
//!
//! The next level is a part (`NextLevel`); the designs that differ in it (`range`, `clustered`, `coalesced`) share the
//! rest. A lookup that the first level answers goes no further. A translation from the next level, or from the walk, is
//! filled into the first.

pub mod cores;
mod distances;
pub mod host;
mod keys;
pub(in crate::tlb) mod level;
pub(in crate::tlb) mod nodes;
mod paging;
pub mod walk;
pub(in crate::tlb) mod walker;

pub use keys::{COALESCE, HIERARCHY_REPLACEMENT, L1D, L1I, L2, L2_DATA_CYCLES, L2_FETCH_CYCLES, L2_FRACTURE, L2I};
pub(in crate::tlb) use keys::{FIRST_LEVEL_KEYS, KEYS, joined};
pub use level::{ArrayShape, array_shapes};
pub(in crate::tlb) use paging::{Paging, check_replacement};

use crate::tlb::contract::{
    Answer, Capabilities, EntryView, Lookup, NodeRead, OnDemotion, OnFetch, OnSwitch, Outcome, Timed, Tlb,
};
use crate::tlb::filter::Unfiltered;
use crate::tlb::parts::store::count_miss;
use crate::tlb::parts::store::geometry::{ALL_BITS, common};
use crate::tlb::parts::store::policies::L2_REPLACEMENT;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{PageTableView, Pte, Translation};
use level::Level;
use nodes::Entry;
use std::ops::Range;
use walk::by_caches;
use walker::{Walker, coalesced};

/// The level that answers misses of the first. It does not take part in filtering: it sees only such misses.
pub(in crate::tlb) trait NextLevel: Send {
    /// Answers in front of the first level, which is then left alone (F-6).
    fn before(&mut self, _at: Lookup, _counts: &mut TlbCounts) -> Option<Translation> {
        None
    }
    /// Whether [`NextLevel::before`] takes part in every lookup, so that none may be filtered.
    fn is_first(&self) -> bool {
        false
    }
    /// Answers a miss of the first level: the translation, and the order of the entry that the first level gets.
    fn lookup(&mut self, at: Lookup, pte: Pte, counts: &mut TlbCounts) -> Option<(Translation, u8)>;
    /// A walk found the page in a mapping of `2^order` pages, or pages that can be taken for one.
    fn fill(&mut self, at: Lookup, page: Translation, order: u8, table: &dyn PageTableView, counts: &mut TlbCounts);
    /// Where it wants the address of the latest fetch before each lookup (HW-6), and the policy that needs it.
    fn pc(&mut self) -> Option<(&mut u64, &'static str)> {
        None
    }
    /// Whether this level serves lookups of this side, so that its evictions count.
    fn takes(&self, kind: Kind) -> bool;
    /// This function and the next two return how many translations were dropped.
    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, demoted: bool, counts: &mut TlbCounts) -> u64;
    fn drop_space(&mut self, asid: Asid, counts: &mut TlbCounts) -> u64;
    fn switch(&mut self, to: Asid, counts: &mut TlbCounts) -> u64;
    /// The translation it would give, without regard to the first level.
    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation>;
    /// Passes on the table entries that its walkers read since the last call.
    fn reads(&mut self, _each: &mut dyn FnMut(Entry)) {}
    /// See [`Capabilities::set_bits`].
    fn set_bits(&self, _largest: u8) -> Result<Range<u32>, String> {
        Err("behind the first level it has an array whose entries are not in sets of pages".into())
    }
    /// Its entries, slots from `before` on.
    fn views(&self, before: usize, into: &mut Vec<EntryView>);
}

/// Translation in the first dimension, the only one outside virtual machines.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::tlb) enum Guest {
    /// The page table.
    Tables,
    /// Segment registers that lead to guest physical memory (DS13-41).
    Registers,
}

/// Position in [`Hierarchy::l1`].
fn side(kind: Kind) -> usize {
    usize::from(kind == Kind::Fetch)
}

/// First levels, next level, and walker.
pub(in crate::tlb) struct Hierarchy<B> {
    /// Data, fetch.
    l1: [Level; 2],
    next_level: B,
    walker: Walker,
    /// log2 of the pages of `coalesce`.
    coalesce: u8,
    /// In a virtual machine, the order of the largest entry (`host_fracture`).
    largest: Option<u8>,
    /// For caches, if there are any.
    reads: Option<Vec<NodeRead>>,
    /// The report of a first level behind another, which is not read because nothing is filtered.
    ignored_report: Unfiltered,
    pub counts: TlbCounts,
}

impl<B: NextLevel> Hierarchy<B> {
    /// From the keys of [`DESIGN`] but for the second level. The generators of `random` begin with: L1 `seed` + array
    /// (fetch side + 8), L2 + 16, walker + 32 + level, other next levels + 64.
    pub fn new(params: &Params, next_level: B) -> Result<Hierarchy<B>, String> {
        let seed = params.int("seed");
        let l1 = |key: &str, i| Level::first(params, key, seed.wrapping_add(i));
        let walker = Walker::new(params, seed.wrapping_add(32))?;
        Ok(Hierarchy {
            l1: [l1("l1d", 0)?, l1("l1i", 8)?],
            next_level,
            largest: walker.largest_entry(),
            walker,
            // 4K, which is off, with any base page.
            coalesce: params.int(COALESCE.name).trailing_zeros().saturating_sub(params.page_shift()) as u8,
            reads: by_caches(params).then(Vec::new),
            ignored_report: Unfiltered::unread(),
            counts: TlbCounts::default(),
        })
    }

    /// Serves a miss of the first level. Also returns the order of the entry that the first level gets.
    fn miss(&mut self, at: Lookup, pte: Pte, by: Guest, table: &dyn PageTableView) -> (Outcome, u8) {
        let page = Translation { pfn: pte.pfn, attr: pte.attr };
        if let Some((found, order)) = self.next_level.lookup(at, pte, &mut self.counts) {
            debug_assert_eq!(found, page, "XC-3: {at:?}");
            return (Outcome::Hit, order);
        }
        count_miss(&mut self.counts, at, pte, Outcome::TagMiss);
        self.counts.fills += 1;
        match by {
            Guest::Tables => self.walker.walk(at, pte, &mut self.counts, self.reads.as_mut()),
            Guest::Registers => self.walker.walk_host(pte, &mut self.counts, self.reads.as_mut()),
        }
        let largest = self.largest.unwrap_or(u8::MAX);
        let own = pte.order.min(largest);
        let mut order = own;
        if order < self.coalesce {
            order = order.max(coalesced(at.asid, at.vpn, table, self.coalesce).min(largest));
            self.counts.preloaded += (1 << order) - (1 << own);
        }
        self.next_level.fill(at, page, order, table, &mut self.counts);
        if let Some(reads) = &mut self.reads {
            self.next_level.reads(&mut |entry| reads.push(self.walker.read(entry)));
        }
        (Outcome::TagMiss, order)
    }

    /// One lookup; see [`Tlb::access`]. `by`: translates the page, in a virtual machine to guest physical memory, if no
    /// TLB does.
    pub fn answer(
        &mut self,
        at: Lookup,
        pte: Pte,
        by: Guest,
        table: &dyn PageTableView,
        unfiltered: &mut Unfiltered,
    ) -> Answer {
        let page = Translation { pfn: pte.pfn, attr: pte.attr };
        if let Some(found) = self.next_level.before(at, &mut self.counts) {
            debug_assert_eq!(found, page, "XC-3: {at:?}");
            return Answer { outcome: Outcome::Hit, filterable: false };
        }
        // Behind another, it does not see all lookups that the machine knows of.
        if self.next_level.is_first() {
            let mut ignored_report = std::mem::take(&mut self.ignored_report);
            let answer = self.answer_by_pages(at, pte, by, table, &mut ignored_report);
            self.ignored_report = ignored_report;
            return Answer { filterable: false, ..answer };
        }
        unfiltered.set_sides([at.kind == Kind::Fetch, at.kind != Kind::Fetch]);
        self.answer_by_pages(at, pte, by, table, unfiltered)
    }

    /// The first level answers, and at a miss the next, or a walk.
    #[inline]
    fn answer_by_pages(
        &mut self,
        at: Lookup,
        pte: Pte,
        by: Guest,
        table: &dyn PageTableView,
        unfiltered: &mut Unfiltered,
    ) -> Answer {
        let page = Translation { pfn: pte.pfn, attr: pte.attr };
        if let Some(leaf) = self.l1[side(at.kind)].lookup(at.asid, at.vpn, unfiltered) {
            debug_assert_eq!(leaf.translate(at.vpn), page, "XC-3: {at:?}");
            return Answer { outcome: Outcome::Hit, filterable: true };
        }
        let (outcome, order) = self.miss(at, pte, by, table);
        let level = &mut self.l1[side(at.kind)];
        let order = level.fitting(order).expect("it has base pages");
        let mut counts = TlbCounts::default();
        let filterable = level.fill((at.asid, at.vpn), page, order, &mut counts, unfiltered);
        self.counts.covered_drops += counts.covered_drops;
        if !self.next_level.takes(at.kind) {
            self.counts.evictions += counts.evictions;
        }
        Answer { outcome, filterable }
    }
}

impl<B: NextLevel> Tlb for Hierarchy<B> {
    fn access(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer {
        self.answer(at, pte, Guest::Tables, table, unfiltered)
    }

    fn invalidate(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        self.walker.forget(asid);
        let l1: u64 = self.l1.iter_mut().map(|level| level.drop_overlapping(asid, pages, 0, unfiltered)).sum();
        self.counts.invalidations += l1 + self.next_level.drop_pages(asid, pages, false, &mut self.counts);
    }

    fn invalidate_space(&mut self, asid: Asid, unfiltered: &mut Unfiltered) {
        self.walker.gone(asid);
        let l1: u64 = self.l1.iter_mut().map(|level| level.drop_space(asid, unfiltered)).sum();
        self.counts.invalidations += l1 + self.next_level.drop_space(asid, &mut self.counts);
    }

    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        let first = self.l1[side(kind)].probe(asid, vpn);
        let next_level = self.next_level.probe(asid, vpn, kind);
        debug_assert!(
            first.is_none() || next_level.is_none_or(|t| Some(t) == first),
            "{asid:?} {vpn:?}: the levels disagree"
        );
        first.or(next_level)
    }

    /// First levels, data before fetch side, then the next level; slots are numbered on.
    fn entries(&self) -> Vec<EntryView> {
        self.entries_in(0..usize::MAX)
    }

    fn entries_in(&self, slots: Range<usize>) -> Vec<EntryView> {
        let (mut views, mut before) = (Vec::new(), 0);
        for level in &self.l1 {
            let after = before + level.entries();
            if slots.start < after && before < slots.end {
                level.views(before, &mut views);
            }
            before = after;
        }
        if before < slots.end {
            self.next_level.views(before, &mut views);
        }
        views.retain(|view| slots.contains(&view.slot));
        views
    }

    fn counts(&self) -> &TlbCounts {
        &self.counts
    }
}

impl<B: NextLevel> Capabilities for Hierarchy<B> {
    fn on_demotion(&mut self) -> Option<&mut dyn OnDemotion> {
        Some(self)
    }
    fn on_switch(&mut self) -> Option<&mut dyn OnSwitch> {
        Some(self)
    }
    fn timed(&mut self) -> Option<&mut dyn Timed> {
        if self.l1[0].follows_uses() && !self.next_level.is_first() { Some(self) } else { None }
    }
    fn on_fetch(&mut self) -> Option<&mut dyn OnFetch> {
        if self.next_level.pc().is_some() { Some(self) } else { None }
    }
    fn walker_reads(&mut self) -> Option<&mut Vec<NodeRead>> {
        self.reads.as_mut()
    }
    fn set_bits(&self, largest: u8) -> Result<Range<u32>, String> {
        if self.coalesce > 0 {
            return Err("frames decide which pages coalesce, and those depend on all pages".into());
        }
        let first = self.l1.iter().map(|level| level.set_bits(largest));
        first.chain([self.next_level.set_bits(largest)]).try_fold(ALL_BITS, |bits, array| common(bits, array?))
    }
}

impl<B: NextLevel> OnDemotion for Hierarchy<B> {
    fn demote(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        self.walker.forget(asid);
        let l1: u64 = self.l1.iter_mut().map(|level| level.drop_overlapping(asid, pages, 1, unfiltered)).sum();
        self.counts.invalidations += l1 + self.next_level.drop_pages(asid, pages, true, &mut self.counts);
    }
}

impl<B: NextLevel> OnSwitch for Hierarchy<B> {
    fn switch(&mut self, to: Asid, unfiltered: &mut Unfiltered) {
        self.walker.switch(to);
        let l1: u64 = self.l1.iter_mut().map(|level| level.switch(to, unfiltered)).sum();
        self.counts.invalidations += l1 + self.next_level.switch(to, &mut self.counts);
    }
}

impl<B: NextLevel> OnFetch for Hierarchy<B> {
    fn latest_fetch(&mut self, address: u64) {
        if let Some((pc, _)) = self.next_level.pc() {
            *pc = address;
        }
    }

    fn because_of(&mut self) -> String {
        self.next_level.pc().map_or(String::new(), |(_, policy)| format!("{} = {policy}", L2_REPLACEMENT.name))
    }
}

/// Only the first level sees lookups that may be filtered.
impl<B: NextLevel> Timed for Hierarchy<B> {
    fn orders(&self) -> bool {
        self.l1[0].orders_uses()
    }

    fn note_lookup(&mut self, asid: Asid, vpn: Vpn, fetch: bool, when: u64) {
        self.l1[usize::from(fetch)].note_lookup(asid, vpn, when);
    }

    fn settle(&mut self, unfiltered: &mut Unfiltered) {
        for (i, level) in self.l1.iter_mut().enumerate() {
            unfiltered.set_sides([i == side(Kind::Fetch), i != side(Kind::Fetch)]);
            level.settle(unfiltered);
        }
    }
}

/// Counts a lookup that the next level answered.
pub(in crate::tlb) fn count_second_level_hit(counts: &mut TlbCounts, kind: Kind) {
    match kind {
        Kind::Fetch => counts.second_level_fetch_hits += 1,
        Kind::Load | Kind::Store => counts.second_level_data_hits += 1,
    }
}

/// Bytes that the page TLBs map at best: of the first level for data, or of the second.
pub(in crate::tlb) fn reach(params: &Params) -> u64 {
    level::reach(params, L1D.name).max(level::reach(params, L2.name))
}
