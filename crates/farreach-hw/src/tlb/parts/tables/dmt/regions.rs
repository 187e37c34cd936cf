//! Regions of mapped pages, and the arrays of their entries (DM-1, DM-3 to DM-5).

use super::super::Mapping;
use super::super::memory::{BYTES, BYTES_MOST, CONTIGUOUS, MOVES, RESIZES, gave};
use super::PTE;
use farreach_types::addr::{Asid, BASE_SHIFT, Vpn};
use farreach_types::counts::OwnCounts;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Regions are one if the pages between them are fewer than their pages divided by this, which are 2 % (DM-5).
const CLOSE: u64 = 50;

/// log2 of the base pages of a superpage that has an array.
const LARGE: u8 = 9;

/// A region, of which the first page is known.
#[derive(Clone, Copy)]
pub(super) struct Region {
    /// One past its last page.
    end: u64,
    /// Mapped base pages, those of superpages included.
    pages: u64,
    /// Mapped superpages.
    large: u64,
    /// The addresses of the arrays: of pages, and of superpages if there are any.
    arrays: [Option<u64>; 2],
}

impl Region {
    /// Addresses of the entries of a page: as a base page, and if there are superpages as one.
    pub fn entries(&self, first: u64, vpn: Vpn) -> (u64, Option<u64>) {
        let [pages, large] = self.arrays;
        let page = pages.expect("each region has an array") + PTE * (vpn.0 - first);
        (page, large.map(|large| large + PTE * ((vpn.0 >> LARGE) - (first >> LARGE))))
    }

    /// Bytes of each array, in whole frames.
    fn bytes(&self, first: u64) -> [u64; 2] {
        let entries = [self.end - first, ((self.end - 1) >> LARGE) - (first >> LARGE) + 1];
        entries.map(|many| (many * PTE).next_multiple_of(1 << BASE_SHIFT))
    }

    /// Entries in use of each array.
    fn used(&self) -> [u64; 2] {
        [self.pages - (self.large << LARGE), self.large]
    }
}

/// All regions.
pub(super) struct Regions {
    /// By process and first page.
    regions: BTreeMap<(Asid, u64), Region>,
    /// The largest of a process first, and of equal ones the lowest.
    ranking: BTreeSet<(Asid, Reverse<u64>, u64)>,
    /// Frames of arrays: first byte, and one past the last.
    frames: BTreeMap<u64, u64>,
    /// Above all frames that were ever used.
    next: u64,
}

impl Regions {
    /// Their arrays lie above this address.
    pub fn above(address: u64) -> Regions {
        Regions { regions: BTreeMap::new(), ranking: BTreeSet::new(), frames: BTreeMap::new(), next: address }
    }

    /// The region of a page, with its first page.
    pub fn of(&self, asid: Asid, vpn: Vpn) -> Option<(u64, &Region)> {
        let (&(of, first), region) = self.regions.range(..=(asid, vpn.0)).next_back()?;
        (of == asid && vpn.0 < region.end).then_some((first, region))
    }

    /// Whether the region is among this many of the largest of the process (DM-1).
    pub fn is_among(&self, many: usize, asid: Asid, first: u64, region: &Region) -> bool {
        let largest = (asid, Reverse(u64::MAX), 0);
        self.ranking.range(largest..(asid, Reverse(region.pages), first)).take(many).count() < many
    }

    fn put(&mut self, asid: Asid, first: u64, region: Region) {
        self.regions.insert((asid, first), region);
        self.ranking.insert((asid, Reverse(region.pages), first));
    }

    fn take(&mut self, asid: Asid, first: u64) -> Region {
        let region = self.regions.remove(&(asid, first)).expect("it is there");
        self.ranking.remove(&(asid, Reverse(region.pages), first));
        region
    }

    /// A page or superpage is mapped.
    pub fn map(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        let Mapping { asid, vpn, order } = mapping;
        let (mut first, large) = (vpn.0, u64::from(order == LARGE));
        let mut region = Region { end: first + (1 << order), pages: 1 << order, large, arrays: [None; 2] };
        while let Some(other) = self.close(asid, first, &region) {
            let of = self.take(asid, other);
            let (pages, large) = (region.pages + of.pages, region.large + of.large);
            let joined = Region { end: region.end.max(of.end), pages, large, arrays: [None; 2] };
            // The arrays of the lower one grow; those of the other are moved into them.
            let (low, high) = if other < first || region.arrays[0].is_none() {
                ((other, of), (first, region))
            } else {
                ((first, region), (other, of))
            };
            first = first.min(other);
            region = self.join(first, joined, low, high, own);
        }
        for i in 0..=usize::from(region.large > 0) {
            if region.arrays[i].is_none() {
                region.arrays[i] = Some(self.allocate(region.bytes(first)[i], own));
            }
        }
        self.put(asid, first, region);
    }

