//! The back side (MID-3): from Midgard pages to frames, behind misses of the last level.
//!
//! The table is one array a level in the Midgard space, so that the entry of a page has a known address at every level.
//! The walk asks the last level for the leaf's line; where that misses, for the entry above, which says where the
//! leaf's line lies in memory; and so on up to the root, whose place in memory is known. Then it reads the lines that
//! missed from memory, from the highest down, into the last level.

use super::lru::Lru;
use crate::cache::Levels;
use crate::cache::levels::LINE_SHIFT;
use crate::tlb::additions::{Counter, Law};
use farreach_types::addr::Pfn;
use farreach_types::counts::PartCounts;
use farreach_types::params::{Allowed, Key, Params};
use std::ops::Range;

/// MID-3: off as a rule.
pub const MLB_ENTRIES: Key = Key {
    name: "mlb_entries",
    default: "0",
    allowed: Allowed::Int { min: 0, max: 65536 },
    about: "pages that a slice of the MLB holds, fully associative, LRU; 0: no MLB",
};
/// MID-3.
pub const MLB_SLICES: Key = Key {
    name: "mlb_slices",
    default: "1",
    allowed: Allowed::Int { min: 1, max: 64 },
    about: "slices of the MLB; the number of the Midgard page modulo them says which",
};
/// Assumed: as long as a second level of a TLB takes.
pub const MLB_CYCLES: Key = Key {
    name: "mlb_cycles",
    default: "7",
    allowed: Allowed::Number { min: 0.0, max: 1e12 },
    about: "cycles per miss of the last level that the MLB answers",
};

/// Levels of the table (MID-3).
pub(super) const LEVELS: usize = 6;
/// log2 of the entries that one entry of the level above covers: a page of 8 bytes each.
const RADIX: u32 = 9;
/// Midgard addresses of the arrays.
const TABLE: u64 = 1 << 60;
const LEVEL_SHIFT: u32 = 56;

/// The line with the entry of a Midgard page at a level, the leaves at 0.
pub(super) fn line(page: u64, level: usize) -> u64 {
    let entry = 8 * (page >> (RADIX * level as u32));
    (TABLE + ((level as u64) << LEVEL_SHIFT) + entry) >> LINE_SHIFT
}

const WALKS: usize = 0;
const LEAF_HITS: usize = 1;
const ROOT_MISSES: usize = 2;
const MLB_HITS: usize = 3;
const INVALIDATIONS: usize = 4;

/// In the order of the constants above.
pub(super) const COUNTERS: &[Counter] = &[
    Counter::new("walks", "walks of the table from Midgard pages to frames"),
    Counter::new("leaf_hits", "of these, those whose leaf was in the last level: one reference"),
    Counter::new("root_misses", "of these, those for which the last level had no level of the table"),
    Counter { name: "mlb_hits", about: "misses of the last level that the MLB answered", price: Some(&MLB_CYCLES) },
    Counter::new("invalidations", "entries of the MLB dropped because a mapping changed"),
];

/// Up to the level that is there, and down again from the one below it.
pub(super) const LAWS: &[Law] = &[Law {
    name: "MID-3",
    sides: |part, _| {
        let of = |name| part.counters.get(name);
        let (up, down) = (part.memory.answered.llc, part.memory.answered.memory);
        (up + of("root_misses"), down + of("walks"))
    },
}];

/// See the module.
pub(super) struct Back {
    /// By slice: Midgard pages and their frames; none of a page that only hardware knows.
    mlb: Vec<Lru<(u64, Option<Pfn>)>>,
}

impl Back {
    pub fn new(params: &Params) -> Back {
        let entries = params.int(MLB_ENTRIES.name);
        let slices = if entries == 0 { 0 } else { params.int(MLB_SLICES.name) };
        Back { mlb: (0..slices).map(|_| Lru::new(entries)).collect() }
    }

    fn slice(&mut self, page: u64) -> Option<&mut Lru<(u64, Option<Pfn>)>> {
        let slices = self.mlb.len() as u64;
        self.mlb.get_mut((page % slices.max(1)) as usize)
    }

    /// A line of this Midgard page missed in the last level. `frame`: the page table's.
    pub fn translate(&mut self, page: u64, frame: Option<Pfn>, caches: &mut Levels, part: &mut PartCounts) {
        if let Some(slice) = self.slice(page) {
            if let Some((_, held)) = slice.find(|(of, _)| *of == page) {
                debug_assert_eq!(held, frame, "XC-3: the MLB translates Midgard page {page:#x} otherwise");
                *part.counters.at(MLB_HITS) += 1;
                return;
            }
            slice.fill((page, frame));
        }
        *part.counters.at(WALKS) += 1;
        let found = (0..LEVELS).find(|&level| caches.probe_last(line(page, level)));
        let down = found.unwrap_or(LEVELS);
        (0..down).rev().for_each(|level| caches.bring_last(line(page, level)));
        let (up, down) = (found.map_or(LEVELS, |level| level + 1) as u64, down as u64);
        *part.counters.at(LEAF_HITS) += u64::from(down == 0);
        *part.counters.at(ROOT_MISSES) += u64::from(found.is_none());
        let memory = &mut part.memory;
        memory.made.steps += up + down;
        memory.made.references += up + down;
        memory.answered.llc += up;
        memory.answered.memory += down;
    }

    /// The frames of these Midgard pages changed (MID-4). The table's lines stay: software wrote them in the caches.
    pub fn forget(&mut self, pages: &Range<u64>, part: &mut PartCounts) {
        let dropped = self.mlb.iter_mut().map(|slice| slice.drop_where(|(page, _)| pages.contains(page)));
        *part.counters.at(INVALIDATIONS) += dropped.sum::<u64>();
    }
}
