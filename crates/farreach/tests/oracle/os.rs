//! The operating system of T94-40 to T94-60 as maps, lists and scans.
//!
//! Where the specification is open:
//!
//! Frames
//! * OO-1 The free list starts as all frames in ascending order. Unlimited memory is a free list without end: a freed frame
//!   goes to its tail, so ordinary allocation never sees it again; the region finder does (it takes the lowest-address wholly
//!   free group).
//! * OO-2 Everything one event frees (unmap, replacing map, advice, remap, exit) goes to the tail together, in ascending
//!   frame order, busy and reserved frames mixed. `freed_pages` counts the busy ones only.
//! * OO-3 A frame is freed when no page table entry names it and no object page owns it. An object page owns its frame from
//!   the fault (or the reservation) on until the object page is gone: private memory: when the page is unmapped, be it only
//!   to be mapped anew by the same event; files and shared memory: when no region in any space maps anything of the object.
//!   Dropping private anonymous pages by advice ends their ownership.
//! * OO-4 No free frame and no reserved frame: panic. There is no page replacement.
//!
//! Objects
//! * OO-5 Objects: a file (by path, whatever the process; object page = file page), which lives on if its last mapping is
//!   replaced by another of the same file; each anonymous, stack or kernel `Map` its own; a heap `Map` continues the object of the
//!   lowest heap region of the space, a stack `Map` that ends where a region of kind stack begins continues that region's
//!   object, unless a page of the new mapping is mapped elsewhere already (moved there). Pages of objects other than files
//!   are numbered by the virtual page of their first mapping.
//! * OO-6 An object page is "inside the object" if some region of some space maps it. So a file's extent is what is mapped of
//!   it.
//! * OO-7 Regions of XC-2 with the same object and the same distance between object page and virtual page count as one for
//!   reservation and promotion, even if their protections differ.
//! * OO-8 Fork: the child gets its own objects for private anonymous, heap, stack and kernel memory (with the parent's memory
//!   of which regions were dealt with, without its frames and reservations), and the same objects for files and shared
//!   memory.
//! * OO-9 No region at the address: `wild_faults`, and a new private anonymous region of that one page (read, write, execute)
//!   with its own object; then an ordinary page fault, counted as such too.
//! * OO-10 A space that references memory before its first `Map` gets one private anonymous region of 2^52 pages, read, write,
//!   execute, unless it has regions already; so does every space of a trace without `Map` events. The trace is a stream: what
//!   comes later is not known.
//!
//! Reservation
//! * OO-11 Every object is cut into superpage-sized regions as its first mapping lies in virtual memory, whoever else maps it and
//!   wherever its pages move (T94-58, AMB-7). The first fault to a region decides for good: afterwards every object page of it
//!   (inside the object or not) is "dealt with", whether the reservation was made, failed for want of a group, or was not
//!   allowed (superpage mode, region not wholly inside the object). A region dealt with never reserves. This survives
//!   unmapping a part, as long as the object lives.
//! * OO-12 `failed_region_allocs` counts only first faults that were allowed to reserve and found no free group.
//! * OO-13 Prefetch (disk file, if switched on) only with a reservation that succeeded: the other pages become busy at once
//!   and never stand in the reserved list. A later fault to one is a page fault, but not `reservations_honoured`, and reads
//!   nothing.
//! * OO-14 A file page costs 4096 `io_bytes` when it becomes busy, disk and nfs alike.
//! * OO-15 Frames for copies and for pages whose region is dealt with but whose identity is absent come from the head of the
//!   free list.
//!
//! Two sizes (PS-6)
//! * OO-30 Asked for at each first touch of an object page without a frame, unless a page of its large group (cut like OO-11) has one.
//!   Large: the class fits, all of the group is inside the object, the object has so many pages mapped now, and so many frames stay free.
//!   Then the whole group is taken and loaded at once (none to be had: `failed_region_allocs`), and remembered as large until asked
//!   again. Otherwise an ordinary frame.
//! * OO-31 A page fault in a group remembered as large tries to map it as one, by the rules of promotion (OO-17), before OO-16,
//!   which then only tries larger sizes.
//!
//! Promotion
//! * OO-16 Tried after each page fault (not after copy-on-write faults) whose virtual region has at least ceil(threshold x n)
//!   mapped pages, and is not a superpage. The kind of the faulting page's region sets the threshold. The count takes any
//!   mapped page of the region.
//! * OO-17 One reason per refusal, in this order: the object does not fill the region (linearly); a mapped, reserved or
//!   prefetched page whose frame is not at its place; attributes differ (unmapped pages: those they would get), or one page is
//!   copy-on-write and another is not, though both are read-only now; a page neither mapped nor owning a frame. With
//!   several superpage sizes each is tried, ascending.
//! * OO-18 Populating a reserved page makes it busy; it is not `reservations_honoured`. The new superpage is dirty if any
//!   page was; pages that become dirty by that are counted in `dirty_pages`.
//! * OO-19 Promotion invalidates nothing (translations are the same; a superpage TLB drops covered entries itself, AMB-13).
//! * OO-20 Demotion: partial unmap (also by a replacing map), partial change of protection (of a region; whether it shows in the
//!   attributes or not), partial dropping advice, copy-on-write of a page, remap of any of its pages. Translations of base
//!   pages stay true; only TLB entries for more than a base page go. Unmapping or dropping the whole superpage is not a
//!   demotion; reprotecting the whole keeps it. Not promoted again until a fault maps a page of it.
//!
//! Copy-on-write
//! * OO-21 Private file page, first access a load or fetch: the file's frame without WRITE. First access a store: the file
//!   page is made resident by the usual rules (reservation, I/O), then an ordinary frame is taken and mapped with WRITE: one
//!   page fault, one copy, no protection fault.
//! * OO-22 Fork takes WRITE from all private pages of both spaces; superpages stay superpages in both; only pages that lost
//!   WRITE are invalidated in the parent. Untouched pages are not shared.
//! * OO-23 A store to such a page: `protection_faults`. If another page table entry names the frame, or a file owns it: copy
//!   to an ordinary frame, which takes over the identity of the writer's object page if that page owned the old frame.
//!   Otherwise the page gets WRITE back in place, no copy. Either way its superpage is demoted first and the page is
//!   invalidated.
//! * OO-24 An access that the region's protection forbids is counted and goes on as an access that the protection allows (no
//!   copy, nothing gets WRITE). It is counted once for a page table entry, until that is dropped or `Protect` gives it other
//!   attributes; it stays counted when the entry moves or its page is copied; the entries of a fork's child start anew.
//!
//! Other
//! * OO-25 Advice: only `DontNeed` does something. Private pages leave the page table (anonymous ones lose their frame,
//!   identity and contents, reserved frames stay reserved); shared pages leave the page table but stay with their object.
//! * OO-26 Remap: what was at the new place is unmapped first. Page table entries move with their frames; growth extends the
//!   region in which the old range ended, with the same object (private memory whose next object pages are mapped elsewhere gets a
//!   new object for the grown part); nothing there: nothing grows. Old length 0: all of the new range maps what is at the
//!   old start. The old range is invalidated, and the new one. Same start: grown or shrunk in place.
//! * OO-27 `dirty_pages`: base pages that go from clean to dirty at a store, the whole superpage at once. Fork copies the
//!   dirty bits; a copied page starts clean, a page that gets WRITE back in place stays as it was; moved entries keep theirs.
//! * OO-28 `populated_never_used`: populated pages not referenced until they leave the page table or the run ends.
//! * OO-29 Not modelled: `pt_probes`, `alloc_steps`, `wasted_bytes`, swap reservation (T94-51).

