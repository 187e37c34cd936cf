//! What the recorder cannot do as the system does: it does it, or the run says so.

use crate::cli::{Dir, Ran, command};
use crate::common::{program, record, set_user_id, tool};
use farreach_live::Exit;
use farreach_types::event::{Backing, Op};
use serde_json::{Value, json};
use std::process::{Command, Output};

fn natively(words: &[&str]) -> Output {
    Command::new(program("limits", &[])).args(words).output().unwrap()
}

/// `farreach COMMAND` of the program with these words.
fn recorded(before: &[&str], words: &[&str]) -> Ran {
    let mut farreach = command();
    farreach.env("FARREACH_VALGRIND_DIR", tool()).args(before).arg("--").arg(program("limits", &[])).args(words);
    Ran::of(farreach.output().unwrap())
}

/// The outcome of `run`, its output being the program's, and what the result says of the program.
fn run(dir: &Dir, words: &[&str]) -> (Ran, Value) {
    let file = dir.path("result.json");
    let ran = recorded(&["run", "-m", "t94/single", "--json", "-o", &file], words);
    let result: Value = serde_json::from_str(&dir.read("result.json")).unwrap_or_else(|e| panic!("{e}: {}", ran.err));
    (ran, result["workload"].clone())
}

/// Kinds and words of the limits.
fn limits(workload: &Value) -> Vec<(&str, &str)> {
    let all = workload["limits"].as_array().map_or(&[][..], Vec::as_slice);
    all.iter().map(|limit| (limit["kind"].as_str().unwrap(), limit["what"].as_str().unwrap())).collect()
}

#[test]
fn an_instruction_that_the_recorder_does_not_know_is_named() {
    let dir = Dir::new();
    for (word, mnemonic, bytes) in
        [("avx512", "vaddpd", "62 f1 fd 48 58 c1"), ("rdfsbase", "rdfsbase", "f3 48 0f ae c0")]
    {
        let (ran, workload) = run(&dir, &[word]);
        assert_eq!((ran.status, ran.out.as_str(), ran.err.as_str()), (132, "", ""), "{word}");
        assert_eq!(workload["signals"], json!([{"signal": "SIGILL", "number": 4, "processes": 1}]), "{word}");
        let limit = &workload["limits"][0];
        let what = limit["what"].as_str().unwrap();
        let named = format!("the recorder cannot run {mnemonic} ({bytes}) at 0x");
        assert!(what.starts_with(&named) && what.contains(&format!(", {word}")), "{what}");
        assert!(what.contains("/limits-") && what.ends_with(": SIGILL"), "{what}");
        assert_eq!((&limit["kind"], &limit["count"]), (&json!("instruction"), &json!(1)), "{limit}");
        assert!(limit["program"].as_str().unwrap().contains("/limits-"), "{limit}");
        assert!(limit["process"].as_u64().unwrap() > 0, "{limit}");
        assert_eq!(&workload["stopped"], what, "{word}");
    }
    // The native run is no better where the processor does not have it.
    let (_, workload) = run(&dir, &["avx512"]);
    let known = is_x86_feature_detected!("avx512f");
    let advice =
        if known { "'farreach trap' runs it natively" } else { "this processor does not have it either (AVX512F)" };
    assert_eq!(workload["limits"][0]["advice"], advice);
    // In every form.
    let page = dir.path("page.html");
    let ran = recorded(&["run", "-m", "t94/single", "--html", &page], &["avx512"]);
    for text in [&ran.out, &dir.read("page.html")] {
        assert!(text.contains("SIGILL ended 1 process"), "{text}");
        assert!(text.contains("Stopped early: ") && text.contains("cannot run vaddpd"), "{text}");
        assert!(text.contains("Limits of the recorder that this run met"), "{text}");
    }
    let trace = dir.path("t.frt");
    let ran = recorded(&["record", "-o", &trace], &["rdfsbase"]);
    assert!(ran.status == 132 && ran.err.contains("cannot run rdfsbase (f3 48 0f ae c0)"), "{}", ran.err);
    let ran = crate::cli::line(&format!("sim {trace} -m t94/single")).good();
    assert!(ran.out.contains("SIGILL ended 1 process"), "{}", ran.out);
    let file = dir.path("sizes.json");
    recorded(&["pagesize", "--no-policies", "--json", "-o", &file], &["rdfsbase"]);
    let study: Value = serde_json::from_str(&dir.read("sizes.json")).unwrap();
    assert_eq!(limits(&study["workload"]).len(), 1, "{study}");
}

