//! Ranges of frame numbers. The allocator's frames come first. Frames of recorded machines, which are never allocated,
//! have larger numbers, so that the two never mix.

use farreach_types::addr::Pfn;

/// First frame of a dump of a live process (`placement = mapping`): 64 TB of 4 KB frames are enough for the allocator.
pub const DUMP: u64 = crate::dump::FRAMES;

/// First frame of the kernel's direct map. Below are 128 TB of 4 KB frames for the allocator and dumps, and 64 TB for
/// the page tables of a guest. The direct map ends where four levels of a host's page table do.
pub const DIRECT_MAP: u64 = 3 << 34;

/// First of the frames of zeros (LNX-2, LNX-4): 1 GB, so that a superpage of any size has its place among them. They
/// are below the direct map, where no guest has that many page tables.
pub const ZEROS: u64 = DIRECT_MAP - (1 << 18);

/// Whether a frame is none of the memory that the system allocates and frees: of the direct map, or one of zeros.
#[inline]
pub fn is_outside(pfn: Pfn) -> bool {
    pfn.0 >= ZEROS
}

/// Whether this is a frame of zeros that all processes share.
#[inline]
pub fn is_zeros(pfn: Pfn) -> bool {
    (ZEROS..DIRECT_MAP).contains(&pfn.0)
}
