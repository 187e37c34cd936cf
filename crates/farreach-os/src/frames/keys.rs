//! The keys of physical memory in a machine description, and the allocator they describe.

use super::buddy::{Buddy, Pick};
use super::colour::Colouring;
use super::contract::FrameAllocator;
use super::fifo::Fifo;
use super::fragmentation::{Fragmentation, may_move};
use super::pinned::PhysicalMemory;
use farreach_types::addr::{BASE_SHIFT, Bytes};
use farreach_types::params::{Allowed, Key, Params};

/// F-14: what compaction may move besides the pages of the program.
const MOVABLE: Key = Key {
    name: "movable",
    default: "0",
    allowed: Allowed::Number { min: 0.0, max: 1.0 },
    about: "share of the aligned 2 MB in which compaction may move the frames of others (Linux: movable pageblocks); \
            the rest stays",
};

/// Aligned memory in which either all frames of others may be moved or none, as kernels keep it: log2 of its bytes.
const PAGEBLOCK: u32 = 21;

/// Keys of every machine with physical frames.
pub const KEYS: [Key; 9] = [
    Key {
        name: "allocator",
        default: "fifo",
        allowed: Allowed::OneOf(&["fifo", "buddy", "colouring"]),
        about: "the frame allocator: a list with free groups (T94), a Linux-like buddy allocator, or page colouring",
    },
    Key {
        name: "memory",
        default: "unlimited",
        allowed: Allowed::Size { min: 1 << BASE_SHIFT, or: "unlimited" },
        about: "physical memory, a whole number of base pages",
    },
    Key {
        name: "max_order",
        default: "11",
        allowed: Allowed::Int { min: 1, max: 32 },
        about: "orders of the buddy allocator; its largest block has 2^(max_order-1) base pages",
    },
    Key {
        name: "address_ordered",
        default: "false",
        allowed: Allowed::Flag,
        about: "the buddy allocator takes the block with the lowest address instead of the one freed last",
    },
    Key {
        name: "fragmentation",
        default: "0",
        allowed: Allowed::Number { min: 0.0, max: 0.99 },
        about: "fraction of the frames that belong to others, scattered at random; needs a finite memory",
    },
    Key {
        name: "pattern",
        default: "",
        allowed: Allowed::File,
        about: "file that lists the frames that belong to others; needs a finite memory",
    },
    Key {
        name: "buddyinfo",
        default: "",
        allowed: Allowed::File,
        about: "copy of /proc/buddyinfo that says how many blocks of each order are free; the rest belongs to others",
    },
    MOVABLE,
    Key {
        name: "colours",
        default: "16",
        allowed: Allowed::Int { min: 1, max: 1 << 20 },
        about: "colours of the colouring allocator",
    },
];

/// The allocator that `params` describe, for base pages of `2^base_shift` bytes. The error names key, value and what is
/// allowed.
pub fn build(params: &Params, base_shift: u32, seed: u64) -> Result<Box<dyn FrameAllocator>, String> {
    let mut memory = memory(params, base_shift, seed)?;
    let (movable, allocator) = (params.number(MOVABLE.name), params.text("allocator"));
    if movable > 0.0 {
        if allocator != "buddy" {
            return Err(format!(
                "{} = {movable} is not allowed: with allocator = {allocator} it must be 0",
                MOVABLE.name
            ));
        }
        memory = may_move(memory, 1 << PAGEBLOCK.saturating_sub(base_shift), movable, seed);
    }
    Ok(match allocator {
        "buddy" => {
            let pick = if params.flag("address_ordered") { Pick::LowestAddress } else { Pick::LastFreed };
            Box::new(Buddy::new(memory, params.int("max_order") as u32, pick))
        }
        "colouring" => Box::new(Colouring::new(memory, params.int("colours"), seed)),
        _ => Box::new(Fifo::new(memory)),
    })
}

/// The memory that `params` describe.
pub fn memory(params: &Params, base_shift: u32, seed: u64) -> Result<PhysicalMemory, String> {
    let frames = params.size("memory").map(|bytes| match bytes >> base_shift {
        frames if frames > 0 && frames << base_shift == bytes => Ok(frames),
        _ => {
            Err(format!("memory = {} is not a whole number of base pages of {}", Bytes(bytes), Bytes(1 << base_shift)))
        }
    });
    fragmentation(params, seed)?.resolve(frames.transpose()?)
}

fn fragmentation(params: &Params, seed: u64) -> Result<Fragmentation, String> {
    let (fraction, pattern, buddyinfo) =
        (params.number("fragmentation"), params.text("pattern"), params.text("buddyinfo"));
    Ok(match (fraction > 0.0, pattern.is_empty(), buddyinfo.is_empty()) {
        (false, true, true) => Fragmentation::None,
        (true, true, true) => Fragmentation::Fraction { fraction, seed },
        (false, false, true) => Fragmentation::Pattern(pattern.into()),
        (false, true, false) => Fragmentation::BuddyInfo { path: buddyinfo.into(), seed },
        _ => {
            let given = format!("fragmentation = {fraction}, pattern = '{pattern}', buddyinfo = '{buddyinfo}'");
            return Err(format!("{given}: only one of the three may be given"));
        }
    })
}
