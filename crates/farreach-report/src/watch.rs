//! What a watched process uses, as text tables and as CSV.

use super::csv as rows;
use super::format::{NONE, bytes, clean, count, digits, rate, wrapped};
use super::grid::lines;
use farreach_types::addr::Bytes;
use farreach_types::counts::{ByteBounds, EntryBounds, MappingUse, Reach, WatchResult};
use serde_json::{Map, Value as Json};

/// Mappings in the text table; the other reports have all.
const MAPPINGS: usize = 12;
/// Intervals in the text table.
const INTERVALS: usize = 12;
/// Longest name of a mapping in the text table; of longer ones the end is shown.
const NAME: usize = 48;

/// Bytes, or the two between which they lie.
pub(crate) fn between(bounds: Option<ByteBounds>) -> String {
    bounds.map_or_else(|| NONE.to_owned(), |ByteBounds { low, high }| span(bytes(low), bytes(high)))
}

/// The same for entries.
pub(crate) fn entries(bounds: Option<EntryBounds>) -> String {
    bounds.map_or_else(|| NONE.to_owned(), |EntryBounds { low, high }| span(count(low), count(high)))
}

/// Two ends, or one where they look the same.
fn span(low: String, high: String) -> String {
    if low == high { low } else { format!("{low} to {high}") }
}

/// What was seen, and how surely, in sentences.
pub(crate) fn method(result: &WatchResult) -> Vec<String> {
    let method = &result.method;
    let mut about = vec![format!("Method {}: {}.", method.name, method.about)];
    let bounds = "figures are bounds where the two ends differ";
    about.extend(match method.resolution.as_str() {
        "mappings" => Some(format!("Which pages of a mapping they are is not known: {bounds}.")),
        "sample" => method.sampled_blocks.map(|[watched, all]| {
            format!("{} of {} blocks were watched: {bounds}, right 95 times in 100.", count(watched), count(all))
        }),
        _ => None,
    });
    if result.method.resolution != "nothing" && !method.flushed {
        about.push("The TLB was not flushed: pages whose entries stayed in it all the time are not counted.".into());
    }
    for missing in &method.missing {
        let how = missing.turn_on.as_ref().map_or(String::new(), |how| format!(" ({how})"));
        about.push(format!("Not used: {}, {}{how}.", missing.name, missing.why));
    }
    about
}

/// The text tables.
pub fn table(result: &WatchResult, width: usize) -> String {
    let mut out = format!("{}\n", clean(&result.source));
    out += &format!(
        "watched for {} s, in {} of {} s; end: {}\n",
        digits(result.seconds),
        super::format::counted(result.intervals.len() as u64, "interval"),
        digits(result.interval_seconds),
        result.ended
    );
    out += &format!(
        "{} present, {} of it anonymous, {} in huge pages\n\n",
        bytes(result.present_bytes),
        bytes(result.anonymous_bytes),
        bytes(result.huge.now_bytes)
    );
    method(result).iter().for_each(|sentence| out += &wrapped(&clean(sentence), "", "  ", width));
    out.push('\n');
    let parts = [working_sets(result, width), reach(&result.reach, width), blocks(result, width)];
    out += &parts.join("\n");
    out += &format!("{}\n", huge(result));
    out += &mappings(&result.mappings, width);
    if result.intervals.len() > 1 {
        out.push('\n');
        out += &over_time(result, width);
    }
    out.push('\n');
    out += &recommendation(result, width);
    out.push('\n');
    out + &cost(result, width)
}

fn heads<const N: usize>(two: [[&str; N]; 2]) -> [Vec<String>; 2] {
    two.map(|line| line.map(str::to_owned).to_vec())
}

fn working_sets(result: &WatchResult, width: usize) -> String {
    let heads = heads([
        ["working set in", "in an interval,", "in the", "in all", "all that is"],
        ["pages of", "median", "largest", "together", "present"],
    ]);
    let row = |set: &farreach_types::counts::WorkingSet| {
        vec![
            Bytes(set.page_bytes).to_string(),
            between(set.median_bytes),
            between(set.most_bytes),
            between(set.whole_bytes),
            bytes(set.present_bytes),
        ]
    };
    lines(&heads, &result.working_sets.iter().map(row).collect::<Vec<_>>(), width)
}

fn reach(reach: &[Reach], width: usize) -> String {
    let heads = heads([
        ["TLB entries if", "for the median", "for all that", "this processor"],
        ["all pages had", "working set", "is present", "has"],
    ]);
    let row = |r: &Reach| {
        let here = r.entries.map_or_else(|| NONE.to_owned(), count);
        vec![Bytes(r.page_bytes).to_string(), entries(r.needed), count(r.needed_for_present), here]
    };
    lines(&heads, &reach.iter().map(row).collect::<Vec<_>>(), width)
}