#[test]
fn a_program_that_handles_it_goes_on_and_each_time_counts() {
    let (ran, workload) = run(&Dir::new(), &["caught"]);
    assert_eq!((ran.status, &workload["stopped"], &workload["signals"]), (3, &Value::Null, &Value::Null));
    assert_eq!((limits(&workload).len(), &workload["limits"][0]["count"]), (1, &json!(1000)));
}

/// These are no instructions on any processor: the signal is the program's own.
#[test]
fn a_programs_own_illegal_instruction_is_no_limit() {
    let dir = Dir::new();
    for word in ["ud2", "nonsense"] {
        let (ran, workload) = run(&dir, &[word]);
        assert_eq!((ran.status, limits(&workload)), (132, vec![]), "{word}");
        assert_eq!((&workload["signals"][0]["signal"], &workload["stopped"]), (&json!("SIGILL"), &Value::Null));
    }
}

/// A filter would stop Valgrind itself. It does what it does natively, and the recorder goes on.
#[test]
fn filters_of_system_calls_do_what_they_do() {
    let dir = Dir::new();
    for word in ["errno", "kill", "answers", "trap", "trap-death", "strict", "inherited"] {
        let word = format!("seccomp-{word}");
        let native = Ran::of(natively(&[&word]));
        let (ran, workload) = run(&dir, &[&word]);
        assert_eq!((ran.status, ran.out, ran.err), (native.status, native.out, String::new()), "{word}");
        assert_eq!(limits(&workload), [], "{word}");
        let signal = (native.status > 128).then(|| json!(native.status - 128));
        assert_eq!(workload["signals"][0].get("number"), signal.as_ref(), "{word}");
    }
}

#[test]
fn the_stack_grows_for_any_address_within_its_limit() {
    let r = record(&program("limits", &[]), &["below-stack"]);
    assert_eq!(r.report.exit, Exit::Code(0));
    let stack = r.ops.iter().filter_map(|(_, op)| match op {
        Op::Map(m) if m.backing == Backing::Stack => Some(m.len),
        _ => None,
    });
    let stack: u64 = stack.sum();
    assert!(((7 << 20) - (64 << 10)..8 << 20).contains(&stack), "{stack} bytes of stack");
    assert_eq!(record(&program("limits", &[]), &["below-limit"]).report.exit, Exit::Signal(libc::SIGSEGV));
}

/// Where the system has no huge pages, the program learns it.
#[test]
fn segments_of_huge_pages_are_as_the_system_has_them() {
    let native = Ran::of(natively(&["huge-segment"]));
    let (ran, workload) = run(&Dir::new(), &["huge-segment"]);
    assert_eq!((ran.status, ran.out.as_str(), limits(&workload)), (native.status, native.out.as_str(), vec![]));
}

#[test]
fn what_the_program_is_refused_is_said() {
    let dir = Dir::new();
    // More than the system has, too, is nothing of the recorder's.
    let (ran, workload) = run(&dir, &["reserve"]);
    assert_eq!(ran.out, "refused refused\n");
    assert_eq!(limits(&workload), [("addresses", "mmap of 102400 MiB was refused with EINVAL")]);
    let (_, workload) = run(&dir, &["calls"]);
    let calls = [
        ("system-call", "pidfd_open failed with ENOSYS"),
        ("system-call", "mremap with MREMAP_DONTUNMAP failed with EINVAL"),
        ("system-call", "prlimit64 could not lower the hard limit of open files: EPERM"),
    ];
    // Newer Valgrinds know pidfd_open.
    let seen = limits(&workload);
    let unknown = seen.contains(&calls[0]);
    assert_eq!(seen, calls[usize::from(!unknown)..]);
    assert!(!unknown || workload["limits"][0]["count"] == 5);
    let (ran, workload) = run(&dir, &["spawn"]);
    assert_eq!(ran.out, "0 127\n");
    assert_eq!(
        limits(&workload),
        [("exec", "posix_spawn in its parent does not return the error with which its exec failed")]
    );
    let file = set_user_id("child");
    let (ran, workload) = run(&dir, &["exec", file.to_str().unwrap()]);
    assert_eq!(ran.out, "exec 13\n");
    let what = format!("{} was not executed: it is set-user-ID or set-group-ID", file.display());
    assert_eq!(limits(&workload), [("exec", what.as_str())]);
}

