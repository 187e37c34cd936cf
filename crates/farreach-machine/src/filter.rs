//! The filter of repeat hits: which lookups would change nothing in which designs, and need no service by the operating
//! systems.
//!
//! A direct-mapped cache over the pages, one half for each side (fetch, data). A slot has two bit masks over the
//! designs, one for fetches or loads, one for stores: a bit says that the lookup is *filtered* for the design (see
//! [`farreach_hw::tlb::filter`]): a hit that changes no state, so it need only be counted. Two more masks over the
//! designs say that serving this lookup would change nothing in their operating systems, whose answer is
//! [`Filter::answer`]. Losing a bit is always safe, so conflicts and bulk clearing cost time, never exactness. The page
//! numbers are those of one address space, with those of the kernel in a whole system; a process switch empties the
//! table.

mod candidates;

use candidates::CandidateSlots;
use farreach_hw::tlb::Unfiltered;
use farreach_hw::tlb::filter::times::{FilterEntry, LookupTimes, NO_PAGE, SLOTS_PER_SIDE, TimedReport, filled};
use farreach_os::Touched;
use farreach_types::addr::{Asid, BASE_SHIFT, Pfn, Vpn, VpnRange, owner};
use farreach_types::event::{Kind, NOT_EXECUTED};
use farreach_types::translation::{Attr, Pte};
use prefetch_index::prefetch_index;
use std::hint::select_unpredictable;

/// Slots of each side. The fast path reads 128 KB of the table at most, and only the slots of the pages in use.
pub(super) const SLOTS: usize = SLOTS_PER_SIDE;

/// The page of [`NOT_EXECUTED`]. No lookup may be counted for it, so its blocks go reference by reference.
pub(super) const NEVER_FILTERED: u64 = NOT_EXECUTED >> BASE_SHIFT;

/// Most designs one table serves.
pub const MAX_DESIGNS: usize = 32;

/// These bits of both halves of a mask.
#[inline(always)]
fn both(bits: u32) -> u64 {
    u64::from(bits) << 32 | u64::from(bits)
}

/// The half of a mask that is for lookups of this kind.
#[inline(always)]
fn half(word: u64, kind: Kind) -> u32 {
    (word >> if kind == Kind::Store { 32 } else { 0 }) as u32
}

/// The bits that a lookup of this kind sets in a mask: what holds for a store holds for loads.
#[inline(always)]
fn for_kind(bits: u32, kind: Kind) -> u64 {
    if kind == Kind::Store { both(bits) } else { bits.into() }
}

/// A [`Touched`] in 16 bytes: the frame; label, attributes and order.
#[derive(Clone, Copy)]
struct PackedAnswer(u64, u64);

impl From<Touched> for PackedAnswer {
    fn from(Touched { pte, label }: Touched) -> PackedAnswer {
        PackedAnswer(pte.pfn.0, u64::from(label) | u64::from(pte.attr.0) << 32 | u64::from(pte.order) << 40)
    }
}

impl From<PackedAnswer> for Touched {
    #[inline(always)]
    fn from(PackedAnswer(pfn, rest): PackedAnswer) -> Touched {
        Touched {
            pte: Pte { pfn: Pfn(pfn), attr: Attr((rest >> 32) as u8), order: (rest >> 40) as u8 },
            label: rest as u32,
        }
    }
}

/// Operating systems whose answers for one page share a cache line.
const ANSWERS_PER_LINE: usize = 4;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct AnswerLine([PackedAnswer; ANSWERS_PER_LINE]);

/// Index of [`FastTags::mismatch`] for a page: its slot plus one of these. Those of loads and fetches are the slots
/// themselves.
pub(super) const LOADS: usize = 0;
/// See [`LOADS`].
pub(super) const FETCHES: usize = SLOTS;
/// See [`LOADS`]. Not next to the loads: the compiler would join slot and store bit by a funnel shift, which is slow.
pub(super) const STORES: usize = 2 * SLOTS;

/// The slot of a page with this hash, on one side.
#[inline(always)]
fn slot_at(hash: usize, fetch: bool) -> usize {
    hash + if fetch { SLOTS } else { 0 }
}

