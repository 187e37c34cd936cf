//! What a second level is.

use super::foresight::Foresight;
use super::level::Size;
use super::walker::Walker;
use crate::cache::Port;
use crate::tlb::contract::{EntryView, Lookup};
use crate::tlb::parts::additions::Victim;
use crate::tlb::parts::second_levels::ListedSecondLevel;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::{PAGE_SIZE, Params};
use farreach_types::translation::{PageTableView, Pte, Translation};
use std::ops::Range;

/// The level that answers misses of the first. It does not take part in filtering: it sees only such misses.
pub(in crate::tlb) trait SecondLevel: Send {
    /// Answers a miss of the first level: the translation, and the order of the entry that the first level gets.
    fn lookup(&mut self, at: Lookup, pte: Pte, counts: &mut TlbCounts, port: &mut Port) -> Option<(Translation, u8)>;
    /// The entry of a page that it misses as the page table shows it to this hardware, which may know superpages that
    /// others take for base pages.
    fn seen(&mut self, _at: Lookup, pte: Pte, _table: &dyn PageTableView) -> Pte {
        pte
    }
    /// What the first level gets of a mapping of `2^order` pages that this level, or a walk, found.
    fn for_first(&self, _at: Lookup, order: u8) -> Size {
        Size::whole(order)
    }
    /// Asked before each lookup, at this number of instructions: whether the system changed what entries mean, so that
    /// all of the process go (ANC-4). Its own it has dropped then. Returns where those of the first level count.
    fn adapts<'c>(
        &mut self,
        _at: Lookup,
        _position: u64,
        _table: &dyn PageTableView,
        _counts: &'c mut TlbCounts,
    ) -> Option<&'c mut u64> {
        None
    }
    /// A walk found the page in a mapping of `2^order` pages, or pages that can be taken for one. Returns the entry
    /// that it evicts.
    fn fill(
        &mut self,
        at: Lookup,
        page: Translation,
        order: u8,
        table: &dyn PageTableView,
        counts: &mut TlbCounts,
    ) -> Option<Victim>;
    /// Where it wants the address of the latest fetch before each lookup (HW-6), and the policy that needs it.
    fn pc(&mut self) -> Option<(&mut u64, &'static str)> {
        None
    }
    /// Its levels that must know what comes, in the order in which they are listed.
    fn foresights(&mut self) -> Vec<&mut Foresight> {
        Vec::new()
    }
    /// A page walk for a miss is over. Reads what the level wants beside the page's own entry (HW-7). The fill follows.
    fn walked(&mut self, _at: Lookup, _pte: Pte, _rest: &mut Rest) {}
    /// How it is listed, and where it keeps the place of its own counters in [`TlbCounts::parts`]; none: it has none.
    fn part(&mut self) -> Option<(&'static ListedSecondLevel, &mut usize)> {
        None
    }
    /// Whether this level serves lookups of this side, so that its evictions count.
    fn takes(&self, kind: Kind) -> bool;
    /// This function and the next two return how many translations were dropped.
    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, demoted: bool) -> u64;
    fn drop_space(&mut self, asid: Asid) -> u64;
    fn switch(&mut self, to: Asid) -> u64;
    /// The translation it would give, without regard to the first level.
    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation>;
    /// See [`Capabilities::set_bits`].
    fn set_bits(&self, _largest: u8) -> Result<Range<u32>, String> {
        Err("behind the first level it has an array whose entries are not in sets of pages".into())
    }
    /// Its entries, slots from `before` on.
    fn views(&self, before: usize, into: &mut Vec<EntryView>);
    /// All its slots.
    fn entries(&self) -> usize;
}

/// What a second level reads through after a walk ([`SecondLevel::walked`]).
pub(in crate::tlb) struct Rest<'a> {
    /// The operating system's page table.
    pub table: &'a dyn PageTableView,
    pub walker: &'a mut Walker,
    pub port: &'a mut Port,
    pub counts: &'a mut TlbCounts,
}

impl SecondLevel for Box<dyn SecondLevel> {
    fn lookup(&mut self, at: Lookup, pte: Pte, counts: &mut TlbCounts, port: &mut Port) -> Option<(Translation, u8)> {
        (**self).lookup(at, pte, counts, port)
    }
    fn seen(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView) -> Pte {
        (**self).seen(at, pte, table)
    }
    fn for_first(&self, at: Lookup, order: u8) -> Size {
        (**self).for_first(at, order)
    }
    fn adapts<'c>(
        &mut self,
        at: Lookup,
        position: u64,
        table: &dyn PageTableView,
        counts: &'c mut TlbCounts,
    ) -> Option<&'c mut u64> {
        (**self).adapts(at, position, table, counts)
    }
    fn fill(
        &mut self,
        at: Lookup,
        page: Translation,
        order: u8,
        table: &dyn PageTableView,
        counts: &mut TlbCounts,
    ) -> Option<Victim> {
        (**self).fill(at, page, order, table, counts)
    }
    fn pc(&mut self) -> Option<(&mut u64, &'static str)> {
        (**self).pc()
    }
    fn foresights(&mut self) -> Vec<&mut Foresight> {
        (**self).foresights()
    }
    fn walked(&mut self, at: Lookup, pte: Pte, rest: &mut Rest) {
        (**self).walked(at, pte, rest);
    }
    fn part(&mut self) -> Option<(&'static ListedSecondLevel, &mut usize)> {
        (**self).part()
    }
    fn takes(&self, kind: Kind) -> bool {
        (**self).takes(kind)
    }
    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, demoted: bool) -> u64 {
        (**self).drop_pages(asid, pages, demoted)
    }
    fn drop_space(&mut self, asid: Asid) -> u64 {
        (**self).drop_space(asid)
    }
    fn switch(&mut self, to: Asid) -> u64 {
        (**self).switch(to)
    }
    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        (**self).probe(asid, vpn, kind)
    }
    fn set_bits(&self, largest: u8) -> Result<Range<u32>, String> {
        (**self).set_bits(largest)
    }
    fn views(&self, before: usize, into: &mut Vec<EntryView>) {
        (**self).views(before, into);
    }
    fn entries(&self) -> usize {
        (**self).entries()
    }
}

/// Refuses virtual machines, several cores and larger base pages (HW-12), for a part that no rule defines there;
/// `part`: its key and value.
pub(in crate::tlb) fn check_native(params: &Params, part: &str) -> Result<(), String> {
    use super::host::GUEST;
    let refuse = |with: String, why: &str| Err(format!("{part} is not allowed with {with}: {why}"));
    let guest = params.text(GUEST.name);
    if guest != GUEST.default {
        return refuse(format!("guest = {guest}"), "it is not defined in virtual machines (HW-12); guest must be none");
    }
    check_one_core(params, part)
}

/// Refuses several cores and larger base pages (HW-12), for a part that no rule defines there.
pub(in crate::tlb) fn check_one_core(params: &Params, part: &str) -> Result<(), String> {
    use super::cores::CORES;
    let refuse = |with: String, why: &str| Err(format!("{part} is not allowed with {with}: {why}"));
    let cores = params.int(CORES.name);
    if cores > 1 {
        return refuse(format!("cores = {cores}"), "it is not defined on several cores (HW-12); cores must be 1");
    }
    if params.int(PAGE_SIZE.name) != 4096 {
        return refuse("such a page_size".into(), "its tables are those of x86-64; page_size must be 4K");
    }
    Ok(())
}
