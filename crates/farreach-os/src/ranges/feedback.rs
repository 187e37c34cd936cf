//! The threshold that follows the misses of the range TLB (F-4).
//!
//! The system reads the performance counters of its processor, as a kernel does, and knows nothing else about the
//! hardware. It reads them once per window. A range TLB *thrashes* if many of its lookups evict a range. Then the
//! system tries larger and larger thresholds, one window each, as long as ranges are left and the TLB still thrashes.
//! It keeps the threshold with the fewest walks. Windows can be compared because the misses of the first level of page
//! TLBs do not depend on the threshold. After that it only watches, until the load changes. So a steady load is
//! measured once, and never has more walks than with its first threshold.

use super::runs::Runs;
use farreach_types::counts::TlbCounts;

/// Performance counters of a range TLB, from the beginning or in a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RangeUse {
    /// Lookups of the range TLB.
    pub lookups: u64,
    /// Page walks.
    pub walks: u64,
    /// Page walks that ended at a page with the range bit.
    pub in_range: u64,
    /// Ranges that were evicted for others.
    pub evictions: u64,
}

impl RangeUse {
    /// Adds the counts of a TLB.
    pub fn count(&mut self, tlb: &TlbCounts) {
        let ranges = &tlb.range;
        self.add(RangeUse {
            lookups: ranges.hits + ranges.misses,
            walks: tlb.misses,
            in_range: ranges.walks - ranges.wasted_walks + ranges.missed_ranges,
            evictions: ranges.evictions,
        });
    }

    fn add(&mut self, more: RangeUse) {
        self.lookups += more.lookups;
        self.walks += more.walks;
        self.in_range += more.in_range;
        self.evictions += more.evictions;
    }

    /// The difference to an earlier reading.
    pub fn since(&self, earlier: RangeUse) -> RangeUse {
        RangeUse {
            lookups: self.lookups - earlier.lookups,
            walks: self.walks - earlier.walks,
            in_range: self.in_range - earlier.in_range,
            evictions: self.evictions - earlier.evictions,
        }
    }

    /// More than one lookup of 64 evicts a range.
    fn thrashes(&self) -> bool {
        self.evictions * 64 > self.lookups
    }

    /// Its walks are less than 15/16 of the other's, each in proportion to its lookups.
    fn clearly_better(&self, than: &RangeUse) -> bool {
        u128::from(self.walks) * u128::from(than.lookups) * 16 < u128::from(than.walks) * u128::from(self.lookups) * 15
    }

    /// One of the shares differs by more than an eighth of the lookups. Two windows of one load do not differ so by
    /// chance.
    fn is_another_load(&self, than: &RangeUse) -> bool {
        let differ = |mine: u64, other: u64| {
            let (mine, other) =
                (u128::from(mine) * u128::from(than.lookups), u128::from(other) * u128::from(self.lookups));
            mine.abs_diff(other) * 8 > u128::from(self.lookups) * u128::from(than.lookups)
        };
        differ(self.walks, than.walks) || differ(self.in_range, than.in_range) || differ(self.evictions, than.evictions)
    }
}

/// Lookups of a window. It ends at the first walk or process switch after this many.
pub const WINDOW: u64 = 4096;
/// Most windows to wait between two trials with the same outcome.
const MOST_PATIENT: u64 = 1024;

enum Phase {
    /// Thresholds are tried. The best so far, with its counters.
    Trying { best: Option<(u64, RangeUse)> },
    /// The counters under the chosen threshold, and the windows to wait before the next trial.
    Watching { usual: RangeUse, wait: u64 },
}

/// The feedback of one process.
pub struct Feedback {
    /// The threshold that it chose. At least the initial one.
    pub threshold: u64,
    window: RangeUse,
    /// The threshold changed at the start of this window. The window does not count, because the TLB lost ranges and
    /// fills again.
    cold: bool,
    phase: Phase,
    /// Runs that were long enough for the lowest threshold when the trial began.
    runs: u64,
    /// The outcome of the last trial, and windows to wait after one that has the same.
    last: Option<u64>,
    patience: u64,
}

impl Feedback {
    /// For a process without memory.
    pub fn new(least: u64) -> Feedback {
        Feedback {
            threshold: least,
            window: RangeUse::default(),
            cold: true,
            phase: Phase::Trying { best: None },
            runs: 0,
            last: None,
            patience: 1,
        }
    }

    /// Adds counts from a time when the process ran. `floor` is the lowest threshold that other rules allow it. Returns
    /// whether the threshold changed.
    pub fn counted(&mut self, more: RangeUse, runs: &Runs, floor: u64) -> bool {
        self.window.add(more);
        if self.window.lookups < WINDOW {
            return false;
        }
        let seen = std::mem::take(&mut self.window);
        if std::mem::take(&mut self.cold) {
            return false;
        }
        let before = self.threshold;
        match &mut self.phase {
            Phase::Trying { best } => {
                if best.is_none() {
                    self.runs = runs.at_least(floor);
                }
                let now = self.threshold.max(floor);
                let chosen = match best.take() {
                    Some(best) if !seen.clearly_better(&best.1) => best,
                    _ => (now, seen),
                };
                match next(runs, now).filter(|_| seen.thrashes()) {
                    Some(higher) => {
                        *best = Some(chosen);
                        self.threshold = higher;
                    }
                    None => self.choose(chosen),
                }
            }
            Phase::Watching { usual, wait } => {
                *wait = wait.saturating_sub(1);
                let others = runs.at_least(floor).abs_diff(self.runs) * 4 > self.runs;
                if *wait == 0 && (others || seen.is_another_load(usual)) {
                    self.phase = Phase::Trying { best: None };
                    self.threshold = floor;
                }
            }
        }
        self.cold = self.threshold != before;
        self.cold
    }

