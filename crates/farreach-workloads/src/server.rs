//! Servers, which do nothing without requests. The server runs, recorded or not; its load runs beside it natively.
//!
//! A thread waits until the server's port answers, runs the load to its end, and ends the server in its regular way
//! (SIGTERM). In no case does either keep running: the load is killed when it is not needed any more, the server when
//! it does not end. What they have started ends with them.

use std::ffi::OsString;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use farreach_types::{Context, Error, Result, ensure};

use farreach_live::guarded::{Guarded, Start};
use farreach_live::{is_running, send};

use crate::output::Output;

/// Polling interval of the two programs.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long a recorded server may take to answer: a database makes some 10^9 instructions before it does.
const READY: Duration = Duration::from_secs(600);
/// How long it may take to end.
const END: Duration = Duration::from_secs(60);
/// How long a load may go on after its server ended: it may be about to end as well.
const LATE: Duration = Duration::from_secs(1);

/// The load of a server.
#[derive(Clone, Debug)]
pub struct Load {
    /// Programs with arguments, run one after the other.
    pub commands: Vec<Vec<OsString>>,
    /// Where the server listens on the loopback interface.
    pub port: u16,
    /// The directory they run in.
    pub directory: PathBuf,
    /// Where their output goes.
    pub output: Output,
}

/// A free port.
pub(crate) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on 127.0.0.1")?;
    Ok(listener.local_addr().map_err(Error::System)?.port())
}

/// The state of a load and its server.
const RUN: u8 = 0;
const STOP: u8 = 1;
const KILL: u8 = 2;

/// What becomes of the last command of a load. Those before it fill the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Last {
    /// It is a command like the others.
    Once,
    /// It begins at [`RunningLoad::go_on`], and the server is ended at the next one.
    Held,
    /// It is repeated until it has run for this long.
    Repeated(Duration),
}

/// How far a load is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Commands before the last run, or the server is not ready.
    Fills,
    /// The last command is to begin.
    Filled,
    /// The last command runs.
    Serves,
    /// The last command has ended.
    Served,
    /// The server is ended.
    Ends,
}

/// What the thread of a load and its owner tell each other.
struct State {
    wish: AtomicU8,
    stage: Mutex<Stage>,
    /// The server's user time for each run of the last command.
    used: Mutex<Vec<Duration>>,
    /// From the answer of the server to the end of the last command.
    took: Mutex<Duration>,
}

impl State {
    fn enter(&self, stage: Stage) {
        *self.stage.lock().expect("no panic while it is locked") = stage;
    }

    fn stage(&self) -> Stage {
        *self.stage.lock().expect("no panic while it is locked")
    }

    /// Enters this stage; if it is `held`, waits until the owner wants the next.
    fn hold(&self, stage: Stage, held: bool, server: u32) {
        self.enter(stage);
        while held && self.stage() == stage && !self.is_stopped() && is_running(server) {
            sleep(POLL_INTERVAL);
        }
    }

    fn is_stopped(&self) -> bool {
        self.wish.load(Ordering::SeqCst) != RUN
    }
}

