//! Walks of restrictive segments (Utopia; UTO-2 to UTO-4): where a page may lie in the frames of one set, the number of
//! used ways and the tags of the set say in two steps whether it does, and in which. Only other pages need a walk of
//! the page table. The operating system places the pages (`placement = utopia`), and its tables say where.

use super::{Account, Addition, By, Context, Counter, Law, ListedAddition, Miss, Victim, shown, speculation};
use crate::cache::levels::{L1_CYCLES, L2_CYCLES, LLC_CYCLES, MEMORY_CYCLES};
use crate::cache::{At, LastWalk, Purpose, answered_at};
use crate::tlb::contract::EntryView;
use crate::tlb::parts::hierarchy::nodes::RADIX;
use crate::tlb::parts::hierarchy::walk::{by_caches, leaf_level};
use crate::tlb::parts::tables::TABLE;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::MemoryCounts;
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::restseg::{RestSeg, RestSegView};
use farreach_types::translation::Translation;

/// UTO-3: of each cache. 2048 sets of 4 ways; the other reading is 2048 entries.
pub const UTO_CACHE_ENTRIES: Key = Key {
    name: "uto_cache_entries",
    default: "8192",
    allowed: Allowed::PowerOfTwo { min: 1, max: 1 << 20 },
    about: "sets of a RestSeg whose numbers of used ways are cached, and as many whose tags are, LRU (UTO-3)",
};
/// UTO-3.
pub const UTO_CACHE_WAYS: Key = Key {
    name: "uto_cache_ways",
    default: "4",
    allowed: Allowed::PowerOfTwo { min: 1, max: 1 << 20 },
    about: "entries in a set of these caches",
};
/// UTO-4.
pub const UTO_WALK: Key = Key {
    name: "uto_walk",
    default: "after",
    allowed: Allowed::OneOf(&["after", "parallel"]),
    about: "the page table is walked after the RestSegs, if they do not have the page, or at the same time",
};
/// UTO-7.
pub const UTO_PTE: Key = Key {
    name: "uto_pte",
    default: "false",
    allowed: Allowed::Flag,
    about: "pages in RestSegs have entries in the page table, too, for those who walk it for other pages than those \
            that miss",
};
/// The price of asking.
pub const UTO_CYCLES: Key = Key {
    name: "uto_cycles",
    default: "2",
    allowed: Allowed::Number { min: 0.0, max: 1e12 },
    about: "cycles of a walk of the RestSegs beside its references: looking into its caches (assumed)",
};

const WALKS: usize = 0;
const HITS: usize = 1;
/// Of base pages; those of 2 MB follow.
const HITS_4K: usize = 2;
/// Of numbers of used ways; those of tags follow.
const READS: usize = 4;

/// Whether pages in RestSegs have no entries in the page table (UTO-7).
pub fn leaves_out_entries(params: &Params) -> bool {
    params.has(UTO_PTE.name) && !params.flag(UTO_PTE.name)
}

/// The addition as the registry knows it.
pub const LISTED: ListedAddition = ListedAddition {
    name: "utopia",
    about: "finds pages in restrictive segments by tags, so that only others are walked for (Utopia)",
    keys: &[&UTO_CACHE_ENTRIES, &UTO_CACHE_WAYS, &UTO_WALK, &UTO_PTE, &UTO_CYCLES],
    counters: &[
        Counter { name: "rsw", about: "misses for which it walked the RestSegs", price: Some(&UTO_CYCLES) },
        Counter::new("rsw_hits", "of these, those that it answered"),
        Counter::new("rsw_hits_4k", "of these, base pages"),
        Counter::new("rsw_hits_2m", "and pages of 2 MB"),
        Counter::new("sf_references", "reads of numbers of used ways that the cache did not have"),
        Counter::new("tar_references", "reads of the tags of a set that the cache did not have"),
    ],
    answers: Some("rsw_hits"),
    laws: &[
        Law {
            name: "UTO-3",
            sides: |part, _| {
                let of = |name| part.counters.get(name);
                (part.memory.made.references, of("sf_references") + of("tar_references"))
            },
        },
        Law {
            name: "UTO-1",
            sides: |part, _| {
                let of = |name| part.counters.get(name);
                (of("rsw_hits"), of("rsw_hits_4k") + of("rsw_hits_2m"))
            },
        },
    ],
    check,
    build: |params, _| Ok(Box::new(Utopia::new(params)?)),
    ..ListedAddition::NEW
};

