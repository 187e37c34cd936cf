//! The machine's side of the filter: its table, with the times of the last lookups.
//!
//! A design that orders its entries by use would have to see every lookup, or report all pages whose use it has not
//! seen. Instead the pages stay in the filter, and the design asks when it needs to know: the store with used bits,
//! whether the pages of an entry were looked up since its bit was cleared; the store with LRU, when they were looked up
//! last. The table belongs to the machine. It is in this crate because the store reads it while it chooses a victim,
//! where a call into another crate would be slow. Designs do not see it: a design gets an [`Unfiltered`], and only
//! [`TimedReport`], which the machine owns, gives access to the times.
//!
//! The clock ticks at every use of an entry that a store notes itself, and at every lookup if a design wants to know
//! their [order](crate::tlb::Timed::orders). The table has only room for the lower part of a time. Before that
//! overflows, the machine hands all its times to the designs and empties it ([`LookupTimes::restart`]).

use super::Unfiltered;
use farreach_types::addr::{Asid, Vpn, owner};
use std::hint::select_unpredictable;
use std::ops::Range;

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

/// The last lookups that one TLB sees.
pub(in crate::tlb) struct LastLookups<'m> {
    asid: Asid,
    /// log2 of the pages of the table in a page of the TLB.
    order: u32,
    before: u64,
    entries: &'m [FilterEntryPair; SLOTS_PER_SIDE],
    /// The sides it sees, each with its number; the same one twice if it sees one.
    sides: [(usize, &'m [u32; SLOTS_PER_SIDE]); 2],
}

impl LastLookups<'_> {
    /// Whether lookups of these pages of this address space are in the table: it runs, or is the kernel of a whole
    /// system, whose half of the addresses is in every one. A page of that half has entries of one of both tags.
    #[inline(always)]
    fn has(&self, asid: Asid, base: Vpn) -> bool {
        asid == self.asid || asid == owner(self.asid, base.0 << self.order)
    }

    /// When this page of the table was looked up last, since `before`; `known` if that is later.
    #[inline(always)]
    fn last(&self, vpn: u64, known: u32) -> u32 {
        let hash = LookupTimes::hash(vpn);
        let times = self.sides.map(|(_, times)| times[hash]);
        // Most victims were not looked up since: then the entries, a larger table, need not be read.
        if times[0].max(times[1]) <= known {
            return known;
        }
        // Whose time it is cannot be predicted, so there are no branches.
        let last = |i: usize| select_unpredictable(self.entries[hash].0[self.sides[i].0].vpn == vpn, times[i], 0);
        known.max(last(0)).max(last(1))
    }

    /// Whether any of these pages was looked up at this time or later: bit `i` of `mask` stands for page `base + i`.
    #[inline(always)]
    pub fn any_since(&self, when: u64, asid: Asid, base: Vpn, mut mask: u64) -> bool {
        if !self.has(asid, base) {
            return false;
        }
        // All times in the table are after `before`.
        let when = when.saturating_sub(self.before).max(1);
        // Those at `when` itself count.
        let earlier = (when - 1).min(u32::MAX.into()) as u32;
        if self.order > 0 {
            return self.last_of_groups(earlier, base, mask, 0) > earlier;
        }
        while mask != 0 {
            if self.last(base.0 + u64::from(mask.trailing_zeros()), earlier) > earlier {
                return true;
            }
            mask &= mask - 1;
        }
        false
    }

    /// When any of these pages was looked up last; `known` if that is later. Bit `i` of `mask` stands for the `i`-th
    /// group of `2^order` pages from `base` on, which is aligned to such a group.
    #[inline(always)]
    pub fn last_of(&self, known: u64, asid: Asid, base: Vpn, mut mask: u64, order: u32) -> u64 {
        if !self.has(asid, base) {
            return known;
        }
        let mut last = known.saturating_sub(self.before).min(u32::MAX.into()) as u32;
        if order + self.order > 0 {
            last = self.last_of_groups(last, base, mask, order);
        } else {
            while mask != 0 {
                last = self.last(base.0 + u64::from(mask.trailing_zeros()), last);
                mask &= mask - 1;
            }
        }
        known.max(if last > 0 { self.before + u64::from(last) } else { 0 })
    }

    /// As [`LastLookups::last_of`], since `before`, for groups of several pages of the table.
    #[inline(never)]
    fn last_of_groups(&self, mut last: u32, base: Vpn, mut mask: u64, order: u32) -> u32 {
        let (base, order) = (base.0 << self.order, order + self.order);
        let mut look = |slots: Range<usize>, inside: &dyn Fn(u64) -> bool| {
            for (side, when) in self.sides {
                // Most pages were not looked up since: then their entries need not be read.
                let when = &when[slots.clone()];
                if when.iter().copied().max() <= Some(last) {
                    continue;
                }
                for (&when, entries) in when.iter().zip(&self.entries[slots.clone()]) {
                    if when > last && inside(entries.0[side].vpn) {
                        last = when;
                    }
                }
            }
        };
        if order > FOLD || u64::from(mask.count_ones()) << order >= SLOTS_PER_SIDE as u64 {
            look(0..SLOTS_PER_SIDE, &|vpn| {
                let group = vpn.wrapping_sub(base) >> order;
                group < 64 && mask >> group & 1 != 0
            });
            return last;
        }
        while mask != 0 {
            // An aligned group of up to 2^FOLD pages has an aligned group of slots.
            let group = (base >> order) + u64::from(mask.trailing_zeros());
            let first = LookupTimes::hash(group << order) >> order << order;
            look(first..first + (1 << order), &|vpn| vpn >> order == group);
            mask &= mask - 1;
        }
        last
    }
}

