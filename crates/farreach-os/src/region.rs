//! The regions of an address space (XC-2): the mapped pages, their protection and their object.

use super::object::ObjectId;
use farreach_types::addr::{Vpn, VpnRange};
use farreach_types::event::Prot;
use std::collections::BTreeMap;

/// Advice about superpages (madvise).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HugeAdvice {
    /// Nothing.
    #[default]
    None,
    /// MADV_HUGEPAGE.
    Huge,
    /// MADV_NOHUGEPAGE.
    NoHuge,
    /// The unrequested rest of a huge page.
    Rest,
}

/// A piece of address space with one protection and one object behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its pages.
    pub range: VpnRange,
    /// Protection.
    pub prot: Prot,
    /// Whether it is shared (MAP_SHARED).
    pub shared: bool,
    /// The object that backs it.
    pub object: ObjectId,
    /// Page of the object at `range.start`.
    pub first_page: u64,
    /// Its name: an index into the labels of the operating system.
    pub label: u32,
    /// Advice about superpages.
    pub advice: HugeAdvice,
}

impl Region {
    /// The object's page behind `vpn`, which lies inside.
    #[inline]
    pub fn page_of(&self, vpn: Vpn) -> u64 {
        self.first_page + (vpn.0 - self.range.start.0)
    }
    /// The part of it inside `range`, if any.
    fn cut(&self, range: VpnRange) -> Option<Region> {
        let start = self.range.start.max(range.start);
        let range = VpnRange::between(start, self.range.end().min(range.end()));
        (range.pages > 0).then(|| Region { range, first_page: self.page_of(start), ..self.clone() })
    }
}

/// Non-overlapping regions in ascending order.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    by_start: BTreeMap<Vpn, Region>,
    /// Pages that may be accessed at all.
    pages: u64,
    /// Changes so far.
    version: u64,
}

/// Pages of a region that may be accessed. A guard has none.
fn usable(region: &Region) -> u64 {
    if region.prot == Prot::NONE { 0 } else { region.range.pages }
}

impl Regions {
    /// The region a page lies in.
    pub fn find(&self, vpn: Vpn) -> Option<&Region> {
        self.by_start.range(..=vpn).next_back().map(|(_, r)| r).filter(|r| r.range.contains(vpn))
    }

    /// The pieces of regions inside `range`, ascending.
    pub fn within(&self, range: VpnRange) -> Vec<Region> {
        let first = self.by_start.range(..=range.start).next_back().map_or(range.start, |(s, _)| *s);
        self.by_start.range(first..range.end().max(first)).filter_map(|(_, r)| r.cut(range)).collect()
    }

    /// Removes the pages of `range`: returns the pieces that lay inside, ascending, each with the number of pieces of
    /// its region (0 to 2) that stick out and stay.
    pub fn take(&mut self, range: VpnRange) -> Vec<(Region, u32)> {
        let first = self.by_start.range(..=range.start).next_back().map_or(range.start, |(s, _)| *s);
        let hit: Vec<Vpn> = self.by_start.range(first..range.end().max(first)).map(|(s, _)| *s).collect();
        let mut inside = Vec::new();
        self.version += 1;
        for start in hit {
            if !self.by_start[&start].range.overlaps(&range) {
                continue;
            }
            let region = self.by_start.remove(&start).expect("just listed");
            let before = region.cut(VpnRange::between(region.range.start, range.start));
            let after = region.cut(VpnRange::between(range.end(), region.range.end()));
            let rest = before.iter().chain(&after).count() as u32;
            let piece = region.cut(range).expect("they overlap");
            self.pages -= usable(&piece);
            inside.push((piece, rest));
            for rest in before.into_iter().chain(after) {
                self.by_start.insert(rest.range.start, rest);
            }
        }
        inside
    }

