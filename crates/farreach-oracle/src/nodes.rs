//! Page tables on nodes of memory (OS-MIT-1, OS-MIT-2, OS-MIT-4, OS-NPT-1 to OS-NPT-3), as maps and sets.
//!
//! TLBs are large enough for all entries, or have one. Walk caches are large enough, or absent. Pages are of 4 KB and
//! 2 MB. Only loads are looked up.
//!
//! * OND-1 A node has as many cores as another, and those with consecutive numbers.
//! * OND-2 A page of the table is made when the first entry in it is, by the running core. It is linked in the page
//!   above. A link is an entry like others: it is written when the page is made, and when it goes.
//! * OND-3 A superpage that takes the place of base pages is one write, in place of the link. Nothing writes the
//!   entries below. Their page is kept, with its copies, and linked again by a write when an entry comes into it. A
//!   split writes an entry for each base page.
//! * OND-4 What changes is written once, in all copies that had it. Entries are known as they are told: one that was
//!   made and taken away before the system told of it is not written.
//! * OND-5 A change whose request says that page tables were freed frees the pages in its range that are empty then,
//!   but never the root. What is empty otherwise stays. A page with a kept one below it is not empty.
//! * OND-6 The end of a process writes nothing.
//! * OND-7 With `on_demand` the owner of a page is the node that made it. A node has a link if it has the page below.
//!   So its tree is complete for pages that it owns, and what leads to them is copied if another node owns that.
//!   `copied_entries` has these links, and those that a light fault copies. No copied entry is in `pt_writes`.
//! * OND-8 A new entry is in the copy of the owner and in that of the running core. One of a superpage that is split
//!   also comes to all nodes with a copy of the superpage's page, which may have its base pages in TLBs.
//! * OND-9 A light fault copies neighbours that are mappings, and no links.
//! * OND-10 A mapping that was gone before the system told of a split or a promotion still has its sharers, until the
//!   next walk.

mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tables::{Tree, index, level_of, place};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    FirstTouch,
    Away,
    Replicated,
    OnDemand,
}

/// Keys of the machine, by their names.
#[derive(Clone, Debug)]
pub struct NodesConfig {
    pub placement: Placement,
    pub cores: usize,
    pub nodes: usize,
    pub replicas: usize,
    pub prefetch: u32,
    pub levels: u32,
    pub process_ids: bool,
    /// Whether a TLB has one entry.
    pub tiny: bool,
    pub walk_caches: bool,
}

/// Process, first page, order.
type Entry = (u32, u64, u8);
#[derive(Default)]
struct Core {
    entries: BTreeSet<Entry>,
    /// Links by process, level and page number.
    links: BTreeSet<(u32, u32, u64)>,
    running: Option<u32>,
}

pub struct Nodes {
    config: NodesConfig,
    cores: Vec<Core>,
    now: usize,
    places: BTreeMap<(u32, u32), usize>,
    dealt: usize,
    last: BTreeMap<u32, u32>,
    trees: BTreeMap<u32, Tree>,
    may_hold: BTreeSet<(u32, usize)>,
    frees: bool,
    /// OND-10: process, pages and sharers.
    late: Vec<(u32, Range<u64>, BTreeSet<usize>)>,
    pub counts: BTreeMap<&'static str, u64>,
}

/// What is counted.
pub const NAMES: [&str; 12] = [
    "local_references",
    "remote_references",
    "remote_memory",
    "pt_pages",
    "pt_copies",
    "pt_writes",
    "replica_writes",
    "light_faults",
    "copied_entries",
    "walks",
    "sent",
    "ipis",
];

impl Nodes {
    pub fn new(config: NodesConfig) -> Nodes {
        Nodes {
            cores: (0..config.cores).map(|_| Core::default()).collect(),
            config,
            now: 0,
            places: BTreeMap::new(),
            dealt: 0,
            last: BTreeMap::new(),
            trees: BTreeMap::new(),
            may_hold: BTreeSet::new(),
            frees: false,
            late: Vec::new(),
            counts: NAMES.into_iter().map(|name| (name, 0)).collect(),
        }
    }

    fn count(&mut self, name: &'static str, n: usize) {
        *self.counts.get_mut(name).unwrap() += n as u64;
    }

    /// OND-1.
    fn node(&self, core: usize) -> usize {
        core / (self.config.cores / self.config.nodes)
    }

