//! The page of a watched process: what it uses by address and time, its working set by size of page, how full its
//! blocks are, and what follows.

mod heat;

use super::bars::axis;
use super::columns::{Series, columns};
use super::lines::{Across, Line, chart};
use super::parts::{breakable, percent};
use super::scale::Scale;
use super::{Head, document};
use crate::format::{NONE, bytes, count, counted, digits, grouped, rate};
use crate::view::cleaned_watch;
use crate::watch::{between, entries, method};
use farreach_types::addr::Bytes;
use farreach_types::counts::{WatchInterval, WatchResult};
use maud::{Markup, html};

const MIB: f64 = (1u64 << 20) as f64;
/// Mappings that get a bar; the JSON has all.
const MAPPINGS: usize = 12;
/// Most points of a line.
const POINTS: usize = 400;

/// The page.
pub fn render(result: &WatchResult) -> String {
    let result = &cleaned_watch(result);
    let head = Head {
        about: "one process, the memory that it uses".into(),
        title: &title(result),
        source: &result.source,
        facts: facts(result),
        warning: None,
    };
    let body = html! {
        (seen(result))
        (recommendation(result))
        @if !result.heat.rows.is_empty() { (heat::section(&result.heat)) }
        (working_sets(result))
        (reach(result))
        (blocks(result))
        (mappings(result))
        @if result.intervals.len() > 1 { (over_time(result)) }
        (reading(result))
    };
    document(&head, &body)
}

fn title(result: &WatchResult) -> String {
    let present = bytes(result.present_bytes);
    match result.working_sets.first().and_then(|set| set.median_bytes) {
        None => format!("{present} are present; which of it is used was not seen."),
        used => format!("In {}\u{a0}s it uses {} of {present}.", digits(result.interval_seconds), between(used)),
    }
}

fn facts(result: &WatchResult) -> Markup {
    html! {
        dl.facts {
            div { dt { "present" } dd { (bytes(result.present_bytes)) } }
            div { dt { "anonymous" } dd { (bytes(result.anonymous_bytes)) } }
            div { dt { "in huge pages" } dd { (bytes(result.huge.now_bytes)) } }
            div { dt { "watched" } dd { (digits(result.seconds)) " s" } }
            div { dt { "intervals" } dd { (grouped(result.intervals.len() as u64)) } }
            div { dt { "end" } dd { (result.ended) } }
            div { dt { "method" } dd { (result.method.name) } }
            div { dt { "cost" } dd { (rate(result.cost.percent_of_a_processor)) " % of a processor" } }
        }
    }
}

fn seen(result: &WatchResult) -> Markup {
    html! { section { h2 { "What was seen" } @for sentence in method(result) { p.lead { (sentence) } } } }
}

fn recommendation(result: &WatchResult) -> Markup {
    let said = &result.recommendation;
    html! {
        section {
            h2 { "What follows" }
            p { b { (said.text) } }
            ul { @for sentence in said.reasons.iter().chain(&said.limits) { li { (sentence) } } }
            p.note { "To know more: " code { (said.next) } }
        }
    }
}

/// A table of numbers by size of page.
fn by_page_size(columns: &[&str], rows: impl Iterator<Item = (u64, Vec<String>)>) -> Markup {
    html! {
        div.scroll {
            table.numbers {
                thead { tr { th scope="col" { "pages of" } @for column in columns { th scope="col" { (column) } } } }
                tbody {
                    @for (page_bytes, cells) in rows {
                        tr { th scope="row" { (Bytes(page_bytes)) } @for cell in cells { td { (cell) } } }
                    }
                }
            }
        }
    }
}

fn working_sets(result: &WatchResult) -> Markup {
    let columns = ["in an interval, median", "in the largest", "in all together", "all that is present"];
    let rows = result.working_sets.iter().map(|set| {
        let used = [set.median_bytes, set.most_bytes, set.whole_bytes].map(between);
        (set.page_bytes, used.into_iter().chain([bytes(set.present_bytes)]).collect())
    });
    html! {
        section {
            h2 { "Working set by size of page" }
            p.lead {
                "Distinct pages of each size that were used, times their size. Larger pages hold unused memory too."
            }
            (by_page_size(&columns, rows))
        }
    }
}

fn reach(result: &WatchResult) -> Markup {
    let columns = ["for the median working set", "for all that is present", "this processor has"];
    let rows = result.reach.iter().map(|row| {
        let has = row.entries.map_or_else(|| NONE.into(), count);
        (row.page_bytes, vec![entries(row.needed), count(row.needed_for_present), has])
    });
    html! {
        section {
            h2 { "Reach of the TLB" }
            p.lead { "Entries that would hold the working set at once if all its pages had one size." }
            (by_page_size(&columns, rows))
        }
    }
}

