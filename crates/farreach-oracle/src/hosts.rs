//! Hosts of virtual machines: walks in two dimensions, shadow paging (SHD) and agile paging (AGI), as maps and lists.
//!
//! The guest's table is a radix tree of what is mapped. The caller says what its system does: a fault maps a page,
//! pages are unmapped, split and joined, processes switch and end. A walk follows each miss of the TLBs.
//!
//! * OI-1 A merged entry is as small as the smaller of the guest's page and the host's, if TLB entries are
//!   (`host_fracture`); else as large as the guest's page. "Exists in it" (SHD-2): a merged entry lies in the page.
//! * OI-2 A fill builds all of the path at once: one trap. The references are those of the walk after it.
//! * OI-3 A first use that is a store to a clean page is one trap, the fill: the entry is built as modified.
//! * OI-4 A page is clean from its mapping until its first store. Splitting and joining pages keep that: a page that is
//!   split or joined is modified if it was, or if a part of it was. A page that is mapped otherwise is clean.
//! * OI-5 A fault maps one page and traps once, for the search that failed. What the guest then writes is new, so that
//!   it does not trap.
//! * OI-6 Splitting a page changes one entry. So does joining pages: the one above them, which exists in the merged
//!   table if one of them does. Joining leaves the walk caches as they are, as OM-6 does.
//! * OI-7 A process that ends takes its merged table along, without traps.
//! * OI-8 A node is there while a page lies below it, the root until its process ends. Writes to a node (AGI-2): an
//!   entry of a page is set, changed or cleared, or that of a node below it which comes or goes. Entries written before
//!   a node is in the tree are none, as those of a page that is split. A node that goes is forgotten.
//! * OI-9 Writes happen at the next walk of any process, and nodes change sides there alone. Two writes at t and u are
//!   within an epoch if u - t is at most the epoch; a node that was not written for longer goes back at the first walk
//!   through it, or at a write to it.
//! * OI-10 When a node goes nested, or goes back, all merged entries below it go, and so do the walk caches of the
//!   process, whose entries lead to the other table.
//! * OI-11 Nodes below one that is nested have their own history: when it goes back, those that were written lately
//!   stay nested.
//! * OI-12 A switch traps unless the root of the process that runs now is nested: the hypervisor need not follow it.
//!   The first process to run was not switched to.
//! * OI-13 An entry of the walk caches has the system address of the node it leads to: that node is read at once.
//! * OI-14 Nested from the root pointer is AGI-1's s = 0 with `agile_first=walk`.

mod nodes;
#[cfg(test)]
mod tests;
mod walk;

use crate::tables::book::Used;
use crate::tables::radix::{Radix, Shape};
use nodes::Written;
use std::collections::{BTreeMap, BTreeSet};

/// What translates the addresses of the guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostKind {
    /// Two dimensions.
    Walk,
    /// SHD.
    Shadow,
    /// AGI.
    Agile,
    /// AGI-1 with this number of shadowed levels from the top, for good: all is shadow paging.
    Top(u8),
}

/// A mistake, to check that tests notice it. Not part of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    FillNotCounted,
    FaultNotCounted,
    SwitchNotCounted,
    StoreCountedTwice,
    ChangeAlwaysTraps,
    SplitDoesNotTrap,
    JoinDoesNotTrap,
    MergedEntryStays,
    CleanAgainAtFill,
    /// The switching bit is a level too low.
    OneLevelLower,
    /// A node that went nested stays so.
    EpochNeverEnds,
    EpochOneLonger,
    OneWriteIsEnough,
    ThreeWritesNeeded,
    /// A node that rested and is written once stays nested.
    LateWriteKeepsNested,
    UpperWritesForgotten,
    NodeThatWentIsKnown,
    NestedFaultTraps,
    NestedKeepsMerged,
    NestedKeepsCaches,
    FirstNodeTranslated,
    PageNotTranslated,
    CachedNodeTranslated,
}

impl Mistake {
    /// All of them.
    pub const ALL: &[Mistake] = &[
        Mistake::FillNotCounted,
        Mistake::FaultNotCounted,
        Mistake::SwitchNotCounted,
        Mistake::StoreCountedTwice,
        Mistake::ChangeAlwaysTraps,
        Mistake::SplitDoesNotTrap,
        Mistake::JoinDoesNotTrap,
        Mistake::MergedEntryStays,
        Mistake::CleanAgainAtFill,
        Mistake::OneLevelLower,
        Mistake::EpochNeverEnds,
        Mistake::EpochOneLonger,
        Mistake::OneWriteIsEnough,
        Mistake::ThreeWritesNeeded,
        Mistake::LateWriteKeepsNested,
        Mistake::UpperWritesForgotten,
        Mistake::NodeThatWentIsKnown,
        Mistake::NestedFaultTraps,
        Mistake::NestedKeepsMerged,
        Mistake::NestedKeepsCaches,
        Mistake::FirstNodeTranslated,
        Mistake::PageNotTranslated,
        Mistake::CachedNodeTranslated,
    ];
}

