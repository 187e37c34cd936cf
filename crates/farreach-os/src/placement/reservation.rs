//! Page reservation (T94-43 to T94-52): the first fault in a superpage-sized region of an object holds back an aligned
//! group of frames for the whole region, each page at its own offset. The frames stay available: when no frame is free,
//! the oldest reservations are taken back.

use super::contract::{FrameRequest, Placement, PlacementKind};
use crate::memory::Memory;
use crate::object::ObjectKind;
use farreach_types::addr::Pfn;
use farreach_types::params::{Allowed, Key, Params};

const REGION: Key = Key {
    name: "region",
    default: "64K",
    allowed: Allowed::PageSize { min: 4096, max: 1 << 30 },
    about: "size of the regions that are reserved together; a subblock TLB wants its own (T94-49)",
};
const CLIP: Key = Key {
    name: "clip",
    default: "true",
    allowed: Allowed::Flag,
    about: "reserve the part of a region that lies inside its object; false: only whole regions (T94-50, AMB-10, \
            AMB-11)",
};
const PREFETCH: Key = Key {
    name: "prefetch",
    default: "true",
    allowed: Allowed::Flag,
    about: "start reading the whole region of a disk file at its first fault (T94-52)",
};
const RESERVE: Key = Key {
    name: "reserve",
    default: "file+nfs+heap",
    allowed: Allowed::Texts,
    about: "kinds of object that are reserved: file, nfs, heap (all anonymous memory) (T94-77)",
};

/// Registry entry.
pub const RESERVATION: PlacementKind = PlacementKind {
    name: "reservation",
    about: "page reservation: an aligned group of frames for each region, on loan until memory runs short",
    keys: &[&REGION, &CLIP, &PREFETCH, &RESERVE],
    build,
};

struct Reservation {
    order: u32,
    clip: bool,
    prefetch: bool,
    kinds: Vec<ObjectKind>,
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    Ok(Box::new(Reservation {
        order: params.order("region", params.int("region"))?,
        clip: params.flag("clip"),
        prefetch: params.flag("prefetch"),
        kinds: ObjectKind::named_by(params, "reserve")?,
    }))
}

impl Placement for Reservation {
    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        match self.reserve(memory, request) {
            Some(pfn) => Some(pfn),
            None => memory.alloc_frame(request.vpn),
        }
    }
}

impl Reservation {
    /// Reserves the region around the page, if this is its first fault and there is room: T94-44, steps 1 and 2.
    fn reserve(&self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        let object = memory.objects.get_mut(request.object);
        if !self.kinds.contains(&object.kind) {
            return None;
        }
        let width = 1u64 << self.order;
        // Regions are cut by virtual address as the first mapper saw it (AMB-7, T94-58).
        let at = request.page.wrapping_add(object.shift);
        let offset = at & (width - 1);
        let start = i128::from(request.page) - i128::from(offset);
        if !object.faulted_groups.insert(at >> self.order) {
            return None;
        }
        let inside = |i: u64| u64::try_from(start + i128::from(i)).is_ok_and(|page| object.contains(page));
        if !self.clip && !(0..width).all(inside) {
            return None;
        }
        let covered: Vec<u64> = (0..width).filter(|&i| inside(i)).collect();
        let (kind, Some(base)) = (object.kind, memory.alloc.alloc_group(self.order, &covered)) else {
            memory.counts.failed_region_allocs += 1;
            return None;
        };
        memory.counts.reservations_made += 1;
        let object = memory.objects.get_mut(request.object);
        // Hardware that predicts frames by reservations knows those of 2 MB (SPT-1).
        let groups = if self.order < 9 { 0 } else { width >> 9 };
        object.reservations.extend((0..groups).map(|i| (((at - offset) >> 9) + i, Pfn(base.0 + (i << 9)))));
        let prefetch = self.prefetch && kind == ObjectKind::Disk;
        for i in covered.into_iter().filter(|&i| i != offset) {
            let (page, pfn) = ((start + i128::from(i)) as u64, Pfn(base.0 + i));
            // Remote files and memory are reserved without being read (AMB-23); pages being read are busy (AMB-24).
            if prefetch {
                memory.fill(request.object, page, pfn);
                memory.counts.pages_prefetched += 1;
                memory.counts.io_bytes += memory.page_bytes();
            } else {
                memory.reserve(request.object, page, pfn);
            }
        }
        Some(Pfn(base.0 + offset))
    }
}
