//! iTP: translations of fetches are kept longer than those of data (ITP-1). The policy of the caches that belongs to it
//! is in `cache/replacement.rs` (ITP-2).
//!
//! Each set has an order of its valid entries, the newest first. A new entry of a fetch becomes the newest, that of a
//! load or store gets the place that is `itp_from_oldest` before the end of a full set; in a set with fewer entries
//! before that place, the end. Entries behind it move on by one, and entries behind one that is dropped move up. An
//! entry belongs to fetches or to data by the lookup that filled it, whichever hit it later. The victim is the oldest.

use super::{Access, Listed, Place, Policy, slots};
use crate::tlb::parts::store::geometry::Geometry;
use farreach_types::params::{Allowed, Key};

/// ITP-1.
pub const ITP_FROM_OLDEST: Key = Key {
    name: "itp_from_oldest",
    default: "4",
    allowed: Allowed::Int { min: 1, max: 65536 },
    about: "l2_replacement = itp: a new entry of data gets this place of the set, counted from the oldest (1)",
};
/// ITP-1.
pub const ITP_HITS: Key = Key {
    name: "itp_hits",
    default: "1",
    allowed: Allowed::Int { min: 1, max: 65536 },
    about: "l2_replacement = itp: hits for which an entry of data moves up by one place",
};

/// The policy as the registry knows it.
pub const LISTED: Listed = Listed {
    name: "itp",
    about: "the entry last in an order that fetches enter in front and data near the end (iTP)",
    keys: &[&ITP_FROM_OLDEST, &ITP_HITS],
    build: |array| {
        let int = |key: &Key| array.params.int(key.name) as u32;
        array.told(Itp::new(array.geometry, int(&ITP_FROM_OLDEST), int(&ITP_HITS)))
    },
    ..Listed::NEW
};

/// What the policy knows of a slot.
#[derive(Clone, Copy, Default)]
struct Entry {
    fetched: bool,
    /// Hits since it moved up.
    hits: u32,
}

/// See the module.
pub(in crate::tlb) struct Itp {
    ways: usize,
    /// Where entries of data begin, from the newest.
    data_at: usize,
    hits: u32,
    /// Set after set, its valid slots from the newest on.
    order: Box<[u32]>,
    /// By set, how many they are.
    valid: Box<[u32]>,
    entries: Box<[Entry]>,
}

impl Itp {
    fn new(geometry: Geometry, from_oldest: u32, hits: u32) -> Itp {
        Itp {
            ways: geometry.ways,
            data_at: geometry.ways.saturating_sub(from_oldest as usize),
            hits,
            order: vec![0; geometry.entries()].into(),
            valid: vec![0; geometry.sets].into(),
            entries: vec![Entry::default(); geometry.entries()].into(),
        }
    }

    /// The order of a set, and the place of a slot in it.
    fn find(&mut self, Place { set, slot }: Place) -> (&mut [u32], usize) {
        let order = &mut self.order[slots(set, self.ways)][..self.valid[set] as usize];
        let at = order.iter().position(|&s| s == slot).expect("valid slots are in the order");
        (order, at)
    }

    fn leave(&mut self, place: Place) {
        let (order, at) = self.find(place);
        order[at..].rotate_left(1);
        self.valid[place.set] -= 1;
    }
}

impl Policy for Itp {
    fn hit(&mut self, _: Access, place: Place) {
        let Entry { fetched, hits } = &mut self.entries[place.slot as usize];
        if *fetched {
            let (order, at) = self.find(place);
            order[..=at].rotate_right(1);
            return;
        }
        *hits += 1;
        if *hits == self.hits {
            *hits = 0;
            let (order, at) = self.find(place);
            if at > 0 {
                order.swap(at - 1, at);
            }
        }
    }

    fn victim(&mut self, set: usize) -> u32 {
        self.order[slots(set, self.ways)][self.ways - 1]
    }

    fn evicted(&mut self, place: Place) {
        self.leave(place);
    }

    fn filled(&mut self, at: Access, Place { set, slot }: Place) {
        self.entries[slot as usize] = Entry { fetched: at.fetch, hits: 0 };
        let valid = self.valid[set] as usize;
        let place = if at.fetch { 0 } else { self.data_at.min(valid) };
        let order = &mut self.order[slots(set, self.ways)][..=valid];
        order[valid] = slot;
        order[place..].rotate_right(1);
        self.valid[set] += 1;
    }

    fn dropped(&mut self, place: Place) {
        self.leave(place);
    }
}
