//! Other processes: tracing a child, its descriptors; the layout and the processor of what runs.

use std::process::{Child, Command, Stdio};

use rustix::process::{ForeignRawFd, Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use crate::tool;

use super::raw::{fixed_layout, trace};
use super::{Failure, Tried, beside, setting};

/// A child that waits until its value is dropped.
struct Waiting(Child);

impl Waiting {
    fn start() -> Result<Waiting, Failure> {
        let start =
            |mut command: Command| command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        tool::command("cat").and_then(start).map(Waiting).map_err(|e| Failure::of("starting cat", e))
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What Yama, a security module, adds: from 2 on, tracing children takes a privilege.
const SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";

fn refused(call: impl std::fmt::Display, error: impl Into<std::io::Error>) -> Failure {
    let failure = Failure::of(call, error);
    match setting(SCOPE).as_deref() {
        Some("2") => failure.or_turn_on("sudo sysctl kernel.yama.ptrace_scope=1"),
        Some("3") => failure.or_turn_on("restart with kernel.yama.ptrace_scope below 3, which cannot be undone"),
        _ => failure,
    }
}

/// Attaches to a child, stops it, looks into it and lets it go.
pub fn ptrace() -> Tried {
    let child = Waiting::start()?;
    trace(child.pid()).map_err(|(request, error)| refused(request, error))?;
    let scope = setting(SCOPE).map_or("there is no Yama".to_owned(), |scope| format!("Yama's ptrace_scope is {scope}"));
    Ok(format!("a child was stopped and looked into; {scope}"))
}

/// Takes a copy of a child's descriptor.
pub fn pidfd() -> Tried {
    let child = Waiting::start()?;
    let pidfd = pidfd_open(child.pid(), PidfdFlags::empty()).map_err(|e| Failure::of("pidfd_open", e))?;
    const INPUT: ForeignRawFd = 0;
    pidfd_getfd(&pidfd, INPUT, PidfdGetfdFlags::empty()).map_err(|e| refused("pidfd_getfd", e))?;
    Ok("a descriptor of a child was copied".into())
}

/// Addresses that are not random, for programs that this one starts.
pub fn personality() -> Tried {
    beside(fixed_layout, || ())?.0.map_err(|e| Failure::of("personality", e))?;
    Ok("ADDR_NO_RANDOMIZE can be set".into())
}

/// Runs on one processor.
pub fn affinity() -> Tried {
    let pin = || {
        let allowed = sched_getaffinity(None)?;
        let one = (0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap_or(0);
        let mut only = CpuSet::new();
        only.set(one);
        sched_setaffinity(None, &only)?;
        Ok::<_, rustix::io::Errno>((one, sched_getcpu(), allowed.count()))
    };
    let (one, now, allowed) = beside(pin, || ())?.0.map_err(|e| Failure::of("sched_setaffinity", e))?;
    if one != now {
        return Err(Failure::new(format!("pinned to processor {one}, but running on {now}")));
    }
    Ok(format!("a thread was pinned to one of {allowed} processors"))
}
