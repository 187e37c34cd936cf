//! Lines over an axis: misses by page size, memory over time. The drawing stretches with the page; text does not, because it belongs to
//! the page and is only placed on the drawing.

use super::parts::{apart, chip, colour, percent, px};
use super::plots::{ACROSS, HEIGHT, LINE, x_axis, x_places, y_axis};
use super::scale::{Scale, tick_label};
use maud::{Markup, html};

/// More points than this get no dots: they would run into each other.
const DOTS: usize = 60;

/// A line: its name and a value for each place along the axis.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) values: Vec<f64>,
}

/// What lies along the bottom.
pub(super) enum Across {
    /// Places that have names, equally far apart: page sizes, numbers of entries.
    Names(Vec<String>),
    /// Numbers, ascending, where they belong: seconds.
    Numbers(Vec<f64>),
}

impl Across {
    fn scale(&self) -> Option<Scale> {
        match self {
            Across::Names(_) => None,
            Across::Numbers(at) => Some(Scale::linear(at.last().copied().unwrap_or(0.0))),
        }
    }

    /// Where each place is, from 0 to 1.
    fn places(&self) -> Vec<f64> {
        match self {
            Across::Names(names) if names.len() == 1 => vec![0.5],
            Across::Names(names) => (0..names.len()).map(|i| i as f64 / (names.len() - 1) as f64).collect(),
            Across::Numbers(at) => at.iter().map(|x| self.scale().map_or(0.0, |scale| scale.at(*x))).collect(),
        }
    }

    fn name(&self, i: usize) -> String {
        match self {
            Across::Names(names) => names[i].clone(),
            Across::Numbers(at) => tick_label(at[i]),
        }
    }
}

/// The axis that suits the values of all lines.
pub(super) fn fit(lines: &[Line]) -> Scale {
    Scale::fit(lines.iter().flat_map(|line| line.values.iter().copied()).collect::<Vec<_>>().into_iter())
}

/// A section with a chart. `axis`: what lies along the bottom.
pub(super) fn chart(title: &str, lead: &Markup, across: &Across, axis: &str, y: Scale, lines: &[Line]) -> Markup {
    let height = HEIGHT.max(LINE * (lines.len() as f64 + 1.0));
    let places = across.places();
    let top = |value: f64| height * (1.0 - y.at(value));
    let ends: Vec<f64> = lines.iter().map(|line| top(line.values.last().copied().unwrap_or(0.0))).collect();
    let labels = apart(&ends, LINE, height);
    let tall = format!("height:{height}px");
    let named = |i: usize| html! { span.named { (chip(i)) span.name { (lines[i].name) } } };
    html! {
        section {
            h2 { (title) }
            p.lead { (lead) @if y.is_log() { " The scale is logarithmic." } }
            div.plot {
                div style=(tall) { (y_axis(y)) }
                div.area style=(tall) {
                    svg width="100%" height="100%" {
                        @for tick in y.ticks() { line.grid x1="0" x2="100%" y1=(px(top(tick))) y2=(px(top(tick))) {} }
                        @for at in upright(across, &places) { line.grid.faint x1=(percent(at)) x2=(percent(at)) y1="0" y2="100%" {} }
                    }
                    svg.stretch width="100%" height="100%" viewBox={ "0 0 " (ACROSS) " " (height) } preserveAspectRatio="none" role="img" aria-label=(title) {
                        @for (i, line) in lines.iter().enumerate() {
                            @let points: Vec<String> = line.values.iter().zip(&places).map(|(v, x)| format!("{},{}", px(x * ACROSS), px(top(*v)))).collect();
                            polyline class={ "trace " (colour(i)) } points=(points.join(" ")) { title { (line.name) } }
                        }
                    }
                    @if places.len() <= DOTS {
                        svg width="100%" height="100%" {
                            @for (i, line) in lines.iter().enumerate() {
                                @for (k, (value, x)) in line.values.iter().zip(&places).enumerate() {
                                    circle class={ "fill " (colour(i)) } cx=(percent(*x)) cy=(px(top(*value))) r="3" {
                                        title { (line.name) ", " (across.name(k)) ": " (tick_label(*value)) }
                                    }
                                }
                            }
                        }
                    }
                }
                div.ends style=(tall) {
                    svg width="18" height=(height) {
                        @for (i, (end, label)) in ends.iter().zip(&labels).enumerate() {
                            polyline class={ "leader " (colour(i)) } points={ "0," (px(*end)) " 5," (px(*end)) " 13," (px(*label)) " 18," (px(*label)) } {}
                        }
                    }
                    @for (i, label) in labels.iter().enumerate() {
                        div.end style={ "top:" (px(*label)) "px" } { (named(i)) }
                    }
                }
                div {}
                @match across {
                    Across::Numbers(_) => (x_axis(across.scale().unwrap_or(Scale::linear(0.0)), axis)),
                    Across::Names(names) => (x_places(places.iter().copied().zip(names.iter().map(String::as_str)), axis)),
                }
            }
            div.legend { @for i in 0..lines.len() { (named(i)) } }
        }
    }
}

/// Where the upright lines of the grid are.
fn upright(across: &Across, places: &[f64]) -> Vec<f64> {
    across.scale().map_or_else(|| places.to_vec(), |scale| scale.ticks().into_iter().map(|tick| scale.at(tick)).collect())
}
