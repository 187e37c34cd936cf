//! What plain models with superpages do alike: they map them at faults, split them, keep them after a fork, and
//! collapse groups.

use crate::paging::{Entry, Paging};
use crate::program::Page;
use farreach_types::event::{Prot, ThpRule};
use std::ops::Range;

/// Which memory gets superpages (LNX-1). `inherit` is the value of the key `thp`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Mode {
    Always,
    Madvise,
    Never,
}

/// The aligned group around a page.
pub(crate) fn group(page: u64, order: u32) -> Range<u64> {
    let first = page >> order << order;
    first..first + (1 << order)
}

/// The first and the last page of a range, if it has any.
pub(crate) fn ends(range: &Range<u64>) -> impl Iterator<Item = u64> + use<> {
    range.clone().take(1).chain(range.clone().last())
}

/// Pages of a group that were copied, and those that were not there.
pub(crate) struct Collapsed {
    pub copied: u64,
    pub missing: u64,
}

impl Paging {
    /// LNX-1: whether a page may be in a superpage.
    pub(crate) fn allowed(&self, process: u32, page: &Page, mode: Mode) -> bool {
        page.private() && self.wanted(process, page, mode)
    }

    /// The same of any kind of memory.
    pub(crate) fn wanted(&self, process: u32, page: &Page, mode: Mode) -> bool {
        let mode = match self.programs.spaces[&process].thp {
            ThpRule::Never => Mode::Never,
            ThpRule::Advised if mode == Mode::Always => Mode::Madvise,
            _ => mode,
        };
        match mode {
            Mode::Always => page.huge != Some(false),
            Mode::Madvise => page.huge == Some(true),
            Mode::Never => false,
        }
    }

    /// What is mapped at a page, or is mapped there now that it is referenced (OG-4).
    pub(crate) fn known(&mut self, process: u32, page: u64) -> Page {
        self.page(process, page).unwrap_or_else(|| self.programs.stray(process, page))
    }

    /// Whether the region around a page covers its group.
    pub(crate) fn covers(&self, process: u32, page: u64, order: u32) -> bool {
        let (region, group) = (self.programs.spaces[&process].region(page), group(page, order));
        region.start <= group.start && group.end <= region.end
    }

    /// Whether the group around a page may be a superpage.
    pub(crate) fn eligible(&self, process: u32, page: u64, order: u32, mode: Mode) -> bool {
        let known = self.page(process, page);
        known.is_some_and(|known| self.allowed(process, &known, mode)) && self.covers(process, page, order)
    }

    /// The first page from one on at which a group begins that may be a superpage.
    pub(crate) fn first_eligible(&self, process: u32, from: u64, order: u32, mode: Mode) -> Option<u64> {
        let mut pages = self.programs.spaces[&process].pages.range(from..).map(|(page, _)| *page);
        pages.find(|page| page.is_multiple_of(1 << order) && self.eligible(process, *page, order, mode))
    }

    /// Whether a group could be a superpage anywhere in the regions that a range touches (OK-3).
    pub(crate) fn any_eligible(&self, process: u32, range: Range<u64>, order: u32, mode: Mode) -> bool {
        let space = &self.programs.spaces[&process];
        let mut regions = space.pages.range(range).map(|(page, _)| space.region(*page));
        regions.any(|mut region| region.any(|page| self.eligible(process, page, order, mode)))
    }

    /// LNX-12 but for A: no superpage yet, and few enough pages that are missing or zeros, and that others share.
    pub(crate) fn may_collapse(&self, process: u32, group: &Range<u64>, most_missing: u64, most_shared: u64) -> bool {
        let (present, pages) = (self.present(process, group.clone()), group.end - group.start);
        let shared = present.iter().filter(|entry| self.names(entry.frame) > 1).count() as u64;
        let superpage = self.entry(process, group.start).is_some_and(|entry| 1 << entry.order >= pages);
        let missing = pages - present.len() as u64;
        !superpage && missing <= most_missing && shared <= most_shared
    }

    /// LNX-12: one page has A, too.
    pub(crate) fn qualifies(&self, process: u32, group: &Range<u64>, most_missing: u64, most_shared: u64) -> bool {
        let young = self.present(process, group.clone()).iter().any(|entry| entry.young);
        young && self.may_collapse(process, group, most_missing, most_shared)
    }

    /// Pages of a range that have entries.
    pub(crate) fn mapped(&self, process: u32, range: Range<u64>) -> Vec<(u64, Entry)> {
        self.programs.spaces[&process].table.range(range).map(|(page, entry)| (*page, *entry)).collect()
    }

    /// Entries of a range with pages of memory.
    fn present(&self, process: u32, range: Range<u64>) -> Vec<Entry> {
        let entries = self.programs.spaces[&process].table.range(range).map(|(_, entry)| *entry);
        entries.filter(|entry| !entry.is_zeros()).collect()
    }

