//! Reports agree with their result, for any result.

use crate::fixture::HOSTILE;
use crate::page::{body, complete};
use farreach_report::{csv as csv_report, format, html, json as json_report, table};
use farreach_types::counts::{
    CompactionUse, Energy, EnergyPart, FreeMemory, HugePageWords, LimitKind, MissEstimate, RecorderLimit, RunResult,
    SignalEnd, Timeline, WindowUse,
};

/// The table as it goes to a file.
fn people(result: &RunResult) -> String {
    table::render(result, usize::MAX)
}

/// Results from ordinary to extreme.
fn all() -> Vec<(&'static str, RunResult)> {
    let mut thirty = crate::fixture::twelve();
    while thirty.machines.len() < 30 {
        let next = thirty.machines[thirty.machines.len() - 12].clone();
        thirty.machines.push(next);
    }
    let mut huge = crate::fixture::five();
    for machine in &mut huge.machines {
        machine.counts.tlb.lookups = 1 << 62;
        machine.counts.tlb.misses <<= 38;
        machine.counts.tlb.fetch_misses <<= 38;
        machine.counts.tlb.load_misses <<= 38;
        machine.memory.resident_bytes <<= 36;
        machine.cost.cycles = u64::MAX;
        machine.timeline.slice_lookups = u64::MAX / 3;
    }
    let mut bare = crate::fixture::five();
    for machine in &mut bare.machines {
        machine.timeline = Timeline::default();
        machine.config.clear();
        machine.counts = Default::default();
        machine.memory = Default::default();
        machine.cost = Default::default();
        machine.ledger.clear();
        machine.regions.clear();
    }
    let mut none = crate::fixture::five();
    none.machines.clear();
    vec![
        ("five", crate::fixture::five()),
        ("one", crate::fixture::one_without_misses()),
        ("twelve", crate::fixture::twelve()),
        ("thirty", thirty),
        ("huge", huge),
        ("bare", bare),
        ("none", none),
    ]
}

