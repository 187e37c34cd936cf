//! The choice of the entry to evict. Invalid entries are used first, lowest index first, under every policy (T94-14,
//! AMB-5, AMB-6).

use super::fill_order::FillOrder;
use super::geometry::{Geometry, SetFunction};
use super::numbers::Numbers;
use super::policies::{Place, Told};
use super::recency::{Recency, Rule};
use crate::tlb::filter::Unfiltered;
use crate::tlb::filter::times::LastLookups;
use farreach_types::params::Params;
use std::ops::Range;

/// A time later than all lookups.
const NEVER: u64 = u64::MAX;

/// The state of a slot that the choice of a victim needs.
pub(in crate::tlb) trait Slot {
    fn is_valid(&self) -> bool;
    /// The used bit. Policies that have none never ask.
    fn used(&mut self) -> &mut bool;
    /// Whether the entry was looked up since then.
    fn used_since(&self, since: u64, lookups: &LastLookups) -> bool;
    /// When the entry was looked up last, or `known` if that is later.
    fn last_use(&self, known: u64, lookups: &LastLookups) -> u64;
}

/// Room for an entry of an array whose lookups are never filtered.
#[derive(Clone, Copy)]
pub(in crate::tlb) struct Room<T> {
    pub held: Option<T>,
    /// The used bit (T94-14). Other policies do not look at it.
    pub used: bool,
}

impl<T> Default for Room<T> {
    fn default() -> Room<T> {
        Room { held: None, used: false }
    }
}

impl<T> Slot for Room<T> {
    fn is_valid(&self) -> bool {
        self.held.is_some()
    }
    fn used(&mut self) -> &mut bool {
        &mut self.used
    }
    fn used_since(&self, _: u64, _: &LastLookups) -> bool {
        false // no lookup that reaches it is filtered
    }
    fn last_use(&self, known: u64, _: &LastLookups) -> u64 {
        known
    }
}

/// The policy with its state.
enum Policy {
    /// T94-14: lowest entry whose used bit is clear; if there is none, all used bits of the set are cleared first. The
    /// used bits are in the slots.
    UsedBit { fill_sets_used: bool },
    /// FIFO: the entry that was begun first; joining an entry later does not renew it.
    Fifo(FillOrder),
    /// LRU: the entry whose last access (or fill) is longest ago. Tree-PLRU. FIFO, too, where sets overlap.
    ByTime(Recency),
    /// Any of the set.
    Random(Numbers),
    /// One of `policies`, which is told of every use.
    Told(Box<Told>),
}

/// Of a set.
#[derive(Clone, Copy)]
struct Set {
    /// Invalid slots.
    invalid: u32,
    /// No slot of the set before this one is invalid.
    vacant_from: u32,
    /// No slot of the set before this one is unused.
    unused_from: u32,
    /// Used bits: lookups since this time count that only the machine saw (see [`Unfiltered`]); [`NEVER`] if none do.
    since: u64,
}

impl Set {
    /// The first invalid slot, which must exist.
    #[inline(never)]
    fn vacant<S: Slot>(&mut self, slots: &[S]) -> u32 {
        let vacant = (self.vacant_from..).zip(&slots[self.vacant_from as usize..]).find(|(_, slot)| !slot.is_valid());
        self.vacant_from = vacant.expect("a slot is invalid").0;
        self.vacant_from
    }
}

/// The slots of a set.
struct Layout {
    one_set: bool,
    ways: u32,
    /// log2 of the ways, if that is a whole number.
    shift: Option<u32>,
}

impl Layout {
    /// The set of a slot.
    #[inline]
    fn set(&self, slot: u32) -> usize {
        match self.shift {
            _ if self.one_set => 0,
            Some(shift) => (slot >> shift) as usize,
            None => (slot / self.ways) as usize,
        }
    }
    /// The slots of a set.
    #[inline]
    fn slots(&self, set: usize) -> Range<u32> {
        set as u32 * self.ways..(set as u32 + 1) * self.ways
    }
}

/// The policy and its state of the slots, besides their used bits.
pub(in crate::tlb) struct Replacement {
    layout: Layout,
    sets: Box<[Set]>,
    policy: Policy,
}

