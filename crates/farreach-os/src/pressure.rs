//! Memory is full: taking frames back (F-7, RMM15-29, DS13-22).

use crate::contract::What;
use crate::os::Os;
use crate::ranges::policy::Reclaim;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use std::ops::Range;

/// Pages that are taken back at a time.
const BATCH: usize = 512;

impl Os {
    /// Frees some frames. False if there are none to take back.
    pub(super) fn make_room(&mut self) -> bool {
        self.drop_cache()
            || self.split_block()
            || self.memory.release_held_early()
            || self.placement.release_kept(&mut self.memory, None)
            || self.reclaim_unused()
            || self.lend_from_pool()
    }

    /// Takes back pages that were mapped together with others and never touched: they hold only zeros (F-7). Accessed
    /// and modified bits do not show this, because eager paging sets them for all pages (AMB-97). This model has the
    /// information that a walk of a dissolved range would collect.
    fn reclaim_unused(&mut self) -> bool {
        if self.reclaim == Reclaim::Never {
            return false;
        }
        let all = self.all_pages();
        let mut unused: Vec<(Asid, Vpn)> = Vec::new();
        for (i, space) in self.spaces.iter().enumerate() {
            let pages = space.table.idle(BATCH - unused.len(), all);
            unused.extend(pages.into_iter().map(|v| (Asid(i as u32), v)));
            if unused.len() == BATCH {
                break;
            }
        }
        let mut freed = false;
        for (asid, vpn) in unused {
            let region = self.region(asid, vpn);
            let pfn = self.space(asid).table.get(vpn).expect("just listed").pfn;
            if !self.memory.objects.get(region.object).private || self.memory.mappings(pfn) > 1 {
                continue;
            }
            freed = true;
            if self.reclaim == Reclaim::Dissolve {
                self.dissolve(asid, vpn);
            }
            self.give_up_page(asid, vpn);
            self.memory.counts.reclaimed_pages += 1;
        }
        self.memory.release_freed();
        freed
    }

    /// Splits the next block that is partly unmapped, with what is mapped of it (LNX-21, CPT-3), or of which too many
    /// pages hold zeros, and frees those (LNX-22). False if there is none.
    fn split_block(&mut self) -> bool {
        if let Some(frames) = self.memory.split_folio() {
            self.make_block_base_pages(&frames);
            return true;
        }
        let Some(frames) = self.memory.folios.take_underused() else { return false };
        self.make_block_base_pages(&frames);
        let runs = self.runs_of(&frames);
        for of_one in runs.chunk_by(|a, b| a.0 == b.0) {
            let since = self.changes.len();
            for &(asid, pages, first) in of_one {
                let zeros: Vec<Vpn> = (first.0..)
                    .zip(pages.iter())
                    .filter(|&(frame, _)| self.memory.holds_zeros(Pfn(frame)))
                    .map(|(_, vpn)| vpn)
                    .collect();
                zeros.iter().for_each(|vpn| self.give_up_zeros(asid, *vpn));
                self.memory.folios.took(zeros.len() as u64);
            }
            self.join_changes(since);
        }
        self.memory.release_freed();
        true
    }

    /// What private anonymous memory maps of these frames: process, pages, the frame of the first.
    fn runs_of(&self, frames: &Range<u64>) -> Vec<(Asid, VpnRange, Pfn)> {
        let mut all = Vec::new();
        for asid in (0..self.spaces.len() as u32).map(Asid) {
            for range in self.private_anonymous(asid) {
                for run in self.spaces[asid.0 as usize].table.runs_in(range) {
                    let pfn = run.entry.pfn.0;
                    let (first, end) = (pfn.max(frames.start), (pfn + run.pages).min(frames.end));
                    if first < end {
                        let pages = VpnRange { start: Vpn(run.first.0 + (first - pfn)), pages: end - first };
                        all.push((asid, pages, Pfn(first)));
                    }
                }
            }
        }
        all
    }

    /// The superpages that map parts of a block that was split are base pages from now on.
    fn make_block_base_pages(&mut self, frames: &Range<u64>) {
        let order = (frames.end - frames.start).ilog2();
        if self.placement.split_into(order) == 0 {
            return; // None is left of a block that is partly unmapped, and others fall into base pages as they change.
        }
        for (asid, pages, _) in self.runs_of(frames) {
            let leaves = self.scan_leaves(asid, pages).into_iter().filter(|leaf| leaf.order > 0).collect();
            self.make_base_pages(asid, leaves);
        }
    }

    /// As [`Os::give_up_page`], for a page that holds zeros: where the policy has a page of zeros, it maps that.
    fn give_up_zeros(&mut self, asid: Asid, vpn: Vpn) {
        self.give_up_page(asid, vpn);
        if self.placement.zero_page().is_some() {
            let region = self.region(asid, vpn);
            self.map_zeros(asid, VpnRange::one(vpn), &region);
        }
    }

    /// A page of private memory is unmapped, and its contents are dropped; a superpage around it is split. The caller
    /// releases what is freed.
    pub(crate) fn give_up_page(&mut self, asid: Asid, vpn: Vpn) {
        let region = self.region(asid, vpn);
        self.demote(asid, vpn);
        self.unmap_page(asid, vpn);
        let page = region.page_of(vpn);
        self.memory.forget(region.object, page, page + 1, false);
        self.change(asid, VpnRange::one(vpn), What::Stale);
        self.sync_ranges(asid);
    }

    /// Whether a page is mapped here alone and holds zeros, as far as is known (OSC-3).
    pub(crate) fn holds_zeros(&self, asid: Asid, vpn: Vpn) -> bool {
        let entry = self.spaces[asid.0 as usize].table.get(vpn);
        entry.is_some_and(|e| self.memory.mappings(e.pfn) == 1 && self.memory.holds_zeros(e.pfn))
    }
}
