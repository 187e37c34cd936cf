//! The Midgard space (MID-1): which interval of it each region of each process has.
//!
//! A region gets its interval when it is first referenced, with room for as many pages again. It grows in place while
//! there is room, upwards or, if that is where the room is, downwards; else it moves to a new interval, and its lines
//! are flushed. Intervals are never used again. Private memory is placed by virtual page, so that the pieces of a
//! region whose protection changes in part stay where they are. Memory that processes share (MAP_SHARED) has one
//! interval for all, and is placed by its own pages. A private mapping of a file is not shared, also as long as nobody
//! writes to it.

use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::translation::{Attr, PageTableView, Region};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// A region of more pages, 4 TB, is no region of a program, but all that a trace without mappings may reference. It is
/// placed in aligned pieces as they are referenced, which an entry of the second level holds each.
const GIANT: u64 = 1 << 30;
/// log2 of the pages of a piece: 1 GB.
const PIECE: u32 = 18;
/// Midgard pages for regions; VMA tables lie behind.
const MOST_PAGES: u64 = 1 << 46;

/// Where a trace without regions is.
const ANYWHERE: Region =
    Region { pages: VpnRange::ALL, attr: Attr(u8::MAX), memory: 0, first: 0, shared: false };

/// A part of an address space in the Midgard space: what a VLB entry says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Placed {
    pub asid: Asid,
    pub pages: VpnRange,
    /// Midgard page of the first.
    pub to: u64,
    /// Rights.
    pub attr: Attr,
}

impl Placed {
    #[inline]
    pub fn has(&self, asid: Asid, vpn: Vpn) -> bool {
        self.pages.contains(vpn) && self.asid == asid
    }
    /// The Midgard page of one of its pages.
    #[inline]
    pub fn translate(&self, vpn: Vpn) -> u64 {
        self.to + (vpn.0 - self.pages.start.0)
    }
    /// Midgard pages of those of its pages that lie in a range.
    fn midgard(&self, range: VpnRange) -> Range<u64> {
        let part = self.pages.and(range);
        let first = self.to + part.start.0.saturating_sub(self.pages.start.0);
        first..first + part.pages
    }
    /// A single page of it.
    pub fn page(&self, vpn: Vpn) -> Placed {
        Placed { pages: VpnRange::one(vpn), to: self.translate(vpn), ..*self }
    }
}

/// An interval, with the pages that have their place in it: virtual ones, or those of shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Interval {
    first: u64,
    pages: u64,
    base: u64,
}

impl Interval {
    fn holds(&self, first: u64, pages: u64) -> bool {
        self.first <= first && first + pages <= self.first + self.pages
    }
    fn at(&self, page: u64) -> u64 {
        self.base + (page - self.first)
    }
    fn midgard(&self) -> Range<u64> {
        self.base..self.base + self.pages
    }
}

/// A region, or a piece of one, that has its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Home {
    region: Region,
    interval: Interval,
}

/// The page by which a region has its place.
fn key(region: &Region) -> u64 {
    if is_shared(region) { region.first } else { region.pages.start.0 }
}

fn is_shared(region: &Region) -> bool {
    region.shared && region.pages.pages <= GIANT
}

/// Whether both are parts of one mapping of the same memory.
fn continues(a: &Region, b: &Region) -> bool {
    let from = |r: &Region| r.first.wrapping_sub(r.pages.start.0);
    (a.memory, is_shared(a), from(a)) == (b.memory, is_shared(b), from(b))
}

/// The part of a giant region that lies in `pages`, which is nobody else's.
fn part(region: &Region, pages: VpnRange) -> Region {
    let pages = region.pages.and(pages);
    let first = region.first.wrapping_add(pages.start.0 - region.pages.start.0);
    Region { pages, first, shared: false, ..*region }
}

impl Home {
    fn placed(&self, asid: Asid) -> Placed {
        let Region { pages, attr, .. } = self.region;
        Placed { asid, pages, to: self.interval.at(key(&self.region)), attr }
    }
}

#[derive(Default)]
struct Process {
    /// The version of `regions`; none yet.
    version: Option<u64>,
    regions: Vec<Region>,
    homes: BTreeMap<Vpn, Home>,
}

