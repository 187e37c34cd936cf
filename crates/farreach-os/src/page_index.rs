//! The page index of an object: which frame holds which of its pages. A run of consecutive pages in consecutive frames
//! takes no more room than one page, since eager paging, huge pages and segments make objects of terabytes.

use super::bits;
use farreach_types::addr::Pfn;
use std::collections::BTreeMap;
use std::ops::Range;

/// Where an object page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageLocation {
    /// A frame is held back for it; the number is its place in the order of reservations.
    Reserved(Pfn, u64),
    /// A frame holds it.
    Busy(Pfn),
}

/// Pages of a chunk: one word of bits.
const CHUNK: u64 = 64;

#[derive(Debug)]
enum Chunk {
    /// The pages of the set bits are busy, each in the frame `base` + its number in the chunk (wrapping).
    Run { base: u64, pages: u64 },
    /// Ascending.
    List(Vec<(u64, PageLocation)>),
}

/// The index.
#[derive(Debug, Default)]
pub struct PageIndex {
    chunks: BTreeMap<u64, Chunk>,
}

impl Chunk {
    fn get(&self, page: u64) -> Option<PageLocation> {
        let at = page % CHUNK;
        match self {
            Chunk::Run { base, pages } => {
                (pages >> at & 1 == 1).then(|| PageLocation::Busy(Pfn(base.wrapping_add(at))))
            }
            Chunk::List(list) => list.binary_search_by_key(&page, |s| s.0).ok().map(|i| list[i].1),
        }
    }

    /// As a list, which can hold pages that do not continue the run.
    fn list(&mut self, chunk: u64) -> &mut Vec<(u64, PageLocation)> {
        if let Chunk::Run { base, pages } = *self {
            let set = (0..CHUNK).filter(|at| pages >> at & 1 == 1);
            *self = Chunk::List(
                set.map(|at| (chunk * CHUNK + at, PageLocation::Busy(Pfn(base.wrapping_add(at))))).collect(),
            );
        }
        match self {
            Chunk::List(list) => list,
            Chunk::Run { .. } => unreachable!("it was just made a list"),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Chunk::Run { pages, .. } => *pages == 0,
            Chunk::List(list) => list.is_empty(),
        }
    }
}

impl PageIndex {
    /// Where a page is.
    pub fn get(&self, page: u64) -> Option<PageLocation> {
        self.chunks.get(&(page / CHUNK))?.get(page)
    }

    /// Whether some of these pages have frames.
    pub fn any_in(&self, pages: Range<u64>) -> bool {
        let inside = |(&chunk, here): (&u64, &Chunk)| match here {
            Chunk::Run { pages: set, .. } => {
                let first = pages.start.saturating_sub(chunk * CHUNK);
                let end = (pages.end - chunk * CHUNK).min(CHUNK);
                set & bits::mask(first, end - first) != 0
            }
            Chunk::List(list) => list.iter().any(|(page, _)| pages.contains(page)),
        };
        pages.start < pages.end && self.chunks.range(pages.start / CHUNK..pages.end.div_ceil(CHUNK)).any(inside)
    }

    /// Sets the location of a page. Returns the old one.
    pub fn insert(&mut self, page: u64, slot: PageLocation) -> Option<PageLocation> {
        let (chunk, at) = (page / CHUNK, page % CHUNK);
        let base = match slot {
            PageLocation::Busy(pfn) => Some(pfn.0.wrapping_sub(at)),
            PageLocation::Reserved(..) => None,
        };
        let here = self.chunks.entry(chunk).or_insert_with(|| match base {
            Some(base) => Chunk::Run { base, pages: 0 },
            None => Chunk::List(Vec::new()),
        });
        match here {
            Chunk::Run { base: own, pages } if base == Some(*own) => {
                let was = (*pages >> at & 1 == 1).then_some(slot);
                *pages |= 1 << at;
                was
            }
            here => {
                let list = here.list(chunk);
                match list.binary_search_by_key(&page, |s| s.0) {
                    Ok(i) => Some(std::mem::replace(&mut list[i].1, slot)),
                    Err(i) => {
                        list.insert(i, (page, slot));
                        None
                    }
                }
            }
        }
    }

    /// Gives pages without location consecutive frames.
    pub fn insert_run(&mut self, first: u64, pages: u64, pfn: Pfn) {
        let mut frame = pfn.0;
        for (chunk, at, n) in bits::groups(first, pages, CHUNK) {
            let base = frame.wrapping_sub(at);
            match self.chunks.entry(chunk).or_insert(Chunk::Run { base, pages: 0 }) {
                Chunk::Run { base: own, pages } if *own == base => {
                    debug_assert_eq!(*pages & bits::mask(at, n), 0, "a page has a frame already");
                    *pages |= bits::mask(at, n);
                }
                _ => (0..n).for_each(|i| _ = self.insert(chunk * CHUNK + at + i, PageLocation::Busy(Pfn(frame + i)))),
            }
            frame += n;
        }
    }

