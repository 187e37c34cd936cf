//! Bars: misses per design, memory per policy, misses by region. Names and numbers are text of the page, so they wrap
//! and never overlap; only the bars are drawn, in percent of the available width.

use super::parts::{Page, breakable, chip, colour, named, percent};
use super::scale::{Scale, tick_label};
use crate::format::{NONE, bytes, count, grouped, rate};
use crate::view::{per_thousand, percent_error, percent_of};
use farreach_types::counts::{MachineResult, MemoryUse};
use farreach_types::plural::pluralize;
use maud::{Markup, html};

/// Misses per design.
pub(super) fn misses(page: &Page) -> Markup {
    let machines = &page.result.machines;
    let scale = Scale::fit(machines.iter().map(|m| m.counts.tlb.misses as f64));
    let base = &machines[page.base];
    let windows = page.result.workload.windows.is_some();
    html! {
        section {
            h2 { "Misses per design" }
            p.lead {
                @if scale.is_log() { "Logarithmic: each line to the right is " (scale.times()) " times as much." }
                @else { "From strong to faint: fetches, loads, stores." }
            }
            div.bars {
                div.head.label {}
                div.head {}
                div.head.value.three {
                    span { "misses" }
                    span { "per 1000" }
                    span { @if machines.len() > 1 { "% of " (chip(page.base)) } }
                }
                @for (i, m) in machines.iter().enumerate() {
                    div.label { (named(page, i)) }
                    div class={ "bar " (colour(i)) } { (miss_bar(m, scale)) }
                    div.value.three {
                        b {
                            (count(m.counts.tlb.misses))
                            @if let Some(error) = percent_error(m).filter(|_| windows) {
                                small { " ± " (rate(error)) " %" }
                            }
                        }
                        span { (per_thousand(m).map_or_else(|| NONE.into(), rate)) span.narrow { " per 1000" } }
                        span {
                            @if machines.len() > 1 {
                                (percent_of(m, base).map_or_else(|| NONE.into(), rate))
                                span.narrow { " % of " (chip(page.base)) }
                            }
                        }
                    }
                }
                (axis(scale))
            }
        }
    }
}

/// The axis under bars: the last row of their grid.
pub(super) fn axis(scale: Scale) -> Markup {
    html! {
        div.label.axis-space {}
        div.axis {
            @for tick in scale.ticks() { span style={ "left:" (percent(scale.at(tick))) } { (tick_label(tick)) } }
        }
        div.value {}
    }
}

fn miss_bar(m: &MachineResult, scale: Scale) -> Markup {
    let tlb = &m.counts.tlb;
    let tip = format!(
        "{}: {} {}; {} fetch, {} load, {} store",
        m.name,
        grouped(tlb.misses),
        pluralize(tlb.misses, "miss"),
        grouped(tlb.fetch_misses),
        grouped(tlb.load_misses),
        grouped(tlb.store_misses)
    );
    let end = scale.at(tlb.misses as f64);
    html! {
        svg width="100%" height="22" role="img" aria-label=(tip) {
            title { (tip) }
            @for tick in scale.ticks() {
                line.grid x1=(percent(scale.at(tick))) x2=(percent(scale.at(tick))) y1="0" y2="22" {}
            }
            @if scale.is_log() {
                line.stem x1="0" x2=(percent(end)) y1="11" y2="11" {}
                circle.fill cx=(percent(end)) cy="11" r="6" {}
            } @else {
                @for (class, from, n) in [
                    ("fill", 0, tlb.fetch_misses),
                    ("fill load", tlb.fetch_misses, tlb.load_misses),
                    ("fill store", tlb.fetch_misses + tlb.load_misses, tlb.store_misses),
                ] {
                    @if n > 0 {
                        rect class=(class) x=(percent(scale.at(from as f64))) y="2" height="18"
                            width=(percent(scale.at(n as f64))) {}
                    }
                }
            }
        }
    }
}

