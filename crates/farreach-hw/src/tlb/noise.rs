//! How designs and the machine agree on which lookups need not be passed on.

use super::tag_index::Tag;
use farreach_types::addr::{Asid, Vpn};
use std::hint::select_unpredictable;

/// Which pages a design can no longer answer *quietly*.
///
/// A lookup is quiet when repeating it right away would be a hit that changes nothing in the design: no counter but the
/// number of lookups, no used bit, no recency, no modified bit. After each [`Tlb::access`](super::Tlb::access) the page just
/// accessed is quiet for that kind of access (a store also makes loads quiet) if `access` says so; it stays quiet until the design
/// names it here. The machine skips quiet lookups, so a design that forgets to name a page gives wrong counts: the tests run every
/// design with and without skipping. Naming too many pages only costs time.
///
/// One exception saves most of that time: a design that clears used bits may leave the pages quiet and look at the moment it needs
/// a used bit whether the pages of the entry were looked up since, if the machine keeps track of that.
#[derive(Default, Debug)]
pub struct Noise {
    /// Groups of up to 64 pages from a base page on, as a bit mask.
    pub pages: Vec<(Asid, Vpn, u64)>,
    /// Every page.
    pub all: bool,
    /// Last lookups, if the machine keeps them.
    pub marks: Option<Box<Marks>>,
    /// Whether the TLB at work sees the fetches, and whether it sees the data.
    pub sees: [bool; 2],
}

impl Noise {
    /// Lookups of these pages are quiet no more: bit `i` of `mask` stands for page `base + i`.
    #[inline]
    pub fn pages(&mut self, asid: Asid, base: Vpn, mask: u64) {
        self.pages.push((asid, base, mask));
    }
    /// No lookup is quiet any more.
    #[inline]
    pub fn all(&mut self) {
        self.all = true;
    }
    /// Whether lookups of this page are quiet no more.
    pub fn names(&self, asid: Asid, vpn: Vpn) -> bool {
        let named = |&(of, base, mask): &(Asid, Vpn, u64)| {
            let offset = vpn.0.wrapping_sub(base.0);
            of == asid && offset < 64 && mask >> offset & 1 != 0
        };
        self.all || self.pages.iter().any(named)
    }
    /// Forgets what was named.
    #[inline]
    pub fn clear(&mut self) {
        self.pages.clear();
        self.all = false;
    }

    /// Used bits are cleared now. The time to compare later lookups with; `None` if nobody keeps them, so that the pages must be named.
    pub(super) fn begin(&mut self) -> Option<u32> {
        self.marks.as_mut()?.begin()
    }
    /// The lookups at this time or after it; `None` if nobody keeps them.
    #[inline(always)]
    pub(super) fn since(&self, when: u32) -> Option<Since<'_>> {
        let marks = self.marks.as_ref()?;
        let [data, fetch] = marks.when.as_chunks().0 else { unreachable!("there are two sides") };
        let seen = |side, sees| if sees { side } else { &UNSEEN };
        let (data, fetch) = (seen(data, self.sees[1]), seen(fetch, self.sees[0]));
        Some(Since { asid: marks.asid?, when, places: &marks.places, data, fetch })
    }
}

/// Lookups from a time on, of what one TLB sees.
pub(super) struct Since<'m> {
    asid: Asid,
    when: u32,
    places: &'m [Place; PLACES],
    data: &'m [u32; PLACES],
    fetch: &'m [u32; PLACES],
}

