//! The pages of radix trees, with the nodes that have copies of them.

use super::{COPIED, LIGHT_FAULTS, NodeSet, PAGE_COPIES, PAGES, Placement, REPLICA_WRITES, WRITES};
use crate::tlb::parts::hierarchy::nodes::RADIX;
use crate::tlb::parts::hierarchy::walk::leaf_level;
use crate::tlb::parts::tables::{Follow, Mapping};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::OwnCounts;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::BTreeSet;

/// A page of a page table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct PageId {
    pub asid: Asid,
    /// 0 for leaves of base pages.
    pub level: u8,
    /// The part of the page number that leads to it.
    prefix: u64,
}

impl PageId {
    /// The page of this level on the way to a page of the program.
    pub fn of(asid: Asid, vpn: Vpn, level: u8) -> PageId {
        PageId { asid, level, prefix: vpn.0 >> (RADIX * (level + 1)) }
    }

    fn parent(self) -> PageId {
        PageId { level: self.level + 1, prefix: self.prefix >> RADIX, ..self }
    }

    /// The pages of the program that it is for.
    fn pages(self) -> VpnRange {
        let order = RADIX * (self.level + 1);
        VpnRange { start: Vpn(self.prefix << order), pages: 1 << order }
    }
}

/// What is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TablePage {
    /// The node with its first copy; `None`: it lies on no node of any core.
    pub home: Option<u8>,
    /// The nodes with copies, the first included.
    pub copies: NodeSet,
    /// Whether the entry for it leads to it. A superpage may have taken the place of the link.
    linked: bool,
    /// Leaves, and pages below it.
    entries: u32,
}

/// See the module.
pub(super) struct Tree {
    placement: Box<dyn Placement>,
    levels: u8,
    pages: HashMap<PageId, TablePage, FixedState>,
    /// Pages without entries, which were not freed.
    empty: BTreeSet<PageId>,
    /// The node of the thread whose changes come now.
    by: u8,
    /// The nodes that may have translations of the superpage whose parts are entered now.
    heirs: NodeSet,
    own: OwnCounts,
}

/// The page with a leaf, and the place of the leaf in it.
fn leaf(mapping: Mapping) -> (PageId, u16) {
    let level = leaf_level(mapping.order, RADIX);
    let index = mapping.vpn.0 >> (RADIX * level) & ((1 << RADIX) - 1);
    (PageId::of(mapping.asid, mapping.vpn, level), index as u16)
}

impl Tree {
    pub fn new(placement: Box<dyn Placement>, levels: u8, own: OwnCounts) -> Tree {
        Tree { placement, levels, pages: HashMap::default(), empty: BTreeSet::new(), by: 0, heirs: 0, own }
    }

    /// What was counted.
    pub fn counts(&self) -> &OwnCounts {
        &self.own
    }

    pub fn copies_on_demand(&self) -> bool {
        self.placement.copies_on_demand()
    }

    /// Changes come from a thread on this node. If they split superpages, these nodes had them.
    pub fn begins(&mut self, by: u8, heirs: NodeSet) {
        (self.by, self.heirs) = (by, heirs);
    }

    fn page(&self, id: PageId) -> &TablePage {
        self.pages.get(&id).expect("a page of the table is there while it has entries")
    }

    fn count_writes(&mut self, copies: NodeSet) {
        let copies = u64::from(copies.count_ones()).max(1);
        self.own.add(WRITES, copies);
        self.own.add(REPLICA_WRITES, copies - 1);
    }

    /// The copies that have a leaf.
    fn holders(&self, mapping: Mapping) -> NodeSet {
        let (id, index) = leaf(mapping);
        self.placement.holders(id, index, self.page(id))
    }

    /// The nodes with a copy of the page of a leaf.
    pub fn sharers(&self, mapping: Mapping) -> NodeSet {
        self.page(leaf(mapping).0).copies
    }

    /// An entry of a leaf is written, in all copies that have it (OS-MIT-2, OS-NPT-2).
    pub fn write_leaf(&mut self, mapping: Mapping) {
        let holders = self.holders(mapping);
        self.count_writes(holders);
    }

    /// The copy that a walker on this node reads (OS-MIT-4).
    pub fn copy_for(&self, id: PageId, node: u8) -> Option<u8> {
        let page = self.pages.get(&id)?;
        if page.copies >> node & 1 != 0 { Some(node) } else { page.home }
    }

