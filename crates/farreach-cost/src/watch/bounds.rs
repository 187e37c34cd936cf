//! The working set in units of a page size, from what is known about the pages that were used: numbers between which it
//! lies.

use super::page_set::{BLOCK, PageSet};
use std::ops::Range;

/// What is known about the pages that were used.
#[derive(Clone, Copy, Debug)]
pub enum Known<'a> {
    /// Which they are.
    Pages(&'a PageSet),
    /// How many they are in each of these mappings, which do not overlap.
    Counts(&'a [(Range<u64>, u64)]),
    /// Which they are among the pages of a random choice of blocks.
    Sample {
        /// Present pages of those blocks.
        watched: &'a PageSet,
        /// Those of them that were used.
        used: &'a PageSet,
    },
}

/// A number is at least `low` and at most `high`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Bounds {
    /// At least.
    pub low: u64,
    /// At most.
    pub high: u64,
}

/// Standard errors on either side of an estimate from a sample: about 95 of 100 such intervals are right.
const ERRORS: f64 = 2.0;

/// How many aligned units of `2^order` pages were used. `present`: all pages that could be. From counts and from pages
/// these are strict bounds; from a sample, for units of at most 2 MB, an interval that is right 95 times in 100.
pub fn used_units(present: &PageSet, known: Known, order: u32) -> Bounds {
    match known {
        Known::Pages(used) => {
            let units = used.units(order);
            Bounds { low: units, high: units }
        }
        Known::Counts(counts) => from_counts(present, counts, order),
        Known::Sample { watched, used } => from_sample(present, watched, used, order),
    }
}

/// At least: the used pages of each mapping fill its fullest units. A unit that several mappings share counts once: of
/// the sum, each unit may have been counted once for each mapping that has pages in it. At most: each page is in a unit
/// of its own, as far as there are units.
fn from_counts(present: &PageSet, counts: &[(Range<u64>, u64)], order: u32) -> Bounds {
    let (mut low, mut least, mut high) = (0, 0, 0);
    let (mut shared, mut all, mut last) = (0, 0, None);
    let mut ascending: Vec<&(Range<u64>, u64)> = counts.iter().filter(|(_, used)| *used > 0).collect();
    ascending.sort_by_key(|(pages, _)| pages.start);
    for (pages, used) in ascending {
        let units = present.unit_counts(order, pages);
        for (unit, _) in &units {
            if last.replace(*unit) == Some(*unit) {
                shared += 1;
            } else {
                all += 1;
            }
        }
        let mut sizes: Vec<u64> = units.into_iter().map(|(_, pages)| pages).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let mut left = *used;
        let needed = sizes.iter().take_while(|&&size| {
            let more = left > 0;
            left = left.saturating_sub(size);
            more
        });
        let needed = needed.count() as u64;
        (low, least) = (low + needed, least.max(needed));
        high += (*used).min(sizes.len() as u64);
    }
    Bounds { low: low.saturating_sub(shared).max(least), high: high.min(all) }
}

