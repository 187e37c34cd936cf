//! The page-table walker: a radix tree and caches of its upper levels. On x86-64 the tree has four or five levels, and
//! leaves of 4 KB, 2 MB and 1 GB; larger base pages, as Arm has them, make it flatter (`walk::levels`). A node is known
//! by address space, level and the part of the page number that leads to it.

use super::distances::{Distances, LINE_ORDER, WALK_DISTANCES};
use super::host::{GuestWalk, Host, Nested};
use super::nodes::Entry;
use super::numa::{self, Numa};
use super::walk::{self, PWC_PML5, WALK_LEVELS, by_caches, leaf_level};
use super::walk_caches::{self, Caches, HITS, LOOKUPS, Path, WalkCache, WithCaches};
use crate::cache::{At, NodeRead, Nodes, Port, Purpose};
use crate::tlb::contract::Lookup;
use crate::tlb::parts::store::tag_index::Tag;
use crate::tlb::parts::tables::Walked;
use farreach_types::addr::{Asid, BASE_SHIFT, Pfn, Vpn, VpnRange};
use farreach_types::counts::{MemoryCounts, TlbCounts};
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{PageTableView, Pte};
use std::sync::MutexGuard;

/// The first frame of tables.
const FIRST_FRAME: u64 = 1 << 40;

/// The walker. Its caches are fully associative, with true LRU unless the hierarchy sets another policy.
pub(in crate::tlb) struct Walker {
    /// log2 of the entries of a node.
    radix: u8,
    levels: u8,
    caches: Caches,
    /// The place of their counters in [`TlbCounts::parts`], if they have any.
    part: Option<usize>,
    /// What is counted with `walk_distances`.
    distances: Option<Box<Distances>>,
    /// The second dimension, in a virtual machine whose host does more than adding.
    host: Option<Host>,
    /// Processes of which nodes moved to another table at the last walk.
    moved: Vec<Asid>,
    /// Where pages of the table lie, on a machine whose memory has nodes, and its own node.
    numa: Option<(numa::Handle, u8)>,
}

impl Walker {
    pub fn new(params: &Params, seed: u64, counts: &mut TlbCounts) -> Result<Walker, String> {
        let of_4k = params.int(WALK_LEVELS.name);
        if of_4k < 5 && params.int(PWC_PML5.name) > 0 {
            return Err(format!(
                "pwc_pml5 = {} is not allowed: a page table of {of_4k} levels has no PML5",
                params.int(PWC_PML5.name)
            ));
        }
        let host = Host::new(params, seed.wrapping_add(8), counts)?;
        let caches = walk_caches::build(params, seed)?;
        let counters = walk_caches::chosen(params).map_or(&[][..], |kind| kind.counters);
        let names: Vec<_> = counters.iter().map(|counter| counter.name).collect();
        Ok(Walker {
            radix: walk::radix(params),
            levels: walk::levels(params),
            caches,
            part: (!names.is_empty()).then(|| counts.parts.add(walk_caches::PART, &names)),
            distances: params.flag(WALK_DISTANCES.name).then(Box::default),
            host,
            moved: Vec::new(),
            numa: None,
        })
    }

    /// Where its tables lie, if anybody needs addresses: caches, or a host, which translates them.
    pub fn nodes(&self, params: &Params) -> Option<Nodes> {
        let first = if self.host.is_some() { Host::GUEST_TABLES } else { FIRST_FRAME };
        (by_caches(params) || self.host.is_some()).then(|| Nodes::from(first))
    }

    /// It is that of a core on this node.
    pub fn on_node(&mut self, tables: numa::Handle, node: u8) {
        self.numa = Some((tables, node));
    }

    /// The way of a walk that ends at this level.
    fn path(&self, asid: Asid, vpn: Vpn, leaf: u8) -> Path {
        Path { asid, vpn, radix: self.radix, leaf, levels: self.levels }
    }

    /// The line of the leaf of a base page.
    fn line(asid: Asid, vpn: Vpn) -> Tag {
        Tag::of(asid, vpn, LINE_ORDER)
    }

