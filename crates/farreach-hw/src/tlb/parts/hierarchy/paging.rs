//! The second level of page TLBs.

use super::cores::CORES;
use super::foresight::Foresight;
use super::host::GUEST;
use super::level::{Level, Size};
use super::walk::{leaf_level, radix};
use super::{SecondLevel, count_second_level_hit};
use crate::cache::Port;
use crate::tlb::contract::{EntryView, Lookup};
use crate::tlb::filter::Unfiltered;
use crate::tlb::parts::additions::Victim;
use crate::tlb::parts::store::geometry::{ALL_BITS, common};
use crate::tlb::parts::store::policies::{self, Access, L2_REPLACEMENT, Listed};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::{OwnCounts, TlbCounts};
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
    /// The policy that it does not share with the rest.
    policy: Option<&'static Listed>,
    /// The address of the latest fetch, if the policy needs it.
    pc: u64,
    ignored_report: Unfiltered,
}

/// Refuses machines for which the policy of the second level is not defined.
pub(in crate::tlb) fn check_replacement(params: &Params) -> Result<(), String> {
    let Some(policy) = policies::chosen(params) else { return Ok(()) };
    let refuse = |with: String, why: &str| {
        Err(format!("{} = {} is not allowed with {with}: {why}", L2_REPLACEMENT.name, policy.name))
    };
    let (guest, cores) = (params.text(GUEST.name), params.int(CORES.name));
    if !policy.everywhere && guest != GUEST.default {
        return refuse(format!("guest = {guest}"), "it is not defined in virtual machines (HW-12); guest must be none");
    }
    if !policy.everywhere && cores > 1 {
        return refuse(format!("cores = {cores}"), "it is not defined on several cores (HW-12); cores must be 1");
    }
    Ok(())
}

impl Paging {
    /// From the keys `l2`, `l2i` and `l2_fracture`, and `l2_replacement` with the keys of its policies if there is one.
    pub fn new(params: &Params) -> Result<Paging, String> {
        let seed = params.int("seed").wrapping_add(16);
        let policy = policies::chosen(params);
        let level = |key: &str, seed: u64| match policy {
            Some(policy) => Level::with_listed(params, key, seed, policy),
            None => Level::new(params, key, seed),
        };
        let fetch = match params.texts("l2i") == ["shared"] {
            true => FetchSide::Shared,
            false => FetchSide::Own(level("l2i", seed.wrapping_add(8))?),
        };
        let data = level("l2", seed)?;
        Ok(Paging {
            data,
            fetch,
            fracture: params.flag("l2_fracture"),
            radix: radix(params),
            policy,
            pc: 0,
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

impl SecondLevel for Paging {
    fn lookup(&mut self, at: Lookup, pte: Pte, counts: &mut TlbCounts, _: &mut Port) -> Option<(Translation, u8)> {
        if self.policy.is_some() {
            self.looked_up(at, pte.order);
        }
        let (level, ignored_report) = self.at_work(at.kind)?;
        let leaf = level.lookup(at.asid, at.vpn, ignored_report)?;
        count_second_level_hit(counts, at.kind);
        if self.policy.is_some() {
            self.count_own(&mut counts.replacement);
        }
        Some((leaf.translate(at.vpn), leaf.order))
    }

    fn fill(
        &mut self,
        at: Lookup,
        page: Translation,
        order: u8,
        _: &dyn PageTableView,
        counts: &mut TlbCounts,
    ) -> Option<Victim> {
        let victim = self.take(at, page, order, counts);
        if self.policy.is_some() {
            self.count_own(&mut counts.replacement);
        }
        victim
    }

    fn takes(&self, kind: Kind) -> bool {
        self.level(kind).is_some()
    }

    fn pc(&mut self) -> Option<(&mut u64, &'static str)> {
        let policy = self.policy.filter(|policy| policy.needs_pc)?;
        Some((&mut self.pc, policy.name))
    }

    fn foresights(&mut self) -> Vec<&mut Foresight> {
        self.levels().filter_map(Level::foresight).collect()
    }

    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, demoted: bool) -> u64 {
        self.each(|level, ignored_report| level.drop_overlapping(asid, pages, demoted.into(), ignored_report))
    }

    fn drop_space(&mut self, asid: Asid) -> u64 {
        self.each(|level, ignored_report| level.drop_space(asid, ignored_report))
    }

    fn switch(&mut self, to: Asid) -> u64 {
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

    fn entries(&self) -> usize {
        let own = match &self.fetch {
            FetchSide::Own(level) => level.as_ref(),
            FetchSide::Shared => None,
        };
        self.data.iter().chain(own).map(Level::entries).sum()
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
    fn take(&mut self, at: Lookup, page: Translation, order: u8, counts: &mut TlbCounts) -> Option<Victim> {
        let fit = self.fitting(at.kind, order)?;
        let (level, ignored_report) = self.at_work(at.kind)?;
        let evictions = counts.evictions;
        level.fill((at.asid, at.vpn), page, Size::whole(fit), counts, ignored_report);
        (counts.evictions > evictions).then(|| level.victim(fit))
    }

    /// The order of the entry of a page of a mapping of `2^order` pages; `None`: the level of this side holds none.
    fn fitting(&self, kind: Kind, order: u8) -> Option<u8> {
        let own = |fit: &u8| self.fracture || leaf_level(*fit, self.radix) == leaf_level(order, self.radix);
        self.level(kind)?.fitting(order).filter(own)
    }

    /// A lookup of a page of a mapping of `2^order` pages reaches its level, which the policy wants to know.
    #[cold]
    fn looked_up(&mut self, at: Lookup, order: u8) {
        let fit = self.fitting(at.kind, order);
        let access = Access { fetch: at.kind == Kind::Fetch, pc: self.pc, ..Access::default() };
        if let Some((level, _)) = self.at_work(at.kind) {
            level.looked_up((at.asid, at.vpn), fit, access);
        }
    }

    /// Writes what the policy has counted since the beginning.
    #[cold]
    fn count_own(&self, counts: &mut OwnCounts) {
        let Some(policy) = self.policy.filter(|policy| !policy.counters.is_empty()) else { return };
        counts.reset(policy.counters);
        let own = match &self.fetch {
            FetchSide::Own(level) => level.as_ref(),
            FetchSide::Shared => None,
        };
        self.data.iter().chain(own).for_each(|level| level.policy_counters(&mut |i, count| counts.add(i, count)));
    }
}
