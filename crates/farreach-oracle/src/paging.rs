//! Ordinary paging with plain frames: what the models of huge pages and of eager paging have in common.
//!
//! * OP-1 A page that is touched and has no entry gets a frame at a page fault: that of its page of shared memory or of
//!   a file if there is one, otherwise the next. A touch for which there is no frame changes nothing but the mapping of
//!   OG-4 and the count of its fault.
//! * OP-2 A frame is free again when no entry names it and no shared memory keeps it, at the end of the event, or of
//!   the fault.
//! * OP-3 Fork shares private pages until a store. The store copies the page if another entry names its frame, and
//!   otherwise just takes it over. Either is a protection fault.
//! * OP-4 Private mappings of files are not modelled.

use crate::frames::Frames;
use crate::program::{Name, Page, Programs, Space};
use farreach_types::event::{Kind, Op, Prot};
use farreach_types::translation::Attr;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The frame of pages of zeros that all processes share (LNX-4). It is none of memory.
pub const ZEROS: u64 = u64::MAX;

/// A page table entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    pub frame: u64,
    /// A store must ask for the page first.
    pub cow: bool,
    /// log2 of the pages of its superpage.
    pub order: u32,
    /// Its range was dissolved.
    pub loose: bool,
    /// A (OSC-2). Models set it as they say; a fault, a fork or a collapse alone does not.
    pub young: bool,
}

impl Entry {
    pub fn base(frame: u64) -> Entry {
        Entry { frame, cow: false, order: 0, loose: false, young: false }
    }

    /// A page of zeros: a store must ask for a page of memory.
    pub fn zeros() -> Entry {
        Entry { cow: true, ..Entry::base(ZEROS) }
    }

    pub fn is_zeros(&self) -> bool {
        self.frame == ZEROS
    }

    /// What hardware may do with the page.
    pub fn attr(&self, prot: Prot) -> Attr {
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        let write = bit(prot.write && !self.cow, Attr::WRITE);
        Attr(bit(prot.read, Attr::READ) | write | bit(prot.exec, Attr::EXEC))
    }
}

/// Memory is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// What was counted, as in the counts of a system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub page_faults: u64,
    pub protection_faults: u64,
    pub cow_copies: u64,
    pub zeroed_pages: u64,
    pub populated_pages: u64,
    pub superpage_faults: u64,
    pub superpage_fallbacks: u64,
    pub collapses: u64,
    pub gathered_pages: u64,
    pub demotions: u64,
    pub huge_rest_pages: u64,
    pub eager_requests: u64,
    pub eager_pages: u64,
    pub eager_refused: u64,
    pub eager_missing: u64,
}