    /// Takes a page out.
    pub fn remove(&mut self, page: u64) -> Option<PageLocation> {
        let here = self.chunks.get_mut(&(page / CHUNK))?;
        let was = here.get(page)?;
        match here {
            Chunk::Run { pages, .. } => *pages &= !(1 << (page % CHUNK)),
            Chunk::List(list) => list.retain(|s| s.0 != page),
        }
        if here.is_empty() {
            self.chunks.remove(&(page / CHUNK));
        }
        Some(was)
    }

    /// Takes these pages out (with `busy_only`, only busy ones). Returns their locations in ascending order: runs of
    /// busy pages as first location and number, reserved pages one by one.
    pub fn drain(&mut self, pages: Range<u64>, busy_only: bool) -> Vec<(PageLocation, u64)> {
        let mut gone = Vec::new();
        if pages.start >= pages.end {
            return gone;
        }
        let hit: Vec<u64> =
            self.chunks.range(pages.start / CHUNK..pages.end.div_ceil(CHUNK)).map(|(chunk, _)| *chunk).collect();
        for chunk in hit {
            let here = self.chunks.get_mut(&chunk).expect("just listed");
            match here {
                Chunk::Run { base, pages: set } => {
                    let first = pages.start.saturating_sub(chunk * CHUNK);
                    let end = (pages.end - chunk * CHUNK).min(CHUNK);
                    let out = *set & bits::mask(first, end - first);
                    *set &= !out;
                    gone.extend(bits::runs(&[out]).map(|(at, n)| (PageLocation::Busy(Pfn(base.wrapping_add(at))), n)));
                }
                Chunk::List(list) => {
                    let goes = |(page, slot): &(u64, PageLocation)| {
                        pages.contains(page) && !(busy_only && matches!(slot, PageLocation::Reserved(..)))
                    };
                    gone.extend(list.iter().filter(|s| goes(s)).map(|&(_, slot)| (slot, 1)));
                    list.retain(|s| !goes(s));
                }
            }
            if here.is_empty() {
                self.chunks.remove(&chunk);
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaves_as_a_map() {
        let (mut slots, mut plain, mut x) = (PageIndex::default(), BTreeMap::new(), 1u64);
        let mut below = |n: u64| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (x >> 33) % n
        };
        for turn in 0..30_000 {
            let page = below(300);
            // Mostly frames in the order of pages, so that runs form, break and form again.
            let pfn = Pfn(if below(8) == 0 { below(1000) } else { 5000 + page });
            match below(10) {
                0..5 => {
                    assert_eq!(slots.insert(page, PageLocation::Busy(pfn)), plain.insert(page, PageLocation::Busy(pfn)))
                }
                5 => assert_eq!(
                    slots.insert(page, PageLocation::Reserved(pfn, turn)),
                    plain.insert(page, PageLocation::Reserved(pfn, turn))
                ),
                6 | 7 => assert_eq!(slots.remove(page), plain.remove(&page)),
                8 if !plain.range(page..page + 90).any(|_| true) => {
                    slots.insert_run(page, 90, Pfn(5000 + page));
                    plain.extend((page..page + 90).map(|p| (p, PageLocation::Busy(Pfn(5000 + p)))));
                }
                _ => {
                    let (pages, busy_only) = (page..page + below(120), below(2) == 0);
                    let goes = |p: &u64, s: &PageLocation| {
                        pages.contains(p) && !(busy_only && matches!(s, PageLocation::Reserved(..)))
                    };
                    let expected: Vec<PageLocation> =
                        plain.iter().filter(|(p, s)| goes(p, s)).map(|(_, s)| *s).collect();
                    plain.retain(|p, s| !goes(p, s));
                    let each = |(slot, n): (PageLocation, u64)| match slot {
                        PageLocation::Busy(pfn) => (0..n).map(|i| PageLocation::Busy(Pfn(pfn.0 + i))).collect(),
                        reserved => vec![reserved],
                    };
                    let gone: Vec<PageLocation> =
                        slots.drain(pages.clone(), busy_only).into_iter().flat_map(each).collect();
                    assert_eq!(gone, expected);
                }
            }
            let from = below(400);
            assert_eq!(slots.get(from), plain.get(&from).copied());
            let to = from + below(100);
            assert_eq!(slots.any_in(from..to), plain.range(from..to).next().is_some(), "{from}..{to}");
        }
        assert!(slots.chunks.values().all(|c| !c.is_empty()));
    }

    #[test]
    fn what_follows_each_other_takes_no_room() {
        let mut slots = PageIndex::default();
        slots.insert_run(10, 1 << 20, Pfn(77));
        assert_eq!(
            (slots.chunks.len(), slots.get(10 + 4097)),
            ((1 << 14) + 1, Some(PageLocation::Busy(Pfn(77 + 4097))))
        );
        assert!(slots.chunks.values().all(|c| matches!(c, Chunk::Run { .. })));
        assert!(slots.any_in(0..u64::MAX) && !slots.any_in(0..10));
        assert_eq!(slots.drain(0..u64::MAX, true).iter().map(|(_, n)| n).sum::<u64>(), 1 << 20);
        assert!(slots.chunks.is_empty());
    }
}
