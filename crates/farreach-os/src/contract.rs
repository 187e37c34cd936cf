//! What the system returns to its callers: the result of a touch, and changes that the hardware must follow.

use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::translation::Pte;

/// A change that the hardware must follow: the translations of these pages are no longer valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Address space.
    pub asid: Asid,
    /// Pages.
    pub pages: VpnRange,
    /// What happened to them.
    pub what: What,
    /// What else there is to know for who drops their translations.
    pub flush: Flush,
}

/// What a request to drop translations tells beside their pages (OS-SHD-1, OS-SHD-2, OS-SHD-6). Where a change asks for
/// none, this is the default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flush {
    /// log2 of the base pages of the mappings, if they are alike; otherwise 0.
    pub order: u8,
    /// Whether pages of the page table were freed.
    pub tables: bool,
    /// Whether it belongs to the request of the change before.
    pub joins: bool,
    /// Whether the program gave the pages back, so that nothing has to see the change at once (OS-SHD-10).
    pub unmapped: bool,
}

/// Kinds of change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Unmapped, mapped to another frame, or with other attributes: the translations are invalid.
    Stale,
    /// Translations and attributes are unchanged, but a store must reach the system: a copy-on-write page of a region
    /// that became writable.
    Writable,
    /// Mapped now, which they were not. Only said if asked for: see [`Os::announce_maps`](crate::Os::announce_maps).
    Mapped,
    /// Now one superpage mapping. The base translations stay valid (T94-56).
    Promoted,
    /// A superpage mapping was split, or a range dissolved, shrunk or split. The base translations stay valid, an entry
    /// for the whole does not (T94-42, RMM15-12).
    Demoted,
    /// The address space is gone.
    Gone,
    /// The system dropped the entries for these pages on the processor that runs. Their mappings stay.
    Flushed,
    /// As before, on all processors.
    FlushedEverywhere,
    /// The accessed bits were cleared, in a system that notes each access (OSC-2): the next reference must reach it.
    /// Translations and attributes are unchanged.
    Unaccessed,
    /// The segment registers of the process changed. The new values hold from now on, on all cores (DS13-17, DS13-24).
    /// This comes before `Stale` for pages that entered the segment, and after the page table has the pages that left
    /// it (DS13-20 to DS13-22).
    Segment,
}

/// Memory is full and no frame can be taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    /// The page that could not be served.
    pub vpn: Vpn,
}

/// Why a touch failed: see [`Os::explain`](crate::Os::explain).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unserved {
    /// Memory is full.
    OutOfMemory(OutOfMemory),
    /// The page tables of a recorded system do not map the page, or cannot be read: the whole message.
    Guest(String),
}

impl From<OutOfMemory> for Unserved {
    fn from(e: OutOfMemory) -> Unserved {
        Unserved::OutOfMemory(e)
    }
}

/// The result of a touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touched {
    /// The page table entry, present, after all faults are served.
    pub pte: Pte,
    /// Name of its region, an index into [`Os::labels`](crate::Os::labels).
    pub label: u32,
}

/// Memory in use, in base pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InUse {
    /// Frames with contents.
    pub resident: u64,
    /// Pages of all regions, guards left out.
    pub virtual_pages: u64,
}
