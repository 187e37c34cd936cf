//! Every TLB kind of T94-3 to T94-24, and the skewed one, as a vector of entries and linear scans.
//!
//! Where the specification is open:
//!
//! * OT-1 Slots. `slot = set * ways + way`; fully associative: the index. `per-size`: the arrays follow each other in
//!   ascending order of their size, so `slot = entries of the arrays before + set * ways + way`. The process id takes
//!   no part in the set index.
//! * OT-2 A set is `tag mod sets`, the tag of a superpage being its page number in units of its own size.
//! * OT-3 Each array of `per-size` has a random generator of its own, the i-th seeded with `seed + i`: separate
//!   hardware.
//! * OT-4 A miss is: look up; drop covered entries; choose a slot; write the entry with used clear; preload; repeat the
//!   access (AMB-3): recency, used if `fill_sets_used`, modified if a store. The repeated access comes last, as in the
//!   golden vectors.
//! * OT-5 While its handler preloads, the entry of the page that missed counts as just used (used set, newest of LRU,
//!   also if the page joined an old entry); before the access is repeated the used bit is as it was, unless a sweep
//!   cleared it. If an entry is needed and replacement still chooses that entry, the preload ends. Side effects of the
//!   choice (a sweep of used bits, a random draw) stay.
//! * OT-6 A preload goes through the region in ascending order. A translation that takes a new entry has the recency
//!   (LRU, FIFO) of that moment; one that joins an entry does not change recency. Neither sets used.
//! * OT-7 A page that the TLB already translates is not preloaded again and not counted in `preloaded`.
//! * OT-8 `fills`: one per miss, plus one per preloaded translation that takes a new entry. `merges`: misses that
//!   joined an entry. A preloaded translation that joins is counted in `preloaded` only. So `fills - merges` is the
//!   number of entries taken, and `misses + preloaded` the number of page table entries whose translation was loaded.
//! * OT-9 `extra_pte_reads`: `n - 1` for each miss that looks for pages to preload, mapped or not, present or not; at
//!   most 1 with `assisted_check`. `same-entry` (partial, integrated) and all-valid do not look when the missed page is
//!   not aligned with its frame, because nothing could join. After a miss that filled a superpage of n pages or more
//!   there is no look (integrated). `assisted_check` belongs to preload; all-valid reads `n - 1`.
//! * OT-10 `invalidations` counts translations, for every way to invalidate (page, range, space, switch, demotion): one
//!   per valid subblock, one per superpage. An all-valid entry goes whole and counts all its pages.
//! * OT-11 `split_*` of a fill that begins a new entry although an entry of that space has its tag, by the first
//!   condition of T94-7 that fails: the page is not aligned, or no entry of the tag is enabled: `split_unaligned`; an
//!   enabled entry has the same frame group: `split_attributes`; else `split_frames`. Only for partial and integrated;
//!   preloaded ones count too, if they get their entry; never for all-valid nor for superpages.
//! * OT-12 `superpage_misses`: the page table entry of the missed page has an order above 0. This holds for all kinds.
//! * OT-13 `SubblockMiss`: before the fill some entry of that space has the tag `v div n` (subblock kinds); a large
//!   integrated superpage is not such an entry (it would have been a hit).
//! * OT-14 All-valid. An entry holds the whole region or one page. For one page `sb_enabled` is false even if the page
//!   is aligned, because enabled means that all subblocks are valid. One-page entries never merge. A fill of the whole
//!   region first drops the one-page entries of the region (`covered_drops`); its other n - 1 translations count as
//!   `preloaded`. Invalidating a page drops a full entry whole. Factor 1: every fill is a full entry.
//! * OT-15 Integrated. A mapping gets the largest configured size that fits, as in the superpage kind; sizes are 4 KB,
//!   n pages, larger ones. A large entry shows one page at offset 0 with its one modified bit, and no `sb_enabled`. A
//!   medium fill that merges counts as a merge; modified bits of the pages already there stay. It preloads nothing,
//!   because one page table entry holds everything.
//! * OT-16 `switch` to the space that already runs does nothing. The space of the first access or switch is the first
//!   to run.
//! * OT-17 `lookups` stays 0: the machine counts it.
//! * OT-18 `demote` drops entries that overlap the range and are larger than a base page (superpage) or than n pages
//!   (integrated). Subblocks are base translations and stay, also those of a medium superpage.
//! * OT-19 Skewed. In all but the set as the single kind. In each way a page has one slot, `set * ways + way`, and the
//!   ways take the place of a set in ascending order: the lowest entry is that of the lowest way, and a sweep clears
//!   the used bits of these slots alone. With `b` bits per set, the page number is cut into pieces of `b` bits, from
//!   the lowest on. The set is the lowest piece XOR the fold (XOR) of the others, in way 0. In each further way the
//!   fold is first replaced by its image: one bit to the right, and on top the XOR of what were its highest and lowest
//!   bit. A piece of one bit is its own image. One set: no bits, set 0.

