//! The machine's side of the filter: its table, with the times of the last lookups.
//!
//! Clearing used bits would take all pages of a design out of the filter. Instead the pages may stay there, and the
//! store of the design asks, when it needs a used bit, whether the pages of the entry were looked up since it was
//! cleared. The table belongs to the machine. It is in this crate because the store reads it while it chooses a victim,
//! where a call into another crate would be slow. Designs do not see it: a design gets an [`Unfiltered`], and only
//! [`TimedReport`], which the machine owns, gives access to the times.

use super::Unfiltered;
use farreach_types::addr::{Asid, Vpn};
use std::hint::select_unpredictable;

/// A report together with the times that belong to it.
#[derive(Debug)]
pub struct TimedReport(Unfiltered);

impl TimedReport {
    /// An empty report, and no lookups.
    pub fn new() -> TimedReport {
        TimedReport(Unfiltered { times: Some(Box::new(LookupTimes::default())), ..Unfiltered::default() })
    }
    /// The report, for a design.
    #[inline(always)]
    pub fn report(&mut self) -> &mut Unfiltered {
        &mut self.0
    }
    /// The times.
    #[inline(always)]
    pub fn times(&self) -> &LookupTimes {
        self.0.times.as_ref().expect("made with the report")
    }
    /// See [`TimedReport::times`].
    #[inline(always)]
    pub fn times_mut(&mut self) -> &mut LookupTimes {
        self.0.times.as_mut().expect("made with the report")
    }
    /// Whether every page leaves the filter, which pages do, and the times.
    #[inline(always)]
    pub fn parts(&mut self) -> (bool, &[(Asid, Vpn, u64)], &mut LookupTimes) {
        let Unfiltered { pages, all, times, .. } = &mut self.0;
        (*all, pages, times.as_mut().expect("made with the report"))
    }
}

impl Default for TimedReport {
    fn default() -> TimedReport {
        TimedReport::new()
    }
}

/// The lookups since a time that one TLB sees.
pub(in crate::tlb) struct LookupsSince<'m> {
    asid: Asid,
    when: u32,
    entries: &'m [FilterEntryPair; SLOTS_PER_SIDE],
    data: &'m [u32; SLOTS_PER_SIDE],
    fetch: &'m [u32; SLOTS_PER_SIDE],
}

impl LookupsSince<'_> {
    /// Whether any of these pages was looked up: bit `i` of `mask` stands for page `base + i`.
    #[inline(always)]
    pub fn contains_any(&self, asid: Asid, base: Vpn, mut mask: u64) -> bool {
        if asid != self.asid {
            return false;
        }
        while mask != 0 {
            let vpn = base.0 + u64::from(mask.trailing_zeros());
            let hash = LookupTimes::hash(vpn);
            let [data, fetch] = &self.entries[hash].0;
            // The side is not predictable, so there are no branches. The time of another page is not read: it is rarely
            // cached.
            let last = |entry: &FilterEntry, side: &[u32; SLOTS_PER_SIDE]| {
                *select_unpredictable(entry.vpn == vpn, &side[hash], &UNSEEN[0])
            };
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
pub const SLOTS_PER_SIDE: usize = 1 << BITS;
/// The times of a side that the TLB does not see: no lookups.
static UNSEEN: [u32; SLOTS_PER_SIDE] = [0; SLOTS_PER_SIDE];
/// No page.
pub const NO_PAGE: u64 = u64::MAX;

/// A filter entry: the state of a page on one side.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub struct FilterEntry {
    /// The page, or [`NO_PAGE`].
    pub vpn: u64,
    /// For the machine: designs for which the page is filtered.
    pub designs: u64,
    /// For the machine: designs whose operating systems have nothing to do.
    pub systems: u64,
}

impl FilterEntry {
    /// An entry with nothing filtered.
    pub fn of(vpn: u64) -> FilterEntry {
        FilterEntry { vpn, designs: 0, systems: 0 }
    }
}

/// The two entries of a slot, data side and fetch side, in one cache line because they are used together.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct FilterEntryPair(pub [FilterEntry; 2]);

/// When pages were last looked up, by a clock that advances when used bits are cleared. A direct-mapped table over the
/// pages of one address space, with one half for data and one for fetches. Before a page loses its slot, all designs
/// get its last lookup ([`UsedBits::note_lookup`](crate::tlb::UsedBits::note_lookup)).
pub struct LookupTimes {
    /// The address space of the pages.
    pub asid: Option<Asid>,
    now: u32,
    /// The entries of each slot.
    pub entries: Box<[FilterEntryPair; SLOTS_PER_SIDE]>,
    /// Time of the last lookup by slot; 0: none.
    when: Box<[u32; 2 * SLOTS_PER_SIDE]>,
}

/// Writes [`LookupTimes`] while the clock stands still.
pub struct LookupStamper<'m> {
    now: u32,
    when: &'m mut [u32; 2 * SLOTS_PER_SIDE],
}

impl LookupStamper<'_> {
    /// As [`LookupTimes::stamp`].
    #[inline(always)]
    pub fn stamp(&mut self, at: usize) {
        self.when[at % (2 * SLOTS_PER_SIDE)] = self.now;
    }
}

impl std::fmt::Debug for LookupTimes {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("LookupTimes").field("asid", &self.asid).field("now", &self.now).finish_non_exhaustive()
    }
}

/// A boxed array with `N` copies of a value.
pub fn filled<T: Clone, const N: usize>(value: T) -> Box<[T; N]> {
    let all: Box<[T]> = vec![value; N].into();
    all.try_into().unwrap_or_else(|_| unreachable!("N of them"))
}

