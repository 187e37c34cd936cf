//! Programs that run with only those pages mapped that simulated TLBs hold (T94-70; Linux, x86-64).
//!
//! A page is in the real page table exactly while all machines of a [`TrapLab`] would answer it quietly. A reference to
//! any other page is a fault: a *trap*. The monitor, another process on the same processor, gets it through
//! userfaultfd, asks the laboratory, takes pages that left the machines out of the page table, and maps the page. The
//! program then goes on; its kernel, its libraries and its file are as they are.
//!
//! * All private memory of the program is memory of a file that the monitor made (`memfd`), mapped shared: so a page
//!   can leave the page table and keep its contents. Contents of a page lie at the page's own address in the file, and
//!   each address space has its own file. A fork copies it.
//! * `filter` stops system calls that change mappings. `call` follows them: the kernel does them as natively, then
//!   the memory file takes the place of private memory.
//! * Only a task of an address space may map and unmap there. The `agent` is such a task.
//! * `space` has an address space, `exec` the beginning of one, `faults` a trap, `turns` which of the tasks runs,
//!   `progress` the threads that trap in vain, `monitor` the loop over it all. `sys` and `uffd` have the system calls,
//!   and all unsafe code.
//!
//! Before the program runs on, what left the machines is out of the page table. The kernel can reclaim pages of others
//! cheaply, but may leave some; so the monitor looks, and the agent unmaps those.
//!
//! [`Observation`] is a whole run: from when on it is simulated (`observe`), what part of the sets (`choice`), the load
//! of a server beside it, signals.
//!
//! The monitor must never touch memory of the program that is observed, not even by ptrace: that would be a fault,
//! which it would wait for itself. Where it must, or where the kernel must and takes no traps, the page is mapped
//! before, and `held`.

mod agent;
mod call;
mod choice;
mod contents;
mod exec;
mod faults;
mod filter;
mod gaps;
mod held;
mod idle;
mod maps;
mod monitor;
mod observe;
mod progress;
mod regions;
mod report;
mod sampling;
mod space;
mod sys;
mod turns;
mod uffd;

pub use choice::Share;
use farreach_machine::TrapLab;
use monitor::{Failure, Monitor};
pub use observe::{Event, Listen, Observation, ObserveError, Observed, Settings};
pub use report::TrapReport;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a program ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// With this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A run by traps.
#[derive(Debug)]
pub struct Outcome {
    /// How the program ended; none if the caller ended the run.
    pub exit: Option<Exit>,
    /// What the run saw and did not see.
    pub report: TrapReport,
}

/// Why a run failed. The program has been killed.
#[derive(Debug, thiserror::Error)]
pub enum TrapError {
    /// The program did not begin.
    #[error("{}: {error}", program.display())]
    NotStarted {
        /// Its file.
        program: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// The program, or one that it runs, cannot be run by traps.
    #[error("{}: {why}", program.display())]
    Refused {
        /// Its file.
        program: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// The system refused something.
    #[error("{what}: {error}")]
    System {
        /// What was being done.
        what: &'static str,
        /// The system's answer.
        error: io::Error,
    },
    /// A machine cannot go on.
    #[error(transparent)]
    Laboratory(farreach_types::Error),
    /// An instruction needs more pages at once than a machine can hold.
    #[error(
        "the instruction at {instruction:#x} traps for ever, on page {page:#x} and others: it needs more pages at once \
         than one of the machines holds; give each machine more entries, or more ways"
    )]
    Stuck {
        /// Address of the instruction.
        instruction: u64,
        /// Address of one of its pages.
        page: u64,
    },
    /// A task is gone that should not be.
    #[error("{what}: the agent was killed, or a task of the program is gone, so the run cannot go on")]
    Gone {
        /// What was being done.
        what: &'static str,
    },
}

/// A program to be run, and where. It has the environment of this process, and its standard error.
#[derive(Debug)]
pub struct Launch<'a> {
    /// Its file.
    pub program: &'a Path,
    /// Its arguments, its name first.
    pub arguments: &'a [OsString],
    /// Standard input; that of this process if none is given.
    pub stdin: Option<File>,
    /// Standard output; that of this process if none is given.
    pub stdout: Option<File>,
    /// The directory it runs in; that of this process if none is given.
    pub directory: Option<&'a Path>,
    /// Whether traps of the kernel's references are counted, which takes longer.
    pub tells_kernel: bool,
    /// How long a task of the program has the processor while others wait, in its own time; Linux gives about 3 ms.
    pub slice: Duration,
}

