//! What ends a run before its program has ended: a signal, or memory that runs short. What was seen until then is its
//! result.

use std::time::{Duration, Instant};

use crate::room::{Room, ended_for_want_of_memory, room};

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
}

/// Waits by `wait` until all is done, or, where memory runs short, as much as can be: `wait` gets what it asks many
/// times a second whether it is to end at once. `early`: what has ended the run already. Returns what has ended it in
/// the end.
///
/// # Errors
/// Those of `wait`.
pub fn finish<E>(
    mut early: Option<Early>,
    wait: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<(), E>,
) -> Result<Option<Early>, E> {
    let mut memory = MemoryLook::default();
    wait(&mut || {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_a_run_stays_so() {
        let asked = |ask: &mut dyn FnMut() -> bool| Err::<(), bool>(ask());
        assert_eq!(finish(Some(Early::Signal(2)), asked).err(), Some(false), "there is memory");
        let early = finish(Some(Early::Signal(2)), |ask| (!ask()).then_some(()).ok_or("short of memory"));
        assert_eq!(early.unwrap().map(|early| early.words()).as_deref(), Some("interrupted"));
    }
}
