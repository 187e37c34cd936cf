//! `farreach contiguity` on programs whose memory is known.

use crate::cli::{Dir, OfAnother, Ran, command, each, farreach, more_rights, without_privilege};
use farreach_os::dump::Dump;
use std::process::{Command, Stdio};

/// Writes 64 MB of memory in one piece, waits, and ends with a status of its own.
const PROGRAM: &str = "my $x = 'a' x (64 << 20); select undef, undef, undef, 1.5; exit 7";

#[test]
fn rmm15_44_a_command_is_looked_at_and_its_status_passed_on() {
    let ran = farreach(["contiguity", "--every", "0.3", "--json", "--", "perl", "-e", PROGRAM]);
    assert_eq!(ran.status, 7, "{}", ran.err);
    let result = ran.json();
    assert_eq!(result["schema"], "farreach.contiguity/1");
    let peak = &result["peak"];
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    assert!(number(&peak["pages"]) >= 16384, "{peak}");
    // The array is one mapping: 99 % of the memory needs few virtual ranges, and one of them has most of it.
    assert!(number(&peak["virtual_ranges"]["max_pages"]) >= 16384, "{peak}");
    assert!(peak["virtual_ranges"]["largest_percent"].as_f64().unwrap() > 50.0, "{peak}");
    let needs: Vec<u64> = peak["needs"].as_array().unwrap().iter().map(|need| number(&need["entries"])).collect();
    assert_eq!(needs.len(), 5);
    assert_eq!(needs[0], number(&peak["pages"]));
    assert!(needs.iter().all(|&n| n <= needs[0]), "{needs:?}");
    if result["frames_visible"] == true {
        let (ideal, actual) = (number(&peak["virtual_ranges"]["count"]), number(&peak["physical_ranges"]["count"]));
        assert!(ideal <= actual, "{peak}");
        assert_eq!(needs[4], actual);
    } else {
        assert!(peak["physical_ranges"].is_null(), "{peak}");
    }
    let times: Vec<f64> =
        result["samples"].as_array().unwrap().iter().map(|s| s["seconds"].as_f64().unwrap()).collect();
    assert!(times.len() >= 2 && times.is_sorted() && times[0] == 0.0, "{times:?}");
}

