//! The prices of parts that declare their counters themselves (HW-7): additions behind the second level, page tables
//! that are no radix tree, and the two sides of Midgard.
//!
//! A part has no formula of its own here. Each step that the program waits for costs the price of a reference, or the
//! latency of what answered it; references in the background cost a share of that; and counters cost what their keys
//! say.

use super::cycles::price;
use super::keys;
use farreach_hw::cache::levels;
use farreach_hw::system::{counting, walks};
use farreach_hw::tlb::additions::{BACKGROUND_WEIGHT, Counter};
use farreach_hw::tlb::cores::mechanisms::PART as SHOOTDOWN;
use farreach_hw::tlb::numa;
use farreach_types::counts::{Answered, LedgerLine, PartCounts, TlbCounts};
use farreach_types::params::Params;

/// References by what answered them, each at its latency.
pub(super) fn latencies(answered: &Answered, params: &Params) -> [(u64, f64); 4] {
    let levels = [
        (answered.l1, &levels::L1_CYCLES),
        (answered.l2, &levels::L2_CYCLES),
        (answered.llc, &levels::LLC_CYCLES),
        (answered.memory, &levels::MEMORY_CYCLES),
    ];
    levels.map(|(count, key)| (count, price(params, key)))
}

/// This many steps: those that caches answered at their latencies, or all at a fixed price.
fn steps(made: u64, answered: &Answered, params: &Params) -> f64 {
    if answered.total() == 0 {
        return made as f64 * price(params, &keys::WALK_REFERENCE);
    }
    latencies(answered, params).iter().map(|&(count, cycles)| count as f64 * cycles).sum()
}

/// The counters of a part, as its registry has them.
fn counters(name: &str, params: &Params) -> &'static [Counter] {
    counting(name, params).map_or(&[], |part| part.counters)
}

/// What a part costs: waiting, background, counters with a price.
fn cycles_of(name: &str, part: &PartCounts, params: &Params) -> [f64; 3] {
    let memory = &part.memory;
    let waiting = steps(memory.made.steps, &memory.answered, params);
    // Machines with caches make none in the background, and have no price for them.
    let weight = if params.has(BACKGROUND_WEIGHT.name) { price(params, &BACKGROUND_WEIGHT) } else { 0.0 };
    let background = weight * steps(memory.made.background_references, &memory.background_answered, params);
    let priced = counters(name, params)
        .iter()
        .filter_map(|counter| Some(part.counters.get(counter.name) as f64 * price(params, counter.price?)));
    [waiting, background, priced.sum()]
}

/// Cycles of these parts.
fn sum(counts: &TlbCounts, params: &Params, which: impl Fn(&str) -> bool) -> f64 {
    let parts = counts.parts.iter().filter(|(name, _)| which(name));
    parts.map(|(name, part)| cycles_of(name, part, params).iter().sum::<f64>()).sum()
}

/// Parts that are work of the operating system.
const OF_SYSTEM: [&str; 2] = [SHOOTDOWN, numa::COPIES];

/// Whether what a part costs belongs to walks.
fn is_of_walks(name: &str, params: &Params) -> bool {
    walks(name, params) || name == numa::READS
}

/// Cycles of walks, but the fixed ones of a radix tree: of another page table, of both sides of Midgard, of references
/// to other nodes of memory.
pub(super) fn table_cycles(counts: &TlbCounts, params: &Params) -> f64 {
    sum(counts, params, |name| is_of_walks(name, params))
}

/// Cycles of the additions, and of a second level that counts by itself.
pub(super) fn addition_cycles(counts: &TlbCounts, params: &Params) -> f64 {
    sum(counts, params, |name| !is_of_walks(name, params) && !OF_SYSTEM.contains(&name))
}

/// Cycles of the operating system for shootdowns, without interrupts, and for copies of page tables (OSC-4).
pub(super) fn flush_cycles(counts: &TlbCounts, params: &Params) -> f64 {
    sum(counts, params, |name| OF_SYSTEM.contains(&name))
}