/// A block is drawn as a whole, so units of at most a block are an estimate from a sample of clusters. Of larger units
/// only those seen are certain, and those that are there are possible.
fn from_sample(present: &PageSet, watched: &PageSet, used: &PageSet, order: u32) -> Bounds {
    let (seen, possible) = (used.units(order), present.units(order));
    let (n, all) = (watched.blocks().count() as f64, present.blocks().count() as f64);
    if order > BLOCK || n < 2.0 {
        return Bounds { low: seen, high: possible };
    }
    let mean = seen as f64 / n;
    // Blocks without a used page have none of the units.
    let here: Vec<f64> = used.units_by_block(order).map(|(_, units)| units as f64).collect();
    let squares = here.iter().map(|units| (units - mean).powi(2)).sum::<f64>() + (n - here.len() as f64) * mean.powi(2);
    let error = all * ((1.0 - n / all).max(0.0) * squares / (n - 1.0) / n).sqrt();
    let at = |x: f64| (x.round().max(0.0) as u64).clamp(seen, possible.max(seen));
    Bounds { low: at(all * mean - ERRORS * error), high: at(all * mean + ERRORS * error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::seq::IteratorRandom;
    use rand::{RngExt, SeedableRng};

    fn set(ranges: &[Range<u64>]) -> PageSet {
        ranges.iter().cloned().collect()
    }

    #[test]
    fn counts_leave_room_that_units_bound() {
        // A mapping with units of 4 pages that hold 4, 4, 2 and 1 present pages; 5 pages were used.
        let present = set(&[0..4, 8..12, 16..18, 21..22]);
        let bounds = |order| {
            let Bounds { low, high } = used_units(&present, Known::Counts(&[(0..32, 5)]), order);
            (low, high)
        };
        assert_eq!([bounds(0), bounds(2), bounds(5)], [(5, 5), (2, 4), (1, 1)]);
        // Two mappings that meet in a unit of 8 pages: 1 page of each may be in that one unit, or in two.
        let present = set(&[0..8]);
        let halves = [(0..4, 1), (4..8, 1)];
        assert_eq!(used_units(&present, Known::Counts(&halves), 3), Bounds { low: 1, high: 1 });
        assert_eq!(used_units(&present, Known::Counts(&halves), 2), Bounds { low: 2, high: 2 });
        assert_eq!(used_units(&present, Known::Counts(&[(0..8, 0)]), 0), Bounds::default());
    }

    #[test]
    fn known_pages_leave_no_room() {
        let used = set(&[0..1, 511..513]);
        let at = |order| used_units(&set(&[0..2048]), Known::Pages(&used), order);
        assert_eq!([at(0), at(9), at(10)].map(|b| (b.low, b.high)), [(3, 3), (2, 2), (1, 1)]);
    }

    proptest! {
        /// Against all choices of used pages that have these counts.
        #[test]
        fn counts_bound_every_possible_choice(
            present in prop::collection::btree_set(0u64..16, 1..9),
            border in 1u64..16,
            shares in (0.0f64..=1.0, 0.0f64..=1.0),
            order in 0u32..4,
        ) {
            let parts = [0..border, border..16];
            let here = |part: &Range<u64>| present.range(part.clone()).copied().collect::<Vec<u64>>();
            let used = [shares.0, shares.1].map(|s: f64| s);
            let counts: Vec<(Range<u64>, u64)> =
                parts.iter().zip(used).map(|(p, s)| (p.clone(), (here(p).len() as f64 * s).round() as u64)).collect();
            let all: Vec<u64> = present.iter().copied().collect();
            let fits = |choice: &Vec<u64>| {
                counts.iter().all(|(part, n)| choice.iter().filter(|page| part.contains(page)).count() as u64 == *n)
            };
            let choices = (0u32..1 << all.len())
                .map(|bits| (0..all.len()).filter(|i| bits >> i & 1 == 1).map(|i| all[i]).collect::<Vec<u64>>());
            let units = choices.filter(fits).map(|choice| {
                choice.iter().map(|page| page >> order).collect::<std::collections::BTreeSet<_>>().len() as u64
            });
            let units: Vec<u64> = units.collect();
            let (least, most) = (*units.iter().min().unwrap(), *units.iter().max().unwrap());
            let set: PageSet = present.iter().map(|page| *page..page + 1).collect();
            let found = used_units(&set, Known::Counts(&counts), order);
            prop_assert!(found.low <= least && most <= found.high, "{found:?} of {least}..={most}");
            // With one mapping nothing is given away.
            if counts.iter().filter(|(_, n)| *n > 0).count() == 1 {
                prop_assert_eq!((found.low, found.high), (least, most));
            }
        }
    }

    #[test]
    fn a_sample_of_all_blocks_is_exact_and_one_of_some_is_usually_right() {
        let mut dice = rand_pcg::Pcg64::seed_from_u64(29);
        let (mut right, rounds) = (0, 300);
        for _ in 0..rounds {
            let present = set(&[0..200 * 512]);
            let used: PageSet = (0..200u64)
                .map(|block| {
                    let pages = dice.random_range(0..=512u64);
                    block * 512..block * 512 + pages
                })
                .collect();
            let truth = used.units(4);
            let whole = used_units(&present, Known::Sample { watched: &present, used: &used }, 4);
            assert_eq!((whole.low, whole.high), (truth, truth));
            let drawn: Vec<u64> = (0..200).sample(&mut dice, 40);
            let of = |set: &PageSet| set.in_blocks(|block| drawn.contains(&block));
            let (watched, seen) = (of(&present), of(&used));
            let some = used_units(&present, Known::Sample { watched: &watched, used: &seen }, 4);
            right += usize::from(some.low <= truth && truth <= some.high);
        }
        assert!(right * 100 >= rounds * 90, "{right} of {rounds}");
    }
}
