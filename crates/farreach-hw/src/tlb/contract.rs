//! The contract of TLB designs: [`Tlb`], which every design implements, and [`Capabilities`], of which most need few.
//!
//! A design answers lookups, drops entries on invalidation, and lists its entries. A plain TLB needs no more and says
//! `impl Capabilities for MyTlb {}`. Events that matter to some designs only (superpages that are split, process
//! switches, threads on several cores, segment registers, times of lookups, walkers) are one small trait each. A design
//! with the capability implements the trait and overrides one accessor:
//!
//! ```
//! # use farreach_hw::tlb::{Capabilities, OnSwitch, Unfiltered};
//! # use farreach_types::addr::Asid;
//! # struct MyTlb(Vec<Asid>);
//! impl Capabilities for MyTlb {
//!     fn on_switch(&mut self) -> Option<&mut dyn OnSwitch> {
//!         Some(self)
//!     }
//! }
//! impl OnSwitch for MyTlb {
//!     fn switch(&mut self, to: Asid, unfiltered: &mut Unfiltered) {
//!         self.0.retain(|&asid| asid == to); // what the others left goes
//!         unfiltered.add_all();
//!     }
//! }
//! ```
//!
//! Each method that can change entries gets an [`Unfiltered`], in which the design reports pages that leave the filter:
//! see [`filter`](super::filter).

use super::filter::Unfiltered;
use super::future::Future;
use crate::cache::Port;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::params::{Key, Params};
use farreach_types::translation::{PageTableView, Pte, Translation};
use std::ops::Range;

/// One lookup: a reference to one base page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lookup {
    /// Address space.
    pub asid: Asid,
    /// Base page.
    pub vpn: Vpn,
    /// Fetch, load or store.
    pub kind: Kind,
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

/// The result of a lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Hit or miss. After a miss the design holds the translation (except designs that may refuse an entry).
    pub outcome: Outcome,
    /// Whether the same lookup, repeated now, may be filtered (see [`filter`](super::filter)).
    pub filterable: bool,
}

/// One entry in the notation of T94's Figures 1 to 3, for golden vectors and display. Equal designs list equal entries.
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
    /// T94-8, logical polarity; `None` where it has no meaning: in designs without subblocks or with a frame for each,
    /// and in entries larger than a region (T94-24).
    pub sb_enabled: Option<bool>,
    /// Used bit (T94-14); `None` for designs or policies without one.
    pub used: Option<bool>,
}

