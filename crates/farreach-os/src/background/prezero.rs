//! Free blocks are filled with zeros ahead (HWE-6), so that faults need not do it. Which blocks these are, and which
//! requests get them, is the allocator's: `frames/buddy/zeroed.rs`.

use super::contract::Daemon;
use crate::os::Os;

/// See the module.
pub(crate) struct Prezero {
    /// log2 of the frames of a block.
    order: u32,
    /// Blocks filled in a period.
    rate: u64,
    /// Instructions of a period.
    period: u64,
    due: u64,
    zeroed: u64,
}

impl Prezero {
    pub fn new(order: u32, rate: u64, period: u64) -> Prezero {
        Prezero { order, rate, period, due: period, zeroed: 0 }
    }
}

impl Daemon for Prezero {
    fn due(&self) -> u64 {
        self.due
    }

    fn run(&mut self, os: &mut Os, now: u64) {
        for _ in 0..self.rate {
            let Some(frames) = os.memory.alloc.zero_ahead(self.order) else { break };
            self.zeroed += frames;
        }
        self.due = now.saturating_add(self.period);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        // OSC-4: work that no program waits for.
        vec![("zero_pages_background", self.zeroed)]
    }
}
