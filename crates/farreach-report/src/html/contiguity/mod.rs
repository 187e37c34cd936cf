//! The page of a process's contiguity: the number of ranges that cover its memory, their sizes, and the entries that
//! hardware would need to reach it.

mod numbers;
mod time;

use super::bars::axis;
use super::columns::{Series, columns};
use super::parts::{breakable, colour, percent};
use super::scale::Scale;
use super::{Head, document};
use crate::format::{NONE, bytes, count, counted, digits, grouped, rate};
use crate::view::cleaned_contiguity;
use farreach_types::addr::Bytes;
use farreach_types::counts::{ContiguityResult, ContiguitySample, Ranges, RegionContiguity};
use maud::{Markup, html};

const PAGE: u64 = 4096;
/// Regions that get a bar; the JSON has all.
const REGIONS: usize = 12;
/// From this ratio of largest to smallest on, numbers of ranges and of entries stand on a logarithmic axis.
const LOG_FROM: f64 = 20.0;

/// The page.
pub fn render(result: &ContiguityResult) -> String {
    let result = &cleaned_contiguity(result);
    let blind = html! {
        b { "Only the virtual half: " }
        "this user may not see frames (that takes CAP_SYS_ADMIN). Ranges below are those of ideal placement, and so is "
        "what hardware would need; where the memory really lies may be worse."
    };
    let title = title(result);
    let head = Head {
        about: "one process, the contiguity of its memory".into(),
        title: &title,
        source: &result.source,
        facts: facts(result),
        warning: (!result.frames_visible).then_some(blind),
    };
    let body = html! {
        (cover(result))
        (sizes(result))
        (needs(result))
        (regions(result))
        @if result.samples.len() > 1 { (time::over_time(result)) }
        (numbers::numbers(result))
        (numbers::reading(result))
    };
    document(&head, &body)
}

/// Both kinds of ranges that are known: a name, the ranges, and the number of their colour.
fn kinds(sample: &ContiguitySample) -> Vec<(&'static str, &Ranges)> {
    let physical = sample.physical_ranges.as_ref().map(|ranges| ("physical (actual)", ranges));
    [("virtual (ideal)", &sample.virtual_ranges)].into_iter().chain(physical).collect()
}

fn title(result: &ContiguityResult) -> String {
    let peak = &result.peak;
    let memory = bytes(peak.pages * PAGE);
    let ranges = |n: u64| counted(n, "range");
    let ideal = peak.virtual_ranges.cover[2];
    match peak.physical_ranges.as_ref().map(|r| r.cover[2]) {
        None => format!(
            "Placed ideally, 99\u{a0}% of {memory} would lie in {}; where it lies is not visible.",
            ranges(ideal)
        ),
        Some(n) if n <= ideal => {
            format!("99\u{a0}% of {memory} lies in {}, as few as ideal placement would make.", ranges(n))
        }
        Some(n) => format!("99\u{a0}% of {memory} lies in {}; ideal placement would make {}.", ranges(n), count(ideal)),
    }
}

