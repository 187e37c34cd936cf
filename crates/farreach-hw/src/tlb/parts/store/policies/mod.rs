//! Replacement policies that a second level can have by name (`l2_replacement`): a file each, and a line in the
//! registry at the end of this one.
//!
//! Those of today (`today.rs`) are policies of the store itself, which the first level has as well. A `Policy` is one
//! that only the second level can have: nothing there is filtered, so that it is told of every lookup. The registry
//! makes one enum of them all, so that nothing is called through a pointer. Invalid entries are filled first, lowest
//! index first, under every policy (T94-14); a policy is only asked about sets that are full.

mod chirp;
mod itp;
pub mod opt;
mod srrip;
mod today;

use super::geometry::Geometry;
use super::replacement::Replacement;
use farreach_types::params::{Allowed, Key, Params};
use std::ops::Range;

/// REP-1.
pub const L2_REPLACEMENT: Key = Key {
    name: NAME,
    default: SAME,
    allowed: Allowed::OneOf(&NAMES),
    about: "how the second level chooses a victim, if not as the rest (same)",
};

/// By itself, because the registry is part of the key.
const NAME: &str = "l2_replacement";

/// The value of [`L2_REPLACEMENT`] that leaves it to the key `replacement`.
const SAME: &str = "same";

/// The lookup under way.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(in crate::tlb) struct Access {
    /// Whether it is a fetch.
    pub fetch: bool,
    /// The address of the latest fetch of its thread (HW-6), for policies that need it; 0 for others.
    pub pc: u64,
    /// The number of the next lookup that the entry of this one can answer, for policies that foresee it.
    pub next_use: u32,
}

/// A slot, and the set it is in. The slots of a set are `set * ways..(set + 1) * ways`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tlb) struct Place {
    pub set: usize,
    pub slot: u32,
}

/// Replacement in one array in sets. What it is told of comes in the order in which it happens: a lookup, then the hit,
/// or the victim, its eviction and the fill.
pub(in crate::tlb) trait Policy: Send {
    /// A lookup reaches the level, perhaps without being answered or filled.
    fn looked_up(&mut self, _: Access) {}
    /// The lookup hits this entry.
    fn hit(&mut self, at: Access, place: Place);
    /// The slot to fill, of a set whose entries are all valid.
    fn victim(&mut self, set: usize) -> u32;
    /// Its entry leaves.
    fn evicted(&mut self, _: Place) {}
    /// A new entry is in this slot. The lookup that missed is no hit.
    fn filled(&mut self, at: Access, place: Place);
    /// The entry was dropped, because its mapping changed or its process left.
    fn dropped(&mut self, _: Place) {}
    /// Counters of its own, as [`Listed::counters`] names them.
    fn counters(&self, _each: &mut dyn FnMut(u64)) {}
}

/// A policy as the registry knows it.
pub struct Listed {
    /// Value of [`L2_REPLACEMENT`].
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// The keys it reads.
    pub keys: &'static [&'static Key],
    /// Counters of its own.
    pub counters: &'static [&'static str],
    /// Whether it needs the program counter of a lookup.
    pub needs_pc: bool,
    /// Whether each set is on its own: what happens in others decides nothing in it.
    pub by_sets: bool,
    /// Whether it must know what comes, which takes two passes over a stream ([`crate::tlb::Foresees`]).
    pub foresees: bool,
    /// Whether it is defined in virtual machines and on several cores (HW-12).
    pub everywhere: bool,
    /// Its state of an array. The error names key, value and what is allowed.
    pub(in crate::tlb) build: fn(&Array) -> Result<Replacement, String>,
}

impl Listed {
    /// What entries have if they do not say otherwise.
    const NEW: Listed = Listed {
        name: "",
        about: "",
        keys: &[],
        counters: &[],
        needs_pc: false,
        by_sets: true,
        foresees: false,
        everywhere: false,
        build: |_| Err(String::new()),
    };
}

/// The array that gets a policy.
pub(in crate::tlb) struct Array<'p> {
    pub geometry: Geometry,
    pub params: &'p Params,
    /// Of random choices.
    pub seed: u64,
    /// The policy that is built.
    pub listed: &'p Listed,
}

impl Array<'_> {
    /// With this state.
    fn told(&self, policy: impl Into<Chosen>) -> Result<Replacement, String> {
        Ok(Replacement::told(self.geometry, Told::new(policy, self.listed)))
    }
}

