//! The MMU of a current processor: first-level TLBs, a second level of page TLBs, a walker (DS13-36). And kinds that are
//! names for such a machine with an addition that it always has.

use crate::tlb::contract::{Design, Tlb};
use crate::tlb::parts::additions::{self, ListedAddition, range, runs};
use crate::tlb::parts::hierarchy::cores::on_cores;
use crate::tlb::parts::hierarchy::host::{self, Entries};
use crate::tlb::parts::hierarchy::{Hierarchy, KEYS, Paging, check_replacement, reach};
use crate::tlb::parts::tables;
use farreach_types::joined_keys;
use farreach_types::params::Params;

/// The design as the registry knows it.
pub const DESIGN: Design = Design {
    kind: "hierarchy",
    about: "first-level TLBs by side and page size, a second level, a page-table walker with caches (DS13-36)",
    keys: KEYS,
    build: |params| build(params, "hierarchy", Entries::Pages, &[]),
    bits: |_| None, // AREA-1 is about one array
    reach,
};

/// Redundant memory mappings.
pub const RANGE: Design = Design {
    kind: "range",
    about: "a hierarchy of page TLBs with a range TLB (RMM15)",
    keys: joined_keys!(range::LISTED.keys, KEYS),
    build: |params| build(params, "range", Entries::Ranges, &[&range::LISTED]),
    bits: |_| None,
    reach, // of the page TLBs: ranges have no largest size
};

/// CoLT-FA.
pub const COALESCED: Design = Design {
    kind: "coalesced",
    about: "a hierarchy with a fully associative TLB of runs that grow and join (CoLT-FA)",
    keys: joined_keys!(runs::LISTED.keys, KEYS),
    build: |params| build(params, "coalesced", Entries::Runs, &[&runs::LISTED]),
    bits: |_| None,
    reach: |params| reach(params).max(runs::reach(params)),
};

fn build(
    params: &Params,
    kind: &str,
    entries: Entries,
    always: &[&'static ListedAddition],
) -> Result<Box<dyn Tlb>, String> {
    host::check(params, &format!("kind = {kind}"), entries)?;
    check_replacement(params)?;
    tables::check(params)?;
    additions::chosen(params, always)?;
    on_cores(params, |params| Ok(Box::new(Hierarchy::new(params, Paging::new(params)?, always)?)))
}
