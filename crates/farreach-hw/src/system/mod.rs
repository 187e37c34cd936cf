//! Machines that see every reference of the program, line by line: translation in software behind virtual caches, and
//! the machines it is compared with (SV97). A kind is one file here and one line in [`SYSTEMS`].
//!
//! They do not fit [`Tlb`](crate::tlb::Tlb), which is only called for lookups that can change something: here almost
//! every reference moves a line. So the loop gives them *spans*, pieces of the stream without changes of the page
//! table, and each machine processes a span by itself.

mod caches;
mod family;
pub mod global;
pub mod keys;
mod midgard;
mod mips;
mod mmu;
mod pages;
mod program_lines;
mod random_tlb;
mod softvm;
mod space;
pub mod tables;
mod tag_latch;
mod x86;

pub use family::{DIFFERENCE, FAMILY};
pub use mmu::Mmu;
pub use random_tlb::RandomTlb;
pub use softvm::Softvm;
pub use space::{Entered, Segment, Space};
pub use tag_latch::{Label, TagLatch, TagLatchError};

use crate::tlb::{Counting, Foresees};
use farreach_types::addr::{Asid, BASE_SHIFT, Vpn, VpnRange};
use farreach_types::counts::{CacheCounts, ContextCounts, HOST_TABLE, SystemCounts, TABLE, TlbCounts};
use farreach_types::event::Kind;
use farreach_types::params::{Key, Params};
use farreach_types::translation::{Attr, PageTableView};

/// log2 of the bytes of the pieces that items name: no line is shorter.
pub const PIECE_SHIFT: u32 = 4;

/// A reference to one aligned piece of 16 bytes. A longer reference is several items.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Item(u64);

impl Item {
    /// The piece around a byte.
    #[inline(always)]
    pub fn new(kind: Kind, addr: u64) -> Item {
        Item::piece_of(kind, addr >> PIECE_SHIFT)
    }
    /// A piece by its number.
    #[inline(always)]
    pub fn piece_of(kind: Kind, piece: u64) -> Item {
        Item(piece << 2 | kind as u64)
    }
    /// Number of the piece: its address div 16.
    #[inline(always)]
    pub fn piece(self) -> u64 {
        self.0 >> 2
    }
    /// 0: fetch, 1: load, 2: store.
    #[inline(always)]
    pub fn kind_index(self) -> usize {
        (self.0 & 3) as usize
    }
    /// Its kind.
    #[inline(always)]
    pub fn kind(self) -> Kind {
        match self.kind_index() {
            0 => Kind::Fetch,
            1 => Kind::Load,
            _ => Kind::Store,
        }
    }
    /// 0: instructions, 1: data.
    #[inline(always)]
    pub fn side(self) -> usize {
        usize::from(self.0 & 3 != 0)
    }
    /// Its page.
    #[inline(always)]
    pub fn vpn(self) -> Vpn {
        Vpn(self.piece() >> (BASE_SHIFT - PIECE_SHIFT))
    }
}

impl std::fmt::Debug for Item {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:#x}", self.kind(), self.piece() << PIECE_SHIFT)
    }
}

/// Attribute bit that a kind of reference needs, by [`Item::kind_index`].
const NEEDS: [u8; 3] = [Attr::EXEC, Attr::READ, Attr::WRITE];

/// No line has this number; as the last line of a side: no reference may be skipped.
const NONE: u64 = u64::MAX;

/// From this item of a span on, the latest fetch of the running thread is that of this instruction (HW-6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetched {
    /// Index of the item.
    pub from: usize,
    /// Address of the instruction.
    pub pc: u64,
    /// Instructions fetched so far, in all threads (HW-8), this one among them.
    pub instructions: u64,
}

/// A machine of this family. Deterministic given its seed (XC-4).
pub trait System: Send {
    /// References of one address space, in program order, between two changes of the page table: each page is mapped,
    /// and the operating system has already served faults. Misses of the program go to the log.
    fn run(&mut self, asid: Asid, span: &[Item], table: &dyn PageTableView);

    /// The key and value for which it wants [`System::fetched`], if it does.
    fn needs_fetches(&mut self) -> Option<String> {
        None
    }

    /// The latest fetches of the span that comes next, in order, the first of them no later than the first item.
    fn fetched(&mut self, fetched: &[Fetched]) {
        let _ = fetched;
    }

    /// The mappings of these pages changed or were removed; `table` is the present one.
    fn changed(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView);

    /// The entries of TLBs for these pages are dropped; their mappings stay. Only machines that have TLBs act on it.
    fn flushed(&mut self, asid: Asid, pages: VpnRange) {
        let _ = (asid, pages);
    }