/// A TLB design. Deterministic given its seed (XC-4). It counts everything in [`TlbCounts`] except `lookups`, which
/// belongs to the machine, because the machine skips filtered lookups.
pub trait Tlb: Capabilities + Send {
    /// One lookup. `pte` is the page table entry of `at.vpn`, present and permitting the access: the operating system
    /// has already served faults. On a miss the design fills itself from `pte` (and, for preload, from `table`).
    fn access(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer;

    /// The mappings of these pages changed or were removed (T94-18): entries or subblocks that translate them are
    /// dropped.
    fn invalidate(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered);

    /// The address space has ended: all its entries are dropped. A design overrides it if it keeps more of an address
    /// space than entries for pages.
    fn invalidate_space(&mut self, asid: Asid, unfiltered: &mut Unfiltered) {
        self.invalidate(asid, VpnRange::ALL, unfiltered);
    }

    /// The answer that a lookup would get now, changing nothing; for checks. Panics in debug builds if two entries
    /// match (T94-17).
    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation>;

    /// The valid entries, by slot.
    fn entries(&self) -> Vec<EntryView>;

    /// Those of them in these slots. A design of several arrays overrides it, so that only the arrays concerned are
    /// listed.
    fn entries_in(&self, slots: Range<usize>) -> Vec<EntryView> {
        let mut views = self.entries();
        views.retain(|view| slots.contains(&view.slot));
        views
    }

    /// The counts so far.
    fn counts(&self) -> &TlbCounts;
}

/// Capabilities that only some designs have. The default is none.
pub trait Capabilities {
    /// It has entries for superpages.
    fn on_demotion(&mut self) -> Option<&mut dyn OnDemotion> {
        None
    }
    /// Process switches matter to it.
    fn on_switch(&mut self) -> Option<&mut dyn OnSwitch> {
        None
    }
    /// It consists of several cores.
    fn on_thread(&mut self) -> Option<&mut dyn OnThread> {
        None
    }
    /// It distinguishes requests to drop translations by their size (SHD).
    fn on_request(&mut self) -> Option<&mut dyn OnRequest> {
        None
    }
    /// It does something at times of its own.
    fn on_time(&mut self) -> Option<&mut dyn OnTime> {
        None
    }
    /// It has segment registers.
    fn on_segment(&mut self) -> Option<&mut dyn OnSegment> {
        None
    }
    /// It needs to know where the program is.
    fn on_fetch(&mut self) -> Option<&mut dyn OnFetch> {
        None
    }
    /// It leaves pages in the filter whose next lookup changes its order of use, and learns of that by the machine's
    /// times.
    fn timed(&mut self) -> Option<&mut dyn Timed> {
        None
    }
    /// The bits of the base page number that choose the set in each of its arrays and are all that every array looks
    /// at in common: pages that differ in them are in different sets, everywhere, and never replace each other. So
    /// the pages with some values of these bits are whole sets. `largest`: log2 of the pages of the largest mapping
    /// that the page table may have. The default, and the error, is the reason why there are none.
    fn set_bits(&self, _largest: u8) -> Result<Range<u32>, String> {
        Err("it has an array whose entries are not in sets of pages".into())
    }
    /// It must know what comes.
    fn foresees(&mut self) -> Option<&mut dyn Foresees> {
        None
    }
    /// Nobody can look into it: it lists no entries, need not answer probes, and counts misses alone for sure. The
    /// laboratory repeats a sample of its filtered lookups (see [`filter`](super::filter)).
    fn opaque(&self) -> bool {
        false
    }
    /// Its walkers read tables in memory.
    fn port(&mut self) -> Option<&mut Port> {
        None
    }
    /// The caches that are lent to its port evicted lines that belong to it (VIC-1). Told before the next event.
    fn lost_lines(&mut self) {}
    /// It keeps tables of what the page table maps.
    fn on_map(&mut self) -> Option<&mut dyn OnMap> {
        None
    }
}

/// A design with entries that hold one translation for more than a base page.
pub trait OnDemotion {
    /// A superpage mapping was split (T94-42): such entries that cover some of these pages are dropped. The base
    /// translations stay valid, so subblocks stay.
    fn demote(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered);
}

/// A design that acts on process switches. Most of these have tags without process ids.
pub trait OnSwitch {
    /// Another address space runs now; no other is looked up until the next switch. Without process ids, the entries of
    /// others are dropped.
    fn switch(&mut self, to: Asid, unfiltered: &mut Unfiltered);
}

/// A design with several cores, to which threads are dealt out.
pub trait OnThread {
    /// This thread of the running address space continues.
    fn thread(&mut self, asid: Asid, thread: u32, unfiltered: &mut Unfiltered);
}

/// A request to drop translations of an address space, after one change of its page table (OS-SHD-1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlushRequest {
    /// Address space.
    pub asid: Asid,
    /// From the first page that changed to the last.
    pub pages: VpnRange,
    /// log2 of the base pages of the mappings that changed, if they are alike; otherwise 0.
    pub order: u8,
    /// Whether pages of the page table were freed.
    pub tables: bool,
    /// Whether the program gave these pages back (munmap), so that no core has to know at once (OS-SHD-10).
    pub unmapped: bool,
}

impl FlushRequest {
    /// Pages of their size that are to be dropped (OS-SHD-6).
    pub fn strides(&self) -> u64 {
        self.pages.pages.div_ceil(1 << self.order)
    }
}

/// A design that distinguishes requests to drop translations by their size.
pub trait OnRequest {
    /// The changes of this address space that come now, until the next request, are parts of one request.
    fn requested(&mut self, request: FlushRequest);
}

/// A design that does something at times of its own, in instructions of all programs together (references, of a trace
/// without fetches).
pub trait OnTime {
    /// When it next does. It does not depend on what happens before, so that callers need not ask after each event.
    fn due(&self) -> u64;
    /// It is this late.
    fn advance(&mut self, now: u64, unfiltered: &mut Unfiltered);
}

/// A design whose choices depend on the program counter (HW-6).
pub trait OnFetch {
    /// The address of the latest fetch of the running thread, that of the lookup itself if it is one. Told before each
    /// lookup that reaches the design.
    fn latest_fetch(&mut self, address: u64);
    /// Instructions fetched so far, in all threads (HW-8). Told with it.
    fn position(&mut self, _instructions: u64) {}
    /// The key and value for which it needs this, for the message to programs of which fetches are not known.
    fn because_of(&mut self) -> String;
}

