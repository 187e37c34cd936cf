//! Every TLB kind of T94-3 to T94-24 as a vector of entries and linear scans.
//!
//! Where the specification is open:
//!
//! * OT-1 Slots. `slot = set * ways + way`; fully associative: the index. `per-size`: the arrays stand one after the other in
//!   ascending order of their size, so `slot = entries of the arrays before + set * ways + way`. The process id takes no part
//!   in the set index.
//! * OT-2 A set is `tag mod sets`, the tag of a superpage being its page number in units of its own size.
//! * OT-3 Each array of `per-size` has a random generator of its own, the i-th seeded with `seed + i`: separate hardware.
//! * OT-4 A miss is: look up; drop covered entries; choose a slot; write the entry with used clear; preload; repeat the access
//!   (AMB-3): recency, used if `fill_sets_used`, modified if a store. The repeated access comes last, as in the golden vectors.
//! * OT-5 While its handler preloads, the entry of the page that missed counts as just used (used set, newest of LRU, also
//!   if the page joined an old entry); before the access is repeated the used bit is as it was, unless a sweep cleared it.
//!   Should an entry be needed and the rule name that entry all the same, the preload ends; what the rule did by then (a sweep
//!   of used bits, a draw) stays done.
//! * OT-6 A preload goes through the region in ascending order. A translation that takes a new entry has the recency (LRU, FIFO)
//!   of that moment; one that joins an entry renews nothing. Neither sets used.
//! * OT-7 A page that the TLB already translates is not preloaded again and not counted in `preloaded`.
//! * OT-8 `fills`: one per miss, plus one per preloaded translation that takes a new entry. `merges`: misses that joined an
//!   entry. A preloaded translation that joins is counted in `preloaded` only. So `fills - merges` is the number of entries
//!   taken, and `misses + preloaded` the number of page table entries whose translation was loaded.
//! * OT-9 `extra_pte_reads`: `n - 1` for each miss that looks for pages to preload, mapped or not, present or not; at most 1 with
//!   `assisted_check`. `same-entry` (partial, integrated) and all-valid do not look when the missed page is not aligned with
//!   its frame: nothing could join. Nobody looks after a miss that filled a superpage of n pages or more (integrated).
//!   `assisted_check` belongs to preload; all-valid reads `n - 1`.
//! * OT-10 `invalidations` counts translations, however the TLB is told (page, range, space, switch, demotion): one per valid
//!   subblock, one per superpage. An all-valid entry goes whole and counts all its pages.
//! * OT-11 `split_*` of a fill that begins a new entry although an entry of that space has its tag, by the first condition of
//!   T94-7 that fails: the page is not aligned, or no entry of the tag is enabled: `split_unaligned`; an enabled entry has the same
//!   frame group: `split_attributes`; else `split_frames`. Only for partial and integrated; preloaded ones count too, if they get
//!   their entry; never for all-valid nor for superpages.
//! * OT-12 `superpage_misses`: order of the missed page's table entry above 0, whatever the kind.
//! * OT-13 `SubblockMiss`: before the fill some entry of that space has the tag `v div n` (subblock kinds); a large
//!   integrated superpage is not such an entry (it would have been a hit).
//! * OT-14 All-valid. An entry holds the whole region, or one page: then `sb_enabled` is false though the page be aligned, for
//!   enabled means that all subblocks are there. One-page entries never merge. A fill of the whole region first drops the
//!   one-page entries of the region (`covered_drops`); its other n - 1 translations count as `preloaded`. Invalidating a page drops
//!   a full entry whole. Factor 1: every fill is a full entry.
//! * OT-15 Integrated. A mapping gets the largest configured size that fits, as in the superpage kind; sizes are 4 KB, n pages,
//!   larger ones. A large entry shows one page at offset 0 with its one modified bit, and no `sb_enabled`. A medium fill that merges
//!   counts as a merge; modified bits of the pages already there stay; it preloads nothing, one table entry gave all.
//! * OT-16 `switch` to the space that already runs does nothing. The space of the first access or switch is the first to run.
//! * OT-17 `lookups` stays 0: the machine counts it.
//! * OT-18 `demote` drops entries that overlap the range and are larger than a base page (superpage) or than n pages (integrated).
//!   Subblocks are base translations and stay, also those of a medium superpage.

use farreach::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach::counts::TlbCounts;
use farreach::event::Kind as Access;
use farreach::hw::tlb::{Answer, Attr, EntryView, Lookup, Noise, Outcome, PageTableView, Pte, Tlb, Translation};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Kind of TLB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlbKind {
    /// T94-3.
    Single,
    /// T94-4.
    Superpage,
    /// T94-5.
    Complete,
    /// T94-6.
    Partial,
    /// T94-24.
    Integrated,
}

/// Which entry goes (T94-14).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replacement {
    /// Used bits.
    UsedBit,
    /// Least recently used.
    Lru,
    /// First allocated.
    Fifo,
    /// Any of the set.
    Random,
}

/// What a miss loads besides the missed page (T94-22).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preload {
    /// Nothing.
    None,
    /// What joins the entry.
    SameEntry,
    /// The whole region.
    Region,
}

/// How a TLB finds superpages of several sizes (T94-16).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizeLookup {
    /// One array; in sets one probe for each size.
    Probe,
    /// One array for each size.
    PerSize,
}