/// See the module.
pub(super) struct Filter {
    /// The fast tags, all that the fast path reads: by slot, the page if it is filtered for *every* design, else
    /// [`NO_PAGE`]. See [`LOADS`].
    tags: Box<[u64; 4 * SLOTS]>,
    /// Answers of the operating systems by system and slot, [`ANSWERS_PER_LINE`] systems together.
    answers: Box<[AnswerLine]>,
    /// Every design.
    full: u32,
    /// By design, the slots at which it was accessed since its bits were last cleared. No other slot has its bit, or
    /// gets it when the current lookup ends.
    candidates: Vec<CandidateSlots>,
    /// Slots that have a page.
    claimed: Vec<u16>,
    /// The report of the design that is accessed, with the times that it may read.
    timed: TimedReport,
}

impl Filter {
    /// A filter for `designs` designs on `systems` operating systems.
    pub fn new(designs: usize, systems: usize) -> Filter {
        assert!(systems <= designs && designs <= MAX_DESIGNS, "the caller deals designs out to engines");
        Filter {
            tags: filled(NO_PAGE),
            answers: vec![
                AnswerLine([PackedAnswer(0, 0); ANSWERS_PER_LINE]);
                2 * SLOTS * systems.div_ceil(ANSWERS_PER_LINE)
            ]
            .into(),
            full: ((1u64 << designs) - 1) as u32,
            candidates: (0..designs).map(|_| CandidateSlots::new()).collect(),
            claimed: Vec::new(),
            timed: TimedReport::new(),
        }
    }

    /// The report of the design that is accessed, whose base pages are 2^k.
    #[inline(always)]
    pub fn report(&mut self, k: u32) -> &mut Unfiltered {
        let report = self.timed.report();
        report.set_order(k);
        report
    }
    #[inline(always)]
    fn times(&self) -> &LookupTimes {
        self.timed.times()
    }
    #[inline(always)]
    fn times_mut(&mut self) -> &mut LookupTimes {
        self.timed.times_mut()
    }

    /// What the fast path needs: the tags, and the times of the lookups that it counts.
    #[inline(always)]
    pub fn fast_path(&mut self) -> (FastTags<'_>, &mut LookupTimes) {
        (FastTags(&self.tags), self.timed.times_mut())
    }

    /// Sets the address space of the pages. The table must be empty.
    pub fn set_asid(&mut self, asid: Asid) {
        self.times_mut().asid = Some(asid);
    }

    /// Notes the time of a lookup of the page in this slot.
    #[inline(always)]
    pub fn stamp(&mut self, slot: usize) {
        self.times_mut().stamp(slot);
    }

    /// The page in this slot was not looked up since the designs saw it.
    #[inline(always)]
    pub fn forget_lookup(&mut self, slot: usize) {
        self.times_mut().forget(slot);
    }

    /// See [`LookupTimes::room`].
    #[inline(always)]
    pub fn room_for_times(&self) -> u32 {
        self.times().room()
    }
    /// See [`LookupTimes::restart`].
    pub fn restart_times(&mut self) {
        self.times_mut().restart();
    }

    /// The slot of a page. If the page has the slot: the designs for which the lookup is filtered, and the designs
    /// whose systems have nothing to do for it; their answers are [`Filter::answer`].
    #[inline(always)]
    pub fn find(&self, vpn: u64, kind: Kind) -> (usize, Option<(u32, u32)>) {
        let at = slot_at(LookupTimes::hash(vpn), kind == Kind::Fetch);
        // The address does not depend on the entry, which is in another cache line.
        prefetch_index(&self.answers, at);
        let entry = self.times().entry(at);
        (at, (entry.vpn == vpn).then(|| (half(entry.designs, kind), half(entry.systems, kind))))
    }

    /// Gives the slot to this page. Returns the page that had it (fetch side or not, page, last lookup) for the
    /// designs.
    pub fn claim(&mut self, at: usize, vpn: u64) -> Option<(bool, Vpn, u64)> {
        if self.times().entry(at).vpn == NO_PAGE {
            self.claimed.push(at as u16);
        }
        clear_tags(&mut self.tags, at);
        self.times_mut().replace(at, vpn).map(|(vpn, when)| (at >= SLOTS, Vpn(vpn), when))
    }

