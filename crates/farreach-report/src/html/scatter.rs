//! Dots in a plane, with the steps under which none lies: area against misses, memory against misses.

use super::axes::{ACROSS, HEIGHT, grid, x_axis, y_axis};
use super::labels::{Label, NARROW, WIDE, place};
use super::parts::{breakable, chip, colour, percent, px};
use super::scale::Scale;
use maud::{Markup, html};

/// From this ratio of largest to smallest on, misses are logarithmic: dots have no length that must be in proportion.
const LOG_FROM: f64 = 8.0;
/// Some room, so that no dot lies on the edge.
const AIR: f64 = 1.06;

/// A dot.
pub(super) struct Dot<'a> {
    /// Which colour and letters it has.
    pub(super) design: usize,
    pub(super) name: &'a str,
    pub(super) x: f64,
    pub(super) y: f64,
    /// Its tooltip.
    pub(super) tip: String,
}

/// The axes that suit these dots.
pub(super) fn fit(dots: &[Dot]) -> (Scale, Scale) {
    let x = Scale::linear(dots.iter().map(|d| d.x).fold(0.0, f64::max) * AIR);
    let y = match Scale::fit_from(LOG_FROM, dots.iter().map(|d| d.y)) {
        Scale::Linear(max) => Scale::Linear(max * AIR),
        log => log,
    };
    (x, y)
}

/// The plot and its legend. `axis`: the title of the horizontal axis.
pub(super) fn scatter(what: &str, axis: &str, (x, y): (Scale, Scale), dots: &[Dot]) -> Markup {
    let spots: Vec<(f64, f64)> = dots.iter().map(|d| (x.at(d.x), HEIGHT * (1.0 - y.at(d.y)))).collect();
    let steps = frontier(&spots);
    let names: Vec<usize> = dots.iter().map(|d| d.name.chars().count()).collect();
    let [wide, narrow] = [WIDE, NARROW].map(|page| place(&page, &spots, &names, &steps));
    let tall = format!("height:{HEIGHT}px");
    let line: Vec<String> = steps.iter().map(|(x, y)| format!("{},{}", px(x * ACROSS), px(*y))).collect();
    let named = |d: &Dot| html! { span.named { (chip(d.design)) span.name { (breakable(d.name)) } } };
    html! {
        div.plot.scatter {
            div style=(tall) { (y_axis(y)) }
            div.area style=(tall) {
                svg width="100%" height="100%" { (grid(x, y, HEIGHT)) }
                svg.stretch width="100%" height="100%" viewBox={ "0 0 " (ACROSS) " " (HEIGHT) }
                    preserveAspectRatio="none" {
                    polyline.frontier points=(line.join(" ")) {}
                }
                svg width="100%" height="100%" role="img" aria-label=(what) {
                    @for (i, dot) in dots.iter().enumerate() {
                        (leader("on-wide", dot.design, spots[i], &wide[i]))
                        (leader("on-narrow", dot.design, spots[i], &narrow[i]))
                        circle class={ "fill " (colour(dot.design)) } cx=(percent(spots[i].0)) cy=(px(spots[i].1))
                            r="6" {
                            title { (dot.tip) }
                        }
                    }
                }
                @for (i, dot) in dots.iter().enumerate() {
                    @let side = |label: &Label| if label.left { -1 } else { 0 };
                    @let at = format!(
                        "left:{};--side:{};--top:{}px;--narrow-side:{};--narrow-top:{}px",
                        percent(spots[i].0), side(&wide[i]), px(wide[i].top), side(&narrow[i]), px(narrow[i].top)
                    );
                    div.spot style=(at) title=(dot.name) { (named(dot)) }
                }
            }
            div {}
            (x_axis(x, axis))
        }
        div.legend { @for dot in dots { (named(dot)) } }
    }
}

/// From a dot to a label that is not beside it.
fn leader(page: &str, design: usize, (x, y): (f64, f64), label: &Label) -> Markup {
    html! {
        @if (label.top - y).abs() > 1.0 {
            line class={ "leader " (page) " " (colour(design)) } x1=(percent(x)) x2=(percent(x)) y1=(px(y))
                y2=(px(label.top)) {}
        }
    }
}

/// The corners of the stepped line under which no dot lies: down and to the right, from the leftmost on.
fn frontier(dots: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut order = dots.to_vec();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (x, y) in order {
        // Further down the page is fewer misses.
        let last = points.last().map(|p| p.1);
        if last.is_none_or(|last| y > last) {
            points.extend(last.map(|last| (x, last)));
            points.push((x, y));
        }
    }
    points.extend(points.last().map(|p| (1.0, p.1)));
    points
}
