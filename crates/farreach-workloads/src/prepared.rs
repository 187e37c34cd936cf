//! A workload that is ready to run, and its runs: under the recorder, or as it is.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

use farreach_live::guarded::{Ended, Start};
use farreach_live::{Options, Recorder, Watch};
use farreach_types::{Context, Result, ensure};

use crate::recording::Recording;
use crate::server::{Last, Load, RunningLoad};

/// A command that is ready to run.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// The directory where it runs and may leave files.
    pub directory: PathBuf,
    /// What it reads.
    pub stdin: Option<PathBuf>,
    /// Where its output goes: a file, because some programs unlink an output that is a device.
    pub stdout: PathBuf,
    /// If it is a server: the load, which runs beside it and ends it.
    pub load: Option<Load>,
}

/// Time and memory of a native run.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// How it ended.
    pub status: ExitStatus,
    /// User time of the program and its children.
    pub user: Duration,
    /// Most memory that one of its processes held, in bytes.
    pub peak_bytes: u64,
}

impl Prepared {
    /// Starts it under the recorder, its load beside it.
    ///
    /// # Errors
    /// The recorder is missing or cannot start.
    pub fn record(&self) -> Result<Recording> {
        let options = Options {
            directory: Some(self.directory.clone()),
            stdin: Some(self.stdin.clone().unwrap_or_else(|| "/dev/null".into())),
            stdout: Some(self.stdout.clone()),
            ..Options::default()
        };
        let recorder = Recorder::start(&self.command, &options)?;
        Ok(match &self.load {
            Some(load) => Recording::server(recorder, load.clone()),
            None => recorder.into(),
        })
    }

    /// Runs it as it is, to its end; a server, to the end of its load.
    ///
    /// # Errors
    /// It cannot be started. The load of a server fails, or a signal ends both.
    pub fn run(&self) -> Result<Usage> {
        Ok(self.run_with(Last::Once)?.0)
    }

    /// Runs a server as it is, and repeats the last command of its load for at least this long. Returns the server's
    /// user time for one of them, the median.
    ///
    /// # Errors
    /// As of [`Prepared::run`]; the program is no server.
    pub fn time_last(&self, least: Duration) -> Result<Duration> {
        self.run_with(Last::Repeated(least))?.1.context("it is no server")
    }

    fn run_with(&self, last: Last) -> Result<(Usage, Option<Duration>)> {
        let open = |path: &PathBuf| File::open(path).with_context(|| path.display().to_string());
        let stdin = self.stdin.as_ref().map_or(Ok(Stdio::null()), |path| open(path).map(Stdio::from))?;
        let stdout = File::create(&self.stdout).with_context(|| self.stdout.display().to_string())?;
        let name = self.command[0].display().to_string();
        let signals = self.load.as_ref().map(|_| Watch::begin());
        let begin = || {
            let mut start = Start::new(&self.command[0], None, None)?;
            start.command().args(&self.command[1..]).current_dir(&self.directory).stdin(stdin).stdout(stdout);
            start.spawn()
        };
        let mut program = begin().with_context(|| name.clone())?;
        let (Some(load), Some(signals)) = (self.load.clone(), signals) else {
            return Ok((program.wait().with_context(|| name)?.into(), None));
        };
        let (beside, mut interrupted) = (RunningLoad::start(load, program.pid(), last), false);
        while !beside.is_over() {
            if signals.take().0 > 0 {
                interrupted = true;
                beside.stop();
            }
            sleep(Duration::from_millis(20));
        }
        let time = beside.user_time();
        let result = beside.join();
        let mut usage = Usage::from(program.wait().with_context(|| name.clone())?);
        ensure!(!interrupted, "interrupted; {name} and its load were ended");
        result?;
        if usage.status.signal() == Some(libc::SIGTERM) {
            usage.status = ExitStatus::from_raw(0); // as it was asked to
        }
        Ok((usage, time))
    }
}

impl From<Ended> for Usage {
    fn from(ended: Ended) -> Usage {
        Usage { status: ended.status, user: ended.user, peak_bytes: ended.peak_bytes }
    }
}
