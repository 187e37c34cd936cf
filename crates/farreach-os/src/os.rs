//! [`Os`]: its parts, how it is built from a machine description, and its queries. Touches and events are in other
//! files, one for each mechanism.

use crate::accessed::{AccessBits, AccessTally};
use crate::background::TICKS_PER_MS;
use crate::background::contract::Daemon;
use crate::background::late_frees::LateFrees;
use crate::collapse_queue::CollapseQueue;
use crate::compaction::policy::Compaction;
use crate::contract::{Change, Flush, InUse, OutOfMemory, Unserved, What};
use crate::frames;
use crate::guest::Guest;
use crate::keys;
use crate::labels::Labels;
use crate::memory::Memory;
use crate::memory::held::{Held, UNMAP_HOLD};
use crate::numa::Numa;
use crate::object::ObjectKind;
use crate::placement;
use crate::placement::contract::{FrameRequest, Placement};
use crate::promotion::policy::Promotion;
use crate::ranges::census::Census;
use crate::ranges::feedback::RangeUse;
use crate::ranges::policy::{Policy, Reclaim};
use crate::ranges::process::{Ranges, Tally};
use crate::region::{HugeAdvice, Region};
use crate::segment::tally::SegmentTally;
use crate::space::Space;
use farreach_types::addr::{Asid, BASE_SHIFT, Bytes, Pfn, Vpn, VpnRange};
use farreach_types::counts::{MemoryUse, OsCounts};
use farreach_types::params::{Params, SEED};
use farreach_types::translation::Attr;
use std::sync::Arc;

/// One operating system with one memory and one policy. Pages and frames are its own base pages
/// ([`PAGE_SIZE`](crate::PAGE_SIZE)), all counts too.
pub struct Os {
    /// log2 of the base page.
    pub(crate) shift: u32,
    pub(crate) memory: Memory,
    pub(crate) spaces: Vec<Space>,
    pub(crate) placement: Box<dyn Placement>,
    /// The name of the policy.
    pub(crate) placement_name: &'static str,
    pub(crate) promotion: Promotion,
    pub(crate) ranges: Option<Policy>,
    pub(crate) range_tally: Tally,
    /// The counters of the processor when they were last read.
    pub(crate) range_use: RangeUse,
    pub(crate) census: Census,
    pub(crate) segments: SegmentTally,
    /// log2 of the base pages in a leaf of the kernel's direct map.
    pub(crate) direct_order: u32,
    pub(crate) reclaim: Reclaim,
    pub(crate) compaction: Compaction,
    pub(crate) collapse_queue: CollapseQueue,
    /// What works by itself, and the time of its next work.
    pub(crate) daemons: Vec<Box<dyn Daemon>>,
    /// Whether one of them wants to know of page walks.
    pub(crate) daemons_count_walks: bool,
    pub(crate) due: u64,
    pub(crate) access_bits: AccessBits,
    pub(crate) access_tally: AccessTally,
    /// When they worked last.
    pub(crate) now: u64,
    /// When the event happens that is served now.
    pub(crate) time_of_event: u64,
    /// Reservations that a daemon fills: first frame, and a page of it that a process has.
    pub(crate) to_fill: Vec<(Pfn, Asid, Vpn)>,
    /// Instructions that take a millisecond.
    pub(crate) ticks_per_ms: u64,
    pub(crate) nfs_prefixes: Vec<String>,
    pub(crate) labels: Labels,
    pub(crate) changes: Vec<Change>,
    /// Whether new mappings are among them.
    announces_maps: bool,
    pub(crate) mapped: u64,
    pub(crate) mapped_peak: u64,
    /// Nodes of all page tables.
    pub(crate) nodes: u64,
    pub(crate) nodes_peak: u64,
    pub(crate) virtual_pages: u64,
    pub(crate) virtual_peak: u64,
    pub(crate) touched_pages: u64,
    /// Nodes of memory, if it has some.
    pub(crate) numa: Option<Box<Numa>>,
    /// The recorded system whose page tables these are.
    pub(crate) guest: Option<Box<Guest>>,
    /// The stream is not one for this system.
    pub(crate) refusal: Option<String>,
    /// Why the kernel could not store to a page.
    pub(crate) unserved: Option<Unserved>,
}