use super::fold::Fold;
use farreach::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach::counts::OsCounts;
use farreach::event::{Advice, Backing, Kind, Mapping, Op, Prot};
use farreach::hw::tlb::{Attr, PageTableView, Pte};
use std::collections::{BTreeMap, BTreeSet};

/// Policy.
#[derive(Clone, PartialEq, Debug)]
pub struct OsConfig {
    /// log2 of the 4 KB pages in a base page. All pages and frames below are base pages.
    pub k: u32,
    /// Frames; `None` without end.
    pub frames: Option<u64>,
    /// Two sizes: pages that the object must have, and frames that must stay free. `region` is the large size, `reserve` the classes.
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

/// What an object is.
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
    /// A store must copy (or find out that it need not).
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

/// What happened to translations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// They changed or went away.
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
    /// Freed by the event under way, where one event is several (OF).
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

    // ------------------------------------------------------------------------------------------------------- frames

    fn extend_to(&mut self, frames: u64) {
        while self.horizon < frames {
            self.free.insert(self.horizon, self.horizon);
            self.place.insert(self.horizon, self.horizon);
            self.horizon += 1;
        }
    }

    fn push_free(&mut self, frame: u64) {
        self.free.insert(self.next_place, frame);
        self.place.insert(frame, self.next_place);
        self.next_place += 1;
    }

    fn take_frame(&mut self, frame: u64) {
        let place = self.place.remove(&frame).expect("a free frame");
        self.free.remove(&place);
    }

    /// The lowest wholly free aligned group (T94-44).
    fn free_group(&mut self) -> Option<u64> {
        let n = self.config.region;
        let mut first = 0;
        loop {
            if self.config.frames.is_none() {
                self.extend_to(first + n);
            }
            if first + n > self.horizon {
                return None;
            }
            if (first..first + n).all(|f| self.place.contains_key(&f)) {
                return Some(first);
            }
            first += n;
        }
    }

    /// The head of the free list, refilled from the reserved list (T94-46). The frame is busy.
    fn ordinary_frame(&mut self) -> u64 {
        let short = self.free.is_empty() && self.config.frames.is_some();
        let batch = if short { self.config.reclaim_batch.min(self.reserved.len() as u64) } else { 0 };
        for _ in 0..batch {
            let stolen = self.reserved.remove(0);
            let page = self.owner.remove(&stolen).expect("a reserved frame has an identity");
            self.index.remove(&page);
            self.push_free(stolen);
            self.counts.reservations_stolen += 1;
        }
        let none_fresh = self.free.first_key_value().is_none_or(|(place, _)| *place >= FREED);
        if self.config.frames.is_none() && none_fresh {
            self.extend_to(self.horizon + 1);
        }
        let (_, &frame) = self.free.first_key_value().expect("out of memory");
        self.take_frame(frame);
        self.busy.insert(frame);
        frame
    }

