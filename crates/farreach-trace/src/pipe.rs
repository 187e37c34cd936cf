//! Traces that come through a pipe.

use crate::open_trace;
use farreach_types::error::{Error, Result};
use farreach_types::event::{Batch, Source};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Whether a read of this file can block: standard input, pipes, terminals.
pub fn is_pipe(file: &str) -> bool {
    file == "-" || std::fs::metadata(file).is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

/// A trace that a thread of its own reads. A pipe may be idle for hours, and a blocked read notices no signal; here the
/// caller waits as long as it likes.
pub struct Pipe(Receiver<Result<Batch>>);

/// What came in time.
pub enum Arrival {
    /// The next batch.
    Batch(Batch),
    /// The trace is over.
    End,
    /// Nothing yet.
    Nothing,
}

impl Pipe {
    /// Begins reading; as [`open_trace`].
    ///
    /// # Errors
    /// [`Error::Io`]: there is no thread for it. Errors of the trace come with [`Pipe::wait`].
    pub fn open(file: String, format: Option<String>) -> Result<Pipe> {
        let (sender, receiver) = sync_channel(2);
        let name = file.clone();
        let read = move || {
            let mut source = match open_trace(&file, format.as_deref()) {
                Ok(opened) => opened.source,
                Err(error) => return drop(sender.send(Err(error))),
            };
            while let Some(next) = source.next_batch().transpose() {
                let last = next.is_err();
                if sender.send(next).is_err() || last {
                    break;
                }
            }
        };
        let started = std::thread::Builder::new().name("reader".into()).spawn(read);
        started.map_err(|source| Error::Io { file: name, source })?;
        Ok(Pipe(receiver))
    }

    /// Waits for the next batch, for this long at most.
    ///
    /// # Errors
    /// As [`open_trace`], and as the reader of the format.
    pub fn wait(&self, most: Duration) -> Result<Arrival> {
        match self.0.recv_timeout(most) {
            Ok(batch) => Ok(Arrival::Batch(batch?)),
            Err(RecvTimeoutError::Disconnected) => Ok(Arrival::End),
            Err(RecvTimeoutError::Timeout) => Ok(Arrival::Nothing),
        }
    }
}