/// Memory, one row for all designs that ran on the same policy.
pub(super) fn memory(page: &Page) -> Markup {
    let machines = &page.result.machines;
    let mut policies: Vec<(&MachineResult, Vec<usize>)> = Vec::new();
    for (i, m) in machines.iter().enumerate() {
        match policies.iter_mut().find(|(first, _)| first.memory == m.memory && first.counts.os == m.counts.os) {
            Some((_, members)) => members.push(i),
            None => policies.push((m, vec![i])),
        }
    }
    let longest = |u: &MemoryUse| u.resident_bytes.saturating_add(u.reserved_bytes).max(u.touched_bytes);
    let most = machines.iter().map(|m| longest(&m.memory)).max().unwrap_or(0);
    let at = |n: u64| percent(n as f64 / most.max(1) as f64);
    html! {
        section {
            h2 { "Memory per policy" }
            p.lead.keys {
                span { i.key.used {} "resident and referenced" }
                span { i.key.wasted {} "resident, never referenced" }
                span { i.key.reserved {} "held in reserve, free for other use" }
                span { i.key.touched {} "touched over the whole run" }
            }
            div.bars.memory {
                @for (first, members) in &policies {
                    @let u = &first.memory;
                    @let used = u.resident_bytes.saturating_sub(u.wasted_bytes);
                    div.label { @for &i in members { (named(page, i)) } }
                    div.bar {
                        svg width="100%" height="30" role="img" aria-label="memory bar" {
                            rect.used x="0" y="5" height="20" width=(at(used)) {}
                            rect.wasted x=(at(used)) y="5" height="20" width=(at(u.resident_bytes - used)) {}
                            @if u.reserved_bytes > 0 {
                                rect.reserved x=(at(u.resident_bytes)) y="6" height="18" width=(at(u.reserved_bytes)) {}
                            }
                            line.touched x1=(at(u.touched_bytes)) x2=(at(u.touched_bytes)) y1="0" y2="30" {}
                        }
                    }
                    dl.value {
                        @for (name, n) in [
                            ("resident", u.resident_bytes),
                            ("wasted", u.wasted_bytes),
                            ("reserved", u.reserved_bytes),
                            ("touched", u.touched_bytes),
                        ] {
                            div { dt { (name) } dd { (bytes(n)) } }
                        }
                    }
                }
            }
        }
    }
}

/// Regions that get a colour of their own; the others are one.
const REGIONS: usize = 7;
/// Width in characters of a bar on a wide screen: a name that needs more than its part of it is left out of the bar.
const BAR_CHARS: f64 = 72.0;

/// Where in the address space the misses fall.
pub(super) fn regions(page: &Page) -> Option<Markup> {
    let machines = &page.result.machines;
    let total = |m: &MachineResult| m.regions.iter().map(|r| r.fetch_misses + r.data_misses).sum::<u64>();
    let mut shares: Vec<(&str, f64)> = Vec::new();
    for m in machines {
        for r in &m.regions {
            let share = (r.fetch_misses + r.data_misses) as f64 / total(m).max(1) as f64;
            match shares.iter_mut().find(|(name, _)| *name == r.region) {
                Some((_, sum)) => *sum += share,
                None => shares.push((&r.region, share)),
            }
        }
    }
    shares.retain(|(_, share)| *share > 0.0);
    if shares.is_empty() {
        return None;
    }
    shares.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    let shown: Vec<&str> = shares.iter().take(REGIONS).map(|(name, _)| *name).collect();
    let others = shares.len() - shown.len();
    let other_name = format!("{others} more region{}", if others == 1 { "" } else { "s" });
    let of = |m: &MachineResult, name: &str| {
        m.regions.iter().filter(|r| r.region == name).map(|r| r.fetch_misses + r.data_misses).sum::<u64>()
    };
    Some(html! {
        section {
            h2 { "Where the misses fall" }
            p.lead { "Shares of each design's own misses, by region of the address space." }
            p.keys {
                @for (k, name) in shown.iter().enumerate() {
                    span { i class={ "key r" (k) } {} span { (breakable(name)) } }
                }
                @if others > 0 { span { i.key.r7 {} (other_name) } }
            }
            div.bars {
                @for (i, m) in machines.iter().enumerate() {
                    @let all = total(m);
                    div.label { (named(page, i)) }
                    div.bar {
                        svg width="100%" height="26" role="img" aria-label={ "regions of " (m.name) } {
                            @for (k, from, n, name) in stack(&shown, &other_name, all, |name| of(m, name)) {
                                @let share = n as f64 / all as f64;
                                svg x=(percent(from as f64 / all as f64)) width=(percent(share)) height="26" {
                                    title {
                                        (name) ": " (grouped(n)) " " (pluralize(n, "miss")) ", " (rate(100.0 * share))
                                        " %"
                                    }
                                    rect class={ "region r" (k) } width="100%" height="26" {}
                                    @if share * BAR_CHARS > name.chars().count() as f64 + 2.0 {
                                        text class={ "on r" (k) } x="7" y="17.5" { (name) }
                                    }
                                }
                            }
                        }
                    }
                    div.value { b { (count(all)) } span.note { (pluralize(all, "miss")) } }
                }
            }
        }
    })
}

/// The parts of one bar: colour, misses before it, misses, name.
fn stack<'a>(
    shown: &[&'a str],
    other_name: &'a str,
    all: u64,
    of: impl Fn(&str) -> u64,
) -> Vec<(usize, u64, u64, &'a str)> {
    let mut from = 0;
    let mut parts = Vec::new();
    for (k, name) in shown.iter().enumerate() {
        let n = of(name);
        if n > 0 {
            parts.push((k, from, n, *name));
        }
        from += n;
    }
    if all > from {
        parts.push((REGIONS, from, all - from, other_name));
    }
    parts
}
