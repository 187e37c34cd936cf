//! Foresight: when an entry will be used next, for policies that choose by it (REP-1).
//!
//! The lookups of a second level do not depend on what it holds, where the first level is filled at each of its misses
//! with the same entry, whichever part answered. So two passes over a stream have equal lookups. The first notes, for
//! each, the number of the next lookup of its entry; the second tells the policy. A change that drops the entries of a
//! page ends its uses, whether the entry was there or not.

use super::keys::{COALESCE, L1D, L1I, L2, L2_FRACTURE, L2I};
use super::level::{Level, array_shapes};
use super::walk::{leaf_level, radix};
use crate::tlb::future::{NEVER, Use, Uses};
use crate::tlb::parts::additions::ListedAddition;
use crate::tlb::parts::store::policies::{self, opt::OPT_MEMORY};
use crate::tlb::parts::tables::mix;
use farreach_types::addr::{Asid, Bytes, Vpn, VpnRange};
use farreach_types::params::Params;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Refuses machines whose lookups of the second level depend on what it holds, if its policy needs foresight. The
/// additions are those of the machine.
pub(in crate::tlb) fn check(params: &Params, additions: &[&ListedAddition]) -> Result<(), String> {
    let Some(policy) = policies::foresees(params) else { return Ok(()) };
    let refuse = |with: String, why: &str| Err(format!("{policy} is not allowed with {with}: {why}"));
    if let Some(other) = additions.iter().find(|addition| !(addition.keeps_tlbs)(params)) {
        let why = "it decides what the TLBs hold, so that lookups of the second level are not the same under all \
                   policies (REP-1)";
        return refuse(format!("the addition {}", other.name), why);
    }
    if params.int(COALESCE.name) > 1 << params.page_shift() {
        let why = "what joins depends on when a page is walked to (REP-1); coalesce must be off";
        return refuse(format!("coalesce = {}", Bytes(params.int(COALESCE.name))), why);
    }
    for (first, second) in [(&L1D, &L2), (&L1I, if params.texts(L2I.name) == ["shared"] { &L2 } else { &L2I })] {
        let orders = |key: &str| -> Result<Vec<u8>, String> {
            let mut orders: Vec<u8> = array_shapes(params, key)?.into_iter().flat_map(|array| array.orders).collect();
            orders.sort_unstable();
            Ok(orders)
        };
        let (held, level) = (orders(second.name)?, |order: u8| leaf_level(order, radix(params)));
        for order in orders(first.name)? {
            let fit = held.iter().rev().find(|&&other| other <= order);
            let in_pieces = |fit: &u8| params.flag(L2_FRACTURE.name) || level(*fit) == level(order);
            if let Some(fit) = fit.filter(|&&fit| fit < order && in_pieces(&fit)) {
                let size = |order: u8| Bytes(1 << (params.page_shift() + u32::from(order)));
                return refuse(
                    format!("{} = {}", first.name, params.texts(first.name).join("+")),
                    &format!(
                        "pages of {} are in {} in pieces of {}, so that what the first level gets depends on where \
                         they are found (REP-1); {} must have them, or {} not",
                        size(order),
                        second.name,
                        size(*fit),
                        second.name,
                        first.name
                    ),
                );
            }
        }
    }
    Ok(())
}

/// By entry, as [`key`] has it, the number of its last lookup.
type Last = HashMap<u64, u32, FixedState>;

/// An entry: its group of pages, and their order, below 64.
fn key(vpn: Vpn, order: u8) -> u64 {
    (vpn.0 >> order) << 6 | u64::from(order)
}

/// See the module. Of one level.
pub(in crate::tlb) struct Foresight {
    uses: Uses,
    /// Lookups so far.
    at: u32,
    /// In the first pass: entries in use, by process. An entry is in use from its first lookup until a change drops it.
    last: Option<HashMap<Asid, Last, FixedState>>,
    /// The orders of the entries of the level.
    orders: Vec<u8>,
    process_ids: bool,
    /// log2 of the bytes of a base page.
    page_shift: u32,
    /// Bytes of the uses at most.
    memory: u64,
    failure: Option<String>,
}

/// Bytes of a lookup.
const EACH: u64 = size_of::<Use>() as u64;

impl Foresight {
    pub fn new(params: &Params, orders: Vec<u8>) -> Foresight {
        Foresight {
            uses: Uses::default(),
            at: 0,
            last: Some(HashMap::default()),
            orders,
            process_ids: params.flag("process_ids"),
            page_shift: params.page_shift(),
            memory: params.size(OPT_MEMORY.name).unwrap_or(u64::MAX),
            failure: None,
        }
    }

    /// What it has learned in the first pass.
    pub fn learned(&mut self) -> Uses {
        std::mem::take(&mut self.uses)
    }

