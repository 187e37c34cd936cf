//! The range TLB (RMM15-2): a fully associative array of range translations. Ranges of one process are disjoint, so that at most one
//! contains a page.

use super::{EntryView, Range};
use crate::addr::{Asid, Vpn, VpnRange};
use crate::counts::RangeCounts;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

#[derive(Clone, Copy)]
struct Slot {
    asid: Asid,
    range: Range,
    /// Time of its last use.
    last: u64,
}

/// The array.
pub(super) struct RangeTlb {
    slots: Box<[Option<Slot>]>,
    /// Uses so far.
    clock: u64,
    /// The range used last, if it is still there (RMM15-10).
    newest: Option<usize>,
    /// Whether the range used last is looked at first.
    mru_pointer: bool,
    /// Victims are drawn from it; otherwise the one not used for longest goes (RMM15-11, AMB-80).
    random: Option<Pcg64Mcg>,
    process_ids: bool,
}

impl RangeTlb {
    pub fn new(entries: usize, random_seed: Option<u64>, mru_pointer: bool, process_ids: bool) -> RangeTlb {
        RangeTlb {
            slots: vec![None; entries].into(),
            clock: 0,
            newest: None,
            mru_pointer,
            random: random_seed.map(Pcg64Mcg::seed_from_u64),
            process_ids,
        }
    }

    fn matching(&self, asid: Asid, vpn: Vpn) -> Option<usize> {
        let mut hits =
            (0..self.slots.len()).filter(|&i| self.slots[i].is_some_and(|s| s.asid == asid && s.range.contains(vpn)));
        let hit = hits.next();
        debug_assert_eq!(hits.next(), None, "RMM15-2: two ranges contain {asid:?} {vpn:?}");
        hit
    }

    /// The range that contains a page, changing nothing.
    pub fn probe(&self, asid: Asid, vpn: Vpn) -> Option<Range> {
        self.matching(asid, vpn).and_then(|i| self.slots[i]).map(|s| s.range)
    }

    fn use_slot(&mut self, i: usize) {
        self.clock += 1;
        if let Some(slot) = &mut self.slots[i] {
            slot.last = self.clock;
        }
        self.newest = Some(i);
    }

    /// Looks a page up; a hit is a use.
    pub fn lookup(&mut self, asid: Asid, vpn: Vpn, counts: &mut RangeCounts) -> Option<Range> {
        let hit = self.matching(asid, vpn);
        let by_pointer = self.mru_pointer && hit.is_some() && hit == self.newest;
        *(if by_pointer { &mut counts.mru_hits } else { &mut counts.full_searches }) += 1;
        *(if hit.is_some() { &mut counts.hits } else { &mut counts.misses }) += 1;
        let i = hit?;
        self.use_slot(i);
        self.slots[i].map(|s| s.range)
    }

    /// Takes in a range that the range-table walker found. What it overlaps, the same range when it was shorter, goes.
    pub fn fill(&mut self, asid: Asid, range: Range, counts: &mut RangeCounts) {
        self.drop_where(|s| s.asid == asid && s.range.virtual_pages().overlaps(&range.virtual_pages()));
        let free = self.slots.iter().position(Option::is_none);
        let victim = free.unwrap_or_else(|| {
            counts.evictions += 1;
            match &mut self.random {
                Some(rng) => ((u64::from(rng.next_u32()) * self.slots.len() as u64) >> 32) as usize,
                None => (0..self.slots.len()).min_by_key(|&i| self.slots[i].map(|s| s.last)).expect("it has entries"),
            }
        });
        self.slots[victim] = Some(Slot { asid, range, last: 0 });
        self.use_slot(victim);
    }

    fn drop_where(&mut self, goes: impl Fn(&Slot) -> bool) -> u64 {
        let mut gone = 0;
        for (i, slot) in self.slots.iter_mut().enumerate() {
            if slot.as_ref().is_some_and(&goes) {
                *slot = None;
                gone += 1;
                if self.newest == Some(i) {
                    self.newest = None;
                }
            }
        }
        gone
    }

    /// Drops ranges that share a page with these, whole (RMM15-12), and returns how many there were.
    pub fn invalidate(&mut self, asid: Asid, pages: VpnRange) -> u64 {
        self.drop_where(|s| s.asid == asid && s.range.virtual_pages().overlaps(&pages))
    }

    pub fn drop_space(&mut self, asid: Asid) -> u64 {
        self.drop_where(|s| s.asid == asid)
    }

    /// RMM15-13.
    pub fn switch(&mut self, to: Asid) -> u64 {
        if self.process_ids { 0 } else { self.drop_where(|s| s.asid != to) }
    }

    /// Its entries: `order` is that of the smallest power of two that holds the range, `pages` its first page and its last.
    pub fn views(&self, before: usize, into: &mut Vec<EntryView>) {
        for (i, slot) in self.slots.iter().enumerate() {
            let Some(Slot { asid, range, .. }) = *slot else { continue };
            let last = range.pages - 1;
            let page = |offset| (offset, range.translate(Vpn(range.first.0 + offset)), false);
            into.push(EntryView {
                slot: before + i,
                asid,
                base: range.first,
                order: range.pages.next_power_of_two().trailing_zeros() as u8,
                pages: if last == 0 { vec![page(0)] } else { vec![page(0), page(last)] },
                sb_enabled: None,
                used: None,
            });
        }
    }
}
