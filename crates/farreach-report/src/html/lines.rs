//! Lines over an axis: misses by page size, memory over time. The drawing stretches with the page; its text does not,
//! because it is HTML placed over the drawing.

use super::axes::{ACROSS, HEIGHT, LINE, x_axis, x_places, y_axis};
use super::parts::{apart, breakable, chip, colour, percent, px};
use super::scale::{Scale, tick_label};
use maud::{Markup, html};

/// More points than this get no dots: they would run into each other.
const DOTS: usize = 60;

/// A line: its name and a value for each place along the axis.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) values: Vec<f64>,
}

/// The horizontal axis.
pub(super) enum Across {
    /// Named places at equal distances: page sizes, numbers of entries.
    Names(Vec<String>),
    /// Ascending numbers to scale: seconds.
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

/// A section with a chart. `axis`: the title of the horizontal axis.
pub(super) fn chart(title: &str, lead: &Markup, across: &Across, axis: &str, y: Scale, lines: &[Line]) -> Markup {
    let places = across.places();
    let drawn = |(design, line): (usize, &Line)| Drawn {
        design,
        name: line.name.clone(),
        points: places.iter().copied().zip(line.values.iter().copied()).collect(),
    };
    let drawn: Vec<Drawn> = lines.iter().enumerate().map(drawn).collect();
    let tip = |k: usize| across.name(k);
    let bottom = match across {
        Across::Numbers(_) => x_axis(across.scale().unwrap_or(Scale::linear(0.0)), axis),
        Across::Names(names) => x_places(places.iter().copied().zip(names.iter().map(String::as_str)), axis),
    };
    html! {
        section {
            h2 { (title) }
            p.lead { (lead) @if y.is_log() { " The scale is logarithmic." } }
            (plot(title, y, &upright(across, &places), &bottom, &drawn, &[], (places.len() <= DOTS).then_some(&tip)))
            div.legend { @for line in &drawn { (line.named()) } }
        }
    }
}

/// A line where it is drawn.
pub(super) struct Drawn {
    /// Which colour and letters it has.
    pub(super) design: usize,
    pub(super) name: String,
    /// Places across, from 0 to 1, and values. A line has at least one.
    pub(super) points: Vec<(f64, f64)>,
}

impl Drawn {
    fn named(&self) -> Markup {
        html! { span.named { (chip(self.design)) span.name { (breakable(&self.name)) } } }
    }
}

/// A place along the horizontal axis: an upright line with words at its top.
pub(super) struct Mark {
    /// From 0 to 1.
    pub(super) at: f64,
    pub(super) words: String,
    /// The line that it belongs to; `None`: to none, and is dashed.
    pub(super) design: Option<usize>,
}

impl Mark {
    /// Words of each line have a row of their own, so that they do not run into each other.
    fn row(&self) -> f64 {
        self.design.map_or(0.0, |design| design as f64 + 1.0)
    }

    fn colour(&self) -> String {
        self.design.map_or("dash".to_owned(), |design| colour(design).to_string())
    }
}

/// The lines between their axes, each with its name at its end. `upright`: places of the vertical grid lines; `bottom`:
/// the horizontal axis; `tip`: names the place of a point, if points have dots.
pub(super) fn plot(
    what: &str,
    y: Scale,
    upright: &[f64],
    bottom: &Markup,
    lines: &[Drawn],
    marks: &[Mark],
    tip: Option<&dyn Fn(usize) -> String>,
) -> Markup {
    let height = HEIGHT.max(LINE * (lines.len() as f64 + 1.0));
    let top = |value: f64| height * (1.0 - y.at(value));
    let ends: Vec<f64> = lines.iter().map(|line| top(line.points.last().map_or(0.0, |p| p.1))).collect();
    let labels = apart(&ends, LINE, height);
    let tall = format!("height:{height}px");
    let point = |x: f64, y: f64| format!("{},{}", px(x), px(y));
    html! {
        div.plot {
            div style=(tall) { (y_axis(y)) }
            div.area style=(tall) {
                svg width="100%" height="100%" {
                    @for tick in y.ticks() { line.grid x1="0" x2="100%" y1=(px(top(tick))) y2=(px(top(tick))) {} }
                    @for at in upright { line.grid.faint x1=(percent(*at)) x2=(percent(*at)) y1="0" y2="100%" {} }
                    @for mark in marks {
                        line class={ "mark " (mark.colour()) } x1=(percent(mark.at)) x2=(percent(mark.at))
                            y1=(px(LINE * mark.row())) y2="100%" {}
                    }
                }
                @for mark in marks {
                    @let place = format!("left:{};top:{}px", percent(mark.at), px(LINE * mark.row()));
                    span class={ "words " (mark.colour()) } style=(place) { (mark.words) }
                }
                svg.stretch width="100%" height="100%" viewBox={ "0 0 " (ACROSS) " " (height) }
                    preserveAspectRatio="none" role="img" aria-label=(what) {
                    @for line in lines {
                        @if let [(_, only)] = line.points[..] {
                            line class={ "trace " (colour(line.design)) } x1="0" x2=(ACROSS) y1=(px(top(only)))
                                y2=(px(top(only))) {}
                        } @else {
                            @let points = line.points.iter().map(|(x, v)| point(x * ACROSS, top(*v)));
                            @let points = points.collect::<Vec<_>>().join(" ");
                            polyline class={ "trace " (colour(line.design)) } points=(points) {
                                title { (line.name) }
                            }
                        }
                    }
                }
                @if let Some(tip) = tip {
                    svg width="100%" height="100%" {
                        @for line in lines {
                            @for (k, (x, value)) in line.points.iter().enumerate() {
                                circle class={ "fill " (colour(line.design)) } cx=(percent(*x)) cy=(px(top(*value)))
                                    r="3" {
                                    title { (line.name) ", " (tip(k)) ": " (tick_label(*value)) }
                                }
                            }
                        }
                    }
                }
            }
            div.ends style=(tall) {
                svg width="18" height=(height) {
                    @for (line, (end, label)) in lines.iter().zip(ends.iter().zip(&labels)) {
                        polyline class={ "leader " (colour(line.design)) }
                            points={ "0," (px(*end)) " 5," (px(*end)) " 13," (px(*label)) " 18," (px(*label)) } {}
                    }
                }
                @for (line, label) in lines.iter().zip(&labels) {
                    div.end style={ "top:" (px(*label)) "px" } title=(line.name) { (line.named()) }
                }
            }
            div {}
            (bottom)
        }
    }
}

/// Places of the vertical grid lines.
fn upright(across: &Across, places: &[f64]) -> Vec<f64> {
    across
        .scale()
        .map_or_else(|| places.to_vec(), |scale| scale.ticks().into_iter().map(|tick| scale.at(tick)).collect())
}
