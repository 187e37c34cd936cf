//! Eager paging (RMM15-23 to RMM15-27): a request for anonymous memory gets its frames at once, in the largest blocks there are, so
//! that it becomes few ranges.

use super::{Answer, Ask, Placement, PlacementKind};
use crate::addr::Pfn;
use crate::os::memory::Memory;
use crate::os::ranges::RANGES;
use crate::params::{Allowed, Key, Params};

const ON: Key = Key { default: "true", ..RANGES };
const ALLOCATOR: Key = Key {
    name: "allocator",
    default: "buddy",
    allowed: Allowed::OneOf(&["buddy"]),
    about: "who hands out frames: eager paging needs the blocks of the buddy allocator",
};
const MAX_ORDER: Key = Key {
    name: "max_order",
    default: "20",
    allowed: Allowed::Int { min: 1, max: 32 },
    about: "orders of the buddy allocator; its largest block has 2^(max_order-1) base pages (stock 11; RMM15-25)",
};
const THRESHOLD: Key = Key {
    name: "eager_threshold",
    default: "8",
    allowed: Allowed::Int { min: 1, max: 1 << 40 },
    about: "base pages of a request that is served at once; smaller ones wait for their touches (AMB-83)",
};
const FRAGMENTATION: Key = Key {
    name: "eager_fragmentation",
    default: "0.5",
    allowed: Allowed::Number { min: 0.0, max: 1.0 },
    about: "share of free memory in blocks too small for a request above which it waits for its touches (AMB-84)",
};
const CARVE: Key = Key {
    name: "carve",
    default: "false",
    allowed: Allowed::Flag,
    about: "what is below the largest block comes from one block of the next larger size (RMM15-27b)",
};

/// Registry entry.
pub const EAGER: PlacementKind = PlacementKind {
    name: "eager",
    about: "eager paging: frames for a request when it is made, in the largest blocks of a buddy allocator",
    keys: &[&ON, &ALLOCATOR, &MAX_ORDER, &THRESHOLD, &FRAGMENTATION, &CARVE],
    build,
};

struct Eager {
    threshold: u64,
    fragmentation: f64,
    carve: bool,
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    Ok(Box::new(Eager {
        threshold: params.int(THRESHOLD.name),
        fragmentation: params.number(FRAGMENTATION.name),
        carve: params.flag(CARVE.name),
    }))
}

impl Placement for Eager {
    fn place(&mut self, memory: &mut Memory, ask: Ask) -> Option<Pfn> {
        memory.ordinary(ask.vpn)
    }

    fn request(&mut self, memory: &mut Memory, pages: u64) -> Answer {
        if pages < self.threshold {
            return Answer::Now(Vec::new());
        }
        let buddy = memory.alloc.as_buddy().expect("the key 'allocator' allows no other");
        if buddy.fragmentation_index(pages) > self.fragmentation {
            return Answer::Fragmented;
        }
        let got = if self.carve { buddy.eager_from_next_larger(pages) } else { buddy.eager(pages) };
        memory.counts.eager_missing += got.missing;
        Answer::Now(got.blocks)
    }
}
