//! A host with a page table, which is walked for every address of the guest (DS13-40).

use super::{ListedHost, Mode};

/// The host as the registry knows it.
pub const LISTED: ListedHost = ListedHost {
    name: "walk",
    about: "a page table of the host, walked for every address of the guest (DS13-40)",
    build: |_| Some(Walk.into()),
    ..ListedHost::NEW
};

/// See the module.
pub(in crate::tlb) struct Walk;

impl Mode for Walk {}
