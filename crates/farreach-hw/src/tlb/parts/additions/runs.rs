//! A fully associative coalesced TLB (CoLT-FA, Pham et al., MICRO 2012) beside a second level of page TLBs.
//!
//! An entry is a run: pages in consecutive frames with equal attributes, as many as there are up to a limit. A miss
//! reads a line of the page table anyway; the pages of it that make a run with the one that missed are filled together,
//! and a run that touches an existing one joins it. So entries grow, line by line, far beyond one line. Superpages
//! share the array, an entry each, and join nothing.

use super::{Account, Addition, By, Context, ListedAddition, Miss};
use crate::tlb::contract::{EntryView, Lookup};
use crate::tlb::keys::SEED;
use crate::tlb::parts::hierarchy::count_second_level_hit;
use crate::tlb::parts::hierarchy::host::{self, Entries};
use crate::tlb::parts::hierarchy::nodes::RADIX;
use crate::tlb::parts::hierarchy::walk::leaf_level;
use crate::tlb::parts::spans::{Span, Spans};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{PageTableView, Pte, Range, Translation};

/// log2 of the page table entries in a line of 64 bytes.
const LINE: u32 = 3;

/// Entries.
pub const RUN_ENTRIES: Key = Key {
    name: "run_entries",
    default: "8",
    allowed: Allowed::Int { min: 1, max: 4096 },
    about: "entries of the coalesced TLB, fully associative, each for a run of pages or a superpage",
};
/// Width of the field for the length.
pub const RUN_PAGES: Key = Key {
    name: "run_pages",
    default: "1024",
    allowed: Allowed::PowerOfTwo { min: 2, max: 1 << 20 },
    about: "pages of a run at most: what touches joins no further",
};
/// Its place in the hierarchy.
pub const RUN_ORDER: Key = Key {
    name: "run_order",
    default: "parallel",
    allowed: Allowed::OneOf(&["parallel", "first"]),
    about: "coalesced TLB beside the second level (parallel), or asked before the first level, which then need not \
            answer (first)",
};
/// On by default, since the small array evicts runs soon.
pub const RUN_FILLS_L2: Key = Key {
    name: "run_fills_l2",
    default: "true",
    allowed: Allowed::Flag,
    about: "a page that was walked for is filled into the second level too where it is part of a run",
};

/// COL-1, COL-2.
pub const RUN_BEYOND: Key = Key {
    name: "run_beyond",
    default: "1",
    allowed: Allowed::PowerOfTwo { min: 1, max: 1 << LINE },
    about: "base pages whose run in the line of the page table lies in one aligned group of this size are left to the \
            second level; 1: none are, so that single pages can join a run too",
};

/// The addition as the registry knows it.
pub const LISTED: ListedAddition = ListedAddition {
    name: "runs",
    about: "a fully associative TLB of runs that grow and join (CoLT-FA)",
    keys: &[&RUN_ENTRIES, &RUN_PAGES, &RUN_ORDER, &RUN_FILLS_L2, &RUN_BEYOND],
    check: |params| host::check(params, "behind = runs", Entries::Runs),
    keeps_tlbs: |_| false,
    build: |params, _| Ok(Box::new(Coalesced::new(params)?)),
    ..ListedAddition::NEW
};

/// Bytes that all entries map at most.
pub(in crate::tlb) fn reach(params: &Params) -> u64 {
    (params.int(RUN_ENTRIES.name) * params.int(RUN_PAGES.name)) << 12
}

/// The number of translations that an entry counts as.
fn translations(span: &Span) -> u64 {
    if span.order > 0 { 1 } else { span.range.pages }
}