/// Keys of the machine.
#[derive(Clone, Copy, Debug)]
pub struct HostConfig {
    /// `host`.
    pub kind: HostKind,
    /// Levels of the guest's table and of the merged one.
    pub levels: u8,
    /// Levels of the host's table.
    pub host_levels: u8,
    /// Order of the host's pages.
    pub host_order: u8,
    /// Whether merged entries are no larger than the host's pages.
    pub fracture: bool,
    /// Entries of the walk caches: level 2 first.
    pub caches: [usize; 4],
    /// Whether these know processes.
    pub process_ids: bool,
    /// `agile_epoch`, in instructions.
    pub epoch: u64,
    /// `agile_first=walk`.
    pub first_walked: bool,
    /// What is wrong.
    pub mistake: Option<Mistake>,
}

impl Default for HostConfig {
    fn default() -> HostConfig {
        HostConfig {
            kind: HostKind::Walk,
            levels: 4,
            host_levels: 4,
            host_order: 0,
            fracture: true,
            caches: [0; 4],
            process_ids: true,
            epoch: 100_000_000,
            first_walked: false,
            mistake: None,
        }
    }
}

/// References of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Walked {
    /// Of the guest's table and the merged one.
    pub own: u64,
    /// Of the host's.
    pub host: u64,
    /// Walks of the host's table.
    pub host_walks: u64,
}

/// Traps by kind (SHD-2), and nodes that changed sides (AGI-2).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Traps {
    pub fills: u64,
    pub changes: u64,
    pub faults: u64,
    pub switches: u64,
    pub first_stores: u64,
    pub went_nested: u64,
    pub went_back: u64,
}

impl Traps {
    /// Of all kinds.
    pub fn sum(&self) -> u64 {
        self.fills + self.changes + self.faults + self.switches + self.first_stores
    }
}

/// A process and the first page of a mapping.
type Page = (u32, u64);
/// A node: process, level, page div its span.
type Node = (u32, u8, u64);

/// A virtual machine with its host.
pub struct Hosts {
    config: HostConfig,
    guest: Radix,
    /// Merged entries: their order.
    merged: BTreeMap<Page, u8>,
    modified: BTreeSet<Page>,
    written: BTreeMap<Node, Written>,
    /// Writes since the last walk.
    pending: Vec<Node>,
    running: Option<u32>,
    caches: Vec<Used<Node>>,
    now: u64,
    /// What was counted.
    pub traps: Traps,
}

impl Hosts {
    /// Without processes.
    pub fn new(config: HostConfig) -> Hosts {
        Hosts {
            guest: Radix::new(Shape::plain(config.levels)),
            merged: BTreeMap::new(),
            modified: BTreeSet::new(),
            written: BTreeMap::new(),
            pending: Vec::new(),
            running: None,
            caches: config.caches.map(Used::new).into(),
            now: 0,
            traps: Traps::default(),
            config,
        }
    }

    /// Instructions so far.
    pub fn at(&mut self, now: u64) {
        self.now = now;
    }

    fn wrong(&self, mistake: Mistake) -> bool {
        self.config.mistake == Some(mistake)
    }

    /// Whether there is a hypervisor to trap into.
    fn traps(&self) -> bool {
        self.config.kind != HostKind::Walk
    }

    /// First page and order of the guest's page.
    pub fn page(&self, asid: u32, vpn: u64) -> Option<(u64, u8)> {
        self.guest.pages.order(asid, vpn).map(|order| (vpn >> order << order, order))
    }

    /// First pages and orders of what maps these pages.
    pub fn pages(&self, asid: u32, first: u64, pages: u64) -> Vec<(u64, u8)> {
        let mut all: Vec<_> = self.page(asid, first).into_iter().collect();
        all.extend(self.guest.pages.within(asid, first, pages).into_iter().filter(|page| page.0 != first));
        all
    }

    fn forget(&mut self, asid: u32) {
        self.caches.iter_mut().for_each(|cache| cache.drop_if(|held| held.0 == asid));
    }

    /// Drops merged entries. Whether there were any.
    fn drop_merged(&mut self, asid: u32, first: u64, pages: u64) -> bool {
        let inside = self.merged.range((asid, first)..(asid, first + pages));
        let all: Vec<Page> = inside.map(|(key, _)| *key).collect();
        all.iter().for_each(|key| _ = self.merged.remove(key));
        !all.is_empty()
    }

