//! The pages of the page tables, with their copies on nodes.

use super::{Nodes, Placement};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Level from 0 for the last, and the page number without what the levels up to it translate.
pub(super) type Place = (u32, u64);

/// A page of the page table.
pub(super) struct TablePage {
    pub owner: usize,
    pub copies: BTreeSet<usize>,
    /// Whether the page above has a link to it.
    linked: bool,
    /// For each mapping, the nodes whose copies have it.
    entries: BTreeMap<u64, BTreeSet<usize>>,
}

pub(super) type Tree = BTreeMap<Place, TablePage>;

/// The node of what lies where no core is.
const NOWHERE: usize = usize::MAX;

impl Nodes {
    /// OS-NPT-1: a light fault.
    pub(super) fn copy(&mut self, asid: u32, vpn: u64, leaf: u32, node: usize) {
        self.give(asid, place(vpn, leaf), &BTreeSet::from([node]));
        let group = index(vpn, leaf) >> self.config.prefetch << self.config.prefetch;
        let entries = &mut self.trees.get_mut(&asid).unwrap().get_mut(&place(vpn, leaf)).unwrap().entries;
        let copied = entries.range_mut(group..group + (1 << self.config.prefetch));
        let copied = copied.map(|(_, holders)| usize::from(holders.insert(node))).sum();
        self.count("copied_entries", copied);
    }

    /// Nodes get copies of a page of the table, and of those on the way to it, with the links.
    fn give(&mut self, asid: u32, (level, at): Place, nodes: &BTreeSet<usize>) {
        for above in level..self.config.levels {
            let page = self.trees.get_mut(&asid).unwrap().get_mut(&(above, at >> (9 * (above - level)))).unwrap();
            let before = page.copies.len();
            page.copies.extend(nodes);
            let new = page.copies.len() - before;
            self.count("pt_pages", new);
            self.count("pt_copies", new);
            self.count("copied_entries", if above + 1 < self.config.levels { new } else { 0 });
        }
    }

    /// Whether the copy of this node has the entry.
    pub(super) fn has(&self, asid: u32, (level, vpn): (u32, u64), node: usize) -> bool {
        let page = &self.trees[&asid][&place(vpn, level)];
        page.entries.get(&index(vpn, level)).is_some_and(|holders| holders.contains(&node))
    }

    fn is_leaf(&self, asid: u32, vpn: u64, level: u32) -> bool {
        let page = self.trees.get(&asid).and_then(|tree| tree.get(&place(vpn, level)));
        page.is_some_and(|page| page.entries.contains_key(&index(vpn, level)))
    }

    /// Mappings that there are of these pages, by level and number.
    fn leaves(&self, asid: u32, pages: &Range<u64>) -> Vec<Place> {
        let all = self.trees.get(&asid).into_iter().flatten();
        let all = all.flat_map(|(&(level, _), page)| page.entries.keys().map(move |&at| (level, at)));
        all.filter(|&leaf| overlap(&span(leaf), pages)).collect()
    }

    /// These pages are mapped now, or in other sizes. `now`: their entries, as first page and order.
    pub fn mapped(&mut self, asid: u32, pages: &Range<u64>, now: &BTreeSet<(u64, u8)>) {
        let mut split = BTreeMap::new();
        for leaf in self.leaves(asid, pages) {
            if !now.contains(&(span(leaf).start, 9 * leaf.0 as u8)) {
                let page = self.trees.get_mut(&asid).unwrap().get_mut(&above(leaf)).unwrap();
                page.entries.remove(&leaf.1);
                split.insert(leaf, page.copies.clone());
                self.late.push((asid, span(leaf), page.copies.clone()));
            }
        }
        for &(first, order) in now {
            let level = level_of(order);
            if !self.is_leaf(asid, first, level) {
                let sharers = split.get(&up((level, index(first, level)))).cloned().unwrap_or_default();
                self.put(asid, first, level, sharers);
            }
        }
    }

