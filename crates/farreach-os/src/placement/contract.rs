//! The contract of placement policies: their decisions, and their registration.

use super::guest::GuestPolicy;
use super::utopia::RestSegs;
use crate::background::contract::Daemon;
use crate::memory::Memory;
use crate::object::ObjectId;
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::params::{Key, Params};

/// A page that needs a frame.
#[derive(Clone, Copy, Debug)]
pub struct FrameRequest {
    /// The process that referenced it.
    pub asid: Asid,
    /// Where it was referenced.
    pub vpn: Vpn,
    /// What it belongs to.
    pub object: ObjectId,
    /// Which page of it.
    pub page: u64,
    /// The pages around it that are mapped alike; none where superpages are refused (MADV_NOHUGEPAGE).
    pub room: VpnRange,
}

/// A placement policy. It takes frames from the memory that it is given. The caller makes the requested page busy.
pub trait Placement: Send {
    /// A frame for a page that has neither a busy nor a reserved one; `None` when memory is full.
    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn>;

    /// The frame for a process's own copy of a page, of a file or of memory that it shared since a fork.
    fn allocate_copy(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        memory.alloc_frame(request.vpn)
    }

    /// A region was mapped. `name` is its label.
    fn region_mapped(&mut self, memory: &Memory, region: &Region, name: &str) {
        let _ = (memory, region, name);
    }

    /// log2 of the base pages in the large pages that the policy allocates whole and notes in
    /// `Object::large`: they are mapped as one at the fault, if nothing is in the way.
    fn large_page_order(&self) -> Option<u32> {
        None
    }

    /// At the start of the system: sets frames aside, if the policy needs some. The error names key, value and what is
    /// allowed.
    fn set_up(&mut self, memory: &mut Memory) -> Result<(), String> {
        let _ = memory;
        Ok(())
    }

    /// A request of a process for anonymous memory, at the moment it is made (RMM15-23, WIN-1).
    fn allocate_eagerly(&mut self, memory: &mut Memory, asked: Asked) -> EagerGrant {
        let _ = (memory, asked);
        EagerGrant::Now(Vec::new())
    }

    /// Returns the frames that the policy keeps for a process that ends (`None`: for all processes, because memory is
    /// full). True if there were any.
    fn release_kept(&mut self, memory: &mut Memory, asid: Option<Asid>) -> bool {
        let _ = (memory, asid);
        false
    }

    /// Why a page got no frame though others are free, if that was so.
    fn why_full(&self) -> Option<String> {
        None
    }

    /// A request that waits for its first touch, and has this page (EGR-1). It is asked for once.
    fn request_at(&mut self, asid: Asid, vpn: Vpn) -> Option<VpnRange> {
        let _ = (asid, vpn);
        None
    }

    /// Superpages that a fault in this region with this advice may bring in, largest first, as log2 of their base
    /// pages.
    fn superpage_orders(&self, memory: &Memory, region: &Region, request: FrameRequest, advice: HugeAdvice) -> &[u8] {
        let _ = (memory, region, request, advice);
        &[]
    }

    /// Whether the background may collapse base pages of this memory into superpages of this size.
    fn collapses_into(
        &self,
        memory: &Memory,
        region: &Region,
        request: FrameRequest,
        advice: HugeAdvice,
        order: u8,
    ) -> bool {
        self.superpage_orders(memory, region, request, advice).contains(&order)
    }

    /// A free block for a superpage. `request` is its first page.
    fn superpage_block(&mut self, memory: &mut Memory, request: FrameRequest, order: u8) -> Option<Pfn> {
        let _ = request;
        memory.alloc_block(order.into())
    }

    /// The first frame of a block of 2 MB that is not wholly free, and a bit for each frame of it that is not (PRF-1);
    /// takes the free ones. Asked where there is no free block for a superpage.
    fn perforated_block(&mut self, memory: &mut Memory) -> Option<(Pfn, [u64; 8])> {
        let _ = memory;
        None
    }

    /// What is done for a superpage of `2^order` pages at a fault in memory with this advice, if there is no free block
    /// (LNX-5).
    fn effort(&self, advice: HugeAdvice, order: u8) -> Effort {
        let _ = (advice, order);
        Effort::Configured
    }

    /// log2 of the pages of the parts into which a superpage of `2^order` is split.
    fn split_into(&self, order: u32) -> u32 {
        let _ = order;
        0
    }

    /// Whether smaller superpages are copied whole when a larger one is made of them, and not split before (TRI-2).
    fn copies_parts(&self) -> bool {
        false
    }