/// The pages of its line that make a run with this page, as far as these are wanted.
fn run_in_line(
    (asid, vpn): (Asid, Vpn),
    page: Translation,
    table: &dyn PageTableView,
    wanted: impl Fn(u64) -> bool,
) -> Range {
    let line = vpn.align_down(LINE).0;
    let joins = |v: &u64| {
        let pte = table.pte(asid, Vpn(*v));
        pte.is_some_and(|p| p.pfn.0.wrapping_sub(page.pfn.0) == v.wrapping_sub(vpn.0) && p.attr == page.attr)
            && wanted(*v)
    };
    let before = (line..vpn.0).rev().take_while(joins).count() as u64;
    let after = (vpn.0 + 1..line + (1 << LINE)).take_while(joins).count() as u64;
    Range { first: Vpn(vpn.0 - before), pages: before + 1 + after, pfn: Pfn(page.pfn.0 - before), attr: page.attr }
}

/// The array. Runs are spans of order 0.
struct Runs {
    spans: Spans,
    most_pages: u64,
}

impl Runs {
    /// The translation of a page, and the order of its entry, changing nothing.
    fn probe(&self, asid: Asid, vpn: Vpn) -> Option<(Translation, u8)> {
        let span = self.spans.get(self.spans.find(asid, vpn)?)?;
        Some((span.range.translate(vpn), span.order))
    }

    fn lookup(&mut self, asid: Asid, vpn: Vpn) -> Option<(Translation, u8)> {
        let slot = self.spans.find(asid, vpn)?;
        self.spans.touch(slot);
        let span = self.spans.get(slot)?;
        Some((span.range.translate(vpn), span.order))
    }

    /// The pages of its line that make a run with this page and are in no entry.
    fn run_in_line(&self, (asid, vpn): (Asid, Vpn), page: Translation, table: &dyn PageTableView) -> Range {
        run_in_line((asid, vpn), page, table, |v| self.spans.find(asid, Vpn(v)).is_none())
    }

    /// The slot of a run that this one continues, or that continues it, so that together they are not too long.
    fn neighbour(&self, asid: Asid, run: &Range, before: bool) -> Option<usize> {
        let joins = |other: &Span| {
            let (low, high) = if before { (&other.range, run) } else { (run, &other.range) };
            other.asid == asid
                && other.order == 0
                && low.first.0 + low.pages == high.first.0
                && low.pfn.0 + low.pages == high.pfn.0
                && low.attr == high.attr
                && low.pages + high.pages <= self.most_pages
        };
        self.spans.find_all(joins).next()
    }

    /// Adds a run, which joins runs that touch it: first the one before it, then the one after it. `false`: it is a
    /// single page, and was not added.
    fn fill(&mut self, asid: Asid, mut run: Range, counts: &mut TlbCounts) -> bool {
        let before = self.neighbour(asid, &run, true);
        let pages = run.pages;
        if let Some(low) = before.and_then(|slot| self.spans.get(slot)) {
            run = Range { pages: low.range.pages + run.pages, ..low.range };
        }
        let after = self.neighbour(asid, &run, false);
        if let Some(high) = after.and_then(|slot| self.spans.get(slot)) {
            run.pages += high.range.pages;
        }
        match before.or(after) {
            Some(slot) => {
                counts.merges += 1;
                if let Some(gone) = after.filter(|_| before.is_some()) {
                    self.spans.drop(gone);
                }
                self.spans.grow(slot, run);
            }
            None if pages == 1 => return false,
            None => self.place(Span { asid, range: run, order: 0 }, counts),
        }
        counts.preloaded += pages - 1;
        true
    }

    /// Adds a superpage; runs that it covers are dropped.
    fn fill_superpage(&mut self, at: Lookup, page: Translation, order: u8, counts: &mut TlbCounts) {
        let shift = u32::from(order);
        let range = Range {
            first: at.vpn.align_down(shift),
            pages: 1 << shift,
            pfn: page.pfn.align_down(shift),
            attr: page.attr,
        };
        counts.covered_drops += self.spans.drop_where(|run| run.meets(at.asid, range.virtual_pages())).len() as u64;
        self.place(Span { asid: at.asid, range, order }, counts);
    }

    fn place(&mut self, span: Span, counts: &mut TlbCounts) {
        counts.evictions += u64::from(self.spans.place(span).1);
    }

    /// Drops entries whole and returns how many translations were dropped.
    fn drop_where(&mut self, goes: impl Fn(&Span) -> bool) -> u64 {
        self.spans.drop_where(goes).iter().map(translations).sum()
    }
}

