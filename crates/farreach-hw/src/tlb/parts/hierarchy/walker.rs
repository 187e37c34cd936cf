//! The page-table walker: a radix tree and caches of its upper levels. On x86-64 the tree has four or five levels, and
//! leaves of 4 KB, 2 MB and 1 GB; larger base pages, as Arm has them, make it flatter (`walk::levels`). A node is known
//! by address space, level and the part of the page number that leads to it.

use super::distances::{Distances, LINE_ORDER, WALK_DISTANCES};
use super::host::Host;
use super::nodes::{Entry, Nodes, Pointer};
use super::walk::{self, PWC_PD, PWC_PDPT, PWC_PML4, PWC_PML5, WALK_LEVELS, by_caches, leaf_level};
use crate::cache::{NodeRead, Port, Purpose};
use crate::tlb::contract::Lookup;
use crate::tlb::filter::Unfiltered;
use crate::tlb::parts::store::Store;
use crate::tlb::parts::store::geometry::Geometry;
use crate::tlb::parts::store::tag_index::Tag;
use crate::tlb::parts::tables::Walked;
use farreach_types::addr::{Asid, BASE_SHIFT, Pfn, Vpn};
use farreach_types::counts::{MemoryCounts, TlbCounts};
use farreach_types::params::Params;
use farreach_types::translation::{PageTableView, Pte};

/// The first frame of tables.
const FIRST_FRAME: u64 = 1 << 40;

/// The walker. Fully associative caches, true LRU unless the hierarchy sets another policy.
pub(in crate::tlb) struct Walker {
    /// log2 of the entries of a node.
    radix: u8,
    /// By level of the entries in them, from 1.
    caches: Vec<Option<Store<Pointer>>>,
    /// Addresses of the nodes, if references are recorded.
    nodes: Option<Nodes>,
    /// What is counted with `walk_distances`.
    distances: Option<Box<Distances>>,
    /// The second dimension, in a virtual machine whose host walks.
    host: Option<Host>,
    /// Walks are never filtered.
    ignored_report: Unfiltered,
}

impl Walker {
    pub fn new(params: &Params, seed: u64) -> Result<Walker, String> {
        let levels = walk::levels(params);
        let cache = |level: u8| {
            let key = [&PWC_PD, &PWC_PDPT, &PWC_PML4, &PWC_PML5][usize::from(level) - 1];
            let entries = params.int(key.name);
            let build = |g| Store::new(g, params, seed.wrapping_add(level.into()));
            (entries > 0).then(|| build(Geometry::new(entries, 0)?)).transpose()
        };
        let of_4k = params.int(WALK_LEVELS.name);
        if of_4k < 5 && params.int(PWC_PML5.name) > 0 {
            return Err(format!(
                "pwc_pml5 = {} is not allowed: a page table of {of_4k} levels has no PML5",
                params.int(PWC_PML5.name)
            ));
        }
        let host = Host::new(params, seed.wrapping_add(8))?;
        let first = if host.is_some() { Host::GUEST_TABLES } else { FIRST_FRAME };
        Ok(Walker {
            radix: walk::radix(params),
            caches: (1..levels).map(cache).collect::<Result<_, _>>()?,
            nodes: (by_caches(params) || host.is_some()).then(|| Nodes::from(first)),
            distances: params.flag(WALK_DISTANCES.name).then(Box::default),
            host,
            ignored_report: Unfiltered::unread(),
        })
    }

    /// The line of the leaf of a base page.
    fn line(asid: Asid, vpn: Vpn) -> Tag {
        Tag::of(asid, vpn, LINE_ORDER)
    }

