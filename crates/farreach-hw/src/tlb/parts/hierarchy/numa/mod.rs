//! Page tables on a machine whose memory has nodes (NUMA): on which node each page of the page table lies, and on which
//! there are copies of it (OS-MIT, OS-NPT). A walker reads the copy of its node if there is one; a reference to another
//! node takes longer. A file for each placement, and a line in the registry at the end of this one. `numa_tables`
//! chooses it.
//!
//! TLBs hold what they hold without nodes: only the prices of walks, the work on page tables, and with `on_demand` the
//! cores that a shootdown interrupts depend on it.

mod away;
mod check;
mod first_touch;
mod on_demand;
mod replicated;
#[cfg(test)]
mod tests;
mod tree;

pub(in crate::tlb) use check::check;

use super::cores::CORES;
use crate::tlb::parts::additions::{Counter, Law};
use crate::tlb::parts::tables::{Held, Mapping};
use farreach_types::addr::{Asid, Vpn, VpnRange, owner};
use farreach_types::counts::{OwnCounts, TlbCounts};
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::PageTableView;
use std::sync::{Arc, Mutex, MutexGuard};
use tree::{PageId, TablePage, Tree};

/// Where the pages of page tables lie.
pub const NUMA_TABLES: Key = Key {
    name: "numa_tables",
    default: NAMES[0],
    allowed: Allowed::OneOf(&NAMES),
    about: "nodes of memory on which page tables lie: none: there is one node; that of the core that first needed the \
            page; away from all cores; copies on all nodes (Mitosis); copies of what a node walks (numaPTE)",
};
/// Nodes of memory.
pub(super) const NODES: Key = Key {
    name: "numa_nodes",
    default: "2",
    allowed: Allowed::Int { min: 2, max: 64 },
    about: "nodes of memory, each with as many of the cores",
};
/// Assumed: the difference between memory of two sockets.
const REMOTE_CYCLES: Key = Key {
    name: "numa_remote_cycles",
    default: "100",
    allowed: Allowed::Number { min: 0.0, max: 1e12 },
    about: "cycles by which memory of another node takes longer to answer a walker",
};
/// Assumed: a fault that finds all in memory.
const LIGHT_FAULT_CYCLES: Key = Key {
    name: "numa_light_fault_cycles",
    default: "1000",
    allowed: Allowed::Number { min: 0.0, max: 1e12 },
    about: "cycles of a fault that copies entries of the page table from another node",
};
/// Assumed: a store to memory of another node, with the way to find the copy.
const WRITE_CYCLES: Key = Key {
    name: "numa_write_cycles",
    default: "100",
    allowed: Allowed::Number { min: 0.0, max: 1e12 },
    about: "cycles of writing an entry to one more copy of the page table",
};

/// Nodes, and all prices: a placement counts what it does not do as 0.
const COMMON_KEYS: &[&Key] = &[&NODES, &REMOTE_CYCLES, &WRITE_CYCLES, &LIGHT_FAULT_CYCLES];

/// The name of the part with the references of walkers.
pub const READS: &str = "numa";
/// The name of the part with the work of the operating system.
pub const COPIES: &str = "table_copies";

/// Places in [`READ_COUNTERS`].
const LOCAL: usize = 0;
const REMOTE: usize = 1;
const REMOTE_MEMORY: usize = 2;
/// References of demand walks by node.
pub const READ_COUNTERS: &[Counter] = &[
    Counter::new("local_references", "references of walkers to pages of the table on their node"),
    Counter::new("remote_references", "references of walkers to pages of the table on another node"),
    Counter {
        price: Some(&REMOTE_CYCLES),
        ..Counter::new("remote_memory", "of these, those that memory answered; with fixed prices all")
    },
];

/// Laws of these counts.
pub const LAWS: &[Law] = &[Law {
    name: "OS-MIT-4",
    sides: |part, counts| {
        let of_nodes = part.counters.get(READ_COUNTERS[LOCAL].name) + part.counters.get(READ_COUNTERS[REMOTE].name);
        (of_nodes, counts.walk_references())
    },
}];

/// Places in [`COPY_COUNTERS`].
const PAGES: usize = 0;
const PAGE_COPIES: usize = 1;
const WRITES: usize = 2;
const REPLICA_WRITES: usize = 3;
const LIGHT_FAULTS: usize = 4;
const COPIED: usize = 5;
/// Work on page tables (OSC-4). With other placements than `on_demand` the last two stay 0.
pub const COPY_COUNTERS: &[Counter] = &[
    Counter::new("pt_pages", "pages of page tables made, with copies"),
    Counter::new("pt_copies", "of these, copies beyond the first"),
    Counter::new("pt_writes", "entries of page tables written, in all copies"),
    Counter {
        price: Some(&WRITE_CYCLES),
        ..Counter::new("replica_writes", "of these, those to copies beyond the first")
    },
    Counter {
        price: Some(&LIGHT_FAULT_CYCLES),
        ..Counter::new("light_faults", "walks that found nothing in the copy of their node")
    },
    Counter {
        price: Some(&WRITE_CYCLES),
        ..Counter::new("copied_entries", "entries that were copied to a node which needed them")
    },
];