    /// Walks for a page (DS13-36). The deepest cached entry on the way is used; entries read below it, except the leaf,
    /// are cached, top first. Other kinds of caches: see [`walk_caches`].
    ///
    /// In a virtual machine the address of each node that is read is translated by the host first, and that of the page
    /// at the end (DS13-42), unless a merged table leads to it. A cached entry has the system address of the node it
    /// leads to, so that this one is read at once. `position`: instructions so far, if they are asked for.
    pub fn walk(&mut self, at: Lookup, pte: Pte, position: u64, counts: &mut TlbCounts, port: &mut Port) {
        let (radix, levels) = (self.radix, self.levels);
        let mut leaf = leaf_level(pte.order, radix);
        if let Some(distances) = self.distances.as_mut().filter(|_| leaf == 0) {
            let class = distances.read(Walker::line(at.asid, at.vpn));
            *counts.walk_distances.class(class) += 1;
        }
        let mut nested = Nested { below: 0, first_is_known: true };
        if let Some(host) = &mut self.host {
            let largest = host.largest_entry().unwrap_or(u8::MAX);
            let walk = GuestWalk { at, order: pte.order, largest, levels, position };
            nested = host.begins(&walk, &mut self.moved, counts);
            for asid in self.moved.drain(..) {
                self.caches.drop_space(asid); // their entries lead to the other table
            }
            if nested.below == 0 {
                leaf = leaf_level(pte.order.min(largest), radix);
            }
        }
        let path = Path { asid: at.asid, vpn: at.vpn, radix, leaf, levels };
        let Walker { caches, host, part, numa, .. } = self;
        let numa = numa.as_ref().map(|(tables, node)| (tables.get(), *node));
        caches.with(Demand {
            path,
            nested,
            page: pte.pfn,
            is_data: at.kind != Kind::Fetch,
            host: host.as_mut(),
            part: *part,
            numa,
            counts,
            port,
        });
    }

    /// What a demand walk for this page would read first, changing nothing (VIC-2). Where references go through caches.
    pub fn first_read(&mut self, asid: Asid, vpn: Vpn, pte: Pte, port: &mut Port) -> NodeRead {
        let path = self.path(asid, vpn, leaf_level(pte.order, self.radix));
        let from = self.caches.start(&path);
        let is_read = |level: &u8| *level == path.leaf || !self.caches.holds(&path, *level);
        let level = (path.leaf..from).rev().find(is_read).unwrap_or(path.leaf);
        port.place(Entry::on_the_way(asid, vpn, level))
    }

    /// A walk in the background (PB-7), on the account of a part: as a demand walk, but it ends at the first entry that
    /// is absent, and may be for a page that is not mapped. Or one that the program waits for. `fills`: what it reads
    /// is cached. Not in virtual machines.
    pub fn walk_ahead(
        &mut self,
        (asid, vpn): (Asid, Vpn),
        (purpose, fills): (Purpose, bool),
        table: &dyn PageTableView,
        port: &mut Port,
        memory: &mut MemoryCounts,
    ) -> Walked {
        let found = table.pte(asid, vpn);
        let last = found
            .map_or_else(|| table.absent_at(asid, vpn).min(self.levels - 1), |pte| leaf_level(pte.order, self.radix));
        let path = self.path(asid, vpn, last);
        let walked = Walked { references: 0, by_level: [0; 5], found };
        self.caches.with(Ahead { path, purpose, fills, walked, port, memory })
    }

    /// As [`Walker::walk`], where the guest's registers gave the guest physical address: only the host's dimension is
    /// walked (DS13-41).
    pub fn walk_host(&mut self, pte: Pte, counts: &mut TlbCounts, port: &mut Port) {
        counts.walk.walks += 1;
        if let Some(host) = &mut self.host {
            host.translate(pte.pfn, counts, port);
        }
    }

    /// The second dimension, for the walker of a guest's other table.
    pub fn host(&mut self) -> Option<&mut Host> {
        self.host.as_mut()
    }

    /// The order of the largest TLB entry that the host allows.
    pub fn largest_entry(&self) -> Option<u8> {
        self.host.as_ref().and_then(Host::largest_entry)
    }

    /// A mapping of this address space changed: all its cached entries are dropped, as with INVLPG.
    pub fn forget(&mut self, asid: Asid) {
        self.caches.drop_space(asid);
    }

    /// The address space is gone, with its tables.
    pub fn gone(&mut self, asid: Asid) {
        self.forget(asid);
        if let Some(host) = &mut self.host {
            host.gone(asid);
        }
    }

    /// Another address space runs. What the host says is true for all.
    pub fn switch(&mut self, to: Asid, counts: &mut TlbCounts) {
        self.caches.switch(to);
        if let Some(host) = &mut self.host {
            host.switch(to, counts);
        }
    }

    /// A lookup for a store was answered.
    #[inline]
    pub fn stored(&mut self, at: Lookup, counts: &mut TlbCounts) {
        if let Some(host) = &mut self.host {
            host.stored(at.asid, at.vpn, counts);
        }
    }

    /// Whether the host has a table of all pages together.
    pub fn host_has_table(&self) -> bool {
        self.host.as_ref().is_some_and(Host::has_table)
    }

    /// Whether the host is told of changes of the guest's page table.
    pub fn follows_changes(&self) -> bool {
        self.host.as_ref().is_some_and(Host::follows)
    }

    /// See [`crate::tlb::OnMap::mapped`].
    pub fn mapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView, counts: &mut TlbCounts) {
        if let Some(host) = &mut self.host {
            host.mapped(asid, pages, table, counts);
        }
    }

    /// See [`crate::tlb::OnMap::unmapped`].
    pub fn unmapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView, counts: &mut TlbCounts) {
        if let Some(host) = &mut self.host {
            host.unmapped(asid, pages, table, counts);
        }
    }
}

