//! The reading end of the stream: chunks in the order of their publication, processes that begin and end.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use farreach_types::addr::Asid;
use farreach_types::counts::RecorderLimit;
use farreach_types::event::{Batch, Source};
use farreach_types::{Error, Result};

use super::advice::keep_freed_memory;
use super::check::check_program;
use super::counts::Counts;
use super::decode::Decoder;
use super::folder::Folder;
use super::guarded::Guarded;
use super::launch::{self, Options, error, spawn, tool_dir};
use super::layout::control;
use super::met::Met;
use super::process::Process;
use super::shared::Shared;
use super::signals::{Watch, send};
use super::system_recorder::{self, SystemReport};

mod images;
mod poll;
mod vanished;

/// Interval at which processes are polled, and longest wait for a chunk.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long a child that nobody knows may take to open its ring.
const UNBORN: Duration = Duration::from_secs(3);

/// How the program ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// It exited with this status.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Exit {
        status.code().map_or_else(|| Exit::Signal(status.signal().unwrap_or(0)), Exit::Code)
    }
}

/// Summary of a finished recording.
#[derive(Clone, Debug)]
pub struct Report {
    /// How the command itself ended (its children are in the stream).
    pub exit: Exit,
    /// Process id of the command.
    pub pid: u32,
    /// References received, of all processes. Those of conditional instructions count whether or not they happened.
    pub counts: Counts,
    /// Process images that ended in a regular way and whose counts agreed with the recorder's own.
    pub verified: u32,
    /// Process images that ended without an end record (killed); all they had recorded was recovered.
    pub lost: u32,
    /// User and system time of the recorder and the program in it, and of all their children.
    pub cpu: Duration,
    /// The signal (Ctrl-C, SIGTERM, [`Recorder::interrupt`]) that ended the recording, if one did.
    pub interrupted: Option<i32>,
    /// Limits of the recorder that programs met.
    pub limits: Vec<RecorderLimit>,
    /// Of a whole system: what is known beside. `exit` is QEMU's own.
    pub system: Option<SystemReport>,
}

/// What a recording needs before its program starts.
pub(super) struct Stream {
    control: Shared,
    lock: File,
    signals: Watch,
    dir: Folder,
}

impl Stream {
    pub(super) fn begin(options: &Options) -> Result<Stream> {
        let dir = launch::run_dir(options.shared_dir.as_deref())?;
        let (control, lock) = launch::control(dir.path())?;
        Ok(Stream { control, lock, signals: Watch::begin(), dir })
    }

    /// The directory of the run.
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// A program being recorded, or a whole system. Dropping it ends the program.
pub struct Recorder {
    command: OsString,
    program: Guarded,
    exit: Option<Exit>,
    /// Known when `exit` is.
    cpu: Duration,
    control: Shared,
    /// Locked while the stream is read.
    _lock: File,
    decoder: Decoder,
    /// Images whose stream has not ended, by ring.
    live: BTreeMap<u32, Process>,
    ready: VecDeque<Batch>,
    next_place: u64,
    next_asid: u32,
    last_poll: Instant,
    /// Time since which only children of unknown process ids are alive.
    unborn_since: Option<Instant>,
    counts: Counts,
    verified: u32,
    lost: u32,
    met: Met,
    signals: Watch,
    /// Time of the request to end.
    interrupted: Option<Instant>,
    /// [`Options::grace`].
    grace: Duration,
    killed: bool,
    failed: bool,
    /// Of a whole system.
    pub(super) system: Option<SystemReport>,
    // Last, so that it is dropped last: when all processes are gone.
    dir: Folder,
}

impl Recorder {
    /// Starts `command` (program and arguments) under the recorder.
    pub fn start(command: &[OsString], options: &Options) -> Result<Recorder> {
        let program = command.first().ok_or_else(|| error("".as_ref(), "command", "no program given"))?;
        check_program(program)?;
        keep_freed_memory();
        let tool = tool_dir(options.tool_dir.as_deref())?;
        let stream = Stream::begin(options)?;
        let running = spawn(&tool, stream.path(), command, options)?;
        Ok(Recorder::of(program, stream, running, Decoder::default(), options.grace))
    }

