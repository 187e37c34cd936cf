//! The shortcut: which lookups would change nothing in which designs.
//!
//! A direct-mapped cache from (page, side) to two bit masks over the designs, one for fetches or loads, one for stores. A bit
//! says that the design answers this lookup *quietly* (see [`crate::hw::tlb::Noise`]): a hit that changes no state, so it need
//! only be counted. Losing a bit is always safe, so conflicts and bulk clearing cost time, never exactness. The page numbers are
//! those of one address space; a process switch empties the table.

use crate::addr::Vpn;
use crate::event::Kind;

const BITS: u32 = 12;

/// Slots of the table. 64 KB: it lives in the nearest caches.
pub(super) const SLOTS: usize = 1 << BITS;

/// Most designs one table serves.
pub const MAX_DESIGNS: usize = 32;

/// One page seen from one side.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// [`key`] of the page, or [`NO_KEY`].
    pub key: u64,
    /// Designs that are quiet, by "is a store".
    pub masks: [u32; 2],
}

const NO_KEY: u64 = u64::MAX;
const EMPTY: Slot = Slot { key: NO_KEY, masks: [0, 0] };

/// Key of a page: page number and side of a split TLB. 53 bits, never [`NO_KEY`].
#[inline(always)]
pub(super) fn key(vpn: u64, fetch: bool) -> u64 {
    vpn << 1 | u64::from(fetch)
}

/// Place of a key; below [`SLOTS`].
#[inline(always)]
pub(super) fn place(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS)) as usize
}

/// See the module.
pub(super) struct Quiet {
    slots: Box<[Slot; SLOTS]>,
    /// Per design, the places where its bits were set since they were last cleared all at once.
    published: Vec<Vec<u32>>,
}

impl Quiet {
    pub fn new(designs: usize) -> Quiet {
        let slots: Box<[Slot]> = vec![EMPTY; SLOTS].into();
        Quiet { slots: slots.try_into().unwrap_or_else(|_| unreachable!("SLOTS slots")), published: vec![Vec::new(); designs] }
    }

    /// The slot where a key would be.
    #[inline(always)]
    pub fn slot(&self, key: u64) -> &Slot {
        &self.slots[place(key)]
    }

    /// The slot at a place.
    #[inline(always)]
    pub fn at(&self, place: u16) -> &Slot {
        &self.slots[place as usize % SLOTS]
    }

    /// Designs that answer this lookup quietly.
    #[inline(always)]
    pub fn mask(&self, vpn: u64, kind: Kind) -> u32 {
        let key = key(vpn, kind == Kind::Fetch);
        let slot = self.slot(key);
        if slot.key == key { slot.masks[usize::from(kind == Kind::Store)] } else { 0 }
    }

    /// Makes the slot this page's; says whether it was somebody else's.
    pub fn claim(&mut self, vpn: u64, kind: Kind) -> bool {
        let key = key(vpn, kind == Kind::Fetch);
        let slot = &mut self.slots[place(key)];
        let other = slot.key != key;
        if other {
            *slot = Slot { key, ..EMPTY };
        }
        other
    }

    /// The design answers this lookup quietly from now on; a quiet store makes loads quiet too. The slot must be claimed.
    pub fn publish(&mut self, design: usize, vpn: u64, kind: Kind) {
        let key = key(vpn, kind == Kind::Fetch);
        let at = place(key);
        let slot = &mut self.slots[at];
        debug_assert_eq!(slot.key, key);
        let bit = 1u32 << design;
        if slot.masks[0] & bit == 0 {
            if self.published[design].len() >= 2 * SLOTS {
                self.clear_design(design);
            }
            self.published[design].push(at as u32);
        }
        let slot = &mut self.slots[at];
        slot.masks[0] |= bit;
        if kind == Kind::Store {
            slot.masks[1] |= bit;
        }
    }

    /// No lookup of the design is quiet any more.
    pub fn clear_design(&mut self, design: usize) {
        let keep = !(1u32 << design);
        for at in self.published[design].drain(..) {
            let slot = &mut self.slots[at as usize % SLOTS];
            slot.masks = [slot.masks[0] & keep, slot.masks[1] & keep];
        }
    }

    /// Lookups of a page are quiet no more for the designs in `mask`.
    #[inline]
    pub fn clear_page(&mut self, vpn: Vpn, mask: u32) {
        for fetch in [false, true] {
            let key = key(vpn.0, fetch);
            let slot = &mut self.slots[place(key)];
            if slot.key == key {
                slot.masks = [slot.masks[0] & !mask, slot.masks[1] & !mask];
            }
        }
    }

    /// Nothing is quiet any more.
    pub fn clear(&mut self) {
        self.slots.fill(EMPTY);
        self.published.iter_mut().for_each(Vec::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_and_go() {
        let mut q = Quiet::new(2);
        assert!(q.claim(7, Kind::Load) && !q.claim(7, Kind::Load));
        q.publish(0, 7, Kind::Load);
        q.publish(1, 7, Kind::Store);
        assert_eq!((q.mask(7, Kind::Load), q.mask(7, Kind::Store), q.mask(7, Kind::Fetch)), (0b11, 0b10, 0));
        q.clear_design(0);
        assert_eq!((q.mask(7, Kind::Load), q.mask(7, Kind::Store)), (0b10, 0b10));
        q.clear_page(Vpn(7), 0b10);
        assert_eq!(q.mask(7, Kind::Store), 0);
    }

    #[test]
    fn a_conflicting_page_takes_the_slot_without_its_bits() {
        let mut q = Quiet::new(1);
        let other = (8..).find(|&v| place(key(v, false)) == place(key(7, false))).unwrap();
        q.claim(7, Kind::Load);
        q.publish(0, 7, Kind::Load);
        assert!(q.claim(other, Kind::Load));
        assert_eq!((q.mask(7, Kind::Load), q.mask(other, Kind::Load)), (0, 0));
    }
}
