//! The array of a TLB: tags, validity and replacement together, with the entry contents of one design. Joining of pages
//! to an entry is left to the designs.

mod fill_order;
pub(in crate::tlb) mod geometry;
mod invalidation;
pub(in crate::tlb) mod numbers;
pub mod policies;
mod recency;
pub(in crate::tlb) mod replacement;
pub(in crate::tlb) mod tag_index;
mod time_queue;

use crate::tlb::contract::{Lookup, Outcome};
use crate::tlb::filter::Unfiltered;
use crate::tlb::filter::times::LastLookups;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::Pte;
use geometry::{Geometry, SetFunction};
use policies::{Access, Array, Listed};
use replacement::{Replacement, Slot};
use std::ops::Range;
use tag_index::{NONE, Node, Tag, TagIndex};

/// Largest order whose pages are reported one by one when an entry is dropped; beyond, reporting all pages is cheaper.
const MAX_LISTED_ORDER: u8 = 9;

/// The contents of an entry, besides its tag.
pub(in crate::tlb) trait Contents: Copy + Default + Send {
    /// Valid base pages as offsets from the tag's first page; `None`: the entry translates all that its tag covers, as
    /// one.
    fn subblocks(&self) -> Option<u64>;
    /// The subblocks to drop when `mask`, some of the valid ones, must be dropped.
    fn falling(&self, mask: u64) -> u64 {
        mask
    }
    /// Makes subblocks invalid, not all of them.
    fn clear(&mut self, _mask: u64) {}
}

/// An entry, besides its tag.
#[derive(Clone, Copy, Default)]
struct Entry<C> {
    contents: C,
    /// The parts of the tag's pages ([`Tag::part`]) that the filter may hold: those accessed here since the entry was
    /// filled or last reported. No other page of the entry was ever filtered. So only these need be reported when the
    /// entry is dropped, and only these can have lookups that the entry did not see.
    filtered_parts: u64,
    /// The used bit (T94-14). Other policies do not look at it.
    used: bool,
}

impl<C> Slot for Node<Entry<C>> {
    #[inline(always)]
    fn is_valid(&self) -> bool {
        Node::is_valid(self)
    }
    #[inline(always)]
    fn used(&mut self) -> &mut bool {
        &mut self.entry.used
    }
    #[inline(always)]
    fn used_since(&self, since: u64, lookups: &LastLookups) -> bool {
        let (tag, parts) = (self.tag, self.entry.filtered_parts);
        debug_assert!(parts == 0 || tag.part_order() == 0, "large parts are reported when the used bit is cleared");
        lookups.any_since(since, tag.asid(), tag.base(), parts)
    }
    #[inline(always)]
    fn last_use(&self, known: u64, lookups: &LastLookups) -> u64 {
        let Node { tag, entry, .. } = self;
        lookups.last_of(known, tag.asid(), tag.base(), entry.filtered_parts, tag.part_order())
    }
}

/// Entries in sets.
pub(in crate::tlb) struct Store<C> {
    index: TagIndex<Entry<C>>,
    replacement: Replacement,
    geometry: Geometry,
    /// Valid entries by order.
    live: [u32; 64],
    /// Whether an entry had parts of more than one page.
    has_large_parts: bool,
    process_ids: bool,
    /// Used bits may be cleared without reporting the pages. Beginning or joining an entry sets its used bit, so a
    /// later lookup of its pages was a lookup of the entry. Entries with parts of several pages are reported all the
    /// same.
    checks_lookups_late: bool,
    /// The tag that was evicted last.
    last_victim: Tag,
    /// Room for the slots an operation works on.
    found: Vec<u32>,
}

impl<C: Contents> Store<C> {
    /// From the keys `replacement`, `process_ids` and, under used bits, `fill_sets_used`.
    pub fn new(geometry: Geometry, params: &Params, seed: u64) -> Result<Store<C>, String> {
        let checks_lookups_late = params.text("replacement") == "used-bit"
            && params.flag("fill_sets_used")
            && geometry.function != SetFunction::Skewed;
        let replacement = Replacement::new(geometry, params, seed)?;
        Ok(Store { checks_lookups_late, ..Store::with(geometry, replacement, params) })
    }

    /// As [`Store::new`], with the policy that this key names, and used bits that are reported when they are cleared.
    pub fn with_policy(geometry: Geometry, key: &str, params: &Params, seed: u64) -> Result<Store<C>, String> {
        Ok(Store::with(geometry, Replacement::by_name(geometry, key, params.text(key), seed)?, params))
    }