/// A TLB.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlbConfig {
    /// Kind.
    pub kind: TlbKind,
    /// Entries (of each array, for `PerSize`).
    pub entries: usize,
    /// 0: fully associative.
    pub ways: usize,
    /// Base pages per entry of the subblock kinds.
    pub factor: u64,
    /// Orders (log2 pages) of the superpage and integrated kinds, ascending, the first is 0; integrated: the next is log2 of the
    /// factor.
    pub orders: Vec<u8>,
    /// For the superpage kind.
    pub lookup: SizeLookup,
    /// Entries of each array, for `PerSize`; empty: `entries` each.
    pub size_entries: Vec<usize>,
    /// Replacement.
    pub replacement: Replacement,
    /// AMB-3.
    pub fill_sets_used: bool,
    /// Preload.
    pub preload: Preload,
    /// T94-22: hardware compares, at the cost of one read.
    pub assisted_check: bool,
    /// Entries carry a process id.
    pub process_ids: bool,
    /// T94-21.
    pub all_valid: bool,
    /// Of random replacement.
    pub seed: u64,
}

impl TlbConfig {
    /// 64 entries, fully associative, used bits, factor 16, 4 KB and 64 KB.
    pub fn new(kind: TlbKind) -> TlbConfig {
        TlbConfig {
            kind,
            entries: 64,
            ways: 0,
            factor: 16,
            orders: vec![0, 4],
            lookup: SizeLookup::Probe,
            size_entries: Vec::new(),
            replacement: Replacement::UsedBit,
            fill_sets_used: true,
            preload: Preload::None,
            assisted_check: false,
            process_ids: true,
            all_valid: false,
            seed: 0,
        }
    }
    fn subblocks(&self) -> bool {
        matches!(self.kind, TlbKind::Complete | TlbKind::Partial | TlbKind::Integrated)
    }
    /// The arrays, as first slot and entries.
    fn arrays(&self) -> Vec<(usize, usize)> {
        if !per_size(self) {
            return vec![(0, self.entries)];
        }
        let mut first = 0;
        let mut arrays = Vec::new();
        for i in 0..self.orders.len() {
            let entries = self.size_entries.get(i).copied().unwrap_or(self.entries);
            arrays.push((first, entries));
            first += entries;
        }
        arrays
    }
    /// The largest configured size that a mapping of this order fills.
    fn fitting(&self, order: u8) -> u8 {
        *self.orders.iter().rev().find(|o| **o <= order).expect("4 KB is a size")
    }
    /// log2 of the factor.
    fn k(&self) -> u8 {
        self.factor.trailing_zeros() as u8
    }
}

/// Deliberate mistakes, to see whether a test would notice them. Not part of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutation {
    FifoRenewedByHit,
    FifoRenewedByMerge,
    LruIgnoresLoads,
    LruIgnoresFillByMerge,
    PreloadRenewsLru,
    UsedVictimHighest,
    UsedNeverCleared,
    UsedClearedEverywhere,
    InvalidHighestFirst,
    InvalidNotPreferred,
    RandomDrawsForInvalid,
    RandomFromModulo,
    NoMerge,
    MergeIgnoresAttributes,
    MergeIgnoresFrames,
    MergeIntoDisabled,
    MergeSkipsUsed,
    InvalidateWholeEntry,
    InvalidateAllSpaces,
    InvalidateFirstPageOnly,
    InvalidateKeepsLast,
    SpaceKeepsEntries,
    SwitchKeepsEntries,
    SwitchAlwaysDrops,
    CoveredStay,
    CoveredOfAllSpaces,
    SmallestSize,
    SizeTooSmall,
    FillForgetsModified,
    MergeForgetsModified,
    HitForgetsModified,
    LoadSetsModified,
    PreloadSetsUsed,
    PreloadDescending,
    PreloadIgnoresAttributes,
    PreloadSameEntryAsRegion,
    TouchBeforePreload,
    PreloadForgetsToHold,
    PreloadKeepsHolding,
    PreloadEvictsMissed,
    PreloadLeavesOutInsteadOfEnding,
    PreloadOfAssistedReadsAll,
    OneRandomGenerator,
    DemoteForgotten,
    DemoteDropsBasePages,
    DemoteOfAllSpaces,
    InvalidationsByEntry,
    AllValidReadsUnaligned,
    AllValidNotPreloaded,
    AllValidOnePageEnabled,
    SplitFramesOfDisabled,
    LargeShowsSb,
    LargeOfAnyOrder,
    TagMissOnly,
    SubblockMissOfOtherSpace,
    IndexByPage,
    IndexWithSpace,
    AllValidUnaligned,
    AllValidWithHole,
    AllValidEqualAttributes,
    AllValidMerges,
    SplitReasonsSwapped,
    UsedKeptByVictim,
    LargeFillKeepsPartial,
    MediumFillLoadsOne,
    EvictionsCountInvalid,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 66] = [
        Mutation::FifoRenewedByHit,
        Mutation::FifoRenewedByMerge,
        Mutation::LruIgnoresLoads,
        Mutation::LruIgnoresFillByMerge,
        Mutation::PreloadRenewsLru,
        Mutation::UsedVictimHighest,
        Mutation::UsedNeverCleared,
        Mutation::UsedClearedEverywhere,
        Mutation::InvalidHighestFirst,
        Mutation::InvalidNotPreferred,
        Mutation::RandomDrawsForInvalid,
        Mutation::RandomFromModulo,
        Mutation::NoMerge,
        Mutation::MergeIgnoresAttributes,
        Mutation::MergeIgnoresFrames,
        Mutation::MergeIntoDisabled,
        Mutation::MergeSkipsUsed,
        Mutation::InvalidateWholeEntry,
        Mutation::InvalidateAllSpaces,
        Mutation::InvalidateFirstPageOnly,
        Mutation::InvalidateKeepsLast,
        Mutation::SpaceKeepsEntries,
        Mutation::SwitchKeepsEntries,
        Mutation::SwitchAlwaysDrops,
        Mutation::CoveredStay,
        Mutation::CoveredOfAllSpaces,
        Mutation::SmallestSize,
        Mutation::SizeTooSmall,
        Mutation::FillForgetsModified,
        Mutation::MergeForgetsModified,
        Mutation::HitForgetsModified,
        Mutation::LoadSetsModified,
        Mutation::PreloadSetsUsed,
        Mutation::PreloadDescending,
        Mutation::PreloadIgnoresAttributes,
        Mutation::PreloadSameEntryAsRegion,
        Mutation::TouchBeforePreload,
        Mutation::PreloadForgetsToHold,
        Mutation::PreloadKeepsHolding,
        Mutation::PreloadEvictsMissed,
        Mutation::PreloadLeavesOutInsteadOfEnding,
        Mutation::PreloadOfAssistedReadsAll,
        Mutation::OneRandomGenerator,
        Mutation::DemoteForgotten,
        Mutation::DemoteDropsBasePages,
        Mutation::DemoteOfAllSpaces,
        Mutation::InvalidationsByEntry,
        Mutation::AllValidReadsUnaligned,
        Mutation::AllValidNotPreloaded,
        Mutation::AllValidOnePageEnabled,
        Mutation::SplitFramesOfDisabled,
        Mutation::LargeShowsSb,
        Mutation::LargeOfAnyOrder,
        Mutation::TagMissOnly,
        Mutation::SubblockMissOfOtherSpace,
        Mutation::IndexByPage,
        Mutation::IndexWithSpace,
        Mutation::AllValidUnaligned,
        Mutation::AllValidWithHole,
        Mutation::AllValidEqualAttributes,
        Mutation::AllValidMerges,
        Mutation::SplitReasonsSwapped,
        Mutation::UsedKeptByVictim,
        Mutation::LargeFillKeepsPartial,
        Mutation::MediumFillLoadsOne,
        Mutation::EvictionsCountInvalid,
    ];
}

