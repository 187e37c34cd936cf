//! `farreach contiguity` on programs whose memory is known.

mod cli;

use cli::{Dir, farreach};

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
    let text = dir.read("map.txt");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("# farreach mapping 1"));
    let runs: Vec<(u64, u64)> = lines
        .skip(1)
        .map(|line| {
            let words: Vec<&str> = line.splitn(5, ' ').collect();
            assert!(words.len() == 5 && words[3].len() == 3, "{line}");
            let hex = |word: &str| u64::from_str_radix(word, 16).unwrap();
            (hex(words[0]), hex(words[1]))
        })
        .collect();
    assert!(runs.len() > 3 && runs.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "{text}");
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