    /// Adds a region in a free range, joining it with neighbours that continue the same object with the same
    /// protection. Returns how many regions it was joined with.
    pub fn insert(&mut self, mut region: Region) -> u32 {
        self.pages += usable(&region);
        self.version += 1;
        let mut joined = 0;
        let continues = |a: &Region, b: &Region| {
            (a.prot, a.shared, a.object, a.label, a.advice) == (b.prot, b.shared, b.object, b.label, b.advice)
                && a.range.end() == b.range.start
                && a.first_page + a.range.pages == b.first_page
        };
        if let Some((&s, _)) =
            self.by_start.range(..region.range.start).next_back().filter(|(_, r)| continues(r, &region))
        {
            let before = self.by_start.remove(&s).expect("just found");
            region.range = VpnRange::between(before.range.start, region.range.end());
            region.first_page = before.first_page;
            joined += 1;
        }
        if self.by_start.get(&region.range.end()).is_some_and(|next| continues(&region, next)) {
            let after = self.by_start.remove(&region.range.end()).expect("just found");
            region.range = VpnRange::between(region.range.start, after.range.end());
            joined += 1;
        }
        debug_assert!(self.by_start.values().all(|r| !r.range.overlaps(&region.range)), "regions overlap");
        self.by_start.insert(region.range.start, region);
        joined
    }

    /// A number that changes with every change of them.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The largest that may be accessed at all, at most `most`; equal ones by address (ASA-1).
    pub fn largest(&self, most: usize) -> Vec<VpnRange> {
        let mut all: Vec<_> = self.iter().filter(|region| usable(region) > 0).map(|region| region.range).collect();
        all.sort_by_key(|range| (std::cmp::Reverse(range.pages), range.start));
        all.truncate(most);
        all
    }

    /// Regions that end behind a page, ascending.
    pub fn from(&self, first: Vpn) -> impl Iterator<Item = &Region> {
        let here = self.by_start.range(..=first).next_back().filter(|(_, region)| region.range.end() > first);
        self.by_start.range(here.map_or(first, |(&start, _)| start)..).map(|(_, region)| region)
    }

    /// All regions, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &Region> {
        self.by_start.values()
    }

    /// Pages in all regions that may be accessed at all.
    pub fn pages(&self) -> u64 {
        debug_assert_eq!(self.pages, self.iter().map(usable).sum::<u64>());
        self.pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: u64, pages: u64, object: u32, first_page: u64) -> Region {
        let range = VpnRange { start: Vpn(start), pages };
        Region {
            range,
            prot: Prot::RW,
            shared: false,
            object: ObjectId(object),
            first_page,
            label: 0,
            advice: HugeAdvice::None,
        }
    }

    #[test]
    fn taking_the_middle_leaves_both_ends() {
        let mut r = Regions::default();
        r.insert(region(10, 10, 1, 100));
        let middle = r.take(VpnRange { start: Vpn(13), pages: 4 });
        assert_eq!(middle, [(region(13, 4, 1, 103), 2)]);
        assert_eq!(r.iter().cloned().collect::<Vec<_>>(), [region(10, 3, 1, 100), region(17, 3, 1, 107)]);
        assert_eq!(r.insert(middle[0].0.clone()), 2);
        assert_eq!(r.iter().cloned().collect::<Vec<_>>(), [region(10, 10, 1, 100)]);
    }

    #[test]
    fn the_largest_come_first_and_guards_are_none() {
        let mut r = Regions::default();
        let before = r.version();
        r.insert(region(0, 4, 1, 0));
        r.insert(region(100, 8, 2, 0));
        r.insert(region(200, 8, 3, 0));
        r.insert(Region { prot: Prot::NONE, ..region(300, 99, 4, 0) });
        let of = |start, pages| VpnRange { start: Vpn(start), pages };
        assert_eq!(r.largest(2), [of(100, 8), of(200, 8)]);
        assert_eq!(r.largest(9).len(), 3);
        assert_ne!(r.version(), before);
    }

    #[test]
    fn regions_of_other_objects_stay_apart() {
        let mut r = Regions::default();
        r.insert(region(0, 4, 1, 0));
        assert_eq!(r.insert(region(4, 4, 2, 4)), 0);
        assert_eq!(r.insert(region(8, 4, 2, 9)), 0, "a gap in the object");
        assert_eq!(r.take(VpnRange { start: Vpn(3), pages: 2 }).len(), 2);
        assert!(r.find(Vpn(3)).is_none() && r.find(Vpn(5)).is_some());
        assert_eq!(r.pages(), 3 + 3 + 4);
    }
}
