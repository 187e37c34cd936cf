//! Sets of 4 KB pages, as bitmaps of aligned blocks of 2 MB.

use std::collections::BTreeMap;
use std::ops::Range;

/// Pages of a block, log2.
pub const BLOCK: u32 = 9;
const PAGES: u64 = 1 << BLOCK;
const WORDS: usize = (PAGES / 64) as usize;

/// A set of pages. Its memory grows with the 2 MB blocks that have any.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct PageSet {
    /// By number of the block. None is empty.
    blocks: BTreeMap<u64, [u64; WORDS]>,
}

impl FromIterator<Range<u64>> for PageSet {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> PageSet {
        let mut set = PageSet::default();
        ranges.into_iter().for_each(|pages| set.insert(pages));
        set
    }
}

/// The bits of a word that stand for `from..to` of its 64 pages.
fn bits(from: u64, to: u64) -> u64 {
    let below = |n: u64| if n >= 64 { u64::MAX } else { (1 << n) - 1 };
    below(to) & !below(from)
}

/// The pieces of a range that lie in one word: block, word, bits.
fn pieces(pages: Range<u64>) -> impl Iterator<Item = (u64, usize, u64)> {
    let words = if pages.is_empty() { 0..0 } else { pages.start / 64..pages.end.div_ceil(64) };
    words.map(move |word| {
        let first = word * 64;
        let bits = bits(pages.start.saturating_sub(first), pages.end - first);
        (first >> BLOCK, (word % WORDS as u64) as usize, bits)
    })
}

fn ones(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

impl PageSet {
    /// Adds pages.
    pub fn insert(&mut self, pages: Range<u64>) {
        for (block, word, bits) in pieces(pages) {
            self.blocks.entry(block).or_default()[word] |= bits;
        }
    }

    /// Adds all pages of another set.
    pub fn extend(&mut self, other: &PageSet) {
        for (block, words) in &other.blocks {
            let here = self.blocks.entry(*block).or_default();
            here.iter_mut().zip(words).for_each(|(here, there)| *here |= there);
        }
    }

    /// Pages.
    pub fn len(&self) -> u64 {
        self.blocks.values().map(|words| ones(words)).sum()
    }

    /// No page.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Blocks that have pages: number and pages, ascending.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, u64)> {
        self.blocks.iter().map(|(block, words)| (*block, ones(words)))
    }

    /// Blocks that have pages in `within`: number and those pages, ascending.
    pub fn blocks_in(&self, within: &Range<u64>) -> impl Iterator<Item = (u64, u64)> {
        let (first, end) = (within.start >> BLOCK, within.end.div_ceil(PAGES).max(within.start >> BLOCK));
        let count = |(block, words): (&u64, &[u64; WORDS])| {
            let start = block << BLOCK;
            let part = within.start.max(start) - start..within.end.min(start + PAGES) - start;
            let pages = match part == (0..PAGES) {
                true => ones(words),
                false => pieces(part).map(|(_, word, bits)| u64::from((words[word] & bits).count_ones())).sum(),
            };
            (*block, pages)
        };
        self.blocks.range(first..end).map(count).filter(|(_, pages)| *pages > 0)
    }

    /// Pages in `within`.
    pub fn count(&self, within: &Range<u64>) -> u64 {
        self.blocks_in(within).map(|(_, pages)| pages).sum()
    }

    /// The part of the set that lies in these blocks.
    pub fn in_blocks(&self, wanted: impl Fn(u64) -> bool) -> PageSet {
        let blocks = self.blocks.iter().filter(|(block, _)| wanted(**block));
        PageSet { blocks: blocks.map(|(block, words)| (*block, *words)).collect() }
    }

    /// Aligned units of `2^order` pages that have any of the pages.
    pub fn units(&self, order: u32) -> u64 {
        if order <= BLOCK {
            return self.blocks.values().map(|words| units(words, order)).sum();
        }
        distinct(self.blocks.keys().map(|block| block >> (order - BLOCK)))
    }

    /// Aligned units of `2^order` pages, at most a block each, by block.
    ///
    /// # Panics
    /// If a unit is larger than a block.
    pub fn units_by_block(&self, order: u32) -> impl Iterator<Item = (u64, u64)> {
        assert!(order <= BLOCK, "2^{order} pages are more than a block");
        self.blocks.iter().map(move |(block, words)| (*block, units(words, order)))
    }

    /// Aligned units of `2^order` pages that have pages in `within`: number and those pages, ascending.
    pub fn unit_counts(&self, order: u32, within: &Range<u64>) -> Vec<(u64, u64)> {
        let mut units: Vec<(u64, u64)> = Vec::new();
        let mut add = |unit, pages| match units.last_mut() {
            Some((last, sum)) if *last == unit => *sum += pages,
            _ => units.push((unit, pages)),
        };
        for (block, pages) in self.blocks_in(within) {
            if order >= BLOCK {
                add(block >> (order - BLOCK), pages);
                continue;
            }
            let (start, words) = (block << BLOCK, &self.blocks[&block]);
            for unit in start >> order..(start + PAGES) >> order {
                let pages = (unit << order).max(within.start)..((unit + 1) << order).min(within.end);
                let here: u32 = pieces(pages).map(|(_, word, bits)| (words[word] & bits).count_ones()).sum();
                if here > 0 {
                    add(unit, here.into());
                }
            }
        }
        units
    }
}