    /// log2 of the pages that a fault of a load or fetch in a file maps around it, where all of the file is taken to
    /// be in memory (PGC-6); 0: its own page alone.
    fn fault_around(&self) -> u32 {
        0
    }

    /// log2 of the base pages of the superpage of zeros, if loads of untouched private memory map pages of zeros, and
    /// whether there is such a superpage (LNX-2, LNX-4).
    fn zero_page(&self) -> Option<(u8, bool)> {
        None
    }

    /// log2 of the base pages of the superpages that MADV_COLLAPSE makes (LNX-14). `None`: the system does not know it.
    fn collapses_when_asked(&self) -> Option<u8> {
        None
    }

    /// What works by itself, at times of the clock (OSC-1). Asked once, after [`Placement::set_up`].
    fn daemons(&mut self) -> Vec<Box<dyn Daemon>> {
        Vec::new()
    }

    /// Whether private anonymous memory that is mapped beside other such memory becomes part of it.
    fn merges_neighbours(&self) -> bool {
        false
    }

    /// Whether the first store to a superpage of `2^order` pages that is no longer shared with a child keeps it whole.
    fn reuses_superpages(&self, order: u8) -> bool {
        let _ = order;
        false
    }

    /// Whether a superpage that mremap moves as a whole to an aligned place stays one (LNX-20).
    fn moves_superpages(&self) -> bool {
        false
    }

    /// Whether memory is rounded up to whole huge pages, whose rest is mapped too.
    fn rounds_up(&self) -> bool {
        false
    }

    /// log2 of the base pages of these huge pages.
    fn huge_order(&self) -> Option<u8> {
        None
    }

    /// How base pages are collapsed into superpages in the background.
    fn collapse_policy(&self) -> Option<CollapsePolicy> {
        None
    }

    /// How direct segments are made, if the policy makes any.
    fn segment_policy(&self) -> Option<&SegmentPolicy> {
        None
    }

    /// How a recorded system is followed, if its page tables are the recorded ones.
    fn guest_policy(&self) -> Option<GuestPolicy> {
        None
    }

    /// The nodes of memory, if it has several (CLP-1).
    fn numa_policy(&self) -> Option<NumaPolicy> {
        None
    }

    /// A daemon of the policy says whether faults bring in superpages from now on, and whether base pages are collapsed
    /// into some (CLP-1, CLP-2).
    fn allow_superpages(&mut self, at_faults: bool, collapsed: bool) {
        let _ = (at_faults, collapsed);
    }

    /// The restrictive segments, if the policy has any (UTO-1).
    fn restsegs(&self) -> Option<&RestSegs> {
        None
    }

    /// Pages of which one should be moved elsewhere before this page of `2^order` is placed, the best first (UTO-5).
    fn in_the_way(&self, memory: &Memory, request: FrameRequest, order: u8) -> Vec<Moved> {
        let _ = (memory, request, order);
        Vec::new()
    }

    /// Whether it wants to know of page walks.
    fn counts_walks(&self) -> bool {
        false
    }

    /// The page table was walked for a page of `2^order`. Whether it should move to a RestSeg now (UTO-6).
    fn walked(&mut self, asid: Asid, first: Vpn, pfn: Pfn, order: u8) -> bool {
        let _ = (asid, first, pfn, order);
        false
    }

    /// A request was refused after all.
    fn request_refused(&mut self, memory: &mut Memory) {
        let _ = memory;
    }

    /// How full groups of reservations become superpages, if they do by themselves (NAV-7, FBR-7).
    fn superpage_rule(&self) -> Option<SuperpageRule> {
        None
    }

    /// When a group in a reservation is filled with zeros, so that it becomes a superpage (OS-TPS-2, QKS-1). `None`:
    /// never, it waits until all of its pages came.
    fn filling(&self) -> Option<Filling> {
        None
    }

    /// Whether fork gives both processes new objects for their private memory, without reservations and with none of
    /// the pages that are shared now (FBR-10).
    fn forks_objects(&self) -> bool {
        false
    }

    /// What the policy counts itself, by name.
    fn counters(&self, memory: &Memory) -> Vec<(String, u64)> {
        let _ = memory;
        Vec::new()
    }

    /// Frames in a RestSeg for a page of `2^order` that moves there.
    fn allocate_restricted(&mut self, memory: &mut Memory, request: FrameRequest, order: u8) -> Option<Pfn> {
        let _ = (memory, request, order);
        None
    }
}

