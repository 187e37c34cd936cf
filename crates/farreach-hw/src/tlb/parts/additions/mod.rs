//! Additions to a hierarchy (HW-1): what answers, beside the second level or behind it, misses of the first level. A
//! file each, and a line in the registry at the end of this one.
//!
//! A lookup goes through the parts in this order (HW-2): additions in front, the first level, the second level with the
//! additions beside it, the additions behind it in the order of the machine's list, the walk. An addition behind the
//! second level that answers fills the TLBs as a walk would have done (HW-3), so that the rest of the machine does not
//! notice it. One addition can have several of these places.

mod speculation;
#[cfg(test)]
pub(in crate::tlb) mod tests;

use super::hierarchy::host::GUEST;
use super::hierarchy::level::Level;
use super::hierarchy::walker::Walker;
use super::hierarchy::{SecondLevel, check_native, check_one_core};
use super::tables::{Tables, Walked};
use crate::cache::{Begins, Port, Purpose};
use crate::tlb::contract::{EntryView, Lookup};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::{MemoryCounts, OwnCounts, PartCounts, TlbCounts};
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{PageTableView, Pte, Translation};
use std::ops::Range;

/// The additions of a machine, in the order in which they are asked (HW-2).
pub const BEHIND: Key = Key {
    name: "behind",
    default: NONE,
    allowed: Allowed::Texts,
    about: "additions behind the second level, in the order in which a miss asks them, joined by +; none: the page \
            table is walked at once",
};

/// The value of [`BEHIND`] without additions.
const NONE: &str = "none";

/// Share of its latency that a background reference costs (HW-7).
pub const BACKGROUND_WEIGHT: Key = Key {
    name: "background_weight",
    default: "0",
    allowed: Allowed::Number { min: 0.0, max: 1.0 },
    about: "share of its latency that a reference costs which additions or tables make while the program runs on",
};

/// A lookup that the first and second level did not answer (HW-2).
#[derive(Clone, Copy, Debug)]
pub(in crate::tlb) struct Miss {
    /// The lookup.
    pub at: Lookup,
    /// The page table entry of its page, in a virtual machine the guest's.
    pub pte: Pte,
    /// log2 of the base pages of the largest entry for it: in a virtual machine also as large as the host allows.
    pub order: u8,
    /// The address of the latest fetch of its thread (HW-6), and the number of instructions so far (HW-8); 0 for
    /// additions that do not need them.
    pub pc: u64,
    /// See `pc`.
    pub position: u64,
}

/// The entry that the fill of a miss evicted from the second level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tlb) struct Victim {
    pub asid: Asid,
    /// Its first page.
    pub vpn: Vpn,
    /// log2 of its pages.
    pub order: u8,
}

/// What answered a miss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tlb) enum By {
    /// The page table.
    Walk,
    /// The addition at this place of the machine's list.
    Addition(usize),
}

/// The rest of the machine, as an addition sees it during a lookup.
pub(in crate::tlb) struct Context<'a> {
    /// The operating system's page table.
    pub table: &'a dyn PageTableView,
    /// Data, fetch side.
    pub l1: &'a [Level; 2],
    pub second: &'a mut dyn SecondLevel,
    pub walker: &'a mut Walker,
    /// The page table, if it is not a radix tree.
    pub tables: Option<&'a mut Tables>,
    pub port: &'a mut Port,
    pub counts: &'a mut TlbCounts,
    /// The place of the addition in the machine's list, and that of its counters in [`TlbCounts::parts`].
    pub place: usize,
    pub part: usize,
}

