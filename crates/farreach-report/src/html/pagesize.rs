//! The page of the page-size study.

use super::lines::{Across, Line, chart, fit};
use super::scale::Scale;
use super::scatter::{Dot, fit as fit_dots, scatter};
use super::{Head, document};
use crate::format::{NONE, bytes, count, counted, grouped, rate};
use crate::view::cleaned_study;
use farreach_types::addr::Bytes;
use farreach_types::counts::{FrontierPoint, PageCounts, PagePhase, PageRow, PageSizeResult, PhaseSize, Relative};
use maud::{Markup, html};

const MIB: f64 = (1u64 << 20) as f64;

/// The page.
pub fn render(result: &PageSizeResult) -> String {
    let result = &cleaned_study(result);
    let about = counted(result.rows.len() as u64, "page size");
    let nothing = "Nothing was looked up, so no page size is better than another.";
    let headline = headline(result);
    let title = headline.as_deref().unwrap_or(nothing);
    document(
        &Head::program(&result.workload, &about, title),
        &html! {
            @if let Some(advice) = &result.advice { p.lead { (advice.rule) } }
            (misses(result))
            (memory(result))
            @if !result.phases.is_empty() { (phases(result)) }
            (against(result))
            (entries(result, "fetches", |c| &c.fetch_misses_by_entries))
            (entries(result, "loads and stores", |c| &c.data_misses_by_entries))
            (numbers(result))
            (reading(result))
        },
    )
}

fn sizes(result: &PageSizeResult) -> Across {
    Across::Names(size_names(result))
}

fn size_names(result: &PageSizeResult) -> Vec<String> {
    result.rows.iter().map(|row| Bytes(row.counts.page_size).to_string()).collect()
}

fn line(result: &PageSizeResult, name: &str, of: impl Fn(&PageCounts) -> f64) -> Line {
    Line { name: name.to_owned(), values: result.rows.iter().map(|row| of(&row.counts)).collect() }
}

fn misses(result: &PageSizeResult) -> Markup {
    let lines = [
        line(result, "fetch misses", |c| c.fetch_misses as f64),
        line(result, "data misses", |c| c.data_misses as f64),
    ];
    let lead = html! {
        "Two true-LRU TLBs, " (result.entries) " entries for fetches and " (result.entries)
        " for loads and stores. Each page size counts as if all memory had it."
    };
    chart("Misses by page size", &lead, &sizes(result), "page size", fit(&lines), &lines)
}

fn memory(result: &PageSizeResult) -> Markup {
    let mib = |name: &str, of: fn(&PageCounts) -> u64| line(result, name, |c| of(c) as f64 / MIB);
    let lines = [
        mib("total", |c| c.total_bytes),
        mib("data", |c| c.data_bytes),
        mib("code", |c| c.code_bytes),
        mib("to be written back", |c| c.write_back_bytes),
    ];
    let most = lines.iter().flat_map(|l| &l.values).fold(0.0, |m: f64, v| m.max(*v));
    let tables = |row: Option<&PageRow>| row.map_or(0, |r| r.counts.page_table_bytes);
    let lead = html! {
        "MiB of distinct pages ever touched, whole pages of each size. A page with code and data counts in both, and "
        "once in the total. Page tables shrink from " (bytes(tables(result.rows.first()))) " to "
        (bytes(tables(result.rows.last()))) "."
    };
    chart("Memory by page size, MiB", &lead, &sizes(result), "page size", Scale::linear(most * 1.04), &lines)
}

fn entries(result: &PageSizeResult, side: &str, of: fn(&PageCounts) -> &Vec<u64>) -> Markup {
    let lines: Vec<Line> = (result.rows.iter())
        .map(|row| Line {
            name: Bytes(row.counts.page_size).to_string(),
            values: of(&row.counts).iter().map(|&n| n as f64).collect(),
        })
        .collect();
    let places = Across::Names(result.entry_counts.iter().map(ToString::to_string).collect());
    let lead = html! { "Misses of " (side) " in a true-LRU TLB of every number of entries, a line per page size." };
    chart(&format!("Misses of {side} by entries"), &lead, &places, "entries", fit(&lines), &lines)
}

