//! The array of a TLB: tags, validity and replacement together, with the entry contents of one design. Designs are composed
//! of it; it knows nothing of pages joining an entry.

use super::keys::Geometry;
use super::replacement::{Cleared, Replacement};
use super::tag_index::{NONE, Tag, TagIndex};
use super::{Lookup, Noise, Outcome, Pte, filled};
use crate::addr::{Asid, Vpn, VpnRange};
use crate::counts::TlbCounts;
use crate::event::Kind;
use crate::params::Params;

/// Largest order whose pages are named one by one when an entry goes; beyond, naming all pages is cheaper.
const NAMED_ORDER: u8 = 9;

/// Largest order of an entry whose used bit may wait until somebody needs it: then all its pages are looked at. The pages of larger
/// entries are named.
const LAZY_ORDER: u8 = 4;

/// What an entry holds, besides its tag.
pub(super) trait Contents: Copy + Default + Send {
    /// Valid base pages as offsets from the tag's first page; `None`: the entry translates all that its tag covers, as one.
    fn subblocks(&self) -> Option<u64>;
    /// Which subblocks go when `mask`, some of the valid ones, must go.
    fn falling(&self, mask: u64) -> u64 {
        mask
    }
    /// Makes subblocks invalid, not all of them.
    fn clear(&mut self, _mask: u64) {}
}

/// Entries in sets.
pub(super) struct Store<C> {
    index: TagIndex,
    replacement: Replacement,
    contents: Box<[C]>,
    geometry: Geometry,
    /// Valid entries by order.
    live: [u32; 64],
    /// Valid entries above [`LAZY_ORDER`].
    large: u32,
    process_ids: bool,
    /// Used bits may be cleared without naming the pages: whatever begins or joins an entry also sets its used bit, so that a lookup
    /// after the clearing, of a page that the entry has, was a lookup of the entry.
    lazy: bool,
    /// Room for the slots an operation works on.
    found: Vec<u32>,
    /// If entries are dropped because larger ones cover them: how many small ones lie in each region, by its hash.
    small: Option<Box<[u32; REGIONS]>>,
}

/// Regions are of `2^REGION` pages, the usual superpage; entries below are small.
const REGION: u8 = 4;
/// Counters of [`Store::small`]; most regions find theirs to be zero.
const REGIONS: usize = 1024;

/// The counter of a region.
#[inline]
fn region(asid: Asid, vpn: Vpn) -> usize {
    let key = vpn.0 >> REGION ^ u64::from(asid.0).rotate_left(40);
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - REGIONS.trailing_zeros())) as usize
}

impl<C: Contents> Store<C> {
    /// From the keys `replacement`, `process_ids` and, under used bits, `fill_sets_used`.
    pub fn new(geometry: Geometry, params: &Params, seed: u64) -> Store<C> {
        Store {
            index: TagIndex::new(geometry.entries()),
            replacement: Replacement::new(geometry, params, seed),
            contents: vec![C::default(); geometry.entries()].into(),
            geometry,
            live: [0; 64],
            large: 0,
            process_ids: params.flag("process_ids"),
            lazy: params.text("replacement") == "used-bit" && params.flag("fill_sets_used"),
            found: Vec::new(),
            small: None,
        }
    }

    /// Larger entries will cover smaller ones, so [`Store::drop_overlapping`] is asked at fills and had better be quick. Before the first entry.
    pub fn covered(&mut self) {
        self.small = Some(filled(0));
    }

    /// Pages can come into an entry without being accessed.
    pub fn preloads(&mut self) {
        self.lazy = false;
    }

    /// A page of this slot was looked up then: see [`super::Tlb::looked_up`].
    pub fn looked_up(&mut self, slot: u32, when: u32) {
        self.replacement.looked_up(slot, when);
    }

    /// Number of slots.
    pub fn entries(&self) -> usize {
        self.geometry.entries()
    }

