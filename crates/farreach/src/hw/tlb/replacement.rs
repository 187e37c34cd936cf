//! Which entry goes when room is needed. Invalid entries go first, lowest index first, under every policy (T94-14, AMB-6).

use super::bitset::Bits;
use super::keys::Geometry;
use super::recency::Recency;
use super::tag_index::NONE;
use crate::params::Params;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The policy with its state.
enum Policy {
    /// T94-14: lowest entry whose used bit is clear; if there is none, all used bits of the set are cleared first.
    UsedBit { used: Bits, fill_sets_used: bool },
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
    /// The used bits of its set were cleared to find it.
    pub cleared: bool,
}

/// Validity of the entries, and the policy.
pub(super) struct Replacement {
    geometry: Geometry,
    valid: Bits,
    policy: Policy,
}

impl Replacement {
    /// From the keys `replacement` and `fill_sets_used`.
    pub fn new(geometry: Geometry, params: &Params, seed: u64) -> Replacement {
        let policy = match params.text("replacement") {
            "lru" => Policy::Lru(Recency::new(geometry)),
            "fifo" => Policy::Fifo(Recency::new(geometry)),
            "random" => Policy::Random(Pcg64Mcg::seed_from_u64(seed)),
            _ => Policy::UsedBit { used: Bits::new(geometry), fill_sets_used: params.flag("fill_sets_used") },
        };
        Replacement { geometry, valid: Bits::new(geometry), policy }
    }

    /// Set and way of a slot.
    #[inline]
    fn place(&self, slot: u32) -> (usize, usize) {
        match self.geometry.sets {
            1 => (0, slot as usize),
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

    /// Chooses the slot of this set to fill. The slot may be valid; the caller drops what is in it.
    #[inline]
    pub fn victim(&mut self, set: usize) -> Victim {
        let ways = self.geometry.ways;
        let mut cleared = false;
        let way = match self.valid.first_clear(set) {
            Some(way) => way,
            None => match &mut self.policy {
                Policy::UsedBit { used, .. } => used.first_clear(set).unwrap_or_else(|| {
                    used.clear_set(set);
                    cleared = true;
                    0
                }),
                Policy::Lru(list) | Policy::Fifo(list) => return Victim { slot: list.oldest(set), cleared },
                Policy::Random(rng) => ((u64::from(rng.next_u32()) * ways as u64) >> 32) as usize,
            },
        };
        Victim { slot: (set * ways + way) as u32, cleared }
    }

    /// A slot became valid. Returns the slot whose repeated access is no longer without effect, if there is one.
    #[inline]
    pub fn filled(&mut self, slot: u32) -> Option<u32> {
        let (set, way) = self.place(slot);
        self.valid.set(set, way);
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

    /// A slot became invalid.
    #[inline]
    pub fn dropped(&mut self, slot: u32) {
        let (set, way) = self.place(slot);
        self.valid.clear(set, way);
        match &mut self.policy {
            Policy::UsedBit { used, .. } => used.clear(set, way),
            Policy::Lru(list) | Policy::Fifo(list) => list.remove(set, slot),
            Policy::Random(_) => {}
        }
    }

    /// An access used this entry. Returns the slot whose repeated access is no longer without effect, if there is one.
    #[inline]
    pub fn touch(&mut self, slot: u32) -> Option<u32> {
        let (set, way) = self.place(slot);
        match &mut self.policy {
            Policy::UsedBit { used, .. } => used.set(set, way),
            Policy::Lru(list) => {
                let former = list.newest(set);
                if former != slot {
                    list.remove(set, slot);
                    list.push(set, slot);
                    return Some(former);
                }
            }
            Policy::Fifo(_) | Policy::Random(_) => {}
        }
        None
    }

    /// The access that missed is repeated on the entry it filled (AMB-3).
    #[inline]
    pub fn replay(&mut self, slot: u32) -> Option<u32> {
        match &self.policy {
            Policy::UsedBit { fill_sets_used: false, .. } => None,
            _ => self.touch(slot),
        }
    }

    /// Whether another access to this entry would change nothing here.
    #[inline]
    pub fn settled(&self, slot: u32) -> bool {
        let (set, way) = self.place(slot);
        match &self.policy {
            Policy::UsedBit { used, .. } => used.get(set, way),
            Policy::Lru(list) => list.newest(set) == slot,
            Policy::Fifo(_) | Policy::Random(_) => true,
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
