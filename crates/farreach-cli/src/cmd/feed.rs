//! Where batches come from: a stored trace, a kernel of the catalogue, or a running program.

use super::progress::Display;
use anyhow::{Result, bail};
use farreach::event::{Batch, Source};
use farreach::machine::Progress;
use farreach::trace;
use farreach_cli::live::{Options, Recorder, Report, Watch};
use farreach_cli::workloads;
use std::ffi::OsString;

/// Gives every batch of a trace, or of the kernel that `workload:NAME` names, to `each`, which says whether it wants more and how far it is. Says which signal ended it, if one did.
pub fn stored(
    file: &str,
    format: Option<&str>,
    mut each: impl FnMut(Batch) -> Result<(bool, Progress)>,
) -> Result<Option<i32>> {
    let mut source = match workloads::open_source(file)? {
        Some(_) if format.is_some() => bail!("{file}: a kernel is no file; it has no --format"),
        Some(kernel) => kernel,
        None => trace::open_trace(file, format)?.source,
    };
    let mut display = Display::new();
    let signals = Watch::begin();
    let mut interrupted = None;
    while let Some(batch) = source.next_batch()? {
        let (more, progress) = each(batch)?;
        if !more {
            break;
        }
        display.update(progress);
        if signals.take().0 > 0 {
            interrupted = signals.first();
            break; // What was seen so far is the result.
        }
    }
    display.finish();
    Ok(interrupted)
}

/// Runs a program under the recorder and gives every batch to `each`, as long as it wants more.
pub fn live(command: &[OsString], mut each: impl FnMut(Batch) -> Result<(bool, Progress)>) -> Result<Report> {
    let mut recorder = Recorder::start(command, &Options::default())?;
    let mut display = Display::new();
    while let Some(batch) = recorder.next_batch()? {
        let (more, progress) = each(batch)?;
        if !more {
            break;
        }
        display.update(progress);
    }
    let report = recorder.finish()?;
    display.finish();
    Ok(report)
}
