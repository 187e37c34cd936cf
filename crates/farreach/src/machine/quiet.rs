//! The shortcut: which lookups would change nothing in which designs, and which the operating systems have nothing to do with.
//!
//! A direct-mapped cache over the pages, one half for each side (fetch, data). A slot has two bit masks over the designs, one
//! for fetches or loads, one for stores: a bit says that the design answers this lookup *quietly* (see
//! [`crate::hw::tlb::Noise`]): a hit that changes no state, so it need only be counted. Likewise it has two masks over the operating
//! systems, whose bits say that serving this lookup would change nothing in them and that the answer is [`Quiet::served`]. Losing a
//! bit is always safe, so conflicts and bulk clearing cost time, never exactness. The page numbers are those of one address
//! space; a process switch empties the table.

use crate::addr::Vpn;
use crate::event::Kind;
use crate::hw::tlb::{Attr, Pte};
use crate::os::Touched;

const BITS: u32 = 12;

/// Slots of the table, for each side. What the fast path reads of it is 96 KB, and of that only what the program uses at the time.
pub(super) const SLOTS: usize = 1 << BITS;

/// Most designs one table serves.
pub const MAX_DESIGNS: usize = 32;

/// One page seen from one side. Of each pair, the second is for stores.
#[derive(Clone, Copy)]
struct Slot {
    /// The page, or [`NO_PAGE`].
    vpn: u64,
    /// Designs that are quiet.
    designs: [u32; 2],
    /// Operating systems that have nothing to do.
    systems: [u32; 2],
}

const NO_PAGE: u64 = u64::MAX;
const EMPTY: Slot = Slot { vpn: NO_PAGE, designs: [0, 0], systems: [0, 0] };
const NOTHING: Touched = Touched { pte: Pte { pfn: crate::addr::Pfn(0), attr: Attr(0), order: 0 }, label: 0 };

/// Where [`Quiet::loud`] looks for a page: add the place of the page to one of these.
pub(super) const LOADS: usize = 0;
/// See [`LOADS`].
pub(super) const STORES: usize = SLOTS;
/// See [`LOADS`].
pub(super) const FETCHES: usize = 2 * SLOTS;

/// Place of a page; below [`SLOTS`].
#[inline(always)]
pub(super) fn place(vpn: u64) -> usize {
    (vpn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS)) as usize
}

/// The slot of a page at this place, seen from this side.
#[inline(always)]
fn slot_at(place: usize, fetch: bool) -> usize {
    place + if fetch { SLOTS } else { 0 }
}

/// See the module.
pub(super) struct Quiet {
    /// All that the fast path reads: for each slot the page if *every* design is quiet, otherwise [`NO_PAGE`]; see [`LOADS`].
    silent: Box<[u64; 4 * SLOTS]>,
    slots: Box<[Slot; 2 * SLOTS]>,
    /// What each operating system answered, by slot and system.
    answers: Box<[Touched]>,
    systems: usize,
    /// Every design.
    full: u32,
    /// Per design, the slots where its bits were set since they were last cleared all at once.
    published: Vec<Vec<u16>>,
}

fn filled<T: Clone, const N: usize>(value: T) -> Box<[T; N]> {
    let all: Box<[T]> = vec![value; N].into();
    all.try_into().unwrap_or_else(|_| unreachable!("N of them"))
}

impl Quiet {
    /// For so many designs on so many operating systems.
    pub fn new(designs: usize, systems: usize) -> Quiet {
        assert!(systems <= designs && designs <= MAX_DESIGNS, "the caller deals designs out to engines");
        Quiet {
            silent: filled(NO_PAGE),
            slots: filled(EMPTY),
            answers: vec![NOTHING; 2 * SLOTS * systems].into(),
            systems,
            full: ((1u64 << designs) - 1) as u32,
            published: vec![Vec::new(); designs],
        }
    }

    /// Zero if every design answers this lookup quietly. `at` is the place of the page plus one of [`LOADS`], [`STORES`], [`FETCHES`].
    #[inline(always)]
    pub fn loud(&self, vpn: u64, at: usize) -> u64 {
        self.silent[at % (4 * SLOTS)] ^ vpn
    }

    /// Designs that answer this lookup quietly.
    #[inline(always)]
    pub fn designs(&self, vpn: u64, kind: Kind) -> u32 {
        let slot = &self.slots[slot_at(place(vpn), kind == Kind::Fetch)];
        if slot.vpn == vpn { slot.designs[usize::from(kind == Kind::Store)] } else { 0 }
    }

    /// Makes the slot this page's, and says which it is and whether it was somebody else's.
    #[inline]
    pub fn claim(&mut self, vpn: u64, kind: Kind) -> (usize, bool) {
        let at = slot_at(place(vpn), kind == Kind::Fetch);
        let other = self.slots[at].vpn != vpn;
        if other {
            self.slots[at] = Slot { vpn, ..EMPTY };
            self.silence(at, NO_PAGE);
        }
        (at, other)
    }

    /// Nothing of the slot is silent (or, at `vpn`, all is).
    #[inline(always)]
    fn silence(&mut self, at: usize, vpn: u64) {
        if at < SLOTS {
            self.silent[LOADS + at] = vpn;
            self.silent[STORES + at] = vpn;
        } else {
            self.silent[at - SLOTS + FETCHES] = vpn;
        }
    }

    /// What a system answers to a lookup of the page at this place, if it has nothing else to do.
    #[inline]
    pub fn served(&self, at: usize, kind: Kind, system: usize) -> Option<Touched> {
        let bits = self.slots[at].systems[usize::from(kind == Kind::Store)];
        (bits >> system & 1 != 0).then(|| self.answers[at * self.systems + system])
    }