    fn own(&mut self, page: ObjectPage, frame: u64) {
        assert!(self.index.insert(page, frame).is_none(), "{page:?} has two frames");
        assert!(self.owner.insert(frame, page).is_none(), "frame {frame} has two identities");
    }

    /// The contents of an object page arrive in its frame.
    fn load(&mut self, page: ObjectPage) {
        if self.classes[&page.0].is_file() {
            self.counts.io_bytes += 4096 << self.config.k;
        }
    }

    fn mappers(&self, frame: u64) -> usize {
        self.spaces.values().flat_map(|s| s.table.values()).filter(|e| e.frame == frame).count()
    }

    /// The object page has no frame any more.
    fn forget(&mut self, page: ObjectPage) {
        let frame = self.index.remove(&page).expect("it has a frame");
        self.owner.remove(&frame);
        if let Some(at) = self.reserved.iter().position(|&f| f == frame) {
            self.reserved.remove(at);
            self.given_up.insert(frame);
        }
    }

    /// Ends identities whose object page is gone, then frees what nobody needs (OO-2, OO-3).
    fn collect(&mut self) {
        let regions: Vec<&Region> = self.spaces.values().flat_map(|s| &s.regions).collect();
        let mut gone = Vec::new();
        for &page in self.index.keys() {
            let alive = if self.classes[&page.0] == Class::Memory {
                regions.iter().any(|r| r.maps(page))
            } else {
                regions.iter().any(|r| r.object == page.0)
            };
            if !alive {
                gone.push(page);
            }
        }
        let dead: Vec<ObjectId> = self.classes.keys().copied().filter(|o| regions.iter().all(|r| r.object != *o)).collect();
        for page in gone {
            self.forget(page);
        }
        let mut freed = std::mem::take(&mut self.given_up);
        let mapped: BTreeSet<u64> = self.spaces.values().flat_map(|s| s.table.values()).map(|e| e.frame).collect();
        let unneeded: Vec<u64> =
            self.busy.iter().copied().filter(|f| !mapped.contains(f) && !self.owner.contains_key(f)).collect();
        for frame in unneeded {
            self.busy.remove(&frame);
            freed.insert(frame);
            self.counts.freed_pages += 1;
        }
        match &mut self.held {
            Some(held) => held.extend(freed),
            None => freed.into_iter().for_each(|frame| self.push_free(frame)),
        }
        for object in dead {
            self.classes.remove(&object);
            self.alignment.remove(&object);
            self.files.retain(|_, o| *o != object);
            self.dealt_with.retain(|p| p.0 != object);
            self.large.retain(|p| p.0 != object);
        }
        self.check();
    }

    fn note_peaks(&mut self) {
        let mapped: usize = self.spaces.values().map(|s| s.table.len()).sum();
        self.peaks.busy = self.peaks.busy.max(self.busy.len() as u64);
        self.peaks.reserved = self.peaks.reserved.max(self.reserved.len() as u64);
        self.peaks.mapped = self.peaks.mapped.max(mapped as u64);
    }

    /// XC-6 and T94-43.
    pub fn check(&mut self) {
        self.note_peaks();
        assert_eq!(self.free.len(), self.place.len());
        let held = self.held.as_ref().map_or(0, BTreeSet::len);
        assert_eq!(self.free.len() + self.busy.len() + self.reserved.len() + held, self.horizon as usize, "frames are lost");
        for (page, frame) in &self.index {
            assert_eq!(self.owner.get(frame), Some(page));
            assert!(!self.place.contains_key(frame), "frame {frame} is owned and free");
        }
        for frame in &self.reserved {
            assert!(self.owner.contains_key(frame) && !self.busy.contains(frame));
        }
        for space in self.spaces.values() {
            for (v, e) in &space.table {
                assert!(self.busy.contains(&e.frame), "page {v:#x} is mapped to a frame that is not busy");
                let n = 1 << e.order;
                assert_eq!(v % n, e.frame % n, "T94-2");
            }
        }
    }

    // ------------------------------------------------------------------------------------------------------ regions

    fn new_object(&mut self, class: Class) -> ObjectId {
        self.next_object += 1;
        self.classes.insert(self.next_object, class);
        self.alignment.insert(self.next_object, 0);
        self.next_object
    }

    /// A new, empty space.
    pub fn start(&mut self, asid: Asid) {
        self.spaces.insert(asid, Space::default());
    }

    fn space(&mut self, asid: Asid) -> &mut Space {
        if !self.spaces.contains_key(&asid) {
            self.start(asid);
        }
        self.spaces.get_mut(&asid).expect("just started")
    }

