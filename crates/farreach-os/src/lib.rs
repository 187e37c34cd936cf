//! The operating system: address spaces, page tables, placement of pages, promotion. It follows the events of the program and
//! serves its faults, and it says what changed so that translation hardware can follow. It knows no hardware.

mod account;
mod base_pages;
mod bits;
mod busy;
mod compaction;
mod direct_map;
pub mod dump;
mod events;
mod fault;
pub mod frames;
mod huge;
mod huge_rounding;
mod memory;
mod object;
mod page_index;
mod page_table;
pub mod placement;
mod pressure;
mod promotion;
pub mod ranges;
mod region;
mod request;
mod segment;

pub use account::Frames;
use base_pages::Parts;
use farreach_types::addr::{Asid, Bytes, Vpn, VpnRange};
use farreach_types::counts::{MemoryUse, OsCounts};
use farreach_types::params::{Allowed, Key, Params};
pub use farreach_types::params::{PAGE_SIZE, SEED};
use farreach_types::translation::{PageTableView, Pte, Range, RangeTableView, RangeWalk, Segment, SegmentView};
use memory::Memory;
use object::ObjectKind;
use page_table::PageTable;
use placement::Placement;
use promotion::Promotion;
use region::Regions;
use std::sync::Arc;

/// A change that the hardware must follow: the translations of these pages are no longer valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Address space.
    pub asid: Asid,
    /// Pages.
    pub pages: VpnRange,
    /// What happened to them.
    pub what: What,
}

/// Kinds of change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Mapped no more, mapped to another frame, or with other attributes: forget the translations.
    Stale,
    /// Translations and attributes stay true, but a store may have to be served now: a copy-on-write page of a region that
    /// became writable.
    Writable,
    /// One superpage mapping now; the base translations stay true (T94-56).
    Promoted,
    /// A superpage mapping was split, or a range dissolved, shrunk or split; the base translations stay true, an entry for the whole
    /// does not (T94-42, RMM15-12).
    Demoted,
    /// The address space is gone.
    Gone,
    /// The segment registers of the process changed: the new ones hold from now on, on all cores (DS13-17, DS13-24). Comes before
    /// `Stale` for pages that entered the segment, and after the page table has those that left it (DS13-20 to DS13-22).
    Segment,
}

/// Memory is full and nothing can be given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    /// The page that could not be served.
    pub vpn: Vpn,
}

/// What a touch found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touched {
    /// The page table entry, present, after all faults are served.
    pub pte: Pte,
    /// Name of its region, an index into [`Os::labels`].
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

/// One address space.
#[derive(Default)]
struct Space {
    table: PageTable,
    regions: Regions,
    /// Its range translations, once it has pages, if the system keeps any.
    ranges: Option<ranges::Ranges>,
    /// Its direct segment, as in the registers.
    segment: Option<Segment>,
    /// Its kernel's direct map, if it has one from the first page on.
    direct: Option<VpnRange>,
    /// Children that share the pages of what was a segment: until they end it stays paged (AMB-64).
    paged_for: Vec<Asid>,
    /// Path of its program.
    program: Option<Arc<str>>,
    /// What events mapped, where base pages are larger than theirs.
    parts: Parts,
    /// The trace says what is mapped. Otherwise one anonymous object fills the space.
    mapped_by_events: bool,
    /// The promotion policy's counts of mapped pages in aligned groups.
    populations: hashbrown::HashMap<(u32, u64), u32, foldhash::fast::FixedState>,
    /// Its share of the count of virtual pages.
    counted: u64,
    ended: bool,
}

/// One operating system with one memory and one policy. Pages and frames are its own base pages ([`PAGE_SIZE`]), all counts too.
pub struct Os {
    /// log2 of the base page.
    shift: u32,
    memory: Memory,
    spaces: Vec<Space>,
    placement: Box<dyn Placement>,
    promotion: Promotion,
    ranges: Option<ranges::Policy>,
    range_tally: ranges::Tally,
    /// The counters of the processor when they were last read.
    range_use: ranges::RangeUse,
    census: ranges::Census,
    segments: segment::Tally,
    /// log2 of the base pages in a leaf of the kernel's direct map.
    direct_order: u32,
    reclaim: pressure::Reclaim,
    compaction: compaction::Compaction,
    waiting: huge::Waiting,
    nfs: Vec<String>,
    labels: Labels,
    changes: Vec<Change>,
    mapped: u64,
    mapped_peak: u64,
    virtual_pages: u64,
    virtual_peak: u64,
    touched_pages: u64,
}

