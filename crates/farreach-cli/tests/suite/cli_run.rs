//! Do `run` and `record` leave the program as it is, and are failures of farreach distinguished from those of the
//! program?

use crate::cli::{Dir, Ran, farreach};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};

/// `farreach` with the recorder available.
fn command() -> Command {
    let mut command = crate::cli::command();
    command.env("FARREACH_VALGRIND_DIR", crate::common::tool()).process_group(0);
    command
}

fn output<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    command().args(args).output().unwrap()
}

fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Ran {
    Ran::of(output(args))
}

/// `farreach run` of a shell script, the result as JSON in a file.
fn shell(dir: &Dir, script: &str) -> (Ran, Value) {
    let file = dir.path("result.json");
    let ran = run(["run", "-m", "t94/single", "--json", "-o", &file, "--", "sh", "-c", script]);
    let result = serde_json::from_str(&dir.read("result.json")).unwrap();
    (ran, result)
}

fn executable(dir: &Dir, name: &str, bytes: &[u8]) -> String {
    let path = dir.write(name, bytes);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn the_status_is_the_programs() {
    let dir = Dir::new();
    for (script, status) in [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 125", 125),
        ("exit 255", 255),
        ("kill -KILL $$", 137),
        ("kill -SEGV $$", 139),
        ("kill -TERM $$", 143),
        ("(exit 9) & wait $!; exit $(($? + 1))", 10),
        ("seq 100 | sort -rn | head -1 >/dev/null", 0),
        ("yes | head -1 >/dev/null", 0),
    ] {
        let (ran, result) = shell(&dir, script);
        assert_eq!((ran.status, ran.out.as_str(), ran.err.as_str()), (status, "", ""), "{script}");
        assert!(result["workload"]["instructions"].as_u64().unwrap() > 10_000, "{script}");
        assert_eq!(result["workload"]["stopped"], Value::Null, "{script}");
    }
    let processes = crate::common::program("processes", &[]);
    let processes = processes.to_str().unwrap();
    let file = dir.path("r");
    for (what, status) in [("segv", 139), ("abort", 134), ("fork", 3), ("spawn", 6), ("killed", 9)] {
        let ran = run(["run", "-m", "t94/single", "-o", &file, "--", processes, what]);
        assert_eq!((ran.status, ran.err.as_str()), (status, ""), "{what}");
        assert!(dir.read("r").contains("t94/single"), "{what}");
    }
}

#[test]
fn children_are_counted() {
    let dir = Dir::new();
    let (_, one) = shell(&dir, ":");
    let (_, three) = shell(&dir, "(:) & (:) & wait");
    let (_, replaced) = shell(&dir, "exec sh -c 'exec true'");
    let process_counts = |r: &Value| ["processes", "threads"].map(|key| r["workload"][key].as_u64().unwrap());
    assert_eq!([&one, &three, &replaced].map(process_counts), [[1, 1], [3, 3], [1, 1]]);
}

/// A closed standard error under `--timing` is no failure, and the status of the program is kept.
#[test]
fn a_full_standard_error_does_no_harm() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = command();
    command.args(["run", "--timing", "-m", "t94/single", "--", "sh", "-c", "exit 5"]).stderr(full);
    let ran = Ran::of(command.output().unwrap());
    assert_eq!((ran.status, ran.out.contains("t94/single")), (5, true), "{}", ran.out);
}

/// An empty variable counts as not set: the recorder is found by its default places.
#[test]
fn an_empty_variable_is_none() {
    let with = |act: &dyn Fn(&mut Command)| {
        let mut command = crate::cli::command();
        act(command.args(["run", "-m", "t94/single", "--csv", "--", "true"]));
        let ran = Ran::of(command.output().unwrap());
        (ran.status, ran.err)
    };
    let empty = with(&|c| _ = c.env("FARREACH_VALGRIND_DIR", ""));
    assert_eq!(empty, with(&|c| _ = c.env_remove("FARREACH_VALGRIND_DIR")));
}

/// Valgrind has some, which lie in the folder of the run.
#[test]
fn no_directory_for_temporary_files_is_needed() {
    let mut command = command();
    command.args(["run", "-m", "t94/single", "--csv", "--", "true"]).env("TMPDIR", "/nonexistent");
    Ran::of(command.output().unwrap()).good();
}

