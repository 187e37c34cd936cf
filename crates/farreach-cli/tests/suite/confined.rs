//! Programs that confine themselves: to small files, to another root, to a container of processes. They and their
//! children are recorded.

use std::time::{Duration, Instant};

use crate::common::{command, options, program, record};
use farreach_live::{Exit, Recorder};
use farreach_types::addr::Asid;
use farreach_types::event::{Op, Source};

/// A program with this limit cannot make the file of a ring.
#[test]
fn children_of_a_program_with_small_files_are_recorded() {
    let r = record(&program("processes", &[]), &["file-size"]);
    assert_eq!((r.report.exit, r.report.verified), (Exit::Code(3), 4));
}

/// A program with this root cannot see the directory of the run.
#[test]
fn children_in_another_root_are_recorded() {
    let root = crate::common::scratch().join(format!("root-{}", std::process::id()));
    std::fs::create_dir_all(&root).unwrap();
    std::fs::copy("/bin/true", root.join("program")).unwrap();
    let r = record(&program("processes", &["-static"]), &["root", root.to_str().unwrap()]);
    if r.report.exit == Exit::Code(77) {
        eprintln!("skipped: another root needs privileges");
        return;
    }
    assert_eq!((r.report.exit, r.report.verified), (Exit::Code(3), 2));
}

/// Processes in a PID namespace have other numbers, and the first of them is not killed by its own signals.
#[test]
fn containers_are_recorded_and_end_with_their_reader() {
    let program = program("processes", &["-static"]);
    let r = record(&program, &["container"]);
    if r.report.exit == Exit::Code(77) {
        eprintln!("skipped: containers need privileges");
        return;
    }
    assert_eq!((r.report.exit, r.report.verified), (Exit::Code(3), 3));
    let starts = r.ops.iter().filter_map(|(_, op)| match op {
        Op::Start { pid, parent, .. } => Some((*pid, *parent)),
        _ => None,
    });
    let starts: Vec<_> = starts.collect();
    assert_eq!((starts[0], starts[1].1), ((r.report.pid, None), Some(Asid(2))));
    assert!(starts[1].0 > 2, "the number that others know it by: {}", starts[1].0);
    let mut recorder = Recorder::start(&command(&program, &["container-forever"]), &options()).unwrap();
    while recorder.next_batch().unwrap().expect("more").asid != Asid(2) {}
    recorder.finish().unwrap();
    let is_left = |entry: std::fs::DirEntry| {
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        words.split(|&b| b == 0).any(|word| word == program.as_os_str().as_encoded_bytes())
            && words.windows(17).any(|w| w == b"container-forever")
    };
    let begun = Instant::now();
    while std::fs::read_dir("/proc").unwrap().flatten().any(is_left) {
        assert!(begun.elapsed() < Duration::from_secs(10), "the container goes on unseen");
        std::thread::sleep(Duration::from_millis(50));
    }
}
