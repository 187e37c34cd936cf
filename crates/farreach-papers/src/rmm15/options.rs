//! Switches of the design: blocks of the allocator, order of lookup, range bit, pointer to the last range, threshold.

use super::table2::contiguity;
use super::table7::{aged, scaled_off, scaled_orders};
use super::*;
use large::{RMM_OFF, RMM_RANGE, data_misses};

pub(crate) const STUDY: Study = Study {
    id: "rmm15-options",
    title: "Switches: blocks, order of lookup, range bit, last range first, threshold",
    rules: "RMM15-6, RMM15-10, RMM15-20, RMM15-25, RMM15-27, AMB-89",
    plan: |results, set| {
        let machines = [RMM_OFF, RMM_RANGE, SERIAL, ALWAYS, LAST_FIRST, THRESHOLD_1, STOCK];
        let mut wanted = large::grid(set.large.iter(), &machines);
        for p in &set.large {
            if let Some(off) = scaled_off(results, &p.name) {
                let chain = aged(set, p).map(|[chain, _]| chain);
                wanted.extend(chain.iter().flat_map(|c| [RMM_OFF, STOCK].map(|m| Request::machine(c, m))));
                let places = [Some(p.name.clone()), chain];
                let all = ENHANCED.map(|e| format!("{off}{e}"));
                wanted
                    .extend(places.iter().flatten().flat_map(|c| all.iter().map(|m| Request::machine(c, m.as_str()))));
            }
        }
        wanted
    },
    section,
};

/// The range TLB is looked up after the second level, which takes all fills: the paper's emulation.
pub(crate) const SERIAL: &str = "rmm15/range:range_order=serial";
/// Every walk searches the range table.
pub(crate) const ALWAYS: &str = "rmm15/range:range_hint=always";
/// The range used last is checked first.
pub(crate) const LAST_FIRST: &str = "rmm15/range:mru_pointer=true";
/// Every mapped page is in a range.
pub(crate) const THRESHOLD_1: &str = "rmm15/range:range_threshold=1";
/// The stock allocator: blocks up to 4 MB.
pub(crate) const STOCK: &str = "rmm15/range:range_tlb=false,max_order=11";
/// Options that the paper did not build (RMM15-27): blocks by address, remainders carved from larger blocks, both.
pub(crate) const ENHANCED: [&str; 4] = ["", ",address_ordered=true", ",carve=true", ",address_ordered=true,carve=true"];

/// Fresh memory, and memory that others have used: the program alone, and after two others.
pub(crate) fn places(set: &Set, program: &Program) -> impl Iterator<Item = String> {
    let chain = aged(set, program).map(|[chain, _]| chain);
    [Some(program.name.clone()), chain].into_iter().flatten()
}

/// Ranges with scaled blocks and one of [`ENHANCED`], on fresh memory or after two other programs.
pub(crate) fn enhanced(results: &Results, program: &str, place: &str, which: usize) -> Option<u64> {
    let machine = format!("{}{}", scaled_off(results, program)?, ENHANCED[which]);
    Some(contiguity(results, place, &machine)?.ranges)
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let mut hardware = Table::new("Hardware: 32 ranges, fresh memory", "program");
    for (name, unit) in [
        ("walks", "misses"),
        ("walks, serial", "misses"),
        ("searches of the range table", "walks"),
        ("in vain", "walks"),
        ("without range bit, in vain", "walks"),
        ("answered by the range used last", "%"),
        ("ranges, threshold 8", "entries"),
        ("ranges, threshold 1", "entries"),
        ("walks, threshold 1", "misses"),
    ] {
        hardware.column(name, Origin::Measured, unit);
    }
    for p in &set.large {
        let counts = |machine: &str| results.machine(&p.name, machine).map(|m| &m.counts.tlb.range);
        let ranges = |machine: &str| contiguity(results, &p.name, machine).map(|c| c.most_ranges);
        hardware.row(
            &p.name,
            vec![
                data_misses(results, &p.name, RMM_RANGE).into(),
                data_misses(results, &p.name, SERIAL).into(),
                counts(RMM_RANGE).map(|c| c.walks).into(),
                counts(RMM_RANGE).map(|c| c.wasted_walks).into(),
                counts(ALWAYS).map(|c| c.wasted_walks).into(),
                last_first(results, &p.name).into(),
                ranges(RMM_RANGE).into(),
                ranges(THRESHOLD_1).into(),
                data_misses(results, &p.name, THRESHOLD_1).into(),
            ],
        );
    }
    section.tables.push(hardware);
    let mut blocks = Table::new("Ranges by allocator: blocks scaled like the footprint, as in rmm15-table7", "program");
    blocks.column("largest block", Origin::Computed, "pages");
    for name in ["as in the paper", "by address", "carved", "both"] {
        blocks.column(name, Origin::Measured, "entries");
    }
    for p in &set.large {
        let Some(orders) = scaled_orders(results, &p.name) else { continue };
        for place in places(set, p) {
            let mut cells = vec![Cell::Count(1 << (orders - 1))];
            cells.extend((0..ENHANCED.len()).map(|i| Cell::from(enhanced(results, &p.name, &place, i))));
            blocks.row(place, cells);
        }
    }
    section.tables.push(blocks);
    section.note(
        "By address: free blocks are taken from the lowest address on (RMM15-27a). Carved: the remainder of a request \
         comes from one larger block (RMM15-27b).",
    );
}

/// Lookups of the range TLB that the range used last answers, in percent.
pub(crate) fn last_first(results: &Results, program: &str) -> Option<f64> {
    let c = &results.machine(program, LAST_FIRST)?.counts.tlb.range;
    let lookups = c.mru_hits + c.full_searches;
    (lookups > 0).then(|| 100.0 * c.mru_hits as f64 / lookups as f64)
}