/// The size of a pipe's contents is not reported.
#[test]
fn a_trace_into_a_pipe_has_no_size() {
    let dir = Dir::new();
    let script = format!("{} record -o >(cat > {}) -- true", env!("CARGO_BIN_EXE_farreach"), dir.path("t"));
    let bash = Command::new("bash").args(["-c", &script]).env("FARREACH_VALGRIND_DIR", crate::common::tool()).output();
    let ran = Ran::of(bash.unwrap());
    assert!(ran.status == 0 && ran.err.contains("references\n") && !ran.err.contains("bytes"), "{}", ran.err);
}

/// Byte for byte, and the program reads the standard input.
#[test]
fn the_streams_are_the_programs() {
    let dir = Dir::new();
    let script = dir.write("script", "#!/bin/sh\nprintf 'a\\000b\\377\\n'; cat; printf 'e\\001\\n' >&2; exit 4\n");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let input: Vec<u8> = (0..100_000u32).map(|i| (i * 7 % 256) as u8).collect();
    let with_input = |mut command: Command| {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.clone();
        let feed = std::thread::spawn(move || stdin.write_all(&input).unwrap());
        let output = child.wait_with_output().unwrap();
        feed.join().unwrap();
        output
    };
    let native = with_input(Command::new(&script));
    let file = dir.path("result.json");
    let mut recorded = command();
    recorded.args(["run", "--json", "-o", &file, "--", &script]);
    let recorded = with_input(recorded);
    assert!(native.stdout == recorded.stdout && native.stderr == recorded.stderr && native.stdout.len() > 100_000);
    assert_eq!(recorded.status.code(), Some(4));
    let result: Value = serde_json::from_str(&dir.read("result.json")).unwrap();
    assert_eq!((&result["schema"], &result["workload"]["source"]), (&"farreach.result/1".into(), &script.into()));
    // Without -o, the result stands behind the program's output.
    let ran = run(["run", "--json", "--", "echo", "two words"]);
    let json = ran.out.strip_prefix("two words\n").expect("the program's output comes first");
    let result: Value = serde_json::from_str(json).unwrap();
    assert_eq!(result["workload"]["source"], "echo 'two words'");
    assert_eq!(result["machines"].as_array().unwrap().len(), 5);
    assert_eq!((ran.status, ran.err.as_str()), (0, ""));
}

#[test]
fn what_cannot_be_recorded_has_its_own_status() {
    let dir = Dir::new();
    let mut elf32 = b"\x7fELF\x01\x01\x01".to_vec();
    elf32.resize(52, 0);
    elf32[18] = 3;
    let files = [
        executable(&dir, "elf32", &elf32),
        executable(&dir, "garbage", b"\x00\x01garbage\n"),
        executable(&dir, "no-interpreter-line", b"echo hello\n"),
        executable(&dir, "empty", b""),
        dir.write("plain", "#!/bin/sh\n"),
        dir.path(""),
    ];
    let before = dir.names();
    for (name, status, words) in [
        ("no-such-program-anywhere", 127, &["'no-such-program-anywhere'", "PATH"][..]),
        ("/nonexistent/program", 127, &["/nonexistent/program", "No such file"]),
        ("/etc/passwd/x", 127, &["/etc/passwd/x", "Not a directory"]),
        ("", 127, &["''", "PATH"]),
        (&files[0], 126, &["elf32", "x86-64"]),
        (&files[1], 126, &["garbage", "x86-64", "#!"]),
        (&files[2], 126, &["no-interpreter-line", "#!"]),
        (&files[3], 126, &["empty", "#!"]),
        (&files[4], 126, &["plain", "not executable", "644"]),
        (&files[5], 126, &["not a file"]),
    ] {
        let output = dir.path("output");
        run(["run", "-o", &output, "--", name]).bad(status, words);
        run(["record", "-o", &output, "--", name]).bad(status, words);
    }
    assert_eq!(dir.names(), before, "nothing was written");
    // In PATH, but not executable.
    let mut hidden = command();
    hidden.env("PATH", dir.path("")).args(["run", "--", "plain"]);
    assert_eq!(Ran::of(hidden.output().unwrap()).status, 126);
}

