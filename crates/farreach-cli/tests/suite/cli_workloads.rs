//! The catalogue of workloads: listed, shown, prepared, run, turned into traces.

use crate::cli::{Dir, Ran, command, each, farreach, line};

/// With a cache directory of its own.
fn cached(dir: &Dir, words: &str) -> Ran {
    Ran::of(command().args(words.split_whitespace()).env("XDG_CACHE_HOME", dir.path("cache")).output().unwrap())
}

#[test]
fn the_catalogue_is_listed() {
    let table = line("workloads").good().out;
    let row = |name: &str| {
        table.lines().find(|l| l.split_whitespace().next() == Some(name)).unwrap_or_else(|| panic!("{name}"))
    };
    assert!(row("kernel/gups").contains("GUPS") && row("kernel/gups").contains("built in"), "{table}");
    assert!(
        row("ngspice").contains("spice")
            && (row("ngspice").contains("installed") || row("ngspice").contains("missing"))
    );
    // Columns stand below their headings.
    let (head, at) = (table.lines().next().unwrap(), |text: &str, word: &str| text.find(word).unwrap());
    assert_eq!(at(head, "stands for"), at(row("kernel/gups"), "GUPS"));
    let json = line("workloads --json").good().json();
    assert_eq!(json["schema"], "farreach.workloads/1");
    let rows = json["workloads"].as_array().unwrap();
    assert!(rows.len() > 40);
    let gups = rows.iter().find(|w| w["name"] == "kernel/gups").unwrap();
    assert_eq!((gups["type"].as_str(), gups["footprint"].as_u64()), (Some("kernel"), Some(64 << 20)));
    let one = line("workloads --json gzip").good().json();
    assert_eq!(one["workloads"][0]["command"][0], "gzip");
}