    /// Valid entries whose tag covers `2^order` pages.
    #[inline]
    pub fn live(&self, order: u8) -> u32 {
        self.live[usize::from(order & 63)]
    }

    #[inline]
    pub fn first(&self, tag: Tag) -> u32 {
        self.index.first(tag)
    }
    #[inline]
    pub fn next(&self, slot: u32) -> u32 {
        self.index.next(slot)
    }
    /// Tag of a valid slot.
    #[inline]
    pub fn tag(&self, slot: u32) -> Tag {
        self.index.tag(slot)
    }
    #[inline]
    pub fn get(&self, slot: u32) -> &C {
        &self.contents[slot as usize]
    }
    /// Contents to change. Clearing subblocks is the business of [`Store::invalidate`], which names their pages.
    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> &mut C {
        &mut self.contents[slot as usize]
    }
    pub fn used(&self, slot: u32) -> Option<bool> {
        self.replacement.used(slot)
    }
    /// Takes back the used bit of an entry that was not accessed since it got it, so that no lookup was quiet.
    pub fn clear_used(&mut self, slot: u32) {
        self.replacement.clear_used(slot);
    }

    /// The one slot with this tag, for designs that never have two (T94-17).
    #[inline]
    pub fn find(&self, tag: Tag) -> Option<u32> {
        let slot = self.index.first(tag);
        if slot == NONE {
            return None;
        }
        debug_assert_eq!(self.index.next(slot), NONE, "T94-17: two entries match {tag:?}");
        Some(slot)
    }

