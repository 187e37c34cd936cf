//! Notices when the processor has nothing else to do.

use crate::sys;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::sync::Arc;

/// What ends the thread: more than all that is asked.
const END: u64 = 1 << 32;

/// A thread on the processor of the program that runs only if no other does. Asked once, it tells once: so one learns
/// that the task which has the turn is blocked as soon as the processor has nothing else to do. Where other programs
/// keep it busy, it tells late, or too early once in a while.
pub struct Idle {
    ask: Arc<OwnedFd>,
    tell: Arc<OwnedFd>,
    asked: bool,
}

impl Idle {
    /// Begins the thread. It stays on the processors that this thread is bound to.
    pub fn begin() -> io::Result<Idle> {
        let ask = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let tell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (asked, told) = (Arc::clone(&ask), Arc::clone(&tell));
        std::thread::Builder::new().name("idle".into()).spawn(move || {
            sys::run_when_idle();
            let mut word = [0; 8];
            while rustix::io::retry_on_intr(|| rustix::io::read(&*asked, &mut word)).is_ok()
                && u64::from_ne_bytes(word) < END
            {
                let _ = rustix::io::write(&*told, &1u64.to_ne_bytes());
            }
        })?;
        Ok(Idle { ask, tell, asked: false })
    }

    /// Asks to be told.
    pub fn ask(&mut self) {
        if !std::mem::replace(&mut self.asked, true) {
            let _ = rustix::io::write(&*self.ask, &1u64.to_ne_bytes());
        }
    }

    /// To be called when it has told.
    pub fn told(&mut self) {
        let mut word = [0; 8];
        let _ = rustix::io::read(&*self.tell, &mut word);
        self.asked = false;
    }
}

impl AsFd for Idle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tell.as_fd()
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.ask, &END.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    #[test]
    fn it_tells_once_for_each_time_it_is_asked() {
        let mut idle = Idle::begin().unwrap();
        let told = |idle: &Idle, timeout: Option<&rustix::event::Timespec>| {
            poll(&mut [PollFd::new(idle, PollFlags::IN)], timeout).unwrap() == 1
        };
        for _ in 0..3 {
            assert!(!told(&idle, Some(&Default::default())));
            idle.ask();
            idle.ask();
            assert!(told(&idle, None));
            idle.told();
        }
    }
}
