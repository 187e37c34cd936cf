//! A second level of page TLBs that all cores of a machine share (SLL-1, Bhattacharjee 2011): as many entries as those
//! of the cores together, behind first levels of their own. What one core filled is a hit for another of the same
//! process, and a change drops it once (SLL-2).
//!
//! Each core has a handle to the one level. First levels, walk caches and additions stay those of a core.

use super::cores::CORES;
use super::host::GUEST;
use super::keys::{L2, L2I};
use super::{Paging, SecondLevel};
use crate::cache::Port;
use crate::tlb::contract::{EntryView, Lookup};
use crate::tlb::keys::PROCESS_IDS;
use crate::tlb::parts::additions::Victim;
use crate::tlb::parts::second_levels::SECOND_LEVEL;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{PageTableView, Pte, Translation};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// SLL-1.
pub const L2_SHARED: Key = Key {
    name: "l2_shared",
    default: "false",
    allowed: Allowed::Flag,
    about: "one second-level TLB for all cores, with as many entries as theirs together; one core has its own \
            either way",
};
/// SLL-3. Slices that are found by the low bits of the page have the counts of one array: 1 cycle with the network of
/// NOCSTAR, 2 a hop on a mesh.
pub const SLL_EXTRA: Key = Key {
    name: "sll_extra",
    default: "0",
    allowed: Allowed::Number { min: 0.0, max: 1e12 },
    about: "cycles of the way to a shared second-level TLB and back, on top of those of a hit",
};

/// Cores that share a second level; 1: each has its own.
pub fn sharers(params: &Params) -> u64 {
    if params.has(L2_SHARED.name) && params.flag(L2_SHARED.name) { params.int(CORES.name) } else { 1 }
}

/// Times the written entries of the level of this key.
pub(super) fn times(params: &Params, key: &str) -> u64 {
    if [L2.name, L2I.name].contains(&key) { sharers(params) } else { 1 }
}

/// The level that the cores share, if they do. Refuses machines for which it is not defined.
pub(in crate::tlb) fn build(params: &Params) -> Result<Option<Shared>, String> {
    let cores = sharers(params);
    if cores == 1 {
        return Ok(None);
    }
    let refuse = |with: String, why: &str| {
        Err(format!("{} = true is not allowed with {with} and cores = {cores}: {why}", L2_SHARED.name))
    };
    let (guest, second) = (params.text(GUEST.name), params.text(SECOND_LEVEL.name));
    if guest != GUEST.default {
        return refuse(format!("guest = {guest}"), "it is not defined in virtual machines (HW-12); guest must be none");
    }
    if second != SECOND_LEVEL.default {
        let why = format!("it is defined for page TLBs (SLL-1); second_level must be {}", SECOND_LEVEL.default);
        return refuse(format!("second_level = {second}"), &why);
    }
    if !params.flag(PROCESS_IDS.name) {
        let why = "cores may run several processes at once, whose entries only process ids tell apart; process_ids \
                   must be true";
        return refuse("process_ids = false".into(), why);
    }
    let level = Paging::new(params)?;
    if level.entries() == 0 {
        return refuse("l2 = none".into(), "there is nothing to share; l2 must have entries, or l2_shared be false");
    }
    Ok(Some(Shared { level: Arc::new(Mutex::new(level)), lists: false }))
}

/// A handle to a second level.
pub(in crate::tlb) struct Shared {
    level: Arc<Mutex<Paging>>,
    /// Whether the entries are listed with this core: with the first, so that they are listed once.
    lists: bool,
}

impl Shared {
    /// The handle of a core.
    pub fn of(&self, core: usize) -> Shared {
        Shared { level: Arc::clone(&self.level), lists: core == 0 }
    }

    /// All cores run on one thread of the host, so there is no wait.
    fn level(&self) -> MutexGuard<'_, Paging> {
        self.level.lock().expect("a core panicked")
    }
}

/// Of a change, the first core that is told drops the entries, and the others find none.
impl SecondLevel for Shared {
    fn lookup(&mut self, at: Lookup, pte: Pte, counts: &mut TlbCounts, port: &mut Port) -> Option<(Translation, u8)> {
        self.level().lookup(at, pte, counts, port)
    }
    fn fill(
        &mut self,
        at: Lookup,
        page: Translation,
        order: u8,
        table: &dyn PageTableView,
        counts: &mut TlbCounts,
    ) -> Option<Victim> {
        self.level().fill(at, page, order, table, counts)
    }
    fn takes(&self, kind: Kind) -> bool {
        self.level().takes(kind)
    }
    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, demoted: bool) -> u64 {
        self.level().drop_pages(asid, pages, demoted)
    }
    fn drop_space(&mut self, asid: Asid) -> u64 {
        self.level().drop_space(asid)
    }
    /// Nothing: other processes run on other cores, and process ids tell their entries apart.
    fn switch(&mut self, _: Asid) -> u64 {
        0
    }
    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        self.level().probe(asid, vpn, kind)
    }
    fn set_bits(&self, largest: u8) -> Result<Range<u32>, String> {
        self.level().set_bits(largest)
    }
    fn views(&self, before: usize, into: &mut Vec<EntryView>) {
        if self.lists {
            self.level().views(before, into);
        }
    }
    fn entries(&self) -> usize {
        if self.lists { self.level().entries() } else { 0 }
    }
}
