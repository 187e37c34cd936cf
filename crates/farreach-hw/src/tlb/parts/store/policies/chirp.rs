//! CHiRP: whether an entry will be used again is predicted from the instructions that led to its use (CHI-1 to CHI-5).
//!
//! The signature of a lookup is a fold of the program counter and of the path, the program counters of the lookups
//! before it; were its own in the path, too, it would cancel itself out. Streams have no branches, so the histories of
//! conditional and indirect ones are left out (CHI-1). A table of counters says of a signature how often its entries
//! were evicted without a hit. Each array has a table of its own.

use super::{Access, Listed, Place, Policy, slots};
use crate::tlb::parts::store::geometry::Geometry;
use farreach_types::params::{Allowed, Key, Params};

/// CHI-2.
pub const CHIRP_COUNTERS: Key = Key {
    name: "chirp_counters",
    default: "4096",
    allowed: Allowed::PowerOfTwo { min: 1, max: 65536 },
    about: "l2_replacement = chirp: counters, found by the lowest bits of the signature",
};
/// CHI-3. A counter goes up to 3.
pub const CHIRP_DEAD_AT: Key = Key {
    name: "chirp_dead_at",
    default: "2",
    allowed: Allowed::Int { min: 1, max: 4 },
    about: "l2_replacement = chirp: count from which entries are predicted not to be used again; 4: never, as lru",
};
/// CHI-5.
pub const CHIRP_RENEW: Key = Key {
    name: "chirp_renew",
    default: "every",
    allowed: Allowed::OneOf(&["every", "set-change"]),
    about: "l2_replacement = chirp: which hits renew signature and prediction of the entry: every; set-change: those \
            in another set than the hit or fill before",
};

/// The policy as the registry knows it.
pub const LISTED: Listed = Listed {
    name: "chirp",
    about: "the entry used longest ago of those that the path of the program predicts dead, if there are any (CHiRP)",
    keys: &[&CHIRP_COUNTERS, &CHIRP_DEAD_AT, &CHIRP_RENEW],
    counters: &["dead_victims", "unused_victims"],
    needs_pc: true,
    by_sets: false,
    build: |array| array.told(Chirp::new(array.geometry, array.params)),
    ..Listed::NEW
};

/// The most that a counter of two bits holds.
const MOST: u8 = 3;

/// What the policy knows of a slot.
#[derive(Clone, Copy, Default)]
struct Entry {
    /// When it was used or filled last, in uses.
    last: u64,
    signature: u16,
    dead: bool,
    was_hit: bool,
}

/// See the module.
pub(in crate::tlb) struct Chirp {
    ways: usize,
    dead_at: u8,
    renews_always: bool,
    path: u64,
    /// Of the lookup under way.
    signature: u16,
    /// Of the last hit or fill.
    set: usize,
    counters: Box<[u8]>,
    entries: Box<[Entry]>,
    now: u64,
    dead_victims: u64,
    unused_victims: u64,
}

/// Sixteen bits of all bits.
pub(super) fn fold(n: u64) -> u16 {
    (n ^ n >> 16 ^ n >> 32 ^ n >> 48) as u16
}

impl Chirp {
    fn new(geometry: Geometry, params: &Params) -> Chirp {
        Chirp {
            ways: geometry.ways,
            dead_at: params.int(CHIRP_DEAD_AT.name) as u8,
            renews_always: params.text(CHIRP_RENEW.name) == "every",
            path: 0,
            signature: 0,
            set: usize::MAX,
            counters: vec![0; params.int(CHIRP_COUNTERS.name) as usize].into(),
            entries: vec![Entry::default(); geometry.entries()].into(),
            now: 0,
            dead_victims: 0,
            unused_victims: 0,
        }
    }

    fn counter(&mut self, signature: u16) -> &mut u8 {
        let at = usize::from(signature) & (self.counters.len() - 1);
        &mut self.counters[at]
    }

    /// Gives an entry the signature of this lookup, with what it predicts.
    fn renew(&mut self, slot: u32) {
        let signature = self.signature;
        let dead = *self.counter(signature) >= self.dead_at;
        let entry = &mut self.entries[slot as usize];
        (entry.signature, entry.dead) = (signature, dead);
    }
}

impl Policy for Chirp {
    fn looked_up(&mut self, at: Access) {
        self.signature = fold((at.pc / 4) ^ self.path);
        self.path = (self.path << 1) ^ (at.pc / 4);
    }

    /// CHI-5.
    fn hit(&mut self, _: Access, Place { set, slot }: Place) {
        self.now += 1;
        let now = self.now;
        let entry = &mut self.entries[slot as usize];
        entry.last = now;
        let (signature, first) = (entry.signature, !std::mem::replace(&mut entry.was_hit, true));
        if first {
            let counter = self.counter(signature);
            *counter = counter.saturating_sub(1);
        }
        if self.renews_always || set != self.set {
            self.renew(slot);
        }
        self.set = set;
    }

    /// CHI-4.
    fn victim(&mut self, set: usize) -> u32 {
        let slots = slots(set, self.ways);
        let oldest = slots.min_by_key(|&slot| (!self.entries[slot].dead, self.entries[slot].last));
        oldest.expect("sets have entries") as u32
    }

    /// CHI-4: an entry that was never hit raises the counter of its signature.
    fn evicted(&mut self, place: Place) {
        let Entry { signature, dead, was_hit, .. } = self.entries[place.slot as usize];
        self.dead_victims += u64::from(dead);
        self.unused_victims += u64::from(!was_hit);
        if !was_hit {
            let counter = self.counter(signature);
            *counter = MOST.min(*counter + 1);
        }
    }

    /// CHI-3.
    fn filled(&mut self, _: Access, Place { set, slot }: Place) {
        self.now += 1;
        self.entries[slot as usize] = Entry { last: self.now, ..Entry::default() };
        self.renew(slot);
        self.set = set;
    }

    fn counters(&self, each: &mut dyn FnMut(u64)) {
        [self.dead_victims, self.unused_victims].into_iter().for_each(each);
    }
}
