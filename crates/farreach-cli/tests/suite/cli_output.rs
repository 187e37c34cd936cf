//! Are the forms of output stable for scripts, and are files written whole or not at all?

use crate::cli::{DEFAULTS, Dir, Ran, command, farreach, fed, line, sweep};
use serde_json::Value;
use std::process::{Command, Stdio};

const TEXT: &str = "I  00001ffe,4\n M 00003ffc,8\n L 00005000,8\nI  00002002,3\n S 00005008,8\n";

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap_or_else(|| panic!("{value}")).keys().map(String::as_str).collect()
}

#[track_caller]
fn has(value: &Value, names: &[&str]) {
    let keys = keys(value);
    for name in names {
        assert!(keys.contains(name), "{name} is not in {keys:?}");
    }
}

#[test]
fn json_keeps_its_contract() {
    let text = format!("{TEXT}{}", sweep(200, 3));
    let machines = ["t94/partial:entries=32", "t94/single", "t94/single:split=true"];
    let args = machines.iter().flat_map(|m| ["--machine", m]);
    let r = fed(["sim", "-", "--json"].into_iter().chain(args), text.as_bytes()).good().json();
    has(&r, &["schema", "workload", "machines"]);
    assert_eq!(r["schema"], "farreach.result/1");
    has(&r["workload"], &["source", "instructions", "lookups", "touched_bytes"]);
    has(&r["workload"]["lookups"], &["fetch", "load", "store"]);
    assert_eq!(r["workload"]["stopped"], Value::Null);
    let lookups: u64 = ["fetch", "load", "store"].iter().map(|k| r["workload"]["lookups"][k].as_u64().unwrap()).sum();
    for (m, name) in r["machines"].as_array().unwrap().iter().zip(machines) {
        has(m, &["name", "config", "counts", "memory", "cost"]);
        assert_eq!(m["name"], name);
        has(&m["counts"], &["lookups", "misses", "fetch_misses", "data_misses", "page_faults"]);
        has(&m["memory"], &["resident_bytes", "mapped_bytes"]);
        has(&m["cost"], &["cycles", "area_rbe"]);
        let n = |key: &str| m["counts"][key].as_u64().unwrap();
        assert_eq!(n("lookups"), lookups);
        assert_eq!(n("misses"), n("fetch_misses") + n("data_misses"));
        assert_eq!(n("misses"), n("tag_misses") + n("subblock_misses"));
        assert_eq!(n("data_misses"), n("load_misses") + n("store_misses"));
        let sum = |list: &Value, keys: &[&str]| -> u64 {
            list.as_array().unwrap().iter().flat_map(|r| keys.iter().map(|k| r[k].as_u64().unwrap())).sum()
        };
        assert_eq!(sum(&m["regions"], &["fetch_misses", "data_misses"]), n("misses"));
        let slices: u64 = m["timeline"]["misses"].as_array().unwrap().iter().map(|x| x.as_u64().unwrap()).sum();
        assert_eq!(slices, n("misses"));
        assert_eq!(m["memory"]["touched_bytes"], r["workload"]["touched_bytes"]);
    }
    // Resolved: an override, a value of the preset, a default.
    let config = &r["machines"][0]["config"];
    assert_eq!((&config["entries"], &config["factor"], &config["penalty"]), (&32.into(), &16.into(), &40.0.into()));
    assert_eq!(r["machines"][2]["config"]["split"], true);
}

#[test]
fn csv_has_the_same_numbers() {
    let args =
        |form: &'static str| ["sim", "-", form, "-m", "t94/superpage:sizes=4K+64K,entries=16", "-m", "t94/partial"];
    let r = fed(args("--json"), TEXT.as_bytes()).good().json();
    let text = fed(args("--csv"), TEXT.as_bytes()).good().out;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!((header[0].as_str(), rows.len()), ("name", 2));
    let unique: std::collections::HashSet<_> = header.iter().collect();
    assert_eq!(unique.len(), header.len(), "a column twice: {header:?}");
    for (row, m) in rows.iter().zip(r["machines"].as_array().unwrap()) {
        assert_eq!(row[0], *m["name"].as_str().unwrap());
        for part in ["counts", "memory"] {
            for (key, value) in
                m[part].as_object().unwrap().iter().filter(|(k, _)| part != "memory" || *k != "touched_bytes")
            {
                let column = header.iter().position(|h| h == key).unwrap_or_else(|| panic!("{key} in {header:?}"));
                assert_eq!(row[column], value.to_string(), "{key}");
            }
        }
    }
    fed(args("--csv").into_iter().chain(["--json"]), b"").bad(2, &["--json", "--csv"]);
}