impl Context<'_> {
    /// The addition's counters, by their places in [`ListedAddition::counters`].
    #[inline]
    pub fn own(&mut self) -> &mut OwnCounts {
        &mut self.counts.parts.at(self.part).counters
    }

    /// One step of references of the addition's own (HW-7). Returns the level that answered the slowest, if known.
    pub fn step(&mut self, purpose: Purpose, addresses: &[u64]) -> Option<crate::cache::At> {
        self.port.step(purpose, addresses, &mut self.counts.parts.at(self.part).memory)
    }

    /// As [`Context::step`], from this cache level on.
    pub fn step_from(&mut self, begins: Begins, purpose: Purpose, addresses: &[u64]) {
        self.port.step_from(begins, purpose, addresses, &mut self.counts.parts.at(self.part).memory);
    }

    /// Where a change would count.
    pub fn account(&mut self) -> Account<'_> {
        Account { counts: self.counts, port: self.port, part: self.part }
    }

    /// Its own references to memory.
    pub fn memory(&mut self) -> &mut MemoryCounts {
        &mut self.counts.parts.at(self.part).memory
    }

    /// Walks the page table for a page in the background (PB-7), mapped or not, on the addition's account. Never
    /// faults; ends at the first node that is absent.
    pub fn walk_ahead(&mut self, asid: Asid, vpn: Vpn) -> Walked {
        self.walk_behind(asid, vpn, true)
    }

    /// As [`Context::walk_ahead`], but the walk caches are not filled.
    pub fn walk_aside(&mut self, asid: Asid, vpn: Vpn) -> Walked {
        self.walk_behind(asid, vpn, false)
    }

    fn walk_behind(&mut self, asid: Asid, vpn: Vpn, fills: bool) -> Walked {
        let memory: &mut MemoryCounts = &mut self.counts.parts.at(self.part).memory;
        match &mut self.tables {
            Some(tables) => tables.walk_ahead((asid, vpn), self.table, self.port, memory),
            None => self.walker.walk_ahead((asid, vpn), (Purpose::Background, fills), self.table, self.port, memory),
        }
    }

    /// Whether the first level of this side holds the page; changes nothing.
    pub fn in_first(&self, asid: Asid, vpn: Vpn, kind: Kind) -> bool {
        self.l1[usize::from(kind == Kind::Fetch)].probe(asid, vpn).is_some()
    }

    /// Whether the second level of this side holds the page; changes nothing.
    pub fn in_second(&self, asid: Asid, vpn: Vpn, kind: Kind) -> bool {
        self.second.probe(asid, vpn, kind).is_some()
    }

    /// Fills a mapped page into the second level, as a walk does, but not into the first.
    pub fn fill_second(&mut self, at: Lookup, pte: Pte) -> Option<Victim> {
        let page = Translation { pfn: pte.pfn, attr: pte.attr };
        let merges = self.counts.merges;
        let victim = self.second.fill(at, page, pte.order, self.table, self.counts);
        self.counts.merges = merges; // of misses alone
        victim
    }
}

