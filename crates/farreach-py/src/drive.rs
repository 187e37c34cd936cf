//! Feeding a laboratory without the interpreter's lock, and looking up now and then: interrupts, progress, failures of
//! designs that are written in Python.

use crate::errors::raise;
use crate::tlb::Failure;
use farreach::Progress;
use farreach::event::{Batch, Source};
use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// How often to look for signals.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// How often to call for progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// What ends a run before its stream: an exception, or an error of the library.
pub enum Stop {
    Raised(PyErr),
    Failed(farreach::Error),
}

impl From<PyErr> for Stop {
    fn from(error: PyErr) -> Stop {
        Stop::Raised(error)
    }
}

impl From<farreach::Error> for Stop {
    fn from(error: farreach::Error) -> Stop {
        Stop::Failed(error)
    }
}

impl Stop {
    pub fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Stop::Raised(error) => error,
            Stop::Failed(error) => raise(py, error),
        }
    }
}

/// Looks up from the work.
pub struct Lookout {
    /// Called with instructions and references so far.
    progress: Option<Py<PyAny>>,
    failure: Failure,
    looked: Instant,
    told: Instant,
}

impl Lookout {
    pub fn new(progress: Option<Py<PyAny>>, failure: Failure) -> Lookout {
        Lookout { progress, failure, looked: Instant::now(), told: Instant::now() }
    }

    /// Called after each batch, and whenever nothing comes.
    pub fn look(&mut self, so_far: Progress) -> Result<(), Stop> {
        if self.failure.is_set() {
            return Err(Stop::Raised(self.failure.take().expect("it was just set")));
        }
        if self.looked.elapsed() < LOOK_INTERVAL {
            return Ok(());
        }
        self.looked = Instant::now();
        Python::attach(|py| {
            py.check_signals()?;
            if self.told.elapsed() >= PROGRESS_INTERVAL
                && let Some(call) = &self.progress
            {
                self.told = Instant::now();
                call.call1(py, (so_far.instructions, so_far.references))?;
            }
            Ok(())
        })
    }

    /// After the last batch.
    pub fn end(self, so_far: Progress) -> Result<(), Stop> {
        if let Some(error) = self.failure.take() {
            return Err(Stop::Raised(error));
        }
        if let Some(call) = &self.progress {
            Python::attach(|py| call.call1(py, (so_far.instructions, so_far.references)))?;
        }
        Ok(())
    }
}

/// A stream that may raise.
pub trait Stream: Send {
    /// The next batch; `None` at the end.
    fn next(&mut self, lookout: &mut Lookout, so_far: Progress) -> Result<Option<Batch>, Stop>;
}

impl Stream for Box<dyn Source + Send> {
    fn next(&mut self, lookout: &mut Lookout, so_far: Progress) -> Result<Option<Batch>, Stop> {
        lookout.look(so_far)?;
        Ok(self.next_batch()?)
    }
}

/// Gives every batch to `feed`, which says whether it wants more and how far it is. Returns how far it came, and what the
/// stream failed with: streams are read ahead, so whether that counts is known later (`Lab::judge`).
pub fn drive(
    stream: &mut dyn Stream,
    lookout: &mut Lookout,
    mut feed: impl FnMut(Batch) -> farreach::Result<(bool, Progress)>,
) -> Result<(Progress, Option<farreach::Error>), Stop> {
    let mut so_far = Progress::default();
    loop {
        let batch = match stream.next(lookout, so_far) {
            Ok(Some(batch)) => batch,
            Ok(None) => break,
            Err(Stop::Failed(failure)) => return Ok((so_far, Some(failure))),
            Err(stop) => return Err(stop),
        };
        let (more, progress) = feed(batch)?;
        so_far = progress;
        if !more {
            break;
        }
    }
    Ok((so_far, None))
}
