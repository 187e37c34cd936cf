//! `farreach papers`: are the numbers the accepted ones, is nothing run twice, and are wrong arguments refused?

use crate::cli::{Dir, Ran, command, farreach, optimised, sweep};
use crate::cli_trap::traps_work;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The accepted output of `papers --all --small --csv`: every number, every verdict and its reason.
///
/// `make test` runs the first 300,000 instructions of all of it with the optimised program (FARREACH_RELEASE),
/// `make test-long` the whole (FARREACH_TIMES). The program of the test profile is many times slower, because it
/// compares every lookup with the page table: a plain `cargo test` checks two studies with it, `make test-long` all.
#[test]
fn numbers_and_verdicts_of_the_small_set_are_the_accepted_ones() {
    let (program, release) = optimised();
    let long = std::env::var_os("FARREACH_TIMES").is_some();
    let ids: &[&str] = if long || release { &["--all"] } else { &["t94-table10", "t94-by-hand"] };
    let (golden, limit) = if long { ("small.csv", None) } else { ("short.csv", Some("--limit=300K")) };
    let file = format!("{}/../../fixtures/papers/{golden}", env!("CARGO_MANIFEST_DIR"));
    let dir = Dir::new();
    let mut run = Command::new(program);
    run.arg("papers").args(ids).args(["--small", "--csv", "--cache", &dir.path("cache")]).args(limit);
    let ran = Ran::of(run.stdin(Stdio::null()).output().unwrap());
    assert_eq!(ran.status, 0, "{}", ran.err);
    let accepted = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
    let of_these = |line: &&str| {
        ids == ["--all"] || ids.iter().any(|id| line.starts_with(&format!("{id},"))) || line.starts_with("study,")
    };
    let want: Vec<&str> = accepted.lines().filter(of_these).collect();
    // The head of a paper depends on which of its claims are there.
    let head = |line: &&str| ids != ["--all"] && line.split(',').nth(1) == Some("head");
    let found: Vec<&str> = ran.out.lines().filter(|line| !head(line)).collect();
    let gone = want.iter().filter(|line| !found.contains(line)).map(|line| format!("- {line}"));
    let new = found.iter().filter(|line| !want.contains(line)).map(|line| format!("+ {line}"));
    let changed: Vec<String> = gone.chain(new).collect();
    assert!(
        changed.is_empty() && want == found,
        "{} lines differ from fixtures/papers/{golden}; if the new ones are right, `make accept-papers` takes them \
         over:\n{}",
        changed.len(),
        changed.iter().take(60).cloned().collect::<Vec<_>>().join("\n"),
    );
}

/// A trace of 200 pages in three rounds.
fn trace(dir: &Dir) -> String {
    dir.write("sweep.lackey", sweep(200, 3))
}

#[test]
fn what_was_run_is_not_run_again() {
    let dir = Dir::new();
    let (file, cache) = (trace(&dir), dir.path("cache"));
    let again = || farreach(["papers", "t94-table1", "--workload", &file, "--cache", &cache, "--json"]);
    let first = again();
    assert_eq!(first.status, 0, "{}", first.err);
    assert!(first.err.contains("5 runs of machines in 1 pass,"), "{}", first.err);
    assert_eq!(first.json()["schema"], "farreach.papers/1");
    let second = again().good();
    assert_eq!(first.out, second.out);

    // A result that is lost or damaged is computed again, and no other.
    let mut files: Vec<_> = std::fs::read_dir(&cache).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 5);
    std::fs::write(&files[0], "{").unwrap();
    std::fs::remove_file(&files[1]).unwrap();
    let text = std::fs::read_to_string(&files[2]).unwrap();
    let number = text.find("\"misses\":").unwrap() + 9;
    let digit = if text.as_bytes()[number] == b'1' { "2" } else { "1" };
    std::fs::write(&files[2], format!("{}{digit}{}", &text[..number], &text[number + 1..])).unwrap();
    let (one, other) = (std::fs::read(&files[3]).unwrap(), std::fs::read(&files[4]).unwrap());
    std::fs::write(&files[3], other).unwrap();
    std::fs::write(&files[4], one).unwrap();
    let third = again();
    assert!(third.err.contains("5 runs of machines in 1 pass,"), "{}", third.err);
    assert_eq!(first.out, third.out);
    let said = |file: &std::path::Path, why: &str| {
        third.err.contains(&format!("{}: not used, because {why}; the result is computed again", file.display()))
    };
    assert!(said(&files[0], "it is no file that farreach kept so"), "{}", third.err);
    assert!(said(&files[2], "its checksum is another than when it was kept"), "{}", third.err);
    assert!(files[3..].iter().all(|file| said(file, "it was kept under another key")), "{}", third.err);
    assert!(!again().err.contains("not used"));

    // Other contents, limit or seed: other results.
    dir.write("sweep.lackey", sweep(201, 3));
    assert!(again().err.contains("5 runs of machines"));
    for option in [["--limit", "100"], ["--seed", "1"]] {
        let other =
            farreach(["papers", "t94-table1", "--workload", &file, "--cache", &cache].into_iter().chain(option));
        assert!(other.err.contains("5 runs of machines"), "{option:?}: {}", other.err);
    }
}

