//! Lines over equal steps, drawn on the server: no script.

use crate::format::clean;
use crate::html::parts::{apart, colour, px};
use crate::html::scale::{Scale, tick_label};
use farreach_types::papers::{Bars, Chart, Series};
use maud::{Markup, html};

/// Height of a line of text, and about the width of a letter in it, in units of the drawing.
const LINE: f64 = 17.0;
const LETTER: f64 = 6.7;
/// Room for the ticks on the left, and below the lines.
const LEFT: f64 = 52.0;
const BELOW: f64 = 40.0;
/// Room above the lines, for half a tick.
const ABOVE: f64 = 10.0;

/// One chart. `width` and `height` are those of the area of the lines, in units of the drawing.
pub(super) fn chart(chart: &Chart, width: f64, height: f64) -> Markup {
    let series: Vec<(usize, Vec<(f64, f64)>)> = (0..chart.series.len())
        .map(|i| (i, points(chart, i, width)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let height = height.max(LINE * series.len() as f64);
    let y = Scale::fit_from(8.0, chart.series.iter().flat_map(|s| s.values.iter().flatten().copied()));
    let top = |value: f64| ABOVE + height * (1.0 - y.at(value));
    let ends: Vec<f64> = series.iter().map(|(_, p)| top(p[p.len() - 1].1)).collect();
    let labels = apart(&ends, LINE, height + ABOVE + LINE / 2.0);
    let longest = chart.series.iter().map(|s| s.name.chars().count()).max().unwrap_or(0) as f64;
    let (all, tall) = (LEFT + width + 30.0 + LETTER * longest, ABOVE + height + BELOW);
    let place = |i: usize| LEFT + step(chart) * (i as f64 + 0.5) * width;
    html! {
        figure.lines {
            figcaption { (clean(&chart.title)) }
            svg viewBox={ "0 0 " (px(all)) " " (px(tall)) } style={ "width:min(100%," (px(all)) "px);min-width:min(" (px(all)) "px,34rem)" } role="img"
                aria-label=(clean(&chart.title)) {
                @for tick in y.ticks() {
                    line.grid x1=(px(LEFT)) x2=(px(LEFT + width)) y1=(px(top(tick))) y2=(px(top(tick))) {}
                    text.tick x=(px(LEFT - 7.0)) y=(px(top(tick) + 4.0)) text-anchor="end" { (tick_label(tick)) }
                }
                @for (i, name) in chart.places.iter().enumerate() {
                    text.tick x=(px(place(i))) y=(px(ABOVE + height + 17.0)) text-anchor="middle" { (name) }
                }
                text.tick x=(px(LEFT + width)) y=(px(ABOVE + height + 34.0)) text-anchor="end" { (chart.x) }
                text.tick x="0" y=(px(ABOVE + height + 34.0)) { (chart.y) }
                @for (k, (i, points)) in series.iter().enumerate() {
                    g class=(colour(*i)) {
                        @let line = points.iter().map(|(x, v)| format!("{},{}", px(*x), px(top(*v))));
                        polyline class={ "trace " (colour(*i)) } points=(line.collect::<Vec<_>>().join(" ")) {
                            title { (clean(&chart.series[*i].name)) }
                        }
                        @for (x, v) in points { circle.fill cx=(px(*x)) cy=(px(top(*v))) r="2.6" {} }
                        @let from = points[points.len() - 1].0;
                        polyline.leader points={
                            (px(from + 4.0)) "," (px(ends[k])) " " (px(LEFT + width + 4.0)) "," (px(ends[k])) " "
                            (px(LEFT + width + 16.0)) "," (px(labels[k]))
                        } {}
                        text.end-name x=(px(LEFT + width + 20.0)) y=(px(labels[k] + 4.0)) {
                            (clean(&chart.series[*i].name))
                        }
                    }
                }
            }
        }
    }
}

/// Groups of bars. `height` is that of the area of the bars, in units of the drawing.
pub(super) fn bars(bars: &Bars, height: f64) -> Markup {
    const BAR: f64 = 13.0;
    const GAP: f64 = 16.0;
    let chart = &bars.chart;
    // A series without values takes no room.
    let shown: Vec<(usize, &Series)> =
        chart.series.iter().enumerate().filter(|(_, s)| s.values.iter().any(Option::is_some)).collect();
    let longest = chart.series.iter().flat_map(|s| s.values.iter().flatten().copied()).fold(0.0, f64::max);
    let most = bars.clip.map_or(longest, |clip| clip.min(longest));
    let y = Scale::linear(most);
    let count = shown.len() as f64;
    let letters = chart.places.iter().map(|p| p.chars().count()).max().unwrap_or(0) as f64;
    let group = (BAR * count + GAP).max(LETTER * letters + 6.0);
    let (width, above) = (group * chart.places.len() as f64, ABOVE);
    let names: Vec<f64> = shown
        .iter()
        .scan(LEFT, |x, (_, s)| {
            let at = *x;
            *x += LETTER * s.name.chars().count() as f64 + 30.0;
            Some(at)
        })
        .collect();
    let (all, tall) = (LEFT + width + 10.0, above + height + BELOW + LINE);
    let top = |value: f64| above + height * (1.0 - y.at(value.min(most)));
    html! {
        figure.lines {
            figcaption { (clean(&chart.title)) ", " (chart.y) }
            svg viewBox={ "0 0 " (px(all)) " " (px(tall)) } style={ "width:min(100%," (px(all)) "px);min-width:min(" (px(all)) "px,34rem)" } role="img"
                aria-label=(clean(&chart.title)) {
                @for tick in y.ticks() {
                    line.grid x1=(px(LEFT)) x2=(px(LEFT + width)) y1=(px(top(tick))) y2=(px(top(tick))) {}
                    text.tick x=(px(LEFT - 7.0)) y=(px(top(tick) + 4.0)) text-anchor="end" { (tick_label(tick)) }
                }
                @for (p, name) in chart.places.iter().enumerate() {
                    @let left = LEFT + group * p as f64 + (group - BAR * count) / 2.0;
                    @for (k, (i, series)) in shown.iter().enumerate() {
                        @if let Some(value) = series.values.get(p).copied().flatten() {
                            @let x = left + BAR * k as f64;
                            rect class={ "fill " (colour(*i)) } x=(px(x)) y=(px(top(value))) width=(px(BAR - 1.5))
                                height=(px((above + height - top(value)).max(0.6))) {
                                title { (clean(&series.name)) ": " (tick_label(value)) }
                            }
                            @if value > most {
                                @let (middle, end) = (px(x + BAR / 2.0 + 3.2), px(above + 6.0));
                                text.inside x=(middle) y=(end) text-anchor="end"
                                    transform={ "rotate(-90 " (middle) " " (end) ")" } {
                                    (format!("{value:.0}"))
                                }
                            }
                        }
                    }
                    text.tick x=(px(LEFT + group * (p as f64 + 0.5))) y=(px(above + height + 17.0))
                        text-anchor="middle" {
                        (clean(name))
                    }
                }
                @for (k, (i, series)) in shown.iter().enumerate() {
                    rect class={ "fill " (colour(*i)) } x=(px(names[k])) y=(px(tall - 14.0)) width="10" height="10" {}
                    text.tick x=(px(names[k] + 15.0)) y=(px(tall - 5.0)) { (clean(&series.name)) }
                }
            }
        }
    }
}

fn step(chart: &Chart) -> f64 {
    1.0 / chart.places.len().max(1) as f64
}

/// Places across and values, where there are any.
fn points(chart: &Chart, series: usize, width: f64) -> Vec<(f64, f64)> {
    let across = |i: usize| LEFT + step(chart) * (i as f64 + 0.5) * width;
    chart.series[series].values.iter().enumerate().filter_map(|(i, v)| Some((across(i), (*v)?))).collect()
}