/// An addition. Everything but its entries has a default, for additions that have no such place or do not care.
pub(in crate::tlb) trait Addition: Send {
    /// Answers in front of the first level, which is then left alone (F-6).
    fn before(&mut self, _at: Lookup, _counts: &mut TlbCounts) -> Option<Translation> {
        None
    }
    /// Whether [`Addition::before`] takes part in every lookup, so that none may be filtered.
    fn is_first(&self) -> bool {
        false
    }
    /// Answers beside the second level, which has answered the miss of the first already, or not: `page` is its answer,
    /// so this is also where an addition sees its hits. The answer, with the order of the entry that the first level
    /// gets, fills the first level only. It counts if nothing else answered.
    fn beside(
        &mut self,
        _at: Lookup,
        _pte: Pte,
        _page: Option<(Translation, u8)>,
        _context: &mut Context,
    ) -> Option<(Translation, u8)> {
        None
    }
    /// A last-level miss that no addition before it in the list answered. What it answers fills both levels (HW-3).
    fn missed(&mut self, _miss: &Miss, _context: &mut Context) -> Option<Translation> {
        None
    }
    /// A last-level miss was answered: the page is in a mapping of `2^order` pages, or pages that can be taken for one.
    /// Returns whether the second level is to hold it. All additions are asked, and one that says no is enough.
    fn leaves_to_second(&mut self, _miss: &Miss, _by: By, _order: u8, _context: &mut Context) -> bool {
        true
    }
    /// After the fill of both levels at a last-level miss (HW-2), answered by a walk or an addition. `victim`: what the
    /// second level evicted for it. [`Context::in_second`] says whether the page is there now: it is not if an
    /// addition kept it out, or if the level has no entries for pages of its size.
    fn filled(&mut self, _miss: &Miss, _by: By, _victim: Option<Victim>, _context: &mut Context) {}
    /// The mappings of these pages changed, or were split if `demoted` (HW-9). This and the next two return how many
    /// translations were dropped that count among [`TlbCounts::invalidations`]; those that it counts itself do not.
    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, demoted: bool, counts: &mut Account) -> u64;
    /// The address space ended.
    fn drop_space(&mut self, asid: Asid, counts: &mut Account) -> u64;
    /// Another process runs.
    fn switch(&mut self, to: Asid, counts: &mut Account) -> u64;
    /// The caches evicted lines that belong to additions (VIC-1).
    fn lost_lines(&mut self, _account: &mut Account) {}
    /// The translation it would give, without regard to the levels.
    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation>;
    /// Its entries, slots from `before` on.
    fn views(&self, before: usize, into: &mut Vec<EntryView>);
    /// All its slots.
    fn entries(&self) -> usize;
    /// Whether its evictions count, as those of the second level do, so that those of the first level do not.
    fn stands_for_second(&self) -> bool {
        false
    }
    /// See [`crate::tlb::Capabilities::set_bits`].
    fn set_bits(&self, _largest: u8) -> Result<Range<u32>, String> {
        Err("behind the first level it has an array whose entries are not in sets of pages".into())
    }
}

/// Where an addition counts what a change does to it.
pub(in crate::tlb) struct Account<'a> {
    pub counts: &'a mut TlbCounts,
    pub port: &'a mut Port,
    /// The place of its counters in [`TlbCounts::parts`].
    pub part: usize,
}

impl Account<'_> {
    /// Its own counters.
    pub fn own(&mut self) -> &mut OwnCounts {
        &mut self.counts.parts.at(self.part).counters
    }

    /// References in the background, from this cache level on.
    pub fn step_from(&mut self, begins: Begins, addresses: &[u64]) {
        let memory = &mut self.counts.parts.at(self.part).memory;
        self.port.step_from(begins, Purpose::Background, addresses, memory);
    }
}

/// A counter of a part.
#[derive(Clone, Copy)]
pub struct Counter {
    /// Its name in results.
    pub name: &'static str,
    /// What it counts, in a line.
    pub about: &'static str,
    /// The key with the cycles that each costs; none: it has no price of its own.
    pub price: Option<&'static Key>,
}

impl Counter {
    /// A counter without a price.
    pub const fn new(name: &'static str, about: &'static str) -> Counter {
        Counter { name, about, price: None }
    }
}

/// A law that the counts of a part keep after any history: its name, and how much it is off on both sides.
#[derive(Clone, Copy)]
pub struct Law {
    /// Its name, such as PB-10.
    pub name: &'static str,
    /// What must be equal.
    pub sides: fn(&PartCounts, &TlbCounts) -> (u64, u64),
}

/// See [`ListedAddition`].
type Build = fn(&Params, u64) -> Result<Box<dyn Addition>, String>;