    /// The region that this one is to be joined to, the lower first.
    fn close(&self, asid: Asid, first: u64, region: &Region) -> Option<u64> {
        let below = self.regions.range((asid, 0)..(asid, first)).next_back();
        let above = self.regions.range((asid, first)..=(asid, u64::MAX)).next();
        let apart = |of: u64, other: &Region| of.saturating_sub(region.end) + first.saturating_sub(other.end);
        let is_close = |of: u64, other: &Region| {
            let gap = apart(of, other);
            gap == 0 || gap * CLOSE < region.pages + other.pages
        };
        let near = [below, above].into_iter().flatten();
        { near }.find(|((_, of), other)| is_close(*of, other)).map(|((_, of), _)| *of)
    }

    /// Joins two regions to one. The arrays of `kept` grow, or all entries move.
    fn join(
        &mut self,
        first: u64,
        mut joined: Region,
        kept: (u64, Region),
        other: (u64, Region),
        own: &mut OwnCounts,
    ) -> Region {
        for i in 0..2 {
            let bytes = joined.bytes(first)[i];
            let mut moves = 0;
            if let Some(at) = other.1.arrays[i] {
                moves += other.1.used()[i];
                self.release(at, other.1.bytes(other.0)[i], own);
            }
            if let Some(at) = kept.1.arrays[i] {
                let before = kept.1.bytes(kept.0)[i];
                // The index of the first entry stays only if the first page does, or that of superpages.
                let shifts = if i == 0 { first != kept.0 } else { first >> LARGE != kept.0 >> LARGE };
                *own.at(RESIZES) += u64::from(shifts || bytes > before);
                joined.arrays[i] = Some(if !shifts && (bytes == before || self.grow(at, before, bytes, own)) {
                    at
                } else {
                    moves += kept.1.used()[i];
                    let new = self.allocate(bytes, own);
                    self.release(at, before, own);
                    new
                });
            }
            *own.at(MOVES) += moves;
        }
        joined
    }

    /// A page or superpage is not mapped any more. A region keeps its arrays until it has no page, and that of
    /// superpages until it has none.
    pub fn unmap(&mut self, mapping: Mapping, own: &mut OwnCounts) {
        let Mapping { asid, vpn, order } = mapping;
        let (first, _) = self.of(asid, vpn).expect("it has the mapping");
        let mut region = self.take(asid, first);
        region.pages -= 1 << order;
        region.large -= u64::from(order == LARGE);
        let bytes = region.bytes(first);
        for (i, is_empty) in [region.pages == 0, region.large == 0].into_iter().enumerate() {
            if is_empty && let Some(at) = region.arrays[i].take() {
                self.release(at, bytes[i], own);
            }
        }
        if region.pages > 0 {
            self.put(asid, first, region);
        }
    }

    fn allocate(&mut self, bytes: u64, own: &mut OwnCounts) -> u64 {
        let at = self.next;
        self.next += bytes;
        self.frames.insert(at, at + bytes);
        count(own, bytes, bytes);
        at
    }

    fn release(&mut self, at: u64, bytes: u64, own: &mut OwnCounts) {
        let end = self.frames.remove(&at);
        debug_assert_eq!(end, Some(at + bytes));
        gave(own, bytes);
    }

    /// Grows an array in place, if the frames behind it are free (DM-4).
    fn grow(&mut self, at: u64, before: u64, bytes: u64, own: &mut OwnCounts) -> bool {
        let is_free = self.frames.range(at + 1..).next().is_none_or(|(&next, _)| next >= at + bytes);
        if is_free {
            self.frames.insert(at, at + bytes);
            self.next = self.next.max(at + bytes);
            count(own, bytes - before, bytes);
        }
        is_free
    }

    /// Bytes of all arrays.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.frames.iter().map(|(at, end)| end - at).sum()
    }

    /// Panics if it does not have exactly these mappings.
    pub fn check<'a>(&self, mappings: impl Iterator<Item = &'a Mapping>) {
        let mut pages = 0;
        for mapping in mappings {
            let (_, region) = self.of(mapping.asid, mapping.vpn).expect("it has a region");
            assert!(mapping.vpn.0 + (1 << mapping.order) <= region.end, "{mapping:?}");
            assert!(mapping.order == 0 || region.arrays[1].is_some(), "DM-3: {mapping:?}");
            pages += 1 << mapping.order;
        }
        assert_eq!(self.regions.values().map(|region| region.pages).sum::<u64>(), pages);
        assert_eq!(self.regions.len(), self.ranking.len());
        for (&(_, first), region) in &self.regions {
            for (at, bytes) in region.arrays.into_iter().zip(region.bytes(first)) {
                assert!(at.is_none_or(|at| self.frames.get(&at) == Some(&(at + bytes))));
            }
        }
        assert!(self.frames.iter().zip(self.frames.iter().skip(1)).all(|((_, end), (next, _))| end <= next));
    }
}

/// Memory was taken, of an array that has this many bytes now.
fn count(own: &mut OwnCounts, taken: u64, bytes: u64) {
    *own.at(CONTIGUOUS) = (*own.at(CONTIGUOUS)).max(bytes);
    *own.at(BYTES) += taken;
    *own.at(BYTES_MOST) = (*own.at(BYTES_MOST)).max(*own.at(BYTES));
}
