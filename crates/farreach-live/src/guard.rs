//! A process of its own that restores files of the kernel when this process ends, however it ends.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A file below `/sys` or `/proc/sys` and what is to be in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The file.
    pub file: PathBuf,
    /// The word or number.
    pub value: String,
}

/// A change that was made, or is about to be, and how to undo it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Undo {
    pub file: PathBuf,
    /// What was there, and will be again.
    pub before: String,
    /// What this process sets. Anything else was set by somebody else, and stays.
    pub set: String,
}

/// The process (`capture/guard`). It restores when this value is dropped, and when this process is killed.
pub(crate) struct Guard(Child);

impl Guard {
    /// Starts it. `undo`: in this order. `lock`: what it keeps locked until it has restored. `errors`: where it says
    /// what stays, if this process is killed.
    pub(crate) fn start(undo: &[Undo], lock: &File, errors: Stdio) -> io::Result<Guard> {
        Guard::with(undo, lock, Stdio::piped(), errors)
    }

    fn with(undo: &[Undo], lock: &File, input: Stdio, errors: Stdio) -> io::Result<Guard> {
        let mut command = Command::new(crate::launch::guard(None).map_err(io::Error::other)?);
        // Nothing in it is for the guard, and by GLIBC_TUNABLES it would take a page of a pool.
        command.env_clear();
        command.arg("settings").arg(std::process::id().to_string());
        for Undo { file, before, set } in undo {
            command.arg(file).args([before, set]);
        }
        let child = command.stdin(input).stdout(lock.try_clone()?).stderr(errors).spawn()?;
        Ok(Guard(child))
    }

    /// Restores now, what a guard that was killed did not. `errors`: where it says what stays.
    pub(crate) fn restore(undo: &[Undo], lock: &File, errors: Stdio) -> io::Result<ExitStatus> {
        Guard::with(undo, lock, Stdio::null(), errors)?.0.wait()
    }

    /// Has it restore now, and waits for that. False: something is not as it was, or the guard was killed. A second
    /// call does nothing.
    pub(crate) fn end(&mut self) -> io::Result<bool> {
        if let Some(mut input) = self.0.stdin.take() {
            // A guard that was killed hears nothing.
            let _ = input.write_all(b"e");
        }
        Ok(self.0.wait()?.success())
    }
}

#[cfg(test)]
impl Guard {
    /// Kills it, as somebody might.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        self.0.kill()?;
        self.0.wait().map(drop)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // After `end` there is nothing left to do.
        let _ = self.end();
    }
}
