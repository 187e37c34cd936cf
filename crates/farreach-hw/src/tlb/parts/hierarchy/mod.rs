//! The MMU of a current processor: separate first-level TLBs for fetches and data, each with arrays by page size, a
//! next level that answers their misses, and a page-table walker (DS13-36, RMM15 Table 5).
//!
//! The second level is a part (`SecondLevel`), and so are additions beside it and behind it (`parts/additions`) and the
//! page table, if it is not the walker's radix tree (`parts/tables`). A lookup that the first level answers goes no
//! further. A translation from elsewhere is filled into the first.

mod asked;
mod capabilities;
pub mod cores;
mod distances;
pub(in crate::tlb) mod foresight;
pub mod host;
mod keys;
pub(in crate::tlb) mod level;
pub(in crate::tlb) mod nodes;
pub mod numa;
mod paging;
mod second;
pub mod shared;
pub mod walk;
pub mod walk_caches;
pub(in crate::tlb) mod walker;

pub use keys::{COALESCE, HIERARCHY_REPLACEMENT, L1D, L1I, L2, L2_DATA_CYCLES, L2_FETCH_CYCLES, L2_FRACTURE, L2I};
pub(in crate::tlb) use keys::{FIRST_LEVEL_KEYS, KEYS, OPEN_KEYS, PAGING_KEYS};
pub use level::{ArrayShape, array_shapes};
pub(in crate::tlb) use paging::{Paging, check_replacement};
pub(in crate::tlb) use second::{Rest, SecondLevel, check_native, check_one_core};

use crate::cache::Port;
use crate::tlb::contract::{Answer, EntryView, Lookup, Outcome, Tlb};
use crate::tlb::filter::Unfiltered;
use crate::tlb::parts::additions::{self, ListedAddition, Miss};
use crate::tlb::parts::store::count_miss;
use crate::tlb::parts::store::policies::L2_REPLACEMENT;
use crate::tlb::parts::tables::Tables;
use asked::{Filled, Placed};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::{Key, Params};
use farreach_types::translation::{PageTableView, Pte, Translation};
use level::{Level, Size};
use std::ops::Range;
use walk::by_caches;
use walker::{Walker, coalesced};

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

/// First levels, second level, additions, and walker.
pub(in crate::tlb) struct Hierarchy<S> {
    /// Data, fetch.
    l1: [Level; 2],
    second: S,
    /// In the order in which they are asked.
    additions: Vec<Placed>,
    /// What they are to be told of.
    untold: Option<Filled>,
    /// Whether one of them is asked in front of the first level.
    preceded: bool,
    walker: Walker,
    /// The page table, if it is not the walker's radix tree.
    tables: Option<Tables>,
    port: Port,
    /// log2 of the pages of `coalesce`.
    coalesce: u8,
    /// In a virtual machine, the order of the largest entry (`host_fracture`).
    largest: Option<u8>,
    /// Why it needs the latest fetch, if it does, with the address and the number of instructions.
    needs_fetches: Option<String>,
    pc: u64,
    position: u64,
    /// The report of a first level behind another, which is not read because nothing is filtered.
    ignored_report: Unfiltered,
    pub counts: TlbCounts,
}