/// Misses and working sets over time, a line per page size.
fn phases(result: &PageSizeResult) -> Markup {
    let lines = |of: fn(&PhaseSize) -> f64| -> Vec<Line> {
        let values = |i: usize| result.phases.iter().map(|phase| of(&phase.sizes[i])).collect();
        size_names(result).into_iter().enumerate().map(|(i, name)| Line { name, values: values(i) }).collect()
    };
    let end = |so_far: &mut u64, phase: &PagePhase| {
        *so_far += phase.instructions;
        Some(*so_far as f64)
    };
    let across = Across::Numbers(result.phases.iter().scan(0, end).collect());
    let misses = lines(|size| (size.fetch_misses + size.data_misses) as f64);
    let sets = lines(|size| size.total_bytes as f64 / MIB);
    let lead = html! { "Fetch and data misses of each phase, at its end." };
    let set_lead = html! { "MiB of distinct pages that each phase touches, whole pages of each size." };
    html! {
        (chart("Misses by phase", &lead, &across, "instructions", fit(&misses), &misses))
        (chart("Working set by phase, MiB", &set_lead, &across, "instructions", fit(&sets), &sets))
    }
}

/// Misses against memory, page sizes and policies.
fn against(result: &PageSizeResult) -> Markup {
    let points = result.points();
    let dot = |(design, p): (usize, &'_ FrontierPoint)| {
        let tip = format!("{}: {} misses, {}", p.name, grouped(p.misses), bytes(p.peak_bytes));
        (design, p.peak_bytes as f64 / MIB, p.misses as f64, tip)
    };
    let dots: Vec<Dot> = (points.iter().enumerate().map(dot))
        .map(|(design, x, y, tip)| Dot { design, name: &points[design].name, x, y, tip })
        .collect();
    let (x, y) = fit_dots(&dots);
    html! {
        section {
            h2 { "Misses against memory" }
            p.lead {
                "Fetch and data misses together, and the most memory allocated at any time. Left is less memory, low "
                "is fewer misses; on the dotted steps stands what nothing else beats in both"
                @if y.is_log() { "; misses are logarithmic" } "."
            }
            (scatter("misses against memory", "memory at the peak, MiB", (x, y), &dots))
        }
    }
}

/// The advice in a sentence, with rounded numbers; the text of the result has all digits.
fn headline(result: &PageSizeResult) -> Option<String> {
    let advice = result.advice.as_ref()?;
    let base = &result.rows.first()?.counts;
    let at = result.rows.iter().position(|row| row.counts.page_size == advice.page_size)?;
    let best = &result.rows[at].counts;
    let name = |c: &PageCounts| format!("{} pages", Bytes(c.page_size));
    let percent = |ratio: f64| format!("{}\u{a0}%", rate(100.0 * ratio));
    let growth = |c: &PageCounts| percent(c.total_bytes as f64 / base.total_bytes.max(1) as f64 - 1.0);
    let of_base = |c: &PageCounts| match base.misses() {
        0 => "as many misses (none)".to_owned(),
        all => format!("{} of the misses", percent(c.misses() as f64 / all as f64)),
    };
    let mut text = if at == 0 {
        let misses = counted(base.misses(), "miss");
        let allowed = percent(advice.memory_allowed);
        format!(
            "{}: {misses} in {}; no larger size saves any within {allowed} more memory",
            name(base),
            bytes(base.total_bytes)
        )
    } else {
        format!(
            "{}: {} of {} ({} against {}) for {} more memory ({} against {})",
            name(best),
            of_base(best),
            name(base),
            count(best.misses()),
            count(base.misses()),
            growth(best),
            bytes(best.total_bytes),
            bytes(base.total_bytes)
        )
    };
    if let Some(next) = result.rows.get(at + 1).map(|row| &row.counts) {
        text += &format!("; {} would have {} for {} more", name(next), of_base(next), growth(next));
    }
    Some(text + ".")
}

