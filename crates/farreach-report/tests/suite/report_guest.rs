//! Reports of whole systems.

use crate::fixture::HOSTILE;
use crate::fixture::guest::{guest, with_programs};
use crate::page::{body, complete};
use farreach_report::{csv as csv_report, format, html, json as json_report, table};
use farreach_types::counts::{Context, GuestChecks, RunResult};
use std::collections::HashMap;

fn people(result: &RunResult) -> String {
    table::render(result, usize::MAX)
}

/// A guest, some of whose address spaces run a program of this name.
fn renamed(which: impl Fn(&Context) -> bool, name: &str) -> RunResult {
    let mut result = guest();
    let used = result.workload.guest.iter_mut().flat_map(|guest| &mut guest.contexts).map(|of| &mut of.context);
    let counted = result.machines.iter_mut().flat_map(|machine| &mut machine.guest);
    let counted = counted.flat_map(|guest| &mut guest.contexts).map(|row| &mut row.context);
    used.chain(counted).filter(|of| which(of)).for_each(|of| of.program = name.into());
    result
}

/// The first lines, and all from the tables of the guest on.
fn about_the_guest(text: &str) -> (String, String) {
    let (head, rest) = text.split_once("\n\n").unwrap();
    let (_, tables) = rest.split_once("\nKernel and user").unwrap();
    (head.to_owned(), format!("Kernel and user{tables}"))
}

#[test]
fn the_tables_of_a_guest() {
    let (head, tables) = about_the_guest(&people(&guest()));
    let expected = "\
qemu-system-x86_64 -kernel bzImage
  81.0k instructions, 118k lookups (81.0k fetch, 24.3k load, 12.7k store), 12.2 MiB touched
  x86_64 guest: 2 processors, 512 MiB of memory, 3 address spaces, seed 1994
  kernel: 18.0k instructions (22.2 %), 27.0k lookups; user: 63.0k instructions, 91.0k lookups
  24 context switches, 9 switches of processor, 310 kernel entries
  31 writes of a page-table root, 1,234 words of page tables, 7 invalidations, 2 broadcasts, 5 received shootdowns
  301 exceptions: page fault × 260, interrupt 236 × 31, interrupt 251 × 6, interrupt 32 × 3, others × 1
  received shootdowns by processor: 2, 3
  45.0k translations compared with the emulator's: none differs";
    assert_eq!(head, expected, "{head}");
    let expected = "\
Kernel and user

               kernel    user  kernel %    kernel      user      both  kernel    user    both  kernel %           entries  global    stale
design         misses  misses    misses  per 1000  per 1000  per 1000  cycles  cycles  cycles    cycles  flushes  flushed    kept  lookups
──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
t94/single        440     310      58.7      24.4      4.92      9.26   17.6k   12.4k   30.0k      58.7       12      340      77        0
t94/superpage      45      81      35.7      2.50      1.29      1.56       –       –       –         –       12      340      77        5

  per 1000: misses for 1000 instructions of the kernel, of programs, of both.
  cycles: miss cycles. All that a system call does is the kernel's.
  flushes: what the guest told its processors to drop, by instructions and writes of registers.
  kept: entries of global pages, and with tags of other address spaces, that stayed when those of one were flushed.
  lookups: stale ones had a translation that the guest had changed and not invalidated yet.

By program, with what the kernel did in its address spaces

         address  instruc-  kernel  t94/single  kernel  per 1000  t94/superpage  kernel  per 1000
program   spaces     tions       %      misses       %    instr.         misses       %    instr.
─────────────────────────────────────────────────────────────────────────────────────────────────
cc1            2     75.0k    20.0         700    57.1      9.33            120    33.3      1.60
kernel         0     1,000     100          30     100      30.0              3     100      3.00
sh             1     5,000    40.0          20    50.0      4.00              3    66.7     0.600
";
    assert_eq!(tables, expected, "{tables}");
}

/// The head says nothing of what did not happen, and does not keep quiet about what is wrong.
#[test]
fn checks_of_translations_are_told() {
    let told = |checks: GuestChecks| {
        let mut result = guest();
        result.workload.guest.as_mut().unwrap().checks = Some(checks);
        let text = people(&result);
        let line = text.lines().find(|line| line.contains("emulator's")).unwrap().trim().to_owned();
        let page = html::render(&result);
        (line, page.contains("class=\"stopped\""))
    };
    let (line, warned) = told(GuestChecks::default());
    assert_eq!((line.as_str(), warned), ("no translation was compared with the emulator's", false));
    let bad = GuestChecks {
        compared: 900,
        different: 1,
        unknown_edges: 2,
        device: 3,
        early: 4,
        firmware: 5,
        ..Default::default()
    };
    let words = "1 of 900 translations compared with the emulator's differ, so figures may be wrong; of 2 blocks it is \
                 not known whether they ran as a whole; 3 references to memory of devices; 4 references left out while \
                 paging was off; 5 references of firmware left out";
    assert_eq!(told(bad), (words.to_owned(), true));
    let mut result = guest();
    let of = result.workload.guest.as_mut().unwrap();
    (of.checks, of.events, of.exceptions, of.by_processor) = (None, Default::default(), Vec::new(), Vec::new());
    let (head, _) = about_the_guest(&people(&result));
    assert_eq!(head.lines().count(), 4, "{head}");
}

