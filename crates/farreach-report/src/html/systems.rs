//! Machines with caches: what their overhead consists of, where references were served, and the classes of events.

use super::bars;
use super::parts::{Page, named, percent};
use super::scale::Scale;
use crate::format::{NONE, count, grouped, rate, significant};
use crate::systems::EVENTS;
use farreach_types::counts::{MachineResult, OverheadRow, SideCounts, SystemCounts};
use maud::{Markup, html};

/// A part of a bar: its name, and the rows of the overhead that it adds up.
type Part = (&'static str, fn(&OverheadRow) -> bool);

const PARTS: [Part; 7] = [
    ("handler or walker runs for data", |r| r.of_misses && r.event.ends_with("for a load or store")),
    ("the same for fetches", |r| r.of_misses && r.event.ends_with("for a fetch")),
    ("page table entries not in the first level", |r| {
        r.of_misses && (r.event.contains("data load") || r.event.contains("UPTE"))
    }),
    ("handler code not in the first level", |r| r.of_misses && r.event.starts_with("handler fetch")),
    ("write-backs", OverheadRow::is_write_back),
    ("protection", OverheadRow::is_protection),
    ("segments", OverheadRow::is_segment),
];

fn cycles(row: &OverheadRow) -> f64 {
    row.count as f64 * row.penalty
}

/// The machines with caches, by their place in the result.
fn machines<'a>(page: &'a Page) -> Vec<(usize, &'a MachineResult, &'a SystemCounts)> {
    let all = page.result.machines.iter().enumerate();
    all.filter_map(|(i, m)| Some((i, m, m.system.as_ref()?))).collect()
}

/// All of it; nothing if no machine has caches.
pub(super) fn sections(page: &Page) -> Option<Markup> {
    let machines = machines(page);
    (!machines.is_empty()).then(|| html! { (overhead(page)) (served(page)) (classes(page)) })
}

/// The overhead as stacked bars.
fn overhead(page: &Page) -> Markup {
    let machines = machines(page);
    let all = |m: &MachineResult| m.overhead.iter().map(cycles).sum::<f64>();
    let instructions = page.result.workload.instructions as f64;
    // The axis is per instruction, if there are any.
    let unit = if instructions > 0.0 { instructions } else { 1.0 };
    let scale = Scale::linear(machines.iter().map(|(_, m, _)| all(m) / unit).fold(0.0, f64::max));
    let of = |m: &MachineResult, part: &Part| m.overhead.iter().filter(|r| part.1(r)).map(cycles).sum::<f64>() / unit;
    let used = |part: &&Part| machines.iter().any(|(_, m, _)| of(m, part) > 0.0);
    html! {
        section {
            h2 { "What translation costs behind caches" }
            p.lead {
                @if instructions > 0.0 { "Cycles per instruction. " } @else { "Cycles. " }
                "Fetching the program's own lines is no part of it. Total: an instruction, the program's own cache "
                "misses, and this."
            }
            p.keys {
                @for (k, part) in PARTS.iter().enumerate().filter(|(_, p)| used(p)) {
                    span { i class={ "key r" (k) } {} (part.0) }
                }
            }
            div.bars {
                div.head.label {}
                div.head {}
                div.head.value.three {
                    span { @if instructions > 0.0 { "CPI" } @else { "cycles" } }
                    span { "total CPI" }
                    span { "% of time" }
                }
                @for (i, m, _) in &machines {
                    div.label { (named(page, *i)) }
                    div.bar {
                        svg width="100%" height="22" role="img" aria-label={ "overhead of " (m.name) } {
                            @for tick in scale.ticks() {
                                line.grid x1=(percent(scale.at(tick))) x2=(percent(scale.at(tick))) y1="0" y2="22" {}
                            }
                            @for (k, from, value) in stack(PARTS.iter().map(|part| of(m, part))) {
                                rect class={ "region r" (k) } x=(percent(scale.at(from))) y="2" height="18"
                                    width=(percent(scale.at(value))) {
                                    title { (PARTS[k].0) ": " (amount(value)) }
                                }
                            }
                        }
                    }
                    div.value.three {
                        b { (amount(all(m) / unit)) }
                        span {
                            (m.cost.total_cycles_per_instruction.map_or_else(|| NONE.into(), rate))
                            span.narrow { " total CPI" }
                        }
                        span { (m.cost.percent_of_time.map_or_else(|| NONE.into(), rate)) span.narrow { " % of time" } }
                    }
                }
                (bars::axis(scale))
            }
        }
    }
}

/// Three digits; many cycles as a count.
fn amount(x: f64) -> String {
    if x < 10_000.0 { significant(x) } else { count(x as u64) }
}

