//! Whole systems by the commands. Tests that boot QEMU run in `make system-test` only, and say so elsewhere.

use crate::cli::{Dir, Ran};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// `farreach`, with what it keeps in the folder that `make system-test` fills.
fn command() -> Command {
    let mut command = crate::cli::command();
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    command.env("FARREACH_VALGRIND_DIR", crate::common::tool()).env("XDG_CACHE_HOME", cache).stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Ran {
    Ran::of(command().args(args).output().unwrap())
}

/// Whether guests are to be booted.
fn boots() -> bool {
    let asked = std::env::var_os("FARREACH_SYSTEM_TEST").is_some();
    if !asked {
        eprintln!("skipped: make system-test boots guests");
    }
    asked
}

/// Whether there is a QEMU for this architecture. That for RISC-V may be missing.
fn has(arch: &str) -> bool {
    let there = arch != "riscv64" || Command::new("qemu-system-riscv64").arg("--version").output().is_ok();
    if !there {
        eprintln!("skipped: there is no qemu-system-{arch}");
    }
    there
}

/// A folder with files of the names that are looked for, and nothing that works.
fn without_qemu(dir: &Dir) -> PathBuf {
    let path = PathBuf::from(dir.path("qemu"));
    std::fs::create_dir(&path).unwrap();
    path
}

#[test]
fn what_cannot_be_recorded_is_refused_at_once() {
    let dir = Dir::new();
    let nothing = without_qemu(&dir);
    run(&["run", "--check", "all", "--", "true"]).bad(125, &["--check all needs --system"]);
    run(&["run", "--from", "mark", "--", "true"]).bad(125, &["--from mark: FARREACH_BEGIN()"]);
    run(&["run", "--system", "--from", "end", "--", "true"]).bad(125, &["'start', 'mark', or a whole number from 1"]);
    run(&["run", "--system", "--", "true"])
        .bad(125, &["qemu-system-x86_64, qemu-system-aarch64 or qemu-system-riscv64, not 'true'"]);
    run(&["guest", "run", "--arch", "riscv32", "--", "true"]).bad(125, &["x86_64, aarch64, riscv64"]);
    run(&["guest", "record", "--", "true"]).bad(125, &["--output"]);
    let mut guest = command();
    guest.env("FARREACH_QEMU_DIR", &nothing).args(["guest", "run", "--", "true"]);
    Ran::of(guest.output().unwrap()).bad(125, &["farreach-qemu.so is not there", "make system", "FARREACH_QEMU_DIR"]);
    // A machine on the tables of a guest has none here.
    run(&["run", "-m", "t94/single:placement=guest", "--", "true"]).bad(125, &["placement"]);
}

#[test]
fn a_guest_is_recorded_checked_and_simulated() {
    if !boots() {
        return;
    }
    for (arch, machine) in
        [("x86_64", "today/skylake"), ("aarch64", "today/neoverse-n1"), ("riscv64", "today/neoverse-n1")]
    {
        if !has(arch) {
            continue;
        }
        let dir = Dir::new();
        let trace = dir.path("guest.frt");
        let script = "sleep 1; echo \"$0 $1\"; exit 7";
        let ran = run(&["guest", "record", "--arch", arch, "-o", &trace, "--", "sh", "-c", script, "it's", "$HOME"]);
        assert_eq!((ran.status, ran.out.as_str()), (7, "it's $HOME\n"), "{}", ran.err);
        assert!(ran.err.contains(" instructions, "), "{}", ran.err);
        assert!(run(&["trace", "check", &trace]).good().out.contains(": sound; "));
        let ran = run(&["sim", &trace, "-m", machine, "--json"]);
        assert_eq!(ran.status, 0, "{}", ran.err);
        assert!(ran.err.contains("placement = guest") && ran.err.contains(machine), "{}", ran.err);
        let result = ran.json();
        assert_eq!(result["workload"]["guest"]["arch"], arch);
        // While the command sleeps, nothing of the boot goes on, whose work would be counted as the command's.
        let instructions = result["workload"]["instructions"].as_u64();
        assert!(instructions.is_some_and(|all| all < 20_000_000), "{arch}: {instructions:?}");
        let misses = |result: &Value| result["machines"][0]["counts"]["misses"].clone();
        assert!(misses(&result).as_u64().is_some_and(|misses| misses > 100), "{result}");
        // The same, live: two runs of a guest are equal.
        let file = dir.path("result.json");
        let words = ["guest", "run", "--arch", arch, "-m", machine, "--json", "-o", &file];
        let ran = run(&[&words[..], &["--", "sh", "-c", script, "it's", "$HOME"]].concat());
        assert_eq!((ran.status, ran.out.as_str()), (7, "it's $HOME\n"), "{}", ran.err);
        let live: Value = serde_json::from_str(&dir.read("result.json")).unwrap();
        assert_eq!(live["workload"]["instructions"], result["workload"]["instructions"]);
        assert_eq!(misses(&live), misses(&result));
        assert_eq!(live["workload"]["guest"]["checks"]["different"], 0);
    }
}

/// A processor uses what another has unmapped, until it is told. These references are no difference, and machines serve
/// them.
#[test]
fn a_processor_that_is_told_late_is_recorded_and_simulated() {
    if !boots() {
        return;
    }
    let dir = Dir::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/programs/unmaps.c");
    let (program, result) = (dir.path("unmaps"), dir.path("result.json"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-static", "-pthread", "-o", &program]).arg(source);
    assert!(compiler.status().unwrap().success());
    let words = ["guest", "run", "--processors", "4", "--json", "-o", &result, "-m", "t94/single"];
    let ran = run(&[&words[..], &["-m", "today/skylake:placement=guest,stale=guest", "--", &program]].concat());
    assert_eq!(ran.status, 0, "{}", ran.err);
    let result: Value = serde_json::from_str(&dir.read("result.json")).unwrap();
    let checks = &result["workload"]["guest"]["checks"];
    assert_eq!(checks["different"], 0, "{checks}");
    assert!(checks["stale"].as_u64().is_some_and(|stale| stale > 0), "{checks}");
    let restored = &result["machines"][0]["counts"]["guest"]["restored_pages"];
    assert!(restored.as_u64().is_some_and(|pages| pages > 0), "{}", result["machines"][0]["counts"]);
}

/// The bytes of a trace without those that may differ: the folder of the run and the date in its header, and the sum of
/// the header behind it.
fn without_date(trace: &str) -> Vec<u8> {
    const HEAD: usize = 16;
    let bytes = std::fs::read(trace).unwrap();
    let end = HEAD + u32::from_le_bytes(bytes[12..HEAD].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[HEAD..end]).unwrap();
    header["date"].take();
    let arguments = header["arguments"].as_array_mut().unwrap();
    let at = arguments.iter().position(|argument| argument == "-initrd").unwrap() + 1;
    arguments[at].take();
    [&bytes[..HEAD], header.to_string().as_bytes(), &bytes[end + 8..]].concat()
}

#[test]
fn two_recordings_of_a_guest_are_equal_byte_for_byte() {
    if !boots() {
        return;
    }
    // Interrupts of the timer, processes on all processors, random numbers, the time.
    let script = "for i in 1 2 3 4 5; do ls -lR /proc/self /sys/kernel/mm > /dev/null & done; wait; sleep 0.1; \
                  cat /proc/interrupts /proc/uptime /proc/sys/kernel/random/uuid";
    for [arch, processors] in [["x86_64", "1"], ["x86_64", "2"], ["aarch64", "2"]] {
        let dir = Dir::new();
        let [one, other] = ["one.frt", "other.frt"].map(|name| {
            let trace = dir.path(name);
            let words = ["guest", "record", "--arch", arch, "--processors", processors, "-o", &trace, "--"];
            let ran = run(&[&words[..], &["sh", "-c", script]].concat());
            assert!(ran.status == 0 && ran.out.contains("interrupts"), "{}{}", ran.out, ran.err);
            (ran.out, without_date(&trace))
        });
        assert_eq!(one.0, other.0);
        assert!(one.1.len() > 100_000 && one.1 == other.1, "{arch}, {processors} processors: two traces differ");
    }
}

#[test]
fn an_interrupt_of_a_guest_keeps_what_was_seen() {
    if !boots() {
        return;
    }
    let dir = Dir::new();
    let file = dir.path("result.json");
    let mut guest = command();
    guest.args(["guest", "run", "-m", "t94/single", "--json", "-o", &file, "--", "sh", "-c"]);
    guest.args(["echo ready; while :; do :; done"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = guest.spawn().unwrap();
    let mut console = std::io::BufReader::new(running.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut console, &mut line).unwrap();
    assert_eq!(line, "ready\n");
    std::thread::sleep(Duration::from_secs(1));
    // SAFETY: plain numbers.
    unsafe { libc::kill(running.id() as i32, libc::SIGINT) };
    assert_eq!(running.wait().unwrap().code(), Some(130));
    let result: Value = serde_json::from_str(&dir.read("result.json")).unwrap();
    assert_eq!(result["workload"]["stopped"], "interrupted");
    assert!(result["workload"]["instructions"].as_u64().unwrap() > 1_000_000);
}

#[test]
fn a_guest_that_panics_or_reboots_is_a_failure_with_a_result() {
    if !boots() {
        return;
    }
    for script in ["echo c > /proc/sysrq-trigger", "busybox reboot -f"] {
        let ran = run(&["guest", "run", "-m", "t94/single", "--", "sh", "-c", script]);
        assert_eq!(ran.status, 125, "{}{}", ran.out, ran.err);
        assert!(ran.err.contains("the guest ended without the exit status of its command"), "{}", ran.err);
        assert!(ran.out.contains("t94/single"), "{}", ran.out);
    }
    run(&["guest", "run", "--", "no-such-program"]).bad(127, &["does not have 'no-such-program', nor this machine"]);
}

#[test]
fn processors_may_stop_and_start_again_and_marks_come_in_any_order() {
    if !boots() {
        return;
    }
    let cpu = "/sys/devices/system/cpu/cpu1/online";
    let script = format!(
        "echo 0 > {cpu}; ls /proc > /dev/null; echo 1 > {cpu}; nproc; m=/farreach/mark; $m end; $m end;
        $m begin; $m begin; ls /sys > /dev/null; $m status 300; $m status 255"
    );
    for arch in ["x86_64", "aarch64"] {
        let dir = Dir::new();
        let trace = dir.path("guest.frt");
        let words = ["guest", "record", "--arch", arch, "--processors", "2", "--check", "all", "-o", &trace];
        let ran = run(&[&words[..], &["--", "sh", "-c", &script]].concat());
        assert_eq!((ran.status, ran.out.as_str()), (0, "2\n"), "the last status counts: {}", ran.err);
        assert!(run(&["trace", "check", &trace]).good().out.contains(": sound; "));
    }
}

#[test]
fn a_guest_that_ends_before_recording_begins_is_a_failure() {
    if !boots() {
        return;
    }
    let ran = run(&["guest", "run", "--from", "100G", "-m", "t94/single", "--", "true"]);
    assert!(ran.status == 125 && ran.err.contains("nothing was recorded"), "{}: {}", ran.status, ran.err);
    assert_eq!(ran.out, "", "a table of zeros is no result");
}

#[test]
fn a_killed_farreach_leaves_nothing() {
    if !boots() {
        return;
    }
    let dir = Dir::new();
    let folder = dir.path("tmp");
    std::fs::create_dir(&folder).unwrap();
    let mut guest = command();
    guest.env("TMPDIR", &folder).args(["guest", "record", "-o", &dir.path("guest.frt"), "--", "sh", "-c"]);
    let mut running = guest.args(["echo ready; while :; do :; done"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let console = running.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(console), &mut line).unwrap();
    assert_eq!(line, "ready\n");
    running.kill().unwrap();
    running.wait().unwrap();
    // QEMU's command line has a file of the process.
    let own = format!("/proc/{}/fd/", running.id());
    let is_own = |process: std::fs::DirEntry| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&own)
    };
    let runs = || std::fs::read_dir("/proc").unwrap().flatten().any(is_own);
    for _ in 0..100 {
        if !runs() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(!runs(), "QEMU runs on");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "a file is left");
}
