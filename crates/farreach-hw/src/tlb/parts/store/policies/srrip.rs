//! SRRIP: entries are predicted to be used again after a long time until they are (VIC-5).

use super::{Access, Listed, Place, Policy, slots};
use crate::tlb::parts::store::geometry::Geometry;
use farreach_types::params::{Allowed, Key};

/// VIC-5.
pub const SRRIP_BITS: Key = Key {
    name: "srrip_bits",
    default: "2",
    allowed: Allowed::Int { min: 1, max: 8 },
    about: "l2_replacement = srrip: bits of the predicted time to the next use",
};

/// The policy as the registry knows it.
pub const LISTED: Listed = Listed {
    name: "srrip",
    about: "the entry predicted to be used again last: a hit makes it soon, and time passes when a victim is sought",
    keys: &[&SRRIP_BITS],
    build: |array| array.told(Srrip::new(array.geometry, array.params.int(SRRIP_BITS.name) as u8)),
    ..Listed::NEW
};

/// See the module.
pub(in crate::tlb) struct Srrip {
    ways: usize,
    /// The latest prediction: of victims.
    distant: u8,
    /// By slot: the predicted time, from 0.
    predicted: Box<[u8]>,
}

impl Srrip {
    fn new(geometry: Geometry, bits: u8) -> Srrip {
        let distant = (1 << bits) - 1;
        Srrip { ways: geometry.ways, distant: distant as u8, predicted: vec![0; geometry.entries()].into() }
    }
}

impl Policy for Srrip {
    fn hit(&mut self, _: Access, place: Place) {
        self.predicted[place.slot as usize] = 0;
    }

    /// The lowest entry of the latest prediction. If there is none, time passes until there is.
    fn victim(&mut self, set: usize) -> u32 {
        let first = set * self.ways;
        let predicted = &mut self.predicted[slots(set, self.ways)];
        let (mut way, mut latest) = (0, predicted[0]);
        for (i, &time) in predicted.iter().enumerate() {
            if time > latest {
                (way, latest) = (i, time);
            }
        }
        let passes = self.distant - latest;
        predicted.iter_mut().for_each(|time| *time += passes);
        (first + way) as u32
    }

    fn filled(&mut self, _: Access, place: Place) {
        self.predicted[place.slot as usize] = self.distant - 1;
    }
}