mod config;
mod fill;
mod mutation;
mod skew;
mod slots;

pub use config::{Preload, Replacement, SizeLookup, TlbConfig, TlbKind};
pub use mutation::Mutation;

use super::plru::Tree;
use farreach_hw::tlb::{Answer, Capabilities, EntryView, Lookup, OnDemotion, OnSwitch, Outcome, Tlb, Unfiltered};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind as Access;
use farreach_types::translation::{Attr, PageTableView, Pte, Translation};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

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
    /// Index in `subs` of page `v`, which is inside the tag.
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
    /// Of tree-PLRU: the sets, each as its first slot and its tree.
    trees: Vec<(usize, Tree)>,
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
            trees: if config.replacement == Replacement::TreePlru { trees(&config) } else { Vec::new() },
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

    /// The same TLB with a deliberate fault.
    pub fn mutant(config: TlbConfig, mutation: Mutation) -> PlainTlb {
        PlainTlb { mutation: Some(mutation), ..PlainTlb::new(config) }
    }

    fn wrong(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
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
        // Only a faulty TLB has the page elsewhere, or not at all.
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
            let hit: Vec<usize> = (0..e.subs.len())
                .filter(|&i| e.subs[i].is_some() && pages.contains(Vpn(e.base.0 + i as u64)))
                .collect();
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

    /// The range is now mapped by base pages (T94-42).
    pub fn split(&mut self, asid: Asid, pages: VpnRange) {
        if self.wrong(Mutation::DemoteForgotten) || pages.pages == 0 {
            return;
        }
        let smallest = match self.config.kind {
            TlbKind::Superpage => 0,
            TlbKind::Integrated => self.config.k(),
            _ => return,
        };
        let (any_space, base_too) =
            (self.wrong(Mutation::DemoteOfAllSpaces), self.wrong(Mutation::DemoteDropsBasePages));
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
        let drops = !self.config.process_ids && !self.wrong(Mutation::SwitchKeepsEntries)
            || self.wrong(Mutation::SwitchAlwaysDrops);
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

/// The sets of all arrays, with their trees.
fn trees(config: &TlbConfig) -> Vec<(usize, Tree)> {
    let sets = config.arrays().into_iter().flat_map(|(first, entries)| {
        let ways = if config.ways == 0 { entries } else { config.ways };
        (first..first + entries).step_by(ways).map(move |first| (first, Tree::new(ways)))
    });
    sets.collect()
}

fn per_size(config: &TlbConfig) -> bool {
    config.kind == TlbKind::Superpage && config.lookup == SizeLookup::PerSize
}

/// The oracle behind the contract, so that a driver can use an oracle, or a faulty one, in place of a design.
/// It never claims that a lookup is filtered.
impl Tlb for PlainTlb {
    fn access(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, _: &mut Unfiltered) -> Answer {
        Answer { outcome: self.lookup(at, pte, table), filterable: false }
    }
    fn invalidate(&mut self, asid: Asid, pages: VpnRange, _: &mut Unfiltered) {
        self.invalidate_pages(asid, pages);
    }
    fn invalidate_space(&mut self, asid: Asid, _: &mut Unfiltered) {
        self.drop_space(asid);
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

impl Capabilities for PlainTlb {
    fn on_demotion(&mut self) -> Option<&mut dyn OnDemotion> {
        Some(self)
    }
    fn on_switch(&mut self) -> Option<&mut dyn OnSwitch> {
        Some(self)
    }
}

impl OnDemotion for PlainTlb {
    fn demote(&mut self, asid: Asid, pages: VpnRange, _: &mut Unfiltered) {
        self.split(asid, pages);
    }
}

impl OnSwitch for PlainTlb {
    fn switch(&mut self, to: Asid, _: &mut Unfiltered) {
        self.switch_to(to);
    }
}
