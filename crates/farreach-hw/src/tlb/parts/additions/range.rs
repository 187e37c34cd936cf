//! The range TLB of redundant memory mappings (RMM15), beside the second level or in front of all, with a walker of the
//! range table that fills it in the background.

use super::{Account, Addition, By, Context, ListedAddition, Miss, Victim};
use crate::cache::NodeRead;
use crate::tlb::contract::{EntryView, Lookup};
use crate::tlb::parts::hierarchy::host::{self, Entries};
use crate::tlb::parts::hierarchy::nodes::Entry;
use crate::tlb::parts::range_tlb::RangeTlb;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{Pte, Translation};

/// RMM15-2.
pub const RANGE_ENTRIES: Key = Key {
    name: "range_entries",
    default: "32",
    allowed: Allowed::Int { min: 1, max: 4096 },
    about: "entries of the range TLB, fully associative",
};
/// AMB-80; `used-bit` as T94-14 has it.
pub const RANGE_REPLACEMENT: Key = Key {
    name: "range_replacement",
    default: "lru",
    allowed: Allowed::OneOf(&["lru", "plru", "random", "used-bit", "lfsr"]),
    about: "how the range TLB chooses a victim; invalid entries go first",
};
/// RMM15-3, AMB-89, F-6.
pub const RANGE_ORDER: Key = Key {
    name: "range_order",
    default: "parallel",
    allowed: Allowed::OneOf(&["parallel", "serial", "first"]),
    about: "range TLB beside the second level (parallel), after its misses while it takes all fills (serial), before \
            the first level (first)",
};
/// RMM15-10, F-5.
pub const MRU_POINTER: Key = Key {
    name: "mru_pointer",
    default: "false",
    allowed: Allowed::Flag,
    about: "the range used last is looked at before the others are searched",
};
/// RMM15-14.
pub const RANGE_TLB: Key =
    Key { name: "range_tlb", default: "true", allowed: Allowed::Flag, about: "whether the range TLB is switched on" };
/// F-13.
pub const RANGE_CONTROL: Key = Key {
    name: "range_control",
    default: "fixed",
    allowed: Allowed::OneOf(&["fixed", "counters"]),
    about: "whether performance counters switch the range TLB off and on while the program runs",
};
/// RMM15-6, F-12.
pub const RANGE_HINT: Key = Key {
    name: "range_hint",
    default: "bit",
    allowed: Allowed::OneOf(&["bit", "predictor", "always"]),
    about: "which misses search the range table: pages with the range bit in their PTE, predicted ones, all",
};
/// F-12.
pub const PREDICTOR_ENTRIES: Key = Key {
    name: "predictor_entries",
    default: "256",
    allowed: Allowed::PowerOfTwo { min: 1, max: 65536 },
    about: "range_hint = predictor: counters, one for each 2 MB by its low bits",
};
/// F-8.
pub const L2_COOPERATION: Key = Key {
    name: "l2_cooperation",
    default: "false",
    allowed: Allowed::Flag,
    about: "pages with the range bit are not filled into the second level, where the range TLB answers for them",
};
/// The addition as the registry knows it.
pub const LISTED: ListedAddition = ListedAddition {
    name: "range",
    about: "a range TLB beside the second level (RMM15)",
    keys: &[
        &RANGE_ENTRIES,
        &RANGE_REPLACEMENT,
        &RANGE_ORDER,
        &MRU_POINTER,
        &RANGE_TLB,
        &RANGE_CONTROL,
        &RANGE_HINT,
        &PREDICTOR_ENTRIES,
        &L2_COOPERATION,
    ],
    check: |params| {
        host::check(params, "behind = range", Entries::Ranges)?;
        if params.text(RANGE_ORDER.name) == "serial" && params.has("cluster_entries") {
            return Err("range_order = serial is not allowed with kind = clustered: a range says nothing of the page \
                        table entries beside it, of which clusters are made; range_order must be parallel or first"
                .into());
        }
        Ok(())
    },
    keeps_tlbs: |_| false,
    build: |params, _| Ok(Box::new(Ranged::new(params)?)),
    ..ListedAddition::NEW
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Parallel,
    Serial,
    First,
}