    /// As [`Store::new`], with a policy of the registry, for an array whose lookups are never filtered.
    pub fn with_listed(geometry: Geometry, policy: &Listed, params: &Params, seed: u64) -> Result<Store<C>, String> {
        Ok(Store::with(geometry, (policy.build)(&Array { geometry, params, seed, listed: policy })?, params))
    }

    fn with(geometry: Geometry, replacement: Replacement, params: &Params) -> Store<C> {
        Store {
            index: TagIndex::new(geometry.entries()),
            replacement,
            geometry,
            live: [0; 64],
            has_large_parts: false,
            process_ids: params.flag("process_ids"),
            checks_lookups_late: false,
            last_victim: Tag::of(Asid(0), Vpn(0), 0),
            found: Vec::new(),
        }
    }

    /// Entries for groups of this size are filled, which drop those of smaller groups within.
    pub fn fills_over(&mut self, order: u8) {
        self.index.count_within(order);
    }

    /// The tag that was evicted last.
    pub fn last_victim(&self) -> Tag {
        self.last_victim
    }

    /// Whether pages can enter an entry without being accessed.
    pub fn preloads(&mut self) {
        self.checks_lookups_late = false;
    }

    /// Whether victims depend on uses: see [`crate::tlb::Timed`].
    pub fn follows_uses(&self) -> bool {
        self.replacement.has_used_bits() || self.orders_uses()
    }
    /// Whether they depend on the order of uses.
    pub fn orders_uses(&self) -> bool {
        self.replacement.orders_uses()
    }

    /// Notes the time of a lookup of this part of a slot: see [`crate::tlb::Timed`].
    pub fn note_lookup(&mut self, slot: u32, part: u64, when: u64) {
        let Entry { filtered_parts, used, .. } = &mut self.index.get_mut(slot).entry;
        if *filtered_parts & part != 0 {
            self.replacement.learn(slot, used, |since| when >= since, |known| known.max(when));
        }
    }

    /// Lookups from now on are those of another TLB: takes over the last that were its own, and reports all pages.
    pub fn settle(&mut self, unfiltered: &mut Unfiltered) {
        for slot in 0..self.entries() as u32 {
            let node = self.index.get_mut(slot);
            if !node.is_valid() || node.entry.filtered_parts == 0 {
                continue;
            }
            if let Some(lookups) = unfiltered.last_lookups() {
                let (copy, large) = (*node, node.tag.part_order() > 0);
                let used = |since| !large && copy.used_since(since, &lookups);
                self.replacement.learn(slot, &mut node.entry.used, used, |known| copy.last_use(known, &lookups));
            }
            self.unfilter(slot, unfiltered);
        }
    }

    /// A lookup reaches the array, which a policy may want to know.
    pub fn looked_up(&mut self, at: Access) {
        if let Some(policy) = self.replacement.policy() {
            policy.looked_up(at);
        }
    }

    /// The counters of its policy.
    pub fn policy_counters(&self, each: &mut dyn FnMut(u64)) {
        if let Some(policy) = self.replacement.told_policy() {
            policy.counters(each);
        }
    }

    /// See [`Geometry::set_bits`].
    pub fn set_bits(&self, order: u8) -> Result<Range<u32>, String> {
        if self.replacement.told_policy().is_some_and(|policy| !policy.by_sets) {
            return Err("how it replaces entries is learned from all sets together".into());
        }
        self.geometry.set_bits(order)
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
        self.index.get(slot).tag
    }
    #[inline]
    pub fn get(&self, slot: u32) -> &C {
        &self.index.get(slot).entry.contents
    }
    /// Contents to change. Subblocks are cleared by [`Store::invalidate`], which reports their pages.
    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> &mut C {
        &mut self.index.get_mut(slot).entry.contents
    }
    /// The used bit; `None` under policies that have none.
    pub fn used(&self, slot: u32) -> Option<bool> {
        self.replacement.has_used_bits().then(|| self.index.get(slot).entry.used)
    }
    /// Clears the used bit of an entry without accesses since it was set: none of its lookups were filtered.
    pub fn clear_used(&mut self, slot: u32) {
        self.index.get_mut(slot).entry.used = false;
        self.replacement.used_bit_cleared(slot);
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
        (0..self.entries() as u32).filter(|&slot| self.index.get(slot).is_valid())
    }

