//! Tailored page sizes (OS-TPS; Guvenilir and Patt, ISCA 2020): superpages of every power of two up to a largest one.
//! The first touch holds back the largest aligned block that the request around the page has room for; groups become
//! superpages order by order, and are split by halving.

use super::cap::ALLOCATOR;
use super::contract::{Filling, FrameRequest, Placement, PlacementKind, SuperpageRule};
use crate::memory::Memory;
use crate::reservations::{Reservations, Rules};
use farreach_types::addr::{Pfn, VpnRange};
use farreach_types::params::{Allowed, Key, Params};

const LARGEST: Key = Key {
    name: "tps_largest",
    default: "1G",
    allowed: Allowed::PageSize { min: 8192, max: 1 << 30 },
    about: "the largest superpage, as far as max_order has blocks of its size (OS-TPS-1)",
};
const THRESHOLD: Key = Key {
    name: "tps_threshold",
    default: "1.0",
    allowed: Allowed::Number { min: 0.0, max: 1.0 },
    about: "share of a group's pages that faults must bring in before the rest is zeroed and all of it is promoted, \
            the largest such group (OS-TPS-2); 1.0: order by order when both halves are there; tried order by order, \
            0.51 to 0.99 would have no effect",
};
pub(super) const MAX_ORDER: Key = Key {
    name: "max_order",
    default: "19",
    allowed: Allowed::Int { min: 1, max: 32 },
    about: "orders of the buddy allocator; its largest block has 2^(max_order-1) base pages (19: 1G; stock Linux 11)",
};

/// Registry entry.
pub const TPS: PlacementKind = PlacementKind {
    name: "tps",
    about: "superpages of every power of two: blocks held back at the first touch, promoted order by order (TPS)",
    keys: &[&LARGEST, &THRESHOLD, &ALLOCATOR, &MAX_ORDER],
    build,
};

struct Tps {
    largest: u32,
    /// `None`: all pages of a group.
    threshold: Option<f64>,
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let largest = params.order(LARGEST.name, params.int(LARGEST.name))?;
    if largest == 0 {
        return Err(format!(
            "{} = {} is not allowed: that is page_size; it must be larger",
            LARGEST.name,
            params.int(LARGEST.name)
        ));
    }
    let share = params.number(THRESHOLD.name);
    Ok(Box::new(Tps { largest, threshold: (share < 1.0).then_some(share) }))
}

impl Tps {
    /// OS-TPS-1: holds back the largest block for which the request has a group around the page, and memory a block.
    fn reserve(&self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        let sizes = memory.reservations.orders().len();
        for size in (1..sizes).rev() {
            let order = memory.reservations.orders()[size];
            let pages = 1 << order;
            let object = memory.objects.get(request.object);
            let group = VpnRange { start: request.vpn.align_down(order), pages };
            let Some(first) = request.page.checked_sub(request.vpn.offset_in(order)) else { continue };
            if !object.private
                || group.and(request.room) != group
                || object.page_index.any_in(first..first + pages)
                || memory.reservations.overlaps(request.object, first, pages)
            {
                continue;
            }
            if let Some(base) = memory.alloc_block(order) {
                memory.hold(request.object, first, size, base);
                return memory.take_held(request.object, request.page);
            }
            memory.counts.failed_region_allocs += 1;
        }
        None
    }
}

impl Placement for Tps {
    fn set_up(&mut self, memory: &mut Memory) -> Result<(), String> {
        let blocks = memory.alloc.blocks().expect("the key allows no other allocator").max_order();
        let orders = (0..=self.largest.min(blocks - 1)).collect();
        memory.reservations = Reservations::new(Rules { orders, oldest: true, ..Rules::default() });
        Ok(())
    }

    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        if let Some(pfn) = memory.take_held(request.object, request.page) {
            memory.counts.reservations_honoured += 1;
            return Some(pfn);
        }
        self.reserve(memory, request).or_else(|| memory.alloc_frame(request.vpn))
    }

    fn superpage_rule(&self) -> Option<SuperpageRule> {
        Some(SuperpageRule::InPlace)
    }

    /// OS-TPS-2. Order by order a share between a half and all would be no less than all: one page of two is a half.
    fn filling(&self) -> Option<Filling> {
        self.threshold.map(Filling::Share)
    }

    fn counters(&self, memory: &Memory) -> Vec<(String, u64)> {
        let (tally, orders) = (&memory.reservations.tally, memory.reservations.orders());
        let mut counters = tally.by_size(orders);
        let single = [
            ("promotions", tally.promoted.iter().sum()),
            ("preempted", tally.preempted),
            ("filled_pages", tally.filled),
        ];
        counters.extend(single.map(|(name, count)| (name.to_owned(), count)));
        counters
    }
}

#[cfg(test)]
mod tests;