fn blocks(result: &WatchResult, width: usize) -> String {
    let heads = heads([["2 MB blocks with", "", "", ""], ["present pages", "blocks", "present", "used"]]);
    let some = result.blocks.iter().filter(|class| class.blocks > 0);
    let row = |class: &farreach_types::counts::BlockFill| {
        let pages = if class.from_pages == class.to_pages {
            "512, full".to_owned()
        } else {
            format!("{} to {}", class.from_pages, class.to_pages)
        };
        let used = class.used_bytes.map_or_else(|| NONE.to_owned(), bytes);
        vec![pages, count(class.blocks), bytes(class.present_bytes), used]
    };
    let rows: Vec<Vec<String>> = some.map(row).collect();
    if rows.is_empty() {
        return "No 2 MB block of anonymous memory has present pages.\n".to_owned();
    }
    lines(&heads, &rows, width)
}

fn huge(result: &WatchResult) -> String {
    let huge = &result.huge;
    let mut text = format!(
        "Huge pages could map {} of present memory, and would add {}; {} lies at edges or in small mappings.\n",
        bytes(huge.possible_present_bytes),
        bytes(huge.would_add_bytes),
        bytes(huge.too_small_bytes)
    );
    text += &match &huge.mode {
        Some(mode) => format!("The kernel gives them: {mode}."),
        None => "This kernel has no transparent huge pages.".to_owned(),
    };
    if huge.disabled == Some(true) {
        text += " The process switched them off for itself.";
    }
    if huge.advised_bytes > 0 {
        text += &format!(" It asked for them in {}.", bytes(huge.advised_bytes));
    }
    if huge.refused_bytes > 0 {
        text += &format!(" It refused them in {}.", bytes(huge.refused_bytes));
    }
    text + "\n"
}

/// The end of a long name.
fn end(name: &str) -> String {
    let length = name.chars().count();
    if length <= NAME {
        name.to_owned()
    } else {
        format!("…{}", name.chars().skip(length + 1 - NAME).collect::<String>())
    }
}

fn mappings(mappings: &[MappingUse], width: usize) -> String {
    let heads =
        heads([["", "", "in huge", "used in an", "in the"], ["mapping", "present", "pages", "interval", "largest"]]);
    let or_none = |bytes_used: Option<u64>| bytes_used.map_or_else(|| NONE.to_owned(), bytes);
    let row = |m: &MappingUse| {
        vec![
            end(&clean(&m.mapping)),
            bytes(m.present_bytes),
            bytes(m.huge_bytes),
            or_none(m.median_bytes),
            or_none(m.most_bytes),
        ]
    };
    let text = lines(&heads, &mappings.iter().take(MAPPINGS).map(row).collect::<Vec<_>>(), width);
    match mappings.len().saturating_sub(MAPPINGS) {
        0 => text,
        more => format!("{text}  and {more} more\n"),
    }
}

fn over_time(result: &WatchResult, width: usize) -> String {
    let heads = heads([["", "", "in huge", "used, in", "used, in"], ["seconds", "present", "pages", "4K", "2M"]]);
    let n = result.intervals.len();
    let step = n.div_ceil(INTERVALS);
    let rows = (0..n).filter(|i| (n - 1 - i).is_multiple_of(step)).map(|i| {
        let interval = &result.intervals[i];
        vec![
            digits(interval.seconds),
            bytes(interval.present_bytes),
            bytes(interval.huge_bytes),
            between(interval.used_bytes),
            between(interval.used_2m_bytes),
        ]
    });
    let text = lines(&heads, &rows.collect::<Vec<_>>(), width);
    if step > 1 { format!("{text}  one in {step} of {n} intervals\n") } else { text }
}

fn recommendation(result: &WatchResult, width: usize) -> String {
    let recommendation = &result.recommendation;
    let mut out = wrapped(&recommendation.text, "", "", width);
    for sentence in recommendation.reasons.iter().chain(&recommendation.limits) {
        out += &wrapped(sentence, "  - ", "    ", width);
    }
    out + &format!("  To know more: {}\n", recommendation.next)
}

fn cost(result: &WatchResult, width: usize) -> String {
    let cost = &result.cost;
    let waits = match cost.waits_seconds {
        0.0 => String::new(),
        all => format!(
            "; page faults of the process may have waited {} ms in all, {} ms at most",
            digits(all * 1e3),
            digits(cost.longest_wait_seconds * 1e3)
        ),
    };
    let text = format!(
        "Watching took {} % of one processor ({} s). It cost the process about {} % of its own processor time: {} µs \
         for each used page and interval, by a measurement{waits}.",
        rate(cost.percent_of_a_processor),
        digits(cost.observer_seconds + cost.kernel_thread_seconds),
        rate(cost.process_percent),
        digits(cost.used_page_seconds * 1e6)
    );
    wrapped(&text, "", "  ", width)
}

/// One row per interval (RFC 4180), the fields under the names they have in the JSON.
pub fn csv(result: &WatchResult) -> String {
    let row = |interval: &farreach_types::counts::WatchInterval| {
        let mut fields = Map::new();
        fields.insert("source".into(), Json::from(result.source.as_str()));
        fields.insert("method".into(), Json::from(result.method.name.as_str()));
        fields.extend(rows::flat("", rows::json(interval)));
        fields
    };
    rows::table(&result.intervals.iter().map(row).collect::<Vec<_>>())
}