impl Replacement {
    /// From the keys `replacement` and `fill_sets_used`.
    pub fn new(geometry: Geometry, params: &Params, seed: u64) -> Result<Replacement, String> {
        match params.text("replacement") {
            "used-bit" => {
                Ok(Replacement::with(geometry, Policy::UsedBit { fill_sets_used: params.flag("fill_sets_used") }))
            }
            name => Replacement::by_name(geometry, "replacement", name, seed),
        }
    }

    fn with(geometry: Geometry, policy: Policy) -> Replacement {
        // Skewed sets may share slots, so the state of sets is kept for all slots together.
        let Geometry { sets, ways, .. } = match geometry.function {
            SetFunction::Skewed => Geometry::one_set(geometry.entries()),
            _ => geometry,
        };
        let shift = ways.is_power_of_two().then(|| ways.trailing_zeros());
        let layout = Layout { one_set: sets == 1, ways: ways as u32, shift };
        let empty = |set: usize| {
            let first = layout.slots(set).start;
            Set { invalid: layout.ways, vacant_from: first, unused_from: first, since: NEVER }
        };
        Replacement { sets: (0..sets).map(empty).collect(), layout, policy }
    }

    /// By its name: `used-bit`, `lru`, `plru`, `fifo`, `random` or `lfsr`. Fills set used bits (AMB-3). The error says
    /// why the value of this key is refused.
    pub fn by_name(geometry: Geometry, key: &str, name: &str, seed: u64) -> Result<Replacement, String> {
        let policy = match name {
            "plru" if geometry.function == SetFunction::Skewed => {
                return Err(format!("{key} = plru is not allowed: ways that are skewed share no tree"));
            }
            "plru" if !geometry.ways.is_power_of_two() => {
                return Err(format!(
                    "{key} = plru is not allowed: an array has sets of {} entries, and a tree halves sets; entries of \
                     a set must be a power of two",
                    geometry.ways
                ));
            }
            "plru" => Policy::ByTime(Recency::new(geometry, Rule::Halves)),
            "used-bit" => Policy::UsedBit { fill_sets_used: true },
            "fifo" if geometry.function != SetFunction::Skewed => Policy::Fifo(FillOrder::new(geometry)),
            "fifo" => Policy::ByTime(Recency::new(geometry, Rule::Filled)),
            "lru" => Policy::ByTime(Recency::new(geometry, Rule::Used)),
            name => Policy::Random(Numbers::new(name, seed).expect("keys allow no other replacement")),
        };
        Ok(Replacement::with(geometry, policy))
    }

    /// By a policy that is told of every use: for arrays whose lookups are never filtered.
    pub fn told(geometry: Geometry, policy: Told) -> Replacement {
        debug_assert_ne!(geometry.function, SetFunction::Skewed, "policies are of sets");
        Replacement::with(geometry, Policy::Told(Box::new(policy)))
    }

    /// That policy.
    pub fn policy(&mut self) -> Option<&mut Told> {
        if let Policy::Told(policy) = &mut self.policy { Some(policy) } else { None }
    }

    /// As [`Replacement::policy`], to look at.
    pub fn told_policy(&self) -> Option<&Told> {
        if let Policy::Told(policy) = &self.policy { Some(policy) } else { None }
    }

    /// The slots of a set.
    pub fn slots(&self, set: usize) -> Range<u32> {
        self.layout.slots(set)
    }

    /// Whether the order of uses decides.
    pub fn orders_uses(&self) -> bool {
        matches!(&self.policy, Policy::ByTime(recency) if recency.is_by_use())
    }

    pub fn has_used_bits(&self) -> bool {
        matches!(self.policy, Policy::UsedBit { .. })
    }

    /// AMB-3: whether further repetitions change nothing, after the access that missed was repeated on its entry.
    #[inline(always)]
    pub fn replay_is_final(&self) -> bool {
        !matches!(self.policy, Policy::UsedBit { fill_sets_used: false })
    }

