//! The configuration of a TLB.

use super::*;

/// Kind of TLB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlbKind {
    /// T94-3.
    Single,
    /// T94-4.
    Superpage,
    /// T94-5.
    Complete,
    /// T94-6.
    Partial,
    /// T94-24.
    Integrated,
    /// OT-19; `ways` is not 0.
    Skewed,
}

/// Replacement (T94-14).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replacement {
    /// Used bits.
    UsedBit,
    /// Least recently used.
    Lru,
    /// Tree-PLRU; sets of a power of two.
    TreePlru,
    /// First allocated.
    Fifo,
    /// Any of the set.
    Random,
}

/// Translations that a miss loads besides the missed page (T94-22).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preload {
    /// Nothing.
    None,
    /// Those that join the entry.
    SameEntry,
    /// The whole region.
    Region,
}

/// How a TLB finds superpages of several sizes (T94-16).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizeLookup {
    /// One array; in sets one probe for each size.
    Probe,
    /// One array for each size.
    PerSize,
}

/// A TLB.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlbConfig {
    /// Kind.
    pub kind: TlbKind,
    /// Entries (of each array, for `PerSize`).
    pub entries: usize,
    /// 0: fully associative.
    pub ways: usize,
    /// Base pages per entry of the subblock kinds.
    pub factor: u64,
    /// Orders (log2 pages) of the superpage and integrated kinds, ascending, the first is 0; integrated: the next is
    /// log2 of the factor.
    pub orders: Vec<u8>,
    /// For the superpage kind.
    pub lookup: SizeLookup,
    /// Entries of each array, for `PerSize`; empty: `entries` each.
    pub size_entries: Vec<usize>,
    /// Replacement.
    pub replacement: Replacement,
    /// AMB-3.
    pub fill_sets_used: bool,
    /// Preload.
    pub preload: Preload,
    /// T94-22: hardware compares, at the cost of one read.
    pub assisted_check: bool,
    /// Entries carry a process id.
    pub process_ids: bool,
    /// T94-21.
    pub all_valid: bool,
    /// Of random replacement.
    pub seed: u64,
}

impl TlbConfig {
    /// 64 entries, fully associative, used bits, factor 16, 4 KB and 64 KB.
    pub fn new(kind: TlbKind) -> TlbConfig {
        TlbConfig {
            kind,
            entries: 64,
            ways: 0,
            factor: 16,
            orders: vec![0, 4],
            lookup: SizeLookup::Probe,
            size_entries: Vec::new(),
            replacement: Replacement::UsedBit,
            fill_sets_used: true,
            preload: Preload::None,
            assisted_check: false,
            process_ids: true,
            all_valid: false,
            seed: 0,
        }
    }
    pub fn subblocks(&self) -> bool {
        matches!(self.kind, TlbKind::Complete | TlbKind::Partial | TlbKind::Integrated)
    }
    /// The arrays, as first slot and entries.
    pub fn arrays(&self) -> Vec<(usize, usize)> {
        if !per_size(self) {
            return vec![(0, self.entries)];
        }
        let mut first = 0;
        let mut arrays = Vec::new();
        for i in 0..self.orders.len() {
            let entries = self.size_entries.get(i).copied().unwrap_or(self.entries);
            arrays.push((first, entries));
            first += entries;
        }
        arrays
    }
    /// The largest configured size that a mapping of this order fills.
    pub fn fitting(&self, order: u8) -> u8 {
        *self.orders.iter().rev().find(|o| **o <= order).expect("4 KB is a size")
    }
    /// log2 of the factor.
    pub fn k(&self) -> u8 {
        self.factor.trailing_zeros() as u8
    }
}
