//! Mosaic allocation (OS-MOS; Gosakan and others, ASPLOS 2023): a page may lie in few places, so that a few bits of an
//! entry say where. Frames are in buckets with a front and a back part. A page hashes to one bucket's front part, and,
//! if that is full, to the back parts of some buckets, of which it takes the emptiest. Nothing is evicted: a page
//! without a free place is refused, though other frames are free.

use super::contract::{FrameRequest, Placement, PlacementKind};
use crate::memory::Memory;
use farreach_types::addr::{Asid, Bytes, Pfn, Vpn};
use farreach_types::hash::mix;
use farreach_types::params::{Allowed, Key, Params, SEED};

const FRONT: Key = Key {
    name: "mos_front",
    default: "56",
    allowed: Allowed::Int { min: 1, max: 64 },
    about: "frames of the front part of a bucket (OS-MOS-1)",
};
const BACK: Key = Key {
    name: "mos_back",
    default: "8",
    allowed: Allowed::Int { min: 0, max: 63 },
    about: "frames of its back part; with mos_front at most 64",
};
const CHOICES: Key = Key {
    name: "mos_choices",
    default: "6",
    allowed: Allowed::Int { min: 1, max: 16 },
    about: "back parts that a page may lie in",
};
const MEMORY: Key = Key {
    name: "memory",
    default: "4G",
    allowed: Allowed::Size { min: 4096, or: "unlimited" },
    about: "physical memory, a whole number of base pages; places of pages are places in a limited memory",
};
const ALLOCATOR: Key = Key {
    name: "allocator",
    default: "buddy",
    allowed: Allowed::OneOf(&["fifo", "buddy"]),
    about: "the frame allocator, from which frames are taken by their places",
};

/// Registry entry.
pub const MOSAIC: PlacementKind = PlacementKind {
    name: "mosaic",
    about: "few places for each page: a bucket by hash, else the emptiest of some others (Mosaic)",
    keys: &[&FRONT, &BACK, &CHOICES, &MEMORY, &ALLOCATOR],
    build,
};

struct Mosaic {
    front: u64,
    back: u64,
    choices: u64,
    seed: u64,
    /// Number of buckets.
    buckets: u64,
    in_front: u64,
    in_back: u64,
    conflicts: u64,
    /// Frames in use at the first conflict, in millionths of those in buckets.
    full_at: Option<u64>,
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let [front, back, choices] = [&FRONT, &BACK, &CHOICES].map(|key| params.int(key.name));
    if front + back > 64 {
        return Err(format!(
            "{} = {front} with {} = {back} is not allowed: a bucket has at most 64 frames",
            FRONT.name, BACK.name
        ));
    }
    let bucket = (front + back) << params.page_shift();
    let memory = params.size(MEMORY.name);
    if memory.is_none_or(|memory| memory < bucket) {
        return Err(format!(
            "{} = {} is not allowed with placement = mosaic: it must be limited, and at least one bucket of {}",
            MEMORY.name,
            memory.map_or("unlimited".into(), |bytes| Bytes(bytes).to_string()),
            Bytes(bucket)
        ));
    }
    // OS-MOS-2.
    if params.text("compaction") != "none" {
        return Err(format!(
            "compaction = {} is not allowed with placement = mosaic: pages never move; compaction must be none",
            params.text("compaction")
        ));
    }
    let (in_front, in_back, conflicts) = (0, 0, 0);
    let (seed, buckets) = (params.int(SEED.name), memory.unwrap_or(0) / bucket);
    Ok(Box::new(Mosaic { front, back, choices, seed, buckets, in_front, in_back, conflicts, full_at: None }))
}

impl Mosaic {
    fn bucket(&self, asid: Asid, vpn: Vpn, which: u64) -> u64 {
        mix(u64::from(asid.0) << 52 ^ vpn.0, self.seed.wrapping_add(which)) % self.buckets
    }

    /// The free frames of a part of a bucket: the first, and their number.
    fn free(memory: &Memory, first: u64, frames: u64) -> (Option<Pfn>, u64) {
        let is_free = |frame: &u64| memory.alloc.free_of(frame / 64) >> (frame % 64) & 1 == 1;
        let mut free = (first..first + frames).filter(is_free);
        let first = free.next();
        (first.map(Pfn), free.count() as u64 + u64::from(first.is_some()))
    }

    /// OS-MOS-1: the front part if it is not full, else the back part with the fewest pages, of equal ones the first.
    fn place(&mut self, memory: &mut Memory, front: u64, backs: impl Iterator<Item = u64>) -> Option<Pfn> {
        let size = self.front + self.back;
        let mut found = Mosaic::free(memory, front * size, self.front).0;
        if found.is_some() {
            self.in_front += 1;
        } else {
            let mut most = 0;
            for bucket in backs {
                let (first, free) = Mosaic::free(memory, bucket * size + self.front, self.back);
                if free > most {
                    (found, most) = (first, free);
                }
            }
            self.in_back += u64::from(found.is_some());
        }
        let Some(pfn) = found else {
            self.conflicts += 1;
            let all = self.buckets * size;
            let share = |used: u64| (u128::from(used) * 1_000_000 / u128::from(all)) as u64;
            self.full_at.get_or_insert(share(memory.alloc.allocated() + memory.alloc.pinned()));
            return None;
        };
        let taken = memory.alloc.take(pfn, 1);
        debug_assert!(taken, "it is free");
        Some(pfn)
    }
}

impl Placement for Mosaic {
    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        let FrameRequest { asid, vpn, .. } = request;
        let front = self.bucket(asid, vpn, 0);
        let backs: Vec<u64> = (1..=self.choices).map(|which| self.bucket(asid, vpn, which)).collect();
        self.place(memory, front, backs.into_iter())
    }

    fn allocate_copy(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        self.allocate(memory, request)
    }

    fn why_full(&self) -> Option<String> {
        let full_at = self.full_at? as f64 / 10_000.0;
        Some(format!(
            "the page conflicts with others, all of its places are taken; the first conflict came with {full_at:.2} % \
             of memory in use"
        ))
    }

    fn counters(&self, _: &Memory) -> Vec<(String, u64)> {
        let counters = [
            ("front_pages", self.in_front),
            ("back_pages", self.in_back),
            ("conflicts", self.conflicts),
            ("first_conflict_ppm", self.full_at.unwrap_or(0)),
        ];
        counters.map(|(name, count)| (name.to_owned(), count)).into()
    }
}

#[cfg(test)]
mod tests;
