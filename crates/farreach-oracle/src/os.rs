//! The operating system of T94-40 to T94-60 as maps, lists and scans.
//!
//! Where the specification is open:
//!
//! Frames
//! * OO-1 The free list starts as all frames in ascending order. Unlimited memory is a free list without end: a freed
//!   frame goes to its tail, so ordinary allocation never sees it again; the region finder does (it takes the
//!   lowest-address wholly free group).
//! * OO-2 Everything one event frees (unmap, replacing map, advice, remap, exit) goes to the tail together, in
//!   ascending frame order, busy and reserved frames mixed. `freed_pages` counts the busy ones only.
//! * OO-3 A frame is freed when no page table entry names it and no object page owns it. An object page owns its frame
//!   from the fault (or the reservation) on until the object page is gone. For private memory, that is when the page is
//!   unmapped, even if the same event maps it again. For files and shared memory, it is when no region in any space
//!   maps anything of the object. Dropping private anonymous pages by advice ends their ownership.
//! * OO-4 No free frame and no reserved frame: panic. There is no page replacement.
//!
//! Objects
//! * OO-5 Objects: a file (by path, for all processes; object page = file page), which stays the same object if its
//!   last mapping is replaced by another of the same file; each anonymous, stack or kernel `Map` its own; a heap `Map`
//!   continues the object of the lowest heap region of the space, a stack `Map` that ends where a region of kind stack
//!   begins continues that region's object, unless a page of the new mapping is mapped elsewhere already (moved there).
//!   Pages of objects other than files are numbered by the virtual page of their first mapping.
//! * OO-6 An object page is "inside the object" if some region of some space maps it. So the extent of a file is its
//!   mapped part.
//! * OO-7 Regions of XC-2 with the same object and the same distance between object page and virtual page count as one
//!   for reservation and promotion, even if their protections differ.
//! * OO-8 Fork: the child gets its own objects for private anonymous, heap, stack and kernel memory. They know which
//!   regions the parent has decided (OO-11), but have none of its frames and reservations. Files and shared memory keep
//!   their objects.
//! * OO-9 No region at the address: `wild_faults`, and a new private anonymous region of that one page (read, write,
//!   execute) with its own object; then an ordinary page fault, counted as such too.
//! * OO-10 A space that references memory before its first `Map` gets one private anonymous region of 2^52 pages, read,
//!   write, execute, unless it has regions already; so does every space of a trace without `Map` events. The trace is a
//!   stream: later events are not known.
//!
//! Reservation
//! * OO-11 Every object is cut into superpage-sized regions by the virtual addresses of its first mapping. Other
//!   mappings and moves do not change this (T94-58, AMB-7). The first fault to a region decides it for good: every
//!   object page of it, inside the object or not, counts as decided. It does not matter whether the reservation was
//!   made, failed because no group was free, or was not allowed (superpage mode, region not wholly inside the object).
//!   A decided region never reserves again. This survives unmapping a part, as long as the object exists.
//! * OO-12 `failed_region_allocs` counts only first faults that were allowed to reserve and found no free group.
//! * OO-13 Prefetch (disk file, if switched on) only with a reservation that succeeded: the other pages become busy at
//!   once and are never in the reserved list. A later fault to one is a page fault, but not `reservations_honoured`,
//!   and reads nothing.
//! * OO-14 A file page costs 4096 `io_bytes` when it becomes busy, disk and nfs alike; any other object page is filled
//!   with zeros then (`zeroed_pages`).
//! * OO-15 Frames for copies, and for pages without a frame in a decided region, come from the head of the free list.
//!
//! Two sizes (PS-6)
//! * OO-30 Decided at each first touch of an object page without a frame, unless a page of its large group (cut like
//!   OO-11) has one. The group is large if the class fits, all of it is inside the object, enough pages of the object
//!   are mapped now, and enough frames stay free. Then the whole group is taken and loaded at once (no free group:
//!   `failed_region_allocs`), and stays marked as large until the next decision. Otherwise the page gets an ordinary
//!   frame.
//! * OO-31 A page fault in a group marked as large tries to map it as one, by the rules of promotion (OO-17). OO-16
//!   comes after it and then tries larger sizes only.
//!
//! Promotion
//! * OO-16 Tried after each page fault (not after copy-on-write faults) if the virtual region has at least
//!   ceil(threshold x n) mapped pages and is not a superpage. The kind of the faulting page's region sets the
//!   threshold. The count takes any mapped page of the region.
//! * OO-17 One reason per refusal, in this order: the object does not fill the region (linearly); a mapped, reserved or
//!   prefetched page has a frame in the wrong place; attributes differ (for unmapped pages, the attributes they would
//!   get), or one page is copy-on-write and another is not, although both are read-only now; a page is neither mapped
//!   nor owns a frame. With several superpage sizes each is tried, ascending.
//! * OO-18 Populating a reserved page makes it busy; it is not `reservations_honoured`. The new superpage is dirty if
//!   any page was; pages that become dirty by that are counted in `dirty_pages`.
//! * OO-19 Promotion invalidates nothing (translations are the same; a superpage TLB drops covered entries itself,
//!   AMB-13).
//! * OO-20 Demotion: partial unmap (also by a replacing map), partial change of protection (of a region, even if the
//!   attributes stay equal), partial dropping advice, copy-on-write of a page, remap of any of its pages. Translations
//!   of base pages stay true; only TLB entries for more than a base page go. Unmapping or dropping the whole superpage
//!   is not a demotion; reprotecting the whole keeps it. Not promoted again until a fault maps a page of it.
//!
//! Copy-on-write
//! * OO-21 Private file page, first access a load or fetch: the file's frame without WRITE. First access a store: the
//!   file page is made resident by the usual rules (reservation, I/O), then an ordinary frame is taken and mapped with
//!   WRITE: one page fault, one copy, no protection fault.
//! * OO-22 Fork takes WRITE from all private pages of both spaces; superpages stay superpages in both; only pages that
//!   lost WRITE are invalidated in the parent. Untouched pages are not shared.
//! * OO-23 A store to such a page: `protection_faults`. If another page table entry names the frame, or a file owns it:
//!   copy to an ordinary frame, which takes over the identity of the writer's object page if that page owned the old
//!   frame. Otherwise the page gets WRITE back in place, no copy. Either way its superpage is demoted first and the
//!   page is invalidated.
//! * OO-24 An access that the region's protection forbids is counted and goes on as an access that the protection
//!   allows (no copy, nothing gets WRITE). It is counted once for a page table entry, until that is dropped or
//!   `Protect` gives it other attributes; it stays counted when the entry moves or its page is copied; the entries of a
//!   fork's child start anew.
//!
//! Other
//! * OO-25 Advice: only `DontNeed` does something. Private pages leave the page table (anonymous ones lose their frame,
//!   identity and contents, reserved frames stay reserved); shared pages leave the page table but stay with their
//!   object.
//! * OO-26 Remap: the new place is unmapped first. Page table entries move with their frames; growth extends the region
//!   in which the old range ended, with the same object (private memory whose next object pages are mapped elsewhere
//!   gets a new object for the grown part); without a region there, nothing grows. Old length 0: all of the new range
//!   maps the memory at the old start. The old range is invalidated, and the new one. Same start: grown or shrunk in
//!   place.
//! * OO-27 `dirty_pages`: base pages that go from clean to dirty at a store, the whole superpage at once. Fork copies
//!   the dirty bits; a copied page starts clean, a page that gets WRITE back in place stays as it was; moved entries
//!   keep theirs.
//! * OO-28 `populated_never_used`: populated pages not referenced until they leave the page table or the run ends.
//! * OO-29 Not modelled: `pt_probes`, `alloc_steps`, `wasted_bytes`, swap reservation (T94-51).