    /// LNX-2, LNX-3: maps the largest of these sizes whose group lies in the region, of which nothing is mapped, and
    /// that finds a block. The pages and the first frame of the superpage.
    pub(crate) fn largest(
        &mut self,
        process: u32,
        page: u64,
        orders: impl IntoIterator<Item = u32>,
    ) -> Option<(Range<u64>, u64)> {
        for order in orders {
            let group = group(page, order);
            if !self.mapped(process, group.clone()).is_empty() || !self.covers(process, page, order) {
                continue;
            }
            let Some(base) = self.frames.block(order) else {
                self.counts.superpage_fallbacks += 1;
                continue;
            };
            self.fault_superpage(process, &group, base);
            return Some((group, base));
        }
        None
    }

    /// A fault brings in a superpage.
    pub(crate) fn fault_superpage(&mut self, process: u32, group: &Range<u64>, base: u64) {
        let pages = group.end - group.start;
        self.map_zeroed(process, group, base, pages.ilog2());
        self.counts.superpage_faults += 1;
        self.counts.populated_pages += pages - 1;
    }

    /// A superpage in a block that is zeroed for it.
    pub(crate) fn map_zeroed(&mut self, process: u32, group: &Range<u64>, base: u64, order: u32) {
        for (frame, page) in (base..).zip(group.clone()) {
            self.enter(process, page, Entry { order, ..Entry::base(frame) });
        }
        self.counts.zeroed_pages += 1 << order;
    }

    /// LNX-13: pages are copied to a block, as superpages that are whole are, the others and those of zeros are zeroed,
    /// and all is one superpage. A is that of any page (OK-8).
    pub(crate) fn collapse(&mut self, process: u32, group: &Range<u64>, base: u64) -> Collapsed {
        let copied = self.present(process, group.clone()).len() as u64;
        group.clone().for_each(|page| self.split(process, page));
        let order = (group.end - group.start).ilog2();
        for (frame, page) in (base..).zip(group.clone()) {
            let old = self.entry(process, page);
            if old.is_some_and(|old| self.stored.contains(&old.frame)) {
                self.stored.insert(frame);
            }
            let young = old.is_some_and(|old| old.young);
            self.enter(process, page, Entry { order, young, ..Entry::base(frame) });
        }
        let missing = (1 << order) - copied;
        self.counts.collapses += 1;
        self.counts.gathered_pages += copied;
        self.counts.populated_pages += missing;
        self.counts.zeroed_pages += missing;
        Collapsed { copied, missing }
    }

    /// A of a leaf: of all its pages.
    pub(crate) fn set_young(&mut self, process: u32, page: u64, young: bool) {
        let leaf = self.superpage(process, page);
        self.space(process).table.range_mut(leaf).for_each(|(_, entry)| entry.young = young);
    }

    /// The pages of the superpage around a page that has an entry.
    pub(crate) fn superpage(&self, process: u32, page: u64) -> Range<u64> {
        self.entry(process, page).map_or(page..page, |entry| group(page, entry.order))
    }

    /// OS-2, LNX-20: the pages of the superpage around a page keep their frames.
    pub(crate) fn split(&mut self, process: u32, page: u64) {
        self.split_into(process, page, 0);
    }

    /// The same into superpages of a smaller size.
    pub(crate) fn split_into(&mut self, process: u32, page: u64, order: u32) {
        let pages = self.superpage(process, page);
        if pages.end - pages.start > 1 {
            self.counts.demotions += 1;
            self.space(process).table.range_mut(pages).for_each(|(_, entry)| entry.order = order);
        }
    }

    /// Whether the superpage around a page has pages outside of a range.
    pub(crate) fn sticks_out(&self, process: u32, page: u64, range: &Range<u64>) -> bool {
        let whole = self.superpage(process, page);
        whole.start < range.start || whole.end > range.end
    }

    /// Splits the superpages of which only a part lies in a range.
    pub(crate) fn split_at_ends(&mut self, process: u32, range: Range<u64>) {
        for end in ends(&range) {
            if self.sticks_out(process, end, &range) {
                self.split(process, end);
            }
        }
    }

    /// Splits the superpages of which only a part lies in a range that gets another protection.
    fn split_to_protect(&mut self, process: u32, range: &Range<u64>, prot: Prot) {
        for end in ends(range) {
            let changes = self.page(process, end).is_some_and(|page| page.prot != prot);
            if changes && self.sticks_out(process, end, range) {
                self.split(process, end);
            }
        }
    }

    /// Gives pages another protection.
    pub(crate) fn protect(&mut self, process: u32, range: Range<u64>, prot: Prot) {
        self.split_to_protect(process, &range, prot);
        self.programs.protect(process, range, prot);
    }

    /// LNX-23: a store to a superpage that no other shares any more keeps it whole. False: it is none.
    pub(crate) fn keeps_superpage(&mut self, process: u32, page: u64, entry: Entry) -> bool {
        let whole = group(page, entry.order);
        let alone =
            |page: u64| self.entry(process, page).is_some_and(|entry| entry.cow && self.names(entry.frame) == 1);
        let keeps = entry.order > 0 && whole.clone().all(alone);
        if keeps {
            self.space(process).table.range_mut(whole).for_each(|(_, entry)| entry.cow = false);
        }
        keeps
    }
}