    /// Walks for a page (DS13-36). The deepest cached entry on the way is used; entries read below it, except the leaf,
    /// are cached, top first.
    ///
    /// In a virtual machine the address of each node that is read is translated by the host first, and that of the page
    /// at the end (DS13-42). A cached entry has the system address of the node it leads to, so that this one is read at
    /// once.
    pub fn walk(&mut self, at: Lookup, pte: Pte, counts: &mut TlbCounts, port: &mut Port) {
        let (radix, levels) = (self.radix, self.caches.len() as u8 + 1);
        let leaf = leaf_level(pte.order, radix);
        let tag = |level: u8| Tag::of(at.asid, at.vpn, radix * level);
        let Walker { caches, nodes, distances, host, ignored_report, .. } = self;
        if let Some(distances) = distances.as_mut().filter(|_| leaf == 0) {
            let class = distances.read(Walker::line(at.asid, at.vpn));
            *counts.walk_distances.class(class) += 1;
        }
        if nodes.is_none() && caches.iter().all(Option::is_none) {
            // No cache and no caller needs the nodes.
            counts.walk.walks += 1;
            (leaf..levels).for_each(|level| *counts.walk.references_at(level) += 1);
            return;
        }
        let mut from = levels;
        for level in leaf + 1..levels {
            let Some(cache) = &mut caches[usize::from(level) - 1] else { continue };
            if let Some(slot) = cache.find(tag(level)) {
                cache.touch(slot, 0, ignored_report);
                *counts.walk.cache_hits(level) += 1;
                from = level;
                break;
            }
        }
        counts.walk.walks += 1;
        for level in (leaf..from).rev() {
            *counts.walk.references_at(level) += 1;
            if let Some(nodes) = nodes {
                let address = nodes.address(Entry::on_the_way(at.asid, at.vpn, level));
                let known = level + 1 == from && from < levels;
                if let Some(host) = host.as_mut().filter(|_| !known) {
                    host.translate(Pfn(address >> BASE_SHIFT), counts, port);
                }
                port.node(NodeRead { level, address }, &mut counts.walk_caches);
            }
            if let Some(cache) =
                level.checked_sub(1).filter(|_| level > leaf).and_then(|i| caches[usize::from(i)].as_mut())
            {
                cache.place(tag(level), Pointer, &mut TlbCounts::default(), ignored_report);
            }
        }
        if let Some(host) = host {
            host.translate(pte.pfn, counts, port);
        }
    }

    /// What a demand walk for this page would read first, changing nothing (VIC-2). Where references go through caches.
    pub fn first_read(&mut self, asid: Asid, vpn: Vpn, pte: Pte) -> NodeRead {
        let (radix, levels) = (self.radix, self.caches.len() as u8 + 1);
        let leaf = leaf_level(pte.order, radix);
        let has = |level: &u8| {
            let cache = self.caches[usize::from(*level) - 1].as_ref();
            cache.is_some_and(|cache| cache.find(Tag::of(asid, vpn, radix * level)).is_some())
        };
        let from = (leaf + 1..levels).find(has).unwrap_or(levels);
        self.read(Entry::on_the_way(asid, vpn, from - 1))
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
        let (radix, levels) = (self.radix, self.caches.len() as u8 + 1);
        let found = table.pte(asid, vpn);
        let last = found.map_or_else(|| table.absent_at(asid, vpn).min(levels - 1), |pte| leaf_level(pte.order, radix));
        let tag = |level: u8| Tag::of(asid, vpn, radix * level);
        let Walker { caches, nodes, ignored_report, .. } = self;
        let mut from = levels;
        for level in last + 1..levels {
            let Some(cache) = &mut caches[usize::from(level) - 1] else { continue };
            if let Some(slot) = cache.find(tag(level)) {
                cache.touch(slot, 0, ignored_report);
                from = level;
                break;
            }
        }
        let mut walked = Walked { references: u64::from(from - last), by_level: [0; 5], found };
        for level in (last..from).rev() {
            walked.by_level[usize::from(level)] += 1;
            let address = nodes.as_mut().map_or(0, |nodes| nodes.address(Entry::on_the_way(asid, vpn, level)));
            port.step(purpose, &[address], memory);
            if fills
                && level > last
                && let Some(cache) = &mut caches[usize::from(level) - 1]
            {
                cache.place(tag(level), Pointer, &mut TlbCounts::default(), ignored_report);
            }
        }
        walked
    }

    /// As [`Walker::walk`], where the guest's registers gave the guest physical address: only the host's dimension is
    /// walked (DS13-41).
    pub fn walk_host(&mut self, pte: Pte, counts: &mut TlbCounts, port: &mut Port) {
        counts.walk.walks += 1;
        if let Some(host) = &mut self.host {
            host.translate(pte.pfn, counts, port);
        }
    }

    /// The order of the largest TLB entry that the host allows.
    pub fn largest_entry(&self) -> Option<u8> {
        self.host.as_ref().and_then(Host::largest_entry)
    }

    /// Reads of the walker of another table.
    pub fn read(&mut self, entry: Entry) -> NodeRead {
        let nodes = self.nodes.as_mut().expect("caches want to know where tables are");
        NodeRead { level: entry.level, address: nodes.address(entry) }
    }

    /// A mapping of this address space changed: all its cached entries are dropped, as with INVLPG.
    pub fn forget(&mut self, asid: Asid) {
        self.caches.iter_mut().flatten().for_each(|cache| _ = cache.drop_space(asid, &mut self.ignored_report));
    }

    /// The address space is gone, with its tables.
    pub fn gone(&mut self, asid: Asid) {
        self.forget(asid);
        if let Some(nodes) = &mut self.nodes {
            nodes.gone(asid);
        }
    }

    /// Another address space runs. What the host says is true for all.
    pub fn switch(&mut self, to: Asid) {
        self.caches.iter_mut().flatten().for_each(|cache| _ = cache.switch(to, &mut self.ignored_report));
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
