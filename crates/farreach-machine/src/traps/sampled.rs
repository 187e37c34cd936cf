//! Misses of a part of the run, kept apart by class of pages, for estimates of the whole.

use super::sampling::{Estimate, SetSample};
use farreach_types::addr::Vpn;
use farreach_types::counts::SampleUse;

/// What is simulated, and the misses of each machine in it. Without a sample: everything.
pub(super) struct Sampled {
    sets: Option<SetSample>,
    /// What estimates are about began anew while the program ran.
    pub anew: bool,
    /// Nothing is simulated for now.
    pub skips: bool,
    /// By machine, then by place in the sample: misses that were counted.
    by_class: Vec<Vec<u64>>,
    /// By machine: misses after the last trap.
    last: Vec<u64>,
    /// When the estimates begin.
    begun: u64,
    /// Traps that were simulated.
    traps: u64,
}

impl Sampled {
    /// Everything is simulated, from time 0 on.
    pub fn new(machines: usize) -> Sampled {
        Sampled {
            sets: None,
            anew: false,
            skips: false,
            by_class: vec![vec![0]; machines],
            last: vec![0; machines],
            begun: 0,
            traps: 0,
        }
    }

    /// From now on only this sample of sets; what was counted before is forgotten. The misses so far are `misses`.
    pub fn set(&mut self, sets: Option<SetSample>, misses: impl Iterator<Item = u64>, now: u64) {
        let places = sets.as_ref().map_or(1, |sets| sets.sampled() as usize);
        self.by_class = vec![vec![0; places]; self.last.len()];
        self.last = misses.collect();
        self.begun = now;
        self.sets = sets;
    }

    /// The sample.
    pub fn sets(&self) -> Option<&SetSample> {
        self.sets.as_ref()
    }

    /// The place of a page in the sample; `None`: it is not simulated.
    #[inline]
    pub fn place(&self, vpn: Vpn) -> Option<usize> {
        if self.skips {
            return None;
        }
        self.sets.as_ref().map_or(Some(0), |sets| sets.place(vpn))
    }

    /// The trap of a page at this place was simulated; the misses of all machines are `misses` now.
    pub fn trapped(&mut self, place: usize, misses: impl Iterator<Item = u64>) {
        self.traps += 1;
        for (machine, now) in misses.enumerate() {
            self.by_class[machine][place] += now - std::mem::replace(&mut self.last[machine], now);
        }
    }

    /// Traps that were simulated.
    pub fn traps(&self) -> u64 {
        self.traps
    }

    /// The part that was simulated; `None` if that is everything.
    pub fn used(&self, now: u64) -> Option<SampleUse> {
        let (classes, of_classes) = self.sets.as_ref().map_or((1, 1), |sets| (sets.sampled(), sets.of()));
        let part = classes < of_classes || self.anew || self.begun > 0;
        part.then(|| SampleUse {
            classes: classes.into(),
            of_classes: of_classes.into(),
            microseconds: now - self.begun,
        })
    }

    /// What is known of all misses of each machine since the estimates began.
    pub fn estimates(&self) -> Vec<Estimate> {
        let of = self.sets.as_ref().map_or(1, SetSample::of);
        self.by_class.iter().map(|by_class| Estimate::over_sets(by_class, of)).collect()
    }
}