    /// A lookup that is filtered, the choice being that of a number: slot, page, kind, and the designs that do not see
    /// it and whose systems have nothing to do for it. `None`: there is none at the chosen slot.
    pub fn any_filtered(&self, number: u64) -> Option<(usize, u64, Kind, u32)> {
        let at = usize::from(*self.claimed.get((number % self.claimed.len().max(1) as u64) as usize)?);
        let FilterEntry { vpn, designs, systems, .. } = *self.times().entry(at);
        let of = |kind| half(designs, kind) & half(systems, kind);
        let store = number >> 63 == 0 && of(Kind::Store) != 0;
        let kind = if at >= SLOTS { Kind::Fetch } else { [Kind::Load, Kind::Store][usize::from(store)] };
        (vpn != NO_PAGE && of(kind) != 0).then(|| (at, vpn, kind, of(kind)))
    }

    /// The answer of a system that need not serve a lookup of the page in this slot.
    #[inline(always)]
    pub fn answer(&self, at: usize, system: usize) -> Touched {
        self.answers[system / ANSWERS_PER_LINE * 2 * SLOTS + at].0[system % ANSWERS_PER_LINE].into()
    }

    /// Stores the answer of a system, for its designs. A served store leaves nothing to do for loads. The slot must be
    /// claimed.
    pub fn set_answer(&mut self, at: usize, kind: Kind, designs: u32, system: usize, answer: Touched) {
        self.times_mut().entry_mut(at).systems |= for_kind(designs, kind);
        self.answers[system / ANSWERS_PER_LINE * 2 * SLOTS + at].0[system % ANSWERS_PER_LINE] = answer.into();
    }

    /// The design is accessed at this slot. Only such slots may get its bit in [`Filter::publish`].
    #[inline(always)]
    pub fn add_candidate(&mut self, at: usize, design: usize) {
        self.candidates[design].insert(at);
    }

    /// The lookup is filtered for these designs from now on; a filtered store lets loads in, too. The slot must be
    /// claimed.
    #[inline(always)]
    pub fn publish(&mut self, at: usize, kind: Kind, designs: u32) {
        let entry = self.times_mut().entry_mut(at);
        entry.designs |= for_kind(designs, kind);
        let FilterEntry { vpn, designs, .. } = *entry;
        // The tag was set only if all bits were set.
        let tag = |kind| select_unpredictable(half(designs, kind) == self.full, vpn, NO_PAGE);
        let (loads, stores) = (tag(Kind::Load), tag(Kind::Store));
        self.tags[at % STORES] = loads;
        self.tags[at % STORES + STORES] = stores;
    }

    /// Takes all pages out of the filter for the design.
    #[inline(never)]
    pub fn clear_design(&mut self, design: usize) {
        self.forget(design, |_| true);
    }

    /// Takes the pages for which `these` holds out of the filter for the design.
    #[inline]
    fn forget(&mut self, design: usize, these: impl Fn(Vpn) -> bool) {
        let times = self.timed.times_mut();
        let tags = &mut self.tags;
        self.candidates[design].retain(|at| {
            let entry = times.entry_mut(at);
            let filtered = entry.designs & both(1 << design) != 0;
            if filtered && these(Vpn(entry.vpn)) {
                entry.designs &= !both(1 << design);
                clear_tags(tags, at);
                return false;
            }
            filtered
        });
    }

    /// Takes a page out of the filter for these designs. The systems of `those` designs may have something to do for
    /// it.
    #[inline]
    pub fn clear_page(&mut self, vpn: Vpn, designs: u32, those: u32) {
        let times = self.timed.times_mut();
        let hash = LookupTimes::hash(vpn.0);
        for at in [slot_at(hash, false), slot_at(hash, true)] {
            let entry = times.entry_mut(at);
            if entry.vpn == vpn.0 {
                entry.designs &= !both(designs);
                entry.systems &= !both(those);
                clear_tags(&mut self.tags, at);
            }
        }
    }