    /// An entry of a page, or of a node above pages, changes: it traps if it exists in the merged table.
    fn change(&mut self, asid: u32, first: u64, order: u8) {
        let existed = self.merged.range((asid, first)..(asid, first + (1 << order))).next().is_some();
        if !self.wrong(Mistake::MergedEntryStays) {
            self.drop_merged(asid, first, 1 << order);
        }
        if self.traps() && (existed || self.wrong(Mistake::ChangeAlwaysTraps)) {
            self.traps.changes += 1;
        }
    }

    /// The guest faults at a page, and maps it: a page of this order, which overlaps no other.
    pub fn fault(&mut self, asid: u32, first: u64, order: u8) {
        let nested = self.first_nested(asid, first).is_some();
        if self.traps() && (!nested || self.wrong(Mistake::NestedFaultTraps)) && !self.wrong(Mistake::FaultNotCounted) {
            self.traps.faults += 1;
        }
        self.add(asid, first, order);
    }

    /// A page is mapped that overlaps no other, without a fault.
    pub fn add(&mut self, asid: u32, first: u64, order: u8) {
        let before = self.nodes(asid, first, None);
        self.guest.add(asid, first, order);
        self.modified.remove(&(asid, first));
        self.write_path(asid, first, order, &before);
    }

    /// A mapped page is mapped no more.
    pub fn unmap(&mut self, asid: u32, first: u64) {
        let (_, order) = self.page(asid, first).expect("it is mapped");
        self.change(asid, first, order);
        let before = self.nodes(asid, first, Some(order));
        self.guest.take(asid, first, order);
        self.modified.remove(&(asid, first));
        self.clear_path(asid, first, &before);
        self.forget(asid);
    }

    /// A page is mapped otherwise, in the same size.
    pub fn alter(&mut self, asid: u32, first: u64) {
        let (_, order) = self.page(asid, first).expect("it is mapped");
        self.change(asid, first, order);
        self.modified.remove(&(asid, first));
        self.write((asid, order / 9 + 1, first >> (order + 9)));
        self.forget(asid);
    }

    /// A superpage becomes 512 pages in its place.
    pub fn split(&mut self, asid: u32, first: u64) {
        let (_, order) = self.page(asid, first).expect("it is mapped");
        if self.wrong(Mistake::SplitDoesNotTrap) {
            self.drop_merged(asid, first, 1 << order);
        }
        self.change(asid, first, order);
        let parts = (0..512).map(|i| first + (i << (order - 9)));
        let modified = self.modified.remove(&(asid, first));
        self.guest.take(asid, first, order);
        for part in parts {
            self.guest.add(asid, part, order - 9);
            if modified {
                self.modified.insert((asid, part));
            }
        }
        self.write((asid, order / 9 + 1, first >> (order + 9)));
        self.forget(asid);
    }

    /// All 512 pages of this order in a row become one.
    pub fn join(&mut self, asid: u32, first: u64, order: u8) {
        let parts: Vec<u64> = (0..512).map(|i| first + (i << order)).collect();
        let large = order + 9;
        if self.wrong(Mistake::JoinDoesNotTrap) {
            self.drop_merged(asid, first, 1 << large);
        }
        self.change(asid, first, large);
        let modified = parts.iter().filter(|part| self.modified.remove(&(asid, **part))).count() > 0;
        parts.iter().for_each(|part| _ = self.guest.take(asid, *part, order));
        self.node_goes((asid, order / 9 + 1, first >> large));
        self.guest.add(asid, first, large);
        if modified {
            self.modified.insert((asid, first));
        }
        self.write((asid, large / 9 + 1, first >> (large + 9)));
    }

    /// A process ends.
    pub fn gone(&mut self, asid: u32) {
        self.guest.end(asid);
        self.merged.retain(|key, _| key.0 != asid);
        self.modified.retain(|key| key.0 != asid);
        self.written.retain(|key, _| key.0 != asid);
        self.pending.retain(|node| node.0 != asid);
        self.forget(asid);
    }

    /// Another process runs.
    pub fn switch(&mut self, to: u32) {
        let other = self.running.replace(to).is_some_and(|before| before != to);
        let nested = self.nested((to, self.config.levels, 0));
        if self.traps() && other && !nested && !self.wrong(Mistake::SwitchNotCounted) {
            self.traps.switches += 1;
        }
        if !self.config.process_ids {
            self.caches.iter_mut().for_each(|cache| cache.drop_if(|_| true));
        }
    }
}
