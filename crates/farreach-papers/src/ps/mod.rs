//! PS: gains and costs of larger base pages. The paper's figures are lost; the curves are measured here.

use super::printed;
use crate::results::{PAGE_SIZES, Request, Results, Set, What};
use crate::study::Study;
use farreach_types::addr::Bytes;
use farreach_types::counts::PageRow;
use farreach_types::papers::{Cell, Chart, Origin, Program, Section, Series, Table};

pub(super) const ITLB: Study = Study {
    id: "ps-itlb",
    title: "Instruction TLB misses by page size, relative to 4 KB",
    rules: "PS-1 to PS-3, PS-10, AMB-31, CW-8",
    plan,
    section: |results, set, section| {
        sweep(results, set, section, &[("instruction TLB misses", |r| r.relative.relative_fetch_misses)]);
        claims(section, &["PS-c4", "PS-c6"]);
    },
};

pub(super) const DTLB: Study = Study {
    id: "ps-dtlb",
    title: "Data TLB misses by page size, relative to 4 KB",
    rules: "PS-1 to PS-3, PS-10, AMB-34, CW-8",
    plan,
    section: |results, set, section| {
        sweep(results, set, section, &[("data TLB misses", |r| r.relative.relative_data_misses)]);
        claims(section, &["PS-c8", "PS-c9", "PS-c10"]);
    },
};

pub(super) const MEMORY: Study = Study {
    id: "ps-memory",
    title: "Memory by page size, relative to 4 KB",
    rules: "PS-5, PS-7, PS-10, AMB-30, CW-8",
    plan,
    section: |results, set, section| {
        sweep(
            results,
            set,
            section,
            &[
                ("code", |r| r.relative.relative_code_memory.map(|g| 1.0 + g)),
                ("data", |r| r.relative.relative_data_memory.map(|g| 1.0 + g)),
                ("code and data", |r| r.relative.relative_memory.map(|g| 1.0 + g)),
            ],
        );
        claims(section, &["PS-c5", "PS-c7", "PS-c11"]);
    },
};

pub(super) const ADVICE: Study = Study {
    id: "ps-advice",
    title: "Which sizes: one size for all, or two",
    rules: "PS-6, PS-11, PS-14, AMB-33",
    plan: |_, set| {
        let machines =
            set.programs.iter().flat_map(|p| [BASE, SMALL, LARGE, TWO_SIZES].map(|m| Request::machine(&p.name, m)));
        machines.chain(plan(&Results::default(), set)).collect()
    },
    section: advice,
};

/// Base pages of 4 KB, the TLBs of PS-1.
const BASE: &str = "ps/4k";
/// Base pages of 16 KB.
pub(super) const SMALL: &str = "ps/16k";
/// Base pages of 256 KB.
const LARGE: &str = "ps/256k";
/// Base pages of 16 KB, pages of 256 KB for large data objects (PS-14).
pub(super) const TWO_SIZES: &str = "ps/two-size";

/// All results except the policies come from one pass.
fn plan(_: &Results, set: &Set) -> Vec<Request> {
    set.programs.iter().map(|p| Request { program: p.name.clone(), what: What::PageSizes }).collect()
}

/// The row of a page size.
pub(super) fn row<'a>(results: &'a Results, program: &str, size: u64) -> Option<&'a PageRow> {
    results.page_sizes(program)?.rows.iter().find(|r| r.counts.page_size == size)
}

/// The program's code is larger than 64 entries of 4 KB can map, so that the instruction TLB has misses.
pub(super) fn has_code(results: &Results, program: &Program) -> Option<bool> {
    Some(row(results, &program.name, 4096)?.counts.code_bytes > 64 * 4096)
}

/// The value of a column for a page size.
type Read = fn(&PageRow) -> Option<f64>;

fn sweep(results: &Results, set: &Set, section: &mut Section, what: &[(&str, Read)]) {
    for &(name, read) in what {
        let mut table = Table::new(&format!("{name}, 4 KB = 1"), "program");
        let mut chart = Chart {
            title: name.into(),
            x: "page size".into(),
            places: PAGE_SIZES.map(|s| Bytes(s).to_string()).into(),
            y: format!("{name}, 4 KB = 1"),
            series: Vec::new(),
        };
        PAGE_SIZES.iter().for_each(|&s| table.column(Bytes(s).to_string(), Origin::Measured, "x"));
        for p in &set.programs {
            let values: Vec<Option<f64>> = PAGE_SIZES.iter().map(|&s| read(row(results, &p.name, s)?)).collect();
            table.row(&p.name, values.iter().map(|&v| Cell::from(v)).collect());
            chart.series.push(Series { name: p.name.clone(), values });
        }
        section.tables.push(table);
        section.charts.push(chart);
    }
    let small: Vec<&str> =
        set.programs.iter().filter(|p| has_code(results, p) == Some(false)).map(|p| p.name.as_str()).collect();
    if !small.is_empty() && section.id != "ps-dtlb" {
        section.note(format!(
            "The code of {} fits the 64 entries at 4 KB: these say nothing about instruction TLBs or code memory.",
            small.join(", ")
        ));
    }
}

/// What the paper says about it: its curves are lost.
fn claims(section: &mut Section, ids: &[&str]) {
    let paper = printed::table("ps_claims");
    for id in ids {
        section.note(format!("Paper, {id}: {}: {}.", paper.text(id, "statement"), paper.text(id, "value")));
    }
}

fn advice(results: &Results, set: &Set, section: &mut Section) {
    let mut table = Table::new("Misses of both TLBs, and most memory resident, 4 KB = 1", "program");
    let machines = [("16K", SMALL), ("256K", LARGE), ("16K and 256K", TWO_SIZES)];
    for (name, _) in machines {
        table.column(name, Origin::Measured, "x misses");
        table.column(name, Origin::Measured, "x memory");
    }
    let mut texts = Table::new("What the numbers of each program speak for", "program");
    texts.column("page size", Origin::Measured, "");
    for p in &set.programs {
        let cells = machines.iter().map(|(_, machine)| ratios(results, &p.name, machine));
        table.row(&p.name, cells.flat_map(|r| [r.map(|r| r.0).into(), r.map(|r| r.1).into()]).collect());
        let text = results.page_sizes(&p.name).and_then(|r| r.advice.as_ref()).map_or("", |a| a.text.as_str());
        texts.row(&p.name, vec![Cell::from(text)]);
    }
    section.tables = vec![table, texts];
    section.note(format!(
        "16K and 256K is {TWO_SIZES}: base pages of 16 KB, and pages of 256 KB in objects of data of at least that \
         size. 16K and 256K alone are {SMALL} and {LARGE}, 4 KB is {BASE}; all have the same TLBs."
    ));
}

/// Misses and the most memory resident of a machine, relative to base pages of 4 KB.
pub(super) fn ratios(results: &Results, program: &str, machine: &str) -> Option<(f64, f64)> {
    let of = |machine| {
        let found = results.machine(program, machine)?;
        Some((found.counts.tlb.misses as f64, found.memory.resident_bytes as f64))
    };
    let ((misses, memory), here) = (of(BASE)?, of(machine)?);
    (misses > 0.0 && memory > 0.0).then_some((here.0 / misses, here.1 / memory))
}