    /// `Op::Map`.
    pub fn map(&mut self, asid: Asid, m: &Mapping) -> Vec<Change> {
        let (start, end) = (m.start >> 12, (m.start + m.len) >> 12);
        self.space(asid).mapped_by_events = true;
        let mut changes = Vec::new();
        let object = match &m.backing {
            Backing::File { path, offset } => {
                // The object first, so that a file mapped over its last mapping stays the same object.
                let object = match self.files.get(&**path) {
                    Some(&object) => object,
                    None => {
                        let nfs = self.config.nfs_prefixes.iter().any(|p| path.starts_with(p.as_str()));
                        let object = self.new_object(if nfs { Class::NfsFile } else { Class::DiskFile });
                        self.files.insert(path.to_string(), object);
                        self.alignment.insert(object, start as i64 - (offset >> 12) as i64);
                        object
                    }
                };
                changes = self.clear(asid, start, end);
                object
            }
            _ => {
                changes.extend(self.clear(asid, start, end));
                let mut regions = self.space(asid).regions.clone();
                regions.sort_by_key(|r| r.start);
                let continued = match &m.backing {
                    Backing::Heap => regions.iter().find(|r| r.heap).map(|r| r.object),
                    Backing::Stack => regions.iter().find(|r| r.stack && r.start == end).map(|r| r.object),
                    _ => None,
                };
                let class = match &m.backing {
                    Backing::Anonymous if m.shared => Class::SharedMemory,
                    _ => Class::Memory,
                };
                let unmapped = |o: &ObjectId| !self.any_mapped(*o, start as i64, end as i64);
                continued.filter(unmapped).unwrap_or_else(|| self.new_object(class))
            }
        };
        let first = match &m.backing {
            Backing::File { offset, .. } => (offset >> 12) as i64,
            _ => start as i64,
        };
        let (heap, stack) = (m.backing == Backing::Heap, m.backing == Backing::Stack);
        self.space(asid).regions.push(Region { start, end, prot: m.prot, shared: m.shared, heap, stack, object, first });
        self.collect();
        changes
    }

    /// Whether some region maps one of the object's pages `first..last`.
    fn any_mapped(&self, object: ObjectId, first: i64, last: i64) -> bool {
        let mut regions = self.spaces.values().flat_map(|s| &s.regions).filter(|r| r.object == object);
        regions.any(|r| r.first < last && first < r.first + (r.end - r.start) as i64)
    }

    /// Cuts regions so that none straddles `at`.
    fn split(&mut self, asid: Asid, at: u64) {
        let space = self.space(asid);
        let Some(i) = space.regions.iter().position(|r| r.start < at && at < r.end) else { return };
        let mut upper = space.regions[i].clone();
        upper.first = upper.page(at as i64);
        upper.start = at;
        space.regions[i].end = at;
        space.regions.push(upper);
    }

    /// Demotes the superpages that lie in the range, but not wholly.
    fn demote_straddling(&mut self, asid: Asid, start: u64, end: u64) -> Vec<Change> {
        let mut changes = Vec::new();
        let inside: Vec<u64> = self.space(asid).table.range(start..end).map(|(v, _)| *v).collect();
        for v in inside {
            let order = self.space(asid).table[&v].order;
            let (first, last) = (v >> order << order, (v >> order << order) + (1 << order));
            if order > 0 && (first < start || last > end) {
                changes.push(self.demote(asid, v));
            }
        }
        changes
    }

    /// T94-42.
    fn demote(&mut self, asid: Asid, v: u64) -> Change {
        let order = self.space(asid).table[&v].order;
        assert!(order > 0);
        let first = v >> order << order;
        for w in first..first + (1 << order) {
            self.space(asid).table.get_mut(&w).expect("pages of a superpage are mapped").order = 0;
        }
        self.counts.demotions += 1;
        (asid, VpnRange { start: Vpn(first), pages: 1 << order }, What::Demoted)
    }

    /// Takes entries out of the page table.
    fn drop_entries(&mut self, asid: Asid, start: u64, end: u64) {
        let space = self.space(asid);
        let inside: Vec<u64> = space.table.range(start..end).map(|(v, _)| *v).collect();
        let mut unused = 0;
        for v in inside {
            space.table.remove(&v);
            unused += u64::from(space.unreferenced.remove(&v));
        }
        self.counts.populated_never_used += unused;
    }

    /// Nothing is mapped in the range any more; frames are not collected yet.
    fn clear(&mut self, asid: Asid, start: u64, end: u64) -> Vec<Change> {
        let mut changes = self.demote_straddling(asid, start, end);
        self.drop_entries(asid, start, end);
        self.split(asid, start);
        self.split(asid, end);
        let space = self.space(asid);
        let gone: Vec<Region> = space.regions.extract_if(.., |r| start < r.end && r.start < end).collect();
        for r in gone {
            if self.classes[&r.object] != Class::Memory {
                continue;
            }
            let (first, last) = ((r.object, r.first), (r.object, r.first + (r.end - r.start) as i64));
            let pages: Vec<ObjectPage> = self.index.range(first..last).map(|(p, _)| *p).collect();
            pages.into_iter().for_each(|p| self.forget(p));
        }
        changes.push((asid, VpnRange::between(Vpn(start), Vpn(end)), What::Stale));
        changes
    }

    /// `Op::Unmap`.
    pub fn unmap(&mut self, asid: Asid, start: u64, len: u64) -> Vec<Change> {
        let changes = self.clear(asid, start >> 12, (start + len) >> 12);
        self.collect();
        changes
    }

