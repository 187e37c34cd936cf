//! Reservations of several sizes with preemption (NAV; Navarro et al., OSDI 2002): the first fault in a group of pages
//! holds a block back for all of it, of the largest size that fits; groups that are full become superpages step by
//! step, and reservations break up by sizes when others need their frames. There is no page daemon: NAV-10 and NAV-12
//! are off.

use super::contract::{FrameRequest, Placement, PlacementKind, SuperpageRule};
use super::thp::ALLOCATOR;
use crate::memory::Memory;
use crate::object::{Growth, Object};
use crate::reservations::{Reservations, Rules};
use farreach_types::addr::Pfn;
use farreach_types::params::{Allowed, Key, Params};

const SIZES: Key = Key {
    name: "nav_sizes",
    default: "1+512",
    allowed: Allowed::Texts,
    about: "sizes of reservations in base pages: ascending powers of two, of which 1 is the first (NAV-1)",
};
const DIRTY: Key = Key {
    name: "nav_dirty_rule",
    default: "file",
    allowed: Allowed::OneOf(&["file", "all", "off"]),
    about: "which memory has superpages of clean pages that the first store splits: of files, all, none (NAV-9)",
};
const PREEMPT: Key = Key {
    name: "nav_preempt",
    default: "nearest",
    allowed: Allowed::OneOf(&["nearest", "oldest"]),
    about: "which reservation breaks up: the oldest whose unused part is nearest in size, or the oldest of all (NAV-3)",
};

/// Registry entry.
pub const NAVARRO: PlacementKind = PlacementKind {
    name: "navarro",
    about: "reservations of several sizes, preempted and promoted by size (Navarro et al. 2002)",
    keys: &[&SIZES, &DIRTY, &PREEMPT, &ALLOCATOR],
    build,
};

/// Why a size was not the preferred one (NAV-2), and that there was no extent of it (NAV-3).
#[derive(Clone, Copy)]
enum Refused {
    Overlap,
    Outside,
    Alignment,
    Extent,
}

/// Their names.
const REFUSED: [(&str, Refused); 4] = [
    ("refused_overlap", Refused::Overlap),
    ("refused_outside", Refused::Outside),
    ("refused_alignment", Refused::Alignment),
    ("refused_extent", Refused::Extent),
];

struct Navarro {
    rules: Rules,
    stores: SuperpageRule,
    refused: [u64; REFUSED.len()],
    /// Faults of pages with a reservation.
    honoured: u64,
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let words = params.texts(SIZES.name);
    let pages: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let ascending = pages.windows(2).all(|two| two[0] < two[1]);
    let powers = pages.iter().all(|n| n.is_power_of_two() && *n <= 1 << 18);
    if pages.len() != words.len() || pages.first() != Some(&1) || !ascending || !powers {
        return Err(format!(
            "{} = {} is not allowed: it must be ascending powers of two from 1 to 262144, the first of them 1, joined \
             by +",
            SIZES.name,
            words.join("+")
        ));
    }
    let orders = pages.iter().map(|n| n.trailing_zeros()).collect();
    let stores = match params.text(DIRTY.name) {
        // OAMB-3.
        "off" => SuperpageRule::Whole,
        which => SuperpageRule::Split { files: which == "file" },
    };
    let oldest = params.text(PREEMPT.name) == "oldest";
    let rules = Rules { orders, by_extent: true, oldest, tick: 0 };
    Ok(Box::new(Navarro { rules, stores, refused: [0; REFUSED.len()], honoured: 0 }))
}

/// NAV-2b: whether an object may have a reservation for this group, with the size that it has now (OAMB-4).
fn has_room(object: &Object, first: u64, pages: u64) -> bool {
    let (lowest, end) = object.ends();
    let (above, below, small) = (first >= lowest, first + pages <= end, pages <= end - lowest);
    match object.grows {
        Growth::None => above && below,
        // The end of a heap is above, that of a stack below.
        Growth::Up => above && small,
        Growth::Down => below && small,
    }
}

impl Navarro {
    fn refuse(&mut self, why: Refused) {
        self.refused[why as usize] += 1;
    }

    /// NAV-2: the preferred size for a page without a reservation.
    fn preferred(&mut self, memory: &mut Memory, request: FrameRequest) -> usize {
        let largest = self.rules.orders.len() - 1;
        memory.reservations.tally.nodes += largest as u64;
        for size in (1..=largest).rev() {
            let order = self.rules.orders[size];
            let (first, pages) = (request.page >> order << order, 1 << order);
            let object = memory.objects.get(request.object);
            if memory.reservations.overlaps(request.object, first, pages)
                || object.page_index.any_in(first..first + pages)
            {
                self.refuse(Refused::Overlap);
            } else if !has_room(object, first, pages) {
                self.refuse(Refused::Outside);
            } else if request.vpn.offset_in(order) != request.page - first {
                self.refuse(Refused::Alignment);
            } else {
                return size;
            }
        }
        0
    }

    /// NAV-3: a block of this size. Breaking up reservations comes before making do with less.
    fn extent(&self, memory: &mut Memory, size: usize) -> Option<Pfn> {
        loop {
            let block = memory.alloc_block(self.rules.orders[size]);
            if block.is_some() || !memory.preempt(size) {
                return block;
            }
        }
    }
}

impl Placement for Navarro {
    fn set_up(&mut self, memory: &mut Memory) -> Result<(), String> {
        let largest = 1 << self.rules.orders.last().expect("1 is one of them");
        if let Some(most) = memory.alloc.blocks().map(|blocks| blocks.max_block()).filter(|most| *most < largest) {
            return Err(format!(
                "{} is not allowed with these max_order: the largest block has {most} pages, and the largest size \
                 {largest}",
                SIZES.name
            ));
        }
        memory.reservations = Reservations::new(self.rules.clone());
        Ok(())
    }

    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        if let Some(pfn) = memory.take_held(request.object, request.page) {
            memory.counts.reservations_honoured += 1;
            self.honoured += 1;
            return Some(pfn);
        }
        for size in (1..=self.preferred(memory, request)).rev() {
            if let Some(base) = self.extent(memory, size) {
                let order = self.rules.orders[size];
                memory.hold(request.object, request.page >> order << order, size, base);
                return memory.take_held(request.object, request.page);
            }
            memory.counts.failed_region_allocs += 1;
            self.refuse(Refused::Extent);
        }
        memory.alloc_frame(request.vpn)
    }

    fn superpage_rule(&self) -> Option<SuperpageRule> {
        Some(self.stores)
    }

    fn counters(&self, memory: &Memory) -> Vec<(String, u64)> {
        let tally = &memory.reservations.tally;
        let mut counters = tally.by_size(&self.rules.orders);
        counters.extend(REFUSED.map(|(name, why)| (name.to_owned(), self.refused[why as usize])));
        let single = [("honoured", self.honoured), ("preempted", tally.preempted), ("map_nodes", tally.nodes)];
        counters.extend(single.map(|(name, count)| (name.to_owned(), count)));
        counters
    }
}
