//! The keys of physical memory in a machine description, and the allocator they describe.

use super::{Buddy, Colouring, Fifo, Fragmentation, FrameAllocator, Memory, Pick};
use crate::addr::{BASE_SHIFT, Bytes};
use crate::params::{Allowed, Key, Params};

/// Keys of every machine with physical frames.
pub const KEYS: [Key; 8] = [
    Key {
        name: "allocator",
        default: "fifo",
        allowed: Allowed::OneOf(&["fifo", "buddy", "colouring"]),
        about: "who hands out frames: a list with free groups (T94), a Linux-like buddy allocator, or page colouring",
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
        allowed: Allowed::Text,
        about: "file that lists the frames that belong to others; needs a finite memory",
    },
    Key {
        name: "buddyinfo",
        default: "",
        allowed: Allowed::Text,
        about: "copy of /proc/buddyinfo that says how many blocks of each order are free; the rest belongs to others",
    },
    Key {
        name: "colours",
        default: "16",
        allowed: Allowed::Int { min: 1, max: 1 << 20 },
        about: "colours of the colouring allocator",
    },
];

/// The allocator that `params` describe, for base pages of `2^base_shift` bytes. The error names key, value and what is allowed.
pub fn build(params: &Params, base_shift: u32, seed: u64) -> Result<Box<dyn FrameAllocator>, String> {
    let memory = memory(params, base_shift, seed)?;
    Ok(match params.text("allocator") {
        "buddy" => {
            let pick = if params.flag("address_ordered") { Pick::LowestAddress } else { Pick::LastFreed };
            Box::new(Buddy::new(memory, params.int("max_order") as u32, pick))
        }
        "colouring" => Box::new(Colouring::new(memory, params.int("colours"), seed)),
        _ => Box::new(Fifo::new(memory)),
    })
}

/// The memory that `params` describe.
pub fn memory(params: &Params, base_shift: u32, seed: u64) -> Result<Memory, String> {
    let frames = params.size("memory").map(|bytes| match bytes >> base_shift {
        frames if frames > 0 && frames << base_shift == bytes => Ok(frames),
        _ => Err(format!("memory = {} is not a whole number of base pages of {}", Bytes(bytes), Bytes(1 << base_shift))),
    });
    fragmentation(params, seed)?.resolve(frames.transpose()?)
}

fn fragmentation(params: &Params, seed: u64) -> Result<Fragmentation, String> {
    let (fraction, pattern, buddyinfo) = (params.number("fragmentation"), params.text("pattern"), params.text("buddyinfo"));
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