/// A demand walk.
struct Demand<'a> {
    path: Path,
    nested: Nested,
    /// The frame at its end.
    page: Pfn,
    /// Whether a load or store wants it.
    is_data: bool,
    host: Option<&'a mut Host>,
    part: Option<usize>,
    numa: Option<(MutexGuard<'a, Numa>, u8)>,
    counts: &'a mut TlbCounts,
    port: &'a mut Port,
}

/// Where the nodes of merged tables are told from those of the guest's: added to their level.
const MERGED: u8 = 8;

impl WithCaches for Demand<'_> {
    type Out = ();

    #[inline]
    fn with<C: WalkCache>(self, caches: &mut C) {
        let Demand { path, nested, page, is_data, mut host, part, mut numa, counts, port } = self;
        let Path { asid, vpn, leaf, levels, .. } = path;
        counts.walk.walks += 1;
        if let Some((tables, node)) = &mut numa {
            tables.walk_begins(asid, vpn, *node);
        } else if !port.has_nodes() && caches.is_none() {
            // No cache and no caller needs the nodes.
            (leaf..levels).for_each(|level| *counts.walk.references_at(level) += 1);
            return;
        }
        let from = caches.begin(&path);
        if from < levels {
            *counts.walk.cache_hits(from) += 1;
        }
        for level in (leaf..from).rev() {
            if C::COUNTS && level > leaf {
                let saves = caches.saves(&path, level);
                if let Some(part) = part {
                    let own = &mut counts.parts.at(part).counters;
                    *own.at(LOOKUPS) += 1;
                    *own.at(HITS) += u64::from(saves);
                }
                if saves {
                    continue;
                }
            }
            *counts.walk.references_at(level) += 1;
            let copy = numa.as_mut().map(|(tables, node)| tables.copy_read(asid, vpn, level, *node));
            let mut answer = None;
            if port.has_nodes() {
                let mut entry = Entry::on_the_way(asid, vpn, level);
                entry.copy = copy.map_or(0, |(copy, _)| copy);
                if level >= nested.below && host.is_some() {
                    entry.level += MERGED;
                }
                let address = port.place(entry).address;
                let is_known = level + 1 == from && from < levels
                    || level >= nested.below
                    || level + 1 == nested.below && nested.first_is_known;
                match host.as_mut() {
                    Some(host) if is_known => host.skipped(1, counts),
                    Some(host) => host.translate(Pfn(address >> BASE_SHIFT), counts, port),
                    None => {}
                }
                let read = NodeRead { level, address };
                answer = if level == leaf && is_data {
                    port.leaf(read, &mut counts.walk_caches)
                } else {
                    port.node(read, &mut counts.walk_caches)
                };
            }
            if let (Some((tables, _)), Some((_, false))) = (&mut numa, copy)
                && answer.is_none_or(|at| at == At::Memory)
            {
                tables.remote_memory();
            }
            if level > leaf {
                caches.read(&path, level);
            }
        }
        caches.ended(&path, from);
        if let Some(host) = host.filter(|_| nested.below > 0) {
            host.translate(page, counts, port);
        }
    }
}

/// A walk in the background.
struct Ahead<'a> {
    path: Path,
    purpose: Purpose,
    fills: bool,
    walked: Walked,
    port: &'a mut Port,
    memory: &'a mut MemoryCounts,
}

impl WithCaches for Ahead<'_> {
    type Out = Walked;

    fn with<C: WalkCache>(self, caches: &mut C) -> Walked {
        let Ahead { path, purpose, fills, mut walked, port, memory } = self;
        let from = caches.begin(&path);
        for level in (path.leaf..from).rev() {
            if C::COUNTS && level > path.leaf && caches.saves(&path, level) {
                continue;
            }
            walked.references += 1;
            walked.by_level[usize::from(level)] += 1;
            let entry = Entry::on_the_way(path.asid, path.vpn, level);
            let address = if port.has_nodes() { port.place(entry).address } else { 0 };
            port.step(purpose, &[address], memory);
            if fills && level > path.leaf {
                caches.read(&path, level);
            }
        }
        if fills {
            caches.ended(&path, from);
        }
        walked
    }
}

/// log2 of the pages that `2^order` aligned pages around this one can be taken for, if their entries in one line of the
/// page table say the same: contiguous frames, aligned as the pages are, equal attributes. 0 otherwise.
pub(in crate::tlb) fn coalesced(asid: Asid, vpn: Vpn, table: &dyn PageTableView, order: u8) -> u8 {
    let base = vpn.align_down(order.into());
    let Some(first) = table.pte(asid, base).filter(|p| p.pfn.offset_in(order.into()) == 0) else { return 0 };
    let joins = |i: u64| {
        let pte = table.pte(asid, Vpn(base.0 + i));
        pte.is_some_and(|p| p.pfn.0 == first.pfn.0 + i && p.attr == first.attr)
    };
    if (1..1 << order).all(joins) { order } else { 0 }
}