fn check(params: &Params) -> Result<(), String> {
    super::only_native(params)?;
    let names = params.texts(super::BEHIND.name);
    let beside = |others: &[&'static str]| others.iter().copied().find(|other| names.iter().any(|name| name == other));
    if let (Some(other), "parallel") = (beside(&speculation::HIDING), params.text(UTO_WALK.name)) {
        return Err(format!(
            "{} = parallel is not allowed with {}: {other} hides the walk, too, and the program cannot wait less than \
             not at all",
            UTO_WALK.name,
            shown(params)
        ));
    }
    if params.flag(UTO_PTE.name) {
        return Ok(());
    }
    let refuse = |with: String, why: &str| {
        Err(format!(
            "{} = false is not allowed with {with}: {why}, and pages in RestSegs have no entry there (UTO-7); {} must \
             be true",
            UTO_PTE.name, UTO_PTE.name
        ))
    };
    let table = params.text(TABLE.name);
    if table != TABLE.default {
        return refuse(format!("{} = {table}", TABLE.name), "that table is told of every page");
    }
    match beside(&["prefetch", "victima"]) {
        Some(other) => refuse(shown(params), &format!("{other} walks the page table for any page")),
        None => Ok(()),
    }
}

/// RestSegs of a system: for base pages and for superpages.
const SEGMENTS: usize = 2;
/// The tables of this part in memory: above all programs and other tables. One after the other, for each segment.
const FIRST: u64 = 1 << 55;
/// Room for each table.
const ROOM: u64 = 1 << 48;
/// Bytes of a tag.
const TAG: u64 = 4;

/// A cache of what a table has of each set of one RestSeg. The system writes the tables through these caches when it
/// places a page or frees one, so that they never are behind and nothing is dropped.
struct SetCache {
    ways: usize,
    /// Set after set of the cache, and inside it the most recently used first.
    entries: Box<[Option<u64>]>,
}

impl SetCache {
    fn new(params: &Params) -> SetCache {
        let [entries, ways] = [UTO_CACHE_ENTRIES, UTO_CACHE_WAYS].map(|key| params.int(key.name) as usize);
        SetCache { ways, entries: vec![None; entries].into() }
    }

    /// Whether it has what belongs to this set; it has it from now on.
    fn reads(&mut self, set: u64) -> bool {
        let sets = self.entries.len() / self.ways;
        let first = (set as usize & (sets - 1)) * self.ways;
        let ways = &mut self.entries[first..first + self.ways];
        let at = ways.iter().position(|entry| *entry == Some(set));
        ways[..=at.unwrap_or(self.ways - 1)].rotate_right(1);
        ways[0] = Some(set);
        at.is_some()
    }
}

/// A walk of the RestSegs: its steps, with what answered them, if that is known.
#[derive(Clone, Copy, Default)]
struct Steps {
    answers: [Option<At>; 2],
    made: usize,
}

/// See the module.
struct Utopia {
    /// Of numbers of used ways, of tags; for each RestSeg.
    caches: [[SetCache; SEGMENTS]; 2],
    parallel: bool,
    /// Of each cache level and of memory, where references go through caches.
    latencies: Option<[f64; 4]>,
    /// The walk of the miss under way, if the page table is walked at the same time.
    pending: Option<Steps>,
}

impl Utopia {
    fn new(params: &Params) -> Result<Utopia, String> {
        let [entries, ways] = [UTO_CACHE_ENTRIES, UTO_CACHE_WAYS].map(|key| params.int(key.name));
        if ways > entries {
            return Err(format!(
                "{} = {ways} is not allowed: it must be at most {}, which is {entries} (HW-13)",
                UTO_CACHE_WAYS.name, UTO_CACHE_ENTRIES.name
            ));
        }
        let cycles = || [L1_CYCLES, L2_CYCLES, LLC_CYCLES, MEMORY_CYCLES].map(|key| params.number(key.name));
        Ok(Utopia {
            caches: [(); 2].map(|()| [(); SEGMENTS].map(|()| SetCache::new(params))),
            parallel: params.text(UTO_WALK.name) == "parallel",
            latencies: by_caches(params).then(cycles),
            pending: None,
        })
    }

    /// The address of what a table has of a set.
    fn address(table: usize, place: usize, segment: &RestSeg, set: u64) -> u64 {
        let bytes = if table == 0 { 1 } else { (segment.ways * TAG).next_power_of_two() };
        FIRST + (2 * place + table) as u64 * ROOM + set * bytes
    }

    /// UTO-3: both sizes in one step for each table; the tags only of sets that have some.
    fn walk(&mut self, (asid, vpn): (Asid, Vpn), view: &dyn RestSegView, context: &mut Context) -> Steps {
        let mut steps = Steps::default();
        for table in 0..2 {
            let (mut addresses, mut many) = ([0; SEGMENTS], 0);
            for (place, segment) in view.segs().iter().enumerate() {
                let set = segment.set(asid, vpn);
                if (table == 0 || view.any_used(place, set)) && !self.caches[table][place].reads(set) {
                    addresses[many] = Utopia::address(table, place, segment, set);
                    many += 1;
                }
            }
            if many > 0 {
                *context.own().at(READS + table) += many as u64;
                steps.answers[steps.made] = context.step(Purpose::Demand, &addresses[..many]);
                steps.made += 1;
            }
        }
        steps
    }

    /// Both walks went on at the same time, and the program waits for the longer: the steps of the other are hidden.
    fn hide(&self, own: Steps, walk: &LastWalk, memory: &mut MemoryCounts) {
        let Some(latencies) = self.latencies.filter(|_| walk.answers().next().is_some()) else {
            memory.hidden_references += walk.steps.min(own.made as u64);
            return;
        };
        let mine = || own.answers[..own.made].iter().flatten().copied();
        let walked = || walk.answers().map(|(_, at)| at);
        let cycles = |at: At| latencies[at as usize];
        let mut hide = |at: At| {
            memory.hidden_references += 1;
            *answered_at(&mut memory.hidden_answered, at) += 1;
        };
        if mine().map(cycles).sum::<f64>() <= walked().map(cycles).sum() {
            mine().for_each(&mut hide);
        } else {
            walked().for_each(&mut hide);
        }
    }
}

impl Addition for Utopia {
    fn missed(&mut self, miss: &Miss, context: &mut Context) -> Option<Translation> {
        let (asid, vpn, view) = (miss.at.asid, miss.at.vpn, context.table.restsegs());
        self.pending = None;
        if view.segs().is_empty() {
            return None;
        }
        *context.own().at(WALKS) += 1;
        let steps = self.walk((asid, vpn), view, context);
        let leaf = leaf_level(miss.pte.order, RADIX);
        if view.holds((asid, vpn), miss.pte.pfn, RADIX * leaf).is_none() {
            self.pending = self.parallel.then_some(steps);
            return None;
        }
        *context.own().at(HITS) += 1;
        *context.own().at(HITS_4K + usize::from(leaf)) += 1;
        if self.parallel {
            // Down to the entry, which is empty if pages in RestSegs have none: the tables above have other pages.
            context.walk_ahead(asid, vpn);
        }
        Some(Translation { pfn: miss.pte.pfn, attr: miss.pte.attr })
    }

    fn filled(&mut self, _: &Miss, by: By, _: Option<Victim>, context: &mut Context) {
        if let Some(steps) = self.pending.take().filter(|_| by == By::Walk) {
            let walk = context.port.last_walk();
            self.hide(steps, &walk, context.memory());
        }
    }

    /// Like what follows: its caches are of the system's tables, which are never behind.
    fn drop_pages(&mut self, _: Asid, _: VpnRange, _: bool, _: &mut Account) -> u64 {
        0
    }

    fn drop_space(&mut self, _: Asid, _: &mut Account) -> u64 {
        0
    }

    fn switch(&mut self, _: Asid, _: &mut Account) -> u64 {
        0
    }

    /// It has no translations of its own.
    fn probe(&self, _: Asid, _: Vpn, _: Kind) -> Option<Translation> {
        None
    }

    fn views(&self, _: usize, _: &mut Vec<EntryView>) {}

    fn entries(&self) -> usize {
        0
    }
}
