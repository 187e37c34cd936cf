//! The mapped pages of an address space: a set of page numbers that is changed by ranges.

use farreach_types::addr::VpnRange;
use std::collections::BTreeMap;

/// Disjoint ranges that do not touch: end by start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds the pages of a range.
    pub fn insert(&mut self, range: VpnRange) {
        if range.pages == 0 {
            return;
        }
        let (mut start, mut end) = (range.start.0, range.end().0);
        // Neighbours that touch become one.
        while let Some((&s, &e)) = self.0.range(..=end).next_back().filter(|(_, e)| **e >= start) {
            (start, end) = (start.min(s), end.max(e));
            self.0.remove(&s);
        }
        self.0.insert(start, end);
    }

    /// Removes the pages of a range.
    pub fn remove(&mut self, range: VpnRange) {
        if range.pages == 0 {
            return;
        }
        let (start, end) = (range.start.0, range.end().0);
        while let Some((&s, &e)) = self.0.range(..end).next_back().filter(|(_, e)| **e > start) {
            self.0.remove(&s);
            if s < start {
                self.0.insert(s, start);
            }
            if e > end {
                self.0.insert(end, e);
            }
            if s <= start {
                break;
            }
        }
    }

    /// Whether a page of the range is in it.
    pub fn any(&self, range: VpnRange) -> bool {
        range.pages > 0 && self.0.range(..range.end().0).next_back().is_some_and(|(_, end)| *end > range.start.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_types::addr::Vpn;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;
    use std::collections::BTreeSet;

    #[test]
    fn ranges_are_a_set() {
        let mut rng = Pcg64Mcg::seed_from_u64(5);
        let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
        for _ in 0..20_000 {
            let range = VpnRange { start: Vpn(rng.random_range(0..200)), pages: rng.random_range(0..30) };
            let pages = range.start.0..range.end().0;
            match rng.random_range(0..3) {
                0 => {
                    ranges.insert(range);
                    set.extend(pages);
                }
                1 => {
                    ranges.remove(range);
                    set.retain(|page| !pages.contains(page));
                }
                _ => assert_eq!(ranges.any(range), set.iter().any(|page| pages.contains(page))),
            }
            let parts: Vec<(u64, u64)> = ranges.0.iter().map(|(s, e)| (*s, *e)).collect();
            assert!(parts.windows(2).all(|w| w[0].1 < w[1].0), "they do not touch: {parts:?}");
            assert_eq!(
                parts.iter().flat_map(|(s, e)| *s..*e).collect::<Vec<_>>(),
                set.iter().copied().collect::<Vec<_>>()
            );
        }
    }
}
