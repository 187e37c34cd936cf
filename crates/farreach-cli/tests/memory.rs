//! Memory is bounded by the footprint of the program, never by the length of its trace.

mod common;

use common::scratch;
use farreach::event::Source;
use farreach::trace::{Header, TraceWriter, generate};
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

/// Most memory `farreach sim` has at any time, in bytes.
fn peak(trace: &Path, piped: bool, options: &[&str]) -> u64 {
    let file = if piped { "-" } else { trace.to_str().expect("a plain name") };
    // The result does not fit in this pipe: when its first byte is here, farreach has done its work and is still there.
    let (mut result, writer) = std::io::pipe().expect("a pipe");
    // SAFETY: plain numbers and an open descriptor.
    assert!(unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) } >= 4096);
    let mut command = Command::new(env!("CARGO_BIN_EXE_farreach"));
    command.arg("sim").arg(file).args(options).arg("--json").stdout(writer).stderr(Stdio::null());
    // Through a pipe, nobody knows the length.
    let mut cat = piped.then(|| {
        let file = File::open(trace).expect("just written");
        Command::new("cat").stdin(file).stdout(Stdio::piped()).spawn().expect("cat")
    });
    if let Some(cat) = &mut cat {
        command.stdin(cat.stdout.take().expect("piped"));
    }
    let mut child = command.spawn().expect("farreach");
    drop(command);
    let mut json = vec![0];
    result.read_exact(&mut json).expect("a result");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it waits for us");
    result.read_to_end(&mut json).expect("the rest of it");
    assert!(json.len() > 2 * 4096, "a result of {} bytes would fit in the pipe", json.len());
    assert!(child.wait().expect("it ends").success(), "farreach sim {file}");
    cat.iter_mut().for_each(|c| assert!(c.wait().expect("it ends").success()));
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).expect("a living process has it");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") * 1024
}

#[test]
fn a_trace_ten_times_as_long_takes_no_more_memory() {
    // Long enough for all buffers to be in use.
    const TURNS: u64 = 2_000_000;
    let (short, long) = (trace("short", TURNS), trace("long", 10 * TURNS));
    for (piped, options) in [(true, &[][..]), (false, &["--align", "64K"])] {
        let (a, b) = (peak(&short, piped, options), peak(&long, piped, options));
        println!("piped {piped}, {options:?}: {a} bytes for N, {b} for 10 N, ratio {:.3}", b as f64 / a as f64);
        assert!(b < a + (3 << 20), "piped {piped}, {options:?}: {a} bytes grew to {b}");
    }
    for path in [short, long] {
        std::fs::remove_file(path).expect("just read");
    }
}
