//! The designs that a description can name.

use super::contract::Design;
use super::designs::{
    clustered, complete_subblock, hierarchy, integrated, partial_subblock, segment, single, skewed, superpage,
    two_level,
};
use super::parts::additions::{self, BACKGROUND_WEIGHT, BEHIND};
use super::parts::hierarchy::host::{self, HOST};
use super::parts::hierarchy::walk_caches::{self, PWC_KIND};
use super::parts::store::policies::{self, L2_REPLACEMENT};
use super::parts::tables::{self, TABLE};
use crate::cache::levels::CACHE_L2_REPLACEMENT;
use farreach_types::params::{Key, Params};
use serde_json::{Map, Value as Json};

/// All designs. A new design is one file in `designs` and one line here.
pub const DESIGNS: &[&Design] = &[
    &single::DESIGN,
    &superpage::DESIGN,
    &complete_subblock::DESIGN,
    &partial_subblock::DESIGN,
    &integrated::DESIGN,
    &two_level::DESIGN,
    &hierarchy::DESIGN,
    &hierarchy::RANGE,
    &clustered::DESIGN,
    &hierarchy::COALESCED,
    &segment::DESIGN,
    &skewed::DESIGN,
];

/// The design of this kind.
pub fn design(kind: &str) -> Option<&'static Design> {
    DESIGNS.iter().copied().find(|d| d.kind == kind)
}

/// A key that chooses parts by name, and the keys of the part of a name.
pub type Choice = (&'static Key, fn(&str) -> Option<&'static [&'static Key]>);

/// The keys that choose parts of a hierarchy.
pub const CHOICES: [Choice; 5] = [
    (&BEHIND, |name| additions::listed(name).map(|listed| listed.keys)),
    (&TABLE, |name| tables::listed(name).map(|listed| listed.keys)),
    (&L2_REPLACEMENT, |name| policies::listed(name).map(|listed| listed.keys)),
    (&PWC_KIND, |name| walk_caches::listed(name).map(|listed| listed.keys)),
    (&HOST, |name| host::listed(name).map(|listed| listed.keys)),
];

/// The parts that have a key of this name, each with the key that chooses it.
pub fn parts_with(key: &str) -> impl Iterator<Item = (&'static Key, &'static str)> {
    let additions = additions::ADDITIONS.iter().map(|part| (&BEHIND, part.name, part.keys));
    let tables = tables::TABLES.iter().map(|part| (&TABLE, part.name, part.keys));
    let policies = policies::POLICIES.iter().map(|part| (&L2_REPLACEMENT, part.name, part.keys));
    let parts = additions.chain(tables).chain(policies);
    parts.filter(move |(_, _, keys)| keys.iter().any(|own| own.name == key)).map(|(choice, name, _)| (choice, name))
}

/// The keys of a design in a machine with these values: its own, and those of the parts that the values choose.
pub fn keys_of(design: &Design, given: &Map<String, Json>) -> Vec<&'static Key> {
    let mut keys = design.keys.to_vec();
    for (choice, part) in CHOICES.iter().filter(|(choice, _)| design.keys.iter().any(|key| key.name == choice.name)) {
        let names = choice.words(given);
        for key in names.iter().filter_map(|name| part(name)).flatten() {
            // A kind may have a key for reasons of its own.
            if keys.iter().all(|known| known.name != key.name) {
                keys.push(key);
            }
        }
    }
    keys
}

/// The choices of parts that a machine leaves at their defaults. Results do not name them, so that a new part changes no
/// result without it (HW-4). They have always named the host.
pub fn idle_choices(params: &Params) -> impl Iterator<Item = &'static str> {
    let is_idle = |key: &Key| params.has(key.name) && params.words(key.name) == [key.default];
    CHOICES
        .iter()
        .map(|(key, _)| key.name)
        .filter(move |name| *name != HOST.name && CHOICES.iter().any(|(key, _)| key.name == *name && is_idle(key)))
        .chain([CACHE_L2_REPLACEMENT.name].into_iter().filter(move |_| is_idle(&CACHE_L2_REPLACEMENT)))
        .chain([BACKGROUND_WEIGHT.name].into_iter().filter(move |name| {
            // It prices parts alone.
            params.has(name) && [&BEHIND, &TABLE].iter().all(|key| is_idle(key))
        }))
}