impl Default for LookupTimes {
    /// A table without lookups.
    fn default() -> LookupTimes {
        LookupTimes {
            asid: None,
            now: 1,
            entries: filled(FilterEntryPair([FilterEntry::of(NO_PAGE); 2])),
            when: filled(0),
        }
    }
}

impl LookupTimes {
    /// The slot of a page on the data side, below [`SLOTS_PER_SIDE`]. Aligned 2^12 pages have different slots. Aligned
    /// 2^3 pages have theirs in one cache line, because a program mostly uses neighbours together. Regions 16 MB apart,
    /// such as stacks, do not share slots, nor do strides of a power of two up to 128 MB.
    #[inline(always)]
    pub fn hash(vpn: u64) -> usize {
        (vpn ^ vpn >> FOLD) as usize % SLOTS_PER_SIDE
    }
    /// Notes a lookup of the page in this slot.
    #[inline(always)]
    pub fn stamp(&mut self, at: usize) {
        self.stamper().stamp(at);
    }
    /// A writer for many lookups while the clock stands still.
    #[inline(always)]
    pub fn stamper(&mut self) -> LookupStamper<'_> {
        LookupStamper { now: self.now, when: &mut self.when }
    }
    /// The entry of this slot, on either side.
    #[inline(always)]
    pub fn entry(&self, at: usize) -> &FilterEntry {
        &self.entries[at % SLOTS_PER_SIDE].0[at / SLOTS_PER_SIDE % 2]
    }
    /// See [`LookupTimes::entry`].
    #[inline(always)]
    pub fn entry_mut(&mut self, at: usize) -> &mut FilterEntry {
        &mut self.entries[at % SLOTS_PER_SIDE].0[at / SLOTS_PER_SIDE % 2]
    }
    /// Time of the last lookup of a page in this slot; 0 if the page does not have the slot or was not looked up.
    #[inline]
    pub fn last_lookup(&self, at: usize, vpn: u64) -> u32 {
        if self.entry(at).vpn == vpn { self.when[at] } else { 0 }
    }
    /// Gives a slot to a page. Returns the page that had it, with its last lookup, if there was one.
    pub fn replace(&mut self, at: usize, vpn: u64) -> Option<(u64, u32)> {
        let former = std::mem::replace(self.entry_mut(at), FilterEntry::of(vpn)).vpn;
        let when = std::mem::replace(&mut self.when[at], 0);
        (former != NO_PAGE && when > 0).then_some((former, when))
    }

    /// The lookups at this time or later that a TLB sees which sees fetches or not, data or not.
    #[inline(always)]
    pub(super) fn since(&self, when: u32, sees: [bool; 2]) -> Option<LookupsSince<'_>> {
        let [data, fetch] = self.when.as_chunks().0 else { unreachable!("there are two sides") };
        let seen = |side, sees| if sees { side } else { &UNSEEN };
        let (data, fetch) = (seen(data, sees[1]), seen(fetch, sees[0]));
        Some(LookupsSince { asid: self.asid?, when, entries: &self.entries, data, fetch })
    }

    /// Advances the clock. `None` when it overflows, after which times can no longer be compared.
    pub(super) fn advance_clock(&mut self) -> Option<u32> {
        self.now = self.now.checked_add(1).filter(|&now| now < u32::MAX)?;
        Some(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_counts_from_its_time_on_and_for_its_side() {
        let mut timed = TimedReport::new();
        timed.report().clear_for([false, true]);
        let (asid, vpn) = (Asid(1), 9);
        let [data, fetch] = [0, SLOTS_PER_SIDE].map(|side| LookupTimes::hash(vpn) + side);
        let has = |timed: &mut TimedReport, since, asid, mask| {
            timed.report().lookups_since(since).unwrap().contains_any(asid, Vpn(8), mask)
        };
        let first = timed.report().advance_clock().unwrap();
        let times = timed.times_mut();
        times.asid = Some(asid);
        assert_eq!((times.replace(data, vpn), times.replace(fetch, vpn)), (None, None));
        times.stamp(fetch);
        assert!(!has(&mut timed, first, asid, 0b10), "fetches are another TLB's");
        timed.times_mut().stamp(data);
        assert!(has(&mut timed, first, asid, 0b10) && has(&mut timed, first, asid, 0b11));
        assert!(!has(&mut timed, first, asid, 0b01) && !has(&mut timed, first, Asid(2), 0b10));
        let second = timed.report().advance_clock().unwrap();
        assert!(has(&mut timed, first, asid, 0b10) && !has(&mut timed, second, asid, 0b10));
        let times = timed.times_mut();
        assert_eq!(times.replace(data, vpn + 1), Some((vpn, first)));
        assert_eq!(times.replace(data, vpn), None, "the other was not looked up");
    }

    #[test]
    fn neighbours_have_places_of_their_own_and_strides_spread() {
        let distinct = |pages: &mut dyn Iterator<Item = u64>| {
            pages.map(LookupTimes::hash).collect::<std::collections::BTreeSet<_>>().len()
        };
        for base in [0x400, 0x5_5555_5000, 0x7_ffff_f000, 0xf_ffff_8000_0000] {
            let group = base & !(SLOTS_PER_SIDE as u64 - 1);
            assert_eq!(distinct(&mut (group..group + SLOTS_PER_SIDE as u64)), SLOTS_PER_SIDE, "{base:#x}");
            let line = |vpn| LookupTimes::hash(vpn) / 8;
            assert!((group..group + SLOTS_PER_SIDE as u64).all(|vpn| line(vpn) == line(vpn & !7)), "{base:#x}");
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
        let mut times = LookupTimes { now: u32::MAX - 2, ..LookupTimes::default() };
        assert_eq!((times.advance_clock(), times.advance_clock()), (Some(u32::MAX - 1), None));
    }
}