    /// A hit on this slot, in this part of the tag's pages; 0 if the design is never filtered.
    #[inline(always)]
    pub fn touch(&mut self, slot: u32, part: u64, unfiltered: &mut Unfiltered) {
        let Entry { filtered_parts, used, .. } = &mut self.index.get_mut(slot).entry;
        *filtered_parts |= part;
        *used = true;
        if let Some(former) = self.replacement.touch(slot, unfiltered) {
            self.unfilter(former, unfiltered);
        }
    }

    /// Repeats the access that missed on the entry that it filled or joined (AMB-3), in this part as for
    /// [`Store::touch`]. Returns whether one more repetition would change nothing.
    #[inline(always)]
    pub fn replay(&mut self, slot: u32, part: u64, unfiltered: &mut Unfiltered) -> bool {
        let is_final = self.replacement.replay_is_final() || self.index.get(slot).entry.used;
        if is_final {
            self.touch(slot, part, unfiltered);
        }
        is_final
    }

    /// Inserts an entry, in the place of a victim if the set is full. Returns its slot.
    #[inline(always)]
    pub fn place(&mut self, tag: Tag, contents: C, counts: &mut TlbCounts, unfiltered: &mut Unfiltered) -> u32 {
        let slot = self.make_room(tag, NONE, counts, unfiltered);
        self.put(slot, tag, contents);
        slot
    }

    /// Inserts an entry for an access that missed, which is then repeated on it (AMB-3), in this part as for
    /// [`Store::touch`]. Returns whether one more repetition would change nothing.
    #[inline(always)]
    pub fn fill(
        &mut self,
        tag: Tag,
        contents: C,
        part: u64,
        counts: &mut TlbCounts,
        unfiltered: &mut Unfiltered,
    ) -> bool {
        let slot = self.make_room(tag, NONE, counts, unfiltered);
        // Nothing was used since it was filled, so its time and its place in an order are those of the repetition, too.
        let used = self.replacement.replay_is_final();
        self.index.insert(slot, tag, Entry { contents, filtered_parts: if used { part } else { 0 }, used });
        used
    }

    /// Puts a new entry into the room that was made for it.
    #[inline(always)]
    pub fn put(&mut self, slot: u32, tag: Tag, contents: C) {
        self.index.insert(slot, tag, Entry { contents, filtered_parts: 0, used: false });
    }

    /// Chooses the slot for a new entry and evicts its old entry. If that would be `keep`, nothing is evicted.
    #[inline(always)]
    pub fn make_room(&mut self, tag: Tag, keep: u32, counts: &mut TlbCounts, unfiltered: &mut Unfiltered) -> u32 {
        let slot = if self.geometry.function == SetFunction::Skewed {
            self.skewed_victim(tag, &|_| true, unfiltered)
        } else {
            let set = self.geometry.set(tag.group());
            let victim = self.replacement.victim(set, self.index.nodes(), unfiltered);
            victim.unwrap_or_else(|| self.clear_all_used(set, unfiltered))
        };
        if slot != keep {
            self.vacate(slot, tag, counts, unfiltered);
        }
        slot
    }

    /// As [`Store::fill`] with part 0, in one of the ways that may hold the entry. For skewed sets.
    pub fn fill_in_ways(
        &mut self,
        tag: Tag,
        contents: C,
        may: &dyn Fn(usize) -> bool,
        counts: &mut TlbCounts,
        unfiltered: &mut Unfiltered,
    ) {
        let slot = self.skewed_victim(tag, may, unfiltered);
        self.vacate(slot, tag, counts, unfiltered);
        let used = self.replacement.replay_is_final();
        self.index.insert(slot, tag, Entry { contents, filtered_parts: 0, used });
    }

    /// Evicts the entry of a slot, if there is one, for a new entry with this tag.
    #[inline(always)]
    fn vacate(&mut self, slot: u32, tag: Tag, counts: &mut TlbCounts, unfiltered: &mut Unfiltered) {
        let Node { tag: old, entry: Entry { filtered_parts, .. }, .. } = *self.index.get(slot);
        let evicts = self.index.get(slot).is_valid();
        if evicts {
            counts.evictions += 1;
            self.last_victim = old;
            unfilter_parts(old, filtered_parts, unfiltered);
            self.index.remove(slot);
        }
        if !evicts || old.order() != tag.order() {
            self.live[usize::from(old.order() & 63)] -= u32::from(evicts);
            self.live[usize::from(tag.order() & 63)] += 1;
            self.has_large_parts |= tag.part_order() > 0;
        }
        if let Some(former) = self.replacement.entered(slot, evicts, unfiltered) {
            self.unfilter(former, unfiltered);
        }
    }