    /// To the thread of a process that ran last.
    pub fn switch(&mut self, asid: u32) {
        if let Some(&thread) = self.last.get(&asid) {
            self.thread(asid, thread);
        }
    }

    /// A thread gets a core when it first runs, in turn.
    pub fn thread(&mut self, asid: u32, thread: u32) {
        self.last.insert(asid, thread);
        let (dealt, cores) = (&mut self.dealt, self.config.cores);
        self.now = *self.places.entry((asid, thread)).or_insert_with(|| {
            *dealt += 1;
            (*dealt - 1) % cores
        });
        let now = self.now;
        if self.cores[now].running.replace(asid) != Some(asid) && !self.config.process_ids {
            self.cores[now].entries.clear();
            self.cores[now].links.clear();
            self.may_hold.retain(|&(_, core)| core != now);
        }
        self.may_hold.insert((asid, now));
    }

    /// Whether the running core has the page, which is in a mapping of this order now. Entries for base pages outlive
    /// their promotion, until one for the superpage takes their place (T94-17).
    pub fn lookup(&mut self, asid: u32, vpn: u64, order: u8) -> bool {
        let first = vpn >> order << order;
        let entries = &self.cores[self.now].entries;
        if entries.contains(&(asid, vpn, 0)) || entries.contains(&(asid, first, order)) {
            return true;
        }
        self.walk(asid, first, order);
        let tiny = self.config.tiny;
        let entries = &mut self.cores[self.now].entries;
        entries.retain(|&(of, vpn, _)| !tiny && (of != asid || vpn >> order << order != first));
        entries.insert((asid, first, order));
        false
    }

    fn walk(&mut self, asid: u32, vpn: u64, order: u8) {
        self.count("walks", 1);
        self.late.clear();
        let (node, leaf) = (self.node(self.now), level_of(order));
        if self.config.placement == Placement::OnDemand && !self.has(asid, (leaf, vpn), node) {
            self.count("light_faults", 1);
            self.copy(asid, vpn, leaf, node);
        }
        // It begins below the deepest link that the core has.
        let is_cached = |level: &u32| self.cores[self.now].links.contains(&(asid, *level, index(vpn, *level)));
        let from = (leaf + 1..self.config.levels).find(is_cached);
        for level in (leaf..from.unwrap_or(self.config.levels)).rev() {
            let page = &self.trees[&asid][&place(vpn, level)];
            let local = match self.config.placement {
                // OS-MIT-4: others read the copy of the first node, which is not theirs.
                Placement::Replicated => node < self.config.replicas,
                Placement::OnDemand => page.copies.contains(&node),
                Placement::FirstTouch | Placement::Away => page.owner == node,
            };
            self.count(if local { "local_references" } else { "remote_references" }, 1);
            self.count("remote_memory", usize::from(!local));
            if level > leaf && self.config.walk_caches {
                self.cores[self.now].links.insert((asid, level, index(vpn, level)));
            }
        }
    }

    /// Cores drop what they have of these pages; with `splits`, only superpages.
    pub fn shoot(&mut self, asid: u32, pages: &Range<u64>, splits: bool) {
        let sharing = self.sharers(asid, pages);
        let others = (0..self.config.cores).filter(|&core| core != self.now && self.may_hold.contains(&(asid, core)));
        // OS-NPT-2.
        let others: BTreeSet<_> = others
            .filter(|&core| self.config.placement != Placement::OnDemand || sharing.contains(&self.node(core)))
            .collect();
        self.count("sent", usize::from(!others.is_empty()));
        self.count("ipis", others.len());
        for core in others.into_iter().chain([self.now]) {
            let hit = |&(of, first, order): &Entry| {
                of == asid && first < pages.end && pages.start < first + (1 << order) && (order > 0 || !splits)
            };
            self.cores[core].entries.retain(|entry| !hit(entry));
            self.cores[core].links.retain(|link| link.0 != asid);
        }
    }

    /// OND-6.
    pub fn end(&mut self, asid: u32) {
        for core in &mut self.cores {
            core.entries.retain(|entry| entry.0 != asid);
            core.links.retain(|link| link.0 != asid);
        }
        self.trees.remove(&asid);
        self.late.retain(|late| late.0 != asid);
        self.places.retain(|place, _| place.0 != asid);
        self.last.remove(&asid);
        self.may_hold.retain(|&(of, _)| of != asid);
    }

    pub fn entries(&self, core: usize) -> &BTreeSet<Entry> {
        &self.cores[core].entries
    }
}
