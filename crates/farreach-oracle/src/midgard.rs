//! Midgard: caches behind a space of its own, to which regions lead, and from which memory is found only at misses of
//! the last cache (MID-1 to MID-4), as lists.
//!
//! * OV-1 Intervals begin behind the highest one there ever was, and have room for as many pages again as were asked
//!   for. An interval that has no room moves. It goes with its last region, and its lines leave the caches, as when it
//!   moves; those of pages that a region loses leave, too, unless it is of a file.
//! * OV-2 All regions of a file share its interval, which is as long as the furthest page that they map, with its room.
//!   One that a shorter region leaves too long stays so.
//! * OV-3 A region that begins, grows, shrinks, moves or ends drops the entries of both VLBs that overlap it, as HW-9;
//!   of a file that moves, those of all its regions. The MLB drops pages of an interval that moves or ends, and those
//!   that a region loses.
//! * OV-4 A VLB hit renews its entry; the second is looked up after the first missed. Each fills those before it. The
//!   first is one for fetches and one for data. At a switch without `process_ids` all lose all, which is counted as
//!   HW-9 says. Caches and MLB hold Midgard addresses and keep.
//! * OV-5 The VMA table is a full tree: n regions have the least depth d with 5^d >= n. Entries are in leaves, in the
//!   order of addresses. Nodes are numbered from the root, depth by depth, each depth as if it were full. A walk reads
//!   both lines of a node at each depth, from the first cache of data on.
//! * OV-6 A line that misses everywhere fills all caches, one that hits those before; the first cache is one for
//!   fetches and one for data. What leaves the last leaves the others. A line is translated before it is in the caches.
//!   Nothing is modified.
//! * OV-7 The walk back looks at the last cache only, and fills it, highest level first. A probe that misses changes
//!   nothing. Above level `levels` is a register, so that a walk that finds nothing has `levels` references up and as
//!   many down; one that finds its line at level k has k up and k - 1 down.
//! * OV-8 The MLB is one array, fully associative, LRU, filled after walks. A page change drops its page there. The
//!   lines of the page stay: they are named by Midgard addresses.

mod regions;

use crate::lru::Sets;
use std::collections::BTreeMap;

/// Keys of the machine.
#[derive(Clone, Debug)]
pub struct MidgardConfig {
    /// The L1 VLB: entries and ways.
    pub vlb1: (usize, usize),
    /// The L2 VLB: ranges.
    pub vlb2: usize,
    /// Lines and ways of each cache; the last is the LLC.
    pub caches: Vec<(usize, usize)>,
    /// Entries; 0: none.
    pub mlb: usize,
    /// Of the table behind the caches.
    pub levels: u32,
    pub process_ids: bool,
}

impl Default for MidgardConfig {
    fn default() -> MidgardConfig {
        let caches = vec![(512, 8), (16384, 16)];
        MidgardConfig { vlb1: (48, 48), vlb2: 16, caches, mlb: 0, levels: 6, process_ids: true }
    }
}

/// Lines of the tables in front, and of the table behind, lie far above all intervals, where the machine has them.
const FRONT: u64 = 1 << 52;
const BACK: u64 = 1 << 54;

#[derive(Clone, Copy, Debug)]
struct Interval {
    first: u64,
    /// With its room.
    pages: u64,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    pages: u64,
    interval: u64,
    /// The page of the interval where it begins.
    from: u64,
}

/// An entry of a VLB: process, first page, pages, Midgard page of the first.
type Range = (u32, u64, u64, u64);

/// What answered in front.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Front {
    Vlb1,
    Vlb2,
    Walk,
}

/// What an access did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    pub front: Front,
    /// Number of the line in Midgard space.
    pub line: u64,
    /// The cache that had it, 0 the first; as many as there are caches: none.
    pub level: usize,
}

/// The model.
pub struct Midgard {
    config: MidgardConfig,
    regions: BTreeMap<(u32, u64), Region>,
    intervals: BTreeMap<u64, Interval>,
    /// Intervals of files.
    files: BTreeMap<u64, u64>,
    next: u64,
    /// Fetches, data.
    vlb1: [Sets<Range>; 2],
    vlb2: Sets<Range>,
    /// The first of fetches, then those of data and of both.
    fetch: Sets<u64>,
    caches: Vec<Sets<u64>>,
    mlb: Sets<u64>,
    running: Option<u32>,
    /// `vlb1`, `vlb2`, `vma_walks`, `vma_references`, `llc_misses_data` and `_front`, `m2p_data` and `_front`,
    /// `mlb_hits`, `m2p_up` and `m2p_down` (references), `moved`, `flushed` (lines), `invalidations` (of VLBs),
    /// `mlb_invalidations`.
    pub counts: BTreeMap<&'static str, u64>,
}

const NAMES: [&str; 15] = [
    "vlb1",
    "vlb2",
    "vma_walks",
    "vma_references",
    "llc_misses_data",
    "llc_misses_front",
    "m2p_data",
    "m2p_front",
    "mlb_hits",
    "m2p_up",
    "m2p_down",
    "moved",
    "flushed",
    "invalidations",
    "mlb_invalidations",
];

impl Midgard {
    /// Without regions.
    pub fn new(config: MidgardConfig) -> Midgard {
        Midgard {
            regions: BTreeMap::new(),
            intervals: BTreeMap::new(),
            files: BTreeMap::new(),
            next: 0,
            vlb1: [(); 2].map(|()| Sets::new(config.vlb1.0, config.vlb1.1)),
            vlb2: Sets::new(config.vlb2, config.vlb2),
            fetch: Sets::new(config.caches[0].0, config.caches[0].1),
            caches: config.caches.iter().map(|&(lines, ways)| Sets::new(lines, ways)).collect(),
            mlb: Sets::new(config.mlb, config.mlb),
            running: None,
            counts: NAMES.map(|name| (name, 0)).into(),
            config,
        }
    }

