//! `farreach run --timing` says where the CPU time went, and `--align` runs on a real program.

use crate::common::{program, tool};
use std::process::Command;

fn farreach(args: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farreach"));
    let out = command.env("FARREACH_VALGRIND_DIR", tool()).args(args).output().expect("farreach");
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (text(out.stdout), text(out.stderr))
}

#[test]
fn the_recorders_cpu_time_is_told_apart() {
    let program = program("deep", &["-static"]);
    let (_, said) = farreach(&["run", "--timing", "--csv", "--", program.to_str().expect("a plain name")]);
    let line = said.lines().find_map(|l| l.strip_prefix("farreach: seconds: ")).expect(&said);
    let number = |part: &str| part.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok()).expect(line);
    let [recorder, simulation, wall] = *line.split(", ").map(number).collect::<Vec<_>>() else { panic!("{line}") };
    assert!(recorder > 0.01 && simulation > 0.0 && wall > 0.0, "{line}");
    let (_, said) = farreach(&["run", "--csv", "--", program.to_str().expect("a plain name")]);
    assert!(!said.contains("seconds"), "only when asked for: {said}");
}

/// T94-53: a static program has the same addresses each time, so only alignment differs, which does not affect single
/// pages under LRU.
#[test]
fn t94_53_an_aligned_run_renames_pages() {
    let program = program("deep", &["-static"]);
    let misses = |options: &[&str]| {
        let mut args = vec!["run", "--json", "--machine", "t94/single:entries=16,replacement=lru"];
        args.extend(options);
        args.extend(["--", program.to_str().expect("a plain name")]);
        let (json, _) = farreach(&args);
        // The program may print before the result.
        let json = &json[json.find("{\"schema\"").or_else(|| json.find("{\n")).expect("a result")..];
        let result: serde_json::Value = serde_json::from_str(json).expect("JSON");
        let workload = &result["workload"];
        (workload["lookups"].clone(), result["machines"][0]["counts"]["misses"].clone(), workload["source"].to_string())
    };
    let (plain, aligned) = (misses(&[]), misses(&["--align", "64K"]));
    assert_eq!((&plain.0, &plain.1), (&aligned.0, &aligned.1));
    assert!(aligned.2.contains("aligned to 64K") && !plain.2.contains("aligned"));
}
