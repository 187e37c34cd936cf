//! The charts of a run that have two axes: misses over time, and area against misses.

use super::axes::x_axis;
use super::lines::{Drawn, plot};
use super::parts::{Page, chip, legend};
use super::scale::Scale;
use super::scatter::{Dot, fit, scatter};
use crate::format::{count, counted, grouped, rate};
use crate::phases::per_thousand;
use farreach_types::counts::{MachineResult, Phase, TrapUse};
use farreach_types::plural::pluralize;
use maud::{Markup, html};

/// With more points than this in a line, neighbours are joined: they could not be told apart.
const POINTS: usize = 400;

/// Misses over the run, per thousand lookups or, where those are not known, a second: place from 0 to 1 and rate, for
/// each point.
fn line(m: &MachineResult, traps: Option<&TrapUse>) -> Vec<(f64, f64)> {
    let t = &m.timeline;
    let slices = t.misses.len();
    let (slice, length, per) = match traps {
        Some(traps) => (t.slice_microseconds, traps.microseconds, 1e6),
        None => (t.slice_lookups, m.counts.tlb.lookups, 1000.0),
    };
    if slice == 0 || slices == 0 {
        return Vec::new();
    }
    let all = slice.saturating_mul(slices as u64);
    // The last slice may be shorter; without a count of lookups it is taken as whole.
    let length = if length > 0 { length.min(all) } else { all };
    let join = slices.div_ceil(POINTS);
    let points = t.misses.chunks(join).enumerate().map(|(i, chunk)| {
        let from = slice.saturating_mul((i * join) as u64).min(length);
        let to = from.saturating_add(slice.saturating_mul(chunk.len() as u64)).min(length);
        let middle = (from as f64 + to as f64) / 2.0 / length as f64;
        (middle, per * chunk.iter().sum::<u64>() as f64 / to.saturating_sub(from).max(1) as f64)
    });
    points.collect()
}

/// Misses over time, a line per design.
pub(super) fn timeline(page: &Page) -> Option<Markup> {
    let (machines, traps) = (&page.result.machines, page.result.workload.traps.as_ref());
    let drawn = |(design, m): (usize, &MachineResult)| Drawn { design, name: m.name.clone(), points: line(m, traps) };
    let lines: Vec<Drawn> = machines.iter().enumerate().map(drawn).filter(|line| !line.points.is_empty()).collect();
    let rates: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|p| p.1).collect();
    if rates.iter().all(|rate| *rate == 0.0) {
        return None;
    }
    let y = Scale::fit(rates.iter().copied());
    let lookups = || machines.iter().map(|m| m.counts.tlb.lookups).max().unwrap_or(0) as f64;
    let x = Scale::linear(traps.map_or_else(lookups, |traps| traps.microseconds as f64 / 1e6));
    let upright: Vec<f64> = x.ticks().into_iter().map(|tick| x.at(tick)).collect();
    let unit = if traps.is_some() { "seconds" } else { "lookups" };
    Some(html! {
        section {
            h2 { "Misses over time" }
            p.lead {
                @if traps.is_some() { "Misses a second, from the beginning of the program to its end" }
                @else { "Misses in a thousand lookups, from the first lookup to the last" }
                @if y.is_log() { "; logarithmic, each line up is " (y.times()) " times as much" }
                "."
            }
            (plot("misses over time", y, &upright, &x_axis(x, unit), &lines, &[], None))
            (legend(page))
        }
    })
}

/// Misses by phase, a line per design with a point in the middle of each phase.
pub(super) fn phases(page: &Page) -> Option<Markup> {
    let machines = &page.result.machines;
    let instructions = |m: &MachineResult| m.phases.iter().map(|phase| phase.instructions).sum::<u64>();
    let whole = machines.iter().map(instructions).max().filter(|n| *n > 0)?;
    let points = |m: &MachineResult| {
        let mut begins = 0;
        let point = |phase: &Phase| {
            let middle = (begins as f64 + phase.instructions as f64 / 2.0) / whole as f64;
            begins += phase.instructions;
            (middle, per_thousand(phase))
        };
        m.phases.iter().map(point).collect()
    };
    let drawn = |(design, m): (usize, &MachineResult)| Drawn { design, name: m.name.clone(), points: points(m) };
    let lines: Vec<Drawn> = machines.iter().enumerate().map(drawn).filter(|line| !line.points.is_empty()).collect();
    let y = Scale::fit(lines.iter().flat_map(|line| &line.points).map(|point| point.1));
    let x = Scale::linear(whole as f64);
    let upright: Vec<f64> = x.ticks().into_iter().map(|tick| x.at(tick)).collect();
    let every = page.result.workload.piece.as_ref().and_then(|piece| piece.phase_instructions).unwrap_or(whole);
    Some(html! {
        section {
            h2 { "Phases" }
            p.lead {
                "Misses in a thousand lookups, in each " (count(every)) " instructions"
                @if y.is_log() { "; logarithmic, each line up is " (y.times()) " times as much" }
                "."
            }
            (plot("misses by phase", y, &upright, &x_axis(x, "instructions"), &lines, &[], None))
            (legend(page))
        }
    })
}

/// Area against misses.
pub(super) fn area(page: &Page) -> Option<Markup> {
    let machines = &page.result.machines;
    let dot = |(design, m): (usize, &'_ MachineResult)| {
        let (area, misses) = (m.cost.area_rbe?, m.counts.tlb.misses);
        let rbe = count(area.round() as u64);
        let tip = format!("{}: {} {}, {rbe} rbe", m.name, grouped(misses), pluralize(misses, "miss"));
        Some((design, area, misses as f64, tip))
    };
    let dots: Vec<Dot> = (machines.iter().enumerate().filter_map(dot))
        .map(|(design, x, y, tip)| Dot { design, name: &machines[design].name, x, y, tip })
        .collect();
    if dots.len() < 2 {
        return None;
    }
    let (x, y) = fit(&dots);
    let without: Vec<usize> = (0..machines.len()).filter(|&i| machines[i].cost.area_rbe.is_none()).collect();
    Some(html! {
        section {
            h2 { "Area against misses" }
            p.lead {
                "Left is smaller, low is better. On the dotted steps stand the designs that nothing of their size or "
                "smaller beats"
                @if y.is_log() { "; misses are logarithmic" }
                "."
            }
            (scatter("area against misses", "area in register-bit equivalents (rbe)", (x, y), &dots))
            @if !without.is_empty() {
                p.note {
                    "Not shown, because the area model covers fully associative TLBs only: "
                    @for &i in &without {
                        (chip(i)) " " (machines[i].name) " (" (counted(machines[i].counts.tlb.misses, "miss")) ") "
                    }
                }
            }
            @if let Some(note) = prices(page) { p.note { (note) } }
        }
    })
}

/// What a saved miss costs in area, for the cheapest step down from the baseline.
fn prices(page: &Page) -> Option<String> {
    let base = &page.result.machines[page.base];
    let (area, misses) = (base.cost.area_rbe?, base.counts.tlb.misses as f64);
    let step = |m: &MachineResult| {
        let saved = misses - m.counts.tlb.misses as f64;
        let more = m.cost.area_rbe? - area;
        (saved > 0.0 && more > 0.0).then(|| (more / (saved / 1000.0), m.name.clone()))
    };
    let best = page.result.machines.iter().filter_map(step).min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!(
        "Cheapest step from {}: {} spends {} rbe per thousand misses it saves.",
        base.name,
        best.1,
        rate(best.0)
    ))
}
