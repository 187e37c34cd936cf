//! `farreach contiguity` on programs whose memory is known.

mod cli;

use cli::{Dir, each, farreach};
use farreach::os::dump::Dump;

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
    // The array is one mapping: 99 % of so much memory needs few virtual ranges, and one has most of it.
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
    let times: Vec<f64> = result["samples"].as_array().unwrap().iter().map(|s| s["seconds"].as_f64().unwrap()).collect();
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

/// A dump of a process is the placement of its trace: most pages are found, by what they belong to.
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
    // What the recorder's run touched and the other one had at that moment.
    assert!(found[0] > 1500 && found[0] > missing[0], "{found:?} found, {missing:?} missing");
    assert_eq!(result["machines"][0]["config"]["placement"], "mapping");
    assert!(each(&result, "misses")[1] > 0);
}

#[test]
fn a_mapping_that_is_no_use_is_refused() {
    let dir = Dir::new();
    let trace = dir.write("t", cli::sweep(3, 1));
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
    farreach(["sim", &trace, "-m", "t94/single:placement=thp", "--mapping", &overlap]).bad(1, &["'placement' is given twice"]);
    farreach(["sim", &trace, "-m", "ps/8k", "--mapping", &overlap]).bad(1, &["page_size = 8K", "4K"]);
}

#[test]
fn what_cannot_be_looked_at_is_said() {
    for (args, words) in [
        (&["contiguity", "-p", "2147483647"][..], "process 2147483647: there is none"),
        (&["contiguity", "--", "/no/such/program"], "/no/such/program"),
        (&["contiguity", "--every", "0", "-p", "1"], "0.001 to 86400"),
        (&["contiguity"], "--pid"),
        (&["contiguity", "--", "true"], "ended before its memory could be looked at"),
    ] {
        let ran = farreach(args);
        assert!(ran.status != 0 && ran.err.contains(words), "{args:?}: {}", ran.err);
    }
}