enum Hint {
    Bit,
    Always,
    Predictor(Predictor),
}

/// Predicts which misses are worth a search (F-12). One counter for each 2 MB: after a wasted search the next misses
/// there do not search.
struct Predictor {
    waits: Box<[u8]>,
}

impl Predictor {
    /// Misses without a search after a wasted one.
    const PATIENCE: u8 = 15;

    fn counter(&mut self, vpn: Vpn) -> &mut u8 {
        let i = (vpn.0 >> 9) as usize % self.waits.len();
        &mut self.waits[i]
    }
    fn says(&mut self, vpn: Vpn) -> bool {
        let wait = self.counter(vpn);
        let search = *wait == 0;
        *wait = wait.saturating_sub(1);
        search
    }
    fn learn(&mut self, vpn: Vpn, found: bool) {
        *self.counter(vpn) = if found { 0 } else { Predictor::PATIENCE };
    }
}

/// Switches the range TLB by the counts since the last decision (F-13): off where it saves hardly any walks, on where
/// many walks end at a page with the range bit. The second threshold is sixteen times the first, so that it does not
/// oscillate.
#[derive(Default)]
struct Control {
    /// Misses of the first level.
    misses: u64,
    /// Lookups that only a range answered.
    saved: u64,
    /// Walks that ended at a page with the range bit.
    could_save: u64,
}

impl Control {
    /// Misses of the first level from decision to decision.
    const WINDOW: u64 = 4096;

    /// A miss of the first level begins; returns whether the range TLB is on from now on.
    fn decide(&mut self, on: bool) -> bool {
        self.misses += 1;
        if self.misses <= Control::WINDOW {
            return on;
        }
        let Control { saved, could_save, .. } = std::mem::replace(self, Control { misses: 1, ..Control::default() });
        if on {
            saved >= Control::WINDOW / 256 || could_save >= Control::WINDOW / 16
        } else {
            could_save >= Control::WINDOW / 16
        }
    }
}

/// The range TLB, with its walker.
struct Ranged {
    ranges: RangeTlb,
    order: Order,
    on: bool,
    control: Option<Control>,
    hint: Hint,
    cooperation: bool,
    path: Vec<u64>,
}

impl Ranged {
    fn new(params: &Params) -> Result<Ranged, String> {
        let seed = params.int("seed").wrapping_add(64);
        let control = (params.text("range_control") == "counters").then(Control::default);
        if control.is_some() && params.text("range_order") == "first" {
            return Err(
                "range_control = counters is not allowed with range_order = first: the counters are of misses of the \
                 first level"
                    .into(),
            );
        }
        let flag = |key: &str| params.flag(key);
        Ok(Ranged {
            ranges: RangeTlb::new(params.int("range_entries"), params, seed)?,
            order: match params.text("range_order") {
                "serial" => Order::Serial,
                "first" => Order::First,
                _ => Order::Parallel,
            },
            on: flag("range_tlb"),
            control,
            hint: match params.text("range_hint") {
                "predictor" => {
                    Hint::Predictor(Predictor { waits: vec![0; params.int("predictor_entries") as usize].into() })
                }
                "always" => Hint::Always,
                _ => Hint::Bit,
            },
            cooperation: flag("l2_cooperation"),
            path: Vec::new(),
        })
    }

