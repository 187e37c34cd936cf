//! Restrictive segments (UTO-1, UTO-5; Utopia, MICRO 2023): a page gets a frame of its set in the RestSeg of its size,
//! any way, as long as one is free. All other memory is the FlexSeg, where any page may lie. Which superpages there are
//! is said by the keys of THP.

use super::contract::{FrameRequest, Moved, Placement, PlacementKind};
use super::thp;
use crate::memory::Memory;
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::{Asid, Bytes, Pfn, Vpn};
use farreach_types::params::{Allowed, Key, Params, SEED};
use farreach_types::restseg::{RestSeg, Way};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// The page of the second RestSeg.
const LARGE: u64 = 2 << 20;

const SIZE: Key = Key {
    name: "uto_size",
    default: "512M",
    allowed: Allowed::Size { min: 4096, or: "none" },
    about: "the RestSeg for base pages, a power of two of sets, from the second RestSeg's end on (UTO-1)",
};
const SIZE_2M: Key = Key {
    name: "uto_size_2m",
    about: "the RestSeg for pages of 2 MB, at the start of memory, where thp allows such pages",
    ..SIZE
};
const WAYS: Key = Key {
    name: "uto_ways",
    default: "16",
    allowed: Allowed::Int { min: 1, max: 16 },
    about: "frames of a set of a RestSeg, whose tags are in one line (UTO-2)",
};
const HASH: Key = Key {
    name: "uto_hash",
    default: "identity",
    allowed: Allowed::OneOf(&["identity", "mix"]),
    about: "the set of a page: the low bits of its number, or of a hash of it and of its process (HW-11)",
};
const FULL: Key = Key {
    name: "uto_full",
    default: "flex",
    allowed: Allowed::OneOf(&["flex", "evict"]),
    about: "a page whose set is full is placed in the FlexSeg, or the page that was placed there first moves to the \
            FlexSeg",
};
/// UTO-6.
pub const WALKS_AT: Key = Key {
    name: "uto_walks_at",
    default: "0",
    allowed: Allowed::Int { min: 0, max: 1 << 20 },
    about: "walks of the page table for a page of the FlexSeg until it moves to its set; 0: it stays",
};

/// Registry entry.
pub const UTOPIA: PlacementKind = PlacementKind {
    name: "utopia",
    about: "restrictive segments: a page may lie in the frames of one set, or else flexibly; superpages as with thp",
    keys: &[
        &SIZE,
        &SIZE_2M,
        &WAYS,
        &HASH,
        &FULL,
        &WALKS_AT,
        &thp::THP,
        &thp::SIZE,
        &thp::SIZES,
        &thp::EVERY,
        &thp::GROUPS,
        &thp::NONE,
        &thp::SHMEM,
        &thp::SHMEM_SIZE,
        &thp::ALLOCATOR,
    ],
    build,
};

/// What was placed in a way, which may have left it since (UTO-2).
#[derive(Clone, Copy, Default)]
struct Tag {
    asid: Asid,
    vpn: Vpn,
    /// Placements until this one; 0: there was none.
    when: u64,
}

/// The RestSegs with their tags.
pub struct RestSegs {
    /// That of base pages, that of superpages.
    pub segments: Vec<RestSeg>,
    /// By segment, way after way.
    tags: Vec<Box<[Tag]>>,
    placed: u64,
}

impl RestSegs {
    /// The place of the segment of pages of `2^order`.
    fn of(&self, order: u8) -> Option<usize> {
        self.segments.iter().position(|segment| segment.order == order)
    }

    /// The ways of a set.
    fn ways(&self, place: usize, set: u64) -> impl Iterator<Item = Way> + use<> {
        (0..self.segments[place].ways).map(move |way| Way { set, way })
    }

    fn tag_at(&self, place: usize, Way { set, way }: Way) -> Tag {
        self.tags[place][(set * self.segments[place].ways + way) as usize]
    }

    /// The page that was placed in a way last, if there was one.
    pub fn placed_in(&self, place: usize, way: Way) -> Option<(Asid, Vpn)> {
        let Tag { asid, vpn, when } = self.tag_at(place, way);
        (when > 0).then_some((asid, vpn))
    }

    /// Takes the first free way of the page's set.
    fn take(&mut self, memory: &mut Memory, FrameRequest { asid, vpn, .. }: FrameRequest, place: usize) -> Option<Pfn> {
        let segment = self.segments[place];
        let mut ways = self.ways(place, segment.set(asid, vpn));
        let way = ways.find(|way| memory.pool.take_run(segment.frame(*way), 1 << segment.order))?;
        self.placed += 1;
        self.tags[place][(way.set * segment.ways + way.way) as usize] = Tag { asid, vpn, when: self.placed };
        memory.counts.restseg_pages += 1 << segment.order;
        Some(segment.frame(way))
    }
}

