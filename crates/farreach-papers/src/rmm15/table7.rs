//! Table 7: ranges under demand and under eager paging, the cost of eager paging, and memory that other programs have
//! used before.

use super::table2::contiguity;
use super::*;
use crate::results::THEN;
use farreach_types::counts::Contiguity;
use large::{RMM_4K, RMM_OFF, RMM_THP};

pub(crate) const STUDY: Study = Study {
    id: "rmm15-table7",
    title: "Ranges under demand and eager paging, and the cost in time and memory",
    rules: "RMM15-24, RMM15-25, RMM15-43, RMM15-45, CW-12, CW-13",
    plan: |results, set| {
        let mut wanted = large::grid(set.large.iter(), &[RMM_4K, RMM_THP, RMM_OFF]);
        for p in &set.large {
            let Some(scaled) = scaled_off(results, &p.name) else { continue };
            wanted.push(Request::machine(&p.name, scaled.as_str()));
            wanted.extend(aged(set, p).map(|[chain, _]| Request::machine(&chain, scaled)));
        }
        wanted
    },
    section,
};

/// Largest block of the buddy allocator beside the footprint, in the paper: 2 GB of some 64 GB.
const BLOCKS: u64 = 32;

/// Orders of a buddy allocator whose largest block has the same ratio to the memory of this program as 2 GB have to
/// that of the paper's big-memory programs. At least the order of 1 MB.
pub(crate) fn scaled_orders(results: &Results, program: &str) -> Option<u64> {
    let pages = contiguity(results, program, RMM_OFF)?.mapped_pages;
    Some((pages / BLOCKS).max(1).ilog2().clamp(8, 19) as u64 + 1)
}

/// Eager paging with blocks scaled in this way.
pub(crate) fn scaled_off(results: &Results, program: &str) -> Option<String> {
    Some(format!("{RMM_OFF},max_order={}", scaled_orders(results, program)?))
}

/// The program after two others on the same memory, and these two alone. The two use less memory than the program, so
/// that the census shows the program's own ranges. `None` for programs without a claim, and if the other two are
/// missing.
pub(crate) fn aged(set: &Set, program: &Program) -> Option<[String; 2]> {
    let before = AGED.iter().find(|(name, _)| *name == program.name)?.1;
    let there = |name: &str| set.large.iter().any(|p| p.name == name);
    let two = before.join(THEN);
    before.iter().all(|name| there(name)).then(|| [format!("{two}{THEN}{}", program.name), two])
}

/// Programs, and the two that run before each.
const AGED: [(&str, [&str; 2]); 3] =
    [("gups", ["anneal", "stencil"]), ("kv", ["suffix", "simplex"]), ("spmv", ["event-queue", "cluster"])];

/// Cycles of a run: instructions, page walks, operating system.
fn cycles(results: &Results, program: &str, machine: &str) -> Option<(f64, f64)> {
    let found = results.machine(program, machine)?;
    Some((large::measured(results, program, machine)?.cycles, found.cost.os_cycles as f64))
}

/// Growth in percent of the time of operating system and program together, eager against demand, both with 4 KB pages.
pub(crate) fn time(results: &Results, program: &str) -> Option<f64> {
    let ((run, demand), (_, eager)) = (cycles(results, program, RMM_4K)?, cycles(results, program, RMM_OFF)?);
    Some(100.0 * (eager - demand) / (run + demand))
}

/// Growth in percent of memory in use, eager against demand paging.
pub(crate) fn memory(results: &Results, program: &str) -> Option<f64> {
    let resident = |machine| Some(results.machine(program, machine)?.memory.resident_bytes as f64);
    Some(100.0 * (resident(RMM_OFF)? / resident(RMM_4K)? - 1.0))
}

/// Share of the mapped pages in ranges, and the mean size of these.
pub(crate) fn shares(c: &Contiguity) -> (f64, f64) {
    (100.0 * c.range_pages as f64 / c.mapped_pages.max(1) as f64, c.range_pages as f64 / c.ranges.max(1) as f64)
}