    /// The second pass begins.
    pub fn knows(&mut self, uses: Uses) {
        (self.uses, self.last) = (uses, None);
    }

    /// Why it cannot go on.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// A lookup of a page that would be filled as an entry of this order; `None`: it would not be filled. Returns the
    /// number of the next lookup of that entry, in the second pass.
    pub fn looked_up(&mut self, (asid, vpn): (Asid, Vpn), order: Option<u8>) -> u32 {
        if self.failure.is_some() {
            return NEVER;
        }
        let tag = order.map_or(!vpn.0, |order| key(vpn, order));
        let check = mix(tag, asid.0.into()) as u32;
        let at = self.at;
        let Some(last) = &mut self.last else {
            let Use { next, check: before } = self.uses.get(at);
            if check != before {
                self.failure = Some(format!(
                    "the second of two passes differs from the first at lookup {at} of the second level, of page \
                     {:#x}: \
                     both must read the same",
                    vpn.0
                ));
            }
            self.at += 1;
            return next;
        };
        // Ahead of the last number, which stands for none.
        if u64::from(at) >= (self.memory / EACH).min(NEVER.into()) {
            self.failure = Some(format!(
                "{} = {} is not enough: the first of two passes has noted {at} lookups of the second level, {EACH} \
                 bytes \
                 each; {} must be larger, or the run shorter",
                OPT_MEMORY.name,
                Bytes(self.memory),
                OPT_MEMORY.name
            ));
            return NEVER;
        }
        self.uses.push(at, Use { next: NEVER, check });
        self.at += 1;
        let last = last.entry(asid).or_default();
        let before = order.and_then(|_| last.insert(tag, at));
        match before {
            Some(before) => self.uses.at(before).next = at,
            None => {
                if let Some(other) = self.orders.iter().find(|&&other| overlaps(last, vpn, order, other)) {
                    self.failure = Some(overlap((asid, vpn), order, *other, self.page_shift));
                }
            }
        }
        NEVER
    }

    /// Entries of at least `from` that share a page with the range are dropped.
    pub fn dropped(&mut self, asid: Asid, range: VpnRange, from: u8) {
        let Some(last) = self.last.as_mut().and_then(|last| last.get_mut(&asid)).filter(|_| range.pages > 0) else {
            return;
        };
        let end = range.start.0.saturating_add(range.pages - 1);
        for &order in self.orders.iter().filter(|&&order| order >= from) {
            let groups = range.start.0 >> order..=end >> order;
            if groups.end() - groups.start() < last.len() as u64 {
                groups.for_each(|group| _ = last.remove(&(group << 6 | u64::from(order))));
            } else {
                last.retain(|key, _| key & 63 != u64::from(order) || !groups.contains(&(key >> 6)));
            }
        }
    }

    /// A process has ended.
    pub fn dropped_space(&mut self, asid: Asid) {
        if let Some(last) = &mut self.last {
            last.remove(&asid);
        }
    }

    /// Another process runs.
    pub fn switched(&mut self, to: Asid) {
        if let Some(last) = self.last.as_mut().filter(|_| !self.process_ids) {
            last.retain(|asid, _| *asid == to);
        }
    }
}

/// Whether an entry of another order that has pages of this one, or has this page, is in use.
fn overlaps(last: &Last, vpn: Vpn, order: Option<u8>, other: u8) -> bool {
    let Some(order) = order.filter(|&order| order > other) else {
        return order != Some(other) && last.contains_key(&key(vpn, other));
    };
    let first = vpn.align_down(order.into());
    let many = 1u64 << (order - other);
    if many < last.len() as u64 {
        (0..many).any(|i| last.contains_key(&key(Vpn(first.0 + (i << other)), other)))
    } else {
        last.keys().any(|key| key & 63 == u64::from(other) && (key >> 6) >> (order - other) == first.0 >> order)
    }
}

/// Pages that are mapped together now and were apart before, without a change that drops the old entries, can be
/// answered by either. Then the entry whose next use is farthest is not always the best victim.
fn overlap((asid, vpn): (Asid, Vpn), order: Option<u8>, other: u8, page_shift: u32) -> String {
    let size = |order: u8| Bytes(1 << (page_shift + u32::from(order)));
    let now = order.map_or("a size that the level does not hold".into(), |order| size(order).to_string());
    format!(
        "page {:#x} of process {} is mapped in {now}, and entries of {} for the same pages were not dropped: pages \
         were \
         promoted in place; the best victim is not defined then, and placement must be one that does not do so",
        vpn.0,
        asid.0,
        size(other)
    )
}

impl Level {
    /// See [`crate::tlb::Foresees`]; `None`: its policy needs no foresight.
    pub fn foresight(&mut self) -> Option<&mut Foresight> {
        self.foresight.as_deref_mut()
    }
}
