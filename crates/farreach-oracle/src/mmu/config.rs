//! The configuration of a hierarchy: the arrays of each level, the structures behind the first, and segments. OM-9 is
//! here, with [`Hint`].

use super::*;

/// Orders, entries, ways (0: all).
pub type Array = (&'static [u8], usize, usize);

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Behind {
    Pages,
    Clusters {
        entries: usize,
        ways: usize,
        pages: u64,
        /// CoLT.
        runs: bool,
    },
    /// CoLT-FA.
    Runs {
        entries: usize,
        limit: u64,
        first: bool,
        fills_l2: bool,
    },
    Ranges {
        entries: usize,
        random: bool,
        order: RangeOrder,
        mru: bool,
        on: bool,
        control: bool,
        hint: Hint,
        cooperation: bool,
    },
}

/// OM-9 Which walks search the range table. A predictor has a counter for each 2 MB, by its low bits: 0 at first and
/// after a search that found a range, 15 after one that did not; above 0 there is no search, and it counts down.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Hint {
    Bit,
    Always,
    Predictor(usize),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RangeOrder {
    Parallel,
    Serial,
    First,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SegmentMode {
    None,
    Registers,
    Emulated,
    Several(usize),
}

#[derive(Clone, Debug)]
pub struct Config {
    pub l1d: &'static [Array],
    pub l1i: &'static [Array],
    pub l2: &'static [Array],
    /// `None`: shared.
    pub l2i: Option<&'static [Array]>,
    pub fracture: bool,
    pub coalesce: u8,
    /// KB of a base page: 4, 16 or 64.
    pub page: u32,
    /// Bits of an address.
    pub bits: u32,
    /// Entries of the caches, from the page directory up.
    pub pwc: [usize; 4],
    pub replacement: Replacement,
    /// Of the first level, if it has its own.
    pub l1_replacement: Option<Replacement>,
    /// Of the second level, if it has its own.
    pub l2_replacement: Option<Policy>,
    pub process_ids: bool,
    pub behind: Behind,
    pub segment: SegmentMode,
    pub seed: u64,
}

impl Config {
    /// OM-14: bits of a level, and levels.
    pub fn shape(&self) -> (u32, usize) {
        match (self.page, self.bits) {
            (4, 48) => (9, 4),
            (4, 57) => (9, 5),
            (16, 48 | 57) => (11, 4),
            (64, 48) => (13, 3),
            (64, 57) => (13, 4),
            other => panic!("{other:?}: there is no such page table"),
        }
    }

    /// The level of the entry that maps `2^order` base pages.
    pub fn leaf(&self, order: u8) -> u8 {
        let bits = self.shape().0;
        [bits, 2 * bits].iter().filter(|first| u32::from(order) >= **first).count() as u8
    }
}
