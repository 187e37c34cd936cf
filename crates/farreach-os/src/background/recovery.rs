//! Recovery of bloat (HWE-7): when memory is short, pages of superpages that hold only zeros are unmapped and freed. A
//! trace has no values, so a page is zero if it was zeroed and never stored to since (OSC-3); what programs fill with
//! zeros themselves is not known.
//!
//! Where the rules are silent: it works as soon as memory is short, before anything else that is due, and looks again
//! after each event, fault and round of promotion. Where nothing measures the overhead of a process, they come by
//! number. A page that another process shares stays. After each superpage it looks whether enough is free.

use crate::os::Os;
use farreach_types::addr::{Asid, Vpn, VpnRange};

/// When it works, and what it did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    /// Percent of memory: it starts when less is free.
    pub start: u64,
    /// Percent of memory: it ends when as much is free.
    pub end: u64,
    runs: u64,
    scanned: u64,
    recovered: u64,
}

/// Frames to recover: `free` of `total` frames are free (HWE-7).
fn target(total: u64, free: u64, start: u64, end: u64) -> u64 {
    if free < total * start / 100 { (total * end / 100).saturating_sub(free) } else { 0 }
}

impl Recovery {
    pub fn new(start: u64, end: u64) -> Recovery {
        Recovery { start, end, runs: 0, scanned: 0, recovered: 0 }
    }

    /// Frames that must become free now.
    pub fn target(&self, os: &Os) -> u64 {
        let frames = os.frames();
        frames.total.zip(frames.free).map_or(0, |(total, free)| target(total, free, self.start, self.end))
    }

    /// HWE-7, for superpages of `2^order` base pages, of these processes in turn.
    pub fn run(&mut self, os: &mut Os, order: u8, processes: &[Asid]) {
        os.memory.release_freed();
        let target = self.target(os);
        if target == 0 {
            return;
        }
        self.runs += 1;
        let before = self.recovered;
        for &asid in processes {
            for range in os.private_anonymous(asid) {
                for leaf in os.scan_leaves(asid, range).into_iter().filter(|leaf| leaf.order == order) {
                    let group = VpnRange { start: leaf.vpn, pages: 1 << order };
                    self.scanned += group.pages;
                    let zeros: Vec<Vpn> = group.iter().filter(|vpn| os.holds_zeros(asid, *vpn)).collect();
                    zeros.iter().for_each(|vpn| os.give_up_page(asid, *vpn));
                    self.recovered += zeros.len() as u64;
                    os.memory.release_freed();
                    if self.recovered - before >= target {
                        return;
                    }
                }
            }
        }
    }

    /// What it did, by name.
    pub fn counters(&self) -> [(&'static str, u64); 4] {
        [
            ("recovery_runs", self.runs),
            ("recovery_scanned_pages", self.scanned),
            ("recovered_pages", self.recovered),
            // Which pages are zero is known as far as a trace tells (OSC-3).
            ("zero_unknown", 1),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of HWE-7.
    #[test]
    fn hwe_7_it_starts_below_15_percent_and_ends_at_30() {
        assert_eq!([149, 150, 0].map(|free| target(1000, free, 15, 30)), [151, 0, 300]);
    }
}
