//! Runs a command under the recorder and prints what its stream holds: `livecount [--fast] [--events] [--quiet] COMMAND
//! [ARG...]`. With `--system` the command is a QEMU, and `--mark` waits for a mark in the guest. `--fast` only takes
//! batches, to measure the recorder alone; `--events` prints every event but definitions; `--quiet` prints nothing.

use farreach_live::{Begin, Options, Recorder, SystemOptions};
use farreach_types::event::{Blocks, Item, Kind, Source};
use std::ffi::OsString;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut command: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut flag = |name: &str| command.first().is_some_and(|a| a == name).then(|| command.remove(0)).is_some();
    let (system, mark) = (flag("--system"), flag("--mark"));
    let (fast, events, quiet) = (flag("--fast"), flag("--events"), flag("--quiet"));
    let options = Options {
        valgrind: std::env::var("LIVECOUNT_VALGRIND")
            .unwrap_or_default()
            .split_whitespace()
            .map(OsString::from)
            .collect(),
        ..Options::default()
    };
    let mut recorder = if system {
        let begin = if mark { Begin::Mark } else { Begin::Start };
        Recorder::start_system(&command, &SystemOptions { begin, run: options, ..SystemOptions::default() })?
    } else {
        Recorder::start(&command, &options)?
    };
    let (mut batches, mut words, mut blocks) = (0u64, 0u64, Blocks::default());
    let (mut fetches, mut loads, mut stores, mut ops) = (0u64, 0u64, 0u64, 0u64);
    while let Some(batch) = recorder.next_batch()? {
        batches += 1;
        words += batch.words.len() as u64;
        if fast {
            continue;
        }
        blocks.expand(&batch, |item| {
            match item {
                Item::Access(a) => match a.kind {
                    Kind::Fetch => fetches += 1,
                    Kind::Load => loads += 1,
                    Kind::Store => stores += 1,
                },
                Item::Op(op) => {
                    ops += 1;
                    if events && !op.is_definition() {
                        eprintln!("{} {fetches} {op:x?}", batch.asid.0);
                    }
                }
            }
            true
        })?;
    }
    let report = recorder.finish()?;
    if quiet {
        return Ok(());
    }
    eprintln!("{report:?}");
    eprintln!(
        "cpu seconds: recorder and program {:.2}, reader {:.2}",
        cpu(libc::RUSAGE_CHILDREN),
        cpu(libc::RUSAGE_SELF)
    );
    eprintln!("batches {batches} words {words} fetches {fetches} loads {loads} stores {stores} events {ops}");
    Ok(())
}

/// User and system time of this process or of its ended children.
fn cpu(who: i32) -> f64 {
    // SAFETY: all-zero is a valid rusage, which the call overwrites.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