impl<S: SecondLevel + 'static> Hierarchy<S> {
    /// From the keys of the hierarchy but for the second level. `always`: additions that its kind has. The generators
    /// of `random` begin with: L1 `seed` + array (fetch side + 8), L2 + 16, walker + 32 + level, range TLB and runs +
    /// 64, page table + 96, other additions + 128 + 16 times their place.
    pub fn new(params: &Params, second: S, always: &[&'static ListedAddition]) -> Result<Hierarchy<S>, String> {
        let seed = params.int("seed");
        let l1 = |key: &str, i| Level::first(params, key, seed.wrapping_add(i));
        let mut counts = TlbCounts::default();
        let walker = Walker::new(params, seed.wrapping_add(32), &mut counts)?;
        let nodes = walker.nodes(params);
        let mut placed = Vec::new();
        for (place, listed) in (0..).zip(additions::chosen(params, always)?) {
            let addition = (listed.build)(params, seed.wrapping_add(128 + 16 * place))?;
            let names: Vec<_> = listed.counters.iter().map(|counter| counter.name).collect();
            placed.push(Placed { addition, listed, part: counts.parts.add(listed.name, &names) });
        }
        let mut hierarchy = Hierarchy {
            l1: [l1("l1d", 0)?, l1("l1i", 8)?],
            second,
            preceded: placed.iter().any(|placed| placed.addition.is_first()),
            needs_fetches: { placed.iter().map(|placed| placed.listed.needs_fetches) }
                .chain(host::chosen(params).map(|host| host.needs_fetches))
                .find_map(|needs| needs(params)),
            additions: placed,
            untold: None,
            largest: walker.largest_entry(),
            walker,
            tables: Tables::new(params, seed.wrapping_add(96), &mut counts)?,
            port: Port::new(by_caches(params)).with_nodes(nodes),
            // 4K, which is off, with any base page.
            coalesce: params.int(COALESCE.name).trailing_zeros().saturating_sub(params.page_shift()) as u8,
            pc: 0,
            position: 0,
            ignored_report: Unfiltered::unread(),
            counts,
        };
        if let Some((listed, part)) = hierarchy.second.part() {
            let names: Vec<_> = listed.counters.iter().map(|counter| counter.name).collect();
            *part = hierarchy.counts.parts.add(listed.name, &names);
            hierarchy.needs_fetches = hierarchy.needs_fetches.or_else(|| (listed.needs_fetches)(params));
        }
        if let Some((_, policy)) = hierarchy.second.pc() {
            hierarchy.needs_fetches = Some(format!("{} = {policy}", L2_REPLACEMENT.name));
        }
        Ok(hierarchy)
    }

    /// On a machine whose memory has nodes: its core is on this one.
    pub fn on_node(mut self, numa: Option<(numa::Handle, u8)>) -> Self {
        if let Some((tables, node)) = numa {
            self.walker.on_node(tables, node);
        }
        self
    }

    /// Serves a miss of the first level. Also returns the order of the entry that the first level gets.
    fn miss(&mut self, at: Lookup, pte: Pte, by: Guest, table: &dyn PageTableView) -> (Outcome, u8) {
        let page = Translation { pfn: pte.pfn, attr: pte.attr };
        let mut answer = self.second.lookup(at, pte, &mut self.counts, &mut self.port);
        if !self.additions.is_empty() {
            answer = self.beside(at, pte, answer, table);
        }
        if let Some((found, order)) = answer {
            debug_assert_eq!(found, page, "XC-3: {at:?}");
            return (Outcome::Hit, order);
        }
        let pte = self.second.seen(at, pte, table);
        let largest = self.largest.unwrap_or(u8::MAX);
        let own = pte.order.min(largest);
        let miss = Miss { at, pte, order: own, pc: self.pc, position: self.position };
        let answered = if self.additions.is_empty() { None } else { self.behind(&miss, table) };
        let mut order = own;
        if order < self.coalesce {
            order = order.max(coalesced(at.asid, at.vpn, table, self.coalesce).min(largest));
        }
        if let Some((_, found)) = answered {
            debug_assert_eq!(found, page, "XC-3: {at:?}");
        } else {
            count_miss(&mut self.counts, at, pte, Outcome::TagMiss);
            self.counts.fills += 1;
            self.walk(at, pte, by);
            let Hierarchy { second, walker, port, counts, .. } = self;
            second.walked(at, pte, &mut Rest { table, walker, port, counts });
            self.counts.preloaded += (1 << order) - (1 << own);
        }
        if self.additions.is_empty() {
            self.second.fill(at, page, order, table, &mut self.counts);
        } else {
            self.fill_behind(miss, answered.map(|(place, _)| place), order, table);
        }
        (if answered.is_some() { Outcome::Hit } else { Outcome::TagMiss }, order)
    }

    /// Walks for a page that no TLB and no addition has.
    fn walk(&mut self, at: Lookup, pte: Pte, by: Guest) {
        let Hierarchy { walker, tables, port, counts, additions, position, .. } = self;
        // No other part asks for the last walk.
        let before = (!additions.is_empty()).then(|| (counts.walk.by_level(), counts.host_walk.references));
        if before.is_some() {
            port.walk_begins();
        }
        match (by, tables) {
            (Guest::Tables, None) => walker.walk(at, pte, *position, counts, port),
            (Guest::Tables, Some(tables)) => tables.walk((at.asid, at.vpn, pte.pfn), walker.host(), port, counts),
            (Guest::Registers, _) => walker.walk_host(pte, counts, port),
        }
        if let Some((before, of_host)) = before {
            let after = counts.walk.by_level();
            let by_level = std::array::from_fn(|level| after[level] - before[level]);
            port.walk_ends(by_level, counts.host_walk.references - of_host);
        }
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
        let answer = if self.preceded {
            self.answer_behind(at, pte, by, table)
        } else {
            unfiltered.set_sides([at.kind == Kind::Fetch, at.kind != Kind::Fetch]);
            self.answer_by_pages(at, pte, by, table, unfiltered)
        };
        if at.kind == Kind::Store {
            self.walker.stored(at, &mut self.counts);
        }
        answer
    }

    /// An addition is asked first. The first level, behind it, does not see all lookups that the machine knows of.
    fn answer_behind(&mut self, at: Lookup, pte: Pte, by: Guest, table: &dyn PageTableView) -> Answer {
        let Hierarchy { additions, counts, .. } = self;
        if let Some(found) = additions.iter_mut().find_map(|placed| placed.addition.before(at, counts)) {
            debug_assert_eq!(found, Translation { pfn: pte.pfn, attr: pte.attr }, "XC-3: {at:?}");
            return Answer { outcome: Outcome::Hit, filterable: false };
        }
        let mut ignored_report = std::mem::take(&mut self.ignored_report);
        let answer = self.answer_by_pages(at, pte, by, table, &mut ignored_report);
        self.ignored_report = ignored_report;
        Answer { filterable: false, ..answer }
    }

    /// The first level answers, and at a miss the rest.
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
        let Hierarchy { l1, second, walker, counts, position, .. } = self;
        if let Some(dropped) = second.adapts(at, *position, table, counts) {
            walker.forget(at.asid);
            *dropped += l1.iter_mut().map(|level| level.drop_space(at.asid, unfiltered)).sum::<u64>();
        }
        let (outcome, order) = self.miss(at, pte, by, table);
        let size = self.second.for_first(at, order);
        let level = &mut self.l1[side(at.kind)];
        let order = level.fitting(size.order).expect("it has base pages");
        let before = self.counts.evictions;
        let filterable = level.fill((at.asid, at.vpn), page, Size { order, ..size }, &mut self.counts, unfiltered);
        if self.counts.evictions > before && self.takes(at.kind) {
            self.counts.evictions = before; // those of the level behind it count
        }
        if !self.additions.is_empty() {
            self.tell(table);
        }
        Answer { outcome, filterable }
    }
}