fn share(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn facts(result: &ContiguityResult) -> Markup {
    let peak = &result.peak;
    html! {
        dl.facts {
            div { dt { "present" } dd { (bytes(peak.pages * PAGE)) } }
            div {
                dt { "in huge pages" }
                dd { (bytes(peak.huge_pages * PAGE)) ", " (rate(share(peak.huge_pages, peak.pages))) " %" }
            }
            @for (name, ranges) in kinds(peak) { div { dt { "ranges, " (name) } dd { (count(ranges.count)) } } }
            @for (name, ranges) in kinds(peak) {
                div { dt { "largest, " (name) } dd { (bytes(ranges.max_pages * PAGE)) } }
            }
            @if result.samples.len() > 1 {
                div {
                    dt { "looks" }
                    dd { (grouped(result.samples.len() as u64)) ", most memory after " (digits(peak.seconds)) " s" }
                }
            }
        }
    }
}

/// Which colour means what, for charts with one mark per kind of ranges.
fn keys(sample: &ContiguitySample) -> Markup {
    html! {
        p.keys {
            @for (k, (name, _)) in kinds(sample).into_iter().enumerate() {
                span { i class={ "key " (colour(k)) } {} (name) }
            }
        }
    }
}

/// An axis for dots: logarithmic from a smaller ratio on, since dots have no length that must be in proportion.
fn dots(values: impl Iterator<Item = u64> + Clone) -> Scale {
    match Scale::fit_from(LOG_FROM, values.map(|n| n as f64)) {
        Scale::Linear(max) => Scale::Linear(max * 1.04),
        log => log,
    }
}

/// A row of dots, one per kind, on a common axis.
fn row(scale: Scale, values: &[u64], what: &str) -> Markup {
    let ends = (values.iter().min().copied().unwrap_or(0), values.iter().max().copied().unwrap_or(0));
    let at = |n: u64| percent(scale.at(n as f64));
    html! {
        svg width="100%" height="24" role="img" aria-label=(what) {
            title { (what) ": " (values.iter().map(|n| grouped(*n)).collect::<Vec<_>>().join(", ")) }
            @for tick in scale.ticks() {
                line.grid x1=(percent(scale.at(tick))) x2=(percent(scale.at(tick))) y1="0" y2="24" {}
            }
            line.stem.s0 x1=(at(ends.0)) x2=(at(ends.1)) y1="12" y2="12" {}
            // The first kind on top and smaller: equal values show both.
            @for (k, n) in values.iter().enumerate().rev() {
                circle class={ "fill " (colour(k)) } cx=(at(*n)) cy="12" r=(if k == 0 { "4.5" } else { "6.5" }) {}
            }
        }
    }
}

/// A ratio: three digits, many as a count.
fn times(ratio: f64) -> String {
    if ratio < 1000.0 { rate(ratio) } else { count(ratio as u64) }
}

/// How few ranges cover the memory.
fn cover(result: &ContiguityResult) -> Markup {
    let kinds = kinds(&result.peak);
    let all = |(_, r): &(&str, &Ranges)| [r.cover[0], r.cover[1], r.cover[2], r.count];
    let values: Vec<[u64; 4]> = kinds.iter().map(all).collect();
    let scale = dots(values.iter().flatten().copied());
    html! {
        section {
            h2 { "Ranges that cover the memory" }
            p.lead {
                "The fewest ranges that have so much of it."
                @if scale.is_log() { " Logarithmic: each line to the right is " (scale.times()) " times as many." }
            }
            (keys(&result.peak))
            div.bars {
                div.head.label {}
                div.head {}
                div.head.value.three {
                    span { "virtual" }
                    @if kinds.len() > 1 { span { "physical" } span { "times" } }
                }
                @for (i, part) in ["50 %", "90 %", "99 %", "all"].into_iter().enumerate() {
                    @let here: Vec<u64> = values.iter().map(|v| v[i]).collect();
                    div.label { (part) " of the memory" }
                    div.bar { (row(scale, &here, &format!("ranges that have {part}"))) }
                    div.value.three {
                        b { (count(here[0])) span.narrow { " virtual" } }
                        @if let Some(n) = here.get(1) {
                            b { (count(*n)) span.narrow { " physical" } }
                            span { (times(*n as f64 / here[0].max(1) as f64)) span.narrow { " times" } }
                        }
                    }
                }
                (axis(scale))
            }
        }
    }
}

/// Where a range of `2^i` pages begins, in bytes.
fn bucket(i: usize) -> String {
    Bytes(PAGE << i).to_string()
}

/// How large the ranges are.
fn sizes(result: &ContiguityResult) -> Markup {
    let kinds = kinds(&result.peak);
    let places: Vec<String> =
        (0..kinds.iter().map(|(_, r)| r.histogram.len()).max().unwrap_or(0)).map(bucket).collect();
    let series = |of: usize, unit: fn(u64) -> String| -> Vec<Series> {
        let one = |(name, r): &(&str, &Ranges)| {
            let whole: u64 = r.histogram.iter().map(|entry| entry[of]).sum();
            let tip = |entry: &[u64; 2]| format!("{name}: {} ranges, {}", grouped(entry[0]), unit(entry[1]));
            Series {
                shares: r.histogram.iter().map(|entry| share(entry[of], whole)).collect(),
                tips: r.histogram.iter().map(tip).collect(),
            }
        };
        kinds.iter().map(one).collect()
    };
    let memory = |pages: u64| bytes(pages * PAGE);
    html! {
        section {
            h2 { "Sizes of ranges" }
            p.lead {
                "Each column: ranges from the size under it up to the next. Above, which part of the memory lies in "
                "ranges of that size; below, which part of the ranges are of that size."
            }
            (keys(&result.peak))
            @let axis = |what: &str| format!("size of a range; height: % of the {what}");
            (columns("memory by size of range", &places, &axis("memory"), &series(1, memory)))
            (columns("ranges by size", &places, &axis("ranges"), &series(0, memory)))
        }
    }
}

/// Entries of hardware.
fn needs(result: &ContiguityResult) -> Markup {
    let peak = &result.peak;
    let scale = dots(peak.needs.iter().flat_map(|n| [n.entries, n.entries_99]));
    let reach = |entries: u64| (peak.pages * PAGE).checked_div(entries).map_or_else(|| NONE.to_owned(), bytes);
    html! {
        section {
            h2 { "What hardware would need to reach it" }
            p.lead {
                "Entries of each kind that reach everything at once, those that reach 99 %, and how far one reaches on "
                "average. "
                @if result.frames_visible { "Memory lies as it does; nothing is moved. " }
                @else { "As if memory were placed ideally. " }
                @if scale.is_log() { "Logarithmic: each line to the right is " (scale.times()) " times as many." }
            }
            p.keys { span { i.key.s0 {} "for 99 %" } span { i.key.s1 {} "for all" } }
            div.bars {
                div.head.label {}
                div.head {}
                div.head.value.three { span { "for all" } span { "for 99 %" } span { "each" } }
                @for need in &peak.needs {
                    div.label { (need.hardware) }
                    div.bar { (row(scale, &[need.entries_99, need.entries], &need.hardware)) }
                    div.value.three {
                        b { (count(need.entries)) span.narrow { " for all" } }
                        span { (count(need.entries_99)) span.narrow { " for 99 %" } }
                        span { (reach(need.entries)) span.narrow { " each" } }
                    }
                }
                (axis(scale))
            }
        }
    }
}

/// By region.
fn regions(result: &ContiguityResult) -> Markup {
    let most = result.regions.iter().map(|r| r.pages).max().unwrap_or(0).max(1);
    let at = |pages: u64| percent(pages as f64 / most as f64);
    let rest = result.regions.iter().skip(REGIONS);
    let tip = |r: &RegionContiguity| {
        format!("{}: {}, {} in huge pages", r.region, bytes(r.pages * PAGE), bytes(r.huge_pages * PAGE))
    };
    html! {
        section {
            h2 { "By region" }
            p.lead { "The largest regions: memory, and the ranges that it makes." }
            p.keys { span { i.key.used {} "in 4 KB pages" } span { i.key.wasted {} "in huge pages" } }
            div.bars {
                div.head.label {}
                div.head {}
                div.head.value.three { span { "present" } span { "virtual" } span { "physical" } }
                @for r in result.regions.iter().take(REGIONS) {
                    // The kernel's two files are not read at one moment.
                    @let huge = r.huge_pages.min(r.pages);
                    div.label { (breakable(&r.region)) }
                    div.bar {
                        svg width="100%" height="22" role="img" aria-label=(tip(r)) {
                            title { (tip(r)) }
                            rect.wasted x="0" y="2" height="18" width=(at(huge)) {}
                            rect.used x=(at(huge)) y="2" height="18" width=(at(r.pages - huge)) {}
                        }
                    }
                    div.value.three {
                        b { (bytes(r.pages * PAGE)) }
                        span { (count(r.virtual_ranges)) span.narrow { " virtual" } }
                        span { (r.physical_ranges.map_or_else(|| NONE.into(), count)) span.narrow { " physical" } }
                    }
                }
            }
            @if rest.len() > 0 {
                p.note {
                    "And " (rest.len()) " more with " (bytes(rest.map(|r| r.pages).sum::<u64>() * PAGE))
                    " together; the JSON report has all."
                }
            }
        }
    }
}
