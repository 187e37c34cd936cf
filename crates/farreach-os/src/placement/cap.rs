//! Contiguity-aware paging (CAP; Alverti et al., ISCA 2020): the pages of an object get frames at a constant distance,
//! so that they follow each other in memory. The distance is chosen at the first fault, such that the free memory from
//! there on holds all pages; nothing is reserved. When the frame at this distance is taken, a superpage gets a new
//! distance and a base page any frame. Superpages are those of `thp`.
//!
//! Where the rules are silent:
//!
//! * The state of a region is kept with its object, so that it survives a split and a move. Pages are numbered as
//!   the object numbers them: memory by the addresses of its first mapping.
//! * The address of a new pair is the page of the fault, of a superpage its first page.
//! * A block that the rover points at may be taken. A placement starts at the next free block above then, circularly.
//! * One page may split any block but the largest, also with another `max_order`.
//! * Without a placement, because no largest block is free, frames are ordinary ones, and no pair is noted.
//! * A copy of a shared page gets an ordinary frame: that of its place is taken.

use super::contract::{CollapsePolicy, FrameRequest, Placement, PlacementKind};
use super::thp::{EVERY, GROUPS, NONE, SHMEM, SHMEM_SIZE, SIZE, SIZES, THP, THP_KIND};
use crate::memory::Memory;
use crate::region::{HugeAdvice, Region};
use farreach_types::addr::Pfn;
use farreach_types::params::{Allowed, Key, PAGE_SIZE, Params};

pub(super) const ALLOCATOR: Key = Key {
    name: "allocator",
    default: "buddy",
    allowed: Allowed::OneOf(&["buddy"]),
    about: "the frame allocator: the policy needs the blocks of the buddy allocator",
};

/// Registry entry.
pub const CAP: PlacementKind = PlacementKind {
    name: "cap",
    about: "contiguity-aware paging: pages of an object get frames at a constant distance (Alverti et al. 2020)",
    keys: &[&THP, &SIZE, &SIZES, &EVERY, &GROUPS, &NONE, &SHMEM, &SHMEM_SIZE, &ALLOCATOR],
    build,
};

/// Pairs of an object (CAP-1).
const PAIRS: usize = 64;

/// A ring of pairs: from this page of the object on, frame = page - offset, wrapping (CAP-1).
#[derive(Debug, Default)]
pub struct Offsets {
    pairs: Vec<(u64, u64)>,
    oldest: usize,
}

impl Offsets {
    /// CAP-5: of the pairs the one with the largest address that is not above the page, else the smallest above.
    fn offset(&self, page: u64) -> Option<u64> {
        let below = self.pairs.iter().filter(|pair| pair.0 <= page).max_by_key(|pair| pair.0);
        below.or_else(|| self.pairs.iter().min_by_key(|pair| pair.0)).map(|pair| pair.1)
    }

    /// The smallest address above the page.
    fn next(&self, page: u64) -> Option<u64> {
        self.pairs.iter().map(|pair| pair.0).filter(|at| *at > page).min()
    }

    /// Notes a pair; true if it took the place of another one. A page has one pair.
    fn note(&mut self, page: u64, offset: u64) -> bool {
        if let Some(pair) = self.pairs.iter_mut().find(|pair| pair.0 == page) {
            pair.1 = offset;
            return false;
        }
        if self.pairs.len() < PAIRS {
            self.pairs.push((page, offset));
            return false;
        }
        self.pairs[self.oldest] = (page, offset);
        self.oldest = (self.oldest + 1) % PAIRS;
        true
    }
}

/// What became of a target (CAP-6).
#[derive(Clone, Copy)]
enum Target {
    Hit,
    Occupied,
    /// The free block around it is smaller than the request.
    Small,
    /// The free block around it is of the largest order, which one page must not split.
    Large,
}

const TARGETS: [(&str, Target); 4] = [
    ("targets_hit", Target::Hit),
    ("targets_occupied", Target::Occupied),
    ("targets_small", Target::Small),
    ("targets_large", Target::Large),
];

struct Cap {
    /// Which memory gets superpages.
    thp: Box<dyn Placement>,
    /// The largest superpage.
    largest: u32,
    rover: u64,
    placements: u64,
    targets: [u64; TARGETS.len()],
    misaligned: u64,
    overwritten: u64,
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let thp = (THP_KIND.build)(params)?;
    let size = |key: &Key| params.int(key.name) / params.int(PAGE_SIZE.name);
    let superpages = params.text(THP.name) != "never";
    let shared = params.text(SHMEM.name) != "never";
    let pages = if superpages { size(&SIZE) } else { 1 }.max(if shared { size(&SHMEM_SIZE) } else { 1 });
    let (rover, placements, misaligned, overwritten) = (0, 0, 0, 0);
    let (largest, targets) = (pages.ilog2(), [0; TARGETS.len()]);
    Ok(Box::new(Cap { thp, largest, rover, placements, targets, misaligned, overwritten }))
}

