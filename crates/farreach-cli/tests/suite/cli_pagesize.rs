//! Does `farreach pagesize` keep its contract (PS-10), and is a running program counted as its stored trace is (PS-4,
//! CA-17)?

use crate::cli::{Dir, Ran, fed, line, sweep};
use serde_json::Value;

const SIZES: usize = 10;

fn rows(result: &Value, key: &str) -> Vec<u64> {
    result["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r[key].as_u64().unwrap_or_else(|| panic!("{key} in {r}")))
        .collect()
}

fn without_source(result: &Value) -> Value {
    let mut result = result.clone();
    result["workload"].as_object_mut().unwrap().remove("source");
    result
}

#[test]
fn json_keeps_its_contract() {
    // 128 pages of 4 KB, three times in turn, and one instruction that crosses a boundary.
    let text = format!("I  00001ffe,4\n{}", sweep(128, 3));
    let r = fed(["pagesize", "-", "--json"], text.as_bytes()).good().json();
    assert_eq!(r["schema"], "farreach.pagesize/1");
    assert_eq!(rows(&r, "page_size"), (0..SIZES).map(|i| 4096 << i).collect::<Vec<u64>>());
    assert_eq!(rows(&r, "data_misses")[..4], [384, 64, 32, 16]);
    assert_eq!(rows(&r, "fetch_misses")[..3], [2, 2, 1]);
    assert_eq!(rows(&r, "code_bytes")[..3], [8192, 16384, 16384]);
    assert_eq!(rows(&r, "data_bytes")[..3], [128 << 12, 128 << 12, 128 << 12]);
    assert_eq!(rows(&r, "total_bytes")[..3], [130 << 12, 132 << 12, 132 << 12]);
    assert_eq!(rows(&r, "write_back_bytes"), [0; SIZES]);
    assert_eq!(r["workload"]["lookups"]["fetch"], 2);
    let close = |value: &Value, want: f64| assert!((value.as_f64().unwrap() - want).abs() < 1e-12, "{value}");
    close(&r["rows"][1]["relative_data_misses"], 64.0 / 384.0);
    close(&r["rows"][2]["relative_memory"], 132.0 / 130.0 - 1.0);
    // Sixty-four entries hold 64 pages of 8 KB; the misses of all other numbers of entries are reported as well.
    assert_eq!((&r["entries"], &r["entry_counts"][6], &r["entry_counts"][12]), (&64.into(), &64.into(), &4096.into()));
    let curve = r["rows"][0]["data_misses_by_entries"].as_array().unwrap();
    assert_eq!((&curve[6], &curve[7], &curve[12]), (&384.into(), &128.into(), &128.into()));
    let names: Vec<&str> = r["frontier"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names[0], "4K");
    // 5 pages of 128 KB for 130 of 4 KB are 23 % more memory; 3 of 256 KB would be 48 % more.
    assert_eq!(r["advice"]["page_size"], 128 << 10);
    let text = r["advice"]["text"].as_str().unwrap();
    assert!(text.contains("128K pages") && text.contains("(5 against 386)") && text.contains("23.1 %"), "{text}");
    let policies: Vec<&str> = r["policies"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    assert_eq!(policies, ["ps/two-size", "ps/itanium"]);
}

#[test]
fn options_choose_sizes_entries_and_machines_beside() {
    let text = sweep(128, 3);
    let args = [
        "pagesize",
        "-",
        "--json",
        "--sizes",
        "4K,64K",
        "--entries",
        "7",
        "-m",
        "t94/single:split=true,replacement=lru",
    ];
    let r = fed(args, text.as_bytes()).good().json();
    assert_eq!((rows(&r, "page_size"), rows(&r, "data_misses")), (vec![4096, 65536], vec![384, 24]));
    let machine = &r["policies"][2];
    assert_eq!(machine["name"], "t94/single:split=true,replacement=lru");
    assert_eq!(machine["counts"]["data_misses"], 384);
    // Without unmapping, the memory a machine holds resident is what this study calls the peak.
    assert_eq!(machine["memory"]["resident_bytes"], rows(&r, "peak_bytes")[0]);
    let named = fed(args.into_iter().chain(["--no-policies"]), text.as_bytes()).good().json();
    assert_eq!((named["policies"].as_array().unwrap().len(), &named["policies"][0]), (1, machine));
    assert_eq!(named["rows"], r["rows"]);
    let limited = fed(["pagesize", "-", "--json", "--limit", "100"], text.as_bytes()).good().json();
    assert_eq!((rows(&limited, "data_misses")[0], &limited["workload"]["stopped"]), (100, &"--limit 100".into()));
    let table = fed(["pagesize", "-", "--sizes", "4K,2M", "-m", "t94/single"], text.as_bytes()).good().out;
    for word in ["4K", "2M", "t94/single", "Rule: fewest misses", "page size"] {
        assert!(table.contains(word), "{word} in {table}");
    }
    // Of a machine: its misses, their percentage of those of 4 KB pages, and the composition of its cycles.
    let row: Vec<&str> =
        table.lines().find(|l| l.starts_with("t94/single")).expect("its row").split_whitespace().collect();
    assert_eq!(row[1..5], ["0", "–", "384", "100"], "{table}");
    assert!(table.contains("miss cycles: spent on TLB misses, at a penalty in cycles of 40."), "{table}");
}

#[test]
fn csv_has_the_same_numbers() {
    let text = format!("{} S 00005000,8\n", sweep(200, 2));
    let args = |form: &'static str| ["pagesize", "-", form, "-m", "t94/single"];
    let r = fed(args("--json"), text.as_bytes()).good().json();
    let text = fed(args("--csv"), text.as_bytes()).good().out;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let lines: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(lines.len(), SIZES + 3);
    let cell =
        |line: usize, key: &str| &lines[line][header.iter().position(|h| h == key).unwrap_or_else(|| panic!("{key}"))];
    for i in 0..SIZES {
        for key in ["page_size", "fetch_misses", "data_misses", "total_bytes", "page_table_bytes", "write_back_bytes"] {
            assert_eq!(cell(i, key), r["rows"][i][key].to_string(), "{key}");
        }
        assert_eq!(cell(i, "data_misses_64"), r["rows"][i]["data_misses_by_entries"][6].to_string());
    }
    assert_eq!((cell(0, "name"), cell(SIZES + 2, "name")), ("4K", "t94/single"));
    assert_eq!(cell(SIZES + 2, "data_misses"), r["policies"][2]["counts"]["data_misses"].to_string());
}

#[test]
fn what_cannot_be_is_refused() {
    for (words, status, parts) in [
        ("pagesize", 2, &["FILE"][..]),
        ("pagesize - --sizes 4K,5K", 1, &["--sizes 4K,5K:", "5K is not allowed", "4K to 2M"]),
        ("pagesize - --sizes 8K,4K", 1, &["--sizes 8K,4K:", "larger"]),
        ("pagesize - --sizes 4X", 2, &["4X"]),
        ("pagesize - --entries 0", 2, &["--entries"]),
        ("pagesize - -m nosuch", 1, &["nosuch"]),
        ("pagesize nosuch.frt", 1, &["nosuch.frt"]),
        ("pagesize -- ./no-such-program", 127, &["no-such-program"]),
        ("pagesize x.frt -- true", 125, &["cannot be used with"]),
    ] {
        line(words).bad(status, parts);
    }
}

#[test]
fn an_html_page_stands_alone() {
    let dir = Dir::new();
    let html = dir.path("page.html");
    let ran = fed(["pagesize", "-", "--html", &html, "-m", "t94/single"], sweep(100, 3).as_bytes());
    assert_eq!((ran.status, ran.err.as_str()), (0, format!("farreach: report in {html}\n").as_str()));
    let page = dir.read("page.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    let rest = page.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xhtml", "");
    for word in ["http:", "https:", "src=", "@import", "url(", "<link", "NaN", "inf"] {
        assert!(!rest.contains(word), "{word} in the page");
    }
}

/// The trace on a pipe, and in a file.
#[test]
fn a_pipe_is_a_file() {
    let dir = Dir::new();
    let text = format!("I  00401000,4\n{}", sweep(300, 4));
    let file = dir.write("trace.txt", &text);
    let piped = fed(["pagesize", "-", "--json"], text.as_bytes()).good().json();
    let stored = crate::cli::farreach(["pagesize", &file, "--json", "--threads", "1"]).good().json();
    assert_eq!(without_source(&piped), without_source(&stored));
}

/// A program with the same addresses at each run: counted while it runs, and from its trace.
#[test]
fn a_running_program_is_its_trace() {
    let dir = Dir::new();
    let plain = crate::common::program("plain", &["-static"]);
    let plain = plain.to_str().unwrap();
    let run = |args: &[&str]| {
        Ran::of(crate::cli::command().env("FARREACH_VALGRIND_DIR", crate::common::tool()).args(args).output().unwrap())
    };
    let (trace, result) = (dir.path("plain.frt"), dir.path("live.json"));
    let own = run(&["record", "-o", &trace, "--", plain]);
    let live = run(&["pagesize", "--json", "-o", &result, "-m", "t94/single", "--", plain]);
    assert_eq!((live.status, live.out), (own.status, own.out), "the program's own status and output");
    let live: Value = serde_json::from_str(&dir.read("live.json")).unwrap();
    let stored = crate::cli::farreach(["pagesize", &trace, "--json", "-m", "t94/single"]).good().json();
    assert_eq!(without_source(&live), without_source(&stored));
    assert!(rows(&live, "code_bytes")[0] > 0 && live["workload"]["instructions"].as_u64() > Some(1000));
}

/// CA-18 on a real program: pages of 2^s bytes are 4 KB pages of the program with its addresses shifted, and those are
/// what the laboratory's own TLBs count, at every number of entries. References only, so nothing else changes a
/// translation.
#[test]
fn a_real_program_counts_as_the_laboratory_counts_it() {
    let dir = Dir::new();
    let plain = crate::common::program("plain", &["-static"]);
    let trace = dir.path("plain.frt");
    let record = ["record", "-o", &trace, "--limit", "60000", "--", plain.to_str().unwrap()];
    assert!(
        crate::cli::command()
            .env("FARREACH_VALGRIND_DIR", crate::common::tool())
            .args(record)
            .output()
            .unwrap()
            .status
            .success()
    );
    let text = crate::cli::farreach(["trace", "convert", &trace, "--to", "lackey"]).out;
    let study = fed(["pagesize", "-", "--json"], text.as_bytes()).good().json();
    let entries = [1u64, 4, 16, 32, 64];
    let machines = entries.map(|n| format!("t94/single:split=true,replacement=lru,entries={n}"));
    for (i, by) in [(0, 0), (2, 2), (6, 6)] {
        let shifted: String = text.lines().map(|line| shift(line, by)).collect();
        let args = ["sim", "-", "--json"].into_iter().chain(machines.iter().flat_map(|m| ["-m", m]));
        let sim = fed(args, shifted.as_bytes()).good().json();
        for (machine, n) in sim["machines"].as_array().unwrap().iter().zip(entries) {
            for side in ["fetch_misses", "data_misses"] {
                let at = n.trailing_zeros() as usize;
                let misses = &study["rows"][i][format!("{side}_by_entries")][at];
                assert_eq!(misses, &machine["counts"][side], "{side} with {n} entries, addresses shifted by {by}");
            }
        }
        let sides = [("fetch_lookups", &["fetch"][..]), ("data_lookups", &["load", "store"])];
        for (key, kinds) in sides {
            let lookups: u64 = kinds.iter().map(|k| sim["workload"]["lookups"][k].as_u64().unwrap()).sum();
            assert_eq!(study["rows"][i][key], lookups);
        }
        assert_eq!(
            study["rows"][i]["total_bytes"].as_u64(),
            sim["workload"]["touched_bytes"].as_u64().map(|b| b << by)
        );
    }
}

/// A line of Lackey text with the addresses of its first and last byte shifted.
fn shift(line: &str, by: u32) -> String {
    let Some((head, (addr, size))) = line.split_at_checked(3).and_then(|(h, rest)| Some((h, rest.split_once(',')?)))
    else {
        return format!("{line}\n");
    };
    let (addr, size) = (u64::from_str_radix(addr.trim(), 16).unwrap(), size.trim().parse::<u64>().unwrap());
    let (first, last) = (addr >> by, (addr + size - 1) >> by);
    format!("{head}{first:08x},{}\n", last - first + 1)
}

/// Small values are not rounded to 0.
#[test]
fn advice_on_a_few_pages_is_in_kilobytes() {
    let advice = |pages| fed(["pagesize", "-", "--no-policies"], sweep(pages, 1).as_bytes()).good().out;
    let one = advice(1);
    assert!(one.contains("4K pages: 1 miss in 4 KiB; no larger size saves any"), "{one}");
    let many = advice(128);
    assert!(many.contains("(1 against 128) for 0.0 % more memory (512 KiB against 512)"), "{many}");
}
