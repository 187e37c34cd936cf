//! Translations larger than a page that the operating system keeps beside its page table: ranges and segments.

use crate::addr::{Pfn, Vpn};
use crate::hw::tlb::Attr;

/// A range translation (RMM15-1): consecutive pages in consecutive frames, with the same attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// First page.
    pub first: Vpn,
    /// Number of pages.
    pub pages: u64,
    /// Frame of the first page.
    pub pfn: Pfn,
    /// Attributes of all of them.
    pub attr: Attr,
}

/// What a search of the range table found (RMM15-9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeWalk {
    /// Nodes visited, each two cache lines.
    pub nodes: u32,
    /// The range of the page, if there is one.
    pub found: Option<Range>,
}

/// The segment registers of a process (DS13-1): a page in `[base, limit)` lies in frame `page - base + pfn`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// First page.
    pub base: Vpn,
    /// One past the last page (AMB-61).
    pub limit: Vpn,
    /// Frame of the first page.
    pub pfn: Pfn,
}
