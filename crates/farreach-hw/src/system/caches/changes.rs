//! Operations of software and operating system on the caches: flush, sweep, protect, keep pages out.

use super::{Caches, NO_SEGMENT};
use crate::cache::Lost;
use crate::system::Space;
use crate::system::global::id_of;
use farreach_types::addr::{Asid, BASE_SHIFT, Vpn, VpnRange};
use farreach_types::counts::SystemCounts;
use farreach_types::translation::{Attr, PageTableView};

impl Caches {
    /// Removes the lines of a page from both sides.
    pub fn flush_page(&mut self, page: u64) {
        let (first, lines) = (page << self.page_lines(), 1u64 << self.page_lines());
        for side in &mut self.sides {
            let step = side.parts().min(lines) as usize;
            for line in (first..first + lines).step_by(step) {
                count_flush(&mut self.counts, side.remove(line));
            }
        }
        self.forget_last();
    }

    /// Removes all lines of an identifier, its page table entries included.
    pub(super) fn flush_id(&mut self, id: u32) {
        let shift = self.line_shift;
        for side in &mut self.sides {
            for lost in side.remove_all(|line| id_of(line << shift) == Some(id)) {
                count_flush(&mut self.counts, Some(lost));
            }
        }
        for page in self.pages.matching(|page, _| id_of(page << BASE_SHIFT) == Some(id)) {
            self.pages.forget(page);
        }
        self.own.retain(|line, _| id_of(line << shift) != Some(id));
        self.freed.push(id);
        self.forget_last();
    }

    /// Mappings changed: lines of pages that were moved or unmapped are flushed, those of pages with another protection
    /// swept (SV97-22). Calls `unmapped` with each page that has another frame or none.
    pub fn changed(&mut self, asid: Asid, range: VpnRange, table: &dyn PageTableView, mut unmapped: impl FnMut(u64)) {
        self.forget_last();
        for global in self.pages.within(asid, range, |vpn| self.global_page(asid, vpn)) {
            let known = *self.pages.get(global).expect("just listed");
            match table.pte(known.asid, known.vpn) {
                _ if self.leave => {}
                Some(pte) if pte.pfn == known.pfn => self.protect_page(global, known.attr, pte.attr),
                _ => {
                    self.flush_page(global);
                    self.pages.forget(global);
                    unmapped(global);
                }
            }
        }
    }

    /// The protection of a page changed.
    fn protect_page(&mut self, page: u64, old: Attr, new: Attr) {
        if old == new {
            return;
        }
        self.pages.set_attr(page, new);
        self.counts.protection_changes += 1;
        if self.lazy_raise && old.0 & !new.0 == 0 {
            self.counts.lazy_raises += 1;
            return;
        }
        let (first, lines) = (page << self.page_lines(), 1u64 << self.page_lines());
        let c = &mut self.counts;
        for (i, side) in self.sides.iter_mut().enumerate() {
            // Only pages that are or were executable have lines on the instruction side.
            if i == 0 && (old.0 | new.0) & Attr::EXEC == 0 {
                continue;
            }
            for line in first..first + lines {
                let attr = self.own.get(&line).copied().unwrap_or(new);
                c.sweep_l1_looked += 1;
                self.l1_misses.swept.add(side.protect_first(line, attr));
                if line % side.parts() == 0 {
                    c.sweep_l2_looked += 1;
                    c.sweep_l2_changed += u64::from(side.protect_second(line, attr));
                }
            }
        }
    }

    /// The address space has ended: removes the lines that only it could reach.
    pub fn gone(&mut self, asid: Asid) {
        self.recent = [NO_SEGMENT; 2];
        for id in self.space.end(asid) {
            self.flush_id(id);
        }
    }

    pub fn switch(&mut self, to: Asid) {
        self.asid = to;
        self.recent = [NO_SEGMENT; 2];
        self.forget_last();
    }

    /// Software gives one line a protection of its own, or takes it back (SV97-23).
    pub fn protect_line(&mut self, asid: Asid, addr: u64, attr: Option<Attr>) -> bool {
        let Some(page) = self.global_page(asid, Vpn(addr >> BASE_SHIFT)) else { return false };
        let line = (page << BASE_SHIFT | addr & ((1 << BASE_SHIFT) - 1)) >> self.line_shift;
        let usual = self.pages.get(page).map_or(Attr(0), |known| known.attr);
        match attr {
            Some(attr) => drop(self.own.insert(line, attr)),
            None => drop(self.own.remove(&line)),
        }
        self.set_line_attr(line, attr.unwrap_or(usual));
        true
    }

    /// Changes what the register of a chunk allows (F-18).
    pub fn protect_segment(&mut self, asid: Asid, addr: u64, attr: Attr) -> bool {
        self.recent = [NO_SEGMENT; 2];
        self.forget_last();
        self.space.protect(asid, Space::chunk(addr), attr)
    }

    /// Flushes the pages of a transfer and keeps them out of the caches until [`Caches::dma_end`] (SV97-19).
    pub fn dma_begin(&mut self, asid: Asid, pages: VpnRange) {
        for vpn in pages.iter() {
            if let Some(page) = self.global_page(asid, vpn) {
                self.flush_page(page);
            }
            self.barred.insert((asid, vpn));
        }
    }

    pub fn dma_end(&mut self, asid: Asid, pages: VpnRange) {
        self.barred.retain(|(owner, vpn)| *owner != asid || !pages.contains(*vpn));
    }
}

fn count_flush(counts: &mut SystemCounts, lost: Option<Lost>) {
    counts.flushed_lines += u64::from(lost.is_some());
    counts.flushed_dirty += u64::from(lost.is_some_and(|lost| lost.dirty));
}