/// The policy that a machine has for its second level; `None` if that is as the rest, or it has no such key.
pub(in crate::tlb) fn chosen(params: &Params) -> Option<&'static Listed> {
    listed(params.has(L2_REPLACEMENT.name).then(|| params.text(L2_REPLACEMENT.name))?)
}

/// The key and value for which a machine must go through a stream twice, if it must (REP-1).
pub fn foresees(params: &Params) -> Option<String> {
    let policy = chosen(params).filter(|policy| policy.foresees)?;
    Some(format!("{NAME} = {}", policy.name))
}

/// The policy of this name.
pub fn listed(name: &str) -> Option<&'static Listed> {
    POLICIES.iter().copied().find(|policy| policy.name == name)
}

/// A chosen [`Policy`] with the lookup under way.
pub(in crate::tlb) struct Told {
    at: Access,
    policy: Chosen,
    /// See [`Listed::by_sets`].
    pub by_sets: bool,
}

impl Told {
    pub fn new(policy: impl Into<Chosen>, listed: &Listed) -> Told {
        Told { at: Access::default(), policy: policy.into(), by_sets: listed.by_sets }
    }
    /// See [`Policy::looked_up`].
    pub fn looked_up(&mut self, at: Access) {
        self.at = at;
        self.policy.looked_up(at);
    }
    #[inline(never)]
    pub fn hit(&mut self, place: Place) {
        self.policy.hit(self.at, place);
    }
    #[inline(never)]
    pub fn victim(&mut self, set: usize) -> u32 {
        self.policy.victim(set)
    }
    /// A slot has a new entry; `evicts`: in the place of another.
    #[inline(never)]
    pub fn entered(&mut self, place: Place, evicts: bool) {
        if evicts {
            self.policy.evicted(place);
        }
        self.policy.filled(self.at, place);
    }
    pub fn dropped(&mut self, place: Place) {
        self.policy.dropped(place);
    }
    pub fn counters(&self, each: &mut dyn FnMut(u64)) {
        self.policy.counters(each);
    }
}

/// The slots of a set.
fn slots(set: usize, ways: usize) -> Range<usize> {
    set * ways..(set + 1) * ways
}

/// Makes the registry, and the enum of the policies that are no others' (see the module).
macro_rules! policies {
    (today: $($today:ident)*; $($module:ident::$policy:ident,)*) => {
        /// All policies. A new one is one file here and one line at the end of `policies/mod.rs`.
        pub const POLICIES: &[&Listed] = &[$(&today::$today,)* $(&$module::LISTED),*];

        /// One of the policies.
        pub(in crate::tlb) enum Chosen {
            $($policy($module::$policy)),*
        }

        $(impl From<$module::$policy> for Chosen {
            fn from(policy: $module::$policy) -> Chosen {
                Chosen::$policy(policy)
            }
        })*

        impl Policy for Chosen {
            fn looked_up(&mut self, at: Access) {
                match self { $(Chosen::$policy(policy) => policy.looked_up(at)),* }
            }
            fn hit(&mut self, at: Access, place: Place) {
                match self { $(Chosen::$policy(policy) => policy.hit(at, place)),* }
            }
            fn victim(&mut self, set: usize) -> u32 {
                match self { $(Chosen::$policy(policy) => policy.victim(set)),* }
            }
            fn evicted(&mut self, place: Place) {
                match self { $(Chosen::$policy(policy) => policy.evicted(place)),* }
            }
            fn filled(&mut self, at: Access, place: Place) {
                match self { $(Chosen::$policy(policy) => policy.filled(at, place)),* }
            }
            fn dropped(&mut self, place: Place) {
                match self { $(Chosen::$policy(policy) => policy.dropped(place)),* }
            }
            fn counters(&self, each: &mut dyn FnMut(u64)) {
                match self { $(Chosen::$policy(policy) => policy.counters(each)),* }
            }
        }
    };
}

/// Values of [`L2_REPLACEMENT`].
const NAMES: [&str; POLICIES.len() + 1] = {
    let mut names = [SAME; POLICIES.len() + 1];
    let mut i = 0;
    while i < POLICIES.len() {
        names[i + 1] = POLICIES[i].name;
        i += 1;
    }
    names
};

policies! {
    today: LRU PLRU FIFO RANDOM LFSR;
    srrip::Srrip,
    chirp::Chirp,
    itp::Itp,
    opt::Opt,
}

#[cfg(test)]
mod tests;
