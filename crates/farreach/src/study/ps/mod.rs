//! PS: what larger base pages bring and cost. The paper's figures are lost; the curves are measured here.

use super::{Cell, Chart, Origin, PAGE_SIZES, Program, Request, Results, Section, Series, Set, Study, Table, What, printed};
use crate::addr::Bytes;
use crate::counts::PageRow;

pub(super) const ITLB: Study = Study {
    id: "ps-itlb",
    title: "Instruction TLB misses by page size, relative to 4 KB",
    rules: "PS-1 to PS-3, PS-10, CW-8",
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
        let two = set.programs.iter().flat_map(|p| [TWO_SIZES, ONE_SIZE].map(|m| Request::machine(&p.name, m)));
        two.chain(plan(&Results::default(), set)).collect()
    },
    section: advice,
};

/// 16 KB and 256 KB pages where a region of that size is fully used, 4 KB elsewhere; the TLBs of PS-1.
pub(super) const TWO_SIZES: &str = "t94/superpage:sizes=4K+16K+256K,region=256K,promote=16K+256K,threshold_file=1.0,threshold_nfs=1.0,split=true,replacement=lru";
/// 4 KB pages, the TLBs of PS-1.
pub(super) const ONE_SIZE: &str = "t94/single:split=true,replacement=lru";

/// Everything but the policies comes from one pass.
fn plan(_: &Results, set: &Set) -> Vec<Request> {
    set.programs.iter().map(|p| Request { program: p.name.clone(), what: What::PageSizes }).collect()
}

/// The row of a page size.
pub(super) fn row<'a>(results: &'a Results, program: &str, size: u64) -> Option<&'a PageRow> {
    results.page_sizes(program)?.rows.iter().find(|r| r.counts.page_size == size)
}

/// The program's code is larger than what 64 entries for 4 KB map, so that the instruction TLB has something to do.
pub(super) fn has_code(results: &Results, program: &Program) -> Option<bool> {
    Some(row(results, &program.name, 4096)?.counts.code_bytes > 64 * 4096)
}

/// What a column says of a page size.
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
    let mut table = Table::new("Misses of both TLBs, and peak memory, 4 KB = 1", "program");
    for name in ["16K", "256K", "16K and 256K"] {
        table.column(name, Origin::Measured, "x misses");
        table.column(name, Origin::Measured, "x memory");
    }
    let mut texts = Table::new("What the numbers of each program speak for", "program");
    texts.column("page size", Origin::Measured, "");
    for p in &set.programs {
        let one = |size| ratios(results, &p.name, size);
        let two = two_sizes(results, &p.name);
        let cells =
            [one(16 << 10), one(256 << 10), two].into_iter().flat_map(|r| [r.map(|r| r.0).into(), r.map(|r| r.1).into()]);
        table.row(&p.name, cells.collect());
        let text = results.page_sizes(&p.name).and_then(|r| r.advice.as_ref()).map_or("", |a| a.text.as_str());
        texts.row(&p.name, vec![Cell::from(text)]);
    }
    section.tables = vec![table, texts];
    section.note(format!(
        "16K and 256K: base pages of 4 KB that become pages of 16 KB and 256 KB where such a region is fully used ({TWO_SIZES}), against \
         4 KB pages on the same system; each base page must miss once before its region is promoted."
    ));
}

/// Misses and peak memory at one page size for all, relative to 4 KB.
pub(super) fn ratios(results: &Results, program: &str, size: u64) -> Option<(f64, f64)> {
    let (base, here) = (&row(results, program, 4096)?.counts, &row(results, program, size)?.counts);
    let misses = |c: &crate::counts::PageCounts| (c.fetch_misses + c.data_misses) as f64;
    (misses(base) > 0.0 && base.peak_bytes > 0)
        .then(|| (misses(here) / misses(base), here.peak_bytes as f64 / base.peak_bytes as f64))
}

/// The same for two sizes.
pub(super) fn two_sizes(results: &Results, program: &str) -> Option<(f64, f64)> {
    let (base, here) = (results.machine(program, ONE_SIZE)?, results.machine(program, TWO_SIZES)?);
    let (misses, memory) = (base.counts.tlb.misses as f64, base.memory.resident_bytes as f64);
    let ratio = (here.counts.tlb.misses as f64 / misses, here.memory.resident_bytes as f64 / memory);
    (misses > 0.0 && memory > 0.0).then_some(ratio)
}
