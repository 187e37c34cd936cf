//! Memory in use over time (DS13-33).

use super::profile::{FIRST_SLICE, MAX_SLICES};
use farreach_os::{InUse, Os};
use farreach_types::counts::MemoryTimeline;

/// Memory at the end of each of equal slices of the run, as many as a [`super::profile::Profile`] has.
pub(super) struct MemoryProfile {
    /// Lookups before the first slice.
    from: u64,
    slice: u64,
    /// First lookup past the current slice.
    end: u64,
    samples: Vec<InUse>,
}

impl MemoryProfile {
    /// Of a run whose first `from` lookups do not count.
    pub fn new(from: u64) -> MemoryProfile {
        MemoryProfile { from, slice: FIRST_SLICE, end: from + FIRST_SLICE, samples: Vec::new() }
    }

    /// To be called before the memory in use may change, with the number of lookups made until then: the present value
    /// holds for the ends of all slices that have ended since the last call.
    #[inline(always)]
    pub fn before(&mut self, lookups: u64, os: &Os) {
        if lookups >= self.end {
            self.sample(lookups, os.in_use());
        }
    }

    #[cold]
    fn sample(&mut self, lookups: u64, now: InUse) {
        let lookups = lookups - self.from;
        while lookups / self.slice > MAX_SLICES as u64 {
            self.slice *= 2;
            // Of two merged slices the end of the second is kept. A slice without its second half has not ended.
            self.samples = self.samples.chunks_exact(2).map(|pair| pair[1]).collect();
        }
        self.samples.resize((lookups / self.slice) as usize, now);
        self.end = self.from + (self.samples.len() as u64 + 1) * self.slice;
    }

    /// For a run of `lookups` lookups, with those that do not count.
    pub fn timeline(&mut self, lookups: u64, os: &Os) -> MemoryTimeline {
        let now = os.in_use();
        self.sample(lookups, now);
        let rest = (!(lookups - self.from).is_multiple_of(self.slice)).then_some(now);
        let all = || self.samples.iter().copied().chain(rest);
        MemoryTimeline {
            slice_lookups: self.slice,
            slice_microseconds: 0,
            resident_bytes: all().map(|u| u.resident << os.page_shift()).collect(),
            virtual_bytes: all().map(|u| u.virtual_pages << os.page_shift()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DS13-33: for any length of slices, each sample is the memory in use at the end of its slice.
    #[test]
    fn samples_are_what_was_in_use_at_the_ends_of_slices() {
        let mut memory_profile = MemoryProfile::new(0);
        let at = |lookups: u64| InUse { resident: lookups / 3000 % 700, virtual_pages: lookups / 5000 };
        let changes = (0..600_000u64).filter(|l| l % 1000 == 0);
        let mut now = at(0);
        for lookups in changes {
            if lookups >= memory_profile.end {
                memory_profile.sample(lookups, now);
            }
            now = at(lookups);
        }
        memory_profile.sample(600_000, now);
        assert!(
            (MAX_SLICES / 2..=MAX_SLICES).contains(&memory_profile.samples.len()),
            "{}",
            memory_profile.samples.len()
        );
        for (i, sample) in memory_profile.samples.iter().enumerate() {
            // The last change before the end of the slice.
            let end = (i as u64 + 1) * memory_profile.slice;
            assert_eq!(*sample, at((end - 1) / 1000 * 1000), "slice {i}");
        }
    }
}