fn statistics(c: Option<&Contiguity>) -> [Cell; 5] {
    let (share, mean) = (c.map(|c| shares(c).0), c.map(|c| shares(c).1));
    [
        c.map(|c| c.ranges).into(),
        share.into(),
        c.map(|c| c.median_pages).into(),
        mean.into(),
        c.map(|c| c.largest_pages).into(),
    ]
}

const NAMES: [(&str, &str); 5] =
    [("ranges", "entries"), ("of memory", "%"), ("median", "pages"), ("mean", "pages"), ("largest", "pages")];

fn section(results: &Results, set: &Set, section: &mut Section) {
    let paper = printed::table("rmm15_table7");
    for (title, machine, prefix) in [
        ("Demand paging, transparent huge pages included", RMM_THP, "dp"),
        ("Eager paging, blocks up to 2 GB", RMM_OFF, "ep"),
    ] {
        let mut table = Table::new(title, "program");
        NAMES.iter().for_each(|(name, unit)| {
            table.column(*name, Origin::Measured, unit);
            table.column(*name, Origin::Printed, unit);
        });
        for Stand { program, head, row } in stands(set.large.iter(), &paper) {
            let found = statistics(contiguity(results, &program.name, machine));
            let columns =
                ["ranges", "pct_mem", "median", "avg", "max"].map(|c| paper.cell(&row, &format!("{prefix}_{c}")));
            table.row(head, found.into_iter().zip(columns).flat_map(|(a, b)| [a, b]).collect());
        }
        section.tables.push(table);
    }
    let mut cost = Table::new("Cost of eager paging", "program");
    for name in ["time", "memory"] {
        cost.column(name, Origin::Measured, "%");
        cost.column(name, Origin::Printed, "%");
    }
    for Stand { program, head, row } in stands(set.large.iter(), &paper) {
        let name = &program.name;
        let [t, m] = ["time_overhead_pct", "mem_overhead_pct"].map(|c| paper.cell(&row, c));
        cost.row(head, vec![time(results, name).into(), t, memory(results, name).into(), m]);
    }
    section.tables.push(cost);
    let mut scaled = Table::new(
        "Eager paging, blocks scaled like the footprint: fresh memory, and after two other programs",
        "program",
    );
    scaled.column("largest block", Origin::Computed, "pages");
    NAMES.iter().for_each(|(name, unit)| scaled.column(format!("fresh: {name}"), Origin::Measured, unit));
    scaled.column("aged: after", Origin::Computed, "");
    NAMES.iter().for_each(|(name, unit)| scaled.column(format!("aged: {name}"), Origin::Measured, unit));
    for p in &set.large {
        let (Some(orders), Some(machine)) = (scaled_orders(results, &p.name), scaled_off(results, &p.name)) else {
            continue;
        };
        let chain = aged(set, p);
        let mut cells = vec![Cell::Count(1 << (orders - 1))];
        cells.extend(statistics(contiguity(results, &p.name, &machine)));
        cells.push(chain.as_ref().map_or("", |c| &c[1]).into());
        cells.extend(statistics(chain.and_then(|[c, _]| contiguity(results, &c, &machine).cloned()).as_ref()));
        scaled.row(&p.name, cells);
    }
    section.tables.push(scaled);
    section.note(
        "Ranges of 8 pages and more, of the address space that had most pages, when it had most. Time is the run with \
         4 KB pages and the work of the operating system, at stated prices (2000 cycles for a fault, 1024 to fill a \
         page with zeros): no data cache is simulated, so the effects of physical placement on cache sets, which the \
         paper names for GemsFDTD, cannot show.",
    );
    section.note(
        "The paper's memory had been used by programs one after the other, with blocks of at most 2 GB, a thirtieth of \
         its big programs. The last table scales the largest block by footprint (a thirty-second of it, at least 1 MB) \
         and runs programs after two others on the same memory.",
    );
    section.note(large::SCALED);
    paper.doubts().for_each(|d| section.note(d));
}