impl Since<'_> {
    /// Whether there is one of these pages under a tag: bit `i` of `mask` stands for the `i`-th.
    #[inline(always)]
    pub fn has(&self, tag: Tag, mut mask: u64) -> bool {
        if tag.asid() != self.asid {
            return false;
        }
        while mask != 0 {
            let vpn = tag.base().0 + u64::from(mask.trailing_zeros());
            let place = Marks::place(vpn);
            let [data, fetch] = &self.places[place].0;
            // Nobody can foresee which it is, so no branches; and no look at what is not the page's, which is rarely in the cache.
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
/// Page numbers are folded by so many bits: those above [`BITS`] count, and what is in one line of the cache stays together.
const FOLD: u32 = 9;
/// Pages that [`Marks`] knows of each side, at most.
pub const PLACES: usize = 1 << BITS;
/// The last lookups on a side that is not seen: none.
static UNSEEN: [u32; PLACES] = [0; PLACES];
/// No page.
pub const NO_PAGE: u64 = u64::MAX;

/// What is known of a page, seen from one side.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub struct Seat {
    /// The page, or [`NO_PAGE`].
    pub vpn: u64,
    /// The machine's own: designs that answer quietly.
    pub designs: u64,
    /// The machine's own: designs whose operating systems have nothing to do.
    pub systems: u64,
}

impl Seat {
    /// Of this page nothing is known.
    pub fn of(vpn: u64) -> Seat {
        Seat { vpn, designs: 0, systems: 0 }
    }
}

/// A place of [`Marks`]: data side, fetch side. What is looked at together lies in one line of the cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Place(pub [Seat; 2]);

/// When pages were last looked up, by a clock that advances when used bits are cleared. A direct-mapped table over the pages of one
/// address space, one half for the data side, one for fetches. Whoever takes a place from a page first tells all designs
/// ([`Tlb::looked_up`](super::Tlb::looked_up)).
pub struct Marks {
    /// Whose pages these are.
    pub asid: Option<Asid>,
    now: u32,
    /// The pages at each place.
    pub places: Box<[Place; PLACES]>,
    /// Its last lookup; 0: none.
    when: Box<[u32; 2 * PLACES]>,
}

/// [`Marks`] for a while in which nothing but lookups happens.
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

/// A table of `N` times this.
pub fn filled<T: Clone, const N: usize>(value: T) -> Box<[T; N]> {
    let all: Box<[T]> = vec![value; N].into();
    all.try_into().unwrap_or_else(|_| unreachable!("N of them"))
}

impl Marks {
    /// Nothing marked.
    pub fn new() -> Marks {
        Marks { asid: None, now: 1, places: filled(Place([Seat::of(NO_PAGE); 2])), when: filled(0) }
    }

    /// Place of a page on the data side; below [`PLACES`]. All pages of 2^12 that are aligned have places of their own, and 2^3 that are aligned
    /// have theirs in one line of the cache, as what a program uses together is mostly near together. Regions 16 MB apart, stacks say, do not meet in
    /// the same places, nor do strides of a power of two up to 128 MB.
    #[inline(always)]
    pub fn place(vpn: u64) -> usize {
        (vpn ^ vpn >> FOLD) as usize % PLACES
    }
    /// A lookup of the page at this place.
    #[inline(always)]
    pub fn mark(&mut self, at: usize) {
        self.fast().mark(at);
    }
    /// For many lookups while the clock stands.
    #[inline(always)]
    pub fn fast(&mut self) -> Marking<'_> {
        Marking { now: self.now, when: &mut self.when }
    }
    /// The seat at this place, of either side.
    #[inline(always)]
    pub fn seat(&self, at: usize) -> &Seat {
        &self.places[at % PLACES].0[at / PLACES % 2]
    }
    /// See [`Marks::seat`].
    #[inline(always)]
    pub fn seat_mut(&mut self, at: usize) -> &mut Seat {
        &mut self.places[at % PLACES].0[at / PLACES % 2]
    }
    /// Last lookup of this page at its place, 0 if it is not there or was not looked up.
    #[inline]
    pub fn last(&self, at: usize, vpn: u64) -> u32 {
        if self.seat(at).vpn == vpn { self.when[at] } else { 0 }
    }
    /// Gives a place to a page, of which nothing is known then, and returns who had it with its last lookup, unless nobody did.
    pub fn take(&mut self, at: usize, vpn: u64) -> Option<(u64, u32)> {
        let former = std::mem::replace(self.seat_mut(at), Seat::of(vpn)).vpn;
        let when = std::mem::replace(&mut self.when[at], 0);
        (former != NO_PAGE && when > 0).then_some((former, when))
    }

    /// The clock advances. At its end nothing can be told apart any more.
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
