//! Utopia: frames that a page may have by its set, and the walk that finds them (UTO-1 to UTO-7), as lists.
//!
//! * OU-1 RestSeg frames: those of base pages come first, from frame 0, then those of 2 MB, then the FlexSeg. A new
//!   page takes the lowest free way. Pages of 1 GB go to the FlexSeg.
//! * OU-2 All processes share the RestSegs. With `hash=mix` the set is `mix(asid<<52 ^ page, seed)` mod sets.
//! * OU-3 Each size has a cache of sets for SF and one for TAR: `sets` of them in `ways`, by the low bits of the set,
//!   LRU. A change of a set is written into them: they stay.
//! * OU-4 Reads of SF of both sizes are one step, those of TAR another. Steps without reads do not count. A size whose
//!   RestSeg has no sets is not looked at.
//! * OU-5 LRU of `evict`: by placement and RSW hits. With a way that became free the page that migrates takes it; if
//!   none is free it stays (no SRRIP here).
//! * OU-6 Walks of a FlexSeg page are counted since it was placed there.

use crate::tables::{Hash, book::Used};
use std::collections::BTreeMap;

/// A RestSeg (UTO-1, UTO-2).
#[derive(Clone, Copy, Debug)]
pub struct Seg {
    /// A power of two, or 0: none.
    pub sets: u64,
    /// Frames of a set, of its size.
    pub ways: u64,
}

/// `uto_full` (UTO-5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// The page goes to the FlexSeg.
    Flex,
    /// The page used least recently moves there.
    Evict,
}

/// Keys of the machine.
#[derive(Clone, Copy, Debug)]
pub struct UtopiaConfig {
    /// Of 4 KB and of 2 MB.
    pub segs: [Seg; 2],
    /// Sets that the caches of SF and TAR hold, and their ways (UTO-3).
    pub cache: (usize, usize),
    /// `uto_full`.
    pub full: Full,
    /// `uto_walks_at`: walks after which a page migrates, 0 for never (UTO-6).
    pub walks_at: u64,
    /// Of the set: page mod sets, or `mix`.
    pub hash: Hash,
    /// `seed`.
    pub seed: u64,
    /// Frames of the memory.
    pub frames: u64,
}

/// A page: process, order, page of its size.
type Page = (u32, u8, u64);

/// What a page has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A frame of a RestSeg.
    Rest(u64),
    /// Some frame of the FlexSeg.
    Flex,
}

/// What a walk of the RestSegs found (UTO-3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rsw {
    /// The sole answer, or a walk of the page table follows.
    pub hit: bool,
    /// Lines of SF and TAR read.
    pub references: u64,
    /// OU-4.
    pub steps: u64,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    page: Page,
    used: u64,
}

/// The model.
pub struct Utopia {
    config: UtopiaConfig,
    /// By size: sets of ways.
    rest: [Vec<Vec<Option<Held>>>; 2],
    /// Pages in the FlexSeg, and their walks.
    flex: BTreeMap<Page, u64>,
    /// By size: SF and TAR; a list for each of their sets.
    cached: [[Vec<Used<u64>>; 2]; 2],
    now: u64,
    /// `rsw_hits`, `walks`, `sf_references`, `tar_references`, `migrations`.
    pub counts: BTreeMap<&'static str, u64>,
}

impl Utopia {
    /// With all memory free.
    pub fn new(config: UtopiaConfig) -> Utopia {
        let (sets, ways) = config.cache;
        let cache = || (0..sets / ways).map(|_| Used::new(ways)).collect::<Vec<_>>();
        let names = ["rsw_hits", "walks", "sf_references", "tar_references", "migrations"];
        Utopia {
            rest: config.segs.map(|seg| vec![vec![None; seg.ways as usize]; seg.sets as usize]),
            flex: BTreeMap::new(),
            cached: [(); 2].map(|()| [cache(), cache()]),
            now: 0,
            counts: names.into_iter().map(|name| (name, 0)).collect(),
            config,
        }
    }

    fn add(&mut self, name: &'static str, n: u64) {
        *self.counts.get_mut(name).unwrap() += n;
    }

    /// The set of a page, in a size that has sets.
    fn set(&self, page: Page) -> Option<(usize, usize)> {
        let (asid, order, number) = page;
        let size = usize::from(order / 9);
        let sets = self.config.segs.get(size)?.sets;
        let set = |hash: Hash| hash.index(asid, number, self.config.seed, 0, sets) as usize;
        (sets > 0).then(|| (size, set(self.config.hash)))
    }

    /// The frame of a way (OU-1).
    fn frame(&self, size: usize, set: usize, way: usize) -> u64 {
        let [base, large] = self.config.segs;
        let number = set as u64 * [base, large][size].ways + way as u64;
        if size == 0 { number } else { base.sets * base.ways + 512 * number }
    }