    /// Valid slots, ascending.
    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.entries() as u32).filter(|&slot| self.replacement.is_valid(slot))
    }

    /// A hit on this slot.
    #[inline]
    pub fn touch(&mut self, slot: u32, noise: &mut Noise) {
        if let Some(former) = self.replacement.touch(slot) {
            self.name(former, noise);
        }
    }

    /// The access that missed, repeated on the entry it filled (AMB-3). Says whether another one would change nothing here.
    #[inline]
    pub fn replay(&mut self, slot: u32, noise: &mut Noise) -> bool {
        let (former, settled) = self.replacement.replay(slot);
        if let Some(former) = former {
            self.name(former, noise);
        }
        settled
    }

    /// Writes a new entry over a victim. `None` if the victim would be `keep`: then nothing was written.
    pub fn place(
        &mut self,
        tag: Tag,
        contents: C,
        keep: Option<u32>,
        counts: &mut TlbCounts,
        noise: &mut Noise,
    ) -> Option<u32> {
        let set = tag.group() as usize & (self.geometry.sets - 1);
        let Store { index, replacement, contents: held, .. } = self;
        let looked_up = |slot: u32, since: u32, noise: &Noise| {
            let tag = index.tag(slot);
            match held[slot as usize].subblocks() {
                None if tag.order() == 0 => noise.looked_up_one(tag.asid(), tag.base(), since),
                _ if tag.order() > LAZY_ORDER => false,
                mask => noise.looked_up(tag.asid(), tag.base(), mask.unwrap_or_else(|| ones(1 << tag.order())), since),
            }
        };
        let victim = replacement.victim(set, self.lazy, noise, looked_up);
        match victim.cleared {
            Cleared::No => {}
            Cleared::Quietly => self.name_large(set, noise),
            Cleared::Aloud => self.name_set(set, noise),
        }
        let slot = victim.slot;
        if keep == Some(slot) {
            return None;
        }
        let former = if victim.valid {
            counts.evictions += 1;
            self.name(slot, noise);
            let old = self.index.tag(slot);
            self.index.remove(slot);
            if old.order() != tag.order() || self.small.is_some() {
                self.count(old, u32::wrapping_sub);
                self.count(tag, u32::wrapping_add);
            }
            self.replacement.refilled(slot)
        } else {
            self.count(tag, u32::wrapping_add);
            self.replacement.filled(slot)
        };
        self.contents[slot as usize] = contents;
        self.index.insert(slot, tag);
        if let Some(former) = former {
            self.name(former, noise);
        }
        Some(slot)
    }

    /// Counts an entry that comes or goes.
    #[inline]
    fn count(&mut self, tag: Tag, change: impl Fn(u32, u32) -> u32) {
        let live = &mut self.live[usize::from(tag.order() & 63)];
        *live = change(*live, 1);
        self.large = change(self.large, u32::from(tag.order() > LAZY_ORDER));
        if let Some(small) = self.small.as_mut().filter(|_| tag.order() < REGION) {
            let small = &mut small[region(tag.asid(), tag.base())];
            *small = change(*small, 1);
        }
    }

    /// Makes a valid slot invalid.
    pub fn drop(&mut self, slot: u32, noise: &mut Noise) {
        self.name(slot, noise);
        self.count(self.index.tag(slot), u32::wrapping_sub);
        self.index.remove(slot);
        self.replacement.dropped(slot);
    }

    /// Lookups of the pages in this slot are quiet no more.
    #[inline]
    fn name(&self, slot: u32, noise: &mut Noise) {
        let tag = self.index.tag(slot);
        match self.contents[slot as usize].subblocks() {
            Some(mask) => noise.pages(tag.asid(), tag.base(), mask),
            None if tag.order() <= 6 => noise.pages(tag.asid(), tag.base(), ones(1 << tag.order())),
            None => self.name_large_entry(tag, noise),
        }
    }

    #[cold]
    fn name_large_entry(&self, tag: Tag, noise: &mut Noise) {
        if tag.order() > NAMED_ORDER {
            return noise.all();
        }
        for chunk in 0..1u64 << (tag.order() - 6) {
            noise.pages(tag.asid(), Vpn(tag.base().0 + 64 * chunk), !0);
        }
    }

    /// The used bits of this set were cleared. With one set that is every page there is.
    #[cold]
    fn name_set(&self, set: usize, noise: &mut Noise) {
        let Geometry { sets, ways } = self.geometry;
        if sets == 1 || ways > 16 {
            return noise.all();
        }
        // Used bits are cleared only when all entries of the set are valid.
        (set * ways..(set + 1) * ways).for_each(|slot| self.name(slot as u32, noise));
    }

    /// The used bits of this set were cleared, and those of entries that are not large wait.
    fn name_large(&self, set: usize, noise: &mut Noise) {
        if self.large > 0 {
            let slots = (set * self.geometry.ways..(set + 1) * self.geometry.ways).map(|slot| slot as u32);
            slots.filter(|&slot| self.index.tag(slot).order() > LAZY_ORDER).for_each(|slot| self.name(slot, noise));
        }
    }

    /// Finds the slots with tags of this order that share a page with the range.
    fn overlapping(&mut self, asid: Asid, range: VpnRange, order: u8) -> Vec<u32> {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        let live = u64::from(self.live(order));
        if live == 0 || range.pages == 0 {
            return found;
        }
        let (first, last) = (range.start.0 >> order, range.start.0.saturating_add(range.pages - 1) >> order);
        if last - first < live {
            for group in first..=last {
                let mut slot = self.index.first(Tag::of(asid, Vpn(group << order), order));
                while slot != NONE {
                    found.push(slot);
                    slot = self.index.next(slot);
                }
            }
        } else {
            let inside = |tag: Tag| tag.asid() == asid && tag.order() == order && (first..=last).contains(&tag.group());
            found.extend(self.slots().filter(|&slot| inside(self.index.tag(slot))));
        }
        found
    }

    /// Drops the entries of this order that share a page with the range, whole, and returns how many there were.
    pub fn drop_overlapping(&mut self, asid: Asid, range: VpnRange, order: u8, noise: &mut Noise) -> u64 {
        let of_one_region =
            order < REGION && range.pages <= 1 << REGION && range.start.offset_in(REGION.into()) + range.pages <= 1 << REGION;
        if let Some(small) = self.small.as_ref().filter(|_| of_one_region)
            && small[region(asid, range.start)] == 0
        {
            return 0;
        }
        let mut found = self.overlapping(asid, range, order);
        let dropped = found.len() as u64;
        found.drain(..).for_each(|slot| self.drop(slot, noise));
        self.found = found;
        dropped
    }

    /// Mappings in the range changed: drops what entries of this order know of them (T94-18). Returns how many translations
    /// went: subblocks, or entries without.
    pub fn invalidate(&mut self, asid: Asid, range: VpnRange, order: u8, noise: &mut Noise) -> u64 {
        let mut found = self.overlapping(asid, range, order);
        let mut gone = 0;
        for slot in found.drain(..) {
            let contents = &mut self.contents[slot as usize];
            let Some(valid) = contents.subblocks() else {
                self.drop(slot, noise);
                gone += 1;
                continue;
            };
            let base = self.index.tag(slot).base();
            let mask = valid & inside(range, base, order);
            if mask == 0 {
                continue;
            }
            let mask = contents.falling(mask);
            gone += u64::from(mask.count_ones());
            // Lookups of the pages that go would be forgotten with them.
            if let Some(since) = self.replacement.waits_since(slot)
                && noise.looked_up(asid, base, mask, since)
            {
                self.replacement.looked_up(slot, since);
            }
            if mask == valid {
                self.drop(slot, noise);
            } else {
                contents.clear(mask);
                noise.pages(asid, base, mask);
            }
        }
        self.found = found;
        gone
    }

    /// The process is gone, and its entries with it. Returns how many translations went: subblocks, or entries without.
    pub fn drop_space(&mut self, of: Asid, noise: &mut Noise) -> u64 {
        self.drop_where(|asid| asid == of, noise)
    }

    /// Another process runs. Without process ids what its predecessor left goes; returns how many translations did.
    pub fn switch(&mut self, to: Asid, noise: &mut Noise) -> u64 {
        if self.process_ids { 0 } else { self.drop_where(|asid| asid != to, noise) }
    }

    fn drop_where(&mut self, goes: impl Fn(Asid) -> bool, noise: &mut Noise) -> u64 {
        let mut gone = 0;
        for slot in 0..self.entries() as u32 {
            if self.replacement.is_valid(slot) && goes(self.index.tag(slot).asid()) {
                gone += self.contents[slot as usize].subblocks().map_or(1, |mask| u64::from(mask.count_ones()));
                self.drop(slot, noise);
            }
        }
        gone
    }
}