/// A name and where its value is.
type Field<T, V> = (&'static str, fn(&T) -> V);

/// The heads of the table of machines.
const MACHINE_COLUMNS: [&str; 5] =
    ["machine beside", "fetch misses", "data misses", "miss cycles", "resident at the peak"];

/// Every number, exact.
fn numbers(result: &PageSizeResult) -> Markup {
    let rows = &result.rows;
    let counted: [Field<PageCounts, u64>; 11] = [
        ("fetch_lookups", |c| c.fetch_lookups),
        ("data_lookups", |c| c.data_lookups),
        ("fetch_misses", |c| c.fetch_misses),
        ("data_misses", |c| c.data_misses),
        ("code_bytes", |c| c.code_bytes),
        ("data_bytes", |c| c.data_bytes),
        ("total_bytes", |c| c.total_bytes),
        ("allocated_bytes", |c| c.allocated_bytes),
        ("peak_bytes", |c| c.peak_bytes),
        ("page_table_bytes", |c| c.page_table_bytes),
        ("write_back_bytes", |c| c.write_back_bytes),
    ];
    let ratios: [Field<Relative, Option<f64>>; 5] = [
        ("fetch misses, % of the first", |r| r.relative_fetch_misses),
        ("data misses, % of the first", |r| r.relative_data_misses),
        ("more memory for code, %", |r| r.relative_code_memory),
        ("more memory for data, %", |r| r.relative_data_memory),
        ("more memory, %", |r| r.relative_memory),
    ];
    html! {
        section {
            h2 { "All numbers" }
            p.lead { "Counts are exact; names are those of the JSON and CSV reports." }
            div.scroll {
                table.numbers {
                    thead { tr { th scope="col" {} @for name in size_names(result) { th scope="col" { (name) } } } }
                    tbody {
                        @for (name, of) in counted {
                            tr {
                                th scope="row" { code { (name) } }
                                @for row in rows { td.even[of(&row.counts) == 0] { (grouped(of(&row.counts))) } }
                            }
                        }
                        @for (name, of) in ratios {
                            tr {
                                th scope="row" { (name) }
                                @for row in rows {
                                    td { (of(&row.relative).map_or_else(|| NONE.into(), |x| rate(100.0 * x))) }
                                }
                            }
                        }
                    }
                }
            }
            @if !result.policies.is_empty() {
                div.scroll {
                    table.numbers {
                        thead { tr { @for head in MACHINE_COLUMNS { th scope="col" { (head) } } } }
                        tbody {
                            @for m in &result.policies {
                                tr {
                                    th scope="row" { (m.name) }
                                    td { (grouped(m.counts.tlb.fetch_misses)) }
                                    td { (grouped(m.counts.tlb.data_misses)) }
                                    td { (count(m.cost.cycles)) }
                                    td { (grouped(m.memory.resident_bytes)) }
                                }
                            }
                        }
                    }
                }
            }
            p.note {
                "Seed of everything random: " (result.workload.seed) ". Result schema: " code { (result.schema) } "."
            }
        }
    }
}

fn reading(result: &PageSizeResult) -> Markup {
    html! {
        section.reading {
            h2 { "How to read this" }
            dl {
                dt { "Lookup, miss" }
                dd {
                    "Each reference makes one lookup in the TLB of its side for every page of that size it touches. "
                    "The TLBs are fully associative and replace the least recently used entry."
                }
                dt { "Memory" }
                dd {
                    "A page is allocated whole at its first touch. It stays until no touched part of it is "
                    "mapped any more; touched again, it is allocated again (" code { "allocated_bytes" }
                    "). Pages of different processes are different pages."
                }
                dt { "Page tables" }
                dd { "A radix tree of 4 KB nodes with 512 entries, as on x86-64, as deep as 48-bit addresses need." }
                dt { "To be written back" }
                dd { "There is one dirty bit per page: one byte stored makes the whole page dirty." }
                @if !result.policies.is_empty() {
                    dt { "Machines beside" }
                    dd {
                        "Ordinary machines of farreach over the same references. Frames that their processes share "
                        "count once."
                    }
                }
            }
        }
    }
}