#[test]
fn one_workload_is_shown() {
    let text = line("workloads kernel/compiler").good().out;
    assert!(text.contains("stands for  gcc") && text.contains("350 pages"), "{text}");
    let text = line("workloads mummer").good().out;
    assert!(text.contains("made by dna, 4 MiB, seed 1") && text.contains("mummer -maxmatch"), "{text}");
    let text = line("workloads redis").good().out;
    assert!(
        text.contains("command     redis-server") && text.contains("load        redis-benchmark -p {port}"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_is_refused() {
    line("workloads nosuch").bad(1, &["no workload 'nosuch'; `farreach workloads` lists"]);
    line("workloads kernel/gusp")
        .bad(1, &["no workload 'kernel/gusp'; did you mean 'gups'? `farreach workloads` lists"]);
    line("sim workload:ngspcie").bad(1, &["no workload 'ngspcie'; did you mean 'ngspice'?"]);
    line("workloads gups --trace").bad(2, &["--output"]);
    line("workloads --prepare").bad(2, &["NAME"]);
    line("workloads gups --run --trace -o x").bad(2, &["cannot be used with"]);
    line("workloads gups --native --size 1K").bad(1, &["gups", "size = 1K", "64K to 16G"]);
    line("workloads gzip --native").bad(1, &["gzip is a program"]);
    line("sim workload:gups:size=1K").bad(1, &["gups", "size = 1K"]);
    line("sim workload:gups:pages=1").bad(1, &["'pages'", "size, references, seed"]);
    line("sim workload:gzip").bad(1, &["farreach workloads gzip --trace"]);
    let dir = Dir::new();
    cached(&dir, "workloads gzip --prepare --references 3").bad(1, &["references"]);
    // The cache needs a directory.
    let mut homeless = command();
    homeless.args(["workloads", "gzip", "--prepare"]).env_remove("HOME").env_remove("XDG_CACHE_HOME");
    Ran::of(homeless.output().unwrap()).bad(1, &["XDG_CACHE_HOME"]);
}

#[test]
fn a_kernel_becomes_a_trace_that_is_sound() {
    let dir = Dir::new();
    let trace = dir.path("cells.frt");
    let made =
        farreach(["workloads", "kernel/cells", "--trace", "-o", &trace, "--size", "1M", "--references", "300000"]);
    assert_eq!((made.status, made.out.as_str()), (0, ""), "{}", made.err);
    assert!(made.err.contains("cells.frt") && made.err.contains("references"), "{}", made.err);
    assert!(farreach(["trace", "check", &trace]).good().out.contains("sound"));
    let info = farreach(["trace", "info", &trace]).good().out;
    assert!(info.contains("kernel/cells") && info.contains("references = 300000"), "{info}");
    // The stored stream and the generated one are the same workload.
    let stored = farreach(["sim", &trace, "--json"]).good().json();
    let live = line("sim workload:cells:size=1M,references=300000 --json").good().json();
    assert_eq!(each(&stored, "misses"), each(&live, "misses"));
    assert_eq!(live["workload"]["source"], "workload:cells:size=1M,references=300000");
    assert_eq!(dir.names(), ["cells.frt"]);
    // A limit ends it early.
    let short = dir.path("short.frt");
    farreach(["workloads", "cells", "--trace", "-o", &short, "--limit", "50000"]);
    let instructions =
        farreach(["trace", "info", "--json", &short]).good().json()["totals"]["instructions"].as_u64().unwrap();
    assert!((50_000..200_000).contains(&instructions), "{instructions}");
}

#[test]
fn a_kernel_runs_as_a_program() {
    let sum = line("workloads kernel/lzw --native --size 1M --references 200000 --seed 3").good().out;
    assert_eq!(sum.trim().len(), 16, "{sum}");
    assert_eq!(sum, line("workloads lzw --native --size 1M --work 200000 --seed 3").good().out);
    assert_ne!(sum, line("workloads lzw --native --size 1M --work 200000 --seed 4").good().out);
    let dir = Dir::new();
    let ran = cached(&dir, "workloads lzw --run --size 1M --references 200000").good().out;
    assert!(ran.starts_with("lzw: ") && ran.contains("user seconds") && ran.contains("MiB peak"), "{ran}");
}

/// gzip is installed on every Debian, so only inputs are needed.
#[test]
fn inputs_are_made_once_and_whole() {
    let dir = Dir::new();
    let ready = cached(&dir, "workloads gzip --prepare --size 100K --seed 7");
    if ready.err.contains("apt-get install gzip") {
        return; // No Debian: the message above is the expected result.
    }
    let ready = ready.good().out;
    let input = ready.split_whitespace().last().unwrap();
    assert!(input.ends_with("text-1-100K-7/text"), "{ready}");
    let text = std::fs::read(input).unwrap();
    assert_eq!(text.len(), 100 << 10);
    let written = std::fs::metadata(input).unwrap().modified().unwrap();
    assert_eq!(cached(&dir, "workloads gzip --prepare --size 100K --seed 7").good().out, ready);
    assert_eq!(std::fs::metadata(input).unwrap().modified().unwrap(), written, "it is not made again");
    let ran = cached(&dir, "workloads gzip --run --size 100K --seed 7").good().out;
    assert!(ran.starts_with("gzip: "), "{ran}");
    let made = std::path::PathBuf::from(dir.path("cache/farreach/workloads")).join("work");
    let packed = std::fs::metadata(made.join("gzip/stdout")).unwrap().len();
    assert!((1000..text.len() as u64 / 2).contains(&packed), "{packed}");
    let missing = cached(&dir, "workloads gnugo --prepare");
    assert!(missing.status == 0 || missing.err.contains("apt-get install gnugo"), "{}", missing.err);
}

#[test]
fn kernels_on_pages_of_several_sizes() {
    line("workloads gups --native --pages 8k").bad(2, &["8k", "4k, 2m"]);
    line("workloads gups --pages 2m").bad(2, &["--native"]);
    line("workloads gups --native --pages 4k").bad(1, &["nothing to compare"]);
    // With huge pages, a run must be long enough for its time to be meaningful.
    let ran = line("workloads gups --native --pages 2m --rounds 1 --size 64K --references 1000");
    assert_eq!(ran.status, 1);
    assert!(["too few to measure", "nothing to compare"].iter().any(|words| ran.err.contains(words)), "{}", ran.err);
}

/// The measurement begins when the input is ready: making the graph takes many times as long as this short search.
#[test]
fn a_kernel_is_measured_from_its_beginning() {
    let settings = "--size 8M --references 300000 --seed 2";
    let run = line(&format!("workloads bfs --native --pages 4k --once {settings}")).good().json();
    let number = |name: &str| run[name].as_f64().unwrap_or_else(|| panic!("{name} in {run}"));
    assert!(number("setup") > 2.0 * number("seconds"), "{run}");
    assert!((300_000.0..400_000.0).contains(&number("references")), "{run}");
    assert!((4..16).contains(&(run["bytes"].as_u64().unwrap() >> 20)) && number("held") == 0.0, "{run}");
    let sum = line(&format!("workloads bfs --native {settings}")).good().out;
    assert_eq!(format!("{:016x}\n", run["checksum"].as_u64().unwrap()), sum);
    line("workloads bfs --native --pages 4k,2m --once").bad(1, &["--once", "one size"]);
    line("workloads bfs --native --once").bad(2, &["--pages"]);
    line("workloads bfs --native --pages 4k --once --rounds 2").bad(2, &["--rounds"]);
}
