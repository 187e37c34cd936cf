//! The keys of prefetching, its counters and their laws.

use super::free::{FDT_PER_SIZE, PREFETCH_FREE, PREFETCH_STATIC, SAMPLER_KEEP, SBFP_SAMPLER, SBFP_THRESHOLD};
use super::predictors::{self, PREFETCHER};
use super::{Counter, Law, ListedAddition, Prefetch, only_native};
use crate::tlb::parts::tables;
use farreach_types::joined_keys;
use farreach_types::params::{Allowed, Key, Params};

/// PB-1.
pub const PB_ENTRIES: Key = Key {
    name: "pb_entries",
    default: "64",
    allowed: Allowed::Int { min: 1, max: 65536 },
    about: "entries of the prefetch buffer, fully associative",
};
/// PB-1.
pub const PB_REPLACEMENT: Key = Key {
    name: "pb_replacement",
    default: "fifo",
    allowed: Allowed::OneOf(&["fifo", "lru"]),
    about: "how the prefetch buffer chooses a victim; lru is the same, since an entry that is used leaves",
};
/// PB-2.
pub const PB_HIT_CYCLES: Key = Key {
    name: "pb_hit_cycles",
    default: "2",
    allowed: Allowed::Number { min: 0.0, max: 1e12 },
    about: "cycles per miss of the TLBs that the prefetch buffer answers",
};
/// MOR-1.
pub const PB_FOR: Key = Key {
    name: "pb_for",
    default: "all",
    allowed: Allowed::OneOf(&["all", "fetch", "data"]),
    about: "whose misses look into the prefetch buffer, are learnt from and cause prefetches: all, those of fetches, \
            those of loads and stores",
};
/// PB-3.
pub const PREFETCH_INTO: Key = Key {
    name: "prefetch_into",
    default: "buffer",
    allowed: Allowed::OneOf(&["buffer", "l2"]),
    about: "where prefetched pages go: to a buffer, or to the second level, without a buffer",
};
/// PB-4.
pub const PREFETCH_ON: Key = Key {
    name: "prefetch_on",
    default: "miss",
    allowed: Allowed::OneOf(&["miss", "walk"]),
    about: "what makes the prefetcher predict and learn: every miss of the TLBs, or those that a walk answers",
};
/// PB-6.
pub const PREFETCH_FILTER: Key = Key {
    name: "prefetch_filter",
    default: "l2",
    allowed: Allowed::OneOf(&["l2", "l1", "none"]),
    about: "where a page that was predicted is looked for before it is walked for: second level; l1: first level, too; \
            none: the buffer alone",
};
/// HW-8.
pub const PREFETCH_DELAY: Key = Key {
    name: "prefetch_delay",
    default: "0",
    allowed: Allowed::Int { min: 0, max: 1 << 32 },
    about: "instructions after which a prefetched page is usable; a miss that meets it before is late",
};
/// PB-8.
pub const PREDICT_UNIT: Key = Key {
    name: "predict_unit",
    default: "own",
    allowed: Allowed::OneOf(&["own", "base"]),
    about: "own: each page size has a prefetcher of its own, in pages of this size; base: one for all, in base pages",
};
/// HW-9.
pub const PREDICTORS_ON_SWITCH: Key = Key {
    name: "predictors_on_switch",
    default: "flush",
    allowed: Allowed::OneOf(&["flush", "keep"]),
    about: "what a process switch does to what prefetchers have learnt on the chip",
};
/// PB-7.
pub const PREFETCH_FILLS_PWC: Key = Key {
    name: "prefetch_fills_pwc",
    default: "true",
    allowed: Allowed::Flag,
    about: "walks of prefetches fill the walk caches (pwc_pd and so on) as others do",
};

const OWN_KEYS: &[&Key] = &[
    &PB_ENTRIES,
    &PB_REPLACEMENT,
    &PB_HIT_CYCLES,
    &PB_FOR,
    &PREFETCH_INTO,
    &PREFETCH_ON,
    &PREFETCH_FILTER,
    &PREFETCH_DELAY,
    &PREDICT_UNIT,
    &PREDICTORS_ON_SWITCH,
    &PREFETCH_FILLS_PWC,
    &PREFETCH_FREE,
    &PREFETCH_STATIC,
    &SBFP_THRESHOLD,
    &SBFP_SAMPLER,
    &SAMPLER_KEEP,
    &FDT_PER_SIZE,
];

/// The addition as the registry knows it.
pub const LISTED: ListedAddition = ListedAddition {
    name: "prefetch",
    about: "a prefetch buffer behind the second level, filled by a prefetcher and by the lines that walks read (PB)",
    keys: joined_keys!(OWN_KEYS, predictors::KEYS),
    counters: &[
        Counter {
            name: "hits",
            about: "misses of the TLBs that the prefetch buffer answered",
            price: Some(&PB_HIT_CYCLES),
        },
        Counter::new("hits_free", "of these, with an entry that came with the line of another"),
        Counter::new("hits_prefetched", "of these, with an entry that the prefetcher brought in"),
        Counter::new("late", "of these, before the entry was usable"),
        Counter::new("candidates", "pages that the prefetcher predicted"),
        Counter::new("filtered", "of these, not walked for: there already, or no page of a program"),
        Counter::new("walks", "walks for predicted pages"),
        Counter::new("nodes", "references of these walks"),
        Counter::new("faulting", "of these walks, those for pages that were not mapped"),
        Counter::new("prefetched", "predicted pages that were brought in"),
        Counter::new("free", "neighbours in the line of a walk that were brought in"),
        Counter::new("evicted_unused", "entries that left the buffer for others, unused"),
        Counter::new("invalidated", "entries that left the buffer because of changes, ends or switches"),
        Counter::new("resident", "entries in the buffer now"),
        Counter::new("into_l2", "pages that were brought into the second level (prefetch_into = l2)"),
        Counter::new("fdt_updates", "times that a free distance proved useful"),
        Counter::new("sampler_hits", "of these, found by the sampler"),
        Counter::new("pointer_writes", "pointers of the stack in the page table that misses wrote"),
        // ATP-5: the sum of these is the number of triggers.
        Counter::new("chosen_none", "misses at which no child of atp predicted"),
        Counter::new("chosen_h2p", "misses at which h2p predicted for atp"),
        Counter::new("chosen_masp", "misses at which masp predicted for atp"),
        Counter::new("chosen_stp", "misses at which stp predicted for atp"),
    ],
    answers: Some("hits"),
    keeps_tlbs: |params| params.text(PREFETCH_INTO.name) != "l2",
    laws: LAWS,
    needs_fetches,
    check,
    build: |params, _| Ok(Box::new(Prefetch::new(params)?)),
};

