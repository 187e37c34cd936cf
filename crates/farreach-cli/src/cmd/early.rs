//! What ends a run before its program has ended: a signal, or memory that runs short. What was seen until then is its
//! result.

use super::common::note;
use super::program;
use anyhow::{Result, bail};
use farreach_live::room::{Room, ended_for_want_of_memory, room};
use farreach_machine::Lab;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// See the module.
#[derive(Clone, Debug)]
pub enum Early {
    /// This signal.
    Signal(i32),
    /// This much memory was left.
    Memory(Room),
}

impl Early {
    /// Why a result is not of the whole program, for the result.
    pub fn words(&self) -> String {
        match self {
            Early::Signal(_) => "interrupted".to_owned(),
            Early::Memory(room) => format!("out of memory: {room}"),
        }
    }

    /// The exit status; of memory that runs short it is `failed`, with a message.
    pub fn status(&self, failed: u8) -> ExitCode {
        match self {
            Early::Signal(signal) => program::interrupted(*signal),
            Early::Memory(_) => {
                note(format_args!("{}; the result is of what was seen until then", self.words()));
                ExitCode::from(failed)
            }
        }
    }

    /// The signal, for commands that have no result then.
    ///
    /// # Errors
    /// It was memory.
    pub fn signal(early: Option<Early>) -> Result<Option<i32>> {
        match early {
            Some(Early::Memory(_)) => bail!("{}", early.map_or_else(String::new, |early| early.words())),
            Some(Early::Signal(signal)) => Ok(Some(signal)),
            None => Ok(None),
        }
    }
}

/// Waits until the laboratory has simulated what it was fed, or, where memory runs short, as much of that as it can.
/// `early`: what has ended the run already. Returns what has ended it in the end.
pub fn finish(lab: &mut Lab, mut early: Option<Early>) -> Result<Option<Early>> {
    let mut memory = MemoryLook::default();
    lab.finish_or_cut(|| {
        early = memory.short().or(early.take());
        matches!(early, Some(Early::Memory(_)))
    })?;
    Ok(early)
}

/// Looks at intervals whether memory runs short.
pub struct MemoryLook {
    next: Instant,
    /// How many processes the kernel had ended before.
    ended: Option<u64>,
}

/// Between two looks, where there is much memory and where it nears its end.
const INTERVALS: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(10)];
/// How many times the reserve is left where memory nears its end.
const NEAR: u64 = 4;

impl Default for MemoryLook {
    fn default() -> MemoryLook {
        MemoryLook { next: Instant::now(), ended: ended_for_want_of_memory() }
    }
}

impl MemoryLook {
    /// The memory left, if it is too little to go on. To be called often.
    pub fn short(&mut self) -> Option<Early> {
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        let room = room()?;
        self.next = now + INTERVALS[usize::from(room.left / NEAR < room.reserve())];
        (room.left < room.reserve()).then_some(Early::Memory(room))
    }

    /// Why a program was killed, if the kernel has killed for want of memory since this was made.
    pub fn killed(&self) -> Option<String> {
        let more = ended_for_want_of_memory().zip(self.ended).is_some_and(|(now, before)| now > before);
        let room = room().filter(|_| more)?;
        Some(format!("the kernel killed it for want of memory: {} MiB is what {}", room.bytes >> 20, room.bound))
    }

    /// Says so.
    pub fn say_if_killed(&self) {
        if let Some(why) = self.killed() {
            note(why);
        }
    }
}
