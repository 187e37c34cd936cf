//! Regions, and their intervals of the Midgard space (MID-1, OV-1 to OV-3).

use super::{FRONT, Interval, Midgard, Range, Region};

impl Midgard {
    /// The region of a page: its first page, and the Midgard page of that.
    pub(super) fn find(&self, asid: u32, page: u64) -> Option<(u64, Region, u64)> {
        let (&(_, first), region) = self.regions.range((asid, 0)..=(asid, page)).next_back()?;
        let base = self.intervals[&region.interval].first + region.from;
        (page - first < region.pages).then_some((first, *region, base))
    }

    /// MID-1: a region begins. `file`: the file and the page of it where the region begins, if it is shared.
    pub fn region(&mut self, asid: u32, first: u64, pages: u64, file: Option<(u64, u64)>) {
        let from = file.map_or(0, |(_, from)| from);
        let known = file.and_then(|(file, _)| self.files.get(&file).copied());
        let interval = known.unwrap_or(self.intervals.keys().next_back().map_or(0, |last| last + 1));
        if let Some((file, _)) = file {
            self.files.insert(file, interval);
        }
        self.lengthen(interval, from + pages);
        self.insert(asid, first, Region { pages, interval, from });
        self.changed(asid, first, pages);
    }

    /// A region is longer or shorter now.
    pub fn resize(&mut self, asid: u32, first: u64, pages: u64) {
        let region = *self.regions.get(&(asid, first)).expect("the region exists");
        self.changed(asid, first, region.pages);
        self.lengthen(region.interval, region.from + pages);
        if pages < region.pages && self.files.values().all(|interval| *interval != region.interval) {
            let base = self.intervals[&region.interval].first + region.from;
            self.flush(Interval { first: base + pages, pages: region.pages - pages });
        }
        self.regions.remove(&(asid, first));
        self.insert(asid, first, Region { pages, ..region });
    }

    fn insert(&mut self, asid: u32, first: u64, region: Region) {
        let apart =
            |(&(a, f), r): (&(u32, u64), &Region)| a != asid || f + r.pages <= first || first + region.pages <= f;
        assert!(region.pages > 0 && self.regions.iter().all(apart), "regions are disjoint");
        self.regions.insert((asid, first), region);
    }

    /// A region ends.
    pub fn end(&mut self, asid: u32, first: u64) {
        let region = self.regions.remove(&(asid, first)).expect("the region exists");
        self.changed(asid, first, region.pages);
        if self.regions.values().all(|other| other.interval != region.interval) {
            self.files.retain(|_, interval| *interval != region.interval);
            let gone = self.intervals.remove(&region.interval).unwrap();
            self.flush(gone);
        }
    }

    /// OV-1: an interval, new if there is none of this number, has at least this many pages.
    fn lengthen(&mut self, number: u64, pages: u64) {
        let old = self.intervals.get(&number).copied();
        if old.is_some_and(|old| old.pages >= pages) {
            return;
        }
        self.intervals.insert(number, Interval { first: self.next, pages: 2 * pages });
        self.next += 2 * pages;
        assert!(self.next < FRONT / 64);
        if let Some(old) = old {
            self.add("moved", 1);
            self.flush(old);
            let all: Vec<_> = self.regions.iter().filter(|r| r.1.interval == number).map(|r| (*r.0, *r.1)).collect();
            all.iter().for_each(|((asid, first), region)| self.changed(*asid, *first, region.pages));
        }
    }

    /// Lines of an interval, or of a part of one, leave the caches, its pages the MLB.
    fn flush(&mut self, old: Interval) {
        let inside = |page: u64| old.first <= page && page < old.first + old.pages;
        let lines = self.caches.last_mut().expect("there is a cache").drop_if(|&line| inside(line / 64));
        self.caches.iter_mut().chain([&mut self.fetch]).for_each(|cache| _ = cache.drop_if(|&line| inside(line / 64)));
        let pages = self.mlb.drop_if(|&page| inside(page));
        self.add("flushed", lines);
        self.add("mlb_invalidations", pages);
    }

    /// OV-3.
    fn changed(&mut self, asid: u32, first: u64, pages: u64) {
        let meets = |e: &Range| e.0 == asid && e.1 < first + pages && first < e.1 + e.2;
        let dropped: u64 = self.vlb1.iter_mut().chain([&mut self.vlb2]).map(|vlb| vlb.drop_if(meets)).sum();
        self.add("invalidations", dropped);
    }

    /// First page and length of each interval.
    pub fn intervals(&self) -> Vec<(u64, u64)> {
        self.intervals.values().map(|interval| (interval.first, interval.pages)).collect()
    }
}
