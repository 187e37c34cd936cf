//! Which entry goes when room is needed. Invalid entries go first, lowest index first, under every policy (T94-14, AMB-6).

use super::bitset::Bits;
use super::keys::Geometry;
use super::noise::Noise;
use super::recency::Recency;
use super::tag_index::NONE;
use crate::params::Params;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Later than all lookups.
const NEVER: u32 = u32::MAX;

/// The policy with its state.
enum Policy {
    /// T94-14: lowest entry whose used bit is clear; if there is none, all used bits of the set are cleared first.
    /// `since`: per set, from which time on lookups count that only the machine knows of (see [`Noise`]); [`NEVER`] if none do.
    UsedBit { used: Bits, fill_sets_used: bool, since: Box<[u32]> },
    /// The entry whose last access (or fill) is longest ago.
    Lru(Recency),
    /// The entry that was begun first; joining an entry later does not renew it.
    Fifo(Recency),
    /// Uniform: `(next_u32 * ways) >> 32`, one draw per victim and none besides, so that an oracle can follow.
    Random(Pcg64Mcg),
}

/// The slot to fill.
pub(super) struct Victim {
    /// Its number.
    pub slot: u32,
    /// Whether there is an entry in it.
    pub valid: bool,
    /// Whether the used bits of its set were cleared to find it.
    pub cleared: Cleared,
}

/// Whether used bits were cleared.
pub(super) enum Cleared {
    /// They were not.
    No,
    /// They were, and will be looked for at the machine when they are needed.
    Quietly,
    /// They were: the pages must be named.
    Aloud,
}

/// Validity of the entries, and the policy.
pub(super) struct Replacement {
    geometry: Geometry,
    /// log2 of the ways, if that is a whole number.
    shift: Option<u32>,
    valid: Bits,
    /// Invalid entries, by set.
    vacant: Box<[u32]>,
    policy: Policy,
}

impl Replacement {
    /// From the keys `replacement` and `fill_sets_used`.
    pub fn new(geometry: Geometry, params: &Params, seed: u64) -> Replacement {
        let name = params.text("replacement");
        if name != "used-bit" {
            return Replacement::without_bits(geometry, name, seed);
        }
        let policy = Policy::UsedBit {
            used: Bits::new(geometry),
            fill_sets_used: params.flag("fill_sets_used"),
            since: vec![NEVER; geometry.sets].into(),
        };
        Replacement::with(geometry, policy)
    }

    fn with(geometry: Geometry, policy: Policy) -> Replacement {
        let shift = geometry.ways.is_power_of_two().then(|| geometry.ways.trailing_zeros());
        let vacant = vec![geometry.ways as u32; geometry.sets].into();
        Replacement { geometry, shift, valid: Bits::new(geometry), vacant, policy }
    }

    /// By its name: `lru`, `fifo` or `random`.
    pub fn without_bits(geometry: Geometry, name: &str, seed: u64) -> Replacement {
        let policy = match name {
            "lru" => Policy::Lru(Recency::new(geometry)),
            "fifo" => Policy::Fifo(Recency::new(geometry)),
            "random" => Policy::Random(Pcg64Mcg::seed_from_u64(seed)),
            other => unreachable!("keys allow no replacement {other}"),
        };
        Replacement::with(geometry, policy)
    }

    /// Set and way of a slot.
    #[inline]
    fn place(&self, slot: u32) -> (usize, usize) {
        match (self.geometry.sets, self.shift) {
            (1, _) => (0, slot as usize),
            (_, Some(shift)) => ((slot >> shift) as usize, (slot & ((1 << shift) - 1)) as usize),
            _ => ((slot / self.geometry.ways as u32) as usize, (slot % self.geometry.ways as u32) as usize),
        }
    }

    #[inline]
    pub fn is_valid(&self, slot: u32) -> bool {
        let (set, way) = self.place(slot);
        self.valid.get(set, way)
    }

    /// The used bit; `None` under policies that have none.
    pub fn used(&self, slot: u32) -> Option<bool> {
        let (set, way) = self.place(slot);
        match &self.policy {
            Policy::UsedBit { used, .. } => Some(used.get(set, way)),
            _ => None,
        }
    }

