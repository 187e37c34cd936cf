//! The report of pages that leave the filter of repeat hits, and the times of the last lookups.

use super::tag_index::Tag;
use farreach_types::addr::{Asid, Vpn};
use std::hint::select_unpredictable;

/// The pages that a design takes out of the *filter* of repeat hits.
///
/// A lookup may be filtered for a design if repeating it at once would be a hit that changes nothing in the design: no
/// counter but the number of lookups, no used bit, no recency, no modified bit. [`Tlb::access`](super::Tlb::access)
/// says whether the page may enter the filter for this kind of access; a store lets loads in, too. The page stays
/// there until the design reports it here. The machine counts filtered lookups and does not pass them on, so a design
/// that fails to report a page gives wrong counts: the tests run every design with and without the filter. Reporting
/// too many pages only costs time.
///
/// One exception saves most of that time. A design that clears used bits may leave its pages in the filter. When it
/// needs a used bit, it asks whether the pages of the entry were looked up since, if the machine keeps those times.
#[derive(Default, Debug)]
pub struct Noise {
    /// Groups of up to 64 pages from a base page on, as a bit mask.
    pub pages: Vec<(Asid, Vpn, u64)>,
    /// Every page.
    pub all: bool,
    /// Times of the last lookups, if the machine keeps them.
    pub marks: Option<Box<Marks>>,
    /// Whether the TLB that is accessed sees fetches, and whether it sees data.
    pub sees: [bool; 2],
}

impl Noise {
    /// These pages leave the filter: bit `i` of `mask` stands for page `base + i`.
    #[inline]
    pub fn pages(&mut self, asid: Asid, base: Vpn, mask: u64) {
        self.pages.push((asid, base, mask));
    }
    /// All pages leave the filter.
    #[inline]
    pub fn all(&mut self) {
        self.all = true;
    }
    /// Whether this page leaves the filter.
    pub fn names(&self, asid: Asid, vpn: Vpn) -> bool {
        let named = |&(of, base, mask): &(Asid, Vpn, u64)| {
            let offset = vpn.0.wrapping_sub(base.0);
            of == asid && offset < 64 && mask >> offset & 1 != 0
        };
        self.all || self.pages.iter().any(named)
    }
    /// Empties the report.
    #[inline]
    pub fn clear(&mut self) {
        self.pages.clear();
        self.all = false;
    }

    /// Used bits are cleared now. Returns the time to compare later lookups with. `None` without a clock: then the
    /// pages must be reported.
    pub(super) fn begin(&mut self) -> Option<u32> {
        self.marks.as_mut()?.begin()
    }
    /// The lookups at this time or later; `None` without a clock.
    #[inline(always)]
    pub(super) fn since(&self, when: u32) -> Option<Since<'_>> {
        let marks = self.marks.as_ref()?;
        let [data, fetch] = marks.when.as_chunks().0 else { unreachable!("there are two sides") };
        let seen = |side, sees| if sees { side } else { &UNSEEN };
        let (data, fetch) = (seen(data, self.sees[1]), seen(fetch, self.sees[0]));
        Some(Since { asid: marks.asid?, when, places: &marks.places, data, fetch })
    }
}

/// The lookups since a time that one TLB sees.
pub(super) struct Since<'m> {
    asid: Asid,
    when: u32,
    places: &'m [Place; PLACES],
    data: &'m [u32; PLACES],
    fetch: &'m [u32; PLACES],
}

impl Since<'_> {
    /// Whether any of these pages under a tag was looked up: bit `i` of `mask` stands for the `i`-th page.
    #[inline(always)]
    pub fn has(&self, tag: Tag, mut mask: u64) -> bool {
        if tag.asid() != self.asid {
            return false;
        }
        while mask != 0 {
            let vpn = tag.base().0 + u64::from(mask.trailing_zeros());
            let place = Marks::place(vpn);
            let [data, fetch] = &self.places[place].0;
            // The side is not predictable, so there are no branches. The time of another page is not read: it is rarely
            // cached.
            let last = |seat: &Seat, side: &[u32; PLACES]| *select_unpredictable(seat.vpn == vpn, &side[place], &UNSEEN[0]);
            if last(data, self.data).max(last(fetch, self.fetch)) >= self.when {
                return true;
            }
            mask &= mask - 1;
        }
        false
    }
}

