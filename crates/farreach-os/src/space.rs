//! One address space: its page table, its regions, and what else the system keeps for a process.

use crate::base_pages::Parts;
use crate::page_table::PageTable;
use crate::ranges::process::Ranges;
use crate::region::Regions;
use farreach_types::addr::{Asid, VpnRange};
use farreach_types::translation::Segment;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::sync::Arc;

/// One address space.
#[derive(Default)]
pub(crate) struct Space {
    pub table: PageTable,
    pub regions: Regions,
    /// Its range translations, once it has pages, if the system keeps any.
    pub ranges: Option<Ranges>,
    /// Its direct segment, as in the registers.
    pub segment: Option<Segment>,
    /// Its kernel's direct map, if it has one from the first page on.
    pub direct_map_pages: Option<VpnRange>,
    /// Children that share the pages of what was a segment: until they end it stays paged (AMB-64).
    pub paged_until_exit_of: Vec<Asid>,
    /// Path of its program.
    pub program: Option<Arc<str>>,
    /// What events mapped, where base pages are larger than theirs.
    pub parts: Parts,
    /// The trace says what is mapped. Otherwise one anonymous object fills the space.
    pub mapped_by_events: bool,
    /// The promotion policy's counts of mapped pages in aligned groups.
    pub populations: HashMap<(u32, u64), u32, FixedState>,
    /// Its share of the count of virtual pages.
    pub counted_pages: u64,
    pub ended: bool,
}