struct Utopia {
    restsegs: RestSegs,
    /// Which superpages faults and the background may bring in.
    thp: Box<dyn Placement>,
    evicts: bool,
    walks_at: u64,
    /// Walks of pages of the FlexSeg since they were placed there, by their first base page.
    walks: HashMap<(Asid, Vpn), u64, FixedState>,
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let ways = params.int(WAYS.name);
    let mixed = (params.text(HASH.name) == "mix").then(|| params.int(SEED.name));
    let (mut segments, mut tags, mut next) = (Vec::new(), Vec::new(), 0);
    // That of superpages lies first, because of its alignment.
    for (key, page) in [(SIZE_2M, LARGE), (SIZE, 1 << params.page_shift())] {
        let Some(bytes) = params.size(key.name) else { continue };
        let sets = bytes / (page * ways);
        if sets * page * ways != bytes || !sets.is_power_of_two() {
            return Err(format!(
                "{} = {} is not allowed with {} = {ways}: it must be a power of two of sets of {} (HW-13)",
                key.name,
                Bytes(bytes),
                WAYS.name,
                Bytes(page * ways)
            ));
        }
        let order = params.order(key.name, page)? as u8;
        let segment = RestSeg { first: Pfn(next), order, sets, ways, mixed };
        next += segment.frames();
        tags.insert(0, vec![Tag::default(); (sets * ways) as usize].into());
        segments.insert(0, segment);
    }
    Ok(Box::new(Utopia {
        restsegs: RestSegs { segments, tags, placed: 0 },
        thp: thp::build(params)?,
        evicts: params.text(FULL.name) == "evict",
        walks_at: params.int(WALKS_AT.name),
        walks: HashMap::default(),
    }))
}

impl Utopia {
    /// UTO-5. None: there is no such RestSeg, or the set is full.
    fn place(&mut self, memory: &mut Memory, request: FrameRequest, order: u8) -> Option<Pfn> {
        // Walks count since a page was placed.
        self.walks.remove(&(request.asid, request.vpn));
        let place = self.restsegs.of(order)?;
        let taken = self.restsegs.take(memory, request, place);
        memory.counts.restseg_full += u64::from(taken.is_none());
        taken
    }
}

impl Placement for Utopia {
    fn set_up(&mut self, memory: &mut Memory) -> Result<(), String> {
        for segment in &self.restsegs.segments {
            if !memory.alloc.take(segment.first, segment.frames()) {
                let key = if segment.order == 0 { SIZE } else { SIZE_2M };
                return Err(format!(
                    "{} = {} is not allowed: the first {} of memory must exist and be free, and the \
                     allocator must be fifo or buddy",
                    key.name,
                    Bytes(segment.frames() * memory.page_bytes()),
                    Bytes((segment.first.0 + segment.frames()) * memory.page_bytes()),
                ));
            }
            memory.pool.add(segment.first, segment.frames());
        }
        Ok(())
    }

    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        self.place(memory, request, 0).or_else(|| memory.alloc_frame(request.vpn))
    }

    fn allocate_copy(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        self.allocate(memory, request)
    }

    fn superpage_orders(&self, memory: &Memory, region: &Region, request: FrameRequest, advice: HugeAdvice) -> &[u8] {
        self.thp.superpage_orders(memory, region, request, advice)
    }

    fn superpage_block(&mut self, memory: &mut Memory, request: FrameRequest, order: u8) -> Option<Pfn> {
        self.place(memory, request, order).or_else(|| memory.alloc_block(order.into()))
    }

    fn merges_neighbours(&self) -> bool {
        self.thp.merges_neighbours()
    }

    fn reuses_superpages(&self, order: u8) -> bool {
        self.thp.reuses_superpages(order)
    }

    fn collapse_policy(&self) -> Option<super::contract::CollapsePolicy> {
        self.thp.collapse_policy()
    }

    fn restsegs(&self) -> Option<&RestSegs> {
        Some(&self.restsegs)
    }

    fn in_the_way(&self, memory: &Memory, request: FrameRequest, order: u8) -> Vec<Moved> {
        let Some(place) = self.restsegs.of(order).filter(|_| self.evicts) else { return Vec::new() };
        let segment = &self.restsegs.segments[place];
        let set = segment.set(request.asid, request.vpn);
        let is_free = |way: Way| memory.pool.has_free(segment.frame(way), 1 << order);
        let mut ways: Vec<Way> = self.restsegs.ways(place, set).collect();
        if ways.iter().any(|way| is_free(*way)) {
            return Vec::new();
        }
        ways.sort_by_key(|way| self.restsegs.tag_at(place, *way).when);
        let page = |way: Way| {
            let Tag { asid, vpn, .. } = self.restsegs.tag_at(place, way);
            Moved { asid, vpn, from: segment.frame(way), order }
        };
        ways.into_iter().map(page).collect()
    }

    fn counts_walks(&self) -> bool {
        self.walks_at > 0
    }

    fn walked(&mut self, asid: Asid, vpn: Vpn, pfn: Pfn, order: u8) -> bool {
        // Memory that is shared, or that mremap moved, has an entry in the page table though it lies in a RestSeg.
        let flexible = |segment: &RestSeg| segment.way(pfn).is_none();
        if self.restsegs.of(order).is_none() || !self.restsegs.segments.iter().all(flexible) {
            return false;
        }
        let walks = self.walks.entry((asid, vpn)).or_default();
        *walks += 1;
        *walks >= self.walks_at
    }

    fn allocate_restricted(&mut self, memory: &mut Memory, request: FrameRequest, order: u8) -> Option<Pfn> {
        let moved = self.restsegs.of(order).and_then(|place| self.restsegs.take(memory, request, place))?;
        self.walks.remove(&(request.asid, request.vpn));
        Some(moved)
    }
}
