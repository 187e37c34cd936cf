//! Frames of unmapped memory are free after a time (OS-SHD-10): see `memory/held.rs`.

use super::contract::Daemon;
use crate::os::Os;

/// See the module.
pub(crate) struct LateFrees {
    due: u64,
}

impl LateFrees {
    pub fn new() -> LateFrees {
        LateFrees { due: u64::MAX }
    }
}

impl Daemon for LateFrees {
    fn due(&self) -> u64 {
        self.due
    }

    fn run(&mut self, os: &mut Os, now: u64) {
        os.memory.release_held(now);
        self.due = os.memory.held.due();
    }

    fn memory_used(&mut self, os: &Os) {
        self.due = os.memory.held.due();
    }
}