    /// `Op::Protect`.
    pub fn protect(&mut self, asid: Asid, start: u64, len: u64, prot: Prot) -> Vec<Change> {
        let (start, end) = (start >> 12, (start + len) >> 12);
        self.split(asid, start);
        self.split(asid, end);
        let mut changes = Vec::new();
        let space = self.space(asid);
        let changed: Vec<u64> = space
            .table
            .range(start..end)
            .map(|(v, _)| *v)
            .filter(|v| space.region(*v).is_some_and(|r| r.prot != prot))
            .collect();
        for &v in &changed {
            let order = self.space(asid).table[&v].order;
            let (first, last) = (v >> order << order, (v >> order << order) + (1 << order));
            if order > 0 && (first < start || last > end) {
                changes.push(self.demote(asid, v));
            }
        }
        for r in &mut self.space(asid).regions {
            if start <= r.start && r.end <= end {
                r.prot = prot;
            }
        }
        for v in changed {
            let e = self.space(asid).table.get_mut(&v).expect("mapped");
            let attr = attr_of(prot, e.cow);
            if attr != e.attr {
                (e.attr, e.forbidden) = (attr, false);
                changes.push((asid, VpnRange::one(Vpn(v)), What::Stale));
            }
        }
        self.check();
        changes
    }

    /// `Op::Advise`.
    pub fn advise(&mut self, asid: Asid, start: u64, len: u64, advice: Advice) -> Vec<Change> {
        if advice != Advice::DontNeed {
            return Vec::new();
        }
        let (start, end) = (start >> 12, (start + len) >> 12);
        let mut changes = self.demote_straddling(asid, start, end);
        for v in start..end {
            let Some(r) = self.space(asid).region(v).cloned() else { continue };
            let page = (r.object, r.page(v as i64));
            let busy = |f: &u64| self.busy.contains(f);
            if self.classes[&r.object] == Class::Memory && self.index.get(&page).is_some_and(busy) {
                let frame = self.index.remove(&page).expect("just seen");
                self.owner.remove(&frame);
            }
        }
        self.drop_entries(asid, start, end);
        self.collect();
        changes.push((asid, VpnRange::between(Vpn(start), Vpn(end)), What::Stale));
        changes
    }

    /// `Op::Remap`.
    pub fn remap(&mut self, asid: Asid, old_start: u64, old_len: u64, new_start: u64, new_len: u64) -> Vec<Change> {
        let (old, old_end) = (old_start >> 12, (old_start + old_len) >> 12);
        let (new, new_end) = (new_start >> 12, (new_start + new_len) >> 12);
        let mut changes = Vec::new();
        let source = self.space(asid).region(if old_end > old { old_end - 1 } else { old }).cloned();
        if new_end - new < old_end - old {
            changes.extend(self.clear(asid, old + (new_end - new), old_end));
        }
        let kept = old + (new_end - new).min(old_end - old);
        if old == new {
            // In place: only what is grown over is unmapped.
            if new_end > old_end {
                changes.extend(self.clear(asid, old_end, new_end));
                self.grow(asid, source, old_end, old_end, new_end);
            }
            self.collect();
            return changes;
        }
        changes.extend(self.clear(asid, new, new_end));
        for v in old..kept {
            if self.space(asid).table.get(&v).is_some_and(|e| e.order > 0) {
                changes.push(self.demote(asid, v));
            }
        }
        self.split(asid, old);
        self.split(asid, kept);
        let space = self.space(asid);
        for r in &mut space.regions {
            if old <= r.start && r.end <= kept {
                r.start = r.start - old + new;
                r.end = r.end - old + new;
            }
        }
        let entries: Vec<_> = (old..kept).filter_map(|v| space.table.remove_entry(&v)).collect();
        space.table.extend(entries.into_iter().map(|(v, e)| (v - old + new, e)));
        let unreferenced: Vec<_> = (old..kept).filter_map(|v| space.unreferenced.take(&v)).collect();
        space.unreferenced.extend(unreferenced.into_iter().map(|v| v - old + new));
        self.grow(asid, source, old_end, new + (kept - old), new_end);
        changes.push((asid, VpnRange::between(Vpn(old), Vpn(old_end)), What::Stale));
        self.collect();
        changes
    }

    /// Maps `from..to` to the pages of the source's object that are behind its virtual page `next`.
    fn grow(&mut self, asid: Asid, source: Option<Region>, next: u64, from: u64, to: u64) {
        let Some(r) = source.filter(|_| from < to) else { return };
        let mut more = Region { start: from, end: to, first: r.page(next as i64), ..r };
        let taken = self.any_mapped(more.object, more.first, more.first + (to - from) as i64);
        if taken && self.classes[&more.object] == Class::Memory {
            (more.object, more.first) = (self.new_object(Class::Memory), from as i64);
        }
        self.space(asid).regions.push(more);
    }

