//! Events of programs.

use super::PlainHuge;
use crate::paging::Entry;
use crate::program::{Page, moved, pages};
use crate::superpages::group;
use crate::system::System;
use farreach_types::event::{Advice, Backing, Mapping, Op};
use std::ops::Range;

impl PlainHuge {
    pub(super) fn follow_all(&mut self, process: u32, op: &Op) {
        match op {
            Op::Map(mapping) => self.map(process, mapping),
            Op::Unmap { start, len } => self.unmap(process, pages(*start, *len)),
            Op::Remap { .. } => self.remap(process, op),
            Op::Protect { start, len, prot } => self.paging.protect(process, pages(*start, *len), *prot),
            Op::Advise { start, len, advice } => {
                let range = pages(*start, *len);
                match advice {
                    Advice::DontNeed => {
                        self.paging.split_at_ends(process, range.clone());
                        self.paging.programs.discard(process, range);
                    }
                    Advice::HugePage => self.paging.programs.advise(process, range, true),
                    Advice::NoHugePage => self.paging.programs.advise(process, range, false),
                    Advice::WillNeed | Advice::Collapse => {}
                    Advice::Populate => self.populate(process, range),
                }
            }
            Op::Thp(rule) => self.paging.programs.space(process).thp = *rule,
            Op::Fork { child } => self.paging.fork(process, child.0),
            Op::End(_) => self.paging.programs.end(process),
            _ => {}
        }
        self.give_back();
    }

    fn map(&mut self, process: u32, mapping: &Mapping) {
        let range = pages(mapping.start, mapping.len);
        let kept = self.taken_over(process, mapping);
        let entries: Vec<(u64, Entry)> =
            kept.iter().filter_map(|page| Some((*page, self.entry(process, *page)?))).collect();
        // The pages between them are unmapped, piece by piece.
        let mut gap = range.start;
        for page in kept.into_iter().chain([range.end]) {
            self.paging.split_at_ends(process, gap..page);
            gap = page + 1;
        }
        let entries: Vec<(u64, Entry)> =
            entries.into_iter().map(|(page, _)| (page, self.entry(process, page).expect("it stayed"))).collect();
        self.paging.programs.map(process, mapping);
        self.paging.space(process).table.extend(entries);
    }

    /// Pages of rest that a new mapping takes over (OS-7).
    fn taken_over(&mut self, process: u32, mapping: &Mapping) -> Vec<u64> {
        let anonymous = matches!(mapping.backing, Backing::Anonymous | Backing::Heap) && !mapping.shared;
        if !self.rounds() || !anonymous {
            return Vec::new();
        }
        let range = pages(mapping.start, mapping.len);
        let space = self.paging.space(process);
        let mut kept = Vec::new();
        let mut page = range.start;
        while page < range.end {
            let Some(rest) = space.pages.get(&page).filter(|rest| rest.rest) else {
                page += 1;
                continue;
            };
            let region = page..space.region(page).end.min(range.end);
            let shared = space.table.range(region.clone()).any(|(_, entry)| entry.cow);
            if rest.prot == mapping.prot && !shared {
                kept.extend(region.clone());
            }
            page = region.end;
        }
        kept
    }

    fn unmap(&mut self, process: u32, range: Range<u64>) {
        let mut gone: Vec<u64> = range.clone().collect();
        if self.rounds() && !range.is_empty() {
            let order = self.config.orders[0];
            for end in [range.start, range.end - 1] {
                let group = group(end, order);
                let (first, last) = (range.start.max(group.start), range.end.min(group.end));
                let whole = self.entry(process, end).is_some_and(|entry| entry.order == order);
                let part = first..last;
                if !whole || part == group || !gone.contains(&end) {
                    continue;
                }
                if self.only_rest(process, group.clone().filter(|page| !part.contains(page))) {
                    gone.extend(group.filter(|page| !part.contains(page)));
                } else {
                    // OS-8.
                    self.make_rest(process, part.clone());
                    gone.retain(|page| !part.contains(page));
                }
            }
        }
        gone.sort_unstable();
        gone.dedup();
        for run in gone.chunk_by(|low, high| low + 1 == *high) {
            self.remove(process, run[0]..run[run.len() - 1] + 1);
        }
        self.remove_lonely_rest(process);
    }

    fn remove(&mut self, process: u32, range: Range<u64>) {
        self.paging.split_at_ends(process, range.clone());
        self.paging.programs.unmap(process, range);
    }

    /// Whether all that is mapped there is rest.
    fn only_rest(&self, process: u32, mut pages: impl Iterator<Item = u64>) -> bool {
        pages.all(|page| self.page(process, page).is_none_or(|page| page.rest))
    }

    /// Each region becomes rest by itself.
    fn make_rest(&mut self, process: u32, part: Range<u64>) {
        let mut before: Option<(Page, u64)> = None;
        for page in part {
            let Some(of) = self.page(process, page) else { continue };
            let mapping = match before {
                Some((low, mapping)) if low.next() == of => mapping,
                _ => self.paging.programs.fresh_mapping(),
            };
            before = Some((of, mapping));
            let rest = Page { mapping, index: page, huge: None, rest: true, ..of };
            self.paging.space(process).pages.insert(page, rest);
        }
    }

    /// OS-8: groups of which only rest is left.
    fn remove_lonely_rest(&mut self, process: u32) {
        if !self.rounds() {
            return;
        }
        let space = self.paging.space(process);
        let rests: Vec<u64> = space.pages.iter().filter(|(_, page)| page.rest).map(|(page, _)| *page).collect();
        for page in rests {
            let group = group(page, self.config.orders[0]);
            if self.only_rest(process, group.clone()) {
                self.remove(process, group);
            }
        }
    }

    fn remap(&mut self, process: u32, op: &Op) {
        let (old, new) = moved(op).expect("it is an mremap");
        let moves = (old.end - old.start).min(new.end - new.start);
        self.paging.split_at_ends(process, old.start + moves..old.end);
        if old.start == new.start {
            self.paging.split_at_ends(process, new.start + moves..new.end);
        } else {
            self.paging.split_at_ends(process, new.clone());
            (old.start..old.start + moves).for_each(|page| self.paging.split(process, page));
        }
        self.paging.programs.remap(process, old, new);
        self.remove_lonely_rest(process);
    }
}
