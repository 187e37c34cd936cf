//! The MMU of a current processor: first-level TLBs, a second level of page TLBs, a walker (DS13-36).

use crate::tlb::contract::Design;
use crate::tlb::parts::hierarchy::cores::on_cores;
use crate::tlb::parts::hierarchy::host::{self, Entries};
use crate::tlb::parts::hierarchy::{Hierarchy, KEYS, Paging, check_replacement, joined, reach};
use crate::tlb::parts::store::policies;

/// The design as the registry knows it.
pub const DESIGN: Design = Design {
    kind: "hierarchy",
    about: "first-level TLBs by side and page size, a second level, a page-table walker with caches (DS13-36)",
    keys: &joined::<{ KEYS.len() + policies::KEYS.len() }>(KEYS, &policies::KEYS),
    build: |params| {
        host::check(params, "hierarchy", Entries::Pages)?;
        check_replacement(params)?;
        on_cores(params, |params| Ok(Box::new(Hierarchy::new(params, Paging::new(params)?)?)))
    },
    bits: |_| None, // AREA-1 is about one array
    reach,
};
