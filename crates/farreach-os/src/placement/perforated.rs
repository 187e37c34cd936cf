//! Perforated superpages (Park et al., ISCA 2020): a fault in private anonymous memory brings in 2 MB, with holes where
//! memory has no free block of that size left (PRF-1).

use super::contract::{FrameRequest, Placement, PlacementKind};
use crate::memory::Memory;
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::{BASE_SHIFT, Bytes, Pfn};
use farreach_types::params::{Allowed, Key, PAGE_SIZE, Params};
use farreach_types::translation::Perforated as Superpage;
use std::cmp::Reverse;

const FREE: Key = Key {
    name: "perforated_free",
    default: "0.75",
    allowed: Allowed::Number { min: 0.0, max: 1.0 },
    about: "share of the frames of an aligned 2 MB that must be free for a superpage with holes; 1: no holes",
};
const ALLOCATOR: Key = Key {
    name: "allocator",
    default: "buddy",
    allowed: Allowed::OneOf(&["buddy"]),
    about: "the frame allocator: superpages with holes take frames of a buddy allocator by their place",
};

/// Registry entry.
pub const PERFORATED: PlacementKind = PlacementKind {
    name: "perforated",
    about: "superpages of 2 MB at the first touch of private anonymous memory, with holes where memory is fragmented",
    keys: &[&FREE, &ALLOCATOR],
    build,
};

/// Frames of a block.
const FRAMES: u64 = 1 << Superpage::ORDER;

struct Perforated {
    /// Fewest free frames of a block with holes.
    least: u64,
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    if params.page_shift() != BASE_SHIFT {
        let page = Bytes(params.int(PAGE_SIZE.name));
        return Err(format!(
            "page_size = {page} is not allowed with placement = perforated: its superpages are of 512 pages of 4K; \
             page_size must be 4K"
        ));
    }
    let least = (params.number(FREE.name) * FRAMES as f64).ceil() as u64;
    Ok(Box::new(Perforated { least: least.max(1) }))
}

impl Placement for Perforated {
    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        memory.alloc_frame(request.vpn)
    }

    fn superpage_orders(&self, memory: &Memory, region: &Region, _: FrameRequest, advice: HugeAdvice) -> &[u8] {
        let private = memory.objects.get(region.object).private;
        if private && matches!(advice, HugeAdvice::None | HugeAdvice::Huge) { &[Superpage::ORDER] } else { &[] }
    }

    /// The block with the most free frames, if they are enough; of equal ones the lowest. The lowest with enough would
    /// be that from which an allocator that begins at the bottom has just taken the frames of other holes.
    fn perforated_block(&mut self, memory: &mut Memory) -> Option<(Pfn, [u64; 8])> {
        let frames =
            |block: u64| -> u64 { memory.free_in(block).iter().map(|word| u64::from(word.count_ones())).sum() };
        let blocks = (0..memory.alloc.total()? / FRAMES).map(|block| (frames(block), Reverse(block)));
        let (_, Reverse(block)) = blocks.max().filter(|(frames, _)| *frames >= self.least)?;
        let (base, free) = (block * FRAMES, memory.free_in(block));
        let is_free = |frame: &u64| free[(frame / 64) as usize] >> (frame % 64) & 1 == 1;
        let mut next = 0;
        while let Some(first) = (next..FRAMES).find(is_free) {
            next = (first..FRAMES).find(|frame| !is_free(frame)).unwrap_or(FRAMES);
            let taken = memory.alloc.take(Pfn(base + first), next - first);
            debug_assert!(taken, "they are free");
        }
        Some((Pfn(base), free.map(|word| !word)))
    }

    fn merges_neighbours(&self) -> bool {
        true
    }

    fn reuses_superpages(&self, _: u8) -> bool {
        true
    }
}