    /// Chooses the slot of this set to fill. If it is valid, the caller removes its entry. `None`: there are used bits,
    /// and all are set; the caller clears them, calls [`Replacement::used_bits_cleared`] and takes the first slot.
    #[inline(always)]
    pub fn victim<S: Slot>(&mut self, set: usize, slots: &mut [S], unfiltered: &Unfiltered) -> Option<u32> {
        let of = &mut self.sets[set];
        if of.invalid > 0 {
            return Some(of.vacant(slots));
        }
        let range = self.layout.slots(set);
        match &mut self.policy {
            Policy::UsedBit { .. } => {
                let (since, lookups) = (of.since, unfiltered.last_lookups().filter(|_| of.since != NEVER));
                let from = of.unused_from;
                for (i, slot) in (from..).zip(&mut slots[from as usize..range.end as usize]) {
                    if *slot.used() {
                        continue;
                    }
                    if !lookups.as_ref().is_some_and(|lookups| slot.used_since(since, lookups)) {
                        of.unused_from = i;
                        return Some(i);
                    }
                    *slot.used() = true;
                }
                None
            }
            Policy::ByTime(recency) => {
                let ways = self.layout.ways as usize;
                Some(match unfiltered.last_lookups() {
                    Some(lookups) => {
                        recency.victim(set, ways, |slot, known| slots[slot as usize].last_use(known, &lookups))
                    }
                    None => recency.victim(set, ways, |_, known| known),
                })
            }
            Policy::Fifo(order) => Some(order.oldest(set)),
            Policy::Random(numbers) => Some(range.start + numbers.below(self.layout.ways)),
            Policy::Told(policy) => Some(policy.victim(set)),
        }
    }

    /// As [`Replacement::victim`], of slots that are no set: the first of them stands for the lowest. `None`: the
    /// caller clears their used bits, and takes the first.
    pub fn victim_among<S: Slot>(
        &mut self,
        candidates: &[u32],
        slots: &mut [S],
        unfiltered: &Unfiltered,
    ) -> Option<u32> {
        let vacant = candidates.iter().copied().find(|&slot| !slots[slot as usize].is_valid());
        vacant.or_else(|| match &mut self.policy {
            Policy::UsedBit { .. } => candidates.iter().copied().find(|&slot| !*slots[slot as usize].used()),
            Policy::ByTime(recency) => {
                let lookups = unfiltered.last_lookups();
                let mut last = |slot: u32| {
                    let since = |known| lookups.as_ref().map(|lookups| slots[slot as usize].last_use(known, lookups));
                    recency.learn(slot, |known| since(known).unwrap_or(known))
                };
                candidates.iter().copied().min_by_key(|&slot| last(slot))
            }
            Policy::Fifo(_) | Policy::Told(_) => unreachable!("lists and policies are of sets"),
            Policy::Random(numbers) => Some(candidates[numbers.below(candidates.len() as u32) as usize]),
        })
    }

    /// The used bits of a set were cleared. Lookups that only the machine saw count since `since`, if given.
    pub fn used_bits_cleared(&mut self, set: usize, since: Option<u64>) {
        let of = &mut self.sets[set];
        (of.unused_from, of.since) = (self.layout.slots(set).start, since.unwrap_or(NEVER));
    }

    /// The used bit of one slot was cleared.
    pub fn used_bit_cleared(&mut self, slot: u32) {
        let of = &mut self.sets[self.layout.set(slot)];
        of.unused_from = of.unused_from.min(slot);
    }

    /// Takes over lookups of an entry that only the machine saw: whether there are some since a time, and the last one,
    /// as [`Slot`] has them.
    #[inline]
    pub fn learn(
        &mut self,
        slot: u32,
        used: &mut bool,
        since: impl FnOnce(u64) -> bool,
        last: impl FnOnce(u64) -> u64,
    ) {
        match &mut self.policy {
            Policy::UsedBit { .. } => {
                let cleared = self.sets[self.layout.set(slot)].since;
                *used |= cleared != NEVER && since(cleared);
            }
            Policy::ByTime(recency) => _ = recency.learn(slot, last),
            Policy::Fifo(_) | Policy::Random(_) | Policy::Told(_) => {}
        }
    }

