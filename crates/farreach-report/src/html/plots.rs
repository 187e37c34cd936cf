//! Plots with two axes: misses over time, and area against misses. The drawing stretches with the page; text does not, because
//! it belongs to the page and is only placed on the drawing.

use super::parts::{Page, apart, chip, colour, legend, named, percent, px};
use super::scale::{Scale, tick_label};
use crate::format::{count, counted, grouped, rate};
use farreach_types::counts::MachineResult;
use farreach_types::plural::pluralize;
use maud::{Markup, html};

/// Height of a plot in pixels.
pub(super) const HEIGHT: f64 = 320.0;
/// Line height of a label in pixels.
pub(super) const LINE: f64 = 21.0;
/// Units across a stretched drawing.
pub(super) const ACROSS: f64 = 1000.0;
/// More names than this along an axis do not fit on a narrow page.
const MANY: usize = 10;
/// More points than this in a line are joined; nobody could tell them apart.
const POINTS: usize = 400;

/// Misses per thousand lookups over the run: place from 0 to 1 and rate, for each point.
fn line(m: &MachineResult) -> Vec<(f64, f64)> {
    let t = &m.timeline;
    let slices = t.misses.len();
    if t.slice_lookups == 0 || slices == 0 {
        return Vec::new();
    }
    let all = t.slice_lookups.saturating_mul(slices as u64);
    // The last slice may be shorter; without a count of lookups it is taken as whole.
    let lookups = if m.counts.tlb.lookups > 0 { m.counts.tlb.lookups.min(all) } else { all };
    let join = slices.div_ceil(POINTS);
    let points = t.misses.chunks(join).enumerate().map(|(i, chunk)| {
        let from = t.slice_lookups.saturating_mul((i * join) as u64).min(lookups);
        let to = from.saturating_add(t.slice_lookups.saturating_mul(chunk.len() as u64)).min(lookups);
        let middle = (from as f64 + to as f64) / 2.0 / lookups as f64;
        (middle, 1000.0 * chunk.iter().sum::<u64>() as f64 / to.saturating_sub(from).max(1) as f64)
    });
    points.collect()
}

pub(super) fn y_axis(scale: Scale) -> Markup {
    html! {
        div.y {
            @for tick in scale.ticks() { span style={ "top:" (percent(1.0 - scale.at(tick))) } { (tick_label(tick)) } }
        }
    }
}

pub(super) fn x_axis(scale: Scale, title: &str) -> Markup {
    html! {
        div.x {
            @for tick in scale.ticks() { span style={ "left:" (percent(scale.at(tick))) } { (tick_label(tick)) } }
            em { (title) }
        }
    }
}

/// Names where they belong, from 0 to 1. Where the page is narrow, every second of many is left out.
pub(super) fn x_places<'a>(places: impl Iterator<Item = (f64, &'a str)>, title: &str) -> Markup {
    let places: Vec<_> = places.collect();
    html! {
        div.x.many[places.len() > MANY] {
            @for (at, name) in places { span style={ "left:" (percent(at)) } { (name) } }
            em { (title) }
        }
    }
}

pub(super) fn grid(x: Scale, y: Scale, height: f64) -> Markup {
    html! {
        @for tick in y.ticks() {
            @let at = px(height * (1.0 - y.at(tick)));
            line.grid x1="0" x2="100%" y1=(at) y2=(at) {}
        }
        @for tick in x.ticks() {
            line.grid.faint x1=(percent(x.at(tick))) x2=(percent(x.at(tick))) y1="0" y2="100%" {}
        }
    }
}

