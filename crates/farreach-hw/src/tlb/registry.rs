//! The designs that a description can name.

use super::contract::Design;
use super::designs::{
    complete_subblock, hierarchy, integrated, partial_subblock, segment, single, skewed, superpage, two_level,
};
use super::parts::additions::{self, BACKGROUND_WEIGHT, BEHIND, Counter, Law, runs::RUN_BEYOND};
use super::parts::hierarchy::cores::mechanisms::{self, SHOOTDOWN};
use super::parts::hierarchy::host::{self, HOST};
use super::parts::hierarchy::numa::{self, NUMA_TABLES};
use super::parts::hierarchy::shared::{L2_SHARED, SLL_EXTRA};
use super::parts::hierarchy::walk_caches::{self, PWC_KIND};
use super::parts::second_levels::{self, SECOND_LEVEL, anchor::ANCHOR_EPOCH, clustered::CLUSTER_BESIDE};
use super::parts::store::policies::{self, L2_REPLACEMENT};
use super::parts::tables::{self, DMT_GUEST_ARRAYS, HOST_TABLE, TABLE, TABLE_SCOPE, TableLaw};
use crate::cache::replacement::{self, CACHE_L2_REPLACEMENT};
use farreach_types::counts::{HOST_TABLE as HOST_TABLE_PART, PartCounts, TlbCounts};
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
    &hierarchy::CLUSTERED,
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

/// The keys that choose parts of a hierarchy. Parts have keys that choose, too, behind those that choose them.
pub const CHOICES: [Choice; 10] = [
    (&BEHIND, |name| additions::listed(name).map(|listed| listed.keys)),
    (&TABLE, |name| tables::listed(name).map(|listed| listed.keys)),
    (&HOST_TABLE, |name| tables::of_host(name).map(|table| &table.keys[..])),
    (&SECOND_LEVEL, second_levels::keys),
    (&L2_REPLACEMENT, |name| policies::listed(name).map(|listed| listed.keys)),
    (&PWC_KIND, |name| walk_caches::listed(name).map(|listed| listed.keys)),
    (&CACHE_L2_REPLACEMENT, replacement::keys),
    (&HOST, |name| host::listed(name).map(|listed| listed.keys)),
    (&SHOOTDOWN, mechanisms::keys),
    (&NUMA_TABLES, numa::keys),
];

/// Keys that came after results of the parts that they belong to. Results do not name them at their defaults (HW-4).
const LATER: [&Key; 7] =
    [&RUN_BEYOND, &CLUSTER_BESIDE, &TABLE_SCOPE, &ANCHOR_EPOCH, &DMT_GUEST_ARRAYS, &L2_SHARED, &SLL_EXTRA];

/// The keys of a design in a machine with these values: its own, and those of the parts that the values choose. Another
/// second level than arrays of pages has no use for their keys.
pub fn keys_of(design: &Design, given: &Map<String, Json>) -> Vec<&'static Key> {
    let mut keys = design.keys.to_vec();
    let has = |keys: &[&Key], name: &str| keys.iter().any(|key| key.name == name);
    if has(&keys, SECOND_LEVEL.name)
        && let [name] = &SECOND_LEVEL.words(given)[..]
        && let Some(chosen) = second_levels::listed(name)
    {
        let of_pages = second_levels::keys(SECOND_LEVEL.default).unwrap_or_default();
        keys.retain(|key| !has(of_pages, key.name) || has(chosen.keys, key.name));
    }
    for (choice, part) in CHOICES {
        if has(&keys, choice.name) {
            let names = choice.words(given);
            let of_parts: Vec<_> = names.iter().filter_map(|name| part(name)).flatten().copied().collect();
            of_parts.into_iter().for_each(|key| {
                // A kind may have a key for reasons of its own.
                if !has(&keys, key.name) {
                    keys.push(key)
                }
            });
        }
    }
    keys
}

/// The choices of parts that a machine leaves at their defaults. Results do not name them, so that a new part changes
/// no result without it (HW-4). They have always named the host.
pub fn idle_choices(params: &Params) -> impl Iterator<Item = &'static str> {
    let is_default = |key: &Key| params.as_json().get(key.name) == key.check(&key.default.into()).ok().as_ref();
    let choices = CHOICES.iter().map(|(key, _)| *key).filter(|key| key.name != HOST.name);
    let idle = choices.chain(LATER).filter(move |key| is_default(key));
    // It prices parts alone.
    let no_parts = is_default(&BEHIND) && is_default(&TABLE) && is_default(&HOST_TABLE);
    idle.chain(Some(&BACKGROUND_WEIGHT).filter(|_| no_parts)).map(|key| key.name)
}

/// What a part counts by itself, in `counts.parts`.
#[derive(Clone, Copy)]
pub struct Counting {
    /// Its counters.
    pub counters: &'static [Counter],
    laws: &'static [Law],
    table_laws: &'static [TableLaw],
    /// The walks that laws of tables speak of.
    walks: fn(&TlbCounts) -> u64,
}

impl Counting {
    /// Of a part that is no page table.
    pub(crate) const fn new(counters: &'static [Counter], laws: &'static [Law]) -> Counting {
        Counting { counters, laws, table_laws: &[], walks: |counts| counts.walk.walks }
    }

    /// The laws that its counters keep, by name, with what must be equal.
    pub fn laws<'a>(
        &'a self,
        part: &'a PartCounts,
        counts: &'a TlbCounts,
    ) -> impl Iterator<Item = (&'static str, (u64, u64))> + 'a {
        let laws = self.laws.iter().map(|law| (law.name, (law.sides)(part, counts)));
        let of_table = |law: &TableLaw| (law.name, (law.sides)(part, (self.walks)(counts)));
        laws.chain(self.table_laws.iter().map(of_table))
    }
}

/// The counters of the part that a result of this machine names so; `None`: it has no such part.
pub fn counting(name: &str, params: &Params) -> Option<Counting> {
    match name {
        tables::PART => {
            tables::chosen(params).map(|part| Counting { table_laws: part.laws, ..Counting::new(part.counters, &[]) })
        }
        HOST_TABLE_PART => tables::chosen_of_host(params).map(|part| Counting {
            counters: &part.counters,
            laws: part.laws,
            table_laws: part.table_laws,
            walks: |counts| counts.host_walk.walks,
        }),
        walk_caches::PART => walk_caches::chosen(params).map(|part| Counting::new(part.counters, part.laws)),
        mechanisms::PART => mechanisms::counters(params).map(|counters| Counting::new(counters, &[])),
        numa::READS => numa::chosen(params).map(|_| Counting::new(numa::READ_COUNTERS, numa::LAWS)),
        numa::COPIES => numa::chosen(params).map(|_| Counting::new(numa::COPY_COUNTERS, &[])),
        host::PART => host::chosen(params).map(|part| Counting::new(part.counters, part.laws)),
        name => match second_levels::listed(name) {
            Some(part) => Some(Counting::new(part.counters, part.laws)),
            None => additions::listed(name).map(|part| Counting::new(part.counters, part.laws)),
        },
    }
}