/// Places in [`LISTED`]'s counters.
pub(super) const HITS: usize = 0;
pub(super) const HITS_FREE: usize = 1;
pub(super) const HITS_PREFETCHED: usize = 2;
pub(super) const LATE: usize = 3;
pub(super) const CANDIDATES: usize = 4;
pub(super) const FILTERED: usize = 5;
pub(super) const WALKS: usize = 6;
pub(super) const NODES: usize = 7;
pub(super) const FAULTING: usize = 8;
pub(super) const PREFETCHED: usize = 9;
pub(super) const FREE: usize = 10;
pub(super) const EVICTED_UNUSED: usize = 11;
pub(super) const INVALIDATED: usize = 12;
pub(super) const RESIDENT: usize = 13;
pub(super) const INTO_L2: usize = 14;
pub(super) const FDT_UPDATES: usize = 15;
pub(super) const SAMPLER_HITS: usize = 16;
pub(super) const POINTER_WRITES: usize = 17;
/// None, H2P, MASP, STP.
pub(super) const CHOSEN: usize = 18;

/// PB-10 and SBFP-6. The references of PB-11 are `nodes`. Pages whose accessed bit the hardware would have to clear
/// again (PB-12) are `evicted_unused`.
///
/// Pages that go into the second level leave the third law there.
const LAWS: &[Law] = &[
    Law {
        name: "PB-10: candidates = filtered + walks",
        sides: |part, _| (part.counters.get("candidates"), part.counters.get("filtered") + part.counters.get("walks")),
    },
    Law {
        name: "PB-10: walks = faulting + prefetched",
        sides: |part, _| (part.counters.get("walks"), part.counters.get("faulting") + part.counters.get("prefetched")),
    },
    Law {
        name: "PB-10: prefetched + free = hits + evicted_unused + invalidated + resident + into_l2",
        sides: |part, _| {
            let sum = |names: &[&str]| names.iter().map(|name| part.counters.get(name)).sum();
            (sum(&["prefetched", "free"]), sum(&["hits", "evicted_unused", "invalidated", "resident", "into_l2"]))
        },
    },
    Law {
        name: "PB-10: hits = hits_free + hits_prefetched",
        sides: |part, _| {
            (part.counters.get("hits"), part.counters.get("hits_free") + part.counters.get("hits_prefetched"))
        },
    },
    Law {
        name: "PB-7: references in the background = nodes",
        sides: |part, _| (part.memory.made.background_references, part.counters.get("nodes")),
    },
    Law {
        // Without the table of distances, free entries hit and teach nothing.
        name: "SBFP-6: fdt_updates = hits_free + sampler_hits",
        sides: |part, _| match part.counters.get("fdt_updates") {
            0 => (0, part.counters.get("sampler_hits")),
            updates => (updates, part.counters.get("hits_free") + part.counters.get("sampler_hits")),
        },
    },
];

/// HW-6, HW-8.
fn needs_fetches(params: &Params) -> Option<String> {
    let listed = predictors::chosen(params).filter(|listed| listed.needs_pc);
    let predictor = listed.map(|listed| format!("{} = {}", PREFETCHER.name, listed.name));
    let delay = params.int(PREFETCH_DELAY.name);
    predictor.or_else(|| (delay > 0).then(|| format!("{} = {delay}", PREFETCH_DELAY.name)))
}

/// Refuses what is not defined.
fn check(params: &Params) -> Result<(), String> {
    only_native(params)?;
    let refuse = |what: String, with: &str, why: &str| Err(format!("{what} is not allowed with {with}: {why}"));
    if predictors::reads_entries(params) && tables::chosen(params).is_some() {
        let what = format!("{} = pte", predictors::RP_REFERENCE.name);
        let with = format!("table = {}", params.text(tables::TABLE.name));
        let why = "pointers lead from leaf to leaf of a radix tree (RP-5); rp_reference must be walk";
        return refuse(what, &with, why);
    }
    if params.text(PREFETCH_INTO.name) == "l2" {
        let into = "prefetch_into = l2";
        let delay = params.int(PREFETCH_DELAY.name);
        if delay > 0 {
            let why = "entries of the second level are usable at once; prefetch_delay must be 0";
            return refuse(format!("prefetch_delay = {delay}"), into, why);
        }
        if params.text(PREFETCH_FILTER.name) == "none" {
            let why = "the second level would have pages twice; prefetch_filter must be l2 or l1";
            return refuse("prefetch_filter = none".into(), into, why);
        }
    }
    Ok(())
}
