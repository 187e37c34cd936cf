//! Events of programs of which Linux makes more than others (LNX-11, LNX-20), and superpages that fall into those of a
//! contiguous bit (CPT-1, CPT-4).

use super::PlainLinux;
use crate::superpages::{ends, group};
use farreach_types::event::Prot;
use std::ops::Range;

impl PlainLinux {
    /// LNX-20, for all sizes: what moves as a whole to an aligned place stays.
    pub(super) fn move_whole(&mut self, process: u32, from: Range<u64>, to: u64) {
        for page in from.clone() {
            while let Some(order) = self.entry(process, page).map(|entry| entry.order).filter(|order| *order > 0) {
                let aligned = to.wrapping_sub(from.start).is_multiple_of(1 << order);
                if aligned && !self.paging.sticks_out(process, page, &from) {
                    self.own.moved += u64::from(page == group(page, order).start);
                    break;
                }
                self.split_once(process, page);
            }
        }
    }

    /// CPT-1: one larger than a contiguous bit is for falls into groups with it, others into base pages (OK-10).
    fn split_once(&mut self, process: u32, page: u64) {
        let Some(entry) = self.entry(process, page) else { return };
        let falls = entry.order > self.config.contpte && !entry.is_zeros();
        self.own.grouped += u64::from(falls && self.config.contpte > 0);
        self.paging.split_into(process, page, if falls { self.config.contpte } else { 0 });
    }

    /// Splits what is around a page as long as that has pages outside of a range.
    fn split_end(&mut self, process: u32, end: u64, range: &Range<u64>) {
        while self.paging.sticks_out(process, end, range) {
            self.split_once(process, end);
        }
    }

    pub(super) fn split_ends(&mut self, process: u32, range: &Range<u64>) {
        ends(range).for_each(|end| self.split_end(process, end, range));
    }

    pub(super) fn split_to_protect(&mut self, process: u32, range: &Range<u64>, prot: Prot) {
        for end in ends(range) {
            if self.paging.page(process, end).is_some_and(|page| page.prot != prot) {
                self.split_end(process, end, range);
            }
        }
    }
}