mod events;
mod faults;
mod frames;

use super::fold::Fold;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::OsCounts;
use farreach_types::event::{Advice, Backing, Kind, Mapping, Op, Prot};
use farreach_types::translation::{Attr, PageTableView, Pte};
use std::collections::{BTreeMap, BTreeSet};

/// Policy.
#[derive(Clone, PartialEq, Debug)]
pub struct OsConfig {
    /// log2 of the 4 KB pages in a base page. All pages and frames below are base pages.
    pub k: u32,
    /// Frames; `None`: unlimited.
    pub frames: Option<u64>,
    /// Two sizes: pages that the object must have, and frames that must stay free. `region` is the large size,
    /// `reserve` the classes.
    pub two_size: Option<(u64, u64)>,
    /// Page reservation (T94-44); otherwise ordinary demand paging.
    pub reservation: bool,
    /// Reservation also for the part of a region inside its object; otherwise only for regions wholly inside (AMB-11).
    pub clip: bool,
    /// Prefetch of disk files (T94-52).
    pub prefetch: bool,
    /// Base pages of a region, a power of two.
    pub region: u64,
    /// Classes that are reserved.
    pub reserve: Vec<Class>,
    /// Reserved frames taken back at a time (AMB-8).
    pub reclaim_batch: u64,
    /// Base pages of the superpages that are promoted to, ascending powers of two (T94-54).
    pub promote: Vec<u64>,
    /// Classes that are promoted.
    pub promote_classes: Vec<Class>,
    /// Promotion above the threshold, not at it (AMB-2).
    pub strict: bool,
    /// Threshold of heap, anonymous, stack, shared and kernel memory.
    pub threshold_memory: f64,
    /// Threshold of disk files.
    pub threshold_disk: f64,
    /// Threshold of nfs files.
    pub threshold_nfs: f64,
    /// Files below these paths are nfs files.
    pub nfs_prefixes: Vec<String>,
}