/// One page of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sub {
    pfn: Pfn,
    attr: Attr,
    modified: bool,
}

/// One valid entry.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    asid: Asid,
    /// First page the tag covers.
    base: Vpn,
    /// log2 of the pages the tag covers.
    order: u8,
    /// One mapping for all pages of the tag: `subs` has only the first page.
    whole: bool,
    /// By offset from `base`.
    subs: Vec<Option<Sub>>,
    sb_enabled: Option<bool>,
    used: bool,
    touched: u64,
    allocated: u64,
}

impl Entry {
    fn has_tag(&self, asid: Asid, v: Vpn) -> bool {
        self.asid == asid && self.base.0 >> self.order == v.0 >> self.order
    }
    /// Where in `subs` page `v` (inside the tag) stands.
    fn at(&self, v: Vpn) -> usize {
        if self.whole { 0 } else { (v.0 - self.base.0) as usize }
    }
    /// How many translations it holds: its valid pages, or one for a superpage.
    fn translations(&self) -> u64 {
        self.subs.iter().flatten().count() as u64
    }
    fn matches(&self, asid: Asid, v: Vpn) -> bool {
        self.has_tag(asid, v) && self.subs[self.at(v)].is_some()
    }
    fn translate(&self, v: Vpn) -> Translation {
        let sub = self.subs[self.at(v)].expect("only of valid pages");
        let pfn = if self.whole { Pfn(sub.pfn.0 + (v.0 - self.base.0)) } else { sub.pfn };
        Translation { pfn, attr: sub.attr }
    }
    /// Frame group and attributes of an enabled partial entry.
    fn shared(&self, n: u64) -> (u64, Attr) {
        let sub = self.subs.iter().flatten().next().expect("a valid entry has a page");
        (sub.pfn.0 / n, sub.attr)
    }
}

/// The model.
#[derive(Clone, Debug)]
pub struct PlainTlb {
    config: TlbConfig,
    slots: Vec<Option<Entry>>,
    clock: u64,
    /// One for each array.
    rngs: Vec<Pcg64Mcg>,
    counts: TlbCounts,
    current: Option<Asid>,
    /// Where the missed page is, while its handler preloads.
    keep: Option<usize>,
    mutation: Option<Mutation>,
}

impl PlainTlb {
    /// An empty TLB. Panics on configurations that do not exist.
    pub fn new(config: TlbConfig) -> PlainTlb {
        assert!(config.entries > 0 && config.factor.is_power_of_two());
        let arrays = config.arrays();
        assert!(config.ways == 0 || arrays.iter().all(|(_, entries)| entries.is_multiple_of(config.ways)));
        assert!(config.preload == Preload::None || config.subblocks());
        PlainTlb {
            slots: vec![None; arrays.iter().map(|(_, entries)| entries).sum()],
            clock: 0,
            rngs: (0..arrays.len() as u64).map(|i| Pcg64Mcg::seed_from_u64(config.seed.wrapping_add(i))).collect(),
            counts: TlbCounts::default(),
            current: None,
            keep: None,
            mutation: None,
            config,
        }
    }

