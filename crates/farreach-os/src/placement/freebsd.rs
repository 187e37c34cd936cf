//! Reservations as FreeBSD makes them (FBR; vm_reserv.c of 2025): one size, no preemption for superpages, and
//! superpages of full reservations whose pages are all stored to, or none. A tick is a number of page faults, the clock
//! of this system (OSC-1). Smaller groups of arm64 (FBR-1) are not modelled, and a page that a private mapping of a
//! file copies has no object, so no reservation.

use super::contract::{FrameRequest, Placement, PlacementKind, SuperpageRule};
use super::thp::ALLOCATOR;
use crate::memory::Memory;
use crate::reservations::{Reservations, Rules};
use farreach_types::addr::Pfn;
use farreach_types::params::{Allowed, Key, Params};

pub(super) const PAGES: Key = Key {
    name: "fbr_pages",
    default: "512",
    allowed: Allowed::PowerOfTwo { min: 2, max: 1 << 18 },
    about: "base pages of a reservation, and of its superpage (FBR-1)",
};
pub(super) const TICK: Key = Key {
    name: "fbr_tick",
    default: "1000",
    allowed: Allowed::Int { min: 1, max: u64::MAX },
    about: "page faults in a tick; a reservation moves in the queue once in a tick (FBR-5, OSC-1)",
};

/// Registry entry.
pub const FREEBSD: PlacementKind = PlacementKind {
    name: "freebsd",
    about: "reservations of one size, broken up when memory runs short, promoted when full and alike (FreeBSD)",
    keys: &[&PAGES, &TICK, &ALLOCATOR],
    build,
};

pub(super) struct FreeBsd {
    order: u32,
    tick: u64,
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    Ok(Box::new(FreeBsd::new(params)))
}

impl FreeBsd {
    /// From the keys.
    pub(super) fn new(params: &Params) -> FreeBsd {
        FreeBsd { order: params.int(PAGES.name).trailing_zeros(), tick: params.int(TICK.name) }
    }

    /// FBR-2, FBR-4: a new reservation for the group of a page.
    fn reserve(&self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        let object = memory.objects.get(request.object);
        let pages = 1u64 << self.order;
        // Groups are cut by address as the first mapping has them.
        let index = request.page.wrapping_add(object.shift) & (pages - 1);
        let first = request.page.checked_sub(index)?;
        let (lowest, end) = object.ends();
        // Anonymous objects are numbered by address: the first page that is mapped is page 0 of the rule.
        let fits = if object.kind.is_file() { first + pages <= end } else { first >= lowest };
        if !fits || object.has_any(first, pages) || memory.reservations.overlaps(request.object, first, pages) {
            return None;
        }
        let Some(base) = memory.alloc_block(self.order) else {
            memory.counts.failed_region_allocs += 1;
            return None;
        };
        memory.hold(request.object, first, 1, base);
        memory.take_held(request.object, request.page)
    }

    /// FBR-3, FBR-4 and FBR-6: a frame of a reservation, or an ordinary one.
    fn place(&self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        loop {
            // FBR-3.
            if memory.reservations.of_page(request.object, request.page).is_none() {
                if let Some(pfn) = self.reserve(memory, request) {
                    return Some(pfn);
                }
            } else if let Some(pfn) = memory.take_held(request.object, request.page) {
                memory.counts.reservations_honoured += 1;
                return Some(pfn);
            }
            if let Some(pfn) = memory.alloc.alloc_near(request.vpn) {
                return Some(pfn);
            }
            // FBR-6.
            if !memory.preempt(0) {
                return None;
            }
        }
    }
}

impl Placement for FreeBsd {
    fn set_up(&mut self, memory: &mut Memory) -> Result<(), String> {
        memory.reservations =
            Reservations::new(Rules { orders: vec![0, self.order], tick: self.tick, ..Rules::default() });
        Ok(())
    }

    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        let placed = self.place(memory, request);
        if let Some(own) = &mut memory.objects.get_mut(request.object).own {
            own.extend(placed.map(|_| request.page));
        }
        placed
    }

    fn allocate_copy(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        // FBR-10. The copy of a file's page belongs to no object here.
        if memory.objects.get(request.object).kind.is_file() {
            return memory.alloc_frame(request.vpn);
        }
        self.allocate(memory, request)
    }

    fn forks_objects(&self) -> bool {
        true
    }

    fn superpage_rule(&self) -> Option<SuperpageRule> {
        Some(SuperpageRule::Guard)
    }

    fn counters(&self, memory: &Memory) -> Vec<(String, u64)> {
        let (all, tally) = (&memory.reservations, &memory.reservations.tally);
        let full = all.iter().filter(|held| held.is_full()).count() as u64;
        let counters = [
            ("broken", tally.preempted + tally.ended),
            ("reclaimed", tally.preempted),
            ("freed", tally.freed),
            ("partpop", all.iter().count() as u64 - full),
            ("partpop_unused", all.unused()),
            ("fullpop", full),
            ("promotions", tally.promoted[1]),
            ("promotion_failures", tally.unlike),
            ("demotions", tally.demoted[1]),
            ("mapped_at_once", tally.at_once),
        ];
        counters.map(|(name, count)| (name.to_owned(), count)).into()
    }
}