/// A load at work on a server. Dropping it kills both.
pub struct RunningLoad {
    state: Arc<State>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl RunningLoad {
    /// `server` is the process id of a child that is not waited for before [`RunningLoad::join`].
    pub fn start(load: Load, server: u32, last: Last) -> RunningLoad {
        let state = Arc::new(State {
            wish: RUN.into(),
            stage: Stage::Fills.into(),
            used: Mutex::default(),
            took: Mutex::default(),
        });
        let seen = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            let work = load.work(server, &seen, last);
            seen.enter(Stage::Ends);
            let end = end(server, &seen.wish);
            work.and(end)
        });
        RunningLoad { state, thread: Some(thread) }
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        self.state.stage()
    }

    /// Lets a last command begin that was held back, or the server end after it.
    pub fn go_on(&self) {
        let mut stage = self.state.stage.lock().expect("no panic while it is locked");
        *stage = match *stage {
            Stage::Filled => Stage::Serves,
            Stage::Served => Stage::Ends,
            other => other,
        };
    }

    /// The server's user time for the last command: the median, if that was repeated. `None`: it has not ended.
    pub fn user_time(&self) -> Option<Duration> {
        let mut times = self.state.used.lock().expect("no panic while it is locked").clone();
        times.sort();
        times.get(times.len() / 2).copied()
    }

    /// How long its commands took together, once they have ended.
    pub fn took(&self) -> Duration {
        *self.state.took.lock().expect("no panic while it is locked")
    }

    /// Stops early: the load is killed, the server ended as after a whole load.
    pub fn stop(&self) {
        self.state.wish.fetch_max(STOP, Ordering::SeqCst);
    }

    /// Whether server and load have ended.
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until both have ended.
    ///
    /// # Errors
    /// The server did not answer, the load failed, or the server had to be killed.
    pub fn join(mut self) -> Result<()> {
        self.thread.take().map_or(Ok(()), |thread| thread.join().expect("no panics"))
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        self.state.wish.store(KILL, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Load {
    /// Whether something listens on its port.
    pub fn is_answered(&self) -> bool {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
    }

    /// Runs all commands when the server is ready; fewer if the run is stopped.
    fn work(&self, server: u32, state: &State, last: Last) -> Result<()> {
        let since = Instant::now();
        while !self.is_answered() {
            if state.is_stopped() {
                return Ok(());
            }
            ensure!(is_running(server), "the server ended before it answered on port {}", self.port);
            ensure!(
                since.elapsed() < READY,
                "the server did not answer on port {} for {} s",
                self.port,
                READY.as_secs()
            );
            sleep(POLL_INTERVAL);
        }
        let ready = Instant::now();
        let log = self.output.begin().context("the output of the load")?;
        let Some((measured, fill)) = self.commands.split_last() else { return Ok(()) };
        // What a command leaves in the background may serve the next.
        let mut ran = Vec::new();
        for words in fill {
            if !self.run(words, &log, server, state, &mut ran)? {
                return Ok(());
            }
        }
        state.hold(Stage::Filled, last == Last::Held, server);
        state.enter(Stage::Serves);
        let begun = Instant::now();
        loop {
            let before = user_time(server);
            if !self.run(measured, &log, server, state, &mut ran)? {
                break;
            }
            let used = user_time(server).saturating_sub(before);
            state.used.lock().expect("no panic while it is locked").push(used);
            if !matches!(last, Last::Repeated(least) if begun.elapsed() < least) {
                break;
            }
        }
        *state.took.lock().expect("no panic while it is locked") = ready.elapsed();
        ensure!(
            is_running(server) || !self.is_answered(),
            "the server went into the background: its process ended, and port {} still answered; keep it in the \
             foreground, as `nginx -g 'daemon off;'` does",
            self.port
        );
        state.hold(Stage::Served, last == Last::Held, server);
        Ok(())
    }

    /// Runs one command to its end; false if the run is stopped.
    fn run(&self, words: &[OsString], log: &File, server: u32, state: &State, ran: &mut Vec<Guarded>) -> Result<bool> {
        let name = words[0].display();
        let begin = || {
            let mut start = Start::new(&words[0], None, None)?;
            let command = start.command();
            command.args(&words[1..]).current_dir(&self.directory).stdin(Stdio::null());
            command.stdout(log.try_clone()?).stderr(log.try_clone()?);
            start.spawn()
        };
        let mut program = begin().with_context(|| format!("the load, {name}"))?;
        let attended = attend(&mut program, server, state);
        ran.push(program);
        attended.with_context(|| format!("the load, {name}; {}", self.output.shown()))
    }
}

/// The user time of a process, of what it started, and of what those have waited for.
fn user_time(server: u32) -> Duration {
    let Ok(all) = procfs::process::all_processes() else { return Duration::ZERO };
    let all: Vec<_> = all.filter_map(|process| process.ok()?.stat().ok()).collect();
    let (mut family, mut ticks) = (vec![server as i32], 0);
    while let Some(process) = family.pop() {
        let of = |stat: &&procfs::process::Stat| stat.pid == process;
        ticks += all.iter().find(of).map_or(0, |stat| stat.utime + stat.cutime.max(0) as u64);
        family.extend(all.iter().filter(|stat| stat.ppid == process).map(|stat| stat.pid));
    }
    Duration::from_secs(ticks) / procfs::ticks_per_second() as u32
}

/// Waits for a command of the load; false if the run is stopped.
fn attend(program: &mut Guarded, server: u32, state: &State) -> Result<bool> {
    let mut alone = None;
    loop {
        if let Some(status) = program.try_wait().map_err(Error::System)?.map(|ended| ended.status) {
            // The status of a stopped program does not matter.
            let stopped = state.is_stopped();
            ensure!(status.success() || stopped, "{status}");
            return Ok(!stopped);
        }
        let stopped = state.is_stopped();
        let alone = !is_running(server) && alone.get_or_insert_with(Instant::now).elapsed() > LATE;
        if stopped || alone {
            program.end().map_err(Error::System)?;
            ensure!(stopped, "its server ended before it did");
            return Ok(false);
        }
        sleep(POLL_INTERVAL);
    }
}

/// Ends the server and waits until it is gone.
fn end(server: u32, wish: &AtomicU8) -> Result<()> {
    let since = Instant::now();
    send(server, libc::SIGTERM);
    while is_running(server) {
        let late = since.elapsed() > END;
        if late || wish.load(Ordering::SeqCst) == KILL {
            send(server, libc::SIGKILL);
            ensure!(!late, "the server did not end within {} s of SIGTERM and was killed", END.as_secs());
            return Ok(());
        }
        sleep(POLL_INTERVAL);
    }
    Ok(())
}