/// Region names, each once.
#[derive(Default)]
struct Labels {
    names: Vec<Arc<str>>,
    index: hashbrown::HashMap<Arc<str>, u32, foldhash::fast::FixedState>,
}

impl Labels {
    fn intern(&mut self, name: &str) -> u32 {
        if let Some(&i) = self.index.get(name) {
            return i;
        }
        let name: Arc<str> = name.into();
        self.names.push(Arc::clone(&name));
        self.index.insert(name, self.names.len() as u32 - 1);
        self.names.len() as u32 - 1
    }
}

/// Which placement policy.
pub const PLACEMENT: Key = Key {
    name: "placement",
    default: "demand",
    allowed: Allowed::Text, // one of the registry; see `MachineSpec`
    about: "how a page gets its frame; the keys of a policy come with it",
};
const NFS: Key = Key {
    name: "nfs",
    default: "",
    allowed: Allowed::Texts,
    about: "path prefixes of files that count as remote (T94-52, T94-54)",
};
const RECLAIM_BATCH: Key = Key {
    name: "reclaim_batch",
    default: "1",
    allowed: Allowed::Int { min: 1, max: 1 << 20 },
    about: "reserved frames taken back at a time when none is free (AMB-8)",
};

/// The keys of an operating system with this placement policy.
pub fn keys(placement: &str) -> Vec<&'static Key> {
    let own = placement::placement(placement).map_or(&[][..], |p| p.keys);
    let mut keys = vec![&PAGE_SIZE, &PLACEMENT, &NFS, &RECLAIM_BATCH, &direct_map::PAGE, &SEED];
    keys.extend(own);
    keys.extend(promotion::KEYS);
    keys.extend(ranges::KEYS);
    keys.extend(compaction::KEYS);
    keys.extend(&frames::keys::KEYS);
    keys
}

impl Os {
    /// Builds memory and policy. The error names key, value and what is allowed.
    pub fn new(params: &Params) -> Result<Os, String> {
        let kind = placement::placement(params.text("placement")).expect("the description was checked against the registry");
        let placement = (kind.build)(params)?;
        let shift = params.page_shift();
        let frames = frames::keys::build(params, shift, params.int("seed"))?;
        let memory = Memory::new(frames, params.int("reclaim_batch"), shift);
        let compaction = compaction::Compaction::new(params, &memory)?;
        let mut os = Os {
            shift,
            memory,
            spaces: Vec::new(),
            promotion: Promotion::new(params)?,
            ranges: ranges::Policy::new(params),
            range_tally: ranges::Tally::default(),
            range_use: ranges::RangeUse::default(),
            census: ranges::Census::default(),
            segments: segment::Tally::default(),
            direct_order: params.order(direct_map::PAGE.name, params.int(direct_map::PAGE.name))?,
            reclaim: match params.text(ranges::RECLAIM.name) {
                "dissolve" => pressure::Reclaim::Dissolve,
                "split" => pressure::Reclaim::Split,
                _ => pressure::Reclaim::Never,
            },
            compaction,
            waiting: huge::Waiting::default(),
            placement,
            nfs: params.texts("nfs"),
            labels: Labels::default(),
            changes: Vec::new(),
            mapped: 0,
            mapped_peak: 0,
            virtual_pages: 0,
            virtual_peak: 0,
            touched_pages: 0,
        };
        // Before anything is set aside (DS13-13): what is wanted in one piece may need it.
        os.tick();
        os.placement.start(&mut os.memory)?;
        Ok(os)
    }

    fn space(&mut self, asid: Asid) -> &mut Space {
        let i = asid.0 as usize;
        if self.spaces.len() <= i {
            self.spaces.resize_with(i + 1, Space::default);
        }
        &mut self.spaces[i]
    }

    /// log2 of the base page.
    pub fn page_shift(&self) -> u32 {
        self.shift
    }

    /// All pages of an address space: 64-bit addresses (T94-1).
    fn all_pages(&self) -> VpnRange {
        VpnRange { start: Vpn(0), pages: 1 << (64 - self.shift) }
    }

    /// Whether something changed since the last [`Os::take_changes`].
    #[inline]
    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// The changes since the last call, in order.
    pub fn take_changes(&mut self, into: &mut Vec<Change>) {
        into.clear();
        std::mem::swap(into, &mut self.changes);
    }

