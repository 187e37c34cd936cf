//! TLB designs behind one contract, [`Tlb`]. A design is one file here and one line in [`DESIGNS`].

mod bits;
pub mod clustered;
pub mod coalesced;
pub mod complete_subblock;
pub mod cores;
pub mod hierarchy;
pub mod host;
pub mod integrated;
pub mod keys;
mod level;
mod nodes;
pub mod partial_subblock;
pub mod range;
mod range_tlb;
mod recency;
mod replacement;
pub mod segment;
pub mod single;
mod spans;
mod store;
pub mod superpage;
mod tag_index;
pub mod two_level;
mod unfiltered;
pub mod walker;

pub use unfiltered::Unfiltered;
pub use unfiltered::{FilterEntry, LookupStamper, LookupTimes, NO_PAGE, SLOTS_PER_SIDE, filled};

use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::params::{Key, Params};
use farreach_types::translation::{PageTableView, Pte, Translation};

/// One lookup: a reference to one base page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lookup {
    /// Address space.
    pub asid: Asid,
    /// Base page.
    pub vpn: Vpn,
    /// Fetch, load or store.
    pub kind: farreach_types::event::Kind,
}

/// How a lookup ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// An entry translated it.
    Hit,
    /// No entry had the tag.
    TagMiss,
    /// An entry had the tag, its subblock was empty (T94-9).
    SubblockMiss,
}

/// What a lookup did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Hit or miss. After a miss the translation is in the design (except designs that may refuse an entry).
    pub outcome: Outcome,
    /// Whether the same lookup, repeated now, may be filtered (see [`Unfiltered`]).
    pub filterable: bool,
}

/// One entry in the notation of T94's Figures 1 to 3, for golden vectors and people. Equal designs list equal entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntryView {
    /// Index in the array.
    pub slot: usize,
    /// Address space.
    pub asid: Asid,
    /// First base page the tag covers.
    pub base: Vpn,
    /// log2 of the base pages the tag covers.
    pub order: u8,
    /// Valid base pages, as offset from `base` with its translation and modified bit, ascending. A superpage lists only
    /// offset 0, with the frame of its first page.
    pub pages: Vec<(u64, Translation, bool)>,
    /// T94-8, logical polarity; `None` where it has no meaning: in designs without subblocks or with a frame for each, and in
    /// entries larger than a region (T94-24).
    pub sb_enabled: Option<bool>,
    /// Used bit (T94-14); `None` for designs or policies without one.
    pub used: Option<bool>,
}

/// A TLB design. Deterministic given its seed (XC-4). It counts everything in [`TlbCounts`] except `lookups`, which
/// belongs to the machine, because the machine skips filtered lookups.
pub trait Tlb: Send {
    /// One lookup. `pte` is the page table entry of `at.vpn`, present and permitting the access: the operating system has
    /// already dealt with faults. On a miss the design fills itself from `pte` (and, for preload, from `table`).
    fn access(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer;

    /// The mappings of these pages changed or went away (T94-18): entries or subblocks that translate them are dropped.
    fn invalidate(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered);

    /// A superpage mapping was split (T94-42): entries that hold one translation for more than a base page and cover some of these
    /// pages are dropped. The base translations stay true, so subblocks stay, and designs without such entries do nothing.
    fn demote(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        let _ = (asid, pages, unfiltered);
    }

    /// The address space is gone: all its entries are dropped.
    fn invalidate_space(&mut self, asid: Asid, unfiltered: &mut Unfiltered);

    /// Another address space runs now; no other is looked up until the next switch. Only designs without process ids do
    /// something: they drop what the others left.
    fn switch(&mut self, to: Asid, unfiltered: &mut Unfiltered) {
        let _ = (to, unfiltered);
    }

    /// This thread of the running address space continues. It matters only with several cores.
    fn thread(&mut self, asid: Asid, thread: u32, unfiltered: &mut Unfiltered) {
        let _ = (asid, thread, unfiltered);
    }

    /// The last filtered lookup of a page was at this time of the machine's clock (see [`Unfiltered`]), which forgets
    /// it now. Only designs that
    /// look at that clock do something: the entry that translates the page was used if its used bit was cleared no later.
    fn note_lookup(&mut self, asid: Asid, vpn: Vpn, when: u32) {
        let _ = (asid, vpn, when);
    }

    /// The segment registers of the process changed (DS13-24): they are loaded again before its next lookup.
    fn segment_changed(&mut self, asid: Asid, unfiltered: &mut Unfiltered) {
        let _ = (asid, unfiltered);
    }

    /// What the design would answer now, changing nothing; for checks. Panics in debug builds if two entries match (T94-17).
    fn probe(&self, asid: Asid, vpn: Vpn, kind: farreach_types::event::Kind) -> Option<Translation>;

    /// The valid entries, by slot.
    fn entries(&self) -> Vec<EntryView>;

    /// What was counted so far.
    fn counts(&self) -> &TlbCounts;

    /// The references of its walkers to memory since they were last taken out, in order; `None` if it keeps none.
    fn reads(&mut self) -> Option<&mut Vec<walker::NodeRead>> {
        None
    }
}

/// Bits of one entry, for the area model (AREA-2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryBits {
    /// Bits in the associative tag array.
    pub tag: u64,
    /// Bits in the data array.
    pub data: u64,
    /// Status bits per entry (the used bit).
    pub status: u64,
}

/// A design as the registry knows it.
pub struct Design {
    /// Value of the key `kind`.
    pub kind: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// The keys it reads.
    pub keys: &'static [&'static Key],
    /// Builds it. The error names key, value and what is allowed.
    pub build: fn(&Params) -> Result<Box<dyn Tlb>, String>,
    /// Bits per entry; `None` where the area model (fully associative) does not apply.
    pub bits: fn(&Params) -> Option<EntryBits>,
    /// Bytes that a full TLB maps at best (TLB reach).
    pub reach: fn(&Params) -> u64,
}

/// All designs. A new design is one file and one line here.
pub const DESIGNS: &[&Design] = &[
    &single::DESIGN,
    &superpage::DESIGN,
    &complete_subblock::DESIGN,
    &partial_subblock::DESIGN,
    &integrated::DESIGN,
    &two_level::DESIGN,
    &hierarchy::DESIGN,
    &range::DESIGN,
    &clustered::DESIGN,
    &coalesced::DESIGN,
    &segment::DESIGN,
];

/// The design of this kind.
pub fn design(kind: &str) -> Option<&'static Design> {
    DESIGNS.iter().copied().find(|d| d.kind == kind)
}
