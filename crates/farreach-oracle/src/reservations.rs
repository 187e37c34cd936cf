//! Two policies that reserve a superpage's frames at a page's first fault: Navarro et al. ([`navarro`], NAV) and
//! FreeBSD ([`freebsd`], FBR), and what both need ([`World`]): objects, mappings, page tables, free frames, and the
//! invariants of OSC-5, checked after every event.
//!
//! Where the rules are silent, for both:
//!
//! * OJ-1 Frames: free blocks as in OH-2 by address, of every size that the memory has room for.
//! * OJ-2 An object's page loses its frame when nothing maps it any more; of a file or of shared memory, when nothing
//!   maps any page of it. There is no reclaim, so no file stays in memory unmapped. Frames are freed by object, then
//!   by page, ascending. Afterwards the growing end of an object is where its mappings end.
//! * OJ-3 An event concerns a superpage if its range covers a part of it. What it covers wholly is not demoted. Rights
//!   that are the same before and after concern nothing. Protection promotes nothing.
//! * OJ-4 `faults` are touches of pages without a leaf, `write_faults` stores through a leaf that is not writable; both
//!   count only if a frame was found. Without one the touch fails, but what was broken for it stays so.
//! * OJ-5 Not modelled: accessed bits (nothing clears them, so every leaf has its own), contents, prices, and TLBs.
//!
//! For NAV: OJ-10 to OJ-19, for FBR: OJ-20 to OJ-32, at the head of each. Quicksilver (QKS) is FreeBSD with more:
//! [`freebsd::quicksilver`], OJ-33 to OJ-37.

pub mod freebsd;
pub mod navarro;
#[cfg(test)]
mod tests;
mod world;

pub use world::World;

use crate::frames::{Lists, joined};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Rights, as bits.
pub const READ: u8 = 1;
/// The right to store.
pub const WRITE: u8 = 2;
/// The right to fetch.
pub const EXEC: u8 = 4;

/// What memory an object is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Private memory without a file; its mappings are private, too.
    Anonymous,
    /// Memory without a file that processes share.
    Shared,
    /// With a backing file.
    File,
}

/// Whether an object has a fixed size (NAV-2 b), and at which end it grows otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grows {
    /// Fixed.
    No,
    /// As a heap.
    Up,
    /// As a stack.
    Down,
}

/// An object: numbered pages, some of which have frames.
#[derive(Clone, Debug)]
pub struct Object {
    /// What memory it is.
    pub kind: Kind,
    /// Its size is fixed or not.
    pub grows: Grows,
    /// Its pages now.
    pub pages: Range<u64>,
    /// Pages that have frames.
    pub resident: BTreeMap<u64, Resident>,
    /// Where pages come from that it has not copied (FBR-10).
    pub backing: Option<usize>,
    /// Makes pages congruent with the addresses of the first mapping (FBR-2).
    pub colour: Option<u64>,
}

/// What a page of an object has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resident {
    /// Its frame.
    pub frame: u64,
    /// Was stored to, by anyone (FBR-8).
    pub dirty: bool,
}

/// Pages of an object in a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Whose.
    pub process: u32,
    /// First virtual page.
    pub vpn: u64,
    /// Of which object; of several, the one that hides pages of the others (FBR-10).
    pub object: usize,
    /// Which pages of it.
    pub pages: Range<u64>,
    /// Bits of [`READ`], [`WRITE`] and [`EXEC`].
    pub rights: u8,
    /// Stores are seen by this process only.
    pub private: bool,
    /// The next store must first get an object of its own (FBR-10).
    pub copies: bool,
}

/// An entry of a page table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// First frame.
    pub frame: u64,
    /// log2 of its pages.
    pub order: u32,
    /// Those of the mapping.
    pub rights: u8,
    /// The hardware lets stores pass.
    pub writable: bool,
    /// D.
    pub dirty: bool,
}

/// Pages of an object that own an extent of frames (NAV-1, FBR-4).
#[derive(Clone, Debug)]
pub struct Reservation {
    /// Whose.
    pub object: usize,
    /// First page.
    pub first: u64,
    /// Pages.
    pub size: u64,
    /// First frame.
    pub frame: u64,
    /// Pages that have theirs.
    pub used: BTreeSet<u64>,
    /// Of the last allocation (NAV-1), or of the last move in the queue (FBR-5).
    pub time: u64,
}

/// A touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Needs [`READ`].
    Load,
    /// Needs [`WRITE`].
    Store,
    /// Needs [`EXEC`].
    Fetch,
}