const BITS: u32 = 14;
/// The shift of the hash: bits above [`BITS`] are folded in, and pages of one cache line stay together.
const FOLD: u32 = 9;
/// Slots of the table for each side.
pub const SLOTS_PER_SIDE: usize = 1 << BITS;
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

/// When pages were last looked up. A direct-mapped table over the pages of one address space, of which the upper half
/// of a whole system belongs to its kernel, with one half for data and one for fetches. Before a page loses its slot,
/// all designs get its last lookup ([`Timed::note_lookup`](crate::tlb::Timed::note_lookup)).
pub struct LookupTimes {
    /// The address space of the pages.
    pub asid: Option<Asid>,
    /// The time of the next lookup, since `before`.
    now: u32,
    /// The time before all those in the table.
    before: u64,
    /// The entries of each slot.
    pub entries: Box<[FilterEntryPair; SLOTS_PER_SIDE]>,
    /// Time of the last lookup by slot, since `before`; 0: none.
    when: Box<[u32; 2 * SLOTS_PER_SIDE]>,
}

/// Times that the table has room for, before it must be emptied. With debug checks few, so that tests get there.
const ROOM: u32 = if cfg!(debug_assertions) { 1 << 14 } else { u32::MAX };

/// Writes [`LookupTimes`], for a caller that keeps the time in a register.
pub struct LookupStamper<'m> {
    now: &'m mut u32,
    when: &'m mut [u32; 2 * SLOTS_PER_SIDE],
}

