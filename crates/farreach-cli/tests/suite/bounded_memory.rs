//! Memory is bounded by the footprint of the program and the distance that it may run ahead, never by the length of its
//! trace.

use crate::cli::optimised;
use crate::common::{scratch, tool};
use farreach_trace::{Header, TraceWriter, generate};
use farreach_types::event::Source;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A trace of updates of 4 MB at random.
fn trace(name: &str, turns: u64) -> PathBuf {
    let path = scratch().join(format!("memory-{name}-{}.frt", std::process::id()));
    let mut source = generate::uniform(1, 1024, turns);
    let mut writer = TraceWriter::create(&path, Header::default()).expect("a file");
    while let Some(batch) = source.next_batch().expect("generators do not fail") {
        writer.write(&batch).expect("room");
    }
    writer.finish().expect("room");
    path
}

/// Most memory farreach has at any time with these arguments, in bytes. `piped`: what it reads from standard input,
/// through a pipe.
fn peak(args: &[&str], piped: Option<&Path>) -> u64 {
    // The result does not fit in this pipe: when its first byte arrives, farreach has finished its work and still runs.
    let (mut result, writer) = std::io::pipe().expect("a pipe");
    // SAFETY: plain numbers and an open descriptor.
    assert!(unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) } >= 4096);
    let mut command = Command::new(optimised().0);
    command.args(args).stdout(writer).stdin(Stdio::null()).stderr(Stdio::null());
    command.env("FARREACH_VALGRIND_DIR", tool());
    // The length of a pipe is not known.
    let mut cat = piped.map(|path| {
        let file = File::open(path).expect("just written");
        Command::new("cat").stdin(file).stdout(Stdio::piped()).spawn().expect("cat")
    });
    if let Some(cat) = &mut cat {
        command.stdin(cat.stdout.take().expect("piped"));
    }
    let mut child = command.spawn().expect("farreach");
    drop(command);
    let mut json = vec![0];
    result.read_exact(&mut json).expect("a result");
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("the process waits for its reader");
    result.read_to_end(&mut json).expect("the rest of it");
    assert!(json.len() > 2 * 4096, "a result of {} bytes would fit in the pipe", json.len());
    assert!(child.wait().expect("the process ends").success(), "farreach {args:?}");
    cat.iter_mut().for_each(|c| assert!(c.wait().expect("the process ends").success()));
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).expect("a running process has this line");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") * 1024
}

#[test]
fn a_trace_three_times_as_long_takes_no_more_memory() {
    // Two chunks of the trace and more, so that all buffers are in use.
    const TURNS: u64 = 6_000_000;
    let (short, long) = (trace("short", TURNS), trace("long", 3 * TURNS));
    for (piped, options) in [(true, &[][..]), (false, &["--align", "64K"])] {
        let peak = |trace: &Path| {
            let file = if piped { "-" } else { trace.to_str().expect("a plain name") };
            peak(&[&["sim", file, "--json"], options].concat(), piped.then_some(trace))
        };
        let (a, b) = (peak(&short), peak(&long));
        println!("piped {piped}, {options:?}: {a} bytes for N, {b} for 3 N, ratio {:.3}", b as f64 / a as f64);
        assert!(b < a + (3 << 20), "piped {piped}, {options:?}: {a} bytes grew to {b}");
    }
    for path in [short, long] {
        std::fs::remove_file(path).expect("just read");
    }
}

/// Without the filter the simulation is slower than the program, which then runs ahead as far as it may.
#[test]
fn a_program_runs_ahead_as_far_as_it_may() {
    const MEGA: u64 = 1 << 20;
    let peak = |ahead: &str| {
        let run = ["run", "--plain", "--threads", "2", "--ahead", ahead, "--limit", "10M", "--json", "--"];
        peak(&[&run[..], &["sh", "-c", "while :; do :; done"]].concat(), None)
    };
    let least = peak("0");
    for size in [16, 48] {
        let more = peak(&format!("{size}M")) - least;
        println!("--ahead {size}M: {more} bytes more");
        assert!((size * MEGA / 2..size * MEGA * 3 / 2).contains(&more), "--ahead {size}M took {more} bytes more");
    }
}
