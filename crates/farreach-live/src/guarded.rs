//! Programs under a guard (`capture/guard`), a process that ends them with all that they started: when it is asked to,
//! and also when this process is killed.
//!
//! The guard is the parent of the program, and of every process that loses its parent later, daemons included. The
//! program itself is in the process group of this process, so a terminal treats it as it would without a guard.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use crate::launch::guard;

/// Bytes of a message of the guard: kind and value, 32 bits each; user time, system time, most memory, 64 bits each.
const MESSAGE: usize = 32;
const RUNS: u32 = 1;
const NOT_STARTED: u32 = 2;
const ENDED: u32 = 3;
/// The variable that the guard's own C library obeys as well, and what is before its name on the way to the program.
const TUNABLES: &str = "GLIBC_TUNABLES";
const FOR_PROGRAM: &str = "FARREACH_FOR_PROGRAM_";

/// How a program ended, and what it and those of its children used that it waited for.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// User time.
    pub user: Duration,
    /// System time.
    pub system: Duration,
    /// Most memory that one of the processes held, in bytes.
    pub peak_bytes: u64,
}

/// A program that is to be started. It inherits what it would inherit of this process.
pub struct Start {
    command: Command,
    ours: UnixStream,
    /// Open until the guard has its copy.
    _theirs: UnixStream,
}

impl Start {
    /// Prepares the start of `program`, which is looked up in `PATH` as usual. `folder`: a folder of this process
    /// alone, which the guard removes if this process is killed. `tools`: where the guard lies, if not beside the
    /// recorder.
    ///
    /// # Errors
    /// There is no guard; the message says how to build it.
    pub fn new(program: impl AsRef<OsStr>, folder: Option<&Path>, tools: Option<&Path>) -> io::Result<Start> {
        let guard = guard(tools).map_err(io::Error::other)?;
        let (ours, theirs) = UnixStream::pair()?;
        // Above the standard streams, whose numbers the guard gets anew.
        let theirs = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(&theirs, 3)?);
        let number = theirs.as_raw_fd();
        let mut command = Command::new(guard);
        command.arg("program").arg(std::process::id().to_string()).arg(number.to_string());
        command.arg(folder.unwrap_or(Path::new(""))).arg(program);
        // SAFETY: between fork and exec it makes one system call, on a descriptor that is open then.
        unsafe {
            command.pre_exec(move || match libc::fcntl(number, libc::F_SETFD, 0) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
        Ok(Start { command, ours, _theirs: theirs })
    }

    /// Its arguments, environment, directory and standard streams.
    pub fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Starts it.
    ///
    /// # Errors
    /// As those of [`Command::spawn`] for the program itself.
    pub fn spawn(mut self) -> io::Result<Guarded> {
        self.keep_tunables_from_guard();
        let guard = self.command.spawn()?;
        drop((self.command, self._theirs));
        let mut program = Guarded { guard, channel: self.ours, pid: 0, ended: None, over: None };
        let mut message = [0; MESSAGE];
        let read = program.channel.read_exact(&mut message);
        let said = Message::of(&message);
        match (read, said.kind) {
            (Ok(()), RUNS) => program.pid = said.value as u32,
            (Ok(()), NOT_STARTED) => return Err(io::Error::from_raw_os_error(said.value)),
            _ => return Err(guard_ended()),
        }
        program.channel.set_nonblocking(true)?;
        Ok(program)
    }

    /// With `glibc.malloc.hugetlb=2` the guard would take a page of the pool, and the program miss it.
    fn keep_tunables_from_guard(&mut self) {
        let set = self.command.get_envs().find(|(name, _)| *name == TUNABLES);
        let value = set.map_or_else(|| std::env::var_os(TUNABLES), |(_, value)| value.map(OsStr::to_owned));
        if let Some(value) = value {
            self.command.env_remove(TUNABLES).env(format!("{FOR_PROGRAM}{TUNABLES}"), value);
        }
    }

    /// Runs it to its end, and returns its standard output, and its standard error if that is a pipe.
    ///
    /// # Errors
    /// As those of [`Start::spawn`].
    pub fn output(mut self) -> io::Result<(Ended, [Vec<u8>; 2])> {
        self.command.stdout(Stdio::piped());
        let mut program = self.spawn()?;
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let (stdout, stderr) = (program.guard.stdout.take(), program.guard.stderr.take());
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| stderr.map_or(Ok(0), |mut stderr| stderr.read_to_end(&mut errors)));
            stdout.map_or(Ok(0), |mut stdout| stdout.read_to_end(&mut output))?;
            reader.join().expect("no panics")
        })?;
        Ok((program.wait()?, [output, errors]))
    }
}

