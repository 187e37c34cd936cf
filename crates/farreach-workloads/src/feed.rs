//! Sources of batches: a stored trace, a kernel of the catalogue, or a running program.

use crate::open_source;
use farreach_live::early::{Early, MemoryLook};
use farreach_live::{Exit, Options, Recorder, Report, Watch};
use farreach_trace::{self as trace, Arrival, Pipe, frt};
use farreach_types::event::{Batch, Guest, Op, Source};
use farreach_types::{Error, Result, bail};
use std::ffi::OsString;
use std::time::Duration;

/// Longest wait for a pipe between two checks for signals.
const PIPE_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// What happens while a source is read.
pub enum Event<P> {
    /// It begins. Data references of the whole, if they are known.
    Begins {
        /// As its index says.
        references: Option<u64>,
    },
    /// How far the consumer is; after each batch.
    Progress(P),
    /// It ended, or the consumer wants no more.
    Ends,
    /// A line for people.
    Says(String),
}

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
        Ok(match open_source(file)? {
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
///
/// # Errors
/// As of its reader.
pub fn check(file: &str, format: Option<&str>) -> Result<()> {
    if open_source(file)?.is_none() && !trace::is_pipe(file) {
        trace::open_trace(file, format)?.source.next_batch()?;
    }
    Ok(())
}

/// A trace, or the kernel that `workload:NAME` names, before it is read.
pub struct Stored {
    origin: Origin,
    signals: Watch,
    /// What was read to see what it is.
    first: Option<Next>,
    references: Option<u64>,
}

impl Stored {
    /// Opens it.
    ///
    /// # Errors
    /// As of the reader.
    pub fn open(file: &str, format: Option<&str>) -> Result<Stored> {
        let signals = Watch::begin();
        let origin = Origin::open(file, format)?;
        // Only farreach's own traces have their length in an index.
        let references = frt::reader::read_index(file).ok().map(|(_, totals)| totals.references());
        Ok(Stored { origin, signals, first: None, references })
    }

    /// Opens several, which take turns of `slice` instructions on one machine.
    ///
    /// # Errors
    /// As of the readers; one of them comes through a pipe, which cannot wait for its turn.
    pub fn together(files: &[String], format: Option<&str>, slice: u64) -> Result<Stored> {
        let signals = Watch::begin();
        let open = |file: &String| match Origin::open(file, format)? {
            Origin::Here(source) => Ok(source),
            Origin::Pipe(_) => bail!("{file}: several traces must be files; a pipe can be read by itself alone"),
        };
        let sources = files.iter().map(open).collect::<Result<_>>()?;
        let origin = Origin::Here(Box::new(trace::Interleaved::new(sources, slice)));
        let references = files.iter().map(|file| Some(frt::reader::read_index(file).ok()?.1.references())).sum();
        Ok(Stored { origin, signals, first: None, references })
    }

    /// Whether it is the trace of a whole system, as its first event says.
    ///
    /// # Errors
    /// As of the reader.
    pub fn is_system(&mut self) -> Result<bool> {
        let first = match self.first.take() {
            Some(first) => first,
            None => self.origin.next(&self.signals)?,
        };
        let is_it = matches!(&first, Next::Batch(batch) if begins_system(batch));
        self.first = Some(first);
        Ok(is_it)
    }

    /// Gives every batch to `each`, which returns whether it wants more and its progress. Returns what ended it early,
    /// if anything did: the result is that of the batches so far.
    ///
    /// # Errors
    /// As of the reader, and those of `each`.
    pub fn feed<P, E: From<Error>>(
        self,
        each: impl FnMut(Batch) -> Result<(bool, P), E>,
        listen: &mut dyn FnMut(Event<P>),
    ) -> Result<Option<Early>, E> {
        let (early, failure) = self.feed_all(each, listen)?;
        failure.map_or(Ok(early), |failure| Err(failure.into()))
    }

    /// As [`Stored::feed`], but an error of the reader ends it as the end of the trace does, and comes too: who reads
    /// ahead knows later whether it counts.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn feed_all<P, E: From<Error>>(
        self,
        mut each: impl FnMut(Batch) -> Result<(bool, P), E>,
        listen: &mut dyn FnMut(Event<P>),
    ) -> Result<(Option<Early>, Option<Error>), E> {
        let Stored { mut origin, signals, mut first, references } = self;
        let mut failure = None;
        let mut memory = MemoryLook::default();
        listen(Event::Begins { references });
        let early = loop {
            let next = match first.take() {
                Some(first) => first,
                None => match origin.next(&signals) {
                    Ok(next) => next,
                    Err(e) => {
                        failure = Some(e);
                        break None;
                    }
                },
            };
            match next {
                Next::Batch(batch) => {
                    let (more, progress) = each(batch)?;
                    if !more {
                        break None;
                    }
                    listen(Event::Progress(progress));
                    if let Some(early) = memory.short() {
                        break Some(early);
                    }
                }
                Next::End => break None,
                Next::Signal => break signals.first().map(Early::Signal),
            }
        };
        listen(Event::Ends);
        Ok((early, failure))
    }
}

/// Whether a stream that begins with this batch is that of a whole system.
pub fn begins_system(batch: &Batch) -> bool {
    batch.ops.iter().any(|op| matches!(op, Op::Guest(Guest::Machine { .. })))
}

/// [`Stored::open`], then [`Stored::feed`].
///
/// # Errors
/// As of these.
pub fn stored<P, E: From<Error>>(
    file: &str,
    format: Option<&str>,
    each: impl FnMut(Batch) -> Result<(bool, P), E>,
    listen: &mut dyn FnMut(Event<P>),
) -> Result<Option<Early>, E> {
    Stored::open(file, format)?.feed(each, listen)
}

/// Gives every batch of a program that is recorded to `each`, as long as it wants more and there is memory. Returns
/// what ended it early, if anything did.
///
/// # Errors
/// As those of the source, and of `each`.
pub fn batches<P, E: From<Error>>(
    source: &mut dyn Source,
    memory: &mut MemoryLook,
    mut each: impl FnMut(Batch) -> Result<(bool, P), E>,
    listen: &mut dyn FnMut(Event<P>),
) -> Result<Option<Early>, E> {
    listen(Event::Begins { references: None });
    while let Some(batch) = source.next_batch()? {
        let (more, progress) = each(batch)?;
        if !more {
            break;
        }
        listen(Event::Progress(progress));
        let early = memory.short();
        if early.is_some() {
            return Ok(early);
        }
    }
    Ok(None)
}

/// Runs a program under the recorder and gives every batch to `each`, as long as it wants more. Also returns what ended
/// it early, if anything did.
///
/// # Errors
/// As those of the recorder, and of `each`.
pub fn live<P, E: From<Error>>(
    command: &[OsString],
    options: &Options,
    each: impl FnMut(Batch) -> Result<(bool, P), E>,
    listen: &mut dyn FnMut(Event<P>),
) -> Result<(Report, Option<Early>), E> {
    recorded(|| Recorder::start(command, options), each, listen)
}

/// The same for anything that a recorder can be started on.
///
/// # Errors
/// As those of `start`, of the recorder, and of `each`.
pub fn recorded<P, E: From<Error>>(
    start: impl FnOnce() -> Result<Recorder>,
    each: impl FnMut(Batch) -> Result<(bool, P), E>,
    listen: &mut dyn FnMut(Event<P>),
) -> Result<(Report, Option<Early>), E> {
    let mut memory = MemoryLook::default();
    let mut recorder = start()?;
    let early = batches(&mut recorder, &mut memory, each, listen)?;
    let report = recorder.finish()?;
    listen(Event::Ends);
    if report.exit == Exit::Signal(libc::SIGKILL)
        && early.is_none()
        && let Some(why) = memory.killed()
    {
        listen(Event::Says(why));
    }
    let early = early.or(report.interrupted.map(Early::Signal));
    Ok((report, early))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_fed_until_its_consumer_has_enough() {
        let run = |name: &str, most: u64| {
            let (mut batches, mut events) = (0, Vec::new());
            let each = |_: Batch| {
                batches += 1;
                Ok::<_, Error>((batches < most, batches))
            };
            let early = stored(name, None, each, &mut |event| match event {
                Event::Begins { references: None } => events.push(0),
                Event::Progress(n) => events.push(n),
                Event::Ends => events.push(u64::MAX),
                _ => panic!("a kernel has no index, and nothing is to be said"),
            });
            early.map(|early| (early.is_none(), events))
        };
        let gups = "workload:gups:size=1M,references=1000000";
        assert_eq!(run(gups, 3).unwrap(), (true, vec![0, 1, 2, u64::MAX]), "the last batch was not wanted");
        assert!(run("workload:gupz", 3).is_err() && run("/no/such/file", 3).is_err());
        assert!(check(gups, None).is_ok() && check("/no/such/file", None).is_err());
    }
}