#[test]
fn format_of_the_trace_and_of_the_result_are_two_things() {
    let r = fed(["sim", "-", "--format", "lackey", "--json"], TEXT.as_bytes()).good().json();
    assert_eq!(r["workload"]["instructions"], 2);
    assert!(fed(["sim", "-", "--format", "lackey", "--csv"], TEXT.as_bytes()).good().out.starts_with("name,"));
}

#[test]
fn area_keeps_its_contract() {
    for kind in ["single", "superpage", "complete", "partial"] {
        let r = line(&format!("area {kind} --entries 32 --factor 8 --json")).good().json();
        has(&r, &["kind", "entries", "factor", "rbe"]);
        assert_eq!((&r["kind"], &r["entries"], &r["factor"]), (&kind.into(), &32.into(), &8.into()));
        assert!(r["rbe"].as_f64().unwrap() > 1000.0);
    }
    line("area").bad(2, &["<KIND>"]);
    line("area tlb").bad(2, &["tlb", "single, superpage, complete, partial"]);
    line("area single --entries x").bad(2, &["x"]);
}

#[test]
fn an_html_page_stands_alone() {
    let dir = Dir::new();
    let html = dir.path("page.html");
    let evil = "t94/single:entries=16";
    let ran = fed(["sim", "-", "--html", &html, "-m", evil, "-m", "t94/partial"], TEXT.as_bytes());
    assert_eq!((ran.status, ran.err.as_str()), (0, format!("farreach: report in {html}\n").as_str()));
    assert!(ran.out.contains("t94/partial"), "the table comes as well");
    let page = dir.read("page.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    let rest = page.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xhtml", "");
    for word in ["http:", "https:", "src=", "@import", "url(", "<link"] {
        assert!(!rest.contains(word), "{word} in the page");
    }
    assert_eq!(dir.names(), ["page.html"]);
}

/// An output that cannot be written is reported before the trace is read: standard input here never ends.
#[test]
fn files_that_cannot_be_written_are_refused_at_once() {
    let dir = Dir::new();
    let folder = dir.path("");
    let missing = dir.path("missing/page");
    for (option, file, word) in [
        ("--html", missing.as_str(), "No such file"),
        ("-o", &missing, "No such file"),
        ("--html", &folder, "directory"),
        ("-o", &folder, "directory"),
        ("-o", "/proc/x", "/proc/x"),
    ] {
        let mut child = command();
        child.args(["sim", "-", option, file]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let kept_open = child.stdin.take();
        Ran::of(child.wait_with_output().unwrap()).bad(1, &[file.trim_end_matches('/'), word]);
        drop(kept_open);
    }
    let fifo = dir.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for words in ["sim -", "run", "record", "trap"] {
        let words: Vec<&str> = words.split(' ').chain(["-o", &fifo]).collect();
        let program: &[&str] = if words[0] == "sim" { &[] } else { &["--", "true"] };
        farreach([&words, program].concat()).bad(if program.is_empty() { 1 } else { 125 }, &["fifo", "nobody reads"]);
    }
    std::fs::remove_file(&fifo).unwrap();
    let both = dir.path("both");
    farreach(["sim", "-", "-o", &both, "--html", &both]).bad(1, &["both", "--html", "--output"]);
    assert!(dir.names().is_empty());
}

#[test]
fn a_full_disk_leaves_no_piece() {
    let dir = Dir::new();
    let old = dir.write("old.json", "old");
    // What was found is printed all the same.
    let trace = dir.write("t", TEXT);
    let commands: [&[&str]; 6] = [
        &["sim", &trace],
        &["pagesize", &trace],
        &["run", "--", "true"],
        &["contiguity", "--", "sleep", "0.1"],
        &["advise", "-m", "today/zen3", "--runs", "1", "--", "true"],
        &["watch", "-p", "OWN", "--for", "100ms"],
    ];
    let own = std::process::id().to_string();
    for words in commands {
        for option in ["-o", "--html"] {
            let _damon = (words[0] == "watch").then(crate::common::damon);
            let mut full = command();
            full.arg(words[0]).args([option, "/dev/full"]);
            full.args(words[1..].iter().map(|word| if *word == "OWN" { &own } else { *word }));
            full.env("FARREACH_VALGRIND_DIR", crate::common::tool());
            let ran = Ran::of(full.output().unwrap());
            assert!(ran.status == 1 || ran.status == 125, "{words:?} {option}: {}", ran.err);
            assert!(ran.err.contains("/dev/full: No space left"), "{words:?} {option}: {}", ran.err);
            assert!(ran.out.lines().count() > 3, "{words:?} {option}: {}", ran.out);
            assert_eq!(ran.err.contains("the result is on standard output"), option == "-o", "{}", ran.err);
        }
    }
    let script = format!("{} --help >/dev/full", env!("CARGO_BIN_EXE_farreach"));
    assert_eq!(Ran::of(Command::new("bash").args(["-c", &script]).output().unwrap()).status, 1);
    // A closed pipe is no reason to print more.
    let script = format!("{} sim {trace} -o >(exec true) 2>&1; sleep 0.1", env!("CARGO_BIN_EXE_farreach"));
    let ran = Ran::of(Command::new("bash").args(["-c", &script]).output().unwrap());
    assert!(!ran.out.contains("t94"), "{}", ran.out);
    // Files of at most 1 KB: the result has more. The old file stays.
    let script = format!("ulimit -f 1; {} sim {trace} --json -o {old} 2>&1 | cat", env!("CARGO_BIN_EXE_farreach"));
    let ran = Ran::of(Command::new("bash").args(["-c", &script]).output().unwrap());
    assert!(ran.out.contains("old.json: File too large") && ran.out.contains("\"machines\""), "{}", ran.out);
    let script = format!("ulimit -f 0; {} trace convert {trace} -o {old} 2>&1 | cat", env!("CARGO_BIN_EXE_farreach"));
    let ran = Ran::of(Command::new("bash").args(["-c", &script]).output().unwrap());
    assert!(ran.out.contains("File too large"), "{}", ran.out);
    assert_eq!((dir.read("old.json").as_str(), dir.names()), ("old", vec!["old.json".to_owned(), "t".to_owned()]));
}

#[test]
fn output_goes_where_it_is_told() {
    let dir = Dir::new();
    let result = |args: &[&str]| fed(["sim", "-", "--csv"].iter().chain(args), TEXT.as_bytes()).good().out;
    let want = result(&[]);
    let file = dir.path("r.csv");
    assert_eq!((result(&["-o", &file]).as_str(), dir.read("r.csv")), ("", want.clone()));
    assert_eq!(result(&["-o", "-"]), want);
    assert_eq!(result(&["-o", "/dev/stdout"]), want);
    // Behind a link the file is replaced, not the link, and the file keeps its mode.
    std::os::unix::fs::symlink("r.csv", dir.path("link")).unwrap();
    Command::new("chmod").args(["600", &file]).status().unwrap();
    std::fs::write(&file, "old").unwrap();
    assert_eq!((result(&["-o", &dir.path("link")]).as_str(), dir.read("r.csv")), ("", want.clone()));
    assert_eq!(dir.names(), ["link", "r.csv"]);
    assert!(std::fs::symlink_metadata(dir.path("link")).unwrap().is_symlink());
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    // /dev/stdout as a plain file: what is already in it stays.
    let script = format!("exec > {file}; echo first; {} sim - --csv -o /dev/stdout", env!("CARGO_BIN_EXE_farreach"));
    let mut child = Command::new("bash").args(["-c", &script]).stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), TEXT.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(dir.read("r.csv"), format!("first\n{want}"));
    assert!(std::fs::symlink_metadata("/dev/stdout").unwrap().is_symlink());
}