/// Cycles of walks for which the program did not wait, since an addition predicted the translation (SPT-4) or read
/// ahead (ASA-3).
pub(super) fn hidden_cycles(counts: &TlbCounts, params: &Params) -> f64 {
    let memory = counts.parts.iter().map(|(_, part)| &part.memory);
    memory.map(|memory| steps(memory.hidden_references, &memory.hidden_answered, params)).sum()
}

/// The lines of the ledger for parts: references, and every counter that is not 0.
pub(super) fn lines(counts: &TlbCounts, params: &Params) -> Vec<LedgerLine> {
    let mut lines = Vec::new();
    let mut add = |item: String, count, unit: &str, cycles: Option<f64>| {
        if count > 0 {
            let cycles = cycles.map(|cycles| cycles.round() as i64);
            lines.push(LedgerLine { item, count, unit: unit.into(), cycles });
        }
    };
    for (name, part) in counts.parts.iter() {
        let [waiting, background, _] = cycles_of(name, part, params);
        let made = &part.memory.made;
        add(format!("{name}: steps of references waited for"), made.steps, "steps", Some(waiting));
        add(format!("{name}: references in these"), made.references, "references", None);
        let behind = made.background_references;
        add(format!("{name}: references in the background"), behind, "references", Some(background));
        let hidden = -steps(part.memory.hidden_references, &part.memory.hidden_answered, params);
        let item = format!("{name}: steps of walks that the program did not wait for");
        add(item, part.memory.hidden_references, "steps", Some(hidden));
        for counter in counters(name, params) {
            let count = part.counters.get(counter.name);
            let cycles = counter.price.map(|key| count as f64 * price(params, key));
            add(format!("{name}: {}", counter.about), count, counter.name, cycles);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_types::counts::MemoryCounts;
    use farreach_types::params::Key;

    const KEYS: &[&Key] = &[
        &keys::WALK_REFERENCE,
        &BACKGROUND_WEIGHT,
        &levels::L1_CYCLES,
        &levels::L2_CYCLES,
        &levels::LLC_CYCLES,
        &levels::MEMORY_CYCLES,
    ];

    fn params(pairs: &[(&str, &str)]) -> Params {
        let given = pairs.iter().map(|(key, value)| (key.to_string(), (*value).into())).collect();
        Params::resolve(KEYS, &given).unwrap()
    }

    /// HW-7: steps at a fixed price or at latencies, the background at its share, hidden walks taken off.
    #[test]
    fn hw_7_prices() {
        let mut counts = TlbCounts::default();
        let part = counts.parts.add("asap", &[]);
        let memory: &mut MemoryCounts = &mut counts.parts.at(part).memory;
        (memory.made.steps, memory.made.references, memory.made.background_references) = (10, 25, 8);
        memory.hidden_references = 3;
        let fixed = params(&[("walk_reference_cycles", "12"), ("background_weight", "0.5")]);
        assert_eq!(addition_cycles(&counts, &fixed), 120.0 + 48.0);
        assert_eq!(hidden_cycles(&counts, &fixed), 36.0);
        let memory = &mut counts.parts.at(part).memory;
        memory.answered = Answered { l2: 9, memory: 1, ..Answered::default() };
        memory.background_answered = Answered { l1: 8, ..Answered::default() };
        let given = [("cache_l1_cycles", "4"), ("cache_l2_cycles", "12"), ("cache_memory_cycles", "200")];
        let caches = params(&[&given[..], &[("background_weight", "1")]].concat());
        assert_eq!(addition_cycles(&counts, &caches), 108.0 + 200.0 + 32.0);
        let item = |name: &str| lines(&counts, &caches).into_iter().find(|line| line.item.contains(name)).unwrap();
        assert_eq!((item("waited for").count, item("waited for").cycles), (10, Some(308)));
        assert_eq!(item("did not wait").cycles, Some(-36));
    }
}
