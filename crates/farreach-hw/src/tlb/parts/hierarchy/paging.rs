//! The second level of page TLBs.

use super::level::Level;
use super::walk::{leaf_level, radix};
use super::{NextLevel, count_second_level_hit};
use crate::tlb::contract::{EntryView, Lookup};
use crate::tlb::filter::Unfiltered;
use crate::tlb::parts::store::geometry::{ALL_BITS, common};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{PageTableView, Pte, Translation};
use std::ops::Range;

/// The level that answers fetches behind the first.
enum FetchSide {
    Shared,
    Own(Option<Level>),
}

/// The second level of page TLBs.
pub(in crate::tlb) struct Paging {
    data: Option<Level>,
    fetch: FetchSide,
    fracture: bool,
    /// log2 of the entries of a page table's node.
    radix: u8,
    ignored_report: Unfiltered,
}

impl Paging {
    /// From the keys `l2`, `l2i` and `l2_fracture`.
    pub fn new(params: &Params) -> Result<Paging, String> {
        let seed = params.int("seed").wrapping_add(16);
        let fetch = match params.texts("l2i") == ["shared"] {
            true => FetchSide::Shared,
            false => FetchSide::Own(Level::new(params, "l2i", seed.wrapping_add(8))?),
        };
        let data = Level::new(params, "l2", seed)?;
        Ok(Paging {
            data,
            fetch,
            fracture: params.flag("l2_fracture"),
            radix: radix(params),
            ignored_report: Unfiltered::unread(),
        })
    }

    fn level(&self, kind: Kind) -> Option<&Level> {
        match &self.fetch {
            FetchSide::Own(level) if kind == Kind::Fetch => level.as_ref(),
            _ => self.data.as_ref(),
        }
    }

    fn levels(&mut self) -> impl Iterator<Item = &mut Level> {
        let own = match &mut self.fetch {
            FetchSide::Own(level) => level.as_mut(),
            FetchSide::Shared => None,
        };
        self.data.iter_mut().chain(own)
    }

    fn each(&mut self, mut f: impl FnMut(&mut Level, &mut Unfiltered) -> u64) -> u64 {
        let mut ignored_report = std::mem::take(&mut self.ignored_report);
        let sum = self.levels().map(|level| f(level, &mut ignored_report)).sum();
        self.ignored_report = ignored_report;
        sum
    }

    /// The level for this side, and a report for it.
    fn at_work(&mut self, kind: Kind) -> Option<(&mut Level, &mut Unfiltered)> {
        let level = match &mut self.fetch {
            FetchSide::Own(level) if kind == Kind::Fetch => level.as_mut(),
            _ => self.data.as_mut(),
        };
        level.map(|level| (level, &mut self.ignored_report))
    }
}

impl NextLevel for Paging {
    fn lookup(&mut self, at: Lookup, _: Pte, counts: &mut TlbCounts) -> Option<(Translation, u8)> {
        let (level, ignored_report) = self.at_work(at.kind)?;
        let leaf = level.lookup(at.asid, at.vpn, ignored_report)?;
        count_second_level_hit(counts, at.kind);
        Some((leaf.translate(at.vpn), leaf.order))
    }

    fn fill(&mut self, at: Lookup, page: Translation, order: u8, _: &dyn PageTableView, counts: &mut TlbCounts) {
        self.take(at, page, order, counts);
    }

    fn takes(&self, kind: Kind) -> bool {
        self.level(kind).is_some()
    }

    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, demoted: bool, _: &mut TlbCounts) -> u64 {
        self.each(|level, ignored_report| level.drop_overlapping(asid, pages, demoted.into(), ignored_report))
    }

    fn drop_space(&mut self, asid: Asid, _: &mut TlbCounts) -> u64 {
        self.each(|level, ignored_report| level.drop_space(asid, ignored_report))
    }

    fn switch(&mut self, to: Asid, _: &mut TlbCounts) -> u64 {
        self.each(|level, ignored_report| level.switch(to, ignored_report))
    }

    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        self.level(kind)?.probe(asid, vpn)
    }

    fn set_bits(&self, largest: u8) -> Result<Range<u32>, String> {
        [Kind::Load, Kind::Fetch]
            .into_iter()
            .filter_map(|kind| self.level(kind))
            .try_fold(ALL_BITS, |bits, level| common(bits, level.set_bits(largest)?))
    }

    /// The shared or data level, then that of fetches.
    fn views(&self, mut before: usize, into: &mut Vec<EntryView>) {
        let own = match &self.fetch {
            FetchSide::Own(level) => level.as_ref(),
            FetchSide::Shared => None,
        };
        for level in self.data.iter().chain(own) {
            level.views(before, into);
            before += level.entries();
        }
    }
}

impl Paging {
    /// Fills a page of a mapping of `2^order` pages, if it holds such pages.
    pub fn take(&mut self, at: Lookup, page: Translation, order: u8, counts: &mut TlbCounts) {
        let (fracture, radix) = (self.fracture, self.radix);
        let Some((level, ignored_report)) = self.at_work(at.kind) else { return };
        let own = |fit: &u8| fracture || leaf_level(*fit, radix) == leaf_level(order, radix);
        if let Some(fit) = level.fitting(order).filter(own) {
            level.fill((at.asid, at.vpn), page, fit, counts, ignored_report);
        }
    }

    /// All slots.
    pub fn entries(&self) -> usize {
        let own = match &self.fetch {
            FetchSide::Own(level) => level.as_ref(),
            FetchSide::Shared => None,
        };
        self.data.iter().chain(own).map(Level::entries).sum()
    }
}
