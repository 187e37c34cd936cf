//! The ledger of benefit against cost (T94-78). Each row of T94's Tables 2 to 4 is followed by a counter, and priced
//! where the model has a price.
//!
//! With a 4 KB single-page-size design in the same run, cycles are differences from it, so that they add up to the gain
//! (negative) or cost (positive) of the mechanism. Without one they are the charged cycles.

use super::cycles::{
    base_pages, copies, faults, hypervisor_cycles, interrupt_cycles, io_pages, populated, price, shared_cycles,
    shared_hits, trapped, walk_cycles,
};
use super::{keys, parts};
use farreach_hw::tlb::shared::sharers;
use farreach_types::counts::{Counts, LedgerLine, MemoryUse};
use farreach_types::params::{Key, Params};

/// Reads the count of a line.
type Read = fn(&Counts, &Params) -> u64;

/// A counter of the ledger.
struct Item {
    name: &'static str,
    unit: &'static str,
    read: Read,
    price: Option<Price>,
}

/// The source of a line's cycles.
enum Price {
    /// The number that is multiplied with a key's price; often the count itself.
    Each(&'static Key, Read),
    /// Cycles as [`super::cycles`] has them.
    Cycles(Read),
}

const fn item(name: &'static str, unit: &'static str, read: Read) -> Item {
    Item { name, unit, read, price: None }
}

const fn priced(name: &'static str, unit: &'static str, read: Read, key: &'static Key) -> Item {
    Item { name, unit, read, price: Some(Price::Each(key, read)) }
}

const ITEMS: &[Item] = &[
    priced(
        "misses: page table entries read beyond the first",
        "entries",
        |c, _| c.tlb.extra_pte_reads,
        &keys::PTE_COST,
    ),
    priced("misses of a first level: fetches", "hits", |c, _| c.tlb.second_level_fetch_hits, &keys::L2_FETCH),
    priced("misses of a first level: loads and stores", "hits", |c, _| c.tlb.second_level_data_hits, &keys::L2_DATA),
    Item {
        name: "page walks: nodes of page tables read",
        unit: "nodes",
        read: |c, _| c.tlb.walk_references(),
        price: Some(Price::Cycles(|c, p| walk_cycles(&c.tlb, p))),
    },
    priced("misses of page TLBs: answered by a range", "hits", |c, _| c.tlb.range.sole_hits, &keys::RANGE_HIT),
    priced("page-fault handling: faults", "faults", |c, _| faults(&c.os), &keys::FAULT),
    Item {
        name: "page-fault handling: read from files",
        unit: "bytes",
        read: |c, _| c.os.io_bytes,
        price: Some(Price::Each(&keys::IO, |c, _| io_pages(&c.os))),
    },
    Item {
        name: "page-fault handling: pages filled with zeros",
        unit: "pages",
        read: |c, _| c.os.zeroed_pages,
        price: Some(Price::Each(&keys::ZERO, |c, p| c.os.zeroed_pages * base_pages(p))),
    },
    // T94-59: a superpage is written as a whole. Nothing is swapped out, so there is no other cost of replacement.
    item("page replacement and file writes: pages marked modified", "pages", |c, _| c.os.dirty_pages),
    item("physical memory allocation: steps", "steps", |c, _| c.os.alloc_steps),
    item("physical memory under pressure: no aligned group free", "regions", |c, _| c.os.failed_region_allocs),
    item("physical memory under pressure: reserved frames taken back", "pages", |c, _| c.os.reservations_stolen),
    priced("data structures: page table entries probed", "entries", |c, _| c.os.pt_probes, &keys::CHECK),
    Item {
        name: "promotion: populate",
        unit: "pages",
        read: |c, _| c.os.populated_pages,
        price: Some(Price::Each(&keys::POPULATE, |c, _| populated(&c.os))),
    },
    item("promotion: populated, never used", "pages", |c, _| c.os.populated_never_used),
    item("promotion: check", "checks", |c, _| c.os.promotions_tried),
    Item {
        name: "promotion: gather and copy-on-write copies",
        unit: "pages",
        read: |c, _| copies(&c.os),
        price: Some(Price::Each(&keys::COPY, |c, p| copies(&c.os) * base_pages(p))),
    },
    item("page-size assignment: promotions", "promotions", |c, _| c.os.promotions),
    item("page-size assignment: demotions", "demotions", |c, _| c.os.demotions),
    item("file read-ahead: pages read before they were asked for", "pages", |c, _| c.os.pages_prefetched),
    item("physical memory and placement: groups reserved", "regions", |c, _| c.os.reservations_made),
    item("physical memory and placement: reserved frames used", "pages", |c, _| c.os.reservations_honoured),
    item("small objects: promotions refused", "refusals", |c, _| c.os.refused_small_object),
    item("non-uniform attributes: promotions refused", "refusals", |c, _| c.os.refused_attributes),
    item("non-uniform attributes: entries of their own", "entries", |c, _| c.tlb.split_attributes),
    item("missing pages: promotions refused", "refusals", |c, _| c.os.refused_not_resident),
    item("virtual placement: promotions refused for their frames", "refusals", |c, _| c.os.refused_frames),
    item("virtual placement: entries of their own, unaligned", "entries", |c, _| c.tlb.split_unaligned),
    item("virtual placement: entries of their own, other frames", "entries", |c, _| c.tlb.split_frames),
    item("interfaces: entries dropped because a mapping changed", "entries", |c, _| c.tlb.invalidations),
];

/// Where cores share a second level (SLL-3).
const SHARED: Item = Item {
    name: "misses of a first level: way to a shared second level",
    unit: "hits",
    read: |c, p| shared_hits(&c.tlb, p),
    price: Some(Price::Cycles(|c, p| shared_cycles(&c.tlb, p))),
};

/// Where there are several cores.
const SHOOTDOWNS: Item = Item {
    name: "interfaces: other cores interrupted because a mapping changed",
    unit: "interrupts",
    read: |c, _| c.tlb.shootdown.ipis,
    price: Some(Price::Cycles(|c, p| interrupt_cycles(&c.tlb, p))),
};

/// Where a hypervisor composes segments.
const TRAPS: Item = Item {
    name: "interfaces: segment registers written by a guest, in traps",
    unit: "traps",
    read: |c, _| c.tlb.segment.traps,
    price: Some(Price::Cycles(|c, p| hypervisor_cycles(&c.tlb, p))),
};

const ALIASES: &str = "aliases: mapped more than once";
const WASTED: &str = "memory: resident, never referenced";

/// The ledger of one machine. `baseline` is the 4 KB single-page-size design of the same run with its own prices; leave
/// it out for a run without one.
pub fn ledger(
    counts: &Counts,
    memory: &MemoryUse,
    baseline: Option<(&Counts, &Params)>,
    params: &Params,
) -> Vec<LedgerLine> {
    // A machine with caches has no price for a TLB miss as such: [`super::system`] adds up its parts.
    let charge = |of: &Price, counts: &Counts, params: &Params| match of {
        Price::Each(key, read) => {
            params.has(key.name).then(|| (read(counts, params) as f64 * price(params, key)).round())
        }
        Price::Cycles(read) => params.has(keys::WALK_REFERENCE.name).then(|| read(counts, params) as f64),
    };
    let against = |of: &Price| {
        let base = match baseline {
            Some((counts, params)) => charge(of, counts, params)?,
            None => 0.0,
        };
        Some((charge(of, counts, params)? - base) as i64)
    };
    let misses: Read = |c, _| trapped(&c.tlb);
    let (item, count) = match baseline {
        None => ("TLB misses", counts.tlb.misses),
        Some((base, _)) if base.tlb.misses >= counts.tlb.misses => {
            ("TLB misses saved", base.tlb.misses - counts.tlb.misses)
        }
        Some((base, _)) => ("TLB misses added", counts.tlb.misses - base.tlb.misses),
    };
    let line =
        |item: &str, count, unit: &str, cycles| LedgerLine { item: item.into(), count, unit: unit.into(), cycles };
    let mut lines = vec![line(item, count, "misses", against(&Price::Each(&keys::PENALTY, misses)))];
    let shootdowns = (!counts.tlb.shootdown.is_empty()).then_some(&SHOOTDOWNS);
    let traps = (counts.tlb.segment.traps > 0).then_some(&TRAPS);
    let shared = (sharers(params) > 1).then_some(&SHARED);
    for item in ITEMS.iter().chain(shared).chain(shootdowns).chain(traps) {
        let cycles = item.price.as_ref().and_then(against);
        lines.push(line(item.name, (item.read)(counts, params), item.unit, cycles));
    }
    lines.extend(parts::lines(&counts.tlb, params));
    let twice = memory.mapped_bytes.saturating_sub(memory.resident_bytes);
    lines.push(line(ALIASES, twice, "bytes", None));
    lines.push(line(WASTED, memory.wasted_bytes, "bytes", None));
    lines
}
