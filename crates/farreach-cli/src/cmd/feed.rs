//! Sources of batches: a stored trace, a kernel of the catalogue, or a running program.

use super::early::{Early, MemoryLook};
use super::progress::{Display, Goal};
use anyhow::{Result, bail};
use farreach_live::{Exit, Options, Recorder, Report, Watch};
use farreach_machine::Progress;
use farreach_trace::{self as trace, Arrival, Pipe, frt};
use farreach_types::event::{Batch, Source};
use farreach_workloads as workloads;
use std::ffi::OsString;
use std::time::Duration;

/// Longest wait for a pipe between two checks for signals.
const PIPE_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A source that is no running program.
enum Origin {
    Here(Box<dyn Source + Send>),
    Pipe(Pipe),
}

/// The next item of a source.
enum Next {
    Batch(Batch),
    End,
    Signal,
}

impl Origin {
    fn open(file: &str, format: Option<&str>) -> Result<Origin> {
        Ok(match workloads::open_source(file)? {
            Some(_) if format.is_some() => bail!("{file}: a kernel is no file; it has no --format"),
            Some(kernel) => Origin::Here(kernel),
            None if trace::is_pipe(file) => Origin::Pipe(Pipe::open(file.to_owned(), format.map(str::to_owned))?),
            None => Origin::Here(trace::open_trace(file, format)?.source),
        })
    }

    fn next(&mut self, signals: &Watch) -> Result<Next> {
        let pipe = match self {
            Origin::Here(source) => {
                let Some(batch) = source.next_batch()? else { return Ok(Next::End) };
                return Ok(if signals.take().0 > 0 { Next::Signal } else { Next::Batch(batch) });
            }
            Origin::Pipe(pipe) => pipe,
        };
        loop {
            let arrival = pipe.wait(PIPE_POLL_INTERVAL);
            if signals.take().0 > 0 {
                // A signal to a whole pipeline also ends its writer: a trace that is cut then is no error.
                return Ok(Next::Signal);
            }
            match arrival? {
                Arrival::Batch(batch) => return Ok(Next::Batch(batch)),
                Arrival::End => return Ok(Next::End),
                Arrival::Nothing => {}
            }
        }
    }
}

/// Refuses a trace that cannot be read from its beginning, before anything that takes long. A pipe, which can be read
/// once, is left alone.
pub fn check(file: &str, format: Option<&str>) -> Result<()> {
    if workloads::open_source(file)?.is_none() && !trace::is_pipe(file) {
        trace::open_trace(file, format)?.source.next_batch()?;
    }
    Ok(())
}

/// Gives every batch of a trace, or of the kernel that `workload:NAME` names, to `each`, which returns whether it wants
/// more and its progress. Returns what ended it early, if anything did: the result is that of the batches so far.
/// `limit`: instructions after which `each` wants no more.
pub fn stored(
    file: &str,
    format: Option<&str>,
    limit: Option<u64>,
    mut each: impl FnMut(Batch) -> Result<(bool, Progress)>,
) -> Result<Option<Early>> {
    let signals = Watch::begin();
    let mut memory = MemoryLook::default();
    let mut origin = Origin::open(file, format)?;
    // Only farreach's own traces have their length in an index.
    let references = frt::reader::read_index(file).ok().map(|(_, totals)| totals.references());
    let mut display = Display::new(Goal { instructions: limit, references });
    let early = loop {
        match origin.next(&signals)? {
            Next::Batch(batch) => {
                let (more, progress) = each(batch)?;
                if !more {
                    break None;
                }
                display.update(progress);
                if let Some(early) = memory.short() {
                    break Some(early);
                }
            }
            Next::End => break None,
            Next::Signal => break signals.first().map(Early::Signal),
        }
    };
    display.finish();
    Ok(early)
}

/// Runs a program under the recorder and gives every batch to `each`, as long as it wants more. Also returns what ended
/// it early, if anything did.
pub fn live(
    command: &[OsString],
    limit: Option<u64>,
    each: impl FnMut(Batch) -> Result<(bool, Progress)>,
) -> Result<(Report, Option<Early>)> {
    live_with(command, &Options::default(), limit, each)
}

/// As [`live`], recorded in this way.
pub fn live_with(
    command: &[OsString],
    options: &Options,
    limit: Option<u64>,
    mut each: impl FnMut(Batch) -> Result<(bool, Progress)>,
) -> Result<(Report, Option<Early>)> {
    let mut memory = MemoryLook::default();
    let mut recorder = Recorder::start(command, options)?;
    let mut early = None;
    let mut display = Display::new(Goal { instructions: limit, references: None });
    while let Some(batch) = recorder.next_batch()? {
        let (more, progress) = each(batch)?;
        if !more {
            break;
        }
        display.update(progress);
        early = memory.short();
        if early.is_some() {
            break;
        }
    }
    let report = recorder.finish()?;
    display.finish();
    if report.exit == Exit::Signal(libc::SIGKILL) && early.is_none() {
        memory.say_if_killed();
    }
    let early = early.or(report.interrupted.map(Early::Signal));
    Ok((report, early))
}
