//! Eager paging (RMM15-23 to RMM15-27): a request for anonymous memory gets its frames at once, in the largest free
//! blocks, so that it becomes few ranges.

use super::contract::{Asked, Asking, EagerGrant, FrameRequest, Placement, PlacementKind};
use crate::memory::Memory;
use crate::ranges::policy::RANGES;
use farreach_types::addr::{Asid, Bytes, Pfn, Vpn, VpnRange};
use farreach_types::params::{Allowed, Key, Params};
use std::collections::{BTreeMap, VecDeque};

const ON: Key = Key { default: "true", ..RANGES };
const ALLOCATOR: Key = Key {
    name: "allocator",
    default: "buddy",
    allowed: Allowed::OneOf(&["buddy"]),
    about: "the frame allocator: eager paging needs the blocks of the buddy allocator",
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
const AT: Key = Key {
    name: "eager_at",
    default: "request",
    allowed: Allowed::OneOf(&["request", "touch", "reserve"]),
    about: "when a request gets its frames: at once; at the first touch of any of its pages; or at once, but held back \
            for pages that are mapped and zeroed when they are touched (EGR-1)",
};
const CARVE: Key = Key {
    name: "carve",
    default: "false",
    allowed: Allowed::Flag,
    about: "what is below the largest block comes from one block of the next larger size (RMM15-27b)",
};

const CHUNK: Key = Key {
    name: "chunk",
    default: "none",
    allowed: Allowed::Size { min: 4096, or: "none" },
    about: "what the program's allocator asks for at a time; smaller requests are served from it (RMM15-32: TCMalloc, \
            32M)",
};

/// Registry entry.
pub const EAGER: PlacementKind = PlacementKind {
    name: "eager",
    about: "eager paging: frames for a request when it is made, in the largest blocks of a buddy allocator",
    keys: &[&ON, &ALLOCATOR, &MAX_ORDER, &THRESHOLD, &FRAGMENTATION, &CARVE, &CHUNK, &AT],
    build,
};

/// When a request gets its frames (EGR-1).
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Request,
    Touch,
    Reserve,
}

struct Eager {
    at: At,
    /// Requests that nothing has touched, by process and first page: their numbers of pages.
    waiting: BTreeMap<(Asid, Vpn), u64>,
    threshold: u64,
    fragmentation: f64,
    carve: bool,
    /// Pages of a chunk; 0: no allocator, every request goes to the system.
    chunk: u64,
    /// The unused parts of the chunks of each process, in the order in which they are given.
    left: BTreeMap<Asid, VecDeque<(Pfn, u64)>>,
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let page = 1 << params.page_shift();
    let chunk = params.size(CHUNK.name).unwrap_or(0);
    if !chunk.is_multiple_of(page) {
        let (chunk, page) = (Bytes(chunk), Bytes(page));
        return Err(format!("chunk = {chunk} is not allowed: chunk must be a multiple of page_size, {page}"));
    }
    let at = match params.text(AT.name) {
        "touch" => At::Touch,
        "reserve" => At::Reserve,
        _ => At::Request,
    };
    Ok(Box::new(Eager {
        at,
        waiting: BTreeMap::new(),
        chunk: chunk / page,
        left: BTreeMap::new(),
        threshold: params.int(THRESHOLD.name),
        fragmentation: params.number(FRAGMENTATION.name),
        carve: params.flag(CARVE.name),
    }))
}