    /// The system answers so from now on; a store that was served leaves nothing to do for loads. The slot must be claimed.
    #[inline]
    pub fn serve(&mut self, at: usize, kind: Kind, system: usize, answer: Touched) {
        let bits = &mut self.slots[at].systems;
        bits[0] |= 1 << system;
        bits[1] |= u32::from(kind == Kind::Store) << system;
        self.answers[at * self.systems + system] = answer;
    }

    /// The design answers this lookup quietly from now on; a quiet store makes loads quiet too. The slot must be claimed.
    #[inline]
    pub fn publish(&mut self, at: usize, kind: Kind, design: usize) {
        let bit = 1u32 << design;
        if self.slots[at].designs[0] & bit == 0 {
            if self.published[design].len() >= 2 * SLOTS {
                self.clear_design(design);
            }
            self.published[design].push(at as u16);
        }
        let slot = &mut self.slots[at];
        slot.designs[0] |= bit;
        if slot.designs[0] == self.full {
            self.silent[if at < SLOTS { LOADS + at } else { at - SLOTS + FETCHES }] = slot.vpn;
        }
        if kind == Kind::Store {
            slot.designs[1] |= bit;
            if slot.designs[1] == self.full {
                self.silent[STORES + at % SLOTS] = slot.vpn;
            }
        }
    }

    /// No lookup of the design is quiet any more.
    pub fn clear_design(&mut self, design: usize) {
        let keep = !(1u32 << design);
        let mut places = std::mem::take(&mut self.published[design]);
        for at in places.drain(..) {
            let at = at as usize % (2 * SLOTS);
            let slot = &mut self.slots[at];
            slot.designs = [slot.designs[0] & keep, slot.designs[1] & keep];
            self.silence(at, NO_PAGE);
        }
        self.published[design] = places;
    }

    /// Lookups of a page are quiet no more for these designs, and for these systems there may be something to do.
    #[inline]
    pub fn clear_page(&mut self, vpn: Vpn, designs: u32, systems: u32) {
        let place = place(vpn.0);
        for at in [slot_at(place, false), slot_at(place, true)] {
            let slot = &mut self.slots[at];
            if slot.vpn == vpn.0 {
                slot.designs = [slot.designs[0] & !designs, slot.designs[1] & !designs];
                slot.systems = [slot.systems[0] & !systems, slot.systems[1] & !systems];
                self.silence(at, NO_PAGE);
            }
        }
    }

    /// Nothing is quiet any more.
    pub fn clear(&mut self) {
        self.slots.fill(EMPTY);
        self.silent.fill(NO_PAGE);
        self.published.iter_mut().for_each(Vec::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(q: &mut Quiet, vpn: u64, kind: Kind) -> usize {
        q.claim(vpn, kind).0
    }
    fn silent(q: &Quiet, vpn: u64, what: usize) -> bool {
        q.loud(vpn, place(vpn) + what) == 0
    }

    #[test]
    fn bits_come_and_go() {
        let mut q = Quiet::new(2, 1);
        assert!(q.claim(7, Kind::Load).1 && !q.claim(7, Kind::Load).1);
        let at = claim(&mut q, 7, Kind::Load);
        q.publish(at, Kind::Load, 0);
        assert!(!silent(&q, 7, LOADS));
        q.publish(at, Kind::Store, 1);
        assert_eq!((q.designs(7, Kind::Load), q.designs(7, Kind::Store), q.designs(7, Kind::Fetch)), (0b11, 0b10, 0));
        assert_eq!((silent(&q, 7, LOADS), silent(&q, 7, STORES)), (true, false));
        q.publish(at, Kind::Store, 0);
        assert!(silent(&q, 7, STORES));
        q.clear_design(0);
        assert_eq!((q.designs(7, Kind::Load), q.designs(7, Kind::Store)), (0b10, 0b10));
        assert_eq!((silent(&q, 7, LOADS), silent(&q, 7, STORES)), (false, false));
        q.clear_page(Vpn(7), 0b10, 0);
        assert_eq!(q.designs(7, Kind::Store), 0);
    }

    #[test]
    fn a_conflicting_page_takes_the_slot_without_its_bits() {
        let mut q = Quiet::new(1, 1);
        let other = (8..).find(|&v| place(v) == place(7)).unwrap();
        let at = claim(&mut q, 7, Kind::Load);
        q.publish(at, Kind::Load, 0);
        q.serve(at, Kind::Load, 0, NOTHING);
        assert!(q.claim(other, Kind::Load).1);
        assert_eq!((q.designs(7, Kind::Load), q.designs(other, Kind::Load)), (0, 0));
        assert!(!silent(&q, 7, LOADS) && !silent(&q, other, LOADS) && q.served(at, Kind::Load, 0).is_none());
    }

    #[test]
    fn a_served_store_serves_loads_until_the_page_changes() {
        let mut q = Quiet::new(2, 2);
        let at = claim(&mut q, 7, Kind::Load);
        let answer = Touched { label: 3, ..NOTHING };
        q.serve(at, Kind::Load, 0, NOTHING);
        q.serve(at, Kind::Store, 1, answer);
        let served = |q: &Quiet| [Kind::Load, Kind::Store].map(|k| [0, 1].map(|g| q.served(at, k, g).map(|t| t.label)));
        assert_eq!(served(&q), [[Some(0), Some(3)], [None, Some(3)]]);
        q.clear_page(Vpn(7), 0, 0b10);
        assert_eq!(served(&q), [[Some(0), None], [None, None]]);
    }
}