/// Sets of nodes, as bits.
type NodeSet = u64;

/// What a placement decides.
trait Placement: Send {
    /// A page of the table is needed first on this node. Which node has its first copy, if any, and which have copies.
    fn made(&self, by: u8) -> (Option<u8>, NodeSet);
    /// The copies that have the leaf with this index in its page.
    fn holders(&self, _id: PageId, _index: u16, page: &TablePage) -> NodeSet {
        page.copies
    }
    /// A leaf was entered, by a thread on this node.
    fn entered(&mut self, _id: PageId, _index: u16, _page: &TablePage, _by: u8) {}
    /// A leaf was cleared.
    fn cleared(&mut self, _id: PageId, _index: u16) {}
    /// The page of the table was freed.
    fn freed(&mut self, _id: PageId) {}
    /// A walk on this node for a leaf that its copy lacks brings this number of leaves to it (OS-NPT-1); `None`: it
    /// lacks nothing.
    fn fetched(&mut self, _id: PageId, _index: u16, _page: &TablePage, _node: u8) -> Option<u64> {
        None
    }
    /// Whether nodes get copies of pages as they need them: a node without one has no translations by it.
    fn copies_on_demand(&self) -> bool {
        false
    }
}

/// A placement as the registry knows it.
pub struct Listed {
    /// Value of [`NUMA_TABLES`].
    pub name: &'static str,
    /// One line for display.
    pub about: &'static str,
    /// Its keys, with the prices of what it counts.
    pub keys: &'static [&'static Key],
    build: fn(&Params) -> Result<Box<dyn Placement>, String>,
}

/// All placements but `none`. A new one is a file, and a line here and among the names below.
pub const PLACEMENTS: &[&Listed] = &[&first_touch::LISTED, &away::LISTED, &replicated::LISTED, &on_demand::LISTED];
const NAMES: [&str; 5] = ["none", "first_touch", "away", "replicated", "on_demand"];

fn listed(name: &str) -> Option<&'static Listed> {
    PLACEMENTS.iter().copied().find(|listed| listed.name == name)
}

/// The keys of a placement, with those of its prices.
pub fn keys(name: &str) -> Option<&'static [&'static Key]> {
    listed(name).map(|listed| listed.keys)
}

/// The placement that a machine has; `None`: its memory is one node.
pub fn chosen(params: &Params) -> Option<&'static Listed> {
    let name = params.has(NUMA_TABLES.name).then(|| params.text(NUMA_TABLES.name))?;
    listed(name)
}

/// The page tables of all processes, and where their pages lie. The cores share it.
pub(in crate::tlb) struct Numa {
    held: Held,
    tree: Tree,
    cores_of_node: usize,
    reads: OwnCounts,
    /// Mappings that were found to be gone before the change which invalidates them was told, with the nodes that may
    /// have translations. Changes are told after all of them were made.
    gone: Vec<(Mapping, NodeSet)>,
    /// Whether pages of the table that have become empty are freed with the changes that come now.
    freeing: bool,
    /// The places of its counters.
    parts: [usize; 2],
}

/// The tables, as cores have them.
#[derive(Clone)]
pub(in crate::tlb) struct Handle(Arc<Mutex<Numa>>);

impl Handle {
    /// For a machine, with its counters; `None`: its memory is one node.
    pub fn new(params: &Params, levels: u8, counts: &mut TlbCounts) -> Result<Option<Handle>, String> {
        let Some(listed) = chosen(params) else { return Ok(None) };
        let names = |counters: &'static [Counter]| counters.iter().map(|counter| counter.name).collect::<Vec<_>>();
        let mut add = |part, counters| counts.parts.add(part, &names(counters));
        let parts = [add(READS, READ_COUNTERS), add(COPIES, COPY_COUNTERS)];
        let mut own = parts.map(|part| counts.parts.at(part).counters.clone()).into_iter();
        let (reads, work) = (own.next().unwrap_or_default(), own.next().unwrap_or_default());
        let numa = Numa {
            held: Held::default(),
            tree: Tree::new((listed.build)(params)?, levels, work),
            cores_of_node: (params.int(CORES.name) / params.int(NODES.name)) as usize,
            reads,
            gone: Vec::new(),
            freeing: false,
            parts,
        };
        Ok(Some(Handle(Arc::new(Mutex::new(numa)))))
    }

    /// The tables, which no other core uses now: cores run one after the other.
    pub fn get(&self) -> MutexGuard<'_, Numa> {
        self.0.lock().expect("no core has panicked")
    }
}

impl Numa {
    /// The node of a core.
    pub fn node(&self, core: usize) -> u8 {
        (core / self.cores_of_node) as u8
    }