#[test]
fn f_14_the_table_of_compaction() {
    let mut result = crate::fixture::five();
    assert!(!people(&result).contains("compaction") && !html::render(&result).contains("and compaction"));
    let free =
        |blocks: [u64; 10]| FreeMemory { frames: (0..10).map(|o| blocks[o] << o).sum(), blocks: blocks.to_vec() };
    let used = CompactionUse {
        order: 9,
        at_start: free([512, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        at_end: free([0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        ..CompactionUse::default()
    };
    let ran = CompactionUse {
        runs: 2,
        moved_pages: 1 << 18,
        moved_of_others: 1000,
        before: free([1024, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        after: free([256, 0, 0, 0, 0, 0, 0, 0, 1, 1]),
        ..used.clone()
    };
    for (machine, used) in result.machines.iter_mut().zip([used, ran]) {
        machine.cost.compaction = Some(farreach_cost::compaction::cost(&used, 4096));
        machine.config.insert("page_size".into(), 4096.into());
        machine.compaction = Some(used);
    }
    let text = people(&result);
    let (_, text) = text.split_once("\nFree memory").expect("there is a table");
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], "and compaction, in blocks of 2M".split(' ').collect::<Vec<_>>());
    let row = |name: &str| {
        words.iter().find(|line| line.first() == Some(&name)).expect("each machine has a row")[1..].to_vec()
    };
    assert_eq!(row("t94/single"), ["50.0", "–", "–", "0", "1", "1", "0", "0", "0", "–"]);
    assert_eq!(row("t94/superpage"), ["50.0", "100", "50.0", "0", "1", "1", "2", "262k", "1,000", "0.300"]);

    let page = html::render(&result);
    let body = body(&page);
    let xml = roxmltree::Document::parse(&body).unwrap();
    let cells = |head: &str| -> Vec<&str> {
        let row = xml.descendants().find(|n| n.has_tag_name("tr") && n.descendants().any(|n| n.text() == Some(head)));
        row.unwrap().children().filter(|n| n.has_tag_name("td")).map(|n| n.text().unwrap()).collect()
    };
    assert_eq!(cells("pages copied"), ["0", "262k", "–", "–", "–"]);
    // Objects inside counts have rows of their own, as they have columns in the CSV; lists have none.
    assert_eq!(cells("compaction.copy_seconds"), ["0.0000", "0.3000", "–", "–", "–"]);
    assert!(!page.contains("{&quot;") && !page.contains("compaction.unusable_at_start"));
}

#[test]
fn the_table_of_the_five_designs() {
    let text = people(&crate::fixture::five());
    let expected = "\
gcc -O2 -c combine.c
  1.20G instructions, 1.64G lookups (1.20G fetch, 301M load, 140M store), 12.2 MiB touched
  2 processes, 2 threads, seed 1994

                             per 1000    % of    miss   % of                             promo-   area
design               misses   lookups  single  cycles   time  resident   wasted  faults   tions    rbe    reach
───────────────────────────────────────────────────────────────────────────────────────────────────────────────
t94/single            3.34M      2.03     100    133M   10.0  12.2 MiB        0   3,120       0  7,944  256 KiB
t94/superpage          495k     0.302    14.8   19.8M   1.62  13.1 MiB  952 KiB   3,120     148  8,272    4 MiB
t94/complete          59.4k     0.036    1.78   2.38M  0.197  12.2 MiB        0   3,120       0  36.6k    4 MiB
t94/partial           74.3k     0.045    2.23   2.97M  0.247  12.4 MiB  244 KiB   3,120       0  9,557    4 MiB
t94/set-associative    309k     0.188    9.26   12.4M   1.02  12.2 MiB        0   3,120       0      –    1 MiB

  % of single: misses in percent of those of t94/single.
  miss cycles: spent on TLB misses, at a penalty in cycles of 40.
";
    assert_eq!(text[..expected.len()], *expected, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120));
}

#[test]
fn the_table_leaves_out_columns_that_say_nothing() {
    let text = people(&crate::fixture::one_without_misses());
    for word in ["% of", "promo-", "wasted", "instructions"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    assert!(text.contains("t94/single       0         0       0"), "{text}");
}

#[test]
fn one_miss_is_no_misses() {
    let mut result = crate::fixture::five();
    for machine in &mut result.machines {
        let tlb = &mut machine.counts.tlb;
        (tlb.misses, tlb.fetch_misses, tlb.load_misses, tlb.store_misses) = (1, 1, 0, 0);
        machine.regions.truncate(1);
        machine.regions.iter_mut().for_each(|region| (region.fetch_misses, region.data_misses) = (1, 0));
        machine.ledger.iter_mut().for_each(|line| line.count = 1);
    }
    let page = html::render(&result);
    let text: String =
        page.split('<').filter_map(|piece| piece.split_once('>')).map(|(_, text)| format!("{text} ")).collect();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["(1 miss)", " 1 miss ", ": 1 miss, ", " 1 page ", " 1 fault "] {
        assert!(text.contains(words), "'{words}' is not in {text}");
    }
    for words in ["1 misses", "1 pages", "1 faults", "1 entries"] {
        assert!(!text.contains(&format!(" {words}")) && !text.contains(&format!("({words}")), "{words} in {text}");
    }
}

#[test]
fn the_table_never_cuts_a_name_and_never_obeys_one() {
    let result = crate::fixture::twelve();
    let text = people(&result);
    let squeezed: String = text.split_whitespace().collect();
    for machine in &result.machines {
        for part in machine.name.split_inclusive([':', ',', '/']) {
            let part: String = format::clean(part).split_whitespace().collect();
            assert!(squeezed.contains(&part), "{part}: {text}");
        }
    }
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
    assert!(text.lines().skip(5).all(|line| line.chars().count() <= 145), "{text}");
}

#[test]
fn penalties_that_differ_are_not_called_one() {
    let mut result = crate::fixture::five();
    result.machines[1].config.insert("penalty".into(), 60.into());
    assert!(people(&result).contains("on TLB misses, at each design's own `penalty`.\n"), "{}", people(&result));
}

/// The footnote names exactly the prices that the column contains.
#[test]
fn the_prices_of_misses_are_named_for_those_who_pay_them() {
    let mut result = crate::fixture::five();
    let said = |result: &RunResult| {
        let text = people(result);
        let from = text.find("  miss cycles: ").unwrap();
        text[from..from + text[from..].find("\n  % of time").unwrap()].to_owned()
    };
    let penalty = |cycles| format!("  miss cycles: spent on TLB misses, at a penalty in cycles of {cycles}.");
    assert_eq!(said(&result), penalty(40));
    for m in &mut result.machines {
        m.counts.tlb.walk.walks = 5;
        m.config.insert("l2_hit_data_cycles".into(), 7.into());
    }
    let (none, node) = ("  miss cycles: spent on TLB misses.", "\n    In cycles: node of a page walk 12");
    assert_eq!(said(&result), format!("{none}{node}."), "no second level answered");
    result.machines[1].counts.tlb.second_level_data_hits = 5;
    let second = "; second-level hit of a load or store 7.";
    assert_eq!(said(&result), format!("{none}{node}{second}"));
    result.machines[0].config.insert("penalty".into(), 60.into());
    result.machines[0].counts.tlb.walk.walks = 0;
    assert_eq!(said(&result), format!("{}{node}{second}", penalty(60)));
    result.machines[2].config.insert("walk_cost".into(), "caches".into());
    assert_eq!(said(&result), format!("{}{node}; node of a page walk as caches answer{second}", penalty(60)));
    result.machines.truncate(1);
    assert_eq!(said(&result), penalty(60));
}

/// A dump of another program, or of a driver instead of the program, matches almost no page: the table must show this.
#[test]
fn how_much_of_a_dump_was_found_is_said() {
    let mut result = crate::fixture::five();
    assert!(!people(&result).contains("dump"));
    let os = &mut result.machines[0].counts.os;
    (os.mapping_pages, os.mapping_missing, os.mapping_taken) = (339, 3723, 37);
    let text = people(&result);
    let row = text.lines().find(|line| line.starts_with("t94/single ")).unwrap();
    assert!(row.split_whitespace().any(|cell| cell == "8.27") && text.contains("% from dump: "), "{text}");
}

/// A mean for each lookup in the table, all parts on the page; `–`, and the reason, where a structure has no figure.
#[test]
fn energy_is_shown_where_it_is_known() {
    let mut result = crate::fixture::five();
    assert!(!people(&result).contains("pJ") && !html::render(&result).contains("Energy of translation"));
    let lookups = result.machines[0].counts.tlb.lookups;
    let cost = &mut result.machines[0].cost;
    let part = EnergyPart {
        structure: "single, 64 entries".into(),
        event: "lookups".into(),
        count: lookups,
        each_pj: 12.5,
        source: "single-64 in osu018, mean of cc1, gups".into(),
        source_technology: 180,
    };
    cost.energy = Energy { technology: 180, parts: vec![part], missing: vec![] };
    cost.energy_pj = cost.energy.total_pj();
    result.machines[2].cost.energy.missing = vec!["complete with 64 entries: only 8, 16 were synthesised".into()];
    let text = people(&result);
    let cell = |name: &str| {
        let row = text.lines().find(|line| line.starts_with(name)).unwrap();
        row.split_whitespace().rev().nth(2).unwrap().to_owned()
    };
    assert_eq!([cell("t94/single "), cell("t94/complete ")], ["12.5", "–"], "{text}");
    assert!(text.contains("pJ: energy of translation for each lookup, at a feature size in nm of 180;"), "{text}");
    let page = html::render(&result);
    for words in
        ["Energy of translation", "single-64 in osu018, mean of cc1, gups, 180 nm", "only 8, 16 were synthesised"]
    {
        assert!(page.contains(words), "{words}");
    }
    let csv = csv_report::render(&result);
    assert!(csv.contains("energy_pj") && !csv.contains("energy.parts"));
}

/// A machine without a TLB has no reach, which differs from a reach of 0.
#[test]
fn no_reach_is_no_number() {
    let mut result = crate::fixture::five();
    result.machines[0].cost.reach_bytes = 0;
    let text = people(&result);
    let row = text.lines().find(|line| line.starts_with("t94/single ")).unwrap();
    assert!(row.ends_with("–"), "{row}");
}

#[test]
fn json_is_the_contract() {
    for (name, result) in all() {
        let text = json_report::render(&result);
        assert!(serde_json::from_str::<RunResult>(&text).unwrap() == result, "{name}");
    }
    let value: serde_json::Value = serde_json::from_str(&json_report::render(&crate::fixture::five())).unwrap();
    assert_eq!(value["schema"], "farreach.result/1");
    for (pointer, keys) in [
        ("/workload", vec!["source", "instructions", "lookups", "touched_bytes"]),
        ("/workload/lookups", vec!["fetch", "load", "store"]),
        ("/machines/3", vec!["name", "config", "counts", "memory", "cost"]),
        ("/machines/3/counts", vec!["lookups", "misses", "fetch_misses", "data_misses", "page_faults"]),
        ("/machines/3/memory", vec!["resident_bytes", "mapped_bytes"]),
        ("/machines/3/cost", vec!["cycles", "area_rbe"]),
    ] {
        for key in keys {
            assert!(!value.pointer(pointer).unwrap()[key].is_null(), "{pointer}/{key}");
        }
    }
}

#[test]
fn csv_reads_back_as_the_same_numbers() {
    for (name, result) in all() {
        let text = csv_report::render(&result);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let rows: Vec<std::collections::HashMap<String, String>> =
            reader.deserialize().map(|row| row.unwrap()).collect();
        assert_eq!(rows.len(), result.machines.len(), "{name}");
        for (row, machine) in rows.iter().zip(&result.machines) {
            assert_eq!(row["name"], machine.name);
            assert_eq!(row["workload.source"], result.workload.source);
            assert_eq!(row["workload.lookups.fetch"], result.workload.lookups.fetch.to_string());
            for part in [
                serde_json::to_value(&machine.counts),
                serde_json::to_value(&machine.memory),
                serde_json::to_value(&machine.cost),
            ] {
                for (key, value) in part.unwrap().as_object().unwrap() {
                    let Some(members) = value.as_object() else {
                        let expected = if value.is_null() { String::new() } else { value.to_string() };
                        assert_eq!(row[key], expected, "{name} {key}");
                        continue;
                    };
                    for (member, value) in members.iter().filter(|(_, value)| !value.is_array()) {
                        assert_eq!(row[&format!("{key}.{member}")], value.to_string(), "{name} {key}.{member}");
                    }
                }
            }
            for (key, value) in &machine.config {
                assert_eq!(
                    row[&format!("config.{key}")],
                    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
                );
            }
        }
    }
}

#[test]
fn pages_are_complete_and_well_formed() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (name, result) in all() {
        let page = html::render(&result);
        // For looking at them in a browser.
        std::fs::write(folder.join(format!("{name}.html")), &page).unwrap();
        assert_eq!(page, html::render(&result), "{name}: same result, same bytes");
        complete(name, &page);
    }
}

/// A table with a column for each design, of more designs than a sheet of paper has room for, says so to the printer.
#[test]
fn wide_tables_are_printed_on_wide_paper() {
    for (name, result) in all() {
        let (page, designs) = (html::render(&result), result.machines.len());
        let marks = page.matches(&format!("class=\"scroll wide\" style=\"--designs:{designs}\"")).count();
        let tables = page.matches("<div class=\"scroll").count();
        assert_eq!(marks, if designs > 12 { tables } else { 0 }, "{name}: {tables} tables");
        assert!(designs <= 12 || marks > 1, "{name}");
    }
}

#[test]
fn pages_show_what_is_hostile_as_text() {
    let page = html::render(&crate::fixture::twelve());
    let body = body(&page);
    let xml = roxmltree::Document::parse(&body).unwrap();
    let text: String = xml
        .descendants()
        .filter(roxmltree::Node::is_text)
        .filter_map(|n| n.text())
        .filter(|t| *t != "\u{200b}")
        .collect();
    let shown = format::clean(HOSTILE);
    assert!(text.replace('\u{200b}', "").contains(&shown));
    assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'));
    assert_eq!(page.matches("</title>").count(), page.matches("<title>").count());
}

#[test]
fn bars_are_as_long_as_the_counts() {
    let result = crate::fixture::five();
    let page = html::render(&result);
    let body = body(&page);
    let xml = roxmltree::Document::parse(&body).unwrap();
    let widths: Vec<f64> = xml
        .descendants()
        .filter(|n| {
            n.tag_name().name() == "svg" && n.children().any(|c| c.text().is_some_and(|t| t.contains(" misses; ")))
        })
        .map(|svg| {
            let parts = svg.children().filter(|c| c.tag_name().name() == "rect").filter_map(|r| r.attribute("width"));
            parts.map(|w| w.trim_end_matches('%').parse::<f64>().unwrap()).sum()
        })
        .collect();
    assert_eq!(widths.len(), 5);
    for (width, machine) in widths.iter().zip(&result.machines) {
        let expected = 100.0 * machine.counts.tlb.misses as f64 / result.machines[0].counts.tlb.misses as f64;
        assert!((width - expected).abs() < 0.03, "{}: {width} {expected}", machine.name);
    }
}

fn headline(result: &RunResult) -> String {
    let page = html::render(result);
    let body = body(&page);
    let xml = roxmltree::Document::parse(&body).unwrap();
    let h1 = xml.descendants().find(|n| n.tag_name().name() == "h1").unwrap();
    h1.descendants()
        .filter_map(|n| if n.is_text() { n.text() } else { None })
        .collect::<String>()
        .replace('\u{200b}', "")
        .replace('\u{a0}', " ")
}

#[test]
fn the_headline_names_the_winner_and_its_price() {
    let mut result = crate::fixture::five();
    assert_eq!(
        headline(&result),
        "t94/complete misses least: 59.4k, 98.2 % fewer than t94/single, on 4.61× the area; t94/partial keeps 99.5 % \
         of that saving on 26.1 % of that area."
    );
    result.machines[3].counts.tlb.misses = 0;
    assert_eq!(
        headline(&result),
        "t94/partial never misses, where t94/single misses 3.34M times; it takes 1.20× the area."
    );
    result.machines[0].counts.tlb.misses = 0;
    assert_eq!(headline(&result), "Nothing here misses less than t94/single: 0 misses.");
    assert_eq!(headline(&crate::fixture::one_without_misses()), "t94/single never missed in 1.64G lookups.");
    result.machines.iter_mut().for_each(|m| m.counts.tlb.misses = 0);
    assert_eq!(headline(&result), "No design missed at all: this run fits in every one of them.");
    result.workload.lookups = Default::default();
    assert_eq!(headline(&result), "Nothing was referenced: there is nothing to compare.");
}

/// A difference within the errors of a sample is none.
#[test]
fn the_headline_of_a_sample_is_as_sure_as_the_sample() {
    let mut result = crate::fixture::five();
    result.workload.windows =
        Some(WindowUse { one_in: 8, window_instructions: 1_000_000, windows: 40, ..Default::default() });
    let with_error = |result: &mut RunResult, percent: f64| {
        for m in &mut result.machines {
            let misses = m.counts.tlb.misses as f64;
            m.estimate = Some(MissEstimate { misses, standard_error: Some(misses * percent / 100.0) });
        }
        headline(result)
    };
    let sure = with_error(&mut result, 3.0);
    assert!(sure.starts_with("t94/complete misses least: an estimated 59.4k, 98.2 % fewer than t94/single"), "{sure}");
    assert_eq!(
        with_error(&mut result, 60.0),
        "This sample does not tell whether any misses less than t94/single: t94/complete with an estimated 59.4k is \
         within the error."
    );
    assert!(body(&html::render(&result)).contains("59.4k<small> ± 60.0 %</small>"));
    result.machines.truncate(1);
    assert!(
        headline(&result).starts_with("t94/single missed an estimated 3.34M ± 60.0 % times"),
        "{}",
        headline(&result)
    );
}

#[test]
fn designs_on_one_policy_share_a_memory_bar() {
    let page = html::render(&crate::fixture::five());
    assert_eq!(page.matches("aria-label=\"memory bar\"").count(), 3, "demand paging, superpages, reservation");
}

/// A program that a signal ended, and limits of the recorder, stand in every form.
#[test]
fn how_a_program_ended_and_what_it_met() {
    let mut result = crate::fixture::five();
    let text = people(&result);
    assert!(!text.contains("ended") && !text.contains("Limits"), "{text}");
    assert!(!csv_report::render(&result).contains("workload.limits"));
    result.workload.signals = vec![
        SignalEnd { signal: "SIGILL".into(), number: 4, processes: 1 },
        SignalEnd { signal: "SIGTERM".into(), number: 15, processes: 3 },
    ];
    result.workload.limits = vec![RecorderLimit {
        kind: LimitKind::SystemCall,
        what: "pidfd_open failed with ENOSYS".into(),
        advice: Some("most programs have a fallback".into()),
        count: 5,
        program: "/bin/a".into(),
        process: 77,
    }];
    let text = people(&result);
    let limit = "/bin/a (process 77, 5 times): pidfd_open failed with ENOSYS; most programs have a fallback";
    assert!(text.contains("\n  SIGILL ended 1 process, SIGTERM ended 3 processes\n"), "{text}");
    let section = "\nLimits of the recorder that this run met (natively it goes another way):\n  ";
    assert!(text.ends_with(&format!("{section}{limit}\n")), "{text}");
    let page = html::render(&result);
    assert!(page.contains(limit) && page.contains("SIGILL ended 1 process"), "{page}");
    let json = serde_json::to_value(&result).unwrap();
    let met = &json["workload"]["limits"][0];
    assert_eq!((&met["kind"], &met["count"], &met["process"]), (&"system-call".into(), &5.into(), &77.into()));
    assert_eq!(serde_json::from_value::<RunResult>(json).unwrap(), result);
}

#[test]
fn what_a_program_said_about_huge_pages() {
    let mut result = crate::fixture::five();
    let line = |result: &RunResult| people(result).lines().find(|line| line.contains("huge pages")).map(str::to_owned);
    assert_eq!(line(&result), None);
    result.workload.allocator = Some("jemalloc".into());
    assert_eq!(line(&result), None);
    result.workload.huge_pages = HugePageWords { advised_bytes: 4 << 20, refused_bytes: 8 << 10, switched_off: 1 };
    let words = "asked for huge pages for 4 MiB, refused them for 8 KiB, switched transparent huge pages off for \
                 itself (prctl); allocator jemalloc";
    assert_eq!(line(&result).as_deref().map(str::trim), Some(words));
    result.workload.huge_pages = HugePageWords { refused_bytes: 4 << 20, ..HugePageWords::default() };
    assert_eq!(line(&result).as_deref().map(str::trim), Some("refused huge pages for 4 MiB; allocator jemalloc"));
}
