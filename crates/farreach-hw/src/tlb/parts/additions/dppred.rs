//! dpPred: pages that are predicted dead on arrival, as those of their instruction were, are kept out of the second
//! level (DPP; HPCA 2021). Its part for caches, cbPred, is left out (DPP-4).
//!
//! A table of counters says of an instruction and a page how often what a walk brought was evicted without a hit. The
//! rule is silent on the following, so these are choices:
//!
//! * Both hashes fold all bits by exclusive or. Pages are numbered in pages of their size.
//! * A row of the table is all counters of one hash of an instruction. What the shadow finds clears the row of the
//!   instruction whose fill was kept out, leaves the shadow, and is filled. The shadow answers nothing: the walk goes
//!   on.
//! * Only what a walk brings is predicted. What another addition answers is filled, and trains as any entry does.
//! * Entries that changes drop train nothing. Pages that prefetches bring into the second level train by what their
//!   last fill left behind, if anything.
//! * The shadow and the counters know numbers of pages only, so that changes leave them alone (HW-9).

use super::prefetch::PREDICTORS_ON_SWITCH;
use super::{Account, Addition, By, Context, Counter, Law, ListedAddition, Miss, Victim, only_native, shown};
use crate::tlb::contract::{EntryView, Lookup};
use crate::tlb::parts::second_levels::clustered::CLUSTER_ENTRIES;
use crate::tlb::keys::PROCESS_IDS;
use crate::tlb::parts::hierarchy::L2I;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{Pte, Translation};
use std::collections::{BTreeMap, VecDeque};

/// DPP-1.
pub const DPP_PC_BITS: Key = Key {
    name: "dpp_pc_bits",
    default: "6",
    allowed: Allowed::Int { min: 0, max: 16 },
    about: "bits of the hash of an instruction's address, by which a row of counters is found",
};
/// DPP-1.
pub const DPP_PAGE_BITS: Key = Key {
    name: "dpp_page_bits",
    default: "4",
    allowed: Allowed::Int { min: 0, max: 16 },
    about: "bits of the hash of a page, by which a counter of the row is found",
};
/// DPP-2. A counter goes up to 7.
pub const DPP_THRESHOLD: Key = Key {
    name: "dpp_threshold",
    default: "6",
    allowed: Allowed::Int { min: 0, max: MOST as u64 },
    about: "count above which pages are kept out of the second level; 7: none is",
};
/// DPP-2.
pub const DPP_SHADOW_ENTRIES: Key = Key {
    name: "dpp_shadow_entries",
    default: "2",
    allowed: Allowed::Int { min: 0, max: 4096 },
    about: "pages that were kept out last, whose misses show that they should not have been",
};

const FILLS: usize = 0;
const BYPASSES: usize = 1;
const SHADOW_HITS: usize = 2;
const EVICTED_UNUSED: usize = 3;
const EVICTED_USED: usize = 4;

/// The addition as the registry knows it.
pub const LISTED: ListedAddition = ListedAddition {
    name: "dppred",
    about: "keeps pages out of the second level that are predicted to leave it without a hit (dpPred)",
    keys: &[&DPP_PC_BITS, &DPP_PAGE_BITS, &DPP_THRESHOLD, &DPP_SHADOW_ENTRIES, &PREDICTORS_ON_SWITCH],
    counters: &[
        Counter::new("fills", "walks whose page was left to the second level"),
        Counter::new("bypasses", "walks whose page was kept out of it"),
        Counter::new("shadow_hits", "misses of pages that were kept out a short time before"),
        Counter::new("evicted_unused", "entries that the second level evicted without a hit"),
        Counter::new("evicted_used", "entries that it evicted after a hit"),
    ],
    laws: &[Law {
        name: "DPP-2: fills + bypasses = walks",
        sides: |part, counts| {
            (part.counters.get("fills") + part.counters.get("bypasses"), counts.walk.walks)
        },
    }],
    keeps_tlbs: |params| params.int(DPP_THRESHOLD.name) == u64::from(MOST),
    needs_fetches: |_| Some("behind = dppred".into()),
    check: |params| {
        only_native(params)?;
        if params.has(CLUSTER_ENTRIES.name) {
            let why = "an entry for several pages would have several counters; kind must be another";
            return Err(format!("{} is not allowed with kind = clustered: {why}", shown(params)));
        }
        Ok(())
    },
    build: |params, _| Ok(Box::new(DpPred::new(params))),
    ..ListedAddition::NEW
};

/// The most that a counter of three bits holds.
const MOST: u8 = 7;

/// A page of the size of its mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Page {
    asid: Asid,
    /// log2 of its base pages.
    order: u8,
    /// Its number, in pages of this size.
    number: u64,
}

/// What is known of an entry of the second level.
struct Entry {
    /// The base pages of its mapping.
    pages: VpnRange,
    /// Its counter.
    counter: usize,
    was_hit: bool,
}

/// See the module.
struct DpPred {
    pc_bits: u64,
    page_bits: u64,
    threshold: u8,
    /// Row after row.
    counters: Box<[u8]>,
    /// Pages that were kept out, with their row, the oldest in front.
    shadow: VecDeque<(Page, usize)>,
    shadow_entries: usize,
    /// Entries of the second level: by side, if each has an array of its own, process, and the page that missed.
    entries: BTreeMap<(bool, Asid, Vpn), Entry>,
    sides: bool,
    process_ids: bool,
    flushes: bool,
}

/// Exclusive or of all groups of this many bits.
fn fold(mut n: u64, bits: u64) -> usize {
    let mut folded = 0;
    while n > 0 && bits > 0 {
        folded ^= n & ((1 << bits) - 1);
        n >>= bits;
    }
    folded as usize
}

