//! Measured TLBs as text tables and as CSV.

use super::csv as rows;
use super::format::{NONE, clean, digits, grouped, wrapped};
use super::grid::lines;
use farreach_types::addr::Bytes;
use farreach_types::counts::{TlbKnee, TlbMeasurement, TlbPrice};
use serde_json::{Map, Value as Json};

/// The pages of a chain in words.
pub(super) fn pages(page_size: u64, stride: u64) -> String {
    let size = Bytes(page_size);
    if stride == 1 { format!("{size}, side by side") } else { format!("{size}, every {stride}th") }
}

fn text(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// What each knee says of the description, in words: whether the described number of entries is between the last number
/// of pages that the level answers and the first that it does not.
pub(super) fn judgements(result: &TlbMeasurement) -> Vec<String> {
    let judged = |k: &TlbKnee| {
        let (pages, level) = (pages(k.page_size, k.stride_pages), k.level);
        let found = format!("answers up to {}, half of {} pages", grouped(k.entries), grouped(k.half));
        let verdict = match k.described {
            None => "no entries are described".to_owned(),
            Some(n) if (k.entries..k.next).contains(&n) => format!("{} entries are described: as measured", grouped(n)),
            Some(n) => {
                let off = 100.0 * (k.entries as f64 / n as f64 - 1.0);
                format!("{} entries are described: it fails {:.0} % {}", grouped(n), off.abs(), side(off))
            }
        };
        format!("{pages}, level {level}: {found}; {verdict}.")
    };
    result.knees.iter().map(judged).collect()
}

fn side(off: f64) -> &'static str {
    if off < 0.0 { "earlier" } else { "later" }
}

/// The text tables.
pub fn table(result: &TlbMeasurement, width: usize) -> String {
    let mut out =
        format!("{}, {} GHz, {} repetitions", clean(&result.processor), digits(result.gigahertz), result.repetitions);
    if let Some(hypervisor) = &result.hypervisor {
        out += &format!(", under a hypervisor ({})", clean(hypervisor));
    }
    out += "\n\n";
    let heads = [
        text(&["data TLB", "", "entries", "answers", "less", "half"]),
        text(&["pages", "level", "described", "up to", "from", "from"]),
    ];
    let knee = |k: &TlbKnee| {
        let described = k.described.map_or(NONE.to_owned(), grouped);
        vec![
            pages(k.page_size, k.stride_pages),
            k.level.to_string(),
            described,
            grouped(k.entries),
            grouped(k.next),
            grouped(k.half),
        ]
    };
    out += &lines(&heads, &result.knees.iter().map(knee).collect::<Vec<_>>(), width);
    out.push('\n');
    let differs = |sentence: &&String| !sentence.ends_with("as measured.");
    let differ: Vec<String> = judgements(result).iter().filter(differs).map(|s| wrapped(s, "", "  ", width)).collect();
    if !differ.is_empty() {
        out += &format!("{}\n", differ.concat());
    }
    let heads =
        [text(&["", "", "cycles,", "", "", "over"]), text(&["price", "page", "median", "least", "most", "pages"])];
    let price = |p: &TlbPrice| {
        let [from, to] = p.pages.map(grouped);
        let [cycles, low, high] = [p.cycles, p.low, p.high].map(digits);
        vec![p.event.clone(), Bytes(p.page_size).to_string(), cycles, low, high, format!("{from} to {to}")]
    };
    out += &lines(&heads, &result.prices.iter().map(price).collect::<Vec<_>>(), width);
    out.push('\n');
    for curve in &result.curves {
        let [median, worst] = curve.spread().map(digits);
        let pages = pages(curve.page_size, curve.stride_pages);
        out += &format!("Spread of {pages}: half within {median} cycles, {worst} at the worst point\n");
    }
    if !result.missing.is_empty() {
        out.push('\n');
        result.missing.iter().for_each(|what| out += &format!("Not measured: {}\n", clean(what)));
    }
    out
}

/// One row per point (RFC 4180).
pub fn csv(result: &TlbMeasurement) -> String {
    let row = |curve: &farreach_types::counts::TlbCurve, point| {
        let mut fields = Map::new();
        fields.insert("page_size".into(), Json::from(curve.page_size));
        fields.insert("stride_pages".into(), Json::from(curve.stride_pages));
        fields.extend(rows::flat("", rows::json(point)));
        fields
    };
    let all = result.curves.iter().flat_map(|curve| curve.points.iter().map(move |point| row(curve, point)));
    rows::table(&all.collect::<Vec<_>>())
}

#[cfg(test)]
pub(super) fn example() -> TlbMeasurement {
    use farreach_types::counts::{TlbCurve, TlbPoint};
    let cycles = |n: u64| if n <= 64 { 0.1 } else { 7.2 };
    let point = |n| TlbPoint {
        pages: n,
        cycles: cycles(n),
        low: cycles(n) - 0.1,
        high: cycles(n) + 0.1,
        load_cycles: 4.0 + cycles(n),
    };
    TlbMeasurement {
        processor: "a <processor>".into(),
        hypervisor: Some("KVM".into()),
        repetitions: 7,
        gigahertz: 3.0,
        curves: vec![TlbCurve { page_size: 4096, stride_pages: 9, points: [16, 64, 72, 128].map(point).into() }],
        knees: vec![TlbKnee {
            page_size: 4096,
            stride_pages: 9,
            level: 1,
            entries: 64,
            next: 72,
            half: 72,
            described: Some(64),
        }],
        prices: vec![TlbPrice {
            event: "second-level hit".into(),
            page_size: 4096,
            cycles: 7.1,
            low: 7.0,
            high: 7.3,
            pages: [128, 1536],
        }],
        missing: vec!["1G pages: none".into()],
        ..TlbMeasurement::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_knees_prices_and_what_is_missing() {
        let text = table(&example(), 100);
        for words in [
            "4K, every 9th      1         64       64    72    72",
            "second-level hit",
            "128 to 1,536",
            "Not measured: 1G",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(csv(&example()).starts_with("page_size,stride_pages,pages,cycles,low,high,load_cycles\r\n4096,9,16,"));
    }
}