/// The lowest `n` bits, `n` up to 64.
#[inline]
pub(super) fn ones(n: u32) -> u64 {
    if n >= 64 { !0 } else { (1 << n) - 1 }
}

/// The pages of `range` in the group of `2^order` pages (at most 64) that begins at `base`.
fn inside(range: VpnRange, base: Vpn, order: u8) -> u64 {
    let n = 1u64 << order;
    let from = range.start.0.saturating_sub(base.0).min(n);
    let to = range.start.0.saturating_add(range.pages).saturating_sub(base.0).min(n);
    ones(to as u32) & !ones(from as u32)
}

/// Counts a miss by kind and outcome.
#[inline]
pub(super) fn count_miss(counts: &mut TlbCounts, at: Lookup, pte: Pte, outcome: Outcome) {
    counts.misses += 1;
    // Nobody can foresee the kind, so no branches.
    counts.fetch_misses += u64::from(at.kind == Kind::Fetch);
    counts.data_misses += u64::from(at.kind != Kind::Fetch);
    counts.load_misses += u64::from(at.kind == Kind::Load);
    counts.store_misses += u64::from(at.kind == Kind::Store);
    counts.subblock_misses += u64::from(outcome == Outcome::SubblockMiss);
    counts.tag_misses += u64::from(outcome != Outcome::SubblockMiss);
    counts.superpage_misses += u64::from(pte.order > 0);
}
