//! A skewed-associative TLB: a page has another set in each way (Seznec, ISCA 1993; for TLBs, IEEE Transactions on
//! Computers, 2004).
//!
//! Pages that share a set in one way mostly do not in the others, so few ways are as good as many. Everything but the
//! sets is as in [`single`](super::single): the several page sizes that the later paper has in one array are not
//! modelled.

use super::single::SingleTlb;
use crate::tlb::contract::Design;
use crate::tlb::keys::{ENTRIES, FILL_SETS_USED, PAGE_SIZE, PROCESS_IDS, REPLACEMENT, SEED};
use crate::tlb::parts::store::geometry::{Geometry, SetFunction};
use farreach_types::params::{Allowed, Key};

/// Number of ways. Not 0: with one set for all entries there is nothing to skew.
pub const WAYS: Key = Key {
    name: "ways",
    default: "4",
    allowed: Allowed::Int { min: 1, max: 65536 },
    about: "ways, each indexed by another hash of the page number",
};

/// The design as the registry knows it.
pub const DESIGN: Design = Design {
    kind: "skewed",
    about: "one translation of a base page per entry, in another set in each way (skewed-associative)",
    keys: &[&ENTRIES, &WAYS, &REPLACEMENT, &FILL_SETS_USED, &PROCESS_IDS, &SEED, &PAGE_SIZE],
    build: |params| Ok(Box::new(SingleTlb::new(Geometry::of(params)?.with(SetFunction::Skewed), params)?)),
    bits: |_| None, // the area model covers fully associative TLBs
    reach: |params| params.int("entries") * params.int("page_size"),
};