impl<S: SecondLevel + 'static> Tlb for Hierarchy<S> {
    fn access(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer {
        self.answer(at, pte, Guest::Tables, table, unfiltered)
    }

    fn invalidate(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        self.walker.forget(asid);
        let l1: u64 = self.l1.iter_mut().map(|level| level.drop_overlapping(asid, pages, 0, unfiltered)).sum();
        let behind = self.change(
            |second| second.drop_pages(asid, pages, false),
            |addition, account| addition.drop_pages(asid, pages, false, account),
        );
        self.counts.invalidations += l1 + behind;
    }

    fn invalidate_space(&mut self, asid: Asid, unfiltered: &mut Unfiltered) {
        self.walker.gone(asid);
        self.port.gone(asid);
        if let Some(tables) = &mut self.tables {
            tables.gone(asid, &mut self.counts);
        }
        let l1: u64 = self.l1.iter_mut().map(|level| level.drop_space(asid, unfiltered)).sum();
        let behind =
            self.change(|second| second.drop_space(asid), |addition, account| addition.drop_space(asid, account));
        self.counts.invalidations += l1 + behind;
    }

    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        let first = self.l1[side(kind)].probe(asid, vpn);
        let others = || self.additions.iter().find_map(|placed| placed.addition.probe(asid, vpn, kind));
        let behind = self.second.probe(asid, vpn, kind).or_else(others);
        debug_assert!(
            first.is_none() || behind.is_none_or(|t| Some(t) == first),
            "{asid:?} {vpn:?}: the levels disagree"
        );
        first.or(behind)
    }

    /// First levels, data before fetch side, then the second level and the additions; slots are numbered on.
    fn entries(&self) -> Vec<EntryView> {
        self.entries_in(0..usize::MAX)
    }

    fn entries_in(&self, slots: Range<usize>) -> Vec<EntryView> {
        let (mut views, mut before) = (Vec::new(), 0);
        let mut list = |many: usize, add: &dyn Fn(usize, &mut Vec<EntryView>)| {
            if slots.start < before + many && before < slots.end {
                add(before, &mut views);
            }
            before += many;
        };
        self.l1.iter().for_each(|level| list(level.entries(), &|at, into| level.views(at, into)));
        list(self.second.entries(), &|at, into| self.second.views(at, into));
        for Placed { addition, .. } in &self.additions {
            list(addition.entries(), &|at, into| addition.views(at, into));
        }
        views.retain(|view| slots.contains(&view.slot));
        views
    }

    fn counts(&self) -> &TlbCounts {
        &self.counts
    }
}

/// Counts a lookup that the next level answered.
pub(in crate::tlb) fn count_second_level_hit(counts: &mut TlbCounts, kind: Kind) {
    match kind {
        Kind::Fetch => counts.second_level_fetch_hits += 1,
        Kind::Load | Kind::Store => counts.second_level_data_hits += 1,
    }
}

/// Bytes that the first level for data maps at best, or a second level of page TLBs.
pub(in crate::tlb) fn reach(params: &Params) -> u64 {
    let of = |key: &Key| if params.has(key.name) { level::reach(params, key.name) } else { 0 };
    of(&L1D).max(of(&L2))
}
