//! The Midgard space (MID-1): which interval of it each region of each process has.
//!
//! An interval begins behind all that there ever were, and has room for as many pages again as its region has. The
//! region grows in place while there is room; else it moves to a new interval, with room on the side to which it grew,
//! and its lines are flushed. Lines of pages that leave their region are flushed, too.
//!
//! Private memory is placed by virtual page, so that the pieces of a region whose protection changes in part stay where
//! they are. Memory that processes share (MAP_SHARED) has one interval for all, from its first page on, and is placed
//! by its own pages. A private mapping of a file is not shared, also as long as no process writes to it.

use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::translation::{Attr, PageTableView, Region};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// A region of more pages, 1 TB, is no region of a program, but all that a trace without mappings may reference. It is
/// placed in aligned pieces as they are referenced. An entry of the second level holds one of these.
const GIANT: u64 = 1 << 28;
/// log2 of the pages of a piece: 1 GB.
const PIECE: u32 = 18;
/// Midgard pages for regions; VMA tables lie behind.
const MOST_PAGES: u64 = 1 << 46;

/// Where a trace without regions is.
const ANYWHERE: Region = Region { pages: VpnRange::ALL, attr: Attr(u8::MAX), memory: 0, first: 0, shared: false };

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

/// Pages of a file further than a region may be long have places of their own in each process.
fn is_shared(region: &Region) -> bool {
    region.shared && region.first.saturating_add(region.pages.pages) <= GIANT
}

/// Whether both are parts of one mapping of the same memory.
fn continues(a: &Region, b: &Region) -> bool {
    let from = |r: &Region| r.first.wrapping_sub(r.pages.start.0);
    (a.memory, is_shared(a), from(a)) == (b.memory, is_shared(b), from(b))
}

/// The part of a giant region that lies in `pages`, which belongs to it alone.
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

/// By first page, without overlaps.
type Homes = BTreeMap<Vpn, Home>;

/// Those that share pages with a range, ascending.
fn overlapping(homes: &Homes, pages: VpnRange) -> impl Iterator<Item = &Home> {
    let from = homes.range(..=pages.start).next_back().map_or(pages.start, |(start, _)| *start);
    let some = homes.range(from..pages.end().max(from)).map(|(_, home)| home);
    some.filter(move |home| home.region.pages.overlaps(&pages))
}

#[derive(Default)]
struct Process {
    /// The version of `regions`; none yet.
    version: Option<u64>,
    regions: Vec<Region>,
    homes: Homes,
}

/// What the hardware must do after a change of regions.
#[derive(Default)]
pub(super) struct Fallout {
    /// Pages of regions that changed: their VLB entries go.
    pub regions: Vec<(Asid, VpnRange)>,
    /// Midgard pages that no region has any more: their lines go.
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
        let from = if below { first.saturating_sub(pages) } else { first };
        self.interval(from, 2 * pages)
    }

    /// Follows changes of the regions of a process; what they lead to is in [`Space::fallout`].
    pub fn follow(&mut self, asid: Asid, table: &dyn PageTableView) {
        let version = table.regions_version(asid);
        if self.processes.entry(asid).or_default().version == Some(version) {
            return;
        }
        let regions = table.regions(asid);
        regions.iter().filter(|region| is_shared(region)).for_each(|region| self.share(region));
        let process = self.processes.get_mut(&asid).expect("it was just there");
        let old = std::mem::take(&mut process.homes);
        let mut now = Homes::new();
        for region in &regions {
            let mut before = overlapping(&old, region.pages).filter(|home| continues(&home.region, region));
            if region.pages.pages > GIANT {
                let pieces = before.map(|home| Home { region: part(region, home.region.pages), ..*home });
                now.extend(pieces.map(|home| (home.region.pages.start, home)));
            } else {
                let interval = self.home_of(region, before.next());
                now.insert(region.pages.start, Home { region: *region, interval });
            }
        }
        for (start, home) in &old {
            if now.get(start) != Some(home) {
                self.fallout.regions.push((asid, home.region.pages));
            }
            if !is_shared(&home.region) {
                self.leave(home.placed(asid), overlapping(&now, home.region.pages), home.interval);
            }
        }
        let process = self.processes.get_mut(&asid).expect("it was just there");
        (process.version, process.regions, process.homes) = (Some(version), regions, now);
        self.drop_unused(old.values());
    }

    /// The interval of a region, which was `before`.
    fn home_of(&mut self, region: &Region, before: Option<&Home>) -> Interval {
        if is_shared(region) {
            return self.shared[&region.memory];
        }
        let (first, pages) = (region.pages.start.0, region.pages.pages);
        match before {
            Some(home) if home.interval.holds(first, pages) => home.interval,
            Some(home) => {
                self.moves += 1;
                self.roomy(first, pages, first < home.region.pages.start.0)
            }
            None => self.roomy(first, pages, false),
        }
    }

    /// Pages of a former home that are in none of the present ones of the same interval.
    fn leave<'h>(&mut self, old: Placed, now: impl Iterator<Item = &'h Home>, interval: Interval) {
        let mut from = old.pages.start;
        let kept = now.filter(|home| home.interval == interval).map(|home| home.region.pages);
        for pages in kept.chain([VpnRange { start: old.pages.end(), pages: 0 }]) {
            let gap = old.midgard(VpnRange::between(from, pages.start));
            self.fallout.pages.extend((!gap.is_empty()).then_some(gap));
            from = from.max(pages.end());
        }
    }

    /// Shared memory has an interval, from its first page on, that holds this region of it.
    fn share(&mut self, region: &Region) {
        let known = self.shared.get(&region.memory).copied();
        if known.is_some_and(|interval| interval.holds(region.first, region.pages.pages)) {
            return;
        }
        if let Some(old) = known {
            self.moves += 1;
            self.fallout.pages.push(old.midgard());
        }
        let interval = self.roomy(0, region.first + region.pages.pages, false);
        self.shared.insert(region.memory, interval);
        // All processes find it there from now on.
        for (asid, process) in &mut self.processes {
            let homes = process.homes.values_mut();
            for home in homes.filter(|home| is_shared(&home.region) && home.region.memory == region.memory) {
                home.interval = interval;
                self.fallout.regions.push((*asid, home.region.pages));
            }
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

    /// The region of a page, as the VMA table has it.
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

    /// A page of a giant region, or of a trace without regions.
    fn place(&mut self, asid: Asid, vpn: Vpn, region: Region) -> Placed {
        let region = part(&region, VpnRange { start: vpn.align_down(PIECE), pages: 1 << PIECE });
        let home = Home { region, interval: self.interval(region.pages.start.0, region.pages.pages) };
        let process = self.processes.get_mut(&asid).expect("it was just there");
        process.homes.insert(region.pages.start, home);
        home.placed(asid)
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
        let homes = homes.into_iter().flat_map(move |homes| overlapping(homes, pages));
        homes.map(move |home| home.placed(asid).midgard(pages))
    }
}
