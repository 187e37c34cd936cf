//! Events of programs (LNX-20, LNX-21, LNX-23).

use super::PlainLinux;
use crate::program::{moved, pages};
use crate::superpages::{Faults, group};
use farreach_types::event::{Advice, Op};
use std::ops::Range;

impl PlainLinux {
    pub(super) fn follow(&mut self, process: u32, op: &Op) {
        match op {
            Op::Map(mapping) => {
                self.paging.split_at_ends(process, pages(mapping.start, mapping.len));
                self.paging.programs.map(process, mapping);
            }
            Op::Unmap { start, len } => {
                let range = pages(*start, *len);
                self.paging.split_at_ends(process, range.clone());
                self.paging.programs.unmap(process, range);
            }
            Op::Remap { .. } => self.remap(process, op),
            Op::Protect { start, len, prot } => self.paging.protect(process, pages(*start, *len), *prot),
            Op::Advise { start, len, advice } => self.advise(process, pages(*start, *len), *advice),
            Op::Thp(rule) => self.paging.space(process).thp = *rule,
            Op::Fork { child } => self.paging.fork(process, child.0),
            Op::End(_) => {
                self.paging.programs.end(process);
                self.leave(process);
            }
            _ => {}
        }
        self.give_back();
    }

    fn advise(&mut self, process: u32, range: Range<u64>, advice: Advice) {
        match advice {
            Advice::DontNeed => {
                self.paging.split_at_ends(process, range.clone());
                self.paging.programs.discard(process, range);
            }
            Advice::HugePage => {
                self.paging.programs.advise(process, range.clone(), true);
                // OK-3: all of a region that the range touches.
                let space = self.paging.space(process);
                let inside: Vec<u64> = range.filter(|page| space.pages.contains_key(page)).collect();
                let regions: Vec<Range<u64>> = inside.into_iter().map(|page| space.region(page)).collect();
                if regions.into_iter().flatten().any(|page| self.eligible(process, page)) {
                    self.enter(process);
                }
            }
            Advice::NoHugePage => self.paging.programs.advise(process, range, false),
            Advice::WillNeed => {}
            Advice::Populate => self.populate(process, range),
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
            self.split_to_move(process, old.start..old.start + moves, new.start);
            let young: Vec<u64> = (0..moves).filter(|at| self.young.remove(&(process, old.start + at))).collect();
            new.clone().for_each(|page| _ = self.young.remove(&(process, page)));
            self.young.extend(young.into_iter().map(|at| (process, new.start + at)));
        }
        self.paging.programs.remap(process, old, new);
    }

    /// LNX-20, for all sizes: what moves as a whole to an aligned place stays.
    fn split_to_move(&mut self, process: u32, from: Range<u64>, to: u64) {
        for page in from.clone() {
            let order = self.entry(process, page).map_or(0, |entry| entry.order);
            let whole = group(page, order);
            let aligned = to.wrapping_sub(from.start).is_multiple_of(1 << order);
            if !aligned || whole.start < from.start || whole.end > from.end {
                self.paging.split(process, page);
            } else if order > 0 && page == whole.start {
                self.own.moved += 1;
            }
        }
    }
}
