//! The slots that may hold the filter bit of a design.

use super::SLOTS;

/// Words of the set.
const WORDS: usize = 2 * SLOTS / 64;

/// See the module. A set and its members.
pub(super) struct CandidateSlots {
    set: [u64; WORDS],
    slots: Vec<u16>,
}

impl CandidateSlots {
    pub fn new() -> CandidateSlots {
        CandidateSlots { set: [0; WORDS], slots: Vec::with_capacity(2 * SLOTS) }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    #[inline(always)]
    pub fn insert(&mut self, slot: usize) {
        if self.set[slot / 64 % WORDS] >> (slot % 64) & 1 == 0 {
            self.insert_new(slot);
        }
    }

    #[cold]
    fn insert_new(&mut self, slot: usize) {
        self.set[slot / 64 % WORDS] |= 1 << (slot % 64);
        self.slots.push(slot as u16);
    }

    /// Keeps the slots for which `stays` is true. In no order.
    pub fn retain(&mut self, mut stays: impl FnMut(usize) -> bool) {
        let CandidateSlots { set, slots } = self;
        slots.retain(|&slot| {
            let slot = usize::from(slot);
            let stays = stays(slot);
            set[slot / 64] &= !(u64::from(!stays) << (slot % 64));
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_a_member_once_until_it_goes() {
        let mut candidates = CandidateSlots::new();
        for slot in [0, 63, 64, 2 * SLOTS - 1, 63, 0] {
            candidates.insert(slot);
        }
        assert_eq!(candidates.len(), 4);
        candidates.retain(|slot| slot != 63);
        assert_eq!(candidates.len(), 3);
        candidates.insert(63);
        candidates.insert(64);
        let mut seen = Vec::new();
        candidates.retain(|slot| {
            seen.push(slot);
            false
        });
        seen.sort();
        assert_eq!((seen, candidates.len()), (vec![0, 63, 64, 2 * SLOTS - 1], 0));
    }
}