impl OsConfig {
    /// Demand paging, unlimited memory.
    pub fn demand() -> OsConfig {
        OsConfig {
            k: 0,
            frames: None,
            two_size: None,
            reservation: false,
            clip: true,
            prefetch: false,
            region: 16,
            reserve: Class::ALL.to_vec(),
            reclaim_batch: 1,
            promote: Vec::new(),
            promote_classes: Class::ALL.to_vec(),
            strict: false,
            threshold_memory: 1.0,
            threshold_disk: 0.5,
            threshold_nfs: 0.75,
            nfs_prefixes: vec!["/nfs/".into()],
        }
    }
    /// Reservation in partial-subblock mode.
    pub fn reservation(region: u64) -> OsConfig {
        OsConfig { reservation: true, region, ..OsConfig::demand() }
    }
    /// Reservation, prefetch and promotion.
    pub fn superpages(region: u64) -> OsConfig {
        OsConfig { clip: false, prefetch: true, promote: vec![region], ..OsConfig::reservation(region) }
    }
}

/// Kind of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Heap, anonymous, stack, kernel.
    Memory,
    /// Anonymous and shared.
    SharedMemory,
    /// A file on disk.
    DiskFile,
    /// A remote file.
    NfsFile,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 4] = [Class::Memory, Class::SharedMemory, Class::DiskFile, Class::NfsFile];
    fn is_file(self) -> bool {
        matches!(self, Class::DiskFile | Class::NfsFile)
    }
}

type ObjectId = u64;
type ObjectPage = (ObjectId, i64);

/// One mapping (XC-2).
#[derive(Clone, PartialEq, Debug)]
struct Region {
    start: u64,
    end: u64,
    prot: Prot,
    shared: bool,
    heap: bool,
    stack: bool,
    object: ObjectId,
    /// Object page of `start`.
    first: i64,
}

impl Region {
    fn page(&self, v: i64) -> i64 {
        self.first + (v - self.start as i64)
    }
    fn maps(&self, page: ObjectPage) -> bool {
        self.object == page.0 && self.first <= page.1 && page.1 < self.first + (self.end - self.start) as i64
    }
}

/// A page table entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    frame: u64,
    attr: u8,
    order: u8,
    /// A store must copy, unless the frame has no other user.
    cow: bool,
    dirty: bool,
    /// A forbidden access was counted.
    forbidden: bool,
}

#[derive(Clone, PartialEq, Debug, Default)]
struct Space {
    regions: Vec<Region>,
    table: BTreeMap<u64, Entry>,
    /// It has seen a `Map`.
    mapped_by_events: bool,
    /// Populated pages not referenced yet.
    unreferenced: BTreeSet<u64>,
}

impl Space {
    fn region(&self, v: u64) -> Option<&Region> {
        self.regions.iter().find(|r| r.start <= v && v < r.end)
    }
}

/// Changes of translations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// They changed or were removed.
    Stale,
    /// They hold, but their superpage does not.
    Demoted,
}

/// Pages of a space whose translations changed.
pub type Change = (Asid, VpnRange, What);