/// Interpreters are checked too, and the arguments of a script are those that the system would give.
#[test]
fn scripts_need_an_interpreter() {
    let dir = Dir::new();
    let script = |name: &str, text: &str| executable(&dir, name, text.as_bytes());
    let again = dir.path("again");
    let good = script("good", "#! /bin/sh  -e \t \necho \"$0\" \"$1\" $-; false; echo on\n");
    let long = script("long", &format!("#!/bin/sh{}\nexit 4\n", " ".repeat(300)));
    for (name, status, words) in [
        (script("gone", "#!/nonexistent/interpreter\n"), 127, ["gone", "/nonexistent/interpreter: No such file"]),
        (
            script("gone-twice", &format!("#!{}\n", dir.path("gone"))),
            127,
            ["gone-twice", "/nonexistent/interpreter: No such"],
        ),
        (script("directory", "#!/etc\n"), 126, ["/etc", "not a file"]),
        (script("plain", "#!/etc/passwd\n"), 126, ["/etc/passwd", "not executable"]),
        (script("nothing", "#!  \n/bin/sh"), 126, ["nothing", "names no interpreter"]),
        (script("endless", &format!("#!/{}\n", "x".repeat(300))), 126, ["endless", "names no interpreter"]),
        (script("again", &format!("#!{again}\n")), 126, ["again", "time and again"]),
        (script("second", &format!("#!{good}\n")), 126, ["second", "only programs"]),
        (script("relative", "#!../../../../../../../../../../../../../../bin/sh\n"), 126, ["relative", "absolute"]),
    ] {
        let mut from_there = command();
        from_there.current_dir(dir.path("")).args(["run", "--", &name]);
        Ran::of(from_there.output().unwrap()).bad(status, &words);
    }
    let output = dir.path("output");
    let native = Command::new(&good).arg("two words").output().unwrap();
    let recorded = command().args(["run", "-o", &output, "--", &good, "two words"]).output().unwrap();
    assert_eq!((recorded.status.code(), recorded.stdout), (native.status.code(), native.stdout));
    assert_eq!(run(["run", "-o", &output, "--", &long]).status, 4);
    // Of a program, the dynamic linker.
    let mut program = std::fs::read("/bin/true").unwrap();
    let linker = program.windows(8).position(|w| w == b"/lib64/l").expect("the dynamic linker's name");
    program[linker + 1] = b'L';
    let no_linker = executable(&dir, "no-linker", &program);
    run(["run", "--", &no_linker]).bad(127, &["dynamic linker /Lib64/", "No such file"]);
    let cut_off = executable(&dir, "cut-off", &program[..200]);
    run(["run", "--", &cut_off]).bad(126, &["cut-off", "cut off"]);
}

/// 125, and the program is not even started.
#[test]
fn failures_of_farreach_have_their_own_status() {
    let dir = Dir::new();
    let ran_marker = dir.path("ran");
    let missing = dir.path("missing/file");
    let touch = ["--", "touch", &ran_marker];
    let fails = |args: &[&str], words: &[&str]| run(args.iter().chain(&touch)).bad(125, words);
    fails(&["run", "-m", "t94/nosuch"], &["t94/nosuch", "`farreach machines` lists all presets"]);
    fails(&["run", "-o", &missing], &[&missing, "No such file"]);
    fails(&["run", "--html", &missing], &[&missing, "No such file"]);
    fails(&["run", "--json", "--csv"], &["--json", "--csv"]);
    fails(&["run", "--limit", "0"], &["--limit", "from 1 to"]);
    fails(&["run", "--limit", "many"], &["--limit", "many"]);
    fails(&["run", "--nosuch"], &["--nosuch"]);
    fails(&["record", "-o", &missing], &[&missing, "No such file"]);
    fails(&["record"], &["--output"]);
    run(["run"]).bad(125, &["<COMMAND>"]);
    run(["run", "--"]).bad(125, &["<COMMAND>"]);
    let mut no_recorder = command();
    no_recorder.env("FARREACH_VALGRIND_DIR", "/nonexistent").args(["run", "--", "true"]);
    Ran::of(no_recorder.output().unwrap()).bad(125, &["/nonexistent", "make -C capture/valgrind"]);
    assert!(dir.names().is_empty());
}

#[test]
fn a_full_memory_ends_the_program_and_gives_no_result() {
    let dir = Dir::new();
    let (json, html) = (dir.path("r.json"), dir.path("r.html"));
    let machine = "t94/single:memory=64K";
    let loops = "while :; do :; done";
    let args = ["run", "--json", "-o", &json, "--html", &html, "-m", machine, "--", "sh", "-c", loops];
    run(args).bad(125, &[machine, "out of memory at page 0x", "64K"]);
    assert!(dir.names().is_empty());
}

#[test]
fn a_limit_is_exact_and_ends_the_program() {
    for n in [1, 1000, 123_457] {
        let limit = n.to_string();
        let args = ["run", "--json", "-m", "t94/single", "--limit", &limit, "--", "sh", "-c", "while :; do :; done"];
        let workload = run(args).good().json()["workload"].clone();
        assert_eq!(workload["instructions"], n);
        assert_eq!(workload["stopped"], format!("--limit {n}"));
    }
}