    /// A superpage or a range of these pages was split; the translations of its pages stay valid. Only machines that
    /// cache superpages or ranges act on it.
    fn demoted(&mut self, asid: Asid, pages: VpnRange) {
        let _ = (asid, pages);
    }

    /// These pages are mapped now, or in larger or smaller pages than before, for machines that keep tables of their
    /// own (PT-1).
    fn mapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView) {
        let _ = (asid, pages, table);
    }

    /// A reference to this page ends in a page fault: nothing maps it (PT-4).
    fn faulting(&mut self, asid: Asid, vpn: Vpn) {
        let _ = (asid, vpn);
    }

    /// Its TLB, if that must know what comes.
    fn foresees(&mut self) -> Option<&mut dyn Foresees> {
        None
    }

    /// Whether [`System::mapped`] matters to it.
    fn wants_maps(&mut self) -> bool {
        false
    }

    /// The segment registers of the process changed (DS13-24).
    fn segment_changed(&mut self, asid: Asid) {
        let _ = asid;
    }

    /// The address space is gone.
    fn gone(&mut self, asid: Asid);

    /// Another address space runs now.
    fn switch(&mut self, to: Asid);

    /// This thread of the running address space continues, for machines of several cores (XC-7).
    fn thread(&mut self, asid: Asid, thread: u32) {
        let _ = (asid, thread);
    }

    /// The references since the last call that needed a translation, in order.
    fn misses(&mut self) -> &mut Vec<Item>;

    /// log2 of the bytes of a first-level line.
    fn line_shift(&self) -> u32;

    /// The counts of a member of the family, by its place in it (0 if it is alone). `accesses`: first-level lines that
    /// fetches, and loads and stores, touched; the loop counts them, since it leaves out repetitions.
    fn counts(&self, member: usize, accesses: [u64; 2]) -> SystemCounts {
        let _ = (member, accesses);
        SystemCounts::default()
    }

    /// Translations that its TLBs have dropped for changes, as far as it is asked for flushes of whole systems.
    fn invalidations(&self) -> u64 {
        0
    }

    /// The counts that are kept by context of a whole system. Only TLBs with caches run those.
    fn context_counts(&self, lookups: u64) -> ContextCounts {
        ContextCounts { lookups, ..ContextCounts::default() }
    }

    /// The counts of a machine that is a TLB with caches, such as [`Mmu`], and has no others.
    fn mmu(&self, accesses: [u64; 2]) -> Option<(TlbCounts, CacheCounts)> {
        let _ = accesses;
        None
    }
}

/// Builds a machine from its keys, or a family of machines that differ in [`DIFFERENCE`] alone, ascending; `plain`:
/// without shortcuts. The error names key, value and what is allowed.
pub type Build = fn(family: &[&Params], plain: bool) -> Result<Box<dyn System>, String>;

/// A kind of machine as the registry knows it.
pub struct SystemKind {
    /// Value of the key `kind`.
    pub kind: &'static str,
    /// One line for display.
    pub about: &'static str,
    /// The keys it reads.
    pub keys: &'static [&'static Key],
    /// Builds it.
    pub build: Build,
    /// Whether it can be one of a family: [`FAMILY`] machines at most that differ in [`DIFFERENCE`] alone are then one
    /// [`System`].
    pub alike: fn(&Params) -> bool,
    /// Bytes its TLB maps when full; 0 without one.
    pub reach: fn(&Params) -> u64,
    /// What it counts by itself, by name in `counts.parts`, if it has the counts and the prices of a TLB with caches
    /// ([`System::mmu`]); none: it has [`System::counts`].
    pub parts: &'static [(&'static str, Counting)],
}

/// The counters of the part that a result of this machine names so; `None`: it has no such part.
pub fn counting(name: &str, params: &Params) -> Option<Counting> {
    let of_tlb = crate::tlb::counting(name, params);
    of_tlb.or_else(|| own_parts(params).iter().find(|(of, _)| *of == name).map(|(_, counting)| *counting))
}

/// The parts that a machine with caches counts by itself.
fn own_parts(params: &Params) -> &'static [(&'static str, Counting)] {
    let kind = params.has("kind").then(|| params.text("kind"));
    SYSTEMS.iter().find(|system| Some(system.kind) == kind).map_or(&[], |system| system.parts)
}

/// Whether a part is one of translation as a whole, so that its cycles are those of walks.
pub fn walks(name: &str, params: &Params) -> bool {
    [TABLE, HOST_TABLE].contains(&name) || own_parts(params).iter().any(|(of, _)| *of == name)
}

/// All kinds. A new one is one file and one line here.
pub const SYSTEMS: &[&SystemKind] =
    &[&softvm::SOFTVM, &softvm::SPUR, &softvm::VMP, &mips::MIPS, &x86::X86, &midgard::MIDGARD];
