//! What plain models with superpages do alike: they split them, keep them after a fork, and populate.

use crate::paging::{Entry, Full, Paging};
use farreach_types::event::Prot;
use std::ops::Range;

/// The aligned group around a page.
pub(crate) fn group(page: u64, order: u32) -> Range<u64> {
    let first = page >> order << order;
    first..first + (1 << order)
}

/// The first and the last page of a range, if it has any.
fn ends(range: &Range<u64>) -> impl Iterator<Item = u64> + use<> {
    range.clone().take(1).chain(range.clone().last())
}

impl Paging {
    /// The pages of the superpage around a page that has an entry.
    pub(crate) fn superpage(&self, process: u32, page: u64) -> Range<u64> {
        self.entry(process, page).map_or(page..page, |entry| group(page, entry.order))
    }

    /// OS-2, LNX-20: the pages of the superpage around a page keep their frames.
    pub(crate) fn split(&mut self, process: u32, page: u64) {
        let pages = self.superpage(process, page);
        if pages.end - pages.start > 1 {
            self.counts.demotions += 1;
            self.space(process).table.range_mut(pages).for_each(|(_, entry)| entry.order = 0);
        }
    }

    fn sticks_out(&self, process: u32, page: u64, range: &Range<u64>) -> bool {
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

    /// Gives pages another protection.
    pub(crate) fn protect(&mut self, process: u32, range: Range<u64>, prot: Prot) {
        for end in ends(&range) {
            let changes = self.page(process, end).is_some_and(|page| page.prot != prot);
            if changes && self.sticks_out(process, end, &range) {
                self.split(process, end);
            }
        }
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

/// A model whose faults may map superpages.
pub(crate) trait Faults {
    fn memory(&mut self) -> &mut Paging;
    /// Serves a fault.
    fn serve(&mut self, process: u32, page: u64) -> Result<(), Full>;

    /// OS-10.
    fn populate(&mut self, process: u32, range: Range<u64>) {
        for page in range {
            let wanted = self.memory().page(process, page).is_some_and(|page| page.prot != Prot::NONE);
            if !wanted || self.memory().entry(process, page).is_some() {
                continue;
            }
            let served = self.serve(process, page);
            self.memory().counts.page_faults -= 1;
            if served.is_err() {
                return;
            }
            self.memory().counts.populated_pages += 1;
        }
    }
}
