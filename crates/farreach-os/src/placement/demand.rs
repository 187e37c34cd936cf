//! Demand paging: at the first touch, the next free frame.

use super::contract::{FrameRequest, Placement, PlacementKind};
use crate::memory::Memory;
use farreach_types::addr::Pfn;

/// Registry entry.
pub const DEMAND: PlacementKind = PlacementKind {
    name: "demand",
    about: "one frame at the first touch of a page, the next free one",
    keys: &[],
    build: |_| Ok(Box::new(Demand)),
};

struct Demand;

impl Placement for Demand {
    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        memory.alloc_frame(request.vpn)
    }
}
