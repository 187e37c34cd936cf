//! Nothing that lies in the working directory is run, but what the user names.

use crate::cli::{Dir, Ran, command};
use std::os::unix::fs::PermissionsExt;

/// Programs that farreach or its tools start.
const NAMES: [&str; 22] = [
    "sh",
    "bash",
    "cat",
    "gcc",
    "cc",
    "g++",
    "make",
    "verilator",
    "verilator_bin",
    "yosys",
    "sta",
    "perl",
    "python3",
    "env",
    "dpkg-query",
    "apt-get",
    "gzip",
    "lscpu",
    "valgrind",
    "as",
    "ld",
    "farreach-amd64-linux",
];

#[test]
fn nothing_of_the_working_directory_is_run() {
    let _damon = crate::common::damon();
    let dir = Dir::new();
    let folder = dir.path("hostile");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::create_dir_all(dir.path("marks")).unwrap();
    for name in NAMES {
        let file = dir.write(&format!("hostile/{name}"), format!("#!/bin/sh\n: > '{}/{name}'\n", dir.path("marks")));
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
    }
    for name in ["pickle", "sitecustomize", "encodings", "site", "sys", "farreach"] {
        let text = format!("open('{}/{name}.py', 'w')\n", dir.path("marks"));
        dir.write(&format!("hostile/{name}.py"), text);
    }
    let marks = || {
        let entries = std::fs::read_dir(dir.path("marks")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let path = format!(".::{}", std::env::var("PATH").unwrap());
    let run = |words: &str| {
        let mut farreach = command();
        farreach
            .args(words.split_whitespace())
            .current_dir(&folder)
            .env("FARREACH_VALGRIND_DIR", crate::common::tool());
        farreach.env("PATH", &path).env("PYTHONPATH", ":.").env("XDG_CACHE_HOME", dir.path("cache"));
        let ran = Ran::of(farreach.output().unwrap());
        (marks(), ran)
    };
    let none = Vec::<String>::new();
    for words in [
        "run --limit 100K -- /bin/true",
        "area",
        "doctor ptrace pidfd damon",
        "workloads gzip --prepare",
        "workloads gzip --run --size 64K",
        "workloads gzip --trace -o gzip.frt --size 64K --limit 1M",
        "papers t94-table1 -w gzip --limit 100K --csv",
        "rtl check no-such-trace.frt",
        "rtl synth --help",
        "sweep x.toml --dry-run",
        "papers t94-table1 --small --on local:1 --limit 1K",
        "advise -m today/zen3 --limit 100K -- /bin/true",
    ] {
        let (found, ran) = run(words);
        assert_eq!(found, none, "{words}: {}", ran.err);
    }
    if std::path::Path::new("/usr/bin/dpkg-query").is_file() {
        let (_, prepared) = run("workloads gzip --prepare");
        assert_eq!(prepared.status, 0, "{}", prepared.err);
    }
    let (_, absent) = run("rtl check no-such-trace.frt");
    if absent.err.contains("verilator is not in") {
        assert!(absent.err.contains("which is not absolute"), "{}", absent.err);
    }
    // What the user names is found as the shell finds it; and the marks work.
    assert_eq!(run("contiguity -- lscpu").0, ["lscpu"]);
}