    /// A demand walk for a page begins on a core of this node: what its copy lacks is fetched first (OS-NPT-1).
    pub fn walk_begins(&mut self, asid: Asid, vpn: Vpn, node: u8) {
        self.gone.clear();
        let asid = owner(asid, vpn.0);
        let mapping = self.held.mapping(asid, vpn);
        debug_assert!(mapping.is_some(), "{asid:?} {vpn:?} is mapped, and the tables were not told");
        if let Some(mapping) = mapping {
            self.tree.walk_begins(mapping, node);
        }
    }

    /// A walker on this node reads an entry of this level. Which copy it reads, by its node, and whether that is its
    /// own.
    pub fn copy_read(&mut self, asid: Asid, vpn: Vpn, level: u8, node: u8) -> (u8, bool) {
        let copy = self.tree.copy_for(PageId::of(owner(asid, vpn.0), vpn, level), node);
        let is_local = copy == Some(node);
        self.reads.add(if is_local { LOCAL } else { REMOTE }, 1);
        (copy.unwrap_or(u8::MAX), is_local)
    }

    /// A reference to another node was answered by memory, or has a fixed price.
    pub fn remote_memory(&mut self) {
        self.reads.add(REMOTE_MEMORY, 1);
    }

    /// The changes that come now belong to a request which frees pages of page tables or does not.
    pub fn requested(&mut self, frees_tables: bool) {
        self.freeing = frees_tables;
    }

    /// See [`crate::tlb::OnMap::mapped`]; by a thread on this node.
    pub fn mapped(&mut self, asid: Asid, pages: VpnRange, view: &dyn PageTableView, node: u8) {
        self.tree.begins(node, self.split(asid, pages));
        let Numa { held, tree, gone, .. } = self;
        let before = if tree.copies_on_demand() { held.within(asid, pages) } else { Vec::new() };
        let mut before: Vec<_> = before.into_iter().map(|mapping| (mapping, tree.sharers(mapping))).collect();
        let mut ignored = OwnCounts::default();
        held.mapped(asid, pages, view, tree, &mut ignored);
        before.retain(|(mapping, _)| held.mapping(asid, mapping.vpn) != Some(*mapping));
        gone.append(&mut before);
        held.within(asid, pages).into_iter().for_each(|mapping| tree.write_leaf(mapping));
    }

    /// See [`crate::tlb::OnMap::unmapped`]; by a thread on this node.
    pub fn unmapped(&mut self, asid: Asid, pages: VpnRange, view: &dyn PageTableView, node: u8) {
        self.tree.begins(node, self.split(asid, pages));
        let Numa { held, tree, .. } = self;
        held.within(asid, pages).into_iter().for_each(|mapping| tree.write_leaf(mapping));
        let mut ignored = OwnCounts::default();
        held.unmapped(asid, pages, view, tree, &mut ignored);
        if self.freeing {
            tree.free_empty(asid, pages);
        }
    }

    /// The nodes with a copy of the page of the table of superpages at the ends of this range. If they are split, the
    /// pages of the table for their parts come to the same nodes, which may have base translations of them (T94-42).
    fn split(&self, asid: Asid, pages: VpnRange) -> NodeSet {
        if !self.tree.copies_on_demand() {
            return 0;
        }
        let ends = [pages.start, Vpn(pages.end().0.saturating_sub(1))];
        let superpages = ends.into_iter().filter_map(|vpn| self.held.mapping(asid, vpn)).filter(|m| m.order > 0);
        superpages.fold(0, |nodes, mapping| nodes | self.tree.sharers(mapping))
    }

    /// The address space ended.
    pub fn gone(&mut self, asid: Asid) {
        self.tree.begins(0, 0);
        let Numa { held, tree, .. } = self;
        held.gone(asid, tree, &mut OwnCounts::default());
        tree.gone(asid);
        // A process that gets the number has other sharers.
        self.gone.retain(|(mapping, _)| mapping.asid != asid);
    }

    /// The cores that may have translations of these pages, as bits; `None`: the placement does not tell (OS-NPT-2).
    pub fn cores_with(&self, asid: Asid, pages: VpnRange) -> Option<u64> {
        if !self.tree.copies_on_demand() {
            return None;
        }
        let leaves = self.held.within(asid, pages);
        let mut nodes: NodeSet = leaves.into_iter().fold(0, |nodes, mapping| nodes | self.tree.sharers(mapping));
        for (mapping, sharers) in &self.gone {
            let of = VpnRange { start: mapping.vpn, pages: 1 << mapping.order };
            if mapping.asid == asid && of.overlaps(&pages) {
                nodes |= sharers;
            }
        }
        let of_node = (1u64 << self.cores_of_node) - 1;
        let cores = |node: usize| of_node << (node * self.cores_of_node);
        Some((0..64 / self.cores_of_node).filter(|node| nodes >> node & 1 != 0).map(cores).sum())
    }

    /// Puts its counts in their places.
    pub fn count_into(&self, counts: &mut TlbCounts) {
        let [reads, copies] = self.parts;
        counts.parts.at(reads).counters = self.reads.clone();
        counts.parts.at(copies).counters = self.tree.counts().clone();
    }
}
