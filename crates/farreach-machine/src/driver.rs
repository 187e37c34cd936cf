//! Runs the engines of a laboratory: batches go to all of them, on the caller's thread or on threads of their own,
//! until the stream ends or the limit is reached.

use super::options::Options;
use super::tally::Progress;
use super::worker_pool::{BatchEngine, WorkerPool};
use farreach_types::Error;
use farreach_types::event::{Batch, Source};
use std::borrow::Cow;

/// Engines over one stream.
pub(super) struct Driver<E> {
    engines: Vec<E>,
    /// Holds the engines while they run on threads of their own.
    pool: Option<WorkerPool<E>>,
}

impl<E: BatchEngine> Driver<E> {
    /// `threaded`: each engine runs on a thread of its own.
    ///
    /// # Errors
    /// [`Error::Io`]: a thread cannot be started.
    pub fn new(mut engines: Vec<E>, threaded: bool, options: &Options) -> Result<Driver<E>, Error> {
        let pool = if threaded { Some(WorkerPool::start(std::mem::take(&mut engines), options.ahead)?) } else { None };
        Ok(Driver { engines, pool })
    }

    /// Simulates one batch; false: the limit is reached, or an engine on a thread of its own has given up.
    pub fn feed(&mut self, batch: Cow<'_, Batch>) -> Result<bool, Error> {
        if let Some(pool) = &mut self.pool {
            return Ok(pool.feed(batch.into_owned()));
        }
        for engine in &mut self.engines {
            engine.feed(&batch)?;
        }
        Ok(self.engines.iter().any(|e| !e.done()))
    }

    /// Simulates a whole stream.
    pub fn run(&mut self, source: &mut dyn Source) -> Result<(), Error> {
        let failure = loop {
            match source.next_batch() {
                Ok(Some(batch)) => {
                    if !self.feed(Cow::Owned(batch))? {
                        break None;
                    }
                }
                Ok(None) => break None,
                Err(e) => break Some(e),
            }
        };
        self.finish()?;
        self.judge(failure)
    }

    /// What the source failed with, after [`Driver::finish`]: it counts unless the limit was reached before.
    pub fn judge(&self, failure: Option<Error>) -> Result<(), Error> {
        failure.filter(|_| !self.limit_reached()).map_or(Ok(()), Err)
    }

    /// Waits until every batch is simulated. Nothing can be fed after it.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.finish_or_cut(None)
    }

    /// As [`Driver::finish`], unless `cuts` says that no more batches are to be begun.
    pub fn finish_or_cut(&mut self, cuts: Option<&mut dyn FnMut() -> bool>) -> Result<(), Error> {
        let Some(pool) = self.pool.take() else { return Ok(()) };
        let (engines, outcome) = pool.finish(cuts);
        self.engines = engines;
        outcome
    }

    /// Whether the limit was reached, after [`Driver::finish`]. All engines reach it at the same batch.
    pub fn limit_reached(&self) -> bool {
        self.engines.first().is_some_and(BatchEngine::done)
    }

    /// Progress of the simulation.
    pub fn progress(&self) -> Progress {
        match &self.pool {
            Some(pool) => pool.progress(),
            None => self.engines.first().map(BatchEngine::progress).unwrap_or_default(),
        }
    }

    /// The engines, for `what`. Panics before [`Driver::finish`] if they run on threads of their own.
    pub fn engines(&self, what: &str) -> &[E] {
        assert!(self.pool.is_none(), "finish() comes before {what}");
        &self.engines
    }

    /// As [`Driver::engines`], to change them.
    pub fn engines_mut(&mut self, what: &str) -> &mut [E] {
        assert!(self.pool.is_none(), "finish() comes before {what}");
        &mut self.engines
    }
}