#[test]
fn other_reports_say_nothing_of_guests() {
    let mut result = guest();
    result.workload.source = "gups".into();
    result.workload.guest = None;
    for machine in &mut result.machines {
        (machine.guest, machine.counts.os.guest) = (None, Default::default());
    }
    let forms = [people(&result), html::render(&result), csv_report::render(&result), json_report::render(&result)];
    for words in ["kernel", "Kernel", "guest", "By program"] {
        assert!(forms.iter().all(|text| !text.contains(words)), "{words}");
    }
    // A design that is not counted by context stands beside those that are.
    let mut result = guest();
    result.machines[1].guest = None;
    let (_, tables) = about_the_guest(&people(&result));
    let row: Vec<&str> =
        tables.lines().find(|line| line.starts_with("t94/superpage")).unwrap().split_whitespace().collect();
    assert!(row.len() > 10 && row[1..].iter().all(|cell| *cell == "–"), "{tables}");
    complete("half", &html::render(&result));
}

/// The kernel's part and the programs' part are the machine's counts, in the types and in every form.
#[test]
fn contexts_add_up_to_the_whole() {
    let result = with_programs(20);
    let workload = &result.workload;
    let of = workload.guest.as_ref().unwrap();
    let (kernel, user) = (of.references(true), of.references(false));
    assert_eq!([kernel.fetch, kernel.load, kernel.store], [18_000, 5_400, 3_600]);
    assert_eq!([user.fetch, user.load, user.store], [63_000 + 20_000, 18_900, 9_100]);
    let result = guest();
    let rows = rows(&result);
    for (machine, row) in result.machines.iter().zip(&rows) {
        let tlb = &machine.counts.tlb;
        let number = |name: String| row[&name].parse::<u64>().unwrap();
        let both = |name: &str| number(format!("kernel.{name}")) + number(format!("user.{name}"));
        assert_eq!([both("lookups"), both("misses")], [tlb.lookups, tlb.misses]);
        assert_eq!([both("fetch_misses"), both("data_misses")], [tlb.fetch_misses, tlb.data_misses]);
        let whole = |part: &str, kind: &str| {
            let sum = |side: &str| number(format!("workload.guest.{side}.{part}.{kind}"));
            assert_eq!(sum("kernel") + sum("user"), number(format!("workload.{part}.{kind}")), "{part}.{kind}");
        };
        for part in ["references", "lookups"] {
            ["fetch", "load", "store"].iter().for_each(|kind| whole(part, kind));
        }
    }
    assert_eq!(number(&rows[0], "kernel.misses") + number(&rows[0], "user.misses"), 750);
}

fn number(row: &HashMap<String, String>, name: &str) -> u64 {
    row[name].parse().unwrap()
}

fn rows(result: &RunResult) -> Vec<HashMap<String, String>> {
    csv::Reader::from_reader(csv_report::render(result).as_bytes()).deserialize().map(|row| row.unwrap()).collect()
}

#[test]
fn the_csv_has_sums_and_no_lists() {
    let rows = rows(&guest());
    for (name, value) in [
        ("kernel.lookups", "27004"),
        ("kernel.misses", "440"),
        ("kernel.fetch_misses", "154"),
        ("user.misses", "310"),
        ("kernel.cycles", "17600"),
        ("user.cycles", "12400"),
        ("flushes", "12"),
        ("flushed", "340"),
        ("workload.guest.arch", "x86_64"),
        ("workload.guest.events.kernel_entries", "310"),
        ("workload.guest.checks.compared", "45000"),
        ("workload.guest.kernel.references.fetch", "18000"),
        ("workload.guest.user.lookups.load", "18903"),
    ] {
        assert_eq!(rows[0][name], value, "{name}");
    }
    assert_eq!((rows[1]["kernel.misses"].as_str(), rows[1]["kernel.cycles"].as_str()), ("45", ""));
    assert_eq!([rows[0]["guest.stale_lookups"].as_str(), rows[1]["guest.stale_lookups"].as_str()], ["", "5"]);
    assert!(rows[0].keys().all(|name| !name.ends_with("contexts")));
}

