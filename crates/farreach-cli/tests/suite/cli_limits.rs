//! Shortages: no memory, few descriptors, closed standard output; and progress where standard error is a file.

use crate::cli::{Dir, Ran, command, fed, line};
use std::process::Command;

const EXE: &str = env!("CARGO_BIN_EXE_farreach");

/// A script of bash in which `$farreach` is the command, with the recorder available and a directory of its own for
/// temporary files.
fn bash(temp: &Dir, script: &str) -> Ran {
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).env("farreach", EXE).env("TMPDIR", temp.path("")).env_remove("RUST_BACKTRACE");
    Ran::of(bash.env("FARREACH_VALGRIND_DIR", crate::common::tool()).output().unwrap())
}

#[test]
fn without_memory_there_is_a_message_and_no_file() {
    let dir = Dir::new();
    let script = format!(
        "ulimit -v 50000; exec $farreach sim workload:gups:size=64M,references=1M --threads 1 -m all -o {}",
        dir.path("result")
    );
    let ran = bash(&dir, &script);
    ran.bad(
        1,
        &["farreach: out of memory: the system refused ", " bytes; the limit of this process is 50000 KiB (ulimit -v)"],
    );
    assert!(!dir.names().contains(&"result".to_owned()));
    // The same for a command that runs a program and returns its status.
    let ran = bash(&dir, "ulimit -v 40000; exec $farreach run --threads 1 -m all -- true");
    ran.bad(125, &["farreach: ", "out of memory", "40000 KiB (ulimit -v)"]);
}

#[test]
fn a_recorder_without_memory_says_so_in_short() {
    let dir = Dir::new();
    let ran = bash(&dir, "ulimit -v 60000; exec $farreach run --threads 1 -m t94/single -- true");
    assert!(!ran.err.contains("aspacem") && ran.err.lines().count() < 8, "{}", ran.err);
    ran.bad(125, &["recording of 'true'", "out of memory", "60000 KiB (ulimit -v)"]);
    assert_eq!(dir.names(), [""; 0]);
}

#[test]
fn a_program_keeps_its_descriptors_or_is_not_run() {
    let dir = Dir::new();
    for n in [10, 16, 31] {
        let ran = bash(&dir, &format!("ulimit -n {n}; exec $farreach run -m t94/single -- sh -c 'exit 7'"));
        ran.bad(125, &["recorder: limit of open files (ulimit -n)", &format!("raised to {n}:"), "at least 32"]);
        assert_eq!(dir.names(), [""; 0], "Valgrind's files are gone");
    }
    for limits in ["ulimit -n 32", "ulimit -S -n 12"] {
        let ran = bash(&dir, &format!("{limits}; exec $farreach run -m t94/single --csv -- sh -c 'exit 7'"));
        assert_eq!(ran.status, 7, "{limits}: {}", ran.err);
    }
    let ran = bash(&dir, "ulimit -S -n 12; exec $farreach run -m t94/single -o /dev/null -- sh -c 'ulimit -n'");
    assert_eq!((ran.status, ran.out.as_str()), (0, "12\n"), "{}", ran.err);
}

#[test]
fn a_result_that_nobody_can_read_is_an_error() {
    let dir = Dir::new();
    let text = dir.write("t.txt", "I  1000,4\n L 2000,8\n");
    let lost = "standard output is closed";
    for words in [&format!("sim {text}") as &str, "machines", "area single", &format!("trace info {text}")] {
        bash(&dir, &format!("exec $farreach {words} >&-")).bad(1, &[lost]);
    }
    // Before the program runs.
    let made = dir.path("made");
    bash(&dir, &format!("exec $farreach run -- touch {made} >&-")).bad(125, &[lost]);
    assert_eq!(dir.names(), ["t.txt"]);
    // Output that goes to a file is not lost.
    let result = dir.path("result");
    assert_eq!(bash(&dir, &format!("exec $farreach sim {text} --csv -o {result} >&-")).status, 0);
    assert!(dir.read("result").starts_with("name,"));
    assert_eq!(bash(&dir, &format!("exec $farreach sim {text} >/dev/null")).status, 0);
    assert_eq!(bash(&dir, &format!("exec $farreach run -m t94/single -o {result} -- touch {made} >&-")).status, 0);
}

#[test]
fn a_refused_key_stands_on_its_line() {
    let dir = Dir::new();
    for (text, words) in [
        (
            "kind = 'single'\n\nentries = 0\n",
            "line 3: entries = 0 is not allowed: entries must be a whole number from 1 to 65536",
        ),
        ("kind = 'single'\npenalty = inf\n", "line 2: penalty = inf is not allowed"),
        ("# mine\nkind = 'singel'\n", "line 2: kind = 'singel' is not allowed"),
        ("kind = 'single'\nentrys = 1\n", "line 2: unknown key 'entrys'"),
        ("about = inf\nkind = 'single'\n", "line 1: about = inf is not allowed: about must be a text, in quotes"),
    ] {
        let file = dir.write("m.toml", text);
        fed(["sim", "-", "-m", &file], b"").bad(1, &[&format!("machine '{file}': {words}")]);
    }
    // An override has no line number.
    let file = dir.write("m.toml", "kind = 'single'\nentries = 4\n");
    fed(["sim", "-", "-m", &format!("{file}:entries=0")], b"").bad(1, &["entries=0': entries = 0 is not allowed"]);
}

/// Standard error of a command that prints its progress at every opportunity.
fn progress(words: &[&str]) -> Vec<String> {
    let mut command = command();
    command.args(words).env("FARREACH_PROGRESS_SECONDS", "0").env("FARREACH_VALGRIND_DIR", crate::common::tool());
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.status, 0, "{}", ran.err);
    ran.err.lines().map(str::to_owned).collect()
}

#[test]
fn progress_goes_into_a_file_too() {
    let dir = Dir::new();
    let (trace, result) = (dir.path("t.frt"), dir.path("result"));
    let is_progress =
        |l: &&String| l.starts_with("farreach: ") && l.contains(" instructions, ") && l.contains(" references/s, ");
    let said = progress(&[
        "record",
        "-o",
        &trace,
        "--limit",
        "100M",
        "--",
        "sh",
        "-c",
        "i=0; while test $i -lt 2000; do i=$((i+1)); done",
    ]);
    // The remaining time is not known before the first reference.
    let begun = |l: &&String| is_progress(l) && !l.contains(" 0 instructions, ");
    let lines: Vec<&String> = said.iter().filter(begun).collect();
    assert!(lines.len() > 3 && lines.iter().all(|l| l.contains(", about ") && l.ends_with(" left")), "{said:?}");
    // The length of a trace is known.
    for command in ["sim", "pagesize"] {
        let said = progress(&[command, &trace, "--json", "-o", &result]);
        let lines: Vec<&String> = said.iter().filter(begun).collect();
        assert!(lines.len() > 3 && lines.iter().all(|l| l.ends_with(" left")), "{said:?}");
    }
    let said = progress(&[
        "run",
        "-m",
        "t94/single",
        "-o",
        &result,
        "--",
        "sh",
        "-c",
        "i=0; while test $i -lt 2000; do i=$((i+1)); done",
    ]);
    assert!(said.iter().filter(is_progress).count() > 3 && !said.iter().any(|l| l.contains(" left")), "{said:?}");
    // Every 30 seconds by default.
    assert_eq!(line(&format!("sim {trace} --csv -o {result}")).good().status, 0);
}