struct Message {
    kind: u32,
    value: i32,
    numbers: [u64; 3],
}

impl Message {
    fn of(bytes: &[u8; MESSAGE]) -> Message {
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let number = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Message { kind: word(0), value: word(4) as i32, numbers: [8, 16, 24].map(number) }
    }
}

/// Somebody killed it; the kernel then kills the program.
fn guard_ended() -> io::Error {
    io::Error::other("its guard, the process farreach-guard that ends it with farreach, was killed, and so was it")
}

/// A program that runs, or has ended, under its guard. Dropped, it is killed with all that it started.
pub struct Guarded {
    guard: Child,
    channel: UnixStream,
    pid: u32,
    ended: Option<Ended>,
    /// Whether all its processes have ended, once the guard has.
    over: Option<bool>,
}

impl Guarded {
    /// Its process id, which stays its own until [`Guarded::end`].
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How it ended, once it has. Processes that it started may go on.
    ///
    /// # Errors
    /// The guard was killed.
    pub fn try_wait(&mut self) -> io::Result<Option<Ended>> {
        let mut message = [0; MESSAGE];
        while self.ended.is_none() {
            match self.channel.read(&mut message) {
                Ok(MESSAGE) => {
                    let Message { kind, value, numbers: [user, system, peak_bytes] } = Message::of(&message);
                    if kind == ENDED {
                        let (user, system) = (Duration::from_micros(user), Duration::from_micros(system));
                        self.ended = Some(Ended { status: ExitStatus::from_raw(value), user, system, peak_bytes });
                    }
                }
                Ok(_) => return Err(guard_ended()),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(self.ended)
    }

    /// Whether the guard is there, which ends the program's processes at the end of all.
    ///
    /// # Errors
    /// It was killed, or the system's.
    pub fn check_guard(&mut self) -> io::Result<()> {
        if self.try_wait()?.is_none() || self.over.is_some() {
            return Ok(());
        }
        match self.channel.read(&mut [0; MESSAGE]) {
            Ok(0) => Err(guard_ended()),
            Err(e) if !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Err(e),
            _ => Ok(()),
        }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// As of [`Guarded::try_wait`].
    pub fn wait(&mut self) -> io::Result<Ended> {
        loop {
            if let Some(ended) = self.try_wait()? {
                return Ok(ended);
            }
            match poll(&mut [PollFd::new(&self.channel, PollFlags::IN)], None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Kills it, if it has not ended, and all processes that it left; waits until they are gone. A second call does
    /// nothing.
    ///
    /// # Errors
    /// Some could not be killed within some seconds, such as those of another user; or the guard was killed.
    pub fn end(&mut self) -> io::Result<()> {
        if self.over.is_none() {
            // A guard that is gone hears nothing.
            let _ = self.channel.write_all(b"e");
            let status = self.guard.wait()?;
            self.over = Some(status.success());
            let ended = self.try_wait();
            if status.code().is_none() {
                ended?;
                return Err(guard_ended());
            }
        }
        match self.over {
            Some(false) => Err(io::Error::other(format!("processes that {} started could not be ended", self.pid))),
            _ => Ok(()),
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Who wants to know has called it.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::is_running;
    use std::path::PathBuf;
    use std::time::Instant;

    fn shell(script: &str) -> Start {
        let mut start = Start::new("sh", None, None).unwrap();
        start.command().args(["-c", script]);
        start
    }

    /// Waits for a file with a process id.
    fn pid_in(file: &Path) -> u32 {
        let began = Instant::now();
        loop {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            if let Some(pid) = text.strip_suffix('\n').and_then(|pid| pid.parse().ok()) {
                return pid;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "no process id in {}", file.display());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn how_it_ends_and_what_it_used() {
        for (script, status) in [("exit 0", 0), ("exit 7", 7 << 8), ("kill -9 $$", 9), ("kill -15 $$", 15)] {
            let mut program = shell(script).spawn().unwrap();
            let ended = program.wait().unwrap();
            assert_eq!(ended.status.into_raw(), status, "{script}");
            assert!(ended.peak_bytes > 0 && program.end().is_ok());
        }
        let ended = shell("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done").spawn().unwrap().wait().unwrap();
        assert!(ended.user > Duration::ZERO);
    }

    #[test]
    fn what_cannot_be_started_is_an_error_of_the_program() {
        let error = |program: &str| Start::new(program, None, None).unwrap().spawn().err().unwrap().kind();
        assert_eq!(error("/no/such/program"), ErrorKind::NotFound);
        assert_eq!(error("/etc/passwd"), ErrorKind::PermissionDenied);
    }

    #[test]
    fn its_output_is_read_to_the_end() {
        let mut start = shell("seq 100000; seq 100000 >&2; exit 3");
        start.command().stderr(Stdio::piped());
        let (ended, [output, errors]) = start.output().unwrap();
        assert_eq!((ended.status.code(), output.len(), errors), (Some(3), 588_895, output.clone()));
    }

    #[test]
    fn variables_for_its_c_library_do_not_touch_the_guard() {
        let mut start = shell("env | grep TUNABLES; tr '\\0' '\\n' < /proc/$PPID/environ | grep TUNABLES");
        start.command().env("GLIBC_TUNABLES", "glibc.malloc.check=1");
        let (_, [output, _]) = start.output().unwrap();
        let (of_program, of_guard) = ("GLIBC_TUNABLES", "FARREACH_FOR_PROGRAM_GLIBC_TUNABLES");
        let value = "glibc.malloc.check=1";
        let expected = format!("{of_program}={value}\n{of_guard}={value}\n");
        assert_eq!(String::from_utf8_lossy(&output), expected);
    }

    #[test]
    fn it_is_in_the_group_and_session_of_its_owner() {
        // What stands in /proc/PID/stat: group, session, and the group in the foreground of the terminal.
        let of = |pid: &str| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            let fields: Vec<String> = text.rsplit_once(')').unwrap().1.split(' ').map(str::to_owned).collect();
            fields[3..5].to_vec()
        };
        let program = shell("exec sleep 1000").spawn().unwrap();
        assert_eq!(of(&program.pid().to_string()), of("self"));
    }

    /// A daemon has a session of its own and no parent.
    #[test]
    fn daemons_end_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let file: PathBuf = folder.path().join("pid");
        let script = format!("setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000' &", file.display());
        let mut program = shell(&script).spawn().unwrap();
        assert!(program.wait().unwrap().status.success());
        let daemon = pid_in(&file);
        assert!(is_running(daemon), "it goes on when the program has ended");
        program.end().unwrap();
        assert!(!is_running(daemon));
    }

    #[test]
    fn without_its_guard_it_is_killed() {
        let mut program = shell("exec sleep 1000").spawn().unwrap();
        program.guard.kill().unwrap();
        let why = program.wait().unwrap_err();
        assert!(why.to_string().contains("farreach-guard"), "{why}");
        let began = Instant::now();
        while is_running(program.pid()) {
            assert!(began.elapsed() < Duration::from_secs(60));
        }
        assert!(program.end().is_err());
    }
}