const BITS: u32 = 12;
/// The shift of the hash: bits above [`BITS`] are folded in, and pages of one cache line stay together.
const FOLD: u32 = 9;
/// Slots of the table for each side.
pub const PLACES: usize = 1 << BITS;
/// The times of a side that the TLB does not see: no lookups.
static UNSEEN: [u32; PLACES] = [0; PLACES];
/// No page.
pub const NO_PAGE: u64 = u64::MAX;

/// A filter entry: what is known of a page on one side.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub struct Seat {
    /// The page, or [`NO_PAGE`].
    pub vpn: u64,
    /// For the machine: designs for which the page is filtered.
    pub designs: u64,
    /// For the machine: designs whose operating systems have nothing to do.
    pub systems: u64,
}

impl Seat {
    /// An entry without knowledge about the page.
    pub fn of(vpn: u64) -> Seat {
        Seat { vpn, designs: 0, systems: 0 }
    }
}

/// The two entries of a slot, data side and fetch side, in one cache line because they are used together.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Place(pub [Seat; 2]);

/// When pages were last looked up, by a clock that advances when used bits are cleared. A direct-mapped table over the
/// pages of one address space, with one half for data and one for fetches. Before a page loses its slot, all designs
/// get its last lookup ([`Tlb::note_lookup`](super::Tlb::note_lookup)).
pub struct Marks {
    /// The address space of the pages.
    pub asid: Option<Asid>,
    now: u32,
    /// The entries of each slot.
    pub places: Box<[Place; PLACES]>,
    /// Time of the last lookup by slot; 0: none.
    when: Box<[u32; 2 * PLACES]>,
}

/// Writes [`LookupTimes`] while the clock stands still.
pub struct Marking<'m> {
    now: u32,
    when: &'m mut [u32; 2 * PLACES],
}

impl Marking<'_> {
    /// As [`Marks::mark`].
    #[inline(always)]
    pub fn mark(&mut self, at: usize) {
        self.when[at % (2 * PLACES)] = self.now;
    }
}

impl std::fmt::Debug for Marks {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Marks").field("asid", &self.asid).field("now", &self.now).finish_non_exhaustive()
    }
}

/// A boxed array with `N` copies of a value.
pub fn filled<T: Clone, const N: usize>(value: T) -> Box<[T; N]> {
    let all: Box<[T]> = vec![value; N].into();
    all.try_into().unwrap_or_else(|_| unreachable!("N of them"))
}

impl Marks {
    /// Nothing marked.
    pub fn new() -> Marks {
        Marks { asid: None, now: 1, places: filled(Place([Seat::of(NO_PAGE); 2])), when: filled(0) }
    }