/// Misses over time, a line per design.
pub(super) fn timeline(page: &Page) -> Option<Markup> {
    let machines = &page.result.machines;
    let lines: Vec<Vec<(f64, f64)>> = machines.iter().map(line).collect();
    if lines.iter().flatten().all(|(_, rate)| *rate == 0.0) {
        return None;
    }
    let height = HEIGHT.max(LINE * machines.len() as f64 + LINE);
    let y = Scale::fit(lines.iter().flatten().map(|(_, rate)| *rate));
    let lookups = machines.iter().map(|m| m.counts.tlb.lookups).max().unwrap_or(0);
    let x = Scale::linear(lookups as f64);
    let top = |rate: f64| height * (1.0 - y.at(rate));
    let drawn: Vec<usize> = (0..lines.len()).filter(|&i| !lines[i].is_empty()).collect();
    let ends: Vec<f64> = drawn.iter().map(|&i| top(lines[i].last().map_or(0.0, |p| p.1))).collect();
    let labels = apart(&ends, LINE, height);
    let tall = format!("height:{height}px");
    Some(html! {
        section {
            h2 { "Misses over time" }
            p.lead {
                "Misses in a thousand lookups, from the first lookup to the last"
                @if y.is_log() { "; logarithmic, each line up is " (y.times()) " times as much" }
                "."
            }
            div.plot {
                div style=(tall) { (y_axis(y)) }
                div.area style=(tall) {
                    svg width="100%" height="100%" { (grid(x, y, height)) }
                    svg.stretch width="100%" height="100%" viewBox={ "0 0 " (ACROSS) " " (height) } preserveAspectRatio="none" role="img"
                        aria-label="misses over time" {
                        @for &i in &drawn {
                            @let points: Vec<String> = lines[i].iter().map(|(x, r)| format!("{},{}", px(x * ACROSS), px(top(*r)))).collect();
                            @if let [(_, only)] = lines[i][..] {
                                line class={ "trace " (colour(i)) } x1="0" x2=(ACROSS) y1=(px(top(only))) y2=(px(top(only))) {}
                            } @else {
                                polyline class={ "trace " (colour(i)) } points=(points.join(" ")) { title { (machines[i].name) } }
                            }
                        }
                    }
                }
                div.ends style=(tall) {
                    svg width="18" height=(height) {
                        @for (k, &i) in drawn.iter().enumerate() {
                            polyline class={ "leader " (colour(i)) } points={ "0," (px(ends[k])) " 5," (px(ends[k])) " 13," (px(labels[k])) " 18," (px(labels[k])) } {}
                        }
                    }
                    @for (k, &i) in drawn.iter().enumerate() {
                        div.end style={ "top:" (px(labels[k])) "px" } title=(machines[i].name) { (named(page, i)) }
                    }
                }
                div {}
                (x_axis(x, "lookups"))
            }
            (legend(page))
        }
    })
}

/// Width of a plot on a wide screen, and of a letter in it: to find room for labels.
const WIDTH: f64 = 820.0;
const LETTER: f64 = 7.3;
/// Longest label, in pixels; the style sheet agrees.
const LABEL: f64 = 270.0;

/// One design in the plane.
pub(super) struct Dot {
    pub(super) design: usize,
    /// From 0 to 1.
    pub(super) x: f64,
    /// Pixels from the top.
    pub(super) y: f64,
}

