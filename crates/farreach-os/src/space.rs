//! One address space: its page table, its regions, and further state of a process.

use crate::base_pages::Parts;
use crate::page_table::PageTable;
use crate::ranges::process::Ranges;
use crate::region::Regions;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::event::ThpRule;
use farreach_types::translation::{Perforated, Segment};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::sync::Arc;

/// One address space.
#[derive(Default)]
pub(crate) struct Space {
    pub table: PageTable,
    pub regions: Regions,
    /// Its superpages with holes (PRF-1), by first page.
    pub perforated: HashMap<Vpn, Perforated, FixedState>,
    /// Its range translations, once it has pages, if the system keeps any.
    pub ranges: Option<Ranges>,
    /// Its direct segment, as in the registers.
    pub segment: Option<Segment>,
    /// Its kernel's direct map, if it has one from the first page on.
    pub direct_map_pages: Option<VpnRange>,
    /// Children that share the pages of a former segment, which stays paged until they end (AMB-64).
    pub paged_until_exit_of: Vec<Asid>,
    /// Path of its program.
    pub program: Option<Arc<str>>,
    /// The mappings in 4 KB pages, where base pages are larger.
    pub parts: Parts,
    /// Whether the trace says what is mapped. Otherwise one anonymous object fills the space.
    pub mapped_by_events: bool,
    /// Which regions may have transparent huge pages.
    pub thp: ThpRule,
    /// The promotion policy's counts of mapped pages in aligned groups.
    pub populations: HashMap<(u32, u64), u32, FixedState>,
    /// Its share of the count of virtual pages.
    pub counted_pages: u64,
    pub ended: bool,
}
