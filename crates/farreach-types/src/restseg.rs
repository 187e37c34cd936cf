//! Restrictive segments (RestSegs, UTO-1): memory in which a page may lie only in the frames of one set, so that its
//! frame is known but for the way. The operating system places pages there; hardware finds them by their tags.

use crate::addr::{Asid, Pfn, Vpn};
use crate::hash::mix;

/// One RestSeg: sets of ways, for pages of one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RestSeg {
    /// Its first frame, aligned to its pages.
    pub first: Pfn,
    /// log2 of the base pages of its pages.
    pub order: u8,
    /// Sets, a power of two.
    pub sets: u64,
    /// Ways of a set.
    pub ways: u64,
    /// The seed of the hash (HW-11); none: the low bits of the page's number.
    pub mixed: Option<u64>,
}

/// A place in a RestSeg.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// The set.
    pub set: u64,
    /// Below the number of ways.
    pub way: u64,
}

impl RestSeg {
    /// Base frames.
    #[inline]
    pub fn frames(&self) -> u64 {
        (self.sets * self.ways) << self.order
    }

    /// The set of a page (UTO-1): h(v).
    #[inline]
    pub fn set(&self, asid: Asid, vpn: Vpn) -> u64 {
        let page = vpn.0 >> self.order;
        self.mixed.map_or(page, |seed| mix(u64::from(asid.0) << 52 ^ page, seed)) & (self.sets - 1)
    }

    /// The first base frame of a way: base + set · ways + way, in frames of its size.
    #[inline]
    pub fn frame(&self, Way { set, way }: Way) -> Pfn {
        Pfn(self.first.0 + ((set * self.ways + way) << self.order))
    }

    /// The way that a base frame is part of, if it lies in here.
    #[inline]
    pub fn way(&self, pfn: Pfn) -> Option<Way> {
        let at = pfn.0.checked_sub(self.first.0).filter(|at| *at < self.frames())? >> self.order;
        Some(Way { set: at / self.ways, way: at % self.ways })
    }
}

/// The RestSegs of a system with their tables in memory (UTO-2).
pub trait RestSegView {
    /// That of base pages and that of superpages, as far as the system has them.
    fn segs(&self) -> &[RestSeg];
    /// The tag of a way of the segment at this place, if it is valid (TAR): the first base page of the page that was
    /// placed there, and is mapped there. Others that share the memory have entries in their page tables.
    fn tag(&self, segment: usize, way: Way) -> Option<(Asid, Vpn)>;
    /// The valid tags of a set (SF).
    fn used(&self, segment: usize, set: u64) -> u64 {
        (0..self.segs()[segment].ways).filter(|way| self.tag(segment, Way { set, way: *way }).is_some()).count() as u64
    }
    /// Whether there are any.
    fn any_used(&self, segment: usize, set: u64) -> bool {
        (0..self.segs()[segment].ways).any(|way| self.tag(segment, Way { set, way }).is_some())
    }
    /// The place of the segment in which a page lies that is mapped so: one that is for leaves of this size, in the
    /// page's own set, under its own tag.
    fn holds(&self, (asid, vpn): (Asid, Vpn), pfn: Pfn, leaf: u8) -> Option<usize> {
        let first = vpn.align_down(leaf.into());
        self.segs().iter().enumerate().filter(|(_, segment)| segment.order == leaf).find_map(|(place, segment)| {
            let way = segment.way(pfn).filter(|way| way.set == segment.set(asid, vpn))?;
            (self.tag(place, way) == Some((asid, first))).then_some(place)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uto_1_a_page_has_the_frames_of_one_set() {
        for (order, mixed) in [(0, None), (9, None), (0, Some(7)), (9, Some(7))] {
            let segment = RestSeg { first: Pfn(1024), order, sets: 4, ways: 2, mixed };
            assert_eq!(segment.frames(), 8 << order);
            for way in (0..4).flat_map(|set| (0..2).map(move |way| Way { set, way })) {
                let frame = segment.frame(way);
                assert_eq!(frame.0, 1024 + ((way.set * 2 + way.way) << order));
                assert_eq!([segment.way(frame), segment.way(Pfn(frame.0 + (1 << order) - 1))], [Some(way); 2]);
            }
            assert_eq!([1023, 1024 + (8 << order)].map(|frame| segment.way(Pfn(frame))), [None; 2]);
        }
        let plain = RestSeg { first: Pfn(0), order: 9, sets: 4, ways: 2, mixed: None };
        assert_eq!([0, 511, 512, 5 * 512 + 3].map(|vpn| plain.set(Asid(1), Vpn(vpn))), [0, 0, 1, 1]);
        let mixed = RestSeg { mixed: Some(0), order: 0, sets: 64, ..plain };
        let sets: std::collections::BTreeSet<u64> = (0..64).map(|asid| mixed.set(Asid(asid), Vpn(0))).collect();
        assert!(sets.len() > 20, "processes have sets of their own");
    }
}
