//! Size, ticks and grid of all charts with two axes. The drawing stretches with the page; its text does not, because it
//! is HTML placed over the drawing.

use super::parts::{percent, px};
use super::scale::{Scale, tick_label};
use maud::{Markup, html};

/// Height of a plot in pixels.
pub(super) const HEIGHT: f64 = 320.0;
/// Line height of a label in pixels.
pub(super) const LINE: f64 = 21.0;
/// Units across a stretched drawing.
pub(super) const ACROSS: f64 = 1000.0;
/// More names than this along an axis do not fit on a narrow page.
const MANY: usize = 10;
/// From this part of the axis on a label ends at its tick, so that it stays on the page.
const LAST: f64 = 0.96;

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
            @for tick in scale.ticks() { (tick_at(scale.at(tick), &tick_label(tick))) }
            em { (title) }
        }
    }
}

/// Names at their places, from 0 to 1. On a narrow page every second of many names is left out.
pub(super) fn x_places<'a>(places: impl Iterator<Item = (f64, &'a str)>, title: &str) -> Markup {
    let places: Vec<_> = places.collect();
    html! {
        div.x.many[places.len() > MANY] {
            @for (at, name) in places { (tick_at(at, name)) }
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

fn tick_at(at: f64, label: &str) -> Markup {
    html! { span.last[at > LAST] style={ "left:" (percent(at)) } { (label) } }
}