#[test]
fn any_number_of_threads_finds_the_same() {
    let dir = Dir::new();
    let file = trace(&dir);
    let with = |threads: &str| {
        let cache = dir.path(&format!("cache-{threads}"));
        farreach(["papers", "t94-table6", "ps-dtlb", "-w", &file, "--cache", &cache, "--threads", threads, "--csv"]).out
    };
    let one = with("1");
    assert!(one.lines().count() > 20 && one == with("3"));
}

#[test]
fn an_interrupted_run_goes_on_where_it_stopped() {
    let dir = Dir::new();
    let (file, cache) = (trace(&dir), dir.path("cache"));
    // The kernel alone takes many times as long as the time limit.
    let mut run = command();
    run.args(["papers", "t94-table1", "-w", &file, "-w", "logic", "--cache", &cache, "--threads", "2"]);
    let mut child = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let stored = || {
        std::fs::read_dir(&cache)
            .map_or(0, |d| d.filter(|f| f.as_ref().unwrap().path().extension().is_some_and(|e| e == "json")).count())
    };
    while stored() < 5 {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::sleep(Duration::from_millis(20));
    }
    farreach_live::send(child.id(), libc::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let names = std::fs::read_dir(&cache).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap());
    assert_eq!(
        names.filter(|name| !name.ends_with(".json")).collect::<Vec<_>>(),
        Vec::<String>::new(),
        "nothing unfinished is left"
    );
    farreach(["papers", "t94-table1", "-w", &file, "--cache", &cache]).good();
}