#[test]
fn the_json_of_a_guest_is_read_back() {
    let result = with_programs(3);
    let text = json_report::render(&result);
    assert!(serde_json::from_str::<RunResult>(&text).unwrap() == result);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let of = &value["workload"]["guest"];
    assert_eq!((&of["arch"], &of["memory_bytes"]), (&"x86_64".into(), &(512u64 << 20).into()));
    let expected = serde_json::json!({
        "kernel": true,
        "space": 1,
        "program": "sh",
        "references": {"fetch": 2000, "load": 600, "store": 400},
        "lookups": {"fetch": 2000, "load": 601, "store": 400},
    });
    assert_eq!(of["contexts"][1], expected);
    let row = &value["machines"][0]["guest"]["contexts"][1];
    for (name, number) in
        [("space", 1), ("lookups", 3001), ("misses", 10), ("fetch_misses", 4), ("walks", 0), ("cycles", 400)]
    {
        assert_eq!(row[name], number, "{name}");
    }
    assert!(value["machines"][1]["guest"]["contexts"][1].get("cycles").is_none());
    // A result written before these members is one without them.
    let mut old = value;
    old["workload"].as_object_mut().unwrap().remove("guest");
    old["machines"].as_array_mut().unwrap().iter_mut().for_each(|m| drop(m.as_object_mut().unwrap().remove("guest")));
    let old: RunResult = serde_json::from_value(old).unwrap();
    assert!(old.workload.guest.is_none() && old.machines.iter().all(|machine| machine.guest.is_none()));
}

/// Many programs: those that miss most have a row, the others one together, and nothing is lost.
#[test]
fn programs_are_added_up_by_name() {
    let result = with_programs(20);
    let (_, tables) = about_the_guest(&people(&result));
    let (_, programs) = tables.split_once("By program").unwrap();
    let rows: Vec<Vec<&str>> =
        programs.lines().skip(5).map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(rows.len(), 13, "{programs}");
    // Two processes.
    assert_eq!(rows[0], ["cc1", "2", "75.0k", "20.0", "700", "57.1", "9.33", "120", "33.3", "1.60"]);
    let name = |row: &Vec<&str>| row[..row.len() - 9].join(" ");
    assert_eq!(rows[1..4].iter().map(name).collect::<Vec<_>>(), ["kernel", "sh", "job-00"]);
    assert_eq!(name(&rows[12]), "11 other programs");
    // Of 11 the misses are 11 + 10 + ... + 1.
    assert_eq!(rows[12][3..], ["11", "11.0k", "0", "66", "0", "6.00", "66", "0", "6.00"]);
    let page = html::render(&result);
    complete("programs", &page);
    assert!(page.contains("11 other programs"));
    // An address space without a name, among others.
    let result = renamed(|of| of.space == 1, "");
    assert!(people(&result).contains("\n(no name)        1     5,000    40.0          20 "));
    // No names, no table.
    let result = renamed(|of| of.space > 0, "");
    assert!(!people(&result).contains("By program") && !html::render(&result).contains("By program"));
}

/// The bars of the page are as long as the counts.
#[test]
fn bars_of_kernel_and_user() {
    let page = html::render(&guest());
    // For looking at it in a browser.
    std::fs::write(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest.html"), &page).unwrap();
    complete("guest", &page);
    let body = body(&page);
    let xml = roxmltree::Document::parse(&body).unwrap();
    let bars: Vec<Vec<f64>> = xml
        .descendants()
        .filter(|n| n.attribute("aria-label").is_some_and(|text| text.contains(" in kernel")))
        .map(|svg| {
            let parts = svg.children().filter(|c| c.tag_name().name() == "rect").filter_map(|r| r.attribute("width"));
            parts.map(|width| width.trim_end_matches('%').parse().unwrap()).collect()
        })
        .collect();
    assert_eq!(bars.len(), 2);
    let unit = bars[0][0] / 440.0;
    for (bar, misses) in bars.iter().flatten().zip([440.0, 310.0, 45.0, 81.0]) {
        assert!((bar - unit * misses).abs() < 0.03, "{bars:?}");
    }
    let words = "t94/single: 440 misses in kernel (24.4 per 1000 instr.), 310 misses in user (4.92 per 1000 instr.)";
    assert!(page.contains(words), "{page}");
    let number = |name: &str| {
        let row = xml.descendants().find(|n| n.has_tag_name("tr") && n.descendants().any(|n| n.text() == Some(name)));
        let cells = row.unwrap().children().filter(|n| n.has_tag_name("td"));
        cells.map(|n| n.text().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(number("kernel.misses"), ["440", "45"]);
    assert_eq!(number("user.cycles"), ["12,400", "–"]);
}

#[test]
fn names_from_a_guest_are_text() {
    let result = renamed(|_| true, HOSTILE);
    let (text, page) = (people(&result), html::render(&result));
    complete("hostile", &page);
    assert!(text.contains("By program") && page.contains("By program"));
    assert!([&text, &page].iter().all(|text| !text.contains('\u{1b}') && !text.contains('\u{202e}')));
    assert!(text.replace("\n", "").contains(&format::clean("\u{1b}[31m")));
}