    fn change(&mut self, asid: Asid, pages: VpnRange, what: What) {
        self.changes.push(Change { asid, pages, what });
    }

    /// What was counted.
    pub fn counts(&self) -> OsCounts {
        let mut counts = self.memory.counts.clone();
        counts.populated_never_used += self.never_used_now();
        counts.chunk_unused_pages += self.memory.kept();
        counts.alloc_steps = self.memory.alloc.steps();
        counts
    }

    fn never_used_now(&self) -> u64 {
        if self.memory.counts.populated_pages == 0 { 0 } else { self.spaces.iter().map(|s| s.table.unused()).sum() }
    }

    /// Memory in use at this moment.
    pub fn in_use(&self) -> InUse {
        InUse { resident: self.memory.resident(), virtual_pages: self.virtual_pages }
    }

    /// Memory used until now.
    pub fn memory_use(&self) -> MemoryUse {
        let bytes = |pages: u64| pages << self.shift;
        let peak = self.memory.peak();
        MemoryUse {
            resident_bytes: bytes(peak.resident),
            mapped_bytes: bytes(self.mapped_peak),
            reserved_bytes: bytes(peak.reserved),
            touched_bytes: bytes(self.touched_pages),
            wasted_bytes: bytes(peak.wasted),
            virtual_bytes: bytes(self.virtual_peak),
            resident_at_end_bytes: bytes(self.memory.resident()),
        }
    }

    /// Region names by number.
    pub fn labels(&self) -> &[Arc<str>] {
        &self.labels.names
    }

    /// Panics if the counters are not consistent (XC-6, T94-43); for tests and debug builds.
    pub fn check(&self) {
        self.memory.check();
        let mapped: u64 = self.spaces.iter().map(|s| s.table.present()).sum();
        assert_eq!(mapped, self.mapped, "mapped pages");
        self.spaces.iter().filter_map(|s| s.ranges.as_ref()).for_each(ranges::Ranges::check);
        self.check_segments();
    }

    /// A sentence about a full memory.
    pub fn explain(&self, e: OutOfMemory) -> String {
        let total = self.memory.alloc.total().map_or(0, |t| t << self.shift);
        let pinned = self.memory.alloc.pinned() << self.shift;
        format!(
            "out of memory at page {:#x}: {} in use, {} pinned, of {}; give the key 'memory' a larger value or 'unlimited'",
            e.vpn.0 << self.shift,
            Bytes(self.memory.resident() << self.shift),
            Bytes(pinned),
            Bytes(total),
        )
    }

    fn kind_of_file(&self, path: &str) -> ObjectKind {
        if self.nfs.iter().any(|prefix| path.starts_with(prefix.as_str())) { ObjectKind::Nfs } else { ObjectKind::Disk }
    }
}

impl PageTableView for Os {
    #[inline]
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        self.spaces.get(asid.0 as usize)?.table.pte(vpn)
    }
    fn ranges(&self) -> &dyn RangeTableView {
        self
    }
    fn segments(&self) -> &dyn SegmentView {
        self
    }
}

impl Os {
    fn ranges_of(&self, asid: Asid) -> Option<&ranges::Ranges> {
        self.spaces.get(asid.0 as usize)?.ranges.as_ref()
    }
}

impl RangeTableView for Os {
    fn range(&self, asid: Asid, vpn: Vpn) -> Option<Range> {
        self.range_of(asid, vpn)
    }

    fn walk(&self, asid: Asid, vpn: Vpn) -> RangeWalk {
        self.ranges_of(asid).map_or(RangeWalk { nodes: 0, found: None }, |ranges| ranges.walk(vpn))
    }

    fn path(&self, asid: Asid, vpn: Vpn, into: &mut Vec<u64>) {
        if let Some(ranges) = self.ranges_of(asid) {
            ranges.path(vpn, into);
        }
    }

    fn largest(&self, asid: Asid, most: usize) -> Vec<Range> {
        self.ranges_of(asid).map_or_else(Vec::new, |ranges| ranges.largest(most))
    }

    fn version(&self, asid: Asid) -> u64 {
        self.ranges_of(asid).map_or(0, ranges::Ranges::version)
    }
}

impl SegmentView for Os {
    fn segment(&self, asid: Asid) -> Option<Segment> {
        self.registers(asid)
    }

    fn kernel_segment(&self, asid: Asid) -> Option<Segment> {
        self.direct_map(asid)
    }
}