/// What a superpage made of a full reservation tells of stores: it has one modified bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SuperpageRule {
    /// Nothing: a store makes all of it modified (T94-19).
    Whole,
    /// As before, and any pages in order become one, however they got their frames (OS-TPS-2).
    InPlace,
    /// All pages of it are modified, or none, and the first store splits it (NAV-9): of files, or of all memory.
    Split {
        /// Only memory of files.
        files: bool,
    },
    /// As before, with entries that lose their right to be stored to, and faults that map such a superpage at once
    /// (FBR-7 to FBR-9).
    Guard,
}

impl SuperpageRule {
    /// Whether a store makes all of a superpage modified.
    pub fn is_whole(self) -> bool {
        matches!(self, SuperpageRule::Whole | SuperpageRule::InPlace)
    }
}

/// When a group of private memory in a reservation is filled.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Filling {
    /// This share of its pages was asked for; the largest such group is filled.
    Share(f64),
    /// This number of pages of the reservation is in use.
    Pages {
        /// How many.
        least: u64,
        /// A daemon fills it, not the fault ([`Os::fill_waiting`](crate::Os)).
        later: bool,
    },
}

/// What is done for a block that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// What the key `compaction` says.
    Configured,
    /// Memory is compacted at once.
    Direct,
    /// Compaction in the background is woken; the request fails.
    Wake,
    /// The request fails.
    Fail,
}

/// A page or superpage that may be moved.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// Whose it is.
    pub asid: Asid,
    /// Its first base page.
    pub vpn: Vpn,
    /// The frame of that.
    pub from: Pfn,
    /// log2 of its base pages.
    pub order: u8,
}

/// A request for anonymous memory of which nothing is mapped.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Whose it is.
    pub asid: Asid,
    /// Its pages.
    pub range: VpnRange,
    /// When.
    pub when: Asking,
    /// What was advised of it.
    pub advice: HugeAdvice,
}

/// What brings a request to the policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asking {
    /// The program's call for memory.
    Call,
    /// Memory is advised to have superpages (MADV_HUGEPAGE).
    Advice,
    /// A page of a request that the policy let wait is touched ([`Placement::request_at`]).
    Touch,
}

/// A policy's answer to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EagerGrant {
    /// First frame and number of each block, in page order. There may be fewer frames than pages; the other pages get
    /// theirs when they are touched.
    Now(Vec<(Pfn, u64)>),
    /// As before, but frames are held back for the pages, which are mapped when they are touched (EGR-1).
    Reserved(Vec<(Pfn, u64)>),
    /// First frames of superpages of `2^order` pages, which are the whole request.
    Superpages(Vec<Pfn>, u8),
    /// There may be enough memory, but not in blocks of this many pages.
    Fragmented(u64),
}

/// A policy as the registry knows it.
pub struct PlacementKind {
    /// Value of the key `placement`.
    pub name: &'static str,
    /// One line for display.
    pub about: &'static str,
    /// The keys it reads.
    pub keys: &'static [&'static Key],
    /// Builds it.
    pub build: fn(&Params) -> Result<Box<dyn Placement>, String>,
}

/// How base pages become superpages in the background (khugepaged). Time is counted in page faults, the system's only
/// clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CollapsePolicy {
    /// log2 of the base pages of the superpage.
    pub order: u8,
    /// Page faults between two scans.
    pub every: u64,
    /// Groups examined in a scan.
    pub groups: u64,
    /// Pages of a group that may be missing (`max_ptes_none`).
    pub missing: u64,
}

/// Nodes of memory, and what is learned of who uses it (CLP-1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NumaPolicy {
    /// Nodes, from 2 on.
    pub nodes: u8,
    /// Cores of all nodes together, to which threads are dealt.
    pub cores: u64,
    /// One of this number of walks is a sample.
    pub every: u64,
}

/// What fork does to a segment (AMB-64).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnFork {
    /// Back to pages, shared until the first store; no segment until the child has ended.
    Revert,
    /// The segment stays, the child gets copies of its pages.
    Copy,
}

/// Which programs get direct segments, and for which memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentPolicy {
    /// Holes between regions belong to the primary region, up to the size of the memory set aside (DS13-11).
    pub eager: bool,
    /// Only the heap is eligible; otherwise all private anonymous read-write memory but stacks (DS13-12).
    pub heap_only: bool,
    /// Fewest pages of an eligible region.
    pub least: u64,
    /// Paths or file names of the programs that get one. Empty: every program with `admit` pages (DS13-14).
    pub programs: Vec<String>,
    /// Fewest pages of a primary region that gets a segment.
    pub admit: u64,
    /// Faults map the pages that the registers would give (DS13-25).
    pub emulation: bool,
    /// On fork.
    pub on_fork: OnFork,
    /// Unused memory of segments serves others when memory is full.
    pub lend: bool,
}
