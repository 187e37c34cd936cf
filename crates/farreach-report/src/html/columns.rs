//! Columns side by side over sizes: a histogram of several things.

use super::axes::{x_places, y_axis};
use super::parts::{colour, percent, px};
use super::scale::Scale;
use maud::{Markup, html};

/// Height in pixels: two of them stand above each other.
const HEIGHT: f64 = 200.0;
/// Part of a place that its columns fill.
const FILLED: f64 = 0.76;
/// Places with a label, at most: more would touch each other.
const LABELS: usize = 14;

/// The columns of one colour.
pub(super) struct Series {
    /// Percent, for each place from the first on; places without one have no column.
    pub(super) shares: Vec<f64>,
    /// The tooltip of each.
    pub(super) tips: Vec<String>,
}

/// Columns of all series beside each other at each place. `axis`: what the height means.
pub(super) fn columns(what: &str, places: &[String], axis: &str, series: &[Series]) -> Markup {
    let most = series.iter().flat_map(|s| &s.shares).fold(0.0, |m: f64, v| m.max(*v));
    let y = Scale::linear(most);
    let slot = 1.0 / places.len().max(1) as f64;
    let wide = slot * FILLED / series.len().max(1) as f64;
    let left = |i: usize, k: usize| i as f64 * slot + slot * (1.0 - FILLED) / 2.0 + k as f64 * wide;
    let every = places.len().div_ceil(LABELS).max(1);
    let labels = places.iter().enumerate().step_by(every).map(|(i, name)| ((i as f64 + 0.5) * slot, name.as_str()));
    let tall = format!("height:{HEIGHT}px");
    html! {
        div.plot.scatter {
            div style=(tall) { (y_axis(y)) }
            div.area style=(tall) {
                svg width="100%" height="100%" role="img" aria-label=(what) {
                    @for tick in y.ticks() {
                        @let top = px(HEIGHT * (1.0 - y.at(tick)));
                        line.grid x1="0" x2="100%" y1=(top) y2=(top) {}
                    }
                    @for (k, s) in series.iter().enumerate() {
                        @let shown = |(_, (value, _)): &(usize, (&f64, &String))| **value > 0.0;
                        @for (i, (value, tip)) in s.shares.iter().zip(&s.tips).enumerate().filter(shown) {
                            // A column that is not empty is visible.
                            @let height = (HEIGHT * y.at(*value)).max(1.5);
                            rect class={ "fill " (colour(k)) } x=(percent(left(i, k))) y=(px(HEIGHT - height))
                                width=(percent(wide)) height=(px(height)) {
                                title { (places[i]) ", " (tip) }
                            }
                        }
                    }
                }
            }
            div {}
            (x_places(labels, axis))
        }
    }
}