impl Process {
    /// The regions that share pages with these.
    fn overlapping(&self, pages: VpnRange) -> impl Iterator<Item = &Region> {
        let from = self.regions.partition_point(|region| region.pages.end() <= pages.start);
        self.regions[from..].iter().take_while(move |region| region.pages.start < pages.end())
    }
}

/// What the hardware must do after a change of regions.
#[derive(Default)]
pub(super) struct Fallout {
    /// Pages of regions that changed: their VLB entries go.
    pub regions: Vec<(Asid, VpnRange)>,
    /// Midgard pages that nobody has any more: their lines go.
    pub pages: Vec<Range<u64>>,
}

/// What a VMA table has for a page.
pub(super) struct Found {
    pub placed: Placed,
    /// Place of the region among those of the process.
    pub rank: u64,
    /// Regions of the process.
    pub regions: u64,
}

/// See the module.
#[derive(Default)]
pub(super) struct Space {
    processes: HashMap<Asid, Process, FixedState>,
    /// By memory.
    shared: HashMap<u64, Interval, FixedState>,
    next: u64,
    pub fallout: Fallout,
    /// Intervals given so far, and those of them to which a region moved.
    pub intervals: u64,
    pub moves: u64,
}

impl Space {
    /// A new interval. `first` is the first page that has its place in it, of `pages`.
    fn interval(&mut self, first: u64, pages: u64) -> Interval {
        let base = self.next;
        self.next += pages;
        self.intervals += 1;
        assert!(self.next <= MOST_PAGES, "the program mapped more than the Midgard space holds");
        Interval { first, pages, base }
    }

    /// A new interval for a region, with room for as many pages again, above it or below.
    fn roomy(&mut self, first: u64, pages: u64, below: bool) -> Interval {
        if pages > GIANT {
            return self.interval(first, pages);
        }
        let from = if below { first.saturating_sub(pages) } else { first };
        self.interval(from, 2 * pages)
    }

    /// Follows changes of the regions of a process; what they lead to is in [`Space::fallout`]. Returns whether there
    /// were any.
    pub fn follow(&mut self, asid: Asid, table: &dyn PageTableView) -> bool {
        let version = table.regions_version(asid);
        let process = self.processes.entry(asid).or_default();
        if process.version == Some(version) {
            return false;
        }
        process.version = Some(version);
        process.regions = table.regions(asid);
        let old = std::mem::take(&mut process.homes);
        for home in old.values() {
            self.keep(asid, home);
        }
        let now = &self.processes[&asid].homes;
        let fallout = &mut self.fallout;
        for (start, home) in &old {
            let pages = home.region.pages;
            if now.get(start) != Some(home) {
                fallout.regions.push((asid, pages));
            }
            if is_shared(&home.region) {
                continue;
            }
            // What lies between the homes that are in the same interval as before has none any more.
            let mut from = pages.start;
            let last = now.range(..=pages.start).next_back().map_or(pages.start, |(first, _)| *first);
            let same = now.range(last..pages.end()).filter(|(_, h)| h.interval == home.interval);
            for (_, kept) in same {
                let gap = VpnRange::between(from, kept.region.pages.start);
                fallout.pages.push(home.placed(asid).midgard(gap));
                from = from.max(kept.region.pages.end());
            }
            fallout.pages.push(home.placed(asid).midgard(VpnRange::between(from, pages.end())));
        }
        self.drop_unused(old.values());
        self.fallout.pages.retain(|range| !range.is_empty());
        true
    }

    /// Places again what is left of a region, and what it has grown to.
    fn keep(&mut self, asid: Asid, home: &Home) {
        let process = &self.processes[&asid];
        let left: Vec<Region> =
            process.overlapping(home.region.pages).filter(|region| continues(region, &home.region)).copied().collect();
        for region in left {
            let giant = region.pages.pages > GIANT;
            let region = if giant { part(&region, home.region.pages) } else { region };
            if self.processes[&asid].homes.contains_key(&region.pages.start) {
                continue; // It was placed with another piece of the same mapping.
            }
            let (first, pages) = (key(&region), region.pages.pages);
            let interval = if home.interval.holds(first, pages) {
                home.interval
            } else if is_shared(&region) {
                continue; // It moves when it is referenced next.
            } else {
                self.moves += 1;
                self.roomy(first, pages, first < key(&home.region))
            };
            let homes = &mut self.processes.get_mut(&asid).expect("it was just there").homes;
            homes.insert(region.pages.start, Home { region, interval });
        }
    }

