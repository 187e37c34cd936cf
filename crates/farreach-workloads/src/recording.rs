//! A recorded program, and its load if it is a server.

use farreach_live::{Exit, Recorder, Report};
use farreach_types::Result;
use farreach_types::event::{Batch, Source};

use crate::server::{Last, Load, RunningLoad};

/// A recorded program, with its load if it is a server. Dropping it ends both.
pub struct Recording {
    // First, so that it is dropped first: the server's process id must not be reused before.
    load: Option<RunningLoad>,
    recorder: Recorder,
    ended: bool,
}

impl From<Recorder> for Recording {
    fn from(recorder: Recorder) -> Recording {
        Recording { load: None, recorder, ended: false }
    }
}

impl Recording {
    /// A server and its load.
    pub fn server(recorder: Recorder, load: Load) -> Recording {
        let load = RunningLoad::start(load, recorder.pid(), Last::Once);
        Recording { load: Some(load), recorder, ended: false }
    }

    /// Process id of the program.
    pub fn pid(&self) -> u32 {
        self.recorder.pid()
    }

    /// Waits for the end. If the stream was not read to its end, a server is ended in its regular way, any other
    /// program is killed.
    ///
    /// # Errors
    /// As those of the recorder; the load failed, or its server.
    pub fn finish(mut self) -> Result<Report> {
        let Some(load) = self.load.take() else { return self.recorder.finish() };
        if !self.ended {
            load.stop();
            // The program cannot end while it waits for the reader of its stream.
            while self.recorder.next_batch()?.is_some() {}
        }
        let result = load.join();
        let mut report = self.recorder.finish()?;
        if report.interrupted.is_some() {
            return Ok(report);
        }
        result?;
        if report.exit == Exit::Signal(libc::SIGTERM) {
            report.exit = Exit::Code(0); // as it was asked to
        }
        Ok(report)
    }
}

impl Source for Recording {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        let batch = self.recorder.next_batch()?;
        self.ended |= batch.is_none();
        Ok(batch)
    }
}
