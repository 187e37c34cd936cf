//! Pages of zeros (LNX-2, LNX-4).

use super::PlainLinux;
use crate::paging::{Entry, Full};
use crate::superpages::group;
use crate::system::System;

impl PlainLinux {
    /// A load or fetch of a page that is not there.
    pub(super) fn load(&mut self, process: u32, page: u64) -> Result<(), Full> {
        let known = self.paging.known(process, page);
        if !self.config.zero_page || !known.private() {
            return self.fault(process, page);
        }
        self.paging.counts.page_faults += 1;
        let group = group(page, self.config.pmd);
        let large = self.eligible(process, page) && self.paging.mapped(process, group.clone()).is_empty();
        let base = (large && !self.config.huge_zero_page).then(|| self.paging.frames.block(self.config.pmd));
        if let Some(Some(base)) = base {
            self.paging.fault_superpage(process, &group, base);
            self.keep_block(base, self.config.pmd);
        } else if large && self.config.huge_zero_page {
            let entry = Entry { order: self.config.pmd, ..Entry::zeros() };
            group.for_each(|page| self.paging.enter(process, page, entry));
            self.own.huge_zero_faults += 1;
        } else {
            self.paging.counts.superpage_fallbacks += u64::from(large);
            self.paging.enter(process, page, Entry::zeros());
            self.own.zero_faults += 1;
        }
        self.faulted(process, page);
        Ok(())
    }

    /// The first store to a page of zeros.
    pub(super) fn replace_zeros(&mut self, process: u32, page: u64, entry: Entry) -> Result<(), Full> {
        if entry.order > 0 {
            let covered = self.paging.covers(process, page, entry.order);
            if let Some(base) = covered.then(|| self.paging.frames.block(entry.order)).flatten() {
                self.paging.fault_superpage(process, &group(page, entry.order), base);
                self.keep_block(base, entry.order);
                self.own.huge_zeros_replaced += 1;
                return Ok(());
            }
            self.paging.counts.superpage_fallbacks += u64::from(covered);
            self.paging.split(process, page);
        }
        let frame = self.frame_to_copy().ok_or(Full)?;
        self.paging.counts.zeroed_pages += 1;
        self.own.zeros_replaced += 1;
        self.paging.enter(process, page, Entry::base(frame));
        Ok(())
    }
}