    /// Intervals of shared memory that no process maps any more.
    fn drop_unused<'h>(&mut self, old: impl Iterator<Item = &'h Home>) {
        for home in old.filter(|home| is_shared(&home.region)) {
            let memory = home.region.memory;
            let maps = |process: &Process| process.regions.iter().any(|r| is_shared(r) && r.memory == memory);
            if !self.processes.values().any(maps)
                && let Some(interval) = self.shared.remove(&memory)
            {
                self.fallout.pages.push(interval.midgard());
            }
        }
    }

    /// The region of a page, as the VMA table has it. A region that has no place yet gets one.
    pub fn find(&mut self, asid: Asid, vpn: Vpn) -> Found {
        let process = self.processes.entry(asid).or_default();
        let rank = process.regions.partition_point(|region| region.pages.end() <= vpn);
        let region = process.regions.get(rank).filter(|region| region.pages.contains(vpn)).copied();
        let (rank, regions) = (rank as u64, process.regions.len().max(1) as u64);
        let placed = self.lookup(asid, vpn).unwrap_or_else(|| self.place(asid, vpn, region.unwrap_or(ANYWHERE)));
        Found { placed, rank: rank.min(regions - 1), regions }
    }

    /// The place of a page, if it has one.
    pub fn lookup(&self, asid: Asid, vpn: Vpn) -> Option<Placed> {
        let (_, home) = self.processes.get(&asid)?.homes.range(..=vpn).next_back()?;
        home.region.pages.contains(vpn).then(|| home.placed(asid))
    }

    fn place(&mut self, asid: Asid, vpn: Vpn, region: Region) -> Placed {
        let region = if region.pages.pages > GIANT {
            part(&region, VpnRange { start: vpn.align_down(PIECE), pages: 1 << PIECE })
        } else {
            region
        };
        let interval = if is_shared(&region) {
            self.place_shared(&region)
        } else {
            self.roomy(key(&region), region.pages.pages, false)
        };
        let home = Home { region, interval };
        let process = self.processes.get_mut(&asid).expect("it was just there");
        process.homes.insert(region.pages.start, home);
        home.placed(asid)
    }

    fn place_shared(&mut self, region: &Region) -> Interval {
        let (first, pages) = (region.first, region.pages.pages);
        let known = self.shared.get(&region.memory).copied();
        if let Some(interval) = known.filter(|interval| interval.holds(first, pages)) {
            return interval;
        }
        let mut range = first..first + pages;
        if let Some(old) = known {
            // Every process finds it at another place.
            range = range.start.min(old.first)..range.end.max(old.first + old.pages);
            self.moves += 1;
            self.fallout.pages.push(old.midgard());
            for (asid, process) in &mut self.processes {
                let fallout = &mut self.fallout.regions;
                process.homes.retain(|_, home| {
                    let stays = !is_shared(&home.region) || home.region.memory != region.memory;
                    if !stays {
                        fallout.push((*asid, home.region.pages));
                    }
                    stays
                });
            }
        }
        let interval = self.roomy(range.start, range.end - range.start, false);
        self.shared.insert(region.memory, interval);
        interval
    }

    /// An address space is gone.
    pub fn end(&mut self, asid: Asid) {
        let Some(process) = self.processes.remove(&asid) else { return };
        self.fallout.regions.push((asid, VpnRange::ALL));
        for home in process.homes.values().filter(|home| !is_shared(&home.region)) {
            self.fallout.pages.push(home.placed(asid).midgard(home.region.pages));
        }
        self.drop_unused(process.homes.values());
    }

    /// The Midgard pages of those of these pages that have a place.
    pub fn midgard_of(&self, asid: Asid, pages: VpnRange) -> impl Iterator<Item = Range<u64>> {
        let homes = self.processes.get(&asid).map(|process| &process.homes);
        let from = homes.and_then(|homes| homes.range(..=pages.start).next_back()).map_or(pages.start, |(s, _)| *s);
        let homes = homes.into_iter().flat_map(move |homes| homes.range(from..pages.end().max(from)));
        homes.map(move |(_, home)| home.placed(asid).midgard(pages)).filter(|range| !range.is_empty())
    }
}