/// A design that must know what comes (REP-1). It is driven by a stream twice: a first one, whose counts mean nothing,
/// learns, and a second one, built from the same keys, is given what was learned before its first event.
pub trait Foresees {
    /// What the first pass has learned. It is taken out.
    fn learned(&mut self) -> Future;
    /// This is the second pass.
    fn knows(&mut self, future: Future);
    /// Why it cannot go on, if so. Asked after each batch.
    fn failure(&mut self) -> Option<String>;
}

/// A design with tables of its own of what the page table maps (PT-1), which follow every change of it. It is told when
/// the page table, and `table`, have the change already, and before the next lookup.
pub trait OnMap {
    /// These pages are mapped now and were not, or are parts of larger or smaller pages than before.
    fn mapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView);
    /// A lookup of this page ends in a page fault: nothing maps it. [`OnMap::mapped`] follows.
    fn faulting(&mut self, _asid: Asid, _vpn: Vpn) {}
    /// These pages, as far as there are any, may not be mapped any more, or elsewhere. [`Tlb::invalidate`] comes
    /// before.
    fn unmapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView);
}

/// A design with segment registers.
pub trait OnSegment {
    /// The segment registers of the process changed (DS13-24): they are loaded again before its next lookup.
    fn segment_changed(&mut self, asid: Asid, unfiltered: &mut Unfiltered);
}

/// A design whose used bits, or order of use, follow the machine's times of the last lookups. The shared store does so;
/// other designs report the pages whose next lookup matters instead, and do not need this capability.
pub trait Timed {
    /// Whether it asks in which order pages were looked up, and not only whether they were since a time of its own.
    fn orders(&self) -> bool;
    /// The last filtered lookup of a page, a fetch or not, was at this time of the machine's clock, which drops it now.
    fn note_lookup(&mut self, asid: Asid, vpn: Vpn, fetch: bool, when: u64);
    /// From now on lookups are not its own, but those of another core, say: it takes over what it needs to know of
    /// those before, and reports all pages.
    fn settle(&mut self, unfiltered: &mut Unfiltered);
}

/// For callers: each call reaches the capability if the design has it.
impl dyn Tlb + '_ {
    /// See [`OnDemotion::demote`].
    pub fn demote(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        if let Some(design) = self.on_demotion() {
            design.demote(asid, pages, unfiltered);
        }
    }
    /// See [`OnSwitch::switch`].
    pub fn switch(&mut self, to: Asid, unfiltered: &mut Unfiltered) {
        if let Some(design) = self.on_switch() {
            design.switch(to, unfiltered);
        }
    }
    /// See [`OnThread::thread`].
    pub fn thread(&mut self, asid: Asid, thread: u32, unfiltered: &mut Unfiltered) {
        if let Some(design) = self.on_thread() {
            design.thread(asid, thread, unfiltered);
        }
    }
    /// See [`OnRequest::requested`].
    pub fn requested(&mut self, request: FlushRequest) {
        if let Some(design) = self.on_request() {
            design.requested(request);
        }
    }
    /// See [`OnFetch::latest_fetch`].
    pub fn latest_fetch(&mut self, address: u64) {
        if let Some(design) = self.on_fetch() {
            design.latest_fetch(address);
        }
    }
    /// See [`OnFetch::position`].
    pub fn position(&mut self, instructions: u64) {
        if let Some(design) = self.on_fetch() {
            design.position(instructions);
        }
    }
    /// See [`OnMap::mapped`].
    pub fn mapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView) {
        if let Some(design) = self.on_map() {
            design.mapped(asid, pages, table);
        }
    }
    /// See [`OnMap::faulting`].
    pub fn faulting(&mut self, asid: Asid, vpn: Vpn) {
        if let Some(design) = self.on_map() {
            design.faulting(asid, vpn);
        }
    }
    /// See [`OnMap::unmapped`].
    pub fn unmapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView) {
        if let Some(design) = self.on_map() {
            design.unmapped(asid, pages, table);
        }
    }
    /// See [`OnSegment::segment_changed`].
    pub fn segment_changed(&mut self, asid: Asid, unfiltered: &mut Unfiltered) {
        if let Some(design) = self.on_segment() {
            design.segment_changed(asid, unfiltered);
        }
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
    /// One line for display.
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