    /// An entry that was not there, with the pages on the way to it. `sharers`: of the superpage that it was part of.
    fn put(&mut self, asid: u32, vpn: u64, leaf: u32, sharers: BTreeSet<usize>) {
        let node = self.node(self.now);
        let on_demand = self.config.placement == Placement::OnDemand;
        let heirs = if on_demand { sharers } else { BTreeSet::new() };
        for level in (leaf..self.config.levels).rev() {
            let at = place(vpn, level);
            let tree = self.trees.entry(asid).or_default();
            let is_new = !tree.contains_key(&at);
            let page = tree.entry(at).or_insert_with(|| {
                let (owner, copies) = match self.config.placement {
                    Placement::Replicated => (0, (0..self.config.replicas).collect()),
                    Placement::Away => (NOWHERE, BTreeSet::from([NOWHERE])),
                    Placement::FirstTouch | Placement::OnDemand => (node, BTreeSet::from([node])),
                };
                TablePage { owner, copies, linked: false, entries: BTreeMap::new() }
            });
            if is_new && level == leaf {
                page.copies.extend(&heirs);
            }
            let (n, links, copies) = (page.copies.len(), !page.linked, page.copies.clone());
            page.linked = true;
            self.count("pt_pages", if is_new { n } else { 0 });
            self.count("pt_copies", if is_new { n - 1 } else { 0 });
            if level + 1 < self.config.levels && links {
                self.written(n);
                if on_demand {
                    self.give(asid, place(vpn, level + 1), &copies);
                }
            }
        }
        if on_demand {
            self.give(asid, place(vpn, leaf), &heirs.iter().copied().chain([node]).collect());
        }
        let tree = self.trees.get_mut(&asid).unwrap();
        // OND-3.
        if let Some(kept) = leaf.checked_sub(1).and_then(|below| tree.get_mut(&(below, index(vpn, leaf)))) {
            kept.linked = false;
        }
        let page = tree.get_mut(&place(vpn, leaf)).unwrap();
        // OND-8.
        let some = heirs.into_iter().chain([node, page.owner]).collect();
        let holders = if on_demand { some } else { page.copies.clone() };
        let n = holders.len();
        page.entries.insert(index(vpn, leaf), holders);
        self.written(n);
    }

    /// OS-MIT-2, OS-NPT-2: an entry is written in all copies that have it.
    fn written(&mut self, copies: usize) {
        self.count("pt_writes", copies);
        self.count("replica_writes", copies - 1);
    }

    /// Changes that come now free page tables, or none.
    pub fn request(&mut self, tables: bool) {
        self.frees = tables;
    }

    /// These pages have changed, and have these entries now.
    pub fn unmapped(&mut self, asid: u32, pages: &Range<u64>, now: &BTreeSet<(u64, u8)>) {
        for leaf in self.leaves(asid, pages) {
            let entries = &mut self.trees.get_mut(&asid).unwrap().get_mut(&above(leaf)).unwrap().entries;
            let holders = entries[&leaf.1].len();
            if !now.contains(&(span(leaf).start, 9 * leaf.0 as u8)) {
                entries.remove(&leaf.1);
            }
            self.written(holders);
        }
        let freed = if self.frees { 0..self.config.levels - 1 } else { 0..0 };
        for level in freed {
            let Some(tree) = self.trees.get_mut(&asid) else { return };
            let empty = |at: &Place| {
                let has_below = tree.keys().any(|below| up(*below) == *at);
                tree[at].entries.is_empty() && !has_below
            };
            let of_level = tree.keys().filter(|at| at.0 == level && overlap(&span((level + 1, at.1)), pages));
            let gone: Vec<_> = of_level.filter(|at| empty(at)).copied().collect();
            let gone: Vec<_> = gone.into_iter().map(|at| tree.remove(&at).unwrap()).collect();
            gone.into_iter().filter(|page| page.linked).for_each(|page| self.written(page.copies.len()));
        }
    }

    /// The nodes with a copy of a page of the table that has a mapping of these pages.
    pub(super) fn sharers(&self, asid: u32, pages: &Range<u64>) -> BTreeSet<usize> {
        let leaves = self.leaves(asid, pages).into_iter();
        let now = leaves.flat_map(|leaf| &self.trees[&asid][&above(leaf)].copies);
        let late = self.late.iter().filter(|(of, gone, _)| *of == asid && overlap(gone, pages));
        now.chain(late.flat_map(|(_, _, sharers)| sharers)).copied().collect()
    }
}

pub(super) fn level_of(order: u8) -> u32 {
    u32::from(order) / 9
}

pub(super) fn index(vpn: u64, level: u32) -> u64 {
    vpn >> (9 * level)
}

pub(super) fn place(vpn: u64, level: u32) -> Place {
    (level, vpn >> (9 * (level + 1)))
}

/// The page of the table with an entry.
fn above((level, at): Place) -> Place {
    (level, at >> 9)
}

/// The page with the link to this one, or the entry for a superpage with this one.
fn up((level, at): Place) -> Place {
    (level + 1, at >> 9)
}

/// The pages of an entry.
fn span((level, at): Place) -> Range<u64> {
    at << (9 * level)..(at + 1) << (9 * level)
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}