/// It happens three times and is said once.
#[test]
fn what_is_recorded_in_another_form_is_said() {
    let (ran, workload) = run(&Dir::new(), &["masked"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let what = "maskmovq and maskmovdqu are recorded as a load and a store of the whole operand";
    assert_eq!(limits(&workload), [("record", what)]);
    assert_eq!(workload["limits"][0]["count"], 1);
}

/// As daemons do, and setpriv.
#[test]
fn a_program_that_gives_up_its_user_is_recorded_with_its_children() {
    // SAFETY: it has no arguments.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let nobody = |file: &std::path::Path| {
        let args = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "test", "-x"];
        Command::new("setpriv").args(args).arg(file).status().is_ok_and(|status| status.success())
    };
    let recorder = tool().join("farreach-amd64-linux");
    let (ran, workload) = run(&Dir::new(), &["drop"]);
    if !nobody(&recorder) {
        eprintln!("in part: others than root cannot reach the recorder in {}", recorder.display());
        let what = limits(&workload)[0].1.to_owned();
        assert!(ran.status == 99 && what.contains("cannot reach"), "{} {what}", ran.status);
        return;
    }
    assert_eq!((ran.status, ran.out.as_str(), ran.err.as_str(), limits(&workload)), (0, "65534\n", "", vec![]));
    assert_eq!(workload["processes"], 2);
    // A set-user-ID program of root changes nothing for root. That of Debian 13 asks a set-group-ID program, which is
    // not executed.
    let (dir, mut farreach) = (Dir::new(), command());
    let file = dir.path("su.json");
    farreach.env("FARREACH_VALGRIND_DIR", tool()).args(["run", "-m", "t94/single", "--json", "-o", &file, "--"]);
    let ran = Ran::of(farreach.args(["su", "-s", "/bin/sh", "nobody", "-c", "id -u; (id -u)"]).output().unwrap());
    let result: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    match limits(&result["workload"])[..] {
        [] => assert_eq!((ran.status, ran.out.as_str()), (0, "65534\n65534\n"), "{}", ran.err),
        [("exec", what)] => assert!(what.contains("unix_chkpwd was not executed"), "{what}"),
        ref others => panic!("{others:?}"),
    }
}

/// Valgrind needs /proc. A program that took it away has no children that are programs, and hears so from exec.
#[test]
fn without_proc_an_exec_fails_and_is_said() {
    let dir = Dir::new();
    let file = dir.path("result.json");
    let mut farreach = command();
    farreach.env("FARREACH_VALGRIND_DIR", tool()).args(["run", "-m", "t94/single", "--json", "-o", &file, "--"]);
    let words = ["unshare", "-m", "sh", "-c", "umount -l /proc || exit 77; /bin/echo heard; echo $?"];
    let ran = Ran::of(farreach.args(words).output().unwrap());
    if ran.status != 0 {
        eprintln!("skipped: mounts need privileges: {}", ran.err);
        return;
    }
    assert_eq!(ran.out, "127\n", "{}", ran.err);
    let result: Value = serde_json::from_str(&dir.read("result.json")).unwrap();
    let what = limits(&result["workload"])[0].1.to_owned();
    assert!(what.starts_with("/bin/echo was not executed") && what.contains("/proc/self/maps"), "{what}");
}