    /// Chooses the slot of this set to fill. The slot may be valid; the caller drops what is in it. `lazy`: the used bits of the set
    /// may be cleared without naming its pages. `looked_up`: whether the machine knows of a lookup of this slot's pages since a time.
    #[inline]
    pub fn victim(
        &mut self,
        set: usize,
        lazy: bool,
        noise: &mut Noise,
        mut looked_up: impl FnMut(u32, u32, &Noise) -> bool,
    ) -> Victim {
        let ways = self.geometry.ways;
        let at = |way: usize| (set * ways + way) as u32;
        let full = |slot: u32| Victim { slot, valid: true, cleared: Cleared::No };
        if self.vacant[set] > 0
            && let Some(way) = self.valid.first_clear(set)
        {
            return Victim { valid: false, ..full(at(way)) };
        }
        match &mut self.policy {
            Policy::UsedBit { used, since, .. } => {
                let since = &mut since[set];
                let was_used = |way: usize| *since != NEVER && looked_up(at(way), *since, noise);
                if let Some(way) = used.first_clear_but(set, was_used) {
                    return full(at(way));
                }
                used.clear_set(set);
                *since = if lazy { noise.begin().unwrap_or(NEVER) } else { NEVER };
                Victim { cleared: if *since == NEVER { Cleared::Aloud } else { Cleared::Quietly }, ..full(at(0)) }
            }
            Policy::Lru(list) | Policy::Fifo(list) => full(list.oldest(set)),
            Policy::Random(rng) => full(at(((u64::from(rng.next_u32()) * ways as u64) >> 32) as usize)),
        }
    }

    /// The machine knows of a lookup of this slot's pages at this time.
    #[inline]
    pub fn looked_up(&mut self, slot: u32, when: u32) {
        let (set, way) = self.place(slot);
        if let Policy::UsedBit { used, since, .. } = &mut self.policy
            && when >= since[set]
        {
            used.set(set, way);
        }
    }

    /// From which time on lookups of this slot matter that only the machine knows of; `None` if none do.
    #[inline]
    pub fn waits_since(&self, slot: u32) -> Option<u32> {
        let (set, way) = self.place(slot);
        match &self.policy {
            Policy::UsedBit { used, since, .. } if since[set] != NEVER && !used.get(set, way) => Some(since[set]),
            _ => None,
        }
    }

    /// A slot became valid. Returns the slot whose repeated access is no longer without effect, if there is one.
    #[inline]
    pub fn filled(&mut self, slot: u32) -> Option<u32> {
        let (set, way) = self.place(slot);
        self.valid.set(set, way);
        self.vacant[set] -= 1;
        match &mut self.policy {
            Policy::Lru(list) => {
                let former = list.newest(set);
                list.push(set, slot);
                (former != NONE).then_some(former)
            }
            Policy::Fifo(list) => {
                list.push(set, slot);
                None
            }
            Policy::UsedBit { .. } | Policy::Random(_) => None,
        }
    }

    /// Another entry took the place of the one in this slot, a [`Victim`]. Returns what [`Replacement::filled`] does.
    #[inline]
    pub fn refilled(&mut self, slot: u32) -> Option<u32> {
        match &mut self.policy {
            // The used bit of a victim is clear.
            Policy::UsedBit { .. } | Policy::Random(_) => None,
            Policy::Lru(_) | Policy::Fifo(_) => {
                self.dropped(slot);
                self.filled(slot)
            }
        }
    }

    /// A slot became invalid.
    #[inline]
    pub fn dropped(&mut self, slot: u32) {
        let (set, way) = self.place(slot);
        self.valid.clear(set, way);
        self.vacant[set] += 1;
        match &mut self.policy {
            Policy::UsedBit { used, .. } => used.clear(set, way),
            Policy::Lru(list) | Policy::Fifo(list) => list.remove(set, slot),
            Policy::Random(_) => {}
        }
    }

    /// An access used this entry. Returns the slot whose repeated access is no longer without effect, if there is one.
    #[inline(always)]
    pub fn touch(&mut self, slot: u32) -> Option<u32> {
        let (set, way) = self.place(slot);
        match &mut self.policy {
            Policy::UsedBit { used, .. } => {
                used.set(set, way);
                None
            }
            Policy::Lru(list) => list.renew(set, slot),
            Policy::Fifo(_) | Policy::Random(_) => None,
        }
    }

    /// The access that missed is repeated on the entry it filled (AMB-3). Returns what [`Replacement::touch`] does, and whether another
    /// access to this entry would change nothing here.
    #[inline(always)]
    pub fn replay(&mut self, slot: u32) -> (Option<u32>, bool) {
        match &self.policy {
            Policy::UsedBit { used, fill_sets_used: false, .. } => {
                let (set, way) = self.place(slot);
                (None, used.get(set, way))
            }
            _ => (self.touch(slot), true),
        }
    }

    /// Takes back the used bit. No effect under policies without used bits.
    pub fn clear_used(&mut self, slot: u32) {
        let (set, way) = self.place(slot);
        if let Policy::UsedBit { used, .. } = &mut self.policy {
            used.clear(set, way);
        }
    }
}