/// A mistake in a command line must not overwrite a long recording.
#[test]
fn what_is_read_is_not_overwritten() {
    let dir = Dir::new();
    let (trace, machine) = (dir.write("t", TEXT), dir.write("m.toml", "kind = \"single\"\n"));
    std::os::unix::fs::symlink("t", dir.path("link")).unwrap();
    for (to, read) in
        [("t", "t"), ("./t", "t"), ("link", "t"), ("t", "link"), ("m.toml", "m.toml"), (".//m.toml", "m.toml")]
    {
        for option in ["-o", "--html"] {
            let mut args = ["sim", &trace, "-m", &machine];
            let (link, to) = (dir.path(read), dir.path(to));
            if read == "link" {
                args[1] = &link;
            }
            farreach(args.iter().chain(&[option, to.as_str()]))
                .bad(1, &[&to, option.trim_start_matches('-'), "overwrite"]);
        }
    }
    // Files that keys name, in an override and in a description.
    let pattern = dir.write("p", "0-9\n");
    let own = dir.write("own.toml", format!("kind = \"single\"\nmemory = \"64M\"\npattern = \"{pattern}\"\n"));
    for machine in [format!("t94/single:memory=64M,pattern={pattern}"), own] {
        farreach(["sim", &trace, "-m", &machine, "-o", &pattern]).bad(1, &[&pattern, "overwrite"]);
        farreach(["pagesize", &trace, "-m", &machine, "--html", &pattern]).bad(1, &[&pattern, "overwrite"]);
        assert_eq!(farreach(["sim", &trace, "-m", &machine]).good().status, 0);
    }
    farreach(["pagesize", &trace, "-o", &trace]).bad(1, &["overwrite"]);
    farreach(["papers", "t94-fig2", "-w", &trace, "-o", &trace]).bad(1, &["overwrite"]);
    farreach(["run", "-m", &machine, "-o", &machine, "--", "true"]).bad(125, &["overwrite"]);
    // One file by two paths is one file, there or not.
    for name in ["new", "old"] {
        farreach(["sim", &trace, "-o", &dir.path(name), "--html", &dir.path(&format!("./{name}"))])
            .bad(1, &[name, "two files"]);
        dir.write("old", "old");
    }
    assert_eq!((dir.read("t").as_str(), dir.read("old").as_str()), (TEXT, "old"));
    assert_eq!(dir.names(), ["link", "m.toml", "old", "own.toml", "p", "t"]);
    // A device cannot be overwritten.
    assert_eq!(farreach(["sim", &trace, "-o", "/dev/null", "--html", "/dev/null"]).status, 0);
}