    /// The range-table walker, while the program runs on (RMM15-5, RMM15-9).
    fn search(&mut self, at: Lookup, context: &mut Context) {
        let table = context.table;
        let bit = table.ranges().range(at.asid, at.vpn).is_some();
        let search = match &mut self.hint {
            Hint::Bit => bit,
            Hint::Always => true,
            Hint::Predictor(predictor) => predictor.says(at.vpn),
        };
        if search && context.port.by_caches() {
            self.path.clear();
            table.ranges().path(at.asid, at.vpn, &mut self.path);
            // A node is two lines (RMM15-7).
            for offset in self.path.iter().flat_map(|node| [*node, node + 64]) {
                let read = context.port.place(Entry { asid: at.asid, level: NodeRead::RANGES, offset, copy: 0 });
                context.port.node(read, &mut context.counts.walk_caches);
            }
        }
        let counts = &mut context.counts.range;
        if !search {
            counts.missed_ranges += u64::from(bit);
            return;
        }
        let walk = table.ranges().walk(at.asid, at.vpn);
        debug_assert_eq!(walk.found.is_some(), bit, "RMM15-6: the range bit of {at:?} is stale");
        counts.walks += 1;
        counts.nodes += u64::from(walk.nodes);
        counts.wasted_walks += u64::from(walk.found.is_none());
        if let Hint::Predictor(predictor) = &mut self.hint {
            predictor.learn(at.vpn, walk.found.is_some());
        }
        if let Some(range) = walk.found {
            debug_assert!(range.contains(at.vpn), "{range:?} was found for {at:?}");
            self.ranges.fill(at.asid, range, counts);
        }
    }
}

impl Addition for Ranged {
    fn before(&mut self, at: Lookup, counts: &mut TlbCounts) -> Option<Translation> {
        if !self.is_first() {
            return None;
        }
        self.ranges.lookup(at.asid, at.vpn, &mut counts.range).map(|range| range.translate(at.vpn))
    }

    fn is_first(&self) -> bool {
        self.on && self.order == Order::First
    }

    /// The first level gets an entry of a base page (RMM15-4). The second level takes translations that were walked
    /// for, not those of a range (AMB-85).
    fn beside(
        &mut self,
        at: Lookup,
        pte: Pte,
        page: Option<(Translation, u8)>,
        context: &mut Context,
    ) -> Option<(Translation, u8)> {
        if let Some(control) = &mut self.control {
            let on = control.decide(self.on);
            context.counts.range.switches += u64::from(on != self.on);
            self.on = on;
        }
        let asked = self.on && (self.order == Order::Parallel || self.order == Order::Serial && page.is_none());
        if !asked {
            return None;
        }
        let range = self.ranges.lookup(at.asid, at.vpn, &mut context.counts.range).map(|r| r.translate(at.vpn));
        debug_assert!(page.is_none() || range.is_none_or(|r| page.is_some_and(|(p, _)| p == r)), "AMB-86: {at:?}");
        if page.is_some() {
            return None;
        }
        let found = range?;
        context.counts.range.sole_hits += 1;
        if let Some(control) = &mut self.control {
            control.saved += 1;
        }
        if self.order == Order::Serial {
            // RMM15-41: the page TLBs ignore ranges, so they also take translations that a range answered.
            context.second.fill(at, found, pte.order, context.table, context.counts);
        }
        Some((found, 0))
    }

    fn leaves_to_second(&mut self, miss: &Miss, _: By, _: u8, context: &mut Context) -> bool {
        let bit = context.table.ranges().range(miss.at.asid, miss.at.vpn).is_some();
        if let Some(control) = &mut self.control {
            control.could_save += u64::from(bit);
        }
        !(self.on && self.cooperation && bit)
    }

    fn filled(&mut self, miss: &Miss, _: By, _: Option<Victim>, context: &mut Context) {
        if self.on {
            self.search(miss.at, context);
        }
    }

    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, _: bool, account: &mut Account) -> u64 {
        account.counts.range.invalidations += self.ranges.invalidate(asid, pages);
        0
    }

    fn drop_space(&mut self, asid: Asid, account: &mut Account) -> u64 {
        account.counts.range.invalidations += self.ranges.drop_space(asid);
        0
    }

    fn switch(&mut self, to: Asid, account: &mut Account) -> u64 {
        account.counts.range.invalidations += self.ranges.switch(to);
        0
    }

    fn probe(&self, asid: Asid, vpn: Vpn, _: Kind) -> Option<Translation> {
        self.ranges.probe(asid, vpn).map(|range| range.translate(vpn))
    }

    fn views(&self, before: usize, into: &mut Vec<EntryView>) {
        self.ranges.views(before, into);
    }

    fn entries(&self) -> usize {
        self.ranges.entries()
    }
}