/// Also where threads reach the limit after the program has ended.
#[test]
fn a_limit_near_the_end_has_the_status_of_a_limit() {
    let plain = crate::common::program("plain", &["-static"]);
    let dir = Dir::new();
    let file = dir.path("result");
    let ran = |command: &[&str], options: &[&str]| {
        let all = [command, &["--json", "-o", &file], options, &["--", plain.to_str().unwrap()]].concat();
        let status = run(all).status;
        let result: Value = serde_json::from_str(&dir.read("result")).unwrap();
        (status, result["workload"].clone())
    };
    let (status, all) = ran(&["run"], &["-m", "t94/single"]);
    assert_eq!((status, &all["stopped"]), (7, &Value::Null));
    let all = all["instructions"].as_u64().unwrap();
    for (limit, status) in [(all - 1, 0), (all, 0), (all + 1, 7)] {
        let n = limit.to_string();
        let stopped = if status == 0 { format!("--limit {n}").into() } else { Value::Null };
        for command in [&["run", "--threads", "1"][..], &["run", "--threads", "4"], &["pagesize", "--threads", "4"]] {
            let (had, workload) = ran(command, &["--limit", &n]);
            assert_eq!((had, &workload["stopped"]), (status, &stopped), "{command:?} {limit} of {all}");
        }
    }
}

#[test]
fn how_far_ahead_a_program_runs_changes_nothing() {
    let plain = crate::common::program("plain", &["-static"]);
    let dir = Dir::new();
    let file = dir.path("result");
    let results = [("1", "0"), ("2", "0"), ("2", "1M"), ("3", "256M"), ("4", "1G")].map(|(threads, ahead)| {
        let all = ["run", "--threads", threads, "--ahead", ahead, "--json", "-o", &file, "--", plain.to_str().unwrap()];
        assert_eq!(run(all).status, 7, "the program's own");
        dir.read("result")
    });
    assert!(results.iter().all(|result| result == &results[0]));
    let refused = run(["run", "--ahead", "2T", "--", "true"]);
    assert_eq!(refused.status, 125);
    assert!(refused.err.contains("'2T' for '--ahead <SIZE>': a size up to 1T is allowed"), "{}", refused.err);
    // No machine has so much, at present.
    run(["run", "--ahead", "1T", "--", "true"]).bad(125, &["--ahead 1T: ", "are left"]);
}

