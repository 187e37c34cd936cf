//! The access tracker of Ingens (ING-5): it reads the accessed bits of private anonymous memory at intervals, keeps
//! a history of each page, and clears the bits, of pages that are hot at random.
//!
//! Where the rules are silent: whether a page is hot when its bit is read is decided by the scans before. The history
//! is one of a page in its frame, as in the authors' kernel: it ends when the page is unmapped, dropped or moved, gets
//! another frame, or becomes a part of a superpage or a page by itself.

use super::contract::Daemon;
use crate::accessed::ScannedLeaf;
use crate::os::Os;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;

/// What is known of a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct History {
    order: u8,
    frame: u64,
    /// Whether it was accessed before the last eight scans, a bit for each.
    accessed: u8,
    /// F.
    frequency: i8,
}

impl History {
    fn is_hot(&self) -> bool {
        self.frequency >= 0
    }

    /// ING-5.
    fn note(&mut self, accessed: bool) {
        self.accessed = self.accessed << 1 | u8::from(accessed);
        let recent = self.accessed.count_ones() as i64 - 6;
        self.frequency = ((70 * i64::from(self.frequency) + 30 * recent) / 100) as i8;
    }
}

/// See the module.
pub(crate) struct Tracker {
    /// From one scan to the next, in instructions.
    sleep: u64,
    /// Of a hundred hot leaves, those whose bit is cleared.
    sample: u64,
    rng: Pcg64Mcg,
    /// By process and first page.
    histories: BTreeMap<(Asid, Vpn), History>,
    due: u64,
    scans: u64,
    scanned: u64,
    /// Hot leaves, of all scans together, and superpages that were cold at the last one.
    hot: u64,
    idle_superpages: u64,
}

impl Tracker {
    pub fn new(sleep: u64, sample: u64, seed: u64) -> Tracker {
        Tracker {
            sleep,
            sample,
            rng: Pcg64Mcg::seed_from_u64(seed ^ 0x0069_6e67_656e_7300),
            histories: BTreeMap::new(),
            due: sleep,
            scans: 0,
            scanned: 0,
            hot: 0,
            idle_superpages: 0,
        }
    }

    /// Notes the bit of a leaf. Whether it is to be cleared.
    fn note(&mut self, asid: Asid, leaf: &ScannedLeaf) -> bool {
        if leaf.order > 0 {
            let inside = (asid, Vpn(leaf.vpn.0 + 1))..(asid, Vpn(leaf.vpn.0 + (1 << leaf.order)));
            let gone: Vec<_> = self.histories.range(inside).map(|(&at, _)| at).collect();
            gone.iter().for_each(|at| _ = self.histories.remove(at));
        }
        let history = self.histories.entry((asid, leaf.vpn)).or_default();
        if (history.order, history.frame) != (leaf.order, leaf.pfn.0) {
            *history = History { order: leaf.order, frame: leaf.pfn.0, ..History::default() };
        }
        let was_hot = history.is_hot();
        history.note(leaf.accessed);
        self.hot += u64::from(history.is_hot());
        self.idle_superpages += u64::from(!history.is_hot() && leaf.order > 0);
        !was_hot || self.sample == 100 || self.rng.random_range(0..100) < self.sample
    }
}

impl Daemon for Tracker {
    fn due(&self) -> u64 {
        self.due
    }

    fn run(&mut self, os: &mut Os, now: u64) {
        self.scans += 1;
        self.idle_superpages = 0;
        for asid in (0..os.spaces.len() as u32).map(Asid) {
            for range in os.private_anonymous(asid) {
                let leaves = os.scan_leaves(asid, range);
                self.scanned += leaves.len() as u64;
                let cleared: Vec<_> = leaves.into_iter().filter(|leaf| self.note(asid, leaf)).collect();
                os.clear_accessed(asid, &cleared);
            }
        }
        self.due = now.saturating_add(self.sleep);
    }

    fn unmapped(&mut self, asid: Asid, range: VpnRange) {
        let gone: Vec<_> = self.histories.range((asid, range.start)..(asid, range.end())).map(|(&at, _)| at).collect();
        gone.iter().for_each(|at| _ = self.histories.remove(at));
    }

    fn ended(&mut self, asid: Asid) {
        self.histories.retain(|(of, _), _| *of != asid);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("tracker_scans", self.scans),
            ("tracker_scanned_ptes", self.scanned),
            ("tracker_hot_ptes", self.hot),
            ("tracker_idle_superpages_at_end", self.idle_superpages),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of ING-5.
    #[test]
    fn ing_5_a_history_of_eight_scans_decides_what_is_hot() {
        let after = |accessed: u8| {
            let mut history = History { accessed: accessed >> 1, ..History::default() };
            history.note(accessed & 1 == 1);
            assert_eq!(history.accessed, accessed);
            history.frequency
        };
        assert_eq!((after(0xff), after(0)), (0, -1));
        assert!(History::default().is_hot());
        // A page that is never accessed is cold from the first scan on, and one that is accessed again needs some.
        let mut history = History::default();
        (0..40).for_each(|_| history.note(false));
        assert_eq!((history.frequency, history.is_hot()), (-3, false));
        let scans = (1..).find(|_| {
            history.note(true);
            history.is_hot()
        });
        assert_eq!(scans, Some(6));
    }
}