    fn choose(&mut self, (threshold, usual): (u64, RangeUse)) {
        self.patience = if self.last == Some(threshold) { (2 * self.patience).min(MOST_PATIENT) } else { 1 };
        (self.last, self.threshold) = (Some(threshold), threshold);
        self.phase = Phase::Watching { usual, wait: self.patience };
    }
}

/// The next threshold that leaves fewer ranges, but some.
fn next(runs: &Runs, now: u64) -> Option<u64> {
    let all = runs.at_least(now);
    let higher = (now.ilog2() + 1..63).map(|order| 1 << order);
    let next = { higher }.find(|&t| runs.at_least(t) < all)?;
    (runs.at_least(next) > 0).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_types::addr::{Pfn, Vpn};
    use farreach_types::translation::Attr;

    /// Runs by number and length.
    fn runs(of: &[(u64, u64)]) -> Runs {
        let (mut runs, mut at) = (Runs::default(), 0);
        for &(count, pages) in of {
            for _ in 0..count {
                // Frames further apart than pages: nothing joins.
                runs.insert(Vpn(at), pages, Pfn(3 * at), Attr(3), false);
                at += pages + 1;
            }
        }
        runs
    }

    /// Feeds windows of a load. Its walks and evictions per thousand lookups depend on the threshold. Returns the
    /// thresholds that it had.
    fn drive(feedback: &mut Feedback, runs: &Runs, windows: usize, load: impl Fn(u64) -> (u64, u64)) -> Vec<u64> {
        let mut had = vec![feedback.threshold];
        let window = |_| {
            let (walks, evictions) = load(feedback.threshold);
            let part = RangeUse { lookups: 1000, walks, in_range: evictions, evictions };
            (0..5).for_each(|_| _ = feedback.counted(part, runs, 8));
            feedback.threshold
        };
        had.extend((0..windows).map(window));
        had.dedup();
        had
    }

    #[test]
    fn f_4_without_evictions_nothing_moves() {
        let runs = runs(&[(40, 8), (4, 100)]);
        // Walks alone, for pages in no range, do not start a trial.
        assert_eq!(drive(&mut Feedback::new(8), &runs, 100, |_| (900, 15)), [8]);
    }

    #[test]
    fn f_4_thresholds_are_tried_upwards_and_the_best_stays() {
        let runs = runs(&[(60, 8), (40, 16), (20, 200), (1, 5000)]);
        let load = |threshold| match threshold {
            8 => (500, 500),
            16 => (400, 300),
            32 => (100, 0),
            _ => (700, 0),
        };
        let mut feedback = Feedback::new(8);
        assert_eq!(drive(&mut feedback, &runs, 1000, load), [8, 16, 32], "and no other for a thousand windows");
        // It returns to the best threshold. A threshold that leaves no range is never tried.
        let worse = |threshold| if threshold == 16 { (200, 200) } else { (600, 600) };
        assert_eq!(drive(&mut Feedback::new(8), &runs, 1000, worse), [8, 16, 32, 256, 16]);
        let same = |_| (600, 600);
        assert_eq!(drive(&mut Feedback::new(8), &runs, 1000, same), [8, 16, 32, 256, 8], "nothing gained");
    }

    #[test]
    fn f_4_another_load_is_another_trial() {
        let few = runs(&[(60, 8), (20, 200)]);
        let thrashing = |threshold| if threshold == 8 { (500, 500) } else { (100, 0) };
        let mut feedback = Feedback::new(8);
        assert_eq!(drive(&mut feedback, &few, 20, thrashing), [8, 16]);
        // Only short runs are used now: without ranges for them every lookup walks.
        let short = |threshold| if threshold == 8 { (10, 5) } else { (1000, 0) };
        assert_eq!(drive(&mut feedback, &few, 20, short), [16, 8]);
        // If runs come or go, that is another load too, even with equal counters.
        let many = runs(&[(90, 8), (20, 200)]);
        let mut feedback = Feedback::new(8);
        drive(&mut feedback, &few, 20, thrashing);
        assert_eq!(drive(&mut feedback, &many, 20, thrashing), [16, 8, 16]);
    }

    #[test]
    fn f_4_trials_that_end_alike_become_rare() {
        let runs = runs(&[(60, 8), (20, 200)]);
        let mut feedback = Feedback::new(8);
        let mut trials = 0;
        for window in 0..100_000u64 {
            // Every other window is another load.
            let (walks, evictions) = if window % 2 == 0 { (500, 500) } else { (100, 0) };
            let before = feedback.threshold;
            feedback.counted(
                RangeUse { lookups: WINDOW, walks: 4 * walks, in_range: 0, evictions: 4 * evictions },
                &runs,
                8,
            );
            trials += u64::from(feedback.threshold > before);
        }
        assert!(trials < 400, "{trials} trials");
    }
}