/// Starts a script that says when it is ready.
fn ready(dir: &Dir, script: &str) -> Child {
    let file = dir.path("result.json");
    let mut command = command();
    command.args(["run", "-m", "t94/single", "--json", "-o", &file, "--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

#[test]
fn an_interrupt_prints_what_was_seen() {
    let count = "i=0; while :; do i=$((i+1)); done";
    for (what, script, to_group, signal, status) in [
        ("Ctrl-C", format!("echo ready; {count}"), true, libc::SIGINT, 130),
        ("farreach alone", format!("echo ready; {count}"), false, libc::SIGINT, 130),
        ("it sleeps", "echo ready; sleep 60".into(), true, libc::SIGINT, 130),
        ("it ends well", format!("trap 'exit 0' INT; echo ready; {count}"), true, libc::SIGINT, 130),
        ("it ends well, alone", format!("trap 'exit 0' INT; echo ready; {count}"), false, libc::SIGINT, 130),
        ("it does not listen", format!("trap '' INT; echo ready; {count}"), true, libc::SIGINT, 130),
        ("termination", format!("echo ready; {count}"), false, libc::SIGTERM, 143),
        ("the terminal is closed", format!("echo ready; {count}"), true, libc::SIGHUP, 129),
        ("termination, it ends well", format!("trap 'exit 0' TERM; echo ready; {count}"), false, libc::SIGTERM, 143),
        ("termination, it does not listen", format!("trap '' TERM; echo ready; {count}"), false, libc::SIGTERM, 143),
    ] {
        let dir = Dir::new();
        let child = ready(&dir, &script);
        std::thread::sleep(std::time::Duration::from_millis(100));
        let pid = child.id() as i32;
        // SAFETY: plain system call; the child leads its own process group.
        unsafe { libc::kill(if to_group { -pid } else { pid }, signal) };
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!((ran.status, ran.err.as_str()), (status, ""), "{what}");
        let result: Value = serde_json::from_str(&dir.read("result.json")).unwrap();
        assert_eq!(result["workload"]["stopped"], "interrupted", "{what}");
        assert!(result["machines"][0]["counts"]["lookups"].as_u64().unwrap() > 10_000, "{what}");
        assert_eq!(dir.names(), ["result.json"], "{what}");
    }
}

/// A line on a terminal, silence elsewhere.
#[test]
fn progress_is_for_terminals() {
    let dir = Dir::new();
    let result = dir.path("r");
    let program = "sh -c 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done'";
    let line = format!("{} run -m t94/single -o {result} -- {program}", env!("CARGO_BIN_EXE_farreach"));
    let env = ("FARREACH_VALGRIND_DIR", crate::common::tool());
    let silent = Command::new("sh").args(["-c", &line]).env(env.0, env.1).stdin(Stdio::null()).output().unwrap();
    Ran::of(silent).good();
    let terminal = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env(env.0, env.1)
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output();
    let Ok(terminal) = terminal else {
        eprintln!("skipped: script is not installed");
        return;
    };
    let ran = Ran::of(terminal);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.out.contains("references/s"), "{}", ran.out);
}

#[test]
fn a_recorded_program_counts_as_a_live_one() {
    let dir = Dir::new();
    let plain = crate::common::program("plain", &["-static"]);
    let plain = plain.to_str().unwrap();
    let trace = dir.path("plain.frt");
    let ran = run(["record", "-o", &trace, "--", plain]);
    assert_eq!(ran.status, 7);
    assert!(ran.err.starts_with(&format!("farreach: {trace}: ")) && ran.err.lines().count() == 1, "{}", ran.err);
    assert_eq!(ran.out.lines().count(), 1, "the program's own line: {}", ran.out);
    assert_eq!(dir.names(), ["plain.frt"]);
    assert!(farreach(["trace", "check", &trace]).good().out.contains("sound"));
    let live_file = dir.path("live");
    let live = run(["run", "--json", "-o", &live_file, "--", plain]);
    assert_eq!((live.status, live.out), (7, ran.out));
    let live: Value = serde_json::from_str(&dir.read("live")).unwrap();
    let stored = farreach(["sim", &trace, "--json"]).good();
    assert_eq!(stored.out, farreach(["sim", &trace, "--json"]).good().out, "the same bytes twice");
    let stored = stored.json();
    assert_eq!(live["machines"], stored["machines"]);
    assert!(live["workload"]["allocator"].is_string(), "{live}");
    // A trace does not say which files are there.
    let without_source = |r: &Value| {
        let mut w = r["workload"].clone();
        ["source", "allocator"].iter().for_each(|name| _ = w.as_object_mut().unwrap().remove(*name));
        w
    };
    assert_eq!(without_source(&live), without_source(&stored));
}

#[test]
fn a_trace_is_written_whole_or_not_at_all() {
    let dir = Dir::new();
    run(["record", "-o", "/dev/full", "--", "true"]).bad(125, &["/dev/full", "No space left"]);
    let old = dir.write("old", "old");
    let tool = crate::common::tool().display();
    let exe = env!("CARGO_BIN_EXE_farreach");
    let script = format!(
        "ulimit -f 1; FARREACH_VALGRIND_DIR={tool} {exe} record -o {old} -- true 2>&1 | cat; exit ${{PIPESTATUS[0]}}"
    );
    let ran = Ran::of(Command::new("bash").args(["-c", &script]).output().unwrap());
    assert_eq!(ran.status, 125, "{}", ran.out);
    assert!(ran.out.contains("File too large"), "{}", ran.out);
    assert_eq!((dir.names(), dir.read("old").as_str()), (vec!["old".to_owned()], "old"));
    // A trace that was ended early is whole.
    let cut = dir.path("cut");
    assert_eq!(run(["record", "-o", &cut, "--limit", "50000", "--", "sh", "-c", "while :; do :; done"]).status, 0);
    assert!(farreach(["trace", "check", &cut]).good().out.contains("sound"));
    let sim = farreach(["sim", &cut, "--json", "--limit", "50000"]).good().json();
    assert_eq!(sim["workload"]["instructions"], 50000);
    // Through a pipe, by way of a device name.
    let piped = output(["record", "-o", "/dev/stdout", "--", "true"]);
    assert!(piped.stdout.starts_with(b"\x89FRT"));
    let copy = dir.write("copy", &piped.stdout);
    assert!(farreach(["trace", "check", &copy]).good().out.contains("sound"));
}
