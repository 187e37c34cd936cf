//! Two page sizes, one chosen for each piece of an object (PS-6, PS-14, F-22): a large page is allocated whole at the
//! first touch of any part of it (PS-5), and mapped as one.

use super::contract::{FrameRequest, Placement, PlacementKind};
use crate::memory::Memory;
use crate::object::{Object, ObjectKind};
use farreach_types::addr::Pfn;
use farreach_types::params::{Allowed, Key, Params};

const LARGE: Key = Key {
    name: "large",
    default: "256K",
    allowed: Allowed::PageSize { min: 8192, max: 1 << 30 },
    about: "the large page size (PS-14)",
};
const LARGE_OBJECT: Key = Key {
    name: "large_object",
    default: "256K",
    allowed: Allowed::Size { min: 0, or: "any" },
    about: "bytes of an object that is big enough for large pages: what is mapped of it at the time (PS-6)",
};
const LARGE_FREE: Key = Key {
    name: "large_free",
    default: "none",
    allowed: Allowed::Size { min: 0, or: "none" },
    about: "bytes that must stay free after a large page is allocated (PS-6)",
};
const LARGE_KINDS: Key = Key {
    name: "large_kinds",
    default: "heap",
    allowed: Allowed::Texts,
    about: "kinds of object that get large pages: file, nfs, heap (all anonymous memory)",
};

/// Registry entry.
pub const TWO_SIZE: PlacementKind = PlacementKind {
    name: "two-size",
    about: "large pages for large objects while memory is plentiful, allocated whole at the first touch (PS-6)",
    keys: &[&LARGE, &LARGE_OBJECT, &LARGE_FREE, &LARGE_KINDS],
    build,
};

struct TwoSize {
    order: u32,
    object_bytes: u64,
    free_bytes: u64,
    kinds: Vec<ObjectKind>,
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let order = params.order("large", params.int("large"))?;
    if order == 0 {
        return Err(format!("large = {} is not allowed: that is page_size; large must be larger", params.int("large")));
    }
    Ok(Box::new(TwoSize {
        order,
        object_bytes: params.size("large_object").unwrap_or(0),
        free_bytes: params.size("large_free").unwrap_or(0),
        kinds: ObjectKind::named_by(params, "large_kinds")?,
    }))
}

impl TwoSize {
    /// log2 of the base pages to allocate at a first touch (PS-6): both conditions. `free`: bytes that are free;
    /// `None`: unlimited.
    fn size_for(&self, object: &Object, page_bytes: u64, free: Option<u64>) -> u32 {
        let large = page_bytes << self.order;
        let big_enough = object.pages() >= self.object_bytes.div_ceil(page_bytes) && self.kinds.contains(&object.kind);
        let enough_free = free.is_none_or(|free| free >= large + self.free_bytes);
        if big_enough && enough_free { self.order } else { 0 }
    }

    /// The large page around a page, if there is one to allocate. A growing object is checked again at the first touch
    /// of each large page. Pages that have base pages by then keep them.
    fn whole(&self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        let (page_bytes, free) = (memory.page_bytes(), memory.alloc.free_frames());
        let object = memory.objects.get_mut(request.object);
        let width = 1u64 << self.order;
        // Cut by virtual address as the first mapper saw it, like reservations (AMB-7).
        let at = request.page.wrapping_add(object.shift);
        let offset = at & (width - 1);
        let start = i128::from(request.page) - i128::from(offset);
        let page = |i: u64| u64::try_from(start + i128::from(i)).ok();
        if (0..width).filter_map(page).any(|page| object.page_index.get(page).is_some()) {
            return None;
        }
        object.large_groups.remove(&(at >> self.order));
        let inside = (0..width).all(|i| page(i).is_some_and(|page| object.contains(page)));
        if !inside || self.size_for(object, page_bytes, free.map(|frames| frames * page_bytes)) == 0 {
            return None;
        }
        let all: Vec<u64> = (0..width).collect();
        let Some(base) = memory.alloc.alloc_group(self.order, &all) else {
            memory.counts.failed_region_allocs += 1;
            return None;
        };
        let object = memory.objects.get_mut(request.object);
        object.large_groups.insert(at >> self.order);
        let file = object.kind.is_file();
        for i in all.into_iter().filter(|&i| i != offset) {
            memory.fill(request.object, page(i).expect("inside"), Pfn(base.0 + i));
            if file {
                memory.counts.io_bytes += page_bytes;
            }
        }
        Some(Pfn(base.0 + offset))
    }
}

impl Placement for TwoSize {
    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        match self.whole(memory, request) {
            Some(pfn) => Some(pfn),
            None => memory.alloc_frame(request.vpn),
        }
    }

    fn large_page_order(&self) -> Option<u32> {
        Some(self.order)
    }
}
