//! The walker with its caches (OM-6), and the coalescing of contiguous pages (OM-4).

use super::*;

/// A cached entry of the page table: process, its number at its level, last use.
pub(super) type Pointer = (Asid, u64, u64, u64);

impl PlainMmu {
    pub(super) fn walk(&mut self, at: Lookup, from: u8) {
        self.now += 1;
        let (bits, levels) = self.config.shape();
        let number = |level: u8| at.vpn.0 >> (bits * u32::from(level));
        let mut top = levels as u8;
        for level in from + 1..levels as u8 {
            let cache = &mut self.caches[usize::from(level) - 1];
            if let Some(p) = cache.use_one(|p| (p.0, p.1) == (at.asid, number(level))) {
                p.3 = self.now;
                let w = &mut self.counts.walk;
                *[&mut w.pd_cache_hits, &mut w.pdpt_cache_hits, &mut w.pml4_cache_hits, &mut w.pml5_cache_hits]
                    [usize::from(level) - 1] += 1;
                top = level;
                break;
            }
        }
        self.counts.walk.walks += 1;
        for level in (from..top).rev() {
            let w = &mut self.counts.walk;
            *[
                &mut w.pt_references,
                &mut w.pd_references,
                &mut w.pdpt_references,
                &mut w.pml4_references,
                &mut w.pml5_references,
            ][usize::from(level)] += 1;
            if level > from && !self.caches[usize::from(level) - 1].slots.is_empty() {
                let cache = &mut self.caches[usize::from(level) - 1];
                let (slot, _) = cache.victim(0, |p| (p.2, p.3));
                self.now += 1;
                cache.slots[slot] = Some((at.asid, number(level), self.now, self.now));
            }
        }
    }

    pub(super) fn coalesced(&self, at: Lookup, pte: Pte, table: &dyn PageTableView) -> u8 {
        let n = 1u64 << self.config.coalesce;
        if self.config.coalesce <= pte.order || at.vpn.0 % n != pte.pfn.0 % n {
            return pte.order;
        }
        let first = at.vpn.0 / n * n;
        let alike = (first..first + n).all(|v| {
            let expected = pte.pfn.0 / n * n + v - first;
            table.pte(at.asid, Vpn(v)).is_some_and(|p| p.pfn.0 == expected && p.attr == pte.attr)
        });
        if alike { self.config.coalesce } else { pte.order }
    }
}