    /// `Op::Fork`.
    pub fn fork(&mut self, asid: Asid, child: Asid) -> Vec<Change> {
        self.counts.forks += 1;
        let parent = self.space(asid).clone();
        let mut copy = parent.clone();
        copy.unreferenced.clear();
        let mut twins: BTreeMap<ObjectId, ObjectId> = BTreeMap::new();
        for r in &mut copy.regions {
            if self.classes[&r.object] != Class::Memory {
                continue;
            }
            let old = r.object;
            r.object = *twins.entry(old).or_insert_with(|| {
                let twin = self.new_object(Class::Memory);
                self.alignment.insert(twin, self.alignment[&old]);
                let pages: Vec<i64> = self.dealt_with.iter().filter(|p| p.0 == old).map(|p| p.1).collect();
                self.dealt_with.extend(pages.into_iter().map(|p| (twin, p)));
                let pages: Vec<i64> = self.large.iter().filter(|p| p.0 == old).map(|p| p.1).collect();
                self.large.extend(pages.into_iter().map(|p| (twin, p)));
                twin
            });
        }
        copy.table.values_mut().for_each(|e| e.forbidden = false);
        let mut changes = Vec::new();
        for (v, e) in &parent.table {
            let r = parent.region(*v).expect("mapped pages have a region");
            if r.shared {
                continue;
            }
            let attr = attr_of(r.prot, true);
            if attr != e.attr {
                changes.push((asid, VpnRange::one(Vpn(*v)), What::Stale));
            }
            for space in [&mut copy, self.space(asid)] {
                let e = space.table.get_mut(v).expect("both have it");
                (e.attr, e.cow) = (attr, true);
            }
        }
        self.spaces.insert(child, copy);
        self.check();
        changes
    }

    /// `Op::End`.
    pub fn end(&mut self, asid: Asid) {
        self.drop_entries(asid, 0, u64::MAX);
        self.spaces.remove(&asid);
        self.collect();
    }

    /// Any event. What changed for the hardware; an end is told by the event itself.
    pub fn apply(&mut self, asid: Asid, op: &Op) -> Vec<Change> {
        if self.config.k == 0 {
            return self.apply_one(asid, op);
        }
        self.held = Some(BTreeSet::new());
        let ops = self.fold.events(asid, op, self.config.k);
        let changes = ops.iter().flat_map(|op| self.apply_one(asid, op)).collect();
        self.held.take().into_iter().flatten().for_each(|frame| self.push_free(frame));
        self.check();
        changes
    }

    fn apply_one(&mut self, asid: Asid, op: &Op) -> Vec<Change> {
        match op {
            Op::Start { .. } => self.start(asid),
            Op::End(_) => self.end(asid),
            Op::Fork { child } => return self.fork(asid, *child),
            Op::Map(mapping) => return self.map(asid, mapping),
            Op::Unmap { start, len } => return self.unmap(asid, *start, *len),
            Op::Remap { old_start, old_len, new_start, new_len } => {
                return self.remap(asid, *old_start, *old_len, *new_start, *new_len);
            }
            Op::Protect { start, len, prot } => return self.protect(asid, *start, *len, *prot),
            Op::Advise { start, len, advice } => return self.advise(asid, *start, *len, *advice),
            Op::Define { .. } | Op::ThreadStart { .. } | Op::ThreadExit { .. } | Op::Switch { .. } => {}
        }
        Vec::new()
    }

    // ------------------------------------------------------------------------------------------------------- faults

    /// A reference to one page: faults if it must.
    pub fn touch(&mut self, asid: Asid, vpn: Vpn, kind: Kind) -> Vec<Change> {
        let v = vpn.0;
        let mut changes = Vec::new();
        if self.space(asid).region(v).is_none() {
            let object = self.new_object(Class::Memory);
            let all = 1 << (52 - self.config.k);
            let space = self.space(asid);
            let nothing_said = !space.mapped_by_events && space.regions.is_empty();
            let (start, end) = if nothing_said { (0, all) } else { (v, v + 1) };
            let first = start as i64;
            let region = Region { start, end, prot: Prot::RWX, shared: false, heap: false, stack: false, object, first };
            space.regions.push(region);
            self.counts.wild_faults += u64::from(!nothing_said);
        }
        let region = self.space(asid).region(v).expect("just seen").clone();
        let allowed = match kind {
            Kind::Fetch => region.prot.exec,
            Kind::Load => region.prot.read,
            Kind::Store => region.prot.write,
        };
        let writes = kind == Kind::Store && allowed;
        match self.space(asid).table.get(&v).copied() {
            None => self.page_fault(asid, v, &region, writes),
            Some(e) if writes && e.cow => changes.extend(self.protection_fault(asid, v, &region)),
            Some(_) => {}
        }
        self.space(asid).unreferenced.remove(&v);
        let e = self.space(asid).table.get_mut(&v).expect("mapped");
        if !allowed && !e.forbidden {
            e.forbidden = true;
            self.counts.forbidden_accesses += 1;
        }
        if kind == Kind::Store {
            let e = self.space(asid).table[&v];
            let first = v >> e.order << e.order;
            self.make_dirty(asid, first, 1 << e.order);
        }
        changes
    }

    fn make_dirty(&mut self, asid: Asid, first: u64, pages: u64) {
        for w in first..first + pages {
            let e = self.space(asid).table.get_mut(&w).expect("mapped");
            if !e.dirty {
                e.dirty = true;
                self.counts.dirty_pages += 1;
            }
        }
    }

