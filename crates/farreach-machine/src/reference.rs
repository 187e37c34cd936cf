//! All keys that a description can have, by the part of a machine that reads them.

use super::hardware::{KIND, SPLIT};
use farreach_cost as cost;
use farreach_hw::system::SYSTEMS;
use farreach_hw::tlb::{DESIGNS, additions, cores, numa, policies, second_levels, tables};
use farreach_os as os;
use farreach_types::params::Key;

/// A part of machines, and the keys that come with it.
pub struct PartKeys {
    /// What kind of part it is.
    pub group: &'static str,
    /// The key that selects it and its name there; none for keys that all parts of the group have.
    pub selected_by: Option<(&'static str, &'static str)>,
    /// One line for display.
    pub about: &'static str,
    /// Its keys, by name.
    pub keys: Vec<&'static Key>,
}

/// Every part that can be in a machine, in the order of the registries, group by group.
pub fn reference() -> Vec<PartKeys> {
    let part = |group, selected_by, about, keys: &[&'static Key]| {
        let mut keys = keys.to_vec();
        keys.sort_by_key(|key| key.name);
        keys.dedup_by_key(|key| key.name);
        PartKeys { group, selected_by, about, keys }
    };
    let every = [&[&KIND], &os::keys("")[..], cost::COMMON_KEYS].concat();
    let tlb = [&[&SPLIT], cost::COST_KEYS].concat();
    let tlb: Vec<_> = tlb.into_iter().filter(|key| every.iter().all(|other| other.name != key.name)).collect();
    let mut parts = vec![part("Every machine", None, "Keys that every machine has.", &every)];
    parts.push(part("TLB designs", None, "Keys that every machine with one of these designs has.", &tlb));
    parts.extend(DESIGNS.iter().map(|d| part("TLB designs", Some((KIND.name, d.kind)), d.about, d.keys)));
    let choice = |group, key: &Key, name, about, keys| part(group, Some((key.name, name)), about, keys);
    let additions = additions::ADDITIONS.iter();
    parts.extend(additions.map(|a| choice("Additions to a hierarchy", &additions::BEHIND, a.name, a.about, a.keys)));
    let tables = tables::TABLES.iter();
    parts.extend(tables.map(|t| choice("Page tables of a hierarchy", &tables::TABLE, t.name, t.about, t.keys)));
    let of_hosts = tables::TABLES.iter().filter_map(|t| Some((t, tables::of_host(t.name)?)));
    parts.extend(
        of_hosts.map(|(t, h)| choice("Page tables of a host", &tables::HOST_TABLE, t.name, t.about, &h.keys[..])),
    );
    let seconds = second_levels::SECOND_LEVELS.iter();
    let key = &second_levels::SECOND_LEVEL;
    parts.extend(seconds.map(|s| choice("Second levels of a hierarchy", key, s.name, s.about, s.keys)));
    let policies = policies::POLICIES.iter();
    parts.extend(
        policies.map(|p| choice("Replacement in a second level", &policies::L2_REPLACEMENT, p.name, p.about, p.keys)),
    );
    let mechanisms = cores::mechanisms::MECHANISMS.iter();
    let key = &cores::mechanisms::SHOOTDOWN;
    parts.extend(mechanisms.map(|m| choice("Shootdowns of a hierarchy", key, m.name, m.about, m.keys)));
    let placements = numa::PLACEMENTS.iter();
    let key = &numa::NUMA_TABLES;
    parts.extend(placements.map(|p| choice("Page tables on nodes of memory", key, p.name, p.about, p.keys)));
    parts.push(part("Machines with caches", None, "Keys that every machine with caches has.", cost::SYSTEM_KEYS));
    parts.extend(SYSTEMS.iter().map(|s| part("Machines with caches", Some((KIND.name, s.kind)), s.about, s.keys)));
    let policies = os::placement::PLACEMENTS.iter();
    parts.extend(policies.map(|p| part("Placement policies", Some((os::PLACEMENT.name, p.name)), p.about, p.keys)));
    parts
}
