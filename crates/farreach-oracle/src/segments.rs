//! Direct segments page by page, from the list SEG-1 to SEG-20 in the book's page on physical memory.
//!
//! What that list leaves to ordinary paging is in [`program`](crate::program), and:
//!
//! * OD-1 A page that is touched outside segments gets an ordinary frame at a page fault. Which one it gets is not
//!   modelled: the test says it ([`Truth`]), and the model checks that the frame is free and not of the pool. A frame
//!   is free when the last page table entry that names it is gone, at the end of the event.
//! * OD-2 Fork shares private pages until a store, which copies the page if another entry names its frame, and
//!   otherwise just takes it over.
//! * OD-3 A touch for which there is no frame changes nothing but the mapping of OG-4 and the count of its fault.

mod events;
mod pages;
mod shape;
mod windows;

use crate::program::{Programs, Space};
use farreach_types::counts::SegmentUse;
use farreach_types::event::Prot;
use std::collections::{BTreeMap, BTreeSet};

/// A system with direct segments.
#[derive(Clone, Debug)]
pub struct Config {
    /// All addresses of programs are below this page.
    pub pages: u64,
    /// Frames that are free when the system starts.
    pub open: BTreeSet<u64>,
    /// Frames set aside.
    pub pool: u64,
    /// Holes may lie in a stretch.
    pub eager: bool,
    pub primary: Primary,
    pub programs: Vec<String>,
    /// Pages that the primary region of an admitted process covers.
    pub admit: u64,
    pub emulation: bool,
    /// The child gets copies at fork.
    pub copy: bool,
    pub lend: bool,
}

/// Which private memory is eligible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Primary {
    All,
    Heap,
    /// Regions of at least this many pages.
    Large(u64),
}

/// Which ordinary frame a page of a process has now.
pub type Truth<'a> = &'a dyn Fn(u32, u64) -> Option<u64>;

/// Memory is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// What was counted beside [`SegmentUse`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub page_faults: u64,
    pub protection_faults: u64,
    /// Pages copied because two processes had them.
    pub cow_copies: u64,
    /// Pages copied that one process had.
    pub moved: u64,
}

/// A page table entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    pub frame: u64,
    pub cow: bool,
    /// It is the segment's.
    pub inside: bool,
}

/// The registers: first page, one past the last, first frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registers {
    pub base: u64,
    pub limit: u64,
    pub frame: u64,
}

impl Registers {
    fn frame_of(&self, page: u64) -> Option<u64> {
        (self.base <= page && page < self.limit).then(|| self.frame + page - self.base)
    }
    fn frames(&self) -> std::ops::Range<u64> {
        self.frame..self.frame + self.limit - self.base
    }
}

#[derive(Clone, Default)]
struct Process {
    registers: Option<Registers>,
    program: String,
    /// Processes until whose end this one is not admitted.
    barred_by: BTreeSet<u32>,
}

/// The model.
pub struct PlainSegments {
    config: Config,
    pool: BTreeSet<u64>,
    programs: Programs<Entry>,
    processes: BTreeMap<u32, Process>,
    used: SegmentUse,
    pub counts: Counts,
}

impl PlainSegments {
    pub fn new(config: Config) -> PlainSegments {
        let mut pool = BTreeSet::new();
        let end = config.open.last().map_or(0, |last| last + 1);
        // SEG-4: aligned blocks, the largest first.
        for size in (0..=16).rev().map(|order| 1u64 << order) {
            for base in (0..end).step_by(size as usize) {
                let fits = pool.len() as u64 + size <= config.pool;
                if fits && (base..base + size).all(|frame| config.open.contains(&frame) && !pool.contains(&frame)) {
                    pool.extend(base..base + size);
                }
            }
        }
        assert_eq!(pool.len() as u64, config.pool, "memory is too small for the pool");
        let (processes, used, counts) = Default::default();
        PlainSegments { config, pool, programs: Programs::new(false), processes, used, counts }
    }

    fn space(&mut self, process: u32) -> &mut Space<Entry> {
        self.programs.space(process)
    }

    fn process(&mut self, process: u32) -> &mut Process {
        self.processes.entry(process).or_default()
    }

    pub fn registers(&self, process: u32) -> Option<Registers> {
        self.processes.get(&process)?.registers
    }

    /// The registers of all processes that have a segment.
    fn all_registers(&self) -> impl Iterator<Item = (u32, Registers)> {
        self.processes.iter().filter_map(|(process, p)| Some((*process, p.registers?)))
    }

    pub fn entry(&self, process: u32, page: u64) -> Option<Entry> {
        self.programs.spaces.get(&process)?.table.get(&page).copied()
    }

    /// What the program may do with a mapped page.
    pub fn prot(&self, process: u32, page: u64) -> Option<Prot> {
        Some(self.programs.spaces.get(&process)?.pages.get(&page)?.prot)
    }

    /// All pages of a process that have entries.
    fn mapped(&self, process: u32) -> impl Iterator<Item = u64> {
        self.programs.spaces.get(&process).into_iter().flat_map(|space| space.table.keys().copied())
    }

    /// Frames that are free for anybody.
    pub fn free(&self) -> u64 {
        let used = self.named().keys().filter(|frame| !self.pool.contains(frame)).count();
        (self.config.open.len() - self.pool.len() - used) as u64
    }

    /// What segments did.
    pub fn segment_use(&self) -> SegmentUse {
        let (covered, inside) = self.in_segments();
        SegmentUse { unused_at_end_pages: covered - inside, ..self.used.clone() }
    }

    /// Pages between the registers of all processes, and those of them that are used.
    fn in_segments(&self) -> (u64, u64) {
        let covered = self.all_registers().map(|(_, r)| r.limit - r.base).sum();
        let inside = self.programs.entries().filter(|entry| entry.inside).count();
        (covered, inside as u64)
    }

    fn note(&mut self) {
        let (covered, inside) = self.in_segments();
        self.used.most_pages = self.used.most_pages.max(covered);
        self.used.most_used_pages = self.used.most_used_pages.max(inside);
        self.used.most_unused_pages = self.used.most_unused_pages.max(covered - inside);
    }

    /// How many entries and pages of shared memory name each frame.
    fn named(&self) -> BTreeMap<u64, usize> {
        let mut named = BTreeMap::new();
        for frame in self.programs.entries().map(|entry| entry.frame) {
            *named.entry(frame).or_insert(0) += 1;
        }
        for frame in self.programs.shared.values() {
            named.entry(*frame).or_insert(0);
        }
        named
    }

    /// An ordinary frame that a page got (OD-1).
    fn ordinary(&self, process: u32, page: u64, truth: Truth) -> u64 {
        let frame = truth(process, page).unwrap_or_else(|| panic!("process {process} page {page:#x} got no frame"));
        let free = self.config.open.contains(&frame) && !self.pool.contains(&frame);
        assert!(free && !self.named().contains_key(&frame), "process {process} page {page:#x} got frame {frame}");
        frame
    }

    /// SEG-19: a page is the segment's exactly if the registers cover it, and they say its frame.
    pub fn check(&self) {
        for (process, space) in &self.programs.spaces {
            for (page, entry) in &space.table {
                let frame = self.registers(*process).and_then(|r| r.frame_of(*page));
                assert_eq!(entry.inside, frame.is_some(), "process {process} page {page:#x}");
                assert!(frame.is_none_or(|frame| frame == entry.frame), "process {process} page {page:#x}");
            }
        }
    }
}
