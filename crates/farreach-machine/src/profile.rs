//! Misses of a design over time and by region.

use farreach_types::counts::{RegionMisses, Timeline};
use farreach_types::event::Kind;
use std::sync::Arc;

/// Slices are merged in pairs when there are this many.
pub(super) const MAX_SLICES: usize = 256;
pub(super) const FIRST_SLICE: u64 = 1 << FIRST_SHIFT;
const FIRST_SHIFT: u32 = 10;

/// Misses of one design over time and by region.
pub(super) struct Profile {
    /// Lookups before its first slice.
    from: u64,
    /// log2 of the lookups of a slice.
    shift: u32,
    misses: [u64; MAX_SLICES],
    regions: Vec<[u64; 2]>,
}

impl Profile {
    /// Of a run whose first `from` lookups do not count.
    pub fn new(from: u64) -> Profile {
        Profile { from, shift: FIRST_SHIFT, misses: [0; MAX_SLICES], regions: Vec::new() }
    }

    /// A miss at the lookup number `clock`, in the region with this label.
    #[inline]
    pub fn miss(&mut self, clock: u64, kind: Kind, label: u32) {
        let clock = clock - self.from;
        if clock >> self.shift >= MAX_SLICES as u64 {
            self.stretch(clock);
        }
        self.misses[(clock >> self.shift) as usize % MAX_SLICES] += 1;
        match self.regions.get_mut(label as usize) {
            Some(region) => region[usize::from(kind != Kind::Fetch)] += 1,
            None => self.first_miss(kind, label),
        }
    }

    #[cold]
    fn first_miss(&mut self, kind: Kind, label: u32) {
        self.regions.resize(label as usize + 1, [0, 0]);
        self.regions[label as usize][usize::from(kind != Kind::Fetch)] += 1;
    }

    #[cold]
    fn stretch(&mut self, clock: u64) {
        while clock >> self.shift >= MAX_SLICES as u64 {
            self.shift += 1;
            self.misses = std::array::from_fn(|i| self.misses.iter().skip(2 * i).take(2).sum());
        }
    }

    /// For a run of `lookups` lookups, with those that do not count.
    pub fn timeline(&mut self, lookups: u64) -> Timeline {
        let lookups = lookups - self.from;
        self.stretch(lookups.saturating_sub(1));
        let slices = lookups.div_ceil(1 << self.shift) as usize;
        Timeline { slice_lookups: 1 << self.shift, slice_microseconds: 0, misses: self.misses[..slices].into() }
    }

    /// Regions with misses, most first.
    pub fn regions(&self, labels: &[Arc<str>]) -> Vec<RegionMisses> {
        let mut rows: Vec<RegionMisses> = (self.regions.iter().zip(labels))
            .filter(|([f, d], _)| f + d > 0)
            .map(|(&[fetch_misses, data_misses], name)| RegionMisses {
                region: name.to_string(),
                fetch_misses,
                data_misses,
            })
            .collect();
        rows.sort_by(|a, b| {
            let total = |r: &RegionMisses| r.fetch_misses + r.data_misses;
            total(b).cmp(&total(a)).then_with(|| a.region.cmp(&b.region))
        });
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_merge_and_nothing_is_lost() {
        let mut p = Profile::new(0);
        let clocks: Vec<u64> = (0..5000).map(|i| i * 997).collect();
        for &c in &clocks {
            p.miss(c, if c % 2 == 0 { Kind::Fetch } else { Kind::Store }, (c % 3) as u32);
        }
        let last = clocks.last().unwrap() + 1;
        let t = p.timeline(last);
        assert!(t.misses.len() <= MAX_SLICES && t.slice_lookups * (t.misses.len() as u64) >= last);
        for (i, n) in t.misses.iter().enumerate() {
            let slice = i as u64 * t.slice_lookups..(i as u64 + 1) * t.slice_lookups;
            assert_eq!(*n, clocks.iter().filter(|c| slice.contains(c)).count() as u64);
        }
        let rows = p.regions(&["a".into(), "b".into(), "c".into()]);
        assert_eq!(rows.iter().map(|r| r.fetch_misses + r.data_misses).sum::<u64>(), 5000);
    }
}
