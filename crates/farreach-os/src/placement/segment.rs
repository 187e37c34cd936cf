//! The policy of direct segments (DS13-10 to DS13-26): the programs that get one, and the memory it covers.
//! `crate::segment` is the mechanism.

use super::contract::{FrameRequest, OnFork, Placement, PlacementKind, SegmentPolicy};
use crate::memory::Memory;
use farreach_types::addr::{Bytes, Pfn};
use farreach_types::params::{Allowed, Key, Params};

const POOL: Key = Key {
    name: "segment_memory",
    default: "1G",
    allowed: Allowed::Size { min: 4096, or: "none" },
    about: "memory set aside for segments when the system starts (DS13-13)",
};
const PROVISION: Key = Key {
    name: "provision",
    default: "eager",
    allowed: Allowed::OneOf(&["eager", "lazy"]),
    about: "address space of the primary region: reserved ahead, holes included, or just what is mapped without a gap \
            (DS13-11)",
};
const PRIMARY: Key = Key {
    name: "primary",
    default: "all",
    allowed: Allowed::OneOf(&["all", "heap", "large"]),
    about: "what goes there: all private anonymous read-write memory but stacks, the heap, or regions of primary_min \
            (DS13-12, AMB-60)",
};
const MIN: Key = Key {
    name: "primary_min",
    default: "1M",
    allowed: Allowed::Size { min: 4096, or: "any" },
    about: "size of a region that counts as large",
};
const PROGRAMS: Key = Key {
    name: "programs",
    default: "",
    allowed: Allowed::Texts,
    about: "programs that get a segment, by path or file name; none named: those with admit_min (DS13-14)",
};
const ADMIT: Key = Key {
    name: "admit_min",
    default: "1M",
    allowed: Allowed::Size { min: 4096, or: "any" },
    about: "primary region from which a process gets a segment when no programs are named",
};
const MODE: Key = Key {
    name: "segment_mode",
    default: "hardware",
    allowed: Allowed::OneOf(&["hardware", "emulation"]),
    about: "registers, or page faults that map the page the registers would give (DS13-25)",
};
const FORK: Key = Key {
    name: "segment_fork",
    default: "revert",
    allowed: Allowed::OneOf(&["revert", "copy"]),
    about: "fork of a process with a segment: back to pages until the child ends, or the child gets copies at once \
            (AMB-64)",
};
const LEND: Key = Key {
    name: "segment_lend",
    default: "true",
    allowed: Allowed::Flag,
    about: "when memory is full, unused memory of segments serves others; segments shrink for it (DS13-22)",
};

/// Registry entry.
pub const SEGMENT: PlacementKind = PlacementKind {
    name: "segment",
    about: "direct segments: one contiguous piece of memory for the largest piece of private anonymous memory of a \
            process",
    keys: &[&POOL, &PROVISION, &PRIMARY, &MIN, &PROGRAMS, &ADMIT, &MODE, &FORK, &LEND],
    build,
};

/// Largest block that frames are set aside in, as log2 of base pages.
const LARGEST: u32 = 16;

struct Segments {
    primary: SegmentPolicy,
    bytes: u64,
}

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let shift = params.page_shift();
    let pages = |key: &Key| params.size(key.name).unwrap_or(0).div_ceil(1 << shift);
    let bytes = params.size(POOL.name).unwrap_or(0);
    if !bytes.is_multiple_of(1 << shift) {
        return Err(format!("segment_memory = {} is not allowed: it must be a multiple of page_size", Bytes(bytes)));
    }
    Ok(Box::new(Segments {
        primary: SegmentPolicy {
            eager: params.text(PROVISION.name) == "eager",
            heap_only: params.text(PRIMARY.name) == "heap",
            least: if params.text(PRIMARY.name) == "large" { pages(&MIN) } else { 0 },
            programs: params.texts(PROGRAMS.name),
            admit: pages(&ADMIT),
            emulation: params.text(MODE.name) == "emulation",
            on_fork: if params.text(FORK.name) == "copy" { OnFork::Copy } else { OnFork::Revert },
            lend: params.flag(LEND.name),
        },
        bytes,
    }))
}

impl Placement for Segments {
    fn set_up(&mut self, memory: &mut Memory) -> Result<(), String> {
        let mut left = self.bytes / memory.page_bytes();
        let mut order = LARGEST;
        // SEG-4: the largest blocks first. In fresh memory they are adjacent.
        while left > 0 {
            let blocks = left >> order;
            left -= memory.set_aside(blocks, order) << order;
            match order.checked_sub(1) {
                Some(smaller) => order = smaller,
                None if left > 0 => {
                    let (bytes, missing) = (Bytes(self.bytes), Bytes(left * memory.page_bytes()));
                    return Err(format!(
                        "segment_memory = {bytes} is not allowed: memory is {missing} too small for it"
                    ));
                }
                None => {}
            }
        }
        Ok(())
    }

    fn allocate(&mut self, memory: &mut Memory, request: FrameRequest) -> Option<Pfn> {
        memory.alloc_frame(request.vpn)
    }

    fn segment_policy(&self) -> Option<&SegmentPolicy> {
        Some(&self.primary)
    }
}
