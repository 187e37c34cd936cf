//! The prices behind the numbers of a table: keys of machines, named once where all machines agree.

use super::view::config_value;
use farreach_types::counts::MachineResult;

/// A text with the value of a key, if it is the same for all machines that the key concerns; with the name of the key
/// if values differ; nothing if it concerns no machine.
pub(super) fn among(
    machines: &[MachineResult],
    concerns: &dyn Fn(&MachineResult) -> bool,
    name: &str,
    words: &str,
    number: &str,
) -> String {
    let values: Vec<_> = machines.iter().filter(|m| concerns(m)).filter_map(|m| m.config.get(name)).collect();
    match values.split_first() {
        Some((v, rest)) if rest.iter().all(|other| other == v) => format!("{words}{number} {}", config_value(v)),
        Some(_) => format!("{words} each design's own `{name}`"),
        None => String::new(),
    }
}

/// The footnote of *miss cycles*: all prices they contain.
pub(super) fn miss_cycles(machines: &[MachineResult]) -> String {
    let walks = |m: &MachineResult| m.counts.tlb.walk.walks > 0;
    let price =
        |concerns: &dyn Fn(&MachineResult) -> bool, name: &str, words: &str| among(machines, concerns, name, words, "");
    let by_caches = |m: &MachineResult| walks(m) && m.config.get("walk_cost").is_some_and(|how| how == "caches");
    let with_caches = machines.iter().any(|m| m.system.is_some());
    // Beside the penalty; prices of events that did not happen are left out.
    let prices: Vec<String> = [
        // A hardware walk has a price for each node, or the latency of caches.
        price(&|m| walks(m) && !by_caches(m), "walk_reference_cycles", "node of a page walk"),
        if machines.iter().any(by_caches) { "node of a page walk as caches answer".into() } else { String::new() },
        price(&|m| m.counts.tlb.second_level_fetch_hits > 0, "l2_hit_fetch_cycles", "second-level hit of a fetch"),
        price(
            &|m| m.counts.tlb.second_level_data_hits > 0,
            "l2_hit_data_cycles",
            "second-level hit of a load or store",
        ),
        price(
            &|m| m.config.get("l2_shared").is_some_and(|is| *is == true) && m.config["cores"] != 1,
            "sll_extra",
            "way to a shared second level",
        ),
        price(&|m| m.counts.tlb.range.sole_hits > 0, "range_hit_cycles", "hit of a range alone"),
        price(&|m| m.counts.tlb.extra_pte_reads > 0, "pte_cost", "further page table entry read"),
        if with_caches { "behind virtual caches, what handlers and caches take".into() } else { String::new() },
    ]
    .into_iter()
    .filter(|words| !words.is_empty())
    .collect();
    format!(
        "miss cycles: spent on TLB misses{}.{}",
        among(machines, &|m| !walks(m), "penalty", ", at", " a penalty in cycles of"),
        if prices.is_empty() { String::new() } else { format!("\n    In cycles: {}.", prices.join("; ")) }
    )
}
