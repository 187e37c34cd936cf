//! Threads that make no progress: those that only take each other's pages away get turns, and one that cannot go on by
//! itself ends the run.

use crate::monitor::Failure;
use crate::uffd::Fault;
use farreach_types::addr::Asid;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Threads of which something is kept: open files, and traps.
const THREADS: usize = 256;

/// What stands for an instruction while the kernel refers to memory for a thread.
pub const IN_KERNEL: u64 = u64::MAX;

/// The instruction that a thread has come to.
pub fn instruction(
    threads: &mut hashbrown::HashMap<u32, File, foldhash::fast::FixedState>,
    thread: u32,
) -> Option<u64> {
    let mut text = [0; 256];
    let known = threads.get(&thread).and_then(|file| file.read_at(&mut text, 0).ok());
    let used = match known {
        Some(used) => used,
        // Its number may be another thread's now.
        None => {
            if threads.len() >= THREADS {
                threads.clear();
            }
            let file = File::open(format!("/proc/{thread}/syscall")).ok()?;
            let used = file.read_at(&mut text, 0).ok()?;
            threads.insert(thread, file);
            used
        }
    };
    let text = std::str::from_utf8(&text[..used]).ok()?.trim_end();
    let (state, _) = text.split_once(' ')?;
    let pointer = u64::from_str_radix(text.rsplit(' ').next()?.strip_prefix("0x")?, 16).ok()?;
    Some(if state == "-1" { pointer } else { IN_KERNEL })
}

/// Threads that take turns. Where several run, the traps of the others can take the pages away that an instruction has
/// just got, for all of them again and again: none goes on. Then one of them gets a turn, in which the traps of the
/// others wait.
#[derive(Default)]
pub struct Turns {
    /// Whose turn it is, and until when.
    turn: Option<(u32, Instant)>,
    /// Faults that wait for its end.
    pub waiting: Vec<(Asid, Fault)>,
}

/// Traps of a thread on few pages in a row after which it gets a turn.
const FEW: u64 = 256;
/// A turn: long enough for many traps, short beside what people notice.
const TURN: Duration = Duration::from_millis(1);

impl Turns {
    /// A thread gets a turn, unless another has one.
    pub fn begin(&mut self, thread: u32) {
        self.turn = self.turn.or(Some((thread, Instant::now() + TURN)));
    }

    /// Whether the traps of this thread wait.
    pub fn waits(&self, thread: u32) -> bool {
        self.turn.is_some_and(|(whose, _)| whose != thread)
    }

    /// When it ends, if somebody waits for that.
    pub fn end(&self) -> Option<Instant> {
        self.turn.filter(|_| !self.waiting.is_empty()).map(|(_, end)| end)
    }

    /// Whether a turn has just ended.
    pub fn is_over(&mut self) -> bool {
        self.turn.take_if(|(_, end)| Instant::now() >= *end).is_some()
    }
}

/// The progress of all threads.
#[derive(Default)]
pub struct AllProgress(hashbrown::HashMap<u32, Progress, foldhash::fast::FixedState>);

impl AllProgress {
    /// That of one thread.
    pub fn of(&mut self, thread: u32) -> &mut Progress {
        if self.0.len() >= THREADS && !self.0.contains_key(&thread) {
            self.0.clear(); // most have ended
        }
        self.0.entry(thread).or_default()
    }
}

/// Notices a thread that makes no progress: an instruction that needs more pages at once than a machine holds traps
/// for ever.
#[derive(Default)]
pub struct Progress {
    /// The pages of the last traps, and how many traps in a row were on them.
    pages: [u64; 24],
    traps: u64,
    at: u64,
}

/// Traps on so few pages before one looks, and while one looks.
const SUSPICIOUS: u64 = 20_000;
const LOOKS: u64 = 64;

impl Progress {
    /// Whether it is time for a turn.
    pub fn is_slow(&self) -> bool {
        self.traps % FEW == FEW - 1
    }

    /// Counts a trap. `instruction`: the one that the thread has come to.
    pub fn check(&mut self, fault: Fault, instruction: impl FnOnce() -> Option<u64>) -> Result<(), Failure> {
        if !self.pages.contains(&fault.address) {
            self.pages.rotate_right(1);
            (self.pages[0], self.traps) = (fault.address, 0);
            return Ok(());
        }
        self.traps += 1;
        if self.traps < SUSPICIOUS {
            return Ok(());
        }
        // The kernel copies piece by piece, and gets on.
        let now = instruction().unwrap_or(IN_KERNEL);
        if self.traps > SUSPICIOUS && now != self.at || now == IN_KERNEL {
            self.traps = 0;
        }
        self.at = now;
        if self.traps > SUSPICIOUS + LOOKS {
            return Err(Failure::Stuck { instruction: now, page: fault.address });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(thread: u32, page: u64) -> Fault {
        Fault { address: page << 12, write: false, protected: false, present: true, thread }
    }

    #[test]
    fn an_instruction_that_traps_for_ever_is_found_among_the_traps_of_other_threads() {
        let mut all = AllProgress::default();
        let mut stuck = None;
        for trap in 0..30_000 {
            // One goes on, through many pages; the other is always at the same instruction, on three pages.
            all.of(1).check(fault(1, trap), || Some(trap)).unwrap_or_else(|_| panic!("it goes on"));
            match all.of(2).check(fault(2, trap % 3), || Some(0x1000)) {
                Err(Failure::Stuck { instruction, .. }) => {
                    stuck = Some((trap, instruction));
                    break;
                }
                other => other.unwrap_or_else(|_| panic!("another failure")),
            }
        }
        assert_eq!(stuck, Some((3 + SUSPICIOUS + LOOKS, 0x1000)));
    }

    #[test]
    fn a_thread_on_few_pages_gets_a_turn_that_ends() {
        let (mut all, mut turns) = (AllProgress::default(), Turns::default());
        let slow = (0..2 * FEW).filter(|trap| {
            let progress = all.of(7);
            progress.check(fault(7, trap % 2), || None).unwrap_or_else(|_| panic!("it is not stuck"));
            progress.is_slow()
        });
        assert_eq!(slow.count(), 1);
        assert!(!turns.waits(8) && turns.end().is_none() && !turns.is_over());
        turns.begin(7);
        turns.begin(8);
        assert!(turns.waits(8) && !turns.waits(7) && turns.end().is_none(), "no fault waits yet");
        turns.waiting.push((Asid(0), fault(8, 1)));
        std::thread::sleep(turns.end().unwrap().saturating_duration_since(Instant::now()));
        assert!(turns.is_over() && !turns.is_over() && !turns.waits(8));
    }
}
