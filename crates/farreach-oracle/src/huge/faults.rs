//! Faults, and collapse in the background.

use super::{Background, From, PlainHuge, Shared};
use crate::paging::{Entry, Full};
use crate::program::{Name, Page};
use crate::superpages::group;
use crate::system::System;
use farreach_types::event::ThpRule;
use std::collections::BTreeMap;
use std::ops::Range;

impl PlainHuge {
    pub(super) fn fault(&mut self, process: u32, page: u64) -> Result<(), Full> {
        self.paging.counts.page_faults += 1;
        let known = self.paging.known(process, page);
        for order in self.sizes(process, &known) {
            let group = group(page, order);
            let inside = self.covers(process, page, &group);
            let empty = group.clone().all(|page| self.entry(process, page).is_none());
            if !empty || !inside && !self.rounds_up(process, &known, &group) {
                continue;
            }
            // OS-9.
            let first = (known.mapping, known.index.wrapping_sub(page - group.start));
            if !known.private() {
                if self.shared.get(&first) == Some(&order) && self.in_order(first, order) {
                    self.map_again(process, &group, first, order);
                    return Ok(());
                }
                let contents = (first.0, first.1)..(first.0, first.1 + (1 << order));
                if self.paging.programs.shared.range(contents).next().is_some() {
                    continue;
                }
            }
            let Some(base) = self.block(order) else {
                self.paging.counts.superpage_fallbacks += 1;
                continue;
            };
            self.fill_with_rest(process, &known, &group);
            for (frame, page) in (base..).zip(group.clone()) {
                self.paging.enter(process, page, Entry { order, ..Entry::base(frame) });
            }
            let pages = group.end - group.start;
            if !known.private() {
                self.shared.insert(first, order);
                self.paging.programs.shared.extend((0..pages).map(|at| ((first.0, first.1 + at), base + at)));
            }
            self.paging.counts.superpage_faults += 1;
            self.paging.counts.zeroed_pages += pages;
            self.paging.counts.populated_pages += pages - 1;
            return Ok(());
        }
        self.paging.base_page(process, page)?;
        self.collapse_some(process, page, &known);
        Ok(())
    }

    /// Whether these pages of shared memory have the frames of an aligned block.
    fn in_order(&self, (mapping, first): (u64, u64), order: u32) -> bool {
        let frame = |at: u64| self.paging.programs.shared.get(&(mapping, first + at)).copied();
        let Some(base) = frame(0).filter(|base| base.is_multiple_of(1 << order)) else { return false };
        (1..1 << order).all(|at| frame(at) == Some(base + at))
    }

    /// Maps a superpage of shared memory that is there.
    fn map_again(&mut self, process: u32, group: &Range<u64>, (mapping, first): (u64, u64), order: u32) {
        for (index, page) in (first..).zip(group.clone()) {
            let frame = self.paging.programs.shared[&(mapping, index)];
            self.paging.enter(process, page, Entry { order, ..Entry::base(frame) });
        }
        self.mapped_again += 1;
        self.paging.counts.superpage_faults += 1;
        self.paging.counts.populated_pages += (1 << order) - 1;
    }

    /// The sizes that this memory may have (OS-1).
    fn sizes(&self, process: u32, page: &Page) -> Vec<u32> {
        if !self.superpages_on {
            return Vec::new();
        }
        let rule = self.paging.programs.spaces[&process].thp;
        if page.shared && page.name != Name::File {
            let wanted = |of: &Shared| match rule {
                ThpRule::Never => false,
                ThpRule::Advised => page.huge == Some(true),
                ThpRule::System => page.huge == Some(true) || page.huge.is_none() && !of.by_advice_only,
            };
            return self.config.shared.iter().filter(|of| wanted(of)).map(|of| of.order).collect();
        }
        let wanted = match self.config.from {
            From::Pool { .. } => true,
            _ if rule == ThpRule::Never => false,
            _ if rule == ThpRule::Advised => page.huge == Some(true),
            From::Memory { by_advice_only: true, .. } => page.huge == Some(true),
            From::Memory { .. } => page.huge != Some(false),
        };
        if page.private() && wanted { self.config.orders.clone() } else { Vec::new() }
    }

    /// Whether the region around a page covers a group.
    fn covers(&self, process: u32, page: u64, group: &Range<u64>) -> bool {
        let region = self.paging.programs.spaces[&process].region(page);
        region.start <= group.start && group.end <= region.end
    }

