//! Large pages as in Windows (WIN-1): only on request, in whole large pages, all of which are allocated and zeroed at
//! once, or none; all other memory has base pages.
//!
//! A recorded program did not call VirtualAlloc with MEM_LARGE_PAGES. Its requests are the memory that it advises to
//! have superpages before it touches any of it, or every mapping of a whole number of aligned large pages. Where it
//! unmaps or protects a part of a large page, which Windows refuses, the large page is split.

use super::contract::{Asked, Asking, EagerGrant, FrameRequest, Placement, PlacementKind};
use super::thp::{ALLOCATOR, order};
use crate::memory::Memory;
use crate::region::HugeAdvice;
use farreach_types::addr::Pfn;
use farreach_types::params::{Allowed, Key, Params};

const SIZE: Key = Key {
    name: "win_large_page",
    default: "2M",
    allowed: Allowed::PageSize { min: 8192, max: 1 << 30 },
    about: "the large page",
};
const REQUEST: Key = Key {
    name: "win_request",
    default: "advice",
    allowed: Allowed::OneOf(&["advice", "mapping"]),
    about: "what counts as a request for large pages (WIN-1): advice (MADV_HUGEPAGE), or any mapping; either of whole \
            aligned large pages that are not touched yet",
};

/// Registry entry.
pub const WINDOWS: PlacementKind = PlacementKind {
    name: "windows",
    about: "large pages on request only, all of a request at once or none (Windows)",
    keys: &[&SIZE, &REQUEST, &ALLOCATOR],
    build,
};

struct Windows {
    order: u8,
    by_advice: bool,
    granted: u64,
    pages: u64,
    refused_size: u64,
    refused_memory: u64,
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let (order, by_advice) = (order(params, &SIZE, params.int(SIZE.name))?, params.text(REQUEST.name) == "advice");
    Ok(Box::new(Windows { order, by_advice, granted: 0, pages: 0, refused_size: 0, refused_memory: 0 }))
}

impl Placement for Windows {
    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        memory.alloc_frame(request.vpn)
    }

    fn allocate_eagerly(&mut self, memory: &mut Memory, asked: Asked) -> EagerGrant {
        let refuses = asked.advice == HugeAdvice::NoHuge;
        if refuses || asked.when != if self.by_advice { Asking::Advice } else { Asking::Call } {
            return EagerGrant::Now(Vec::new());
        }
        let page = 1 << self.order;
        if !asked.range.start.0.is_multiple_of(page) || !asked.range.pages.is_multiple_of(page) {
            self.refused_size += 1;
            return EagerGrant::Now(Vec::new());
        }
        let wanted = asked.range.pages / page;
        let mut blocks = Vec::new();
        while (blocks.len() as u64) < wanted {
            let Some(base) = memory.alloc_block(self.order.into()) else {
                blocks.into_iter().for_each(|base| memory.alloc.free_run(base, page));
                return EagerGrant::Fragmented(page);
            };
            blocks.push(base);
        }
        self.granted += 1;
        self.pages += wanted;
        EagerGrant::Superpages(blocks, self.order)
    }

    fn request_refused(&mut self, _: &mut Memory) {
        self.refused_memory += 1;
    }

    fn reuses_superpages(&self, _: u8) -> bool {
        true
    }

    fn counters(&self, _: &Memory) -> Vec<(String, u64)> {
        let counters = [
            ("large_requests", self.granted),
            ("large_pages", self.pages),
            ("large_refused_size", self.refused_size),
            ("large_refused_memory", self.refused_memory),
        ];
        counters.map(|(name, count)| (name.to_owned(), count)).into()
    }
}

#[cfg(test)]
mod tests;