impl Placement for Eager {
    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        memory.alloc_frame(request.vpn)
    }

    fn allocate_eagerly(&mut self, memory: &mut Memory, asked: Asked) -> EagerGrant {
        let Asked { asid, range, when, .. } = asked;
        match (self.at, when) {
            (_, Asking::Advice) => return EagerGrant::Now(Vec::new()),
            (At::Touch, Asking::Call) => {
                self.wait(asid, range);
                return EagerGrant::Now(Vec::new());
            }
            _ => {}
        }
        let pages = range.pages;
        let grant = if pages < self.chunk {
            self.out_of_chunks(memory, asid, pages)
        } else {
            self.largest_blocks(memory, pages)
        };
        match grant {
            EagerGrant::Now(blocks) if self.at == At::Reserve => EagerGrant::Reserved(blocks),
            grant => grant,
        }
    }

    fn request_at(&mut self, asid: Asid, vpn: Vpn) -> Option<VpnRange> {
        let (&(of, start), &pages) = self.waiting.range(..=(asid, vpn)).next_back()?;
        let range = VpnRange { start, pages };
        if of != asid || !range.contains(vpn) {
            return None;
        }
        self.waiting.remove(&(of, start));
        Some(range)
    }

    fn request_refused(&mut self, memory: &mut Memory) {
        memory.counts.eager_refused += 1;
    }

    fn release_kept(&mut self, memory: &mut Memory, asid: Option<Asid>) -> bool {
        self.waiting.retain(|(of, _), _| asid != Some(*of));
        let whose: Vec<Asid> = self.left.keys().copied().filter(|a| asid.is_none_or(|asid| asid == *a)).collect();
        let mut any = false;
        for (base, pages) in whose.iter().filter_map(|asid| self.left.remove(asid)).flatten() {
            any = true;
            memory.unkeep(pages);
            memory.counts.chunk_unused_pages += pages;
            memory.alloc.free_run(base, pages);
        }
        any
    }
}

impl Eager {
    /// Notes a request until its first touch. What was there before is gone.
    fn wait(&mut self, asid: Asid, range: VpnRange) {
        let overlaps = |(of, start): &(Asid, Vpn), pages: &mut u64| {
            *of == asid && VpnRange { start: *start, pages: *pages }.overlaps(&range)
        };
        self.waiting.retain(|key, pages| !overlaps(key, pages));
        self.waiting.insert((asid, range.start), range.pages);
    }

    /// A request of the system: of the program, or of its allocator for a chunk.
    fn largest_blocks(&self, memory: &mut Memory, pages: u64) -> EagerGrant {
        if pages < self.threshold {
            return EagerGrant::Now(Vec::new());
        }
        let buddy = memory.alloc.blocks_mut().expect("the key 'allocator' allows no other");
        if buddy.fragmentation_index(pages) > self.fragmentation {
            return EagerGrant::Fragmented(pages);
        }
        let got = if self.carve { buddy.eager_from_next_larger(pages) } else { buddy.eager(pages) };
        memory.counts.eager_missing += got.missing;
        EagerGrant::Now(got.blocks)
    }

    /// A request to the program's allocator, which serves it from its chunks. Pages that they do not cover get frames
    /// when they are touched.
    fn out_of_chunks(&mut self, memory: &mut Memory, asid: Asid, pages: u64) -> EagerGrant {
        let (mut blocks, mut wanted) = (Vec::new(), pages);
        while wanted > 0 {
            let left = self.left.entry(asid).or_default();
            let Some((base, there)) = left.pop_front() else {
                match self.largest_blocks(memory, self.chunk) {
                    EagerGrant::Now(chunk) if !chunk.is_empty() => {
                        let pages = chunk.iter().map(|(_, n)| n).sum();
                        memory.keep(pages);
                        memory.counts.chunk_requests += 1;
                        memory.counts.chunk_pages += pages;
                        self.left.insert(asid, chunk.into());
                        continue;
                    }
                    refusal @ EagerGrant::Fragmented(_) if blocks.is_empty() => return refusal,
                    _ => break,
                }
            };
            let given = there.min(wanted);
            if there > given {
                left.push_front((Pfn(base.0 + given), there - given));
            }
            memory.unkeep(given);
            wanted -= given;
            blocks.push((base, given));
        }
        EagerGrant::Now(blocks)
    }
}

#[cfg(test)]
mod tests;