    /// OS-6.
    fn rounds_up(&self, process: u32, page: &Page, group: &Range<u64>) -> bool {
        let pages = &self.paging.programs.spaces[&process].pages;
        let like = |other: &Page| {
            other.private() && other.prot == page.prot && !matches!(other.name, Name::Stack | Name::Kernel)
        };
        self.rounds() && pages.range(group.clone()).all(|(_, other)| like(other))
    }

    /// Each gap of the group becomes rest.
    fn fill_with_rest(&mut self, process: u32, like: &Page, group: &Range<u64>) {
        let mut mapping = None;
        for page in group.clone() {
            if self.page(process, page).is_some() {
                mapping = None;
                continue;
            }
            let id = mapping.unwrap_or_else(|| self.paging.programs.fresh_mapping());
            mapping = Some(id);
            let rest = Page { mapping: id, index: page, huge: None, rest: true, ..*like };
            self.paging.space(process).pages.insert(page, rest);
            self.paging.counts.huge_rest_pages += 1;
        }
    }

    /// A free block (OS-5).
    fn block(&mut self, order: u32) -> Option<u64> {
        if matches!(self.config.from, From::Memory { .. }) {
            return self.paging.frames.block(order);
        }
        let whole = |base: &u64| (*base..base + (1 << order)).all(|frame| self.pool_free.contains(&frame));
        let base = self.pool_free.iter().copied().find(|base| base.is_multiple_of(1 << order) && whole(base))?;
        self.pool_free.retain(|frame| frame >> order != base >> order);
        Some(base)
    }

    /// After a fault with a base page.
    fn collapse_some(&mut self, process: u32, page: u64, known: &Page) {
        let From::Memory { background: Some(background), .. } = self.config.from else { return };
        let Some(&order) = self.config.orders.first().filter(|_| self.collapse_on) else { return };
        let group = group(page, order);
        let waits = (process, group.start);
        // OS-3.
        let wanted = known.private() && self.sizes(process, known).contains(&order);
        if wanted && self.covers(process, page, &group) && !self.waiting.contains(&waits) {
            self.waiting.push_back(waits);
        }
        self.faults += 1;
        if !self.faults.is_multiple_of(background.every) {
            return;
        }
        for _ in 0..background.groups.min(self.waiting.len() as u64) {
            let (process, first) = self.waiting.pop_front().expect("as many as there are");
            if self.waits_on(process, first, order, &background) {
                self.waiting.push_back((process, first));
            }
        }
        // OS-4.
        self.give_back();
    }

    /// Collapses a group if that is possible now. Whether it stays in the queue.
    fn waits_on(&mut self, process: u32, first: u64, order: u32, background: &Background) -> bool {
        let group = group(first, order);
        let Some(page) = self.page(process, first).filter(|_| self.covers(process, first, &group)) else {
            return false;
        };
        let mapped: Vec<(u64, Entry)> =
            group.clone().filter_map(|page| Some((page, self.entry(process, page)?))).collect();
        if !page.private() || mapped.first().is_none_or(|(_, entry)| entry.order >= order) {
            return false;
        }
        let alone = mapped.iter().all(|(_, entry)| !entry.cow && self.paging.names(entry.frame) == 1);
        let missing = group.end - group.start - mapped.len() as u64;
        if !alone || missing > background.missing {
            return true;
        }
        let Some(base) = self.block(order) else { return true };
        mapped.iter().for_each(|(page, _)| self.paging.split(process, *page));
        let node = self.most_common_node(&mapped);
        for (frame, page) in (base..).zip(group) {
            self.paging.enter(process, page, Entry { order, ..Entry::base(frame) });
            self.paging.nodes.insert(frame, node);
        }
        self.paging.counts.collapses += 1;
        self.paging.counts.gathered_pages += mapped.len() as u64;
        self.paging.counts.populated_pages += missing;
        self.paging.counts.zeroed_pages += missing;
        false
    }

    /// The node of most of these pages, the lowest of equal ones.
    fn most_common_node(&self, pages: &[(u64, Entry)]) -> u64 {
        let mut pages_of = BTreeMap::new();
        pages.iter().for_each(|(_, entry)| *pages_of.entry(self.paging.nodes[&entry.frame]).or_insert(0u64) += 1);
        let most = pages_of.values().copied().max();
        pages_of.into_iter().find(|(_, pages)| Some(*pages) == most).map_or(self.paging.node, |(node, _)| node)
    }
}