/// The state of a run, several times a second.
pub struct Tick<'a> {
    /// The laboratory.
    pub lab: &'a mut TrapLab,
    /// The report so far.
    pub report: &'a TrapReport,
    /// The time since the beginning.
    pub elapsed: Duration,
    /// The first process of the program, until it has ended.
    pub process: Option<u32>,
}

/// How a run goes on after a tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// As before.
    GoOn,
    /// The first process gets this signal.
    Signal(i32),
    /// The program is killed.
    End,
}

/// Runs a program with only those pages mapped that the machines of `lab` hold, from its beginning to its end.
///
/// The calling thread becomes the monitor: it is bound to a processor, and no other thread of this process may wait for
/// children that this one makes. SIGCHLD must be blocked in all threads. `tick` is called each `interval`.
///
/// # Errors
/// See [`TrapError`].
pub fn run(
    lab: &mut TrapLab,
    launch: &Launch,
    interval: Duration,
    tick: &mut dyn FnMut(Tick) -> Next,
) -> Result<Outcome, TrapError> {
    let system = |what: &'static str| move |error: io::Error| TrapError::System { what, error };
    let not_started = |error: io::Error| TrapError::NotStarted { program: launch.program.to_owned(), error };
    let text = |text: &std::ffi::OsStr| CString::new(text.as_bytes()).map_err(|e| not_started(e.into()));
    let path = text(launch.program.as_os_str())?;
    let arguments = launch.arguments.iter().map(|argument| text(argument)).collect::<Result<Vec<_>, _>>()?;
    let mut pointers: Vec<_> = arguments.iter().map(|argument| argument.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let directory = launch.directory.map(File::open).transpose().map_err(not_started)?;
    let streams = [&launch.stdin, &launch.stdout].map(|stream| stream.as_ref().map(File::as_fd));

    let (processor, processors) = sys::processors().map_err(system("finding a processor"))?;
    sys::bind(processor).map_err(system("binding to a processor"))?;
    let signals = sys::child_signals().map_err(system("waiting for signals"))?;
    let directory = directory.as_ref().map(File::as_fd);
    let started = sys::start(&path, &pointers, &mut filter::program(), streams, directory).map_err(not_started)?;
    let child = match started {
        sys::Started::Runs(child) => child,
        sys::Started::Killed(signal) => {
            return Ok(Outcome { exit: Some(Exit::Signal(signal)), report: TrapReport::default() });
        }
    };
    sys::take_precedence();
    let mut monitor =
        Monitor::new(lab, child.process, processors, launch.slice).map_err(system("waiting for the program"))?;
    monitor.report.kernel = launch.tells_kernel.then_some((0, 0));
    if let Ok(swaps) = std::fs::read_to_string("/proc/swaps")
        && swaps.lines().nth(1).is_some()
    {
        monitor.reclaim = false;
        monitor.report.notes.push(format!("{}: swap is on; `swapoff -a` turns it off", faults::BY_AGENT));
    }
    let outcome = monitor.run(signals, interval, tick);
    monitor.kill_all();
    if outcome.is_ok()
        && monitor.report.execs == 0
        && let Some(error) = child.error()
    {
        return Err(not_started(error));
    }
    let exit = outcome.map_err(|failure| match failure {
        Failure::System(what, error) if error.raw_os_error() == Some(libc::EMFILE) => {
            TrapError::System { what, error: io::Error::new(error.kind(), sys::too_many_files(&error)) }
        }
        Failure::System(what, error) => TrapError::System { what, error },
        Failure::Laboratory(error) => TrapError::Laboratory(error),
        Failure::Refused { program, why } => TrapError::Refused { program, why },
        Failure::Stuck { instruction, page } => TrapError::Stuck { instruction, page },
        Failure::Killed(what) => TrapError::Gone { what },
    })?;
    let exit = exit.map(|stop| match stop {
        sys::Stop::Exit(code) => Exit::Code(code),
        sys::Stop::Killed(signal) => Exit::Signal(signal),
        other => unreachable!("a program does not end with {other:?}"),
    });
    Ok(Outcome { exit, report: monitor.into_report() })
}