/// An addition as the registry knows it.
pub struct ListedAddition {
    /// Value of [`BEHIND`].
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// The keys it reads.
    pub keys: &'static [&'static Key],
    /// Counters of its own, in `counts.parts.NAME`.
    pub counters: &'static [Counter],
    /// The counter of misses that it alone answered (HW-L1), if it answers any.
    pub answers: Option<&'static str>,
    /// Laws that its counts keep.
    pub laws: &'static [Law],
    /// Whether the TLBs have the same entries with it as without (HW-3).
    pub keeps_tlbs: fn(&Params) -> bool,
    /// The key and value for which it needs the program counter and the number of instructions, if it does. Machines
    /// with `walk_cost = caches`, which do not know them, are then refused.
    pub needs_fetches: fn(&Params) -> Option<String>,
    /// Refuses machines for which it is not defined, and sizes that are not possible (HW-13); the error says why.
    pub check: fn(&Params) -> Result<(), String>,
    /// Builds it; the seed is its own. The error names key, value and what is allowed.
    pub(in crate::tlb) build: Build,
}

impl ListedAddition {
    /// What entries have if they do not say otherwise.
    const NEW: ListedAddition = ListedAddition {
        name: "",
        about: "",
        keys: &[],
        counters: &[],
        answers: None,
        laws: &[],
        keeps_tlbs: |_| true,
        needs_fetches: |_| None,
        check: only_native,
        build: |_, _| Err(String::new()),
    };
}

/// Refuses virtual machines, several cores and larger base pages (HW-12), for additions that no rule defines there.
fn only_native(params: &Params) -> Result<(), String> {
    check_native(params, &shown(params))
}

/// Refuses several cores, larger base pages, and guests with segments (HW-12), for additions that a rule defines where
/// both dimensions are walked.
fn native_or_nested(params: &Params) -> Result<(), String> {
    let guest = params.text(GUEST.name);
    if ![GUEST.default, "walk"].contains(&guest) {
        return Err(format!(
            "{} is not allowed with guest = {guest}: of virtual machines only those with two page tables are defined \
             (POM-6, SPO-4); guest must be none or walk",
            shown(params)
        ));
    }
    check_one_core(params, &shown(params))
}

/// The key of the additions with its value, for messages.
fn shown(params: &Params) -> String {
    format!("{} = {}", BEHIND.name, params.texts(BEHIND.name).join("+"))
}

/// The additions of a machine, in order: those that its kind always has, and those of its list.
pub(in crate::tlb) fn chosen(
    params: &Params,
    always: &[&'static ListedAddition],
) -> Result<Vec<&'static ListedAddition>, String> {
    let mut all = always.to_vec();
    if !params.has(BEHIND.name) {
        return Ok(all);
    }
    let names = params.texts(BEHIND.name);
    for name in names.iter().filter(|name| names.len() > 1 || *name != NONE) {
        let refuse = |why: String| format!("{} is not allowed: {why}", shown(params));
        let listed = ADDITIONS.iter().copied().find(|listed| listed.name == name).ok_or_else(|| {
            let all: Vec<_> = ADDITIONS.iter().map(|listed| listed.name).collect();
            let meant = farreach_types::suggest::did_you_mean(name, all.iter().copied());
            refuse(format!("'{name}' is none of the additions, {}{meant}", all.join(", ")))
        })?;
        if all.iter().any(|other| other.name == listed.name) {
            return Err(refuse(format!("{name} is there twice")));
        }
        (listed.check)(params)?;
        all.push(listed);
    }
    Ok(all)
}

/// The additions that a result has counts of, by name.
pub fn listed(name: &str) -> Option<&'static ListedAddition> {
    ADDITIONS.iter().copied().find(|listed| listed.name == name)
}

/// Makes the registry.
macro_rules! additions {
    ($($module:ident,)*) => {
        $(pub mod $module;)*

        /// All additions. A new one is one file here and one line at the end of `additions/mod.rs`.
        pub const ADDITIONS: &[&ListedAddition] = &[$(&$module::LISTED),*];
    };
}

additions! {
    range,
    runs,
    pom,
    victima,
    spectlb,
    spot,
    dppred,
    asap,
    tps,
    prefetch,
    utopia,
}