    /// The slot for a new entry, one in each way that may hold it to choose from. Used bits are always reported when
    /// they are cleared.
    #[inline(never)]
    fn skewed_victim(&mut self, tag: Tag, may: &dyn Fn(usize) -> bool, unfiltered: &mut Unfiltered) -> u32 {
        let mut candidates = std::mem::take(&mut self.found);
        candidates.clear();
        let slots = self.geometry.skewed_slots(tag.group()).enumerate();
        candidates.extend(slots.filter(|(way, _)| may(*way)).map(|(_, slot)| slot));
        let victim = self.replacement.victim_among(&candidates, self.index.nodes(), unfiltered).unwrap_or_else(|| {
            for &slot in &candidates {
                self.index.get_mut(slot).entry.used = false;
                self.replacement.used_bit_cleared(slot);
                self.unfilter(slot, unfiltered);
            }
            candidates[0]
        });
        self.found = candidates;
        victim
    }

    /// Makes a valid slot invalid.
    pub fn drop(&mut self, slot: u32, unfiltered: &mut Unfiltered) {
        self.unfilter(slot, unfiltered);
        self.live[usize::from(self.tag(slot).order() & 63)] -= 1;
        self.index.remove(slot);
        self.replacement.dropped(slot);
    }

    /// Reports the pages of this slot.
    fn unfilter(&mut self, slot: u32, unfiltered: &mut Unfiltered) {
        unfilter_parts(self.tag(slot), std::mem::take(&mut self.index.get_mut(slot).entry.filtered_parts), unfiltered);
    }

    /// Clears the used bits of this set, all of which are set. Returns the first slot. Where the times of lookups are
    /// known, only entries with large parts need be reported; otherwise the whole set, and with one set every page.
    #[inline(never)]
    fn clear_all_used(&mut self, set: usize, unfiltered: &mut Unfiltered) -> u32 {
        let since = if self.checks_lookups_late { unfiltered.tick() } else { None };
        self.replacement.used_bits_cleared(set, since);
        let slots = self.replacement.slots(set);
        let nodes = &mut self.index.nodes()[slots.start as usize..slots.end as usize];
        nodes.iter_mut().for_each(|node| node.entry.used = false);
        let first = slots.start;
        if since.is_none() && (self.geometry.sets == 1 || self.geometry.ways > 16) {
            unfiltered.add_all();
        } else if since.is_none() || self.has_large_parts {
            for slot in slots {
                if since.is_none() || self.tag(slot).part_order() > 0 {
                    self.unfilter(slot, unfiltered);
                }
            }
        }
        first
    }
}

/// Reports the pages in these parts of an entry.
#[inline(always)]
fn unfilter_parts(tag: Tag, parts: u64, unfiltered: &mut Unfiltered) {
    match tag.part_order() {
        _ if parts == 0 => {}
        0 => unfiltered.add(tag.asid(), tag.base(), parts),
        _ => unfilter_large(tag, parts, unfiltered),
    }
}

#[cold]
fn unfilter_large(tag: Tag, mut parts: u64, unfiltered: &mut Unfiltered) {
    if tag.order() > MAX_LISTED_ORDER {
        return unfiltered.add_all();
    }
    while parts != 0 {
        let first = tag.base().0 + (u64::from(parts.trailing_zeros()) << tag.part_order());
        unfiltered.add(tag.asid(), Vpn(first), ones(1 << tag.part_order()));
        parts &= parts - 1;
    }
}

/// The lowest `n` bits, `n` up to 64.
#[inline]
pub(in crate::tlb) fn ones(n: u32) -> u64 {
    if n >= 64 { !0 } else { (1 << n) - 1 }
}

/// Counts a miss by kind and outcome. Every miss is counted here.
#[inline]
pub(in crate::tlb) fn count_miss(counts: &mut TlbCounts, at: Lookup, pte: Pte, outcome: Outcome) {
    // The kind is not predictable, so there are no branches; the other counters follow by subtraction.
    counts.misses += 1;
    counts.fetch_misses += u64::from(at.kind == Kind::Fetch);
    counts.data_misses = counts.misses - counts.fetch_misses;
    counts.store_misses += u64::from(at.kind == Kind::Store);
    counts.load_misses = counts.data_misses - counts.store_misses;
    counts.subblock_misses += u64::from(outcome == Outcome::SubblockMiss);
    counts.tag_misses = counts.misses - counts.subblock_misses;
    counts.superpage_misses += u64::from(pte.order > 0);
}

#[cfg(test)]
mod tests;