impl LookupStamper<'_> {
    /// The time of the next lookup.
    #[inline(always)]
    pub fn now(&self) -> u32 {
        *self.now
    }
    /// Notes a lookup of the page in this slot.
    #[inline(always)]
    pub fn stamp(&mut self, at: usize, time: u32) {
        self.when[at % (2 * SLOTS_PER_SIDE)] = time;
    }
    /// The next lookup is at this time.
    #[inline(always)]
    pub fn go_on(self, time: u32) {
        *self.now = time;
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
            before: 0,
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
        self.when[at % (2 * SLOTS_PER_SIDE)] = self.now;
        self.now += 1;
    }
    /// All designs saw the last lookup of the page in this slot.
    #[inline(always)]
    pub fn forget(&mut self, at: usize) {
        self.when[at % (2 * SLOTS_PER_SIDE)] = 0;
    }
    /// A writer for many lookups.
    #[inline(always)]
    pub fn stamper(&mut self) -> LookupStamper<'_> {
        LookupStamper { now: &mut self.now, when: &mut self.when }
    }
    /// Ticks that the table has room for, to be kept above those of one lookup, or one block: see
    /// [`LookupTimes::restart`].
    #[inline(always)]
    pub fn room(&self) -> u32 {
        ROOM - self.now
    }
    /// Empties the table of times, which all designs have got, so that it has room again. The pages stay.
    pub fn restart(&mut self) {
        self.before += u64::from(self.now);
        self.now = 1;
        self.when.fill(0);
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
    /// Time of the last lookup of the page in this slot, if the table has it.
    #[inline]
    pub fn last_lookup(&self, at: usize) -> Option<u64> {
        let when = self.when[at];
        (when > 0).then(|| self.before + u64::from(when))
    }
    /// Gives a slot to a page. Returns the page that had it, with its last lookup, if there was one.
    pub fn replace(&mut self, at: usize, vpn: u64) -> Option<(u64, u64)> {
        let when = self.last_lookup(at);
        self.when[at] = 0;
        let former = std::mem::replace(self.entry_mut(at), FilterEntry::of(vpn)).vpn;
        when.filter(|_| former != NO_PAGE).map(|when| (former, when))
    }

    /// The last lookups that a TLB sees which sees fetches or not, data or not, and whose pages are `2^order` of these.
    /// `None` if it sees neither.
    #[inline(always)]
    pub(super) fn seen(&self, sees: [bool; 2], order: u32) -> Option<LastLookups<'_>> {
        let [data, fetch] = self.when.as_chunks().0 else { unreachable!("there are two sides") };
        let sides = match sees {
            [true, true] => [(0, data), (1, fetch)],
            [true, false] => [(1, fetch); 2],
            [false, true] => [(0, data); 2],
            [false, false] => return None,
        };
        Some(LastLookups { asid: self.asid?, order, before: self.before, entries: &self.entries, sides })
    }

    /// A time after all lookups so far and before all others.
    #[inline(always)]
    pub(super) fn tick(&mut self) -> u64 {
        // Lookups may have had `now`.
        self.now += 2;
        self.before + u64::from(self.now - 1)
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
            timed.report().last_lookups().unwrap().any_since(since, asid, Vpn(8), mask)
        };
        let first = timed.report().tick().unwrap();
        let times = timed.times_mut();
        times.asid = Some(asid);
        assert_eq!((times.replace(data, vpn), times.replace(fetch, vpn)), (None, None));
        times.stamp(fetch);
        assert!(!has(&mut timed, first, asid, 0b10), "fetches are another TLB's");
        timed.times_mut().stamp(data);
        assert!(has(&mut timed, first, asid, 0b10) && has(&mut timed, first, asid, 0b11));
        assert!(!has(&mut timed, first, asid, 0b01) && !has(&mut timed, first, Asid(2), 0b10));
        let second = timed.report().tick().unwrap();
        assert!(has(&mut timed, first, asid, 0b10) && !has(&mut timed, second, asid, 0b10));
        let times = timed.times_mut();
        let (former, when) = times.replace(data, vpn + 1).unwrap();
        assert!(former == vpn && first < when && when < second);
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

    /// The last lookup of superpages, against a search of all pages, across restarts of the table.
    #[test]
    fn the_last_lookup_is_that_of_the_latest_page() {
        let mut dice = 1u64;
        let mut draw = |n: u64| {
            dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (dice >> 33) % n
        };
        // log2 of the pages of a group, and of those of a page of the TLB.
        let orders = [0, 1, 3, 6, 9, 12, 16].map(|order| [0, 2, 4, 9].map(|k| (order, k)));
        for (order, k) in orders.into_iter().flatten().filter(|&(order, k)| k <= order) {
            let mut timed = TimedReport::new();
            timed.report().set_order(k);
            timed.times_mut().asid = Some(Asid(0));
            let base = 0x5_5540_0000 + (draw(4) << (order + 6));
            let mut model = std::collections::HashMap::new();
            // What left the table; the store keeps it.
            let mut known = 0;
            for step in 0..3000 {
                let (vpn, fetch) = (base - 8 + draw((64 << order) + 16), draw(2) == 0);
                let at = LookupTimes::hash(vpn) + if fetch { SLOTS_PER_SIDE } else { 0 };
                let mask = draw(1 << 32) << 32 | draw(1 << 32);
                let inside =
                    |vpn: u64| vpn >= base && (vpn - base) >> order < 64 && mask >> ((vpn - base) >> order) & 1 != 0;
                let sees = [draw(2) == 0, draw(2) == 0];
                let times = timed.times_mut();
                if times.entry(at).vpn != vpn
                    && let Some((former, when)) = times.replace(at, vpn)
                {
                    assert_eq!(model.remove(&(former, fetch)), Some(when));
                    known = known.max(if draw(2) == 0 { when } else { 0 });
                }
                let now = times.before + u64::from(times.now);
                times.stamp(at);
                model.insert((vpn, fetch), now);
                let seen = model.iter().filter(|((vpn, fetch), _)| inside(*vpn) && sees[usize::from(!fetch)]);
                let last = seen.map(|(_, when)| *when).max().unwrap_or(0).max(known);
                timed.report().set_sides(sees);
                let Some(lookups) = timed.report().last_lookups() else {
                    assert_eq!(sees, [false; 2]);
                    continue;
                };
                let first = Vpn(base >> k);
                assert_eq!(
                    lookups.last_of(known, Asid(0), first, mask, order - k),
                    last,
                    "2^{order} pages, 2^{k} in a page, step {step}"
                );
                assert_eq!(lookups.last_of(known, Asid(1), first, mask, order - k), known);
                if order == k {
                    assert!(last == known || lookups.any_since(last, Asid(0), first, mask));
                    assert!(!lookups.any_since(last + 1, Asid(0), first, mask));
                }
                if step % 1000 == 999 {
                    known = known.max(last);
                    model.clear();
                    timed.times_mut().restart();
                }
            }
        }
    }

    #[test]
    fn time_goes_on_when_the_table_is_emptied() {
        let mut times = LookupTimes { now: ROOM - 3, ..LookupTimes::default() };
        let last = times.tick();
        assert_eq!(times.room(), 1);
        times.restart();
        assert!(times.tick() > last && times.room() > 1000);
    }
}