    fn page_fault(&mut self, asid: Asid, v: u64, region: &Region, writes: bool) {
        self.counts.page_faults += 1;
        let private_file = self.classes[&region.object].is_file() && !region.shared;
        let mut frame = self.frame_of(v, region);
        if private_file && writes {
            frame = self.ordinary_frame();
            self.counts.cow_copies += 1;
        }
        let cow = private_file && !writes;
        let entry = Entry { frame, attr: attr_of(region.prot, cow), order: 0, cow, dirty: false, forbidden: false };
        self.space(asid).table.insert(v, entry);
        if self.large.contains(&(region.object, self.group(v, region))) {
            self.promotion(asid, v, self.config.region);
        }
        for n in self.config.promote.clone() {
            self.try_promotion(asid, v, n);
        }
        self.check();
    }

    /// The frame of the object page behind `v`, busy and loaded (T94-43 to T94-50).
    fn frame_of(&mut self, v: u64, region: &Region) -> u64 {
        let page = (region.object, region.page(v as i64));
        if let Some(&frame) = self.index.get(&page) {
            if let Some(at) = self.reserved.iter().position(|&f| f == frame) {
                self.reserved.remove(at);
                self.busy.insert(frame);
                self.counts.reservations_honoured += 1;
                self.load(page);
            }
            return frame;
        }
        if self.config.reservation
            && let Some(frame) = self.reserve(v, region)
        {
            return frame;
        }
        if self.config.two_size.is_some()
            && let Some(frame) = self.large_page(v, region)
        {
            return frame;
        }
        let frame = self.ordinary_frame();
        self.own(page, frame);
        self.load(page);
        frame
    }

    /// First object page of the group of `region` pages in which the page behind `v` lies.
    fn group(&self, v: u64, region: &Region) -> i64 {
        let asked = region.page(v as i64);
        asked - (asked + self.alignment[&region.object]).rem_euclid(self.config.region as i64)
    }

    /// OO-30.
    fn large_page(&mut self, v: u64, region: &Region) -> Option<u64> {
        let (n, (least, spare)) = (self.config.region, self.config.two_size?);
        let first = self.group(v, region);
        let pages: Vec<ObjectPage> = (first..first + n as i64).map(|p| (region.object, p)).collect();
        // A fork's child has frames that are the parent's by name.
        let inherited = |p: &ObjectPage| {
            let at = |r: &Region| (r.maps(*p)).then(|| r.start + (p.1 - r.first) as u64);
            self.spaces.values().any(|s| s.regions.iter().filter_map(at).any(|v| s.table.contains_key(&v)))
        };
        if pages.iter().any(|p| self.index.contains_key(p) || inherited(p)) {
            return None;
        }
        self.large.remove(&pages[0]);
        let regions: Vec<&Region> =
            self.spaces.values().flat_map(|s| &s.regions).filter(|r| r.object == region.object).collect();
        if !pages.iter().all(|p| regions.iter().any(|r| r.maps(*p))) {
            return None;
        }
        let whole_space = |r: &&Region| r.end - r.start > 1 << 30;
        let extent = |r: &&Region| r.first..r.first + (r.end - r.start) as i64;
        let mapped = match regions.iter().any(whole_space) {
            true => u64::MAX,
            false => regions.iter().flat_map(extent).collect::<BTreeSet<i64>>().len() as u64,
        };
        let enough = self.config.frames.is_none() || self.free.len() as u64 >= n + spare;
        if !self.config.reserve.contains(&self.classes[&region.object]) || mapped < least || !enough {
            return None;
        }
        let Some(group) = self.free_group() else {
            self.counts.failed_region_allocs += 1;
            return None;
        };
        for (i, page) in pages.iter().enumerate() {
            let frame = group + i as u64;
            self.take_frame(frame);
            self.own(*page, frame);
            self.busy.insert(frame);
            self.load(*page);
        }
        self.large.insert(pages[0]);
        Some(group + (region.page(v as i64) - first) as u64)
    }

    /// T94-44, if this is the first fault of its region and reserving is possible.
    fn reserve(&mut self, v: u64, region: &Region) -> Option<u64> {
        if !self.config.reserve.contains(&self.classes[&region.object]) {
            return None;
        }
        let n = self.config.region;
        let asked = region.page(v as i64);
        let first = asked - (asked + self.alignment[&region.object]).rem_euclid(n as i64);
        let pages: Vec<ObjectPage> = (0..n as i64).map(|i| (region.object, first + i)).collect();
        let dealt_with = pages.iter().any(|p| self.dealt_with.contains(p));
        self.dealt_with.extend(&pages);
        if dealt_with {
            return None;
        }
        let all_regions: Vec<&Region> = self.spaces.values().flat_map(|s| &s.regions).collect();
        let inside: Vec<bool> = pages.iter().map(|p| all_regions.iter().any(|r| r.maps(*p))).collect();
        if !self.config.clip && inside.contains(&false) {
            return None;
        }
        let Some(group) = self.free_group() else {
            self.counts.failed_region_allocs += 1;
            return None;
        };
        self.counts.reservations_made += 1;
        let prefetch = self.config.prefetch && self.classes[&region.object] == Class::DiskFile;
        for i in 0..n as usize {
            if !inside[i] {
                continue;
            }
            let frame = group + i as u64;
            self.take_frame(frame);
            self.own(pages[i], frame);
            if pages[i].1 == asked {
                self.busy.insert(frame);
                self.load(pages[i]);
            } else if prefetch {
                self.busy.insert(frame);
                self.load(pages[i]);
                self.counts.pages_prefetched += 1;
            } else {
                self.reserved.push(frame);
            }
        }
        self.note_peaks();
        Some(group + (asked - first) as u64)
    }

