//! Does `sim` count the references of a trace, and report errors in a bad one?

use crate::cli::{DEFAULTS, Dir, Ran, command, each, farreach, fed, line, sweep};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

fn sim(text: &str, more: &[&str]) -> Ran {
    fed(["sim", "-", "--json"].iter().chain(more), text.as_bytes())
}

/// 256 pages, three times. 64 entries for single pages, of which none is used again before it is replaced: every lookup
/// misses. The 16 superpages or blocks of 16 pages fit: every page misses once, when it is first touched; the load of
/// the 16th page of a group makes the superpage. 256 entries in 64 sets of 4 ways: each set gets exactly 4 pages.
#[test]
fn a_sweep_over_256_pages_by_hand() {
    let result = sim(&sweep(256, 3), &[]).good().json();
    let names: Vec<_> = result["machines"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    assert_eq!(names, DEFAULTS);
    assert_eq!(each(&result, "lookups"), [768; 5]);
    assert_eq!(each(&result, "misses"), [768, 256, 256, 256, 256]);
    assert_eq!(each(&result, "page_faults"), [256; 5]);
    assert_eq!(each(&result, "promotions"), [0, 16, 0, 0, 0]);
    // Of 16 misses in a block, the first finds no tag, the others find the tag but not the page.
    assert_eq!(each(&result, "tag_misses"), [768, 256, 16, 16, 256]);
    assert_eq!(each(&result, "subblock_misses"), [0, 0, 240, 240, 0]);
    assert_eq!(each(&result, "evictions"), [704, 0, 0, 0, 0]);
    for m in result["machines"].as_array().unwrap() {
        assert_eq!(
            (m["memory"]["resident_bytes"].as_u64(), m["memory"]["mapped_bytes"].as_u64()),
            (Some(1 << 20), Some(1 << 20))
        );
        assert_eq!(m["cost"]["cycles"], 40 * m["counts"]["misses"].as_u64().unwrap());
    }
    assert_eq!(result["workload"]["touched_bytes"], 1 << 20);
    assert_eq!(result["workload"]["instructions"], 0);
}

/// 4 entries.
#[test]
fn replacement_by_hand() {
    let text = |pages: &[u64]| pages.iter().map(|p| format!(" S {:x},1\n", p << 12)).collect::<String>();
    let policies = ["lru", "fifo", "used-bit"].map(|p| format!("t94/single:entries=4,replacement={p}"));
    let machines: Vec<&str> = policies.iter().flat_map(|m| ["--machine", m]).collect();
    let misses = |pages: &[u64]| each(&sim(&text(pages), &machines).good().json(), "misses");
    // The page needed next was always replaced before.
    assert_eq!(misses(&[0, 1, 2, 3, 4].repeat(10))[..2], [50, 50]);
    assert_eq!(misses(&[0, 1, 2, 3].repeat(10)), [4, 4, 4]);
    // 0 is used again before 4 comes: LRU keeps it and evicts 1, FIFO evicts 0.
    assert_eq!(misses(&[0, 1, 2, 3, 0, 4, 0])[..2], [5, 6]);
    assert_eq!(misses(&[0, 1, 2, 3, 0, 4, 1])[..2], [6, 5]);
}

#[test]
fn a_modify_is_a_load_and_a_store_and_a_crossing_is_two_lookups() {
    let result = sim("I  00001ffe,4\n M 00003ffc,8\n L 00005000,8\n", &[]).good().json();
    let w = &result["workload"];
    let of = |what: &str| ["fetch", "load", "store"].map(|kind| w[what][kind].as_u64().unwrap());
    assert_eq!(of("references"), [1, 2, 1]);
    assert_eq!(of("lookups"), [2, 3, 2]);
    assert_eq!((w["instructions"].as_u64(), w["touched_bytes"].as_u64()), (Some(1), Some(5 * 4096)));
    // Pages 1, 2 (fetch), 3, 4 (modify: the store hits), 5.
    assert_eq!(each(&result, "misses"), [5; 5]);
    assert_eq!((each(&result, "fetch_misses"), each(&result, "data_misses")), (vec![2; 5], vec![3; 5]));
    assert_eq!((each(&result, "load_misses"), each(&result, "store_misses")), (vec![3; 5], vec![0; 5]));
}

#[test]
fn a_limit_is_exact() {
    let text: String =
        (0..50).map(|i| format!("I  {:x},4\n L {:x},8\n S {:x},4\n", 4096 + 4 * i, 1 << 20, 1 << 21)).collect();
    for n in [1, 2, 15, 16, 17, 33, 49] {
        let w = sim(&text, &["--limit", &n.to_string()]).good().json()["workload"].clone();
        assert_eq!(
            (w["instructions"].as_u64(), w["stopped"].as_str()),
            (Some(n), Some(format!("--limit {n}").as_str()))
        );
    }
    // Without fetches, references count; those before the first fetch are no instruction.
    let w = sim(&sweep(10, 10), &["--limit", "37"]).good().json()["workload"].clone();
    assert_eq!((w["lookups"]["load"].as_u64(), w["instructions"].as_u64()), (Some(37), Some(0)));
    let w = sim(&format!("{}{text}", sweep(5, 1)), &["--limit", "7"]).good().json()["workload"].clone();
    assert_eq!(w["instructions"], 7);
    assert_eq!(sim(&text, &["--limit", "1000"]).good().json()["workload"]["stopped"], serde_json::Value::Null);
    sim(&text, &["--limit", "0"]).bad(2, &["--limit", "0", "from 1 to"]);
}

#[test]
fn compressed_files_are_found_by_content() {
    let dir = Dir::new();
    let text = sweep(300, 20);
    let plain = dir.write("plain", &text);
    let want = farreach(["sim", &plain, "--csv"]).good().out;
    for (tool, name) in [("gzip", "a"), ("xz", "b"), ("zstd", "c"), ("bzip2", "d")] {
        let Ok(packed) =
            Command::new(tool).arg("-c").stdin(std::fs::File::open(&plain).unwrap()).stderr(Stdio::null()).output()
        else {
            eprintln!("skipped: {tool} is not installed");
            continue;
        };
        let file = dir.write(name, &packed.stdout);
        assert_eq!(farreach(["sim", &file, "--csv"]).good().out.replace(&file, &plain), want, "{tool}");
        let cut = dir.write(&format!("{name}-cut"), &packed.stdout[..packed.stdout.len() * 2 / 3]);
        farreach(["sim", &cut, "--csv"]).bad(1, &[&cut, "cut"]);
        let again = fed(["sim", "-", "--csv"], &packed.stdout).good().out;
        assert_eq!(again.replace("standard input", "-").lines().count(), want.lines().count());
    }
}

/// Records of twelve bytes: type, size, value.
fn records(records: &[(u16, u16, u64)]) -> Vec<u8> {
    let bytes = |&(ty, size, value): &(u16, u16, u64)| {
        [&ty.to_le_bytes()[..], &size.to_le_bytes(), &value.to_le_bytes()].concat()
    };
    records.iter().flat_map(bytes).collect()
}

/// Two threads take turns by their timestamps, each time a load of a page of its own; two entries hold the pages of
/// both.
#[test]
fn a_folder_is_a_trace_with_a_file_for_each_thread() {
    let dir = Dir::new();
    let thread = |tid: u64, first: u64| {
        let begin = [(25, 0, 7), (28, 12, 7), (28, 9, 0x40), (22, 4, tid), (24, 4, 1)];
        let turns = (0..10).flat_map(|i| [(28, 2, first + 2 * i), (0, 8, tid << 12)]);
        records(&begin.into_iter().chain(turns).chain([(23, 4, tid), (26, 0, 0)]).collect::<Vec<_>>())
    };
    std::fs::create_dir(dir.path("trace")).unwrap();
    dir.write("trace/a.trace", thread(5, 100));
    dir.write("trace/b.trace", thread(6, 101));
    let machines = ["--machine", "t94/single:entries=1", "--machine", "t94/single:entries=2", "--json"];
    let run = |file: &str| farreach(["sim", file].iter().chain(&machines)).good().json();
    let folder = run(&dir.path("trace"));
    assert_eq!(each(&folder, "misses"), [20, 2]);
    assert_eq!(folder["workload"]["threads"], 2);
    assert_eq!(farreach(["trace", "convert", &dir.path("trace"), "-o", &dir.path("both.frt")]).status, 0);
    let text = farreach(["trace", "info", &dir.path("trace")]).good().out;
    assert!(text.contains("20 references") && text.contains("drmemtrace") && text.contains("19 switch"), "{text}");
    let stored = run(&dir.path("both.frt"));
    assert_eq!(stored["machines"], folder["machines"]);
    let one = farreach(["pagesize", &dir.path("trace/a.trace"), "--no-policies", "--csv"]).good().out;
    assert!(one.lines().count() > 10, "{one}");
    dir.write("trace/b.trace", &thread(6, 101)[..120]);
    farreach(["sim", &dir.path("trace")]).bad(1, &["trace/b.trace: byte 120", "cut"]);
}

/// A trace is read ahead of the machines, by how much depends on the threads: damage behind the limit does not count.
/// What is before it can be recovered.
#[test]
fn damage_behind_the_limit_is_no_error() {
    let dir = Dir::new();
    let record = |pc: u64| [pc.to_le_bytes().to_vec(), vec![0; 56]].concat();
    let mut records: Vec<u8> = (0..50_000).flat_map(|i| record(0x1000 + 4 * (i % 999))).collect();
    records.extend([0; 10]);
    let file = dir.write("t.champsimtrace", &records);
    for threads in ["0", "1", "3"] {
        let within = |limit: &str| farreach(["sim", &file, "--limit", limit, "--threads", threads, "--json"]);
        assert_eq!(within("49K").good().json()["workload"]["instructions"], 49_000);
        within("51K").bad(1, &["record 50000", "10 of 64 bytes"]);
    }
    farreach(["pagesize", &file, "--limit", "49K", "--no-policies"]).good();
    farreach(["pagesize", &file]).bad(1, &["record 50000"]);
    let recovered = dir.path("t.frt");
    let said = farreach(["trace", "convert", "--recover", &file, "-o", &recovered]);
    let words = ["50000 instructions", "record 50000"];
    assert!(said.status == 0 && words.iter().all(|word| said.err.contains(word)), "{}", said.err);
    let nothing = dir.write("n.champsimtrace", &records[..60]);
    let nothing = ["trace", "convert", "--recover", &nothing, "--format", "champsim", "-o", &recovered];
    farreach(nothing).bad(1, &["n.champsimtrace", "nothing of the original"]);
}

#[test]
fn what_is_no_trace_is_refused() {
    let dir = Dir::new();
    let file = |bytes: &[u8]| dir.write("x", bytes);
    // What it may be is said.
    let changed: Vec<u8> =
        (0..100).flat_map(|i| (0x40_0000_u64 + 4 * i).to_le_bytes().into_iter().chain([0; 80])).collect();
    farreach(["sim", &file(&changed)]).bad(1, &["format is not known", "records of 88 bytes", "changed ChampSim"]);
    let sample = b"ls 123 45.678901: mem-loads:  7f0012345678\n";
    farreach(["sim", &file(sample)]).bad(1, &["like those of perf script", "one number", "--columns address=N"]);
    farreach(["sim", &file(b"load,4096\n")]).bad(1, &["first line is 'load,4096'", "--columns address=1"]);
    farreach(["sim", &file(b"")]).bad(1, &["x", "empty"]);
    farreach(["sim", &file(b"\n\n")]).bad(1, &["x"]);
    farreach(["sim", &file(b"==12== Lackey, an example Valgrind tool\n")]).bad(1, &["x", "no references"]);
    farreach(["sim", &file(&[0; 100_000])]).bad(1, &["x", "format is not known", "frt", "lackey"]);
    farreach(["sim", &file(b"\x89FRT")]).bad(1, &["x"]);
    farreach(["sim", &file(b"\x1f\x8b\x08")]).bad(1, &["x"]);
    farreach(["sim", &file(b"\xfd7zXZ\0garbage garbage garbage")]).bad(1, &["x", "xz"]);
    farreach(["sim", &dir.path("missing")]).bad(1, &["missing: No such file"]);
    file(b" L 1000,4\n");
    farreach(["sim", &dir.path("")]).bad(1, &["x: byte 0", "no drmemtrace trace", "folder"]);
    let formats = "frt, lackey, drmemtrace, pinatrace, dramsim, execlog, perf, gem5, sift, arrow, cvp, champsim, \
                   cloudsuite, parquet, text";
    farreach(["sim", &file(b" L 1000,4\n"), "--format", "champ"]).bad(2, &["champ", formats]);
    farreach(["sim", &file(b" L 1000,4\n"), "--format", "frt"]).bad(1, &["x"]);
    fed(["sim", "-"], b"garbage\n").bad(1, &["standard input", "garbage"]);
    line("sim").bad(2, &["<FILE>"]);
}

/// The lines of the table of formats in the book whose tools are here: what makes a trace, and what reads it.
#[test]
fn the_lines_of_the_table_of_formats_work() {
    let dir = Dir::new();
    let shell = |line: &str| {
        let farreach = env!("CARGO_BIN_EXE_farreach");
        let line = line.replace("farreach ", &format!("{farreach} "));
        let done = Command::new("bash").args(["-euo", "pipefail", "-c", &line]).current_dir(dir.path("")).output();
        let done = done.expect("bash runs");
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let instructions = |text: &str| {
        let from = text.find("references (").expect(text) + "references (".len();
        text[from..].split(' ').next().expect("a number").parse::<u64>().expect("a number")
    };
    if Command::new("valgrind").arg("--version").output().is_ok() {
        shell("valgrind --tool=lackey --trace-mem=yes --log-file=ls.txt true");
        let whole = instructions(&shell("farreach trace check ls.txt"));
        assert!(whole > 50_000, "{whole}");
        let lackey = "valgrind --tool=lackey --trace-mem=yes --log-fd=9 true 9>&1 >/dev/null";
        shell(&format!("{lackey} | farreach trace convert - -o t.frt"));
        assert!(instructions(&shell("farreach trace check t.frt")).abs_diff(whole) < whole / 10);
        shell("farreach sim ls.txt -m t94/single");
    } else {
        eprintln!("left out: valgrind is not installed");
        shell("farreach record -o t.frt -- true");
    }
    let whole = instructions(&shell("farreach trace check t.frt"));
    for (tool, name) in [
        ("lackey", "l.txt"),
        ("drmemtrace", "d.trace"),
        ("gem5", "g.trc.gz"),
        ("champsim", "c.champsimtrace.xz"),
        ("cloudsuite", "c.cloudsuite.xz"),
        ("parquet", "p.parquet"),
    ] {
        let said = shell(&format!("farreach trace convert --to {tool} t.frt -o {name} 2>&1"));
        let more = if tool == "gem5" { "--addresses virtual" } else { "" };
        let read = instructions(&shell(&format!("farreach trace check {name} {more}")));
        // An instruction with more references than a record of ChampSim holds, or in another order, has several.
        let further = said.split_once(" further record").map_or(0, |(before, _)| {
            let number = before.rsplit(' ').next().expect("a number").replace(',', "");
            number.parse::<u64>().expect("a number")
        });
        assert_eq!(read, whole + further, "{tool}: {said}");
    }
    shell("farreach sim p.parquet --columns address=address,kind=kind -m t94/single");
    let perf = "perf record -q -e page-faults/name=faults-as-loads/u -c 1 -d -o p ls";
    if Command::new("bash")
        .args(["-c", perf])
        .current_dir(dir.path(""))
        .output()
        .is_ok_and(|done| done.status.success())
    {
        shell("perf script -i p -G -F comm,pid,tid,time,event,addr,ip >p.txt");
        let addresses = shell("perf script -i p -G -F addr");
        let pages: BTreeSet<&str> = addresses.lines().map(|line| &line.trim()[..line.trim().len() - 3]).collect();
        let said = shell("farreach trace info p.txt");
        let all = format!("{} references (0 instructions, {0} loads, 0 stores)", addresses.lines().count());
        let touched = format!("{} pages of 4K", pages.len());
        assert!(pages.len() > 20 && said.contains(&all) && said.contains(&touched), "{all}, {touched}: {said}");
    } else {
        eprintln!("left out: perf is not installed, or may not sample page faults here");
    }
}

/// The options that say how a text is read are those of every command.
#[test]
fn a_text_with_columns_is_the_same_to_all_commands() {
    let dir = Dir::new();
    let (text, stored) = (dir.path("t.csv"), dir.path("t.frt"));
    std::fs::write(&text, "op;address\nrd;10\nwr;ff000\nrd;10fff\n").unwrap();
    let how = ["--columns", "address=2,kind=1", "--kinds", "load=rd,store=wr", "--base", "16", "--separator", ";"];
    let run = |words: &[&str], behind: &[&str]| {
        farreach(words.iter().chain(&[&text[..]]).chain(&how).chain(&["--header", "1"]).chain(behind))
    };
    let sim = |ran: Ran| ran.good().json()["workload"]["references"].clone();
    let expected = serde_json::json!({ "fetch": 0, "load": 2, "store": 1 });
    assert_eq!(sim(run(&["sim", "--json"], &[])), expected);
    assert_eq!(sim(run(&["pagesize", "--json", "--no-policies"], &[])), expected);
    let totals = run(&["trace", "info", "--json"], &[]).good().json()["totals"].clone();
    assert_eq!((&totals["loads"], &totals["stores"]), (&2.into(), &1.into()));
    assert!(run(&["trace", "check"], &[]).good().out.contains("2 loads, 1 store"));
    assert_eq!(run(&["trace", "convert"], &["-o", &stored]).status, 0);
    assert_eq!(sim(farreach(["sim", "--json", &stored])), expected);
    run(&["sim"], &["--format", "lackey"]).bad(1, &["--columns is about --format text"]);
    farreach(["sim", &text, "--columns", "address=2"]).bad(1, &["t.csv: line 1, column 2"]);
    let samples = dir.path("samples");
    std::fs::write(&samples, "mem-loads:     7ffe6e453de8     7f22155be545\n").unwrap();
    assert!(farreach(["trace", "info", &samples]).good().out.contains("samples: a few of a program"));
    for command in ["sim", "pagesize", "advise"] {
        farreach([command, &samples]).bad(1, &["these are samples"]);
    }
}

#[test]
fn bad_lines_are_shown_with_number_and_what_is_allowed() {
    let first = sweep(40, 1);
    let bad = |text: &str, words: &[&str]| {
        let ran = sim(&format!("{first}{text}"), &[]);
        ran.bad(1, &[&["standard input: line 41"], words].concat());
    };
    bad(" L ffffffffffffffff,1\n", &["ffffffffffffffff,1", "below 2^64-1"]);
    bad(" L fffffffffffffffe,4\n", &["fffffffffffffffe,4", "below 2^64-1"]);
    bad(" L 1000,0\n", &["size is 0", "1 to"]);
    bad(" L 1000,99999999999999999999\n", &["99999999999999999999", "1 to"]);
    bad("I  1000,65\n", &["size is 65", "1 to 64"]);
    bad(" L 10000000000000000,1\n", &["16 digits"]);
    bad(" L 0x1000,1\n", &["0x1000", "hexadecimal without 0x"]);
    bad(" L 1000\n", &["ADDRESS,SIZE"]);
    bad(" L ,4\n", &["ADDRESS,SIZE"]);
    bad(" L 1000,-4\n", &["ADDRESS,SIZE"]);
    bad(" X 1000,4\n", &["X 1000,4"]);
    bad(" L 1000,4", &["does not end", "cut"]);
    bad(&format!(" L {}\n", "1".repeat(1 << 20)), &["bytes"]);
    bad("\0\u{1b}[31m\n", &["\\x00"]);
}

#[test]
fn odd_but_allowed() {
    let ends = sim(" L fffffffffffffffe,1\n S fffffffffffff000,8\n L fffffffffffeeffc,8\n L 0,1\n", &[]).good().json();
    // Pages 2^52-1 (twice), 2^52-18 and the next, 0.
    assert_eq!(each(&ends, "misses"), [4; 5]);
    let result =
        sim("==7== Lackey\n\n L ABCDE000,4\n L abcde000,4\n L 00000000abcde000,004\n--7-- x\n", &[]).good().json();
    assert_eq!((each(&result, "lookups"), each(&result, "misses")), (vec![3; 5], vec![1; 5]));
    // A reference over 17 pages.
    let long = sim(" L 1000,65536\n L 1fff,65536\n", &["-m", "t94/single"]).good().json();
    assert_eq!((each(&long, "lookups"), each(&long, "misses")), (vec![16 + 17], vec![17]));
}

/// A trace that is cut, or in which one bit flipped, is refused with the place.
#[test]
fn damaged_traces_name_the_chunk() {
    let dir = Dir::new();
    let text = dir.write("text", sweep(400, 50));
    let whole = dir.path("whole");
    assert_eq!(farreach(["trace", "convert", &text, "-o", &whole]).status, 0);
    assert!(farreach(["trace", "check", &whole]).good().out.contains("sound"));
    let a = farreach(["sim", &text, "--json"]).good().json();
    let b = farreach(["sim", &whole, "--json"]).good().json();
    assert_eq!(a["machines"], b["machines"]);
    let bytes = std::fs::read(&whole).unwrap();
    let cut = dir.write("cut", &bytes[..bytes.len() * 3 / 4]);
    let mut flipped = bytes.clone();
    flipped[bytes.len() * 2 / 3] ^= 0x10;
    let flipped = dir.write("flipped", flipped);
    for (file, word) in [(&cut, "cut"), (&flipped, "checksum")] {
        farreach(["trace", "check", file]).bad(1, &[file, "chunk", word]);
        farreach(["sim", file, "--json"]).bad(1, &[file, "chunk", word]);
    }
    farreach(["trace", "convert", &cut, "-o", &dir.path("new")]).bad(1, &["chunk"]);
    assert_eq!(dir.names(), ["cut", "flipped", "text", "whole"], "no file is left of what failed");
}

/// The machines know an event stream alone; what a user reads names the file.
#[test]
fn a_trace_that_a_machine_refuses_is_named() {
    let dir = Dir::new();
    let (text, pages) = (dir.write("text", sweep(400, 50)), dir.path("pages"));
    assert_eq!(farreach(["trace", "convert", "--pages-only", &text, "-o", &pages]).status, 0);
    for threads in ["1", "2"] {
        let ran = farreach(["sim", &pages, "-m", "sv97/softvm", "--threads", threads]);
        ran.bad(1, &[&pages, "sv97/softvm", "page trace", "--pages-only"]);
    }
}

#[test]
fn memory_that_ends_is_an_error_and_no_result() {
    let dir = Dir::new();
    let file = dir.write("t", sweep(100, 1));
    let html = dir.path("t.html");
    let ran = farreach(["sim", &file, "-m", "t94/single", "-m", "t94/complete:memory=256K", "--json", "--html", &html]);
    ran.bad(1, &["t94/complete:memory=256K", "out of memory at page 0x10040000", "256K"]);
    assert_eq!(dir.names(), ["t"]);
    farreach(["sim", &file, "-m", "t94/complete:memory=400K"]).good();
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let dir = Dir::new();
    let file = dir.write("t", sweep(100, 100));
    let exe = env!("CARGO_BIN_EXE_farreach");
    for what in
        [&format!("sim {file} --json") as &str, "machines", "machines t94/single --keys", "area single", "--help"]
    {
        let script = format!("set -o pipefail; {{ sleep 0.05; {exe} {what}; }} | true");
        let ran = Ran::of(Command::new("bash").args(["-c", &script]).output().unwrap());
        assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{what}");
    }
    // The error cannot be printed either.
    let script = format!(
        "{{ sleep 0.05; {exe} sim /nonexistent; echo $? >&3; }} 3>&1 2>&1 >/dev/null | true; {exe} sim x 2>/dev/full; \
         exit $?"
    );
    assert_eq!(Ran::of(Command::new("bash").args(["-c", &script]).output().unwrap()).status, 1);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let ran = Ran::of(command().args(["sim", &file]).stdout(full).stderr(Stdio::piped()).output().unwrap());
    assert_eq!(ran.status, 1);
    assert!(ran.err.contains("standard output: No space left"), "{}", ran.err);
}

#[test]
fn settings_of_kernels_are_refused_with_what_is_allowed() {
    line("sim workload:gups:size=1").bad(1, &["gups", "size = 1 is not allowed", "from 64K to 16G"]);
    line("sim workload:gups:size=100T").bad(1, &["gups", "size = 100T is not allowed", "from 64K to 16G"]);
    line("sim workload:gups:references=0").bad(1, &["gups", "references must be at least 1"]);
    line("sim workload:gups --format lackey").bad(1, &["workload:gups", "--format"]);
}

/// The writer of the pipe may be idle, or be ended by the same Ctrl-C in the middle of a line.
#[test]
fn an_interrupt_is_heard_while_a_pipe_is_idle() {
    for (written, ends) in [(sweep(256, 100), false), (sweep(256, 100) + " L 00", true), (String::new(), false)] {
        let dir = Dir::new();
        let mut child = (command().args(["sim", "-", "--json", "-o", &dir.path("result.json")]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take();
        pipe.as_mut().unwrap().write_all(written.as_bytes()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(500));
        // SAFETY: plain system call.
        unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
        drop(pipe.take_if(|_| ends));
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!((ran.status, ran.err.as_str()), (130, ""));
        let result: serde_json::Value = serde_json::from_str(&dir.read("result.json")).unwrap();
        assert_eq!(result["workload"]["stopped"], "interrupted");
        drop(pipe);
    }
}

/// Digits, or with a letter as results are printed.
#[test]
fn a_limit_can_be_written_with_a_letter() {
    let text = sweep(256, 10);
    let lookups = |limit: &str| each(&sim(&text, &["--limit", limit, "-m", "t94/single"]).good().json(), "lookups");
    assert_eq!((lookups("1.5K"), lookups("1500"), lookups("1M")), (vec![1500], vec![1500], vec![2560]));
}