#[test]
fn the_mapping_can_be_kept() {
    let dir = Dir::new();
    let file = dir.path("map.txt");
    let ran = farreach(["contiguity", "--dump", &file, "--every", "0.3", "--", "sleep", "1"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.out.contains("virtual (ideal)"), "{}", ran.out);
    let dump = Dump::parse(&dir.read("map.txt")).unwrap();
    assert_eq!(dump.source, "sleep 1");
    let names = |name: &str| dump.areas.iter().filter(|a| a.name.ends_with(name)).count();
    assert!(names("/sleep") > 1 && names("heap") == 1 && names("stack") == 1, "{dump}");
    assert!(dump.areas.iter().map(|a| a.runs.len()).sum::<usize>() > 3, "{dump}");
}

/// A dump of a process gives the placement for its trace: most pages are found, by the mapping they belong to.
#[test]
fn rmm15_44_a_dump_is_the_placement_of_a_trace() {
    let dir = Dir::new();
    let (map, trace) = (dir.path("map"), dir.path("trace.frt"));
    let program = ["perl", "-e", "my $x = 'a' x (4 << 20); select undef, undef, undef, 0.6"];
    let look = ["contiguity", "--dump", &map, "--every", "0.2", "--"];
    let ran = farreach(look.iter().chain(&program));
    assert_eq!(ran.status, 0, "{}", ran.err);
    let ran = farreach(["record", "-o", &trace, "--"].iter().chain(&program));
    assert_eq!(ran.status, 0, "{}", ran.err);
    let sim = |more: &[&str]| {
        farreach(["sim", &trace, "-m", "t94/single", "-m", "rmm15/range:ranges=true", "--json"].iter().chain(more))
    };
    let ran = sim(&["--mapping", &map]);
    if !Dump::parse(&dir.read("map")).unwrap().has_frames() {
        ran.bad(1, &["map", "no frames", "CAP_SYS_ADMIN"]);
        return;
    }
    let result = ran.good().json();
    let (found, missing) = (each(&result, "mapping_pages"), each(&result, "mapping_missing"));
    // Pages that the recorded run touched and that the other run had at the time of the dump.
    assert!(found[0] > 1500 && found[0] > missing[0], "{found:?} found, {missing:?} missing");
    assert_eq!(result["machines"][0]["config"]["placement"], "mapping");
    assert!(each(&result, "misses")[1] > 0);
}

/// A copy of pagemap gives frames by address; with maps beside it by what pages belong to.
#[test]
fn a_copy_of_pagemap_is_the_placement_of_a_trace() {
    let dir = Dir::new();
    let trace = dir.write("t", " L 10000,4\n S 11000,4\n L 13000,4\n L 20000,4\n");
    let entries = |entries: &[u64]| -> Vec<u8> { entries.iter().flat_map(|entry| entry.to_le_bytes()).collect() };
    let present = |pfn: u64| 1 << 63 | pfn;
    let copy = dir.write("p", entries(&[present(7), present(8), 0, present(30)]));
    let run = |file: &str| farreach(["sim", &trace, "-m", "rmm15/range:ranges=true", "--mapping", file, "--json"]);
    let here = format!("{copy}@0x10000");
    let result = run(&here).good().json();
    assert_eq!((each(&result, "mapping_pages"), each(&result, "mapping_missing")), (vec![3], vec![1]));
    let config = &result["machines"][0]["config"];
    assert_eq!((&config["mapping"], &config["mapping_start"]), (&copy.as_str().into(), &"0x10000".into()));
    // Elsewhere, no page of the trace is in it.
    assert_eq!(each(&run(&format!("{copy}@0x90000")).good().json(), "mapping_pages"), [0]);
    run(&copy).bad(1, &["no UTF-8", "a copy of /proc/PID/pagemap needs the address of its first page"]);
    run(&format!("{copy}@0xhere")).bad(1, &["mapping_start = 0xhere is not allowed", "an address"]);
    let hidden = dir.write("hidden", entries(&[1 << 63]));
    run(&format!("{hidden}@0x10000")).bad(1, &["hidden", "byte 0, address 0x10000", "its frame is 0: only root"]);
    // Maps beside it name mappings, and say where nothing is.
    let maps = dir.write("p.maps", "10000-14000 rw-p 0\n");
    run(&here).bad(1, &["maps, line 1", "START-END rwxp OFFSET"]);
    std::fs::write(&maps, "00010000-00014000 rw-p 00000000 00:00 0 \n").unwrap();
    let result = run(&here).good().json();
    assert_eq!(each(&result, "mapping_pages"), [3]);
    assert_eq!(result["machines"][0]["config"]["mapping_maps"], maps.as_str());
    std::fs::write(&maps, "00010000-00011000 rw-p 00000000 00:00 0 \n").unwrap();
    run(&here).bad(1, &["p.maps", "byte 8: the page at 0x11000 is present, and no mapping has it"]);
}

#[test]
fn a_mapping_that_is_no_use_is_refused() {
    let dir = Dir::new();
    let trace = dir.write("t", crate::cli::sweep(3, 1));
    let garbage = dir.write("garbage", "7f00 1 2\n");
    let overlap = dir.write("overlap", "# farreach mapping 2\n# x\nmapping 10 8 rw-p 0 heap\n10 4 7 4K\n12 1 9 4K\n");
    for (file, words) in [
        (garbage.as_str(), &["garbage", "line 1", "7f00 1 2"][..]),
        (&overlap, &["overlap", "line 5", "12 1 9 4K", "ascend"]),
        (&dir.path("missing"), &["missing", "No such file"]),
        ("a,b", &["--mapping a,b", "comma"]),
    ] {
        farreach(["sim", &trace, "--mapping", file]).bad(1, words);
    }
    farreach(["sim", &trace, "-m", "t94/single:placement=thp", "--mapping", &overlap])
        .bad(1, &["'placement' is given twice"]);
    farreach(["sim", &trace, "-m", "ps/8k", "--mapping", &overlap]).bad(1, &["page_size = 8K", "4K"]);
}

/// The text of the page without its markup.
fn text(page: &str) -> String {
    let body = &page[page.find("<body>").unwrap()..];
    let outside = body.split('<').map(|part| part.split_once('>').map_or("", |(_, text)| text));
    outside.collect::<String>().replace('\u{200b}', "").replace('\u{a0}', " ")
}

#[test]
fn rmm15_44_the_page_stands_alone_and_says_what_the_json_says() {
    let dir = Dir::new();
    let html = dir.path("page.html");
    let ran = farreach(["contiguity", "--every", "0.2", "--json", "--html", &html, "--", "perl", "-e", PROGRAM]);
    assert_eq!((ran.status, ran.err.as_str()), (7, format!("farreach: report in {html}\n").as_str()));
    let page = dir.read("page.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    for word in ["http:", "https:", "src=", "@import", "url(", "<link", "<script", "NaN"] {
        assert!(!page.contains(word), "{word} in the page");
    }
    let (result, text) = (ran.json(), text(&page));
    for words in
        ["perl -e", "Ranges that cover the memory", "Sizes of ranges", "2 MB pages", "heap", "Memory over time, MiB"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    // The exact numbers of both halves, or of the one that this user may see.
    let peak = &result["peak"];
    let max_pages = |kind: &str| peak[kind]["max_pages"].as_u64().map(farreach_report::format::grouped);
    let shown = [max_pages("virtual_ranges"), max_pages("physical_ranges")];
    assert!(
        text.contains(&format!("max_pages{}", shown.iter().flatten().cloned().collect::<String>())),
        "{shown:?}: {text}"
    );
    assert_eq!(text.contains("Only the virtual half"), result["frames_visible"] == false);
    for need in peak["needs"].as_array().unwrap() {
        let shown = farreach_report::format::count(need["entries"].as_u64().unwrap());
        assert!(text.contains(&format!("{shown} for all")), "{need}: {text}");
    }
    assert_eq!(dir.names(), ["page.html"]);
}

#[test]
fn without_privilege_the_virtual_half_is_shown() {
    let dir = Dir::new();
    let html = dir.path("page.html");
    let args = ["contiguity", "--every", "0.2", "--json", "--html", &html, "--", "perl", "-e", PROGRAM];
    let ran = Ran::of(without_privilege(command().args(args)).output().unwrap());
    assert_eq!(ran.status, 7, "{}", ran.err);
    let (result, text) = (ran.json(), text(&dir.read("page.html")));
    assert_eq!(result["frames_visible"], false);
    assert!(result["peak"]["physical_ranges"].is_null(), "{}", result["peak"]);
    for words in ["Only the virtual half", "CAP_SYS_ADMIN", "virtual (ideal)", "range TLB", "is not visible"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("physical (actual)"), "{text}");
}

/// A short command is looked at too, without --every.
#[test]
fn looks_come_soon_at_first() {
    let ran = farreach(["contiguity", "--json", "--", "sleep", "0.5"]).good();
    let result = ran.json();
    let times: Vec<f64> =
        result["samples"].as_array().unwrap().iter().map(|s| s["seconds"].as_f64().unwrap()).collect();
    assert!((2..=8).contains(&times.len()), "{times:?}");
}

#[test]
fn what_cannot_be_looked_at_is_said() {
    for (args, words) in [
        (&["contiguity", "-p", "2147483647"][..], "process 2147483647: there is none"),
        (&["contiguity", "--", "/no/such/program"], "/no/such/program"),
        (&["contiguity", "--every", "0", "-p", "1"], "0.001 to 86400"),
        (&["contiguity", "-p", "0"], "1.."),
        (&["contiguity"], "<--pid <PID>|COMMAND>"),
        (&["contiguity", "-p", "1", "--", "true"], "cannot be used with"),
        (
            &["contiguity", "--every", "9", "--", "true"],
            "ended before its memory could be looked at; try --every with less than 9 s",
        ),
    ] {
        let ran = farreach(args);
        assert!(ran.status != 0 && ran.err.contains(words), "{args:?}: {}", ran.err);
    }
    // Statuses of farreach itself.
    farreach(["contiguity", "--", "/no/such/program"]).bad(127, &["/no/such/program", "No such file"]);
    farreach(["contiguity", "--", "/etc/passwd"]).bad(126, &["/etc/passwd", "ermission denied"]);
    farreach(["contiguity", "--every", "9", "--", "true"]).bad(125, &["true"]);
    farreach(["contiguity", "--every", "x", "--", "true"]).bad(125, &["--every"]);
}

#[test]
fn processes_without_memory_or_right_are_told_apart() {
    // Ended, but not waited for.
    let mut child = Command::new("true").stdout(Stdio::null()).spawn().unwrap();
    let pid = child.id().to_string();
    let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    while !state().contains(") Z ") {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    farreach(["contiguity", "-p", &pid]).bad(1, &[&pid, "(true) has ended"]);
    child.wait().unwrap();
    farreach(["contiguity", "-p", &pid]).bad(1, &[&pid, "there is none"]);
    if let Some(other) = OfAnother::new() {
        let pid = other.pid().to_string();
        let ran = Ran::of(without_privilege(command().args(["contiguity", "-p", &pid])).output().unwrap());
        ran.bad(1, &[&format!("process {pid}: /proc/{pid}/"), "may not be read", more_rights("CAP_SYS_PTRACE")]);
    }
    // A thread of the kernel; there are none in most containers.
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        farreach(["contiguity", "-p", "2"]).bad(1, &["process 2 (kthreadd)", "thread of the kernel"]);
    }
}

#[test]
fn files_that_cannot_be_written_are_refused_before_the_program_starts() {
    let dir = Dir::new();
    let (missing, both, begun) = (dir.path("missing/file"), dir.path("both"), dir.path("begun"));
    let touch = ["--", "touch", &begun];
    for option in ["--html", "-o", "--dump"] {
        farreach(["contiguity", option, &missing].iter().chain(&touch)).bad(125, &[&missing, "No such file"]);
    }
    for other in ["--html", "-o"] {
        farreach(["contiguity", "--dump", &both, other, &both].iter().chain(&touch))
            .bad(125, &["both", "--dump", "name two files"]);
    }
    assert!(dir.names().is_empty(), "{:?}", dir.names());
}
