//! Pieces of runs and several traces at once, by the commands: does each mean what it says, and the same everywhere?

use crate::cli::{Dir, Ran, command, farreach};
use crate::common::program;
use serde_json::Value;

fn run(words: &[&str]) -> Ran {
    let mut farreach = command();
    farreach.env("FARREACH_VALGRIND_DIR", crate::common::tool()).args(words);
    Ran::of(farreach.output().unwrap())
}

/// A command that says something on standard error, too.
fn worked(words: &[&str]) -> Ran {
    let ran = run(words);
    assert_eq!(ran.status, 0, "{}", ran.err);
    ran
}

/// Everything but what ran.
fn counts(result: &Value) -> (Value, Value) {
    let machines = result["machines"].clone();
    let mut workload = result["workload"].clone();
    for name in ["source", "piece", "stopped", "huge_pages", "allocator"] {
        workload.as_object_mut().unwrap().remove(name);
    }
    (workload, machines)
}

const MACHINES: [&str; 4] = ["-m", "t94/single", "-m", "today/skylake"];

#[test]
fn a_program_is_looked_at_from_a_function_on_and_between_marks() {
    let dir = Dir::new();
    let pieces = program("pieces", &[]);
    let pieces = pieces.to_str().unwrap();
    let whole = dir.path("whole.frt");
    worked(&["record", "-o", &whole, "--", pieces]);
    let sim = |more: &[&str]| {
        let words: Vec<&str> =
            ["sim", &whole, "--json"].into_iter().chain(more.iter().copied()).chain(MACHINES).collect();
        run(&words).good().json()
    };
    let all = sim(&[]);
    let (main, touch, marked) = (sim(&["--from", "main"]), sim(&["--from", "touch_pages"]), sim(&["--from", "mark"]));
    let instructions = |result: &Value| result["workload"]["instructions"].as_u64().unwrap();
    let skipped = |result: &Value| result["workload"]["piece"]["skipped_instructions"].as_u64().unwrap();
    for piece in [&main, &touch, &marked] {
        assert_eq!(instructions(piece) + skipped(piece), instructions(&all));
    }
    let order = [&all, &main, &touch, &marked].map(instructions);
    assert!(order.windows(2).all(|pair| pair[0] > pair[1]), "{order:?}");
    assert_eq!(touch["workload"]["piece"]["from"], "touch_pages");
    // 25 pages of the array are stored to between marks, by a loop of a few instructions, and the stack.
    let stores = marked["workload"]["references"]["store"].as_u64().unwrap();
    assert!((25..60).contains(&stores) && instructions(&marked) < 400, "{stores} stores");
    let pages = marked["workload"]["touched_bytes"].as_u64().unwrap() / 4096;
    assert!((26..31).contains(&pages), "{pages} pages");
    // The first instruction of a function, by its address, in a trace without a search for symbols.
    let by_name = worked(&["trace", "cut", &whole, "--from", "touch_pages", "-o", &dir.path("touch.frt")]);
    assert!(by_name.err.contains("instructions"), "{}", by_name.err);
    let stored = run(&[&["sim", &dir.path("touch.frt"), "--json"], &MACHINES[..]].concat()).good().json();
    assert_eq!(counts(&stored), counts(&touch));
    // The recorder stores the same piece.
    worked(&["record", "--from", "mark", "-o", &dir.path("marked.frt"), "--", pieces]);
    let recorded = run(&["sim", &dir.path("marked.frt"), "--json"]).good().json();
    assert_eq!(instructions(&recorded), instructions(&marked));
    let live = worked(&["run", "--from", "mark", "--json", "--", pieces]);
    let result: Value = serde_json::from_str(live.out.strip_prefix("done\n").unwrap_or(&live.out)).unwrap();
    assert_eq!(instructions(&result), instructions(&marked));
    let info = run(&["trace", "info", "--json", &dir.path("marked.frt")]).good().json();
    assert_eq!(info["header"]["piece"]["from"], "mark", "{info}");
    for (place, words) in [
        ("no_such_function", &["--from no_such_function", "no function of this name is in the symbols of"][..]),
        ("touch_page", &["did you mean", "'touch_pages'"]),
        ("0x12", &["--from 0x12", "it was never executed"]),
    ] {
        run(&["sim", &whole, "--from", place]).bad(1, words);
    }
    run(&["sim", &whole, "--from", "12"]).bad(2, &["'12'", "0x401000"]);
    run(&["run", "--from", "no_such_function", "--", "true"]).bad(125, &["--from no_such_function"]);
}

