//! The page and the tables of a watched process agree with its result, for any result.

use crate::page::{body, complete};
use farreach_report::Report;
use farreach_types::counts::{
    BlockFill, ByteBounds, EntryBounds, Heat, HeatRow, HugePages, MappingUse, MissingMethod, Reach, WATCH_SCHEMA,
    WatchCost, WatchInterval, WatchMethod, WatchRecommendation, WatchResult, WorkingSet,
};

const HOSTILE: &str = "</title><script>alert('\"&<b>')</script>\u{1b}[31m\u{202e}]]>";
const MIB: u64 = 1 << 20;

/// A result with a number of intervals; whether use is known.
fn result(intervals: usize, known: bool) -> WatchResult {
    let bounds = |low: u64, high: u64| known.then_some(ByteBounds { low: low * MIB, high: high * MIB });
    let set = |order: u32| WorkingSet {
        page_bytes: 4096 << order,
        median_bytes: bounds(3, 3 + u64::from(order)),
        most_bytes: bounds(5, 40),
        whole_bytes: None,
        present_bytes: 64 * MIB,
    };
    let interval = |i: usize| WatchInterval {
        seconds: i as f64 + 1.0,
        length: 1.0,
        present_bytes: 64 * MIB,
        huge_bytes: 0,
        used_bytes: bounds(3, 3),
        used_2m_bytes: bounds(4, 16),
    };
    let row = |i: u64| HeatRow {
        start: i << 21,
        end: (i + 1) << 21,
        mapping: format!("/lib/{HOSTILE}{}", i / 3),
        used: (0..intervals).map(|k| (k != 1).then_some(k as f32 / intervals as f32)).collect(),
    };
    let mapping = |i: u64| MappingUse {
        mapping: format!("{HOSTILE}{i}"),
        present_bytes: 1000 * 4096 / (i + 1),
        huge_bytes: 0,
        median_bytes: known.then_some(4096),
        most_bytes: known.then_some(9_000_000),
    };
    WatchResult {
        schema: WATCH_SCHEMA.into(),
        source: format!("process 7 ({HOSTILE})"),
        method: WatchMethod {
            name: "clear-refs".into(),
            resolution: if known { "mappings" } else { "nothing" }.into(),
            missing: vec![MissingMethod { name: "damon".into(), why: HOSTILE.into(), turn_on: Some(HOSTILE.into()) }],
            ..WatchMethod::default()
        },
        seconds: intervals as f64,
        interval_seconds: 1.0,
        ended: "time".into(),
        present_bytes: 64 * MIB,
        anonymous_bytes: 60 * MIB,
        working_sets: [0, 9, 18].map(set).to_vec(),
        blocks: vec![
            BlockFill { from_pages: 1, to_pages: 64, blocks: 3, present_bytes: MIB, used_bytes: None },
            BlockFill { from_pages: 512, to_pages: 512, blocks: 9, present_bytes: 18 * MIB, used_bytes: None },
        ],
        huge: HugePages { mode: Some("madvise".into()), would_add_bytes: 5 * MIB, ..HugePages::default() },
        mappings: (0..20).map(mapping).collect(),
        reach: vec![Reach {
            page_bytes: 4096,
            needed: known.then_some(EntryBounds { low: 768, high: 768 }),
            needed_for_present: 16384,
            entries: Some(2048),
        }],
        intervals: (0..intervals).map(interval).collect(),
        heat: Heat {
            rows: if known { (0..9).map(row).collect() } else { Vec::new() },
            seconds: (0..intervals).map(|i| i as f64 + 1.0).collect(),
        },
        cost: WatchCost { observer_seconds: 0.25, percent_of_a_processor: 1.5, ..WatchCost::default() },
        recommendation: WatchRecommendation {
            verdict: "leave".into(),
            text: "Leave it.".into(),
            reasons: vec!["Because.".into()],
            limits: vec!["Perhaps.".into()],
            next: "farreach advise -- COMMAND".into(),
        },
    }
}

/// The visible text of the page.
fn text(page: &str) -> String {
    let body = body(page);
    let xml = roxmltree::Document::parse(&body).unwrap();
    let parts = xml.descendants().filter(roxmltree::Node::is_text).filter_map(|n| n.text());
    parts.collect::<String>().replace('\u{200b}', "").replace('\u{a0}', " ")
}

#[test]
fn any_result_makes_a_whole_page() {
    for (intervals, known) in [(0, false), (0, true), (1, true), (3, false), (3, true), (500, true)] {
        let result = result(intervals, known);
        let page = result.html();
        complete("watch", &page);
        let text = text(&page);
        assert_eq!(text.contains("Use by address and time"), known, "{intervals}");
        assert!(
            text.contains("Leave it.") && text.contains("farreach advise -- COMMAND") && text.contains("5 MiB"),
            "{text}"
        );
        for figure in ["3 MiB to 12 MiB", "768"] {
            assert_eq!(text.contains(figure), known, "{figure}: {text}");
        }
        assert!(!result.table(100).contains('\u{1b}'));
        // A header, and a line for each interval.
        assert_eq!(result.csv().lines().count(), intervals + 1);
    }
}

/// Each cell that is known is under one rectangle, at its place in time.
#[test]
fn the_map_has_every_cell() {
    let page = result(4, true).html();
    let body = body(&page);
    let xml = roxmltree::Document::parse(&body).unwrap();
    let cells = xml.descendants().filter(|n| n.tag_name().name() == "rect");
    let cells = cells.filter(|n| n.attribute("class").is_some_and(|class| class.starts_with("heat")));
    let number = |n: roxmltree::Node, of: &str| n.attribute(of).unwrap().parse::<f64>().unwrap();
    let widths: Vec<f64> = cells.clone().map(|n| number(n, "width")).collect();
    // Of four intervals the second is not known: three cells of a quarter, in nine rows, none equal to its neighbour.
    assert_eq!(widths, vec![250.0; 27]);
    let places: std::collections::BTreeSet<u64> = cells.map(|n| number(n, "x") as u64).collect();
    assert_eq!(places, [0, 500, 750].into());
}

#[test]
fn the_table_says_what_is_known_and_what_is_not() {
    let table = result(20, true).table(usize::MAX);
    for words in ["20 intervals", "3 MiB to 12 MiB", "1G", "512, full", "one in 2 of 20 intervals", "and 8 more"] {
        assert!(table.contains(words), "{words}: {table}");
    }
    assert!(table.contains("The TLB was not flushed") && table.contains("Not used: damon"), "{table}");
    let blind = result(2, false).table(usize::MAX);
    assert!(!blind.contains("not flushed") && blind.contains("–"), "{blind}");
}