    fn add(&mut self, name: &'static str, n: u64) {
        *self.counts.get_mut(name).unwrap() += n;
    }

    /// MID-4: a page is mapped elsewhere, or not at all.
    pub fn page_changed(&mut self, asid: u32, page: u64) {
        if let Some((first, _, base)) = self.find(asid, page) {
            let dropped = self.mlb.drop_if(|&held| held == base + page - first);
            self.add("mlb_invalidations", dropped);
        }
    }

    /// OV-4.
    pub fn switch(&mut self, to: u32) {
        if self.running.replace(to) != Some(to) && !self.config.process_ids {
            let dropped: u64 = self.vlb1.iter_mut().chain([&mut self.vlb2]).map(|vlb| vlb.drop_if(|_| true)).sum();
            self.add("invalidations", dropped);
        }
    }

    /// A load of a byte of a region.
    pub fn access(&mut self, asid: u32, address: u64) -> Access {
        self.access_by(1, asid, address)
    }

    /// An access to a byte of a region; `side` 0: a fetch, 1: a load.
    pub fn access_by(&mut self, side: usize, asid: u32, address: u64) -> Access {
        self.switch(asid);
        let page = address / 4096;
        let (front, midgard) = self.front(side, asid, page);
        let (first, _, base) = self.find(asid, page).expect("the address is in a region");
        assert_eq!(midgard, base + page - first, "HW-5");
        let line = midgard * 64 + address / 64 % 64;
        Access { front, line, level: self.cached(side, line) }
    }

    /// MID-2.
    fn front(&mut self, side: usize, asid: u32, page: u64) -> (Front, u64) {
        let covers = |e: &Range| e.0 == asid && e.1 <= page && page - e.1 < e.2;
        let midgard = |e: Range| e.3 + page - e.1;
        if let Some(entry) = self.vlb1[side].hit(page, covers) {
            self.add("vlb1", 1);
            return (Front::Vlb1, midgard(entry));
        }
        let (front, entry) = match self.vlb2.hit(0, covers) {
            Some(entry) => {
                self.add("vlb2", 1);
                (Front::Vlb2, entry)
            }
            None => (Front::Walk, self.vma_walk(asid, page)),
        };
        self.vlb1[side].put(page, (asid, page, 1, midgard(entry)));
        (front, midgard(entry))
    }

    /// OV-5.
    fn vma_walk(&mut self, asid: u32, page: u64) -> Range {
        let (first, region, base) = self.find(asid, page).expect("the page is in a region");
        let own = || self.regions.range((asid, 0)..=(asid, u64::MAX));
        let (n, place) = (own().count() as u64, own().position(|r| r.0.1 == first).unwrap() as u64);
        let depth = (1..).find(|&depth| 5u64.pow(depth) >= n).unwrap();
        self.add("vma_walks", 1);
        for level in 0..depth {
            let before: u64 = (0..level).map(|level| 5u64.pow(level)).sum();
            let node = before + place / 5u64.pow(depth - level);
            for line in [0, 1] {
                self.add("vma_references", 1);
                self.cached(1, FRONT | u64::from(asid) << 20 | node << 1 | line);
            }
        }
        let entry = (asid, first, region.pages, base);
        self.vlb2.put(0, entry);
        entry
    }

    /// OV-6: the cache that had a line.
    fn cached(&mut self, side: usize, line: u64) -> usize {
        let Midgard { fetch, caches, .. } = self;
        let (first, behind) = caches.split_first_mut().expect("there is a cache");
        let mut path: Vec<&mut Sets<u64>> =
            std::iter::once(if side == 0 { fetch } else { first }).chain(behind).collect();
        let had = path.iter_mut().position(|cache| cache.hit(line, |held| *held == line).is_some());
        let level = had.unwrap_or(path.len());
        if had.is_none() {
            self.back(line);
            self.enter(line);
        }
        let last = self.caches.len() - 1;
        for before in (0..level.min(last)).rev() {
            let cache = if (side, before) == (0, 0) { &mut self.fetch } else { &mut self.caches[before] };
            cache.put(line, line);
        }
        level
    }

    /// A line enters the last cache; the one that leaves for it leaves all.
    fn enter(&mut self, line: u64) {
        let gone = self.caches.last_mut().expect("there is a cache").put(line, line);
        let Some(gone) = gone else { return };
        self.caches.iter_mut().chain([&mut self.fetch]).for_each(|cache| _ = cache.drop_if(|&held| held == gone));
    }

    /// MID-3, OV-7.
    fn back(&mut self, line: u64) {
        let (page, front) = (line / 64, line >= FRONT);
        self.add(if front { "llc_misses_front" } else { "llc_misses_data" }, 1);
        if self.mlb.hit(0, |held| *held == page).is_some() {
            return self.add("mlb_hits", 1);
        }
        self.add(if front { "m2p_front" } else { "m2p_data" }, 1);
        let entry = |level: u32| BACK + (u64::from(level - 1) << 50) + (page >> (9 * (level - 1)) >> 3);
        let llc = self.caches.last_mut().expect("there is a cache");
        let found =
            (1..=self.config.levels).find(|&level| llc.hit(entry(level), |held| *held == entry(level)).is_some());
        let up = found.unwrap_or(self.config.levels);
        let down = found.map_or(up, |level| level - 1);
        for level in (1..=down).rev() {
            self.enter(entry(level));
        }
        self.mlb.put(0, page);
        self.add("m2p_up", up.into());
        self.add("m2p_down", down.into());
    }
}

#[cfg(test)]
mod tests;
