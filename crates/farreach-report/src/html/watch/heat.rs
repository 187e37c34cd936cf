//! The heat map: address by time.

use crate::format::{bytes, digits};
use crate::html::parts::px;
use farreach_types::counts::{Heat, HeatRow};
use maud::{Markup, html};

/// Height of a row, and of the drawing's units in all; wide enough for any number of columns.
const ROW: f64 = 7.0;
const WIDTH: f64 = 1000.0;
/// Steps of colour.
const STEPS: f32 = 10.0;

/// The step of a share: none at all is 0, anything else at least 1.
fn step(used: f32) -> u8 {
    if used <= 0.0 { 0 } else { (used * STEPS).round().clamp(1.0, STEPS) as u8 }
}

/// Cells of a row that follow each other with one colour: the first, the end, the step.
fn runs(row: &HeatRow) -> Vec<(usize, usize, u8)> {
    let mut runs: Vec<(usize, usize, u8)> = Vec::new();
    for (i, used) in row.used.iter().enumerate() {
        let Some(step) = used.map(step) else { continue };
        match runs.last_mut() {
            Some((_, end, last)) if *end == i && *last == step => *end += 1,
            _ => runs.push((i, i + 1, step)),
        }
    }
    runs
}

/// Rows of one mapping that follow each other: its name, the first row, how many.
fn groups(rows: &[HeatRow]) -> Vec<(&str, usize, usize)> {
    let mut groups: Vec<(&str, usize, usize)> = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        match groups.last_mut() {
            Some((name, _, rows)) if *name == row.mapping => *rows += 1,
            _ => groups.push((&row.mapping, i, 1)),
        }
    }
    groups
}

/// The last part of a path.
fn short(name: &str) -> &str {
    name.rsplit('/').next().filter(|last| !last.is_empty()).unwrap_or(name)
}

pub(super) fn section(heat: &Heat) -> Markup {
    let ends = &heat.seconds;
    let whole = ends.last().copied().unwrap_or(0.0).max(f64::MIN_POSITIVE);
    let at = |i: usize| if i == 0 { 0.0 } else { ends[i - 1] / whole * WIDTH };
    let groups = groups(&heat.rows);
    // A group has room for its name.
    let least = 2.0;
    let heights: Vec<f64> = groups.iter().map(|(_, _, rows)| (*rows as f64).max(least) * ROW).collect();
    let tops: Vec<f64> = heights
        .iter()
        .scan(0.0, |top, height| {
            let here = *top;
            *top += height + 2.0;
            Some(here)
        })
        .collect();
    let height = tops.last().zip(heights.last()).map_or(0.0, |(top, height)| top + height);
    let place = |group: usize, row: usize| {
        let (_, first, rows) = groups[group];
        let tall = heights[group] / rows as f64;
        (tops[group] + (row - first) as f64 * tall, tall)
    };
    html! {
        section {
            h2 { "Use by address and time" }
            p.lead {
                "Each row is a part of the address space, low addresses on top; holes are left out. The darker, the "
                "more of its present memory was used."
            }
            p.keys {
                @for step in [0, 1, 3, 5, 8, 10] {
                    span { i class={ "key heat h" (step) } {} @if step == 0 { "none" } @else { (step * 10) " %" } }
                }
            }
            div.heatmap {
                div.names style={ "height:" (px(height)) "px" } {
                    @for ((name, _, _), top) in groups.iter().zip(&tops) {
                        span style={ "top:" (px(*top)) "px" } title=(name) { (short(name)) }
                    }
                }
                svg width="100%" height=(px(height)) viewBox={ "0 0 " (WIDTH) " " (px(height)) }
                    preserveAspectRatio="none" role="img" aria-label="use by address and time" {
                    @for (g, (_, first, rows)) in groups.iter().enumerate() {
                        @for i in *first..first + rows {
                            @let row = &heat.rows[i];
                            @let (y, tall) = place(g, i);
                            g {
                                title {
                                    (row.mapping) ", " (format!("{:#x}", row.start)) ", " (bytes(row.end - row.start))
                                }
                                @for (from, to, step) in runs(row) {
                                    rect class={ "heat h" (step) } x=(px(at(from))) y=(px(y))
                                        width=(px(at(to) - at(from))) height=(px(tall)) {}
                                }
                            }
                        }
                    }
                }
                div {}
                div.x {
                    span style="left:0%" { "0" }
                    span.last style="left:100%" { (digits(whole)) }
                    em { "seconds" }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_cells_are_one_rectangle_and_holes_none() {
        let row = HeatRow { used: vec![Some(0.0), Some(0.01), Some(0.1), None, Some(1.0)], ..HeatRow::default() };
        assert_eq!(runs(&row), [(0, 1, 0), (1, 3, 1), (4, 5, 10)]);
        let named = |name: &str| HeatRow { mapping: name.into(), ..HeatRow::default() };
        assert_eq!(groups(&[named("a"), named("a"), named("/b")]), [("a", 0, 2), ("/b", 2, 1)]);
        assert_eq!((short("/usr/lib/libc.so.6"), short("heap"), short("/")), ("libc.so.6", "heap", "/"));
    }
}