/// What the process ran into (OJ-4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A leaf that served.
    None,
    /// No leaf.
    Missing,
    /// A leaf that is not writable.
    Write,
}

/// What a touch found, or made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touched {
    /// Of the page.
    pub frame: u64,
    /// log2 of the pages of the leaf that maps it.
    pub order: u32,
    /// How it came.
    pub fault: Fault,
}

/// Why there is no frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failed {
    /// No mapping.
    Unmapped,
    /// The mapping's rights forbid it.
    Denied,
    /// No frame is free, and nothing can be taken back.
    Full,
}

/// What both policies make of events that concern a range, in terms of what each does for a superpage, a page and a leaf.
pub trait Policy {
    /// Objects, mappings, page tables, frames.
    fn world(&mut self) -> &mut World;
    /// One step of demotion of the superpage that begins here.
    fn demote(&mut self, process: u32, first: u64);
    /// A page of an object loses its frame.
    fn free(&mut self, object: usize, page: u64);
    /// The leaf that begins here gets other rights.
    fn change_rights(&mut self, process: u32, first: u64, rights: u8);
    /// Panics where an invariant is broken.
    fn verify(&self);
    /// Maps pages of an object, where nothing is mapped.
    fn map(&mut self, process: u32, vpn: u64, object: usize, pages: Range<u64>, rights: u8);
    /// A process touches a page.
    ///
    /// # Errors
    ///
    /// If it may not, or no frame is left.
    fn touch(&mut self, process: u32, vpn: u64, access: Access) -> Result<Touched, Failed>;

    /// A new object with these pages; its number.
    fn object(&mut self, kind: Kind, grows: Grows, pages: Range<u64>) -> usize {
        self.world().object(kind, grows, pages)
    }

    /// Unmaps all that a process maps in a range (NAV-8, FBR-9, OJ-2).
    fn unmap(&mut self, process: u32, range: Range<u64>) {
        assert!(!range.is_empty(), "{range:?}");
        while let Some(first) = self.world().straddler(process, &range, None) {
            self.demote(process, first);
        }
        for (object, page) in self.world().detach(process, &range) {
            self.free(object, page);
        }
        self.verify();
    }

    /// A process ends.
    fn exit(&mut self, process: u32) {
        self.unmap(process, 0..u64::MAX);
    }

    /// All that a process maps in a range gets these rights (NAV-8, FBR-9, OJ-3, OJ-26).
    fn protect(&mut self, process: u32, range: Range<u64>, rights: u8) {
        assert!(!range.is_empty(), "{range:?}");
        while let Some(first) = self.world().straddler(process, &range, Some(rights)) {
            self.demote(process, first);
        }
        let world = self.world();
        world.cut(process, &range);
        world.mappings_in(process, &range).for_each(|mapping| mapping.rights = rights);
        world.merge();
        for first in world.leaves_in(process, &range) {
            self.change_rights(process, first, rights);
        }
        self.verify();
    }
}

/// The aligned run of `size` pages around one.
fn group(page: u64, size: u64) -> Range<u64> {
    let first = page - page % size;
    first..first + size
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

fn inside(a: &Range<u64>, b: &Range<u64>) -> bool {
    b.start <= a.start && a.end <= b.end
}

impl Access {
    fn right(self) -> u8 {
        match self {
            Access::Load => READ,
            Access::Store => WRITE,
            Access::Fetch => EXEC,
        }
    }
}

impl Mapping {
    /// Its virtual pages.
    pub fn vpns(&self) -> Range<u64> {
        self.vpn..self.vpn + (self.pages.end - self.pages.start)
    }

    /// The object's page behind a virtual page.
    pub fn page(&self, vpn: u64) -> u64 {
        self.pages.start + (vpn - self.vpn)
    }

    fn part(&self, vpns: &Range<u64>) -> Mapping {
        Mapping { vpn: vpns.start, pages: self.page(vpns.start)..self.page(vpns.end), ..self.clone() }
    }
}

impl Reservation {
    /// Its pages.
    pub fn pages(&self) -> Range<u64> {
        self.first..self.first + self.size
    }

    /// Its frames.
    pub fn frames(&self) -> Range<u64> {
        self.frame..self.frame + self.size
    }

    /// Every page has its frame.
    pub fn full(&self) -> bool {
        self.used.len() as u64 == self.size
    }

    fn frame_of(&self, page: u64) -> u64 {
        self.frame + (page - self.first)
    }
}
