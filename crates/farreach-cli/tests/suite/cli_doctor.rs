//! `farreach doctor`: each line is a try, so what is taken away from a child is missing there, with the reason.

use crate::cli::{Ran, command, farreach, more_rights, without_privilege};
use serde_json::Value;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// All lines, in their order.
const LINES: [&str; 24] = [
    "recorder",
    "frames",
    "pagemap-scan",
    "damon",
    "idle-pages",
    "clear-refs",
    "soft-dirty",
    "huge-pages",
    "huge-pages-64k",
    "hugetlbfs",
    "swap",
    "kernel",
    "memfd",
    "userfaultfd",
    "userfaultfd-minor",
    "userfaultfd-wp",
    "seccomp",
    "ptrace",
    "pidfd",
    "personality",
    "affinity",
    "seccomp-notification",
    "instructions",
    "systems",
];

/// A line of the result.
struct Line {
    name: String,
    works: bool,
    found: String,
    turn_on: String,
}

fn lines(result: &Value) -> Vec<Line> {
    assert_eq!(result["schema"], "farreach.doctor/1");
    let line = |line: &Value| {
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let works = line["works"].as_bool().expect("true or false");
        let found = Line { name: text("name"), works, found: text("found"), turn_on: text("turn_on") };
        assert!(!found.found.is_empty() && line["needed_for"].is_string() && line["commands"].is_array(), "{line}");
        assert!(!works || line["turn_on"].is_null(), "{line}");
        found
    };
    result["lines"].as_array().expect("lines").iter().map(line).collect()
}

fn doctor(names: &[&str]) -> Command {
    let mut command = command();
    command.args(["doctor", "--json"]).args(names);
    command
}

fn ran(command: &mut Command) -> Ran {
    Ran::of(command.output().unwrap())
}

/// The command under a filter that refuses these system calls, and the ioctl that makes a userfaultfd.
fn refusing(command: &mut Command, calls: &'static [i64]) -> Ran {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let op = |code, k: u32, jf| libc::sock_filter { code, jt: 0, jf, k };
    let refuse = op(RETURN, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0);
    let mut code = vec![op(LOAD, 0, 0)]; // the number
    for &call in calls {
        code.extend([op(JUMP_IF_EQUAL, call as u32, 1), refuse]);
    }
    code.extend([op(JUMP_IF_EQUAL, libc::SYS_ioctl as u32, 3), op(LOAD, 24, 0)]); // the request
    code.extend([op(JUMP_IF_EQUAL, 0xaa00, 1), refuse, op(RETURN, libc::SECCOMP_RET_ALLOW, 0)]);
    let install = move || {
        let filter = libc::sock_fprog { len: code.len() as u16, filter: code.as_ptr().cast_mut() };
        // SAFETY: plain numbers and a filter that lives through the calls.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
                | libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter)
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: two system calls between fork and exec.
    ran(unsafe { command.pre_exec(install) })
}

#[test]
fn every_line_is_there_and_what_the_tests_need_works() {
    let _damon = crate::common::damon();
    let result = ran(&mut doctor(&[])).good().json();
    let lines = lines(&result);
    assert_eq!(lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), LINES);
    for name in ["recorder", "memfd", "affinity"] {
        let line = lines.iter().find(|line| line.name == name).unwrap();
        assert!(line.works, "{name}: {}", line.found);
    }
    let contiguity = farreach(["contiguity", "--json", "--", "sleep", "0.1"]).good().json();
    assert_eq!(lines[1].works, contiguity["frames_visible"] == true, "{}", lines[1].found);
}

#[test]
fn calls_that_a_filter_refuses_do_not_work() {
    const REFUSED: &[i64] = &[
        libc::SYS_userfaultfd,
        libc::SYS_seccomp,
        libc::SYS_ptrace,
        libc::SYS_pidfd_open,
        libc::SYS_personality,
        libc::SYS_sched_setaffinity,
        libc::SYS_perf_event_open,
    ];
    let fails = ["userfaultfd", "userfaultfd-minor", "userfaultfd-wp", "seccomp", "ptrace", "pidfd", "personality"];
    let without = ["affinity", "seccomp-notification", "instructions"];
    // Those before it are slow, or depend on how much memory is free.
    let names: Vec<&str> = LINES.into_iter().skip_while(|name| *name != "kernel").chain(["frames"]).collect();
    let free = lines(&ran(&mut doctor(&names)).json());
    let result = refusing(&mut doctor(&names), REFUSED);
    assert_eq!((result.status, result.err.as_str()), (1, ""));
    for (line, free) in lines(&result.json()).iter().zip(&free) {
        let Line { name, works, found, turn_on } = line;
        if fails.iter().chain(&without).all(|fails| fails != name) {
            assert_eq!((works, &free.name), (&free.works, name), "{found}");
            continue;
        }
        assert!(!works, "{name}: {found}");
        let words = ["Operation not permitted", "seccomp filter, as in a container"];
        assert!(words.iter().all(|word| found.contains(word)), "{name}: {found}");
        assert!(turn_on.contains("seccomp=unconfined"), "{name}: {turn_on}");
    }
}

#[test]
fn memory_in_files_needs_files_that_may_be_as_large() {
    let no_files = || {
        let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the place is valid for the kernel to read.
        if unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) } == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    };
    let mut command = doctor(&["memfd"]);
    // SAFETY: one system call between fork and exec.
    let result = ran(unsafe { command.pre_exec(no_files) });
    let line = &lines(&result.json())[0];
    assert_eq!((result.status, line.works), (1, false));
    assert!(line.found.contains("memfd: File too large"), "{}", line.found);
}

#[test]
fn frames_are_for_those_who_may_see_them_and_the_recorder_must_be_there() {
    let result = ran(without_privilege(&mut doctor(&["frames"])));
    let line = &lines(&result.json())[0];
    assert_eq!((result.status, line.works), (1, false));
    assert!(line.turn_on.contains(more_rights("CAP_SYS_ADMIN")), "{}", line.turn_on);
    assert!(line.found.contains("CAP_SYS_ADMIN"), "{}", line.found);
    let result = ran(doctor(&["recorder"]).env("FARREACH_VALGRIND_DIR", "/no/such/folder"));
    let line = &lines(&result.json())[0];
    assert_eq!((result.status, line.works), (1, false));
    assert!(line.found.contains("/no/such/folder") && line.turn_on.contains("make tool"), "{}", line.found);
}

#[test]
fn a_command_stands_for_all_that_it_may_use() {
    let result = ran(&mut doctor(&["contiguity", "memfd", "pagemap-scan"]));
    let names: Vec<String> = lines(&result.json()).into_iter().map(|line| line.name).collect();
    assert_eq!(names, ["frames", "pagemap-scan", "memfd"]);
    let table = farreach(["doctor", "memfd", "affinity"]).good().out;
    let shown: Vec<&str> = table.lines().map(|line| line.split_whitespace().next().unwrap_or("")).collect();
    assert_eq!((shown[0], &shown[2..]), ("works", &["memfd", "affinity"][..]), "{table}");
    farreach(["doctor", "ptrance"]).bad(2, &["ptrance", "ptrace"]);
    let result = ran(&mut doctor(&["trap"]));
    assert_eq!(lines(&result.json()).len(), 10, "{}", result.out);
}