/// The model.
#[derive(Clone, Debug)]
pub struct PlainOs {
    config: OsConfig,
    spaces: BTreeMap<Asid, Space>,
    classes: BTreeMap<ObjectId, Class>,
    /// Virtual page less object page, of the first mapping.
    alignment: BTreeMap<ObjectId, i64>,
    files: BTreeMap<String, ObjectId>,
    next_object: ObjectId,
    /// Place in the free list, frame.
    free: BTreeMap<u64, u64>,
    /// Frame, place in the free list.
    place: BTreeMap<u64, u64>,
    /// Frames below this one have been in the free list.
    horizon: u64,
    next_place: u64,
    /// Frames, oldest reservation first.
    reserved: Vec<u64>,
    busy: BTreeSet<u64>,
    index: BTreeMap<ObjectPage, u64>,
    owner: BTreeMap<u64, ObjectPage>,
    dealt_with: BTreeSet<ObjectPage>,
    /// First pages of large groups.
    large: BTreeSet<ObjectPage>,
    /// Reserved frames whose page this event unmapped.
    given_up: BTreeSet<u64>,
    /// Freed by the current event, where one event is several (OF).
    held: Option<BTreeSet<u64>>,
    fold: Fold,
    counts: OsCounts,
    peaks: Peaks,
}

/// Most frames at any time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Peaks {
    /// Busy.
    pub busy: u64,
    /// Reserved.
    pub reserved: u64,
    /// Page table entries.
    pub mapped: u64,
}

/// Places of freed frames begin here: behind every frame that was never used.
const FREED: u64 = 1 << 60;

impl PlainOs {
    /// Nothing mapped.
    pub fn new(config: OsConfig) -> PlainOs {
        assert!(config.region.is_power_of_two());
        let mut os = PlainOs {
            spaces: BTreeMap::new(),
            classes: BTreeMap::new(),
            alignment: BTreeMap::new(),
            files: BTreeMap::new(),
            next_object: 0,
            free: BTreeMap::new(),
            place: BTreeMap::new(),
            horizon: 0,
            next_place: FREED,
            reserved: Vec::new(),
            busy: BTreeSet::new(),
            index: BTreeMap::new(),
            owner: BTreeMap::new(),
            dealt_with: BTreeSet::new(),
            large: BTreeSet::new(),
            given_up: BTreeSet::new(),
            held: None,
            fold: Fold::default(),
            counts: OsCounts::default(),
            peaks: Peaks::default(),
            config,
        };
        os.extend_to(os.config.frames.unwrap_or(0));
        os
    }

    /// Counted so far.
    pub fn counts(&self) -> OsCounts {
        let waiting: usize = self.spaces.values().map(|s| s.unreferenced.len()).sum();
        let mut counts = self.counts.clone();
        counts.populated_never_used += waiting as u64;
        counts
    }
    /// Most frames so far.
    pub fn peaks(&self) -> Peaks {
        self.peaks
    }
    /// Free, busy, reserved frames. Of unlimited memory, free ones below the highest frame ever used.
    pub fn frames(&self) -> (u64, u64, u64) {
        (self.free.len() as u64, self.busy.len() as u64, self.reserved.len() as u64)
    }
    /// The reserved list, head first.
    pub fn reserved(&self) -> &[u64] {
        &self.reserved
    }
    /// The free list, head first.
    pub fn free_list(&self) -> Vec<u64> {
        self.free.values().copied().collect()
    }
    /// Every mapped page with its frame, attributes and order.
    pub fn translations(&self, asid: Asid) -> Vec<(Vpn, Pte)> {
        let space = self.spaces.get(&asid);
        space.into_iter().flat_map(|s| &s.table).map(|(v, e)| (Vpn(*v), pte_of(e))).collect()
    }
    /// Spaces that have not ended.
    pub fn spaces(&self) -> Vec<Asid> {
        self.spaces.keys().copied().collect()
    }
}

fn attr_of(prot: Prot, cow: bool) -> u8 {
    let mut attr = 0;
    if prot.read {
        attr |= Attr::READ;
    }
    if prot.write && !cow {
        attr |= Attr::WRITE;
    }
    if prot.exec {
        attr |= Attr::EXEC;
    }
    attr
}

fn pte_of(e: &Entry) -> Pte {
    Pte { pfn: Pfn(e.frame), attr: Attr(e.attr), order: e.order }
}

impl PageTableView for PlainOs {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        self.spaces.get(&asid)?.table.get(&vpn.0).map(pte_of)
    }
}