    /// The reader of a program that was just started.
    pub(super) fn of(command: &OsStr, stream: Stream, running: Guarded, decoder: Decoder, grace: Duration) -> Recorder {
        let Stream { control, lock, signals, dir } = stream;
        let mut first = Process::announced(0, Asid(0));
        first.set_pid(running.pid());
        let mut recorder = Recorder {
            command: command.to_owned(),
            program: running,
            exit: None,
            cpu: Duration::ZERO,
            control,
            _lock: lock,
            decoder,
            live: BTreeMap::from([(0, first)]),
            ready: VecDeque::new(),
            next_place: 0,
            next_asid: 1,
            last_poll: Instant::now(),
            unborn_since: None,
            counts: Counts::default(),
            verified: 0,
            lost: 0,
            met: Met::default(),
            signals,
            interrupted: None,
            grace,
            killed: false,
            failed: false,
            system: None,
            dir,
        };
        // A signal that came before the program started did not reach it.
        if recorder.signals.take().0 > 0 {
            recorder.interrupt();
        }
        recorder
    }

    /// Asks the program to end (SIGINT); after [`Options::grace`], or at the second call, all its processes are killed.
    /// The stream goes on to its regular end.
    pub fn interrupt(&mut self) {
        if self.interrupted.is_some() {
            self.kill_all();
        } else {
            self.interrupted = Some(Instant::now());
            send(self.program.pid(), libc::SIGINT);
        }
    }

    /// Process id of the command. It stays the command's until [`Recorder::finish`].
    pub fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// Waits for the end of the command. If the stream was not read to its end, the program is killed first.
    pub fn finish(mut self) -> Result<Report> {
        if !self.live.is_empty() {
            self.close();
        }
        let exit = self.wait()?;
        // The program may have ended by an interrupt that was not polled yet.
        if self.signals.take().0 > 0 {
            self.interrupted.get_or_insert_with(Instant::now);
        }
        let status = system_recorder::guest_status(self.dir.path()).map_err(|e| self.wrong("guest", e))?;
        let system = self.system.take().map(|system| SystemReport { guest_status: status, ..system });
        Ok(Report {
            exit,
            pid: self.program.pid(),
            counts: self.counts,
            verified: self.verified,
            lost: self.lost,
            cpu: self.cpu,
            interrupted: self.interrupted.map(|_| self.signals.first().unwrap_or(libc::SIGINT)),
            limits: std::mem::take(&mut self.met).into_limits(),
            system,
        })
    }

    fn wait(&mut self) -> Result<Exit> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        let ended = self.program.wait();
        let ended = ended.map_err(|source| self.unguarded(source))?;
        let exit = Exit::from(ended.status);
        (self.exit, self.cpu) = (Some(exit), ended.user + ended.system);
        Ok(exit)
    }

    fn command_name(&self) -> String {
        self.command.to_string_lossy().into_owned()
    }

    fn kill_all(&mut self) {
        self.killed = true;
        for p in self.live.values().filter(|p| p.pid != 0 && !p.is_dead()) {
            send(p.pid, libc::SIGKILL);
        }
    }

    /// Ends the program: the stream is not read any more.
    fn close(&mut self) {
        self.control.u32(control::CLOSED).store(1, Ordering::SeqCst);
        for p in self.live.values_mut() {
            p.open(self.dir.path());
            p.wake();
        }
        self.kill_all();
        self.live.clear();
    }

    fn wrong(&self, place: &str, what: impl Into<String>) -> Error {
        error(&self.command, place, what)
    }

    fn next(&mut self) -> Result<Option<Batch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            if self.live.is_empty() {
                return Ok(None);
            }
            if self.last_poll.elapsed() >= POLL_INTERVAL {
                self.poll_processes()?;
            }
            match self.next_ring() {
                Some(ring) => self.take(ring)?,
                None if self.ready.is_empty() && !self.live.is_empty() => self.sleep(),
                None => {}
            }
        }
    }
}

impl Source for Recorder {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        if self.failed {
            return Ok(None);
        }
        let result = self.next();
        if result.is_err() {
            self.failed = true;
            self.close();
        }
        result
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.exit.is_none() {
            self.close();
        }
    }
}