/// Parts that are not empty, each with the sum of those before it.
fn stack(values: impl Iterator<Item = f64>) -> impl Iterator<Item = (usize, f64, f64)> {
    let mut from = 0.0;
    values.enumerate().filter_map(move |(k, value)| {
        let place = from;
        from += value;
        (value > 0.0).then_some((k, place, value))
    })
}

const SIDES: [&str; 2] = ["fetches", "loads and stores"];

fn sides(counts: &SystemCounts) -> [&SideCounts; 2] {
    [&counts.fetch, &counts.data]
}

/// Cache misses of the program by side.
fn served(page: &Page) -> Markup {
    let machines = machines(page);
    let share = |side: &SideCounts, n: u64| 100.0 * n as f64 / side.accesses.max(1) as f64;
    let most =
        machines.iter().flat_map(|(_, _, s)| sides(s)).map(|side| share(side, side.l1_misses)).fold(0.0, f64::max);
    let scale = Scale::linear(most);
    html! {
        section {
            h2 { "Where the program's references were served" }
            p.lead {
                "In percent of the lines that its fetches, and its loads and stores, touch; the rest was in the first "
                "level."
            }
            p.keys { span { i.key.r1 {} "second level" } span { i.key.r0 {} "memory" } }
            div.bars {
                div.head.label {}
                div.head {}
                div.head.value.three { span { "L1 misses" } span { "L2 misses" } span { "L2, %" } }
                @for (i, m, counts) in &machines {
                    @for (name, side) in SIDES.into_iter().zip(sides(counts)) {
                        div.label.sided { @if name == SIDES[0] { (named(page, *i)) } span.note { (name) } }
                        div.bar {
                            svg width="100%" height="18" role="img" aria-label={ (name) " of " (m.name) } {
                                @for tick in scale.ticks() {
                                    line.grid x1=(percent(scale.at(tick))) x2=(percent(scale.at(tick))) y1="0"
                                        y2="18" {}
                                }
                                @let memory = share(side, side.l2_misses);
                                @let second = share(side, side.l1_misses) - memory;
                                @for (k, from, value) in stack([memory, second].into_iter()) {
                                    rect class={ "region r" (k) } x=(percent(scale.at(from))) y="2" height="14"
                                        width=(percent(scale.at(value))) {
                                        title { (["memory", "second level"][k]) ": " (rate(value)) " %" }
                                    }
                                }
                            }
                        }
                        div.value.three {
                            b { (count(side.l1_misses)) span.narrow { " L1 misses" } }
                            span { (count(side.l2_misses)) span.narrow { " L2 misses" } }
                            span { (rate(share(side, side.l2_misses))) span.narrow { " %" } }
                        }
                    }
                }
                (bars::axis(scale))
            }
        }
    }
}

/// How often which of caches and TLB hit (SV97-42).
fn classes(page: &Page) -> Markup {
    let machines = machines(page);
    let tlbs = machines.iter().any(|(_, _, s)| s.tlb_misses > 0);
    // Without a TLB every second class is empty.
    let shown: Vec<usize> = (0..EVENTS.len()).filter(|i| tlbs || i % 2 == 0).collect();
    html! {
        section {
            h2 { "Classes of events" }
            p.lead {
                "In percent of the lines touched, by where they were found"
                @if tlbs { " and whether a TLB had to be filled first" }
                "."
            }
            div.scroll {
                table {
                    thead {
                        tr {
                            th scope="col" { "machine, side" }
                            @for &i in &shown { th scope="col" { (i + 1) ": " (EVENTS[i][0]) " " (EVENTS[i][1]) } }
                        }
                    }
                    tbody {
                        @for (i, _, counts) in &machines {
                            @for (name, side) in SIDES.into_iter().zip(sides(counts)) {
                                tr {
                                    th scope="row" {
                                        div.sided { @if name == SIDES[0] { (named(page, *i)) } span.note { (name) } }
                                    }
                                    @for &class in &shown {
                                        td title=(grouped(side.events[class])) {
                                            @if side.accesses == 0 { (NONE) }
                                            @else {
                                                (significant(100.0 * side.events[class] as f64 / side.accesses as f64))
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_machine::MachineSpec;
    use farreach_types::counts::Workload;

    /// The parts of a bar add up to the number beside it.
    #[test]
    fn every_row_of_the_overhead_is_in_one_part() {
        let spec = MachineSpec::parse("sv97/softvm", 0).unwrap();
        let rows = farreach_cost::system::rows(&SystemCounts::default(), &Workload::default(), &spec.params);
        assert!(rows.len() > 20);
        for row in rows {
            let parts: Vec<&str> = PARTS.iter().filter(|part| part.1(&row)).map(|part| part.0).collect();
            assert_eq!(parts.len(), 1, "{}: {parts:?}", row.event);
        }
    }
}