/// A model whose memory is this one.
pub trait Model {
    fn paging(&self) -> &Paging;
    /// An event of a process.
    fn apply(&mut self, process: u32, op: &Op);
    /// A reference of a process.
    fn touch(&mut self, process: u32, page: u64, kind: Kind) -> Result<(), Full>;
    /// An event of a process, or what the kernel stores for it: that is as a store of its own, page by page, and sets
    /// A.
    fn event(&mut self, process: u32, op: &Op) -> Result<(), Full> {
        match op {
            Op::KernelStore { start, len } => (start >> 12..=(start + len - 1) >> 12).try_for_each(|page| {
                self.touch(process, page, Kind::Store)?;
                self.reached(process, page);
                Ok(())
            }),
            op => {
                self.apply(process, op);
                Ok(())
            }
        }
    }
    /// A walk filled an entry (OSC-2).
    fn walked(&mut self, process: u32, page: u64) {
        let _ = (process, page);
    }
    /// The kernel reached a page of a process: A is set as by a walk, and nothing measures it.
    fn reached(&mut self, process: u32, page: u64) {
        self.walked(process, page);
    }
    /// When it works by itself next (OSC-1).
    fn due(&self) -> u64 {
        u64::MAX
    }
    /// It is this late: work that is due is done.
    fn advance(&mut self, now: u64) {
        let _ = now;
    }
    /// What only its policy counts, by name.
    fn own(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Programs, frames, and what was counted.
pub struct Paging {
    pub programs: Programs<Entry>,
    pub frames: Frames,
    /// Frames with contents.
    busy: BTreeSet<u64>,
    /// Frames that were stored to since they were zeroed (OSC-3), in models that look at contents.
    pub stored: BTreeSet<u64>,
    /// The node of the thread that runs, and those on which frames got their contents, in models with nodes (CLP-1).
    pub node: u64,
    pub nodes: BTreeMap<u64, u64>,
    pub counts: Counts,
}

impl Paging {
    pub fn new(frames: Frames, merges: bool) -> Paging {
        let (busy, stored, node, nodes, counts) = Default::default();
        Paging { programs: Programs::new(merges), frames, busy, stored, node, nodes, counts }
    }

    pub fn space(&mut self, process: u32) -> &mut Space<Entry> {
        self.programs.space(process)
    }

    pub fn entry(&self, process: u32, page: u64) -> Option<Entry> {
        self.programs.spaces.get(&process)?.table.get(&page).copied()
    }

    pub fn page(&self, process: u32, page: u64) -> Option<Page> {
        self.programs.spaces.get(&process)?.pages.get(&page).copied()
    }

    /// Entries that name a frame.
    pub fn names(&self, frame: u64) -> usize {
        self.programs.entries().filter(|entry| entry.frame == frame).count()
    }

    /// Maps a page. Its frame has contents from now on.
    pub fn enter(&mut self, process: u32, page: u64, entry: Entry) {
        if self.busy.insert(entry.frame) {
            self.nodes.insert(entry.frame, self.node);
        }
        self.space(process).table.insert(page, entry);
    }

    /// Whether a frame has contents.
    pub fn busy(&self, frame: u64) -> bool {
        self.busy.contains(&frame)
    }

    /// log2 of the frames that move together with one that has a page: those of the largest superpage that names it.
    /// None for what cannot be moved: a frame without a page, or of memory of the kernel.
    pub fn movable(&self, frame: u64) -> Option<u32> {
        let mut order = self.programs.shared.values().any(|of| *of == frame).then_some(0);
        for space in self.programs.spaces.values() {
            for (page, entry) in space.table.iter().filter(|(_, entry)| entry.frame == frame) {
                if space.pages[page].name == Name::Kernel {
                    return None;
                }
                order = order.max(Some(entry.order));
            }
        }
        order
    }

    /// Pages get other frames, with their contents: those of `from` the ones from `to` on, and the other way round.
    pub fn move_frames(&mut self, from: Range<u64>, to: u64) {
        let count = from.end - from.start;
        let moved = |frame: u64| match frame {
            _ if from.contains(&frame) => to + (frame - from.start),
            _ if (to..to + count).contains(&frame) => from.start + (frame - to),
            _ => frame,
        };
        let entries = self.programs.spaces.values_mut().flat_map(|space| space.table.values_mut());
        entries.for_each(|entry| entry.frame = moved(entry.frame));
        self.programs.shared.values_mut().for_each(|frame| *frame = moved(*frame));
        self.busy = self.busy.iter().map(|frame| moved(*frame)).collect();
        self.stored = self.stored.iter().map(|frame| moved(*frame)).collect();
    }

    /// OP-1, for a page that is mapped.
    pub fn base_page(&mut self, process: u32, page: u64) -> Result<(), Full> {
        let known = self.page(process, page).expect("it is mapped");
        let key = (known.mapping, known.index);
        let frame = match self.programs.shared.get(&key).filter(|_| !known.private()) {
            Some(frame) => *frame,
            None => {
                let frame = self.frames.one().ok_or(Full)?;
                self.counts.zeroed_pages += u64::from(known.name != Name::File);
                if !known.private() {
                    self.programs.shared.insert(key, frame);
                }
                frame
            }
        };
        self.enter(process, page, Entry::base(frame));
        Ok(())
    }

    /// OP-3.
    pub fn fork(&mut self, process: u32, child: u32) {
        let space = self.space(process);
        for (page, entry) in space.table.iter_mut().filter(|(page, _)| space.pages[page].private()) {
            // A page that loses its right to be written is one like any other again.
            entry.loose &= entry.cow || !space.pages[page].prot.write;
            entry.cow = true;
        }
        self.programs.fork(process, child);
        let entries = self.space(child).table.values_mut();
        entries.for_each(|entry| (entry.loose, entry.young) = (false, false));
    }

    /// OP-2: the frames that are free again.
    pub fn collect(&mut self) -> Vec<u64> {
        self.programs.forget_shared();
        let mut needed: BTreeSet<u64> = self.programs.entries().map(|entry| entry.frame).collect();
        needed.extend(self.programs.shared.values());
        let freed: Vec<u64> = self.busy.difference(&needed).copied().filter(|frame| *frame != ZEROS).collect();
        freed.iter().for_each(|frame| _ = self.stored.remove(frame));
        self.busy = needed;
        freed
    }
}
