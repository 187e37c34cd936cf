//! Threads that make no progress: one that cannot go on by itself ends the run.

use crate::monitor::Failure;
use crate::uffd::Fault;
use std::fs::File;
use std::os::unix::fs::FileExt;

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
}