    /// Takes the pages of the design's report out of the filter, each of 2^k, if they are in `asid` or those that the
    /// kernel has in it.
    #[inline(always)]
    pub fn unfilter(&mut self, asid: Asid, design: usize, k: u32) {
        let (all, pages, times) = self.timed.parts();
        if all {
            return self.clear_design(design);
        }
        if k > 0 {
            return self.unfilter_runs(asid, design, k);
        }
        let here = |(of, base, _): &&(Asid, Vpn, u64)| *of == asid || *of == owner(asid, base.0);
        for &(_, base, mut mask) in pages.iter().filter(here) {
            while mask != 0 {
                let hash = LookupTimes::hash(base.0 + u64::from(mask.trailing_zeros()));
                unfilter_slots(times, &mut self.tags, hash, 1 << design);
                mask &= mask - 1;
            }
        }
    }

    #[cold]
    fn unfilter_runs(&mut self, asid: Asid, design: usize, k: u32) {
        for i in 0..self.timed.report().pages().len() {
            let (of, base, mut mask) = self.timed.report().pages()[i];
            while (of == asid || of == owner(asid, base.0 << k)) && mask != 0 {
                let page = VpnRange::one(Vpn(base.0 + u64::from(mask.trailing_zeros())));
                self.clear_run(page.finer(k), design);
                mask &= mask - 1;
            }
        }
    }

    /// Takes these pages out of the filter for the design. Goes through the pages or the candidate slots, whichever are
    /// fewer.
    fn clear_run(&mut self, pages: VpnRange, design: usize) {
        if pages.pages <= self.candidates[design].len() as u64 {
            pages.iter().for_each(|vpn| self.clear_page(vpn, 1 << design, 0));
        } else {
            self.forget(design, |vpn| pages.contains(vpn));
        }
    }

    /// Empties the filter, for all designs.
    pub fn clear(&mut self) {
        let times = self.timed.times_mut();
        for &at in &self.claimed {
            let entry = times.entry_mut(at.into());
            *entry = FilterEntry::of(entry.vpn);
            clear_tags(&mut self.tags, at.into());
        }
        // The candidates stay: a set may have too many slots, never too few.
    }

    /// The slots that have a page: on the fetch side or not, page, last lookup. `forget`: empties the slots, too.
    pub fn lookups(&mut self, forget: bool) -> Vec<(bool, Vpn, u64)> {
        if forget {
            self.clear();
        }
        let claimed = std::mem::take(&mut self.claimed);
        let times = self.times_mut();
        let take = |&at: &u16| {
            let at = usize::from(at);
            let vpn = times.entry(at).vpn;
            let when = times.last_lookup(at);
            if forget {
                times.replace(at, NO_PAGE);
            }
            when.map(|when| (at >= SLOTS, Vpn(vpn), when))
        };
        let lookups = claimed.iter().filter_map(take).collect();
        if !forget {
            self.claimed = claimed;
        }
        lookups
    }
}

/// Clears the tags of a slot.
#[inline(always)]
fn clear_tags(tags: &mut [u64; 4 * SLOTS], at: usize) {
    tags[at % STORES] = NO_PAGE;
    tags[at % STORES + STORES] = NO_PAGE;
}

/// Takes the pages with this hash out of the filter for these designs, on both sides. It does not compare the page:
/// another page is rarely there, and losing its bits is safe.
#[inline(always)]
fn unfilter_slots(times: &mut LookupTimes, tags: &mut [u64; 4 * SLOTS], hash: usize, designs: u32) {
    for entry in &mut times.entries[hash % SLOTS].0 {
        entry.designs &= !both(designs);
    }
    for what in [LOADS, STORES, FETCHES] {
        tags[what + hash % SLOTS] = NO_PAGE;
    }
}

/// The tags that the fast path compares.
#[derive(Clone, Copy)]
pub(super) struct FastTags<'a>(&'a [u64; 4 * SLOTS]);

impl FastTags<'_> {
    /// Zero if the lookup is filtered for every design. `at`: slot plus one of [`LOADS`], [`STORES`], [`FETCHES`].
    #[inline(always)]
    pub fn mismatch(self, vpn: u64, at: usize) -> u64 {
        self.0[at % (4 * SLOTS)] ^ vpn
    }
}

#[cfg(test)]
mod tests;
