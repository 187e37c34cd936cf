//! The translation hardware of a machine, and its keys.

use farreach_cost as cost;
use farreach_hw::system::{SYSTEMS, SystemKind};
use farreach_hw::tlb::Design;
use farreach_types::params::{Allowed, Key};
use serde_json::{Map, Value as Json};

/// Which hardware.
pub(super) const KIND: Key = Key {
    name: "kind",
    default: "",
    allowed: Allowed::Text,
    about: "the TLB design, or the kind of a machine with caches",
};
/// AMB-18.
pub(super) const SPLIT: Key = Key {
    name: "split",
    default: "false",
    allowed: Allowed::Flag,
    about: "one TLB for fetches and one for data, each with `entries` entries, instead of a unified one",
};

/// The translation hardware of a machine, as a registry lists it.
#[derive(Clone, Copy)]
pub enum Hardware {
    /// A TLB by itself: of the references only their pages count.
    Tlb(&'static Design),
    /// Caches, and translation behind or beside them: every reference counts.
    System(&'static SystemKind),
}

impl Hardware {
    /// All that a description can name: these designs and the machines with caches.
    pub(super) fn all(designs: &[&'static Design]) -> impl Iterator<Item = Hardware> {
        designs.iter().map(|design| Hardware::Tlb(design)).chain(SYSTEMS.iter().map(|system| Hardware::System(system)))
    }

    /// Value of the key `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Hardware::Tlb(design) => design.kind,
            Hardware::System(system) => system.kind,
        }
    }

    /// One line for display.
    pub fn about(&self) -> &'static str {
        match self {
            Hardware::Tlb(design) => design.about,
            Hardware::System(system) => system.about,
        }
    }

    /// The TLB design, if it is one by itself.
    pub fn tlb(&self) -> Option<&'static Design> {
        match self {
            Hardware::Tlb(design) => Some(design),
            Hardware::System(_) => None,
        }
    }

    /// The keys it reads, with those of the parts that these values choose.
    pub(super) fn keys(&self, given: &Map<String, Json>) -> Vec<&'static Key> {
        let mut keys = vec![&KIND];
        match self {
            Hardware::Tlb(design) => {
                keys.extend(farreach_hw::tlb::keys_of(design, given));
                keys.push(&SPLIT);
            }
            Hardware::System(system) => keys.extend(system.keys),
        }
        keys
    }

    /// The prices of its misses.
    pub(super) fn prices(&self) -> Vec<&'static Key> {
        match self {
            Hardware::Tlb(_) => cost::COST_KEYS.to_vec(),
            Hardware::System(system) if !system.parts.is_empty() => cost::COST_KEYS.to_vec(),
            Hardware::System(_) => [cost::SYSTEM_KEYS, cost::COMMON_KEYS].concat(),
        }
    }
}
