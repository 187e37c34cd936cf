//! Tries: does an interface of the kernel work here, for this user? Each function uses the interface as farreach would
//! and undoes what it did. It returns what was found, or why it failed and what turns it on.

mod counters;
mod memory;
mod processes;
pub(crate) mod raw;
mod recorder;
mod seccomp;
mod userfaultfd;

pub use crate::watch::{
    clear_refs_works as clear_refs, damon_ready as damon, idle_ready as idle_pages, soft_dirty_works as soft_dirty,
};
pub use counters::instructions;
pub use memory::{frames, hugetlb, kernel, memfd, page_map_scan, swap_out};
pub use processes::{affinity, personality, pidfd, ptrace};
pub use recorder::recorder;
pub use seccomp::{filter, notification};
pub use userfaultfd::{minor_faults, userfaultfd, write_protection};

use std::fmt::Display;
use std::fs;
use std::io::{self, ErrorKind};

/// What was found, in words, or the failure.
pub type Tried = Result<String, Failure>;

/// Why something does not work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The call and its error.
    pub why: String,
    /// A command, or advice where there is none. `None` if nothing helps.
    pub turn_on: Option<String>,
}

impl Failure {
    /// A failure that nothing helps against, as far as is known.
    pub fn new(why: impl Into<String>) -> Failure {
        Failure { why: why.into(), turn_on: None }
    }

    /// The failure of a call. If this process runs under a seccomp filter, which may be the reason, the message says
    /// so.
    pub fn of(call: impl Display, error: impl Into<io::Error>) -> Failure {
        let error = error.into();
        let refused = matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES | libc::ENOSYS));
        if !(refused && is_filtered()) {
            return Failure::new(format!("{call}: {error}"));
        }
        Failure {
            why: format!("{call}: {error}; this process runs under a seccomp filter, as in a container"),
            turn_on: Some("run the container with --security-opt seccomp=unconfined".into()),
        }
    }

    /// What turns it on, unless that is known already.
    pub fn or_turn_on(mut self, how: impl Into<String>) -> Failure {
        self.turn_on.get_or_insert_with(|| how.into());
        self
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)?;
        self.turn_on.iter().try_for_each(|how| write!(f, "; {how}"))
    }
}

/// Whether a seccomp filter checks the system calls of this thread.
fn is_filtered() -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    status.lines().any(|line| line.split_whitespace().eq(["Seccomp:", "2"]))
}

/// The trimmed text of a setting; `None` if the kernel does not have it.
fn setting(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Does something in a thread of its own, and something else here meanwhile. What a thread did to itself ends with it.
fn beside<A: Send, B>(there: impl FnOnce() -> A + Send, here: impl FnOnce() -> B) -> Result<(A, B), Failure> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("try".into()).spawn_scoped(scope, there);
        let thread = thread.map_err(|error| Failure::of("a thread", error))?;
        let here = here();
        let there = thread.join().map_err(|_| Failure::new("the thread of the try panicked"))?;
        Ok((there, here))
    })
}

/// The error of something that did not happen in time.
fn too_late() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "no answer in 5 s")
}

/// How long an answer of the kernel may take, in seconds.
const PATIENCE: i64 = 5;

/// Waits until there is something to read.
fn wait_for(fd: impl rustix::fd::AsFd) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let until = Timespec { tv_sec: PATIENCE, tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&until))?;
    if ready > 0 { Ok(()) } else { Err(too_late()) }
}