/// The coalesced TLB.
struct Coalesced {
    runs: Runs,
    first: bool,
    fills_l2: bool,
    /// log2 of the pages of `run_beyond`.
    beyond: u32,
    process_ids: bool,
}

impl Coalesced {
    fn new(params: &Params) -> Result<Coalesced, String> {
        let seed = params.int(SEED.name).wrapping_add(64);
        Ok(Coalesced {
            runs: Runs {
                spans: Spans::new(params.int(RUN_ENTRIES.name), "replacement", params, seed)?,
                most_pages: params.int(RUN_PAGES.name),
            },
            first: params.text(RUN_ORDER.name) == "first",
            fills_l2: params.flag(RUN_FILLS_L2.name),
            beyond: params.int(RUN_BEYOND.name).trailing_zeros(),
            process_ids: params.flag("process_ids"),
        })
    }

    /// COL-1: whether the run of this page in its line, with pages that entries have already, lies in one aligned group
    /// of `run_beyond`.
    fn is_within_group(&self, (asid, vpn): (Asid, Vpn), page: Translation, table: &dyn PageTableView) -> bool {
        if self.beyond == 0 {
            return false;
        }
        let run = run_in_line((asid, vpn), page, table, |_| true);
        let last = Vpn(run.first.0 + run.pages - 1);
        run.first.align_down(self.beyond) == last.align_down(self.beyond)
    }
}

impl Addition for Coalesced {
    fn before(&mut self, at: Lookup, _: &mut TlbCounts) -> Option<Translation> {
        if !self.first {
            return None;
        }
        self.runs.lookup(at.asid, at.vpn).map(|(page, _)| page)
    }

    fn is_first(&self) -> bool {
        self.first
    }

    fn beside(
        &mut self,
        at: Lookup,
        _: Pte,
        page: Option<(Translation, u8)>,
        context: &mut Context,
    ) -> Option<(Translation, u8)> {
        if self.first {
            return None; // the runs were asked
        }
        let run = self.runs.lookup(at.asid, at.vpn);
        debug_assert!(run.is_none_or(|(r, _)| page.is_none_or(|(p, _)| p == r)), "AMB-86: {at:?}");
        if page.is_none() && run.is_some() {
            count_second_level_hit(context.counts, at.kind);
        }
        run
    }

    fn leaves_to_second(&mut self, miss: &Miss, _: By, order: u8, context: &mut Context) -> bool {
        let (at, page) = (miss.at, Translation { pfn: miss.pte.pfn, attr: miss.pte.attr });
        let taken = match leaf_level(order, RADIX) {
            0 if self.is_within_group((at.asid, at.vpn), page, context.table) => return true,
            0 => {
                let run = self.runs.run_in_line((at.asid, at.vpn), page, context.table);
                self.runs.fill(at.asid, run, context.counts)
            }
            _ => {
                self.runs.fill_superpage(at, page, order, context.counts);
                true
            }
        };
        !taken || self.fills_l2
    }

    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, demoted: bool, _: &mut Account) -> u64 {
        // After the split of a superpage the translations of base pages, of which runs are made, stay valid.
        self.runs.drop_where(|run| run.meets(asid, pages) && (!demoted || run.order > 0))
    }

    fn drop_space(&mut self, asid: Asid, _: &mut Account) -> u64 {
        self.runs.drop_where(|run| run.asid == asid)
    }

    fn switch(&mut self, to: Asid, _: &mut Account) -> u64 {
        if self.process_ids { 0 } else { self.runs.drop_where(|run| run.asid != to) }
    }

    fn probe(&self, asid: Asid, vpn: Vpn, _: Kind) -> Option<Translation> {
        self.runs.probe(asid, vpn).map(|(page, _)| page)
    }

    fn views(&self, before: usize, into: &mut Vec<EntryView>) {
        self.runs.spans.views(before, into);
    }

    fn entries(&self) -> usize {
        self.runs.spans.entries()
    }

    fn stands_for_second(&self) -> bool {
        true
    }
}