/// `-` is standard output where that is possible; elsewhere it is refused, not taken for the name of a file.
#[test]
fn a_dash_is_never_a_file() {
    let dir = Dir::new();
    let trace = dir.write("t", TEXT);
    let here = |words: &[&str]| {
        let mut command = command();
        command.args(words).current_dir(dir.path(""));
        Ran::of(command.output().unwrap())
    };
    here(&["sim", &trace, "--html", "-"]).bad(1, &["--html -", "'./-'"]);
    here(&["record", "-o", "-", "--", "true"]).bad(125, &["--output -", "'./-'"]);
    here(&["workloads", "gups", "--trace", "-o", "-"]).bad(1, &["--output -", "'./-'"]);
    here(&["contiguity", "--dump", "-", "--", "true"]).bad(125, &["--dump -", "'./-'"]);
    assert_eq!(dir.names(), ["t"]);
    assert_eq!(here(&["sim", &trace, "--html", "./-"]).status, 0);
    assert_eq!(dir.names(), ["-", "t"]);
}

#[test]
fn numbers_of_options_are_refused_with_what_is_allowed() {
    for (words, value, least) in [
        ("sim - --limit", "1MB", 1),
        ("sim - --limit", "1.5", 1),
        ("sim - --limit", "0", 1),
        ("sim - --seed", "-1", 0),
        ("sim - --threads", "two", 0),
        ("pagesize - --entries", "-5", 1),
        ("workloads gups --trace -o x --references", "1e6", 1),
    ] {
        let allowed = format!("a whole number from {least} to {}", u64::MAX);
        line(&format!("{words} {value}")).bad(2, &[&format!("'{value}'"), &allowed]);
    }
    line("area single --entries -1").bad(2, &["'-1'", "1 to 65536"]);
    line("advise --load x --port 0 -- true").bad(2, &["'0'", "1..=65535"]);
    line("sim workload:gups:seed=-1").bad(1, &["seed=-1", &format!("0 to {}", u64::MAX)]);
}

/// Control characters of names and pieces of files in messages are replaced.
#[test]
fn messages_obey_nobody() {
    let dir = Dir::new();
    let trace = dir.write("t\u{1b}[31m\nx", TEXT);
    let machine = dir.write("m.toml", "kind = \"single\"\nentries = \"\\u001b[2J\"\n");
    for ran in [
        farreach(["sim", &trace, "-m", &machine]),
        farreach(["trace", "info", &trace]),
        farreach(["trace", "check", &trace]),
        farreach(["sim", &trace, "-m", "t94/single:memory=4K"]),
        farreach(["sim", "\u{1b}]0;x"]),
    ] {
        assert!(!ran.out.contains('\u{1b}') && !ran.err.contains('\u{1b}'), "{:?}", (ran.out, ran.err));
    }
}

#[test]
fn every_subcommand_has_help_with_examples() {
    let commands = [
        "",
        "run",
        "record",
        "sim",
        "pagesize",
        "trace",
        "trace info",
        "trace check",
        "trace convert",
        "machines",
        "area",
    ];
    for command in commands {
        for flag in ["--help", "-h"] {
            let text = line(&format!("{command} {flag}")).good().out;
            assert!(text.contains("Examples:\n") && text.contains("Usage: farreach"), "{command} {flag}: {text}");
        }
    }
    for command in ["run", "record", "pagesize"] {
        let text = line(&format!("{command} --help")).good().out;
        assert!(["Exit status", "125", "126", "127", "130"].iter().all(|w| text.contains(w)), "{text}");
    }
    assert!(line("--version").good().out.starts_with("farreach "));
    line("nosuch").bad(2, &["nosuch"]);
    assert_eq!(line("").status, 2);
}

#[test]
fn a_table_names_every_default_design() {
    let table = fed(["sim", "-"], TEXT.as_bytes()).good().out;
    assert!(DEFAULTS.iter().all(|d| table.contains(d)), "{table}");
    assert!(!table.contains('\u{1b}'), "no colours in a pipe");
}