impl Os {
    /// Builds memory and policy. The error names key, value and what is allowed.
    pub fn new(params: &Params) -> Result<Os, String> {
        let kind = placement::placement(params.text(keys::PLACEMENT.name))
            .expect("the description was checked against the registry");
        let placement = (kind.build)(params)?;
        let shift = params.page_shift();
        let frames = frames::keys::build(params, shift, params.int(SEED.name))?;
        let mut memory = Memory::new(frames, params.int(keys::RECLAIM_BATCH.name), shift);
        memory.held = Held::new(params.int(UNMAP_HOLD.name));
        let compaction = Compaction::new(params, &memory)?;
        let mut os = Os {
            shift,
            memory,
            spaces: Vec::new(),
            promotion: Promotion::new(params)?,
            ranges: Policy::new(params),
            range_tally: Tally::default(),
            range_use: RangeUse::default(),
            census: Census::default(),
            segments: SegmentTally::default(),
            direct_order: params.order(keys::DIRECT_MAP_PAGE.name, params.int(keys::DIRECT_MAP_PAGE.name))?,
            reclaim: Reclaim::new(params),
            compaction,
            collapse_queue: CollapseQueue::default(),
            daemons: Vec::new(),
            daemons_count_walks: false,
            due: u64::MAX,
            access_bits: AccessBits::new(params),
            access_tally: AccessTally::default(),
            now: 0,
            time_of_event: 0,
            to_fill: Vec::new(),
            ticks_per_ms: if params.has(TICKS_PER_MS.name) { params.int(TICKS_PER_MS.name) } else { 0 },
            guest: placement.guest_policy().map(|policy| Box::new(Guest::new(policy))),
            refusal: None,
            unserved: None,
            placement,
            placement_name: kind.name,
            nfs_prefixes: params.texts(keys::NFS.name),
            labels: Labels::default(),
            changes: Vec::new(),
            announces_maps: false,
            mapped: 0,
            mapped_peak: 0,
            nodes: 0,
            nodes_peak: 0,
            virtual_pages: 0,
            virtual_peak: 0,
            touched_pages: 0,
            numa: None,
        };
        os.set_nodes(os.placement.numa_policy());
        // Before anything is set aside (DS13-13): contiguous memory may need compaction.
        os.tick();
        os.placement.set_up(&mut os.memory)?;
        let mut daemons = os.placement.daemons();
        if os.memory.held.is_used() {
            daemons.push(Box::new(LateFrees::new()));
        }
        os.daemons_count_walks = daemons.iter().any(|daemon| daemon.counts_walks());
        os.set_daemons(daemons);
        Ok(os)
    }

