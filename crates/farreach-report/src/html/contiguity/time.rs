//! Memory, ranges and entries over time, look by look.

use super::super::lines::{Across, Line, chart, fit};
use super::super::scale::Scale;
use super::PAGE;
use farreach_types::counts::{ContiguityResult, ContiguitySample, Ranges};
use maud::{Markup, html};

const MIB: f64 = (1u64 << 20) as f64;
/// Most points of a line.
const POINTS: usize = 400;

/// The charts over time.
pub(super) fn over_time(result: &ContiguityResult) -> Markup {
    let n = result.samples.len();
    let step = n.div_ceil(POINTS);
    // The last look is always included.
    let looks: Vec<&ContiguitySample> =
        (0..n).filter(|i| (n - 1 - i).is_multiple_of(step)).map(|i| &result.samples[i]).collect();
    let seconds = Across::Numbers(looks.iter().map(|s| s.seconds).collect());
    let line = |name: &str, of: &dyn Fn(&ContiguitySample) -> f64| Line {
        name: name.to_owned(),
        values: looks.iter().map(|s| of(s)).collect(),
    };
    let physical = |of: fn(&Ranges) -> u64| move |s: &ContiguitySample| s.physical_ranges.as_ref().map_or(0, of) as f64;
    let memory = [
        line("present", &|s| (s.pages * PAGE) as f64 / MIB),
        line("in huge pages", &|s| (s.huge_pages * PAGE) as f64 / MIB),
    ];
    let mut ranges = vec![line("virtual, for 99 %", &|s| s.virtual_ranges.cover[2] as f64)];
    if result.frames_visible {
        ranges.push(line("physical, for 99 %", &physical(|r| r.cover[2])));
    }
    ranges.push(line("virtual, all", &|s| s.virtual_ranges.count as f64));
    if result.frames_visible {
        ranges.push(line("physical, all", &physical(|r| r.count)));
    }
    let of = |i: usize| move |s: &ContiguitySample| s.needs.get(i).map_or(0, |need| need.entries_99) as f64;
    let entries: Vec<Line> =
        result.peak.needs.iter().enumerate().map(|(i, need)| line(&need.hardware, &of(i))).collect();
    let most = result.samples.iter().map(|s| s.pages).max().unwrap_or(0);
    let top = Scale::linear((most * PAGE) as f64 / MIB * 1.04);
    let over_time =
        |title, lead, scale, lines: &[Line]| chart(title, &html! { (lead) }, &seconds, "seconds", scale, lines);
    html! {
        (over_time("Memory over time, MiB", "What is present, and what of it in huge pages.", top, &memory))
        (over_time("Ranges over time", "All charts above are of the look with the most memory.", fit(&ranges), &ranges))
        (over_time("Entries over time", "What would reach 99 % of the memory.", fit(&entries), &entries))
    }
}