#[test]
fn skipping_warming_up_and_phases_are_exact_by_hand() {
    let text = |pages: &[u64]| pages.iter().map(|p| format!(" S {:x},1\n", p << 12)).collect::<String>();
    let sim = |pages: &[u64], more: &[&str]| {
        let words = ["sim", "-", "--json", "-m", "t94/single:entries=4,replacement=lru"];
        crate::cli::fed(words.iter().chain(more), text(pages).as_bytes())
    };
    let pages: Vec<u64> = [0, 1, 2, 3].repeat(5);
    let misses = |result: &Value| result["machines"][0]["counts"]["misses"].as_u64().unwrap();
    let skip = sim(&pages, &["--skip", "6"]).good().json();
    assert_eq!((misses(&skip), skip["workload"]["references"]["store"].as_u64()), (4, Some(14)));
    let warm = sim(&pages, &["--skip", "1", "--warmup", "3"]).good().json();
    // 1, 2 and 3 are warm; 0 is not.
    assert_eq!((misses(&warm), warm["machines"][0]["counts"]["page_faults"].as_u64()), (1, Some(1)));
    assert_eq!(warm["machines"][0]["memory"]["resident_bytes"], 4 << 12);
    assert_eq!(warm["workload"]["piece"]["warmup_instructions"], 3);
    let phases = sim(&pages, &["--every", "3", "--limit", "10"]).good();
    let json = phases.json();
    let rows = json["machines"][0]["phases"].as_array().unwrap();
    let column = |name: &str| rows.iter().map(|row| row[name].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!((column("lookups"), column("misses")), (vec![3, 3, 3, 1], vec![3, 1, 0, 0]));
    assert_eq!(column("resident_bytes"), [3 << 12, 4 << 12, 4 << 12, 4 << 12]);
    sim(&pages, &["--skip", "20"]).bad(1, &["--skip 20", "the run ended after 20 references", "nothing was simulated"]);
    sim(&pages, &["--warmup", "21"]).bad(1, &["--warmup 21", "nothing was counted"]);
    sim(&pages, &["--warmup", "2", "--sample", "4"]).bad(1, &["--warmup 2 is not allowed with --sample"]);
    sim(&pages, &["--every", "2", "--sample", "4"]).bad(1, &["--every 2 is not allowed with --sample"]);
}

#[test]
fn several_traces_take_turns_and_a_merged_trace_is_the_same() {
    let dir = Dir::new();
    for (kernel, file) in [("gups", "a.frt"), ("kv", "b.frt")] {
        worked(&["workloads", kernel, "--trace", "-o", &dir.path(file), "--limit", "20k"]);
    }
    let (a, b, both) = (dir.path("a.frt"), dir.path("b.frt"), dir.path("both.frt"));
    let together = run(&[&["sim", &a, &b, "--interleave", "700", "--json"], &MACHINES[..]].concat()).good().json();
    assert_eq!(together["workload"]["processes"], 2);
    worked(&["trace", "merge", &a, &b, "--interleave", "700", "-o", &both]);
    let merged = run(&[&["sim", &both, "--json"], &MACHINES[..]].concat()).good().json();
    assert_eq!(counts(&merged), counts(&together));
    run(&["trace", "check", &both]).good();
    let apart = run(&[&["sim", &a, "--json"], &MACHINES[..]].concat()).good().json();
    let misses = |result: &Value| result["machines"][1]["counts"]["misses"].as_u64().unwrap();
    assert!(misses(&together) > misses(&apart), "they share a TLB");
    worked(&["trace", "merge", &a, &b, "-o", &dir.path("chain.frt")]);
    for (words, says) in [
        (&["sim", &a, &b][..], &["2 traces", "--interleave N"][..]),
        (&["sim", &a, "--interleave", "2M"], &["two traces or more"]),
        (&["sim", &a, "-", "--interleave", "2M"], &["several traces must be files"]),
        (&["trace", "merge", &a, &b, "-o", &a], &["would overwrite"]),
        (&["trace", "cut", &a, "-o", &both], &["nothing is cut"]),
    ] {
        run(words).bad(1, says);
    }
    farreach(["sim", "a", "--interleave", "0"]).bad(2, &["--interleave"]);
}
