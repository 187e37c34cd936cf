//! The tables of the page: ledger, all numbers, configuration.

use super::parts::{Page, chip, named};
use crate::compaction;
use crate::csv::{flat, guest, json, names};
use crate::format::{NONE, bytes, count, grouped, rate, signed};
use crate::view::config_value;
use farreach_types::counts::{LedgerLine, MachineResult};
use farreach_types::plural::singular;
use maud::{Markup, html};
use serde_json::{Map, Value as Json};

pub(super) fn heads(page: &Page) -> Markup {
    html! { @for i in 0..page.result.machines.len() { th scope="col" { (named(page, i)) } } }
}

/// Designs side by side that fit a sheet of paper.
const MAX_NARROW_DESIGNS: usize = 12;

/// A table of designs side by side. On the screen it scrolls; on paper many of them get a larger sheet, and smaller
/// letters.
pub(super) fn side_by_side(page: &Page, table: Markup) -> Markup {
    let designs = page.result.machines.len();
    let wide = designs > MAX_NARROW_DESIGNS;
    html! { div.scroll.wide[wide] style=[wide.then(|| format!("--designs:{designs}"))] { (table) } }
}

/// The ledger: what each mechanism saved or cost.
pub(super) fn ledger(page: &Page) -> Option<Markup> {
    let machines = &page.result.machines;
    let mut items: Vec<&LedgerLine> = Vec::new();
    for line in machines.iter().flat_map(|m| &m.ledger) {
        if !items.iter().any(|known| known.item == line.item) {
            items.push(line);
        }
    }
    let find = |m: &'_ MachineResult, item: &str| m.ledger.iter().find(|line| line.item == item).cloned();
    items.retain(|item| {
        let says = |line: LedgerLine| line.count != 0 || line.cycles.is_some_and(|c| c != 0);
        machines.iter().any(|m| find(m, &item.item).is_some_and(says))
    });
    if items.is_empty() {
        return None;
    }
    let has_price = |item: &str| machines.iter().any(|m| find(m, item).is_some_and(|line| line.cycles.is_some()));
    let (priced, counted): (Vec<&LedgerLine>, Vec<&LedgerLine>) =
        items.into_iter().partition(|line| has_price(&line.item));
    let net = |m: &MachineResult| m.ledger.iter().filter_map(|line| line.cycles).fold(0i64, i64::saturating_add);
    let amount = |line: &LedgerLine| if line.unit == "bytes" { bytes(line.count) } else { count(line.count) };
    let unit = |line: &LedgerLine| match line.count {
        _ if line.unit == "bytes" => String::new(),
        1 => format!(" {}", singular(&line.unit)),
        _ => format!(" {}", line.unit),
    };
    Some(html! {
        section {
            h2 { "The ledger" }
            p.lead {
                "Cycles that each mechanism cost (+) or saved (−) against the 4 KB design with one page size, where "
                "the run has one; under them how often it happened."
            }
            (side_by_side(page, html! {
                table.ledger {
                    thead { tr { th scope="col" { "mechanism" } (heads(page)) } }
                    @if !priced.is_empty() {
                        tbody {
                            @for item in &priced {
                                tr {
                                    th scope="row" { (item.item) }
                                    @for m in machines {
                                        td {
                                            @if let Some(line) = find(m, &item.item) {
                                                @if let Some(cycles) = line.cycles {
                                                    span class=(tone(cycles)) { (signed(cycles)) }
                                                }
                                                small { (amount(&line)) (unit(&line)) }
                                            } @else { (NONE) }
                                        }
                                    }
                                }
                            }
                            tr.net {
                                th scope="row" { "together, in cycles" }
                                @for m in machines { td { span class=(tone(net(m))) { (signed(net(m))) } } }
                            }
                        }
                    }
                    @if !counted.is_empty() {
                        tbody {
                            tr.group { th scope="rowgroup" colspan=(machines.len() + 1) { "Counted, not priced" } }
                            @for item in &counted {
                                tr {
                                    th scope="row" { (item.item) }
                                    @for m in machines {
                                        @let line = find(m, &item.item);
                                        td.even[line.as_ref().is_none_or(|l| l.count == 0)] {
                                            @match line { Some(line) => (amount(&line)), None => (NONE) }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }))
        }
    })
}

fn tone(cycles: i64) -> &'static str {
    match cycles {
        0 => "even",
        1.. => "cost",
        _ => "saved",
    }
}

/// Free memory and compaction, if some machine compacted.
pub(super) fn compaction(page: &Page) -> Option<Markup> {
    let columns = compaction::cells(page.result);
    if columns.is_empty() {
        return None;
    }
    Some(html! {
        section {
            h2 { (compaction::title(page.result)) }
            p.lead { (compaction::NOTES.join(" ")) }
            (side_by_side(page, html! {
                table.numbers {
                    thead { tr { th scope="col" {} (heads(page)) } }
                    tbody {
                        @for (i, (.., what)) in compaction::ROWS.into_iter().enumerate() {
                            tr {
                                th scope="row" { (what) }
                                @for column in &columns { td { (column.as_ref().map_or(NONE, |cells| &cells[i])) } }
                            }
                        }
                    }
                }
            }))
        }
    })
}

/// The parts of a result that are shown as tables of numbers.
const PARTS: [&str; 5] =
    ["Translation hardware", "Operating system", "Memory, in bytes", "Cost", "Kernel and user of the guest"];

/// Every number, exact. Rows that are empty or zero for all designs are left out.
pub(super) fn numbers(page: &Page) -> Markup {
    let machines = &page.result.machines;
    let part = |m: &MachineResult, part: usize| {
        flat(
            "",
            match part {
                0 => json(&m.counts.tlb),
                1 => json(&m.counts.os),
                2 => json(&m.memory),
                3 => json(&m.cost),
                _ => return m.guest.as_ref().map(guest).unwrap_or_default(),
            },
        )
    };
    let guests = machines.iter().any(|m| m.guest.is_some());
    html! {
        section {
            h2 { "All numbers" }
            p.lead {
                "Counts are exact. What is nothing for all designs is left out, and lists; names are those of the JSON "
                "and CSV reports, which have them."
            }
            (side_by_side(page, html! {
                table.numbers {
                    thead { tr { th scope="col" {} (heads(page)) } }
                    @for (k, title) in PARTS.into_iter().enumerate().filter(|(k, _)| *k < 4 || guests) {
                        @let columns: Vec<Map<String, Json>> = machines.iter().map(|m| part(m, k)).collect();
                        tbody {
                            tr.group { th scope="rowgroup" colspan=(machines.len() + 1) { (title) } }
                            @for key in names(&columns) {
                                @if columns.iter().any(|c| !nothing(c.get(key))) {
                                    tr {
                                        th scope="row" { code { (key) } }
                                        @for column in &columns {
                                            td.even[nothing(column.get(key))] {
                                                (column.get(key).map_or_else(|| NONE.into(), exact))
                                            }
                                        }
                                    }
                                }
                            }
                            @if k == 3 && machines.iter().any(|m| seconds(m).is_some()) {
                                tr {
                                    th scope="row" { "seconds on misses, at " (clocks(machines)) }
                                    @for m in machines { td { (seconds(m).map_or_else(|| NONE.into(), rate)) } }
                                }
                            }
                        }
                    }
                }
            }))
        }
    }
}

/// The clock of the seconds: in MHz where all have one, else the name of the key.
fn clocks(machines: &[MachineResult]) -> Markup {
    let mut all = machines.iter().filter_map(|m| m.config.get("clock_mhz"));
    let first = all.next();
    html! {
        @match first.filter(|clock| all.all(|other| other == *clock)) {
            Some(clock) => { (config_value(clock)) " MHz (" code { "clock_mhz" } ")" }
            None => { code { "clock_mhz" } }
        }
    }
}

/// Time spent on misses at the clock of the configuration.
fn seconds(m: &MachineResult) -> Option<f64> {
    let clock = m.config.get("clock_mhz")?.as_f64().filter(|c| *c > 0.0)?;
    Some(m.cost.cycles as f64 / (clock * 1e6))
}

/// Whether a value is not shown: lists are too long for a table of designs side by side.
fn nothing(value: Option<&Json>) -> bool {
    value.is_none_or(|value| value.is_null() || value.is_array() || value.as_f64() == Some(0.0))
}

fn exact(value: &Json) -> String {
    match value {
        Json::Null => NONE.into(),
        value => match (value.as_u64(), value.as_f64()) {
            (Some(n), _) => grouped(n),
            (None, Some(x)) if x.abs() >= 1000.0 => {
                format!("{}.{:01}", grouped(x.abs() as u64), (x.abs().fract() * 10.0) as u64)
            }
            (None, Some(x)) => format!("{x:.4}"),
            _ => config_value(value),
        },
    }
}

/// The resolved keys: those that differ as a table, the others as a list.
pub(super) fn configuration(page: &Page) -> Markup {
    let machines = &page.result.machines;
    let mut keys: Vec<&String> = Vec::new();
    for key in machines.iter().flat_map(|m| m.config.keys()) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let value = |m: &MachineResult, key: &str| m.config.get(key).map_or_else(|| NONE.to_owned(), config_value);
    let (same, different): (Vec<&String>, Vec<&String>) =
        keys.into_iter().partition(|key| machines.iter().all(|m| m.config.get(*key) == machines[0].config.get(*key)));
    html! {
        section {
            h2 { "Configuration" }
            @if !different.is_empty() {
                (side_by_side(page, html! {
                    table.config {
                        thead { tr { th scope="col" { "key" } (heads(page)) } }
                        tbody {
                            @for key in &different {
                                tr {
                                    th scope="row" { code { (crate::format::clean(key)) } }
                                    @for m in machines { td { (value(m, key)) } }
                                }
                            }
                        }
                    }
                }))
            }
            @if !same.is_empty() {
                @if machines.len() > 1 { p.lead { "The same for all designs:" } }
                dl.pairs {
                    @for key in &same {
                        div { dt { code { (crate::format::clean(key)) } } dd { (value(&machines[0], key)) } }
                    }
                }
            }
            p.note {
                "Seed of everything random: " (page.result.workload.seed) ". Result schema: "
                code { (page.result.schema) } "."
            }
        }
    }
}

/// The names behind the letters, for printed pages.
pub(super) fn roll(page: &Page) -> Markup {
    html! { p.roll { @for (i, m) in page.result.machines.iter().enumerate() { span { (chip(i)) " " (m.name) } } } }
}