    /// The slot of a page on the data side, below [`SLOTS_PER_SIDE`]. Aligned 2^12 pages have different slots. Aligned
    /// 2^3 pages have theirs in one cache line, because a program mostly uses neighbours together. Regions 16 MB apart,
    /// such as stacks, do not share slots, nor do strides of a power of two up to 128 MB.
    #[inline(always)]
    pub fn place(vpn: u64) -> usize {
        (vpn ^ vpn >> FOLD) as usize % PLACES
    }
    /// Notes a lookup of the page in this slot.
    #[inline(always)]
    pub fn mark(&mut self, at: usize) {
        self.fast().mark(at);
    }
    /// A writer for many lookups while the clock stands still.
    #[inline(always)]
    pub fn fast(&mut self) -> Marking<'_> {
        Marking { now: self.now, when: &mut self.when }
    }
    /// The entry of this slot, on either side.
    #[inline(always)]
    pub fn seat(&self, at: usize) -> &Seat {
        &self.places[at % PLACES].0[at / PLACES % 2]
    }
    /// See [`Marks::seat`].
    #[inline(always)]
    pub fn seat_mut(&mut self, at: usize) -> &mut Seat {
        &mut self.places[at % PLACES].0[at / PLACES % 2]
    }
    /// Time of the last lookup of a page in this slot; 0 if the page is not there or was not looked up.
    #[inline]
    pub fn last(&self, at: usize, vpn: u64) -> u32 {
        if self.seat(at).vpn == vpn { self.when[at] } else { 0 }
    }
    /// Gives a slot to a page. Returns the page that had it, with its last lookup, if there was one.
    pub fn take(&mut self, at: usize, vpn: u64) -> Option<(u64, u32)> {
        let former = std::mem::replace(self.seat_mut(at), Seat::of(vpn)).vpn;
        let when = std::mem::replace(&mut self.when[at], 0);
        (former != NO_PAGE && when > 0).then_some((former, when))
    }

    /// Advances the clock. `None` at its end, where times can no longer be compared.
    fn begin(&mut self) -> Option<u32> {
        self.now = self.now.checked_add(1).filter(|&now| now < u32::MAX)?;
        Some(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_counts_from_its_time_on_and_for_its_side() {
        let mut noise = Noise { marks: Some(Box::new(Marks::new())), sees: [false, true], ..Noise::default() };
        let (asid, vpn) = (Asid(1), 9);
        let (tag, others) = (Tag::of(asid, Vpn(8), 1), Tag::of(Asid(2), Vpn(8), 1));
        let [data, fetch] = [0, PLACES].map(|side| Marks::place(vpn) + side);
        let has = |noise: &Noise, since, tag, mask| noise.since(since).unwrap().has(tag, mask);
        let first = noise.begin().unwrap();
        let marks = noise.marks.as_mut().unwrap();
        marks.asid = Some(asid);
        assert_eq!((marks.take(data, vpn), marks.take(fetch, vpn)), (None, None));
        marks.mark(fetch);
        assert!(!has(&noise, first, tag, 0b10), "fetches are another TLB's");
        noise.marks.as_mut().unwrap().mark(data);
        assert!(has(&noise, first, tag, 0b10) && has(&noise, first, tag, 0b11));
        assert!(!has(&noise, first, tag, 0b01) && !has(&noise, first, others, 0b10));
        let second = noise.begin().unwrap();
        assert!(has(&noise, first, tag, 0b10) && !has(&noise, second, tag, 0b10));
        let marks = noise.marks.as_mut().unwrap();
        assert_eq!(marks.take(data, vpn + 1), Some((vpn, first)));
        assert_eq!(marks.take(data, vpn), None, "the other was not looked up");
    }

    #[test]
    fn neighbours_have_places_of_their_own_and_strides_spread() {
        let distinct =
            |pages: &mut dyn Iterator<Item = u64>| pages.map(Marks::place).collect::<std::collections::BTreeSet<_>>().len();
        for base in [0x400, 0x5_5555_5000, 0x7_ffff_f000, 0xf_ffff_8000_0000] {
            let group = base & !(PLACES as u64 - 1);
            assert_eq!(distinct(&mut (group..group + PLACES as u64)), PLACES, "{base:#x}");
            let line = |vpn| Marks::place(vpn) / 8;
            assert!((group..group + PLACES as u64).all(|vpn| line(vpn) == line(vpn & !7)), "{base:#x}");
            assert_eq!(
                distinct(&mut (0..64).flat_map(|i| (0..8).map(move |page| group + (i << BITS) + page))),
                512,
                "{base:#x}"
            );
            for order in 1..=15 {
                let strided = distinct(&mut (0..64).map(|i| base + (i << order)));
                assert_eq!(strided, 64, "pages from {base:#x} on, 2^{order} apart");
            }
        }
    }

    #[test]
    fn the_clock_ends_without_a_lie() {
        let mut marks = Marks { now: u32::MAX - 2, ..Marks::new() };
        assert_eq!((marks.begin(), marks.begin()), (Some(u32::MAX - 1), None));
    }
}