impl Cap {
    /// CAP-3: the first frame for this number of pages. `None` if no block of the largest order is free.
    fn place(&mut self, memory: &Memory, pages: u64) -> Option<u64> {
        let buddy = memory.alloc.blocks()?;
        let (runs, block) = (buddy.runs()?, buddy.max_block());
        let pages = pages.div_ceil(block).saturating_mul(block);
        let mut best = 0..0;
        for run in runs.around(self.rover) {
            if run.end - run.start > best.end - best.start {
                best = run;
            }
            if best.end - best.start >= pages {
                break;
            }
        }
        if best.is_empty() {
            return None;
        }
        self.placements += 1;
        let larger = best.end - best.start > pages;
        self.rover = if larger { best.start + pages } else { runs.after(best.start)? };
        Some(best.start)
    }

    /// CAP-6: takes the target out of the free block around it.
    fn take(&mut self, memory: &mut Memory, target: u64, order: u32) -> Option<Pfn> {
        let buddy = memory.alloc.blocks()?;
        let found = match buddy.free_block_around(Pfn(target)) {
            None => Target::Occupied,
            Some(around) if around < order => Target::Small,
            Some(around) if order == 0 && around + 1 == buddy.max_order() => Target::Large,
            Some(_) => Target::Hit,
        };
        self.targets[found as usize] += 1;
        (matches!(found, Target::Hit) && memory.alloc.take(Pfn(target), 1 << order)).then_some(Pfn(target))
    }

    /// CAP-4 to CAP-6: the frames at the distance that the object has for this page, if they are free.
    fn aim(&mut self, memory: &mut Memory, request: FrameRequest, order: u32) -> Option<Pfn> {
        let object = memory.objects.get(request.object);
        let offset = match object.offsets.offset(request.page) {
            Some(offset) => offset,
            None => {
                let (first, end) = object.ends();
                let offset = first.wrapping_sub(self.place(memory, end - first)?);
                memory.objects.get_mut(request.object).offsets.note(request.page, offset);
                offset
            }
        };
        let target = request.page.wrapping_sub(offset);
        let below = (1 << order) - 1;
        let aligned = target.wrapping_add(below) & !below;
        self.misaligned += u64::from(aligned != target);
        self.take(memory, aligned, order)
    }

    /// CAP-7: a superpage in another place, and the distance of the pages after it.
    fn place_again(&mut self, memory: &mut Memory, request: FrameRequest, order: u32) -> Option<Pfn> {
        let object = memory.objects.get(request.object);
        // No pair: there was no placement a moment ago.
        object.offsets.offset(request.page)?;
        let end = object.offsets.next(request.page).unwrap_or(object.ends().1);
        let first = self.place(memory, end.saturating_sub(request.page).max(1 << order))?;
        let taken = memory.alloc.take(Pfn(first), 1 << order);
        assert!(taken, "a placement is free");
        let offset = request.page.wrapping_sub(first);
        self.overwritten += u64::from(memory.objects.get_mut(request.object).offsets.note(request.page, offset));
        Some(Pfn(first))
    }
}

impl Placement for Cap {
    fn set_up(&mut self, memory: &mut Memory) -> Result<(), String> {
        let buddy = memory.alloc.blocks_mut().expect("the key allows no other allocator");
        if self.largest >= buddy.max_order() {
            return Err(format!(
                "max_order = {} is not allowed with these superpages: a block of 2^{} pages must be one of its blocks, \
                 so max_order must be larger than {}",
                buddy.max_order(),
                self.largest,
                self.largest
            ));
        }
        buddy.watch_runs();
        Ok(())
    }

    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        self.aim(memory, request, 0).or_else(|| memory.alloc_frame(request.vpn))
    }

    fn superpage_block(&mut self, memory: &mut Memory, request: FrameRequest, order: u8) -> Option<Pfn> {
        let order = u32::from(order);
        let aimed = self.aim(memory, request, order).or_else(|| self.place_again(memory, request, order));
        aimed.or_else(|| memory.alloc_block(order))
    }

    fn superpage_orders(&self, memory: &Memory, region: &Region, request: FrameRequest, advice: HugeAdvice) -> &[u8] {
        self.thp.superpage_orders(memory, region, request, advice)
    }

    fn merges_neighbours(&self) -> bool {
        self.thp.merges_neighbours()
    }

    fn reuses_superpages(&self, order: u8) -> bool {
        self.thp.reuses_superpages(order)
    }

    fn collapse_policy(&self) -> Option<CollapsePolicy> {
        self.thp.collapse_policy()
    }

    fn counters(&self, _: &Memory) -> Vec<(String, u64)> {
        let mut counters = vec![("placements", self.placements)];
        counters.extend(TARGETS.map(|(name, target)| (name, self.targets[target as usize])));
        counters.extend([("targets_misaligned", self.misaligned), ("pairs_overwritten", self.overwritten)]);
        counters.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
    }
}

#[cfg(test)]
mod compare;
#[cfg(test)]
mod tests;