fn blocks(result: &WatchResult) -> Markup {
    let huge = &result.huge;
    let places: Vec<String> = result.blocks.iter().map(|class| class.from_pages.to_string()).collect();
    let all: u64 = result.blocks.iter().map(|class| class.blocks).sum();
    let series = Series {
        shares: result.blocks.iter().map(|class| 100.0 * class.blocks as f64 / all.max(1) as f64).collect(),
        tips: result
            .blocks
            .iter()
            .map(|class| {
                let used = class.used_bytes.map_or(String::new(), |used| format!(", {} used", bytes(used)));
                format!(
                    "{} to {} pages: {}, {} present{used}",
                    class.from_pages,
                    class.to_pages,
                    counted(class.blocks, "block"),
                    bytes(class.present_bytes)
                )
            })
            .collect(),
    };
    html! {
        section {
            h2 { "How full the 2 MB blocks are" }
            p.lead {
                "Blocks of anonymous memory that a huge page could map. They have " (bytes(huge.possible_present_bytes))
                "; huge pages would add " b { (bytes(huge.would_add_bytes)) } ". "
                (bytes(huge.too_small_bytes)) " lies at edges or in mappings that are too small."
            }
            @if all > 0 {
                (columns("blocks by present pages", &places, "present pages, from; height: % of the blocks", &[series]))
            }
        }
    }
}

fn mappings(result: &WatchResult) -> Markup {
    let most = result.mappings.iter().map(|m| m.present_bytes).max().unwrap_or(0).max(1);
    let at = |bytes: u64| percent(bytes as f64 / most as f64);
    let or_none = |used: Option<u64>| used.map_or_else(|| NONE.to_owned(), bytes);
    let scale = Scale::linear(most as f64 / MIB);
    let rest = result.mappings.iter().skip(MAPPINGS);
    html! {
        section {
            h2 { "By mapping" }
            p.lead { "Present memory in MiB, and which of it is used in an interval." }
            p.keys { span { i.key.wasted {} "used, median" } span { i.key.used {} "present, not used" } }
            div.bars {
                div.head.label {}
                div.head {}
                div.head.value.three { span { "present" } span { "median" } span { "largest" } }
                @for m in result.mappings.iter().take(MAPPINGS) {
                    @let used = m.median_bytes.unwrap_or(0).min(m.present_bytes);
                    @let tip =
                        format!("{}: {} present, {} used", m.mapping, bytes(m.present_bytes), or_none(m.median_bytes));
                    div.label { (breakable(&m.mapping)) }
                    div.bar {
                        svg width="100%" height="22" role="img" aria-label=(tip) {
                            title { (tip) }
                            rect.wasted x="0" y="2" height="18" width=(at(used)) {}
                            rect.used x=(at(used)) y="2" height="18" width=(at(m.present_bytes - used)) {}
                        }
                    }
                    div.value.three {
                        b { (bytes(m.present_bytes)) }
                        span { (or_none(m.median_bytes)) span.narrow { " used" } }
                        span { (or_none(m.most_bytes)) span.narrow { " at most" } }
                    }
                }
                (axis(scale))
            }
            @if rest.len() > 0 {
                p.note {
                    "And " (rest.len()) " more with " (bytes(rest.map(|m| m.present_bytes).sum()))
                    " together; the JSON report has all."
                }
            }
        }
    }
}

fn over_time(result: &WatchResult) -> Markup {
    let n = result.intervals.len();
    let step = n.div_ceil(POINTS);
    let some: Vec<&WatchInterval> =
        (0..n).filter(|i| (n - 1 - i).is_multiple_of(step)).map(|i| &result.intervals[i]).collect();
    let line = |name: &str, of: &dyn Fn(&WatchInterval) -> u64| Line {
        name: name.to_owned(),
        values: some.iter().map(|interval| of(interval) as f64 / MIB).collect(),
    };
    let mut lines = vec![line("present", &|i| i.present_bytes), line("in huge pages", &|i| i.huge_bytes)];
    if some.iter().all(|interval| interval.used_bytes.is_some()) {
        lines.push(line("used, 4K", &|i| i.used_bytes.map_or(0, |used| used.high)));
        lines.push(line("used, 2M, at most", &|i| i.used_2m_bytes.map_or(0, |used| used.high)));
    }
    let top = lines.iter().flat_map(|line| line.values.iter().copied()).fold(0.0, f64::max);
    let seconds = Across::Numbers(some.iter().map(|interval| interval.seconds).collect());
    let lead = html! { "Interval by interval, at its end." };
    chart("Memory over time, MiB", &lead, &seconds, "seconds", Scale::linear(top * 1.04), &lines)
}

fn reading(result: &WatchResult) -> Markup {
    html! {
        section.reading {
            h2 { "How to read this" }
            dl {
                dt { "Used" }
                dd { "A page was touched at least once in an interval. How often is not seen." }
                dt { "Working set" }
                dd {
                    "What is used in an interval. It grows with the length of the interval; compare only watches with "
                    "equal intervals."
                }
                dt { "A to B" }
                dd { "The figure lies between the two; the method cannot tell where." }
                dt { "In huge pages" }
                dd { "A huge page has one used bit: if any of it is used, all of it counts." }
                dt { "Cost" }
                dd {
                    "Processor time of the observer and of threads of the kernel that worked for it: "
                    (digits(result.cost.observer_seconds)) " s and " (digits(result.cost.kernel_thread_seconds))
                    " s. The process had " (digits(result.cost.process_user_seconds)) " s of user time meanwhile."
                }
            }
            p.note { "Result schema: " code { (result.schema) } "." }
        }
    }
}
