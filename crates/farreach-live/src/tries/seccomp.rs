//! seccomp: filters of system calls, and calls that another process answers.

use std::io;
use std::sync::mpsc;

use rustix::fd::AsFd;

use super::raw::{Listener, install_filter, owned, parent};
use super::{Failure, Tried, beside, wait_for};

/// What the first call returns.
const ANSWER: i64 = 4711;

/// Has a call of a thread refused.
pub fn filter() -> Tried {
    let call = || {
        install_filter(libc::SYS_getppid, libc::SECCOMP_RET_ERRNO | libc::EDOM as u32, 0)?;
        Ok::<_, io::Error>(parent())
    };
    let refused = beside(call, || ())?.0.map_err(|e| Failure::of("seccomp", e))?;
    match refused {
        Err(error) if error.raw_os_error() == Some(libc::EDOM) => Ok("a call was stopped by a filter".into()),
        other => Err(Failure::new(format!("a call that a filter stops returned {other:?}"))),
    }
}

/// Answers three calls of a thread: by a value, by letting the kernel execute it, and by a descriptor.
pub fn notification() -> Tried {
    let real = parent().map_err(|e| Failure::of("getppid", e))?;
    let (sender, listeners) = mpsc::channel();
    let call = move || {
        // The listener goes away with the other thread; calls that still wait then fail.
        sender.send(Listener::install(libc::SYS_getppid)).map_err(io::Error::other)?;
        Ok::<_, io::Error>([parent()?, parent()?, parent()?])
    };
    let here = || match listeners.recv() {
        Ok(Ok(listener)) => answer(&listener).map_err(|e| Failure::of("answering a call", e)),
        Ok(Err(error)) => Err(Failure::of("seccomp with a listener", error)),
        Err(_) => Err(Failure::new("the thread that calls has ended")),
    };
    let (called, answered) = beside(call, here)?;
    answered?;
    let [value, passed, number] = called.map_err(|e| Failure::of("a call that is answered", e))?;
    // SAFETY: the kernel made the descriptor for the thread that called, which did not use it.
    drop(unsafe { owned(number) });
    if (value, passed) != (ANSWER, real) {
        return Err(Failure::new(format!("calls returned {value} and {passed}, not {ANSWER} and {real}")));
    }
    Ok("calls were answered by a value, by the kernel and by a descriptor".into())
}

fn answer(listener: &Listener) -> io::Result<()> {
    let next = || wait_for(&listener.0).and_then(|()| listener.receive());
    listener.answer(next()?, Some(ANSWER))?;
    listener.answer(next()?, None)?;
    let third = next()?;
    let number = listener.give(third, listener.0.as_fd())?;
    listener.answer(third, Some(number.into()))
}