/// Different values of an ascending sequence.
fn distinct(values: impl Iterator<Item = u64>) -> u64 {
    let mut last = None;
    values.filter(|value| last.replace(*value) != Some(*value)).count() as u64
}

/// Units of a block, of `2^order` pages each, that are not empty.
fn units(words: &[u64; WORDS], order: u32) -> u64 {
    if order > 6 {
        let group = 1 << (order - 6);
        return words.chunks(group).filter(|group| group.iter().any(|word| *word != 0)).count() as u64;
    }
    let firsts = (0..64).step_by(1 << order).fold(0, |mask, bit| mask | 1u64 << bit);
    let any = |word: &u64| (0..order).fold(*word, |any, step| any | any >> (1 << step)) & firsts;
    words.iter().map(|word| u64::from(any(word).count_ones())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn units_of_every_size_by_hand() {
        // Pages 0, 3 and 4; 63 and 64; the last of block 0 and the first of block 1; one page in block 1024 (2 GB).
        let set: PageSet = [0..1, 3..5, 63..65, 511..513, 1024 * 512..1024 * 512 + 1].into_iter().collect();
        assert_eq!((set.len(), set.is_empty()), (8, false));
        assert_eq!([0, 1, 2, 3].map(|order| set.units(order)), [8, 8, 7, 6]);
        assert_eq!([6, 9, 10, 18, 19].map(|order| set.units(order)), [5, 3, 2, 2, 2]);
        assert_eq!([20, 21].map(|order| set.units(order)), [1, 1]);
        assert_eq!(set.blocks().collect::<Vec<_>>(), [(0, 6), (1, 1), (1024, 1)]);
        assert_eq!(set.unit_counts(6, &(0..512)), [(0, 4), (1, 1), (7, 1)]);
        assert_eq!(set.unit_counts(10, &(4..600)), [(0, 5)]);
        assert_eq!((set.count(&(4..64)), set.count(&(5..5)), set.count(&(0..u64::MAX >> 12))), (2, 0, 8));
        assert_eq!(PageSet::default().units(0), 0);
    }

    /// Any ranges, many of them near each other and across borders of blocks.
    fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
        let range = (0u64..3000, 0u64..700, 0u64..3).prop_map(|(start, pages, far)| {
            let start = start + far * 600_000;
            start..start + pages
        });
        prop::collection::vec(range, 0..8)
    }

    proptest! {
        #[test]
        fn as_a_set_of_numbers(one in ranges(), two in ranges(), within in (0u64..3500, 0u64..2000),
                               order in 0u32..20) {
            let plain = |ranges: &[Range<u64>]| ranges.iter().cloned().flatten().collect::<BTreeSet<u64>>();
            let mut set: PageSet = one.iter().cloned().collect();
            set.extend(&two.iter().cloned().collect());
            let model: BTreeSet<u64> = plain(&one).union(&plain(&two)).copied().collect();
            prop_assert_eq!(set.len(), model.len() as u64);
            prop_assert_eq!(set.is_empty(), model.is_empty());
            let units: BTreeSet<u64> = model.iter().map(|page| page >> order).collect();
            prop_assert_eq!(set.units(order), units.len() as u64);
            let within = within.0..within.0 + within.1;
            let mut counts = BTreeMap::new();
            for page in model.range(within.clone()) {
                *counts.entry(page >> order).or_insert(0u64) += 1;
            }
            prop_assert_eq!(set.unit_counts(order, &within), counts.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(set.count(&within), model.range(within.clone()).count() as u64);
            let odd: BTreeSet<u64> = model.iter().copied().filter(|page| page >> BLOCK & 1 == 1).collect();
            prop_assert_eq!(set.in_blocks(|block| block & 1 == 1).len(), odd.len() as u64);
            if order <= BLOCK {
                prop_assert_eq!(set.units_by_block(order).map(|(_, n)| n).sum::<u64>(), set.units(order));
            }
        }
    }
}
