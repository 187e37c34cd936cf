//! The MMU of a current processor: first-level TLBs, a second level, a walker (DS13-36). And kinds that are names for
//! such a machine with an addition, or a second level, that it always has.

use crate::cache;
use crate::tlb::contract::{Design, Tlb};
use crate::tlb::parts::additions::{self, ListedAddition, range, runs};
use crate::tlb::parts::hierarchy::cores::on_cores;
use crate::tlb::parts::hierarchy::foresight;
use crate::tlb::parts::hierarchy::host::{self, Entries};
use crate::tlb::parts::hierarchy::numa::{self, NUMA_TABLES};
use crate::tlb::parts::hierarchy::{FIRST_LEVEL_KEYS, Hierarchy, OPEN_KEYS, Paging, check_replacement, shared};
use crate::tlb::parts::second_levels::{self, ListedSecondLevel, clustered};
use crate::tlb::parts::{hierarchy, tables};
use farreach_types::joined_keys;
use farreach_types::params::Params;

/// The design as the registry knows it.
pub const DESIGN: Design = Design {
    kind: "hierarchy",
    about: "first-level TLBs by side and page size, a second level, a page-table walker with caches (DS13-36)",
    keys: joined_keys!(OPEN_KEYS, &[&NUMA_TABLES]),
    build: |params| build(params, "hierarchy", Entries::Pages, Always::NOTHING),
    bits: |_| None, // AREA-1 is about one array
    reach,
};

/// Redundant memory mappings.
pub const RANGE: Design = Design {
    kind: "range",
    about: "a hierarchy of page TLBs with a range TLB (RMM15)",
    keys: joined_keys!(range::LISTED.keys, OPEN_KEYS),
    build: |params| build(params, "range", Entries::Ranges, Always { additions: &[&range::LISTED], ..Always::NOTHING }),
    bits: |_| None,
    reach, // of the page TLBs: ranges have no largest size
};

/// CoLT-FA.
pub const COALESCED: Design = Design {
    kind: "coalesced",
    about: "a hierarchy with a fully associative TLB of runs that grow and join (CoLT-FA)",
    keys: joined_keys!(runs::LISTED.keys, OPEN_KEYS),
    build: |params| {
        build(params, "coalesced", Entries::Runs, Always { additions: &[&runs::LISTED], ..Always::NOTHING })
    },
    bits: |_| None,
    reach: |params| reach(params).max(runs::reach(params)),
};

/// RMM15-42, CoLT-SA.
pub const CLUSTERED: Design = Design {
    kind: "clustered",
    about: "a hierarchy whose second level has entries for clusters of pages (RMM15-42) or runs of them (CoLT)",
    keys: joined_keys!(clustered::LISTED.keys, FIRST_LEVEL_KEYS),
    build: |params| {
        build(params, "clustered", Entries::Runs, Always { second: Some(&clustered::LISTED), ..Always::NOTHING })
    },
    bits: |_| None,
    reach: |params| hierarchy::reach(params).max((clustered::LISTED.reach)(params)),
};

/// What a kind has under all values of its keys.
struct Always {
    additions: &'static [&'static ListedAddition],
    second: Option<&'static ListedSecondLevel>,
}

impl Always {
    const NOTHING: Always = Always { additions: &[], second: None };
}

fn reach(params: &Params) -> u64 {
    hierarchy::reach(params).max(second_levels::chosen(params).map_or(0, |second| (second.reach)(params)))
}

fn build(params: &Params, kind: &str, entries: Entries, always: Always) -> Result<Box<dyn Tlb>, String> {
    let Always { additions, second } = always;
    host::check(params, &format!("kind = {kind}"), entries)?;
    let chosen = second_levels::chosen(params);
    if let Some(second) = chosen {
        (second.check)(params)?;
    }
    check_replacement(params)?;
    cache::replacement::check_replacement(params)?;
    tables::check(params)?;
    numa::check(params)?;
    foresight::check(params, &additions::chosen(params, additions)?)?;
    let shared = shared::build(params)?;
    on_cores(params, |params, core, node| {
        Ok(match (chosen.or(second), &shared) {
            (Some(second), _) => Box::new(Hierarchy::new(params, (second.build)(params)?, additions)?.on_node(node)),
            (None, Some(shared)) => Box::new(Hierarchy::new(params, shared.of(core), additions)?),
            (None, None) => Box::new(Hierarchy::new(params, Paging::new(params)?, additions)?.on_node(node)),
        })
    })
}