impl DpPred {
    fn new(params: &Params) -> DpPred {
        let [pc_bits, page_bits] = [DPP_PC_BITS, DPP_PAGE_BITS].map(|key| params.int(key.name));
        DpPred {
            pc_bits,
            page_bits,
            threshold: params.int(DPP_THRESHOLD.name) as u8,
            counters: vec![0; 1 << (pc_bits + page_bits)].into(),
            shadow: VecDeque::new(),
            shadow_entries: params.int(DPP_SHADOW_ENTRIES.name) as usize,
            entries: BTreeMap::new(),
            sides: params.has(L2I.name) && params.texts(L2I.name) != ["shared"],
            process_ids: params.flag(PROCESS_IDS.name),
            flushes: params.text(PREDICTORS_ON_SWITCH.name) == "flush",
        }
    }

    /// The counters of an instruction begin here.
    fn row(&self, pc: u64) -> usize {
        fold(pc, self.pc_bits) << self.page_bits
    }

    fn counter(&self, pc: u64, page: Page) -> usize {
        self.row(pc) + fold(page.number, self.page_bits)
    }

    /// A process's pages on the side of a lookup.
    fn keys(&self, at: Lookup, pages: VpnRange) -> std::ops::Range<(bool, Asid, Vpn)> {
        let side = self.sides && at.kind == Kind::Fetch;
        (side, at.asid, pages.start)..(side, at.asid, pages.end())
    }

    /// The page was kept out. In a full shadow it takes the place of the oldest.
    fn cast(&mut self, page: Page, row: usize) {
        if self.shadow_entries > 0 {
            if self.shadow.len() == self.shadow_entries {
                self.shadow.pop_front();
            }
            self.shadow.push_back((page, row));
        }
    }

    /// The second level evicted an entry (DPP-3).
    fn train(&mut self, at: Lookup, victim: Victim, context: &mut Context) {
        let pages = VpnRange { start: victim.vpn, pages: 1 << victim.order };
        let range = self.keys(Lookup { asid: victim.asid, ..at }, pages);
        let known = self.entries.range(range).next().map(|(key, _)| *key);
        let Some(entry) = known.and_then(|key| self.entries.remove(&key)) else { return };
        let counter = &mut self.counters[entry.counter];
        *counter = if entry.was_hit { 0 } else { MOST.min(*counter + 1) };
        *context.own().at(if entry.was_hit { EVICTED_USED } else { EVICTED_UNUSED }) += 1;
    }
}

/// The page of its size that missed.
fn page_of(miss: &Miss) -> Page {
    let order = miss.pte.order;
    Page { asid: miss.at.asid, order, number: miss.at.vpn.group(order.into()) }
}

impl Addition for DpPred {
    /// It sees the hits of the second level.
    fn beside(
        &mut self,
        at: Lookup,
        _: Pte,
        page: Option<(Translation, u8)>,
        _: &mut Context,
    ) -> Option<(Translation, u8)> {
        let (_, order) = page?;
        let range = self.keys(at, VpnRange { start: at.vpn.align_down(order.into()), pages: 1 << order });
        if let Some((_, entry)) = self.entries.range_mut(range).next() {
            entry.was_hit = true;
        }
        None
    }

    /// DPP-2, DPP-3.
    fn leaves_to_second(&mut self, miss: &Miss, by: By, _: u8, context: &mut Context) -> bool {
        let page = page_of(miss);
        if let Some(place) = self.shadow.iter().position(|(other, _)| *other == page)
            && let Some((_, row)) = self.shadow.remove(place)
        {
            self.counters[row..row + (1 << self.page_bits)].fill(0);
            *context.own().at(SHADOW_HITS) += 1;
        }
        if by != By::Walk {
            return true;
        }
        let fills = self.counters[self.counter(miss.pc, page)] <= self.threshold;
        *context.own().at(if fills { FILLS } else { BYPASSES }) += 1;
        if !fills {
            self.cast(page, self.row(miss.pc));
        }
        fills
    }

    fn filled(&mut self, miss: &Miss, _: By, victim: Option<Victim>, context: &mut Context) {
        let at = miss.at;
        if let Some(victim) = victim {
            self.train(at, victim, context);
        }
        // It may have no entries for pages of this size, or another addition kept it out.
        if context.in_second(at.asid, at.vpn, at.kind) {
            let shift = miss.pte.order.into();
            let pages = VpnRange { start: at.vpn.align_down(shift), pages: 1 << shift };
            let entry = Entry { pages, counter: self.counter(miss.pc, page_of(miss)), was_hit: false };
            let key = self.keys(at, VpnRange { start: at.vpn, pages: 1 }).start;
            self.entries.insert(key, entry);
        }
    }

    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, demoted: bool, _: &mut Account) -> u64 {
        self.entries.retain(|(_, of, _), entry| {
            *of != asid || !entry.pages.overlaps(&pages) || demoted && entry.pages.pages == 1
        });
        0
    }

    fn drop_space(&mut self, asid: Asid, _: &mut Account) -> u64 {
        self.entries.retain(|(_, of, _), _| *of != asid);
        0
    }

    fn switch(&mut self, to: Asid, _: &mut Account) -> u64 {
        if !self.process_ids {
            self.entries.retain(|(_, of, _), _| *of == to);
        }
        if self.flushes {
            self.counters.fill(0);
            self.shadow.clear();
        }
        0
    }

    /// It answers nothing.
    fn probe(&self, _: Asid, _: Vpn, _: Kind) -> Option<Translation> {
        None
    }

    fn views(&self, _: usize, _: &mut Vec<EntryView>) {}

    fn entries(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests;
