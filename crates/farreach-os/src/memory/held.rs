//! Frames of unmapped memory that stay taken for a while (OS-SHD-10): with shootdowns that wait for a tick, entries of
//! other cores may still name them.

use super::Memory;
use farreach_types::params::{Allowed, Key};
use std::collections::VecDeque;

/// OS-SHD-10. In instructions, as `latr_tick`.
pub(crate) const UNMAP_HOLD: Key = Key {
    name: "unmap_hold",
    default: "0",
    allowed: Allowed::Int { min: 0, max: 1 << 60 },
    about: "instructions for which frames stay taken after munmap, so that no entry of a TLB that is dropped late \
            names a frame with other contents (OS-SHD-10); 0: none",
};

/// See the module.
#[derive(Default)]
pub struct Held {
    /// How long.
    time: u64,
    /// The end of it, first frame and number, by time.
    runs: VecDeque<(u64, u64, u64)>,
    frames: u64,
    peak: u64,
    /// Frames that were let go before their time, since no other was free.
    early: u64,
}

impl Held {
    pub fn new(time: u64) -> Held {
        Held { time, ..Held::default() }
    }
    /// Whether any frame is ever held.
    pub fn is_used(&self) -> bool {
        self.time > 0
    }
    /// Frames that are neither busy nor free.
    pub fn frames(&self) -> u64 {
        self.frames
    }
    /// When the next of them are free; `u64::MAX`: there are none.
    pub fn due(&self) -> u64 {
        self.runs.front().map_or(u64::MAX, |&(until, ..)| until)
    }
    /// What is counted (OSC-4).
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        match self.is_used() {
            true => vec![("held_pages_at_most", self.peak), ("held_pages_early", self.early)],
            false => Vec::new(),
        }
    }
}

impl Memory {
    /// What the event at this time freed stays taken, if the policy says so.
    pub fn hold_freed(&mut self, now: u64) {
        if !self.held.is_used() {
            return;
        }
        self.freed.sort_unstable();
        let until = now.saturating_add(self.held.time);
        for (first, frames) in self.freed.drain(..) {
            self.held.frames += frames;
            self.held.runs.push_back((until, first, frames));
        }
        self.held.peak = self.held.peak.max(self.held.frames);
    }

    /// Frees what was held long enough.
    pub fn release_held(&mut self, now: u64) {
        while self.held.due() <= now
            && let Some((_, first, frames)) = self.held.runs.pop_front()
        {
            self.held.frames -= frames;
            self.freed.push((first, frames));
        }
        self.release_freed();
    }

    /// Frees all that is held, since no other frame is free. False if there is nothing.
    pub fn release_held_early(&mut self) -> bool {
        let frames = self.held.frames;
        self.held.early += frames;
        self.release_held(u64::MAX);
        frames > 0
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    /// OS-SHD-10: two ticks of 1000.
    #[test]
    fn os_shd_10_no_frame_is_used_again_before_its_time() {
        let mut os = os("demand", "memory=64K,unmap_hold=2000");
        map(&mut os, 0, 8);
        let first: Vec<u64> = (0..8).map(|vpn| store(&mut os, vpn)).collect();
        os.note_time(200);
        unmap(&mut os, 0, 8);
        assert_eq!(os.due(), 2200);
        map(&mut os, 0x100, 16);
        let others: Vec<u64> = (0x100..0x108).map(|vpn| store(&mut os, vpn)).collect();
        assert!(others.iter().all(|frame| !first.contains(frame)), "{first:?}, {others:?}");
        assert_eq!(counts(&os, ["held_pages_at_most", "held_pages_early"]), [8, 0]);
        os.advance(2200);
        os.check();
        assert!(first.contains(&store(&mut os, 0x108)) && os.due() == u64::MAX);
        // Where no other frame is free, they are let go early, and counted.
        os.note_time(3000);
        unmap(&mut os, 0x100, 16);
        map(&mut os, 0x200, 16);
        (0x200..0x210).for_each(|vpn| _ = store(&mut os, vpn));
        assert_eq!(counts(&os, ["held_pages_at_most", "held_pages_early"]), [9, 9]);
    }
}
