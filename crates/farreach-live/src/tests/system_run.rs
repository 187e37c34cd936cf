//! Runs of a program that says it is a QEMU, and leaves a ring that was made before.

use super::guest::{BLOCK, begun};
use super::*;
use crate::layout::{control, ring};
use crate::system_recorder::PLUGIN;
use crate::{Exit, Options, Recorder, Report, SystemOptions};
use farreach_types::event::{End, Source};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// `$run` is the folder of the run; `$there` the folder of the test.
const SCRIPT: &str = r#"#!/bin/sh
if [ "$1" = --version ]; then echo 'QEMU emulator version 10.0.2 (none)'; exit; fi
there=$(dirname "$0")
run=$(printf '%s' "$*" | sed 's/.*,run-dir=\([^,]*\),.*/\1/')
at() { dd bs=1 seek=$2 conv=notrunc of=$1 2>/dev/null; }
byte() { printf "\\$(printf %03o $(($1 & 255)))"; }
four() { byte $1; byte $(($1 >> 8)); byte $(($1 >> 16)); byte $(($1 >> 24)); }
cp $there/ring $run/ring.new
four $$ | at $run/ring.new RING_PID
mv $run/ring.new $run/ring.0
four 1 | at $run/control NEXT_RING
if [ -e $there/published ]; then four 1 | at $run/control HEAD; four 1 | at $run/control ORDER; fi
cp $there/status $run/status
"#;

/// What became of it: the ends of its address spaces, and the report.
fn run(words: &[u64], published: bool, how: &str) -> Result<(Vec<(u32, End)>, Report), String> {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file(PLUGIN), "").unwrap();
    std::fs::write(file("status"), "3\n").unwrap();
    if published {
        std::fs::write(file("published"), "").unwrap();
    }
    let mut bytes = vec![0; layout::RING_HEAD];
    bytes[ring::MAGIC..ring::MAGIC + 8].copy_from_slice(&layout::MAGIC.to_le_bytes());
    bytes[ring::PRODUCED] = published.into();
    bytes[ring::USED..ring::USED + 4].copy_from_slice(&(words.len() as u32).to_le_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes.resize(layout::RING_BYTES, 0);
    std::fs::write(file("ring"), bytes).unwrap();
    let places = [
        ("RING_PID", ring::PID),
        ("NEXT_RING", control::NEXT_RING),
        ("HEAD", control::HEAD),
        ("ORDER", control::ORDER),
    ];
    let script = places.iter().fold(SCRIPT.to_owned(), |text, (name, at)| text.replace(name, &at.to_string()));
    std::fs::write(file("qemu"), script + how + "\n").unwrap();
    std::fs::set_permissions(file("qemu"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let shared = tempfile::tempdir().unwrap();
    let options = SystemOptions {
        plugin_dir: Some(folder.path().into()),
        run: Options { shared_dir: Some(shared.path().into()), ..Options::default() },
        ..SystemOptions::default()
    };
    let result = read(&file("qemu"), &options);
    assert_eq!(std::fs::read_dir(shared.path()).unwrap().count(), 0, "the folder of the run is gone");
    result.map_err(|why| why.to_string())
}

fn read(qemu: &Path, options: &SystemOptions) -> farreach_types::Result<(Vec<(u32, End)>, Report)> {
    let mut recorder = Recorder::start_system(&[qemu.into(), "-m".into(), "1G".into()], options)?;
    let mut ends = Vec::new();
    while let Some(batch) = recorder.next_batch()? {
        ends.extend(batch.ops.iter().filter_map(|op| match op {
            Op::End(end) => Some((batch.asid.0, *end)),
            _ => None,
        }));
    }
    Ok((ends, recorder.finish()?))
}

fn stream(different: u64, tally: u64) -> Vec<u64> {
    let summary = record(record::SUMMARY, &[9, different, 0, 0, 0, 0, 0, 0, 0, 0]);
    [begun(), BLOCK.to_vec(), summary, record(record::END, &[0, tally])].concat()
}

const TALLY: u64 = 3 | 1 << 10 | 1 << 20;

#[test]
fn a_system_is_read_to_its_end() {
    let (ends, report) = run(&stream(0, TALLY), true, "exit 5").unwrap();
    assert_eq!(ends, [(0, End::Exit(0)), (1, End::Exit(0))]);
    assert_eq!((report.exit, report.verified, report.lost), (Exit::Code(5), 1, 0));
    assert_eq!(report.counts, Counts { instructions: 3, loads: 1, stores: 1 });
    let system = report.system.unwrap();
    assert_eq!((system.guest_status, system.checks.map(|checks| checks.compared)), (Some(3), Some(9)));
}

#[test]
fn a_killed_qemu_loses_nothing_that_was_recorded() {
    let (ends, report) = run(&[begun(), BLOCK.to_vec()].concat(), false, "kill -KILL $$").unwrap();
    assert_eq!(ends, [(0, End::Lost), (1, End::Lost)]);
    assert_eq!((report.exit, report.verified, report.lost), (Exit::Signal(9), 0, 1));
    assert_eq!(report.counts, Counts { instructions: 3, loads: 1, stores: 1 });
    assert_eq!(report.system.unwrap().checks, None);
}

#[test]
fn what_is_not_whole_is_an_error() {
    let partial = [begun(), BLOCK.to_vec()].concat();
    let program = record(record::THREAD_START, &[1]);
    for (words, published, how, why) in [
        (stream(2, TALLY), true, "", "2 of 9 translations differ"),
        (stream(0, TALLY + 1), true, "", "references were lost"),
        (partial.clone(), false, "exit 1", "QEMU ended without an end of its stream"),
        (partial, false, "kill -ABRT $$", "QEMU ended without an end of its stream"),
        (program, true, "", "record 11 is of programs"),
    ] {
        let said = run(&words, published, how).unwrap_err();
        assert!(said.contains(why), "{why}: {said}");
    }
}