    /// Makes the page and those above it, as far as they are not there. A copy is entered in the copy of its parent on
    /// the same node.
    fn make(&mut self, id: PageId) {
        if let Some(page) = self.pages.get_mut(&id) {
            let (is_linked, copies) = (std::mem::replace(&mut page.linked, true), page.copies);
            if !is_linked {
                self.count_writes(copies);
            }
            self.empty.remove(&id);
            return;
        }
        let (home, mut copies) = self.placement.made(self.by);
        copies |= self.heirs;
        self.pages.insert(id, TablePage { home, copies, linked: true, entries: 0 });
        let many = u64::from(copies.count_ones()).max(1);
        self.own.add(PAGES, many);
        self.own.add(PAGE_COPIES, many - 1);
        if id.level + 1 < self.levels {
            let parent = id.parent();
            self.make(parent);
            if self.copies_on_demand() {
                self.copy_to(parent, copies);
            }
            self.page_mut(parent).entries += 1;
            self.count_writes(copies);
        }
    }

    fn page_mut(&mut self, id: PageId) -> &mut TablePage {
        self.pages.get_mut(&id).expect("it was made")
    }

    /// These nodes get copies of this page and of those above it, as far as they have none.
    fn copy_to(&mut self, id: PageId, nodes: NodeSet) {
        let page = self.page_mut(id);
        let new = nodes & !page.copies;
        if new == 0 {
            return;
        }
        page.copies |= new;
        let many = u64::from(new.count_ones());
        self.own.add(PAGES, many);
        self.own.add(PAGE_COPIES, many);
        if id.level + 1 < self.levels {
            self.own.add(COPIED, many);
            self.copy_to(id.parent(), nodes);
        }
    }

    /// See [`super::Numa::walk_begins`].
    pub fn walk_begins(&mut self, mapping: Mapping, node: u8) {
        let (id, index) = leaf(mapping);
        let page = *self.page(id);
        let Some(leaves) = self.placement.fetched(id, index, &page, node) else { return };
        self.own.add(LIGHT_FAULTS, 1);
        self.own.add(COPIED, leaves);
        self.copy_to(id, 1 << node);
    }

    /// Frees the pages of the table within these that have no entries, and those above them that lose their last. The
    /// root stays as long as its process.
    pub fn free_empty(&mut self, asid: Asid, pages: VpnRange) {
        let within = |id: &PageId| id.asid == asid && id.pages().overlaps(&pages);
        let mut empty: Vec<_> = self.empty.iter().copied().filter(within).collect();
        while let Some(id) = empty.pop() {
            if id.level + 1 == self.levels {
                continue;
            }
            self.empty.remove(&id);
            let page = self.pages.remove(&id).expect("what is empty is there");
            self.placement.freed(id);
            if page.linked {
                self.count_writes(page.copies);
            }
            if self.lose_entry(id.parent()) {
                empty.push(id.parent());
            }
        }
    }

    /// Whether the page has no entry now.
    fn lose_entry(&mut self, id: PageId) -> bool {
        let page = self.page_mut(id);
        page.entries -= 1;
        let is_empty = page.entries == 0;
        if is_empty {
            self.empty.insert(id);
        }
        is_empty
    }

    /// The address space ended, with its tables.
    pub fn gone(&mut self, asid: Asid) {
        let placement = &mut self.placement;
        self.empty.retain(|id| id.asid != asid);
        self.pages.retain(|id, _| {
            if id.asid == asid {
                placement.freed(*id);
            }
            id.asid != asid
        });
    }
}

impl Follow for Tree {
    fn map(&mut self, mapping: Mapping, _own: &mut OwnCounts) {
        let (id, index) = leaf(mapping);
        self.make(id);
        self.page_mut(id).entries += 1;
        // A page of the table that the superpage makes idle is kept, until it is split or its pages are unmapped.
        if id.level > 0
            && let Some(page) = self.pages.get_mut(&PageId::of(mapping.asid, mapping.vpn, id.level - 1))
        {
            page.linked = false;
        }
        let nodes = self.heirs | 1 << self.by;
        if self.copies_on_demand() {
            self.copy_to(id, nodes);
        }
        let page = *self.page(id);
        for node in (0..64).filter(|node| nodes >> node & 1 != 0) {
            self.placement.entered(id, index, &page, node);
        }
    }

    fn unmap(&mut self, mapping: Mapping, _own: &mut OwnCounts) {
        let (id, index) = leaf(mapping);
        self.placement.cleared(id, index);
        self.lose_entry(id);
    }
}
