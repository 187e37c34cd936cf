//! The page of a process's contiguity agrees with its result, for any result.

use crate::page::{body, complete};
use farreach_cost::contiguity::{Run, sample};
use farreach_report::format::clean;
use farreach_report::html::contiguity::render;
use farreach_types::counts::{CONTIGUITY_SCHEMA, ContiguityResult, ContiguitySample, RegionContiguity};

const HOSTILE: &str = "</title><script>alert('\"&<b>')</script>\u{1b}[31m\u{202e}]]>";

/// `pages` pages in pieces of `piece` pages whose frames are contiguous, if frames are visible.
fn look(pages: u64, piece: u64, visible: bool) -> ContiguitySample {
    let run = |i| Run { vpn: i * piece, pages: piece, pfn: visible.then_some(1 + i * piece * 3), permission: 3 };
    sample(&(0..pages / piece).map(run).collect::<Vec<_>>(), 0.0, pages / 4)
}

fn result(samples: Vec<ContiguitySample>) -> ContiguityResult {
    let peak = samples.iter().max_by_key(|s| s.pages).unwrap().clone();
    let region = |i: u64| RegionContiguity {
        region: format!("{HOSTILE}{i}"),
        pages: 1000 / (i + 1),
        huge_pages: 512 * (i % 2),
        virtual_ranges: i + 1,
        physical_ranges: peak.physical_ranges.as_ref().map(|_| i + 2),
    };
    ContiguityResult {
        schema: CONTIGUITY_SCHEMA.into(),
        source: format!("process 7 ({HOSTILE})"),
        frames_visible: peak.physical_ranges.is_some(),
        regions: (0..20).map(region).collect(),
        peak,
        samples,
    }
}

/// The visible text of the page.
fn text(page: &str) -> String {
    let body = body(page);
    let xml = roxmltree::Document::parse(&body).unwrap();
    let parts = xml.descendants().filter(roxmltree::Node::is_text).filter_map(|n| n.text());
    parts.collect::<String>().replace('\u{200b}', "").replace('\u{a0}', " ")
}

/// Points of every line of every chart.
fn lines(page: &str) -> Vec<usize> {
    let body = body(page);
    let xml = roxmltree::Document::parse(&body).unwrap();
    let traces = xml.descendants().filter(|n| n.attribute("class").is_some_and(|c| c.starts_with("trace ")));
    traces.map(|n| n.attribute("points").unwrap().split(' ').count()).collect()
}

fn at(second: u32, look: ContiguitySample) -> ContiguitySample {
    ContiguitySample { seconds: f64::from(second), ..look }
}

#[test]
fn rmm15_44_both_halves_are_shown() {
    let page = render(&result(vec![look(4096, 16, true)]));
    complete("contiguity", &page);
    let text = text(&page);
    // 256 pieces of 16 pages: 254 of them have 99 %; one range virtually.
    for words in [
        "99 % of 16 MiB lies in 254 ranges; ideal placement would make 1.",
        "25.0 %",
        "clustered TLB, 8 pages",
        "contiguous bit, 16 pages",
        "2 MB pages",
        "range TLB",
        "And 8 more with",
        &clean(HOSTILE),
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("Only the virtual half"));
    assert!(lines(&page).is_empty(), "one look has no course");
    let as_ideal = render(&result(vec![look(4096, 4096, true)]));
    assert!(self::text(&as_ideal).contains("lies in 1 range, as few as ideal placement would make."));
}

#[test]
fn without_frames_the_page_says_so_and_shows_the_virtual_half() {
    let page = render(&result(vec![at(0, look(512, 16, false)), at(1, look(4096, 16, false))]));
    complete("blind", &page);
    let text = text(&page);
    for words in [
        "Only the virtual half",
        "CAP_SYS_ADMIN",
        "99 % of 16 MiB would lie in 1 range; where it lies is not visible.",
        "ideally",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("physical (actual)"));
    // Memory: 2; ranges: 2 virtual ones; entries: 5.
    assert_eq!(lines(&page), [2; 9]);
}

#[test]
fn a_long_watch_draws_as_much_as_can_be_told_apart() {
    let looks = (0..5003).map(|i| at(i, look(64 + 16 * u64::from(i % 7), 16, true)));
    // The process had ended: the last look is empty.
    let end = at(5003, sample(&[], 0.0, 0));
    let page = render(&result(looks.chain([end]).collect()));
    complete("long", &page);
    let lines = lines(&page);
    assert_eq!(lines.len(), 11);
    assert!(lines.iter().all(|&n| n == 385), "{lines:?}");
    assert!(!page.contains("<circle class=\"fill s2\""), "no dots on such lines");
}