    /// Frames of RestSegs in use, of the FlexSeg in use, and free (UTO-7).
    pub fn frames(&self) -> [u64; 3] {
        let held = self.rest.iter().flatten().flatten().flatten();
        let rest = held.map(|held| 1 << held.page.1).sum::<u64>();
        let flex = self.flex.keys().map(|page| 1 << page.1).sum::<u64>();
        [rest, flex, self.config.frames - rest - flex]
    }

    /// UTO-5: a page is mapped; and a page that had to move.
    pub fn place(&mut self, asid: u32, vpn: u64, order: u8) -> (Place, Option<(u32, u64, u8)>) {
        self.now += 1;
        let page = (asid, order, vpn >> order);
        let Some((size, set)) = self.set(page) else {
            self.flex.insert(page, 0);
            return (Place::Flex, None);
        };
        let (new, evict) = (Held { page, used: self.now }, self.config.full == Full::Evict);
        let ways = &mut self.rest[size][set];
        if let Some(free) = ways.iter().position(Option::is_none) {
            ways[free] = Some(new);
            return (Place::Rest(self.frame(size, set, free)), None);
        }
        if !evict {
            self.flex.insert(page, 0);
            return (Place::Flex, None);
        }
        let oldest = (0..ways.len()).min_by_key(|&way| ways[way].unwrap().used).unwrap();
        let moved = ways[oldest].replace(new).unwrap().page;
        self.flex.insert(moved, 0);
        self.add("migrations", 1);
        (Place::Rest(self.frame(size, set, oldest)), Some((moved.0, moved.2 << moved.1, moved.1)))
    }

    /// A page is unmapped.
    pub fn free(&mut self, asid: u32, vpn: u64, order: u8) {
        let page = (asid, order, vpn >> order);
        if self.flex.remove(&page).is_none() {
            let all = self.rest.iter_mut().flatten().flatten();
            let gone: Vec<_> = all.filter_map(|way| way.take_if(|held| held.page == page)).collect();
            assert_eq!(gone.len(), 1, "a page is in one place (UTO-7)");
        }
    }

    /// Reads a set's line through a cache: references.
    fn through(&mut self, size: usize, table: usize, set: usize) -> u64 {
        let rows = &mut self.cached[size][table];
        let row = set % rows.len().max(1);
        let Some(row) = rows.get_mut(row) else { return 1 };
        if row.hit(&(set as u64)) {
            return 0;
        }
        row.put(set as u64);
        1
    }

    /// UTO-3 of a base page that is mapped, and a page that migrated after the walk (UTO-6).
    pub fn walk(&mut self, asid: u32, vpn: u64) -> (Rsw, Option<(u32, u64, u8)>) {
        self.now += 1;
        let (mut read, mut hit) = ([0, 0], false);
        for order in [0, 9] {
            let page = (asid, order, vpn >> order);
            let Some((size, set)) = self.set(page) else { continue };
            read[0] += self.through(size, 0, set);
            if self.rest[size][set].iter().any(Option::is_some) {
                read[1] += self.through(size, 1, set);
                let now = self.now;
                for held in self.rest[size][set].iter_mut().flatten().filter(|held| held.page == page) {
                    (held.used, hit) = (now, true);
                }
            }
        }
        self.add("sf_references", read[0]);
        self.add("tar_references", read[1]);
        self.add(if hit { "rsw_hits" } else { "walks" }, 1);
        let steps = read.into_iter().filter(|&n| n > 0).count() as u64;
        let moved = if hit { None } else { self.walked(asid, vpn) };
        (Rsw { hit, references: read[0] + read[1], steps }, moved)
    }

    fn walked(&mut self, asid: u32, vpn: u64) -> Option<(u32, u64, u8)> {
        let at = self.config.walks_at;
        let pages = [0, 9, 18].map(|order| (asid, order, vpn >> order));
        let page = pages.into_iter().find(|page| self.flex.contains_key(page)).expect("the page is mapped");
        let walks = self.flex.get_mut(&page).unwrap();
        *walks += 1;
        if at == 0 || *walks < at {
            return None;
        }
        let (size, set) = self.set(page)?;
        let now = self.now;
        let free = self.rest[size][set].iter_mut().find(|way| way.is_none())?;
        *free = Some(Held { page, used: now });
        self.flex.remove(&page);
        self.add("migrations", 1);
        Some((asid, page.2 << page.1, page.1))
    }

    /// SF of a set (UTO-2).
    pub fn used_ways(&self, size: usize, set: usize) -> usize {
        self.rest[size][set].iter().flatten().count()
    }
}

#[cfg(test)]
mod tests;
