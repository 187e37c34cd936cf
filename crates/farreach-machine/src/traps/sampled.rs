//! Misses of a part of the run, kept apart by class of pages and by window, for estimates of the whole.

use super::sampling::{Estimate, Phase, SetSample, Window};
use farreach_types::addr::Vpn;
use farreach_types::counts::SampleUse;

/// What is observed, and the misses of each machine in it. Without a sample and windows: everything.
pub(super) struct Sampled {
    sets: Option<SetSample>,
    phase: Phase,
    /// By machine, then by place in the sample: misses that were counted.
    by_class: Vec<Vec<u64>>,
    /// By machine: misses after the last trap, counted or not.
    last: Vec<u64>,
    /// By machine: misses that were counted in this window.
    in_window: Vec<u64>,
    /// When the estimates begin.
    begun: u64,
    /// When counting began.
    since: u64,
    /// Traps that were simulated.
    traps: u64,
    /// By machine: windows that are complete. Empty if nothing ever interrupted the observation.
    windows: Vec<Vec<Window>>,
}

impl Sampled {
    /// Everything is observed, from time 0 on.
    pub fn new(machines: usize) -> Sampled {
        let zeros = || vec![0; machines];
        Sampled {
            sets: None,
            phase: Phase::Counted,
            by_class: vec![vec![0]; machines],
            last: zeros(),
            in_window: zeros(),
            begun: 0,
            since: 0,
            traps: 0,
            windows: vec![Vec::new(); machines],
        }
    }

    /// From now on only this sample of sets; what was counted before is forgotten. The misses so far are `misses`.
    pub fn set(&mut self, sets: Option<SetSample>, misses: impl Iterator<Item = u64>, now: u64) {
        let machines = self.last.len();
        let (phase, places) = (self.phase, sets.as_ref().map_or(1, |sets| sets.sampled() as usize));
        let (last, by_class) = (misses.collect(), vec![vec![0; places]; machines]);
        *self = Sampled {
            sets,
            phase,
            last,
            by_class,
            begun: now,
            since: now,
            traps: self.traps,
            ..Sampled::new(machines)
        };
    }

    /// The sample.
    pub fn sets(&self) -> Option<&SetSample> {
        self.sets.as_ref()
    }

    /// Whether a reference to this page is simulated now.
    #[inline]
    pub fn observes(&self, vpn: Vpn) -> bool {
        self.phase != Phase::Unobserved && self.place(vpn).is_some()
    }

    #[inline]
    fn place(&self, vpn: Vpn) -> Option<usize> {
        self.sets.as_ref().map_or(Some(0), |sets| sets.place(vpn))
    }

    /// The trap of a page was simulated; the misses of all machines are `misses` now.
    pub fn trapped(&mut self, vpn: Vpn, misses: impl Iterator<Item = u64>) {
        self.traps += 1;
        let place = self.place(vpn).expect("pages outside the sample are not simulated");
        for (machine, now) in misses.enumerate() {
            let more = now - std::mem::replace(&mut self.last[machine], now);
            if more > 0 && self.phase == Phase::Counted {
                self.by_class[machine][place] += more;
                self.in_window[machine] += more;
            }
        }
    }

    /// Another phase begins. Returns the one that ends.
    pub fn enter(&mut self, phase: Phase, now: u64) -> Phase {
        if self.phase == Phase::Counted && phase != Phase::Counted {
            self.close(now);
        } else if self.phase != Phase::Counted && phase == Phase::Counted {
            self.since = now;
        }
        std::mem::replace(&mut self.phase, phase)
    }

    /// The window ends.
    fn close(&mut self, now: u64) {
        for (windows, count) in self.windows.iter_mut().zip(&mut self.in_window) {
            windows.push(Window { count: std::mem::take(count), length: now - self.since });
        }
        self.since = now;
    }

    /// Traps that were simulated.
    pub fn traps(&self) -> u64 {
        self.traps
    }

    /// The part that was counted; `None` if that is everything.
    pub fn used(&self, now: u64) -> Option<SampleUse> {
        let (classes, of_classes) = self.sets.as_ref().map_or((1, 1), |sets| (sets.sampled(), sets.of()));
        let windows = self.all_windows(0, now);
        let counted_microseconds = windows.iter().map(|window| window.length).sum();
        let of_microseconds = now - self.begun;
        if classes == of_classes && counted_microseconds == now {
            return None;
        }
        let (classes, of_classes, windows) = (classes.into(), of_classes.into(), windows.len() as u64);
        Some(SampleUse { classes, of_classes, windows, counted_microseconds, of_microseconds })
    }

    /// The windows of a machine until now.
    fn all_windows(&self, machine: usize, now: u64) -> Vec<Window> {
        let mut windows = self.windows.get(machine).cloned().unwrap_or_default();
        if self.phase == Phase::Counted && now > self.since {
            windows.push(Window { count: self.in_window.get(machine).copied().unwrap_or(0), length: now - self.since });
        }
        windows
    }

    /// What is known of all misses of each machine until now.
    pub fn estimates(&self, now: u64) -> Vec<Estimate> {
        let of = self.sets.as_ref().map_or(1, SetSample::of);
        let of_machine = |machine: usize| {
            let by_class = &self.by_class[machine];
            let sets = Estimate::over_sets(by_class, of);
            if self.windows[machine].is_empty() && self.phase == Phase::Counted && self.since == self.begun {
                return sets; // all of the time
            }
            let windows = Estimate::over_windows(&self.all_windows(machine, now), now - self.begun);
            Estimate::over_both(by_class.iter().sum(), sets, windows)
        };
        (0..self.last.len()).map(of_machine).collect()
    }
}