#[test]
fn a_page_is_complete_in_itself() {
    let dir = Dir::new();
    let (file, page) = (trace(&dir), dir.path("papers.html"));
    let ran =
        farreach(["papers", "t94-table9", "t94-fig2", "-w", &file, "--cache", &dir.path("cache"), "--html", &page]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let html = dir.read("papers.html");
    for words in ["Content-Security-Policy", "<svg", "H-T94-13", "id=\"t94-table9\"", "partial f=4"] {
        assert!(html.contains(words), "{words}");
    }
    for words in ["<script", "src=", "http://", "https://", "url("] {
        assert!(!html.contains(words), "{words}");
    }
    // The page is written, whichever form is printed.
    for form in ["--markdown", "--csv"] {
        std::fs::remove_file(&page).unwrap();
        let args =
            ["papers", "t94-table9", "t94-fig2", "-w", &file, "--cache", &dir.path("cache"), form, "--html", &page];
        let ran = farreach(args);
        assert_eq!((ran.status, ran.out.is_empty()), (0, false), "{form}: {}", ran.err);
        assert!(dir.read("papers.html") == html, "{form}");
    }
}

#[test]
fn bad_input_is_refused_with_what_there_is() {
    let dir = Dir::new();
    let cache = dir.path("cache");
    farreach(["papers", "t94-table11", "--cache", &cache]).bad(1, &["t94-table11", "t94-table10", "ps-itlb"]);
    farreach(["papers", "t94-table6", "-w", "no-such", "--cache", &cache])
        .bad(1, &["no-such", "`farreach workloads` lists"]);
    let file = trace(&dir);
    farreach(["papers", "t94-table6", "-w", &file, "-w", &file, "--cache", &cache]).bad(1, &["twice"]);
    farreach(["papers", "--all", "t94-table6"]).bad(2, &["--all"]);
    farreach(["papers", "t94-table6", "--markdown", "--csv"]).bad(2, &["--markdown"]);
    let page = dir.path("no/such/folder.html");
    farreach(["papers", "t94-table6", "-w", &file, "--cache", &cache, "--html", &page])
        .bad(1, &["no/such/folder.html"]);
    let list = farreach(["papers"]).good();
    assert!(list.out.contains("t94-table6") && list.out.contains("--all"), "{}", list.out);
}

/// Options say how to measure; without a study there is nothing to measure.
#[test]
fn options_need_a_study() {
    for options in ["--small", "--limit 5", "--workload gups", "--markdown"] {
        crate::cli::line(&format!("papers {options}")).bad(2, &["--all"]);
    }
}

/// A server by its traps: refused where it makes no sense, with the reason.
#[test]
fn traps_are_for_servers_and_studies_that_need_no_lookups() {
    crate::cli::line("papers t94-table6 --trap").bad(1, &["t94-table6: --trap cannot measure it", "rmm15-fig7"]);
    crate::cli::line("papers ds13-table4 ds13-fig1 --trap").bad(1, &["ds13-fig1: ", "memory over time"]);
    crate::cli::line("papers --all --trap -w redis").bad(1, &["t94-table1: "]);
    for options in ["--trap --small", "--trap --on local", "--trap --plan 2"] {
        crate::cli::line(&format!("papers ds13-table4 {options}")).bad(2, &["--trap", "cannot be used with"]);
    }
    crate::cli::line("papers ds13-table4 --size 1G").bad(2, &["--trap"]);
    crate::cli::line("papers ds13-table4 --trap --size much").bad(2, &["much"]);
    if traps_work() {
        let dir = Dir::new();
        farreach(["papers", "ds13-table4", "-w", "gups", "--trap", "--cache", &dir.path("cache")])
            .bad(1, &["no program of --workload is a server", "redis"]);
    }
}

/// The server of the catalogue is another one here, which is found first: the whole way in seconds.
#[test]
fn a_server_is_timed_then_observed_by_its_traps_and_its_numbers_kept() {
    use std::os::unix::fs::PermissionsExt;
    if !traps_work() {
        return;
    }
    let dir = Dir::new();
    let script = |name: &str, text: &str| {
        let file = dir.write(&format!("bin-{name}"), format!("#!/bin/bash\n{text}\n"));
        std::fs::create_dir_all(dir.path("bin")).unwrap();
        std::fs::rename(&file, dir.path(&format!("bin/{name}"))).unwrap();
        std::fs::set_permissions(dir.path(&format!("bin/{name}")), PermissionsExt::from_mode(0o755)).unwrap();
    };
    // Its time is counted in hundredths of a second.
    let server = "import socket, sys\n\
                  listener = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n\
                  while True:\n    connection = listener.accept()[0]\n    sum(range(1000000))\n    \
                  connection.sendall(b'1\\n')\n    connection.close()\n";
    script("redis-server", &format!("exec python3 {} \"$4\"", dir.write("server.py", server)));
    script("redis-benchmark", "for i in {1..40}; do read -r n < /dev/tcp/127.0.0.1/$2 || exit 4; done");
    script("dpkg-query", "echo installed redis-server; echo installed redis-tools");
    let path = format!("{}:{}", dir.path("bin"), std::env::var("PATH").unwrap());
    let ran = |size: &str| {
        let mut papers = command();
        papers.args(["papers", "ds13-table3", "ds13-table5", "-w", "redis", "--trap", "--size", size, "--json"]);
        papers.args(["--cache", &dir.path("cache")]).env("PATH", &path).env("XDG_CACHE_HOME", dir.path("inputs"));
        Ran::of(papers.output().unwrap())
    };
    let first = ran("1M");
    assert_eq!(first.status, 0, "{}", first.err);
    for words in ["redis: filled to 1 MiB and timed without traps", "s of user time", "with 3 machines", "traps: "] {
        assert!(first.err.contains(words), "{words}: {}", first.err);
    }
    let papers = first.json();
    let tables = &papers["sections"];
    let share = tables[0]["tables"][0]["rows"][0]["cells"][0].as_f64().unwrap();
    assert!((1.0..100.0).contains(&share), "{share}");
    let misses = tables[1]["tables"][0]["rows"][0]["cells"][0].as_u64().unwrap();
    assert!(misses > 40, "{misses}");
    assert_eq!(tables[1]["tables"][0]["rows"][0]["name"], "redis*");
    let command = &tables[1]["tables"][0]["rows"][0]["command"];
    assert_eq!(command, "farreach papers ds13-table5 -w redis --trap --size 1M");
    let notes = tables[1]["notes"].to_string();
    assert!(notes.contains("redis*: in its steady state, ") && notes.contains("replace by used bits"), "{notes}");
    let again = ran("1M");
    assert_eq!((again.out, again.err.as_str()), (first.out, ""), "nothing is run twice");
}