    /// T94-57.
    fn protection_fault(&mut self, asid: Asid, v: u64, region: &Region) -> Vec<Change> {
        self.counts.protection_faults += 1;
        let mut changes = Vec::new();
        let old = self.space(asid).table[&v];
        if old.order > 0 {
            changes.push(self.demote(asid, v));
        }
        let of_file = self.owner.get(&old.frame).is_some_and(|p| self.classes[&p.0] != Class::Memory);
        let mut frame = old.frame;
        if of_file || self.mappers(old.frame) > 1 {
            frame = self.ordinary_frame();
            self.counts.cow_copies += 1;
            let page = (region.object, region.page(v as i64));
            if self.owner.get(&old.frame) == Some(&page) && self.classes[&page.0] == Class::Memory {
                self.owner.remove(&old.frame);
                self.index.remove(&page);
                self.own(page, frame);
            }
        }
        let attr = attr_of(region.prot, false);
        let dirty = old.dirty && frame == old.frame;
        let entry = Entry { frame, attr, order: 0, cow: false, dirty, forbidden: old.forbidden };
        self.space(asid).table.insert(v, entry);
        changes.push((asid, VpnRange::one(Vpn(v)), What::Stale));
        self.check();
        changes
    }

    /// T94-54.
    fn try_promotion(&mut self, asid: Asid, v: u64, n: u64) {
        let first = v / n * n;
        let space = &self.spaces[&asid];
        let region = space.region(v).expect("mapped").clone();
        let mapped = space.table.range(first..first + n).count();
        let threshold = match self.classes[&region.object] {
            Class::Memory | Class::SharedMemory => self.config.threshold_memory,
            Class::DiskFile => self.config.threshold_disk,
            Class::NfsFile => self.config.threshold_nfs,
        };
        let needed = threshold * n as f64;
        let reached = if self.config.strict { mapped as f64 > needed } else { mapped as f64 >= needed };
        let larger = n > 1 << space.table[&v].order;
        if larger && self.config.promote_classes.contains(&self.classes[&region.object]) && reached {
            self.promotion(asid, v, n);
        }
    }

    /// T94-55.
    fn promotion(&mut self, asid: Asid, v: u64, n: u64) {
        let order = n.trailing_zeros() as u8;
        let first = v / n * n;
        let space = &self.spaces[&asid];
        let region = space.region(v).expect("mapped").clone();
        self.counts.promotions_tried += 1;
        let same_object =
            |w: u64| space.region(w).is_some_and(|r| r.object == region.object && r.page(w as i64) == region.page(w as i64));
        if !(first..first + n).all(same_object) {
            self.counts.refused_small_object += 1;
            return;
        }
        let base = space.table[&v].frame.wrapping_sub(v - first);
        let place = |w: u64| match space.table.get(&w) {
            Some(e) => Some(e.frame),
            None => self.index.get(&(region.object, region.page(w as i64))).copied(),
        };
        let out_of_place = (first..first + n).any(|w| place(w).is_some_and(|f| f != base.wrapping_add(w - first)));
        if !base.is_multiple_of(n) || out_of_place {
            self.counts.refused_frames += 1;
            return;
        }
        let attr = |w: u64| match space.table.get(&w) {
            Some(e) => (e.attr, e.cow),
            None => {
                let r = space.region(w).expect("checked");
                let cow = self.classes[&r.object].is_file() && !r.shared;
                (attr_of(r.prot, cow), cow)
            }
        };
        if (first..first + n).any(|w| attr(w) != attr(v)) {
            self.counts.refused_attributes += 1;
            return;
        }
        if (first..first + n).any(|w| place(w).is_none()) {
            self.counts.refused_not_resident += 1;
            return;
        }
        self.counts.promotions += 1;
        let missing: Vec<u64> = (first..first + n).filter(|w| !space.table.contains_key(w)).collect();
        for w in missing {
            let page = (region.object, region.page(w as i64));
            let frame = self.index[&page];
            if let Some(at) = self.reserved.iter().position(|&f| f == frame) {
                self.reserved.remove(at);
                self.busy.insert(frame);
                self.load(page);
            }
            let space = self.spaces.get_mut(&asid).expect("it runs");
            let r = space.region(w).expect("checked");
            let cow = self.classes[&r.object].is_file() && !r.shared;
            let entry = Entry { frame, attr: attr_of(r.prot, cow), order: 0, cow, dirty: false, forbidden: false };
            space.table.insert(w, entry);
            space.unreferenced.insert(w);
            self.counts.populated_pages += 1;
        }
        let dirty = (first..first + n).any(|w| self.spaces[&asid].table[&w].dirty);
        for w in first..first + n {
            self.space(asid).table.get_mut(&w).expect("mapped").order = order;
        }
        if dirty {
            self.make_dirty(asid, first, n);
        }
    }

    // ------------------------------------------------------------------------------------------------------- results

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
    /// Free, busy, reserved frames. Of unlimited memory, free ones below the highest frame ever looked at.
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
    /// Spaces that live.
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
