//! `farreach watch` on a program whose use of memory is known.

use crate::cli::{Dir, OfAnother, Ran, command, farreach, more_rights, without_privilege};
use crate::common::{damon, program};
use farreach_live::watch::Method;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// DAMON's files: one set for everybody.
const DAMON: &str = "/sys/kernel/mm/damon/admin/kdamonds";
const MIB: u64 = 1 << 20;
/// Memory of the program, the part at its beginning that it uses, and which pages of that: more than a TLB holds.
const ALL: u64 = 28;
const PART: u64 = 20;
const STEP: u64 = 2;
/// What it uses, in 4 KB pages.
const USED: u64 = PART * MIB / STEP;
/// Other memory that a small C program may use: its stack, its data, the C library.
const OTHER: u64 = 4 * MIB;

/// The program, at work; it ends with this value.
struct Watched {
    child: Child,
    start: u64,
}

impl Watched {
    fn begin() -> Watched {
        Watched::of(ALL, PART)
    }

    fn of(all: u64, part: u64) -> Watched {
        let mut command = Command::new(program("watched", &[]));
        command.args([all, part, STEP].map(|n| n.to_string()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        Watched { child, start: u64::from_str_radix(line.trim().trim_start_matches("0x"), 16).unwrap() }
    }
    fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Both ends of a figure.
fn bounds(value: &Value) -> [u64; 2] {
    [number(&value["low"]), number(&value["high"])]
}

fn watched(pid: &str, method: &str) -> Value {
    // DAMON's files take their time.
    let length = if method == "damon" { "5s" } else { "2s" };
    let args = ["watch", "-p", pid, "--for", length, "--interval", "400ms", "--method", method, "--json"];
    farreach(args).good().json()
}

/// The working set row of pages of this size.
fn row(result: &Value, bytes: u64) -> &Value {
    result["working_sets"].as_array().unwrap().iter().find(|set| set["page_bytes"] == bytes).unwrap()
}

/// Every method that works here sees what the program used, within what it can tell.
#[test]
fn what_is_reported_is_what_was_used() {
    let _damon = damon();
    let running = Watched::begin();
    let works = |name: &str| farreach(["doctor", name]).status == 0;
    for method in Method::ALL.map(Method::name) {
        let stores_only = method == "soft-dirty";
        if method != "resident" && !works(method) {
            eprintln!("{method} does not work here: `farreach doctor {method}` says why");
            continue;
        }
        let result = watched(&running.pid(), method);
        assert_eq!((&result["schema"], &result["ended"]), (&"farreach.watch/1".into(), &"time".into()));
        assert!(result["intervals"].as_array().unwrap().len() >= 2, "{method}");
        for of in ["present_bytes", "anonymous_bytes"] {
            let bytes = number(&result[of]);
            assert!((ALL * MIB..(ALL + 16) * MIB).contains(&bytes), "{method}: {of} {bytes}");
        }
        // All of its memory is present in whole blocks, of which huge pages would waste nothing.
        let full = result["blocks"].as_array().unwrap().last().unwrap();
        assert_eq!(full["from_pages"], 512);
        assert!(number(&full["blocks"]) >= ALL / 2, "{method}: {full}");
        assert!(number(&result["huge"]["refused_bytes"]) >= ALL * MIB, "{}", result["huge"]);
        let (small, large) = (row(&result, 4096), row(&result, 2 * MIB));
        if method == "resident" {
            assert!(small["median_bytes"].is_null() && result["heat"]["rows"].as_array().unwrap().is_empty());
            assert_eq!(result["recommendation"]["verdict"], "unknown");
            continue;
        }
        let used = if stores_only { 0 } else { USED };
        let [low, high] = bounds(&small["median_bytes"]);
        assert!(low <= used + OTHER && used <= high, "{method}: {low} to {high}, {used} were used");
        let anonymous = result["mappings"].as_array().unwrap().iter().find(|m| m["mapping"] == "anonymous").unwrap();
        let of_mapping = number(&anonymous["median_bytes"]);
        assert!((used..used + OTHER).contains(&of_mapping), "{method}: {anonymous}");
        // Blocks that were used: exactly known from pages, at most all of them from a count.
        let [low, high] = bounds(&large["median_bytes"]);
        let in_blocks = if stores_only { 0 } else { PART * MIB };
        assert!(low <= in_blocks + 40 * MIB && in_blocks <= high, "{method}: {low} to {high}");
        heat(&result, method, running.start, stores_only);
        assert!(number(&result["reach"][0]["needed_for_present"]) >= ALL * MIB / 4096);
    }
}

/// The rows of the program's memory: half of its first part was used, nothing of the rest; from a count, as much of all.
fn heat(result: &Value, method: &str, start: u64, stores_only: bool) {
    let by_page = result["method"]["resolution"] == "pages";
    let rows = medians(result, start, ALL);
    assert!(rows.len() > 4, "{method}: {rows:?}");
    for (end, median) in rows {
        let expected = match (stores_only, by_page) {
            (true, _) => 0.0,
            (false, true) if end <= start + PART * MIB => 1.0 / STEP as f64,
            (false, true) => 0.0,
            (false, false) => PART as f64 / ALL as f64 / STEP as f64,
        };
        assert!((median - expected).abs() < 0.02, "{method}: {expected} expected up to {end}: {}", result["heat"]);
    }
}

/// Where each row within so many megabytes of memory ends, and the part of it that was used in half of the intervals.
fn medians(result: &Value, start: u64, megabytes: u64) -> Vec<(u64, f64)> {
    let rows = result["heat"]["rows"].as_array().unwrap().iter();
    let within = rows.filter(|row| number(&row["start"]) >= start && number(&row["end"]) <= start + megabytes * MIB);
    let median = |row: &Value| {
        let mut used: Vec<f64> = row["used"].as_array().unwrap().iter().map(|used| used.as_f64().unwrap()).collect();
        used.sort_by(f64::total_cmp);
        (number(&row["end"]), used[(used.len() - 1) / 2])
    };
    within.map(median).collect()
}

/// Of more pages than DAMON takes regions some blocks are watched, each page of them exactly; the rest is in proportion.
#[test]
fn of_a_large_process_blocks_are_drawn() {
    const LARGE: u64 = 64;
    let _damon = damon();
    let doctor = farreach(["doctor", "damon"]);
    if doctor.status != 0 {
        eprintln!("DAMON does not work here, so its samples are not tested: {}", doctor.out);
        return;
    }
    let running = Watched::of(LARGE, LARGE / 2);
    let result = watched(&running.pid(), "damon");
    assert_eq!(result["method"]["resolution"], "sample");
    let [drawn, all] = [0, 1].map(|i| number(&result["method"]["sampled_blocks"][i]));
    assert!(0 < drawn && drawn < all && all >= LARGE / 2, "{drawn} of {all}");
    let rows = medians(&result, running.start, LARGE);
    assert!(rows.len() > 8 && rows.len() as u64 <= drawn, "{}", result["heat"]);
    for &(end, median) in &rows {
        let expected = if end <= running.start + LARGE / 2 * MIB { 1.0 / STEP as f64 } else { 0.0 };
        assert!((median - expected).abs() < 0.02, "{expected} expected up to {end}: {}", result["heat"]);
    }
    let anonymous = result["mappings"].as_array().unwrap().iter().find(|m| m["mapping"] == "anonymous").unwrap();
    let part = rows.iter().map(|(_, median)| median).sum::<f64>() / rows.len() as f64;
    let expected = part * (LARGE * MIB) as f64;
    assert!((number(&anonymous["median_bytes"]) as f64 - expected).abs() < OTHER as f64, "{expected}: {anonymous}");
}

#[test]
fn a_process_that_ends_ends_the_watch() {
    let _damon = damon();
    let mut child = Command::new("sleep").arg("1").spawn().unwrap();
    let ran = farreach(["watch", "-p", &child.id().to_string(), "--for", "60s", "--interval", "200ms", "--json"]);
    child.wait().unwrap();
    let result = ran.good().json();
    assert_eq!(result["ended"], "process ended");
    assert!(result["seconds"].as_f64().unwrap() < 30.0 && number(&result["present_bytes"]) > 0, "{result}");
}

#[test]
fn an_interrupt_ends_the_watch_with_a_result() {
    let _damon = damon();
    let running = Watched::begin();
    let mut watching = command();
    watching.args(["watch", "-p", &running.pid(), "--for", "1h", "--interval", "300ms"]);
    let watching = watching.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    farreach_live::send(watching.id(), libc::SIGINT);
    let ran = Ran::of(watching.wait_with_output().unwrap());
    assert_eq!(ran.status, 0, "{}", ran.err);
    for words in ["end: interrupted", "working set in", "TLB entries", "farreach advise -- COMMAND", "Watching took"] {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
    assert!(ran.out.lines().all(|line| line.chars().count() <= 120), "{}", ran.out);
}

/// `benches/killed.sh` does the same at random moments, and compares all settings of the machine.
#[test]
fn damon_is_off_after_kill_9() {
    let _damon = damon();
    let doctor = farreach(["doctor", "damon"]);
    if doctor.status != 0 {
        eprintln!("DAMON does not work here, so its end is not tested: {}", doctor.out);
        return;
    }
    let running = Watched::begin();
    let state = || ["nr_kdamonds", "0/state"].map(|name| std::fs::read_to_string(Path::new(DAMON).join(name)).ok());
    for round in 0..5u64 {
        let mut watching = command();
        watching.args(["watch", "-p", &running.pid(), "--for", "1h", "--interval", "300ms", "--method", "damon"]);
        let mut watching = watching.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let wait = |what: &str, there: &dyn Fn() -> bool| {
            let began = Instant::now();
            while !there() {
                assert!(began.elapsed() < Duration::from_secs(60), "round {round}: not {what}: {:?}", state());
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        wait("on", &|| state()[1].as_deref() == Some("on\n"));
        std::thread::sleep(Duration::from_millis(100 * round));
        watching.kill().unwrap(); // SIGKILL
        watching.wait().unwrap();
        wait("off", &|| state() == [Some("0\n".to_owned()), None]);
    }
}

#[test]
fn what_cannot_be_watched_is_said() {
    farreach(["watch", "-p", "2147483647"]).bad(1, &["process 2147483647: there is none"]);
    farreach(["watch", "-p", "0"]).bad(2, &["1.."]);
    farreach(["watch"]).bad(2, &["--pid"]);
    let own = std::process::id().to_string();
    farreach(["watch", "-p", &own, "--for", "1d"]).bad(2, &["1d", "10ms to 24h"]);
    farreach(["watch", "-p", &own, "--method", "magic"]).bad(2, &["magic", "clear-refs"]);
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        farreach(["watch", "-p", "2"]).bad(1, &["process 2 (kthreadd)", "thread of the kernel"]);
    }
}

#[test]
fn without_rights_the_missing_one_is_named() {
    let unprivileged = |args: &[&str]| Ran::of(without_privilege(command().args(args)).output().unwrap());
    if let Some(other) = OfAnother::new() {
        let pid = other.pid().to_string();
        let words = [&format!("process {pid}: /proc/{pid}/"), "may not be read", more_rights("CAP_SYS_PTRACE")];
        unprivileged(&["watch", "-p", &pid]).bad(1, &words);
    }
    // Its own processes it may watch, but not by frames, which the kernel hides, or the bitmap is not there at all.
    let mut sleep = Command::new("sleep");
    let mut child = without_privilege(sleep.arg("30")).spawn().unwrap();
    let pid = child.id().to_string();
    unprivileged(&["watch", "-p", &pid, "--method", "idle-pages"]).bad(1, &["--method idle-pages: ", "; "]);
    let ran = unprivileged(&["watch", "-p", &pid, "--for", "300ms", "--interval", "100ms", "--json"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let result = ran.good().json();
    let missing = result["method"]["missing"].as_array().unwrap();
    let told = missing.iter().any(|m| m["name"] == "idle-pages" && m["turn_on"].is_string());
    assert!(told || result["method"]["name"] == "damon", "{}", result["method"]);
}

#[test]
fn the_page_stands_alone() {
    let _damon = damon();
    let (dir, running) = (Dir::new(), Watched::begin());
    let html = dir.path("page.html");
    let ran = farreach(["watch", "-p", &running.pid(), "--for", "1s", "--interval", "300ms", "--html", &html]);
    assert_eq!((ran.status, ran.err.as_str()), (0, format!("farreach: report in {html}\n").as_str()));
    let page = dir.read("page.html");
    for word in ["http:", "https:", "src=", "@import", "url(", "<link", "<script", "NaN"] {
        assert!(!page.contains(word), "{word} in the page");
    }
    for words in ["Use by address and time", "Working set by size of page", "How full the 2 MB blocks are"] {
        assert!(page.contains(words), "{words}");
    }
    assert_eq!(dir.names(), ["page.html"]);
}