    /// The same TLB with a mistake in it.
    pub fn mutant(config: TlbConfig, mutation: Mutation) -> PlainTlb {
        PlainTlb { mutation: Some(mutation), ..PlainTlb::new(config) }
    }

    fn wrong(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// The one entry that translates `v` (T94-9, T94-17).
    fn find(&self, asid: Asid, v: Vpn) -> Option<usize> {
        let mut found = self.slots.iter().enumerate().filter(|(_, e)| e.as_ref().is_some_and(|e| e.matches(asid, v)));
        let first = found.next().map(|(slot, _)| slot);
        assert!(found.next().is_none() || self.mutation.is_some(), "two entries match {asid:?} {v:?} (T94-17)");
        first
    }

    /// In which array an entry of this order stands.
    fn array_of(&self, order: u8) -> usize {
        if !per_size(&self.config) {
            return 0;
        }
        self.config.orders.iter().position(|&o| o == order).expect("a configured size")
    }

    /// The slots in which an entry of this order for page `v` may stand (T94-16).
    fn set_of(&self, asid: Asid, v: Vpn, order: u8) -> Vec<usize> {
        let (first, entries) = self.config.arrays()[self.array_of(order)];
        if self.config.ways == 0 {
            return (first..first + entries).collect();
        }
        let sets = (entries / self.config.ways) as u64;
        let mut tag = v.0 >> order;
        if self.wrong(Mutation::IndexByPage) {
            tag = v.0;
        }
        if self.wrong(Mutation::IndexWithSpace) {
            tag += u64::from(asid.0);
        }
        let set = (tag % sets) as usize;
        let first = first + set * self.config.ways;
        (first..first + self.config.ways).collect()
    }

    /// The slot of this set of an array for a new entry; what stood there is gone (T94-14). `None`: it would be the one to keep.
    fn victim(&mut self, array: usize, set: &[usize]) -> Option<usize> {
        let mut invalid: Vec<usize> = set.iter().copied().filter(|&s| self.slots[s].is_none()).collect();
        if self.wrong(Mutation::InvalidHighestFirst) {
            invalid.reverse();
        }
        if self.wrong(Mutation::RandomDrawsForInvalid) {
            self.rngs[array].next_u32();
        }
        if let Some(&slot) = invalid.first()
            && !self.wrong(Mutation::InvalidNotPreferred)
        {
            if self.wrong(Mutation::EvictionsCountInvalid) {
                self.counts.evictions += 1;
            }
            return Some(slot);
        }
        let slot = match self.config.replacement {
            Replacement::UsedBit => self.victim_by_used(set),
            Replacement::Lru => self.oldest(set, |e| e.touched),
            Replacement::Fifo => self.oldest(set, |e| e.allocated),
            Replacement::Random => {
                let of = if self.wrong(Mutation::OneRandomGenerator) { 0 } else { array };
                let draw = u64::from(self.rngs[of].next_u32());
                let n = set.len() as u64;
                let at = if self.wrong(Mutation::RandomFromModulo) { draw % n } else { (draw * n) >> 32 };
                set[at as usize]
            }
        };
        if self.keep == Some(slot) && !self.wrong(Mutation::PreloadEvictsMissed) {
            return None;
        }
        if self.slots[slot].take().is_some() {
            self.counts.evictions += 1;
        }
        Some(slot)
    }

    fn oldest(&self, set: &[usize], age: fn(&Entry) -> u64) -> usize {
        *set.iter().min_by_key(|&&s| self.slots[s].as_ref().map_or(0, age)).expect("a set has ways")
    }

    fn victim_by_used(&mut self, set: &[usize]) -> usize {
        let used = |tlb: &PlainTlb, s: usize| tlb.slots[s].as_ref().is_some_and(|e| e.used);
        let mut clear: Vec<usize> = set.iter().copied().filter(|&s| !used(self, s)).collect();
        if self.wrong(Mutation::UsedVictimHighest) {
            clear.reverse();
        }
        if let Some(&slot) = clear.first() {
            return slot;
        }
        let everything: Vec<usize> = (0..self.slots.len()).collect();
        let cleared = if self.wrong(Mutation::UsedClearedEverywhere) { &everything } else { set };
        if !self.wrong(Mutation::UsedNeverCleared) {
            for &s in cleared {
                if let Some(e) = &mut self.slots[s] {
                    e.used = false;
                }
            }
        }
        set[0]
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// A reference uses this entry.
    fn touch(&mut self, slot: usize, at: Lookup, hit: bool, merged: bool) {
        let now = self.tick();
        let mut sets_used = hit || self.config.fill_sets_used;
        if self.wrong(Mutation::MergeSkipsUsed) && merged {
            sets_used = false;
        }
        let mut modifies = at.kind == Access::Store;
        if self.wrong(Mutation::FillForgetsModified) && !hit && !merged
            || self.wrong(Mutation::MergeForgetsModified) && merged
            || self.wrong(Mutation::HitForgetsModified) && hit
        {
            modifies = false;
        }
        if self.wrong(Mutation::LoadSetsModified) && at.kind == Access::Load {
            modifies = true;
        }
        let renew = !(self.wrong(Mutation::LruIgnoresLoads) && at.kind == Access::Load && hit
            || self.wrong(Mutation::LruIgnoresFillByMerge) && merged);
        let realloc = self.wrong(Mutation::FifoRenewedByHit) && hit || self.wrong(Mutation::FifoRenewedByMerge) && merged;
        let e = self.slots[slot].as_mut().expect("the entry that was touched");
        e.used |= sets_used;
        if renew {
            e.touched = now;
        }
        if realloc {
            e.allocated = now;
        }
        if modifies {
            let page = e.at(at.vpn);
            e.subs[page].as_mut().expect("the page that was touched").modified = true;
        }
    }

    /// Writes a new entry into the set it belongs to; `None` if a preload must end.
    fn place(&mut self, asid: Asid, v: Vpn, order: u8, whole: bool, subs: Vec<Option<Sub>>, sb: Option<bool>) -> Option<usize> {
        let set = self.set_of(asid, v, order);
        let was_used =
            self.wrong(Mutation::UsedKeptByVictim) && set.iter().any(|&s| self.slots[s].as_ref().is_some_and(|e| e.used));
        let slot = self.victim(self.array_of(order), &set)?;
        let now = self.tick();
        let base = v.align_down(u32::from(order));
        self.slots[slot] =
            Some(Entry { asid, base, order, whole, subs, sb_enabled: sb, used: was_used, touched: now, allocated: now });
        Some(slot)
    }

    /// Drops the entries of this space that overlap the aligned group of `2^order` pages around `v` (T94-11).
    fn drop_covered(&mut self, asid: Asid, v: Vpn, order: u8) {
        if self.wrong(Mutation::CoveredStay) {
            return;
        }
        let any_space = self.wrong(Mutation::CoveredOfAllSpaces);
        for slot in &mut self.slots {
            if let Some(e) = slot
                && (e.asid == asid || any_space)
                && e.base.0 >> e.order.max(order) == v.0 >> e.order.max(order)
            {
                *slot = None;
                self.counts.covered_drops += 1;
            }
        }
    }

    /// T94-10 to T94-13, T94-21, T94-24. Where the page is now, and whether it joined an entry; `None` if a preload
    /// must end.
    fn fill(&mut self, asid: Asid, v: Vpn, pte: Pte, table: &dyn PageTableView) -> Option<(usize, bool)> {
        let sub = Some(Sub { pfn: pte.pfn, attr: pte.attr, modified: false });
        match self.config.kind {
            TlbKind::Single => Some((self.place(asid, v, 0, true, vec![sub], None)?, false)),
            TlbKind::Superpage => {
                let order = match self.mutation {
                    Some(Mutation::SmallestSize) => self.config.orders[0],
                    Some(Mutation::SizeTooSmall) => *self.config.orders.iter().rfind(|o| **o < pte.order.max(1)).expect("4 KB"),
                    _ => self.config.fitting(pte.order),
                };
                self.drop_covered(asid, v, order);
                let first = Sub { pfn: pte.pfn.align_down(u32::from(order)), attr: pte.attr, modified: false };
                let first = if order == 0 { sub } else { Some(first) };
                Some((self.place(asid, v, order, true, vec![first], None)?, false))
            }
            _ if self.config.all_valid => Some((self.fill_all_valid(asid, v, pte, table)?, false)),
            TlbKind::Complete => self.fill_complete(asid, v, sub),
            TlbKind::Partial => self.fill_partial(asid, v, pte),
            TlbKind::Integrated => {
                let any_order = self.wrong(Mutation::LargeOfAnyOrder) && pte.order > self.config.k();
                match if any_order { pte.order } else { self.config.fitting(pte.order) } {
                    0 => self.fill_partial(asid, v, pte),
                    order if order > self.config.k() => self.fill_large(asid, v, pte, order),
                    _ if self.wrong(Mutation::MediumFillLoadsOne) => self.fill_partial(asid, v, pte),
                    _ => self.fill_medium(asid, v, pte),
                }
            }
        }
    }

    /// A superpage of more than n pages in the integrated TLB.
    fn fill_large(&mut self, asid: Asid, v: Vpn, pte: Pte, order: u8) -> Option<(usize, bool)> {
        if !self.wrong(Mutation::LargeFillKeepsPartial) {
            self.drop_covered(asid, v, order);
        }
        let first = Sub { pfn: pte.pfn.align_down(u32::from(order)), attr: pte.attr, modified: false };
        let sb = self.wrong(Mutation::LargeShowsSb).then_some(true);
        Some((self.place(asid, v, order, true, vec![Some(first)], sb)?, false))
    }

    fn one_hot(&self, v: Vpn, sub: Option<Sub>) -> Vec<Option<Sub>> {
        let mut subs = vec![None; self.config.factor as usize];
        subs[(v.0 % self.config.factor) as usize] = sub;
        subs
    }

    fn fill_complete(&mut self, asid: Asid, v: Vpn, sub: Option<Sub>) -> Option<(usize, bool)> {
        for slot in 0..self.slots.len() {
            if let Some(e) = &mut self.slots[slot]
                && e.has_tag(asid, v)
                && self.mutation != Some(Mutation::NoMerge)
            {
                let at = e.at(v);
                e.subs[at] = sub;
                return Some((slot, true));
            }
        }
        let subs = self.one_hot(v, sub);
        Some((self.place(asid, v, self.config.k(), false, subs, None)?, false))
    }

    /// The entry that page `v` may join (T94-7, T94-13): lowest index.
    fn mergeable(&self, asid: Asid, v: Vpn, pte: Pte) -> Option<usize> {
        let n = self.config.factor;
        if v.0 % n != pte.pfn.0 % n || self.wrong(Mutation::NoMerge) {
            return None;
        }
        let into_disabled =
            self.wrong(Mutation::MergeIntoDisabled) || self.config.all_valid && self.wrong(Mutation::AllValidMerges);
        self.slots.iter().position(|e| {
            e.as_ref().is_some_and(|e| {
                e.has_tag(asid, v)
                    && !e.whole
                    && (e.sb_enabled == Some(true) || into_disabled)
                    && (e.shared(n).0 == pte.pfn.0 / n || self.wrong(Mutation::MergeIgnoresFrames))
                    && (e.shared(n).1 == pte.attr || self.wrong(Mutation::MergeIgnoresAttributes))
            })
        })
    }

    fn fill_partial(&mut self, asid: Asid, v: Vpn, pte: Pte) -> Option<(usize, bool)> {
        let n = self.config.factor;
        let sub = Some(Sub { pfn: pte.pfn, attr: pte.attr, modified: false });
        if let Some(slot) = self.mergeable(asid, v, pte) {
            let e = self.slots[slot].as_mut().expect("just found");
            let at = e.at(v);
            e.subs[at] = sub;
            return Some((slot, true));
        }
        let aligned = v.0 % n == pte.pfn.0 % n;
        let same_tag: Vec<&Entry> = self.slots.iter().flatten().filter(|e| e.has_tag(asid, v)).collect();
        let enabled: Vec<&&Entry> = same_tag.iter().filter(|e| e.sb_enabled == Some(true)).collect();
        let tag_there = !same_tag.is_empty();
        let out_of_place = !aligned || enabled.is_empty() && !self.wrong(Mutation::SplitFramesOfDisabled);
        let same_frames = enabled.iter().any(|e| e.shared(n).0 == pte.pfn.0 / n);
        let subs = self.one_hot(v, sub);
        let slot = self.place(asid, v, self.config.k(), false, subs, Some(aligned))?;
        if tag_there {
            if out_of_place {
                self.counts.split_unaligned += 1;
            } else if same_frames != self.wrong(Mutation::SplitReasonsSwapped) {
                self.counts.split_attributes += 1;
            } else {
                self.counts.split_frames += 1;
            }
        }
        Some((slot, false))
    }

    /// A superpage of exactly n pages in the integrated TLB.
    fn fill_medium(&mut self, asid: Asid, v: Vpn, pte: Pte) -> Option<(usize, bool)> {
        let first = pte.pfn.align_down(u32::from(self.config.k()));
        let page = |i: u64| Some(Sub { pfn: Pfn(first.0 + i), attr: pte.attr, modified: false });
        let all: Vec<Option<Sub>> = (0..self.config.factor).map(page).collect();
        if let Some(slot) = self.mergeable(asid, v, pte) {
            let e = self.slots[slot].as_mut().expect("just found");
            for (have, new) in e.subs.iter_mut().zip(all) {
                *have = have.or(new);
            }
            return Some((slot, true));
        }
        self.drop_covered(asid, v, self.config.k());
        Some((self.place(asid, v, self.config.k(), false, all, Some(true))?, false))
    }

    fn fill_all_valid(&mut self, asid: Asid, v: Vpn, pte: Pte, table: &dyn PageTableView) -> Option<usize> {
        let (n, k) = (self.config.factor, self.config.k());
        let base = v.align_down(u32::from(k));
        let pages: Vec<Option<Pte>> = (0..n).map(|i| table.pte(asid, Vpn(base.0 + i))).collect();
        let aligned = v.0 % n == pte.pfn.0 % n;
        if aligned || self.wrong(Mutation::AllValidReadsUnaligned) {
            self.counts.extra_pte_reads += n - 1;
        }
        let first = pte.pfn.0.wrapping_sub(v.0 - base.0);
        let in_place = |i: usize, p: &Option<Pte>| p.is_some_and(|p| p.pfn.0 == first.wrapping_add(i as u64));
        let hole_ok = self.wrong(Mutation::AllValidWithHole);
        let mut full = pages.iter().enumerate().all(|(i, p)| in_place(i, p) || hole_ok && p.is_none());
        full &= first.is_multiple_of(n) || self.wrong(Mutation::AllValidUnaligned);
        if self.wrong(Mutation::AllValidEqualAttributes) {
            full &= pages.iter().flatten().all(|p| p.attr == pte.attr);
        }
        let complete = self.config.kind == TlbKind::Complete;
        if full {
            self.drop_covered(asid, v, k);
            if !self.wrong(Mutation::AllValidNotPreloaded) {
                self.counts.preloaded += n - 1;
            }
            let subs = pages.iter().map(|p| p.map(|p| Sub { pfn: p.pfn, attr: p.attr, modified: false })).collect();
            return self.place(asid, v, k, false, subs, if complete { None } else { Some(true) });
        }
        if self.wrong(Mutation::AllValidMerges)
            && let Some(slot) = self.mergeable(asid, v, pte)
        {
            let e = self.slots[slot].as_mut().expect("just found");
            let at = e.at(v);
            e.subs[at] = Some(Sub { pfn: pte.pfn, attr: pte.attr, modified: false });
            return Some(slot);
        }
        let subs = self.one_hot(v, Some(Sub { pfn: pte.pfn, attr: pte.attr, modified: false }));
        let enabled = aligned && self.wrong(Mutation::AllValidOnePageEnabled);
        self.place(asid, v, k, false, subs, if complete { None } else { Some(enabled) })
    }

    /// T94-22, after the missed page was filled.
    fn preload(&mut self, asid: Asid, v: Vpn, pte: Pte, table: &dyn PageTableView) {
        let (n, k) = (self.config.factor, self.config.k());
        if self.config.preload == Preload::None || !self.config.subblocks() || self.config.all_valid {
            return;
        }
        if self.config.kind == TlbKind::Integrated && self.config.fitting(pte.order) > 0 {
            return;
        }
        let same_only = self.config.preload == Preload::SameEntry && self.config.kind != TlbKind::Complete;
        let aligned = v.0 % n == pte.pfn.0 % n;
        if same_only && !aligned && !self.wrong(Mutation::PreloadSameEntryAsRegion) {
            return;
        }
        let assisted = self.config.assisted_check && !self.wrong(Mutation::PreloadOfAssistedReadsAll);
        self.counts.extra_pte_reads += if assisted { (n - 1).min(1) } else { n - 1 };
        let base = v.align_down(u32::from(k));
        let mut region: Vec<Vpn> = (0..n).map(|i| Vpn(base.0 + i)).collect();
        if self.wrong(Mutation::PreloadDescending) {
            region.reverse();
        }
        for w in region {
            if w == v {
                continue;
            }
            let Some(q) = table.pte(asid, w) else { continue };
            if self.find(asid, w).is_some() {
                continue;
            }
            let joins = w.0 % n == q.pfn.0 % n
                && q.pfn.0 / n == pte.pfn.0 / n
                && (q.attr == pte.attr || self.wrong(Mutation::PreloadIgnoresAttributes));
            if same_only && !joins && !self.wrong(Mutation::PreloadSameEntryAsRegion) {
                continue;
            }
            let Some((slot, merged)) = self.fill(asid, w, q, table) else {
                if self.wrong(Mutation::PreloadLeavesOutInsteadOfEnding) {
                    continue;
                }
                return;
            };
            self.counts.preloaded += 1;
            if !merged {
                self.counts.fills += 1;
            }
            let now = self.tick();
            let (sets_used, renews) = (self.wrong(Mutation::PreloadSetsUsed), self.wrong(Mutation::PreloadRenewsLru));
            let e = self.slots[slot].as_mut().expect("just filled");
            e.used |= sets_used;
            if renews {
                e.touched = now;
            }
        }
    }

    fn count_miss(&mut self, at: Lookup, pte: Pte, subblock: bool) {
        self.counts.misses += 1;
        match at.kind {
            Access::Fetch => self.counts.fetch_misses += 1,
            Access::Load => self.counts.load_misses += 1,
            Access::Store => self.counts.store_misses += 1,
        }
        if at.kind != Access::Fetch {
            self.counts.data_misses += 1;
        }
        if subblock {
            self.counts.subblock_misses += 1;
        } else {
            self.counts.tag_misses += 1;
        }
        if pte.order > 0 {
            self.counts.superpage_misses += 1;
        }
    }

    /// The entry of the page that missed, just filled, counts as just used.
    fn hold(&mut self, slot: usize, merged: bool) {
        if self.wrong(Mutation::PreloadForgetsToHold) || self.wrong(Mutation::LruIgnoresFillByMerge) && merged {
            return;
        }
        let now = self.tick();
        let e = self.slots[slot].as_mut().expect("just filled");
        e.used = true;
        e.touched = now;
    }

    /// One lookup (T94-9).
    pub fn lookup(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView) -> Outcome {
        self.current = self.current.or(Some(at.asid));
        if let Some(slot) = self.find(at.asid, at.vpn) {
            self.touch(slot, at, true, false);
            return Outcome::Hit;
        }
        let other_space = self.wrong(Mutation::SubblockMissOfOtherSpace);
        let tag_there = self.config.subblocks()
            && !self.wrong(Mutation::TagMissOnly)
            && self.slots.iter().flatten().any(|e| e.has_tag(if other_space { e.asid } else { at.asid }, at.vpn));
        self.count_miss(at, pte, tag_there);
        let (slot, merged) = self.fill(at.asid, at.vpn, pte, table).expect("nothing is kept");
        self.counts.fills += 1;
        self.counts.merges += u64::from(merged);
        if self.wrong(Mutation::TouchBeforePreload) {
            self.touch(slot, at, false, merged);
        }
        let was_used = self.slots[slot].as_ref().expect("just filled").used;
        self.hold(slot, merged);
        self.keep = Some(slot);
        self.preload(at.asid, at.vpn, pte, table);
        self.keep = None;
        // Only a mistake has the page elsewhere, or gone.
        if let Some(slot) = self.find(at.asid, at.vpn) {
            if !self.wrong(Mutation::PreloadKeepsHolding) {
                self.slots[slot].as_mut().expect("just found").used &= was_used;
            }
            if !self.wrong(Mutation::TouchBeforePreload) {
                self.touch(slot, at, false, merged);
            }
        }
        if tag_there { Outcome::SubblockMiss } else { Outcome::TagMiss }
    }

    /// T94-18.
    pub fn invalidate_pages(&mut self, asid: Asid, pages: VpnRange) {
        if pages.pages == 0 {
            return;
        }
        let pages = if self.wrong(Mutation::InvalidateFirstPageOnly) { VpnRange::one(pages.start) } else { pages };
        let pages = if self.wrong(Mutation::InvalidateKeepsLast) && pages.pages > 1 {
            VpnRange { pages: pages.pages - 1, ..pages }
        } else {
            pages
        };
        let any_space = self.wrong(Mutation::InvalidateAllSpaces);
        let all_of_entry = self.wrong(Mutation::InvalidateWholeEntry);
        let by_entry = self.wrong(Mutation::InvalidationsByEntry);
        for slot in &mut self.slots {
            let Some(e) = slot else { continue };
            if e.asid != asid && !any_space {
                continue;
            }
            if e.whole {
                let (first, last) = (e.base.0, e.base.0 + (1 << e.order) - 1);
                if first < pages.start.0 + pages.pages && pages.start.0 <= last {
                    *slot = None;
                    self.counts.invalidations += 1;
                }
                continue;
            }
            let hit: Vec<usize> =
                (0..e.subs.len()).filter(|&i| e.subs[i].is_some() && pages.contains(Vpn(e.base.0 + i as u64))).collect();
            if hit.is_empty() {
                continue;
            }
            if self.config.all_valid || all_of_entry {
                let gone = e.translations();
                *slot = None;
                self.counts.invalidations += if by_entry { 1 } else { gone };
                continue;
            }
            for i in hit {
                e.subs[i] = None;
                self.counts.invalidations += 1;
            }
            if e.subs.iter().all(Option::is_none) {
                *slot = None;
            }
        }
    }

    /// T94-42: the range is mapped by base pages now.
    pub fn split(&mut self, asid: Asid, pages: VpnRange) {
        if self.wrong(Mutation::DemoteForgotten) || pages.pages == 0 {
            return;
        }
        let smallest = match self.config.kind {
            TlbKind::Superpage => 0,
            TlbKind::Integrated => self.config.k(),
            _ => return,
        };
        let (any_space, base_too) = (self.wrong(Mutation::DemoteOfAllSpaces), self.wrong(Mutation::DemoteDropsBasePages));
        for slot in &mut self.slots {
            if let Some(e) = slot
                && (e.asid == asid || any_space)
                && (e.order > smallest || base_too)
                && e.base.0 < pages.start.0 + pages.pages
                && pages.start.0 < e.base.0 + (1 << e.order)
            {
                self.counts.invalidations += e.translations();
                *slot = None;
            }
        }
    }

    /// T94-18, the whole space.
    pub fn drop_space(&mut self, asid: Asid) {
        if !self.wrong(Mutation::SpaceKeepsEntries) {
            self.drop_all(|e| e.asid == asid);
        }
    }

    fn drop_all(&mut self, goes: impl Fn(&Entry) -> bool) {
        let by_entry = self.wrong(Mutation::InvalidationsByEntry);
        for slot in &mut self.slots {
            if let Some(e) = slot
                && goes(e)
            {
                self.counts.invalidations += if by_entry { 1 } else { e.translations() };
                *slot = None;
            }
        }
    }

    /// Another space runs.
    pub fn switch_to(&mut self, to: Asid) {
        let drops =
            !self.config.process_ids && !self.wrong(Mutation::SwitchKeepsEntries) || self.wrong(Mutation::SwitchAlwaysDrops);
        if self.current != Some(to) && drops {
            self.drop_all(|_| true);
        }
        self.current = Some(to);
    }

    /// The valid entries by slot.
    pub fn views(&self) -> Vec<EntryView> {
        let view = |(slot, e): (usize, &Option<Entry>)| {
            let e = e.as_ref()?;
            let page = |(i, s): (usize, &Option<Sub>)| {
                let s = (*s)?;
                Some((i as u64, Translation { pfn: s.pfn, attr: s.attr }, s.modified))
            };
            Some(EntryView {
                slot,
                asid: e.asid,
                base: e.base,
                order: e.order,
                pages: e.subs.iter().enumerate().filter_map(page).collect(),
                sb_enabled: e.sb_enabled,
                used: (self.config.replacement == Replacement::UsedBit).then_some(e.used),
            })
        };
        self.slots.iter().enumerate().filter_map(view).collect()
    }

    /// The slot that translates `v`.
    pub fn slot_of(&self, asid: Asid, v: Vpn) -> Option<usize> {
        self.find(asid, v)
    }

    /// How many entries are valid.
    pub fn valid_entries(&self) -> usize {
        self.slots.iter().flatten().count()
    }
}

fn per_size(config: &TlbConfig) -> bool {
    config.kind == TlbKind::Superpage && config.lookup == SizeLookup::PerSize
}

/// The oracle behind the contract, so that a driver can put an oracle, or a mutant of it, where a design stands.
/// It never claims that a lookup is quiet.
impl Tlb for PlainTlb {
    fn access(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, _: &mut Noise) -> Answer {
        Answer { outcome: self.lookup(at, pte, table), quiet: false }
    }
    fn invalidate(&mut self, asid: Asid, pages: VpnRange, _: &mut Noise) {
        self.invalidate_pages(asid, pages);
    }
    fn demote(&mut self, asid: Asid, pages: VpnRange, _: &mut Noise) {
        self.split(asid, pages);
    }
    fn invalidate_space(&mut self, asid: Asid, _: &mut Noise) {
        self.drop_space(asid);
    }
    fn switch(&mut self, to: Asid, _: &mut Noise) {
        self.switch_to(to);
    }
    fn probe(&self, asid: Asid, vpn: Vpn, _: Access) -> Option<Translation> {
        let slot = self.find(asid, vpn)?;
        Some(self.slots[slot].as_ref()?.translate(vpn))
    }
    fn entries(&self) -> Vec<EntryView> {
        self.views()
    }
    fn counts(&self) -> &TlbCounts {
        &self.counts
    }
}