/// Area against misses.
pub(super) fn area(page: &Page) -> Option<Markup> {
    let machines = &page.result.machines;
    let with: Vec<(usize, f64, f64)> =
        machines.iter().enumerate().filter_map(|(i, m)| Some((i, m.cost.area_rbe?, m.counts.tlb.misses as f64))).collect();
    if with.len() < 2 {
        return None;
    }
    let x = Scale::linear(with.iter().map(|d| d.1).fold(0.0, f64::max) * 1.06);
    // Dots have no length that must be in proportion, so ratios may come early.
    let y = Scale::fit_from(8.0, with.iter().map(|d| d.2));
    // A little air, so that no dot sits on the edge.
    let y = if let Scale::Linear(max) = y { Scale::Linear(max * 1.06) } else { y };
    let dots: Vec<Dot> = with.iter().map(|&(design, a, m)| Dot { design, x: x.at(a), y: HEIGHT * (1.0 - y.at(m)) }).collect();
    let without: Vec<usize> = (0..machines.len()).filter(|&i| machines[i].cost.area_rbe.is_none()).collect();
    let labels = place(&dots, |i| &machines[i].name);
    let tall = format!("height:{HEIGHT}px");
    Some(html! {
        section {
            h2 { "Area against misses" }
            p.lead {
                "Left is smaller, low is better. On the dotted steps stand the designs that nothing of their size or smaller beats"
                @if y.is_log() { "; misses are logarithmic" }
                "."
            }
            div.plot.scatter {
                div style=(tall) { (y_axis(y)) }
                div.area style=(tall) {
                    svg width="100%" height="100%" { (grid(x, y, HEIGHT)) }
                    svg.stretch width="100%" height="100%" viewBox={ "0 0 " (ACROSS) " " (HEIGHT) } preserveAspectRatio="none" {
                        polyline.frontier points=(frontier(&dots)) {}
                    }
                    svg width="100%" height="100%" role="img" aria-label="area against misses" {
                        @for (dot, label) in dots.iter().zip(&labels) {
                            @let m = &machines[dot.design];
                            @if (label.top - dot.y).abs() > 1.0 {
                                line class={ "leader " (colour(dot.design)) } x1=(percent(dot.x)) x2=(percent(dot.x)) y1=(px(dot.y)) y2=(px(label.top)) {}
                            }
                            circle class={ "fill " (colour(dot.design)) } cx=(percent(dot.x)) cy=(px(dot.y)) r="6" {
                                title {
                                    (m.name) ": " (grouped(m.counts.tlb.misses)) " " (pluralize(m.counts.tlb.misses, "miss")) ", "
                                    (count(m.cost.area_rbe.unwrap_or(0.0).round() as u64)) " rbe"
                                }
                            }
                        }
                    }
                    @for (dot, label) in dots.iter().zip(&labels) {
                        @let side = if label.left {
                            format!("right:calc({} + 9px)", percent(1.0 - dot.x))
                        } else {
                            format!("left:calc({} + 9px)", percent(dot.x))
                        };
                        div.spot style={ (side) ";top:" (px(label.top)) "px" } title=(machines[dot.design].name) { (named(page, dot.design)) }
                    }
                }
                div {}
                (x_axis(x, "area in register-bit equivalents (rbe)"))
            }
            (legend(page))
            @if !without.is_empty() {
                p.note {
                    "Not shown, because the area model covers fully associative TLBs only: "
                    @for &i in &without { (chip(i)) " " (machines[i].name) " (" (counted(machines[i].counts.tlb.misses, "miss")) ") " }
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
    Some(format!("Cheapest step from {}: {} spends {} rbe per thousand misses it saves.", base.name, best.1, rate(best.0)))
}

/// The stepped line under which no design lies: down and to the right, from the smallest design on.
pub(super) fn frontier(dots: &[Dot]) -> String {
    let mut order: Vec<&Dot> = dots.iter().collect();
    order.sort_by(|a, b| a.x.total_cmp(&b.x).then(b.y.total_cmp(&a.y)));
    let mut points: Vec<String> = Vec::new();
    let mut last: Option<f64> = None;
    for dot in order {
        // Further down the page is fewer misses.
        if last.is_none_or(|y| dot.y > y) {
            let x = px(dot.x * ACROSS);
            points.extend(last.map(|y| format!("{x},{}", px(y))));
            points.push(format!("{x},{}", px(dot.y)));
            last = Some(dot.y);
        }
    }
    points.extend(last.map(|y| format!("{},{}", px(ACROSS), px(y))));
    points.join(" ")
}

/// Where a label goes: its middle line, and on which side of the dot.
pub(super) struct Label {
    pub(super) top: f64,
    pub(super) left: bool,
}

/// Finds room for every label: beside its dot, else above or below, as near as possible.
pub(super) fn place<'a>(dots: &[Dot], name: impl Fn(usize) -> &'a str) -> Vec<Label> {
    let mut taken: Vec<(f64, f64, f64, f64)> =
        dots.iter().map(|d| (d.x * WIDTH - 7.0, d.y - 7.0, d.x * WIDTH + 7.0, d.y + 7.0)).collect();
    let free = |taken: &[(f64, f64, f64, f64)], b: (f64, f64, f64, f64)| {
        taken.iter().all(|t| b.2 <= t.0 || b.0 >= t.2 || b.3 <= t.1 || b.1 >= t.3)
    };
    let mut labels = Vec::new();
    for dot in dots {
        let width = (name(dot.design).chars().count() as f64 * LETTER + 26.0).min(LABEL);
        let x = dot.x * WIDTH;
        let tops = (0..30).flat_map(|k| [f64::from(k) * LINE / 2.0, -f64::from(k) * LINE / 2.0]).map(|dy| dot.y + dy);
        let spots = tops
            .filter(|top| (LINE / 2.0..=HEIGHT - LINE / 2.0).contains(top))
            .flat_map(|top| [false, true].map(|left| (top, left)));
        let boxed = |&(top, left): &(f64, bool)| {
            let (from, to) = if left { (x - 9.0 - width, x - 9.0) } else { (x + 9.0, x + 9.0 + width) };
            (from, top - LINE / 2.0, to, top + LINE / 2.0)
        };
        let inside = |b: &(f64, f64, f64, f64)| b.0 >= 0.0 && b.2 <= WIDTH;
        let found = spots.clone().find(|spot| inside(&boxed(spot)) && free(&taken, boxed(spot)));
        let (top, left) = found.unwrap_or((dot.y.clamp(LINE / 2.0, HEIGHT - LINE / 2.0), dot.x > 0.5));
        taken.push(boxed(&(top, left)));
        labels.push(Label { top, left });
    }
    labels
}