    /// A slot has a new entry, with its used bit clear; `evicts`: in the place of another. Returns the slot whose
    /// repeated access is no longer without effect, if there is one.
    #[inline(always)]
    pub fn entered(&mut self, slot: u32, evicts: bool, unfiltered: &mut Unfiltered) -> Option<u32> {
        if !evicts {
            self.filled(slot);
        }
        let set = self.layout.set(slot);
        match &mut self.policy {
            Policy::ByTime(recency) => return recency.entered(set, slot, unfiltered),
            Policy::Fifo(order) if evicts => order.renew(set, slot),
            Policy::Fifo(order) => order.push(set, slot),
            Policy::Told(policy) => policy.entered(Place { set, slot }, evicts),
            _ => {}
        }
        None
    }

    /// An invalid slot became valid.
    #[inline(never)]
    fn filled(&mut self, slot: u32) {
        self.sets[self.layout.set(slot)].invalid -= 1;
        self.used_bit_cleared(slot);
    }

    /// A slot became invalid.
    pub fn dropped(&mut self, slot: u32) {
        let set = self.layout.set(slot);
        let of = &mut self.sets[set];
        of.invalid += 1;
        of.vacant_from = of.vacant_from.min(slot);
        match &mut self.policy {
            Policy::ByTime(recency) => recency.dropped(set, slot),
            Policy::Fifo(order) => order.remove(set, slot),
            Policy::Told(policy) => policy.dropped(Place { set, slot }),
            _ => {}
        }
    }

    /// An access used this entry; its used bit is set. Returns the slot whose repeated access is no longer without
    /// effect, if there is one.
    #[inline(always)]
    pub fn touch(&mut self, slot: u32, unfiltered: &mut Unfiltered) -> Option<u32> {
        match &mut self.policy {
            Policy::ByTime(recency) => recency.touched(self.layout.set(slot), slot, unfiltered),
            Policy::Told(policy) => {
                policy.hit(Place { set: self.layout.set(slot), slot });
                None
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Valid, used.
    impl Slot for (bool, bool) {
        fn is_valid(&self) -> bool {
            self.0
        }
        fn used(&mut self) -> &mut bool {
            &mut self.1
        }
        fn used_since(&self, _: u64, _: &LastLookups) -> bool {
            unreachable!("no lookup times are kept")
        }
        fn last_use(&self, _: u64, _: &LastLookups) -> u64 {
            unreachable!("no lookup times are kept")
        }
    }

    #[test]
    fn invalid_slots_go_first_then_the_lowest_unused() {
        for (sets, ways) in [(1, 1), (1, 64), (1, 65), (4, 3), (2, 200)] {
            let mut replacement = Replacement::with(
                Geometry { sets, ways, function: SetFunction::LowBits },
                Policy::UsedBit { fill_sets_used: true },
            );
            let mut slots = vec![(false, false); sets * ways];
            let mut unfiltered = Unfiltered::default();
            for set in 0..sets {
                let range = replacement.slots(set);
                for slot in range.clone() {
                    assert_eq!(replacement.victim(set, &mut slots, &unfiltered), Some(slot));
                    assert_eq!(replacement.entered(slot, false, &mut unfiltered), None);
                    slots[slot as usize] = (true, true);
                }
                assert_eq!(replacement.victim(set, &mut slots, &unfiltered), None, "all are used");
                range.clone().for_each(|slot| slots[slot as usize].1 = false);
                replacement.used_bits_cleared(set, None);
                for slot in range.clone() {
                    assert_eq!(replacement.victim(set, &mut slots, &unfiltered), Some(slot));
                    slots[slot as usize].1 = true;
                }
                for slot in range.clone().rev() {
                    slots[slot as usize].1 = false;
                    replacement.used_bit_cleared(slot);
                    assert_eq!(replacement.victim(set, &mut slots, &unfiltered), Some(slot));
                }
                for slot in range.clone().rev() {
                    slots[slot as usize] = (false, true);
                    replacement.dropped(slot);
                    assert_eq!(replacement.victim(set, &mut slots, &unfiltered), Some(slot), "the first unused one");
                }
                replacement.entered(range.start, false, &mut unfiltered);
                slots[range.start as usize] = (true, false);
                let next = if ways == 1 { range.start } else { range.start + 1 };
                assert_eq!(replacement.victim(set, &mut slots, &unfiltered), Some(next));
            }
        }
    }
}