    pub(crate) fn space(&mut self, asid: Asid) -> &mut Space {
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
    pub(crate) fn all_pages(&self) -> VpnRange {
        VpnRange { start: Vpn(0), pages: 1 << (64 - self.shift) }
    }

    /// From now on new mappings are changes, too, for hardware that keeps tables of its own (PT-1). To be called before
    /// anything is mapped.
    pub fn announce_maps(&mut self) {
        self.announces_maps = true;
    }

    /// Whether somebody asked.
    pub fn announces_maps(&self) -> bool {
        self.announces_maps
    }

    /// Says that these pages are mapped now, if anybody asked for it. Neighbours make one change.
    pub(crate) fn announce(&mut self, asid: Asid, pages: VpnRange) {
        if !self.announces_maps {
            return;
        }
        match self.changes.last_mut() {
            Some(Change { asid: of, pages: last, what: What::Mapped, .. })
                if *of == asid && last.end() == pages.start =>
            {
                last.pages += pages.pages;
            }
            _ => self.change(asid, pages, What::Mapped),
        }
    }

    /// Whether there are changes since the last [`Os::take_changes`].
    #[inline]
    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// The changes since the last call, in order.
    pub fn take_changes(&mut self, into: &mut Vec<Change>) {
        into.clear();
        std::mem::swap(into, &mut self.changes);
    }

    pub(crate) fn change(&mut self, asid: Asid, pages: VpnRange, what: What) {
        if matches!(what, What::Stale | What::Gone) {
            self.end_perforated(asid, pages);
        }
        let order = match what {
            What::Stale => self.order_of(asid, pages),
            // The whole superpage that was split.
            What::Demoted if pages.pages.is_power_of_two() => {
                let order = pages.pages.trailing_zeros();
                if pages.start.align_down(order) == pages.start { order as u8 } else { 0 }
            }
            _ => 0,
        };
        self.changes.push(Change { asid, pages, what, flush: Flush { order, ..Flush::default() } });
    }

    /// log2 of the base pages of the mappings of these pages, if they are alike and whole; otherwise 0.
    fn order_of(&self, asid: Asid, pages: VpnRange) -> u8 {
        let table = &self.spaces[asid.0 as usize].table;
        let order_at = |vpn: Vpn| table.get(vpn).map_or(0, |entry| entry.order);
        let order = order_at(pages.start);
        let size = 1 << order;
        let whole = pages.start.0.is_multiple_of(size) && pages.pages.is_multiple_of(size);
        let groups = || (pages.start.0..pages.end().0).step_by(size as usize);
        if order > 0 && whole && groups().all(|first| order_at(Vpn(first)) == order) { order } else { 0 }
    }

    /// The changes since there were this number of them are parts of one request.
    pub(crate) fn join_changes(&mut self, since: usize) {
        self.changes.iter_mut().skip(since + 1).for_each(|change| change.flush.joins = true);
    }

    /// Reports ascending pages as stale.
    pub(crate) fn stale(&mut self, asid: Asid, pages: &[Vpn]) {
        self.report(asid, pages, What::Stale);
    }

    /// Reports ascending pages, in runs.
    pub(crate) fn report(&mut self, asid: Asid, pages: &[Vpn], what: What) {
        let since = self.changes.len();
        for run in pages.chunk_by(|a, b| a.0 + 1 == b.0) {
            self.change(asid, VpnRange { start: run[0], pages: run.len() as u64 }, what);
        }
        self.join_changes(since);
    }

    /// The counters.
    pub fn counts(&self) -> OsCounts {
        let mut counts = self.memory.counts.clone();
        counts.populated_never_used += self.never_used_now();
        counts.chunk_unused_pages += self.memory.kept();
        counts.alloc_steps = self.memory.alloc.steps();
        counts.guest = self.guest_counts().unwrap_or_default();
        let own = self.daemons.iter().flat_map(|daemon| daemon.counters()).chain(self.access_counters());
        let own = own.chain(self.memory.held.counters()).chain(self.sample_counters());
        let own = own.map(|(name, n)| (name.to_owned(), n));
        counts.policy = self.placement.counters(&self.memory).into_iter().chain(own).collect();
        counts
    }

    fn never_used_now(&self) -> u64 {
        if self.memory.counts.populated_pages == 0 { 0 } else { self.spaces.iter().map(|s| s.table.unused()).sum() }
    }

    /// Memory in use at this moment.
    pub fn in_use(&self) -> InUse {
        if let Some(guest) = &self.guest {
            return InUse { resident: guest.in_use().frames(), virtual_pages: 0 };
        }
        InUse { resident: self.memory.resident(), virtual_pages: self.virtual_pages }
    }

    /// Memory over the whole run until now.
    pub fn memory_use(&self) -> MemoryUse {
        let bytes = |pages: u64| pages << self.shift;
        if let Some(guest) = &self.guest {
            let (pages, frames) = guest.in_use().most();
            return MemoryUse {
                resident_bytes: bytes(frames),
                mapped_bytes: bytes(pages),
                touched_bytes: bytes(self.touched_pages),
                resident_at_end_bytes: bytes(guest.in_use().frames()),
                ..MemoryUse::default()
            };
        }
        let peak = self.memory.peak();
        MemoryUse {
            resident_bytes: bytes(peak.resident),
            mapped_bytes: bytes(self.mapped_peak),
            reserved_bytes: bytes(peak.reserved),
            touched_bytes: bytes(self.touched_pages),
            wasted_bytes: bytes(peak.wasted),
            virtual_bytes: bytes(self.virtual_peak),
            resident_at_end_bytes: bytes(self.memory.resident()),
            page_table_bytes: None,
        }
    }

    /// Why the events so far are none for this system, if so. To be asked after each [`Os::apply`].
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Most bytes of page tables at any time, if they are radix trees of four levels with pages of 4 KB.
    pub fn radix_bytes(&self) -> Option<u64> {
        (self.shift == BASE_SHIFT).then_some(self.nodes_peak << BASE_SHIFT)
    }

    /// Region names by number.
    pub fn labels(&self) -> &[Arc<str>] {
        self.labels.all()
    }

    /// Panics if the counters are not consistent (XC-6, T94-43); for tests and debug builds.
    pub fn check(&self) {
        self.memory.check();
        let mapped: u64 = self.spaces.iter().map(|s| s.table.present()).sum();
        assert_eq!(mapped, self.mapped, "mapped pages");
        let nodes: u64 = self.spaces.iter().map(|s| s.table.nodes()).sum();
        assert_eq!(nodes, self.nodes, "nodes of page tables");
        self.spaces.iter().filter_map(|s| s.ranges.as_ref()).for_each(Ranges::check);
        self.check_segments();
        self.check_private_files();
        if let Some(guest) = &self.guest {
            guest.check(self);
        }
    }

    /// What a process may store to through a private mapping of a file is its own (T94-57).
    fn check_private_files(&self) {
        let of_file = |region: &&Region| !region.shared && self.memory.objects.get(region.object).kind.is_file();
        for space in &self.spaces {
            for region in space.regions.iter().filter(of_file) {
                for vpn in space.table.mapped_in(region.range) {
                    let entry = space.table.get(vpn).expect("mapped");
                    let of_file = self.memory.frame_of(region.object, region.page_of(vpn)) == Some(entry.pfn);
                    assert!(!of_file || entry.attr.0 & Attr::WRITE == 0, "{vpn:?} stores to the file itself");
                }
            }
        }
    }

    /// The error message for a touch that failed.
    pub fn explain(&self, e: Unserved) -> String {
        match e {
            Unserved::OutOfMemory(e) => self.memory_is_full(e),
            Unserved::Guest(what) => what,
        }
    }

    fn memory_is_full(&self, e: OutOfMemory) -> String {
        let total = self.memory.alloc.total().map_or(0, |t| t << self.shift);
        let pinned = self.memory.alloc.pinned() << self.shift;
        let why = self.placement.why_full().map_or(String::new(), |why| format!("{why}; "));
        format!(
            "out of memory at page {:#x}: {why}{} in use, {} pinned, of {}; give the key 'memory' a larger value or \
             'unlimited'",
            e.vpn.0 << self.shift,
            Bytes(self.memory.resident() << self.shift),
            Bytes(pinned),
            Bytes(total),
        )
    }

    /// The request of a page for a frame.
    pub(crate) fn request_for(&self, asid: Asid, vpn: Vpn, region: &Region) -> FrameRequest {
        let refuses = self.huge_advice(asid, region) == HugeAdvice::NoHuge;
        let room = VpnRange { pages: if refuses { 0 } else { region.range.pages }, ..region.range };
        FrameRequest { asid, vpn, object: region.object, page: region.page_of(vpn), room }
    }

    pub(crate) fn kind_of_file(&self, path: &str) -> ObjectKind {
        if self.nfs_prefixes.iter().any(|prefix| path.starts_with(prefix.as_str())) {
            ObjectKind::Nfs
        } else {
            ObjectKind::Disk
        }
    }
}
