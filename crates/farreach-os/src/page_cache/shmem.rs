//! Folios of shared anonymous memory, by size (PGC-7).

use crate::object::ObjectId;
use crate::os::Os;
use crate::placement::contract::FrameRequest;
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::{Asid, Vpn};

/// Which shared memory gets folios of a size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SharedSize {
    /// All that does not refuse.
    Always,
    /// Where the folio ends inside the memory that was mapped.
    WithinSize,
    /// What asked by madvise.
    Advise,
}

/// Sizes of folios of shared memory.
#[derive(Clone, Debug, Default)]
pub struct SharedSizes(Vec<(u32, SharedSize)>);

impl SharedSizes {
    /// Orders with their modes, in any order.
    pub fn new(mut sizes: Vec<(u32, SharedSize)>) -> SharedSizes {
        sizes.sort_unstable_by_key(|(order, _)| std::cmp::Reverse(*order));
        SharedSizes(sizes)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The largest order; 0: there is none.
    pub fn largest(&self) -> u32 {
        self.0.first().map_or(0, |(order, _)| *order)
    }
}

impl Os {
    /// A fault on a page of shared memory: if it is not in memory, brings in the largest folio that is allowed, of
    /// whose aligned group in the object nothing is in memory, and for which there is a block. If there is none, the
    /// page gets its frame as others do.
    pub(super) fn shared_folio(&mut self, asid: Asid, vpn: Vpn, region: &Region) {
        let page = region.page_of(vpn);
        let advice = self.huge_advice(asid, region);
        if self.memory.frame_of(region.object, page).is_some() || advice == HugeAdvice::NoHuge {
            return;
        }
        let request = self.request_for(asid, vpn, region);
        self.memory.alloc.prefer_zeroed(true);
        for at in 0..self.memory.page_cache.shared.0.len() {
            let (order, mode) = self.memory.page_cache.shared.0[at];
            let first = page >> order << order;
            let end = self.memory.objects.get(region.object).ends().1;
            let allowed = match mode {
                SharedSize::Always => true,
                SharedSize::WithinSize => first + (1 << order) <= end,
                SharedSize::Advise => advice == HugeAdvice::Huge,
            };
            let index = &self.memory.objects.get(region.object).page_index;
            if !allowed || index.any_in(first..first + (1 << order)) {
                continue;
            }
            let request = FrameRequest { vpn: Vpn(vpn.0.wrapping_sub(page - first)), page: first, ..request };
            let effort = self.placement.effort(advice, order as u8);
            if let Some(base) = self.superpage_block(request, order as u8, effort) {
                self.memory.fill_run(region.object, first, base, 1 << order);
                return self.add_shared(region.object, first, order);
            }
            self.memory.counts.superpage_fallbacks += 1;
        }
    }

    fn add_shared(&mut self, object: ObjectId, first: u64, order: u32) {
        let mut cache = std::mem::take(&mut self.memory.objects.get_mut(object).cache);
        self.memory.page_cache.add(&mut cache, object, first, order, false, false);
        self.memory.objects.get_mut(object).cache = cache;
    }
}
